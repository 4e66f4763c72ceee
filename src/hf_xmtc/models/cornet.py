"""CorNet: correlation networks on top of any model's raw label predictions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from .linear_layers import NEW_LABEL_BIAS, check_readable, reset_linear, resized_linear

__all__ = ["ACTIVATIONS", "CorNet", "CorNetBlock"]

# Each function and its derivative, written in terms of the function's value.
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sigmoid": (torch.sigmoid, lambda value: value * (1 - value)),
    "relu": (torch.relu, lambda value: (value > 0).to(value.dtype)),
    "tanh": (torch.tanh, lambda value: 1 - value.square()),
    "elu": (nn.functional.elu, lambda value: value.clamp(max=0) + 1),
}


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
        self.activation = ACTIVATIONS[activation][0]
        self.to_context = nn.Linear(num_labels, context_size)
        self.to_labels = nn.Linear(context_size, num_labels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights and the biases of `torch.nn.Linear`, as in the authors' code."""
        for linear in (self.to_context, self.to_labels):
            reset_linear(linear)

    def forward(self, logits: Tensor, is_read: Tensor | None = None) -> Tensor:
        scores = self.activation(logits) if is_read is None else self.activation(logits) * is_read
        context = nn.functional.elu(self.to_context(scores))  # (B, R)
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

    def forward(self, logits: Tensor, is_read: Tensor | None = None) -> Tensor:
        """Refine raw logits (B, L) to logits (B, L).

        Labels outside ``is_read``, (B, L), count as probability 0, as in `refine_candidates`; by default all are read.
        """
        for block in self.blocks:
            logits = block(logits, is_read)
        return logits

    def refine_candidates(self, logits: Tensor, label_ids: Tensor, reduce: Callable[[Tensor], None] | None = None) -> Tensor:
        """Refine the logits of candidates, reading and writing only its columns of W1 and rows of W2.

        Labels outside count as probability 0. With all labels among them this is `forward`; else it is `forward` with the
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
            check_readable("CorNet on candidates", block.to_context.weight, block.to_labels.weight)
            scores = block.activation(logits) * present
            columns = nn.functional.embedding(ids, block.to_context.weight.t())  # (B, S, R)
            context = (scores[:, None] @ columns)[:, 0]  # (B, R)
            if reduce is not None:
                reduce(context)
            context = nn.functional.elu(context + block.to_context.bias)
            rows = nn.functional.embedding(ids, block.to_labels.weight)  # (B, S, R)
            logits = logits + (rows @ context[:, :, None])[:, :, 0] + block.to_labels.bias[ids]
        return logits

    @torch.no_grad()
    def silence(self, new: Tensor) -> None:
        """As `BaseLabelHead.silence`, by the biases of the last block."""
        self.blocks[-1].to_labels.bias[new] = NEW_LABEL_BIAS

    @torch.no_grad()
    def resize_labels(self, old_ids: Tensor) -> None:
        """Follow a change of the label space.

        New labels are at first neither read nor corrected, so the logits of known ones stay what they were. Where there is no
        known one, everything starts anew.

        Args:
            old_ids: For each new label its old label id, or -1 for a label without a predecessor, (L_new,).
        """
        new = old_ids < 0
        for block in self.blocks:
            block.to_context = resized_linear(block.to_context, old_ids, dim=1)
            block.to_labels = resized_linear(block.to_labels, old_ids)
            if bool(new.all()):
                block.reset_parameters()
                continue
            for rows in (block.to_context.weight.t(), block.to_labels.weight, block.to_labels.bias):
                rows[new] = 0.0
