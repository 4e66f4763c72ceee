"""JSON lines: one object a line, with a text and its labels under any keys."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..filter_labels import FILTER_LABELS
from .corpus import (
    LABEL_IDS,
    LABEL_STRINGS,
    Agreement,
    Corpus,
    Documents,
    FileRows,
    Format,
    ReadSettings,
    check_label_id,
    documents_schema,
    group_field,
    missing_column,
)
from .json_objects import json_objects
from .label_cells import FLAGS, flags_without_multi_hot, labels_of_value, valid_unicode
from .split_files import files_of_splits
from .text_columns import keys_of_entry, matching_columns, matching_label_columns, text_of
from .text_lines import Span, first_number, read_lines

__all__ = ["JSON_LINES"]

_LARGEST_ID = 2**31 - 1
# Lines of a file of which one must have the pairs to leave out, if there are any.
_FIRST_LINES = 1_000


def _read(files: dict[str, list[Path]], settings: ReadSettings) -> Corpus:
    widths: set[int] = set()  # of multi-hot rows
    splits = {split: _documents(split, paths, settings, widths) for split, paths in files.items()}
    return Corpus(splits, agreement=Agreement(widths, partial(_check_widths, widths)))


def _check_widths(widths: set[int], rows: FileRows, seen: set[int]) -> None:
    """Refuse a part with multi-hot rows of another width than those of the parts before."""
    if len(widths | seen) > 1:
        for _ in rows.numbered()():  # stops at the first
            pass
    widths.update(seen)


def _documents(split: str, paths: list[Path], settings: ReadSettings, widths: set[int]) -> Documents:
    columns, label_type = _scan(paths, settings)
    texts = matching_columns(columns, settings.text_column)
    keys = matching_label_columns(columns, settings.label_column, settings.text_column)
    if columns and not texts:
        raise missing_column(paths[0], "text_column", settings.text_column, columns)
    required = settings.require_labels or settings.label_column != ReadSettings.label_column
    if columns and required and not keys:
        raise missing_column(paths[0], "label_column", settings.label_column, columns)

    if len(paths) > 1:
        for path in paths:
            _check_keys(path, {"text_column": texts, "label_column": keys}, settings)

    def read(path: Path | Span) -> Iterator[tuple[str | None, list[str] | list[int]]]:
        for number, entry in json_objects(read_lines(path, settings.encoding), path, first_number(path)):
            place = f"{path}, line {number}"
            of_text = keys_of_entry(entry, texts, settings.text_column)
            of_labels = keys_of_entry(entry, keys, settings.label_column, of_text)
            labels = _labels(entry, of_labels, len(keys) > 1, settings, place)
            if multi_hot and len(keys) == 1 and (row := entry.get(keys[0])) is not None:
                _check_width(row, widths, place)
            _check_type(labels, kind, place)
            if kind is int:
                labels = _counted_from_0(labels, settings.one_based and not multi_hot, settings.num_labels, place)
            if filters is None and FILTER_LABELS in entry and FILTER_LABELS not in used:
                raise ValueError(
                    f'{place} has the key {FILTER_LABELS!r}, but none of the first {_FIRST_LINES:,} lines. Write "{FILTER_LABELS}": [] into '
                    "the first."
                )
            columns_of_labels = [labels] if keys else []
            if filters:
                columns_of_labels.append(_filters(entry, filters, settings, f"{place}, {FILTER_LABELS}"))
            yield (
                text_of(entry, of_text, place),
                *(_group(entry, name, place) for name in groups),
                *columns_of_labels,
            )

    multi_hot = settings.label_format == "multi_hot"
    group = group_field(settings, split, [columns], paths[:1])
    groups = [settings.group_column] if group else []
    kind = int if label_type == LABEL_IDS else str
    used = {*texts, *keys, *groups}
    filters = None if FILTER_LABELS in used else _filter_type(paths, settings, label_type)
    schema = documents_schema(label_type if keys else None, group, columns, **({FILTER_LABELS: filters} if filters else {}))
    return Documents(schema, FileRows(tuple(paths), read, cut="line"))


def _filter_type(paths: list[Path], settings: ReadSettings, label_type: pa.DataType) -> pa.DataType | None:
    """The type of the pairs to leave out, that of labels where all are empty; None where the first lines have none."""
    kind = None
    for path in paths:
        lines = islice(read_lines(path, settings.encoding), _FIRST_LINES)
        for number, entry in json_objects((line if FILTER_LABELS in line else "" for line in lines), path):
            if labels := _labels_to_leave_out(entry, settings, f"{path}, line {number}, {FILTER_LABELS}"):
                return _list_type(labels)
            if FILTER_LABELS in entry:
                kind = LABEL_IDS if label_type == LABEL_IDS else LABEL_STRINGS
    return kind


def _filters(entry: dict[str, Any], kind: pa.DataType, settings: ReadSettings, place: str) -> list[str] | list[int]:
    labels = _labels_to_leave_out(entry, settings, place)
    _check_type(labels, int if kind == LABEL_IDS else str, place)
    return _counted_from_0(labels, settings.one_based, settings.num_labels, place) if kind == LABEL_IDS else labels


def _labels_to_leave_out(entry: dict[str, Any], settings: ReadSettings, place: str) -> list[str] | list[int]:
    return labels_of_value(entry.get(FILTER_LABELS), False, settings.label_separator, place)


def _list_type(labels: list[str] | list[int]) -> pa.DataType:
    return LABEL_IDS if type(labels[0]) is int else LABEL_STRINGS


def _check_type(labels: list[str] | list[int], kind: type, place: str) -> None:
    if set(map(type, labels)) - {kind}:
        wrong = next(label for label in labels if type(label) is not kind)
        raise ValueError(
            f"{place} holds the label {wrong!r}, but labels before it are of the type {kind.__name__}. Write all labels the same way: "
            "codes as strings, ids as numbers."
        )


def _check_keys(path: Path, keys: dict[str, list[str]], settings: ReadSettings) -> None:
    """Refuse a shard none of whose objects has the texts, or the labels, that other shards have."""
    missing, seen = {option for option, wanted in keys.items() if wanted}, {}
    for _, entry in json_objects(read_lines(path, settings.encoding), path):
        seen.update(dict.fromkeys(entry))
        missing = {option for option in missing if entry.keys().isdisjoint(keys[option])}
        if not missing:
            return
    if seen:
        option = max(missing)  # the texts first
        raise missing_column(path, option, getattr(settings, option), list(seen))


def _counted_from_0(ids: list[int], one_based: bool, num_labels: int | None, place: str) -> list[int]:
    wrong = next((label_id for label_id in ids if not one_based <= label_id <= _LARGEST_ID), None)
    if wrong is not None:
        hint = (
            "Do they count from 0? Then leave one_based out."
            if wrong == 0
            else "Padding goes; codes are written as strings."
        )
        raise ValueError(
            f"{place} holds the label id {wrong}, but label ids are whole numbers from {int(one_based)} to {_LARGEST_ID}. {hint}"
        )
    ids = [label_id - 1 for label_id in ids] if one_based else ids
    if num_labels is not None:
        for label_id in ids:
            check_label_id(label_id, num_labels, place, one_based)
    return ids


def _check_width(row: Any, widths: set[int], place: str) -> None:
    """Refuse a multi-hot row of another width than the rows before it."""
    widths.add(len(row) if isinstance(row, list) else 1)
    if len(widths) > 1:
        raise ValueError(
            f"{place}: the multi-hot rows have different widths, {sorted(widths)}. Are these label ids? Then leave "
            "label_format='multi_hot' out."
        )


def _group(entry: dict[str, Any], name: str, place: str) -> str | None:
    value = entry.get(name)
    return None if value is None else valid_unicode([str(value)], place)[0]


def _scan(paths: list[Path], settings: ReadSettings) -> tuple[list[str], pa.DataType]:
    """The keys up to where all that the options name have been seen, and a label; and the type of labels."""
    columns: dict[str, None] = {}
    kind = None
    keys: list[str] = []
    flags: set[str] = set()  # the values of several keys, as long as each may say whether a document has a label
    for path in paths:
        for number, entry in json_objects(read_lines(path, settings.encoding), path):
            columns.update(dict.fromkeys(entry))
            keys = matching_label_columns(list(columns), settings.label_column, settings.text_column, complete=False)
            if kind is None:
                labels = _labels(entry, keys, len(keys) > 1, settings, f"{path}, line {number}")
                kind = _list_type(labels) if labels else None
            if keys != [settings.label_column] and settings.label_format != "multi_hot" and flags <= FLAGS:
                flags.update(str(entry[key]).lower() for key in keys if entry.get(key) not in (None, ""))
            if flags and flags <= FLAGS:
                continue
            if (
                kind is not None
                and matching_columns(list(columns), settings.text_column)
                and matching_label_columns(list(columns), settings.label_column, settings.text_column)
            ):
                return list(columns), kind
    if len(keys) > 1 and flags and flags <= FLAGS:
        raise flags_without_multi_hot(paths[0], keys, flags)
    return list(columns), kind or pa.list_(pa.null())


def _labels(
    entry: dict[str, Any], keys: list[str], several: bool, settings: ReadSettings, place: str
) -> list[str] | list[int]:
    value = entry.get(keys[0]) if keys else None
    is_flag = settings.label_format == "multi_hot" and not isinstance(value, list)
    if several or len(keys) > 1 or is_flag:
        return _labels_of_keys(entry, keys, settings, place)
    return labels_of_value(value, settings.label_format == "multi_hot", settings.label_separator, place)


def _labels_of_keys(entry: dict[str, Any], keys: list[str], settings: ReadSettings, place: str) -> list[str] | list[int]:
    if settings.label_format == "multi_hot":
        return [keys[i] for i in labels_of_value([entry.get(key) for key in keys], True, None, place)]
    return [label for key in keys for label in labels_of_value(entry.get(key), False, settings.label_separator, place, True)]


JSON_LINES = Format(
    "jsonl",
    files_of_splits(".jsonl", ".ndjson", ".json"),
    _read,
    "train.jsonl, validation.jsonl, test.jsonl, or one .jsonl file",
)
