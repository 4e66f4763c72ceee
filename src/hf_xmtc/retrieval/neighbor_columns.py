"""Nearest training texts as columns of a data set, and how good their labels are alone."""

import hashlib
import logging
from collections.abc import Callable

import numpy as np
import torch
from datasets import Dataset, DatasetDict, Features, List, Value, concatenate_datasets
from torch import Tensor

from hf_xmtc.data.cache_keys import cache_key
from hf_xmtc.data.collator import NEIGHBORS, SIMILARITIES
from hf_xmtc.data.filter_labels import drop_filtered_ids, most_filtered
from hf_xmtc.metrics import ranking_report
from hf_xmtc.models.teacher_knowledge import TeacherKnowledge
from hf_xmtc.models.text_index import DocumentVectors, Neighbors
from hf_xmtc.models.tf_idf import WordValues

from .candidate_columns import REPORTED
from .candidate_recall import candidate_recall
from .neighbor_search import faiss_lists, search_neighbors, searches_approximately

__all__ = ["NEAR_DUPLICATE", "STORED_NEIGHBORS", "add_neighbors", "teacher_report"]

logger = logging.getLogger(__name__)

# Raised when the same texts would get other neighbours, so that old caches are not reused.
_VERSION = 1
# Neighbours in the columns; how many of them teach is chosen when the model runs.
STORED_NEIGHBORS = 20
# Similarity from which a neighbour counts as nearly the same text.
NEAR_DUPLICATE = 0.8
_BATCH, _SEARCHED = 1_000, 10_000


