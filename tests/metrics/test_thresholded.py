"""Metrics of label sets against scikit-learn's stored outputs (``golden/metrics.npz``) and scikit-learn itself."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import precision_recall_fscore_support

from hf_xmtc.metrics import (
    hamming_loss,
    label_dependency,
    macro_f1_by_frequency,
    num_distinct_sets,
    per_label_scores,
    precision_recall_f1,
    set_report,
    subset_accuracy,
)

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "metrics.npz"))
TARGETS = [np.flatnonzero(row).tolist() for row in GOLDEN["targets"]]
PREDICTED = [np.flatnonzero(row > 0.5).tolist() for row in GOLDEN["probabilities"]]


@pytest.mark.parametrize("average", ["micro", "macro", "samples", "weighted"])
def test_precision_recall_f1_equal_the_stored_values(average):
    ours = precision_recall_f1(PREDICTED, TARGETS, 40, average=average)
    np.testing.assert_allclose(ours, GOLDEN[f"threshold0.5.{average}.precision_recall_f1"], atol=1e-6)


def test_macro_without_undefined_labels_equals_the_stored_values():
    stored = [GOLDEN[f"threshold0.5.macro_{name}_zero_division_nan"] for name in ("precision", "recall", "f1")]
    ours = precision_recall_f1(PREDICTED, TARGETS, 40, average="macro", undefined="skip")
    np.testing.assert_allclose(ours, stored, atol=1e-6)


def test_scores_of_each_label_equal_the_stored_values():
    scores = per_label_scores(PREDICTED, TARGETS, 40)
    for name in ("precision", "recall", "f1", "support"):
        np.testing.assert_allclose(getattr(scores, name), GOLDEN[f"threshold0.5.per_label.{name}"], atol=1e-6)
    assert scores.predicted[35] == 0  # the label that is never predicted


def test_the_report_holds_all_of_them():
    report = set_report(PREDICTED, TARGETS, 40)
    for average in ("micro", "macro", "samples"):
        ours = [report[f"{average}_{name}"] for name in ("precision", "recall", "f1")]
        np.testing.assert_allclose(ours, GOLDEN[f"threshold0.5.{average}.precision_recall_f1"], atol=1e-6)
    assert report["hamming_loss"] == hamming_loss(PREDICTED, TARGETS, 40)
    assert report["hamming_loss"] == pytest.approx(GOLDEN["threshold0.5.hamming_loss"], abs=1e-6)
    assert report["subset_accuracy"] == subset_accuracy(PREDICTED, TARGETS, 40)
    assert report["subset_accuracy"] == pytest.approx(GOLDEN["threshold0.5.subset_accuracy"], abs=1e-6)
    dependency = label_dependency(PREDICTED, TARGETS, 40)
    assert report["label_dependency_kl"] == dependency.kl
    assert report["num_clipped_pairs"] == dependency.num_clipped_pairs > 0
    assert report["num_distinct_sets"] == num_distinct_sets(PREDICTED) == len(set(map(tuple, PREDICTED)))
    assert report["num_documents"] == 60


def test_the_report_has_macro_f1_by_frequency_where_label_counts_are_given():
    counts = GOLDEN["train_targets"].sum(axis=0)
    report = set_report(PREDICTED, TARGETS, 40, label_counts=counts)
    groups = [report.pop(f"macro_f1_group{number}") for number in (1, 2, 3, 4)]
    assert groups == macro_f1_by_frequency(PREDICTED, TARGETS, counts).tolist()
    assert np.mean(groups) == pytest.approx(report["macro_f1"])  # 4 × 10 labels
    assert report == set_report(PREDICTED, TARGETS, 40)
    few = set_report([[0], [1]], [[0], [1]], 2, label_counts=[5, 3])
    assert [key for key in few if "group" in key] == ["macro_f1_group1", "macro_f1_group2"]


@pytest.mark.parametrize("counts", [[5, 3], [5, 3, 2, 1, 0], 7])
def test_label_counts_of_another_number_of_labels_are_refused(counts):
    with pytest.raises(ValueError, match=r"label_counts has the shape .* but num_labels=4"):
        set_report([[0]], [[0]], 4, label_counts=counts)


@pytest.mark.parametrize("average", ["micro", "macro", "samples", "weighted"])
def test_equals_scikit_learn_on_random_sets(average):
    generator = np.random.default_rng(5)
    truth, guess = generator.random((80, 12)) < 0.15, generator.random((80, 12)) < 0.15
    guess[::4] = truth[::4]
    expected = precision_recall_fscore_support(truth, guess, average=average, zero_division=0)[:3]
    forms = (sparse.csr_matrix(guess), sparse.csr_matrix(truth))
    np.testing.assert_allclose(precision_recall_f1(*forms, 12, average=average), expected)
    assert hamming_loss(*forms, 12) == pytest.approx((truth != guess).mean())
    exactly_right = (truth == guess).all(axis=1).mean()
    assert 0 < exactly_right < 1
    assert subset_accuracy(*forms, 12) == pytest.approx(exactly_right)


def test_by_hand():
    report = set_report([[0, 1], [2]], [[0], [2]], num_labels=4)
    assert report["micro_f1"] == pytest.approx(2 * 2 / (3 + 2))
    assert report["macro_f1"] == pytest.approx((1 + 0 + 1 + 0) / 4)
    assert report["samples_precision"] == pytest.approx((1 / 2 + 1) / 2)
    assert report["hamming_loss"] == pytest.approx(1 / 8)
    assert report["subset_accuracy"] == 0.5
    assert report["num_undefined_labels"] == 1


@pytest.mark.filterwarnings("error")
def test_macro_f1_of_a_label_in_neither_is_finite_and_follows_its_rule():  # AC-23
    assert set_report([[0]], [[0]], num_labels=2)["macro_f1"] == 0.5  # label 1 counts as 0
    assert set_report([[0]], [[0]], num_labels=2, undefined="skip")["macro_f1"] == 1.0  # label 1 is left out
    assert set_report([[0]], [[0]], num_labels=2)["num_undefined_labels"] == 1


@pytest.mark.filterwarnings("error")
def test_nothing_predicted_and_nothing_true_gives_zeros_or_an_error():  # AC-23
    report = set_report([[], []], [[], []], num_labels=3)
    assert report["micro_f1"] == report["macro_f1"] == report["samples_f1"] == report["hamming_loss"] == 0.0
    assert report["subset_accuracy"] == 1.0  # the empty set is exactly right
    with pytest.raises(ValueError, match="undefined for all 3 labels"):
        set_report([[], []], [[], []], num_labels=3, undefined="skip")


def test_positives_unknown_to_the_model_count_as_missed_or_are_ignored():
    predicted, positives = [[0], [1]], [[0, 5], [1]]
    report = set_report(predicted, positives, num_labels=2)
    assert report["micro_recall"] == pytest.approx(2 / 3)
    assert report["samples_recall"] == pytest.approx(3 / 4)
    assert report["subset_accuracy"] == 0.5
    assert report["macro_recall"] == 1.0  # about the model's labels only
    assert report["hamming_loss"] == 0.0
    ignoring = set_report(predicted, positives, num_labels=2, ignore_unseen=True)
    assert ignoring["micro_recall"] == ignoring["samples_recall"] == ignoring["subset_accuracy"] == 1.0


def test_values_are_plain_numbers():
    for key, value in set_report(PREDICTED, TARGETS, 40, label_counts=range(40)).items():
        assert type(value) is (int if key.startswith("num_") else float), key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1], [2]], [[1]], 3), "predicted has 2 documents but positives has 1"),
        (([], [], 3), "0 documents"),
        (([[3]], [[1]], 3), "label id 3 but num_labels=3"),
        (([[]], [[]], 0), "num_labels must be at least 1, got 0"),
        (([[1]], [[1]], 3, "drop"), "'zero', 'skip'.*got 'drop'"),
    ],
)
def test_impossible_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        set_report(*arguments)


def test_an_unknown_average_is_refused():
    with pytest.raises(ValueError, match="got 'mean'"):
        precision_recall_f1([[1]], [[1]], 3, average="mean")
