"""Replies that a scheduler must not send: one line that says which message, which event, and what is wrong with it."""

from __future__ import annotations

import csv
import json

import pytest

from batfill.batsim_files.results import job_row
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings, SimulationStopped
from small_runs import (
    REUSE,
    add_profile,
    at,
    call,
    document,
    execute,
    job,
    kill,
    machines,
    register,
    simulate,
)

WORKLOAD = document(job("a"), job("b", 10), job("wide", 10, 9))


def line_of(stopped: pytest.ExceptionInfo[SimulationStopped]) -> str:
    line = str(stopped.value)
    assert "\n" not in line
    return line


REJECTED = '{"timestamp": 0, "type": "REJECT_JOB", "data": {"job_id": "w0!a"}}'


@pytest.mark.parametrize(
    "reply",
    [
        b"hello",
        b"",
        b'{"now": NaN, "events": []}',
        b'{"now": 1e999, "events": []}',
        b"\xff\xfe",
        b"[" * 5000,
        b"[]",
        b'{"events": []}',
        b'{"now": true, "events": []}',
        b'{"now": 1e300, "events": []}',
        b'{"now": -0.5, "events": []}',
        b'{"now": 0}',
        b'{"now": 0, "events": {}}',
        b'{"now": 0, "events": [1]}',
        b'{"now": 0, "events": [{"timestamp": "0"}]}',
        b'{"now": 0, "events": [{"timestamp": 0, "type": "A\\nB"}]}',
        f'{{"now": 0, "events": [{REJECTED.replace("0", "5", 1)}]}}'.encode(),
        f'{{"now": 9, "events": [{REJECTED.replace("0", "1", 1)}, {REJECTED}]}}'.encode(),
        *(
            json.dumps({"now": 0, "events": [{"timestamp": 0, "type": kind, "data": data}]}).encode()
            for kind, data in [
                ("DANCE", {}),
                ("SIMULATION_ENDS", {}),
                ("SET_RESOURCE_STATE", {"resources": "0", "state": "1"}),
                ("QUERY", {"requests": {"air": {}}}),
                ("EXECUTE_JOB", {"alloc": "0"}),
                ("EXECUTE_JOB", {"job_id": "w0!b", "alloc": "0", "storage_mapping": {"disk": 1}}),
                ("EXECUTE_JOB", {"job_id": "w0!b", "alloc": "2", "mapping": {"0": True}}),
                ("EXECUTE_JOB", {"job_id": "w0!b", "alloc": "2", "mapping": {"0": 1.5}}),
                ("SET_JOB_METADATA", {"job_id": "w0!b", "metadata": "a\nb"}),
                ("SET_JOB_METADATA", {"job_id": "w0!b", "metadata": 'a"b'}),
                ("KILL_JOB", {"job_ids": "w0!long"}),
                ("KILL_JOB", {"job_ids": []}),
                ("KILL_JOB", {"job_ids": ["w0!long", None]}),
                ("CALL_ME_LATER", {"timestamp": 1e300}),
                ("REGISTER_JOB", {"job_id": "w0!n", "job": 7}),
                ("NOTIFY", {"type": "coffee"}),
            ]
        ),
    ],
)
def test_a_reply_that_is_no_message_is_refused_with_its_number(reply):
    simulation = Simulation(machines(4), {"w0": WORKLOAD}, lambda message: reply, settings=SimulationSettings())
    with pytest.raises(SimulationStopped) as stopped:
        simulation.run()
    assert line_of(stopped).startswith("stopped at date 0.000000: the scheduler's reply to message 1 ")


