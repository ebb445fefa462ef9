"""The pybatsim plug-in: passes pybatsim's callbacks to an `Agent` and the agent's decisions to pybatsim.

Start it as `pybatsim batfill/scheduler -s tcp://127.0.0.1:28000 -t 0 -v warning -o '{"policy": "saf"}'`. `batfill
schedule` makes the same decisions without pybatsim (`live/serve.py`), faster, and under Batsim 5, too.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from procset import ProcSet

from batfill.base.errors import BatfillError, missing
from batfill.live.agent import Agent, with_options
from batfill.live.conversation import GAVE_UP, workflows_of
from batfill.live.request import Registration, job_request
from batfill.live.serve import GONE, LOOK_S, Visitors
from batfill.protocol.decisions import CallAt, Execute, Kill, Register, Registering, Reject

try:
    from batsim.batsim import BatsimScheduler, Job
except ModuleNotFoundError:
    raise missing("batsim", "pybatsim") from None

if TYPE_CHECKING:
    from collections.abc import Callable

    from batfill.protocol.decisions import Decision


def giving_up(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, which ends the process and Batsim after a user's mistake instead of raising an exception."""

    @wraps(callback)
    def careful(self: Scheduler, *given: Any) -> None:
        try:
            callback(self, *given)
        except BatfillError as error:
            event = {"timestamp": self.bs.time(), "type": GAVE_UP, "data": {}}
            self.bs.network.send({"now": self.bs.time(), "events": [event]})
            give_up(error.on_command_line)

    return careful


class Scheduler(BatsimScheduler):  # type: ignore[misc] # pybatsim has no types
    """EASY backfilling with a reordered queue; takes the options of `Agent`."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options or {})
        self.visitors: Visitors | None = None  # under `-t 0`, once the simulation has begun
        try:
            self.agent = Agent(self.options)
        except BatfillError as error:
            give_up(error.on_command_line)

    # From pybatsim

    @giving_up
    def onSimulationBegins(self) -> None:
        """See `Agent.begin`; storage resources are not machines.

        Under `-t 0` pybatsim would wait for ever for a Batsim that is gone: from now on it looks for it.
        """
        network = self.bs.network
        if network.timeout <= 0:
            network.timeout = int(LOOK_S * 1000)
            self.visitors = Visitors(network.connection, here=1)
        config = self.bs.batconf
        registration = Registration(
            bool(config["dynamic-jobs-enabled"]),
            config["profile-reuse-enabled"],
            config["dynamic-jobs-acknowledged"],
            workflows_of(self.bs.profiles),
        )
        self.agent, _ = with_options(self.agent, config["sched-config"], "Batsim's --sched-cfg")
        self.agent.begin(self.bs.compute_resources, registration, self.say)

    def onDeadlock(self) -> None:
        """No message came in time; under `-t 0` this ends the process only if Batsim is gone."""
        if self.visitors is None:
            super().onDeadlock()
        elif self.visitors.are_gone():
            give_up(GONE, 1)

    @giving_up
    def onJobSubmission(self, job: Job) -> None:
        request = job_request(job.id, job.json_dict, self.agent.odd_fields)
        if job.id not in self.agent.registered:
            self.agent.note_fields(job.json_dict)
        self.agent.submitted(request, self.bs.time())

    def onJobCompletion(self, job: Job) -> None:
        self.agent.ended(job.id, self.bs.time(), killed=job.job_state == Job.State.COMPLETED_KILLED)

    def onRequestedCall(self) -> None:
        self.agent.called(self.bs.time())

    def onNoMoreJobsInWorkloads(self) -> None:
        self.agent.no_more_jobs()

    def onNotifyEventMachineUnavailable(self, machines: ProcSet) -> None:
        self.agent.cluster.withdraw(machines)

    def onNotifyEventMachineAvailable(self, machines: ProcSet) -> None:
        self.agent.cluster.restore(machines)

    onRemoveResources = onNotifyEventMachineUnavailable
    onAddResources = onNotifyEventMachineAvailable

    def onSimulationEnds(self) -> None:
        self.agent.finish()
        if self.visitors is not None:
            self.visitors.close()

    @giving_up
    def onNoMoreEvents(self) -> None:
        self.agent.decide(self.bs.time())

    # To pybatsim

    def say(self, decision: Decision) -> None:
        """Pass a decision of the agent's on; sends a kill per job, as pybatsim fails if only some of several run."""
        if isinstance(decision, Execute):
            started = self.bs.jobs[decision.job]
            started.allocation = ProcSet.from_str(decision.machines)
            self.bs.execute_job(started)
        elif isinstance(decision, Reject):
            self.bs.reject_jobs([self.bs.jobs[decision.job]])
        elif isinstance(decision, Kill):
            for job in decision.jobs:
                self.bs.kill_jobs([self.bs.jobs[job]])
        elif isinstance(decision, CallAt):
            self.bs.wake_me_up_at(decision.date_s)
        elif isinstance(decision, Register):
            raw = decision.raw
            self.bs.register_job(decision.job, raw["res"], raw["walltime"], raw["profile"], raw["subtime"])
        else:
            assert isinstance(decision, Registering)
            self.bs.notify_registration_finished()

    def nothing(self, *_: Any) -> None:
        """What follows changes no decision; pybatsim's defaults raise NotImplementedError."""

    onJobsKilled = nothing  # a killed job is also reported as completed, which frees its machines
    onMachinePStateChanged = nothing  # machines are never switched off
    onDatasetArrivedOnStorage = onDataTransferNotTerminated = nothing  # no data is staged
    onJobMessage = onReportEnergyConsumed = onNotifyGenericEvent = nothing


def give_up(message: str, status: int = 2) -> NoReturn:
    """End the process, by default after a user's mistake; pybatsim would print a traceback for an exception."""
    print(f"batfill: {message}", file=sys.stderr)
    sys.exit(status)
