"""PSP@k and PSnDCG@k against stored outputs of the authors' code (``golden/metrics.npz``) and a plain loop."""

import math
from pathlib import Path

import numpy as np
import pytest

from hf_xmtc.metrics import PROPENSITY_CONSTANTS, inverse_propensity, psndcg_at_k, psp_at_k

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "metrics.npz"))
TARGETS = [np.flatnonzero(row).tolist() for row in GOLDEN["targets"]]
CONSTANTS = [(0.55, 1.5), (0.6, 2.6), (0.5, 0.4)]
TRAIN_COUNTS = GOLDEN["train_targets"].sum(axis=0)


def train_weights(a=0.55, b=1.5):
    return inverse_propensity(TRAIN_COUNTS, len(GOLDEN["train_targets"]), a, b)


def plain_loop(top_labels, positives, k, weights, discounted=False, normalised=False):
    numerator = denominator = 0.0
    for ranking, truth in zip(top_labels, map(set, positives), strict=True):
        discount = [1 / math.log2(rank + 2) if discounted else 1.0 for rank in range(k)]
        best = sorted((weights[label] for label in truth), reverse=True)[:k]
        norm = sum(discount[: len(best)]) if normalised and best else 1.0
        pairs = zip(ranking[:k], discount, strict=False)
        numerator += sum(d * weights[label] for label, d in pairs if label in truth) / norm
        denominator += sum(d * w for w, d in zip(best, discount, strict=False)) / norm
    return numerator / denominator


@pytest.mark.parametrize(("a", "b"), CONSTANTS)
def test_inverse_propensity_equals_pyxclib(a, b):
    assert TRAIN_COUNTS.min() == 0  # one label has no training document and still has a weight
    np.testing.assert_allclose(train_weights(a, b), GOLDEN[f"A{a}_B{b}.inverse_propensity"], atol=1e-6)


def test_the_named_constants_are_the_benchmarks():
    assert PROPENSITY_CONSTANTS == {"default": (0.55, 1.5), "amazon": (0.6, 2.6), "wikipedia": (0.5, 0.4)}


@pytest.mark.parametrize(("a", "b"), CONSTANTS)
@pytest.mark.parametrize("key", ["pyxclib.psp", "pyxclib.psp_nonempty_rows_only", "attentionxml.psp", "cornet.psp"])
def test_psp_equals_the_authors_code(a, b, key):
    ours = [psp_at_k(GOLDEN["ranking"], TARGETS, k, train_weights(a, b)) for k in range(1, 6)]
    np.testing.assert_allclose(ours, GOLDEN[f"A{a}_B{b}.{key}"], atol=1e-6)


@pytest.mark.parametrize(("a", "b"), CONSTANTS)
@pytest.mark.parametrize(
    ("variant", "key"),
    [
        ("pyxclib", "pyxclib.psndcg"),
        ("pyxclib", "pyxclib.psndcg_nonempty_rows_only"),
        ("corpus", "attentionxml.psndcg"),
        ("corpus", "cornet.psndcg"),
    ],
)
def test_psndcg_equals_the_authors_code(a, b, variant, key):
    ours = [psndcg_at_k(GOLDEN["ranking"], TARGETS, k, train_weights(a, b), variant) for k in range(1, 6)]
    np.testing.assert_allclose(ours, GOLDEN[f"A{a}_B{b}.{key}"], atol=1e-6)


def test_equals_the_evaluation_script_of_attentionxml():
    weights, prefix = train_weights(), "script.A0.55_B1.5"
    for k in range(1, 6):
        assert psp_at_k(GOLDEN["ranking"], TARGETS, k, weights) == pytest.approx(GOLDEN[f"{prefix}.psp"][k - 1], abs=1e-6)
        ours = psndcg_at_k(GOLDEN["ranking"], TARGETS, k, weights, variant="corpus")
        assert ours == pytest.approx(GOLDEN[f"{prefix}.psndcg"][k - 1], abs=1e-6)


def test_equals_pyxclib_with_fewer_than_k_predictions():
    rankings = [sorted(np.flatnonzero(row), key=lambda label: -row[label]) for row in GOLDEN["short_predictions"]]
    prefix = "short.A0.55_B1.5.pyxclib"
    for k in range(1, 6):
        assert psp_at_k(rankings, TARGETS, k, train_weights()) == pytest.approx(GOLDEN[f"{prefix}.psp"][k - 1], abs=1e-6)
        ours = psndcg_at_k(rankings, TARGETS, k, train_weights())
        assert ours == pytest.approx(GOLDEN[f"{prefix}.psndcg"][k - 1], abs=1e-6)


