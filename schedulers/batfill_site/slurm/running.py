"""Jobs that start and end, what they hold, and windows: rules Q5, R1, W1 and W2 of docs/background/slurm.md.

Kernels change `slurm`, arrays.Slurm.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import F8, I8, Array, entry, kernel, outlined
from batfill.engine.ends import enter
from batfill_site.slurm.placement import ONE, ZERO, insert, key_of, place_of, put
from batfill_site.slurm.records import KINDS, Slurm

FAR_S = 2.0**40  # after all dates


@kernel
def whole(date_s):
    """A date in whole seconds, rounded down."""
    second = np.int64(date_s)
    return second - 1 if second > date_s else second


@kernel
def hold(slurm, row, sign):
    """A job begins to hold its nodes, and to count toward its limits, or ends to if `sign` is -1."""
    job, state, limited = slurm.jobs[row], slurm.state[0], slurm.limited
    key = key_of(job, row)
    for place in range(job.first, job.first + job.nodes):
        i = slurm.at[place]
        node = slurm.nodes.nodes[i]
        node.free -= sign * (node.cpus if job.exclusive else job.cpus)
        node.memory -= sign * job.memory
        node.gpus -= sign * job.gpus
        insert(slurm.shapes.on_nodes, node.first, node.first + node.jobs, key, sign)
        node.jobs += sign
        slurm.shapes.log[state.logged] = i
        state.logged += 1
    for place in range(limited.first[job.limits], limited.first[job.limits + 1]):
        for kind in range(KINDS):
            limited.used[limited.counters[place], kind] += sign * limited.amounts[row, kind]
    insert(slurm.running, 0, state.running, key, sign)
    insert(slurm.held, 0, state.running, row, sign)
    state.running += sign


@kernel
def passed_over(slurm, row):
    """Whether limits or the partition forbid a job to start (Q5, Q6)."""
    limited = slurm.limited
    group = slurm.jobs[row].limits
    for place in range(limited.first[group], limited.first[group + 1]):
        counter = limited.counters[place]
        for kind in range(KINDS):
            if limited.used[counter, kind] + limited.amounts[row, kind] > limited.most[counter, kind]:
                return True
    return slurm.jobs[row].barred != 0


@kernel
def run(slurm, row):
    """A job whose nodes and start are set begins to hold them."""
    job = slurm.jobs[row]
    hold(slurm, row, 1)
    enter(slurm.ends, job.start_s + job.run_s + slurm.options[0].overhead_s, 0, row)


@entry(Slurm, Array(I8, read=True), Array(F8, read=True))
@outlined
def resume(slurm, rows, started_s):
    """These jobs, whose nodes are set, run at the beginning; they were started at these dates (R0)."""
    for i in range(len(rows)):
        job = slurm.jobs[rows[i]]
        job.start_s, job.started = started_s[i], whole(started_s[i])
        job.ends = job.started + job.limit
        run(slurm, rows[i])
        job.start_s = np.float64(job.started)


@outlined
def start(slurm, place, by):
    """Start the job at this place of the queue on `nodes.picked` (R1)."""
    state, queue, jobs = slurm.state[0], slurm.queue, slurm.jobs
    row = queue[place]
    job = jobs[row]
    state.waiting -= 1
    for i in range(place, state.waiting):
        queue[i] = queue[i + 1]
    job.start_s, job.started, job.ends, job.by = state.now_s, state.now, state.now + job.limit, by
    n = job.first
    for x in range(len(slurm.nodes.picked)):
        word = slurm.nodes.picked[x]
        while word != ZERO:
            slurm.at[n] = 64 * x + place_of(slurm.nodes.places, word)
            word &= word - ONE
            n += 1
    run(slurm, row)
    state.wanted -= np.int64(job.asked)
    state.changed, state.steady, state.moved_s = 1, 0, state.now_s


@outlined
def end(slurm, row):
    """A job ends, and its nodes are being cleaned (R1)."""
    state = slurm.state[0]
    hold(slurm, row, -1)
    slurm.ended[state.ended] = row
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
        for place in range(slurm.jobs[row].first, slurm.jobs[row].first + slurm.jobs[row].nodes):
            put(nodes.cleaned, slurm.at[place])


@kernel
def keep_startable(slurm, row, asked):
    """Take the nodes out that may not take a job now, whatever is free there (R1, W1, W2)."""
    state, windows = slurm.state[0], slurm.windows
    for x in range(len(asked)):
        asked[x] &= ~slurm.nodes.cleaned[x]
    for i in range(state.windows):
        window = windows.live[i]
        if state.now + slurm.jobs[row].limit > windows.windows[window].begin_s:
            for x in range(len(asked)):
                asked[x] &= ~windows.nodes[window, x]
