"""The queue: the waiting and running jobs of one machine and the rules in force, in the arrays of the engine.

`EngineReplay` knows all jobs in advance, `Cluster` receives one event at a time; both are built on it. Kernels outside
`engine/` that decide for themselves (machines, agents) get its arrays as arguments.
"""

from __future__ import annotations

import copy
import math
from bisect import bisect
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from batfill.engine import blocks, easy, ends, loop, running, waiting
from batfill.engine.loop import Events, Given
from batfill.engine.records import (
    AWAY,
    CANDIDATE,
    CHANGE,
    EVERY_JOB,
    FAR,
    GATE,
    JOB,
    LARGE,
    LINE,
    QUEUE,
    QUEUED_AGAIN,
    RULES,
    SLOT,
    SPARE_STEPS,
    STARTED,
    STEP,
    TRIES,
    TRY,
    URGENT,
    Decided,
    QueueArrays,
    QueueRules,
    as_records,
    new_records,
)
from batfill.engine.waiting import GAP
from batfill.model.values import GATE as GATE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from batfill.engine.records import QueueArrays
    from batfill.engine.violations import Marks
    from batfill.model.rules import Rules

Part = TypeVar("Part", bound=NamedTuple)

FIRST_CAPACITY = 1024


class Queue:
    """The waiting and running jobs of a machine of `size` processors. Jobs are named by their rows."""

    def __init__(self, size: int, rules: Rules, *, capacity: int = FIRST_CAPACITY, tries: bool = True) -> None:
        """An empty queue; `tries`: whether jobs can be small, or outlive what is expected of them.

        `change_rules` changes order, backfill order and threshold, `change_divider` the divider, `submit` the capacity.
        """
        self.size, self.rules = size, rules
        self.arrays: QueueArrays = QueueArrays(
            jobs=new_records(capacity, JOB),
            ages=np.arange(capacity, dtype=np.uint32),
            backfill_lines=new_records(0, LINE),
            tries=new_records(capacity if tries else 0, TRY),
            **of_pools(capacity, rules),
            blocks=blocks.new_blocks(size, capacity, len(rules.all_pools)),
            running=ends.new_ends(min(capacity, size)),
            candidates=new_records(capacity, CANDIDATE),
            **of_plan(capacity, size, rules),
            changes=changes_of(rules),
            rules=new_records(1, RULES),
            state=new_records(1, QUEUE),
        )
        self.arrays.jobs["section"] = AWAY
        self.arrays.state["free"] = size
        stated, pools = self.arrays.rules, rules.all_pools
        stated["reserving"] = sum(pool.reserves for pool in pools)
        stated["shared"] = sum(not pool.of_user for pool in pools)
        running.free_all(self.arrays)
        stated["procs"], stated["gated"] = size, rules.backfill_while is not None
        if (budget := rules.energy_budget) is not None:
            stated["energy"], stated["gain_w"] = stated["reserving"], budget.rate_w - budget.idle_w
            stated["from_s"], stated["until_s"], stated["holds"] = budget.begin, budget.end, budget.holds
        self.arrays.state["paid_s"] = -math.inf
        stated["bound_s"] = rules.divider_s if rules.bound else math.inf
        for each in fields(QueueRules):
            stated[each.name] = getattr(rules, each.name)
        self.started = Decided(new_records(size, STARTED))
        self.started_rows: NDArray[np.uint32] = self.started.tries["row"]  # `decide` returns parts of this view
        self.known = 0  # number of jobs, in rows 0, 1, ...
        self.user_numbers: dict[int, int] = {}  # of users, if jobs are submitted one by one and users have a limit
        self.has_key_requests = False  # whether a job's keys read another p~ than its expected run time
        self.one_job = np.zeros(1), np.zeros(1), np.zeros(1, np.int64)  # r, p~ and q of a job whose keys are computed
        self.by_age: list[tuple[float, str]] = []  # (r, id) of the jobs in `ages`, if they are submitted one by one
        self.adopt(rules)

    @property
    def jobs(self) -> NDArray[np.void]:
        """The jobs as the scheduler sees them, engine JOB (capacity,), read-only."""
        view = self.arrays.jobs.view()
        view.flags.writeable = False
        return view

    @property
    def free(self) -> int:
        return max(int(self.arrays.state["free"][0]), 0)

    @property
    def divider_s(self) -> float:
        return float(self.arrays.rules["divider_s"][0])

    @property
    def waiting_rows(self) -> NDArray[np.intp]:
        """The waiting jobs, oldest first."""
        ages = self.arrays.ages[: self.submitted]
        rows: NDArray[np.intp] = ages[self.arrays.jobs["section"][ages] != AWAY].astype(np.intp)
        return rows

    @property
    def running_rows(self) -> NDArray[np.intp]:
        return self.running["row"].astype(np.intp)

    @property
    def running(self) -> NDArray[np.void]:
        """The running jobs by expected end, engine END (n,), a copy."""
        jobs: NDArray[np.void] = ends.listed(self.arrays.running)
        return jobs

    def is_held(self, row: int) -> bool:
        """Whether the job is skipped, as a pool that skips lacks what it wants, such as its user's running jobs."""
        return bool(running.is_held(self.arrays, row))

    @property
    def submitted(self) -> int:
        """The number of jobs submitted so far, including those a replay rejected."""
        return int(self.arrays.state["submitted"][0])

    @property
    def start_s(self) -> NDArray[np.float64]:
        """When each job's last try started, shape (capacity,), a copy; nan before the first, and after a kill."""
        start_s: NDArray[np.float64] = self.arrays.jobs["start_s"].copy()
        return start_s

    def kill_after_s(self, row: int) -> float:
        """The divider of a job's last try, even if the try has gone on there; inf if it could not be killed."""
        tries = self.arrays.tries
        return float(tries["kill_after_s"][row]) if len(tries) else math.inf

    # The whole at once, for a replay

    def know(
        self,
        submit_s: NDArray[np.float64],
        expected_s: NDArray[np.float64],
        procs: NDArray[np.int64],
        user: NDArray[np.int64],
        *,
        outlives: bool,
        wants: NDArray[np.int64] | None = None,
    ) -> None:
        """Load all jobs, columns of shape (capacity,) ordered by age; none is submitted yet.

        `outlives`: whether jobs may run for longer than `expected_s`, p~. A user below 0 is unknown. `wants`: what they
        take of each pool, (capacity, n_pools).
        """
        jobs = self.arrays.jobs
        self.known = len(jobs)
        jobs["submit_s"], jobs["procs"], jobs["seq"] = submit_s, procs, np.arange(len(jobs))
        if len(self.arrays.tries):
            self.arrays.tries["unpredicted_s"] = expected_s
            self.arrays.tries["walltime_s"] = np.inf if outlives else expected_s
        if len(self.arrays.users):
            self.arrays.users[:] = users_by_number(user)
        if wants is not None:
            self.arrays.wants[:] = wants

    def reset(self, given: Given, events: Events) -> None:
        if self.arrays.state["waiting"][0]:
            blocks.clear(self.arrays.blocks)
        loop.reset(self.size, given, self.arrays, events)

    def advance(self, until_s: float, events: Events) -> int:
        """Process every event up to and including `until_s`; returns as `engine.loop.advance`."""
        return int(loop.advance(until_s, self.size, self.arrays, events))

    def next_instant_s(self, events: Events) -> float:
        """When something happens next in a replay; inf if nothing does."""
        return float(loop.next_instant_s(self.arrays, events))

    def advance_each(
        self,
        moves: NDArray[np.uint8],
        weights: NDArray[np.float64],
        lines: NDArray[np.void],
        start_s: NDArray[np.float64],
        given: Given,
        events: Events,
        scratch: Marks,
    ) -> bool:
        """Replay all jobs under each policy, as `engine.loop.advance_each`; returns whether every replay is sound."""
        return bool(loop.advance_each(moves, weights, lines, start_s, given, self.size, self.arrays, events, scratch))

    def ask(self, step: Callable[..., None], action: int, *, acts: bool, seen: Any) -> None:
        """Let an agent decide: `step` carries out its action if `acts`, and replays on to its next decision."""
        self.arrays.rules["agent"] = 1
        step(self.size, acts, action, self.arrays, *seen)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays, those of the waiting and the running jobs excepted."""
        return sum(array.nbytes for array in self.arrays if isinstance(array, np.ndarray))

    def start(self, row: int, now_s: float) -> None:
        running.start(float(now_s), self.arrays, row)
        running.unsettle(self.arrays)

    def enqueue_all(self, rows: NDArray[np.intp], submitted: int) -> None:
        self.arrays.state["submitted"] = submitted
        self.arrays.jobs["section"][rows] = QUEUED_AGAIN
        self.resort()

    def fork(self) -> Queue:
        other = copy.copy(self)
        other.arrays = with_scratch(copied(without_scratch(self.arrays)), self.rules)
        other.started, other.by_age = copied(self.started), list(self.by_age)
        other.started_rows = other.started.tries["row"]
        other.user_numbers, other.one_job = dict(self.user_numbers), copy.deepcopy(self.one_job)
        return other

    # Jobs come and go

    def submit(
        self,
        job_id: str,
        submit_s: float,
        unpredicted_s: float,
        procs: int,
        *,
        user: int = -1,
        small: bool = False,
        urgent: bool = False,
        killable: bool = False,
        expected_s: float | None = None,
        key_expected_s: float | None = None,
        outlives: bool = False,
        wants: Sequence[int] | None = None,
    ) -> int:
        """Queue a job that fits the machine; returns its row.

        `job_id` breaks ties of `submit_s`, as text, which may be earlier than that of a job submitted before.
        `unpredicted_s` is p~, inf without one; `expected_s` a prediction in its place, by default p~; `key_expected_s`
        that of the keys, which must not move, by default the expected run time. `outlives`: whether it may run for
        longer than p~. `wants`: what it takes of each of `rules.all_pools`, by default one. An urgent job is not small.
        """
        row = self.known
        if row == len(self.arrays.jobs):
            self.grow()
        expected_s = float(unpredicted_s if expected_s is None else expected_s)
        walltime_s = float(math.inf if outlives else unpredicted_s)
        if outlives:
            self.arrays.rules["outlived"] = 1
        self.has_key_requests |= key_expected_s is not None
        key, rise = self.keys(row, submit_s, expected_s if key_expected_s is None else key_expected_s, procs)
        if len(self.arrays.users) and user >= 0:
            self.arrays.users[row] = self.user_numbers.setdefault(user, len(self.user_numbers) + 1)
        if wants is not None:
            self.arrays.wants[row] = wants
        age = (submit_s, job_id)
        is_last = not self.by_age or self.by_age[-1] <= age  # nearly always
        place = len(self.by_age) if is_last else bisect(self.by_age, age)
        job = (
            float(submit_s),
            float(unpredicted_s),
            walltime_s,
            procs,
            int(URGENT if urgent else TRIES if small else LARGE),
            int(killable),
            expected_s,
            key,
            rise,
        )
        queued = waiting.submit(self.arrays, row, place, *job)
        self.by_age.insert(place, age)
        self.known += 1
        if not queued:
            jobs = self.arrays.jobs
            jobs["seq"][self.arrays.ages[: row + 1]] = np.arange(1, row + 2) * GAP
            jobs["section"][row] = QUEUED_AGAIN
            self.resort()
        return row

    def grow(self) -> None:
        """Double the number of jobs that fit, so that no kernel ever has to leave within a decision for more."""
        old, capacity = self.arrays, 2 * len(self.arrays.jobs)

        def grown(array: NDArray[Any], length: int = capacity) -> NDArray[Any]:
            longer: NDArray[Any] = np.concatenate([array, np.zeros(length - len(array), array.dtype)])
            records: NDArray[Any] = as_records(longer)
            return records

        self.arrays = old._replace(
            jobs=grown(old.jobs),
            ages=grown(old.ages),
            backfill_lines=grown(old.backfill_lines) if len(old.backfill_lines) else old.backfill_lines,
            tries=grown(old.tries),
            users=grown(old.users, capacity if len(old.users) else 0),
            **grown_pools(old, capacity),
            running=ends.enlarged_ends(old.running, min(capacity, self.size)),
            blocks=blocks.new_blocks(self.size, capacity, len(self.rules.all_pools)),
            candidates=grown(old.candidates),
            **of_plan(capacity, self.size, self.rules),
        )
        self.resort()

    def finish(self, row: int) -> None:
        running.finish(self.arrays, row)

    def kill_pays(self, row: int, now_s: float) -> bool:
        """Whether to kill a try that has reached its divider, after the pass at `now_s`, unless they always are."""
        waiting.bring_forward(float(now_s), self.arrays)
        return bool(easy.kill_pays(float(now_s), self.arrays, row))

    def spare(self, row: int) -> None:
        """Let a try of which `kill_pays` has said no go on as a large job."""
        waiting.spare(self.arrays, row)

    def demote(self, row: int) -> None:
        waiting.demote(self.arrays, row)

    def take_back(self, row: int) -> None:
        waiting.take_back(self.arrays, row)

    def choose_stopped(self, now_s: float) -> list[int]:
        """The running jobs to stop after the pass at `now_s`, for an urgent one."""
        rows: list[int] = self.arrays.candidates["row"][: easy.choose_stopped(float(now_s), self.arrays)].tolist()
        return rows

    def requeue(self, row: int, now_s: float) -> None:
        waiting.requeue(float(now_s), self.arrays, row)

    def decide(self, now_s: float) -> NDArray[np.uint32]:
        """Run one EASY pass at `now_s`; returns the rows of the started jobs, in start order."""
        return self.started_rows[: easy.decide(float(now_s), self.arrays, self.started)]

    def decide_with(self, kernel: Callable[..., int], now_s: float, machines: Any) -> NDArray[np.uint32]:
        """As `decide`, by a kernel that gives machines to the jobs, too."""
        n = kernel(float(now_s), self.arrays, self.started, machines)
        rows: NDArray[np.uint32] = self.started.tries["row"][:n]
        return rows

    @property
    def whole_expected_s(self) -> NDArray[np.float64]:
        """The expected run time of each job as a whole, not of its try, shape (capacity,); inf without a walltime."""
        whole: NDArray[np.float64] = (
            self.arrays.tries["whole_expected_s"] if len(self.arrays.tries) else self.arrays.jobs["expected_s"]
        )
        return np.where(whole < 0, np.inf, whole) if self.rules.keeps else whole

    def start_waiting(self, row: int, now_s: float) -> None:
        waiting.start_waiting(float(now_s), self.arrays, row)

    def note_kill_after(self, row: int) -> float:
        """Record and return the divider at which the killable try that has just started is killed."""
        self.arrays.tries["kill_after_s"][row] = self.divider_s
        return self.divider_s

    # Machines become available and unavailable

    def change_free(self, by: int) -> None:
        self.arrays.state["free"] += by
        running.unsettle(self.arrays)

    def change_release(self, row: int, by: int) -> None:
        running.change_release(self.arrays, row, by)

    def pass_changes(self, now_s: float) -> int:
        """Pass the dates of the calendar up to `now_s`; returns the processors of the windows that are open then."""
        changes, before = self.arrays.changes, int(self.arrays.state["changed"][0])
        self.arrays.state["changed"] = passed = int(np.searchsorted(changes["at_s"], now_s, side="right"))
        for pool, amount in changes[["pool", "amount"]][before:passed].tolist():
            if pool == GATE:
                self.arrays.state["open"] += amount
            elif pool > 0:
                self.arrays.left[0, pool - 1] += amount
                self.arrays.state["head_until_s"] = -math.inf  # as in `running.take`
        return -int(changes["amount"][:passed][changes["pool"][:passed] == 0].sum())

    def pay(self, now_s: float) -> None:
        """Settle an energy budget up to `now_s`; call this before jobs end, or a decision is made, at this date."""
        if self.rules.energy_budget is not None:
            running.pay(float(now_s), self.arrays)

    def next_change_s(self, end_s: float) -> float:
        """The next date of the calendar, or `end_s`, the next other event, if that is earlier or no job is left."""
        return float(loop.next_change_s(float(end_s), self.arrays))

    # Expected run times, classes and rules

    def keys(self, row: int, submit_s: float, key_expected_s: float, procs: int) -> tuple[float, float]:
        """The `key` and `rise` of a job that does not wait; sets those of its backfill order."""
        known = self.one_job  # to make new ones takes four times as long
        known[0][0], known[1][0], known[2][0] = submit_s, key_expected_s, procs
        if self.rules.backfill is not None:
            self.arrays.backfill_lines[row] = tuple(column[0] for column in self.rules.backfill.lines(*known))
        key, rise = self.rules.policy.lines(*known)
        return key[0], rise[0]

    def classify(
        self, row: int, small: bool, *, killable: bool, expected_s: float, key_expected_s: float | None = None
    ) -> None:
        job = self.arrays.jobs[row]
        self.has_key_requests |= key_expected_s is not None
        key_expected_s = expected_s if key_expected_s is None else key_expected_s
        if key_expected_s != job["expected_s"]:
            job["key"], job["rise"] = self.keys(row, job["submit_s"], key_expected_s, job["procs"])
        if len(self.arrays.tries):
            self.arrays.tries["whole_expected_s"][row] = expected_s
        home = job["home"] if job["home"] == URGENT else TRIES if small else LARGE
        waiting.set_class(self.arrays, row, int(home), int(killable), expected_s)

    def change_divider(self, divider_s: float, *, bound: bool) -> None:
        """Set the divider of tries that start from now on; `bound`: it caps these jobs' expected run times, too."""
        rules, bound_s = self.arrays.rules, divider_s if bound else math.inf
        if (rules["divider_s"][0], rules["bound_s"][0]) == (divider_s, bound_s):
            return
        rules["divider_s"], rules["bound_s"] = divider_s, bound_s
        rows = self.waiting_rows
        rows = rows[self.arrays.jobs["killable"][rows] != 0]
        if bound and len(rows):
            self.arrays.jobs["expected_s"][rows] = np.minimum(self.arrays.tries["whole_expected_s"][rows], bound_s)
            self.resort()

    def change_rules(self, rules: Rules) -> None:
        self.adopt(rules)
        self.resort()

    def adopt(self, rules: Rules) -> None:
        """Set order, backfill order and threshold, and compute every job's keys; call `resort` if jobs wait."""
        assert not self.has_key_requests, "p~ of the keys is not kept"
        policy, backfill = rules.policy, rules.backfill
        self.rules = replace(self.rules, policy=policy, backfill=backfill, threshold_s=rules.threshold_s)
        stated, jobs, lines = self.arrays.rules, self.arrays.jobs[: self.known], self.arrays.backfill_lines
        known = jobs["submit_s"], self.whole_expected_s[: self.known], jobs["procs"].astype(np.int64)
        if self.known:  # a policy of one's own may not take an empty array
            jobs["key"], jobs["rise"] = policy.lines(*known)
        if backfill is None:
            lines = lines[:0]
        else:
            lines = lines if len(lines) else new_records(len(self.arrays.jobs), LINE)
            if self.known:
                lines["key"][: self.known], lines["rise"][: self.known] = backfill.lines(*known)
        stated["moves"], stated["threshold_s"] = policy.motion, rules.threshold_s
        stated["backfill_same"], stated["backfill_moves"] = backfill is None, (backfill or policy).motion
        stated["planned"] = (self.rules.depth, self.rules.tested) != (1, EVERY_JOB) or bool(self.rules.dated)
        self.arrays = self.arrays._replace(backfill_lines=lines)

    def resort(self) -> None:
        """Rebuild the queue under the rules in force; the next decision moves overdue jobs."""
        rows = self.waiting_rows.astype(np.uint32)
        blocks.clear(self.arrays.blocks)
        running.unsettle(self.arrays)
        for counter in ("looked_at", "late", "late_first", "first_to", "waiting", "wanted"):
            self.arrays.state[counter] = 0
        self.arrays.jobs["late"] = 0
        now_s = float(self.arrays.jobs["submit_s"][rows].max(initial=0.0))
        waiting.enqueue_rows(now_s, self.arrays, rows)


