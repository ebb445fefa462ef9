"""The scheduler as a simulator sees it: a message's events in, decisions out, independent of the protocol.

A simulator's adapter calls `Agent` for each event of a message and `decide` after the last one; `Agent` replies by the
function `say`. `conversation.py` adapts Batsim's JSON, `scheduler.py` the callbacks of pybatsim.
"""

from __future__ import annotations

import heapq
import json
import logging
import math
import os
from collections import Counter
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from batfill.base.doors import door
from batfill.base.errors import BatfillError
from batfill.batsim_files.machines import intervals_text
from batfill.learn import Judgement
from batfill.live.cluster import Cluster
from batfill.live.request import Registration, job_request
from batfill.model.invariants import Ledger
from batfill.model.jobs import LARGE, LONGEST_S, SMALL
from batfill.model.kinds import margin_of
from batfill.model.options import (
    CLASS,
    LIVE,
    MACHINES,
    NEVER,
    NO_PREEMPTION,
    NO_PRESET,
    NO_SMALL,
    OPTIONS_FILE,
    PLAN,
    PRESETS,
    REJECT,
    UNLIMITED,
    WARNINGS,
    Options,
    plans_machines,
)
from batfill.protocol.decisions import Answer, CallAt, Execute, Kill, Notify, Reject, Waiting
from batfill.workloads.batsim_json import READ_FIELDS, unread_in, unread_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from batfill.learn.events import KnowledgeByName
    from batfill.live.request import Request
    from batfill.model.limits.pools import Pool
    from batfill.protocol.decisions import Decision

log = logging.getLogger("batfill")

UNKNOWN_S = -1  # a waiting time that is not known
ACKNOWLEDGE = "acknowledge_dynamic_jobs"  # what a simulator's text for the scheduler may ask for beside options


