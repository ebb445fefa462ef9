"""The order of the queue, priorities, usage and fair share: rules Q2 to Q4 and U1 to U5 of docs/background/slurm.md.

Kernels change `slurm`, records.Slurm.
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill_site.slurm.records import Slurm


@kernel
def set_priority(slurm, row, age):
    """Compute a waiting job's priority (Q3)."""
    options, job = slurm.options[0], slurm.jobs[row]
    if options.multifactor:
        aged = min(age / options.max_age_s, 1.0) if options.max_age_s > 0 else 1.0
        factor = slurm.shares.tree[job.association].factor
        job.priority = max(np.int64(options.weight_age * aged + options.weight_fairshare * factor + job.fixed), 1)


@kernel
def goes_before(jobs, row, other):
    """Whether a waiting job goes before another one (Q2)."""
    one, two = jobs[row], jobs[other]
    if one.tier != two.tier:
        return one.tier > two.tier
    if one.priority != two.priority:
        return one.priority > two.priority
    if one.submit != two.submit:
        return one.submit < two.submit
    return row < other


@kernel
def sift(jobs, queue, place):
    """Move the job at a place of the queue forward to where it belongs; returns whether that is another place."""
    row, before = queue[place], place
    while place > 0 and goes_before(jobs, row, queue[place - 1]):
        queue[place] = queue[place - 1]
        place -= 1
    queue[place] = row
    return place != before


@kernel
def enqueue(slurm, row):
    """A job, whose first record this is, is queued."""
    state, first = slurm.state[0], row
    while True:
        if not slurm.jobs[row].stopped:
            set_priority(slurm, row, 0.0)
        slurm.queue[state.waiting], slurm.jobs[row].waits = row, 1
        sift(slurm.jobs, slurm.queue, state.waiting)
        state.waiting += 1
        row = slurm.jobs[row].mate
        if row == first:
            break
    state.changed, state.steady, state.moved_s = 1, 0, state.now_s


@kernel
def add_usage(slurm, row, known_s, keep):
    """Add what a running job has used since the last tick, if there is one (U1, U2); `keep` is left after `known_s`."""
    state, job, tree = slurm.state[0], slurm.jobs[row], slurm.shares.tree
    seconds = np.float64(state.now - max(state.last_tick, job.started))
    if state.ticked and seconds > 0:
        kept = keep if seconds == known_s else slurm.options[0].decay ** seconds
        used, above = seconds * kept * job.billing, job.association
        while above >= 0:
            tree[above].usage += used
            above = tree[above].parent


@outlined
def tick(slurm):
    """Usage decays and grows, and all priorities are computed (U1)."""
    state, options, shares = slurm.state[0], slurm.options[0], slurm.shares
    if not state.ticked:
        state.ticked, state.last_tick = 1, state.now
        return
    if not options.fair_tree:
        set_factors(slurm)
    seconds = np.float64(state.now - state.last_tick)
    keep = kept = options.decay**seconds
    while state.resets < len(shares.resets_s) and shares.resets_s[state.resets] <= state.now:
        if shares.resets_s[state.resets] > state.last_tick:
            keep = 0.0
        state.resets += 1
    for i in range(len(shares.tree)):
        shares.tree[i].usage *= keep
    for i in range(state.running):
        add_usage(slurm, slurm.held[i], seconds, kept)
    state.last_tick = state.now
    if options.fair_tree:
        set_factors(slurm)
    for place in range(state.waiting):
        row = slurm.queue[place]
        slurm.jobs[row].fixed = slurm.jobs[row].fixed_later
        set_priority(slurm, row, np.float64(max(state.now - slurm.jobs[row].aged_from, 0)))
        if sift(slurm.jobs, slurm.queue, place) or options.bf_min_prio_reserve > 0 or options.preempts:
            state.steady = 0


@entry(Slurm)
@outlined
def set_factors(slurm):
    """Compute the factors of all users from the usage as it is (U4, U5)."""
    if slurm.options[0].fair_tree:
        rank_users(slurm.shares)
        return
    tree, two = slurm.shares.tree, slurm.options[0].two
    for place in range(len(slurm.shares.down)):
        one = tree[slurm.shares.down[place]]
        used = one.usage / tree[0].usage if tree[0].usage > 0 else 0.0
        one.level = used if one.parent == 0 else used + (tree[one.parent].level - used) * one.part
        if one.user:
            one.factor = two ** -(one.level / one.norm / slurm.options[0].damping) if one.norm > 0 else 0.0


@kernel
def ranks_before(tree, one, other):
    """Whether a sibling ranks before another one (U5)."""
    if tree[one].level != tree[other].level:
        return tree[one].level > tree[other].level
    return tree[one].user > tree[other].user if tree[one].user != tree[other].user else one < other


@kernel
def rank_users(shares):
    """Fair Tree (U5): level by level, the children of each account, or of equal ones side by side, take its place."""
    tree, line = shares.tree, shares.line
    users = 0
    for i in range(1, len(tree)):
        one = tree[i]
        users += one.user
        one.level = one.part / (one.usage / tree[one.parent].usage) if one.usage > 0 else np.inf
    old, n, accounts = 0, 1, 1
    line[0, 0] = tree[0].tied = 0
    while accounts > 0:
        place = end = accounts = 0
        while place < n:
            first, start, begin = line[old, place], place, end
            if tree[first].user:
                line[1 - old, end] = first
                end += 1
                place += 1
                continue
            while place < n and not tree[line[old, place]].user and (place == start or tree[line[old, place]].tied):
                end = take_kids(shares, line[old, place], line[1 - old], begin, end)
                place += 1
            for i in range(begin, end):
                kid = tree[line[1 - old, i]]
                kid.tied = kid.level == tree[line[1 - old, i - 1]].level if i > begin else tree[first].tied
                accounts += 1 - kid.user
        old, n = 1 - old, end
    rank = 0
    for place in range(n):
        one = tree[line[old, place]]
        if not one.tied:
            rank = users - place
        one.factor = rank / users


@kernel
def take_kids(shares, account, line, begin, end):
    """Insert an account's children into line[begin:end], which is sorted; returns the new end."""
    for kid in range(shares.tree[account].first_kid, shares.tree[account].first_kid + shares.tree[account].kids):
        place = end
        while place > begin and ranks_before(shares.tree, shares.kids[kid], line[place - 1]):
            line[place] = line[place - 1]
            place -= 1
        line[place] = shares.kids[kid]
        end += 1
    return end
