"""Uncertainty: paired comparisons with their intervals."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.sums import mean_of, sum_of
from batfill.base.words import things

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
FEWEST_BLOCKS = 12  # below this, intervals are not calibrated (see `paired`)
FEWEST_MERGED = 6  # blocks that merging leaves: below this, no interval at 95 % is bounded
SERIAL_Z = 0.84  # neighbours count as correlated above this many standard errors: in a fifth of the cases by chance
DRAWN_AT_ONCE = 5_000_000  # numbers; bounds the memory for many blocks
FAR = 1e6  # an interval that reaches this many spreads from its value is unbounded
PRECISE = 1e-3  # of the ends, relative to their distance from the value
NEARLY = 1 - 1e-9  # sums of the same numbers in another order are equal up to rounding


@dataclass(frozen=True, slots=True)
class Paired:
    """One choice against another over the same periods, lower being better; see `paired`."""

    value: float  # sum(costs) / sum(base)
    low: float  # the ends of its confidence interval; -inf and inf if there are too few periods for any
    high: float
    p: float  # of a two-sided test that the value is `null`
    corrected_p: float  # the same, corrected for all choices compared together
    null: float  # the value without a difference: 1 for a ratio of costs, 0 for a mean difference
    level: float  # of the interval
    correlation: float  # of the differences of neighbouring periods; nan if they do not vary
    merged: int  # neighbouring periods taken as one block, because they are correlated; 1 if they are not
    blocks: int  # their number

    @property
    def verdict(self) -> str:
        """Better or worse beyond chance, corrected for all choices; else, or below FEWEST_BLOCKS periods, unclear."""
        if self.corrected_p > 1 - self.level or self.periods < FEWEST_BLOCKS:
            return UNCLEAR
        return BETTER if self.value < self.null else WORSE

    @property
    def periods(self) -> int:
        """The most periods that so many blocks hold: the last may have more than the others, but not another block."""
        return self.blocks * self.merged + self.merged - 1

    @property
    def narrow(self) -> bool:
        return self.merged > 1 and self.blocks < FEWEST_BLOCKS

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def as_dict(self) -> dict[str, Any]:
        """For result files; what is unknown or unbounded is None."""
        known = {
            name: value if not isinstance(value, float) or math.isfinite(value) else None
            for name, value in asdict(self).items()
        }
        return {**known, "verdict": self.verdict}


BETTER, WORSE, UNCLEAR = "better", "worse", "unclear"


def paired(
    costs: NDArray[np.float64],
    base: NDArray[np.float64] | NDArray[np.int64],
    *,
    null: float = 1.0,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = CONFIDENCE,
    together: bool = False,
) -> list[Paired]:
    """Each sum(costs[k]) / sum(base) with its confidence interval, a test of `null`, and the correction for all.

    If two choices do not differ, their costs in any period could be swapped. The test swaps them at random: its p-value
    is the share of all ways to swap that give a statistic at least as large, and the interval holds every ratio that
    such a test does not reject. Under that hypothesis the rate of false positives is at most 1 - level for any number
    of periods and any distribution of costs, which the percentile bootstrap misses by far if a few periods carry most
    of the cost. The statistic is the mean difference in units of its spread, corrected for skewness (`skewed_mean`): if
    only the means of two choices are equal, because rare bad periods of one make up for its usual gain, swapping the
    plain mean calls them different much too often.

    Periods whose difference is correlated with the next one's are merged in pairs until that is not so, and swapped
    together. Sources: Fisher, The Design of Experiments, 1935 (swapping); Hall, Journal of the Royal Statistical
    Society B 1992 (the correction for skewness); Holm, Scandinavian Journal of Statistics 1979 (that for many choices).

    `costs`, (n_choices, n_periods), and `base` >= 0, (n_periods,), are by period in order of time: for mean
    differences, their sums and the numbers of items. `null`: the value without a difference, 1 for a ratio of costs, 0
    for a mean difference. `level`: of the intervals; 1 - level is that of the verdicts. `together`: correct the
    intervals as the p-values are, so that one holds the null if and only if its verdict is unclear.
    """
    blocks = [Blocks.of(row, np.asarray(base, np.float64)) for row in np.asarray(costs, np.float64)]
    swaps = swaps_of(blocks, seed, resamples)
    p = [mine.p(null) for mine in swaps]
    corrected_p = holm(p)
    return [
        Paired(
            one.value,
            *mine.interval((1 - level) * (alone / corrected if together else 1), null),
            alone,
            corrected,
            null=null,
            level=level,
            correlation=one.correlation,
            merged=one.merged,
            blocks=len(one.base),
        )
        for one, mine, alone, corrected in zip(blocks, swaps, p, corrected_p, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The costs of one choice and of the other, by block of neighbouring periods."""

    costs: NDArray[np.float64]  # (n_blocks,)
    base: NDArray[np.float64]  # (n_blocks,)
    correlation: float  # of the differences of neighbouring periods, before any were merged
    merged: int  # periods of a block

    @classmethod
    def of(cls, costs: NDArray[np.float64], base: NDArray[np.float64]) -> Blocks:
        """Merge neighbours in pairs while their differences are correlated and enough blocks are left."""
        value = costs.sum() / base.sum()
        first = correlation = neighbours(costs - value * base)
        merged = 1
        while correlation > SERIAL_Z / math.sqrt(len(base)) and len(base) // 2 >= FEWEST_MERGED:
            costs, base, merged = in_pairs(costs), in_pairs(base), 2 * merged
            correlation = neighbours(costs - value * base)
        return cls(costs, base, first, merged)

    @property
    def value(self) -> float:
        return float(self.costs.sum() / self.base.sum())


