"""The computations of the classification, bandit and regression papers, on a small log, against slower ways."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pydantic")

from batfill.model.policy import policy_named
from batfill.replays.found import ReadingOptions
from batfill.replays.replay import simulate
from batfill.workloads import read_workload
from batfill_lab.campaigns import clusters
from batfill_lab.learning.fit import FUNCTIONS
from batfill_lab.online.selection import selection_and_site
from batfill_lab.search.periods import read_periods
from batfill_lab.search.select import Samples, course
from batfill_lab.studied import studied
from strategies import outliving, random_table
from studies.papers import core
from studies.papers.classes import SCENARIOS, Replays, runs_of
from studies.papers.classification import classify_log
from studies.papers.core import Context
from studies.papers.heuristics import (
    RIVALS,
    costs_without_backfilling,
    starts_without_backfilling,
    with_run_times,
)
from studies.papers.protocol import COMPUTATIONS
from swf_text import row

WEEK_S = 7 * 86_400
PROCS = 8
REPLAYS = {"policies": ["fcfs", "spf"], "regime": "decoupled", "divider-rule": "known"}
FITTING = {"tuples": {"Small": 6}, "permutations": 200, "choices": ["published pq2", "fair pq"]}
CHOOSING = {"samples": 2, "period": 604_800}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Five weeks on 8 processors of two users: one asks for much and often runs for a moment, one means it."""
    rng = np.random.default_rng(3)
    jobs = []
    for number in range(400):
        submit_s = number // 80 * WEEK_S + int(rng.integers(60_000))
        user = int(rng.integers(2))
        runtime_s = int(rng.choice([30, 3000]) * (1 + 3 * rng.random()))
        asked_s = 20_000 if user == 0 else 2 * runtime_s
        jobs.append((submit_s, runtime_s, int(rng.integers(1, PROCS + 1)), asked_s, user))
    lines = [
        row(n, submit, p, req_procs=q, req_time=asked, user=user, status=int(n % 5 != 0))
        for n, (submit, p, q, asked, user) in enumerate(sorted(jobs), 1)
    ]
    path = tmp_path_factory.mktemp("logs") / "small.swf"
    path.write_text(f"; MaxProcs: {PROCS}\n; UnixStartTime: 0\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def context(log, tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    return Context({"Small": log}, results, lambda label, total: nullcontext(lambda steps: None))


@pytest.fixture
def outcome(context, monkeypatch):
    """A function that computes on the small log, in this process."""
    monkeypatch.setattr(core, "cpu_count", lambda: 1)

    def compute(name, **given):
        how = COMPUTATIONS[name]
        return how.compute(context, how.parameters.model_validate({k.replace("_", "-"): v for k, v in given.items()}))

    return compute


# Small jobs first


def test_dividers_and_shares_are_those_counted_by_hand(tmp_path, context, outcome):
    #      run time, asked, processors: the median is 40, so that 10, 20 and 30 are small
    jobs = [(10, 15, 1), (20, 100, 2), (30, 40, 1), (40, 50, 1), (50, 60, 1), (60, 70, 1), (70, 80, 1), (0, 9, 1)]
    path = tmp_path / "hand.swf"
    rows = (row(n, n, p, req_procs=q, req_time=a) for n, (p, a, q) in enumerate(jobs))
    path.write_text("; MaxProcs: 4\n" + "".join(rows))
    by_hand = {"jobs": (40, 100 * 2 / 7, 100 / 7), "area": (100 * 220 / 300, 100 * 40 / 300, 100 * 40 / 300)}
    how = COMPUTATIONS["job-sizes"]
    for of, expected in by_hand.items():
        parameters = how.parameters(of=of, rows=["all that ran"])
        found = how.compute(Context({"Hand": path}, tmp_path, context.bar), parameters)
        assert found.tables[0].values[0] == pytest.approx(expected)


@pytest.fixture(scope="module")
def runs(context):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clusters, "cpu_count", lambda: 1)  # a worker's start takes longer than the runs
        return runs_of(context, "Small", Replays.model_validate(REPLAYS))


def test_a_campaign_holds_each_scenario_under_its_name(log, runs):
    workload = read_workload(log)
    learned = {"small": "forest", "kill": "never", "regime": "decoupled"}
    perfect, known = {"small": "perfect", "kill": "never"}, {"predict": "runtime", "predict-for": "all"}
    options = ({}, learned, {**learned, "kill": "always", "bound": False}, perfect, known)
    for policy in REPLAYS["policies"]:
        for scenario, given in zip(SCENARIOS, options, strict=True):
            schedule, _ = simulate(workload.jobs, workload, studied({"policy": policy, **given}))
            assert runs.mean(policy, scenario) == schedule.summary(60).mean_bsld
            assert runs.jobs(policy, scenario).end_s.max() == schedule.end_s.max()


