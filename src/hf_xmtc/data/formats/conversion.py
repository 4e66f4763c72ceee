"""From any format to a folder of parquet files, document by document."""

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from hf_xmtc.models.document_tokens import replace_surrogates

from ..label_file import LabelFile
from .corpus import Corpus, Documents

__all__ = ["record_batches", "write_corpus", "write_labels"]

logger = logging.getLogger(__name__)

# A batch ends behind so many documents or characters, and a file behind so many bytes.
_BATCH_DOCUMENTS = 8_192
_BATCH_CHARACTERS = 1 << 24
_FILE_BYTES = 500 << 20


def write_corpus(corpus: Corpus, folder: Path, name: str, progress: bool | None = None) -> dict[str, int]:
    """Write each split as parquet files with the columns of its documents, and ``labels.parquet`` where labels are described.

    Args:
        corpus: The data set.
        folder: An empty folder.
        name: Of data set and format, shown while it is read.
        progress: False for no progress bar; None for one on terminals.

    Returns:
        The number of documents of each split.
    """
    counts = {}
    for split, documents in corpus.splits.items():
        disable = None if progress is None else not progress
        with tqdm(desc=f"{name}: {split}", unit=" documents", disable=disable) as bar:
            files, count = _write_split(documents, folder, split, bar)
        for number, path in enumerate(files):
            target = f"{split}-{number:05d}-of-{len(files):05d}" if len(files) > 1 else split
            os.rename(path, folder / f"{target}.parquet")
        counts[split] = count
    if corpus.labels is not None:
        write_labels(corpus.labels, folder / "labels.parquet")
    return counts


def write_labels(labels: LabelFile, path: Path) -> None:
    """Write the labels as a label file in parquet."""
    names = labels.names
    columns = {"label": pa.array(names.labels, pa.string())}
    columns["name"] = pa.array([names.name_of(i) for i in range(len(names))], pa.string())
    if labels.descriptions:
        columns["description"] = pa.array(labels.descriptions, pa.string())
    columns["parents"] = pa.array([names.parents_of(i) for i in range(len(names))], pa.list_(pa.string()))
    pq.write_table(pa.table(columns), path)


def record_batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The documents in batches of limited size; labels that a document repeats stand in it once."""
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


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(schema.names, zip(*rows, strict=True), strict=False))
    if "labels" in columns:
        columns["labels"] = [list(dict.fromkeys(labels)) if len(labels) > 1 else labels for labels in columns["labels"]]
    return pa.record_batch([_array(name, columns[name], schema.field(name).type) for name in schema.names], schema=schema)


def _array(name: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError as error:
        if name != "text":
            joined = ("".join(value or "") for value in values)  # lists of labels too
            strange = next(text for text in joined if replace_surrogates(text) != text)
            raise ValueError(
                f"{strange!r:.80} in the column {name!r} is not valid Unicode ({error}): it holds a lone surrogate. Mend it in the file."
            ) from error
        valid = [text and replace_surrogates(text) for text in values]
        number = sum(new != text for new, text in zip(valid, values, strict=True))
        logger.warning(f"{number:,} texts are not valid Unicode; each of their lone surrogates is now U+FFFD.")
        return pa.array(valid, kind)


def _write_split(documents: Documents, folder: Path, split: str, bar: tqdm) -> tuple[list[Path], int]:
    """Write the files of a split under provisional names; their number of documents."""
    files: list[Path] = []
    writer, count = None, 0
    try:
        for batch in record_batches(documents.rows(), documents.schema):
            if writer is None or files[-1].stat().st_size >= _FILE_BYTES:
                writer = _next_file(writer, files, folder / f"{split}.{len(files)}", documents.schema)
            writer.write_batch(batch, row_group_size=len(batch))
            count += len(batch)
            bar.update(len(batch))
        if writer is None:  # no document
            writer = _next_file(writer, files, folder / f"{split}.0", documents.schema)
    finally:
        if writer is not None:
            writer.close()
    return files, count


def _next_file(writer: pq.ParquetWriter | None, files: list[Path], path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    if writer is not None:
        writer.close()
    files.append(path)
    return pq.ParquetWriter(path, schema, compression="zstd")
