"""Tuned thresholds against every possible threshold, with F1 from scikit-learn and from the package's own set metrics."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from hf_xmtc.metrics import best_threshold, best_thresholds_per_label, per_label_scores, precision_recall_f1


def sets_above(thresholds, top_scores, top_labels):
    """The labels above a threshold, one number or one for each label."""
    thresholds = np.asarray(thresholds)
    limits = thresholds[np.maximum(top_labels, 0)] if thresholds.ndim else thresholds
    return np.where((top_scores > limits) & (top_labels >= 0), top_labels, -1)


def every_threshold(scores):
    """One number within each gap between the scores, and below them, highest first."""
    distinct = np.unique(scores)
    return [*((distinct[1:] + distinct[:-1]) / 2)[::-1], distinct[0] - 1]


def predictions(seed, num_documents=40, num_labels=9, k=6, digits=None, dtype=np.float64):
    """Top-k predictions with some padding, and positives of which some are not among the k and some unseen."""
    generator = np.random.default_rng(seed)
    truth = generator.random((num_documents, num_labels)) < 0.25
    truth[:, -1] = False  # without a positive
    scores = (1 / (1 + np.exp(-generator.normal(2 * truth - 1, 1.5)))).astype(dtype)
    scores = scores if digits is None else scores.round(digits)
    top_labels = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    top_scores = np.take_along_axis(scores, top_labels, axis=1)
    top_labels[::7, -2:] = -1
    positives = [np.flatnonzero(row).tolist() for row in truth]
    positives[0] += [num_labels + 3]
    return top_scores, top_labels, positives, num_labels


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [None, 1])  # 1: many equal scores
def test_no_threshold_has_a_higher_micro_f1(seed, digits):
    top_scores, top_labels, positives, num_labels = predictions(seed, digits=digits)

    def micro_f1(threshold):
        return precision_recall_f1(sets_above(threshold, top_scores, top_labels), positives, num_labels)[2]

    candidates = every_threshold(top_scores[top_labels >= 0])
    best = best_threshold(top_scores, top_labels, positives, num_labels)
    assert micro_f1(best) == max(map(micro_f1, candidates)) > 0
    first_best = max(candidates, key=micro_f1)  # the highest of equally good ones
    assert best == pytest.approx(first_best)
    assert not np.isin(best, top_scores)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [None, 1])
def test_no_thresholds_have_a_higher_f1_for_any_label(seed, digits):
    top_scores, top_labels, positives, num_labels = predictions(seed, digits=digits)
    best = best_thresholds_per_label(top_scores, top_labels, positives, num_labels, fallback=0.37)
    assert best.shape == (num_labels,) and best.dtype == np.float64
    reached = per_label_scores(sets_above(best, top_scores, top_labels), positives, num_labels).f1
    for label in range(num_labels):
        mine = top_labels == label
        truth = [label in row for row in positives]

        def f1(threshold, mine=mine, truth=truth):
            return f1_score(truth, (mine & (top_scores > threshold)).any(axis=1), zero_division=0)

        candidates = every_threshold(top_scores[mine]) if mine.any() else [1.0]
        highest = max(map(f1, candidates))
        assert reached[label] == pytest.approx(highest)
        if highest > 0:
            first_best = max(candidates, key=f1)
            limit = top_scores[mine].min()
            assert best[label] == pytest.approx(first_best if first_best > 0 else limit / 2)
        else:
            assert best[label] == 0.37
    assert best[-1] == 0.37  # without a positive


def test_by_hand():
    scores, labels = np.array([[0.9, 0.6], [0.8, 0.2]]), np.array([[0, 1], [1, 0]])
    assert best_threshold(scores, labels, [[0], [1]], 2) == pytest.approx(0.7)
    assert best_threshold(scores, labels, [[0, 1], [1, 0]], 2) == pytest.approx(0.1)  # everything is right: below all
    np.testing.assert_allclose(best_thresholds_per_label(scores, labels, [[0], [1]], 2), [0.55, 0.7])


def test_positives_not_among_the_predictions_count_as_missed():
    scores, labels = np.array([[0.9, 0.4]]), np.array([[0, 1]])
    # Above 0.65 F1 is 2 · 1 / (1 + 1), with three more positives 2 · 1 / (1 + 4); below 0.4 it is 2 / 3 and 2 / 6.
    assert best_threshold(scores, labels, [[0]], 9) == best_threshold(scores, labels, [[0, 6, 7, 8]], 9) == 0.65
    # At three documents they decide: one hit of one is 2 / 5, two hits of four 4 / 8; without the missed ones 2 / 3, 4 / 6.
    scores, labels = np.array([[0.9], [0.5], [0.4], [0.3]]), np.array([[0], [1], [2], [3]])
    assert best_threshold(scores, labels, [[0], [], [], [3]], 9) == pytest.approx(0.7)
    assert best_threshold(scores, labels, [[0, 7], [12], [], [3]], 9) == pytest.approx(0.15)


def test_equal_scores_fall_on_the_same_side():
    scores, labels = np.array([[0.5], [0.5], [0.25]]), np.array([[0], [0], [0]])
    for positives in ([[0], [], []], [[], [0], []]):
        assert best_threshold(scores, labels, positives, 1) == 0.375
        assert best_thresholds_per_label(scores, labels, positives, 1).tolist() == [0.375]


@pytest.mark.parametrize("lower", [0.3, 0.7, 0.9999999, 1e-30])
def test_neighbouring_float32_scores_are_separated_in_float32(lower):
    lower = np.float32(lower)
    upper = np.nextafter(lower, np.float32(1))
    scores, labels = np.array([[upper], [lower]]), np.array([[0], [0]])
    threshold = best_threshold(scores, labels, [[0], []], 1)
    assert threshold == np.float32(threshold)
    assert (scores > np.float32(threshold)).tolist() == [[True], [False]]
    assert (scores.astype(np.float64) > threshold).tolist() == [[True], [False]]


@pytest.mark.parametrize("lowest", [1.0, 1e-3, 0.0, -4.0])
def test_a_threshold_below_all_scores_exists_for_any_scores(lowest):
    scores, labels = np.array([[lowest]], dtype=np.float32), np.array([[0]])
    threshold = best_threshold(scores, labels, [[0]], 1)
    assert threshold < lowest
    assert (threshold > 0) == (lowest > 0)


def test_a_label_given_twice_counts_once_with_its_higher_score():
    scores, labels = np.array([[0.9, 0.8, 0.4], [0.6, 0.3, 0.2]]), np.array([[0, 0, 1], [0, 1, 0]])
    once = np.array([[0, -1, 1], [0, 1, -1]])
    for positives in ([[0], [0]], [[0, 1], [0]], [[1], []]):
        assert best_threshold(scores, labels, positives, 2) == best_threshold(scores, once, positives, 2)
    reordered = scores[:, ::-1], labels[:, ::-1]
    assert best_threshold(*reordered, [[0, 1], [0]], 2) == best_threshold(scores, labels, [[0, 1], [0]], 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("top_labels", "positives"),
    [
        (np.array([[0, 1]]), [[]]),  # no positives
        (np.array([[0, 1]]), [[2, 8]]),  # no hits
        (np.array([[-1, -100]]), [[0]]),  # no predictions
        (np.zeros((1, 0), dtype=np.int64), [[0]]),
    ],
)
def test_without_a_hit_the_fallback_is_returned(top_labels, positives):  # AC-23
    scores = np.full(top_labels.shape, 0.9)
    assert best_threshold(scores, top_labels, positives, 3) == 0.5
    assert best_threshold(scores, top_labels, positives, 3, fallback=0.2) == 0.2
    assert best_thresholds_per_label(scores, top_labels, positives, 3, fallback=0.2).tolist() == [0.2] * 3


def test_scores_of_padding_are_not_looked_at():
    scores, labels = np.array([[0.9, np.nan], [0.3, -np.inf]]), np.array([[0, -1], [1, -100]])
    assert best_threshold(scores, labels, [[0], []], 2) == pytest.approx(0.6)


@pytest.mark.parametrize("tune", [best_threshold, best_thresholds_per_label])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((0, 2)), np.zeros((0, 2), dtype=int), [], 3), "top_labels and positives have 0 documents"),
        (([[0.5]], [[1]], [[1], [2]], 3), "top_labels has 1 documents but positives has 2"),
        (([[0.5]], [[3]], [[1]], 3), "top_labels holds the label id 3 but num_labels=3"),
        (([[0.5, 0.4]], [[1]], [[1]], 3), r"top_scores has the shape \(1, 2\) but top_labels \(1, 1\)"),
        (([[float("nan")]], [[1]], [[1]], 3), "top_scores holds nan for a predicted label"),
        (([[0.5]], [[0]], [[]], 0), "num_labels must be at least 1, got 0"),
    ],
)
def test_impossible_input_is_refused(tune, arguments, message):
    with pytest.raises(ValueError, match=message):
        tune(*arguments)
