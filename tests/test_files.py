"""Files appear whole or not at all, and what killed processes left is removed, but nothing of living ones."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from batfill.base.files import remove_left_overs, scratch_folder, write_text
from batfill.batsim.results import run_files

WRITING = """
import os, pathlib, signal, sys
from batfill.base import files
with {block} as it:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_in(block, cwd, env=None):
    """Kill a process with SIGKILL inside this `with` block of `files`; returns its number."""
    process = subprocess.Popen([sys.executable, "-c", WRITING.format(block=block)], cwd=cwd, env=env)
    assert process.wait(60) == -signal.SIGKILL
    return process.pid


@pytest.fixture(scope="module")
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writing_a_file_removes_what_a_killed_process_left_of_it(tmp_path):
    pid = killed_in("files.whole_file(pathlib.Path('a.json'))", tmp_path)
    assert names(tmp_path) == [f".a.json.{pid}.part"]
    write_text(tmp_path / "a.json", "whole")
    assert names(tmp_path) == ["a.json"]


def test_files_of_living_processes_are_kept(tmp_path, dead):
    living = [f".a.{os.getpid()}.part", f".a.{os.getppid()}.part", ".a.1.part"]
    others = [".a.part", f"a.{dead}.part", f".a.{dead}.part2", f".a.{2**70}.part"]
    for name in (*living, *others, f".a.{dead}.part"):
        (tmp_path / name).touch()
    remove_left_overs(tmp_path)
    assert names(tmp_path) == sorted([*living, *others])


def test_a_writer_holds_the_lock_that_protects_its_file(tmp_path):
    held = (
        "import pathlib, sys\nfrom batfill.base import files\nwith files.all_or_none():\n"
        "    with files.whole_file(pathlib.Path('a')): pass\n    print(flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", held], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    (part,) = tmp_path.iterdir()  # finished, and not yet renamed
    with part.open("r+b") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.communicate(timeout=60)
    assert names(tmp_path) == ["a"]


def test_results_remove_left_over_results_of_any_prefix_and_nothing_else(tmp_path, dead):
    for name in ("x_jobs.csv", "y_machine_states.csv", "film.mkv"):
        (tmp_path / f".{name}.{dead}.part").touch()
    with run_files(tmp_path / "z", machine_states=False):
        pass
    assert names(tmp_path) == [f".film.mkv.{dead}.part", "z_jobs.csv"]


def test_a_scratch_folder_replaces_those_of_killed_processes(tmp_path, monkeypatch, dead):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pid = killed_in("files.scratch_folder('batfill-x')", tmp_path, {**os.environ, "TMPDIR": str(tmp_path)})
    (left,) = tmp_path.glob(f"batfill-x-{pid}-*")
    (left / "full").touch()
    kept = [f"batfill-x-{os.getppid()}-abc", f"batfill-y-{dead}-abc", "batfill-x-abc"]
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / f"batfill-x-{dead}-link").symlink_to(tmp_path / kept[0], target_is_directory=True)
    with scratch_folder("batfill-x") as folder:
        assert names(tmp_path) == sorted([*kept, f"batfill-x-{dead}-link", folder.name])
    assert not folder.exists()
