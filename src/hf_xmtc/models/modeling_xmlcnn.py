"""`XMLCNNForXMTC`: filters over word embeddings, pooled in a few chunks of the document (CorNet §4.1)."""

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .aligned_tokens import check_length
from .configuration_xmlcnn import XMLCNNConfig
from .modeling_xmtc import XMTCOutput
from .word_encoders import WordEmbedding, WordLevelModel

__all__ = ["XMLCNNForXMTC"]


def pool_documents(features: Tensor, lengths: Tensor, num_chunks: int) -> Tensor:
    """Largest value of each of ``num_chunks`` chunks of a document, which do not overlap.

    Position i of a document of length m is in chunk ⌊i · P / m⌋. A document shorter than P leaves chunks empty; they are 0.

    Args:
        features: Values of at least 0, (B, F, M).
        lengths: Positions of each document that count, (B,), at least 1.
        num_chunks: Chunks P.

    Returns:
        (B, F, P).
    """
    positions = torch.arange(features.shape[2], device=features.device)
    outside = positions >= lengths[:, None]  # (B, M)
    chunks = (positions * num_chunks // lengths[:, None]).clamp(max=num_chunks - 1)  # (B, M)
    # Nothing is below 0, so a 0 instead of what does not count changes no maximum.
    values = features.masked_fill(outside[:, None], 0.0)
    empty = features.new_zeros(*features.shape[:2], num_chunks)
    return empty.scatter_reduce(2, chunks[:, None].expand_as(values), values, "amax")


class WideConvolution(GradientCheckpointingLayer):
    """Filters of one width at every place that touches a word, ReLU, and max pooling in chunks."""

    def __init__(self, config: XMLCNNConfig, width: int):
        super().__init__()
        self.convolution = nn.Conv1d(config.embedding_size, config.num_filters, width, padding=width - 1)
        self.pool_size, self.pooling = config.pool_size, config.pooling

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Pool ``embedded`` (B, E, T), zero behind the ``lengths`` (B,) first words, to (B, F, P)."""
        features = nn.functional.relu(self.convolution(embedded))  # (B, F, T + width - 1)
        if self.pooling == "padded":
            return nn.functional.adaptive_max_pool1d(features, self.pool_size)
        return pool_documents(features, lengths + self.convolution.kernel_size[0] - 1, self.pool_size)


class XMLCNNForXMTC(WordLevelModel):
    """XML-CNN, and CorNetXMLCNN with ``cornet_num_blocks`` > 0.

    Filters of several widths slide over the word embeddings; where each fires most, in each of P chunks of the document, goes
    through a narrow ReLU layer to the labels.

    Source: CorNet §4.1, after XML-CNN (Liu et al., 2017). In the CorNet authors' code scores depend on how much padding a
    document has, because padding goes through filters and pooling like a word. Here they do not, unless
    `XMLCNNConfig.reproduction` asks for that.
    """

    config_class = XMLCNNConfig

    def __init__(self, config: XMLCNNConfig):
        super().__init__(config)
        self.words = WordEmbedding(config)
        self.filters = nn.ModuleList(WideConvolution(config, width) for width in config.filter_widths)
        pooled_size = len(config.filter_widths) * config.num_filters * config.pool_size
        self.bottleneck = nn.Linear(pooled_size, config.bottleneck_size)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.build_label_scorer(config.bottleneck_size)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Conv1d):
            fan_in = module.in_channels * module.kernel_size[0]
            fan_out = module.out_channels * module.kernel_size[0]
            if self.config.convolutions_as_images:
                fan_out *= module.in_channels
            bound = (6 / (fan_in + fan_out)) ** 0.5
            init.uniform_(module.weight, -bound, bound)
            init.uniform_(module.bias, -(fan_in**-0.5), fan_in**-0.5)
        else:
            super()._init_weights(module)

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Document features.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.

        Returns:
            (B, bottleneck_size).

        Raises:
            ValueError: If there are more columns than ``padded_length``.
        """
        words, columns = self.align(input_ids, attention_mask), self.config.padded_length
        if columns is None:
            (pooled,) = self.read_batch(
                words, lambda words, embedded: (self._pool(embedded, words.lengths),), embed=self.words
            )
        else:
            width = words.ids.shape[1]
            check_length(width, columns)
            ids = nn.functional.pad(words.ids, (0, columns - width), value=self.config.pad_token_id or 0)
            pooled = self._pool(self.words(ids), words.lengths)
        return nn.functional.relu(self.bottleneck(pooled))

    def _pool(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Places in words (B, T, E) where the filters of all widths fire most, (B, widths · F · P)."""
        return torch.cat([convolution(embedded.mT, lengths).flatten(1) for convolution in self.filters], dim=1)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        top_k: int | None = None,
        return_dict: bool | None = None,
    ) -> XMTCOutput | tuple:
        """Score the labels of a batch of documents.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T).
            labels: Positive label ids (B, P) padded with -100, or a float multi-hot matrix (B, L).
            top_k: Return scores and ids of the best labels instead of logits of all.
            return_dict: False for a tuple.
        """
        output = self.compute_output(self.dropout(self.encode(input_ids, attention_mask)), labels, top_k)
        return output if return_dict is not False else output.to_tuple()


XMLCNNConfig.register_for_auto_class()
XMLCNNForXMTC.register_for_auto_class("AutoModelForSequenceClassification")
