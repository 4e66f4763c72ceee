"""Parts and methods of an ensemble side by side, and how much the parts have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_xmtc.ensemble import METHODS, Combination, overlap_at, right_labels_found
from hf_xmtc.metrics import SHORT_REPORT, ranking_report
from hf_xmtc.training.evaluation import REPORTED

from .stored_predictions import StoredPredictions

__all__ = ["Comparison", "comparison_summary", "overlap", "weight_summary"]

LARGEST_K = 5


@dataclass
class Comparison:
    """Metrics of parts and of their combinations.

    Attributes:
        names: Names of the parts.
        inverse_propensity: Weight of each label, evaluation-only ones included; None leaves PSP out.
        ignore_unseen: Number of the model's labels, where others are left out of the metrics.
        depth: As for `combine_rankings`.
    """

    names: Sequence[str]
    inverse_propensity: np.ndarray | None = None
    ignore_unseen: int | None = None
    depth: int | None = None

    def metrics(self, top_labels: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        """The metrics that `hf-xmtc train` reports of a ranking."""
        report = ranking_report(
            top_labels, gold, inverse_propensity=self.inverse_propensity, ignore_unseen=self.ignore_unseen
        )
        return {name: value for name, value in report.items() if name in REPORTED}

    def table(
        self, parts: Sequence[StoredPredictions], chosen: Combination, others: bool = True
    ) -> dict[str, dict[str, float]]:
        """Name of a part or method → its metrics.

        Args:
            parts: Predictions of the parts.
            chosen: How they are combined.
            others: Also measure the methods that were not chosen.
        """
        rankings, gold = [part.ranking for part in parts], parts[0].gold
        rows = {name: self.metrics(part.top_labels, gold) for name, part in zip(self.names, parts, strict=True)}
        methods = {name: Combination(name) for name in METHODS if name != "weighted"} if others else {}
        for name, combination in {**methods, method_name(chosen): chosen}.items():
            rows[name] = self.metrics(combination(rankings, LARGEST_K, self.depth)[0], gold)
        return rows


def method_name(combination: Combination) -> str:
    """The method as the command's option names it."""
    return "tuned" if combination.method == "weighted" else combination.method


def overlap(names: Sequence[str], parts: Sequence[StoredPredictions], split: str | None) -> dict[str, Any]:
    """Shares of common labels for each pair of parts, and right labels that only one finds.

    Args:
        names: Names of the parts.
        parts: Their predictions.
        split: Where the predictions are from.
    """
    top_labels = [part.top_labels for part in parts]
    found: dict[str, Any] = {
        "split": split,
        "pairs": {f"{names[a]}, {names[b]}": shares for (a, b), shares in overlap_at(top_labels).items()},
    }
    if parts[0].gold is not None:
        counts = right_labels_found(top_labels, parts[0].gold, LARGEST_K)
        found["right_labels"] = {**counts, "only": dict(zip(names, counts["only"], strict=True))}
    return found


def weight_summary(names: Sequence[str], chosen: Combination) -> str:
    """A line with the weights and exponents that tuning gave; nothing for other methods."""
    if not chosen.weights:
        return ""
    idle = [name for name, weight in zip(names, chosen.weights, strict=True) if not weight]
    note = f" Of no use, only slower: {', '.join(idle)}. Leave out, or choose --method consensus." if idle else ""
    values = zip(names, chosen.weights, chosen.exponents, strict=True)
    shown = ", ".join(f"{name} {weight:.2f} (exponent {exponent:g})" for name, weight, exponent in values)
    return f"Weights: {shown}.{note}\n"


def comparison_summary(metrics: dict[str, Any]) -> str:
    """The tables of metrics.json in percent."""
    lines = []
    for split, rows in metrics.get("comparison", {}).items():
        shown = [name for name in SHORT_REPORT if name in next(iter(rows.values()))]
        width = max(map(len, rows))
        lines += [f"{split:<{width}}  " + "  ".join(f"{name:>6}" for name in shown)]
        lines += [
            f"{row:<{width}}  " + "  ".join(f"{100 * values[name]:6.2f}" for name in shown) for row, values in rows.items()
        ]
    for pair, shares in metrics.get("overlap", {}).get("pairs", {}).items():
        lines.append(f"{pair} have {100 * shares[-1]:.0f} % of their first {len(shares)} labels in common.")
    return "\n".join(lines)
