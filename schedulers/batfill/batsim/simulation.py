"""The simulation: an event queue, and the exchange of messages with a scheduler that makes every decision.

All events of one date go into one message; those that the scheduler's reply causes at that same date (a kill, an
acknowledged registration) go into the next. With a seed for splitting, a date's events are spread over several messages
at random, which is what Batsim does on platforms with finite bandwidths.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson

from batfill.batsim import protocol
from batfill.batsim.catalogue import COMPLETED_BY_HAND, NOT_SUBMITTED, RUNNING, SUBMITTED, Catalogue, Job
from batfill.batsim.machines import Machines, MachineSet, machine_set
from batfill.batsim.protocol import (
    ARRAY,
    NUMBER,
    STRING,
    Decision,
    Reply,
    ReplyError,
    SimulationStopped,
    needed,
    read_reply,
)
from batfill.batsim.results import KILLED, NULL_EXECUTION_S, REJECTED
from batfill.errors import WorkloadError
from batfill.jobs import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.batsim.external_events import ExternalEvent
    from batfill.batsim.platform import Platform
    from batfill.batsim.protocol import SimulationSettings
    from batfill.batsim.results import JobRecord
    from batfill.workloads.batsim_json import BatsimDocument

# Order of the events of one date. A kill that was due comes before the completions, as in Batsim; one that the reply to
# those completions orders is too late.
DECISION, KILL, COMPLETION, EXTERNAL, SUBMISSION, CALL, NOTICE, READY = range(8)
NO_MORE_JOBS, NO_MORE_EXTERNAL = "no_more_static_job_to_submit", "no_more_external_event_to_occur"
HeapEntry = tuple[float, int, int, Any]  # date, kind, sequence, subject
# Messages round dates to six decimals: a date may return with an error of half the last unit.
RESOLUTION_S = 1e-6
SHOWN_JOBS = 5


class Simulation:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS.

    Args:
        platform: the machines.
        workloads: the documents, by name ("w0", "w1", ...).
        exchange: sends a message and returns the scheduler's reply.
        settings: what Batsim's options determine.
        on_job_end: called with each job as it ends.
        on_machine_states: called with (date, idle machines, computing machines) after each start and end.
        events: external events in time order; None if there is no such input, and then the scheduler gets no
            notification of its end.
        split_events: seed of the random order in which the events of one date are spread over several messages; None
            for whole instants.
    """

    def __init__(
        self,
        platform: Platform,
        workloads: dict[str, BatsimDocument],
        exchange: Callable[[bytes], bytes],
        *,
        settings: SimulationSettings,
        on_job_end: Callable[[JobRecord], None] = lambda record: None,
        on_machine_states: Callable[[tuple[float, int, int]], None] = lambda row: None,
        events: list[ExternalEvent] | None = None,
        split_events: int | None = None,
    ) -> None:
        self.now = 0.0
        self.messages_sent = 0
        self.settings = settings
        self.registering = settings.dynamic_jobs
        self.jobs_submitted = self.jobs_running = self.jobs_done = 0
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
        self._exchange = exchange
        self._split = None if split_events is None else Random(split_events)
        self._on_job_end = on_job_end
        self._on_machine_states = on_machine_states
        self._ready = True  # the simulation has reached the date of the scheduler's last reply
        self._outbox: list[bytes] = []
        self._ended: list[Job] = []  # jobs to drop from the catalogue once their ends are sent
        self._sequence = 0
        self._queue: list[HeapEntry] = []
        for job in self.catalogue.static_jobs:
            self._plan(job.subtime, SUBMISSION, job)
        if workloads:
            last = max((job.subtime for job in self.catalogue.static_jobs), default=0.0)
            self._plan(last, NOTICE, NO_MORE_JOBS)
        if events is not None:
            for event in events:
                self._plan(event.date, EXTERNAL, event)
            self._plan(max((e.date for e in events), default=0.0), NOTICE, NO_MORE_EXTERNAL)

    @property
    def jobs_total(self) -> int:
        """The number of jobs so far, including those that the scheduler registered."""
        return len(self.catalogue.static_jobs) + self.catalogue.registered

    @property
    def jobs_waiting(self) -> int:
        """The number of jobs that are submitted and neither started nor rejected."""
        return self.jobs_submitted - self.jobs_running - self.jobs_done

    def run(self) -> None:
        """Simulate to the end.

        Raises:
            SimulationStopped: the scheduler did something Batsim does not allow, or left jobs waiting for ever.
        """
        introduction = protocol.introduction(self._platform, self.settings, self._paths, self.catalogue.profiles)
        self._post(b"SIMULATION_BEGINS", introduction)
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
        self._post(b"SIMULATION_ENDS")
        if late := self._deliver().decisions:
            raise self._refuse(late[0], "the simulation has ended; SIMULATION_ENDS is answered without events")

    def next_batch(self) -> list[HeapEntry]:
        """Remove and return all events of the earliest date, but decisions alone, since kills may follow from them."""
        queue = self._queue
        batch: list[HeapEntry] = []
        while queue and (not batch or queue[0][0] == batch[0][0]):
            if batch and batch[0][1] == DECISION != queue[0][1]:
                break
            entry = heapq.heappop(queue)
            if not _is_void(entry):
                batch.append(entry)
        return self._part_of(batch, self._split) if self._split is not None and len(batch) > 1 else batch

    def _part_of(self, batch: list[HeapEntry], random: Random) -> list[HeapEntry]:
        """At least one of these events of one date, at random and in a random order; the others stay in the queue.

        What one process of Batsim causes keeps its order: static submissions, then their end; external events, then
        their end.
        """
        if batch[0][1] == DECISION:
            return batch
        streams: defaultdict[tuple[int, int], deque[HeapEntry]] = defaultdict(deque)
        for entry in batch:
            _, kind, sequence, subject = entry
            if kind == NOTICE:
                kind = SUBMISSION if subject == NO_MORE_JOBS else EXTERNAL
            alone = kind not in (SUBMISSION, EXTERNAL)
            streams[kind, sequence if alone else 0].append(entry)
        part = [entry for entry in batch if entry[1] == READY]
        for entry in part:
            del streams[READY, entry[2]]
        left = list(streams.values())
        for _ in range(random.randint(1, len(batch) - len(part)) if left else 0):
            stream = random.choice(left)
            part.append(stream.popleft())
            if not stream:
                left.remove(stream)
        for stream in left:
            for entry in stream:
                heapq.heappush(self._queue, entry)
        return part

    # Effects of decisions

    def submit(self, job: Job) -> None:
        """Submit a job that the scheduler registered."""
        job.state = SUBMITTED
        self.jobs_submitted += 1
        if self.settings.acknowledge:  # after the static submissions of this date, if those are still to come
            self._plan(self.now, SUBMISSION, job)

    def start(self, job: Job, machines: MachineSet | None) -> None:
        """Start a job: on these machines for its run time, or on none until the scheduler declares its end."""
        job.machines, job.start_date, job.state = machines, self.now, RUNNING
        self.jobs_running += 1
        if machines:
            self.machines.start(machines, self.now)
            self._on_machine_states((self.now, self.machines.idle, self.machines.computing))
            self._plan(self.now + job.outcome()[0], COMPLETION, job)

    def conclude(self, job: Job, state: str, execution_s: float | None = None) -> None:
        """Put a job into a final state, after this execution time or, by default, the time since its start."""
        if job.state == RUNNING:
            self.jobs_running -= 1
            execution_s = self.now - job.start_date if execution_s is None else execution_s
        if job.machines:
            self.machines.end(job.machines, self.now)
            self._on_machine_states((self.now, self.machines.idle, self.machines.computing))
        job.state = state
        self.jobs_done += 1
        self._ended.append(job)
        if not execution_s:
            execution_s = 0.0 if state == KILLED else NULL_EXECUTION_S
        self._on_job_end(job.record(execution_s))

    def kill(self, jobs: list[Job]) -> None:
        """Schedule the kill of these jobs, which happens after the scheduler's whole reply has been applied."""
        self._plan(self.now, KILL, jobs)

    def call_at(self, date: float) -> None:
        """Schedule a call of the scheduler at this date."""
        self._plan(date, CALL, None)

    # Events

    def _happen(self, kind: int, subject: Any) -> None:
        """Handle one event of the queue."""
        if kind == COMPLETION:
            if subject.state == RUNNING:  # and not killed at this date
                self._end(subject, *subject.outcome())
        elif kind == EXTERNAL:
            self._external(subject)
        elif kind == SUBMISSION:
            if subject.state == NOT_SUBMITTED:  # and not registered by the scheduler
                subject.state = SUBMITTED
                self.jobs_submitted += 1
            self._announce(subject)
        elif kind == CALL:
            self._post(b"REQUESTED_CALL")
        elif kind == NOTICE:
            self._outbox.append(protocol.notify(self.now, subject))
        elif kind == DECISION:
            self._obey(subject)
        elif kind == KILL:
            self._killed(subject)
        else:
            self._ready = True

    def _announce(self, job: Job) -> None:
        """Send a job's submission to the scheduler."""
        profile = orjson.dumps(job.profile_raw) if self.settings.forward_profiles else None
        self._outbox.append(protocol.job_submitted(self.now, job.id_json, job.description(), profile))

    def _end(self, job: Job, execution_s: float, state: str, return_code: int) -> None:
        """Release a job's machines, and send its completion to the scheduler."""
        assert job.machines
        self.conclude(job, state, execution_s)
        self._outbox.append(protocol.job_completed(self.now, job.id_json, state, return_code, job.machines.text))

    def _killed(self, jobs: list[Job]) -> None:
        """Kill those of the jobs that still run, and acknowledge all."""
        running = [job for job in jobs if job.state == RUNNING]
        progress = [(job.id_json, job.progress(self.now)) for job in running]
        for job in running:
            self._end(job, self.now - job.start_date, KILLED, -1)
        self._outbox.append(protocol.job_killed(self.now, [job.id_json for job in jobs], progress))

    def _external(self, event: ExternalEvent) -> None:
        """Handle an external event: machines change availability, or the scheduler gets an event to interpret."""
        if event.machines is None:
            self._post(b"NOTIFY", event.raw)
            return
        change = self.machines.restore if event.type == "machine_available" else self.machines.withdraw
        if why_not := change(event.machines, self.now):
            raise self._stop(f"the external event {event.type} of {event.machines.text} cannot happen: {why_not}")
        self._outbox.append(protocol.notify(self.now, f"event_{event.type}", event.machines.text))

    def _obey(self, decision: Decision) -> None:
        """Apply one decision."""
        decide = DECISIONS.get(decision.type)
        if decide is None:
            why = UNSUPPORTED.get(decision.type, f"not known; known: {', '.join(DECISIONS)}")
            raise self._refuse(decision, why)
        try:
            decide(self, decision.data)
        except (WorkloadError, ReplyError) as error:
            raise self._refuse(decision, str(error)) from None

    # The exchange with the scheduler

    def _post(self, kind: bytes, data: bytes = b"{}") -> None:
        """Put an event into the next message."""
        self._outbox.append(protocol.event(self.now, kind, data))

    def _send(self) -> None:
        """Send the pending events, and apply the reply."""
        reply = self._deliver()
        if reply.now < self.now - RESOLUTION_S:
            raise self._stop(
                f"the scheduler's reply to message {self.messages_sent} has the date {reply.now:.6f} as its 'now', "
                "which is in the past"
            )
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

    def _deliver(self) -> Reply:
        """Send the message, drop the jobs whose ends it reported, and return the reply."""
        text = protocol.message(self.now, self._outbox)
        self._outbox.clear()
        self.messages_sent += 1
        started = perf_counter()
        reply = self._exchange(text)
        self.scheduling_s += perf_counter() - started
        for job in self._ended:
            self.catalogue.forget(job)
        self._ended.clear()
        try:
            return read_reply(reply, self.messages_sent)
        except ReplyError as error:
            raise self._stop(f"the scheduler's reply to message {self.messages_sent} {error}") from None

    def _plan(self, date: float, kind: int, subject: Any) -> None:
        """Put an event into the queue."""
        heapq.heappush(self._queue, (date, kind, self._sequence, subject))
        self._sequence += 1

    def _is_over(self) -> bool:
        """Whether no event (requested calls included), job or registration is left."""
        while self._queue and _is_void(self._queue[0]):
            heapq.heappop(self._queue)
        return not self._queue and not self.registering and self.jobs_done == self.jobs_submitted

    def _refuse(self, decision: Decision, why: str) -> SimulationStopped:
        """The exception for a decision that Batsim does not allow."""
        number, place = decision.where
        kind = protocol.shown_type(decision.type)
        return self._stop(f"the scheduler's reply to message {number}, events[{place}], {kind}: {why:.500}")

    def _stop(self, why: str) -> SimulationStopped:
        """The exception that ends a simulation that cannot continue."""
        return SimulationStopped(f"stopped at date {self.now:.6f}: {why}")

    def _stuck(self) -> SimulationStopped:
        """The exception for a simulation with work left and no event to come."""
        left = [job.id for job in self.catalogue.unfinished()]
        if not left:
            return self._stop(
                "all jobs have ended, and the scheduler never sent NOTIFY registration_finished; "
                "it must, under --enable-dynamic-jobs"
            )
        some = ", ".join(left[:SHOWN_JOBS]) + (", ..." if len(left) > SHOWN_JOBS else "")
        return self._stop(
            f"{len(left)} jobs are never executed ({some}): nothing runs, nothing else will be submitted, and the "
            "scheduler requested no call; make it execute or reject every job"
        )


