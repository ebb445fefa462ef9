"""A whole synthetic log: the Lublin-Feitelson jobs, users who submit them, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from batfill import __version__
from batfill.errors import WorkloadError
from batfill.workloads import lublin
from batfill.workloads.estimates import estimates
from batfill.workloads.scaling import at_load, stretch
from batfill.workloads.swf_log import COMPLETED, SwfLog, new_log

if TYPE_CHECKING:
    from numpy.typing import NDArray

SESSION = 0.5  # chance that the next job comes from the user of the last one
Requests = Literal["tsafrir", "exact", "none"]


def generate_log(
    n_jobs: int,
    procs: int,
    seed: int,
    *,
    kind: lublin.Kind = "all",
    users: int = 64,
    requests: Requests = "tsafrir",
    longest_request_s: float | None = None,
    interarrival: float = 1.0,
    load: float | None = None,
) -> SwfLog:
    """A log of `n_jobs` jobs for a machine of `procs` processors; equal arguments give equal logs.

    Jobs, users and requests draw from streams of their own, so that changing one option leaves the others' draws alone.

    Args:
        n_jobs: how many jobs.
        procs: the machine's size.
        seed: of all randomness.
        kind: which parameters of the model; batch jobs get queue 1, interactive ones queue 0.
        users: how many users submit.
        requests: "tsafrir" models what users ask for, "exact" is the run time, "none" leaves it unknown.
        longest_request_s: the longest request allowed; see `estimates`.
        interarrival: times between submissions are multiplied by this.
        load: if given, they are stretched to this offered load instead.

    Raises:
        WorkloadError: a number is out of range.
    """
    if users < 1:
        raise WorkloadError(f"{users} users; there must be one at least")
    of_jobs, of_users, of_requests = np.random.default_rng(seed).spawn(3)
    jobs = lublin.generate(n_jobs, procs, of_jobs, kind=kind)
    columns: dict[str, NDArray[np.float64]] = {
        "job": np.arange(1.0, n_jobs + 1),
        "submit_s": jobs.submit_s,
        "runtime_s": jobs.runtime_s,
        "procs": jobs.procs.astype(np.float64),
        "requested_procs": jobs.procs.astype(np.float64),
        "status": np.full(n_jobs, float(COMPLETED)),
        "user": synthetic_users(n_jobs, users, of_users),
    }
    if kind != "all":
        columns["queue"] = np.full(n_jobs, 1.0) if kind == "batch" else jobs.kind.astype(np.float64)
    asked = ""
    if requests == "exact":
        columns["requested_s"] = jobs.runtime_s
        asked = "Note: requested times are the run times"
    elif requests == "tsafrir":
        columns["requested_s"], raised = estimates(jobs.runtime_s, of_requests, longest_s=longest_request_s)
        asked = f"Note: requested times by Tsafrir's model (2005), {raised} of them raised to the longest to fit"
    log = new_log((), columns)
    factor = interarrival
    if load is not None:
        log, factor = at_load(log, procs, load)
    elif interarrival != 1:
        log = stretch(log, interarrival)
    header = [
        "Version: 2.2",
        f"Computer: synthetic, {procs} processors",
        "Information: Lublin-Feitelson model of rigid jobs (2003)",
        f"MaxJobs: {n_jobs}",
        f"MaxRecords: {n_jobs}",
        f"MaxNodes: {procs}",
        f"MaxProcs: {procs}",
        f"Note: made by batfill {__version__} workload generate, seed {seed}, kind {kind}, {users} users",
        f"Note: times between submissions multiplied by {factor:.6g}",
        *([asked] if asked else []),
    ]
    return new_log(header, {name: log[name] for name in columns})


def synthetic_users(n_jobs: int, users: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A user for each job: the k-th submits in proportion to 1 / k, and half of the jobs follow one of the same user.

    A device, not a published model: it gives per-user methods an unequal, bursty population to work on.
    """
    weight = 1 / np.arange(1, users + 1)
    drawn = (1 + rng.choice(users, size=n_jobs, p=weight / weight.sum())).astype(np.float64)
    stays = rng.random(n_jobs) < SESSION
    stays[0] = False
    return drawn[np.maximum.accumulate(np.where(stays, 0, np.arange(n_jobs)))]
