"""Label sets as flat arrays: the one form in which the metrics read what users pass as label ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = [
    "LabelSets",
    "LabelSetsLike",
    "SupportsCSR",
    "check_comparable",
    "label_sets",
    "predicted_and_true_sets",
    "ranked_labels",
]

_PADDING_IDS = (-1, -100)
_LARGEST_KEY = 2**62


class SupportsCSR(Protocol):
    """A sparse matrix in compressed row form, such as ``scipy.sparse.csr_array``, documents × labels."""

    indptr: np.ndarray
    indices: np.ndarray


@dataclass(frozen=True, eq=False)
class LabelSets:
    """One set of label ids per document in two flat arrays, the row form of a sparse matrix (CSR).

    Nothing here is documents × labels; memory follows the number of ids. Build it with `label_sets`.

    Attributes:
        indptr: Where each document's ids start, (N + 1,).
        label_ids: Label ids of all documents, ascending and distinct within a document, (number of ids,).
    """

    indptr: np.ndarray
    label_ids: np.ndarray

    @property
    def num_documents(self) -> int:
        """Number of documents N, those without a label included."""
        return len(self.indptr) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of labels of each document, (N,)."""
        return np.diff(self.indptr)

    @cached_property
    def rows(self) -> np.ndarray:
        """Document of each entry of ``label_ids``, same shape."""
        return np.repeat(np.arange(self.num_documents), self.sizes)

    @cached_property
    def _stride(self) -> int:
        return int(self.label_ids.max(initial=-1)) + 1

    @cached_property
    def _keys(self) -> np.ndarray:
        # One ascending number per (document, label), so that membership is a binary search over all documents at once.
        return self.rows * self._stride + self.label_ids

    def positions(self, rows: np.ndarray, label_ids: np.ndarray) -> np.ndarray:
        """Where each (document, label) pair stands in ``self.label_ids``; -1 if the document lacks the label.

        Args:
            rows: Documents, integers in [0, N), any shape that broadcasts with ``label_ids``.
            label_ids: Label ids; negative ones stand for no label and are never found.

        Returns:
            Positions, of the broadcast shape.
        """
        rows, label_ids = np.broadcast_arrays(rows, label_ids)
        if len(self.label_ids) == 0:
            return np.full(label_ids.shape, -1, dtype=np.int64)
        possible = (label_ids >= 0) & (label_ids < self._stride)
        keys = rows * self._stride + np.where(possible, label_ids, 0)
        positions = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(possible & (self._keys[positions] == keys), positions, -1)

    def below(self, num_labels: int) -> "LabelSets":
        """The same documents with only the ids smaller than ``num_labels``."""
        keep = self.label_ids < num_labels
        kept_per_document = np.bincount(self.rows[keep], minlength=self.num_documents)
        return LabelSets(_starts(kept_per_document), self.label_ids[keep])


LabelSetsLike: TypeAlias = Sequence[Sequence[int]] | np.ndarray | SupportsCSR | LabelSets


def label_sets(value: LabelSetsLike, name: str = "positives") -> LabelSets:
    """Bring the accepted forms of label sets into one.

    A repeated id counts once. Ids have no upper limit, so labels that only the evaluation data know are legal.

    Args:
        value: One of a list with the label ids of each document (lists, tuples, arrays or sets); a CSR matrix, recognised
            by ``.indptr`` and ``.indices``, whose stored zeros are no labels; an integer array (N, P) of ids padded with
            -100 or -1. Lists may be padded too.
        name: What to call ``value`` in an error.

    Returns:
        The label sets, one per document, in the order given.

    Raises:
        TypeError: If ids are not integers, or a row is not a collection of ids.
        ValueError: If an id is negative and not padding, if the ids look like a multi-hot matrix, or if the shape is wrong.
    """
    if isinstance(value, LabelSets):
        return value
    label_ids, sizes = _flatten(value, name)
    _check_no_multi_hot(label_ids, sizes, name)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    real = label_ids >= 0
    rows, label_ids = rows[real], label_ids[real]
    stride = int(label_ids.max(initial=-1)) + 1
    if stride * len(sizes) > _LARGEST_KEY:
        raise ValueError(
            f"{name} holds label id {stride - 1}, too large for {len(sizes)} documents. Label ids count from 0; is this "
            "another kind of number? Map labels to 0 … num_labels - 1 first."
        )
    keys = rows * stride + label_ids
    if np.any(keys[1:] <= keys[:-1]):  # not yet sorted and distinct
        keys = np.unique(keys)
        rows, label_ids = np.divmod(keys, stride)
    return LabelSets(_starts(np.bincount(rows, minlength=len(sizes))), label_ids)


def predicted_and_true_sets(
    predicted: LabelSetsLike, positives: LabelSetsLike, num_labels: int
) -> tuple[LabelSets, LabelSets]:
    """Bring predicted sets and positives into one form and check that they belong together.

    Args:
        predicted: Predicted label ids, as for `label_sets`.
        positives: True label ids, likewise; ids ≥ ``num_labels``, of labels that only the evaluation data know, are legal.
        num_labels: The model's number of labels L.

    Returns:
        The predicted sets and the positives, one set per document.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ or are 0, or a predicted id is ≥ ``num_labels``.
    """
    guess, truth = label_sets(predicted, "predicted"), label_sets(positives, "positives")
    check_comparable(guess.num_documents, guess.label_ids, truth, num_labels, "predicted")
    return guess, truth


