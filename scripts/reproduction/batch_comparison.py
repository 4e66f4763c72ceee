"""Random batches against batches of similar lengths: quality at the end of training, and time, of three families on two data sets.

``python scripts/reproduction/batch_comparison.py --data_dir DIR`` trains what is missing of `RUNS` under ``scripts/results/batches`` (a JSON file for
each run, with the validation curve), and writes the table ``scripts/results/batches.md``. Ways to make batches:

- ``padded``: random batches, every document padded to the longest of its batch;
- ``chunks``: the same batches, encoded in chunks of similar lengths (`hf_xmtc.models.length_chunks`), the default;
- ``buckets``: ``--train_sampling_strategy group_by_length``, batches of documents that are similarly long.

Time is that of all cores in training steps and their data, without evaluation. Of a run it depends on what else the machine does, so
``--steps`` measures the same steps in both ways by turns, on one thread, and writes ``scripts/results/batches/steps.json``.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import set_seed

from hf_xmtc import XMTCTrainer, label_info_of, load_xmtc_dataset, tokenize_dataset, train_word_tokenizer
from hf_xmtc.commands.families import family_named
from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.processes import set_up_process
from hf_xmtc.commands.recipe_parsing import parse_recipe
from hf_xmtc.commands.train import train
from hf_xmtc.data import XMTCDataCollator
from pair_gains import Gain

__all__ = ["RUNS", "Run", "main", "table"]

RESULTS = Path(__file__).resolve().parents[1] / "results"
STEPS = RESULTS / "batches" / "steps.json"
REPEATS, BATCHES = 8, 10
SEEDS = (1, 2, 3)
METRICS = ("nDCG@5", "P@1", "P@5", "PSP@5")
DATASETS = {
    "demo": "demo (572 labels, 7.1 a document)",
    "reuters-21578": "Reuters-21578 (88 labels in training, 1.2 a document)",
    "cooking-stackexchange": "cooking questions (729 labels in training, 2.3 a document, 9 words a text)",
}
FAMILIES = {"bertxml": "BertXML", "xmlcnn": "XML-CNN", "attentionxml": "AttentionXML"}
WAYS = {
    "padded": "random, padded",
    "chunks": "random, in chunks",
    "buckets": "of similar lengths",
    "chunks-without-label-bias": "random, in chunks, one bias for all labels",
}
# Sizes for CPUs; the rest are the defaults of the command line. Rates and epochs bring the curves to their flat end.
SETTINGS = {
    "bertxml": {"hidden_size": 192, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 384},
    "xmlcnn": {"embedding_size": 128, "num_filters": 64, "bottleneck_size": 256},
    "attentionxml": {"embedding_size": 128, "hidden_size": 128, "linear_sizes": [128], "label_bias": True},
}
LEARNING_RATES = {"bertxml": 2e-3, "xmlcnn": 4e-3, "attentionxml": 4e-3}
EPOCHS = {"demo": 8, "reuters-21578": 5, "cooking-stackexchange": 5}
COMMON = {
    "cornet_num_blocks": 0,
    "max_length_tokens": 128,
    "eval_strategy": "epoch",
    "logging_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


class Run(NamedTuple):
    """One training: data set, family, way to make batches, seed."""

    dataset: str
    family: str
    way: str
    seed: int

    @property
    def file(self) -> Path:
        return RESULTS / "batches" / f"{self.dataset}-{self.family}-{self.way}-seed{self.seed}.json"


def _ways(dataset: str, family: str) -> list[str]:
    of_bias = ["chunks", "chunks-without-label-bias"] if family == "attentionxml" else []
    if dataset == "cooking-stackexchange":
        return of_bias
    return ["padded", "buckets", *(of_bias or ["chunks"])]


def _runs() -> Iterator[Run]:
    for seed in SEEDS:
        for dataset in DATASETS:
            for family in FAMILIES:
                for way in _ways(dataset, family):
                    yield Run(dataset, family, way, seed)


RUNS = tuple(_runs())


class TimedTrainer(XMTCTrainer):
    """`XMTCTrainer` that measures its training steps, and with ``pads`` encodes every batch as a whole.

    Attributes:
        pads: Read before training; on the class, as all of these, because `hf_xmtc.commands.train` keeps its trainer to itself.
        seconds: CPU seconds of the last training, without evaluation.
        curve: Validation metrics at each check of it.
    """

    pads = False
    seconds = 0.0
    curve: list[dict[str, float]] = []

    def train(self, *args: Any, **kwargs: Any):
        self.model.chunk_tokens = float("inf") if self.pads else None
        TimedTrainer.seconds, start = 0.0, time.process_time()
        result = super().train(*args, **kwargs)
        TimedTrainer.seconds += time.process_time() - start
        TimedTrainer.curve = [
            {"epoch": entry["epoch"], **{name: entry[f"eval_{name}"] for name in METRICS}}
            for entry in self.state.log_history
            if "eval_nDCG@5" in entry
        ]
        return result

    def _evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        start = time.process_time()
        metrics = super()._evaluate(*args, **kwargs)
        TimedTrainer.seconds -= time.process_time() - start
        return metrics


def _dataset_in(data_dir: Path | None, name: str) -> str:
    return name if name == "demo" else str((data_dir or Path()) / name)


def train_run(run: Run, data_dir: Path | None) -> dict[str, Any]:
    """Train, and give metrics of both splits (fractions), the validation curve, CPU seconds and the settings."""
    sizes = SETTINGS[run.family]
    if run.way == "chunks-without-label-bias":
        sizes = {**sizes, "label_bias": False}
    settings = {
        **COMMON,
        "model_family": run.family,
        "config_overrides": json.dumps(sizes),
        "learning_rate": LEARNING_RATES[run.family],
        "num_train_epochs": EPOCHS[run.dataset],
        "train_sampling_strategy": "group_by_length" if run.way == "buckets" else "random",
        "seed": run.seed,
    }
    TimedTrainer.pads = run.way == "padded"
    dataset = _dataset_in(data_dir, run.dataset)
    with tempfile.TemporaryDirectory() as folder:
        options = {**settings, "dataset": dataset, "output_dir": f"{folder}/model"}
        recipe = parse_recipe([part for name, value in options.items() for part in (f"--{name}", str(value))])
        set_up_process(recipe.training)
        metrics = json.loads((train(recipe, TimedTrainer) / "metrics.json").read_text(encoding="utf-8"))
    found = {split: {name: metrics[split][name] for name in METRICS} for split in ("validation", "test")}
    return {**run._asdict(), **found, "cpu_seconds": TimedTrainer.seconds, "curve": TimedTrainer.curve, "settings": settings}


def measure_steps(data_dir: Path | None) -> dict[str, dict[str, dict[str, float]]]:
    """CPU milliseconds of a training step, by data set, family and way: the least of `REPEATS` rounds over the same batches, by turns."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for dataset in list(DATASETS)[:2]:
        data = load_xmtc_dataset(_dataset_in(data_dir, dataset))
        names = label_info_of(data).names
        for family in FAMILIES:
            config_class, model_class = family_named(family)
            cls_tokens = {"num_cls_tokens": 5} if family == "bertxml" else {}
            tokenizer = train_word_tokenizer(data["train"]["text"], max_length=COMMON["max_length_tokens"], **cls_tokens)
            rows = tokenize_dataset(data, tokenizer, COMMON["max_length_tokens"])[0]["train"]
            order = np.random.default_rng(0).permutation(len(rows))[: 40 * BATCHES]
            collate = XMTCDataCollator(tokenizer, len(names))
            batches = [collate([rows[int(row)] for row in part]) for part in np.split(order, BATCHES)]
            set_seed(0)
            model = model_class(
                config_class.for_tokenizer(tokenizer, label_names=names, cornet_num_blocks=0, **SETTINGS[family])
            )
            seconds: dict[str, list[float]] = {"padded": [], "chunks": []}
            for _ in range(REPEATS + 1):
                for way, rounds in seconds.items():
                    model.train().chunk_tokens = float("inf") if way == "padded" else None
                    start = time.process_time()
                    for batch in batches:
                        model.zero_grad()
                        model(**batch, top_k=0).loss.backward()
                    rounds.append(time.process_time() - start)
            # The first round warms up.
            found.setdefault(dataset, {})[family] = {
                way: 1000 * min(rounds[1:]) / BATCHES for way, rounds in seconds.items()
            }
    return found


