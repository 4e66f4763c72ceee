"""Keys and values of texts that see no labels, stored so that any number of label sets can be scored against them."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["DocumentCache", "cache_argument"]


class DocumentCache:
    """Keys and values of an encoder's layers for a batch of texts; used instead of a `transformers.Cache`.

    While ``recording``, what the layers compute is stored. Then it is put in front of what they compute of the labels, and nothing is
    added.

    Attributes:
        words: The texts' tokens (`AlignedWords`).
        states: Last hidden states of the texts, (B, T, H).
    """

    def __init__(self, words: Any):
        self.words, self.states = words, None
        self.recording = True
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Keys and values (B, heads, T, H / heads) that a layer attends to."""
        if self.recording:
            self._layers[layer] = keys, values
            return keys, values
        before = self._layers[layer]
        return torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)

    def get_seq_length(self, *args: Any) -> int:
        """0: positions are given and not counted from here."""
        return 0


def cache_argument(backbone: nn.Module) -> str:
    """The name under which an encoder takes a cache.

    Raises:
        ValueError: If it takes none.
    """
    parameters = inspect.signature(backbone.forward).parameters
    name = next((name for name in ("cache", "past_key_values") if name in parameters), None)
    if name is None:
        raise ValueError(
            f"{type(backbone).__name__} cannot keep what its layers know of a text. Score candidates with the model itself, or choose a "
            "BERT or RoBERTa."
        )
    return name
