"""`LightAttentionForXMTC`: a generator of label clusters and a discriminator of their labels, trained together."""

import torch
from torch import Tensor, nn

from .aligned_tokens import AlignedWords, check_length
from .attentionxml_head import DocumentStates, LabelAttentionHead
from .backbone_model import OptionalBackboneModel
from .backbones import check_segments, number_of_segments
from .configuration_lightattention import LightAttentionConfig
from .label_head import BaseLabelHead, LabelHead
from .label_tree_model import LabelTreeModel, UpperLevel
from .label_tree_search import TreeLevel
from .modeling_xmtc import XMTCOutput
from .word_encoders import BiLSTM

__all__ = ["LightAttentionForXMTC"]


class LightAttentionForXMTC(LabelTreeModel, OptionalBackboneModel):
    """AttentionXML's encoder and attention over a label tree, with LightXML's dynamic negative sampling.

    The generator scores the clusters of labels, the discriminator the labels of the best clusters: in training also those of the
    positive labels' clusters, so that all positives are scored and all else is a hard negative. As the generator learns, the
    negatives change (AttentionXML's levels, trained one after another, keep theirs; so do those of ``negatives="static"``). Both
    losses are summed; nothing flows back through the choice. The score of a label is P(cluster) · σ(s), equation 1.

    Source: the LightAttention report, Algorithms 1 and 2. It leaves open what generator and discriminator are; here they are those of
    LightXML (Jiang et al., 2021), with AttentionXML's attention for each cluster and label. With ``cluster_scoring="pooled"`` and
    ``label_scoring="dot"`` they are LightXML's own layers, but for a bias for each label.
    """

    config_class = LightAttentionConfig

    def __init__(self, config: LightAttentionConfig):
        super().__init__(config)
        self.build_backbone_or_words()
        if config.backbone_config is not None:
            self.states_dropout = nn.Dropout(config.hidden_dropout_prob)
        else:
            self.bilstm = BiLSTM(
                config.embedding_size, config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob
            )
        has_dot = config.label_scoring == "dot"
        self.document_vector = nn.Linear(2 * config.state_size, config.dot_size) if has_dot else None
        self.use_label_head(self._head(config.num_labels, config.dot_size if has_dot else None))
        own_encoder = config.variant == "levelwise"
        width = 2 * config.state_size if config.cluster_scoring == "pooled" else None
        sizes = config.tree_level_sizes or []
        self.use_label_tree([UpperLevel(config, self._head(size, width), own_encoder) for size in sizes])
        self.static_negatives, self.max_candidates = config.negatives == "static", config.max_candidates
        if not own_encoder:
            self.head_names = ("label_head", "cornet", "document_vector", "upper_levels")
        self.post_init()

    def _head(self, num_nodes: int, in_features: int | None) -> BaseLabelHead:
        """A linear head of features of a width, or an attention of each node over the states."""
        config, settings = self.config, {**self.label_settings(), "num_labels": num_nodes}
        if in_features is not None:
            return LabelHead(in_features, **settings)
        return LabelAttentionHead(
            config.state_size, linear_sizes=config.linear_sizes, label_bias=config.label_bias, **settings
        )

    @property
    def token_weight_kind(self) -> str | None:
        return "attention" if self.config.label_scoring == "attention" else None

    # ---- the encoder -----------------------------------------------------------------------------------------------------

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> tuple[DocumentStates, AlignedWords]:
        """The states that clusters and labels attend to.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            token_type_ids: Segment ids for backbones that have segments, (B, T).

        Returns:
            States (B, T, D), and the tokens, which stand in the first columns there.
        """
        has_backbone = hasattr(self, "backbone")
        check_segments(token_type_ids, number_of_segments(self.backbone.config) if has_backbone else 1)
        words = self.align(input_ids, attention_mask)
        if not has_backbone:
            states, _ = self.read_aligned(words, self.words, self.bilstm)
            return DocumentStates(states, words.read), words
        check_length(words.ids.shape[1], self.max_input_tokens)
        segments = None if token_type_ids is None else token_type_ids.gather(1, words.order)
        (states,) = self.read_batch(words, lambda *chunk: (self.read_backbone(*chunk),), segments)
        states = nn.functional.pad(states, (0, 0, 0, words.ids.shape[1] - states.shape[1]))
        return DocumentStates(self.states_dropout(states), words.read), words

    # ---- the levels ------------------------------------------------------------------------------------------------------

    def _levels(self, words: AlignedWords, documents: DocumentStates) -> list[TreeLevel]:
        """The levels of the tree with what their heads read: generators of clusters, and the discriminator of labels."""
        config, levels = self.config, []
        for level in self.upper_levels:
            states = documents
            if level.bilstm is not None:
                own, _ = self.read_aligned(words, level.embed(self.words.embedding), level.bilstm)
                states = DocumentStates(own, words.read)
            levels.append(TreeLevel(level.head, _pooled(states) if config.cluster_scoring == "pooled" else states))
        of_labels = documents if self.document_vector is None else self.document_vector(_pooled(documents))
        return [*levels, TreeLevel(self.label_head, of_labels, self.cornet)]

    def token_weights(self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor) -> Tensor:
        """Attention of chosen labels, (B, S, T): shares of the tokens that add up to 1."""
        if self.document_vector is not None:
            return super().token_weights(input_ids, attention_mask, label_ids)
        documents, words = self.encode(input_ids, attention_mask)
        return words.in_input_columns(self.label_head.attention_of(documents, label_ids), dims=(2,))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Token ids, (B, T).
            attention_mask: 1 at tokens, 0 at padding, (B, T).
            token_type_ids: Segment ids, for backbones that have segments.
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best candidates instead of logits of all labels.
            output_hidden_states: Return the states that clusters and labels attend to.
            return_dict: False for a tuple.
        """
        _, output_hidden_states = self.requested_outputs(None, output_hidden_states)
        documents, words = self.encode(input_ids, attention_mask, token_type_ids)
        hidden_states = (words.in_input_columns(documents.states),) if output_hidden_states else None
        levels = self._levels(words, documents)
        if self.label_tree is None:
            output = self.compute_output(levels[-1].hidden, labels, top_k, hidden_states=hidden_states)
        else:
            output = self.compute_tree_output(levels, labels, top_k, hidden_states=hidden_states)
        return output if return_dict is not False else output.to_tuple()


def _pooled(documents: DocumentStates) -> Tensor:
    """Largest and mean value of each state's elements over a document's tokens, side by side, (B, 2D)."""
    read = documents.read[:, :, None]
    largest = documents.states.masked_fill(~read, float("-inf")).amax(dim=1)
    mean = (documents.states * read).sum(dim=1) / read.sum(dim=1).to(documents.states.dtype)
    return torch.cat([largest, mean], dim=1)


LightAttentionConfig.register_for_auto_class()
LightAttentionForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
