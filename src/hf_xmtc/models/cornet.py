"""CorNet: correlation networks on top of any model's raw label predictions."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .initial_weights import reset_linear
from .label_rows import UNTRAINED_LOG_ODDS, keep_rows
from .layer_weights import check_readable

__all__ = ["ACTIVATIONS", "CorNet", "CorNetBlock", "CorNetMatrices"]

# Each function and its derivative, written in terms of the function's value.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sigmoid": (torch.sigmoid, lambda value: value * (1 - value)),
    "relu": (torch.relu, lambda value: (value > 0).to(value.dtype)),
    "tanh": (torch.tanh, lambda value: 1 - value.square()),
    "elu": (nn.functional.elu, lambda value: value.clamp(max=0) + 1),
}


class CorNetMatrices(NamedTuple):
    """Parameters of one `CorNetBlock`: W1 (R, L), b1 (R,), W2 (L, R) and b2 (L,)."""

    to_context: Tensor
    context_bias: Tensor
    to_labels: Tensor
    labels_bias: Tensor


class CorNetBlock(nn.Module):
    """One CorNet block: y = x + W2 · ELU(W1 · σ(x) + b1) + b2, from logits to logits.

    The probabilities of all labels are squeezed into a context of size R, from which a correction of every logit is read.

    Args:
        num_labels: Labels L.
        context_size: Width R of the context.
        activation: Function σ on the incoming logits.

    Source: CorNet, equations 1 and 2. The identity is added to the logits, not to σ(x), as in the authors' code.
    """

    def __init__(self, num_labels: int, context_size: int, activation: str = "sigmoid"):
        super().__init__()
        self.squash = ACTIVATIONS[activation][0]
        self.to_context = nn.Linear(num_labels, context_size)
        self.to_labels = nn.Linear(context_size, num_labels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights and the biases of `torch.nn.Linear`, as in the authors' code."""
        for linear in (self.to_context, self.to_labels):
            reset_linear(linear)

    def forward(self, logits: Tensor) -> Tensor:
        context = nn.functional.elu(self.to_context(self.squash(logits)))  # (B, R)
        return logits + self.to_labels(context)  # (B, L)


class CorNet(nn.Module):
    """A stack of CorNet blocks (CorNet §3), placed between a model's raw logits and its sigmoid.

    Args:
        num_labels: Labels L.
        context_size: Width R of every block.
        num_blocks: Blocks; each refines the logits of the one before.
        activation: ``sigmoid`` (the paper), ``relu``, ``tanh`` or ``elu``.
    """

    def __init__(self, num_labels: int, context_size: int, num_blocks: int = 2, activation: str = "sigmoid"):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation={activation!r} is not one of {', '.join(ACTIVATIONS)}.")
        self.activation = activation
        self.blocks = nn.ModuleList(CorNetBlock(num_labels, context_size, activation) for _ in range(num_blocks))

    def forward(self, logits: Tensor) -> Tensor:
        """Refine raw logits (B, L) to logits (B, L)."""
        for block in self.blocks:
            logits = block(logits)
        return logits

    def refine_shortlist(self, logits: Tensor, label_ids: Tensor, reduce: Callable[[Tensor], None] | None = None) -> Tensor:
        """Refine the logits of a shortlist, reading and writing only its columns of W1 and rows of W2.

        Labels outside count as probability 0. With all labels in the shortlist this is `forward`; else it is `forward` with the
        logits outside at minus infinity (for ``tanh`` and ``elu``: at 0, where those functions are 0).

        Args:
            logits: Raw logits, (B, S).
            label_ids: Their labels, (B, S), padded with -100; a label that stands there twice counts twice.
            reduce: Adds up a tensor over processes that hold different labels, in place.

        Returns:
            Logits, (B, S).
        """
        present, ids = label_ids >= 0, label_ids.clamp(min=0)
        for block in self.blocks:
            check_readable("CorNet on a shortlist", block.to_context.weight, block.to_labels.weight)
            scores = block.squash(logits) * present
            columns = nn.functional.embedding(ids, block.to_context.weight.t())  # (B, S, R)
            context = (scores[:, None] @ columns)[:, 0]  # (B, R)
            if reduce is not None:
                reduce(context)
            context = nn.functional.elu(context + block.to_context.bias)
            rows = nn.functional.embedding(ids, block.to_labels.weight)  # (B, S, R)
            logits = logits + (rows @ context[:, :, None])[:, :, 0] + block.to_labels.bias[ids]
        return logits

    def matrices(self) -> list[CorNetMatrices]:
        """The parameters of every block."""
        return [
            CorNetMatrices(block.to_context.weight, block.to_context.bias, block.to_labels.weight, block.to_labels.bias)
            for block in self.blocks
        ]

    @torch.no_grad()
    def silence(self, new: Tensor) -> None:
        """As `BaseLabelHead.silence`, by the biases of the last block."""
        self.blocks[-1].to_labels.bias[new] = UNTRAINED_LOG_ODDS

    def resize_labels(self, kept_ids: Tensor) -> None:
        """Follow a change of the label space.

        New labels are at first neither read nor corrected, so the logits of known ones stay what they were. Where there is no
        known one, everything starts anew.

        Args:
            kept_ids: For each new label its old label id, or -1 for a label without a predecessor, (L_new,).
        """
        for block in self.blocks:
            old_context, old_labels = block.to_context, block.to_labels
            device, dtype = old_labels.weight.device, old_labels.weight.dtype
            block.to_context = nn.Linear(len(kept_ids), old_context.out_features, device=device, dtype=dtype)
            block.to_labels = nn.Linear(old_labels.in_features, len(kept_ids), device=device, dtype=dtype)
            block.reset_parameters()
            if not bool((kept_ids >= 0).any()):
                continue
            with torch.no_grad():
                for parameter in (block.to_context.weight, block.to_labels.weight, block.to_labels.bias):
                    parameter.zero_()
                block.to_context.bias.copy_(old_context.bias)
            keep_rows(block.to_context.weight.t(), old_context.weight.t(), kept_ids)
            keep_rows(block.to_labels.weight, old_labels.weight, kept_ids)
            keep_rows(block.to_labels.bias, old_labels.bias, kept_ids)
