"""The comparison of several runs, or of a campaign's choices: an answer, a picture, one table, and who waits longest.

The differences from every possible reference are in the page, so that its reader can choose one. The sentences are in
`assets/sentences.html.j2`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.sums import mean_of
from batfill.base.words import in_a_row, things
from batfill_pages.comparison import CHANGED_S, FEWEST_JOBS
from batfill_pages.single import TIME_BINS
from batfill_pages.stats import BETTER, CONFIDENCE, RESAMPLES, UNCLEAR, WORSE, undecided
from batfill_pages.words import duration_html, html_of, no_break, said, signed, slowdown, units_kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill_pages.comparison import Comparison
    from batfill_pages.stats import Paired

STARVED = 2  # times the reference's longest wait, above which jobs may starve
TODAY = "fcfs"  # the reference at first, if it is among the choices; otherwise the first one
MOST_REFERENCES = 20  # that a reader can choose from; each costs a comparison with every other choice
VERDICTS = {BETTER: "better", WORSE: "worse", UNCLEAR: "cannot tell"}
ALIKE = 3  # choices that the page names as not told apart from the best
MOST_LOSERS = 8  # runs whose losers the page names
STEPS = 8  # of the tail's grid of waits, in each power of ten
SENTENCES = {
    "CHANGED_S": CHANGED_S,
    "FEWEST_JOBS": FEWEST_JOBS,
    "RESAMPLES": RESAMPLES,
    "TIME_BINS": TIME_BINS,
    "UNCLEAR": UNCLEAR,
}


def comparison_title(comparison: Comparison) -> str:
    choices = things(len(comparison.names), "run" if comparison.items == "jobs" else "choice")
    return f"{comparison.log}: {choices} compared" if comparison.log else f"{choices} compared"


def comparison_section(comparison: Comparison, number: int, *, seed: int, alone: bool = True) -> str:
    """The section of one comparison, with its data for the page's script; if it is not `alone`, it has a heading."""
    known = {"v": View(comparison, seed), "number": number, "title": comparison_title(comparison), "alone": alone}
    return html_of("comparison.html.j2", known | SENTENCES)


