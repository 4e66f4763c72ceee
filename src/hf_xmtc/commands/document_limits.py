"""Limits on the documents of a run: which rows of the data remain, and that results name those rows."""

import numpy as np
from datasets import Dataset, DatasetDict

from hf_xmtc.data.document_sample import sample_rows

__all__ = ["limit_documents", "rows_in_data"]

# Column with the place of a sampled document in the whole split.
ROW = "row"


def limit_documents(data: DatasetDict, limits: dict[str, int]) -> list[str]:
    """Put a fair sample (`hf_xmtc.data.sample_documents`) in place of each split that is larger than its limit.

    Args:
        data: The splits; changed in place.
        limits: Documents of each limited split.

    Returns:
        A sentence for each sample.
    """
    told = []
    for split, limit in limits.items():
        if split not in data or len(data[split]) <= limit:
            continue
        whole, rows = data[split], sample_rows(data[split], limit)
        # The column first: after the choice of rows it would copy the texts.
        data[split] = whole.add_column(ROW, np.arange(len(whole))).select(rows)
        told.append(f"{split}: {limit:,} of {len(whole):,} documents, a sample by a hash of their texts.")
    return told


def rows_in_data(split: Dataset) -> np.ndarray:
    """The place of each document in the split as the loader gives it, (N,)."""
    return np.asarray(split[ROW][:]) if ROW in split.column_names else np.arange(len(split))
