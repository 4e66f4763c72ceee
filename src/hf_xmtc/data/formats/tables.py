"""Tables with a line of column names: csv (quoted cells, also of Excel) and tsv (nothing is quoted)."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from .corpus import (
    LABEL_STRINGS,
    Agreement,
    Corpus,
    Documents,
    FileRows,
    Format,
    ReadSettings,
    documents_schema,
    group_field,
    missing_column,
)
from .label_cells import FLAGS, MULTI_HOT_VALUES, flags_without_multi_hot, is_one, labels_of_cell
from .split_files import files_of_splits
from .table_rows import table_rows
from .text_columns import join_texts, matching_columns, matching_label_columns
from .text_lines import Span, read_lines

__all__ = ["CSV", "TSV"]


def _read(quoted: bool) -> Callable[[dict[str, list[Path]], ReadSettings], Corpus]:
    def read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
        splits = {}
        flags: set[str] = set()  # of the spans of a file
        for split, paths in files.items():
            columns = [_columns(path, quoted, settings) for path in paths]
            has_labels = [_has_labels(path, of_file, settings) for path, of_file in zip(paths, columns, strict=True)]
            if any(has_labels) and not all(has_labels):
                raise ValueError(f"Of {', '.join(map(str, paths))} only some have the column {settings.label_column!r}.")
            label_type = LABEL_STRINGS if all(has_labels) else None
            group = group_field(settings, split, columns, paths)
            read_file = partial(
                _table_documents,
                quoted=quoted,
                settings=settings,
                groups=[settings.group_column] if group else [],
                flags=flags,
            )
            rows = FileRows(tuple(paths), read_file, cut="quoted" if quoted else "line")
            splits[split] = Documents(documents_schema(label_type, group, columns[0]), rows)
        return Corpus(splits, agreement=Agreement(flags, partial(_check_spans, quoted, settings, flags)))

    return read


def _has_labels(path: Path, columns: list[str], settings: ReadSettings) -> bool:
    if not matching_columns(columns, settings.text_column):
        raise missing_column(path, "text_column", settings.text_column, columns)
    if _label_columns(columns, settings):
        return True
    if settings.require_labels or settings.label_column != ReadSettings.label_column:
        raise missing_column(path, "label_column", settings.label_column, columns)
    return False


def _columns(path: Path, quoted: bool, settings: ReadSettings) -> list[str]:
    _, columns = next(table_rows(read_lines(path, settings.encoding), path, quoted))
    if repeated := [column for column in columns if column and columns.count(column) > 1]:
        raise ValueError(
            f"{path} has several columns named {repeated[0]!r}, among {columns}. Give all but one another name."
        )
    return columns


def _table_documents(
    path: Path | Span, quoted: bool, settings: ReadSettings, groups: list[str], flags: set[str]
) -> Iterator[tuple[Any, ...]]:
    """Text, group where there is one, and labels of each row."""
    rows = _rows_with_header(path, quoted, settings.encoding)
    _, columns = next(rows)
    texts = [columns.index(column) for column in matching_columns(columns, settings.text_column)]
    names = _label_columns(columns, settings)
    places = [columns.index(column) for column in names]
    further = [columns.index(column) for column in groups]
    if settings.label_format == "multi_hot":
        for number, row in rows:
            ones = _ones([row[i] for i in places], names, f"{path}, line {number}")
            yield join_texts([row[i] for i in texts]), *(row[i] or None for i in further), ones
    else:
        several = len(places) > 1
        seen: set[str] = set()
        for number, row in rows:
            place = f"{path}, line {number}"
            labels = [label for i in places for label in labels_of_cell(row[i], settings.label_separator, place, several)]
            if several and seen <= FLAGS:
                seen.update(label.lower() for label in labels)
            yield join_texts([row[i] for i in texts]), *(row[i] or None for i in further), labels
        if isinstance(path, Span):
            flags.update(seen)
        else:
            _check_flags(path, names, seen)


def _rows_with_header(path: Path | Span, quoted: bool, encoding: str | None) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, or of a span of it, the column names first."""
    lines = read_lines(path, encoding)
    if not isinstance(path, Span) or path.start == 0:
        return table_rows(lines, path, quoted)
    header, _ = next(table_rows(read_lines(path.path, encoding), path, quoted))  # number of its last line
    first_lines = islice(read_lines(path.path, encoding), header)
    return table_rows(chain(first_lines, lines), path, quoted, path.lines_before - header)


def _label_columns(columns: list[str], settings: ReadSettings) -> list[str]:
    return matching_label_columns(columns, settings.label_column, settings.text_column)


def _check_spans(quoted: bool, settings: ReadSettings, flags: set[str], rows: FileRows, seen: set[str]) -> None:
    """Refuse a file at its last span as if it had been read at once."""
    flags.update(seen)
    last = rows.files[-1]
    if isinstance(last, Span) and last.stop is None:
        _check_flags(last.path, _label_columns(_columns(last.path, quoted, settings), settings), flags)
        flags.clear()


def _check_flags(path: Path, names: list[str], seen: set[str]) -> None:
    """Refuse label columns that hold flags alone, read without saying so."""
    if seen and seen <= FLAGS:
        raise flags_without_multi_hot(path, names, seen)


def _ones(cells: list[str], names: list[str], place: str) -> list[str]:
    """The columns whose cell is 1."""
    ones = [is_one(cell) for cell in cells]
    if None in ones:
        wrong = ones.index(None)
        raise ValueError(
            f"{place}: the column {names[wrong]!r} holds {cells[wrong]!r:.40}, but with label_format='multi_hot' label columns hold "
            f"{MULTI_HOT_VALUES}. Write these, and name in label_column='a,b,c' (--label_column) the label columns alone."
        )
    return [name for name, one in zip(names, ones, strict=True) if one]


CSV = Format("csv", files_of_splits(".csv"), _read(quoted=True), "train.csv, validation.csv, test.csv, or one .csv file")
TSV = Format(
    "tsv", files_of_splits(".tsv", ".tab"), _read(quoted=False), "train.tsv, validation.tsv, test.tsv, or one .tsv file"
)
