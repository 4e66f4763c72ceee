"""All ranking metrics of one evaluation in one dictionary."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .label_sets import LabelSetsLike
from .propensity import weigh
from .ranking import RANKING_FORMULAS
from .ranking_hits import RankingHits, match, mean_over_documents

__all__ = ["SHORT_REPORT", "propensity_report", "ranking_report"]

# The metrics that tables with little room show.
SHORT_REPORT = ("P@1", "P@5", "nDCG@5", "R@5", "PSP@5")


def ranking_report(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    ks: Sequence[int] = (1, 3, 5),
    inverse_propensity: ArrayLike | None = None,
    empty: str = "skip",
    ignore_unseen: int | None = None,
    psndcg_variant: str = "pyxclib",
) -> dict[str, float | int]:
    """Compute every ranking metric at every cut-off; hits are found once and shared.

    Args:
        top_labels: Label ids, best first, (N, K), padded with -1 or -100; or one list of ranked ids per document.
        positives: A list of id lists, a CSR matrix, or an integer array (N, P) padded with -100.
        ks: Cut-offs.
        inverse_propensity: Weight of each label for PSP and PSnDCG, (L,); None leaves the two out.
        empty: Documents without positives: ``"skip"`` leaves them out of the means, ``"zero"`` counts them as 0. PSP and
            PSnDCG are ratios of sums, to which such documents add nothing either way.
        ignore_unseen: The model's number of labels, to drop positives with an id ≥ it before anything is computed. By
            default they stay and count as missed, because the model has missed them.
        psndcg_variant: ``"pyxclib"`` or ``"corpus"``, see `psndcg_at_k`.

    Returns:
        ``P@k``, ``nDCG@k``, ``R@k``, ``RP@k`` and, with weights, ``PSP@k`` and ``PSnDCG@k`` for each k, as floats in [0, 1]
        (``PSnDCG-corpus@k`` for the other variant); ``num_documents``, all of them, and ``num_left_out``, those the means
        leave out because they have no positives, as integers.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, a cut-off is below 1, a positive has no weight, or no document is
            left.
    """
    ranking = match(top_labels, positives, ks, ignore_unseen)
    report: dict[str, float | int] = {}
    for name, formula in RANKING_FORMULAS.items():
        for k in ks:
            report[f"{name}@{k}"] = mean_over_documents(formula(ranking, k), ranking, empty)
    if inverse_propensity is not None:
        report |= _propensity_values(ranking, ks, inverse_propensity, psndcg_variant)
    report["num_documents"] = ranking.positives.num_documents
    report["num_left_out"] = _num_without_positives(ranking) if empty == "skip" else 0
    return report


def propensity_report(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    inverse_propensity: ArrayLike,
    ks: Sequence[int] = (1, 3, 5),
    ignore_unseen: int | None = None,
    psndcg_variant: str = "pyxclib",
) -> dict[str, float | int]:
    """The propensity-scored part of `ranking_report` alone.

    Args:
        top_labels: As for `ranking_report`.
        positives: As for `ranking_report`.
        inverse_propensity: Weight of each label, (L,).
        ks: Cut-offs.
        ignore_unseen: As for `ranking_report`.
        psndcg_variant: As for `ranking_report`.

    Returns:
        ``PSP@k`` and ``PSnDCG@k`` (``PSnDCG-corpus@k`` for the other variant) as floats; ``num_documents`` and
        ``num_left_out``, the documents without positives, as integers.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If the numbers of documents differ, a cut-off is below 1, a positive has no weight, or there is no
            positive.
    """
    ranking = match(top_labels, positives, ks, ignore_unseen)
    report: dict[str, float | int] = dict(_propensity_values(ranking, ks, inverse_propensity, psndcg_variant))
    report["num_documents"] = ranking.positives.num_documents
    report["num_left_out"] = _num_without_positives(ranking)
    return report


def _propensity_values(
    ranking: RankingHits, ks: Sequence[int], inverse_propensity: ArrayLike, psndcg_variant: str
) -> dict[str, float]:
    weighted = weigh(ranking, inverse_propensity)
    psndcg_name = "PSnDCG" if psndcg_variant == "pyxclib" else f"PSnDCG-{psndcg_variant}"
    values = {f"PSP@{k}": weighted.psp(k) for k in ks}
    return values | {f"{psndcg_name}@{k}": weighted.psndcg(k, psndcg_variant) for k in ks}


def _num_without_positives(ranking: RankingHits) -> int:
    return int((ranking.positives.sizes == 0).sum())
