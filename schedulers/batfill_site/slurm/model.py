"""The model: a site and its jobs, run under a clock."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from batfill.engine.records import new_records
from batfill_site.slurm.arrays import NO_LIMIT, new_plan, records_of, side_by_side, slurm_arrays
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.loop import CYCLE, FULL, OVER, TICK, advance, turn_s
from batfill_site.slurm.preempt import CHECK_S
from batfill_site.slurm.priority import set_factors
from batfill_site.slurm.records import DRAWS, Slurm, numbers_of
from batfill_site.slurm.running import resume
from batfill_site.slurm.site import PREEMPTED, Bools, Clock, Ints, Run, Site, SlurmJobs


class Model:
    """A site and its jobs, ready to run any number of times."""

    def __init__(self, site: Site, jobs: SlurmJobs, running: Bools | None = None, begin_s: float = -math.inf) -> None:
        """Of a site and its jobs; `arrays.possible` leaves those out that can never start.

        `running`: which of them run at the beginning (R0), (n_jobs,); those whose nodes are unknown, or have not what
        they held, hold nothing. The others are queued at `begin_s` at the earliest.
        """
        self.settings, n = site.settings, len(jobs)
        self.running = np.zeros(n, bool) if running is None else running
        # A job that runs is in one partition alone.
        named = zip(jobs.partitions, self.running.tolist(), strict=True)
        each, self.of = records_of(
            site, replace(jobs, partitions=tuple("" if runs else names for names, runs in named))
        )
        self.slurm = slurm_arrays(site, each, self.of)
        self.rows = self.seat(site, each)
        self.started_s = each.started_s[self.rows]
        table = self.slurm.jobs
        table["queued_s"] = np.maximum(table["queued_s"], begin_s)
        first = np.searchsorted(self.of, np.flatnonzero(~self.running))
        arrivals = first[np.argsort(table["queued_s"][first], kind="stable")]
        self.slurm = self.slurm._replace(arrivals=arrivals)
        self.first_s = max(float(each.submit_s[arrivals].min()) if len(arrivals) else 0.0, begin_s)

    def seat(self, site: Site, jobs: SlurmJobs) -> Ints:
        """The rows of running jobs whose nodes are known, in the order of R0; writes these into `slurm.at`."""
        found = []
        for row in np.flatnonzero(self.running[self.of]).tolist():
            names = expand(jobs.ran_on[row]) if jobs.ran_on[row] else []
            at = sorted({site.place[name] for name in names if name in site.place})
            if 0 < len(at) == len(names):
                found.append((len(at), row, at))
        found.sort()
        first, places = side_by_side([each for *_, each in found])
        rows = np.array([row for _, row, _ in found], np.int64)
        self.slurm.jobs["first"][rows], self.slurm.jobs["placed"][rows] = first[:-1], np.diff(first)
        self.slurm.state["placed"] = len(places)
        places = np.concatenate([places, self.slurm.at])
        self.slurm = self.slurm._replace(at=places, cpus_at=np.zeros_like(places))
        return rows

    def run(self, clock: Clock, *, asked: Bools | None = None) -> Run:
        """The run, also in threads; only until the jobs `asked` have started, (n_jobs,)."""
        slurm = self.begun(clock)
        slurm.state["wanted"] = -1
        if asked is not None:
            slurm.jobs["asked"], slurm.state["wanted"] = asked[self.of], np.count_nonzero(asked & ~self.running)
        set_factors(slurm)
        resume(slurm, self.rows, self.started_s)
        while advance(slurm) != OVER:
            plan = new_plan(2 * len(slurm.plan.begin), slurm.plan.free.shape[1], len(slurm.licences.all))
            at, cpus_at = (np.concatenate([each, np.zeros_like(each)]) for each in (slurm.at, slurm.cpus_at))
            slurm = slurm._replace(plan=plan, at=at, cpus_at=cpus_at)  # without tries to take over
        if slurm.state[0]["noted"] > len(slurm.preemption.noted):
            room = new_records(int(slurm.state[0]["noted"]), PREEMPTED)
            self.slurm = self.slurm._replace(preemption=self.slurm.preemption._replace(noted=room))
            return self.run(clock, asked=asked)
        jobs, state, n = slurm.jobs, slurm.state[0], len(self.running)
        began = np.flatnonzero(np.isfinite(jobs["start_s"]))
        of, placed, start_s, by = self.of[began], jobs["placed"][began], np.full(n, np.nan), np.zeros(n, np.int8)
        start_s[of], by[of] = jobs["start_s"][began], jobs["by"][began]
        first = np.concatenate([[0], np.cumsum(np.bincount(of, placed, n).astype(np.int64))])
        at = slurm.at[np.repeat(jobs["first"][began] - np.cumsum(placed) + placed, placed) + np.arange(first[-1])]
        noted = slurm.preemption.noted[: state["noted"]]
        noted["job"], noted["by"] = self.of[noted["job"]], np.where(noted["by"] < 0, -1, self.of[noted["by"]])
        return Run(start_s, by, first, at, int(state["cycles"]), int(state["tried"]), noted)

    def begun(self, clock: Clock) -> Slurm:
        slurm: Slurm = own(self.slurm)
        settings, first_s = self.settings, self.first_s
        options, state, dates_s = slurm.options, slurm.state, slurm.dates_s
        if settings.sched_interval_s == math.inf:
            clock = clock._replace(main_s=(math.inf,))
        for name, value in numbers_of(clock).items():
            options[name] = value
        dates_s[FULL] = clock.main_s[0] if clock.main_s else turn_s(clock, first_s)
        state["turned"], state["moved_s"] = -NO_LIMIT, first_s
        if settings.multifactor:
            dates_s[TICK] = first_s if math.isnan(clock.first_decay_s) else clock.first_decay_s
        if settings.backfill:
            own_s = first_s + 20 if math.isnan(clock.first_cycle_s) else clock.first_cycle_s
            dates_s[CYCLE] = clock.cycles_s[0] if clock.cycles_s else own_s
        if math.isnan(clock.first_check_s):
            options["first_check_s"] = first_s + CHECK_S
        slurm.jobs["priority"] = 1
        arrived_s, leave_s = (slurm.jobs[name][slurm.arrivals] for name in ("queued_s", "leave_s"))
        slurm.jobs["leave_s"][slurm.arrivals] = leave_s = np.maximum(leave_s, arrived_s + clock.arrival_s)
        leaving = slurm.arrivals[np.lexsort((slurm.arrivals, leave_s))]
        return slurm._replace(
            leaving=leaving[: np.count_nonzero(leave_s < math.inf)],
            main_s=np.array(clock.main_s, np.float64),
            full=np.isin(clock.main_s, clock.full_s).astype(np.uint8),
            cycles_s=np.array(clock.cycles_s, np.float64),
            checks_s=np.array(clock.checks_s, np.float64),
            draws=np.random.default_rng(clock.seed).random(DRAWS),
        )


def own(arrays: Any) -> Any:
    return arrays.copy() if isinstance(arrays, np.ndarray) else type(arrays)(*map(own, arrays))
