"""Kill training runs at random times, repeat their command until it ends, and compare the model with that of a run nobody killed.

``python scripts/reliability/kill_and_resume.py --output scripts/results/reliability/kill-and-resume.json`` does so for three
set-ups on 200 documents of the demo data, at least 21 kills in all, and writes the table as JSON and Markdown. SIGKILL cannot be
caught: what a run leaves then is what a power cut or the memory killer leaves.
"""

import argparse
import contextlib
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

__all__ = ["main"]

TRAIN = Path(__file__).resolve().parents[1] / "train.py"
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
COMMON = {
    "dataset": "demo",
    "max_train_documents": 200,
    "max_eval_documents": 60,
    "max_length_tokens": 32,
    "per_device_train_batch_size": 10,
    "learning_rate": 0.01,
    "use_cpu": True,
    "disable_tqdm": True,
    "logging_steps": 7,
}
SETUPS = {
    "defaults": {
        "model_family": "bertxml",
        "num_cls_tokens": 2,
        "cornet_context_size": 16,
        "config_overrides": json.dumps(SIZES),
        "num_train_epochs": 20,
    },
    "averaging, adaptive clipping, early stopping, accumulation": {
        "model_family": "bertxml",
        "num_cls_tokens": 2,
        "cornet_context_size": 16,
        "config_overrides": json.dumps(SIZES),
        "num_train_epochs": 25,
        "averaging_start_epoch": 2,
        "adaptive_gradient_clipping": True,
        "early_stopping_patience": 5,
        "gradient_accumulation_steps": 2,
    },
    "LACO with candidates": {
        "model_family": "laco",
        "config_overrides": json.dumps({"num_candidates": 32, "backbone_config": SIZES}),
        "num_train_epochs": 15,
    },
}
# Kills of one run; after them it may end.
KILLS_OF_A_RUN = 4
POLL_SECONDS = 0.02


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reliability/kill_and_resume.py``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="JSON file; the table goes beside it as .md")
    parser.add_argument("--kills", type=int, default=7, help="kills of each set-up")
    parser.add_argument("--seed", type=int, default=1, help="seed of the times of the kills")
    parser.add_argument("--setups", nargs="*", default=list(SETUPS), choices=list(SETUPS), help="by default all")
    options = parser.parse_args(argv)
    draw, results = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as work:
        for setup in options.setups:
            results += try_setup(setup, Path(work, f"setup-{len(results)}"), options.kills, draw)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            options.output.with_suffix(".md").write_text(as_table(results), encoding="utf-8")
    print(as_table(results))
    if not all(run["same_weights"] and run["same_metrics"] for run in results):
        sys.exit("A run that was killed and repeated ended with another model.")


@dataclass
class Course:
    """Seconds of processor time after which a run begins to write, has trained, and has ended; and the steps it takes."""

    begun: float
    trained: float
    ended: float
    steps: int

    def left(self, folder: Path) -> float:
        """Seconds that a repeated run has left once it begins."""
        after = self.ended - self.trained
        if (folder / "checkpoints" / "trained").exists():
            return after
        return after + (self.trained - self.begun) * (1 - newest_step(folder) / self.steps)


def try_setup(name: str, work: Path, kills: int, draw: random.Random) -> list[dict[str, Any]]:
    """Runs of one set-up that are killed until ``kills`` is reached; each ends in the end and is compared."""
    whole = work / "whole"
    course = run_alone(name, whole)
    print(f"{name}: {course}", flush=True)
    runs = []
    while (left := kills - sum(len(run["kills"]) for run in runs)) > 0:
        folder = work / f"run-{len(runs)}"
        killed = run_with_kills(name, folder, min(left, KILLS_OF_A_RUN), course, draw)
        own, expected = outcome(folder), outcome(whole)
        run = {"setup": name, "kills": killed, "weights": own["weights"], "expected_weights": expected["weights"]}
        run |= {"same_weights": own["weights"] == expected["weights"], "same_metrics": own["metrics"] == expected["metrics"]}
        print(json.dumps(run), flush=True)
        runs.append(run)
    return runs


