"""`XMLRNNForXMTC`: bidirectional LSTM and max pooling, AttentionXML without attention."""

import torch
from torch import Tensor, nn

from .configuration_xmlrnn import XMLRNNConfig
from .modeling_xmtc import XMTCOutput
from .word_encoders import BiLSTM, WordEmbedding, WordLevelModel

__all__ = ["XMLRNNForXMTC"]


class XMLRNNForXMTC(WordLevelModel):
    """XML-RNN, with any number of CorNet blocks.

    One representation for all labels: the largest value of every LSTM state over the document, then AttentionXML's ReLU layers
    and a linear score per label. What attention adds shows in the difference to AttentionXML.

    Source: AttentionXML (You et al.), "the same settings as AttentionXML (with a max pooling instead of attention mechanism)";
    embedding and LSTM are those of AttentionXML's code. There is no code of XML-RNN: that the ReLU layers stay, and that the
    last layer has a row per label instead of AttentionXML's one for all, is our reading.
    """

    config_class = XMLRNNConfig

    def __init__(self, config: XMLRNNConfig):
        super().__init__(config)
        self.words = WordEmbedding(config)
        self.bilstm = BiLSTM(config.embedding_size, config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob)
        sizes = [2 * config.hidden_size, *config.linear_sizes]
        self.linears = nn.ModuleList(nn.Linear(size, following) for size, following in zip(sizes, sizes[1:], strict=False))
        self.build_label_scorer(sizes[-1])
        self.post_init()

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """Document features.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
            output_hidden_states: Also return hidden states.

        Returns:
            Features (B, linear_sizes[-1]); word embeddings (B, T, E) and LSTM states (B, T, 2H), None where not asked for.
        """
        words, states, embedded = self.read_words(input_ids, attention_mask, output_hidden_states)
        features = states.masked_fill(~words.read[:, :, None], torch.finfo(states.dtype).min).amax(dim=1)  # (B, 2H)
        for linear in self.linears:
            features = nn.functional.relu(linear(features))
        hidden_states = (
            tuple(words.in_input_columns(layer) for layer in (embedded, states)) if output_hidden_states else None
        )
        return features, hidden_states

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            output_hidden_states: Return word embeddings and LSTM states.
            return_dict: False for a tuple.
        """
        _, output_hidden_states = self.requested_outputs(None, output_hidden_states)
        features, states = self.encode(input_ids, attention_mask, output_hidden_states)
        output = self.compute_output(features, labels, top_k, hidden_states=states)
        return output if return_dict is not False else output.to_tuple()


XMLRNNConfig.register_for_auto_class()
XMLRNNForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
