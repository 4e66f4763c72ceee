"""`AttentionXMLConfig`: settings of AttentionXML."""

from typing import TYPE_CHECKING, Any

from .configuration_word_level import WordLevelConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_attentionxml import AttentionXMLForXMTC  # noqa: F401

__all__ = ["AttentionXMLConfig"]


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
    """

    model_type = "attentionxml"
    left_out_of_files = (
        "embedding_initializer_range",
        "embedding_dropout",
        "hidden_dropout_prob",
        "label_bias",
        "label_memory_mib",
    )

    embedding_dropout: float = 0.2
    embedding_initializer_range: float = 0.577
    hidden_size: int = 256
    num_hidden_layers: int = 1
    linear_sizes: list[int] | tuple[int, ...] = (256,)
    hidden_dropout_prob: float = 0.5
    label_bias: bool = False
    label_memory_mib: float = 512.0

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

    def check(self) -> None:
        super().check()
        self.check_sizes("hidden_size", "num_hidden_layers", "linear_sizes")

    @property
    def activation_elements_per_token(self) -> int:
        # What the steps of both directions keep on a CPU, measured; a fused kernel keeps less.
        return super().activation_elements_per_token + 36 * self.num_hidden_layers * self.hidden_size
