"""Workloads in the forms of Batsim 4 and 5: read, refused with the place inside, and written as each other."""

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
from batfill.workloads.batsim5_json import OWN_FIELDS, job_for_version_5, job_from_version_5, version_of
from batfill.workloads.batsim_json import load_document, read_batsim_json
from batfill.workloads.convert import convert
from command import batfill, result
from golden import RUNS, recording
from golden5 import Recording5
from swf_text import row

GOOD = {
    "nb_res": 8,
    "jobs": [
        {"id": "b", "subtime": 5, "res": 2, "profile": "p", "walltime": 30, "user_id": 7, "class": "small"},
        {"id": 12, "subtime": 0.5, "res": 99, "profile": "q", "user": 3, "class": "large", "note": ["kept"]},
        {"id": "a", "subtime": 5, "res": 1, "profile": "p", "walltime": -1, "user_id": "ann", "class": "odd"},
    ],
    "profiles": {"p": {"type": "delay", "delay": 20}, "q": {"type": "delay", "delay": 1.25, "ret": 1}},
}
GOOD_5 = {
    "nb_res": 8,
    "jobs": [
        {"id": "b", "subtime": 5, "res": 2, "profile": "p", "walltime": 30, "extra_data": {"user_id": 7, "x": [1]}},
        {"id": 12, "subtime": 0.5, "res": 99, "profile": "q", "extra_data": '{"class": "large"}'},
        {"id": "a", "subtime": 5, "res": 1, "profile": "s", "extra_data": "words"},
    ],
    "profiles": {
        "p": {"type": "DelayProfile", "delay": 20},
        "q": {"type": "DelayProfile", "delay": 1.25, "ret": 1, "extra_data": {"k": 1}},
        "s": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["p", "p"]},
    },
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


def test_a_document_is_kept_as_it_stands_plain_or_compressed(tmp_path):
    plain, packed = write(tmp_path, GOOD), tmp_path / "w.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        document = load_document(path)
        assert (document.nb_res, document.jobs, document.profiles) == (8, GOOD["jobs"], GOOD["profiles"])
        assert document.digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_jobs_are_read_as_the_engines(tmp_path):
    workload = read_batsim_json(write(tmp_path, GOOD))
    jobs = workload.jobs
    assert (workload.name, workload.size) == ("w.json", 8)
    assert jobs.ids.tolist() == ["12", "a", "b"]  # by date, then by id as a string
    assert jobs.submit_s.tolist() == [0.5, 5, 5]
    assert jobs.runtime_s.tolist() == [1.25, 20, 20]
    assert jobs.walltime_s.tolist() == [np.inf, np.inf, 30]
    assert jobs.procs.tolist() == [99, 1, 2]
    assert jobs.user.tolist() == [3, -1, 7]
    assert jobs.job_class.tolist() == [LARGE, UNKNOWN, SMALL]
    assert workload.overrun == "keep"
    # Batsim ends a job with p = p~ at its walltime.
    for walltime, overrun in ((20, "kill"), (21, "keep")):
        assert read_batsim_json(write(tmp_path, changed("jobs.0.walltime", walltime))).overrun == overrun


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


# Reading version 5's form


def test_a_document_is_read_in_version_4s_form(tmp_path):
    document = load_document(write(tmp_path, GOOD_5))
    assert document.version == 5
    assert document.jobs == [
        {"id": "b", "subtime": 5, "res": 2, "profile": "p", "walltime": 30, "user_id": 7, "x": [1]},
        {"id": 12, "subtime": 0.5, "res": 99, "profile": "q", "class": "large"},
        {"id": "a", "subtime": 5, "res": 1, "profile": "s", "extra_data": "words"},
    ]
    assert document.profiles == {
        "p": {"type": "delay", "delay": 20},
        "q": {"type": "delay", "delay": 1.25, "ret": 1, "extra_data": {"k": 1}},
        "s": {"type": "composed", "repeat": 2, "seq": ["p", "p"]},
    }
    jobs = read_batsim_json(tmp_path / "w.json").jobs
    assert jobs.runtime_s.tolist() == [1.25, 80, 20]
    assert jobs.walltime_s.tolist() == [np.inf, np.inf, 30]
    assert jobs.user.tolist() == [-1, -1, 7]


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_workload_says_the_same_in_both_versions(name):
    old = load_document(recording(name).folder / "workload.json.gz")
    new = load_document(Recording5(name).folder / "workload.json")
    assert (old.nb_res, old.jobs, old.profiles) == (new.nb_res, new.jobs, new.profiles)
    assert (old.version, new.version, new.notes) == (4, 5, ())


