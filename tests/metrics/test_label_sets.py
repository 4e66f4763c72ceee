import numpy as np
import pytest
from scipy import sparse

from hf_xmtc.metrics import label_sets
from hf_xmtc.metrics.label_sets import ranked_labels


def as_lists(sets):
    return [sets.label_ids[start:stop].tolist() for start, stop in zip(sets.indptr[:-1], sets.indptr[1:], strict=True)]


@pytest.mark.parametrize(
    "value",
    [
        [[3, 0, 3], [], [7]],
        [(0, 3), (), (7,)],
        [{0, 3}, set(), {7}],
        [np.array([3, 0]), np.array([], dtype=np.int32), np.array([7])],
        np.array([[3, 0], [-100, -100], [7, -100]]),
        np.array([[3, 0], [-1, -1], [-1, 7]], dtype=np.int32),
        np.array([[3, 0], [], [7]], dtype=object),
        sparse.csr_matrix(([1, 1, 1], ([0, 0, 2], [3, 0, 7])), shape=(3, 9)),
        sparse.csr_array(([2.0, 0.5, 1.0], [3, 0, 7], [0, 2, 2, 3]), shape=(3, 9)),
    ],
    ids=["lists", "tuples", "sets", "arrays", "padded-100", "padded-1", "object-array", "csr-matrix", "csr-unsorted"],
)
def test_every_accepted_form_gives_the_same_sets(value):
    sets = label_sets(value)
    assert as_lists(sets) == [[0, 3], [], [7]]
    assert sets.sizes.tolist() == [2, 0, 1]


def test_converted_sets_are_taken_as_they_are():
    sets = label_sets([[1], []])
    assert label_sets(sets) is sets


def test_stored_zeros_of_a_sparse_matrix_are_no_labels():
    matrix = sparse.csr_matrix((np.array([1, 0]), np.array([1, 2]), np.array([0, 2])), shape=(1, 4))
    assert as_lists(label_sets(matrix)) == [[1]]


def test_no_documents_and_no_labels():
    assert label_sets([]).num_documents == 0
    assert as_lists(label_sets([[], []])) == [[], []]


def test_below_drops_the_larger_ids_and_keeps_the_documents():
    assert as_lists(label_sets([[0, 5], [7], [2]]).below(5)) == [[0], [], [2]]


def test_positions_finds_members_and_nothing_else():
    sets = label_sets([[1, 4], [], [4]])
    found = sets.positions(np.array([0, 0, 0, 1, 2, 2, 2]), np.array([4, 2, -1, 4, 4, 99, -100]))
    assert found.tolist() == [1, -1, -1, -1, 2, -1, -1]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[0.9, 0.1]], TypeError, "positives must hold integer label ids but holds float64"),
        (np.array([[0.0, 1.0]]), TypeError, "holds float64.*CSR"),
        (np.array([[True, False]]), TypeError, "holds bool"),
        ([["a", "b"]], TypeError, "Scores, label names"),
        ([3, 7], TypeError, r"For a single document write \[\[3, 7\]\]"),
        ([[1], None], TypeError, "one list of label ids per document"),
        (np.array([3, 7]), ValueError, r"has \(2,\)"),
        ([[2, -5]], ValueError, "label id -5"),
        ([[2**62], [1]], ValueError, f"label id {2**62}, too large for 2 documents"),
        ([[0, 1, 0, 1], [1, 0, 0, 0]], ValueError, "4 numbers per document, all of them 0 or 1"),
        (sparse.csc_matrix(np.eye(3)), ValueError, "'csc'"),
    ],
)
def test_what_is_not_a_list_of_ids_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        label_sets(value)


def test_rankings_of_different_lengths_are_padded_in_order():
    assert ranked_labels([[5, 2], [], [9, 0, 1]]).tolist() == [[5, 2, -1], [-1, -1, -1], [9, 0, 1]]


def test_a_sparse_matrix_is_no_ranking():
    with pytest.raises(TypeError, match="no ranking"):
        ranked_labels(sparse.csr_matrix(np.eye(2)))
