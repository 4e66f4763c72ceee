"""The column of labels that are left out of a document: pairs that the makers of a data set list because the label is the document itself."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from hf_xmtc.models.filter_labels import drop_filtered, padded_filters

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["FILTER_LABELS", "drop_filtered_ids", "most_filtered"]

# Column with the ids of the labels that are neither gold labels nor predictions of a document.
FILTER_LABELS = "filter_labels"
# Documents that are looked at together.
_BLOCK = 1_024


def drop_filtered_ids(label_ids: np.ndarray, documents: "Dataset") -> np.ndarray:
    """Ranked label ids without those that are left out of each document, as `drop_filtered`.

    Args:
        label_ids: Of each document, (N, K), padded with -100.
        documents: With a column ``filter_labels``; without one nothing is left out.

    Returns:
        The ids, (N, K).
    """
    if FILTER_LABELS not in documents.column_names:
        return label_ids
    rows, kept = documents[FILTER_LABELS][:], []
    for start in range(0, len(label_ids), _BLOCK):
        block = torch.from_numpy(label_ids[start : start + _BLOCK])
        filters = padded_filters(rows[start : start + _BLOCK])
        kept.append(drop_filtered(torch.zeros(block.shape), block, filters, block.shape[1])[1].numpy())
    return np.concatenate(kept)


def most_filtered(documents: "Dataset") -> int:
    """The largest number of labels that are left out of a document."""
    return max(map(len, documents[FILTER_LABELS][:]), default=0) if FILTER_LABELS in documents.column_names else 0
