"""The decision: which waiting jobs start now. EASY backfilling, once, for every host.

Pure and compiled: arrays in, starts out; no files, no messages. The rules are those of docs/semantics.md. Nothing is
kept from one pass to the next except the order of the waiting jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.compiled import kernel, seldom
from batfill.policies import EXPANSION, FIXED, UNLIMITED_S, WFP3
from batfill.waiting import (
    BOUND,
    EXACT,
    LEAF,
    NONE,
    OVERDUE,
    has_room,
    insert,
    move_jobs,
    remove,
    settle_group,
    settle_leaf,
    summarize_group,
    summarize_leaf,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# A shadow time is never infinite: a job without walltime must not count as ending before a head that waits for one.
NEVER_S = np.finfo(np.float64).max


# What a scheduler knows of a job. Packed, as a pass reads a job's fields together.
JOB = np.dtype(
    [
        ("submit_s", "f8"),  # r
        ("estimate_s", "f8"),  # p~, or the expected run time in force; inf where there is none
        ("key", "f8"),  # the policy's fixed key
        ("backfill_key", "f8"),  # the backfill policy's fixed key
        ("seq", "i8"),  # place by (submission time, id)
        ("procs", "i4"),  # q
        ("level", "i1"),  # of a small job from 1 on: its divider's place among the dividers; one more than all: large
        ("killable", "u1"),  # 1 where it is killed at its level's divider; 0 where it must not be, or is large
        ("section", "i2"),  # where it waits: OVERDUE, or its level; AWAY where it does not wait
    ]
)
AWAY = -1
# What ends a small job's try, in ascending order, shape (levels,).
DIVIDER = np.dtype(
    [
        ("divider_s", "f8"),  # a job of this level that still runs so long after its start is killed; inf for never
        ("bound_s", "f8"),  # and is expected to end then at the latest: the divider, or inf where that is not expected
    ]
)


class Rules(NamedTuple):
    """How the queue is ordered and backfilled."""

    kind: int  # the policy's: how its key moves with time
    weight: float
    backfill_same: bool  # backfill in the queue's order, overdue and small first
    backfill_kind: int  # otherwise by this policy's pure key
    backfill_weight: float
    threshold_s: float  # Theta; inf for none


NOBODY = np.int64(2**62), np.inf  # the smallest q and p~ where nobody waits

# A job that a pass started; who called the pass may add by what it started.
STARTED = np.dtype([("row", "u4"), ("backfilled", "u4")])
MACHINE = np.dtype(
    [
        ("jobs", "u4"),  # how many run
        ("settled", "u4"),  # 1 while no job that waits can start before one ends: see `arrives`
        ("free", "i8"),  # idle processors
        ("head", "u4"),  # while settled: the first job of the queue,
        ("reserved", "u4"),  # whether its reservation is known,
        ("shadow_s", "f8"),  # and what it is
        ("extra", "i8"),
        ("fewest", "i8"),  # no waiting job asks for fewer processors; kept for `pass_by_key` only, as is:
        ("shortest_s", "f8"),  # no waiting job has a smaller p~
        ("head_until_s", "f8"),  # before this instant `head` is the first of the queue; kept for keys that move only,
        ("head_slope", "f8"),  # as is the slope of its key's trend
    ]
)
RUN = np.dtype([("end_s", "f8"), ("procs", "i4"), ("row", "u4")])


class Running(NamedTuple):
    """The running jobs by expected end, ascending; only the first state[0].jobs places count."""

    jobs: NDArray[np.void]  # RUN (room,)  end_s is start + estimate; procs what the job will give back
    state: NDArray[np.void]  # MACHINE (1,)


class Scratch(NamedTuple):
    """Room for the candidates of one pass; at least as many as jobs wait."""

    row: NDArray[np.uint32]
    rank: NDArray[np.int64]
    key: NDArray[np.float64]


def scratch_room(jobs: int) -> Scratch:
    """Room for `jobs` candidates."""
    return Scratch(np.zeros(jobs, np.uint32), np.zeros(jobs, np.int64), np.zeros(jobs))


def running_room(jobs: int, free: int) -> Running:
    """Nothing running, `free` processors idle, places for `jobs` running jobs."""
    state = np.zeros(1, MACHINE)
    state["free"] = free
    return Running(np.zeros(jobs, RUN), state)


def dividers_of(divider_s: float | Sequence[float], *, bound: bool = False) -> NDArray[np.void]:
    """The dividers of the levels, ascending, as DIVIDER; with `bound` they are also the latest expected ends."""
    dividers = np.zeros(np.size(divider_s), DIVIDER)
    dividers["divider_s"] = divider_s
    dividers["bound_s"] = divider_s if bound else np.inf
    return dividers


@kernel
def key_at(now_s, kind, weight, fixed, submit_s, walltime_s, procs):
    """The key at `now_s` of a job whose key moves with time; `fixed` is the part that does not."""
    wait_s = now_s - submit_s
    walltime_s = min(walltime_s, UNLIMITED_S)
    if kind == EXPANSION:
        return fixed + weight * ((wait_s + walltime_s) / walltime_s)
    if kind == WFP3:
        expansion = wait_s / walltime_s
        return -(expansion * expansion * expansion) * procs
    return -wait_s / (fixed * walltime_s)  # UNICEF


@kernel
def start(now_s, running, row, estimate_s, procs):
    """Put a job among the running ones and take its processors."""
    end_s = now_s + estimate_s
    i = running.state[0].jobs
    while i > 0 and running.jobs[i - 1].end_s > end_s:
        running.jobs[i] = running.jobs[i - 1]
        i -= 1
    running.jobs[i].end_s = end_s
    running.jobs[i].procs = procs
    running.jobs[i].row = row
    running.state[0].jobs += 1
    running.state[0].free -= procs


@kernel
def nobody_waits(waiting):
    """Whether the queue is empty."""
    return waiting.spare[0].jobs == 0


@seldom
def demote(jobs, row, dividers, ran_s, expected_s):
    """Let a job that was killed after `ran_s` go on in the next level that gives it longer, or else as a large one.

    `expected_s` is what it is expected to run where nobody kills it.
    """
    level = jobs[row].level
    while level < len(dividers) and dividers[level].divider_s <= ran_s:
        level += 1
    place_in_level(jobs, row, dividers, level + 1, 1, expected_s)


@kernel
def place_in_level(jobs, row, dividers, level, killable, expected_s):
    """Let a job that does not wait be of this level, large if that is beyond the last, and expect what goes with it."""
    jobs[row].level = level
    jobs[row].killable = killable if level <= len(dividers) else 0
    jobs[row].estimate_s = expected_s
    if jobs[row].killable:
        jobs[row].estimate_s = min(expected_s, dividers[level - 1].bound_s)


@kernel
def finish(running, row, end_s):
    """Take a job with this expected end off the running ones and give its processors back: its place."""
    low, high = 0, running.state[0].jobs
    while low < high:
        middle = (low + high) // 2
        if running.jobs[middle].end_s < end_s:
            low = middle + 1
        else:
            high = middle
    while running.jobs[low].row != row:
        low += 1
    running.state[0].settled = 0
    running.state[0].free += running.jobs[low].procs
    running.state[0].jobs -= 1
    for i in range(low, running.state[0].jobs):
        running.jobs[i] = running.jobs[i + 1]


@kernel
def reservation(need, running):
    """When `need` processors are expected free, and how many are spare then: (shadow_s, extra).

    All releases at exactly the shadow time count. Where `need` is never met (machines are away), the head holds back
    no job with a walltime: (NEVER_S, 0).
    """
    free = running.state[0].free
    k = 0
    while free < need:
        if k == running.state[0].jobs:
            return NEVER_S, np.int64(0)
        free += running.jobs[k].procs
        k += 1
    shadow_s = running.jobs[k - 1].end_s
    while k < running.state[0].jobs and running.jobs[k].end_s == shadow_s:
        free += running.jobs[k].procs
        k += 1
    return min(shadow_s, NEVER_S), free - need


@kernel
def place_key(jobs, rules, section, row):
    """What orders a job inside its section of `Waiting`: its key; its seq where the order is FCFS or moves."""
    if section == OVERDUE or rules.kind != FIXED:
        return float(jobs[row].seq)
    return jobs[row].key


@kernel
def enqueue(waiting, running, jobs, rules, section, row, leads, until_s):
    """Let a job wait in the section. The caller has made sure of `waiting.has_room`, and has asked `head_with`."""
    if not is_walk(rules):
        fewest, shortest_s = NOBODY if nobody_waits(waiting) else (running.state[0].fewest, running.state[0].shortest_s)
        running.state[0].fewest = min(fewest, jobs[row].procs)
        running.state[0].shortest_s = min(shortest_s, jobs[row].estimate_s)
    running.state[0].settled = 0
    if rules.kind != FIXED:
        running.state[0].head_until_s = until_s
        if leads:
            running.state[0].head = row
            running.state[0].head_slope = slope_of(rules, jobs[row])
    jobs[row].section = section
    insert(waiting, section, place_key(jobs, rules, section, row), row, jobs[row].estimate_s, jobs[row].procs, jobs)


@seldom
def move_to(now_s, section, waiting, running, jobs, rules, row):
    """As `enqueue`, of a job that waits already or is killed."""
    if jobs[row].section != AWAY:
        dequeue(waiting, running, jobs, rules, row)
    enqueue_at(now_s, section, waiting, running, jobs, rules, row)


@kernel
def enqueue_at(now_s, section, waiting, running, jobs, rules, row):
    """As `enqueue`, of a job that arrives at `now_s`."""
    leads, until_s = head_with(now_s, waiting, running, jobs, rules, section, row)
    enqueue(waiting, running, jobs, rules, section, row, leads, until_s)


@kernel
def enqueue_rows(now_s, waiting, running, jobs, rules, rows, first):
    """Let the jobs of `rows` from place `first` on wait in their sections: the first place there was no room for."""
    for i in range(first, len(rows)):
        if not has_room(waiting):
            return i
        enqueue_at(now_s, np.int64(jobs[rows[i]].section), waiting, running, jobs, rules, rows[i])
    return len(rows)


@kernel
def dequeue(waiting, running, jobs, rules, row):
    """Take a waiting job out of the queue."""
    running.state[0].settled = 0
    if row == running.state[0].head:
        running.state[0].head_until_s = -np.inf
    section = np.int64(jobs[row].section)
    remove(waiting, section, place_key(jobs, rules, section, row), jobs[row].seq, jobs)
    jobs[row].section = AWAY


@kernel
def overdue(now_s, submit_s, threshold_s):
    """Whether a job has waited longer than the threshold, strictly."""
    return now_s - submit_s > threshold_s


@kernel
def is_walk(rules):
    """Whether a pass is one walk through the queue, as its order and the backfill's are one and do not move."""
    return rules.kind == FIXED and rules.backfill_same


