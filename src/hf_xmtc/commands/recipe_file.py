"""The recipe file that ``hf-xmtc train --config`` reads."""

import os
from typing import Any

__all__ = ["read_recipe_file"]

# What train.py adds to recipe.json beside the settings.
RECORDED = (
    "data_digest",
    "dataset_fingerprint",
    "dataset_language",
    "dataset_license",
    "dataset_name",
    "dataset_repo_id",
    "document_sample",
    "model_digest",
    "processes",
    "validation_carved",
)
# Former names of settings, which published recipes have.
RENAMED = {"injection_share": "positive_injection_ratio", "tune_generator_share": "tune_retrieval_weight"}


def read_recipe_file(path: str, known: set[str]) -> dict[str, Any]:
    """Settings of a YAML or JSON file, numbers as text.

    Args:
        path: The file; the recipe.json of a model folder is one.
        known: Names of all settings.

    Raises:
        FileNotFoundError: If it is not there.
        ValueError: If it holds no settings, or unknown ones.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no recipe file {path}. Recipes of this project lie in scripts/recipes/.")
    import yaml

    with open(path, encoding="utf-8") as file:
        try:
            settings = yaml.safe_load(file) or {}
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold settings as 'name: value' lines, found a {type(settings).__name__}.")
    # The recipe.json of a model folder also records what the run found; that is no setting.
    settings = {RENAMED.get(key, key): value for key, value in settings.items() if key not in RECORDED}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ValueError(f"{path} names {', '.join(unknown)}, which hf-xmtc train does not know; see hf-xmtc train --help.")
    # As text they are checked and converted like values on the command line: YAML reads 1e-3 as text and 12.5 as a length.
    return {key: str(value) if isinstance(value, bool | int | float) else value for key, value in settings.items()}
