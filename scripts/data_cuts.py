"""Data sets made of others: only the most frequent labels of one, or its labels by other names."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["cut_to_frequent_labels", "with_label_names"]

SPLITS = ("train", "validation", "test")


def cut_to_frequent_labels(source: Path, target: Path, num_labels: int) -> Path:
    """Write a data folder with the labels that are most frequent in training, ties by name.

    Args:
        source: Folder with ``train.parquet`` and perhaps ``validation.parquet``, ``test.parquet`` and ``labels.parquet``.
        target: Where to write; a folder made of the same source in the same way is taken as it is.
        num_labels: Labels to keep.

    Returns:
        ``target``.

    Raises:
        ValueError: If the training data have fewer labels.
    """
    return _made(source, target, {"num_labels": num_labels}, lambda new: _cut_to_frequent_labels(source, new, num_labels))


def _cut_to_frequent_labels(source: Path, target: Path, num_labels: int) -> None:
    tables = {
        split: pq.read_table(source / f"{split}.parquet") for split in SPLITS if (source / f"{split}.parquet").exists()
    }
    counts = Counter(label for labels in tables["train"]["labels"].to_pylist() for label in labels)
    if len(counts) < num_labels:
        raise ValueError(f"{source} has {len(counts)} labels in training, so {num_labels} cannot be kept.")
    kept = sorted(counts, key=lambda label: (-counts[label], label))[:num_labels]
    wanted = set(kept)
    for split, table in tables.items():
        labels = [[label for label in row if label in wanted] for row in table["labels"].to_pylist()]
        table = table.set_column(table.schema.get_field_index("labels"), "labels", pa.array(labels, pa.list_(pa.string())))
        pq.write_table(table.filter(pa.array(map(bool, labels))), target / f"{split}.parquet")
    if (source / "labels.parquet").exists():
        described = pq.read_table(source / "labels.parquet")
        pq.write_table(described.filter(pc.is_in(described["label"], pa.array(kept))), target / "labels.parquet")


def with_label_names(source: Path, target: Path, column: str) -> Path:
    """Write a data folder whose labels have the names of another column of ``labels.parquet``, where they have one there.

    Args:
        source: Folder as for `cut_to_frequent_labels`, with ``labels.parquet``.
        target: Where to write; a folder made of the same source in the same way is taken as it is.
        column: The column, such as ``name_en``.

    Returns:
        ``target``.

    Raises:
        ValueError: If there is no such column.
    """
    return _made(source, target, {"names": column}, lambda new: _with_label_names(source, new, column))


def _with_label_names(source: Path, target: Path, column: str) -> None:
    labels = pq.read_table(source / "labels.parquet")
    if column not in labels.column_names:
        raise ValueError(f"{source / 'labels.parquet'} has no column {column!r}, but {', '.join(labels.column_names)}.")
    names = pc.coalesce(labels[column], labels["name"])
    pq.write_table(labels.set_column(labels.schema.get_field_index("name"), "name", names), target / "labels.parquet")
    for split in SPLITS:
        if (source / f"{split}.parquet").exists():
            shutil.copyfile(source / f"{split}.parquet", target / f"{split}.parquet")


def _made(source: Path, target: Path, how: dict[str, Any], make: Callable[[Path], None]) -> Path:
    """A folder made once by several processes, and anew when its source or how it is made has changed."""
    files = sorted(path for path in source.glob("*.parquet"))
    record = {"source": source.name, "sizes": {path.name: path.stat().st_size for path in files}, **how}
    target.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{target}.lock"):
        if (target / "cut.json").exists() and json.loads((target / "cut.json").read_text(encoding="utf-8")) == record:
            return target
        new = target.with_name(f"{target.name}.new")
        for folder in (new, target):
            shutil.rmtree(folder, ignore_errors=True)
        new.mkdir()
        make(new)
        (new / "cut.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        os.replace(new, target)
    return target
