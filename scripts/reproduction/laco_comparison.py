"""Gains of LACO's parts: pairs of rows over several tables of predicted sets, as Markdown, JSON and pictures of figures 2 and 3."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hf_xmtc.commands.json_files import write_json
from pair_gains import (
    CONVERGENCE_LEVEL,
    INTERVAL,
    DataSetResults,
    PairGains,
    gain_table,
    gains_of,
    is_better,
    note_on_curves,
)
from result_table import draw_curves
from table_layout import HEADINGS, SET_METRICS, TableLayout
from tables import Comparison

__all__ = ["write_laco_comparison"]

LAYOUT = TableLayout(SET_METRICS, "micro_f1")
RAREST = "macro_f1_group4"
GROUPS = tuple(f"macro_f1_group{group}" for group in (1, 2, 3, 4))


def write_laco_comparison(comparison: Comparison, results: Sequence[DataSetResults], stem: Path) -> str:
    """Write ``<stem>.md``, ``.json`` and ``.png`` of everything that is there.

    Returns:
        The Markdown.
    """
    gains = {of.name: gains_of(of, comparison.pairs, LAYOUT) for of in results}
    picture = stem.with_name(f"{stem.name}.png")
    _plot(results, picture)
    parts = [
        f"# {comparison.title}",
        "What the second model of a pair has more than the first on the test split, in points of 100 (KL, clipped pairs and distinct sets "
        f"as they are): mean over runs with the same seed, {INTERVAL}. Hamming loss and KL are better when lower. "
        f"Steps: until micro F1 on validation reaches {CONVERGENCE_LEVEL:.0%} of the best of the first model.",
    ]
    for of in results:
        parts += [
            f"## {of.title}",
            gain_table(gains[of.name], SET_METRICS, name_both=True) if gains[of.name] else "No pair of runs yet.",
        ]
        parts += [f"All values: [{of.name}.md]({of.name}.md).", *of.remarks]
    parts += ["## The paper's claims", "\n".join(f"- {claim}" for claim in _claims(results, gains))]
    parts.append(f"![micro F1 on validation, and macro F1 by frequency of the labels]({picture.name})")
    text = "\n\n".join(parts) + "\n"
    stem.with_name(f"{stem.name}.md").write_text(text, encoding="utf-8")
    stored = {name: [asdict(pair) for pair in of] for name, of in gains.items()}
    write_json(stem.with_name(f"{stem.name}.json"), {"title": comparison.title, "gains": stored})
    return text


def _claims(results: Sequence[DataSetResults], gains: Mapping[str, list[PairGains]]) -> list[str]:
    """The paper's claims and on how many data sets each holds."""
    pairs = [pair for of in gains.values() for pair in of]
    return [
        _holds("LACO is better than BERT", pairs, "BERT (w/o JE & CA)", "LACO", ("micro_f1", "hamming_loss", "macro_f1")),
        _holds("The joint embedding helps", pairs, "LACO w/o JE", "LACO", ("micro_f1", "macro_f1")),
        _holds("The cross attention helps", pairs, "LACO w/o CA", "LACO", ("micro_f1", "macro_f1")),
        _holds("LACO is better than SeqTag", pairs, "SeqTag", "LACO", ("micro_f1", "hamming_loss", "subset_accuracy")),
        _holds("PLCP helps, most of all rare labels", pairs, "LACO", "LACO + PLCP", ("micro_f1", "macro_f1", RAREST)),
        _holds("CLCP helps, most of all rare labels", pairs, "LACO", "LACO + CLCP", ("micro_f1", "macro_f1", RAREST)),
        _holds("LACO meets label dependencies better than SeqTag", pairs, "SeqTag", "LACO", ("label_dependency_kl",)),
        _holds("PLCP brings them nearer", pairs, "LACO", "LACO + PLCP", ("label_dependency_kl",)),
        _holds("CLCP brings them nearer", pairs, "LACO", "LACO + CLCP", ("label_dependency_kl",)),
        _holds("LACO predicts more distinct sets than SeqTag", pairs, "SeqTag", "LACO", ("num_distinct_sets",)),
        _converge("LACO converges faster than BERT", pairs, "BERT (w/o JE & CA)", "LACO"),
        _converge("PLCP makes it faster", pairs, "LACO", "LACO + PLCP"),
        _converge("CLCP makes it faster", pairs, "LACO", "LACO + CLCP"),
        note_on_curves(results, LAYOUT.curve),
    ]


def _holds(claim: str, pairs: Sequence[PairGains], base: str, other: str, metrics: Sequence[str]) -> str:
    found = [pair for pair in pairs if (pair.base, pair.other) == (base, other)]
    if not found:
        return f"{claim}: not compared."
    parts = []
    for metric in metrics:
        gains = [pair.gains[metric] for pair in found if metric in pair.gains]
        better = sum(is_better(metric, gain.mean) for gain in gains)
        holds = [gain for gain in gains if gain.holds]
        for_it = sum(is_better(metric, gain.mean) for gain in holds)
        parts.append(
            f"{HEADINGS[metric]} better on {better} of {len(gains)} data sets, which holds on {for_it}"
            + (f" (that it is worse holds on {len(holds) - for_it})" if len(holds) > for_it else "")
        )
    return f"{claim}: {'; '.join(parts)}."


def _converge(claim: str, pairs: Sequence[PairGains], base: str, other: str) -> str:
    steps = [pair.steps for pair in pairs if (pair.base, pair.other) == (base, other) and pair.steps[0] is not None]
    if not steps:
        return f"{claim}: not compared."
    fewer = sum(second is not None and second < first for first, second in steps)
    equal = sum(second == first for first, second in steps)
    return f"{claim}: fewer steps on {fewer} of {len(steps)} data sets, as many on {equal}."


def _plot(results: Sequence[DataSetResults], path: Path) -> None:
    """Figure 3 of LACO above (convergence), figure 2 below (macro F1 by frequency of the labels)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.8 * len(results), 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(results), squeeze=False)
    for column, of in enumerate(results):
        draw_curves(panels[0][column], of.title, of.rows, LAYOUT.curve)
        panels[0][column].legend()
        rows = [
            row
            for row in of.rows
            if row.runs and all(group in run["metrics"]["test"] for run in row.runs for group in GROUPS)
        ]
        width = 0.8 / max(1, len(rows))
        for place, row in enumerate(rows):
            heights = [100 * statistics.fmean(run["metrics"]["test"][group] for run in row.runs) for group in GROUPS]
            lefts = [group + (place - (len(rows) - 1) / 2) * width for group in range(len(GROUPS))]
            hatch = "//" if row.line.style == "dotted" else None
            panels[1][column].bar(lefts, heights, width, color=row.line.color, hatch=hatch, label=row.title)
        panels[1][column].set(
            xticks=range(len(GROUPS)),
            xticklabels=["most frequent", "frequent", "rarer", "rarest"],
            xlabel="labels by frequency in training",
            ylabel="macro F1 on test, per cent",
        )
        panels[1][column].grid(axis="y", alpha=0.3)
        panels[1][column].legend(fontsize="small")
    figure.savefig(path, dpi=150)
