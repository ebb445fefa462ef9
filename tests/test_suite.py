"""The tests come in three sizes: quick ones, those of `make test`, and all."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow  # so that the run that it is in has all tests
def test_quick_and_slow_tests_are_two_small_parts_of_all(request):
    every = request.session.items
    quick, slow = ([test for test in every if test.get_closest_marker(mark)] for mark in ("quick", "slow"))
    if len(every) < 3000:
        pytest.skip("only a part of the tests is run")
    assert not set(quick) & set(slow)
    assert 500 < len(quick) < len(every) / 2
    assert len(slow) < len(every) / 10


def test_every_file_that_is_said_to_be_quick_is_there():
    from conftest import QUICK

    assert {path.name for path in (ROOT / "tests").glob("test_*.py")} >= QUICK


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        (["make", "-n", "test"], '-n auto --dist worksteal -m "not slow"'),
        (["make", "-n", "test", "ARGS=-m quick"], '-m "not slow" -m quick'),
    ],
)
def test_make_test_runs_in_parallel_and_leaves_the_slow_tests_out_unless_it_is_given_others(command, runs):
    # The make that runs these tests must not change what this one prints.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=60).stdout
    assert runs in said.splitlines()[-1]


def test_continuous_integration_runs_the_tests_by_make_and_ends_with_the_runners_closing_line(tmp_path):
    (tmp_path / "make").write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/called\n'
        'case "$*" in *test*) echo "3 passed, 1 skipped in 0.10s"; echo "make: warning";; esac\n'
    )
    (tmp_path / "make").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(
        [ROOT / ".ci" / "run"], env=env, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert said.splitlines()[-1] == "3 passed, 1 skipped in 0.10s"
    *before, test, uncompiled = (tmp_path / "called").read_text().splitlines()
    assert {line.split()[-1] for line in before} == {".venv/.dev", "compile", "lint"}
    assert re.search(r" test ARGS=.*-m 'not long'", test)
    assert " test-uncompiled" in uncompiled
