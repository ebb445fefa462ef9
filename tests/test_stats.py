"""The bootstrap against drawing one resample at a time, and least squares against certified values."""

from __future__ import annotations

import numpy as np
import pytest

from batfill import stats
from batfill.stats import least_squares, rank_correlation, ranks, ratio_intervals, variance_inflation

# Employment by six economic series, 1947 to 1962. Source: Longley, JASA 1967; the results certified by NIST, StRD.
LONGLEY = np.array(
    [
        (60323, 83.0, 234289, 2356, 1590, 107608, 1947),
        (61122, 88.5, 259426, 2325, 1456, 108632, 1948),
        (60171, 88.2, 258054, 3682, 1616, 109773, 1949),
        (61187, 89.5, 284599, 3351, 1650, 110929, 1950),
        (63221, 96.2, 328975, 2099, 3099, 112075, 1951),
        (63639, 98.1, 346999, 1932, 3594, 113270, 1952),
        (64989, 99.0, 365385, 1870, 3547, 115094, 1953),
        (63761, 100.0, 363112, 3578, 3350, 116219, 1954),
        (66019, 101.2, 397469, 2904, 3048, 117388, 1955),
        (67857, 104.6, 419180, 2822, 2857, 118734, 1956),
        (68169, 108.4, 442769, 2936, 2798, 120445, 1957),
        (66513, 110.8, 444546, 4681, 2637, 121950, 1958),
        (68655, 112.6, 482704, 3813, 2552, 123366, 1959),
        (69564, 114.2, 502601, 3931, 2514, 125368, 1960),
        (69331, 115.7, 518173, 4806, 2572, 127852, 1961),
        (70551, 116.9, 554894, 4007, 2827, 130081, 1962),
    ]
)
COEFFICIENTS = (-3482258.63459582, 15.0618722713733, -0.358191792925910e-1, -2.02022980381683, -1.03322686717359,
                -0.511041056535807e-1, 1829.15146461355)  # fmt: skip
STANDARD_ERRORS = (890420.383607373, 84.9149257747669, 0.334910077722432e-1, 0.488399681651699, 0.214274163161675,
                   0.226073200069370, 455.478499142212)  # fmt: skip
DESIGN = np.column_stack([np.ones(16), LONGLEY[:, 1:]])
UNIT = DESIGN.max(axis=0)


def test_least_squares_gives_the_certified_coefficients_and_standard_errors():
    coefficients, errors = least_squares(DESIGN / UNIT, LONGLEY[:, 0], np.ones(16))
    assert coefficients / UNIT == pytest.approx(COEFFICIENTS, rel=1e-8)
    assert errors / UNIT == pytest.approx(STANDARD_ERRORS, rel=1e-8)


def test_a_weight_counts_as_so_many_equal_rows():
    times = np.arange(16) % 3 + 1
    weighted, _ = least_squares(DESIGN / UNIT, LONGLEY[:, 0], times.astype(float))
    repeated, _ = least_squares(np.repeat(DESIGN / UNIT, times, axis=0), np.repeat(LONGLEY[:, 0], times), np.ones(31))
    assert weighted == pytest.approx(repeated, rel=1e-7)


def test_all_weights_times_a_number_are_the_same_weights():
    one = least_squares(DESIGN / UNIT, LONGLEY[:, 0], np.full(16, 2.0))
    other = least_squares(DESIGN / UNIT, LONGLEY[:, 0], np.ones(16))
    assert one[0] == pytest.approx(other[0], rel=1e-7)
    assert one[1] == pytest.approx(other[1], rel=1e-7)


def test_of_dependent_columns_the_shortest_solution_is_taken():
    x = np.arange(1.0, 9.0)
    coefficients, _ = least_squares(np.column_stack([x, x]), 6 * x, np.ones(8))
    assert coefficients == pytest.approx([3, 3])


def test_the_variance_inflation_factors_are_the_diagonal_of_the_inverse_correlations():
    expected = np.diag(np.linalg.inv(np.corrcoef(LONGLEY[:, 1:].T)))
    assert variance_inflation(DESIGN / UNIT) == pytest.approx(expected, rel=1e-8)
    assert expected == pytest.approx([135.53, 1788.51, 33.62, 3.59, 399.15, 758.98], abs=0.005)


def test_a_column_that_follows_from_others_is_inflated_without_bound():
    x, z = np.arange(8.0), np.array([0.0, 3, 1, 2, 5, 4, 7, 9])
    factors = variance_inflation(np.column_stack([np.ones(8), x, z, x + z]))
    assert (factors > 1e12).all()
    assert variance_inflation(np.column_stack([np.ones(8), x, np.full(8, 7.0)]))[0] == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 2, 9, 36, 130])
def test_rows_are_drawn_one_resample_after_the_other_whatever_is_drawn_at_once(n, monkeypatch):
    rng = np.random.default_rng(n)
    sums, base = rng.lognormal(size=(2, n)), rng.lognormal(size=n)
    draws, ratios = np.random.default_rng(5), []
    for _ in range(300):
        drawn = draws.integers(n, size=n)
        ratios.append([column[drawn].sum() / base[drawn].sum() for column in sums])
    expected = np.quantile(ratios, [0.05, 0.95], axis=0).tolist()
    case = {"seed": 5, "resamples": 300, "level": 0.9, "by_row": True}
    assert ratio_intervals(sums, base, **case) == pytest.approx(np.array(expected), rel=1e-12)
    monkeypatch.setattr(stats, "DRAWN_AT_ONCE", 10 * n)
    assert ratio_intervals(sums, base, **case) == pytest.approx(np.array(expected), rel=1e-12)


def test_both_ways_of_drawing_have_one_distribution_and_each_its_own_numbers():
    rng = np.random.default_rng(0)
    sums, base = rng.lognormal(size=(1, 40)), rng.lognormal(size=40)
    rows, counts = (ratio_intervals(sums, base, seed=1, by_row=by_row) for by_row in (True, False))
    assert rows == pytest.approx(counts, rel=0.02)
    assert (rows != counts).all()


def test_equal_values_share_the_mean_of_their_ranks():
    assert ranks(np.array([5.0, 1.0, 5.0, 3.0, 5.0])).tolist() == [4.0, 1.0, 4.0, 2.0, 4.0]


def test_the_rank_correlation_is_one_of_rising_and_minus_one_of_falling_values():
    assert rank_correlation([1, 2, 3], [10, 20, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 0, -7]) == pytest.approx(-1)
    assert np.isnan(rank_correlation([1, 2, 3], [4, 4, 4]))


@pytest.mark.parametrize("seed", range(20))
def test_the_rank_correlation_is_scipys(seed):
    reference = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 9, 30), draw.normal(size=30)
    assert ranks(x.astype(float)).tolist() == reference.rankdata(x).tolist()
    assert rank_correlation(x, y) == pytest.approx(reference.spearmanr(x, y).statistic, abs=1e-12)
