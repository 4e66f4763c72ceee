"""What CorNet adds: pairs of rows without and with it over several tables, as Markdown, JSON and one picture.

Differences are taken between runs of the same seed, on the test split. Convergence is read from the validation curves.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hf_xmtc.commands.json_files import write_json
from result_table import CURVE_METRIC, METRICS, RowResults, Spread, draw_curves, mean_curve
from tables import Comparison

__all__ = ["DataSetResults", "PairGains", "gains_of", "write_comparison"]

# Convergence is measured by the steps to this share of the best value that the model without CorNet reaches.
REACHED = 0.95
# Cells in which CorNet is not ahead that are named one by one.
LISTED = 8


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
    """What CorNet adds to one model on one data set.

    Attributes:
        base: Title of the model without CorNet.
        seeds: Seeds that both rows have.
        gains: Metric → difference over these seeds, in points of 100.
        steps: Steps until the mean validation curve reaches `REACHED` of the best value of the model without CorNet, without and
            with CorNet; None where it never does.
    """

    base: str
    seeds: list[int]
    gains: dict[str, Spread]
    steps: tuple[int | None, int | None]


def gains_of(results: DataSetResults, pairs: Sequence[tuple[str, str]]) -> list[PairGains]:
    """The gains of all pairs that have runs of a common seed."""
    found = []
    for without, with_cornet in pairs:
        base, cornet = results.row(without), results.row(with_cornet)
        runs = [{run["seed"]: run for run in row.runs} for row in (base, cornet)]
        if not (seeds := sorted(runs[0].keys() & runs[1].keys())):
            continue
        metrics = [
            metric for metric in METRICS if all(metric in run["metrics"]["test"] for of in runs for run in of.values())
        ]
        gains = {
            metric: Spread.of(
                [
                    100 * (runs[1][seed]["metrics"]["test"][metric] - runs[0][seed]["metrics"]["test"][metric])
                    for seed in seeds
                ]
            )
            for metric in metrics
        }
        curves = [mean_curve([of[seed] for seed in seeds]) for of in runs]
        goal = REACHED * max(value for _, value in curves[0])
        steps = tuple(next((step for step, value in curve if value >= goal), None) for curve in curves)
        found.append(PairGains(base.title, seeds, gains, steps))
    return found


def write_comparison(comparison: Comparison, results: Sequence[DataSetResults], stem: Path) -> str:
    """Write ``<stem>.md``, ``.json`` and ``.png`` of everything that is there.

    Returns:
        The Markdown.
    """
    gains = {of.name: gains_of(of, comparison.pairs) for of in results}
    picture = stem.with_name(f"{stem.name}.png")
    _plot(comparison, results, picture)
    text = _markdown(comparison, results, gains, picture.name)
    stem.with_name(f"{stem.name}.md").write_text(text, encoding="utf-8")
    write_json(
        stem.with_name(f"{stem.name}.json"),
        {"title": comparison.title, "gains": {name: [asdict(pair) for pair in of] for name, of in gains.items()}},
    )
    return text


def _markdown(
    comparison: Comparison, results: Sequence[DataSetResults], gains: Mapping[str, list[PairGains]], picture: str
) -> str:
    parts = [
        f"# {comparison.title}",
        "What CorNet adds on the test split, in points of 100: mean over pairs of runs with the same seed, ± their sample standard "
        f"deviation. Steps: until the validation curve reaches {REACHED:.0%} of the best {CURVE_METRIC} of the model without CorNet, "
        "without → with CorNet.",
    ]
    for of in results:
        parts.append(f"## {of.title}")
        parts.append(_gain_table(gains[of.name]) if gains[of.name] else "No pair of runs yet.")
        parts.append(f"All values: [{of.name}.md]({of.name}.md).")
    parts += ["## The paper's claims", "\n".join(f"- {claim}" for claim in _claims(comparison, results, gains))]
    parts.append(f"![{CURVE_METRIC} on validation]({picture})")
    return "\n\n".join(parts) + "\n"


def _gain_table(gains: Sequence[PairGains]) -> str:
    metrics = list(gains[0].gains)
    lines = [f"| model | {' | '.join(metrics)} | steps | seeds |", "| --- |" + " ---: |" * (len(metrics) + 2)]
    for pair in gains:
        cells = [_signed(pair.gains[metric]) if metric in pair.gains else "–" for metric in metrics]
        steps = " → ".join("never" if step is None else f"{step:,}" for step in pair.steps)
        lines.append(f"| {pair.base} | {' | '.join(cells)} | {steps} | {len(pair.seeds)} |")
    return "\n".join(lines)


def _signed(spread: Spread) -> str:
    return f"{spread.mean:+.2f}" + (f" ± {spread.sd:.2f}" if spread.sd is not None else "")


def _claims(comparison: Comparison, results: Sequence[DataSetResults], gains: Mapping[str, list[PairGains]]) -> list[str]:
    """The claims of the CorNet paper and how often each holds, counted."""
    pairs = [(name, pair) for name, of in gains.items() for pair in of]
    cells = [(name, pair.base, metric, spread) for name, pair in pairs for metric, spread in pair.gains.items()]
    ahead = [cell for cell in cells if cell[3].mean > 0]
    clear = [cell for cell in ahead if cell[3].sd is not None and cell[3].mean > cell[3].sd]
    behind = [
        (base, f"{base} {metric} on {name} ({spread.mean:+.2f})") for name, base, metric, spread in cells if spread.mean <= 0
    ]
    listed = ", ".join(text for _, text in behind)
    if len(behind) > LISTED:
        listed = ", ".join(f"{base} in {count} cells" for base, count in Counter(base for base, _ in behind).most_common())
    at_five = [pair for _, pair in pairs if pair.gains["P@5"].mean > pair.gains["P@1"].mean]
    faster = [pair for _, pair in pairs if None not in pair.steps and pair.steps[1] < pair.steps[0]]
    best = {of.name: _best_row(of, comparison) for of in results if gains[of.name]}
    attention = [name for name, title in best.items() if "AttentionXML" in title]
    return [
        f"CorNet improves every model on every metric: ahead in {len(ahead)} of {len(cells)} cells, in {len(clear)} of them by more than "
        f"the standard deviation over seeds. Not ahead: {listed or 'nowhere'}.",
        f"It adds more at 5 than at 1: P@5 gains more than P@1 in {len(at_five)} of {len(pairs)} pairs.",
        f"Models with CorNet converge in fewer steps: {len(faster)} of {len(pairs)} pairs reach the goal in fewer steps.",
        f"AttentionXML is the best model: with or without CorNet it has the highest nDCG@5 on {len(attention)} of {len(best)} data sets ("
        + ", ".join(f"{name}: {title}" for name, title in best.items())
        + ").",
    ]


def _best_row(results: DataSetResults, comparison: Comparison) -> str:
    names = {name for pair in comparison.pairs for name in pair}
    rows = [row for row in results.rows if row.name in names and row.runs]
    return max(rows, key=lambda row: statistics.fmean(run["metrics"]["test"][CURVE_METRIC] for run in row.runs)).title


def _plot(comparison: Comparison, results: Sequence[DataSetResults], path: Path) -> None:
    """The validation curves, one panel per data set: dotted without CorNet, solid with it (CorNet, figure 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = {name for pair in comparison.pairs for name in pair}
    figure = Figure(figsize=(5.2 * len(results), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, of in zip(figure.subplots(1, len(results), squeeze=False)[0], results, strict=True):
        draw_curves(axes, of.title, [row for row in of.rows if row.name in names])
    figure.savefig(path, dpi=150)
