"""Functions of one's own in `XMTCTrainer`: which it takes, and what is said where a loss misreads what it is given."""

from collections.abc import Callable
from typing import Any

import torch
from accelerate.utils.memory import should_reduce_batch_size
from torch import Tensor

from .arguments import XMTCTrainingArguments

__all__ = ["check_functions", "named_loss"]


def check_functions(args: XMTCTrainingArguments, functions: dict[str, Any]) -> None:
    """Refuse functions that do not fit how evaluation works here.

    Args:
        args: Training arguments.
        functions: The keyword arguments of the trainer.

    Raises:
        ValueError: If there is one, or one is missing.
    """
    if functions.get("preprocess_logits_for_metrics") is not None:
        raise ValueError(
            "preprocess_logits_for_metrics is not used: evaluation keeps the eval_top_k best labels of each document and never holds the "
            "logits of all. Leave it out; compute_metrics gets scores and label ids, best first."
        )
    if args.batch_eval_metrics and "compute_metrics" not in functions:
        raise ValueError(
            "batch_eval_metrics=True without compute_metrics: XMTCTrainer's own metrics are of all documents at once, and take little "
            "memory, because evaluation keeps the eval_top_k best labels alone. Leave it out, or give a compute_metrics(prediction, "
            "compute_result) that adds batches up."
        )


def named_loss(compute_loss_func: Callable, num_labels: int) -> Callable:
    """A loss of one's own whose failures say what it is given.

    Args:
        compute_loss_func: The user's function.
        num_labels: Labels of the model.

    Returns:
        The same function; where it fails or returns no number it raises a ValueError.
    """

    def loss_of(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        try:
            loss = compute_loss_func(outputs, labels, num_items_in_batch=num_items_in_batch)
        except (ValueError, RuntimeError, IndexError, TypeError) as error:
            if isinstance(error, RuntimeError) and should_reduce_batch_size(error):  # memory, for auto_find_batch_size
                raise
            raise ValueError(f"compute_loss_func failed: {error}\n{_given(outputs, labels, num_labels)}") from error
        returned = f"a {type(loss).__name__}"
        if isinstance(loss, Tensor):
            if loss.dim() == 0 and (loss.requires_grad or not torch.is_grad_enabled()):
                return loss
            returned = f"a tensor {tuple(loss.shape)}{'' if loss.requires_grad else ' without a gradient'}"
        raise ValueError(
            f"compute_loss_func returned {returned}, but a loss is one number with a gradient, such as a mean. (The logits of SeqTag, which "
            f"come out of a search, have none.)\n{_given(outputs, labels, num_labels)}"
        )

    return loss_of


def _given(outputs: Any, labels: Tensor, num_labels: int) -> str:
    shape = tuple(outputs.logits.shape) if isinstance(outputs.logits, Tensor) else None
    kind = "label ids padded with -100" if not torch.is_floating_point(labels) else "multi-hot labels"
    return (
        f"It is called as f(outputs, labels, num_items_in_batch=…) with outputs.logits {shape} and labels {tuple(labels.shape)}: {kind}. "
        f"Targets of the shape of the logits are hf_xmtc.multi_hot_targets(labels, {num_labels})."
    )
