"""Settings of model and training that exclude each other, beside those of training alone."""

from collections.abc import Mapping
from typing import Any

from transformers import SchedulerType

from hf_xmtc.training import XMTCTrainingArguments
from hf_xmtc.training.evaluation import measured
from hf_xmtc.training.option_conflicts import CHOSEN, MODEL_CONFLICTS, Conflict, check_conflicts, option_settings

from .config_overrides import hint
from .families import FAMILIES, reads_cls_tokens, reads_labels, takes_backbone, takes_candidates, takes_label_tree

__all__ = ["check_model_settings", "check_training_settings"]

RECIPE_CONFLICTS = (
    Conflict(
        ("backbone",),
        CHOSEN,
        ("model_family",),
        lambda family: not takes_backbone(family),
        "it reads words and takes no pretrained encoder. Leave backbone out, or choose a family that takes one: "
        f"{', '.join(filter(takes_backbone, sorted(FAMILIES)))}.",
    ),
    Conflict(("backbone_num_layers",), CHOSEN, ("backbone",), (None,), "add --backbone FOLDER_OR_HUB_ID, or leave it out."),
    Conflict(("label_tree",), CHOSEN, ("model",), CHOSEN, "a trained model keeps its tree. Leave it out."),
    Conflict(("model_revision",), CHOSEN, ("model",), (None,), "add --model HUB_ID, or leave it out."),
    Conflict(
        ("label_embedding_start",),
        CHOSEN,
        ("model_family",),
        lambda family: not reads_labels(family),
        "it reads no labels. Leave it out.",
    ),
    Conflict(
        ("label_tree",),
        CHOSEN,
        ("model_family",),
        lambda family: not takes_label_tree(family),
        "it scores all labels. Leave it out, or use --model_family lightattention.",
    ),
    Conflict(
        ("candidates_from",),
        CHOSEN,
        ("model_family",),
        lambda family: not takes_candidates(family),
        "it finds the labels to score itself. Leave it out, or use --model_family laco.",
    ),
    Conflict(
        ("candidates_from",),
        CHOSEN,
        ("num_candidates",),
        (0,),
        "the model scores all labels and has no candidates. Add --config_overrides num_candidates=64, or leave it out.",
    ),
    Conflict(
        ("num_cls_tokens",),
        lambda number: number not in (0, 5),
        ("model_family",),
        lambda family: not reads_cls_tokens(family),
        "it reads no CLS tokens. Leave it out.",
    ),
)
TRAINING_CONFLICTS = (
    *MODEL_CONFLICTS,
    Conflict(
        ("tune_encoder",),
        CHOSEN,
        ("model",),
        lambda name: name != "NeighborsForXMTC",
        "it is an option of the family neighbors. Leave it out, or add --model_family neighbors.",
    ),
    Conflict(
        ("tune_encoder",), CHOSEN, ("backbone",), (None,), "there is no encoder to tune. Add --backbone FOLDER_OR_HUB_ID."
    ),
)


def check_model_settings(settings: Mapping[str, Any], defaults: type) -> None:
    """Refuse model settings that the family has no place for.

    Args:
        settings: `ModelArguments` by name.
        defaults: The class.

    Raises:
        ValueError: If there are any.
    """
    check_conflicts(RECIPE_CONFLICTS, settings, defaults)


def check_training_settings(facts: Mapping[str, Any], args: XMTCTrainingArguments) -> None:
    """Refuse training options that would do nothing with a model, or not what they say.

    Args:
        facts: The model's class (``model``), ``has_thresholds``, and the fields of its config.
        args: Training arguments.

    Raises:
        ValueError: If there are any.
    """
    has_threshold = args.tune_threshold != "none" or "decision_threshold" in facts
    facts = {"num_candidates": 0, **facts, "set_metrics": args.set_metrics and not has_threshold}
    check_conflicts(TRAINING_CONFLICTS, {**option_settings(args), **facts}, type(args))
    _check_metric(args)


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
