"""What training tells its user before it starts: settings that are allowed and rarely meant."""

from collections.abc import Container

from hf_xmtc.training import XMTCTrainingArguments

from .recipe import Recipe

__all__ = ["advice_on"]

# Labels beside every text that a CPU reads without effort.
FEW_LABELS = 128


def advice_on(recipe: Recipe, num_labels: int, splits: Container[str]) -> list[str]:
    """Sentences on what is slow, or says less than is thought.

    Args:
        recipe: The settings.
        num_labels: Labels of the data.
        splits: Names of the splits.
    """
    found, settings = [], recipe.model.config_settings()
    if "test" not in splits:
        found.append(
            "There is no test split, so nothing will be measured on documents that no choice was made by. A folder's is read from "
            "test.parquet."
        )
    reads_all = recipe.model.reads_labels and settings.get("joint_embedding", True) and not settings.get("num_candidates")
    if reads_all and num_labels > FEW_LABELS:
        found.append(f"All {num_labels:,} labels are read beside every text and cost what as many words would.")
        if recipe.model.model_family == "laco":
            found[-1] += " --config_overrides num_candidates=64 reads the likeliest ones alone."
    if (
        recipe.model.backbone or recipe.model.model
    ) and recipe.training.learning_rate == XMTCTrainingArguments.learning_rate:
        found.append(
            f"learning_rate={recipe.training.learning_rate:g} suits models from scratch; pretrained encoders and trained models are usually fine-tuned with 2e-5 "
            "to 5e-4."
        )
    return found
