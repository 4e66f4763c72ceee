"""Words of a document as TF-IDF (`TfIdf`)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .tracing import is_traced

__all__ = ["TfIdf", "WordValues", "values_of_tokens"]


class WordValues(NamedTuple):
    """The different words of a batch of documents, by document.

    Attributes:
        documents: Row of the document, (W,).
        words: Word id, (W,).
        values: Its TF-IDF, (W,); those of a document have length 1.
        counts: How often the document has it, (W,).
        num_documents: Documents B, of which some may have no word.
    """

    documents: Tensor
    words: Tensor
    values: Tensor
    counts: Tensor
    num_documents: int

    def to(self, device: str | torch.device) -> "WordValues":
        return WordValues(*(part.to(device) for part in self[:4]), self.num_documents)

    def of_documents(self, start: int, stop: int) -> "WordValues":
        """The words of some documents."""
        first, last = torch.searchsorted(self.documents, torch.tensor([start, stop], device=self.documents.device)).tolist()
        documents, words, values, counts = (part[first:last] for part in self[:4])
        return WordValues(documents - start, words, values, counts, stop - start)


class TfIdf(nn.Module):
    """(1 + ln count) · idf of each word, divided by the length of the document's vector.

    The same as scikit-learn's `TfidfVectorizer` with ``sublinear_tf=True``. A word with idf 0, such as the unknown one, has no effect.

    Args:
        num_words: Vocabulary V.
        pad_token_id: Id of the padding token.
    """

    def __init__(self, num_words: int, pad_token_id: int | None):
        super().__init__()
        self.pad_token_id = pad_token_id
        self.idf = nn.Parameter(torch.ones(num_words))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """All words count alike."""
        init.ones_(self.idf)

    def mask(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """True at words, (B, T)."""
        if attention_mask is not None:
            return attention_mask.bool()
        return torch.ones_like(input_ids).bool() if self.pad_token_id is None else input_ids != self.pad_token_id

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> WordValues:
        """Words of a batch.

        Args:
            input_ids: Word ids, (B, T).
            attention_mask: 1 at words, 0 at padding, (B, T); derived from ``pad_token_id`` where it is left out.

        Raises:
            ValueError: If a word id is outside 0 … V-1.
        """
        num_documents, num_words = input_ids.shape[0], len(self.idf)
        mask = self.mask(input_ids, attention_mask)
        wrong = mask & ((input_ids < 0) | (input_ids >= num_words))
        if not is_traced() and bool(wrong.any()):  # its key would be that of a word of another document
            raise ValueError(
                f"input_ids holds word id {int(input_ids[wrong][0])}, but the ids are 0 … {num_words - 1} (vocab_size={num_words}). Use "
                "the tokenizer saved beside the model."
            )
        rows = torch.arange(num_documents, device=input_ids.device)[:, None] * num_words
        keys, counts = (rows + input_ids)[mask].unique(return_counts=True)
        documents, words = keys // num_words, keys % num_words
        values = (1 + counts.log()) * self.idf.float()[words]
        squares = values.new_zeros(num_documents).index_add(0, documents, values.square())
        lengths = squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()
        return WordValues(documents, words, values / lengths[documents], counts, num_documents)


def values_of_tokens(words: WordValues, values: Tensor, input_ids: Tensor, mask: Tensor) -> Tensor:
    """Values of words (S, W) at their tokens, (S, B, T), in equal parts where a word is repeated; 0 where ``mask`` (B, T) is False."""
    num_words = int(words.words.max()) + 1 if len(words.words) else 1
    keys = words.documents * num_words + words.words
    rows = torch.arange(len(input_ids), device=input_ids.device)[:, None] * num_words
    places = torch.searchsorted(keys, (rows + input_ids).contiguous())
    shares = nn.functional.pad(values / words.counts, (0, 1))
    return shares[:, places.masked_fill(~mask, len(keys))]
