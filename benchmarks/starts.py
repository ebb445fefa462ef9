"""Digests of every start, kill and machine under 250 settings: a change that is no change of rule keeps them.

    python benchmarks/starts.py --out before.json
    python benchmarks/starts.py --against before.json        # after the change: exit status 1 if one differs

A setting has a name of its own, so that its options may be renamed. The hosts are a replay, and the scheduler under the
embedded Batsim, with and without reserved machines.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from logs import KTH, LogMissing

from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.model.jobs import DAY_S, HOUR_S, LARGE, SMALL, job_table
from batfill.model.limits.calendar import ANNOUNCED, Calendar, Window
from batfill.model.policy import POLICIES
from batfill.replays.replay import simulate
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings
from batfill.workloads import opened
from batfill.workloads.batsim_json import load_document
from batfill_lab.studied import studied

ROOT = Path(__file__).parents[1]
DIVIDER_S = 600.0


def tied(n_jobs, size, seed, *, outlives=False):
    """Jobs full of ties: whole tens of seconds, powers of two; if they may outlive their requests, half of them do."""
    rng = np.random.default_rng(seed)
    runtime_s = 10.0 * rng.integers(1, 60, n_jobs)
    request_s = 10.0 * rng.integers(1, 60, n_jobs)
    jobs = job_table(
        "tied",
        ids=np.array([str(number) for number in range(n_jobs)]),
        submit_s=np.sort(10.0 * rng.integers(0, 12 * n_jobs, n_jobs)),
        runtime_s=runtime_s if outlives else np.minimum(runtime_s, request_s),
        walltime_s=request_s,
        procs=np.minimum(2 ** rng.integers(0, 6, n_jobs), size),
        user=rng.integers(0, 9, n_jobs),
        outlives=outlives,
    )
    return jobs.stating(name="tied", size=size, overrun="extend" if outlives else "keep"), size


@cache
def workload(name):
    """A workload of this name and its machine's size."""
    if name == "kth":
        return opened(str(KTH.path))
    if name == "kth-extend":
        return opened(str(KTH.path), overrun="extend")
    if name == "kth-first":
        whole, size = opened(str(KTH.path))
        return whole.select(slice(0, 3000)), size
    if name == "sample":
        return opened(str(ROOT / "workloads" / "sample.json"))
    return tied(3000, 64, 1) if name == "tied" else tied(3000, 64, 2, outlives=True)


HEADLINE = {"policy": "aged:20000,0.2,0"}
ORDERS = [*POLICIES, "mixed:1,0.5,0,0,0.2,0", "mixed:0.3,0.1,-0.2,0,0,0.4", "aged:20000,0.2,0", "aged:0,1,-0.33"]
ALL = {"small": "all", "kill": "always"}
FOREST = {"small": "forest", "kill": "always"}
PERFECT = {"small": "perfect", "kill": "always"}
CLASS = {"small": "class", "divider": DIVIDER_S, "kill": "always"}
NEEDED = {"kill": "needed"}
NARROW = {"small-width": 0.125}


def settings():
    """(name, workload, host, options) of every setting."""
    for log in ("kth", "tied"):
        for order in ORDERS:
            for limit in ({}, {"threshold": 72_000.0 if log == "kth" else 2_000.0}):
                yield f"{log} {order} {'threshold' if limit else 'plain'}", log, "replay", {"policy": order, **limit}
    tries = {
        "class": CLASS, "class needed": {**CLASS, **NEEDED}, "class narrow": {**CLASS, **NARROW},
        "all": ALL, "all needed": {**ALL, **NEEDED}, "all needed narrow": {**ALL, **NEEDED, **NARROW},
        "perfect": PERFECT, "perfect needed": {**PERFECT, **NEEDED},
        "perfect never": {"small": "perfect", "kill": "never"},
        "perfect needed narrow": {**PERFECT, **NEEDED, **NARROW},
    }  # fmt: skip
    guards = {"": {}, " all": {"threshold": 20_000.0}}
    for log in ("sample", "outliving"):
        for name, options in tries.items():
            for order in ("fcfs", "saf", "aged:20000,0.2,0"):
                for guard, limit in guards.items():
                    if guard and order == "fcfs":
                        continue
                    yield f"{log} {order} {name}{guard}", log, "replay", {"policy": order, **options, **limit}
    for log in ("kth", "kth-extend", "sample"):
        for predictor in ("easy++", "regression", "runtime"):
            name = "runtime-clairvoyant" if predictor == "runtime" else predictor  # as when digests began
            yield f"{log} {name}", log, "replay", {"policy": "spf", "predict": predictor, "predict-for": "all"}
            options = {"policy": "saf", "predict": predictor, "predict-for": "order", "backfill": "spf"}
            yield f"{log} {name} order", log, "replay", options
    yield "kth all needed narrow", "kth", "replay", {**HEADLINE, **ALL, **NEEDED, **NARROW}
    yield "kth first tries", "kth", "replay", {"preset": "first-tries"}
    yield "kth depth 4", "kth", "replay", {"depth": 4}
    evenings = [(DAY_S * day + 17.0 * HOUR_S, DAY_S * day + 21.0 * HOUR_S) for day in range(400)]
    falls = [Window(ANNOUNCED, begin, end, 3000, pool="power", base="W") for begin, end in evenings]
    always, sudden = Calendar(tuple(falls)), Calendar(tuple(one._replace(announced=one.begin) for one in falls))
    power, budget = {"pool": "power=10kW@100W"}, "4500kWh@100d..130d,watts=100W"
    planned = {
        "pool": {"pool": "power=7kW@100W"}, "pool skipped": {"pool": "power=7kW@100W:skip"},
        "users": {"max-running": 3},
        "cap": {**power, "calendar": always}, "cap not announced": {**power, "calendar": sudden},
        "gate": {"backfill-while": evenings},
        "budget": {"energy-budget": budget}, "budget holds": {"energy-budget": f"{budget},head-holds"},
    }  # fmt: skip
    for name, options in planned.items():
        yield f"kth fcfs {name}", "kth", "replay", {"policy": "fcfs", **options}
        yield f"kth saf {name}", "kth", "replay", {"policy": "saf", **options}
    for name, options in {"always": FOREST, "needed": {**FOREST, **NEEDED}}.items():
        yield f"sample forest {name}", "sample", "replay", {"policy": "fcfs", **options}
    yield "sample decoupled", "sample", "replay", {"policy": "fcfs", **FOREST, "regime": "decoupled"}
    for log in ("sample", "kth-first"):
        live = {
            "fcfs": {}, "saf threshold": {"policy": "saf", "threshold": 72_000.0}, "wfp3": {"policy": "wfp3"},
            "backfill": {"policy": "fcfs", "backfill": "spf"}, "headline": {**HEADLINE, **ALL, **NEEDED, **NARROW},
            "first tries": {"preset": "first-tries"},
            "class": {"policy": "spf", **CLASS}, "easy++": {"policy": "spf", "predict": "easy++", "predict-for": "all"},
        }  # fmt: skip
        for name, options in live.items():
            yield f"{log} batsim4 {name}", log, "batsim4", options
        machines = {"saf": {"policy": "saf"}, "always": {"policy": "fcfs", **ALL}, "backfill": {"backfill": "saf"}}
        for name, options in machines.items():
            yield f"{log} machines {name}", log, "batsim4", {**options, "reservation": "machines"}


