"""Candidates as columns of a data set, and what the generator and the model are worth alone."""

import numpy as np
from datasets import Dataset, DatasetDict, Features, List, Value, concatenate_datasets

from hf_xmtc.data import LabelInfo
from hf_xmtc.data.cache_keys import cache_key
from hf_xmtc.metrics import ranking_report
from hf_xmtc.retrieval import CandidateGenerator, candidate_recall
from hf_xmtc.training import XMTCTrainer
from hf_xmtc.training.candidates import CANDIDATES, VOTES, tune_retrieval_weight

__all__ = ["add_candidates", "mix_with_generator"]

# Raised when the same texts would get other candidates, so that old caches are not reused.
_VERSION = 1
REPORTED = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "R@5")


def add_candidates(
    data: DatasetDict, tokenized: DatasetDict, info: LabelInfo, num_candidates: int, ignore_unseen: int | None = None
) -> tuple[DatasetDict, CandidateGenerator, dict[str, dict[str, float]]]:
    """Add the columns ``candidate_ids`` and ``candidate_votes`` to every split, from the labels of the nearest training texts.

    A training text's own labels do not vote for its candidates. The columns are cached beside the data, so a run that is resumed
    and processes after the first find them there.

    Args:
        data: Splits with texts and labels.
        tokenized: The same, tokenized.
        info: The model's labels.
        num_candidates: Candidates per document.
        ignore_unseen: Leave labels from this id on out of the metrics, as in those of the model.

    Returns:
        The tokenized splits with the columns; the generator; and for every split, training included, its recall
        (``candidate_recall``, what no model of these candidates can exceed) and the metrics of its own ranking
        (``generator_nDCG@5`` …).
    """
    generator = CandidateGenerator.fit(data["train"]["text"], data["train"]["labels"], info.num_labels)
    generator.labels_digest = info.names.digest()
    digest = generator.digest()
    columns, report = {}, {}
    for split, rows in data.items():
        found = _found(generator, digest, rows, num_candidates, is_training=split == "train")
        columns[split] = concatenate_datasets([tokenized[split], found], axis=1)
        labels = rows["labels"][:]
        if any(labels):
            ids = np.asarray(found.with_format("numpy")[CANDIDATES][:])
            ranking = ranking_report(ids, labels, ks=(1, 3, 5), ignore_unseen=ignore_unseen)
            own = {f"generator_{name}": ranking[name] for name in REPORTED}
            report[split] = {
                "candidate_recall": candidate_recall(ids, labels, ignore_unseen),
                "num_candidates": ids.shape[1],
                **own,
            }
    return DatasetDict(columns), generator, report


def _found(generator: CandidateGenerator, digest: str, rows: Dataset, num_candidates: int, is_training: bool) -> Dataset:
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


def mix_with_generator(trainer: XMTCTrainer, tokenized: DatasetDict) -> tuple[str, dict[str, dict[str, float]]]:
    """Tune the generator's share in the scores on the validation split.

    Returns:
        What was found, in a sentence; and for every evaluated split the metrics of the model's own scores (``model_nDCG@5`` …).
    """
    config = trainer.model.config
    by_share, of_validation = tune_retrieval_weight(trainer, tokenized["validation"])
    found, share = {"validation": of_validation}, config.retrieval_weight
    if "test" in tokenized:
        config.retrieval_weight = 0.0
        found["test"] = trainer.predict(tokenized["test"]).metrics
        config.retrieval_weight = share
    alone = {
        split: {f"model_{name}": metrics[f"test_{name}"] for name in REPORTED if f"test_{name}" in metrics}
        for split, metrics in found.items()
    }
    of_model, of_generator, of_both = (100 * by_share[value] for value in (0.0, 1.0, share))
    told = (
        f"Validation nDCG@5: the model alone {of_model:.2f}, the generator alone {of_generator:.2f}, together {of_both:.2f} with a "
        f"retrieval_weight of {share:.2f}."
    )
    return told, alone
