"""Reading a label column, whatever its type, into label codes; whole batches at a time, never row by row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from .column_batches import column_batches

__all__ = [
    "LabelCoder",
    "LabelRows",
    "UnknownLabelIdError",
    "is_list",
    "is_string",
    "label_kind",
    "list_lengths",
    "read_label_rows",
]

_BATCH_ROWS = 32_768


class UnknownLabelIdError(ValueError):
    """An integer label id that no label file names."""


@dataclass(frozen=True)
class LabelRows:
    """The label sets of a split as one flat array: row i holds the next ``lengths[i]`` of ``codes``."""

    codes: np.ndarray  # (total positives,) int32
    lengths: np.ndarray  # (documents,) int32

    def select(self, keep: np.ndarray) -> "LabelRows":
        """The rows where the boolean ``keep`` is true, in order."""
        return LabelRows(self.codes[np.repeat(keep, self.lengths)], self.lengths[keep])

    @property
    def known(self) -> "LabelRows":
        """The rows without negative codes."""
        documents = np.repeat(np.arange(len(self.lengths)), self.lengths)[self.codes >= 0]
        lengths = np.bincount(documents, minlength=len(self.lengths)).astype(np.int32)
        return LabelRows(self.codes[self.codes >= 0], lengths)

    def replace(self, codes: np.ndarray) -> "LabelRows":
        """The rows with ``codes[code]`` for each code, each once in a row."""
        return LabelRows(*_drop_repeats(codes[self.codes].astype(np.int32), self.lengths))

    def without(self, others: "LabelRows") -> "LabelRows":
        """The rows less the codes that the same rows of ``others`` hold."""
        width = 1 + max(self.codes.max(initial=0), others.codes.max(initial=0))
        documents, pairs = (np.repeat(np.arange(len(rows.lengths)), rows.lengths) for rows in (self, others))
        keep = ~np.isin(documents * width + self.codes, pairs * width + others.codes)
        return LabelRows(self.codes[keep], np.bincount(documents[keep], minlength=len(self.lengths)).astype(np.int32))

    def num_rows_from(self, label_id: int) -> int:
        """Rows that hold a code of ``label_id`` or more."""
        documents = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return len(np.unique(documents[self.codes >= label_id]))

    def to_arrow(self) -> pa.ListArray:
        """A batch of rows as an Arrow list array of int32."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(self.codes))


class LabelCoder:
    """Gives each label string a provisional code, in the order in which labels are met.

    The codes say nothing about label ids: those are fixed once all splits have been read.
    """

    def __init__(self):
        self.labels: list[str] = []
        self._codes: dict[str, int] = {}

    def _codes_of(self, labels: Sequence[str]) -> np.ndarray:
        codes = np.empty(len(labels), dtype=np.int32)
        for i, label in enumerate(labels):
            code = self._codes.setdefault(label, len(self.labels))
            if code == len(self.labels):
                self.labels.append(label)
            codes[i] = code
        return codes

    def labels_in(self, rows: LabelRows) -> set[str]:
        """The distinct labels of some rows."""
        return {self.labels[code] for code in np.unique(rows.codes).tolist()}

    def encode_strings(self, values: pa.Array) -> np.ndarray:
        """Codes of label strings; only the distinct ones are looked at in Python."""
        encoded = values.dictionary_encode() if not pa.types.is_dictionary(values.type) else values
        return self._codes_of(encoded.dictionary.to_pylist())[encoded.indices.to_numpy(zero_copy_only=False)]

    def encode_ids(self, ids: np.ndarray, id_labels: Sequence[str] | None) -> np.ndarray:
        """Codes of integer label ids, by ``id_labels[id]`` or, without names, by the decimal number."""
        distinct, positions = np.unique(ids, return_inverse=True)
        labels = [str(i) if id_labels is None else id_labels[i] for i in distinct.tolist()]
        return self._codes_of(labels)[positions]


def label_kind(label_type: pa.DataType, label_format: str, where: str) -> str:
    """Kind of a label column: ``strings``, ``ids``, ``multi_hot`` or ``empty`` (lists without any value).

    Args:
        label_type: Arrow type of the column.
        label_format: How integers are to be read, ``ids`` or ``multi_hot``.
        where: Column and split, for the message.

    Raises:
        ValueError: If the type is none of these or contradicts ``label_format``.
    """
    types = pa.types
    if is_list(label_type):
        value_type = label_type.value_type
        if types.is_dictionary(value_type):
            value_type = value_type.value_type
        if types.is_null(value_type):
            return "empty"
        if is_string(value_type):
            if label_format == "multi_hot":
                raise ValueError(f"{where} holds strings but label_format='multi_hot'. Leave label_format out.")
            return "strings"
        if types.is_integer(value_type):
            return label_format
        if types.is_floating(value_type) or types.is_boolean(value_type):
            if label_format == "ids":
                raise ValueError(
                    f"{where} holds {value_type} values but label_format='ids'. "
                    "Are the rows 0/1 over all labels? Then pass label_format='multi_hot'."
                )
            return "multi_hot"
    hint = "Each row must be a list of label strings or of integer label ids"
    if is_string(label_type):
        hint += "; split the strings at their separator into lists first"
    elif types.is_integer(label_type):
        hint += "; for one label per document, put each id into a list of one"
    raise ValueError(f"{where} has the unsupported type {label_type}. {hint}.")


def list_lengths(column: pa.Array) -> np.ndarray:
    """Number of values of each list, 0 where the list is missing; (rows,) int32."""
    return pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int32)