def test_equals_a_plain_loop_on_top_k_of_random_scores():  # AC-24
    generator = np.random.default_rng(3)
    top_labels = np.argsort(generator.random((300, 50)), axis=1)[:, :5]
    positives = [generator.choice(60, size=size, replace=False).tolist() for size in generator.integers(0, 9, 300)]
    weights = inverse_propensity(generator.integers(0, 200, 60), 1000)
    for k in (1, 3, 5, 8):
        assert psp_at_k(top_labels, positives, k, weights) == pytest.approx(plain_loop(top_labels, positives, k, weights))
        for variant in ("pyxclib", "corpus"):
            expected = plain_loop(top_labels, positives, k, weights, discounted=True, normalised=variant == "pyxclib")
            assert psndcg_at_k(top_labels, positives, k, weights, variant) == pytest.approx(expected)


def test_psp_by_hand():
    weights = [1.0, 2.0, 4.0]
    # Document 1 reaches 1 of 1, document 2 finds label 0 (weight 1) where label 2 (weight 4) was possible.
    assert psp_at_k([[0, 1], [0, 2]], [[0], [0, 2]], 1, weights) == pytest.approx((1 + 1) / (1 + 4))
    assert psp_at_k([[0, 1], [0, 2]], [[0], [0, 2]], 2, weights) == 1.0


def test_a_label_predicted_twice_is_paid_once():
    assert psp_at_k([[2, 2]], [[2]], 2, [1.0, 1.0, 3.0]) == 1.0


def test_a_label_without_training_documents_weighs_most():
    weights = inverse_propensity([0, 1, 50, 100], 100)
    assert np.all(np.diff(weights) < 0)
    assert np.all(weights >= 1)


@pytest.mark.parametrize("num_documents", [1, 2])
def test_weights_of_a_tiny_training_set_stay_inverse_probabilities(num_documents):
    # AC-66
    with pytest.warns(UserWarning, match=f"num_documents={num_documents} the propensity formula .* PSP is then precision"):
        assert inverse_propensity([0, 1], num_documents).tolist() == [1.0, 1.0]


def test_positives_unseen_in_training_need_a_weight_and_the_error_says_how():
    counts = [5, 3]
    with pytest.raises(
        ValueError, match=r"label id 3 but inverse_propensity has 2 entries.*np\.pad\(label_counts, \(0, 2\)\)"
    ):
        psp_at_k([[0, 1]], [[0, 3]], 1, inverse_propensity(counts, 10))
    longer = inverse_propensity(np.pad(counts, (0, 2)), 10)
    assert psp_at_k([[0, 1]], [[0, 3]], 2, longer) == pytest.approx(longer[0] / (longer[0] + longer[3]))


def test_predicted_ids_without_a_weight_are_plain_misses():
    assert psp_at_k([[9, 0]], [[0]], 2, [2.0]) == 1.0


@pytest.mark.filterwarnings("error")
def test_no_positives_at_all_is_an_error():  # AC-23
    for metric in (psp_at_k, psndcg_at_k):
        with pytest.raises(ValueError, match="None of the 2 documents has a positive label"):
            metric([[0], [1]], [[], []], 1, [1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3, -1], 10), "between -1 and 3"),
        (([3, 11], 10), "num_documents=10"),
        (([3], 0), "num_documents must be at least 1, got 0"),
        (([[3]], 10), r"has \(1, 1\)"),
        (([3], 10, 0.55, 0.0), "b=0.0"),
    ],
)
def test_impossible_counts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        inverse_propensity(*arguments)


@pytest.mark.parametrize("weights", [[1.0, 0.0], [1.0, float("nan")], [[1.0, 2.0]]])
def test_weights_that_are_no_weights_are_refused(weights):
    with pytest.raises(ValueError, match="positive finite numbers"):
        psp_at_k([[0]], [[0]], 1, weights)


def test_an_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="'pyxclib', 'corpus'.*got 'mean'"):
        psndcg_at_k([[0]], [[0]], 1, [1.0], variant="mean")


def test_values_are_plain_floats():
    assert type(psp_at_k([[0]], [[0]], 1, [1.0])) is float
    assert type(psndcg_at_k([[0]], [[0]], 1, [1.0])) is float
