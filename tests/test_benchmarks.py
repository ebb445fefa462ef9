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

from batfill.errors import RunFailed
from batfill.jobs import Workload
from batfill.policy import policy_named
from batfill.replays import replay
from batfill.reports.runs import find_runs
from strategies import random_table, table

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
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
    return replace(jobs, runtime_s=runtime_s, walltime_s=request_s, requested_s=request_s, own_end=True)


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


def test_a_folder_that_does_not_exist_is_refused_before_anything_is_measured(tmp_path):
    done = bench("--quick", "--out", tmp_path / "absent" / "table.txt")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("benchmarks: --out ")
    assert line.endswith("does not exist; make it first")


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
        plain = suite.logs.write_plain(Workload("made", jobs, SIZE, ""), tmp_path / "made.swf")
        ours = replay(jobs, SIZE, policy_named(policy))
        assert ours.backfilled.any() or policy != "fcfs"
        suite.engine.require_equal_starts("made", ours, c_program.starts_s(plain, policy))


def test_a_start_that_differs_is_named(suite):
    schedule = replay(table([(0, 5, 5, 1), (1, 5, 5, 8)]), SIZE, policy_named("fcfs"))
    with pytest.raises(RunFailed, match=r"made: 1 of 2 starts differ .*\(first: job 000001, 5 s, in C 6 s\)"):
        suite.engine.require_equal_starts("made", schedule, np.array([0.0, 6.0]))


def test_different_starts_end_the_suite_with_status_1(suite, monkeypatch, capsys):
    def differ(setting):
        raise RunFailed("starts differ")

    monkeypatch.setattr(suite.run, "chosen", lambda quick, only: [suite.timing.Case("made", "made", differ)])
    monkeypatch.setattr("sys.argv", ["run.py"])
    with pytest.raises(SystemExit) as ended:
        suite.run.main()
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", "benchmarks: starts differ\n")


def test_copies_follow_each_other_after_a_minute_and_are_squeezed_to_whole_seconds(suite):
    jobs = suite.logs.crowded(table([(10, 5, 6, 1), (21, 7, 8, 2)]), copies=2, squeeze=0.5)
    assert jobs.submit_s.tolist() == [0, 5, 35, 41]  # of 0, 11, 71 and 82
    assert jobs.procs.tolist() == [1, 2, 1, 2]
    assert jobs.ids.tolist() == ["1", "2", "3", "4"]


def test_the_logs_jobs_are_those_the_yardstick_was_made_for(suite, archive_log):
    for log, n_jobs in zip(suite.logs.LOGS, (28_467, 54_034, 232_536), strict=True):
        archive_log(log.file)
        jobs = suite.logs.workload(log).jobs
        assert len(jobs) == n_jobs
        assert jobs.submit_s[0] == 0
        assert (jobs.runtime_s > 0).all()
        assert (jobs.walltime_s >= jobs.runtime_s).all()
        assert jobs.procs.max() <= log.procs


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_queue_is_that_of_a_count_instant_by_instant(suite, seed):
    schedule = replay(plain_jobs(seed), SIZE, policy_named("saf"))
    submit_s, start_s = schedule.jobs.submit_s, schedule.start_s
    counts = [int(((submit_s <= now_s) & (start_s >= now_s)).sum()) for now_s in submit_s]
    assert suite.engine.longest_queue(schedule) == max(counts)


def test_the_exponent_of_a_power_is_its_exponent(suite):
    sizes = np.array([7.0, 14.0, 35.0, 70.0])
    assert suite.timing.exponent(sizes, 3e-6 * sizes**1.25) == pytest.approx(1.25)


def test_contenders_take_turns_and_their_medians_count(suite):
    turns: list[str] = []
    seconds = iter([1.0, 10.0, 3.0, 30.0, 2.0, 20.0])

    def contender(name):
        return lambda: turns.append(name) or next(seconds)

    assert suite.timing.by_turns(3, {name: contender(name) for name in "AB"}) == {"A": 2.0, "B": 20.0}
    assert "".join(turns) == "ABABAB"


