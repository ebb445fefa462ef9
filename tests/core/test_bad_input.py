"""What a user gets wrong is answered with one line: where, what, and how to correct it; and nothing is left behind."""

from __future__ import annotations

import gzip
import json
import os
import re

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.batsim_files.platform import homogeneous_platform
from command import batfill, refusal
from swf_text import row

JOB = {"id": "a", "subtime": 0, "res": 1, "walltime": 9, "profile": "five"}
FIVE = {"five": {"type": "delay", "delay": 5}}


@pytest.fixture
def refused(tmp_path):
    """A function from a file's name and content to the line that refuses to replay it."""

    def run(name, content, *options):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        line = refusal("replay", path, "--out", tmp_path / "out", *options)
        assert [left.name for left in tmp_path.iterdir()] == ([] if content is None else [name])
        assert line.startswith(f"{path}:")
        return line.removeprefix(f"{path}:").strip()

    return run


def workload(*jobs, nb_res=4, profiles=FIVE):
    return json.dumps({"nb_res": nb_res, "jobs": list(jobs), "profiles": profiles})


# Files


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "log.swf").touch(mode=0o200)
    assert "permission denied" in refusal("replay", tmp_path / "log.swf")


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (("run", "ZERO"), 2, "ZERO: is a device, not a file; check the path"),
        (("replay", "ZERO"), 2, "ZERO: is a device, not a file; check the path"),
        (("batsim", "-p", "ZERO", "-w", "w.json", "--no-sched"), 1, "ZERO: is a device, not a file; check the path"),
        (("batsim", "-p", "p.xml", "-w", "ZERO", "--no-sched"), 2, "ZERO: is a device, not a file; check the path"),
        (
            ("batsim", "-p", "p.xml", "-w", "w.json", "--sched-cfg-file", "ZERO"),
            255,
            "--sched-cfg-file: ZERO cannot be read (is a device, not a file); check the path",
        ),
    ],
)
def test_a_device_in_the_place_of_a_file_is_refused(tmp_path, monkeypatch, command, status, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.xml").write_text(homogeneous_platform(4))
    (tmp_path / "w.json").write_text(workload(JOB))
    done = batfill(*(word.replace("ZERO", "/dev/zero") for word in command))
    assert (done.status, done.out) == (status, "")
    (line,) = done.err.splitlines()
    assert line.endswith(f": {said.replace('ZERO', '/dev/zero')}")


@pytest.mark.parametrize("deep", [300, 3000])
def test_json_that_is_nested_too_deeply_is_refused(refused, deep):
    nested = "[" * deep + "]" * deep
    text = workload(JOB | {"more": "x"}).replace('"x"', nested)
    assert re.search("nested too deeply|depth limit exceeded", refused("w.json", text))


@pytest.mark.parametrize("command", ["replay {}", "workload convert {} --out {}.json"])
def test_a_limit_that_no_date_can_have_is_refused(command, tmp_path):
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n" + row(1, 0, 5))
    assert "is not at most 1e+12 s" in refusal(*command.format(log, log).split(), "--unrequested", "1e308")


def test_a_polynomial_beyond_all_numbers_is_refused_in_one_line(tmp_path):
    term = {"coefficient": 1e308, "p": 8, "q": 8, "r": 8}
    (tmp_path / "f.json").write_text(
        json.dumps({"format": "batfill policies 1", "functions": {"a": {"terms": [term]}}})
    )
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n" + row(1, 0, 5, req_time=60))
    line = refusal("replay", tmp_path / "log.swf", "--policy", f"a@{tmp_path / 'f.json'}")
    assert "correct its formula so that it is finite for every job" in line


ROWS = gzip.compress("".join(row(i, i, 5) for i in range(5000)).encode())
ROUNDED = "1: field 2 (submit_s) is {!r}, larger than 2^53; write -1 for unknown values"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        *(
            ("log.swf", content, "no job in it, only 0 rows; is it a complete SWF log?")
            for content in ("", "\n\n", "; MaxProcs: 4\n; Note: nothing ran\n")
        ),
        *(
            ("log.swf", row(1, number, 5), ROUNDED.format(number))
            for number in ("9007199254740993", "-9007199254740993", "9007199254740992.5", "1e400")
        ),
        *(("log.swf.gz", ROWS[:n], "cannot be unpacked") for n in (200, -100)),
        ("w.json", "[1]", "not a JSON object; a Batsim workload has nb_res, jobs and profiles"),
        ("w.json", workload(), "jobs: no job in it; give a workload with jobs"),
    ],
)
def test_a_file_that_holds_no_jobs_or_other_numbers(refused, name, content, said):
    assert refused(name, content, "--procs", 4).startswith(said)


