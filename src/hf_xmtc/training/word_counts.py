"""Documents of a tokenized data set in batches, and how many of them have each word."""

from collections.abc import Collection, Iterator

import torch
from datasets import Dataset
from torch import Tensor

from hf_xmtc.models.aligned_tokens import pad_documents
from hf_xmtc.models.tf_idf import TfIdf

__all__ = ["count_words", "document_batches"]

# Documents whose words are counted together.
BATCH_SIZE = 1_000


def document_batches(dataset: Dataset, batch_size: int) -> Iterator[tuple[Tensor, Tensor, list[list[int]]]]:
    """Token ids (B, T), mask (B, T) and label ids of the documents, in order."""
    for batch in dataset.select_columns(["input_ids", "labels"]).with_format(None).iter(batch_size):
        yield *pad_documents(batch["input_ids"]), batch["labels"]


@torch.no_grad()
def count_words(words: TfIdf, dataset: Dataset, unread_ids: Collection[int], most_documents: float = float("inf")) -> None:
    """Set idf = ln((1 + N) / (1 + documents with the word)) + 1, and 0 of what is no word or is in more than ``most_documents``."""
    frequencies, device = torch.zeros(len(words.idf), dtype=torch.long), words.idf.device
    for input_ids, mask, _ in document_batches(dataset, BATCH_SIZE):
        found = words(input_ids.to(device), mask.to(device)).words
        frequencies += found.bincount(minlength=len(frequencies)).cpu()
    idf = ((1 + len(dataset)) / (1 + frequencies.double())).log() + 1
    idf[frequencies > most_documents] = 0.0
    idf[list(unread_ids)] = 0.0
    words.idf.copy_(idf)
