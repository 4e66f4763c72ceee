"""Documents out of parquet, JSON lines, csv, tsv and text files of any size, chunk by chunk."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from hf_xmtc.data.filter_labels import FILTER_LABELS
from hf_xmtc.data.formats.json_objects import json_objects
from hf_xmtc.data.formats.table_rows import table_rows
from hf_xmtc.data.formats.text_lines import decode_lines, open_file
from hf_xmtc.models.document_tokens import replace_surrogates

__all__ = ["INPUT_FORMATS", "STANDARD_INPUT", "DocumentChunk", "DocumentFile", "import_pyarrow"]

INPUT_FORMATS = ("parquet", "jsonl", "csv", "tsv", "txt")
STANDARD_INPUT = "-"

_ENDINGS = {".ndjson": "jsonl"} | {f".{name}": name for name in INPUT_FORMATS}
# Characters after which a chunk ends early, and rows that Arrow reads at once, so that chunks of books do not fill the memory.
_CHUNK_CHARACTERS = 1 << 24
_PARQUET_BATCH_ROWS = 16
_PARQUET_BUFFER_BYTES = 1 << 20


@dataclass
class DocumentChunk:
    """Documents that were read together, in file order.

    Attributes:
        texts: The texts, N of them; an empty string where the file has no text.
        ids: Their ids, N, as the file has them; None where no id column was named.
        num_without_text: Number of texts that are empty, missing or no strings.
        filters: Labels that are left out of each document's predictions, as the file's ``filter_labels`` has them; None without it.
        num_not_unicode: How many texts held lone surrogates, which are not valid Unicode and became U+FFFD.
    """

    texts: list[str]
    ids: list[Any] | None
    num_without_text: int
    num_not_unicode: int = 0
    filters: list[Any] | None = None


class DocumentFile:
    """A file of documents, read from the front and never held whole.

    Text files are read as `hf_xmtc.data.formats` reads them: in UTF-8 or UTF-16, plain or gzip. In csv and tsv files the first line names
    the columns; quotes are doubled inside quotes in csv and mean nothing in tsv; a blank line is no document where there are several
    columns, and an empty text where there is one. In a txt file every line is a document.

    Args:
        path: The file, or ``-`` for standard input.
        input_format: One of `INPUT_FORMATS`; by the ending of the file's name where it is None.
        text_column: Column (key in JSON lines) of the texts; a txt file has no columns.
        id_column: Column of the ids, None for documents without ids.
        encoding: Encoding of a text file; None for UTF-8, or UTF-16 where the first bytes show it.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the format is unknown, or a parquet file is damaged or lacks a column. The other formats are looked
            into when the first chunk is read.
        ImportError: If a parquet file is given and ``pyarrow`` is missing.
    """

    def __init__(
        self,
        path: str,
        input_format: str | None = None,
        text_column: str = "text",
        id_column: str | None = None,
        encoding: str | None = None,
    ):
        self.path, self.encoding = path, encoding
        self.name = "standard input" if self.from_standard_input else path
        self.format = input_format or self._format_by_ending()
        self.text_column, self.id_column = text_column, id_column
        if self.format not in INPUT_FORMATS:
            raise ValueError(f"--input_format is {self.format!r} but must be one of {', '.join(INPUT_FORMATS)}.")
        if self.format == "txt" and id_column is not None:
            raise ValueError(
                f"--id_column is {id_column!r}, but a txt file has no columns: every line is a text. Leave it out and join "
                "by the output's row number, or give a csv, jsonl or parquet file."
            )
        if not self.from_standard_input and not Path(path).is_file():
            raise FileNotFoundError(f"There is no file {path}. Check --input; `-` reads standard input.")
        self.num_documents: int | None = None  # known before reading for parquet files only
        self.id_type: Any = None  # Arrow type of the ids of a parquet file
        self._copy: IO[bytes] | None = None
        if self.format == "parquet":
            if self.from_standard_input:
                self._copy = tempfile.TemporaryFile()  # noqa: SIM115, a parquet file is read from its end, and more than once
                shutil.copyfileobj(sys.stdin.buffer, self._copy)
            with self._parquet_file() as file:
                self.num_documents = file.metadata.num_rows

    @property
    def from_standard_input(self) -> bool:
        return self.path == STANDARD_INPUT

    def chunks(self, size: int, skip: int = 0) -> Iterator[DocumentChunk]:
        """Read the documents, ``size`` at a time.

        Args:
            size: Documents per chunk; the last may be smaller, and one of very long texts; there is no empty one.
            skip: Documents to leave out at the beginning.

        Raises:
            ValueError: If a column is missing, or the file is damaged or not what its format says.
        """
        rows = self._parquet_rows(skip) if self.format == "parquet" else islice(self._text_file_rows(), skip, None)
        while chunk := _chunk(rows, size):
            texts, ids, filters = zip(*chunk, strict=True)
            valid = [replace_surrogates(text) if isinstance(text, str) else "" for text in texts]
            yield DocumentChunk(
                texts=valid,
                ids=list(ids) if self.id_column is not None else None,
                filters=None if all(labels is None for labels in filters) else list(filters),
                num_without_text=sum(not isinstance(text, str) or not text.strip() for text in texts),
                num_not_unicode=sum(
                    isinstance(text, str) and new is not text for text, new in zip(texts, valid, strict=True)
                ),
            )

    def _format_by_ending(self) -> str:
        if self.from_standard_input:
            raise ValueError(
                f"Standard input has no file name to tell its format. Give --input_format {'|'.join(INPUT_FORMATS)}."
            )
        ending = Path(self.path).suffix.lower()
        if ending not in _ENDINGS:
            raise ValueError(
                f"The input {self.path} ends in {ending!r}, which is none of {', '.join(_ENDINGS)}. "
                f"Name its format with --input_format {'|'.join(INPUT_FORMATS)}."
            )
        return _ENDINGS[ending]

    def _check_columns(self, columns: list[str]) -> None:
        for option, column in (("--text_column", self.text_column), ("--id_column", self.id_column)):
            if column is not None and column not in columns:
                raise ValueError(
                    f"{self.name} has no column {column!r}; its columns are {', '.join(map(repr, columns)) or 'none'}. "
                    f"Name one of them with {option}."
                )
            if column is not None and columns.count(column) > 1:
                raise ValueError(
                    f"{self.name} has {columns.count(column)} columns {column!r}. Give all but one another name."
                )

    # ---- text formats ----------------------------------------------------------------------------------------------------

    def _text_file_rows(self) -> Iterator[tuple[Any, Any, Any]]:
        """(text, id, labels that are left out) of each document."""
        rows = {"jsonl": self._jsonl_rows, "txt": self._txt_rows}.get(self.format, self._table_rows)
        with self._binary_file() as binary:
            yield from rows(decode_lines(binary, self.name, self.encoding))

    @contextmanager
    def _binary_file(self) -> Iterator[IO[bytes]]:
        if self._copy is not None:
            yield self._copy
        elif self.from_standard_input:
            yield sys.stdin.buffer
        else:
            with open_file(Path(self.path)) as file:
                yield file

    def _txt_rows(self, lines: Iterator[str]) -> Iterator[tuple[Any, Any, Any]]:
        for line in lines:
            yield line, None, None

    def _jsonl_rows(self, lines: Iterator[str]) -> Iterator[tuple[Any, Any, Any]]:
        first = True
        for _, document in json_objects(lines, self.name):
            if first:
                self._check_columns(list(document))
                first = False
            yield document.get(self.text_column), document.get(self.id_column), document.get(FILTER_LABELS)

    def _table_rows(self, lines: Iterator[str]) -> Iterator[tuple[Any, Any, Any]]:
        rows = table_rows(lines, self.name, quoted=self.format == "csv")
        _, columns = next(rows, (1, None))
        if columns is None:
            return
        self._check_columns(columns)
        text_place, id_place = (columns.index(column or self.text_column) for column in (self.text_column, self.id_column))
        for _, row in rows:
            yield row[text_place], row[id_place], None

    # ---- parquet ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _parquet_file(self) -> Iterator[Any]:
        """The open parquet file, its columns checked."""
        pa = import_pyarrow("Reading parquet files")
        import pyarrow.parquet as pq

        with self._binary_file() as binary:
            try:
                # Buffered and without pre-reading, a column is streamed even where the file is one large row group.
                file = pq.ParquetFile(binary, buffer_size=_PARQUET_BUFFER_BYTES, pre_buffer=False)
            except pa.ArrowInvalid as error:
                raise ValueError(
                    f"{self.name} is not a sound parquet file ({error}). Was a download or a copy interrupted? Fetch it "
                    "again, or name another format with --input_format."
                ) from error
            schema = file.schema_arrow
            self._check_columns(schema.names)
            text_type = _value_type(schema.field(self.text_column).type)
            if str(text_type) not in ("string", "large_string", "string_view", "null"):
                raise ValueError(
                    f"{self.name}: column {self.text_column!r} has the type {text_type}, but texts are strings. Name "
                    "another column with --text_column."
                )
            if self.id_column is not None:
                self.id_type = _value_type(schema.field(self.id_column).type)
            yield file

    def _parquet_rows(self, skip: int) -> Iterator[tuple[Any, Any, Any]]:
        columns = [self.text_column, self.id_column or self.text_column]
        with self._parquet_file() as file:
            groups = list(range(file.num_row_groups))
            columns += [FILTER_LABELS] if FILTER_LABELS in file.schema_arrow.names else []
            while groups and skip >= (size := file.metadata.row_group(groups[0]).num_rows):
                skip -= size
                groups.pop(0)
            batches = (
                file.iter_batches(_PARQUET_BATCH_ROWS, row_groups=groups, columns=list(dict.fromkeys(columns)))
                if groups
                else ()
            )
            for batch in batches:
                left, skip = batch.slice(min(skip, batch.num_rows)), max(skip - batch.num_rows, 0)
                texts, ids, *filters = (left.column(column).to_pylist() for column in columns)
                yield from zip(texts, ids, *(filters or [[None] * len(texts)]), strict=True)


def _chunk(rows: Iterator[tuple[Any, Any, Any]], size: int) -> list[tuple[Any, Any, Any]]:
    """The next documents: as many, or fewer where they are very long."""
    chunk, characters = [], 0
    for row in islice(rows, size):
        text = row[0]
        chunk.append(row)
        characters += len(text) if isinstance(text, str) else 0
        if characters >= _CHUNK_CHARACTERS:
            break
    return chunk


def import_pyarrow(purpose: str) -> Any:
    """Return the ``pyarrow`` module, which only parquet files need.

    Args:
        purpose: Beginning of the sentence for the error: "Reading parquet files".

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{purpose} needs `pyarrow`: pip install 'hf_xmtc[train]'", name="pyarrow") from error
    return pyarrow


def _value_type(arrow_type: Any) -> Any:
    """The type of a column's values, whether or not it stores repeated ones once."""
    return arrow_type.value_type if str(arrow_type).startswith("dictionary<") else arrow_type
