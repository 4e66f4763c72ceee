"""`LabelTreeIndex`: which nodes of a label tree belong to which, from the clusters below the root down to the labels."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .label_losses import positive_ids
from .tracing import is_traced

__all__ = ["LabelTreeIndex"]


class LabelTreeIndex(nn.Module):
    """A label tree as arrays that are saved with the weights.

    Level 0 holds the children of the root, the last level the labels; those between are levels of clusters. The clusters of a level
    are numbered in tree order, so that the children of a node are neighbours and the first one of each says all. Labels keep their
    ids; ``label_order`` lists them in tree order.

    A new index splits the labels evenly, in the order of their ids; `set_tree` gives it a tree.

    Args:
        level_sizes: Clusters of each level above the labels, from the root down.
        num_labels: Labels L.
    """

    def __init__(self, level_sizes: Sequence[int], num_labels: int):
        super().__init__()
        self.level_sizes, self.num_labels = list(level_sizes), num_labels
        for level in range(1, len(self.level_sizes) + 1):
            self.register_buffer(f"starts_{level}", self._even_starts(level))
        self.register_buffer("label_order", torch.arange(num_labels))
        self.register_buffer("label_places", torch.arange(num_labels))  # the inverse of label_order

    @property
    def last_level(self) -> int:
        """The level of the labels."""
        return len(self.level_sizes)

    def num_nodes(self, level: int) -> int:
        """Nodes of a level."""
        return self.num_labels if level == self.last_level else self.level_sizes[level]

    def starts(self, level: int) -> Tensor:
        """First child, by its place in ``level``, of each node of the level above, and the number of nodes behind them, (n + 1,)."""
        return getattr(self, f"starts_{level}")

    # ---- looking up nodes ------------------------------------------------------------------------------------------------

    def children_of(self, level: int, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The nodes of a level below chosen nodes of the level above.

        Args:
            level: The children's level, 1 or more.
            nodes: Different nodes of the level above, (B, K), padded with -100.

        Returns:
            The children in the order of their parents, (B, S), padded with -100; and for each of them the column of its parent in
            ``nodes``. S is the largest number of children that a document has here.
        """
        starts, ids = self.starts(level), nodes.clamp(min=0)
        first = starts[ids]  # (B, K)
        counts = (starts[ids + 1] - first) * (nodes >= 0)
        ends = counts.cumsum(dim=1)
        # A graph of one batch serves others, whose nodes may have more children.
        width = nodes.shape[1] * int(starts.diff().max()) if is_traced() or not len(nodes) else int(ends[:, -1].max())
        columns = torch.zeros_like(ends[:, :1]) + torch.arange(width, device=nodes.device)  # (B, S)
        parents = torch.searchsorted(ends, columns, right=True).clamp(max=nodes.shape[1] - 1)
        places = (first - ends + counts).gather(1, parents) + columns
        inside = columns < ends[:, -1:]
        found = self._ids_at(level, places * inside)
        return found.masked_fill(~inside, -100), parents

    def ancestors(self, level: int, label_ids: Tensor) -> Tensor:
        """The node of a level that each label is below, or is; ids of any shape, padded with -100."""
        if level == self.last_level:
            return label_ids
        nodes = self.label_places[label_ids.clamp(min=0)]
        for below in range(self.last_level, level, -1):
            nodes = torch.searchsorted(self.starts(below), nodes, right=True) - 1
        return nodes.masked_fill(label_ids < 0, -100)

    def positives(self, level: int, label_ids: Tensor) -> Tensor:
        """The nodes of a level that have a positive label below them, each once, (B, P), padded with -100, for label ids (B, P)."""
        return (
            label_ids if level == self.last_level else positive_ids(self.ancestors(level, label_ids), self.num_nodes(level))
        )

    def nearest(self, level: int, nodes: Tensor, k: int) -> Tensor:
        """The k nodes of a level of clusters that are nearest in the tree to any of chosen ones, these first, (B, k).

        Nearer are two nodes that part further down. In tree order that is where their numbers first differ, bit by bit, if the level
        was made by halving; the number with the bits that differ is then the distance.

        Args:
            level: A level above the labels.
            nodes: Nodes of this level, (B, P), padded with -100; without any the first k are taken.
            k: At most the nodes of the level.
        """
        everywhere = torch.arange(self.num_nodes(level), device=nodes.device)
        nodes = nodes[:, :, None]  # (B, P, 1)
        distances = (nodes ^ everywhere).masked_fill(nodes < 0, 2 * len(everywhere))
        distances = nn.functional.pad(distances, (0, 0, 0, 1), value=2 * len(everywhere)).amin(dim=1)  # (B, n)
        return distances.argsort(dim=1, stable=True)[:, :k]

    def parents(self, level: int) -> Tensor:
        """The parent of each node of a level, in the level above, (n,)."""
        nodes = self.label_places if level == self.last_level else torch.arange(self.num_nodes(level))
        return torch.searchsorted(self.starts(level), nodes.to(self.label_order.device), right=True) - 1

    def _ids_at(self, level: int, places: Tensor) -> Tensor:
        return self.label_order[places] if level == self.last_level else places

    # ---- building and checking -------------------------------------------------------------------------------------------

    def _even_starts(self, level: int) -> Tensor:
        above, nodes = self.level_sizes[level - 1], self.num_nodes(level)
        return torch.arange(above + 1) * nodes // above

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Split the labels evenly; what was loaded from a checkpoint stays."""
        for level in range(1, self.last_level + 1):
            init.copy_(self.starts(level), self._even_starts(level))
        for places in (self.label_order, self.label_places):
            init.copy_(places, torch.arange(self.num_labels))

    def set_tree(self, starts: Sequence[Tensor], label_order: Tensor) -> None:
        """Take over a tree.

        Args:
            starts: For each level below the first, as `starts` gives them.
            label_order: The labels in tree order, (L,).

        Raises:
            ValueError: If they are not a tree of this index's sizes.
        """
        given = {f"starts_{level}": array for level, array in enumerate(starts, start=1)} | {"label_order": label_order}
        expected = {name: buffer for name, buffer in self.named_buffers() if name != "label_places"}
        shapes = [{name: tuple(array.shape) for name, array in arrays.items()} for arrays in (given, expected)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"The tree's arrays have the shapes {shapes[0]}, but a model with tree_level_sizes={self.level_sizes} and "
                f"num_labels={self.num_labels} takes {shapes[1]}. Was the tree built for other labels?"
            )
        before = {name: buffer.clone() for name, buffer in self.named_buffers()}
        for name, array in given.items():
            expected[name].copy_(array)
        try:
            if self._is_permutation(self.label_order):
                self.label_places.copy_(self.label_order.argsort())
            self.check()
        except ValueError:
            self.load_state_dict(before)
            raise

    def fits(self) -> bool:
        """True if the arrays end with the number of nodes of their level."""
        return all(int(self.starts(level)[-1]) == self.num_nodes(level) for level in range(1, self.last_level + 1))

    def check(self) -> None:
        """Refuse arrays that are no tree.

        Raises:
            ValueError: If they are not.
        """
        for level in range(1, self.last_level + 1):
            starts, nodes = self.starts(level), self.num_nodes(level)
            if int(starts[0]) != 0 or int(starts[-1]) != nodes or bool((starts.diff() < 0).any()):
                raise ValueError(
                    f"starts_{level} of the label tree runs from {int(starts[0])} to {int(starts[-1])}, but must rise from 0 to {nodes}. Is the "
                    "checkpoint damaged? Copy its weights again."
                )
        same = torch.arange(self.num_labels, device=self.label_order.device)
        # The order first: the places are looked up in it.
        if not self._is_permutation(self.label_order) or not torch.equal(self.label_places[self.label_order], same):
            raise ValueError(
                f"label_order and label_places of the label tree do not name each of the {self.num_labels} labels once. Is the "
                "checkpoint damaged? Copy its weights again."
            )

    def _is_permutation(self, order: Tensor) -> bool:
        return torch.equal(order.sort().values, torch.arange(self.num_labels, device=order.device))

    @torch.no_grad()
    def resize_labels(self, old_ids: Tensor) -> None:
        """Follow a change of the label space: known labels stay in their clusters, new ones join the smallest.

        Args:
            old_ids: For each new label its old label id, or -1, (L_new,).
        """
        device, last = self.label_order.device, self.last_level
        old_ids, above = old_ids.to(device), self.level_sizes[-1]
        known = old_ids >= 0
        clusters = self.parents(last)[old_ids.clamp(min=0)]
        smallest = torch.bincount(clusters[known], minlength=above).argsort(stable=True)
        clusters[~known] = smallest[torch.arange(int((~known).sum()), device=device) % above]
        self.num_labels = len(old_ids)
        self.label_order = clusters.argsort(stable=True)
        self.label_places = self.label_order.argsort()
        ends = torch.bincount(clusters, minlength=above).cumsum(dim=0)
        setattr(self, f"starts_{last}", nn.functional.pad(ends, (1, 0)))
