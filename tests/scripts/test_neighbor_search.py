"""The benchmark of the search for neighbours: what it measures, and what it says of more texts."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neighbor_search import AMAZONCAT, markdown, measure, plan, vectors_of

CASE = {
    "vectors": "random",
    "num_texts": AMAZONCAT // 4,
    "num_queries": 1_000,
    "size": 256,
    "vectors_mib": 290,
    "exact_seconds": 3.0,
    "exact_mib": 100,
    "faiss_build_seconds": 900.0,
    "faiss_seconds": 0.3,
    "faiss_mib": 300,
    "faiss_recall": 0.9,
}


def test_vectors_of_texts_have_length_one_and_find_each_other(tmp_path):
    pytest.importorskip("sklearn")
    texts = [f"word{row % 10} word{row % 10} other{row % 7}" for row in range(200)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "train.parquet")
    vectors = vectors_of(tmp_path / "train.parquet", 8)
    assert vectors.shape == (200, 8) and vectors.norm(dim=1).allclose(vectors.new_ones(200), atol=1e-5)
    case = measure(tmp_path / "train.parquet", 5, 8, approximate=False)
    assert case["num_texts"] == 200 and case["vectors"] == f"TF-IDF of {tmp_path.name}" and "faiss_recall" not in case


def test_figures_of_many_texts_follow_from_those_of_fewer():
    # Exact: 4 times the texts and AMAZONCAT queries at 12 ms; lists take 4 ** 1.5 and their search 4 ** 0.5 times as long.
    sentences = plan(CASE)
    assert (
        f"{0.012 * AMAZONCAT / 3600:.1f} hours of one thread exactly, and 1.1 GiB for the vectors beside 100 MiB"
        in sentences
    )
    assert f"2.0 hours for its lists, {0.0006 * AMAZONCAT / 3600:.1f} for the search, and 2.3 GiB" in sentences
    table = markdown({"machine": {"processor": "some"}, "torch": "2", "cases": [CASE]})
    assert "| random | 296,559 | 1000 | 290 | 3.0 | 100 | 900.0 | 0.3 | 10.0 × | 300 | 90.0 % |" in table
