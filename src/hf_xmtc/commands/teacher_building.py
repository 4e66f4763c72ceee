"""The teacher knowledge of a training run, and the neighbours of all its documents."""

import logging
from functools import partial
from typing import TYPE_CHECKING

from datasets import DatasetDict
from transformers import PreTrainedTokenizerFast

from hf_xmtc.data import LabelInfo
from hf_xmtc.models.modeling_treaderxml import TReaderXMLForXMTC
from hf_xmtc.retrieval.neighbor_columns import NEAR_DUPLICATE, add_neighbors, teacher_report

from .gradient_free_training import label_token_ids
from .processes import log_once

if TYPE_CHECKING:
    from hf_xmtc.training import XMTCTrainingArguments

__all__ = ["check_teachers", "give_teacher"]

logger = logging.getLogger(__name__)

# Percentage points by which training documents may find more of their labels than those of validation.
EXPECTED_GAP = 2


def give_teacher(
    model: TReaderXMLForXMTC,
    tokenized: DatasetDict,
    tokenizer: PreTrainedTokenizerFast,
    info: LabelInfo,
    args: "XMTCTrainingArguments",
) -> tuple[DatasetDict, dict[str, dict[str, float]]]:
    """Give a model the training texts as its teacher, and the data the neighbours of every document.

    Args:
        model: From `build_model`, with a teacher.
        tokenized: Splits as token ids.
        tokenizer: The model's.
        info: The labels.
        args: Training arguments of this process.

    Returns:
        The splits with neighbours, and metrics of the teachers by split.
    """
    from hf_xmtc.training.teacher import store_teacher, vectors_of_texts  # not at the top: other models do without scipy

    special = set(tokenizer.all_special_ids)

    def words_of(rows: list[list[int]]) -> list[list[int]]:
        return [[token for token in row if token not in special] for row in rows]

    def tokenize(texts: list[str]) -> list[list[int]]:
        return words_of(tokenizer(texts, add_special_tokens=False)["input_ids"])

    texts = words_of(label_token_ids(info, tokenizer))
    for label_id in range(info.num_labels):
        if info.names.name_of(label_id).isdigit() and not (info.descriptions or [None] * info.num_labels)[label_id]:
            texts[label_id] = []  # a number is no text
    with args.main_process_first(desc="finding neighbours"):
        model.teacher.to(args.device)
        store_teacher(model, tokenized["train"], info.names, texts, tokenize, tokenizer.all_special_ids)
        encode = partial(vectors_of_texts, model.teacher)
        tokenized = add_neighbors(tokenized, model.teacher, encode, model.config.teacher_source, args.seed)
        model.teacher.to("cpu")
    report = {
        split: metrics
        for split, rows in tokenized.items()
        if (metrics := teacher_report(rows, model.teacher, info.num_labels, args.ignore_unseen_labels))
    }
    for split, metrics in report.items():
        log_once(
            args,
            f"Teachers of {split}: {100 * metrics['teacher_recall']:.2f} % of a document's labels, {metrics['teacher_size']:.1f} labels and "
            f"parents; the neighbours' votes alone have nDCG@5 {100 * metrics['neighbors_nDCG@5']:.2f}.",
        )
    if "validation" in report and args.should_log:
        # Training has no label that it has not seen.
        known = teacher_report(tokenized["validation"], model.teacher, info.num_labels, ignore_unseen=True)
        check_teachers(report["train"], known)
    return tokenized, report


def check_teachers(train: dict[str, float], validation: dict[str, float]) -> None:
    """Warn where teachers of training documents know more of their labels than others, and say if near duplicates can be why."""
    gap, more = (100 * (train[name] - validation[name]) for name in ("teacher_recall", "near_duplicates"))
    if gap <= EXPECTED_GAP:
        return
    shares = " and ".join(f"{100 * metrics['near_duplicates']:.1f} %" for metrics in (train, validation))
    reason = (
        "Near duplicates among the training texts give labels away"
        if more > EXPECTED_GAP
        else "So few near duplicates are not the reason; texts of another time or source, and rarer labels, can be"
    )
    logger.warning(
        f"The teachers of training documents know {gap:.1f} percentage points more of their labels than those of validation, labels that "
        f"training has not seen left out. A neighbour of similarity {NEAR_DUPLICATE} or more have {shares} of the documents. {reason}. "
        "The model may trust its teacher too much."
    )
