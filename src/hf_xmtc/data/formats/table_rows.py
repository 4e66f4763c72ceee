"""Rows of csv and tsv files with their line numbers."""

import csv
from collections.abc import Iterator
from itertools import chain
from typing import Any

__all__ = ["table_rows"]

_DELIMITERS = ",;\t"


def table_rows(lines: Iterator[str], name: Any, quoted: bool, left_out: int = 0) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with their line numbers, the column names first.

    Blank lines are no rows where there are several columns, and an empty text where there is one.

    Args:
        lines: The lines without their ends.
        name: Of the file, for messages.
        quoted: True for csv: cells may be in quotes, and the first line shows which of comma, semicolon and tab separates them.
        left_out: Lines of the file between the column names and the next row, which count in the numbers.

    Raises:
        ValueError: If there is no line of column names, or a row has more or fewer cells.
    """
    rows = _quoted_rows(lines, name, left_out) if quoted else _split_rows(lines, left_out)
    columns: list[str] = []
    for number, row in rows:
        if not columns:
            columns = row
            if not any(columns):
                raise ValueError(f"{name}, line {number} is blank, but the first line of a table names its columns.")
        elif len(columns) > 1 and len(row) < 2 and not "".join(row).strip():
            continue
        row = row or [""]
        if len(row) != len(columns):
            remedy = (
                "Put quotes around texts that hold the separator, and write it for empty cells too."
                if quoted
                else "Remove tabs and line ends from texts; if cells are in quotes, read the file as csv."
            )
            raise ValueError(
                f"{name}, line {number} has {len(row)} cells, but line 1 names {len(columns)} columns. {remedy}"
            )
        yield number, row
    if not columns:
        raise ValueError(f"{name} is empty, without even a line of column names. Was it written before it was filled?")


def _split_rows(lines: Iterator[str], left_out: int) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        yield number + left_out if number > 1 else number, line.split("\t")


def _quoted_rows(lines: Iterator[str], name: Any, left_out: int) -> Iterator[tuple[int, list[str]]]:
    first, offset = next(lines, None), 0
    if first is None:
        return
    if first.startswith("sep=") and len(first) == 5:  # Excel's way to name the delimiter
        delimiter, first, offset = first[4], next(lines, ""), 1
    else:
        # A carriage return, which stops the library, is said with its line below.
        line = first.partition("\r")[0]
        delimiter = max(_DELIMITERS, key=lambda sign: len(next(csv.reader([line], delimiter=sign), [])))
    # The library stops at cells of 128 KiB by default; a document may be a book.
    limit = csv.field_size_limit(2**31 - 1)
    line = offset  # the last one that was sound; a quote that is never closed runs to the end of the file
    reader = csv.reader((f"{line}\n" for line in chain([first], lines)), strict=True, delimiter=delimiter)
    try:
        for row in reader:
            line = reader.line_num + offset
            yield line, row
            if left_out:  # behind the column names
                line, offset, left_out = line + left_out, offset + left_out, 0
    except csv.Error as error:
        raise ValueError(
            f"{name}, the row behind line {line} is no sound csv ({error}). Is a quote inside a text not doubled? If nothing is quoted and "
            "tabs separate the cells, read the file as tsv."
        ) from error
    finally:
        csv.field_size_limit(limit)
