"""Workloads: reading and writing logs, and preparing them for a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.model.jobs import Cancelled, Jobs, Overrun, Unrequested
    from batfill.workloads.generate import Kind, Requests


def read_workload(
    path: str | Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
    timezone: str | None = None,
    cores_per_resource: int | None = None,
    speed: float | str | None = None,
) -> Jobs:
    """Read a workload: SWF, Batsim JSON, a table of `to_csv`, or accounting of Slurm, OAR or PBS.

    The content decides the format; all may be compressed (.gz, .xz, .bz2). A data frame also works if it
    has columns as those of `Jobs.to_pandas`: submit_s (or dates), runtime_s, walltime_s and procs at least.

    Args:
        path: the file, or the frame.
        procs: the machine's size in processors; by default the file's, and for accounting the most processors seen in
            use at once.
        overrun: for jobs of a log that ran longer than requested: "keep" (the default) their run time and raise the
            request to it, "kill" them at their request, or "extend" their run past the request, which the scheduler
            reads. Batsim JSON has its walltimes, made with one of these.
        unrequested: what stands in for a request that the log does not have, the user's request being unknown:
            "runtime", which is clairvoyant; "none": no limit; a number of seconds; "queue": the longest request of the
            queue's jobs, else the header's MaxRuntime; "user-max": the longest run time of the user's jobs that had
            ended by the submission, else of anyone's, else no limit (a job ends at submission + wait + run time, an
            unknown wait being 0). Jobs that run longer than that fall under `overrun`. "refuse", the default except for
            generated logs, which have "runtime": as "runtime", but replays refuse the workload if more than 1 % of its
            jobs lack a request. Batsim JSON has its walltimes, made with one of these.
        cancelled: of rows that were cancelled while they waited: "drop" (the default) leaves them out, "wait" makes
            jobs of them, which leave the queue when they did at the site. For SWF and accounting only.
        timezone: for accounting: the cluster's time zone, such as "Europe/Paris"; UTC by default.
        cores_per_resource: for OAR's accounting: the processors of one resource; 1 by default.
        speed: for Batsim JSON: the hosts' speed in operations per second, as 1e9 or "1Gf"; jobs that compute need it.

    Raises:
        WorkloadError: the file has no such format or is damaged, an argument does nothing for this format, or the log
            has nothing that could stand in for a request.

    Examples:
        >>> read_workload("workloads/sample.json")
        workload     sample.json
        machine      64 processors
        jobs         800 of 12 users
        submitted    over 4 d 1 h
    """
    from pathlib import Path
    from typing import get_args

    from batfill.base.errors import WorkloadError
    from batfill.base.files import path_of
    from batfill.model.jobs import Cancelled, checked_size, is_frame, workload_of_frame
    from batfill.model.values import speed_given, unrequested_of
    from batfill.workloads.formats import read_file

    if procs is not None:
        procs = checked_size(path if isinstance(path, (str, Path)) else "the data frame", procs)
    unrequested = None if unrequested is None else cast("Unrequested", unrequested_of("unrequested", unrequested))
    if not isinstance(overrun, str | None):
        raise WorkloadError(f"overrun: {overrun!r:.60} is none of keep, kill, extend; choose one")
    if cancelled not in (None, *get_args(Cancelled)):
        raise WorkloadError(f"cancelled: {cancelled!r:.60} is none of {', '.join(get_args(Cancelled))}; choose one")
    if is_frame(path):
        of_files: dict[str, object] = {"overrun": overrun, "cancelled": cancelled, "timezone": timezone}
        of_files |= {"cores_per_resource": cores_per_resource, "speed": speed}
        for name, value in of_files.items():
            if value is not None:
                raise WorkloadError(f"the data frame: {name} applies to files only; leave it out")
        return workload_of_frame(path, procs, unrequested)
    speed = None if speed is None else speed_given("speed", speed)
    workload = read_file(
        path_of(path),
        procs=procs,
        overrun=overrun,
        unrequested=unrequested,
        cancelled=cancelled,
        timezone=timezone,
        cores_per_resource=cores_per_resource,
        speed=speed,
    )
    if speed is not None and workload.speed is None:
        return workload.stating(notes=(*workload.notes, "no job computes, so the hosts' speed does nothing"))
    return workload


def opened(
    log: Jobs | str | Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    cancelled: Cancelled | None = None,
    speed: float | str | None = None,
) -> tuple[Jobs, int]:
    """The workload to replay, with its machine's size, read if `log` is a file, and not yet by `read_once`."""
    from batfill.base.errors import WorkloadError
    from batfill.model.jobs import Jobs, checked_size, refuse_unrequested
    from batfill.model.values import speed_given, unrequested_of

    if isinstance(log, Jobs):
        workload = log.stating(log=None, size=log.size if procs is None else checked_size(log.name, procs))
        chosen = None if unrequested is None else unrequested_of("unrequested", unrequested)
        for name, given, was in (
            ("overrun", overrun, log.overrun),
            ("unrequested", chosen, log.unrequested),
            ("cancelled", cancelled, log.cancelled),
            ("speed", None if speed is None else speed_given("speed", speed), log.speed),
        ):
            if given is not None and (not isinstance(given, str | int | float) or given != was):
                raise WorkloadError(f"{log.name}: was read with {name} {was}; read it with {name} {given}")
    else:
        workload = read_workload(
            log, procs=procs, overrun=overrun, unrequested=unrequested, cancelled=cancelled, speed=speed
        )
    jobs = workload.jobs
    refuse_unrequested(workload.where, int(jobs.invented.sum()), len(jobs), workload.unrequested)
    if workload.size is None:
        raise WorkloadError(f"{workload.where}: does not say how many processors the machine has; give --procs N")
    return workload, workload.size


