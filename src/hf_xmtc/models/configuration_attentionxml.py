"""`AttentionXMLConfig`: settings of AttentionXML."""

import itertools
import math
from typing import TYPE_CHECKING, Any

from .configuration_word_level import WordLevelConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_attentionxml import AttentionXMLForXMTC  # noqa: F401

__all__ = ["AttentionXMLConfig"]

# Labels that are scored for a document over a tree, where no beam width is given.
CANDIDATES = 1000


class AttentionXMLConfig(WordLevelConfig):
    """Settings of `AttentionXMLForXMTC`; the defaults are the sizes and numerics of the authors' code for medium-sized data sets.

    Fields of `WordLevelConfig` apply too.

    Args:
        embedding_initializer_range: Standard deviation of new word embeddings: that of the uniform numbers from -1 to 1 that the
            authors' code gives to words without a pretrained vector. With the 0.1 of other families attention is so even that labels
            are told apart only after many epochs.
        hidden_size: Width H of each direction of the LSTM.
        num_hidden_layers: LSTM layers.
        linear_sizes: Widths of the ReLU layers that all labels share.
        label_bias: Give each label a bias of its own, which starts at the log-odds of its frequency. In the authors' code one bias
            serves all labels. At the end of training no difference holds (``scripts/results/batches.md``).
        embedding_dropout: Dropout on word embeddings (0.2 in the authors' code, unmentioned in the paper).
        hidden_dropout_prob: Dropout on the states of the last LSTM layer.
        label_memory_mib: Attention and contexts of all labels are kept for the backward pass if they fit into this, else they are
            computed again for ``label_block_size`` labels at a time, which takes about a third longer and bounds the memory.
        tree_level_sizes: Clusters of each level of a label tree, from the root down, for `LabelTreeIndex`; None scores all labels. A
            model with a tree is trained level after level (`hf_xmtc.training.train_levels`).
        beam_width: Clusters of each level whose children are scored; by default as many as have about a thousand. (The authors' code:
            160 where a cluster has 8 children, on Amazon-670K, and 15 where it has 64, on Wiki-500K.)
    """

    model_type = "attentionxml"
    left_out_of_files = (
        "embedding_initializer_range",
        "embedding_dropout",
        "hidden_dropout_prob",
        "label_bias",
        "label_memory_mib",
        "tree_level_sizes",
        "beam_width",
    )

    embedding_dropout: float = 0.2
    embedding_initializer_range: float = 0.577
    hidden_size: int = 256
    num_hidden_layers: int = 1
    linear_sizes: list[int] | tuple[int, ...] = (256,)
    hidden_dropout_prob: float = 0.5
    label_bias: bool = False
    label_memory_mib: float = 512.0
    tree_level_sizes: list[int] | None = None
    beam_width: int | None = None

    @classmethod
    def reproduction(cls, **settings: Any) -> "AttentionXMLConfig":
        """The numerics of the authors' code: one bias for all labels."""
        return cls(**{"label_bias": False, **settings})

    @classmethod
    def large(cls, **settings: Any) -> "AttentionXMLConfig":
        """The authors' sizes for large data sets (AmazonCat-13K, Wiki-500K, Amazon-670K)."""
        return cls(**{"hidden_size": 512, "linear_sizes": (512, 256), **settings})

    def __post_init__(self, **kwargs: Any):
        self.linear_sizes = list(self.linear_sizes)
        super().__post_init__(**kwargs)

    def set_tree_defaults(self) -> None:
        """Choose what follows from the number of labels."""
        if self.tree_level_sizes and self.beam_width is None:
            sizes = [*self.tree_level_sizes, self.num_labels]
            children = max(math.ceil(below / above) for above, below in itertools.pairwise(sizes))
            self.beam_width = min(max(self.tree_level_sizes), math.ceil(CANDIDATES / max(1, children)))

    def check(self) -> None:
        self.set_tree_defaults()  # only here is the number of labels known
        super().check()
        self.check_sizes("hidden_size", "num_hidden_layers", "linear_sizes")
        if self.tree_level_sizes is None:
            if self.beam_width is not None:
                raise ValueError(
                    f"beam_width={self.beam_width}, but without tree_level_sizes every label is scored. Leave it out, or give the tree's sizes."
                )
            return
        self.check_sizes("tree_level_sizes")
        if not self.tree_level_sizes or (self.beam_width is not None and self.beam_width < 1):
            raise ValueError(
                f"tree_level_sizes={self.tree_level_sizes} and beam_width={self.beam_width}: a tree has at least one level of clusters, and "
                "at least one cluster's children are scored. Leave both out to score all labels."
            )
        if self.label_loss != "bce":
            raise ValueError(
                f"label_loss={self.label_loss!r} looks at all labels, but with tree_level_sizes={self.tree_level_sizes} only candidates are "
                "scored. Use label_loss='bce'."
            )

    @property
    def activation_elements_per_token(self) -> int:
        # What the steps of both directions keep on a CPU, measured; a fused kernel keeps less.
        return super().activation_elements_per_token + 36 * self.num_hidden_layers * self.hidden_size
