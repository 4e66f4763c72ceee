"""Candidates as columns of a data set, and how good they are alone."""

from typing import TYPE_CHECKING

import numpy as np
from datasets import Dataset, DatasetDict, Features, List, Value, concatenate_datasets

from hf_xmtc.data.cache_keys import cache_key
from hf_xmtc.data.collator import CANDIDATES, VOTES
from hf_xmtc.data.filter_labels import drop_filtered_ids
from hf_xmtc.metrics import ranking_report

from .candidate_recall import candidate_recall
from .model_candidates import ModelCandidates

if TYPE_CHECKING:
    from .candidate_generator import CandidateGenerator

__all__ = ["REPORTED", "add_candidates"]

# Raised when the same texts would get other candidates, so that old caches are not reused.
_VERSION = 2
REPORTED = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "R@5")


def add_candidates(
    data: DatasetDict,
    tokenized: DatasetDict,
    generator: "CandidateGenerator | ModelCandidates",
    num_candidates: int,
    ignore_unseen: int | None = None,
) -> tuple[DatasetDict, dict[str, dict[str, float]]]:
    """Add the columns ``candidate_ids`` and ``candidate_votes`` to every split.

    A training text's own labels do not vote for its candidates, where the generator can leave them out. The columns are cached beside
    the data, so a run that is resumed and processes after the first find them there.

    Args:
        data: Splits with texts and labels.
        tokenized: The same, tokenized.
        generator: The generator of the training split's texts, for the model's labels.
        num_candidates: Candidates per document.
        ignore_unseen: Leave labels from this id on out of the metrics, as in those of the model.

    Returns:
        The tokenized splits with the columns; and for every split, training included, its recall
        (``candidate_recall``, what no model of these candidates can exceed) and the metrics of its own ranking
        (``generator_nDCG@5`` …).
    """
    digest = generator.digest()
    columns, report = {}, {}
    for split, rows in data.items():
        computed = _candidates_of(generator, digest, rows, num_candidates, is_training=split == "train")
        columns[split] = concatenate_datasets([tokenized[split], computed], axis=1)
        labels = rows["labels"][:]
        if any(labels):
            ids = drop_filtered_ids(np.asarray(computed.with_format("numpy")[CANDIDATES][:]), rows)
            ranking = ranking_report(ids, labels, ks=(1, 3, 5), ignore_unseen=ignore_unseen)
            report[split] = {
                "candidate_recall": candidate_recall(ids, labels, ignore_unseen),
                "num_candidates": ids.shape[1],
                **{f"generator_{name}": ranking[name] for name in REPORTED},
            }
    return DatasetDict(columns), report


def _candidates_of(
    generator: "CandidateGenerator | ModelCandidates", digest: str, rows: Dataset, num_candidates: int, is_training: bool
) -> Dataset:
    """The columns alone, computed or from their cache."""

    def find(texts: list[str], places: list[int]) -> dict[str, np.ndarray]:
        ids, votes = generator.candidates(texts, num_candidates, training_rows=places if is_training else None)
        return {CANDIDATES: ids.astype(np.int32), VOTES: votes}

    return rows.map(
        find,
        input_columns="text",
        with_indices=True,
        batched=True,
        remove_columns=rows.column_names,
        features=Features({CANDIDATES: List(Value("int32")), VOTES: List(Value("float32"))}),
        new_fingerprint=cache_key([_VERSION, digest, rows._fingerprint, num_candidates, is_training]),
        desc="Candidates",
    )
