"""Jobs that start and end, what they hold, and windows: rules Q5, R1, W1 and W2 of docs/background/slurm.md.

Kernels change `slurm`, arrays.Slurm.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import F8, I8, Array, entry, kernel, outlined
from batfill.engine.ends import enter
from batfill_site.slurm.placement import (
    ONE,
    ROW_BITS,
    ZERO,
    counts_on,
    gpus_on,
    has,
    insert,
    insert_at,
    memory_on,
    needs_of,
    place_of,
    put,
    take,
    take_out,
)
from batfill_site.slurm.records import CPUS, GPUS, JOBS, KINDS, MEMORY, NODES, Slurm

FAR_S = 2.0**40  # after all dates


@kernel
def whole(date_s):
    """A date in whole seconds, rounded down."""
    second = np.int64(date_s)
    return second - 1 if second > date_s else second


@kernel
def on_any(slurm, row, asked):
    """Whether a job runs on one of the nodes asked."""
    for place in range(slurm.jobs[row].first, slurm.jobs[row].first + slurm.jobs[row].placed):
        if has(asked, slurm.at[place]):
            return True
    return False


@outlined
def seat(slurm, row, sign):
    """A job is one of those that run on its nodes, or no longer if `sign` is -1."""
    job, state = slurm.jobs[row], slurm.state[0]
    key, shapes = (job.ends << ROW_BITS) | row, slurm.shapes
    for place in range(job.first, job.first + job.placed):
        i = slurm.at[place]
        node = slurm.nodes.nodes[i]
        seat = insert(shapes.on_nodes, node.first, node.first + node.jobs, key, sign)
        if sign > 0:
            cpus, memory = slurm.cpus_at[place], memory_on(job, node, slurm.cpus_at[place])
            insert_at(shapes.on_cpus, seat, node.first + node.jobs, cpus)
            insert_at(shapes.on_memory, seat, node.first + node.jobs, memory)
        else:
            cpus = take_out(shapes.on_cpus, seat, node.first + node.jobs)
            memory = take_out(shapes.on_memory, seat, node.first + node.jobs)
        node.free -= sign * cpus
        node.memory -= sign * memory
        node.gpus -= sign * gpus_on(job, node)
        node.jobs += sign
        shapes.log[state.logged % len(shapes.log)] = i
        state.logged += 1
    place = insert(slurm.running, 0, state.running, key, sign)
    if sign > 0:
        insert_at(slurm.alone, place, state.running, slurm.at[job.first] if job.placed == 1 else -1)
    else:
        take_out(slurm.alone, place, state.running)
    insert(slurm.held, 0, state.running, row, sign)
    state.running += sign


@kernel
def hold(slurm, row, sign):
    """A job begins to hold its nodes, and to count toward its limits, or ends to if `sign` is -1."""
    job, limited, licences = slurm.jobs[row], slurm.limited, slurm.licences
    seat(slurm, row, sign)
    for x in range(len(licences.left)):
        licences.left[x] -= sign * licences.takes[row, x]
    for place in range(limited.first[job.limits], limited.first[job.limits + 1]):
        counter = limited.counters[place]
        for kind in range(KINDS):
            if kind != NODES:
                limited.used[counter, kind] += sign * limited.amounts[row, kind]
        if limited.rows[counter] >= 0:
            jobs_on = limited.jobs_on[limited.rows[counter]]
            for at in range(job.first, job.first + job.placed):
                i = slurm.at[at]
                jobs_on[i] += sign
                limited.used[counter, NODES] += sign * (jobs_on[i] == (sign > 0))


@kernel
def lacks(takes, left):
    """Whether a job takes more licences than are left, of which there may be fewer than none (Q7)."""
    short = False
    for x in range(len(left)):
        short = short or takes[x] > max(left[x], 0)
    return short


@kernel
def exceeds(limited, group, amounts):
    """Whether so much more is beyond a limit of this class of jobs (Q5)."""
    for place in range(limited.first[group], limited.first[group + 1]):
        counter = limited.counters[place]
        for kind in range(KINDS):
            if limited.used[counter, kind] + amounts[kind] > limited.most[place, kind]:
                return True
    return False


@kernel
def passed_over(slurm, row):
    """Whether limits or the partition forbid a job to start (Q5, Q6)."""
    job = slurm.jobs[row]
    return job.barred != 0 or exceeds(slurm.limited, job.limits, slurm.limited.amounts[row])


@outlined
def would_exceed(slurm, row):
    """Whether the job would exceed a limit with what it would hold on `nodes.picked` (Q5)."""
    job, limited, nodes = slurm.jobs[row], slurm.limited, slurm.nodes
    held, first, n = limited.held, limited.first[job.limits], 0
    held[:] = 0
    held[JOBS] = 1
    for x in range(len(nodes.picked)):
        word = nodes.picked[x]
        while word != ZERO:
            count_held(held, job, nodes.nodes[64 * x + place_of(word)])
            word &= word - ONE
    if not job.looked_at:
        return False
    n, held[NODES] = held[NODES], 0
    over = exceeds(limited, job.limits, held)
    held[NODES] = n
    for place in range(first, limited.first[job.limits + 1]):
        counter = limited.counters[place]
        if limited.rows[counter] >= 0 and not over:
            more = limited.used[counter, NODES]
            for i in range(len(nodes.nodes)):
                more += has(nodes.picked, i) and limited.jobs_on[limited.rows[counter], i] == 0
            over = more > limited.most[place, NODES]
    return over


@kernel
def count_held(held, job, node):
    """Add what a job takes of a node."""
    held[CPUS] += node.taken
    held[NODES] += 1
    held[MEMORY] += memory_on(job, node, node.taken)
    held[GPUS] += gpus_on(job, node)


@kernel
def run(slurm, row):
    """A job whose nodes and start are set begins to hold them, and `limited.held`."""
    job, limited, options = slurm.jobs[row], slurm.limited, slurm.options[0]
    for kind in range(KINDS):
        limited.amounts[row, kind] = limited.held[kind]
    first, last = limited.bills[job.bills], limited.bills[job.bills + 1]
    billing = 0.0 if last > first else np.float64(limited.held[CPUS])
    for place in range(first, last):
        part = limited.weights[place] * limited.held[limited.kinds[place]]
        billing = max(billing, part) if options.max_tres and place > first else billing + part
    job.billing = billing * job.usage_factor
    for place in range(job.first, job.first + job.placed):
        slurm.cpus_at[place] = slurm.nodes.nodes[slurm.at[place]].taken
    hold(slurm, row, 1)
    job.exempt_until = job.started + job.exempt
    job.over_s = job.start_s + job.run_s + slurm.options[0].overhead_s
    enter(slurm.ends, job.over_s, 0, row)


@entry(Slurm, Array(I8, read=True), Array(F8, read=True))
@outlined
def resume(slurm, rows, started_s):
    """These jobs, whose nodes are in `at`, run at the beginning, if they find there what they ask for (R0).

    They were started at these dates.
    """
    held, nodes = slurm.limited.held, slurm.nodes
    for i in range(len(rows)):
        job = slurm.jobs[rows[i]]
        needs, fits = needs_of(job), True
        held[:] = 0
        held[JOBS] = 1
        for place in range(job.first, job.first + job.placed):
            node = nodes.nodes[slurm.at[place]]
            node.count = counts_on(job, node, node.free, node.memory)
            fits = fits and node.count >= job.cpus and node.memory >= memory_on(job, node, job.cpus)
            fits = fits and node.gpus >= job.gpus and not (job.exclusive and node.jobs > 0)
            needs = take(nodes, job, slurm.at[place], needs)
            count_held(held, job, node)
        if not fits:
            job.placed = 0
            continue
        job.start_s, job.started = started_s[i], whole(started_s[i])
        job.ends = job.started + job.limit
        run(slurm, rows[i])
        job.start_s = np.float64(job.started)


@outlined
def start(slurm, place, by):
    """Start the job at this place of the queue on `nodes.picked` (R1); returns how many records before it go, too."""
    state, queue, jobs = slurm.state[0], slurm.queue, slurm.jobs
    row = queue[place]
    job = jobs[row]
    before, n = leave_queue(slurm, place), state.placed
    job.start_s, job.started, job.ends, job.by, job.first = state.now_s, state.now, state.now + job.limit, by, n
    for x in range(len(slurm.nodes.picked)):
        word = slurm.nodes.picked[x]
        while word != ZERO:
            slurm.at[n] = 64 * x + place_of(word)
            word &= word - ONE
            n += 1
    job.placed, state.placed = n - job.first, n
    state.begun += 1
    run(slurm, row)
    state.wanted -= np.int64(job.asked)
    job.asked = 0
    while jobs[row].preempted:
        jobs[row].preempted = 0
        row = jobs[row].mate
    state.changed, state.steady, state.moved_s = 1, 0, state.now_s
    return before


@kernel
def leave_queue(slurm, place):
    """Take all records of the job at a place out of the queue; returns how many of them were before it."""
    state, queue, jobs = slurm.state[0], slurm.queue, slurm.jobs
    row = queue[place]
    if jobs[row].mate == row:
        state.waiting -= 1
        for i in range(place, state.waiting):
            queue[i] = queue[i + 1]
        return 0
    before = kept = 0
    for i in range(state.waiting):
        mate = jobs[row].mate
        while mate != row and mate != queue[i]:
            mate = jobs[mate].mate
        if mate == queue[i]:
            before += i < place
        else:
            queue[kept] = queue[i]
            kept += 1
    state.waiting = kept
    return before


@outlined
def end(slurm, row, clean_s, was_stopped):
    """A job ends, or is stopped, and its nodes are being cleaned (R1)."""
    state, ended, cleaned_s, stopped = slurm.state[0], slurm.ended, slurm.cleaned_s, slurm.stopped
    hold(slurm, row, -1)
    past = min(state.cleaned, state.passed)
    if state.ended == len(ended):  # those that are past go
        for i in range(past, state.ended):
            ended[i - past], cleaned_s[i - past], stopped[i - past] = ended[i], cleaned_s[i], stopped[i]
        state.ended -= past
        state.cleaned -= past
        state.passed -= past
        past = 0
    place = state.ended
    while place > past and cleaned_s[place - 1] > clean_s:
        ended[place], cleaned_s[place] = ended[place - 1], cleaned_s[place - 1]
        stopped[place] = stopped[place - 1]
        place -= 1
    ended[place], cleaned_s[place], stopped[place] = row, clean_s, was_stopped
    state.ended += 1
    state.changed, state.steady, state.moved_s = 1, 0, state.now_s


@outlined
def look(slurm):
    """Before a pass: the nodes that are being cleaned (`nodes.cleaned`) or down (`nodes.shut`), known windows."""
    state, nodes, windows = slurm.state[0], slurm.nodes, slurm.windows
    state.windows, until_s = 0, FAR_S
    for x in range(len(nodes.shut)):
        nodes.shut[x] = nodes.cleaned[x] = ZERO
    for i in range(len(windows.windows)):
        window = windows.windows[i]
        if window.told_s > state.now_s:
            until_s = min(until_s, window.told_s)
        elif window.end_s > state.now_s:
            windows.live[state.windows] = i
            state.windows += 1
            begun = window.begin_s <= state.now_s
            until_s = min(until_s, window.end_s if begun else window.begin_s)
            if begun and window.told_s == window.begin_s:  # it was not announced
                for x in range(len(nodes.shut)):
                    nodes.shut[x] |= windows.nodes[i, x]
    state.windows_until = whole(until_s)
    for job in range(state.cleaned, state.ended):
        row = slurm.ended[job]
        for place in range(slurm.jobs[row].first, slurm.jobs[row].first + slurm.jobs[row].placed):
            put(nodes.cleaned, slurm.at[place])


@kernel
def keep_startable(slurm, row, asked):
    """Take the nodes out that a known window keeps from a job that would start now (W1, W2)."""
    state, windows = slurm.state[0], slurm.windows
    for i in range(state.windows):
        window = windows.live[i]
        if state.now + slurm.jobs[row].limit > windows.windows[window].begin_s:
            for x in range(len(asked)):
                asked[x] &= ~windows.nodes[window, x]