def table_of_steps(steps: dict[str, dict[str, dict[str, float]]]) -> str:
    """Forward and backward of the same random batches, padded and in chunks."""
    lines = [
        "## Time of a step",
        "",
        "`python scripts/reproduction/batch_comparison.py --steps --data_dir DIR`. CPU milliseconds of forward and backward over the same "
        f"{BATCHES} random batches by turns, one",
        f"thread; least of {REPEATS} rounds. Optimizer and data, the same both ways, are left out.",
        "",
        "| data | model | padded | in chunks | ratio |",
        "|---|---|---:|---:|---:|",
    ]
    for dataset, families in steps.items():
        for family, ways in families.items():
            padded, chunks = ways["padded"], ways["chunks"]
            lines.append(f"| {dataset} | {FAMILIES[family]} | {padded:.0f} | {chunks:.0f} | {chunks / padded:.2f} |")
    return "\n".join([*lines, ""])


def table(results: dict[Run, dict[str, Any]]) -> str:
    """The page: means over seeds, and paired differences to random batches in chunks with their 95 % intervals."""
    lines = [
        "# Random batches against batches of similar lengths",
        "",
        "`python scripts/reproduction/batch_comparison.py --data_dir DIR`. Test split, per cent; mean over the seeds. Batches of 40. CPU seconds are of all",
        "cores, training alone. Difference: nDCG@5 against random batches in chunks, paired by seed, with its 95 % t interval.",
        "Every family has the sizes and epochs in the script; the best of the checks after each epoch by nDCG@5 on validation is measured.",
        "AttentionXML has a bias per label but in its last row. Runs shared their machine with others, so their CPU seconds do not compare",
        "exactly; the table of steps does.",
        "",
    ]
    for dataset, title in DATASETS.items():
        lines += [
            f"## {title}",
            "",
            f"| model | batches | seeds | {' | '.join(METRICS)} | difference | CPU s |",
            f"|---|---|{'---:|' * 7}",
        ]
        for family, name in FAMILIES.items():
            for way, words in WAYS.items():
                of_way = {seed: results.get(Run(dataset, family, way, seed)) for seed in SEEDS}
                of_way = {seed: result for seed, result in of_way.items() if result}
                if not of_way:
                    continue
                cells = [
                    f"{100 * np.mean([result['test'][metric] for result in of_way.values()]):.2f}" for metric in METRICS
                ]
                pairs = [
                    100 * (of_way[seed]["test"]["nDCG@5"] - other["test"]["nDCG@5"])
                    for seed in of_way
                    if way != "chunks" and (other := results.get(Run(dataset, family, "chunks", seed)))
                ]
                seconds = f"{np.mean([result['cpu_seconds'] for result in of_way.values()]):.0f}"
                lines.append(f"| {name} | {words} | {len(of_way)} | {' | '.join(cells)} | {_shown(pairs)} | {seconds} |")
        lines.append("")
    return "\n".join(lines)


