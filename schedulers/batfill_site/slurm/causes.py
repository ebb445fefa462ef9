"""What a log may show that a site's files do not say: nodes that were down, earlier usage, and what held jobs back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batfill.base.words import things
from batfill_site.accounting.outages import GRID_S, held, idle_spans
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.site import Window
from batfill_site.slurm.usage import with_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from batfill_site.slurm.site import Site, SlurmJobs

    Rows = NDArray[np.bool_]

IDLE_S = 6 * 3600.0  # that a node runs nothing, while jobs of one node wait for half as long, until it counts as down


class Cause(NamedTuple):
    """What the files do not say, switched on."""

    name: str
    site: Site
    jobs: SlurmJobs
    rows: Rows  # the jobs that are compared
    running: Rows | None = None  # jobs that run when the model begins,
    begin_s: float = -np.inf  # and when that is


def causes(site: Site, jobs: SlurmJobs, rows: Rows) -> Iterator[Cause]:
    """Those of which the log has a trace."""
    if windows := idle_windows(site, jobs):
        name = (
            f"nodes down or reserved, as {things(len(windows), 'time')} they ran nothing while jobs waited (--windows)"
        )
        yield Cause(name, replace(site, windows=(*site.windows, *windows)), jobs, rows)
    if site.settings.weight_fairshare and not any(each.usage for each in site.associations):
        yield Cause("usage before the log, as in its first half-life (--sshare)", as_before(site, jobs), jobs, rows)
    begin_s = float((jobs.started_s + jobs.run_s)[np.isfinite(jobs.started_s)].min())
    running = jobs.started_s < begin_s
    if (rows & ~running).any() and running.any():
        name = f"the beginning of the log: {things(int(running.sum()), 'job')} ran before its first end"
        yield Cause(name, site, jobs, rows & ~running, running, begin_s)
    if jobs.held.any():
        eligible_s = np.where(jobs.held & np.isfinite(jobs.started_s), jobs.started_s, jobs.eligible_s)
        name = f"{things(int(jobs.held.sum()), 'job')} that waited for what is not modelled, such as a reservation"
        yield Cause(name, site, replace(jobs, eligible_s=eligible_s), rows)


def idle_windows(site: Site, jobs: SlurmJobs) -> tuple[Window, ...]:
    """Windows in which all nodes, or some, ran nothing while jobs waited, as the log has it from its first end on.

    What had ended before is not in it, so nodes look idle there.
    """
    there, first_s = np.isfinite(jobs.started_s), float(jobs.submit_s[0])
    begin_s, end_s = jobs.started_s - first_s, jobs.started_s + jobs.run_s - first_s
    eligible_s, part = jobs.eligible_s - first_s, np.array(jobs.partition, object)
    size = sum(node.cpus for node in site.nodes)
    columns = (eligible_s[there], begin_s[there], end_s[there], jobs.cpus[there], part[there].astype(str))
    names, since_s = [node.name for node in site.nodes], end_s[there].min()
    nodes_in = {span: [*names] for span in idle_spans(*columns, size) if span[0] >= since_s}
    at_s = np.arange(0, end_s[there].max() + GRID_S, GRID_S)
    alone = there & (jobs.nodes == 1) & ~jobs.held & np.array([not text for text in jobs.constraint])
    waiting = {}
    for each in site.partitions:
        rows = alone & (part == each.name)
        waiting[each.name] = held(at_s, eligible_s[rows], begin_s[rows], np.ones(int(rows.sum()))) > 0
    rows_of = defaultdict(list)
    for row in np.flatnonzero(there).tolist():
        for name in expand(jobs.ran_on[row]) if jobs.ran_on[row] else ():
            rows_of[name].append(row)
    told = all(jobs.ran_on[row] for row in np.flatnonzero(there))  # where they ran
    for name in names if told else ():
        its = sorted(rows_of[name], key=begin_s.__getitem__)
        wanted = np.any([waiting[each.name] for each in site.partitions if name in each.nodes] or [at_s < 0], axis=0)
        until_s = np.append(begin_s[its], at_s[-1])
        idle_s = np.append(0, np.maximum.accumulate(end_s[its])).clip(since_s), until_s
        waited_s = np.subtract(*(np.interp(each, at_s, np.cumsum(wanted) * GRID_S) for each in idle_s[::-1]))
        down = (idle_s[1] - idle_s[0] >= IDLE_S) & (waited_s >= IDLE_S / 2)
        for span in zip(idle_s[0][down].tolist(), idle_s[1][down].tolist(), strict=True):
            nodes_in.setdefault(span, []).append(name)
    return tuple(Window(tuple(names), first_s + a, first_s + b) for (a, b), names in sorted(nodes_in.items()))


def as_before(site: Site, jobs: SlurmJobs) -> Site:
    """The site if each user has always used what they used in the log's first half-life."""
    half_s, first_s = site.settings.half_life_s, float(jobs.submit_s[0])
    span_s = min(half_s or np.inf, float(jobs.submit_s[-1]) - first_s) or 1.0
    ends_s = np.minimum(jobs.started_s + jobs.run_s, first_s + span_s)
    ran_s = np.maximum(np.nan_to_num(ends_s - jobs.started_s), 0)
    return with_usage(site, jobs, ran_s * (half_s / 0.693 / span_s if half_s else 1.0))
