"""`LabelScorer`: the logits of any block of labels, through the head and any number of CorNet blocks, and their gradients.

`block_loss` and `block_topk` stand on it, and through them every model family.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from .cornet import ACTIVATIONS, CorNetMatrices
from .label_losses import LabelLoss, sum_type
from .label_positives import BatchPositives
from .label_products import product, transposed_product

__all__ = ["LabelMatrix", "LabelScorer", "LinearHead", "RowUpdate", "ScorerSettings", "suitable_block_size"]

# Numbers in the weights of a block of labels where no block size is given: those of 4,096 labels of width 512. On a CPU they stay
# in the cache from one product to the next; a GPU wants more work at once.
BLOCK_NUMBERS = {"cpu": 2**21, "other": 2**25}


class RowUpdate(Protocol):
    """Takes the gradient of a matrix with one row per label as it comes, block by block, instead of storing it.

    `agree` and then `begin` are called once per backward pass, before anything is written; then every row exactly once: the
    gradient of rows ``start`` … ``stop - 1`` is ``left @ right``, (stop - start, B) @ (B, d), that of their biases
    ``left.sum(1)``. `agree` is told whether this process's loss and gradients are finite, a bool scalar, and answers whether
    those of all processes are that change the same matrix.
    """

    def agree(self, finite: Tensor) -> Tensor: ...

    def begin(self) -> None: ...

    def __call__(self, start: int, stop: int, left: Tensor, right: Tensor) -> None: ...


class LabelMatrix(NamedTuple):
    """A matrix with one row per label.

    Attributes:
        rows: (L, d), a view of the parameter; of CorNet's ``to_context.weight`` (R, L) it is the transpose.
        bias: One number per label, (L,), or None.
        parameters: The parameters behind both.
    """

    rows: Tensor
    bias: Tensor | None
    parameters: list[nn.Parameter]


class LinearHead(NamedTuple):
    """Weight (L, d) and bias (L,) of the layer that gives the raw logits."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class ScorerSettings:
    """How the blocks are gone through.

    Attributes:
        activation: CorNet's function on the logits it reads.
        block_size: Labels at a time; None for what suits the device.
        memory_mib: Logits of as many blocks as fit into this are kept for the next pass instead of being computed again.
        reduce: Adds up a tensor over processes that hold different labels, in place; None where one process holds them all.
    """

    activation: str = "sigmoid"
    block_size: int | None = None
    memory_mib: float = 64.0
    reduce: Callable[[Tensor], None] | None = None


