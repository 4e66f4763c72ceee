"""Pairs of rows over runs of the same seed: what the second adds to the first, on the test split and in convergence."""

from collections.abc import Sequence
from dataclasses import dataclass

from result_table import (
    CURVE_METRIC,
    HEADINGS,
    LOWER_IS_BETTER,
    METRICS,
    NOT_PER_CENT,
    RANKINGS,
    RowResults,
    Shown,
    Spread,
    mean_curve,
)

__all__ = ["REACHED", "DataSetResults", "PairGains", "best_at_the_end", "gain_table", "gains_of", "is_better"]

# Convergence is measured by the steps to this share of the best value that the first row reaches.
REACHED = 0.95


@dataclass(frozen=True)
class DataSetResults:
    """The rows of one table.

    Attributes:
        name: Name of the table.
        title: Its heading.
        rows: Its rows with their runs.
    """

    name: str
    title: str
    rows: Sequence[RowResults]

    def row(self, name: str) -> RowResults:
        return next(row for row in self.rows if row.name == name)


@dataclass(frozen=True)
class PairGains:
    """What the second row adds to the first on one data set.

    Attributes:
        base: Title of the first row.
        other: Title of the second.
        seeds: Seeds that both rows have.
        gains: Metric → difference over these seeds, in points of 100 where the metric is a share.
        steps: Steps until the mean validation curve reaches `REACHED` of the best value of the first row, of the first and of the
            second; None where it never does.
    """

    base: str
    other: str
    seeds: list[int]
    gains: dict[str, Spread]
    steps: tuple[int | None, int | None]


def gains_of(results: DataSetResults, pairs: Sequence[tuple[str, str]], shown: Shown = RANKINGS) -> list[PairGains]:
    """The gains of all pairs that have runs of a common seed."""
    found, there = [], {row.name for row in results.rows}
    for first, second in pairs:
        if not {first, second} <= there:
            continue  # a row that only other tables have
        base, other = results.row(first), results.row(second)
        runs = [{run["seed"]: run for run in row.runs} for row in (base, other)]
        if not (seeds := sorted(runs[0].keys() & runs[1].keys())):
            continue
        metrics = [
            metric for metric in shown.metrics if all(metric in run["metrics"]["test"] for of in runs for run in of.values())
        ]
        gains = {
            metric: Spread.of(
                [
                    _scale(metric) * (runs[1][seed]["metrics"]["test"][metric] - runs[0][seed]["metrics"]["test"][metric])
                    for seed in seeds
                ]
            )
            for metric in metrics
        }
        curves = [mean_curve([of[seed] for seed in seeds], shown.curve) for of in runs]
        goal = REACHED * max((value for _, value in curves[0]), default=float("inf"))
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
        steps = " → ".join("never" if step is None else f"{step:,}" for step in pair.steps)
        name = f"{pair.base} → {pair.other}" if name_both else pair.base
        lines.append(f"| {name} | {' | '.join(cells)} | {steps} | {len(pair.seeds)} |")
    return "\n".join(lines)


def _signed(spread: Spread) -> str:
    return f"{spread.mean:+.2f}" + (f" ± {spread.sd:.2f}" if spread.sd is not None else "")


def best_at_the_end(row: RowResults, metric: str = CURVE_METRIC) -> bool:
    """Whether some run has its best validation value at its last check."""
    curves = [[point[metric] for point in run["validation_curve"]] for run in row.runs if run["validation_curve"]]
    return any(curve.index(max(curve)) == len(curve) - 1 for curve in curves if len(curve) > 1)


def is_better(metric: str, gain: float) -> bool:
    """Whether a difference is an improvement."""
    return gain < 0 if metric in LOWER_IS_BETTER else gain > 0


def _scale(metric: str) -> float:
    return 1.0 if metric in NOT_PER_CENT else 100.0
