"""The simulation: an event queue, and the exchange of messages with a scheduler that makes every decision.

All events of one date go into one message; those that the scheduler's reply causes at that same date (a kill, an
acknowledged registration) go into the next.
"""

from __future__ import annotations

import heapq
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from batfill.base.errors import WorkloadError, on_command_line
from batfill.batsim_files.machines import Machines, MachineSet, machine_set
from batfill.batsim_files.results import NOT_MEASURED, NULL_EXECUTION_S
from batfill.model.invariants import Ledger
from batfill.model.states import KILLED, REJECTED
from batfill.protocol.batsim4 import BATSIM_4, DECISIONS
from batfill.protocol.forms import RESOLUTION_S, reader_of
from batfill.simulator import wire
from batfill.simulator.catalogue import COMPLETED_BY_HAND, NOT_SUBMITTED, RUNNING, SUBMITTED, Catalogue, SimulatedJob
from batfill.simulator.wire import SimulationStopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform
    from batfill.batsim_files.results import JobRecord
    from batfill.protocol import decisions
    from batfill.simulator.energy import EnergyMeter
    from batfill.simulator.wire import SimulationSettings
    from batfill.workloads.batsim_json import BatsimDocument

# Order of the events of one date. A job that ends by itself at the date of its kill is complete, as in Batsim.
DECISION, COMPLETION, KILL, EXTERNAL, SUBMISSION, CALL, NOTICE, READY = range(8)
HeapEntry = tuple[float, int, int, Any]  # date, kind, sequence, subject
REPLY = reader_of(DECISIONS, BATSIM_4.type_field, BATSIM_4.data_field)
SHOWN_JOBS = 5
# What NOTIFY says, and what enables and ends registrations.
NO_MORE_JOBS = "NOTIFY", b'{"type":"no_more_static_job_to_submit"}'
NO_MORE_EVENTS = "NOTIFY", b'{"type":"no_more_external_event_to_occur"}'
TO_REGISTER, END_OF_REGISTRATION = "run with --enable-dynamic-jobs", "NOTIFY registration_finished"
DEADLOCK = "Deadlock detected"  # tools look for Batsim's words


