"""Where a campaign's tasks run: workers on this machine, a Dask scheduler at an address, or jobs of a batch system."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import Client, LocalCluster

from batfill.campaign.config import CampaignError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from batfill.campaign.config import ClusterSection, ReadCampaign

CONNECT_S = 5
QUIET = logging.CRITICAL  # a worker that dies is the campaign's to report, or is replaced and no matter
ANY_PORT = "127.0.0.1:0"  # of the page that a scheduler serves in any case; its usual port may be another campaign's


class Workers(NamedTuple):
    """A connection to workers, and what to call them."""

    client: Client
    place: str


def worker_count(*, scheduler: str | None, cluster: ClusterSection | None, workers: int | None) -> int:
    """How many workers there will be; of a scheduler, how many it has now, and 1 where it has none yet.

    Raises:
        CampaignError: there is no scheduler at the address.
    """
    if scheduler is not None:
        with scheduler_at(scheduler) as client:
            return max(len(client.nthreads()), 1)
    if cluster is not None and workers is None:
        return cluster.jobs * cluster.cores
    return workers or len(os.sched_getaffinity(0))


def hush() -> None:
    """Keep Dask's own messages from standard error."""
    for name in ("distributed", "distributed.client"):  # the second has a level of its own
        logging.getLogger(name).setLevel(QUIET)


def scheduler_at(address: str) -> Client:
    """A connection to the scheduler at this address.

    Raises:
        CampaignError: there is none.
    """
    hush()
    try:
        return Client(address, timeout=CONNECT_S)
    except (OSError, ValueError, TimeoutError):
        raise CampaignError(
            f"--scheduler {address}: no Dask scheduler answers there; start one with `dask scheduler`, "
            "and workers with `dask worker ADDRESS`"
        ) from None


@contextmanager
def connect(*, scheduler: str | None, cluster: ClusterSection | None, workers: int | None) -> Iterator[Workers]:
    """Workers by the first of: a scheduler's address, a number of local ones, the campaign's cluster, local ones.

    Raises:
        CampaignError: there is no scheduler at the address, or the cluster's library is not installed.
    """
    if scheduler is not None:
        with scheduler_at(scheduler) as client:
            yield Workers(client, f"the scheduler at {scheduler}")
        return
    hush()
    count = worker_count(scheduler=None, cluster=cluster, workers=workers)
    if cluster is not None and workers is None:
        with batch_cluster(cluster) as jobs:
            jobs.scale(jobs=cluster.jobs)
            with Client(jobs) as client:
                yield Workers(client, f"{cluster.jobs} {cluster.type} jobs")
        return
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=ANY_PORT, worker_dashboard_address=None,
            silence_logs=QUIET,
        ) as local,
        Client(local) as client,
    ):  # fmt: skip
        yield Workers(client, f"{count} on this machine")


def batch_cluster(section: ClusterSection) -> Any:
    """The cluster whose workers are jobs of the batch system; it listens, and has submitted nothing yet.

    Raises:
        CampaignError: dask-jobqueue is not installed, or the network interface is unknown.
    """
    try:
        from dask_jobqueue.oar import OARCluster
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        raise CampaignError(
            "cluster: this needs dask-jobqueue; `pip install 'batfill[cluster]'`, or give --workers to run here"
        ) from None
    options: dict[str, Any] = {
        "cores": section.cores,
        "processes": section.cores,
        "memory": section.memory,
        "walltime": section.walltime,
        "queue": section.queue,
        "interface": section.interface,
        "job_extra_directives": section.directives,
        "job_script_prologue": section.prologue,
        "job_name": "batfill-campaign",
        "silence_logs": QUIET,
        "scheduler_options": {"dashboard_address": ANY_PORT},
    }
    try:
        if section.type == "slurm":
            return SLURMCluster(account=section.project, **options)
        return OARCluster(project=section.project, memory_per_core_property_name="not_applicable", **options)
    except ValueError as error:
        raise CampaignError(f"cluster: {str(error).splitlines()[0]}; mend that section") from None


def job_script(read: ReadCampaign) -> str:
    """The script that would be submitted for one job's workers, without submitting it.

    Raises:
        CampaignError: the campaign has no cluster, or its cluster cannot be used.
    """
    if read.campaign.cluster is None:
        raise CampaignError(f"{read.path}: no `cluster:` in it; add one to have a job script")
    with batch_cluster(read.campaign.cluster) as cluster:
        return str(cluster.job_script())
