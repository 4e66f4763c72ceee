"""Names and parents of the demo data's labels, derived from the tag text alone."""

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .sources import SPLITS

__all__ = ["derive_labels", "write_demo_labels"]


def derive_labels(tags: Iterable[str]) -> list[dict]:
    """Name and parent of each tag ``facet::tag``.

    The name is the tag with its colons set as in prose. The parent is the longest shorter tag of the same facet that is
    among ``tags``, else the facet: with ``game::board`` among them, ``game::board:chess`` belongs to it;
    without a ``devel::lang``, ``devel::lang:perl`` belongs to ``devel``.

    Args:
        tags: Tags as they occur in the documents.

    Returns:
        ``{"label", "name", "parents"}`` of each distinct tag, sorted by tag.
    """
    known = set(tags)
    entries = []
    for tag in sorted(known):
        facet, _, path = tag.partition("::")
        steps = path.split(":")
        shorter = (f"{facet}::{':'.join(steps[:length])}" for length in range(len(steps) - 1, 0, -1))
        parent = next((candidate for candidate in shorter if candidate in known), facet)
        entries.append({"label": tag, "name": ": ".join([facet, *steps]), "parents": [parent]})
    return entries


def write_demo_labels(folder: str | os.PathLike) -> None:
    """Write ``labels.parquet`` beside the splits of the demo data set, from the tags that occur in them."""
    folder = Path(folder)
    columns = [pq.read_table(folder / f"{split}.parquet", columns=["labels"])["labels"] for split in SPLITS]
    tags = {tag for column in columns for tag in pc.list_flatten(column).to_pylist()}
    schema = pa.schema({"label": pa.string(), "name": pa.string(), "parents": pa.list_(pa.string())})
    table = pa.Table.from_pylist(derive_labels(tags), schema=schema)
    pq.write_table(table, folder / "labels.parquet", compression="zstd")
