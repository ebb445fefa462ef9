"""What Batsim's own tests ask of a simulator of delays: submissions, walltimes, registrations, kills, sequences."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from batfill.base.errors import WorkloadError
from batfill.simulator.wire import SimulationStopped
from batfill.workloads.batsim_json import load_document, read_batsim_json
from small_runs import (
    DYNAMIC,
    FINISHED,
    REUSE,
    add_profile,
    at,
    call,
    document,
    execute,
    job,
    kill,
    register,
    simulate,
)

KILLED, SUCCESS, CUT = "COMPLETED_KILLED", "COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"


# Registrations


def test_an_acknowledgement_of_date_0_follows_the_static_submissions_of_date_0_in_their_message():
    script = {"begin": [register("w0!n"), register("w0!m")], 0: [execute("w0!b"), FINISHED]}
    workload = document(job("b"), job("c"), job("d", 5))
    scripted = at(script)

    def decide(message):
        names = [event["data"]["job_id"] for event in message["events"] if event["type"] == "JOB_SUBMITTED"]
        return scripted(message) + [("REJECT_JOB", {"job_id": name}) for name in names if name != "w0!b"]

    outcome = simulate(workload, decide, settings=replace(REUSE, acknowledge=True))
    names = [[e["data"].get("job_id") for e in m["events"]] for m in outcome.messages]
    assert names[1] == ["w0!b", "w0!c", "w0!n", "w0!m"]
    assert outcome.events("JOB_SUBMITTED")[2]["job"]["id"] == "w0!n"


# Kills


def test_a_job_of_no_time_is_complete_before_the_reply_that_starts_it_can_kill_it():
    outcome = simulate(document(job("a", profile="none"), none=0), at({0: [execute("w0!a"), kill("w0!a")]}))
    assert outcome.states_of() == {"a": SUCCESS}
    assert len(outcome.events("JOB_COMPLETED")) == 1


# Sequences

SEQUENCES = {
    "two": 2,
    "five": 5,
    "once": {"type": "composed", "seq": ["two", "five"]},
    "thrice": {"type": "composed", "repeat": 3, "seq": ["two", "five", "two"]},
    "old": {"type": "composed", "nb": 3, "seq": ["five"]},
    "deep": {"type": "composed", "repeat": 2, "seq": ["five", "thrice", "once"]},
    "bad": {"type": "delay", "delay": 4, "ret": 3},
    "failing": {"type": "composed", "repeat": 3, "seq": ["two", "bad", "five"]},
    "over": {"type": "composed", "seq": ["two", "failing", "five"]},
    "code": {"type": "composed", "seq": ["two"], "ret": 9},
}
LENGTHS = {"once": 7, "thrice": 27, "old": 15, "deep": 78, "failing": 6, "over": 8, "code": 2}


@pytest.mark.parametrize("profile", LENGTHS)
def test_a_sequence_takes_the_sum_of_its_delays_up_to_the_first_that_fails(profile):
    outcome = simulate(document(job("a", profile=profile), **SEQUENCES), at({0: [execute("w0!a")]}))
    code = {"failing": 3, "over": 3, "code": 9}.get(profile, 0)
    assert outcome.records[0].execution_time == LENGTHS[profile]
    assert outcome.records[0].final_state == ("COMPLETED_FAILED" if code else SUCCESS)
    assert outcome.events("JOB_COMPLETED")[0]["return_code"] == code


@pytest.mark.parametrize(("walltime", "state"), [(26.5, CUT), (27, CUT), (27.5, SUCCESS)])
def test_a_sequence_ends_at_the_walltime(walltime, state):
    workload = document(job("a", profile="thrice", walltime=walltime), **SEQUENCES)
    record = simulate(workload, at({0: [execute("w0!a")]})).records[0]
    assert (record.final_state, record.execution_time) == (state, min(walltime, 27))


def task(profile, place, inner):
    return {"profile_name": profile, "current_task_index": place, "current_task": inner}


@pytest.mark.parametrize(
    ("profile", "date", "progress"),
    [
        ("once", 0.5, task("once", 0, {"profile_name": "two", "progress": 0.25})),
        ("once", 2, task("once", 1, {"profile_name": "five", "progress": 0})),
        ("thrice", 12, task("thrice", 4, {"profile_name": "five", "progress": 0.2})),  # the second round's second part
        ("deep", 6, task("deep", 1, task("thrice", 0, {"profile_name": "two", "progress": 0.5}))),
        ("deep", 39 + 33, task("deep", 5, task("once", 0, {"profile_name": "two", "progress": 0.5}))),
        ("over", 5, task("over", 1, task("failing", 1, {"profile_name": "bad", "progress": 0.25}))),
    ],
)
def test_the_progress_of_a_killed_sequence_names_its_current_part(profile, date, progress):
    workload = document(job("a", profile=profile), **SEQUENCES)
    outcome = simulate(workload, at({0: [execute("w0!a"), call(date)], date: [kill("w0!a")]}))
    assert outcome.events("JOB_KILLED") == [{"job_ids": ["w0!a"], "job_progress": {"w0!a": progress}}]


def test_a_sequence_can_be_registered_from_known_profiles():
    def profile(name, *seq, **fields):
        return add_profile(name, "w0", type="composed", seq=list(seq), **fields)

    workload = document(job("a", profile="two"), two=2, spare=9)
    start = [profile("x", "two", "two"), profile("y", "x", repeat=2), register("w0!n", profile="y"), execute("w0!n")]
    outcome = simulate(workload, at({0: [*start, execute("w0!a", "1"), FINISHED]}), settings=DYNAMIC)
    assert {record.job_id: record.execution_time for record in outcome.records} == {"a": 2, "n": 8}
    for wrong, said in (
        (profile("x", "x"), r"profile 'x'.seq\[0\]: 'x' is not the name of a profile"),
        (profile("x", "two", "none"), r"profile 'x'.seq\[1\]: 'none' is not the name of a profile"),
        (profile("x", "spare"), "profile 'x': profile 'spare' was dropped"),
        (profile("x"), r"profile 'x'.seq: \[\] is not an array of profiles' names"),
        (profile("x", "two", repeat=0), "profile 'x'.repeat: 0 is not a whole number from 1 to 2147483647"),
        (profile("x", "two", repeat=10**12), "profile 'x'.repeat: 1000000000000 is not a whole number"),
    ):
        with pytest.raises(SimulationStopped, match=said):
            simulate(workload, at({0: [wrong]}), settings=DYNAMIC)


def written(folder, *jobs, **profiles):
    content = document(*jobs, **profiles)
    path = folder / "w.json"
    path.write_text(json.dumps({"nb_res": 4, "jobs": content.jobs, "profiles": content.profiles}))
    return path


def test_the_replay_reads_the_run_time_of_a_sequence(tmp_path):
    jobs = [job(name, profile=name) for name in LENGTHS]
    workload = read_batsim_json(written(tmp_path, *jobs, **SEQUENCES))
    assert dict(zip(workload.jobs.ids, workload.jobs.runtime_s, strict=True)) == LENGTHS


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"seq": []}, "profiles['s'].seq: [] is not an array of profiles' names; give at least one"),
        ({"seq": ["ten", "x"]}, "profiles['s'].seq[1]: 'x' is not the name of a profile"),
        ({"seq": ["s"]}, "profiles['s'].seq: it contains itself ('s' > 's')"),
        ({"seq": ["ptask"]}, "profiles['ptask'].com: a job of it communicates, and so runs under Batsim only"),
        (
            {"seq": ["ten"], "nb": 2, "repeat": 3},
            "profiles['s'].nb: 2 is not the 3 of 'repeat', of which it is the old",
        ),
        (
            {"seq": ["ten"], "repeat": 10**12},
            "profiles['s'].repeat: 1000000000000 is not a whole number from 1 to 2147483647; give the repetitions",
        ),
    ],
)
def test_a_sequence_that_cannot_run_is_refused_with_its_place(profile, said, tmp_path):
    others = {"ptask": {"type": "parallel", "cpu": [1], "com": [1]}} if profile["seq"] == ["ptask"] else {}
    path = written(tmp_path, job("a", profile="s"), s={"type": "composed", **profile}, **others)
    with pytest.raises(WorkloadError) as refused:
        load_document(path)
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: {said}")


# Energy, shared machines, external events
