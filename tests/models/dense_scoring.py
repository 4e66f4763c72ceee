"""The plain way to score labels, with logits and targets of size documents × labels, that the block-wise one is compared with."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from hf_xmtc.models.cornet import CorNet
from hf_xmtc.models.label_head import LabelHead

__all__ = [
    "BLOCK_SIZES",
    "CONTEXT_SIZE",
    "LABELS",
    "MEMORY_MIB",
    "NUM_LABELS",
    "WIDTH",
    "ShapesMade",
    "build_head",
    "dense_logits",
    "dense_loss",
    "documents",
    "multi_hot",
    "parameters_of",
    "take_gradients",
]

NUM_LABELS, WIDTH, CONTEXT_SIZE = 11, 6, 5
BLOCK_SIZES = [1, 2, 3, 4, 10, 11, 12, None]
# Memory for no block, for one of 3 labels of 4 documents through 3 CorNet blocks, for all.
MEMORY_MIB = {"nothing kept": 0.0, "a part kept": 3 * 4 * 4 * 4 / 2**20, "all kept": 64.0}
# Positives in the first and the last block, in no block, and repeated ones with padding in between.
LABELS = torch.tensor([[0, 10, -100], [3, 4, 5], [-100, -100, -100], [7, -100, 7]])


def build_head(
    num_blocks: int = 0, activation: str = "sigmoid", dtype: torch.dtype = torch.float32, **settings
) -> tuple[LabelHead, CorNet | None]:
    """A head, with CorNet where there are blocks, of the same weights at every call."""
    torch.manual_seed(0)
    head = LabelHead(WIDTH, settings.pop("num_labels", NUM_LABELS), **settings)
    if head.positive_weight is not None:
        head.positive_weight.copy_(1 + torch.arange(head.num_labels) / 4)
    cornet = CorNet(head.num_labels, CONTEXT_SIZE, num_blocks, activation).to(dtype) if num_blocks else None
    return head.to(dtype), cornet


def parameters_of(head: LabelHead, cornet: CorNet | None) -> list[nn.Parameter]:
    """Those of the head, then those of CorNet."""
    return [*head.parameters(), *(cornet.parameters() if cornet is not None else ())]


def documents(count: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Hidden states, the same at every call, (count, H)."""
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


def multi_hot(labels: torch.Tensor, num_labels: int = NUM_LABELS) -> torch.Tensor:
    """Padded label ids (B, P) as a float matrix (B, L)."""
    hot = torch.zeros(len(labels), num_labels)
    for document, row in enumerate(labels.tolist()):
        for label_id in row:
            if label_id >= 0:
                hot[document, label_id] = 1.0
    return hot


def dense_logits(head: LabelHead, hidden: torch.Tensor, cornet: CorNet | None = None) -> torch.Tensor:
    """Logits of all labels by `torch.nn.Linear` and the CorNet module."""
    features = hidden if head.bottleneck is None else torch.nn.functional.elu(head.bottleneck(hidden))
    logits = torch.nn.functional.linear(features, head.output.weight, head.output.bias)
    return cornet(logits) if cornet is not None else logits


def dense_loss(logits: torch.Tensor, labels: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Binary cross-entropy against a dense target matrix."""
    hot = multi_hot(labels, logits.shape[1]).to(logits.dtype)
    total = torch.nn.functional.binary_cross_entropy_with_logits(logits, hot, reduction="sum")
    return total / {"mean": logits.numel(), "sum_labels": len(logits), "sum": 1}[reduction]


def take_gradients(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of tensors, which are cleared."""
    gradients = [tensor.grad for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    return gradients


class ShapesMade(TorchDispatchMode):
    """Records the shape of every tensor that torch makes within it, also in a backward pass; views are tensors too."""

    def __init__(self):
        super().__init__()
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.shapes.add(tuple(tensor.shape))
        return made
