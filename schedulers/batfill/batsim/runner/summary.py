"""The figures of a finished simulation, from the lines of its `_jobs.csv`."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from batfill.batsim.runner.results import JobName
from batfill.metrics import TAU_S, summarize
from batfill.outputs import REJECTED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from batfill.batsim.runner.results import JobRow

ENDED_FROM_OUTSIDE = ("COMPLETED_WALLTIME_REACHED", "COMPLETED_KILLED")
LATER_TRY = re.compile(r"(.+)#(\d+)")  # how a requeued job is called: the job's id, the try's number


def figures_of(rows: Sequence[JobRow], machines: int | None) -> dict[str, float]:
    """The fields of `batfill.metrics.Summary` that Batsim's files tell: not `backfilled`, which they do not say.

    A job that was killed and went back to the queue (`12`, then `12#1`) is one job: its last try is what counts, its
    earlier tries are wasted work.

    Args:
        rows: every job that ended.
        machines: the machine's size; None leaves `utilisation` out.
    """
    names = {row.name for row in rows}
    tries = [(*job_and_try(row.name, names), row) for row in rows]
    last_try = {job: row for job, _, row in sorted(tries, key=itemgetter(1))}
    earlier = [row for job, _, row in tries if last_try[job] is not row]
    ran = [row for row in last_try.values() if row.state != REJECTED]
    figures = summarize(
        size=machines or 1,
        submit_s=np.array([row.submit_s for row in ran], np.float64),
        start_s=np.array([row.start_s for row in ran], np.float64),
        runtime_s=np.array([row.runtime_s for row in ran], np.float64),
        procs=np.array([row.procs for row in ran], np.int64),
        rejected=len(last_try) - len(ran),
        killed=sum(row.state in ENDED_FROM_OUTSIDE for row in ran),
        requeued=len(earlier),
        wasted_proc_s=sum(row.procs * row.runtime_s for row in earlier),
    ).as_dict()
    unknown = {"backfilled"} if machines else {"backfilled", "utilisation"}
    return {name: value for name, value in figures.items() if name not in unknown}


def job_and_try(name: JobName, names: Collection[JobName]) -> tuple[JobName, int]:
    """The job that this line is a try of, and the try's number; 0 for the first."""
    match = LATER_TRY.fullmatch(name.id)
    if match and (first := JobName(name.workload, match[1])) in names:
        return first, int(match[2])
    return name, 0


def figures_as_text(figures: dict[str, float]) -> str:
    """A table to read."""
    f = figures
    rows = [
        ("jobs", f"{f['jobs']:,} ({f['rejected']:,} rejected, {f['killed']:,} killed)"),
        ("makespan", f"{f['makespan_s']:,.0f} s"),
        ("mean wait", f"{f['mean_wait_s']:,.3f} s (longest {f['max_wait_s']:,.0f} s)"),
        ("mean bsld", f"{f['mean_bsld']:,.4f} (tau {TAU_S:g} s)"),
    ]
    if f["requeued"]:
        rows.insert(1, ("requeued", f"{f['requeued']:,} tries killed ({f['wasted']:.2%} of the work)"))
    if "utilisation" in f:
        rows.append(("utilisation", f"{f['utilisation']:.2%}"))
    return "\n".join(f"{name:13}{value}" for name, value in rows)