def without_scratch(arrays: QueueArrays) -> QueueArrays:
    """The arrays that outlast a pass; a plan that is kept is made again."""
    return arrays._replace(
        candidates=arrays.candidates[:0],
        lined=arrays.lined[:0],
        noted=arrays.noted[:0],
        far=arrays.far[:0],
        plan=arrays.plan[:0],
        more=arrays.more[:0],
        falls=arrays.falls[:0],
    )


def with_scratch(arrays: QueueArrays, rules: Rules) -> QueueArrays:
    """The arrays with scratch space for a pass; nothing of the last one's plan is left."""
    capacity = len(arrays.jobs)
    running.unsettle(arrays)
    scratch = of_plan(capacity, int(arrays.rules["procs"][0]), rules)
    return arrays._replace(candidates=new_records(capacity, CANDIDATE), **scratch)


def of_plan(capacity: int, size: int, rules: Rules) -> Any:
    """The arrays by name for the plan of so many jobs and processors, empty unless a plan is made."""
    dates = len(rules.changes)
    # With a budget each reservation may begin in a step of its own.
    places = capacity if rules.energy_budget is None else 2 * capacity
    jobs, steps = (capacity, places + dates + SPARE_STEPS) if rules.planned else (0, 0)
    return {
        "lined": new_records(jobs, SLOT),
        "noted": new_records(jobs, CANDIDATE),
        "far": new_records(blocks.width_of(size) + 1 if rules.planned else 0, FAR),
        "plan": new_records(steps, STEP),
        "more": np.zeros((steps, sum(pool.reserves for pool in rules.all_pools)), np.int64),
        "falls": new_records(steps, STEP),
    }