@kernel
def easy_pass(now_s, waiting, running, jobs, rules, scratch, started):
    """Start what EASY starts at `now_s`: how many jobs, and how many of them ahead of the reservation.

    `started`, STARTED (free processors,), receives the rows in the order in which they start; those after the second
    number were backfilled. Jobs that have become overdue must have been moved to OVERDUE before.
    """
    if running.state[0].free == 0 or nobody_waits(waiting):
        return 0, 0
    if is_walk(rules):
        return pass_in_order(now_s, waiting, running, jobs, started)
    if running.state[0].free < running.state[0].fewest:
        return 0, 0
    return pass_by_key(now_s, waiting, running, jobs, rules, scratch, started)


WAITS, STARTS, BACKFILLS, UNDECIDED = range(4)


@kernel
def arrives(now_s, waiting, running, jobs, rules, row, alone):
    """Take in a job that is submitted, and decide about it without a pass where that is possible.

    Returns STARTS or BACKFILLS for a job that runs now, WAITS where it waits and no job starts, UNDECIDED where it
    waits and a pass must tell. `alone` says that nothing else happens at this instant but ends handled before. The
    caller has made sure of `waiting.has_room`.
    """
    section = np.int64(jobs[row].level)
    leads, until_s = head_with(now_s, waiting, running, jobs, rules, section, row)
    what = UNDECIDED
    if alone and (not leads or nobody_waits(waiting)) and now_s < until_s:
        what = judge(now_s, waiting, running, jobs, rules, section, row)
    if what in (STARTS, BACKFILLS):
        start(now_s, running, row, jobs[row].estimate_s, jobs[row].procs)
    else:
        enqueue(waiting, running, jobs, rules, section, row, leads, until_s)
        running.state[0].settled = what == WAITS
    return what


