"""`LabelTree`: the shallow, wide tree of AttentionXML, along which a text's labels are found without scoring all of them."""

import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from scipy.sparse import csr_array

from hf_xmtc.strict_json import json_text

from .deep_tree import DeepTree, balanced_clusters
from .label_features import label_matrix
from .tree_files import ARRAYS_FILE, SETTINGS_FILE, check_parents, parents_name, read_tree_files
from .tree_shape import TreeShape

__all__ = ["LabelTree"]

logger = logging.getLogger(__name__)


class LabelTree:
    """Levels of nodes over the labels: those of level 0 hang on the root, the last level is the labels themselves.

    The level above the labels holds the clusters (AttentionXML's "parents of leaves", LightXML's "groups"). Nodes are numbered from
    the left, so siblings are neighbours; labels keep their ids. Build one with `LabelTree.build`.

    Args:
        parents: For each level, the node above of each node: zeros for level 0, label → cluster for the last.
        labels_digest: That of the label names (`LabelNames.digest`) whose ids these are; None where they are not known.

    Raises:
        ValueError: If a node has no parent or no child, the tree is not balanced, or nodes are not numbered from the left.
    """

    def __init__(self, parents: Sequence[np.ndarray], labels_digest: str | None = None):
        check_parents(parents := [np.asarray(level) for level in parents])
        self.parents = tuple(level.astype(np.int32, copy=False) for level in parents)
        self.labels_digest = labels_digest

    @classmethod
    def build(
        cls,
        features: csr_array,
        shape: TreeShape | None = None,
        *,
        seed: int = 0,
        num_workers: int = 1,
        labels_digest: str | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> "LabelTree":
        """Cluster labels and keep the levels of a shape.

        Args:
            features: Label features of the training texts, (L, V), as `label_features` makes them.
            shape: Levels and size of clusters; by default `TreeShape.for_labels`.
            seed: Of the first centres of each split.
            num_workers: Threads; the tree is the same for any number.
            labels_digest: As above.
            progress: Called with the number of labels of each node that was split; the sum is about L times the depth of clusters.

        Raises:
            ValueError: If the shape does not fit the number of labels, or there is none.

        Source: AttentionXML (You et al., 2019), Algorithm 1, on balanced 2-means. Nodes of the deep tree between two levels go; each
        node's labels stay.
        """
        num_labels = features.shape[0]
        shape = shape or TreeShape.for_labels(num_labels)
        shape.check(num_labels)
        without_text = int((np.diff(features.indptr) == 0).sum())
        if without_text:
            logger.warning(
                f"{without_text:,} of {num_labels:,} labels have no word in any training text. They are as near to one cluster as to another "
                "and fill clusters up."
            )
        deep = balanced_clusters(features, shape.max_leaf, seed, num_workers, progress=progress)
        return cls(_levels(deep, shape.depths), labels_digest)

    # ---- what is in it ---------------------------------------------------------------------------------------------------

    @property
    def num_levels(self) -> int:
        """Levels to predict, the labels' included: H + 1 of the paper."""
        return len(self.parents)

    @property
    def num_nodes(self) -> tuple[int, ...]:
        """Nodes of each level; the last is the number of labels."""
        return tuple(map(len, self.parents))

    @property
    def num_labels(self) -> int:
        """Labels L."""
        return len(self.parents[-1])

    @cached_property
    def label_order(self) -> np.ndarray:
        """Label ids in the order of the tree, cluster by cluster, ascending within one, (L,): the permutation of the leaves."""
        return np.argsort(self.parents[-1], kind="stable").astype(np.int32)

    def clusters(self) -> list[np.ndarray]:
        """The label ids of each cluster, ascending."""
        return np.split(self.label_order, np.bincount(self.parents[-1]).cumsum()[:-1])

    def children(self, level: int) -> np.ndarray:
        """The nodes of a level by the node above them.

        Returns:
            Node ids, (nodes above, most children), int32; padded with the number of nodes of the level, which is no node. Above level 0
            there is the root alone.
        """
        parents = self.parents[level]
        counts = np.bincount(parents)
        order = np.argsort(parents, kind="stable")
        places = np.arange(len(parents)) - np.repeat(counts.cumsum() - counts, counts)
        children = np.full((len(counts), counts.max()), len(parents), dtype=np.int32)
        children[parents[order], places] = order
        return children

    def ancestors(self, level: int) -> np.ndarray:
        """The node of a level that each label is under, (L,) int32; the labels themselves for the last."""
        nodes = np.arange(self.num_labels, dtype=np.int32)
        for parents in self.parents[: level % self.num_levels : -1]:
            nodes = parents[nodes]
        return nodes

    def node_targets(self, label_rows: csr_array | Sequence[Sequence[int]], level: int) -> csr_array:
        """The nodes of a level that are positive for each text: those with a positive label under them.

        Args:
            label_rows: Labels of N texts, as for `label_matrix`.
            level: Level, from 0.

        Returns:
            Boolean, (N, nodes of the level), ids ascending.
        """
        labels = label_matrix(label_rows, self.num_labels)
        shape = (labels.shape[0], self.num_nodes[level])
        targets = csr_array((labels.data, self.ancestors(level)[labels.indices], labels.indptr), shape=shape)
        targets.sum_duplicates()
        return targets

    def check_labels(self, num_labels: int, labels_digest: str | None) -> None:
        """Refuse to be used for other labels than those it was built for.

        Args:
            num_labels: Labels of a model or data set.
            labels_digest: That of their names; None where they are not known.

        Raises:
            ValueError: With both numbers and both digests.
        """
        if num_labels != self.num_labels or (
            None not in (labels_digest, self.labels_digest) and labels_digest != self.labels_digest
        ):
            raise ValueError(
                f"The label tree covers {self.num_labels} labels (labels_digest {self.labels_digest}), but there are {num_labels} "
                f"(labels_digest {labels_digest}). Was it built from other training data, or are the labels in another order? Rebuild it "
                "with scripts/build_label_tree.py."
            )

    # ---- files -----------------------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """A hexadecimal digest of the levels."""
        digest = hashlib.blake2b(repr(self.num_nodes).encode(), digest_size=16)
        for level in self.parents:
            digest.update(level)
        return digest.hexdigest()

    def save(self, folder: str | os.PathLike[str], built_from: dict[str, Any] | None = None) -> None:
        """Write ``label_tree.safetensors`` and ``label_tree.json``.

        Args:
            folder: Made where it is missing.
            built_from: Data and settings, for the record in the second file.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_file({parents_name(level): parents for level, parents in enumerate(self.parents)}, folder / ARRAYS_FILE)
        settings = {
            "num_labels": self.num_labels,
            "num_levels": self.num_levels,
            "num_nodes": self.num_nodes,
            "labels_digest": self.labels_digest,
            "digest": self.digest(),
            "built_from": built_from or {},
        }
        (folder / SETTINGS_FILE).write_text(json_text(settings, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "LabelTree":
        """Open what `save` wrote.

        Raises:
            FileNotFoundError: If there is no tree in the folder.
            ValueError: If a file is damaged, of another tree, or no tree's; the message names file and values.
        """
        parents, settings = read_tree_files(Path(folder))
        try:
            tree = cls(parents, settings["labels_digest"])
        except ValueError as error:
            raise ValueError(f"{Path(folder) / ARRAYS_FILE}: {error}") from error
        if tree.digest() != settings["digest"]:
            raise ValueError(
                f"{Path(folder) / ARRAYS_FILE} is not the file that was saved with {SETTINGS_FILE} (digest {settings['digest']}, found "
                f"{tree.digest()}). Was one of the two changed? Copy both again from where the tree came."
            )
        return tree


def _levels(deep: DeepTree, depths: Sequence[int]) -> list[np.ndarray]:
    """Parents of the nodes at the chosen depths and of the labels; what is between two depths disappears."""
    levels = []
    for above, depth in zip([0, *depths[:-1]], depths, strict=True):
        parents = np.arange(len(deep.sizes[depth]), dtype=np.int32)
        for between in range(depth, above, -1):
            parents = deep.parents[between][parents]
        levels.append(parents)
    clusters = np.empty(len(deep.label_order), dtype=np.int32)
    clusters[deep.label_order] = np.repeat(np.arange(len(deep.sizes[-1])), deep.sizes[-1])
    return [*levels, clusters]
