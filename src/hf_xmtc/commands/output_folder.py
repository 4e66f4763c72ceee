"""The folder a training run leaves: guarded before and written after."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.strict_json import json_text
from hf_xmtc.training.checkpoint_files import UNFINISHED, checkpoints_in, clear_unfinished

from .file_lock import exclusive
from .json_files import write_json

__all__ = ["METRICS_FILE", "RECIPE_FILE", "OutputFolder", "empty_folder", "level_folder"]

RECIPE_FILE = "recipe.json"
METRICS_FILE = "metrics.json"
CHECKPOINTS = "checkpoints"
LEVEL = "level-"
LOCK_FILE = ".lock"
# What a kill may leave in a folder that holds nothing else yet.
_LEFTOVERS = {LOCK_FILE, RECIPE_FILE + ".tmp"}
# Where the data came from and what they are called decides nothing: their content does (`DATA_DIGEST`).
DATA_DIGEST = "data_digest"
_ORIGIN = {"dataset", "dataset_name", "dataset_license", "dataset_repo_id", "dataset_fingerprint"}


def level_folder(checkpoints: Path, level: int) -> Path:
    """Checkpoints of a level of a label tree that is trained before the labels."""
    return checkpoints / f"{LEVEL}{level}"


def empty_folder(path: str | os.PathLike) -> Path:
    """Make a folder for a result.

    Raises:
        FileExistsError: If it is there and not empty, or a file.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} exists and is not an empty folder. Choose another --output_dir.")
    path.mkdir(parents=True, exist_ok=True)
    return path


class OutputFolder:
    """The files in the output of `hf-xmtc train`.

    A finished folder is never written to again; an unfinished one of the same recipe is resumed; any other content is left
    alone.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS
        self.trained = self.checkpoints / "trained"

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Keep other runs out of the folder for as long as this context lasts.

        Raises:
            InUseError: If a run is in it.
        """
        return exclusive(self.path / LOCK_FILE, f"The folder {self.path}")

    def check_free(self) -> None:
        """Refuse a folder that a training run must not write to.

        Raises:
            FileExistsError: If it holds a finished model, or anything that is no run of `hf-xmtc train`.
        """
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"{self.path} is a file. Choose another --output_dir.")
        present = {entry.name for entry in self.path.iterdir()} - _LEFTOVERS if self.path.exists() else set()
        if not present:
            return
        if METRICS_FILE in present:
            if RECIPE_FILE in present:
                self._remove_checkpoints()  # a kill may have left them
            raise FileExistsError(
                f"{self.path} holds a finished model. Choose another --output_dir, or delete that folder to train anew."
            )
        if RECIPE_FILE not in present:
            names_present = ", ".join(sorted(present)[:5])
            raise FileExistsError(
                f"{self.path} is not empty ({names_present}) and was not made by hf-xmtc train. Choose another --output_dir."
            )

    def claim(self, recipe: dict[str, Any]) -> bool:
        """Take the folder for a run with this recipe.

        Args:
            recipe: All settings as one flat JSON object.

        Returns:
            True if an unfinished run with the same recipe has left something to go on from.

        Raises:
            FileExistsError: If the folder is taken, or holds checkpoints of an unfinished run with another recipe.
            ValueError: If the recipe of an unfinished run cannot be read.
        """
        self.check_free()
        clear_unfinished(self.checkpoints)
        # A run that was stopped before its first checkpoint has nothing to lose, whatever its settings were.
        if self.last_checkpoint() is None:
            return False
        try:
            earlier = read_json_object(self.path / RECIPE_FILE)
        except ValueError as error:
            raise ValueError(
                f"{self.path / RECIPE_FILE}, the settings of an unfinished run, cannot be read ({error}). Choose another "
                "--output_dir, or delete the folder to train anew."
            ) from error
        now = json.loads(json_text(recipe))
        left_out = _ORIGIN if DATA_DIGEST in earlier else {DATA_DIGEST}
        changed = [key for key in sorted({*earlier, *now} - left_out) if earlier.get(key) != now.get(key)]
        if changed:
            changes = "; ".join(f"{key} was {earlier.get(key)!r} and is now {now.get(key)!r}" for key in changed[:5])
            raise FileExistsError(
                f"{self.path} holds an unfinished run with other settings: {changes}. Repeat that run's settings (and its texts and "
                f"labels, where {DATA_DIGEST} differs) to resume it, choose another --output_dir, or delete the folder."
            )
        return True

    @property
    def is_finished(self) -> bool:
        """True if a run has ended in it, and may only be published."""
        return (self.path / METRICS_FILE).exists()

    def last_checkpoint(self) -> str | None:
        """Name of what an unfinished run can go on from: its trained model, or else its newest checkpoint, or a level of a tree."""
        if self.trained.exists():
            return self.trained.name
        levels = (
            path.name
            for path in sorted(self.checkpoints.glob(f"{LEVEL}*"))
            if (path / self.trained.name).exists() or checkpoints_in(path)
        )
        return next((path.name for path in checkpoints_in(self.checkpoints)), None) or next(levels, None)

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
            top_labels: Label ids, best first, (N, K), negative where there is none.
            top_scores: Their scores, (N, K).
            gold: The documents' own label ids, (N, P), padded with -100.
            names: Names of the model's labels.
            unseen: Labels with the ids from ``len(names)`` on, which only evaluation data has.
        """
        labels = np.asarray([*names.labels, *unseen], dtype=object)
        is_gold, is_predicted = gold >= 0, top_labels >= 0
        ends = np.append(0, is_predicted.sum(axis=1).cumsum())
        columns = {
            "row": pa.array(rows, pa.int64()),
            "label_ids": _lists(top_labels[is_predicted], ends, pa.int32()),
            "labels": _lists(labels[top_labels[is_predicted]], ends, pa.string()),
            "scores": _lists(top_scores[is_predicted], ends, pa.float32()),
            "gold": _lists(labels[gold[is_gold]], np.append(0, is_gold.sum(axis=1).cumsum()), pa.string()),
        }
        path = self.path / "predictions" / f"{split}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path, compression="zstd")
        return path

    def _remove_checkpoints(self) -> None:
        """Remove what training keeps for resuming, and nothing that somebody else has put beside it."""
        for pattern in ("checkpoint-*", "damaged-checkpoint-*", UNFINISHED, "trained", f"{LEVEL}[0-9]*"):
            for leftover in self.checkpoints.glob(pattern):
                shutil.rmtree(leftover, ignore_errors=True)
        with contextlib.suppress(OSError):  # it is not there, or not empty
            self.checkpoints.rmdir()

    def finish(self, metrics: dict[str, Any]) -> None:
        """Write ``metrics.json``, which marks the folder as finished, and remove the checkpoints."""
        write_json(self.path / METRICS_FILE, metrics)
        shutil.rmtree(self.checkpoints, ignore_errors=True)


def _lists(values: np.ndarray, ends: np.ndarray, kind: pa.DataType) -> pa.ListArray:
    """Rows of a list column from all values in a row and the places where each list ends, 0 in front."""
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, kind))