def of_pools(capacity: int, rules: Rules) -> Any:
    """The arrays by name for what so many jobs take of the pools, one of each where nothing else is known."""
    pools = rules.all_pools
    users = capacity if any(pool.of_user for pool in pools) else 0
    return {
        "users": np.zeros(users, np.uint32),
        "wants": np.ones((capacity if pools else 0, len(pools)), np.int64),
        "left": np.zeros((users + 1, len(pools)), np.int64),
        "most": np.array([pool.capacity for pool in pools], np.int64),
    }


def grown_pools(old: QueueArrays, capacity: int) -> Any:
    """What is taken of the pools, by name, with room for so many jobs, and as many users."""
    more = capacity - len(old.wants) if len(old.wants) else 0
    users = np.repeat(old.most[None], capacity - len(old.users) if len(old.users) else 0, axis=0)
    return {
        "wants": np.concatenate([old.wants, np.ones((more, len(old.most)), np.int64)]),
        "left": np.concatenate([old.left, users]),
    }


def users_by_number(user: NDArray[np.int64]) -> NDArray[np.uint32]:
    """These users by number, from 1 on; 0 for one below 0, who is unknown."""
    numbers: NDArray[np.intp] = np.unique(np.append(-1, np.maximum(user, -1)), return_inverse=True)[1]
    return numbers[1:].astype(np.uint32)


def changes_of(rules: Rules) -> NDArray[np.void]:
    places = {name: place for place, name in enumerate(["", *(pool.name for pool in rules.all_pools)])}
    places[GATE_NAME] = int(GATE)
    dates: NDArray[np.void] = as_records(
        np.array([(at_s, places[pool], *rest) for at_s, pool, *rest in rules.changes], CHANGE)
    )
    return dates


def changed(part: Part, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Part:
    """The named tuple with each of its arrays changed, also in tuples within it."""
    return type(part)._make(change(one) if isinstance(one, np.ndarray) else changed(one, change) for one in part)


def copied(part: Part) -> Part:
    return changed(part, copy_of)


def copy_of(array: NDArray[Any]) -> NDArray[Any]:
    """A copy; numpy copies records field by field, four times slower than their bytes."""
    if not array.dtype.names:
        return array.copy()
    same: NDArray[Any] = as_records(array.view(np.uint8).copy().view(array.dtype))
    return same
