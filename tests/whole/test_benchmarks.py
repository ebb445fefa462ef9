"""The benchmark suite measures what it says it does; no time is asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from strategies import random_table

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LOGS = ("KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz", "SDSC-BLUE-2000-4.2-cln.swf.gz")
SIZE = 8


@pytest.fixture
def suite(monkeypatch):
    """The suite's modules."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return SimpleNamespace(**{path.stem: import_module(path.stem) for path in BENCHMARKS.glob("*.py")})


@pytest.fixture
def c_program(suite, tmp_path):
    """The compiled yardstick."""
    return suite.yardstick.compiled(tmp_path) or pytest.skip("there is no C compiler here")


def plain_jobs(seed):
    """Random jobs that end by themselves on a machine they fit, as the yardstick wants them."""
    jobs = random_table(seed, n_jobs=200, size=SIZE, span_s=1500, wide=0, unlimited=0)
    runtime_s = np.maximum(jobs.runtime_s, 1)
    request_s = np.maximum(jobs.walltime_s, runtime_s)
    return replace(jobs, runtime_s=runtime_s, walltime_s=request_s, request_s=request_s, own_end=True)


def bench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCHMARKS / "run.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_the_quick_suite_runs_and_its_starts_agree_with_plain_c(archive_log, c_program, tmp_path):
    archive_log(LOGS[0])
    done = bench("--quick", "--rounds", 1, "--out", tmp_path / "table.txt")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("28,467 jobs, starts agree") == 2
    assert "skipped" not in done.stdout
    assert (tmp_path / "table.txt").read_text() == done.stdout


def test_without_a_c_compiler_the_rest_runs(archive_log):
    archive_log(LOGS[0])
    done = bench("--quick", "--rounds", 1, "--only", "KTH-SP2 fcfs", CC="no-such-compiler")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("no C compiler") == 2  # among the versions, and in the column


def test_cases_whose_log_is_missing_are_skipped_by_name(suite, monkeypatch, tmp_path):
    monkeypatch.setattr(suite.logs, "PLACES", [tmp_path])
    suite.logs.workload.cache_clear()
    cases = suite.run.chosen(quick=True, only="KTH-SP2")
    rows = [
        row for rows in suite.run.measure(cases, suite.timing.Setting(1, 1, tmp_path, None)).values() for row in rows
    ]
    assert [(row.case, row.ours) for row in rows] == [
        ("KTH-SP2 fcfs", "skipped: its log is not here"),
        ("KTH-SP2 saf", "skipped: its log is not here"),
    ]


@pytest.mark.parametrize("policy", ["fcfs", "spf", "saf"])
def test_plain_c_starts_what_the_engine_starts(suite, c_program, tmp_path, policy):
    for seed in range(20):
        jobs = plain_jobs(seed)
        plain = suite.logs.write_plain(jobs.stating(name="made", size=SIZE), tmp_path / "made.swf")
        ours = replay_jobs(jobs, SIZE, Rules(policy_named(policy)))
        assert ours.backfilled.any() or policy != "fcfs"
        suite.engine.require_equal_starts("made", ours, c_program.starts_s(plain, policy))


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_queue_is_that_of_a_count_instant_by_instant(suite, seed):
    schedule = replay_jobs(plain_jobs(seed), SIZE, Rules(policy_named("saf")))
    submit_s, start_s = schedule.jobs.submit_s, schedule.start_s
    counts = [int(((submit_s <= now_s) & (start_s >= now_s)).sum()) for now_s in submit_s]
    assert suite.engine.longest_queue(schedule) == max(counts)


def test_a_wide_machine_beside_c_starts_every_job_at_the_same_second(suite, c_program, tmp_path, monkeypatch):
    monkeypatch.setattr(suite.wide, "PROCS", 300)
    suite.wide.wide_workload.cache_clear()
    setting = suite.timing.Setting(rounds=1, seed=1, folder=tmp_path, yardstick=c_program)
    (row,) = suite.wide.beside_c("saf", setting)
    suite.wide.wide_workload.cache_clear()
    assert row.case == "saf, 3,000 jobs on 300 processors, starts agree"


def test_a_walk_names_the_functions_that_a_replay_and_a_message_pass():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "walk.py", "--functions"], capture_output=True, text=True, check=True
    )
    of_replay, _, of_message = done.stdout.partition("\nmessage with")
    assert "replay_jobs" in of_replay
    assert "replay_jobs" not in of_message
    assert "job_request" in of_message
    assert of_replay.count("easy_pass") == of_message.count("easy_pass") == 1
