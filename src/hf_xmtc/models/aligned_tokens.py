"""Batches of token ids: padded (`pad_documents`), with the words in the first columns (`align_words`), and no longer than a model takes
(`check_length`)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["AlignedWords", "align_words", "check_length", "pad_documents"]


class AlignedWords(NamedTuple):
    """A batch of documents whose words stand in the first columns, wherever padding put them.

    Attributes:
        ids: Word ids, (B, T), the padding id behind the words.
        mask: True at words, (B, T).
        order: Column of the input that each column comes from, (B, T).
    """

    ids: Tensor
    mask: Tensor
    order: Tensor

    @property
    def lengths(self) -> Tensor:
        """Words of each document, (B,); a document without words counts as one position, which holds padding."""
        return self.mask.sum(dim=1).clamp(min=1)

    @property
    def read(self) -> Tensor:
        """True at the positions that `lengths` counts, (B, T): nowhere is a whole row False."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def in_input_columns(self, values: Tensor, dims: tuple[int, ...] = (1,)) -> Tensor:
        """Put ``values`` into the columns of the input again.

        Args:
            values: (B, …), with at least T columns in each of ``dims``; what stands behind them stays there.
            dims: Dimensions that are columns: (1,) of states (B, T, H), (2, 3) of attention weights (B, heads, T, T).
        """
        num_words, back = self.order.shape[1], self.order.argsort(dim=1)
        for dim in dims:
            moved = values.movedim(dim, 1)
            text = moved[:, :num_words]
            text = text.gather(1, back.reshape(*back.shape, *[1] * (text.dim() - 2)).expand_as(text))
            values = torch.cat([text, moved[:, num_words:]], dim=1).movedim(1, dim)
        return values


def align_words(input_ids: Tensor, attention_mask: Tensor | None, pad_token_id: int | None) -> AlignedWords:
    """Move the words of each document to the front.

    Args:
        input_ids: Word ids, (B, T); T may be 0 where no document has a word.
        attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.
        pad_token_id: Id of the padding token, None where there is none.
    """
    padding = 0 if pad_token_id is None else pad_token_id
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids) if pad_token_id is None else input_ids != padding
    mask = attention_mask.bool()
    if input_ids.shape[1] == 0:
        # A tokenizer has no numbers to tell the type from, so it answers with floats.
        input_ids, mask = input_ids.new_full((len(input_ids), 1), padding).long(), mask.new_zeros(len(input_ids), 1)
    order = mask.to(torch.int8).argsort(dim=1, descending=True, stable=True)  # (B, T)
    mask = mask.gather(1, order)
    return AlignedWords(input_ids.gather(1, order).masked_fill(~mask, padding), mask, order)


def pad_documents(documents: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Token ids of documents and their mask, each (B, T), filled up with id 0."""
    lengths = torch.tensor([len(ids) for ids in documents])
    input_ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids, dtype=torch.long) for ids in documents], batch_first=True)
    return input_ids, torch.arange(input_ids.shape[1]) < lengths[:, None]


def check_length(num_tokens: int, limit: int | None, beside: str = "") -> None:
    """Refuse an input of more tokens than the model takes.

    Args:
        num_tokens: Tokens of the input, special tokens included.
        limit: Most tokens; None where there is no limit.
        beside: Words for the message on what takes further places.

    Raises:
        ValueError: With both numbers.
    """
    if limit is not None and num_tokens > limit:
        raise ValueError(
            f"The input has {num_tokens} tokens but the model takes {limit}{beside}. Tokenize with truncation=True and max_length={limit}."
        )
