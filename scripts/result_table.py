"""From the results of a table's runs to one page: the table as Markdown and JSON, and a picture of the validation curves."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from table_notes import KL, SPLIT, notes_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "METRICS",
    "RANKINGS",
    "SET_METRICS",
    "TRAIN_KL",
    "Line",
    "RowResults",
    "Shown",
    "Spread",
    "as_json",
    "columns_of",
    "draw_curves",
    "markdown",
    "mean_curve",
    "plot_validation_curves",
    "write_table",
]

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
NOTHING = "–"
# Metrics of parts of a model that scores candidates, by the beginnings of their names.
ALONE = {"model_": "by its own scores alone", "generator_": "its generator alone"}


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
class Shown:
    """What a table shows.

    Attributes:
        metrics: Its columns, before those of the training.
        curve: The metric of its validation curves.
    """

    metrics: tuple[str, ...] = METRICS
    curve: str = CURVE_METRIC


RANKINGS = Shown()


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


def columns_of(row: RowResults, metrics: Sequence[str] = METRICS) -> dict[str, Spread]:
    """The columns of a row over its runs; a column that no run has is left out.

    Runs that were interrupted and resumed know only the seconds of their last part, so they are left out of the time.
    """
    reported = [metric for metric in metrics if row.runs and all(metric in run["metrics"][SPLIT] for run in row.runs)]
    columns = {metric: Spread.of([run["metrics"][SPLIT][metric] for run in row.runs]) for metric in reported}
    if fitted := [run["train"][KL] for run in row.runs if KL in run["train"]]:
        columns[TRAIN_KL] = Spread.of(fitted)
    if seconds := [run["train"][SECONDS] for run in row.runs if "resumed_at_epoch" not in run["train"]]:
        columns[SECONDS] = Spread.of(seconds)
    if memory := [run["train"][MEMORY] for run in row.runs if MEMORY in run["train"]]:
        columns[MEMORY] = Spread.of(memory)
    if parameters := [run["train"][PARAMETERS] for run in row.runs if PARAMETERS in run["train"]]:
        columns[PARAMETERS] = Spread.of(parameters)
    return columns


def markdown(
    title: str,
    rows: Sequence[RowResults],
    picture: str | None = None,
    shown: Shown = RANKINGS,
    remarks: Sequence[str] = (),
) -> str:
    """The table, what its numbers mean, and what is missing.

    Args:
        title: Heading.
        rows: Rows in order; at least one has a run.
        picture: File name of the validation curves.
        shown: Its columns.
        remarks: What is to be said of it besides.
    """
    spreads = {row.name: columns_of(row, shown.metrics) for row in rows}
    cells = {row.name: _cells(spreads[row.name]) for row in rows}
    columns = [*shown.metrics, TRAIN_KL, SECONDS, MEMORY, PARAMETERS]
    columns = [column for column in columns if any(column in of_row for of_row in cells.values())]
    for column in columns:
        best = _best(rows, {name: of_row.get(column) for name, of_row in spreads.items()}, column)
        if best is not None:
            cells[best][column] = f"**{cells[best][column]}**"
    heading = ["model", *(HEADINGS[column] for column in columns), "runs"]
    table = [f"| {' | '.join(heading)} |", "| --- |" + " ---: |" * (len(heading) - 1)]
    for row in rows:
        values = [cells[row.name].get(column, NOTHING) for column in columns]
        count = str(len(row.runs)) if len(row.runs) == row.num_wanted else f"{len(row.runs)} of {row.num_wanted}"
        table.append(f"| {' | '.join([row.title, *values, count])} |")
        for prefix, of_what in ALONE.items():
            alone = columns_of(row, [prefix + column for column in columns])
            alone = _cells({name.removeprefix(prefix): spread for name, spread in alone.items() if name.startswith(prefix)})
            if alone:
                values = [alone.get(column, NOTHING) for column in columns]
                table.append(f"| {' | '.join([f'… {of_what}', *values, NOTHING])} |")
        if row.paper is not None:
            paper, published = row.paper
            values = [
                f"{published[column]:.{0 if column in NEVER_BEST else 2}f}" if column in published else NOTHING
                for column in columns
            ]
            table.append(f"| {' | '.join([f'… in the {paper} paper', *values, NOTHING])} |")
    parts = [f"# {title}", "\n".join(table), *remarks, *notes_on(rows)]
    if picture:
        parts.append(f"![{HEADINGS[shown.curve]} on validation]({picture})")
    return "\n\n".join(parts) + "\n"


def _cells(columns: Mapping[str, Spread]) -> dict[str, str]:
    cells = {}
    for column, spread in columns.items():
        if column == PARAMETERS:
            cells[column] = f"{spread.mean / 1e6:.1f}"
            continue
        shown, digits = (spread, NOT_PER_CENT[column]) if column in NOT_PER_CENT else (spread.in_per_cent(), 2)
        cells[column] = f"{shown.mean:.{digits}f}" + (f" ± {shown.sd:.{digits}f}" if shown.sd is not None else "")
    return cells


def _best(rows: Sequence[RowResults], spreads: Mapping[str, Spread | None], column: str) -> str | None:
    """Name of the row that is ahead of all others by more than their deviations together; None where there is none."""
    found = {row.name: spreads[row.name] for row in rows if row.runs}
    known = {name: spread for name, spread in found.items() if spread is not None}
    if column in NEVER_BEST or len(known) < 2 or (column not in (SECONDS, MEMORY, PARAMETERS) and len(known) < len(found)):
        return None  # the best may be one that was not measured
    # One run of a row with seeds may be as far from its mean as the most uncertain row; one that no seed changes is exact.
    largest = max((spread.sd for spread in known.values() if spread.sd is not None), default=None)
    exact = {row.name for row in rows if column == PARAMETERS or all(run["seed"] is None for run in row.runs)}
    deviations = {
        name: 0.0 if name in exact else largest if spread.sd is None else spread.sd for name, spread in known.items()
    }
    if None in deviations.values():
        return None
    sign = -1 if column in LOWER_IS_BETTER else 1
    first = max(known, key=lambda name: sign * known[name].mean)
    ahead = all(
        sign * (known[first].mean - spread.mean) > deviations[first] + deviations[name]
        for name, spread in known.items()
        if name != first
    )
    return first if ahead else None


def as_json(title: str, rows: Sequence[RowResults], shown: Shown = RANKINGS) -> dict[str, Any]:
    """The table for programs: fractions with all digits, and training figures beside the columns."""
    content: dict[str, Any] = {
        "title": title,
        "split": SPLIT,
        "dataset": next(row.runs[0]["dataset"] for row in rows if row.runs),
    }
    content["rows"] = {
        row.name: {
            "title": row.title,
            "seeds": [run["seed"] for run in row.runs],
            "num_wanted": row.num_wanted,
            "skipped": row.skipped,
            "columns": {column: asdict(spread) for column, spread in columns_of(row, shown.metrics).items()},
            "train": [run["train"] for run in row.runs],
        }
        for row in rows
    }
    return content


def plot_validation_curves(title: str, rows: Sequence[RowResults], path: Path, metric: str = CURVE_METRIC) -> None:
    """Draw a metric on the validation split against steps, averaged over the runs at the steps that all of them have.

    A model without steps, such as the SVM, is a horizontal line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    draw_curves(figure.subplots(), title, rows, metric)
    figure.savefig(path, dpi=150)


