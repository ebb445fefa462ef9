"""A replay that stops where an agent has to decide: kernels that carry out an action, and replay on to the next.

They change `queue` (records.QueueArrays), `events` (loop.Events), `sight` (seeing.Sight) and `episode` (EPISODE).
"""

from __future__ import annotations

import numpy as np

from batfill.base.kernels import entry, kernel, outlined
from batfill.engine.easy import backfill_behind_head, easy_pass
from batfill.engine.loop import TO_DECIDE, Events, advance, record_start
from batfill.engine.records import QueueArrays
from batfill.engine.running import charge, may_backfill, reserve
from batfill.engine.waiting import start_heads, start_waiting
from batfill_lab.env.seeing import Sight, first_waiting, note_logs, see_all

EPISODE = np.dtype(
    [
        ("warm", "i8"),  # jobs before the scored ones: while only these have been submitted, no agent decides
        ("backfills", "u1"),  # 1 if the agent backfills behind the head, 0 if it picks the next job
        ("seen", "i8"),  # the jobs in the last observation; 0 once the episode is over
        ("counted", "i8"),  # tries so far that `unscheduled` counts
        ("unscheduled", "i8"),  # scored jobs that have not started
        ("decisions", "i8"),
        ("invalid", "i8"),  # actions that named no job that could be chosen
    ]
)
# Where a step has got to within an instant.
ADVANCES, OPENS, ASKS = range(3)


@kernel
def record_pass(n, ahead, queue, events):
    """Record the first n tries after the known ones in `events.starts`; those from `ahead` on were backfilled."""
    first = np.int64(events.clock[0].starts)
    for place in range(n):
        record_start(events.starts[first + place].row, place >= ahead, queue, events)


@outlined
def decide_rest(queue, events):
    """Decide the rest of the instant in the base order."""
    clock = events.clock[0]
    n, ahead = easy_pass(clock.now_s, queue, events.starts[clock.starts :])
    record_pass(n, ahead, queue, events)


@outlined
def backfill_behind(queue, events, row):
    """Reserve for a job that does not fit, and backfill in the base order."""
    clock = events.clock[0]
    queue.state[0].head = row
    n = backfill_behind_head(clock.now_s, queue, events.starts[clock.starts :], np.int64(0))
    record_pass(n, 0, queue, events)


@outlined
def open_backfilling(queue, events):
    """Start the jobs before the head, and reserve for it."""
    state, clock = queue.state[0], events.clock[0]
    n = start_heads(clock.now_s, queue, events.starts[clock.starts :])
    record_pass(n, n, queue, events)
    if state.waiting > 0 and state.free > 0:
        state.ahead = 0
        reserve(clock.now_s, queue)


@kernel
def choices(now_s, queue, rows, backfills, mask):
    """What the agent may choose: writes the jobs that it sees to `rows`, and `mask`, int8 (n_actions,).

    Returns how many jobs it sees, 0 for no decision. It matters which job is picked if one fits, and not all of them do
    together; and of which jobs are backfilled behind the head, if any may be.
    """
    state = queue.state[0]
    if state.waiting < 2 or state.free == 0:
        return 0
    seen = first_waiting(queue, rows)
    fewest, total, may = np.int64(state.free) + 1, np.int64(0), False
    for place in range(seen):
        procs, expected_s = np.int64(queue.jobs[rows[place]].procs), queue.jobs[rows[place]].expected_s
        fewest, total = min(fewest, procs), total + procs
        mask[place] = 1
        if backfills:
            mask[place] = place > 0 and may_backfill(now_s, procs, expected_s, state.free, state.shadow_s, state.extra)
            may = may or mask[place] != 0
    if backfills:
        return seen if may else 0
    if seen < state.waiting:  # more jobs than the agent sees
        return seen if seen > 1 and min(fewest, state.fewest) <= state.free else 0
    return seen if fewest <= state.free and state.free < total else 0


@kernel
def show(now_s, queue, sight, episode, seen):
    """Write the observation of the first `seen` of `sight.rows`; without any the episode is over."""
    mask = sight.mask
    sight.jobs[seen : episode.seen] = 0  # of the observation before
    episode.seen = seen
    mask[seen:] = 0  # `choices` also writes it where it offers nothing
    if seen == 0:
        mask[0] = 1
        sight.cluster[:] = 0
        return
    episode.decisions += 1
    if episode.backfills:
        mask[len(mask) - 1] = 1
    see_all(now_s, queue, sight, seen)


@kernel
def scored_left(episode, events):
    """Update how many scored jobs have not started; returns whether any is left."""
    clock = events.clock[0]
    for place in range(episode.counted, np.int64(clock.starts)):
        episode.unscheduled -= np.int64(events.starts[place].row) >= episode.warm
    episode.counted = clock.starts
    return episode.unscheduled > 0


@kernel
def carry_out(queue, events, sight, episode, action):
    """Carry out an action; returns where the step has got to."""
    state, mask = queue.state[0], sight.mask
    now_s, last = events.clock[0].now_s, len(mask) - 1
    if not 0 <= action < len(mask) or mask[action] == 0:
        episode.invalid += 1
        action = last if episode.backfills else 0
    if episode.backfills and action == last:
        return ADVANCES
    row = sight.rows[action]
    if queue.jobs[row].procs > state.free:
        backfill_behind(queue, events, row)
        return ADVANCES
    if episode.backfills:
        job = queue.jobs[row]
        state.extra = charge(now_s, queue, row, job.procs, job.expected_s, state.shadow_s, state.extra)
    start_waiting(now_s, queue, row)
    events.starts[events.clock[0].starts].row = row
    record_start(row, episode.backfills, queue, events)
    return ASKS


@kernel
def until_choice(size, queue, events, sight, episode, at):
    """Replay on from `at` until the agent may choose; returns how many jobs it sees, 0 at the episode's end."""
    state, clock = queue.state[0], events.clock[0]
    while True:
        if at == ADVANCES:
            if not scored_left(episode, events) or advance(np.inf, size, queue, events) != TO_DECIDE:
                return 0
            at = OPENS
        warm = state.submitted <= episode.warm
        if not warm:
            if at == OPENS and episode.backfills:
                open_backfilling(queue, events)
            seen = choices(clock.now_s, queue, sight.rows, episode.backfills, sight.mask)
            if seen > 0:
                return seen
        if state.waiting > 0 and state.free > 0:
            if warm or not episode.backfills:
                decide_rest(queue, events)
            else:  # jobs that the agent does not see
                backfill_behind(queue, events, state.head)
        at = ADVANCES


@entry(int, int, int, QueueArrays, Events, Sight, EPISODE, brief=True)
@outlined
def step(size, acts, action, queue, events, sight, episodes):
    """Carry out an action if `acts`, else begin, and go on to the next decision, whose observation `sight` receives.

    size: the machine's processors; episodes: EPISODE (1,). At the beginning nothing is replayed, and RULES.agent is 1.
    """
    episode, at = episodes[0], ADVANCES
    if acts:
        at = carry_out(queue, events, sight, episode, action)
    else:
        note_logs(queue, sight.logs)
    seen = until_choice(size, queue, events, sight, episode, at)
    show(events.clock[0].now_s, queue, sight, episode, seen)
