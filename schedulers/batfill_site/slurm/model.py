"""The model: a site and its jobs, run under a clock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from batfill_site.slurm.arrays import NO_LIMIT, new_plan, slurm_arrays
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.loop import CYCLE, FULL, OVER, TICK, advance, turn_s
from batfill_site.slurm.priority import set_factors
from batfill_site.slurm.records import DRAWS, Slurm, numbers_of
from batfill_site.slurm.running import resume
from batfill_site.slurm.site import Bools, Clock, Floats, Ints, Run, Site, SlurmJobs


class Model:
    """A site and its jobs, ready to run any number of times."""

    def __init__(self, site: Site, jobs: SlurmJobs, running: Bools | None = None, begin_s: float = -math.inf) -> None:
        """Of a site and its jobs; `arrays.possible` leaves those out that can never start.

        Args:
            site: the site.
            jobs: the jobs.
            running: which of them run at the beginning (R0), (n_jobs,); None for none. Those whose nodes are unknown,
                or have not what they held, hold nothing: see `seated`.
            begin_s: when the others are queued at the earliest.

        Raises:
            WorkloadError: a partition, a constraint or an association makes no sense.
        """
        self.settings, self.slurm = site.settings, slurm_arrays(site, jobs)
        self.running = np.zeros(len(jobs), bool) if running is None else running
        self.rows, self.started_s = self.seated(site, jobs), jobs.started_s
        table = self.slurm.jobs
        table["queued_s"] = np.maximum(table["queued_s"], begin_s)
        to_queue = np.flatnonzero(~self.running)
        arrivals = to_queue[np.argsort(table["queued_s"][to_queue], kind="stable")]
        self.slurm = self.slurm._replace(arrivals=arrivals)
        self.first_s = max(float(jobs.submit_s[arrivals].min()) if len(arrivals) else 0.0, begin_s)

    def seated(self, site: Site, jobs: SlurmJobs) -> Ints:
        """The running jobs that have their nodes, which are written into `slurm.at`."""
        table, found = self.slurm.jobs, list[int]()
        left = [np.array([node.cpus, node.memory_mb, node.gpus]) for node in site.nodes]
        for row in np.flatnonzero(self.running).tolist():
            job, names = table[row], expand(jobs.ran_on[row]) if jobs.ran_on[row] else []
            at = sorted(site.place[name] for name in names if name in site.place)
            asked = [(site.nodes[i].cpus if job["exclusive"] else job["cpus"], job["memory"], job["gpus"]) for i in at]
            after = [left[i] - needs for i, needs in zip(at, asked, strict=True)]
            if len({*at}) == len(names) == job["nodes"] and all((each >= 0).all() for each in after):
                for i, each in zip(at, after, strict=True):
                    left[i] = each
                self.slurm.at[job["first"] : job["first"] + len(at)] = at
                found.append(row)
        return np.array(found, np.int64)

    def run(self, clock: Clock, *, run_s: Floats | None = None, asked: Bools | None = None) -> Run:
        """The run under a clock. Runs may be made in threads at once.

        Args:
            clock: when passes are made.
            run_s: other run times, (n_jobs,).
            asked: jobs, (n_jobs,), after whose starts the run is over; None to run to the end.
        """
        slurm = self.begun(clock)
        if run_s is not None:
            slurm.jobs["run_s"] = run_s
        slurm.state["wanted"] = -1
        if asked is not None:
            slurm.jobs["asked"], slurm.state["wanted"] = asked, np.count_nonzero(asked & ~self.running)
        set_factors(slurm)
        resume(slurm, self.rows, self.started_s[self.rows])
        while advance(slurm) != OVER:
            slurm = slurm._replace(plan=new_plan(2 * len(slurm.plan.begin), slurm.plan.free.shape[1]))
        jobs, state = slurm.jobs, slurm.state[0]
        started = jobs["by"] > 0
        started[self.rows] = True
        first = np.concatenate([[0], np.cumsum(np.where(started, jobs["nodes"], 0))])
        at = slurm.at[np.repeat(started, jobs["nodes"])]
        counts = (int(state[name]) for name in ("cycles", "tried", "longest"))
        return Run(jobs["start_s"].copy(), jobs["by"].astype(np.int8), first, at, *counts)

    def begun(self, clock: Clock) -> Slurm:
        """The arrays at the beginning of a run, all of them its own."""
        slurm: Slurm = own(self.slurm)
        settings, first_s = self.settings, self.first_s
        options, state, dates_s = slurm.options, slurm.state, slurm.dates_s
        for name, value in numbers_of(clock).items():
            options[name] = value
        options["main_known"], options["cycles_known"] = bool(clock.main_s), bool(clock.cycles_s)
        dates_s[FULL] = clock.main_s[0] if clock.main_s else turn_s(clock, first_s)
        state["turned"], state["moved_s"] = -NO_LIMIT, first_s
        if settings.multifactor:
            dates_s[TICK] = first_s if math.isnan(clock.first_decay_s) else clock.first_decay_s
        if settings.backfill:
            own_s = first_s + 20 if math.isnan(clock.first_cycle_s) else clock.first_cycle_s
            dates_s[CYCLE] = clock.cycles_s[0] if clock.cycles_s else own_s
        slurm.jobs["priority"] = 1
        return slurm._replace(
            main_s=np.array(clock.main_s, np.float64),
            cycles_s=np.array(clock.cycles_s, np.float64),
            draws=np.random.default_rng(clock.seed).random(DRAWS),
        )


def own(arrays: Any) -> Any:
    """A copy of all arrays."""
    return arrays.copy() if isinstance(arrays, np.ndarray) else type(arrays)(*map(own, arrays))
