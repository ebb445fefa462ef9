"""Every rule together, in every host: a replay, however it is interrupted, is the oracle's run.

What varies is not only the input, but what the kernels have at hand, too: blocks of four jobs, as few as can be, which
have to be packed again and again. No kernel leaves within an instant because it lacks memory: a replay has that of all
its jobs, and a live queue grows when a job is submitted. A kernel leaves in order to come back

- between two instants (`loop.advance`: REACHED): stepped, forked and pickled at each of them;
- for an agent's decision (TO_DECIDE): in `tests/lab/test_deciding.py`;
- after each event, pass and kill of a live queue: a queue driven event by event, and the agent under Batsim.
"""

from __future__ import annotations

import heapq
import math
import pickle
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from batfill.base.errors import BatfillError
from batfill.base.kernels import PLAIN
from batfill.batsim_files.results import NULL_EXECUTION_S
from batfill.engine import blocks
from batfill.engine.records import LEAST_LOST, YOUNGEST
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.model.jobs import LARGE, SMALL, job_table
from batfill.model.limits.calendar import ANNOUNCED, FAILURE, Calendar, Window
from batfill.model.limits.energy import Budget
from batfill.model.limits.gate import Gate
from batfill.model.limits.pools import Pool, Pools, rejected, wanted
from batfill.model.policy import POLICIES, policy_named
from batfill.model.preemption import Urgent
from batfill.model.rules import EVERY_JOB, Rules
from batfill.model.states import KILLED, REJECTED
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay
from batfill.simulator.wire import SimulationSettings
from batfill.workloads.batsim_json import BatsimDocument
from oracle import Oracle, assert_same
from small_runs import as_workload, ended_under, machines, starts_of_oracle
from strategies import (
    WATTS,
    budget_for_oracle,
    for_oracle,
    outliving,
    pools_for_oracle,
    random_mixed,
    random_table,
    table,
    with_amounts,
    with_watts,
)
from sweeps import COMPILED, examples
from through5 import Through5

pytestmark = pytest.mark.usefixtures("small_blocks", "small_queues")
ORDERS = [*POLICIES, "mixed:1,2,-1,0,3,0.5", "aged:5,0.5,0.5", "aged:20,1,-0.5"]
UNITS_S = [1.0, 1.0, 0.25, 45.0, 700.0]  # fractions, and times for the first and later corrections of a prediction
MOST = {"depth": EVERY_JOB, "tested": EVERY_JOB, "max_running": None}  # in place of an infinite number


@pytest.fixture(scope="module")
def small_queues():
    """A live queue begins with the memory of two jobs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Queue.__init__.__kwdefaults__, "capacity", 2)
        yield


@st.composite
def workloads(draw, unit_s):
    """Jobs full of ties, with times in this unit, and the machine's size."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    most = draw(st.sampled_from([9, 40, 90] if PLAIN else [9, 90, 90, 250]))
    size, n = draw(st.integers(1, 9)), draw(st.integers(1, most))
    runtime = rng.integers(0, 20, n).astype(float)
    walltime = np.maximum(runtime + rng.choice([-5, 0, 0, 7, 20], n), 1.0)
    walltime[rng.random(n) < draw(st.sampled_from([0, 0.1, 0.7]))] = math.inf
    jobs = job_table(
        ids=[str(i) for i in rng.permutation(n)],
        submit_s=unit_s * rng.integers(0, draw(st.sampled_from([5, 60, 300])), n),
        runtime_s=unit_s * runtime,
        walltime_s=unit_s * walltime,
        procs=np.minimum(rng.integers(1, size + 2, n), rng.integers(1, size + 2, n)),
        user=rng.integers(-1, 4, n),
        job_class=np.where(rng.random(n) < 0.5, SMALL, LARGE),
        killable=rng.random(n) < draw(st.sampled_from([1.0, 1.0, 0.8])),
    )
    return outliving(jobs) if draw(st.sampled_from([False, False, True])) else jobs, size


