"""The records of the Slurm model: what its kernels read and change. A job here is a record of rule Q2.

Sets of nodes are bits in words of uint64, node i in word i // 64. Dates of plans are whole Unix seconds.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.base.kernels import F8, I8, U1, Array, record
from batfill.engine.records import Ends
from batfill_site.slurm.site import PREEMPTED, Clock, Floats, Ints, Limits, Records, Settings

U8 = np.dtype("u8")
WORDS, SETS = Array(U8), Array(U8, 2)
DRAWS = 997  # of the jitter, used in turn
KINDS = len(Limits._fields)  # of what is limited:
JOBS, CPUS, NODES, MEMORY, GPUS = range(KINDS)
# What a backfill cycle counts: jobs tried of a user, of a partition, of a user in a partition, and of an association;
# then reservations of a partition, and of an array.
TRIED, COUNTED = 4, 6
NUMBERS = {bool: "u1", int: "i8", float: "f8"}


def numbers_of(given: Settings | Clock) -> dict[str, Any]:
    names = given._fields if isinstance(given, Clock) else [each.name for each in fields(given)]
    return {name: value for name in names if isinstance(value := getattr(given, name), tuple(NUMBERS))}


# A job; from `priority` on, what a run changes.
JOB = np.dtype(
    [
        ("queued_s", "f8"),
        ("run_s", "f8"),
        ("leave_s", "f8"),
        ("submit", "i8"),
        ("eligible", "i8"),
        ("aged_from", "i8"),
        ("limit", "i8"),
        ("planned", "i8"),  # of it, what plans have (Q6)
        ("fixed", "f8"),  # the part of its priority without age and usage,
        ("fixed_later", "f8"),  # and from the first tick on
        ("nodes", "i8"),  # at least,
        ("most", "i8"),  # and at most
        ("needs", "i8"),  # CPUs in all
        ("cpus", "i8"),  # on each node at least; so are memory and GPUs
        ("task", "i8"),  # a node counts on whole tasks of so many CPUs
        ("even", "u1"),  # each node gives `cpus`
        ("memory", "i8"),  # -1 for all of a node's
        ("memory_per_cpu", "i8"),  # 0 if it asks for memory per node
        ("gpus", "i8"),
        ("gpu_type", "i8"),  # -1 for any
        ("exclusive", "u1"),
        ("features", "u1"),  # whether it names some
        ("no_reserve", "u1"),
        ("barred", "u1"),  # its partition allows fewer nodes or less time, or its QOS or association less time
        ("asked", "u1"),  # the run is over when all such jobs have started
        ("tier", "i8"),
        ("partition", "i8"),
        ("asks", "i8"),  # its row of `Nodes.asked`
        ("required", "i8"),  # its row of `Nodes.required`, -1 for none
        ("bills", "i8"),  # its row of `Limited.bills`
        ("usage_factor", "f8"),
        ("association", "i8"),
        ("form", "i8"),  # its shape, what it asks of each node
        ("limits", "i8"),  # its row of `Limited.first`
        ("looked_at", "u1"),  # whether limits may forbid what it would hold, although not what it requests (Q5)
        ("mate", "i8"),  # the next record of the same job; of one record its own row
        ("priority", "i8"),
        ("first", "i8"),  # its first place of `Slurm.at`,
        ("placed", "i8"),  # and on how many nodes it runs
        ("billing", "f8"),
        ("start_s", "f8"),
        ("started", "i8"),  # in whole seconds,
        ("ends", "i8"),  # and so much later its limit is over
        ("by", "i8"),
        ("kind", "i8"),  # its QOS, or its partition: what decides who may preempt it; so do
        ("rank", "i8"),
        ("mode", "u1"),
        ("exempt", "i8"),
        ("grace", "i8"),
        ("over_s", "f8"),  # when it ends
        ("grace_until", "i8"),  # 0 if it has not begun
        ("rest_s", "f8"),  # how long it still runs, if it is
        ("asleep", "u1"),
        ("preempted", "u1"),  # it has, since it was queued
        ("stopped", "u1"),  # it was, before
        ("waits", "u1"),  # in the queue
    ]
)
# A node; `free` are its free CPUs, `memory` (of the `whole`) and `gpus` are free, too, and `jobs` run on it. A job that
# is placed counts on `count` CPUs of it, and takes `taken`.
OF_NODE = "cpus threads whole all_gpus gpu_type group first count taken free memory gpus jobs"
NODE = np.dtype([(name, "i8") for name in OF_NODE.split()])
GROUP = np.dtype([("members", "i8"), ("cpus", "i8"), ("first", "i8"), ("used", "i8"), ("drawn", "i8"), ("far", "i8")])
WINDOW = np.dtype([("begin_s", "f8"), ("end_s", "f8"), ("told_s", "f8"), ("b", "i8"), ("e", "i8")])
ENDED = np.dtype([("row", "i8"), ("clean_s", "f8"), ("stopped", "u1")])
TRY = np.dtype([("row", "i8"), ("tested", "i8"), ("b", "i8"), ("e", "i8"), ("until", "i8")])
SHARE = np.dtype(
    [
        ("parent", "i8"),
        ("user", "u1"),  # 1 for a user, 0 for an account
        ("part", "f8"),
        ("norm", "f8"),
        ("usage", "f8"),
        ("factor", "f8"),
        ("level", "f8"),  # of Fair Tree; of classic fair share the usage that counts
        ("first_kid", "i8"),
        ("kids", "i8"),
        ("tied", "u1"),  # whether it has the level of the sibling before, in Fair Tree's order
    ]
)
OPTIONS = np.dtype(
    [
        *((name, NUMBERS[type(value)]) for name, value in (numbers_of(Settings()) | numbers_of(Clock())).items()),
        ("decay", "f8"),  # of usage in a second
        ("new_rules", "u1"),
        ("later_frees", "u1"),  # the new rule of B4, 1
        ("preempts", "u1"),  # whether any job may preempt another,
        ("by_qos", "u1"),  # the order of passes depends on it,
        ("suspends", "u1"),  # some would sleep,
        ("graces", "u1"),  # and some would go on for a while
        ("head_bits", "i8"),  # see `placement.change`
        ("last_edge", "f8"),  # the last begin or end of a window
        ("two", "f8"),  # 2: LLVM would call another function for a constant
    ]
)
STATE = np.dtype(
    [
        ("now_s", "f8"),
        ("now", "i8"),  # in whole seconds
        ("moved_s", "f8"),
        *((name, "i8") for name in ("waiting", "running", "ended", "passed")),
        ("left", "i8"),  # passed of `leaving`
        *((name, "i8") for name in ("last_tick", "resets", "turned", "mains", "intervals", "windows")),
        *((name, "i8") for name in ("logged", "placed", "next_slot", "until", "windows_until", "last_tried")),
        *((name, "i8") for name in ("cycles", "tried", "wanted", "noted", "kept")),
        *((name, "u1") for name in ("ticked", "changed", "steady", "joined")),
    ]
)


@record(NODE, *[SETS] * 5, Array(I8, 2), GROUP, I8, *[WORDS] * 9)
class Nodes(NamedTuple):
    """The nodes, and sets of them."""

    nodes: Records  # NODE (N,)
    asked: NDArray[np.uint64]  # (classes, words)  by partition, features and configured memory
    required: NDArray[np.uint64]  # (classes, words)
    partitions: NDArray[np.uint64]  # (partitions, words)
    weights: NDArray[np.uint64]  # (weights, words)  the nodes of each weight, the lowest first
    leaves: NDArray[np.uint64]  # (leaves, words)
    hops: Ints  # (leaves, leaves)
    groups: Records  # GROUP (N + leaves,)  scratch space, as all that follow
    listed: Ints  # (N,)
    mask: NDArray[np.uint64]  # (words,)
    open: NDArray[np.uint64]
    tested: NDArray[np.uint64]
    found: NDArray[np.uint64]
    picked: NDArray[np.uint64]
    counted: NDArray[np.uint64]
    shut: NDArray[np.uint64]  # down
    cleaned: NDArray[np.uint64]  # being cleaned
    beyond: NDArray[np.uint64]  # not reserved in the last intervals that a job that is tried needs


@record(I8, I8, I8, I8, I8, I8, Array(I8, 2), Array(I8, 2), Array(U8, 3), I8)
class Shapes(NamedTuple):
    """When nodes count for jobs; `placement.py` explains it."""

    on_nodes: Ints  # (CPUs,)  the keys of the jobs on each node, from its `first` on,
    on_cpus: Ints  # (CPUs,)  and the CPUs
    on_memory: Ints  # (CPUs,)  and memory that they hold there
    slot_of: Ints  # (shapes,)  -1 for none
    shape_of: Ints  # (slots,)  likewise
    synced: Ints  # (slots,)  up to which place of the log
    keys: Ints  # (slots, N)
    order: Ints  # (slots, N)
    heads: NDArray[np.uint64]  # (slots, HEADS, words)  sets of its first nodes, see `placement.change`
    log: Ints  # (N,)  the last nodes where a job has started or ended, in turn


@record(I8, I8, Array(I8, 2), Array(I8, 2), Array(I8, 2), Array(I8, 2), I8, I8, Array(I8, 2), I8, I8, F8)
class Limited(NamedTuple):
    """The limits of what runs, and what it adds to usage.

    Jobs of class k count in counters[first[k] : first[k + 1]], with the limits beside, and so for what is billed.
    """

    first: Ints
    counters: Ints
    most: Ints  # (counters of classes, KINDS)
    used: Ints  # (counters, KINDS)
    amounts: Ints  # (n_jobs, KINDS)  what each requests, or holds once it has started
    requested: Ints  # (n_jobs, KINDS)
    held: Ints  # (KINDS,)  what a job would hold on `nodes.picked`
    rows: Ints  # (counters,)  of `jobs_on`, -1 where nodes are not limited
    jobs_on: Ints  # (rows, N)  how many jobs that count run on each node: a node counts once
    bills: Ints
    kinds: Ints
    weights: Floats


@record(SHARE, I8, I8, Array(I8, 2), F8)
class Shares(NamedTuple):
    """The tree of associations; root is the first."""

    tree: Records  # SHARE (n,)
    kids: Ints  # (n - 1,)  the children of each, side by side
    down: Ints  # (n - 1,)  all but root, parents before children
    line: Ints  # (2, n)  scratch space
    resets_s: Floats


@record(I8, I8, Array(I8, 2))
class Licences(NamedTuple):
    """The licences of the site."""

    all: Ints  # (licences,)
    left: Ints  # (licences,)
    takes: Ints  # (n_jobs, licences)


@record(I8, I8, SETS, Array(I8, 2), SETS, TRY, SETS)
class Plan(NamedTuple):
    """The intervals of a cycle, and the nodes and licences that are not reserved in them."""

    begin: Ints
    end: Ints
    free: NDArray[np.uint64]  # (intervals, words)
    licences: Ints  # (intervals, licences)
    ahead: NDArray[np.uint64]  # (intervals, words)  scratch space, see `backfill.ask`
    tries: Records  # TRY (intervals,)  of the last cycle, see `backfill.cycle`,
    found: NDArray[np.uint64]  # (intervals, words)  and the nodes that each has reserved


@record(WINDOW, SETS, I8)
class Windows(NamedTuple):
    """When nodes take no job."""

    windows: Records  # WINDOW (n,)
    nodes: NDArray[np.uint64]  # (n, words)
    live: Ints  # (n,)  those that are known and not over


@record(Array(U1, 2), Array(U1, 2), I8, I8, PREEMPTED)
class Preemption(NamedTuple):
    """Who may preempt whom, and what was preempted."""

    may: NDArray[np.uint8]  # (kinds, kinds)  whether a job may preempt another, ALWAYS or WITHIN
    before: NDArray[np.uint8]  # (kinds, kinds)  whether it goes before it in passes
    listed: Ints  # (n_jobs,)  candidates
    line: Ints  # (n_jobs,)  running jobs in the order of E11
    noted: Records  # PREEMPTED


@record(
    *(JOB, *[I8] * 7, ENDED, I8, I8, Ends, Ends, Nodes, Shapes, Limited, Shares, Licences, Plan, Windows, Preemption),
    *(Array(I8, 2), I8, I8, Array(I8, 2), F8, F8, U1, F8, F8, F8, OPTIONS, STATE),
)
class Slurm(NamedTuple):
    """All that a run reads and changes."""

    jobs: Records  # JOB (n_jobs,)
    arrivals: Ints  # (n_jobs,)  rows in the order in which they are queued
    leaving: Ints  # rows of those that are cancelled, in the order of their dates
    queue: Ints  # (n_jobs,)  rows of waiting jobs, in the order of Q2,
    line: Ints  # (n_jobs,)  and as a pass goes through them
    running: Ints  # (n_jobs,)  the keys of running jobs, see `placement.py`,
    alone: Ints  # (n_jobs,)  the only node of each, -1 if it has several,
    held: Ints  # (n_jobs,)  and their rows
    ended: Records  # ENDED (n_jobs,)  in the order of the dates when their nodes are clean, and whether preempted
    at: Ints  # the nodes of jobs, side by side in the order of their starts,
    cpus_at: Ints  # and the CPUs that they hold there
    coming: Ends  # jobs to be queued, or to be queued again, by their dates
    ends: Ends  # of running jobs
    nodes: Nodes
    shapes: Shapes
    limited: Limited
    shares: Shares
    licences: Licences
    plan: Plan
    windows: Windows
    preemption: Preemption
    counts_of: Ints  # (n_jobs, COUNTED)  the places of `counts` where a job counts
    counts: Ints
    most: Ints  # (COUNTED,)
    partition_counts: Ints  # (2, partitions)  jobs looked at in a pass, and whether it is closed
    dates_s: Floats  # (9,)  of the next event of each kind, see `loop.py`
    main_s: Floats
    full: NDArray[np.uint8]  # of each of `main_s`
    cycles_s: Floats
    checks_s: Floats
    draws: Floats  # (DRAWS,)
    options: Records  # OPTIONS (1,)
    state: Records  # STATE (1,)
