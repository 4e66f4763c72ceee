"""Frequency groups and their macro F1 against scikit-learn and a plain sort."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from hf_xmtc.metrics import label_frequency_groups, macro_f1_by_frequency, set_report


def test_quartiles_of_the_rank_by_hand():
    assert label_frequency_groups([5, 90, 40, 1, 8, 70, 2, 30]).tolist() == [3, 1, 2, 4, 3, 1, 4, 2]


def test_equal_counts_are_ranked_by_the_lower_id():
    assert label_frequency_groups([0, 3, 0, 3], num_groups=4).tolist() == [3, 1, 4, 2]
    assert label_frequency_groups(np.zeros(6, dtype=np.uint8), num_groups=3).tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("num_labels", [4, 5, 7, 54, 103])
@pytest.mark.parametrize("num_groups", [1, 3, 4])
def test_equals_a_plain_sort_with_sizes_that_differ_by_at_most_one(num_labels, num_groups):
    counts = np.random.default_rng(num_labels).integers(0, 20, num_labels)
    groups = label_frequency_groups(counts, num_groups)
    ranking = sorted(range(num_labels), key=lambda label: (-counts[label], label))
    assert groups[ranking].tolist() == sorted(groups.tolist())  # the more frequent, the earlier the group
    sizes = np.bincount(groups)[1:]
    assert len(sizes) == num_groups and sizes.max() - sizes.min() <= 1


def test_macro_f1_equals_scikit_learn_on_the_labels_of_each_group():
    generator = np.random.default_rng(3)
    truth, guess = generator.random((50, 11)) < 0.2, generator.random((50, 11)) < 0.2
    guess[::3] = truth[::3]
    guess[:, 4] = False  # never predicted
    counts = generator.integers(0, 100, 11)
    sets = [[np.flatnonzero(row).tolist() for row in cells] for cells in (guess, truth)]
    groups = label_frequency_groups(counts, 3)
    expected = [
        f1_score(truth[:, groups == number], guess[:, groups == number], average="macro", zero_division=0)
        for number in (1, 2, 3)
    ]
    ours = macro_f1_by_frequency(*sets, counts, num_groups=3)
    assert ours.shape == (3,)
    np.testing.assert_allclose(ours, expected)
    assert np.bincount(groups)[1:] @ ours / 11 == pytest.approx(set_report(*sets, 11)["macro_f1"])


@pytest.mark.filterwarnings("error")
def test_a_label_in_neither_counts_as_zero_or_is_left_out():  # AC-23
    predicted, positives, counts = [[0], [2]], [[0], [2]], [9, 7, 5, 3]
    assert macro_f1_by_frequency(predicted, positives, counts, num_groups=2).tolist() == [0.5, 0.5]
    assert macro_f1_by_frequency(predicted, positives, counts, num_groups=2, undefined="skip").tolist() == [1.0, 1.0]
    assert macro_f1_by_frequency([[], []], [[], []], counts).tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="macro_f1_group2 ratio is undefined for all 2 labels"):
        macro_f1_by_frequency([[0], []], [[0], []], counts, num_groups=2, undefined="skip")


def test_positives_unknown_to_the_model_belong_to_no_group():
    assert macro_f1_by_frequency([[0]], [[0, 7]], [3], num_groups=1).tolist() == [1.0]


@pytest.mark.parametrize(
    ("counts", "num_groups", "message"),
    [
        ([1, 2], 4, "got 4 for 2 labels.*fewer groups"),
        ([1, 2], 0, "got 0 for 2 labels"),
        ([], 1, "got 1 for 0 labels"),
        ([1, -2], 2, "at least 0, but one is -2"),
        ([1, float("nan")], 2, "at least 0, but one is nan"),
        ([[1, 2]], 1, r"has \(1, 2\)"),
    ],
)
def test_impossible_counts_are_refused(counts, num_groups, message):
    with pytest.raises(ValueError, match=message):
        label_frequency_groups(counts, num_groups)


@pytest.mark.parametrize(
    ("predicted", "positives", "message"),
    [
        ([], [], "0 documents"),
        ([[1]], [[1], [2]], "predicted has 1 documents but positives has 2"),
        ([[4]], [[1]], "label id 4 but num_labels=4"),
    ],
)
def test_impossible_sets_are_refused(predicted, positives, message):
    with pytest.raises(ValueError, match=message):
        macro_f1_by_frequency(predicted, positives, [4, 3, 2, 1])
