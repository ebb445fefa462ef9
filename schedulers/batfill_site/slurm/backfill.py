"""The backfill cycle: rules B2 to B7 of docs/background/slurm.md. Kernels change `slurm`, records.Slurm.

While no job is queued, starts or ends, and the order stays, a cycle does what the one before did until a date that its
plan is made of is reached: each comparison with the present lowers `state.until` to when it would turn out otherwise.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import kernel, outlined
from batfill_site.slurm.placement import (
    NEVER,
    NOW,
    ROW_BITS,
    ZERO,
    choose,
    end_of,
    has,
    has_enough,
    key_when,
    put,
    row_of,
)
from batfill_site.slurm.preempt import arrange, candidates, choose_over, lift, needed, preempt
from batfill_site.slurm.records import COUNTED, TRIED
from batfill_site.slurm.running import keep_startable, lacks, on_any, passed_over, start, would_exceed
from batfill_site.slurm.site import BACKFILL

FIRST_GROUP_S, OVERDUE_S = 30, 30
LEAP = 8  # keys that are looked at together


@kernel
def same_until(slurm, date):
    """The cycle would be another one from this date on, in whole seconds."""
    slurm.state[0].until = min(slurm.state[0].until, date)


@kernel
def meets(slurm, date):
    """A date is compared with the begin and the end of the plan."""
    options, begin, window = slurm.options[0], slurm.plan.begin[0], slurm.options[0].bf_window_s
    if date > begin:
        same_until(slurm, date)
    if date >= begin + window:
        step = options.bf_resolution_s
        same_until(slurm, max(begin + step, cut(options, date - window + step - 1)))


@kernel
def cut(options, date):
    """A date cut down to the resolution of plans (B4, 6)."""
    return date - date % options.bf_resolution_s


@outlined
def reserve(slurm, b, e, taken, row):
    """Reserve nodes in [b, e) (B7), and the licences of a job, unless it is -1."""
    plan, state = slurm.plan, slurm.state[0]
    meets(slurm, b)
    meets(slurm, e)
    first = split(plan, state, b)
    last = split(plan, state, e)
    for k in range(first, last):
        for x in range(len(taken)):
            plan.free[k, x] &= ~taken[x]
        if row >= 0 and slurm.options[0].bf_licenses:
            for x in range(plan.licences.shape[1]):
                plan.licences[k, x] -= slurm.licences.takes[row, x]
    # Other neighbours are as before: equal ones are left only where two pairs became equal, of which one was joined.
    if state.joined:
        first, last = 0, state.intervals
    state.joined = 0
    for k in range(max(first - 1, 0), min(last, state.intervals - 1)):
        if same(plan, k):
            plan.end[k] = plan.end[k + 1]
            move(plan, k + 1, k + 2, state.intervals)
            state.intervals -= 1
            state.joined = 1
            return


@kernel
def move(plan, to, first, last):
    """Move the intervals first:last to another place."""
    end = to + last - first
    np.copyto(plan.begin[to:end], plan.begin[first:last])
    np.copyto(plan.end[to:end], plan.end[first:last])
    np.copyto(plan.free[to:end], plan.free[first:last])
    np.copyto(plan.licences[to:end], plan.licences[first:last])


@kernel
def same(plan, k):
    """Whether the same is reserved in an interval and in the next one."""
    for x in range(plan.free.shape[1]):
        if plan.free[k, x] != plan.free[k + 1, x]:
            return False
    equal = True
    for x in range(plan.licences.shape[1]):
        equal = equal and plan.licences[k, x] == plan.licences[k + 1, x]
    return equal


@kernel
def split(plan, state, date):
    """Split the interval that has a date inside; returns the number of the one that begins there, or later."""
    k = 0
    while k < state.intervals and plan.end[k] <= date:
        k += 1
    if k < state.intervals and plan.begin[k] < date:
        move(plan, k + 1, k, state.intervals)
        plan.end[k] = plan.begin[k + 1] = date
        state.intervals += 1
        k += 1
    return k


@kernel
def begin_plan(slurm):
    """The plan with the windows that are known (B2), and what running jobs have in it (Q7)."""
    plan, state = slurm.plan, slurm.state[0]
    plan.begin[0] = cut(slurm.options[0], state.now)
    plan.end[0] = plan.begin[0] + slurm.options[0].bf_window_s
    plan.free[0] = ~ZERO
    for x in range(plan.licences.shape[1]):
        plan.licences[0, x] = slurm.licences.all[x]
    state.intervals, state.joined = 1, 0
    for i in range(state.windows):
        window, nodes = slurm.windows.windows[slurm.windows.live[i]], slurm.windows.nodes[slurm.windows.live[i]]
        reserve(slurm, window.b, window.e, nodes, -1)
    for i in range(state.running if slurm.options[0].bf_running_job_reserve else 0):
        keep(slurm, slurm.held[i])


@kernel
def keep(slurm, row):
    """Reserve what a job that runs has in the plan (Q7)."""
    job, options, mask, has_licences = slurm.jobs[row], slurm.options[0], slurm.nodes.mask, 0
    if not options.bf_running_job_reserve:
        return
    mask[:] = ZERO
    for place in range(job.first, job.first + job.placed * job.exclusive):
        put(mask, slurm.at[place])
    for x in range(len(slurm.licences.left)):
        has_licences += slurm.licences.takes[row, x] * options.bf_licenses
    if job.exclusive or has_licences > 0:
        reserve(slurm, slurm.plan.begin[0], cut(options, job.ends), mask, row)


@kernel
def date_of(slurm, last):
    """The date after the end of a group (B5)."""
    now = slurm.state[0].now
    if last == NOW or end_of(last) > now:
        return now if last == NOW else end_of(last)
    return now + 1 if slurm.options[0].new_rules else max(end_of(last) + OVERDUE_S, now + 1)


@kernel
def first_from(keys, place, n, key):
    """The first place from this one on with at least a key, or n: it is mostly near, where a bisection takes longer."""
    while place + LEAP <= n and keys[place + LEAP - 1] < key:
        place += LEAP
    while place < n and keys[place] < key:
        place += 1
    return place


@kernel
def group_of(slurm, asked, key):
    """The last key of the group that has a key, of the running jobs on the nodes asked (B5)."""
    state, new_rules, running = slurm.state[0], slurm.options[0].new_rules, slurm.running
    linear = slurm.options[0].bf_window_linear_s
    first, window = next_on(slurm, asked, 0), FIRST_GROUP_S
    after, date = first, end_of(running[first])
    if new_rules:
        date += 30 - date % 30
    while True:
        after = first_from(running, after, state.running, (date + window + 1) << ROW_BITS)  # of those that end later
        if after - 1 != first and not runs_on(slurm, after - 1, asked):  # no look was taken after it:
            after = min(next_on(slurm, asked, after) + 1, state.running)  # the next one is in the group, too
        if running[after - 1] >= key:
            while not runs_on(slurm, after - 1, asked):
                after -= 1
            return running[after - 1]
        window = window + linear if linear > 0 else 2 * window
        if new_rules:
            missing = end_of(running[after]) - date - window
            if linear > 0 and missing > 0:
                window += (missing + linear - 1) // linear * linear
            while end_of(running[after]) > date + window:
                window *= 2
        else:
            first = next_on(slurm, asked, after)
            date = end_of(running[first])


@outlined
def first_fit(slurm, job, asked, bound):
    """The key of the end after which the job fits on nodes asked (B5).

    NOW if it fits now, NEVER if it does not fit after any group that begins below a bound.
    """
    state, key, sure = slurm.state[0], key_when(slurm, job, asked, bound), job.even != 0 and job.required < 0
    if key == NOW and (sure or choose(slurm, job, asked, NOW, False)):
        return NOW
    if sure and key < NEVER:
        return group_of(slurm, asked, key)
    while key < bound:
        place = next_on(slurm, asked, np.searchsorted(slurm.running[: state.running], key))
        if place == state.running:
            return NEVER
        last = group_of(slurm, asked, slurm.running[place])
        if choose(slurm, job, asked, last, False):
            return last
        key = last + 1
    return NEVER


@outlined
def fit_without(slurm, row, asked):
    """What `first_fit` finds without what may be preempted on the nodes asked, and whether there is any (E7).

    The job then fits on `nodes.picked`.
    """
    job, n, last = slurm.jobs[row], candidates(slurm, row, asked, True, True), NEVER
    if n > 0:
        lift(slurm, 0, n, -1)
        last = first_fit(slurm, job, asked, NEVER)
        if last != NEVER:
            choose(slurm, job, asked, last, last == NOW and job.features == 0)
        lift(slurm, 0, n, 1)
    return last, n > 0


@kernel
def runs_on(slurm, place, asked):
    """Whether the running job at a place in the order of B5 has one of the nodes asked."""
    i = slurm.alone[place]
    return has(asked, i) if i >= 0 else on_any(slurm, row_of(slurm.running[place]), asked)


@kernel
def next_on(slurm, asked, place):
    """The first place from this one on of a running job on one of the nodes asked; the number of them if none is."""
    while place < slurm.state[0].running and not runs_on(slurm, place, asked):
        place += 1
    return place


@kernel
def free_between(slurm, b, e, taken, first, last):
    """Whether no interval that overlaps [b, e) has reserved one of these nodes, which those of first:last have not."""
    plan = slurm.plan
    for k in range(slurm.state[0].intervals):
        if plan.end[k] > b and plan.begin[k] < e and not first <= k < last:
            for x in range(len(taken)):
                if taken[x] & ~plan.free[k, x] != ZERO:
                    return False
    return True


@kernel
def later_than(slurm, k):
    """The date at which to look again at a job that finds no place at interval number k (B4, 1); NEVER if none is."""
    plan, state = slurm.plan, slurm.state[0]
    while k < state.intervals - 1:
        if not slurm.options[0].later_frees:
            return plan.end[k]
        for x in range(plan.free.shape[1]):
            if plan.free[k + 1, x] & ~plan.free[k, x] != ZERO:
                return plan.end[k]
        for x in range(plan.licences.shape[1]):
            if plan.licences[k + 1, x] > plan.licences[k, x]:
                return plan.end[k]
        k += 1
    return NEVER


@kernel
def ask(slurm, row, k, at, window):
    """Set `nodes.mask` to the nodes that no interval from number k on reserves for a job from a date on (B4, 1).

    `window` is what was returned for the date before, at first three times 0: `plan.ahead[i]` are the nodes that are
    not reserved from interval i to the first of these numbers, `nodes.beyond` those from there to the second; before
    the third an interval lacks licences. So a look at later dates looks at each interval twice at most.
    """
    job, plan, nodes, (middle, until, wanting) = slurm.jobs[row], slurm.plan, slurm.nodes, window
    begin, words, mask, asked, ahead = until, len(nodes.mask), nodes.mask, nodes.asked[job.asks], plan.ahead[k]
    while until < slurm.state[0].intervals and plan.begin[until] <= at + job.planned:
        until += 1
        if lacks(slurm.licences.takes[row], plan.licences[until - 1]):
            wanting = until
    if k >= middle:
        for x in range(words):
            nodes.beyond[x] = plan.ahead[until, x] = ~ZERO
        for i in range(until - 1, k - 1, -1):
            for x in range(words):
                plan.ahead[i, x] = plan.ahead[i + 1, x] & plan.free[i, x]
        middle = begin = until
    for i in range(begin, until):
        for x in range(words):
            nodes.beyond[x] &= plan.free[i, x]
    for x in range(words):
        mask[x] = ZERO if k < wanting else asked[x] & ~nodes.shut[x] & ahead[x] & nodes.beyond[x]
    return middle, until, wanting


@kernel
def keep_until(slurm, job, k):
    """`nodes.mask` is otherwise when a job that is tried now reaches an interval from number k on."""
    mask, plan, blocking = slurm.nodes.mask, slurm.plan, ZERO
    while blocking == ZERO and k < slurm.state[0].intervals:
        for x in range(len(mask)):
            blocking |= mask[x] & ~plan.free[k, x]
        if blocking != ZERO:
            same_until(slurm, plan.begin[k] - job.planned)
        k += 1


@outlined
def try_job(slurm, row, may_reserve):
    """Try a job (B4): whether it was tested, whether it starts, and b and e of `nodes.found`, 0 if not reserved."""
    nodes, state, options, plan = slurm.nodes, slurm.state[0], slurm.options[0], slurm.plan
    job, mask, now = slurm.jobs[row], nodes.mask, state.now
    words, at, k, tested, window, earliest, known = len(mask), now, 0, False, (0, 0, 0), 0, 0
    while True:
        while k < state.intervals and plan.end[k] <= at:
            k += 1
        later = later_than(slurm, k)
        if later < earliest and k < known:
            at = later
            continue
        bound = NEVER if later == NEVER or job.looked_at or options.preempts else (later + 1) << ROW_BITS
        window = ask(slurm, row, k, at, window)
        if at == now:
            keep_until(slurm, job, window[1])
        enough = (tested and job.required < 0) or has_enough(slurm, job, mask)
        tested = tested or enough
        last, without = first_fit(slurm, job, mask, bound) if enough else NEVER, False
        if options.preempts and enough and last != NOW:
            found, without = fit_without(slurm, row, mask)
            last = found if without else last
        if last == NEVER:
            # No date up to `later` is found, and it does not matter which one is.
            if later == NEVER or not may_reserve:
                return tested, False, 0, 0
            if bound != NEVER and tested and known < window[0]:
                # Up to the interval before this number a date needs nodes that neither that one reserves nor those
                # behind it, and is not found before enough of these count.
                known = window[0]
                for x in range(words):
                    mask[x] = nodes.asked[job.asks, x] & plan.ahead[known - 1, x] & nodes.beyond[x]
                earliest = end_of(key_when(slurm, job, mask, NEVER))
            at = later
            continue
        uncapped = last == NOW and job.features == 0
        if job.looked_at and (without or choose(slurm, job, mask, last, uncapped)) and would_exceed(slurm, row):
            return tested, False, 0, 0
        begin = max(date_of(slurm, last), at)
        same_until(slurm, end_of(last) if last != NOW and end_of(last) > now else begin)
        if begin > now:
            if not may_reserve:
                return tested, False, 0, 0
            if later != NEVER and later < begin:
                at = later
                continue
            if begin > now + options.bf_window_s:
                same_until(slurm, begin - options.bf_window_s)
                return tested, False, 0, 0
        if not without:
            choose(slurm, job, mask, last, uncapped)
        for x in range(words):
            nodes.found[x] = nodes.picked[x]
        if begin <= now:
            cleaning = ZERO
            for x in range(words):
                cleaning |= nodes.found[x] & nodes.cleaned[x]
                nodes.open[x] = mask[x] & ~nodes.cleaned[x]
            if cleaning != ZERO:
                begin = now + 1
            else:
                keep_startable(slurm, row, nodes.open)
                fits = choose(slurm, job, nodes.open, NOW, False)
                if fits or (options.suspends and choose_over(slurm, row, nodes.open)):
                    starts = not would_exceed(slurm, row)
                    if starts:
                        start(slurm, row, BACKFILL)
                    return tested, starts, 0, 0
                victims = needed(slurm, row, nodes.open) if options.preempts and not job.preempted else 0
                if victims > 0:
                    preempt(slurm, row, victims)
        if begin > now and not may_reserve:
            return tested, False, 0, 0
        b, e = cut(options, begin), cut(options, begin + job.planned)
        meets(slurm, b)
        meets(slurm, e)
        clash = begin > now and not free_between(slurm, b, e, nodes.found, k, window[1])
        if clash and begin > at:
            at = begin
            continue
        return (tested, False, 0, 0) if clash else (tested, False, b, e)


@kernel
def counted(slurm, row, first, last):
    """Whether one of these kinds is used up for a job."""
    for kind in range(first, last):
        where = slurm.counts_of[row, kind]
        if where >= 0 and slurm.counts[where] >= slurm.most[kind]:
            return True
    return False


@kernel
def may_wait(slurm, job):
    """Whether a job is old and important enough to reserve (B6), and to close its partition (M1)."""
    now, options = slurm.state[0].now, slurm.options[0]
    old = now - job.eligible >= options.bf_min_age_reserve_s
    if not old:
        same_until(slurm, now)
    return old and job.priority >= options.bf_min_prio_reserve


@outlined
def cycle(slurm):
    """A backfill cycle (B3); returns the number of jobs tested.

    Until its date comes, or a job starts or ends, a job's try depends on those before it alone. While these are the
    same, what it came to is in `plan.tries`, of which the first `state.kept` hold.
    """
    state, options, tries, found = slurm.state[0], slurm.options[0], slurm.plan.tries, slurm.nodes.found
    state.until = state.windows_until
    begin_plan(slurm)
    for i in range(state.waiting):
        for kind in range(COUNTED):
            if slurm.counts_of[slurm.queue[i], kind] >= 0:
                slurm.counts[slurm.counts_of[slurm.queue[i], kind]] = 0
    if options.preempts or options.bf_min_prio_reserve > 0 or options.bf_running_job_reserve:
        state.kept = 0  # other dates and priorities decide, too
    tested = started = n = 0
    for row in slurm.line[: arrange(slurm)]:
        if tested >= options.bf_max_job_test or started >= options.bf_max_job_start:
            break
        job = slurm.jobs[row]
        barred = not options.bf_licenses and lacks(slurm.licences.takes[row], slurm.licences.left)
        if not job.waits or barred or counted(slurm, row, 0, TRIED) or passed_over(slurm, row):
            continue
        for kind in range(TRIED):
            slurm.counts[slurm.counts_of[row, kind]] += 1
        if n < state.kept and tries[n].row == row and state.now < tries[n].until:
            same_until(slurm, tries[n].until)
            was_tested, starts, b, e = tries[n].tested != 0, False, tries[n].b, tries[n].e
            for x in range(len(found)):
                found[x] = slurm.plan.found[n, x]
        else:
            state.kept = min(state.kept, n)
            may_reserve = may_wait(slurm, job) and not (job.no_reserve or counted(slurm, row, TRIED, COUNTED))
            was_tested, starts, b, e = try_job(slurm, row, may_reserve)
        if e > 0:
            reserve(slurm, b, e, found, row)
            for kind in range(TRIED, COUNTED):
                if slurm.counts_of[row, kind] >= 0:
                    slurm.counts[slurm.counts_of[row, kind]] += 1
        if not starts and state.kept == n < len(tries):
            one = tries[n]
            one.row, one.tested, one.b, one.e, one.until = row, was_tested, b, e, state.until
            for x in range(len(found)):
                slurm.plan.found[n, x] = found[x]
            state.kept += 1
        n += 1
        tested += was_tested
        if starts:
            started += 1
            keep(slurm, row)
    return tested
