"""How long a job would wait if it were submitted now: for a simulator that asks, and changes nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from batfill.learn import Judgement
    from batfill.live.cluster import Cluster
    from batfill.live.request import Request


def wait_s(cluster: Cluster, request: Request, judgement: Judgement, now_s: float) -> float:
    """The seconds until the job would start, if none comes after it; inf if it would never start.

    A kept plan says where it would place the job. Else a copy of the cluster, on which no job may be killed, runs on
    with each job for as long as is expected: a job that has outlived this ends at once.

    Args:
        cluster: as the decision at `now_s` has left it.
        request: of a job that fits the cluster; its name may be in use.
        judgement: what is expected of it.
        now_s: the date.
    """
    if cluster.plan is not None:
        return cluster.plan.wait_s(request, now_s)
    ahead, date_s = cluster.fork(), now_s
    job = f"{request.name}?"
    ahead.submit(request._replace(name=job), judgement)
    while date_s < math.inf:
        if any(start.job == job for start in ahead.decide(date_s)):
            return date_s - now_s
        running = ahead.queue.running
        end_s = max(float(running["end_s"][0]), date_s) if len(running) else math.inf
        date_s = ahead.queue.next_change_s(end_s)
        ahead.queue.pay(date_s)
        for row in running["row"][running["end_s"] <= date_s].tolist():
            ahead.end(ahead.placed[row].name)
    return math.inf
