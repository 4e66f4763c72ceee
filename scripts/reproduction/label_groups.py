"""How many labels of a group do models find? From the predictions that training left in their folders.

    python scripts/reproduction/label_groups.py outputs/neighbors outputs/neighbors-with-names
    python scripts/reproduction/label_groups.py outputs/laco outputs/parabel --labels DIR/llms4subjects-en/labels.parquet --column name_en

Groups are labels that training never saw, which a model can find only if its label space has them (hf-xmtc train --label_space file) and it
scores labels by their texts; and labels with and without an entry in a column of the data set's labels, such as an English name.
"""

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from hf_xmtc.commands.stored_predictions import LABEL_COUNTS, read_predictions
from hf_xmtc.metrics import ranking_report

__all__ = ["group_table", "labels_by_column", "main"]

CUTOFFS = (5, 10, 100)
UNSEEN = "never seen"


def group_table(folders: Sequence[Path], split: str = "test", groups: Mapping[str, Collection[str]] | None = None) -> str:
    """A table with a row for each model folder, in per cent: of all labels, and the recall of each group's.

    Args:
        folders: Folders of `hf-xmtc train` or `hf-xmtc ensemble`, with predictions of the same documents.
        split: Split of the predictions.
        groups: Labels of each group; by default those that training of none of the models saw.

    Raises:
        ValueError: If their documents differ, or have no label of a group.
    """
    ids: dict[str, int] = {}
    parts = read_predictions([folder / "predictions" / f"{split}.parquet" for folder in folders], ids)
    counts = [pq.read_table(folder / LABEL_COUNTS) for folder in folders]
    spaces = [set(table["label"].to_pylist()) for table in counts]
    labels, gold = list(ids), [[label for label in row.tolist() if label >= 0] for row in parts[0].gold]
    if groups is None:
        pairs = (
            pair for table in counts for pair in zip(*(table[name].to_pylist() for name in ("label", "count")), strict=True)
        )
        groups = {UNSEEN: set(labels).difference(label for label, count in pairs if count)}
    gold_of = {
        name: [[label for label in row if labels[label] in members] for row in gold] for name, members in groups.items()
    }
    total = sum(map(len, gold))
    lines = []
    for name, of_group in gold_of.items():
        if not (number := sum(map(len, of_group))):
            raise ValueError(
                f"The {split} documents have no label of the group {name!r}, so there is nothing to measure. Take another split."
            )
        lines.append(
            f"{name}: {number:,} of {total:,} labels of the {split} documents ({100 * number / total:.2f} %); "
            f"{sum(map(bool, of_group)):,} of {len(gold):,} documents have one."
        )
    heads = [f"{name}: {column}" for name in groups for column in ("known", *(f"R@{k}" for k in CUTOFFS))]
    lines += ["", f"| model | nDCG@5 | R@5 | {' | '.join(heads)} |", f"| --- |{' ---: |' * (2 + len(heads))}"]
    for folder, part, space in zip(folders, parts, spaces, strict=True):
        whole = ranking_report(part.top_labels, gold, ks=CUTOFFS)
        values = [whole["nDCG@5"], whole["R@5"]]
        for of_group in gold_of.values():
            found = ranking_report(part.top_labels, of_group, ks=CUTOFFS)
            known = np.mean([labels[label] in space for row in of_group for label in row])
            values += [known, *(found[f"R@{k}"] for k in CUTOFFS)]
        lines.append(f"| {folder.name} | {' | '.join(f'{100 * value:.2f}' for value in values)} |")
    return "\n".join(lines)


def labels_by_column(file: Path, column: str) -> dict[str, set[str]]:
    """Labels with and without an entry in a column of ``labels.parquet``.

    Raises:
        ValueError: If there is no such column.
    """
    table = pq.read_table(file)
    if column not in table.column_names:
        raise ValueError(f"{file} has no column {column!r}; its columns are {table.column_names}.")
    has_entry = [bool(value) for value in table[column].to_pylist()]
    labels = table["label"].to_pylist()
    return {
        f"{word} {column}": {label for label, has in zip(labels, has_entry, strict=True) if has == wanted}
        for word, wanted in (("with", True), ("without", False))
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="model folders with predictions")
    parser.add_argument("--split", default="test", help="split of the predictions (default: test)")
    parser.add_argument("--labels", type=Path, help="labels.parquet of the data set, for groups by one of its columns")
    parser.add_argument("--column", help="that column")
    options = parser.parse_args(argv)
    if (options.labels is None) != (options.column is None):
        parser.error("--labels and --column go together: the groups are labels with and without an entry in the column.")
    groups = options.labels and labels_by_column(options.labels, options.column)
    print(group_table(options.folders, options.split, groups))


if __name__ == "__main__":
    main()
