"""Processor time, memory and size of the search for training texts' nearest others, and what 1.2 million texts would take.

    python scripts/benchmarks/neighbor_search.py --num_texts 60000 120000 --approximate

Exact search takes time in proportion to queries × texts; the vectors are random, which is the hardest case for faiss.
"""

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import psutil
import torch

from hf_xmtc.commands.json_files import write_json
from hf_xmtc.models.text_index import DocumentVectors, VectorIndex
from hf_xmtc.retrieval.neighbor_search import approximate_neighbors, faiss_lists, search_neighbors
from machine import in_new_process, machine_description

AMAZONCAT = 1_186_239  # training texts of AmazonCat-13K
NUM_NEIGHBORS = 20
STEM = Path(__file__).resolve().parents[1] / "results" / "benchmark_neighbor_search"


def main(arguments: list[str] | None = None) -> None:
    """Measure every size and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_texts", type=int, nargs="+", default=[60_000, 120_000])
    parser.add_argument("--num_queries", type=int, default=1_000, help="The first texts, each without itself.")
    parser.add_argument("--size", type=int, default=300, help="Numbers of a vector.")
    parser.add_argument("--approximate", action="store_true", help="With faiss too.")
    parser.add_argument("--output", type=Path, default=STEM)
    options = parser.parse_args(arguments)
    cases = [
        in_new_process(measure, num_texts, options.num_queries, options.size, options.approximate)
        for num_texts in options.num_texts
    ]
    results = {"machine": machine_description(), "torch": torch.__version__, "cases": cases}
    write_json(options.output.with_suffix(".json"), results)
    options.output.with_suffix(".md").write_text(markdown(results), encoding="utf-8")
    print(markdown(results))


def measure(num_texts: int, num_queries: int, size: int, approximate: bool) -> dict[str, Any]:
    """Seconds of one processor, MiB, and the share of the exact neighbours that faiss finds."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(num_texts, size, generator=random), dim=1)
    index, rows = VectorIndex(size, 0), torch.arange(num_texts)
    index.store(DocumentVectors(vectors))
    queries, own = DocumentVectors(vectors[:num_queries]), rows[:num_queries]
    before, started = psutil.Process().memory_info().rss, time.process_time()
    exact = search_neighbors(index, queries, NUM_NEIGHBORS, rows, own)
    case = {
        "num_texts": num_texts,
        "num_queries": num_queries,
        "size": size,
        "vectors_mib": round(num_texts * size * 4 / 2**20),
        "exact_seconds": round(time.process_time() - started, 2),
        "exact_mib": round((_peak_bytes() - before) / 2**20),
    }
    if approximate:
        import faiss

        faiss.omp_set_num_threads(1)
        started = time.process_time()
        lists = faiss_lists(index)
        built = time.process_time()
        found = approximate_neighbors(index, queries, NUM_NEIGHBORS, rows, own, lists)
        same = (exact.rows[:, :, None] == found.rows[:, None]).any(dim=2).float().mean()
        case |= {
            "faiss_build_seconds": round(built - started, 2),
            "faiss_seconds": round(time.process_time() - built, 2),
            "faiss_mib": round(len(faiss.serialize_index(lists)) / 2**20),
            "faiss_recall": round(float(same), 4),
        }
    return case


def markdown(results: dict[str, Any]) -> str:
    """The table, and the plan for AmazonCat-13K."""
    machine, cases = results["machine"], results["cases"]
    lines = [
        "# Nearest training texts",
        "",
        f"The {NUM_NEIGHBORS} nearest of each query among random vectors of {cases[0]['size']} numbers, in seconds of processor time on one thread of a "
        f"shared machine ({machine['processor']}); torch {results['torch']}. Memory is what the exact search takes beside the vectors.",
        "",
        "| texts | queries | vectors, MiB | exact, s | memory, MiB | faiss: lists, s | faiss: search, s | faiss: size, MiB | faiss: exact neighbours |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in cases:
        faiss = (case.get(f"faiss_{name}") for name in ("build_seconds", "seconds", "mib", "recall"))
        build, seconds, mib, recall = ("–" if value is None else value for value in faiss)
        share = recall if recall == "–" else f"{100 * recall:.1f} %"
        lines.append(
            f"| {case['num_texts']:,} | {case['num_queries']:,} | {case['vectors_mib']} | {case['exact_seconds']} | {case['exact_mib']} "
            f"| {build} | {seconds} | {mib} | {share} |"
        )
    last = cases[-1]
    hours = last["exact_seconds"] / last["num_queries"] / last["num_texts"] * AMAZONCAT**2 / 3600
    gib = AMAZONCAT * last["size"] * 4 / 2**30
    lines += [
        "",
        f"By scaling, all pairs of the {AMAZONCAT:,} training texts of AmazonCat-13K would take {hours:,.0f} hours of one thread exactly, and "
        f"{gib:.1f} GiB for the vectors. With so many texts the search on a CPU is that of faiss; on a GPU it stays exact.",
    ]
    return "\n".join(lines) + "\n"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
