"""Frequency groups and their macro F1 against scikit-learn and a plain sort."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from hf_xmtc.metrics import (
    auc_by_frequency,
    equal_mass_groups,
    head_torso_tail,
    label_frequency_groups,
    macro_f1_by_frequency,
    ranking_by_frequency,
    set_report,
)


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


def test_equal_mass_groups_by_hand():
    # 60 occurrences of labels with at least 5: 20 each, whole counts together; label 5 has too few.
    groups = equal_mass_groups([20, 10, 10, 5, 5, 4, 5, 5])
    assert groups.tolist() == [1, 2, 2, 3, 3, 0, 3, 3]
    assert equal_mass_groups([7, 7, 7]).tolist() in ([1, 1, 1], [3, 3, 3], [2, 2, 2])  # one count, one group
    assert equal_mass_groups([1, 0]).tolist() == [0, 0]
    assert equal_mass_groups([9, 1], num_groups=2, min_count=1).tolist() == [1, 2]
    with pytest.raises(ValueError, match="numbers of documents"):
        equal_mass_groups([-1])


def test_auc_by_frequency_has_the_columns_of_the_table():
    positives = [[0], [0], [0], [0, 1], [1], [1, 2], [2], []]
    top_labels = [[0, 1]] * 4 + [[1, 2]] * 2 + [[2, 0]] * 2
    top_scores = [[0.9, 0.2]] * 4 + [[0.9, 0.3]] * 2 + [[0.8, 0.1]] * 2
    rows = auc_by_frequency(top_labels, top_scores, positives, 3, num_groups=2, min_count=2)
    first, second = rows
    assert (first["least_count"], first["largest_count"], first["num_labels"], first["share"]) == (
        4,
        4,
        1,
        pytest.approx(4 / 9),
    )
    assert first["AUC"] == first["AUPR"] == 1.0
    assert (second["least_count"], second["largest_count"], second["num_labels"]) == (2, 3, 2)
    # Label 1: 0.9 at two right ones, 0.2 at one right and three wrong ones; others without a score. 15 pairs.
    # Label 2: 0.8 at one right and one wrong, 0.3 at one right and one wrong. 12 pairs: 5.5 + 4.5.
    assert second["AUC"] == pytest.approx(((5 + 5 + 3.5) / 15 + (5.5 + 4.5) / 12) / 2)


def test_head_torso_and_tail_by_hand():
    groups = head_torso_tail([101, 100, 6, 5, 0])
    assert groups.tolist() == [1, 2, 2, 3, 3]
    top_labels = [[0, 3, 1], [2, 4, 0]]
    found = ranking_by_frequency(top_labels, [[0, 1, 3], [3, 0]], groups, ks=(1, 2), inverse_propensity=[1, 2, 2, 4, 4])
    assert found["head"]["P@1"] == 1.0 and found["head"]["P@2"] == 0.5  # alone it is first in both
    assert found["torso"]["P@1"] == 1.0 and found["torso"]["num_left_out"] == 1
    assert (
        found["tail"]["P@1"] == 0.5 and found["tail"]["PSP@1"] == pytest.approx(4 / 8) and found["tail"]["num_labels"] == 2
    )
    with pytest.raises(ValueError, match="the tail ends before the head begins"):
        head_torso_tail([1], head_above=2, tail_up_to=3)


def test_groups_without_a_document_and_labels_that_training_never_saw_are_left_out():
    found = ranking_by_frequency([[0], [0]], [[0], [9]], np.array([1, 3]), ks=(1,))
    assert list(found) == ["head"] and found["head"]["P@1"] == 1.0 and found["head"]["num_left_out"] == 1
