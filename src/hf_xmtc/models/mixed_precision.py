"""Autocast where PyTorch's own rules fall short."""

import torch
from torch import Tensor

__all__ = ["in_autocast_type"]


def in_autocast_type(tensor: Tensor) -> Tensor:
    """A tensor in the type that autocast computes in, where it is on; float64 stays, as autocast leaves it.

    An LSTM reads it so: under a CPU's autocast it stops at float32, unless the CPU has instructions for bfloat16.
    """
    device = tensor.device.type
    is_cast = torch.is_autocast_enabled(device) and tensor.dtype != torch.float64
    return tensor.to(torch.get_autocast_dtype(device)) if is_cast else tensor
