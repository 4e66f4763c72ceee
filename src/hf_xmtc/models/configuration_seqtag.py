"""`SeqTagConfig`: settings of SeqTag."""

from typing import TYPE_CHECKING

from .configuration_joint import JointConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_seqtag import SeqTagForXMTC  # noqa: F401

__all__ = ["SeqTagConfig"]


class SeqTagConfig(JointConfig):
    """Settings of `SeqTagForXMTC`.

    Args:
        lstm_hidden_size: Width of each direction of the LSTM over the labels.
    """

    model_type = "seqtag"
    lstm_hidden_size: int = 256

    def check(self) -> None:
        super().check()
        if self.lstm_hidden_size < 1:
            raise ValueError(f"lstm_hidden_size={self.lstm_hidden_size}, but a size is at least 1.")
        for field, needed, reason in (
            ("joint_embedding", True, "it tags the labels' states, so the encoder has to read them"),
            ("cornet_num_blocks", 0, "its scores are the CRF's marginals, which CorNet cannot refine"),
            ("label_loss", "bce", "its loss is the CRF's"),
            (
                "decision_threshold",
                0.5,
                "its predicted set is its best sequence, which no threshold changes; give threshold=… when you predict",
            ),
        ):
            if getattr(self, field) != needed:
                raise ValueError(f"{field}={getattr(self, field)!r}, but for SeqTag it must be {needed!r}: {reason}.")

    def activation_elements_beside_encoder(self, num_tokens: int) -> int:
        # What the steps of both directions keep on a CPU, measured (a fused kernel keeps less); products of the CRF's matrices.
        return self.num_labels * (36 * self.lstm_hidden_size + 50)
