"""Documents as parquet files, batch by batch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hf_xmtc.models.document_tokens import replace_surrogates

from .unlabeled import labeled_rows

__all__ = ["WrittenFiles", "record_batches", "write_rows"]

# A batch ends behind so many documents or characters, and a file behind so many bytes.
_BATCH_DOCUMENTS = 8_192
_BATCH_CHARACTERS = 1 << 24
_FILE_BYTES = 500 << 20


@dataclass
class WrittenFiles:
    """Files of documents in their order.

    Attributes:
        paths: The files.
        num_documents: Documents in them.
        num_invalid: Documents whose text was not valid Unicode.
        num_dropped: Documents that were left out, without labels.
    """

    paths: list[Path]
    num_documents: int = 0
    num_invalid: int = 0
    num_dropped: int = 0


def write_rows(
    rows: Iterable[tuple[Any, ...]],
    schema: pa.Schema,
    stem: Path,
    advance: Callable[[int], object],
    drop_unlabeled: bool = False,
) -> WrittenFiles:
    """Write documents, also none, into the files ``<stem>.0``, ``<stem>.1`` and so on.

    Args:
        rows: The documents.
        schema: Their columns.
        stem: Beginning of the names.
        advance: Called with the number of documents of each batch that was written.
        drop_unlabeled: Leave out documents without labels.
    """
    written = WrittenFiles([])

    def drop() -> None:
        written.num_dropped += 1

    if drop_unlabeled:
        rows = labeled_rows(rows, schema, drop)
    writer = None
    try:
        for batch, num_invalid in record_batches(rows, schema):
            if writer is None or written.paths[-1].stat().st_size >= _FILE_BYTES:
                writer = _next_file(writer, written.paths, stem, schema)
            writer.write_batch(batch, row_group_size=len(batch))
            written.num_documents += len(batch)
            written.num_invalid += num_invalid
            advance(len(batch))
        if writer is None:  # no document
            writer = _next_file(writer, written.paths, stem, schema)
    finally:
        if writer is not None:
            writer.close()
    return written


def record_batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The documents in batches of limited size, and how many texts of each were not valid Unicode.

    Labels that a document repeats stand in it once; lone surrogates of texts become U+FFFD.

    Raises:
        ValueError: If another column is not valid Unicode.
    """
    batch: list[tuple[Any, ...]] = []
    characters, is_text = 0, schema.names[0] == "text"
    for row in rows:
        batch.append(row)
        characters += len(row[0] or "") if is_text else 0
        if len(batch) == _BATCH_DOCUMENTS or characters >= _BATCH_CHARACTERS:
            yield _record_batch(batch, schema)
            batch, characters = [], 0
    if batch:
        yield _record_batch(batch, schema)


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> tuple[pa.RecordBatch, int]:
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=False))
    if "labels" in columns:
        columns["labels"] = [list(dict.fromkeys(labels)) if len(labels) > 1 else labels for labels in columns["labels"]]
    arrays = [_array(name, columns[name], schema.field(name).type) for name in schema.names]
    return pa.record_batch([array for array, _ in arrays], schema=schema), sum(num_invalid for _, num_invalid in arrays)


def _array(name: str, values: list[Any], kind: pa.DataType) -> tuple[pa.Array, int]:
    try:
        return pa.array(values, kind), 0
    except UnicodeEncodeError as error:
        if name != "text":
            joined = ("".join(value or "") for value in values)  # lists of labels too
            strange = next(text for text in joined if replace_surrogates(text) != text)
            raise ValueError(
                f"{strange!r:.80} in the column {name!r} is not valid Unicode ({error}): it holds a lone surrogate. Mend it in the file."
            ) from error
        valid = [text and replace_surrogates(text) for text in values]
        return pa.array(valid, kind), sum(new != text for new, text in zip(valid, values, strict=True))


def _next_file(writer: pq.ParquetWriter | None, paths: list[Path], stem: Path, schema: pa.Schema) -> pq.ParquetWriter:
    if writer is not None:
        writer.close()
    paths.append(stem.with_name(f"{stem.name}.{len(paths)}"))
    return pq.ParquetWriter(paths[-1], schema, compression="zstd")
