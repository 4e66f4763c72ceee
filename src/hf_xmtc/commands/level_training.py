"""Label trees in a training run: which one a model gets, and the training of AttentionXML's levels, one after another."""

import copy
from pathlib import Path

import transformers
from datasets import Dataset

from hf_xmtc.data import LabelInfo, label_counts
from hf_xmtc.label_tree import TreeShape, num_clusters
from hf_xmtc.models.configuration_lightattention import most_clusters
from hf_xmtc.models.label_tree_model import LabelTreeModel
from hf_xmtc.models.modeling_attentionxml import AttentionXMLForXMTC
from hf_xmtc.training import (
    XMTCTrainer,
    XMTCTrainingArguments,
    initialize_label_bias,
    set_label_tree,
    train_levels,
    with_node_labels,
)
from hf_xmtc.training.checkpoint_files import checkpoints_in

from .output_folder import level_folder
from .processes import log_once
from .recipe import Recipe
from .trained_state import keep_trained, restore_trained
from .tree import describe, tree_of_texts

__all__ = ["give_label_tree", "shape_for_sizes", "train_upper_levels"]


def give_label_tree(recipe: Recipe, model: LabelTreeModel, train: Dataset, info: LabelInfo) -> None:
    """Give a new model the tree of ``label_tree``, or one that is built from the training texts.

    Raises:
        ValueError: If the tree is of other labels, or 2-means does not give levels of the model's sizes.
    """
    tree = recipe.model.tree
    if tree is None:
        shape = shape_for_sizes(model.config.tree_level_sizes, info.num_labels)
        tree = tree_of_texts(train, info, shape, recipe.training.seed)
    set_label_tree(model, tree)
    log_once(recipe.training, describe(tree))


def shape_for_sizes(sizes: list[int], num_labels: int) -> TreeShape:
    """The shape of a tree with levels of these sizes.

    Raises:
        ValueError: If 2-means does not give them.
    """
    depths, max_leaf = tuple(size.bit_length() - 1 for size in sizes), -(-num_labels // sizes[-1])
    built = [*(2**depth for depth in depths[:-1]), num_clusters(num_labels, max_leaf)]
    if sizes != built:
        raise ValueError(
            f"tree_level_sizes={sizes}, but 2-means, which halves {num_labels:,} labels again and again, gives levels of {built} clusters. "
            f"Choose powers of two up to {most_clusters(num_labels):,}, or build a tree with hf-xmtc tree and give its folder as --label_tree."
        )
    shape = TreeShape(max_leaf, depths)
    shape.check(num_labels)
    return shape


def train_upper_levels(
    recipe: Recipe,
    trainer: XMTCTrainer,
    splits: dict[str, Dataset],
    checkpoints: Path,
    trainer_class: type[XMTCTrainer],
) -> float:
    """Train the levels above the labels; one that had ended before is not trained again.

    Args:
        recipe: The settings, which are those of every level.
        trainer: The trainer of the labels, whose model takes the levels over.
        splits: Tokenized documents.
        checkpoints: Folder with a folder for each level.
        trainer_class: The trainer's class.

    Returns:
        Seconds of training.
    """
    seconds = 0.0

    def start_bias(model: AttentionXMLForXMTC, train: Dataset) -> None:
        if recipe.model.label_bias_from_frequency:
            initialize_label_bias(model, label_counts(train, model.config.num_labels), len(train))

    def train_level(level: int, model: AttentionXMLForXMTC) -> AttentionXMLForXMTC:
        nonlocal seconds
        folder = level_folder(checkpoints, level)
        args: XMTCTrainingArguments = copy.copy(trainer.args)
        args.output_dir = str(folder)
        of_level = {
            split: with_node_labels(splits[split], trainer.model, level)
            for split in ("train", "validation")
            if split in splits
        }
        start_bias(model, of_level["train"])
        own = trainer_class(
            model,
            args,
            train_dataset=of_level["train"],
            eval_dataset=of_level.get("validation"),
            processing_class=trainer.processing_class,
        )
        figures = restore_trained(own, folder / "trained")
        if figures is None:
            log_once(args, f"Training level {level} of the label tree: {model.config.num_labels:,} nodes.")
            own.train(resume_from_checkpoint=any(checkpoints_in(folder)))
            figures = {"seconds": own.training_seconds}
            keep_trained(own, figures, folder / "trained")
        seconds += figures["seconds"]
        return own.model

    train_levels(trainer.model, train_level, trainer.args.seed)
    start_bias(trainer.model, splits["train"])  # a bias that labels share is now that of the clusters above
    # The labels' training is the same whether levels were trained in this run or not.
    transformers.set_seed(trainer.args.seed)
    return seconds