def _is_void(entry: HeapEntry) -> bool:
    """Whether this is the completion of a job that has been killed."""
    return entry[1] == COMPLETION and entry[3].state != RUNNING


# The scheduler's decisions: one function per type of event. A decision that would make Batsim abort raises
# WorkloadError with the reason; the simulation adds the date and stops.


def execute_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Start a job on the given machines."""
    job = _job(simulation, data, SUBMITTED, "start")
    for field in ("storage_mapping", "additional_io_job"):
        if field in data:
            raise WorkloadError(f"job {job.id!r} has a {field}, which delay profiles do not use; leave it out")
    try:
        machines = machine_set(_text(data, "alloc"), simulation.machines.size)
    except ValueError as error:
        raise WorkloadError(f"job {job.id!r}: {error}") from None
    if why_not := simulation.machines.obstacle(machines):
        raise WorkloadError(f"job {job.id!r} cannot start on {machines.text}: {why_not}")
    given = _executors(job, data["mapping"], machines.size) if "mapping" in data else machines.size
    if given != job.res:
        raise WorkloadError(f"job {job.id!r} requests {job.res} machines and gets {given} ({machines.text})")
    simulation.start(job, machines)


def reject_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Reject a waiting job."""
    simulation.conclude(_job(simulation, data, SUBMITTED, "be rejected"), REJECTED)