REFUSED = {
    "error-delay-zero": "profiles['d0'].delay: 0 is not a number > 0",
    "error-id-with-exclamation": "jobs[0].id: 'a!b' has '!' in it",
    "error-no-nb-res": "nb_res: missing",
    "error-same-id-twice": "jobs[1].id: '1' occurs before",
    "error-unknown-profile": "jobs[0].profile: 'd11' is not the name of a profile",
    "error-walltime-minus-one": "jobs[0].walltime: -1 is not a number > 0; leave it out",
    "small-forward-profiles": "jobs[5].res: 0 is not a whole number from 1",  # which Batsim takes
}


@pytest.mark.parametrize(("name", "said"), REFUSED.items())
def test_what_batsim_5_refused_is_refused(name, said):
    path = Recording5(name).folder / "workload.json"
    with pytest.raises(WorkloadError) as refused:
        load_document(path)
    assert str(refused.value).startswith(f"{path}: {said}")


def test_fields_that_batsim_5_drops_are_left_out_and_noted():
    path = Recording5("small-user-fields").folder / "workload.json"
    document = load_document(path)
    assert document.jobs == [{"id": "1", "subtime": 0, "res": 1, "profile": "d", "walltime": 100}]
    assert document.notes == tuple(
        f"field {name} of 1 of 1 jobs left out: Batsim 5 reads the user's fields in extra_data only"
        for name in ("user_id", "class")
    )
    assert read_batsim_json(path).notes == document.notes
    assert f"note {document.notes[0]}" in " ".join(result("replay", path).split())


def test_the_form_of_version_5_is_refused_under_batsim_4_with_the_command_that_makes_it(tmp_path):
    with pytest.raises(WorkloadError, match="refuses; make one for it with `batfill workload convert`"):
        load_document(write(tmp_path, GOOD_5), workload="w0")


def test_a_workload_without_jobs_is_of_both_versions(tmp_path):
    path = write(tmp_path, {"nb_res": 4, "jobs": [], "profiles": {}})
    assert load_document(path).jobs == load_document(path, workload="w0").jobs == []
    assert version_of("", {}) == 4


# What is refused


def changed_5(path, value):
    return changed(path, value, GOOD_5)


def nested(levels, inside=1):
    """A workload of a sequence that has another so many times inside, and so on."""
    sequences = {f"s{k}": {"type": "composed", "seq": [f"s{k + 1}"] * inside} for k in range(levels)}
    profiles = {f"s{levels}": {"type": "delay", "delay": 1}, **dict(reversed(sequences.items()))}
    return {"nb_res": 1, "jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "s0"}], "profiles": profiles}


def homogeneous(strategy):
    """A workload of 4e9 operations on four hosts, which count by this strategy of Batsim 5."""
    profile = {"type": "ParallelTaskHomogeneousProfile", "cpu": 4e9, "com": 0, "generation_strategy": strategy}
    return {"nb_res": 4, "jobs": [{"id": 1, "subtime": 0, "res": 4, "profile": "p"}], "profiles": {"p": profile}}


DEEP, WIDE = nested(1000), nested(40, inside=2)
MIXED = changed_5("profiles.p.type", "delay")


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
        (changed_5("jobs.0.id", "a!b"), "jobs[0].id: 'a!b' has '!' in it"),
        (changed_5("jobs.0.walltime", -1), "jobs[0].walltime: -1 is not a number > 0; leave it out"),
        (changed_5("jobs.0.walltime", 0), "jobs[0].walltime: 0 is not a number > 0; leave it out"),
        (changed_5("jobs.0.walltime", None), "jobs[0].walltime: None is not a number > 0; leave it out"),
        (changed_5("jobs.1", 7), "jobs[1]: 7 is not an object"),
        (changed_5("profiles.p", 7), "profiles['p']: 7 is not an object"),
        (changed_5("profiles.p.delay", 0.0), "profiles['p'].delay: 0 is not a number > 0"),
        (changed_5("profiles.p.delay", "1"), "profiles['p'].delay: '1' is not a number >= 0"),
        (changed_5("profiles.p.type", "ReplaySmpiProfile"), "profiles['p'].type: 'ReplaySmpiProfile' is not supported"),
        (
            DEEP,
            "profiles['s899'].seq: sequences are nested more than 100 deep",
        ),
        (
            WIDE,
            "profiles['s20'].seq: sequences are nested more than 100 deep",
        ),
        (
            homogeneous("Evenly"),
            "profiles['p'].generation_strategy: 'Evenly' is none of DefinedAmountsUsedForEachValue, DefinedAmountsSpre",
        ),
        (MIXED, "profiles['q'].type 'DelayProfile' is Batsim 5's, and ['p'].type 'delay'"),
    ],
)
def test_what_is_no_delay_workload_of_either_version_is_refused_with_its_place(content, complaint, tmp_path):
    assert refusal_of(read_batsim_json, write(tmp_path, content)).startswith(complaint)


