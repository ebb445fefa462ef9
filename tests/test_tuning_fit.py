"""The proxy problem by simulating every order slowly, and regression on functions that are known."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from batfill.errors import PolicyError, WorkloadError
from batfill.policy import POLICIES, policy_named, polynomial
from batfill.replays import replay
from batfill.tuning.heuristics import (
    FUNCTIONS,
    RIVALS,
    evaluate,
    fit_heuristics,
    fit_scores,
    fitted_policies,
    replay_without_backfilling,
)
from batfill.tuning.periods import periods_of
from batfill.tuning.proxy import Scores, score_jobs, shuffle
from batfill.tuning.results import as_json
from batfill.workloads import read_workload
from command import batfill, json_result, refusal
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
    found = score_jobs(jobs, SIZE, seed=seed, tuples=2, permutations=150, running=4, queued=5, how=how)
    drawn_seeds = np.random.default_rng(seed)
    drawn_seeds.integers(1, size=2)
    for i, drawn in enumerate(drawn_seeds.integers(2**63, size=2, dtype=np.uint64)):
        orders = orders_drawn(drawn, 150, 5, fair=how == "fair")
        assert found.score[5 * i : 5 * i + 5] == pytest.approx(scores_by_hand(rows_of(jobs), SIZE, 4, orders))
        assert found.firsts[5 * i : 5 * i + 5].tolist() == np.bincount([o[0] for o in orders], minlength=5).tolist()
    assert found.submit_s[:5].tolist() == [row[0] for row in rows_of(jobs)[4:]]


def test_with_enough_permutations_scores_are_those_of_all_orders():
    jobs = random_table(3, n_jobs=8, size=SIZE, span_s=30, wide=0, unlimited=0)
    found = score_jobs(jobs, SIZE, seed=1, tuples=1, permutations=200_000, running=4, queued=4)
    exact = scores_by_hand(rows_of(jobs), SIZE, 4, itertools.permutations(range(4)))
    assert found.score == pytest.approx(exact, rel=0.01)


def test_a_fair_shuffle_draws_every_order_equally_often():
    drawn = orders_drawn(7, 24_000, 4, fair=True)
    counts = [drawn.count(order) for order in itertools.permutations(range(4))]
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 49.7  # chi-square, 23 degrees, 0.1 %


def test_the_published_shuffle_has_the_bias_of_swapping_each_place_with_any_place():
    expected = dict.fromkeys(itertools.permutations(range(3)), 0)
    for places in itertools.product(range(3), repeat=3):
        order = [0, 1, 2]
        for i, other in enumerate(places):
            order[i], order[other] = order[other], order[i]
        expected[tuple(order)] += 1000
    drawn = orders_drawn(5, 27_000, 3, fair=False)
    assert len(set(expected.values())) > 1
    assert sum((drawn.count(order) - n) ** 2 / n for order, n in expected.items()) < 20.5  # 5 degrees, 0.1 %


def test_scores_do_not_depend_on_the_number_of_threads_but_on_the_seed():
    jobs = random_table(1, n_jobs=100, size=SIZE, span_s=400)
    case = {"tuples": 6, "permutations": 50, "running": 4, "queued": 6}
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
    assert found.warnings == ()


def test_the_variance_inflation_factor_says_how_far_a_term_follows_from_the_others():
    scores = made_scores("qdr", [0.03] + [1e-9] * 7, noise=0.01)
    columns = [scores.runtime_s**a * scores.procs**b * scores.submit_s**c for a, b, c in FUNCTIONS["qdr"]]
    found = fit_scores(scores, "qdr")
    for i in range(1, 8):
        y = columns[i] / columns[i].max()
        others = np.column_stack([column / column.max() for k, column in enumerate(columns) if k != i])
        left = y - others @ np.linalg.lstsq(others, y, rcond=None)[0]
        assert found.vif[i - 1] == pytest.approx(((y - y.mean()) ** 2).sum() / (left**2).sum())
    (warning,) = found.warnings
    assert "above 10" in warning
    assert "multicollinear" in warning


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
def test_without_backfilling_the_head_of_the_queue_starts_or_nobody_does(seed):
    jobs = random_table(seed, n_jobs=80, size=SIZE, span_s=150, unlimited=0)
    jobs = replace(jobs, runtime_s=np.maximum(jobs.runtime_s, 1))
    keys = {
        "saf": lambda _, i: jobs.walltime_s[i] * jobs.procs[i],
        "wfp3": lambda w, i: -((w / jobs.walltime_s[i]) ** 3) * jobs.procs[i],
    }
    for name, key in keys.items():
        found = replay_without_backfilling(jobs, SIZE, POLICIES[name])
        assert np.array_equal(found.start_s, head_first(jobs, SIZE, key), equal_nan=True)
        assert len(found.order) == (~found.rejected).sum()


SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"
QUICK = ("--tuples", 3, "--permutations", 40)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    out = tmp_path_factory.mktemp("fit") / "Heuristics.json"
    done = batfill("fit", SAMPLE, *QUICK, "--out", out)
    assert done.status == 0
    return out, done


def test_batfill_fit_prints_coefficients_warns_and_repeats_itself(fitted):
    out, done = fitted
    assert [row.split()[0] for row in done.out.splitlines()] == ["policy", "lin", "qdr", "cub", "qua"]
    assert "batfill: qua: " in done.err
    again = out.with_name("again.json")
    batfill("fit", SAMPLE, *QUICK, "--out", again)
    assert again.read_bytes() == out.read_bytes()
    content = json.loads(out.read_bytes())
    assert content["options"] == {"tuples": 3, "permutations": 40, "shuffle": "fair", "weights": "pq"}
    assert content["input"]["source_sha256"]
    assert (content["seed"], content["scored_jobs"]) == (0, 96)


def test_a_fitted_policy_is_one_wherever_policies_are_taken(fitted):
    out, _ = fitted
    content, fits = fit_heuristics(read_workload(SAMPLE), tuples=3, permutations=40)
    assert as_json(content) + "\n" == out.read_text()
    workload = read_workload(SAMPLE)
    for own in fitted_policies(fits):
        found = json_result("replay", SAMPLE, "--policy", f"{own.name}@{out}")
        assert found["mean_wait_s"] == replay(workload.jobs, workload.procs, own).summary().mean_wait_s
        assert policy_named(policy_named(f"{own.name}@{out}").name).formula == own.formula


def test_functions_are_compared_with_the_six_policies_with_and_without_backfilling():
    windows = periods_of([random_table(seed, n_jobs=60, size=SIZE, span_s=90) for seed in (1, 2, 3)], SIZE)
    mine = polynomial("mine", [(1.0, 1, 0, 0)], "SPF by another name")
    found = evaluate(windows, [mine])
    for half in ("with_backfilling", "without_backfilling"):
        assert set(found[half]) == {"mine", *RIVALS}
        assert found[half]["mine"]["mean_bsld"].tolist() == found[half]["spf"]["mean_bsld"].tolist()
    assert found["with_backfilling"]["fcfs"]["mean"] < found["without_backfilling"]["fcfs"]["mean"]
    assert found["with_backfilling"]["saf"]["median"] == np.median(found["with_backfilling"]["saf"]["mean_bsld"])


def test_batfill_fit_evaluates_on_windows():
    done = batfill("fit", SAMPLE, *QUICK, "--evaluate", "--days", 1, "--count", 1)
    assert done.status == 0
    assert len(done.out.splitlines()) == 5 + 1 + 1 + 4 + 6


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "it is not JSON"),
        ("[]", "is not a policy file"),
        ('{"format": "other"}', "is not a policy file"),
        ('{"format": "batfill policies 1", "functions": {"qdr": {}}}', "no function 'lin'; it has qdr"),
        ('{"format": "batfill policies 1", "functions": {"lin": {}}}', "a term of 'lin'"),
        ('{"format": "batfill policies 1", "functions": {"lin": {"terms": [{"p": 1}]}}}', "a term of 'lin'"),
        ('{"format": "batfill policies 1", "functions": {"lin": {"terms": [{"p": -1, "coefficient": 1}]}}}', "a term"),
        ('{"format": "batfill policies 1", "functions": {"lin": {"terms": [{"coefficient": NaN}]}}}', "a term"),
    ],
)
def test_a_file_that_is_no_policy_file_is_refused(content, words, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(PolicyError, match=words):
        policy_named(f"lin@{path}")


def test_what_is_said_of_windows_needs_an_evaluation():
    assert "--count: applies to the windows" in refusal("fit", SAMPLE, "--count", 3)
    assert "--days: applies to the windows" in refusal("fit", SAMPLE, "--days", 3)


def test_a_policy_file_that_is_not_there_is_said_in_one_line(tmp_path):
    assert "No such file" in refusal("replay", SAMPLE, "--policy", f"lin@{tmp_path}/none.json")
