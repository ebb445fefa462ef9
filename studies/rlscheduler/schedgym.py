"""The simulator of RLScheduler, on which most papers on learning to schedule train and compare, compiled.

Source: Zhang, Dai, He, Bao, Xie, "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement Learning",
SC 2020, and the code published with it. `baselines` computes the heuristics' columns of its table of bounded slowdowns.

An agent or a heuristic picks a waiting job, and the simulator commits to it: if the job does not fit, time moves on
until it does, and then it starts. What else is particular to this simulator:

Jobs (`read_gym_log`)
 1. They are ordered by job number. A run time of 0 drops the job; an unknown one becomes 10 s.
 2. A job needs the larger of its requested and its allocated processors, in whole nodes of MaxProcs / MaxNodes
    processors, which it does not share. Without MaxProcs a node is one processor.
 3. A missing request is the run time in the log, which is -1 if that is unknown too. A request below the run time
    stays: the job runs on past it.

Time (`begin`, `pick`, `next_event`)
 4. A sequence begins on an empty machine, at its first submission. Only its jobs arrive.
 5. While jobs wait, time moves only if the picked job does not fit. Until then no job arrives, even at the same second,
    and none ends.
 6. Events are handled one by one, each followed by a pass of backfilling. At the same second arrivals come before
    ends, and jobs that end together free their nodes one after the other.

Backfilling (`shadow`, `backfill_pass`)
 7. The shadow time of the picked job is computed once, at the pick, from the requests; it does not move when jobs end
    early. If running jobs have outlived their requests it may be in the past, and then nothing is backfilled.
 8. Candidates are tried in order of submission, whatever the heuristic. They must fit and have now + request < shadow,
    strictly; processors that the picked job leaves spare at the shadow time are not used.
 9. Jobs submitted at the same second are in the heuristic's order if a decision has seen them all, else by number.
    Jobs that end at the same second free their nodes by expected end if a pick that had to wait has seen them all
    running, else by start. Both follow from sorting one list by several keys in turn, stably.

Heuristics (`HEURISTICS`)
10. The submission time r counts from the log's origin, not from the first job of the sequence.
11. A waiting job's start time is -1, so the waiting time w in WFP3 and UNICEF is -1 - r, negative and the same at every
    decision. Both then prefer jobs submitted early and long ones; WFP3 prefers narrow jobs, UNICEF wide ones.
12. So no key changes while a job waits. Ties go to the job submitted first, then as in 9.

Protocol (`draw_starts`, `baselines`)
13. Ten sequences of 1,024 consecutive jobs, their first rows drawn from 1,024 to N - 1,026 with seed 1, hashed as gym
    did then. N is 10,000 in the published table for every log: the whole of the Lublin logs, but only the first jobs of
    SDSC-SP2 and HPC2N. So the rows drawn are the same for all.

Not simulated: the skip action and the jobs that run before a sequence, both off in the published results; and which
jobs are visible if more than 128 wait, for which the published code mixes several orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha512
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import BatfillError, PolicyError, WorkloadError, nearest
from batfill.engine.jit import OPTIONS, njit
from batfill.model.metrics import bounded_slowdown
from batfill.workloads.swf_log import read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batfill.workloads.swf_log import SwfLog

SEQUENCES, SEQUENCE_JOBS, SEED = 10, 1024, 1  # of the published table
UNKNOWN_RUN_S = 10
NOT_STARTED = -1
FIELDS = ("job", "submit_s", "runtime_s", "procs", "requested_procs", "requested_s")


class Jobs(NamedTuple):
    """A log's jobs by number, and so by submission; every column is int64 of shape (n_jobs,)."""

    submit_s: NDArray[np.int64]  # r    since the log's origin
    runtime_s: NDArray[np.int64]  # p    > 0; may exceed the request
    request_s: NDArray[np.int64]  # p~   -1 if neither request nor run time is known
    procs: NDArray[np.int64]  # q    as the heuristics read it
    nodes: NDArray[np.int64]  # what the job takes of the machine


