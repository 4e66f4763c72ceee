"""A data set in somebody's own files: the documents of each split, one after the other, and its labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..label_file import LabelFile
from .text_columns import column_listing
from .text_lines import Span
from .unlabeled import TAG_HINT

__all__ = [
    "LABEL_IDS",
    "LABEL_STRINGS",
    "Agreement",
    "Corpus",
    "Documents",
    "FileRows",
    "Format",
    "ReadSettings",
    "check_label_id",
    "columns_of_files",
    "documents_schema",
    "group_field",
    "missing_column",
    "stored_group",
]

LABEL_STRINGS = pa.list_(pa.string())
LABEL_IDS = pa.list_(pa.int32())
# Under this name the schema of documents without labels says which columns their files have.
_COLUMNS, _END = b"columns_of_files", "\x1f"
_OWN_COLUMNS = ("text", "labels", "filter_labels")


@dataclass(frozen=True)
class ReadSettings:
    """How files are read that do not say everything themselves.

    Attributes:
        text_column: Column of the texts, or several with commas between them, joined by line ends.
        label_column: Column of the labels, or several with commas between them; ``*`` stands for any characters.
        label_format: ``multi_hot`` where several label columns, or lists of numbers, hold 0 and 1.
        label_separator: What separates the labels in a cell, ``""`` where a cell is one label; None where cells are lists.
        one_based: True if label ids count from 1.
        encoding: Encoding of the files, by default UTF-8 or a recognised UTF-16.
        with_features: Also read the features of documents.
        group_column: A further column of tables and JSON lines to keep, by which documents may be split.
        require_labels: Refuse documents without a column of labels.
        num_labels: Labels of a label file, which integer ids of JSON lines must be among; None where there is none.
    """

    text_column: str = "text"
    label_column: str = "labels"
    label_format: str = "ids"
    label_separator: str | None = None
    one_based: bool = False
    encoding: str | None = None
    with_features: bool = False
    group_column: str | None = None
    require_labels: bool = True
    num_labels: int | None = None


@dataclass(frozen=True)
class Documents:
    """The documents of a split.

    Attributes:
        schema: Columns of the documents, among ``text``, ``labels``, ``filter_labels``, ``feature_ids``, ``feature_values``, and
            that of groups (`stored_group`).
        rows: Starts to read and gives a tuple of those columns for each document; a `FileRows` where files may be read on their own.
    """

    schema: pa.Schema
    rows: Callable[[], Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class FileRows:
    """The rows of one file after the other.

    Attributes:
        files: The files.
        read: Gives the rows of one; of a span too where files may be cut.
        cut: Where: behind any ``line``, or behind a ``quoted`` line, which may hold line ends between double quotes; None for nowhere.
    """

    files: tuple[Path | Span, ...]
    read: Callable[[Any], Iterator[tuple[Any, ...]]]
    cut: str | None = None

    def __call__(self) -> Iterator[tuple[Any, ...]]:
        """Start to read."""
        return (row for file in self.files for row in self.read(file))

    def numbered(self) -> "FileRows":
        """The same, with the numbers that lines have in the whole file in the messages of errors."""
        return replace(self, files=tuple(file.numbered() if isinstance(file, Span) else file for file in self.files))


@dataclass(frozen=True)
class Agreement:
    """Agreement of parts of a data set that several processes read.

    Attributes:
        seen: Filled while a part is read.
        check: Gets one part after the other, in order, with what was seen of it; raises the `ValueError` in which reading them one
            after the other would end. Leaves in `seen` what a part behind them must agree with.
    """

    seen: set[Any]
    check: Callable[[FileRows, set[Any]], None]


@dataclass(frozen=True)
class Corpus:
    """The splits of a data set, its labels where the files describe them (index = label id where labels are ids), and what parts agree in."""

    splits: dict[str, Documents]
    labels: LabelFile | None = None
    agreement: Agreement | None = None


@dataclass(frozen=True)
class Format:
    """One convention of files.

    Attributes:
        name: Its name, for ``format=``.
        find: The files of each split in a folder, or a file alone as ``train``; empty where there are none. The second argument is True
            if the format was named by the user, so that the endings of names do not matter.
        read: Opens what was found.
        expects: What `find` looks for, for messages.
        looks_right: Decides by the first line, where the names of files leave the format open.
        side_files: Names, or patterns of names, of other files that `read` uses; what begins with a dot is the ending of a file beside
            one of documents.
    """

    name: str
    find: Callable[[Path, bool], dict[str, list[Path]]]
    read: Callable[[dict[str, list[Path]], ReadSettings], Corpus]
    expects: str
    looks_right: Callable[[str], bool] = lambda line: True
    side_files: tuple[str, ...] = field(default=())


def documents_schema(
    label_type: pa.DataType | None,
    group: dict[str, pa.DataType] | None = None,
    columns: list[str] | None = None,
    **more: pa.DataType,
) -> pa.Schema:
    """Columns text, of groups and, where there are labels, labels; then others. Without labels it keeps the names of the file's columns."""
    labels = {} if label_type is None else {"labels": label_type}
    schema = pa.schema({"text": pa.string(), **(group or {}), **labels, **more}.items())
    names = _END.join(columns or ()).encode(errors="replace")
    return schema.with_metadata({_COLUMNS: names}) if names and label_type is None else schema


def columns_of_files(schema: pa.Schema) -> list[str]:
    """The columns of the files that documents come from, as far as their schema knows."""
    names = (schema.metadata or {}).get(_COLUMNS)
    return names.decode().split(_END) if names else schema.names


def group_field(settings: ReadSettings, split: str, columns: list[list[str]], paths: list[Path]) -> dict[str, pa.DataType]:
    """The column of groups for `documents_schema`, called `stored_group`; nothing where none is asked for, or a split that is not split up lacks it.

    Args:
        settings: Names it.
        split: Name of the split.
        columns: Columns of each file.
        paths: The files.

    Raises:
        ValueError: If training data lacks it.
    """
    name = settings.group_column
    if name is None:
        return {}
    missing = next((i for i, of_file in enumerate(columns) if name not in of_file), None)
    if missing is not None and split == "train":
        raise missing_column(paths[missing], "group_column", name, columns[missing])
    return {stored_group(name): pa.string()} if missing is None else {}


def stored_group(name: str) -> str:
    """The name of the column of groups beside the documents' own columns, whose names it may have in the files."""
    return f"group_{name}" if name in _OWN_COLUMNS else name


def missing_column(name: Any, option: str, wanted: str, columns: list[str]) -> ValueError:
    """The error for a column that is not there."""
    hint = f" If there are no labels, {TAG_HINT}" if option == "label_column" else ""
    return ValueError(
        f"{name} has no column {wanted!r}; its columns are {column_listing(columns)}. Name one of them in {option}=… (--{option}).{hint}"
    )


def check_label_id(label_id: int, num_labels: int, place: str, one_based: bool) -> None:
    """Refuse a label id that is none, counted from 0.

    Args:
        label_id: The id, already counted from 0.
        num_labels: Labels that there are.
        place: File and line.
        one_based: Whether ids in the file count from 1.
    """
    if 0 <= label_id < num_labels:
        return
    written = label_id + one_based
    hint = "Give the label file that belongs to the data."
    if written == num_labels and not one_based:
        hint = "Do the ids count from 1? Then give one_based=True (--one_based True)."
    elif written == 0:
        hint = "Do the ids count from 0? Then leave one_based out."
    raise ValueError(
        f"{place} holds the label id {written}, but the {num_labels} labels have the ids {int(one_based)} to "
        f"{num_labels - 1 + one_based}. {hint}"
    )
