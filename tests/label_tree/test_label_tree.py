import json
import logging
import time
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array, random_array

from hf_xmtc.label_tree import LabelTree, TreeShape, balanced_clusters, label_features

# 16 labels in tree order: two nodes, eight clusters of two.
WORKED = LabelTree([[0, 0], [0, 0, 0, 0, 1, 1, 1, 1], np.arange(16) // 2])


def test_the_worked_example_keeps_two_levels_of_four(random_features):
    tree = LabelTree.build(random_features(16), TreeShape.of_algorithm_1(16, max_leaf=2, branching_depth=2, height=2))
    assert tree.num_levels == 3
    assert tree.num_nodes == (2, 8, 16)
    assert [parents.tolist() for parents in tree.parents[:2]] == [[0, 0], [0, 0, 0, 0, 1, 1, 1, 1]]
    assert tree.parents[2][tree.label_order].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert tree.children(0).tolist() == [[0, 1]]
    assert tree.children(1).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert tree.children(2).tolist() == [labels.tolist() for labels in tree.clusters()]


@pytest.mark.parametrize(
    ("num_labels", "max_leaf", "c", "height"), [(64, 4, 2, 2), (100, 3, 1, 4), (33, 2, 2, 2), (90, 7, 3, 1)]
)
def test_a_node_has_the_labels_of_its_node_in_the_deep_tree(random_features, num_labels, max_leaf, c, height):  # W2
    """Algorithm 1 step by step: the c-th ancestor of each node, label sets as before, at most 2^c children."""
    features = random_features(num_labels)
    deep = balanced_clusters(features, max_leaf)
    tree = LabelTree.build(features, TreeShape.of_algorithm_1(num_labels, max_leaf, c, height))
    assert tree.num_levels == height + 1
    depth = deep.depth
    for level in range(height - 1, -1, -1):
        runs = np.split(deep.label_order, deep.sizes[depth].cumsum()[:-1])
        nodes = tree.ancestors(level)
        assert [np.flatnonzero(nodes == i).tolist() for i in range(len(runs))] == [sorted(run.tolist()) for run in runs]
        if level:
            assert tree.children(level).shape[1] <= 2**c
            depth -= c
    assert np.bincount(tree.parents[-1]).max() <= max_leaf
    assert np.array_equal(tree.ancestors(tree.num_levels - 1), np.arange(num_labels))


def test_no_label_is_lost_where_some_clusters_are_small_before_others(random_features):  # W3
    tree = LabelTree.build(random_features(33), TreeShape(2, (4, 5)))
    assert tree.num_nodes == (16, 17, 33)
    assert sorted(np.concatenate(tree.clusters())) == list(range(33))
    children = tree.children(1)
    assert (children == 17).sum() == 15  # fifteen nodes are their own only child
    assert sorted(children[children < 17]) == list(range(17))


def test_a_node_is_positive_if_a_label_under_it_is(random_features):  # W4
    tree = LabelTree.build(random_features(40), TreeShape(3, (2, 4)))
    labels = [[3, 17, 39], [], [5], [*range(40)]]
    targets = [tree.node_targets(labels, level).toarray() for level in range(3)]
    assert targets[2].tolist() == [[label in row for label in range(40)] for row in labels]
    for level in (0, 1):
        for node, children in enumerate(tree.children(level + 1)):
            real = children[children < tree.num_nodes[level + 1]]
            assert np.array_equal(targets[level][:, node], targets[level + 1][:, real].max(axis=1))
    assert targets[0].any(axis=1).tolist() == [True, False, True, True]  # the root's


def test_renumbered_labels_give_the_same_targets():  # W6
    order = np.random.default_rng(0).permutation(16)  # the old id of each new one
    renumbered = LabelTree([*WORKED.parents[:2], WORKED.parents[2][order]])
    new_ids = np.argsort(order)
    labels = [[0, 5], [15], [2, 3, 9]]
    for level in (0, 1):
        ours = renumbered.node_targets([new_ids[row] for row in labels], level)
        assert ours.toarray().tolist() == WORKED.node_targets(labels, level).toarray().tolist()
    assert [sorted(order[cluster]) for cluster in renumbered.clusters()] == [c.tolist() for c in WORKED.clusters()]


@pytest.mark.parametrize("max_leaf", [1, 2, 100, None])
@pytest.mark.parametrize("num_labels", [1, 2, 3, 5, 7, 64])
@pytest.mark.parametrize("kind", ["random", "one without text", "identical", "empty"])
def test_awkward_labels_are_all_in_one_leaf(random_features, num_labels, max_leaf, kind):  # AC-30
    features = random_features(num_labels, seed=3)
    if kind == "identical":
        features = csr_array(np.ones((num_labels, 4), dtype=np.float32) / 2)
    elif kind != "random":
        with_text = np.zeros(num_labels) if kind == "empty" else np.arange(num_labels) != num_labels // 2
        features = csr_array(features.toarray() * with_text[:, None])
    shape = None if max_leaf is None else TreeShape.of_algorithm_1(num_labels, max_leaf, 1, 1)
    start = time.process_time()  # other work on the machine does not count
    trees = [LabelTree.build(features, shape, seed=5) for _ in range(2)]
    assert time.process_time() - start < 5
    assert trees[0].digest() == trees[1].digest()
    assert trees[0].num_labels == num_labels
    assert all(len(cluster) for cluster in trees[0].clusters())
    assert trees[0].node_targets([[label] for label in range(num_labels)], 0).sum() == num_labels


def test_labels_without_text_are_reported(random_features, caplog):
    features = random_features(8)
    features = csr_array(features.toarray() * (np.arange(8) != 2)[:, None])
    with caplog.at_level(logging.WARNING):
        LabelTree.build(features)
    assert "1 of 8 labels have no word in any training text." in caplog.text


def test_memory_stays_far_below_documents_times_labels():  # AC-18
    random = np.random.default_rng(0)
    texts = random_array((2_000, 50_000), density=0.002, format="csr", dtype=np.float32, rng=random)
    labels = random.integers(20_000, size=(2_000, 5)).tolist()
    tracemalloc.start()
    tree = LabelTree.build(label_features(texts, labels, 20_000))
    targets = [tree.node_targets(labels, level) for level in range(tree.num_levels)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [level.shape[1] for level in targets] == list(tree.num_nodes)
    assert peak < 100 * 2**20  # a dense copy of the targets alone would be 160


def test_a_tree_of_other_labels_is_refused(random_features):  # AC-31
    tree = LabelTree.build(random_features(8), labels_digest="abc")
    tree.check_labels(8, "abc")
    tree.check_labels(8, None)
    with pytest.raises(ValueError, match=r"covers 8 labels \(labels_digest abc\), but there are 8 \(labels_digest def\)"):
        tree.check_labels(8, "def")
    with pytest.raises(ValueError, match=r"covers 8 labels .* but there are 9 .*Rebuild it with scripts/build_label_tree"):
        tree.check_labels(9, "abc")


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([[0, 0]], "has 1 levels"),
        ([[0, 1], [0, 1]], "level 0 have the shape .* from 0 to 1"),
        ([[0, 0], [0, 2]], "level 1 have the shape .* go from 0 to 2, but must be one list of 0 to 1"),
        ([[0, 0], [0, -1]], "go from -1 to 0"),
        ([[0, 0], [0, 0, 0]], "1 of the 2 nodes above level 1, such as 1, have no child"),
        ([[0, 0], [1, 0, 0], [0, 1, 2]], "Node 0 of level 1 is under node 1, and the next under 0"),
        ([[0, 0], [0, 1, 1, 1]], "A node above level 1 has 3 children and another 1, but in a balanced tree"),
        ([np.zeros(0, int)] * 2, "such as 0, have no child"),
    ],
)
def test_arrays_that_are_no_tree_are_refused(parents, message):
    with pytest.raises(ValueError, match=message):
        LabelTree(parents)


@pytest.mark.parametrize("first", range(15))
def test_two_labels_that_change_places_change_the_digest(first):
    *levels, labels = (level.copy() for level in WORKED.parents)
    labels[[first, first + 1]] = labels[[first + 1, first]]
    same = np.array_equal(labels, WORKED.parents[-1])
    assert (LabelTree([*levels, labels]).digest() == WORKED.digest()) == same


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        LabelTree(WORKED.parents, labels_digest="abc").save(tmp_path / "tree", built_from={"seed": 3})
        return tmp_path / "tree"

    def test_a_saved_tree_is_the_same(self, folder):
        tree = LabelTree.load(folder)
        assert [a.tolist() for a in tree.parents] == [b.tolist() for b in WORKED.parents]
        assert (tree.labels_digest, tree.num_nodes) == ("abc", (2, 8, 16))
        settings = json.loads((folder / "label_tree.json").read_text())
        assert (settings["num_nodes"], settings["built_from"]) == ([2, 8, 16], {"seed": 3})

    def test_a_folder_without_a_tree_is_refused(self, folder, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"lacks label_tree.safetensors and label_tree.json"):
            LabelTree.load(tmp_path)
        (folder / "label_tree.safetensors").unlink()
        with pytest.raises(FileNotFoundError, match=r"lacks label_tree.safetensors, so"):
            LabelTree.load(folder)

    @pytest.mark.parametrize(
        ("name", "array", "message"),
        [
            ("parents.1", None, "lacks the array parents.1"),
            ("parents.2", np.arange(15, dtype=np.int32) // 2, r"parents.2 is I32 of shape \[15\], but must be 16"),
            ("parents.2", np.arange(16, dtype=np.float32), "parents.2 is F32"),
            ("parents.2", np.arange(16, dtype=np.int64), "safetensors: .* go from 0 to 15, but must be one list of 0 to 7"),
            ("parents.2", np.full(16, 2**32, dtype=np.int64), "safetensors: .* go from 0 to 4294967296"),
            ("parents.2", np.arange(16, dtype=np.int32)[::-1] // 2, "is not the file that was saved with label_tree.json"),
            ("parents.1", np.zeros((2, 4), dtype=np.int32), r"of shape \[2, 4\]"),
        ],
    )
    def test_damaged_arrays_are_refused(self, folder, name, array, message):
        arrays = {**load_file(folder / "label_tree.safetensors"), name: array}
        present = {key: np.ascontiguousarray(value) for key, value in arrays.items() if value is not None}
        save_file(present, folder / "label_tree.safetensors")
        with pytest.raises(ValueError, match=message):
            LabelTree.load(folder)

    @pytest.mark.parametrize(
        ("setting", "value", "message"),
        [
            ("num_labels", 17, r"shape \[16\], but must be 17"),
            ("num_labels", None, "num_labels is None, but must be a whole number"),
            ("num_levels", 2, r"parents.1 is I32 of shape \[8\], but must be 16"),
            ("num_levels", 10**9, "lacks the array parents.3"),
            ("labels_digest", 7, "labels_digest is 7, but must be a text"),
            ("digest", "0", "digest 0, found"),
        ],
    )
    def test_damaged_settings_are_refused(self, folder, setting, value, message):
        path = folder / "label_tree.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), setting: value}))
        with pytest.raises(ValueError, match=message):
            LabelTree.load(folder)

    def test_a_file_cut_short_is_refused(self, folder):
        path = folder / "label_tree.safetensors"
        path.write_bytes(path.read_bytes()[:-4])
        with pytest.raises(ValueError, match="is not a sound safetensors file"):
            LabelTree.load(folder)


def test_features_and_tree_of_the_same_texts_are_the_same():  # W16
    random = np.random.default_rng(0)
    texts, labels = csr_array(random.random((60, 30))), random.integers(20, size=(60, 2)).tolist()
    digests = {LabelTree.build(label_features(texts, labels, 20), seed=1, num_workers=n).digest() for n in (1, 2, 3)}
    assert len(digests) == 1
