"""`MeSHProbeNetConfig`: settings of MeSHProbeNet."""

from typing import TYPE_CHECKING, Any

from .configuration_word_level import WordLevelConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_meshprobenet import MeSHProbeNetForXMTC  # noqa: F401

__all__ = ["MeSHProbeNetConfig"]


class MeSHProbeNetConfig(WordLevelConfig):
    """Settings of `MeSHProbeNetForXMTC`; the defaults are the sizes of CorNet §5.2.3 and the numerics of its authors' code.

    Fields of `WordLevelConfig` apply too.

    Args:
        hidden_size: Width H of each direction of the LSTM.
        num_hidden_layers: LSTM layers.
        num_probes: Probes M, each of which reads the document by an attention of its own.
        bottleneck_size: Width of an ELU layer between probes and labels (CorNet §5.2.3: 512 for Wiki-500K; the ELU is in the
            authors' code alone); None for no bottleneck.
        embedding_dropout: Dropout on word embeddings (0.2 in the authors' code, unmentioned in the paper).
        hidden_dropout_prob: Dropout on the states of the last LSTM layer.
    """

    model_type = "meshprobenet"
    left_out_of_files = ("embedding_dropout", "bottleneck_size", "hidden_dropout_prob")

    embedding_dropout: float = 0.2
    hidden_size: int = 300
    num_hidden_layers: int = 2
    num_probes: int = 5
    bottleneck_size: int | None = None
    hidden_dropout_prob: float = 0.5

    @classmethod
    def large(cls, **settings: Any) -> "MeSHProbeNetConfig":
        """MeSHProbeNet-large, as big without CorNet as CorNetMeSHProbeNet (CorNet §5.6.1 and table 5)."""
        return cls(**{"hidden_size": 400, "num_hidden_layers": 3, "num_probes": 10, "cornet_num_blocks": 0, **settings})

    def check(self) -> None:
        super().check()
        self.check_sizes("hidden_size", "num_hidden_layers", "num_probes")
        if self.bottleneck_size is not None:
            self.check_sizes("bottleneck_size")

    @property
    def activation_elements_per_token(self) -> int:
        # What the steps of both directions keep on a CPU, measured (a fused kernel keeps less); scores and weights of the probes.
        lstm = 36 * self.num_hidden_layers * self.hidden_size
        return super().activation_elements_per_token + lstm + 3 * self.num_probes