def test_a_bar_is_kept_or_missed(suite):
    kept, missed, alone = (suite.table.Row("case", "1 s", figure=figure, bar=1.3) for figure in (1.3, 1.31, None))
    assert (kept.verdict, missed.verdict, alone.verdict) == ("ok", "MISSED", "")


def test_times_are_written_with_three_digits(suite):
    times = {3.12345: "3.12 s", 0.28: "280 ms", 0.0031: "3.1 ms", 24.46e-6: "24.5 µs"}
    assert {seconds: suite.table.time_text(seconds) for seconds in times} == times


def test_the_run_to_report_on_is_one_that_could_have_been(suite, tmp_path, monkeypatch):
    monkeypatch.setattr(suite.reporting, "BLOCK_JOBS", 500)
    monkeypatch.setattr(suite.reporting, "SIDE_BY_SIDE", 2)
    (run,) = find_runs([suite.reporting.write_run(tmp_path, 1500, seed=1)])
    assert run.ids.tolist() == sorted(run.ids, key=dict(zip(run.ids, run.submit_s, strict=True)).get)
    assert sorted(run.ids) == [f"{k:08d}" for k in range(1, 1501)]
    offset, first, last = run.machines
    assert (np.add.reduceat(last - first + 1, offset[:-1]) == run.procs).all()
    assert (run.start_s >= run.submit_s).all()
    row = np.repeat(np.arange(len(run)), np.diff(offset))
    for machine in np.unique(first):
        held = row[(first <= machine) & (machine <= last)]
        held = held[np.argsort(run.start_s[held], kind="stable")]
        assert (run.start_s[held][1:] >= (run.start_s + run.runtime_s)[held][:-1]).all()


def test_messages_keep_the_queue_as_long_as_they_say(suite):
    crowd = suite.messages.Crowd(128, 300, "fcfs", suite.messages.any_width(seed=1))
    before = crowd.submitted
    for _ in range(200):
        crowd.message()
    assert crowd.submitted == before + 200
    assert abs(len(crowd.cluster.queue.waiting_rows) - 300) < 60


def test_a_wide_cluster_runs_as_many_jobs_as_its_machines_hold(suite):
    crowd = suite.messages.Crowd(2_000, 50, "fcfs", suite.messages.mostly_narrow(seed=1))
    running = crowd.cluster.queue.running
    assert len(crowd.ends) == len(running) > 1_000
    assert running["procs"].sum() > 1_990


def test_wide_jobs_are_those_of_the_seed_and_ask_for_more_than_there_is(suite):
    jobs, again, other = (suite.wide.wide_jobs(20_000, 2_000, seed) for seed in (1, 1, 2))
    assert np.array_equal(jobs.submit_s, again.submit_s)
    assert not np.array_equal(jobs.submit_s, other.submit_s)
    asked = (jobs.runtime_s * jobs.procs).sum() / 2_000 / (jobs.submit_s[-1] - jobs.submit_s[0])
    assert 1.05 < asked < 1.3
    assert 0.88 < (jobs.procs == 1).mean() < 0.92


def test_a_wide_machine_beside_c_starts_every_job_at_the_same_second(suite, c_program, tmp_path, monkeypatch):
    monkeypatch.setattr(suite.wide, "PROCS", 300)
    suite.wide.wide_workload.cache_clear()
    setting = suite.timing.Setting(rounds=1, seed=1, folder=tmp_path, yardstick=c_program)
    (row,) = suite.wide.beside_c("saf", setting)
    suite.wide.wide_workload.cache_clear()
    assert row.case == "saf, 3,000 jobs on 300 processors, starts agree"


def test_the_documentation_shows_the_latest_results():
    latest = max((BENCHMARKS / "results").glob("*.txt")).read_text()
    assert latest in (BENCHMARKS.parent / "docs" / "background" / "performance.md").read_text()


def test_the_ledger_has_a_row_for_every_result_file():
    made = subprocess.run([sys.executable, BENCHMARKS / "ledger.py"], check=True, capture_output=True, text=True)
    assert made.stdout == (BENCHMARKS / "results" / "README.md").read_text()
    for path in (BENCHMARKS / "results").glob("*.txt"):
        (row,) = (line for line in made.stdout.splitlines() if f"({path.name})" in line)
        assert "| - |" not in row
