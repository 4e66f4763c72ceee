"""`LabelTreeModel`: base of the families that score labels over a label tree; `UpperLevel`, a level above the labels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .configuration_attentionxml import AttentionXMLConfig
from .label_block_loss import RowUpdate
from .label_candidates import best_candidates
from .label_head import BaseLabelHead
from .label_tree_index import LabelTreeIndex
from .label_tree_search import TreeLevel, path_logits, search, tree_loss
from .modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from .word_encoders import BiLSTM

__all__ = ["LabelTreeModel", "UpperLevel"]


class UpperLevel(nn.Module):
    """A level of clusters: its head, and an encoder of its own unless it reads the states of the labels' encoder.

    Frozen word embeddings are the same in all levels, so they are not held again.
    """

    def __init__(self, config: AttentionXMLConfig, head: BaseLabelHead, own_encoder: bool):
        super().__init__()
        self.embedding = self.bilstm = None
        if own_encoder:
            if not config.freeze_embeddings:
                self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
            self.dropout = nn.Dropout(config.embedding_dropout)
            self.bilstm = BiLSTM(
                config.embedding_size, config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob
            )
        self.head = head

    def embed(self, shared: nn.Embedding) -> Callable[[Tensor, Tensor], Tensor]:
        """Looks words up in the own table, or in the labels' where this level has none."""
        table = shared if self.embedding is None else self.embedding
        return lambda ids, mask: self.dropout(table(ids)) * mask[..., None]


