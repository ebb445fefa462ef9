"""How often a comparison calls two policies different that are not, on the weeks of real logs.

`python -m studies.tables.calibration LOG... > table.md`, a few minutes for six logs. A log is cut into weeks as by
`batfill tune`, and the twelve pure policies are replayed on each. Trials take two policies and some weeks in a row, and

- swap the two at random in every week, so that they do not differ: whatever is called different then is an error;
- draw weeks of the whole log at random, and see whether the interval misses the ratio over the whole log. A log's few
  worst weeks, if they are not among those drawn, cannot be in any interval.

Both for `batfill_pages.stats.paired` and for the percentile bootstrap. A second table has normal differences without a
mean, each correlated with the one before. A third has independent skewed differences, for `paired`, for swaps of the
plain mean, which it used before, and for the bootstrap of the studentised mean: how often a mean of zero is called a
difference, and how often a gain is. Without logs the last two are printed. The seed is 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from batfill.base.version import __version__
from batfill.model.policy import PURE, policy_named
from batfill_lab.search.periods import Conditions, costs, read_periods
from batfill_pages.stats import Blocks, random_halves, swaps_of
from studies.papers.page import markdown

LENGTHS = (7, 12, 24, 91)  # weeks
TRIALS = 2000
RESAMPLES = 1000


def bootstrap(one, other, rng):
    """The 95 % percentile interval of the ratio of the sums."""
    drawn = rng.multinomial(len(one), np.full(len(one), 1 / len(one)), RESAMPLES)
    return np.quantile((drawn @ one) / (drawn @ other), [0.025, 0.975])


def rejects(costs, base, null, rng):
    """Whether `paired` calls the ratio of the sums different from this one; its interval agrees."""
    (swaps,) = swaps_of([Blocks.of(costs, np.asarray(base, np.float64))], int(rng.integers(2**31)), RESAMPLES)
    return swaps.p(null) <= 0.05


def misses(known, n, rng):
    """The shares of the trials in which each interval errs, in per cent: swapped and drawn, by method."""
    wrong = np.zeros((2, 2))
    for _ in range(TRIALS):
        a, b = rng.choice(len(known), 2, replace=False)
        first = rng.integers(known.shape[1] - n + 1)
        swap = rng.random(n) < 0.5
        week_a, week_b = known[a, first : first + n], known[b, first : first + n]
        swapped = np.where(swap, week_b, week_a), np.where(swap, week_a, week_b)
        weeks = rng.integers(known.shape[1], size=n)
        drawn = known[a, weeks], known[b, weeks]
        for k, (pair, ratio) in enumerate([(swapped, 1.0), (drawn, known[a].sum() / known[b].sum())]):
            low, high = bootstrap(*pair, rng)
            wrong[k] += not low <= ratio <= high, rejects(*pair, ratio, rng)
    return 100 * wrong / TRIALS


def correlated(correlation, n, rng):
    """The share of trials in per cent in which autocorrelated differences without a mean are called different."""
    wrong = 0
    for _ in range(TRIALS):
        noise = rng.normal(size=n + 50)
        for i in range(1, n + 50):
            noise[i] += correlation * noise[i - 1]
        wrong += rejects(noise[50:], np.ones(n), 0, rng)
    return 100 * wrong / TRIALS


def plain(differences, rng):
    """Whether swaps of the mean reject 0."""
    halves = np.concatenate(list(random_halves(len(differences), int(rng.integers(2**31)), RESAMPLES)))
    sums = np.abs((2 * halves - 1) @ differences)
    return (sums >= sums[0] * (1 - 1e-9)).mean() <= 0.05


def studentised(differences, rng):
    """Whether the bootstrap of the studentised mean rejects 0."""
    drawn = differences[rng.integers(len(differences), size=(RESAMPLES, len(differences)))]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (drawn.mean(axis=1) - differences.mean()) / drawn.std(axis=1)
    low, high = np.quantile(np.nan_to_num(t), [0.025, 0.975])
    return not low <= differences.mean() / differences.std() <= high


def ours(differences, rng):
    """Whether `paired` rejects 0."""
    return rejects(differences, np.ones(len(differences)), 0, rng)


def lognormal(sigma, mean):
    """Skewed differences: mostly gains of one, and a few weeks with a loss of much more."""
    return lambda n, rng: rng.lognormal(0, sigma, n) - np.exp(sigma**2 / 2) * (1 - mean)


SKEWED = {
    "no difference: normal": lambda n, rng: rng.normal(size=n),
    "no difference: lognormal, sigma 1": lognormal(1, 0),
    "no difference: lognormal, sigma 1.5": lognormal(1.5, 0),
    "no difference: ten times the gain lost in one week of eleven": lambda n, rng: (
        np.where(rng.random(n) < 1 / 11, 10.0, -1.0) + rng.normal(0, 0.3, n)
    ),
    "a gain: normal, 0.6 of its spread": lambda n, rng: rng.normal(-0.6, 1, n),
    "a gain: lognormal, sigma 1, by its mean": lognormal(1, -1),
    "a gain: the same, mirrored": lambda n, rng: np.exp(0.5) * 0.6 - rng.lognormal(0, 1, n),
}


def called_different(draw, n, rng):
    """The shares of trials in per cent in which each method calls these differences one."""
    wrong = np.zeros(3)
    for _ in range(TRIALS):
        differences = draw(n, rng)
        wrong += [method(differences, rng) for method in (plain, studentised, ours)]
    return 100 * wrong / TRIALS


def main(paths):
    """Print the tables."""
    print(
        f"<!-- studies.tables.calibration, batfill {__version__}, seed 0, {TRIALS:,} trials, "
        f"{RESAMPLES:,} resamples -->"
    )
    if paths:
        head = ("log", "weeks", "swapped: bootstrap", "swapped: `paired`", "drawn: bootstrap", "drawn: `paired`")
        print(markdown(head, log_rows(paths)))
    lengths = (12, 24, 48, 96)
    rows = [
        (f"{c:g}", *(f"{correlated(c, n, np.random.default_rng(0)):.1f} %" for n in lengths))
        for c in (0.0, 0.2, 0.4, 0.6)
    ]
    print(f"\n{markdown(('correlation of neighbours', *(f'{n} weeks' for n in lengths)), rows)}")
    rows = [
        (name, f"{n}", *(f"{share:.1f} %" for share in called_different(draw, n, np.random.default_rng(0))))
        for name, draw in SKEWED.items()
        for n in lengths
    ]
    print(f"\n{markdown(('weekly differences', 'weeks', 'plain swaps', 'bootstrap-t', '`paired`'), rows)}")


def log_rows(paths):
    """The shares of errors on the weeks of each log, by their number."""
    for path in paths:
        periods = read_periods(path)
        known = costs(periods, [policy_named(name) for name in PURE], Conditions())
        for n in LENGTHS:
            if n <= known.shape[1]:
                (was, now), (was_drawn, now_drawn) = misses(known, n, np.random.default_rng(0))
                figures = (f"{share:.1f} %" for share in (was, now, was_drawn, now_drawn))
                yield path.name.partition("-cln")[0], f"{n} of {known.shape[1]}", *figures


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
