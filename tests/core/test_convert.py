from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.model.jobs import job_table
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import read_batsim_json, write_batsim_json
from batfill.workloads.convert import convert
from batfill.workloads.formats import load_log, part_of, source_of
from batfill.workloads.swf_log import write_log
from command import batfill, refusal
from sweeps import examples, sweep
from swf_text import row


@pytest.fixture
def converted(tmp_path):
    def run(text, **options):
        source, out = tmp_path / "log.swf", tmp_path / "out.json"
        source.write_text(text)
        result = convert(source, out, **{"procs": 8, **options})
        return result, json.loads(out.read_text())

    return run


def test_a_job_has_the_fields_batsim_reads(converted):
    _, workload = converted(row(7, 100, 5, req_procs=2, req_time=60, user=3) + row(10, 130, 6, req_time=60, user=-1))
    assert workload["nb_res"] == 8
    assert workload["jobs"] == [
        {"id": "07", "subtime": 0, "walltime": 60, "res": 2, "profile": "delay5", "user_id": 3},
        {"id": "10", "subtime": 30, "walltime": 60, "res": 1, "profile": "delay6"},
    ]
    assert workload["profiles"]["delay5"] == {"type": "delay", "delay": 5}


def test_profiles_are_shared_by_duration_and_the_source_and_its_digest_are_said(converted):
    _, workload = converted("".join(row(i, i, 5 + i % 2) for i in range(1, 9)))
    assert list(workload["profiles"]) == ["delay5", "delay6"]
    assert workload["description"]["source"] == "log.swf"
    assert len(workload["description"]["source_sha256"]) == 64


OVERRUNS = row(1, 0, 50, req_time=40) + row(2, 0, 50, req_time=50) + row(3, 0, 50, req_time=60) + row(4, 0, 50)


def test_a_job_states_its_request_if_it_is_not_the_walltime(converted):
    for overrun, walltimes, expected in (
        ("keep", [51, 51, 60, 51], [None] * 4),
        ("kill", [40, 50, 60, 50], [None] * 4),
        ("extend", [51, 51, 60, 51], [40, 50, None, 50]),
    ):
        _, workload = converted(OVERRUNS, overrun=overrun)
        jobs = workload["jobs"]
        assert [job["walltime"] for job in jobs] == walltimes
        stated = [None, None, None, -1] if overrun == "kill" else [40, 50, None, -1]
        assert [job.get("requested_time") for job in jobs] == stated
        assert [job.get("expected_time") for job in jobs] == expected


@pytest.mark.parametrize("overrun", ["keep", "kill", "extend"])
def test_what_a_log_says_of_requests_survives_the_conversion_and_the_way_back(overrun, tmp_path):
    log, made, back = tmp_path / "log.swf", tmp_path / "made.json", tmp_path / "back.swf"
    log.write_text("; MaxProcs: 8\n" + OVERRUNS)
    convert(log, made, overrun=overrun)
    read = read_workload(made)
    direct = read_workload(log, overrun=overrun)
    for column in ("asked_s", "expected_s") if overrun == "extend" else ("asked_s",):
        np.testing.assert_array_equal(getattr(read.jobs, column), getattr(direct.jobs, column))
    for table in ("invented", "raised"):
        assert getattr(read.jobs, table).tolist() == getattr(direct.jobs, table).tolist()
    assert read.jobs.outlives == (overrun == "extend")
    assert read.overrun == overrun
    write_log(load_log(made), back)
    assert load_log(back)["requested_s"].tolist() == [40, 50, 60, -1]


