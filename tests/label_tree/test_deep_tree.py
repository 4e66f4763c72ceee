"""Balanced 2-means: the reference code's splits, exactly, and what holds for any labels."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from hf_xmtc.label_tree import balanced_clusters, balanced_two_means, cluster_depth, label_features, num_clusters

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def golden(name: str) -> tuple[dict, dict]:
    """Arrays and settings of what AttentionXML's code (yourh/AttentionXML, commit e2bbbece) did with real and generated texts."""
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        arrays = dict(file)
    return arrays, json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))["config"]


def matrix(arrays: dict, name: str) -> csr_array:
    parts = (arrays[f"{name}_data"], arrays[f"{name}_indices"], arrays[f"{name}_indptr"])
    return csr_array(parts, shape=tuple(arrays[f"{name}_shape"]))


@pytest.mark.parametrize("name", ["cluster_digits", "cluster_text"])
class TestAgainstTheReferenceCode:
    def test_label_features_are_the_same(self, name):
        arrays, config = golden(name)
        rows = np.split(arrays["y_indices"], arrays["y_indptr"][1:-1])
        ours = label_features(matrix(arrays, "raw_x"), rows, config["num_labels"])
        np.testing.assert_allclose(ours.toarray(), matrix(arrays, "label_features").toarray(), atol=1e-12)

    def test_every_level_has_the_same_labels_in_the_same_order(self, name):
        arrays, config = golden(name)
        for level, depth in enumerate(config["levels"]):
            sizes = arrays[f"level{level}_sizes"]
            # With clusters as large as those of a level, the splits above it are the same and none follows.
            max_leaf = config["max_leaf"] if depth == config["levels"][-1] else int(sizes.max())
            tree = balanced_clusters(matrix(arrays, "label_features"), max_leaf, config["numpy_legacy_seed"])
            assert tree.depth == depth
            assert tree.sizes[-1].tolist() == sizes.tolist()
            assert tree.label_order.tolist() == arrays[f"level{level}_labels"].tolist()

    def test_every_split_begins_with_the_same_labels_and_takes_as_many_passes(self, name, monkeypatch):
        arrays, config = golden(name)
        splits = []

        def recorded(rows, picks, eps):
            order, similarities = balanced_two_means(rows, picks, eps)
            splits.append((picks.tolist(), len(similarities)))
            return order, similarities

        monkeypatch.setattr("hf_xmtc.label_tree.deep_tree.balanced_two_means", recorded)
        balanced_clusters(matrix(arrays, "label_features"), config["max_leaf"], config["numpy_legacy_seed"])
        expected = zip(arrays["split_initial_picks"].tolist(), arrays["split_iterations"].tolist(), strict=True)
        assert splits == list(expected)


def test_a_bad_start_is_left():  # P5
    angles = np.radians([0, 10, 80, 90])
    rows = csr_array(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    order, similarities = balanced_two_means(rows, np.array([0, 1]))
    assert set(order[:2].tolist()) == {0, 1}
    assert similarities == pytest.approx([0.625119, 0.996195, 0.996195], abs=1e-6)


@pytest.mark.parametrize(
    ("num_labels", "max_leaf", "sizes"),
    [(10, 3, [2, 3, 2, 3]), (16, 2, [2] * 8), (5, 5, [5]), (1, 1, [1]), (33, 2, None), (97, 5, None)],
)
def test_clusters_cover_each_label_once_and_sizes_differ_by_one(random_features, num_labels, max_leaf, sizes):  # W1, P6
    tree = balanced_clusters(random_features(num_labels), max_leaf)
    assert sorted(tree.label_order) == list(range(num_labels))
    assert tree.sizes[-1].max() <= max_leaf and len(tree.sizes[-1]) == num_clusters(num_labels, max_leaf)
    assert sizes is None or tree.sizes[-1].tolist() == sizes
    for depth, of_depth in enumerate(tree.sizes):
        assert of_depth.sum() == num_labels
        if depth < tree.depth:  # clusters that were small enough before the others are in the last depth alone
            assert of_depth.max() - of_depth.min() <= 1
        if depth:
            assert np.bincount(tree.parents[depth], weights=of_depth).tolist() == tree.sizes[depth - 1].tolist()
            assert set(np.bincount(tree.parents[depth])) <= {1, 2}


def test_clusters_that_are_small_before_the_others_are_kept(random_features):  # W3, P6
    tree = balanced_clusters(random_features(33), max_leaf=2)
    assert sorted(tree.sizes[4]) == [2] * 15 + [3]
    assert sorted(tree.sizes[5]) == [1] + [2] * 16
    children = np.bincount(tree.parents[5])
    assert [int(n) for n in children[tree.sizes[4] == 2]] == [1] * 15
    assert children[tree.sizes[4] == 3] == [2]
    assert sorted(tree.label_order) == list(range(33))


@pytest.mark.parametrize("max_leaf", [1, 2, 3, 7, 100])
def test_the_depth_is_the_smallest_at_which_all_are_small(max_leaf):
    for num_labels in range(1, 200):
        depths = [t for t in range(10) if -(-num_labels // 2**t) <= max_leaf]
        assert cluster_depth(num_labels, max_leaf) == depths[0]


def test_a_seed_gives_one_tree_for_any_number_of_workers(random_features):  # W16
    features = random_features(300)
    trees = [balanced_clusters(features, 4, seed=seed, num_workers=n) for seed, n in ((1, 1), (1, 2), (1, 5), (2, 1))]
    orders = [tree.label_order.tolist() for tree in trees]
    assert orders[0] == orders[1] == orders[2] != orders[3]


def test_columns_that_no_label_of_a_node_has_change_nothing(random_features):
    features = random_features(64)
    wide = csr_array((features.data, features.indices + 10_000, features.indptr), shape=(64, 100_000))
    assert balanced_clusters(wide, 4).label_order.tolist() == balanced_clusters(features, 4).label_order.tolist()


def test_progress_counts_the_labels_of_each_split(random_features):
    counts = []
    balanced_clusters(random_features(16), 2, progress=counts.append)
    assert counts == [16, 8, 8, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("settings", "name"), [({"max_leaf": 0}, "max_leaf"), ({"max_leaf": 1, "num_workers": 0}, "num_workers")]
)
def test_numbers_below_one_are_refused(random_features, settings, name):
    with pytest.raises(ValueError, match=f"{name} is 0 but must be at least 1"):
        balanced_clusters(random_features(4), **settings)
