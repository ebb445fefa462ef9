"""Jobs that start and end, what they hold, and windows: rules Q5, E11, R1, W1 and W2 of docs/background/slurm.md.

Kernels change `slurm`, records.Slurm.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import F8, I8, Array, entry, kernel, outlined
from batfill.engine.ends import enter, leave
from batfill_site.slurm.placement import (
    NOW,
    ROW_BITS,
    ZERO,
    counts_on,
    gpus_on,
    has,
    insert,
    members,
    memory_on,
    needs_of,
    node_key,
    put,
    shift,
    take,
)
from batfill_site.slurm.priority import add_usage
from batfill_site.slurm.records import CPUS, GPUS, JOBS, KINDS, MEMORY, NODES, Slurm
from batfill_site.slurm.site import RESUMED, SUSPEND, SUSPENDED

FAR_S = 2.0**40  # after all dates


@kernel
def whole(date_s):
    """A date in whole seconds, rounded down."""
    second = np.int64(date_s)
    return second - 1 if second > date_s else second


@kernel
def on_any(slurm, row, asked):
    for node in slurm.at[slurm.jobs[row].first : slurm.jobs[row].first + slurm.jobs[row].placed]:
        if has(asked, node):
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
        cpus = slurm.cpus_at[place]
        memory = memory_on(job, node, cpus)
        shift(shapes.on_cpus, seat, node.first + node.jobs, cpus, sign)
        shift(shapes.on_memory, seat, node.first + node.jobs, memory, sign)
        node.free -= sign * cpus
        node.memory -= sign * memory
        node.gpus -= sign * gpus_on(job, node)
        node.jobs += sign
        shapes.log[state.logged % len(shapes.log)] = i
        state.logged += 1
    place = insert(slurm.running, 0, state.running, key, sign)
    shift(slurm.alone, place, state.running, slurm.at[job.first] if job.placed == 1 else -1, sign)
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
    for i in nodes.listed[: members(nodes, nodes.picked)]:
        count_held(held, job, nodes.nodes[i])
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
    job.over_s = job.start_s + job.run_s + slurm.options[0].overhead_s
    enter(slurm.ends, job.over_s, 0, row)


@entry(Slurm, Array(I8, read=True), Array(F8, read=True))
@outlined
def resume(slurm, rows, started_s):
    """These jobs, whose nodes are in `at`, run at the beginning, if they find there what they ask for (R0).

    They were started at these dates; those of `arrivals` are to come.
    """
    held, nodes = slurm.limited.held, slurm.nodes
    for i in range(len(slurm.arrivals) - 1, -1, -1):
        row = slurm.arrivals[i]
        enter(slurm.coming, slurm.jobs[row].queued_s + slurm.options[0].arrival_s, 0, row)
    for i in range(len(rows)):
        job = slurm.jobs[rows[i]]
        needs, fits = needs_of(job), True
        held[:] = 0
        held[JOBS] = 1
        for place in range(job.first, job.first + job.placed):
            node = nodes.nodes[slurm.at[place]]
            node.count = counts_on(job, node, node.free, node.memory)
            fits = fits and node_key(slurm, job, slurm.at[place]) == NOW
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
def start(slurm, row, by):
    """Start a waiting job on `nodes.picked` (R1)."""
    state, jobs = slurm.state[0], slurm.jobs
    job, n = jobs[row], state.placed
    leave_queue(slurm, row)
    job.start_s, job.started, job.ends, job.by, job.first = state.now_s, state.now, state.now + job.limit, by, n
    for i in slurm.nodes.listed[: members(slurm.nodes, slurm.nodes.picked)]:
        slurm.at[n] = i
        n += 1
    job.placed, state.placed = n - job.first, n
    run(slurm, row)
    state.wanted -= np.int64(job.asked)
    job.asked = 0
    while jobs[row].preempted:
        jobs[row].preempted = 0
        row = jobs[row].mate
    state.changed, state.steady, state.kept, state.moved_s = 1, 0, 0, state.now_s
    if slurm.options[0].suspends:
        settle(slurm)


@kernel
def leave_queue(slurm, row):
    """Take all records of a job out of the queue."""
    while slurm.jobs[row].waits:
        insert(slurm.queue, 0, slurm.state[0].waiting, row, -1)
        slurm.state[0].waiting -= 1
        slurm.jobs[row].waits = 0
        row = slurm.jobs[row].mate


@outlined
def end(slurm, row, clean_s, was_stopped):
    """A job ends, or is stopped, and its nodes are being cleaned (R1)."""
    state, ended = slurm.state[0], slurm.ended
    hold(slurm, row, -1)
    if state.ended == len(ended):  # those that are past go
        for i in range(state.passed, state.ended):
            ended[i - state.passed] = ended[i]
        state.ended -= state.passed
        state.passed = 0
    place = state.ended
    while place > state.passed and ended[place - 1].clean_s > clean_s:
        ended[place] = ended[place - 1]
        place -= 1
    ended[place].row, ended[place].clean_s, ended[place].stopped = row, clean_s, was_stopped
    state.ended += 1
    state.changed, state.steady, state.kept, state.moved_s = 1, 0, 0, state.now_s
    add_usage(slurm, row, 0.0, 1.0)
    if slurm.options[0].suspends:
        settle(slurm)


@outlined
def settle(slurm):
    """Who sleeps and who runs (E11)."""
    jobs, state, line, nodes = slurm.jobs, slurm.state[0], slurm.preemption.line, slurm.nodes.nodes
    for i in range(state.running):
        x, place = slurm.held[i], i
        while place > 0 and runs_before(jobs[x], jobs[line[place - 1]]):
            line[place] = line[place - 1]
            place -= 1
        line[place] = x
    for i in range(len(nodes)):
        nodes[i].count = nodes[i].cpus
    for i in range(state.running):
        x = line[i]
        job, fits = jobs[x], True
        for place in range(job.first, job.first + job.placed):
            fits = fits and nodes[slurm.at[place]].count >= slurm.cpus_at[place]
        for place in range(job.first, job.first + job.placed):
            nodes[slurm.at[place]].count -= fits * slurm.cpus_at[place]
        if fits and job.asleep:
            job.over_s = state.now_s + job.rest_s
            enter(slurm.ends, job.over_s, 0, x)
            note(slurm, x, -1, RESUMED)
        elif not (fits or job.asleep):
            job.rest_s = job.over_s - state.now_s
            leave(slurm.ends, job.over_s, x)
            note(slurm, x, -1, SUSPENDED)
        job.asleep = not fits


@kernel
def runs_before(one, other):
    """Whether a running job comes before another one, of a lower id (E11)."""
    if (one.mode == SUSPEND) != (other.mode == SUSPEND):
        return other.mode == SUSPEND
    if one.tier != other.tier:
        return one.tier > other.tier
    return one.start_s < other.start_s if one.asleep == other.asleep else one.asleep < other.asleep


@kernel
def note(slurm, x, by, how):
    """Note what happens to a running job, if there is room."""
    state, noted, job = slurm.state[0], slurm.preemption.noted, slurm.jobs[x]
    if state.noted < len(noted):
        one = noted[state.noted]
        one.at_s, one.job, one.by, one.how, one.start_s = state.now_s, x, by, how, job.start_s
        one.cpus = slurm.limited.amounts[x, CPUS]
    state.noted += 1


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
    for i in range(state.passed, state.ended):
        job = slurm.jobs[slurm.ended[i].row]
        for place in range(job.first, job.first + job.placed * (slurm.ended[i].clean_s > state.now_s)):
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
