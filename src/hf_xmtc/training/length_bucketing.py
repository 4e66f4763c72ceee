"""Batches of documents of similar length (``train_sampling_strategy="group_by_length"``), which are not the default: see
`models/length_chunks.py` for what saves padding in random batches."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset
from torch.utils.data import Sampler

__all__ = ["LengthBucketedSampler", "document_lengths"]

# Batches sorted together: more of them waste less padding but make batches less random (transformers uses 50 as well).
BATCHES_PER_BUCKET = 50


def document_lengths(dataset: Dataset) -> np.ndarray:
    """Tokens of each tokenized document, (N,), counted without turning the token ids into Python lists."""
    tables = dataset.select_columns("input_ids").with_format("arrow").iter(batch_size=8_192)
    lengths = [pc.list_value_length(table.column(0)).to_numpy() for table in tables]
    return np.concatenate([np.empty(0, dtype=np.int64), *lengths])


class LengthBucketedSampler(Sampler[int]):
    """Visit every document once per epoch, neighbours having similar lengths.

    Unlike transformers' `LengthGroupedSampler` the order of an epoch follows from (seed, epoch) alone, so that a run resumed
    in the middle of an epoch sees the documents it has not seen yet, and all processes agree without talking.

    Args:
        lengths: Tokens of each document.
        batch_size: Documents per step over all processes.
        seed: Seed of the order.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int):
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.lengths)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(len(self.lengths))
        bucket = self.batch_size * BATCHES_PER_BUCKET
        for start in range(0, len(order), bucket):
            part = order[start : start + bucket]
            order[start : start + bucket] = part[np.argsort(-self.lengths[part], kind="stable")]
        # Whole batches are shuffled; a last, smaller one stays last, or it would shift the borders of all the others.
        whole = len(order) // self.batch_size
        batches = order[: whole * self.batch_size].reshape(whole, self.batch_size)
        yield from random.permutation(batches).ravel().tolist()
        yield from order[whole * self.batch_size :].tolist()
