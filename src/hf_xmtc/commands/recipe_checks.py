"""Options of model and training that exclude each other."""

from collections.abc import Mapping
from typing import Any

from transformers import SchedulerType

from hf_xmtc.training import XMTCTrainingArguments
from hf_xmtc.training.evaluation import measured
from hf_xmtc.training.option_refusals import check_thresholds

from .config_overrides import hint
from .families import family_named

__all__ = ["check_compatibility"]


def check_compatibility(family: str, settings: Mapping[str, Any], args: XMTCTrainingArguments) -> None:
    """Refuse options that would do nothing, or not what they say.

    Args:
        family: Model family.
        settings: Fields for its config.
        args: Training arguments.

    Raises:
        ValueError: If there are any.
    """
    check_thresholds(family_named(family)[1], args)
    _check_metric(args)
    has_candidates = bool(settings.get("num_candidates"))
    for name in ("num_random_candidates", "positive_injection_ratio", "tune_retrieval_weight"):
        value = getattr(args, name)
        if not has_candidates and value != getattr(XMTCTrainingArguments, name):
            raise ValueError(
                f"{name}={value}, but the model scores all labels and has no candidates. Add --config_overrides num_candidates=128, or "
                "leave it out."
            )
    _check_sets_of_mixed_scores(settings, args)


def _check_metric(args: XMTCTrainingArguments) -> None:
    metric = str(args.metric_for_best_model).removeprefix("eval_")
    by_plateau = args.lr_scheduler_type == SchedulerType.REDUCE_ON_PLATEAU
    if not (args.load_best_model_at_end or args.early_stopping_patience is not None or by_plateau):
        return
    known = measured(args)
    if metric in known:
        return
    if metric in measured(args, with_sets=True):
        reason = "it is a metric of predicted sets, which are not measured. Add --set_metrics"
    else:
        reason = f"it is not measured.{hint(metric, known)} There are {', '.join(sorted(known))}"
    raise ValueError(f"metric_for_best_model={metric!r}, but {reason}.")


def _check_sets_of_mixed_scores(settings: Mapping[str, Any], args: XMTCTrainingArguments) -> None:
    shares = {"tune_retrieval_weight": args.tune_retrieval_weight, "retrieval_weight": settings.get("retrieval_weight")}
    reasons = [f"{name}={value}" for name, value in shares.items() if value]
    has_threshold = args.tune_threshold != "none" or "decision_threshold" in settings
    if reasons and args.set_metrics and not has_threshold:
        raise ValueError(
            f"{reasons[0]} with set_metrics=True: scores in which votes count are no probabilities, and sets of those above 0.5 would say "
            "nothing. Add --tune_threshold global."
        )
