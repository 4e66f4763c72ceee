"""`block_loss`: a loss over all labels whose backward pass computes each block's logits again."""

from dataclasses import replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from .label_losses import LabelLoss
from .label_products import add_outer_product
from .label_scorer import BlockSettings, LabelLayers, LabelScorer

__all__ = ["LabelMatrix", "RowUpdate", "block_loss"]


class RowUpdate(Protocol):
    """Takes the gradient of a matrix with one row per label as it comes, block by block, instead of storing it.

    `agree` and then `begin` are called once per backward pass, before anything is written; then every row exactly once: the
    gradient of rows ``start`` … ``stop - 1`` is ``left @ right``, (stop - start, B) @ (B, d), that of their biases
    ``left.sum(1)``. `agree` takes a bool scalar, True if this process's loss and gradients are finite, and returns True if those
    of all processes are that change the same matrix.
    """

    def agree(self, finite: Tensor) -> Tensor: ...

    def begin(self) -> None: ...

    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None: ...


class LabelMatrix(NamedTuple):
    """A matrix with one row per label, as optimizers see it.

    Attributes:
        rows: (L, d), a view of the parameter; of CorNet's ``to_context.weight`` (R, L) it is the transpose.
        bias: One number per label, (L,), or None.
        parameters: The parameters behind both.
    """

    rows: Tensor
    bias: Tensor | None
    parameters: list[nn.Parameter]


def block_loss(
    layers: LabelLayers,
    settings: BlockSettings,
    loss: LabelLoss,
    positives: Tensor,
    label_weights: Tensor | None = None,
    updates: dict[str, RowUpdate] | None = None,
) -> Tensor:
    """Sum of a loss over all documents and labels, without logits or targets of size documents × labels.

    Args:
        layers: Inputs of the logits.
        settings: Block size and memory.
        loss: The loss.
        positives: Distinct label ids of each document, (B, P), padded with -100.
        label_weights: Weight of each label, (L,), for losses that weigh labels.
        updates: Sinks for the gradients of label matrices in the backward pass, by the names of
            `XMTCPreTrainedModel.label_matrices`; the other matrices get ordinary gradients.

    Returns:
        A scalar in float32 (float64 for float64 weights).

    Raises:
        FloatingPointError: In the backward pass, before any update, if the loss is not finite and there are ``updates``.
        RuntimeError: In the backward pass, if the label matrices or the features have changed since the forward pass, or if a
            gradient of the gradient is asked for (``create_graph=True``).
    """
    if not torch.is_grad_enabled() and not layers.to_context:
        settings = replace(settings, memory_mib=0)  # without CorNet and a backward pass, logits are read once
    scorer = LabelScorer(layers, settings, loss, positives, label_weights)
    if not torch.is_grad_enabled():
        return _summed(scorer)
    return _BlockLoss.apply(scorer, updates or {}, *layers.tensors().values())


def _summed(scorer: LabelScorer) -> Tensor:
    # Autocast would take single products to half precision, and that of the backward pass need not be the forward's.
    with torch.autocast(scorer.device.type, enabled=False):
        scorer.compute_contexts()
        return scorer.total_loss().to(scorer.dtype)


class _BlockLoss(torch.autograd.Function):
    """Forward: contexts and loss. Backward: gradients of the contexts, then of everything else, one block after another."""

    @staticmethod
    def forward(ctx, scorer: LabelScorer, updates: dict[str, RowUpdate], *tensors: Tensor) -> Tensor:
        total = _summed(scorer)
        ctx.scorer, ctx.updates, ctx.total = scorer, updates, total.detach()
        # Detached, so that a loss that somebody keeps does not keep the graph of its features; versions are shared.
        ctx.inputs = [tensor.detach() for tensor in tensors]
        ctx.versions = [tensor._version for tensor in ctx.inputs]
        return total

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "The gradient of the label head's loss has no gradient itself, but create_graph=True asks for one. Leave it out, "
                "or compute the loss from model(…).logits where second derivatives are needed."
            )
        if [tensor._version for tensor in ctx.inputs] != ctx.versions:
            raise RuntimeError(
                "The label matrices, or what is scored with them, have changed between the forward and the backward pass of a "
                "loss, so its gradient would be wrong. Was the loss of the label head used twice in one graph while it is updated "
                "in the backward pass, did an optimizer step in between, or were the logits changed in place? Call backward once "
                "per forward and before any of these, or train with label_optimizer='adamw'."
            )
        names = list(ctx.scorer.layers.tensors())
        needed = {name for name, is_needed in zip(names, ctx.needs_input_grad[2:], strict=True) if is_needed}
        with torch.autocast(grad_output.device.type, enabled=False):
            gradients = _gradients(ctx.scorer, ctx.updates, ctx.total, grad_output, needed)
        if "source" in gradients:
            gradients["source"] = gradients["source"].to(ctx.inputs[0].dtype)
        return None, None, *(gradients.get(name) for name in names)


