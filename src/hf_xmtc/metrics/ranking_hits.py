"""Hits of a ranking, the predictions that are right: computed once, read by every ranking metric."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from .label_sets import LabelSets, LabelSetsLike, label_sets, ranked_labels

__all__ = ["RankingHits", "discounts", "match", "mean_over_documents"]

_EMPTY_CHOICES = ("skip", "zero")


@dataclass(frozen=True, eq=False)
class RankingHits:
    """Rankings beside the labels they should have found.

    Attributes:
        top_labels: Predicted label ids, best first, negative where there is no prediction, (N, K).
        hits: True where the prediction is a positive, (N, K). Of a label predicted twice only the first is a hit.
        positives: The label sets of the documents.
    """

    top_labels: np.ndarray
    hits: np.ndarray
    positives: LabelSets

    def hits_at(self, k: int) -> np.ndarray:
        """Number of hits among the first ``k`` predictions of each document, (N,)."""
        return self.hits[:, :k].sum(axis=1)


def match(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    ks: Sequence[int],
    ignore_unseen: int | None = None,
) -> RankingHits:
    """Compare rankings with the positives.

    A prediction that is missing (fewer than k columns, or padding) is a miss. A label predicted twice in a row counts
    once, at its better place: the repeat keeps its place and is a miss, so it can lower a metric but never raise it.

    Args:
        top_labels: Label ids, best first, (N, K), padded with -1 or -100; or one list of ranked ids per document.
        positives: As for `label_sets`.
        ks: The cut-offs that will be asked for; predictions behind the largest are not looked at.
        ignore_unseen: Drop the positives with an id ≥ this number of labels; None keeps them, so that they count as missed.

    Returns:
        The rankings beside their positives.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the two have different numbers of documents, or a cut-off or ``ignore_unseen`` is below 1.
    """
    _check_cut_offs(ks)
    if ignore_unseen is not None and (isinstance(ignore_unseen, bool) or ignore_unseen < 1):
        raise ValueError(f"ignore_unseen must be the model's number of labels, at least 1, or None; got {ignore_unseen!r}.")
    ranking = ranked_labels(top_labels)[:, : max(ks)]  # (N, K)
    truth = label_sets(positives)
    if len(ranking) != truth.num_documents:
        raise ValueError(
            f"top_labels has {len(ranking)} documents but positives has {truth.num_documents}. Both need one row per "
            "document, in the same order; a document without labels has an empty row."
        )
    if ignore_unseen is not None:
        truth = truth.below(ignore_unseen)
    positions = truth.positions(np.arange(len(ranking))[:, None], ranking)  # (N, K)
    hits = positions >= 0
    found = np.flatnonzero(hits)
    _, first = np.unique(positions.ravel()[found], return_index=True)
    if len(first) < len(found):  # a label was predicted twice for a document
        hits = np.zeros_like(hits)
        hits.ravel()[found[first]] = True
    return RankingHits(ranking, hits, truth)


def _check_cut_offs(ks: Sequence[int]) -> None:
    if np.ndim(ks) != 1 or len(ks) == 0:
        raise ValueError(f"ks must be a list of cut-offs, for example (1, 3, 5), got {ks!r}.")
    for k in ks:
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}.")


def mean_over_documents(values: np.ndarray, ranking: RankingHits, empty: str) -> float:
    """Average the values of the documents.

    Args:
        values: One value per document, (N,), 0 for documents without positives.
        ranking: The ranking they belong to.
        empty: ``"skip"`` leaves documents without positives out of the mean, ``"zero"`` counts them as 0.

    Returns:
        The mean.

    Raises:
        ValueError: If no document is left, or ``empty`` is neither word.
    """
    if empty not in _EMPTY_CHOICES:
        raise ValueError(f"empty must be one of {_EMPTY_CHOICES}, got {empty!r}.")
    if empty == "skip":
        values = values[ranking.positives.sizes > 0]
    if len(values) == 0:
        raise ValueError(
            f"No document is left to average over: none of the {ranking.positives.num_documents} documents has a positive "
            "label. Are these the right references? empty='zero' counts such documents as 0."
        )
    return float(values.mean())


def discounts(k: int) -> np.ndarray:
    """Discount 1 / log2(rank + 1) of the ranks 1 … k, (k,)."""
    return 1.0 / np.log2(np.arange(2, k + 2))
