"""From training arguments to an optimizer: label matrices, word embeddings and the rest, each with its own rule."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer
from transformers.utils import logging

from hf_xmtc.models.label_block_loss import LabelMatrix, RowUpdate
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

from .arguments import SGD_LEARNING_RATE, XMTCTrainingArguments
from .label_updates import AdamUpdate, GatheredUpdate, LabelUpdate, RowwiseUpdate, SGDUpdate
from .optimizers import CompositeOptimizer, InBackwardOptimizer, LazyAdam, RowwiseAdam, UncorrectedEpsilonAdam
from .sharded_label_head import shard_of

__all__ = [
    "build_optimizer",
    "label_learning_rate",
    "prepared_for_training",
    "sparse_embedding",
    "sparse_label_vectors",
    "trained_label_matrices",
]

logger = logging.get_logger(__name__)

RULES = {"sgd_in_backward": SGDUpdate, "rowwise_in_backward": RowwiseUpdate, "adam_in_backward": AdamUpdate}


def label_learning_rate(args: XMTCTrainingArguments, matrix: str = "") -> float:
    """The initial learning rate of a label matrix, by its name in `label_matrices`."""
    if matrix.startswith("cornet.") and args.cornet_learning_rate is not None:
        return args.cornet_learning_rate
    if args.label_learning_rate is not None:
        return args.label_learning_rate
    return SGD_LEARNING_RATE if args.label_optimizer == "sgd_in_backward" else args.learning_rate


def trained_label_matrices(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> dict[str, LabelMatrix]:
    """The label matrices that ``label_optimizer`` trains: none for ``adamw``, and none that is frozen.

    Raises:
        ValueError: If of a matrix only the weights or only the biases are frozen, or they are narrower than float32.
    """
    if args.label_optimizer == "adamw":
        return {}
    chosen = {}
    for name, matrix in model.label_matrices().items():
        trained = [parameter.requires_grad for parameter in matrix.parameters]
        if any(trained) and not all(trained):
            raise ValueError(
                f"Of {name} only a part is frozen (requires_grad of weight and bias: {trained}), but label_optimizer="
                f"{args.label_optimizer!r} trains rows and biases together. Freeze both or neither, or use label_optimizer='adamw'."
            )
        narrow = [str(parameter.dtype) for parameter in matrix.parameters if parameter.dtype.itemsize < 4]
        if all(trained) and narrow:
            raise ValueError(
                f"{name} is held in {narrow[0]}, where updates much smaller than a weight are lost in rounding, but label_optimizer="
                f"{args.label_optimizer!r} keeps no wider copy. Open or build the model in float32 (dtype=torch.float32); bf16=True then "
                "computes in bfloat16 over float32 weights."
            )
        if all(trained):
            chosen[name] = matrix
    return chosen


def build_optimizer(
    model: XMTCPreTrainedModel, args: XMTCTrainingArguments, optimizer_class: type[Optimizer], settings: dict[str, Any]
) -> tuple[Optimizer, dict[str, RowUpdate] | None]:
    """Make the optimizer that the arguments ask for.

    ``adam_epsilon`` is that of a sum over labels: with ``loss_reduction="mean"`` it is divided by their number, so that Adam's steps are the
    same for both, but with ``adam_epsilon_uncorrected`` it is as the authors have it.

    Args:
        model: The model; its `parameter_groups` decide which weights decay.
        args: ``label_optimizer``, ``label_learning_rate``, ``cornet_learning_rate``, ``sparse_embeddings``, ``adam_epsilon_uncorrected``
            and the settings of AdamW.
        optimizer_class: Optimizer of everything else.
        settings: Its keyword arguments.

    Returns:
        The optimizer, and for in-backward updates what `XMTCPreTrainedModel.update_labels_in_backward` is to be given.

    Raises:
        ValueError: If ``adam_epsilon_uncorrected`` is set with an optimizer other than torch's AdamW.
    """
    if args.adam_epsilon_uncorrected:
        if optimizer_class is not torch.optim.AdamW:
            raise ValueError(
                f"adam_epsilon_uncorrected=True, but the optimizer is {optimizer_class.__name__}, from optimizer_cls_and_kwargs=…, which "
                "knows nothing of it. Leave one of them out."
            )
        optimizer_class = UncorrectedEpsilonAdam
        settings = {name: settings[name] for name in ("lr", "betas", "eps")}
    epsilon = args.adam_epsilon
    if not args.adam_epsilon_uncorrected:
        # A mean over thousands of labels makes gradients so small that the usual epsilon slows training many times.
        epsilon /= _gradient_factor(model)
        if settings.get("eps") == args.adam_epsilon:  # and not that of optimizer_cls_and_kwargs
            settings = {**settings, "eps": epsilon}
    matrices = trained_label_matrices(model, args)
    groups = model.parameter_groups(settings.get("lr", args.learning_rate), args.weight_decay)
    if args.label_optimizer == "adamw" and args.label_learning_rate is not None:
        labels = (parameter for matrix in model.label_matrices().values() for parameter in matrix.parameters)
        groups = _with_rate(groups, labels, args.label_learning_rate)
    if args.cornet_learning_rate is not None and model.cornet is not None:
        groups = _with_rate(groups, model.cornet.parameters(), args.cornet_learning_rate)
    tables = _sparse_tables(model, args)
    of_tables = _filtered(groups, lambda parameter: id(parameter) in tables)
    elsewhere = tables | {id(parameter) for matrix in matrices.values() for parameter in matrix.parameters}
    groups = _filtered(groups, lambda parameter: id(parameter) not in elsewhere)
    if not elsewhere:
        return optimizer_class(groups, **settings), None

    parts: dict[str, Optimizer] = {"rest": optimizer_class(groups, **settings)} if groups else {}
    if of_tables:
        parts["embeddings"] = LazyAdam(of_tables, betas=(args.adam_beta1, args.adam_beta2), eps=epsilon)
    updates = None
    if args.updates_in_backward and matrices:
        updates = _make_updates(model, args, matrices)
        parts["labels"] = InBackwardOptimizer(updates)
        if args.world_size > 1 and shard_of(model) is None:
            updates = {name: GatheredUpdate(update) for name, update in updates.items()}
    elif matrices:
        parts["labels"] = RowwiseAdam(
            matrices,
            lr={name: label_learning_rate(args, name) for name in matrices},
            beta2=args.adam_beta2,
            eps=args.adam_epsilon,
            weight_decay=args.weight_decay,
            gradient_factor=_gradient_factor(model),
        )
    return CompositeOptimizer(parts), updates


def _filtered(groups: list[dict], is_chosen: Callable[[nn.Parameter], bool]) -> list[dict]:
    """The groups with the chosen parameters alone, without those that are then empty."""
    chosen = [{**group, "params": [parameter for parameter in group["params"] if is_chosen(parameter)]} for group in groups]
    return [group for group in chosen if group["params"]]


def _with_rate(groups: list[dict], parameters: Iterable[nn.Parameter], rate: float) -> list[dict]:
    """The groups, in which these parameters have a rate of their own."""
    chosen = {id(parameter) for parameter in parameters}
    others = _filtered(groups, lambda parameter: id(parameter) not in chosen)
    return others + [{**group, "lr": rate} for group in _filtered(groups, lambda parameter: id(parameter) in chosen)]


def _gradient_factor(model: XMTCPreTrainedModel) -> float:
    return float(model.config.num_labels) if model.config.loss_reduction == "mean" else 1.0


def _make_updates(
    model: XMTCPreTrainedModel, args: XMTCTrainingArguments, matrices: dict[str, LabelMatrix]
) -> dict[str, LabelUpdate]:
    settings = {
        "sgd_in_backward": {},
        "rowwise_in_backward": {"beta2": args.adam_beta2, "eps": args.adam_epsilon},
        "adam_in_backward": {"betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_epsilon},
    }[args.label_optimizer]
    updates = {}
    for name, matrix in matrices.items():
        group = {
            "params": list(matrix.parameters),
            "lr": label_learning_rate(args, name),
            "weight_decay": args.weight_decay,
            **settings,
        }
        updates[name] = RULES[args.label_optimizer](
            lambda name=name: model.label_matrices()[name], group, _gradient_factor(model)
        )
    return updates


def sparse_embedding(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> nn.Embedding | None:
    """The word embedding, if it is to have sparse gradients and is not frozen.

    Raises:
        ValueError: If it cannot have them.
    """
    if not args.sparse_embeddings:
        return None
    embedding = model.get_input_embeddings()
    if not isinstance(embedding, nn.Embedding) or embedding.max_norm is not None or embedding.scale_grad_by_freq:
        raise ValueError(
            f"sparse_embeddings=True, but the model's word embedding is {embedding}, and only a plain nn.Embedding can have sparse "
            "gradients. Leave sparse_embeddings out."
        )
    named = model.named_parameters(remove_duplicate=False)
    sharing = [name for name, parameter in named if parameter is embedding.weight]
    if len(sharing) > 1:
        raise ValueError(
            f"sparse_embeddings=True, but {' and '.join(sharing)} are one tensor, and the gradient of the second use is dense. "
            "Set tie_word_embeddings=False, or leave sparse_embeddings out."
        )
    if dist.is_initialized() and args.world_size > 1 and dist.get_backend() == "nccl":
        raise ValueError(
            f"sparse_embeddings=True with {args.world_size} processes on GPUs: NCCL cannot exchange sparse gradients. Leave "
            "sparse_embeddings out, or train in one process."
        )
    return embedding if embedding.weight.requires_grad else None


def sparse_label_vectors(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> nn.Parameter | None:
    """The label vectors over a label tree, where only the rows of candidates are read, if they are to have sparse gradients.

    None if they are frozen, if ``label_optimizer`` trains them, and with several processes: `DistributedDataParallel` takes sparse
    gradients of `torch.nn.Embedding` only.
    """
    if not args.sparse_embeddings or getattr(model, "label_tree", None) is None:
        return None
    if args.label_optimizer != "adamw" or args.world_size > 1:
        return None
    (matrix,) = model.label_head.matrices().values()
    return matrix.parameters[0] if matrix.parameters[0].requires_grad else None


def _sparse_tables(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> set[int]:
    embedding, vectors = sparse_embedding(model, args), sparse_label_vectors(model, args)
    tables = [None if embedding is None else embedding.weight, vectors]
    return {id(table) for table in tables if table is not None}


@contextlib.contextmanager
def prepared_for_training(model: XMTCPreTrainedModel, args: XMTCTrainingArguments) -> Iterator[None]:
    """Within this context gradients are as the arguments want them; afterwards the model is an ordinary one again.

    The embedding, and label vectors over a tree, get sparse gradients; label matrices that are updated in the backward pass are left out by
    DistributedDataParallel and equal in all processes; and after it no update is attached.
    """
    matrices = trained_label_matrices(model, args) if args.updates_in_backward else {}
    embedding = sparse_embedding(model, args)
    replicated = bool(matrices) and args.world_size > 1 and shard_of(model) is None
    if matrices and (args.max_grad_norm or 0) > 0 and args.should_log:
        clipping = (
            "adaptive_gradient_clipping=True" if args.adaptive_gradient_clipping else f"max_grad_norm={args.max_grad_norm}"
        )
        logger.warning(
            f"Gradient clipping ({clipping}) and the logged gradient norm leave the label matrices out: with "
            f"label_optimizer={args.label_optimizer!r} their gradients are never stored."
        )
    was_sparse = embedding is not None and embedding.sparse
    try:
        if embedding is not None:
            embedding.sparse = True
        model.label_head.sparse_rows = sparse_label_vectors(model, args) is not None
        if replicated:
            _leave_out_of_ddp(model, matrices)
        yield
    finally:
        model.update_labels_in_backward(None)
        model.label_head.sparse_rows = False
        if embedding is not None:
            embedding.sparse = was_sparse
        if replicated:
            _take_into_ddp(model, matrices)


def _leave_out_of_ddp(model: XMTCPreTrainedModel, matrices: dict[str, LabelMatrix]) -> None:
    parameters = {id(parameter) for matrix in matrices.values() for parameter in matrix.parameters}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in parameters]
    # The way that torch's own sharded embeddings take; it has no public one.
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
    with torch.no_grad():
        for matrix in matrices.values():
            for parameter in matrix.parameters:
                dist.broadcast(parameter.data, src=0)  # as DistributedDataParallel does with the others


def _take_into_ddp(model: XMTCPreTrainedModel, matrices: dict[str, LabelMatrix]) -> None:
    vars(model).pop("_ddp_params_and_buffers_to_ignore", None)
    for matrix in matrices.values():
        for parameter in matrix.parameters:
            vars(parameter).pop("_ddp_ignored", None)