class Agent:
    """EASY backfilling for a simulation: it decides when a replay does; lowest machine ids first."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        # Selection and learning are imported only where they are used: a simulator may be waiting.
        self.given = dict(options)
        self.selection: Any = None  # the settings of the option `select`,
        self.choice: Any = None  # and what it chooses by, once the machines are known
        self.knowledge: KnowledgeByName | None = None
        plain = options
        if options.get("select") is not None:
            self.selection, plain = door("Selection").taken_from(options)
        self.preset = plain.get("preset") or NO_PRESET
        if plans_machines(self.preset):  # of which `Options` know nothing
            given = {name: value for name, value in plain.items() if value is not None}
            plain = {**PRESETS[self.preset].values, **given, "preset": None}
        live = {name: option.default for name, option in LIVE.items() if option.default is not None}
        live |= {name: value for name, value in plain.items() if name in LIVE and value is not None}
        self.live = {name: LIVE[name].check(name, value) for name, value in live.items()}
        self.margin_s = margin_of(self.live[PLAN])  # None if no plan is kept
        self.chosen = Options.of({name: value for name, value in plain.items() if name not in LIVE}, places=True)
        self.preempts = self.chosen.preempts > 0
        self.kills = self.chosen.kills or self.preempts  # whether jobs are killed and submitted again
        self.killing = "preempt", self.chosen.preempt, NO_PREEMPTION  # by which option, its value, and that of none
        if self.chosen.kills:
            self.killing = "kill", self.chosen.kill, NEVER
        self.refuse_contradictions()
        if self.chosen.learns:
            from batfill.learn.events import KnowledgeByName
            from batfill.learn.predictor import make

            self.knowledge = KnowledgeByName(make(self.chosen, None, None))
        self.chosen = self.chosen.in_seconds(None)
        if self.chosen.calendar is not None:  # what no machine changes: a simulator may be waiting when it is known
            self.chosen.calendar.require_form(by_ids=self.margin_s is not None)
        state_options(self.stated(), more=False)
        self.machines: list[int] = []
        self.ledger = Ledger(0)  # of the jobs that it started
        self.say: Callable[[Decision], None]
        self.registration = Registration(False, False, False)
        self.requests: dict[str, Request] = {}  # of the jobs that wait or run
        self.odd_fields: set[str] = set()  # fields of the user's that were unusable in a job
        self.pools, self.read = self.chosen.taken, READ_FIELDS | self.chosen.fields  # of jobs
        self.unread: Counter[str] = Counter()  # the jobs that have a field which nothing reads, by the field
        self.has_urgent = False  # whether a job is urgent
        self.taken: set[str] = set()  # pools of which a job has taken something
        self.has_classes = False  # whether a job has a class
        self.end_s = math.inf  # when the last job has ended
        self.rejected = 0
        self.reasons: set[str] = set()  # what the rejected jobs request
        self.change_s = -math.inf  # the last date of the calendar for which a call was requested
        self.calls: list[tuple[float, str]] = []  # heap of (when, job): small jobs to kill if they still run then
        self.due: list[str] = []  # jobs that have reached their dividers
        self.killed: dict[str, bool] = {}  # jobs whose kill is not acknowledged yet; whether for an urgent one
        self.returning: list[tuple[float, str, bool]] = []  # heap of (when, job to queue again, its `new`)
        self.stop_s = math.inf  # when another running job may be stopped for an urgent one
        self.registered: set[str] = set()  # jobs whose registration is not acknowledged yet
        self.all_submitted = False
        self.may_register = False  # True until the end of registrations is sent
        self.done = False

    def refuse_contradictions(self) -> None:
        chosen, calendar = self.chosen, self.chosen.calendar
        if calendar is not None and calendar.most_kills(1) > 0:
            raise BatfillError(
                f"option calendar: {calendar.name} has failures, and under Batsim machine events say what fails; leave "
                "the lines of kind failure out"
            )
        if chosen.checkpoint is not None:
            raise BatfillError(
                "option checkpoint: under Batsim a job that was killed runs its whole profile again; leave it out, or "
                "use a replay"
            )
        if self.selection:
            door("PolicyChoice").check(chosen)
        if self.margin_s is not None:
            from batfill.live.kept import KeptPlan

            KeptPlan.check(chosen)

    def stated(self) -> dict[str, Any]:
        stated = self.chosen.as_dict() | self.live
        if plans_machines(self.preset):
            stated["preset"] = self.preset
        if self.selection:
            stated |= {"policy": None, **self.selection.as_dict()}
        return stated | self.chosen.digests

    @cached_property
    def cluster(self) -> Cluster:
        if self.margin_s is None:
            return Cluster(self.machines, self.chosen, by_machines=self.chosen.reservation == MACHINES)
        from batfill.live.kept import KeptPlan, windows_of

        plan = KeptPlan(self.machines, self.margin_s, windows_of(self.chosen.calendar))
        return Cluster(self.machines, replace(self.chosen, calendar=None), plan=plan)  # the plan has the calendar

    # Events

    def begin(self, machines: Iterable[int], registration: Registration, say: Callable[[Decision], None]) -> None:
        self.say, self.registration, self.may_register = say, registration, registration.allowed
        self.machines = list(machines)
        self.chosen = self.chosen.sized(len(self.machines))
        self.pools = self.chosen.taken
        if self.chosen.calendar is not None:
            ids = self.machines if self.margin_s is not None else None
            self.chosen.calendar.require_machine(len(self.machines), self.chosen.pools, ids)
        self.ledger = Ledger(len(self.machines))
        if self.selection:
            self.choice = door("PolicyChoice")(self.cluster, self.chosen, self.selection)
        if self.kills and not (registration.allowed and registration.reuses_profiles):
            option, chosen, off = self.killing
            raise BatfillError(
                f"option {option}: {chosen} kills jobs and submits them again; "
                f"start Batsim with --enable-dynamic-jobs --enable-profile-reuse, or choose {option} {off}"
            )

    def submitted(self, name: str, job: Mapping[str, Any], now_s: float, extra: str | None = None) -> None:
        request = job_request(name, job, self.odd_fields, extra)
        if self.kills and name.partition("!")[0] in self.registration.workflows:
            option, chosen, off = self.killing
            raise BatfillError(
                f"job {name!r:.60} is part of a workflow, in which no job follows one that was killed and submitted "
                f"again; choose {option} {off}, not {chosen}, or leave the workflow out"
            )
        if name in self.registered:
            self.registered.remove(name)
            self.cluster.requeue(name, now_s)
            return
        if not self.read.issuperset(job):  # which is rare, and takes a third of the time of a difference
            self.unread.update(unread_in(job) - self.read)
        self.has_classes |= request.job_class is not None
        impossible = self.impossible(request)
        self.taken.update(pool.name for _, pool in self.pools if self.amount(request, pool) > 0)
        if impossible is None:
            self.has_urgent |= self.cluster.submit(request, self.judge(request))
            if self.choice is not None:
                self.choice.submitted(request)
            self.requests[name] = request
            return
        requested, reason = impossible
        if self.rejected == 0:
            log.warning("%s requests %s: rejected; further such jobs are only counted", name, requested)
        self.rejected += 1
        self.reasons.add(reason)
        self.cluster.changed = True
        self.say(Reject(name))

    def answer(self, query: Request, now_s: float) -> None:
        """Say how long a job would wait, unless jobs are killed, or expected to run for other than their requests."""
        wait_s = math.inf
        if not self.kills and self.knowledge is None and self.impossible(query) is None:
            wait_s = self.cluster.wait_s(query, self.judge(query), now_s)
        self.say(Answer(Waiting(query.name, round(wait_s, 6) if wait_s < math.inf else UNKNOWN_S)))

    def impossible(self, request: Request) -> tuple[str, str] | None:
        """What a job requests that can never run, and the reason in short; None if it can."""
        procs, size, calendar = request.procs, self.cluster.size, self.chosen.calendar
        if procs == 0:
            return "0 machines", "none"
        if procs > size:
            return f"{procs} of {size} machines", "more machines than there are"
        spare = {"": size - procs}
        for _, pool in self.pools:
            if (amount := self.amount(request, pool)) > 0:
                spare[pool.name] = pool.capacity - amount
            if spare.get(pool.name, 0) < 0:
                from batfill.model.limits.pools import amount_text

                if request.amounts.get(pool.reads) == math.inf:
                    return f"no number >= 0 of {pool.reads}", f"no number of {pool.reads}"
                return f"{amount_text(amount, pool.base)} of {pool.name}", f"more {pool.name} than there is"
        if calendar and not calendar.has_gap(spare, request.expected_s, request.submit_s):
            return f"{procs} of {size} machines, for which {calendar.name} has no gap", f"a gap in {calendar.name}"
        needs_walltime = self.cluster.plan is not None or self.live[UNLIMITED] == REJECT
        if needs_walltime and request.expected_s == math.inf:
            return "no walltime", "no walltime"
        return None

    def amount(self, request: Request, pool: Pool) -> int:
        return 0 if pool.of_user and request.user < 0 else int(pool.amount(request.amounts, request.procs))

    def judge(self, request: Request) -> Judgement:
        if self.knowledge is None:
            if self.chosen.small == NO_SMALL:
                return Judgement(request.expected_s, False)  # by place, which takes half the time
            job_class = SMALL if request.job_class == "small" else LARGE
            small = self.chosen.calls_small(job_class, request.procs, self.cluster.size)
            return Judgement(request.expected_s, bool(small))
        judgement = self.knowledge.judge(
            request.name,
            request.submit_s,
            request.expected_s,
            request.procs,
            user=request.user,
            killable=request.killable and request.procs <= self.cluster.widest_try,
            request_s=request.request_s,
        )
        if self.kills:
            self.cluster.queue.change_divider(self.knowledge.divider_s, bound=self.chosen.bound)
        return judgement

    def ended(self, job: str, now_s: float, *, killed: bool) -> None:
        """Release a job that has ended; `killed` on our request, which this alone reports, it becomes large."""
        request = self.requests.pop(job)
        again = request.next_try() if killed and job in self.killed else None
        name = again.name if again is not None else None
        stopped = self.killed.pop(job, False)
        self.end_s = now_s
        self.ledger.end(job, now_s)
        if self.choice is not None:
            self.choice.ended(job)
        if self.cluster.dated:
            self.cluster.queue.pay(now_s)
        self.cluster.end(job, name, stopped=stopped)
        if self.knowledge is not None:
            self.knowledge.ended(job, now_s, name)
        if again is None:
            return
        self.requests[again.name] = again
        self.queue_again(again.name, now_s, self.chosen.requeue_delay_s if stopped else 0.0)

    def queue_again(self, job: str, now_s: float, delay_s: float = 0.0, *, new: bool = True) -> None:
        """Queue a job again after a delay; `new`: whether the simulator does not know it yet."""
        if delay_s:
            heapq.heappush(self.returning, (now_s + delay_s, job, new))
            self.say(CallAt(now_s + delay_s))
            return
        if new:
            self.say(self.requests[job].registered())
        if new and self.registration.acknowledged:
            self.registered.add(job)
        else:
            self.cluster.requeue(job, now_s)

    def called(self, now_s: float) -> None:
        while self.returning and self.returning[0][0] <= now_s:
            _, job, new = heapq.heappop(self.returning)
            self.queue_again(job, now_s, new=new)
        while self.calls and self.calls[0][0] <= now_s:
            self.due.append(heapq.heappop(self.calls)[1])

    def no_more_jobs(self) -> None:
        self.all_submitted = True

    def finish(self) -> None:
        """Check the invariants and log warnings at the end of the simulation, when nothing can be sent any more."""
        from batfill.model.limits.dates import unreached

        self.done = True
        self.ledger.check(over=False)
        warnings = [*unread_lines(self.unread), *self.chosen.warnings]
        if self.rejected:
            warnings.append(f"{self.rejected} jobs were rejected: they request {' or '.join(sorted(self.reasons))}")
        for option, pool in self.pools:
            if pool.name not in self.taken:
                warnings.append(f"option {option} did nothing: {pool.unused}")
        if (urgent := self.chosen.urgent) is not None and not (self.has_urgent or urgent.share):
            warnings.append(f"option urgent did nothing: {urgent.unused}")
        if self.chosen.small == CLASS and not self.has_classes:
            warnings.append(
                "option small did nothing: no job had a field `class`; choose small all, or a workload with classes"
            )
        warnings += unreached({name.replace("_", "-"): one for name, one in self.chosen.dated.items()}, self.end_s)
        for line in warnings:
            log.warning("%s", line)
        state_options({WARNINGS: warnings})

    # The decision

    def decide(self, now_s: float) -> None:
        """Make a decision after all events of a message, if a replay makes one then."""
        if self.done:
            return
        if self.due:
            self.due = [job for job in self.due if job in self.cluster.rows]
            if not self.chosen.spares:
                for job in self.due:
                    self.kill(job)
                self.due.clear()

        # No decision is made between a kill and its report. With kill always, recorded runs of Batsim decide before it
        # acknowledges the killed job.
        cluster = self.cluster
        waits = self.killed or (self.registered and (self.chosen.spares or self.preempts))
        happened = self.due or cluster.changed or cluster.plan is not None or self.stop_s <= now_s
        if not waits and (happened or (cluster.dated and cluster.queue.next_change_s(math.inf) <= now_s)):
            if self.choice is not None:
                self.choice.before_decision(now_s)
            self.start_jobs(now_s)
            while self.due and not self.killed:  # those at their dividers, until one is killed
                job = min(self.due, key=cluster.lost_work)
                self.due.remove(job)
                if cluster.kill_pays(job, now_s):
                    self.kill(job)
                else:
                    self.start_jobs(now_s)

        self.stop_s = cluster.next_stop_s(now_s)
        if cluster.dated or self.stop_s < math.inf:
            self.ask_for_change(now_s)

        if self.knowledge is not None and not self.all_submitted:
            self.knowledge.at(now_s)

        more = cluster.killable or self.registered or self.returning or (self.preempts and cluster.rushed)
        if self.may_register and self.all_submitted and not more:
            self.may_register = False
            self.say(Notify("registration_finished"))

    def ask_for_change(self, now_s: float) -> None:
        """Ask for a call at the next date with a decision, unless one comes earlier: that one asks again."""
        change_s = min(self.cluster.queue.next_change_s(math.inf), self.stop_s)  # inf if no job waits
        # Behind a job without a walltime a reservation begins later than any date. A call may come to nothing, because
        # the reservation that it was for begins later now.
        if now_s < change_s < LONGEST_S and (change_s < self.change_s or self.change_s <= now_s):
            self.change_s = change_s
            self.say(CallAt(change_s))

    def start_jobs(self, now_s: float) -> None:
        """Run a pass, start its jobs, and ask for a call at their dividers, or where a kept plan needs one.

        Then stop those that an urgent job needs; those of them that would start now wait instead. At least one runs, as
        otherwise the urgent job would have started.
        """
        starts = self.cluster.decide(now_s)
        stopped = self.cluster.to_stop(now_s) if self.preempts else set()
        withheld = [start.job for start in starts if start.job in stopped]
        for start in starts:
            if start.job in withheld:
                continue
            self.say(Execute(start.job, intervals_text(start.machines)))
            request = self.requests[start.job]
            self.ledger.start(start.job, request.submit_s, request.procs, now_s)
            if self.knowledge is not None:
                self.knowledge.started(start.job, now_s)
            if self.choice is not None:
                self.choice.started(start.job, now_s)
            if start.kill_at_s < math.inf:
                heapq.heappush(self.calls, (start.kill_at_s, start.job))
                self.say(CallAt(start.kill_at_s))
        if self.cluster.plan is not None and (call_s := self.cluster.plan.call_s()) < math.inf:
            self.say(CallAt(call_s))
        for job in sorted(stopped.difference(withheld)):
            self.kill(job, stopped=True)
        for job in withheld:
            self.cluster.end(job, job, stopped=True)
            self.queue_again(job, now_s, self.chosen.requeue_delay_s, new=False)

    def kill(self, job: str, *, stopped: bool = False) -> None:
        self.killed[job] = stopped
        self.say(Kill([job]))


def object_in(text: str) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if type(found) is dict else None


def with_options(agent: Agent, text: str, where: str) -> tuple[Agent, bool | None]:
    """An agent that also takes the options in a JSON text, and what they say of `ACKNOWLEDGE`; warns of other text."""
    found = object_in(text)
    if found is None:
        if text.strip():
            log.warning("%s is ignored: %.100r; options are a JSON object, such as {'policy': 'saf'}", where, text)
        return agent, None
    acknowledge = found.pop(ACKNOWLEDGE, None)
    if acknowledge is not None and type(acknowledge) is not bool:
        raise BatfillError(f"{where} has {ACKNOWLEDGE!r}: {acknowledge!r:.60}; it is true or false")
    if not found:
        return agent, acknowledge
    try:
        whole = Agent({**agent.given, **found})
    except BatfillError as error:
        raise BatfillError(f"{where}: {error}") from None
    ours, theirs = agent.stated(), whole.stated()
    for name in found:
        if agent.given.get(name) is not None and ours.get(name) != theirs.get(name):
            raise BatfillError(
                f"{where} has {name!r}: {found[name]!r:.60}, but the scheduler was started with "
                f"{agent.given[name]!r:.60}; give it in one place"
            )
    return whole, acknowledge


def state_options(stated: dict[str, Any], *, more: bool = True) -> None:
    """Write options in force as JSON to the file named by `OPTIONS_FILE`, for `batfill run`; `more`: add them."""
    if path := os.environ.get(OPTIONS_FILE):
        try:
            known = json.loads(Path(path).read_text()) if more else {}
            Path(path).write_text(json.dumps(known | stated))
        except OSError as error:
            log.warning("%s: the options in force cannot be written: %s", path, error)
