"""Options of training by gradients, for families that are trained otherwise: refused, and left out of what a run says of itself."""

from typing import Any

from hf_xmtc.models.configuration_neighbors import SIZES as NEIGHBOR_SIZES
from hf_xmtc.models.modeling_linear_tree import LinearTreeModel
from hf_xmtc.training.linear_trees import check_omikuji

from .config_overrides import read_overrides
from .families import family_named

__all__ = ["check_gradient_options", "without_gradient_options"]

TRAINING_OPTIONS = (
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
    "adam_epsilon_uncorrected",
    "label_optimizer",
    "label_learning_rate",
    "cornet_learning_rate",
    "sparse_embeddings",
    "shard_labels",
    "averaging_start_epoch",
    "early_stopping_patience",
    "eval_strategy",
    "eval_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "greater_is_better",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "dataloader_drop_last",
    "fsdp",
    "deepspeed",
    "load_best_model_at_end",
    "metric_for_best_model",
    "activation_checkpointing",
    "gradient_checkpointing",
    "seed",
    "data_seed",
)
# What an encoder computes in, gradients or not.
PRECISION_OPTIONS = ("bf16", "fp16")
MODEL_OPTIONS = ("model", "cornet_num_blocks", "cornet_context_size", "label_bias_from_frequency", "word_vectors")
# What training finds out, and what only gradients train.
CONFIG_FIELDS = (
    "level_sizes",
    "num_weights",
    *NEIGHBOR_SIZES,
    "cornet_num_blocks",
    "cornet_context_size",
    "cornet_activation",
    "loss_reduction",
    "label_loss",
    "label_loss_settings",
)


def check_gradient_options(recipe: Any) -> None:
    """Refuse, for a family that is trained without gradients, options that would do nothing, and several processes.

    Args:
        recipe: A `Recipe`; of one that was made in Python nobody knows what was chosen.

    Raises:
        ValueError: If there are any.
        ImportError: If a library is missing.
    """
    family, given = recipe.model.model_family, recipe.choices or ()
    if family_named(family)[1].is_trained_by_gradient:
        return
    chosen = {**vars(recipe.model), **vars(recipe.data)}
    idle = [name for name in MODEL_OPTIONS if name in given and chosen[name]]  # 0 blocks of CorNet are what the family has
    idle += [name for name in _training_options(recipe.model.backbone) if name in given]
    idle += [
        f"{name} (in config_overrides)" for name in CONFIG_FIELDS if name in read_overrides(recipe.model.config_overrides)
    ]
    if idle:
        raise ValueError(
            f"{', '.join(idle)} cannot be used with the family {family}, which is trained without gradients. Leave "
            f"{'it' if len(idle) == 1 else 'them'} out."
        )
    if recipe.training.world_size > 1:
        raise ValueError(
            f"There are {recipe.training.world_size} processes, but a model of the family {family} is trained in one. Start it without "
            "torchrun or accelerate; OMP_NUM_THREADS says on how many cores."
        )
    if issubclass(family_named(family)[1], LinearTreeModel):
        check_omikuji()


def without_gradient_options(settings: dict[str, Any], family: str) -> dict[str, Any]:
    """The settings of a run without those that have no part in it."""
    if family_named(family)[1].is_trained_by_gradient:
        return settings
    left_out = {*MODEL_OPTIONS, *_training_options(settings.get("backbone"))}
    return {name: value for name, value in settings.items() if name not in left_out}


def _training_options(backbone: str | None) -> tuple[str, ...]:
    return TRAINING_OPTIONS if backbone else (*TRAINING_OPTIONS, *PRECISION_OPTIONS)
