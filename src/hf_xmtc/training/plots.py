"""The picture of a training run."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_training_curve"]


def plot_training_curve(
    log_history: list[dict],
    path: str | os.PathLike | None = None,
    title: str = "",
    metrics: tuple[str, ...] = ("P@1", "nDCG@5", "PSP@5"),
) -> "Figure":
    """Draw training loss and validation metrics against steps.

    Args:
        log_history: `trainer.state.log_history`.
        path: PNG file to write; None to draw only.
        title: Heading of the picture.
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
    figure.suptitle(title)
    losses = [(entry["step"], entry["loss"]) for entry in log_history if "loss" in entry]
    validation_losses = [(entry["step"], entry["eval_loss"]) for entry in log_history if "eval_loss" in entry]
    for points, name, style in ((losses, "training", "-"), (validation_losses, "validation", "o-")):
        if points:
            loss_axes.plot(*zip(*points, strict=True), style, label=name, markersize=3)
    loss_axes.set(xlabel="step", ylabel="loss", yscale="log")
    loss_axes.yaxis.set_major_formatter("{x:.3g}")
    loss_axes.yaxis.set_minor_formatter("{x:.3g}")
    if losses or validation_losses:
        loss_axes.legend()
    for metric in metrics:
        points = [(entry["step"], 100 * entry[f"eval_{metric}"]) for entry in log_history if f"eval_{metric}" in entry]
        if points:
            metric_axes.plot(*zip(*points, strict=True), "o-", label=f"{metric} (last {points[-1][1]:.1f})", markersize=3)
    metric_axes.set(xlabel="step", ylabel="validation, per cent")
    if metric_axes.lines:
        metric_axes.legend()
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
