"""The proxy problem by simulating every order slowly, and regression on functions that are known."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from batfill.base.errors import WorkloadError
from batfill.model.jobs import job_table
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.workloads import read_workload
from batfill_lab.learning.fit import FUNCTIONS, SIGNED, fit, fit_scores, fitted_policies
from batfill_lab.learning.proxy import N_QUEUED, Scores, score_jobs, shuffle
from command import batfill, json_result
from strategies import random_table

SIZE = 8


def starts_in_order(rows, size, not_before, running=()):
    """Start (submit, run time, procs) rows strictly in their order: the definition, second by second."""
    running, starts, now_s = list(running), [], not_before
    for submit_s, runtime_s, procs in rows:
        now_s = max(now_s, submit_s)
        while size - sum(q for end_s, q in running if end_s > now_s) < procs:
            now_s += 1
        starts.append(now_s)
        running.append((now_s + runtime_s, procs))
    return starts, running


def scores_by_hand(rows, size, n_first, orders):
    """Equation 3 over these orders of the rows after the first `n_first`."""
    before, running = starts_in_order(rows[:n_first], size, 0)
    queued = rows[n_first:]
    sums = [0.0] * len(queued)
    for order in orders:
        starts, _ = starts_in_order([queued[i] for i in order], size, before[-1], running)
        slowdowns = [
            max((start_s - queued[i][0] + queued[i][1]) / max(queued[i][1], 10), 1)
            for i, start_s in zip(order, starts, strict=True)
        ]
        sums[order[0]] += sum(slowdowns) / len(slowdowns)
    return [part / sum(sums) for part in sums]


def orders_drawn(seed, n_trials, n, *, fair):
    """The orders that the kernel draws."""
    state, order, drawn = np.uint64(seed), np.empty(n, np.int64), []
    for _ in range(n_trials):
        with np.errstate(over="ignore"):  # the generator is arithmetic modulo 2^64
            state = np.uint64(shuffle(state, order, 0, fair))
        drawn.append(tuple(order.tolist()))
    return drawn


def rows_of(jobs, *, first=0):
    columns = jobs.submit_s - jobs.submit_s[first], jobs.runtime_s, jobs.procs
    return [tuple(int(value) for value in row) for row in zip(*columns, strict=True)][first:]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("how", ["fair", "published"])
def test_scores_are_those_of_every_order_simulated_slowly(seed, how):
    jobs = random_table(seed, n_jobs=9, size=SIZE, span_s=40, wide=0, unlimited=0)
    found = score_jobs(jobs, SIZE, seed=seed, tuples=2, permutations=150, sizes=(4, 5), how=how)
    drawn_seeds = np.random.default_rng(seed)
    drawn_seeds.integers(1, size=2)
    for i, drawn in enumerate(drawn_seeds.integers(2**63, size=2, dtype=np.uint64)):
        orders = orders_drawn(drawn, 150, 5, fair=how == "fair")
        assert found.score[5 * i : 5 * i + 5] == pytest.approx(scores_by_hand(rows_of(jobs), SIZE, 4, orders))
        assert found.firsts[5 * i : 5 * i + 5].tolist() == np.bincount([o[0] for o in orders], minlength=5).tolist()
    assert found.submit_s[:5].tolist() == [row[0] for row in rows_of(jobs)[4:]]


def test_a_fair_shuffle_draws_every_order_equally_often():
    drawn = orders_drawn(7, 24_000, 4, fair=True)
    counts = [drawn.count(order) for order in itertools.permutations(range(4))]
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 49.7  # chi-square, 23 degrees, 0.1 %


def test_scores_do_not_depend_on_the_number_of_threads_but_on_the_seed():
    jobs = random_table(1, n_jobs=100, size=SIZE, span_s=400)
    case = {"tuples": 6, "permutations": 50, "sizes": (4, 6)}
    one = score_jobs(jobs, SIZE, seed=2, threads=1, **case)
    assert one.score.tolist() == score_jobs(jobs, SIZE, seed=2, threads=3, **case).score.tolist()
    assert one.score.tolist() != score_jobs(jobs, SIZE, seed=3, threads=1, **case).score.tolist()
    with pytest.raises(WorkloadError, match="one tuple needs 48"):
        score_jobs(jobs.select(slice(0, 47)), SIZE, seed=0)


def made_scores(name, coefficients, n=400, noise=0.0):
    rng = np.random.default_rng(0)
    p, q, r = rng.integers(1, 90_000, n) * 1.0, rng.integers(1, 129, n) * 1.0, rng.integers(0, 50_000, n) * 1.0
    terms = zip(coefficients, FUNCTIONS[name], strict=True)
    score = sum(value * p**a * q**b * r**c for value, (a, b, c) in terms) + noise * rng.normal(size=n)
    return Scores(p, q, r, score, np.ones(n, np.int64))


@pytest.mark.parametrize("weights", ["pq", "pq2"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_regression_finds_the_function_that_made_the_scores(name, weights):
    coefficients = [0.03 / 50_000**a / 100**b / 30_000**c * (-1) ** b for a, b, c in FUNCTIONS[name]]
    found = fit_scores(made_scores(name, coefficients), name, weights)
    assert [term[0] for term in found.terms] == pytest.approx(coefficients, rel=1e-4)
    assert found.mae < 1e-8


@pytest.mark.parametrize(("weights", "power"), [("pq", 1), ("pq2", 2)])
def test_coefficients_make_the_weighted_sum_of_squares_least(weights, power):
    scores = made_scores("lin", [0.03, 1e-7, 2e-5, -1e-7], noise=0.01)
    design = np.column_stack([np.ones(400), scores.runtime_s, scores.procs, scores.submit_s])
    root = ((scores.runtime_s * scores.procs) ** power) ** 0.5
    expected = np.linalg.lstsq(design * root[:, None], scores.score * root, rcond=None)[0]
    found = fit_scores(scores, "lin", weights)
    assert [term[0] for term in found.terms] == pytest.approx(expected.tolist())
    assert found.mae == pytest.approx(np.abs(design @ expected - scores.score).mean())
    assert not any("multicollinear" in warning for warning in found.warnings)


def without_tuple(scores, i):
    """The scores without those of the i-th tuple."""
    rows = np.arange(len(scores.score)) // N_QUEUED != i
    return Scores(*(getattr(scores, name)[rows] for name in Scores.__slots__))


@pytest.mark.parametrize(("regression", "name"), [("plain", "lin"), ("plain", "qdr"), ("signed", "lin")])
def test_errors_are_those_of_refits_without_each_tuple(regression, name):
    scores = made_scores("lin", [0.03, 1e-7, 2e-5, -1e-7], n=320, noise=0.001)
    found = fit_scores(scores, name, regression=regression)
    refits = [fit_scores(without_tuple(scores, i), name, regression=regression) for i in range(10)]
    for i in range(1, len(found.terms)):
        if not found.held(i):
            moved = [other.terms[i][0] - found.terms[i][0] for other in refits]
            assert found.standard_errors[i] == pytest.approx(math.sqrt(0.9 * sum(x * x for x in moved)), rel=1e-5)
            low, high = found.interval(i)
            assert (low + high) / 2 == pytest.approx(found.terms[i][0])
            assert high - low == pytest.approx(2 * 1.959964 * found.standard_errors[i], rel=1e-6)


@pytest.mark.parametrize("name", SIGNED)
def test_a_signed_regression_finds_the_function_whatever_its_tuples_have_in_common(name):
    coefficients = [0.03, 1e-7, 2e-5, -1e-7, 3e-10][: len(SIGNED[name])]
    base = made_scores("lin", [0, 0, 0, 0], n=320)
    design = [base.runtime_s**a * base.procs**b * base.submit_s**c for a, b, c in SIGNED[name]]
    score = sum(value * column for value, column in zip(coefficients, design, strict=True))
    score += np.repeat(np.random.default_rng(1).normal(size=10), N_QUEUED)  # an offset per tuple, which orders nothing
    found = fit_scores(replace(base, score=score), name, regression="signed")
    assert [term[0] for term in found.terms][1:] == pytest.approx(coefficients[1:], rel=1e-6)


def test_a_weight_that_would_let_later_jobs_overtake_is_held_at_0_and_said():
    found = fit_scores(made_scores("lin", [0.03, 1e-7, -2e-5, 1e-7], n=320, noise=1e-5), "lin", regression="signed")
    p, q, r = (found.terms[i][0] for i in (1, 2, 3))
    assert p > 0
    assert q == r == 0
    assert [found.held(i) for i in range(4)] == [False, False, True, True]
    term = found.as_dict()["terms"][3]
    assert term["held"]
    assert term["unsigned"] == pytest.approx(1e-7, rel=0.1)
    assert 0 < term["unsigned_low"] < term["unsigned"] < term["unsigned_high"]
    assert math.isnan(term["standard_error"])


SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
QUICK = ("--tuples", 3, "--permutations", 40)
HALF_DAYS = ("--days", 0.5)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "Heuristics.json"
    done = batfill("fit", SAMPLE, *QUICK, *HALF_DAYS, "--out", out)
    assert done.status == 0
    return out, done


def test_batfill_fit_prints_coefficients_and_validation_and_repeats_itself(fitted):
    out, done = fitted
    *tables, _, advice = done.out.split("\n\n")
    first = [[row.split()[0] for row in table.splitlines()] for table in tables]
    assert first[0] == ["policy", "area", "lin"]
    assert sorted(first[1]) == ["area", "lin", "policy", "saf"]
    again = out.with_name("again.json")
    batfill("fit", SAMPLE, *QUICK, *HALF_DAYS, "--out", again)
    assert again.read_bytes() == out.read_bytes()
    content = json.loads(out.read_bytes())
    given = {"tuples": 3, "permutations": 40, "days": 0.5, "training": 4}
    assert content["options"] == {**given, "regression": "signed", "shuffle": "fair", "weights": "pq"}
    assert content["input"]["source_sha256"]
    assert (content["seed"], content["scored_jobs"]) == (0, 96)
    assert content["learned_from"]["windows"] == [0, 1, 2, 3]
    assert content["validation"]["windows"]["periods"] == [4, 5, 6, 7, 8]
    assert " ".join(advice.split()) == content["recommendation"]["text"]
    free = [term for term in content["functions"]["area"]["terms"][1:] if not term["held"]]
    assert all(term["low"] < term["coefficient"] < term["high"] for term in free)
    assert free


def test_a_fitted_policy_is_one_wherever_policies_are_taken(fitted):
    out, _ = fitted
    found = fit(SAMPLE, tuples=3, permutations=40, days=0.5)
    assert found.as_json() + "\n" == out.read_text()
    workload = read_workload(SAMPLE)
    for own in fitted_policies(found.fits):
        result = json_result("replay", SAMPLE, "--policy", f"{own.name}@{out}")
        assert result["mean_wait_s"] == replay_jobs(workload.jobs, workload.size, Rules(own)).summary().mean_wait_s
        assert policy_named(policy_named(f"{own.name}@{out}").name).formula == own.formula


def test_nothing_is_learned_from_the_windows_held_out():
    workload = read_workload(SAMPLE).stating(file=None)
    found = fit(workload, tuples=3, permutations=40, days=0.5)
    n = found["learned_from"]["jobs"]
    procs = workload.jobs.procs.copy()
    procs[n:] = 1
    changed = replace(workload, procs=procs)
    other = fit(changed, tuples=3, permutations=40, days=0.5)
    assert [each.terms for each in other.fits] == [each.terms for each in found.fits]
    costs = [each["validation"]["with_backfilling"]["saf"]["mean_bsld"].tolist() for each in (found, other)]
    assert costs[0] != costs[1]
    until_s = found["learned_from"]["until_s"]
    assert workload.jobs.submit_s[n - 1] < until_s + workload.jobs.submit_s[0] <= workload.jobs.submit_s[n]


def bursts(n_bursts, *, short_and_wide):
    """A burst every 2,400 s on 16 processors: while one job runs, 16 long narrow ones and 16 others arrive."""
    rng = np.random.default_rng(0)
    rows = []
    for burst in range(n_bursts):
        rows.append((2400 * burst, 60, 16))
        for i in range(32):
            short = short_and_wide and i >= 16
            runtime_s = rng.integers(20, 30) if short else rng.integers(290, 300)
            rows.append((2400 * burst + 1 + i, runtime_s, 16 if short else 1))
    submit_s, runtime_s, procs = np.array(rows).T
    ids = np.array([f"{i:05}" for i in range(len(rows))], object)
    times = {"submit_s": submit_s.astype(float), "runtime_s": runtime_s.astype(float)}
    jobs = job_table("bursts", ids=ids, walltime_s=times["runtime_s"], procs=procs, **times)
    return jobs.stating(name="bursts", size=16)


def test_a_fit_that_helps_is_recommended_with_how_sure_that_is():
    """SAF puts the long narrow jobs first, and the short ones wait for them."""
    found = fit(bursts(100, short_and_wide=True), tuples=60, permutations=200, days=1 / 9)
    advice = found["recommendation"]
    assert advice["take"] in found.policies
    best = found["validation"]["over_saf"][advice["take"]]
    assert best["value"] < 0.9
    assert best["corrected_p"] < 0.05
    assert advice["text"].startswith(f"take {advice['take']}: ")
    for words in ("held-out windows", "95% interval", "correction for 2 comparisons", "longest wait", "saf"):
        assert words in advice["text"]
    assert "\n" not in advice["text"]
