"""Limits on kills and waste: what they count, strictly and by expectation, and by how much they can be exceeded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.knowledge import SubmittedJob
from batfill.knowledge.classifier import Budget, Classifier
from batfill.knowledge.events import EventQueue
from batfill.knowledge.learning import LearningReplay, over_limits
from batfill.options import KILL_RULES, LIMITS, NEEDED, Settings
from batfill.policy import policy_named
from batfill.replays import EngineReplay
from sweeps import examples
from test_knowledge_classifier import SIZE, weeks_of_habits


def test_a_budget_counts_what_is_under_way_as_lost():
    budget = Budget(max_waste=0.5)
    job = SubmittedJob(0, 0.0, 1000.0, 2, 0)
    assert not budget.takes(job, (10.0,), (1.0,))  # nothing has been used yet
    budget.settle(job._replace(row=9), 50.0, killed=False)  # 100 processor-seconds, so 50 may be wasted
    assert [budget.takes(job._replace(row=row), (10.0,), (1.0,)) for row in (1, 2, 3)] == [True, True, False]
    budget.settle(job._replace(row=1), 5.0, killed=False)  # it was small: its 20 are free again, 10 more are used
    assert budget.takes(job._replace(row=3), (10.0,), (1.0,))
    assert budget.takes(job._replace(row=4, killable=False), (10.0,), (1.0,))


def test_a_budget_counts_all_the_tries_that_may_still_be_killed():
    budget = Budget(max_kill_share=0.5, max_waste=0.5)
    job = SubmittedJob(0, 0.0, 1000.0, 1, 0)
    for row in range(8):
        budget.settle(job._replace(row=row), 10.0, killed=False)  # 80 processor-seconds and 8 jobs: 40, and 4 kills
    # Its request ends it before the third.
    assert budget.takes(job._replace(row=8), (10.0, 20.0, 2000.0), (1.0, 1.0, 1.0))
    assert not budget.takes(job._replace(row=9), (10.0, 20.0), (1.0, 1.0))
    budget.settle(job._replace(row=8), 10.0, killed=True)  # 10 of 45 wasted; 20 more and one more kill are at risk
    assert not budget.takes(job._replace(row=9), (10.0, 20.0), (1.0, 1.0))
    budget.settle(job._replace(row=8), 15.0, killed=False)  # of 52.5
    assert budget.takes(job._replace(row=9), (10.0, 20.0), (1.0, 1.0))
    assert budget.worst_kills == 2


@dataclass
class Tried:
    """A small job in the system, as the oracle sees it."""

    job: SubmittedJob
    dividers_s: list[float]
    reaches: list[float]  # the probability of reaching each divider, never rising
    killed_of_due: float  # the share of tries at their dividers that were killed, when the job was submitted
    runtime_s: float
    kills: int = 0

    def loss(self, expected, losses):
        """The mean loss of all the tries to come, by going through what can happen to one after the other."""

        def from_try(number):
            if number == len(losses):
                return 0.0
            before = self.reaches[number - 1] if number else 1.0
            is_killed = self.reaches[number] / before * self.killed_of_due if expected else 1.0
            return is_killed * (losses[number] + from_try(number + 1))

        return from_try(self.kills)

    def kills_to_come(self, expected):
        return self.loss(expected, [1.0] * len(self.dividers_s))

    def waste_to_come(self, expected):
        return self.loss(expected, [divider_s * self.job.procs for divider_s in self.dividers_s])


@dataclass
class SlowBudget:
    """Counts everything again from the log of what happened, at every question."""

    most_kills: float
    most_waste: float
    expected: bool
    log: list[tuple[str, float]] = field(default_factory=list)  # what happened to a try, and its processor-seconds
    small: dict[int, Tried] = field(default_factory=dict)

    def lost(self):
        """Kills and their waste."""
        return sum(what == "killed" for what, _ in self.log), sum(s for what, s in self.log if what == "killed")

    def allowed(self):
        """The limits so far."""
        ended, used = sum(what == "ended" for what, _ in self.log), sum(s for _, s in self.log)
        return self.most_kills * ended, self.most_waste * used

    def killed_of_due(self):
        due = [what for what, _ in self.log if what != "ended"]
        return (due.count("killed") + 1) / (len(due) + 1)

    def counted(self, expected):
        tried = self.small.values()
        return sum(t.kills_to_come(expected) for t in tried), sum(t.waste_to_come(expected) for t in tried)

    def fits(self, tried):
        self.small[tried.job.row] = tried
        totals = zip(self.lost(), self.counted(self.expected), self.allowed(), strict=True)
        fits = all(lost + counted <= allowed for lost, counted, allowed in totals)
        if not fits:
            del self.small[tried.job.row]
        return fits


JOBS = st.tuples(
    st.integers(1, 4),  # processors
    st.lists(st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.8, 1.0]), min_size=2, max_size=2),  # of reaching each divider
    st.floats(1, 90),  # run time
    st.booleans(),  # whether it starts at the second level
    st.sampled_from([15.0, 1000.0]),  # request
)


@settings(max_examples=examples(65), deadline=None)
@given(
    st.lists(JOBS, min_size=30, max_size=60),
    st.sampled_from([0.1, 0.3, 1.0]),
    st.sampled_from([0.1, 0.3, 1.0]),
    st.booleans(),
    st.sampled_from([0.0, 0.4]),
    st.integers(0, 2**32 - 1),
)
def test_a_budget_counts_as_a_slow_one_does_and_is_exceeded_by_its_margin_at_most(
    jobs, most_kills, most_waste, expected, sparing, seed
):
    """Jobs come and tries end in any order; the probabilities have nothing to do with what happens."""
    rng = np.random.default_rng(seed)
    fast = Budget(most_waste, most_kills, expected=expected)
    slow = SlowBudget(most_kills, most_waste, expected)
    large, to_come, margins = [], list(enumerate(jobs)), [(0.0, 0.0)]
    while to_come or slow.small or large:
        choices = [kind for kind, there in (("come", to_come), ("small", slow.small), ("large", large)) if there]
        kind = choices[rng.integers(len(choices))]
        if kind == "come":
            row, (procs, beyond, runtime_s, second, walltime_s) = to_come.pop(0)
            job = SubmittedJob(row, 0.0, walltime_s, procs, 0)
            dividers_s, beyond = [10.0, 20.0][second:], beyond[second:]
            met = [d for d in dividers_s if d < walltime_s]
            reaches = [min(beyond[: number + 1]) for number in range(len(met))]
            tried = Tried(job, met, reaches, slow.killed_of_due(), runtime_s)
            mean = [of(expected) for of in (tried.kills_to_come, tried.waste_to_come)]
            spent = [sum(parts) for parts in zip(slow.lost(), slow.counted(expected), mean, strict=True)]
            if any(total == pytest.approx(limit) for total, limit in zip(spent, slow.allowed(), strict=True)):
                slow.log.append(("ended", runtime_s * procs))  # rounding would decide: the job is left out
                fast.settle(job, runtime_s, killed=False)
                continue
            taken = fast.takes(job, dividers_s, beyond)
            if not met:
                assert taken
                large.append(tried)
            elif taken:
                assert slow.fits(tried)
                worst = zip(slow.counted(expected=False), slow.counted(expected), strict=True)
                margins.append(tuple(most - counted for most, counted in worst))
            else:
                assert not slow.fits(tried)
                large.append(tried)
        elif kind == "large":
            tried = large.pop(rng.integers(len(large)))
            slow.log.append(("ended", tried.runtime_s * tried.job.procs))
            fast.settle(tried.job, tried.runtime_s, killed=False)
        else:
            tried = list(slow.small.values())[rng.integers(len(slow.small))]
            row, divider_s = tried.job.row, tried.dividers_s[tried.kills]
            if tried.runtime_s < divider_s:
                del slow.small[row]
                slow.log.append(("ended", tried.runtime_s * tried.job.procs))
                fast.settle(tried.job, tried.runtime_s, killed=False)
            elif rng.random() < sparing:
                large.append(slow.small.pop(row))
                slow.log.append(("spared", 0.0))
                fast.spare(tried.job)
            else:
                tried.kills += 1
                slow.log.append(("killed", divider_s * tried.job.procs))
                fast.settle(tried.job, divider_s, killed=True)
                if tried.kills == len(tried.dividers_s):
                    large.append(slow.small.pop(row))
        assert (fast.counted_kills, fast.counted_proc_s) == pytest.approx(slow.counted(expected), abs=1e-9)
        assert (fast.worst_kills, fast.worst_proc_s) == pytest.approx(slow.counted(expected=False), abs=1e-9)
        assert (fast.kills, fast.wasted_proc_s) == pytest.approx(slow.lost())
        most = [max(margin) for margin in zip(*margins, strict=True)]
        assert (fast.margin_kills, fast.margin_proc_s) == pytest.approx(most, abs=1e-9)
        for lost, allowed, margin in zip(slow.lost(), slow.allowed(), most, strict=True):
            assert lost <= allowed + margin + 1e-9
    assert expected or (fast.margin_kills, fast.margin_proc_s) == (0, 0)


def test_by_expectation_more_jobs_are_tried_and_a_kill_counts_in_full():
    job = SubmittedJob(0, 0.0, 1000.0, 1, 0)
    taken = {}
    for expected in (False, True):
        budget = Budget(max_kill_share=0.1, expected=expected)
        for row in range(20):
            budget.settle(job._replace(row=row), 10.0, killed=False)  # 2 kills are allowed
        rows = range(20, 40)
        taken[expected] = [row for row in rows if budget.takes(job._replace(row=row), (10.0,), (0.25,))]
    assert [len(rows) for rows in taken.values()] == [2, 8]
    assert (budget.margin_kills, budget.worst_kills, budget.counted_kills) == (6, 8, 2)
    for row in taken[True][:3]:
        budget.settle(job._replace(row=row), 10.0, killed=True)
    assert budget.spent() == pytest.approx((3 + 5 * 0.25) / 2)
    assert not budget.takes(job._replace(row=50), (10.0,), (0.01,))


def test_a_job_that_surely_ends_before_a_divider_is_surely_killed_later_if_it_does_not():
    budget = Budget(max_kill_share=1.0, expected=True)
    job = SubmittedJob(0, 0.0, 1000.0, 1, 0)
    for row in range(1, 9):
        budget.settle(job._replace(row=row), 10.0, killed=False)
    assert budget.takes(job, (10.0, 20.0), (0.0, 0.0))
    assert budget.counted_kills == 0
    budget.settle(job, 10.0, killed=True)
    assert budget.counted_kills == 1


def test_a_limit_of_0_allows_no_kill_however_sure_the_forest_is():
    budget = Budget(max_kill_share=0.0, expected=True)
    job = SubmittedJob(0, 0.0, 1000.0, 1, 0)
    budget.settle(job, 10.0, killed=False)
    assert not budget.takes(job._replace(row=1), (10.0,), (0.0,))
    assert budget.takes(job._replace(row=1, killable=False), (10.0,), (0.0,))


def test_a_try_that_goes_on_at_its_divider_is_no_longer_counted_once_the_instant_has_passed():
    classifier = Classifier(Settings(max_kill_share=1.0))
    events = EventQueue(classifier)
    job = SubmittedJob(0, 0.0, 1000.0, 1, 0)
    classifier.budget.settle(job._replace(row=9), 10.0, killed=False)
    assert classifier.budget.takes(job, (10.0,), (1.0,))
    events.add_spared(job, 10.0)
    events.catch_up(10.0)
    assert (classifier.budget.worst_kills, classifier.budget.spared) == (1, 0)
    events.catch_up(10.5)
    assert (classifier.budget.worst_kills, classifier.budget.spared) == (0, 1)


def test_of_tries_at_their_dividers_the_share_killed_so_far_is_expected():
    budget = Budget(max_kill_share=1.0, expected=True)
    job = SubmittedJob(0, 0.0, 1000.0, 1, 0)
    for row in range(1, 9):
        budget.settle(job._replace(row=row), 10.0, killed=False)
    budget.takes(job._replace(row=10), (10.0,), (0.5,))
    assert budget.counted_kills == 0.5  # none has been at its divider
    budget.spare(job._replace(row=11))
    budget.takes(job._replace(row=12), (10.0,), (0.5,))
    assert budget.counted_kills == 0.5 + 0.25


def test_without_a_forest_the_share_of_the_known_jobs_reaches_a_divider():
    classifier = Classifier(Settings(levels=(0.25, 0.75), max_kill_share=0.5))
    assert classifier.beyond(0, math.nan) == 1.0  # no job is known
    classifier.runtime_s, classifier.dividers_s = np.array([1.0, 2.0, 3.0, 4.0]), (1.5, 3.5)
    assert [classifier.beyond(level, math.nan) for level in (0, 1)] == [0.75, 0.25]
    assert classifier.beyond(0, 0.9) == pytest.approx(0.1)


def driven_with(limit, kill_if, **more):
    jobs = weeks_of_habits(11)
    classifier = Classifier(Settings(**limit, **more))
    run = EngineReplay(jobs, SIZE, policy_named("saf"), learns=True, kill_if=KILL_RULES.index(kill_if))
    schedule = LearningReplay(run, classifier, kill=True).finish().schedule
    return schedule, over_limits(schedule, classifier.budget)


def slow_excess(schedule, name, most):
    """At every end and kill, everything up to it is added up again."""
    jobs, kills = schedule.jobs, schedule.kills
    ends = [
        (end_s, 0, run_s * q) for end_s, run_s, q in zip(schedule.end_s, schedule.runtime_s, jobs.procs, strict=True)
    ]
    ends += [(kill["start_s"] + kill["ran_s"], 1, kill["ran_s"] * jobs.procs[kill["row"]]) for kill in kills]
    worst = 0.0
    for now_s in {date_s for date_s, _, _ in ends}:
        past = [end for end in ends if end[0] <= now_s]
        if name == "max-waste":
            over = sum(s for _, killed, s in past if killed) - most * sum(s for _, _, s in past)
        else:
            over = sum(killed for _, killed, _ in past) - most * sum(not killed for _, killed, _ in past)
        worst = max(worst, over)
    return worst


@pytest.mark.parametrize("kill_if", ["always", NEEDED])
@pytest.mark.parametrize("form", LIMITS)
@pytest.mark.parametrize(("name", "most"), [("max-kill-share", 0.05), ("max-waste", 0.01)])
def test_a_replay_exceeds_a_limit_by_what_is_said_at_most(name, most, form, kill_if):
    schedule, over = driven_with({name.replace("-", "_"): most}, kill_if, limits=form)
    assert list(over) == [name]
    assert over[name]["over"] == pytest.approx(slow_excess(schedule, name, most))
    assert over[name]["over"] <= over[name]["at_most"] + 1e-6  # processor-seconds are rounded
    assert (over[name]["at_most"] > 0) == (form == "expected")
    assert len(schedule.kills) > 5


def test_by_expectation_the_limit_is_exceeded_at_times_and_used_better():
    (strict, _), (loose, over) = (driven_with({"max_kill_share": 0.05}, "always", limits=form) for form in LIMITS)
    assert over["max-kill-share"]["over"] > 0
    assert len(strict.kills) < len(loose.kills) <= 0.05 * len(strict.jobs) + over["max-kill-share"]["over"]
