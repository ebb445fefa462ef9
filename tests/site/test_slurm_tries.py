"""The script beside Slurm kills a try where the rule does, and otherwise gives it its own limit."""

from __future__ import annotations

import math

import pytest

from batfill_site.config import slurm_tries
from oracle import Oracle
from strategies import random_table

NOW = 10_000


class Compared(Oracle):
    """A simulation in which the script is asked at every divider what the rule is asked."""

    def kill_pays(self, t, job):
        running = [
            slurm_tries.Job(
                str(one.seq), "None", True, one.q, self.expected_end(t, one) - one.start, one.start, 0, 1, one.r,
                one.whole_expected,
            )
            for one in self.running
        ]  # fmt: skip
        waiting = [
            slurm_tries.Job(str(one.seq), "Priority", True, one.q, self.expected(one), math.inf, 0, 1, one.r)
            for one in sorted(self.waiting, key=self.sort_rule(t))
        ]
        asked = next(one for one in running if one.id == str(job.seq))
        found = slurm_tries.is_needed(asked, waiting, running, self.free, t)
        self.asked = [*getattr(self, "asked", []), found]
        assert found == super().kill_pays(t, job)
        return found


@pytest.mark.parametrize("policy", ["fcfs", "spf", "aged:20,0.2,0"])
@pytest.mark.parametrize("seed", range(2))
def test_a_try_is_needed_where_the_rule_kills_it(policy, seed):
    table = random_table(seed, n_jobs=160, size=16, span_s=600, wide=0, small=0.8)
    run = Compared(table, 16, policy, divider_s=5, spares=True, bound=True, widest_try=8, threshold_s=150).run()
    assert set(run.asked) == {True, False}


def one(number, cpus, limit_s, *, start_s=math.inf, own_limit_s=None, tried=True):
    own_limit_s = limit_s if own_limit_s is None else own_limit_s
    return slurm_tries.Job(str(number), "Resources", tried, cpus, limit_s, start_s, 0, 1, 0.0, own_limit_s, 5, "all")


def decided(monkeypatch, waiting, running, free):
    said = []
    monkeypatch.setattr(slurm_tries, "slurm", lambda *command: said.append(" ".join(command)) or "")
    slurm_tries.decide(waiting, running, free, NOW)
    return said


def test_a_try_goes_on_with_its_own_limit_if_nothing_waits_and_ends_at_it(monkeypatch):
    at_divider, beyond = NOW - 125, NOW - 3605
    running = [
        one(1, 4, 120, start_s=at_divider, own_limit_s=3600),
        one(2, 4, 120, start_s=NOW - 115, own_limit_s=3600),  # has not reached the divider
        one(3, 4, 3600, start_s=at_divider - 500),  # goes on already
        one(4, 4, 3600, start_s=beyond),
        one(5, 4, 60, start_s=at_divider),  # requests less than the divider
        one(6, 4, 120, start_s=at_divider, own_limit_s=3600, tried=False),
    ]
    said = decided(monkeypatch, [], running, 0)
    assert said == ["scontrol update jobid=1 timelimit=60", "scancel 4", "scancel 5"]


def test_only_as_many_tries_are_killed_as_a_waiting_job_needs(monkeypatch):
    """Five processors are to be freed: the tries with 4 and 3 do it, so the one with the least to lose is spared."""
    running = [one(k, cpus, 120, start_s=NOW - 121, own_limit_s=3600) for k, cpus in ((1, 4), (2, 2), (3, 3))]
    said = decided(monkeypatch, [one(4, 5, 7200)], running, 0)
    assert said == ["scontrol update jobid=2 timelimit=60", "scontrol requeue 3", "scontrol requeue 1"]


def test_a_job_that_starts_in_the_place_of_a_try_takes_its_processors(monkeypatch):
    running = [one(k, 4, 120, start_s=NOW - 121, own_limit_s=3600) for k in (1, 2)]
    said = decided(monkeypatch, [one(3, 4, 7200)], running, 0)
    assert said == ["scontrol requeue 1", "scontrol update jobid=2 timelimit=60"]


def test_every_try_is_killed_at_its_divider_if_that_is_the_rule(monkeypatch):
    monkeypatch.setattr(slurm_tries, "ALWAYS", True)
    assert decided(monkeypatch, [], [one(1, 4, 120, start_s=NOW - 121, own_limit_s=3600)], 0) == ["scontrol requeue 1"]


def test_a_limit_is_read_as_squeue_writes_it():
    limits = {"2:00": 120, "30:00": 1800, "2:30:00": 9000, "1-02:30:00": 95400, "UNLIMITED": math.inf}
    assert {text: slurm_tries.seconds(text) for text in limits} == limits
