"""List scheduling without backfilling, as one half of the 2023 regression study compares policies.

Whenever a job is submitted or ends the queue's first job starts, again and again, until one does not fit. Slow and
plain: for windows of some thousand jobs.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from batfill.engine import KILL
from batfill.engine.keys import key_at
from batfill.replay import Schedule

if TYPE_CHECKING:
    from batfill.jobs import JobTable
    from batfill.policies import Policy


def replay_without_backfilling(jobs: JobTable, size: int, policy: Policy) -> Schedule:
    """The schedule of the whole workload; policies see walltimes, jobs run min(p, p~)."""
    key, rise = (column.tolist() for column in policy.lines(jobs.submit_s, jobs.walltime_s, jobs.procs))
    runtime_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    submit_s, walltime_s, procs = jobs.submit_s.tolist(), jobs.walltime_s.tolist(), jobs.procs.tolist()
    start_s = np.full(len(jobs), np.nan)
    waiting: list[tuple[float, float, int]] = []  # heap of (key, r, row); see `head` if keys move
    ends: list[tuple[float, int]] = []
    order: list[int] = []
    free, arrived = size, 0

    def moving_key(now_s: float, row: int) -> float:
        return float(key_at(now_s, key[row], rise[row], submit_s[row], walltime_s[row]))  # type: ignore[no-untyped-call]

    def head(now_s: float) -> int:
        if not policy.moves:
            return 0
        return min(
            range(len(waiting)),
            key=lambda i: (moving_key(now_s, waiting[i][2]), *waiting[i][1:]),
        )

    while ends or arrived < len(jobs):
        next_s = submit_s[arrived] if arrived < len(jobs) else np.inf
        now_s = float(min(ends[0][0], next_s) if ends else next_s)
        while ends and ends[0][0] == now_s:
            free += heapq.heappop(ends)[1]
        while arrived < len(jobs) and submit_s[arrived] == now_s:
            if procs[arrived] <= size:
                heapq.heappush(waiting, (key[arrived], now_s, arrived))
            arrived += 1
        while waiting:
            first = head(now_s)
            row = waiting[first][2]
            if procs[row] > free:
                break
            waiting[first] = waiting[-1]
            waiting.pop()
            heapq.heapify(waiting)
            free -= procs[row]
            start_s[row] = now_s
            order.append(row)
            heapq.heappush(ends, (now_s + float(runtime_s[row]), procs[row]))
    return Schedule(
        jobs=jobs,
        size=size,
        start_s=start_s,
        backfilled=np.zeros(len(jobs), bool),
        kills=np.zeros(0, KILL),
        order=np.array(order, np.int64),
    )
