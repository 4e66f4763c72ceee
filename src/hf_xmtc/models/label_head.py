"""The output layer of every family: loss, best labels and logits of all labels, through CorNet where there is one.

`BaseLabelHead` is the same for every way to get a label's raw logit; `LabelHead`, a linear score, is that of most families. To be
read before `label_scorer` (logits of a block of labels), `label_block_loss` (their gradients), `label_topk` and `label_losses`.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .cornet import CorNet
from .label_block_loss import LabelMatrix, RowUpdate, block_loss
from .label_losses import LABEL_LOSSES, positive_ids
from .label_scorer import BlockSettings, GivenLogits, LabelLayers, LabelScorer, LinearLogits, LinearWeights
from .label_topk import block_topk, exact_topk
from .linear_layers import NEW_LABEL_BIAS, can_be_read, copy_rows, reset_linear, resized_linear
from .tracing import is_traced

__all__ = ["BaseLabelHead", "LabelHead", "loss_divisor"]


def loss_divisor(num_documents: int, num_labels: int, reduction: str) -> int:
    """Divisor of a sum over documents and labels: B · L for ``mean``, B for ``sum_labels``, 1 for ``sum``."""
    divisors = {"mean": num_documents * num_labels, "sum_labels": num_documents, "sum": 1}
    if reduction not in divisors:
        raise ValueError(f"reduction={reduction!r} is none of {', '.join(divisors)}.")
    return max(1, divisors[reduction])  # the loss of no documents is 0


class BaseLabelHead(nn.Module, ABC):
    """The output layer of a family: takes what the family makes of documents, and gives one logit per label.

    Loss and top-k go through the labels in blocks: their memory is set by ``block_size`` and ``memory_mib`` and not by the
    number of labels, and so is that of the backward pass, which computes again the logits that were not held. `logits` gives
    all of them at once, for label sets where that is affordable.

    Args:
        num_labels: Labels L.
        block_size: Labels scored at a time, None for what suits the device.
        memory_mib: Logits of as many blocks as fit into this are held for the next pass instead of being computed again.
        loss: ``bce``, ``propensity_bce`` or ``asymmetric`` (`label_losses`).
        loss_settings: Arguments of the loss.
    """

    # True where every label has one row of weights, which all read the same features of a document.
    is_linear = False

    def __init__(
        self,
        num_labels: int,
        block_size: int | None = None,
        memory_mib: float = 64.0,
        loss: str = "bce",
        loss_settings: dict[str, float] | None = None,
    ):
        super().__init__()
        if loss not in LABEL_LOSSES:
            raise ValueError(f"loss={loss!r} is none of {', '.join(LABEL_LOSSES)}.")
        self.num_labels = num_labels
        self.block_size, self.memory_mib = block_size, memory_mib
        try:
            self.label_loss = LABEL_LOSSES[loss](**(loss_settings or {}))
        except TypeError as error:
            raise ValueError(f"loss_settings={loss_settings!r} does not fit loss={loss!r}: {error}.") from error
        # Zero stands for a weight that nobody has set yet.
        self.register_buffer("positive_weight", torch.zeros(num_labels) if self.label_loss.weighs_labels else None)
        # What takes the gradients of the label matrices in the backward pass; see XMTCPreTrainedModel.update_labels_in_backward.
        self.updates: dict[str, RowUpdate] | None = None
        # As `torch.nn.Embedding.sparse`: `raw_logits_of` gives the label vectors a sparse gradient, of the rows that it reads.
        self.sparse_rows = False

    # ---- a family's own head defines ---------------------------------------------------------------------------------------

    @abstractmethod
    def raw_logits(self, hidden: Any) -> Tensor:
        """Logits of all labels before CorNet, (B, L)."""

    @abstractmethod
    def raw_logits_of(self, hidden: Any, label_ids: Tensor) -> Tensor:
        """Logits before CorNet of chosen labels, (B, S)."""

    def raw_logits_by_block(self, hidden: Any) -> LinearLogits | GivenLogits:
        """Raw logits for blocks of labels: computed with the block if a linear layer gives them, else given."""
        return GivenLogits(self.raw_logits(hidden))

    @abstractmethod
    def matrices(self) -> dict[str, LabelMatrix]:
        """The matrices with one row per label, by their names in the head."""

    @property
    @abstractmethod
    def label_bias(self) -> nn.Parameter:
        """Added to the raw logits: a number for each label, (L,), or one for all, (1,)."""

    def is_readable(self) -> bool:
        """True if the weights that blocks of labels are scored with can be read, which those of quantized layers cannot."""
        return True

    def scoring_bytes(self, num_documents: int, num_tokens: int, gradients: bool) -> int:
        """Memory for raw logits beyond what is counted for every head: held for the backward pass, or at work in a block."""
        return 0

    def candidate_bytes(self, num_documents: int, num_tokens: int, num_candidates: int, gradients: bool) -> int:
        """Memory for the raw logits of each document's own candidates: their rows of weights, and what else is held."""
        width = max((matrix.rows.shape[1] for matrix in self.matrices().values()), default=0)
        return 4 * (2 if gradients else 1) * num_documents * num_candidates * (width + 2)

    def reset_parameters(self) -> None:
        """Start anew."""
        if self.positive_weight is not None:
            init.zeros_(self.positive_weight)

    @torch.no_grad()
    def resize_labels(self, old_ids: Tensor) -> None:
        """Follow a change of the label space; ``old_ids`` as in `resized_linear`. Heads extend it to their matrices."""
        self.num_labels, weights = len(old_ids), self.positive_weight
        if weights is not None:
            self.positive_weight = weights.new_zeros(len(old_ids))
            copy_rows(self.positive_weight, weights, old_ids)

    @torch.no_grad()
    def silence(self, new: Tensor) -> bool:
        """Give new labels, True in (L,), so low a bias that nothing predicts them before they are trained.

        Returns:
            True if that is possible; heads whose labels share one bias cannot.
        """
        bias = self.label_bias
        if len(bias) == len(new):
            bias[new] = min([NEW_LABEL_BIAS, *bias[~new].tolist()])
        return len(bias) == len(new)

    def check_complete(self) -> None:
        """Refuse to be saved where this process holds only a part of the labels (`hf_xmtc.training.sharded_label_head`)."""

    # ---- logits ----------------------------------------------------------------------------------------------------------

    def forward(self, hidden: Any) -> Tensor:
        return self.logits(hidden)

    def logits(self, hidden: Any, cornet: CorNet | None = None) -> Tensor:
        """Logits of all labels, (B, L): raw, or refined by CorNet.

        Raises:
            ValueError: If their gradient is asked for, although label matrices are updated in the backward pass.
        """
        self._check_no_gradient("the logits of all labels")
        logits = self.raw_logits(hidden)
        return cornet(logits) if cornet is not None else logits

    def logits_and_loss(
        self, hidden: Any, labels: Tensor | None, reduction: str = "mean", cornet: CorNet | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """`logits`, and `loss` where there are labels."""
        logits = self.logits(hidden, cornet)
        return logits, self.loss_from_logits(logits, labels, reduction) if labels is not None else None

    def scores_for(self, hidden: Any, label_ids: Tensor, cornet: CorNet | None = None) -> Tensor:
        """Scores (after the sigmoid) of chosen labels.

        Their gradient, where one is asked for, is as large as the weights but with ``sparse_rows``.

        Args:
            hidden: What the family makes of B documents: of a `LabelHead` their hidden states, (B, H).
            label_ids: Candidates of each document, (B, S), padded with -100; the scores there are 0.
            cornet: Refines them as if all labels outside the candidates had probability 0.

        Returns:
            (B, S).

        Raises:
            ValueError: If a label id is outside 0 … L-1, or their gradient is asked for although label matrices are updated in the
                backward pass.
        """
        self._check_no_gradient("the scores of candidates")
        self.check_label_ids("label_ids", label_ids)
        return self._scores_of(self.raw_logits_of(hidden, label_ids.clamp(min=0)), label_ids, cornet)

    def _scores_of(self, logits: Tensor, label_ids: Tensor, cornet: CorNet | None) -> Tensor:
        """Scores (B, S) from the raw logits of candidates."""
        if cornet is not None:
            logits = cornet.refine_candidates(logits, label_ids, self._block_settings().reduce)
        return logits.sigmoid().masked_fill(label_ids < 0, 0.0)

    def check_label_ids(self, subject: str, label_ids: Tensor) -> None:
        """Refuse label ids (B, S) that are neither labels nor padding.

        Raises:
            ValueError: If there is one.
        """
        wrong = ((label_ids < 0) & (label_ids != -100)) | (label_ids >= self.num_labels)
        if bool(wrong.any()):
            raise ValueError(
                f"{subject} holds label id {int(label_ids[wrong][0])}, but the ids are 0 … {self.num_labels - 1} "
                f"(num_labels={self.num_labels}), and -100 for padding."
            )

    # ---- loss and best labels, block by block ------------------------------------------------------------------------------

    def loss(self, hidden: Any, labels: Tensor, reduction: str = "mean", cornet: CorNet | None = None) -> Tensor:
        """The loss over all labels, block by block.

        Args:
            hidden: What the family makes of B documents: of a `LabelHead` their hidden states, (B, H).
            labels: Padded label ids (B, P) or a float multi-hot matrix (B, L).
            reduction: ``mean`` over B × L, ``sum_labels`` (sum over labels, mean over documents) or ``sum``.
            cornet: Takes the raw logits to those that the loss is of.

        Returns:
            Scalar loss in float32 (float64 for float64 weights).

        Raises:
            ValueError: If there is not one row of labels per document, an id is out of range, or label weights are missing.
        """
        if not self._has_blocks(cornet):
            return self.loss_from_logits(self.logits(hidden, cornet), labels, reduction)
        raw, settings = self.raw_logits_by_block(hidden), self._block_settings()
        positives = self.positives(labels, len(raw.source))
        layers = LabelLayers.of(raw, cornet)
        total = block_loss(layers, settings, self.label_loss, positives, self.positive_weight, self.updates)
        return total / loss_divisor(len(positives), self.num_labels, reduction)

    def loss_from_logits(self, logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """The same loss of logits (B, L) that exist already; arguments as in `loss`."""
        positives, settings = self.positives(labels, len(logits)), BlockSettings(memory_mib=0)
        layers = LabelLayers(GivenLogits(logits))
        total = block_loss(layers, settings, self.label_loss, positives, self.positive_weight)
        return total / loss_divisor(len(positives), self.num_labels, reduction)

    def topk(self, hidden: Any, k: int, cornet: CorNet | None = None) -> tuple[Tensor, Tensor]:
        """The k best labels of each document, merged over label blocks.

        Returns:
            Scores (after the sigmoid) and label ids, (B, min(k, L)), ordered by logit, equal logits by lower id.

        Raises:
            ValueError: If k is less than 1.
        """
        scores, label_ids, _ = self.topk_and_loss(hidden, k, cornet=cornet)
        return scores, label_ids

    @torch.no_grad()
    def topk_and_loss(
        self, hidden: Any, k: int, labels: Tensor | None = None, reduction: str = "mean", cornet: CorNet | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """`topk`, and `loss` where there are labels, both from one pass and without gradient."""
        if not self._has_blocks(cornet):
            logits, loss = self.logits_and_loss(hidden, labels, reduction, cornet)
            logits, label_ids = exact_topk(logits, k)
            return logits.sigmoid(), label_ids, loss
        raw = self.raw_logits_by_block(hidden)
        positives = self.positives(labels, len(raw.source)) if labels is not None else None
        scorer = self._scorer(raw, cornet, positives)
        logits, label_ids, loss = block_topk(scorer, k)
        if loss is not None:
            loss = loss.to(scorer.dtype) / loss_divisor(scorer.num_documents, self.num_labels, reduction)
        return logits.sigmoid(), label_ids, loss

    def _scorer(
        self, raw: LinearLogits | GivenLogits, cornet: CorNet | None, positives: Tensor | None = None
    ) -> LabelScorer:
        layers, settings = LabelLayers.of(raw, cornet), self._block_settings()
        return LabelScorer(layers, settings, self.label_loss, positives, self.positive_weight)

    def _block_settings(self) -> BlockSettings:
        return BlockSettings(self.block_size, self.memory_mib)

    def _has_blocks(self, cornet: CorNet | None) -> bool:
        """True if labels can be scored block by block: by weights at hand, not by layers that were quantized."""
        layers = (
            [layer for block in cornet.blocks for layer in (block.to_context, block.to_labels)] if cornet is not None else []
        )
        return not is_traced() and self.is_readable() and can_be_read(*(layer.weight for layer in layers))

    def _check_no_gradient(self, output: str) -> None:
        """Refuse to record a gradient that label matrices would never get."""
        if torch.is_grad_enabled() and self.updates is not None:
            self._check_gradient(output, "are updated in the backward pass, block by block")

    def _check_gradient(self, output: str, cause: str) -> None:
        raise ValueError(
            f"The label matrices {cause}, but {output} were asked for with their gradient, which they would never get. Train on the "
            "loss only (top_k=0 with labels), or call this under torch.no_grad()."
        )

    def positives(self, labels: Tensor, num_documents: int) -> Tensor:
        if is_traced():
            raise ValueError(
                "A loss depends on which labels are positive, so it cannot be exported. Export the model without labels."
            )
        positives = positive_ids(labels, self.num_labels)
        if len(positives) != num_documents:
            raise ValueError(
                f"labels has {len(positives)} rows but there are {num_documents} documents. Give one row of labels per document, "
                "-100 in all of it for a document without labels."
            )
        if self.positive_weight is not None and not bool(self.positive_weight.all()):
            raise ValueError(
                f"The loss weighs labels, but {int((self.positive_weight == 0).sum())} of the {self.num_labels} weights are not "
                "set. XMTCTrainer sets them from the training labels; elsewhere call hf_xmtc.training.initialize_label_weights."
            )
        return positives


class LabelHead(BaseLabelHead):
    """One linear score per label of a hidden state (B, H), optionally through a bottleneck.

    Args:
        in_features: Width H of the document's hidden state.
        num_labels: Labels L.
        bottleneck_size: Width of an ELU layer between them, None for none (CorNet §5.2, Wiki-500K).
        block_size, memory_mib, loss, loss_settings: As for `BaseLabelHead`.
        initializer_range: Standard deviation of the output layer's first weights, with zero biases; None for the start of the
            CorNet authors.
    """

    is_linear = True

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

    def features(self, hidden: Tensor) -> Tensor:
        """``hidden`` (B, H) itself, or the bottleneck's output."""
        return hidden if self.bottleneck is None else nn.functional.elu(self.bottleneck(hidden))

    def raw_logits(self, hidden: Tensor) -> Tensor:
        return self.output(self.features(hidden))

    def raw_logits_of(self, hidden: Tensor, label_ids: Tensor) -> Tensor:
        return self._logits_of(self.features(hidden), label_ids)

    def _logits_of(self, features: Tensor, label_ids: Tensor) -> Tensor:
        if not self.is_readable():
            return self.output(features).gather(1, label_ids)
        weight = nn.functional.embedding(label_ids, self.output.weight, sparse=self.sparse_rows)  # (B, S, d)
        return (weight @ features[:, :, None]).squeeze(-1) + self.output.bias[label_ids]

    def raw_logits_by_block(self, hidden: Tensor) -> LinearLogits:
        return self._linear_logits(self.features(hidden))

    def _linear_logits(self, features: Tensor) -> LinearLogits:
        return LinearLogits(features, LinearWeights(self.output.weight, self.output.bias))

    def is_readable(self) -> bool:
        return can_be_read(self.output.weight)

    def matrices(self) -> dict[str, LabelMatrix]:
        weight, bias = self.output.weight, self.output.bias
        return {"output": LabelMatrix(weight, bias, [weight, bias])}

    @property
    def label_bias(self) -> nn.Parameter:
        return self.output.bias

    def resize_labels(self, old_ids: Tensor) -> None:
        super().resize_labels(old_ids)
        self.output = resized_linear(self.output, old_ids, self.initializer_range)
