"""Ensembles of models by their rankings: how to combine them is chosen on validation, and how much they differ is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from hf_xmtc.metrics import LabelSetsLike, label_sets, ndcg_at_k, precision_at_k, psp_at_k, r_precision_at_k, recall_at_k
from hf_xmtc.metrics.ranking_hits import match
from hf_xmtc.models.combined_rankings import METHODS, JoinedRankings, combine_rankings

__all__ = [
    "METHODS",
    "Combination",
    "combine_rankings",
    "metric_function",
    "overlap_at",
    "right_labels_found",
    "tune",
]

Rankings = Sequence[tuple[np.ndarray, np.ndarray]]

EXPONENTS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
# Labels of each part that a trial looks at: those further down hardly ever come among the first few of a combination.
TRIAL_DEPTH = 20
_METRICS = {"P": precision_at_k, "nDCG": ndcg_at_k, "R": recall_at_k, "RP": r_precision_at_k, "PSP": psp_at_k}


@dataclass(frozen=True)
class Combination:
    """How rankings are combined.

    Attributes:
        method: One of `METHODS`.
        weights: A weight per part, adding up to 1, for ``weighted``; else None.
        exponents: An exponent per part, likewise.
    """

    method: str
    weights: tuple[float, ...] | None = None
    exponents: tuple[float, ...] | None = None

    def __call__(self, rankings: Rankings, k: int, depth: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of all rankings together; see `combine_rankings`."""
        return combine_rankings(rankings, k, self.method, self.weights, self.exponents, depth)


def metric_function(name: str, inverse_propensity: ArrayLike | None = None):
    """A metric by its name: a function of label ids, (N, K), and positives, and its k.

    Args:
        name: ``P@k``, ``nDCG@k``, ``R@k``, ``RP@k`` or ``PSP@k``, for any k.
        inverse_propensity: Weight of each label, for ``PSP@k``.

    Raises:
        ValueError: If there is no such metric, or the weights are missing.
    """
    kind, _, k = name.partition("@")
    if kind not in _METRICS or not k.isdecimal() or int(k) < 1:
        raise ValueError(f"The metric {name!r} is none of {', '.join(f'{kind}@k' for kind in _METRICS)}, such as nDCG@5.")
    if kind == "PSP" and inverse_propensity is None:
        raise ValueError(
            f"{name} needs the training documents of each label, which are not there. Tune by nDCG@{k} instead."
        )
    more = (inverse_propensity,) if kind == "PSP" else ()
    return (lambda top_labels, positives: _METRICS[kind](top_labels, positives, int(k), *more)), int(k)


def tune(
    rankings: Rankings,
    positives: LabelSetsLike,
    metric: str = "nDCG@5",
    inverse_propensity: ArrayLike | None = None,
    num_trials: int = 300,
    seed: int = 0,
) -> Combination:
    """Choose a weight and an exponent per part, Σ w_i · p_i^e_i, that are best on validation.

    Half of the trials are drawn at random, and the others change the best one found so far a little. Each part alone and the mean of
    all are tried too, so by this metric the result is never below any of them on these documents.

    Args:
        rankings: As for `combine_rankings`, of validation documents.
        positives: Their label ids.
        metric: As for `metric_function`.
        inverse_propensity: Likewise.
        num_trials: Trials; 300 take seconds for 10,000 documents.
        seed: Of the trials.

    Returns:
        The combination, of the method ``weighted``.

    Raises:
        ValueError: If the metric is unknown, no document has a label, or rankings are not as `JoinedRankings` takes them.

    Source: our design.
    """
    measure, k = metric_function(metric, inverse_propensity)
    positives = label_sets(positives)
    joined = JoinedRankings(rankings, max(TRIAL_DEPTH, k))
    parts, rng = range(joined.num_parts), np.random.default_rng(seed)
    powers = {
        (part, step): joined.gains(part, "weighted", EXPONENTS[step]) for part in parts for step in range(len(EXPONENTS))
    }
    plain = EXPONENTS.index(1.0)

    def value(weights: np.ndarray, steps: np.ndarray) -> float:
        total = joined.total([powers[part, steps[part]] for part in parts], weights)
        return measure(joined.best(total, k)[0], positives)

    starts = [np.eye(joined.num_parts)[part] for part in parts] + [np.full(joined.num_parts, 1 / joined.num_parts)]
    starts = [(weights, np.full(joined.num_parts, plain)) for weights in starts]
    best_value, best = max(((value(*start), start) for start in starts), key=lambda found: found[0])
    for trial in range(num_trials if joined.num_parts > 1 else 0):
        if trial < num_trials // 2:
            weights, steps = rng.dirichlet(np.ones(joined.num_parts)), rng.integers(len(EXPONENTS), size=joined.num_parts)
        else:
            weights = best[0] * np.exp(rng.normal(0, 0.4, joined.num_parts)) + rng.exponential(0.02, joined.num_parts)
            weights = weights / weights.sum()
            steps = (best[1] + rng.integers(-1, 2, joined.num_parts)).clip(0, len(EXPONENTS) - 1)
        if (found := value(weights, steps)) > best_value:
            best_value, best = found, (weights, steps)
    # Once more on all labels, where the trials looked at the first ones.
    whole = JoinedRankings(rankings)

    def whole_value(combination: Combination) -> float:
        return measure(whole.combine(k, "weighted", combination.weights, combination.exponents)[0], positives)

    # Before the starts, because `max` takes the first of equal ones.
    return max([_combination(*found) for found in (best, *starts)], key=whole_value)


def _combination(weights: np.ndarray, steps: np.ndarray) -> Combination:
    return Combination("weighted", tuple(weights.tolist()), tuple(EXPONENTS[step] for step in steps))


def overlap_at(top_labels: Sequence[np.ndarray], ks: Sequence[int] = (1, 2, 3, 4, 5)) -> dict[tuple[int, int], list[float]]:
    """Share of the first k labels that two rankings have in common, averaged over documents.

    Args:
        top_labels: Label ids of each ranking, best first, (N, K).
        ks: Cut-offs k.

    Returns:
        For each pair of rankings the shares, one for each k.

    Source: AttentionXML (You et al., 2018), table 4.
    """
    found = {}
    for first, second in combinations(range(len(top_labels)), 2):
        one, other = top_labels[first], top_labels[second]
        found[first, second] = [precision_at_k(one, other[:, :k], k, empty="zero") for k in ks]
    return found


def right_labels_found(top_labels: Sequence[np.ndarray], positives: LabelSetsLike, k: int = 5) -> dict[str, int | list[int]]:
    """How many right labels only one ranking has among its first k, how many all have, and how many none.

    Args:
        top_labels: Label ids of each ranking, best first, (N, K).
        positives: True label ids.
        k: Cut-off.

    Returns:
        ``only``, one number per ranking; ``all``; ``none``; ``positives``, the number of true labels.
    """
    truth = label_sets(positives)
    has = np.zeros((len(top_labels), len(truth.label_ids)), dtype=bool)
    for part, labels in enumerate(top_labels):
        ranking = match(labels, truth, [k])
        rows, _ = np.nonzero(ranking.hits)
        has[part, truth.positions(rows, ranking.top_labels[ranking.hits])] = True
    times = has.sum(axis=0)
    return {
        "only": (has & (times == 1)).sum(axis=1).tolist(),
        "all": int((times == len(top_labels)).sum()),
        "none": int((times == 0).sum()),
        "positives": len(truth.label_ids),
    }
