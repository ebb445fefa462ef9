"""Windows in which processors are unavailable: deep queues, jobs that can never run, files, Python, and figures."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.model.calendar import ANNOUNCED, FAILURE, Calendar, Window
from batfill.model.jobs import Clock
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.queue import Queue
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from command import json_result, refusal
from oracle import assert_same
from strategies import announced, both, failure, random_table, table

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
DEPTHS = (0, 1, 2, math.inf)


def run_of(rows, size, *windows, policy="fcfs", **rules):
    return replay_jobs(table(rows), size, Rules(policy_named(policy), calendar=Calendar(windows), **rules))


@pytest.mark.compiled
@pytest.mark.parametrize("depth", DEPTHS)
def test_many_failures_in_a_deep_queue_are_those_of_the_oracle(depth):
    jobs = random_table(5, n_jobs=90, size=40, span_s=20, longest=30, wide=0.0, small=0.4)
    calendar = Calendar(tuple(failure(10 * i, 10 * i + 6, 7 * i % 40 + 1) for i in range(1, 20)))
    case = {"divider_s": 6.0, "spares": True, "half": True, "threshold_s": 9.0}
    schedule, expected = both(jobs, 40, "saf", calendar=calendar, depth=depth, **case)
    assert schedule.kills["failed"].sum() > 30
    assert_same(schedule, expected)


def test_times_in_fractions_of_a_second_are_no_violation():
    jobs = random_table(8, n_jobs=120, size=9, span_s=60, longest=20, wide=0.0)
    times = ("submit_s", "runtime_s", "walltime_s", "request_s")
    jobs = replace(jobs, **{name: getattr(jobs, name) * 0.1 for name in times})
    calendar = Calendar(tuple(Window(FAILURE, 0.7 * i, 0.7 * i + 0.3, 9) for i in range(1, 9)))
    schedule = replay_jobs(jobs, 9, Rules(policy_named("fcfs"), calendar=calendar))
    assert schedule.kills["failed"].sum() > 8


# Jobs that can never run


def test_a_job_that_no_gap_is_wide_enough_for_is_named_before_the_replay_begins(tmp_path):
    calendar = Calendar((announced(10, math.inf, 1),))
    calendar.require_possible(table([(0, 10, 10, 4), (0, 50, 50, 3)]), 4, "here")
    says = r"here: 1 of 2 jobs can never run.*first: job 000001, 4 processors from 1 s"
    with pytest.raises(BatfillError, match=says):
        calendar.require_possible(table([(0, 10, 10, 4), (1, 10, 10, 4)]), 4, "here")


def test_a_job_that_has_missed_its_gap_is_named_at_the_end():
    with pytest.raises(BatfillError, match=r"the replay: 1 of 2 jobs can never run.*job 000001"):
        run_of([(0, 9, 9, 4), (1, 9, 9, 4)], 4, announced(10, math.inf, 1))


@pytest.mark.compiled
@pytest.mark.parametrize("pool", ["", "p0"])
def test_a_job_that_fits_no_gap_between_windows_that_end_is_named_at_the_end(pool):
    def warned(*rows, windows=((20, 30), (40, 50), (60, 70)), least=3, kind=ANNOUNCED):
        taken = [{"kind": kind, "begin": b, "end": e, "processors": least, "pool": pool} for b, e in windows]
        given = {"pool": "p0=4@1"} if pool else {}
        result = bf.replay(table(rows).stating(name="made", size=4), calendar=Calendar.of(taken), **given)
        says = "the gaps between them are shorter than its request"
        return [text for text in result.warnings if says in text], result

    ((line,), result) = warned((0, 2, 2, 1), (6, 15, 15, 2), (90, 9, 9, 4))
    assert result.schedule.start_s.tolist() == [0, 70, 90]
    assert line.startswith("calendar: 1 job (first: 000001) waited until its windows were over, up to 1 min 4 s: they")
    assert f"\nwarning      {line[:40]}" in result.as_text()
    assert ("\ncalendar     " in result.as_text()) == (pool == "")  # processor-hours, of windows that take some
    assert "2 jobs (first: 000000)" in warned((6, 15, 15, 2), (7, 15, 15, 2))[0][0]
    for rows in [(6, 15, 15, 1)], [(6, 14, 14, 2)], [(21, 10, 10, 2)], [(50, 99, 99, 2)], [(71, 99, 99, 4)]:
        assert not warned(*rows)[0]
    assert not warned((6, 15, 15, 2), windows=((20, 30), (50, 60)))[0]  # the gap of 20 is long enough
    assert not warned((6, 15, 15, 2), windows=((20, 30), (30, 40)))[0]  # they have none between them
    assert warned((6, 15, 15, 2), windows=((20, 30), (40, 50)))[0]
    if not pool:
        assert not warned((6, 15, 15, 4), kind=FAILURE)[0]  # of which no job knows


def test_dates_after_the_last_job_are_not_waited_for():
    jobs, rules = table([(0, 5, 5, 1)]), Rules(policy_named("fcfs"), calendar=Calendar((announced(1e6, 2e6, 1),)))
    run = EngineReplay(jobs, 2, rules)
    assert run.advance()
    assert (run.now_s, run.next_s) == (5.0, math.inf)


# Files


HEADER, NAMED = "kind,begin,end,processors,announced", "kind,begin,end,machines"
DATE, OVERLAPPING = "2026-03-01T08:00", [HEADER, "announced,1,9,40,", "failure,8,10,25,"]


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["kind,begin,end,procs"], "line 1: column 'procs' is unknown"),
        (["kind,begin,end", "announced,1,9"], "line 2: has no processors"),
        ([], "line 1: there is no column kind"),
        ([HEADER, "announced,5,5,1,"], "line 2: ends at 5.0, and begins at 5.0"),
        ([HEADER, "announced,1,9,1,", "failure,7,6,1,"], "line 3: ends at 6.0, and begins at 7.0"),
        ([HEADER, "announced,1,9,65,"], "line 2: takes 65 processors of a machine of 64"),
        (OVERLAPPING, "line 3: overlaps others (lines 2, 3): together they take 65"),
        ([HEADER, "planned,1,9,1,"], "line 2: kind 'planned' is none of announced, failure"),
        ([HEADER, "announced,1,9,0,"], "line 2: 0 processors are none"),
        ([HEADER, "announced,1,9,x,"], "line 2: 'x' is not a number of processors"),
        ([HEADER, "announced,,9,1,"], "line 2: has no begin"),
        ([HEADER, "announced,1,9,1,,junk"], "line 2: has more values than line 1 has names"),
        ([HEADER, f"{'x' * 200_000},1,9,1,"], "line 2: kind 'xxxx"),
        ([HEADER, "announced,soon,9,1,"], "line 2: begin 'soon' is neither a number of seconds nor a date"),
        ([HEADER, "announced,nan,9,1,"], "line 2: begin 'nan' is neither"),
        ([HEADER, "announced,1,9,1,2"], "line 2: announced at 2.0, after its begin at 1.0"),
        ([HEADER, "failure,1,9,1,0"], "line 2: a failure is known when it happens"),
        ([HEADER, "announced,2026-03-01T08:00,,1,"], "line 2: 2026-03-01T08:00:00 has no time zone"),
        ([HEADER, "announced,1,2026-03-01T08:00Z,1,"], "line 2: seconds and dates are mixed"),
        ([HEADER, "announced,1,2,1,", "announced,2026-03-01T08:00Z,,1,"], "seconds and dates are mixed"),
        ([HEADER, f"announced,{DATE}Z,,1,"], f"line 2: {DATE}:00+00:00 is a date, and the workload has"),
        ([NAMED, "announced,1,9,0-3"], "line 2: names machines, and only processors are counted"),
        ([NAMED, "announced,1,9,0-3 2"], "line 2: machines '0-3 2' are not ids, each once"),
        ([NAMED, "announced,1,9,3-0"], "line 2: machines '3-0' are not ids, each once"),
        ([f"{NAMED},processors", "announced,1,9,0-3,4"], "line 2: has machines and processors; give one of them"),
        ([HEADER, "announced,0,,64,"], "sample.json: 800 of 800 jobs can never run"),
        (["\udcff\udcfe"], "is not text"),
        ([HEADER, *(f"announced,{at},{at}.5,1," for at in range(20_001))], "20,001 windows are too many"),
        ([HEADER, "announced,1,9,\u0661,"], "is not a number of processors"),
    ],
)
def test_a_bad_calendar_is_refused_in_one_line(lines, wrong, tmp_path):
    path = tmp_path / "calendar.csv"
    path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    assert wrong in refusal("replay", SAMPLE, "--calendar", path)


@pytest.mark.compiled
def test_a_result_states_the_calendar_its_digest_and_what_it_took(tmp_path):
    path = tmp_path / "calendar.csv"
    path.write_text(f"{HEADER}\nannounced,10000,20000,16,\nfailure,50000,60000,8,\n")
    plain, beside = (json_result("replay", SAMPLE, *more) for more in ((), ("--calendar", path)))
    assert beside["options"]["calendar"] == str(path)
    assert beside["calendar_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert beside["calendar"] == {
        "away_proc_s": 240_000.0,
        "overrun_proc_s": 0.0,
        "failed": 1,
        "lost_proc_s": beside["calendar"]["lost_proc_s"],
        "windows": [[10_000.0, 20_000.0, 16], [50_000.0, 60_000.0, 8]],
    }
    assert beside["requeued"] == 1
    assert beside["mean_wait_s"] != plain["mean_wait_s"]
    assert plain["options"]["calendar"] is None
    assert "calendar" not in plain


def test_dates_are_those_of_the_logs_clock():
    hour = timedelta(hours=1)
    begin = datetime(2026, 3, 1, 8, tzinfo=timezone(hour))
    dated = Calendar((Window(ANNOUNCED, begin, begin + hour, 4, begin - hour), Window(ANNOUNCED, begin, math.inf, 1)))
    clock = Clock(int(begin.timestamp()) - 7200, timezone(hour))
    there = dated.on(clock)
    assert [window[1:5] for window in there.windows] == [(7200.0, 10_800.0, 4, 3600.0), (7200.0, math.inf, 1, None)]
    again = Calendar.of(csv.DictReader(dated.as_csv().splitlines()))
    assert (again.windows, again.digest) == (dated.windows, dated.digest)


# Python, and who refuses


@pytest.mark.needs("pandas")
@pytest.mark.compiled
def test_a_replay_in_python_takes_a_calendar_and_keeps_it_in_forks_and_files(tmp_path):
    calendar = bf.Calendar.of([{"kind": "announced", "begin": 1e4, "end": 2e4, "processors": 60}])
    whole = bf.replay(SAMPLE, "saf", calendar=calendar)
    run = bf.Replay(SAMPLE, "saf", calendar=calendar).run(15_000)
    busy = 64 - 60 - run.free
    assert f"running on {busy} processors" in repr(run)
    run.save(tmp_path / "run.npz")
    for going_on in (run.fork(), bf.Replay.load(tmp_path / "run.npz"), run.fork(policy="saf")):
        assert going_on.run().result().schedule.start_s.tolist() == whole.schedule.start_s.tolist()
    frame = bf.replay_many(SAMPLE, ["fcfs", "saf"], calendar=calendar)
    assert frame.mean_wait_s["saf"] == whole.figures.mean_wait_s
    assert frame.attrs["calendar_sha256"] == calendar.digest
    assert whole.about()["calendar_sha256"] == calendar.digest


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (7, "calendar: 7 are not rows; give a dict for each window"),
        ([7], "calendar: window 1: 7 is not a row"),
        (
            [{"kind": "announced", "begin": 0, "end": 9, "processors": 1, "anounced": 0}],
            "window 1: 'anounced' is unknown",
        ),
        ([{"kind": "announced", "begin": 0, "processors": 1}, {"kind": "failure"}], "window 2: has no begin"),
    ],
)
def test_rows_from_python_are_checked_as_those_of_a_file(rows, says):
    with pytest.raises(BatfillError, match=re.escape(says)):
        Calendar.of(rows)


FAILING = bf.Calendar.of([{"kind": "failure", "begin": 1e4, "end": 2e4, "processors": 60}])


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"calendar": FAILING, "small": "all", "divider": "median"}, "nothing can be learned of"),
        ({"calendar": FAILING, "predict": "easy++"}, "nothing can be learned of"),
        ({"calendar": 7}, "neither a file nor a Calendar"),
    ],
)
def test_what_cannot_take_a_calendar_says_so(options, wrong):
    with pytest.raises(BatfillError, match=wrong):
        bf.replay(SAMPLE, "saf", **options)


# What it took


@pytest.mark.parametrize("seed", range(4))
def test_figures_count_what_is_available_second_by_second(seed):
    jobs = random_table(seed, n_jobs=60, size=9, span_s=80, longest=20, unlimited=0.3)
    calendar = Calendar((announced(10, 40, 5, 10.0), failure(50, 70, 6), announced(60, 90, 3, 60.0)))
    schedule = replay_jobs(jobs, 9, Rules(policy_named("fcfs"), calendar=calendar))
    figures, took = schedule.summary(), schedule.away()
    seconds = range(int(jobs.submit_s[schedule.ended].min()), int(np.nanmax(schedule.end_s)))
    tries = list(zip(schedule.start_s, schedule.end_s, jobs.procs, strict=True))
    tries += [(kill.start_s, kill.end_s, jobs.procs[kill.row]) for kill in schedule.kills.view(np.recarray)]
    busy = [sum(q for start, end, q in tries if start <= t < end) for t in seconds]
    away = [sum(w.processors for w in calendar.windows if w.begin <= t < w.end) for t in seconds]
    over = [max(used + gone - 9, 0) for used, gone in zip(busy, away, strict=True)]
    assert took.away_proc_s == sum(away)
    assert took.overrun_proc_s == sum(over) > 0
    assert took.failed == schedule.kills["failed"].sum()
    assert figures.utilisation == pytest.approx(sum(busy) / (9 * len(seconds) - sum(away) + sum(over)))
    dates, available = schedule.available()
    known = available[np.searchsorted(dates, seconds, side="right") - 1]
    assert known.tolist() == [9 - gone + more for gone, more in zip(away, over, strict=True)]


def test_nothing_is_in_use_of_a_machine_that_is_away_until_a_job_of_no_time_starts():
    run = run_of([(0, 0, 30, 2)], 2, announced(0, 50, 2))
    assert run.start_s.tolist() == [50]
    assert run.summary().utilisation == 0


@pytest.mark.compiled
def test_a_drawing_shows_what_is_unavailable():
    calendar = Calendar.of([{"kind": "announced", "begin": 1e4, "end": 2e4, "processors": 60}])
    result = bf.replay(SAMPLE, "saf", calendar=calendar)
    axes = pytest.importorskip("matplotlib.pyplot").figure().subplots()
    result.plot("utilisation", axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["unavailable"]


def test_a_queue_passes_the_dates_of_its_calendar_while_jobs_wait():
    calendar = Calendar.of([{"kind": "announced", "begin": 10, "end": 20, "processors": 3}])
    queue = Queue(4, Rules(policy_named("fcfs"), calendar=calendar))
    assert queue.next_change_s(math.inf) == math.inf
    queue.submit("a", 0.0, 30.0, 2)
    assert queue.next_change_s(math.inf) == 10
    assert [queue.pass_changes(now_s) for now_s in (5.0, 10.0, 20.0)] == [0, 3, 0]
