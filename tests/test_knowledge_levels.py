"""Several dividers whose jobs are told apart by what is learned: levels, forests, kills and limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from batfill.jobs import WEEK_S
from batfill.knowledge import SubmittedJob
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.estimates import ClassClairvoyant
from batfill.knowledge.learning import LearningReplay, kills_by_level, kills_by_user
from batfill.options import Settings
from batfill.policy import policy_named
from batfill.replays import EngineReplay
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
