"""The comparison of several runs, or of a campaign's choices: an answer, a picture, one table, and who waits longest.

The differences from every possible reference are in the page, so that its reader can choose one.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.sums import mean_of
from batfill.base.words import in_a_row, percent, things
from batfill_pages.comparison import CHANGED_S, FEWEST_JOBS
from batfill_pages.single import TIME_BINS
from batfill_pages.stats import (
    BETTER,
    CONFIDENCE,
    RESAMPLES,
    UNCLEAR,
    WORSE,
    undecided,
)
from batfill_pages.words import (
    code,
    count,
    described,
    duration_html,
    folded,
    growth,
    guide,
    job_link,
    no_break,
    policy_html,
    signed,
    slowdown,
    table,
    terms,
    units_kept,
    warning_paragraphs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batfill_pages.comparison import Comparison, Whose
    from batfill_pages.stats import Paired

STARVED = 2  # times the reference's longest wait, above which jobs may starve
TODAY = "fcfs"  # the reference at first, if it is among the choices; otherwise the first one
MOST_REFERENCES = 20  # that a reader can choose from; each costs a comparison with every other choice
VERDICTS = {BETTER: "better", WORSE: "worse", UNCLEAR: "cannot tell"}
ALIKE = 3  # choices that the page names as not told apart from the best
MOST_LOSERS = 8  # runs whose losers the page names
STEPS = 8  # of the tail's grid of waits, in each power of ten


def comparison_title(comparison: Comparison) -> str:
    """What is compared, for a heading."""
    choices = things(len(comparison.names), "run" if comparison.items == "jobs" else "choice")
    return f"{comparison.log}: {choices} compared" if comparison.log else f"{choices} compared"


def comparison_section(comparison: Comparison, number: int, *, seed: int, alone: bool = True) -> str:
    """The section of one comparison, with its data for the page's script; if it is not `alone`, it has a heading."""
    view = View(comparison, seed)
    kills = view.kills(view.reference)
    heading, part = ("", "h2") if alone else (f"<h2>{escape(comparison_title(comparison))}</h2>", "h3")
    about = "" if alone else f'<p class="log">{escape(comparison.about)}</p>'
    items = comparison.items
    runs, tail = ("runs", "a wait longer than") if items == "jobs" else ("choices", "a longest wait over")
    parts = [
        f"{heading}{about}",
        f'<p class="answer" aria-live="polite">{view.answer(view.reference)}</p>',
        f'<p class="log">{view.alike()}</p>',
        f'<p class="log kills">{kills}</p>' if kills else "",
        warning_paragraphs([*comparison.warnings, *view.doubts()]),
        terms(dict(comparison.made).get("tau", ""), tries=bool(kills)),
        chart("tradeoff", "Slowdown and longest wait", "lower left is better"),
        '<p class="note">Logarithmic axis of waits. Dashed: none is better on both. Shaded: the longest wait is more '
        'than twice the reference\'s.<span class="unnamed"></span></p></figure>',
        f"<{part}>All {runs}, lowest slowdown first</{part}>",
        view.selector(),
        view.table(),
        view.notes(),
        view.uses(part),
        f'<{part}>Who loses most, against <span class="base">{escape(view.words[view.reference][1])}</span></{part}>'
        f'<ul class="losers">{view.losers(view.reference)}</ul>'
        if comparison.whose
        else "",
        *(view.tails(number, part, tail) if view.waits else []),
        *(view.queues(part) if comparison.courses and view.waits else []),
    ]
    data = json.dumps(view.as_dict(), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    return "\n".join(
        [
            f'<section class="comparison" id="comparison-{number}">',
            units_kept("\n".join(parts)),
            folded("Commands of the runs", code("\n".join(comparison.commands))) if comparison.commands else "",
            units_kept(folded("Log and engine", described(comparison.made))) if comparison.made else "",
            f'<script type="application/json">{data}</script></section>',
        ]
    )


def chart(kind: str, title: str, remark: str, label: str = "") -> str:
    """The beginning of a figure, with the place where the script draws it."""
    return (
        f'<figure><p class="chart-title">{title} <span>· {remark}</span></p>'
        f'<div class="chart {kind}" data-label="{label}"></div>'
        "<noscript><p>The picture needs JavaScript.</p></noscript>"
    )


class View:
    """A comparison as its page shows it: names, figures, and the differences from each possible reference."""

    def __init__(self, comparison: Comparison, seed: int) -> None:
        self.of, self.seed = comparison, seed
        self.words = comparison.words or tuple((name, name) for name in comparison.names)
        self.slowdown, self.longest_s = np.array([mean_of(row) for row in comparison.bsld]), comparison.longest_s
        self.mean_s = np.array([mean_of(row) for row in comparison.wait_s])
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
        self.shown = {self.reference, self.lowest, self.both}

    # Sentences

    def verdict(self, k: int, reference: int) -> str:
        """The verdict on a choice over the reference."""
        pair = self.pairs[reference][k]
        return UNCLEAR if pair is None else pair.verdict

    def verdict_words(self, k: int, reference: int) -> str:
        """The verdict in the table."""
        if self.same(k, reference):
            return "the same"
        return VERDICTS[self.verdict(k, reference)]

    def undecided(self, reference: int) -> str:
        """Why no choice can be called better than the reference; "" if one can."""
        if self.few:
            number, what, *rest = self.few.split()
            return " ".join([no_break(f"{number} {what}"), *rest])
        others = [k for k in self.order if k != reference and not self.same(k, reference)]
        if self.lowest == reference or any(self.verdict(k, reference) == BETTER for k in others):
            return ""
        return f"the differences from {self.inside(reference)} may be chance"

    def worse(self, reference: int) -> str:
        """The choices that are worse than the reference beyond chance, in a sentence; "" if there are none."""
        found = [k for k in self.order if k != reference and self.verdict(k, reference) == WORSE]
        pairs = self.pairs[reference]
        said = [f"{no_break(self.words[k][1])} ({signed(pair.value)})" for k in found[:ALIKE] if (pair := pairs[k])]
        return f"{listed(said, len(found))} {'is' if len(found) == 1 else 'are'} worse" if found else ""

    def same(self, k: int, other: int) -> bool:
        """Whether each item has the same slowdown under both choices."""
        return np.array_equal(self.of.bsld[k], self.of.bsld[other])

    def chosen(self, reference: int) -> int | None:
        """The choice with both in view, to be marked; None if it is the reference, or nothing can be told."""
        return self.both if self.decided(reference) and self.both != reference else None

    def decided(self, reference: int) -> bool:
        """Whether the figures tell the choices apart, and may be trusted."""
        return self.waits and not self.undecided(reference) and not self.of.invented

    @property
    def waits(self) -> bool:
        """Whether any job waits."""
        return bool(self.longest_s.max() > 0)

    def inside(self, k: int) -> str:
        """The name in words inside a sentence, as HTML."""
        long, _ = self.words[k]
        lower = f"{long[0].lower()}{long[1:]}" if " " in long and not long[1].isupper() else long
        return escape(lower)

    def called(self, k: int) -> str:
        """The name in words, and the short one, inside a sentence."""
        long, short = self.words[k]
        hindsight = ", tuned on this log" if self.tuned(k) else ""
        return f"{self.inside(k)} ({no_break(short)}{hindsight})" if short != long or hindsight else self.inside(k)

    def tuned(self, k: int) -> bool:
        """Whether the choice was learned from the log at hand."""
        return bool(self.of.hindsight) and self.of.hindsight[k]

    def answer(self, reference: int) -> str:
        """The answer against this reference, as HTML; if the figures cannot be trusted, that comes first."""
        found = self.finding(reference)
        if not self.of.invented:
            return found
        jobs = escape(self.of.invented[0].partition(":")[0])
        return f'<strong class="pays">Do not choose by these figures: {jobs}.</strong> <small>{found}</small>'

    def finding(self, reference: int) -> str:
        """What the figures say against this reference, as HTML."""
        low, both = self.lowest, self.both
        figures, base = slowdown(self.slowdown[low]), slowdown(self.slowdown[reference])
        longest, today = duration_html(self.longest_s[low]), duration_html(self.longest_s[reference])
        name = self.inside(reference)
        if not self.waits:
            return f"No job waits: every {'run' if self.of.items == 'jobs' else 'choice'} has a slowdown of {figures}."
        if not self.few and all(self.same(k, reference) for k in self.order):
            return (
                f"Every {'run' if self.of.items == 'jobs' else 'choice'} has the same slowdowns: {base} on average, "
                f"with a longest wait of {today} under {name}."
            )
        if why := self.undecided(reference):
            if worse := "" if self.few else self.worse(reference):
                return (
                    f"No {'run' if self.of.items == 'jobs' else 'choice'} is better than {name} beyond chance, and "
                    f"{worse}. Least slowdown seen: {self.called(low)}, {figures} ({base}), longest wait {longest} "
                    f"({today}); it may be chance."
                )
            if low == reference:
                return (
                    f"Cannot tell: {why}. Least slowdown seen: {self.called(low)}, the reference, {figures}; its "
                    f"longest wait is {longest}."
                )
            return (
                f"Cannot tell: {why}. Least slowdown seen: {self.called(low)}, {figures} ({name}: {base}), longest "
                f"wait {longest} ({today}); it may be chance."
            )
        starves = self.longest_s[low] > STARVED * self.longest_s[reference]
        if low == reference:
            said = f"the reference, {figures}; its longest wait is {longest}."
        else:
            wait = f'<span class="pays">but its longest wait is {longest}</span>' if starves else ""
            said = f"{figures} instead of {base}{self.chance(low, reference)}{',' if starves else ';'} "
            said += f"{wait or f'its longest wait is {longest}'} ({name}: {today})."
        end = f" With both in view: {self.second(both, reference)}." if both != low else ""
        if both == low and low != reference:
            later_s = self.longest_s[low] - self.longest_s[reference]
            though = f", though its longest wait is {duration_html(later_s)} longer" if later_s >= 1 else ""
            end = f" It is also the best with both in view{though}."
        return f"Lowest slowdown: <strong>{self.called(low)}</strong>, {said}{end}"

    def second(self, k: int, reference: int) -> str:
        """The choice with both in view, and its figures."""
        figures = f"{slowdown(self.slowdown[k])} and {duration_html(self.longest_s[k])}"
        if k == reference:
            return f"the reference, {self.inside(k)}, {figures}"
        name = no_break(self.words[k][1]) if len(self.words[k][1]) <= 24 else escape(self.words[k][1])
        hindsight = " (tuned on this log)" if self.tuned(k) else ""
        return f'<strong class="gains">{name}</strong>{hindsight}, {figures}{self.chance(k, reference)}'

    def chance(self, k: int, reference: int) -> str:
        """A remark on a difference that may be chance."""
        return " (may be chance)" if self.verdict(k, reference) == UNCLEAR else ""

    def alike(self) -> str:
        """The choices that cannot be told from the lowest one; "" if there are none."""
        pairs = enumerate(self.pairs[self.lowest])
        unclear = [(k, pair) for k, pair in pairs if pair and pair.verdict == UNCLEAR and not self.same(k, self.lowest)]
        if self.few or not self.waits or not unclear:
            return ""
        unclear.sort(key=lambda one: one[1].value)
        low = no_break(self.words[self.lowest][1])
        said = [f"{no_break(self.words[k][1])} minus {low}: {self.interval_words(pair)}" for k, pair in unclear[:ALIKE]]
        return f"May be chance: {listed(said, len(unclear))}."

    def interval_words(self, pair: Paired) -> str:
        """A difference and its interval in a sentence."""
        if not pair.bounded:
            return signed(pair.value)
        interval = f"{no_break(f'{CONFIDENCE:.0%}'.replace('%', ' %'))} interval"
        return f"{signed(pair.value)}, {interval} {no_break(f'{slowdown(pair.low)} to {slowdown(pair.high)}')}"

    def kills(self, reference: int) -> str:
        """Under which runs tries were killed, how many jobs that concerns, and what these pay, as HTML."""
        if self.of.whose is None:
            return ""
        said = []
        for k in self.order:
            killed = self.of.whose.kills[k] > 0
            if not killed.any():
                continue
            tries, jobs = int(self.of.whose.kills[k].sum()), int(killed.sum())
            line = (
                f"Under {escape(self.words[k][1])}, {percent(jobs / len(killed))} of the jobs ({count(jobs)}) had a "
                f"try killed{f', {count(tries)} tries together' if tries > jobs else ''}"
            )
            if k != reference:
                later_s = (self.of.wait_s[k] - self.of.wait_s[reference])[killed]
                longer, less = (percent(float((sign * later_s > CHANGED_S).mean())) for sign in (1, -1))
                line += (
                    f"; {longer} of these jobs wait over {duration_html(CHANGED_S)} longer than under "
                    f"{escape(self.words[reference][1])}, {less} over {duration_html(CHANGED_S)} less"
                )
            said.append(f"{line}.")
        return " ".join(said[:ALIKE])

    def losers(self, reference: int) -> str:
        """An item for each run: the job and the user whose waits grow most against the reference, as HTML."""
        if (whose := self.of.whose) is None:
            return ""
        found = [k for k in self.order if k != reference][:MOST_LOSERS]
        return "".join(f"<li><b>{escape(self.words[k][1])}</b>: {self.loser(whose, k, reference)}</li>" for k in found)

    def loser(self, whose: Whose, k: int, reference: int) -> str:
        """The job and the user whose waits grow most under this run."""
        wait_s, before_s = self.of.wait_s[k], self.of.wait_s[reference]
        row = int((wait_s - before_s).argmax())
        if wait_s[row] <= before_s[row]:
            return "no job waits longer."
        user = f"user {whose.user[row]}, " if whose.user[row] >= 0 else ""
        said = (
            f"job {escape(whose.ids[row])} ({user}{things(int(whose.procs[row]), 'processor')}) waits "
            f"{duration_html(wait_s[row])} instead of {duration_html(before_s[row])}: "
            f"{job_link(whose.ids[row], whose.places[k], 'why')}."
        )
        users, row_of = np.unique(whose.user, return_inverse=True)
        jobs = np.bincount(row_of)
        mean_s, was_s = (np.bincount(row_of, waits) / jobs for waits in (wait_s, before_s))
        longer_s = np.where((users >= 0) & (jobs >= FEWEST_JOBS), mean_s - was_s, -np.inf)
        if longer_s.max() <= 0:
            return said
        one = int(longer_s.argmax())
        return (
            f"{said} User {users[one]} ({things(int(jobs[one]), 'job')}) waits {duration_html(mean_s[one])} on average "
            f"instead of {duration_html(was_s[one])}, the most among users with {FEWEST_JOBS} jobs or more."
        )

    def tail_words(self, reference: int) -> str:
        """How long one job in a thousand waits, under the lowest slowdown and under the reference."""
        waits_s = self.of.wait_s if self.of.max_wait_s is None else self.of.max_wait_s
        if waits_s.shape[1] < 1000 or self.of.items != "jobs":
            return ""
        other = self.lowest if self.lowest != reference else self.both if self.both != reference else self.order[1]
        ends = [duration_html(np.quantile(waits_s[k], 0.999, method="inverted_cdf")) for k in (other, reference)]
        short, base = (escape(self.words[k][1]) for k in (other, reference))
        return (
            "Means hide the few that pay. Read the right-hand ends: "
            f"under {short} one job in a thousand waits at least {ends[0]}, under {base} {ends[1]}."
        )

    def queues(self, part: str) -> list[str]:
        """The queues of the chosen choices over time, on one axis."""
        each = TIME_BINS[self.of.courses[0].step_s]
        title = f"<{part}>How many jobs wait at a time</{part}>"
        return [title, chart("queues", f"Jobs waiting, the most per {each}", "of the runs chosen above"), "</figure>"]

    def tails(self, number: int, part: str, tail: str) -> list[str]:
        """The curves of the waits, and the controls that choose among them."""
        chips = "".join(
            f'<span><input type="checkbox" id="c{number}-{k}" value="{k}"{" checked" * (k in self.shown)}>'
            f'<label for="c{number}-{k}">{escape(short)}</label></span>'
            for k, (_, short) in enumerate(self.words)
        )
        return [
            f"<{part}>How many {self.of.items} have {tail} …</{part}>",
            f'<p class="tail-words">{self.tail_words(self.reference)}</p>',
            f'<fieldset class="chips controls"><legend>Show</legend>{chips}</fieldset>',
            chart("tail", f"Share of {self.of.items} with {tail} a duration", "both axes logarithmic", tail),
            "</figure>",
        ]

    def notes(self) -> str:
        """What the columns of the table mean."""
        n, blocks = self.of.n_blocks, self.of.blocks
        few = len(self.references) < len(self.words)
        lines = [
            f"Intervals of {no_break('95 %')} swap whole {blocks} ({count(n)}) at random, {count(RESAMPLES)} times "
            f"(seed {self.seed}). Intervals and verdicts are corrected for the "
            f"{things(len(self.words) - 1, 'comparison')} of this table: "
            f"{guide('background/statistics', 'how sure is that')}.",
            "<span class=flag>▲</span> The longest wait is more than twice the reference's: some jobs may starve.",
        ]
        if few:
            lines.append(f"References to choose from: the first run and the best, {len(self.references)} in all.")
        if any(self.of.hindsight):
            lines.append("Tuned on this log: chosen with the jobs that it is judged on; expect less on others.")
        return "".join(f'<p class="note">{line}</p>' for line in lines)

    def doubts(self) -> Sequence[str]:
        """Why the intervals may be wrong; that there are too few periods is in the answer."""
        if self.few:
            return ()
        found = {self.words[k][1]: pair for k, pair in enumerate(self.pairs[self.reference]) if pair is not None}
        return self.of.doubts(found)

    # The table

    def selector(self) -> str:
        """The control that changes the reference."""
        options = "".join(
            f'<option value="{k}"{" selected" * (k == self.reference)}>{escape(self.words[k][1])}</option>'
            for k in self.references
        )
        return f'<p class="row controls"><label>Compare with <select class="against">{options}</select></label></p>'

    def table(self) -> str:
        """Every choice, lowest slowdown first; the script changes what depends on the reference."""
        base = escape(self.words[self.reference][1])
        head = (
            *("Order" if self.of.items == "jobs" else "Choice", "Mean wait", "Longest wait", "Slowdown"),
            f'Difference from<br><span class="base">{base}</span> (95 % interval)',
            '<span class="sr">Interval drawn</span>',
            "Verdict",
        )
        marks = []
        for k in self.order:
            roles = {self.reference: "reference", self.chosen(self.reference): "chosen"}
            marks.append(f'data-k="{k}"{f" class={roles[k]}" if k in roles else ""}')
        return table(head, [self.row(k) for k in self.order], left=(6,), marks=marks)

    def uses(self, part: str) -> str:
        """The figures of pools and energy that several choices have; "" without any."""
        uses = [self.of.uses[k] for k in self.order] if self.of.uses else []
        names = dict.fromkeys(name for one in uses for name in one)
        known = [name for name in names if sum(name in one for one in uses) > 1]
        if not known:
            return ""
        rows = [(escape(name), *(no_break(one.get(name, "–")) for one in uses)) for name in known]
        return f"<{part}>Pools and energy</{part}>{table(('', *(escape(self.words[k][1]) for k in self.order)), rows)}"

    def row(self, k: int) -> tuple[str, ...]:
        """A choice's cells against the first reference."""
        long, short = self.words[k]
        name = policy_html(long, short) + ('<span class="sub">tuned on this log</span>' if self.tuned(k) else "")
        longest, difference, verdict = self.cells(k, self.reference)
        figures = (duration_html(self.mean_s[k]), longest, slowdown(self.slowdown[k]))
        return (name, *figures, difference, "", verdict)

    def cells(self, k: int, reference: int) -> tuple[str, str, str]:
        """The cells of a choice's row that depend on the reference: longest wait, difference and verdict."""
        pair = self.pairs[reference][k]
        longest = f"{duration_html(self.longest_s[k])}{self.times(k, reference)}"
        if pair is None:
            return longest, "reference", ""
        interval = f"{slowdown(pair.low)} to {slowdown(pair.high)}" if pair.bounded else f"too few {self.of.blocks}"
        return longest, f'{signed(pair.value)}<span class="sub">{interval}</span>', self.verdict_words(k, reference)

    def times(self, k: int, reference: int) -> str:
        """How the longest wait compares with the reference's."""
        base = float(self.longest_s[reference])
        if k == reference or base == 0:
            return ""
        ratio = float(self.longest_s[k]) / base
        if ratio > STARVED:
            return f'<span class="sub flag">▲ {slowdown(ratio)} times</span>'
        return f'<span class="sub">{growth(float(self.longest_s[k]) - base, base)}</span>'

    # The script's data

    def as_dict(self) -> dict[str, Any]:
        """The figures, the tails of the waits, and what depends on the reference, for `compare.js`."""
        waits_s = self.of.wait_s if self.of.max_wait_s is None else self.of.max_wait_s
        grid = tail_grid(float(self.longest_s.max()))
        in_order = np.sort(waits_s, axis=1)
        beyond = waits_s.shape[1] - np.array([np.searchsorted(row, grid, side="right") for row in in_order])
        rows = [
            {"name": units_kept(short), "slowdown": rounded(self.slowdown[k]), "longest": float(self.longest_s[k])}
            | {"tail": beyond[k].tolist()}
            for k, (_, short) in enumerate(self.words)
        ]
        return {
            "items": waits_s.shape[1],
            "blocks": self.of.blocks,
            "grid": grid,
            "rows": rows,
            "lowest": self.lowest,
            "both": self.both,
            "references": {k: self.against(k) for k in self.references},
            **self.over_time(),
        }

    def over_time(self) -> dict[str, Any]:
        """The queues in equal bins of time, and the clock of their dates."""
        if not self.of.courses:
            return {}
        first, zero = self.of.courses[0], self.of.zero
        bins = {"begin": first.begin_s, "step": first.step_s, "clock": zero.as_dict() if zero else None}
        return {"over": {**bins, "queues": [one.queue.tolist() for one in self.of.courses]}}

    def against(self, reference: int) -> dict[str, Any]:
        """What the page says if this is the reference."""
        return {
            "answer": units_kept(self.answer(reference)),
            "tail": units_kept(self.tail_words(reference)),
            "chosen": self.chosen(reference),
            "kills": units_kept(self.kills(reference)),
            "losers": units_kept(self.losers(reference)),
            "decided": self.decided(reference),
            "label": self.label(reference),
            "cells": [[units_kept(cell) for cell in self.cells(k, reference)] for k in range(len(self.words))],
            "pairs": [pair and [*map(rounded, (pair.value, pair.low, pair.high))] for pair in self.pairs[reference]],
        }

    def label(self, reference: int) -> str:
        """The picture in a sentence."""
        figures = [
            f"{self.words[k][1]} {slowdown(self.slowdown[k])} and {duration_html(self.longest_s[k])}"
            for k in dict.fromkeys([self.lowest, self.both, reference])
        ]
        named = "; ".join(figures)
        return f"{len(self.words)} points, slowdown and longest wait: {named}. The table below has every value."


def listed(said: Sequence[str], of: int) -> str:
    """A list in words: the items in `said`, and how many of the `of` items are not among them."""
    return in_a_row([*said, *([things(of - len(said), "other")] if of > len(said) else [])])


def tail_grid(longest_s: float) -> list[float]:
    """Waits in equal steps of their logarithm, from 1 min, or 1 s if all are short, to beyond the longest."""
    begin_s = 60 if longest_s > 600 else 1
    steps = int(np.ceil(STEPS * np.log10(max(longest_s, 10 * begin_s) / begin_s)))
    return [float(f"{begin_s * 10 ** (k / STEPS):.3g}") for k in range(steps + 1)]


def rounded(value: float) -> float | None:
    """Eight digits; None if it is infinite."""
    return float(f"{value:.8g}") if np.isfinite(value) else None
