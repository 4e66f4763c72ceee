"""Candidates: the few labels that a model scores for a document. Their loss, and the best of them."""

import torch
from torch import Tensor, nn

__all__ = ["best_candidates", "candidate_loss", "is_among"]


def best_candidates(scores: Tensor, candidate_ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best candidates of each document, equal scores going to the lower label id.

    Args:
        scores: Logarithms, (B, C).
        candidate_ids: Their label ids, padded with -100.
        k: Labels per document; all candidates where there are fewer.

    Returns:
        Scores from 0 to 1 and label ids, (B, min(k, C)), best first; at padding 0 and -100.

    Raises:
        ValueError: If k is less than 1.
    """
    if k < 1:
        raise ValueError(f"top_k={k}, but it must be at least 1. Leave it out for all candidates.")
    ids, by_id = candidate_ids.sort(dim=1, stable=True)
    scores = scores.detach().gather(1, by_id).masked_fill(ids < 0, float("-inf"))
    values, by_value = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k].exp(), ids.gather(1, by_value)[:, :k]


def candidate_loss(logits: Tensor, candidate_ids: Tensor, positives: Tensor, reduction: str) -> Tensor:
    """Binary cross-entropy of each document's candidates, their sum (``sum_labels``) or mean (``mean``), averaged over documents.

    Args:
        logits: (B, C).
        candidate_ids: (B, C), padded with -100.
        positives: Label ids (B, P), padded with -100.
        reduction: ``sum_labels`` or ``mean``.
    """
    there = candidate_ids >= 0
    target = is_among(candidate_ids, positives).to(logits.dtype)
    losses = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none") * there
    losses = losses.sum(dim=1)  # (B,)
    if reduction == "mean":
        losses = losses / there.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def is_among(ids: Tensor, others: Tensor) -> Tensor:
    """True at ids (B, A) that are among others (B, O); never at padding."""
    if not others.shape[1]:
        return torch.zeros_like(ids, dtype=torch.bool)
    ordered = others.sort(dim=1).values
    places = torch.searchsorted(ordered, ids.contiguous()).clamp(max=others.shape[1] - 1)
    return (ordered.gather(1, places) == ids) & (ids >= 0)
