"""`encode_texts`: words or vectors of any number of texts, batch by batch."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.utils import logging

from .aligned_tokens import pad_documents
from .text_index import DocumentVectors
from .tf_idf import WordValues

__all__ = ["encode_texts"]

# Documents that are read together: of words, and by an encoder.
WORD_BATCH, ENCODER_BATCH = 1_000, 32
_SMALL = (torch.int32, torch.int32, torch.float32, torch.int32)


@torch.no_grad()
def encode_texts(
    encode: Callable[[Tensor, Tensor], WordValues | DocumentVectors],
    texts: Sequence[list[int]],
    by_words: bool,
    device: str | torch.device,
) -> WordValues | DocumentVectors:
    """What ``encode`` gives for texts as token ids, on the CPU.

    Args:
        encode: From token ids and mask, each (B, T), to words or vectors.
        texts: Token ids of N texts.
        by_words: It gives words.
        device: Where it computes.
    """

    def read(batch: list[list[int]]) -> WordValues | DocumentVectors:
        return encode(*(part.to(device) for part in pad_documents(batch))).to("cpu")

    if by_words:
        parts = [[torch.zeros(0, dtype=kind) for kind in _SMALL]]
        for start in range(0, len(texts), WORD_BATCH):
            words = read(texts[start : start + WORD_BATCH])
            kept = words.values > 0  # words of idf 0 would take half of the memory
            parts.append([part[kept].to(kind) for part, kind in zip(words[:4], _SMALL, strict=True)])
            parts[-1][0] += start
        return WordValues(*map(torch.cat, zip(*parts, strict=True)), len(texts))
    if not len(texts):
        return read([[0]]).of_documents(0, 0)
    # Texts of equal lengths together.
    order = np.argsort([len(text) for text in texts], kind="stable")
    starts = logging.tqdm(range(0, len(texts), ENCODER_BATCH), desc="Encoding", unit="batch", leave=False)
    parts = [read([texts[row] for row in order[start : start + ENCODER_BATCH]]).values.float() for start in starts]
    return DocumentVectors(torch.cat(parts)[torch.from_numpy(order).argsort()])
