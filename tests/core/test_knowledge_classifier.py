"""The small/large classifier: its features, its forest, its regimes, and that it never sees the future."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sklearn")

from sklearn.ensemble import RandomForestClassifier

from batfill.learn import SubmittedJob
from batfill.learn.classifier import Classifier
from batfill.learn.forest import NODE, flattened, walk
from batfill.learn.habits import FEATURE_NAMES, NONE_YET, History, matrix
from batfill.model.jobs import WEEK_S, Clock
from batfill.model.options import Options, Study
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from batfill.replays.learning import Confusion, LearningReplay, kills_by_user, kills_by_width
from strategies import weeks_of_habits

REGIMES = ("decoupled", "fresh")
SIZE = 16


def forest(*, seed=0, **study):
    return replace(Options.of({"small": "forest", "seed": seed}), study=Study(**study))


def drive(jobs, classifier, **options):
    run = EngineReplay(jobs, SIZE, Rules(policy_named("saf")), learns=True)
    return LearningReplay(run, classifier, **options).finish()


@pytest.mark.parametrize("regime", REGIMES)
def test_scrambling_the_future_changes_no_judgement_of_the_past(regime):
    jobs = weeks_of_habits(1, weeks=6)
    settings = forest(regime=regime)
    driven = drive(jobs, Classifier(settings), kill=True, bound=True)
    moment_s = 3.5 * WEEK_S
    rng = np.random.default_rng(2)
    open_then = ~(driven.schedule.end_s <= moment_s)  # not ended, or not even submitted
    scrambled_s = np.where(open_then, jobs.runtime_s + rng.integers(1, 50_000, len(jobs)), jobs.runtime_s)
    other = drive(replace(jobs, runtime_s=scrambled_s), Classifier(settings), kill=True, bound=True)
    past = jobs.submit_s <= moment_s
    assert np.isfinite(driven.probability[past]).sum() > 100  # there was something to see
    for name in ("small", "probability", "divider_s"):
        np.testing.assert_array_equal(getattr(driven, name)[past], getattr(other, name)[past])
    assert not np.array_equal(driven.small[~past], other.small[~past])


def test_everything_is_large_in_the_first_week_and_small_jobs_are_found_later():
    jobs = weeks_of_habits(3)
    first = jobs.submit_s < WEEK_S
    for regime in REGIMES:
        driven = drive(jobs, Classifier(forest(regime=regime)))
        assert not driven.small[first].any()
        right = driven.small == (jobs.runtime_s < driven.divider_s)
        assert right[~first & np.isfinite(driven.divider_s)].mean() > 0.7, regime


def test_the_divider_is_renewed_as_its_regime_says():
    jobs = weeks_of_habits(4)
    week = jobs.submit_s // WEEK_S
    for regime, most in (("decoupled", 1), ("fresh", 1200)):
        driven = drive(jobs, Classifier(forest(regime=regime)))
        for number in range(1, 4):
            assert len(np.unique(driven.divider_s[week == number])) <= most
        ended = driven.schedule.end_s < (2 * WEEK_S if most == 1 else jobs.submit_s[week == 2][-1])
        last_of_third = driven.divider_s[week == 2][-1]
        assert last_of_third == np.median(jobs.runtime_s[ended])


def test_the_divider_may_be_that_of_the_last_week_alone():
    jobs = weeks_of_habits(5)
    driven = drive(jobs, Classifier(forest(regime="decoupled", divider_rule="week")))
    end_s = driven.schedule.end_s
    of_week = (end_s >= 2 * WEEK_S) & (end_s < 3 * WEEK_S)
    assert driven.divider_s[jobs.submit_s >= 3 * WEEK_S][0] == np.median(jobs.runtime_s[of_week])


@pytest.mark.parametrize(("regime", "expected"), [("decoupled", NONE_YET), ("fresh", 0.0)])
def test_a_job_that_has_run_for_the_divider_is_known_to_be_large(regime, expected):
    classifier = Classifier(forest(regime=regime))
    first, long = SubmittedJob(0, 0.0, 100.0, 1, 3), SubmittedJob(1, WEEK_S + 1.0, 900.0, 1, 3)
    asked = long._replace(row=9)
    lag = FEATURE_NAMES.index("lag 1 (u, p~)")

    def known(now_s):
        classifier.renew(now_s)
        return classifier.history.features(classifier.history.place(asked), classifier.divider_s)[lag]

    classifier.judge(first)
    classifier.ended(first, 50.0, 50.0)
    classifier.renew(WEEK_S)  # the divider is 50 s
    classifier.judge(long)
    classifier.started(long, WEEK_S + 10.0)
    assert known(WEEK_S + 59.0) == NONE_YET
    assert known(WEEK_S + 60.0) == expected
    classifier.ended(long, 90.0, WEEK_S + 100.0)
    classifier.renew(2 * WEEK_S)
    assert known(2 * WEEK_S) == 0.0
    run_times = [category.runtime_s for category in classifier.history.place(asked).categories]
    assert run_times == [[90.0], [50.0, 90.0], [50.0, 90.0]]


def test_a_killed_job_counts_as_large_once_and_by_its_run_time_when_that_is_known():
    classifier = Classifier(forest())
    job = SubmittedJob(0, 0.0, 900.0, 1, 3)
    classifier.judge(job)
    classifier.started(job, 0.0)
    classifier.killed(job, 50.0)
    classifier.started(job, 60.0)
    classifier.divider_s = 50.0
    classifier.renew(1000.0)
    (category, *_) = classifier.history.place(job).categories
    assert (category.lags(100.0)[0], category.share(100.0), len(category.runtime_s)) == (0.0, 0.0, 1)
    classifier.ended(job, 80.0, 140.0)
    assert (category.lags(100.0)[0], category.share(100.0), len(category.runtime_s)) == (1.0, 1.0, 1)


def obvious_features(earlier, job, divider_s, unix_start_s):
    """Table 4 by its definition, from the list of (job, run time) that have ended."""

    def day(j):
        return datetime.fromtimestamp(unix_start_s + j.submit_s, UTC)

    same = {
        "p~": lambda j: j.expected_s == job.expected_s,
        "q": lambda j: j.procs == job.procs,
        "day": lambda j: day(j).weekday() == day(job).weekday(),
    }
    date = day(job)
    features = {"p~": job.expected_s, "q": job.procs, "hour": date.hour, "weekday": date.weekday()}
    features |= {"day of month": date.day, "month": date.month, "week of year": date.isocalendar()[1]}
    features["quarter"] = 1 + (date.month - 1) // 3
    for name, is_same in same.items():
        classes = [float(p < divider_s) for j, p in earlier if j.user == job.user and is_same(j)]
        for lag in (1, 2, 3):
            features[f"lag {lag} (u, {name})"] = classes[-lag] if len(classes) >= lag else NONE_YET
        features[f"share (u, {name})"] = sum(classes) / len(classes) if classes else NONE_YET
    return [features[name] for name in FEATURE_NAMES]


def test_features_are_those_of_the_definition_also_when_they_are_told_later_by_another_divider():
    rng = np.random.default_rng(6)
    start_s = 843_545_102
    history, earlier, records, by_one_divider = History(Clock(start_s, UTC)), [], [], []
    for row in range(300):
        request_s, procs, user = rng.choice([60, 600]), rng.integers(1, 4), rng.integers(3)
        job = SubmittedJob(row, 7000.0 * row, float(request_s), int(procs), int(user))
        place, divider_s = history.place(job), float(rng.integers(10, 40))
        told = history.features(place, divider_s)
        assert told == pytest.approx(obvious_features(earlier, job, divider_s, start_s))
        records.append(place.record())
        by_one_divider.append(obvious_features(earlier, job, 25.0, start_s))
        runtime_s = float(rng.integers(1, 60))
        history.add(job, runtime_s)
        earlier.append((job, runtime_s))
    np.testing.assert_allclose(matrix(np.array(records), history.series(), 25.0), by_one_divider, rtol=1e-6)


def test_the_compiled_walk_says_what_the_forest_says():
    rng = np.random.default_rng(7)
    x = rng.choice([-1.0, 0.0, 1.0, 0.3, 7.5], (800, 6)).astype(np.float32)
    y = x.sum(axis=1) + rng.normal(size=800) > 3
    grown = RandomForestClassifier(20, random_state=0, min_samples_leaf=3).fit(x, y)
    nodes, roots = flattened(grown)
    assert nodes.dtype == NODE
    walked = [walk(nodes, roots, row) for row in x]
    np.testing.assert_allclose(walked, grown.predict_proba(x)[:, 1], rtol=1e-12)


def test_one_seed_makes_one_run_and_another_seed_another():
    jobs = weeks_of_habits(8)
    first, again, other = (drive(jobs, Classifier(forest(seed=seed))).probability for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other, equal_nan=True)


def test_rates_are_those_of_the_paper():
    # Small jobs: 3 judged so, 1 not; large jobs: 5 judged so, 1 not.
    judged = np.array([True] * 3 + [False] + [False] * 5 + [True])
    small = np.array([True] * 4 + [False] * 6)
    found = Confusion.of(judged, small)
    assert (found.true_small, found.false_large, found.true_large, found.false_small) == (3, 1, 5, 1)
    of_classes = {"precision": 0.75, "recall": 0.75, "false_large_rate": 1 / 6, "false_small_rate": 0.25}
    assert found.rates() == {"accuracy": 0.8, **of_classes}
    assert Confusion(0, 0, 0, 0).rates()["precision"] is None


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0]), st.booleans()), max_size=30))
def test_the_auc_is_the_share_of_pairs_in_the_right_order_and_the_brier_score_a_mean_square(jobs):
    probability, small = np.array([p for p, _ in jobs]), np.array([s for _, s in jobs], bool)
    found = Confusion.of(probability >= 0.5, small, probability)
    pairs = [(p, q) for p, is_small in jobs if is_small for q, other in jobs if not other]
    won = [1.0 if p > q else 0.5 if p == q else 0.0 for p, q in pairs]
    assert found.auc == (pytest.approx(sum(won) / len(won)) if won else None)
    errors = [(p - (1 if is_small else 0)) ** 2 for p, is_small in jobs]
    assert found.brier == (pytest.approx(sum(errors) / len(errors)) if errors else None)


def test_kills_by_user_and_by_width_add_up_to_the_summary():
    jobs = weeks_of_habits(14)
    driven = drive(jobs, Classifier(forest()), kill=True)
    figures = driven.schedule.summary()
    used = figures.utilisation * SIZE * figures.makespan_s
    for rows in (kills_by_user(driven.schedule), kills_by_width(driven.schedule)):
        assert sum(row["kills"] for row in rows) == figures.requeued > 0
        assert sum(row["wasted_proc_s"] for row in rows) == pytest.approx(figures.wasted * used)
    widths = [row["procs_up_to"] for row in kills_by_width(driven.schedule)]
    assert widths == [1, 2, 4, 8, 16]
    found, known = driven.confusion(), np.isfinite(driven.probability)
    assert found.jobs == int(known.sum())
    truth = (driven.schedule.runtime_s < driven.divider_s)[known]
    assert found.brier == pytest.approx(np.mean((driven.probability[known] - truth) ** 2))
    assert 0.5 < found.auc < 1
    assert math.isfinite(figures.mean_bsld)
