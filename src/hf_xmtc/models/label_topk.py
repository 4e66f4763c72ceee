"""The best labels of each document, without the logits of all."""

import torch
from torch import Tensor

from .label_losses import sum_type
from .label_scorer import LabelScorer
from .tracing import is_traced

__all__ = ["block_topk", "exact_topk"]


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
    if is_traced():  # whether there is a tie may change
        full = logits.sort(dim=1, descending=True, stable=True)
        return full.values[:, :k], full.indices[:, :k]
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


def block_topk(scorer: LabelScorer, k: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """The same over blocks of labels, and the summed loss where the scorer has positives, from one pass.

    Of a block only those documents are looked at whose best logit there exceeds the k-th best that they have so far; after the
    first few blocks these are few.

    Args:
        scorer: Logits of the batch.
        k: Labels per document; all of them where k exceeds L.

    Returns:
        Logits and label ids, (B, min(k, L)), best first, equal logits going to the lower id; the loss or None.

    Raises:
        ValueError: If k is less than 1.
    """
    # Autocast would take single products to half precision.
    with torch.autocast(scorer.device.type, enabled=False):
        scorer.compute_contexts()
        return _block_topk(scorer, k)


def _block_topk(scorer: LabelScorer, k: int) -> tuple[Tensor, Tensor, Tensor | None]:
    values = ids = None
    loss = torch.zeros((), dtype=sum_type(scorer.device), device=scorer.device) if scorer.positives is not None else None
    for start, stop in scorer.blocks():
        logits = scorer.logits(start, stop)  # (n, B)
        scorer.release(start)
        if loss is not None:
            loss += scorer.loss.value(logits, scorer.positives.within(start))
        if values is None:
            values, ids = exact_topk(logits.t(), k)
            continue
        if values.shape[1] < k:
            documents = torch.arange(len(values), device=values.device)
        else:
            # An equal logit of a later block has a higher id and stays out.
            # NaN, which no comparison finds, must come out on top here too, where it is noticed.
            documents = (~(logits.amax(dim=0) <= values[:, -1])).nonzero()[:, 0]
            if not len(documents):
                continue
        block_values, places = exact_topk(logits[:, documents].t(), k)
        # Earlier blocks hold lower ids, so a tie by position is a tie by id.
        best, order = exact_topk(torch.cat([values[documents], block_values], dim=1), k)
        best_ids = torch.cat([ids[documents], places + start], dim=1).gather(1, order)
        if best.shape[1] == values.shape[1]:
            values[documents], ids[documents] = best, best_ids
        else:
            values, ids = best, best_ids
    if loss is not None:
        scorer.reduce(loss)
    return values, ids, loss