class LabelScorer:
    """The logits of one batch, labels first, (n, B), for any block of labels.

    With CorNet x₀ are the raw logits and x_{n+1} = x_n + W2_n · c_n + b2_n those behind block n, whose context
    c_n = ELU(W1_n · σ(x_n) + b1_n) takes a pass over all labels (CorNet, equations 1 and 2). Given the contexts, every block of
    labels stands alone. It records no gradient; `gradients` gives them.

    Args:
        source: Features (B, d) for ``head``, or without one the raw logits (B, L) themselves.
        head: The linear layer, or None.
        cornet: CorNet's blocks.
        settings: Block size and memory.
        loss: What `gradients` differentiates.
        positives: Positives of the batch, (B, P), for ``loss``.
        label_weights: Weight of each label, (L,), for losses that have weights.
    """

    def __init__(
        self,
        source: Tensor,
        head: LinearHead | None,
        cornet: list[CorNetMatrices],
        settings: ScorerSettings,
        loss: LabelLoss | None = None,
        positives: Tensor | None = None,
        label_weights: Tensor | None = None,
    ):
        self.head, self.cornet, self.settings, self.loss = head, cornet, settings, loss
        weight = head.weight if head is not None else source
        # Scores are summed in full precision whatever the weights are held in.
        self.dtype = torch.float64 if weight.dtype == torch.float64 else torch.float32
        self.num_labels = weight.shape[0] if head is not None else source.shape[1]
        self.num_documents = len(source)
        self.source = source.to(weight.dtype)
        self.squash, self.slope = ACTIVATIONS[settings.activation]
        width = max(
            [weight.shape[1] if head is not None else self.num_documents] + [len(block.to_context) for block in cornet]
        )
        self.block_size = settings.block_size or suitable_block_size(width, weight.device.type)
        self.starts = [*range(0, self.num_labels, self.block_size), self.num_labels]
        self.positives = BatchPositives(positives, self.starts, label_weights) if positives is not None else None
        self.loss_scale: Tensor | float = 1.0  # gradient of what is differentiated with respect to the summed loss
        self.contexts: list[Tensor] = []  # c_n, (B, R)
        self.context_gradients: list[Tensor] = []  # of what the ELU of block n reads, (B, R), from the last block down
        self._kept: dict[int, list[Tensor]] = {}
        self._room = settings.memory_mib * 2**20

    def blocks(self) -> Iterator[tuple[int, int]]:
        """First label and end of every block."""
        return zip(self.starts, self.starts[1:], strict=False)

    def block_logits(self, start: int, stop: int) -> Tensor:
        """Raw logits of the labels ``start`` … ``stop - 1``, (n, B)."""
        if self.head is None:
            return self.source[:, start:stop].t().to(self.dtype)
        logits = product(self.head.weight[start:stop], self.source.t()).to(self.dtype)
        return logits.add_(self.head.bias[start:stop, None])

    def stages(self, start: int, stop: int, depth: int) -> list[Tensor]:
        """x₀ … x_depth of a block, each (n, B), from memory as far as they were kept."""
        stages = self._kept.get(start, [])
        if not stages:
            stages = [self.block_logits(start, stop)]
            needed = self._bytes_of(stages[0])
            if needed <= self._room:
                self._room -= needed
                self._kept[start] = stages
        for index in range(len(stages) - 1, depth):
            block = self.cornet[index]
            logits = product(block.to_labels[start:stop], self.contexts[index].t().to(block.to_labels.dtype)).to(self.dtype)
            stages.append(logits.add_(block.labels_bias[start:stop, None]).add_(stages[-1]))
        return stages

    def read_contexts(self) -> None:
        """One pass over all labels per CorNet block: c_n = ELU(W1_n · σ(x_n) + b1_n)."""
        for index, block in enumerate(self.cornet):
            total = self.source.new_zeros(len(block.to_context), self.num_documents, dtype=self.dtype)  # (R, B)
            for start, stop in self.blocks():
                scores = self.squash(self.stages(start, stop, index)[index]).to(block.to_context.dtype)
                total += product(block.to_context[:, start:stop], scores)
            self.reduce(total)
            self.contexts.append(nn.functional.elu(total.add_(block.context_bias[:, None])).t().contiguous())

    def total_loss(self) -> Tensor:
        """The loss summed over documents and labels, a scalar of type `sum_type`."""
        total = torch.zeros((), dtype=sum_type(self.source.device), device=self.source.device)
        for start, stop in self.blocks():
            total += self.loss.value(self.stages(start, stop, len(self.cornet))[-1], self.positives.within(start))
        self.reduce(total)
        return total

    def gradients(self, start: int, stop: int, stages: list[Tensor], last: int) -> list[Tensor]:
        """Gradients with respect to x_N, x_{N-1} … x_last of a block, each (n, B): of the summed loss times `loss_scale`.

        ``stages`` are the block's x₀ … x_N. Those of x_n need the gradients of all contexts from c_n on
        (`read_context_gradients`).
        """
        found = [self.loss.gradient(stages[-1], self.positives.within(start)).mul_(self.loss_scale)]
        for index in range(len(self.cornet) - 1, last - 1, -1):
            to_context = self.cornet[index].to_context[:, start:stop]  # (R, n)
            pulled = transposed_product(to_context, self.context_gradients[index].t().to(to_context.dtype)).to(self.dtype)
            found.append(pulled.mul_(self.slope(self.squash(stages[index]))).add_(found[-1]))
        return found

    def read_context_gradients(self) -> None:
        """One pass over all labels per CorNet block, from the last to the first."""
        self.context_gradients = [None] * len(self.cornet)
        for index in range(len(self.cornet) - 1, -1, -1):
            block = self.cornet[index]
            total = self.source.new_zeros(block.to_labels.shape[1], self.num_documents, dtype=self.dtype)  # (R, B)
            for start, stop in self.blocks():
                gradient = self.gradients(start, stop, self.stages(start, stop, len(self.cornet)), index + 1)[-1]
                total += transposed_product(block.to_labels[start:stop], gradient.to(block.to_labels.dtype))
            self.reduce(total)
            context = self.contexts[index]  # ELU's slope is 1 above zero and ELU + 1 below
            self.context_gradients[index] = total.t() * torch.where(context > 0, 1.0, context + 1.0)

    def add_source_gradient(self, total: Tensor, start: int, stop: int, gradient: Tensor) -> None:
        """Add what the gradient of a block's raw logits (n, B) means for the source, (B, d) or (B, L)."""
        if self.head is None:
            total[:, start:stop] += gradient.t()
        else:
            weight = self.head.weight[start:stop]
            total += transposed_product(weight, gradient.to(weight.dtype)).t()

    def rights(self) -> list[Tensor]:
        """Right factors (B, d) of the gradients of all label matrices: of the head, then W2 and W1 of each CorNet block."""
        factors = [self.source] if self.head is not None else []
        for context, gradient in zip(self.contexts, self.context_gradients, strict=True):
            factors += [context, gradient]
        return factors

    def lefts(self, stages: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        """Left factors (n, B) for a block, in the order of `rights`, of its x₀ … x_N and their gradients."""
        factors = gradients[:1] if self.head is not None else []
        for index in range(len(self.cornet)):
            factors += [gradients[index + 1], self.squash(stages[index])]
        return factors

    def forget(self, start: int) -> None:
        """Give back what was kept of a block, and the room that it took."""
        stages = self._kept.pop(start, None)
        if stages:
            self._room += self._bytes_of(stages[0])

    def _bytes_of(self, logits: Tensor) -> int:
        """Memory of all stages of a block."""
        return (len(self.cornet) + 1) * logits.numel() * logits.element_size()

    def reduce(self, tensor: Tensor) -> None:
        """Add up a tensor over the processes that hold other labels, in place."""
        if self.settings.reduce is not None:
            self.settings.reduce(tensor)


def suitable_block_size(width: int, device_type: str) -> int:
    """Labels scored at a time where no block size is given.

    Args:
        width: Largest width of a label's row, in head or CorNet.
        device_type: ``cpu``, ``cuda`` …
    """
    numbers = BLOCK_NUMBERS["cpu" if device_type == "cpu" else "other"]
    return max(64, numbers // max(1, width) // 64 * 64)
