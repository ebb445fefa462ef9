"""Files appear whole or not at all, and what killed processes left is removed, but nothing of living ones."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from batfill.base import files
from batfill.base.errors import WorkloadError
from batfill.base.files import remove_left_overs, scratch_folder, write_text
from batfill.batsim_files.results import run_files

HOST = os.uname().nodename
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
    """A process that has ended, as temporary files name it."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return f"{process.pid}@{HOST}"


@pytest.mark.parametrize("piece", [1, 3, 7, 100])
def test_pieces_of_a_text_are_whole_lines_however_long(monkeypatch, piece):
    monkeypatch.setattr(files, "CHUNK_BYTES", piece)
    text = b"a\n\nlonger than a piece\nb"
    pieces = list(files.whole_lines(Path("x"), io.BytesIO(text)))
    assert b"".join(pieces) == text + b"\n"
    assert all(part.endswith(b"\n") for part in pieces)
    monkeypatch.setattr(files, "LONGEST_LINE", 10)
    with pytest.raises(WorkloadError, match="x: a line is longer than"):
        list(files.whole_lines(Path("x"), io.BytesIO(b"x" * 500)))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writing_a_file_removes_what_a_killed_process_left_of_it(tmp_path):
    pid = killed_in("files.whole_file(pathlib.Path('a.json'))", tmp_path)
    assert names(tmp_path) == [f".a.json.{pid}@{HOST}.part"]
    write_text(tmp_path / "a.json", "whole")
    assert names(tmp_path) == ["a.json"]


def test_files_of_living_processes_and_of_other_machines_are_kept(tmp_path, dead):
    living = [f".a.{process}@{HOST}.part" for process in (os.getpid(), os.getppid(), 1)]
    others = [".a.part", f"a.{dead}.part", f".a.{dead}.part2", f".a.{dead}2.part", f".a.{2**70}@{HOST}.part"]
    for name in (*living, *others, f".a.{dead}.part"):
        (tmp_path / name).touch()
    remove_left_overs(tmp_path)
    assert names(tmp_path) == sorted([*living, *others])


def test_results_remove_left_over_results_of_any_prefix_and_nothing_else(tmp_path, dead):
    for name in ("x_jobs.csv", "y_machine_states.csv", "film.mkv"):
        (tmp_path / f".{name}.{dead}.part").touch()
    with run_files(tmp_path / "z", machine_states=False):
        pass
    assert names(tmp_path) == [f".film.mkv.{dead}.part", "z_jobs.csv"]


def test_a_scratch_folder_replaces_those_of_killed_processes(tmp_path, monkeypatch, dead):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pid = killed_in("files.scratch_folder('batfill-x')", tmp_path, {**os.environ, "TMPDIR": str(tmp_path)})
    (left,) = tmp_path.glob(f"batfill-x-{pid}@{HOST}-*")
    (left / "full").touch()
    kept = [f"batfill-x-{os.getppid()}@{HOST}-abc", f"batfill-y-{dead}-abc", "batfill-x-abc"]
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / f"batfill-x-{dead}-link").symlink_to(tmp_path / kept[0], target_is_directory=True)
    with scratch_folder("batfill-x") as folder:
        assert names(tmp_path) == sorted([*kept, f"batfill-x-{dead}-link", folder.name])
    assert not folder.exists()


def test_a_file_kept_open_is_the_same_for_all_that_read_it(tmp_path):
    path, other = tmp_path / "log", tmp_path / "other"
    path.write_bytes(b"first")
    other.write_bytes(b"second")
    with files.held_open(path):
        assert files.digest(path) == files.digest(path)
        other.replace(path)
        with files.readable(path) as stored:
            assert stored.read() == b"first"
            assert files.file_bytes(path) == b"second"
        with files.readable(path) as stored:
            assert stored.read() == b"first"
