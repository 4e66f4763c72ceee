"""Options of training that exclude each other, or that do nothing here: tables, and the loop that reads them."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from transformers import Trainer

from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

__all__ = [
    "BY_WEIGHT",
    "CHOSEN",
    "CONFLICTS",
    "IN_BACKWARD",
    "IN_COMMAND",
    "IN_TRAINER",
    "MODEL_CONFLICTS",
    "Conflict",
    "check_conflicts",
    "check_engine_options",
    "check_model_options",
    "check_ranges",
    "check_unused_arguments",
    "option_settings",
]

# Optimizers that treat every weight by itself; others would do something else to a part of a matrix than to the whole.
BY_WEIGHT = ("adamw", "sgd", "rmsprop", "adagrad", "lion")
# Optimizers that make their own parameter groups, which here those of label matrices and embeddings would replace.
_OWN_GROUPS = ("galore", "apollo", "lomo", "adalomo")
CHOSEN = "any value but the default"


class Conflict(NamedTuple):
    """Values of options that exclude values of others.

    Attributes:
        options: Names of options.
        values: Their values: a tuple, a function that is true for them, or `CHOSEN`.
        others: Names of other options, or of facts about model and engine; each of them is excluded by each of the first.
        other_values: Likewise.
        remedy: Reason and next step; ``{model}`` stands for the model's class.
    """

    options: tuple[str, ...]
    values: Any
    others: tuple[str, ...]
    other_values: Any
    remedy: str


def _several(number: int) -> bool:
    return number > 1


IN_BACKWARD = ("sgd_in_backward", "rowwise_in_backward", "adam_in_backward")
_OPTIMIZER, _SHARDS = ("label_optimizer",), ("shard_labels",)
_LOSSES, _ENGINES = ("compute_loss_func", "label_smoother"), ("fsdp", "deepspeed")
_IN_PARTS = ("sparse_embeddings", "shard_labels", "label_learning_rate", "cornet_learning_rate")
_LOSS = "it needs a gradient of all logits, but only the model's own loss has one, block by block. Leave it out; config.label_loss chooses a loss."
_ENGINE = "it shards the weights and updates them itself. Leave one of them out."
_COPIES = "torch.nn.DataParallel copies the model in every step. Start a process for each GPU with torchrun, or set CUDA_VISIBLE_DEVICES to one."
_EVEN = "an update takes the documents of all processes, so all need as many batches. Leave even_batches at True."
_EPSILON = "it places the epsilon of torch's AdamW. Leave optim out and adam_epsilon above 0, or leave it out."
_CANDIDATES = (
    "the gradients are those of the candidates' rows alone. Leave it out; label_optimizer='rowwise' saves memory too."
)

CONFLICTS = (
    Conflict(
        ("averaging_start_epoch", "early_stopping_patience"),
        CHOSEN,
        ("eval_strategy",),
        ("no",),
        "it acts at each evaluation, so it would never do anything. Set eval_strategy='epoch' or 'steps'.",
    ),
    Conflict(
        ("adaptive_gradient_clipping",),
        CHOSEN,
        ("max_grad_norm",),
        lambda norm: norm <= 0,
        "that switches all clipping off. Leave max_grad_norm out; adaptive clipping sets its own threshold.",
    ),
    Conflict(
        ("adam_epsilon_uncorrected",),
        CHOSEN,
        ("optim",),
        lambda optim: optim not in ("adamw_torch", "adamw_torch_fused"),
        _EPSILON,
    ),
    Conflict(("adam_epsilon_uncorrected",), CHOSEN, ("adam_epsilon",), (0.0,), _EPSILON),
    Conflict(
        ("label_optimizer", "sparse_embeddings"),
        CHOSEN,
        ("optim",),
        lambda optim: not optim.startswith("adamw"),
        "it goes with AdamW for the rest of the model. Leave one of them out.",
    ),
    Conflict(
        _OPTIMIZER,
        IN_BACKWARD,
        ("gradient_accumulation_steps",),
        _several,
        "it updates in every backward pass, so nothing is accumulated. Raise per_device_train_batch_size instead, or use "
        "label_optimizer='rowwise'.",
    ),
    Conflict(
        _OPTIMIZER,
        IN_BACKWARD,
        ("fp16",),
        (True,),
        "fp16 leaves out steps that overflow, known only after the backward pass. Use bf16=True, or label_optimizer='rowwise'.",
    ),
    Conflict(
        _SHARDS,
        CHOSEN,
        ("fp16",),
        (True,),
        "fp16 leaves out steps that overflow, which each process would decide by its own labels. Use bf16=True.",
    ),
    Conflict(
        _SHARDS,
        CHOSEN,
        ("optim",),
        lambda optim: not optim.startswith(BY_WEIGHT),
        f"it may look at whole matrices, and a process has a part of them. Choose one of {', '.join(BY_WEIGHT)}.",
    ),
    Conflict(_OPTIMIZER, IN_BACKWARD, _ENGINES, CHOSEN, _ENGINE),
    Conflict(_IN_PARTS, CHOSEN, _ENGINES, CHOSEN, _ENGINE),
    Conflict(_OPTIMIZER, IN_BACKWARD, ("n_gpu",), _several, _COPIES),
    Conflict(_IN_PARTS, CHOSEN, ("n_gpu",), _several, _COPIES),
    Conflict(_OPTIMIZER, IN_BACKWARD, _LOSSES, CHOSEN, _LOSS),
    Conflict(_SHARDS, CHOSEN, _LOSSES, CHOSEN, _LOSS),
    Conflict(_OPTIMIZER, IN_BACKWARD, ("even_batches",), (False,), _EVEN),
    Conflict(_SHARDS, CHOSEN, ("even_batches",), (False,), _EVEN),
    Conflict(
        _SHARDS,
        CHOSEN,
        ("world_size",),
        (1,),
        "one process would hold all labels anyway. Start several with torchrun --nproc_per_node N, or leave it out.",
    ),
)

MODEL_CONFLICTS = (
    Conflict(
        ("tune_threshold",),
        CHOSEN,
        ("has_thresholds",),
        (False,),
        "the predicted set of {model} has no thresholds. Leave it out.",
    ),
    Conflict(_OPTIMIZER, IN_BACKWARD, ("num_candidates", "tree_level_sizes"), bool, _CANDIDATES),
    Conflict(_SHARDS, CHOSEN, ("num_candidates", "tree_level_sizes"), bool, _CANDIDATES),
    Conflict(
        ("compute_loss_func",),
        CHOSEN,
        ("num_candidates",),
        bool,
        "there are no logits of all labels that it could read. Leave it out; the model's own loss is that of the candidates.",
    ),
    Conflict(
        ("label_optimizer", "label_learning_rate"),
        CHOSEN,
        ("has_label_matrices",),
        (False,),
        "{model} has no matrix with a row per label that it could train. Leave it out.",
    ),
    Conflict(("cornet_learning_rate",), CHOSEN, ("cornet_num_blocks",), (0,), "there is no CorNet to train. Leave it out."),
)
# Of families whose labels read all tokens of a document.
TOKEN_CONFLICTS = (
    Conflict(
        _OPTIMIZER,
        IN_BACKWARD,
        ("world_size",),
        _several,
        "the labels of {model} read all tokens, and documents of the processes differ in length. Use label_optimizer='rowwise' or "
        "'adamw', or one process.",
    ),
    Conflict(
        _SHARDS,
        CHOSEN,
        ("world_size",),
        _several,
        "the labels of {model} read all tokens of documents, which each process has for its own ones only. Leave it out.",
    ),
)

# Option → the values it can have, and why.
RANGES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("eval_top_k", lambda k: k >= 5, "it must be at least 5: P@5 and other metrics look at 5 labels per document."),
    ("set_top_k", lambda k: k >= 1, "a set is looked for among at least 1 label."),
    ("averaging_start_epoch", lambda epoch: epoch is None or epoch >= 0, "epochs count from 0."),
    ("early_stopping_patience", lambda number: number is None or number >= 1, "it must be at least 1."),
    ("label_learning_rate", lambda rate: rate is None or rate >= 0, "a rate cannot be negative."),
    ("cornet_learning_rate", lambda rate: rate is None or rate >= 0, "a rate cannot be negative."),
    (
        "optim",
        lambda optim: not optim.startswith(_OWN_GROUPS),
        "it groups parameters in its own way, as this trainer does. Choose another; label_optimizer='rowwise' saves memory too.",
    ),
)

# Arguments of transformers that do nothing here: the values that do no harm, and why there are no others.
IN_TRAINER: dict[str, tuple[tuple, str]] = {
    "label_smoothing_factor": (
        (0.0,),
        "transformers smooths labels of which one is right, not several. config.label_loss chooses another loss.",
    ),
    "use_liger_kernel": ((False,), "There are no Liger kernels for these models."),
    "liger_kernel_config": ((None,), "There are no Liger kernels for these models."),
    "use_cache": ((False,), "These models generate no text and cache nothing."),
    "label_names": ((None, [], ["labels"]), "The labels of a batch are called labels."),
    "save_only_model": (
        (False,),
        "A run that resumes from such checkpoints would go on with other weights than an uninterrupted one.",
    ),
    "length_column_name": (("length",), "Lengths are counted in input_ids."),
    "eval_do_concat_batches": ((True,), "Metrics and the order of predictions need all batches together."),
}
# The same for ``hf-xmtc train``, whose evaluation, files and publishing are fixed.
IN_COMMAND: dict[str, tuple[tuple, str]] = {
    "do_train": ((True, None), "This command always trains; hf-xmtc predict tags texts with a trained model."),
    "do_eval": ((True, None), "Every split is evaluated in the end; --eval_strategy no leaves it out during training."),
    "do_predict": ((True, None), "Predictions for the evaluated splits are always written."),
    "prediction_loss_only": ((False,), "The metrics and predictions that this command writes need more than the loss."),
    "batch_eval_metrics": ((False,), "The metrics of this command are of all documents at once."),
    "include_for_metrics": (([],), "The metrics of this command need scores and labels alone."),
    "average_tokens_across_devices": ((True,), "It concerns losses that are counted by tokens."),
    "remove_unused_columns": ((True,), "The columns of the data are those that this command has made."),
    "skip_memory_metrics": ((True,), "metrics.json holds peak_memory_mb in any case."),
    # The Trainer would cast the model once, for the evaluation after training, and it would be saved so.
    "fp16_full_eval": ((False,), "It would leave the saved weights in half precision; --fp16 True evaluates in it too."),
    "bf16_full_eval": ((False,), "It would leave the saved weights in half precision; --bf16 True evaluates in it too."),
    "hub_strategy": (("every_save",), "push_to_hub publishes the finished model, once."),
    "hub_always_push": ((False,), "push_to_hub publishes the finished model, once."),
    "resume_from_checkpoint": (
        (None,),
        "Repeat the same command to resume: it goes on from the last checkpoint in its output_dir.",
    ),
}


def check_unused_arguments(args: Any, unused: Mapping[str, tuple[tuple, str]]) -> None:
    """Refuse arguments of transformers that would do nothing.

    Args:
        args: Training arguments, or a namespace of them.
        unused: `IN_TRAINER` or `IN_COMMAND`.

    Raises:
        ValueError: If there is one.
    """
    for name, (idle, reason) in unused.items():
        value = getattr(args, name, idle[0])
        if getattr(value, "value", value) not in idle:
            raise ValueError(f"{name}={value} cannot be used here. {reason} Leave the option out.")


def check_ranges(args: Any) -> None:
    """Refuse values outside `RANGES`.

    Raises:
        ValueError: If there is one.
    """
    settings = option_settings(args)
    for name, is_usable, reason in RANGES:
        if not is_usable(settings[name]):
            raise ValueError(f"{name}={settings[name]!r}, but {reason}")


def option_settings(args: Any) -> dict[str, Any]:
    """Training arguments by name, as the tables look at them."""
    return {
        **{name: value.value if isinstance(value, Enum) else value for name, value in vars(args).items()},
        "world_size": args.world_size,
        "n_gpu": args.n_gpu,
        "even_batches": args.world_size == 1 or args.accelerator_config.even_batches,
    }


def check_conflicts(conflicts: Iterable[Conflict], settings: Mapping[str, Any], defaults: type) -> None:
    """Refuse settings that exclude each other.

    Args:
        conflicts: The table.
        settings: Options and facts by name; what is not among them excludes nothing.
        defaults: The class whose attributes are the options' defaults.

    Raises:
        ValueError: If there are any.
    """
    for options, values, others, other_values, remedy in conflicts:
        for option, other in itertools.product(options, others):
            pairs = ((option, values), (other, other_values))
            if all(
                name in settings and _is_among(settings[name], among, getattr(defaults, name, None)) for name, among in pairs
            ):
                pair = (name if callable(settings[name]) else f"{name}={settings[name]!r}" for name, _ in pairs)
                raise ValueError(f"{' with '.join(pair)}: {remedy.format_map(settings)}")


def _is_among(value: Any, values: Any, default: Any) -> bool:
    if values is CHOSEN:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return value != default and (is_number or bool(value))
    return values(value) if callable(values) else value in values


def check_model_options(args: Any, model: XMTCPreTrainedModel, **functions: Any) -> None:
    """Refuse options that a family, or a model of candidates, cannot take.

    Args:
        args: Training arguments.
        model: The model, on any device.
        functions: Functions of the user's own that the trainer got.

    Raises:
        ValueError: If there is one.
    """
    is_linear = model.label_head.is_linear
    facts = {
        "model": type(model).__name__,
        "has_thresholds": model.has_thresholds,
        "num_candidates": getattr(model.config, "num_candidates", 0),
        "tree_level_sizes": getattr(model.config, "tree_level_sizes", None),
        "has_label_matrices": is_linear or bool(model.label_matrices()),
        "cornet_num_blocks": model.config.cornet_num_blocks,
    }
    conflicts = MODEL_CONFLICTS if is_linear else MODEL_CONFLICTS + TOKEN_CONFLICTS
    check_conflicts(conflicts, {**option_settings(args), **facts, **functions}, type(args))


def check_engine_options(trainer: Trainer) -> None:
    """Refuse options that do not go with the trainer's model, with its functions, or with what accelerate's configuration says.

    Raises:
        ValueError: If there is one.
    """
    args, functions = trainer.args, {name: getattr(trainer, name) for name in _LOSSES}
    engine = {
        "fsdp": args.fsdp or trainer.is_fsdp_enabled,
        "deepspeed": args.deepspeed or trainer.is_deepspeed_enabled,
        "fp16": args.fp16 or trainer.accelerator.mixed_precision == "fp16",
    }
    check_model_options(args, trainer.model, **functions)
    check_conflicts(CONFLICTS, {**option_settings(args), **engine, **functions}, type(args))