class Simulation:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS.

    `exchange` sends a message and returns the scheduler's reply. `on_machine_states` gets (date, idle machines,
    computing machines) after each start and end. `events` are external ones in time order; without such an input, None,
    the scheduler gets no notification of its end.
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
        energy: EnergyMeter | None = None,
        events: list[ExternalEvent] | None = None,
    ) -> None:
        self.now = 0.0
        self.messages_sent = 0
        self.settings = settings
        self.registering = settings.dynamic_jobs
        self.jobs_submitted = self.jobs_running = self.jobs_done = 0
        self.scheduling_s = 0.0  # wall-clock
        self.catalogue = Catalogue(
            workloads,
            reuse_profiles=settings.reuse_profiles,
            speed=None if settings.share_compute else platform.speed,
        )
        self.machines = Machines(
            len(platform.machines),
            platform.storage_ids,
            share_compute=settings.share_compute,
            share_storage=settings.share_storage,
        )
        self._platform = platform
        self._paths = {name: str(document.path.absolute()) for name, document in workloads.items()}
        self._exchange = exchange
        self._on_job_end = on_job_end
        self._on_machine_states = on_machine_states
        self._energy = energy
        self._ledger = Ledger(self.machines.exclusive())
        self._ready = True  # the simulation has reached the date of the scheduler's last reply
        self._outbox: list[bytes] = []
        self._ended: list[SimulatedJob] = []  # jobs to drop from the catalogue once their ends are sent
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
            self._plan(max((e.date for e in events), default=0.0), NOTICE, NO_MORE_EVENTS)

    @property
    def jobs_total(self) -> int:
        return len(self.catalogue.static_jobs) + self.catalogue.registered

    @property
    def jobs_waiting(self) -> int:
        return self.jobs_submitted - self.jobs_running - self.jobs_done

    def run(self) -> None:
        profiles = self.catalogue.profiles
        self._tell("SIMULATION_BEGINS", wire.simulation_begins(self._platform, self.settings, self._paths, profiles))
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
        self._tell("SIMULATION_ENDS")
        if self._deliver().events:
            raise self._stop(f"the scheduler's reply to message {self.messages_sent}, the last, has events")
        self._ledger.check(over=True)

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
        return batch

    # The effects of decisions. One that would make Batsim abort raises WorkloadError with the reason.

    def execute(self, start: decisions.Execute) -> None:
        job = self._job(start.job_id, SUBMITTED, "start")
        try:
            given = machine_set(start.alloc, self.machines.size)
        except ValueError as error:
            raise WorkloadError(f"job {job.id!r}: {on_command_line(error)}") from None
        if why_not := self.machines.obstacle(given):
            raise WorkloadError(f"job {job.id!r} cannot start on {given.text}: {why_not}")
        places = [*range(given.size)]
        if start.mapping is not msgspec.UNSET:
            places = [_number(start.mapping.get(str(executor))) for executor in range(len(start.mapping))]
        if len(places) != job.res:
            raise WorkloadError(f"job {job.id!r} requests {job.res} machines and gets {len(places)} ({given.text})")
        if not all(0 <= place < given.size for place in places):
            raise WorkloadError(f"job {job.id!r}: its mapping gives an executor no place in its {given.size} machines")
        if job.task.computes and len(set(places)) < len(places):
            raise WorkloadError(
                f"job {job.id!r}: its profile {job.profile!r} computes, and its mapping gives several executors one "
                "machine, whose speed they share; it runs under Batsim only"
            )
        self._start(job, given)

    def reject(self, rejected: decisions.Reject) -> None:
        self._conclude(self._job(rejected.job_id, SUBMITTED, "be rejected"), REJECTED)

    def kill(self, kill: decisions.Kill) -> None:
        """After the scheduler's whole reply has been applied; a job that ends first is acknowledged."""
        jobs = [job for job in map(self.catalogue.__getitem__, kill.job_ids) if not job.kill_requested]
        for job in jobs:
            if job.state in (NOT_SUBMITTED, SUBMITTED):
                raise WorkloadError(f"job {job.id!r} cannot be killed: its state is {job.state}, it does not run")
            if job.state == RUNNING and not job.machines:
                raise WorkloadError(
                    f"job {job.id!r} cannot be killed: the scheduler runs it itself; send CHANGE_JOB_STATE, {KILLED}"
                )
            job.kill_requested = True
        if jobs:
            self._plan(self.now, KILL, list(dict.fromkeys(jobs)))

    def call_at(self, call: decisions.CallAt) -> None:
        if call.timestamp <= self.now:
            raise WorkloadError(f"the scheduler requests a call at {call.timestamp:.6f}, which is not in the future")
        self._plan(call.timestamp, CALL, None)

    def register(self, new: decisions.Register) -> None:
        self._must_register("job")
        job = self.catalogue.register_job(new.job_id, new.job)
        if job.subtime > self.now + RESOLUTION_S:
            raise WorkloadError(
                f"job {job.id!r} has the subtime {job.subtime}, later than its registration; give a date up to now"
            )
        job.state = SUBMITTED
        self.jobs_submitted += 1
        if self.settings.acknowledge:  # after the static submissions of this date, if those are still to come
            self._plan(self.now, SUBMISSION, job)

    def register_profile(self, new: decisions.RegisterProfile) -> None:
        self._must_register("profile")
        self.catalogue.register_profile(new.workload_name, new.profile_name, new.profile)

    def notify(self, notice: decisions.Notify) -> None:
        goes_on = notice.type == "continue_registration"
        if goes_on and not self.settings.dynamic_jobs:
            raise WorkloadError(f"registration cannot continue, since it is off; {TO_REGISTER}")
        self.registering = goes_on

    def set_metadata(self, noted: decisions.SetMetadata) -> None:
        self.catalogue[noted.job_id].metadata = noted.metadata

    def change_state(self, change: decisions.ChangeState) -> None:
        job, state = self.catalogue[change.job_id], change.job_state
        if job.state == SUBMITTED and state == RUNNING:
            self._start(job, None)
        elif job.state == RUNNING and job.machines is None and state in COMPLETED_BY_HAND:
            self._conclude(job, state)
        else:
            started = " after EXECUTE_JOB" if job.machines else ""
            raise WorkloadError(f"job {job.id!r} cannot become {state!r}: its state is {job.state}{started}")

    def query(self, _: decisions.Query) -> None:
        """The answer is in the next message."""
        if self._energy is None:
            raise WorkloadError("the energy consumed is not simulated; run with --energy")
        self._plan(self.now, NOTICE, ("ANSWER", b'{"consumed_energy":%.6f}' % self._energy.read(self.now)))

    def _job(self, job_id: str, state: str, to: str) -> SimulatedJob:
        job = self.catalogue[job_id]
        if job.state != state:
            raise WorkloadError(f"job {job.id!r} cannot {to}: its state is {job.state}, not {state}")
        return job

    def _must_register(self, what: str) -> None:
        if not self.settings.dynamic_jobs:
            raise WorkloadError(f"no {what} can be registered; {TO_REGISTER}")
        if not self.registering:
            raise WorkloadError(f"no {what} can be registered after {END_OF_REGISTRATION}")

    def _start(self, job: SimulatedJob, machines: MachineSet | None) -> None:
        """Start a job: on these machines for its run time, or on none until the scheduler declares its end."""
        job.machines, job.start_date, job.state = machines, self.now, RUNNING
        self.jobs_running += 1
        self._ledger.start(job.id, job.subtime, self.machines.exclusive(machines) if machines else 0, self.now)
        if machines:
            self.machines.start(machines, self.now)
            self._on_machine_states((self.now, self.machines.idle, self.machines.computing))
            if self._energy:
                self._energy.started(job, self.now)
            self._plan(self.now + job.outcome()[0], COMPLETION, job)

    def _conclude(self, job: SimulatedJob, state: str, execution_s: float | None = None) -> None:
        """Put a job into a final state, after this execution time or, by default, the time since its start."""
        if job.state == RUNNING:
            self.jobs_running -= 1
            self._ledger.end(job.id, self.now)
            execution_s = self.now - job.start_date if execution_s is None else execution_s
        joules = NOT_MEASURED
        if job.machines:
            self.machines.end(job.machines, self.now)
            self._on_machine_states((self.now, self.machines.idle, self.machines.computing))
            if self._energy:
                joules = self._energy.ended(job, execution_s or 0.0, self.now)
        job.state = state
        self.jobs_done += 1
        self._ended.append(job)
        if not execution_s and not (state == KILLED and self.now == 0):
            execution_s = NULL_EXECUTION_S
        self._on_job_end(job.record(execution_s or 0.0, joules))

    # Events

    def _happen(self, kind: int, subject: Any) -> None:
        if kind == COMPLETION:
            if subject.state == RUNNING:  # and not killed at this date
                self._end(subject, *subject.outcome())
        elif kind == EXTERNAL:
            self._external(subject)
        elif kind == SUBMISSION:
            if subject.state == NOT_SUBMITTED:  # and not registered by the scheduler
                subject.state = SUBMITTED
                self.jobs_submitted += 1
                if self._energy:
                    self._energy.submitted(self.now)
            self._tell("JOB_SUBMITTED", wire.job_submitted(subject, with_profile=self.settings.forward_profiles))
        elif kind == CALL:
            self._tell("REQUESTED_CALL")
        elif kind == NOTICE:
            self._tell(*subject)
        elif kind == DECISION:
            self._obey(*subject)
        elif kind == KILL:
            self._killed(subject)
        else:
            self._ready = True

    def _end(self, job: SimulatedJob, execution_s: float, state: str, return_code: int) -> None:
        assert job.machines
        self._conclude(job, state, execution_s)
        self._tell("JOB_COMPLETED", wire.job_completed(job, return_code))

    def _killed(self, jobs: list[SimulatedJob]) -> None:
        """Kill those of the jobs that still run, and acknowledge all."""
        entries = {}
        for job in jobs:
            if job.state == RUNNING:
                ran_s = self.now - job.start_date
                entries[job.id_json], computes = wire.progress(job.task, ran_s)
                self._end(job, ran_s, KILLED, -2 if computes else -1)  # Batsim's return codes
        self._tell("JOB_KILLED", wire.jobs_killed(jobs, entries))

    def _external(self, event: ExternalEvent) -> None:
        if event.machines is not None:
            change = self.machines.restore if event.type == "machine_available" else self.machines.withdraw
            if why_not := change(event.machines, self.now):
                raise self._stop(f"the external event {event.type} of {event.machines.text} cannot happen: {why_not}")
        self._tell("NOTIFY", wire.external_event(event))

    # The exchange with the scheduler

    def _tell(self, kind: str, data: bytes = b"{}") -> None:
        """Add an event to the next message; `data` is a JSON object."""
        self._outbox.append(b'{"timestamp":%.6f,"type":"%b","data":%b}' % (self.now, kind.encode(), data))

    def _send(self) -> None:
        reply = self._deliver()
        due = self.now
        for place, event in enumerate(reply.events):
            due = max(due, float(event.timestamp))
            decision = event, f"{self.messages_sent}, events[{place}], {type(event).__name__}"
            if due <= self.now + RESOLUTION_S:
                self._obey(*decision)
            else:  # the scheduler took simulated time to decide
                self._plan(due, DECISION, decision)
        if reply.now > self.now + RESOLUTION_S:
            self._ready = False
            self._plan(float(reply.now), READY, None)

    def _obey(self, event: Any, where: str) -> None:
        try:
            getattr(self, event.means)(event.data)
        except WorkloadError as error:
            why = on_command_line(error)
            raise self._stop(f"the scheduler's reply to message {where}: {why:.500}") from None

    def _deliver(self) -> Any:
        """Send the message, drop the jobs whose ends it reported, and return the reply."""
        text = b'{"now":%.6f,"events":[%b]}' % (self.now, b",".join(self._outbox))
        self._outbox.clear()
        self.messages_sent += 1
        started = perf_counter()
        answer = self._exchange(text)
        self.scheduling_s += perf_counter() - started
        for job in self._ended:
            self.catalogue.forget(job)
        self._ended.clear()
        try:
            reply = REPLY.decode(answer)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = " ".join(str(error).split())
            raise self._stop(
                f"the scheduler's reply to message {self.messages_sent} is none of Batsim 4's that is simulated here: "
                f"{why:.300}"
            ) from None
        dates = [0, *(event.timestamp for event in reply.events), reply.now]
        if dates != sorted(dates) or reply.now < self.now - RESOLUTION_S:
            raise self._stop(
                f"the scheduler's reply to message {self.messages_sent} has dates that go back, or are past: its "
                f"events' {dates[1:-1]!s:.60}, and 'now' {reply.now}"
            )
        return reply

    def _plan(self, date: float, kind: int, subject: Any) -> None:
        heapq.heappush(self._queue, (date, kind, self._sequence, subject))
        self._sequence += 1

    def _is_over(self) -> bool:
        """Whether no event (requested calls included), job or registration is left."""
        while self._queue and _is_void(self._queue[0]):
            heapq.heappop(self._queue)
        return not self._queue and not self.registering and self.jobs_done == self.jobs_submitted

    def _stop(self, why: str) -> SimulationStopped:
        return SimulationStopped(f"stopped at date {self.now:.6f}: {why}")

    def _stuck(self) -> SimulationStopped:
        left = [job.id for job in self.catalogue.unfinished()]
        if not left:
            return self._stop(
                f"{DEADLOCK}: all jobs have ended, and the scheduler never sent {END_OF_REGISTRATION}; it "
                "must, if it may register jobs"
            )
        some = ", ".join(left[:SHOWN_JOBS]) + (", ..." if len(left) > SHOWN_JOBS else "")
        return self._stop(
            f"{DEADLOCK}: {len(left)} jobs are never executed ({some}): nothing runs, nothing else will be submitted, "
            "and the scheduler requested no call; make it execute or reject every job"
        )


def _is_void(entry: HeapEntry) -> bool:
    return bool(entry[1] == COMPLETION and entry[3].state != RUNNING)


def _number(place: int | str | None) -> int:
    """An executor's place, which may be an integer or its digits; -1 for anything else."""
    text = str(place)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
