"""What was compiled is used again only while it is what the sources say."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import batfill
from batfill import engine
from batfill.engine import jit
from batfill.engine.jit import SOURCES, drop_stale
from batfill.engine.loop import advance
from batfill.engine.running import reservation

PACKAGE = Path(batfill.__file__).parent


@jit.compiled(__file__, **jit.OPTIONS)
def doubled(number):
    return 2 * number


def test_a_function_compiled_from_named_files_is_the_function():
    assert doubled(21) == 42


def test_the_engine_is_compiled_from_files_of_its_own_alone():
    """So a changed policy costs no compilation, and numba, which looks at a kernel's own file only, misses nothing."""
    for path in (PACKAGE / "engine").glob("*.py"):
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in imported_by(node)
            if name.partition(".")[0] == "batfill"
        }
        assert all(name.startswith("batfill.engine") for name in names), (path, names)
    kernels = re.compile(r"^@(kernel|outlined|expression)$", re.MULTILINE)
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert {path.parent.name for path, text in sources.items() if kernels.search(text)} == {"engine"}
    assert [path.name for path, text in sources.items() if re.search(r"\bnumba\b.* import|import numba", text)] == [
        "jit.py"
    ]


def imported_by(node):
    """The modules that a statement imports, also for type checkers."""
    if isinstance(node, ast.ImportFrom):
        return [node.module]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


@pytest.mark.compiled
def test_numba_is_told_of_all_sources():
    # The name is numba's own business; where it is gone, a stale kernel could be used.
    assert advance._cache._cache_file._source_stamp == SOURCES


@pytest.mark.compiled
def test_kernels_that_the_engine_offers_can_be_called_and_the_others_say_why_not():
    offered = [getattr(import_module(f"batfill.engine.{module}"), name) for name, module in engine.HOME.items()]
    kernels = {each.py_func.__name__: each for each in offered if isinstance(each, jit.CPUDispatcher)}
    assert {"advance", "decide", "step", "submit"} <= kernels.keys()
    assert [name for name, each in kernels.items() if isinstance(each, jit.Inner)] == []
    with pytest.raises(TypeError, match="reservation: decorate it with `entry` to call it from Python"):
        reservation(1, None)


def test_a_list_of_compiled_kernels_is_deleted_if_it_was_made_from_other_sources(tmp_path):
    stale, fresh = tmp_path / "stale.nbi", tmp_path / "fresh.nbi"
    stale.write_bytes(b"numba " + b"0" * len(SOURCES))
    fresh.write_bytes(b"numba " + SOURCES.encode())
    for index in (stale, fresh, tmp_path / "missing.nbi"):
        drop_stale(index, SOURCES)
    assert list(tmp_path.iterdir()) == [fresh]


def test_nothing_is_announced_where_nothing_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(jit, "COMPILED", False)
    jit.announce_compilation(advance)
    assert capsys.readouterr().err == ""


@pytest.mark.compiled
def test_compilation_is_announced_where_no_kernel_is_stored(capsys, monkeypatch, tmp_path):
    stored = tmp_path / "kernel.nbi"
    monkeypatch.setattr(jit, "index_of", lambda _: stored)
    jit.announce_compilation(advance)
    assert capsys.readouterr().err.startswith("batfill: compiling the engine, once after installation")
    stored.touch()
    jit.announce_compilation(advance)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.long
def test_the_first_run_says_once_that_it_compiles(tmp_path):
    workload = tmp_path / "w.json"
    workload.write_text(
        '{"nb_res": 4, "jobs": [{"id": "1", "subtime": 0, "res": 2, "walltime": 9, "profile": "d"}], '
        '"profiles": {"d": {"type": "delay", "delay": 5}}}'
    )
    command = [sys.executable, "-m", "batfill", "replay", str(workload), "--json"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=200).stderr
        for _ in range(2)
    ]
    assert said[0].startswith("batfill: compiling the engine, once after installation")
    assert said[1] == ""
