"""The script beside Slurm kills a try where the rule does, and puts those jobs first for which tries stand back."""

from __future__ import annotations

import math
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from unittest.mock import patch

import pytest

from oracle import Oracle
from strategies import random_table

FILE = Path(__file__).parents[2] / "docs" / "examples" / "first-tries-on-slurm" / "slurm_tries.py"
SPEC = spec_from_file_location("slurm_tries", FILE)
slurm_tries = module_from_spec(SPEC)
sys.modules["slurm_tries"] = slurm_tries  # for its annotations
SPEC.loader.exec_module(slurm_tries)
NOW = 10_000


class Compared(Oracle):
    """A simulation in which the script decides beside the rule: at dividers, and where jobs become due."""

    due_found = 0

    def become_due(self, t):
        found = self.due_jobs(t, 0)
        super().become_due(t)
        self.compare_due(found)

    def hold_head(self, t):
        with patch.multiple(slurm_tries, THRESHOLD_S=math.inf, STAND_BACK=math.nextafter(math.inf, 0)):
            found = self.due_jobs(t, self.free)
        super().hold_head(t)
        self.compare_due(found)

    def due_jobs(self, t, free):
        """The seqs of the jobs that the script puts first, whose state is their priority."""
        waiting = [
            slurm_tries.Job(
                str(one.seq), "Priority", one.small, one.q, self.expected(one), math.inf, 0,
                slurm_tries.DUE if one.due else slurm_tries.TRIES, one.r,
            )
            for one in sorted(self.waiting, key=self.sort_rule(t))
        ]  # fmt: skip
        by_number = sorted(waiting, key=lambda job: int(job.id))  # which decides between those submitted at once
        return slurm_tries.due_jobs(by_number, waiting, {}, (free, self.size), t)

    def compare_due(self, found):
        due = {str(one.seq) for one in self.waiting if one.due}
        assert found == due
        self.due_found += len(due)

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
@pytest.mark.parametrize(("seed", "stand_back"), [(0, 1e6), (1, 3)])
def test_tries_are_killed_and_jobs_become_due_as_the_rules_say(policy, seed, stand_back, monkeypatch):
    for name, value in {"THRESHOLD_S": 150, "HALF": True, "STAND_BACK": stand_back}.items():
        monkeypatch.setattr(slurm_tries, name, value)
    rules = {"divider_s": 5, "spares": True, "bound": True, "widest_try": 8, "threshold_s": 150, "half": True}
    table = random_table(seed, n_jobs=160, size=16, span_s=600, wide=0, small=0.8)
    run = Compared(table, 16, policy, stand_back=stand_back, **rules).run()
    assert set(run.asked) == {True, False}
    assert run.due_found > 0


def one(number, cpus, limit_s, *, start_s=math.inf, own_limit_s=None, tried=True):
    own_limit_s = limit_s if own_limit_s is None else own_limit_s
    return slurm_tries.Job(str(number), "Resources", tried, cpus, limit_s, start_s, 0, 1, 0.0, own_limit_s, 5, "all")


def decided(monkeypatch, waiting, running, free):
    said = []
    monkeypatch.setattr(slurm_tries, "slurm", lambda *command: said.append(" ".join(command)) or "")
    slurm_tries.decide(waiting, running, free, NOW)
    return said


DIVIDER, BEYOND = NOW - 121, NOW - 3605
DECIDED = {  # waiting and running jobs, and what is done with these
    "a try goes on with its own limit if nothing waits, and ends at it": (
        [],
        [
            one(1, 4, 120, start_s=NOW - 125, own_limit_s=3600),
            one(2, 4, 120, start_s=NOW - 115, own_limit_s=3600),  # has not reached the divider
            one(3, 4, 3600, start_s=NOW - 625),  # goes on already
            one(4, 4, 3600, start_s=BEYOND),
            one(5, 4, 60, start_s=NOW - 125),  # requests less than the divider
            one(6, 4, 120, start_s=NOW - 125, own_limit_s=3600, tried=False),
        ],
        ["scontrol update jobid=1 timelimit=60", "scancel 4", "scancel 5"],
    ),
    "of tries with 4, 2 and 3 the last and the first free the five processors of a waiting job": (
        [one(4, 5, 7200)],
        [one(k, cpus, 120, start_s=DIVIDER, own_limit_s=3600) for k, cpus in ((1, 4), (2, 2), (3, 3))],
        ["scontrol update jobid=2 timelimit=60", "scontrol requeue 3", "scontrol requeue 1"],
    ),
    "a job that starts in the place of a try takes its processors": (
        [one(3, 4, 7200)],
        [one(k, 4, 120, start_s=DIVIDER, own_limit_s=3600) for k in (1, 2)],
        ["scontrol requeue 1", "scontrol update jobid=2 timelimit=60"],
    ),
}


