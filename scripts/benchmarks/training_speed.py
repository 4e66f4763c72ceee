"""Measure training and inference against the structure of the authors' code: ``python scripts/benchmarks/training_speed.py --data_dir DIR``.

The authors of CorNet and AttentionXML pad every document to the maximum length, draw random batches and compute loss and best labels
from (B, L) matrices (`authors_structure`). The ways take turns in one process; of an epoch a sample of steps is run, or all of it with
``--full_epochs``. ``--quality`` also trains both ways to the end and compares nDCG@5. Results are written as they come: the same
command goes on where it was interrupted, and further models or ``--quality`` are added. ``<output>.json`` holds all measurements,
comparisons and targets, ``<output>.md`` the tables.
"""

import argparse
import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers

from hf_xmtc.commands.families import family_named
from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.processes import usable_cores
from machine import machine_description
from training_cases import AUTHORS, OURS, Data, Model, load_data, measure_quality, measure_speed, ways_of
from training_memory import StepSizes, measure_memory_in_new_process
from training_page import checks, compare, markdown

__all__ = ["Plan", "Quality", "main", "run_benchmark"]

logger = logging.getLogger(__name__)

TITLE = "Training against the structure of the authors' code"
# Epochs of --quality, where a model is trained on less than all data: AttentionXML takes minutes an epoch.
SMALL_DATA, SMALL_DATA_EPOCHS = "demo", 6
EPOCHS = 5


@dataclass(frozen=True)
class Quality:
    """A model to train both ways to the end.

    Attributes:
        model: The model.
        dataset: Folder, ``demo`` or Hub id.
        epochs: Epochs.
    """

    model: Model
    dataset: str
    epochs: int


@dataclass(frozen=True)
class Plan:
    """Choice of what is measured.

    Attributes:
        data_dir: Data set of the times.
        models: Models whose times are measured.
        batch_size: Documents per step.
        steps: Steps per round and way, sampled from an epoch; None for whole epochs.
        rounds: Rounds in which the ways take turns.
        inference_documents: Documents of the test split to tag in each round.
        qualities: Models to train to the end.
        seeds: Seeds of that.
        memory: The step whose memory is measured, or None.
    """

    data_dir: str
    models: tuple[Model, ...]
    batch_size: int = 40
    steps: int | None = 30
    rounds: int = 3
    inference_documents: int = 1_000
    qualities: tuple[Quality, ...] = ()
    seeds: tuple[int, ...] = (0,)
    memory: StepSizes | None = None


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/benchmarks/training_speed.py``."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        run_benchmark(_plan_of(arguments), arguments.output, arguments.threads, arguments.restart)
    except (OSError, MemoryError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data_dir", required=True, help="Folder of the data set debtags, or another data set.")
    parser.add_argument("--models", nargs="+", default=["xmlcnn", "attentionxml"], help="Families, as for --model_family.")
    parser.add_argument(
        "--max_length_tokens", type=int, nargs="+", default=[128], help="Words of a document; 500 in the authors' code."
    )
    parser.add_argument("--batch_size", type=int, default=Plan.batch_size, help="Documents per step.")
    parser.add_argument("--steps", type=int, default=Plan.steps, help="Steps sampled from an epoch, per round and way.")
    parser.add_argument("--rounds", type=int, help=f"Rounds; {Plan.rounds}, with --full_epochs 1.")
    parser.add_argument("--full_epochs", action="store_true", help="Run whole epochs instead of a sample.")
    parser.add_argument("--inference_documents", type=int, default=Plan.inference_documents, help="Documents to tag.")
    parser.add_argument("--quality", action="store_true", help="Also train both ways to the end and compare nDCG@5.")
    parser.add_argument(
        "--quality_epochs",
        type=int,
        help=f"Epochs of that; by default {EPOCHS} of XML-CNN on the data set, {SMALL_DATA_EPOCHS} of others on the demo data.",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(Plan.seeds), help="Seeds of --quality.")
    parser.add_argument("--skip_memory", action="store_true", help="Leave out the memory of a step of AttentionXML.")
    parser.add_argument("--threads", type=int, default=min(2, usable_cores()), help="Threads of torch.")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "results" / "benchmark_training",
        help="Results, without an ending: scripts/results/benchmark_training.",
    )
    parser.add_argument("--restart", action="store_true", help="Measure anew what is in the results already.")
    return parser


def _plan_of(arguments: argparse.Namespace) -> Plan:
    models = tuple(Model(family, length) for family in arguments.models for length in arguments.max_length_tokens)
    qualities = []
    for model in models if arguments.quality else ():
        dataset, epochs = (arguments.data_dir, EPOCHS) if model.family == "xmlcnn" else (SMALL_DATA, SMALL_DATA_EPOCHS)
        if model.max_length_tokens == arguments.max_length_tokens[0]:
            qualities.append(Quality(model, dataset, arguments.quality_epochs or epochs))
    return Plan(
        arguments.data_dir,
        models,
        arguments.batch_size,
        None if arguments.full_epochs else arguments.steps,
        arguments.rounds or (1 if arguments.full_epochs else Plan.rounds),
        arguments.inference_documents,
        tuple(qualities),
        tuple(arguments.seeds),
        None if arguments.skip_memory else StepSizes(),
    )


