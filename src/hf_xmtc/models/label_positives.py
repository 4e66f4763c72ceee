"""The positives of a batch: one form for every input, and where they lie in each block of labels."""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["IGNORE_ID", "BatchPositives", "PositivesInBlock", "mark_positives", "multi_hot_targets", "positive_ids"]

IGNORE_ID = -100


class PositivesInBlock(NamedTuple):
    """Where a block of logits (n, B) is positive.

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
