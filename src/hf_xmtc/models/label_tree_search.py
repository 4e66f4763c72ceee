"""Scores over a label tree: the path to a label, the search for the best labels, and the loss on a document's candidates.

A level scores its nodes given that their parents are right, so that with the logits s_n of the nodes on its path

    P(label | document) = Π σ(s_n)          over the path below the root

(AttentionXML's probabilistic label tree; LightAttention, equation 1). Only children of the best nodes of each level are scored.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .cornet import CorNet
from .label_candidates import candidate_loss, is_among, limit_candidates
from .label_head import BaseLabelHead
from .label_topk import exact_topk
from .label_tree_index import LabelTreeIndex
from .linear_layers import can_be_read

__all__ = ["ScoredNodes", "TreeLevel", "best_nodes", "path_logits", "search", "training_nodes", "tree_loss"]


class TreeLevel(NamedTuple):
    """Head and features that score the nodes of one level.

    Attributes:
        head: The label head whose labels are the nodes.
        hidden: What it reads of the documents.
        cornet: Refines the logits; of the nodes that were not scored it takes the probability to be 0.
    """

    head: BaseLabelHead
    hidden: Any
    cornet: CorNet | None = None

    @property
    def num_documents(self) -> int:
        return len(self.hidden if isinstance(self.hidden, Tensor) else self.hidden[0])

    def logits(self, candidates: Tensor | None = None) -> Tensor:
        """Logits of all nodes, (B, n); CorNet reads only the ``candidates``, (B, S), where they are given."""
        if self.cornet is None or candidates is None:
            return self.head.logits(self.hidden, self.cornet)
        return self.cornet(self.head.logits(self.hidden), self._is_among(candidates))

    def logits_of(self, ids: Tensor) -> Tensor:
        """Logits of chosen nodes, (B, S), padded with -100."""
        # Padding stands behind the nodes and reads the first of them, so no row has a gradient for padding's sake.
        logits = self.head.raw_logits_of(self.hidden, ids.where(ids >= 0, ids[:, :1]).clamp(min=0))
        if self.cornet is None:
            return logits
        if can_be_read(*(layer.weight for block in self.cornet.blocks for layer in (block.to_context, block.to_labels))):
            return self.cornet.refine_candidates(logits, ids)
        # Quantized layers take all labels.
        spread = logits.new_zeros(ids.shape[0], self.head.num_labels + 1).scatter(1, self._places(ids), logits)[:, :-1]
        return self.cornet(spread, self._is_among(ids)).gather(1, ids.clamp(min=0))

    def _places(self, ids: Tensor) -> Tensor:
        """Columns of nodes; padding has one of its own behind the others."""
        return ids.where(ids >= 0, self.head.num_labels)

    def _is_among(self, ids: Tensor) -> Tensor:
        """True at the nodes ``ids``, (B, n)."""
        there = ids.new_zeros(ids.shape[0], self.head.num_labels + 1, dtype=torch.bool)
        return there.scatter(1, self._places(ids), ids >= 0)[:, :-1]


class ScoredNodes(NamedTuple):
    """Nodes of one level that were scored for each document.

    Attributes:
        ids: (B, S), padded with -100.
        logits: Given that the parent is right, (B, S).
        log_scores: Logarithms of the path's probability, (B, S), in float32 or wider; -inf at padding.
    """

    ids: Tensor
    logits: Tensor
    log_scores: Tensor


def _in_float32(logits: Tensor) -> Tensor:
    """Logits in float32 or wider: half precision would not tell high scores apart."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _log_sigmoid(logits: Tensor) -> Tensor:
    return nn.functional.logsigmoid(_in_float32(logits))


def _score_first(level: TreeLevel) -> ScoredNodes:
    logits = level.logits()
    ids = torch.arange(logits.shape[1], device=logits.device).expand_as(logits)
    return ScoredNodes(ids, logits, _log_sigmoid(logits).detach())


def _score_children(tree: LabelTreeIndex, index: int, level: TreeLevel, parents: Tensor, log_scores: Tensor) -> ScoredNodes:
    """Score the children of chosen nodes, (B, K), with log scores (B, K), in the level ``index``."""
    ids, places = tree.children_of(index, parents)
    logits = level.logits_of(ids)
    paths = _log_sigmoid(logits).detach() + log_scores.gather(1, places)
    return ScoredNodes(ids, logits, paths.masked_fill(ids < 0, float("-inf")))


def best_nodes(scored: ScoredNodes, k: int) -> tuple[Tensor, Tensor]:
    """The k best nodes of each document and their log scores, (B, min(k, S)), best first, equal ones going to the lower id."""
    ids, by_id = scored.ids.sort(dim=1, stable=True)
    log_scores, places = exact_topk(scored.log_scores.gather(1, by_id), k)
    return ids.gather(1, places), log_scores