class Machine(NamedTuple):
    """The cluster: its nodes, and the processors of each."""

    nodes: int
    procs_per_node: float


@dataclass(frozen=True, slots=True, eq=False)
class GymLog:
    """A log as RLScheduler reads it."""

    path: Path
    jobs: Jobs
    machine: Machine
    number: NDArray[np.int64]  # (n_jobs,) the job numbers, for messages

    @property
    def can_run(self) -> NDArray[np.bool_]:
        """Whether the machine has the nodes of each job, (n_jobs,); False if the job's processors are unknown.

        RLScheduler fails at a sequence with any other job.
        """
        return (self.jobs.nodes >= 0) & (self.jobs.nodes <= self.machine.nodes)


COPY = np.dtype(
    [
        ("now_s", np.int64),
        ("first", np.int64),  # row in the log of the sequence's first job
        ("arriving", np.int64),  # the next job to arrive
        ("waiting", np.int64),  # number of jobs in `queue`
        ("running", np.int64),  # number of jobs in `by_end` and `by_request`
        ("started", np.int64),  # number of jobs in `order`
        ("before", np.int64),  # of these, started before the last pick
        ("free", np.int64),  # nodes
    ]
)


class State(NamedTuple):
    """Copies of the simulation, each of n jobs. A job is its place in its sequence: 0 .. n - 1.

    Copy i is at a decision while at["waiting"][i] > 0, and over when it is 0. Its waiting jobs are queue[i, :waiting];
    the jobs that the last pick started, the picked one last, are order[i, before:started].
    """

    at: NDArray[np.void]  # COPY, (copies,)
    queue: NDArray[np.int64]  # (copies, n) waiting jobs by submission
    by_end: NDArray[np.int64]  # (copies, n) running jobs by end
    by_request: NDArray[np.int64]  # (copies, n) the same jobs by expected end
    order: NDArray[np.int64]  # (copies, n) jobs in the order of their starts
    start_s: NDArray[np.int64]  # (copies, n) NOT_STARTED until then
    end_s: NDArray[np.int64]  # (copies, n) of started jobs
    expected_end_s: NDArray[np.int64]  # (copies, n) of started jobs: start + request


def new_state(copies: int, n: int) -> State:
    """Copies that are over; each begins a sequence of n jobs by `begin`."""
    return State(np.zeros(copies, COPY), *(np.zeros((copies, n), np.int64) for _ in State._fields[1:]))


def read_gym_log(path: Path | str) -> GymLog:
    """The jobs and the machine of an SWF file, plain or compressed, as RLScheduler reads them.

    Raises:
        WorkloadError: the file is not SWF, its header has no MaxNodes, a time or a number of processors is not whole,
            or the job numbers do not follow the submissions.
    """
    path = Path(path)
    log = read_log(path, fields=FIELDS)
    machine = _machine(path, log)
    rows = np.argsort(log["job"], kind="stable")
    rows = rows[log["runtime_s"][rows] != 0]
    for field in FIELDS:
        if len(broken := rows[log[field][rows] % 1 != 0]):
            raise WorkloadError(f"{path}:{log.lines[broken[0]]}: {field} is not a whole number; round it")
    number, submit_s, runtime_s, allocated, requested, request_s = (
        log[field][rows].astype(np.int64) for field in FIELDS
    )
    if len(wrong := np.flatnonzero((np.diff(number) < 1) | (np.diff(submit_s) < 0))):
        row = wrong[0] + 1
        what = "is submitted before" if number[row] > number[row - 1] else "has the number of another"
        raise WorkloadError(
            f"{path}:{log.lines[rows[row]]}: job {number[row]} {what} job {number[row - 1]}; "
            "number the jobs by submission"
        )
    procs = np.maximum(allocated, requested)
    jobs = Jobs(
        submit_s=submit_s,
        runtime_s=np.where(runtime_s < 0, UNKNOWN_RUN_S, runtime_s),
        request_s=np.where(request_s == -1, runtime_s, request_s),
        procs=procs,
        nodes=np.ceil(procs / machine.procs_per_node).astype(np.int64),
    )
    return GymLog(path, jobs, machine, number)


