"""The engine beside plain C, keys that move beside keys that do not, and how time grows with jobs and the queue."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from logs import BLUE, CEA, CTC, HPC2N, KTH, SDSC, Log, crowded, workload, write_plain
from numpy.typing import NDArray
from table import Row, time_text
from timing import Case, Setting, by_turns, exponent, repetitions_of, simulating, timed

from batfill.base.errors import RunFailed
from batfill.model.jobs import WEEK_S, Jobs
from batfill.model.policy import POLICIES, mixed, policy_named
from batfill.model.rules import Rules
from batfill.model.schedule import Schedule
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.many import measure_policies
from batfill.workloads.swf import workload_of
from batfill.workloads.swf_log import read_log
from batfill.workloads.times import consecutive_windows, cut, windows

NO_COMPILER = "no C compiler"
LOG_BAR, OVERLOADED_BAR, MOVING_BAR, COPIES_BAR, EVALUATION_BAR = 1.9, 0.15, 5.0, 14.0, 11.0

COPIES, SQUEEZE = 7, 0.5  # twice the arrivals: the queue grows for as long as jobs come
FIXED_LOAD_COPIES = (1, 7, 70)
OVERLOADED_COPIES = (7, 14, 35, 70)
QUEUE_SQUEEZES = (0.68, 0.6, 0.5, 0.3, 0.1)
MOVING = [name for name, policy in POLICIES.items() if policy.moves]
EVALUATIONS, THREADS, WEEK_OF_JOBS = 1000, 2, 500


def require_equal_starts(case: str, schedule: Schedule, theirs_s: NDArray[np.float64]) -> None:
    """Raise RunFailed unless both programs start every job at the same second."""
    differ = np.flatnonzero(schedule.start_s != theirs_s)
    if len(differ):
        row = differ[0]
        raise RunFailed(
            f"{case}: {len(differ)} of {len(schedule.start_s)} starts differ from plain C's (first: job "
            f"{schedule.jobs.ids[row]}, {schedule.start_s[row]:.0f} s, in C {theirs_s[row]:.0f} s)"
        )


def beside_c(log: Log, policy: str, bar: float, copies: int, squeeze: float, setting: Setting) -> list[Row]:
    given = workload(log, copies, squeeze)
    run = EngineReplay(given.jobs, log.procs, Rules(policy_named(policy)))
    run.advance()
    schedule, n_jobs = run.schedule(), len(given.jobs)
    case = f"{log.name}{f' x {copies}' if copies > 1 else ''} {policy}, {n_jobs:,} jobs"
    if setting.yardstick is None:
        seconds = by_turns(setting.rounds, {"ours": simulating(run)})
        return [Row(case, time_text(seconds["ours"]), NO_COMPILER, bar=bar)]

    plain = write_plain(given, setting.folder / f"{log.name}-{copies}.swf")
    require_equal_starts(case, schedule, setting.yardstick.starts_s(plain, policy))
    repetitions = repetitions_of(setting.yardstick.simulation_s(plain, policy))
    rules = policy_named(policy)
    seconds = by_turns(
        setting.rounds,
        {
            "C": partial(setting.yardstick.simulation_s, plain, policy, repetitions),
            "ours": simulating(run),
            "whole": lambda: timed(lambda: replay_jobs(given.jobs, log.procs, Rules(rules))),
        },
    )
    c = f"C {time_text(seconds['C'])}"
    return [
        Row(f"{case}, starts agree", time_text(seconds["ours"]), c, seconds["ours"] / seconds["C"], bar),
        Row("  from table to schedule", time_text(seconds["whole"]), c, seconds["whole"] / seconds["C"]),
    ]


def moving_keys(setting: Setting) -> list[Row]:
    jobs = workload(SDSC).jobs
    runs = {name: EngineReplay(jobs, SDSC.procs, Rules(policy_named(name))) for name in ("fcfs", *MOVING)}
    seconds = by_turns(setting.rounds, {name: simulating(run) for name, run in runs.items()})
    fcfs_s = seconds.pop("fcfs")
    return [
        Row(f"{SDSC.name} {name}", time_text(took), f"our fcfs {time_text(fcfs_s)}", took / fcfs_s, MOVING_BAR)
        for name, took in seconds.items()
    ]


def longest_queue(schedule: Schedule) -> int:
    """The most jobs that wait at once, those submitted at the instant of a pass counted before it."""
    submitted = np.arange(1, len(schedule.jobs) + 1)
    last_of_instant = np.append(np.diff(schedule.jobs.submit_s) > 0, True)
    started_before = np.searchsorted(np.sort(schedule.start_s), schedule.jobs.submit_s)
    return int((submitted - started_before)[last_of_instant].max())


def simulated(tables: Sequence[Jobs], policy: str, setting: Setting) -> tuple[list[float], list[EngineReplay]]:
    """The median seconds of each table's simulation, by turns, and the finished replays."""
    runs = [EngineReplay(jobs, KTH.procs, Rules(policy_named(policy))) for jobs in tables]
    seconds = by_turns(setting.rounds, {place: simulating(run) for place, run in enumerate(runs)})
    return list(seconds.values()), runs


