"""BertXML's own small encoder: embeddings and a few transformer layers, normalised or as plain as the authors'."""

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_bertxml import BertXMLConfig

__all__ = ["BertXMLEncoder"]


class BertXMLAttention(nn.Module):
    """Multi-head attention of some positions (queries) over all positions (keys)."""

    def __init__(self, config: BertXMLConfig):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def _split_heads(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, heads, T, H / heads)

    def forward(self, queries: Tensor, keys: Tensor, mask: Tensor, eager: bool) -> tuple[Tensor, Tensor | None]:
        """Attend; ``mask`` (B, 1, 1, T) is True at tokens. The weights (B, heads, Q, T) are returned when ``eager``."""
        query, key, value = (
            self._split_heads(project(states))
            for project, states in ((self.query, queries), (self.key, keys), (self.value, keys))
        )
        dropout = self.dropout if self.training else 0.0
        weights = None
        if eager:
            products = query @ key.mT / query.shape[-1] ** 0.5  # (B, heads, Q, T)
            # The smallest finite number: a document of padding only gets even weights instead of NaN.
            weights = products.masked_fill(~mask, torch.finfo(products.dtype).min).softmax(dim=-1)
            attended = nn.functional.dropout(weights, dropout, self.training) @ value
        else:
            attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        return self.out(attended.transpose(1, 2).flatten(2)), weights


class BertXMLLayer(GradientCheckpointingLayer):
    """One transformer layer; with ``layer_norm="none"`` the authors' plain residual layer."""

    def __init__(self, config: BertXMLConfig):
        super().__init__()
        self.attention = BertXMLAttention(config)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = {"gelu": nn.functional.gelu, "relu": nn.functional.relu}[config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.norm_position = config.layer_norm
        for name in ("attention_norm", "feed_forward_norm"):
            normed = config.layer_norm != "none"
            setattr(self, name, nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if normed else nn.Identity())

    def forward(
        self, hidden: Tensor, mask: Tensor, query_positions: Tensor | None, eager: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Args: ``hidden`` (B, T, H), ``mask`` (B, 1, 1, T); only ``query_positions`` (B, M) are computed where given."""
        normed = self.attention_norm(hidden) if self.norm_position == "pre" else hidden
        queries = normed
        if query_positions is not None:
            index = query_positions[:, :, None].expand(-1, -1, hidden.shape[-1])
            hidden, queries = hidden.gather(1, index), normed.gather(1, index)  # (B, M, H)
        attended, weights = self.attention(queries, normed, mask, eager)
        hidden = hidden + self.dropout(attended)
        if self.norm_position == "post":
            hidden = self.attention_norm(hidden)
        normed = self.feed_forward_norm(hidden) if self.norm_position == "pre" else hidden
        hidden = hidden + self.dropout(self.down(self.activation(self.up(normed))))
        if self.norm_position == "post":
            hidden = self.feed_forward_norm(hidden)
        return hidden, weights


class BertXMLEncoder(nn.Module):
    """BertXML's own encoder: token and absolute position embeddings, then a few layers.

    Positions count tokens, not columns, so a document has the same positions whichever side is padded.
    """

    def __init__(self, config: BertXMLConfig):
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layers = nn.ModuleList(BertXMLLayer(config) for _ in range(config.num_hidden_layers))
        self.final_norm = (
            nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if config.layer_norm == "pre" else nn.Identity()
        )

    def forward(
        self, embedded: Tensor, attention_mask: Tensor, cls_positions: Tensor, eager: bool
    ) -> tuple[Tensor, list, list]:
        """From `token_embedding`'s rows (B, T, H) to the hidden states of the CLS tokens (B, M, H), all layers' inputs, and the
        attention weights if ``eager``.
        """
        positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)  # (B, T)
        hidden = self.dropout(embedded + self.position_embedding(positions))  # (B, T, H)
        mask = attention_mask.bool()[:, None, None, :]
        states, attentions = [], []
        for index, layer in enumerate(self.layers):
            states.append(hidden)
            last = index == len(self.layers) - 1
            hidden, weights = layer(hidden, mask, cls_positions if last and self.config.last_layer_cls_only else None, eager)
            attentions.append(weights)
        if not self.config.last_layer_cls_only:
            hidden = hidden.gather(1, cls_positions[:, :, None].expand(-1, -1, hidden.shape[-1]))
        hidden = self.final_norm(hidden)
        return hidden, [*states, hidden], attentions
