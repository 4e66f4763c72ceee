"""Schemas of the parquet files of one split: columns that are read must hold the same kind of values in all."""

from pathlib import Path

import pyarrow as pa

from .filter_labels import FILTER_LABELS
from .formats.corpus import ReadSettings
from .formats.text_columns import column_listing, matching_columns
from .label_columns import is_list, is_string

__all__ = ["check_shards", "joint_schema"]


def check_shards(schemas: dict[Path, pa.Schema], reading: ReadSettings) -> None:
    """Refuse files of which one lacks a column that another has, or holds other values in it; integers and strings are not mixed.

    Args:
        schemas: Schema of each file.
        reading: Names the columns that are read; others may differ.

    Raises:
        ValueError: If there are such files.
    """
    options = [reading.text_column, reading.label_column, reading.group_column, FILTER_LABELS]
    all_columns = dict.fromkeys(column for schema in schemas.values() for column in schema.names)
    used = dict.fromkeys(
        column for option in options if option for column in matching_columns(list(all_columns), option, False)
    )
    for column in used:
        first = None
        for path, schema in schemas.items():
            if column not in schema.names:
                other = next(path for path, schema in schemas.items() if column in schema.names)
                raise ValueError(
                    f"{path} has no column {column!r}, which {other} of the same split has; its columns are {column_listing(schema.names)}. "
                    "Give the column the same name in all files, or take one of the files out of the folder."
                )
            kind = _kind(schema.field(column).type)
            if kind is None:
                continue
            first = first or (path, kind)
            if kind != first[1]:
                raise ValueError(
                    f"The files of a split hold different values in the column {column!r}: {first[1]} in {first[0]}, but {kind} in {path}. "
                    "Write them all the same way: codes as strings, label ids as integers."
                )


def joint_schema(schemas: list[pa.Schema]) -> pa.Schema:
    """The schema of the first file; columns without any value there have the type of the first file that has one."""
    joint = schemas[0]
    for place, field in enumerate(joint):
        if _kind(field.type) is None:
            others = (schema.field(field.name) for schema in schemas[1:] if field.name in schema.names)
            joint = joint.set(place, next((other for other in others if _kind(other.type) is not None), field))
    return joint


def _kind(value_type: pa.DataType) -> str | None:
    """The kind of values in words, whatever their width; None where there are none."""
    if is_list(value_type):
        kind = _kind(value_type.value_type)
        return kind and f"lists of {kind}"
    if pa.types.is_dictionary(value_type):
        return _kind(value_type.value_type)
    if pa.types.is_null(value_type):
        return None
    if pa.types.is_integer(value_type):
        return "integers"
    return "strings" if is_string(value_type) else str(value_type)
