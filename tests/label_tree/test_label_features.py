import numpy as np
import pytest
from scipy.sparse import csr_array

from hf_xmtc.label_tree import label_features, label_matrix

# Three texts over three words; the second is twice as long as the others and must count no more.
TEXTS = csr_array(np.array([[1, 0, 0], [0, 2, 0], [0, 0, 1]], dtype=np.float32))


def test_a_label_is_the_normalised_sum_of_its_texts():
    features = label_features(TEXTS, [[0], [0, 1], []], num_labels=3)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(features.toarray(), [[half, half, 0], [0, 1, 0], [0, 0, 0]], rtol=1e-6)
    assert features.dtype == np.float32
    assert features.indices.dtype == np.int32
    assert np.diff(features.indptr).tolist() == [2, 1, 0]  # label 2 has no text


def test_id_lists_and_matrices_mean_the_same():
    as_lists = label_matrix([[2, 0, 2], [], [1]], 3)
    stored_zero = csr_array((np.array([1, 5, 0, 1]), np.array([0, 2, 1, 1]), np.array([0, 3, 3, 4])), shape=(3, 3))
    for labels in (as_lists, label_matrix(stored_zero, 3)):
        assert labels.toarray().tolist() == [[True, False, True], [False] * 3, [False, True, False]]


def test_a_text_without_words_adds_nothing():
    features = label_features(csr_array(np.array([[0.0, 0.0], [3.0, 4.0]])), [[0, 1], [0]], num_labels=2)
    np.testing.assert_allclose(features.toarray(), [[0.6, 0.8], [0, 0]])


@pytest.mark.parametrize("wrong", [3, 400_000_000, -100])
@pytest.mark.parametrize("as_matrix", [False, True])
def test_ids_that_are_no_labels_are_refused(wrong, as_matrix):
    labels = [[0], [wrong], [1]]
    if as_matrix:  # scipy looks at the ids of a matrix only when it is asked to
        labels = csr_array((np.ones(3), np.array([0, 1, 1]), np.arange(4)), shape=(3, 3))
        labels.indices[1] = wrong
    with pytest.raises(ValueError, match=f"1 label ids, such as {wrong}, are none of the 3 labels"):
        label_features(TEXTS, labels, num_labels=3)


@pytest.mark.parametrize("wrong", [400_000_000, -1])
def test_word_ids_outside_of_the_vocabulary_are_refused(wrong):
    texts = TEXTS.copy()
    texts.indices[1] = wrong
    with pytest.raises(ValueError, match=f"1 word ids of the TF-IDF vectors, such as {wrong}, are outside of 0 to 2"):
        label_features(texts, [[0], [0], [1]], num_labels=2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="3 TF-IDF vectors and labels of 2 texts"):
        label_features(TEXTS, [[0], [1]], num_labels=3)
    with pytest.raises(ValueError, match="4 columns, but there are 3 labels"):
        label_features(TEXTS, csr_array(np.eye(4)), num_labels=3)
    with pytest.raises(ValueError, match="1 numbers of the TF-IDF vectors are not finite"):
        label_features(csr_array(np.array([[np.nan, 1.0]])), [[0]], num_labels=1)