def mapped(mapping):
    """The start of a job on one machine, with this mapping."""
    return "EXECUTE_JOB", {"job_id": "w0!b", "alloc": "2", "mapping": mapping}


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (("QUERY", {"requests": {"consumed_energy": {}}}), "run with --energy"),
        (execute("w0!c"), "job 'w0!c' does not exist"),
        (execute("w0!b", "3-1"), "3-1 in '3-1' ends before it begins"),
        (execute("w0!b", "0,1"), "'0,1' is not a list of machines"),
        (execute("w0!b", "\u0662"), "is not a list of machines"),
        (mapped({"00": 0}), "its mapping"),
        (mapped({"0": -1}), "its mapping"),
        (mapped({"0": "1"}), "its mapping"),
        (mapped({}), "requests 1 machines and gets 0"),
        (register("w0!n", subtime=5000), "later than its registration"),
        (register("w0!a!n"), "job 'w0!a!n'"),
        (register("w1!n"), "belongs to no known workload"),
        (register("w0!n", profile="none"), "job 'w0!n'"),
        (execute("w0!b", "4"), "machine 4 does not exist, the platform has 0-3"),
        (execute("w0!b", "2-3"), "job 'w0!b' requests 1 machines and gets 2"),
        (execute("w0!a"), "job 'w0!a' has ended"),
        (execute("w0!long"), "its state is RUNNING"),
        (execute("w0!later"), "its state is NOT_SUBMITTED"),
        (execute("w0!b", "1"), "machine 1 already runs a job"),
        (("REJECT_JOB", {"job_id": "w0!long"}), "its state is RUNNING"),
        (kill("w0!b"), "its state is SUBMITTED"),
        (kill("w0!a"), "job 'w0!a' has ended"),
        (call(10), "not in the future"),
        (register("w0!n", res="1"), "job 'w0!n'.res: '1' is not"),
        (register("w0!n", walltime=0), "job 'w0!n'.walltime: 0 is not"),
        (register("w0!a"), "job 'w0!a' exists or existed before"),
        (add_profile("q", "w0", type="delay", delay=0), "profile 'q'.delay: 0 is not"),
        (add_profile("p", "w0"), "exists or existed before"),
        (("CHANGE_JOB_STATE", {"job_id": "w0!b", "job_state": "REJECTED"}), "its state is SUBMITTED"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_with_its_place(decision, said):
    workload = document(job("a"), job("long", profile="p"), job("b", 10), job("later", 99), p=50)
    started = [execute("w0!a"), execute("w0!long", "1")]
    with pytest.raises(SimulationStopped) as stopped:
        simulate(workload, at({0: started, 10: [call(60), decision]}), settings=REUSE)
    line = line_of(stopped)
    assert line.startswith("stopped at date 10.000000: the scheduler's reply to message 3, events[1], ")
    assert said in line


def test_what_a_scheduler_may_send_in_two_ways_means_the_same():
    jobs = [job(name, res=2) for name in "abc"]
    starts = [
        ("EXECUTE_JOB", {"job_id": f"w0!{name}", "alloc": alloc, **mapping})
        for name, alloc, mapping in (
            ("a", "0", {"mapping": {"0": "0", "1": "0"}}),
            ("b", " 1-1  1 ", {"mapping": {"1": 0, "0": 0}}),
            ("c", "3 2", {}),
        )
    ]
    text = "café, {'a': 1}\t:"
    noted = ("SET_JOB_METADATA", {"job_id": "w0!a", "metadata": text})
    outcome = simulate(document(*jobs), at({0: [noted, *starts]}))
    ended = {record.job_id: record for record in outcome.records}
    assert {name: str(record.allocated_resources) for name, record in ended.items()} == {"a": "0", "b": "1", "c": "2-3"}
    assert next(csv.reader([job_row(ended["a"])]))[-1] == text


def test_a_job_that_computes_may_be_mapped_to_its_machines_once_each():
    jobs = document(job("a", res=2, profile="work"), work={"type": "parallel_homogeneous", "cpu": 7e9})
    start = {"job_id": "w0!a", "alloc": "0-1"}
    (record,) = simulate(jobs, at({0: [("EXECUTE_JOB", start | {"mapping": {"0": 1, "1": 0}})]})).records
    assert record.execution_time == 7
    said = "job 'w0!a': its profile 'work' computes, and its mapping gives several executors one machine"
    with pytest.raises(SimulationStopped, match=said):
        simulate(jobs, at({0: [("EXECUTE_JOB", start | {"mapping": {"0": 1, "1": 1}})]}))


def test_registrations_cannot_continue_where_they_are_off():
    with pytest.raises(SimulationStopped, match=r"NOTIFY: registration cannot continue, since it is off"):
        simulate(WORKLOAD, at({0: [("NOTIFY", {"type": "continue_registration"})]}))


def test_a_decision_for_later_is_refused_at_its_date_with_the_message_that_it_answers():
    script = {0: [execute("w0!a"), (*call(2), 4), (*execute("w0!a"), 5), ("THINK", 6)]}
    with pytest.raises(SimulationStopped) as stopped:
        simulate(WORKLOAD, at(script))
    assert line_of(stopped).startswith(
        "stopped at date 4.000000: the scheduler's reply to message 2, events[1], CALL_ME_LATER: the scheduler "
        "requests a call at 2.000000"
    )


# Mutations of a conversation in which all is well
