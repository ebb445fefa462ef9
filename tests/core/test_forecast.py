"""Batsim's query for a waiting time: answers on paper, exact where all jobs run as requested, and without effects."""

from __future__ import annotations

import heapq
import json
import random

import pytest

from batfill.base.errors import BatfillError
from plugin import Plugin, as_message, completed, event, notify, submitted
from sweeps import examples

SIZE = 10
UNKNOWN = -1
RULES = [
    {},
    {"policy": "saf", "threshold": 40},
    {"policy": "wfp3", "backfill": "spf"},
    {"depth": "all"},
    {"depth": 2},
    {"depth": 0},
    {"tested": 1},
    {"max-running": 1},
    {"small": "class", "kill": "never", "divider": 20},
    {"reservation": "machines"},
    {"reservation": "kept"},
    {"depth": "all", "plan": "kept:0"},
]


def query(name, procs, walltime=None, **fields):
    job = {"id": name, "res": procs, **fields} | ({} if walltime is None else {"walltime": walltime})
    return event("QUERY", requests={"estimate_waiting_time": {"job_id": name, "job": job}})


def waits(plugin, now, *events):
    """The answers to the queries of a message, by job."""
    answers = [e["data"] for e in json.loads(plugin(as_message(now, *events)))["events"] if e["type"] == "ANSWER"]
    return {answer["estimate_waiting_time"]["job_id"]: estimated(answer) for answer in answers}


def estimated(answer):
    assert answer.keys() == {"estimate_waiting_time"}
    return answer["estimate_waiting_time"]["estimated_waiting_time"]


def three_jobs(**options):
    """On 10 machines a holds 6 up to 100 and c 4 up to 30; b waits for 8, from 100 to 150."""
    plugin = Plugin(**options).begin(SIZE)
    jobs = submitted("a", 0, 100, 6), submitted("b", 0, 50, 8), submitted("c", 0, 30, 4)
    assert plugin.tell(0, *jobs) == ["start a on 0-5", "start c on 6-9"]
    return plugin


# On paper


@pytest.mark.parametrize("options", [{}, {"depth": "all"}, {"depth": "all", "plan": "kept:0"}])
def test_on_paper_a_narrow_job_is_backfilled_once_a_job_ends_and_a_wide_one_waits_for_the_head(options):
    plugin = three_jobs(**options)
    asked = query("2, 20", 2, 20), query("2, 500", 2, 500), query("4, 70", 4, 70), query("4, 71", 4, 71)
    assert waits(plugin, 10, *asked) == {"2, 20": 20, "2, 500": 20, "4, 70": 20, "4, 71": 140}


def test_batsched_s_plan_is_of_jobs_that_take_5_s_longer():
    plugin = three_jobs(preset="conservative_bf")  # c to 35, a to 105, b to 160
    asked = query("65", 4, 65), query("66", 4, 66), query("all", 10, 1)
    assert waits(plugin, 10, *asked) == {"65": 25, "66": 150, "all": 150}


def test_a_job_that_can_start_at_once_waits_for_nothing_and_one_submitted_in_the_same_message_counts():
    plugin = Plugin().begin(SIZE)
    assert waits(plugin, 0, query("x", 10, 5)) == {"x": 0}
    assert waits(plugin, 0.5, query("x", 3, 5), submitted("1", 0.5, 7, 8)) == {"x": 7}


def test_windows_of_a_calendar_are_waited_for(tmp_path):
    (tmp_path / "windows.csv").write_text("kind,begin,end,processors\nannounced,20,50,9\nannounced,60,70,10\n")
    plugin = Plugin(calendar=str(tmp_path / "windows.csv")).begin(SIZE)
    asked = query("10", 2, 10), query("11", 2, 11), query("20", 2, 20)
    assert waits(plugin, 10, *asked) == {"10": 0, "11": 60, "20": 60}
    assert waits(plugin, 15, *asked) == {"10": 35, "11": 55, "20": 55}


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ({}, query("x", SIZE + 1, 1)),
        ({}, query("x", 0, 1)),
        ({"unlimited": "reject"}, query("x", 1)),
        ({"preset": "conservative_bf"}, query("x", 1)),
        ({"preset": "conservative_bf"}, query("x", 1, -1)),
        ({"predict": "easy++"}, query("x", 1, 1)),
        ({"small": "all", "divider": 20}, query("x", 1, 1)),
    ],
)
def test_what_is_not_known_is_minus_one(options, job):
    plugin = Plugin(**options).begin(SIZE, dynamic=True)
    assert waits(plugin, 0, job) == {"x": UNKNOWN}


