"""A number for every training document, from which a model draws what it asks about the document."""

import inspect
from typing import Any

import torch
from datasets import Dataset
from torch import nn

from hf_xmtc.models.seeded_random import mix_seeds

from .arguments import XMTCTrainingArguments

__all__ = ["SEEDS", "with_document_seeds"]

SEEDS = "document_seeds"


def with_document_seeds(dataset: Any, model: nn.Module, args: XMTCTrainingArguments) -> Any:
    """Add the column ``document_seeds`` for models whose forward takes it.

    The numbers follow from seed and place in the data alone, so what is drawn from them does not depend on workers, processes and
    batches. A stream of unknown length gets none; its models draw for themselves.

    Args:
        dataset: Training data.
        model: The model.
        args: Their ``data_seed``, or else ``seed``, counts.
    """
    if not isinstance(dataset, Dataset) or SEEDS not in inspect.signature(model.forward).parameters:
        return dataset
    seed = args.data_seed if args.data_seed is not None else args.seed
    seeds = mix_seeds(torch.arange(len(dataset)), seed)
    if SEEDS in dataset.column_names:  # of another trainer
        dataset = dataset.remove_columns(SEEDS)
    return dataset.add_column(SEEDS, seeds.numpy())
