"""Parents and descriptions of labels, where the data have them and where not."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from hf_xmtc.models.label_names import LabelNames
from hf_xmtc.training.label_parents import containing_labels, tree_parents
from hf_xmtc.training.teacher import label_nodes

# Four texts of the words 0 to 5 with the labels 0, 1 and 2.
TF_IDF = csr_array(np.array([[9, 5, 0, 0, 0, 1], [8, 6, 0, 0, 1, 0], [0, 0, 7, 5, 0, 1], [0, 0, 6, 8, 1, 0.0]]))
LABELS = [[0], [0, 1], [2], [2]]


def nodes_of(kind: str, names: LabelNames | None = None, texts=((1,), (2,), (3,))):
    names = names or LabelNames(["a", "b", "c"])
    return label_nodes(kind, names, LABELS, [list(text) for text in texts], lambda new: [[9]] * len(new), lambda: TF_IDF, 2)


def test_given_parents_may_be_no_labels_and_are_one_level_up():
    names = LabelNames(["a", "b", "c"], parents=[["top"], ["a", "other"], ["c"]])
    assert names.parent_ids() == ([[4], [0, 3], []], ["other", "top"])
    nodes = nodes_of("auto", names)
    assert nodes.parents_from == "given" and nodes.descriptions == [[1], [2], [3], [9], [9]]


def test_parents_that_are_not_given_are_refused():
    with pytest.raises(ValueError, match="no label of the data has one"):
        nodes_of("given")


def test_a_label_is_contained_in_the_rarest_that_its_documents_have_too():
    rows = [[0, 1, 2]] * 3 + [[0, 1]] * 2 + [[0]] * 3 + [[3, 0]] * 2 + [[4], [4, 0], [4, 0]]
    assert containing_labels(rows, 5) == [[], [0], [1], [], []]  # 3 has too few documents, 4 too small a share


def test_every_label_has_one_cluster_and_every_cluster_a_label():
    random = np.random.default_rng(0)
    rows = [[label] for label in range(40)] * 2
    parents, medoids = tree_parents(csr_array(random.random((80, 6))), rows, 40)
    assert all(len(row) == 1 for row in parents)
    clusters = [row[0] - 40 for row in parents]
    assert sorted(set(clusters)) == list(range(len(medoids))) and len(medoids) == 4
    assert [clusters[label] for label in medoids] == list(range(len(medoids)))


def test_clusters_are_the_last_resort_and_have_the_text_of_a_label():
    nodes = nodes_of("auto")
    assert nodes.parents_from == "tree" and nodes.parents == [[3], [3], [3]]
    assert nodes.descriptions[3] in ([1], [2], [3])
    assert nodes_of("none") == ([[], [], []], [[1], [2], [3]], "none")


def test_label_without_text_is_described_by_the_words_of_its_documents():
    assert nodes_of("none", texts=((1,), (), ())).descriptions == [[1], [0, 1], [2, 3]]
