"""Rankings of several models in one, by hand, by the authors' code, and tuned on validation."""

import json
from pathlib import Path

import numpy as np
import pytest

from hf_xmtc import ensemble
from hf_xmtc.ensemble import Combination, combine_rankings, metric_function, overlap_at, right_labels_found, tune
from hf_xmtc.metrics import ndcg_at_k

GOLDEN = Path(__file__).parent / "golden"
A = (np.array([[2, 0], [1, -100]]), np.array([[0.5, 0.4], [0.9, 0.0]], dtype=np.float32))
B = (np.array([[0, 5], [3, 1]]), np.array([[0.5, 0.3], [0.6, 0.2]], dtype=np.float32))


@pytest.mark.parametrize(
    ("method", "labels", "scores"),
    [
        # Label 0: 1 - (1 - 0.4)(1 - 0.5) = 0.7. A label that a part has not has the score 0 there.
        ("consensus", [[0, 2, 5], [1, 3, -100]], [[0.7, 0.5, 0.3], [0.92, 0.6, 0.0]]),
        ("mean_score", [[0, 2, 5], [1, 3, -100]], [[0.45, 0.25, 0.15], [0.55, 0.3, 0.0]]),
        # Of two labels the first gets 1, the second 1/2, others 0.
        ("mean_rank", [[0, 2, 5], [1, 3, -100]], [[0.75, 0.5, 0.25], [0.75, 0.5, 0.0]]),
    ],
)
def test_methods_by_hand(method, labels, scores):
    found = combine_rankings([A, B], 3, method)
    assert found[0].tolist() == labels
    np.testing.assert_allclose(found[1], scores, atol=1e-6)


def test_weights_and_exponents_by_hand():
    labels, scores = combine_rankings([A, B], 2, "weighted", weights=[3, 1], exponents=[2, 1])
    assert labels.tolist() == [[0, 2], [1, 3]]  # 0.75 · 0.16 + 0.25 · 0.5 = 0.245, against 0.75 · 0.25
    np.testing.assert_allclose(scores, [[0.245, 0.1875], [0.6575, 0.15]], atol=1e-6)


def test_the_sum_of_the_trees_scores_is_that_of_the_authors():
    golden = np.load(GOLDEN / "tree_ensemble.npz")
    k = json.loads((GOLDEN / "tree_ensemble.json").read_text())["config"]["k"]
    trees = list(zip(golden["tree_labels"], golden["tree_scores"], strict=True))
    labels, scores = combine_rankings(trees, k, "mean_score")
    np.testing.assert_array_equal(labels, golden["ensemble_labels"])
    np.testing.assert_allclose(len(trees) * scores, golden["ensemble_scores"], rtol=1e-6)


def test_equal_scores_go_to_the_lower_id_and_scores_of_one_do_not_hide_the_other_part():
    first = (np.array([[7, 3, 1]]), np.array([[1.0, 1.0, 0.2]]))
    second = (np.array([[3, 7, 1]]), np.array([[0.5, 0.1, 0.0]]))
    assert combine_rankings([first, second], 3, "consensus")[0].tolist() == [[3, 7, 1]]
    assert combine_rankings([first, first], 3, "mean_score")[0].tolist() == [[3, 7, 1]]
    assert combine_rankings([first, first], 20, "mean_score")[0].tolist() == [[3, 7, 1]]


def random_parts(num_documents=300, num_labels=60, depth=25, noise=(0.6, 0.8, 1.5)):
    """Parts that know the truth with more or less noise."""
    rng = np.random.default_rng(0)
    truth = rng.random((num_documents, num_labels)) < 0.05
    positives = [np.flatnonzero(row).tolist() for row in truth]
    parts = []
    for level in noise:
        scores = 1 / (1 + np.exp(4 - 5 * truth - level * 3 * rng.normal(size=truth.shape)))
        order = np.argsort(-scores, axis=1)[:, :depth]
        parts.append((order, np.take_along_axis(scores, order, axis=1)))
    return parts, positives


