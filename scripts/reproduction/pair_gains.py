"""Pairs of rows over runs of the same seed: what the second adds to the first, on the test split and in convergence."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_xmtc.significance import paired_t
from table_layout import (
    CURVE_METRIC,
    HEADINGS,
    LOWER_IS_BETTER,
    METRICS,
    NOT_PER_CENT,
    RANKINGS,
    RowResults,
    TableLayout,
    mean_curve,
)

__all__ = [
    "CONVERGENCE_LEVEL",
    "INTERVAL",
    "DataSetResults",
    "Gain",
    "PairGains",
    "gain_section",
    "gain_table",
    "gains_of",
    "is_better",
    "note_on_curves",
]

# Convergence is measured by the steps to this share of the best value that the first row reaches.
CONVERGENCE_LEVEL = 0.95
# What ± means in a comparison.
INTERVAL = (
    "± half of the 95 % t interval of that mean (of three seeds 2.5 standard deviations, of two 9). A difference holds where the interval "
    "leaves out 0; three seeds show large differences alone, and a single one none"
)


@dataclass(frozen=True)
class DataSetResults:
    """The rows of one table.

    Attributes:
        name: Name of the table.
        title: Its heading.
        rows: Its rows with their runs.
        not_compared: Names of rows whose differences to others would mean nothing.
        remarks: What else is to be said of the table.
    """

    name: str
    title: str
    rows: Sequence[RowResults]
    not_compared: Sequence[str] = ()
    remarks: Sequence[str] = ()

    def row(self, name: str) -> RowResults:
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True)
class Gain:
    """Mean of paired differences, with what their spread says of it; a single pair has no spread.

    Attributes:
        mean: The mean.
        sd: Sample standard deviation of the differences.
        half_width: Half of the 95 % t interval of the mean.
    """

    mean: float
    sd: float | None = None
    half_width: float | None = None

    @classmethod
    def of(cls, differences: Sequence[float]) -> "Gain":
        mean = statistics.fmean(differences)
        if len(differences) == 1:
            return cls(mean)
        return cls(mean, statistics.stdev(differences), paired_t(differences).half_width)

    @property
    def holds(self) -> bool:
        """True if the interval leaves out 0."""
        return self.half_width is not None and abs(self.mean) > self.half_width


@dataclass(frozen=True)
class PairGains:
    """Gain of the second row over the first on one data set.

    Attributes:
        base: Title of the first row.
        other: Title of the second.
        seeds: Seeds that both rows have.
        gains: Metric → differences over these seeds, in points of 100 where the metric is a share.
        steps: Steps until the mean validation curve reaches `CONVERGENCE_LEVEL` of the best value of the first row, of the first and of the
            second; None where it never does.
    """

    base: str
    other: str
    seeds: list[int]
    gains: dict[str, Gain]
    steps: tuple[int | None, int | None]


def gains_of(results: DataSetResults, pairs: Sequence[tuple[str, str]], layout: TableLayout = RANKINGS) -> list[PairGains]:
    """The gains of all pairs that have runs of a common seed; a row that no seed changes counts for all seeds of the other."""
    found, there = [], {row.name for row in results.rows}
    for first, second in pairs:
        if not {first, second} <= there or {first, second} & set(results.not_compared):
            continue  # a row that only other tables have, or one that says nothing
        base, other = results.row(first), results.row(second)
        runs = [{run["seed"]: run for run in row.runs} for row in (base, other)]
        for of, seeds in ((runs[0], runs[1]), (runs[1], runs[0])):
            if None in of:
                of |= dict.fromkeys(seeds, of.pop(None))
        if not (seeds := sorted(runs[0].keys() & runs[1].keys())):
            continue
        metrics = [
            metric
            for metric in layout.metrics
            if all(metric in run["metrics"]["test"] for of in runs for run in of.values())
        ]
        gains = {
            metric: Gain.of(
                [
                    _scale(metric) * (runs[1][seed]["metrics"]["test"][metric] - runs[0][seed]["metrics"]["test"][metric])
                    for seed in seeds
                ]
            )
            for metric in metrics
        }
        curves = [mean_curve([of[seed] for seed in seeds], layout.curve) for of in runs]
        goal = CONVERGENCE_LEVEL * max((value for _, value in curves[0]), default=float("inf"))
        steps = tuple(next((step for step, value in curve if value >= goal), None) for curve in curves)
        found.append(PairGains(base.title, other.title, seeds, gains, steps))
    return found


def gain_table(gains: Sequence[PairGains], metrics: Sequence[str] = METRICS, name_both: bool = False) -> str:
    """Markdown, one line per pair."""
    metrics = [metric for metric in metrics if any(metric in pair.gains for pair in gains)]
    first = "from → to" if name_both else "model"
    headings = [HEADINGS[metric] if name_both else metric for metric in metrics]
    lines = [f"| {first} | {' | '.join(headings)} | steps | seeds |", "| --- |" + " ---: |" * (len(metrics) + 2)]
    for pair in gains:
        cells = [_signed(pair.gains[metric]) if metric in pair.gains else "–" for metric in metrics]
        steps = " → ".join("never" if step is None else f"{step:,}" for step in pair.steps) if any(pair.steps) else "–"
        name = f"{pair.base} → {pair.other}" if name_both else pair.base
        lines.append(f"| {name} | {' | '.join(cells)} | {steps} | {len(pair.seeds)} |")
    return "\n".join(lines)


def gain_section(gains: Sequence[PairGains], layout: TableLayout) -> str:
    """`gain_table` of the pairs of one table, and how to read it."""
    return (
        "What the second row has more than the first on the test split, in points of 100 where the metric is a share: mean over runs with the "
        f"same seed, {INTERVAL}. Steps: until {HEADINGS[layout.curve]} on validation reaches {CONVERGENCE_LEVEL:.0%} of the best of the first "
        f"row.\n\n{gain_table(gains, layout.metrics, name_both=True)}"
    )


def _signed(gain: Gain) -> str:
    return f"{gain.mean:+.2f}" + (f" ± {gain.half_width:.2f}" if gain.half_width is not None else "")


def note_on_curves(results: Sequence[DataSetResults], metric: str = CURVE_METRIC) -> str:
    """How many runs are best at their last check, and what that does not say."""
    curves = {of.name: [_curve(run, metric) for row in of.rows for run in row.runs] for of in results}
    curves = {name: [curve for curve in of if len(curve) > 1] for name, of in curves.items()}
    last = {name: sum(curve.index(max(curve)) == len(curve) - 1 for curve in of) for name, of in curves.items()}
    counts = ", ".join(f"{name} {last[name]} of {len(of)}" for name, of in curves.items())
    return (
        f"Runs that are best on validation at their last check: {sum(last.values())} of {sum(map(len, curves.values()))} ({counts}). Where the "
        "learning rate falls to 0 the end of a curve is flat, so this is no sign that epochs are missing."
    )


def _curve(run: Mapping[str, Any], metric: str) -> list[float]:
    return [point[metric] for point in run["validation_curve"]]


def is_better(metric: str, gain: float) -> bool:
    """True if a difference is an improvement."""
    return gain < 0 if metric in LOWER_IS_BETTER else gain > 0


def _scale(metric: str) -> float:
    return 1.0 if metric in NOT_PER_CENT else 100.0
