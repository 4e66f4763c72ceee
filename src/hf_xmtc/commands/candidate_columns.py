"""Candidates as a column of a data set, and what they are worth."""

import numpy as np
from datasets import DatasetDict, List, Value

from hf_xmtc.metrics import ranking_report

try:
    from hf_xmtc.retrieval import CandidateGenerator, candidate_recall
except ModuleNotFoundError as error:
    if error.name not in ("sklearn", "scipy"):
        raise
    raise ValueError("num_candidates needs scikit-learn for the generator: pip install 'hf_xmtc[retrieval]'.") from error

from hf_xmtc.training.candidates import CANDIDATES

__all__ = ["add_candidates"]

REPORTED = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "R@5")


def add_candidates(
    data: DatasetDict, tokenized: DatasetDict, num_labels: int, num_candidates: int
) -> tuple[DatasetDict, CandidateGenerator, dict[str, dict[str, float]]]:
    """Add the column ``candidate_ids`` to every split, from the labels of the nearest training texts.

    A training text's own labels do not vote for its candidates.

    Args:
        data: Splits with texts and labels.
        tokenized: The same, tokenized.
        num_labels: The model's labels.
        num_candidates: Candidates per document.

    Returns:
        The tokenized splits with the column; the generator; and for every split its recall (``candidate_recall``, what no model of
        these candidates can exceed) and the metrics of its own ranking (``generator_nDCG@5`` …).
    """
    generator = CandidateGenerator.fit(data["train"]["text"], data["train"]["labels"], num_labels)
    columns, report = {}, {}
    for split, rows in data.items():
        ids, _ = generator.candidates(rows["text"], num_candidates, leave_out_itself=split == "train", show_progress=True)
        columns[split] = tokenized[split].add_column(CANDIDATES, list(ids.astype(np.int32)), feature=List(Value("int32")))
        labels = rows["labels"][:]
        if any(labels):
            found = ranking_report(ids, labels, ks=(1, 3, 5))
            own = {f"generator_{name}": found[name] for name in REPORTED}
            report[split] = {"candidate_recall": candidate_recall(ids, labels), "num_candidates": ids.shape[1], **own}
    return DatasetDict(columns), generator, report
