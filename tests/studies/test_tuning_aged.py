"""The study of aged orders chosen on past weeks: what was known by hand, the choice by the oracle's schedules."""

from __future__ import annotations

import math

import pytest

from batfill.model.jobs import DAY_S
from batfill.model.policy import POLICIES
from batfill.replays.engine_replay import EngineReplay
from oracle import oracle
from strategies import random_table, table
from studies.tables.aged import TAU_S, Figures, Order, Weeks, before, chosen, lines_of, orders_searched

FCFS, SPF = Order(POLICIES["fcfs"]), Order(POLICIES["spf"])


def known_at(weeks, order, until_s):
    """Mean bounded slowdown and longest wait as seen at an instant, a job of the oracle's schedule at a time."""
    given = {} if math.isinf(order.threshold_s) else {"threshold_s": order.threshold_s}
    jobs, slowdowns, waits = weeks.jobs, [], []
    starts = [job.start for job in oracle(jobs, weeks.size, order.policy.name, **given).jobs]
    for submit_s, start_s, p, limit_s in zip(jobs.submit_s, starts, jobs.runtime_s, jobs.walltime_s, strict=True):
        if submit_s < until_s:
            ran_s, wait_s = min(p, limit_s), min(start_s, until_s) - submit_s
            slowdowns.append(max((wait_s + ran_s) / max(ran_s, TAU_S), 1))
            waits.append(wait_s)
    return sum(slowdowns) / len(slowdowns), max(waits)


def under(weeks, ahead, first=FCFS):
    """The starts if `first` rules until the testing weeks, and then these orders."""
    run = EngineReplay(weeks.jobs, weeks.size, first.rules)
    run.advance(before(weeks.starts_s[0]))
    return weeks.starts_ahead(run, ahead).tolist()


def test_what_is_chosen_is_what_the_oracle_would_choose():
    jobs = random_table(7, n_jobs=90, size=8, span_s=400, unlimited=0.0)  # a queue that is rarely empty
    weeks, threshold_s = Weeks(jobs.stating(name="made", size=8), 100 / DAY_S), 60.0
    orders = [Order(POLICIES["saf"], threshold_s), *orders_searched(threshold_s)[:24]]
    courses = [weeks.course(order) for order in orders]
    for place, until_s in enumerate((*weeks.starts_s, math.inf)):
        base, *figures = (Figures(*known_at(weeks, order, until_s)) for order in orders)
        found = [course[place] for course in courses]
        assert found == [pytest.approx(one) for one in (base, *figures)]
        able = [one for one in figures if one.max_wait_s <= base.max_wait_s and one.mean_bsld < base.mean_bsld]
        taken = chosen(found[1:], found[0])
        assert (taken is None) == (not able)
        assert taken is None or figures[taken].mean_bsld == pytest.approx(min(one.mean_bsld for one in able))


def test_until_the_training_is_over_every_line_is_the_baseline_and_then_its_own():
    # One processor, busy until 200: a long and a short job wait when the training ends at 100. Another two come later.
    jobs = table([(0, 200, 200, 1), (10, 90, 90, 1), (20, 5, 5, 1), (110, 50, 50, 1), (150, 2, 2, 1)])
    weeks = Weeks(jobs.stating(name="made", size=1), 100 / DAY_S)
    assert under(weeks, [FCFS]) == [0, 200, 290, 295, 345]
    assert under(weeks, [SPF]) == [0, 257, 202, 207, 200]
    assert weeks.tested.tolist() == [2]
    (cost,), waits = weeks.tested_on(under(weeks, [SPF]))
    assert cost == pytest.approx((97 + 50) / TAU_S + 1)
    assert waits["max_wait_s"] == 97


def test_an_order_that_changes_each_period_rules_from_the_periods_first_instant_on():
    # Busy until 100, when the second testing period begins and a job comes: spf takes it, fcfs the one that waits.
    jobs = table([(0, 100, 100, 1), (60, 40, 40, 1), (100, 1, 1, 1), (160, 1, 1, 1)])
    weeks = Weeks(jobs.stating(name="made", size=1), 50 / DAY_S)
    assert under(weeks, [SPF, FCFS]) == [0, 101, 100, 160]
    assert under(weeks, [FCFS, SPF]) == [0, 100, 140, 160]


def test_where_no_order_is_better_the_choice_is_the_baseline():
    jobs = table([(k * 10 + i, 30, 30, 1) for k in range(8) for i in range(2)])
    weeks = Weeks(jobs.stating(name="made", size=1), 20 / DAY_S)
    found = lines_of(weeks, 1000.0, weeks.jobs.submit_s * 1.0)
    costs, _, what = found.lines["trained"]
    assert (what, costs.tolist()) == ("saf", found.base.tolist())
