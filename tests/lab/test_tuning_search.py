"""Searching mixed policies on periods whose best schedule is known by trying every order."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from batfill.base.errors import BatfillError
from batfill.model.policy import POLICIES, PURE, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.found import as_json
from batfill_lab.search.judged import recommendation
from batfill_lab.search.mixed_search import Coverage, Evolution, Space, l1_grid, xnes
from batfill_lab.search.periods import Conditions, costs
from batfill_lab.search.tune import StudyPlan, study, study_rows, tune_on
from batfill_pages.stats import Paired
from oracle import oracle
from strategies import periods_of, random_table, table

CONDITIONS = Conditions()


# One processor: no job can be backfilled, so that a schedule is an order.
LENGTHS = ((90, 20, 400, 35, 60), (15, 300, 40, 25, 120), (70, 11, 33, 500, 18))
ONE_BY_ONE = periods_of(
    [table([(0, 50, 50, 1), *((i + 1, p, p, 1) for i, p in enumerate(week))]) for week in LENGTHS], procs=1
)


def cost_of_order(order):
    """The mean bounded slowdown of one period where the jobs after the first run in this order."""
    now_s, slowdowns = 50, [1.0]
    for submit_s, p in order:
        now_s += p
        slowdowns.append(max((now_s - submit_s) / max(p, 10), 1))
    return sum(slowdowns) / len(slowdowns)


BEST = [min(map(cost_of_order, itertools.permutations(list(enumerate(week, start=1))))) for week in LENGTHS]


def assert_best_of_each_week(search):
    for i in range(3):
        assert costs(ONE_BY_ONE.part(i, i + 1), [search.best(i, i + 1)], CONDITIONS)[0, 0] == pytest.approx(BEST[i])


def weights_of(name):
    """The weights that the name of a mixed policy gives."""
    return [float(word) for word in name.partition(":")[2].split(",")]


def test_costs_are_those_of_the_oracle():
    periods = periods_of([random_table(seed, n_jobs=60, size=8, span_s=200) for seed in (1, 2)], procs=8)
    policies = [policy_named(name) for name in PURE]
    found = costs(periods, policies, Conditions(threshold_s=40.0, tau_s=5.0))
    for (i, policy), (k, jobs) in itertools.product(enumerate(policies), enumerate(periods.tables)):
        ran = oracle(jobs, 8, policy.name, backfill="spf", threshold_s=40.0).jobs
        slowdowns = []
        for row, job in enumerate(ran):
            if not math.isnan(job.start):
                p = min(jobs.runtime_s[row], jobs.walltime_s[row])
                slowdowns.append(max((job.start - jobs.submit_s[row] + p) / max(p, 5.0), 1))
        assert found[i, k] == pytest.approx(sum(slowdowns) / len(slowdowns), rel=1e-12)


@pytest.mark.parametrize(("least", "points"), [(1, 6), (7, 18), (10_000, 10_002)])
def test_the_grid_is_uniform_on_the_sphere_and_has_the_points_it_says(least, points):
    grid = l1_grid(least)
    assert len(grid) == len({tuple(point) for point in grid.tolist()}) == points
    assert np.allclose(np.abs(grid).sum(axis=1), 1)
    k = round(math.sqrt((points - 2) / 4))
    assert np.allclose(grid * k, np.round(grid * k))


@pytest.mark.parametrize("units", ["plain", "typical"])
def test_coverage_finds_the_best_order_of_every_period(units):
    space = Space.of(3) if units == "plain" else Space.scaled(3, ONE_BY_ONE)
    search = Coverage(ONE_BY_ONE, CONDITIONS, space, 500)
    assert search.costs.min(axis=0) == pytest.approx(BEST)
    assert_best_of_each_week(search)
    assert costs(ONE_BY_ONE, [search.best(0, 3)], CONDITIONS).sum() == pytest.approx(sum(BEST))


def test_of_equally_good_points_coverage_takes_the_sensible_one():
    calm = periods_of([table([(0, 10, 10, 1), (20, 10, 10, 1)])], procs=1)
    search = Coverage(calm, CONDITIONS, Space.of(3), 50)
    assert (search.costs == 1).all()
    q, p, w = search.weights[search.place(0, 1)]
    assert q > 0
    assert p > 0 > w


@pytest.mark.needs("cmaes")
@pytest.mark.parametrize("features", [3, 6])
def test_xnes_finds_the_best_order_of_every_period(features):
    space = Space.scaled(features, ONE_BY_ONE)
    assert_best_of_each_week(Evolution(ONE_BY_ONE, CONDITIONS, space, seed=1, evaluations=120))


@pytest.mark.needs("cmaes")
def test_xnes_is_driven_by_the_cost_and_repeats_itself():
    # Only the direction counts: the cost is the distance to a point on the sphere.
    goal = np.array([0.2, -0.5, 0.1, 0.0, 0.15, -0.05])

    def distance(policies):
        return np.abs(np.array([weights_of(policy.name) for policy in policies]) - goal).sum(axis=1)

    found, again, other = (xnes(distance, Space.of(6), seed=seed, evaluations=3000) for seed in (3, 3, 4))
    assert found.cost < 0.01
    assert found.cost == distance([found.policy])[0]
    assert found.evaluations >= 3000
    assert again.policy.name == found.policy.name != other.policy.name


class Remembers:
    """A search that always finds SPF, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def best(self, first, stop):
        self.asked.append((first, stop))
        return POLICIES["spf"]

    def as_dict(self):
        return {}