@pytest.mark.parametrize(("levels", "inside", "runs_s"), [(100, 1, 1), (19, 2, 2**19)])
def test_sequences_inside_others_run_as_long_as_all_their_parts(levels, inside, runs_s, tmp_path):
    assert read_batsim_json(write(tmp_path, nested(levels, inside))).jobs.runtime_s.tolist() == [runs_s]


@pytest.mark.parametrize(
    ("strategy", "runs_s"), [("DefinedAmountsUsedForEachValue", 4), ("DefinedAmountsSpreadUniformly", 1)]
)
def test_amounts_of_a_homogeneous_task_count_for_each_host_or_for_all(strategy, runs_s, tmp_path):
    path, again = write(tmp_path, homogeneous(strategy)), tmp_path / "again.json"
    convert(path, again, version=5, speed="1Gf")
    for made in (path, again):
        assert read_batsim_json(made, "1Gf").jobs.runtime_s.tolist() == [runs_s]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS_OF_JOBS = ("id", "res", "subtime", "walltime", "profile", "user_id", "class")
IN_JOBS = ["jobs", "jobs.0", *(f"jobs.0.{name}" for name in FIELDS_OF_JOBS)]
IN_PROFILES = ["profiles", "profiles.p", *(f"profiles.p.{name}" for name in ("type", "delay", "ret"))]
OF_5 = ["jobs.0.extra_data", "jobs.0.more", "jobs.1.extra_data", "profiles.p.generation_strategy", "profiles.s.repeat"]
PLACES = [(GOOD, place) for place in ("nb_res", *IN_JOBS, *IN_PROFILES)]
PLACES += [(GOOD_5, place) for place in (*IN_JOBS[1:], *IN_PROFILES[1:], *OF_5)]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(PLACES), JSON)
def test_any_value_anywhere_is_read_rewritten_or_refused_in_one_line(tmp_path_factory, place, value):
    good, where = place
    folder = tmp_path_factory.mktemp("any")
    path = write(folder, changed(where, value, good))
    for step in (read_batsim_json, lambda path: convert(path, folder / "5.json", version=5)):
        said = ""
        try:
            made = step(path)
        except WorkloadError as refused:
            said = str(refused)
        else:
            assert step is not read_batsim_json or len(made.jobs) == len(json.loads(path.read_text())["jobs"])
        assert "\n" not in said


# Writing


def test_walltimes_of_minus_one_are_left_out_and_fields_move(tmp_path):
    content = {
        "nb_res": 4,
        "jobs": [
            {"id": "7", "subtime": 1, "res": 1, "profile": "d", "walltime": -1, "requested_time": -1},
            {"id": "x", "subtime": 0, "res": 1, "profile": "d", "walltime": 5, "extra_data": {"a": 1}, "b": 2},
            {"id": "y", "subtime": 0, "res": 1, "profile": "d", "extra_data": "words"},
        ],
        "profiles": {"d": {"type": "delay", "delay": 4, "ret": 3}},
    }
    convert(write(tmp_path, content), tmp_path / "5.json", version=5, overrun="kill")
    made = json.loads((tmp_path / "5.json").read_text())
    jobs = {job["id"]: job for job in made["jobs"]}
    assert "walltime" not in jobs["7"]
    assert jobs["x"]["walltime"] == 5
    assert jobs["x"]["extra_data"] == {"a": 1, "b": 2}
    assert jobs["y"]["extra_data"] == "words"
    assert {profile["type"] for profile in made["profiles"].values()} == {"DelayProfile"}


