"""`reset_linear`: how the linear layers of these models start."""

from torch import nn
from transformers import initialization as init

__all__ = ["reset_linear"]


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
