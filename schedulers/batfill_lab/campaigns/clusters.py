"""Where a campaign's tasks run: local processes, a Dask scheduler at an address, or jobs of a batch system.

Dask is imported only if a cluster is used.
"""

from __future__ import annotations

import logging
import shutil
import socket
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import MissingExtra, optional, require
from batfill.base.host import cpu_count
from batfill.base.words import duration
from batfill_lab.campaigns.config import CampaignError
from batfill_lab.campaigns.work import one_line, run_task
from batfill_lab.processes import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from distributed import Client, Future

    from batfill_lab.campaigns.config import ClusterSection, ReadCampaign
    from batfill_lab.campaigns.work import Finished, Task

    Outcome = tuple[int, Finished | BaseException]  # of the task at this index
    Outcomes = Generator[list[Outcome]]

CONNECT_S = 5
POLL_S = 0.05
WORKER_LIMIT_S = 3600.0  # without any worker; jobs may wait long in a batch system's queue
REMINDER_S = 60.0
SUBMIT = {"slurm": "sbatch", "oar": "oarsub"}
QUIET = logging.CRITICAL  # the campaign itself reports dead workers, if they are not simply replaced
ANY_PORT = "127.0.0.1:0"  # of the page every scheduler serves; another campaign may occupy the usual port


class Where(NamedTuple):
    """Where to run; the first given wins: a scheduler's address, a number of local workers, the file's cluster."""

    scheduler: str | None = None
    workers: int | None = None
    cluster: ClusterSection | None = None
    limit_s: float | None = None  # how long to wait without any worker; None for WORKER_LIMIT_S

    @property
    def batch(self) -> ClusterSection | None:
        """The batch system's section, if its jobs are the workers."""
        return self.cluster if self.scheduler is None and self.workers is None else None

    @property
    def here(self) -> bool:
        return self.scheduler is None and self.batch is None

    @property
    def patience_s(self) -> float:
        return WORKER_LIMIT_S if self.limit_s is None else self.limit_s

    def check(self) -> None:
        if self.scheduler is not None and self.workers is not None:
            raise CampaignError(
                f"--workers {self.workers} starts workers here and --scheduler {self.scheduler} uses those of a "
                "scheduler; leave one of them out"
            )
        if self.limit_s not in (None, WORKER_LIMIT_S) and self.here:
            raise CampaignError(
                f"--worker-limit {self.limit_s:g}: it does not apply to workers on this machine; leave it out"
            )


class Workers(NamedTuple):
    """Workers, their name, and how to give them tasks."""

    place: str
    run: Callable[[Sequence[Task]], Outcomes]  # yields outcomes as tasks end


def worker_count(where: Where) -> int:
    """The number of workers; for a scheduler, its current number, or 1 if it has none yet."""
    if where.scheduler is not None:
        with scheduler_at(where.scheduler) as client:
            return max(len(client.nthreads()), 1)
    if where.batch is not None:
        return where.batch.jobs * where.batch.cores
    return where.workers or cpu_count()


@contextmanager
def connect(where: Where, say: Callable[[str], None]) -> Iterator[Workers]:
    """The workers, for the duration of the block; `say` prints a line while there is no worker yet."""
    limit_s = where.patience_s
    if where.scheduler is not None:
        with scheduler_at(where.scheduler) as client:
            place = f"the scheduler at {where.scheduler}"
            yield Workers(place, lambda tasks: on_cluster(client, tasks, place, limit_s, say))
    elif (section := where.batch) is not None:
        from distributed import Client

        with submitted(section, limit_s) as cluster, Client(cluster) as client:
            place = f"{section.jobs} {section.type} job{'s' * (section.jobs != 1)}"
            yield Workers(place, lambda tasks: on_cluster(client, tasks, place, limit_s, say))
    else:
        count = worker_count(where)
        yield Workers(f"{count} on this machine", lambda tasks: on_this_machine(tasks, count))


