"""`JointModel`: text and labels through one encoder (LACO §3.2), for the families that build on it."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .aligned_tokens import AlignedWords, align_words, check_length
from .backbones import build_backbone, check_segments, load_backbone, number_of_segments, run_backbone
from .configuration_joint import JointConfig
from .joint_document_cache import DocumentCache, cache_argument
from .linear_layers import copy_rows
from .modeling_xmtc import XMTCPreTrainedModel
from .tracing import is_traced

__all__ = ["JointModel", "JointStates", "check_tensor"]


class JointStates(NamedTuple):
    """Last hidden states of text and labels.

    Attributes:
        document: H_D: the text's tokens, then the separator that closes the sequence, then padding, (B, D, H).
        read: True where there is no padding, (B, D).
        labels: H_Y, (B, L, H), or (B, C, H) of candidates; None where the encoder reads no labels.
        is_label: True at labels, False at padding of the candidates, (B, C); None where all labels are read.
        words: The text's tokens.
        hidden_states: Of every layer, (B, T + L + 1, H): the columns of the input, then labels and separator; None unless asked for.
        attentions: Attention weights of every layer, on request, (B, heads, T + L + 1, T + L + 1).
    """

    document: Tensor
    read: Tensor
    labels: Tensor | None
    is_label: Tensor | None
    words: AlignedWords
    hidden_states: tuple[Tensor, ...] | None
    attentions: tuple[Tensor, ...] | None

    @property
    def of_the_head(self) -> tuple[Tensor | None, ...]:
        """The fields that a label head reads: the first four."""
        return self[:4]


class JointModel(XMTCPreTrainedModel):
    """Base of the families with a joint embedding: every label is a token with an embedding of its own.

    The embeddings stand in ``label_embedding`` and may start from the labels' words
    (`hf_xmtc.training.initialize_label_embedding`). All labels follow every text, so the input tells nothing about the answer.
    """

    config_class = JointConfig

    def __init__(self, config: JointConfig):
        super().__init__(config)
        self.backbone = build_backbone(config.backbone_config, self.config._attn_implementation)
        if config.has_label_embedding:
            width = self.get_input_embeddings().embedding_dim if config.joint_embedding else config.hidden_size
            self.label_embedding = nn.Embedding(config.num_labels, width)
        else:
            self.label_embedding = None

    def get_input_embeddings(self) -> nn.Embedding:
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.backbone.set_input_embeddings(value)

    def check_tokenizer(self, tokenizer: Any) -> None:
        super().check_tokenizer(tokenizer)
        special, expected = self.config.special_tokens(tokenizer), self.config.sep_token_id
        if special["sep_token_id"] != expected:
            raise ValueError(
                f"The tokenizer closes a text with the token {special['sep_token_id']}, but the model's sep_token_id is {expected}. Use "
                "the tokenizer saved beside the model."
            )

    def read_jointly(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        candidate_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> JointStates:
        """Run the encoder over texts and labels.

        Args:
            input_ids: Tokens of the texts, (B, T), as the tokenizer gives them: ``[CLS] text [SEP]``.
            attention_mask: 1 at tokens, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            output_attentions: Also return attention weights.
            output_hidden_states: Also return the hidden states of all layers.
            candidate_ids: Labels to read instead of all, (B, C), padded with -100.
            token_type_ids: Segment ids as the tokenizer gives them for one text: 0 everywhere, (B, T).

        Raises:
            ValueError: If texts are longer than the model takes, in several segments, or label ids are unknown.
        """
        check_segments(token_type_ids, 1)
        beside = f" beside the {self.config.num_label_tokens} of its labels and their separator"
        check_length(input_ids.shape[1], self.max_input_tokens, beside)
        if candidate_ids is not None:
            self._check_candidates(candidate_ids, len(input_ids))
        words = align_words(input_ids, attention_mask, self.config.pad_token_id)
        asked = (output_attentions, output_hidden_states)
        if any(asked):
            return self._read_aligned(words, candidate_ids, asked)
        states = self.read_batch(words, lambda *chunk: self._read_aligned(*chunk).of_the_head, candidate_ids)
        return JointStates(*states, words, None, None)

    def _read_aligned(
        self, words: AlignedWords, candidate_ids: Tensor | None, asked: tuple[bool, bool] = (False, False)
    ) -> JointStates:
        if self.config.joint_embedding:
            inputs = self._joint_inputs(words, candidate_ids)
        else:
            inputs = {"input_ids": words.ids, "attention_mask": words.read.long()}
        return self._joint_states(run_backbone(self.backbone, *asked, **inputs), words, candidate_ids)

    @torch.no_grad()
    def cache_documents(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> DocumentCache:
        """Read texts once, for any number of `read_candidates`; arguments as in `read_jointly`.

        Raises:
            ValueError: If the texts see the labels (``joint_attention="full"``), or the encoder cannot keep what it knows of them.
        """
        if self.config.joint_attention != "one_way" or not self.config.joint_embedding:
            raise ValueError(
                f"joint_attention={self.config.joint_attention!r} and joint_embedding={self.config.joint_embedding}, but only texts that do "
                "not see the labels are the same for all of them. Train with joint_attention='one_way'."
            )
        check_segments(token_type_ids, 1)
        words = align_words(input_ids, attention_mask, self.config.pad_token_id)
        cache = DocumentCache(words)
        inputs = self._joint_inputs(words, words.ids.new_full((len(words.ids), 1), -100))
        num_words = words.ids.shape[1]
        text = {name: value[:, :num_words] for name, value in inputs.items() if name != "attention_mask"}
        mask = inputs["attention_mask"][:, :, :num_words, :num_words]
        output = self.backbone(**text, attention_mask=mask, **{cache_argument(self.backbone): cache})
        cache.states, cache.recording = output.last_hidden_state, False
        return cache

    @torch.no_grad()
    def read_candidates(self, cache: DocumentCache, candidate_ids: Tensor) -> JointStates:
        """The result of `read_jointly` for ``candidate_ids`` (B, C), without reading the texts again."""
        self._check_candidates(candidate_ids, len(cache.words.ids))
        inputs, num_words = self._joint_inputs(cache.words, candidate_ids), cache.words.ids.shape[1]
        behind = {name: value[:, num_words:] for name, value in inputs.items() if name != "attention_mask"}
        mask = inputs["attention_mask"][:, :, num_words:]
        output = self.backbone(**behind, attention_mask=mask, **{cache_argument(self.backbone): cache})
        output.last_hidden_state = torch.cat([cache.states, output.last_hidden_state], dim=1)
        return self._joint_states(output, cache.words, candidate_ids)

    def _check_candidates(self, candidate_ids: Tensor, num_documents: int) -> None:
        check_tensor("candidate_ids", candidate_ids, "(documents, candidates)")
        if is_traced():
            raise ValueError(
                "Candidates are checked against the labels, which cannot be exported. Export the model without them."
            )
        if candidate_ids.dim() != 2 or len(candidate_ids) != num_documents or not candidate_ids.shape[1]:
            raise ValueError(
                f"candidate_ids has the shape {tuple(candidate_ids.shape)}, but there are {num_documents} documents, each with at least one "
                f"candidate: give ({num_documents}, candidates), padded with -100."
            )
        self.label_head.check_label_ids("candidate_ids", candidate_ids)
        ids = candidate_ids.sort(dim=1).values
        twice = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] >= 0)
        if bool(twice.any()):
            raise ValueError(
                f"The candidates of a document hold label id {int(ids[:, 1:][twice][0])} twice. Give each label once."
            )

    def _joint_states(self, output: Any, words: AlignedWords, candidate_ids: Tensor | None) -> JointStates:
        states = output.last_hidden_state
        num_words = words.ids.shape[1]
        num_labels = self.config.num_labels if candidate_ids is None else candidate_ids.shape[1]
        labels = states[:, num_words : num_words + num_labels] if self.config.joint_embedding else None
        document, read = self._document_states(states, words)
        return JointStates(
            document=document,
            read=read,
            labels=labels,
            is_label=None if candidate_ids is None else candidate_ids >= 0,
            words=words,
            hidden_states=_in_input_columns(words, output.get("hidden_states"), (1,)),
            attentions=_in_input_columns(words, output.get("attentions"), (2, 3)),
        )

    def _joint_inputs(self, words: AlignedWords, candidate_ids: Tensor | None = None) -> dict[str, Tensor]:
        """Inputs of the encoder: the text's columns, then the labels, then the closing separator."""
        config, table = self.config, self.get_input_embeddings()
        num_documents = words.ids.shape[0]
        if candidate_ids is None:
            labels = self.label_embedding.weight.expand(num_documents, -1, -1)
        else:
            labels = self.label_embedding(candidate_ids.clamp(min=0))
        num_labels = labels.shape[1]
        parts = [table(words.ids), labels]
        if config.sep_token_id is not None:
            closing = torch.tensor([config.sep_token_id], device=words.ids.device)
            parts.append(table(closing).expand(num_documents, -1, -1))
        num_closing = len(parts) - 2
        text = torch.arange(words.ids.shape[1], device=words.ids.device).expand(num_documents, -1)
        if config.label_positions == "shared":
            behind = torch.tensor([0] * num_labels + [1] * num_closing, device=words.ids.device) + self.max_input_tokens
            behind = behind.expand(num_documents, -1)
        else:
            behind = words.lengths[:, None] + torch.arange(num_labels + num_closing, device=words.ids.device)
        there = torch.ones_like(behind, dtype=torch.bool)
        if candidate_ids is not None:
            there[:, :num_labels] = candidate_ids >= 0
        real = torch.cat([words.read, there], dim=1)
        inputs = {
            "inputs_embeds": torch.cat(parts, dim=1),
            "position_ids": torch.cat([text, behind], dim=1) + config.first_position,
            "attention_mask": real.long(),
        }
        if config.joint_attention == "one_way":
            inputs["attention_mask"] = _one_way(real, words.ids.shape[1], inputs["inputs_embeds"].dtype)
        if number_of_segments(config.backbone_config) > 1:
            second = torch.zeros_like(real, dtype=torch.long)
            second[:, words.ids.shape[1] : words.ids.shape[1] + num_labels] = 1
            inputs["token_type_ids"] = second
        return inputs

    def _document_states(self, states: Tensor, words: AlignedWords) -> tuple[Tensor, Tensor]:
        """States of the text with the closing separator right behind it, (B, D, H), and where they are no padding, (B, D)."""
        num_words = words.ids.shape[1]
        if not self.config.joint_embedding or self.config.sep_token_id is None:
            return states[:, :num_words], words.read
        columns, lengths = torch.arange(num_words + 1, device=states.device), words.lengths[:, None]
        source = torch.where(columns < lengths, columns, columns - 1)
        source = torch.where(columns == lengths, states.shape[1] - 1, source)  # (B, T + 1)
        return states.gather(1, source[:, :, None].expand(-1, -1, states.shape[-1])), columns <= lengths

    @torch.no_grad()
    def resize_family_labels(self, old_ids: Tensor) -> None:
        old = self.label_embedding
        if old is None:
            return
        self.label_embedding = nn.Embedding(
            len(old_ids), old.embedding_dim, device=old.weight.device, dtype=old.weight.dtype
        )
        self.label_embedding.weight.normal_(std=self.config.initializer_range)
        copy_rows(self.label_embedding.weight, old.weight, old_ids)

    @classmethod
    def from_backbone(
        cls,
        name_or_path: str,
        *,
        tokenizer: Any,
        num_layers: int | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> "JointModel":
        """Start from a pretrained encoder of transformers (BERT, DistilBERT, RoBERTa, MiniLM, ELECTRA …).

        Args:
            name_or_path: Hub id or folder of the encoder.
            tokenizer: Its tokenizer.
            num_layers: Keep only the encoder's first layers; None for all.
            revision: Revision of the encoder on the Hub.
            token: Hub token.
            seed: Seed of everything that is new.
            settings: Fields of the family's config, such as ``num_labels``.
        """
        backbone = load_backbone(name_or_path, num_layers, pooler=True, revision=revision, token=token)
        if len(tokenizer) > backbone.get_input_embeddings().num_embeddings:
            backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        config = cls.config_class.for_backbone(backbone.config, tokenizer, **settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = cls(config)
        model.take_backbone(backbone)
        model.check_tokenizer(tokenizer)
        return model

    def take_backbone(self, backbone: nn.Module) -> None:
        """Put a pretrained encoder into the place of the new one."""
        backbone.pooler = None
        self.backbone = backbone


def check_tensor(name: str, label_ids: Any, shape: str) -> None:
    """Refuse label names or lists where a tensor of label ids is needed.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(label_ids, Tensor):
        raise TypeError(
            f"{name} is a {type(label_ids).__name__}, but it must be a tensor of label ids, {shape}; model.config.label_names.id_of(label) "
            "gives a label's id."
        )


def _one_way(real: Tensor, num_words: int, dtype: torch.dtype) -> Tensor:
    """Additive attention mask (B, 1, Q, K): the text sees the text, labels and separator see everything; padding nobody."""
    # Additive and not boolean, which the library's eager attention would add as 0 and 1.
    seen = real[:, None, :].expand(-1, real.shape[1], -1).clone()
    seen[:, :num_words, num_words:] = False
    return torch.zeros(seen.shape, dtype=dtype, device=real.device).masked_fill(~seen, torch.finfo(dtype).min)[:, None]


def _in_input_columns(
    words: AlignedWords, layers: tuple[Tensor, ...] | None, dims: tuple[int, ...]
) -> tuple[Tensor, ...] | None:
    return None if layers is None else tuple(words.in_input_columns(layer, dims) for layer in layers)
