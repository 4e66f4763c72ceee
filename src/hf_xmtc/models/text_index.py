"""Stored texts, and the similarity of documents to all of them: by words (`WordIndex`) or by vectors (`VectorIndex`)."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import initialization as init

from .inverted_index import index_entries, word_products
from .label_topk import exact_topk
from .tf_idf import WordValues

__all__ = ["DocumentVectors", "Neighbors", "VectorIndex", "WordIndex", "nearest_texts", "ranked_texts"]

# Texts that documents are compared with at a time.
BLOCK_TEXTS = 2**17


class DocumentVectors(NamedTuple):
    """Vectors of length 1 of a batch of documents, (B, H); of length 0 for those without tokens."""

    values: Tensor

    @property
    def num_documents(self) -> int:
        """Documents B."""
        return len(self.values)

    def of_documents(self, start: int, stop: int) -> "DocumentVectors":
        """The vectors of some documents."""
        return DocumentVectors(self.values[start:stop])

    def to(self, device: str | torch.device) -> "DocumentVectors":
        """The same on a device."""
        return DocumentVectors(self.values.to(device))


class Neighbors(NamedTuple):
    """The most similar stored texts of each document, most similar first, equal ones by row.

    Attributes:
        rows: Their rows, (B, K).
        similarities: Cosines, (B, K), never negative; 0 where nothing is shared, and such a document does not vote.
    """

    rows: Tensor
    similarities: Tensor


class WordIndex(nn.Module):
    """An inverted index: for each word the texts that have it, in order, and its TF-IDF there.

    Args:
        num_words: Vocabulary V.
        num_texts: Texts N.
        num_values: Words of the texts, each counted once a text.
    """

    def __init__(self, num_words: int, num_texts: int, num_values: int):
        super().__init__()
        self.num_texts = num_texts
        self.values = nn.Parameter(torch.zeros(num_values))
        self.register_buffer("offsets", torch.zeros(num_words + 1, dtype=torch.int32))
        self.register_buffer("texts", torch.zeros(num_values, dtype=torch.int32))

    def reset_parameters(self) -> None:
        """Hold nothing."""
        for tensor in (self.values, self.offsets, self.texts):
            init.zeros_(tensor)

    def similarities(self, documents: WordValues) -> Tensor:
        """Cosines with all texts, (B, N) in float32."""
        bias = self.values.new_zeros(self.num_texts)
        return word_products(documents, bias, self.offsets, self.texts, self.values)

    def similarity_blocks(self, documents: WordValues, block_size: int) -> Iterator[tuple[int, Tensor]]:
        """First text and cosines of a block: here of all texts, because the index is one of words."""
        yield 0, self.similarities(documents)

    @torch.no_grad()
    def store(self, texts: WordValues) -> None:
        """Hold these texts. Words of value 0, which change no similarity, are left out."""
        device, num_words, dtype = self.values.device, len(self.offsets) - 1, self.values.dtype
        read = texts.values > 0
        words, rows, values = (part[read].to(device) for part in (texts.words, texts.documents, texts.values))
        order = (words.long() * texts.num_documents + rows).argsort()
        self.num_texts = texts.num_documents
        self.values = nn.Parameter(values[order].to(dtype))
        self.texts = rows[order].int()
        self.offsets = nn.functional.pad(words.long().bincount(minlength=num_words).cumsum(0), (1, 0)).int()

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Hold the texts of some rows, (M,) in this order, each once at most; at -1 a text without words."""
        known = rows >= 0
        place = torch.full((self.num_texts,), -1, device=rows.device)
        place[rows[known]] = known.nonzero()[:, 0]
        texts = place[self.texts.long()]
        kept = texts >= 0
        self.store(WordValues(texts[kept], self._words[kept], self.values[kept], texts[kept], len(rows)))

    @torch.no_grad()
    def add(self, texts: WordValues) -> None:
        """Hold further texts behind those that are there."""
        rows, words, values = (part.to(self.values.device) for part in (texts.documents, texts.words, texts.values))
        rows = torch.cat([self.texts.long(), rows + self.num_texts])
        words, values = torch.cat([self._words, words]), torch.cat([self.values, values])
        self.store(WordValues(rows, words, values, rows, self.num_texts + texts.num_documents))

    @property
    def has_words(self) -> Tensor:
        """True for texts that have a word, (N,)."""
        return self.texts.long().bincount(minlength=self.num_texts) > 0

    @property
    def _words(self) -> Tensor:
        """The word of each value, (n,)."""
        return torch.arange(len(self.offsets) - 1, device=self.offsets.device).repeat_interleave(self.offsets.diff())

    def word_entries(self, words: WordValues) -> tuple[Tensor, Tensor, Tensor]:
        """Each pair of a document's word and a text that has it: place of the word (E,), row of the text, and what it adds to the cosine."""
        which, entries = index_entries(self.offsets, words.words)
        return which, self.texts[entries].long(), self.values[entries].float() * words.values[which]

    def check(self) -> None:
        """Refuse an index that points to what is not there.

        Raises:
            ValueError: If it does.
        """
        wrong = (self.texts < 0) | (self.texts >= self.num_texts)
        if bool(wrong.any()):
            raise ValueError(f"damaged: a word is in text {int(self.texts[wrong][0])}, but there are {self.num_texts}")
        offsets = self.offsets
        if int(offsets[0]) != 0 or bool((offsets.diff() < 0).any()) or int(offsets[-1]) != len(self.values):
            raise ValueError(f"damaged: the words do not have {len(self.values)} values together")


