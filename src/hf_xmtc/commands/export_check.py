"""A model folder opened in a fresh process: does it answer what the model in memory answers?"""

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from datasets import Dataset, DatasetDict

from hf_xmtc.data import LabelInfo
from hf_xmtc.data.collator import CANDIDATES
from hf_xmtc.models.modeling_xmtc import XMTCOutput
from hf_xmtc.training import XMTCTrainer

__all__ = ["check_folder", "check_reopens", "reference_scores"]

logger = logging.getLogger(__name__)

# Documents whose scores are compared.
NUM_CHECKED = 5

# Runs in a process of its own, where hf_xmtc cannot be imported: what a stranger's machine would do.
# It is run as a file, because code given as an argument would import what lies in the working directory.
_REOPEN = """
import json, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_xmtc":
            raise ImportError("hf_xmtc is not there")
sys.meta_path.insert(0, Block())
from transformers import pipeline
texts, labels, as_candidates = json.load(sys.stdin)
tagger = pipeline("text-classification", model=sys.argv[1], trust_remote_code=True, top_k=None, device="cpu")
answers = []
for text, row in zip(texts, labels):
    entries = tagger(text, candidates=row) if as_candidates else tagger(text)
    answers.append({entry["label"]: entry["score"] for entry in entries})
print("SCORES" + json.dumps([[answer[label] for label in row] for answer, row in zip(answers, labels)]))
"""


def check_reopens(
    folder: str | os.PathLike,
    texts: list[str],
    labels: list[list[str]],
    scores: list[list[float]],
    tolerance: float = 1e-4,
    as_candidates: bool = False,
) -> float:
    """Open a model folder in a fresh process without hf_xmtc and compare its scores.

    Args:
        folder: Model folder.
        texts: A few documents.
        labels: Labels that this process has scored for each.
        scores: Their scores.
        tolerance: Largest difference that is no fault.
        as_candidates: These labels are what the model is to score, as one that scores candidates needs them.

    Returns:
        Largest difference of a score.

    Raises:
        RuntimeError: If the folder does not open, lacks a label, or a score differs by more than ``tolerance``.
    """
    with tempfile.TemporaryDirectory(prefix="reopen_") as own_folder:
        script = Path(own_folder, "reopen.py")
        script.write_text(_REOPEN, encoding="utf-8")
        answer = subprocess.run(
            [sys.executable, str(script), os.fspath(folder)],
            input=json.dumps([texts, labels, as_candidates]),
            capture_output=True,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "WORLD_SIZE": "1"},
            check=False,
        )
    lines = [line for line in answer.stdout.splitlines() if line.startswith("SCORES")]
    if answer.returncode or not lines:
        raise RuntimeError(f"The model folder {folder} does not open in a fresh process:\n{answer.stderr[-3000:]}")
    largest = 0.0
    for reopened, row, own in zip(json.loads(lines[0].removeprefix("SCORES")), labels, scores, strict=True):
        for label, reopened_score, score in zip(row, reopened, own, strict=True):
            largest = max(largest, abs(reopened_score - score))
            if not abs(reopened_score - score) <= tolerance:  # so that nan is a difference too
                raise RuntimeError(
                    f"After reopening {folder}, the label {label!r} has the score {reopened_score} instead of {score}."
                )
    return largest


def reference_scores(trainer: XMTCTrainer, tokenized: DatasetDict) -> XMTCOutput:
    """Scores of a few documents by the model in memory, in full precision whatever training used."""
    rows = _split_to_check(tokenized)
    features = rows.select_columns([name for name in ("input_ids", CANDIDATES) if name in rows.column_names]).to_list()
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False).eval()
    batch = {name: tensor.to(model.device) for name, tensor in trainer.data_collator(features).items()}
    with torch.no_grad():
        # Of candidates all, because they are what the reopened model is given.
        return model(**batch, top_k=batch[CANDIDATES].shape[1] if CANDIDATES in batch else trainer.args.eval_top_k)


def check_folder(
    folder: str | os.PathLike, output: XMTCOutput, data: DatasetDict, info: LabelInfo, as_candidates: bool
) -> None:
    """Compare a folder with what the model in memory has answered (`reference_scores`)."""
    # A document may have fewer candidates than others.
    labels = [[info.names[label_id] for label_id in row if label_id >= 0] for row in output.top_labels.tolist()]
    scores = [row[there].tolist() for row, there in zip(output.top_scores, output.top_labels >= 0, strict=True)]
    texts = list(_split_to_check(data)["text"])
    difference = check_reopens(folder, texts, labels, scores, as_candidates=as_candidates)
    logger.info(
        f"Reopened {folder} in a fresh process without hf_xmtc: the scores of {len(labels)} documents agree "
        f"(largest difference {difference:.1e})."
    )


def _split_to_check(splits: DatasetDict) -> Dataset:
    """The first documents of the last split there is."""
    rows = next(splits[split] for split in ("test", "validation", "train") if split in splits)
    return rows.select(range(min(NUM_CHECKED, len(rows))))
