"""The data of a training run: what the recipe names, and what cannot be trained on."""

import hashlib
import json
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict
from datasets import config as datasets_config
from huggingface_hub import constants as hub_constants

from hf_xmtc.data import LabelInfo, load_xmtc_dataset
from hf_xmtc.data.document_sample import sample_rows
from hf_xmtc.data.filter_labels import FILTER_LABELS
from hf_xmtc.data.named_datasets import NAMED_DATASETS
from hf_xmtc.training import XMTCTrainingArguments

from .processes import log_once
from .recipe import Recipe

__all__ = ["cache_folders", "check_splits", "content_digest", "load_data", "rows_in_data", "set_propensity_constants"]

_ROWS = 10_000
# Column with the place of a sampled document in the whole split.
ROW = "row"


def load_data(recipe: Recipe) -> DatasetDict:
    """The data set of a recipe, within its limits on documents."""
    chosen = recipe.data
    data = load_xmtc_dataset(
        chosen.dataset,
        format=chosen.format,
        encoding=chosen.encoding,
        label_separator=chosen.label_separator,
        one_based=chosen.one_based,
        label_space=chosen.label_space,
        label_file=chosen.label_file,
        label_format=chosen.label_format,
        validation_fraction=chosen.validation_fraction,
        test_fraction=chosen.test_fraction,
        split_by=chosen.split_by,
        group_column=chosen.group_column,
        normalize_labels=chosen.normalize_labels,
        drop_unlabeled=chosen.drop_unlabeled,
        named=chosen.named,
        text_column=chosen.text_column,
        label_column=chosen.label_column,
        revision=chosen.dataset_revision,
    )
    for sentence in _limit_documents(data, chosen.document_limits):
        log_once(recipe.training, sentence)
    return data


def set_propensity_constants(recipe: Recipe, args: XMTCTrainingArguments, info: LabelInfo) -> str | None:
    """Take the propensity constants of a benchmark where the user gives none.

    Args:
        recipe: Its training arguments are changed.
        args: The copy of them that the Trainer gets, changed too.
        info: Labels of the data, which name the benchmark.

    Returns:
        A sentence on it; None where nothing changes.
    """
    chosen = recipe.choices or ()
    if info.named is None or "propensity_a" in chosen or "propensity_b" in chosen:
        return None
    a, b = NAMED_DATASETS[info.named].propensity_constants
    for arguments in (recipe.training, args):
        arguments.propensity_a, arguments.propensity_b = a, b
    return f"PSP with A = {a:g} and B = {b:g}, the propensity constants of {info.named} (Jain et al., 2016)."


def _limit_documents(data: DatasetDict, limits: dict[str, int]) -> list[str]:
    """Put a fair sample (`hf_xmtc.data.sample_documents`) in place of each split that is larger than its limit.

    Args:
        data: The splits; changed in place.
        limits: Documents of each limited split.

    Returns:
        A sentence for each sample.
    """
    sentences = []
    for split, limit in limits.items():
        if split not in data or len(data[split]) <= limit:
            continue
        whole, rows = data[split], sample_rows(data[split], limit)
        # The column first: after the choice of rows it would copy the texts.
        data[split] = whole.add_column(ROW, np.arange(len(whole))).select(rows)
        sentences.append(f"{split}: {limit:,} of {len(whole):,} documents, a sample by a hash of their texts.")
    return sentences


def rows_in_data(split: Dataset) -> np.ndarray:
    """The place of each document in the split as the loader gives it, (N,)."""
    return np.asarray(split[ROW][:]) if ROW in split.column_names else np.arange(len(split))


def cache_folders() -> list[str]:
    """Where a run writes beside its output: downloads, data sets and temporary files."""
    return [hub_constants.HF_HOME, str(datasets_config.HF_DATASETS_CACHE), tempfile.gettempdir()]


def check_splits(statistics: dict[str, Any], args: XMTCTrainingArguments) -> None:
    """Refuse splits without labels, and settings that need a validation split where there is none.

    Raises:
        ValueError: If there is such a split or setting.
    """
    splits = statistics["splits"]
    if "validation" not in splits and args.eval_strategy != "no":
        raise ValueError(
            f"{statistics['source']} has the splits {', '.join(splits)} and none for validation, on which models "
            "are compared during training. Hold a part of train out with --validation_fraction 0.1, or train without "
            "evaluation: --eval_strategy no --load_best_model_at_end False."
        )
    if "validation" not in splits and args.tune_threshold != "none":
        raise ValueError(
            f"tune_threshold={args.tune_threshold!r}, but {statistics['source']} has no validation split to tune it on. Hold a part of "
            "train out with --validation_fraction 0.1, or leave it out."
        )
    for split, numbers in splits.items():
        if numbers["num_documents"] == numbers["num_without_labels"]:
            raise ValueError(
                f"None of the {numbers['num_documents']} documents in the {split} split of {statistics['source']} has a label, "
                "so there is nothing to learn or measure there. Leave the split out, or give its documents labels."
            )


def content_digest(data: DatasetDict, info: LabelInfo) -> str:
    """A short name for all texts, labels and label names of a run, wherever they lie and whatever they are called."""
    digest = hashlib.blake2b(json.dumps([list(info.names.labels), info.evaluation_only]).encode(), digest_size=8)
    for split, rows in sorted(data.items()):
        digest.update(f"{split} {len(rows)}".encode())
        for table in (
            rows.select_columns([name for name in ("text", "labels", FILTER_LABELS) if name in rows.column_names])
            .with_format("arrow")
            .iter(_ROWS)
        ):
            part = pa.table({name: table[name].combine_chunks() for name in table.column_names})
            with pa.BufferOutputStream() as stream, pa.ipc.new_stream(stream, part.schema) as writer:
                writer.write_table(part)
            digest.update(stream.getvalue())
    return digest.hexdigest()