def by_copies(policy: str, copies: Sequence[int], squeeze: float, setting: Setting) -> list[Row]:
    tables = [workload(KTH, n, squeeze).jobs for n in copies]
    seconds, _ = simulated(tables, policy, setting)
    numbers = "/".join(str(n) for n in copies)
    load = "fixed load" if squeeze == 1 else "overloaded"
    case = f"{KTH.name} {policy}, {load}, {numbers} copies"
    times = " / ".join(time_text(s) for s in seconds)
    grows = exponent([len(jobs) for jobs in tables], seconds)
    ratio = seconds[copies.index(70)] / seconds[copies.index(7)]
    return [
        Row(case, times, "time against jobs", grows, unit="n"),
        Row("  70 copies beside 7", time_text(seconds[-1]), "", ratio, COPIES_BAR),
    ]


def by_queue(policy: str, setting: Setting) -> list[Row]:
    """The same jobs, submitted ever faster: what a longer queue alone costs."""
    seconds, runs = simulated([workload(KTH, COPIES, s).jobs for s in QUEUE_SQUEEZES], policy, setting)
    queues = [longest_queue(run.schedule()) for run in runs]
    case = f"{KTH.name} x {COPIES} {policy}, queue up to {'/'.join(str(n) for n in queues)}"
    times = " / ".join(time_text(s) for s in seconds)
    return [Row(case, times, "time against queue", exponent(queues, seconds), unit="n")]


def week() -> Jobs:
    """The first week of SDSC-SP2 with WEEK_OF_JOBS jobs; as plain C reads requests as they are, none is below p."""
    log = read_log(SDSC.path)
    first = consecutive_windows(windows(log, WEEK_S), count=1, min_jobs=WEEK_OF_JOBS)[0]
    given = workload_of(SDSC.path, cut(log, first))
    return crowded(given, 1, 1.0).stating(name=given.name, size=given.size)


def evaluations(setting: Setting) -> list[Row]:
    given = week()
    weights = np.random.default_rng(setting.seed).uniform(-1, 1, (EVALUATIONS, 6))
    policies = [mixed(tuple(row)) for row in weights.tolist()]

    def ours() -> float:
        whole_s = timed(
            lambda: measure_policies(given.jobs, SDSC.procs, policies, backfill=policy_named("spf"), threads=THREADS)
        )
        return whole_s / EVALUATIONS

    case = f"{EVALUATIONS:,} mixed policies, a week of {len(given.jobs)} jobs, {THREADS} threads, each"
    if setting.yardstick is None:
        return [Row(case, time_text(by_turns(setting.rounds, {"ours": ours})["ours"]), NO_COMPILER, bar=EVALUATION_BAR)]
    plain = write_plain(given, setting.folder / "week.swf")
    alike = replay_jobs(given.jobs, SDSC.procs, Rules(policy_named("fcfs")))
    require_equal_starts("the week under fcfs", alike, setting.yardstick.starts_s(plain, "fcfs"))
    theirs = partial(setting.yardstick.simulation_s, plain, "fcfs", EVALUATIONS)
    seconds = by_turns(setting.rounds, {"C": theirs, "ours": ours})
    c = f"C, fcfs {time_text(seconds['C'])}"
    return [Row(case, time_text(seconds["ours"]), c, seconds["ours"] / seconds["C"], EVALUATION_BAR)]


def cases() -> list[Case]:
    beside, moving, growth = "simulation beside plain C", "keys that move with time", "growth"
    single = [
        Case(beside, f"{log.name} {policy}", partial(beside_c, log, policy, LOG_BAR, 1, 1.0), quick=log is KTH)
        for log in (KTH, SDSC, BLUE, CTC, HPC2N, CEA)
        for policy in ("fcfs", "saf")
    ]
    crowd = [
        Case(beside, f"overloaded {policy}", partial(beside_c, KTH, policy, OVERLOADED_BAR, COPIES, SQUEEZE))
        for policy in ("fcfs", "saf")
    ]
    grown = [
        Case(growth, f"{policy} by copies", partial(by_copies, policy, copies, squeeze))
        for copies, squeeze in ((FIXED_LOAD_COPIES, 1.0), (OVERLOADED_COPIES, SQUEEZE))
        for policy in ("fcfs", "saf")
    ]
    queued = [Case(growth, f"{policy} by queue", partial(by_queue, policy)) for policy in ("fcfs", "saf")]
    return [
        *single,
        *crowd,
        Case(beside, "evaluations", evaluations),
        Case(moving, "moving keys", moving_keys),
        *grown,
        *queued,
    ]