def draw_curves(axes: "Axes", title: str, rows: Sequence[RowResults], metric: str = CURVE_METRIC) -> None:
    """Draw the mean validation curves of rows that have runs."""
    for row in rows:
        if not row.runs:
            continue
        style = {"color": row.line.color, "linestyle": row.line.style, "label": row.title}
        curve = mean_curve(row.runs, metric)
        if curve:
            axes.plot(*zip(*curve, strict=True), marker="o", markersize=3, **style)
        else:
            axes.axhline(100 * statistics.fmean(run["metrics"]["validation"][metric] for run in row.runs), **style)
    axes.set_title(title, parse_math=False)
    axes.set(xlabel="step", ylabel=f"{HEADINGS[metric]} on validation, per cent")
    axes.grid(alpha=0.3)
    axes.legend()


def mean_curve(runs: Sequence[Mapping[str, Any]], metric: str = CURVE_METRIC) -> list[tuple[int, float]]:
    """Step and mean per cent of the validation curves of some runs, at the steps that all of them have."""
    curves = [{point["step"]: 100 * point[metric] for point in run["validation_curve"]} for run in runs]
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [(step, statistics.fmean(curve[step] for curve in curves)) for step in steps]


def write_table(
    title: str, rows: Sequence[RowResults], stem: Path, shown: Shown = RANKINGS, remarks: Sequence[str] = ()
) -> str:
    """Write ``<stem>.md``, ``.json`` and ``.png``.

    Returns:
        The Markdown.
    """
    names = {ending: stem.with_name(f"{stem.name}.{ending}") for ending in ("md", "json", "png")}
    plot_validation_curves(title, rows, names["png"], shown.curve)
    names["json"].write_text(json.dumps(as_json(title, rows, shown), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = markdown(title, rows, names["png"].name, shown, remarks)
    names["md"].write_text(text, encoding="utf-8")
    return text
