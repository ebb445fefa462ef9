"""Least squares against certified values and the conditions of an optimum."""

from __future__ import annotations

import numpy as np
import pytest

from batfill_lab.learning.regression import least_squares, signed_least_squares, variance_inflation

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
DESIGN = np.column_stack([np.ones(16), LONGLEY[:, 1:]])
UNIT = DESIGN.max(axis=0)


ALONE = np.arange(16)


def test_least_squares_gives_the_certified_coefficients():
    coefficients, _ = least_squares(DESIGN / UNIT, LONGLEY[:, 0], np.ones(16), ALONE)
    assert coefficients / UNIT == pytest.approx(COEFFICIENTS, rel=1e-8)


def test_a_weight_counts_as_so_many_equal_rows():
    times = np.arange(16) % 3 + 1
    weighted, errors = least_squares(DESIGN / UNIT, LONGLEY[:, 0], times.astype(float), ALONE)
    rows = np.repeat(ALONE, times)
    repeated, same = least_squares((DESIGN / UNIT)[rows], LONGLEY[rows, 0], np.ones(31), rows)
    assert weighted == pytest.approx(repeated, rel=1e-7)
    assert errors == pytest.approx(same, rel=1e-6)


def test_of_dependent_columns_the_shortest_solution_is_taken():
    x = np.arange(1.0, 9.0)
    coefficients, errors = least_squares(np.column_stack([x, x]), 6 * x, np.ones(8), np.arange(8))
    assert coefficients == pytest.approx([3, 3])
    assert errors == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize("groups", [ALONE, ALONE // 4, np.array([3, 1, 2, 1] * 4), np.array([7] * 5 + [1] * 11)])
def test_standard_errors_are_those_of_refits_without_each_group(groups):
    x, y, weights = DESIGN[:, [0, 1, 3]] / UNIT[[0, 1, 3]], LONGLEY[:, 0], 1.0 + ALONE
    coefficients, errors = least_squares(x, y, weights, groups)
    total = 0.0
    for group in set(groups.tolist()):
        rows = groups != group
        root = np.sqrt(weights[rows])
        total += (np.linalg.lstsq(x[rows] * root[:, None], y[rows] * root)[0] - coefficients) ** 2
    n = len(set(groups.tolist()))
    assert errors == pytest.approx(np.sqrt(total * (n - 1) / n), rel=1e-7)


def test_what_one_group_alone_determines_has_no_error_that_is_known():
    x = np.column_stack([np.ones(6), [0, 0, 0, 0, 1, 3]])
    _, errors = least_squares(x, np.array([1.0, 2, 1, 3, 2, 2]), np.ones(6), np.array([0, 0, 1, 1, 2, 2]))
    assert np.isfinite(errors[0])
    assert errors[1] == np.inf
    _, errors = least_squares(x, np.array([1.0, 2, 1, 3, 2, 2]), np.ones(6), np.zeros(6, int))
    assert errors.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("seed", range(20))
def test_signed_least_squares_satisfies_the_conditions_of_an_optimum(seed):
    rng = np.random.default_rng(seed)
    x, y, weights = rng.normal(size=(30, 4)), rng.normal(size=30), rng.uniform(1, 2, 30)
    signs = rng.choice([-1, 1], 4)
    found = signed_least_squares(x, y, weights, signs.tolist())
    gradient = x.T @ (weights * (y - x @ found)) * signs  # how much the fit would gain from more of each
    assert (found * signs >= 0).all()
    assert gradient[found != 0] == pytest.approx(0, abs=1e-9)
    assert (gradient[found == 0] <= 1e-9).all()


def test_the_variance_inflation_factors_are_the_diagonal_of_the_inverse_correlations():
    expected = np.diag(np.linalg.inv(np.corrcoef(LONGLEY[:, 1:].T)))
    assert variance_inflation(DESIGN / UNIT) == pytest.approx(expected, rel=1e-8)
    assert expected == pytest.approx([135.53, 1788.51, 33.62, 3.59, 399.15, 758.98], abs=0.005)


def test_a_column_that_follows_from_others_is_inflated_without_bound():
    x, z = np.arange(8.0), np.array([0.0, 3, 1, 2, 5, 4, 7, 9])
    factors = variance_inflation(np.column_stack([np.ones(8), x, z, x + z]))
    assert (factors > 1e12).all()
    assert variance_inflation(np.column_stack([np.ones(8), x, np.full(8, 7.0)]))[0] == pytest.approx(1)
