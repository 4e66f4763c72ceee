"""What a training run will need, said before anything is allocated."""

from dataclasses import dataclass

import psutil
import torch
from torch import nn

__all__ = ["MemoryEstimate", "estimate_memory"]

MIB = 2**20


@dataclass(frozen=True)
class MemoryEstimate:
    """Expected memory of a training run in MiB, and what the device has free."""

    parameters: float
    gradients: float
    optimizer: float
    averaging: float
    activations: float
    available: float
    device: str

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer + self.averaging + self.activations

    def describe(self) -> str:
        """One line for the log."""
        parts = f"{self.parameters:,.0f} parameters + {self.gradients:,.0f} gradients + {self.optimizer:,.0f} optimizer"
        if self.averaging:
            parts += f" + {self.averaging:,.0f} weight averaging"
        return (
            f"Expected memory: about {self.total:,.0f} MiB ({parts} + {self.activations:,.0f} activations); "
            f"{self.available:,.0f} MiB are free on {self.device}."
        )

    def refuse_if_too_large(self) -> None:
        """Stop before allocating what cannot fit.

        Raises:
            MemoryError: If the estimate exceeds the free memory; the message names the options that lower it.
        """
        if self.total > self.available:
            raise MemoryError(
                f"{self.describe()} Lower per_device_train_batch_size or max_length_tokens, the model's sizes (hidden_size, "
                "cornet_context_size, bottleneck_size) or the vocabulary (vocab_size), or use activation_checkpointing=True."
            )


def estimate_memory(
    model: nn.Module, batch_size: int, num_tokens: int, *, averaging: bool, device: torch.device
) -> MemoryEstimate:
    """Estimate the memory of training ``model`` with AdamW.

    Parameters, gradients and optimizer state are exact; activations are counted on a typical transformer layer (about
    16 hidden states a layer and token, attention weights not stored) plus three logit matrices per CorNet block.

    Args:
        model: The model, which may live on the meta device.
        batch_size: Documents per step and device.
        num_tokens: Tokens of the longest documents, special tokens included.
        averaging: Whether a second copy of the weights is kept.
        device: Where training will run.
    """
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(p.numel() for p in model.parameters())
    config = model.config
    encoder = getattr(config, "backbone_config", None) or config
    layers = getattr(encoder, "num_hidden_layers", None) or getattr(encoder, "n_layers", 1)
    width = getattr(encoder, "hidden_size", 0)
    hidden_states = 16 * layers * batch_size * num_tokens * width
    logits = 3 * (1 + config.cornet_num_blocks) * batch_size * config.num_labels
    if device.type == "cuda":
        available = torch.cuda.mem_get_info(device)[0]
    else:
        available = psutil.virtual_memory().available
    return MemoryEstimate(
        parameters=4 * total / MIB,
        gradients=4 * trainable / MIB,
        optimizer=8 * trainable / MIB,
        averaging=4 * total / MIB if averaging else 0.0,
        activations=4 * (hidden_states + logits) / MIB,
        available=available / MIB,
        device=str(device),
    )
