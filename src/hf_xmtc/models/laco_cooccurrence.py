"""LACO's auxiliary tasks on the states of the labels: pairwise (PLCP) and conditional (CLCP) label co-occurrence prediction.

What they ask about a document, label pairs and labels that are given, is drawn anew at every visit.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .label_losses import mark_positives
from .seeded_random import uniform_numbers

__all__ = ["ConditionalHead", "LabelPairs", "PairHead", "clcp_loss", "draw_given", "draw_pairs", "plcp_loss"]

# ---- heads and losses ------------------------------------------------------------------------------------------------------


class LabelPairs(NamedTuple):
    """Pairs of labels of each document.

    Attributes:
        label_ids: The two labels, (B, M, 2); 0 where there is no pair.
        related: True where the document has both, (B, M).
        valid: True where there is a pair, (B, M).
    """

    label_ids: Tensor
    related: Tensor
    valid: Tensor


class PairHead(nn.Module):
    """Logit that a document has both labels of a pair, from their two states (LACO §3.4.1).

    Args:
        hidden_size: Width H of a label's state.
        units: 1, one logit; or 2, a unit for "unrelated" and one for "related" behind a ReLU, which is the authors' code.
        dropout: Dropout on the two states.
    """

    def __init__(self, hidden_size: int, units: int = 1, dropout: float = 0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * hidden_size, units)

    def forward(self, labels: Tensor, pairs: Tensor) -> Tensor:
        """Logits (B, M, units) of pairs (B, M, 2) of the labels whose states are (B, L, H)."""
        rows = torch.arange(len(pairs), device=pairs.device)[:, None, None]
        logits = self.output(self.dropout(labels[rows, pairs].flatten(2)))
        return logits if logits.shape[-1] == 1 else logits.relu()


class ConditionalHead(nn.Module):
    """Logit that a document has a label, given some of its labels: from its state and the mean of theirs (LACO §3.4.2).

    Args:
        hidden_size: Width H of a label's state.
        units: 1, one logit; or 2, a unit for "no" and one for "yes", which is the authors' code.
        plain: Take the states as they are (the paper); False puts dense layer, GELU and norm before them (the authors' code).
    """

    def __init__(self, hidden_size: int, units: int = 1, plain: bool = False):
        super().__init__()
        self.remaining, self.given = (
            None if plain else nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.LayerNorm(hidden_size))
            for _ in range(2)
        )
        self.output = nn.Linear(2 * hidden_size, units)

    def forward(self, labels: Tensor, given: Tensor) -> Tensor:
        """Logits (B, L, units) for all labels, whose states are (B, L, H); ``given`` (B, L) is True at labels that are given."""
        share = given.to(labels.dtype) / given.sum(dim=1, keepdim=True).clamp(min=1)
        mean = share[:, None] @ labels  # (B, 1, H)
        if self.remaining is not None:
            labels, mean = self.remaining(labels), self.given(mean)
        return self.output(torch.cat([labels, mean.expand_as(labels)], dim=-1))


def plcp_loss(logits: Tensor, pairs: LabelPairs) -> Tensor:
    """Equation 5 for logits (B, M, units): of each document the mean over its pairs, 0 without any, averaged over all documents.

    A batch in parts, as when gradients are accumulated, therefore gives the same as the whole. Documents without pairs weaken the
    task by their share; the authors' code has none, because it cannot read a document with one label. With two units the loss is the
    sum over both, which is twice as large for opposite logits.
    """
    losses = (_entropy(logits, pairs.related) * pairs.valid).sum(dim=1) / pairs.valid.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def clcp_loss(
    logits: Tensor, positive: Tensor, given: Tensor, reduction: str = "mean", is_label: Tensor | None = None
) -> Tensor:
    """Equation 6: binary cross-entropy of the labels that are not given, averaged over all documents.

    A document without labels adds 0, so that a batch in parts gives the same as the whole.

    Args:
        logits: (B, L, units).
        positive: True at the document's labels, (B, L).
        given: True at those that are given, (B, L).
        reduction: Over a document's remaining labels: ``mean`` (the authors' code) or ``sum`` (equation 6).
        is_label: False at padding among candidates, (B, L); None where there is none.
    """
    is_target = ~given & given.any(dim=1, keepdim=True)
    is_target = is_target if is_label is None else is_target & is_label
    # Other labels are taken out before the sum, because their logits may be anything.
    losses = _entropy(logits, positive).masked_fill(~is_target, 0.0).sum(dim=1)
    if reduction == "mean":
        losses = losses / is_target.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def _entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Binary cross-entropy, summed over units: logits (…, units), targets (…)."""
    target = target.to(logits.dtype)[..., None]
    if logits.shape[-1] == 2:
        target = torch.cat([1 - target, target], dim=-1)
    return nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none").sum(dim=-1)


# ---- drawing ---------------------------------------------------------------------------------------------------------------


