"""The study of power caps and energy budgets, on a small log: 16 processors, five months, two caps, one budget."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import batfill as bf
from batfill.model.jobs import DAY_S, HOUR_S, Clock

pytestmark = pytest.mark.needs("pydantic")
N_JOBS, DAYS, EVENINGS = 600, 160, "17 to 21 h"


@pytest.fixture
def power(monkeypatch):
    """The study with one scheduler, two caps and one budget."""
    from studies.tables import power

    monkeypatch.setattr(power, "SCHEDULERS", {"fcfs": {}})
    monkeypatch.setattr(power, "CAPS", (0.8, 0.7))
    monkeypatch.setattr(power, "BUDGETS", (0.8,))
    monkeypatch.setattr(power, "CAPPED", ((0.8, 0.7), *power.CAPPED[1:]))
    monkeypatch.setattr(power, "BUDGETED", ((0.8,), *power.BUDGETED[1:]))
    monkeypatch.setattr(power, "replay_all", lambda replayed, tasks, _: list(map(replayed, tasks)))
    return power


@pytest.fixture
def log(tmp_path):
    """A log that is busy for a part of the time."""
    rng = np.random.default_rng(3)
    runtime_s = rng.integers(HOUR_S, 18 * HOUR_S, N_JOBS)
    jobs = bf.job_table(
        submit_s=np.sort(rng.integers(0, DAYS * DAY_S, N_JOBS)),
        runtime_s=runtime_s,
        walltime_s=runtime_s + rng.integers(0, 10 * HOUR_S, N_JOBS),
        procs=rng.integers(1, 17, N_JOBS),
    )
    bf.write(jobs.stating(name="log", size=16), tmp_path / "log.swf")
    return tmp_path / "log.swf"


def test_a_cap_is_kept_if_it_is_announced_and_watts_are_known(power, log):
    found = power.replayed(power.Task(power.Variant("log", log), 0, EVENINGS))
    assert {rule for _, _, rule in found} == {power.NONE, *power.TAKES}
    for share in (0.8, 0.7):
        none, known, unknown, rough, worst = (found["fcfs", share, rule] for rule in (power.NONE, *power.TAKES))
        assert known.share == worst.share == known.excess == worst.excess == 0
        assert 0 < rough.share < unknown.share < none.share < 1
        assert 0 < rough.excess < 0.2
        assert worst.drawn_j < known.drawn_j < none.drawn_j
        assert none.waits_s.sum() < known.waits_s.sum() < worst.waits_s.sum()
        assert {one.left_out for one in (none, known, unknown, rough, worst)} == {none.left_out}
        assert none.jobs + none.left_out[0] == N_JOBS
    assert found["fcfs", 0.7, power.NONE].left_out[1] > found["fcfs", 0.8, power.NONE].left_out[1] > 0


def test_a_budget_is_kept_and_a_cap_of_the_same_energy_leaves_some_of_it(power, log):
    found = power.replayed(power.Task(power.Variant("log", log), 0))
    none, cap, budget, holds = (found["fcfs", 0.8, rule] for rule in (power.NONE, power.CAP, power.BUDGET, power.HOLDS))
    assert {len(one.waits_s) for one in found.values()} == {2}  # budgets from day 30 and day 90
    assert {one.jobs for one in found.values()} == {none.jobs}
    assert none.share == pytest.approx(1 / 0.8, rel=1e-3)  # watts are whole
    assert cap.share < budget.share <= 1
    assert holds.share <= 1


def test_the_same_seed_draws_the_same_watts_in_range(power, log):
    drawn = [power.with_watts(bf.read(log), seed).jobs for seed in (0, 0, 1)]
    one, again, other = (jobs.amounts["watts"] for jobs in drawn)
    assert (one == again).all()
    assert (one != other).any()
    each = one / drawn[0].procs
    assert 25 <= each.min() < 30
    assert 95 < each.max() <= 100
    rough = drawn[0].amounts["estimate"] / one
    assert 0.8 <= rough.min() < 0.85
    assert 1.15 < rough.max() <= 1.2
    assert (drawn[0].amounts["estimate"] <= 100 * drawn[0].procs).all()


def test_hours_of_the_day_are_those_of_the_logs_clock(power, log):
    zone = ZoneInfo("Europe/Stockholm")
    began = datetime(2002, 3, 1, 18, tzinfo=zone)  # a month before summer time
    periods = power.daily(replace(bf.read(log), clock=Clock(int(began.timestamp()), zone)), 17, 21)
    assert periods[0][0] == 23 * HOUR_S  # that of the first day has begun
    dates = [[datetime.fromtimestamp(began.timestamp() + at, zone) for at in period] for period in periods]
    assert {(begin.hour, end.hour, (end - begin).seconds) for begin, end in dates} == {(17, 21, 4 * HOUR_S)}


def test_an_integral_over_periods():
    from studies.tables.power import within

    dates, values = np.array([0.0, 10.0, 20.0]), np.array([2, 5, 0])
    assert within(dates, values, [(5, 12), (19, 30)]) == 5 * 2 + 2 * 5 + 1 * 5


def test_waits_are_compared_by_log_or_with_each_log_weighing_the_same(power):
    def told(*waits_s):
        return power.Told(1, (0, 0.0), np.array(waits_s, float), 1.0, 1.0, 0.0, 0.0)

    short, long = {"a": told(20, 0), "b": told(10, 0)}, {"a": told(100, 300), "b": told(200, 600)}
    keys = [("a", "b")]
    assert [power.compared([[one]], keys)[0].value for one in (short, long)] == [2, 0.5]
    assert power.compared([[short], [long]], keys)[0].value == (2 + 0.5) / 2
    assert power.compared([[long, long]], keys)[0].value == 0.5  # two seeds