def kill_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Kill running jobs; one that has just ended by itself is only acknowledged."""
    job_ids = needed(data, "job_ids", ARRAY)
    if not job_ids:
        raise WorkloadError("'job_ids' is empty; name the jobs to kill")
    for job_id in job_ids:
        if type(job_id) is not str:
            raise WorkloadError(f"{job_id!r:.60} in 'job_ids' is not a job's id, a string")
    jobs = [job for job in map(simulation.catalogue.__getitem__, job_ids) if not job.kill_requested]
    for job in jobs:
        if job.state in (NOT_SUBMITTED, SUBMITTED):
            raise WorkloadError(f"job {job.id!r} cannot be killed: its state is {job.state}, it does not run")
        job.kill_requested = True
    if jobs:  # a second kill of the same job is not acknowledged
        simulation.kill(list(dict.fromkeys(jobs)))


def call_me_later(simulation: Simulation, data: dict[str, Any]) -> None:
    """Request a call at a date."""
    date = needed(data, "timestamp", NUMBER)
    if date <= simulation.now:
        raise WorkloadError(f"the scheduler requests a call at {date:.6f}, which is not in the future")
    if date > LONGEST_S:
        raise WorkloadError(f"the scheduler requests a call at {date:g}, later than {LONGEST_S:g} s, 30,000 years")
    simulation.call_at(float(date))


def register_job(simulation: Simulation, data: dict[str, Any]) -> None:
    """Add a job and submit it now."""
    _must_register(simulation, "job")
    simulation.submit(simulation.catalogue.register_job(_text(data, "job_id"), data.get("job")))


def register_profile(simulation: Simulation, data: dict[str, Any]) -> None:
    """Add a profile."""
    _must_register(simulation, "profile")
    workload, name = _text(data, "workload_name"), _text(data, "profile_name")
    simulation.catalogue.register_profile(workload, name, data.get("profile"))


def set_job_metadata(simulation: Simulation, data: dict[str, Any]) -> None:
    """Attach a text to a job, for the result file."""
    metadata = _text(data, "metadata")
    if '"' in metadata:
        raise WorkloadError(f"the metadata holds a double quote, which the csv file cannot: {metadata!r}")
    _named(simulation, data).metadata = metadata


def change_job_state(simulation: Simulation, data: dict[str, Any]) -> None:
    """Declare that a job runs or has ended outside the simulated machines."""
    job, state = _named(simulation, data), _text(data, "job_state")
    if job.state == SUBMITTED and state == RUNNING:
        simulation.start(job, None)
    elif job.state == RUNNING and job.machines is None and state in COMPLETED_BY_HAND:
        simulation.conclude(job, state)
    elif job.state == SUBMITTED and state == REJECTED:
        raise WorkloadError(f"job {job.id!r} cannot become {REJECTED!r} in this way; send REJECT_JOB")
    else:
        started = " after EXECUTE_JOB" if job.machines else ""
        raise WorkloadError(f"job {job.id!r} cannot become {state!r}: its state is {job.state}{started}")


def notify(simulation: Simulation, data: dict[str, Any]) -> None:
    """Set whether more jobs may be registered."""
    kind = _text(data, "type")
    if kind not in ("registration_finished", "continue_registration"):
        raise WorkloadError(f"{kind!r} is not known; known: registration_finished, continue_registration")
    simulation.registering = simulation.settings.dynamic_jobs and kind == "continue_registration"


DECISIONS: dict[str, Callable[[Simulation, dict[str, Any]], None]] = {
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
# Batsim's other events, and why they are refused.
UNSUPPORTED = {
    "SET_RESOURCE_STATE": "machines' power states need --energy, which is not simulated here; use Batsim itself",
    "QUERY": "the energy consumed needs --energy, which is not simulated here; use Batsim itself",
    "ANSWER": "schedulers receive no queries here; use Batsim itself",
    "TO_JOB_MSG": "jobs receive no messages here; use Batsim itself",
}


def _named(simulation: Simulation, data: dict[str, Any]) -> Job:
    """The job that a decision is about."""
    return simulation.catalogue[_text(data, "job_id")]


def _job(simulation: Simulation, data: dict[str, Any], state: str, to: str) -> Job:
    """The job that a decision is about, which must be in this state."""
    job = _named(simulation, data)
    if job.state != state:
        raise WorkloadError(f"job {job.id!r} cannot {to}: its state is {job.state}, not {state}")
    return job


def _must_register(simulation: Simulation, what: str) -> None:
    """Refuse a registration if registrations are off or finished."""
    if not simulation.settings.dynamic_jobs:
        raise WorkloadError(f"no {what} can be registered; run with --enable-dynamic-jobs")
    if not simulation.registering:
        raise WorkloadError(f"no {what} can be registered after NOTIFY registration_finished")


def _executors(job: Job, mapping: Any, n_machines: int) -> int:
    """The number of executors in this mapping {executor: place within the machines}."""
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
    text: str = needed(data, key, STRING)
    return text
