"""Rollouts: sequences of consecutive jobs, each on an empty machine, under a network or an order, in compiled code.

Under two semantics: batfill's own EASY (`starts_in_easy`), and RLScheduler's simulator (`starts_in_gym` for a network,
`ordered_in_gym` for an order that may move with time, `schedgym.play` for RLScheduler's heuristics). Sequences are
shared among threads.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import PolicyError, WorkloadError
from batfill.base.kernels import F4, F8, I8, Array, entry, kernel
from batfill.engine import new_picks
from batfill.engine.features import FEATURES, OF_CLUSTER, OF_JOB
from batfill.engine.motion import BY_EXPECTED
from batfill.engine.picks import add_rows, score
from batfill.engine.records import Picks
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.many import thread_pool
from studies.rlscheduler.features import see_gym
from studies.rlscheduler.schedgym import (
    Jobs,
    Machine,
    State,
    begin,
    check_sequence,
    new_state,
    pick,
    slowdowns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.model.jobs import JobTable, Workload
    from batfill.model.networks import Network
    from batfill.model.policy import Policy
    from studies.rlscheduler.schedgym import GymLog

    Firsts = Sequence[int] | NDArray[np.int64]

AT_ONCE = 8  # sequences of one call, so that threads end at nearly the same time
READ = Array(F8, read=True)


@kernel
def best_in_gym(jobs: Jobs, machine: Machine, state: State, i: int, picks: Picks, of_jobs: NDArray[np.float32]) -> int:
    """The place in copy i's queue of the visible job that the network picks: the highest score, the first of equals.

    `of_jobs`, float32 (most visible, OF_JOB), is scratch space.
    """
    n = min(state.at[i]["waiting"], len(of_jobs))
    best = 0
    if n > 1:
        see_gym(jobs, machine, state, i, n, of_jobs, picks.features)
        width, first, highest = picks.layers[1], picks.values[0], np.float32(-np.inf)
        biases = picks.weights[FEATURES * width :]
        for j in range(width):
            first[j] = biases[j]
        add_rows(picks.features, OF_CLUSTER, picks.weights[OF_JOB * width :], first[:width])
        for place in range(n):
            value = score(picks, of_jobs[place])
            if value > highest:
                best, highest = place, value
    return best


@entry(Jobs, Machine, State, Array(I8, read=True), Picks, Array(F4, 2), int)
@kernel
def play_network(
    jobs: Jobs,
    machine: Machine,
    state: State,
    firsts: NDArray[np.int64],
    picks: Picks,
    of_jobs: NDArray[np.float32],
    backfill: bool,
) -> None:
    """In each copy, begin at `firsts`, (copies,), and pick the network's choice until the sequence is over."""
    for i in range(len(firsts)):
        begin(jobs, machine, state, i, firsts[i])
        while state.at[i]["waiting"] > 0:
            pick(jobs, machine, state, i, best_in_gym(jobs, machine, state, i, picks, of_jobs), backfill)


@kernel
def lowest_now(
    jobs: Jobs, state: State, i: int, key: NDArray[np.float64], rise: NDArray[np.float64], threshold_s: float
) -> int:
    """The place in copy i's queue of the job with the lowest key + rise w; of the first job if it is overdue."""
    at = state.at[i]
    best, lowest = 0, np.inf
    if at["now_s"] - jobs.submit_s[at["first"] + state.queue[i, 0]] <= threshold_s:
        for place in range(at["waiting"]):
            row = at["first"] + state.queue[i, place]
            value = key[row] + rise[row] * (at["now_s"] - jobs.submit_s[row])
            if value < lowest:
                best, lowest = place, value
    return best


@entry(Jobs, Machine, State, Array(I8, read=True), READ, READ, float, int)
@kernel
def play_order(
    jobs: Jobs,
    machine: Machine,
    state: State,
    firsts: NDArray[np.int64],
    key: NDArray[np.float64],
    rise: NDArray[np.float64],
    threshold_s: float,
    backfill: bool,
) -> None:
    """In each copy, begin at `firsts`, (copies,), and pick the job with the lowest key at each decision.

    key, rise: (n_jobs,) of the log; see `lowest_now`.
    """
    for i in range(len(firsts)):
        begin(jobs, machine, state, i, firsts[i])
        while state.at[i]["waiting"] > 0:
            pick(jobs, machine, state, i, lowest_now(jobs, state, i, key, rise, threshold_s), backfill)


def starts_in_gym(
    log: GymLog, network: Network, firsts: Firsts, *, n: int, backfill: bool, threads: int | None = None
) -> NDArray[np.int64]:
    """The start times of sequences in RLScheduler's simulator, a network picking.

    Args:
        log: the jobs and the machine.
        network: it picks among the first waiting jobs by submission.
        firsts: the row in the log of each sequence's first job.
        n: the jobs of a sequence.
        backfill: whether jobs are backfilled while the picked one waits.
        threads: how many play at once; by default one per processor.

    Returns:
        (n_sequences, n) seconds from the log's origin.

    Raises:
        WorkloadError: as `check_sequence`.
    """

    def play(state: State, some: NDArray[np.int64]) -> None:
        picks = new_picks(0, network.visible, network.layers, network.weights)
        of_jobs = np.zeros((min(network.visible, n), OF_JOB), np.float32)
        play_network(log.jobs, log.machine, state, some, picks, of_jobs, backfill)

    return played(log, play, firsts, n, threads)


