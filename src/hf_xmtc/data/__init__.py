"""Data sets: loading, label metadata, tokenization, batches and statistics.

Names are imported when they are first used, so the collator works without `datasets` installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .collator import XMTCDataCollator
    from .document_sample import sample_documents
    from .label_info import LabelInfo, label_info_of
    from .loader import load_xmtc_dataset
    from .statistics import dataset_statistics, label_counts, labels_per_document, summarize_statistics
    from .tokenize import tokenize_dataset

__all__ = [
    "LabelInfo",
    "XMTCDataCollator",
    "dataset_statistics",
    "label_counts",
    "label_info_of",
    "labels_per_document",
    "load_xmtc_dataset",
    "sample_documents",
    "summarize_statistics",
    "tokenize_dataset",
]

_MODULES = {
    "LabelInfo": "label_info",
    "XMTCDataCollator": "collator",
    "dataset_statistics": "statistics",
    "label_counts": "statistics",
    "label_info_of": "label_info",
    "labels_per_document": "statistics",
    "load_xmtc_dataset": "loader",
    "sample_documents": "document_sample",
    "summarize_statistics": "statistics",
    "tokenize_dataset": "tokenize",
}


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
