"""Events, the main pass, and when passes are made: rules Q1, M1 to M3 and B1 of docs/background/slurm.md.

Kernels change `slurm`, arrays.Slurm.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.ends import leave_next, next_end, next_end_s
from batfill_site.slurm.backfill import cycle
from batfill_site.slurm.placement import NOW, choose, slot_of
from batfill_site.slurm.priority import add_usage, enqueue, tick
from batfill_site.slurm.records import DRAWS, Slurm
from batfill_site.slurm.running import end, keep_startable, look, passed_over, start, whole
from batfill_site.slurm.site import MAIN

END, CLEAN, QUEUE, TICK, AFTER_END, DUE, FULL, CYCLE = range(8)  # kinds of events, in the order of simultaneous ones
OVER, NO_ROOM = 0, 1  # why `advance` returns
GIVE_UP_S = 3600.0


@outlined
def main_pass(slurm):
    """The main pass (M1, M2)."""
    nodes, state, options, queue, jobs = slurm.nodes, slurm.state[0], slurm.options[0], slurm.queue, slurm.jobs
    look(slurm)
    for x in range(len(nodes.open)):
        nodes.open[x] = ~np.uint64(0)
    slurm.partition_counts[:] = 0
    tried = started = place = 0
    while place < state.waiting and tried < options.default_queue_depth and started < options.sched_max_job_start:
        row = queue[place]
        job = jobs[row]
        partition = job.partition
        if slurm.partition_counts[partition] >= options.partition_job_depth or passed_over(slurm, row):
            place += 1
            continue
        tried += 1
        slurm.partition_counts[partition] += 1
        for x in range(len(nodes.open)):
            nodes.mask[x] = nodes.asked[job.asks, x] & nodes.open[x]
        keep_startable(slurm, row, nodes.mask)
        if choose(slurm, job, slot_of(slurm, job), nodes.mask, NOW, True):
            start(slurm, place, MAIN)
            started += 1
        else:
            slurm.partition_counts[partition] = options.partition_job_depth  # the partition is closed
            for x in range(len(nodes.open)):
                nodes.open[x] &= ~nodes.partitions[partition, x]
            place += 1


@kernel
def turn_s(options, date_s):
    """The controller's loop's next turn."""
    found_s = whole(date_s - options.phase_s) + options.phase_s
    return found_s if found_s >= date_s else found_s + 1


@kernel
def set_due(slurm):
    """A main pass is due (M3)."""
    state, options = slurm.state[0], slurm.options[0]
    if slurm.dates_s[DUE] == np.inf and not options.main_known:
        slurm.dates_s[DUE] = turn_s(options, max(state.now_s, state.turned + options.batch_sched_delay_s))


@kernel
def next_event(slurm):
    """The kind of the next event, whose date is in `dates_s`; of equal dates the first kind."""
    state, dates_s, cleaned_s = slurm.state[0], slurm.dates_s, slurm.cleaned_s
    dates_s[END] = next_end_s(slurm.ends)
    dates_s[CLEAN] = cleaned_s[state.cleaned] if state.cleaned < state.ended else np.inf
    dates_s[AFTER_END] = cleaned_s[state.passed] if state.passed < state.ended else np.inf
    dates_s[QUEUE] = np.inf
    if state.queued < len(slurm.arrivals):
        dates_s[QUEUE] = slurm.jobs[slurm.arrivals[state.queued]].queued_s + slurm.options[0].arrival_s
    kind = END
    for other in range(END + 1, CYCLE + 1):
        if dates_s[other] < dates_s[kind]:
            kind = other
    return kind


@kernel
def given_up(slurm, next_s):
    """Whether no job is left to start before the next event, or nothing has moved for an hour."""
    state = slurm.state[0]
    if state.queued < len(slurm.arrivals) or (state.waiting > 0 and state.running > 0):
        return False
    edge_s = slurm.options[0].last_edge
    return state.waiting == 0 or (next_s >= edge_s and next_s > max(state.moved_s, edge_s) + GIVE_UP_S)


@entry(Slurm, gives=int)
@outlined
def advance(slurm):
    """Run to the end, and return OVER, or to a cycle for which `plan` has no room, and return NO_ROOM.

    The end is also where no job is left that is asked for.
    """
    state, options = slurm.state[0], slurm.options[0]
    while state.wanted != 0:
        kind = next_event(slurm)
        now_s = slurm.dates_s[kind]
        if now_s == np.inf or given_up(slurm, now_s):
            return OVER
        state.now_s, state.now = now_s, whole(now_s)
        if kind == END:
            row = np.int64(slurm.ends.slots[next_end(slurm.ends)].row)
            leave_next(slurm.ends)
            slurm.cleaned_s[state.ended] = now_s + options.cleaning_s
            end(slurm, row)
            add_usage(slurm, row)
            if options.new_rules:
                set_due(slurm)
        elif kind == CLEAN:
            state.cleaned += 1
        elif kind == QUEUE:
            enqueue(slurm, slurm.arrivals[state.queued])
            state.queued += 1
            if not options.defer:
                set_due(slurm)
        elif kind == TICK:
            tick(slurm)
            slurm.dates_s[TICK] = now_s + options.calc_period_s
        elif kind == AFTER_END:
            state.passed += 1
            if not (options.new_rules or options.main_known):
                main_pass(slurm)
        elif kind == CYCLE:
            if 2 * (min(options.bf_max_job_test, state.waiting) + len(slurm.windows.live)) + 2 > len(slurm.plan.begin):
                return NO_ROOM
            make_cycle(slurm)
        else:
            slurm.dates_s[DUE], state.turned = np.inf, state.now
            if kind == FULL:
                state.mains += 1
                slurm.dates_s[FULL] = now_s + options.sched_interval_s
                if options.main_known:
                    slurm.dates_s[FULL] = slurm.main_s[state.mains] if state.mains < len(slurm.main_s) else np.inf
            main_pass(slurm)
    return OVER


@kernel
def make_cycle(slurm):
    """A backfill cycle, or a look whether one is needed (B1)."""
    state, options = slurm.state[0], slurm.options[0]
    if not (options.cycles_known or state.waiting > 0 or state.changed):
        slurm.dates_s[CYCLE] += 1.0
        return
    state.changed = 0
    if not (state.steady and state.now < state.until):
        state.steady = 1
        look(slurm)
        state.last_tried = cycle(slurm)
    tried = state.last_tried
    slurm.dates_s[CYCLE] = state.now_s + options.test_s * tried + options.bf_interval_s
    if options.jitter_s > 0:
        slurm.dates_s[CYCLE] += options.jitter_s * slurm.draws[state.cycles % DRAWS]
    state.cycles += 1
    state.tried += tried
    if options.cycles_known:
        slurm.dates_s[CYCLE] = slurm.cycles_s[state.cycles] if state.cycles < len(slurm.cycles_s) else np.inf