def run_alone(name: str, folder: Path) -> Course:
    """A run that nobody kills."""
    process, seen, spent = start(name, folder), {}, 0.0
    while process.poll() is None:
        spent = max(spent, processor_seconds(process))
        for what, path in (("begun", folder / "recipe.json"), ("trained", folder / "checkpoints" / "trained")):
            if what not in seen and path.exists():
                seen[what] = spent
        time.sleep(POLL_SECONDS)
    if process.returncode != 0:
        sys.exit(f"The run of {name!r} that nobody killed ended with status {process.returncode}; see {folder}.log.")
    steps = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["train"]["steps"]
    return Course(seen["begun"], seen["trained"], spent, steps)


def run_with_kills(name: str, folder: Path, kills: int, course: Course, draw: random.Random) -> list[dict[str, Any]]:
    """Repeat one command until it ends, killing it up to ``kills`` times; where each kill has hit it."""
    killed: list[dict[str, Any]] = []
    while not (folder / "metrics.json").exists():
        limit, since = float("inf"), time.time()
        if left := kills - len(killed):
            # A share of what is left, or the first kill after training would make all others hit what follows it.
            limit = course.begun + draw.random() * course.left(folder) / left
        process = start(name, folder)
        while process.poll() is None and processor_seconds(process) < limit:
            time.sleep(POLL_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()
            killed.append({"after_processor_seconds": round(limit, 1), "during": phase(folder, since)})
        elif process.returncode != 0:
            sys.exit(f"Repeating {name!r} after {killed} ended with status {process.returncode}; see {folder}.log.")
    return killed


def processor_seconds(process: subprocess.Popen) -> float:
    """Processor time of a process and its children, which other work on the machine does not change."""
    total = 0.0
    try:
        parent = psutil.Process(process.pid)
        for one in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                total += times.user + times.system
    except psutil.Error:  # it has just ended
        pass
    return total


def newest_step(folder: Path) -> int:
    """Step of the newest checkpoint, 0 without one."""
    found = (folder / "checkpoints").glob("checkpoint-*")
    return max((int(path.name.rpartition("-")[2]) for path in found), default=0)


def start(name: str, folder: Path) -> subprocess.Popen:
    """The command of a set-up, with its words in a file beside the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    settings = {**COMMON, **SETUPS[name], "output_dir": folder}
    arguments = [text for key, value in settings.items() for text in (f"--{key}", str(value))]
    with open(f"{folder}.log", "a", encoding="utf-8") as log:
        return subprocess.Popen([sys.executable, str(TRAIN), *arguments], stdout=log, stderr=subprocess.STDOUT)


def phase(folder: Path, since: float) -> str:
    """The phase of a killed run that began at the time ``since``, by what it has left."""
    checkpoints = folder / "checkpoints"
    written = {path.name for path in folder.glob("*") if path.stat().st_mtime >= since}
    if "metrics.json" in written:
        return "removal of the checkpoints"
    if "README.md" in written:
        return "reopening"
    if "model.safetensors" in written:
        return "writing"
    if (checkpoints / "trained").exists():
        return "final evaluation"
    if list(checkpoints.glob(".unfinished/*")):
        return "writing of a checkpoint"
    step = newest_step(folder)
    return f"training after step {step}" if step else "training before the first checkpoint"


def outcome(folder: Path) -> dict[str, Any]:
    """The finished model: digest of its weights, and its metrics."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    return {"weights": weights, "metrics": {split: metrics[split] for split in ("validation", "test")}}


def as_table(runs: list[dict[str, Any]]) -> str:
    """The runs as a Markdown table."""
    kills = [kill for run in runs for kill in run["kills"]]
    same = sum(run["same_weights"] and run["same_metrics"] for run in runs)
    lines = [
        f"{len(kills)} kills (SIGKILL at random times) in {len(runs)} runs; {same} of {len(runs)} ended with the weights "
        "(SHA-256) and metrics of a run that nobody killed.",
        "",
        "| set-up | killed during | weights | metrics |",
        "| --- | --- | --- | --- |",
    ]
    for run in runs:
        where = "; ".join(kill["during"] for kill in run["kills"]) or "not killed"
        words = ["identical" if run[key] else "DIFFERENT" for key in ("same_weights", "same_metrics")]
        lines.append(f"| {run['setup']} | {where} | {words[0]} | {words[1]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
