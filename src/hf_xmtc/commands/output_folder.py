"""The folder a training run leaves: guarded before and written after."""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from transformers.trainer import TRAINER_STATE_NAME

from hf_xmtc.models.label_names import LabelNames

from .json_files import write_json

__all__ = ["METRICS_FILE", "RECIPE_FILE", "OutputFolder"]

RECIPE_FILE = "recipe.json"
METRICS_FILE = "metrics.json"
CHECKPOINTS = "checkpoints"


class OutputFolder:
    """What lies where in the output of `hf-xmtc train`.

    A finished folder is never written to again; an unfinished one of the same recipe is resumed; any other content is left
    alone.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS

    def refuse_if_taken(self) -> None:
        """Refuse a folder that a training run must not write to.

        Raises:
            FileExistsError: If it holds a finished model, or anything that is no run of `hf-xmtc train`.
        """
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"{self.path} is a file. Choose another --output_dir.")
        if not self.path.exists() or not any(self.path.iterdir()):
            return
        if (self.path / METRICS_FILE).exists():
            raise FileExistsError(
                f"{self.path} holds a finished model. Choose another --output_dir, or delete that folder to train anew."
            )
        if not (self.path / RECIPE_FILE).exists():
            found = ", ".join(sorted(entry.name for entry in self.path.iterdir())[:5])
            raise FileExistsError(
                f"{self.path} is not empty ({found}) and was not made by hf-xmtc train. Choose another --output_dir."
            )

    def claim(self, recipe: dict[str, Any]) -> str | None:
        """Take the folder for a run with this recipe.

        Args:
            recipe: All settings as one flat JSON object.

        Returns:
            The checkpoint to resume from where an unfinished run with the same recipe left one, else None.

        Raises:
            FileExistsError: If the folder is taken, or holds checkpoints of an unfinished run with another recipe.
        """
        self.refuse_if_taken()
        checkpoint = self.last_checkpoint()
        # A run that was stopped before its first checkpoint has nothing to lose, whatever its settings were.
        if checkpoint is None:
            return None
        earlier = json.loads((self.path / RECIPE_FILE).read_text(encoding="utf-8"))
        now = json.loads(json.dumps(recipe))
        changed = [key for key in sorted({*earlier, *now}) if earlier.get(key) != now.get(key)]
        if changed:
            shown = "; ".join(f"{key} was {earlier.get(key)!r} and is now {now.get(key)!r}" for key in changed[:5])
            raise FileExistsError(
                f"{self.path} holds an unfinished run with other settings: {shown}. Repeat that run's settings (and data, "
                "where dataset_fingerprint differs) to resume it, choose another --output_dir, or delete the folder."
            )
        return checkpoint

    def last_checkpoint(self) -> str | None:
        """The newest checkpoint that was written to the end (the trainer's state is its last file)."""
        steps = [
            (int(match[1]), entry)
            for entry in (self.checkpoints.iterdir() if self.checkpoints.exists() else ())
            if (match := re.fullmatch(r"checkpoint-(\d+)", entry.name)) and (entry / TRAINER_STATE_NAME).exists()
        ]
        return str(max(steps)[1]) if steps else None

    def begin(self, recipe: dict[str, Any]) -> None:
        """Mark the folder as this run's."""
        write_json(self.path / RECIPE_FILE, recipe)

    def write_predictions(
        self,
        split: str,
        rows: np.ndarray,
        top_labels: np.ndarray,
        top_scores: np.ndarray,
        gold: np.ndarray,
        names: LabelNames,
        unseen: list[str],
    ) -> Path:
        """Write ``predictions/<split>.parquet``: row, label ids, labels, scores and gold labels, in data order.

        Args:
            split: Name of the split.
            rows: Place of each document in the split, (N,).
            top_labels: Label ids, best first, (N, K).
            top_scores: Their scores, (N, K).
            gold: The documents' own label ids, (N, P), padded with -100.
            names: Names of the model's labels.
            unseen: Labels with the ids from ``len(names)`` on, which only evaluation data has.
        """
        labels = np.asarray([*names.labels, *unseen], dtype=object)
        given = gold >= 0
        ends = np.arange(0, top_labels.size + 1, top_labels.shape[1])
        columns = {
            "row": pa.array(rows, pa.int64()),
            "label_ids": _lists(top_labels.ravel(), ends, pa.int32()),
            "labels": _lists(labels[top_labels.ravel()], ends, pa.string()),
            "scores": _lists(top_scores.ravel(), ends, pa.float32()),
            "gold": _lists(labels[gold[given]], np.append(0, given.sum(axis=1).cumsum()), pa.string()),
        }
        path = self.path / "predictions" / f"{split}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path, compression="zstd")
        return path

    def finish(self, metrics: dict[str, Any]) -> None:
        """Write ``metrics.json``, which marks the folder as finished."""
        write_json(self.path / METRICS_FILE, metrics)


def _lists(values: np.ndarray, ends: np.ndarray, kind: pa.DataType) -> pa.ListArray:
    """Rows of a list column from all values in a row and the places where each list ends, 0 in front."""
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind))
