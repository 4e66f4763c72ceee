"""What label options do not go with: engines, losses and optimizers that a trainer was given, checkpoints of other options."""

import os
from typing import Any

from torch.optim import Optimizer
from transformers import Trainer

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.label_names import LABELS_FILE, LabelNames
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

from .arguments import BY_WEIGHT, XMTCTrainingArguments
from .layer_rates import check_encoder_options

__all__ = [
    "check_engine_options",
    "check_model_options",
    "check_optimizer",
    "check_resumed_labels",
    "check_resumed_optimizer",
    "check_thresholds",
    "label_options",
]

OPTIONS = {
    "label_optimizer": "adamw",
    "label_learning_rate": None,
    "sparse_embeddings": False,
    "shard_labels": False,
    "adam_epsilon_uncorrected": False,
}


def label_options(args: XMTCTrainingArguments) -> dict[str, Any]:
    """The options that decide how an optimizer is built."""
    return {name: getattr(args, name) for name in OPTIONS}


def check_optimizer(trainer: Trainer) -> None:
    """Refuse, where label options are set, an optimizer that `XMTCTrainer.create_optimizer` has not built.

    Raises:
        ValueError: If there is one.
    """
    chosen = next(
        (f"{name}={value!r}" for name, value in label_options(trainer.args).items() if value != OPTIONS[name]), None
    )
    if chosen is None or trainer.optimizer is None or _plain(trainer.optimizer) is trainer.built_optimizer:
        return
    own = type(_plain(trainer.optimizer)).__name__
    if trainer.args.shard_labels and label_options(trainer.args) == {**OPTIONS, "shard_labels": True}:
        _check_by_weight(own)  # it works on a part of a matrix as on the whole
        return
    raise ValueError(
        f"{chosen}, but the trainer has an optimizer of your own ({own}), from optimizers=…, trainer.optimizer or an overridden "
        "create_optimizer, which knows nothing of it. Leave one of them out."
    )


def _check_options_unchanged(trainer: Trainer) -> None:
    check_optimizer(trainer)
    built, now = trainer.built_with, label_options(trainer.args)
    if built is not None and trainer.optimizer is not None and _plain(trainer.optimizer) is trainer.built_optimizer:
        for name, before in built.items():
            if now[name] != before:
                raise ValueError(
                    f"The trainer's optimizer was built with {name}={before!r}, but it is {now[name]!r} now. Make a new XMTCTrainer for other "
                    "options."
                )
    if trainer.args.shard_labels and trainer.optimizer_cls_and_kwargs is not None:
        _check_by_weight(trainer.optimizer_cls_and_kwargs[0].__name__)


def _check_by_weight(optimizer: str) -> None:
    if not optimizer.lower().startswith(BY_WEIGHT + ("adam",)):
        raise ValueError(
            f"shard_labels=True with the optimizer {optimizer}, which may look at whole matrices, and a process has a part of them. Choose "
            f"one that treats every weight by itself ({', '.join(BY_WEIGHT)})."
        )


def _plain(optimizer: Optimizer) -> Optimizer:
    """The optimizer that accelerate has wrapped."""
    return getattr(optimizer, "optimizer", optimizer)


def check_engine_options(trainer: Trainer) -> None:
    """Refuse what the arguments alone do not show: what an environment or accelerate's own configuration has asked for.

    Raises:
        ValueError: If options, engine and what the trainer was given do not go together.
    """
    args, accelerator = trainer.args, trainer.accelerator
    _check_options_unchanged(trainer)
    check_model_options(args, trainer.model)
    options = {
        f"label_optimizer={args.label_optimizer!r}": args.updates_in_backward,
        "sparse_embeddings=True": args.sparse_embeddings,
        "shard_labels=True": args.shard_labels,
        f"label_learning_rate={args.label_learning_rate}": args.label_learning_rate is not None,
    }
    chosen = next((option for option, is_used in options.items() if is_used), None)
    if chosen is None:
        return
    for name in ("compute_loss_func", "label_smoother"):
        if getattr(trainer, name) is not None and (args.updates_in_backward or args.shard_labels):
            raise ValueError(
                f"{chosen} with a {name}, which wants the logits of all labels, but they have no gradient here: only the model's own "
                "loss has, block by block. Leave one of them out; config.label_loss chooses a loss."
            )
    for engine, is_used in (("FSDP", trainer.is_fsdp_enabled), ("DeepSpeed", trainer.is_deepspeed_enabled)):
        if is_used:
            raise ValueError(
                f"{chosen}, but accelerate was started with {engine}, which shards the weights and updates them itself. Start it "
                "without, or leave the option out."
            )
    args.check_label_options()  # accelerate's configuration, and whoever changed them, may have made them contradict each other
    if args.n_gpu > 1:
        raise ValueError(
            f"{chosen} in one process with {args.n_gpu} GPUs, where torch.nn.DataParallel copies the model in every step. Start one "
            f"process per GPU (torchrun --nproc_per_node {args.n_gpu} …), or set CUDA_VISIBLE_DEVICES to one GPU."
        )
    if (args.updates_in_backward or args.shard_labels) and accelerator.mixed_precision == "fp16":
        instead = ", or use label_optimizer='rowwise'" if args.updates_in_backward else ""
        raise ValueError(
            f"{chosen}, but accelerate was started with mixed_precision=fp16, which scales the loss and leaves out steps that "
            f"overflow. Start it with bf16{instead}."
        )


