"""Scores, loss and training sets of candidates: the few labels that a model looks at for a document."""

import torch
from torch import Tensor, nn

__all__ = [
    "RANDOM_NUMBERS_PER_LABEL",
    "LabelTerm",
    "best_candidates",
    "candidate_loss",
    "log_scores",
    "places_among",
    "training_candidates",
]


# More than one for each random label, because frequent labels are drawn twice, or are candidates already.
RANDOM_NUMBERS_PER_LABEL = 4


class LabelTerm(nn.Module):
    """u · tanh(W_y h_j + W_c c): a score of label j by its state h_j and the document's vector c, with weights for all labels.

    Args:
        hidden_size: Width H.
    """

    def __init__(self, hidden_size: int):
        super().__init__()
        self.of_label = nn.Linear(hidden_size, hidden_size)
        self.of_document = nn.Linear(hidden_size, hidden_size, bias=False)
        self.output = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, features: Tensor, states: Tensor) -> Tensor:
        """Scores (B, C) of labels with states (B, C, H) for documents (B, H)."""
        return self.output((self.of_label(states) + self.of_document(features)[:, None]).tanh()).squeeze(-1)


def log_scores(logits: Tensor, votes: Tensor | None = None, retrieval_weight: float = 0.0) -> Tensor:
    """Logarithms of candidates' scores, (B, C), in float32 or wider: of σ(l), or of σ(l)^(1 - s) · g^s with the generator's votes.

    Args:
        logits: l, (B, C).
        votes: The generator's g, (B, C), from 0 to 1. None where they are not known: only the logits decide.
        retrieval_weight: s, from 0 (only the logits) to 1 (only the votes).

    Source: our design (a geometric mean of two models' probabilities).
    """
    # Half precision would tell neither high logits apart nor the small votes of rare labels.
    scores = nn.functional.logsigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
    if votes is None or not retrieval_weight:
        return scores
    votes = votes.to(scores.dtype)
    return (1 - retrieval_weight) * scores + retrieval_weight * votes.clamp(min=torch.finfo(votes.dtype).tiny).log()


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
    target = _is_among(candidate_ids, positives).to(logits.dtype)
    losses = nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none") * there
    losses = losses.sum(dim=1)  # (B,)
    if reduction == "mean":
        losses = losses / there.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def places_among(candidate_ids: Tensor, positives: Tensor) -> Tensor:
    """Places of positives (B, P) among candidates (B, C): (B, P), -100 for those that are none and for padding."""
    same = (positives[:, :, None] == candidate_ids[:, None]) & (positives >= 0)[:, :, None]
    return torch.where(same.any(dim=2), same.to(torch.int8).argmax(dim=2), -100)


def training_candidates(
    candidate_ids: Tensor,
    positives: Tensor,
    numbers: Tensor,
    injection_rate: float,
    num_random: int,
    label_counts: Tensor,
) -> Tensor:
    """Candidates of a training document: the generator's list, missing positives, random labels.

    A positive that the generator has missed is put in with ``injection_rate``. Alone it would stand out among labels that fit each
    other, and "odd" would be learnt as "right"; so random labels, drawn as often as they occur in training and nearly all of them
    wrong, are put in too. All of them take the places of the generator's last negatives, so there are as many candidates as in
    prediction, and they are sorted by label id, which tells nothing of where they come from.

    Args:
        candidate_ids: The generator's labels, best first, (B, C), padded with -100; it must not have seen the document's own labels.
        positives: Label ids, (B, P), padded with -100.
        numbers: Random numbers from 0 to 2^62 of each document, (B, 4 · num_random + P) int64.
        injection_rate: Chance of a missing positive to be put in.
        num_random: Random labels.
        label_counts: Training documents with each label, (L,) int64; more than none in all.

    Returns:
        (B, C).

    Source: our design for what LACO §6 calls scheduled label sampling.
    """
    num_documents, width = candidate_ids.shape
    # In an order that padding does not change, or the draws for a document would depend on its neighbours.
    positives = positives.sort(dim=1, descending=True).values
    num_draws = RANDOM_NUMBERS_PER_LABEL * num_random
    chances = numbers[:, num_draws : num_draws + positives.shape[1]]
    injected = positives.masked_fill(_is_among(positives, candidate_ids) | (chances >= int(injection_rate * 2**62)), -100)
    bounds = label_counts.cumsum(0)
    random_ids = torch.searchsorted(bounds, numbers[:, :num_draws] % bounds[-1], right=True)
    # A random label must not tell a positive that was not put in, nor stand twice.
    random_ids = random_ids.masked_fill(_is_among(random_ids, positives) | _is_among(random_ids, candidate_ids), -100)
    earlier = torch.ones(num_draws, num_draws, dtype=torch.bool, device=random_ids.device).tril(-1)
    random_ids = random_ids.masked_fill(((random_ids[:, :, None] == random_ids[:, None]) & earlier).any(dim=2), -100)
    random_ids = random_ids.masked_fill((random_ids >= 0).cumsum(dim=1) > num_random, -100)

    pool = torch.cat([candidate_ids, injected, random_ids], dim=1)
    rank = torch.arange(width, device=pool.device).expand(num_documents, -1)
    rank = rank.masked_fill(_is_among(candidate_ids, positives), -1)  # positives stay
    order = torch.cat([rank, torch.full_like(torch.cat([injected, random_ids], dim=1), -1)], dim=1)
    order = order.masked_fill(pool < 0, width)
    return pool.gather(1, order.argsort(dim=1, stable=True)[:, :width]).sort(dim=1).values


def _is_among(ids: Tensor, others: Tensor) -> Tensor:
    """True at ids (B, A) that are among others (B, O); never at padding."""
    return ((ids[:, :, None] == others[:, None]) & (ids >= 0)[:, :, None]).any(dim=2)
