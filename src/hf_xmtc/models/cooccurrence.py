"""LACO's auxiliary tasks on the states of the labels: pairwise (PLCP) and conditional (CLCP) label co-occurrence prediction."""

import torch
from torch import Tensor, nn

from .cooccurrence_sampling import LabelPairs

__all__ = ["ConditionalHead", "PairHead", "clcp_loss", "plcp_loss"]


class PairHead(nn.Module):
    """Whether a document has both labels of a pair, from their two states (LACO §3.4.1).

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
    """Whether a document has a label, given some of its labels: from its state and the mean of theirs (LACO §3.4.2).

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
        """Logits (B, L, units) for all labels, whose states are (B, L, H); ``given`` (B, L) is True at labels that are told."""
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

    A document without labels is asked nothing and adds 0, so that a batch in parts gives the same as the whole.

    Args:
        logits: (B, L, units).
        positive: True at the document's labels, (B, L).
        given: True at those that are given, (B, L).
        reduction: Over a document's remaining labels: ``mean`` (the authors' code) or ``sum`` (equation 6).
        is_label: False at padding among candidates, (B, L); None where there is none.
    """
    asked = ~given & given.any(dim=1, keepdim=True)
    asked = asked if is_label is None else asked & is_label
    # What is not asked for is taken out before the sum, because its logits may be anything.
    losses = _entropy(logits, positive).masked_fill(~asked, 0.0).sum(dim=1)
    if reduction == "mean":
        losses = losses / asked.sum(dim=1).clamp(min=1)
    return losses.sum() / max(1, len(losses))


def _entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Binary cross-entropy, summed over units: logits (…, units), targets (…)."""
    wanted = target.to(logits.dtype)[..., None]
    if logits.shape[-1] == 2:
        wanted = torch.cat([1 - wanted, wanted], dim=-1)
    return nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(dim=-1)
