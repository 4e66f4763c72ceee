"""Intervals and tests, against scipy, published examples and values worked out by hand."""

import numpy as np
import pytest
from scipy import stats

from hf_xmtc.significance import average_ranks, bootstrap_interval, friedman, holm, paired_t, wilcoxon_p


def test_the_paired_t_test_is_scipys():
    first, second = np.random.default_rng(0).normal(size=(2, 30))
    found, expected = paired_t(second - first), stats.ttest_rel(second, first)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.mean == pytest.approx((second - first).mean())


def test_a_t_interval_of_three_seeds_by_hand():
    found = paired_t([1.0, 2.0, 3.0])  # t = 4.303 with two degrees of freedom, standard error 1 / √3
    assert (found.mean, found.half_width) == pytest.approx((2.0, 4.3027 / 3**0.5), abs=1e-4)
    assert not found.leaves_out_0 and paired_t([2.0, 2.1, 1.9]).leaves_out_0


def test_differences_that_are_all_equal_have_an_interval_of_width_0():
    same, constant = paired_t([0.0, 0.0]), paired_t([0.5, 0.5])
    assert (same.low, same.high, same.p, same.leaves_out_0) == (0, 0, 1, False)
    assert (constant.low, constant.high, constant.p, constant.leaves_out_0) == (0.5, 0.5, 0, True)
    assert wilcoxon_p([0.0, 0.0]) == 1 and wilcoxon_p([1e-17, 0.0]) == 1


def test_one_difference_has_no_interval():
    with pytest.raises(ValueError, match="at least 2 paired differences, got 1"):
        paired_t([1.0])


def test_wilcoxons_p_value_is_the_papers_smallest():
    # AttentionXML reports 6.10e-5 where it is better in 15 of 15 results: 2 / 2^15.
    assert wilcoxon_p(np.arange(1, 16)) == pytest.approx(6.10e-5, abs=1e-7)


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_average_ranks_share_ties():
    values = np.array([[0.9, 0.5, 0.1], [0.4, 0.4, 0.2], [0.1 + 0.2, 0.3, 0.3]])
    assert average_ranks(values) == pytest.approx([(1 + 1.5 + 2) / 3, (2 + 1.5 + 2) / 3, (3 + 3 + 2) / 3])


def test_friedmans_statistic_by_hand_and_lacos_degrees_of_freedom():
    values = np.array([[3, 2, 1], [3, 2, 1], [3, 1, 2], [2, 3, 1]])  # rank sums 5, 8, 11
    found = friedman(values)  # χ² = 12 / (4·3·4) · (25 + 64 + 121) - 3·4·4 = 4.5; F = 3 · 4.5 / (8 - 4.5)
    assert found.statistic == pytest.approx(13.5 / 3.5)
    assert found.p == pytest.approx(stats.f.sf(13.5 / 3.5, 2, 6))
    # LACO has 12 systems on 2 data sets and the critical value 2.8179.
    assert stats.f.isf(0.05, 11, 11 * (2 - 1)) == pytest.approx(2.8179, abs=1e-4)
    assert friedman(np.ones((4, 3))).p == 1
    assert friedman(np.tile([3, 2, 1], (4, 1))).p == 0


def test_the_bootstrap_agrees_with_the_normal_interval_and_with_a_plain_loop():
    values = np.random.default_rng(1).normal(0.5, 0.2, size=(400, 2))
    low, high = bootstrap_interval(values, np.ones_like(values))
    error = values.std(axis=0) / 20
    assert low == pytest.approx(values.mean(axis=0) - 1.96 * error, abs=0.002)
    assert high == pytest.approx(values.mean(axis=0) + 1.96 * error, abs=0.002)
    weights = np.array([[1.0], [3.0]])
    assert bootstrap_interval(np.array([[0.5], [3.0]]), weights, num_samples=50) == (
        pytest.approx([0.5]),
        pytest.approx([1]),
    )