def _machine(path: Path, log: SwfLog) -> Machine:
    """The header's machine; words may follow its numbers."""

    def size(name: str) -> int:
        words = (log.header_value(name) or "").split()
        return int(words[0]) if words and words[0].isascii() and words[0].isdigit() else 0

    nodes = size("MaxNodes")
    if nodes == 0:
        raise WorkloadError(f"{path}: its header has no MaxNodes, which RLScheduler needs; add a line '; MaxNodes: N'")
    return Machine(nodes, (size("MaxProcs") or nodes) / nodes)


gym_kernel = njit(forceinline=True, **OPTIONS)


@gym_kernel
def begin(jobs: Jobs, machine: Machine, state: State, i: int, first: int) -> None:
    """Set copy i to the first decision of the sequence that begins at this row of the log.

    The caller ensures that the log has n rows from there, and `check_sequence` of them.
    """
    at = state.at[i]
    at["now_s"] = jobs.submit_s[first]
    at["first"] = first
    at["arriving"] = 1
    at["waiting"] = 1
    at["running"] = at["started"] = at["before"] = 0
    at["free"] = machine.nodes
    state.queue[i, 0] = 0
    state.start_s[i, :] = NOT_STARTED


@gym_kernel
def pick(jobs: Jobs, machine: Machine, state: State, i: int, place: int, backfill: bool) -> None:
    """Start the job at this place of copy i's queue, waiting for it if it must, and go on to the next decision.

    The caller ensures 0 <= place < waiting.
    """
    at = state.at[i]
    queue, needed = state.queue[i], jobs.nodes[at["first"] + state.queue[i, place]]
    at["before"] = at["started"]
    if needed > at["free"]:
        job, shadow_s = queue[place], 0
        if backfill:
            shadow_s = shadow(jobs, machine, state, i, job)
            sort_ties(state.by_end[i, : at["running"]], state.end_s[i], state.expected_end_s[i])
        while needed > at["free"]:
            if backfill:
                backfill_pass(jobs, state, i, shadow_s)
            next_event(jobs, state, i)
        place = min(place, at["waiting"] - 1)
        while queue[place] != job:  # jobs before it were backfilled
            place -= 1
    start(jobs, state, i, place)
    while at["waiting"] == 0 and at["arriving"] < state.queue.shape[1]:
        next_event(jobs, state, i)


@gym_kernel
def shadow(jobs: Jobs, machine: Machine, state: State, i: int, job: int) -> int:
    """When a waiting job that does not fit is expected to: the expected end that frees enough processors."""
    at = state.at[i]
    first, expected_end_s = at["first"], 0
    free = at["free"] * machine.procs_per_node
    for k in range(at["running"]):
        running = state.by_request[i, k]
        expected_end_s = state.expected_end_s[i, running]
        free += jobs.nodes[first + running] * machine.procs_per_node
        if free >= jobs.procs[first + job]:
            break
    return expected_end_s


@gym_kernel
def backfill_pass(jobs: Jobs, state: State, i: int, shadow_s: int) -> None:
    """Start every waiting job that fits and is expected to end before the shadow time, by submission."""
    at = state.at[i]
    place = 0
    while place < at["waiting"]:
        row = at["first"] + state.queue[i, place]
        if at["now_s"] + jobs.request_s[row] < shadow_s and jobs.nodes[row] <= at["free"]:
            start(jobs, state, i, place)
        else:
            place += 1


