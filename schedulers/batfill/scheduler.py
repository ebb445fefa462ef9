"""The pybatsim plug-in: Batsim's messages to a `Cluster`, its decisions back to Batsim.

`pybatsim batfill/scheduler -t 0 -v warning -o '{"policy": "saf", "threshold": 200000}'`, or `batfill schedule`.
"""

from __future__ import annotations

import heapq
import json
import logging
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import zmq
from procset import ProcSet

from batfill.batsim.results import name_of
from batfill.cluster import Cluster
from batfill.engine.easy import decide
from batfill.engine.jit import announce_compilation
from batfill.errors import BatfillError, RunFailed, missing
from batfill.knowledge.choice import make
from batfill.knowledge.events import KnowledgeByName
from batfill.options import OPTIONS_FILE, USER, Options
from batfill.tuning.online import PolicyChoice, Selection
from batfill.workloads.batsim_json import user_of

try:
    from batsim.batsim import Batsim, BatsimScheduler, Job
except ModuleNotFoundError:
    raise missing("batsim", "pybatsim") from None

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger("batfill")


class Scheduler(BatsimScheduler):  # type: ignore[misc] # pybatsim has no types
    """EASY backfilling with a reordered queue; options as `options.Options` and `tuning.online.Selection`.

    One pass per message, after all of its events. Machines are taken lowest id first.
    """

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        super().__init__(options or {})
        self.knowledge: KnowledgeByName | None = None
        self.choice: PolicyChoice | None = None
        try:
            self.selection, plain = Selection.taken_from(self.options)
            self.chosen = Options.of(plain)
            if self.selection:
                PolicyChoice.check(self.chosen)
            if self.chosen.learning.knowledge != USER:
                self.knowledge = KnowledgeByName(make(self.chosen.learning, None, None))
        except BatfillError as error:
            give_up(str(error))
        for remark in self.chosen.remarks:
            log.warning("%s", remark)
        state_options(self.stated())
        self.classed = False  # whether a job has said its class
        self.cluster: Cluster
        self.rejected = 0
        self.calls: list[tuple[float, str]] = []  # heap of (when, job): small jobs to be killed if they still run then
        self.to_kill: list[Job] = []
        self.killed: set[str] = set()  # jobs whose kill was asked for and not answered yet
        self.tries: dict[str, tuple[str, int]] = {}  # first name and number of the tries that are not a job's first
        self.requeues: dict[str, str] = {}  # new name: old name, of registrations that are not acknowledged yet
        self.all_submitted = False
        self.registration_open = False
        self.done = False

    def stated(self) -> dict[str, Any]:
        """Every option in force by its name, default or not; those of a selection after the others."""
        stated = self.chosen.as_dict()
        if self.selection:
            stated |= {"policy": None, **self.selection.as_dict()}
        return stated

    # What happens when

    def onSimulationBegins(self) -> None:
        """Take stock of the machines; storage resources are none."""
        self.cluster = Cluster(self.bs.compute_resources, self.chosen)
        if self.selection:
            self.choice = PolicyChoice(self.cluster, self.chosen, self.selection)
        kills = self.chosen.divider_s < math.inf or self.chosen.learning.kill
        self.registration_open = bool(self.bs.dynamic_job_registration_enabled)
        if kills and not (self.registration_open and self.bs.batconf["profile-reuse-enabled"]):
            name = "kill" if self.chosen.learning.kill else "divider"
            give_up(
                f"option {name} kills jobs and submits them again; "
                f"start Batsim with --enable-dynamic-jobs --enable-profile-reuse, or leave the {name} out"
            )

    def onJobSubmission(self, job: Job) -> None:
        """Let a job wait, or reject it if it can never run."""
        if job.id in self.requeues:
            self.cluster.requeue(self.requeues.pop(job.id), self.bs.time(), job.id)
            return
        walltime_s = job.requested_time if job.requested_time > 0 else math.inf
        if not self.submit(job, walltime_s):
            if self.rejected == 0:
                log.warning(
                    "%s asks for %d of %d machines: rejected; others like it are only counted",
                    job.id,
                    job.requested_resources,
                    self.cluster.size,
                )
            self.rejected += 1
            self.bs.reject_jobs([job])

    def submit(self, job: Job, walltime_s: float) -> bool:
        """Let a job wait, with what is known of it; False where it can never run."""
        procs, fields = job.requested_resources, job.json_dict
        killable = fields.get("killable") is not False
        if self.knowledge is None or procs > self.cluster.size:
            small = self.chosen.divider_s < math.inf and fields.get("class") == "small"
            self.classed |= fields.get("class") in ("small", "large")
            level = 1 if small else None
            taken = self.cluster.submit(job.id, job.submit_time, walltime_s, procs, level=level, killable=killable)
            if taken and self.choice is not None:
                self.choice.submitted(job.id, job.submit_time, walltime_s, procs)
            return taken
        verdict = self.knowledge.judge(
            job.id, job.submit_time, walltime_s, procs, user=user_of(fields), killable=killable
        )
        kill = self.chosen.learning.kill
        if kill:
            self.cluster.renew_dividers(self.knowledge.dividers_s)
        return self.cluster.submit(
            job.id,
            job.submit_time,
            walltime_s,
            procs,
            level=verdict.level if verdict.small else None,
            killable=kill and killable,
            estimate_s=verdict.estimate_s,
        )

    def onJobCompletion(self, job: Job) -> None:
        """Take back the machines; submit a job again that was killed at a divider."""
        again = job.job_state == Job.State.COMPLETED_KILLED and job.id in self.killed
        self.killed.discard(job.id)
        if self.choice is not None:
            self.choice.ended(job.id)
        self.cluster.end(job.id, again=again)
        first, number = self.tries.pop(job.id, (job.id, 0))
        name = name_of(first, number + 1)
        if self.knowledge is not None:
            self.knowledge.ended(job.id, self.bs.time(), name if again else None)
        if not again:
            return
        self.tries[name] = first, number + 1
        self.bs.register_job(name, job.requested_resources, job.requested_time, job.profile, job.submit_time)
        if self.bs.ack_of_dynamic_jobs:
            self.requeues[name] = job.id
        else:
            self.cluster.requeue(job.id, self.bs.time(), name)

    def onRequestedCall(self) -> None:
        """Kill the small jobs that have run for their divider, unless this very message ends them."""
        while self.calls and self.calls[0][0] <= self.bs.time():
            _, name = heapq.heappop(self.calls)
            self.to_kill.append(self.bs.jobs[name])

    def onJobsKilled(self, jobs: Iterable[Job]) -> None:
        """Nothing: a killed job is also reported as completed, and its machines are free there and only there."""

    def onNoMoreJobsInWorkloads(self) -> None:
        """Remember that only jobs of our own can come now."""
        self.all_submitted = True

    def onNotifyEventMachineUnavailable(self, machines: ProcSet) -> None:
        """Use these machines no more."""
        self.cluster.withdraw(machines)

    def onNotifyEventMachineAvailable(self, machines: ProcSet) -> None:
        """These machines may be used again."""
        self.cluster.restore(machines)

    def onSimulationEnds(self) -> None:
        """Say how many jobs were rejected; nothing can be sent any more."""
        self.done = True
        if self.rejected:
            log.warning("%d jobs were rejected: they ask for more machines than there are", self.rejected)
        if self.chosen.divider_s < math.inf and not self.classed:
            log.warning(
                "option divider did nothing: no job had a field `class`; "
                "add knowledge classifier and kill, use a workload with classes, or leave the divider out"
            )

    def onNoMoreEvents(self) -> None:
        """Decide once, for the whole message."""
        if self.done:
            return
        for job in self.to_kill:
            if job.id in self.cluster.rows:
                self.killed.add(job.id)
                self.bs.kill_jobs([job])  # one event each: pybatsim fails on an answer where only some of several ran
        self.to_kill.clear()

        if self.choice is not None:
            self.choice.before_decision(self.bs.time())
        for start in self.cluster.decide(self.bs.time()):
            job = self.bs.jobs[start.job]
            job.allocation = ProcSet(*start.machines)
            self.bs.execute_job(job)
            for observer in (self.knowledge, self.choice):
                if observer is not None:
                    observer.started(job.id, self.bs.time())
            if start.kill_at_s < math.inf:
                heapq.heappush(self.calls, (start.kill_at_s, start.job))
                self.bs.wake_me_up_at(start.kill_at_s)

        if self.knowledge is not None and not self.all_submitted:
            self.knowledge.at(self.bs.time())

        if self.registration_open and self.all_submitted and not self.cluster.small_left and not self.requeues:
            self.registration_open = False
            self.bs.notify_registration_finished()

    # What batfill does not use; pybatsim raises NotImplementedError on each by default

    def onJobMessage(self, timestamp: float, job: Job, message: Any) -> None:
        """Nothing: a job's messages change no decision."""

    def onMachinePStateChanged(self, nodeid: Any, pstate: Any) -> None:
        """Nothing: machines are never switched off."""

    def onReportEnergyConsumed(self, consumed_energy: float) -> None:
        """Nothing: energy is not asked for."""

    def onAddResources(self, to_add: ProcSet) -> None:
        """These machines may be used again."""
        self.cluster.restore(to_add)

    def onRemoveResources(self, to_remove: ProcSet) -> None:
        """Use these machines no more."""
        self.cluster.withdraw(to_remove)

    def onNotifyGenericEvent(self, event_data: dict[str, Any]) -> None:
        """Nothing: an event of another program."""

    def onDatasetArrivedOnStorage(self, dataset_id: Any, source_id: Any, dest_id: Any) -> None:
        """Nothing: no data is staged."""

    def onDataTransferNotTerminated(self, dataset_id: Any, source_id: Any, dest_id: Any) -> None:
        """Nothing: no data is staged."""


