"""Pictures of what models do."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hf_xmtc.models.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_differences", "plot_explanation", "plot_label_counts", "plot_label_frequency"]

LINE_HEIGHT = 0.3  # inches
FONT_SIZE = 11


def plot_explanation(explanation: Explanation, path: str | Path | None = None, width: float = 8.0) -> "Figure":
    """Draw the text of an explanation as a heat map: red words speak for the label, blue ones against it.

    Args:
        explanation: What ``pipeline(…).explain(text, label)`` gives.
        path: Where to save the picture, as PNG, SVG or PDF by its ending; None for not at all.
        width: Width in inches; the height follows from the text.

    Returns:
        The figure.

    Source: AttentionXML, figure 2.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 1.0))
    renderer = FigureCanvasAgg(figure).get_renderer()

    def draw(x: float, line: int, text: str, **style) -> float:
        """Write at ``x`` inches from the left; where it ends."""
        drawn = figure.text(x, line, text, fontsize=FONT_SIZE, va="baseline", parse_math=False, **style)
        return x + drawn.get_window_extent(renderer).width / figure.dpi

    # Written on numbered lines first; when their number is known, the figure gets its height and the texts their places.
    margin = 0.15

    def draw_words(line: int, words: Iterable[tuple[str, dict]]) -> int:
        """Write words from the beginning of a line on; the last line. Words wider than the picture are broken."""
        x, words = margin, deque(words)
        while words:
            word, style = words.popleft()
            end = draw(x, line, word, **style)
            if end > width - margin and (x > margin or len(word) > 1):
                figure.texts[-1].remove()
                if x > margin:
                    x, line = margin, line + 1
                    words.appendleft((word, style))
                else:
                    half = len(word) // 2
                    words.extendleft([(word[half:], style), (word[:half], style)])
                continue
            x = end + 0.06
        return line

    heading = f"{explanation.name}  {explanation.score:.3f}  ({explanation.kind})"
    line = draw_words(0, ((word, {"weight": "bold"}) for word in heading.split()))
    line = draw_words(
        line + 1,
        (
            (word, {"bbox": {"facecolor": colour, "edgecolor": "none", "pad": 1.5}})
            for piece, _, colour in explanation.pieces()
            for word in piece.split()
        ),
    )
    height = (line + 1) * LINE_HEIGHT + margin
    figure.set_size_inches(width, height)
    for text in figure.texts:
        x, line = text.get_position()
        text.set_position((x / width, 1 - (line + 1) * LINE_HEIGHT / height))
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_label_counts(counts: Sequence[int], path: str | Path | None = None, title: str = "") -> "Figure":
    """Draw the documents of each label, the most frequent first, on logarithmic axes: the long tail.

    Args:
        counts: Training documents of each label, (L,); labels without any are left out.
        path: Where to save the picture; None for not at all.
        title: Heading.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    figure.suptitle(title, parse_math=False)
    axes.loglog(range(1, len(counts) + 1), sorted(counts, reverse=True), ".-", markersize=3)
    axes.set(xlabel="rank of the label", ylabel="training documents")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plot_label_frequency(report: Mapping, path: str | Path | None = None, title: str = "") -> "Figure":
    """Draw how well frequent and rare labels are found: AUC and AUPR by frequency, and metrics of head, torso and tail labels.

    Args:
        report: What metrics.json of a model folder holds under ``by_frequency``.
        path: Where to save the picture, as PNG, SVG or PDF by its ending; None for not at all.
        title: Heading.

    Returns:
        The figure.

    Source: AttentionXML, table 6.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, parse_math=False)
    area_axes, metric_axes = figure.subplots(1, 2)
    groups = {
        f"{row['least_count']:,} to {row['largest_count']:,}\n{row['num_labels']:,} labels": row for row in report["groups"]
    }
    _draw_bars(area_axes, groups, ("AUC", "AUPR"))
    area_axes.set(xlabel=f"documents of a label in {report['split']}", ylabel="mean over labels, per cent")
    kinds = {
        f"{name}\n{report[name]['num_labels']:,} labels": report[name]
        for name in ("head", "torso", "tail")
        if name in report
    }
    _draw_bars(metric_axes, kinds, ("P@1", "P@5", "nDCG@5", "PSP@5"))
    metric_axes.set(xlabel="labels by training documents", ylabel="each group alone, per cent")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw_bars(axes: "Axes", groups: Mapping[str, Mapping], metrics: Sequence[str]) -> None:
    """A group of bars for each group of labels, one for each metric that it has."""
    shown = [metric for metric in metrics if any(values.get(metric) is not None for values in groups.values())]
    for number, metric in enumerate(shown):
        places = [place + (number - (len(shown) - 1) / 2) * 0.8 / len(shown) for place in range(len(groups))]
        heights = [100 * (values.get(metric) or 0.0) for values in groups.values()]
        axes.bar(places, heights, width=0.8 / len(shown), label=metric)
    axes.set_xticks(range(len(groups)), list(groups))
    if shown:
        axes.legend()


def plot_differences(pairs: Sequence, path: str | Path | None = None) -> "Figure":
    """Draw differences between systems with their 95 % intervals, a panel for each metric.

    Args:
        pairs: What `hf_xmtc.commands.system_comparison.compare_systems` gives under ``pairs``.
        path: Where to save the picture, as PNG, SVG or PDF by its ending; None for not at all.

    Returns:
        The figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = list(dict.fromkeys(pair.metric for pair in pairs))
    titles = list(dict.fromkeys(f"{pair.first} − {pair.second}" for pair in pairs))
    figure = Figure(figsize=(2.5 + 2.3 * len(metrics), 1.5 + 0.4 * len(titles)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, metric in zip(figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0], metrics, strict=True):
        of_metric = [pair for pair in pairs if pair.metric == metric]
        for label, shift, tests in (
            ("over documents", -0.1, [pair.documents for pair in of_metric]),
            ("over seeds", 0.1, [pair.seeds for pair in of_metric]),
        ):
            drawn = [(place + shift, test) for place, test in enumerate(tests) if test is not None]
            if drawn:
                places, tests = zip(*drawn, strict=True)
                widths = [100 * test.half_width for test in tests]
                axes.errorbar([100 * test.mean for test in tests], places, xerr=widths, fmt="o", markersize=4, label=label)
        axes.axvline(0, color="grey", linewidth=1)
        axes.set(xlabel=f"{metric}, points")
    axes.set_yticks(range(len(titles)), titles, parse_math=False)
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize="small")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
