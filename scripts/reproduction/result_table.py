"""From the results of a table's runs to one page: the table as Markdown and JSON, and a picture of the validation curves."""

import json
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_xmtc.significance import paired_t
from pair_gains import PairGains, gain_section
from table_layout import (
    COMPONENT_PREFIXES,
    CURVE_METRIC,
    EMPTY_CELL,
    HEADINGS,
    KL,
    LOWER_IS_BETTER,
    MEMORY,
    METRICS,
    NEVER_BEST,
    NOT_PER_CENT,
    PARAMETERS,
    RANKINGS,
    SECONDS,
    SPLIT,
    TRAIN_KL,
    RowResults,
    Spread,
    TableLayout,
    mean_curve,
)
from table_notes import notes_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["as_json", "columns_of", "draw_curves", "markdown", "plot_validation_curves", "write_table"]

# A t interval of two differences is nine standard deviations wide to each side.
FEWEST_SEEDS = 3


def columns_of(row: RowResults, metrics: Sequence[str] = METRICS) -> dict[str, Spread]:
    """The columns of a row over its runs; a column that no run has is left out.

    Runs that were interrupted and resumed know only the seconds of their last part, so they are left out of the time.
    """
    columns = {}
    for column in (*metrics, TRAIN_KL, SECONDS, MEMORY, PARAMETERS):
        values = _values_of(row, column)
        if values and (column not in metrics or len(values) == len(row.runs)):
            columns[column] = Spread.of(list(values.values()))
    return columns


def _values_of(row: RowResults, column: str) -> dict[int | None, float]:
    """Seed → value of a column, of the runs that have it."""
    values = {run["seed"]: _value(run, column) for run in row.runs}
    return {seed: value for seed, value in values.items() if value is not None}


def _value(run: Mapping[str, Any], column: str) -> float | None:
    train = run["train"]  # ensembles have no time there
    if column == TRAIN_KL:
        return train.get(KL)
    if column in (SECONDS, MEMORY, PARAMETERS):
        return None if column == SECONDS and "resumed_at_epoch" in train else train.get(column)
    return run["metrics"][SPLIT].get(column)


def markdown(
    title: str,
    rows: Sequence[RowResults],
    picture: str | None = None,
    layout: TableLayout = RANKINGS,
    remarks: Sequence[str] = (),
    gains: Sequence[PairGains] = (),
) -> str:
    """The table, what its numbers mean, and what is missing.

    Args:
        title: Heading.
        rows: Rows in order; at least one has a run.
        picture: File name of the validation curves.
        layout: Its columns.
        remarks: What is to be said of it besides.
        gains: Differences of its rows.
    """
    spreads = {row.name: columns_of(row, layout.metrics) for row in rows}
    cells = {row.name: _cells(spreads[row.name]) for row in rows}
    columns = [*layout.metrics, TRAIN_KL, SECONDS, MEMORY, PARAMETERS]
    columns = [column for column in columns if any(column in of_row for of_row in cells.values())]
    for column in columns:
        best = _best(rows, {name: of_row.get(column) for name, of_row in spreads.items()}, column)
        if best is not None:
            cells[best][column] = f"**{cells[best][column]}**"
    heading = ["model", *(HEADINGS[column] for column in columns), "runs"]
    table = [f"| {' | '.join(heading)} |", "| --- |" + " ---: |" * (len(heading) - 1)]
    for row in rows:
        values = [cells[row.name].get(column, EMPTY_CELL) for column in columns]
        count = str(len(row.runs)) if len(row.runs) == row.num_wanted else f"{len(row.runs)} of {row.num_wanted}"
        table.append(f"| {' | '.join([row.title, *values, count])} |")
        for prefix, of_what in COMPONENT_PREFIXES.items():
            alone = columns_of(row, [prefix + column for column in columns])
            alone = _cells({name.removeprefix(prefix): spread for name, spread in alone.items() if name.startswith(prefix)})
            if alone:
                values = [alone.get(column, EMPTY_CELL) for column in columns]
                table.append(f"| {' | '.join([f'… {of_what}', *values, EMPTY_CELL])} |")
        if row.paper is not None:
            paper, published = row.paper
            values = [
                f"{published[column]:.{0 if column in NEVER_BEST else 2}f}" if column in published else EMPTY_CELL
                for column in columns
            ]
            table.append(f"| {' | '.join([f'… in the {paper} paper', *values, EMPTY_CELL])} |")
    parts = [f"# {title}", "\n".join(table), *remarks, *notes_on(rows)]
    if gains:
        parts += ["## Differences", gain_section(gains, layout)]
    if picture:
        parts.append(f"![{HEADINGS[layout.curve]} on validation]({picture})")
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
    """Name of the row that is ahead of all others by more than the interval of the difference; None where there is none."""
    found = [row for row in rows if row.runs]
    known = [row for row in found if spreads[row.name] is not None]
    if column in NEVER_BEST or len(known) < 2 or (column not in (SECONDS, MEMORY, PARAMETERS) and len(known) < len(found)):
        return None  # the best may be one that was not measured
    sign = -1 if column in LOWER_IS_BETTER else 1
    first = max(known, key=lambda row: sign * spreads[row.name].mean)
    return first.name if all(_is_ahead(first, row, column, sign) for row in known if row is not first) else None


