"""`reset_linear`: how the linear layers of these models start."""

from torch import nn
from transformers import initialization as init

__all__ = ["reset_linear"]


def reset_linear(linear: nn.Linear) -> None:
    """Xavier-uniform weights and the biases of `torch.nn.Linear`, as in the code of CorNet and AttentionXML."""
    init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        bound = linear.in_features**-0.5
        init.uniform_(linear.bias, -bound, bound)
