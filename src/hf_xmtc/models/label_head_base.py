"""`BaseLabelHead`: loss, top-k and shortlists over all labels, the same for every way to get a label's raw logit."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .cornet import CorNet, CorNetMatrices
from .label_block_loss import block_loss
from .label_losses import LABEL_LOSSES
from .label_positives import positive_ids
from .label_rows import UNTRAINED_LOG_ODDS, keep_rows
from .label_scorer import LabelMatrix, LabelScorer, LinearHead, RowUpdate, ScorerSettings
from .label_shard import LabelShard
from .label_topk import block_topk, exact_topk
from .layer_weights import can_be_read
from .tracing import is_traced

__all__ = ["BaseLabelHead", "loss_divisor"]


def loss_divisor(num_documents: int, num_labels: int, reduction: str) -> int:
    """What a sum over documents and labels is divided by: ``mean`` B · L, ``sum_labels`` B, ``sum`` 1."""
    divisors = {"mean": num_documents * num_labels, "sum_labels": num_documents, "sum": 1}
    if reduction not in divisors:
        raise ValueError(f"reduction={reduction!r} is none of {', '.join(divisors)}.")
    return max(1, divisors[reduction])  # the loss of no documents is 0


class BaseLabelHead(nn.Module, ABC):
    """The output layer of a family: what it makes of documents goes in, one logit per label comes out, through CorNet where given.

    Loss and top-k go through the labels in blocks: their memory is set by ``block_size`` and ``memory_mib`` and not by the
    number of labels, and so is that of the backward pass, which computes logits again where they were not kept. `logits` gives
    all of them at once, for label sets where that is affordable.

    Args:
        num_labels: Labels L.
        block_size: Labels scored at a time, None for what suits the device.
        memory_mib: Logits of as many blocks as fit into this are kept for the next pass instead of being computed again.
        loss: ``bce``, ``propensity_bce`` or ``asymmetric`` (`label_losses`).
        loss_settings: Arguments of the loss.
    """

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
        # This process's part of the labels, where `shard_labels` has spread them over several; the matrices hold only its rows.
        self.shard: LabelShard | None = None

    # ---- what a head is made of ------------------------------------------------------------------------------------------

    @abstractmethod
    def source(self, hidden: Any) -> Tensor:
        """What the blocks of labels are scored from: features (B, d) for `linear_head`, or without one the raw logits (B, L)."""

    @property
    @abstractmethod
    def linear_head(self) -> LinearHead | None:
        """The layer that takes features to raw logits, block by block; None where `source` gives the raw logits."""

    @abstractmethod
    def raw_logits(self, hidden: Any) -> Tensor:
        """Logits of all labels before CorNet, (B, L)."""

    @abstractmethod
    def raw_logits_of(self, hidden: Any, label_ids: Tensor) -> Tensor:
        """Logits before CorNet of chosen labels, (B, S)."""

    @abstractmethod
    def matrices(self) -> dict[str, LabelMatrix]:
        """The matrices with one row per label, by their names in the head."""

    @property
    @abstractmethod
    def label_bias(self) -> nn.Parameter:
        """What is added to the raw logits: a number for each label, (L,), or one for all, (1,)."""

    def scoring_bytes(self, num_documents: int, num_tokens: int, gradients: bool) -> int:
        """Memory that raw logits take beyond what is counted for every head: kept for the backward pass, or at work in a block."""
        return 0

    @torch.no_grad()
    def resize_labels(self, kept_ids: Tensor) -> None:
        """Follow a change of the label space; ``kept_ids`` as in `CorNet.resize_labels`. Heads do it for their matrices."""
        self.num_labels, weights = len(kept_ids), self.positive_weight
        if weights is not None:
            self.positive_weight = weights.new_zeros(len(kept_ids))
            keep_rows(self.positive_weight, weights, kept_ids)

    @torch.no_grad()
    def silence(self, new: Tensor) -> bool:
        """Give new labels, True in (L,), so low a bias that nothing predicts them before they are trained.

        Returns:
            Whether this was possible: heads whose labels share one bias cannot.
        """
        bias = self.label_bias
        if len(bias) == len(new):
            bias[new] = min([UNTRAINED_LOG_ODDS, *bias[~new].tolist()])
        return len(bias) == len(new)

    def reset_parameters(self) -> None:
        """Start anew."""
        if self.positive_weight is not None:
            init.zeros_(self.positive_weight)

    # ---- what all heads do -----------------------------------------------------------------------------------------------

    @property
    def own_labels(self) -> slice:
        """The labels whose rows this process holds: all, unless they are spread over processes."""
        return slice(0, self.num_labels) if self.shard is None else slice(self.shard.start, self.shard.stop)

    def forward(self, hidden: Any) -> Tensor:
        return self.logits(hidden)

    def logits(self, hidden: Any, cornet: CorNet | None = None) -> Tensor:
        """Logits of all labels, (B, L): raw, or refined by CorNet.

        Raises:
            ValueError: If their gradient is asked for although label matrices are updated in the backward pass or sharded.
        """
        self._refuse_gradient("the logits of all labels")
        if self.shard is None:
            logits = self.raw_logits(hidden)
            return cornet(logits) if cornet is not None else logits
        with torch.no_grad():
            source, _, own = self.shard.join(self.source(hidden))
            scorer = self._scorer(source, None, cornet)
            scorer.read_contexts()
            blocks = [scorer.stages(start, stop, len(scorer.cornet))[-1] for start, stop in scorer.blocks()]
            return self.shard.split(torch.cat(blocks).t(), self.shard.sizes, own)

    def scores_for(self, hidden: Any, label_ids: Tensor, cornet: CorNet | None = None) -> Tensor:
        """Scores (after the sigmoid) of chosen labels.

        Their gradient, where one is asked for, is dense: it is as large as the weights.

        Args:
            hidden: What the family makes of B documents: of a `LabelHead` their hidden states, (B, H).
            label_ids: A shortlist per document, (B, S), padded with -100; the scores there are 0.
            cornet: Refines them as if all labels outside the shortlist had probability 0.

        Returns:
            (B, S).

        Raises:
            ValueError: If a label id is outside 0 … L-1, or their gradient is asked for although label matrices are updated in the
                backward pass or sharded.
        """
        self._refuse_gradient("the scores of a shortlist")
        self.check_label_ids("The shortlist", label_ids)
        return self._shortlist_scores(hidden, label_ids, cornet)

    def check_label_ids(self, what: str, label_ids: Tensor) -> None:
        """Refuse label ids (B, S) that are neither labels nor padding.

        Raises:
            ValueError: If there is one.
        """
        wrong = ((label_ids < 0) & (label_ids != -100)) | (label_ids >= self.num_labels)
        if bool(wrong.any()):
            raise ValueError(
                f"{what} holds label id {int(label_ids[wrong][0])}, but the ids are 0 … {self.num_labels - 1} "
                f"(num_labels={self.num_labels}), and -100 for padding."
            )

    def _shortlist_scores(self, hidden: Any, label_ids: Tensor, cornet: CorNet | None) -> Tensor:
        return self._scores(self.raw_logits_of(hidden, label_ids.clamp(min=0)), label_ids, cornet)

    def _scores(self, logits: Tensor, label_ids: Tensor, cornet: CorNet | None) -> Tensor:
        """Scores (B, S) of a shortlist's raw logits."""
        if cornet is not None:
            logits = cornet.refine_shortlist(logits, label_ids, self._reduce)
        return logits.sigmoid().masked_fill(label_ids < 0, 0.0)

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
            return self.loss_of(self.logits(hidden, cornet), labels, reduction)
        source = self.source(hidden)
        positives = self._positives(labels, len(source))
        if self.shard is not None:
            source, positives, _ = self.shard.join(source, positives)
        head, blocks, settings = self._parts(cornet)
        total = block_loss(source, head, blocks, positives, self.label_loss, settings, self.positive_weight, self.updates)
        return total / loss_divisor(len(positives), self.num_labels, reduction)

    def loss_of(self, logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """The same loss of logits (B, L) that exist already; arguments as in `loss`."""
        positives = self._positives(labels, len(logits))
        total = block_loss(logits, None, [], positives, self.label_loss, ScorerSettings(memory_mib=0), self.positive_weight)
        return total / loss_divisor(len(positives), self.num_labels, reduction)

    @torch.no_grad()
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
            logits = self.logits(hidden, cornet)
            loss = self.loss_of(logits, labels, reduction) if labels is not None else None
            logits, label_ids = exact_topk(logits, k)
            return logits.sigmoid(), label_ids, loss
        source = self.source(hidden)
        positives = self._positives(labels, len(source)) if labels is not None else None
        if self.shard is not None:
            source, positives, own = self.shard.join(source, positives)
        with torch.autocast(source.device.type, enabled=False):  # as for the loss
            scorer = self._scorer(source, positives, cornet)
            scorer.read_contexts()
            logits, label_ids, loss = block_topk(scorer, k)
        if loss is not None:
            loss = loss.to(scorer.dtype) / loss_divisor(len(source), self.num_labels, reduction)
        if self.shard is not None:
            widths = [min(k, size) for size in self.shard.sizes]
            logits = self.shard.split(logits, widths, own)
            label_ids = self.shard.split(label_ids + self.shard.start, widths, own)
            # Lower ranks hold lower ids, so a tie by position is a tie by id.
            logits, places = exact_topk(logits, k)
            label_ids = label_ids.gather(1, places)
        return logits.sigmoid(), label_ids, loss

    def _has_blocks(self, cornet: CorNet | None) -> bool:
        """Whether labels can be scored block by block: by weights that are at hand, not by layers that were quantized."""
        head, blocks = self.linear_head, cornet.matrices() if cornet is not None else []
        weights = ([head.weight] if head is not None else []) + [block.to_context for block in blocks]
        return not is_traced() and can_be_read(*weights)

    def _scorer(self, source: Tensor, positives: Tensor | None, cornet: CorNet | None) -> LabelScorer:
        head, blocks, settings = self._parts(cornet)
        return LabelScorer(source, head, blocks, settings, self.label_loss, positives, self.positive_weight)

    def _parts(self, cornet: CorNet | None) -> tuple[LinearHead, list[CorNetMatrices], ScorerSettings]:
        """What takes the source to logits, and how its blocks are gone through."""
        blocks, activation = (cornet.matrices(), cornet.activation) if cornet is not None else ([], "sigmoid")
        return self.linear_head, blocks, ScorerSettings(activation, self.block_size, self.memory_mib, self._reduce)

    @property
    def _reduce(self) -> Callable[[Tensor], None] | None:
        return self.shard.reduce if self.shard is not None else None

    def _refuse_gradient(self, wanted: str) -> None:
        if torch.is_grad_enabled() and (self.updates is not None or self.shard is not None):
            cause = "are updated in the backward pass, block by block" if self.shard is None else "are spread over processes"
            raise ValueError(
                f"The label matrices {cause}, but {wanted} were asked for with their gradient, which they would never get. Train on the "
                "loss alone (top_k=0 with labels), or call this under torch.no_grad()."
            )

    def _positives(self, labels: Tensor, num_documents: int) -> Tensor:
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