def on_this_machine(tasks: Sequence[Task], count: int) -> Outcomes:
    with closing(spread(run_task, tasks, count)) as answers:
        for answer in answers:
            yield [answer]


# Dask


def hush() -> None:
    """Keep messages of Dask and its dependencies off standard error."""
    for name in ("distributed", "distributed.client", "tornado", "asyncio"):  # the second has its own level
        logging.getLogger(name).setLevel(QUIET)


def scheduler_at(address: str) -> Client:
    distributed = optional("distributed", "cluster")
    hush()
    try:
        client: Client = distributed.Client(address, timeout=CONNECT_S)
        return client
    except (OSError, ValueError, TimeoutError):
        raise CampaignError(
            f"--scheduler {address}: no Dask scheduler answers there; start one with `dask scheduler`, "
            "and workers with `dask worker ADDRESS`"
        ) from None


class NoWorkers(Exception):  # noqa: N818 - the name says what is wrong
    """A scheduler or cluster was without workers for too long."""


def on_cluster(
    client: Client, tasks: Sequence[Task], place: str, limit_s: float, say: Callable[[str], None]
) -> Outcomes:
    """Run the tasks on Dask's workers, and yield the outcomes; NoWorkers if there is none for `limit_s`, at any time.

    `place`: the workers' name in messages. `say` prints a line from time to time while there is none.
    """
    from distributed import as_completed

    futures = client.map(run_task, list(tasks), pure=False)
    places = {future.key: i for i, future in enumerate(futures)}
    completed = as_completed(futures)
    absence = Absence(place, limit_s, say)
    del futures
    while not completed.is_empty():
        if completed.has_ready():
            yield [(places[future.key], outcome_of(future)) for future in completed.next_batch(block=False)]
        else:
            absence.note(present=has_workers(client), now_s=time.monotonic())
            time.sleep(POLL_S)


def outcome_of(future: Future[Any]) -> Finished | BaseException:
    """The outcome of a task; releases its future."""
    try:
        if future.status == "finished":
            done: Finished = future.result()
            return done
        if future.status == "cancelled":
            return ConnectionError("the scheduler went away")
        error = future.exception()
        assert isinstance(error, BaseException)
        return error
    finally:
        future.release()


def has_workers(client: Client) -> bool:
    """Whether the scheduler has a worker; True if it does not answer, since a lost scheduler is detected elsewhere."""
    try:
        return client.status != "running" or bool(client.scheduler_info().get("workers"))
    except (OSError, TimeoutError):
        return True


class Absence:
    """Tracks how long there has been no worker; reports it each minute, and stops when the limit is reached."""

    def __init__(self, place: str, limit_s: float, say: Callable[[str], None]) -> None:
        self.place, self.limit_s, self.say = place, limit_s, say
        self.since_s: float | None = None
        self.reported_s = 0.0

    def note(self, *, present: bool, now_s: float) -> None:
        """Record whether there is a worker now; NoWorkers if there has been none for longer than the limit."""
        if present:
            self.since_s = None
            return
        if self.since_s is None:
            self.since_s = self.reported_s = now_s
        absent_s = now_s - self.since_s
        if absent_s >= self.limit_s:
            raise NoWorkers(f"{self.place}: no worker for {duration(absent_s)}, see --worker-limit")
        if now_s - self.reported_s >= REMINDER_S:
            self.reported_s = now_s
            self.say(f"{self.place}: no worker for {duration(absent_s)}; waiting up to {duration(self.limit_s)}")


# Batch systems


def job_class(section: ClusterSection) -> Any:
    try:
        require("cluster", "dask_jobqueue", "distributed")
    except MissingExtra as error:
        raise CampaignError(f"cluster: this {error}, or give --workers to run here") from None
    from dask_jobqueue.oar import OARJob
    from dask_jobqueue.slurm import SLURMJob

    return SLURMJob if section.type == "slurm" else OARJob


