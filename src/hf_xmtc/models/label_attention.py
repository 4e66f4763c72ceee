"""`LabelAttentionHead`: every label reads the document by an attention of its own; AttentionXML's output layers.

Attention of all labels over all tokens is documents × labels × tokens numbers, far more than anything else. Here it exists for a
block of labels at a time, in training too: the backward pass computes each block again.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .label_head_base import BaseLabelHead
from .label_scorer import LabelMatrix, LinearHead, RowUpdate

__all__ = ["DocumentStates", "LabelAttentionHead", "attend"]

# Numbers of scores, attention and what it reads for a block of labels where no block size is given.
BLOCK_NUMBERS = {"cpu": 2**22, "other": 2**26}


class DocumentStates(NamedTuple):
    """What a label attends to.

    Attributes:
        states: One vector per token, (B, T, D).
        read: True at tokens, False at padding, (B, T); at least one per document.
    """

    states: Tensor
    read: Tensor


def attend(scores: Tensor, documents: DocumentStates) -> tuple[Tensor, Tensor]:
    """Attention from its scores.

    Args:
        scores: Products of label vectors and states, (B, L, T).
        documents: What the labels read.

    Returns:
        For every label its context (B, L, D), a mean of the states with its weights (B, L, T), which are 0 at padding.

    Source: AttentionXML, equation 4 (α_ij, m_j).
    """
    weights = scores.masked_fill(~documents.read[:, None], float("-inf")).softmax(dim=-1)
    return weights.to(documents.states.dtype) @ documents.states, weights


class LabelAttentionHead(BaseLabelHead):
    """Logit of label j: layers that all labels share, on the mean of the document's states by the attention of label j.

    Raw logits (B, L) are held, attention (B, L, T) and contexts (B, L, D) only for a block of labels, unless they fit into
    ``memory_mib`` and are kept for the backward pass.

    Args:
        state_size: Width D of the states.
        num_labels: Labels L.
        linear_sizes: Widths of the shared ReLU layers in front of the last, shared linear score.
        block_size: Labels that attend at a time, None for what suits the device.
        memory_mib: Attention and contexts of all labels are kept in training if they fit into this; CorNet's logits as in
            `BaseLabelHead`.
        loss: As for `BaseLabelHead`.
        loss_settings: Arguments of the loss.

    Source: AttentionXML, equations 4 to 6. That the layers have biases is in the authors' code alone.
    """

    def __init__(
        self,
        state_size: int,
        num_labels: int,
        linear_sizes: list[int] | tuple[int, ...] = (256,),
        block_size: int | None = None,
        memory_mib: float = 64.0,
        loss: str = "bce",
        loss_settings: dict[str, float] | None = None,
    ):
        super().__init__(num_labels, block_size, memory_mib, loss, loss_settings)
        self.attention = nn.Linear(state_size, num_labels, bias=False)
        sizes = [state_size, *linear_sizes]
        self.linears = nn.ModuleList(nn.Linear(size, following) for size, following in zip(sizes, sizes[1:], strict=False))
        self.output = nn.Linear(sizes[-1], 1)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Xavier-uniform weights and the biases of `torch.nn.Linear`, as in the authors' code."""
        super().reset_parameters()
        self._reset_attention()
        for linear in (*self.linears, self.output):
            bound = linear.in_features**-0.5
            init.xavier_uniform_(linear.weight)
            init.uniform_(linear.bias, -bound, bound)

    def _reset_attention(self) -> None:
        init.xavier_uniform_(self.attention.weight)

    # ---- logits ----------------------------------------------------------------------------------------------------------

    def source(self, hidden: DocumentStates) -> Tensor:
        return self.raw_logits(hidden)

    @property
    def linear_head(self) -> LinearHead | None:
        return None

    @property
    def label_bias(self) -> nn.Parameter:
        return self.output.bias

    def raw_logits(self, hidden: DocumentStates) -> Tensor:
        documents = _trimmed(hidden)
        states, weight = documents.states, self.attention.weight
        per_label = self._numbers(*states.shape[:2])
        block_size = self._block_size(per_label)
        update = (self.updates or {}).get("label_head.attention") if torch.is_grad_enabled() else None
        if not torch.is_grad_enabled():
            blocks = weight.split(block_size)
            return torch.cat([self._logits(block @ states.mT, documents) for block in blocks], dim=1)
        if update is None and self._fits(per_label):
            return self._logits(weight @ states.mT, documents)
        return _BlockAttention.apply(self, update, block_size, states, documents.read, weight, *self._shared())

    def raw_logits_of(self, hidden: DocumentStates, label_ids: Tensor) -> Tensor:
        documents = _trimmed(hidden)
        return self._logits(self.attention.weight[label_ids] @ documents.states.mT, documents)

    def attention_of(self, hidden: DocumentStates, label_ids: Tensor) -> Tensor:
        """Attention weights of chosen labels, (B, S, T), for label ids (B, S); 0 at padding."""
        return attend(self.attention.weight[label_ids] @ hidden.states.mT, hidden)[1]

    def _logits(self, scores: Tensor, documents: DocumentStates) -> Tensor:
        """Raw logits (B, n) of the labels with attention scores (B, n, T)."""
        contexts, _ = attend(scores, documents)
        for linear in self.linears:
            contexts = nn.functional.relu(linear(contexts))
        return self.output(contexts).squeeze(-1)

    def _shared(self) -> list[nn.Parameter]:
        """The parameters that all labels share."""
        return [parameter for linear in (*self.linears, self.output) for parameter in linear.parameters()]

    def scoring_bytes(self, num_documents: int, num_tokens: int, gradients: bool) -> int:
        per_label = self._numbers(num_documents, num_tokens)
        if gradients and self._fits(per_label):
            attention = 2 * per_label * self.num_labels  # and the gradients on their way
        else:
            attention = (2 if gradients else 1) * per_label * min(self._block_size(per_label), self.num_labels)
        logits = (2 if gradients else 1) * num_documents * self.num_labels
        return 4 * (attention + logits)

    def _numbers(self, num_documents: int, num_tokens: int) -> int:
        """Numbers that autograd keeps for one label: its scores, attention, context, and the layers behind it."""
        width = self.attention.in_features
        return num_documents * (2 * num_tokens + width + 2 * sum(linear.out_features for linear in self.linears))

    def _fits(self, numbers_per_label: int) -> bool:
        return 4 * numbers_per_label * self.num_labels <= self.memory_mib * 2**20

    def _block_size(self, numbers_per_label: int) -> int:
        numbers = BLOCK_NUMBERS["cpu" if self.attention.weight.device.type == "cpu" else "other"]
        return self.block_size or max(1, numbers // max(1, numbers_per_label))

    # ---- labels ----------------------------------------------------------------------------------------------------------

    def matrices(self) -> dict[str, LabelMatrix]:
        return {"attention": LabelMatrix(self.attention.weight, None, [self.attention.weight])}

    def resize_labels(self, kept_ids: Tensor) -> None:
        old, kept, weights = self.attention, kept_ids >= 0, self.positive_weight
        device, dtype = old.weight.device, old.weight.dtype
        self.attention = nn.Linear(old.in_features, len(kept_ids), bias=False, device=device, dtype=dtype)
        self.num_labels = len(kept_ids)
        with torch.no_grad():
            self._reset_attention()
            self.attention.weight[kept] = old.weight[kept_ids[kept]]
            if weights is not None:
                self.positive_weight = weights.new_zeros(len(kept_ids))
                self.positive_weight[kept] = weights[kept_ids[kept]]


def _trimmed(documents: DocumentStates) -> DocumentStates:
    """The columns up to the last one that is read."""
    columns = documents.read.any(dim=0).nonzero()
    end = int(columns[-1]) + 1 if len(columns) else 1
    return DocumentStates(documents.states[:, :end], documents.read[:, :end])


class _BlockAttention(torch.autograd.Function):
    """Raw logits of all labels, block by block; the backward pass computes each block again.

    The gradient of a label's vector is Σ over documents and tokens of the gradient of its score times the state, which is the
    form in which a `RowUpdate` takes it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        head: LabelAttentionHead,
        update: RowUpdate | None,
        block_size: int,
        states: Tensor,
        read: Tensor,
        weight: Tensor,
        *shared: Tensor,
    ) -> Tensor:
        ctx.head, ctx.update, ctx.block_size = head, update, block_size
        ctx.save_for_backward(states, read, weight, *shared)
        device = states.device.type
        ctx.autocast = {"device_type": device, "enabled": torch.is_autocast_enabled(device)}
        if ctx.autocast["enabled"]:
            ctx.autocast["dtype"] = torch.get_autocast_dtype(device)
        documents = DocumentStates(states, read)
        return torch.cat([head._logits(block @ states.mT, documents) for block in weight.split(block_size)], dim=1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_output: Tensor):
        states, read, weight, *shared = ctx.saved_tensors
        num_documents, num_tokens, width = states.shape
        needs_states, needs_weight, needs_shared = ctx.needs_input_grad[3], ctx.needs_input_grad[5], ctx.needs_input_grad[6:]
        leaf = states.detach().requires_grad_(needs_states)
        documents = DocumentStates(leaf, read)
        found_states = torch.zeros_like(states) if needs_states else None
        found_weight = torch.empty_like(weight) if needs_weight and ctx.update is None else None
        wanted = [leaf] if needs_states else []
        wanted += [parameter for parameter, needed in zip(shared, needs_shared, strict=True) if needed]
        sums = [torch.zeros_like(parameter) for parameter in wanted[needs_states:]]
        rows = states.reshape(-1, width)  # (B · T, D)
        for start in range(0, len(weight), ctx.block_size):
            block = weight[start : start + ctx.block_size]  # (n, D)
            stop = start + len(block)
            with torch.autocast(**ctx.autocast):
                scores = (block @ states.mT).detach().requires_grad_()  # (B, n, T)
                with torch.enable_grad():
                    logits = ctx.head._logits(scores, documents)
                of_scores, *others = torch.autograd.grad(
                    logits, [scores, *wanted], grad_output[:, start:stop].to(logits.dtype)
                )
            of_scores = of_scores.to(states.dtype)
            if needs_states:
                found_states += others.pop(0)
                found_states.baddbmm_(of_scores.mT, block.to(states.dtype).expand(num_documents, -1, -1))
            for total, gradient in zip(sums, others, strict=True):
                total += gradient
            if needs_weight:
                left = of_scores.transpose(0, 1).reshape(len(block), num_documents * num_tokens)  # (n, B · T)
                if ctx.update is not None:
                    ctx.update(start, stop, left, rows)
                else:
                    torch.mm(left.to(weight.dtype), rows.to(weight.dtype), out=found_weight[start:stop])
        sums = iter(sums)
        found_shared = [next(sums) if needed else None for needed in needs_shared]
        return None, None, None, found_states, None, found_weight, *found_shared
