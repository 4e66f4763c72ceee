"""Checks that an optimizer, a trainer's or a checkpoint's, is the one that the options describe."""

import os
from typing import Any

from torch.optim import Optimizer
from transformers import Trainer

from hf_xmtc.file_checks import read_json_object

from .arguments import XMTCTrainingArguments
from .option_conflicts import BY_WEIGHT

__all__ = ["check_optimizer", "check_resumed_optimizer", "label_options"]

DEFAULTS = {
    "label_optimizer": "adamw",
    "label_learning_rate": None,
    "cornet_learning_rate": None,
    "sparse_embeddings": False,
    "shard_labels": False,
    "adam_epsilon_uncorrected": False,
}


def label_options(args: XMTCTrainingArguments) -> dict[str, Any]:
    """The options that decide how an optimizer is built."""
    return {name: getattr(args, name) for name in DEFAULTS}


def check_optimizer(trainer: Trainer) -> None:
    """Refuse an optimizer that does not heed the label options.

    Raises:
        ValueError: If the trainer's is the user's own, was built with other options, or needs more than a part of a matrix.
    """
    options = label_options(trainer.args)
    chosen = [f"{name}={value!r}" for name, value in options.items() if value != DEFAULTS[name]]
    optimizer = trainer.optimizer and _plain(trainer.optimizer)
    if options["shard_labels"] and trainer.optimizer_cls_and_kwargs is not None:
        _check_by_weight(trainer.optimizer_cls_and_kwargs[0].__name__)
    if optimizer is None:
        return
    if optimizer is trainer.built_optimizer:
        for name, before in trainer.built_with.items():
            if options[name] != before:
                raise ValueError(
                    f"The trainer's optimizer was built with {name}={before!r}, but it is {options[name]!r} now. Make a new XMTCTrainer "
                    "for other options."
                )
    elif options == {**DEFAULTS, "shard_labels": True}:
        _check_by_weight(type(optimizer).__name__)  # it works on a part of a matrix as on the whole
    elif chosen:
        raise ValueError(
            f"{chosen[0]}, but the trainer has an optimizer of your own ({type(optimizer).__name__}), from optimizers=…, trainer.optimizer "
            "or an overridden create_optimizer, which knows nothing of it. Leave one of them out."
        )


def _check_by_weight(optimizer: str) -> None:
    if not optimizer.lower().startswith(BY_WEIGHT + ("adam",)):
        raise ValueError(
            f"shard_labels=True with the optimizer {optimizer}, which may look at whole matrices, and a process has a part of them. Choose "
            f"one that treats every weight by itself ({', '.join(BY_WEIGHT)})."
        )


def _plain(optimizer: Optimizer) -> Optimizer:
    """The optimizer that accelerate has wrapped."""
    return getattr(optimizer, "optimizer", optimizer)


def check_resumed_optimizer(arguments_file: str, args: XMTCTrainingArguments) -> None:
    """Refuse to resume from a checkpoint whose optimizer state is that of other options.

    Raises:
        ValueError: If one of them differs in the checkpoint's arguments. Another rate changes no state.
    """
    if not os.path.exists(arguments_file):
        return
    saved = read_json_object(arguments_file)
    for name, now in label_options(args).items():
        before = saved.get(name, DEFAULTS[name])
        if before != now and not name.endswith("learning_rate"):
            raise ValueError(
                f"The checkpoint was trained with {name}={before!r}, but this run has {name}={now!r}, and the optimizer's state "
                f"differs. Resume with {name}={before!r}, or start in a new output folder."
            )
