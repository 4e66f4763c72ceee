"""`LabelAttentionHead`: every label reads the document by an attention of its own; AttentionXML's output layers.

Attention of all labels over all tokens is documents × labels × tokens elements, far more than anything else. Here it exists for a
block of labels at a time, in training too: the backward pass computes each block again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .label_block_loss import LabelMatrix, RowUpdate
from .label_head import BaseLabelHead
from .label_scorer import suitable_block_size
from .linear_layers import copy_rows, reset_linear, resized_linear
from .tracing import is_traced

__all__ = ["DocumentStates", "LabelAttentionHead", "attend"]


class DocumentStates(NamedTuple):
    """The tokens that labels attend to.

    Attributes:
        states: One vector per token, (B, T, D).
        read: True at tokens, False at padding, (B, T); at least one per document.
    """

    states: Tensor
    read: Tensor


def attend(scores: Tensor, read: Tensor) -> Tensor:
    """Attention weights (B, L, T), 0 at padding, from products of label vectors and states (B, L, T).

    Args:
        scores: The products.
        read: True at tokens, (B, T).

    Source: AttentionXML, equation 4 (α_ij).
    """
    return scores.masked_fill(~read[:, None], float("-inf")).softmax(dim=-1)


class LabelAttentionHead(BaseLabelHead):
    """Logit of label j: layers that all labels share, on the mean m_j of the document's states by the attention of label j.

    Raw logits (B, L) are held, attention (B, L, T) and what comes of it only for a block of labels, unless they fit into
    ``memory_mib`` and are held for the backward pass. The first layer is linear in m_j, so all tokens are taken through it before
    the labels read them: W · m_j = Σ_t α_tj (W · h_t). That is T products instead of L, and m_j is never formed.

    Args:
        state_size: Width D of the states.
        num_labels: Labels L.
        linear_sizes: Widths of the shared ReLU layers in front of the last, shared linear score.
        label_bias: Add a number of its own to the logit of each label.
        block_size: Labels that attend at a time, None for what suits the device.
        memory_mib: Attention of all labels is held in training if it fits into this; CorNet's logits as in `BaseLabelHead`.
        loss: As for `BaseLabelHead`.
        loss_settings: Arguments of the loss.

    Source: AttentionXML, equations 4 to 6. That the layers have biases is only in the authors' code; a bias per label is in neither.
    """

    def __init__(
        self,
        state_size: int,
        num_labels: int,
        linear_sizes: list[int] | tuple[int, ...] = (256,),
        label_bias: bool = False,
        block_size: int | None = None,
        memory_mib: float = 64.0,
        loss: str = "bce",
        loss_settings: dict[str, float] | None = None,
    ):
        super().__init__(num_labels, block_size, memory_mib, loss, loss_settings)
        self.attention = _Weights(state_size, num_labels, bias=False)
        sizes = [state_size, *linear_sizes]
        self.linears = nn.ModuleList(_Weights(size, following) for size, following in zip(sizes, sizes[1:], strict=False))
        self.output = _Weights(sizes[-1], 1)
        self.bias = nn.Parameter(torch.zeros(num_labels)) if label_bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Xavier-uniform weights and the biases of `torch.nn.Linear`, as in the authors' code; biases of labels at zero."""
        super().reset_parameters()
        for linear in (self.attention, *self._layers):
            reset_linear(linear)
        if self.bias is not None:
            init.zeros_(self.bias)

    # ---- logits ----------------------------------------------------------------------------------------------------------

    @property
    def label_bias(self) -> nn.Parameter:
        return self.output.bias if self.bias is None else self.bias

    def raw_logits(self, hidden: DocumentStates) -> Tensor:
        logits = self._attended_logits(hidden)
        return logits if self.bias is None else logits + self.bias

    def _attended_logits(self, hidden: DocumentStates) -> Tensor:
        states, read = _trimmed(hidden)
        values, weight, after = self._values(states), self.attention.weight, self._after_reading()
        if is_traced():
            return _logits(weight @ states.mT, read, values, after)
        per_label = self._elements(*read.shape)
        block_size = self._block_size(per_label)
        if not torch.is_grad_enabled():
            return torch.cat([_logits(block @ states.mT, read, values, after) for block in weight.split(block_size)], dim=1)
        update = (self.updates or {}).get("label_head.attention")
        if update is None and self._fits(per_label):
            return _logits(weight @ states.mT, read, values, after)
        return _BlockAttention.apply(update, block_size, states, read, values, weight, *after)

    def raw_logits_of(self, hidden: DocumentStates, label_ids: Tensor) -> Tensor:
        logits = self._attended_logits_of(hidden, label_ids)
        return logits if self.bias is None else logits + self.bias[label_ids]

    def _attended_logits_of(self, hidden: DocumentStates, label_ids: Tensor) -> Tensor:
        states, read = _trimmed(hidden)
        values, weight, after = self._values(states), self.attention.weight, self._after_reading()
        per_document = self._candidate_elements(label_ids.shape[1], read.shape[1])
        fits = 4 * per_document * len(read) <= self.memory_mib * 2**20
        if is_traced() or (torch.is_grad_enabled() and fits):
            return _logits(_rows(weight, label_ids, self.sparse_rows) @ states.mT, read, values, after)
        block_size = suitable_block_size(per_document, weight.device.type)  # of documents
        if torch.is_grad_enabled():
            return _CandidateAttention.apply(block_size, self.sparse_rows, label_ids, states, read, values, weight, *after)
        return _candidate_logits(block_size, label_ids, states, read, values, weight, after)

    def attention_of(self, hidden: DocumentStates, label_ids: Tensor) -> Tensor:
        """Attention weights of chosen labels, (B, S, T), for label ids (B, S); 0 at padding of the tokens and of the labels.

        Raises:
            ValueError: If a label id is outside 0 … L-1.
        """
        self.check_label_ids("label_ids", label_ids)
        weights = attend(self.attention.weight[label_ids.clamp(min=0)] @ hidden.states.mT, hidden.read)
        return weights * (label_ids >= 0)[:, :, None]

    @property
    def _layers(self) -> list[nn.Linear]:
        """The layers that all labels share."""
        return [*self.linears, self.output]

    def _values(self, states: Tensor) -> Tensor:
        """The tokens behind the weights of the first layer, (B, T, W)."""
        return nn.functional.linear(states, self._layers[0].weight)

    def _after_reading(self) -> list[nn.Parameter]:
        """The bias of the first layer, then weight and bias of the others."""
        first, *others = self._layers
        return [first.bias, *(parameter for layer in others for parameter in (layer.weight, layer.bias))]

    def scoring_bytes(self, num_documents: int, num_tokens: int, gradients: bool) -> int:
        per_label = self._elements(num_documents, num_tokens)
        if gradients and self._fits(per_label):
            attention = 2 * per_label * self.num_labels  # and the gradients on their way
        else:
            attention = (2 if gradients else 1) * per_label * min(self._block_size(per_label), self.num_labels)
        values = (2 if gradients else 1) * num_documents * num_tokens * self._layers[0].out_features
        logits = (2 if gradients else 1) * num_documents * self.num_labels
        return 4 * (attention + values + logits)

    def candidate_bytes(self, num_documents: int, num_tokens: int, num_candidates: int, gradients: bool) -> int:
        per_document = self._candidate_elements(num_candidates, num_tokens)
        whole, block = (
            per_document * num_documents,
            per_document * min(num_documents, suitable_block_size(per_document, self.attention.weight.device.type)),
        )
        held = 2 * (whole if 4 * whole <= self.memory_mib * 2**20 else block) if gradients else block
        values = (2 if gradients else 1) * num_documents * num_tokens * self._layers[0].out_features
        return 4 * (held + values)

    def _candidate_elements(self, num_candidates: int, num_tokens: int) -> int:
        """Elements for one document: the vectors of its labels, which are others for each document, and what else a label takes."""
        return num_candidates * (self.attention.weight.shape[1] + self._elements(1, num_tokens))

    def _elements(self, num_documents: int, num_tokens: int) -> int:
        """Elements that autograd holds for one label: its scores and attention, and the layers behind them."""
        return num_documents * (2 * num_tokens + 2 * sum(layer.out_features for layer in self._layers))

    def _fits(self, elements_per_label: int) -> bool:
        return 4 * elements_per_label * self.num_labels <= self.memory_mib * 2**20

    def _block_size(self, elements_per_label: int) -> int:
        return self.block_size or suitable_block_size(elements_per_label, self.attention.weight.device.type)

    # ---- labels ----------------------------------------------------------------------------------------------------------

    def matrices(self) -> dict[str, LabelMatrix]:
        return {"attention": LabelMatrix(self.attention.weight, None, [self.attention.weight])}

    def resize_labels(self, old_ids: Tensor) -> None:
        super().resize_labels(old_ids)
        self.attention = resized_linear(self.attention, old_ids)
        if self.bias is not None:
            old_bias, self.bias = self.bias, nn.Parameter(self.bias.new_zeros(len(old_ids)))
            copy_rows(self.bias, old_bias, old_ids)