@kernel
def judge(now_s, waiting, running, jobs, rules, section, row):
    """What becomes of a job that is submitted alone: see `arrives`. The head is still the same if the keys move.

    As long as no job ends, the idle processors and the reservation of the same head stay what they were after the last
    pass, and t only grows: a job that could not start then cannot start now. So the newcomer alone is to be looked at,
    unless it goes before the head.
    """
    state = running.state[0]
    procs = jobs[row].procs
    if nobody_waits(waiting):
        state.head, state.reserved = row, 0
        return STARTS if procs <= state.free else WAITS
    if not state.settled or (rules.kind == FIXED and goes_before(jobs, rules, section, row, state.head)):
        return UNDECIDED
    if procs > state.free:
        return WAITS
    if not state.reserved:
        state.shadow_s, state.extra = reservation(jobs[state.head].procs, running)
        state.reserved = 1
    if now_s + jobs[row].estimate_s <= state.shadow_s:
        return BACKFILLS
    if procs <= state.extra:
        state.extra -= procs
        state.settled = state.shadow_s < NEVER_S  # see `settle`
        return BACKFILLS
    return WAITS


@kernel
def goes_before(jobs, rules, section, row, other):
    """Whether a job that would wait in `section` goes before another that waits."""
    if section != jobs[other].section:
        return section < jobs[other].section
    key, other_key = place_key(jobs, rules, section, row), place_key(jobs, rules, section, other)
    if key != other_key:
        return key < other_key
    return jobs[row].seq < jobs[other].seq


