"""What a scheduler may decide: one function per type of event, and what each refuses.

A decision that Batsim would abort on raises WorkloadError with the reason; the simulation adds the date and stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.batsim.catalogue import COMPLETED_BY_HAND, NOT_SUBMITTED, RUNNING, SUBMITTED, Job
from batfill.batsim.machines import machine_set
from batfill.errors import WorkloadError
from batfill.outputs import REJECTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.batsim.simulation import Simulation

    Data = dict[str, Any]


def execute_job(simulation: Simulation, data: Data) -> None:
    """Start a job on the machines given."""
    job = _job(simulation, data, SUBMITTED, "start")
    for field in ("storage_mapping", "additional_io_job"):
        if field in data:
            raise WorkloadError(f"job {job.id!r} has a {field}, which delay profiles have no use for; leave it out")
    try:
        machines = machine_set(_text(data, "alloc"), simulation.machines.size)
    except ValueError as error:
        raise WorkloadError(f"job {job.id!r}: {error}") from None
    if why_not := simulation.machines.obstacle(machines):
        raise WorkloadError(f"job {job.id!r} cannot start on {machines.text}: {why_not}")
    given = _executors(job, data["mapping"], machines.size) if "mapping" in data else machines.size
    if given != job.res:
        raise WorkloadError(f"job {job.id!r} asks for {job.res} machines and is given {given} ({machines.text})")
    simulation.start(job, machines)


def reject_job(simulation: Simulation, data: Data) -> None:
    """Refuse a waiting job."""
    simulation.conclude(_job(simulation, data, SUBMITTED, "be rejected"), REJECTED)


def kill_job(simulation: Simulation, data: Data) -> None:
    """End jobs that run; one that has just ended by itself is only acknowledged."""
    asked = data.get("job_ids")
    if not isinstance(asked, list) or not asked:
        raise WorkloadError("'job_ids' is not an array of job ids")
    jobs = [job for job in (_find(simulation, job_id) for job_id in asked) if not job.kill_requested]
    for job in jobs:
        if job.state in (NOT_SUBMITTED, SUBMITTED):
            raise WorkloadError(f"job {job.id!r} cannot be killed: its state is {job.state}, it does not run")
        job.kill_requested = True
    if jobs:  # a second kill of the same job says nothing
        simulation.kill(list(dict.fromkeys(jobs)))


def call_me_later(simulation: Simulation, data: Data) -> None:
    """Ask for a call at a date."""
    date = data.get("timestamp")
    if not isinstance(date, int | float) or isinstance(date, bool):
        raise WorkloadError("'timestamp' is not a number")
    if date <= simulation.now:
        raise WorkloadError(f"the scheduler asks to be called at {date:.6f}, which is not in the future")
    simulation.call_at(float(date))


def register_job(simulation: Simulation, data: Data) -> None:
    """Add a job, submitted at once."""
    _must_register(simulation, "job")
    simulation.submit(simulation.catalogue.register_job(_text(data, "job_id"), data.get("job")))


def register_profile(simulation: Simulation, data: Data) -> None:
    """Add a profile."""
    _must_register(simulation, "profile")
    workload, name = _text(data, "workload_name"), _text(data, "profile_name")
    simulation.catalogue.register_profile(workload, name, data.get("profile"))


def set_job_metadata(simulation: Simulation, data: Data) -> None:
    """Attach a text to a job, for the result file."""
    metadata = _text(data, "metadata")
    if '"' in metadata:
        raise WorkloadError(f"the metadata holds a double quote, which the csv file cannot: {metadata!r}")
    _find(simulation, data.get("job_id")).metadata = metadata


def change_job_state(simulation: Simulation, data: Data) -> None:
    """Say that a job runs, ended or was rejected outside the simulation's own machines."""
    job, state = _find(simulation, data.get("job_id")), _text(data, "job_state")
    if job.state == SUBMITTED and state == RUNNING:
        simulation.start(job, None)
    elif (job.state == SUBMITTED and state == REJECTED) or (
        job.state == RUNNING and job.machines is None and state in COMPLETED_BY_HAND
    ):
        simulation.conclude(job, state)
    else:
        started = " after EXECUTE_JOB" if job.machines else ""
        raise WorkloadError(f"job {job.id!r} cannot become {state!r}: its state is {job.state}{started}")


def notify(simulation: Simulation, data: Data) -> None:
    """Say whether more jobs may be registered."""
    kind = data.get("type")
    if kind not in ("registration_finished", "continue_registration"):
        raise WorkloadError(f"{kind!r} is not known; known: registration_finished, continue_registration")
    simulation.registering = simulation.settings.dynamic_jobs and kind == "continue_registration"


DECISIONS: dict[str, Callable[[Simulation, Data], None]] = {
    "EXECUTE_JOB": execute_job,
    "REJECT_JOB": reject_job,
    "KILL_JOB": kill_job,
    "CALL_ME_LATER": call_me_later,
    "REGISTER_JOB": register_job,
    "REGISTER_PROFILE": register_profile,
    "SET_JOB_METADATA": set_job_metadata,
    "CHANGE_JOB_STATE": change_job_state,
    "NOTIFY": notify,
}


def _find(simulation: Simulation, job_id: Any) -> Job:
    """The job of this id."""
    if not isinstance(job_id, str):
        raise WorkloadError(f"{job_id!r} is not a job's id")
    return simulation.catalogue[job_id]


def _job(simulation: Simulation, data: Data, state: str, to: str) -> Job:
    """The job that a decision is about, which must be in this state."""
    job = _find(simulation, data.get("job_id"))
    if job.state != state:
        raise WorkloadError(f"job {job.id!r} cannot {to}: its state is {job.state}, not {state}")
    return job


def _must_register(simulation: Simulation, what: str) -> None:
    """Refuse a registration where there are none."""
    if not simulation.settings.dynamic_jobs:
        raise WorkloadError(f"no {what} can be registered; run with --enable-dynamic-jobs")
    if not simulation.registering:
        raise WorkloadError(f"no {what} can be registered after NOTIFY registration_finished")


def _executors(job: Job, mapping: Any, n_machines: int) -> int:
    """How many executors this mapping {executor: place within the machines} gives the job."""
    try:
        places = {int(executor): int(place) for executor, place in mapping.items()}
    except (AttributeError, TypeError, ValueError):
        raise WorkloadError(f"job {job.id!r}: its mapping is not an object of executor: place") from None
    if sorted(places) != list(range(len(places))) or not all(0 <= p < n_machines for p in places.values()):
        raise WorkloadError(
            f"job {job.id!r}: its mapping must give each executor 0, 1, ... a place in its {n_machines} machines"
        )
    return len(places)


def _text(data: Data, key: str) -> str:
    """A string that a decision must have."""
    value = data.get(key)
    if not isinstance(value, str):
        raise WorkloadError(f"{key!r} is not a string")
    return value
