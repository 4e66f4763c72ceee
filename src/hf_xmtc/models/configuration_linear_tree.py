"""`ParabelConfig`, `BonsaiConfig` and `DiSMECConfig`: settings of linear trees; DiSMEC, one-vs-all, is a tree of one leaf."""

from typing import TYPE_CHECKING, Any

from .configuration_word_level import WordTokenizerConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_linear_tree import LinearTreeModel  # noqa: F401

__all__ = ["BonsaiConfig", "DiSMECConfig", "LinearConfig", "LinearTreeConfig", "ParabelConfig"]

NODE_LOSSES = ("squared_hinge", "log")
DAMAGED = "Training sets it: was config.json changed by hand or damaged? Copy it again from where the model came."


class LinearConfig(WordTokenizerConfig):
    """Settings of linear classifiers on TF-IDF: how omikuji trains them, and how many weights they have.

    Args:
        vocab_size: Words of the tokenizer.
        pad_token_id: Id of the padding token.
        node_loss: Loss of a classifier, ``squared_hinge`` or ``log``; it also decides how a margin becomes a probability.
        node_cost: Weight C of the loss beside the regularization.
        weight_threshold: Weights that are smaller are left out.
        num_weights: Weights of all classifiers, the outcome of training.
    """

    # Fields that are the outcome of training.
    sizes = ("num_weights",)

    cornet_num_blocks: int = 0
    vocab_size: int = 500_000
    pad_token_id: int | None = 0
    node_loss: str = "squared_hinge"
    node_cost: float = 1.0
    weight_threshold: float = 0.1
    num_weights: int = 0

    def check(self) -> None:
        super().check()
        self._check_counts("vocab_size")
        if self.node_loss not in NODE_LOSSES:
            raise ValueError(f"node_loss={self.node_loss!r} is not one of {', '.join(NODE_LOSSES)}.")
        if self.node_cost <= 0 or self.weight_threshold < 0:
            raise ValueError(
                f"node_cost={self.node_cost} and weight_threshold={self.weight_threshold}, but a cost is positive and a threshold not "
                "negative."
            )
        if not _is_count(self.num_weights):
            raise ValueError(f"num_weights={self.num_weights}, but it counts the weights of all classifiers. {DAMAGED}")

    def _check_counts(self, *fields: str) -> None:
        for field in fields:
            if getattr(self, field) < 1:
                raise ValueError(f"{field}={getattr(self, field)}, but it must be at least 1.")


class LinearTreeConfig(LinearConfig):
    """Settings of a linear tree: how omikuji grows it, how it is searched, and how large it has become; the others are `LinearConfig`'s.

    Args:
        num_trees: Trees, whose scores are averaged.
        num_clusters: Clusters that a node's labels are divided into.
        balanced_clusters: Whether clusters have the same number of labels.
        min_branch_size: Labels that a node needs to be divided further; with fewer its children are the labels.
        max_depth: Levels of clusters at most.
        beam_width: Nodes of each level and tree whose children are scored; labels below others have score 0, and are not among the best
            (id -100 in their places). None scores all labels.
            omikuji's own search has 10, and leaves out all but the 10 best labels of a node too.
        level_sizes: Nodes of each level and tree between roots and labels. Like ``num_weights`` the outcome of training.
    """

    left_out_of_files = ("beam_width",)
    sizes = ("level_sizes", "num_weights")

    num_trees: int = 3
    num_clusters: int = 2
    balanced_clusters: bool = True
    min_branch_size: int = 100
    max_depth: int = 20
    beam_width: int | None = None
    level_sizes: list[list[int]] | None = None

    def __post_init__(self, **kwargs: Any):
        self.level_sizes = self.level_sizes or []
        super().__post_init__(**kwargs)

    def check(self) -> None:
        super().check()
        self._check_counts("num_trees", "min_branch_size", "max_depth")
        if not 2 <= self.num_clusters <= self.min_branch_size:
            raise ValueError(
                f"num_clusters={self.num_clusters} with min_branch_size={self.min_branch_size}, but a node is divided into 2 clusters at "
                "least, and needs a label for each. Raise min_branch_size."
            )
        if self.beam_width is not None and self.beam_width < 1:
            raise ValueError(f"beam_width={self.beam_width}; a beam holds at least 1 node. None scores all labels.")
        if not isinstance(self.level_sizes, list) or not all(map(self._is_level, self.level_sizes)):
            raise ValueError(
                f"level_sizes={self.level_sizes!r:.80} with num_trees={self.num_trees}, but it has a list for each level, and there the "
                f"number of nodes of each tree. {DAMAGED}"
            )

    def _is_level(self, sizes: Any) -> bool:
        return isinstance(sizes, list) and len(sizes) == self.num_trees and all(map(_is_count, sizes))


def _is_count(number: Any) -> bool:
    return type(number) is int and 0 <= number < 2**31  # as many as int32 counts


class ParabelConfig(LinearTreeConfig):
    """Settings of `ParabelForXMTC`: balanced binary trees. Fields of `LinearTreeConfig`; the defaults are omikuji's."""

    model_type = "parabel"


class BonsaiConfig(LinearTreeConfig):
    """Settings of `BonsaiForXMTC`: shallow trees of wide, unbalanced nodes.

    Fields of `LinearTreeConfig`; 100 clusters of no fixed size and at most 3 levels, as omikuji imitates Bonsai.
    """

    model_type = "bonsai"

    num_clusters: int = 100
    balanced_clusters: bool = False
    max_depth: int = 3


class DiSMECConfig(LinearConfig):
    """Settings of `DiSMECForXMTC`: a classifier for each label, without a tree. Fields of `LinearConfig`.

    Weights below 0.01 are left out, Δ of the paper. The cost is our choice, on validation; the authors' code has liblinear's, 1.
    """

    model_type = "dismec"

    node_cost: float = 0.5
    weight_threshold: float = 0.01