def neighbours(differences: NDArray[np.float64]) -> float:
    centred = differences - mean_of(differences)
    squares = sum_of(centred**2)
    return sum_of(centred[1:] * centred[:-1]) / squares if squares > 0 else math.nan


def in_pairs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of neighbouring pairs; a last one without a neighbour joins the pair before it."""
    firsts = np.arange(0, len(values) - 1, 2)
    return np.add.reduceat(values, firsts)


@dataclass(frozen=True, slots=True, eq=False)
class Swaps:
    """All ways to swap two choices, or a sample; the first swaps nothing.

    With e = costs - value base, the cost's residual, a difference from any ratio is e - (ratio - value) base, and its
    sums are polynomials in the ratio of these:
    """

    value: float
    n: int  # blocks
    linear: NDArray[np.float64]  # (2, n_swaps)  signed sums of e and base
    cubic: NDArray[np.float64]  # (4, n_swaps)  signed sums of e^3, e^2 base, e base^2, base^3
    squares: NDArray[np.float64]  # (3,)  sums of e^2, e base, base^2

    def p(self, ratio: float) -> float:
        """The share of the ways to swap whose statistic, for this ratio as null, is no smaller than the observed."""
        step = ratio - self.value
        square = float(self.squares @ (1, -2 * step, step**2)) / self.n
        if square <= 0:
            return 1.0
        mean = (self.linear[0] - step * self.linear[1]) / self.n
        rest = 3 * self.cubic[1] - step * (3 * self.cubic[2] - step * self.cubic[3])
        found = np.abs(skewed_mean(mean, square, (self.cubic[0] - step * rest) / self.n, self.n))
        return float(np.count_nonzero(found >= NEARLY * found[0]) / len(found))

    def interval(self, alpha: float, null: float) -> tuple[float, float]:
        known = {null: self.p(null)}
        return self.end(-1, alpha, known), self.end(1, alpha, known)

    def end(self, side: int, alpha: float, known: Mapping[float, float]) -> float:
        """The end on one side; it agrees with the p-values that are known."""
        unit = math.sqrt(max(float(self.squares[0]), 0.0) / float(self.squares[2]))
        scale = max(1.0, abs(self.value))
        if self.p(self.value + side * FAR * max(unit, scale)) > alpha:
            return side * math.inf
        if unit <= 1e-12 * scale:
            return self.value
        beyond = {side * (ratio - self.value): p for ratio, p in known.items()}
        inside = max((step for step, p in beyond.items() if step > 0 and p > alpha), default=0.0)
        outside = min((step for step, p in beyond.items() if step > inside and p <= alpha), default=math.inf)
        # The logarithm of p is near to a parabola: interpolated between these, and halved where that is slow.
        above, below = beyond.get(inside, 1.0), beyond.get(outside, alpha)
        step = max(2 * unit / math.sqrt(self.n), 2 * inside)
        while outside == math.inf:
            p = self.p(self.value + side * step)
            if p > alpha:
                inside, above, step = step, p, 2 * step
            else:
                outside, below = step, p
        halve = False
        while outside - inside > PRECISE * outside:
            part = 0.5 if halve or above == below else math.log(above / alpha) / math.log(above / below)
            step = inside + (outside - inside) * min(max(part, 0.02), 0.98)
            p, halve = self.p(self.value + side * step), not halve
            if p > alpha:
                inside, above = step, p
            else:
                outside, below = step, p
        return self.value + side * inside


def swaps_of(blocks: Sequence[Blocks], seed: int, resamples: int) -> list[Swaps]:
    """The ways to swap for each; see `random_halves`. Blocks without any cost are left out: they say nothing."""
    kept = [(one, (one.costs != 0) | (one.base != 0)) for one in blocks]
    parts = [(one.costs[rows] - one.value * one.base[rows], one.base[rows]) for one, rows in kept]
    columns = [np.array([e, b, e**3, e**2 * b, e * b**2, b**3]) for e, b in parts]
    found: dict[int, NDArray[np.float64]] = {}
    for n in {each.shape[1] for each in columns}:
        members = [k for k, each in enumerate(columns) if each.shape[1] == n]
        together = np.concatenate([columns[k] for k in members])
        # Not by matrix products, whose last bits differ between processors.
        halves = random_halves(n, seed, resamples)
        sums = 2 * np.concatenate([np.einsum("sn,kn->ks", half, together) for half in halves], axis=1)
        sums -= together.sum(axis=1, keepdims=True)
        found |= dict(zip(members, sums.reshape(len(members), 6, -1), strict=True))
    return [
        Swaps(one.value, len(e), found[k][:2], found[k][2:], np.array([e @ e, e @ b, b @ b]))
        for k, ((one, _), (e, b)) in enumerate(zip(kept, parts, strict=True))
    ]


def skewed_mean(mean: NDArray[np.float64], square: float, cube: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """A mean in units of the spread, corrected for skewness so that both tails are alike: Hall's transformation.

    It rises with the mean. Source: Hall, Journal of the Royal Statistical Society B 1992, equation 2.1. The arguments
    are the means of n values, of their squares, which swapping does not change, and of their cubes, and n.
    """
    # Without variance, rounding alone makes the skewness, which leaves the mean far beyond all others.
    scale = 1 / np.sqrt(np.maximum(square - mean * mean, 1e-9 * square))
    t = mean * scale
    skewness = (cube - mean * (3 * square - 2 * mean * mean)) * (scale * scale * scale)
    bend = skewness * t / 3
    made: NDArray[np.float64] = t * (1 + bend * (1 + bend / 3)) + skewness / (6 * n)
    return made


def random_halves(n: int, seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    """Indicators, (n_subsets, n), of all subsets but complements, or of a sample; the first is of all blocks."""
    if 2 ** (n - 1) <= resamples:
        number = np.arange(2 ** (n - 1), dtype=np.int64)[:, None]
        yield np.column_stack([np.ones(len(number)), 1.0 - (number >> np.arange(n - 1) & 1)])
        return
    yield np.ones((1, n))
    rng = np.random.default_rng(seed)
    at_once = max(1, DRAWN_AT_ONCE // n)
    for first in range(1, resamples, at_once):
        yield rng.integers(2, size=(min(at_once, resamples - first), n), dtype=np.int8).astype(np.float64)


def holm(p: Sequence[float]) -> list[float]:
    """The p-values, corrected so that the chance of any false positive among them all stays below the level."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(np.asarray(p, np.float64)[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1)
    return corrected.tolist()


