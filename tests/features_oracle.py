"""What an agent sees, computed from the documented formulas in plain Python."""

from __future__ import annotations

import math

HOUR_S = 3600


def features(now_s, size, free, ends, jobs, waiting, visible, shadow_s, extra):
    """Those of each visible job and of the cluster, both in the order of their tables.

    Args:
        now_s: the present.
        size: m.
        free: the idle processors.
        ends: (expected end, q) of each running job.
        jobs: (r, p~, q, whether its start would not delay the first) of each visible job.
        waiting: how many jobs wait.
        visible: the most visible jobs.
        shadow_s: the first job's shadow time, now if it fits.
        extra: the processors spare then.
    """
    of_jobs, work = [], 0.0
    for submit_s, request_s, q, safe in jobs:
        wait_s, p = now_s - submit_s, min(max(request_s, 1), 1e12)
        work += p * q
        of_jobs.append(
            [
                math.log2(1 + wait_s / 60) / 16,
                math.log2(1 + wait_s / (10 * HOUR_S)) / 8,
                wait_s / (wait_s + p),
                math.log2(p) / 20,
                math.log2(q) / math.log2(size) if size > 1 else 0.0,
                q / size,
                math.log2(p) / 20 * q / size,
                float(q <= free),
                float(safe),
            ]
        )
    free_1h, free_8h = (free + sum(q for end_s, q in ends if end_s <= now_s + hours * HOUR_S) for hours in (1, 8))
    ahead_s = shadow_s - now_s
    return of_jobs, [
        free / size,
        free_1h / size,
        free_8h / size,
        waiting / (waiting + visible),
        work / (work + size * 24 * HOUR_S),
        ahead_s / (ahead_s + HOUR_S),
        extra / size,
    ]