def test_a_log_of_a_machine_of_unknown_size(refused):
    assert "give --procs" in refused("log.swf", row(1, 0, 5, req_time=9))


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (row(1, 0, "9e15"), "a run time"),
        (row(1, 0, 5, req_time="9e15"), "a requested time"),
        (row(1, 0, 5) + row(2, "9e15", 5), "a submission time"),
    ],
)
def test_times_whose_sums_would_not_be_exact(refused, rows, what):
    line = refused("log.swf", rows, "--procs", 4)
    assert f"1 of {rows.count(chr(10))} jobs have {what} that is not a number " in line
    assert "<= 1e+12" in line or "to 1e+12" in line


def test_a_field_of_the_users_that_cannot_be_read_is_named_once_with_what_is_assumed(tmp_path):
    jobs = [{**JOB, "id": name, "class": "medium", "killable": "no", "user": 1} for name in "abc"]
    others = {**JOB, "id": "d", "user": "alice", "licences": 1}, {**JOB, "id": "e", "resources": [2]}
    (tmp_path / "w.json").write_text(workload(*jobs, *others))
    done = batfill("replay", tmp_path / "w.json", "--pool", "licences=1", "--json")
    again = "; the same in 2 further jobs"
    assert json.loads(done.out)["warnings"] == [
        f"job a: class 'medium' is not small or large: it counts as none{again}",
        f"job a: killable 'no' is not true or false: it counts as true{again}",
        "job d: user 'alice' is not a whole number: it is ignored",
        "job e: resources [2] is not an object of amounts by name: it is ignored",
    ]


@pytest.mark.parametrize(
    ("name", "content", "options", "said"),
    [
        ("log.swf", row(1, 0, 5), ("--procs", "9" * 20), f"{'9' * 20}"),
        (
            "log.swf",
            f"; MaxProcs: {'9' * 20}\n{row(1, 0, 5)}",
            (),
            f"its header: a machine of {'9' * 20} processors; give its size",
        ),
        ("log.swf", f"; MaxProcs: {'9' * 5000}\n{row(1, 0, 5)}", (), "its header: a machine of 9999999999"),
        ("w.json", workload(JOB, nb_res=2**31), (), f"nb_res: {2**31} is not a whole number from 1 to {2**31 - 1}"),
    ],
)
def test_a_machine_of_an_impossible_size(tmp_path, name, content, options, said):
    (tmp_path / name).write_text(content)
    assert said in refusal("replay", tmp_path / name, *options)


MOST = f"is not a whole number from 1 to {2**31 - 1}"


@pytest.mark.parametrize("procs", [2**31, 2**32 + 1])
def test_more_processors_than_the_engine_counts_are_refused_by_every_reader(tmp_path, procs):
    rows = row(1, 0, 5, req_time=9) + row(2, 1, 5, req_procs=procs, req_time=9)
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 4\n{rows}")
    (tmp_path / "w.json").write_text(workload(JOB, {**JOB, "id": "b", "res": procs}))
    for words in [
        ("replay", tmp_path / "log.swf"),
        ("workload", "convert", tmp_path / "log.swf", "--out", tmp_path / "out.json"),
    ]:
        assert f"log.swf:3: number of processors {procs} {MOST}" in refusal(*words)
    assert f"jobs[1].res: {procs} {MOST}" in refusal("replay", tmp_path / "w.json")
    assert f"'{procs}' {MOST}" in refusal("replay", tmp_path / "w.json", "--procs", procs)
    assert not (tmp_path / "out.json").exists()
    job = {"submit_s": np.zeros(1), "runtime_s": np.ones(1), "walltime_s": np.ones(1)}
    with pytest.raises(BatfillError, match="1 of 1 jobs have a number of processors that is not a whole number"):
        bf.job_table("one", ids=np.array(["a"]), procs=np.array([procs]), **job)


@pytest.mark.parametrize(
    "words",
    [
        ("workload", "generate", "--jobs", 20, "--longest-request", 1e308),
        ("workload", "generate", "--jobs", 20, "--interarrival", 1e300),
        ("workload", "scale", "LOG", "--interarrival", 1e300),
    ],
)
@pytest.mark.parametrize("name", ["made.swf", "made.json"])
def test_a_log_that_could_not_be_read_again_is_not_written(tmp_path, words, name):
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n" + row(1, 0, 5) + row(2, 5, 5))
    line = refusal(*(log if word == "LOG" else word for word in words), "--out", tmp_path / name)
    assert "beyond 2^53; choose a smaller factor or limit" in line
    assert list(tmp_path.iterdir()) == [log]


# Options


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "w.json"
    path.write_text(workload(JOB))
    return path


@pytest.mark.parametrize("name", ["x.txt", "x", "x.csv", "x.parquet", "x.json.zip"])
def test_a_conversion_to_a_format_that_it_does_not_write(good, tmp_path, name):
    before = sorted(tmp_path.iterdir())
    line = refusal("workload", "convert", good, "--out", tmp_path / name)
    assert ".json" in line
    assert sorted(tmp_path.iterdir()) == before
