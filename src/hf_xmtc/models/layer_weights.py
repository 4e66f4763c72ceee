"""Whether the weights of layers can be read, which those of quantized layers cannot."""

from typing import Any

from torch import Tensor

__all__ = ["can_be_read", "check_readable"]


def can_be_read(*weights: Any) -> bool:
    """Whether these are tensors: a quantized layer has a method where others have their weight."""
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