class View:
    """A comparison as its page shows it, from each possible reference; choices are numbers, in its order."""

    def __init__(self, comparison: Comparison, seed: int) -> None:
        self.of, self.seed = comparison, seed
        self.kind = "run" if comparison.items == "jobs" else "choice"
        self.words = comparison.words or tuple((name, name) for name in comparison.names)
        self.slowdown, self.longest_s = np.array([mean_of(row) for row in comparison.bsld]), comparison.longest_s
        self.mean_s = np.array([mean_of(row) for row in comparison.wait_s])
        self.waits = bool(self.longest_s.max() > 0)
        self.order: list[int] = np.lexsort((self.longest_s, self.slowdown)).tolist()
        self.lowest = self.order[0]
        product = self.slowdown * self.longest_s
        self.both = min(self.order, key=lambda k: float(product[k]))
        shorts = [short for _, short in self.words]
        self.reference = shorts.index(TODAY) if TODAY in shorts else 0
        kept = list(dict.fromkeys([self.reference, self.lowest, self.both, *self.order]))[:MOST_REFERENCES]
        self.references = sorted(kept, key=self.order.index)
        self.pairs = comparison.against([self.lowest, *(k for k in self.references if k != self.lowest)], seed)
        compared = [pair for pair in self.pairs[self.reference] if pair is not None]
        self.few = undecided(compared, comparison.blocks) if compared else None  # the same for each reference

    def said(self, part: str, *given: Any) -> str:
        return said("sentences.html.j2", SENTENCES, part, self, *given)

    # Choices

    def long(self, k: int) -> str:
        return self.words[k][0]

    def short(self, k: int) -> str:
        return self.words[k][1]

    def inside(self, k: int) -> str:
        long = self.long(k)
        return f"{long[0].lower()}{long[1:]}" if " " in long and not long[1].isupper() else long

    def tuned(self, k: int) -> bool:
        return bool(self.of.hindsight) and self.of.hindsight[k]

    def starves(self, k: int, reference: int) -> bool:
        """Whether its longest wait is so much longer than the reference's, if that has any."""
        return bool(k != reference and self.longest_s[k] > STARVED * self.longest_s[reference] > 0)

    def verdict(self, k: int, reference: int) -> str:
        pair = self.pairs[reference][k]
        return UNCLEAR if pair is None else pair.verdict

    def verdict_words(self, k: int, reference: int) -> str:
        if k == reference:
            return ""
        return "the same" if k in self.alike(reference) else VERDICTS[self.verdict(k, reference)]

    def alike(self, reference: int) -> list[int]:
        return [k for k in self.order if np.array_equal(self.of.bsld[k], self.of.bsld[reference])]

    def undecided(self, reference: int) -> str:
        """Why no choice can be called better than the reference; "" if one can."""
        if self.few:
            number, what, *rest = self.few.split()
            return " ".join([no_break(f"{number} {what}"), *rest])
        others = [k for k in self.order if k not in self.alike(reference)]
        if self.lowest == reference or any(self.verdict(k, reference) == BETTER for k in others):
            return ""
        return f"the differences from {self.inside(reference)} may be chance"

    def chosen(self, reference: int) -> int | None:
        """The choice with both in view, to be marked; None if it is the reference, or nothing can be told."""
        return self.both if self.decided(reference) and self.both != reference else None

    def decided(self, reference: int) -> bool:
        return self.waits and not self.undecided(reference) and not self.of.invented

    # What sentences name

    def worse(self, reference: int) -> str:
        """The choices that are worse than the reference beyond chance, in a sentence; "" if there are none."""
        found = [k for k in self.order if k != reference and self.verdict(k, reference) == WORSE]
        pairs = self.pairs[reference]
        said = [f"{no_break(self.short(k))} ({signed(pair.value)})" for k in found[:ALIKE] if (pair := pairs[k])]
        return f"{listed(said, len(found))} {'is' if len(found) == 1 else 'are'} worse" if found else ""

    @property
    def unclear(self) -> str:
        """The choices that cannot be told from the lowest one, with their intervals; "" if there are none."""
        low, pairs = self.lowest, self.pairs[self.lowest]
        found = [(pair, k) for k, pair in enumerate(pairs) if pair and k not in self.alike(low)]
        found = [one for one in found if one[0].verdict == UNCLEAR]
        if self.few or not self.waits or not found:
            return ""
        found.sort(key=lambda one: one[0].value)
        said = [
            f"{no_break(f'{self.short(k)}')} minus {no_break(self.short(low))}: {interval_words(pair)}"
            for pair, k in found[:ALIKE]
        ]
        return listed(said, len(found))

    def killed(self, reference: int) -> list[dict[str, Any]]:
        """Under which runs tries were killed: of how many jobs, and the shares that wait longer and less for it."""
        found = []
        for k in self.order if self.of.whose else ():
            assert self.of.whose is not None
            tries = self.of.whose.kills[k]
            killed = tries > 0
            if not killed.any():
                continue
            later_s = (self.of.wait_s[k] - self.of.wait_s[reference])[killed]
            sides = [float((sign * later_s > CHANGED_S).mean()) for sign in (1, -1)] if k != reference else []
            one = {"name": self.short(k), "share": killed.mean(), "jobs": killed.sum(), "tries": tries.sum()}
            found.append(one | {"sides": sides})
        return found[:ALIKE]

    def losing(self, reference: int) -> list[dict[str, Any]]:
        """For each run the job and the user whose waits grow most, if any do, with the waits in both runs."""
        if (whose := self.of.whose) is None:
            return []
        users, row_of = np.unique(whose.user, return_inverse=True)
        jobs = np.bincount(row_of)
        many, before_s, found = (users >= 0) & (jobs >= FEWEST_JOBS), self.of.wait_s[reference], []
        for k in [k for k in self.order if k != reference][:MOST_LOSERS]:
            wait_s = self.of.wait_s[k]
            one: dict[str, Any] = {"name": self.short(k), "job": None, "most": None}
            row = int((wait_s - before_s).argmax())
            if wait_s[row] > before_s[row]:
                one |= {"job": whose.ids[row], "user": whose.user[row], "procs": int(whose.procs[row])}
                one |= {"waits_s": (wait_s[row], before_s[row]), "place": whose.places[k]}
                mean_s, was_s = (np.bincount(row_of, waits) / jobs for waits in (wait_s, before_s))
                longer_s = np.where(many, mean_s - was_s, -np.inf)
                if longer_s.max() > 0:
                    u = int(longer_s.argmax())
                    one["most"] = {"user": users[u], "jobs": int(jobs[u]), "waits_s": (mean_s[u], was_s[u])}
            found.append(one)
        return found

    def thousandth(self, reference: int) -> tuple[int, list[float]] | None:
        """Another choice, and what one job in a thousand waits at least under it and under the reference."""
        waits_s = self.of.wait_s if self.of.max_wait_s is None else self.of.max_wait_s
        if waits_s.shape[1] < 1000 or self.of.items != "jobs":
            return None
        other = self.lowest if self.lowest != reference else self.both if self.both != reference else self.order[1]
        return other, [float(np.quantile(waits_s[k], 0.999, method="inverted_cdf")) for k in (other, reference)]

    def doubts(self) -> Sequence[str]:
        """Why the intervals may be wrong; that there are too few periods is in the answer."""
        if self.few:
            return ()
        found = {self.short(k): pair for k, pair in enumerate(self.pairs[self.reference]) if pair is not None}
        return self.of.doubts(found)

    @cached_property
    def uses(self) -> list[tuple[str, ...]]:
        """The head and rows of the figures of pools and energy that several choices have; empty without any."""
        uses = [self.of.uses[k] for k in self.order] if self.of.uses else []
        names = dict.fromkeys(name for one in uses for name in one)
        known = [name for name in names if sum(name in one for one in uses) > 1]
        rows = [(name, *(no_break(one.get(name, "–")) for one in uses)) for name in known]
        return [("", *map(self.short, self.order)), *rows] if rows else []

    # The script's data

    def as_dict(self) -> dict[str, Any]:
        waits_s = self.of.wait_s if self.of.max_wait_s is None else self.of.max_wait_s
        grid = tail_grid(float(self.longest_s.max()))
        in_order = np.sort(waits_s, axis=1)
        beyond = waits_s.shape[1] - np.array([np.searchsorted(row, grid, side="right") for row in in_order])
        rows = [
            {"name": units_kept(short), "slowdown": rounded(self.slowdown[k]), "longest": float(self.longest_s[k])}
            | {"tail": beyond[k].tolist()}
            for k, (_, short) in enumerate(self.words)
        ]
        found = {"items": waits_s.shape[1], "blocks": self.of.blocks, "grid": grid, "rows": rows}
        found |= {"lowest": self.lowest, "both": self.both}
        found["references"] = {k: self.against(k) for k in self.references}
        if self.of.courses:  # the queues in equal bins of time
            first, zero = self.of.courses[0], self.of.zero
            bins = {"begin": first.begin_s, "step": first.step_s, "clock": zero.as_dict() if zero else None}
            found["over"] = {**bins, "queues": [one.queue.tolist() for one in self.of.courses]}
        return found

    def against(self, reference: int) -> dict[str, Any]:
        return {
            **{part: self.said(part, reference) for part in ("answer", "tail", "kills", "losers")},
            "chosen": self.chosen(reference),
            "decided": self.decided(reference),
            "label": self.label(reference),
            "cells": [self.cells(k, reference) for k in range(len(self.words))],
            "pairs": [pair and [*map(rounded, (pair.value, pair.low, pair.high))] for pair in self.pairs[reference]],
        }

    def cells(self, k: int, reference: int) -> list[str]:
        return [self.said(cell, k, reference) for cell in ("longest", "difference", "verdict")]

    def label(self, reference: int) -> str:
        figures = [
            f"{self.short(k)} {slowdown(self.slowdown[k])} and {duration_html(self.longest_s[k])}"
            for k in dict.fromkeys([self.lowest, self.both, reference])
        ]
        named = "; ".join(figures)
        return f"{len(self.words)} points, slowdown and longest wait: {named}. The table below has every value."


def interval_words(pair: Paired) -> str:
    if not pair.bounded:
        return signed(pair.value)
    interval = f"{CONFIDENCE:.0%} interval {no_break(f'{slowdown(pair.low)} to {slowdown(pair.high)}')}"
    return f"{signed(pair.value)}, {units_kept(interval.replace('%', ' %'))}"


def listed(said: Sequence[str], of: int) -> str:
    """A list in words: the items in `said`, and how many of the `of` items are not among them."""
    return in_a_row([*said, *([things(of - len(said), "other")] if of > len(said) else [])])


def tail_grid(longest_s: float) -> list[float]:
    """Waits in equal steps of their logarithm, from 1 min, or 1 s if all are short, to beyond the longest."""
    begin_s = 60 if longest_s > 600 else 1
    steps = int(np.ceil(STEPS * np.log10(max(longest_s, 10 * begin_s) / begin_s)))
    return [float(f"{begin_s * 10 ** (k / STEPS):.3g}") for k in range(steps + 1)]


def rounded(value: float) -> float | None:
    return float(f"{value:.8g}") if np.isfinite(value) else None