@kernel
def head_with(now_s, waiting, running, jobs, rules, section, row):
    """The head of the queue when this job waits in `section`, too: (whether it is this job, before which instant).

    The instant is -inf where the head cannot be told. Where keys do not move it is not needed: (False, inf).
    """
    if rules.kind == FIXED:
        return False, np.inf
    if nobody_waits(waiting):
        return True, np.inf
    state = running.state[0]
    if state.head_until_s <= now_s:
        return False, -np.inf
    if section != jobs[state.head].section:
        leads = section < jobs[state.head].section  # then nobody waits in this section
        return leads, np.inf if leads else state.head_until_s
    if section == OVERDUE:
        return jobs[row].seq < jobs[state.head].seq, np.inf
    slope = slope_of(rules, jobs[row])
    first, size = trend_at(now_s, rules, jobs[state.head], state.head_slope)
    mine, my_size = trend_at(now_s, rules, jobs[row], slope)
    leads = mine < first
    if leads:
        until_s = overtaken(now_s, mine, slope, first, state.head_slope, size + my_size)
    else:
        until_s = overtaken(now_s, first, state.head_slope, mine, slope, size + my_size)
    return leads, min(state.head_until_s, until_s)


@kernel
def settle(running, ahead, shadow_s, extra):
    """Remember what a pass has found, for `arrives`; the head has been written down by the pass itself."""
    state = running.state[0]
    # Where the head waits for jobs without walltime, one that was backfilled counts for the next reservation, too: it
    # will find more to spare than this pass has left.
    state.settled = ahead != NO_HEAD and (extra == UNRESERVED or shadow_s < NEVER_S)
    state.reserved = extra != UNRESERVED
    state.shadow_s = shadow_s
    state.extra = extra


@kernel
def nothing_fits(now_s, free, width, shadow_s, extra, fewest, shortest_s):
    """Whether none of a group of jobs can be backfilled, by its smallest q and its smallest p~ per width."""
    return fewest > free or not (fewest <= extra or now_s + shortest_s[width] <= shadow_s)


@kernel
def group_is_closed(now_s, waiting, free, width, shadow_s, extra, group):
    """Whether no job of the group can be backfilled, as far as its bounds tell; `width` is that of `free`."""
    if waiting.groups[group].state == NONE:
        summarize_group(waiting, group)
    fewest, shortest_s = waiting.groups[group].procs, waiting.group_shortest_s[group]
    return nothing_fits(now_s, free, width, shadow_s, extra, fewest, shortest_s)


@kernel
def leaf_is_closed(now_s, waiting, free, width, shadow_s, extra, leaf):
    """Likewise of the leaf."""
    if waiting.leaves[leaf].state != EXACT:
        summarize_leaf(waiting, leaf)
    fewest, shortest_s = waiting.leaves[leaf].procs, waiting.leaf_shortest_s[leaf]
    return nothing_fits(now_s, free, width, shadow_s, extra, fewest, shortest_s)


@kernel
def next_open_group(now_s, waiting, section, place, free, width, shadow_s, extra):
    """The place of the section's first group, from `place` on, that is not known to be closed; its size if none is."""
    size = waiting.sections[section].size
    while place < size:
        if not group_is_closed(now_s, waiting, free, width, shadow_s, extra, waiting.section_group[section, place]):
            break
        place += 1
    return place


@kernel
def next_open_leaf(now_s, waiting, group, place, free, width, shadow_s, extra):
    """Likewise of the group's leaves."""
    size = waiting.groups[group].size
    while place < size:
        if not leaf_is_closed(now_s, waiting, free, width, shadow_s, extra, waiting.group_leaf[group, place]):
            break
        place += 1
    return place


# In a walk through the queue: no job has been met yet that does not fit; there is no reservation yet.
NO_HEAD = np.int64(-1)
UNRESERVED = np.int64(-1)


@kernel
def has_several_leaves(waiting, section):
    """Whether there is anything to skip in the section."""
    return waiting.sections[section].size > 1 or waiting.groups[waiting.section_group[section, 0]].size > 1


