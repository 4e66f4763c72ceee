"""How deep and wide a label tree is: levels chosen from the deep binary tree."""

from collections.abc import Iterator
from dataclasses import dataclass

from .deep_tree import cluster_depth

__all__ = ["TreeShape"]

# Above this many labels two levels of clusters pay.
_LABELS_OF_ONE_LEVEL = 50_000


@dataclass(frozen=True)
class TreeShape:
    """The depths of the deep binary tree that are levels of the label tree; below the last are the labels.

    The label tree of AttentionXML on Amazon-670K is ``TreeShape(max_leaf=8, depths=(11, 14, 17))``.

    Attributes:
        max_leaf: Most labels of a cluster, M.
        depths: Depths of the levels above the labels, ascending (AttentionXML's option ``levels``). A depth d has 2^d nodes, but for
            nodes that are small enough before others. The last is the depth of the clusters.
    """

    max_leaf: int
    depths: tuple[int, ...]

    @classmethod
    def of_algorithm_1(cls, num_labels: int, max_leaf: int, branching_depth: int, height: int) -> "TreeShape":
        """The levels of AttentionXML's Algorithm 1: clusters, their ancestors ``branching_depth`` above, and so on.

        Args:
            num_labels: Labels L.
            max_leaf: Most labels of a cluster, M.
            branching_depth: Depths from a level to the next, c: a node has at most 2^c children.
            height: Levels above the labels, H.

        Raises:
            ValueError: If the levels do not fit into the deep tree.
        """
        if branching_depth < 1 or height < 1:
            raise ValueError(f"branching_depth={branching_depth} and height={height} must be at least 1.")
        last = cluster_depth(num_labels, max_leaf)
        shape = cls(max_leaf, tuple(range(last - branching_depth * (height - 1), last + 1, branching_depth)))
        shape.check(num_labels)
        return shape

    @classmethod
    def for_labels(cls, num_labels: int, beam_width: int = 10) -> "TreeShape":
        """The levels along which a text's best labels are found with the fewest scores.

        Up to 50,000 labels there is one level of clusters, which costs C + K·L/C scores, and two above.

        Args:
            num_labels: Labels L.
            beam_width: Nodes of a level that are kept for a text, K.

        Raises:
            ValueError: If a number is below 1.
        """
        if num_labels < 1 or beam_width < 1:
            raise ValueError(f"num_labels={num_labels} and beam_width={beam_width} must be at least 1.")

        def scores(depths: tuple[int, ...]) -> int:
            nodes = [1, *(2**depth for depth in depths), num_labels]
            kept = [1, *(min(beam_width, number) for number in nodes[1:-1])]
            return sum(k * -(-below // above) for k, above, below in zip(kept, nodes[:-1], nodes[1:], strict=True))

        depths = min(_choices(num_labels), key=lambda depths: (scores(depths), depths))
        return cls(-(-num_labels // 2 ** depths[-1]), depths)

    def check(self, num_labels: int) -> None:
        """Refuse depths that a tree of so many labels does not have.

        Raises:
            ValueError: Naming the depth of its clusters.
        """
        last = cluster_depth(num_labels, self.max_leaf)
        ascending = list(self.depths) == sorted(set(self.depths))
        # A level at depth 0 would be the root again; only a tree of one cluster has nothing else.
        if not self.depths or not ascending or self.depths[-1] != last or (self.depths[0] < 1 and self.depths != (0,)):
            raise ValueError(
                f"Levels at the depths {list(self.depths)} do not fit {num_labels} labels in clusters of at most {self.max_leaf}, which are "
                f"at depth {last}: depths ascend, begin at 1 or more and end with {last}. Change max_leaf or the levels."
            )


def _choices(num_labels: int) -> Iterator[tuple[int, ...]]:
    last = cluster_depth(num_labels, 1)
    for depth in range(last + 1):
        if num_labels <= _LABELS_OF_ONE_LEVEL:
            yield (depth,)
        else:
            yield from ((upper, depth) for upper in range(1, depth))
