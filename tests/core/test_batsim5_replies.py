"""Batsim 5's command line, and what a component may ask of the embedded simulator under its protocol."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import pytest
import test_batsim_replies as replies
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.batsim_files.results import job_row
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.simulator.command import main
from batfill.simulator.command_line import GONE, REFUSED, parse_arguments
from batfill.simulator.wire import SimulationSettings, SimulationStopped, Wire4, Wire5, handshake
from small_runs import DYNAMIC, REUSE, Outcome, document, ended_under, job, machines, simulate
from sweeps import examples
from through5 import greeted

PLACED = {
    "executor_placement_type": "PredefinedExecutorPlacementStrategyWrapper",
    "executor_placement": {"strategy": "SpreadOverHostsFirst"},
}
HELLO = {
    "batprotocol_version": "1.0.0",
    "decision_component_name": "test",
    "decision_component_version": "1",
    "decision_component_commit": "",
    "requested_simulation_features": {},
}


def start(identifier: str, hosts: str = "0", **fields: Any) -> tuple[str, dict[str, Any]]:
    return "ExecuteJobEvent", {"job_id": identifier, "allocation": {"host_allocation": hosts, **PLACED, **fields}}


def custom(*places: Any) -> dict[str, Any]:
    return {"executor_placement_type": "CustomExecutorToHostMapping", "executor_placement": {"mapping": list(places)}}


def call(time: float, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "CallMeLaterEvent", {"call_me_later_id": "c", "when_type": "OneShot", "when": {"time": time, **fields}}


def every(period: int, **fields: Any) -> tuple[str, dict[str, Any]]:
    when = {"period": period, "mode_type": "Infinite", "mode": {}, **fields}
    return "CallMeLaterEvent", {"call_me_later_id": f"every {period}", "when_type": "Periodic", "when": when}


def stop(period: int) -> tuple[str, dict[str, Any]]:
    return "StopCallMeLaterEvent", {"call_me_later_id": f"every {period}"}


def kill(*identifiers: str) -> tuple[str, dict[str, Any]]:
    return "KillJobsEvent", {"job_ids": [*identifiers]}


def profile(identifier: str, kind: str, **content: Any) -> tuple[str, dict[str, Any]]:
    return "RegisterProfileEvent", {"profile": {"id": identifier, "profile_type": kind, "profile": content}}


def sequence(identifier: str, times: int, *parts: Any) -> tuple[str, dict[str, Any]]:
    return profile(identifier, "SequentialCompositionProfile", repetition_count=times, profile_ids=list(parts))


def registered(identifier: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "RegisterJobEvent", {"job_id": identifier, "job": {"resource_request": 1, "profile_id": "ten", **fields}}


REUSE_OFF = SimulationSettings()
FINISHED: tuple[str, dict[str, Any]] = ("FinishRegistrationEvent", {})


def run(workload, script, *, settings: SimulationSettings = REUSE, starts=(), **more):
    """Run with these decisions by date, each in the first message of its date, "begin" being the first message.

    Jobs of `starts` start on these hosts when they are submitted. Returns the messages, and the starts and ends by job.
    """
    left = dict(script)

    def decide(message):
        begins = message["events"][0]["event_type"] == "SimulationBeginsEvent"
        decisions = list(left.pop("begin" if begins else message["now"], []))
        submitted = [event["event"].get("job_id") for event in message["events"] if "job" in event["event"]]
        return decisions + [start(name, starts[name]) for name in submitted if name in starts]

    outcome = simulate(workload, decide, settings=settings, wire=Wire5(), **more)
    ends = {r.job_id: (r.starting_time, r.finish_time, r.final_state) for r in outcome.records}
    return outcome.messages, ends


def kinds(told) -> list[tuple[float, str]]:
    return [(m["now"], e["event_type"].removesuffix("Event")) for m in told[1:] for e in m["events"]]


def of_kind(told, kind: str) -> list[dict[str, Any]]:
    return [event["event"] for m in told for event in m["events"] if event["event_type"] == kind]


def calls_in(told, field: str) -> list[tuple[float, Any]]:
    return [(m["now"], data[field]) for m in told for data in of_kind([m], "RequestedCallEvent")]


# What a component may ask for


def test_periodic_calls_come_at_multiples_of_their_period_until_they_are_stopped():
    script = {"begin": [every(4)], 0: [start("w0!a")], 10: [every(8)], 12: [stop(4)], 24: [stop(8)]}
    told, _ = run(document(job("a"), job("b", 10)), {**script, 10: [*script[10], start("w0!b")]}, settings=REUSE_OFF)
    dates = [(4, "every 4"), (8, "every 4"), (12, "every 4"), (16, "every 8"), (24, "every 8")]
    assert calls_in(told, "call_me_later_id") == dates


@pytest.mark.parametrize("n", [1, 3])
def test_a_number_of_periodic_calls_is_kept_to_and_the_last_one_says_so(n):
    script = {"begin": [every(4, mode_type="FinitePeriodNumber", mode={"nb_periods": n})], 30: [start("w0!a")]}
    told, _ = run(document(job("a", 30)), script, settings=REUSE_OFF)
    assert calls_in(told, "last_periodic_call") == [(4 * k, k == n) for k in range(1, n + 1)]


def test_calls_for_the_past_and_for_now_come_in_the_next_message_of_the_date():
    told, _ = run(document(job("a")), {0: [start("w0!a")], 10: [call(3), call(10)]}, settings=REUSE_OFF)
    last = ["JobCompleted", "RequestedCall", "RequestedCall", "SimulationEnds"]
    assert kinds(told)[-4:] == [(10, kind) for kind in last]


def test_a_registered_job_is_submitted_now_and_says_what_it_was_given():
    extra = '{"mine": 1}'
    acknowledged = SimulationSettings(dynamic_jobs=True, acknowledge=True)
    script = {
        0: [start("w0!a")],
        10: [
            profile("d!p", "DelayProfile", delay=3),
            sequence("d!q", 2, "d!p", "p"),
            registered("d!1", profile_id="d!q", walltime=None, extra_data=extra),
            FINISHED,
        ],
    }  # fmt: skip
    with pytest.raises(SimulationStopped, match="never executed"):
        run(document(job("a")), script, settings=acknowledged)
    _, ends = run(document(job("a")), {**script, 10: [*script[10], start("d!1", "1")]}, settings=DYNAMIC)
    assert ends["1"] == (10, 22, "COMPLETED_SUCCESSFULLY")
    script[10][-1:] = [FINISHED, call(11)]
    told, _ = run(document(job("a")), {**script, 11: [start("d!1", "1")]}, settings=acknowledged)
    submitted = of_kind(told, "JobSubmittedEvent")[-1]
    assert submitted["submission_time"] == 10
    assert submitted["job"] == {
        "resource_request": 1, "walltime": None, "extra_data": extra, "rigid": True, "profile_id": "d!q",
    }  # fmt: skip


def test_a_profile_stays_until_the_last_of_its_jobs_has_ended():
    workload = document(job("a"), job("b", 5))
    script = {0: [start("w0!a")], 5: [start("w0!b", "1")], 10: [registered("w0!c"), start("w0!c")], 15: [FINISHED]}
    _, ends = run(workload, script, settings=DYNAMIC)
    assert ends["c"] == (10, 20, "COMPLETED_SUCCESSFULLY")  # Batsim 4 drops the profile with the first end
    with pytest.raises(SimulationStopped, match=r"'ten' was dropped .* ask for profile_reuse in the hello"):
        run(workload, {**script, 10: [], 15: [registered("w0!c")]}, settings=DYNAMIC)


def test_killed_jobs_inside_sequences_say_where_they_were():
    workload = document(job("a", profile="all"), five=5, all={"type": "composed", "repeat": 3, "seq": ["five", "ten"]})
    script = {"begin": [call(23)], 0: [start("w0!a")], 23: [kill("w0!a")]}
    told, _ = run(workload, script, settings=REUSE_OFF)
    ((entry,),) = [event["progresses"] for event in of_kind(told, "JobsKilledEvent")]
    made = entry["wrapper"]["kill_progress"]
    assert (made["current_repetition"], made["current_task_index"]) == (1, 1)
    assert made["current_task_progress"]["kill_progress"] == {"profile_id": "w0!ten", "progress": 0.3}


def test_hosts_are_numbered_by_the_numbers_in_their_names_storage_among_them(tmp_path):
    path = tmp_path / "platform.xml"
    path.write_text(homogeneous_platform(12))
    platform = read_platform(path, roles={"node3": "storage"}, version=5)
    assert [host.name for host in platform.machines] == [f"node{i}" for i in range(12)]
    assert platform.storage_ids == [3]
    told, _ = run(document(job("a", res=3)), {0: [start("w0!a", "1 2 4")]}, settings=REUSE_OFF, platform=platform)
    first = of_kind(told, "SimulationBeginsEvent")[0]
    assert [host["id"] for host in first["storage_hosts"]] == [3]
    assert [host["id"] for host in first["computation_hosts"]] == [0, 1, 2, *range(4, 12)]


def test_power_states_and_cores_are_in_the_first_message(tmp_path):
    path = tmp_path / "platform.xml"
    host = '<host id="a" speed="2Gf,1Gf" core="4"><prop id="rack" value="7"/></host>'
    path.write_text(f'<platform version="4.1"><zone id="z" routing="Full"><host id="master_host" speed="1f"/>{host}'
                    "</zone></platform>")  # fmt: skip
    told, _ = run(document(job("a")), {0: [start("w0!a")]}, settings=REUSE_OFF, platform=read_platform(path, version=5))
    (described,) = of_kind(told, "SimulationBeginsEvent")[0]["computation_hosts"]
    assert described == {
        "id": 0, "name": "a", "pstate": 0, "pstate_count": 2, "state": "IDLE",
        "properties": [{"key": "rack", "value": "7"}], "zone_properties": [], "core_count": 4,
        "computation_speed": [2e9, 1e9],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "strategy", "ends_s"),
    [
        ("parallel_homogeneous", "DefinedAmountsUsedForEachValue", 4),
        ("parallel_homogeneous_total", "DefinedAmountsSpreadUniformly", 2),
    ],
)
def test_a_homogeneous_task_is_forwarded_with_how_its_amounts_count(kind, strategy, ends_s):
    work = document(job("a", res=2, profile="h"), h={"type": kind, "cpu": 4e9, "com": 0})
    settings = replace(REUSE_OFF, forward_profiles=True)
    told, ends = run(work, {}, settings=settings, starts={"w0!a": "0-1"}, platform=machines(2))
    (data,) = of_kind(told, "JobSubmittedEvent")
    assert data["profile"] == {
        "id": "w0!h",
        "profile_type": "ParallelTaskHomogeneousProfile",
        "profile": {"computation_amount": 4e9, "communication_amount": 0.0, "generation_strategy": strategy},
    }
    assert ends == {"a": (0, ends_s, "COMPLETED_SUCCESSFULLY")}


@pytest.mark.parametrize("settings", [REUSE, SimulationSettings(dynamic_jobs=True)])
def test_a_job_may_have_a_profile_of_another_workload_in_either_direction(settings):
    settings = replace(settings, acknowledge=True, forward_profiles=True)
    script = {
        "begin": [registered("new!x", profile_id="w0!ten", walltime=30)],
        0: [start("new!x", "0"), start("w0!a", "1"), profile("new!p", "DelayProfile", delay=5)],
        10: [registered("w0!y", profile_id="new!p"), registered("other!z", profile_id="new!p"), FINISHED],
    }
    late = {"w0!y": "2", "other!z": "3"}
    told, ends = run(document(job("a")), script, settings=settings, starts=late)
    first, second = ((*dates, "COMPLETED_SUCCESSFULLY") for dates in ((0, 10), (10, 15)))
    assert ends == {"x": first, "a": first, "y": second, "z": second}
    submitted = {data["job_id"]: data for data in of_kind(told, "JobSubmittedEvent")}
    owners = {"new!x": "w0!ten", "w0!a": "w0!ten", "w0!y": "new!p", "other!z": "new!p"}
    assert {name: data["job"]["profile_id"] for name, data in submitted.items()} == owners
    assert {name: data["profile"]["id"] for name, data in submitted.items()} == owners


def test_a_profile_of_another_workload_is_named_with_it_in_the_jobs_file_and_by_a_kill():
    begin = [registered("new!x", profile_id="w0!ten")]
    script = {"begin": begin, 0: [start("w0!a", "1"), start("new!x"), call(4), FINISHED]}
    run(document(job("a")), script, outcome=(outcome := Outcome()))
    rows = [job_row(record, 5) for record in outcome.records]
    assert sorted(row.split(",")[:3] for row in rows) == [["a", "w0", "w0!ten"], ["x", "new", "w0!ten"]]
    told, _ = run(document(job("a")), {**script, 4: [kill("new!x")]})
    (killed,) = of_kind(told, "JobsKilledEvent")
    assert killed["progresses"][0]["wrapper"]["kill_progress"]["profile_id"] == "w0!ten"


def test_stopping_calls_that_are_not_there_changes_nothing_and_is_said():
    remarks = []
    script = {0: [stop(4), start("w0!a"), call(3)], 3: [stop(8)]}
    told, ends = run(document(job("a")), script, settings=REUSE_OFF, on_remark=remarks.append)
    assert ends["a"][1] == 10
    assert remarks == [
        "date 0.000000: no periodic call 'every 4' is left to stop",
        "date 3.000000: no periodic call 'every 8' is left to stop",
    ]
    assert (3, "RequestedCall") in kinds(told)


# What it may not


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (start("w0!a", "0,1"), "'0,1' is not a list of machines"),
        (start("w0!a", "0", executor_placement={"strategy": "Best"}), "has the strategy 'Best'; known: SpreadOver"),
        (start("w0!a", "0", executor_placement_type="Mine"), "has the executor_placement_type 'Mine'"),
        (start("w0!a", **custom(1)), "must give each executor 0, 1, ... a place in its 1 machines"),
        (("ExecuteJobEvent", {"job_id": "w0!a", "allocation": []}), "needs 'allocation', an object, and has []"),
        (
            ("ExecuteJobEvent", {**start("w0!a")[1], "storage_placement": [{}]}),
            "job 'w0!a' has a storage_placement, which delay profiles do not use",
        ),
        (call(5, time_unit="Hour"), "has the time_unit 'Hour'; known: Second, Millisecond"),
        (call(10**16), "batfill's limit is 1e+12 s"),
        (every(0), "has 0 as its 'period', which is not above 0"),
        (every(4, mode_type="Often"), "has the mode_type 'Often'; known: Infinite, FinitePeriodNumber"),
        (every(4, mode_type="FinitePeriodNumber", mode={"nb_periods": 0}), "has 0 as its 'nb_periods'"),
        (("CallMeLaterEvent", {**every(4)[1], "when_type": "Soon"}), "has the when_type 'Soon'; known: OneShot"),
        (registered("w0!a!b"), "'w0!a!b' is not the id of a job, such as 'w0!1'"),
        (registered("w0!b", profile_id="w1!ten"), "job 'w0!b' has a profile of 'w1', no known workload; known: w0"),
        (registered("w1!b"), "job 'w1!b' belongs to no known workload; known: w0"),
        (registered("w1!b", profile_id="w0!none"), "'none' is not the name of a profile"),
        (registered("w 1,!b", profile_id="w0!ten"), "'w 1,' cannot be a workload's name"),
        (registered("w0!b", walltime=0), "walltime: 0 is not a number > 0"),
        (
            profile("w0!p", "Mine"),
            "profile 'w0!p' is a 'Mine'; simulated are DelayProfile and SequentialCompositionProfile",
        ),
        (profile("p", "DelayProfile", delay=1), "'p' is not the id of a profile"),
        (registered("w0!b", profile_id="!ten"), "has a profile of '', no known workload"),
        (registered("w0!b", rigid=False), "job 'w0!b' is not rigid"),
        (sequence("w0!s", 1, "ten", 7), "seq[1]: 7 is not"),
        *(
            (start("w0!a", "0", **custom(place)), f"executor 0 has {place!r}")
            for place in (1, 1.0, 0.0, True, "0", "\u0660", None)
        ),
        (kill(), "'job_ids' is empty"),
        (("TurnOnOffHostsEvent", {"host_ids": "0", "state": 1}), "power states are not simulated here"),
        (("CreateProbeEvent", {}), "there are no probes here"),
        (("EDCHelloEvent", HELLO), "it belongs into the answer to the handshake"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_with_its_place(decision, said):
    with pytest.raises(SimulationStopped) as stopped:
        run(document(job("a")), {0: [decision]})
    line = str(stopped.value)
    assert "\n" not in line
    assert line.startswith(f"stopped at date 0.000000: the scheduler's reply to message 2, events[0], {decision[0]}: ")
    assert said in line


def hello(**fields: Any) -> bytes:
    event = {"timestamp": 0, "event_type": "EDCHelloEvent", "event": {**HELLO, **fields}}
    return struct.pack("=I", 2) + json.dumps({"now": 0, "events": [event]}).encode()


def test_features_of_the_hello_are_settings_and_what_does_nothing_is_said():
    wanted = {"dynamic_registration": True, "profile_reuse": True, "forward_profiles_on_jobs_killed": True}
    made, remarks = handshake(lambda frame: hello(requested_simulation_features=wanted), "text")
    assert made == REUSE
    assert len(remarks) == 1
    assert "forward_profiles_on_jobs_killed does nothing here" in remarks[0]
    frame = hello(requested_simulation_features={"profile_reuse": True}, scheduling_constraints={})
    made, remarks = handshake(lambda _: frame, "")
    assert made == SimulationSettings()
    assert [remark.split(" ")[0] for remark in remarks] == ["the", "profile_reuse"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"requested_simulation_features": {"profile_reuse": 1}}, "needs 'profile_reuse', true or false, and has 1"),
        (
            {"requested_simulation_features": {"forward_unknown_external_events": True}},
            "asks for forward_unknown_external_events, which Batsim 5 no longer has",
        ),
        ({"decision_component_name": None}, "its hello needs 'decision_component_name', a string, and has None"),
    ],
)
def test_a_hello_that_cannot_be_is_refused(fields, said):
    with pytest.raises(SimulationStopped) as stopped:
        handshake(lambda frame: hello(**fields), "")
    assert str(stopped.value).startswith("the scheduler's answer to the handshake ")
    assert said in str(stopped.value)


# The same decisions under both versions


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)), max_size=12),
    st.sampled_from(["fcfs", "saf"]),
)
def test_the_same_scheduler_starts_the_same_jobs_under_both_versions(drawn, policy):
    jobs = [job(str(i), at, res, f"p{run_s}", walltime=limit) for i, (at, res, run_s, limit) in enumerate(drawn)]
    workload = document(*jobs, **{f"p{i}": i for i in range(1, 10)})
    agents = [Agent({"policy": policy}) for _ in range(2)]
    under_4 = ended_under(Conversation4(agents[0]).answer, workload, machines(4), REUSE_OFF, Wire4())
    under_5 = ended_under(greeted(agents[1]).answer, workload, machines(4), REUSE_OFF, Wire5())
    assert under_4 == under_5
    assert len(under_4) == len(jobs)


# Mutations of a conversation in which all is well

SCRIPT: dict[Any, Any] = {
    "begin": [every(5), profile("w0!p", "DelayProfile", delay=3)],
    0: [start("w0!a"), registered("w0!n", profile_id="p", walltime=9, extra_data="x")],
    10: [start("w0!b", "1-1"), ("RejectJobEvent", {"job_id": "w0!wide"}), start("w0!n", "2"), call(12)],
    12: [kill("w0!n", "w0!b"), stop(5), FINISHED],
}


def is_when(value):
    return replies.is_object(value) and all(
        replies.is_integer(value[name]) for name in ("time", "period") if name in value
    )


def is_allocation(value):
    return replies.is_object(value) and len(value) == 3 and replies.is_alloc(value["host_allocation"])


def is_job(value):
    replies.assert_has(
        value,
        {"resource_request": replies.is_integer, "profile_id": replies.is_text},
        {
            "walltime": lambda walltime: walltime is None or replies.is_number(walltime),
            "extra_data": replies.is_text,
            "rigid": lambda rigid: rigid is True,
        },
    )
    return True


MEMBERS: dict[str, Any] = {
    "ExecuteJobEvent": (
        {"job_id": replies.is_id, "allocation": is_allocation},
        dict.fromkeys(("profile_allocation_override", "storage_placement"), lambda value: value == []),
    ),
    "RejectJobEvent": replies.MEMBERS["REJECT_JOB"],
    "KillJobsEvent": replies.MEMBERS["KILL_JOB"],
    "CallMeLaterEvent": ({"call_me_later_id": replies.is_text, "when_type": replies.is_text, "when": is_when}, {}),
    "StopCallMeLaterEvent": ({"call_me_later_id": replies.is_text}, {}),
    "RegisterJobEvent": ({"job_id": replies.is_id, "job": is_job}, {}),
    "RegisterProfileEvent": ({"profile": replies.is_object}, {}),
    "FinishRegistrationEvent": ({}, {}),
    "ForceSimulationStopEvent": ({}, {}),
}


def test_mutated_replies_run_as_they_are_meant_or_are_refused_in_one_line():
    last = "ForceSimulationStopEvent", {}
    replies.assert_mutations_are_refused_or_meant(1000, SCRIPT, MEMBERS, [*replies.WIRES][1], last)


# The command line


def test_options_with_several_values_and_those_without_an_effect_here_are_taken():
    words = "-w a b -w c --ee d e --external-events f --trace-probe-data never"
    options = parse_arguments([*GIVEN, *words.split()], 5)
    assert [str(path) for path in options.workloads] == ["a", "b", "c"]
    assert [str(path) for path in options.events] == ["d", "e", "f"]
    assert options.remarks == ()
    (remark,) = parse_arguments([*GIVEN, "--energy-host"], 5).remarks
    assert "energy is not simulated" in remark


GIVEN = ["-p", "x.xml", "-s", "tcp://there:1", "text"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-p", "x.xml"], "0 components are given; give one, with -s ENDPOINT TEXT or -S ENDPOINT FILE"),
        ([*GIVEN, "-S", "tcp://there:2", "file"], "2 components are given"),
        ([*GIVEN[:2], "-S", "tcp://there:2", "/no/file"], "-S: /no/file cannot be read"),
        ([*GIVEN[:2], "-s", "tcp://there:70000", ""], "-s: tcp://there:70000: a port is a number from 1 to 65535"),
        (GIVEN[2:], "-p/--platform"),
        ([*GIVEN, "--trace-probe-data", "always"], "there are no probes"),
        *(
            ([*GIVEN, *form.split()[:1], *["x"] * form.count(" X")], f"{form.split()[0]}: {why}")
            for form, why in (REFUSED[5] | GONE).items()
        ),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(words, said, capsys):
    assert main(["--protocol", "5", *words]) == 255
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("batfill batsim: ")
    assert said in line


def test_the_text_of_a_file_is_the_initialisation_text_and_roles_come_in_two_words(tmp_path):
    (tmp_path / "init.json").write_text('{"policy": "saf"}')
    words = ["-p", "x.xml", "-S", "tcp://there:1", f"{tmp_path}/init.json"]
    options = parse_arguments([*words, "-r", "a", "storage", "-r", "b", "master"], 5)
    assert options.init_text == '{"policy": "saf"}'
    assert options.roles == {"a": "storage", "b": "master"}
