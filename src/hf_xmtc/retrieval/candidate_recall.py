"""Share of the labels that candidates hold."""

import numpy as np

from hf_xmtc.metrics.label_sets import LabelSetsLike, label_sets

__all__ = ["candidate_recall"]


def candidate_recall(candidates: np.ndarray, positives: LabelSetsLike, ignore_unseen: int | None = None) -> float:
    """Share of a document's labels that are among its candidates, averaged over documents with labels.

    What ranks candidates cannot find more than this.

    Args:
        candidates: Label ids, (N, C), padded with -100.
        positives: True label ids.
        ignore_unseen: Leave labels from this id on out, which training never saw.

    Raises:
        ValueError: If the numbers of documents differ, or no document has a label.
    """
    truth = label_sets(positives)
    truth = truth if ignore_unseen is None else truth.below(ignore_unseen)
    if truth.num_documents != len(candidates):
        raise ValueError(f"There are candidates for {len(candidates)} documents and labels of {truth.num_documents}.")
    some = truth.sizes > 0
    if not some.any():
        raise ValueError("No document has a label, so there is nothing to recall.")
    found = truth.positions(np.arange(len(candidates))[:, None], candidates) >= 0
    return float((found.sum(axis=1)[some] / truth.sizes[some]).mean())
