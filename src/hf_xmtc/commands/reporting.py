"""Reports of a training run: hints at settings before it, its log lines, its picture and its card."""

import errno
import logging
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import numpy as np

from hf_xmtc.hub import card_from_folder
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.training import XMTCTrainingArguments, plot_training_curve

from .families import reads_labels
from .gradient_free_families import GRADIENT_FREE
from .recipe import Recipe

__all__ = ["final_summary", "next_steps", "setting_hints", "threshold_summary", "write_picture_and_card"]

logger = logging.getLogger(__name__)

# Labels beside every text that a CPU reads without effort.
FEW_LABELS = 128


def setting_hints(recipe: Recipe, num_labels: int, splits: Container[str]) -> list[str]:
    """Sentences on settings that are slow, or give less than a reader of them would think.

    Args:
        recipe: The settings.
        num_labels: Labels of the data.
        splits: Names of the splits.
    """
    hints, settings = [], recipe.model.config_settings()
    if "test" not in splits:
        hints.append(
            "There is no test split, so the final metrics will come from data that were used for choices. A folder's is read from "
            "test.parquet."
        )
    reads_all = (
        reads_labels(recipe.model.model_family)
        and settings.get("joint_embedding", True)
        and not settings.get("num_candidates")
    )
    if reads_all and num_labels > FEW_LABELS:
        hints.append(f"All {num_labels:,} labels are read beside every text; each costs as much as one more token.")
        if recipe.model.model_family == "laco":
            hints[-1] += " --config_overrides num_candidates=64 reads only the likeliest ones."
    is_pretrained = recipe.model.backbone or recipe.model.model
    is_frozen = recipe.model.model_family in GRADIENT_FREE and not recipe.training.tune_encoder
    if is_pretrained and not is_frozen and recipe.training.learning_rate == XMTCTrainingArguments.learning_rate:
        hints.append(
            f"learning_rate={recipe.training.learning_rate:g} suits models from scratch; pretrained encoders and trained models are usually fine-tuned with 2e-5 "
            "to 5e-4."
        )
    return hints


# Documents with a label from which on its own threshold says something.
ENOUGH = 5


def threshold_summary(model: XMTCPreTrainedModel, counts: np.ndarray) -> str:
    """A sentence about the thresholds that tuning gave.

    Args:
        model: The model.
        counts: Documents of each label in the split it was tuned on, (L,).
    """
    limits = model.label_thresholds
    if limits is None:
        return f"A label is in the predicted set above the score {model.config.decision_threshold:.4g}, which was best on validation."
    sentence = (
        f"A label is in the predicted set above a score of its own, {float(limits.min()):.3g} to {float(limits.max()):.3g}, which was best on "
        "validation."
    )
    if rare := int(((counts > 0) & (counts < ENOUGH)).sum()):
        sentence += (
            f" For {rare:,} of the {len(counts):,} labels it is little more than a guess: fewer than {ENOUGH} documents there have them. "
            "--tune_threshold global is safer."
        )
    return sentence


def final_summary(folder: Path, metrics: dict) -> str:
    """Headline metrics of the test split (validation without one), what training cost, and what to do next."""
    split = next((split for split in ("test", "validation") if split in metrics), None)
    result = "There was no split to evaluate on."
    if split is not None:
        headline = ("P@1", "P@3", "P@5", "nDCG@5", "R@5", "PSP@5", "micro_f1", "macro_f1")
        names = [name for name in headline if name in metrics[split]]
        result = f"{split}: " + "   ".join(f"{name} {100 * metrics[split][name]:.2f}" for name in names)
        if "candidate_recall" in metrics[split]:
            result += f"   (the candidates hold {100 * metrics[split]['candidate_recall']:.2f} % of the labels)"
    card = " card," if (folder / "README.md").exists() else ""
    return (
        f"{result}   ({metrics['train']['seconds']:.0f} s of training)\n"
        f"Model,{card} metrics and predictions are in {folder}. {next_steps(folder)}"
    )


def next_steps(folder: Path) -> str:
    """Commands that use a finished model folder."""
    return (
        "Next:\n"
        f"  hf-xmtc predict --model {folder} --input texts.txt --output tags.jsonl\n"
        f"  hf-xmtc push --model {folder} --repo_id you/your-tagger"
    )


def write_picture_and_card(folder: Path, log_history: list[dict], title: str, metrics: dict[str, Any]) -> None:
    """Write ``training_curve.png`` and ``README.md`` into a model folder.

    A failure is left out and reported with the way to make it later, so that the folder can be finished without it.

    Args:
        folder: The model folder, with all else in it.
        log_history: `trainer.state.log_history`.
        title: Heading of the picture.
        metrics: The content of ``metrics.json``.
    """
    if log_history:  # of training by gradients
        _attempt(
            lambda: plot_training_curve(log_history, folder / "training_curve.png", title),
            folder / "training_curve.png",
            "hf_xmtc.training.plot_training_curve draws it from training_log.json",
        )
    _attempt(
        lambda: (folder / "README.md").write_text(str(card_from_folder(folder, metrics=metrics)), encoding="utf-8"),
        folder / "README.md",
        "hf_xmtc.hub.card_from_folder makes the card anew from the folder, which lacks it for publishing",
    )


def _attempt(write: Callable[[], Any], path: Path, remedy: str) -> None:
    try:
        write()
    except Exception as error:  # of any kind: hours of training stand behind the rest of the folder
        path.unlink(missing_ok=True)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            # Room can be made, and the same command then writes it.
            raise OSError(error.errno, error.strerror, str(path)) from error
        logger.warning(
            f"{path.name} could not be written ({type(error).__name__}: {error}). The model is complete without it; {remedy}.",
            exc_info=True,
        )
