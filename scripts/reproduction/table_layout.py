"""Columns of a table of results, what a row of it holds, and how values of several runs become one cell."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "COMPONENT_PREFIXES",
    "CURVE_METRIC",
    "EMPTY_CELL",
    "HEADINGS",
    "KL",
    "METRICS",
    "RANKINGS",
    "SET_METRICS",
    "SPLIT",
    "TRAIN_KL",
    "Line",
    "RowResults",
    "Spread",
    "TableLayout",
    "mean_curve",
]

SPLIT = "test"
KL = "label_dependency_kl"
# The last two as CorNet's and AttentionXML's authors define them; runs of older tables do not have them.
METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "R@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG-corpus@3", "PSnDCG-corpus@5")
# Of predicted label sets, as LACO reports them; `num_distinct_sets` is its C_test.
SET_METRICS = (
    "hamming_loss",
    "micro_precision",
    "micro_recall",
    "micro_f1",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "subset_accuracy",
    "label_dependency_kl",
    "num_clipped_pairs",
    "num_distinct_sets",
    *(f"macro_f1_group{group}" for group in (1, 2, 3, 4)),
    "P@1",
    "nDCG@5",
)
SECONDS, MEMORY, PARAMETERS = "seconds", "peak_memory_mb", "parameters"
# Of the training documents, where a recipe measures them.
TRAIN_KL = "train_label_dependency_kl"
HEADINGS = {
    **{metric: metric.replace("-corpus", "") for metric in METRICS},
    **{f"{mean}_{what}": f"{mean} {what}" for mean in ("micro", "macro") for what in ("precision", "recall")},
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "hamming_loss": "Hamming loss",
    "subset_accuracy": "subset accuracy",
    KL: "KL",
    TRAIN_KL: "KL, training",
    "num_clipped_pairs": "clipped pairs",
    "num_distinct_sets": "distinct sets",
    **{f"macro_f1_group{group}": f"macro F1, group {group}" for group in (1, 2, 3, 4)},
    SECONDS: "time, s",
    MEMORY: "memory, MiB",
    PARAMETERS: "parameters, M",
}
LOWER_IS_BETTER = (SECONDS, MEMORY, PARAMETERS, "hamming_loss", KL, TRAIN_KL)
NOT_PER_CENT = {
    SECONDS: 0,
    MEMORY: 0,
    KL: 2,
    TRAIN_KL: 2,
    "num_clipped_pairs": 0,
    "num_distinct_sets": 0,
}  # digits behind the point
NEVER_BEST = ("num_clipped_pairs", "num_distinct_sets")
CURVE_METRIC = "nDCG@5"
EMPTY_CELL = "–"
# Metrics of parts of a model that scores candidates, by the beginnings of their names.
COMPONENT_PREFIXES = {"model_": "by its own scores alone", "generator_": "its generator alone"}


@dataclass(frozen=True)
class Line:
    """Colour and style of a validation curve, in matplotlib's names."""

    color: str
    style: str


@dataclass(frozen=True)
class RowResults:
    """One row of the table with the results that are there.

    Attributes:
        name: Name of the row.
        title: First cell of the row.
        line: How its validation curve is drawn.
        num_wanted: Runs it should have.
        runs: Contents of its result files, by seed.
        skipped: Why runs of it were left out, if they were.
        paper: A paper and its values of metrics on this data set, in per cent, if one has them.
    """

    name: str
    title: str
    line: Line
    num_wanted: int
    runs: Sequence[Mapping[str, Any]]
    skipped: str | None = None
    paper: tuple[str, Mapping[str, float]] | None = None


@dataclass(frozen=True)
class TableLayout:
    """Columns and curve of a table.

    Attributes:
        metrics: Its columns, before those of the training.
        curve: The metric of its validation curves.
        log_steps: Draw them against the logarithm of the steps, to show the first.
    """

    metrics: tuple[str, ...] = METRICS
    curve: str = CURVE_METRIC
    log_steps: bool = False


RANKINGS = TableLayout()


@dataclass(frozen=True)
class Spread:
    """Mean of some runs and their sample standard deviation, which a single run does not have."""

    mean: float
    sd: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

    def in_per_cent(self) -> "Spread":
        return Spread(100 * self.mean, None if self.sd is None else 100 * self.sd)


def mean_curve(runs: Sequence[Mapping[str, Any]], metric: str = CURVE_METRIC) -> list[tuple[int, float]]:
    """Step and mean per cent of the validation curves of some runs, at the steps that all of them have."""
    curves = [{point["step"]: 100 * point[metric] for point in run["validation_curve"]} for run in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [(step, statistics.fmean(curve[step] for curve in curves)) for step in steps]
