"""Several dividers whose jobs are told apart by what is learned: levels, forests, kills and limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from batfill.jobs import DAY_S, WEEK_S
from batfill.knowledge import SubmittedJob
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.estimates import ClassClairvoyant
from batfill.knowledge.learning import LearningReplay, kills_by_level, kills_by_user, replay_learning
from batfill.options import Geometric, Options, Settings
from batfill.policy import policy_named
from batfill.replays import EngineReplay
from oracle import Oracle, assert_same
from strategies import random_table, table
from test_knowledge_classifier import SIZE, weeks_of_habits


def drive(jobs, knowledge, **options):
    run = EngineReplay(jobs, SIZE, policy_named("saf"), divider_s=knowledge.dividers_s, learns=True)
    return LearningReplay(run, knowledge, **options).finish()


def test_class_clairvoyance_knows_the_level_of_each_job():
    knowledge = ClassClairvoyant(np.array([4.0, 5.0, 14.0, 15.0, 99.0]), levels=(0.25, 0.75))
    job = SubmittedJob(0, 0.0, 100.0, 1, 0)
    assert not knowledge.judge(job).small
    for runtime_s in (5.0, 10.0, 15.0):
        knowledge.ended(job, runtime_s, 0.0)
    knowledge.renew(1.0)
    assert knowledge.dividers_s == (5.0, 15.0)
    verdicts = [knowledge.judge(job._replace(row=row)) for row in range(5)]
    assert [(v.small, v.level) for v in verdicts] == [(True, 1), (True, 2), (True, 2), (False, 3), (False, 3)]


def test_at_cut_0_every_job_begins_at_the_first_level_and_goes_as_far_as_its_run_time():
    jobs = weeks_of_habits(9)
    driven = drive(jobs, Classifier(Settings(cut=0.0, levels=(0.25, 0.5, 0.75))), kill=True, bound=True)
    rows = kills_by_level(driven.schedule)
    assert [row["level"] for row in rows] == [1, 2, 3]
    assert [row["kills"] / len(jobs) for row in rows] == pytest.approx([0.75, 0.5, 0.25], abs=0.05)
    assert rows[0]["mean_divider_s"] < rows[1]["mean_divider_s"] < rows[2]["mean_divider_s"]
    figures = driven.schedule.summary()
    assert sum(row["kills"] for row in rows) == figures.requeued
    used = figures.utilisation * SIZE * figures.makespan_s
    assert sum(row["wasted_proc_s"] for row in rows) == pytest.approx(figures.wasted * used)
    assert sum(row["kills"] for row in kills_by_user(driven.schedule)) == figures.requeued


def test_a_classifier_gives_each_level_a_forest_and_a_job_the_first_level_that_is_probable():
    jobs = weeks_of_habits(10)
    levels = (0.25, 0.5, 0.75)
    classifier = Classifier(Settings(levels=levels))
    drive(jobs, classifier)
    places = np.array([0, 0, 0, 0])
    for row in range(200):
        job = SubmittedJob(5000 + row, 5 * WEEK_S, 18_000.0, 4, row % 12)
        features = [classifier.history.features(classifier.history.place(job), d) for d in classifier.dividers_s]
        chances = [forest.probability(f) for forest, f in zip(classifier.forests, features, strict=True)]
        verdict = classifier.judge(job)
        first = [chance >= 0.5 for chance in [*chances, 1.0]].index(True)
        assert (verdict.small, verdict.level, verdict.probability) == (first < 3, first + 1, chances[-1])
        places[first] += 1
    assert (places > 0).all()


def test_a_job_that_is_killed_counts_as_large_when_it_has_run_for_the_last_divider():
    classifier = Classifier(Settings(regime="weekly", levels=(0.5, 0.75)))
    job = SubmittedJob(0, 0.0, 900.0, 1, 3)
    (category, *_) = classifier.history.place(job).categories
    classifier.judge(job)
    classifier.dividers_s = (50.0, 100.0)
    classifier.started(job, 0.0)
    classifier.killed(job, 50.0)
    classifier.started(job, 150.0)
    classifier.renew(249.0)
    assert category.runtime_s == []
    classifier.renew(250.0)
    assert category.runtime_s == [math.inf]


def test_with_levels_scrambling_the_future_changes_no_judgement_of_the_past():
    jobs = weeks_of_habits(1, weeks=4)
    settings = Settings(levels=(0.25, 0.5, 0.75))
    driven = drive(jobs, Classifier(settings), kill=True, bound=True)
    moment_s = 2.5 * WEEK_S
    open_then = ~(driven.schedule.end_s <= moment_s)
    later_s = np.random.default_rng(2).integers(1, 50_000, len(jobs))
    scrambled = replace(jobs, runtime_s=np.where(open_then, jobs.runtime_s + later_s, jobs.runtime_s))
    other = drive(scrambled, Classifier(settings), kill=True, bound=True)
    past = jobs.submit_s <= moment_s
    for name in ("small", "probability", "divider_s"):
        np.testing.assert_array_equal(getattr(driven, name)[past], getattr(other, name)[past])
    kills, others = (run.schedule.kills for run in (driven, other))
    kills, others = (of[of["start_s"] + of["ran_s"] < moment_s] for of in (kills, others))
    assert len(kills) > 50
    np.testing.assert_array_equal(kills, others)


def test_limits_hold_with_several_levels():
    jobs = weeks_of_habits(11)
    for limits in ({"max_kill_share": 0.05}, {"max_waste": 0.002}):
        driven = drive(jobs, Classifier(Settings(levels=(0.25, 0.5, 0.75), **limits)), kill=True)
        assert len(driven.schedule.kills) > 10
        assert len(driven.schedule.kills) / len(jobs) <= limits.get("max_kill_share", 1)
        assert driven.schedule.summary().wasted <= limits.get("max_waste", 1)


# Geometric dividers

TRIED = {"knowledge": "classifier", "cut": 0, "kill": True}


def schedule_of(jobs, size, **options):
    return replay_learning(jobs, size, Options.of({**TRIED, **options}), None, lambda _: None)[0]


def test_geometric_dividers_restart_every_job_from_the_first_one_on_in_rounds():
    # One processor, dividers 1, 3, 9, ... All are tried for 1 s, from 0 on; job 1 ends. Jobs 0 and 2 are tried for 3 s,
    # from 3 on; job 2 ends at 8, after 2 s. Job 0 begins for good at 8.
    jobs = table([(0, 5, 90, 1), (0, 1, 90, 1), (0, 2, 90, 1)])
    schedule = schedule_of(jobs, 1, levels="geometric:3")
    assert schedule.kills.tolist() == [(0, 1, 0.0, 1.0), (2, 1, 2.0, 1.0), (0, 2, 3.0, 3.0)]
    assert schedule.start_s.tolist() == [8, 1, 6]


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("levels", "dividers"),
    [
        ("geometric:3,2", [2, 6, 18, 54, 162]),
        ("geometric:8.16", [1, 8, 67, 543]),
        ("geometric:1.3", [1, 1, 2, 2, 3, 4, 5, 6, 8, 11, 14, 18, 23, 30, 39, 51, 67]),
    ],
)
def test_geometric_dividers_start_and_kill_every_job_as_the_oracle_says(levels, dividers, bound):
    for case in range(3):
        jobs = random_table(case, n_jobs=120, size=8, span_s=300, small=1.0, unlimited=0.0)
        run = schedule_of(jobs, 8, policy="saf", levels=levels, bound=bound)
        beside = Oracle(jobs, 8, "saf", divider_s=[float(divider) for divider in dividers], bound=bound)
        assert_same(run, beside.run())
        assert len(run.kills) > 100


def test_the_seed_moves_all_dividers_by_a_power_of_the_factor_between_0_and_1():
    jobs = random_table(0, n_jobs=120, size=8, span_s=300, small=1.0)
    several = [schedule_of(jobs, 8, levels="geometric:3,random", seed=seed).kills.tolist() for seed in (0, 0, 1)]
    assert several[0] == several[1] != several[2]
    fifth = [Geometric(3.0, random=True).dividers_s(seed)[5] for seed in range(300)]
    shifts = np.log(np.array(fifth) / 3**5) / math.log(3)
    assert shifts.min() > -0.01
    assert shifts.max() < 1.01
    assert np.quantile(shifts, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.08)
    moved = np.array(Geometric(3.0, 10.0, random=True).dividers_s(4))
    np.testing.assert_allclose(moved[5:] / moved[4:-1], 3, rtol=0.01)


def test_the_dividers_go_up_to_a_year():
    plain = Geometric(3.0).dividers_s(seed=7)
    assert plain[:4] == (1, 3, 9, 27)
    assert plain[-1] <= 365 * DAY_S < 3 * plain[-1]
    assert len(plain) == len(Geometric(3.0))
    assert Geometric(2.0, 365.0 * DAY_S).dividers_s(0) == (365 * DAY_S,)


def test_with_known_classes_geometric_dividers_name_the_first_that_is_longer_than_the_job():
    knowledge = ClassClairvoyant(np.array([0.5, 1.0, 2.9, 3.0, 30.0]), levels=Geometric(3.0))
    job = SubmittedJob(0, 0.0, 100.0, 1, 0)
    assert [knowledge.judge(job._replace(row=row)).level for row in range(5)] == [1, 2, 2, 3, 5]


def test_a_classifier_has_a_forest_per_geometric_divider_that_has_jobs_on_both_sides():
    classifier = Classifier(Settings(levels=Geometric(10.0, 30.0)))
    drive(weeks_of_habits(10), classifier)
    assert classifier.dividers_s[:3] == (30.0, 300.0, 3000.0)
    there = [forest is not None for forest in classifier.forests]
    assert any(there)
    assert not all(there)
