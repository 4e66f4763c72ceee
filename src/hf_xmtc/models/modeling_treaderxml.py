"""`TReaderXMLForXMTC`: a text is read together with the labels of similar training texts."""

from typing import Any

import torch
from torch import Tensor, nn

from .aligned_tokens import AlignedWords, check_length
from .backbone_model import OptionalBackboneModel
from .backbones import check_segments, number_of_segments
from .configuration_treaderxml import TReaderXMLConfig
from .growing_model import GrowingModel
from .modeling_xmtc import XMTCOutput
from .reading_layers import Reading, Sequence, TanhSelfAttention, TeacherEmbedding
from .stored_documents import Assignments, StoredDocuments
from .teacher_knowledge import Teacher, TeacherKnowledge
from .text_encoding import encode_texts

__all__ = ["TReaderXMLForXMTC"]


class TReaderXMLForXMTC(GrowingModel, OptionalBackboneModel):
    """Two branches of self-attention, one over the text and one over its teacher: the labels of the nearest training texts and their
    parents. A third attention reads them together, in which the text sees the teacher but not the teacher the text.

    Encoding gives E_x and E_y' (`TeacherEmbedding`), `Reading` O_x and O_y', Interaction reads [O_y'; O_x] (equation 16), and the mean of its
    positions goes through a bottleneck (equation 17) to the labels.

    Source: TReaderXML (Wang et al., 2022), §3.2. The paper leaves out how the sequence becomes one vector: here by ``config.pooling``.
    Equation 17 gets a bias and a ReLU, as bottlenecks have them elsewhere (XML-CNN). The scores of equation 18 are taken without its softmax, with
    which the loss of equation 19, a sigmoid's, could not fall below ln 2; the order of the labels is the same.
    """

    config_class = TReaderXMLConfig

    scores_new_labels = False

    def __init__(self, config: TReaderXMLConfig):
        super().__init__(config)
        self.build_backbone_or_words()
        self.states_dropout = nn.Dropout(config.embedding_dropout)  # of a backbone; word embeddings have their own
        self.teacher = TeacherKnowledge(config) if config.use_teacher else None
        self.teacher_embedding = self.teacher_reading = None
        if config.use_teacher:
            self.teacher_embedding = TeacherEmbedding(config, self.get_input_embeddings().embedding_dim)
            self.teacher_reading = Reading(config)
        self.text_reading = Reading(config)
        self.interaction = TanhSelfAttention(config)
        width = config.state_size
        if config.pooling == "flatten":
            width *= config.padded_length + (config.teacher_length if config.use_teacher else 0)
        self.bottleneck = nn.Linear(width, config.bottleneck_size)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.build_label_scorer(config.bottleneck_size)
        self.post_init()

    def parameter_groups(self, learning_rate: float, weight_decay: float = 0.0) -> list[dict]:
        """As for other models, with ``config.attention_rate`` times the rate for the attention layers, none of which has a bias."""
        layers = [module for module in self.modules() if isinstance(module, TanhSelfAttention)]
        weights = [weight for layer in layers for weight in layer.parameters() if weight.requires_grad]
        own = {id(weight) for weight in weights}
        groups = super().parameter_groups(learning_rate, weight_decay)
        if self.config.attention_rate == 1 or not weights:
            return groups
        groups[0]["params"] = [parameter for parameter in groups[0]["params"] if id(parameter) not in own]
        return [*groups, {"params": weights, "lr": self.config.attention_rate * learning_rate, "weight_decay": weight_decay}]

    def store_descriptions(self, token_ids: list[list[int]]) -> None:
        """Hold the descriptions of labels and of parents that are no labels.

        Args:
            token_ids: Token ids of each, without special tokens, in the order of the nodes' ids: labels first.
        """
        self.teacher_embedding.store(token_ids)
        self.config.num_nodes = len(token_ids)

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        """Open a checkpoint; arguments as in `transformers.PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: If the training texts in it are not those of its config, or damaged.
        """
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if model.teacher is not None:
            model.teacher.requires_grad_(False)  # which opening a checkpoint has undone
            if model.config.corpus_digest is not None:
                model.teacher.check()
        return loaded

    @torch.no_grad()
    def resize_family_labels(self, old_ids: Tensor) -> None:
        if self.teacher is not None:
            self.teacher_embedding.select(self.teacher.resize_labels(old_ids))

    @torch.no_grad()
    def forget_family_labels(self) -> None:
        if self.teacher is not None and self.config.corpus_digest is not None:
            self.teacher.forget_labels()
            self.store_descriptions([[]] * self.config.num_labels)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (TeacherKnowledge, TeacherEmbedding)):
            module.reset_parameters()
        else:
            super()._init_weights(module)

    # ---- growth: the teacher knows new documents and labels at once, the output layer not before it is trained -----------------

    def check_growth(self) -> None:
        if self.teacher is None:
            raise ValueError(
                "The model has use_teacher=False and holds no training texts, so it takes no documents or labels without training."
            )

    @property
    def document_labels(self) -> Assignments:
        labels = self.stored_documents.assignments
        kept = labels.label_ids < self.config.num_labels  # removed labels stay in the teachers
        return Assignments.of_pairs(labels.rows[kept], labels.label_ids[kept], self.config.num_documents)

    @property
    def stored_documents(self) -> StoredDocuments:
        return self.teacher.stored_documents

    @property
    def found_by(self) -> Tensor | None:
        return self.teacher.found_by

    def hold_documents(self, documents: list[list[int]], stored: StoredDocuments) -> None:
        by_words = self.config.retrieval == "tf_idf"
        self.teacher.add_documents(encode_texts(self.teacher.vectors_of, documents, by_words, self.device), stored)

    def hold_label_texts(self, texts: list[str], tokenizer: Any) -> None:
        """Describe the new labels; they have parents where these are those of the data."""
        special = set(tokenizer.all_special_ids)

        def rows_of(texts: list[str]) -> Tensor:
            tokens = self.token_ids_of(texts, tokenizer)
            return self.teacher_embedding.rows_of([[token for token in ids if token not in special] for ids in tokens])

        names, embedding = self.config.label_names, self.teacher_embedding
        nodes, others = self.teacher.name_labels(names, len(texts))
        embedding.select(nodes)
        # A number is no text.
        embedding.descriptions[len(names) - len(texts) : len(names)] = rows_of(
            ["" if text.isdigit() else text for text in texts]
        )
        embedding.descriptions[len(nodes) - len(others) :] = rows_of(others)

    # ---- encoding --------------------------------------------------------------------------------------------------------

    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Input embeddings (…, E) of token ids (…), zero where ``mask`` is False."""
        if hasattr(self, "backbone"):
            return self.get_input_embeddings()(ids) * mask[..., None]
        return self.words(ids, mask)

    def teacher_of(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        neighbor_ids: Tensor | None = None,
        neighbor_similarities: Tensor | None = None,
    ) -> Teacher:
        """The teachers of a batch of texts, from their neighbours where these are known; arguments as in `forward`."""
        if neighbor_ids is not None:
            return self.teacher.teacher_from(neighbor_ids, neighbor_similarities)
        return self.teacher.teacher_of(self.teacher.vectors_of(input_ids, attention_mask))

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        teacher: Teacher | None = None,
        output_hidden_states: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """Document features.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            token_type_ids: Segment ids for backbones that have segments, (B, T).
            teacher: From `teacher_of`; None for a model without teachers.
            output_hidden_states: Also return hidden states.

        Returns:
            Features (B, bottleneck_size); E_x and the text's part of Interaction, (B, T, d), None where not asked for.
        """
        has_backbone = hasattr(self, "backbone")
        check_segments(token_type_ids, number_of_segments(self.backbone.config) if has_backbone else 1)
        words = self.align(input_ids, attention_mask)
        check_length(words.ids.shape[1], self.max_input_tokens)
        segments = None if token_type_ids is None else token_type_ids.gather(1, words.order)
        teachers = None if teacher is None else self.teacher_embedding(teacher, self.embed)

        def read(words: AlignedWords, *parts: Tensor | None) -> tuple[Tensor | None, ...]:
            *embedded, segments, states, is_read = parts
            (text,) = embedded or (self.states_dropout(self.read_backbone(words, segments)),)
            nodes = None if teachers is None else teachers._replace(states=states, read=is_read)
            pooled, of_text = self.read(Sequence(text, words.read), nodes)
            return pooled, *((text, of_text) if output_hidden_states else (None, None))

        of_teachers = (None, None) if teachers is None else (teachers.states, teachers.read)
        embed = None if has_backbone else self.embed
        pooled, *of_text = self.read_batch(words, read, segments, *of_teachers, embed=embed)
        features = self.dropout(nn.functional.relu(self.bottleneck(pooled)))
        if not output_hidden_states:
            return features, None
        # Chunks end with the longest document, before columns that are padding in all of them.
        behind = [words.ids.shape[1] - part.shape[1] for part in of_text]
        of_text = (nn.functional.pad(part, (0, 0, 0, columns)) for part, columns in zip(of_text, behind, strict=True))
        return features, tuple(words.in_input_columns(part) for part in of_text)

    # ---- reading and interaction -----------------------------------------------------------------------------------------

    def read(self, text: Sequence, teacher: Sequence | None) -> tuple[Tensor, Tensor]:
        """Read the text with its teacher.

        Args:
            text: E_x.
            teacher: E_y'; None for a model without teachers.

        Returns:
            All positions in one vector, (B, d) or flattened; the positions of the text, (B, T, d), zero at padding.
        """
        read = self.text_reading(text)
        if teacher is not None:
            read = Sequence.joined(self.teacher_reading(teacher), read)
        states = self.interaction(read.states, read.visible(masked=True)) * read.read[:, :, None]
        if self.config.pooling == "mean":
            pooled = states.sum(dim=1) / read.read.sum(dim=1)[:, None]
        else:
            behind = self.bottleneck.in_features - states.shape[1] * states.shape[2]
            pooled = nn.functional.pad(states.flatten(1), (0, behind))
        return pooled, states[:, -text.states.shape[1] :]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        neighbor_ids: Tensor | None = None,
        neighbor_similarities: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        A training document is its own nearest neighbour, so its scores say nothing of others unless its neighbours are given.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T).
            token_type_ids: Segment ids, for backbones that have segments.
            neighbor_ids: Rows of the training texts whose labels are the teacher, most similar first, (B, k), padded with -100; the model
                looks for them where they are left out.
            neighbor_similarities: Their similarities, (B, k).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            output_hidden_states: Return E_x and the text's part of Interaction.
            return_dict: False for a tuple.
        """
        _, output_hidden_states = self.requested_outputs(None, output_hidden_states)
        teacher = None
        if self.teacher is not None:
            teacher = self.teacher_of(input_ids, attention_mask, neighbor_ids, neighbor_similarities)
        features, states = self.encode(input_ids, attention_mask, token_type_ids, teacher, output_hidden_states)
        output = self.compute_output(features, labels, top_k, hidden_states=states)
        return output if return_dict is not False else output.to_tuple()


TReaderXMLConfig.register_for_auto_class()
TReaderXMLForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
