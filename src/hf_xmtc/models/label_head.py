"""`LabelHead`: hidden state → one logit per label, with the loss and top-k that every family uses."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init

__all__ = ["LabelHead", "bce_loss", "exact_topk", "positive_ids"]

IGNORE_ID = -100


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


def bce_loss(logits: Tensor, positives: Tensor, reduction: str = "mean") -> Tensor:
    """Binary cross-entropy with logits against padded positive ids, without a dense target matrix.

    BCE(x, y) = softplus(x) - y · x, so the targets are needed only where they are 1.

    Args:
        logits: (B, L).
        positives: Distinct label ids, (B, P), padded with -100 (see `positive_ids`).
        reduction: ``mean`` over B × L, ``sum_labels`` (sum over labels, mean over documents) or ``sum``.

    Returns:
        Scalar loss in float32 (float64 for float64 logits).
    """
    if len(positives) != len(logits):
        raise ValueError(
            f"labels has {len(positives)} rows but there are {len(logits)} documents. Give one row of labels per document, -100 "
            "in all of it for a document without labels."
        )
    logits = logits if logits.dtype == torch.float64 else logits.float()
    present = positives >= 0
    positive_logits = logits.gather(1, positives.clamp(min=0)).masked_fill(~present, 0.0)
    total = nn.functional.softplus(logits).sum() - positive_logits.sum()
    return total / _loss_count(logits.shape[0], logits.shape[1], reduction)


def _loss_count(num_documents: int, num_labels: int, reduction: str) -> int:
    return {"mean": num_documents * num_labels, "sum_labels": num_documents, "sum": 1}[reduction]


def exact_topk(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best labels of each document, equal logits going to the lower id.

    `torch.topk` leaves open which of several equal values it returns; rows with a tie at the k-th value are sorted instead.

    Args:
        logits: (B, L).
        k: Labels per document; all of them where k exceeds L.

    Returns:
        Logits and label ids, (B, min(k, L)), best first.

    Raises:
        ValueError: If k is less than 1.
    """
    if k < 1:
        raise ValueError(f"top_k={k}, but it must be at least 1. Leave it out for the logits of all labels.")
    k = min(k, logits.shape[1])
    values, ids = logits.topk(k, dim=1)
    ids, by_id = ids.sort(dim=1)
    values, by_value = values.gather(1, by_id).sort(dim=1, descending=True, stable=True)
    ids = ids.gather(1, by_value)
    last = values[:, -1:]
    tied = (logits == last).sum(dim=1) > (values == last).sum(dim=1)
    if bool(tied.any()):
        full = logits[tied].sort(dim=1, descending=True, stable=True)
        values, ids = values.clone(), ids.clone()
        values[tied], ids[tied] = full.values[:, :k], full.indices[:, :k]
    return values, ids


