"""Products of a tall block of label rows with the few documents of a batch: what a label head spends its time on.

They give the numbers of `torch.mm` up to rounding. For float32 on CPUs they go through oneDNN, as 1 × 1 convolutions over n places
with d channels: with a few dozen documents the BLAS in torch's CPU builds takes about twice as long (measured on AMD Zen 5;
``scripts/benchmarks/label_head_speed.py`` measures both). Other devices and types are left to `torch.mm`. None of them has a
gradient: call them where none is recorded.
"""

import torch
from torch import Tensor, nn

__all__ = ["add_outer_product", "product", "transposed_product"]

# torch hands 1 × 1 convolutions to oneDNN for so many images at least, whatever the number of threads.
IMAGES = 16


def product(matrix: Tensor, columns: Tensor) -> Tensor:
    """``matrix @ columns`` of a block of label rows, (n, d) @ (d, B) → (n, B)."""
    if not _is_for_onednn(matrix, columns):
        return torch.mm(matrix, columns)
    rows, width = matrix.shape
    threads = torch.get_num_threads()
    if columns.shape[1] == 1 and threads > 1 and rows % threads == 0:
        # One document: a matrix × vector product in torch uses one thread, a batch of them all.
        parts = matrix.reshape(threads, rows // threads, width)
        return torch.bmm(parts, columns.expand(threads, width, 1)).view(rows, 1)
    return _from_images(nn.functional.conv2d(_as_images(matrix), columns.t()[:, :, None, None]))


def transposed_product(matrix: Tensor, columns: Tensor) -> Tensor:
    """``matrixᵀ @ columns`` of a block of label rows, (n, d)ᵀ @ (n, B) → (d, B)."""
    whole = len(matrix) - len(matrix) % IMAGES
    if not _is_for_onednn(matrix, columns) or not whole:
        return torch.mm(matrix.t(), columns)
    if whole < len(matrix):  # an uneven number of places takes up to three times as long
        return transposed_product(matrix[:whole], columns[:whole]).addmm_(matrix[whole:].t(), columns[whole:])
    # The gradient of a convolution's weight is this product.
    shape = (columns.shape[1], matrix.shape[1], 1, 1)
    return nn.grad.conv2d_weight(_as_images(matrix), shape, _as_images(columns))[:, :, 0, 0].t()


def add_outer_product(matrix: Tensor, left: Tensor, right: Tensor, alpha: float = 1.0, beta: float = 1.0) -> None:
    """``matrix ← beta · matrix + alpha · left @ right`` in place, (n, d), (n, B) @ (B, d); `torch.Tensor.addmm_` in other words."""
    if not _is_for_onednn(matrix, left):
        matrix.addmm_(left, right, alpha=alpha, beta=beta)
        return
    if beta == 0.0:
        torch.mul(product(left, right), alpha, out=matrix)
    else:
        (matrix if beta == 1.0 else matrix.mul_(beta)).add_(product(left, right), alpha=alpha)


def _is_for_onednn(matrix: Tensor, factor: Tensor) -> bool:
    return (
        matrix.device.type == "cpu"
        and matrix.dtype == torch.float32
        and matrix.is_contiguous()
        and matrix.numel() > 0
        and factor.numel() > 0
        # With one thread and too few images torch would choose its own, slower way.
        and (len(matrix) % IMAGES == 0 or torch.get_num_threads() > 1)
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
    )


def _as_images(matrix: Tensor) -> Tensor:
    """(n, d) as images of n places with d channels, channels last: (images, d, n / images, 1)."""
    rows, width = matrix.shape
    images = IMAGES if rows % IMAGES == 0 else 1
    return matrix.contiguous().view(images, rows // images, 1, width).permute(0, 3, 1, 2)


def _from_images(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1])
