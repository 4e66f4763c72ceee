"""Propensity-scored metrics PSP@k and PSnDCG@k, which give a hit on a rare label more weight.

Annotators miss rare labels more often. A label's propensity is the estimated chance that it was assigned where it
applies; the metrics weigh each hit by the inverse and divide by what the best possible ranking would reach.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .label_sets import LabelSetsLike
from .ranking_hits import RankingHits, discounts, match

__all__ = [
    "PROPENSITY_CONSTANTS",
    "PSNDCG_VARIANTS",
    "WeightedRanking",
    "inverse_propensity",
    "psndcg_at_k",
    "psp_at_k",
    "weigh",
]

# The constants (a, b) of `inverse_propensity` for the benchmarks of Jain et al. (2016), as the Extreme Classification
# Repository uses them: "amazon" for Amazon-670K and other product sets, "wikipedia" for Wiki-500K and Wikipedia-LSHTC.
# EUR-Lex, Wiki10-31K and AmazonCat-13K take the default (scripts of AttentionXML).
PROPENSITY_CONSTANTS: dict[str, tuple[float, float]] = {
    "default": (0.55, 1.5),
    "amazon": (0.6, 2.6),
    "wikipedia": (0.5, 0.4),
}

PSNDCG_VARIANTS = ("pyxclib", "corpus")


def inverse_propensity(label_counts: ArrayLike, num_documents: int, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """Weight of each label, w = 1 + (ln N - 1) (b + 1)^a (count + b)^(-a).

    A label without a training document has a weight too, the largest. So labels seen only in the evaluation data are
    weighed by appending zeros to the counts: ``np.pad(label_counts, (0, num_unseen))``.

    Args:
        label_counts: Number of training documents that have the label, (L,).
        num_documents: Number of training documents N.
        a: Constant of the data set, see `PROPENSITY_CONSTANTS`.
        b: Constant of the data set, above 0.

    Returns:
        Inverse propensities, at least 1, float64, (L,).

    Raises:
        ValueError: If a count is negative or above ``num_documents``, or a constant is out of range.

    Source: Jain, Prabhu and Varma (2016), the propensity model. For N < 3 the logarithm makes the formula fall below 1,
    which is no inverse probability; such weights are set to 1, with a warning.
    """
    counts = np.asarray(label_counts, dtype=np.float64)
    if counts.ndim != 1:
        raise ValueError(f"label_counts must have the shape (labels,) but has {counts.shape}.")
    if num_documents < 1:
        raise ValueError(f"num_documents must be at least 1, got {num_documents}: it is the number of training documents.")
    if not (a > 0 and b > 0):
        raise ValueError(f"The propensity constants must be above 0, got a={a}, b={b}. See PROPENSITY_CONSTANTS.")
    if counts.size and not (counts.min() >= 0 and counts.max() <= num_documents):
        raise ValueError(
            f"label_counts lie between {counts.min():g} and {counts.max():g}, but must be between 0 and "
            f"num_documents={num_documents}. Are the counts from another split, or repeated labels counted twice?"
        )
    weights = 1.0 + (np.log(num_documents) - 1.0) * (b + 1.0) ** a * (counts + b) ** -a
    if (weights < 1.0).any():
        warnings.warn(
            f"With num_documents={num_documents} the propensity formula gives weights below 1, which are set to 1: PSP is then precision. It "
            "is meant for data sets of thousands of documents.",
            stacklevel=2,
        )
    return np.maximum(weights, 1.0)


def psp_at_k(
    top_labels: np.ndarray | Sequence[Sequence[int]], positives: LabelSetsLike, k: int, inverse_propensity: ArrayLike
) -> float:
    """Propensity-scored precision at k, normalised by the best possible.

    One ratio of two sums over all documents: the weights of the hits, over the k largest weights among the positives.
    Documents without positives add nothing to either, so there is no switch for them.

    Args:
        top_labels: As for `precision_at_k`.
        positives: As for `precision_at_k`.
        k: Cut-off, at least 1.
        inverse_propensity: Weight of each label, from the training data, (L,) or longer where the evaluation data have
            labels of their own.

    Returns:
        The ratio, in [0, 1].

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, ``k`` is below 1, a positive has no weight, or there is no positive.

    Source: Jain, Prabhu and Varma (2016); pyxclib and the AttentionXML code agree.
    """
    return weigh(match(top_labels, positives, [k]), inverse_propensity).psp(k)


def psndcg_at_k(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    k: int,
    inverse_propensity: ArrayLike,
    variant: str = "pyxclib",
) -> float:
    """Propensity-scored nDCG at k, normalised by the best possible; two variants are in use.

    ``"corpus"`` (AttentionXML, CorNet) divides the sum of the discounted weights of all hits by the same sum for the best
    rankings. ``"pyxclib"`` first divides both terms of a document by its discounts of the ranks 1 … min(k, n), so that
    documents with few positives weigh more. They agree at k = 1 and differ a little elsewhere.

    Args:
        top_labels: As for `precision_at_k`.
        positives: As for `precision_at_k`.
        k: Cut-off, at least 1.
        inverse_propensity: As for `psp_at_k`.
        variant: ``"pyxclib"`` or ``"corpus"``.

    Returns:
        The ratio, in [0, 1].

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, ``k`` is below 1, a positive has no weight, there is no positive, or
            the variant is unknown.

    Source: Jain, Prabhu and Varma (2016); the evaluation code of pyxclib and AttentionXML.
    """
    return weigh(match(top_labels, positives, [k]), inverse_propensity).psndcg(k, variant)


@dataclass(frozen=True, eq=False)
class WeightedRanking:
    """The weights of the hits beside those of the best possible ranking. Build it with `weigh`.

    Attributes:
        gains: Weight of each hit, 0 for a miss, (N, K).
        num_positives: Positives of each document, (N,).
        best_gains: Weights of all positives, the heaviest of a document first, (number of positives,).
        best_ranks: Rank of each in its document's best ranking, from 0, same shape.
        best_rows: Document of each, same shape.
    """

    gains: np.ndarray
    num_positives: np.ndarray
    best_gains: np.ndarray
    best_ranks: np.ndarray
    best_rows: np.ndarray

    def psp(self, k: int) -> float:
        """PSP at k, see `psp_at_k`."""
        gain, best_gain = self.terms(np.ones(k))
        return float(gain.sum() / best_gain.sum())

    def psndcg(self, k: int, variant: str = "pyxclib") -> float:
        """PSnDCG at k, see `psndcg_at_k`."""
        if variant not in PSNDCG_VARIANTS:
            raise ValueError(f"variant must be one of {PSNDCG_VARIANTS}, got {variant!r}.")
        discount = discounts(k)
        gain, best_gain = self.terms(discount)
        if variant == "pyxclib":
            document_norm = np.cumsum(discount)[np.clip(self.num_positives, 1, k) - 1]
            gain, best_gain = gain / document_norm, best_gain / document_norm
        return float(gain.sum() / best_gain.sum())

    def terms(self, rank_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gain of each document and that of its best ranking, (N,) each; the metrics are ratios of their sums.

        Args:
            rank_weights: What a hit at each of the first k ranks counts, (k,).
        """
        gains = self.gains[:, : len(rank_weights)]
        within = self.best_ranks < len(rank_weights)
        best_gain = np.bincount(
            self.best_rows[within],
            weights=self.best_gains[within] * rank_weights[self.best_ranks[within]],
            minlength=len(gains),
        )
        return gains @ rank_weights[: gains.shape[1]], best_gain


