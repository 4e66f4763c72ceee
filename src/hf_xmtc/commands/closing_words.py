"""What training tells its user in the end."""

from pathlib import Path

import numpy as np

from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

__all__ = ["closing_words", "words_on_thresholds"]


# Documents with a label from which on its own threshold says something.
ENOUGH = 5


def words_on_thresholds(model: XMTCPreTrainedModel, counts: np.ndarray) -> str:
    """What tuning has found.

    Args:
        model: The model.
        counts: Documents of each label in the split it was tuned on, (L,).
    """
    limits = model.label_thresholds
    if limits is None:
        return f"A label is in the predicted set above the score {model.config.decision_threshold:.4g}, which was best on validation."
    found = (
        f"A label is in the predicted set above a score of its own, {float(limits.min()):.3g} to {float(limits.max()):.3g}, which was best on "
        "validation."
    )
    if rare := int(((counts > 0) & (counts < ENOUGH)).sum()):
        found += (
            f" For {rare:,} of the {len(counts):,} labels it is little more than a guess: fewer than {ENOUGH} documents there have them. "
            "--tune_threshold global is safer."
        )
    return found


def closing_words(folder: Path, metrics: dict) -> str:
    """Headline metrics of the test split (validation without one), what training cost, and what to do next."""
    split = next((split for split in ("test", "validation") if split in metrics), None)
    result = "There was no split to evaluate on."
    if split is not None:
        headline = ("P@1", "P@3", "P@5", "nDCG@5", "R@5", "PSP@5", "micro_f1", "macro_f1")
        shown = [name for name in headline if name in metrics[split]]
        result = f"{split}: " + "   ".join(f"{name} {100 * metrics[split][name]:.2f}" for name in shown)
        if "candidate_recall" in metrics[split]:
            result += f"   (the candidates hold {100 * metrics[split]['candidate_recall']:.2f} % of the labels)"
    card = " card," if (folder / "README.md").exists() else ""
    return (
        f"{result}   ({metrics['train']['seconds']:.0f} s of training)\n"
        f"Model,{card} metrics and predictions are in {folder}. Next:\n"
        f"  hf-xmtc predict --model {folder} --input texts.txt --output tags.jsonl\n"
        f"  hf-xmtc push --model {folder} --repo_id you/your-tagger"
    )
