"""The simulation: an event queue, and the scheduler that is told each instant and decides.

It knows nothing of scheduling. An instant is told whole: everything that happens at one date goes into one message;
what the scheduler's answer brings about at that same date (a kill, an acknowledged registration) goes into the next.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson

from batfill.batsim import protocol
from batfill.batsim.catalogue import KILLED, NOT_SUBMITTED, RUNNING, SUBMITTED, Catalogue, Job
from batfill.batsim.machines import Machines, machine_set
from batfill.batsim.protocol import Decision, SimulationStopped, read_reply
from batfill.errors import WorkloadError
from batfill.outputs import NULL_EXECUTION_S, REJECTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.batsim.external_events import ExternalEvent
    from batfill.batsim.platform import Host, Platform
    from batfill.outputs import JobRecord
    from batfill.workloads.batsim_json import BatsimDocument

# What happens at one date happens in this order.
COMPLETION, EXTERNAL, SUBMISSION, CALL, NOTICE, DECISION, KILL, READY = range(8)
Entry = tuple[float, int, int, Any]  # date, kind, sequence, subject
# Dates travel with six decimals: a date that comes back may differ by half a unit of the last one.
RESOLUTION_S = 1e-6
SHOWN_JOBS = 5
FINAL_BY_HAND = ("COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", "COMPLETED_WALLTIME_REACHED", KILLED)


@dataclass(frozen=True, slots=True)
class Settings:
    """What Batsim's options change in a simulation."""

    forward_profiles: bool = False
    dynamic_jobs: bool = False
    acknowledge: bool = False
    reuse_profiles: bool = False
    share_compute: bool = False
    share_storage: bool = True
    forward_unknown_events: bool = False
    sched_config: str = ""


