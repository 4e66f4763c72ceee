"""Training of `NeighborsForXMTC`: it stores the training documents and the labels' texts, and chooses how neighbours vote."""

import logging
import time
from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from hf_xmtc.data.filter_labels import drop_filtered_ids, most_filtered
from hf_xmtc.metrics import ndcg_at_k
from hf_xmtc.models.configuration_neighbors import VOTE_FIELDS
from hf_xmtc.models.label_topk import exact_topk
from hf_xmtc.models.modeling_neighbors import NeighborsForXMTC
from hf_xmtc.models.neighbor_head import Neighbors
from hf_xmtc.models.text_index import DocumentVectors
from hf_xmtc.models.tf_idf import WordValues

from .word_counts import count_words

__all__ = ["VOTE_GRID", "choose_vote", "store_neighbors"]

logger = logging.getLogger(__name__)

# Words in a larger share of the documents say nothing and cost most of the time; with few documents the share is no estimate.
MAX_DOCUMENT_SHARE, FEW_DOCUMENTS = 0.2, 100
# Values that are tried. Weights of labels are chosen after the first two, which they hardly move.
VOTE_GRID = {
    "num_neighbors": (10, 20, 50, 100, 200),
    "similarity_power": (1.0, 2.0, 4.0, 8.0, 16.0),
    "label_text_weight": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7),
    "label_centroid_weight": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7),
}
# Numbers of a block of documents against all stored texts or all labels.
BLOCK_NUMBERS = 2**24


@torch.no_grad()
def store_neighbors(
    model: NeighborsForXMTC, dataset: Dataset, label_texts: list[list[int]], unread_ids: Collection[int] = ()
) -> dict[str, float]:
    """Have a model hold the training documents and the labels' texts.

    Args:
        model: A model of the right vocabulary and label space; what it holds is replaced.
        dataset: Documents with ``input_ids`` and ``labels``.
        label_texts: Token ids of the text of each label, (L,); empty where a label has none.
        unread_ids: Ids that are no words, such as those of unknown and padding tokens; without effect where an encoder reads.

    Returns:
        What training took: ``seconds``, ``documents_per_second``, and the ``parameters`` of the model.

    Raises:
        ValueError: If there is not one text for each label, or nothing to find neighbours by.
    """
    if len(label_texts) != model.config.num_labels:
        raise ValueError(
            f"There are {len(label_texts)} label texts, but the model has {model.config.num_labels} labels. Give one for each, empty "
            "where there is none."
        )
    started = time.monotonic()
    if hasattr(model, "words"):
        count = len(dataset)
        most = MAX_DOCUMENT_SHARE * count if count > FEW_DOCUMENTS else count
        count_words(model.words, dataset, unread_ids, most)
    rows = dataset.select_columns(["input_ids", "labels"]).with_format(None)
    model.store(rows["input_ids"][:], rows["labels"][:], label_texts)
    if not bool((model.label_head.documents.values != 0).any()):
        raise ValueError(
            f"None of the {len(dataset)} training documents has a word of the vocabulary that others lack, so none is nearer than "
            "others. Were the right columns read?"
        )
    seconds = time.monotonic() - started
    return {
        "seconds": round(seconds, 1),
        "documents_per_second": round(len(dataset) / seconds, 1),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def choose_vote(model: NeighborsForXMTC, validation: Dataset, fields: Iterable[str]) -> dict[str, Any]:
    """Choose settings of the vote that are best on validation, by nDCG@5; of equal ones the first of `VOTE_GRID`.

    Of equal ones a ``label_text_weight`` above 0 goes before 0, with which labels that are added later cannot be found by their names.

    Args:
        model: After `store_neighbors`; its config takes the choice.
        validation: Documents with ``input_ids`` and ``labels``, none of them stored.
        fields: Names of the settings; the others stay as they are.

    Returns:
        The chosen settings.
    """
    config, fields, chosen = model.config, set(fields), {}
    label_fields = VOTE_FIELDS[2:] if model.label_head.centroids is not None else VOTE_FIELDS[2:3]
    for name in fields.intersection(label_fields):
        setattr(config, name, 0.0)
    hidden = model.encode_texts(validation["input_ids"][:])
    for names in (VOTE_FIELDS[:2], label_fields):
        if fields.isdisjoint(names):
            continue
        tried = [VOTE_GRID[name] if name in fields else (getattr(config, name),) for name in names]
        settings = [dict(zip(names, values, strict=True)) for values in product(*tried)]
        settings = [setting for setting in settings if sum(setting.get(name, 0.0) for name in label_fields) <= 1]
        by_setting = _ndcg_by_setting(model, hidden, validation, settings)
        best = max(range(len(settings)), key=lambda i: (by_setting[i], settings[i].get("label_text_weight", 0) > 0))
        values = ", ".join(f"{name} {value:g}" for name, value in settings[best].items())
        logger.info(
            f"nDCG@5 on validation: {100 * by_setting[best]:.2f} with {values}, {100 * min(by_setting):.2f} with the worst of {len(settings)}."
        )
        _apply(model, settings[best])
        chosen |= settings[best]
    return {name: value for name, value in chosen.items() if name in fields}


def _apply(model: NeighborsForXMTC, setting: dict[str, Any]) -> None:
    for name, value in setting.items():
        setattr(model.config, name, value)


@torch.no_grad()
def _ndcg_by_setting(
    model: NeighborsForXMTC, hidden: WordValues | DocumentVectors, validation: Dataset, settings: list[dict[str, Any]]
) -> list[float]:
    """nDCG@5 with each setting; neighbours are searched once."""
    head, positives = model.label_head, validation["labels"][:]
    num_ranked = min(5 + most_filtered(validation), model.config.num_labels)
    # In one piece: many small arrays that stay would keep the memory of the large ones between them from being used again.
    rankings = np.empty((len(settings), len(positives), num_ranked), dtype=np.int64)
    batch_size = max(1, min(256, BLOCK_NUMBERS // head.numbers_per_document))
    most = max(setting.get("num_neighbors", model.config.num_neighbors) for setting in settings)
    for start in range(0, len(positives), batch_size):
        stop = min(start + batch_size, len(positives))
        batch = hidden.of_documents(start, stop).to(model.device)
        neighbors, similarities = head.neighbors(batch, most), head.label_similarities(batch, all_kinds=True)
        for setting, ranking in zip(settings, rankings, strict=True):
            _apply(model, setting)
            nearest = Neighbors(*(part[:, : model.config.num_neighbors] for part in neighbors))
            ranking[start:stop] = exact_topk(head.mix(nearest, similarities), num_ranked)[1].cpu().numpy()
    return [ndcg_at_k(drop_filtered_ids(ranking, validation), positives, 5) for ranking in rankings]