def _is_ahead(first: RowResults, other: RowResults, column: str, sign: int) -> bool:
    """True if the 95 % t interval of the difference over shared seeds, at least three, leaves out 0; rows without seeds count as exact."""
    values = [_values_of(row, column) for row in (first, other)]
    # A single time is never exact: the machine has other work.
    exact = [
        column == PARAMETERS or (column not in (SECONDS, MEMORY) and all(run["seed"] is None for run in row.runs))
        for row in (first, other)
    ]
    means = [statistics.fmean(of.values()) for of in values]
    if all(exact):
        return sign * (means[0] - means[1]) > 0
    seeds = set.intersection(*(set(of) for of, is_exact in zip(values, exact, strict=True) if not is_exact))
    pairs = (
        [mean if is_exact else of[seed] for of, is_exact, mean in zip(values, exact, means, strict=True)] for seed in seeds
    )
    differences = [sign * (one - two) for one, two in pairs]
    return len(differences) >= FEWEST_SEEDS and paired_t(differences).low > 0


def as_json(
    title: str, rows: Sequence[RowResults], layout: TableLayout = RANKINGS, gains: Sequence[PairGains] = ()
) -> dict[str, Any]:
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
            "columns": {column: asdict(spread) for column, spread in columns_of(row, layout.metrics).items()},
            "train": [run["train"] for run in row.runs],
        }
        for row in rows
    }
    if gains:
        content["gains"] = [asdict(pair) for pair in gains]
    return content


def plot_validation_curves(title: str, rows: Sequence[RowResults], path: Path, layout: TableLayout = RANKINGS) -> None:
    """Draw its metric on the validation split against steps, averaged over the runs at the steps that all of them have.

    A model without steps, such as the SVM, is a horizontal line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw_curves(axes, textwrap.fill(title, 70), rows, layout.curve)
    if layout.log_steps:
        axes.set_xscale("log")
    lines, titles = axes.get_legend_handles_labels()
    titles = [textwrap.fill(row_title, 42) for row_title in titles]
    figure.set_size_inches(7, 4.2 + 0.1 * sum(row_title.count("\n") + 1 for row_title in titles))  # two columns
    if lines:
        figure.legend(lines, titles, loc="outside lower center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)


def draw_curves(axes: "Axes", title: str, rows: Sequence[RowResults], metric: str = CURVE_METRIC) -> None:
    """Draw the mean validation curves of rows that have runs; the legend is left to the caller."""
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


def write_table(
    title: str,
    rows: Sequence[RowResults],
    stem: Path,
    layout: TableLayout = RANKINGS,
    remarks: Sequence[str] = (),
    gains: Sequence[PairGains] = (),
) -> str:
    """Write ``<stem>.md``, ``.json`` and ``.png``.

    Returns:
        The Markdown.
    """
    names = {ending: stem.with_name(f"{stem.name}.{ending}") for ending in ("md", "json", "png")}
    plot_validation_curves(title, rows, names["png"], layout)
    names["json"].write_text(
        json.dumps(as_json(title, rows, layout, gains), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    text = markdown(title, rows, names["png"].name, layout, remarks, gains)
    names["md"].write_text(text, encoding="utf-8")
    return text
