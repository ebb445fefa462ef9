"""Logs that are read and written piece by piece: the same as at once, whatever the pieces."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.errors import WorkloadError
from batfill.jobs import job_table
from batfill.workloads import parquet_log, read_workload, swf_log
from batfill.workloads.convert import convert
from batfill.workloads.formats import load_log
from batfill.workloads.generate import generate_log
from batfill.workloads.parquet_log import parquet_pieces, read_parquet, write_pieces
from batfill.workloads.swf import workload_of
from batfill.workloads.swf_log import Comment, SwfLog, joined, read_log, write_log
from command import batfill, refusal
from swf_text import row


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of a few rows, as those of a long log."""
    monkeypatch.setattr(swf_log, "CHUNK_BYTES", 300)
    monkeypatch.setattr(parquet_log, "ROWS_AT_ONCE", 7)


def cut_at(log, cuts):
    """The log in pieces that begin at these rows, each comment in the piece of the row after it, or the last."""
    edges = [0, *sorted(cuts), len(log)]
    pieces = []
    for first, end in pairwise(edges):
        last = end == len(log) and first == edges[-2]
        own = [c for c in log.comments if first <= c.rows_before < end or (last and c.rows_before >= max(first, end))]
        own = tuple(c._replace(rows_before=c.rows_before - first) for c in own)
        pieces.append(SwfLog(own, log.rows[first:end], log.lines[first:end]))
    return pieces


@st.composite
def logs(draw):
    n_rows = draw(st.integers(1, 12))
    numbers = st.integers(-1, 50).map(float) | st.sampled_from([0.5, 2.25, 2.0**53])
    rows = draw(st.lists(st.lists(numbers, min_size=18, max_size=18), min_size=n_rows, max_size=n_rows))
    places = sorted(draw(st.lists(st.integers(0, n_rows), max_size=4)))
    comments = tuple(Comment(at, f"; comment {n}") for n, at in enumerate(places))
    return SwfLog(comments, np.array(rows), np.arange(n_rows) + 1)


@settings(max_examples=100, deadline=None)
@given(logs(), st.sets(st.integers(1, 11)), st.integers(1, 5))
def test_a_log_in_pieces_is_stored_and_read_as_the_log(tmp_path_factory, log, cuts, at_once):
    pieces = cut_at(log, {cut for cut in cuts if cut < len(log)})
    path = tmp_path_factory.mktemp("trip") / "x.parquet"
    assert write_pieces(lambda: pieces, path, lambda: log.comments) == len(log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_log, "ROWS_AT_ONCE", at_once)
        again = joined(parquet_pieces(path))
    for other in (joined(pieces), joined(pieces, n_rows=len(log)), again, read_parquet(path)):
        assert other.rows.tobytes() == log.rows.tobytes()
        assert other.lines.tolist() == log.lines.tolist()
        assert other.comments == log.comments


@settings(max_examples=100, deadline=None)
@given(logs(), st.sets(st.integers(1, 11)))
def test_text_written_in_pieces_is_the_text(tmp_path_factory, log, cuts):
    folder = tmp_path_factory.mktemp("text")
    write_log(log, folder / "one.swf")
    edges = [0, *sorted(cut for cut in cuts if cut < len(log)), len(log)]
    pieces = [log.rows[first:end] for first, end in pairwise(edges)]
    assert swf_log.write_rows(pieces, log.comments, folder / "two.swf") == len(log)
    assert (folder / "two.swf").read_text() == (folder / "one.swf").read_text()


@pytest.mark.parametrize("source", ["x.swf", "x.swf.gz", "x.parquet"])
@pytest.mark.parametrize("out", ["y.swf.xz", "y.parquet"])
def test_convert_keeps_every_row_and_comment_of_a_log(tmp_path, small_pieces, source, out):
    log = generate_log(60, 32, 1)
    log.rows[40, swf_log.FIELD["cpu_s"]] = 2.5  # long after the first piece
    log = SwfLog((*log.comments, Comment(0, "; MaxProcs: 32"), Comment(30, "; in the middle")), log.rows, log.lines)
    if source.endswith(".parquet"):
        parquet_log.write_parquet(log, tmp_path / source)
    else:
        write_log(log, tmp_path / source)
    made = convert(tmp_path / source, tmp_path / out)
    assert (made.jobs, made.procs) == (60, 32)
    again = load_log(tmp_path / out)
    assert again.rows.tobytes() == log.rows.tobytes()
    assert [c for c in again.comments if c.rows_before] == [Comment(30, "; in the middle")]
    assert again.header[:-1] == log.header
    assert again.header[-1].startswith("; Note: made_by batfill ")
    assert f"workload convert, source {source}, source_sha256 " in again.header[-1]


def test_convert_counts_its_rows_and_says_the_machine(tmp_path, small_pieces):
    source = tmp_path / "x.swf"
    source.write_text("".join(row(i, i, 5) for i in range(40)))
    done = batfill("workload", "convert", source, "--out", tmp_path / "y.parquet", "--json")
    assert done.err == f"{tmp_path / 'y.parquet'}: 40 rows, unknown number of processors\n"
    assert json.loads(done.out) == {
        "file": str(tmp_path / "y.parquet"), "rows": 40, "procs": None, "notes": [], "platform": None
    }  # fmt: skip
    batfill("workload", "convert", source, "--out", tmp_path / "z.swf", "--procs", 16)
    assert read_log(tmp_path / "z.swf").header_procs == 16
    assert load_log(tmp_path / "z.swf").rows.tobytes() == load_log(source).rows.tobytes()


