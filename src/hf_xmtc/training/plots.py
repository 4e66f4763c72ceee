"""The picture of a training run."""

import os
from typing import TYPE_CHECKING

from hf_xmtc.strict_json import as_plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_training_curve"]


def plot_training_curve(
    log_history: list[dict],
    path: str | os.PathLike | None = None,
    title: str = "",
    metrics: tuple[str, ...] = ("P@1", "nDCG@5", "PSP@5"),
) -> "Figure":
    """Draw training loss and validation metrics against steps; undefined values are left out.

    Args:
        log_history: `trainer.state.log_history`.
        path: PNG file to write; None to draw only.
        title: Heading of the picture, shown letter by letter and cut where it is too long.
        metrics: Validation metrics to draw, where they were logged.

    Returns:
        The matplotlib figure, which a notebook shows as it is.
    """
    # The object interface leaves the user's matplotlib backend and state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    loss_axes, metric_axes = figure.subplots(1, 2)
    figure.suptitle(plain_title(title), parse_math=False)
    losses, validation_losses = _points(log_history, "loss"), _points(log_history, "eval_loss")
    for points, name, style in ((losses, "training", "-"), (validation_losses, "validation", "o-")):
        if points:
            loss_axes.plot(*zip(*points, strict=True), style, label=name, markersize=3)
    loss_axes.set(xlabel="step", ylabel="loss", yscale="log")
    loss_axes.yaxis.set_major_formatter("{x:.3g}")
    loss_axes.yaxis.set_minor_formatter("{x:.3g}")
    if losses or validation_losses:
        loss_axes.legend()
    for metric in metrics:
        points = [(step, 100 * value) for step, value in _points(log_history, f"eval_{metric}")]
        if points:
            metric_axes.plot(*zip(*points, strict=True), "o-", label=f"{metric} (last {points[-1][1]:.1f})", markersize=3)
    metric_axes.set(xlabel="step", ylabel="validation, per cent")
    if metric_axes.lines:
        metric_axes.legend()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def plain_title(text: str, max_length: int = 100) -> str:
    """A name of others as a heading: one line, and only characters that can be drawn."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def _points(log_history: list[dict], name: str) -> list[tuple[int, float]]:
    """Step and value wherever a finite value was logged."""
    values = ((entry["step"], as_plain(entry.get(name))) for entry in log_history)
    return [(step, value) for step, value in values if value is not None]
