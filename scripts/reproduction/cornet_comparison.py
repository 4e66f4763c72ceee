"""Gains of CorNet: pairs of rows without and with it over several tables, as Markdown, JSON and one picture.

Differences are taken between runs of the same seed, on the test split. Convergence is read from the validation curves.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hf_xmtc.commands.json_files import write_json
from pair_gains import CONVERGENCE_LEVEL, INTERVAL, DataSetResults, PairGains, gain_table, gains_of, note_on_curves
from result_table import draw_curves
from table_layout import CURVE_METRIC
from tables import Comparison

__all__ = ["write_comparison"]

# Cells in which CorNet is not ahead that are named one by one.
LISTED = 8


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
        f"What CorNet adds on the test split, in points of 100: mean over pairs of runs with the same seed, {INTERVAL}. Steps: until the validation curve reaches {CONVERGENCE_LEVEL:.0%} of the best {CURVE_METRIC} of the model without CorNet, "
        "without → with CorNet.",
    ]
    for of in results:
        parts.append(f"## {of.title}")
        parts.append(gain_table(gains[of.name]) if gains[of.name] else "No pair of runs yet.")
        parts += [f"All values: [{of.name}.md]({of.name}.md).", *of.remarks]
    parts += ["## The paper's claims", "\n".join(f"- {claim}" for claim in _claims(comparison, results, gains))]
    parts.append(f"![{CURVE_METRIC} on validation]({picture})")
    return "\n\n".join(parts) + "\n"


def _claims(comparison: Comparison, results: Sequence[DataSetResults], gains: Mapping[str, list[PairGains]]) -> list[str]:
    """The claims of the CorNet paper and how often each holds, counted."""
    pairs = [(name, pair) for name, of in gains.items() for pair in of]
    return [
        _claim_of_every_metric(pairs),
        _claim_of_five(pairs),
        _claim_of_convergence(pairs),
        _claim_of_attention(comparison, results),
        note_on_curves(results),
        *comparison.remarks,
    ]


def _claim_of_every_metric(pairs: Sequence[tuple[str, PairGains]]) -> str:
    cells = [(name, pair.base, metric, gain) for name, pair in pairs for metric, gain in pair.gains.items()]
    ahead = [cell for cell in cells if cell[3].mean > 0]
    several = [cell for cell in cells if cell[3].half_width is not None]
    holds = [cell for cell in several if cell[3].holds]
    in_its_favour = Counter(f"{base} on {name}" for name, base, _, gain in holds if gain.mean > 0)
    where = f" ({', '.join(f'{place} {count}' for place, count in in_its_favour.most_common())})" if in_its_favour else ""
    behind = [
        (base, f"{base} {metric} on {name} ({gain.mean:+.2f})") for name, base, metric, gain in cells if gain.mean <= 0
    ]
    listed = ", ".join(text for _, text in behind)
    if len(behind) > LISTED:
        listed = ", ".join(f"{base} in {count} cells" for base, count in Counter(base for base, _ in behind).most_common())
    return (
        f"CorNet improves every model on every metric: ahead in {len(ahead)} of {len(cells)} cells. Of the {len(several)} cells with "
        f"several seeds the interval leaves out 0 in {len(holds)}: it is ahead in {in_its_favour.total()}{where} and "
        f"behind in {len(holds) - in_its_favour.total()}. "
        f"Not ahead: {listed or 'nowhere'}."
    )


def _claim_of_five(pairs: Sequence[tuple[str, PairGains]]) -> str:
    more = [pair for _, pair in pairs if pair.gains["P@5"].mean > max(0, pair.gains["P@1"].mean)]
    losing = [pair for _, pair in pairs if max(pair.gains["P@5"].mean, pair.gains["P@1"].mean) <= 0]
    return f"It adds more at 5 than at 1: P@5 gains, and more than P@1, in {len(more)} of {len(pairs)} pairs; in {len(losing)} neither gains."


def _claim_of_convergence(pairs: Sequence[tuple[str, PairGains]]) -> str:
    steps = [pair.steps for _, pair in pairs if pair.steps[0] is not None]
    fewer = sum(cornet is not None and cornet < base for base, cornet in steps)
    equal = sum(cornet == base for base, cornet in steps)
    return (
        f"Models with CorNet converge in fewer steps: of {len(steps)} pairs {fewer} reach the goal in fewer steps, {equal} at the same "
        f"check and {len(steps) - fewer - equal} later or never. There is one check per epoch, and the learning rate falls to 0, which "
        "the paper's does not."
    )


def _claim_of_attention(comparison: Comparison, results: Sequence[DataSetResults]) -> str:
    best = {of.name: title for of in results if (title := _best_row(of, comparison)) is not None}
    attention = [name for name, title in best.items() if "AttentionXML" in title]
    named = ", ".join(f"{name}: {title}" for name, title in best.items())
    return (
        "AttentionXML is the best model: with or without CorNet it has the highest nDCG@5 on "
        f"{len(attention)} of {len(best)} data sets on which all models have run" + (f" ({named})." if named else ".")
    )


def _best_row(results: DataSetResults, comparison: Comparison) -> str | None:
    """Title of the best row over the seeds that all rows have; None where there is no such seed."""
    rows = [results.row(name) for pair in comparison.pairs for name in pair]
    runs = {row.title: {run["seed"]: run["metrics"]["test"][CURVE_METRIC] for run in row.runs} for row in rows}
    common = set.intersection(*(set(of) for of in runs.values()))
    if not common:
        return None
    return max(runs, key=lambda title: statistics.fmean(runs[title][seed] for seed in common))


def _plot(comparison: Comparison, results: Sequence[DataSetResults], path: Path) -> None:
    """The validation curves, one panel per data set: dotted without CorNet, solid with it (CorNet, figure 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = {name for pair in comparison.pairs for name in pair}
    figure = Figure(figsize=(5.2 * len(results), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, of in zip(figure.subplots(1, len(results), squeeze=False)[0], results, strict=True):
        draw_curves(axes, of.title, [row for row in of.rows if row.name in names])
        axes.legend()
    figure.savefig(path, dpi=150)
