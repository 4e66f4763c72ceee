"""Significance of differences between systems: intervals, paired tests, Holm's correction, and Friedman's test on ranks.

Needs scipy. All arrays have documents (or seeds, or data sets) as rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

__all__ = ["Friedman", "PairedT", "average_ranks", "bootstrap_interval", "friedman", "holm", "paired_t", "wilcoxon_p"]

LEVEL = 0.95
# Means over seeds differ in their last digits where they are equal; such differences are ties.
_DIGITS = 12
_CHUNK = 100  # bootstrap samples that are drawn together


@dataclass(frozen=True)
class PairedT:
    """Mean of paired differences with its 95 % t interval, and the p value of the paired t test.

    Attributes:
        mean: The mean.
        low: Lower end of the interval.
        high: Upper end.
        p: Two-sided p value of a mean of 0; 1 where no pair differs.
    """

    mean: float
    low: float
    high: float
    p: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    @property
    def leaves_out_0(self) -> bool:
        return self.low > 0 or self.high < 0


def paired_t(differences: ArrayLike) -> PairedT:
    """Paired t test.

    Args:
        differences: Second minus first, (N,), N at least 2.

    Raises:
        ValueError: If there is one difference, or none.
    """
    differences = np.asarray(differences, dtype=np.float64)
    count = len(differences)
    if count < 2:
        raise ValueError(f"A t interval needs at least 2 paired differences, got {count}.")
    mean, error = differences.mean(), differences.std(ddof=1) / count**0.5
    half_width = stats.t.ppf((1 + LEVEL) / 2, count - 1) * error
    with np.errstate(divide="ignore"):
        p = 1.0 if mean == 0 else 2 * stats.t.sf(abs(np.divide(mean, error)), count - 1)
    return PairedT(float(mean), float(mean - half_width), float(mean + half_width), float(p))


def wilcoxon_p(differences: ArrayLike) -> float:
    """Two-sided p value of Wilcoxon's signed-rank test; differences of 0 are left out, and 1 where there is no other."""
    differences = np.round(np.asarray(differences, dtype=np.float64), _DIGITS)
    return float(stats.wilcoxon(differences).pvalue) if differences.any() else 1.0


def holm(p_values: ArrayLike) -> np.ndarray:
    """Holm's correction: p values that stay below α in any of the tests by chance with probability α at most.

    Args:
        p_values: One for each of m tests, (m,).

    Returns:
        Corrected values, (m,): the i-th smallest times m - i + 1, no smaller than those before it, at most 1.

    Source: Holm (1979), as Demšar (2006) recommends it.
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    order = p_values.argsort()
    corrected = np.empty_like(p_values)
    corrected[order] = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1)).clip(max=1)
    return corrected


def bootstrap_interval(
    values: np.ndarray, weights: np.ndarray, num_samples: int = 2000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap over documents: 95 % intervals of weighted means.

    Args:
        values: One column per metric, (N, M), see `DocumentValues`.
        weights: Likewise.
        num_samples: Samples of N documents, drawn with replacement.
        seed: Of the draws.

    Returns:
        Lower and upper ends, (M,) each.
    """
    generator, count = np.random.default_rng(seed), len(values)
    means = []
    for start in range(0, num_samples, _CHUNK):
        size = min(_CHUNK, num_samples - start)
        times = generator.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)  # (size, N)
        means.append((times @ values) / (times @ weights))
    low, high = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Average rank of each system, 1 for the best; equal values share the mean of their ranks.

    Args:
        values: One column per system, (N, S), higher is better.
    """
    return stats.rankdata(-np.round(values, _DIGITS), axis=1).mean(axis=0)


@dataclass(frozen=True)
class Friedman:
    """Friedman's test in the form of Iman and Davenport.

    Attributes:
        statistic: F_F, with S - 1 and (S - 1)(N - 1) degrees of freedom.
        p: p value of no difference between the systems.
    """

    statistic: float
    p: float


def friedman(values: np.ndarray) -> Friedman:
    """Test whether systems differ at all, by their ranks for each document.

    Args:
        values: One column per system, (N, S), S at least 3.

    Source: Demšar (2006), whose F_F = (N - 1) χ² / (N (S - 1) - χ²) LACO reports over data sets; χ² here is corrected for ties.
    """
    values = np.round(values, _DIGITS)
    count, num_systems = values.shape
    if (values == values[:, :1]).all():
        return Friedman(0.0, 1.0)
    chi_square, most = stats.friedmanchisquare(*values.T).statistic, count * (num_systems - 1)
    with np.errstate(divide="ignore"):
        statistic = np.divide((count - 1) * chi_square, max(most - chi_square, 0.0))
    return Friedman(float(statistic), float(stats.f.sf(statistic, num_systems - 1, (num_systems - 1) * (count - 1))))