@st.composite
def calendars(draw, size, unit_s):
    """None, or windows that never take more processors than there are, with as many shared dates as possible."""
    windows = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2, 5]))):
        begin, kind = draw(st.integers(0, 60)), draw(st.sampled_from([ANNOUNCED, ANNOUNCED, FAILURE]))
        end, known = begin + draw(st.integers(1, 40)), begin - draw(st.integers(0, 12))
        announced = unit_s * known if kind == ANNOUNCED and draw(st.booleans()) else None
        window = Window(kind, unit_s * begin, unit_s * end, draw(st.integers(1, size)), announced)
        with suppress(BatfillError):
            Calendar((*windows, window)).require_machine(size)
            windows.append(window)
    return Calendar(tuple(windows)) if windows else None


@st.composite
def budgets(draw, n_jobs, unit_s):
    """None, or an energy budget, and what each job draws of it, perhaps nothing."""
    if draw(st.sampled_from([True, True, False])):
        return None, None
    begin, lasts = unit_s * draw(st.integers(0, 60)), unit_s * draw(st.sampled_from([1, 20, 90, 400]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    most, idle_w = draw(st.sampled_from([3, 20, 2000])), draw(st.sampled_from([0, 2, 7]))
    watts = rng.integers(0, most + 1, n_jobs)
    rate_w = idle_w + int(draw(st.sampled_from([0.3, 1, 2])) * most) + draw(st.integers(1, 2))
    end, holds = math.ceil(begin + lasts), draw(st.booleans())
    joules = rate_w * (end - int(begin))
    return Budget(joules, float(int(begin)), float(end), idle_w, holds, WATTS), watts


@st.composite
def gates(draw, unit_s):
    """None, or periods in which jobs are backfilled, which may touch."""
    if draw(st.sampled_from([True, True, False])):
        return None
    dates = draw(st.lists(st.integers(0, 60), unique=True, max_size=draw(st.sampled_from([0, 8, 8]))).map(sorted))
    periods = list(zip(dates[::2], dates[1::2], strict=False))
    periods += [(periods[-1][1], periods[-1][1] + 9)] if periods and draw(st.booleans()) else []
    periods += [(100, math.inf)] if draw(st.booleans()) else []
    return Gate.given("gate", [(unit_s * begin, unit_s * end) for begin, end in periods])


@st.composite
def pools_at_the_edge(draw, jobs, size):
    """Pools of which there is as much as jobs that run could hold, or they and one that waits, or one more or less."""
    pools, wants, procs = [], [], np.minimum(jobs.procs, size)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for place in range(draw(st.integers(1, 2))):
        each = rng.integers(0, 3, len(jobs)) * procs + rng.integers(0, 2, len(jobs))
        amounts = draw(st.sampled_from([procs, 2 * procs, each]))
        most = math.ceil((amounts / procs).max() * size) + draw(st.booleans()) * amounts.max()
        capacity = max(int(most) + draw(st.integers(-1, 1)), 1)
        pools.append(Pool(f"p{place}", capacity, skips=draw(st.sampled_from([True, True, False]))))
        wants.append(amounts)
    return tuple(pools), (), np.array(wants, np.int64).T


@st.composite
def several_pools(draw, n_jobs, unit_s):
    """Pools of all kinds, often none, with windows of those of the machine, and what the jobs take of each."""
    pools, windows, wants = [], [], []
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for place in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        capacity, how = draw(st.integers(1, 9)), draw(st.sampled_from(["", "", "skip", "user"]))
        one = Pool(f"p{place}", capacity, skips=how == "skip", of_user=how == "user")
        amounts = rng.integers(0, draw(st.sampled_from([1, capacity, capacity + 2])) + 1, n_jobs)
        amounts[rng.random(n_jobs) < 0.2] = 0
        pools.append(one)
        wants.append(amounts)
        for _ in range(0 if one.of_user else draw(st.sampled_from([0, 0, 1, 3]))):
            begin = draw(st.integers(0, 60))
            end, known = begin + draw(st.integers(1, 40)), begin - draw(st.integers(0, 12))
            announced = unit_s * known if draw(st.booleans()) else None
            away = draw(st.integers(1, capacity))
            window = Window(ANNOUNCED, unit_s * begin, unit_s * end, away, announced, pool=one.name)
            if max(Calendar((*windows, window)).away(one.name)[1]) <= capacity:
                windows.append(window)
    return tuple(pools), tuple(windows), np.array(wants, np.int64).reshape(len(wants), n_jobs).T


mixed = st.integers(0, 999).map(lambda seed: random_mixed(np.random.default_rng(seed), expansion=seed % 2))
orders = st.one_of(*[st.sampled_from(ORDERS)] * 3, mixed)


@st.composite
def rules(draw, size, unit_s):
    """The rules in the oracle's words, and a calendar."""
    yes = st.booleans()
    chosen = {
        "threshold_s": unit_s * draw(st.sampled_from([0.0, 5.0, 40.0, math.inf])), "half": draw(yes),
        "spares": draw(yes), "bound": draw(yes), "divider_s": unit_s * draw(st.sampled_from([2.0, 6.0, math.inf])),
        "depth": draw(st.sampled_from([1, 1, 1, 0, 2, 5, math.inf])),
        "tested": draw(st.sampled_from([math.inf, math.inf, 1, 3])),
        "max_running": draw(st.sampled_from([math.inf, math.inf, 1, 3])),
        "outlived": False, "keeps": draw(st.sampled_from([False, False, True])),
    }  # fmt: skip
    if chosen["keeps"]:  # without a plan
        chosen |= {"spares": False, "depth": 1, "tested": math.inf, "max_running": math.inf}
    chosen["stand_back"] = draw(st.sampled_from([math.inf, 0.5, 3.0])) if chosen["spares"] else math.inf
    chosen["backfill"] = None if chosen["depth"] in (0, math.inf) else draw(st.none() | orders)
    return draw(orders), chosen, None if chosen["keeps"] else draw(calendars(size, unit_s))


@st.composite
def cases(draw, at_the_edge=False):
    unit_s = draw(st.sampled_from(UNITS_S))
    jobs, size = draw(workloads(unit_s))
    policy, chosen, calendar = draw(rules(size, unit_s))
    if len(jobs) > 90:  # the oracle's plan of many jobs takes minutes
        chosen, calendar = chosen | {"depth": 1, "tested": math.inf, "max_running": math.inf}, None
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    more = {}
    some = pools_at_the_edge(jobs, size) if at_the_edge else several_pools(len(jobs), unit_s)
    pools, windows, wants = draw(some)
    if pools and len(jobs) <= 90 and not chosen["keeps"]:
        more["pools"], jobs = pools, with_amounts(jobs, wants)
        whole = (*(calendar.windows if calendar else ()), *windows)
        calendar = Calendar(whole) if whole else None
    if len(jobs) <= 90 and not chosen["keeps"] and (gate := draw(gates(unit_s))) is not None:
        more["gate"] = gate
    budget, watts = draw(budgets(len(jobs), unit_s))
    if budget is not None and len(jobs) <= 40 and not chosen["keeps"]:
        more["budget"], jobs = budget, with_watts(jobs, watts)
    if draw(st.sampled_from([False, False, True])):  # predictions, which are corrected
        chosen["outlived"] = True
        more["expected_s"] = np.minimum(unit_s * rng.integers(1, 25, len(jobs)), jobs.expected_s)
    return jobs, size, policy, chosen, calendar, more


@st.composite
def urgent_cases(draw):
    """Cases in which some jobs are urgent, and perhaps preempt others."""
    case = draw(cases().filter(lambda case: not case[3]["keeps"]))
    jobs, size, policy, chosen, calendar, more = case
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    urgent = rng.random(len(jobs)) < draw(st.sampled_from([0.05, 0.2, 0.5]))
    unit_s = draw(st.sampled_from([1.0, 0.25, 45.0]))
    chosen |= {
        "preempts": draw(st.sampled_from([0, LEAST_LOST, LEAST_LOST, YOUNGEST])),
        "preempt_exempt_s": unit_s * draw(st.sampled_from([0, 0, 3, 8])),
        "requeue_delay_s": unit_s * draw(st.sampled_from([0, 0, 2, 30])),
        "checkpoint_s": unit_s * draw(st.sampled_from([math.inf, math.inf, 4, 7])),
    }
    return replace(jobs, urgent=urgent), size, policy, chosen, calendar, more


@st.composite
def cancelled_cases(draw):
    """Cases, perhaps with urgent jobs, in which users cancel some jobs, also when something else happens."""
    jobs, *rest = draw(cases() | urgent_cases())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    unit_s = draw(st.sampled_from([1.0, 0.25, 45.0]))
    after_s = unit_s * rng.integers(1, draw(st.sampled_from([4, 30, 200])), len(jobs))
    never = rng.random(len(jobs)) > draw(st.sampled_from([0.1, 0.5, 1.0]))
    return replace(jobs, cancel_after_s=np.where(never, math.inf, after_s)), *rest


def rules_of(policy, chosen, calendar, pools=(), gate=None, budget=None):
    """These rules in the engine's words."""
    given = {name: MOST[name] if value == math.inf and name in MOST else value for name, value in chosen.items()}
    given["backfill"] = policy_named(given["backfill"]) if given["backfill"] else None
    return Rules(
        policy_named(policy), **given, calendar=calendar, pools=pools, backfill_while=gate, energy_budget=budget
    )


PREEMPTION = {
    "preempts": "preempt",
    "preempt_exempt_s": "exempt",
    "requeue_delay_s": "delay",
    "checkpoint_s": "checkpoint",
}
ORDERS_OF_STOPS = {0: None, LEAST_LOST: "least-lost", YOUNGEST: "youngest"}


def in_oracles_words(chosen):
    """The rules of preemption by the oracle's names."""
    named = {PREEMPTION.get(name, name): value for name, value in chosen.items()}
    return named | ({"preempt": ORDERS_OF_STOPS[named["preempt"]]} if "preempt" in named else {})


def oracle_of(jobs, size, policy, chosen, calendar, more):
    """The oracle's run."""
    pools, gate = more.get("pools", ()), more.get("gate")
    budget = more.get("budget")
    planned = rules_of(policy, chosen, calendar, pools, gate, budget).planned
    slow = Oracle(
        jobs, size, policy,
        **in_oracles_words(chosen) | {"depth": chosen["depth"] if planned else None},
        windows=for_oracle(calendar) if calendar else [],
        pools=pools_for_oracle(pools, calendar),
        wants=wanted(pools, jobs),
        gate=None if gate is None else list(gate.periods),
        budget=None if budget is None else budget_for_oracle(budget),
        watts=None if budget is None else budget.pool.amounts(jobs),
        expected_s=more.get("expected_s"),
    )  # fmt: skip
    rushed = np.zeros(len(jobs), bool) if jobs.urgent is None else jobs.urgent
    for job, killable, urgent in zip(slow.jobs, jobs.killable.tolist(), rushed.tolist(), strict=True):
        job.exempt, job.urgent = not killable, urgent
        job.small = job.small and not urgent
    return slow.run()


def tight(queue):
    """Let the queue have no block but those that it needs if its jobs are packed."""
    queue.arrays.blocks.spare["left"] = len(queue.arrays.jobs) // blocks.BLOCK + 1
    return queue


def replay_of(jobs, size, policy, chosen, calendar, more):
    """The replay of a case at its beginning."""
    given = {name: value for name, value in more.items() if name not in ("pools", "gate", "budget")}
    in_force = rules_of(policy, chosen, calendar, more.get("pools", ()), more.get("gate"), more.get("budget"))
    run = EngineReplay(jobs, size, in_force, **given)
    tight(run.queue)
    return run


def thorough(usual):
    """Hypothesis tries this many cases, the same each time; a quarter of them uncompiled, which is slow."""
    usual = usual // 4 if PLAIN else usual
    checks = list(HealthCheck)
    return settings(
        deadline=None, database=None, derandomize=True, max_examples=examples(usual), suppress_health_check=checks
    )


@pytest.mark.compiled
@thorough(120)
@given(cases())
def test_a_replay_is_the_oracles_run(case):
    run = replay_of(*case)
    run.advance()
    assert_same(run.schedule(), oracle_of(*case))


@thorough(50)
@given(urgent_cases())
def test_a_replay_that_stops_jobs_for_urgent_ones_is_the_oracles_run(case):
    run = replay_of(*case)
    run.advance()
    assert_same(run.schedule(), oracle_of(*case))


@thorough(80)
@given(cancelled_cases())
def test_a_replay_of_jobs_that_their_users_cancel_is_the_oracles_run(case):
    run = replay_of(*case)
    run.advance()
    expected = oracle_of(*case)
    schedule = run.schedule()
    assert_same(schedule, expected)


@thorough(80)
@given(cases(at_the_edge=True))
def test_a_replay_with_pools_at_the_edge_of_what_can_run_short_is_the_oracles_run(case):
    run = replay_of(*case)
    run.advance()
    assert_same(run.schedule(), oracle_of(*case))


@pytest.mark.compiled
@thorough(40)
@given(cases())
def test_a_replay_that_is_left_at_each_instant_is_the_oracles_run(case):
    run = replay_of(*case)
    forks, done, instants = [], False, 0
    while not done:
        done = run.step()
        instants += 1
        if instants % 9 == 0:
            forks.append(run.fork())
        if instants % 5 == 0:
            run = pickle.loads(pickle.dumps(run))
        elif instants % 2 == 0:
            run = run.fork()
    expected = oracle_of(*case)
    for going_on in (run, *forks):
        going_on.advance()
        assert_same(going_on.schedule(), expected)


PLAINLY = {
    "threshold_s": math.inf, "half": False, "divider_s": math.inf, "spares": False, "bound": False, "depth": 1,
    "tested": math.inf, "max_running": math.inf, "outlived": False, "keeps": False, "stand_back": math.inf,
    "backfill": None,
}  # fmt: skip
CROWDED = [
    *({"depth": depth} for depth in (0, 1, 2, 5)),
    *({"depth": depth, "tested": tested} for depth, tested in [(math.inf, 30), (1, 6), (3, 2)]),
    *({"max_running": 2} | more for more in ({}, {"depth": 2}, {"backfill": "saf"}, {"depth": math.inf, "tested": 9})),
    {"divider_s": 3.0, "spares": True, "max_running": 2, "stand_back": 20.0},
    {"keeps": True},
]


@pytest.mark.parametrize("pool", ["", "reserves", "skips"])
@pytest.mark.parametrize("chosen", [one if "spares" in one else COMPILED(one) for one in CROWDED], ids=str)
def test_many_jobs_that_wait_in_several_blocks_start_when_the_oracles_do(chosen, pool):
    if pool and "keeps" in chosen:
        pytest.skip("a kept reservation takes no pool")
    seed, n = CROWDED.index(chosen), 40 if PLAIN else 110
    jobs = random_table(seed, n_jobs=n, size=12, span_s=n // 8, wide=0.0, unlimited=0.02, small=0.4)
    jobs = replace(jobs, user=np.arange(n) // 12 % 4, killable=np.ones(n, bool))  # who submits many at once
    more = {"pools": (Pool("p0", 10, skips=pool == "skips"),)} if pool else {}
    if pool:
        each = np.random.default_rng(seed).integers(0, 3, n)
        jobs = with_amounts(jobs, np.minimum(each * jobs.procs, 10)[:, None])
    case = jobs, 12, ("fcfs", "saf", "wfp3")[seed % 3], PLAINLY | chosen, None, more
    run = replay_of(*case)
    run.advance()
    assert_same(run.schedule(), oracle_of(*case))


SKIPPED = {
    # The third is lined up as one that waits, and then skipped, as the second starts: the fourth is the first to wait.
    "who is backfilled": (
        *([(0, 90, 90, 1), (1, 9, 9, 1), (1, 9, 9, 4), (1, 9, 9, 4), (1, 9, 9, 1)], [0, 1, 1, 2, 3], None),
        *("fcfs", {"depth": 0, "max_running": 1}, None),
    ),
    # From 22 to 57 all who wait are skipped, so that none becomes due although the first would be large.
    "who is due": (
        *([(2, 27, 27, 3), (3, 23, 23, 2), (4, 11, 11, 2), (7, 25, 25, 3)], [0] * 4, [0, 1, 2, 1]),
        *("wfp3", {"divider_s": 3.0, "spares": True, "stand_back": 20.0}, (22, 57)),
    ),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_the_first_job_of_the_queue_is_one_that_is_not_skipped(name):
    rows, users, amounts, policy, chosen, away = SKIPPED[name]
    jobs = replace(table(rows), user=np.array(users), killable=np.ones(len(rows), bool))
    calendar = Calendar((Window(ANNOUNCED, *away, 2, None, pool="p0"),)) if away else None
    more = {"pools": (Pool("p0", 2, skips=True),)} if amounts else {}
    jobs = with_amounts(jobs, np.array([amounts]).T) if amounts else jobs
    case = jobs, 4, policy, PLAINLY | chosen, calendar, more
    run = replay_of(*case)
    run.advance()
    assert_same(run.schedule(), oracle_of(*case))


def driven(jobs, queue, expected_s, from_the_front):
    """The start of each job's last try in a queue that gets the workload event by event.

    `from_the_front`: of the jobs that end together, the one submitted first ends first; else the last.
    """
    ends_s, coming, start_s = [], list(range(len(jobs))), np.full(len(jobs), math.nan)
    wants = wanted(queue.rules.all_pools, jobs)
    sign = 1 if from_the_front else -1

    def decide(now_s):
        for row in queue.decide(now_s).tolist():
            start_s[row] = now_s
            duration_s = min(jobs.runtime_s[row], jobs.walltime_s[row])
            kill_s = queue.note_kill_after(row) if queue.jobs["killable"][row] else math.inf
            heapq.heappush(ends_s, (float(now_s + min(duration_s, kill_s)), sign * row, bool(kill_s < duration_s)))

    def kill(row, now_s):
        queue.finish(row)
        queue.demote(row)
        queue.requeue(row, now_s)

    while ends_s or coming:
        due = []
        now_s = min([end_s for end_s, _, _ in ends_s[:1]] + [float(jobs.submit_s[row]) for row in coming[:1]])
        while ends_s and ends_s[0][0] == now_s:
            _, row, killed = heapq.heappop(ends_s)
            if not killed:
                queue.finish(sign * row)
            elif queue.rules.spares:
                due.append(sign * row)
            else:
                kill(sign * row, now_s)
        while coming and jobs.submit_s[coming[0]] == now_s:
            row = coming.pop(0)
            small = bool(jobs.job_class[row] == SMALL) and queue.divider_s < math.inf
            queue.submit(
                f"{row:03}", now_s, jobs.expected_s[row], int(jobs.procs[row]), user=int(jobs.user[row]), small=small,
                killable=small and bool(jobs.killable[row]), expected_s=expected_s[row], outlives=jobs.outlives,
                wants=wants[row] if len(wants) else None,
            )  # fmt: skip
        decide(now_s)
        for row in sorted(due, key=lambda row: (jobs.procs[row] * queue.kill_after_s(row), row)):
            if queue.kill_pays(row, now_s):
                kill(row, now_s)
            else:
                queue.spare(row)
                duration_s = min(jobs.runtime_s[row], jobs.walltime_s[row])
                heapq.heappush(ends_s, (float(start_s[row] + duration_s), sign * row, False))
            decide(now_s)
    return start_s


@thorough(60)
@given(cases(), st.booleans())
def test_a_queue_driven_event_by_event_starts_what_the_oracle_starts(case, from_the_front):
    jobs, size, policy, chosen, _, more = case
    pools = more.get("pools", ())
    jobs = jobs.select(~rejected(jobs, size, pools, wanted(pools, jobs)))
    expected_s = more["expected_s"][: len(jobs)] if "expected_s" in more else jobs.expected_s
    queue = Queue(size, rules_of(policy, chosen, None, pools))
    expected = oracle_of(jobs, size, policy, chosen, None, {"expected_s": expected_s, "pools": pools})
    assert driven(jobs, queue, expected_s, from_the_front).tolist() == [job.start for job in expected.jobs]


# Under Batsim


def options_of(policy, chosen, calendar):
    """These rules in a user's words; a small job that may be killed is one of class small."""
    words = {"depth": chosen["depth"], "tested": chosen["tested"], "max-running": chosen["max_running"]}
    given = {name: value for name, value in words.items() if value < math.inf}
    if chosen["depth"] == math.inf:
        given["depth"] = "all"
    if chosen["threshold_s"] < math.inf:
        given |= {"threshold": chosen["threshold_s"], "overdue": "half" if chosen["half"] else "all"}
    if chosen["divider_s"] < math.inf:
        given |= {"small": "all" if chosen["bound"] else "class", "divider": chosen["divider_s"]}
        given["kill"] = "needed" if chosen["spares"] else "always"
        if chosen["stand_back"] < math.inf:
            given["stand-back"] = chosen["stand_back"]
    if chosen["backfill"]:
        given["backfill"] = chosen["backfill"]
    if chosen["keeps"]:
        given["reservation"] = "kept"
    if chosen.get("preempts"):
        given["preempt"] = ORDERS_OF_STOPS[chosen["preempts"]]
        given |= {name: chosen[f"{name.replace('-', '_')}_s"] for name in ("preempt-exempt", "requeue-delay")}
    return given | {"policy": policy} | ({"calendar": calendar} if calendar else {})


HOSTS = {"4": lambda agent: Conversation4(agent).answer, "5": lambda agent: Through5(agent, "").answer}
VERSIONS = [pytest.param("4", marks=pytest.mark.compiled), "5"]


@pytest.mark.parametrize("version", VERSIONS)
@thorough(40)
@given(cases())
def test_under_batsim_tries_start_when_the_oracles_do(version, case):
    assert_same_under_batsim(version, case)


@pytest.mark.parametrize("version", VERSIONS)
@thorough(15)
@given(urgent_cases())
def test_under_batsim_jobs_are_stopped_for_urgent_ones_when_the_oracles_are(version, case):
    assert_same_under_batsim(version, case)


def assert_same_under_batsim(version, case):
    jobs, size, policy, chosen, calendar, more = case
    pools = more.get("pools", ())
    jobs = replace(jobs, runtime_s=np.maximum(jobs.runtime_s, 1.0))  # else Batsim reports an end and a kill together
    jobs = replace(jobs, killable=np.ones(len(jobs), bool))
    chosen = chosen | {"outlived": False, "checkpoint_s": math.inf}
    if chosen["bound"]:
        jobs = replace(jobs, job_class=np.full(len(jobs), SMALL, np.int8))
    if calendar and any(window.kind == FAILURE for window in calendar.windows):
        windows = tuple(window for window in calendar.windows if window.kind != FAILURE)
        calendar = Calendar(windows) if windows else None
    if chosen["divider_s"] == math.inf:
        chosen = chosen | {"stand_back": math.inf}
    if chosen["threshold_s"] == math.inf:
        chosen = chosen | {"half": False}
    try:
        beside = {"pool": Pools(pools)} if pools else {}
        beside |= {"energy-budget": more["budget"]} if "budget" in more else {}
        beside |= {"backfill-while": more["gate"]} if "gate" in more else {}
        beside |= {} if jobs.urgent is None else {"urgent": Urgent("list", frozenset(jobs.ids[jobs.urgent].tolist()))}
        agent = Agent(options_of(policy, chosen, calendar) | beside)
    except BatfillError:
        assume(False)
    document = BatsimDocument(Path("w.json"), 4, *as_workload(jobs).values(), "")
    registers = version == "4" or agent.kills  # Batsim 5 is not asked for what is not used
    dynamic = SimulationSettings(dynamic_jobs=registers, reuse_profiles=registers)
    ran = ended_under(HOSTS[version](agent), document, machines(size), dynamic)
    ran = [job for job in ran if job.final_state != REJECTED]
    # Where a decision starts a job and a later one of the same instant stops it, it ends a little later.
    assume(all(job.final_state != KILLED or job.execution_time > 2 * NULL_EXECUTION_S for job in ran))
    told = {name: value for name, value in more.items() if name in ("pools", "gate", "budget")}
    slow = oracle_of(jobs, size, policy, chosen, calendar, told)
    slow.kills = [kill for kill in slow.kills if kill[2] > 0]  # a job that a decision would start and stop has no try
    found = {job.job_id.removeprefix("w0!"): job.starting_time for job in ran}
    assert found == starts_of_oracle(slow)
