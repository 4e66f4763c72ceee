"""Clusters of a model's label tree, for tests to look at."""

import torch

from hf_xmtc.models.label_tree_index import LabelTreeIndex

__all__ = ["labels_together"]


def labels_together(tree: LabelTreeIndex, label_id: int) -> list[int]:
    """The labels in the cluster of a label, itself among them, in tree order."""
    cluster = tree.ancestors(tree.last_level - 1, torch.tensor([[label_id]]))
    return tree.children_of(tree.last_level, cluster)[0][0].tolist()
