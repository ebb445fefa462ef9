"""The choice of policies while the cluster runs: feedback by a slow oracle, choosers by hand, and both hosts alike."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import load_document, read_batsim_json
from batfill.workloads.formats import log_of, save_log
from batfill_lab.online.choosers import Exponential, Hindsight, UpperConfidence, chooser
from batfill_lab.online.feedback import Site, period_costs, replay_from
from batfill_lab.online.selection import TEN, Selection, past_of, select_online
from batfill_pages.stats import paired
from command import batfill
from oracle import Oracle
from plugin import Plugin
from small_runs import machines, starts_under
from strategies import outliving, random_table, table
from sweeps import sweep

SIZE = 8
POLICIES = [policy_named(name) for name in TEN]
RNG = np.random.default_rng(0)


def site_with(backfill, threshold_s):
    return Site(SIZE, Rules(policy_named("fcfs"), backfill, threshold_s=threshold_s))


def made(seed, *, unlimited=0.05):
    return random_table(seed, n_jobs=120, size=SIZE, span_s=300, unlimited=unlimited)


def made_outliving(seed):
    """Half of these outlive their requests. None is rejected: the past leaves out such jobs and their instants."""
    return outliving(random_table(seed, n_jobs=120, size=SIZE, span_s=300, short=0.5, wide=0), 90.0)


def pasts(jobs, site, names, period_s):
    """The past of each period of a run that takes these policies in turn."""
    first, *others = (replace(site.rules, policy=policy_named(name)) for name in names)
    run = EngineReplay(jobs, SIZE, first)
    found, from_s = [], -1.0
    for i, rules in enumerate([*others, first], start=1):
        run.advance(i * period_s)
        found.append(past_of(run, from_s, i * period_s))
        run.queue.change_rules(rules)
        from_s = i * period_s
    return found


def second_past(jobs, period_s):
    """The past of the second period of a run that takes FCFS, and SPF there."""
    return pasts(jobs, Site(SIZE), ["fcfs", "spf", "fcfs"], period_s)[1]


def costs_of(past, **how):
    """What every policy would have cost in this period."""
    return period_costs(past, POLICIES, Site(SIZE), **{"rng": RNG, **how}).tolist()


def waited_by_hand(jobs, site, names, period_s, period, policy):
    """The waiting in a period, had `policy` been used there: job by job and second by second, by the oracle."""
    backfill = site.rules.backfill.name if site.rules.backfill else None
    course, real = (Oracle(jobs, SIZE, names[0], backfill, threshold_s=site.rules.threshold_s) for _ in range(2))
    from_s, until_s = period * period_s, (period + 1) * period_s
    for i in range(period + 1):
        if i:
            course.policy = real.policy = names[i]
        real.run(until=(i + 1) * period_s)
        if i < period:
            course.run(until=(i + 1) * period_s)
    # What had not ended was not known to end before it was expected to.
    for job, seen in zip(course.jobs, real.jobs, strict=True):
        if math.isnan(seen.start) or seen.start + seen.duration > until_s:
            running = not math.isnan(seen.start)
            job.p = real.expected_end(until_s, seen) - seen.start if running else job.request
            job.walltime = max(job.p, job.walltime)
    course.policy = policy
    course.run(until=until_s)
    waits = 0
    for job in course.jobs:
        if job.q <= SIZE and job.r <= until_s:
            start_s = until_s if math.isnan(job.start) else job.start
            waits += max(start_s - max(job.r, from_s), 0)
    return waits


@pytest.mark.parametrize(*sweep(seed=[0, 1, 2, 3], jobs_of=[(made, 1.0), (made_outliving, 90.0)]))
def test_feedback_is_the_waiting_that_an_oracle_finds_for_every_policy(jobs_of, seed):
    made, unit_s = jobs_of
    jobs = made(seed)
    site = site_with(policy_named("spf") if seed % 2 else None, 200.0 * unit_s if seed % 3 else math.inf)
    names, period_s = ["fcfs", "lpf", "lexp", "saf"], 75.0 * unit_s
    distinct = set()
    for period, past in enumerate(pasts(jobs, site, names, period_s)):
        if period == 0:
            continue  # before it there is nothing, and the oracle's first pass is the policy's own
        costs = period_costs(past, POLICIES, site, rng=RNG)
        expected = [waited_by_hand(jobs, site, names, period_s, period, name) for name in TEN]
        assert costs.tolist() == expected
        distinct |= set(expected)
    assert len(distinct) > 5


def test_the_policy_that_was_used_costs_what_happened():
    jobs = made(1, unlimited=0)
    jobs = replace(jobs, walltime_s=jobs.runtime_s + 1)
    site = Site(SIZE)
    names = ["fcfs", "spf", "lqf", "fcfs", "laf"]
    for name, past in zip(names, pasts(jobs, site, names, 90.0), strict=True):
        happened = past.waited_s(past.start_s)
        (cost,) = period_costs(past, [policy_named(name)], site, rng=RNG)
        # It differs only as far as unknown ends are a second later than true ones.
        assert cost == pytest.approx(happened, rel=0.05)
        run, left = replay_from(past, site, past.jobs.runtime_s, policy_named(name))
        run.advance(past.until_s)
        assert left.waited_s(run.start_s) == happened


def test_feedback_uses_nothing_that_was_not_known_at_the_period_s_end():
    past = second_past(made(2), 80.0)
    assert 0 < past.ended.sum() < len(past.ended)
    unseen = np.where(past.ended, past.jobs.runtime_s, RNG.integers(1, 500, len(past.ended)))
    other = replace(past, jobs=replace(past.jobs, runtime_s=unseen))
    assert (past.jobs.submit_s <= past.until_s).all()
    assert costs_of(other) == costs_of(past)


@pytest.mark.parametrize("noise", ["none", "walltime", 0.5])
def test_feedback_knows_of_a_job_that_has_not_ended_its_request_and_not_the_limit_raised_to_its_run_time(noise):
    past = second_past(made_outliving(2), 7200.0)
    longer = np.where(past.ended, past.jobs.runtime_s, RNG.integers(50_000, 90_000, len(past.ended)))
    limit_s = np.maximum(past.jobs.walltime_s, longer)
    other = replace(past, jobs=replace(past.jobs, runtime_s=longer, walltime_s=limit_s))
    ran_s = past.until_s - past.start_s[~past.ended]
    assert (ran_s > past.jobs.asked_s[~past.ended] + 60).any()
    one, two = (costs_of(each, noise=noise, rng=np.random.default_rng(1)) for each in (past, other))
    assert one == two


# Choosers


def test_hindsight_weighs_periods_as_equation_3_says():
    chooser = Hindsight(3, decay=0.5, balance=0.5)
    assert chooser.choose() == 0
    weeks = [((10.0, 20.0, 5.0), 4), ((30.0, 10.0, 90.0), 12), ((8.0, 8.0, 1.0), 0)]
    for costs, n_jobs in weeks:
        chooser.learn(np.array(costs), n_jobs)
    expected = [
        sum((n / 16) ** 0.5 * 0.5 ** (2 - t) * costs[i] for t, (costs, n) in enumerate(weeks)) / 3 for i in range(3)
    ]
    assert chooser.estimates() == pytest.approx(expected)
    assert chooser.choose() == expected.index(min(expected)) == 1
    assert Hindsight(2, decay=0.9, balance=1.0).estimates().tolist() == [0, 0]


def learn_from(chooser, means, periods=400, seed=0):
    """How often each policy was chosen when its mean wait is that of `means`, give or take."""
    rng, counts = np.random.default_rng(seed), np.zeros(len(means), int)
    for _ in range(periods):
        used = chooser.choose()
        counts[used] += 1
        costs = np.full(len(means), np.nan)
        costs[used] = 10 * max(rng.normal(means[used], 5), 0)
        chooser.learn(costs, 10)
    return counts


@pytest.mark.parametrize("method", ["epsilon-greedy", "ucb1", "exp3"])
def test_bandits_find_the_policy_with_the_least_wait_and_repeat_themselves(method):
    def counts():
        return learn_from(
            chooser(method, 4, seed=1, options=Selection.of({"select": method}).chooser), [60, 80, 20, 90], periods=3000
        )

    found = counts()
    assert found.argmax() == 2
    assert found[2] > 1500
    assert found.tolist() == counts().tolist()


def test_ucb1_tries_every_policy_once_and_then_the_highest_bound():
    chooser = UpperConfidence(3, 0)
    for used, cost in enumerate((40.0, 20.0, 30.0)):
        assert chooser.choose() == used
        chooser.learn(np.array([cost if i == used else np.nan for i in range(3)]), 1)
    assert chooser.choose() == 1
    chooser.learn(np.array([np.nan, 400.0, np.nan]), 1)
    # Rewards, 1 - cost / 400: 0.9, mean of 0.95 and 0, 0.925; bonuses sqrt(2 ln 4 / n).
    bonus = math.sqrt(2 * math.log(4))
    assert max((0.9 + bonus, 0), (0.475 + bonus / math.sqrt(2), 1), (0.925 + bonus, 2))[1] == chooser.choose() == 2


def test_exp3_draws_by_exponential_weights():
    chooser = Exponential(2, 0, gamma=0.2)
    assert chooser.chances().tolist() == [0.5, 0.5]
    chooser.used = 0
    chooser.learn(np.array([50.0, np.nan]), 1)  # the worst so far: no reward
    assert chooser.chances().tolist() == [0.5, 0.5]
    chooser.used = 1
    chooser.learn(np.array([np.nan, 10.0]), 1)
    weight = math.exp(0.2 * 0.8 / (0.5 * 2))
    assert chooser.chances()[1] == pytest.approx(0.8 * weight / (1 + weight) + 0.1)
    chooser.learn(np.array([np.nan, 99.0]), 0)  # nobody came
    assert chooser.chances()[1] == pytest.approx(0.8 * weight / (1 + weight) + 0.1)


# Online


def weeks_of_queues():
    """Each 1000 s one job fills the machine for long, and behind it wait a long and twenty short ones."""
    rows = []
    for week in range(6):
        rows += [(week * 1000, 100, 100, 1), (week * 1000 + 1, 600, 600, 1)]
        rows += [(week * 1000 + 2 + i, 5, 5, 1) for i in range(20)]
    return table(rows)


@pytest.mark.parametrize("method", ["full", "noisy"])
def test_hindsight_finds_what_is_best_after_one_period(method):
    selector = Selection.of({"select": method, "policies": "fcfs,spf,lpf", "period": 999.5}).selector(Site(1))
    schedule = select_online(weeks_of_queues(), selector, 999.5)
    assert selector.chosen[:6] == [0, 1, 1, 1, 1, 1]
    beside = Oracle(weeks_of_queues(), 1, "fcfs")
    beside.run(until=999.5)
    beside.policy = "spf"
    assert schedule.start_s.tolist() == [job.start for job in beside.run().jobs]


def test_a_run_is_the_oracle_s_with_the_policies_that_were_chosen():
    jobs = made(7)
    selector = Selection.of({"select": "exp3", "period": 40.0, "gamma": 0.9}).selector(site_with(None, 90.0))
    schedule = select_online(jobs, selector, 40.0)
    assert len(set(selector.chosen)) > 4
    beside = Oracle(jobs, SIZE, TEN[selector.chosen[0]], threshold_s=90.0)
    for i, place in enumerate(selector.chosen[1:], start=1):
        beside.run(until=i * 40.0)
        beside.policy = TEN[place]
    assert np.array_equal(schedule.start_s, [job.start for job in beside.run().jobs], equal_nan=True)


# Under Batsim


@pytest.mark.parametrize(
    *sweep(
        method=["full", "noisy", "epsilon-greedy", "ucb1", "exp3"],
        case=[(None, "keep", 1), ("spf", "keep", 1), (None, "extend", 90)],
    )
)
def test_the_plug_in_chooses_as_the_replay_does(method, case, tmp_path):
    backfill, overrun, unit_s = case
    path = tmp_path / "w.json"
    jobs = made(5) if overrun == "keep" else made_outliving(5)
    save_log(log_of(jobs.stating(name="made", size=SIZE)), path, procs=SIZE, overrun=overrun, description={})
    jobs = read_batsim_json(path).jobs
    assert jobs.outlives == (overrun == "extend")
    period_s = 37.5 * unit_s
    threshold_s = 70.0 * unit_s
    options = {"select": f"{method}:period={period_s},seed=3,budget=100", "threshold": threshold_s}
    plugin = Plugin(**options, **({"backfill": backfill} if backfill else {}))
    live = starts_under(plugin, load_document(path), machines(SIZE))
    site = site_with(policy_named(backfill) if backfill else None, threshold_s)
    selector = Selection.of({"select": method, "period": period_s, "seed": 3}).selector(site)
    starts = select_online(jobs, selector, period_s).start_s.tolist()
    assert live == {name: start for name, start in zip(jobs.ids, starts, strict=True) if not math.isnan(start)}
    chosen = plugin.agent.choice.selector.chosen
    assert chosen == selector.chosen[: len(chosen)]
    assert len(chosen) > 8
    assert len(set(chosen)) > 1


# The command


@pytest.fixture
def log(tmp_path):
    """Four weeks."""
    rng = np.random.default_rng(1)
    submit_s = np.sort(rng.integers(0, 4 * 7 * 86_400, 300))
    rows = [(float(r), float(rng.integers(1, 200_000)), 250_000.0, int(rng.integers(1, SIZE))) for r in submit_s]
    path = tmp_path / "log.swf"
    save_log(log_of(table(rows).stating(name="made", size=SIZE)), path, procs=SIZE, description={})
    return path


@pytest.mark.parametrize("method", ["full", "epsilon-greedy"])
def test_batfill_select_prints_bands_and_repeats_itself(log, tmp_path, method):
    out = tmp_path / "selected.json"
    arguments = ("select", log, "--method", method, "--samples", 3, "--seed", 4, "--policies", "twelve", "--out", out)
    done = batfill(*arguments)
    assert done.status == 0
    before = out.read_bytes()
    found = json.loads(batfill(*arguments, "--json").out)
    assert out.read_bytes() == before
    line = found["wait_over_fcfs"]
    assert line["p10"] <= line["mean"] <= line["p90"]
    assert found["throughout"]["fcfs"] == {"mean": 1, "p10": 1, "p90": 1}
    assert all(sum(period["shares"].values()) == pytest.approx(1) for period in found["by_period"])
    assert (found["input"]["samples"], found["seed"]) == (3, 4)
    assert found["options"]["select"].endswith(",seed=4")


def test_batfill_select_compares_the_waits_of_every_period_with_those_under_fcfs(log):
    workload = read_workload(log)
    found = bf.select(log, policies=["saf", "lcfs"], period_s=86_400)
    waited = {
        name: replay_jobs(workload.jobs, SIZE, Rules(policy_named(name))).start_s - workload.jobs.submit_s
        for name in ("fcfs", "saf", "lcfs")
    }
    day = np.maximum(np.ceil(workload.jobs.submit_s / 86_400).astype(int) - 1, 0)  # ends of days belong to them
    sums = {name: np.bincount(day, each) for name, each in waited.items()}
    for name in ("saf", "lcfs"):
        (one,) = paired(sums[name][None], sums["fcfs"], seed=0)
        assert found["over_fcfs"][name]["value"] == pytest.approx(waited[name].sum() / waited["fcfs"].sum())
        stated = [found["over_fcfs"][name][end] for end in ("low", "high", "p")]
        assert stated == pytest.approx([one.low, one.high, one.p])
        row = next(row for row in found.rows if row["policy"] == name)
        assert (row["from"], row["max_wait_s"]) == (pytest.approx(one.low), waited[name].max())
        assert row["p999_wait_s"] == pytest.approx(np.quantile(waited[name], 0.999))
        assert row["day_longer"] == (waited[name] - waited["fcfs"] > 86_400).mean()
    advice = found["recommendation"]["text"]
    assert found.remark.startswith(advice)
    assert advice.index("longest wait") < advice.index("a day longer than under fcfs") < advice.index("mean wait")


@pytest.mark.parametrize("option", ["pool", "backfill_while", "energy_budget"])
def test_what_compares_orders_without_pools_gates_and_budgets_refuses_them_by_name(option):
    sample = Path(__file__).parents[2] / "workloads" / "sample.json"
    given = {option: {"pool": "a=9@1", "backfill_while": [(0, 9)], "energy_budget": "9kWh@0..9,watts=1W"}[option]}
    for refuse in (bf.tune, bf.select, bf.fit, bf.fidelity, partial(bf.when, at=86_400.0)):
        with pytest.raises(BatfillError, match=rf"\b{option}\b"):
            refuse(sample, **given)
