"""A comparison of systems as Markdown, which is aligned to be read on a terminal too."""

from collections.abc import Sequence

from hf_xmtc.significance import PairedT

from .system_comparison import PairDifference, SystemComparison

__all__ = ["comparison_page"]


def comparison_page(comparison: SystemComparison, runs: dict[str, int], heading: str, notes: Sequence[str] = ()) -> str:
    """The tables and how to read them.

    Args:
        comparison: The systems and pairs.
        runs: Name of a system → number of its runs.
        heading: Heading.
        notes: What else is to be said, as sentences.
    """
    metrics = list(next(iter(comparison.systems.values())))
    values = [
        [name, str(runs[name]), *(f"{100 * of.value:.2f} ({100 * of.low:.2f} … {100 * of.high:.2f})" for of in row.values())]
        for name, row in comparison.systems.items()
    ]
    parts = [f"# {heading}", _table(["system", "runs", *metrics], values)]
    if comparison.friedman:
        ranks = [[name, *(f"{of.average_rank:.2f}" for of in row.values())] for name, row in comparison.systems.items()]
        ranks.append(["Friedman's F", *(f"{comparison.friedman[metric].statistic:.1f}" for metric in metrics)])
        ranks.append(["p", *(_p(comparison.friedman[metric].p) for metric in metrics)])
        parts += ["Average ranks over documents, 1 for the best:", _table(["system", *metrics], ranks)]
    has_seeds = any(pair.seeds for pair in comparison.pairs)
    columns = ["metric", "pair", "difference", "p, t", "p, Wilcoxon", *(["over seeds", "p"] if has_seeds else []), "result"]
    parts += ["Differences, first minus second:", _table(columns, [_row(pair, has_seeds) for pair in comparison.pairs])]
    parts.append("\n".join(f"- {note}" for note in (*notes, *_reading(comparison, has_seeds))))
    return "\n\n".join(parts) + "\n"


def _row(pair: PairDifference, has_seeds: bool) -> list[str]:
    of_seeds = [_interval(pair.seeds), _p(pair.p_seeds)] if pair.seeds else ["–", "–"]
    return [
        *(pair.metric, f"{pair.first} − {pair.second}", _interval(pair.documents), _p(pair.p_t), _p(pair.p_wilcoxon)),
        *(of_seeds if has_seeds else []),
        "not shown" if pair.ahead is None else f"{pair.ahead} ahead",
    ]


def _reading(comparison: SystemComparison, has_seeds: bool) -> list[str]:
    num_pairs = len(comparison.systems) * (len(comparison.systems) - 1) // 2
    tests = (
        "the p values of both t tests, over documents and over seeds, are" if has_seeds else "the p value of the t test is"
    )
    several = f" p values have Holm's correction for {num_pairs} pairs. Intervals have none, so one may leave out 0 where no difference is shown."
    return [
        "Per cent. In brackets 95 % intervals over documents: of systems by bootstrap, of differences by the paired t test.",
        f"A system is ahead where {tests} below 0.05, else no difference is shown.{several if num_pairs > 1 else ''}",
        "Over seeds: paired t intervals; beside several runs a single one counts as exact."
        if has_seeds
        else "One run of each: the intervals are about other documents, and say nothing of other seeds.",
    ]


def _interval(test: PairedT) -> str:
    return f"{100 * test.mean:+.2f} ({100 * test.low:+.2f} … {100 * test.high:+.2f})"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)
