"""Data sets made of others: only the most frequent labels of one, and the documents that have any of them."""

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["cut_to_frequent_labels"]

SPLITS = ("train", "validation", "test")


def cut_to_frequent_labels(source: Path, target: Path, num_labels: int) -> Path:
    """Write a data folder with the labels that are most frequent in training, ties by name.

    Args:
        source: Folder with ``train.parquet`` and perhaps ``validation.parquet``, ``test.parquet`` and ``labels.parquet``.
        target: Where to write; a folder that is there already is taken as it is.
        num_labels: Labels to keep.

    Returns:
        ``target``.

    Raises:
        ValueError: If the training data have fewer labels.
    """
    if (target / "cut.json").exists():
        return target
    tables = {
        split: pq.read_table(source / f"{split}.parquet") for split in SPLITS if (source / f"{split}.parquet").exists()
    }
    counts = Counter(label for labels in tables["train"]["labels"].to_pylist() for label in labels)
    if len(counts) < num_labels:
        raise ValueError(f"{source} has {len(counts)} labels in training, so {num_labels} cannot be kept.")
    kept = sorted(counts, key=lambda label: (-counts[label], label))[:num_labels]
    wanted = set(kept)
    target.mkdir(parents=True, exist_ok=True)
    for split, table in tables.items():
        labels = [[label for label in row if label in wanted] for row in table["labels"].to_pylist()]
        table = table.set_column(table.schema.get_field_index("labels"), "labels", pa.array(labels, pa.list_(pa.string())))
        pq.write_table(table.filter(pa.array(map(bool, labels))), target / f"{split}.parquet")
    if (source / "labels.parquet").exists():
        described = pq.read_table(source / "labels.parquet")
        pq.write_table(described.filter(pc.is_in(described["label"], pa.array(kept))), target / "labels.parquet")
    # Written last, so that a cut that was interrupted is made again.
    (target / "cut.json").write_text(json.dumps({"source": source.name, "num_labels": num_labels}) + "\n", encoding="utf-8")
    return target
