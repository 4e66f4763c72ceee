"""Tokenizer and model of a training run, and whether they fit into memory."""

import copy
import dataclasses
import logging
import os
from collections.abc import Collection
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_xmtc.data import LabelInfo, label_counts
from hf_xmtc.models.backbones import pretrained_config
from hf_xmtc.models.configuration_xmtc import XMTCConfig
from hf_xmtc.models.modeling_xmtc import XMTCPreTrainedModel
from hf_xmtc.tokenization import add_cls_tokens, check_max_length, load_word_vectors, read_vector_words, train_word_tokenizer
from hf_xmtc.training import estimate_memory, initialize_label_bias, initialize_label_embedding
from hf_xmtc.training.option_conflicts import check_model_options

from .config_overrides import read_overrides
from .families import builds_transformer, family_named, reads_cls_tokens, reads_labels
from .processes import log_once
from .recipe import Recipe
from .starting_model import StartingModel

__all__ = ["build_model", "build_tokenizer", "check_size", "initialize_labels", "model_digest", "with_starting_model"]

logger = logging.getLogger(__name__)


def check_size(recipe: Recipe, info: LabelInfo, tokenizer: PreTrainedTokenizerFast) -> None:
    """Say what training will need, and stop before anything is allocated if it cannot fit."""
    args = recipe.training
    with torch.device("meta"):
        model = family_named(recipe.model.model_family)[1](_config_of(recipe, info, tokenizer))
    check_model_options(args, model)
    limit, length = model.max_input_tokens, recipe.data.max_length_tokens
    if limit is not None and length > limit:
        taker = f"the backbone {recipe.model.backbone}" if recipe.model.backbone else "the model"
        counted = ", the CLS tokens included" if reads_cls_tokens(recipe.model.model_family) else ""
        raise ValueError(
            f"max_length_tokens={length}, but {taker} takes {limit} tokens{counted}. "
            f"Use --max_length_tokens {limit} or less."
        )
    if not model.is_trained_by_gradient:
        return  # the library that trains it takes what it needs
    estimate = estimate_memory(model, args, length)
    log_once(args, estimate.describe())
    estimate.check_available()


def build_tokenizer(recipe: Recipe, data: DatasetDict) -> PreTrainedTokenizerFast:
    """The backbone's tokenizer, or one of words of the training texts; with CLS tokens in front where the family reads them."""
    max_length = recipe.data.max_length_tokens
    if recipe.model.start is not None:
        tokenizer = recipe.model.start.tokenizer
        tokenizer.model_max_length = max_length
        check_max_length(tokenizer, max_length)
        return tokenizer
    if recipe.model.backbone:
        try:
            tokenizer = AutoTokenizer.from_pretrained(recipe.model.backbone, revision=recipe.model.backbone_revision)
        except (OSError, ValueError) as error:
            reason = (
                "is no folder with a pretrained encoder and its tokenizer, and could not be downloaded from the Hub either"
            )
            if os.path.isdir(recipe.model.backbone):
                reason = "is a folder from which no tokenizer can be opened"
            raise OSError(f"backbone={recipe.model.backbone!r} {reason}: {error}") from error
        if reads_cls_tokens(recipe.model.model_family):
            return add_cls_tokens(tokenizer, recipe.model.num_cls_tokens, max_length=max_length)
        check_max_length(tokenizer, max_length)
        tokenizer.model_max_length = max_length
        return tokenizer
    vectors = recipe.data.word_vectors
    return train_word_tokenizer(
        data["train"]["text"],
        vocab_size=recipe.data.vocab_size,
        min_document_frequency=recipe.data.min_document_frequency,
        max_length=max_length,
        # A family with an encoder of transformers reads one, as a pretrained tokenizer would have it.
        num_cls_tokens=recipe.model.num_cls_tokens
        if reads_cls_tokens(recipe.model.model_family)
        else int(builds_transformer(recipe.model.model_family)),
        word_splitting=recipe.data.word_splitting,
        frequent_first=read_vector_words(vectors) if vectors else None,
    )