JOB4, DELAY4 = {"id": "1", "subtime": 0, "res": 1, "profile": "d"}, {"type": "delay", "delay": 9}


@pytest.mark.parametrize(
    ("job", "profile", "complaint"),
    [
        ({"id": "a!b"}, {}, "job 'a!b'.id: 'a!b' has '!' in it"),
        ({"id": "w01"}, {}, "job 'w01'.id: 'w01' has the workload's name 'w0' in it"),
        ({}, {"delay": 0}, "profiles['d'].delay: 0 is not a number > 0"),
        ({"walltime": -5}, {}, "jobs[0].walltime: -5 is not a number > 0"),
        ({"extra_data": "words", "user": 3}, {}, "job '1'.extra_data: 'words' is not an object"),
        ({"extra_data": {"user": 3}, "user": 4}, {}, "job '1'.extra_data: has user, as the job itself"),
    ],
)
def test_what_batsim_5_has_no_form_for_is_refused_and_no_file_is_left(job, profile, complaint, tmp_path):
    path = write(tmp_path, {"nb_res": 4, "jobs": [JOB4 | job], "profiles": {"d": DELAY4 | profile}})
    assert refusal_of(lambda path: convert(path, tmp_path / "out.json", version=5), path).startswith(complaint)
    assert not (tmp_path / "out.json").exists()


FIELDS = st.dictionaries(st.sampled_from(["user_id", "class", "requested_time", "note", "", "a b"]), JSON)
JOBS4 = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", 2, "job"]), "subtime": st.integers(0, 9), "res": st.just(1), "profile": st.just("d")},
    optional={"walltime": st.integers(1, 9) | st.floats(0.5, 9)},
)


@given(JOBS4, FIELDS)
def test_a_job_comes_back_from_version_5_as_it_was(job, fields):
    new = job_for_version_5("", job | fields, "w0")
    assert new.keys() <= {*OWN_FIELDS, "extra_data"}
    assert job_from_version_5("", new) == job | fields


NAMES = st.sampled_from(["user_id", "res", "extra_data", "id", "x"])


@given(JOBS4, st.dictionaries(NAMES, JSON, min_size=1) | st.text())
def test_a_job_of_version_5_comes_back_from_version_4_as_it_was(job, extra):
    """Even if its data have names of Batsim's own fields."""
    whole = job | ({"extra_data": extra} if extra else {})
    back = job_for_version_5("", job_from_version_5("", whole), "w0")
    if isinstance(extra, str) and isinstance(back.get("extra_data"), dict):  # the text of an object
        extra = json.loads(extra)
    assert back == job | ({"extra_data": extra} if extra else {})


# The command

LOG = "; MaxProcs: 8\n" + row(1, 0, 50, req_time=40, user=3) + row(2, 0, 50, req_time=50) + row(3, 5, 50, req_time=60)
LOG += "".join(row(number, 10 * number, 20 + number % 3, req_time=100, user=number % 2) for number in range(4, 40))


@pytest.mark.parametrize("options", [[], ["--overrun", "kill"], ["--overrun", "extend"]])
def test_a_log_is_converted_and_comes_back(options, tmp_path):
    log, four, five, again, back = (tmp_path / name for name in ("l.swf", "4.json", "5.json", "5b.json", "4b.json"))
    log.write_text(LOG)
    for source, out, more in (
        (log, four, options),
        (log, five, [*options, "--format", "batsim5"]),
        (four, again, [*options, "--format", "batsim5"]),
        (five, back, options),
    ):
        assert batfill("workload", "convert", source, "--out", out, *more).status == 0
    old, new, from_old, from_new = (json.loads(path.read_text()) for path in (four, five, again, back))
    for made, wanted in ((from_old, new), (from_new, old)):
        assert made["jobs"] == wanted["jobs"]
        assert dict(sorted(made["profiles"].items())) == dict(sorted(wanted["profiles"].items()))
    assert all(job.keys() <= {*OWN_FIELDS, "extra_data"} for job in new["jobs"])
    assert {profile["type"] for profile in new["profiles"].values()} == {"DelayProfile"}
    tables = [read_batsim_json(path) for path in (four, five, back)]
    for table in tables[1:]:
        assert table.overrun == tables[0].overrun
        for name in ("ids", "submit_s", "runtime_s", "walltime_s", "request_s", "asked", "procs", "user"):
            assert getattr(table.jobs, name).tolist() == getattr(tables[0].jobs, name).tolist()