@pytest.mark.parametrize("before", ["keep", "kill", "extend"])
@pytest.mark.parametrize("overrun", ["keep", "kill", "extend"])
def test_what_stands_in_for_a_request_survives_conversions(before, overrun, tmp_path):
    log, once, twice = tmp_path / "log.swf", tmp_path / "once.json", tmp_path / "twice.json"
    log.write_text("; MaxProcs: 8\n" + "".join(row(k, k, p) for k, p in enumerate((10, 29, 30, 31, 50), 1)))
    convert(log, once, overrun=before, unrequested=30)
    convert(once, twice, overrun=overrun)
    convert(log, once, overrun=overrun, unrequested=30)
    assert json.loads(twice.read_text())["jobs"] == json.loads(once.read_text())["jobs"]
    direct = read_workload(log, overrun=overrun, unrequested=30).jobs
    made = read_workload(twice).jobs
    for column in ("asked_s", "raised") + (("expected_s",) if overrun == "extend" else ()):
        np.testing.assert_array_equal(getattr(made, column), getattr(direct, column))
    assert direct.raised.tolist() == [False, False, False, overrun == "keep", overrun == "keep"]
    back = source_of(twice)
    np.testing.assert_array_equal(part_of(back, back.log).expected_s, direct.expected_s)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"requested_time": 0}, r"requested_time: 0 is not a number > 0"),
        ({"requested_time": "1h"}, r"requested_time: '1h' is not a number > 0"),
        ({"expected_time": 7}, r"expected_time: 7 is not a number > 0 up to the walltime"),
        ({"requested_time": 4}, r"expected_time: nothing is not the request of 4 s, and other jobs are expected to"),
        ({"requested_time": 4, "expected_time": 3}, r"expected_time: 3 is not the request of 4 s"),
        ({"requested_time": 5, "expected_time": 3}, r"expected_time: 3 is not the request of 5 s"),
    ],
)
def test_a_field_of_the_request_that_makes_no_sense_is_refused(fields, said, tmp_path):
    path = tmp_path / "w.json"
    job = {"subtime": 0, "res": 1, "profile": "d", "walltime": 6}
    jobs = [{"id": "1", **job, "requested_time": 3, "expected_time": 3}, {"id": "2", **job, **fields}]
    path.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}))
    with pytest.raises(WorkloadError, match=rf"jobs\[1\]\.{said}"):
        read_workload(path)


def test_a_slice_counts_by_submission_and_starts_at_zero(converted):
    text = row(1, 50, 5) + row(2, 40, 5) + row(3, 30, -1) + row(4, 20, 5) + row(5, 60, 5)
    result, workload = converted(text, jobs=slice(1, 3))
    assert [(job["id"], job["subtime"]) for job in workload["jobs"]] == [("1", 10), ("2", 0)]
    assert result.jobs == 2


OPERATIONS = {
    "scale": ("--interarrival", 1, "--out", "out.json"),
    "clean": ("--rule", "wide", "--out", "out.json"),
    "split": ("--days", 900, "--suffix", ".json", "--out", "out"),
    "resample": ("--seed", 1, "--method", "weeks", "--out", "out.json"),
}