class _Weights(nn.Linear):
    """A linear layer whose weights are read and which is never called.

    A class of its own, because quantization replaces every `nn.Linear` by a layer whose weights cannot be read.
    """


def _trimmed(documents: DocumentStates) -> DocumentStates:
    """The columns up to the last one that is read."""
    if is_traced():
        return documents
    columns = documents.read.any(dim=0).nonzero()
    end = int(columns[-1]) + 1 if len(columns) else 1
    return DocumentStates(documents.states[:, :end], documents.read[:, :end])


def _logits(scores: Tensor, read: Tensor, values: Tensor, after: Sequence[Tensor]) -> Tensor:
    """Raw logits (B, n) of the labels with attention scores (B, n, T), that read the values (B, T, W).

    ``after`` is what `LabelAttentionHead._after_reading` gives.
    """
    bias, *others = after
    hidden = attend(scores, read).to(values.dtype) @ values + bias  # (B, n, W)
    for weight, bias in zip(others[::2], others[1::2], strict=True):
        hidden = nn.functional.linear(nn.functional.relu(hidden), weight, bias)
    return hidden.squeeze(-1)


def _rows(weight: Tensor, ids: Tensor, sparse: bool = False) -> Tensor:
    """Rows of a matrix, (B, S, D); the gradient, dense or sparse, is formed faster than that of ``weight[ids]``."""
    return nn.functional.embedding(ids, weight, sparse=sparse)