@kernel
def pass_in_order(now_s, waiting, running, jobs, started):
    """The pass where the queue and the backfill have one fixed order: one walk through it, from its head."""
    n, ahead, need = np.int64(0), NO_HEAD, np.int64(0)
    shadow_s, extra = NEVER_S, UNRESERVED
    free, width = running.state[0].free, 0
    for section in range(len(waiting.sections)):
        if waiting.sections[section].jobs == 0:
            continue
        several = has_several_leaves(waiting, section)
        if several:
            width = width_of(free)
        group_place = np.int64(0)
        while True:
            # Without a reservation only q <= free can rule a job out.
            most = free if extra == UNRESERVED else extra
            if ahead != NO_HEAD and waiting.sections[section].size > 1:
                group_place = next_open_group(now_s, waiting, section, group_place, free, width, shadow_s, most)
            if group_place >= waiting.sections[section].size:
                break
            group = waiting.section_group[section, group_place]
            before = n
            leaf_place = np.int64(0)
            while True:
                most = free if extra == UNRESERVED else extra
                if ahead != NO_HEAD and waiting.groups[group].size > 1:
                    leaf_place = next_open_leaf(now_s, waiting, group, leaf_place, free, width, shadow_s, most)
                if leaf_place >= waiting.groups[group].size:
                    break
                leaf = waiting.group_leaf[group, leaf_place]
                known = n
                n, ahead, need, shadow_s, extra = pass_through_leaf(
                    now_s, waiting, running, jobs, started, leaf, n, ahead, need, shadow_s, extra
                )
                gone = False
                if n > known:
                    gone = settle_leaf(waiting, section, group_place, leaf_place, n - known)
                    free = running.state[0].free
                    if free == 0:
                        settle_group(waiting, section, group_place)
                        settle(running, ahead, shadow_s, extra)
                        return n, n if ahead == NO_HEAD else ahead
                    if several:
                        width = width_of(free)
                if not gone:
                    leaf_place += 1
            if n > before:
                if not settle_group(waiting, section, group_place):
                    group_place += 1
                continue
            # It was open for nothing, and jobs have left it since its bounds were made: make them as good as can be.
            if waiting.sections[section].size > 1 and waiting.groups[group].state == BOUND:
                summarize_group(waiting, group)
            group_place += 1
    settle(running, ahead, shadow_s, extra)
    return n, n if ahead == NO_HEAD else ahead


@kernel
def pass_through_leaf(now_s, waiting, running, jobs, started, leaf, n, ahead, need, shadow_s, extra):
    """The part of `pass_in_order` in one leaf: start what starts, close the gaps; the walk's state after it."""
    known = n
    free = running.state[0].free
    slot = leaf * LEAF
    end = slot + waiting.leaves[leaf].size
    while slot < end and free > 0:
        procs = waiting.slots[slot].procs
        fits = procs <= free
        if ahead != NO_HEAD:
            if fits:
                if extra == UNRESERVED:
                    shadow_s, extra = reservation(need, running)
                if now_s + waiting.slots[slot].walltime_s > shadow_s:
                    fits = procs <= extra
                    if fits:
                        extra -= procs
        elif not fits:
            ahead, need = n, procs
            running.state[0].head = waiting.slots[slot].row
        if fits:
            row = waiting.slots[slot].row
            start(now_s, running, row, waiting.slots[slot].walltime_s, procs)
            free -= procs
            jobs[row].section = AWAY
            started[n].row = row
            n += 1
        elif n > known:
            waiting.slots[slot - (n - known)] = waiting.slots[slot]
        slot += 1
    if n > known:
        move_jobs(waiting, slot, slot - (n - known), end - slot)
        waiting.leaves[leaf].size -= n - known
    return n, ahead, need, shadow_s, extra


@kernel
def first_slot(waiting, section):
    """The slot of the section's first job in its place order."""
    return waiting.group_leaf[waiting.section_group[section, 0], 0] * LEAF


@kernel
def trend(kind, key):
    """A key that moves with time, in units in which it moves at a constant speed: the cube root under wfp3."""
    return -((-key) ** (1.0 / 3.0)) if kind == WFP3 else key


@kernel
def pace_of(kind, weight, fixed, walltime_s):
    """What orders keys by the slope of their `trend`, the fastest falling first, and is cheaper than the slope."""
    walltime_s = min(walltime_s, UNLIMITED_S)
    if kind == EXPANSION:
        return -walltime_s if weight > 0 else walltime_s
    if kind == WFP3:
        return walltime_s / fixed
    return fixed * walltime_s  # UNICEF


@kernel
def steepest(kind, weight, pace):
    """How fast the `trend` of a key of this pace grows per second: no key of a larger pace falls faster."""
    return weight / abs(pace) if kind == EXPANSION else -1.0 / pace


