"""Events, the main pass, and when passes are made: rules Q1, M1 to M3 and B1 of docs/background/slurm.md.

Kernels change `slurm`, records.Slurm.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.ends import leave_next, next_end, next_end_s
from batfill_site.slurm.backfill import cycle, may_wait
from batfill_site.slurm.placement import NEVER, NOW, ZERO, choose, common, fits, has_enough
from batfill_site.slurm.preempt import (
    arrange,
    choose_over,
    needed,
    next_check,
    preempt,
    stop,
    withdraw,
)
from batfill_site.slurm.priority import enqueue, tick
from batfill_site.slurm.records import DRAWS, Slurm
from batfill_site.slurm.running import end, keep_startable, lacks, look, passed_over, start, whole, would_exceed
from batfill_site.slurm.site import MAIN

# Kinds of events, in the order of simultaneous ones.
END, QUEUE, LEAVE, TICK, CHECK, AFTER_END, DUE, FULL, CYCLE = range(9)
OVER, NO_ROOM = 0, 1  # why `advance` returns
GIVE_UP_S = 3600.0


@outlined
def main_pass(slurm, full):
    """The main pass, of the whole queue if it is a full one (M1, M2)."""
    nodes, options = slurm.nodes, slurm.options[0]
    look(slurm)
    nodes.open[:] = ~ZERO
    slurm.partition_counts[:] = 0
    looked_at, closed = slurm.partition_counts[0], slurm.partition_counts[1]
    seen = started = 0
    for row in slurm.line[: arrange(slurm)]:
        job = slurm.jobs[row]
        partition = job.partition
        if not job.waits or job.barred or looked_at[partition] >= options.partition_job_depth:
            continue
        if started >= options.sched_max_job_start or not (full or seen <= options.default_queue_depth):
            break
        seen += 1
        looked_at[partition] += 1
        if closed[partition] or passed_over(slurm, row):
            continue
        if lacks(slurm.licences.takes[row], slurm.licences.left):
            if options.bf_licenses:
                break
            continue
        for x in range(len(nodes.open)):
            nodes.mask[x] = nodes.asked[job.asks, x] & nodes.open[x] & ~nodes.cleaned[x]
        keep_startable(slurm, row, nodes.mask)
        found = choose(slurm, job, nodes.mask, NOW, False)
        if not found and options.suspends:
            found = choose_over(slurm, row, nodes.mask)
        victims = needed(slurm, row, nodes.mask) if options.preempts and not (found or job.preempted) else 0
        if victims > 0:
            preempt(slurm, row, victims)
        if not found:
            if job.required >= 0 and may_wait(slurm, job):
                for x in range(len(nodes.open)):
                    nodes.open[x] &= ~nodes.required[job.required, x]
            elif may_wait(slurm, job) and closes(slurm, row):
                closed[partition] = 1
                for x in range(len(nodes.open)):
                    nodes.open[x] &= ~nodes.partitions[partition, x]
        elif not would_exceed(slurm, row):
            start(slurm, row, MAIN)
            started += 1


@outlined
def closes(slurm, row):
    """Whether a job that does not fit closes its partition (M1)."""
    nodes, job, less = slurm.nodes, slurm.jobs[row], ZERO
    for x in range(len(nodes.mask)):
        nodes.mask[x] = nodes.asked[job.asks, x] & ~nodes.shut[x]
    keep_startable(slurm, row, nodes.mask)
    if not fits(slurm, job, nodes.mask, NEVER - 1):
        return False
    for x in range(len(nodes.mask)):
        less |= nodes.mask[x] & ~nodes.open[x]
        nodes.mask[x] &= nodes.open[x]
    if common(nodes.mask, nodes.mask) == 0:
        return False
    enough = less != ZERO and has_enough(slurm, job, nodes.mask)
    return not enough or fits(slurm, job, nodes.mask, NEVER - 1)


@kernel
def turn_s(options, date_s):
    """The controller's loop's next turn."""
    found_s = whole(date_s - options.phase_s) + options.phase_s
    return found_s if found_s >= date_s else found_s + 1


@kernel
def set_due(slurm):
    """A main pass is due (M3)."""
    state, options = slurm.state[0], slurm.options[0]
    if slurm.dates_s[DUE] == np.inf and len(slurm.main_s) == 0:
        slurm.dates_s[DUE] = turn_s(options, max(state.now_s, state.turned + options.batch_sched_delay_s))


@kernel
def next_event(slurm):
    """The kind of the next event, whose date is in `dates_s`; of equal dates the first kind."""
    state, dates_s = slurm.state[0], slurm.dates_s
    dates_s[END] = next_end_s(slurm.ends)
    dates_s[AFTER_END] = slurm.ended[state.passed].clean_s if state.passed < state.ended else np.inf
    dates_s[QUEUE] = next_end_s(slurm.coming)
    there = state.left < len(slurm.leaving)
    dates_s[LEAVE] = slurm.jobs[slurm.leaving[state.left]].leave_s if there else np.inf
    if slurm.options[0].graces:
        dates_s[CHECK], _ = next_check(slurm)
    kind = END
    for other in range(END + 1, CYCLE + 1):
        if dates_s[other] < dates_s[kind]:
            kind = other
    return kind


@kernel
def steps(slurm, step_s, kept, idle):
    """A step, or as many at once, if nothing goes on, that only `kept` are left before a job is queued or ends."""
    left_s = min(slurm.dates_s[END], slurm.dates_s[QUEUE], slurm.dates_s[CHECK]) - slurm.state[0].now_s
    return step_s * max(np.ceil(left_s / step_s) - kept, 1.0) if idle and left_s < np.inf else step_s


@kernel
def given_up(slurm, next_s):
    """Whether no job is left to start before the next event, or nothing has moved for an hour."""
    state = slurm.state[0]
    if slurm.dates_s[QUEUE] < np.inf or (state.waiting > 0 and (state.running > 0 or slurm.dates_s[LEAVE] < np.inf)):
        return False
    edge_s = slurm.options[0].last_edge
    return state.waiting == 0 or (next_s >= edge_s and next_s > max(state.moved_s, edge_s) + GIVE_UP_S)


@entry(Slurm, gives=int)
@outlined
def advance(slurm):
    """Run to the end, and return OVER, or to a pass for which there is no room, and return NO_ROOM.

    The end is also where no job is left that is asked for.
    """
    state, options = slurm.state[0], slurm.options[0]
    while state.wanted != 0:
        kind = next_event(slurm)
        now_s = slurm.dates_s[kind]
        if now_s == np.inf or given_up(slurm, now_s):
            return OVER
        if kind > TICK and not has_room(slurm):
            return NO_ROOM
        state.now_s, state.now = now_s, whole(now_s)
        if kind == END:
            row = np.int64(slurm.ends.slots[next_end(slurm.ends)].row)
            leave_next(slurm.ends)
            end(slurm, row, now_s + options.cleaning_s, 0)
            if options.new_rules:
                set_due(slurm)
        elif kind == QUEUE:
            row = np.int64(slurm.coming.slots[next_end(slurm.coming)].row)
            leave_next(slurm.coming)
            if slurm.jobs[row].stopped and slurm.jobs[row].leave_s < now_s:
                continue
            enqueue(slurm, row)
            if not (options.defer or slurm.jobs[row].stopped):
                set_due(slurm)
        elif kind == LEAVE:
            if withdraw(slurm, slurm.leaving[state.left]) and options.new_rules:
                set_due(slurm)
            state.left += 1
        elif kind == TICK:
            tick(slurm)
            idle = state.waiting == 0 and state.running == 0
            slurm.dates_s[TICK] = now_s + steps(slurm, options.calc_period_s, 2, idle)
        elif kind == CHECK:
            stop(slurm, next_check(slurm)[1], -1)
        elif kind == CYCLE:
            make_cycle(slurm)
        elif kind == AFTER_END:
            state.passed += 1
            if len(slurm.main_s) == 0 and (slurm.ended[state.passed - 1].stopped or not options.new_rules):
                main_pass(slurm, False)
        else:
            slurm.dates_s[DUE], state.turned = np.inf, state.now
            full = kind == FULL
            if full and len(slurm.main_s) > 0:
                full = slurm.full[state.mains] != 0
                state.mains += 1
                slurm.dates_s[FULL] = slurm.main_s[state.mains] if state.mains < len(slurm.main_s) else np.inf
            elif full:
                slurm.dates_s[FULL] = now_s + steps(slurm, options.sched_interval_s, 1, state.waiting == 0)
            main_pass(slurm, full)
    return OVER


@kernel
def has_room(slurm):
    """Whether the plan and `at` have room for a pass."""
    state, options = slurm.state[0], slurm.options[0]
    most = min(options.bf_max_job_test, state.waiting) + len(slurm.windows.live)
    most += state.running * options.bf_running_job_reserve
    return 2 * most + 2 <= len(slurm.plan.begin) and state.placed + len(slurm.shapes.on_nodes) <= len(slurm.at)


@kernel
def make_cycle(slurm):
    """A backfill cycle, or a look whether one is needed (B1)."""
    state, options = slurm.state[0], slurm.options[0]
    if not (len(slurm.cycles_s) > 0 or state.waiting > 0 or state.changed):
        slurm.dates_s[CYCLE] += steps(slurm, 1.0, 0, True)
        return
    state.changed = 0
    if not (state.steady and state.now < state.until):
        state.steady = not options.bf_running_job_reserve
        look(slurm)
        state.last_tried = cycle(slurm)
    tried = state.last_tried
    slurm.dates_s[CYCLE] = state.now_s + options.test_s * tried + options.bf_interval_s
    if options.jitter_s > 0:
        slurm.dates_s[CYCLE] += options.jitter_s * slurm.draws[state.cycles % DRAWS]
    state.cycles += 1
    state.tried += tried
    if len(slurm.cycles_s) > 0:
        slurm.dates_s[CYCLE] = slurm.cycles_s[state.cycles] if state.cycles < len(slurm.cycles_s) else np.inf
