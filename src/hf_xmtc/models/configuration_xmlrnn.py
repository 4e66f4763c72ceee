"""`XMLRNNConfig`: settings of XML-RNN."""

from typing import TYPE_CHECKING, Any

from .configuration_word_level import WordLevelConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_xmlrnn import XMLRNNForXMTC  # noqa: F401

__all__ = ["XMLRNNConfig"]


class XMLRNNConfig(WordLevelConfig):
    """Settings of `XMLRNNForXMTC`; the defaults are AttentionXML's for medium-sized data sets, which its paper gives XML-RNN too.

    Fields of `WordLevelConfig` apply too.

    Args:
        hidden_size: Width H of each direction of the LSTM.
        num_hidden_layers: LSTM layers.
        linear_sizes: Widths of the ReLU layers between max pooling and label head; the large data sets have (512, 256) after an
            LSTM of 512.
        embedding_dropout: Dropout on word embeddings (0.2 in AttentionXML's code, unmentioned in its paper).
        hidden_dropout_prob: Dropout on the states of the last LSTM layer.
    """

    model_type = "xmlrnn"
    left_out_of_files = ("embedding_dropout", "hidden_dropout_prob")

    embedding_dropout: float = 0.2
    hidden_size: int = 256
    num_hidden_layers: int = 1
    linear_sizes: list[int] | tuple[int, ...] = (256,)
    hidden_dropout_prob: float = 0.5

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
