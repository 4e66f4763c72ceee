"""Losses over all labels, in a form that needs the targets only where they are positive; and the positives of a batch."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = [
    "LABEL_LOSSES",
    "AsymmetricLoss",
    "BatchPositives",
    "BinaryCrossEntropy",
    "LabelLoss",
    "PositivesInBlock",
    "PropensityCrossEntropy",
    "mark_positives",
    "multi_hot_targets",
    "positive_ids",
    "sum_type",
]

IGNORE_ID = -100


# ---- positives -------------------------------------------------------------------------------------------------------------


class PositivesInBlock(NamedTuple):
    """The positives in a block of logits (n, B).

    Attributes:
        rows: Row of each positive label within the block, (P,).
        documents: Its document, (P,).
        weights: Weight of each, (P,), for losses that weigh labels; else None.
    """

    rows: Tensor
    documents: Tensor
    weights: Tensor | None


class BatchPositives:
    """The positives of a batch in the order of their labels, so that those of a block are one slice.

    Args:
        positives: Distinct label ids of each document, (B, P), padded with -100 (see `positive_ids`).
        starts: First label of every block, and the end of the last one.
        weights: Weight of each label, (L,), or None.
    """

    def __init__(self, positives: Tensor, starts: list[int], weights: Tensor | None = None):
        documents, slots = ((positives >= starts[0]) & (positives < starts[-1])).nonzero(as_tuple=True)
        self.labels, order = positives[documents, slots].sort(stable=True)
        self.documents = documents[order]
        self.weights = weights[self.labels] if weights is not None else None
        bounds = torch.searchsorted(self.labels, torch.tensor(starts, device=positives.device)).tolist()
        self._slices = {
            start: slice(*pair) for start, pair in zip(starts, zip(bounds, bounds[1:], strict=False), strict=False)
        }

    def within(self, start: int) -> PositivesInBlock:
        """Positives of the block that begins at label ``start``."""
        part = self._slices[start]
        weights = self.weights[part] if self.weights is not None else None
        return PositivesInBlock(self.labels[part] - start, self.documents[part], weights)


def positive_ids(labels: Tensor, num_labels: int) -> Tensor:
    """Bring the labels of a batch into one form: padded ids in which every positive stands once.

    Args:
        labels: Integer label ids, (B, P), padded with -100; or a float (or bool) multi-hot matrix, (B, L).
        num_labels: Number of labels L.

    Returns:
        int64 label ids, (B, P), ascending in each row, repeated and missing entries -100.

    Raises:
        ValueError: If an id lies outside 0 … L-1, or the multi-hot matrix has another width than L or other values than 0 and 1.
    """
    if labels.dim() != 2:
        raise ValueError(
            f"labels must have two dimensions, (documents, positives) or (documents, labels); got {tuple(labels.shape)}."
        )
    if labels.is_floating_point() or labels.dtype == torch.bool:
        if labels.shape[1] != num_labels:
            raise ValueError(
                f"The multi-hot labels have {labels.shape[1]} columns but the model has num_labels={num_labels}. Float labels "
                "are read as a multi-hot matrix; give label ids as integers padded with -100."
            )
        hot = labels == 1
        other = ~hot & (labels != 0)
        if bool(other.any()):
            raise ValueError(
                f"The multi-hot labels hold the value {labels[other][0].item():g}, but every label is either 0 or 1. Soft labels "
                "are not supported; give label ids as integers padded with -100."
            )
        width = max(int(hot.sum(dim=1).max()) if hot.numel() else 0, 1)
        # The positions of the ones, moved to the left by a stable sort.
        order = hot.to(torch.uint8).sort(dim=1, descending=True, stable=True)
        return order.indices[:, :width].masked_fill(order.values[:, :width] == 0, IGNORE_ID)
    labels = labels.long()
    invalid = ((labels < 0) & (labels != IGNORE_ID)) | (labels >= num_labels)
    if bool(invalid.any()):
        raise ValueError(
            f"Label id {int(labels[invalid][0])} is outside 0 … {num_labels - 1} (num_labels={num_labels}). Are the ids one-based, "
            "or the labels of another data set? Multi-hot labels must be floats; padding is -100."
        )
    ordered = labels.sort(dim=1).values
    repeated = torch.zeros_like(ordered, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered.masked_fill(repeated, IGNORE_ID)


def mark_positives(ids: Tensor, num_labels: int) -> Tensor:
    """Marks (B, L) of distinct label ids (B, P) that are padded with -100."""
    marks = torch.zeros(len(ids), num_labels + 1, dtype=torch.bool, device=ids.device)
    return marks.scatter(1, ids.masked_fill(ids < 0, num_labels), True)[:, :num_labels]


def multi_hot_targets(labels: Tensor, num_labels: int) -> Tensor:
    """Targets for a loss of one's own, such as `torch.nn.BCEWithLogitsLoss`; the models' own losses do without this matrix.

    Args:
        labels: Integer label ids, (B, P), padded with -100; or a multi-hot matrix already.
        num_labels: Number of labels L.

    Returns:
        Float zeros and ones, (B, L).

    Raises:
        ValueError: As `positive_ids`.
    """
    return mark_positives(positive_ids(labels, num_labels), num_labels).float()


# ---- losses ----------------------------------------------------------------------------------------------------------------


def sum_type(device: torch.device) -> torch.dtype:
    """Type in which the losses of label blocks are added up: float64, and float32 on Apple's GPUs, which have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