class Simulation:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS.

    Args:
        platform: the machines.
        workloads: the documents, by name ("w0", "w1", ...).
        exchange: sends a message and returns the scheduler's reply.
        on_job_end: is given each job as it ends.
        on_machine_states: is given (date, idle machines, computing machines) after each start and end.
        events: external events in the order they happen; None where there is no such input, and then the scheduler is
            not told that it is over.
    """

    def __init__(
        self,
        platform: Platform,
        workloads: dict[str, BatsimDocument],
        exchange: Callable[[bytes], bytes],
        *,
        settings: Settings = Settings(),
        on_job_end: Callable[[JobRecord], None] = lambda record: None,
        on_machine_states: Callable[[tuple[float, int, int]], None] = lambda row: None,
        events: list[ExternalEvent] | None = None,
    ) -> None:
        self.now = 0.0
        self.jobs_done = 0
        self.jobs_submitted = 0
        self.jobs_running = 0
        self.scheduling_s = 0.0  # wall-clock
        self.catalogue = Catalogue(workloads, reuse_profiles=settings.reuse_profiles)
        self.machines = Machines(
            len(platform.compute),
            len(platform.storage),
            share_compute=settings.share_compute,
            share_storage=settings.share_storage,
        )
        self._platform = platform
        self._paths = {name: str(document.path.absolute()) for name, document in workloads.items()}
        self._settings = settings
        self._exchange = exchange
        self._on_job_end = on_job_end
        self._on_machine_states = on_machine_states
        self._registering = settings.dynamic_jobs
        self._ready = True  # the scheduler's own clock has been reached
        self._outbox: list[bytes] = []
        self._ended: list[Job] = []  # jobs to forget once the scheduler has been told
        self._decide = {
            "EXECUTE_JOB": self._execute,
            "REJECT_JOB": self._reject,
            "KILL_JOB": self._kill,
            "CALL_ME_LATER": self._call_me_later,
            "REGISTER_JOB": self._register_job,
            "REGISTER_PROFILE": self._register_profile,
            "SET_JOB_METADATA": self._set_metadata,
            "CHANGE_JOB_STATE": self._change_state,
            "NOTIFY": self._notified,
        }
        self._sequence = 0
        self._queue: list[Entry] = []
        for job in self.catalogue.static_jobs:
            self._plan(job.subtime, SUBMISSION, job)
        if workloads:
            last = max((job.subtime for job in self.catalogue.static_jobs), default=0.0)
            self._plan(last, NOTICE, "no_more_static_job_to_submit")
        if events is not None:
            for event in events:
                self._plan(event.date, EXTERNAL, event)
            self._plan(max((e.date for e in events), default=0.0), NOTICE, "no_more_external_event_to_occur")

    @property
    def jobs_total(self) -> int:
        """How many jobs there are so far, those of the scheduler's included."""
        return len(self.catalogue.static_jobs) + self.catalogue.registered

    @property
    def jobs_waiting(self) -> int:
        """How many jobs are submitted and neither started nor rejected."""
        return self.jobs_submitted - self.jobs_running - self.jobs_done

    def run(self) -> None:
        """Simulate to the end.

        Raises:
            SimulationStopped: the scheduler did what Batsim does not allow, or left jobs waiting for ever.
        """
        self._tell(b"SIMULATION_BEGINS", self._introduction())
        self._send()
        while True:
            if self._ready and self._outbox:
                self._send()
            elif self._ready and self._is_over():
                break
            elif batch := self.next_batch():
                self.now = batch[0][0]
                for _, kind, _, subject in batch:
                    self._happen(kind, subject)
            else:
                raise self._stuck()
        self._tell(b"SIMULATION_ENDS")
        reply = read_reply(self._told())
        if reply.decisions:
            raise self._stop(f"the scheduler answers SIMULATION_ENDS with {reply.decisions[0].type}; it is too late")

    def next_batch(self) -> list[Entry]:
        """Take what happens next out of the queue: all events of the earliest date."""
        batch: list[Entry] = []
        while self._queue and (not batch or self._queue[0][0] == batch[0][0]):
            entry = heapq.heappop(self._queue)
            if not is_void(entry):
                batch.append(entry)
        return batch

    # What happens

    def _happen(self, kind: int, subject: Any) -> None:
        """One event of the queue."""
        if kind == COMPLETION:
            self._complete(subject)
        elif kind == EXTERNAL:
            self._external(subject)
        elif kind == SUBMISSION:
            subject.state = SUBMITTED
            self._submitted(subject)
        elif kind == CALL:
            self._tell(b"REQUESTED_CALL")
        elif kind == NOTICE:
            self._outbox.append(protocol.notify(self.now, subject))
        elif kind == DECISION:
            self._obey(subject)
        elif kind == KILL:
            self._killed(subject)
        else:
            self._ready = True

    def _submitted(self, job: Job) -> None:
        """Tell the scheduler of a job."""
        self.jobs_submitted += 1
        profile = self.catalogue.profile_of(job) if self._settings.forward_profiles else None
        self._outbox.append(protocol.job_submitted(self.now, job.id_json, job.description(), profile))

    def _complete(self, job: Job) -> None:
        """A job ends by itself or at its walltime."""
        execution_s, state, return_code = job.outcome()
        self._end(job, state, return_code, execution_s)

    def _killed(self, jobs: list[Job]) -> None:
        """Kills take effect: those of the jobs that still run are ended, all are acknowledged."""
        running = [job for job in jobs if job.state == RUNNING]
        progress = [(job.id_json, job.profile, job.progress(self.now)) for job in running]
        for job in running:
            self._end(job, KILLED, -1, self.now - job.start_date)
        self._outbox.append(protocol.job_killed(self.now, [job.id_json for job in jobs], progress))

    def _end(self, job: Job, state: str, return_code: int, execution_s: float) -> None:
        """A running job leaves its machines."""
        assert job.machines is not None
        self.machines.end(job.machines, self.now)
        self._on_machine_states((self.now, self.machines.idle, self.machines.computing))
        self.jobs_running -= 1
        self._final(job, state, execution_s)
        self._outbox.append(protocol.job_completed(self.now, job.id_json, state, return_code, job.machines.text))

    def _final(self, job: Job, state: str, execution_s: float = 0.0) -> None:
        """A job reaches a state that it will not leave."""
        job.state = state
        self.jobs_done += 1
        self._ended.append(job)
        self._on_job_end(job.record(execution_s or NULL_EXECUTION_S))

    def _external(self, event: ExternalEvent) -> None:
        """Machines come or go, or something happens that only the scheduler knows the meaning of."""
        if event.machines is None:
            self._tell(b"NOTIFY", event.raw)
            return
        change = self.machines.restore if event.type == "machine_available" else self.machines.withdraw
        if why_not := change(event.machines, self.now):
            raise self._stop(f"the external event {event.type} of {event.machines.text} cannot happen: {why_not}")
        self._outbox.append(protocol.notify(self.now, f"event_{event.type}", event.machines.text))

    # What the scheduler decides

    def _obey(self, decision: Decision) -> None:
        """Apply one decision."""
        handler = self._decide.get(decision.type)
        if handler is None:
            raise self._stop(
                f"the scheduler sends {decision.type}, which is not supported; supported: {', '.join(self._decide)}"
            )
        try:
            handler(decision.data)
        except WorkloadError as error:
            raise self._stop(f"{decision.type}: {error}") from None

    def _execute(self, data: dict[str, Any]) -> None:
        job = self._job(data, SUBMITTED, "start")
        for field in ("storage_mapping", "additional_io_job"):
            if field in data:
                raise WorkloadError(f"job {job.id!r} has a {field}, which delay profiles have no use for; leave it out")
        try:
            machines = machine_set(_text(data, "alloc"), self.machines.size)
        except ValueError as error:
            raise WorkloadError(f"job {job.id!r}: {error}") from None
        if why_not := self.machines.obstacle(machines):
            raise WorkloadError(f"job {job.id!r} cannot start on {machines.text}: {why_not}")
        given = _executors(job, data["mapping"], machines.size) if "mapping" in data else machines.size
        if given != job.res:
            raise WorkloadError(f"job {job.id!r} asks for {job.res} machines and is given {given} ({machines.text})")
        self.machines.start(machines, self.now)
        self._on_machine_states((self.now, self.machines.idle, self.machines.computing))
        job.machines, job.start_date, job.state = machines, self.now, RUNNING
        self.jobs_running += 1
        self._plan(self.now + job.outcome()[0], COMPLETION, job)

    def _reject(self, data: dict[str, Any]) -> None:
        self._final(self._job(data, SUBMITTED, "be rejected"), REJECTED)

    def _kill(self, data: dict[str, Any]) -> None:
        asked = data.get("job_ids")
        if not isinstance(asked, list) or not asked:
            raise WorkloadError("'job_ids' is not an array of job ids")
        jobs = [job for job in (self._find(job_id) for job_id in asked) if not job.kill_requested]
        for job in jobs:
            if job.state in (NOT_SUBMITTED, SUBMITTED):
                raise WorkloadError(f"job {job.id!r} cannot be killed: its state is {job.state}, it does not run")
            job.kill_requested = True
        if jobs:  # a second kill of the same job says nothing
            self._plan(self.now, KILL, list(dict.fromkeys(jobs)))

    def _call_me_later(self, data: dict[str, Any]) -> None:
        date = data.get("timestamp")
        if not isinstance(date, (int, float)) or isinstance(date, bool):
            raise WorkloadError("'timestamp' is not a number")
        if date <= self.now:
            raise WorkloadError(f"the scheduler asks to be called at {date:.6f}, which is not in the future")
        self._plan(float(date), CALL, None)

    def _register_job(self, data: dict[str, Any]) -> None:
        self._must_register("job")
        job = self.catalogue.register_job(_text(data, "job_id"), data.get("job"))
        job.state = SUBMITTED
        if self._settings.acknowledge:
            self._submitted(job)
        else:
            self.jobs_submitted += 1

    def _register_profile(self, data: dict[str, Any]) -> None:
        self._must_register("profile")
        self.catalogue.register_profile(_text(data, "workload_name"), _text(data, "profile_name"), data.get("profile"))

    def _must_register(self, what: str) -> None:
        """Refuse a registration where there are none."""
        if not self._settings.dynamic_jobs:
            raise WorkloadError(f"no {what} can be registered; run with --enable-dynamic-jobs")
        if not self._registering:
            raise WorkloadError(f"no {what} can be registered after NOTIFY registration_finished")

    def _set_metadata(self, data: dict[str, Any]) -> None:
        metadata = _text(data, "metadata")
        if '"' in metadata:
            raise WorkloadError(f"the metadata holds a double quote, which the csv file cannot: {metadata!r}")
        self._find(data.get("job_id")).metadata = metadata

    def _change_state(self, data: dict[str, Any]) -> None:
        job, state = self._find(data.get("job_id")), _text(data, "job_state")
        if job.state == SUBMITTED and state == RUNNING:
            job.start_date, job.state = self.now, RUNNING
            self.jobs_running += 1
        elif job.state == SUBMITTED and state == REJECTED:
            self._final(job, REJECTED)
        elif job.state == RUNNING and state in FINAL_BY_HAND and job.machines is None:
            self.jobs_running -= 1
            self._final(job, state, self.now - job.start_date)
        else:
            started = " after EXECUTE_JOB" if job.machines else ""
            raise WorkloadError(f"job {job.id!r} cannot become {state!r}: its state is {job.state}{started}")

    def _notified(self, data: dict[str, Any]) -> None:
        kind = data.get("type")
        if kind not in ("registration_finished", "continue_registration"):
            raise WorkloadError(f"{kind!r} is not known; known: registration_finished, continue_registration")
        self._registering = self._settings.dynamic_jobs and kind == "continue_registration"

    def _find(self, job_id: Any) -> Job:
        if not isinstance(job_id, str):
            raise WorkloadError(f"{job_id!r} is not a job's id")
        return self.catalogue[job_id]

    def _job(self, data: dict[str, Any], state: str, to: str) -> Job:
        """The job that a decision is about, which must be in this state."""
        job = self._find(data.get("job_id"))
        if job.state != state:
            raise WorkloadError(f"job {job.id!r} cannot {to}: its state is {job.state}, not {state}")
        return job

    # The exchange with the scheduler

    def _tell(self, kind: bytes, data: bytes = b"{}") -> None:
        self._outbox.append(protocol.event(self.now, kind, data))

    def _send(self) -> None:
        """Tell what happened, and apply the reply."""
        reply = read_reply(self._told())
        due = self.now
        for decision in reply.decisions:
            due = max(due, decision.date)
            if due <= self.now + RESOLUTION_S:
                self._obey(decision)
            else:  # the scheduler took simulated time to decide
                self._plan(due, DECISION, decision)
        if reply.now > self.now + RESOLUTION_S:
            self._ready = False
            self._plan(reply.now, READY, None)

    def _told(self) -> bytes:
        """Send the message, forget the jobs whose end it told, and return the reply."""
        text = protocol.message(self.now, self._outbox)
        self._outbox.clear()
        started = perf_counter()
        reply = self._exchange(text)
        self.scheduling_s += perf_counter() - started
        for job in self._ended:
            self.catalogue.forget(job)
        self._ended.clear()
        return reply

    def _plan(self, date: float, kind: int, subject: Any) -> None:
        heapq.heappush(self._queue, (date, kind, self._sequence, subject))
        self._sequence += 1

    def _is_over(self) -> bool:
        """Whether nothing can happen any more, a call asked for included, and nothing is left to do."""
        while self._queue and is_void(self._queue[0]):
            heapq.heappop(self._queue)
        return not self._queue and not self._registering and self.jobs_done == self.jobs_submitted

    def _introduction(self) -> bytes:
        """What SIMULATION_BEGINS says."""
        settings, platform = self._settings, self._platform
        n_compute = len(platform.compute)
        return orjson.dumps(
            {
                "nb_resources": len(platform.machines),
                "nb_compute_resources": n_compute,
                "nb_storage_resources": len(platform.storage),
                "allow_compute_sharing": settings.share_compute,
                "allow_storage_sharing": settings.share_storage,
                "config": {
                    "redis-enabled": False,
                    "redis-hostname": "127.0.0.1",
                    "redis-port": 6379,
                    "redis-prefix": "default",
                    "profiles-forwarded-on-submission": settings.forward_profiles,
                    "dynamic-jobs-enabled": settings.dynamic_jobs,
                    "dynamic-jobs-acknowledged": settings.acknowledge,
                    "profile-reuse-enabled": settings.reuse_profiles,
                    "sched-config": settings.sched_config,
                    "forward-unknown-events": settings.forward_unknown_events,
                },
                "compute_resources": [_resource(i, host) for i, host in enumerate(platform.compute)],
                "storage_resources": [_resource(i, host) for i, host in enumerate(platform.storage, n_compute)],
                "workloads": self._paths,
                "profiles": self.catalogue.profiles,
            }
        )

    def _stop(self, why: str) -> SimulationStopped:
        return SimulationStopped(f"stopped at date {self.now:.6f}: {why}")

    def _stuck(self) -> SimulationStopped:
        """Nothing will happen any more, and yet the simulation is not over."""
        waiting = [job.id for job in self.catalogue.unfinished()]
        if not waiting:
            return self._stop(
                "all jobs have ended, and the scheduler never sent NOTIFY registration_finished; "
                "it must, under --enable-dynamic-jobs"
            )
        some = ", ".join(waiting[:SHOWN_JOBS]) + (", ..." if len(waiting) > SHOWN_JOBS else "")
        return self._stop(
            f"{len(waiting)} jobs are never executed ({some}): nothing runs, nothing else will be submitted, and the "
            "scheduler asked for no call; make it execute or reject every job"
        )


def is_void(entry: Entry) -> bool:
    """Whether this is the completion of a job that was killed before."""
    return entry[1] == COMPLETION and entry[3].state != RUNNING


def _resource(number: int, host: Host) -> dict[str, Any]:
    """A machine as the scheduler is told of it."""
    return {
        "id": number,
        "name": host.name,
        "state": "idle",
        "properties": host.properties,
        "zone_properties": host.zone_properties,
    }


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


def _text(data: dict[str, Any], key: str) -> str:
    """A string that a decision must have."""
    value = data.get(key)
    if not isinstance(value, str):
        raise WorkloadError(f"{key!r} is not a string")
    return value
