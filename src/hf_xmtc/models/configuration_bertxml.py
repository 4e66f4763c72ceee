"""`BertXMLConfig`: settings of BertXML, with its own small encoder or any pretrained one."""

import dataclasses
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedConfig

from .backbones import OptionalBackbone
from .configuration_xmtc import XMTCConfig

# Never imported, but read by transformers, which tells model folders apart by the code that their config reaches.
if TYPE_CHECKING:
    from .modeling_bertxml import BertXMLForXMTC  # noqa: F401

__all__ = ["BertXMLConfig"]

# Fields of the own encoder, which say nothing about a backbone.
OWN_ENCODER_FIELDS = (
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "layer_norm",
    "layer_norm_eps",
    "last_layer_cls_only",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "embedding_initializer_range",
)
# Fields that the own encoder and a backbone both have; the backbone's count and are the ones that are stored.
BACKBONE_FIELDS = ("hidden_size", "vocab_size", "pad_token_id")


class BertXMLConfig(OptionalBackbone, XMTCConfig):
    """Settings of `BertXMLForXMTC`.

    Without ``backbone_config`` the encoder is BertXML's own small one, trained from scratch. The defaults are one layer of
    width 192, which on the demo data is as good as the three of width 300 in CorNet §5.2.2 (scripts/results/small-recipes.md), with
    pre-layer normalisation and GELU, which train more stably than the authors' settings (their sizes and numerics:
    `reproduction`). With ``backbone_config`` it is any encoder of transformers and only `num_cls_tokens`,
    `classifier_dropout` and the label settings apply; use `BertXMLForXMTC.from_backbone` to start from its weights.

    Args:
        vocab_size: Rows of the token embedding table; the last `num_cls_tokens` of them are the CLS tokens.
        num_cls_tokens: CLS tokens M in front of the text (CorNet §4.2).
        hidden_size: Width H of embeddings and hidden states.
        num_hidden_layers: Layers, the last one included.
        num_attention_heads: Attention heads; must divide ``hidden_size``.
        intermediate_size: Width of the feed-forward layers.
        hidden_act: Activation of the feed-forward layers: ``gelu`` or ``relu``.
        layer_norm: ``pre`` (before attention and feed-forward, and once at the end), ``post`` (BERT's) or ``none`` (the
            authors' code).
        layer_norm_eps: Epsilon of the layer norms.
        last_layer_cls_only: Let only the CLS tokens be queries in the last layer; nothing else of it is read.
        pooler: Put ELU → linear → ELU between the concatenated CLS states and the classifier (the authors' code).
        bottleneck_size: Width between encoder and classifier (CorNet §5.2.2: 512 for Wiki-500K); None for no bottleneck.
        hidden_dropout_prob: Dropout on embeddings and on what attention and feed-forward add.
        attention_probs_dropout_prob: Dropout on attention weights.
        classifier_dropout: Dropout on the features that the label head reads (0.1 in CorNet §5.2.2, none in the authors' code;
            chosen on the demo data's validation split).
        embedding_initializer_range: Standard deviation of new token and position embeddings; None for Xavier-uniform, which
            the authors use and which starts words near zero (0.014 for 10,000 words) beside positions five times as large.
        max_position_embeddings: Longest input in tokens, CLS tokens included.
        pad_token_id: Id of the padding token.
        backbone_config: Config (or its dict) of a transformers encoder that takes the own encoder's place.
    """

    model_type = "bertxml"
    own_encoder_fields, backbone_fields = OWN_ENCODER_FIELDS, BACKBONE_FIELDS
    left_out_of_files = (
        "hidden_act",
        "layer_norm",
        "layer_norm_eps",
        "last_layer_cls_only",
        "pooler",
        "bottleneck_size",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "classifier_dropout",
        "embedding_initializer_range",
        "backbone_config",
    )

    vocab_size: int = 30_000
    num_cls_tokens: int = 5
    hidden_size: int = 192
    num_hidden_layers: int = 1
    num_attention_heads: int = 4
    intermediate_size: int = 384
    hidden_act: str = "gelu"
    layer_norm: str = "pre"
    layer_norm_eps: float = 1e-6
    last_layer_cls_only: bool = True
    pooler: bool = False
    bottleneck_size: int | None = None
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float = 0.3
    embedding_initializer_range: float | None = 0.1
    max_position_embeddings: int = 512
    pad_token_id: int | None = 0
    backbone_config: dict | PreTrainedConfig | None = None

    def _follow_backbone(self) -> None:
        """Take from the backbone what it states itself, and refuse settings that it would leave without effect."""
        defaults = {entry.name: entry.default for entry in dataclasses.fields(self)}
        for field in OWN_ENCODER_FIELDS + BACKBONE_FIELDS:
            # A field that config.json leaves out comes as the file's value, whatever the default is by then.
            unstated = self.file_defaults().get(field, defaults[field])
            stated = getattr(self.backbone_config, field, None) if field in BACKBONE_FIELDS else unstated
            if getattr(self, field) not in (defaults[field], stated):
                raise ValueError(
                    f"{field}={getattr(self, field)!r} is a setting of BertXML's own encoder, but backbone_config puts a "
                    f"{self.backbone_config.model_type} model in its place ({field}={getattr(self.backbone_config, field, None)!r}). "
                    "Set it on the backbone's config, or leave it out."
                )
            if field in BACKBONE_FIELDS:
                setattr(self, field, stated)

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, **settings: Any) -> "BertXMLConfig":
        """Settings that fit a tokenizer with CLS tokens: vocabulary, limit, padding and the number of CLS tokens.

        Args:
            tokenizer: From `hf_xmtc.tokenization.train_word_tokenizer` or `add_cls_tokens`.
            settings: Further fields, which win over the tokenizer's.
        """
        derived = {
            "vocab_size": len(tokenizer),
            "max_position_embeddings": tokenizer.model_max_length,
            "pad_token_id": tokenizer.pad_token_id,
            "num_cls_tokens": sum(
                token.startswith("[CLS_") for token in tokenizer.convert_ids_to_tokens(tokenizer("")["input_ids"])
            ),
        }
        return cls(**{**derived, **settings})

    @classmethod
    def for_backbone(cls, backbone_config: PreTrainedConfig, tokenizer: Any, **settings: Any) -> "BertXMLConfig":
        """Settings for a pretrained encoder; the number of CLS tokens is among them, the tokenizer says nothing more."""
        return cls(backbone_config=backbone_config, **settings)

    @classmethod
    def reproduction(cls, **settings: Any) -> "BertXMLConfig":
        """The sizes of CorNet §5.2.2 and the numerics of the authors' code: no layer norm, ReLU, a pooler between two ELUs,
        CLS-only last layer.

        Source: `models/bertxml.py` of the authors' repository (XunGuangxu/CorNet); the paper names none of these.
        """
        authors = {
            "hidden_size": 300,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "intermediate_size": 600,
            "hidden_act": "relu",
            "layer_norm": "none",
            "pooler": True,
            "last_layer_cls_only": True,
            "classifier_dropout": 0.0,
            "embedding_initializer_range": None,
        }
        return cls(**{**authors, **settings})

    def check(self) -> None:
        super().check()
        if self.num_cls_tokens < 1:
            raise ValueError(
                f"num_cls_tokens={self.num_cls_tokens}, but BertXML reads its features from at least one CLS token."
            )
        if self.backbone_config is None:
            if self.hidden_size % self.num_attention_heads:
                raise ValueError(
                    f"hidden_size={self.hidden_size} is not a multiple of num_attention_heads={self.num_attention_heads}."
                )
            for field, allowed in (("layer_norm", ("pre", "post", "none")), ("hidden_act", ("gelu", "relu"))):
                if getattr(self, field) not in allowed:
                    raise ValueError(f"{field}={getattr(self, field)!r} is not one of {', '.join(allowed)}.")
        if self.max_input_tokens is not None and self.max_input_tokens <= self.num_cls_tokens:
            raise ValueError(
                f"The model takes {self.max_input_tokens} tokens but num_cls_tokens={self.num_cls_tokens} of them are CLS tokens, "
                "which leaves no room for text. Raise max_position_embeddings."
            )

    @property
    def cls_token_ids(self) -> list[int]:
        """Ids of [CLS_1] … [CLS_M]: the last rows of the embedding table."""
        return list(range(self.vocab_size - self.num_cls_tokens, self.vocab_size))

    @property
    def max_input_tokens(self) -> int | None:
        if self.backbone_config is None:
            return self.max_position_embeddings
        return self._positions.count