@kernel
def slope_of(rules, job):
    """How fast the trend of a waiting job's key grows per second."""
    return steepest(rules.kind, rules.weight, pace_of(rules.kind, rules.weight, job.key, job.estimate_s))


@kernel
def trend_at(now_s, rules, job, slope):
    """The trend of a waiting job's key at `now_s`, but for rounding, and how large its parts are, which may cancel."""
    moved = slope * (now_s - job.submit_s)
    if rules.kind == EXPANSION:
        return job.key + rules.weight + moved, abs(job.key) + abs(rules.weight) + abs(moved)
    return moved, abs(moved)


@kernel
def overtaken(now_s, lowest, slope, other, other_slope, size):
    """Before which instant a trend stays below others, of which none is below `other` now and none falls faster.

    Rounding is allowed for, by far; `size` is that of the parts of the two trends.
    """
    lead = other - lowest - 1e-12 * size
    if not lead > 0:
        return -np.inf
    closing = max(slope - other_slope, 0.0) + 1e-12 * (abs(slope) + abs(other_slope))
    return (now_s + lead / closing) * (1 - 1e-15)


@kernel
def lower_bound(now_s, waiting, leaf):
    """What the trends of the leaf's keys are not below at `now_s`, rounding included."""
    known = waiting.leaf_trend[leaf]
    change = known.slope * (now_s - known.when_s)
    return known.lowest + change - 1e-9 * (abs(known.lowest) + abs(change))


@kernel
def lowest_in_leaf(now_s, waiting, leaf, jobs, rules):
    """Of the leaf's jobs at `now_s`: (slot of the lowest key, that key, the second lowest, first pace, scale).

    The first pace is that of the key which falls fastest; no fixed part of a key is larger than the scale.
    """
    if rules.kind == EXPANSION:  # a loop of its own, in which nothing depends on the kind
        return lowest_of_kind(np.int64(EXPANSION), now_s, waiting, leaf, jobs, rules.weight)
    return lowest_of_kind(rules.kind, now_s, waiting, leaf, jobs, rules.weight)


@kernel
def lowest_of_kind(kind, now_s, waiting, leaf, jobs, weight):
    """As `lowest_in_leaf`, for keys of one kind."""
    best, lowest, second, pace, scale = leaf * LEAF, np.inf, np.inf, np.inf, 0.0
    for slot in range(leaf * LEAF, leaf * LEAF + waiting.leaves[leaf].size):
        job = jobs[waiting.slots[slot].row]
        walltime_s, procs = waiting.slots[slot].walltime_s, waiting.slots[slot].procs
        key = key_at(now_s, kind, weight, job.key, job.submit_s, walltime_s, procs)
        pace = min(pace, pace_of(kind, weight, job.key, walltime_s))
        scale = max(scale, abs(job.key))
        second = min(second, max(key, lowest))
        # Jobs are stored by seq here, so the first of equals is the one that goes first.
        if key < lowest:
            best, lowest = slot, key
    return best, lowest, second, pace, scale


@seldom
def smallest_in_leaf(now_s, waiting, leaf, jobs, rules):
    """The slot of the leaf's job with the lowest key at `now_s`, and that key; brings the leaf's trend up to date."""
    best, lowest, _, pace, scale = lowest_in_leaf(now_s, waiting, leaf, jobs, rules)
    # Mixed weights may cancel: then the key is rounded by the size of its parts, not by its own.
    margin = 1e-12 * scale if rules.kind == EXPANSION else 0.0
    waiting.leaf_trend[leaf].when_s = now_s
    waiting.leaf_trend[leaf].lowest = trend(rules.kind, lowest) - margin
    waiting.leaf_trend[leaf].slope = steepest(rules.kind, rules.weight, pace)
    return best, lowest


@kernel
def smallest(now_s, waiting, section, jobs, rules):
    """Of the section's jobs at `now_s`: (slot of the lowest key, ties by seq; before which instant it stays so; slope).

    The slope is that of the trend of the lowest key.
    """
    leaf = waiting.group_leaf[waiting.section_group[section, 0], 0]
    if waiting.sections[section].jobs > waiting.leaves[leaf].size:
        return smallest_of_leaves(now_s, waiting, section, jobs, rules)
    best, lowest, second, pace, scale = lowest_in_leaf(now_s, waiting, leaf, jobs, rules)
    slope = slope_of(rules, jobs[waiting.slots[best].row])
    return best, stays_lowest(now_s, rules, lowest, slope, second, pace, scale), slope


