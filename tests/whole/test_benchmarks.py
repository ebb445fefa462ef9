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


@pytest.mark.parametrize("policy", ["fcfs", "spf", "saf"])
def test_plain_c_starts_what_the_engine_starts(suite, c_program, tmp_path, policy):
    for seed in range(20):
        jobs = plain_jobs(seed)
        plain = suite.logs.write_plain(jobs.stating(name="made", size=SIZE), tmp_path / "made.swf")
        ours = replay_jobs(jobs, SIZE, Rules(policy_named(policy)))
        assert ours.backfilled.any() or policy != "fcfs"
        suite.engine.require_equal_starts("made", ours, c_program.starts_s(plain, policy))
