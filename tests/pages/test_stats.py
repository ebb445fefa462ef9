"""Paired comparisons against every way to swap, and their calibration."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from batfill_pages import stats
from batfill_pages.stats import Blocks, holm, paired
from strategies import swapped_at_random
from sweeps import LATER


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


def heavy(rng, n):
    """Costs of two choices, a few periods of which have most of the cost."""
    level = rng.pareto(1.5, size=n) + 1
    return level * rng.lognormal(sigma=0.4, size=n), level * rng.lognormal(0.1, sigma=0.8, size=n)


@pytest.mark.parametrize("n", [7, LATER(12), 24, LATER(91)])
def test_of_choices_that_do_not_differ_at_most_six_in_a_hundred_have_a_p_below_5_percent(n):
    rng, trials = np.random.default_rng(n), 800
    wrong = 0
    for _ in range(trials):
        costs, base = swapped_at_random(rng, *heavy(rng, n))
        (one,) = paired(costs[None], base, seed=0, resamples=400)
        assert (one.corrected_p > 0.05) == (one.low <= 1 <= one.high)
        assert (one.verdict == "unclear") == (one.corrected_p > 0.05 or n < 12)
        wrong += one.corrected_p <= 0.05
    assert wrong <= 0.06 * trials


def test_of_many_choices_that_do_not_differ_few_are_called_better_or_worse():
    rng, trials = np.random.default_rng(0), 100
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


def test_the_correction_is_that_of_holm():
    # By hand: 0.01 x 4, then 0.02 x 3, then 0.03 x 2, then 0.9 x 1, none below the one before.
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.6, 0.7]) == [1, 1]
    assert holm([]) == []


def some(**changed):
    """A comparison that is better beyond chance."""
    return replace(stats.Paired(0.8, 0.7, 0.9, 0.001, 0.01, 1.0, 0.95, 0.0, 1, 30), **changed)


@pytest.mark.parametrize(
    ("changed", "others", "verdict", "why"),
    [
        ({}, 7, "better", None),
        ({"blocks": 12}, 1, "better", None),
        ({"blocks": 11}, 1, "unclear", "11 weeks are too few"),
        ({"blocks": 1, "corrected_p": 1.0}, 1, "unclear", "1 week is too few"),
        ({"blocks": 6, "merged": 2}, 1, "better", None),  # 12 or 13 weeks
        ({"blocks": 6, "merged": 2}, 2, "better", "6 independent groups of weeks are too few for 2 comparisons"),
        ({"corrected_p": 0.051}, 1, "unclear", None),
    ],
)
def test_one_rule_says_what_is_beyond_chance_and_whether_a_log_can_decide(changed, others, verdict, why):
    one = some(**changed)
    assert one.verdict == verdict
    assert stats.undecided([one] * others, "weeks") == why