@pytest.mark.parametrize("method", ["consensus", "mean_score", "mean_rank", "weighted"])
def test_methods_agree_with_a_plain_loop(method):
    parts, _ = random_parts(num_documents=20)
    labels, scores = combine_rankings(parts, 30, method)
    for row in range(20):
        by_label = {}
        for label in {label for part in parts for label in part[0][row].tolist()}:
            own = [dict(zip(ids[row].tolist(), values[row].tolist(), strict=True)).get(label, 0.0) for ids, values in parts]
            ranks = [ids[row].tolist().index(label) if label in ids[row] else 25 for ids, _ in parts]
            by_label[label] = {
                "consensus": 1 - np.prod([1 - p for p in own]),
                "mean_rank": sum(25 - rank for rank in ranks) / 75,
            }.get(method, sum(own) / 3)
        expected = sorted(by_label, key=lambda label: (-by_label[label], label))[:30]
        assert labels[row].tolist()[: len(expected)] == expected
        np.testing.assert_allclose(scores[row][: len(expected)], [by_label[label] for label in expected], atol=1e-6)


@pytest.mark.parametrize("metric", ["nDCG@5", "P@1", "PSP@3"])
def test_tuning_is_never_below_the_best_part_or_the_mean(metric):
    parts, positives = random_parts()
    weights = np.linspace(1, 5, 60)
    found = tune(parts, positives, metric, inverse_propensity=weights, num_trials=60)
    assert found == tune(parts, positives, metric, inverse_propensity=weights, num_trials=60)
    measure, k = metric_function(metric, weights)
    tuned = measure(found(parts, k)[0], positives)
    others = [measure(labels, positives) for labels, _ in parts] + [
        measure(Combination("mean_score")(parts, k)[0], positives)
    ]
    assert tuned >= max(others) and sum(found.weights) == pytest.approx(1)


def test_tuning_gains_over_its_starts_by_weights_and_exponents():
    (first, second), positives = random_parts(noise=(0.6, 0.8))
    parts = [(first[0], first[1] ** 0.1), second]  # scores near 1, which a large exponent tells apart
    tuned, mean = tune(parts, positives, num_trials=60), Combination("weighted", (0.5, 0.5), (1.0, 1.0))
    values = [ndcg_at_k(labels, positives, 5) for labels, _ in (tuned(parts, 5), mean(parts, 5), *parts)]
    assert values[0] > max(values[1:]) + 0.05
    # Two small changes of the exponent 1 lead to 0.5 … 2; others were drawn at random.
    few = [tune(parts, positives, num_trials=4, seed=seed) for seed in range(6)]
    assert any(max(found.exponents) > 2 or min(found.exponents) < 0.5 for found in few)


def test_the_choice_is_made_on_whole_rankings(monkeypatch):
    # The right label is second in both parts, so trials that look at the first labels alone see nothing of it.
    monkeypatch.setattr(ensemble, "TRIAL_DEPTH", 1)
    parts = [(np.array([[first, 9]]), np.array([[0.6, 0.5]])) for first in (1, 2)]
    assert tune(parts, [[9]], "P@1", num_trials=4).weights == (0.5, 0.5)


def test_tuning_leaves_out_a_part_that_only_harms():
    parts, positives = random_parts(noise=(0.2, 50.0))
    found = tune(parts, positives, num_trials=40)
    assert ndcg_at_k(found(parts, 5)[0], positives, 5) >= ndcg_at_k(parts[0][0], positives, 5)
    alone = tune(parts[:1], positives)
    assert alone == Combination("weighted", (1.0,), (1.0,))


def test_overlap_and_right_labels_by_hand():
    one, other = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[2, 1, 9], [7, 4, -100]])
    shares = overlap_at([one, other], ks=(1, 2, 3))
    assert shares == {(0, 1): [0.0, pytest.approx(0.75), pytest.approx(0.5)]}  # k=2: 2 of 2 and 1 of 2; k=3: 2 and 1 of 3
    found = right_labels_found([one, other], [[1, 3, 9], [4, 8]], k=3)
    assert found == {"only": [1, 1], "all": 2, "none": 1, "positives": 5}


