"""Training of the families that are trained without gradients, in a training run."""

import logging
from typing import Any

from transformers import PreTrainedTokenizerFast

from hf_xmtc.data import LabelInfo
from hf_xmtc.models.configuration_neighbors import VOTE_FIELDS
from hf_xmtc.models.growing_model import label_text
from hf_xmtc.models.modeling_neighbors import NeighborsForXMTC
from hf_xmtc.training import XMTCTrainer
from hf_xmtc.training.linear_trees import train_linear_trees
from hf_xmtc.training.neighbors import choose_vote, store_neighbors

from .config_overrides import read_overrides
from .processes import peak_memory_mb
from .recipe import Recipe

__all__ = ["label_token_ids", "train_without_gradients"]

logger = logging.getLogger(__name__)


def train_without_gradients(
    recipe: Recipe, trainer: XMTCTrainer, tokenizer: PreTrainedTokenizerFast, info: LabelInfo
) -> dict[str, Any]:
    """Train the Trainer's model; returns what that took, and what was chosen."""
    model, unread_ids = trainer.model, tokenizer.all_special_ids
    if not isinstance(model, NeighborsForXMTC):
        costs = train_linear_trees(model, trainer.train_dataset, unread_ids)
    else:
        with trainer.accelerator.autocast():
            costs = store_neighbors(model, trainer.train_dataset, label_token_ids(info, tokenizer), unread_ids)
        names = VOTE_FIELDS if hasattr(model, "backbone") else VOTE_FIELDS[:3]
        fields = [name for name in names if name not in read_overrides(recipe.model.config_overrides)]
        if trainer.eval_dataset is None:
            logger.info(f"There is no validation split to choose {', '.join(fields)} on; the defaults are taken.")
        else:
            with trainer.accelerator.autocast():
                costs |= choose_vote(model, trainer.eval_dataset, fields)
        values = ", ".join(f"{name} {getattr(model.config, name):g}" for name in names)
        logger.info(f"{model.config.num_documents:,} training documents are stored; they vote with {values}.")
    return {**costs, "peak_memory_mb": peak_memory_mb(trainer.args.device)}


def label_token_ids(info: LabelInfo, tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Token ids of the text of each label: its display name, and its description where it has one."""
    names = [info.names.name_of(label_id) for label_id in range(info.num_labels)]
    descriptions = info.descriptions or [None] * info.num_labels
    return tokenizer([label_text(*pair) for pair in zip(names, descriptions, strict=True)], truncation=True)["input_ids"]
