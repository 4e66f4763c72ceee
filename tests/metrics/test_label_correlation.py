"""Label dependency and distinct sets against plain loops over documents and pairs."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from hf_xmtc.metrics import label_correlation, label_dependency, label_dependency_kl, num_distinct_sets


def plain_loop(predicted, positives, num_labels, clip=1e-6):
    def conditional(sets, a, b):
        with_a = [labels for labels in sets if a in labels]
        return sum(b in labels for labels in with_a) / len(with_a) if with_a else 0.0

    kl, num_pairs, num_clipped = 0.0, 0, 0
    for a in range(num_labels):
        for b in range(num_labels):
            p_true = conditional(positives, a, b)
            if a != b and p_true > 0:
                p_predicted = conditional(predicted, a, b)
                num_pairs, num_clipped = num_pairs + 1, num_clipped + (p_predicted < clip)
                kl += p_true * math.log(p_true / max(p_predicted, clip))
    return kl, num_pairs, num_clipped


def random_sets(seed, num_documents=60, num_labels=15, share=0.15):
    cells = np.random.default_rng(seed).random((num_documents, num_labels)) < share
    return [np.flatnonzero(row).tolist() for row in cells]


def test_an_example_by_hand():
    positives, predicted = [[0, 1], [0, 1], [0], [1]], [[0, 1], [0], [0], [1]]
    assert label_dependency_kl(predicted, positives, num_labels=2) == pytest.approx(0.653886, abs=1e-6)
    dependency = label_dependency(predicted, positives, num_labels=2)
    assert dependency.kl == pytest.approx(2 / 3 * math.log(2) + 2 / 3 * math.log(4 / 3))
    assert (dependency.num_pairs, dependency.num_clipped_pairs) == (2, 0)


@pytest.mark.parametrize("pairs_per_block", [1, 7, 2**21])
@pytest.mark.parametrize("predicted_share", [0.05, 0.15, 0.9])
def test_equals_a_plain_loop_in_blocks_of_any_size(monkeypatch, pairs_per_block, predicted_share):
    monkeypatch.setattr(label_correlation, "_PAIRS_PER_BLOCK", pairs_per_block)
    predicted, positives = random_sets(1, share=predicted_share), random_sets(2)
    predicted[::5] = positives[::5]
    ours = label_dependency(predicted, positives, 15)
    kl, num_pairs, num_clipped = plain_loop(predicted, positives, 15)
    assert ours.kl == pytest.approx(kl)
    assert (ours.num_pairs, ours.num_clipped_pairs) == (num_pairs, num_clipped)
    assert (num_clipped > 0) == (predicted_share < 0.9)


def test_all_forms_of_label_sets_give_the_same():
    predicted, positives = random_sets(3), random_sets(4)
    multi_hot = [[label in row for label in range(15)] for row in predicted]
    matrix = sparse.csr_array(np.array(multi_hot))
    shuffled = [[*reversed(row), *row] for row in positives]  # any order, repeats count once
    assert label_dependency(matrix, shuffled, 15) == label_dependency(predicted, positives, 15)


def test_true_dependencies_have_no_distance_from_themselves():
    positives = random_sets(5)
    dependency = label_dependency(positives, positives, 15)
    assert dependency.kl == 0.0
    assert dependency.num_pairs > 0 and dependency.num_clipped_pairs == 0


@pytest.mark.filterwarnings("error")
def test_a_pair_that_is_never_predicted_is_clipped_and_counted():
    positives = [[0, 1], [0, 2]]
    never_together = label_dependency([[0, 1], [2]], positives, 3)  # (0, 2) and (2, 0)
    assert never_together.num_clipped_pairs == 2
    by_hand = 0.5 * math.log(0.5 / 1) + math.log(1 / 1) + 0.5 * math.log(0.5 / 1e-6) + math.log(1 / 1e-6)
    assert never_together.kl == pytest.approx(by_hand)
    never_predicted = label_dependency([[0, 1], [0]], positives, 3)  # label 2
    assert never_predicted.num_clipped_pairs == 2
    assert label_dependency_kl([[], []], positives, 3, clip=0.25) == pytest.approx(2 * 0.5 * math.log(2) + 2 * math.log(4))


@pytest.mark.filterwarnings("error")
def test_without_pairs_the_sum_is_empty():  # AC-23
    for predicted, positives, num_labels in (
        ([[0, 1]], [[0]], 2),
        ([[], []], [[], []], 3),
        ([[0], []], [[0], [0]], 1),
    ):
        dependency = label_dependency(predicted, positives, num_labels)
        assert (dependency.kl, dependency.num_pairs, dependency.num_clipped_pairs) == (0.0, 0, 0)


def test_positives_unknown_to_the_model_are_left_out():
    predicted = [[0, 1], [0]]
    expected = label_dependency(predicted, [[0, 1], [0]], 2)
    assert label_dependency(predicted, [[0, 1, 5], [0, 10**9]], 2) == expected
    assert expected.num_pairs == 2


def test_values_are_plain_numbers():
    dependency = label_dependency(random_sets(6), random_sets(7), 15)
    assert [type(value) for value in (dependency.kl, dependency.num_pairs, dependency.num_clipped_pairs)] == [
        float,
        int,
        int,
    ]
    assert type(num_distinct_sets(random_sets(6))) is int


def test_memory_follows_the_pairs_that_occur_and_not_the_labels_or_the_predicted_pairs():
    generator = np.random.default_rng(8)
    positives = generator.integers(0, 500_000, (2_000, 5))  # labels × labels would take 2 TB
    predicted = np.tile(np.arange(0, 500_000, 250), (1_000, 1))  # 2,000 labels each: 2 billion pairs
    predicted = np.concatenate([predicted, np.full_like(predicted, -1)])
    tracemalloc.start()
    dependency = label_dependency(predicted, positives, 500_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dependency.num_pairs == pytest.approx(2_000 * 5 * 4, rel=0.01)
    assert peak < 300e6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1], [2]], [[1]], 3), "predicted has 2 documents but positives has 1"),
        (([], [], 3), "0 documents"),
        (([[3]], [[1]], 3), "label id 3 but num_labels=3"),
        (([[]], [[]], 0), "num_labels must be at least 1, got 0"),
        (([[1]], [[1]], 3, 0.0), "clip must be a probability above 0.*got 0.0"),
    ],
)
def test_impossible_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        label_dependency_kl(*arguments)


def test_distinct_sets_by_hand():
    assert num_distinct_sets([[0, 1], [1, 0], [1], [], [], [0, 2], [1, 1]]) == 4  # {0, 1}, {1}, {} and {0, 2}
    assert num_distinct_sets([[], [-1]]) == 1  # the empty set
    assert num_distinct_sets([]) == 0


@pytest.mark.parametrize("share", [0.02, 0.15, 0.5])
def test_distinct_sets_equal_a_plain_count(share):
    sets = random_sets(9, num_documents=300, num_labels=8, share=share)
    assert num_distinct_sets(sets) == len(set(map(tuple, sets)))