def job_options(section: ClusterSection) -> dict[str, Any]:
    return {
        "cores": section.cores,
        "processes": section.cores,
        "memory": section.memory,
        "walltime": section.walltime,
        "queue": section.queue,
        "interface": section.interface,
        "job_extra_directives": section.directives,
        "job_script_prologue": section.prologue,
        "job_name": "batfill-campaign",
        **(
            {"account": section.project}
            if section.type == "slurm"
            else {"project": section.project, "memory_per_core_property_name": "not_applicable"}
        ),
    }


def job_script(read: ReadCampaign) -> str:
    """The script that would be submitted for one job's workers; needs neither the batch system nor its network."""
    section = read.campaign.cluster
    if section is None:
        raise CampaignError(f"{read.path}: no `cluster:` in it; add one to get a job script")
    job = job_class(section)("tcp://SCHEDULER:PORT", name="batfill-campaign-0", **job_options(section))
    return str(job.job_script())


def require_usable(section: ClusterSection) -> None:
    """Refuse a batch system that is unusable from this machine, before any work."""
    job_class(section)
    command = SUBMIT[section.type]
    if shutil.which(command) is None:
        raise CampaignError(
            f"cluster: type {section.type} submits with `{command}`, which is not on PATH here; run this on a machine "
            "that submits to the cluster, or give --workers N to run here"
        )
    names = [name for _, name in socket.if_nameindex()]
    if section.interface is not None and section.interface not in names:
        raise CampaignError(
            f"cluster: interface {section.interface!r} is not one of this machine's ({', '.join(names)}); "
            "correct `interface:`"
        )


@contextmanager
def submitted(section: ClusterSection, limit_s: float) -> Iterator[Any]:
    """A cluster with every job accepted by the batch system; its jobs end with the block."""
    from dask_jobqueue.core import JobQueueCluster
    from distributed import Status

    hush()
    accepted: list[str] = []
    refused: list[str] = []
    usual: Any = job_class(section)

    class Watched(usual):  # type: ignore[misc]  # the base class is known only at run time
        async def start(self) -> None:
            try:
                await super().start()
                accepted.append(self.job_id)
            except (OSError, RuntimeError, ValueError) as error:
                self.status = Status.failed  # otherwise the cluster does not close
                refused.append(refusal(error))
                raise

        async def close(self) -> None:
            await super().close()
            self.status = Status.closed

    kind: Any = Watched
    try:
        cluster = JobQueueCluster(
            job_cls=kind,
            silence_logs=QUIET,
            scheduler_options={"dashboard_address": ANY_PORT},
            **job_options(section),
        )
    except (RuntimeError, ValueError) as error:
        raise CampaignError(f"cluster: {' '.join(str(error).split())}; correct that section") from None
    with cluster:
        cluster.scale(jobs=section.jobs)
        until_s = time.monotonic() + limit_s
        while len(accepted) + len(refused) < section.jobs:
            if time.monotonic() > until_s:
                raise CampaignError(
                    f"cluster: `{SUBMIT[section.type]}` has not answered for {duration(limit_s)}; see whether "
                    "the batch system is up, or give a longer --worker-limit"
                )
            time.sleep(POLL_S)
        if refused:
            raise CampaignError(
                f"cluster: `{SUBMIT[section.type]}` refused {len(refused)} of {section.jobs} jobs "
                f"({refused[0]}); correct that section, and see the script with --job-script"
            )
        yield cluster


def refusal(error: Exception) -> str:
    """The batch system's refusal of a job: its exit status and message, if the error has them."""
    lines = [line.strip() for line in str(error).splitlines()]
    if "Exit code:" not in str(error):
        return one_line(error)
    status = next(line.removeprefix("Exit code:").strip() for line in lines if line.startswith("Exit code:"))
    message = " ".join(line for line in lines[lines.index("stderr:") + 1 :] if line) if "stderr:" in lines else ""
    return f"exit status {status}{f': {message[:200]}' * bool(message)}"
