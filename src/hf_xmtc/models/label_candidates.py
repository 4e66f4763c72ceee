"""Candidates: the few labels that a model scores for a document. Their loss, and the best of them."""

import torch
from torch import Tensor, nn

__all__ = ["best_candidates", "candidate_loss", "is_among", "limit_candidates"]


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


def limit_candidates(candidate_ids: Tensor, positives: Tensor, max_candidates: int | None) -> Tensor:
    """All positives of each document and random negatives, ``max_candidates`` in all where it has more candidates.

    Args:
        candidate_ids: (B, S), padded with -100.
        positives: Positive ids, among the candidates, (B, P), padded with -100.
        max_candidates: The limit; None for none.

    Returns:
        (B, min(S, max_candidates)), padded with -100.

    Raises:
        ValueError: If a document has more positives than that.
    """
    if max_candidates is None or candidate_ids.shape[1] <= max_candidates:
        return candidate_ids
    is_positive = is_among(candidate_ids, positives)
    most = int(is_positive.sum(dim=1).max()) if len(candidate_ids) else 0
    if most > max_candidates:
        raise ValueError(
            f"A document has {most} positive labels (or clusters) among its candidates, but max_candidates={max_candidates}, and none is "
            f"dropped. Set max_candidates to {most} or more, or leave it out."
        )
    # Positives before negatives, which stand in a random order before the padding.
    order = (
        torch.rand(candidate_ids.shape, device=candidate_ids.device) + is_positive.to(torch.int8) - 2 * (candidate_ids < 0)
    )
    return candidate_ids.gather(1, order.topk(max_candidates, dim=1).indices)