def build_model(recipe: Recipe, info: LabelInfo, tokenizer: PreTrainedTokenizerFast) -> XMTCPreTrainedModel:
    """The model with its label names."""
    chosen, model_class = recipe.model, family_named(recipe.model.model_family)[1]
    if chosen.start is not None:
        _report_labels(recipe, info)
        return chosen.start.open(info.names, read_overrides(chosen.config_overrides))
    _warn_of_wide_cornet(recipe, info)
    if chosen.backbone:
        return model_class.from_backbone(
            chosen.backbone,
            tokenizer=tokenizer,
            num_layers=chosen.backbone_num_layers,
            revision=chosen.backbone_revision,
            seed=recipe.training.seed,
            **_settings(recipe, info),
        )
    model = model_class(_config_of(recipe, info, tokenizer))
    if recipe.data.word_vectors:
        vectors, num_words = load_word_vectors(recipe.data.word_vectors, tokenizer)
        field = "embedding_size" if hasattr(model.config, "embedding_size") else "hidden_size"
        if vectors.shape[1] != getattr(model.config, field):
            raise ValueError(
                f"The word vectors have {vectors.shape[1]} dimensions but {field}={getattr(model.config, field)}. "
                f"Add --config_overrides {field}={vectors.shape[1]}."
            )
        log_once(recipe.training, f"{num_words:,} of {len(tokenizer):,} words start from a pretrained vector.")
        with torch.no_grad():
            model.get_input_embeddings().weight.copy_(torch.from_numpy(vectors))
    return model


def _warn_of_wide_cornet(recipe: Recipe, info: LabelInfo) -> None:
    width = recipe.model.cornet_context_size
    if recipe.model.cornet_num_blocks and width is not None and width > info.num_labels and recipe.training.should_log:
        logger.warning(
            f"cornet_context_size={width} is more than the {info.num_labels} labels, though CorNet's context is meant to be much smaller than "
            "the label set (CorNet, section 3). Leave cornet_context_size out for the number of labels, or set a smaller one."
        )


def model_digest(recipe: Recipe) -> str | None:
    """A checksum of the trained model or the label tree that the recipe names: a resumed run must have started from the same."""
    if recipe.model.start is not None:
        return recipe.model.start.digest()
    return None if recipe.model.tree is None else recipe.model.tree.digest()


def _settings(recipe: Recipe, info: LabelInfo) -> dict[str, Any]:
    """Fields of a new model's config; where the recipe names a label tree, it has the sizes of the levels.

    Raises:
        ValueError: If the recipe has other sizes.
    """
    settings = {"label_names": info.names, **recipe.model.config_settings()}
    if (tree := recipe.model.tree) is not None:
        sizes = list(tree.num_nodes[:-1])
        if (chosen := settings.get("tree_level_sizes", sizes)) != sizes:
            raise ValueError(
                f"tree_level_sizes={chosen} in config_overrides, but the tree {recipe.model.label_tree} has levels of {sizes} clusters. Leave "
                "tree_level_sizes out, or leave label_tree out to have a tree of these sizes built."
            )
        settings["tree_level_sizes"] = sizes
    return settings


def _config_of(recipe: Recipe, info: LabelInfo, tokenizer: PreTrainedTokenizerFast) -> XMTCConfig:
    """The config of the model that `build_model` builds."""
    chosen, config_class = recipe.model, family_named(recipe.model.model_family)[0]
    if chosen.start is not None:
        return chosen.start.config_for(info.names, read_overrides(chosen.config_overrides))
    settings = _settings(recipe, info)
    if chosen.backbone:
        backbone = pretrained_config(chosen.backbone, chosen.backbone_num_layers, revision=chosen.backbone_revision)
        backbone.vocab_size = len(tokenizer)
        return config_class.for_backbone(backbone, tokenizer, **settings)
    config = config_class.for_tokenizer(tokenizer, **settings)
    if getattr(config, "freeze_embeddings", False) and not recipe.data.word_vectors:
        raise ValueError(
            "freeze_embeddings=True, but without word_vectors the words start at random and would stay so. Add --word_vectors FILE, or "
            "--config_overrides freeze_embeddings=false."
        )
    return config