def test_behind_a_job_without_a_walltime_nothing_is_known():
    plugin = Plugin().begin(SIZE)
    plugin.tell(0, submitted("a", 0, None, SIZE))
    assert waits(plugin, 1, query("x", 1, 1)) == {"x": UNKNOWN}


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ({}, "missing required field `estimate_waiting_time`"),
        ({"estimate_waiting_time": 5}, "Expected `object`, got `int` - at `.*estimate_waiting_time`"),
        ({"estimate_waiting_time": {"job_id": "x"}}, "missing required field `job`"),
        ({"estimate_waiting_time": {"job_id": "x", "job": {"res": "1"}}}, r"Expected `int`, got `str` - at `\$.res`"),
        ({"estimate_waiting_time": {"job_id": "x", "job": {"res": -1}}}, r"Expected `int` >= 0 - at `\$.res`"),
    ],
)
def test_other_queries_are_refused_in_one_line(requests, said):
    plugin = three_jobs()
    with pytest.raises(BatfillError, match=said):
        plugin.conversation.answer(as_message(1, event("QUERY", requests=requests)))


# Random conversations


class Cluster:
    """What happens where each job runs for its walltime: `starts` by job, and the `answers` to queries."""

    def __init__(self, options, seed):
        self.random = random.Random(seed)
        self.plugin = Plugin(**options).begin(SIZE)
        self.ends, self.starts, self.answers = [], {}, {}
        self.requests = {}
        self.new = []
        for i in range(self.random.randint(3, 25)):
            at = self.random.randint(0, 60)
            heapq.heappush(self.new, (at, i, self.random.choice([1, 1, 2, 3, 5, 8, 10]), self.random.randint(1, 50)))

    def fields(self, i):
        return {"user_id": i % 3, "class": "small" if i % 2 else "large"}

    def job(self, name, at, procs, walltime, **fields):
        self.requests[name] = walltime
        told = submitted(name, at, walltime, procs)
        told["data"]["job"] |= fields
        return told

    def tell(self, now, *events):
        for decision in json.loads(self.plugin(as_message(now, *events)))["events"]:
            data = decision["data"]
            if decision["type"] == "EXECUTE_JOB":
                name = data["job_id"].removeprefix("w0!")
                self.starts[name] = now, data["alloc"]
                heapq.heappush(self.ends, (now + self.requests[name], name))
            elif decision["type"] == "ANSWER":
                self.answers[data["estimate_waiting_time"]["job_id"]] = now + estimated(data)

    def step(self):
        """Tell what is next; returns the date."""
        now = min([when for when, *_ in (*self.ends[:1], *self.new[:1])])
        events = []
        while self.ends and self.ends[0][0] == now:
            events.append(completed(heapq.heappop(self.ends)[1]))
        while self.new and self.new[0][0] == now:
            at, i, procs, walltime = heapq.heappop(self.new)
            events.append(self.job(str(i), at, procs, walltime, **self.fields(i)))
        self.tell(now, *events)
        return now

    def run(self):
        while self.ends or self.new:
            self.step()
        return self.starts


@pytest.mark.parametrize("options", RULES, ids=str)
@pytest.mark.parametrize("seed", range(examples(4)))
def test_a_job_that_is_submitted_next_waits_as_was_said_if_no_other_comes_and_all_run_as_requested(options, seed):
    cluster = Cluster(options, seed)
    away = cluster.random.random() < 0.3
    now = 0
    for _ in range(cluster.random.randint(1, 12)):
        if cluster.ends or cluster.new:
            now = cluster.step()
    cluster.new.clear()
    if away:
        cluster.tell(now, notify("event_machine_unavailable", resources="0"))
    procs, walltime = cluster.random.randint(1, SIZE - away), cluster.random.randint(1, 60)
    fields = cluster.fields(cluster.random.randint(0, 5))
    cluster.tell(now, query("x", procs, walltime, **fields))
    cluster.tell(now, cluster.job("x", now, procs, walltime, **fields))
    if (expected := cluster.answers["x"]) == now + UNKNOWN:
        assert away  # a job in front of it may need all machines
    else:
        assert cluster.run()["x"][0] == expected
