"""The groups of jobs by which answers are told: partition, QOS, account, GPUs, width and run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from batfill.model.metrics import RUNTIME_BINS, width_bins
from batfill_pages.comparison import FEWEST_JOBS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from batfill_site.slurm.site import SlurmJobs

USER, OTHERS = "user", "(others)"


def kinds(jobs: SlurmJobs, cpus: int) -> Iterator[tuple[str, list[str], NDArray[np.int64]]]:
    """What jobs are grouped by, the groups' names, and the group of each job, (jobs,)."""
    yield "", ["all"], np.zeros(len(jobs), np.int64)
    gpus = ["with GPUs" if number else "without GPUs" for number in jobs.gpus_per_node.tolist()]
    for by, names in (("partition", jobs.partition), ("QOS", jobs.qos), ("account", jobs.account), ("jobs", gpus)):
        found, group, count = np.unique(np.array(names, object), return_inverse=True, return_counts=True)
        order = np.argsort(-count, kind="stable")
        if len(found) > 1:
            yield by, [str(found[k]) or "not known" for k in order], np.argsort(order)[group]
    for by, bins, values in (("CPUs", width_bins(cpus), jobs.cpus), ("ran for", RUNTIME_BINS, jobs.run_s)):
        held = [(one.name, rows) for one in bins if (rows := one.holds(values)).any()]
        if len(held) > 1:
            yield by, [name for name, _ in held], np.argmax([rows for _, rows in held], axis=0)


def by_group(values: NDArray[np.float64], group: NDArray[np.int64], function: np.ufunc) -> NDArray[np.float64]:
    """The mean, or the most, of each group in each run, (runs, groups), of values (runs, jobs)."""
    order, jobs = np.argsort(group, kind="stable"), np.bincount(group)
    found: NDArray[np.float64] = function.reduceat(values[:, order], np.cumsum(jobs) - jobs, axis=1)
    return found / jobs if function is np.add else found


def users(jobs: SlurmJobs) -> Iterator[tuple[str, list[str], NDArray[np.int64]]]:
    """Those with `FEWEST_JOBS` jobs, as one of the `kinds`, the jobs of others in a last group; nothing without any."""
    names, user, count = np.unique(np.array(jobs.user, object), return_inverse=True, return_counts=True)
    counted = (count >= FEWEST_JOBS) & (names != "")
    order = [k for k in np.argsort(-count, kind="stable").tolist() if counted[k]]
    group = np.full(len(names), len(order))
    group[order] = np.arange(len(order))
    if order:
        yield USER, [*(str(names[k]) for k in order), *([] if counted.all() else [OTHERS])], group[user]
