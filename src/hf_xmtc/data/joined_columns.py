"""Columns of parquet files and Hub data sets that are no lists of labels, or several of them, read as tables of text read theirs."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from .column_batches import column_batches
from .formats.label_cells import MULTI_HOT_VALUES, is_one, labels_of_cell
from .formats.text_columns import matching_columns, matching_label_columns
from .label_columns import is_list, is_string, label_kind
from .loader_settings import LoaderSettings

__all__ = ["is_lists", "joined_labels", "kind_of_columns", "label_columns", "text_batches"]


def text_batches(data: pads.Dataset, wanted: str, batch_size: int, where: str) -> Iterator[pa.Array]:
    """The texts batch by batch, of several columns joined by line ends; missing ones as empty strings.

    Args:
        data: The split.
        wanted: The columns, as in `matching_columns`; they are there.
        batch_size: Rows of a batch at most.
        where: Split, for messages.
    """
    columns = matching_columns(data.schema.names, wanted)
    join = _joined_texts if len(columns) > 1 else None
    for array in column_batches(data, columns, batch_size, f"{where}: column {wanted!r}", join):
        yield array.cast(pa.string()).fill_null("")


def _joined_texts(arrays: list[pa.Array]) -> pa.Array:
    first, *others = (array.cast(pa.string()).fill_null("") for array in arrays)
    for text in others:
        both = pc.and_(pc.not_equal(first, ""), pc.not_equal(text, ""))
        first = pc.binary_join_element_wise(first, pc.if_else(both, "\n", ""), text, "")
    return first


def label_columns(schema: pa.Schema, settings: LoaderSettings) -> list[str]:
    """The label columns; none where one of several is missing."""
    return matching_label_columns(schema.names, settings.label_column, settings.text_column)


def is_lists(schema: pa.Schema, columns: list[str]) -> bool:
    """True for one column of lists, which is read as it is."""
    return len(columns) == 1 and is_list(schema.field(columns[0]).type)


def kind_of_columns(schema: pa.Schema, columns: list[str], settings: LoaderSettings, where: str) -> str:
    """Kind of the labels of these columns, as in `label_kind`.

    Args:
        schema: Their types.
        columns: Their names.
        settings: How they are read.
        where: Columns and split, for messages.

    Raises:
        ValueError: If one column has another type than lists, strings and integers, or there is a separator for lists.
    """
    kinds = [_value_type(schema.field(column).type) for column in columns]
    if settings.label_separator is not None and not any(map(is_string, kinds)):
        raise ValueError(
            f"{where} has the type {kinds[0]}, but label_separator={settings.label_separator!r} (--label_separator) splits strings. Leave it out."
        )
    if len(columns) > 1 or is_string(kinds[0]) or (settings.label_format == "multi_hot" and not is_list(kinds[0])):
        return "strings"
    return "ids" if pa.types.is_integer(kinds[0]) else label_kind(kinds[0], settings.label_format, where)


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def joined_labels(
    schema: pa.Schema, columns: list[str], settings: LoaderSettings, where: str
) -> Callable[[list[pa.Array]], pa.Array]:
    """A function from the arrays of label columns to lists of label strings, or of integers where one column holds an integer each.

    Args:
        schema: Their types.
        columns: Their names.
        settings: With ``multi_hot`` each holds 0 and 1, or what else `is_one` reads; otherwise a label, several in one string, or a list.
        where: Split, for messages.

    Raises:
        ValueError: If they hold something else.
    """
    if settings.label_format == "multi_hot":
        if lists := [column for column in columns if is_list(schema.field(column).type)]:
            raise ValueError(
                f"{where}: the label column {lists[0]!r} is one of {len(columns)} and holds lists, but with label_format='multi_hot' each of "
                f"several holds {MULTI_HOT_VALUES}. Name one column of lists, or the columns of 0 and 1 alone, in label_column=… (--label_column)."
            )
        return lambda arrays: _names_of_ones(arrays, columns, where)
    if len(columns) == 1 and pa.types.is_integer(schema.field(columns[0]).type):
        return _lists_of_one
    for column in columns:
        kind = schema.field(column).type
        if not is_string(_value_type(kind.value_type if is_list(kind) else kind)):
            raise ValueError(
                f"{where}: the label column {column!r} is one of {len(columns)} and has the type {kind}, but each must hold a label or a list of "
                "labels as strings. If it says with 0 and 1 whether a document has its label, give label_format='multi_hot' (--label_format "
                "multi_hot)."
            )
    # As in tables of text, several columns hold one label each.
    separator = "" if len(columns) > 1 and settings.label_separator is None else settings.label_separator
    return partial(_lists_of_all, separator=separator, where=f"{where}: {', '.join(columns)}")


def _names_of_ones(arrays: list[pa.Array], columns: list[str], where: str) -> pa.Array:
    matrix = np.zeros((len(arrays[0]), len(columns)), dtype=bool)
    for place, (column, array) in enumerate(zip(columns, arrays, strict=True)):
        encoded = array.dictionary_encode() if not pa.types.is_dictionary(array.type) else array
        ones = [is_one(value) for value in encoded.dictionary.to_pylist()]
        if None in ones:
            raise ValueError(
                f"{where}: the column {column!r} holds {encoded.dictionary[ones.index(None)].as_py()!r:.40}, but with label_format='multi_hot' "
                f"label columns hold {MULTI_HOT_VALUES}. Name in label_column='a,b,c' (--label_column) the label columns alone."
            )
        indices = encoded.indices.fill_null(len(ones)).to_numpy(zero_copy_only=False)
        matrix[:, place] = np.array([*ones, False])[indices]
    rows, places = np.nonzero(matrix)
    offsets = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(columns, pa.string()).take(pa.array(places)))


def _lists_of_one(arrays: list[pa.Array]) -> pa.Array:
    is_there = arrays[0].is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(is_there)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), arrays[0].drop_null())


def _lists_of_all(arrays: list[pa.Array], separator: str | None, where: str) -> pa.Array:
    def labels(cell: str | list[str] | None) -> list[str]:
        return cell if isinstance(cell, list) else labels_of_cell(cell or "", separator, where)

    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    lists = [[label for cell in row for label in labels(cell) if label != ""] for row in rows]
    return pa.array(lists, pa.list_(pa.string()))
