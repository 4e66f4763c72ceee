"""The rows of one split between source and encoded file: which documents belong to it, and their label sets."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from .column_batches import column_batches
from .duplicates import TextHashes
from .formats.unlabeled import nothing_left
from .joined_columns import text_batches
from .label_columns import LabelRows, is_list

__all__ = ["SplitRows", "drop_unlabeled"]

_BATCH_ROWS = 8_192


@dataclass
class SplitRows:
    """One split on its way: the source's rows, which of them belong to it, and their label sets."""

    data: pads.Dataset
    where: str  # for messages: the source and the split that the rows come from
    labels: LabelRows | None  # None: the source has no labels for it
    filters: LabelRows | None = None  # labels that are left out of each document; None: there are none
    keep: np.ndarray | None = None  # (documents of data,) bool; None: all of them
    known_hashes: TextHashes | None = None  # None until they are asked for

    @property
    def num_documents(self) -> int:
        """Documents of the split."""
        return self.data.count_rows() if self.keep is None else int(self.keep.sum())

    def select(self, rows: np.ndarray) -> "SplitRows":
        """The documents where the boolean ``rows``, (num_documents,), is true."""
        keep = rows
        if self.keep is not None:
            keep = self.keep.copy()
            keep[self.keep] = rows
        labels, filters = (part and part.select(rows) for part in (self.labels, self.filters))
        hashes = self.known_hashes and self.known_hashes.select(rows)
        return replace(self, labels=labels, filters=filters, keep=keep, known_hashes=hashes)

    def texts(self, column: str) -> Iterator[pa.Array]:
        """The texts batch by batch, missing ones as empty strings."""
        for array, _ in self._own(text_batches(self.data, column, _BATCH_ROWS, self.where)):
            yield array

    def hashes(self, column: str) -> TextHashes:
        """Hashes of the texts; each text is hashed once, also where the split is taken apart later."""
        if self.known_hashes is None:
            self.known_hashes = TextHashes.of(self.texts(column))
        return self.known_hashes

    def groups(self, column: str) -> Iterator[str]:
        """The group of each document, such as the book of a chapter, as text.

        Raises:
            ValueError: If there is no such column, it holds lists, or a document has no group.
        """
        if column not in self.data.schema.names:
            raise ValueError(
                f"{self.where} has no column {column!r}; its columns are {self.data.schema.names}. Name the column of the groups in "
                "group_column=…."
            )
        if is_list(kind := self.data.schema.field(column).type):
            raise ValueError(
                f"{self.where}: the column {column!r} has the type {kind}, but a document belongs to one group. Name another column in "
                "group_column=…."
            )
        batches = column_batches(self.data, column, _BATCH_ROWS, f"{self.where}: column {column!r}")
        for array, rows in self._own(batches):
            if array.null_count:
                row = int(rows[array.is_null().index(True).as_py()])
                raise ValueError(
                    f"{self.where}: row {row} (counted from 0) has nothing in the column {column!r}, so nobody knows which documents it "
                    "belongs to. Give it a value, one of its own where it stands alone."
                )
            yield from array.cast(pa.string()).to_pylist()

    def _own(self, batches: Iterator[pa.Array]) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """The part of a column that belongs to the documents, and their row numbers in the source."""
        start = 0
        for array in batches:
            rows = np.arange(start, start + len(array))
            start += len(array)
            if self.keep is not None:
                array, rows = array.filter(pa.array(self.keep[rows])), rows[self.keep[rows]]
            yield array, rows


def drop_unlabeled(splits: dict[str, SplitRows]) -> dict[str, int]:
    """Take the documents without labels out of the splits.

    Args:
        splits: Changed in place; splits without a column of labels stay as they are.

    Returns:
        How many were taken from each split.

    Raises:
        ValueError: If nothing would be left of a split.
    """
    counts = {}
    for name, split in splits.items():
        if split.labels is None:
            continue
        labeled = split.labels.lengths > 0
        if not labeled.any():
            raise nothing_left(split.where, len(labeled))
        counts[name] = int((~labeled).sum())
        if counts[name]:
            splits[name] = split.select(labeled)
    return counts