class LabelHead(nn.Module):
    """The output layer: one linear score per label, optionally through a bottleneck.

    Loss and top-k go through the labels in blocks, so that their memory is set by ``block_size`` and not by the number of
    labels. `logits` gives all of them at once, for label sets where that is affordable and for CorNet.

    Args:
        in_features: Width H of the document's hidden state.
        num_labels: Labels L.
        bottleneck_size: Width of an ELU layer between them, None for none (CorNet §5.2, Wiki-500K).
        block_size: Labels scored at a time.
    """

    def __init__(self, in_features: int, num_labels: int, bottleneck_size: int | None = None, block_size: int = 8192):
        super().__init__()
        self.num_labels = num_labels
        self.block_size = block_size
        self.bottleneck = nn.Linear(in_features, bottleneck_size) if bottleneck_size else None
        self.output = nn.Linear(bottleneck_size or in_features, num_labels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights and the biases of `torch.nn.Linear`, as the CorNet authors initialise their classifiers."""
        for linear in filter(None, (self.bottleneck, self.output)):
            bound = linear.in_features**-0.5
            init.xavier_uniform_(linear.weight)
            init.uniform_(linear.bias, -bound, bound)

    def features(self, hidden: Tensor) -> Tensor:
        """What the labels are scored from: ``hidden`` (B, H), or the bottleneck's output."""
        return hidden if self.bottleneck is None else nn.functional.elu(self.bottleneck(hidden))

    def block_logits(self, features: Tensor, start: int, stop: int) -> Tensor:
        """Logits of the labels ``start`` … ``stop - 1``, (B, stop - start)."""
        return nn.functional.linear(features, self.output.weight[start:stop], self.output.bias[start:stop])

    def forward(self, hidden: Tensor) -> Tensor:
        return self.logits(hidden)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of all labels, (B, L)."""
        return self.output(self.features(hidden))

    def scores_for(self, hidden: Tensor, label_ids: Tensor) -> Tensor:
        """Scores (after the sigmoid) of chosen labels.

        Args:
            hidden: (B, H).
            label_ids: A shortlist per document, (B, S).

        Returns:
            (B, S).
        """
        weight = self.output.weight[label_ids]  # (B, S, H)
        logits = (weight @ self.features(hidden)[:, :, None]).squeeze(-1) + self.output.bias[label_ids]
        return logits.sigmoid()

    def loss(self, hidden: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """Binary cross-entropy over all labels, block by block (CorNet §5.1's loss).

        The logits of a block are computed again in the backward pass instead of being kept.

        Args:
            hidden: (B, H).
            labels: Padded label ids (B, P) or a float multi-hot matrix (B, L).
            reduction: As in `bce_loss`.
        """
        positives = positive_ids(labels, self.num_labels)
        features = self.features(hidden)
        if self.num_labels <= self.block_size:
            return bce_loss(self.block_logits(features, 0, self.num_labels), positives, reduction)
        total = sum(
            checkpoint(self._block_loss, features, positives, start, use_reentrant=False)
            for start in range(0, self.num_labels, self.block_size)
        )
        return total / _loss_count(len(features), self.num_labels, reduction)

    def _block_loss(self, features: Tensor, positives: Tensor, start: int) -> Tensor:
        stop = min(start + self.block_size, self.num_labels)
        inside = (positives >= start) & (positives < stop)
        local = (positives - start).masked_fill(~inside, IGNORE_ID)
        return bce_loss(self.block_logits(features, start, stop), local, "sum")

    def topk(self, hidden: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best labels of each document, merged over label blocks.

        Returns:
            Scores (after the sigmoid) and label ids, (B, min(k, L)), ordered by logit, equal logits by lower id.
        """
        features = self.features(hidden)
        best: tuple[Tensor, Tensor] | None = None
        for start in range(0, self.num_labels, self.block_size):
            values, ids = exact_topk(self.block_logits(features, start, min(start + self.block_size, self.num_labels)), k)
            ids = ids + start
            if best is not None:
                # Earlier blocks hold lower ids, so a tie by position is a tie by id.
                values, ids = torch.cat([best[0], values], dim=1), torch.cat([best[1], ids], dim=1)
                values, position = exact_topk(values, k)
                ids = ids.gather(1, position)
            best = values, ids
        return best[0].sigmoid(), best[1]

    def resize_labels(self, kept_ids: Tensor) -> None:
        """Follow a change of the label space; ``kept_ids`` as in `CorNet.resize_labels`."""
        old, kept = self.output, kept_ids >= 0
        self.output = nn.Linear(old.in_features, len(kept_ids), device=old.weight.device, dtype=old.weight.dtype)
        bottleneck, self.bottleneck = self.bottleneck, None
        self.reset_parameters()
        self.bottleneck, self.num_labels = bottleneck, len(kept_ids)
        with torch.no_grad():
            self.output.weight[kept] = old.weight[kept_ids[kept]]
            self.output.bias[kept] = old.bias[kept_ids[kept]]
