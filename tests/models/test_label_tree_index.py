"""`LabelTreeIndex`: children, ancestors and positive nodes as a loop over the tree finds them; arrays that are no tree."""

import pytest
import torch

from hf_xmtc.models.label_candidates import is_among
from hf_xmtc.models.label_tree_index import LabelTreeIndex
from models.label_clusters import labels_together

# Root → A (labels 4, 1) and B (label 0), C (labels 2, 5, 3); A and B are below the first node of level 0, C below the second.
STARTS = [torch.tensor([0, 2, 3]), torch.tensor([0, 2, 3, 6])]
ORDER = torch.tensor([4, 1, 0, 2, 5, 3])


def build() -> LabelTreeIndex:
    tree = LabelTreeIndex([2, 3], 6)
    tree.set_tree(STARTS, ORDER)
    return tree


def test_children_come_in_the_order_of_their_parents_and_are_padded_to_the_longest():
    ids, parents = build().children_of(2, torch.tensor([[2, 0], [1, -100]]))
    assert ids.tolist() == [[2, 5, 3, 4, 1], [0, -100, -100, -100, -100]]
    assert parents[0].tolist() == [0, 0, 0, 1, 1] and parents[1, 0] == 0
    assert build().children_of(1, torch.tensor([[1, 0]]))[0].tolist() == [[2, 0, 1]]


def test_ancestors_and_parents_are_the_nodes_above():
    tree = build()
    labels = torch.tensor([[0, 1, 2], [3, 4, -100]])
    assert tree.ancestors(1, labels).tolist() == [[1, 0, 2], [2, 0, -100]]
    assert tree.ancestors(0, labels).tolist() == [[0, 0, 1], [1, 0, -100]]
    assert tree.parents(2).tolist() == [1, 0, 2, 2, 0, 2] and tree.parents(1).tolist() == [0, 0, 1]
    assert sorted(labels_together(tree, 3)) == [2, 3, 5]


def test_a_node_is_positive_once_if_a_label_below_it_is():  # W4
    positives = build().positives(0, torch.tensor([[0, 1, 4], [2, 4, -100], [-100, -100, -100]]))
    assert [sorted(set(row) - {-100}) for row in positives.tolist()] == [[0], [0, 1], []]
    assert (positives == 0).sum(dim=1).tolist() == [1, 1, 0]


def test_nearest_nodes_part_last_from_the_chosen_ones():
    tree = LabelTreeIndex([2, 8], 16)  # halves of halves of halves
    nodes = torch.tensor([[5, -100], [0, 6], [-100, -100]])
    assert tree.nearest(1, nodes, 4).tolist() == [[5, 4, 7, 6], [0, 6, 1, 7], [0, 1, 2, 3]]
    assert tree.nearest(1, nodes[:, :0], 2).tolist() == [[0, 1]] * 3


def test_a_new_index_splits_the_labels_evenly_even_where_clusters_are_more():
    assert LabelTreeIndex([3], 8).starts(1).tolist() == [0, 2, 5, 8]
    tree = LabelTreeIndex([4], 2)
    tree.check()
    assert tree.children_of(1, torch.tensor([[0, 1, 2, 3]]))[0].tolist() == [[0, 1]]
    assert tree.ancestors(0, torch.tensor([[0, 1]])).tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("starts", "order", "message"),
    [
        ([torch.tensor([0, 2, 3]), torch.tensor([0, 3, 2, 6])], ORDER, "starts_2 .* must rise from 0 to 6"),
        ([torch.tensor([0, 2, 4]), STARTS[1]], ORDER, "starts_1 .* runs from 0 to 4, but must rise from 0 to 3"),
        (STARTS, torch.tensor([4, 1, 0, 2, 5, 5]), "do not name each of the 6 labels once"),
        (STARTS, torch.tensor([4, 1, 0, 2, 5, 99]), "do not name each of the 6 labels once"),
        (STARTS, torch.arange(7), r"'label_order': \(7,\).* num_labels=6"),
        (STARTS[1:], ORDER, "shapes"),
    ],
)
def test_arrays_that_are_no_tree_of_these_labels_are_refused_and_leave_the_tree(starts, order, message):  # AC-31
    tree = build()
    with pytest.raises(ValueError, match=message):
        tree.set_tree(starts, order)
    assert torch.equal(tree.label_order, ORDER)
    tree.check()


def test_known_labels_stay_in_their_clusters_and_new_ones_join_the_smallest():
    tree = build()
    tree.resize_labels(torch.tensor([-1, 3, 4, 0, -1]))  # labels 1, 2 and 5 are gone
    tree.check()
    assert tree.ancestors(1, torch.tensor([[1, 2, 3]])).tolist() == [[2, 0, 1]]
    assert sorted(tree.parents(2).bincount().tolist()) == [1, 2, 2]


def test_padding_is_among_nothing():
    ids, others = torch.tensor([[3, -100, 1], [2, 2, 0]]), torch.tensor([[1, -100, 3], [-100, -100, 2]])
    assert is_among(ids, others).tolist() == [[True, False, True], [True, True, False]]
    assert not is_among(ids, others[:, :0]).any()


def test_many_documents_find_what_a_loop_finds():
    torch.manual_seed(0)
    tree = LabelTreeIndex([5, 13], 60)
    order = torch.randperm(60)
    cuts = [torch.randperm(59)[:12].sort().values + 1, torch.randperm(12)[:4].sort().values + 1]
    starts = [torch.cat([torch.tensor([0]), cut, torch.tensor([end])]) for cut, end in zip(cuts, (60, 13), strict=True)]
    tree.set_tree(starts[::-1], order)
    nodes = torch.stack([torch.randperm(13)[:4] for _ in range(6)])
    nodes[0, 2:] = -100
    ids, parents = tree.children_of(2, nodes)
    for row, chosen in enumerate(nodes.tolist()):
        expected = [label for node in chosen if node >= 0 for label in order[starts[0][node] : starts[0][node + 1]].tolist()]
        assert ids[row][ids[row] >= 0].tolist() == expected
        found = tree.parents(2)[torch.tensor(expected)]
        assert torch.equal(found, nodes[row][parents[row, : len(expected)]])