def scored(score):
    """The rankings B with another first score."""
    scores = B[1].copy()
    scores[0, 0] = score
    return B[0], scores


def twice(label):
    """The rankings B with one label twice for the last document."""
    return np.array([[0, 5], [label, label]]), B[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: combine_rankings([A, (B[0][:1], B[1][:1])], 2, "consensus"), "of the same documents in the same order"),
        (lambda: combine_rankings([A, B], 2, "best"), "method='best' is none of weighted, consensus, mean_score, mean_rank"),
        (lambda: combine_rankings([A, B], 2, "consensus", weights=[1, 2]), "belong to method='weighted'"),
        (lambda: combine_rankings([A, B], 2, "weighted", weights=[1]), "1 weights and 2 exponents for 2 parts"),
        (lambda: combine_rankings([A, B], 2, "weighted", weights=[0, 0]), "one of them more"),
        (lambda: combine_rankings([A, B], 0, "consensus"), "k=0, but at least 1 label"),
        (lambda: combine_rankings([A, B], 2, "consensus", depth=0), "depth=0, but at least 1 label"),
        (lambda: combine_rankings([A, scored(-2.5)], 2, "consensus"), "Part 1 has the score -2.5, but .*Take their sigmoid"),
        (lambda: combine_rankings([A, scored(float("nan"))], 2, "mean_score"), "Part 1 has the score nan"),
        (lambda: tune([scored(1.5), B], [[0], [1]]), "Part 0 has the score 1.5"),
        (lambda: combine_rankings([A, twice(3)], 2, "consensus"), "Part 1 has the label id 3 twice for document 1"),
        (lambda: tune([A, B], [[0], [1]], "F1"), "The metric 'F1' is none of P@k"),
        (lambda: tune([A, B], [[0], [1]], "PSP@3"), "Tune by nDCG@3 instead"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("method", ["consensus", "mean_score", "mean_rank", "weighted"])
def test_a_document_has_the_same_scores_alone_and_among_others(method):
    # Two narrow beams, which have three labels for the first document, and two for the second.
    one = (np.array([[1, 2, 4], [3, 6, -100]]), np.array([[0.9, 0.5, 0.4], [0.4, 0.2, 0.0]]))
    other = (np.array([[2, 0, 1], [5, 3, -100]]), np.array([[0.7, 0.5, 0.3], [0.6, 0.1, 0.0]]))
    labels, scores = combine_rankings([one, other], 3, method, depth=6)
    alone = combine_rankings([(ids[1:, :2], values[1:, :2]) for ids, values in (one, other)], 3, method, depth=6)
    np.testing.assert_array_equal(alone[0], labels[1:])
    np.testing.assert_array_equal(alone[1], scores[1:])


def test_only_the_first_labels_of_each_part_count():
    longer = (np.array([[2, 0, 9], [1, 5, 9]]), np.array([[0.5, 0.4, 0.4], [0.9, 0.5, 0.3]]))
    for method in ("consensus", "mean_rank"):
        found = combine_rankings([longer, B], 9, method, depth=2)
        expected = combine_rankings([(longer[0][:, :2], longer[1][:, :2]), B], 9, method)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_parts_may_have_lists_of_other_lengths():
    longer = (np.array([[2, 0, 9], [1, 5, 9]]), np.array([[0.5, 0.4, 0.4], [0.9, 0.5, 0.3]]))
    labels, scores = combine_rankings([longer, B], 9, "mean_score")
    assert labels.tolist() == [[0, 2, 9, 5], [1, 3, 5, 9]]
    np.testing.assert_allclose(scores, [[0.45, 0.25, 0.2, 0.15], [0.55, 0.3, 0.25, 0.15]], atol=1e-6)
