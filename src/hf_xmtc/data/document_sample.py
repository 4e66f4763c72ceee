"""Hashes of texts, and fair samples of documents by them."""

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from datasets import Dataset

__all__ = ["array_hashes", "sample_documents", "sample_rows", "text_hashes"]

_BATCH_ROWS = 8_192
# Another hash than that by which validation documents are carved out of training: of those the smallest hashes are gone already.
_SALT = b"sample"
# The golden ratio of 2^64: its multiples lie evenly however many there are.
_STEP = np.uint64(0x9E3779B97F4A7C15)


def text_hashes(texts: Iterable[str], salt: bytes = b"") -> np.ndarray:
    """A number for each text, uint64 (N,), evenly distributed and the same everywhere and always.

    Args:
        texts: The texts.
        salt: At most 16 bytes; another salt gives numbers that have nothing to do with the first.
    """
    return _hashes((text.encode() for text in texts), salt)


def array_hashes(texts: pa.Array) -> np.ndarray:
    """`text_hashes` of an Arrow array of strings or of their UTF-8 bytes, none of them missing."""
    return _hashes(texts.cast(pa.binary()).to_pylist())


def _hashes(contents: Iterable[bytes], salt: bytes = b"") -> np.ndarray:
    digests = b"".join(hashlib.blake2b(content, digest_size=8, salt=salt).digest() for content in contents)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def sample_documents(dataset: Dataset, limit: int | None) -> Dataset:
    """A fair sample of documents, in the order of the data.

    It follows from the texts alone: the same for every seed and run, and every smaller sample lies inside a larger one. A text that
    stands there several times is taken in proportion.

    Args:
        dataset: A split with the column ``text``.
        limit: Documents of the sample; None, or at least as many as there are, for all.

    Raises:
        ValueError: If there are no texts, or ``limit`` is below 1.
    """
    if limit is None or limit >= max(len(dataset), 1):
        return dataset
    return dataset.select(sample_rows(dataset, limit))


def sample_rows(dataset: Dataset, limit: int) -> np.ndarray:
    """Rows of the documents that `sample_documents` takes, ascending, (min(limit, N),)."""
    if limit < 1:
        raise ValueError(f"limit={limit}, but a sample has at least one document. Leave it out to take all.")
    if "text" not in dataset.column_names:
        raise ValueError(
            f"The data have the columns {dataset.column_names} and no 'text', by which documents are sampled. Take the sample before "
            "tokenize_dataset."
        )
    tables = dataset.select_columns("text").with_format("arrow").iter(batch_size=_BATCH_ROWS)
    hashes = text_hashes((text or "" for table in tables for text in table.column(0).to_pylist()), _SALT)
    order = np.argsort(hashes, kind="stable")
    ranked, places = hashes[order], np.arange(len(order))
    is_first = np.append(True, ranked[1:] != ranked[:-1])[: len(order)]
    # How often the same text stood there before; each time its place moves on, or it would be taken every time or never.
    repeats = places - np.maximum.accumulate(np.where(is_first, places, 0))
    hashes[order] = ranked + repeats.astype(np.uint64) * _STEP  # modulo 2^64
    return np.sort(np.argsort(hashes, kind="stable")[:limit])
