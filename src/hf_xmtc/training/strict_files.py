"""A Trainer whose JSON files every parser reads."""

from typing import Any

from transformers import Trainer

from hf_xmtc.strict_json import as_plain

__all__ = ["StrictFilesTrainer"]


class StrictFilesTrainer(Trainer):
    """Writes null where a value is undefined, and numbers of numpy and torch as numbers.

    The Trainer itself writes NaN and Infinity, which JSON lacks, into ``trainer_state.json`` and ``all_results.json``.
    """

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log values; the history that the Trainer's state keeps has None where one is undefined."""
        super().log(logs, *args, **kwargs)
        self.state.log_history[-1] = as_plain(self.state.log_history[-1])

    def _determine_best_metric(self, *args: Any, **kwargs: Any) -> bool:
        is_new = super()._determine_best_metric(*args, **kwargs)
        self.state.best_metric = as_plain(self.state.best_metric)  # infinity before there is one; None means the same
        return is_new

    def save_metrics(self, split: str, metrics: dict[str, float], combined: bool = True) -> None:
        """Write ``<split>_results.json`` and, by default, ``all_results.json``; see `transformers.Trainer.save_metrics`."""
        super().save_metrics(split, as_plain(metrics), combined)