def test_gains_are_over_the_same_policy_and_curves_end_at_the_sum(outcome, runs):
    found = outcome("classified-gains", **REPLAYS, scenarios=["class-clairvoyant"])
    means = runs.mean("spf", "class-clairvoyant"), runs.mean("spf", "base")
    assert found.tables[0].value("SPF", "Small") == pytest.approx(100 * (1 - means[0] / means[1]))
    *_, last = found.charts[0].rows
    assert last[1] == pytest.approx(runs.mean("fcfs", "base") * 400)
    assert found.verdicts["class"].evidence.startswith("so in 2 of 2")


# Online choice


def test_waits_and_shares_are_means_over_the_resamplings(log, outcome):
    selection, site = selection_and_site({"select": "noisy", "seed": 0}, PROCS, "same", None)
    samples = Samples.of(log, ReadingOptions(), resampled=True, weeks=None, seed=0)
    courses = [course(samples.jobs(k), selection, site, k) for k in range(2)]
    found = outcome("online-courses", **CHOOSING, periods={"a week": 604_800})
    assert found.tables[0].value("NoisyFeedback", "Small") == pytest.approx(np.mean([one.ratio for one in courses]))
    assert found.charts[0].rows[-1][4] == pytest.approx(np.mean([one.ratio for one in courses]))
    shares = outcome("chosen-shares", **CHOOSING, method="noisy").tables[0]
    of_fcfs = np.mean([(one.chosen == 0).mean() for one in courses])
    assert shares.value("FCFS", "Small") == pytest.approx(100 * of_fcfs)
    assert sum(value for (value,) in shares.values) == pytest.approx(100)


# Regression heuristics

few_jobs = pytest.mark.filterwarnings("ignore:The design matrix is poorly conditioned")  # powers of few run times


@few_jobs
def test_policies_with_run_times_replay_windows_without_backfilling(log, context, outcome):
    found = outcome("fitted-windows", **FITTING, requests="run times", backfilling=False, days=14)
    windows = with_run_times(read_periods(log, days=14, align="first", boundary="submitted"))
    assert all((jobs.walltime_s == jobs.runtime_s).all() for jobs in windows.tables)
    means = costs_without_backfilling(windows, [policy_named("saf")])
    assert found.tables[0].value("SAF", "Small") == pytest.approx(np.median(means))
    assert len(found.tables[0].rows) == len(RIVALS) + 2 * len(FUNCTIONS)


def head_first(jobs, size, policy):
    """List scheduling without backfilling, straight from its definition, with a pure key of `now`."""
    left, running, starts = set(range(len(jobs))), [], {}
    left -= {i for i in left if jobs.procs[i] > size}
    instants = set(jobs.submit_s.tolist())
    while instants:
        now_s = min(instants)
        instants.remove(now_s)
        running = [(end_s, q) for end_s, q in running if end_s > now_s]
        while queue := [i for i in left if jobs.submit_s[i] <= now_s]:
            first = min(queue, key=lambda i: (policy(now_s - jobs.submit_s[i], i), jobs.submit_s[i], i))
            if jobs.procs[first] > size - sum(q for _, q in running):
                break
            left.remove(first)
            starts[first] = now_s
            end_s = now_s + min(jobs.runtime_s[first], jobs.walltime_s[first])
            running.append((end_s, jobs.procs[first]))
            instants.add(end_s)
    return [starts.get(i, math.nan) for i in range(len(jobs))]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("outlives", [False, True])
def test_without_backfilling_the_head_of_the_queue_starts_or_nobody_does(seed, outlives):
    jobs = random_table(seed, n_jobs=80, size=PROCS, span_s=150, unlimited=0, short=0.3)
    jobs = replace(jobs, runtime_s=np.maximum(jobs.runtime_s, 1))
    request_s = jobs.walltime_s
    jobs = outliving(jobs) if outlives else jobs
    keys = {
        "saf": lambda _, i: request_s[i] * jobs.procs[i],
        "wfp3": lambda w, i: -((w / request_s[i]) ** 3) * jobs.procs[i],
    }
    for name, key in keys.items():
        found = starts_without_backfilling(jobs, PROCS, policy_named(name))
        assert np.array_equal(found, head_first(jobs, PROCS, key), equal_nan=True)


# What is kept


def test_a_costly_part_is_made_once_and_again_when_its_code_changes(tmp_path, monkeypatch):
    made = []

    def make():
        made.append(1)
        return {"value": np.float64(2.5), "unknown": float("nan")}

    for _ in range(2):
        assert core.kept(tmp_path, "parts", {"log": "a"}, classify_log, make) == {"value": 2.5, "unknown": None}
    core.kept(tmp_path, "parts", {"log": "b"}, classify_log, make)
    assert len(made) == 2
    monkeypatch.setattr(core, "code_of", lambda function: "changed")
    core.kept(tmp_path, "parts", {"log": "a"}, classify_log, make)
    assert len(made) == 3
