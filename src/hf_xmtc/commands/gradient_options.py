"""Options of training by gradients, for families that are trained otherwise: refused, and left out of what a run says of itself."""

from typing import Any

from hf_xmtc.models.configuration_neighbors import SIZES as NEIGHBOR_SIZES
from hf_xmtc.models.modeling_linear_tree import LinearTreeModel
from hf_xmtc.training.linear_trees import check_omikuji

from .config_overrides import read_overrides
from .families import family_named
from .gradient_free_families import MODEL_OPTIONS, check_idle_options, idle_options, idle_training_options

__all__ = ["check_gradient_options", "without_gradient_options"]

# What an encoder computes in, gradients or not.
PRECISION_OPTIONS = ("bf16", "fp16")
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
    chosen = {**vars(recipe.model), **vars(recipe.data), **vars(recipe.training)}
    idle = idle_options({name: chosen.get(name) for name in given})
    idle += [name for name in PRECISION_OPTIONS if name in given and not recipe.model.backbone]
    idle += [
        f"{name} (in config_overrides)" for name in CONFIG_FIELDS if name in read_overrides(recipe.model.config_overrides)
    ]
    check_idle_options(family, idle)
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
    left_out = {*MODEL_OPTIONS, *idle_training_options(settings), *(() if settings.get("backbone") else PRECISION_OPTIONS)}
    return {name: value for name, value in settings.items() if name not in left_out}
