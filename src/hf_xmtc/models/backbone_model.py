"""`OptionalBackboneModel`: the base of families that read words through their own embedding or through a pretrained encoder."""

from typing import Any

import torch
from torch import Tensor, nn

from .aligned_tokens import AlignedWords
from .backbones import build_backbone, load_backbone, number_of_segments, run_backbone
from .modeling_xmtc import XMTCPreTrainedModel
from .word_encoders import WordEmbedding, WordLevelModel

__all__ = ["OptionalBackboneModel"]


class OptionalBackboneModel(WordLevelModel):
    """Has ``self.backbone``, an encoder of transformers, where the config has a ``backbone_config``, else ``self.words``."""

    def build_backbone_or_words(self) -> None:
        """Add the one or the other."""
        config = self.config
        if config.backbone_config is not None:
            self.backbone = build_backbone(config.backbone_config, config._attn_implementation)
        else:
            self.words = WordEmbedding(config)

    def read_backbone(self, words: AlignedWords, segments: Tensor | None = None) -> Tensor:
        """Last states of the backbone, (B, T, H).

        Args:
            words: Tokens of the documents, (B, T).
            segments: Their segment ids, (B, T or more), for backbones that have segments.
        """
        # A document without tokens is read as one of padding, whatever stands beside it.
        inputs = {"input_ids": words.ids, "attention_mask": words.read.long()}
        if segments is not None and number_of_segments(self.backbone.config) > 1:
            inputs["token_type_ids"] = segments[:, : words.ids.shape[1]]
        return run_backbone(self.backbone, False, False, **inputs).last_hidden_state

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings() if hasattr(self, "backbone") else super().get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        if hasattr(self, "backbone"):
            self.backbone.set_input_embeddings(value)
        else:
            super().set_input_embeddings(value)

    def check_tokenizer(self, tokenizer: Any) -> None:
        if hasattr(self, "backbone"):
            XMTCPreTrainedModel.check_tokenizer(self, tokenizer)
        else:
            super().check_tokenizer(tokenizer)

    @classmethod
    def from_backbone(
        cls,
        name_or_path: str,
        *,
        tokenizer: Any = None,
        num_layers: int | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> "OptionalBackboneModel":
        """Start from a pretrained encoder of transformers (BERT, DistilBERT, RoBERTa, MiniLM, DeBERTa …).

        Args:
            name_or_path: Hub id or folder of the encoder.
            tokenizer: Its tokenizer.
            num_layers: Keep only the encoder's first layers; None for all.
            revision: Revision of the encoder on the Hub.
            token: Hub token.
            seed: Seed of the other layers' first weights.
            settings: Fields of the family's config, such as ``num_labels``.
        """
        backbone = load_backbone(name_or_path, num_layers, revision=revision, token=token)
        if tokenizer is not None and len(tokenizer) > backbone.get_input_embeddings().num_embeddings:
            backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = cls(cls.config_class(backbone_config=backbone.config, **settings))
        model.backbone = backbone
        if tokenizer is not None:
            model.check_tokenizer(tokenizer)
        return model
