"""Time and memory of the search for each training text's nearest others, at a size that takes seconds, and what 1.2 million texts would take.

    python scripts/benchmarks/neighbor_search.py --num_texts 50000 --num_queries 2000

The time grows with queries × texts, the memory of the exact search with the texts alone.
"""

import argparse
import resource
import time

import torch

from hf_xmtc.models.text_index import DocumentVectors, VectorIndex
from hf_xmtc.retrieval.neighbor_search import approximate_neighbors, search_neighbors

AMAZONCAT = 1_186_239  # training texts of AmazonCat-13K
NUM_NEIGHBORS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_texts", type=int, default=50_000)
    parser.add_argument("--num_queries", type=int, default=2_000, help="The first texts, each without itself.")
    parser.add_argument("--size", type=int, default=300, help="Numbers of a vector.")
    parser.add_argument(
        "--approximate", action="store_true", help="With faiss too, and the share of the exact neighbours it finds."
    )
    options = parser.parse_args()

    random = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(options.num_texts, options.size, generator=random), dim=1)
    index, rows = VectorIndex(options.size, 0), torch.arange(options.num_texts)
    index.store(DocumentVectors(vectors))
    queries, own = DocumentVectors(vectors[: options.num_queries]), rows[: options.num_queries]
    before = _peak_mib()
    started = time.perf_counter()
    exact = search_neighbors(index, queries, NUM_NEIGHBORS, rows, own)
    seconds = time.perf_counter() - started
    pairs = options.num_queries * options.num_texts
    print(
        f"Exact: {seconds:.1f} s for {options.num_queries:,} of {options.num_texts:,} texts × {options.size}, {torch.get_num_threads()} thread(s);"
    )
    print(
        f"       {_peak_mib() - before:,.0f} MiB beside the vectors, {pairs / seconds / 1e6:,.0f} million pairs per second."
    )
    hours, gib = seconds * AMAZONCAT**2 / pairs / 3600, AMAZONCAT * options.size * 4 / 2**30
    print(f"       All of {AMAZONCAT:,} texts: about {hours:,.1f} hours, {gib:.1f} GiB of vectors.")
    if options.approximate:
        started = time.perf_counter()
        found = approximate_neighbors(index, queries, NUM_NEIGHBORS, rows, own)
        share = (exact.rows[:, :, None] == found.rows[:, None]).any(dim=2).float().mean()
        print(f"faiss: {time.perf_counter() - started:.1f} s with its index; {100 * share:.1f} % of the exact neighbours.")


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