def generate_workload(
    jobs: int = 10_000,
    procs: int = 256,
    seed: int = 0,
    *,
    kind: Kind = "all",
    users: int = 64,
    requests: Requests = "tsafrir",
    longest_request_s: float | None = None,
    interarrival: float = 1.0,
    load: float | None = None,
) -> Jobs:
    """Generate a workload by the Lublin-Feitelson model; equal arguments give equal workloads.

    Args:
        jobs: number of jobs.
        procs: the machine's size.
        seed: seed of all random draws.
        kind: the model's parameters: one set ("all"), batch and interactive jobs merged ("both"), or one of the two.
        users: number of synthetic users.
        requests: requested times: Tsafrir's model, exactly the run times ("exact"), or none ("none").
        longest_request_s: the longest request; by default the longest run time, rounded up to hours.
        interarrival: factor on the times between submissions.
        load: the offered load to reach by stretching these times instead.

    Raises:
        WorkloadError: a number is out of range.

    Examples:
        >>> len(generate_workload(jobs=100, procs=64, seed=1))
        100
    """
    from typing import get_args

    from batfill.model.values import number_from, one_of, seconds_of, seed_of
    from batfill.workloads.generate import Kind, Requests, generate_log
    from batfill.workloads.swf import workload_of

    jobs, procs, users = (number_from(*given) for given in (("jobs", jobs), ("procs", procs), ("users", users)))
    seed = seed_of("seed", seed)
    one_of("kind", kind, get_args(Kind))
    one_of("requests", requests, get_args(Requests))
    interarrival = seconds_of("interarrival", interarrival, least=1e-9)
    load = None if load is None else seconds_of("load", load, least=1e-9)
    longest_request_s = None if longest_request_s is None else seconds_of("longest_request_s", longest_request_s)
    log = generate_log(
        jobs,
        procs,
        seed,
        kind=kind,
        users=users,
        requests=requests,
        longest_request_s=longest_request_s,
        interarrival=interarrival,
        load=load,
    )
    return workload_of(f"lublin-{jobs}-jobs-{procs}-procs-seed-{seed}", log, procs=procs)