def check_thresholds(model_class: type[XMTCPreTrainedModel], args: XMTCTrainingArguments) -> None:
    """Refuse to tune thresholds of a family whose predicted sets have none.

    Raises:
        ValueError: If that was asked for.
    """
    if args.tune_threshold != "none" and not model_class.has_thresholds:
        raise ValueError(
            f"tune_threshold={args.tune_threshold!r}, but the predicted set of {model_class.__name__} has no thresholds. Leave it out."
        )


def check_model_options(args: XMTCTrainingArguments, model: XMTCPreTrainedModel) -> None:
    """Refuse options that a family, or a model of candidates, cannot take.

    Raises:
        ValueError: If there is one.
    """
    check_thresholds(type(model), args)
    check_encoder_options(model, args.layer_learning_rate_decay, args.freeze_heads)
    if num_candidates := getattr(model.config, "num_candidates", 0):
        for name, is_used in (("label_optimizer", args.updates_in_backward), ("shard_labels", args.shard_labels)):
            if is_used:
                raise ValueError(
                    f"{name}={getattr(args, name)!r}, but the model scores {num_candidates} candidates of a document and has gradients of "
                    "their rows alone. Leave it out; label_optimizer='rowwise' saves memory too."
                )
    if model.label_head.is_linear:
        return
    family = type(model).__name__
    chosen = next(
        (name for name in ("label_optimizer", "label_learning_rate") if getattr(args, name) != OPTIONS[name]), None
    )
    if chosen is not None and not model.label_matrices():
        raise ValueError(
            f"{chosen}={getattr(args, chosen)!r}, but {family} has no matrix with a row per label that it could train. Leave it out."
        )
    if args.updates_in_backward and args.world_size > 1:
        raise ValueError(
            f"label_optimizer={args.label_optimizer!r} with {args.world_size} processes: the labels of {family} read all tokens, and documents "
            "of the processes differ in length. Use label_optimizer='rowwise' or 'adamw', or train in one process."
        )
    if args.shard_labels:
        raise ValueError(
            f"shard_labels=True, but the labels of {family} cannot be spread over processes: every label reads all tokens of the documents, "
            "which each process has for its own ones only. Leave it out; memory is bounded by label blocks anyway."
        )


def check_resumed_optimizer(arguments_file: str, args: XMTCTrainingArguments) -> None:
    """Refuse to resume from a checkpoint whose optimizer state is that of other options.

    Raises:
        ValueError: If ``label_optimizer``, ``sparse_embeddings``, ``shard_labels`` or ``adam_epsilon_uncorrected`` in the checkpoint's
            arguments differ from ``args``.
    """
    if not os.path.exists(arguments_file):
        return
    saved = read_json_object(arguments_file)
    for name in ("label_optimizer", "sparse_embeddings", "shard_labels", "adam_epsilon_uncorrected"):
        before, now = saved.get(name, OPTIONS[name]), getattr(args, name)
        if before != now:
            raise ValueError(
                f"The checkpoint was trained with {name}={before!r}, but this run has {name}={now!r}, and the optimizer's state "
                f"differs. Resume with {name}={before!r}, or start in a new output folder."
            )


def check_resumed_labels(checkpoint: str, model: XMTCPreTrainedModel) -> None:
    """Refuse to resume from a checkpoint with another label space.

    Raises:
        ValueError: If its labels are not the model's.
    """
    path = os.path.join(checkpoint, LABELS_FILE)
    if not os.path.exists(path):
        return
    saved, current = LabelNames.load(path), model.config.label_names
    if saved.labels != current.labels:
        raise ValueError(
            f"The checkpoint {os.path.basename(checkpoint)} was trained on {len(saved)} labels that begin with "
            f"{saved.labels[:3]}, but this run has {len(current)} that begin with {current.labels[:3]}. Resume with the "
            "label file and data of the first run, or start in a new output folder."
        )
