"""The embedded simulator's core: what happens, what is told, and what stops it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batfill.base.errors import WorkloadError
from batfill.batsim_files.external_events import ExternalEvent
from batfill.batsim_files.machines import machine_set
from batfill.simulator.wire import SimulationSettings, SimulationStopped
from small_runs import (
    DYNAMIC,
    FINISHED,
    REUSE,
    Outcome,
    add_profile,
    at,
    call,
    document,
    execute,
    job,
    kill,
    register,
    simulate,
    think,
)

SUBMITTED, COMPLETED, CALL, NOTIFY = "JOB_SUBMITTED", "JOB_COMPLETED", "REQUESTED_CALL", "NOTIFY"


def test_an_instant_is_told_whole():
    workload = document(job("a"), job("b", 10), job("c", 10))
    decide = at({0: [execute("w0!a"), call(10)], 10: [execute("w0!b"), execute("w0!c", "1")]})
    assert simulate(workload, decide).told == [
        [(0, SUBMITTED)],
        [(10, COMPLETED), (10, SUBMITTED), (10, SUBMITTED), (10, CALL), (10, NOTIFY)],
        [(20, COMPLETED), (20, COMPLETED)],
        [(20, "SIMULATION_ENDS")],
    ]


def test_jobs_of_one_date_are_submitted_in_the_order_of_their_ids_as_strings_workload_by_workload():
    w0 = document(job("10"), job("9"), job("1", 5))
    w1 = document(job("2"), job("11"))
    told = []

    def decide(message):
        submitted = [event["data"]["job_id"] for event in message["events"] if event["type"] == SUBMITTED]
        told.extend(submitted)
        return [("REJECT_JOB", {"job_id": identifier}) for identifier in submitted]

    simulate({"w0": w0, "w1": w1}, decide)
    assert told == ["w0!10", "w0!9", "w1!11", "w1!2", "w0!1"]


def test_an_id_with_its_workloads_name_is_the_same_as_without():
    outcome = simulate(document(job("w0!a")), at({0: [execute("w0!a")]}))
    assert outcome.states_of() == {"a": "COMPLETED_SUCCESSFULLY"}
    with pytest.raises(WorkloadError, match="job 'w0!a' occurs twice"):
        simulate(document(job("w0!a"), job("a")), at({}))


def test_a_job_keeps_its_fields_and_gets_its_workloads_name():
    workload = document(job("a", user_id=7, walltime=99.5))
    outcome = simulate(workload, at({0: [execute("w0!a")]}), settings=SimulationSettings(forward_profiles=True))
    described = {"id": "w0!a", "subtime": 0, "res": 1, "profile": "ten", "user_id": 7, "walltime": 99.5}
    profile = {"type": "delay", "delay": 10}
    assert outcome.events(SUBMITTED) == [{"job_id": "w0!a", "job": described, "profile": profile}]


@pytest.mark.parametrize(
    ("fields", "profile", "state", "code", "execution_s"),
    [
        ({}, 10, "COMPLETED_SUCCESSFULLY", 0, 10),
        ({"walltime": -1}, 10, "COMPLETED_SUCCESSFULLY", 0, 10),
        ({"walltime": 10.5}, 10, "COMPLETED_SUCCESSFULLY", 0, 10),
        ({"walltime": 10}, 10, "COMPLETED_WALLTIME_REACHED", -1, 10),
        ({"walltime": 4}, 10, "COMPLETED_WALLTIME_REACHED", -1, 4),
        ({}, {"type": "delay", "delay": 3, "ret": 2}, "COMPLETED_FAILED", 2, 3),
        ({}, 0, "COMPLETED_SUCCESSFULLY", 0, 1e-5),
    ],
)
def test_how_a_job_ends(fields, profile, state, code, execution_s):
    outcome = simulate(document(job("a", profile="p", **fields), p=profile), at({0: [execute("w0!a", "2")]}))
    ended = {"job_id": "w0!a", "job_state": state, "return_code": code, "alloc": "2"}
    assert outcome.events(COMPLETED) == [ended]
    assert outcome.records[0].final_state == state
    assert outcome.records[0].execution_time == execution_s


def test_a_scheduler_that_takes_time_is_told_what_happened_meanwhile_once_it_is_done():
    workload = document(job("a"), job("b", 1), job("c", 2))
    script = {0: [(*execute("w0!a"), 0.5), think(1.5)], 1.5: [execute("w0!b", "1")], 2: [execute("w0!c", "2")]}
    outcome = simulate(workload, at(script))
    assert outcome.told[:3] == [[(0, SUBMITTED)], [(1, SUBMITTED)], [(2, SUBMITTED), (2, NOTIFY)]]
    assert [m["now"] for m in outcome.messages[:4]] == [0, 0, 1.5, 2]
    assert [record.starting_time for record in outcome.records] == [0.5, 1.5, 2]


def test_dates_between_the_decimals_of_the_messages_do_not_move_the_clock():
    third = 1 / 3
    workload = document(job("a", third, profile="p"), p=third)
    outcome = simulate(workload, lambda m: [execute("w0!a")] if m["events"][0]["type"] == SUBMITTED else [])
    assert outcome.messages[1]["now"] == 0.333333
    assert outcome.records[0].starting_time == third


def test_a_job_may_be_run_by_hand_without_machines():
    script = {0: [state("RUNNING"), call(3)], 3: [state("COMPLETED_KILLED")]}
    outcome = simulate(document(job("a")), at(script))
    record = outcome.records[0]
    assert (record.final_state, record.execution_time, record.allocated_resources) == ("COMPLETED_KILLED", 3, "")
    assert outcome.states == []


# Jobs and profiles of the scheduler's


def test_a_registered_job_is_there_at_once_and_told_only_when_acknowledged():
    script = {0: [execute("w0!a"), register("w0!b", user="me"), FINISHED], 10: [execute("w0!b")]}
    quiet = simulate(document(job("a")), at(script), settings=DYNAMIC)
    assert quiet.told[:2] == [[(0, SUBMITTED), (0, NOTIFY)], [(10, COMPLETED)]]
    assert quiet.states_of() == {"a": "COMPLETED_SUCCESSFULLY", "b": "COMPLETED_SUCCESSFULLY"}
    acknowledged = simulate(document(job("a")), at(script), settings=replace(DYNAMIC, acknowledge=True))
    assert acknowledged.told[:3] == [[(0, SUBMITTED), (0, NOTIFY)], [(0, SUBMITTED)], [(10, COMPLETED)]]
    assert acknowledged.events(SUBMITTED)[1]["job"]["user"] == "me"


def test_jobs_may_be_registered_until_registration_is_finished_and_after_it_continues():
    more = ("NOTIFY", {"type": "continue_registration"})
    script = {0: [execute("w0!a"), FINISHED, more, register("w0!b"), execute("w0!b", "1")], 10: [FINISHED]}
    assert len(simulate(document(job("a")), at(script), settings=DYNAMIC).records) == 2


def test_without_profile_reuse_a_profile_is_gone_once_its_first_job_has_ended_for_others_than_the_waiting():
    workload = document(job("a"), job("b"))
    script = {0: [execute("w0!a")], 10: [execute("w0!b"), register("w0!c"), FINISHED], 20: [execute("w0!c")]}
    reused = simulate(workload, at(script), settings=REUSE)
    assert len(reused.records) == 3
    with pytest.raises(SimulationStopped, match=r"profile 'ten' was dropped .* --enable-profile-reuse"):
        simulate(workload, at(script), settings=DYNAMIC)


def test_profiles_that_no_job_uses_are_dropped():
    workload = document(job("a"), spare=5)
    outcome = simulate(workload, at({0: [execute("w0!a")]}))
    begins = outcome.messages[0]["events"][0]["data"]
    assert begins["profiles"] == {"w0": {"ten": {"type": "delay", "delay": 10}}}
    with pytest.raises(SimulationStopped, match="profile 'spare' was dropped"):
        simulate(workload, at({0: [register("w0!b", profile="spare")]}), settings=REUSE)


# External events


def test_machines_come_and_go():
    changes = [(3, "machine_unavailable", "0-1"), (5, "machine_available", "0"), (6, "machine_available", "1")]
    events = [ExternalEvent(date, kind, machine_set(resources, 4), b"") for date, kind, resources in changes]
    decide = at({0: [execute("w0!a")], 5: [execute("w0!b", "2")]})
    outcome = simulate(document(job("a"), job("b", 5)), decide, events=events)
    said = [data for data in outcome.events(NOTIFY) if "resources" in data]
    assert said == [{"type": f"event_{kind}", "resources": resources} for _, kind, resources in changes]
    assert outcome.told[3] == [(6, NOTIFY), (6, NOTIFY)]  # the second: no_more_external_event_to_occur
    assert outcome.states_of()["a"] == "COMPLETED_SUCCESSFULLY"  # its machine went away under it


def test_an_event_of_an_unknown_type_is_passed_on_as_it_stands():
    raw = b'{"type":"power_cut","timestamp":2,"where":"here"}'
    events = [ExternalEvent(2, "power_cut", None, raw)]
    outcome = simulate(document(job("a")), at({0: [execute("w0!a")]}), events=events)
    assert {"type": "power_cut", "timestamp": 2, "where": "here"} in outcome.events(NOTIFY)


# What stops it


def state(name):
    return "CHANGE_JOB_STATE", {"job_id": "w0!a", "job_state": name}


# What is refused beside what a single reply can have wrong.
@pytest.mark.parametrize(
    ("decisions", "settings", "complaint"),
    [
        ([("REJECT_JOB", {"job_id": "w0!a"}), execute("w0!a")], None, "its state is REJECTED"),
        ([state("RUNNING"), kill("w0!a")], None, "cannot be killed: the scheduler runs it itself"),
        ([state("LOST")], None, "cannot become 'LOST'"),
        ([execute("w0!a"), state("COMPLETED_KILLED")], None, "its state is RUNNING after EXECUTE_JOB"),
        ([register("w0!n")], None, "run with --enable-dynamic-jobs"),
        ([add_profile("ten", "w0")], None, "run with --enable-dynamic-jobs"),
        ([add_profile("ten", "a!b")], DYNAMIC, "'a!b' cannot be a workload's name"),
        ([FINISHED, register("w0!n")], DYNAMIC, "after NOTIFY registration_finished"),
        ([register("w0!n", id="w0!m")], DYNAMIC, "job 'w0!n' is called 'w0!m' in its description"),
        ([register("w0!n", subtime=None)], DYNAMIC, "job 'w0!n'.subtime: nothing is not a number >= 0"),
    ],
)
def test_what_batsim_does_not_allow_stops_the_run_with_the_date_and_the_reason(decisions, settings, complaint):
    workload = document(job("a"), job("b"), job("later", 99))
    with pytest.raises(SimulationStopped, match=rf"^stopped at date 0\.000000: .*{complaint}"):
        simulate(workload, at({0: decisions}), settings=settings or SimulationSettings())


def test_jobs_that_are_never_executed_are_named_and_counted_and_the_others_are_written():
    outcome = Outcome()
    workload = document(*(job(f"j{i}") for i in range(8)))
    with pytest.raises(SimulationStopped) as stopped:
        simulate(workload, at({0: [execute("w0!j0")]}), outcome=outcome)
    assert "7 jobs are never executed (w0!j1, w0!j2, w0!j3, w0!j4, w0!j5, ...)" in str(stopped.value)
    assert outcome.states_of() == {"j0": "COMPLETED_SUCCESSFULLY"}


def test_a_scheduler_that_never_finishes_registration_is_told_so():
    for decision in (execute("w0!a"), ("REJECT_JOB", {"job_id": "w0!a"})):
        with pytest.raises(SimulationStopped, match="never sent NOTIFY registration_finished"):
            simulate(document(job("a")), at({0: [decision]}), settings=DYNAMIC)


def test_decisions_after_the_end_are_too_late():
    replies = {SUBMITTED: [execute("w0!a")], "SIMULATION_ENDS": [call(99)]}
    with pytest.raises(SimulationStopped, match="the last, has events"):
        simulate(document(job("a")), lambda message: replies.get(message["events"][0]["type"], []))


def test_a_simulation_without_workload_runs_what_the_scheduler_registers():
    script = {"begin": [add_profile("p"), register("mine!b", profile="p"), execute("mine!b"), FINISHED]}
    outcome = simulate(None, at(script), settings=DYNAMIC)
    assert outcome.told == [[(3, COMPLETED)], [(3, "SIMULATION_ENDS")]]


def test_a_reply_of_the_past_stops_the_simulation():
    workload = document(job("a"), job("b", 10))
    decide = at({0: [execute("w0!a")], 10: [think(-5)]})
    with pytest.raises(SimulationStopped, match=r"stopped at date 10\.000000: .* and 'now' 5\.0"):
        simulate(workload, decide)
