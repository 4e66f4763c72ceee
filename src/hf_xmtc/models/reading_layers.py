"""Layers of TReaderXML: multi-head self-attention with tanh, the reading of a branch, and the teacher's nodes as vectors."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_treaderxml import TReaderXMLConfig
from .teacher_knowledge import Teacher

__all__ = ["Reading", "Sequence", "TanhSelfAttention", "TeacherEmbedding"]


class Sequence(NamedTuple):
    """Vectors in a row, of each document at least one.

    Attributes:
        states: (B, T, d).
        read: True at vectors, False at padding, (B, T).
        num_unordered: The first so many are a set, in which masked attention hides nothing.
    """

    states: Tensor
    read: Tensor
    num_unordered: int = 0

    def of(self, states: Tensor) -> "Sequence":
        """Other states at the same places."""
        return self._replace(states=states)

    def visible(self, masked: bool) -> Tensor:
        """True where the position of a row sees that of a column, (B, T or 1, T): no padding and, if masked, nothing later."""
        if not masked:
            return self.read[:, None]
        places = torch.arange(self.read.shape[1], device=self.read.device)
        return self.read[:, None] & ((places <= places[:, None]) | (places < self.num_unordered))

    @classmethod
    def joined(cls, first: "Sequence", second: "Sequence") -> "Sequence":
        """One behind the other (equation 16)."""
        states, read = (torch.cat([getattr(part, name) for part in (first, second)], dim=1) for name in ("states", "read"))
        return cls(states, read, first.num_unordered)


class TanhSelfAttention(GradientCheckpointingLayer):
    """Multi-head self-attention with tanh: MMHSA where later positions are masked, MHSA where they are not (equations 3 to 13).

    There is neither layer norm nor feed-forward layer, and no bias.

    "MHSA omits formulas (6) and (7)" would leave it without values and scores; we read it as (8) and (9), which mask. The text hides
    the future, while upper triangular W^mask would hide the past; here position i sees j ≤ i.
    """

    def __init__(self, config: TReaderXMLConfig):
        super().__init__()
        size = config.state_size
        self.num_heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.query, self.key, self.value, self.merge = (nn.Linear(size, size, bias=False) for _ in range(4))

    def forward(self, states: Tensor, visible: Tensor) -> Tensor:
        """From states (B, T, d), of which ``visible`` (B, T or 1, T) says what sees what, to (B, T, d) between -1 and 1."""
        heads = (
            layer(states).unflatten(2, (self.num_heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )  # each (B, h, T, d / h)
        dropout = self.dropout if self.training else 0.0
        attended = nn.functional.scaled_dot_product_attention(*heads, attn_mask=visible[:, None], dropout_p=dropout)
        return torch.tanh(self.merge(attended.transpose(1, 2).flatten(2)))


class Reading(nn.Module):
    """How a branch reads its sequence: the attention layers that ``config.reading`` names, a row of Table 3.

    ``mmhsa_r_mhsa`` is O = MHSA(E + MMHSA(E)), equations 12 to 15.
    """

    def __init__(self, config: TReaderXMLConfig):
        super().__init__()
        self.steps = [] if config.reading == "none" else config.reading.split("_")
        self.layers = nn.ModuleList(TanhSelfAttention(config) for step in self.steps if step != "r")

    def forward(self, sequence: Sequence) -> Sequence:
        """The sequence with the states of the last layer."""
        states = before = sequence.states
        layers = iter(self.layers)
        for step in self.steps:
            if step == "r":
                states = before + states
            else:
                before, states = states, next(layers)(states, sequence.visible(masked=step == "mmhsa"))
        return sequence.of(states)


class TeacherEmbedding(nn.Module):
    """E_y': a teacher as a sequence, from the words of its nodes' descriptions (Algorithm 1, line 8).

    ``label_tokens``: a vector for each node, the mean of its words, with what the node is (label or parent) and the logarithm of its
    weight added. They are a set. ``position_mean`` is the paper's: a vector for each word position, the mean over the nodes that have
    a word there; it does not say which node has which words.

    A text without neighbours has one learned vector instead.
    """

    def __init__(self, config: TReaderXMLConfig, word_size: int):
        super().__init__()
        size = config.state_size
        self.form, self.length = config.teacher_form, config.teacher_length
        self.register_buffer(
            "descriptions", torch.zeros(config.num_nodes, config.description_length, dtype=torch.int32) - 100
        )
        self.projection = nn.Linear(word_size, size, bias=False) if word_size != size else nn.Identity()
        self.no_teacher = nn.Parameter(torch.zeros(size))
        if self.form == "label_tokens":
            self.level = nn.Embedding(2, size)
            self.weight = nn.Parameter(torch.zeros(size))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """No descriptions, and learned vectors of zero."""
        init.constant_(self.descriptions, -100)
        init.zeros_(self.no_teacher)
        if self.form == "label_tokens":
            init.zeros_(self.level.weight)
            init.zeros_(self.weight)

    def store(self, token_ids: list[list[int]]) -> None:
        """Hold the token ids of each node's description, cut after ``description_length``."""
        self.descriptions = self.rows_of(token_ids)

    def rows_of(self, token_ids: list[list[int]]) -> Tensor:
        """Descriptions as rows, (M, l_d), padded with -100."""
        length = self.descriptions.shape[1]
        rows = [[*ids[:length], *[-100] * (length - len(ids))] for ids in token_ids]
        return torch.tensor(rows, dtype=torch.int32, device=self.descriptions.device).view(-1, length)

    def select(self, old_ids: Tensor) -> None:
        """Hold the descriptions of some nodes, (M,) in this order; at -1 none."""
        rows = self.descriptions[old_ids.clamp(min=0).to(self.descriptions.device)]
        self.descriptions = rows.masked_fill((old_ids < 0).to(rows.device)[:, None], -100)

    def forward(self, teacher: Teacher, embed: Callable[[Tensor, Tensor], Tensor]) -> Sequence:
        """The teachers of B documents; ``embed`` gives vectors (…, E) of token ids (…), zero where a mask is False."""
        node_ids, weights, is_parent = teacher
        is_node = node_ids >= 0  # (B, K)
        ids = self.descriptions[node_ids.clamp(min=0)].masked_fill(~is_node[:, :, None], -100)
        is_word = ids >= 0  # (B, K, l_d)
        words = self.projection(embed(ids.clamp(min=0), is_word))  # (B, K, l_d, d)
        if self.form == "label_tokens":
            states, read = _mean(words, is_word, dim=2), is_node
            states = states + self.level(is_parent.int()) + weights.log1p()[:, :, None].to(states.dtype) * self.weight
            num_unordered = self.length or read.shape[1]
        else:
            # The paper divides by all nodes, where those with fewer words would only shrink the mean.
            states, read, num_unordered = _mean(words, is_word, dim=1), is_word.any(dim=1), 0  # (B, l_d, d)
        if self.length is not None:
            behind = self.length - read.shape[1]
            states, read = nn.functional.pad(states, (0, 0, 0, behind)), nn.functional.pad(read, (0, behind))
        # Some position must be seen, or the softmax has nothing to share out.
        alone = (torch.arange(read.shape[1], device=read.device) == 0) & ~read.any(dim=1, keepdim=True)
        return Sequence(
            torch.where(alone[:, :, None], self.no_teacher.to(states.dtype), states), read | alone, num_unordered
        )


def _mean(values: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Mean of the values (…, d) whose mask (…) is True over a dimension, 0 where there is none; others are zero."""
    return values.sum(dim=dim) / mask.sum(dim=dim).clamp(min=1)[..., None]