def run_benchmark(plan: Plan, output: Path, threads: int = 2, restart: bool = False) -> dict[str, Any]:
    """Measure what is missing in the results, and write the tables.

    Args:
        plan: What is measured.
        output: Results, without an ending.
        threads: Threads of torch.
        restart: Measure anew what the plan has and the results too.

    Returns:
        The results, as in the JSON file.

    Raises:
        ValueError: If the results are of another machine or other settings, or a model's family does not exist.
        MemoryError: If a step whose memory is measured does not fit.
    """
    for model in plan.models:
        family_named(model.family)  # an unknown one is refused before anything is measured
    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    run = _Run(plan, output.with_suffix(".json"), threads, restart)
    run.measure_speed()
    run.measure_memory()
    run.measure_quality()
    return run.finish()


class _Run:
    """The results so far, and how more are added to them."""

    def __init__(self, plan: Plan, path: Path, threads: int, restart: bool):
        self.plan, self.path, self.threads, self.restart = plan, path, threads, restart
        self.data: dict[tuple[str, str, int], Data] = {}
        self.content: dict[str, Any] = {
            "title": TITLE,
            "machine": machine_description(),
            "settings": {
                "threads": threads,
                "torch": str(torch.__version__),
                "transformers": transformers.__version__,
                "data_set": Path(plan.data_dir).name,
                "batch_size": plan.batch_size,
            },
            "memory": dataclasses.asdict(plan.memory or StepSizes()),
            "cases": {},
        }
        if path.exists():
            self.content["cases"] = self._earlier_cases()

    def _earlier_cases(self) -> dict[str, Any]:
        earlier = json.loads(self.path.read_text(encoding="utf-8"))
        for name in ("machine", "settings", "memory"):
            if earlier[name] != self.content[name]:
                raise ValueError(
                    f"{self.path.name} holds results with {name} {earlier[name]}, but this run has {self.content[name]}, and the two "
                    "cannot be compared. Give another --output, or delete the file."
                )
        return earlier["cases"]

    def measure_speed(self) -> None:
        plan = self.plan
        kind = "epoch" if plan.steps is None else "sample"
        for seed in range(plan.rounds):
            for model in plan.models:
                for way in _in_turn(ways_of(model.family), seed):
                    self._measure(
                        f"{kind}/{model.family}/{model.max_length_tokens}/{way}", seed, self._speed_of, way, model, seed
                    )

    def _speed_of(self, way: str, model: Model, seed: int) -> dict[str, Any]:
        plan, data = self.plan, self._data(self.plan.data_dir, model)
        return measure_speed(way, model, data, plan.batch_size, plan.steps, plan.inference_documents, seed)

    def measure_memory(self) -> None:
        sizes = self.plan.memory
        for way in (AUTHORS, OURS) if sizes is not None else ():
            self._measure(f"memory/{way}", 0, measure_memory_in_new_process, way, sizes, self.threads)

    def measure_quality(self) -> None:
        for turn, seed in enumerate(self.plan.seeds):
            for chosen in self.plan.qualities:
                for way in _in_turn((AUTHORS, OURS), turn):
                    name = f"quality/{chosen.model.family}/{Path(chosen.dataset).name}/{chosen.epochs}/{way}"
                    self._measure(name, seed, self._quality_of, way, chosen, seed)

    def _quality_of(self, way: str, chosen: Quality, seed: int) -> dict[str, Any]:
        data = self._data(chosen.dataset, chosen.model)
        return measure_quality(way, chosen.model, data, self.plan.batch_size, chosen.epochs, seed)

    def _data(self, dataset: str, model: Model) -> Data:
        key = (dataset, model.family, model.max_length_tokens)
        if key not in self.data:
            self.data[key] = load_data(dataset, model)
        return self.data[key]

    def _measure(self, name: str, seed: int, work: Callable[..., Mapping[str, Any]], *arguments: Any) -> None:
        """Measure a case with a seed, unless that is there, and keep what comes out."""
        rounds = self.content["cases"].setdefault(name, {"rounds": []})["rounds"]
        there = [entry for entry in rounds if entry["seed"] == seed]
        if there and not self.restart:
            return
        start = time.perf_counter()
        found = {"seed": seed, **work(*arguments)}
        rounds[:] = sorted([entry for entry in rounds if entry["seed"] != seed] + [found], key=lambda entry: entry["seed"])
        logger.info(f"{name}, seed {seed} ({time.perf_counter() - start:.0f} s)")
        write_json(self.path, self.content)

    def finish(self) -> dict[str, Any]:
        """Compare, and write JSON and tables."""
        self.content["comparisons"] = compare(self.content["cases"])
        self.content["checks"] = checks(self.content["comparisons"])
        write_json(self.path, self.content)
        text = markdown(self.content)
        self.path.with_suffix(".md").write_text(text, encoding="utf-8")
        logger.info(f"\n{text}")
        return self.content


def _in_turn(ways: tuple[str, ...], turn: int) -> tuple[str, ...]:
    """The ways to and fro, so that a machine that grows slower favours nobody."""
    return ways if turn % 2 == 0 else ways[::-1]


if __name__ == "__main__":
    main()
