"""The engine's data on jobs, queue and machine, as packed records.

A record groups the fields that a kernel reads together. Times are float64 seconds. Rows and counts are unsigned, so
indexing is compiled without the test for negative indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.kernels import F8, I8, PLAIN, U4, Array, record

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A shadow time is never infinite: a job without walltime must not count as ending before a head that waits for one.
NEVER_S = np.finfo(np.float64).max
LAST_S = 2.0**50  # where it goes by a plan: later than any other date

# Sections of the queue, in its order: urgent, overdue, small and large jobs. Where tries stand back, the second holds
# the due jobs.
URGENT, OVERDUE, TRIES, LARGE = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
SECTIONS = 4
AWAY = -1  # the section of a job that does not wait,
QUEUED_AGAIN = 3  # and of one until it is queued; any but the first two

# A job as the scheduler sees it.
JOB = np.dtype(
    [
        ("submit_s", "f8"),  # r
        ("expected_s", "f8"),  # p~, or what is expected instead; inf if there is none
        ("key", "f8"),  # the policy's key at submission,
        ("rise", "f8"),  # and its gain while it waits: see `keys.key_at`
        ("start_s", "f8"),  # of the last try; nan before the first, and between a kill and the next try
        ("seq", "i8"),  # place by (submission time, id): the last tie-break of every order
        ("procs", "i4"),  # q
        ("home", "i1"),  # the section of its class: URGENT, TRIES if it is small, or LARGE
        ("killable", "u1"),  # 1 if it is small and killed at the divider
        ("section", "i1"),  # where it waits; AWAY if it does not wait
        ("late", "u1"),  # 1 if it waits and counts as overdue, whether or not it goes first
    ]
)
# The key in a separate backfill order, as `key` and `rise` of JOB.
LINE = np.dtype([("key", "f8"), ("rise", "f8")])
# Fields of jobs that may be small or preempted, or may outlive what is expected of them.
TRY = np.dtype(
    [
        ("kill_after_s", "f8"),  # the divider when its last try started; inf if that is not to be killed
        ("whole_expected_s", "f8"),  # `expected_s` if it is not killed
        ("unpredicted_s", "f8"),  # p~, where corrections of a shorter prediction stop first,
        ("walltime_s", "f8"),  # and where all stop: p~ if it ends the job, inf if jobs may outlive it
        ("corrections", "i8"),  # how often the last try outlived what was expected
        ("key_expected_s", "f8"),  # whole_expected_s before its first checkpoint; the others are of what is left
    ]
)
STARTED = np.dtype([("row", "u4"), ("backfilled", "u4")])  # a try
NOBODY = np.uint32(2**32 - 1)
CANDIDATE = np.dtype([("key", "f8"), ("row", "u4"), ("rank", "i4")])  # a job that may be backfilled; lowest rank first
FAR = np.dtype([("span_s", "f8"), ("at_s", "f8")])  # no job so wide and so long can begin before a date
STEP = np.dtype([("at_s", "f8"), ("free", "i8")])  # of a plan: from a date on, so many processors are free
# A date of the calendar, after the ends of that date. At equal dates ends of windows come before begins, failures last.
CHANGE = np.dtype(
    [
        ("at_s", "f8"),  # when a window begins or ends, or becomes known,
        ("pool", "u8"),  # of what: 0 for processors, else a column of QueueArrays.wants, counted from 1; or GATE
        ("amount", "i8"),  # how much this frees: that of the window, less than 0 at its begin, or 0
        ("announced_s", "f8"),  # since when the window is known; -inf for always
        ("fails", "u1"),  # 1 if jobs that are in its way are killed
    ]
)

GATE = np.uint64(2**62)  # dates of this, with amounts 1 and -1, are those at which a period of the gate begins or ends

# The queue as a whole, and results of the last pass. The fields from `settled` on only save work and change no start;
# they are kept between passes, and `arrivals.py` says when they hold.
QUEUE = np.dtype(
    [
        ("submitted", "u4"),  # jobs submitted so far
        ("looked_at", "u4"),  # the oldest of these, already checked for being overdue
        ("late", "u4"),  # waiting jobs that count as overdue
        ("late_first", "u4"),  # of these, those that go first,
        ("first_to", "u4"),  # which are all of those before this place of `ages`
        ("free", "i8"),  # idle processors; below 0 if so many are in use that a window should have
        ("changed", "u4"),  # dates of the calendar that are over
        ("open", "i8"),  # periods of the gate that have begun and are not over
        ("waiting", "u4"),  # waiting jobs,
        ("wanted", "i8"),  # and the processors that they request together
        ("settled", "u4"),  # 1 while no waiting job can start before a job ends
        ("steps", "u4"),  # of the plan that is kept for the next pass; 0 for none
        ("entered", "u4"),  # dates of the calendar that are over, or written in it; one more if it is whole
        ("falls", "u4"),  # its falls,
        ("reserved", "i8"),  # the reservations made in it,
        ("reached", "u4"),  # the row of the last job that may have one: jobs behind it change none;
        ("noted", "u4"),  # how many of them are only noted,
        ("noted_s", "f8"),  # the first date at which one of these may begin,
        ("horizon_s", "f8"),  # and the date before which the plan is whole without them
        ("balance", "f8"),  # the joules that have become available of a budget, less those drawn,
        ("paid_s", "f8"),  # up to this date
        ("wake_s", "f8"),  # with a budget: when the first reservation of the last pass begins
        ("ahead", "i8"),  # jobs that the pass started ahead of the head; NO_HEAD if every job fitted
        ("shadow_s", "f8"),  # the head's reservation,
        ("extra", "i8"),  # and the processors spare at it; UNRESERVED if it was not needed
        ("head", "u4"),  # row of the first job that does not fit
        ("kept_for", "u4"),  # one more than the row of the head whose reservation is kept; 0 for none (RULES.keeps)
        ("kept_s", "f8"),  # and its shadow time
        ("fewest", "i8"),  # no waiting job requests fewer processors,
        ("shortest_s", "f8"),  # none has a smaller `expected_s` (`pass_in_order` does not raise it)
        ("head_until_s", "f8"),  # before this instant `head` is the first of the queue (kept if keys move),
        ("head_slope", "f8"),  # and its key's slope, per second
    ]
)
EVERY_JOB = 2**62  # as a number of jobs: all that wait
LEAST_LOST, YOUNGEST = 1, 2
AT_DIVIDER, BY_FAILURE, PREEMPTED = 0, 1, 2  # why a try was stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """The rules that kernels read, by the names of the options behind them: each is a column of RULES."""

    threshold_s: float = math.inf  # Theta: jobs that have waited longer come first, oldest first; inf for none
    half: bool = False  # whether only the older half of the overdue jobs goes first, at least 4
    divider_s: float = math.inf  # how long a small job's try runs; inf for none, or none yet
    spares: bool = False  # whether a try at its divider is killed only if its processors are needed
    stand_back: float = math.inf  # tries stand back while waiting jobs request more machines; inf: never
    depth: int = 1  # how many waiting jobs get a reservation in a pass; EVERY_JOB for all
    tested: int = EVERY_JOB  # how many jobs a pass finds that must wait before it stops
    keeps: bool = False  # whether the head keeps the reservation that it got when it became the head
    outlived: bool = False  # whether running jobs may outlive `expected_s`, which is then raised
    preempts: int = 0  # in which order running jobs are stopped for urgent ones: LEAST_LOST, YOUNGEST; 0 for none
    preempt_exempt_s: float = 0.0  # how long a job runs before it may be stopped for them
    requeue_delay_s: float = 0.0  # how long after that it is queued again
    checkpoint_s: float = math.inf  # a stopped job goes on where it was after so long, or a multiple; inf for nowhere


# The rules that order and backfill the queue.
RULES = np.dtype(
    [
        *((each.name, {"float": "f8", "int": "i8", "bool": "u1"}[str(each.type)]) for each in fields(QueueRules)),
        ("moves", "u1"),  # whether two waiting jobs may change order, and the unit in which keys rise: `Policy.motion`
        ("backfill_moves", "u1"),  # the same of a separate backfill order
        ("backfill_same", "u1"),  # 1 if jobs are backfilled in the queue's order, overdue and small first
        ("bound_s", "f8"),  # cap on the expected run time of a killable job: the divider, or inf for no cap
        ("planned", "u1"),  # 1 if `plan.py` makes the pass: see `Queue.adopt`
        ("procs", "i8"),  # m
        ("reserving", "u8"),  # of the columns of QueueArrays.wants, the first are pools that a plan reserves,
        ("shared", "u8"),  # and up to here they are the machine's; behind them each user has some
        ("energy", "u8"),  # the last pool that a plan reserves, if it is what jobs draw of a budget; 0 for no budget
        ("gain_w", "i8"),  # the watts that the budget gives beside those of idle machines,
        ("from_s", "f8"),  # from here
        ("until_s", "f8"),  # until here
        ("holds", "u1"),  # 1 if reservations hold joules
        ("gated", "u1"),  # 1 if only the first of the queue may start out of a period of the gate
        ("agent", "u1"),  # 1 if an agent outside the engine decides, for which `loop.advance` stops before a pass
    ],
    align=True,
)
WAITS, STARTS, BACKFILLS, UNDECIDED = range(4)  # what becomes of a job submitted alone, see `arrivals.py`
TICK_S = 600.0  # while jobs wait, a decision is made so often in the period of a budget
SPARE_STEPS = 2  # a plan's steps beside those of jobs and calendar: the present, the return of unavailable machines
NO_HEAD = np.int64(-1)
GOES_ON = np.int64(-1)  # of a try at its divider whose processors are not needed
UNRESERVED = np.int64(-1)


# The waiting jobs; `blocks.py` explains it.
SLOT = np.dtype([("key", "f8"), ("expected_s", "f8"), ("procs", "i4"), ("row", "u4")])
# A block; an unused one names the next unused one in `count`.
NODE = np.dtype(
    [
        ("count", "u4"),  # its jobs
        ("state", "u4"),  # EXACT, STALE or NONE
        ("procs", "i4"),  # smallest q
        ("user", "u4"),  # of its jobs, if users have pools and all are of one; else 0
        ("when_s", "f8"),  # if keys move: at this instant
        ("lowest", "f8"),  # no key was below this; -inf if unknown;
        ("slope", "f8"),  # and none falls faster than this, per second
    ]
)
LIST = np.dtype([("blocks", "u4"), ("jobs", "u4")])  # a section: the number of blocks and of jobs
SPARE = np.dtype([("first", "u4"), ("left", "u4")])  # the first unused block, and their number
# The running jobs; `ends.py` explains it.
# A running job: when it ends, or is expected to, and the processors it will then release.
END = np.dtype([("end_s", "f8"), ("procs", "i4"), ("row", "u4")])
# A block's entry in the directory. Entries beyond those in use name the unused blocks in `first`.
ENTRY = np.dtype(
    [
        ("procs", "i8"),  # what the block's jobs will release together
        ("first", "u4"),  # its first slot
        ("count", "u4"),  # its jobs
    ]
)
USED = np.dtype([("blocks", "u4")])  # in use, at least one


@record(SLOT, NODE, Array(F8, 3), Array(I8, 2), Array(U4, 2), LIST, SPARE)
class Blocks(NamedTuple):
    """The waiting jobs in the queue's order; `blocks.py` explains it. Block n holds the slots from n * BLOCK on."""

    slots: NDArray[np.void]  # SLOT (blocks * BLOCK,)
    nodes: NDArray[np.void]  # NODE (blocks + groups,), as the next two
    shortest_s: NDArray[np.float64]  # (.., 1 + n_pools, widths)  smallest `expected_s` of the jobs up to this width,
    # and of those up to this class of each pool (`blocks.class_of`)
    least: NDArray[np.int64]  # (.., n_pools)  the least that a job wants of each pool but processors
    order: NDArray[np.uint32]  # (sections, blocks)  of a section: its blocks in order
    sections: NDArray[np.void]  # LIST (sections,)
    spare: NDArray[np.void]  # SPARE (1,)  unused blocks


