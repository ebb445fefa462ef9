"""Cases small enough to check on paper: each claim of the rules with its jobs, the rules in force, and who starts when.

The oracle is held to them as the engine is. Random cases of all rules at once are in `test_every_rule.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from batfill.engine import running as engine_running
from batfill.engine.records import NEVER_S
from batfill.model.jobs import LARGE, SMALL
from batfill.model.limits.calendar import Calendar
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from from_python import from_python
from oracle import assert_same
from strategies import announced, both, failure, outliving, table

reservation = from_python(engine_running.reservation)
FCFS = policy_named("fcfs")
ALL = math.inf
SMALL_TRIES = {"divider_s": 10.0, "spares": True, "bound": True}


# Who starts when: of each claim (size of the machine, rules, jobs, their starts). A job is (submission, run time,
# walltime, processors[, class]); the order is that of submission if `policy` says no other.

EASY = {
    # the second job waits for all 4 processors until 100; at 40 a third may take one of the two free ones until 100 ...
    "a job that ends at exactly the shadow time is backfilled": [
        (4, {}, [(0, 100, 100, 2), (10, 10, 10, 4), (40, 60, 60, 1)], [0, 100, 40]),
        (4, {}, [(0, 100, 100, 2), (10, 10, 10, 4), (40, 61, 61, 1)], [0, 100, 110]),  # ... but not until 101
    ],
    # at 100 the head takes 3 of 5 processors: 2 are extra, for the third and the fourth job, and none for the fifth
    "a long job is backfilled on extra processors only": [
        (*(5, {}, [(0, 100, 100, 3), (1, 10, 10, 3), *((r, 500, 500, 1) for r in (2, 3, 4))]), [0, 100, 2, 3, 110])
    ],
    # 8 of 10 processors are given back at 100, the head needs 6: the long job of 2 does not delay it
    "two ends at the shadow time make extra processors": [
        (10, {}, [(0, 100, 100, 4), (0, 100, 100, 4), (1, 10, 10, 6), (2, 999, 999, 2)], [0, 0, 100, 2])
    ],
    # at 10 the second job starts until 60; the third then waits for it, and the fourth fits before that
    "the reservation counts jobs started ahead of it in the same pass": [
        (*(4, {}, [(0, 10, 10, 4), (1, 50, 50, 2), (2, 5, 5, 4), (3, 50, 50, 1), (4, 51, 51, 1)]), [0, 10, 60, 10, 65])
    ],
    # promised for 100, the head starts at 20, when the first job really ends
    "the reservation is made again when a job ends early": [(4, {}, [(0, 20, 100, 4), (1, 10, 10, 4)], [0, 20])],
    # at 5 a smaller job becomes the head, and the one that had the reservation goes behind it
    "nothing is kept from one pass to the next": [
        (4, {"policy": "saf"}, [(0, 100, 100, 4), (1, 50, 50, 4), (5, 10, 10, 4)], [0, 110, 100])
    ],
    # of 4 processors the head leaves 1 extra, of 3 none
    "a job without walltime is backfilled on extra processors alone": [
        (4, {}, [(0, 100, 100, 2), (1, 10, 10, 3), (2, 5, None, 1), (3, 5, None, 1)], [0, 100, 2, 7]),
        (3, {}, [(0, 100, 100, 2), (1, 10, 10, 3), (2, 5, None, 1), (3, 5, None, 1)], [0, 100, 110, 110]),
    ],
    "behind a job without walltime every job with one is backfilled and none without": [
        (*(3, {}, [(0, 100, None, 2), (1, 10, 10, 3), (2, 50_000, 50_000, 1), (3, 1, None, 1)]), [0, 50_002, 2, 50_012])
    ],
    # Jobs without walltime hold 4 of 6 processors and the head wants 5, so the shadow time is infinite and 1 is to
    # spare. Whoever takes it is expected back at the shadow time as well, so the next finds 1 to spare again.
    "a backfilled job without walltime counts for the next reservation of a head that waits for such jobs": [
        (
            *(6, {"policy": "fcfs"}, [*[(0, 9, None, 1)] * 4, (1, 5, None, 5), (2, 20, None, 1), (3, 2, None, 1)]),
            [0, 0, 0, 0, 9, 2, 3],
        )
    ],
    # at 100 the wide old job has waited for 99 s and comes first only if the threshold is less
    "a job is overdue strictly after the threshold": [
        (
            *(4, {"policy": "saf", "threshold_s": 99.0}, [(0, 100, 100, 4), (1, 90, 90, 4), (50, 10, 10, 4)]),
            [0, 110, 100],
        ),
        (
            *(4, {"policy": "saf", "threshold_s": 98.0}, [(0, 100, 100, 4), (1, 90, 90, 4), (50, 10, 10, 4)]),
            [0, 100, 190],
        ),
    ],
    "overdue jobs go by age among themselves": [
        (
            *(4, {"policy": "saf", "threshold_s": 60.0}),
            [(0, 100, 100, 4), (1, 90, 90, 4), (2, 10, 10, 4), (50, 1, 1, 4)],
            [0, 100, 190, 200],
        )
    ],
    "a job of no length frees its processor for a second pass at the same date": [
        (1, {}, [(0, 0, 10, 1), (0, 5, 10, 1)], [0, 0])
    ],
    # at 10 the waits are 9 and 8 s and both walltimes 5 s: log2(max(1, 2)) = log2(2), so the older goes first,
    # whichever of them has one processor
    "unicef counts one processor as two": [
        (2, {"policy": "unicef"}, [(0, 10, 10, 2), (1, 5, 5, 2), (2, 5, 5, 1)], [0, 10, 15]),
        (2, {"policy": "unicef"}, [(0, 10, 10, 2), (1, 5, 5, 1), (2, 5, 5, 2)], [0, 10, 15]),
    ],
    # at 10: (9 + 30) / 30 = 1.3 and (2 + 10) / 10 = 1.2; at 100: 99 / 30 + 1 = 4.3 and 92 / 10 + 1 = 10.2
    "sexp and lexp change the order of waiting jobs": [
        (1, {"policy": "sexp"}, [(0, 10, 10, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 20, 10]),
        (1, {"policy": "sexp"}, [(0, 100, 100, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 100, 130]),
        (1, {"policy": "lexp"}, [(0, 10, 10, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 10, 40]),
        (1, {"policy": "lexp"}, [(0, 100, 100, 1), (1, 30, 30, 1), (8, 10, 10, 1)], [0, 110, 100]),
    ],
    # one processor is free until the head's shadow time, at 100; two jobs would fit it, and 2 + 99 > 100
    "the backfill order decides who is tried first": [
        (3, {}, [(0, 100, 100, 2), (1, 10, 10, 3), (2, 99, 99, 1), (2, 20, 20, 1)], [0, 100, 110, 2]),
        (3, {}, [(0, 100, 100, 2), (1, 10, 10, 3), (2, 98, 98, 1), (2, 20, 20, 1)], [0, 100, 2, 110]),
        (
            *(3, {"backfill": "spf"}, [(0, 100, 100, 2), (1, 10, 10, 3), (2, 98, 98, 1), (2, 20, 20, 1)]),
            [0, 100, 110, 2],
        ),
    ],
    # at 21 the first one-processor job is overdue and the second is shorter: without an order of its own age decides
    "the backfill order knows no overdue jobs": [
        (
            *(3, {"threshold_s": 0.0}, [(0, 100, 100, 2), (0, 10, 10, 3), (1, 60, 60, 1), (1, 20, 20, 1)]),
            [0, 100, 1, 61],
        ),
        (
            *(3, {"threshold_s": 0.0, "backfill": "spf"}),
            [(0, 100, 100, 2), (0, 10, 10, 3), (1, 60, 60, 1), (1, 20, 20, 1)],
            [0, 100, 21, 1],
        ),
    ],
    "a job wider than the machine is rejected and blocks nobody": [(4, {}, [(0, 9, 9, 5), (0, 9, 9, 4)], [None, 0])],
}

TRIES = {
    "small jobs go first, and a class without a divider means nothing": [
        (1, {"divider_s": 10.0}, [(0, 10, 10, 1, LARGE), (1, 10, 10, 1, LARGE), (2, 10, 10, 1, SMALL)], [0, 20, 10]),
        (1, {}, [(0, 10, 10, 1, LARGE), (1, 10, 10, 1, LARGE), (2, 10, 10, 1, SMALL)], [0, 10, 20]),
    ],
    # killed at 20 it has waited for more than 15 s since 0, and so comes before the smaller job of 10
    "a killed job is overdue from its first submission": [
        (*(1, {"policy": "saf", "divider_s": 20.0}, [(0, 30, 40, 1, SMALL), (10, 1, 1, 1, LARGE)]), [21, 20]),
        (
            *(1, {"policy": "saf", "divider_s": 20.0, "threshold_s": 15.0}),
            [(0, 30, 40, 1, SMALL), (10, 1, 1, 1, LARGE)],
            [20, 50],
        ),
    ],
    # killed at 10 the first job has waited for longer than 5 s, and so has the second; the first is older
    "overdue jobs go before small ones": [
        (1, {"divider_s": 10.0, "threshold_s": 5.0}, [(0, 50, 90, 1, SMALL), (1, 9, 9, 1, SMALL)], [10, 60])
    ],
    # three of four processors are taken until 100, and the head needs all
    "where tries stand back, a job that processors are kept idle for is due": [
        (
            *(4, SMALL_TRIES, [(0, 100, 100, 3), (1, 50, 50, 4), (2, 20, 20, 1, SMALL), (95, 50, 50, 1, SMALL)]),
            [0, 105, 2, 155],
        ),
        (
            *(4, SMALL_TRIES | {"stand_back": 9.0}),
            [(0, 100, 100, 3), (1, 50, 50, 4), (2, 20, 20, 1, SMALL), (95, 50, 50, 1, SMALL)],
            [0, 100, 2, 150],
        ),
    ],
    # at 3 the first is at its divider, and the head waits for it alone: what would run into the head waits
    "a try of a job that may outlive its request is expected to end at its divider, also there": [
        (
            *(8, SMALL_TRIES | {"divider_s": 3.0, "outlives": True}),
            [(0, 8, 15, 1, SMALL), (1, 2, 11, 8, SMALL), (3, 2, 21, 5, SMALL)],
            [5, 3, 5],
        )
    ],
    # from 4 on it has outlived its request, and is expected to be killed at 10
    "what a bounded try outlives is corrected up to its divider": [
        (
            *(4, SMALL_TRIES | {"policy": "lqf", "outlives": True}),
            [(0, 30, 4, 1, SMALL), (1, 5, 5, 4), (5, request, request, 1)],
            [15, 10, start],
        )
        for request, start in ((5, 5), (6, 15))
    ],
    # eight processors are requested from 3 s on, more than 1.9 machines have
    "tries stand back in a backlog of more machines than that": [
        (
            *(4, SMALL_TRIES | {"stand_back": stand_back}),
            [(0, 20, 20, 4), (1, 50, 50, 4), (2, 5, 50, 3, SMALL), (3, 5, 50, 1, SMALL)],
            starts,
        )
        for stand_back, starts in ((math.inf, [0, 25, 20, 20]), (1.9, [0, 20, 70, 70]), (2.0, [0, 25, 20, 20]))
    ],
    # who is overdue at 20 s starts for good; otherwise it would be killed at 30 s, and be first again
    "where tries stand back, a job that is overdue starts for good": [
        (
            *(4, SMALL_TRIES | {"threshold_s": 18.0, "stand_back": stand_back}),
            [(0, 20, 20, 4), (1, 50, 50, 4, SMALL), (2, 5, 50, 4, SMALL)],
            starts,
        )
        for stand_back, starts in ((math.inf, [0, 30, 80]), (9.0, [0, 20, 70]))
    ],
    "of two that arrive together the first is due, also where a pass would start neither": [
        (
            *(6, SMALL_TRIES | {"tested": 1, "stand_back": stand_back}),
            [(0, 4, 4, 2), (0, 6, 12, 3), (3, 4, 12, 5), (3, 2, 2, 3), (4, 4, 24, 2, SMALL)],
            starts,
        )
        for stand_back, starts in ((math.inf, [0, 0, 8, 12, 4]), (9.0, [0, 0, 6, 10, 10]))
    ],
    # When the third job starts, six overdue jobs are left, three of which go first: a fourth has to move.
    "those overdue that go first are chosen again before a kill": [
        (
            *(4, {"policy": "lpf", "threshold_s": 5.0, "divider_s": 10.0, "spares": True, "half": True}),
            [
                (0, 10, 10, 1),
                (0, 90, 95, 2, SMALL),
                (1, 90, 95, 2),
                *((1, 9, 20 + number, 4) for number in range(6)),
                (8, 9, 9, 5),
            ],
            [0, 0, 10, 100, 109, 118, 127, 136, 145, None],
        )
    ],
}

PLANS = {
    "only without a reservation a job starts that delays the head": [
        (4, {"depth": depth}, [(0, 10, 10, 3), (1, 10, 10, 4), (3, 12, 12, 1)], starts)
        for depth, starts in ((0, [0, 15, 3]), (1, [0, 10, 20]), (2, [0, 10, 20]))
    ],
    # Of 4 processors 2 are taken to 10 and 1 to 100. The head needs 2 from 10 to 20, the second 3 from 20 on. The third
    # takes 1 for 50 s, beside the head, but not beside the second.
    "only a second reservation protects the second job that waits": [
        (
            *(4, {"depth": depth}),
            [(0, 10, 10, 2), (0, 100, 100, 1), (1, 10, 10, 2), (2, 10, 10, 3), (3, 50, 50, 1)],
            [0, 0, 10, second, third],
        )
        for depth, second, third in ((1, 53, 3), (2, 20, 30), (ALL, 20, 30))
    ],
    # One processor of 3 is idle to 10; the heads need all. Of the jobs behind them the shortest goes first, not the
    # oldest; with a third reservation the oldest would be looked at before.
    "the jobs behind the last reservation are taken in the backfill order": [
        (
            *(3, {"depth": 2, "backfill": backfill}),
            [(0, 10, 10, 2), (1, 5, 5, 3), (2, 5, 5, 3), (3, 6, 6, 1), (3, 4, 4, 1)],
            [0, 10, 15, *starts],
        )
        for backfill, starts in (("spf", [20, 3]), (None, [3, 20]))
    ],
    # Two heads need all 4 processors, and a job for 3 s is backfilled. Then two jobs come for the processor left.
    "where nothing has ended new jobs are taken in the backfill order behind the last reservation": [
        (
            *(4, {"depth": 2, "backfill": backfill}),
            [(0, 10, 10, 2), (1, 5, 5, 4), (1, 5, 5, 4), (1, 3, 3, 1), (2, 6, 6, 1), (2, 4, 4, 1)],
            [0, 10, 15, 1, *starts],
        )
        for backfill, starts in (("spf", [4, 2]), (None, [2, 4]))
    ],
    # Beside the head at 3, and not beside the second.
    "without a walltime a job goes before reservations only on what they all leave free": [
        (4, {"depth": depth}, [(0, 10, 10, 2), (1, 5, 5, 3), (2, 5, 5, 4), (3, 3, None, 1)], starts)
        for depth, starts in ((0, [0, 10, 15, 3]), (1, [0, 10, 15, 3]), (2, [0, 10, 15, 20]))
    ],
    # The two that wait need all 4 processors. The last job would fit, on one processor, until the first can start.
    "a job behind those that are tested does not start": [
        (
            *(4, {"depth": 1, "tested": tested}),
            [(0, 10, 10, 3), (1, 10, 10, 4), (2, 10, 10, 4), (3, 5, 5, 1)],
            [0, 10, 20, last],
        )
        for tested, last in ((1, 30), (2, 30), (3, 3))
    ],
    # Of 8 processors 3 are taken to 100, and two jobs wait for 6; the others come one by one, or two at once.
    "behind two reservations jobs that come later start by the plan that was made before": [
        (
            *(8, {"depth": 2, "backfill": backfill}),
            [
                *((0, 100, 100, 3), (1, 9, 9, 6), (2, 9, 9, 6), (3, 10, 10, 1), (4, 10, 10, 1), (5, 30, None, 1)),
                *((6, 20, 20, 1), (6, 10, 10, 1), (7, 200, 200, 1), (30, 10, 10, 1)),
            ],
            [0, 100, 109, 3, 4, 5, 6, 6, *starts],
        )
        for backfill, starts in ((None, [13, 30]), ("spf", [13, 30]))
    ],
    # Five processors: the first job runs until 10 on two of them; the second, of user 1, needs all; the third is too
    # long; the fourth, of user 1, fits. It is backfilled, and so its user is at the limit when the last comes: the
    # second is skipped, and the third starts in its place.
    "a start behind a reservation of its user counts at once": [
        (
            *(5, {"max_running": limit, "users": [-1, 1, 2, 1, -1]}),
            [(0, 10, 10, 2), (1, 5, 5, 5), (2, 20, 20, 2), (3, 5, 5, 1), (4, 1, 1, 5)],
            starts,
        )
        for limit, starts in ((1, [0, 24, 4, 3, 29]), (2, [0, 10, 15, 3, 35]))
    ],
    "a job whose user is at the limit keeps its place, and others pass": [
        (
            *(3, {"max_running": 1, "users": [5, 5, 5, 6, 7]}),
            [(0, 10, 10, 1), (1, 10, 10, 1), (2, 10, 10, 1), (3, 10, 10, 2), (11, 1, 1, 2)],
            [0, 10, 20, 3, 13],
        )
    ],
    "for a user's limit an end counts in the decision of its instant, and a job of no length in its second": [
        (3, {"max_running": 1, "users": [5, 5, 5]}, [(0, 0, 5, 1), (0, 4, 5, 1), (0, 4, 5, 1)], [0, 0, 4])
    ],
}

WINDOWS = {
    "a request that ends when a window begins fits, and one that is longer waits for its end": [
        (4, {"windows": [announced(10, 20, 4)]}, [(0, 10, 10, 4), (0, 9, 11, 4), (0, 5, 10, 1)], [0, 20, 29]),
        (4, {"windows": [announced(10, 20, 4)]}, [(0, 10, 10, 3), (0, 9, 11, 1), (0, 5, 10, 1)], [0, 20, 0]),
    ],
    # The second would need 2 at 10.
    "a window that leaves one of 4 processors stops only what would need more": [
        (4, {"windows": [announced(10, 20, 3)]}, [(0, 8, 8, 2), (0, 12, 12, 2), (0, 30, 30, 1)], [0, 20, 0])
    ],
    "a job without a walltime starts before a window only beside it": [
        (5, {"windows": [announced(10, 20, 3)]}, [(0, 5, None, 2), (0, 5, None, 3)], [0, 20]),
        (5, {"windows": [announced(10, 20, 3, known=10.0)]}, [(0, 5, None, 2), (0, 5, None, 3)], [0, 0]),
    ],
    # The window should have all 4 from 10 on; the job in it ends at 14, so that it has 2 from 10 and 4 from 14 on. Of 4
    # it takes 2, which are idle: what ends at 14 is free.
    "what runs on into a window delays it, and nothing starts on its processors": [
        (
            *(4, {"windows": [announced(10, 20, procs, known=9.0)]}),
            [(0, 14, None, 2), (11, 1, 1, 1), (15, 1, 1, 1)],
            starts,
        )
        for procs, starts in ((4, [0, 20, 20]), (2, [0, 14, 15]))
    ],
    "processors that a window has do not fail": [
        (4, {"windows": [announced(1, 30, 1), failure(5, 9, 1)]}, [(0, 20, 20, 2)], [0]),
        (4, {"windows": [announced(1, 30, 2), failure(5, 9, 2)]}, [(0, 20, 20, 2)], [9]),
    ],
    # The failure takes neither of the two that the window has, so both jobs go.
    "a window that still waits for a processor keeps those that it has": [
        (*(4, {"windows": [announced(1, 8, 2, known=1.0), failure(5, 9, 2)]}), [(0, 20, 20, 2), (0, 20, 20, 1)], [8, 9])
    ],
    # 4 of 4 from 20 on. The third would run until 21, the fourth until 20.
    "a backfilled job does not push back what the head gets behind a window": [
        (
            *(4, {"windows": [announced(8, 20, 3)]}),
            [(0, 6, 6, 3), (1, 10, 10, 4), (2, 19, 19, 1), (2, 18, 18, 1)],
            [0, 20, 30, 2],
        )
    ],
    "a window is respected from its announcement on": [
        (4, {"windows": [announced(12, 20, 4)]}, [(0, 15, 15, 2), (5, 15, 15, 2)], [20, 20]),
        (4, {"windows": [announced(12, 20, 4, known=5.0)]}, [(0, 15, 15, 2), (5, 15, 15, 2)], [0, 20]),
    ],
    "a failure takes idle processors first, and then those of the job that started last": [
        (5, {"windows": [failure(5, 9, procs)]}, [(0, 20, 20, 2), (1, 20, 20, 1), (1, 20, 20, 1)], starts)
        for procs, starts in ((1, [0, 1, 1]), (2, [0, 1, 9]), (5, [9, 9, 9]))
    ],
}

CASES = EASY | TRIES | PLANS | WINDOWS


@pytest.mark.parametrize("claim", CASES)
def test_on_paper(claim):
    for size, rules, rows, starts in CASES[claim]:
        given = {"policy": "fcfs", **rules}
        jobs, windows = table(rows), given.pop("windows", None)
        if given.pop("outlives", False):
            jobs = outliving(jobs)
        if users := given.pop("users", None):
            jobs = replace(jobs, user=np.array(users))
        schedule, slow = both(jobs, size, calendar=Calendar(tuple(windows)) if windows else None, **given)
        assert [None if math.isnan(start_s) else start_s for start_s in schedule.start_s] == starts
        assert_same(schedule, slow)


# The reservation


@pytest.mark.parametrize(
    ("size", "jobs", "need", "found"),
    [
        # 10 processors, 2 free; 4 more at 100, 3 more at 200, 1 more at 300
        *((10, [(300, 1), (100, 4), (200, 3)], need, found)
          for need, found in ((5, (100, 1)), (6, (100, 0)), (7, (200, 2)), (10, (300, 0)))),
        # 4 and 4 processors until 100: a head of 6 starts then with 2 + 8 - 6 = 4 to spare
        (10, [(100, 4), (100, 4)], 6, (100, 4)),
        (10, [(100, 4), (100.001, 4)], 6, (100, 0)),
        # behind jobs without walltime it is never, and yet before their like
        (4, [(10, 1), (math.inf, 3)], 3, (NEVER_S, 1)),
        # a head that fits at no time, as when machines are away: 2 processors are free or will be, the head needs 3
        (2, [(10, 1)], 3, (NEVER_S, 0)),
    ],
)  # fmt: skip
def test_the_shadow_time_is_the_first_expected_end_at_which_the_head_fits(size, jobs, need, found):
    queue = Queue(size, Rules(FCFS))
    for row, (end_s, procs) in enumerate(jobs):
        assert queue.submit(str(row), 0.0, float(end_s), procs) == row
        assert queue.decide(0.0).tolist() == [row]
    assert reservation(need, queue.arrays) == found
    assert found[0] < math.inf


# What starts do not say: ids, ends and kills


def test_ties_go_by_submission_and_then_by_id_as_a_string():
    rows = [(0, 10, 10, 1), (1, 10, 10, 1), (1, 10, 10, 1)]
    schedule = replay_jobs(table(rows, ids=["1", "9", "10"]), 1, Rules(policy_named("spf")))
    assert dict(zip(schedule.jobs.ids, schedule.start_s, strict=True)) == {"1": 0, "10": 10, "9": 20}


def test_a_job_is_ended_at_its_walltime():
    schedule = replay_jobs(table([(0, 50, 20, 1), (0, 20, 20, 1), (0, 19, 20, 1)]), 3, Rules(FCFS))
    assert schedule.end_s.tolist() == [20, 20, 19]
    assert schedule.killed.tolist() == [True, True, False]


def test_a_small_job_is_killed_at_the_divider_and_runs_again_as_a_large_one_from_the_beginning():
    rows = [(0, 30, 40, 1, SMALL), (1, 10, 10, 1, SMALL), (2, 10, 10, 1, LARGE)]
    schedule = replay_jobs(table(rows), 1, Rules(FCFS, divider_s=20.0))
    # killed at 20, it comes behind the small job, and before the younger large one: its wait counts from 0
    assert schedule.kills.tolist() == [(0, 0.0, 20.0, 0, 20.0)]
    assert schedule.start_s.tolist() == [30, 20, 60]
    assert schedule.requeued.tolist() == [True, False, False]
    assert schedule.end_s.tolist() == [60, 30, 70]


@pytest.mark.parametrize(
    ("runtime", "walltime", "divider_s", "killed"),
    [(20, 40, 20.0, 0), (50, 20, 30.0, 0), (20, 90, 10.0, 1), (50, 20, 10.0, 1)],
)
def test_a_try_of_exactly_the_divider_or_with_a_walltime_before_it_ends_for_good(runtime, walltime, divider_s, killed):
    schedule = replay_jobs(table([(0, runtime, walltime, 1, SMALL)]), 1, Rules(FCFS, divider_s=divider_s))
    assert schedule.end_s.tolist() == [20 + killed * divider_s]
    assert schedule.kills[["row", "start_s", "ran_s"]].tolist() == [(0, 0.0, divider_s)] * killed


def test_small_jobs_exempt_from_the_kill_stay_small_when_the_rules_change():
    # One processor: both wait for the first job; the exempt small job goes before the older large one.
    jobs = table([(0, 10, 10, 1), (1, 5, 5, 1, LARGE), (2, 5, 5, 1, SMALL)])
    run = EngineReplay(replace(jobs, killable=np.zeros(3, bool)), 1, Rules(FCFS, divider_s=3.0))
    run.advance(5)
    run.queue.change_rules(Rules(policy_named("spf")))
    run.advance()
    assert run.schedule().start_s.tolist() == [0, 15, 10]


def test_a_try_is_killed_where_only_the_second_reservation_would_be_earlier_without_it():
    # The try on 1 of 4 processors is at its divider at 5. The head waits for 3 others to 20 with or without it; the
    # second needs all 4 from 25, which it would have only if the try were gone by then.
    jobs = table([(0, 40, 40, 1, 1), (0, 20, 20, 3, 0), (1, 5, 5, 3, 0), (2, 5, 5, 4, 0)])
    for depth, killed in [(2, 1), (ALL, 1), (1, 0), (0, 0)]:
        schedule, slow = both(jobs, 4, "spf", depth=depth, divider_s=5.0, spares=True, bound=True)
        assert len(schedule.kills) == killed
        assert_same(schedule, slow)


def test_who_passes_a_user_at_the_limit_is_not_backfilled():
    (size, rules, rows, _), *_ = CASES["a job whose user is at the limit keeps its place, and others pass"]
    jobs = replace(table(rows), user=np.array(rules["users"]))
    assert not replay_jobs(jobs, size, Rules(FCFS, max_running=1)).backfilled.any()


def run_beside(rows, size, *windows, **rules):
    return replay_jobs(table(rows), size, Rules(policy_named("spf"), calendar=Calendar(windows), **rules))


@pytest.mark.parametrize(
    ("size", "window", "start_s", "kills"),
    [
        (4, announced(10, 20, 4), 20, [(0, 0.0, 5.0, 0, 5.0)]),  # it would be in the window's way
        (4, announced(10, 20, 2), 0, []),  # it runs beside the window
        (2, failure(5, 7, 1), 7, [(0, 0.0, 5.0, 1, 5.0)]),  # a failure at the divider: it tries again
        (2, failure(6, 7, 1), 7, None),  # or after it
    ],
)
def test_a_try_goes_before_a_window_and_is_killed_by_what_takes_its_processors(size, window, start_s, kills):
    run = run_beside([(0, 30, 30, 2, SMALL)], size, window, divider_s=5.0, spares=True, bound=True)
    assert run.start_s.tolist() == [start_s]
    assert kills is None or run.kills.tolist() == kills


def test_figures_count_what_a_window_waits_for_and_what_a_failure_loses():
    run = run_beside([(0, 15, 15, 2), (5, 15, 15, 2)], 4, announced(12, 20, 4, known=5.0))
    assert run.away().overrun_proc_s == 2 * 3  # the first runs on to 15
    assert run.away().away_proc_s == 4 * 8
    assert run.summary().utilisation == (15 * 2 * 2) / (4 * 35 - 4 * 8 + 2 * 3)
    run = run_beside([(0, 20, 20, 2), (1, 20, 20, 1), (1, 20, 20, 1)], 5, failure(5, 9, 2))
    assert run.kills.tolist() == [(2, 1.0, 4.0, 1, 5.0)]
    assert (run.away().failed, run.away().lost_proc_s, run.summary().requeued) == (1, 4.0, 1)
