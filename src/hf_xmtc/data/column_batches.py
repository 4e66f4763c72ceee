"""Columns of raw data batch by batch; damage is reported with the file it is in."""

import contextlib
from collections.abc import Iterator
from os import PathLike

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

# Bytes of a batch, and rows and bytes of a file that are read at once: a text may be a book.
_BATCH_BYTES, _ROWS_AT_ONCE, _BUFFER_BYTES = 1 << 24, 16, 1 << 20

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


def column_batches(data: pads.Dataset, column: str, batch_size: int, where: str) -> Iterator[pa.Array]:
    """One column of a split, file by file in order.

    Args:
        data: The split.
        column: Its column; strings must be UTF-8.
        batch_size: Rows of a batch at most; one of long texts has fewer.
        where: Split and column, for messages on data that is in no file.

    Raises:
        ValueError: If a file is damaged or holds text that is not UTF-8.
    """
    for fragment in data.get_fragments():
        place = getattr(fragment, "path", None) or where
        first_row = 0
        with damage_reported(place):
            for array in _gathered(_arrays(fragment, data.schema, column, batch_size), batch_size):
                if fault := text_fault(array):
                    row, reason = fault
                    raise ValueError(
                        f"{place}: row {first_row + row} (counted from 0) of the column {column!r} is not valid text ({reason}). "
                        "Was it written in another encoding than UTF-8? Convert the texts, or fetch the file again."
                    )
                first_row += len(array)
                yield array


def _arrays(fragment: pads.Fragment, schema: pa.Schema, column: str, batch_size: int) -> Iterator[pa.Array]:
    if not isinstance(fragment, pads.ParquetFileFragment):
        for batch in fragment.to_batches(schema=schema, columns=[column], batch_size=batch_size):
            yield batch.column(0)
        return
    # A scan of the data set would hold whole row groups, and read several ahead.
    kind = schema.field(column).type
    with pq.ParquetFile(fragment.path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
        if column not in file.schema_arrow.names:
            yield pa.nulls(file.metadata.num_rows, kind)
            return
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[column]):
            array = batch.column(column)
            yield array if array.type == kind else array.cast(kind)


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
