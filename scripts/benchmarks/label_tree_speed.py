"""Measure what building a label tree costs: ``python scripts/benchmarks/label_tree_speed.py``.

Texts and labels are drawn: a text has a topic, and half of its words and most of its labels come from the topic's own; words and labels
have long tails. Each measurement runs in a process of its own. ``<output>.json`` holds them, ``<output>.md`` the table; sizes that are not
measured again stay as they are.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy.sparse import csr_array

from hf_xmtc.commands.json_files import write_json
from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.label_tree import LabelTree, TreeShape, label_features
from machine import in_new_process, machine_description

__all__ = ["main", "measure", "random_texts"]

LABELS_PER_TEXT, WORDS_PER_TEXT = 5, 60
MAX_LEAF = 100


def main(arguments: list[str] | None = None) -> None:
    """Measure all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "benchmark_label_tree"
    )
    parser.add_argument("--num_labels", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--num_words", type=int, default=500_000)
    parser.add_argument("--num_workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args(arguments)
    path = options.output.with_suffix(".json")
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": []}
    results |= {
        "machine": machine_description(),
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "num_words": options.num_words,
        "max_leaf": MAX_LEAF,
    }
    for num_labels in options.num_labels:
        for num_workers in options.num_workers:
            case = in_new_process(measure, num_labels, options.num_words, num_workers)
            others = [
                old for old in results["cases"] if (old["num_labels"], old["num_workers"]) != (num_labels, num_workers)
            ]
            results["cases"] = sorted([*others, case], key=lambda case: (case["num_labels"], case["num_workers"]))
            write_json(path, results)
            options.output.with_suffix(".md").write_text(markdown(results), encoding="utf-8")
    print(markdown(results))


def measure(num_labels: int, num_words: int, num_workers: int) -> dict[str, Any]:
    """Seconds, CPU seconds and memory of one tree, in this process, which should be a new one."""
    texts, labels = random_texts(num_labels, num_words)
    before = peak_memory_mb()
    seconds, cpu_seconds = [time.perf_counter()], [time.process_time()]

    def stop_clocks() -> None:
        seconds.append(time.perf_counter())
        cpu_seconds.append(time.process_time())

    features = label_features(texts, labels, num_labels)
    stop_clocks()
    shape = TreeShape.of_algorithm_1(num_labels, MAX_LEAF, branching_depth=1, height=1)
    tree = LabelTree.build(features, shape, num_workers=num_workers)
    stop_clocks()
    return {
        "num_labels": num_labels,
        "num_workers": num_workers,
        "num_texts": texts.shape[0],
        "numbers_per_label": features.nnz / num_labels,
        "without_text": int((np.diff(features.indptr) == 0).sum()),
        "features_mib": round((features.data.nbytes + features.indices.nbytes + features.indptr.nbytes) / 2**20),
        "num_clusters": tree.num_nodes[0],
        "features_seconds": seconds[1] - seconds[0],
        "features_cpu_seconds": cpu_seconds[1] - cpu_seconds[0],
        "tree_seconds": seconds[2] - seconds[1],
        "tree_cpu_seconds": cpu_seconds[2] - cpu_seconds[1],
        "texts_peak_mib": before,
        "peak_mib": peak_memory_mb(),
        "digest": tree.digest(),
    }


def random_texts(num_labels: int, num_words: int, seed: int = 0) -> tuple[csr_array, csr_array]:
    """TF-IDF vectors and labels of 0.75 L texts, as Amazon-670K has, in L / 200 topics.

    Returns:
        TF-IDF, (N, V) float32; labels, (N, L).
    """
    random = np.random.default_rng(seed)
    num_texts, num_topics = num_labels * 3 // 4, max(1, num_labels // 200)
    topics = random.integers(num_topics, size=(num_texts, 1))

    def draw(size: int, per_text: int, share_of_topic: float) -> csr_array:
        # The cube of a uniform number: a few are drawn very often, most seldom.
        everywhere = size * random.random((num_texts, per_text)) ** 3
        own = size * (topics + random.random((num_texts, per_text)) ** 3) / num_topics
        of_topic = random.random((num_texts, per_text)) < share_of_topic
        columns = np.where(of_topic, own, everywhere).astype(np.int32)
        starts = np.arange(0, columns.size + 1, per_text, dtype=np.int32)
        values = random.exponential(size=columns.size).astype(np.float32)
        matrix = csr_array((values, columns.ravel(), starts), shape=(num_texts, size))
        matrix.sum_duplicates()
        return matrix

    return draw(num_words, WORDS_PER_TEXT, 0.5), draw(num_labels, LABELS_PER_TEXT, 0.8)


def markdown(results: dict[str, Any]) -> str:
    """The measurements as a table."""
    machine, versions = results["machine"], results["versions"]
    lines = [
        "# Building a label tree",
        "",
        f"Label features from TF-IDF vectors of {results['num_words']:,} words, and clusters of at most {results['max_leaf']} labels, on a shared "
        f"machine of {machine['cores']} cores ({machine['processor']}, {machine['memory_gib']:.0f} GiB), so CPU seconds count more than seconds, "
        "and seconds of two lines do not compare: other work ran beside, more or less of it. "
        f"numpy {versions['numpy']}, scipy {versions['scipy']}. Texts are drawn, with long tails of words and labels. *Peak* is that of the "
        "process, the TF-IDF matrix included; *texts* what it had held before. Trees of one size are the same for any number of threads.",
        "",
        "| labels | texts | numbers per label | without text | clusters | threads | features, s (CPU) | tree, s (CPU) | features, MiB | texts, MiB "
        "| peak, MiB |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in results["cases"]:
        lines.append(
            f"| {case['num_labels']:,} | {case['num_texts']:,} | {case['numbers_per_label']:.0f} | {case['without_text']:,} "
            f"| {case['num_clusters']:,} | {case['num_workers']} | {case['features_seconds']:.1f} ({case['features_cpu_seconds']:.1f}) "
            f"| {case['tree_seconds']:.1f} ({case['tree_cpu_seconds']:.1f}) | {case['features_mib']:,} | {case['texts_peak_mib']:,} "
            f"| {case['peak_mib']:,} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
