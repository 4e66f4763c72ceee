"""Documents to be tagged, out of the lines of a file: texts as the loader of data sets reads them, and ids; labels are left out.

Nothing here needs pyarrow.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from ..filter_labels import FILTER_LABELS
from .json_objects import json_objects
from .line_parsers import ANNIF_LINES, FASTTEXT_LINES, LIBMULTILABEL_LINES, LineParser, parse_lines
from .rcv1_tokens import token_documents
from .table_rows import table_rows
from .text_columns import XMC_TEXTS, column_listing, join_texts, keys_of_entry, matching_columns, text_of

__all__ = ["DocumentRows", "Row"]

# Text, id, and labels that are left out of the predictions.
Row = tuple[Any, Any, Any]

_PARSERS = {parser.name: parser for parser in (FASTTEXT_LINES, LIBMULTILABEL_LINES, ANNIF_LINES)}
_WITHOUT_IDS = ("txt", "fasttext", "annif")
# Formats without column names, whose documents have ids.
_WITH_UNNAMED_IDS = ("libmultilabel", "rcv1", "annif-folder")
_ID = "id"
# JSON objects that are looked at for the keys of texts and ids.
_FIRST_OBJECTS = 1_000


class DocumentRows:
    """Reads the documents of one file; how many labels and which columns were left out is known when they have been read.

    Args:
        kind: Name of the format.
        name: Of the file, for messages.
        text_column: Column (key in JSON lines) of the texts, or several as in `matching_columns`.
        id_column: Column of the ids; ``id`` in formats that have ids and no column names; None for documents without ids.
        named: True if the user named the format; else plain lines may not look like those of fastText.

    Attributes:
        num_labelled: Documents with labels.
        num_label_lines: Lines of a txt file that look like fastText's, but are read as text because the user named the format.

    Raises:
        ValueError: If the format has no ids, or they have no such name.
    """

    def __init__(self, kind: str, name: str, text_column: str = "text", id_column: str | None = None, named: bool = True):
        self.kind, self.name, self.named = kind, name, named
        self.text_column, self.id_column = text_column, id_column
        self.num_labelled = self.num_label_lines = 0
        self._columns: dict[str, None] = {}
        self._used: set[str] = set()
        if id_column is not None and kind in _WITHOUT_IDS:
            raise ValueError(
                f"--id_column is {id_column!r}, but a {kind} file has no columns: every line is a document. Leave it out and join "
                "by the output's row number, or give a csv, jsonl or parquet file."
            )
        if id_column not in (None, _ID) and kind in _WITH_UNNAMED_IDS:
            raise ValueError(
                f"--id_column is {id_column!r}, but {kind} has no names of columns. Its ids are --id_column {_ID}."
            )

    @property
    def unused_columns(self) -> list[str]:
        """Columns that were neither texts nor ids nor labels to leave out."""
        return [column for column in self._columns if column not in self._used]

    def rows(self, lines: Iterator[str]) -> Iterator[Row]:
        """The documents.

        Args:
            lines: The lines without their ends.

        Raises:
            ValueError: If a column is missing, or a line is not what the format says.
        """
        if parser := _PARSERS.get(self.kind):
            return self._labelled_rows(lines, parser)
        kinds = {"txt": self._plain_rows, "jsonl": self._json_rows, "xmc-raw": self._json_rows, "rcv1": self._token_rows}
        return kinds.get(self.kind, self._table_rows)(lines)

    def choose_columns(self, columns: list[str], more: tuple[str, ...] = ()) -> list[str]:
        """The columns of the texts.

        Args:
            columns: All there are.
            more: Further columns that are used where they are there.

        Raises:
            ValueError: If one of the texts or that of the ids is missing, or there twice.
        """
        texts = self._text_columns(columns)
        if not texts:
            raise self._missing(self._missing_text(columns), columns, "--text_column")
        if self.id_column is not None and self.id_column not in columns:
            raise self._missing(self.id_column, columns, "--id_column")
        self._columns = dict.fromkeys(columns)
        self._used = {*texts, *more} | ({self.id_column} - {None})
        if repeated := next((column for column in columns if column in self._used and columns.count(column) > 1), None):
            raise ValueError(
                f"{self.name} has {columns.count(repeated)} columns {repeated!r}. Give all but one another name."
            )
        return texts

    def _missing(self, column: str, columns: list[str], option: str) -> ValueError:
        option = f"--input_format jsonl {option}" if self.kind == "xmc-raw" and option == "--text_column" else option
        hint = " Is line 1 a document? Then name the format with --input_format." if self.kind in ("csv", "tsv") else ""
        return ValueError(
            f"{self.name} has no column {column!r}; its columns are {column_listing(columns)}. Name one of them with {option}.{hint}"
        )

    def _text_columns(self, columns: list[str]) -> list[str]:
        if self.kind == "xmc-raw":
            return XMC_TEXTS if set(XMC_TEXTS) & set(columns) else []
        return matching_columns(columns, self.text_column)

    def _missing_text(self, columns: list[str]) -> str:
        wanted = XMC_TEXTS if self.kind == "xmc-raw" else [part.strip() for part in self.text_column.split(",")]
        return next(part for part in wanted if not matching_columns(columns, part))

    # ---- formats ---------------------------------------------------------------------------------------------------------

    def _plain_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        for number, line in enumerate(lines, start=1):
            has_label = FASTTEXT_LINES.looks_right(line)
            if has_label and not self.named:
                raise ValueError(
                    f"{self.name}, line {number} begins with {line.split()[0]!r:.40}, a label of fastText. Name the format: --input_format fasttext "
                    "leaves labels out, --input_format txt reads them as words."
                )
            self.num_label_lines += has_label
            yield line, None, None

    def _labelled_rows(self, lines: Iterator[str], parser: LineParser) -> Iterator[Row]:
        for line in parse_lines(lines, self.name, parser):
            if self.id_column is not None and line.id is None:
                raise ValueError(f"{self.name} has no ids: its lines are labels and text. Leave --id_column out.")
            self.num_labelled += bool(line.labels)
            yield line.text, line.id, None

    def _token_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        return ((text, document_id, None) for document_id, text, _ in token_documents(lines, self.name))

    def _table_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        rows = table_rows(lines, self.name, quoted=self.kind == "csv")
        _, columns = next(rows)
        places = [columns.index(column) for column in self.choose_columns(columns)]
        id_place = None if self.id_column is None else columns.index(self.id_column)
        for _, row in rows:
            yield join_texts([row[i] for i in places]), None if id_place is None else row[id_place], None

    def _json_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        entries, first = json_objects(lines, self.name), []
        seen: dict[str, None] = {}
        for number, entry in entries:
            first.append((number, entry))
            seen.update(dict.fromkeys(entry))
            is_complete = self._text_columns(list(seen)) and (self.id_column is None or self.id_column in seen)
            if is_complete or len(first) == _FIRST_OBJECTS:
                break
        if not first:
            return
        texts = self.choose_columns(list(seen), (FILTER_LABELS,))
        wanted = "" if self.kind == "xmc-raw" else self.text_column
        for number, entry in chain(first, entries):
            keys = keys_of_entry(entry, texts, wanted)
            self._columns.update(dict.fromkeys(entry))
            self._used.update(keys)
            text = text_of(entry, keys, f"{self.name}, line {number}")
            yield text, entry.get(self.id_column), entry.get(FILTER_LABELS)
