"""Pretrained encoders of transformers as parts of a family: their configs, how they are built and loaded."""

import dataclasses
import inspect
from typing import Any

import torch
from torch import nn
from transformers import MODEL_MAPPING, AutoConfig, AutoModel, PreTrainedConfig

from .backbone_checks import check_model_type, positions_of, try_backbone

__all__ = [
    "OptionalBackbone",
    "backbone_config_of",
    "build_backbone",
    "check_segments",
    "load_backbone",
    "number_of_segments",
    "pretrained_config",
    "run_backbone",
    "stored_backbone",
]

# What a backbone's config may say and means nothing here: its place on this machine and the labels of a head it does not have.
NOT_OF_A_BACKBONE = ("_name_or_path", "transformers_version", "id2label", "label2id", "problem_type")

# What the number of layers is called where it is not num_hidden_layers.
LAYER_FIELDS = ("num_hidden_layers", "n_layers")


def backbone_config_of(value: dict | PreTrainedConfig) -> PreTrainedConfig:
    """The config of a text encoder from what ``backbone_config`` holds.

    Raises:
        ValueError: If it names no model type, or is not the config of a text encoder.
    """
    if isinstance(value, dict):
        settings = dict(value)
        if "model_type" not in settings:
            raise ValueError(f"backbone_config has the fields {sorted(settings)} but no model_type, such as 'bert'.")
        value = AutoConfig.for_model(settings.pop("model_type"), **settings)
    if not hasattr(value, "hidden_size"):
        raise ValueError(
            f"backbone_config is {value!r:.80}, not the config of a text encoder. Pass AutoConfig.from_pretrained(…) of one, or "
            "use from_backbone(name_or_path) of the model's class."
        )
    return value


def stored_backbone(config: PreTrainedConfig) -> dict[str, Any]:
    """A backbone's config as config.json stores it: as the encoder's own checkpoints store it, without what only fills space."""
    return {key: value for key, value in config.to_diff_dict().items() if key not in NOT_OF_A_BACKBONE}


class OptionalBackbone:
    """A config that has either an encoder of its own or a ``backbone_config``, and how it is stored; stands before its config class.

    Attributes:
        own_encoder_fields: Fields of the own encoder, which say nothing about a backbone.
        backbone_fields: Fields that both have; the backbone's are the ones that are stored.
    """

    own_encoder_fields = backbone_fields = ()

    def __post_init__(self, **kwargs: Any):
        if self.backbone_config is not None:
            self.backbone_config = backbone_config_of(self.backbone_config)
            self._positions = positions_of(self.backbone_config)
            self._follow_backbone()
        super().__post_init__(**kwargs)

    def _follow_backbone(self) -> None:
        """Take from the backbone what it states itself, and refuse settings that it would leave without effect."""
        defaults = {entry.name: entry.default for entry in dataclasses.fields(self)}
        for field in self.own_encoder_fields:
            if getattr(self, field) != defaults[field]:
                raise ValueError(
                    f"{field}={getattr(self, field)!r} is a setting of the own encoder, but backbone_config puts a "
                    f"{self.backbone_config.model_type} model in its place. Set it on the backbone's config, or leave it out."
                )
        for field in self.backbone_fields:
            setattr(self, field, getattr(self.backbone_config, field, None))

    def to_dict(self) -> dict[str, Any]:
        output = super().to_dict()
        if self.backbone_config is not None:
            for field in self.own_encoder_fields:
                output.pop(field, None)
            if isinstance(output.get("backbone_config"), dict):
                for field in NOT_OF_A_BACKBONE:
                    output["backbone_config"].pop(field, None)
        return output

    def to_diff_dict(self) -> dict[str, Any]:
        output = super().to_diff_dict()
        if self.backbone_config is not None:
            output["backbone_config"] = stored_backbone(self.backbone_config)
            for field in self.backbone_fields:
                output.pop(field, None)
        return output


def number_of_segments(config: PreTrainedConfig) -> int:
    """Rows of a backbone's segment table; 1 where it has none."""
    return getattr(config, "type_vocab_size", 0) or 1


def check_segments(token_type_ids: torch.Tensor | None, segments: int) -> None:
    """Refuse segment ids that the encoder has no row for."""
    if token_type_ids is not None and int(token_type_ids.max() if token_type_ids.numel() else 0) >= segments:
        raise ValueError(
            f"token_type_ids go up to {int(token_type_ids.max())} but the encoder has {segments} segment(s). "
            "Leave token_type_ids out."
        )


def build_backbone(config: PreTrainedConfig, attn_implementation: str | None) -> nn.Module:
    """A new encoder with no pooler.

    Raises:
        ValueError: If it does not read texts as `try_backbone` demands.
    """
    # SDPA is what every class takes by itself where it can; DeBERTa and MPNet refuse it by name.
    attn_implementation = None if attn_implementation == "sdpa" else attn_implementation
    backbone = AutoModel.from_config(config, attn_implementation=attn_implementation, **_pooler_argument(config))
    try_backbone(backbone)
    return backbone


def load_backbone(name_or_path: str, num_layers: int | None = None, pooler: bool = False, **hub_kwargs: Any) -> nn.Module:
    """A pretrained encoder in float32.

    Args:
        name_or_path: Hub id or folder.
        num_layers: Keep only its first layers; None for all.
        pooler: Also load the pooler, where it has one.
        hub_kwargs: ``revision``, ``token``.

    Raises:
        ValueError: If it is no bidirectional encoder, has fewer layers, or does not read texts as `try_backbone` demands.
    """
    config = pretrained_config(name_or_path, num_layers, **hub_kwargs)
    without_pooler = _pooler_argument(config)
    arguments = {} if pooler else without_pooler
    backbone = AutoModel.from_pretrained(name_or_path, config=config, dtype=torch.float32, **hub_kwargs, **arguments)
    try_backbone(backbone)
    return backbone


def pretrained_config(name_or_path: str, num_layers: int | None = None, **hub_kwargs: Any) -> PreTrainedConfig:
    """The config of a pretrained encoder, or of its first layers; arguments as in `load_backbone`."""
    config = AutoConfig.from_pretrained(name_or_path, **hub_kwargs)
    if num_layers is None:
        return config
    field = next((name for name in LAYER_FIELDS if name in config.to_dict()), LAYER_FIELDS[0])
    available = getattr(config, field)
    if not 1 <= num_layers <= available:
        raise ValueError(
            f"{num_layers} layers of {name_or_path} were asked for, but it has {available}. Give 1 to {available}, or leave the "
            "number out for all."
        )
    setattr(config, field, num_layers)
    return config


def run_backbone(backbone: nn.Module, output_attentions: bool, output_hidden_states: bool, **inputs: Any) -> Any:
    """Call an encoder; where attention weights are asked for, by the attention that keeps them."""
    attention = backbone.config._attn_implementation
    if output_attentions and attention != "eager":
        backbone.set_attn_implementation("eager")  # SDPA keeps no weights
    try:
        return backbone(
            **inputs, output_attentions=output_attentions, output_hidden_states=output_hidden_states, return_dict=True
        )
    finally:
        if backbone.config._attn_implementation != attention:
            backbone.set_attn_implementation(attention)


def _pooler_argument(config: Any) -> dict:
    """``add_pooling_layer=False`` for the model classes that know it: a pooler would be trained and never read."""
    check_model_type(config)
    parameters = inspect.signature(MODEL_MAPPING[type(config)].__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in parameters else {}
