"""The jobs and profiles of a simulation, from the workloads and from the scheduler's registrations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson

from batfill.base.errors import WorkloadError
from batfill.batsim_files.results import NOT_MEASURED, JobRecord
from batfill.model.states import FAILED, KILLED, SUCCESS, WALLTIME_REACHED
from batfill.workloads.batsim_json import (
    NO_WALLTIME,
    UNWRITABLE,
    check_job,
    check_profile,
    composed_task,
    name_in,
    needed_profiles,
    plain_task,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batfill.batsim_files.machines import MachineSet
    from batfill.workloads.batsim_json import BatsimDocument, ProfileTask

NOT_SUBMITTED, SUBMITTED, RUNNING = "NOT_SUBMITTED", "SUBMITTED", "RUNNING"
# The final states that a scheduler may declare for a job it runs itself.
COMPLETED_BY_HAND = (SUCCESS, FAILED, WALLTIME_REACHED, KILLED)


class SimulatedJob:
    """A job, from its description to its end. Times are seconds."""

    __slots__ = (
        "id", "id_json", "kill_requested", "machines", "metadata", "name", "profile", "profile_raw", "raw", "res",
        "start_date", "state", "subtime", "task", "walltime", "workload",
    )  # fmt: skip

    def __init__(self, workload: str, raw: dict[str, Any], profile: dict[str, Any], task: ProfileTask) -> None:
        self.workload = workload
        self.id = full_id(workload, raw["id"])  # "w0!12"
        self.name = self.id.removeprefix(f"{workload}!")
        self.id_json = orjson.dumps(self.id)
        self.raw = raw
        self.subtime = float(raw["subtime"])
        self.walltime = float(raw.get("walltime", NO_WALLTIME))
        self.res: int = raw["res"]
        self.profile: str = raw["profile"]
        # A job keeps its profile, even if the name is dropped before it starts.
        self.profile_raw = profile
        self.task = task
        self.state = NOT_SUBMITTED
        self.kill_requested = False
        self.metadata = ""
        self.machines: MachineSet | None = None
        self.start_date = 0.0

    def outcome(self) -> tuple[float, str, int]:
        """How it ends if it is not killed: (execution time, final state, return code)."""
        task = self.task
        if 0 <= self.walltime < task.run_s or (self.walltime == task.run_s and not task.ends_computing):
            return self.walltime, WALLTIME_REACHED, -1
        return task.run_s, FAILED if task.ret else SUCCESS, task.ret

    def record(self, execution_s: float = 0.0, joules: float = NOT_MEASURED) -> JobRecord:
        return JobRecord(
            job_id=self.name,
            workload_name=self.workload,
            profile=self.profile,
            submission_time=self.subtime,
            requested_number_of_resources=self.res,
            requested_time=self.walltime,
            final_state=self.state,
            starting_time=self.start_date,
            execution_time=execution_s,
            allocated_resources=self.machines.text if self.machines else "",
            consumed_energy=joules,
            metadata=self.metadata,
        )


class Catalogue:
    """Every known job and profile, by workload.

    Like Batsim it drops profiles: at once those that no job of their file uses, itself or as a part of a sequence, and,
    unless profiles may be reused, a job's profile when the first job of this profile ends. A name is never free again.
    `speed`: that of the hosts, for jobs that compute; None if it differs, or jobs share hosts.
    """

    def __init__(
        self,
        documents: dict[str, BatsimDocument],
        *,
        reuse_profiles: bool,
        speed: float | None,
    ) -> None:
        self._speed = speed
        self._reuse_profiles = reuse_profiles
        self._profiles: dict[str, dict[str, dict[str, Any] | None]] = {}
        self._tasks: dict[str, dict[str, ProfileTask]] = {}  # those of dropped profiles too
        self._jobs: dict[str, SimulatedJob | None] = {}
        # The workloads' jobs, workload by workload, each in submission order: (date, id as a string).
        self.static_jobs: list[SimulatedJob] = []
        self.registered = 0  # jobs that the scheduler made
        for workload, document in documents.items():
            profiles, tasks = document.profiles, document.tasks()
            used = needed_profiles(document.jobs, profiles)
            self._profiles[workload] = {name: p if name in used else None for name, p in profiles.items()}
            self._tasks[workload] = tasks
            jobs = [
                SimulatedJob(workload, raw, profiles[raw["profile"]], self._timed(tasks[raw["profile"]], workload, raw))
                for raw in document.jobs
            ]
            jobs.sort(key=lambda job: (job.subtime, job.id))
            self.static_jobs += jobs
            self._jobs.update((job.id, job) for job in jobs)
        if len(self._jobs) < len(self.static_jobs):
            twice = next(job_id for job_id, n in Counter(job.id for job in self.static_jobs).items() if n > 1)
            raise WorkloadError(f"job {twice!r} occurs twice, with and without its workload's name; rename one")

    @property
    def profiles(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {w: {name: p for name, p in known.items() if p is not None} for w, known in self._profiles.items()}

    def __getitem__(self, job_id: str) -> SimulatedJob:
        if job_id not in self._jobs:
            raise WorkloadError(f"job {job_id!r} does not exist")
        if (job := self._jobs[job_id]) is None:
            raise WorkloadError(f"job {job_id!r} has ended")
        return job

    def unfinished(self) -> Iterable[SimulatedJob]:
        return (job for job in self._jobs.values() if job and job.state in (NOT_SUBMITTED, SUBMITTED, RUNNING))

    def register_profile(self, workload: str, name: str, profile: dict[str, Any]) -> None:
        if not workload or "!" in workload or UNWRITABLE.search(workload):
            raise WorkloadError(f"{workload!r} cannot be a workload's name; use letters and digits")
        profiles, tasks = self._profiles.setdefault(workload, {}), self._tasks.setdefault(workload, {})
        if name in profiles:
            raise WorkloadError(f"profile {name!r} of workload {workload!r} exists or existed before; use a new name")
        where = f"profile {name!r}"
        check_profile(where, profile, profiles)
        if profile["type"] == "composed":
            for part in profile["seq"]:
                self._must_remain(where, part, profiles[part])
            tasks[name] = composed_task(where, name, profile, tasks)
        elif profile.get("delay") == 0:
            raise WorkloadError(f"{where}.delay: 0 is not above 0, as Batsim requires; give the run time in seconds")
        else:
            tasks[name] = plain_task(name, profile)
        profiles[name] = profile

    def _timed(self, task: ProfileTask, workload: str, raw: dict[str, Any]) -> ProfileTask:
        where = f"job {full_id(workload, raw['id'])!r}"
        if task.computes and self._speed is None:
            raise WorkloadError(
                f"{where}: profile {task.profile!r} computes, and hosts are shared, or differ in their speeds; it runs "
                "under Batsim only"
            )
        task = task.on(where, raw["res"], self._speed)
        task.require_end(where, raw.get("walltime", NO_WALLTIME))
        return task

    def register_job(self, job_id: str, raw: dict[str, Any]) -> SimulatedJob:
        workload = job_id.partition("!")[0]
        if workload not in self._profiles:
            raise WorkloadError(f"job {job_id!r} belongs to no known workload; known: {', '.join(self._profiles)}")
        name_in(f"job {job_id!r}", job_id, workload)
        if job_id in self._jobs:
            raise WorkloadError(f"job {job_id!r} exists or existed before; use a new id")
        known = self._profiles[workload]
        check_job(f"job {job_id!r}", raw, known)
        if full_id(workload, raw["id"]) != job_id:
            raise WorkloadError(f"job {job_id!r} is called {raw['id']!r} in its description; use one name")
        profile = self._must_remain(f"job {job_id!r}", raw["profile"], known[raw["profile"]])
        task = self._timed(self._tasks[workload][raw["profile"]], workload, raw)
        job = self._jobs[job_id] = SimulatedJob(workload, raw, profile, task)
        self.registered += 1
        return job

    def forget(self, job: SimulatedJob) -> None:
        """Drop a job whose end the scheduler knows or decided, and its profile unless profiles are reused."""
        self._jobs[job.id] = None
        if not self._reuse_profiles:
            self._profiles[job.workload][job.profile] = None

    def _must_remain(self, where: str, name: str, profile: dict[str, Any] | None) -> dict[str, Any]:
        """The profile, if it was not dropped; `where` begins the message."""
        if profile is None:
            raise WorkloadError(
                f"{where}: profile {name!r} was dropped when a job that used it ended, or never used;"
                " register another profile, or run with --enable-profile-reuse"
            )
        return profile


def full_id(workload: str, identifier: str | int) -> str:
    text = str(identifier)
    return text if text.startswith(f"{workload}!") else f"{workload}!{text}"