@record(END, ENTRY, USED)
class Ends(NamedTuple):
    """Running jobs by their ends, true or expected; `ends.py` explains it."""

    slots: NDArray[np.void]  # END (blocks * BLOCK,)
    directory: NDArray[np.void]  # ENTRY (blocks,)
    used: NDArray[np.void]  # USED (1,)


@record(
    *(JOB, U4, LINE, TRY, U4, Array(I8, 2), Array(I8, 2), I8, Blocks, Ends),
    *(CANDIDATE, SLOT, CANDIDATE, FAR, STEP, Array(I8, 2), STEP, CHANGE, RULES, QUEUE),
)
class QueueArrays(NamedTuple):
    """All that a decision reads and changes; `queue.Queue` owns it."""

    jobs: NDArray[np.void]  # JOB (n_jobs,)
    ages: NDArray[np.uint32]  # (n_jobs,)  rows by (submission time, id)
    backfill_lines: NDArray[np.void]  # LINE (n_jobs,), or (0,) if the backfill order is the queue's
    tries: NDArray[np.void]  # TRY (n_jobs,), or (0,) if no job can be small or outlive `expected_s`
    users: NDArray[np.uint32]  # (n_jobs,)  by number, 0 for unknown; (0,) if users have no pools of their own
    wants: NDArray[np.int64]  # (n_jobs, n_pools)  what jobs take of each pool but processors; (0, 0) without any
    left: NDArray[np.int64]  # (n_users + 1, n_pools)  and what is free of it: of a machine's pool in the first row,
    most: NDArray[np.int64]  # (n_pools,)  and its capacity
    blocks: Blocks
    running: Ends  # by expected end, with what they will release
    candidates: NDArray[np.void]  # CANDIDATE (n_jobs,)  scratch space of a pass,
    lined: NDArray[np.void]  # SLOT (n_jobs,)  of a pass by a plan, in its order; (0,) if it makes none
    noted: NDArray[np.void]  # CANDIDATE (n_jobs,)  reservations not entered in its plan: `key` is a date; likewise,
    far: NDArray[np.void]  # FAR (widths,)  by width class, see `blocks.width_of`; likewise,
    plan: NDArray[np.void]  # STEP (n_jobs + n_changes + SPARE_STEPS,)  its plan; likewise,
    more: NDArray[np.int64]  # (as many, n_reserving)  what is free then of each pool that it reserves; without a plan
    # the first row is of what is spare at the head's reservation
    falls: NDArray[np.void]  # STEP, as many  and when the least number of processors free from now on falls
    changes: NDArray[np.void]  # CHANGE (n_changes,)  the calendar, in order of time
    rules: NDArray[np.void]  # RULES (1,)
    state: NDArray[np.void]  # QUEUE (1,)


@record(STARTED)
class Decided(NamedTuple):
    """Where a decision writes the tries that it starts, in order."""

    tries: NDArray[np.void]  # STARTED (>= free processors,)


def new_records(n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    return as_records(np.zeros(n, dtype))


def as_records(array: NDArray[Any]) -> NDArray[Any]:
    """The same array in the form kernels need: in plain Python they read a record's fields as attributes."""
    return array.view(np.recarray) if PLAIN and array.dtype.names else array
