"""What a job costs while ever more wait: generated logs at load 1.2, whose queue grows for as long as jobs come."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
from logs import HPC2N, workload
from table import Row, time_text
from timing import Case, Setting, by_turns, simulating

from batfill.model.jobs import Jobs
from batfill.model.options import Options
from batfill.replays.engine_replay import EngineReplay
from batfill.workloads import generate_workload

PROCS, LOAD, FEW, MANY = 256, 1.2, 10_000, 300_000
GROWTH_BAR, TESTED_BAR_S, LIMITED_BAR_S = 4.0, 30e-6, 1.0
POWER = "power=80%@1W"
OPTIONS = {
    "fcfs": {},
    "saf, threshold 6 h": {"policy": "saf", "threshold": "6h"},
    "depth 2": {"depth": 2},
    "reservation kept": {"reservation": "kept"},
    "a pool of 80 %": {"pool": POWER},
    "a pool of 80 % that skips": {"pool": f"{POWER}:skip"},
    "max-running 60": {"max-running": 60},
    "first-tries, max-running 60": {"preset": "first-tries", "max-running": 60},
    "slurm": {"preset": "slurm"},
}


@cache
def crowded(n_jobs: int, seed: int) -> Jobs:
    """Generated jobs, each drawing 0.5, 1 or 1.5 W a processor, at most what the pool has."""
    jobs = generate_workload(jobs=n_jobs, procs=PROCS, seed=seed, load=LOAD)
    drawn = np.ceil(jobs.procs * np.random.default_rng(seed).choice([0.5, 1, 1.5], n_jobs))
    amounts = np.zeros(n_jobs, [("power", "f8")])
    amounts["power"] = np.minimum(drawn, 0.8 * PROCS // 1)
    return replace(jobs, amounts=amounts)


def replay_of(jobs: Jobs, given: dict[str, object]) -> EngineReplay:
    options = Options.of(given).on(jobs, jobs)
    assert jobs.size is not None
    pools = tuple(replace(pool, each=None) for pool in options.rules.pools)  # what the jobs' field says
    return EngineReplay(jobs, jobs.size, replace(options.rules, pools=pools))


def by_jobs(name: str, setting: Setting) -> list[Row]:
    runs = {n: replay_of(crowded(n, setting.seed), OPTIONS[name]) for n in (FEW, MANY)}
    seconds = by_turns(min(setting.rounds, 3), {FEW: simulating(runs[FEW]), MANY: simulating(runs[MANY], 1)})
    few_s, many_s = seconds[FEW] / FEW, seconds[MANY] / MANY
    case = f"{name}, {MANY:,} jobs, each"
    beside = f"of {FEW:,}: {time_text(few_s)}"
    if name == "slurm":
        return [Row(case, time_text(many_s), beside, many_s, TESTED_BAR_S, "s")]
    return [Row(case, time_text(many_s), beside, many_s / few_s, GROWTH_BAR)]


def limited(setting: Setting) -> list[Row]:
    run = replay_of(workload(HPC2N), OPTIONS["first-tries, max-running 60"])
    took_s = by_turns(setting.rounds, {"ours": simulating(run)})["ours"]
    return [Row(f"{HPC2N.name} first-tries, max-running 60", time_text(took_s), "-", took_s, LIMITED_BAR_S, "s")]


def cases() -> list[Case]:
    section = "a longer queue"
    return [
        *(Case(section, name, partial(by_jobs, name)) for name in OPTIONS),
        Case(section, "HPC2N with a limit", limited),
    ]