def test_a_batsim_workload_becomes_a_log(tmp_path):
    source, out = Path("workloads/sample.json"), tmp_path / "y.parquet"
    done = batfill("workload", "convert", source, "--out", out)
    assert done.err == f"{out}: 800 rows, 64 processors\n"
    assert load_log(out).rows.tobytes() == load_log(source).rows.tobytes()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--overrun", "kill"), "overrun applies to Batsim JSON only"),
        (("--unrequested", "none"), "unrequested applies to Batsim JSON only"),
        (("--first", "3"), "a part of the jobs applies to Batsim JSON only"),
        (("--field", "queue"), "a field to keep applies to Batsim JSON only"),
        (("--host-speed", "2"), "a host speed applies to Batsim JSON only"),
        (("--platform", "p.xml"), "--platform goes with a Batsim workload"),
    ],
)
def test_options_of_batsim_workloads_are_refused_for_logs(tmp_path, option, said):
    (tmp_path / "x.swf").write_text(row(1, 0, 5))
    assert said in refusal("workload", "convert", tmp_path / "x.swf", "--out", tmp_path / "y.parquet", *option)
    assert not (tmp_path / "y.parquet").exists()


@pytest.mark.parametrize("out", ["y.swf", "y.parquet"])
def test_a_log_that_ends_too_early_leaves_no_file(tmp_path, small_pieces, out):
    source = tmp_path / "x.swf"
    source.write_text("".join(row(i, i, 5) for i in range(40)) + "41 7\n")
    with pytest.raises(WorkloadError, match=r"x\.swf:41: 2 fields"):
        convert(source, tmp_path / out)
    source.write_text("; nothing here\n")
    with pytest.raises(WorkloadError, match="holds no row"):
        convert(source, tmp_path / out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.swf"]


ODD = st.builds(
    row,
    st.integers(-1, 9),
    st.integers(-1, 30),
    st.integers(-1, 9),
    procs=st.integers(-1, 4),
    req_procs=st.integers(-1, 4),
    req_time=st.integers(-1, 9),
    status=st.integers(0, 5),
    user=st.integers(-1, 2),
    queue=st.integers(0, 1),
    wait=st.integers(-1, 9),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ODD, min_size=1, max_size=30),
    st.sampled_from(["keep", "kill", "extend"]),
    st.sampled_from([None, "runtime", "none", "queue", "user-max", 7.0]),
)
def test_the_columns_that_jobs_are_made_of_give_the_jobs_of_the_whole_log(tmp_path_factory, rows, overrun, unrequested):
    folder = tmp_path_factory.mktemp("jobs")
    source, stored = folder / "x.swf", folder / "x.parquet"
    source.write_text("; MaxProcs: 8\n; MaxRuntime: 20\n; UnixStartTime: 1000\n" + "".join(rows))
    parquet_log.write_parquet(read_log(source), stored)
    how = {"overrun": overrun, "unrequested": unrequested}
    whole = outcome(lambda: workload_of(source, read_log(source), **how))
    assert outcome(lambda: read_workload(source, **how)) == whole
    assert outcome(lambda: read_workload(stored, **how)) == [str(x).replace("x.swf", "x.parquet") for x in whole]


def outcome(read):
    """The workload as texts, or why there is none."""
    try:
        workload = read()
    except WorkloadError as error:
        return [str(error)]
    columns = [getattr(workload.jobs, f.name) for f in fields(workload.jobs)]
    texts = [str(c.tolist() if isinstance(c, np.ndarray) else c) for c in columns]
    about = (workload.name, workload.procs, workload.notes, workload.warnings, workload.clock, workload.unrequested)
    return texts + [str(one) for one in about]


def test_ids_of_a_log_take_16_bytes_and_are_strings(tmp_path):
    (tmp_path / "x.swf").write_text("".join(row(i, i, 5) for i in (3, 20, 100)))
    jobs = read_workload(tmp_path / "x.swf", procs=8).jobs
    assert jobs.ids.itemsize == 16
    assert type(jobs.ids[1]) is str
    assert jobs.ids.tolist() == ["003", "020", "100"]
    assert jobs.to_arrow()["job_id"].to_pylist() == ["003", "020", "100"]
    assert jobs.to_pandas()["job_id"].tolist() == ["003", "020", "100"]
    assert pickle.loads(pickle.dumps(jobs)).ids.tolist() == ["003", "020", "100"]
    objects = replace(jobs, ids=jobs.ids.astype(object))
    assert objects.to_pandas().equals(jobs.to_pandas())


def test_ids_that_occur_twice_are_found_in_any_order(tmp_path):
    (tmp_path / "x.swf").write_text("".join(row(i, 9 - i, 5) for i in range(1, 9)))
    jobs = read_workload(tmp_path / "x.swf", procs=8).jobs
    assert jobs.ids.tolist() == list("87654321")
    columns = {name: getattr(jobs, name) for name in ("submit_s", "runtime_s", "walltime_s", "procs")}
    ids = jobs.ids.copy()
    ids[6] = "7"
    with pytest.raises(WorkloadError, match="job id 7 occurs more than once"):
        job_table("made", ids=ids, **columns)
