"""How often a comparison calls two policies different that are not, on the weeks of real logs.

`python -m studies.tables.calibration LOG... > table.md`, a few minutes for six logs. A log is cut into weeks as by
`batfill tune`, and the twelve pure policies are replayed on each. Trials take two policies and some weeks in a row, and

- swap the two at random in every week, so that they do not differ: whatever is called different then is an error;
- draw weeks of the whole log at random, and see whether the interval misses the ratio over the whole log. A log's few
  worst weeks, if they are not among those drawn, cannot be in any interval.

Both for `batfill.stats.paired` and for the percentile bootstrap, which it replaced. A second table has normal
differences without a mean, each correlated with the one before. The seed is 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from batfill import __version__
from batfill.policy import PURE, policy_named
from batfill.stats import paired
from batfill.tuning.periods import Conditions, costs, read_periods

LENGTHS = (7, 12, 24, 91)  # weeks
TRIALS = 2000
RESAMPLES = 1000


def bootstrap(one, other, rng):
    """The 95 % percentile interval of the ratio of the sums."""
    drawn = rng.multinomial(len(one), np.full(len(one), 1 / len(one)), RESAMPLES)
    return np.quantile((drawn @ one) / (drawn @ other), [0.025, 0.975])


def typical(one, other, rng):
    """The interval of `paired`."""
    (found,) = paired(one[None], other, seed=int(rng.integers(2**31)), resamples=RESAMPLES)
    return found.low, found.high


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
            for method, interval in enumerate((bootstrap, typical)):
                low, high = interval(*pair, rng)
                wrong[k, method] += not low <= ratio <= high
    return 100 * wrong / TRIALS


def correlated(correlation, n, rng):
    """The share of trials in per cent in which autocorrelated differences without a mean are called different."""
    wrong = 0
    for _ in range(TRIALS):
        noise = rng.normal(size=n + 50)
        for i in range(1, n + 50):
            noise[i] += correlation * noise[i - 1]
        (found,) = paired(noise[None, 50:], np.ones(n), null=0, seed=int(rng.integers(2**31)), resamples=RESAMPLES)
        wrong += found.p <= 0.05
    return 100 * wrong / TRIALS


def main(paths):
    """Print the tables."""
    print(
        f"<!-- studies.tables.calibration, batfill {__version__}, seed 0, {TRIALS:,} trials, "
        f"{RESAMPLES:,} resamples -->"
    )
    print("| log | weeks | swapped: bootstrap | swapped: `paired` | drawn: bootstrap | drawn: `paired` |")
    print("|---|---|---|---|---|---|")
    for path in paths:
        periods = read_periods(path)
        known = costs(periods, [policy_named(name) for name in PURE], Conditions())
        for n in LENGTHS:
            if n <= known.shape[1]:
                (was, now), (was_drawn, now_drawn) = misses(known, n, np.random.default_rng(0))
                figures = " | ".join(f"{share:.1f} %" for share in (was, now, was_drawn, now_drawn))
                print(f"| {path.name.partition('-cln')[0]} | {n} of {known.shape[1]} | {figures} |", flush=True)
    lengths = (12, 24, 48, 96)
    print("\n| correlation of neighbours | " + " | ".join(f"{n} weeks" for n in lengths) + " |")
    print("|---" * (1 + len(lengths)) + "|")
    for correlation in (0.0, 0.2, 0.4, 0.6):
        figures = " | ".join(f"{correlated(correlation, n, np.random.default_rng(0)):.1f} %" for n in lengths)
        print(f"| {correlation:g} | {figures} |", flush=True)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
