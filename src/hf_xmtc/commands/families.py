"""The model families by the name that ``--model_family`` takes."""

from collections.abc import Collection
from typing import Any

from hf_xmtc import models
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.modeling_joint import JointModel
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.models.word_encoders import WordLevelModel

__all__ = [
    "FAMILIES",
    "FROM_SCRATCH",
    "SIZES",
    "builds_transformer",
    "default_recipe",
    "family_named",
    "reads_cls_tokens",
    "reads_labels",
    "takes_backbone",
    "takes_candidates",
    "takes_label_tree",
]

FAMILIES: dict[str, tuple[type[XMTCConfig], type[XMTCPreTrainedModel]]] = {
    name: (model.config_class, model) for name, model in models.FAMILIES.items()
}


# Settings of `hf-xmtc train` for a family's own encoder in its usual sizes, where neither a recipe file nor the command line names them.
# Chosen on validation (scripts/results/small-recipes.md).
FROM_SCRATCH: dict[str, dict[str, Any]] = {
    "bertxml": {
        "cornet_num_blocks": 0,
        "learning_rate": 2e-3,
        "num_train_epochs": 8.0,
        "averaging_start_epoch": 2,
        "max_length_tokens": 200,
    },
    # All words of a text count.
    "bonsai": {"max_length_tokens": 100_000},
    "dismec": {"max_length_tokens": 100_000, "min_document_frequency": 1},
    "neighbors": {"max_length_tokens": 100_000},
    "parabel": {"max_length_tokens": 100_000},
}


# Fields of a config for which these settings were not chosen.
SIZES = {"hidden_size", "num_hidden_layers", "intermediate_size"}


def default_recipe(family: str, choices: Collection[str]) -> dict[str, Any]:
    """Those settings of `FROM_SCRATCH` that nobody has chosen.

    Args:
        family: Model family.
        choices: Names of the settings that were given. Weight averaging starts in an epoch and acts at evaluations, so it stays out where
            they are chosen; so does "no CorNet" where its width is.
    """
    settings = {name: value for name, value in FROM_SCRATCH.get(family, {}).items() if name not in choices}
    if not {"eval_strategy", "num_train_epochs", "max_steps"}.isdisjoint(choices):
        settings.pop("averaging_start_epoch", None)
    if "cornet_context_size" in choices:
        settings.pop("cornet_num_blocks", None)
    return settings


def family_named(name: str) -> tuple[type[XMTCConfig], type[XMTCPreTrainedModel]]:
    """Config and model class of a family.

    Raises:
        ValueError: If there is no such family.
    """
    if name not in FAMILIES:
        raise ValueError(f"model_family={name!r} is unknown. The families are: {', '.join(sorted(FAMILIES))}.")
    return FAMILIES[name]


def takes_backbone(family: str) -> bool:
    """True if the family has a place for a pretrained encoder."""
    return hasattr(family_named(family)[1], "from_backbone")


def builds_transformer(family: str) -> bool:
    """True if the encoder that the family trains from scratch is one of transformers."""
    model_class = family_named(family)[1]
    return takes_backbone(family) and model_class.is_trained_by_gradient and not issubclass(model_class, WordLevelModel)


def takes_label_tree(family: str) -> bool:
    """True if the family can score labels over a label tree."""
    return hasattr(family_named(family)[0], "tree_level_sizes")


def takes_candidates(family: str) -> bool:
    """True if the family can score candidates that a generator finds."""
    return hasattr(family_named(family)[0], "num_candidates")


def reads_cls_tokens(family: str) -> bool:
    """True if the family's documents begin with CLS tokens."""
    return hasattr(family_named(family)[0], "num_cls_tokens")


def reads_labels(family: str) -> bool:
    """True if the family has an embedding for each label."""
    return issubclass(family_named(family)[1], JointModel)
