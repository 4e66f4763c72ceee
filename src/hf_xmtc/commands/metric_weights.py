"""What a finished model folder says of how its metrics are computed: weights of labels for PSP, and labels that are left out."""

from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.metrics import inverse_propensity

from .output_folder import RECIPE_FILE

__all__ = ["metric_weights", "read_recipe"]


def read_recipe(folder: Path) -> dict[str, Any]:
    """The settings of a model folder; empty where it does not say them."""
    return read_json_object(folder / RECIPE_FILE) if (folder / RECIPE_FILE).is_file() else {}


def metric_weights(
    counted: tuple[np.ndarray, int] | None, recipe: dict[str, Any], num_labels: int, num_known: int
) -> tuple[np.ndarray | None, int | None]:
    """Inverse propensities, also of labels that only evaluation data have; and the number of labels where those are ignored."""
    ignored = num_labels if recipe.get("ignore_unseen_labels") else None
    if counted is None:
        return None, ignored
    counts = np.append(counted[0], np.zeros(num_known - num_labels, dtype=np.int64))
    constants = {key: recipe[f"propensity_{key}"] for key in ("a", "b") if f"propensity_{key}" in recipe}
    return inverse_propensity(counts, counted[1], **constants), ignored
