"""`BertXMLForXMTC`: several CLS tokens in front of the text, their last hidden states concatenated (CorNet §4.2)."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .aligned_tokens import AlignedWords, align_words, check_length
from .backbones import build_backbone, check_segments, load_backbone, number_of_segments, run_backbone
from .bertxml_encoder import BertXMLEncoder
from .configuration_bertxml import BertXMLConfig
from .modeling_xmtc import XMTCOutput, XMTCPreTrainedModel

__all__ = ["BertXMLForXMTC"]

# The pretrained token that [CLS_1] starts from, as the known tokenizer kinds call it.
PRETRAINED_CLS_TOKENS = ("[CLS]", "<s>")


class BertXMLForXMTC(XMTCPreTrainedModel):
    """BertXML, and CorNetBertXML with ``cornet_num_blocks`` > 0.

    M CLS tokens stand in front of every text. Each gathers what it needs by attention, and the concatenation of their last
    hidden states, M times as wide as one, is what the labels are scored from.

    Source: CorNet §4.2. `BertXMLConfig.reproduction` gives the numerics of the authors' code.
    """

    config_class = BertXMLConfig
    _no_split_modules = ("BertXMLLayer",)

    def __init__(self, config: BertXMLConfig):
        super().__init__(config)
        if config.backbone_config is not None:
            self.backbone = build_backbone(config.backbone_config, self.config._attn_implementation)
        else:
            self.encoder = BertXMLEncoder(config)
        width = config.num_cls_tokens * config.hidden_size
        self.pooler = nn.Linear(width, config.bottleneck_size or width) if config.pooler else None
        self.dropout = nn.Dropout(config.classifier_dropout)
        if self.pooler is not None:
            self.build_label_scorer(self.pooler.out_features)
        else:
            self.build_label_scorer(width, config.bottleneck_size)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # The own encoder's matrices start Xavier-uniform with zero biases, as in the authors' code.
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding) and self.config.embedding_initializer_range is None:
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.embedding_initializer_range)
        else:
            super()._init_weights(module)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings() if hasattr(self, "backbone") else self.encoder.token_embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        if hasattr(self, "backbone"):
            self.backbone.set_input_embeddings(value)
        else:
            self.encoder.token_embedding = value

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Refused: the CLS tokens are the last rows of the table, and new rows behind them would take their place."""
        rows = self.get_input_embeddings().num_embeddings
        if new_num_tokens not in (None, rows):
            raise ValueError(
                f"The model has embeddings for {rows} tokens, the last {self.config.num_cls_tokens} of them its CLS tokens, so it "
                f"cannot be resized to {new_num_tokens}. Add the tokens to the tokenizer before add_cls_tokens and build the model "
                "from that."
            )
        return self.get_input_embeddings()

    def check_tokenizer(self, tokenizer: Any) -> None:
        super().check_tokenizer(tokenizer)
        start = tokenizer("")["input_ids"]
        own = [token_id for token_id in start if token_id in set(self.config.cls_token_ids)]
        if own != self.config.cls_token_ids:
            raise ValueError(
                f"The tokenizer puts the ids {start} around an empty text, but the model's CLS tokens are "
                f"{self.config.cls_token_ids}. Give it a multi-CLS tokenizer: "
                f"hf_xmtc.tokenization.add_cls_tokens(tokenizer, {self.config.num_cls_tokens})."
            )

    def cls_positions(self, attention_mask: Tensor) -> Tensor:
        """Columns of the CLS tokens, (B, M): the first M tokens, wherever padding puts them."""
        first = attention_mask.to(torch.int8).argmax(dim=1, keepdim=True)  # (B, 1)
        return first + torch.arange(self.config.num_cls_tokens, device=attention_mask.device)

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None, tuple[Tensor, ...] | None]:
        """Document features: the CLS states, concatenated and (with a pooler) transformed.

        Args:
            input_ids: [CLS_1] … [CLS_M] and the text, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            token_type_ids: Segment ids for backbones that have segments, (B, T).
            output_attentions: Also return attention weights.
            output_hidden_states: Also return hidden states.

        Returns:
            Features (B, M · H) or the pooler's width, hidden states and attention weights, None where not asked for.
        """
        if attention_mask is None:
            padding = -1 if self.config.pad_token_id is None else self.config.pad_token_id
            attention_mask = input_ids != padding
        attention_mask = attention_mask.long()
        if input_ids.shape[1] < self.config.num_cls_tokens:
            raise ValueError(
                f"The input has {input_ids.shape[1]} tokens, fewer than its num_cls_tokens={self.config.num_cls_tokens} CLS tokens. "
                "Tokenize with the tokenizer saved beside the model."
            )
        check_length(input_ids.shape[1], self.max_input_tokens)
        check_segments(token_type_ids, number_of_segments(self.backbone.config) if hasattr(self, "backbone") else 1)
        # Backbones count positions from the first column, so padding on the left is moved behind the text.
        words = align_words(input_ids, attention_mask, self.config.pad_token_id)
        segments = None if token_type_ids is None else token_type_ids.gather(1, words.order)
        states = attentions = ()
        if hasattr(self, "backbone"):
            asked = (output_attentions, output_hidden_states)
            if any(asked):
                cls_states, states, attentions = self._run_backbone(words, segments, *asked)
            else:
                (cls_states,) = self.read_batch(words, lambda *chunk: self._run_backbone(*chunk)[:1], segments)
        elif output_attentions or output_hidden_states:
            eager = output_attentions or self.config._attn_implementation == "eager"
            cls_states, states, attentions = self.encoder(
                self.encoder.token_embedding(input_ids), attention_mask, self.cls_positions(attention_mask), eager
            )
        else:
            (cls_states,) = self.read_batch(words, self._run_encoder, embed=lambda ids, _: self.encoder.token_embedding(ids))
        features = cls_states.flatten(1)  # (B, M · H)
        if self.pooler is not None:
            features = nn.functional.elu(self.pooler(nn.functional.elu(features)))
        return features, tuple(states) if output_hidden_states else None, tuple(attentions) if output_attentions else None

    def _run_encoder(self, words: AlignedWords, embedded: Tensor) -> tuple[Tensor]:
        """The CLS states of the own encoder, (B, M, H)."""
        mask = words.mask.long()
        return self.encoder(embedded, mask, self.cls_positions(mask), self.config._attn_implementation == "eager")[:1]

    def _run_backbone(
        self,
        words: AlignedWords,
        segments: Tensor | None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The CLS states (B, M, H); hidden states and attention weights where they are asked for, in the columns of the input."""
        inputs = {"input_ids": words.ids, "attention_mask": words.mask.long()}
        if segments is not None and number_of_segments(self.backbone.config) > 1:
            inputs["token_type_ids"] = segments[:, : words.ids.shape[1]]
        output = run_backbone(self.backbone, output_attentions, output_hidden_states, **inputs)
        cls_states = output.last_hidden_state[:, : self.config.num_cls_tokens]
        states = [words.in_input_columns(layer) for layer in output.hidden_states or ()]
        attentions = [words.in_input_columns(layer, dims=(2, 3)) for layer in output.attentions or ()]
        return cls_states, states, attentions

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: [CLS_1] … [CLS_M] and the text, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T).
            token_type_ids: Segment ids, for backbones that have segments.
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            output_attentions: Return attention weights.
            output_hidden_states: Return hidden states.
            return_dict: False for a tuple.
        """
        requested = self.requested_outputs(output_attentions, output_hidden_states)
        features, states, attentions = self.encode(input_ids, attention_mask, token_type_ids, *requested)
        output = self.compute_output(self.dropout(features), labels, top_k, hidden_states=states, attentions=attentions)
        return output if return_dict is not False else output.to_tuple()

    @classmethod
    def from_backbone(
        cls,
        name_or_path: str,
        *,
        tokenizer: Any = None,
        num_cls_tokens: int = 5,
        num_layers: int | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> "BertXMLForXMTC":
        """Start from a pretrained encoder of transformers (BERT, DistilBERT, RoBERTa, MiniLM, DeBERTa …).

        Its embedding table is resized to the tokenizer's vocabulary. [CLS_1] starts as the pretrained [CLS] and the other CLS
        tokens as noisy copies of it, so that the encoder's knowledge of "sum up here" is kept and the tokens can differ.

        Args:
            name_or_path: Hub id or folder of the encoder.
            tokenizer: Its tokenizer after `hf_xmtc.tokenization.add_cls_tokens`; without it the vocabulary is taken to be the
                encoder's rows plus the CLS tokens.
            num_cls_tokens: CLS tokens M; must be the tokenizer's.
            num_layers: Keep only the encoder's first layers; None for all.
            revision: Revision of the encoder on the Hub.
            token: Hub token.
            seed: Seed of the noise on [CLS_2] … [CLS_M].
            settings: Fields of `BertXMLConfig`, such as ``num_labels`` and ``cornet_num_blocks``.
        """
        backbone = load_backbone(name_or_path, num_layers, revision=revision, token=token)
        embedding = backbone.get_input_embeddings()
        cls_row = _pretrained_cls_row(tokenizer)
        rows = len(tokenizer) if tokenizer is not None else embedding.num_embeddings + num_cls_tokens
        backbone.resize_token_embeddings(rows, mean_resizing=False)
        config = cls.config_class(backbone_config=backbone.config, num_cls_tokens=num_cls_tokens, **settings)
        model = cls(config)
        if tokenizer is not None:
            model.check_tokenizer(tokenizer)
        model.backbone = backbone
        with torch.no_grad():
            table = backbone.get_input_embeddings().weight
            pretrained = table[cls_row].clone() if cls_row is not None else table[: rows - num_cls_tokens].mean(dim=0)
            spread = table[: rows - num_cls_tokens].std(dim=0)
            noise = torch.randn(num_cls_tokens, table.shape[1], generator=torch.Generator().manual_seed(seed))
            noise[0] = 0.0
            table[-num_cls_tokens:] = pretrained + 0.1 * spread * noise.to(table)
        return model


def _pretrained_cls_row(tokenizer: Any) -> int | None:
    vocabulary = tokenizer.get_vocab() if tokenizer is not None else {}
    return next((vocabulary[token] for token in PRETRAINED_CLS_TOKENS if token in vocabulary), None)


BertXMLConfig.register_for_auto_class()
BertXMLForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
