"""Training with the labels spread over processes (`sharded_label_head.py`), as `XMTCTrainer` does it."""

import glob
import math
import os

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

from .arguments import XMTCTrainingArguments
from .gradient_clipping import clip_sparse_and_dense
from .sharded_label_head import LabelShard, full_state_dict, label_dimensions, shard_labels, shard_of

__all__ = [
    "check_resumed_processes",
    "clip_sharded",
    "gathered_weights",
    "num_parameters",
    "optimizer_folder",
    "save_optimizer_part",
    "spread_labels",
]

FOLDER = "label_shard_{}_of_{}"


def spread_labels(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> None:
    """Leave of the label matrices only this process's part, where ``shard_labels`` asks for it.

    Raises:
        ValueError: If the model is sharded but the arguments are not for that.
    """
    shard = shard_of(model)
    if shard is not None and not args.shard_labels:
        raise ValueError(
            f"The model's labels are spread over {shard.world_size} processes, but shard_labels=False. Set shard_labels=True, or "
            "open the whole model."
        )
    if shard is None and args.shard_labels:
        shard_labels(model)


@torch.no_grad()
def clip_sharded(model: XMTCPreTrainedModel, max_norm: float) -> Tensor:
    """As `torch.nn.utils.clip_grad_norm_`, by the norm of the whole model's gradients.

    Its square is that of this process's replicated parameters, whose gradients are the same in all processes, and the sum over
    processes of those of their label matrices. All processes find the same norm and scale by the same factor.

    Args:
        model: A model with sharded labels; sparse gradients are allowed.
        max_norm: Norm to clip to; infinity only measures.

    Returns:
        The norm before clipping.
    """
    shard, sharded = shard_of(model), label_dimensions(model)
    own, replicated = [], []
    for name, parameter in model.named_parameters():
        (own if name in sharded else replicated).append(parameter)
    square = clip_sparse_and_dense(own, math.inf).to(model.device).square()
    shard.reduce(square)
    norm = (square + clip_sparse_and_dense(replicated, math.inf).to(model.device).square()).sqrt()
    if math.isfinite(max_norm):
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for parameter in own + replicated:
            if parameter.grad is not None:
                values = parameter.grad.values() if parameter.grad.is_sparse else parameter.grad
                values.mul_(factor)
    return norm


def num_parameters(model: XMTCPreTrainedModel) -> int:
    """Parameters of the whole model, also where this process holds only a part of them."""
    shard = shard_of(model)
    dimensions = label_dimensions(model) if shard is not None else {}
    total = 0
    for name, parameter in model.named_parameters():
        per_label = parameter.numel() // parameter.shape[dimensions[name]] if name in dimensions else 0
        total += per_label * shard.num_labels if per_label else parameter.numel()
    return total


# ---- checkpoints ---------------------------------------------------------------------------------------------------------


def gathered_weights(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> dict[str, Tensor] | None:
    """The weights of a whole model, in the processes that write them; None where the model is whole already.

    With sharded labels all processes have to call it.
    """
    if shard_of(model) is None:
        return None
    return full_state_dict(model, to_rank=None if args.save_on_each_node else 0)


def optimizer_folder(checkpoint: str, shard: LabelShard | None) -> str:
    """Where a checkpoint keeps the state of the optimizer: with sharded labels each process has a folder of its own in it."""
    return checkpoint if shard is None else os.path.join(checkpoint, FOLDER.format(shard.rank + 1, shard.world_size))


def save_optimizer_part(optimizer: Optimizer, scheduler: LRScheduler, checkpoint: str, shard: LabelShard) -> None:
    """Write this process's optimizer and scheduler into its folder; done when all processes have written theirs."""
    folder = optimizer_folder(checkpoint, shard)
    os.makedirs(folder, exist_ok=True)
    torch.save(optimizer.state_dict(), os.path.join(folder, OPTIMIZER_NAME))
    torch.save(scheduler.state_dict(), os.path.join(folder, SCHEDULER_NAME))
    dist.barrier(group=shard.group)


def check_resumed_processes(checkpoint: str, shard: LabelShard | None) -> None:
    """Refuse a checkpoint whose optimizer state is that of other parts of the labels.

    Raises:
        ValueError: If the labels were spread over another number of processes.
    """
    parts = glob.glob(os.path.join(glob.escape(checkpoint), FOLDER.format("*", "*")))
    if shard is None or not parts or os.path.isdir(optimizer_folder(checkpoint, shard)):
        return
    before = os.path.basename(parts[0]).rpartition("_")[2]
    raise ValueError(
        f"The labels of {os.path.basename(checkpoint)} were spread over {before} processes, but this run has {shard.world_size}, and "
        f"the optimizer's state is kept by process. Resume with {before}, or start in a new output folder."
    )