def _report_labels(recipe: Recipe, info: LabelInfo) -> None:
    """Log which labels of the starting model are kept, and what was tuned on its old data."""
    start = recipe.model.start
    num_new, dropped = len(start.new_labels(info.names)), start.dropped_labels(info.names)
    log_once(
        recipe.training,
        f"Starting from {start.name}: {info.num_labels - num_new:,} of its {start.config.num_labels:,} labels are kept, {num_new:,} are "
        f"new and {len(dropped):,} dropped.",
    )
    if dropped and recipe.training.should_log:
        logger.warning(
            f"The labels are those of the data, which lack {len(dropped):,} labels of the model, such as {dropped[0]!r}. To keep them, give "
            "a label file that lists them too: --label_space file --label_file labels.json. Where CorNet or the encoder reads labels, "
            "the scores of the others change without them."
        )
    if start.has_tuned_fields:
        log_once(
            recipe.training,
            "The thresholds that were tuned on the model's old data are not taken over; --tune_threshold tunes new ones.",
        )


def initialize_labels(
    recipe: Recipe, model: XMTCPreTrainedModel, tokenizer: PreTrainedTokenizerFast, train: Dataset, info: LabelInfo
) -> None:
    """Start labels from their words and their frequency, where the recipe says so; of a trained model the new ones alone.

    Args:
        recipe: The settings.
        model: From `build_model`.
        tokenizer: Its tokenizer.
        train: The training split.
        info: The labels.
    """
    chosen = recipe.model
    if chosen.start is None and getattr(model, "label_tree", None) is not None:
        from .level_training import give_label_tree  # not at the top: other models do without scipy

        give_label_tree(recipe, model, train, info)
    label_ids = None if chosen.start is None else chosen.start.new_labels(info.names)
    start = chosen.label_embedding_start
    if start is not None or (reads_labels(chosen.model_family) and model.config.joint_embedding):
        initialize_label_embedding(model, tokenizer, start or "text", label_ids=label_ids)
    # How frequent a label is, is not how likely it is among candidates, which their votes say.
    if chosen.label_bias_from_frequency and model.is_trained_by_gradient and not chosen.num_candidates:
        initialize_label_bias(model, label_counts(train, info.num_labels), len(train), label_ids=label_ids)


def with_starting_model(recipe: Recipe) -> Recipe:
    """The recipe with the settings of the trained model that ``recipe.model.model`` names; as it is where that names none.

    Raises:
        OSError: If the model cannot be opened.
        ValueError: If it cannot be opened, or settings were given that it does not have.
    """
    chosen, data = recipe.model, recipe.data
    if chosen.model is None:
        return recipe
    start = StartingModel.from_pretrained(chosen.model, chosen.model_revision)
    choices = _choices(recipe)
    start.check_settings({name: value for name, value in (vars(chosen) | vars(data)).items() if name in choices})
    config, chosen, data = start.config, copy.copy(chosen), copy.copy(data)
    chosen.start, chosen.model_family = start, config.model_type
    chosen.cornet_num_blocks, chosen.cornet_context_size = config.cornet_num_blocks, config.cornet_context_size
    chosen.num_cls_tokens = getattr(config, "num_cls_tokens", type(chosen).num_cls_tokens)
    chosen.backbone = chosen.backbone_revision = chosen.backbone_num_layers = None
    if "candidates_from" not in choices:
        chosen.candidates_from = start.generating_model
    if "max_length_tokens" not in choices:
        data.max_length_tokens = start.max_length_tokens or data.max_length_tokens
    return dataclasses.replace(recipe, model=chosen, data=data)


def _choices(recipe: Recipe) -> Collection[str]:
    """Names of the settings that somebody has given; of a recipe made in Python, those that are no defaults."""
    if recipe.choices is not None:
        return recipe.choices
    return {
        entry.name
        for part in (recipe.model, recipe.data)
        for entry in dataclasses.fields(part)
        if getattr(part, entry.name) != getattr(type(part)(), entry.name)
    }