def _candidate_logits(
    block_size: int,
    label_ids: Tensor,
    states: Tensor,
    read: Tensor,
    values: Tensor,
    weight: Tensor,
    after: Sequence[Tensor],
) -> Tensor:
    """Raw logits (B, S) of each document's own labels, for a block of documents at a time."""
    blocks = (tensor.split(block_size) for tensor in (label_ids, states, read, values))
    return torch.cat([_logits(_rows(weight, ids) @ h.mT, mask, v, after) for ids, h, mask, v in zip(*blocks, strict=True)])


class _CandidateAttention(torch.autograd.Function):
    """`_candidate_logits`, for training: the backward pass computes each block again, into one gradient of the label vectors.

    A ``sparse`` one holds the rows of the batch's labels alone.
    """

    @staticmethod
    def forward(
        ctx: Any,
        block_size: int,
        sparse: bool,
        label_ids: Tensor,
        states: Tensor,
        read: Tensor,
        values: Tensor,
        weight: Tensor,
        *after: Tensor,
    ) -> Tensor:
        ctx.block_size, ctx.sparse, ctx.autocast = block_size, sparse, _autocast_settings(states.device.type)
        ctx.save_for_backward(label_ids, states, read, values, weight, *after)
        return _candidate_logits(block_size, label_ids, states, read, values, weight, after)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor):
        label_ids, states, read, values, weight, *after = ctx.saved_tensors
        needs_states, _, needs_values, needs_weight, *needs_after = ctx.needs_input_grad[3:]
        rest = [tensor.detach().requires_grad_(needed) for tensor, needed in zip(after, needs_after, strict=True)]
        of_states, of_values = (
            torch.zeros_like(tensor) if needed else None
            for tensor, needed in ((states, needs_states), (values, needs_values))
        )
        touched, places = label_ids.unique(return_inverse=True) if ctx.sparse else (None, label_ids)
        num_rows = len(weight) if touched is None else len(touched)
        of_weight = weight.new_zeros(num_rows, weight.shape[1]) if needs_weight else None
        of_after = [torch.zeros_like(tensor) if needed else None for tensor, needed in zip(after, needs_after, strict=True)]
        for start in range(0, len(states), ctx.block_size):
            block = slice(start, start + ctx.block_size)
            rows, tokens = _rows(weight.detach(), label_ids[block]), states[block]
            value = values[block].detach().requires_grad_(needs_values)
            with torch.autocast(**ctx.autocast):
                scores = (rows @ tokens.mT).detach().requires_grad_()  # (n, S, T)
                with torch.enable_grad():
                    logits = _logits(scores, read[block], value, rest)
                inputs = [tensor for tensor in (value, *rest) if tensor.requires_grad]
                of_scores, *others = torch.autograd.grad(logits, [scores, *inputs], grad_output[block].to(logits.dtype))
            others = iter(others)
            if needs_values:
                of_values[block] = next(others)
            for total, share in zip([total for total in of_after if total is not None], others, strict=True):
                total += share
            if needs_states:
                of_states[block] = of_scores.to(states.dtype).mT @ rows.to(states.dtype)
            if needs_weight:
                of_rows = of_scores.to(weight.dtype) @ tokens.to(weight.dtype)  # (n, S, D)
                of_weight.index_add_(0, places[block].flatten(), of_rows.flatten(0, 1))
        if needs_weight and ctx.sparse:
            settings = {"is_coalesced": True, "check_invariants": False}
            of_weight = torch.sparse_coo_tensor(touched[None], of_weight, weight.shape, **settings)
        return None, None, None, of_states, None, of_values, of_weight, *of_after


