"""Jobs that are preempted: rules E1 to E11 of docs/background/slurm.md. Kernels change `slurm`, records.Slurm.

To see where a job fits without others, these leave their nodes (`lift`), the job is placed, and they return.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined
from batfill.engine.ends import enter, leave
from batfill_site.slurm.placement import NOW, choose, gpus_on, has, memory_on, put
from batfill_site.slurm.priority import goes_before
from batfill_site.slurm.running import end, leave_queue, note, on_any, seat, whole
from batfill_site.slurm.site import GRACED, KILLED, REQUEUE, REQUEUED, SUSPEND

ALWAYS, WITHIN = 1, 2  # when a kind of jobs may preempt another: always, or those that come later
CHECK_S = 30.0


@kernel
def may_preempt(slurm, row, x):
    """Whether a running job may be preempted for a waiting one, but for its exempt time (E1)."""
    one, other = slurm.jobs[row], slurm.jobs[x]
    may = slurm.preemption.may[one.kind, other.kind]
    if may != WITHIN:
        return may == ALWAYS
    return one.priority > other.priority if slurm.options[0].multifactor else row < x


@outlined
def candidates(slurm, row, asked, sleep, end_too):
    """List the running jobs on nodes asked that a job may preempt, in the order of E3; returns their number.

    `sleep`: those that would sleep; `end_too`: those that would end.
    """
    jobs, listed, n = slurm.jobs, slurm.preemption.listed, 0
    for i in range(slurm.state[0].running):
        x = slurm.held[i]
        sleeps = jobs[x].mode == SUSPEND
        if not (sleep if sleeps else end_too) or not may_preempt(slurm, row, x) or not on_any(slurm, x, asked):
            continue
        exempt_until = jobs[x].started + jobs[x].exempt
        if slurm.state[0].now < exempt_until and not sleeps:
            slurm.state[0].until = min(slurm.state[0].until, exempt_until)
            continue
        place = n
        while place > 0 and goes_earlier(jobs[x], jobs[listed[place - 1]], slurm.options[0].preempt_youngest_first):
            listed[place] = listed[place - 1]
            place -= 1
        listed[place] = x
        n += 1
    return n


@kernel
def goes_earlier(one, other, youngest):
    """Whether a candidate comes before another one, of a lower id (E3)."""
    if youngest:
        return one.started > other.started
    return one.rank < other.rank if one.rank != other.rank else one.placed < other.placed


@outlined
def lift(slurm, first, last, sign):
    """Listed jobs leave their nodes for a moment, or return if `sign` is 1; one that would sleep keeps its memory."""
    for i in range(first, last):
        job = slurm.jobs[slurm.preemption.listed[i]]
        seat(slurm, slurm.preemption.listed[i], sign)
        for place in range(job.first, job.first + job.placed * (job.mode == SUSPEND)):
            node = slurm.nodes.nodes[slurm.at[place]]
            node.memory += sign * memory_on(job, node, slurm.cpus_at[place])
            node.gpus += sign * gpus_on(job, node)


@outlined
def choose_over(slurm, row, asked):
    """Whether a job fits on nodes asked beside what it cannot suspend, on `nodes.picked` (E11)."""
    n = candidates(slurm, row, asked, True, False)
    lift(slurm, 0, n, -1)
    fits = n > 0 and choose(slurm, slurm.jobs[row], asked, NOW, False)
    lift(slurm, 0, n, 1)
    return fits


@outlined
def needed(slurm, row, asked):
    """How many of those listed must go, one by one, until a job fits on nodes asked (E4); 0 if it never does.

    `nodes.picked` are its nodes.
    """
    listed, n, gone = slurm.preemption.listed, candidates(slurm, row, asked, False, True), 0
    for _again in range(slurm.options[0].preempt_reorder_count + 1):
        last, done = 0 if gone == 0 else listed[gone - 1], gone
        for i in range(done - 1, 0, -1):  # the last one that was needed goes first, the others by their nodes
            x, place = listed[i - 1], i
            while place < done - 1 and on_picked(slurm, x) < on_picked(slurm, listed[place + 1]):
                listed[place] = listed[place + 1]
                place += 1
            listed[place] = x
        if done > 0:
            listed[0] = last
        gone, fits = 0, False
        while gone < n and not fits:
            lift(slurm, gone, gone + 1, -1)
            gone += 1
            fits = choose(slurm, slurm.jobs[row], asked, NOW, False)
        lift(slurm, 0, gone, 1)
        if not fits:
            return 0
    return gone


@kernel
def on_picked(slurm, x):
    """How many of `nodes.picked` a running job holds."""
    n = 0
    for place in range(slurm.jobs[x].first, slurm.jobs[x].first + slurm.jobs[x].placed):
        n += has(slurm.nodes.picked, slurm.at[place])
    return n


@outlined
def preempt(slurm, row, n):
    """Preempt, for a job, those of the first n listed that hold one of `nodes.picked` (E5, E6, E10)."""
    jobs, now = slurm.jobs, slurm.state[0].now
    while not jobs[row].preempted:
        jobs[row].preempted = 1
        row = jobs[row].mate
    for i in range(n):
        x = slurm.preemption.listed[i]
        job = jobs[x]
        if on_picked(slurm, x) == 0:
            continue
        if job.grace == 0 or 0 < job.grace_until <= now:
            stop(slurm, x, row)
        elif job.grace_until == 0:
            seat(slurm, x, -1)
            job.grace_until = now + job.grace
            job.ends = min(job.ends, job.grace_until)
            seat(slurm, x, 1)
            note(slurm, x, row, GRACED)
            slurm.state[0].steady = 0


@outlined
def stop(slurm, x, by):
    """A running job is ended, and is to be queued again if it may be (E8, E9)."""
    jobs, state, options, limited = slurm.jobs, slurm.state[0], slurm.options[0], slurm.limited
    job, again, clean_s = jobs[x], jobs[x].mode == REQUEUE, state.now_s + options.killing_s
    note(slurm, x, by, REQUEUED if again else KILLED)
    leave(slurm.ends, job.over_s, x)
    job.over_s = state.now_s
    end(slurm, x, clean_s, 1)
    for place in range(job.first, job.first + job.placed):
        put(slurm.nodes.cleaned, slurm.at[place])
    if not again:
        return
    job.start_s, job.by, job.grace_until = np.nan, 0, 0
    for kind in range(limited.amounts.shape[1]):
        limited.amounts[x, kind] = limited.requested[x, kind]
    back, mate = whole(clean_s), x
    while True:
        one = jobs[mate]
        one.stopped, one.eligible = 1, back + options.cred_expire_s + 1
        if options.multifactor:  # otherwise it keeps its place
            one.submit = back
        one.aged_from = back if options.accrue_always else one.eligible
        mate = one.mate
        if mate == x:
            break
    enter(slurm.coming, np.float64(job.eligible), 0, x)


@outlined
def withdraw(slurm, first):
    """A job, whose first record this is, is cancelled (Q8); returns whether it ends, as it runs."""
    jobs, state, row = slurm.jobs, slurm.state[0], first
    if jobs[first].waits:
        state.wanted -= np.int64(jobs[first].asked)
        leave_queue(slurm, first)
        state.changed, state.steady, state.moved_s = 1, 0, state.now_s
        return False
    while np.isnan(jobs[row].start_s) and jobs[row].mate != first:
        row = jobs[row].mate
    job = jobs[row]
    runs = not np.isnan(job.start_s) and (job.asleep or job.over_s > state.now_s)
    if runs:
        if not job.asleep:
            leave(slurm.ends, job.over_s, row)
        job.asleep = 0
        end(slurm, row, state.now_s + slurm.options[0].cleaning_s, 0)
    return runs


@kernel
def check_date(slurm, until):
    """When the first check of time limits from a date on is (E10)."""
    first_s = slurm.options[0].first_check_s
    if len(slurm.checks_s) > 0:
        place = np.searchsorted(slurm.checks_s, np.float64(until))
        return slurm.checks_s[place] if place < len(slurm.checks_s) else np.inf
    return first_s + CHECK_S * max(np.ceil((until - first_s) / CHECK_S), 0.0)


@outlined
def next_check(slurm):
    """When the next running job's grace ends at a check, and whose it is: of several the lowest id's."""
    date_s, row = np.inf, -1
    for i in range(slurm.state[0].running):
        job = slurm.jobs[slurm.held[i]]
        if job.grace_until > 0 and check_date(slurm, job.grace_until) < date_s:
            date_s, row = check_date(slurm, job.grace_until), slurm.held[i]
    return date_s, row


@outlined
def arrange(slurm):
    """Put the queue into the line of a pass, in the order of Q2 or E2; returns the number of records in it."""
    n, depth = slurm.state[0].waiting, 0
    for i in range(n):
        slurm.line[i] = slurm.queue[i]
    while slurm.options[0].by_qos and 1 << depth < n:
        depth += 1
    for by_id in range(1, -1, -1):
        for level in range(depth - 1, -1, -1):
            for part in range(1 << level):
                first, end_ = 0, n
                for bit in range(level - 1, -1, -1):
                    half = first + (end_ - first) // 2
                    first, end_ = (half, end_) if part >> bit & 1 else (first, half)
                merge(slurm, first, end_, by_id)
    return n


@outlined
def merge(slurm, first, end_, by_id):
    """Merge the halves of a part of the line, which are in order: that of ids, or of E2."""
    line, left, half = slurm.line, slurm.preemption.listed, first + (end_ - first) // 2
    for i in range(first, half):
        left[i] = line[i]
    i, other = first, half
    for place in range(first, end_):
        if i == half or (other < end_ and goes_first(slurm, line[other], left[i], by_id)):
            line[place] = line[other]
            other += 1
        else:
            line[place] = left[i]
            i += 1


@kernel
def goes_first(slurm, row, other, by_id):
    """Whether a record goes before another one: by id, or by who may preempt whom, else by Q2."""
    before, one, two = slurm.preemption.before, slurm.jobs[row].kind, slurm.jobs[other].kind
    if by_id:
        return row < other
    if before[one, two] != before[two, one]:
        return before[one, two] != 0
    return goes_before(slurm.jobs, row, other)