@gym_kernel
def next_event(jobs: Jobs, state: State, i: int) -> None:
    """Move on to the next arrival, or the next end if it is earlier; the caller ensures that there is one."""
    at = state.at[i]
    first, arriving, by_end = at["first"], at["arriving"], state.by_end[i]
    arrives = arriving < state.queue.shape[1]
    if arrives and (at["running"] == 0 or jobs.submit_s[first + arriving] <= state.end_s[i, by_end[0]]):
        at["now_s"] = jobs.submit_s[first + arriving]
        state.queue[i, at["waiting"]] = arriving
        at["waiting"] += 1
        at["arriving"] += 1
    else:
        ended = by_end[0]
        at["now_s"] = state.end_s[i, ended]
        at["free"] += jobs.nodes[first + ended]
        place = 0
        while state.by_request[i, place] != ended:
            place += 1
        drop(state.by_request[i], at["running"], place)
        drop(by_end, at["running"], 0)
        at["running"] -= 1


@gym_kernel
def start(jobs: Jobs, state: State, i: int, place: int) -> None:
    """Start the job at this place of the queue now; the caller ensures that it fits."""
    at = state.at[i]
    job = state.queue[i, place]
    row = at["first"] + job
    drop(state.queue[i], at["waiting"], place)
    at["waiting"] -= 1
    at["free"] -= jobs.nodes[row]
    state.start_s[i, job] = at["now_s"]
    state.end_s[i, job] = at["now_s"] + jobs.runtime_s[row]
    state.expected_end_s[i, job] = at["now_s"] + jobs.request_s[row]
    insert(state.by_end[i], at["running"], job, state.end_s[i])
    insert(state.by_request[i], at["running"], job, state.expected_end_s[i])
    at["running"] += 1
    state.order[i, at["started"]] = job
    at["started"] += 1


@gym_kernel
def insert(listed: NDArray[np.int64], n: int, job: int, key: NDArray[np.int64]) -> None:
    """Insert a job into a list of n that is sorted by key[job], after its equals; the list has room."""
    place = n
    while place > 0 and key[listed[place - 1]] > key[job]:
        listed[place] = listed[place - 1]
        place -= 1
    listed[place] = job


@gym_kernel
def drop(listed: NDArray[np.int64], n: int, place: int) -> None:
    """Remove what is at this place of a list of n."""
    for k in range(place, n - 1):
        listed[k] = listed[k + 1]


@gym_kernel
def sort_ties(listed: NDArray[np.int64], key: NDArray[np.int64], tie: NDArray[Any]) -> None:
    """Sort a list that is sorted by key[job] by (key[job], tie[job]), stably."""
    for end in range(1, len(listed)):
        job = listed[end]
        place = end
        while place > 0 and key[listed[place - 1]] == key[job] and tie[listed[place - 1]] > tie[job]:
            listed[place] = listed[place - 1]
            place -= 1
        listed[place] = job


@gym_kernel
def lowest(jobs: Jobs, state: State, i: int, key: NDArray[np.float64]) -> int:
    """The place in copy i's queue of the job with the lowest key, of shape (n_jobs,) like the log."""
    at = state.at[i]
    first, n = at["first"], state.queue.shape[1]
    queue, keys = state.queue[i, : at["waiting"]], key[first : first + n]
    sort_ties(queue, jobs.submit_s[first : first + n], keys)
    best = 0
    for place in range(1, len(queue)):
        if keys[queue[place]] < keys[queue[best]]:
            best = place
    return best


@njit(cache=True, **OPTIONS)
def play_sequences(
    jobs: Jobs, machine: Machine, state: State, firsts: NDArray[np.int64], key: NDArray[np.float64], backfill: bool
) -> None:
    """In each copy, begin at `firsts`, (copies,), and pick the job with the lowest key, (n_jobs,), until it is over."""
    for i in range(len(firsts)):
        begin(jobs, machine, state, i, firsts[i])
        while state.at[i]["waiting"] > 0:
            pick(jobs, machine, state, i, lowest(jobs, state, i, key), backfill)


