"""Choices by results on its validation documents that a model folder records; there the model looks better than it is."""

from pathlib import Path

from hf_xmtc.file_checks import read_json_object
from hf_xmtc.models.configuration_neighbors import VOTE_FIELDS
from hf_xmtc.models.modeling_ensemble import PARTS_FOLDER

from .metric_weights import read_recipe
from .output_folder import METRICS_FILE

__all__ = ["validation_choices"]


def validation_choices(folder: Path) -> list[str]:
    """Names of the choices on validation that move rankings, as thresholds do not.

    Args:
        folder: Model folder; of an ensemble its parts are looked at too.

    Returns:
        Names of the choices, each once; empty where the folder says of none.
    """
    recipe, metrics = read_recipe(folder), folder / METRICS_FILE
    measured = read_json_object(metrics).get("train", {}) if metrics.is_file() else {}
    choices = {
        "weights of the ensemble": recipe.get("model_family") == "ensemble" and recipe.get("method") == "tuned",
        "vote of the neighbours": any(name in measured for name in VOTE_FIELDS),
        "weight of retrieval": recipe.get("tune_retrieval_weight") or recipe.get("tune_generator_share"),
        # A recipe names its default only where it is another, and training by gradients by its learning rate.
        "best checkpoint": "learning_rate" in recipe and recipe.get("load_best_model_at_end", True),
        "end of training": recipe.get("early_stopping_patience"),
    }
    of_parts = [choice for part in sorted(folder.glob(f"{PARTS_FOLDER}/*")) for choice in validation_choices(part)]
    return list(dict.fromkeys([*(name for name, was_chosen in choices.items() if was_chosen), *of_parts]))
