"""Sums in a fixed order beside Python's exact ones, and rank correlations beside scipy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batfill.base.sums import correlation, mean_of, rank_correlation, ranks, sum_of

numbers = st.lists(st.floats(-1e12, 1e12), max_size=60).map(np.array)


@given(numbers)
def test_a_sum_is_exact_to_the_last_places(values):
    exact = math.fsum(values)
    assert abs(sum_of(values) - exact) <= math.ulp(exact) + len(values) ** 2 * 2**-105 * np.abs(values).sum()


def test_a_sum_that_cancels_is_exact():
    assert sum_of(np.array([1e100, 1.0, -1e100, 1.0])) == 2.0


def test_sums_and_means_of_whole_numbers_strided_and_infinite_ones_and_of_none():
    assert sum_of(np.arange(10)) == 45
    assert mean_of(np.arange(20.0)[::2]) == 9
    assert mean_of(np.array([1.0, np.inf, 2.0])) == np.inf
    assert math.isnan(mean_of(np.array([])))
    assert math.isnan(sum_of(np.array([np.inf, -np.inf])))


def test_correlation_is_pearsons():
    random = np.random.default_rng(1)
    x = random.random(500)
    y = x + random.random(500)
    assert math.isclose(correlation(x, y), np.corrcoef(x, y)[0, 1], rel_tol=1e-13)
    assert correlation(x, -2 * x) == -1


def test_the_rank_correlation_of_equal_values_is_unknown():
    assert np.isnan(rank_correlation(np.array([1, 2, 3]), np.array([4, 4, 4])))


@pytest.mark.parametrize("seed", range(20))
def test_the_rank_correlation_is_scipys(seed):
    reference = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 9, 30), draw.normal(size=30)
    assert ranks(x.astype(float)).tolist() == reference.rankdata(x).tolist()
    assert rank_correlation(x, y) == pytest.approx(reference.spearmanr(x, y).statistic, abs=1e-12)
