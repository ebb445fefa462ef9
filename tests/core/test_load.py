from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.workloads import read_workload
from batfill.workloads.formats import format_of, load_log, save_log, stem_of
from batfill.workloads.generate import generate_log
from batfill.workloads.parquet_log import read_parquet, write_parquet
from batfill.workloads.swf_log import LARGEST_EXACT, Comment, SwfLog
from sweeps import examples

NUMBERS = st.integers(-(2**53), 2**53).map(float) | st.floats(-1e15, 1e15).filter(lambda x: abs(x) <= LARGEST_EXACT)


@pytest.mark.needs("pyarrow")
@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.lists(NUMBERS, min_size=18, max_size=18), max_size=6),
    st.lists(st.tuples(st.integers(0, 6), st.binary(max_size=9)), max_size=3),
)
def test_parquet_keeps_every_number_comment_and_line(tmp_path_factory, rows, comments):
    comments = tuple(Comment(at, ";" + text.decode("utf-8", "surrogateescape")) for at, text in comments)
    log = SwfLog(comments, np.array(rows, float).reshape(-1, 18), np.arange(len(rows)) + 5)
    path = tmp_path_factory.mktemp("trip") / "x.parquet"
    write_parquet(log, path)
    again = read_parquet(path)
    assert again.rows.tolist() == log.rows.tolist()
    assert again.comments == log.comments
    assert again.lines.tolist() == log.lines.tolist()


@pytest.mark.parametrize("name", ["x.swf", "x.swf.xz", pytest.param("x.parquet", marks=pytest.mark.needs("pyarrow"))])
def test_a_log_is_the_same_whatever_it_was_saved_as(tmp_path, name):
    log = generate_log(60, 32, 1)
    assert save_log(log, tmp_path / name) == 60
    again = load_log(tmp_path / name)
    assert again.rows.tolist() == log.rows.tolist()
    assert again.header == log.header


def test_a_batsim_workload_keeps_its_jobs_through_a_log(tmp_path):
    log = generate_log(60, 32, 1)
    save_log(log, tmp_path / "a.json")
    first = load_log(tmp_path / "a.json")
    save_log(first, tmp_path / "b.json")
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    assert (one["jobs"], one["profiles"], one["nb_res"]) == (two["jobs"], two["profiles"], two["nb_res"])
    assert first["job"].tolist() == log["job"].tolist()


@pytest.mark.needs("pyarrow")
def test_the_engine_reads_swf_and_json_alike(tmp_path):
    log = generate_log(40, 16, 2)
    names = ("x.swf", "x.json", "x.json.gz", "x.parquet")
    for name in names:
        save_log(log, tmp_path / name)
    one, *others = (read_workload(tmp_path / name) for name in names)
    for column in ("ids", "submit_s", "runtime_s", "procs", "user"):
        assert all(getattr(one.jobs, column).tolist() == getattr(two.jobs, column).tolist() for two in others)
    assert all(two.procs == one.procs == 16 for two in others)
    assert read_workload(tmp_path / "x.json", procs=99).procs == 99


@pytest.mark.parametrize(
    ("name", "wanted", "stem"),
    [
        ("a.b-1.swf.gz", ".swf", "a.b-1"),
        ("a.json", ".json", "a"),
        ("a.json.xz", ".json", "a"),
        ("a.parquet", ".parquet", "a"),
    ],
)
def test_a_name_says_the_format(tmp_path, name, wanted, stem):
    assert format_of(tmp_path / name) == wanted
    assert stem_of(tmp_path / name) == stem