def check_comparable(num_documents: int, label_ids: np.ndarray, truth: LabelSets, num_labels: int, name: str) -> None:
    """Refuse predictions that cannot belong to these positives and this number of labels.

    Args:
        num_documents: Number of documents that have predictions.
        label_ids: Predicted label ids, any shape; negative ones stand for no label.
        truth: The positives.
        num_labels: The model's number of labels L.
        name: What to call the predictions in an error.

    Raises:
        ValueError: If the numbers of documents differ or are 0, a predicted id is ≥ ``num_labels``, or that is below 1.
    """
    if num_labels < 1:
        raise ValueError(f"num_labels must be at least 1, got {num_labels}.")
    if num_documents != truth.num_documents:
        raise ValueError(
            f"{name} has {num_documents} documents but positives has {truth.num_documents}. Both need one row per "
            "document, in the same order; a document without labels has an empty row."
        )
    if num_documents == 0:
        raise ValueError(f"No document is left to average over: {name} and positives have 0 documents.")
    if label_ids.max(initial=-1) >= num_labels:
        raise ValueError(
            f"{name} holds the label id {label_ids.max()} but num_labels={num_labels}: a model cannot predict a "
            "label it does not have. Is num_labels that of another model?"
        )


def ranked_labels(value: np.ndarray | Sequence[Sequence[int]], name: str = "top_labels") -> np.ndarray:
    """Bring rankings into an integer array, best label first.

    Args:
        value: Label ids, (N, K), padded with -1 or -100 where a document has fewer predictions; or a list with the ranked
            ids of each document, of any lengths.
        name: What to call ``value`` in an error.

    Returns:
        Label ids, int64, (N, K), negative where there is no prediction.

    Raises:
        TypeError: If ids are not integers, or a row is not a list of ids.
        ValueError: If an id is negative and not padding, or if the shape is wrong.
    """
    if hasattr(value, "indptr"):
        raise TypeError(f"{name} is a sparse matrix, which has no ranking. Pass the ids of the k best labels as (N, k).")
    label_ids, sizes = _flatten(value, name)
    width = int(sizes.max(initial=0))
    if np.all(sizes == width):
        return label_ids.reshape(len(sizes), width)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    ranks = np.arange(len(label_ids)) - _starts(sizes)[rows]
    ranking = np.full((len(sizes), width), -1, dtype=np.int64)
    ranking[rows, ranks] = label_ids
    return ranking


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _flatten(value: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All ids in one array, padding included, and the number of entries of each document."""
    if hasattr(value, "indptr") and hasattr(value, "indices"):
        label_ids, sizes = _flatten_csr(value, name)
    else:
        value = np.asarray(value) if hasattr(value, "__array__") else value
        if isinstance(value, np.ndarray) and value.dtype != object:
            if value.ndim != 2:
                raise ValueError(f"{name} must have the shape (documents, label ids) but has {value.shape}.")
            label_ids, sizes = value.ravel(), np.full(len(value), value.shape[1], dtype=np.int64)
        else:
            label_ids, sizes = _flatten_rows(value, name)
    return _checked_ids(label_ids, name), sizes


def _flatten_csr(matrix: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    layout = getattr(matrix, "format", "csr")
    if layout != "csr":
        raise ValueError(f"{name} is a sparse matrix in the format {layout!r}, needed is 'csr': call .tocsr() on it.")
    label_ids, sizes = np.asarray(matrix.indices), np.diff(np.asarray(matrix.indptr).astype(np.int64))
    if not hasattr(matrix, "data"):
        return label_ids, sizes
    stored = np.asarray(matrix.data) != 0
    rows = np.repeat(np.arange(len(sizes)), sizes)[stored]
    return label_ids[stored], np.bincount(rows, minlength=len(sizes))


def _flatten_rows(value: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        rows = list(value)
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        label_ids = np.array(list(chain.from_iterable(rows)))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must hold one list of label ids per document ({error}). For a single document write [[3, 7]], for one "
            "without labels []."
        ) from error
    return label_ids, sizes


def _checked_ids(label_ids: np.ndarray, name: str) -> np.ndarray:
    if label_ids.size == 0:
        return np.zeros(0, dtype=np.int64)
    if label_ids.dtype.kind not in "iu" or label_ids.ndim != 1:
        raise TypeError(
            f"{name} must hold integer label ids but holds {label_ids.dtype}. Scores, label names and multi-hot rows are "
            "not ids: pass the ids of the labels, or a CSR matrix (scipy.sparse.csr_array(multi_hot))."
        )
    label_ids = label_ids.astype(np.int64, copy=False)
    wrong = (label_ids < 0) & ~np.isin(label_ids, _PADDING_IDS) if label_ids.min() < 0 else np.zeros(0, dtype=bool)
    if wrong.any():
        raise ValueError(
            f"{name} holds the label id {label_ids[wrong][0]}. Ids start at 0, and only -1 and -100 are read as padding."
        )
    return label_ids


def _check_no_multi_hot(label_ids: np.ndarray, sizes: np.ndarray, name: str) -> None:
    # Rows of three or more numbers that are all 0 or 1 cannot be sets of ids, but integer multi-hot rows look like that.
    same_width = len(sizes) > 0 and sizes[0] >= 3 and np.all(sizes == sizes[0])
    if same_width and label_ids.min() == 0 and label_ids.max() == 1:
        raise ValueError(
            f"{name} has {sizes[0]} numbers per document, all of them 0 or 1: a multi-hot matrix? Pass label ids, or a CSR "
            "matrix (scipy.sparse.csr_array(multi_hot))."
        )