def _gradients(
    scorer: LabelScorer, updates: dict[str, RowUpdate], total: Tensor, grad_output: Tensor, needed: set[str]
) -> dict[str, Tensor]:
    """Gradients by the names of `LabelLayers.tensors`, without those that ``updates`` take."""
    scorer.loss_scale = grad_output
    scorer.compute_context_gradients()
    right_factors = scorer.input_factors()
    if updates:
        _check_finite(total * grad_output, list(right_factors.values()), updates)
        for update in updates.values():
            update.begin()
    gradients, sinks = _gradient_sinks(scorer.layers, updates, needed)
    if "source" in needed:
        gradients["source"] = torch.zeros_like(scorer.raw.source, dtype=scorer.dtype)
    for start, stop in scorer.blocks():
        logits = scorer.logits_per_block(start, stop)
        block_gradients = scorer.gradients(start, stop, logits, 0)  # of x_0 … x_N
        if "source" in needed:
            scorer.raw.add_gradient(gradients["source"], start, stop, block_gradients[0])
        # Last, because updates overwrite what the products above read.
        left_factors = scorer.output_factors(logits, block_gradients)
        for name, sink in sinks.items():
            sink(start, stop, left_factors[name], right_factors[name])
        scorer.release(start)
    for index, gradient in enumerate(scorer.context_gradients):
        gradients[f"cornet.blocks.{index}.to_context.bias"] = gradient.sum(0)
    return gradients


def _gradient_sinks(
    layers: LabelLayers, updates: dict[str, RowUpdate], needed: set[str]
) -> tuple[dict[str, Tensor], dict[str, "RowUpdate | _StoredGradient"]]:
    """Gradients that are to be filled in, and by layer what takes the gradient of its label rows, a block at a time."""
    gradients, sinks = {}, {}
    for name, layer in layers.by_name().items():
        weight, bias = f"{name}.weight", f"{name}.bias"
        has_columns = name.endswith("to_context")  # (R, L), whose bias is no label's
        if name in updates:
            sinks[name] = updates[name]
        elif weight in needed or (bias in needed and not has_columns):
            gradients[weight] = torch.empty_like(layer.weight)
            if not has_columns:
                gradients[bias] = torch.empty_like(layer.bias)
            rows = gradients[weight].t() if has_columns else gradients[weight]
            sinks[name] = _StoredGradient(rows, gradients.get(bias))
    return gradients, sinks


class _StoredGradient:
    """Fills in an ordinary gradient, rows by rows."""

    def __init__(self, rows: Tensor, bias: Tensor | None):
        self.rows, self.bias = rows, bias

    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None:
        dtype = self.rows.dtype
        add_outer_product(self.rows[start:stop], left.to(dtype), right.to(dtype), beta=0.0)
        if self.bias is not None:
            self.bias[start:stop] = left.sum(1)


def _check_finite(scaled_loss: Tensor, factors: list[Tensor], updates: dict[str, RowUpdate]) -> None:
    finite = torch.stack([torch.isfinite(scaled_loss), *(factor.isfinite().all() for factor in factors)]).all()
    # One speaks for all: either every update is shared with other processes or none is.
    if not bool(next(iter(updates.values())).agree(finite)):
        cause = (
            "The loss of another process, its gradient in CorNet, or its features, is not finite"
            if bool(finite)
            else f"The loss, its gradient in CorNet, or what the labels are scored from, is not finite (loss x incoming gradient = {float(scaled_loss)})"
        )
        raise FloatingPointError(
            f"{cause}; nothing was written to the label matrices. Lower the learning rate (label_learning_rate, learning_rate), or "
            "look for the batch that causes it."
        )
