"""From the result files of a table's runs to one page: the table as Markdown and JSON, and a picture of the validation curves."""

import json
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "Line", "Spread", "TableLine", "markdown", "plot_validation_curves", "summarize", "write_table"]

METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "R@5", "PSP@1", "PSP@3", "PSP@5")
SECONDS = "seconds"
COLUMNS = (*METRICS, SECONDS)
SPLIT = "test"
CURVE_METRIC = "nDCG@5"

Results = Mapping[str, Sequence[Mapping[str, Any]]]  # row → its result files


@dataclass(frozen=True)
class Line:
    """Colour and style of a curve, in matplotlib's names."""

    color: str
    style: str


@dataclass(frozen=True)
class Spread:
    """Mean of the runs and their sample standard deviation, which one run does not have."""

    mean: float
    sd: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)

    def text(self, scale: float, digits: int) -> str:
        mean = f"{scale * self.mean:.{digits}f}"
        return mean if self.sd is None else f"{mean} ± {scale * self.sd:.{digits}f}"


@dataclass(frozen=True)
class TableLine:
    """One row of the table: its columns over the runs that are there."""

    title: str
    num_runs: int
    num_wanted: int
    columns: dict[str, Spread]
    train: dict[str, Spread]


def summarize(titles: Mapping[str, str], results: Results, wanted: Mapping[str, int]) -> dict[str, TableLine]:
    """Mean and standard deviation of every column.

    Args:
        titles: Row → first cell, in the order of the table.
        results: Row → contents of its result files.
        wanted: Row → number of runs it should have.

    Returns:
        Row → its line; rows without a result have no columns.
    """
    lines = {}
    for row, title in titles.items():
        runs = results[row]
        columns = {name: Spread.of([run["metrics"][SPLIT][name] for run in runs]) for name in METRICS} if runs else {}
        keys = [key for key in runs[0]["train"] if all(key in run["train"] for run in runs)] if runs else []
        train = {key: Spread.of([run["train"][key] for run in runs]) for key in keys}
        if runs:
            columns[SECONDS] = train[SECONDS]
        lines[row] = TableLine(title, len(runs), wanted[row], columns, train)
    return lines
