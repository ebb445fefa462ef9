"""Batsim's JSON workloads: what is read, and what is refused with the place inside the document."""

from __future__ import annotations

import gzip
import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.model.jobs import LARGE, SMALL, UNKNOWN
from batfill.workloads.batsim_json import load_document, read_batsim_json
from golden import RUNS, recording

GOOD = {
    "nb_res": 8,
    "jobs": [
        {"id": "b", "subtime": 5, "res": 2, "profile": "p", "walltime": 30, "user_id": 7, "class": "small"},
        {"id": 12, "subtime": 0.5, "res": 99, "profile": "q", "user": 3, "class": "large", "note": ["kept"]},
        {"id": "a", "subtime": 5, "res": 1, "profile": "p", "walltime": -1, "user_id": "ann", "class": "odd"},
    ],
    "profiles": {"p": {"type": "delay", "delay": 20}, "q": {"type": "delay", "delay": 1.25, "ret": 1}},
}


def write(folder, content, name="w.json"):
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def refusal_of(call, path):
    """The line with which this is refused, behind the path; it says what to do about it."""
    with pytest.raises(WorkloadError) as refused:
        call(path)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{path}: ")
    assert "; " in line
    return line.removeprefix(f"{path}: ")


def changed(path, value, content=GOOD):
    """The content with another value at this path, such as jobs.0.res; a value of ... removes it."""
    content = json.loads(json.dumps(content))
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    place = content
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return content


def test_a_document_is_kept_as_it_stands(tmp_path):
    path = write(tmp_path, GOOD)
    document = load_document(path)
    assert (document.nb_res, document.jobs, document.profiles) == (8, GOOD["jobs"], GOOD["profiles"])
    assert document.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_jobs_are_read_as_the_engines(tmp_path):
    workload = read_batsim_json(write(tmp_path, GOOD))
    jobs = workload.jobs
    assert (workload.name, workload.procs) == ("w.json", 8)
    assert jobs.ids.tolist() == ["12", "a", "b"]  # by date, then by id as a string
    assert jobs.submit_s.tolist() == [0.5, 5, 5]
    assert jobs.runtime_s.tolist() == [1.25, 20, 20]
    assert jobs.walltime_s.tolist() == [np.inf, np.inf, 30]
    assert jobs.procs.tolist() == [99, 1, 2]
    assert jobs.user.tolist() == [3, -1, 7]
    assert jobs.job_class.tolist() == [LARGE, UNKNOWN, SMALL]


def test_compressed_is_the_same_but_for_the_digest(tmp_path):
    plain = write(tmp_path, GOOD)
    packed = tmp_path / "w.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load_document(packed).jobs == load_document(plain).jobs
    assert load_document(packed).digest == hashlib.sha256(packed.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", RUNS)
def test_the_recorded_workloads_are_read_in_batsims_order(name):
    recorded = recording(name)
    told = [
        event["data"]["job_id"].removeprefix("w0!")
        for message, _ in recorded.exchanges
        for event in json.loads(message)["events"]
        if event["type"] == "JOB_SUBMITTED" and "#" not in event["data"]["job_id"]
    ]
    assert read_batsim_json(recorded.folder / "workload.json.gz").jobs.ids.tolist() == told


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (changed("nb_res", ...), "nb_res: missing; it is an integer"),
        (changed("nb_res", 0), "nb_res: 0 is not a whole number from 1 to 2147483647"),
        (changed("jobs", {}), "jobs: {} is not an array"),
        (changed("jobs.1.id", ...), "jobs[1].id: nothing is not a string or an integer"),
        (changed("jobs.1.id", "a,b"), "jobs[1]: id 'a,b' or profile 'q' holds a comma, a quote or a line break"),
        (changed("jobs.0.res", 0), "jobs[0].res: 0 is not a whole number from 1 to 2147483647"),
        (changed("jobs.0.subtime", ...), "jobs[0].subtime: nothing is not a number >= 0"),
        (changed("jobs.0.profile", "x"), "jobs[0].profile: 'x' is not the name of a profile"),
        (changed("profiles.p.delay", -2), "profiles['p'].delay: -2 is not a number >= 0"),
        ([], "not a JSON object"),
    ],
)
def test_what_is_no_delay_workload_is_refused_with_its_place(content, complaint, tmp_path):
    path = write(tmp_path, content)
    assert refusal_of(read_batsim_json, path).startswith(complaint)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.sampled_from(["nb_res", "jobs", "jobs.0", "jobs.0.id", "jobs.0.res", "jobs.0.subtime", "jobs.0.walltime",
                        "jobs.0.profile", "jobs.0.user_id", "jobs.0.class", "profiles", "profiles.p",
                        "profiles.p.type", "profiles.p.delay", "profiles.p.ret"]), JSON)  # fmt: skip
def test_any_value_anywhere_is_read_or_refused_in_one_line(tmp_path_factory, place, value):
    path = write(tmp_path_factory.mktemp("any"), changed(place, value))
    try:
        workload = read_batsim_json(path)
    except WorkloadError as refused:
        said = str(refused)
    else:
        said = ""
        assert len(workload.jobs) == len(json.loads(path.read_text())["jobs"])
    assert "\n" not in said
