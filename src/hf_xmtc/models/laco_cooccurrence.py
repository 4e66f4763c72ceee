"""LACO's auxiliary tasks on the states of the labels: pairwise (PLCP) and conditional (CLCP) label co-occurrence prediction.

What they ask about a document, label pairs and labels that are given, is drawn anew at every visit.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .label_losses import mark_positives

__all__ = [
    "RANDOM_NUMBERS",
    "ConditionalHead",
    "LabelPairs",
    "PairHead",
    "clcp_loss",
    "draw_given",
    "draw_pairs",
    "plcp_loss",
]

# Random numbers of a document and visit: eight for its pairs, one for the given label.
RANDOM_NUMBERS = 9

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
        dropout: Dropout on the two states.

    The authors' code has a unit for "unrelated" and one for "related", both behind a ReLU, so no pair can cost less than ln 2.
    """

    def __init__(self, hidden_size: int, dropout: float = 0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(2 * hidden_size, 1)

    def forward(self, labels: Tensor, pairs: Tensor) -> Tensor:
        """Logits (B, M) of pairs (B, M, 2) of the labels whose states are (B, L, H)."""
        rows = torch.arange(len(pairs), device=pairs.device)[:, None, None]
        return self.output(self.dropout(labels[rows, pairs].flatten(2))).squeeze(-1)


class ConditionalHead(nn.Module):
    """Logit that a document has a label, given some of its labels: from its state and the mean of theirs (LACO §3.4.2).

    Dense layer, GELU and norm stand before both, as in the authors' code; the paper takes the states as they are.

    Args:
        hidden_size: Width H of a label's state.
    """

    def __init__(self, hidden_size: int):
        super().__init__()
        self.remaining, self.given = (
            nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.GELU(), nn.LayerNorm(hidden_size)) for _ in range(2)
        )
        self.output = nn.Linear(2 * hidden_size, 1)

    def forward(self, labels: Tensor, given: Tensor) -> Tensor:
        """Logits (B, L) for all labels, whose states are (B, L, H); ``given`` (B, L) is True at labels that are given."""
        share = given.to(labels.dtype) / given.sum(dim=1, keepdim=True).clamp(min=1)
        mean = share[:, None] @ labels  # (B, 1, H)
        labels = self.remaining(labels)
        return self.output(torch.cat([labels, self.given(mean).expand_as(labels)], dim=-1)).squeeze(-1)


def plcp_loss(logits: Tensor, pairs: LabelPairs) -> Tensor:
    """Equation 5 for logits (B, M): of each document the mean over its pairs, 0 without any, averaged over all documents.

    A batch in parts, as when gradients are accumulated, therefore gives the same as the whole. Documents without pairs weaken the
    task by their share; the authors' code has none, because it cannot read a document with one label.
    """
    losses = (_entropy(logits, pairs.related) * pairs.valid).sum(dim=1) / pairs.valid.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def clcp_loss(logits: Tensor, positive: Tensor, given: Tensor, is_label: Tensor | None = None) -> Tensor:
    """Equation 6 as a mean: binary cross-entropy over a document's labels that are not given, averaged over all documents.

    A document without labels adds 0, so that a batch in parts gives the same as the whole. The equation has the sum over the labels;
    the mean is the authors' code.

    Args:
        logits: (B, L).
        positive: True at the document's labels, (B, L).
        given: True at those that are given, (B, L).
        is_label: False at padding among candidates, (B, L); None where there is none.
    """
    is_target = ~given & given.any(dim=1, keepdim=True)
    is_target = is_target if is_label is None else is_target & is_label
    # Other labels are taken out before the sum, because their logits may be anything.
    losses = _entropy(logits, positive).masked_fill(~is_target, 0.0).sum(dim=1)
    losses = losses / is_target.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def _entropy(logits: Tensor, target: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none")


# ---- drawing ---------------------------------------------------------------------------------------------------------------


def draw_pairs(positives: Tensor, num_labels: int | Tensor, numbers: Tensor) -> LabelPairs:
    """Draw pairs of labels for pairwise label co-occurrence prediction: a related one and two unrelated ones (γ = 0.5).

    The unrelated pairs have different irrelevant labels. A document with one label gets no pair, which keeps γ exact.

    Args:
        positives: Distinct positive label ids of each document, (B, P), padded with -100.
        num_labels: Labels L, or those of each document, (B,).
        numbers: Random numbers from 0 to 2^62 of each document, (B, at least 8) int64.

    Returns:
        M = 3 pairs, related first. The order within a pair is random.

    Source: LACO §3.4.1; γ of §4.4. The authors' code draws one pair per document once, related in about a third of them.
    """
    largest = num_labels if isinstance(num_labels, int) else int(num_labels.max())
    ordered, count = _compact(positives, largest)
    others = num_labels - count
    number = numbers.T

    first = _index(number[0], count)
    second = _index(number[1], count - 1)
    second = second + (second >= first)  # an ordered pair of two, uniform
    pairs = [torch.stack([_take(ordered, first), _take(ordered, second)], dim=1)]
    valid = [count >= 2]

    away = _index(number[2], others)
    for turn in range(2):
        place = away if turn == 0 else (away + 1 + _index(number[3], others - 1)) % others.clamp(min=1)
        relevant, irrelevant = _take(ordered, _index(number[4 + turn], count)), _not_among(ordered, place, largest)
        pair = torch.stack([relevant, irrelevant], dim=1)
        pairs.append(torch.where((number[6 + turn] % 2 == 1)[:, None], pair.flip(1), pair))
        valid.append((count >= 2) & (others > turn))

    label_ids, is_valid = torch.stack(pairs, dim=1), torch.stack(valid, dim=1)
    related = torch.zeros_like(is_valid)
    related[:, 0] = is_valid[:, 0]
    return LabelPairs(label_ids.masked_fill(~is_valid[:, :, None], 0), related, is_valid)


def draw_given(positives: Tensor, num_labels: int, numbers: Tensor) -> Tensor:
    """Draw the label that conditional label co-occurrence prediction is given, one as in the authors' code.

    Args:
        positives: As for `draw_pairs`.
        num_labels: Labels L.
        numbers: A random number from 0 to 2^62 of each document, (B,) int64.

    Returns:
        True at the given label, (B, L); a document without labels has none.

    Source: LACO §3.4.2, which gives a random number of them.
    """
    ordered, count = _compact(positives, num_labels)
    given = _take(ordered, _index(numbers, count)).masked_fill(count == 0, -100)
    return mark_positives(given[:, None], num_labels)


def _compact(positives: Tensor, num_labels: int) -> tuple[Tensor, Tensor]:
    """Ids in ascending order, ``num_labels`` behind them, (B, P), and their number, (B,)."""
    ordered = positives.masked_fill(positives < 0, num_labels).sort(dim=1).values
    return ordered, (ordered < num_labels).sum(dim=1)


def _index(number: Tensor, count: Tensor) -> Tensor:
    """A place in 0 … count - 1; 0 where there is none."""
    return number % count.clamp(min=1)


def _take(ordered: Tensor, place: Tensor) -> Tensor:
    return ordered.gather(1, place[:, None].clamp(max=ordered.shape[1] - 1)).squeeze(1)


def _not_among(ordered: Tensor, place: Tensor, num_labels: int) -> Tensor:
    """The label at a place among those that a document does not have."""
    # Before the irrelevant label of place r stand all positives q_i with q_i - i <= r.
    before = ordered - torch.arange(ordered.shape[1], device=ordered.device) <= place[:, None]
    return place + (before & (ordered < num_labels)).sum(dim=1)
