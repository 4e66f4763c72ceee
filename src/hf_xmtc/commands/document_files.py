"""Documents out of files of any format and size, chunk by chunk."""

import gzip
import io
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
from hf_xmtc.data.formats.document_rows import DocumentRows, Row
from hf_xmtc.data.formats.full_texts import read_text, subjects_of, texts_in
from hf_xmtc.data.formats.text_columns import column_listing, join_texts
from hf_xmtc.data.formats.text_lines import decode_lines, open_file
from hf_xmtc.models.document_tokens import replace_surrogates

from .document_formats import recognise_format
from .predict_options import INPUT_FORMATS

__all__ = ["STANDARD_INPUT", "DocumentChunk", "DocumentFile", "import_pyarrow"]

STANDARD_INPUT = "-"

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
        num_without_text: Number of texts that are empty or missing.
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

    Texts are read as `hf_xmtc.data.formats` reads them, by the same functions: text files in UTF-8 or UTF-16, plain or gzip, several
    columns joined. Labels in the file are no part of the text.

    Args:
        path: The file, ``-`` for standard input, or for ``annif-folder`` a folder.
        input_format: One of `INPUT_FORMATS`; recognised by the ending of the file's name and its first line where it is None.
        text_column: Column (key in JSON lines) of the texts; several with commas between them, or a pattern with ``*``.
        id_column: Column of the ids, None for documents without ids. Formats with ids and no column names call it ``id``: libmultilabel
            with three fields, rcv1, and annif-folder, where it is the name of the file.
        encoding: Encoding of a text file; None for UTF-8, or UTF-16 where the first bytes show it.

    Attributes:
        notes: Sentences on how the file is read, where the user may expect something else.
        num_documents: Number of documents where it is known before reading, as for parquet files.
        id_type: Arrow type of the ids of a parquet file.

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
        self.path, self.encoding, self.id_column = path, encoding, id_column
        self.name = "standard input" if self.from_standard_input else path
        if not (self.from_standard_input or Path(path).is_file() or Path(path).is_dir()):
            raise FileNotFoundError(f"There is no file {path}. Check --input; `-` reads standard input.")
        self.notes: list[str] = []
        self.format = input_format or self._recognise(text_column)
        if self.format not in INPUT_FORMATS:
            raise ValueError(f"--input_format is {self.format!r} but must be one of {', '.join(INPUT_FORMATS)}.")
        self._reader = DocumentRows(self.format, self.name, text_column, id_column, named=input_format is not None)
        self._check_place()
        self.num_documents: int | None = None
        self.id_type: Any = None
        self._copy: IO[bytes] | None = None
        self._text_columns: list[str] = []  # of a parquet file
        if self.format == "annif-folder":
            self.num_documents = len(self.files)
        elif self.format == "parquet":
            if self.from_standard_input:
                self._copy = tempfile.TemporaryFile()  # noqa: SIM115, a parquet file is read from its end, and more than once
                with _uncompressed(sys.stdin.buffer) as stream:
                    shutil.copyfileobj(stream, self._copy)
            with self._parquet_file() as file:
                self.num_documents = file.metadata.num_rows
        elif self.format == "xmc-raw" and not self.from_standard_input:
            pairs = sorted(file.name for file in Path(path).parent.glob("*filter_labels*.txt"))
            if pairs:
                self.notes.append(
                    f"{', '.join(pairs)} beside {path}: not used. To leave these labels out, predict a copy in parquet (hf-xmtc convert)."
                )

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
        if self.format == "parquet":
            rows = self._parquet_rows(skip)
        else:
            rows = islice(self._folder_rows() if self.format == "annif-folder" else self._text_file_rows(), skip, None)
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

    @property
    def files(self) -> list[Path]:
        """The files that are read, in order; none for standard input."""
        if self.from_standard_input:
            return []
        return texts_in(Path(self.path)) if self.format == "annif-folder" else [Path(self.path)]

    def unused(self) -> list[str]:
        """Sentences on columns and labels of the documents read so far that predicting does not use."""
        sentences, columns, labelled = [], self._reader.unused_columns, self._reader.num_labelled
        if columns:
            are = "column is" if len(columns) == 1 else "columns are"
            sentences.append(f"{len(columns):,} {are} not used: {column_listing(columns)}.")
        if labelled:
            sentences.append(f"The labels of {labelled:,} {'document' if labelled == 1 else 'documents'} are not used.")
        if lines := self._reader.num_label_lines:
            sentences.append(
                f"{lines:,} {'line begins' if lines == 1 else 'lines begin'} with __label__, read as a word; --input_format fasttext leaves it out."
            )
        return sentences

    def _recognise(self, text_column: str) -> str:
        if self.from_standard_input:
            raise ValueError(
                f"Standard input has no file name to tell its format. Give --input_format {'|'.join(INPUT_FORMATS)}."
            )
        kind, note = recognise_format(Path(self.path), self.encoding, text_column)
        self.notes += [note] if note else []
        return kind

    def _check_place(self) -> None:
        """Refuse a folder where a file is needed, and the reverse."""
        is_folder = not self.from_standard_input and Path(self.path).is_dir()
        if self.format != "annif-folder":
            if is_folder:
                raise ValueError(
                    f"The input {self.path} is a folder, but {self.format} is a format of files. Name one in it."
                )
        elif not (is_folder and self.files):
            raise ValueError(
                f"{self.name} is no folder with .txt files, which --input_format annif-folder needs. Name the folder that holds them."
            )

    def _text_file_rows(self) -> Iterator[Row]:
        with self._binary_file() as binary:
            yield from self._reader.rows(decode_lines(binary, self.name, self.encoding))

    def _folder_rows(self) -> Iterator[Row]:
        for path in self.files:
            self._reader.num_labelled += subjects_of(path) is not None
            yield read_text(path, self.encoding), path.name, None

    @contextmanager
    def _binary_file(self) -> Iterator[IO[bytes]]:
        if self._copy is not None:
            yield self._copy
        elif self.from_standard_input:
            with _uncompressed(sys.stdin.buffer) as stream:
                yield stream
        else:
            with open_file(Path(self.path)) as file:
                yield file

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
            self._text_columns = self._reader.choose_columns(schema.names, (FILTER_LABELS,))
            for column in self._text_columns:
                text_type = _value_type(schema.field(column).type)
                if str(text_type) not in ("string", "large_string", "string_view", "null"):
                    raise ValueError(
                        f"{self.name}: column {column!r} has the type {text_type}, but texts are strings. Name "
                        "another column with --text_column."
                    )
            if self.id_column is not None:
                self.id_type = _value_type(schema.field(self.id_column).type)
            yield file

    def _parquet_rows(self, skip: int) -> Iterator[Row]:
        with self._parquet_file() as file:
            groups = list(range(file.num_row_groups))
            others = [self.id_column, FILTER_LABELS if FILTER_LABELS in file.schema_arrow.names else None]
            columns = [*self._text_columns, *(column for column in others if column is not None)]
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
                values = {column: left.column(column).to_pylist() for column in dict.fromkeys(columns)}
                texts = map(join_texts, zip(*(values[column] for column in self._text_columns), strict=True))
                yield from zip(texts, *(values.get(column, [None] * len(left)) for column in others), strict=True)


def _chunk(rows: Iterator[Row], size: int) -> list[Row]:
    """The next documents: as many, or fewer where they are very long."""
    chunk, characters = [], 0
    for row in islice(rows, size):
        text = row[0]
        chunk.append(row)
        characters += len(text) if isinstance(text, str) else 0
        if characters >= _CHUNK_CHARACTERS:
            break
    return chunk


@contextmanager
def _uncompressed(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """A stream that cannot be opened twice; gzip is recognised by its content."""
    buffered = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    try:
        compressed = buffered.peek(2).startswith(b"\x1f\x8b")
        yield io.BufferedReader(gzip.GzipFile(fileobj=buffered)) if compressed else buffered
    finally:
        if buffered is not stream:
            buffered.detach()  # who opened the stream closes it


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