def weigh(ranking: RankingHits, inverse_propensity: ArrayLike) -> WeightedRanking:
    """Weigh hits and positives by inverse propensity.

    Args:
        ranking: The rankings beside their positives.
        inverse_propensity: Weight of each label, above 0, (L,) or longer.

    Returns:
        The weighted ranking.

    Raises:
        ValueError: If a weight is not a positive number, a positive has no weight, or there is no positive.
    """
    weights = np.asarray(inverse_propensity, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights) & (weights > 0)):
        raise ValueError(
            f"inverse_propensity must be positive finite numbers of the shape (labels,), got the shape {weights.shape}. "
            "hf_xmtc.metrics.inverse_propensity(label_counts, num_documents) makes it."
        )
    positives = ranking.positives
    if len(positives.label_ids) == 0:
        raise ValueError(
            f"None of the {positives.num_documents} documents has a positive label, so propensity-scored metrics are "
            "undefined. Are these the right references?"
        )
    largest_id = int(positives.label_ids.max())
    if largest_id >= len(weights):
        raise ValueError(
            f"A positive has the label id {largest_id} but inverse_propensity has {len(weights)} entries. Labels seen only "
            f"in evaluation data need one too: inverse_propensity(np.pad(label_counts, (0, "
            f"{largest_id + 1 - len(weights)})), num_documents)."
        )
    gains = np.zeros(ranking.hits.shape)
    gains[ranking.hits] = weights[ranking.top_labels[ranking.hits]]
    positive_weights = weights[positives.label_ids]
    best_first = np.lexsort((-positive_weights, positives.rows))
    return WeightedRanking(
        gains=gains,
        num_positives=positives.sizes,
        best_gains=positive_weights[best_first],
        best_ranks=np.arange(len(best_first)) - positives.indptr[positives.rows],
        best_rows=positives.rows,
    )
