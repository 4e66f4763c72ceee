"""Documents without labels, left out on request and counted."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .corpus import Corpus, Documents

__all__ = ["dropped_sentence", "without_unlabeled"]


def without_unlabeled(corpus: Corpus) -> tuple[Corpus, dict[str, int]]:
    """The documents that have labels.

    A label without a character, and one that ``filter_labels`` leaves out of the document, is none. Splits without a column of labels
    stay as they are.

    Returns:
        The data set, and the number of documents left out of each split, which is complete once its documents have been read.
    """
    counts: dict[str, int] = {}
    splits = {
        name: _labeled(documents, name, counts) if "labels" in documents.schema.names else documents
        for name, documents in corpus.splits.items()
    }
    return replace(corpus, splits=splits), counts


def _labeled(documents: Documents, name: str, counts: dict[str, int]) -> Documents:
    names = documents.schema.names
    place = names.index("labels")
    filters = names.index("filter_labels") if "filter_labels" in names else None

    def rows() -> Iterator[tuple[Any, ...]]:
        counts[name] = 0
        for row in documents.rows():
            left_out = () if filters is None else row[filters] or ()
            if any(label not in left_out and str(label).strip() for label in row[place]):
                yield row
            else:
                counts[name] += 1

    return replace(documents, rows=rows)


def dropped_sentence(counts: dict[str, int]) -> str:
    """A sentence on the documents that were left out."""
    listing = ", ".join(f"{count:,} of {split}" for split, count in counts.items())
    return f"documents without labels are left out: {listing or 'none'}."
