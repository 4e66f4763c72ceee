"""The recipe of a run from the command line and a file."""

import argparse
import sys
from typing import Any

from hf_xmtc.models.former_settings import with_current_fields
from hf_xmtc.training import XMTCTrainingArguments
from hf_xmtc.training.option_conflicts import IN_COMMAND, IN_TRAINER, check_unused_arguments

from .config_overrides import SAID_BY_DATA, USUAL_NAMES, field_names, hint, read_overrides
from .families import FAMILIES, SIZES, default_recipe, family_named
from .recipe import DataArguments, ModelArguments, Recipe
from .train_options import check_recipe_file, default_output_dir, option_parser, values_of

__all__ = ["parse_recipe", "read_recipe_file"]

# What train.py adds to recipe.json beside the settings.
RECORDED = (
    "candidates_digest",
    "data_digest",
    "dataset_fingerprint",
    "dataset_language",
    "dataset_license",
    "dataset_name",
    "dataset_repo_id",
    "document_sample",
    "model_digest",
    "processes",
    "test_carved",
    "validation_carved",
)
# Settings of published recipes for LACO with candidates that are gone, under all their names.
REMOVED = (
    "injection_share",
    "num_random_candidates",
    "positive_injection_ratio",
    "tune_generator_share",
    "tune_retrieval_weight",
)


def parse_recipe(argv: list[str] | None = None) -> Recipe:
    """Read the command line; ``--config FILE`` takes a YAML or JSON recipe whose values the command line may override.

    Raises:
        SystemExit: If a value cannot be read, as argparse does.
        FileNotFoundError: If there is no such recipe file.
        ValueError: If command line or recipe file name unknown settings, or settings contradict each other.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = option_parser(ModelArguments, DataArguments, XMTCTrainingArguments)
    path = next(iter(values_of("--config", argv)), None)
    known = {action.dest for action in parser._actions} - {"help", "help_all", "config"}
    from_file = {} if path is None else read_recipe_file(path, known)
    parser.set_defaults(**from_file)
    chosen, unknown = parser.parse_known_args(argv)
    if overrides := values_of("--config_overrides", argv):
        # Field by field, so that one of them does not undo what the recipe says of the others.
        texts = (from_file.get("config_overrides"), *overrides)
        chosen.config_overrides = {name: value for text in texts for name, value in read_overrides(text).items()}
    if unknown:
        options = [option.lstrip("-") for option in parser._option_string_actions if option.startswith("--")]
        raise ValueError(
            f"hf-xmtc train does not know {' '.join(unknown)}.{_hint_at_option(unknown[0], chosen.model_family, options)} See hf-xmtc "
            "train --help."
        )
    check_unused_arguments(chosen, {**IN_TRAINER, **IN_COMMAND})
    # What is not given stays as it is in the namespace.
    seen = vars(parser.parse_known_args(argv, argparse.Namespace(**dict.fromkeys(known, parser)))[0])
    choices = {name for name in known if from_file.get(name) is not None or seen[name] is not parser}
    if (path or chosen.model) and "dataset" not in choices:
        source = path or f"--model {chosen.model}"
        raise ValueError(
            f"{source} names no data set, and neither does the command line. Add --dataset FOLDER_OR_HUB_ID, or --dataset demo for the shipped one."
        )
    if "output_dir" not in choices:
        chosen.output_dir = default_output_dir(chosen.dataset, chosen.model or chosen.model_family)
    other_sizes = not SIZES.isdisjoint(read_overrides(chosen.config_overrides))
    if not (path or chosen.backbone or chosen.model or other_sizes):
        vars(chosen).update(default_recipe(chosen.model_family, choices))
    return Recipe(*parser.parse_dict(vars(chosen), allow_extra_keys=True), choices=frozenset(choices))


def _hint_at_option(option: str, family: str, options: list[str]) -> str:
    name = option.lstrip("-").partition("=")[0]
    if name in SAID_BY_DATA:
        return f" {SAID_BY_DATA[name]}"
    if name in USUAL_NAMES:
        return f" Did you mean {USUAL_NAMES[name]!r}?"
    if family in FAMILIES and name in field_names(FAMILIES[family][0]):
        return f" It is a field of the model's config: --config_overrides {name}=…."
    return hint(name, options)


def read_recipe_file(path: str, known: set[str]) -> dict[str, Any]:
    """Settings of a YAML or JSON file, numbers as text.

    Args:
        path: The file; the recipe.json of a model folder is one.
        known: Names of all settings.

    Raises:
        FileNotFoundError: If it is not there.
        ValueError: If it holds no settings, or unknown ones.
    """
    check_recipe_file(path)
    import yaml

    with open(path, encoding="utf-8") as file:
        try:
            settings = yaml.safe_load(file) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold settings as 'name: value' lines, found a {type(settings).__name__}.")
    # The recipe.json of a model folder also records what the run found; that is no setting.
    settings = {key: value for key, value in settings.items() if key not in RECORDED}
    if removed := sorted(settings.keys() & set(REMOVED)):
        raise ValueError(
            f"{path} names {', '.join(removed)}, which is gone: a model of candidates now reads its generator's votes and trains on its "
            "generator's lists. Leave it out."
        )
    if settings.get("config_overrides"):
        config_class = family_named(settings.get("model_family", ModelArguments.model_family))[0]
        settings["config_overrides"] = with_current_fields(config_class, read_overrides(settings["config_overrides"]))
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ValueError(f"{path} names {', '.join(unknown)}, which hf-xmtc train does not know; see hf-xmtc train --help.")
    # As text they are checked and converted like values on the command line: YAML reads 1e-3 as text and 12.5 as a length.
    return {key: str(value) if isinstance(value, bool | int | float) else value for key, value in settings.items()}
