"""Several columns of parquet files and Hub data sets as one, as tables of text join theirs."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from .column_batches import column_batches
from .formats.label_cells import MULTI_HOT_VALUES, is_one
from .formats.text_columns import matching_columns, matching_label_columns
from .label_columns import is_list, is_string
from .loader_settings import LoaderSettings

__all__ = ["joined_labels", "label_columns", "text_batches"]


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
    """The label columns that have to be joined; empty where one column holds the lists, or one of several is missing."""
    columns = matching_label_columns(schema.names, settings.label_column, settings.text_column)
    if columns == [settings.label_column] and (
        settings.label_format != "multi_hot" or is_list(schema.field(columns[0]).type)
    ):
        return []
    return columns


def joined_labels(
    schema: pa.Schema, columns: list[str], label_format: str, where: str
) -> Callable[[list[pa.Array]], pa.Array]:
    """A function from the arrays of several label columns to lists of label strings.

    Args:
        schema: Their types.
        columns: Their names.
        label_format: ``multi_hot`` where each holds 0 and 1, or what else `is_one` reads; otherwise they hold a label or a list of labels.
        where: Split, for messages.

    Raises:
        ValueError: If they hold something else.
    """
    if label_format == "multi_hot":
        if lists := [column for column in columns if is_list(schema.field(column).type)]:
            raise ValueError(
                f"{where}: the label column {lists[0]!r} is one of {len(columns)} and holds lists, but with label_format='multi_hot' each of "
                f"several holds {MULTI_HOT_VALUES}. Name one column of lists, or the columns of 0 and 1 alone, in label_column=… (--label_column)."
            )
        return lambda arrays: _names_of_ones(arrays, columns, where)
    for column in columns:
        kind = schema.field(column).type
        value_type = kind.value_type if isinstance(kind, pa.ListType | pa.LargeListType | pa.DictionaryType) else kind
        if not is_string(value_type):
            raise ValueError(
                f"{where}: the label column {column!r} is one of {len(columns)} and has the type {kind}, but each must hold a label or a list of "
                "labels as strings. If it says with 0 and 1 whether a document has its label, give label_format='multi_hot' (--label_format "
                "multi_hot)."
            )
    return _lists_of_all


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


def _lists_of_all(arrays: list[pa.Array]) -> pa.Array:
    rows = zip(*(array.to_pylist() for array in arrays), strict=True)
    lists = [
        [label for cell in row for label in (cell if isinstance(cell, list) else [cell or ""]) if label != ""]
        for row in rows
    ]
    return pa.array(lists, pa.list_(pa.string()))
