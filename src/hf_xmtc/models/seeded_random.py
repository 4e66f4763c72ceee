"""Random numbers of a document: a function of one seed per document and visit, so of no worker, process or neighbour in the batch."""

import torch
from torch import Tensor

__all__ = ["mix_seeds", "random_integers", "uniform_numbers"]

# SplitMix64 (Steele, Lea and Flood, 2014), in the signed integers that torch has.
_UNSIGNED_STEP = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


def mix_seeds(seeds: Tensor, number: int) -> Tensor:
    """Seeds (B,) int64 made of seeds and a number, such as that of the epoch."""
    return _scrambled(_scrambled(seeds) + _signed((number + 1) * _UNSIGNED_STEP))


def uniform_numbers(seeds: Tensor, count: int, stream: int = 0) -> Tensor:
    """Numbers in [0, 1), (B, count), that depend only on the seeds (B,) and the stream."""
    return _shifted(_numbers(seeds, count, stream), 40).float() / 2**24  # as many bits as a float32 has


def random_integers(seeds: Tensor, count: int, below: Tensor, stream: int = 0) -> Tensor:
    """Integers from 0 up to a number, (B, count) int64, that depend only on the seeds (B,) and the stream.

    Exact for numbers that a float32 cannot count up to, such as the positives of millions of documents.
    """
    return _shifted(_numbers(seeds, count, stream), 1) % below


def _numbers(seeds: Tensor, count: int, stream: int) -> Tensor:
    places = torch.arange(1, count + 1, device=seeds.device)
    return _scrambled(mix_seeds(seeds, stream)[:, None] + places * _signed(_UNSIGNED_STEP))


def _scrambled(numbers: Tensor) -> Tensor:
    for shift, factor in _FACTORS:
        numbers = (numbers ^ _shifted(numbers, shift)) * factor
    return numbers ^ _shifted(numbers, 31)


def _signed(number: int) -> int:
    """The signed integer of 64 bits that a number wraps around to."""
    return (number + 2**63) % 2**64 - 2**63


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Unsigned shift to the right."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
