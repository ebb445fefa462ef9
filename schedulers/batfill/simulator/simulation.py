"""The simulation: an event queue, and the exchange of messages with a scheduler that makes every decision.

All events of one date go into one message; those that the scheduler's reply causes at that same date (a kill, an
acknowledged registration) go into the next. With a seed for splitting, a date's events are spread over several messages
at random, which is what Batsim does on platforms with finite bandwidths.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

from batfill.base.errors import WorkloadError, on_command_line
from batfill.batsim_files.machines import Machines, MachineSet, machine_set
from batfill.batsim_files.results import NOT_MEASURED, NULL_EXECUTION_S
from batfill.model.invariants import Ledger
from batfill.model.jobs import LONGEST_S
from batfill.model.schedule import KILLED, REJECTED
from batfill.protocol import decisions
from batfill.protocol.forms import RESOLUTION_S, FormError, shown_type
from batfill.simulator.catalogue import COMPLETED_BY_HAND, NOT_SUBMITTED, RUNNING, SUBMITTED, Catalogue, SimulatedJob
from batfill.simulator.wire import Asked, Reply, SimulationStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.batsim_files.external_events import ExternalEvent
    from batfill.batsim_files.platform import Platform
    from batfill.batsim_files.results import JobRecord
    from batfill.simulator.energy import EnergyMeter
    from batfill.simulator.wire import SimulationSettings, Wire
    from batfill.workloads.batsim_json import BatsimDocument

# Order of the events of one date. A job that ends by itself at the date of its kill is complete, as in Batsim.
DECISION, COMPLETION, KILL, EXTERNAL, SUBMISSION, CALL, NOTICE, READY = range(8)
HeapEntry = tuple[float, int, int, Any]  # date, kind, sequence, subject
SHOWN_JOBS = 5
DEADLOCK = "Deadlock detected"  # tools look for Batsim's words


@dataclass(slots=True, eq=False)
class Call:
    """A call that the scheduler requested: one, or one at each multiple of a period, counted from date 0."""

    id: str = ""
    period_ms: int = 0  # 0: one call
    left: int | None = None  # periodic calls still to come; None for ever
    place: int = 0  # of the next periodic call: its date in periods
    stopped: bool = False


class Simulation:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS.

    Args:
        platform: the machines.
        workloads: the documents, by name ("w0", "w1", ...).
        exchange: sends a message and returns the scheduler's reply.
        settings: what Batsim's options, or the scheduler's features, determine.
        wire: the version of the protocol.
        on_job_end: called with each job as it ends.
        on_machine_states: called with (date, idle machines, computing machines) after each start and end.
        energy: measures what the hosts draw; None if that is not simulated.
        on_remark: called with a line on what the scheduler does without effect.
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
        wire: Wire,
        on_job_end: Callable[[JobRecord], None] = lambda record: None,
        on_machine_states: Callable[[tuple[float, int, int]], None] = lambda row: None,
        energy: EnergyMeter | None = None,
        on_remark: Callable[[str], None] = lambda line: None,
        events: list[ExternalEvent] | None = None,
        split_events: int | None = None,
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
            until_last_job=wire.profiles_until_last_job,
            to_reuse=wire.to_reuse,
            speed=None if settings.share_compute else platform.speed,
        )
        self.machines = Machines(
            len(platform.machines),
            platform.storage_ids,
            share_compute=settings.share_compute,
            share_storage=settings.share_storage,
        )
        self._wire = wire
        self._platform = platform
        self._paths = {name: str(document.path.absolute()) for name, document in workloads.items()}
        self._exchange = exchange
        self._split = None if split_events is None else Random(split_events)
        self._on_job_end = on_job_end
        self._on_machine_states = on_machine_states
        self._energy = energy
        self._on_remark = on_remark
        self._calls: list[Call] = []  # periodic ones that are not stopped
        self._forced = False  # the scheduler ended the simulation
        self._ledger = Ledger(self.machines.exclusive())
        self._ready = True  # the simulation has reached the date of the scheduler's last reply
        self._outbox: list[bytes] = []
        self._n_files = len(workloads) + (events is not None)
        self._ended: list[SimulatedJob] = []  # jobs to drop from the catalogue once their ends are sent
        self._sequence = 0
        self._queue: list[HeapEntry] = []
        for job in self.catalogue.static_jobs:
            self._plan(job.subtime, SUBMISSION, job)
        if workloads:
            last = max((job.subtime for job in self.catalogue.static_jobs), default=0.0)
            self._plan(last, NOTICE, wire.no_more_jobs)
        if events is not None:
            for event in events:
                self._plan(event.date, EXTERNAL, event)
            self._plan(max((e.date for e in events), default=0.0), NOTICE, wire.no_more_external_events)

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
            InternalError: the simulation violates an invariant.
        """
        self._begin()
        self._send()
        while not self._forced:
            if self._ready and self._outbox:
                self._send()
            elif self._ready and self._is_over():
                break
            elif batch := self.next_batch():
                self._advance(batch)
            else:
                raise self._stuck()
        self._outbox[:] = [self._wire.event(self.now, "end")]
        if late := self._deliver().events:
            raise self._refuse(late[0], "the simulation has ended; its end is answered without events")
        self._ledger.check(over=not self._forced)

    def _begin(self) -> None:
        """Put the first event into the first message."""
        self._outbox.append(
            self._wire.simulation_begins(self._platform, self.settings, self._paths, self.catalogue.profiles)
        )
        if self._wire.begins_with_submissions and self._n_files > 1 and self._queue and self._queue[0][0] == 0:
            self._advance(self.next_batch())

    def _advance(self, batch: list[HeapEntry]) -> None:
        """Let these events of one date happen."""
        self.now = batch[0][0]
        for _, kind, _, subject in batch:
            self._happen(kind, subject)

    def next_batch(self) -> list[HeapEntry]:
        """Remove and return all events of the earliest date, but decisions alone, since kills may follow from them.

        Under Batsim 5 notices are alone, too, unless they are of date 0.
        """
        queue = self._queue
        batch: list[HeapEntry] = []
        alone = self._wire.notices_alone
        while queue and (not batch or queue[0][0] == batch[0][0]):
            if batch and batch[0][1] == DECISION != queue[0][1]:
                break
            if alone and batch and queue[0][0] > 0 and (batch[0][1] == NOTICE) != (queue[0][1] == NOTICE):
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
                kind = SUBMISSION if subject == self._wire.no_more_jobs else EXTERNAL
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

    # The effects of decisions. One that would make Batsim abort raises WorkloadError with the reason; `_obey` adds the
    # date.

    def _execute(self, job_id: str, machines: str, mapping: Sequence[Any] | None) -> None:
        job = self._job(job_id, SUBMITTED, "start")
        try:
            given = machine_set(machines, self.machines.size)
        except ValueError as error:
            raise WorkloadError(f"job {job.id!r}: {on_command_line(error)}") from None
        if why_not := self.machines.obstacle(given):
            raise WorkloadError(f"job {job.id!r} cannot start on {given.text}: {why_not}")
        for executor, place in enumerate(mapping or ()):
            if type(place) is not int or not 0 <= place < given.size:
                raise WorkloadError(
                    f"job {job.id!r}: its mapping must give each executor 0, 1, ... a place in its {given.size} "
                    f"machines, an integer from 0; executor {executor} has {place!r:.60}"
                )
        n = given.size if mapping is None else len(mapping)
        if n != job.res:
            raise WorkloadError(f"job {job.id!r} requests {job.res} machines and gets {n} ({given.text})")
        if mapping and job.task.computes and len(set(mapping)) < n:
            raise WorkloadError(
                f"job {job.id!r}: its profile {job.profile!r} computes, and its mapping gives several executors one "
                "machine, whose speed they share; it runs under Batsim only"
            )
        self._start(job, given)

    def _reject(self, job_id: str) -> None:
        self._conclude(self._job(job_id, SUBMITTED, "be rejected"), REJECTED)

    def _kill(self, job_ids: Sequence[str], refuse_repeats: bool) -> None:
        """See `Kill`: after the scheduler's whole reply has been applied; a job that ends first is acknowledged."""
        jobs = [job for job in map(self.catalogue.__getitem__, job_ids) if not job.kill_requested]
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
        elif refuse_repeats:
            raise WorkloadError("the kill of each of these jobs is already requested, which leaves none to kill")

    def _call_at(self, date: float, call_id: str, refuse_past: bool) -> None:
        if refuse_past and date <= self.now:
            raise WorkloadError(f"the scheduler requests a call at {date:.6f}, which is not in the future")
        self._plan_call(float(date), Call(call_id))

    def _plan_call(self, date: float, call: Call) -> None:
        """Plan a call, at once if its date is past."""
        if date > LONGEST_S:
            raise WorkloadError(
                f"the scheduler requests a call at {date:g}; batfill's limit is {LONGEST_S:g} s, 30,000 years"
            )
        self._plan(max(date, self.now), CALL, call)

    def _call_every(self, period_ms: int, times: int | None, call_id: str) -> None:
        """See `CallEvery`; of two periods one divides the other."""
        call = Call(call_id, period_ms, times)
        for other in self._calls:
            if call.period_ms % other.period_ms and other.period_ms % call.period_ms:
                raise WorkloadError(
                    f"a period of {call.period_ms} ms and one of {other.period_ms} ms ({other.id!r:.40}): one must "
                    "divide the other"
                )
        self._calls.append(call)
        call.place = int(round(self.now * 1000, 3) // call.period_ms) + 1
        self._plan_call(call.place * call.period_ms / 1000, call)

    def _stop_calls(self, call_id: str) -> None:
        found = [call for call in self._calls if call.id == call_id]
        if not found:
            self._on_remark(f"date {self.now:.6f}: no periodic call {call_id!r:.60} is left to stop")
        for call in found:
            call.stopped = True
            self._calls.remove(call)

    def _register(self, job_id: str, raw: dict[str, Any], owner: str | None, submitted_now: bool) -> None:
        self._must_register("job")
        if submitted_now:
            raw["subtime"] = self.now
        job = self.catalogue.register_job(job_id, raw, owner)
        if job.subtime > self.now + RESOLUTION_S:
            raise WorkloadError(
                f"job {job.id!r} has the subtime {raw['subtime']}, later than its registration; give a date up to now"
            )
        job.state = SUBMITTED
        self.jobs_submitted += 1
        if self.settings.acknowledge:  # after the static submissions of this date, if those are still to come
            self._plan(self.now, SUBMISSION, job)

    def _register_profile(self, workload: str, name: str, raw: dict[str, Any]) -> None:
        self._must_register("profile")
        self.catalogue.register_profile(workload, name, raw)

    def _go_on_registering(self, goes_on: bool) -> None:
        if goes_on and not self.settings.dynamic_jobs:
            raise WorkloadError(f"registration cannot continue, since it is off; {self._wire.to_register}")
        self.registering = goes_on

    def _set_metadata(self, job_id: str, text: str) -> None:
        self.catalogue[job_id].metadata = text

    def _change_state(self, job_id: str, state: str) -> None:
        job = self.catalogue[job_id]
        if job.state == SUBMITTED and state == RUNNING:
            self._start(job, None)
        elif job.state == RUNNING and job.machines is None and state in COMPLETED_BY_HAND:
            self._conclude(job, state)
        elif job.state == SUBMITTED and state == REJECTED:
            raise WorkloadError(f"job {job.id!r} cannot become {REJECTED!r} in this way; send REJECT_JOB")
        else:
            started = " after EXECUTE_JOB" if job.machines else ""
            raise WorkloadError(f"job {job.id!r} cannot become {state!r}: its state is {job.state}{started}")

    def _ask_energy(self) -> None:
        """See `AskEnergy`; the answer is in the next message."""
        if self._energy is None:
            raise WorkloadError("the energy consumed is not simulated; run with --energy")
        answer = b'{"consumed_energy":%.6f}' % self._energy.read(self.now)
        self._plan(self.now, NOTICE, ("answered", answer))

    def _force_stop(self) -> None:
        """See `ForceStop`; jobs that have not ended are in no file."""
        self._forced = True

    def _job(self, job_id: str, state: str, to: str) -> SimulatedJob:
        """The job of this id, which must be in this state."""
        job = self.catalogue[job_id]
        if job.state != state:
            raise WorkloadError(f"job {job.id!r} cannot {to}: its state is {job.state}, not {state}")
        return job

    def _must_register(self, what: str) -> None:
        """Refuse a registration if registrations are off or finished."""
        if not self.settings.dynamic_jobs:
            raise WorkloadError(f"no {what} can be registered; {self._wire.to_register}")
        if not self.registering:
            raise WorkloadError(f"no {what} can be registered after {self._wire.end_of_registration}")

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
                if self._energy:
                    self._energy.submitted(self.now)
            self._outbox.append(
                self._wire.job_submitted(self.now, subject, with_profile=self.settings.forward_profiles)
            )
        elif kind == CALL:
            self._call(subject)
        elif kind == NOTICE:
            self._outbox.append(self._wire.event(self.now, *subject))
        elif kind == DECISION:
            self._obey(subject)
        elif kind == KILL:
            self._killed(subject)
        else:
            self._ready = True

    def _end(self, job: SimulatedJob, execution_s: float, state: str, return_code: int) -> None:
        """Release a job's machines, and send its completion to the scheduler."""
        assert job.machines
        self._conclude(job, state, execution_s)
        self._outbox.append(self._wire.job_completed(self.now, job, return_code))

    def _killed(self, jobs: list[SimulatedJob]) -> None:
        """Kill those of the jobs that still run, and acknowledge all."""
        running = [job for job in jobs if job.state == RUNNING]
        progress = [(job, job.progress(self.now)) for job in running]
        for job, made in progress:  # Batsim's return codes
            self._end(job, self.now - job.start_date, KILLED, -2 if made.computes else -1)
        self._outbox.append(self._wire.jobs_killed(self.now, jobs, progress))

    def _call(self, call: Call) -> None:
        """Call the scheduler, and plan the next call of a periodic one."""
        last = False
        if call.period_ms:
            if call.left is not None:
                call.left -= 1
                last = call.left == 0
            if last:
                self._calls.remove(call)
            else:
                call.place += 1
                self._plan_call(call.place * call.period_ms / 1000, call)
        self._outbox.append(self._wire.requested_call(self.now, call.id, last=last))

    def _external(self, event: ExternalEvent) -> None:
        """Handle an external event: machines change availability, or the scheduler gets an event to interpret."""
        if event.machines is not None:
            change = self.machines.restore if event.type == "machine_available" else self.machines.withdraw
            if why_not := change(event.machines, self.now):
                raise self._stop(f"the external event {event.type} of {event.machines.text} cannot happen: {why_not}")
        self._outbox.append(self._wire.external_event(self.now, event))

    def _obey(self, asked: Asked) -> None:
        """Apply one event of a reply."""
        try:
            decision = self._wire.version.decided(asked.type, asked.data)
            EFFECTS[type(decision)](self, *decision)
        except (WorkloadError, FormError) as error:
            raise self._refuse(asked, on_command_line(error)) from None

    # The exchange with the scheduler

    def _send(self) -> None:
        """Send the pending events, and apply the reply."""
        reply = self._deliver()
        due = self.now
        for asked in reply.events:
            due = max(due, asked.date)
            if due <= self.now + RESOLUTION_S:
                self._obey(asked)
            else:  # the scheduler took simulated time to decide
                self._plan(due, DECISION, asked)
        if reply.now > self.now + RESOLUTION_S:
            self._ready = False
            self._plan(reply.now, READY, None)

    def _deliver(self) -> Reply:
        """Send the message, drop the jobs whose ends it reported, and return the reply."""
        text = self._wire.message(self.now, self._outbox)
        self._outbox.clear()
        self.messages_sent += 1
        started = perf_counter()
        reply = self._exchange(text)
        self.scheduling_s += perf_counter() - started
        for job in self._ended:
            self.catalogue.forget(job)
        self._ended.clear()
        try:
            return self._wire.read_reply(reply, self.messages_sent, self.now)
        except FormError as error:
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

    def _refuse(self, asked: Asked, why: str) -> SimulationStopped:
        """The exception for an event of a reply that Batsim does not allow."""
        number, place = asked.where
        kind = shown_type(asked.type)
        return self._stop(f"the scheduler's reply to message {number}, events[{place}], {kind}: {why:.500}")

    def _stop(self, why: str) -> SimulationStopped:
        """The exception that ends a simulation that cannot continue."""
        return SimulationStopped(f"stopped at date {self.now:.6f}: {why}")

    def _stuck(self) -> SimulationStopped:
        """The exception for a simulation with work left and no event to come."""
        left = [job.id for job in self.catalogue.unfinished()]
        if not left:
            return self._stop(
                f"{DEADLOCK}: all jobs have ended, and the scheduler never sent {self._wire.end_of_registration}; it "
                "must, if it may register jobs"
            )
        some = ", ".join(left[:SHOWN_JOBS]) + (", ..." if len(left) > SHOWN_JOBS else "")
        return self._stop(
            f"{DEADLOCK}: {len(left)} jobs are never executed ({some}): nothing runs, nothing else will be submitted, "
            "and the scheduler requested no call; make it execute or reject every job"
        )


EFFECTS: Mapping[type[decisions.Decision], Callable[..., None]] = {
    decisions.Execute: Simulation._execute,
    decisions.Reject: Simulation._reject,
    decisions.Kill: Simulation._kill,
    decisions.CallAt: Simulation._call_at,
    decisions.CallEvery: Simulation._call_every,
    decisions.StopCalls: Simulation._stop_calls,
    decisions.Register: Simulation._register,
    decisions.RegisterProfile: Simulation._register_profile,
    decisions.Registering: Simulation._go_on_registering,
    decisions.SetMetadata: Simulation._set_metadata,
    decisions.ChangeState: Simulation._change_state,
    decisions.AskEnergy: Simulation._ask_energy,
    decisions.ForceStop: Simulation._force_stop,
}


def _is_void(entry: HeapEntry) -> bool:
    """Whether this is the completion of a job that has been killed, or a call that has been stopped."""
    return (entry[1] == COMPLETION and entry[3].state != RUNNING) or (entry[1] == CALL and entry[3].stopped)
