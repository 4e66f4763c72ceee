"""Model and data of a trainer: checks and preparation."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from datasets import Dataset
from transformers import Trainer

from hf_xmtc.data import XMTCDataCollator, tokenize_dataset
from hf_xmtc.data.collator import NEIGHBORS
from hf_xmtc.models.laco_cooccurrence import RANDOM_NUMBERS
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel

from .arguments import XMTCTrainingArguments
from .initialization import set_missing_label_weights
from .option_conflicts import check_model_options

__all__ = ["check_full_batch", "check_neighbors", "every_document_in_order", "seed_draws", "set_up_model", "tokenized"]


def set_up_model(trainer: Trainer) -> None:
    """Check the trainer's model and set it up; the same for each that ``model_init`` makes for another training.

    Raises:
        ValueError: If the model does not fit the trainer's labels or tokenizer, or cannot train with its loss.
    """
    model, args = trainer.model, trainer.args
    if model.config.num_labels != trainer.num_labels:
        raise ValueError(
            f"model_init made a model of {model.config.num_labels} labels, but the trainer began with one of {trainer.num_labels}, for which "
            "data and metrics are. Make models of one label space, or a trainer for each."
        )
    if trainer.processing_class is not None:
        model.check_tokenizer(trainer.processing_class)
    check_model_options(args, model, compute_loss_func=trainer.compute_loss_func)
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        # The processes gather a layer's weights together at each of its calls, so all have to call it as often.
        model.chunk_tokens = math.inf
    if trainer.evaluation.inverse_propensity is not None:
        set_missing_label_weights(model, trainer.evaluation.inverse_propensity[:-1])
    collator, config = trainer.data_collator, model.config
    if getattr(config, "auxiliary_task", "none") != "none" and isinstance(collator, XMTCDataCollator):
        collator.num_random_numbers = RANDOM_NUMBERS
        seed_draws(collator, args)


def seed_draws(collator: XMTCDataCollator, args: XMTCTrainingArguments) -> None:
    """Let a collator draw by the seed of the data, and by the epoch in all processes that load data."""
    collator.seed = args.data_seed if args.data_seed is not None else args.seed
    if args.dataloader_persistent_workers:
        collator.epoch.share_memory_()


def tokenized(trainer: Trainer, dataset: Any, name: str | None = None) -> Any:
    """A split of texts as token ids, cut at what model and tokenizer take; anything else as it is.

    Args:
        trainer: Its model and tokenizer count.
        dataset: A data set, a dictionary of several, or None.
        name: Of a data set among several, for messages.

    Raises:
        ValueError: If there are no documents, or neither texts nor tokens.
    """
    if isinstance(dataset, dict):
        return {name: tokenized(trainer, split, name) for name, split in dataset.items()}
    if hasattr(dataset, "__len__") and not isinstance(dataset, str) and len(dataset) == 0:
        raise ValueError(
            f"The data{f' {name!r}' if name else ''} have no documents (0 rows), so there is nothing to train on or to measure. Did a "
            "filter leave none?"
        )
    columns = getattr(dataset, "column_names", None)  # a stream may not know them
    if not isinstance(dataset, Dataset) and columns is not None and "input_ids" not in columns:
        raise ValueError(
            f"The data are a {type(dataset).__name__} with the columns {columns} and no 'input_ids'; only a Dataset is "
            "tokenized here. Do it on the way: stream.map(lambda rows: tokenizer(rows['text'], truncation=True), "
            "batched=True, remove_columns='text')."
        )
    if not isinstance(dataset, Dataset) or "input_ids" in columns:
        return dataset
    if "text" not in columns or trainer.processing_class is None:
        raise ValueError(f"The data have the columns {columns} and no 'input_ids'. Make them with tokenize_dataset.")
    limits = (trainer.model.max_input_tokens, trainer.processing_class.model_max_length)
    return tokenize_dataset(dataset, trainer.processing_class, min(limit for limit in limits if limit is not None))[0]


def check_full_batch(args: XMTCTrainingArguments, dataset: Any) -> None:
    """Refuse training data that fill no batch, where ``dataloader_drop_last`` would leave all of them out.

    Raises:
        ValueError: If that is so.
    """
    step = args.train_batch_size * args.world_size
    if args.dataloader_drop_last and hasattr(dataset, "__len__") and len(dataset) < step:
        raise ValueError(
            f"The training data have {len(dataset)} documents, a step takes {step} ({args.train_batch_size} in each of "
            f"{args.world_size} process(es)), and dataloader_drop_last=True leaves incomplete steps out, so nothing would be "
            "trained. Lower per_device_train_batch_size or leave dataloader_drop_last out."
        )


def check_neighbors(model: XMTCPreTrainedModel, dataset: Any) -> None:
    """Refuse training documents without neighbours, where each would find itself and be taught its own labels.

    Raises:
        ValueError: If the model has a teacher and the data do not.
    """
    columns = getattr(dataset, "column_names", None)
    if getattr(model, "teacher", None) is not None and columns is not None and NEIGHBORS not in columns:
        raise ValueError(
            f"The training data have the columns {columns} and no {NEIGHBORS!r}. The model would find each training document as its own "
            "nearest neighbour, and learn to copy its labels. hf-xmtc train adds them; so does hf_xmtc.retrieval.neighbor_columns."
        )


@contextlib.contextmanager
def every_document_in_order(args: XMTCTrainingArguments) -> Iterator[None]:
    """Within this context batches leave no document out and come in order: what training may do without, metrics and predictions need."""
    needed = {"dataloader_drop_last": False, "dataloader_in_order": True}
    chosen = {name: getattr(args, name) for name in needed if hasattr(args, name)}
    try:
        vars(args).update({name: needed[name] for name in chosen})
        yield
    finally:
        vars(args).update(chosen)
