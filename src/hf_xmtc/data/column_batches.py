"""Columns of raw data batch by batch; damage is reported with the file it is in."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from os import PathLike

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

# Bytes of a batch, and of a file that are read at once: a text may be a book. By their mean a row group's rows of so many bytes are decoded
# at once; no more than 64, as single texts may be far longer than the mean.
_BATCH_BYTES, _BUFFER_BYTES, _BYTES_AT_ONCE, _ROWS_AT_ONCE = 1 << 22, 1 << 20, 1 << 20, 64

__all__ = ["column_batches", "damage_reported", "text_fault"]


@contextlib.contextmanager
def damage_reported(place: str | PathLike) -> Iterator[None]:
    """Turn what Arrow raises for damaged data into a ValueError that names the place.

    Errors of the operating system (no such file, no permission) stay as they are.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{place} is not readable parquet ({error}). Was the download cut off? Fetch it again.") from error


def column_batches(
    data: pads.Dataset,
    column: str | Sequence[str],
    batch_size: int,
    where: str,
    join: Callable[[list[pa.Array]], pa.Array] | None = None,
) -> Iterator[pa.Array]:
    """One column of a split, or several joined, file by file in order.

    Args:
        data: The split.
        column: Its column, or several; strings must be UTF-8.
        batch_size: Rows of a batch at most; one of long texts has fewer.
        where: Split and column, for messages on data that is in no file.
        join: Makes one array of those of several columns.

    Raises:
        ValueError: If a file is damaged or holds text that is not UTF-8.
    """
    columns = [column] if isinstance(column, str) else list(column)
    name = ",".join(columns)
    for fragment in data.get_fragments():
        place = getattr(fragment, "path", None) or where
        first_row = 0
        with damage_reported(place):
            for array in _gathered(_arrays(fragment, data.schema, columns, batch_size, join), batch_size):
                if fault := text_fault(array):
                    row, reason = fault
                    raise ValueError(
                        f"{place}: row {first_row + row} (counted from 0) of the column {name!r} is not valid text ({reason}). "
                        "Was it written in another encoding than UTF-8? Convert the texts, or fetch the file again."
                    )
                first_row += len(array)
                yield array


def _arrays(
    fragment: pads.Fragment,
    schema: pa.Schema,
    columns: list[str],
    batch_size: int,
    join: Callable[[list[pa.Array]], pa.Array] | None,
) -> Iterator[pa.Array]:
    for arrays in _arrays_of_columns(fragment, schema, columns, batch_size):
        yield join(arrays) if join else arrays[0]


def _arrays_of_columns(
    fragment: pads.Fragment, schema: pa.Schema, columns: list[str], batch_size: int
) -> Iterator[list[pa.Array]]:
    if not isinstance(fragment, pads.ParquetFileFragment):
        for batch in fragment.to_batches(schema=schema, columns=columns, batch_size=batch_size):
            yield batch.columns
        return
    # A scan of the data set would hold whole row groups, and read several ahead.
    with pq.ParquetFile(fragment.path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
        there = [column for column in columns if column in file.schema_arrow.names]
        if not there:
            yield [pa.nulls(file.metadata.num_rows, schema.field(column).type) for column in columns]
            return
        for group in range(file.num_row_groups):
            rows = _rows_at_once(file.metadata.row_group(group), there)
            for batch in file.iter_batches(rows, row_groups=[group], columns=there):
                yield [
                    _as(batch.column(column), schema.field(column).type)
                    if column in there
                    else pa.nulls(len(batch), schema.field(column).type)
                    for column in columns
                ]


def _rows_at_once(group: pq.RowGroupMetaData, columns: list[str]) -> int:
    parts = (group.column(number) for number in range(group.num_columns))
    size = sum(part.total_uncompressed_size for part in parts if part.path_in_schema.partition(".")[0] in columns)
    return max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE * group.num_rows // max(1, size)))


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _gathered(arrays: Iterator[pa.Array], batch_size: int) -> Iterator[pa.Array]:
    """Joined, until they have so many rows or bytes."""
    waiting, rows, size = [], 0, 0
    for array in arrays:
        if waiting and (rows + len(array) > batch_size or size + array.nbytes > _BATCH_BYTES):
            yield pa.concat_arrays(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(array)
        rows, size = rows + len(array), size + array.nbytes
    if waiting:
        yield pa.concat_arrays(waiting)


def text_fault(array: pa.Array) -> tuple[int, str] | None:
    """The first row whose strings are not UTF-8, with the reason; None where all is well."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        for row in range(len(array)):
            try:
                array[row].as_py()
            except UnicodeDecodeError as cause:
                return row, str(cause)
        raise error
    return None