def draw_pairs(
    positives: Tensor, num_labels: int | Tensor, seeds: Tensor, kinds: str = "one_to_two", single: str = "masked"
) -> LabelPairs:
    """Draw pairs of labels for pairwise label co-occurrence prediction.

    Args:
        positives: Distinct positive label ids of each document, (B, P), padded with -100.
        num_labels: Labels L, or those of each document, (B,).
        seeds: One number per document and visit, (B,) int64.
        kinds: ``one_to_two``: a related pair and two unrelated ones with different irrelevant labels (γ = 0.5); ``one``: a single
            pair, related with probability 1/3, about the share in the data that the authors' code writes.
        single: What a document with one label gets: ``masked``, no pair at all, which keeps γ exact, or ``negatives_only``.

    Returns:
        M = 3 pairs, related first, or 1. The order within a pair is random.

    Source: LACO §3.4.1; γ of §4.4.
    """
    largest = num_labels if isinstance(num_labels, int) else int(num_labels.max())
    ordered, count = _compact(positives, largest)
    others = num_labels - count
    number = uniform_numbers(seeds, 9).T

    first = _index(number[0], count)
    second = _index(number[1], count - 1)
    second = second + (second >= first)  # an ordered pair of two, uniform
    pairs = [torch.stack([_take(ordered, first), _take(ordered, second)], dim=1)]
    related_valid = count >= 2
    valid = [related_valid]

    away = _index(number[2], others)
    for turn in range(2):
        place = away if turn == 0 else (away + 1 + _index(number[3], others - 1)) % others.clamp(min=1)
        relevant, irrelevant = _take(ordered, _index(number[4 + turn], count)), _not_among(ordered, place, largest)
        flipped = number[6 + turn] < 0.5
        pair = torch.stack([relevant, irrelevant], dim=1)
        pairs.append(torch.where(flipped[:, None], pair.flip(1), pair))
        valid.append((count >= (1 if single == "negatives_only" else 2)) & (others > turn))

    label_ids, is_valid = torch.stack(pairs, dim=1), torch.stack(valid, dim=1)
    related = torch.zeros_like(is_valid)
    related[:, 0] = True
    if kinds == "one":
        is_related = (number[8] < 1 / 3) | ~is_valid[:, 1]
        chosen = torch.where(is_related & is_valid[:, 0], 0, 1)[:, None]  # (B, 1)
        label_ids = label_ids.gather(1, chosen[:, :, None].expand(-1, -1, 2))
        is_valid, related = is_valid.gather(1, chosen), related.gather(1, chosen)
    return LabelPairs(label_ids.masked_fill(~is_valid[:, :, None], 0), related & is_valid, is_valid)


def draw_given(positives: Tensor, num_labels: int, seeds: Tensor, count: str = "one", probability: float = 0.5) -> Tensor:
    """Draw the labels Y^G that conditional label co-occurrence prediction is given.

    Args:
        positives: As for `draw_pairs`.
        num_labels: Labels L.
        seeds: As for `draw_pairs`.
        count: How many of a document's p labels: ``one``; ``uniform``, 1 … max(1, p - 1) with equal chances; or ``bernoulli``,
            each with ``probability``, but at least one and, of several, not all.
        probability: For ``bernoulli``.

    Returns:
        True at given labels, (B, L); a document without labels has none.

    Source: LACO §3.4.2.
    """
    ordered, available = _compact(positives, num_labels)
    number = uniform_numbers(seeds, 1 + ordered.shape[1], stream=1)
    keys = number[:, 1:].masked_fill(ordered == num_labels, 2.0)  # (B, P)
    most = (available - 1).clamp(min=1)
    if count == "one":
        num_given = torch.ones_like(available)
    elif count == "uniform":
        num_given = 1 + _index(number[:, 0], most)
    else:
        num_given = (keys < probability).sum(dim=1).clamp(min=1).minimum(most)
    rank = keys.argsort(dim=1).argsort(dim=1)
    chosen = (rank < num_given[:, None]) & (ordered < num_labels)
    return mark_positives(ordered.masked_fill(~chosen, -100), num_labels)


def _compact(positives: Tensor, num_labels: int) -> tuple[Tensor, Tensor]:
    """Ids in ascending order, ``num_labels`` behind them, (B, P), and their number, (B,)."""
    ordered = positives.masked_fill(positives < 0, num_labels).sort(dim=1).values
    return ordered, (ordered < num_labels).sum(dim=1)


def _index(number: Tensor, count: Tensor) -> Tensor:
    """A place in 0 … count - 1; 0 where there is none."""
    return (number * count).long().minimum(count - 1).clamp(min=0)


def _take(ordered: Tensor, place: Tensor) -> Tensor:
    return ordered.gather(1, place[:, None].clamp(max=ordered.shape[1] - 1)).squeeze(1)


def _not_among(ordered: Tensor, place: Tensor, num_labels: int) -> Tensor:
    """The label at a place among those that a document does not have."""
    # Before the irrelevant label of place r stand all positives q_i with q_i - i <= r.
    before = ordered - torch.arange(ordered.shape[1], device=ordered.device) <= place[:, None]
    return place + (before & (ordered < num_labels)).sum(dim=1)
