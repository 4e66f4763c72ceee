"""Ranking metrics of each document, by which systems are compared document by document."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .label_sets import LabelSetsLike
from .propensity import weigh
from .ranking import RANKING_FORMULAS
from .ranking_hits import match

__all__ = ["DocumentValues", "document_values"]


@dataclass(frozen=True, eq=False)
class DocumentValues:
    """Metrics of the N documents that have a positive label.

    Attributes:
        metrics: Names of the metrics, M.
        values: Their values, (N, M). The mean over documents is the reported metric. PSP is a ratio of sums: a document's value is its
            gain, divided by the mean of the best possible gains, so it may exceed 1.
        weights: Share of each document in the metric, (N, M), on average 1: its best possible gain for PSP, 1 for all others. Over other
            documents, such as those of a bootstrap sample, the metric is the sum of the values, divided by that of the weights.
        num_left_out: Documents without a positive label.
    """

    metrics: tuple[str, ...]
    values: np.ndarray
    weights: np.ndarray
    num_left_out: int


def document_values(
    top_labels: np.ndarray | Sequence[Sequence[int]],
    positives: LabelSetsLike,
    metrics: Sequence[str],
    inverse_propensity: ArrayLike | None = None,
    ignore_unseen: int | None = None,
) -> DocumentValues:
    """Values of each document for metrics of `ranking_report`.

    Args:
        top_labels: As for `ranking_report`.
        positives: As for `ranking_report`.
        metrics: ``P@k``, ``nDCG@k``, ``R@k``, ``RP@k`` or ``PSP@k``, for any k.
        inverse_propensity: Weight of each label for ``PSP@k``, (L,).
        ignore_unseen: As for `ranking_report`.

    Raises:
        TypeError: If label ids are not integers.
        ValueError: If there is no such metric, the weights for ``PSP@k`` are missing, no document has a positive label, or as
            `ranking_report` says.
    """
    kinds = [_kind_and_k(name) for name in metrics]
    ranking = match(top_labels, positives, [k for _, k in kinds], ignore_unseen)
    has_positives = ranking.positives.sizes > 0
    if not has_positives.any():
        raise ValueError(f"None of the {len(has_positives)} documents has a positive label. Are these the right references?")
    weighted = None
    if any(kind == "PSP" for kind, _ in kinds):
        if inverse_propensity is None:
            raise ValueError(
                "PSP@k needs inverse_propensity: hf_xmtc.metrics.inverse_propensity(label_counts, num_documents)."
            )
        weighted = weigh(ranking, inverse_propensity)
    values, weights = [], []
    for kind, k in kinds:
        if kind == "PSP":
            gain, best_gain = weighted.terms(np.ones(k))
            scale = best_gain[has_positives].mean()
            values.append(gain / scale)
            weights.append(best_gain / scale)
        else:
            values.append(RANKING_FORMULAS[kind](ranking, k))
            weights.append(np.ones(len(has_positives)))
    return DocumentValues(
        tuple(metrics),
        np.stack(values, axis=1)[has_positives],
        np.stack(weights, axis=1)[has_positives],
        int((~has_positives).sum()),
    )


def _kind_and_k(name: str) -> tuple[str, int]:
    kind, _, k = name.partition("@")
    kinds = [*RANKING_FORMULAS, "PSP"]
    if kind not in kinds or not k.isdecimal() or int(k) < 1:
        raise ValueError(f"The metric {name!r} is none of {', '.join(f'{kind}@k' for kind in kinds)}, such as nDCG@5.")
    return kind, int(k)