def ordered_in_gym(
    log: GymLog,
    policy: Policy,
    firsts: Firsts,
    *,
    n: int,
    backfill: bool,
    threshold_s: float = np.inf,
    threads: int | None = None,
) -> NDArray[np.int64]:
    """The start times of sequences in RLScheduler's simulator under an order of batfill's.

    Unlike RLScheduler's own heuristics, the order sees how long jobs have waited. Ties go to the job submitted first.

    Args:
        log: the jobs and the machine.
        policy: an order; p~ is the request, at least 1 s.
        firsts: as `starts_in_gym`.
        n: as there.
        backfill: as there.
        threshold_s: jobs that have waited longer are picked first, the oldest before all.
        threads: as there.

    Returns:
        (n_sequences, n) seconds from the log's origin.

    Raises:
        BatfillError: as `check_sequence`, or the policy has a network or a key that is not finite.
    """
    if policy.network is not None:
        raise PolicyError(f"policy {policy.name}: a network picks; use starts_in_gym")
    jobs = log.jobs
    request_s, procs = np.maximum(jobs.request_s, 1.0), np.maximum(jobs.procs, 1)
    key, rise = policy.lines(jobs.submit_s.astype(np.float64), request_s, procs)
    if policy.motion == BY_EXPECTED:
        rise = rise / request_s

    def play(state: State, some: NDArray[np.int64]) -> None:
        play_order(jobs, log.machine, state, some, key, rise, threshold_s, backfill)

    return played(log, play, firsts, n, threads)


def played(
    log: GymLog,
    play: Callable[[State, NDArray[np.int64]], None],
    firsts: Firsts,
    n: int,
    threads: int | None,
) -> NDArray[np.int64]:
    """The start times after `play` has played each sequence, some at a time."""
    firsts = np.asarray(firsts, np.int64)
    for first in firsts.tolist():
        check_sequence(log, first, n)

    def part(low: int) -> NDArray[np.int64]:
        some = firsts[low : low + AT_ONCE]
        state = new_state(len(some), n)
        play(state, some)
        return state.start_s

    return in_parts(part, range(0, len(firsts), AT_ONCE), threads, n, np.int64)


def in_parts(
    part: Callable[[int], NDArray[Any]], lows: Sequence[int], threads: int | None, n: int, dtype: type
) -> NDArray[Any]:
    """The rows that `part` gives for each of `lows`, (rows, n), computed on threads."""
    with thread_pool(threads or os.cpu_count() or 1) as pool:
        return np.concatenate([np.zeros((0, n), dtype), *pool.map(part, lows)])


def costs_in_gym(
    log: GymLog,
    networks: Sequence[Network],
    firsts: Firsts,
    *,
    n: int,
    backfill: bool,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """The mean bounded slowdown (tau 10 s) of each sequence under each network, (n_networks, n_sequences).

    Arguments and errors are those of `starts_in_gym`; the networks are shared among the threads.
    """

    def cost(k: int) -> NDArray[np.float64]:
        starts = starts_in_gym(log, networks[k], firsts, n=n, backfill=backfill, threads=1)
        means: NDArray[np.float64] = slowdowns(log, firsts, starts).mean(axis=1, keepdims=True).T
        return means

    return in_parts(cost, range(len(networks)), threads, len(firsts), np.float64)


def starts_in_easy(
    workload: Workload,
    policy: Policy,
    sequences: Sequence[NDArray[np.int64]],
    *,
    threads: int | None = None,
    **rules: Any,
) -> list[NDArray[np.float64]]:
    """The start times of sequences in batfill's engine, each replayed by itself from an empty machine.

    Args:
        workload: the jobs and the machine.
        policy: the order, or the network that picks.
        sequences: of each its jobs' rows in the workload, ascending; see `rows_of`.
        threads: how many are replayed at once; by default one per processor.
        **rules: other arguments of `EngineReplay`.

    Returns:
        Of each sequence (n,) seconds from the log's origin; nan for a job wider than the machine.

    Raises:
        BatfillError: as `EngineReplay`, or the machine's size is unknown.
    """
    size = workload.procs
    if size is None:
        raise WorkloadError(f"{workload.file or workload.name}: the machine's size is unknown; give `procs`")

    def starts(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        jobs: JobTable = workload.jobs.select(rows)
        run = EngineReplay(jobs, size, Rules(policy, **rules))
        run.advance()
        return run.schedule().start_s

    with thread_pool(threads or os.cpu_count() or 1) as pool:
        return list(pool.map(starts, sequences))


def rows_of(log: GymLog, workload: Workload, firsts: Firsts, *, n: int) -> list[NDArray[np.int64]]:
    """The rows in a workload of the jobs of sequences, found by their numbers: of each sequence (n,).

    Args:
        log: the log as RLScheduler reads it.
        workload: the same log as batfill reads it.
        firsts: the row in `log` of each sequence's first job.
        n: the jobs of a sequence.

    Raises:
        WorkloadError: the workload lacks a job.
    """
    row = {int(job): place for place, job in enumerate(workload.jobs.ids.tolist())}
    found = []
    for first in np.asarray(firsts).tolist():
        numbers = log.number[first : first + n].tolist()
        if lacking := [number for number in numbers if number not in row]:
            raise WorkloadError(
                f"{workload.file or workload.name}: it lacks job {lacking[0]} of {log.path}; read the same log"
            )
        found.append(np.sort(np.array([row[number] for number in numbers], np.int64)))
    return found


def firsts_within(allowed: NDArray[np.bool_], n: int) -> NDArray[np.int64]:
    """The rows at which n consecutive jobs begin that are all allowed; `allowed` has shape (n_jobs,).

    >>> firsts_within(np.array([True, True, True, False, True, True]), 2).tolist()
    [0, 1, 4]
    """
    before = np.concatenate([[0], np.cumsum(allowed, dtype=np.int64)])
    return np.flatnonzero(before[n:] - before[:-n] == n)