class LabelTreeModel(XMTCPreTrainedModel):
    """Base of models over a label tree; one without a tree has None in its place and scores all labels.

    A family calls `use_label_tree` after `use_label_head` and ends its ``forward`` in `compute_tree_output`.
    """

    label_tree: LabelTreeIndex | None
    # Of what is trained at once the first level; those above it choose candidates only.
    first_trained_level = 0
    # As `tree_loss` takes them.
    static_negatives = False
    max_candidates: int | None = None

    def use_label_tree(self, upper_levels: Sequence[UpperLevel]) -> None:
        """Add the tree, and the levels of clusters from the root down; nothing where there are none."""
        sizes = self.config.tree_level_sizes
        self.label_tree = LabelTreeIndex(sizes, self.config.num_labels) if sizes else None
        self.upper_levels = nn.ModuleList(upper_levels)
        # `TreeLoss.reached` and ``num_documents``, summed in evaluation (False) and in training (True).
        self._reached: dict[bool, Tensor] = {}

    def compute_tree_output(
        self, levels: Sequence[TreeLevel], labels: Tensor | None, top_k: int | None, **extra: Any
    ) -> XMTCOutput:
        """As `compute_output`: without ``top_k`` logits of all labels, with it the best candidates.

        Args:
            levels: What scores each level, from the root down to the labels.
            labels: Padded label ids (B, P) or a float multi-hot matrix (B, L).
            top_k: None for the logits of all labels, k > 0 for the best k candidates, 0 for the loss alone.
            extra: Further output fields.
        """
        tree, config, beam_width = self.label_tree, self.config, self.config.beam_width
        loss = logits = top_scores = top_labels = None
        ranks = top_k is not None and (top_k != 0 or labels is None)
        # CorNet reads the candidates alone, so with it the logits of all labels need them too.
        reads_candidates = top_k is None and self.cornet is not None
        searched = search(tree, levels, beam_width) if ranks or reads_candidates else ()
        if labels is not None:
            positives, first = self.label_head.positives(labels, levels[0].num_documents), self.first_trained_level
            # Evaluation keeps no gradients, and draws no random numbers.
            choice = {"static": self.static_negatives, "max_candidates": self.max_candidates if self.training else None}
            found = tree_loss(tree, levels, positives, beam_width, config.loss_reduction, first, searched, **choice)
            loss = found.loss
            counts = torch.stack([found.reached, found.num_documents])
            self._reached[self.training] = self._reached.get(self.training, 0) + counts
        if top_k is None:
            logits = path_logits(tree, levels, searched[-1].ids if reads_candidates else None)
        elif ranks:
            top_scores, top_labels = best_candidates(searched[-1].log_scores, searched[-1].ids, top_k)
        return XMTCOutput(loss=loss, logits=logits, top_scores=top_scores, top_labels=top_labels, **extra)

    def scoring_bytes(self, num_documents: int, num_tokens: int, gradients: bool) -> int:
        """Memory for scoring the first level and the candidates of the others."""
        config, heads = self.config, [*(level.head for level in self.upper_levels), self.label_head]
        total = 0
        for level, head in enumerate(heads):
            trained = gradients and level >= self.first_trained_level
            if level == 0:
                total += head.scoring_bytes(num_documents, num_tokens, trained) + 16 * num_documents * head.num_labels
            else:
                candidates = self.candidates_of(level, gradients)
                total += head.candidate_bytes(num_documents, num_tokens, candidates, trained)
        if self.cornet is not None:
            cornet = 2 * config.cornet_num_blocks * candidates * config.cornet_context_size
            total += 4 * (2 if gradients else 1) * num_documents * cornet
        return total

    def candidates_of(self, level: int, training: bool) -> int:
        """Nodes of a level but the first that are scored for a document, where clusters are of one size."""
        sizes = [*self.config.tree_level_sizes, self.config.num_labels]
        candidates = min(sizes[level], self.config.beam_width * math.ceil(sizes[level] / sizes[level - 1]))
        return min(candidates, self.max_candidates) if training and self.max_candidates is not None else candidates

    def pop_candidate_recall(
        self, training: bool, reduce: Callable[[Tensor], Tensor] = lambda counts: counts
    ) -> dict[str, float]:
        """``candidate_recall`` since the last call, in training or in evaluation: the share of a document's labels that are below the
        best clusters by their scores alone, which bounds R@k.

        Empty where no document had labels, or there is no tree.

        Args:
            training: True for documents seen in training.
            reduce: Sums counts over processes, each of which calls this.
        """
        if self.label_tree is None:
            return {}
        counts = self._reached.pop(training, None)
        reached, documents = reduce(torch.zeros(2, device=self.device) if counts is None else counts).tolist()
        return {"candidate_recall": reached / documents} if documents else {}

    def update_labels_in_backward(self, updates: dict[str, RowUpdate] | None) -> None:
        """As in the base class; over a tree only None is taken."""
        if updates and self.label_tree is not None:
            raise ValueError(
                f"Updates of {sorted(updates)} in the backward pass go through all labels, but over a label tree only candidates have "
                "gradients. Train with ordinary gradients."
            )
        super().update_labels_in_backward(updates)

    def resize_family_labels(self, old_ids: Tensor) -> None:
        if self.label_tree is not None:
            self.label_tree.resize_labels(old_ids)

    @classmethod
    def from_pretrained(cls, *args, ignore_mismatched_sizes: bool = False, output_loading_info: bool = False, **kwargs):
        """Open a checkpoint of this family; arguments as in `transformers.PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: If its label tree is damaged, or missing and ``ignore_mismatched_sizes=True`` was not given.
        """
        model, loading = super().from_pretrained(
            *args, ignore_mismatched_sizes=ignore_mismatched_sizes, output_loading_info=True, **kwargs
        )
        missing = sorted(name for name in loading["missing_keys"] if name.startswith("label_tree."))
        if missing and not ignore_mismatched_sizes:
            raise ValueError(
                f"The checkpoint lacks {missing[0]} and with it a part of its label tree, whose labels would be split evenly instead "
                f"(tree_level_sizes={model.config.tree_level_sizes}). Were weights or config.json replaced? Copy both from where the model "
                "came."
            )
        if model.label_tree is not None:
            if ignore_mismatched_sizes and not model.label_tree.fits():  # a tree of other labels
                model.label_tree = LabelTreeIndex(model.config.tree_level_sizes, model.config.num_labels).to(model.device)
            model.label_tree.check()
        model.freeze_levels()
        return (model, loading) if output_loading_info else model

    def freeze_levels(self) -> None:
        """Keep what is not trained from being trained; reading weights makes all of them trainable."""

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, LabelTreeIndex):
            module.reset_parameters()
        else:
            super()._init_weights(module)
