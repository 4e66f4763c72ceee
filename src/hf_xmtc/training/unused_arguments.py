"""Arguments of transformers.TrainingArguments that do nothing here: refused, or recipes and cards would name what had no effect."""

from typing import Any

__all__ = ["IN_COMMAND", "IN_TRAINER", "check_unused_arguments"]

# The values that do no harm, and why there are no others. `XMTCTrainingArguments` refuses them.
IN_TRAINER: dict[str, tuple[tuple, str]] = {
    "label_smoothing_factor": (
        (0.0,),
        "transformers smooths labels of which one is right, not several. config.label_loss chooses another loss.",
    ),
    "use_liger_kernel": ((False,), "There are no Liger kernels for these models."),
    "liger_kernel_config": ((None,), "There are no Liger kernels for these models."),
    "use_cache": ((False,), "These models generate no text and cache nothing."),
    "label_names": ((None, [], ["labels"]), "The labels of a batch are called labels."),
    "save_only_model": (
        (False,),
        "A run that resumes from such checkpoints would go on with other weights than an uninterrupted one.",
    ),
    "length_column_name": (("length",), "Lengths are counted in input_ids."),
    "eval_do_concat_batches": ((True,), "Metrics and the order of predictions need all batches together."),
}
# The same for ``hf-xmtc train``, whose evaluation, files and publishing are fixed.
IN_COMMAND: dict[str, tuple[tuple, str]] = {
    "do_train": ((True, None), "This command always trains; hf-xmtc predict tags texts with a trained model."),
    "do_eval": ((True, None), "Every split is evaluated in the end; --eval_strategy no leaves it out during training."),
    "do_predict": ((True, None), "Predictions for the evaluated splits are always written."),
    "prediction_loss_only": ((False,), "The metrics and predictions that this command writes need more than the loss."),
    "batch_eval_metrics": ((False,), "The metrics of this command are of all documents at once."),
    "include_for_metrics": (([],), "The metrics of this command need scores and labels alone."),
    "average_tokens_across_devices": ((True,), "It concerns losses that are counted by tokens."),
    "remove_unused_columns": ((True,), "The columns of the data are those that this command has made."),
    "skip_memory_metrics": ((True,), "metrics.json holds peak_memory_mb in any case."),
    # The Trainer would cast the model once, for the evaluation after training, and it would be saved so.
    "fp16_full_eval": ((False,), "It would leave the saved weights in half precision; --fp16 True evaluates in it too."),
    "bf16_full_eval": ((False,), "It would leave the saved weights in half precision; --bf16 True evaluates in it too."),
    "hub_strategy": (("every_save",), "push_to_hub publishes the finished model, once."),
    "hub_always_push": ((False,), "push_to_hub publishes the finished model, once."),
}
# Optimizers that make their own parameter groups, which here those of label matrices, embeddings and layers would replace.
_OWN_GROUPS = ("galore", "apollo", "lomo", "adalomo")


def check_unused_arguments(args: Any, unused: dict[str, tuple[tuple, str]]) -> None:
    """Refuse arguments that would do nothing.

    Args:
        args: Training arguments, or a namespace of them.
        unused: `IN_TRAINER` or `IN_COMMAND`.

    Raises:
        ValueError: If there is one.
    """
    for name, (idle, reason) in unused.items():
        value = getattr(args, name, idle[0])
        if getattr(value, "value", value) not in idle:
            raise ValueError(f"{name}={value} cannot be used here. {reason} Leave the option out.")
    optim = str(getattr(args.optim, "value", args.optim))
    if optim.startswith(_OWN_GROUPS):
        raise ValueError(
            f"optim={optim!r} cannot be used here: it groups parameters in its own way, as this trainer does (label_optimizer, "
            "sparse_embeddings, layer_learning_rate_decay). Choose another; label_optimizer='rowwise' saves memory too."
        )