@kernel
def stays_lowest(now_s, rules, lowest, slope, second, pace, scale):
    """Before which instant the lowest key of a leaf stays so; the values are those of `lowest_in_leaf`."""
    if second == np.inf:
        return np.inf
    lowest, second = trend(rules.kind, lowest), trend(rules.kind, second)
    # The sizes of a key and of its fixed part bound that of its moving part.
    size = 2 * (abs(lowest) + abs(second)) + (4 * scale if rules.kind == EXPANSION else 0.0)
    return overtaken(now_s, lowest, slope, second, steepest(rules.kind, rules.weight, pace), size)


@seldom
def smallest_of_leaves(now_s, waiting, section, jobs, rules):
    """As `smallest`, of a section of several leaves.

    Only leaves whose bound is as low as the best key found so far are looked into; the most promising one is the first.
    """
    first = waiting.group_leaf[waiting.section_group[section, 0], 0]
    bound = np.inf
    for group_place in range(waiting.sections[section].size):
        group = waiting.section_group[section, group_place]
        for leaf_place in range(waiting.groups[group].size):
            leaf = waiting.group_leaf[group, leaf_place]
            if lower_bound(now_s, waiting, leaf) < bound:
                first, bound = leaf, lower_bound(now_s, waiting, leaf)
    best, lowest = smallest_in_leaf(now_s, waiting, first, jobs, rules)
    for group_place in range(waiting.sections[section].size):
        group = waiting.section_group[section, group_place]
        for leaf_place in range(waiting.groups[group].size):
            leaf = waiting.group_leaf[group, leaf_place]
            if leaf == first or lower_bound(now_s, waiting, leaf) > trend(rules.kind, lowest):
                continue
            slot, key = smallest_in_leaf(now_s, waiting, leaf, jobs, rules)
            earlier = jobs[waiting.slots[slot].row].seq < jobs[waiting.slots[best].row].seq
            if key < lowest or (key == lowest and earlier):
                best, lowest = slot, key

    home = np.uint32(best // LEAF)
    slope = slope_of(rules, jobs[waiting.slots[best].row])
    _, _, second, pace, scale = lowest_in_leaf(now_s, waiting, home, jobs, rules)
    until_s = stays_lowest(now_s, rules, lowest, slope, second, pace, scale)
    lowest = trend(rules.kind, lowest)
    for group_place in range(waiting.sections[section].size):
        group = waiting.section_group[section, group_place]
        for leaf_place in range(waiting.groups[group].size):
            leaf = waiting.group_leaf[group, leaf_place]
            if leaf != home:
                bound, other_slope = lower_bound(now_s, waiting, leaf), waiting.leaf_trend[leaf].slope
                size = abs(lowest) + abs(bound)
                until_s = min(until_s, overtaken(now_s, lowest, slope, bound, other_slope, size))
    return best, until_s, slope


@kernel
def find_head(now_s, waiting, running, jobs, rules):
    """Write down the first job of the queue, where there is one, and how long it is known to be."""
    section = 0
    while waiting.sections[section].jobs == 0:
        section += 1
    if section == OVERDUE or rules.kind == FIXED:
        slot, until_s, slope = first_slot(waiting, section), np.inf, 0.0
    else:
        slot, until_s, slope = smallest(now_s, waiting, section, jobs, rules)
    running.state[0].head = waiting.slots[slot].row
    running.state[0].head_until_s = until_s
    running.state[0].head_slope = slope


@kernel
def pass_by_key(now_s, waiting, running, jobs, rules, scratch, started):
    """The pass where keys move with time, or where backfilling has an order of its own."""
    n = 0
    head = np.int64(-1)
    while True:  # the jobs ahead of the reservation
        if nobody_waits(waiting):
            return n, n
        if rules.kind == FIXED or now_s >= running.state[0].head_until_s:
            find_head(now_s, waiting, running, jobs, rules)
        head = running.state[0].head
        if jobs[head].procs > running.state[0].free:
            break
        dequeue(waiting, running, jobs, rules, head)
        start(now_s, running, head, jobs[head].estimate_s, jobs[head].procs)
        started[n].row = head
        n += 1
        if running.state[0].free == 0:
            return n, n
    ahead = n

    shadow_s, extra = reservation(jobs[head].procs, running)
    free = running.state[0].free
    if running.state[0].fewest > extra and now_s + running.state[0].shortest_s > shadow_s:
        settle(running, ahead, shadow_s, extra)
        return n, ahead
    size, fewest, shortest_s = gather_backfillable(now_s, waiting, free, shadow_s, extra, jobs, rules, scratch)
    for i in range(size // 2 - 1, -1, -1):
        sift(scratch, jobs, i, size)
    while size > 0 and running.state[0].free > 0:
        row = scratch.row[0]
        size -= 1
        swap(scratch, np.int64(0), size)
        sift(scratch, jobs, np.int64(0), size)
        procs, estimate_s = jobs[row].procs, jobs[row].estimate_s
        late = now_s + estimate_s > shadow_s
        if procs > running.state[0].free or (late and procs > extra):
            fewest, shortest_s = min(fewest, procs), min(shortest_s, estimate_s)
            continue
        if late:
            extra -= procs
        dequeue(waiting, running, jobs, rules, row)
        start(now_s, running, row, estimate_s, procs)
        started[n].row = row
        n += 1
    for i in range(size):
        row = scratch.row[i]
        fewest, shortest_s = min(fewest, jobs[row].procs), min(shortest_s, jobs[row].estimate_s)
    running.state[0].fewest, running.state[0].shortest_s = fewest, shortest_s
    settle(running, ahead, shadow_s, extra)
    return n, ahead


@kernel
def gather_backfillable(now_s, waiting, free, shadow_s, extra, jobs, rules, scratch):
    """Put the jobs that could be backfilled if they were tried first into `scratch`.

    Returns how many they are, and bounds on the smallest q and p~ of the others. They are tried in the order (rank,
    key, seq): the rank is the section where the backfill follows the queue's order.
    """
    n = 0
    fewest, shortest_s = NOBODY
    width = 0
    for section in range(len(waiting.sections)):
        if waiting.sections[section].jobs == 0:
            continue
        if has_several_leaves(waiting, section):
            width = width_of(free)
        for group_place in range(waiting.sections[section].size):
            group = waiting.section_group[section, group_place]
            if waiting.sections[section].size > 1 and group_is_closed(
                now_s, waiting, free, width, shadow_s, extra, group
            ):
                fewest = min(fewest, waiting.groups[group].procs)
                shortest_s = min(shortest_s, waiting.group_shortest_s[group, -1])
                continue
            for leaf_place in range(waiting.groups[group].size):
                leaf = waiting.group_leaf[group, leaf_place]
                if waiting.groups[group].size > 1 and leaf_is_closed(
                    now_s, waiting, free, width, shadow_s, extra, leaf
                ):
                    fewest = min(fewest, waiting.leaves[leaf].procs)
                    shortest_s = min(shortest_s, waiting.leaf_shortest_s[leaf, -1])
                    continue
                for slot in range(leaf * LEAF, leaf * LEAF + waiting.leaves[leaf].size):
                    procs, walltime_s = waiting.slots[slot].procs, waiting.slots[slot].walltime_s
                    if procs > free or (procs > extra and now_s + walltime_s > shadow_s):
                        fewest, shortest_s = min(fewest, procs), min(shortest_s, walltime_s)
                        continue
                    row = waiting.slots[slot].row
                    scratch.row[n] = row
                    if rules.backfill_same:
                        scratch.rank[n] = section
                        kind, weight, key = rules.kind, rules.weight, jobs[row].key
                        if section == OVERDUE:
                            kind, key = FIXED, float(jobs[row].seq)
                    else:
                        scratch.rank[n] = 0
                        kind, weight, key = rules.backfill_kind, rules.backfill_weight, jobs[row].backfill_key
                    if kind != FIXED:
                        key = key_at(now_s, kind, weight, key, jobs[row].submit_s, walltime_s, procs)
                    scratch.key[n] = key
                    n += 1
    return n, fewest, shortest_s


@kernel
def goes_first(scratch, jobs, i, j):
    """The sort rule: lowest rank, then lowest key, then lowest seq."""
    if scratch.rank[i] != scratch.rank[j]:
        return scratch.rank[i] < scratch.rank[j]
    if scratch.key[i] != scratch.key[j]:
        return scratch.key[i] < scratch.key[j]
    return jobs[scratch.row[i]].seq < jobs[scratch.row[j]].seq


@kernel
def swap(scratch, i, j):
    """Exchange two candidates."""
    scratch.row[i], scratch.row[j] = scratch.row[j], scratch.row[i]
    scratch.rank[i], scratch.rank[j] = scratch.rank[j], scratch.rank[i]
    scratch.key[i], scratch.key[j] = scratch.key[j], scratch.key[i]


@kernel
def sift(scratch, jobs, i, size):
    """Restore the heap of the first `size` candidates below place i."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and goes_first(scratch, jobs, child + 1, child):
            child += 1
        if not goes_first(scratch, jobs, child, i):
            return
        swap(scratch, i, child)
        i = child