def test_no_choice_but_the_best_of_a_week_sees_that_week():
    weeks = periods_of(ONE_BY_ONE.tables * 2, procs=1)
    search = Remembers()
    done = study(weeks, CONDITIONS, search, pure=[POLICIES["fcfs"]], n_training=3, last=(1, 2))
    assert search.asked == [(i, i + 1) for i in range(6)] + [(0, 3)] + [(0, 2), (1, 3), (2, 4), (3, 5)]
    assert done.lines["w*"].costs == pytest.approx(BEST * 2)
    assert np.isnan(done.lines["wgreedy"].costs).tolist() == [True] + [False] * 5
    assert done.lines["last 2"].policies == (None, None, "spf", "spf", "spf", "spf")
    sums = {row["policy"]: row for row in done.sums()}
    assert sums["last 2"]["testing"] == sums["w*"]["testing"] == pytest.approx(sum(BEST))
    assert sums["last 2"]["training"] is None
    fcfs = sum(cost_of_order(list(enumerate(week, start=1))) for week in LENGTHS)
    assert sums["fcfs"]["training"] == pytest.approx(fcfs)
    compared = done.judged("fcfs", seed=0)["testing_over_baseline"]
    assert list(compared) == ["pure 1", "pure 2", "w*train", "wgreedy", "last 2"]  # w* sees what it chooses for
    assert compared["w*train"]["value"] == pytest.approx(sum(BEST) / fcfs)


WAITS = {
    name: {"max_wait_s": wait_s, "p999_wait_s": wait_s / 2}
    for name, wait_s in {"saf": 10, "a": 20, "b": 30, "c": 11}.items()
}


def advice(blocks=30, merged=1, **compared):
    """The recommendation, from (ratio, corrected p) by name."""
    level = {"null": 1.0, "level": 0.95, "correlation": 0.0, "merged": merged, "blocks": blocks}
    found = {name: Paired(value, value - 0.1, value + 0.1, p, p, **level) for name, (value, p) in compared.items()}
    return recommendation(found, WAITS, "saf", what="the cost", periods="30 weeks")


def test_the_best_of_those_better_beyond_chance_is_recommended_and_its_waits_are_said():
    assert advice(a=(0.9, 0.01), b=(0.8, 0.06))["take"] == "a"
    found = advice(a=(0.9, 0.01), b=(0.8, 0.04))
    assert found == {
        "take": "b",
        "text": "take b: longest wait 30 s, saf 10 s; 0.8 of the cost of saf on 30 weeks, 95% interval 0.7 to 0.9, "
        "p 0.04 after the correction for 2 comparisons; 99.9 % wait at most 15 s, saf 5 s. "
        "With a longest wait at most 10% above that of saf: stay with saf",
    }
    assert advice(a=(0.9, 0.01), b=(0.8, 0.04), c=(0.95, 0.04))["text"].endswith("above that of saf: c, 0.95")
    assert "With" not in advice(c=(0.95, 0.04))["text"]


