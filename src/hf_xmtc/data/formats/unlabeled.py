"""Documents without labels, left out on request and counted."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .corpus import Corpus, Documents

__all__ = ["dropped_sentence", "nothing_left", "without_unlabeled"]


def without_unlabeled(corpus: Corpus) -> tuple[Corpus, dict[str, int]]:
    """The documents that have labels.

    A label without a character, and one that ``filter_labels`` leaves out of the document, is none. Splits without a column of labels
    stay as they are.

    Returns:
        The data set, and the number of documents left out of each split, known once its documents have been read. Reading a split
        raises a ValueError where none of its documents has a label.
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
        counts[name] = num_kept = 0
        for row in documents.rows():
            left_out = () if filters is None else row[filters]
            if any(label not in left_out and str(label).strip() for label in row[place]):
                num_kept += 1
                yield row
            else:
                counts[name] += 1
        if counts[name] and not num_kept:
            raise nothing_left(name, counts[name])

    return replace(documents, rows=rows)


def nothing_left(split: str, num_documents: int) -> ValueError:
    """The error for a split of which nothing would be left.

    Args:
        split: Its name.
        num_documents: Its documents.
    """
    return ValueError(
        f"{split}: none of the {num_documents:,} documents has a label, so drop_unlabeled would leave nothing. Is label_column "
        "(--label_column) the right column? Else take this split out of the data, or leave drop_unlabeled out."
    )


def dropped_sentence(counts: dict[str, int]) -> str:
    """A sentence on the documents that were left out, given their number in each split."""
    listing = ", ".join(f"{count:,} in {split}" for split, count in counts.items() if count)
    return f"Documents without labels left out: {listing or 'none'}."
