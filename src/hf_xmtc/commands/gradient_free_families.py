"""Families that are trained without gradients, and the options that mean nothing to them. Nothing heavy is imported."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["GRADIENT_FREE", "MODEL_OPTIONS", "check_idle_options", "idle_options", "idle_training_options"]

GRADIENT_FREE = ("bonsai", "dismec", "neighbors", "parabel")
# Those that say how an encoder is tuned, where tune_encoder asks for that.
ENCODER_OPTIONS = (
    "learning_rate",
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "train_sampling_strategy",
    "gradient_accumulation_steps",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_steps",
    "weight_decay",
    "max_grad_norm",
    "adaptive_gradient_clipping",
    "optim",
    "optim_args",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "early_stopping_patience",
    "eval_strategy",
    "eval_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "greater_is_better",
    "dataloader_drop_last",
    "load_best_model_at_end",
    "metric_for_best_model",
    "seed",
    "data_seed",
)
TRAINING_OPTIONS = (
    *ENCODER_OPTIONS,
    "adam_epsilon_uncorrected",
    "label_optimizer",
    "label_learning_rate",
    "cornet_learning_rate",
    "sparse_embeddings",
    "shard_labels",
    "averaging_start_epoch",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "fsdp",
    "deepspeed",
    "activation_checkpointing",
    "gradient_checkpointing",
)
MODEL_OPTIONS = ("model", "cornet_num_blocks", "cornet_context_size", "label_bias_from_frequency", "word_vectors")
# Values that leave an option off, as text.
_OFF = ("0", "f", "false", "n", "no", "none")


def idle_options(given: Mapping[str, Any]) -> list[str]:
    """Those of the given options that train by gradients; 0 blocks of CorNet and the like are what these families have.

    Args:
        given: Name of an option → its value, which may be text.
    """
    idle = [name for name in MODEL_OPTIONS if name in given and _is_on(given[name])]
    return idle + [name for name in idle_training_options(given) if name in given]


def idle_training_options(settings: Mapping[str, Any]) -> list[str]:
    """`TRAINING_OPTIONS` without those that tune an encoder, where the settings ask for that."""
    tunes = _is_on(settings.get("tune_encoder", False))
    return [name for name in TRAINING_OPTIONS if not tunes or name not in ENCODER_OPTIONS]


def _is_on(value: Any) -> bool:
    return str(value).lower() not in _OFF


def check_idle_options(family: str, idle: Sequence[str]) -> None:
    """Refuse options that mean nothing to a family.

    Args:
        family: One of `GRADIENT_FREE`.
        idle: The options, as they were given.

    Raises:
        ValueError: If there are any.
    """
    if idle:
        but = " (but for an encoder, with tune_encoder)" if family == "neighbors" else ""
        raise ValueError(
            f"{', '.join(idle)} cannot be used with the family {family}, which is trained without gradients{but}. Leave "
            f"{'it' if len(idle) == 1 else 'them'} out."
        )
