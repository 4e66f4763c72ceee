"""The folder a training run leaves: guarded before, written after, and reopened in a fresh process at the end."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hf_xmtc.models.label_names import LabelNames

__all__ = ["OutputFolder", "check_reopens"]

RECIPE_FILE = "recipe.json"
METRICS_FILE = "metrics.json"
CHECKPOINTS = "checkpoints"


class OutputFolder:
    """What lies where in the output of `hf-xmtc train`.

    A finished folder is never written to again; an unfinished one of the same recipe is resumed; any other content is left alone.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.checkpoints = self.path / CHECKPOINTS

    def refuse_if_taken(self) -> None:
        """Refuse a folder that a training run must not write to.

        Raises:
            FileExistsError: If it holds a finished model, or anything that is no run of `hf-xmtc train`.
        """
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

        Returns:
            The checkpoint to resume from where an unfinished run with the same recipe left one, else None.

        Raises:
            FileExistsError: If the folder is taken, or holds an unfinished run with another recipe.
        """
        self.refuse_if_taken()
        if not (self.path / RECIPE_FILE).exists():
            return None
        earlier = json.loads((self.path / RECIPE_FILE).read_text(encoding="utf-8"))
        now = json.loads(json.dumps(recipe))
        changed = [key for key in sorted({*earlier, *now}) if earlier.get(key) != now.get(key)]
        if changed:
            shown = "; ".join(f"{key} was {earlier.get(key)!r} and is now {now.get(key)!r}" for key in changed[:5])
            raise FileExistsError(
                f"{self.path} holds an unfinished run with other settings: {shown}. Repeat that run's settings to resume it, "
                "choose another --output_dir, or delete the folder."
            )
        return self.last_checkpoint()

    def last_checkpoint(self) -> str | None:
        """The newest checkpoint that was written to the end (the trainer's state is its last file)."""
        steps = [
            (int(match[1]), entry)
            for entry in (self.checkpoints.iterdir() if self.checkpoints.exists() else ())
            if (match := re.fullmatch(r"checkpoint-(\d+)", entry.name)) and (entry / "trainer_state.json").exists()
        ]
        return str(max(steps)[1]) if steps else None

    def begin(self, recipe: dict[str, Any]) -> None:
        """Mark the folder as this run's."""
        self.path.mkdir(parents=True, exist_ok=True)
        _write_json(self.path / RECIPE_FILE, recipe)

    def write_predictions(
        self,
        split: str,
        top_labels: np.ndarray,
        top_scores: np.ndarray,
        gold: np.ndarray,
        names: LabelNames,
        unseen: list[str],
    ) -> Path:
        """Write ``predictions/<split>.parquet``: row, label ids, labels, scores and gold labels, in data order."""
        every = [*names.labels, *unseen]
        labels = np.asarray(every, dtype=object)
        kept = gold >= 0
        gold_offsets = np.concatenate([[0], kept.sum(axis=1).cumsum()])
        width = top_labels.shape[1]
        offsets = np.arange(0, top_labels.size + 1, width)
        path = self.path / "predictions" / f"{split}.parquet"
        path.parent.mkdir(exist_ok=True)
        table = pa.table(
            {
                "row": pa.array(np.arange(len(top_labels), dtype=np.int64)),
                "label_ids": pa.ListArray.from_arrays(
                    pa.array(offsets, pa.int32()), pa.array(top_labels.ravel(), pa.int32())
                ),
                "labels": pa.ListArray.from_arrays(
                    pa.array(offsets, pa.int32()), pa.array(labels[top_labels.ravel()], pa.string())
                ),
                "scores": pa.ListArray.from_arrays(
                    pa.array(offsets, pa.int32()), pa.array(top_scores.ravel(), pa.float32())
                ),
                "gold": pa.ListArray.from_arrays(
                    pa.array(gold_offsets, pa.int32()), pa.array(labels[gold[kept]], pa.string())
                ),
            }
        )
        pq.write_table(table, path, compression="zstd")
        return path

    def finish(self, metrics: dict[str, Any]) -> None:
        """Write ``metrics.json``, which marks the folder as finished."""
        _write_json(self.path / METRICS_FILE, metrics)


def _write_json(path: Path, content: dict) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


# Runs in a process of its own, where hf_xmtc cannot be imported: what a stranger's machine would do.
_REOPEN = """
import json, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_xmtc":
            raise ImportError("hf_xmtc is not there")
sys.meta_path.insert(0, Block())
from transformers import pipeline
folder, top_k = sys.argv[1], int(sys.argv[2])
texts = json.load(sys.stdin)
tagger = pipeline("text-classification", model=folder, trust_remote_code=True, top_k=top_k, device="cpu")
answers = [tagger(text) for text in texts]
print("ANSWERS" + json.dumps(answers))
"""


def check_reopens(folder: str | os.PathLike, texts: list[str], labels: list[list[str]], scores: list[list[float]]) -> float:
    """Open a model folder in a fresh process without hf_xmtc and compare its scores.

    Args:
        folder: Model folder.
        texts: A few documents.
        labels: Labels this process predicts for each, best first.
        scores: Their scores.

    Returns:
        Largest difference of a score.

    Raises:
        RuntimeError: If the folder does not open, or a label or score differs by more than 1e-4.
    """
    answer = subprocess.run(
        [sys.executable, "-c", _REOPEN, os.fspath(folder), str(len(labels[0]))],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "WORLD_SIZE": "1"},
        check=False,
    )
    lines = [line for line in answer.stdout.splitlines() if line.startswith("ANSWERS")]
    if answer.returncode or not lines:
        raise RuntimeError(f"The model folder {folder} does not open in a fresh process:\n{answer.stderr[-3000:]}")
    largest = 0.0
    for reopened, own_labels, own_scores in zip(json.loads(lines[0][len("ANSWERS") :]), labels, scores, strict=True):
        by_label = {entry["label"]: entry["score"] for entry in reopened}
        for label, score in zip(own_labels, own_scores, strict=True):
            difference = abs(by_label.get(label, float("inf")) - score)
            largest = max(largest, difference)
            # A label on the last place may change places with an equal one; a score may not change.
            if difference > 1e-4 and label != own_labels[-1]:
                raise RuntimeError(
                    f"After reopening {folder}, the label {label!r} has the score {by_label.get(label)} instead of {score}."
                )
    return largest