def wfp3(jobs: Jobs) -> NDArray[np.float64]:
    """-(w / p~)^3 q, with w = -1 - r; nan for p~ = 0, where RLScheduler stops."""
    request_s = np.where(jobs.request_s == 0, np.nan, jobs.request_s)
    key: NDArray[np.float64] = -(((-1 - jobs.submit_s) / request_s) ** 3) * jobs.procs
    return key


def unicef(jobs: Jobs) -> NDArray[np.float64]:
    """-(w + 1e-15) / (log2(q + 1e-15) p~), with w = -1 - r; nan for an unknown q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        key: NDArray[np.float64] = -((-1 - jobs.submit_s) + 1e-15) / (np.log2(jobs.procs + 1e-15) * jobs.request_s)
    return key


def f1(jobs: Jobs) -> NDArray[np.float64]:
    """log10(p~) q + 870 log10(r); p~ and r count as 0.1 if they are not positive."""
    request_s, submit_s = (np.where(column > 0, column, 0.1) for column in (jobs.request_s, jobs.submit_s))
    key: NDArray[np.float64] = np.log10(request_s) * jobs.procs + 870 * np.log10(submit_s)
    return key


# Lowest key first. The published code breaks ties of SJF and of the smallest job by r, as the queue's order does here.
HEURISTICS: dict[str, Callable[[Jobs], NDArray[np.float64]]] = {
    "fcfs": lambda jobs: jobs.submit_s.astype(np.float64),
    "wfp3": wfp3,
    "unicef": unicef,
    "sjf": lambda jobs: jobs.request_s.astype(np.float64),
    "f1": f1,
    "smallest": lambda jobs: jobs.procs.astype(np.float64),
}
PUBLISHED = ("fcfs", "wfp3", "unicef", "sjf", "f1")  # the columns of the published table


def key_of(log: GymLog, heuristic: str | NDArray[np.float64]) -> NDArray[np.float64]:
    """A key per job of the log, (n_jobs,): that of a heuristic by its name, or the caller's own.

    Raises:
        PolicyError: there is no such heuristic, or the keys are not one number per job.
    """
    if isinstance(heuristic, str):
        if heuristic not in HEURISTICS:
            known = ", ".join(HEURISTICS)
            raise PolicyError(f"heuristic {heuristic!r} is none of {known}{nearest(heuristic, HEURISTICS)}")
        return HEURISTICS[heuristic](log.jobs)
    key = np.ascontiguousarray(heuristic, np.float64)
    if key.shape != log.number.shape:
        raise PolicyError(f"{log.path}: keys of shape {key.shape} for {len(log.number)} jobs; give one number per job")
    return key


def check_sequence(log: GymLog, first: int, n: int) -> None:
    """Refuse a sequence that RLScheduler cannot simulate.

    Raises:
        WorkloadError: the log does not have these rows, or a job cannot run on its machine.
    """
    if n < 1 or not 0 <= first <= len(log.number) - n:
        raise WorkloadError(f"{log.path}: it has {len(log.number)} jobs, and no {n} from row {first} on")
    if len(wrong := np.flatnonzero(~log.can_run[first : first + n])):
        row = first + wrong[0]
        raise WorkloadError(
            f"{log.path}: job {log.number[row]} asks for {log.jobs.procs[row]} processors, and the machine has "
            f"{log.machine.nodes} nodes of {log.machine.procs_per_node:g}; remove the job"
        )


def play(
    log: GymLog,
    heuristic: str | NDArray[np.float64],
    firsts: Sequence[int] | NDArray[np.int64],
    *,
    n: int = SEQUENCE_JOBS,
    backfill: bool = False,
) -> NDArray[np.int64]:
    """The start times of sequences in which the waiting job with the lowest key is always picked.

    Args:
        log: the jobs and the machine.
        heuristic: a name of HEURISTICS, or a key per job of the log, (n_jobs,).
        firsts: the row in the log of each sequence's first job.
        n: the jobs of a sequence.
        backfill: whether jobs are backfilled while the picked one waits.

    Returns:
        (n_sequences, n) seconds from the log's origin.

    Raises:
        BatfillError: as `key_of` and `check_sequence`, or a job of a sequence has the key nan.
    """
    key = key_of(log, heuristic)
    firsts = np.asarray(firsts, np.int64)
    for first in firsts.tolist():
        check_sequence(log, first, n)
        if len(without := np.flatnonzero(np.isnan(key[first : first + n]))):
            number = log.number[first + without[0]]
            raise PolicyError(f"{log.path}: the key of job {number} is nan; choose another heuristic")
    state = new_state(len(firsts), n)
    play_sequences(log.jobs, log.machine, state, firsts, key, backfill)
    return state.start_s


def slowdowns(
    log: GymLog, firsts: Sequence[int] | NDArray[np.int64], start_s: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The bounded slowdown (tau 10 s) of every job of sequences; shape as `start_s`, (n_sequences, n)."""
    rows = np.asarray(firsts)[:, np.newaxis] + np.arange(start_s.shape[1])
    wait_s = (start_s - log.jobs.submit_s[rows]).astype(np.float64)
    return bounded_slowdown(wait_s, log.jobs.runtime_s[rows].astype(np.float64))


