"""The nearest training texts of many texts: exactly, block by block, or with faiss where there are very many."""

import logging
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hf_xmtc.models.text_index import DocumentVectors, Neighbors, VectorIndex, WordIndex, nearest_texts
from hf_xmtc.models.tf_idf import WordValues

__all__ = ["APPROXIMATE_FROM", "approximate_neighbors", "faiss_lists", "search_neighbors", "searches_approximately"]

logger = logging.getLogger(__name__)

# Numbers of a block of documents against a block of stored texts.
BLOCK_NUMBERS = 2**26
# Stored texts from which faiss searches on a CPU. All pairs of 1.2 million texts with 300 numbers are 0.9 · 10^15 operations: hours on some cores
# (scripts/benchmarks/neighbor_search.py).
APPROXIMATE_FROM = 500_000
# Of about 4 · √N lists of texts those that are searched.
PROBED_LISTS = 64
# Further texts that are looked at in case some of the nearest are the document itself or its like.
SPARE_TEXTS = 20


@torch.no_grad()
def search_neighbors(
    index: WordIndex | VectorIndex,
    documents: WordValues | DocumentVectors,
    k: int,
    text_groups: Tensor | None = None,
    own_groups: Tensor | None = None,
    lists: Any = None,
) -> Neighbors:
    """The k nearest stored texts of each document; the memory is that of one block, whatever the numbers of either.

    Args:
        index: N texts.
        documents: M documents, on any device.
        k: Texts per document.
        text_groups: A group for each text, (N,): of its row number alone, or one that equal texts share.
        own_groups: The group of each document, (M,), whose texts are not its neighbours: it is one of them itself. Whether a text is the
            document is never told from its similarity.
        lists: From `faiss_lists`, for many searches of an index that `searches_approximately`; made anew where it is left out.

    Returns:
        Rows and similarities, (M, min(k, N)), on the CPU; row -100 and similarity 0 where no further text has one above 0.
    """
    device = index.values.device
    if _is_large(index):
        if searches_approximately(index):
            return approximate_neighbors(index, documents, k, text_groups, own_groups, lists)
        logger.warning(
            f"The nearest of {index.num_texts:,} texts are found exactly, which may take hours on a CPU. Nearly the same are found much faster "
            "with faiss: pip install 'hf_xmtc[retrieval]'."
        )
    block_texts = min(index.num_texts, 2**17) if isinstance(index, VectorIndex) else index.num_texts
    step = max(1, BLOCK_NUMBERS // max(1, block_texts))
    parts = []
    for start in range(0, documents.num_documents, step):
        stop = min(start + step, documents.num_documents)
        own = None if own_groups is None else own_groups[start:stop].to(device)
        block = documents.of_documents(start, stop).to(device)
        parts.append(nearest_texts(index, block, k, text_groups, own, max(1, block_texts)))
    return Neighbors(*(torch.cat(part).cpu() for part in zip(*parts, strict=True)))


def searches_approximately(index: WordIndex | VectorIndex) -> bool:
    """True for vectors of very many texts on a CPU, where faiss is there."""
    return _is_large(index) and find_spec("faiss") is not None


def _is_large(index: WordIndex | VectorIndex) -> bool:
    return isinstance(index, VectorIndex) and index.num_texts >= APPROXIMATE_FROM and index.values.device.type == "cpu"


def faiss_lists(index: VectorIndex) -> Any:
    """The vectors of an index as an index of faiss: in about 4 · √N lists, which takes longer than thousands of searches."""
    import faiss  # not at the top: exact search does without

    texts = index.values.detach().float().cpu().numpy()
    num_lists = max(1, min(int(4 * len(texts) ** 0.5), len(texts) // 39))  # faiss wants 39 texts a list to learn from
    lists = faiss.index_factory(texts.shape[1], f"IVF{num_lists},Flat", faiss.METRIC_INNER_PRODUCT)
    lists.nprobe = PROBED_LISTS
    lists.train(texts[np.random.default_rng(0).permutation(len(texts))[: 64 * num_lists]])
    lists.add(texts)
    return lists


def approximate_neighbors(
    index: VectorIndex,
    documents: DocumentVectors,
    k: int,
    text_groups: Tensor | None = None,
    own_groups: Tensor | None = None,
    lists: Any = None,
) -> Neighbors:
    """The same with faiss, which compares a document only with texts of the lists that are nearest to it, and so misses some.

    A document that more than `SPARE_TEXTS` texts equal may get fewer than k. Arguments as for `search_neighbors`.
    """
    lists = faiss_lists(index) if lists is None else lists
    spare = 0 if own_groups is None else SPARE_TEXTS
    found, rows = lists.search(documents.values.float().cpu().numpy(), min(k + spare, index.num_texts))
    similarities, rows = torch.from_numpy(found), torch.from_numpy(rows)  # row -1 where the lists have no further text
    similarities = similarities.masked_fill(rows < 0, 0)
    if own_groups is not None:
        similarities = similarities.masked_fill(text_groups.cpu()[rows.clamp(min=0)] == own_groups.cpu()[:, None], 0)
    best, order = similarities.clamp(min=0).sort(dim=1, descending=True, stable=True)
    return Neighbors(rows.gather(1, order)[:, :k].masked_fill(best[:, :k] <= 0, -100), best[:, :k])
