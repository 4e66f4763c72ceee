"""What LACO's auxiliary tasks ask about a document, drawn anew at every visit: label pairs, and labels that are given.

Drawings are a function of one number per document and visit, so they depend on no worker, process or neighbour in the batch.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .label_positives import mark_positives

__all__ = ["LabelPairs", "draw_given", "draw_pairs", "mix_seeds", "random_integers", "uniform_numbers"]

# SplitMix64 (Steele, Lea and Flood, 2014), in the signed integers that torch has.
_UNSIGNED_STEP = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


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


def mix_seeds(seeds: Tensor, number: int) -> Tensor:
    """Seeds (B,) int64 made of seeds and a number, such as that of the epoch."""
    return _scrambled(_scrambled(seeds) + _signed((number + 1) * _UNSIGNED_STEP))


def uniform_numbers(seeds: Tensor, count: int, stream: int = 0) -> Tensor:
    """Numbers in [0, 1), (B, count), that depend on the seeds (B,) and the stream alone."""
    return _shifted(_numbers(seeds, count, stream), 40).float() / 2**24  # as many bits as a float32 has


def random_integers(seeds: Tensor, count: int, below: Tensor, stream: int = 0) -> Tensor:
    """Integers from 0 up to a number, (B, count) int64, that depend on the seeds (B,) and the stream alone.

    Exact for numbers that a float32 cannot count up to, such as the positives of millions of documents.
    """
    return _shifted(_numbers(seeds, count, stream), 1) % below


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

    label_ids, kept = torch.stack(pairs, dim=1), torch.stack(valid, dim=1)
    related = torch.zeros_like(kept)
    related[:, 0] = True
    if kinds == "one":
        wanted = (number[8] < 1 / 3) | ~kept[:, 1]
        chosen = torch.where(wanted & kept[:, 0], 0, 1)[:, None]  # (B, 1)
        label_ids = label_ids.gather(1, chosen[:, :, None].expand(-1, -1, 2))
        kept, related = kept.gather(1, chosen), related.gather(1, chosen)
    return LabelPairs(label_ids.masked_fill(~kept[:, :, None], 0), related & kept, kept)


def draw_given(positives: Tensor, num_labels: int, seeds: Tensor, count: str = "one", probability: float = 0.5) -> Tensor:
    """Draw the labels Y^G that conditional label co-occurrence prediction is told.

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
        wanted = torch.ones_like(available)
    elif count == "uniform":
        wanted = 1 + _index(number[:, 0], most)
    else:
        wanted = (keys < probability).sum(dim=1).clamp(min=1).minimum(most)
    rank = keys.argsort(dim=1).argsort(dim=1)
    chosen = (rank < wanted[:, None]) & (ordered < num_labels)
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


def _numbers(seeds: Tensor, count: int, stream: int) -> Tensor:
    places = torch.arange(1, count + 1, device=seeds.device)
    return _scrambled(mix_seeds(seeds, stream)[:, None] + places * _signed(_UNSIGNED_STEP))


def _scrambled(numbers: Tensor) -> Tensor:
    for shift, factor in _FACTORS:
        numbers = (numbers ^ _shifted(numbers, shift)) * factor
    return numbers ^ _shifted(numbers, 31)


def _signed(number: int) -> int:
    """The signed integer of 64 bits that a number wraps around to."""
    return (number + 2**63) % 2**64 - 2**63


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Unsigned shift to the right."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
