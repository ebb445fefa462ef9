"""Jobs that their users cancel while they wait: who they are, when they leave, and what counts them.

Random cases of all rules at once are in `test_every_rule.py`.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.batsim_files.results import read_results
from command import batfill, json_result
from strategies import table
from swf_text import row

SAMPLE = "workloads/sample.json"
# On a machine of 4 a job of 4 for 100 s; a job is (submission, run time, walltime, q), and then when it is cancelled.
WHOLE = (0, 100, 100, 4)


def jobs_of(rows, cancel_s):
    """These jobs on a machine of 4, each cancelled at a date, or never."""
    jobs = table(rows)
    after_s = np.array([math.inf if at_s is None else at_s for at_s in cancel_s]) - jobs.submit_s
    return replace(jobs, size=4, cancel_after_s=after_s)


@pytest.mark.parametrize(
    ("options", "rows", "cancel_s", "start_s", "end_s"),
    [
        # The second waits for 4 processors until 100. Until it leaves at 30 it holds the third back, not from then on.
        ({}, [(0, 100, 100, 2), (1, 50, 50, 4), (2, 200, 200, 2)], [None, 30, None], [0, None, 30], [100, None, 230]),
        (
            {},
            [WHOLE, (1, 50, 50, 4), (2, 10, 10, 4)],
            [None, 100, None],
            [0, None, 100],
            [100, None, 110],
        ),  # not at 100
        (
            {},
            [WHOLE, (1, 50, 50, 4), (2, 10, 10, 4)],
            [None, 101, None],
            [0, 100, 101],
            [100, 101, 111],
        ),  # it had begun
        ({}, [WHOLE, (1, 20, 20, 4)], [None, 500], [0, 100], [100, 120]),  # its request is over before
        ({}, [(0, 100, 100, 4), (0, 9, 9, 4)], [50, None], [0, 50], [50, 59]),
        # A reservation for it holds back a longer one, as no scheduler knows that it leaves.
        ({}, [(0, 100, 100, 2), (1, 50, 50, 4), (2, 99, 99, 2)], [None, 200, None], [0, 100, 150], [100, 150, 249]),
        ({}, [WHOLE, (1, 9, 9, 5)], [None, 50], [0, None], [100, None]),  # wider than the machine: rejected
        # A try of 10 s: killed at 10 for the second job, it waits until it leaves at 15. At 10 itself it is over.
        ({"small": "all", "divider": 10.0}, [WHOLE, (0, 30, 31, 2)], [15, None], [None, 10], [None, 40]),
        ({"small": "all", "divider": 10.0}, [WHOLE, (0, 30, 31, 2)], [10, None], [0, 10], [10, 40]),
    ],
)
def test_a_job_leaves_at_its_date_whether_it_waits_or_runs(options, rows, cancel_s, start_s, end_s):
    found = bf.replay(jobs_of(rows, cancel_s), "fcfs", **options).schedule
    assert found.start_s.tolist() == pytest.approx([math.nan if one is None else one for one in start_s], nan_ok=True)
    assert found.end_s.tolist() == pytest.approx([math.nan if one is None else one for one in end_s], nan_ok=True)


def test_figures_count_none_of_them_but_the_processors_that_they_use():
    jobs = jobs_of([(0, 100, 101, 4), (1, 50, 50, 4), (2, 10, 11, 4), (3, 9, 9, 1)], [None, 101, None, 50])
    found = bf.replay(jobs, "fcfs")
    assert (found.figures.jobs, found.figures.mean_wait_s, found.figures.makespan_s) == (2, 99 / 2, 111)
    assert found.figures.utilisation == 1
    assert found.as_dict()["cancelled"] == {"jobs": 2, "ran": 1, "used_proc_s": 4}
    assert ("cancelled", "2 jobs cancelled while waiting; 1 had started, and used 0 processor-hours") in found.rows()
    frame = found.to_pandas()
    assert frame.wait_s.isna().tolist() == frame.bsld.isna().tolist() == [False, True, False, True]
    assert frame.state.tolist() == ["completed", "cancelled by its user"] * 2
    assert sum(group["jobs"] for group in found.who_pays()["waits_by_width"]) == 2
    assert bf.replay(jobs_of([(0, 9, 9, 1)], [5]), "fcfs").figures.jobs == 0


def test_result_files_have_a_row_for_each_and_the_same_figures(tmp_path):
    jobs = jobs_of([(0, 100, 101, 4), (1, 50, 50, 4), (2, 10, 11, 4), (3, 9, 9, 1)], [None, 101, None, 50])
    found = bf.replay(jobs, "fcfs")
    found.to_batsim(tmp_path / "x")
    lines = (tmp_path / "x_jobs.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert [(each[7], each[8]) for each in rows] == [
        ("CANCELLED", ""),
        ("COMPLETED_SUCCESSFULLY", "0.000000"),
        ("CANCELLED", "100.000000"),
        ("COMPLETED_SUCCESSFULLY", "101.000000"),
    ]
    read = read_results(tmp_path / "x_jobs.csv", size=4)
    assert read.summary() == found.figures
    totals = dict(
        zip(*((tmp_path / "x_schedule.csv").read_text().splitlines()[k].split(",") for k in (0, 1)), strict=True)
    )
    assert (totals["nb_jobs"], totals["nb_jobs_finished"], totals["nb_jobs_rejected"]) == ("4", "2", "0")


def test_a_try_that_was_killed_and_never_came_back_is_named_as_the_next(tmp_path):
    jobs = jobs_of([(0, 100, 100, 4), (0, 90, 90, 4), (0, 90, 90, 4)], [20, None, None])
    found = bf.replay(jobs, "fcfs", small="all", divider=10.0, kill="always")
    found.to_batsim(tmp_path / "x")
    states = {line.split(",")[0]: line.split(",")[7] for line in (tmp_path / "x_jobs.csv").read_text().splitlines()}
    first = str(jobs.ids[0])
    assert (states[first], states[f"{first}#1"]) == ("COMPLETED_KILLED", "CANCELLED")
    assert read_results(tmp_path / "x_jobs.csv", size=4).summary() == found.figures


# Reading

LOG = (
    "; MaxProcs: 4\n"
    + row(1, 0, 100, req_procs=4, req_time=100)
    + row(2, 10, 0, req_procs=4, req_time=50, wait=20, status=5)
    + row(3, 11, -1, req_procs=4, wait=20, status=5)  # no request
    + row(4, 12, 0, req_procs=1, req_time=50, wait=0, status=5)  # no wait
    + row(5, 13, 7, req_procs=1, req_time=50, wait=3, status=5)  # it ran
    + row(6, 14, 0, req_procs=1, req_time=50, wait=9, status=0)  # another status
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


def test_rows_of_status_5_with_a_wait_and_without_a_run_time_are_jobs_if_asked_for(log):
    assert bf.read(log) == bf.read(log, cancelled="drop")
    assert [int(name) for name in bf.read(log).ids] == [1, 5]
    jobs = bf.read(log, cancelled="wait", unrequested="runtime")
    assert [int(name) for name in jobs.ids] == [1, 2, 3, 5]
    assert jobs.cancel_after_s.tolist() == [math.inf, 20, 20, math.inf]
    assert jobs.walltime_s.tolist() == [100, 50, 20, 50]
    assert jobs.waited_s.tolist() == pytest.approx([0, math.nan, math.nan, 3], nan_ok=True)
    assert jobs.raised.tolist() == [False] * 4
    assert "2 of 6 rows are jobs that leave the queue when they were cancelled" in jobs.notes
    assert "2 of 6 rows dropped: run time <= 0 or unknown" in jobs.notes
    assert bf.read(log, cancelled="wait", unrequested=30).walltime_s.tolist() == [100, 50, 30, 50]
    assert jobs.reading == "overrun keep, unrequested runtime, cancelled wait"
    assert "cancelled" not in bf.read(log).reading


def test_a_log_that_begins_with_one_counts_from_it(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(row(1, 50, 0, wait=9, status=5, req_time=5) + row(2, 60, 7, req_time=9))
    assert bf.read(path, cancelled="wait").submit_s.tolist() == [0, 10]


def test_the_command_line_the_result_and_a_table_of_jobs_say_which_are(log, tmp_path):
    shown = json.loads(batfill("replay", log, "--cancelled", "wait", "--unrequested", "runtime", "--json").out)
    assert (shown["cancelled"]["jobs"], shown["options"]["cancelled"]) == (2, "wait")
    assert "cancelled" not in json_result("replay", log)["options"]
    jobs = bf.read(log, cancelled="wait", unrequested="runtime")
    jobs.to_csv(tmp_path / "jobs.csv")
    again = bf.read(tmp_path / "jobs.csv", procs=4, unrequested="runtime")
    assert again.cancel_after_s.tolist() == jobs.cancel_after_s.tolist()
    ends = [bf.replay(one, "fcfs").to_pandas().end_s.tolist() for one in (again, jobs)]
    assert ends[0] == pytest.approx(ends[1], nan_ok=True)
    assert bf.replay(jobs.to_pandas(), "fcfs", unrequested="runtime").figures == bf.replay(jobs, "fcfs").figures


@pytest.mark.compiled
def test_a_replay_of_them_is_left_forked_saved_and_continued(log, tmp_path):
    jobs = bf.read(log, cancelled="wait", unrequested="runtime")
    whole = bf.replay(jobs, "fcfs")
    run = bf.Replay(jobs, "fcfs").run("12s")
    assert (len(run.waiting), run.result().not_ended) == (2, 4)
    run.save(tmp_path / "x.npz")
    for other in (run.fork(), bf.Replay.load(tmp_path / "x.npz")):
        assert other.run("35s").result().not_ended == 2
        assert other.run().result() == whole


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda log: bf.read(log, cancelled="stay"), "cancelled: 'stay' is none of drop, wait; choose one"),
        (lambda log: bf.read(SAMPLE, cancelled="wait"), "sample.json: cancelled applies to SWF and"),
        (lambda log: bf.read({"submit_s": [0]}, cancelled="wait"), "cancelled applies to files only"),
        (lambda log: bf.replay(bf.read(log), cancelled="wait"), "was read with cancelled drop; read it with"),
        (
            lambda log: bf.write(read(log), log.with_suffix(".json")),
            "2 jobs are cancelled while they wait, and are not for Batsim",
        ),
        (lambda log: bf.replay(read(log), predict="easy++"), "and are not for a predictor; read"),
        (lambda log: jobs_of([WHOLE], [-1]), "a time until it is cancelled that is not a number > 0"),
    ],
)
def test_what_cannot_know_them_refuses_them_in_one_line(log, made, said):
    with pytest.raises(BatfillError, match=said) as error:
        made(log)
    assert "\n" not in str(error.value)


def read(log):
    return bf.read(log, cancelled="wait", unrequested="runtime")


def test_a_log_of_them_is_written_as_it_was(log, tmp_path):
    again = bf.write(read(log), tmp_path / "again.swf")
    assert bf.read(again, cancelled="wait", unrequested="runtime").cancel_after_s.tolist()[1:3] == [20, 20]