@pytest.mark.parametrize(("waiting", "running", "said"), DECIDED.values(), ids=DECIDED)
def test_only_tries_that_a_waiting_job_needs_are_killed(monkeypatch, waiting, running, said):
    assert decided(monkeypatch, waiting, running, 0) == said


def test_every_try_is_killed_at_its_divider_if_that_is_the_rule(monkeypatch):
    monkeypatch.setattr(slurm_tries, "ALWAYS", True)
    assert decided(monkeypatch, [], [one(1, 4, 120, start_s=DIVIDER, own_limit_s=3600)], 0) == ["scontrol requeue 1"]


def test_a_limit_is_read_as_squeue_writes_it():
    limits = {"2:00": 120, "30:00": 1800, "2:30:00": 9000, "1-02:30:00": 95400, "1-12": 129600, "UNLIMITED": math.inf}
    assert {text: slurm_tries.seconds(text) for text in limits} == limits


class Cluster:
    """Slurm's commands as the script uses them: `squeue` and `sinfo` show these jobs, and `scontrol` changes them."""

    def __init__(self, *jobs, idle=0, size=8):
        self.jobs = {job["id"]: job for job in jobs}
        self.idle, self.size, self.said, self.failing = idle, size, [], ()

    def slurm(self, *command):
        if command[0] in self.failing:
            return None
        if command[0] == "sinfo":
            return f"{self.size - self.idle}/{self.idle}/0/{self.size}\n"
        if command[0] == "squeue":
            fields = ("id", "state", "reason", "partition", "cpus", "limit", "start", "restarts", "priority", "note")
            return "".join("|".join(str(job[name]) for name in fields) + "|\n" for job in self.jobs.values())
        self.said.append(" ".join(command[1:]))
        _, number, *changes = command[1:]
        for name, value in (change.split("=") for change in changes):
            known = {"sitefactor": "priority", "timelimit": "limit"}.get(name, name)
            self.jobs[number.removeprefix("jobid=")][known] = f"{value}:00" if name == "timelimit" else value
        return ""

    def look(self):
        """The script, begun again, looks once; returns the ids in the order of priorities, those of due jobs first."""
        slurm_tries.look({})
        places = {number: int(job["priority"]) for number, job in self.jobs.items()}
        order = sorted(places, key=lambda number: -places[number])
        return order, {number for number in order if places[number] > 2_000_000_000}


def pending(number, cpus, *, waited_s=0, tried=False, **more):
    """A job with a limit of an hour that waits; `tried`: for a first try."""
    place = 600_000_000 + 1000 * cpus
    shown = {"state": "PD", "reason": "Priority", "start": "N/A", "restarts": 0, "cpus": cpus}
    shown |= {"partition": "first-try", "limit": "2:00"} if tried else {"partition": "all", "limit": "1:00:00"}
    note = f"batfill {1_750_000_000 - waited_s} 3600 {place} all"
    return {"id": number, **shown, "priority": place + tried * 1_000_000_000, "note": note, **more}


@pytest.fixture
def looks(monkeypatch):
    """A function that lets the script see this cluster, half a year after the origin of its minutes."""
    monkeypatch.setattr(slurm_tries.time, "time", lambda: 1_750_000_000)
    monkeypatch.setattr(slurm_tries, "STAND_BACK", 2.0)
    monkeypatch.setattr(slurm_tries, "THRESHOLD_S", 5000)

    def begin(cluster):
        monkeypatch.setattr(slurm_tries, "slurm", cluster.slurm)
        return cluster

    return begin


def test_a_large_head_for_which_processors_are_idle_goes_before_tries_until_it_starts(looks):
    cluster = looks(Cluster(pending("1", 6), pending("2", 5), idle=3))
    assert cluster.look() == (["1", "2"], {"1"})
    cluster.jobs["3"], cluster.idle = pending("3", 1, tried=True), 0
    assert cluster.look() == (["1", "3", "2"], {"1"})
    assert (cluster.jobs["3"]["partition"], cluster.jobs["3"]["limit"]) == ("first-try", "2:00")


