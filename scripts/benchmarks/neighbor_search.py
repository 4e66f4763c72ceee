"""Processor time, memory and size of the search for training texts' nearest others, and what 1.2 million texts would take.

    python scripts/benchmarks/neighbor_search.py --num_texts 60000 120000 --texts llms4subjects-en/train.parquet --approximate

Exact search takes time in proportion to queries × texts. Random vectors are the hardest case for faiss; those of texts are their TF-IDF in as
many dimensions, by a singular value decomposition (needs scikit-learn).
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from hf_xmtc.commands.processes import peak_memory_mb
from hf_xmtc.models.text_index import DocumentVectors, VectorIndex
from hf_xmtc.retrieval.neighbor_search import approximate_neighbors, faiss_lists, search_neighbors
from machine import in_new_process, machine_description, write_results

AMAZONCAT = 1_186_239  # training texts of AmazonCat-13K
NUM_NEIGHBORS = 10
MOST_TEXTS = 60_000  # of a file
STEM = Path(__file__).resolve().parents[1] / "results" / "benchmark_neighbor_search"


def main(arguments: list[str] | None = None) -> None:
    """Measure every size and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_texts", type=int, nargs="+", default=[60_000, 120_000])
    parser.add_argument("--texts", type=Path, nargs="*", default=[], help="Parquet files with a column text, too.")
    parser.add_argument("--num_queries", type=int, default=1_000, help="Some of the texts, each without itself.")
    parser.add_argument("--size", type=int, default=300, help="Numbers of a vector.")
    parser.add_argument("--approximate", action="store_true", help="With faiss too.")
    parser.add_argument("--output", type=Path, default=STEM)
    options = parser.parse_args(arguments)
    cases = [
        in_new_process(measure, source, options.num_queries, options.size, options.approximate)
        for source in (*options.texts, *options.num_texts)
    ]
    results = {"machine": machine_description(), "torch": torch.__version__, "cases": cases}
    table = markdown(results)
    write_results(options.output, results, table)
    print(table)


def vectors_of(source: Path | int, size: int) -> torch.Tensor:
    """Vectors of length 1 in random order, (N, size): of the texts of a file, or as many random ones."""
    if isinstance(source, int):
        vectors = torch.randn(source, size, generator=torch.Generator().manual_seed(0))
    else:
        from sklearn.decomposition import TruncatedSVD  # not at the top: random vectors do without
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = pq.read_table(source, columns=["text"])["text"].to_pylist()
        sample = np.random.default_rng(0).permutation(len(texts))[:MOST_TEXTS]
        words = TfidfVectorizer(min_df=5, max_df=0.2, sublinear_tf=True, dtype=np.float32)
        features = words.fit_transform([texts[row] for row in sample])
        vectors = torch.from_numpy(TruncatedSVD(size, n_iter=2, random_state=0).fit_transform(features))
    return torch.nn.functional.normalize(vectors, dim=1)


def measure(source: Path | int, num_queries: int, size: int, approximate: bool) -> dict[str, Any]:
    """Seconds of one processor, MiB, and the share of the exact neighbours that faiss finds."""
    torch.set_num_threads(1)
    vectors = vectors_of(source, size)
    num_texts = len(vectors)
    index, rows = VectorIndex(size, 0), torch.arange(num_texts)
    index.store(DocumentVectors(vectors))
    queries, own = DocumentVectors(vectors[:num_queries]), rows[:num_queries]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the vectors
    before, started = peak_memory_mb(), time.process_time()
    exact = search_neighbors(index, queries, NUM_NEIGHBORS, rows, own)
    case = {
        "vectors": "random" if isinstance(source, int) else f"TF-IDF of {source.resolve().parent.name}",
        "num_texts": num_texts,
        "num_queries": num_queries,
        "size": size,
        "vectors_mib": round(num_texts * size * 4 / 2**20),
        "exact_seconds": round(time.process_time() - started, 3),
        "exact_mib": peak_memory_mb() - before,
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
            "faiss_build_seconds": round(built - started, 3),
            "faiss_seconds": round(time.process_time() - built, 3),
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
        f"The {NUM_NEIGHBORS} nearest of each query among vectors of {cases[0]['size']} numbers, in seconds of processor time on one thread of a "
        f"shared machine ({machine['processor']}); torch {results['torch']}. Memory is what the exact search takes beside the vectors. Recall is the "
        f"share of the {NUM_NEIGHBORS} exact neighbours that faiss finds.",
        "",
        "| vectors | texts | queries | vectors, MiB | exact, s | memory, MiB | faiss: lists, s | faiss: search, s | faster | faiss: size, MiB | recall |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in cases:
        faiss = ["–"] * 5
        if "faiss_seconds" in case:
            build, seconds, mib = (case[f"faiss_{name}"] for name in ("build_seconds", "seconds", "mib"))
            recall = f"{100 * case['faiss_recall']:.1f} %"
            faiss = [build, seconds, f"{case['exact_seconds'] / seconds:.1f} ×", mib, recall]
        cells = [case[name] for name in ("num_queries", "vectors_mib", "exact_seconds", "exact_mib")]
        lines.append(f"| {' | '.join(map(str, [case['vectors'], format(case['num_texts'], ','), *cells, *faiss]))} |")
    return "\n".join([*lines, "", plan(cases[-1])]) + "\n"


def plan(case: dict[str, Any]) -> str:
    """Time and memory for AmazonCat-13K, by scaling from the largest case."""
    ratio = AMAZONCAT / case["num_texts"]
    per_query = 1 / case["num_queries"] * AMAZONCAT / 3600
    gib = AMAZONCAT * case["size"] * 4 / 2**30
    sentences = [
        f"By scaling from the last row, all pairs of the {AMAZONCAT:,} training texts of AmazonCat-13K would take "
        f"{case['exact_seconds'] * ratio * per_query:.1f} hours of one thread exactly, and {gib:.1f} GiB for the vectors beside "
        f"{case['exact_mib']} MiB for a block of them against others, whatever their number."
    ]
    if "faiss_seconds" in case:
        # There are 4 · √N lists, which every text is compared with, and as many are searched whatever N is.
        build, search = case["faiss_build_seconds"] * ratio**1.5 / 3600, case["faiss_seconds"] * ratio**0.5 * per_query
        sentences.append(
            f"faiss would take {build:.1f} hours for its lists, {search:.1f} for the search, and {2 * gib:.1f} GiB, as it has a copy of the vectors."
        )
    sentences.append("With so many texts the search on a CPU is that of faiss; on a GPU it stays exact.")
    return " ".join(sentences)


if __name__ == "__main__":
    main()
