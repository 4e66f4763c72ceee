"""P@k, R@k, nDCG@k and RP@k against hand-made numbers, a plain loop, and stored outputs of the authors' code.

``golden/metrics.npz`` holds 60 documents × 40 labels scored by pyxclib, the AttentionXML and the CorNet evaluation code.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from hf_xmtc.metrics import ndcg_at_k, precision_at_k, r_precision_at_k, recall_at_k

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "metrics.npz"))
METRICS = {"precision": precision_at_k, "ndcg": ndcg_at_k, "recall": recall_at_k, "r_precision": r_precision_at_k}
TARGETS = [np.flatnonzero(row).tolist() for row in GOLDEN["targets"]]


def short_rankings():
    """Predictions of the ``short.*`` arrays: only the labels with a non-zero score, best first."""
    return [sorted(np.flatnonzero(row), key=lambda label: -row[label]) for row in GOLDEN["short_predictions"]]


def plain_loop(metric, top_labels, positives, k, empty):
    values = []
    for ranking, truth in zip(top_labels, map(set, positives), strict=True):
        if not truth:
            if empty == "zero":
                values.append(0.0)
            continue
        hits = [int(label in truth) for label in ranking[:k]]
        if metric == "precision":
            values.append(sum(hits) / k)
        elif metric == "recall":
            values.append(sum(hits) / len(truth))
        elif metric == "r_precision":
            values.append(sum(hits) / min(k, len(truth)))
        else:
            gain = sum(hit / math.log2(rank + 2) for rank, hit in enumerate(hits))
            values.append(gain / sum(1 / math.log2(rank + 2) for rank in range(min(k, len(truth)))))
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("code", "metric"),
    [
        ("pyxclib", "precision"),
        ("pyxclib", "ndcg"),
        ("pyxclib", "recall"),
        ("attentionxml", "precision"),
        ("attentionxml", "ndcg"),
        ("cornet", "precision"),
        ("cornet", "ndcg"),
        ("script", "precision"),
        ("script", "ndcg"),
    ],
)
def test_equals_the_authors_code_where_empty_documents_count_as_zero(code, metric):
    ours = [METRICS[metric](GOLDEN["ranking"], TARGETS, k, empty="zero") for k in range(1, 6)]
    np.testing.assert_allclose(ours, GOLDEN[f"{code}.{metric}"], atol=1e-6)


@pytest.mark.parametrize(
    ("metric", "key"),
    [
        ("precision", "precision_nonempty_rows_only"),
        ("ndcg", "ndcg_nonempty_rows_only"),
        ("recall", "recall_nonempty_rows_only"),
        ("recall", "recall_at_k_fast_nonempty_rows_only"),
    ],
)
def test_equals_pyxclib_without_empty_documents_by_default(metric, key):
    ours = [METRICS[metric](GOLDEN["ranking"], TARGETS, k) for k in range(1, 6)]
    np.testing.assert_allclose(ours, GOLDEN[f"pyxclib.{key}"], atol=1e-6)


@pytest.mark.parametrize("metric", ["precision", "ndcg", "recall"])
def test_equals_pyxclib_with_fewer_than_k_predictions(metric):
    ours = [METRICS[metric](short_rankings(), TARGETS, k, empty="zero") for k in range(1, 6)]
    np.testing.assert_allclose(ours, GOLDEN[f"short.pyxclib.{metric}"], atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("empty", ["skip", "zero"])
def test_equals_a_plain_loop_on_top_k_of_random_scores(metric, empty):  # AC-24
    generator = np.random.default_rng(7)
    scores = generator.random((300, 50))
    top_labels = np.argsort(-scores, axis=1)[:, :5]
    positives = [generator.choice(60, size=size, replace=False).tolist() for size in generator.integers(0, 9, 300)]
    for k in (1, 3, 5, 8):
        ours = METRICS[metric](top_labels, positives, k, empty=empty)
        assert ours == pytest.approx(plain_loop(metric, top_labels, positives, k, empty), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_every_form_of_positives_gives_the_same_value(metric):
    padded = np.full((60, 40), -100)
    for row, labels in enumerate(TARGETS):
        padded[row, : len(labels)] = labels
    for positives in (padded, sparse.csr_matrix(GOLDEN["targets"]), [labels + labels for labels in TARGETS]):
        assert METRICS[metric](GOLDEN["ranking"], positives, 5) == METRICS[metric](GOLDEN["ranking"], TARGETS, 5)


def test_fewer_positives_than_k():  # AC-22
    ranking = [[7, 1, 2, 3, 4]]
    assert precision_at_k(ranking, [[7]], 5) == pytest.approx(0.2)
    assert ndcg_at_k(ranking, [[7]], 5) == pytest.approx(1.0)
    assert recall_at_k(ranking, [[7]], 5) == pytest.approx(1.0)
    assert r_precision_at_k(ranking, [[7]], 5) == pytest.approx(1.0)
    assert precision_at_k([[9, 1, 2]], [[1, 4]], 3) == pytest.approx(1 / 3)
    assert ndcg_at_k([[9, 1, 2]], [[1, 4]], 3) == pytest.approx(0.38685, abs=5e-6)


def test_k_larger_than_the_number_of_labels_still_divides_by_k():  # AC-22
    top_labels = np.array([[2, 0, 1]])
    assert precision_at_k(top_labels, [[0, 1, 2]], 5) == pytest.approx(3 / 5)
    assert ndcg_at_k(top_labels, [[0, 1, 2]], 5) == pytest.approx(1.0)
    assert recall_at_k(top_labels, [[0, 1, 2]], 5) == pytest.approx(1.0)


@pytest.mark.filterwarnings("error")
def test_empty_documents_are_left_out_or_count_as_zero():  # AC-23
    top_labels, positives = np.array([[1, 3], [0, 2]]), [[1, 3], []]
    for metric in METRICS.values():
        assert metric(top_labels, positives, 1) in (1.0, 0.5)  # R@1 finds one of two
        assert metric(top_labels, positives, 1, empty="zero") == metric(top_labels, positives, 1) / 2
    assert precision_at_k(top_labels, positives, 1) == ndcg_at_k(top_labels, positives, 1) == 1.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", METRICS)
def test_all_documents_empty_is_an_error_or_zero_never_nan(metric):  # AC-23
    top_labels = np.array([[1, 3], [0, 2]])
    with pytest.raises(ValueError, match="none of the 2 documents has a positive label"):
        METRICS[metric](top_labels, [[], []], 1)
    assert METRICS[metric](top_labels, [[], []], 1, empty="zero") == 0.0
    with pytest.raises(ValueError, match="No document is left"):
        METRICS[metric](np.zeros((0, 5), dtype=int), [], 1, empty="zero")


def test_labels_unknown_to_the_model_count_as_missed():  # AC-15
    assert precision_at_k([[0, 1, 2]], [[0, 3]], 1) == 1.0
    assert recall_at_k([[0, 1, 2]], [[0, 3]], 3) == 0.5


def test_padded_predictions_are_misses():
    assert precision_at_k(np.array([[4, -1, -100]]), [[4]], 3) == pytest.approx(1 / 3)
    assert recall_at_k(np.zeros((1, 0), dtype=int), [[4]], 3) == 0.0


def test_a_label_predicted_twice_counts_once_at_its_better_place():
    assert precision_at_k([[4, 4, 9]], [[4, 9]], 3) == pytest.approx(2 / 3)
    assert recall_at_k([[4, 4]], [[4]], 2) == 1.0
    assert ndcg_at_k([[8, 4, 4]], [[4]], 3) == pytest.approx(1 / math.log2(3))
    assert ndcg_at_k([[4, 4], [4, 1]], [[4], [4]], 2) == 1.0  # the same label in another row is no repeat


def test_values_are_plain_floats():
    for metric in METRICS.values():
        assert type(metric(GOLDEN["ranking"], TARGETS, np.int64(3))) is float


def test_different_numbers_of_documents_are_refused_with_both_numbers():
    with pytest.raises(ValueError, match="top_labels has 2 documents but positives has 1"):
        precision_at_k([[1], [2]], [[1]], 1)


@pytest.mark.parametrize("k", [0, -1, 2.0, True])
def test_an_impossible_cut_off_is_refused(k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        precision_at_k([[1]], [[1]], k)


def test_an_unknown_word_for_empty_is_refused():
    with pytest.raises(ValueError, match="'skip', 'zero'.*got 'drop'"):
        precision_at_k([[1]], [[1]], 1, empty="drop")


def test_scores_in_place_of_ids_are_refused():
    with pytest.raises(TypeError, match="top_labels must hold integer label ids but holds float32"):
        precision_at_k(GOLDEN["probabilities"], TARGETS, 1)