@pytest.mark.parametrize(
    ("first", "idle", "due"),
    [
        ({}, 0, set()),
        ({"tried": True}, 3, set()),
        ({"reason": "QOSMaxJobsPerUserLimit"}, 3, {"2"}),
        ({"note": ""}, 3, {"2"}),  # it is in another partition
    ],
)
def test_the_head_is_the_first_job_that_waits_for_processors_if_it_is_large_and_some_are_idle(looks, first, idle, due):
    assert looks(Cluster(pending("1", 6, **first), pending("2", 5), idle=idle)).look()[1] == due


def test_an_overdue_job_goes_first_without_a_try_and_stays_due(looks, monkeypatch):
    cluster = looks(Cluster(pending("1", 1, waited_s=5001, tried=True), pending("2", 2, waited_s=4999, tried=True)))
    assert cluster.look() == (["1", "2"], {"1"})
    assert [cluster.jobs["1"][name] for name in ("partition", "limit")] == ["all", "60:00"]
    assert [cluster.jobs["2"][name] for name in ("partition", "limit")] == ["first-try", "2:00"]
    monkeypatch.setattr(slurm_tries, "THRESHOLD_S", math.inf)
    assert cluster.look()[1] == {"1"}


@pytest.mark.parametrize("failing", ["squeue", "sinfo", "scontrol"])
def test_what_a_command_that_failed_did_not_do_is_done_at_the_next_look(looks, failing):
    cluster, factors = looks(Cluster(pending("1", 1, waited_s=6000, tried=True), pending("2", 2))), {}
    cluster.failing = (failing,)
    slurm_tries.look(factors)
    assert cluster.said == []
    cluster.failing = ()
    slurm_tries.look(factors)
    assert [words.rpartition(" ")[0] for words in cluster.said] == ["update jobid=1 partition=all timelimit=60"]


def test_in_a_backlog_all_that_wait_for_processors_go_first_in_order_of_submission(looks):
    """Over 16 CPUs are a backlog: 15 are requested for two jobs and four tasks, and two more by a fifth task."""
    cluster = looks(
        Cluster(
            pending("1", 1, waited_s=60, tried=True),
            pending("2", 6, waited_s=120),
            pending("3_[4-6,9]", 2, tried=True),
            pending("4", 8, reason="Dependency", tried=True),
        )
    )
    assert cluster.look() == (["4", "3_[4-6,9]", "1", "2"], set())
    del cluster.jobs["3_[4-6,9]"]
    cluster.jobs["3_[4-6,9-10]"] = pending("3_[4-6,9-10]", 2, tried=True)
    order, due = cluster.look()
    assert (order[:2], due) == (["2", "1"], {"1", "2", "3_[4-6,9-10]"})
    assert [job["partition"] for job in cluster.jobs.values() if job["id"] != "4"] == ["all"] * 3
    del cluster.jobs["3_[4-6,9-10]"]
    cluster.jobs["5"] = pending("5", 1, tried=True)
    assert cluster.look()[1] == {"1", "2"}


def test_a_try_is_decided_on_with_the_due_jobs_first(looks):
    """The due job takes the processors of the first try; the wide job behind it gains nothing if the other ends too."""
    tries = [pending(str(k), 4, tried=True, state="R", start=1_750_000_000 - 121) for k in (1, 2)]
    cluster = looks(Cluster(*tries, pending("3", 4, waited_s=6000), pending("4", 8)))
    cluster.look()
    due, *decided = cluster.said
    assert due.startswith("update jobid=3 sitefactor=20")
    assert decided == ["requeue 1", "update jobid=2 timelimit=60"]


@pytest.mark.parametrize(
    ("shown", "number", "tasks"),
    [
        ("7", "7", 1),
        ("7_2", "7_2", 1),
        ("7_[2]", "7_[2]", 1),
        ("7_[2-9,14-15%3]", "7_[2-9,14-15]", 10),
        ("7_[0-12:4%2]", "7_[0,4,8,12]", 4),
    ],
)
def test_an_id_is_written_as_scontrol_takes_it_and_says_how_many_tasks_wait(shown, number, tasks):
    found = slurm_tries.job_of(f"{shown}|PD|Priority|all|2|30:00|N/A|0|5||")
    assert (found.id, slurm_tries.tasks(found.id)) == (number, tasks)
