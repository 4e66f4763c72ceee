"""Gradient clipping: the adaptive one of AttentionXML's and CorNet's authors, and one that takes sparse gradients too."""

import math
from collections import deque
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

__all__ = ["AdaptiveGradientClipping", "clip_sparse_and_dense"]


class AdaptiveGradientClipping:
    """Clip the global gradient norm at a multiple of the largest of the last few norms.

    threshold = factor · max(last norms); then min(norm, 2 · max(last norms), 1) is remembered, the norm being that before
    clipping. The memory starts with one infinity, so nothing is clipped in the first `memory` steps.

    Args:
        factor: Multiple of the largest remembered norm (5 in the authors' code).
        memory: Norms remembered (5 in the authors' code).

    Source: training loop of the AttentionXML repository; the papers do not mention it.
    """

    def __init__(self, factor: float = 5.0, memory: int = 5):
        self.factor = factor
        self.norms: deque[float] = deque([float("inf")], maxlen=memory)

    @property
    def threshold(self) -> float:
        return self.factor * max(self.norms)

    def clip(self, clip_to: Callable[[float], float]) -> float:
        """Clip and remember.

        Args:
            clip_to: Clips the gradients to a norm and returns the norm they had, such as `clip_grad_norm_` of accelerate.

        Returns:
            The norm before clipping.
        """
        largest = max(self.norms)
        norm = float(clip_to(self.factor * largest))
        # Overflow in fp16 gives nan, which would stay the largest for good and turn the next gradients into nan.
        if not math.isnan(norm):
            self.norms.append(min(norm, 2 * largest, 1.0))
        return norm

    def state_dict(self) -> dict:
        # JSON has no infinity, so the starting value is stored as null.
        return {"norms": [None if norm == float("inf") else norm for norm in self.norms]}

    def load_state_dict(self, state: dict) -> None:
        """Take the norms of a checkpoint.

        Raises:
            ValueError: If they are no list of at least one positive number or null.
        """
        norms = state.get("norms") if isinstance(state, dict) else None
        if not norms or not isinstance(norms, list) or not all(norm is None or _is_norm(norm) for norm in norms):
            raise ValueError(
                f"The state of gradient clipping is {state!r:.80}, but must hold norms, a list of numbers or null. Is the checkpoint damaged? "
                "Delete it to resume from an earlier one."
            )
        norms = [float("inf") if norm is None else norm for norm in norms]
        self.norms = deque(norms, maxlen=self.norms.maxlen)


def _is_norm(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


@torch.no_grad()
def clip_sparse_and_dense(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """As `torch.nn.utils.clip_grad_norm_`, which refuses sparse gradients.

    The norm is that of the same gradients held densely: repeated rows of a sparse one are added up first.

    Args:
        parameters: Parameters; those without a gradient do not count.
        max_norm: Norm to clip to; infinity only measures.

    Returns:
        The norm before clipping.
    """
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    norm = nn.utils.get_total_norm(values)
    if math.isfinite(max_norm):
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for value in values:
            value.mul_(factor.to(value.device))
    return norm