@pytest.mark.parametrize(
    ("blocks", "merged", "decides"), [(30, 1, True), (12, 1, True), (11, 1, False), (6, 2, True), (6, 1, False)]
)
def test_from_too_few_periods_nothing_is_recommended(blocks, merged, decides):
    few = {"blocks": blocks, "merged": merged}
    found = advice(a=(0.5, 0.001), **few)
    assert found["take"] == ("a" if decides else "saf")
    assert found["text"].startswith("take a: longest wait 20 s" if decides else "cannot decide, so stay with saf: ")
    many = advice(**dict.fromkeys("abc", (0.5, 0.001)), **few)
    assert (many["take"] != "saf") == (decides and blocks > 6)


@pytest.mark.needs("cmaes")
@pytest.mark.parametrize("choices", [{"points": 60}, {"method": "xnes", "features": 6, "evaluations": 20}])
def test_the_same_seed_gives_the_same_bytes_and_all_that_is_needed_to_run_it_again(choices):
    weeks = periods_of([random_table(seed, n_jobs=40, size=8, span_s=100) for seed in range(4)], procs=8)
    found, again = (tune_on(weeks, StudyPlan(seed=3, last=(1,), **choices)) for _ in range(2))
    assert as_json(found) == as_json(again)
    assert found["seed"] == 3
    assert found["engine"] == "batfill replay"
    assert found["made_by"].startswith("batfill ")
    assert found["input"]["periods"] == [0, 1, 2, 3]
    # What was found is a policy that anyone can name and run.
    replayed = costs(weeks, [policy_named(found["trained"])], CONDITIONS)[0]
    assert [week["mean_bsld"]["w*train"] for week in found["by_period"]] == replayed.tolist()


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"last": (3,)}, "3 periods are too few to train on 1 and look 3 back"),
        ({"training": 3}, "too few to train on 3"),
        ({"features": 6}, "use method xnes"),
        ({"evaluations": 9}, "evaluations: method coverage does not use it"),
        ({"method": "xnes", "points": 9}, "points: method xnes does not use it"),
        ({"baseline": "wfp3"}, "add policy wfp3"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(choices, words):
    with pytest.raises(BatfillError, match=words):
        tune_on(ONE_BY_ONE, StudyPlan(**{"last": (1,), **choices}))


def test_the_table_compares_every_line_with_the_baseline():
    found = tune_on(periods_of(ONE_BY_ONE.tables * 2, procs=1), StudyPlan(points=60, last=(1,)))
    rows, compared = {row["policy"]: row for row in study_rows(found)}, found["testing_over_baseline"]["fcfs"]
    assert [row["policy"] for row in found["sums"]] == list(rows)
    assert (rows["saf"]["testing/saf"], rows["saf"]["from"]) == (1, None)
    assert rows["fcfs"]["testing/saf"] == pytest.approx(compared["value"])
    assert rows["fcfs"]["testing/saf"] == rows["fcfs"]["testing"] / rows["saf"]["testing"]
    assert (rows["fcfs"]["from"], rows["fcfs"]["verdict"]) == (compared["low"], compared["verdict"])


def test_the_long_waits_are_those_of_the_testing_periods():
    weeks = periods_of([random_table(seed, n_jobs=60, size=8, span_s=100) for seed in range(4)], procs=8)
    found = tune_on(weeks, StudyPlan(points=60, last=(1,), training=2))
    for row in found.rows:
        waits = []
        for week, jobs in zip(found["by_period"][2:], weeks.tables[2:], strict=True):
            policy = policy_named(week["policies"].get(row["policy"], row["policy"]))
            waits.append(replay_jobs(jobs, 8, Rules(policy, backfill=CONDITIONS.backfill)).start_s - jobs.submit_s)
        every = np.concatenate(waits)
        every = every[~np.isnan(every)]
        assert (row["p999_wait_s"], row["max_wait_s"]) == (pytest.approx(np.quantile(every, 0.999)), every.max())