def _autocast_settings(device: str) -> dict[str, Any]:
    """Arguments for `torch.autocast` that give the backward pass what the forward pass had."""
    enabled = torch.is_autocast_enabled(device)
    return {"device_type": device, "enabled": enabled} | ({"dtype": torch.get_autocast_dtype(device)} if enabled else {})


class _BlockAttention(torch.autograd.Function):
    """Raw logits of all labels, block by block; the backward pass computes each block again.

    The gradient of a label's vector is Σ over documents and tokens of the gradient of its score times the state, which is the
    form in which a `RowUpdate` takes it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        update: RowUpdate | None,
        block_size: int,
        states: Tensor,
        read: Tensor,
        values: Tensor,
        weight: Tensor,
        *after: Tensor,
    ) -> Tensor:
        ctx.update, ctx.block_size = update, block_size
        ctx.save_for_backward(states, read, values, weight, *after)
        ctx.autocast = _autocast_settings(states.device.type)
        return torch.cat([_logits(block @ states.mT, read, values, after) for block in weight.split(block_size)], dim=1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor):
        states, read, values, weight, *after = ctx.saved_tensors
        needs_states, _, needs_values, needs_weight, *needs_after = ctx.needs_input_grad[2:]
        rest = [tensor.detach().requires_grad_(needed) for tensor, needed in zip(after, needs_after, strict=True)]
        values = values.detach().requires_grad_(needs_values)
        inputs = [tensor for tensor in (values, *rest) if tensor.requires_grad]
        totals = [torch.zeros_like(tensor) for tensor in inputs]
        of_states = torch.zeros_like(states) if needs_states else None
        of_weight = torch.empty_like(weight) if needs_weight and ctx.update is None else None
        rows = states.flatten(0, 1)  # (B · T, D)
        for start in range(0, len(weight), ctx.block_size):
            block = weight[start : start + ctx.block_size]  # (n, D)
            stop = start + len(block)
            with torch.autocast(**ctx.autocast):
                scores = (block @ states.mT).detach().requires_grad_()  # (B, n, T)
                with torch.enable_grad():
                    logits = _logits(scores, read, values, rest)
                gradient = grad_output[:, start:stop].to(logits.dtype)
                of_scores, *others = torch.autograd.grad(logits, [scores, *inputs], gradient)
            for total, share in zip(totals, others, strict=True):
                total += share
            of_scores = of_scores.to(states.dtype)
            if needs_states:
                of_states.baddbmm_(of_scores.mT, block.to(states.dtype).expand(len(states), -1, -1))
            if needs_weight:
                left = of_scores.transpose(0, 1).flatten(1)  # (n, B · T)
                if ctx.update is not None:
                    ctx.update(start, stop, left, rows)
                else:
                    torch.mm(left.to(weight.dtype), rows.to(weight.dtype), out=of_weight[start:stop])
        gradients = iter(totals)
        of_values = next(gradients) if needs_values else None
        of_after = [next(gradients) if needed else None for needed in needs_after]
        return None, None, of_states, None, of_values, of_weight, *of_after
