"""Logs that are read and written piece by piece: the same as at once, whatever the pieces."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.replays import replay
from batfill.workloads import read_workload, swf_log
from batfill.workloads.convert import convert
from batfill.workloads.formats import load_log
from batfill.workloads.generate import generate_log
from batfill.workloads.swf import workload_of
from batfill.workloads.swf_log import Comment, SwfLog, read_log, write_log
from command import batfill
from sweeps import examples
from swf_text import row


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of a few rows, as those of a long log."""
    monkeypatch.setattr("batfill.base.files.CHUNK_BYTES", 300)


@pytest.mark.parametrize("source", ["x.swf", "x.swf.gz"])
@pytest.mark.parametrize("out", ["y.swf.xz", "y.swf"])
def test_convert_keeps_every_row_and_comment_of_a_log(tmp_path, small_pieces, source, out):
    log = generate_log(60, 32, 1)
    log.rows[40, swf_log.FIELD["cpu_s"]] = 2.5  # long after the first piece
    log = SwfLog((*log.comments, Comment(0, "; MaxProcs: 32"), Comment(30, "; in the middle")), log.rows, log.lines)
    write_log(log, tmp_path / source)
    made = convert(tmp_path / source, tmp_path / out)
    assert (made.jobs, made.procs) == (60, 32)
    again = load_log(tmp_path / out)
    assert again.rows.tobytes() == log.rows.tobytes()
    assert [c for c in again.comments if c.rows_before] == [Comment(30, "; in the middle")]
    assert again.header[:-1] == log.header
    assert again.header[-1].startswith("; Note: made_by batfill ")
    assert f"workload convert, source {source}, source_sha256 " in again.header[-1]


def test_a_batsim_workload_becomes_a_log(tmp_path):
    source, out = Path("workloads/sample.json"), tmp_path / "y.swf"
    done = batfill("workload", "convert", source, "--out", out)
    assert done.err == f"{out}: 800 rows, 64 processors\n"
    assert load_log(out).rows.tobytes() == load_log(source).rows.tobytes()


BOUNDS = {"job": (-1, 9), "submit": (-1, 30), "runtime": (-1, 9), "procs": (-1, 4), "req_procs": (-1, 4)}
BOUNDS |= {"req_time": (-1, 9), "status": (0, 5), "user": (-1, 2), "queue": (0, 1), "wait": (-1, 9)}
ODD = st.builds(row, **{name: st.integers(*bounds) for name, bounds in BOUNDS.items()})


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(ODD, min_size=1, max_size=30),
    st.sampled_from(["keep", "kill", "extend"]),
    st.sampled_from([None, "runtime", "none", "queue", "user-max", 7.0]),
)
def test_the_columns_that_jobs_are_made_of_give_the_jobs_of_the_whole_log(tmp_path_factory, rows, overrun, unrequested):
    source = tmp_path_factory.mktemp("jobs") / "x.swf"
    source.write_text("; MaxProcs: 8\n; MaxRuntime: 20\n; UnixStartTime: 1000\n" + "".join(rows))
    how = {"overrun": overrun, "unrequested": unrequested}
    whole = outcome(lambda: workload_of(source, read_log(source), **how))
    assert outcome(lambda: read_workload(source, **how)) == whole


def outcome(read):
    """The workload as texts, or why there is none."""
    try:
        workload = read()
    except WorkloadError as error:
        return [str(error)]
    columns = [getattr(workload.jobs, f.name) for f in fields(workload.jobs)]
    texts = [str(c.tolist() if isinstance(c, np.ndarray) else c) for c in columns]
    about = (workload.name, workload.size, workload.notes, workload.warnings, workload.clock, workload.unrequested)
    return texts + [str(one) for one in about]


def test_a_long_replay_says_its_memory_first(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "LONG", 800)
    done = batfill("replay", "workloads/sample.json", "--policy", "saf")
    assert re.fullmatch(
        r"800 jobs: 1\d\d B each in the table, \d+ B each in the replay, 0\.0 GB in all; "
        r"waiting and running jobs take more\n",
        done.err,
    )
    monkeypatch.setattr(replay, "LONG", 801)
    assert batfill("replay", "workloads/sample.json", "--policy", "saf").err == ""