def search(tree: LabelTreeIndex, levels: Sequence[TreeLevel], beam_width: int) -> list[ScoredNodes]:
    """The scored nodes of each level: those below the ``beam_width`` best nodes of the level above it.

    Of the first level, which is scored whole, the logits have gradients.
    """
    scored = [_score_first(levels[0])]
    with torch.no_grad():
        for index, level in enumerate(levels[1:], start=1):
            scored.append(_score_children(tree, index, level, *best_nodes(scored[-1], beam_width)))
    return scored


def path_logits(tree: LabelTreeIndex, levels: Sequence[TreeLevel], candidates: Tensor | None = None) -> Tensor:
    """Logits of the path probabilities of all labels, (B, L): log P - log(1 - P), no node left out.

    Args:
        tree: The tree.
        levels: What scores each level, the labels last.
        candidates: Labels that `search` scores, (B, S), padded with -100. CorNet reads only these, as it does in training and in `search`,
            so they have the same scores here and there; None where there is no CorNet.
    """
    logits = levels[0].logits()
    log_scores = _log_sigmoid(logits)
    for index, level in enumerate(levels[1:], start=1):
        logits = level.logits(candidates)
        log_scores = _log_sigmoid(logits) + log_scores[:, tree.parents(index)]
    rest = (-torch.expm1(log_scores)).clamp(min=torch.finfo(log_scores.dtype).tiny)
    return (log_scores - rest.log()).to(logits.dtype)


def training_nodes(beam: Tensor, positives: Tensor) -> Tensor:
    """The nodes whose children a document is trained on: all positive ones, then the best others, K in all.

    A document with more positive nodes than K has all of them, so every positive label is among the candidates.

    Args:
        beam: The best nodes by their scores alone, (B, K), best first, padded with -100.
        positives: Positive nodes, each once, (B, P), padded with -100.

    Returns:
        (B, K) or wider, padded with -100.

    Source: AttentionXML's code, which keeps K nodes and drops positives where there are more; LightXML adds 1 to the scores of
    positive clusters, which gives the same nodes.
    """
    num_positives = (positives >= 0).sum(dim=1, keepdim=True)
    others = beam.masked_fill(is_among(beam, positives), -100)
    room = beam.shape[1] - num_positives  # (B, 1)
    others = others.masked_fill((others >= 0).cumsum(dim=1) > room, -100)
    nodes = torch.cat([positives, others], dim=1)
    there = nodes >= 0
    width = int(there.sum(dim=1).max()) if len(nodes) else beam.shape[1]
    order = there.to(torch.int8).argsort(dim=1, descending=True, stable=True)
    return nodes.gather(1, order[:, : max(1, width)])


class TreeLoss(NamedTuple):
    """Loss over the trained levels, and what the best clusters reach by their scores alone.

    Attributes:
        loss: Scalar.
        reached: Sum over documents of the share of their positive labels that are below the beam.
        num_documents: Documents with positive labels.
    """

    loss: Tensor
    reached: Tensor
    num_documents: Tensor


def tree_loss(
    tree: LabelTreeIndex,
    levels: Sequence[TreeLevel],
    positives: Tensor,
    beam_width: int,
    reduction: str,
    first: int = 0,
    searched: Sequence[ScoredNodes] = (),
    static: bool = False,
    max_candidates: int | None = None,
) -> TreeLoss:
    """Binary cross-entropy of the trained levels, summed over them: of all nodes in level 0, else of the candidates.

    Candidates are the children of the positive nodes and of the best others in the level above, as prediction finds them; scores that
    choose them have no gradient.

    Args:
        tree: The tree.
        levels: What scores each level, the labels last.
        positives: Positive label ids, each once, (B, P), padded with -100.
        beam_width: Nodes whose children are scored, K.
        reduction: ``mean`` over a document's candidates or ``sum_labels``, then a mean over documents.
        first: The first level that is trained; those above it only choose.
        searched: What `search` found of all levels or those above the labels, where it is known already.
        static: The others are not the best ones but those nearest in the tree to the positive nodes, whatever the scores.
        max_candidates: Random negatives are dropped where a document has more candidates than that; None for no limit.
    """
    searched = searched or search(tree, levels[:-1], beam_width)
    loss = 0.0
    for index in range(first, len(levels)):
        if index == 0:
            ids, logits = searched[0].ids, searched[0].logits
        else:
            beam, _ = best_nodes(searched[index - 1], beam_width)
            above = tree.positives(index - 1, positives)
            others = tree.nearest(index - 1, above, beam_width) if static else beam
            ids, _ = tree.children_of(index, training_nodes(others, above))
            ids = limit_candidates(ids, tree.positives(index, positives), max_candidates)
            logits = levels[index].logits_of(ids)
        loss = loss + candidate_loss(_in_float32(logits), ids, tree.positives(index, positives), reduction)
    num_positives = (positives >= 0).sum(dim=1)  # (B,)
    num_reached = is_among(tree.ancestors(len(levels) - 2, positives), beam).sum(dim=1)
    return TreeLoss(loss, (num_reached / num_positives.clamp(min=1)).sum(), (num_positives > 0).sum())