class LabelLoss:
    """A loss that is a sum over labels of one term for positives and another for negatives.

    Every label of a block is first taken for a negative, then the few positives are corrected: nothing of size documents ×
    labels holds targets. Logits are blocks with labels first, (n, B); gradients are with respect to the logits.
    """

    # True where `positive` reads a weight of each label.
    weighs_labels = False

    def negative(self, logits: Tensor) -> Tensor:
        """Term of each logit as a negative."""
        raise NotImplementedError

    def negative_gradient(self, logits: Tensor) -> Tensor:
        """Derivative of `negative`."""
        raise NotImplementedError

    def positive(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """Term of positives' logits, (P,), each with the weight of its label where the loss has weights."""
        raise NotImplementedError

    def positive_gradient(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        """Derivative of `positive`."""
        raise NotImplementedError

    def value(self, logits: Tensor, positives: PositivesInBlock) -> Tensor:
        """Sum over a block (n, B), a scalar of type `sum_type`."""
        wide = sum_type(logits.device)
        total = self.negative(logits).sum().to(wide)
        if len(positives.rows):
            chosen = logits[positives.rows, positives.documents]
            total += (self.positive(chosen, positives.weights) - self.negative(chosen)).sum().to(wide)
        return total

    def gradient(self, logits: Tensor, positives: PositivesInBlock) -> Tensor:
        """Derivative of `value` with respect to every logit of a block, (n, B)."""
        gradient = self.negative_gradient(logits)
        if len(positives.rows):
            chosen = logits[positives.rows, positives.documents]
            gradient[positives.rows, positives.documents] = self.positive_gradient(chosen, positives.weights)
        return gradient


class BinaryCrossEntropy(LabelLoss):
    """softplus(x) for negatives, softplus(-x) for positives (CorNet §5.1, AttentionXML §3.5)."""

    def negative(self, logits: Tensor) -> Tensor:
        return nn.functional.softplus(logits)

    def negative_gradient(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def positive(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        return nn.functional.softplus(-logits)

    def positive_gradient(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        return -(-logits).sigmoid()


class PropensityCrossEntropy(BinaryCrossEntropy):
    """Binary cross-entropy whose positives weigh as much as their label is likely to be missing: w · softplus(-x).

    Annotators overlook rare labels more often than frequent ones. A label that is noticed with probability p (its
    propensity) counts w = 1/p, so that tail labels are not learnt away.

    Source: the propensities, and positives weighed by 1/p, are those of Jain et al. (2016), "Extreme multi-label loss functions
    for recommendation, tagging, ranking & other missing label applications". For binary cross-entropy Qaraei et al. (2021),
    "Convex surrogates for unbiased loss functions in extreme classification with missing labels", show that weights are no
    unbiased estimate: that also subtracts (w - 1) · softplus(x) at positives, which makes it unbounded below. Their convex
    surrogate weighs positives by 2w - 1, in their code scaled to a mean of 1 over the labels; here they weigh w.
    """

    weighs_labels = True

    def positive(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        return weights * super().positive(logits, weights)

    def positive_gradient(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        return weights * super().positive_gradient(logits, weights)


class AsymmetricLoss(LabelLoss):
    """Focus on positives and on hard negatives.

    Positives cost -(1 - p)^γ₊ · log p, negatives -q^γ₋ · log(1 - q) with q = max(p - margin, 0): easy negatives, of which
    there are thousands per document, cost little, and those below the margin nothing. With both γ and the margin at 0 it
    is `BinaryCrossEntropy`.

    Args:
        gamma_positive: γ₊.
        gamma_negative: γ₋.
        margin: Probability below which a negative costs nothing, in [0, 1).

    Raises:
        ValueError: If a value is out of range.

    Source: Ridnik et al. (2021), "Asymmetric loss for multi-label classification"; the defaults (γ₊ = 0, γ₋ = 4, margin 0.05) are
    those of its training code for MS-COCO. That code takes (1 - p)^γ₊ and q^γ₋ for constants in the gradient; here it is the
    gradient of the loss.
    """

    def __init__(self, gamma_positive: float = 0.0, gamma_negative: float = 4.0, margin: float = 0.05):
        if gamma_positive < 0 or gamma_negative < 0 or not 0 <= margin < 1:
            raise ValueError(
                f"gamma_positive={gamma_positive}, gamma_negative={gamma_negative}, margin={margin}: the exponents must be at least 0 "
                "and the margin in [0, 1)."
            )
        self.gamma_positive = gamma_positive
        self.gamma_negative = gamma_negative
        self.margin = margin

    def _shifted(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """q and -log(1 - q) of negatives."""
        if not self.margin:
            return logits.sigmoid(), nn.functional.softplus(logits)
        shifted = (logits.sigmoid() - self.margin).clamp(min=0)
        # 1 - q is never below the margin, but a tiny margin is lost in rounding.
        return shifted, (-torch.log1p(-shifted)).clamp(max=-math.log(self.margin))

    def negative(self, logits: Tensor) -> Tensor:
        shifted, cost = self._shifted(logits)
        return cost * shifted**self.gamma_negative if self.gamma_negative else cost

    def negative_gradient(self, logits: Tensor) -> Tensor:
        shifted, cost = self._shifted(logits)
        scores, rest = logits.sigmoid(), (-logits).sigmoid()
        # d cost / d x = p (1 - p) / (1 - q), which is p where there is no margin.
        slope = scores * rest / (1 - shifted).clamp(min=self.margin) if self.margin else scores
        if self.margin:
            slope = slope * (shifted > 0)
        if not self.gamma_negative:
            return slope
        inner = self.gamma_negative * shifted.clamp(min=1e-30) ** (self.gamma_negative - 1) * scores * rest
        return shifted**self.gamma_negative * slope + inner * (shifted > 0) * cost

    def positive(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        return (-logits).sigmoid() ** self.gamma_positive * nn.functional.softplus(-logits)

    def positive_gradient(self, logits: Tensor, weights: Tensor | None) -> Tensor:
        rest, cost = (-logits).sigmoid(), nn.functional.softplus(-logits)
        return -(rest**self.gamma_positive) * (rest + self.gamma_positive * logits.sigmoid() * cost)


# By their names in `XMTCConfig.label_loss`.
LABEL_LOSSES = {"bce": BinaryCrossEntropy, "propensity_bce": PropensityCrossEntropy, "asymmetric": AsymmetricLoss}
