"""Data sets made of others: their labels by other names."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hf_xmtc.data import label_counts, label_info_of, load_xmtc_dataset

__all__ = ["with_frequent_labels", "with_label_names"]

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "test")


def with_label_names(source: Path, target: Path, column: str) -> Path:
    """Write a data folder whose labels have the names of another column of ``labels.parquet``, where they have one there.

    How many have none, and keep the name of the column ``name``, is logged.

    Args:
        source: Folder with ``train.parquet`` and perhaps ``validation.parquet`` and ``test.parquet``, and with ``labels.parquet``.
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
    if missing := labels[column].null_count:
        logger.info(f"{missing:,} of {len(labels):,} labels have no {column} and keep their name.")
    pq.write_table(labels.set_column(labels.schema.get_field_index("name"), "name", names), target / "labels.parquet")
    for split in SPLITS:
        if (source / f"{split}.parquet").exists():
            shutil.copyfile(source / f"{split}.parquet", target / f"{split}.parquet")


def with_frequent_labels(source: str, target: Path, num_labels: int) -> Path:
    """Write a data folder with the most frequent labels of the training split alone, and the documents that have one of them.

    Args:
        source: What `load_xmtc_dataset` opens: ``demo`` or a folder; a validation split is carved where there is none.
        target: Where to write; a folder made of the same source in the same way is taken as it is.
        num_labels: Labels that stay; of equally frequent ones the first.

    Returns:
        ``target``.
    """
    return _made(Path(source), target, {"labels": num_labels}, lambda new: _with_frequent_labels(source, new, num_labels))


def _with_frequent_labels(source: str, target: Path, num_labels: int) -> None:
    data = load_xmtc_dataset(source)
    info = label_info_of(data)
    counts = label_counts(data["train"], info.num_labels)
    frequent = set(np.argsort(-counts, kind="stable")[:num_labels].tolist())
    for split, documents in data.items():
        labels = [[info.names.labels[id_] for id_ in ids if id_ in frequent] for ids in documents["labels"]]
        kept = [row for row, of_row in enumerate(labels) if of_row]
        logger.info(f"{split}: {len(kept):,} of {len(labels):,} documents have one of the {num_labels} labels.")
        columns = {"text": documents.select(kept)["text"][:], "labels": [labels[row] for row in kept]}
        pq.write_table(pa.table(columns), target / f"{split}.parquet")


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
