"""Trees over labels: features of labels, clusters of equal size, and the shallow, wide tree that models predict along."""

try:
    from .deep_tree import DeepTree, balanced_clusters, balanced_two_means, cluster_depth, num_clusters
    from .label_features import label_features, label_matrix
    from .label_tree import LabelTree
    from .tree_shape import TreeShape
except ModuleNotFoundError as error:
    if error.name != "scipy":
        raise
    raise ImportError("Label trees are built with scipy, which is not there: pip install 'hf_xmtc[tree]'.") from error

__all__ = [
    "DeepTree",
    "LabelTree",
    "TreeShape",
    "balanced_clusters",
    "balanced_two_means",
    "cluster_depth",
    "label_features",
    "label_matrix",
    "num_clusters",
]
