"""The order in which training visits documents, which depends on nothing but seed and epoch."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset
from torch.utils.data import Sampler

__all__ = ["LengthBucketedSampler", "ShuffledSampler", "document_lengths", "places_of"]

# Batches sorted together: more of them waste less padding but make batches less random (transformers uses 50 as well).
BATCHES_PER_BUCKET = 50


def document_lengths(dataset: Dataset) -> np.ndarray:
    """Tokens of each tokenized document, (N,), counted without turning the token ids into Python lists."""
    tables = dataset.select_columns("input_ids").with_format("arrow").iter(batch_size=8_192)
    lengths = [pc.list_value_length(table.column(0)).to_numpy() for table in tables]
    return np.concatenate([np.empty(0, dtype=np.int64), *lengths])


def places_of(documents: Sequence[list[int]], dataset: Dataset) -> list[int]:
    """Rows of a tokenized data set that hold one of the documents, ascending; of equal documents all rows."""
    lengths = document_lengths(dataset)
    rows = np.flatnonzero(np.isin(lengths, [len(document) for document in documents]))
    searched = {tuple(document) for document in documents}
    chosen = dataset.select_columns("input_ids").with_format(None).select(rows)
    return [int(row) for row, entry in zip(rows, chosen, strict=True) if tuple(entry["input_ids"]) in searched]


class ShuffledSampler(Sampler[int]):
    """Visit every document once per epoch, in a random order.

    Unlike torch's `RandomSampler` the order of an epoch follows from (seed, epoch) alone, so that a run resumed in the middle of an
    epoch sees the documents it has not seen yet, and all processes agree without talking.

    Args:
        num_documents: Documents N.
        seed: Seed of the order.
    """

    def __init__(self, num_documents: int, seed: int):
        self.num_documents, self.seed, self.epoch = num_documents, seed, 0

    def __len__(self) -> int:
        return self.num_documents

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        yield from self.order(np.random.default_rng((self.seed, self.epoch))).tolist()

    def order(self, random: np.random.Generator) -> np.ndarray:
        """The documents of an epoch, (N,)."""
        return random.permutation(self.num_documents)


class LengthBucketedSampler(ShuffledSampler):
    """Visit every document once per epoch, neighbours having similar lengths (``train_sampling_strategy="group_by_length"``).

    Such batches have little padding and other labels than the data; see `models/length_chunks.py` for what saves padding in random
    batches.

    Args:
        lengths: Tokens of each document.
        batch_size: Documents per step over all processes.
        seed: Seed of the order.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int):
        super().__init__(len(lengths), seed)
        self.lengths, self.batch_size = np.asarray(lengths), batch_size

    def order(self, random: np.random.Generator) -> np.ndarray:
        order = super().order(random)
        bucket = self.batch_size * BATCHES_PER_BUCKET
        for start in range(0, len(order), bucket):
            part = order[start : start + bucket]
            order[start : start + bucket] = part[np.argsort(-self.lengths[part], kind="stable")]
        # Whole batches are shuffled; a last, smaller one stays last, or it would shift the borders of all the others.
        whole = len(order) // self.batch_size * self.batch_size
        batches = random.permutation(order[:whole].reshape(-1, self.batch_size))
        return np.concatenate([batches.ravel(), order[whole:]])
