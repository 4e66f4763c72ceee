"""How well frequent and rare labels are found: what metrics.json says under ``by_frequency``."""

from typing import Any

import numpy as np

from hf_xmtc.metrics import SHORT_REPORT, auc_by_frequency, head_torso_tail, ranking_by_frequency

__all__ = ["frequency_report"]


def frequency_report(
    split: str,
    top_labels: np.ndarray,
    top_scores: np.ndarray,
    gold: np.ndarray,
    label_counts: np.ndarray,
    inverse_propensity: np.ndarray | None = None,
) -> dict[str, Any]:
    """Metrics of frequent and of rare labels of a split.

    Args:
        split: Its name.
        top_labels: Label ids, best first, (N, K).
        top_scores: Their scores.
        gold: True label ids, padded with -100, (N, P).
        label_counts: Training documents of each label, (L,).
        inverse_propensity: Weight of each label that occurs in ``gold``; None leaves PSP out.

    Returns:
        ``split``; ``groups``, the rows of `auc_by_frequency`; and ``head``, ``torso`` and ``tail``: the number of their labels, of the
        documents that have any, and their metrics.
    """
    report: dict[str, Any] = {"split": split, "groups": auc_by_frequency(top_labels, top_scores, gold, len(label_counts))}
    ranked = ranking_by_frequency(
        top_labels, gold, head_torso_tail(label_counts), ks=(1, 5), inverse_propensity=inverse_propensity
    )
    for name, values in ranked.items():
        report[name] = {
            "num_labels": values["num_labels"],
            "num_documents": values["num_documents"] - values["num_left_out"],
            **{metric: values[metric] for metric in SHORT_REPORT if metric in values},
        }
    return report
