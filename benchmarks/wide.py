"""Wide machines: what an event costs where tens of thousands of jobs run at a time, and what a copy of the state costs.

Run as a script, it replays `python wide.py JOBS PROCS POLICY` and prints the seconds and the bytes a job.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache, partial

import numpy as np
from engine import NO_COMPILER, require_equal_starts
from logs import write_plain
from memory import ALWAYS_MAP, BAR_BYTES, peak_growth
from table import Row, time_text
from timing import Case, Setting, by_turns, exponent, simulating, timed

from batfill.model.jobs import Jobs, job_table
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.session import Replay
from batfill.workloads.swf import padded_ids

JOBS_A_PROCESSOR = 10
PROCS, GROWING = 50_000, (5_000, 50_000, 500_000)
LONG_JOBS, LONG_PROCS = 10_000_000, 100_000
C_BAR, GROWTH_BAR, LONG_BAR_S, FORK_BAR_S, SAVE_BAR_S = 0.1, 0.25, 25.0, 0.05, 0.5
MOST_ROUNDS = 3  # of plain C, which takes ten seconds and more a turn
COPIES_ROUNDS = 15


def wide_jobs(n_jobs: int, procs: int, seed: int) -> Jobs:
    """Jobs of a throughput cluster: nine of ten have one processor, the others 2, 4 or 8.

    Their run times are lognormal (9 hours in the mean), their requests 1, 1.5, 3 or 10 times that; they come at random,
    in the mean 1.3 a second for 50,000 processors, 1.16 times what the machine can do.
    """
    rng = np.random.default_rng(seed)
    wide = rng.random(n_jobs) >= 0.9
    runtime_s = np.maximum(np.rint(rng.lognormal(9.9, 1.0, n_jobs)), 1.0)
    return job_table(
        f"{n_jobs} jobs of a throughput cluster, seed {seed}",
        ids=padded_ids(np.arange(n_jobs) + 1, width=len(str(n_jobs))),
        submit_s=np.floor(np.cumsum(rng.exponential(50_000 / (1.3 * procs), n_jobs))),
        runtime_s=runtime_s,
        walltime_s=np.ceil(runtime_s * rng.choice([1.0, 1.5, 3.0, 10.0], n_jobs)),
        procs=np.where(wide, rng.choice([2, 4, 8], n_jobs), 1),
        own_end=True,
    )


@cache
def wide_workload(seed: int) -> Jobs:
    """The log that plain C replays, too."""
    jobs = wide_jobs(JOBS_A_PROCESSOR * PROCS, PROCS, seed)
    return jobs.stating(name="wide", size=PROCS)


def beside_c(policy: str, setting: Setting) -> list[Row]:
    given = wide_workload(setting.seed)
    run = EngineReplay(given.jobs, PROCS, Rules(policy_named(policy)))
    run.advance()
    case = f"{policy}, {len(given.jobs):,} jobs on {PROCS:,} processors"
    rounds = min(setting.rounds, MOST_ROUNDS)
    if setting.yardstick is None:
        return [Row(case, time_text(by_turns(rounds, {"ours": simulating(run)})["ours"]), NO_COMPILER, bar=C_BAR)]
    plain = write_plain(given, setting.folder / "wide.swf")
    require_equal_starts(case, run.schedule(), setting.yardstick.starts_s(plain, policy))
    theirs = partial(setting.yardstick.simulation_s, plain, policy)
    seconds = by_turns(rounds, {"C": theirs, "ours": simulating(run)})
    c = f"C {time_text(seconds['C'])}"
    return [Row(f"{case}, starts agree", time_text(seconds["ours"]), c, seconds["ours"] / seconds["C"], C_BAR)]


def growth(policy: str, setting: Setting) -> list[Row]:
    runs = [
        EngineReplay(wide_jobs(JOBS_A_PROCESSOR * procs, procs, setting.seed), procs, Rules(policy_named(policy)))
        for procs in GROWING
    ]
    for run in runs:
        run.advance()
    seconds = by_turns(min(setting.rounds, MOST_ROUNDS), {place: simulating(run, 1) for place, run in enumerate(runs)})
    each_s = [seconds[place] / len(run.table) for place, run in enumerate(runs)]
    sizes = "/".join(f"{procs:,}" for procs in GROWING)
    times = " / ".join(map(time_text, each_s))
    grows = exponent(GROWING, each_s)
    return [Row(f"{policy}, {sizes} processors, a job", times, "time against processors", grows, GROWTH_BAR, "n")]


def long_log(policy: str, _: Setting) -> list[Row]:
    done = subprocess.run(
        [sys.executable, __file__, str(LONG_JOBS), str(LONG_PROCS), policy],
        capture_output=True,
        text=True,
        check=True,
        env=ALWAYS_MAP,
    )
    seconds, used = map(float, done.stdout.split())
    case = f"{policy}, {LONG_JOBS:,} jobs on {LONG_PROCS:,} processors"
    return [
        Row(case, time_text(seconds), figure=seconds, bar=LONG_BAR_S, unit="s"),
        Row("  beyond the job table", f"{used:.0f} B", figure=used, bar=BAR_BYTES, unit="B"),
    ]


def copies(setting: Setting) -> list[Row]:
    given = wide_workload(setting.seed)
    whole = Replay(given, "saf").run(float(given.jobs.submit_s[len(given.jobs) // 2]))
    run = whole.engine
    path = setting.folder / "wide.npz"
    seconds = by_turns(
        COPIES_ROUNDS, {"fork": lambda: timed(run.fork), "save": lambda: timed(lambda: whole.save(path))}
    )
    where = f"saf, halfway through {len(given.jobs):,} jobs, {len(run.queue.running):,} running"
    return [
        Row(f"{where}: a fork", time_text(seconds["fork"]), figure=seconds["fork"], bar=FORK_BAR_S, unit="s"),
        Row("  saving it", time_text(seconds["save"]), figure=seconds["save"], bar=SAVE_BAR_S, unit="s"),
    ]


def cases() -> list[Case]:
    section = "wide machines"
    return [
        *(Case(section, f"{policy} beside plain C", partial(beside_c, policy)) for policy in ("fcfs", "saf")),
        *(Case(section, f"{policy} by processors", partial(growth, policy)) for policy in ("fcfs", "saf")),
        *(Case(section, f"{policy}, a long log", partial(long_log, policy)) for policy in ("fcfs", "saf")),
        Case(section, "copies of the state", copies),
    ]


def main(n_jobs: int, procs: int, policy: str) -> None:
    """Print the seconds of a replay, from the table to the schedule, and by how much the process grows in it."""
    rules = policy_named(policy)
    jobs = wide_jobs(n_jobs, procs, seed=1)
    replay_jobs(jobs.select(slice(100)), procs, Rules(rules))  # load the engine
    seconds: list[float] = []
    grown = peak_growth(lambda: seconds.append(timed(lambda: replay_jobs(jobs, procs, Rules(rules)))))
    print(seconds[0], grown / n_jobs)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
