"""Clusters of labels of equal size: the deep binary tree that AttentionXML, Parabel and LightXML begin with.

A node's labels are split by 2-means into halves whose sizes differ by at most one, until no node has more than ``max_leaf`` labels.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

__all__ = ["DeepTree", "balanced_clusters", "balanced_two_means", "cluster_depth", "num_clusters"]


@dataclass(frozen=True)
class DeepTree:
    """The initial tree: a node at depth t is a run of ``sizes[t]`` labels in ``label_order``.

    Attributes:
        label_order: Label ids in the order of the tree, (L,) int32.
        sizes: For each depth from the root's (0) to the clusters', labels of each node, from the left.
        parents: For each depth, the parent of each node at the depth above; zeros at depth 0.
    """

    label_order: np.ndarray
    sizes: list[np.ndarray]
    parents: list[np.ndarray]

    @property
    def depth(self) -> int:
        """Depth of the clusters."""
        return len(self.sizes) - 1


def cluster_depth(num_labels: int, max_leaf: int) -> int:
    """Depth of the clusters: the smallest at which no node has more than ``max_leaf`` labels."""
    return (-(-num_labels // max_leaf) - 1).bit_length()


def num_clusters(num_labels: int, max_leaf: int) -> int:
    """Number of clusters: 2^depth, or fewer where some nodes of the depth above are small enough already."""
    depth = cluster_depth(num_labels, max_leaf)
    above = 2**depth // 2
    return 2**depth if depth == 0 or num_labels // above > max_leaf else above + num_labels % above


def balanced_clusters(
    features: csr_array,
    max_leaf: int,
    seed: int = 0,
    num_workers: int = 1,
    eps: float = 1e-4,
    progress: Callable[[int], object] | None = None,
) -> DeepTree:
    """Split labels into halves again and again.

    A cluster that is small enough at a depth where others are not goes on as the only child of itself, so all clusters are at the
    same depth and none is lost. (AttentionXML's code drops it and fails.) The result is the same for any number of workers.

    Args:
        features: Label features, rows of length 1 or empty, (L, V). Labels with empty rows are as near to one half as to the other,
            and fill the halves up.
        max_leaf: Most labels of a cluster, M.
        seed: Of the labels that are the first centres of a split: two draws of numpy's legacy generator, node by node, depth by
            depth, as the reference code makes them.
        num_workers: Threads, which share the nodes of a depth.
        eps: A split ends when the mean similarity of labels to their centres grows by less.
        progress: Called with the number of labels of each node that was split.

    Raises:
        ValueError: If there is no label, or ``max_leaf`` or ``num_workers`` is below 1.
    """
    num_labels = features.shape[0]
    for name, value in (("The number of labels", num_labels), ("max_leaf", max_leaf), ("num_workers", num_workers)):
        if value < 1:
            raise ValueError(f"{name} is {value} but must be at least 1.")
    random = np.random.RandomState(seed)
    order = np.arange(num_labels, dtype=np.int32)
    sizes, parents = [np.array([num_labels], dtype=np.int32)], [np.zeros(1, dtype=np.int32)]
    split = partial(_split, features, eps)
    with ThreadPoolExecutor(num_workers) as pool:
        while sizes[-1].max() > max_leaf:
            large = sizes[-1] > max_leaf
            nodes = [node for node in np.split(order, sizes[-1].cumsum()[:-1]) if len(node) > max_leaf]
            picks = [random.choice(len(node), 2, replace=False) for node in nodes]
            for node, halves in zip(nodes, pool.map(split, nodes, picks), strict=True):
                node[:] = halves  # a part of `order`
                if progress is not None:
                    progress(len(node))
            left = np.where(large, sizes[-1] // 2, sizes[-1])
            halves = np.stack([left, sizes[-1] - left], axis=1).ravel()
            parents.append(np.repeat(np.arange(len(large), dtype=np.int32), 1 + large))
            sizes.append(halves[halves > 0])
    return DeepTree(order, sizes, parents)


def _split(features: csr_array, eps: float, labels: np.ndarray, picks: np.ndarray) -> np.ndarray:
    order, _ = balanced_two_means(features[labels], picks, eps)
    return labels[order]


def balanced_two_means(rows: csr_array, picks: np.ndarray, eps: float = 1e-4) -> tuple[np.ndarray, list[float]]:
    """Split rows into two halves around two centres.

    Args:
        rows: Rows of length 1 or empty, (n, V), n > 1.
        picks: The two rows that are the first centres.
        eps: Growth of the mean similarity below which it ends.

    Returns:
        The rows in order, (n,), of which the first ⌊n/2⌋ are the left half; and the mean similarity of rows to the centres that
        they were assigned by, for each pass.
    """
    rows = _without_unused_columns(rows)
    num_rows = rows.shape[0]
    total = rows.T @ np.ones(num_rows, dtype=rows.dtype)
    left, right = rows[picks].toarray()
    similarities = [-10_000.0, -1.0]
    while similarities[-1] - similarities[-2] >= eps:
        # Rows that are equally near stay in order; the reference code leaves their order to an unstable sort.
        order = np.argsort(rows @ (right - left), kind="stable")
        in_left = np.zeros(num_rows, dtype=rows.dtype)
        in_left[order[: num_rows // 2]] = 1
        left_sum = rows.T @ in_left
        right_sum = total - left_sum
        # The sum of similarities to a centre is the similarity of the sum.
        similarities.append(float(left @ left_sum + right @ right_sum) / num_rows)
        left, right = _unit(left_sum), _unit(right_sum)
    return order, similarities[2:]


def _without_unused_columns(rows: csr_array) -> csr_array:
    """The same rows without columns that are empty, where vectors of all columns would cost more than the rows."""
    num_columns = rows.shape[1]
    if rows.nnz >= num_columns:
        return rows
    used = np.zeros(num_columns, dtype=bool)
    used[rows.indices] = True
    columns = np.flatnonzero(used)
    places = np.empty(num_columns, dtype=rows.indices.dtype)
    places[columns] = np.arange(len(columns))
    return csr_array((rows.data, places[rows.indices], rows.indptr), shape=(rows.shape[0], len(columns)))


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector
