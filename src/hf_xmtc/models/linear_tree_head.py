"""Scores of all labels by linear trees (`LinearTreeHead`) or without one (`OneVsAllHead`), from the TF-IDF of a document's words."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .cornet import CorNet
from .inverted_index import index_entries, word_products
from .label_block_loss import LabelMatrix
from .label_topk import exact_topk
from .score_head import LOWEST, ScoreHead
from .tf_idf import WordValues

__all__ = ["ABSENT", "LinearTreeHead", "OneVsAllHead", "Trees"]

# A logit below this is that of `LOWEST`, in half precision too.
LOWEST_LOGIT = math.log(2 * LOWEST)
# Of the sigmoid that makes a probability of a margin. Of 2, 3 … 6 it has the best log likelihood of the 20 best labels on validation
# of the demo data, cooking-stackexchange and reuters-21578 together.
HINGE_SLOPE = 4
# The bias of a label that a tree does not have: its probability there is 0.
ABSENT = -1e4


class Trees(NamedTuple):
    """Trained trees as arrays. All roots are node 0; the others follow level by level, and on a level tree by tree.

    Attributes:
        level_sizes: Nodes of each level and tree below the roots, without the labels.
        parents: Parent of each node but the root, (N,).
        label_parents: Node above each label in each tree, (T, L).
        offsets: Where the weights of each word begin, and where the last ones end, (V + 1,).
        columns: What each weight belongs to, (n,): column i - 1 is node i, and column N + t · L + l is label l in tree t.
        weights: The weights of all words, in the order of their columns, (n,).
        bias: Of every column, (N + T · L,); `ABSENT` for a label that a tree does not have.
    """

    level_sizes: list[list[int]]
    parents: Tensor
    label_parents: Tensor
    offsets: Tensor
    columns: Tensor
    weights: Tensor
    bias: Tensor


class LinearTreeHead(ScoreHead):
    """Linear classifiers at the nodes of trees whose leaves are the labels (Parabel, Bonsai).

    The margin of a node is its bias and the sum of its words' TF-IDF times their weights; its probability, given its parent's, is
    exp(-max(0, 1 - margin)²) where the classifiers were trained with the squared hinge loss, and σ(margin) with the log loss. A label's
    score is the product of the probabilities along its path, averaged over the trees. With the squared hinge loss labels whose margins are
    above 1 all the way in all trees have score 1, as omikuji's, and rank by their ids.

    An inverted index, which has for each word the nodes with a weight for it, gives all margins without a search.

    Args:
        num_words: Vocabulary V.
        num_labels: Labels L.
        num_trees: Trees T.
        level_sizes: Nodes of each level and tree.
        num_weights: Weights n.
        node_loss: ``squared_hinge`` or ``log``.
        beam_width: Nodes of each level and tree whose children are scored; the labels below others have score 0. None for all.
        settings: As for `BaseLabelHead`.
    """

    def __init__(
        self,
        num_words: int,
        num_labels: int,
        num_trees: int,
        level_sizes: list[list[int]],
        num_weights: int,
        node_loss: str,
        beam_width: int | None = None,
        **settings: Any,
    ):
        super().__init__(num_labels, **settings)
        self.level_sizes, self.node_loss, self.beam_width = level_sizes, node_loss, beam_width
        num_nodes = sum(map(sum, level_sizes))
        self.weights = nn.Parameter(torch.zeros(num_weights))
        self.bias = nn.Parameter(torch.zeros(num_nodes + num_trees * num_labels))
        self.register_buffer("offsets", torch.zeros(num_words + 1, dtype=torch.int32))
        self.register_buffer("columns", torch.zeros(num_weights, dtype=torch.int32))
        self.register_buffer("parents", torch.zeros(num_nodes, dtype=torch.int32))
        self.register_buffer("label_parents", torch.zeros(num_trees, num_labels, dtype=torch.int32))

    @torch.no_grad()
    def grow(self, trees: Trees) -> None:
        """Take over trained trees."""
        self.level_sizes = trees.level_sizes
        for name, array in trees._asdict().items():
            if name in ("weights", "bias"):
                setattr(self, name, nn.Parameter(array.to(self.bias)))
            elif name != "level_sizes":
                setattr(self, name, array.to(self.bias.device, torch.int32))

    def check_trees(self) -> None:
        """Refuse trees that point to what is not there, which the product would read without looking.

        Raises:
            ValueError: If they do.
        """
        num_nodes, num_weights = len(self.parents), len(self.weights)
        sizes, device = torch.tensor([*map(sum, self.level_sizes)], dtype=torch.long), self.parents.device
        limits = {
            "columns": len(self.bias),
            "label_parents": num_nodes + 1,
            "offsets": num_weights + 1,
            "parents": (sizes.cumsum(0) - sizes + 1).repeat_interleave(sizes).to(device),  # of an earlier level
        }
        for name, limit in limits.items():
            wrong = (getattr(self, name) < 0) | (getattr(self, name) >= limit)
            if wrong.any():
                number = int(getattr(self, name)[wrong][0])
                raise ValueError(
                    f"damaged: {name} holds {number}, but there are {num_nodes} nodes, each below one of an earlier level, and "
                    f"{len(self.bias)} columns"
                )
        if (self.offsets.diff() < 0).any() or int(self.offsets[-1]) != num_weights:
            raise ValueError(f"damaged: the words do not have {num_weights} weights together")

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for tensor in (self.weights, self.bias, self.offsets, self.columns, self.parents, self.label_parents):
            init.zeros_(tensor)

    @property
    def num_weights(self) -> int:
        return len(self.weights)

    # ---- scores ----------------------------------------------------------------------------------------------------------

    def margins(self, words: WordValues) -> Tensor:
        """Margins of all nodes and labels, (B, N + T · L)."""
        return word_products(words, self.bias, self.offsets, self.columns, self.weights)

    def scores(self, words: WordValues) -> Tensor:
        """Scores of all labels, (B, L)."""
        log_probabilities = self._log_probabilities(self.margins(words))
        num_nodes, (num_trees, num_labels) = len(self.parents), self.label_parents.shape
        paths = self._paths(log_probabilities[:, :num_nodes])  # (B, 1 + N)
        total = 0.0
        for tree, parents in enumerate(self.label_parents):
            start = num_nodes + tree * num_labels
            of_tree = paths.index_select(1, parents).add_(log_probabilities[:, start : start + num_labels]).exp_()
            total = total + of_tree
        return total / num_trees

    def _log_probabilities(self, margins: Tensor) -> Tensor:
        if self.node_loss == "log":
            return nn.functional.logsigmoid(margins)
        return (margins - 1).clamp_(max=0).square_().neg_()

    def _paths(self, log_probabilities: Tensor) -> Tensor:
        """Sums from the root, whose column is the first, to each node, (B, 1 + N), of the nodes' log probabilities (B, N)."""
        paths, start = log_probabilities.new_zeros(log_probabilities.shape[0], 1), 0
        for sizes in self.level_sizes:
            stop = start + sum(sizes)
            level = log_probabilities[:, start:stop] + paths.index_select(1, self.parents[start:stop])
            if self.beam_width is not None:
                level = torch.cat([_best(part, self.beam_width) for part in level.split(sizes, dim=1)], dim=1)
            paths, start = torch.cat([paths, level], dim=1), stop
        return paths

    def _topk_and_loss(
        self, hidden: WordValues, k: int, labels: Tensor | None, reduction: str, cornet: CorNet | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """In place of labels that the beam has not reached there are -100 and score 0."""
        logits, loss = self.logits_and_loss(hidden, labels, reduction, cornet)
        logits, label_ids = exact_topk(logits, k)
        scores = logits.sigmoid()
        if self.beam_width is not None and cornet is None:
            unreached = logits < LOWEST_LOGIT
            scores, label_ids = scores.masked_fill(unreached, 0.0), label_ids.masked_fill(unreached, -100)
        return scores, label_ids, loss

    # ---- what speaks for a label -------------------------------------------------------------------------------------------

    def word_contributions(self, words: WordValues, label_ids: Tensor) -> Tensor:
        """Contribution of each word to the margins on a label's path, from below the root to the label, in the mean over the trees.

        Args:
            words: W words of B documents.
            label_ids: Labels of each document, (B, S).

        Returns:
            (S, W).
        """
        paths = self._path_columns(label_ids)
        columns, places = paths.unique(return_inverse=True)
        on_path = self.bias.new_zeros(*label_ids.shape, len(columns), dtype=torch.float32)  # (B, S, columns)
        on_path.scatter_(2, places, 1 / len(self.label_parents))
        which, entries = index_entries(self.offsets, words.words)
        kept = torch.isin(self.columns[entries], columns)
        which, entries = which[kept], entries[kept]
        products = self.weights[entries].float() * words.values[which]
        shares = on_path[words.documents[which], :, torch.searchsorted(columns, self.columns[entries].long())]  # (E, S)
        return on_path.new_zeros(len(words.words), label_ids.shape[1]).index_add(0, which, products[:, None] * shares).t()

    def _path_columns(self, label_ids: Tensor) -> Tensor:
        """Columns of some labels (B, S) and of the nodes above them, of all trees, (B, S, P); -1 at roots."""
        num_nodes, (num_trees, num_labels) = len(self.parents), self.label_parents.shape
        trees = torch.arange(num_trees, device=label_ids.device)[:, None, None]
        paths, nodes = [num_nodes + trees * num_labels + label_ids], self.label_parents[:, label_ids].long()  # (T, B, S)
        for _ in self.level_sizes if num_nodes else ():
            paths.append(nodes - 1)
            nodes = self.parents[(nodes - 1).clamp(min=0)].long().masked_fill(nodes == 0, 0)
        return torch.cat(paths).permute(1, 2, 0)

    # ---- the label space -------------------------------------------------------------------------------------------------

    def matrices(self) -> dict[str, LabelMatrix]:
        return {}

    @property
    def numbers_per_document(self) -> int:
        return len(self.bias)

    @property
    def label_bias(self) -> nn.Parameter:
        return self.bias  # of every node, and of every label in each tree

    @torch.no_grad()
    def resize_labels(self, old_ids: Tensor) -> None:
        """Follow a change of the label space; new labels have score 0 until trees are trained with them."""
        super().resize_labels(old_ids)
        num_nodes, (num_trees, num_before), device = len(self.parents), self.label_parents.shape, self.bias.device
        old_ids, num_labels = old_ids.to(device), len(old_ids)
        new_ids, known = torch.full((num_before,), -1, device=device), old_ids >= 0
        new_ids[old_ids[known]] = known.nonzero()[:, 0]
        trees, labels = torch.arange(num_trees, device=device)[:, None], new_ids.expand(num_trees, -1)
        of_labels = torch.where(labels < 0, -1, num_nodes + trees * num_labels + labels).flatten()
        column_of = torch.cat([torch.arange(num_nodes, device=device), of_labels])  # -1 for what goes

        words = torch.arange(len(self.offsets) - 1, device=device).repeat_interleave(self.offsets.diff())
        columns = column_of[self.columns.long()]
        order = (words * (num_nodes + num_trees * num_labels) + columns).argsort()
        order = order[columns[order] >= 0]
        bias = self.bias.new_full((num_nodes + num_trees * num_labels,), ABSENT)
        bias[column_of[column_of >= 0]] = self.bias[column_of >= 0]
        label_parents = self.label_parents.new_zeros(num_trees, num_labels)
        label_parents[:, known] = self.label_parents[:, old_ids[known]]
        counts = words[order].bincount(minlength=len(self.offsets) - 1)
        offsets = nn.functional.pad(counts.cumsum(0), (1, 0))
        self.grow(Trees(self.level_sizes, self.parents, label_parents, offsets, columns[order], self.weights[order], bias))

    def silence(self, new: Tensor) -> bool:
        return True  # `resize_labels` has


class OneVsAllHead(LinearTreeHead):
    """A linear classifier for each label (DiSMEC): a tree whose root is its only leaf.

    A label's score is σ(4 · margin) after training with the squared hinge loss, and σ(margin) with the log loss. Near margin -1, where
    most labels are, it is omikuji's exp(-(1 - margin)²), which is 1 for all margins above 1 and so ranks those labels by chance. The
    lowest score, that of absent labels, is that of trees (`LOWEST`).

    Args:
        num_words: Vocabulary V.
        num_labels: Labels L.
        num_weights: Weights n.
        node_loss: ``squared_hinge`` or ``log``.
        settings: As for `BaseLabelHead`.
    """

    def __init__(self, num_words: int, num_labels: int, num_weights: int, node_loss: str, **settings: Any):
        super().__init__(num_words, num_labels, 1, [], num_weights, node_loss, **settings)

    def scores(self, words: WordValues) -> Tensor:
        return self.raw_logits(words).sigmoid()

    def raw_logits(self, hidden: WordValues) -> Tensor:
        slope = 1 if self.node_loss == "log" else HINGE_SLOPE
        return (slope * self.margins(hidden)).clamp(min=math.log(LOWEST)).to(self.bias.dtype)


def _best(log_probabilities: Tensor, k: int) -> Tensor:
    """The k best of each row, equal ones going to the lower id, and minus infinity elsewhere."""
    if log_probabilities.shape[1] <= k:
        return log_probabilities
    values, ids = exact_topk(log_probabilities, k)
    return torch.full_like(log_probabilities, float("-inf")).scatter(1, ids, values)