class VectorIndex(nn.Module):
    """A vector of length 1 for each text, (N, H)."""

    def __init__(self, hidden_size: int, num_texts: int):
        super().__init__()
        self.values = nn.Parameter(torch.zeros(num_texts, hidden_size))

    def reset_parameters(self) -> None:
        """Hold nothing."""
        init.zeros_(self.values)

    @property
    def num_texts(self) -> int:
        """Texts N."""
        return len(self.values)

    @property
    def has_words(self) -> Tensor:
        """True for texts that have a vector, (N,)."""
        return self.values.any(dim=1)

    def similarities(self, documents: DocumentVectors) -> Tensor:
        """Cosines with all texts, (B, N) in float32."""
        with torch.autocast(documents.values.device.type, enabled=False):
            return documents.values.float() @ self.values.float().t()

    def similarity_blocks(self, documents: DocumentVectors, block_size: int) -> Iterator[tuple[int, Tensor]]:
        """First text and cosines (B, ``block_size`` or fewer), block by block."""
        for start in range(0, self.num_texts, block_size):
            with torch.autocast(documents.values.device.type, enabled=False):
                yield start, documents.values.float() @ self.values[start : start + block_size].float().t()

    @torch.no_grad()
    def store(self, texts: DocumentVectors) -> None:
        """Hold these texts."""
        self.values = nn.Parameter(texts.values.to(self.values))

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Hold the texts of some rows, (M,) in this order; at -1 a text without tokens."""
        self.values = nn.Parameter(self.values[rows.clamp(min=0)] * (rows >= 0)[:, None])

    @torch.no_grad()
    def add(self, texts: DocumentVectors) -> None:
        """Hold further texts behind those that are there."""
        self.values = nn.Parameter(torch.cat([self.values, texts.values.to(self.values)]))

    def check(self) -> None:
        """Nothing in it can point to what is not there."""


def nearest_texts(
    index: WordIndex | VectorIndex,
    documents: WordValues | DocumentVectors,
    k: int,
    text_groups: Tensor | None = None,
    own_groups: Tensor | None = None,
    block_size: int = BLOCK_TEXTS,
) -> Neighbors:
    """Those of `ranked_texts` that are similar at all; row -100 and similarity 0 where no further text is."""
    rows, similarities = ranked_texts(index, documents, k, text_groups, own_groups, block_size)
    return Neighbors(rows.masked_fill(similarities == 0, -100), similarities)


def ranked_texts(
    index: WordIndex | VectorIndex,
    documents: WordValues | DocumentVectors,
    k: int,
    text_groups: Tensor | None = None,
    own_groups: Tensor | None = None,
    block_size: int = BLOCK_TEXTS,
) -> Neighbors:
    """The k most similar texts of each document, exactly, without the similarities of all at once where texts have vectors.

    Args:
        index: N texts.
        documents: B documents.
        k: Texts per document.
        text_groups: A group for each text, (N,): of its own row number alone, or one that equal texts share.
        own_groups: The group of each document, (B,), whose texts have similarity 0: it is one of them itself.
        block_size: Texts at a time.

    Returns:
        min(k, N) of each document.
    """
    best = rows = None
    for start, similarities in index.similarity_blocks(documents, block_size):
        if not similarities.shape[1]:
            continue
        similarities = similarities.clamp(min=0)
        if own_groups is not None:
            groups = text_groups[start : start + similarities.shape[1]]
            similarities = similarities.masked_fill(groups == own_groups[:, None], 0)
        values, places = exact_topk(similarities, k)
        if best is None:
            best, rows = values, places + start
            continue
        # Earlier blocks hold lower rows, so a tie by position is a tie by row.
        best, order = exact_topk(torch.cat([best, values], dim=1), k)
        rows = torch.cat([rows, places + start], dim=1).gather(1, order)
    if best is None:
        empty = index.values.new_zeros(documents.num_documents, 0)
        return Neighbors(empty.long(), empty)
    return Neighbors(rows, best)
