"""Scores and training sets of the candidates that LACO reads beside a document."""

import torch
from torch import Tensor, nn

from .label_candidates import is_among

__all__ = ["RANDOM_NUMBERS_PER_LABEL", "LabelTerm", "log_scores", "places_among", "training_candidates"]

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
    injected = positives.masked_fill(is_among(positives, candidate_ids) | (chances >= int(injection_rate * 2**62)), -100)
    bounds = label_counts.cumsum(0)
    random_ids = torch.searchsorted(bounds, numbers[:, :num_draws] % bounds[-1], right=True)
    # A random label must not tell a positive that was not put in, nor stand twice.
    random_ids = random_ids.masked_fill(is_among(random_ids, positives) | is_among(random_ids, candidate_ids), -100)
    earlier = torch.ones(num_draws, num_draws, dtype=torch.bool, device=random_ids.device).tril(-1)
    random_ids = random_ids.masked_fill(((random_ids[:, :, None] == random_ids[:, None]) & earlier).any(dim=2), -100)
    random_ids = random_ids.masked_fill((random_ids >= 0).cumsum(dim=1) > num_random, -100)

    pool = torch.cat([candidate_ids, injected, random_ids], dim=1)
    rank = torch.arange(width, device=pool.device).expand(num_documents, -1)
    rank = rank.masked_fill(is_among(candidate_ids, positives), -1)  # positives stay
    order = torch.cat([rank, torch.full_like(torch.cat([injected, random_ids], dim=1), -1)], dim=1)
    order = order.masked_fill(pool < 0, width)
    return pool.gather(1, order.argsort(dim=1, stable=True)[:, :width]).sort(dim=1).values
