"""Linear layers of these models: how they start, how they follow a change of the label space, and when their weights can be read."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

__all__ = ["NEW_LABEL_BIAS", "can_be_read", "check_readable", "copy_rows", "reset_linear", "resized_linear"]

# Bias of labels that are new in a trained model, where none of the known ones has a lower one: one document in 22,000.
NEW_LABEL_BIAS = -10.0


def reset_linear(linear: nn.Linear, initializer_range: float | None = None) -> None:
    """Xavier-uniform weights and the biases of `torch.nn.Linear`, as in the code of CorNet and AttentionXML.

    Args:
        linear: The layer, changed in place; what was loaded from a checkpoint stays.
        initializer_range: Standard deviation of normal weights with zero biases, as encoders of transformers start.
    """
    if initializer_range is not None:
        init.normal_(linear.weight, std=initializer_range)
        if linear.bias is not None:
            init.zeros_(linear.bias)
        return
    init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        bound = linear.in_features**-0.5
        init.uniform_(linear.bias, -bound, bound)


@torch.no_grad()
def resized_linear(old: nn.Linear, old_ids: Tensor, initializer_range: float | None = None, dim: int = 0) -> nn.Linear:
    """A layer with one row of weights per label, or one column, for a changed label space.

    Args:
        old: The layer of the old labels; the new one has its class, device and type.
        old_ids: For each new label its old label id, or -1 for a label without a predecessor, (L_new,).
        initializer_range: How the weights of new labels start, as for `reset_linear`.
        dim: Dimension of the weight that has one entry per label: 0 for the outputs, 1 for the inputs.
    """
    outputs, inputs = (len(old_ids), old.in_features) if dim == 0 else (old.out_features, len(old_ids))
    weight, has_bias = old.weight, old.bias is not None
    new = type(old)(inputs, outputs, bias=has_bias, device=weight.device, dtype=weight.dtype)
    reset_linear(new, initializer_range)
    copy_rows(new.weight.movedim(dim, 0), weight.movedim(dim, 0), old_ids)
    if has_bias and dim == 0:
        copy_rows(new.bias, old.bias, old_ids)
    elif has_bias:
        new.bias.copy_(old.bias)
    return new


@torch.no_grad()
def copy_rows(new: Tensor, old: Tensor, old_ids: Tensor) -> None:
    """Write the rows of known labels into ``new``; the rows of new labels stay as they are.

    Args:
        new: One row per new label, (L_new, …), changed in place.
        old: One row per old label, (L_old, …).
        old_ids: As for `resized_linear`.
    """
    known = old_ids >= 0
    new[known] = old[old_ids[known]]


def can_be_read(*weights: Any) -> bool:
    """True if these are tensors: a quantized layer has a method where others have their weight."""
    return all(isinstance(weight, Tensor) for weight in weights)


def check_readable(purpose: str, *weights: Any) -> None:
    """Refuse what reads the weights of quantized layers.

    Raises:
        ValueError: If there is one.
    """
    if not can_be_read(*weights):
        raise ValueError(
            f"{purpose} reads the weights of layers that were quantized. Ask the model for it as it was before, or quantize a part of it, "
            "such as its backbone or encoder."
        )
