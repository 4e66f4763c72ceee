"""Ranking metrics of the extreme classification literature: P@k, R@k, nDCG@k and RP@k.

All take the ``k`` best labels of each document and its positives. With y the 0/1 relevance of the j-th ranked label of
document i and n_i the number of its positives, each formula below is a mean over documents.
"""

from collections.abc import Sequence

import numpy as np

from .label_sets import LabelSetsLike
from .ranking_hits import RankingHits, discounts, match, mean_over_documents

__all__ = ["RANKING_FORMULAS", "ndcg_at_k", "precision_at_k", "r_precision_at_k", "recall_at_k"]


def precision_at_k(
    top_labels: np.ndarray | Sequence[Sequence[int]], positives: LabelSetsLike, k: int, empty: str = "skip"
) -> float:
    """Precision at k: the share of the first k predictions that are right, sum_j y / k.

    It always divides by k: a document with fewer than k positives, or a model with fewer than k labels, cannot reach 1.

    Args:
        top_labels: Label ids, best first, (N, K), padded with -1 or -100 where there is no prediction; or one list of
            ranked ids per document. Missing predictions are misses; a label predicted twice in a row counts once.
        positives: A list of id lists, a CSR matrix, or an integer array (N, P) padded with -100. Repeated ids count once;
            ids the model does not know are legal.
        k: Cut-off, at least 1.
        empty: Documents without positives: ``"skip"`` leaves them out of the mean, ``"zero"`` counts them as 0, as
            pyxclib and the AttentionXML code do.

    Returns:
        The mean over documents, in [0, 1].

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, ``k`` is below 1, or no document is left.

    Source: The Extreme Classification Repository (Bhatia et al., 2016); AttentionXML (You et al., 2019), evaluation metrics.
    """
    ranking = match(top_labels, positives, [k])
    return mean_over_documents(_precision(ranking, k), ranking, empty)


def recall_at_k(
    top_labels: np.ndarray | Sequence[Sequence[int]], positives: LabelSetsLike, k: int, empty: str = "skip"
) -> float:
    """Recall at k: the share of the positives found among the first k predictions, sum_j y / n.

    Positives the model cannot predict (labels seen only in the evaluation data) count as missed; `ranking_report` has a
    switch that ignores them.

    Args:
        top_labels: As for `precision_at_k`.
        positives: As for `precision_at_k`.
        k: Cut-off, at least 1.
        empty: As for `precision_at_k`.

    Returns:
        The mean over documents, in [0, 1].

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, ``k`` is below 1, or no document is left.

    Source: pyxclib, whose ``recall`` is ``empty="zero"`` and whose fast single-k variant is ``empty="skip"``.
    """
    ranking = match(top_labels, positives, [k])
    return mean_over_documents(_recall(ranking, k), ranking, empty)


def ndcg_at_k(
    top_labels: np.ndarray | Sequence[Sequence[int]], positives: LabelSetsLike, k: int, empty: str = "skip"
) -> float:
    """Normalised discounted cumulative gain at k: hits weigh 1 / log2(rank + 1), divided by the best possible sum.

    The best possible ranking has its min(k, n) hits first, so a document with fewer than k positives can reach 1.

    Args:
        top_labels: As for `precision_at_k`.
        positives: As for `precision_at_k`.
        k: Cut-off, at least 1.
        empty: As for `precision_at_k`.

    Returns:
        The mean over documents, in [0, 1].

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, ``k`` is below 1, or no document is left.

    Source: Järvelin and Kekäläinen (2002), in the 0/1 form of the Extreme Classification Repository.
    """
    ranking = match(top_labels, positives, [k])
    return mean_over_documents(_ndcg(ranking, k), ranking, empty)


def r_precision_at_k(
    top_labels: np.ndarray | Sequence[Sequence[int]], positives: LabelSetsLike, k: int, empty: str = "skip"
) -> float:
    """R-precision at k: precision at k whose denominator is min(k, n), the number of hits that are possible.

    Args:
        top_labels: As for `precision_at_k`.
        positives: As for `precision_at_k`.
        k: Cut-off, at least 1.
        empty: As for `precision_at_k`.

    Returns:
        The mean over documents, in [0, 1].

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, ``k`` is below 1, or no document is left.

    Source: Chalkidis et al. (2019), Large-Scale Multi-Label Text Classification on EU Legislation.
    """
    ranking = match(top_labels, positives, [k])
    return mean_over_documents(_r_precision(ranking, k), ranking, empty)


def _precision(ranking: RankingHits, k: int) -> np.ndarray:
    return ranking.hits_at(k) / k


def _recall(ranking: RankingHits, k: int) -> np.ndarray:
    return ranking.hits_at(k) / np.maximum(ranking.positives.sizes, 1)


def _ndcg(ranking: RankingHits, k: int) -> np.ndarray:
    hits = ranking.hits[:, :k]  # (N, min(k, K))
    gain = hits @ discounts(k)[: hits.shape[1]]  # (N,)
    best_gain = np.cumsum(discounts(k))[np.clip(ranking.positives.sizes, 1, k) - 1]
    return gain / best_gain


def _r_precision(ranking: RankingHits, k: int) -> np.ndarray:
    return ranking.hits_at(k) / np.clip(ranking.positives.sizes, 1, k)


# Short name -> the value of each document, (N,), from a ranking ranking and k. A document without positives has 0.
RANKING_FORMULAS = {"P": _precision, "nDCG": _ndcg, "R": _recall, "RP": _r_precision}
