"""`NeighborsForXMTC`: the labels of the most similar training documents, and labels whose own text is similar."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .aligned_tokens import align_words, check_length
from .backbones import build_backbone, check_segments, load_backbone, number_of_segments, run_backbone
from .configuration_neighbors import SIZES, VOTE_FIELDS, NeighborsConfig
from .growing_model import GrowingModel
from .label_topk import exact_topk
from .modeling_gradient_free import GradientFreeModel
from .modeling_xmtc import XMTCOutput, XMTCPreTrainedModel
from .neighbor_head import NeighborHead, Neighbors
from .stored_documents import Assignments, StoredDocuments, digests_of
from .text_encoding import encode_texts
from .text_index import DocumentVectors
from .tf_idf import TfIdf, WordValues, values_of_tokens
from .word_encoders import check_word_tokenizer

__all__ = ["NeighborsForXMTC"]


class NeighborsForXMTC(GrowingModel, GradientFreeModel):
    """The vote of the most similar training documents, which the model holds with their labels and the labels' texts.

    Similarity is the cosine of TF-IDF vectors, or with a backbone that of an encoder's mean states. A label that no training document
    has can be found by its text (`NeighborHead`).

    Our design. Votes of similar training texts are what TReaderXML (Wang et al., 2022, §3.1) takes its teacher knowledge from.
    Unlike ML-kNN (Zhang and Zhou, 2007) there is no statistic of how many neighbours have a label: labels with few documents
    give too little to count.
    """

    config_class = NeighborsConfig

    content = "training documents"

    # True for candidates of the training documents themselves: a document is then ranked as if it were not held.
    leaves_own_out = False

    # Older versions stored no digests; `add_documents` says so.
    _keys_to_ignore_on_load_missing = [r"label_head\.digests"]

    def __init__(self, config: NeighborsConfig):
        super().__init__(config)
        if config.backbone_config is not None:
            self.backbone = build_backbone(config.backbone_config, self.config._attn_implementation)
        else:
            self.words = TfIdf(config.vocab_size, config.pad_token_id)
        self.use_label_head(NeighborHead(config, **self.label_settings()))
        self.post_init()

    @torch.no_grad()
    def store(
        self, documents: Sequence[list[int]], labels: Sequence[Sequence[int]], label_texts: Sequence[list[int]]
    ) -> None:
        """Hold training documents, their label ids, and the labels' texts, which replace what is there.

        Args:
            documents: Token ids of N documents.
            labels: Their label ids; those outside 0 … L-1 are left out.
            label_texts: Token ids of the L labels' texts.
        """
        stored = StoredDocuments(digests_of(documents), Assignments.of(labels, self.config.num_labels))
        self.label_head.store(self.encode_texts(documents), stored, self.encode_texts(label_texts))

    def take_sizes(self, config: NeighborsConfig) -> None:
        for field in SIZES:
            setattr(self.config, field, getattr(config, field))
        for field in VOTE_FIELDS:  # which training has chosen
            setattr(self.config, field, getattr(config, field))
        self.label_head = NeighborHead(self.config, **self.label_settings()).to(self.device)

    def check_content(self) -> None:
        self.label_head.check()

    # ---- the encoder -----------------------------------------------------------------------------------------------------

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> WordValues | DocumentVectors:
        """TF-IDF of the documents' words, or the mean of the encoder's last states over the tokens, of length 1.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            token_type_ids: Segment ids for backbones that have segments, (B, T).
        """
        segments = number_of_segments(self.backbone.config) if hasattr(self, "backbone") else 1
        check_segments(token_type_ids, segments)
        if not hasattr(self, "backbone"):
            return self.words(input_ids, attention_mask)
        words = align_words(input_ids, attention_mask, self.config.pad_token_id)
        check_length(words.ids.shape[1], self.max_input_tokens)
        # A document without tokens is read as one of padding, and has no vector.
        inputs = {"input_ids": words.ids, "attention_mask": words.read.long()}
        if token_type_ids is not None and segments > 1:
            inputs["token_type_ids"] = token_type_ids.gather(1, words.order)
        states = run_backbone(self.backbone, False, False, **inputs).last_hidden_state.float()
        return DocumentVectors(nn.functional.normalize((states * words.mask[:, :, None]).sum(dim=1), dim=1, eps=1e-6))

    @torch.no_grad()
    def encode_texts(self, texts: Sequence[list[int]]) -> WordValues | DocumentVectors:
        """Vectors of any number of texts as token ids by `encode`, on the CPU, batch by batch; puts the model into evaluation mode."""
        self.eval()
        return encode_texts(self.encode, texts, hasattr(self, "words"), self.device)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings() if hasattr(self, "backbone") else super().get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.backbone.set_input_embeddings(value)

    def check_tokenizer(self, tokenizer: Any) -> None:
        if hasattr(self, "backbone"):
            super().check_tokenizer(tokenizer)
        else:
            check_word_tokenizer(tokenizer, self.config.vocab_size, self.config.pad_token_id, type(self).__name__)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, TfIdf):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    # ---- growth ----------------------------------------------------------------------------------------------------------

    @property
    def document_labels(self) -> Assignments:
        return Assignments(self.label_head.label_offsets, self.label_head.label_ids)

    @property
    def stored_documents(self) -> StoredDocuments:
        return self.label_head.stored_documents

    @property
    def found_by(self) -> Tensor | None:
        return None if hasattr(self, "backbone") else self.words.idf > 0

    def hold_documents(self, documents: list[list[int]], stored: StoredDocuments) -> None:
        self.label_head.add_documents(self.encode_texts(documents), stored)

    def hold_label_texts(self, texts: list[str], tokenizer: Any) -> None:
        self.label_head.add_label_texts(self.encode_texts(self.token_ids_of(texts, tokenizer)))

    def labels_never_found(self, first: int = 0) -> list[int]:
        return (first + (~self.label_head.can_be_found()[first:]).nonzero()[:, 0]).tolist()

    @property
    def reason_never_found(self) -> str:
        if not self.label_head.label_texts_count:
            return (
                "with label_text_weight=0 labels have no effect by their texts. Add documents that have them, or set "
                "model.config.label_text_weight to 0.1 (in config.json of a folder)."
            )
        return "the model knows no word of their texts. Add documents that have them, describe them in other words, or train anew."

    # ---- scores ----------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def neighbors_of(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Neighbors:
        """The training documents that vote: their rows in training and similarities, each (B, K), most similar first."""
        return self.label_head.neighbors(self.encode(input_ids, attention_mask))

    @property
    def token_weight_kind(self) -> str | None:
        return None if hasattr(self, "backbone") else "share"

    def token_weights(self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor) -> Tensor:
        """Part of each word in a label's score; see `XMTCPreTrainedModel.token_weights`."""
        if hasattr(self, "backbone"):
            return super().token_weights(input_ids, attention_mask, label_ids)
        self.label_head.check_label_ids("label_ids", label_ids)
        words = self.words(input_ids, attention_mask)
        of_words = self.label_head.word_contributions(words, label_ids.clamp(min=0))  # (S, W)
        of_tokens = values_of_tokens(words, of_words, input_ids, self.words.mask(input_ids, attention_mask))
        return of_tokens.transpose(0, 1) * (label_ids >= 0)[:, :, None]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        A training document is its own nearest neighbour, so scores of training documents say nothing of others; with ``leaves_own_out`` they
        do.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T).
            token_type_ids: Segment ids, for backbones that have segments.
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            return_dict: False for a tuple.
        """
        if self.leaves_own_out:
            mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
            digests = digests_of([ids[read].tolist() for ids, read in zip(input_ids, mask, strict=True)]).to(self.device)
            # What is held need not be encoded again.
            hidden = self.label_head.stored_vectors(digests) or self.encode(input_ids, attention_mask, token_type_ids)
            scores = self.label_head.scores_without_own(hidden, digests)
            top_scores, top_labels = exact_topk(scores, top_k or self.config.num_labels)
            output = XMTCOutput(top_scores=top_scores, top_labels=top_labels)
        else:
            output = self.compute_output(self.encode(input_ids, attention_mask, token_type_ids), labels, top_k)
        return output if return_dict is not False else output.to_tuple()

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
    ) -> "NeighborsForXMTC":
        """A model without documents yet, which reads texts by a pretrained encoder of transformers.

        Args:
            name_or_path: Hub id or folder of the encoder.
            tokenizer: Its tokenizer.
            num_layers: Keep only the encoder's first layers; None for all.
            revision: Revision of the encoder on the Hub.
            token: Hub token.
            seed: Without effect: there are no other layers.
            settings: Fields of `NeighborsConfig`, such as ``num_labels``.
        """
        backbone = load_backbone(name_or_path, num_layers, revision=revision, token=token)
        model = cls(cls.config_class(backbone_config=backbone.config, **settings))
        model.backbone = backbone
        if tokenizer is not None:
            XMTCPreTrainedModel.check_tokenizer(model, tokenizer)
        return model


NeighborsConfig.register_for_auto_class()
NeighborsForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
