"""Systems side by side: intervals of their metrics, average ranks, and tests of all pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hf_xmtc.significance import (
    LEVEL,
    Friedman,
    PairedT,
    average_ranks,
    bootstrap_interval,
    friedman,
    holm,
    paired_t,
    wilcoxon_p,
)

__all__ = ["PairDifference", "SystemComparison", "SystemMetric", "compare_systems"]


@dataclass(frozen=True)
class SystemMetric:
    """A metric of a system, the mean over its runs.

    Attributes:
        value: The metric.
        low: Lower end of its 95 % interval over documents, by bootstrap.
        high: Upper end.
        average_rank: Mean over documents of its rank among the systems, 1 for the best.
    """

    value: float
    low: float
    high: float
    average_rank: float


@dataclass(frozen=True)
class PairDifference:
    """The lead of the first system of a pair over the second, in one metric.

    Attributes:
        first: Name of the first.
        second: Name of the second.
        metric: The metric.
        documents: Paired t test over documents, of the means over runs.
        seeds: Paired t test over seeds; a single run counts as exact beside several. None where both systems have one.
        p_t: p value over documents by the t test, with Holm's correction over the pairs.
        p_wilcoxon: p value over documents by Wilcoxon's signed-rank test, likewise.
        p_seeds: p value over seeds, likewise.
        ahead: The system that is ahead: ``p_t``, and ``p_seeds`` where there is one, are below 0.05. None where no difference is shown.
    """

    first: str
    second: str
    metric: str
    documents: PairedT
    seeds: PairedT | None
    p_t: float
    p_wilcoxon: float
    p_seeds: float | None
    ahead: str | None


@dataclass(frozen=True)
class SystemComparison:
    """All systems and pairs.

    Attributes:
        systems: Name → metric → its value.
        pairs: All pairs, by metric.
        friedman: Metric → the test of all systems together, over documents; empty for two systems.
    """

    systems: dict[str, dict[str, SystemMetric]]
    pairs: list[PairDifference]
    friedman: dict[str, Friedman]


def compare_systems(values: Mapping[str, np.ndarray], weights: np.ndarray, metrics: Sequence[str]) -> SystemComparison:
    """Compare systems by their metrics of each document.

    Args:
        values: Name of a system → values of its R runs, (R, N, M), see `DocumentValues`. R is the same for all, or 1.
        weights: Shares of the documents in the metrics, (N, M), those of `DocumentValues`.
        metrics: Names of the metrics, M.

    Raises:
        ValueError: If there are fewer than two documents.
    """
    names = list(values)
    means = np.stack([values[name].mean(axis=0) for name in names])  # (S, N, M)
    intervals = bootstrap_interval(np.concatenate(means, axis=1), np.tile(weights, len(names)))
    low, high = (ends.reshape(len(names), len(metrics)) for ends in intervals)
    ranks = np.stack([average_ranks(means[:, :, m].T) for m in range(len(metrics))], axis=1)  # (S, M)
    centre = means.mean(axis=1)
    return SystemComparison(
        systems={
            name: {
                metric: SystemMetric(*(float(table[s, m]) for table in (centre, low, high, ranks)))
                for m, metric in enumerate(metrics)
            }
            for s, name in enumerate(names)
        },
        pairs=[
            pair
            for m, metric in enumerate(metrics)
            for pair in _pairs(metric, {name: of[:, :, m] for name, of in values.items()})
        ],
        friedman={metric: friedman(means[:, :, m].T) for m, metric in enumerate(metrics)} if len(names) > 2 else {},
    )


def _pairs(metric: str, values: Mapping[str, np.ndarray]) -> list[PairDifference]:
    """All pairs in one metric, from the values of runs and documents, (R, N)."""
    pairs = list(combinations(values, 2))
    over_documents = [values[first].mean(axis=0) - values[second].mean(axis=0) for first, second in pairs]
    over_seeds = [values[first].mean(axis=1) - values[second].mean(axis=1) for first, second in pairs]
    documents = [paired_t(differences) for differences in over_documents]
    seeds = [paired_t(differences) if len(differences) > 1 else None for differences in over_seeds]
    p_t, p_wilcoxon = holm([test.p for test in documents]), holm([wilcoxon_p(differences) for differences in over_documents])
    corrected = iter(holm([test.p for test in seeds if test]).tolist())
    p_seeds = [next(corrected) if test else None for test in seeds]
    return [
        PairDifference(
            *(first, second, metric, documents[i], seeds[i], float(p_t[i]), float(p_wilcoxon[i])),
            p_seeds=p_seeds[i],
            ahead=_ahead(first, second, documents[i].mean, [p for p in (p_t[i], p_seeds[i]) if p is not None]),
        )
        for i, (first, second) in enumerate(pairs)
    ]


def _ahead(first: str, second: str, lead: float, p_values: Sequence[float]) -> str | None:
    if max(p_values) >= 1 - LEVEL:
        return None
    return first if lead > 0 else second
