"""Parents of labels where the data name none: labels that contain others, or clusters.

Both are counted over all training texts, each with its own labels, of which a text's own are one in N.
"""

import numpy as np
from scipy.sparse import csr_array

from hf_xmtc.label_tree import label_features, label_matrix
from hf_xmtc.label_tree.deep_tree import balanced_clusters

__all__ = ["containing_labels", "tree_parents"]

# A label contains another one that has at least so many documents, of which at least such a share have it too.
MIN_SHARE, MIN_DOCUMENTS = 0.9, 3
# Most labels of a cluster.
CLUSTER_SIZE = 16


def containing_labels(label_rows: list[list[int]], num_labels: int) -> list[list[int]]:
    """For each label the rarest one that nearly all of its documents have too, and others besides.

    Args:
        label_rows: Labels of the training texts.
        num_labels: Labels L.

    Returns:
        One parent of each label, or none.

    Source: our design. Where documents carry all ancestors of their labels, as in Amazon's product categories, it finds these again.
    """
    matrix = label_matrix(label_rows, num_labels).astype(np.int32)
    counts = np.asarray(matrix.sum(axis=0)).ravel()
    together = (matrix.T.tocsr() @ matrix).tocoo()  # documents that have both
    child, parent = together.coords
    contains = (counts[child] >= MIN_DOCUMENTS) & (counts[parent] > counts[child])
    contains &= together.data >= MIN_SHARE * counts[child]
    child, parent = child[contains], parent[contains]
    order = np.lexsort((parent, counts[parent], child))
    first = np.unique(child[order], return_index=True)[1]
    parents: list[list[int]] = [[] for _ in range(num_labels)]
    for place in order[first]:
        parents[child[place]] = [int(parent[place])]
    return parents


def tree_parents(text_vectors: csr_array, label_rows: list[list[int]], num_labels: int) -> tuple[list[list[int]], list[int]]:
    """Clusters of labels whose texts are similar, by balanced 2-means.

    Args:
        text_vectors: TF-IDF of the training texts, (N, V).
        label_rows: Their labels.
        num_labels: Labels L.

    Returns:
        The cluster of each label, with ids from L on; and for each cluster the label that is nearest to its centre.
    """
    features = label_features(text_vectors, label_rows, num_labels)
    deep = balanced_clusters(features, CLUSTER_SIZE)
    clusters = np.empty(num_labels, dtype=np.int64)
    clusters[deep.label_order] = np.repeat(np.arange(len(deep.sizes[-1])), deep.sizes[-1])
    ones = np.ones(num_labels, dtype=features.dtype)
    centers = csr_array((ones, (clusters, np.arange(num_labels)))) @ features  # (C, V), longer the more labels agree
    similarities = np.asarray(features.multiply(centers[clusters]).sum(axis=1)).ravel()
    order = np.lexsort((np.arange(num_labels), -similarities, clusters))
    medoids = order[np.unique(clusters[order], return_index=True)[1]]
    return [[num_labels + int(cluster)] for cluster in clusters], medoids.tolist()
