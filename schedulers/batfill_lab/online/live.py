"""Selects a live cluster's policy after each period, from the jobs of the periods so far."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batfill.base.errors import BatfillError
from batfill.model.jobs import UNKNOWN, Jobs
from batfill.model.options import NO_SMALL, PROCESSORS
from batfill_lab.online.feedback import Past, Site
from batfill_lab.online.selection import BEFORE_S

if TYPE_CHECKING:
    from batfill.live.cluster import Cluster
    from batfill.live.request import Request
    from batfill.model.options import Options
    from batfill_lab.online.selection import Selection

log = logging.getLogger("batfill")


@dataclass
class PresentJob:
    """A job of the current period."""

    request: Request
    start_s: float = math.nan
    end_s: float = math.nan


class PolicyChoice:
    """Selects a cluster's policy after each period from second 0, before the events of the first message after it."""

    def __init__(self, cluster: Cluster, options: Options, selection: Selection) -> None:
        self.cluster = cluster
        self.selector = selection.selector(Site(cluster.size, options.rules))
        self.period_s = selection.period_s
        self.periods = 0  # completed ones
        self.from_s = BEFORE_S
        self.jobs: dict[int, PresentJob] = {}  # by row, those present in the current period
        self.just_ended: list[PresentJob] = []  # in the current message
        self.cluster.change_policy(self.selector.choose())

    @staticmethod
    def check(options: Options) -> None:
        if options.reservation != PROCESSORS:
            raise BatfillError(
                f"option select: its replays reserve processors; leave it or reservation {options.reservation} out"
            )
        if options.rules.planned:
            raise BatfillError(
                "options depth, tested, max-running, calendar, backfill-while, pool, energy-budget: select compares "
                "policies with one reservation, of all jobs, without windows, gates and pools; leave one out"
            )
        if options.small != NO_SMALL or options.learns or options.urgent is not None:
            raise BatfillError("option select: its replays support neither small nor predict nor urgent; leave one out")

    def submitted(self, request: Request) -> None:
        self.jobs[self.cluster.rows[request.name]] = PresentJob(request)

    def ended(self, job: str) -> None:
        """Note a job that ends; call this before the cluster ends it."""
        self.just_ended.append(self.jobs[self.cluster.rows[job]])

    def started(self, job: str, now_s: float) -> None:
        self.jobs[self.cluster.rows[job]].start_s = now_s

    def before_decision(self, now_s: float) -> None:
        """Select the policy for the period of `now_s`."""
        while now_s > (until_s := (self.periods + 1) * self.period_s):
            self.renew(until_s)
        for job in self.just_ended:
            job.end_s = now_s
        self.just_ended.clear()

    def renew(self, until_s: float) -> None:
        before = self.selector.over_budget
        self.cluster.change_policy(self.selector.renew(self.past(until_s)))
        if self.selector.over_budget > before:
            log.warning("the replays of the period to %.0f s took longer than the budget; nothing is learned", until_s)
        self.jobs = {row: job for row, job in self.jobs.items() if math.isnan(job.end_s)}
        self.from_s = until_s
        self.periods += 1

    def past(self, until_s: float) -> Past:
        jobs = sorted(
            (job for job in self.jobs.values() if job.request.submit_s <= until_s),
            key=lambda job: (job.request.submit_s, job.request.name),
        )
        requests = [job.request for job in jobs]
        start_s, end_s = (np.array([getattr(job, name) for job in jobs], np.float64) for name in ("start_s", "end_s"))
        walltime_s = np.array([request.walltime_s for request in requests], np.float64)
        outlives = any(request.expected_s < request.walltime_s for request in requests)
        request_s = np.array([request.expected_s for request in requests], np.float64)
        ended, n = np.isfinite(end_s), len(jobs)
        table = Jobs(
            ids=np.array([request.name for request in requests], object),
            submit_s=np.array([request.submit_s for request in requests], np.float64),
            runtime_s=np.where(ended, end_s - start_s, walltime_s),
            walltime_s=walltime_s,
            request_s=request_s,
            asked=np.isfinite(request_s),
            procs=np.array([request.procs for request in requests], np.int64),
            outlives=outlives,
            user=np.full(n, -1, np.int64),
            job_class=np.full(n, UNKNOWN, np.int8),
            own_end=True,
        )
        return Past(table, start_s, ended, self.from_s, until_s)
