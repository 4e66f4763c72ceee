"""Features of labels for clustering: a label is described by the training texts that have it."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from scipy.sparse import csr_array

__all__ = ["label_features", "label_matrix"]


def label_matrix(label_rows: csr_array | Sequence[Sequence[int]], num_labels: int) -> csr_array:
    """The labels of texts as a sparse matrix of ones, (N, L), each label of a text once.

    Args:
        label_rows: A sparse matrix, (N, L), whose stored zeros are no labels; or a list of label ids for each text.
        num_labels: Labels L.

    Raises:
        ValueError: If a matrix has another number of columns, or a label id is outside 0 … L - 1.
    """
    if hasattr(label_rows, "tocsr"):
        labels = csr_array(label_rows, dtype=bool, copy=True)
        if labels.shape[1] != num_labels:
            raise ValueError(
                f"The labels of texts have {labels.shape[1]} columns, but there are {num_labels} labels. Are they of another data set?"
            )
        labels.eliminate_zeros()
    else:
        indptr = np.cumsum([0, *map(len, label_rows)])
        ids = np.fromiter(chain.from_iterable(label_rows), dtype=np.int64, count=indptr[-1])
        labels = csr_array((np.ones(len(ids), dtype=bool), ids, indptr), shape=(len(indptr) - 1, num_labels))
    if len(wrong := _ids_outside(labels)):
        raise ValueError(
            f"{len(wrong)} label ids, such as {wrong[0]}, are none of the {num_labels} labels, which are 0 to {num_labels - 1}. "
            "Labels that only evaluation data has belong in no tree: give the training texts alone, without padding."
        )
    labels.sum_duplicates()
    return _with_short_indices(labels)


def label_features(tfidf: csr_array, label_rows: csr_array | Sequence[Sequence[int]], num_labels: int) -> csr_array:
    """Describe every label by the words of its training texts.

    Args:
        tfidf: TF-IDF vectors of the training texts, sparse, (N, V); they are brought to length 1 first.
        label_rows: Their labels, as for `label_matrix`.
        num_labels: Labels L.

    Returns:
        For each label the sum of its texts' vectors, brought to length 1, (L, V), of the type of ``tfidf``. The row of a label
        without any text, or whose texts have no word, is empty.

    Raises:
        ValueError: If there is not one row of labels per text, a label id is outside 0 … L - 1, a word id is outside 0 … V - 1, or a number
            is not finite.

    Source: AttentionXML (You et al., 2019), as Parabel (Prabhu et al., 2018).
    """
    tfidf = csr_array(tfidf)
    if len(wrong := _ids_outside(tfidf)):
        raise ValueError(
            f"{len(wrong)} word ids of the TF-IDF vectors, such as {wrong[0]}, are outside of 0 to {tfidf.shape[1] - 1}. Is their shape "
            "that of another vocabulary?"
        )
    tfidf = _with_short_indices(tfidf)
    labels = label_matrix(label_rows, num_labels)
    if tfidf.shape[0] != labels.shape[0]:
        raise ValueError(
            f"There are {tfidf.shape[0]} TF-IDF vectors and labels of {labels.shape[0]} texts. Give one each per text."
        )
    if not np.isfinite(tfidf.data).all():
        raise ValueError(f"{(~np.isfinite(tfidf.data)).sum()} numbers of the TF-IDF vectors are not finite.")
    # The lengths of texts go into the other factor, so that the large matrix need not be copied.
    scale = np.repeat(_reciprocal(_row_lengths(tfidf)), np.diff(labels.indptr))
    weights = csr_array((scale, labels.indices, labels.indptr), shape=labels.shape)
    features = csr_array(weights.T.tocsr() @ tfidf)
    features.data *= np.repeat(_reciprocal(_row_lengths(features)), np.diff(features.indptr))
    return features


def _ids_outside(matrix: csr_array) -> np.ndarray:
    """Column indices that the matrix does not have. scipy does not look for them, and writes to where they point."""
    return matrix.indices[(matrix.indices < 0) | (matrix.indices >= matrix.shape[1])]


def _with_short_indices(matrix: csr_array) -> csr_array:
    """The matrix with int32 indices, where they are large enough: half the memory of int64, in products too."""
    if matrix.nnz >= 2**31:
        return matrix
    parts = (matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int32, copy=False))
    return csr_array((matrix.data, *parts), shape=matrix.shape)


def _row_lengths(matrix: csr_array) -> np.ndarray:
    squares = csr_array((np.square(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    return np.sqrt(squares @ np.ones(matrix.shape[1], dtype=matrix.dtype))


def _reciprocal(lengths: np.ndarray) -> np.ndarray:
    return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