def state_options(stated: dict[str, Any]) -> None:
    """Write the options in force as JSON to the file that `OPTIONS_FILE` names; `batfill run` reads it."""
    if path := os.environ.get(OPTIONS_FILE):
        try:
            Path(path).write_text(json.dumps(stated))
        except OSError as error:
            log.warning("%s: the options in force cannot be written: %s", path, error)


def give_up(message: str) -> NoReturn:
    """End the process for a user's mistake: pybatsim would show a traceback for an exception."""
    print(f"batfill: {message}", file=sys.stderr)
    sys.exit(2)


def serve(options: dict[str, Any], endpoint: str, timeout_ms: int = 0) -> Batsim:
    """Schedule for the one Batsim that connects to `endpoint`, to its end.

    Args:
        options: as `Scheduler`'s.
        endpoint: a ZeroMQ address to bind, as tcp://*:28000.
        timeout_ms: how long to wait for Batsim's next message; 0 for ever.

    Raises:
        BatfillError: an option or the endpoint cannot be used.
        RunFailed: Batsim did not answer in time, or jobs were neither started nor rejected.
    """
    scheduler = Scheduler(options)
    announce_compilation(decide)
    Cluster(range(2), scheduler.chosen).decide(0.0)  # load the compiled pass before Batsim waits for it
    try:
        batsim = Batsim(scheduler, endpoint, timeout_ms)
        batsim.start()
    except zmq.ZMQError as error:
        raise BatfillError(
            f"socket {endpoint}: {error}; give another with --socket, as tcp://*:28001, or end what uses it"
        ) from None
    except ValueError as error:  # pybatsim's word for a Batsim that has not answered within the timeout
        raise RunFailed(f"Batsim has not sent a message for {timeout_ms} ms: {error}") from None
    left = batsim.nb_jobs_submitted - batsim.nb_jobs_scheduled - batsim.nb_jobs_rejected
    if left:
        raise RunFailed(f"{left} of {batsim.nb_jobs_submitted} jobs were neither started nor rejected")
    return batsim