def _shown(differences: list[float]) -> str:
    if not differences:
        return "–"
    gain = Gain.of(differences)
    return f"{gain.mean:+.2f}" if gain.half_width is None else f"{gain.mean:+.2f} ± {gain.half_width:.2f}"


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``scripts/reproduction/batch_comparison.py``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", type=Path, help="folder that holds the folder reuters-21578")
    parser.add_argument("--only", default="", help="train runs whose file name contains this")
    parser.add_argument(
        "--page_alone", action="store_true", help="train nothing, write the page from the results that exist"
    )
    parser.add_argument("--steps", action="store_true", help="measure the time of a step instead of training")
    options = parser.parse_args(argv)
    if options.steps:
        torch.set_num_threads(1)
        write_json(STEPS, measure_steps(options.data_dir))
    for run in RUNS:
        if not (options.page_alone or options.steps) and options.only in run.file.name and not run.file.exists():
            print(run.file.name, flush=True)
            result = train_run(run, options.data_dir)
            run.file.parent.mkdir(parents=True, exist_ok=True)
            write_json(run.file, result)
    results = {run: json.loads(run.file.read_text(encoding="utf-8")) for run in RUNS if run.file.exists()}
    steps = [table_of_steps(json.loads(STEPS.read_text(encoding="utf-8")))] if STEPS.exists() else []
    (RESULTS / "batches.md").write_text("\n".join([table(results), *steps]), encoding="utf-8")


if __name__ == "__main__":
    main()
