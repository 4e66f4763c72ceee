"""`LabelHead`: hidden state → one linear score per label, the output layer of most families."""

import torch
from torch import Tensor, nn

from .cornet import CorNet
from .initial_weights import reset_linear
from .label_head_base import BaseLabelHead
from .label_rows import keep_rows
from .label_scorer import LabelMatrix, LinearHead
from .layer_weights import can_be_read

__all__ = ["LabelHead"]


class LabelHead(BaseLabelHead):
    """One linear score per label of a hidden state (B, H), optionally through a bottleneck, and through CorNet where one is given.

    Args:
        in_features: Width H of the document's hidden state.
        num_labels: Labels L.
        bottleneck_size: Width of an ELU layer between them, None for none (CorNet §5.2, Wiki-500K).
        block_size: Labels scored at a time, None for what suits the device.
        memory_mib: Logits of as many blocks as fit into this are kept for the next pass instead of being computed again.
        loss: ``bce``, ``propensity_bce`` or ``asymmetric`` (`label_losses`).
        loss_settings: Arguments of the loss.
        initializer_range: Standard deviation of the output layer's first weights, with zero biases; None for the start of the
            CorNet authors.
    """

    def __init__(
        self,
        in_features: int,
        num_labels: int,
        bottleneck_size: int | None = None,
        block_size: int | None = None,
        memory_mib: float = 64.0,
        loss: str = "bce",
        loss_settings: dict[str, float] | None = None,
        initializer_range: float | None = None,
    ):
        super().__init__(num_labels, block_size, memory_mib, loss, loss_settings)
        self.initializer_range = initializer_range
        self.bottleneck = nn.Linear(in_features, bottleneck_size) if bottleneck_size else None
        self.output = nn.Linear(bottleneck_size or in_features, num_labels)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Xavier-uniform weights and the biases of `torch.nn.Linear`, as the CorNet authors initialise their classifiers.

        With ``initializer_range`` the output layer's weights are normal and its biases zero.
        """
        super().reset_parameters()
        if self.bottleneck is not None:
            reset_linear(self.bottleneck)
        reset_linear(self.output, self.initializer_range)

    def source(self, hidden: Tensor) -> Tensor:
        """``hidden`` (B, H) itself, or the bottleneck's output."""
        return hidden if self.bottleneck is None else nn.functional.elu(self.bottleneck(hidden))

    @property
    def linear_head(self) -> LinearHead:
        return LinearHead(self.output.weight, self.output.bias)

    @property
    def label_bias(self) -> nn.Parameter:
        return self.output.bias

    def raw_logits(self, hidden: Tensor) -> Tensor:
        return self.output(self.source(hidden))

    def raw_logits_of(self, hidden: Tensor, label_ids: Tensor) -> Tensor:
        return self._of_source(self.source(hidden), label_ids)

    def _of_source(self, source: Tensor, label_ids: Tensor) -> Tensor:
        if not can_be_read(self.output.weight):
            return self.output(source).gather(1, label_ids)
        weight = self.output.weight[label_ids]  # (B, S, d)
        return (weight @ source[:, :, None]).squeeze(-1) + self.output.bias[label_ids]

    def _shortlist_scores(self, hidden: Tensor, label_ids: Tensor, cornet: CorNet | None) -> Tensor:
        if self.shard is None:
            return super()._shortlist_scores(hidden, label_ids, cornet)
        with torch.no_grad():
            source, joined_ids, own = self.shard.join(self.source(hidden), label_ids)
            # Scores are 0 for labels of other processes.
            scores = self._scores(self._of_source(source, joined_ids.clamp(min=0)), joined_ids, cornet)
            self.shard.reduce(scores)
        return scores[own, : label_ids.shape[1]]

    def matrices(self) -> dict[str, LabelMatrix]:
        weight, bias = self.output.weight, self.output.bias
        return {"output": LabelMatrix(weight, bias, [weight, bias])}

    def resize_labels(self, kept_ids: Tensor) -> None:
        super().resize_labels(kept_ids)
        old = self.output
        self.output = nn.Linear(old.in_features, len(kept_ids), device=old.weight.device, dtype=old.weight.dtype)
        reset_linear(self.output, self.initializer_range)
        keep_rows(self.output.weight, old.weight, kept_ids)
        keep_rows(self.output.bias, old.bias, kept_ids)