@pytest.mark.parametrize(
    *sweep(2, operation=list(OPERATIONS), unrequested=["runtime", "none", 600.0], overrun=["keep", "kill", "extend"])
)
def test_an_operation_on_a_converted_workload_keeps_how_its_walltimes_were_made(
    tmp_path, monkeypatch, operation, unrequested, overrun
):
    monkeypatch.chdir(tmp_path)
    requests = (-1, -1, 50, 5, -1, 700)
    rows = [row(i, 600_000 * i, 60, req_time=request) for i, request in enumerate(requests, 1)]
    Path("log.swf").write_text("; MaxProcs: 4\n" + "".join(rows))
    convert(Path("log.swf"), Path("log.json"), overrun=overrun, unrequested=unrequested)
    assert batfill("workload", operation, "log.json", *OPERATIONS[operation]).status == 0
    before = read_workload(Path("log.json"))
    after = read_workload(Path("out/log-0000.json" if operation == "split" else "out.json"))
    assert (after.overrun, after.unrequested) == (before.overrun, before.unrequested) == (overrun, unrequested)
    if operation != "resample":
        for column in ("walltime_s", "expected_s", "request_s", "asked", "runtime_s"):
            assert np.array_equal(getattr(after.jobs, column), getattr(before.jobs, column), equal_nan=True), column
    assert batfill("replay", after.file).status == 0


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (row(1, 0, 5), {"procs": None}, "pass procs"),
        (row(1, 0, 5), {"jobs": slice(5, 9)}, "select none of"),
        (row(1, 0, 5) * 2 + "1 2\n", {}, ":3: 2 fields"),  # a source cut off
    ],
)
def test_a_mistake_is_said_and_nothing_is_written(tmp_path, converted, text, options, said):
    with pytest.raises(WorkloadError, match=said):
        converted(text, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["log.swf"]


@pytest.mark.parametrize("part", ["1:" + "9" * 5000, "-1:5", "5", "a:b"])
def test_a_part_of_the_jobs_that_is_none_is_refused(tmp_path, converted, part):
    converted(row(1, 0, 5))
    out = tmp_path / "part.json"
    assert "is not START:STOP" in refusal("workload", "convert", tmp_path / "log.swf", "--out", out, "--jobs", part)
    assert not out.exists()


LETTERS = st.characters(codec="utf-8", categories=["L", "N"]) | st.sampled_from("-_.:# \\/")
JOBS = st.lists(
    st.tuples(
        st.text(LETTERS, min_size=1, max_size=6),
        st.integers(0, 10**9) | st.floats(0, 1e9),
        st.integers(0, 10**6) | st.floats(0, 1e6),
        st.integers(1, 10**6) | st.just(np.inf),
        st.integers(1, 500),
        st.integers(-1, 99),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda job: job[0],
)
COLUMNS = {"ids": object, "submit_s": float, "runtime_s": float, "walltime_s": float, "procs": int, "user": int}


@settings(max_examples=examples(30), deadline=None)
@given(JOBS)
def test_what_is_written_is_what_is_read(tmp_path_factory, jobs):
    columns = dict(zip(COLUMNS, zip(*jobs, strict=True), strict=True))
    table = job_table("x", **{name: np.array(column, COLUMNS[name]) for name, column in columns.items()})
    path = tmp_path_factory.mktemp("trip") / "x.json"
    assert write_batsim_json(path, table.stating(size=7), description={"made_by": "a test"}) == len(jobs)
    again = read_batsim_json(path)
    assert again.size == 7
    for column in COLUMNS:
        assert getattr(again.jobs, column).tolist() == getattr(table, column).tolist()


# From Batsim JSON


@pytest.fixture
def rewritten(tmp_path):
    def run(listed, profiles, **options):
        source, out = tmp_path / "in.json", tmp_path / "out.json"
        source.write_text(json.dumps({"nb_res": 8, "jobs": listed, "profiles": profiles}))
        result = convert(source, out, **options)
        return result, json.loads(out.read_text())

    return run


def job(name, profile="d", **fields):
    return {"id": name, "subtime": 0, "res": 2, "profile": profile, **fields}


def test_a_workload_keeps_fields_that_batsim_does_not_know(rewritten):
    jobs = [job("a", walltime=9, comment={"x": [1]}), job("b", subtime=3.5)]
    result, made = rewritten(jobs, {"d": {"type": "delay", "delay": 5, "ret": 1}})
    assert made["jobs"] == jobs
    assert made["profiles"] == {"d": {"type": "delay", "delay": 5, "ret": 1}}
    assert (result.jobs, result.procs) == (2, 8)


def test_composed_profiles_become_the_sum_of_their_parts(rewritten):
    profiles = {
        "d": {"type": "delay", "delay": 5},
        "s": {"type": "composed", "repeat": 2, "seq": ["d", "d"]},
        "t": {"type": "composed", "seq": ["s", "d"], "ret": 3},
    }
    _, made = rewritten([job("a", "t"), job("b", "s")], profiles)
    assert made["profiles"] == {"t": {"type": "delay", "delay": 25, "ret": 3}, "s": {"type": "delay", "delay": 20}}


def test_a_walltime_within_the_delay_is_raised_or_left(rewritten):
    profiles = {"d": {"type": "delay", "delay": 5}}
    jobs = [job("a", walltime=5), job("b", walltime=6), job("c"), job("e", walltime=-1)]
    _, kept = rewritten(jobs, profiles)
    assert [one.get("walltime") for one in kept["jobs"]] == [6, 6, None, -1]
    _, killed = rewritten(jobs, profiles, overrun="kill")
    assert [one.get("walltime") for one in killed["jobs"]] == [5, 6, None, -1]


def test_a_slice_of_a_workload_starts_at_zero_and_brings_its_profiles(rewritten):
    jobs = [job("a", subtime=10), job("b", "e", subtime=20), job("c", "e", subtime=30)]
    profiles = {"d": {"type": "delay", "delay": 5}, "e": {"type": "delay", "delay": 6}}
    _, made = rewritten(jobs, profiles, jobs=slice(1, None))
    assert [(one["id"], one["subtime"]) for one in made["jobs"]] == [("b", 0), ("c", 10)]
    assert list(made["profiles"]) == ["e"]
