"""Label trees in training: from `LabelTree` to a model's arrays, level after level, and where biases start."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hf_xmtc.models.label_tree_model import LabelTreeModel
from hf_xmtc.models.modeling_attentionxml import AttentionXMLForXMTC

if TYPE_CHECKING:  # so that models without a tree do without scipy and datasets
    from datasets import Dataset
    from transformers import Trainer

    from hf_xmtc.label_tree import LabelTree

__all__ = [
    "candidate_recall",
    "initialize_tree_bias",
    "label_clusters",
    "level_model",
    "set_label_tree",
    "train_levels",
    "with_node_labels",
]


def set_label_tree(model: LabelTreeModel, tree: "LabelTree") -> None:
    """Give a model its label tree, before it is trained.

    Args:
        model: A model with ``tree_level_sizes``.
        tree: A tree over its labels.

    Raises:
        ValueError: If the tree covers other labels, or has levels of other sizes.
    """
    tree.check_labels(model.config.num_labels, model.config.labels_digest)
    sizes, expected = list(tree.num_nodes[:-1]), model.config.tree_level_sizes
    if sizes != expected:
        raise ValueError(
            f"The label tree has levels of {sizes} clusters, but the model's config has tree_level_sizes={expected}. Build the model with "
            "the tree's sizes: tree_level_sizes=list(tree.num_nodes[:-1])."
        )
    counts = (np.bincount(parents, minlength=above) for parents, above in zip(tree.parents[1:], sizes, strict=True))
    starts = [torch.from_numpy(np.append(0, count.cumsum())) for count in counts]
    model.label_tree.set_tree(starts, torch.from_numpy(tree.label_order).long())


def label_clusters(model: LabelTreeModel) -> list[list[str]]:
    """Display names of the labels of each cluster of a model's tree, cluster by cluster in tree order.

    Raises:
        ValueError: If the model has no tree.
    """
    tree = getattr(model, "label_tree", None)
    if tree is None:
        raise ValueError(
            f"This {type(model).__name__} has no clusters to list: only models of the families attentionxml and lightattention that were "
            "trained over a label tree have."
        )
    names, order = model.config.label_names, tree.label_order.tolist()
    bounds = pairwise(tree.starts(tree.last_level).tolist())
    return [[names.name_of(label_id) for label_id in order[start:stop]] for start, stop in bounds]


def candidate_recall(trainer: "Trainer", training: bool) -> dict[str, float]:
    """`LabelTreeModel.pop_candidate_recall` over all processes of a training, and nothing of other models."""
    if not isinstance(trainer.model, LabelTreeModel):
        return {}
    return trainer.model.pop_candidate_recall(training, partial(trainer.accelerator.reduce, reduction="sum"))


@torch.no_grad()
def initialize_tree_bias(model: LabelTreeModel, label_counts: np.ndarray, num_documents: int) -> None:
    """Start the biases of the trained levels at the log-odds of being right among a document's candidates.

    A node is a candidate where its parent is right or among the best, which is taken to be a random choice. The documents of a cluster
    are taken to be as many as those of its labels together, up to all.

    Args:
        model: A new model with its tree.
        label_counts: Training documents of each label, (L,).
        num_documents: Training documents N.
    """
    tree = model.label_tree
    counts: list[Tensor] = [torch.from_numpy(np.asarray(label_counts, dtype=np.float64))]
    for level in range(tree.last_level, 0, -1):
        sums = torch.bincount(tree.parents(level).cpu(), weights=counts[0], minlength=tree.num_nodes(level - 1))
        counts.insert(0, sums.clamp(max=num_documents))
    heads = [*(level.head for level in model.upper_levels), model.label_head]
    for level in range(model.first_trained_level, len(heads)):
        shown = torch.full_like(counts[level], num_documents)
        if level:
            share = min(1.0, model.config.beam_width / tree.num_nodes(level - 1))
            shown = counts[level - 1].clamp(min=share * num_documents)[tree.parents(level).cpu()]
        bias = heads[level].label_bias
        right = counts[level] if len(bias) == len(shown) else counts[level].sum(dim=0, keepdim=True)
        prior = (right + 0.5) / ((shown if len(bias) == len(shown) else shown.sum(dim=0, keepdim=True)) + 1.0)
        bias.copy_(torch.logit(prior.clamp(max=0.99)))


# ---- AttentionXML, level after level ---------------------------------------------------------------------------------------


def train_levels(
    model: AttentionXMLForXMTC, train_level: Callable[[int, AttentionXMLForXMTC], AttentionXMLForXMTC], seed: int = 0
) -> None:
    """Train the levels above the labels, from the root down, and give them to the model, which starts from the last one's weights.

    What remains is to train the model itself::

        def train_level(level, model):
            data = with_node_labels(train, tree_model, level)
            XMTCTrainer(model, args, train_dataset=data, processing_class=tokenizer).train()
            return model
        train_levels(tree_model, train_level)
        XMTCTrainer(tree_model, args, train_dataset=train, processing_class=tokenizer).train()

    Args:
        model: A model with its tree, whose word embeddings the first level starts from.
        train_level: Trains a model whose labels are the nodes of a level, and returns it.
        seed: Seed of the levels' first weights.

    Source: AttentionXML (You et al., 2019), §3.2: "a level-wise and top-down manner".
    """
    above = None
    for level in range(len(model.config.tree_level_sizes)):
        of_level = level_model(model, level, seed)
        if above is not None:
            of_level.build_on(above)
        above = train_level(level, of_level)
    model.build_on(above)


def level_model(model: AttentionXMLForXMTC, level: int, seed: int = 0) -> AttentionXMLForXMTC:
    """A model of the same kind whose labels are the nodes of a level; new but for the word embeddings and its part of the tree."""
    settings = model.config.to_dict()
    for name in ("num_labels", "labels_digest", "id2label", "label2id", "has_label_thresholds", "beam_width", "auto_map"):
        settings.pop(name, None)
    sizes = model.config.tree_level_sizes
    settings |= {"tree_level_sizes": sizes[:level] or None, "num_labels": sizes[level], "cornet_num_blocks": 0}
    if level:
        settings["beam_width"] = min(model.config.beam_width, max(sizes[:level]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        of_level = type(model)(type(model.config)(**settings)).to(model.device)
    of_level.words.embedding.load_state_dict(model.words.embedding.state_dict())
    if level:
        starts = [model.label_tree.starts(above) for above in range(1, level + 1)]
        of_level.label_tree.set_tree(starts, torch.arange(sizes[level]))
    return of_level


def with_node_labels(dataset: "Dataset", model: LabelTreeModel, level: int) -> "Dataset":
    """A data set whose labels are the nodes of a level above the documents' labels; labels that the tree does not know are left out."""
    num_labels = model.config.num_labels
    nodes = model.label_tree.ancestors(level, torch.arange(num_labels, device=model.device)).tolist()

    def of_batch(labels: list[list[int]]) -> dict[str, list[list[int]]]:
        return {"labels": [sorted({nodes[label_id] for label_id in row if label_id < num_labels}) for row in labels]}

    return dataset.map(of_batch, batched=True, input_columns=["labels"], desc=f"Labels of level {level}")