def digest(setting):
    """The digest of this setting's starts, kills and, under Batsim, machines."""
    _, log, host, options = setting
    source, size = workload(log)
    if options.get("small") == "class":
        small = np.random.default_rng(7).random(len(source.jobs)) < 0.7
        classes = np.where(small, SMALL, LARGE).astype(np.int8)
        source = replace(source, job_class=classes)
    with tempfile.TemporaryDirectory() as folder:
        if host != "replay":
            return live(source, size, host, options, Path(folder))
        schedule, _ = simulate(source.jobs, source, studied(options))
    tries = [schedule.kills[name] for name in ("row", "start_s", "ran_s")]
    columns = (schedule.start_s, schedule.backfilled, schedule.order, *tries)
    return sha256(b"".join(np.ascontiguousarray(column).tobytes() for column in columns)).hexdigest()


def live(source, size, host, options, folder):
    """The digest of every try's start, end, state and machines under the embedded Batsim."""
    jobs = source.jobs
    columns = zip(jobs.ids, jobs.submit_s, jobs.runtime_s, jobs.walltime_s, jobs.procs, jobs.job_class, strict=True)
    document = {
        "nb_res": size,
        "jobs": [
            {"id": name, "subtime": submit_s, "res": int(procs), "walltime": walltime_s, "profile": f"{runtime_s:g}"}
            | ({"class": "small"} if job_class == SMALL else {})
            for name, submit_s, runtime_s, walltime_s, procs, job_class in columns
        ],
        "profiles": {f"{p:g}": {"type": "delay", "delay": p} for p in np.unique(jobs.runtime_s)},
    }
    (folder / "jobs.json").write_text(json.dumps(document))
    (folder / "platform.xml").write_text(homogeneous_platform(size))
    ended = []
    Simulation(
        read_platform(folder / "platform.xml"),
        {"w0": load_document(folder / "jobs.json")},
        Conversation4(Agent(options)).answer,
        settings=SimulationSettings(dynamic_jobs=True, reuse_profiles=True),
        on_job_end=ended.append,
    ).run()
    rows = [
        (end.job_id, repr(end.starting_time), repr(end.finish_time), end.final_state, str(end.allocated_resources))
        for end in ended
    ]
    return sha256(json.dumps(rows).encode()).hexdigest()


def main():
    """Write the digests, or compare them with older ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the digests to this file")
    parser.add_argument("--against", type=Path, help="compare with this file of an earlier run")
    parser.add_argument("--only", default="", help="settings whose name contains this")
    arguments = parser.parse_args()
    chosen = [setting for setting in settings() if arguments.only in setting[0]]
    began_s = time.time()
    with ProcessPoolExecutor(2) as pool:
        names = (name for name, *_ in chosen)
        found = dict(zip(names, pool.map(digest, chosen), strict=True))
    print(f"{len(found)} settings in {time.time() - began_s:.0f} s")
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.against:
        before = json.loads(arguments.against.read_text())
        differing = [name for name in found if before.get(name) != found[name]]
        missing = sorted(before.keys() - found.keys()) if not arguments.only else []
        print(f"{len(differing)} differ, {len(missing)} of the earlier are missing")
        print("\n".join([*differing, *missing]))
        return 1 if differing or missing else 0
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LogMissing as missing:
        sys.exit(f"starts: {missing}")
