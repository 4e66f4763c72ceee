"""How many of the labels that training never saw do models find? From the predictions that training left in their folders.

    python scripts/reproduction/unseen_labels.py outputs/neighbors outputs/neighbors-with-names

A model can find them only if its label space has them (hf-xmtc train --label_space file) and it scores labels by their texts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from hf_xmtc.commands.stored_predictions import LABEL_COUNTS, read_predictions
from hf_xmtc.metrics import ranking_report

__all__ = ["main", "unseen_table"]

CUTOFFS = (5, 10, 100)


def unseen_table(folders: Sequence[Path], split: str = "test") -> str:
    """A table with a row for each model folder, in per cent.

    Args:
        folders: Folders of `hf-xmtc train` or `hf-xmtc ensemble`, with predictions of the same documents.
        split: Split of the predictions.

    Raises:
        ValueError: If their documents differ, or have no label that training never saw.
    """
    ids: dict[str, int] = {}
    parts = read_predictions([folder / "predictions" / f"{split}.parquet" for folder in folders], ids)
    counts = [pq.read_table(folder / LABEL_COUNTS) for folder in folders]
    spaces = [set(table["label"].to_pylist()) for table in counts]
    pairs = (
        pair for table in counts for pair in zip(*(table[name].to_pylist() for name in ("label", "count")), strict=True)
    )
    seen = {label for label, count in pairs if count}
    labels, gold = list(ids), [[label for label in row.tolist() if label >= 0] for row in parts[0].gold]
    unseen = [[label for label in row if labels[label] not in seen] for row in gold]
    number, total = sum(map(len, unseen)), sum(map(len, gold))
    if not number:
        raise ValueError(
            f"Training saw every label of the {split} documents, so there is nothing to measure. Take another split."
        )
    lines = [
        f"{number:,} of {total:,} labels of the {split} documents ({100 * number / total:.2f} %) are labels that training never saw; "
        f"{sum(map(bool, unseen)):,} of {len(gold):,} documents have one.",
        "",
        f"| model | nDCG@5 | R@5 | known to the model | {' | '.join(f'R@{k} of unseen' for k in CUTOFFS)} |",
        f"| --- |{' ---: |' * (3 + len(CUTOFFS))}",
    ]
    for folder, part, space in zip(folders, parts, spaces, strict=True):
        whole, of_unseen = (ranking_report(part.top_labels, positives, ks=CUTOFFS) for positives in (gold, unseen))
        known = np.mean([labels[label] in space for row in unseen for label in row])
        values = [whole["nDCG@5"], whole["R@5"], known, *(of_unseen[f"R@{k}"] for k in CUTOFFS)]
        lines.append(f"| {folder.name} | {' | '.join(f'{100 * value:.2f}' for value in values)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="model folders with predictions")
    parser.add_argument("--split", default="test", help="split of the predictions (default: test)")
    options = parser.parse_args(argv)
    print(unseen_table(options.folders, options.split))


if __name__ == "__main__":
    main()