def read_label_rows(
    data: pads.Dataset,
    column: str | Sequence[str],
    kind: str,
    coder: LabelCoder,
    id_labels: Sequence[str] | None,
    where: str,
    join: Callable[[list[pa.Array]], pa.Array] | None = None,
) -> LabelRows:
    """Read the label column of one split.

    Labels repeated in a row are kept once, at their first place. Rows without labels are kept.

    Args:
        data: The split.
        column: Its label column, or several that ``join`` makes lists of.
        kind: Kind of the column, from `label_kind`.
        coder: Turns labels into codes, shared by all splits.
        id_labels: Label of each integer id or multi-hot column; ``None`` = the decimal number (ids only).
        where: Column and split, for messages.
        join: As in `column_batches`.

    Raises:
        ValueError: If an id is negative or has no name, or a multi-hot row has another width or other values than 0/1; if a
            file is damaged.
    """
    codes, lengths, first_row = [], [], 0
    widths, largest_id = set(), -1
    for array in column_batches(data, column, _BATCH_ROWS, where, join):
        row_lengths = list_lengths(array)
        values = array.flatten()
        if values.null_count:
            element = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            row = first_row + _row_of(element, row_lengths)
            raise ValueError(f"{where}: row {row} (counted from 0) holds a missing label (null). Remove it from the list.")
        if kind == "strings":
            row_codes = coder.encode_strings(values)
        elif kind == "empty":
            row_codes = np.empty(0, dtype=np.int32)
        else:
            numbers = values.to_numpy(zero_copy_only=False)
            if kind == "multi_hot":
                numbers, row_lengths = _multi_hot_ids(numbers, row_lengths, len(id_labels), where, first_row)
            elif len(numbers):
                _check_ids(numbers, row_lengths, id_labels, where, first_row)
                largest_id = max(largest_id, int(numbers.max()))
            row_codes = coder.encode_ids(numbers, id_labels)
        widths.update(np.unique(row_lengths).tolist())
        row_codes, row_lengths = _drop_repeats(row_codes, row_lengths)
        codes.append(row_codes)
        lengths.append(row_lengths)
        first_row += len(array)
    # Three or more values from {0, 1} in every row: as ids, every row would repeat itself.
    if kind == "ids" and largest_id in (0, 1) and len(widths) == 1 and min(widths) > 2:
        raise ValueError(
            f"{where}: every row has the same number of values and all values are 0 or 1, but label_format='ids'. "
            "Are the rows multi-hot? Then pass label_format='multi_hot'."
        )
    return LabelRows(
        np.concatenate(codes or [np.empty(0, np.int32)]).astype(np.int32),
        np.concatenate(lengths or [np.empty(0, np.int32)]).astype(np.int32),
    )


def is_list(value_type: pa.DataType) -> bool:
    """True if an Arrow type is one of the list types."""
    types = pa.types
    return types.is_list(value_type) or types.is_large_list(value_type) or types.is_fixed_size_list(value_type)


def is_string(value_type: pa.DataType) -> bool:
    """True if an Arrow type is one of the string types."""
    return pa.types.is_string(value_type) or pa.types.is_large_string(value_type) or pa.types.is_string_view(value_type)


def _row_of(element: int, lengths: np.ndarray) -> int:
    return int(np.searchsorted(np.cumsum(lengths), element, side="right"))


def _check_ids(ids: np.ndarray, lengths: np.ndarray, id_labels: Sequence[str] | None, where: str, first_row: int) -> None:
    wrong = ids < 0 if id_labels is None else (ids < 0) | (ids >= len(id_labels))
    if not wrong.any():
        return
    element = int(np.flatnonzero(wrong)[0])
    row, value = first_row + _row_of(element, lengths), int(ids[element])
    if value < 0:
        hint = "Was the column padded? Remove the padding; a document without labels has an empty list."
        raise ValueError(f"{where}: row {row} (counted from 0) holds the negative label id {value}. {hint}")
    raise UnknownLabelIdError(
        f"{where}: row {row} (counted from 0) holds the label id {value}, but there are {len(id_labels)} label names "
        f"(ids 0 to {len(id_labels) - 1}). Do the ids start at 1, or does the list of names belong to other data? "
        "Give one name per id."
    )


def _multi_hot_ids(
    values: np.ndarray, lengths: np.ndarray, width: int, where: str, first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Column numbers of the ones, and how many each row has."""
    if (lengths != width).any():
        row = int(np.flatnonzero(lengths != width)[0])
        raise ValueError(
            f"{where}: the multi-hot row {first_row + row} (counted from 0) has {lengths[row]} values, expected {width}. "
            "Are these label ids? Then leave label_format='multi_hot' out."
        )
    if not np.isin(values, (0, 1)).all():
        element = int(np.flatnonzero(~np.isin(values, (0, 1)))[0])
        raise ValueError(
            f"{where}: the multi-hot row {first_row + element // width} (counted from 0) holds the value {values[element]}, "
            "expected 0 or 1. Are these label ids? Then leave label_format='multi_hot' out."
        )
    rows, columns = np.nonzero(values.reshape(len(lengths), width))
    return columns, np.bincount(rows, minlength=len(lengths)).astype(np.int32)


def _drop_repeats(codes: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(codes) == 0:
        return codes, lengths
    rows = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    _, first = np.unique(rows * (int(codes.max()) + 1) + codes, return_index=True)
    if len(first) == len(codes):
        return codes, lengths
    first.sort()
    return codes[first], np.bincount(rows[first], minlength=len(lengths)).astype(np.int32)
