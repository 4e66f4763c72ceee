"""`block_loss`: a loss over all labels whose backward pass computes each block's logits again."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .cornet import CorNetMatrices
from .label_losses import LabelLoss
from .label_products import add_outer_product
from .label_scorer import LabelScorer, LinearHead, RowUpdate, ScorerSettings

__all__ = ["block_loss"]

# Parameters of one CorNet block, in the order of `CorNetMatrices`.
PER_BLOCK = len(CorNetMatrices._fields)


def block_loss(
    source: Tensor,
    head: LinearHead | None,
    cornet: list[CorNetMatrices],
    positives: Tensor,
    loss: LabelLoss,
    settings: ScorerSettings,
    label_weights: Tensor | None = None,
    updates: dict[str, RowUpdate] | None = None,
) -> Tensor:
    """Sum of a loss over all documents and labels, without logits or targets of size documents × labels.

    Args:
        source: Features (B, d) for ``head``, or without one the raw logits (B, L).
        head: The linear layer that gives the raw logits, or None.
        cornet: CorNet's blocks, none for none.
        positives: Distinct label ids of each document, (B, P), padded with -100.
        loss: The loss.
        settings: Block size and memory.
        label_weights: Weight of each label, (L,), for losses that weigh labels.
        updates: What takes the gradients of the label matrices in the backward pass, by the names of
            `XMTCPreTrainedModel.label_matrices`; without them they are returned as ordinary gradients.

    Returns:
        A scalar in float32 (float64 for float64 weights).

    Raises:
        FloatingPointError: In the backward pass, before any update, if the loss is not finite and there are ``updates``.
        RuntimeError: In the backward pass, if the label matrices or the source have changed since the forward pass, or if a
            gradient of the gradient is asked for (``create_graph=True``).
    """
    parameters = [*(head or ()), *(tensor for block in cornet for tensor in block)]
    if not torch.is_grad_enabled():
        # Without a backward pass, logits are read again only by the next pass of CorNet.
        settings = settings if cornet else replace(settings, memory_mib=0)
        task = _Task(loss, settings, positives, label_weights, None, head is not None)
        return task.run_forward(source, parameters)[1]
    task = _Task(loss, settings, positives, label_weights, updates, head is not None)
    return _BlockLoss.apply(task, source, *parameters)


class _Task:
    """What `_BlockLoss` is told beside its tensors."""

    def __init__(self, loss, settings, positives, label_weights, updates, has_head):
        self.loss, self.settings, self.positives, self.label_weights = loss, settings, positives, label_weights
        self.updates, self.has_head = updates, has_head

    def scorer(self, source: Tensor, parameters: tuple[Tensor, ...]) -> LabelScorer:
        parameters = [parameter.detach() for parameter in parameters]
        head = LinearHead(*parameters[:2]) if self.has_head else None
        rest = parameters[2:] if self.has_head else parameters
        cornet = [CorNetMatrices(*rest[index : index + PER_BLOCK]) for index in range(0, len(rest), PER_BLOCK)]
        return LabelScorer(source.detach(), head, cornet, self.settings, self.loss, self.positives, self.label_weights)

    def run_forward(self, source: Tensor, parameters: list[Tensor] | tuple[Tensor, ...]) -> tuple[LabelScorer, Tensor]:
        """The scorer with its contexts, and the loss in the scorer's type."""
        # Autocast would take single products to half precision, and that of the backward pass need not be the forward's.
        with torch.autocast(source.device.type, enabled=False):
            scorer = self.scorer(source, parameters)
            scorer.read_contexts()
            return scorer, scorer.total_loss().to(scorer.dtype)


class _BlockLoss(torch.autograd.Function):
    """Forward: contexts and loss. Backward: gradients of the contexts, then of everything else, one block after another."""

    @staticmethod
    def forward(ctx, task: _Task, source: Tensor, *parameters: Tensor) -> Tensor:
        ctx.task = task
        ctx.scorer, total = task.run_forward(source, parameters)
        ctx.total = total.detach()
        # Detached, so that a loss that somebody keeps does not keep the graph of its features; versions are shared.
        ctx.inputs = [tensor.detach() for tensor in (source, *parameters)]
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
        with torch.autocast(grad_output.device.type, enabled=False):
            return _BlockLoss._gradients(ctx, grad_output)

    @staticmethod
    def _gradients(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        scorer, updates = ctx.scorer, ctx.task.updates
        scorer.loss_scale = grad_output
        scorer.read_context_gradients()
        if updates:
            _refuse_non_finite(ctx.total * grad_output, scorer.rights(), updates)
            for update in updates.values():
                update.begin()
        parameters = ctx.inputs[1:]
        found: list[Tensor | None] = [None] * len(parameters)
        takers = _takers(ctx, parameters, found)
        rights = scorer.rights()
        source_gradient = torch.zeros_like(scorer.source, dtype=scorer.dtype) if ctx.needs_input_grad[1] else None
        for start, stop in scorer.blocks():
            stages = scorer.stages(start, stop, len(scorer.cornet))
            gradients = scorer.gradients(start, stop, stages, 0)[::-1]  # of x_0 … x_N
            if source_gradient is not None:
                scorer.add_source_gradient(source_gradient, start, stop, gradients[0])
            # Last, because updates overwrite what the products above read.
            for take, left, right in zip(takers, scorer.lefts(stages, gradients), rights, strict=True):
                if take is not None:
                    take(start, stop, left, right)
            scorer.forget(start)
        first = 2 if ctx.task.has_head else 0
        for index, gradient in enumerate(scorer.context_gradients):
            found[first + PER_BLOCK * index + 1] = gradient.sum(0)
        return None, None if source_gradient is None else source_gradient.to(ctx.inputs[0].dtype), *found


def _takers(ctx, parameters: list[Tensor], found: list[Tensor | None]) -> list[Callable[..., None] | None]:
    """What takes the gradient of each label matrix, in the order of `LabelScorer.rights`; stored ones are put into ``found``."""
    first = 2 if ctx.task.has_head else 0
    # Names, and the positions of weight and bias among the parameters.
    places = [("label_head.output", 0, 1)] if ctx.task.has_head else []
    for index in range((len(parameters) - first) // PER_BLOCK):
        position = first + PER_BLOCK * index
        places.append((f"cornet.blocks.{index}.to_labels", position + 2, position + 3))
        places.append((f"cornet.blocks.{index}.to_context", position, None))
    takers: list[Callable[..., None] | None] = []
    needed = ctx.needs_input_grad[2:]
    for name, weight, bias in places:
        if ctx.task.updates is not None and name in ctx.task.updates:
            takers.append(ctx.task.updates[name])
        elif needed[weight] or (bias is not None and needed[bias]):
            found[weight] = torch.empty_like(parameters[weight])
            if bias is None:  # to_context, (R, L)
                takers.append(_StoredGradient(found[weight].t(), None))
            else:
                found[bias] = torch.empty_like(parameters[bias])
                takers.append(_StoredGradient(found[weight], found[bias]))
        else:
            takers.append(None)
    return takers


class _StoredGradient:
    """Fills in an ordinary gradient, rows by rows."""

    def __init__(self, rows: Tensor, bias: Tensor | None):
        self.rows, self.bias = rows, bias

    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None:
        dtype = self.rows.dtype
        add_outer_product(self.rows[start:stop], left.to(dtype), right.to(dtype), beta=0.0)
        if self.bias is not None:
            self.bias[start:stop] = left.sum(1)


def _refuse_non_finite(scaled_loss: Tensor, factors: list[Tensor], updates: dict[str, RowUpdate]) -> None:
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
