"""`LabelScorer`: the logits of any block of labels, through CorNet too, their loss and its gradients.

With features f of a document, x₀ are its raw logits and x_{n+1} those behind CorNet block n (CorNet, equations 1 and 2):

    x₀      = W · f + b                      of a linear head; other heads give x₀ itself
    c_n     = ELU(W1_n · σ(x_n) + b1_n)      the context of block n, which takes a pass over all labels
    x_{n+1} = x_n + W2_n · c_n + b2_n

Given the contexts, a block of labels needs no other block. `block_loss` and `block_topk` stand on this.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .cornet import ACTIVATIONS, CorNet
from .label_losses import BatchPositives, LabelLoss, sum_type
from .label_products import product, transposed_product

__all__ = [
    "BlockSettings",
    "GivenLogits",
    "LabelLayers",
    "LabelScorer",
    "LinearLogits",
    "LinearWeights",
    "suitable_block_size",
]

# Elements in a block of labels where no block size is given: the weights of 4,096 labels of width 512. On a CPU they stay in the
# cache from one product to the next; a GPU wants more work at once.
BLOCK_ELEMENTS = {"cpu": 2**21, "other": 2**25}


def suitable_block_size(elements_per_label: int, device_type: str) -> int:
    """Labels at a time where no block size is given, a multiple of 64 where there are as many.

    Args:
        elements_per_label: Elements that one label takes: of a linear layer the width of its row.
        device_type: ``cpu``, ``cuda`` …
    """
    size = max(1, BLOCK_ELEMENTS["cpu" if device_type == "cpu" else "other"] // max(1, elements_per_label))
    return size // 64 * 64 or size


# ---- where logits come from ------------------------------------------------------------------------------------------------


class LinearWeights(NamedTuple):
    """Weight and bias of a linear layer."""

    weight: Tensor
    bias: Tensor

    def detach(self) -> "LinearWeights":
        return LinearWeights(self.weight.detach(), self.bias.detach())


class LinearLogits:
    """Raw logits of a linear layer, W · f + b, computed for a block of labels at a time.

    Args:
        features: f, (B, d).
        output: W (L, d) and b (L,).
    """

    def __init__(self, features: Tensor, output: LinearWeights):
        self.source, self.output = features, output
        self.layers = {"label_head.output": output}
        self.num_labels, self.width = output.weight.shape
        self.weight_type = output.weight.dtype

    def detach(self) -> "LinearLogits":
        return LinearLogits(self.source.detach().to(self.weight_type), self.output.detach())

    def block(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        """Raw logits of the labels ``start`` … ``stop - 1``, (n, B)."""
        weight, bias = self.output
        return product(weight[start:stop], self.source.t()).to(dtype).add_(bias[start:stop, None])

    def add_gradient(self, total: Tensor, start: int, stop: int, gradient: Tensor) -> None:
        """Add the contribution of a block, whose raw logits have the gradient (n, B), to that of the features, (B, d)."""
        weight = self.output.weight[start:stop]
        total += transposed_product(weight, gradient.to(weight.dtype)).t()


class GivenLogits:
    """Raw logits that exist already, of heads that compute those of all labels at once.

    Args:
        logits: (B, L).
    """

    layers: dict[str, LinearWeights] = {}

    def __init__(self, logits: Tensor):
        self.source = logits
        self.width, self.num_labels = logits.shape
        self.weight_type = logits.dtype

    def detach(self) -> "GivenLogits":
        return GivenLogits(self.source.detach())

    def block(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return self.source[:, start:stop].t().to(dtype)

    def add_gradient(self, total: Tensor, start: int, stop: int, gradient: Tensor) -> None:
        total[:, start:stop] += gradient.t()


@dataclass(frozen=True)
class LabelLayers:
    """The inputs of a batch's logits: raw logits or where they come from, and the layers of CorNet.

    Attributes:
        raw: Where raw logits come from.
        to_context: W1 (R, L) and b1 (R,) of each CorNet block.
        to_labels: W2 (L, R) and b2 (L,) of each CorNet block.
        activation: σ, CorNet's function on the logits it reads.
    """

    raw: LinearLogits | GivenLogits
    to_context: tuple[LinearWeights, ...] = ()
    to_labels: tuple[LinearWeights, ...] = ()
    activation: str = "sigmoid"

    @classmethod
    def of(cls, raw: LinearLogits | GivenLogits, cornet: CorNet | None) -> "LabelLayers":
        if cornet is None:
            return cls(raw)
        to_context = (LinearWeights(block.to_context.weight, block.to_context.bias) for block in cornet.blocks)
        to_labels = (LinearWeights(block.to_labels.weight, block.to_labels.bias) for block in cornet.blocks)
        return cls(raw, tuple(to_context), tuple(to_labels), cornet.activation)

    def by_name(self) -> dict[str, LinearWeights]:
        """The layers with one row or column per label, by their names in the model."""
        layers = dict(self.raw.layers)
        for index, (context, labels) in enumerate(zip(self.to_context, self.to_labels, strict=True)):
            layers |= {f"cornet.blocks.{index}.to_labels": labels, f"cornet.blocks.{index}.to_context": context}
        return layers

    def tensors(self) -> dict[str, Tensor]:
        """Features or given logits as ``source``, and every parameter by its name in the model."""
        layers = self.by_name().items()
        return {"source": self.raw.source} | {
            f"{name}.{kind}": tensor for name, layer in layers for kind, tensor in layer._asdict().items()
        }

    def detach(self) -> "LabelLayers":
        context, labels = ([layer.detach() for layer in layers] for layers in (self.to_context, self.to_labels))
        return LabelLayers(self.raw.detach(), tuple(context), tuple(labels), self.activation)


# ---- blocks of labels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockSettings:
    """Size of the blocks of labels, and memory for them.

    Attributes:
        block_size: Labels at a time; None for what suits the device.
        memory_mib: Logits of as many blocks as fit into this are held for the next pass instead of being computed again.
        reduce: Adds up a tensor over processes that hold different labels, in place; None where one process holds them all.
    """

    block_size: int | None = None
    memory_mib: float = 64.0
    reduce: Callable[[Tensor], None] | None = None


class LabelScorer:
    """The logits of one batch, labels first, (n, B), for any block of labels; see above for the formulas.

    It records no gradient; `gradients` gives them.

    Args:
        layers: Inputs of the logits.
        settings: Block size and memory.
        loss: The loss that `gradients` differentiates.
        positives: Positives of the batch, (B, P), for ``loss``.
        label_weights: Weight of each label, (L,), for losses that have weights.
    """

    def __init__(
        self,
        layers: LabelLayers,
        settings: BlockSettings,
        loss: LabelLoss | None = None,
        positives: Tensor | None = None,
        label_weights: Tensor | None = None,
    ):
        self.layers, self.settings, self.loss = layers.detach(), settings, loss
        self.raw, self.num_cornet_blocks = self.layers.raw, len(layers.to_context)
        # Scores are summed in full precision whatever the weights are held in.
        self.dtype = torch.float64 if self.raw.weight_type == torch.float64 else torch.float32
        self.device = self.raw.source.device
        self.num_labels, self.num_documents = self.raw.num_labels, len(self.raw.source)
        self.activation, self.slope = ACTIVATIONS[layers.activation]
        width = max([self.raw.width, *(len(layer.bias) for layer in layers.to_context)])
        self.block_size = settings.block_size or suitable_block_size(width, self.device.type)
        self.starts = [*range(0, self.num_labels, self.block_size), self.num_labels]
        self.positives = BatchPositives(positives, self.starts, label_weights) if positives is not None else None
        self.loss_scale: Tensor | float = 1.0  # gradient of what is differentiated with respect to the summed loss
        self.contexts: list[Tensor] = []  # c_n, (B, R)
        self.context_gradients: list[Tensor] = []  # of what the ELU of block n reads, (B, R)
        self.memory: dict[int, list[Tensor]] = {}  # logits that are held, by the first label of their block
        self._free_bytes = settings.memory_mib * 2**20

    def blocks(self) -> Iterator[tuple[int, int]]:
        """First label and end of every block."""
        return zip(self.starts, self.starts[1:], strict=False)

    def logits_per_block(self, start: int, stop: int, last: int | None = None) -> list[Tensor]:
        """x₀ … x_last, by default x_N, of the labels ``start`` … ``stop - 1``, each (n, B); those in memory are not computed again."""
        last = self.num_cornet_blocks if last is None else last
        logits = self.memory.get(start, [])
        if not logits:
            logits = [self.raw.block(start, stop, self.dtype)]
            size = self._bytes_of(logits[0])
            if size <= self._free_bytes:
                self._free_bytes -= size
                self.memory[start] = logits
        for index in range(len(logits) - 1, last):
            weight, bias = self.layers.to_labels[index]
            correction = product(weight[start:stop], self.contexts[index].t().to(weight.dtype)).to(self.dtype)
            logits.append(correction.add_(bias[start:stop, None]).add_(logits[-1]))
        return logits

    def logits(self, start: int, stop: int) -> Tensor:
        """The logits behind CorNet of a block, (n, B)."""
        return self.logits_per_block(start, stop)[-1]

    def release(self, start: int) -> None:
        """Free the memory of a block's logits."""
        logits = self.memory.pop(start, None)
        if logits:
            self._free_bytes += self._bytes_of(logits[0])

    def _bytes_of(self, logits: Tensor) -> int:
        """Memory of x₀ … x_N of a block."""
        return (self.num_cornet_blocks + 1) * logits.numel() * logits.element_size()

    def reduce(self, tensor: Tensor) -> None:
        """Add up a tensor over the processes that hold other labels, in place."""
        if self.settings.reduce is not None:
            self.settings.reduce(tensor)

    # ---- passes over all labels ------------------------------------------------------------------------------------------

    def compute_contexts(self) -> None:
        """One pass per CorNet block: c_n = ELU(W1_n · σ(x_n) + b1_n)."""
        for index, (weight, bias) in enumerate(self.layers.to_context):
            total = torch.zeros(len(bias), self.num_documents, dtype=self.dtype, device=self.device)  # (R, B)
            for start, stop in self.blocks():
                scores = self.activation(self.logits_per_block(start, stop, index)[index]).to(weight.dtype)
                total += product(weight[:, start:stop], scores)
            self.reduce(total)
            self.contexts.append(nn.functional.elu(total.add_(bias[:, None])).t().contiguous())

    def total_loss(self) -> Tensor:
        """The loss summed over documents and labels, a scalar of type `sum_type`."""
        total = torch.zeros((), dtype=sum_type(self.device), device=self.device)
        for start, stop in self.blocks():
            total += self.loss.value(self.logits(start, stop), self.positives.within(start))
        self.reduce(total)
        return total

    def compute_context_gradients(self) -> None:
        """One pass per CorNet block, from the last to the first."""
        self.context_gradients = [None] * self.num_cornet_blocks
        for index in range(self.num_cornet_blocks - 1, -1, -1):
            weight, context = self.layers.to_labels[index].weight, self.contexts[index]
            total = torch.zeros(weight.shape[1], self.num_documents, dtype=self.dtype, device=self.device)  # (R, B)
            for start, stop in self.blocks():
                logits = self.logits_per_block(start, stop)
                gradient = self.gradients(start, stop, logits, index + 1)[0]
                total += transposed_product(weight[start:stop], gradient.to(weight.dtype))
            self.reduce(total)
            # ELU's slope is 1 above zero and ELU + 1 below.
            self.context_gradients[index] = total.t() * torch.where(context > 0, 1.0, context + 1.0)

    # ---- gradients of a block --------------------------------------------------------------------------------------------

    def gradients(self, start: int, stop: int, logits: list[Tensor], first: int) -> list[Tensor]:
        """Gradients of the summed loss times `loss_scale` with respect to x_first … x_N of a block, each (n, B).

        ``logits`` are the block's x₀ … x_N. The gradient of x_n needs those of all contexts from c_n on
        (`compute_context_gradients`).
        """
        gradients = [self.loss.gradient(logits[-1], self.positives.within(start)).mul_(self.loss_scale)]
        for index in range(self.num_cornet_blocks - 1, first - 1, -1):
            weight = self.layers.to_context[index].weight[:, start:stop]  # (R, n)
            through_context = transposed_product(weight, self.context_gradients[index].t().to(weight.dtype)).to(self.dtype)
            slope = self.slope(self.activation(logits[index]))
            gradients.insert(0, through_context.mul_(slope).add_(gradients[0]))
        return gradients

    def input_factors(self) -> dict[str, Tensor]:
        """By layer the right factor (B, d) of the gradient of its label rows, which is the same for all blocks."""
        factors = dict.fromkeys(self.raw.layers, self.raw.source)
        for index, (context, gradient) in enumerate(zip(self.contexts, self.context_gradients, strict=True)):
            factors |= {f"cornet.blocks.{index}.to_labels": context, f"cornet.blocks.{index}.to_context": gradient}
        return factors

    def output_factors(self, logits: list[Tensor], gradients: list[Tensor]) -> dict[str, Tensor]:
        """By layer the left factor (n, B) for a block, given its x₀ … x_N and their gradients."""
        factors = dict.fromkeys(self.raw.layers, gradients[0])
        for index in range(self.num_cornet_blocks):
            factors[f"cornet.blocks.{index}.to_labels"] = gradients[index + 1]
            factors[f"cornet.blocks.{index}.to_context"] = self.activation(logits[index])
        return factors
