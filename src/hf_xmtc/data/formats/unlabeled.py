"""Documents without labels, left out on request and counted."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

__all__ = ["TAG_HINT", "dropped_sentence", "labeled_rows", "nothing_left"]

# What to do with documents that have no labels, for messages.
TAG_HINT = "leave these texts out of the data and tag them with hf-xmtc predict (for_training=False loads them)."


def labeled_rows(
    rows: Iterable[tuple[Any, ...]], schema: pa.Schema, drop: Callable[[], object]
) -> Iterator[tuple[Any, ...]]:
    """The documents that have labels; all where there is no column of labels.

    A label without a character, and one that ``filter_labels`` leaves out of the document, is none.

    Args:
        rows: The documents.
        schema: Their columns.
        drop: Called for each document that is left out.
    """
    if "labels" not in schema.names:
        yield from rows
        return
    place = schema.names.index("labels")
    filters = schema.names.index("filter_labels") if "filter_labels" in schema.names else None
    for row in rows:
        left_out = () if filters is None else row[filters]
        if any(label not in left_out and str(label).strip() for label in row[place]):
            yield row
        else:
            drop()


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
