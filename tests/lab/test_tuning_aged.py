"""Aged orders searched on past weeks: the search by hand, the bounds by plain loops, the schedules by the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.model.jobs import DAY_S, Workload
from batfill.model.policy import POLICIES, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.search.periods import Conditions
from batfill_lab.learning.aged import (
    C_S,
    UNTUNED,
    Bounds,
    Order,
    Weeks,
    aged_points,
    candidates,
    chosen,
    figures_until,
    on_a_front,
    tune_aged,
)
from command import batfill, json_result
from oracle import oracle
from strategies import random_table, table
from swf_text import row

TAU_S = 10.0
SAME = Conditions.of("same", None, TAU_S)
SPAN_S = 400
DAYS = 50 / DAY_S  # eight periods of 50 s


def workload(jobs, procs=8):
    return Workload("made", jobs, procs)


def loaded(seed=3, n_jobs=90):
    """A queue that is rarely empty, so that orders differ and their long waits do too."""
    return random_table(seed, n_jobs=n_jobs, size=8, span_s=SPAN_S, unlimited=0.0)


def quantile(values, share):
    """Linear between the two nearest values."""
    values = sorted(values)
    place = share * (len(values) - 1)
    low = math.floor(place)
    return values[low] + (place - low) * (values[min(low + 1, len(values) - 1)] - values[low])


def by_hand(jobs, starts, until_s):
    """Mean bounded slowdown, 99.9 % wait and longest wait as seen at an instant, a job at a time."""
    slowdowns, waits = [], []
    for submit_s, start_s, p, limit_s in zip(jobs.submit_s, starts, jobs.runtime_s, jobs.walltime_s, strict=True):
        if submit_s < until_s:
            ran_s, wait_s = min(p, limit_s), min(start_s, until_s) - submit_s
            slowdowns.append(max((wait_s + ran_s) / max(ran_s, TAU_S), 1))
            waits.append(wait_s)
    return sum(slowdowns) / len(slowdowns), quantile(waits, 0.999), max(waits)


def oracle_starts(jobs, order):
    options = {} if math.isinf(order.threshold_s) else {"threshold_s": order.threshold_s}
    return [job.start for job in oracle(jobs, 8, order.policy.name, **options).jobs]


# The family


def test_the_points_cover_the_family_evenly_and_the_seed_moves_them():
    points = aged_points(200, seed=5)
    assert (points == aged_points(400, seed=5)[:200]).all()
    assert not (points == aged_points(200, seed=6)).any(axis=1).any()
    place = (np.log(points[:, 0]) - np.log(C_S[0])) / np.log(C_S[1] / C_S[0])
    assert (np.abs(np.histogram(place, 10, (0, 1))[0] - 20) <= 3).all()
    for exponent in points[:, 1:].T:
        assert (np.abs(np.histogram(exponent, 5, (0, 1))[0] - [48, 32, 32, 32, 48]) <= 12).all()
        assert 12 <= (exponent == 0).sum() <= 28
        assert 12 <= (exponent == 1).sum() <= 28
    # Not in a plane: no two of the three numbers move together.
    assert np.abs(np.corrcoef(points.T) - np.eye(3)).max() < 0.15


def test_orders_are_searched_without_the_threshold_and_with_it():
    assert next(iter(candidates(1, 0, math.inf))).name == UNTUNED.name
    orders = candidates(3, 0, 60.0)
    assert [order.threshold_s for order in orders] == [math.inf, 60.0] * 4
    assert len({order.policy.name for order in orders}) == 4
    assert policy_named(orders[-1].policy.name).name == orders[-1].policy.name


# What was known, and the choice


@pytest.mark.parametrize("until_s", [1.0, 50.0, 120.0, math.inf])
def test_figures_are_those_known_at_the_instant(until_s):
    jobs = loaded()
    jobs = jobs.select(jobs.procs <= 8)
    start_s = replay_jobs(jobs, 8, Rules(POLICIES["saf"])).start_s
    assert figures_until(jobs, start_s, until_s, TAU_S) == pytest.approx(by_hand(jobs, start_s, until_s))


def test_the_cheapest_that_keeps_the_bound_is_chosen():
    base = np.array([10.0, 80.0, 100.0])
    figures = np.array([[5.0, 90.0, 111.0], [9.0, 70.0, 100.0], [8.0, 90.0, 110.0], [10.0, 1.0, 1.0], [8.0, 85.0, 110]])
    for bounds, place in (
        ((0.0, None), 1), ((0.1, None), 2), ((0.11, None), 0), ((None, 0.0), 1), ((None, 1.0), 0), ((0.1, 0.1), 4),
        ((None, None), 1),
    ):  # fmt: skip
        assert chosen(figures, base, Bounds.of(*bounds)) == place, bounds
    assert chosen(figures[[0, 3]], base, Bounds.of(0.0, None)) is None  # too long, and no cheaper
    assert chosen(figures[[0]], base, Bounds.of(0.0, None)) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_front_holds_what_nothing_beats_in_cost_and_one_of_the_waits(seed):
    figures = np.random.default_rng(seed).integers(0, 6, (30, 3)).astype(float)

    def beaten(mine, wait):
        return any(
            other[0] <= mine[0] and other[wait] <= mine[wait] and (other[0], other[wait]) != (mine[0], mine[wait])
            for other in figures
        )

    expected = [not beaten(mine, 1) or not beaten(mine, 2) for mine in figures]
    assert on_a_front(figures).tolist() == expected


@pytest.mark.parametrize("growth", [0.0, 0.2, 5.0])
@pytest.mark.parametrize("threshold_s", [None, 60.0])
def test_what_is_chosen_is_what_the_oracle_would_choose(growth, threshold_s):
    jobs = loaded(seed=7)
    found = tune_aged(
        workload(jobs), points=12, seed=2, threshold_s=threshold_s, tau_s=TAU_S, days=DAYS, max_wait_growth=growth
    )
    ran = jobs.select(jobs.procs <= 8)
    limit_s = math.inf if threshold_s is None else threshold_s
    orders = candidates(12, 2, limit_s)
    base = oracle_starts(ran, Order(POLICIES["saf"], limit_s))
    starts = [oracle_starts(ran, order) for order in orders]

    def best(until_s):
        most = (1 + growth) * by_hand(ran, base, until_s)[2]
        least, taken = by_hand(ran, base, until_s)[0], None
        for order, mine in zip(orders, starts, strict=True):
            cost, _, longest_s = by_hand(ran, mine, until_s)
            if longest_s <= most and cost < least * (1 - 1e-12):
                least, taken = cost, order
        return "saf" if taken is None else taken.policy.name

    periods = int(ran.submit_s[-1] // 50) + 1
    ahead = [best(50.0 * i) for i in range(periods // 2, periods)]
    assert [week["order"].partition(", ")[0] for week in found["by_period"]] == ahead
    assert found["trained"]["policy"] == ahead[0]
    assert found["latest"]["policy"] == best(math.inf)
    for order, mine in zip(found["orders"], starts, strict=True):
        figures = [order[name] for name in ("mean_bsld", "p999_wait_s", "max_wait_s")]
        assert figures == pytest.approx(by_hand(ran, mine, math.inf))


# One processor, busy at first; then a long job, and a stream of short ones that fills it. Every period starts so.
LONG_S, SHORT_S, N_SHORT = 1500, 60, 60
STREAM = [(0, 100, 100, 1), (1, LONG_S, LONG_S, 1), *((2 + SHORT_S * i, SHORT_S, SHORT_S, 1) for i in range(N_SHORT))]


def served(place):
    """The mean bounded slowdown and the longest wait of a period in which `place` short jobs go before the long one."""
    short = [job[:2] for job in STREAM[2:]]
    now_s, slowdowns, waits = 100, [1.0], [0]
    for submit_s, p in [*short[:place], STREAM[1][:2], *short[place:]]:
        waits.append(now_s - submit_s)
        now_s += p
        slowdowns.append((now_s - submit_s) / p)
    return sum(slowdowns) / len(slowdowns), max(waits)


def test_a_planted_optimum_is_found_and_a_bound_on_the_longest_wait_keeps_it_out():
    period_s = 8000
    jobs = table([(k * period_s + submit_s, *rest) for k in range(6) for submit_s, *rest in STREAM])
    every = [served(place) for place in range(N_SHORT + 1)]
    best, fcfs = min(every), every[0]
    within = min(one for one in every if one[1] <= fcfs[1])
    assert best[1] > 2 * fcfs[1]
    assert best[0] < 0.5 * within[0] < within[0] < 0.8 * fcfs[0]

    def trained(growth):
        made = {"tau_s": TAU_S, "days": period_s / DAY_S, "baseline": "fcfs", "points": 500, "max_wait_growth": growth}
        found = tune_aged(workload(jobs, 1), **made)
        [line] = [line for line in found["sums"] if line["policy"] == "trained"]
        return line["mean_bsld"], line["max_wait_s"]

    assert trained(99) == pytest.approx(best)
    cost, longest_s = trained(0)
    assert longest_s <= fcfs[1]
    assert within[0] <= cost * (1 + 1e-12) <= 1.15 * within[0]  # how finely the points cover it


def test_where_no_order_is_better_one_stays_with_the_baseline_and_it_is_said():
    jobs = table([(k * 10 + i, 30, 30, 1) for k in range(8) for i in range(2)])
    found = tune_aged(workload(jobs, 1), days=20 / DAY_S, baseline="fcfs")
    assert found["trained"] == {"policy": "fcfs", "threshold": None, "stays": True}
    assert {week["order"] for week in found["by_period"]} == {"fcfs"}
    assert (
        "trained: stay with fcfs; no order searched has a longest wait no longer than its own and a lower mean "
        "bounded slowdown on the training weeks" in found.remark
    )
    assert found["testing_over_baseline"]["trained"]["value"] == 1
    assert found["recommendation"]["text"].startswith("cannot decide, so stay with fcfs")


# The test on later weeks


def test_until_the_training_is_over_every_line_is_the_baseline_and_then_its_own():
    # One processor, busy until 200: a long and a short job wait when the training ends at 100. Another two come later.
    jobs = table([(0, 200, 200, 1), (10, 90, 90, 1), (20, 5, 5, 1), (110, 50, 50, 1), (150, 2, 2, 1)])
    weeks = Weeks.of(jobs, 1, 100 / DAY_S, 1, SAME)
    fcfs, spf = Order(POLICIES["fcfs"]), Order(POLICIES["spf"])
    run = weeks.trained_on(fcfs)
    assert weeks.starts_ahead(run, [fcfs]).tolist() == [0, 200, 290, 295, 345]
    assert weeks.starts_ahead(run, [spf]).tolist() == [0, 257, 202, 207, 200]
    assert weeks.tested.tolist() == [2]
    assert weeks.by_period(weeks.starts_ahead(run, [spf]))[0] == pytest.approx((97 + 50) / 50 + (50 + 2) / 10)


def test_an_order_that_changes_each_period_rules_from_the_periods_first_instant_on():
    # Busy until 100, when the second testing period begins and a job comes: spf takes it, fcfs the one that waits.
    jobs = table([(0, 100, 100, 1), (60, 40, 40, 1), (100, 1, 1, 1), (160, 1, 1, 1)])
    weeks = Weeks.of(jobs, 1, 50 / DAY_S, 1, SAME)
    fcfs, spf = Order(POLICIES["fcfs"]), Order(POLICIES["spf"])
    run = weeks.trained_on(fcfs)
    assert weeks.starts_ahead(run, [fcfs, spf, fcfs]).tolist() == [0, 101, 100, 160]
    assert weeks.starts_ahead(run, [spf, fcfs, spf]).tolist() == [0, 100, 140, 160]


@pytest.mark.parametrize("name", ["saf", "lexp", UNTUNED.name])
def test_a_line_that_goes_on_with_the_baseline_is_the_baselines_replay(name):
    jobs = loaded(seed=11)
    jobs = jobs.select(jobs.procs <= 8)
    weeks, order = Weeks.of(jobs, 8, DAYS, None, SAME), Order(policy_named(name), 80.0)
    ahead = weeks.starts_ahead(weeks.trained_on(order), [order] * len(weeks.starts_s))
    assert ahead.tolist() == weeks.starts_under(order).tolist() == oracle_starts(jobs, order)


def test_the_table_has_the_lines_figures_over_the_testing_weeks():
    jobs = loaded(seed=5, n_jobs=200)
    found = tune_aged(workload(jobs), points=6, tau_s=TAU_S, days=DAYS, policies=["fcfs"], threshold_s=90)
    ran = jobs.select(jobs.procs <= 8)
    new = ran.submit_s >= 200
    start_s = np.array(oracle_starts(ran, Order(POLICIES["saf"], 90)))
    tested = ran.select(new)
    cost, p999_s, longest_s = by_hand(tested, start_s[new], math.inf)
    rows = {row["policy"]: row for row in found.rows}
    assert next(iter(rows)) == min(rows, key=lambda name: rows[name]["testing"])
    assert set(rows) == {"saf, threshold 90", "fcfs, threshold 90", "trained", "walk forward", UNTUNED.name}
    base = rows["saf, threshold 90"]
    assert (base["testing"], base["p999_wait_s"], base["max_wait_s"]) == pytest.approx((cost, p999_s, longest_s))
    assert (base["testing/baseline"], base["from"], base["verdict"]) == (1, None, "")
    for name, other in rows.items():
        assert other["testing/baseline"] == pytest.approx(other["testing"] / cost)
        if name != "saf, threshold 90":
            assert other["testing/baseline"] == pytest.approx(found["testing_over_baseline"][name]["value"])
    sums = [week["sum_bsld"]["saf, threshold 90"] for week in found["by_period"]]
    assert sum(sums) / sum(week["jobs"] for week in found["by_period"]) == pytest.approx(cost)


# The same in, the same out; and what cannot be


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_orders():
    log = bf.generate(jobs=300, procs=32, seed=1)
    choices = {"points": 8, "days": 0.2, "max_wait_growth": 0.5}
    first = tune_aged(log, **choices, seed=4)
    assert first.as_json() == tune_aged(log, **choices, seed=4).as_json()
    other = tune_aged(log, **choices, seed=5)
    assert first["orders"][1:] != other["orders"][1:]
    assert first["orders"][0] == other["orders"][0]
    assert (first["seed"], first["options"]["family"], first["options"]["points"]) == (4, "aged", 8)
    assert (first["options"]["max_wait_growth"], first["options"]["p999_wait_growth"]) == (0.5, None)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"training": 0}, "8 periods are too few to train on 0; choose training from 1 to 7"),
        ({"training": 8}, "too few to train on 8"),
        ({"days": 1}, "1 period is too few to train on 0; give a longer log"),
        ({"max_wait_growth": -0.1}, "option max_wait_growth: -0.1 is not a share >= 0"),
        ({"p999_wait_growth": math.nan}, "option p999_wait_growth: nan"),
        ({"baseline": "best"}, "policy 'best' is unknown"),
        ({"policies": ["best"]}, "policy 'best' is unknown"),
        ({"points": 0}, "points: 0 is not"),
        ({"seed": -1}, "option seed: -1"),
        ({"days": 0}, "option days: 0 is not a finite number > 0"),
        ({"days": 1e-9}, "more than 100000 periods; give longer days"),
        ({"threshold_s": -1}, "option threshold"),
    ],
)
def test_what_cannot_be_is_refused(choices, words):
    with pytest.raises(BatfillError, match=words):
        tune_aged(workload(loaded()), **{"days": DAYS, **choices})


def test_a_log_without_a_job_for_the_machine_is_refused():
    with pytest.raises(BatfillError, match="no job fits 2 processors; give a larger procs"):
        tune_aged(workload(table([(0, 10, 10, 4), (90, 10, 10, 4)]), 2), days=DAYS)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    rows = [
        row(i + 1, 40 * i, 30 + 97 * i % 400, procs=1 + i % 4, req_procs=1 + i % 4, req_time=500) for i in range(80)
    ]
    path.write_text("; MaxProcs: 4\n" + "".join(rows))
    return path


def test_the_command_prints_writes_and_equals_the_function(log, tmp_path):
    out = tmp_path / "aged.json"
    words = ("tune", log, "--family", "aged", "--days", "0.005", "--points", "6", "--p999-wait-growth", "20%")
    done = batfill(*words, "--out", out)
    found = tune_aged(log, days=0.005, points=6, p999_wait_growth=0.2)
    assert (done.status, done.err, done.out) == (0, "", found.as_text() + "\n")
    assert json_result(*words) == bf.tune_aged(bf.read(log), days=0.005, points=6, p999_wait_growth=0.2)
    assert out.read_text() == found.as_json() + "\n"
    assert "The baseline and the front of the orders, each used on all weeks (in hindsight):" in done.out