def undecided(compared: Sequence[Paired], what: str) -> str | None:
    """Why these comparisons cannot decide; None if one can: few periods, or few once merged, even if all said the same.

    They are those that `paired` made together, at least one: none is corrected more than the first. `what` are periods.
    """
    n, blocks, periods = len(compared), max(one.blocks for one in compared), max(one.periods for one in compared)
    if periods < FEWEST_BLOCKS:
        return f"{things(periods, what.removesuffix('s'))} {'are' if periods > 1 else 'is'} too few"
    if n * 2.0 ** (1 - blocks) > 1 - CONFIDENCE + 1e-9:
        return f"{blocks} independent groups of {what} are too few for {things(n, 'comparison')}"
    return None


def comparison_warnings(compared: Mapping[str, Paired], blocks: int, what: str) -> tuple[str, ...]:
    """Why the comparisons of these blocks, called `what`, may be wrong, a line each: too few, perhaps once merged."""
    if blocks < FEWEST_BLOCKS:
        few = f"below {FEWEST_BLOCKS}, every verdict is unclear and intervals are not calibrated"
        return (f"too few {what} ({blocks}): {few}",)
    if not (merged := [name for name, one in compared.items() if one.narrow]):
        return ()
    return (
        f"neighbouring {what} are correlated; taken together, fewer than {FEWEST_BLOCKS} are left to compare "
        f"{', '.join(merged)}: the intervals may be too narrow",
    )
