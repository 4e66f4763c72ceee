"""The picture and the card of a finished training: worth having, never worth the model."""

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hf_xmtc.hub import card_from_folder
from hf_xmtc.training import plot_training_curve

__all__ = ["write_picture_and_card"]

logger = logging.getLogger(__name__)


def write_picture_and_card(folder: Path, log_history: list[dict], title: str, metrics: dict[str, Any]) -> None:
    """Write ``training_curve.png`` and ``README.md`` into a model folder.

    What fails is left out and reported with the way to make it later, so that the folder can be finished without it.

    Args:
        folder: The model folder, with all else in it.
        log_history: `trainer.state.log_history`.
        title: Heading of the picture.
        metrics: What ``metrics.json`` will hold.
    """
    if log_history:  # of training by gradients
        _attempt(
            lambda: plot_training_curve(log_history, folder / "training_curve.png", title),
            folder / "training_curve.png",
            "hf_xmtc.training.plot_training_curve draws it from training_log.json",
        )
    _attempt(
        lambda: (folder / "README.md").write_text(str(card_from_folder(folder, metrics=metrics)), encoding="utf-8"),
        folder / "README.md",
        "hf_xmtc.hub.card_from_folder makes the card anew from the folder, which lacks it for publishing",
    )


def _attempt(write: Callable[[], Any], path: Path, remedy: str) -> None:
    try:
        write()
    except Exception as error:  # of any kind: hours of training stand behind the rest of the folder
        path.unlink(missing_ok=True)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            # Room can be made, and the same command then writes it.
            raise OSError(error.errno, error.strerror, str(path)) from error
        logger.warning(
            f"{path.name} could not be written ({type(error).__name__}: {error}). The model is complete without it; {remedy}.",
            exc_info=True,
        )
