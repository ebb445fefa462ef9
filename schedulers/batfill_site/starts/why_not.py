"""Why a waiting job does not start now, in a sentence that its user can act on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batfill.base.words import duration, instant, things
from batfill.engine.motion import BY_SECOND, UNLIMITED_S, to_go_first
from batfill.engine.records import OVERDUE, URGENT
from batfill.model.jobs import DAY_S, Clock
from batfill.queue import Queue

UNKNOWN, NEVER = "unknown", "never"
NAMED = 3  # jobs that a sentence names
CENTURY_S = 100 * 365 * DAY_S  # a later start gets no date, whose year may have five digits


@dataclass(frozen=True, slots=True)
class Instants:
    """Seconds in words, as seen from an instant."""

    now_s: float
    clock: Clock | None

    def full(self, at_s: float) -> str:
        return instant(at_s) if self.clock is None else f"{self.clock.date(at_s):%Y-%m-%d %H:%M}"

    def between(self, from_s: float, to_s: float) -> str:
        return f"{self.text(from_s)} and {self.text(to_s)}" if math.isfinite(from_s) else self.text(from_s)

    def text(self, at_s: float) -> str:
        """The time of day, with its date on another day, and the year in another year; or a second; nan is unknown."""
        if not math.isfinite(at_s):
            return UNKNOWN if math.isnan(at_s) else NEVER
        if self.clock is None:
            return instant(at_s)
        if at_s - self.now_s > CENTURY_S:
            return "in over 100 years"
        date, now = self.clock.date(at_s), self.clock.date(self.now_s)
        if date.date() == now.date():
            return f"{date:%H:%M}"
        return f"{date:%a %d %b %H:%M}" if date.year == now.year else f"{date:%a %d %b %Y %H:%M}"


def length(seconds: float, *, up: bool = False) -> str:
    """A duration in words, in whole minutes from ten on: 3 h 40 min; rounded down, or `up`."""
    unit_s = 60 if seconds >= 600 else 1
    whole = (math.ceil if up else math.floor)(seconds / unit_s) * unit_s
    return duration(whole, up=up)


def listed(names: Sequence[str], what: str = "job") -> str:
    """Job 1; jobs 1 and 2; jobs 1, 2 and 5 others."""
    if len(names) == 1:
        return f"{what} {names[0]}"
    shown = list(names[:NAMED]) if len(names) > NAMED + 1 else list(names)
    last = f"{len(names) - NAMED} others" if len(names) > NAMED + 1 else shown.pop()
    return f"{what}s {', '.join(shown)} and {last}"


def reasons(queue: Queue, now_s: float, rows: Sequence[int], names: Mapping[int, str], instants: Instants) -> list[str]:
    """Why these rows of a queue do not start, after its decision; `names` are the jobs' by row."""
    order = [row for row in in_order(queue, now_s) if not queue.is_held(row)]
    jobs, rules, free = queue.jobs, queue.rules, queue.free
    held = f"its user has {things(rules.max_running or 0, 'running job')}, the limit"
    if not order:
        return [held] * len(rows)
    place, head = {row: n for n, row in enumerate(order)}, order[0]
    shadow_s, extra, freed_by = reservation(queue, int(jobs["procs"][head]))
    reserved = f"job {names[head]}"
    if shadow_s < math.inf and rules.depth > 0:
        reserved += f", which has a reservation at {instants.text(shadow_s)}"
    found = []
    for row in rows:
        procs, request_s = int(jobs["procs"][row]), float(jobs["expected_s"][row])
        short, before = things(procs - free, "more processor"), place.get(row, 0)
        ahead = f"{things(before, 'job')} go{'es' if before == 1 else ''} before it"
        if row not in place:
            found.append(held)
        elif rules.calendar is not None:
            needs = f"needs {short} than are idle" if procs > free else "would run into a window, or delay another job"
            found.append(f"it {needs}; {ahead}, and the calendar has windows")
        elif row == head and procs > free:
            found.append(why_head(short, [names[other] for other in freed_by], shadow_s, instants))
        elif row == head and rules.max_running is not None:
            found.append("the next decision looks again: a job before it has reached its user's limit since the last")
        elif procs > free:
            found.append(f"it needs {short} than are idle, and {ahead}, first {reserved}")
        elif before >= rules.tested:
            found.append(f"a decision looks at {things(rules.tested, 'job')} that must wait, and it comes behind them")
        elif rules.planned or now_s + request_s <= shadow_s:
            found.append(f"it would delay a job that goes before it, first {reserved}")
        else:
            found.append(why_too_long(names[head], shadow_s, extra, request_s, instants))
    return found


def in_order(queue: Queue, now_s: float) -> list[int]:
    rows = queue.waiting_rows
    jobs = queue.jobs[rows]
    overdue = (now_s - jobs["submit_s"] > queue.rules.threshold_s) & (jobs["home"] != URGENT)
    if queue.rules.half:  # rows are in order of age
        overdue &= np.cumsum(overdue) <= to_go_first(overdue.sum())
    unit_s: Any = 1.0
    if queue.rules.policy.motion != BY_SECOND:
        unit_s = np.minimum(queue.whole_expected_s[rows], UNLIMITED_S)
    key = np.where(overdue, 0.0, jobs["key"] + jobs["rise"] * ((now_s - jobs["submit_s"]) / unit_s))
    section = np.where(overdue, OVERDUE, jobs["home"])
    ordered: list[int] = rows[np.lexsort((jobs["seq"], key, section))].tolist()
    return ordered


def reservation(queue: Queue, need: int) -> tuple[float, int, list[int]]:
    """When running jobs will have freed `need` processors, what is spare then, and these jobs; inf and 0 for never."""
    free, rows, shadow_s = queue.free, [], math.inf
    for end_s, procs, row in queue.running.tolist():
        if free >= need and end_s > shadow_s:
            break
        if free < need:
            rows.append(row)
            shadow_s = end_s
        free += procs
    return (shadow_s, free - need, rows) if free >= need else (math.inf, 0, rows)


def why_head(short: str, freed_by: Sequence[str], shadow_s: float, instants: Instants) -> str:
    head = f"it is the head of the queue and needs {short}"
    if not freed_by:
        return f"{head} than the machine has"
    free = f"{head}, which {listed(freed_by)} free{'s' * (len(freed_by) == 1)}"
    if shadow_s == math.inf:
        return f"{free} at a time that no request bounds"
    if shadow_s <= instants.now_s:
        return f"{free} at any moment, as the request is over"
    return f"{free} at {instants.text(shadow_s)} at the latest"


def why_too_long(head: str, shadow_s: float, extra: int, request_s: float, instants: Instants) -> str:
    """Why a job that fits is not backfilled: it runs too long, and needs processors that the head needs."""
    left_s = shadow_s - instants.now_s
    over = f"by {length(request_s - left_s, up=True)}" if request_s < math.inf else "as it has no limit"
    remedies = [f"a request of {length(left_s)} or less"] if left_s > 0 else []
    remedies += [f"{things(extra, 'processor')} or fewer"] if extra > 0 else []
    why = f"it would outlive the reservation of job {head} at {instants.text(shadow_s)} {over}"
    return f"{why}: {', or '.join(remedies)} would start at once" if remedies else why
