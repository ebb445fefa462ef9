"""Paired comparisons against every way to swap, their calibration, and least squares against certified values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from batfill.base import stats
from batfill.base.stats import (
    Blocks,
    holm,
    in_chains,
    in_pairs,
    least_squares,
    paired,
    signed_least_squares,
    variance_inflation,
)
from batfill.model.policy import PURE, policy_named
from batfill.search.periods import Conditions, costs, read_periods
from studies.ranks import rank_correlation, ranks

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


def by_all_swaps(costs, base, null, level):
    """The interval, by trying ratios, and the p-value: every way to swap, one after the other."""
    signs = np.array(list(itertools.product((1, -1), repeat=len(costs))))

    def p_of(ratio):
        differences = signs * (np.array(costs) - ratio * np.array(base))
        n, mean, spread = len(costs), differences.mean(axis=1), differences.std(axis=1)
        t, skewness = mean / spread, ((differences.T - mean) ** 3).mean(axis=0) / spread**3
        found = np.abs(t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / (6 * n))
        return (found >= found[0] - 1e-9).mean()

    kept = [ratio for ratio in np.linspace(0.5, 2, 301) if p_of(ratio) > 1 - level]
    return min(kept), max(kept), p_of(null)


@pytest.mark.parametrize("seed", range(6))
def test_the_interval_holds_the_ratios_that_swapping_does_not_reject(seed):
    rng = np.random.default_rng(seed)
    base = rng.lognormal(size=8)
    costs = base * rng.uniform(0.5, 1.6, size=8)
    merged = Blocks.of(costs, base)
    (one,) = paired(costs[None], base, seed=0, level=0.8)
    low, high, p = by_all_swaps(merged.costs.tolist(), merged.base.tolist(), 1, 0.8)
    assert (one.low, one.high) == (pytest.approx(low, abs=0.006), pytest.approx(high, abs=0.006))
    assert one.p == p
    assert one.value == pytest.approx(costs.sum() / base.sum())


@pytest.mark.parametrize("seed", range(4))
def test_random_halves_come_close_to_all_of_them(seed):
    rng = np.random.default_rng(seed)
    base = rng.lognormal(size=12)
    costs = base * rng.uniform(0.5, 1.6, size=12)
    (exact,) = paired(costs[None], base, seed=0)
    (drawn,) = paired(costs[None], base, seed=0, resamples=2000)
    assert exact != drawn
    assert (drawn.low, drawn.high, drawn.p) == pytest.approx((exact.low, exact.high, exact.p), abs=0.02)


def test_halves_drawn_bit_by_bit_are_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    costs, base = rng.lognormal(size=(3, 40)), rng.lognormal(size=40)
    at_once = paired(costs, base, seed=3)
    monkeypatch.setattr(stats, "DRAWN_AT_ONCE", 1000)
    assert paired(costs, base, seed=3) == at_once
    assert paired(costs, base, seed=4) != at_once


def heavy(rng, n):
    """Costs of two choices, a few periods of which have most of the cost."""
    level = rng.pareto(1.5, size=n) + 1
    return level * rng.lognormal(sigma=0.4, size=n), level * rng.lognormal(0.1, sigma=0.8, size=n)


def swapped_at_random(rng, one, other):
    """The same two without a difference by construction: in every period, a coin says which is which."""
    swap = rng.random(len(one)) < 0.5
    return np.where(swap, other, one), np.where(swap, one, other)


@pytest.mark.parametrize(("n", "most"), [(24, 0.12), (48, 0.08)])
def test_rare_bad_weeks_that_outweigh_many_gains_are_seldom_called_a_difference(n, most):
    """Skewed differences with a mean of zero; swaps of the plain mean call 15 and 11 of a hundred different."""
    rng, trials, wrong = np.random.default_rng(n), 400, 0
    for _ in range(trials):
        differences = rng.lognormal(0, 1, n) - np.exp(0.5)
        (one,) = paired(differences[None], np.ones(n), null=0, seed=0, resamples=400)
        wrong += one.p <= 0.05
    assert wrong <= most * trials


@pytest.mark.parametrize("n", [7, 12, 24, 91])
def test_of_choices_that_do_not_differ_at_most_six_in_a_hundred_are_called_better_or_worse(n):
    rng, trials = np.random.default_rng(n), 800
    wrong = 0
    for _ in range(trials):
        costs, base = swapped_at_random(rng, *heavy(rng, n))
        (one,) = paired(costs[None], base, seed=0, resamples=400)
        assert (one.verdict == "unclear") == (one.low <= 1 <= one.high)
        wrong += one.verdict != "unclear"
    assert wrong <= 0.06 * trials


@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "HPC2N-2002-2.2-cln"])
def test_the_same_holds_for_the_weeks_of_archive_logs(name, archive_log):
    periods = read_periods(archive_log(f"{name}.swf.gz"), count=48)
    known = costs(periods, [policy_named(policy) for policy in PURE], Conditions())
    rng, trials = np.random.default_rng(1), 500
    for n in (12, 24):
        wrong = 0
        for _ in range(trials):
            one, other = rng.choice(len(PURE), 2, replace=False)
            first = rng.integers(known.shape[1] - n + 1)
            pair = swapped_at_random(rng, *known[[one, other], first : first + n])
            wrong += paired(pair[0][None], pair[1], seed=0, resamples=400)[0].verdict != "unclear"
        assert wrong <= 0.06 * trials


def test_of_many_choices_that_do_not_differ_few_are_called_better_or_worse():
    rng, trials = np.random.default_rng(0), 200
    alone = together = 0
    for _ in range(trials):
        base, _ = heavy(rng, 16)
        costs = np.array([swapped_at_random(rng, base, base * rng.lognormal(sigma=0.5, size=16))[0] for _ in range(10)])
        found = paired(costs, base, seed=0, resamples=400)
        alone += any(one.p <= 0.05 for one in found)
        together += any(one.verdict != "unclear" for one in found)
    assert together <= 0.06 * trials < alone


def test_periods_correlated_with_the_next_are_merged():
    rng = np.random.default_rng(2)
    drift = np.repeat(rng.normal(size=24), 4)
    (one,) = paired((10 + drift)[None], np.full(96, 10.0), seed=0)
    (shuffled,) = paired(rng.permutation(10 + drift)[None], np.full(96, 10.0), seed=0)
    assert (one.merged, one.blocks) == (4, 24)
    assert one.correlation > 0.5
    assert (shuffled.merged, shuffled.blocks) == (1, 96)
    assert one.high - one.low > 1.5 * (shuffled.high - shuffled.low)


def test_an_odd_last_period_joins_the_pair_before_it():
    assert in_pairs(np.arange(1.0, 8)).tolist() == [3, 7, 18]
    assert in_pairs(np.arange(1.0, 7)).tolist() == [3, 7, 11]


def test_the_correction_is_that_of_holm():
    # By hand: 0.01 x 4, then 0.02 x 3, then 0.03 x 2, then 0.9 x 1, none below the one before.
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.6, 0.7]) == [1, 1]
    assert holm([]) == []


def test_planned_chains_are_corrected_for_their_number_and_never_below_one_before():
    # By hand: two chains; 0.01 x 2, then max(0.01, 0.001) x 2; 0.04 x 2, then 0.6 x 2.
    assert in_chains([0.001, 0.6, 0.01, 0.04], [[2, 0], [3, 1]]) == pytest.approx([0.02, 1, 0.02, 0.08])
    assert in_chains([0.03], [[0]]) == [0.03]


def test_the_rank_correlation_of_equal_values_is_unknown():
    assert np.isnan(rank_correlation([1, 2, 3], [4, 4, 4]))


@pytest.mark.parametrize("seed", range(20))
def test_the_rank_correlation_is_scipys(seed):
    reference = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 9, 30), draw.normal(size=30)
    assert ranks(x.astype(float)).tolist() == reference.rankdata(x).tolist()
    assert rank_correlation(x, y) == pytest.approx(reference.spearmanr(x, y).statistic, abs=1e-12)