def add_neighbors(
    tokenized: DatasetDict,
    knowledge: TeacherKnowledge,
    encode: Callable[[list[list[int]]], WordValues | DocumentVectors],
    source: str = "neighbors",
    seed: int = 0,
) -> DatasetDict:
    """Add the columns ``neighbor_ids`` and ``neighbor_similarities`` to every split.

    The texts that are searched are those of the training split alone. A training text is not its own neighbour, nor is one of the same
    tokens, which would give its labels away; texts of other splits have such neighbours. The columns are cached beside the data.

    Args:
        tokenized: Splits with ``input_ids``; the rows of ``train`` are those that ``knowledge`` holds.
        knowledge: The training texts.
        encode: From texts as token ids to what ``knowledge.vectors_of`` gives.
        source: ``neighbors``; or a control: ``shuffled``, with which each text has the neighbours of another one, or ``gold``, with which the
            only neighbour of a training text is itself, so that a model learns to copy labels.
        seed: Of the shuffled order.

    Returns:
        The splits with the columns.
    """
    digest = hashlib.blake2b(knowledge.config.retrieval.encode(), digest_size=16)
    for name, tensor in sorted(knowledge.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    count = max(STORED_NEIGHBORS, knowledge.config.num_neighbors)
    columns = {}
    for split, rows in tokenized.items():
        is_training = split == "train"
        key = cache_key([_VERSION, digest.hexdigest(), rows._fingerprint, count, is_training])
        found = _neighbors_of(rows, knowledge, encode, count, is_training, key)
        if source == "shuffled":
            found = _shuffled(found, seed, is_training)
        if source == "gold" and is_training:
            found = Dataset.from_dict(
                {NEIGHBORS: [[row] for row in range(len(rows))], SIMILARITIES: [[1.0]] * len(rows)}, _FEATURES
            )
        columns[split] = concatenate_datasets([rows, found], axis=1)
    return DatasetDict(columns)


_FEATURES = Features({NEIGHBORS: List(Value("int32")), SIMILARITIES: List(Value("float32"))})


def _neighbors_of(
    rows: Dataset,
    knowledge: TeacherKnowledge,
    encode: Callable[[list[list[int]]], WordValues | DocumentVectors],
    count: int,
    is_training: bool,
    key: str,
) -> Dataset:
    """The columns alone, computed or from their cache."""
    groups = knowledge.text_hashes if is_training else None  # of a training text, itself among them

    lists = None  # made once, for all batches, and not at all where the columns are in the cache

    def find(texts: list[list[int]], places: list[int]) -> dict[str, list[np.ndarray]]:
        nonlocal lists
        if lists is None and searches_approximately(knowledge.texts):
            lists = faiss_lists(knowledge.texts)
        own = None if groups is None else groups[torch.tensor(places, device=groups.device)]
        found = search_neighbors(knowledge.texts, encode(texts), count, groups, own, lists)
        return _as_columns(found)

    return rows.map(
        find,
        input_columns="input_ids",
        with_indices=True,
        batched=True,
        batch_size=_SEARCHED,
        remove_columns=rows.column_names,
        features=_FEATURES,
        new_fingerprint=key,
        desc="Neighbours",
    )


def _as_columns(found: Neighbors) -> dict[str, list[np.ndarray]]:
    counts = (found.rows >= 0).sum(dim=1).tolist()
    parts = (found.rows.int().numpy(), found.similarities.numpy())
    ids, similarities = ([row[:count] for row, count in zip(part, counts, strict=True)] for part in parts)
    return {NEIGHBORS: ids, SIMILARITIES: similarities}


def _shuffled(columns: Dataset, seed: int, is_training: bool) -> Dataset:
    """Each row with the neighbours of another one, without itself."""
    order = np.random.default_rng(seed).permutation(len(columns))
    others = np.empty_like(order)
    others[order] = np.roll(order, 1)
    moved = columns.select(others).with_format(None)
    if not is_training:
        return moved.flatten_indices()

    def without_itself(batch: dict[str, list], places: list[int]) -> dict[str, list]:
        found: dict[str, list] = {NEIGHBORS: [], SIMILARITIES: []}
        for place, ids, similarities in zip(places, batch[NEIGHBORS], batch[SIMILARITIES], strict=True):
            pairs = [pair for pair in zip(ids, similarities, strict=True) if pair[0] != place]
            found[NEIGHBORS].append([row for row, _ in pairs])
            found[SIMILARITIES].append([similarity for _, similarity in pairs])
        return found

    return moved.map(without_itself, batched=True, with_indices=True, features=_FEATURES, desc="Neighbours of others")


def teacher_report(
    rows: Dataset, knowledge: TeacherKnowledge, num_labels: int, ignore_unseen: bool = False
) -> dict[str, float]:
    """How much the teachers of a split's documents say of their labels.

    Args:
        rows: A split from `add_neighbors` with ``labels``.
        knowledge: The training texts.
        num_labels: Labels L of the model.
        ignore_unseen: Leave labels that training does not have out of the metrics.

    Returns:
        ``teacher_recall``: share of a document's labels in its teacher; ``teacher_size``: labels and parents of a teacher, on average;
        ``near_duplicates``: share of the documents with a neighbour of similarity `NEAR_DUPLICATE` or more; and the metrics of the
        neighbours' votes (``neighbors_nDCG@5`` …), which a model has to exceed. Empty where no document has labels.
    """
    labels = rows["labels"][:]
    if not any(labels):
        return {}
    teachers, votes, nearest, num_ranked = [], [], [], 5 + most_filtered(rows)
    for batch in rows.select_columns([NEIGHBORS, SIMILARITIES]).with_format(None).iter(_BATCH):
        nearest += [max(similarities, default=0.0) for similarities in batch[SIMILARITIES]]
        found = (_padded(batch[NEIGHBORS], -100, torch.long), _padded(batch[SIMILARITIES], 0.0, torch.float32))
        found = [part.to(knowledge.node_ids.device) for part in found]
        teachers.append(knowledge.teacher_from(*found).node_ids.cpu().numpy())
        votes.append(knowledge.teacher_from(*found, with_parents=False).node_ids[:, :num_ranked].cpu().numpy())
    node_ids, ranking = (drop_filtered_ids(_joined(ids), rows) for ids in (teachers, votes))
    unseen = num_labels if ignore_unseen else None
    metrics = ranking_report(ranking, labels, ks=(1, 3, 5), ignore_unseen=unseen)
    return {
        # Parents that are no labels have ids that labels of evaluation data may have too.
        "teacher_recall": candidate_recall(np.where(node_ids < num_labels, node_ids, -100), labels, unseen),
        "teacher_size": float((node_ids >= 0).sum(axis=1).mean()),
        "near_duplicates": float((np.array(nearest) >= NEAR_DUPLICATE).mean()),
        **{f"neighbors_{name}": metrics[name] for name in REPORTED},
    }


def _padded(rows: list[list], padding: float, dtype: torch.dtype) -> Tensor:
    rows = [torch.tensor(row, dtype=dtype) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Ids (N, K), padded with -100."""
    width = max(5, *(part.shape[1] for part in parts))
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=-100) for part in parts])
