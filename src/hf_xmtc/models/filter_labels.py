"""Rankings without the labels that are left out of a document."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["drop_filtered", "padded_filters"]

_PADDING = -100


def drop_filtered(top_scores: Tensor, top_labels: Tensor, filters: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """A ranking without the labels that are left out of each document; those behind them move up.

    Args:
        top_scores: Scores of the ranked labels, (B, K).
        top_labels: Their ids, best first, (B, K), negative where there is none.
        filters: Ids of the labels that are left out, (B, F), padded with -100. To fill ``width`` places, K has to exceed it by F.
        width: Labels that are kept.

    Returns:
        Scores and ids, each (B, min(K, ``width``)), filled up with 0 and -100.
    """
    is_filtered = (top_labels[:, :, None] == filters[:, None, :]).any(dim=-1) | (top_labels < 0)  # (B, K)
    order = is_filtered.to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    is_filtered = is_filtered.gather(1, order)
    scores, labels = top_scores.gather(1, order), top_labels.gather(1, order)
    return scores.masked_fill(is_filtered, 0), labels.masked_fill(is_filtered, _PADDING)


def padded_filters(rows: Sequence[Any]) -> Tensor:
    """The ids that are left out of each document, (B, F) int64, padded with -100."""
    filters = torch.full((len(rows), max(map(len, rows), default=0)), _PADDING)
    for document, row in enumerate(rows):
        filters[document, : len(row)] = torch.from_numpy(np.asarray(row, dtype=np.int64))
    return filters
