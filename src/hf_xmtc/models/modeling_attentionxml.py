"""`AttentionXMLForXMTC`: bidirectional LSTM, one attention per label, layers that all labels share."""

from typing import Any

import torch
from torch import Tensor

from .attentionxml_head import DocumentStates, LabelAttentionHead
from .configuration_attentionxml import AttentionXMLConfig
from .label_tree_model import LabelTreeModel, UpperLevel
from .label_tree_search import TreeLevel
from .modeling_xmtc import XMTCOutput
from .word_encoders import AlignedWords, BiLSTM, WordEmbedding, WordLevelModel

__all__ = ["AttentionXMLForXMTC"]


class AttentionXMLForXMTC(LabelTreeModel, WordLevelModel):
    """AttentionXML over all labels at once (flat) or, with ``tree_level_sizes``, over a label tree; with ``cornet_num_blocks`` > 0
    CorNetAttentionXML.

    Over a tree each level of clusters is a model of its own, with its own embedding, LSTM and layers. Only the last level, that of the
    labels, is trained here: the levels above are trained before, each as the labels of a smaller model, and taken over by
    `build_on`. They are frozen, so a document's beam can be computed when it is read and is the same each time.

    Its logits cost documents × labels × tokens, which is computed for a block of labels at a time and never held as a whole.
    Attention weights are given for chosen labels only. All labels share the layers behind their attention, so in a text of no word or
    one, to which all labels attend alike, ``label_bias`` or CorNet alone tells them apart.

    Source: AttentionXML (You et al., 2019), §3.1 and §3.2, and CorNet §4.4; with `AttentionXMLConfig.reproduction` equal to the code of both.
    """

    config_class = AttentionXMLConfig
    token_weight_kind = "attention"

    def __init__(self, config: AttentionXMLConfig):
        super().__init__(config)
        self.words = WordEmbedding(config)
        self.bilstm = BiLSTM(config.embedding_size, config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob)
        self.use_label_head(self._attention_head(config.num_labels))
        sizes = config.tree_level_sizes or []
        self.use_label_tree([UpperLevel(config, self._attention_head(size), own_encoder=True) for size in sizes])
        self.first_trained_level = len(sizes)
        self.post_init()
        self.freeze_levels()

    def _attention_head(self, num_nodes: int) -> LabelAttentionHead:
        config = self.config
        settings = {**self.label_settings(), "num_labels": num_nodes}
        return LabelAttentionHead(
            2 * config.hidden_size, linear_sizes=config.linear_sizes, label_bias=config.label_bias, **settings
        )

    # ---- levels above the labels -----------------------------------------------------------------------------------------

    def freeze_levels(self) -> None:
        self.upper_levels.requires_grad_(False)

    def train(self, mode: bool = True) -> "AttentionXMLForXMTC":
        super().train(mode)
        self.upper_levels.eval()  # a beam does not depend on dropout
        return self

    @torch.no_grad()
    def build_on(self, model: "AttentionXMLForXMTC") -> None:
        """Take over a model of the last level of clusters, trained with the clusters as its labels, and start from its weights.

        Only the attention of the labels starts anew.

        Raises:
            ValueError: If its labels are not the clusters of this model, or its levels others.
        """
        sizes, own = [*(model.config.tree_level_sizes or []), model.config.num_labels], self.config.tree_level_sizes
        if sizes != own:
            raise ValueError(
                f"The model above has the levels {sizes}, but tree_level_sizes={own}. Train one model for each level, from the root down."
            )
        *upper, last = self.upper_levels
        for level, trained in zip(upper, model.upper_levels, strict=True):
            level.load_state_dict(trained.state_dict())
        last.head.load_state_dict(model.label_head.state_dict())
        for layer in ("linears", "output"):
            getattr(self.label_head, layer).load_state_dict(getattr(model.label_head, layer).state_dict())
        for bilstm in (last.bilstm, self.bilstm):
            bilstm.load_state_dict(model.bilstm.state_dict())
        for table in (last.embedding, self.words.embedding):
            if table is not None:
                table.load_state_dict(model.words.embedding.state_dict())

    def _levels(self, words: AlignedWords, documents: DocumentStates) -> list[TreeLevel]:
        """The levels of the tree with what their heads read, the labels last."""
        levels = []
        with torch.no_grad():
            for level in self.upper_levels:
                states, _ = self.read_aligned(words, level.embed(self.words.embedding), level.bilstm)
                levels.append(TreeLevel(level.head, DocumentStates(states, words.read)))
        return [*levels, TreeLevel(self.label_head, documents, self.cornet)]

    # ---- documents -------------------------------------------------------------------------------------------------------

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_embeddings: bool = False
    ) -> tuple[DocumentStates, AlignedWords, Tensor | None]:
        """The states that labels attend to.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            output_embeddings: Also return the embeddings of the words.

        Returns:
            LSTM states (B, T, 2H); the words, which stand in the first columns there; and their embeddings (B, T, E), None where not
            asked for.
        """
        words, states, embedded = self.read_words(input_ids, attention_mask, output_embeddings)
        return DocumentStates(states, words.read), words, embedded

    def token_weights(self, input_ids: Tensor, attention_mask: Tensor | None, label_ids: Tensor) -> Tensor:
        """Attention of chosen labels, (B, S, T): shares of the tokens that add up to 1."""
        documents, words, _ = self.encode(input_ids, attention_mask)
        return words.in_input_columns(self.label_head.attention_of(documents, label_ids), dims=(2,))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        attention_labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            attention_labels: Labels whose attention ``output_attentions`` returns, (B, S).
            output_attentions: Return attention weights, as one head with S queries (B, 1, S, T): of ``attention_labels``, or without
                them of the ``top_k`` best labels.
            output_hidden_states: Return word embeddings and LSTM states.
            return_dict: False for a tuple.

        Raises:
            ValueError: If attention is asked for and neither ``attention_labels`` nor ``top_k`` says whose.
        """
        output_attentions, output_hidden_states = self.requested_outputs(output_attentions, output_hidden_states)
        if attention_labels is not None:
            self._check_attention_labels(attention_labels, len(input_ids), output_attentions)
        if output_attentions and attention_labels is None and not top_k:
            raise ValueError(
                f"output_attentions=True, but attention of all {self.config.num_labels} labels is documents x labels x tokens. Name the "
                "labels with attention_labels=… (B, S), or give top_k for those of the best ones."
            )
        documents, words, embedded = self.encode(input_ids, attention_mask, output_hidden_states)
        hidden_states = None
        if output_hidden_states:
            hidden_states = tuple(words.in_input_columns(layer) for layer in (embedded, documents.states))
        if self.label_tree is None:
            output = self.compute_output(documents, labels, top_k, hidden_states=hidden_states)
        else:
            output = self.compute_tree_output(self._levels(words, documents), labels, top_k, hidden_states=hidden_states)
        if output_attentions:
            chosen = output.top_labels if attention_labels is None else attention_labels
            weights = self.label_head.attention_of(documents, chosen)
            output["attentions"] = (words.in_input_columns(weights, dims=(2,))[:, None],)
        return output if return_dict is not False else output.to_tuple()

    @staticmethod
    def _check_attention_labels(label_ids: Any, num_documents: int, asked: bool) -> None:
        if not asked:
            raise ValueError("attention_labels were given without output_attentions=True, so nothing would come of them.")
        shape = tuple(label_ids.shape) if isinstance(label_ids, Tensor) else type(label_ids).__name__
        if not isinstance(label_ids, Tensor) or label_ids.dim() != 2 or len(label_ids) != num_documents:
            raise ValueError(
                f"attention_labels must be a tensor of label ids with one row per document, ({num_documents}, S); got {shape}. For the "
                "same labels in every document: torch.tensor([[15, 3]]).expand(num_documents, -1)."
            )


AttentionXMLConfig.register_for_auto_class()
AttentionXMLForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