def hashed_random(seed: int) -> np.random.RandomState:
    """The generator that gym made of a seed when RLScheduler was written: seeded with 64 bits of its SHA-512."""
    words = np.frombuffer(sha512(str(seed % 2**64).encode()).digest()[:8], "<u4")
    return np.random.RandomState(np.trim_zeros(words, "b"))  # a number's leading zeros are no part of it


def draw_starts(
    n_jobs: int, *, n: int = SEQUENCE_JOBS, sequences: int = SEQUENCES, seed: int = SEED
) -> NDArray[np.int64]:
    """The rows at which the test protocol's sequences begin: one draw each, from n to n_jobs - n - 2.

    Args:
        n_jobs: sequences are drawn from this many jobs.
        n: the jobs of a sequence.
        sequences: how many.
        seed: a number that is not negative.

    Raises:
        BatfillError: there are fewer than 2 n + 2 jobs, or the seed is negative.

    Examples:
        >>> draw_starts(10_000)[:3].tolist()
        [1981, 2756, 4299]
    """
    if n_jobs < 2 * n + 2:
        raise BatfillError(
            f"sequences of {n} jobs are drawn from {2 * n + 2} jobs or more, and there are {n_jobs}; give fewer jobs"
        )
    if seed < 0:
        raise BatfillError(f"seed {seed} is negative; give one from 0 on")
    random = hashed_random(seed)
    return np.array([random.randint(n, n_jobs - n - 1) for _ in range(sequences)], np.int64)


def baselines(
    path: Path | str,
    *,
    first_jobs: int | None = None,
    heuristics: Sequence[str] = PUBLISHED,
    n: int = SEQUENCE_JOBS,
    sequences: int = SEQUENCES,
    seed: int = SEED,
) -> dict[bool, dict[str, float]]:
    """The mean bounded slowdown (tau 10 s) under heuristics: the mean of each sequence, averaged over the sequences.

    Args:
        path: an SWF file.
        first_jobs: draw the sequences from these only; 10,000 in the published table. By default from all jobs.
        heuristics: names of HEURISTICS.
        n: the jobs of a sequence.
        sequences: how many.
        seed: of `draw_starts`.

    Returns:
        By whether jobs are backfilled, then by heuristic.

    Raises:
        BatfillError: as `read_gym_log`, `draw_starts` and `play`.
    """
    log = read_gym_log(path)
    drawn_from = len(log.number) if first_jobs is None else min(first_jobs, len(log.number))
    firsts = draw_starts(drawn_from, n=n, sequences=sequences, seed=seed)

    def mean(heuristic: str, backfill: bool) -> float:
        return float(slowdowns(log, firsts, play(log, heuristic, firsts, n=n, backfill=backfill)).mean())

    return {backfill: {name: mean(name, backfill) for name in heuristics} for backfill in (False, True)}
