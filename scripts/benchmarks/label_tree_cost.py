"""Measure what the labels cost in a training step, with and without a tree: ``python scripts/benchmarks/label_tree_cost.py``.

``flat`` attends with all labels; ``joint`` is LightAttention's generator and discriminator, ``joint, sparse`` the same as
``sparse_embeddings`` trains it; ``levels`` are AttentionXML's two levels, one step of each. All have heads of the same width,
and read the same random states, gradients to them included; there is no encoder. Each case runs in a process of its own.
``<output>.json`` holds the measurements, ``<output>.md`` the table.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.models.attentionxml_head import DocumentStates, LabelAttentionHead
from hf_xmtc.models.configuration_lightattention import LightAttentionConfig
from hf_xmtc.models.label_tree_index import LabelTreeIndex
from hf_xmtc.models.label_tree_search import TreeLevel, tree_loss
from hf_xmtc.training.optimizers import CompositeOptimizer, LazyAdam
from machine import in_new_process, machine_description, write_results

__all__ = ["main", "measure"]

METHODS = ("flat", "joint", "joint, sparse", "levels")
STATE_SIZE, LINEAR_SIZES = 128, (64,)
DOCUMENTS, TOKENS, POSITIVES = 8, 64, 3
BEAM_WIDTH = 10


def main(arguments: list[str] | None = None) -> None:
    """Measure all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "benchmark_label_tree_cost"
    )
    parser.add_argument("--num_labels", type=int, nargs="+", default=[5_656, 22_625, 90_500])
    parser.add_argument("--repeats", type=int, default=5, help="Steps that are timed, after one that is not.")
    options = parser.parse_args(arguments)
    cases = [
        in_new_process(measure, method, num_labels, options.repeats)
        for num_labels in options.num_labels
        for method in METHODS
    ]
    results = {"machine": machine_description(), "torch": str(torch.__version__), "cases": cases}
    results["growth"] = {
        method: {key: _growth(cases, method, key) for key in ("gradients_ms", "step_ms")} for method in METHODS
    }
    table = markdown(results)
    write_results(options.output, results, table)
    print(table)


