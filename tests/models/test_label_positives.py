import pytest
import torch

from hf_xmtc.models.label_positives import BatchPositives, positive_ids
from models.dense_scoring import LABELS, NUM_LABELS, multi_hot


def rows_of(ids: torch.Tensor) -> list[list[int]]:
    return [[label_id for label_id in row if label_id >= 0] for row in ids.tolist()]


def test_ids_and_multi_hot_labels_become_the_same_ids():
    expected = [[0, 10], [3, 4, 5], [], [7]]
    assert rows_of(positive_ids(LABELS, NUM_LABELS)) == expected
    for hot in (multi_hot(LABELS), multi_hot(LABELS).bool(), multi_hot(LABELS).bfloat16(), multi_hot(LABELS).double()):
        assert rows_of(positive_ids(hot, NUM_LABELS)) == expected


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_any_integer_type_holds_ids(dtype):
    assert positive_ids(torch.tensor([[2, -100]], dtype=dtype), 3).tolist() == [[-100, 2]]


def test_labels_given_are_left_as_they_are():
    labels = LABELS.clone()
    positive_ids(labels, NUM_LABELS)
    assert torch.equal(labels, LABELS)


@pytest.mark.parametrize("labels", [torch.full((2, 1), -100), torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3)])
def test_documents_without_positives_have_a_row_of_padding(labels):
    ids = positive_ids(labels, 3)
    assert len(ids) == 2 and rows_of(ids) == [[], []]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([[0, 3]]), r"Label id 3 is outside 0 … 2 \(num_labels=3\)"),
        (torch.tensor([[-1]]), "Label id -1 is outside 0 … 2"),
        (torch.tensor([0, 1]), r"labels must have two dimensions.*got \(2,\)"),
        (torch.ones(1, 2), "have 2 columns but the model has num_labels=3"),
        (torch.tensor([[0.0, 1.0, 0.5]]), "hold the value 0.5"),
        (torch.tensor([[0.0, 1.0, float("nan")]]), "hold the value nan"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        positive_ids(labels, 3)


# ---- by blocks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_size", [1, 2, 4, 10, 11])
def test_every_positive_is_in_the_block_of_its_label(block_size):
    starts = [*range(0, NUM_LABELS, block_size), NUM_LABELS]
    positives = BatchPositives(positive_ids(LABELS, NUM_LABELS), starts)
    found = torch.zeros(len(LABELS), NUM_LABELS)
    for start, stop in zip(starts, starts[1:], strict=False):
        rows, documents, weights = positives.within(start)
        assert weights is None
        assert all(0 <= row < stop - start for row in rows.tolist())
        found[documents, rows + start] += 1
    assert torch.equal(found, multi_hot(LABELS))


def test_a_positive_carries_the_weight_of_its_label():
    weights = torch.tensor([1.0, 2.0, 4.0, 8.0])
    positives = BatchPositives(torch.tensor([[0, 3], [-100, 2]]), [0, 3, 4], weights)
    first, second = positives.within(0), positives.within(3)
    assert (first.rows.tolist(), first.documents.tolist(), first.weights.tolist()) == ([0, 2], [0, 1], [1.0, 4.0])
    assert (second.rows.tolist(), second.documents.tolist(), second.weights.tolist()) == ([0], [0], [8.0])


def test_a_batch_without_positives_has_none_in_any_block():
    positives = BatchPositives(torch.full((2, 1), -100), [0, 2, 4])
    assert [len(positives.within(start).rows) for start in (0, 2)] == [0, 0]
