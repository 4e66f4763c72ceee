"""Measure LACO's cross attention against one that keeps every filter's answers: ``python scripts/benchmarks/cross_attention_speed.py``.

The plain way is that of the authors' code: a convolution over similarities (B, D, L) gives (B, C, D, L), of which autograd keeps all and
sends a gradient through all, though only the strongest answer of a token has one. The ways take turns in one process; memory is measured
in a new process for each. ``<output>.json`` holds the measurements, ``<output>.md`` the table.
"""

import argparse
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
import transformers
from torch import Tensor, nn

from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.models.laco_cross_attention import CrossAttention
from machine import in_new_process, machine_description, write_results

__all__ = ["CASES", "Case", "main", "measure"]

MIB = 2**20
WIDTH = 384
WAYS = ("plain", "ours")


@dataclass(frozen=True)
class Case:
    """A batch and the filters that go over it.

    Attributes:
        title: Where these sizes come from.
        num_labels: Labels L.
        channels: Filters C.
        kernel: Tokens and labels that a filter spans.
        num_tokens: Tokens D.
        num_documents: Documents B.
    """

    title: str
    num_labels: int
    channels: int
    kernel: tuple[int, int]
    num_tokens: int
    num_documents: int = 32


CASES = (
    Case("54 labels, authors' filters", 54, 54, (10, 10), 97),
    Case("Reuters-21578, authors' filters", 90, 90, (10, 10), 97),
    Case("AAPD at full length, authors' filters", 54, 54, (10, 10), 320, 8),
    Case("64 candidates, our filters", 64, 64, (11, 1), 97),
    Case("572 labels, our filters", 572, 64, (11, 1), 129),
)


def main(arguments: list[str] | None = None) -> None:
    """Measure all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "benchmark_cross_attention"
    )
    parser.add_argument("--repeats", type=int, default=5, help="Steps of each way; the median counts.")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    results = {
        "machine": {**machine_description(), "threads": options.threads},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "repeats": options.repeats,
        "cases": [],
    }
    for case in CASES:
        results["cases"].append({**asdict(case), **measure(case, options.repeats, options.threads)})
        table = markdown(results)
        write_results(options.output, results, table)
    print(table)


def measure(case: Case, repeats: int, threads: int) -> dict[str, Any]:
    """Milliseconds of a step and MiB at its peak, of both ways, and how far their gradients lie apart, relative to the largest."""
    torch.manual_seed(0)
    attention, batch = _new(case)
    seconds = {way: [] for way in WAYS}
    for _ in range(repeats + 1):
        for way in WAYS:
            start = time.perf_counter()
            _step(way, attention, batch)
            seconds[way].append(time.perf_counter() - start)
    gradients = {way: _step(way, attention, batch) for way in WAYS}
    apart = max(
        float((ours - plain).abs().max() / plain.abs().max()) for plain, ours in zip(*gradients.values(), strict=True)
    )
    # The first step brings in kernels.
    found = {f"{way}_ms": 1000 * statistics.median(times[1:]) for way, times in seconds.items()}
    for way in WAYS:
        found[f"{way}_mib"] = in_new_process(growth_mib, way, case, threads)
    return {**found, "gradients_apart": apart}


def growth_mib(way: str, case: Case, threads: int) -> float:
    """MiB by which this process, which should be a new one, grows in a step."""
    torch.set_num_threads(threads)
    tiny = Case("", 4, 2, (2, 1), 5, 1)
    _step(way, *_new(tiny))
    attention, batch = _new(case)
    before = psutil.Process().memory_info().rss / MIB
    _step(way, attention, batch)
    return max(peak_memory_mb() - before, 0.0)


def _new(case: Case) -> tuple[CrossAttention, tuple[Tensor, Tensor]]:
    attention = CrossAttention(case.kernel, case.channels)
    documents = torch.randn(case.num_documents, case.num_tokens, WIDTH, requires_grad=True)
    labels = torch.randn(case.num_documents, case.num_labels, WIDTH, requires_grad=True)
    return attention, (documents, labels)


def _step(way: str, attention: CrossAttention, batch: tuple[Tensor, Tensor]) -> list[Tensor]:
    """The gradients of a step with respect to states and filters."""
    inputs = [*batch, *attention.parameters()]
    read = torch.ones(batch[0].shape[:2], dtype=torch.bool)
    features = attention(batch[0], read, batch[1]).features if way == "ours" else _plain_features(attention, *batch)
    return list(torch.autograd.grad(features.square().sum(), inputs))


def _plain_features(attention: CrossAttention, document: Tensor, labels: Tensor) -> Tensor:
    values, targets = nn.functional.normalize(document, dim=-1), nn.functional.normalize(labels, dim=-1)
    similarity = nn.functional.pad((values @ targets.mT)[:, None], attention.padding)
    weights = attention.conv(similarity).relu().amax(dim=1).amax(dim=2).tanh()
    return (weights[:, None] @ values)[:, 0]


def markdown(results: dict[str, Any]) -> str:
    """The measurements as a table."""
    machine = results["machine"]
    lines = [
        "# LACO's cross attention",
        "",
        f"Milliseconds of a forward and backward pass (median of {results['repeats']}) and MiB by which the process grows, on "
        f"{machine['threads']} threads of {machine['processor']}; torch {results['versions']['torch']}. *Plain* keeps the answers of "
        "all filters, as in the structure of the authors' code. The last column is the largest difference of a gradient, relative to "
        "the largest of its kind.",
        "",
        "| | labels | filters | span | documents × tokens | plain | ours | | plain, MiB | ours, MiB | gradients apart |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in results["cases"]:
        lines.append(
            f"| {case['title']} | {case['num_labels']} | {case['channels']} | {case['kernel'][0]} × {case['kernel'][1]} "
            f"| {case['num_documents']} × {case['num_tokens']} | {case['plain_ms']:,.0f} | {case['ours_ms']:,.0f} "
            f"| {case['plain_ms'] / case['ours_ms']:.1f} × | {case['plain_mib']:,.0f} | {case['ours_mib']:,.0f} "
            f"| {case['gradients_apart']:.0e} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