def measure(method: str, num_labels: int, repeats: int) -> dict[str, Any]:
    """CPU milliseconds and memory of a step on one thread, in this process, which should be a new one."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LightAttentionConfig(num_labels=num_labels)
    (num_clusters,) = config.tree_level_sizes
    states = torch.randn(DOCUMENTS, TOKENS, STATE_SIZE, requires_grad=True)
    documents = DocumentStates(states, torch.ones(DOCUMENTS, TOKENS, dtype=torch.bool))
    positives = torch.stack([torch.randperm(num_labels)[:POSITIVES] for _ in range(DOCUMENTS)])

    def head(num_nodes: int) -> LabelAttentionHead:
        made = LabelAttentionHead(STATE_SIZE, num_nodes, LINEAR_SIZES, memory_mib=config.label_memory_mib)
        for parameter in made.parameters():
            torch.nn.init.uniform_(parameter, -0.1, 0.1)
        return made

    tree = LabelTreeIndex([num_clusters], num_labels)
    labels = head(num_labels)
    clusters = None if method == "flat" else head(num_clusters)
    levels = [TreeLevel(clusters, documents), TreeLevel(labels, documents)]

    def joint() -> list[Tensor]:
        return [tree_loss(tree, levels, positives, BEAM_WIDTH, "mean").loss]

    def of_levels() -> list[Tensor]:
        # The clusters as the labels of a model of their own, then the labels, with what scores the clusters frozen.
        first = clusters.loss(documents, tree.positives(0, positives))
        with torch.no_grad():
            frozen = TreeLevel(clusters, DocumentStates(states.detach(), documents.read))
        return [first, tree_loss(tree, [frozen, levels[1]], positives, BEAM_WIDTH, "mean", first=1).loss]

    losses = {"flat": lambda: [labels.loss(documents, positives)], "levels": of_levels}.get(method, joint)
    parameters = [*labels.parameters(), *(clusters.parameters() if clusters is not None else ())]
    labels.sparse_rows = method == "joint, sparse"
    if labels.sparse_rows:
        vectors, *others = parameters
        parts = {"rest": torch.optim.Adam(others, fused=True), "embeddings": LazyAdam([vectors])}
        optimizer = CompositeOptimizer(parts)
    else:
        optimizer = torch.optim.Adam(parameters, fused=True)
    before = peak_memory_mb()
    times = [_timed_step(losses, optimizer) for _ in range(repeats + 1)][1:]
    gradients, steps = (statistics.median(column) for column in zip(*times, strict=True))
    scored = num_labels if method == "flat" else num_clusters + BEAM_WIDTH * math.ceil(num_labels / num_clusters)
    return {
        "method": method,
        "num_labels": num_labels,
        "num_clusters": None if method == "flat" else num_clusters,
        "num_scored": scored,
        "gradients_ms": gradients,
        "step_ms": steps,
        "extra_mib": peak_memory_mb() - before,
    }


def _timed_step(losses: Callable[[], list[Tensor]], optimizer: torch.optim.Optimizer) -> tuple[float, float]:
    """CPU milliseconds of losses and gradients, and with the update of all weights."""
    optimizer.zero_grad()
    start = time.process_time()
    for loss in losses():
        loss.backward()
    middle = time.process_time()
    optimizer.step()
    return 1000 * (middle - start), 1000 * (time.process_time() - start)


def _growth(cases: list[dict[str, Any]], method: str, key: str) -> float | None:
    """The exponent e of time ~ L^e, by least squares over logarithms; None for one size."""
    points = [(math.log(case["num_labels"]), math.log(case[key])) for case in cases if case["method"] == method]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None


def markdown(results: dict[str, Any]) -> str:
    """The measurements as a table."""
    machine, flat = results["machine"], {c["num_labels"]: c for c in results["cases"] if c["method"] == "flat"}
    lines = [
        "# What the labels cost in a training step",
        "",
        f"Batches of {DOCUMENTS} documents of {TOKENS} tokens, states of width {STATE_SIZE}, one layer of "
        f"{LINEAR_SIZES[0]}, labels of {BEAM_WIDTH} clusters scored; one thread of {machine['processor']}, torch "
        f"{results['torch']}, CPU time. No encoder. *Gradients* is loss and backward pass, *step* has Adam's update of the "
        "weights too. Gradient and update take the vectors of all labels, but with *joint, sparse*, which is what "
        "`--sparse_embeddings True` does over a label tree, those of candidates. *Memory* is what the process grew by, Adam's "
        "state of all labels included. Ratios are of flat to the method in this run.",
        "",
        "| labels | method | clusters | scored for a document | gradients, ms | step, ms | memory, MiB | gradients, ratio | step, ratio "
        "| memory, ratio |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in results["cases"]:
        ratios = [
            f"{flat[case['num_labels']][key] / max(1, case[key]):.1f}" for key in ("gradients_ms", "step_ms", "extra_mib")
        ]
        clusters = "–" if case["num_clusters"] is None else f"{case['num_clusters']:,}"
        lines.append(
            f"| {case['num_labels']:,} | {case['method']} | {clusters} | {case['num_scored']:,} | {case['gradients_ms']:.0f} "
            f"| {case['step_ms']:.0f} | {case['extra_mib']:,} | {' | '.join(ratios)} |"
        )
    if results["growth"]["flat"]["step_ms"] is not None:
        growth = "; ".join(
            f"{method} {of_method['gradients_ms']:.2f} ({of_method['step_ms']:.2f})"
            for method, of_method in results["growth"].items()
        )
        lines += ["", f"Time grows as labels to the power of, gradients (step): {growth}. A root has 0.5."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
