"""Replies that a scheduler must not send: one line that says which message, which event, and what is wrong with it."""

from __future__ import annotations

import csv
import json
import re
from copy import deepcopy
from random import Random

import pytest

from batfill.batsim_files.results import job_row
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings, SimulationStopped
from small_runs import (
    FINISHED,
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


LACKS, HAS = "needs 'now', a number, and lacks it", "has events[0], which needs"
OF_W0_A = '"timestamp": 0, "type": "REJECT_JOB", "data": {"job_id": "w0!a"'


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("hello", "line 1 column 1 (char 0): 'hello'"),
        ("", "is not JSON"),
        ('{"now": NaN, "events": []}', "is not JSON"),
        ('{"now": 1e999, "events": []}', "is not JSON: number is infinity"),
        ('{"now": 0,\n"events": [}', r"""line 2 column 12 (char 22): '{"now": 0,\n"events": [}'"""),
        (b"\xff\xfe", "is not JSON"),
        ("[" * 5000, "is not JSON"),
        ("[]", "needs 'now', a number, and is not an object"),
        ('{"events": []}', LACKS),
        ('{"now": true, "events": []}', "needs 'now', a number, and has True"),
        ('{"now": 1e300, "events": []}', "has 1e+300 as its 'now'; batfill's limit is 1e+12 s"),
        ('{"now": -0.5, "events": []}', "has -0.5 as its 'now', which is not a date from 0"),
        ('{"now" : 0, "n\\u006fw": 0, "events": []}', "has the member 'now' twice in one object"),
        (  # with as many quotes as it has when it is parsed and written
            '{"now": 0, "now": 0, "events": [{"timestamp": 0, "type": "SET_JOB_METADATA", "data": {"job_id": "w0!a", '
            '"metadata": "\\u0022\\u0022"}}]}',
            "has the member 'now' twice in one object",
        ),
        ('{"now": 0, "events": [], "event": []}', "has a member 'event', which the protocol does not know"),
        (f'{{"now": 0, "events": [{{{OF_W0_A}, "job_id": 7}}}}]}}', "has the member 'job_id' twice in one object"),
        (
            f'{{"now": 0, "events": [{{{OF_W0_A}}}, "x": 7}}]}}',
            "has events[0] (REJECT_JOB), which has a member 'x', which th",
        ),
        ('{"now": 0}', "needs 'events', an array, and lacks it"),
        ('{"now": 0, "events": {}}', "needs 'events', an array, and has {}"),
        ('{"now": 0, "events": [1]}', f"{HAS} 'timestamp', a number, and is not an object"),
        ('{"now": 0, "events": [{"timestamp": "0"}]}', f"{HAS} 'timestamp', a number, and has '0'"),
        ('{"now": 0, "events": [{"timestamp": 0, "type": 7}]}', f"{HAS} 'type', a string, and has 7"),
        ('{"now": 0, "events": [{"timestamp": 0, "type": "A\\nB"}]}', r"('A\nB'), which needs 'data'"),
        (
            '{"now": 0, "events": [{"timestamp": 5, "type": "REJECT_JOB", "data": {}}]}',
            "has events[0] (REJECT_JOB), which has the timestamp 5, which is not a date from 0 to the reply's 'now'",
        ),
        (
            f'{{"now": 9, "events": [{{{OF_W0_A}}}}}, {{"timestamp": -1, "type": "REJECT_JOB", "data": {{}}}}]}}',
            "has events[1] (REJECT_JOB), which has the timestamp -1, which is not a date from that of the previous",
        ),
    ],
)
def test_a_reply_that_is_no_message_is_refused_with_its_number(reply, said):
    reply = reply.encode() if type(reply) is str else reply
    simulation = Simulation(machines(4), {"w0": WORKLOAD}, lambda message: reply, settings=SimulationSettings())
    with pytest.raises(SimulationStopped) as stopped:
        simulation.run()
    line = line_of(stopped)
    assert line.startswith("stopped at date 0.000000: the scheduler's reply to message 1 ")
    assert said in line


def mapped(mapping):
    """The start of a job on one machine, with this mapping."""
    return "EXECUTE_JOB", {"job_id": "w0!b", "alloc": "2", "mapping": mapping}


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (("DANCE", {}), "DANCE: not known; known: EXECUTE_JOB, REJECT_JOB, KILL_JOB"),
        (("A\nB", {}), r"'A\nB': not known; known: EXECUTE_JOB"),
        (("SIMULATION_ENDS", {}), "SIMULATION_ENDS: not known"),
        (("SET_RESOURCE_STATE", {"resources": "0", "state": "1"}), "machines stay in their power states here"),
        (("QUERY", {"requests": {"consumed_energy": {}}}), "the energy consumed is not simulated; run with --energy"),
        (("QUERY", {"requests": {"air": {}}}), "requests {'air': {}}; only {'consumed_energy': {}} is answered here"),
        (("EXECUTE_JOB", {"alloc": "0"}), "EXECUTE_JOB: needs 'job_id', a string, and lacks it"),
        (execute("w0!c"), "job 'w0!c' does not exist"),
        (execute("w0!b", "3-1"), "3-1 in '3-1' ends before it begins"),
        (execute("w0!b", "0,1"), "'0,1' is not a list of machines such as \"0-3 7\""),
        (execute("w0!b", "\u0662"), "is not a list of machines such as"),
        (mapped({"0": 1.5}), "its mapping must give each executor 0, 1, ... a place in its 1 machines"),
        (mapped({"0": True}), "executor 0 has True"),
        (mapped({"00": 0}), "executor 0 has None"),
        (mapped(None), "needs 'mapping', an object, and has None"),
        (
            ("KILL_JOB", {"job_ids": ["w0!long"], "reason": ""}),
            "has a member 'reason', which the protocol does not know",
        ),
        (
            ("SET_JOB_METADATA", {"job_id": "w0!b", "metadata": "a\nb"}),
            r"holds '\n', which its row of the csv file cannot",
        ),
        (register("w0!n", subtime=5000), "has the subtime 5000, later than its registration"),
        (register("w0!a!n"), "'w0!a!n' is not the id of a job, such as 'w0!1'"),
        (execute("w0!b", "4"), "machine 4 does not exist, the platform has 0-3"),
        (execute("w0!b", "2-3"), "job 'w0!b' requests 1 machines and gets 2"),
        (execute("w0!a"), "job 'w0!a' has ended"),
        (execute("w0!long"), "job 'w0!long' cannot start: its state is RUNNING, not SUBMITTED"),
        (execute("w0!later"), "job 'w0!later' cannot start: its state is NOT_SUBMITTED, not SUBMITTED"),
        (execute("w0!b", "1"), "job 'w0!b' cannot start on 1: machine 1 already runs a job"),
        (("REJECT_JOB", {"job_id": "w0!long"}), "cannot be rejected: its state is RUNNING, not SUBMITTED"),
        (("KILL_JOB", {"job_ids": "w0!long"}), "KILL_JOB: needs 'job_ids', an array, and has 'w0!long'"),
        (kill("w0!b"), "job 'w0!b' cannot be killed: its state is SUBMITTED, it does not run"),
        (kill("w0!a"), "job 'w0!a' has ended"),
        (("KILL_JOB", {"job_ids": ["w0!long", None]}), "None in 'job_ids' is not a job's id"),
        (call(10), "requests a call at 10.000000, which is not in the future"),
        (("CALL_ME_LATER", {"timestamp": 1e300}), "requests a call at 1e+300; batfill's limit is 1e+12 s"),
        (("REGISTER_JOB", {"job_id": "w0!n", "job": 7}), "needs 'job', an object, and has 7"),
        (register("w0!n", res="1"), "job 'w0!n'.res: '1' is not a whole number from 1 to 2147483647"),
        (register("w0!n", walltime=0), "job 'w0!n'.walltime: 0 is not a number > 0"),
        (register("w0!a"), "job 'w0!a' exists or existed before"),
        (add_profile("q", "w0", type="delay", delay=0), "profile 'q'.delay: 0 is not above 0, as Batsim requires"),
        (("CHANGE_JOB_STATE", {"job_id": "w0!b", "job_state": "REJECTED"}), "in this way; send REJECT_JOB"),
        (("NOTIFY", {"type": ["registration_finished"]}), "needs 'type', a string, and has ['registration_finished']"),
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

SCRIPT = {
    "begin": [add_profile("p", "w0")],
    0: [execute("w0!a"), register("w0!n", profile="p"), ("SET_JOB_METADATA", {"job_id": "w0!n", "metadata": "x"})],
    10: [execute("w0!b", "1-1"), ("REJECT_JOB", {"job_id": "w0!wide"}), execute("w0!n", "2"), call(12)],
    12: [kill("w0!n", "w0!b"), FINISHED],
}
VALUES = [
    None, True, False, 0, -1, 2**70, 1.5, 0.0, 1e300, "", "w0!a", "w0!b", "0-3", "\u0662", "0\u00a01", "1_0", "\n",
    "x" * 300, [], ["w0!b"], [[]], {}, {"a": 1}, {"0": 0}, {"0": 0.5},
]  # fmt: skip


def mutated(text: bytes, random: Random) -> bytes:
    """The reply with a byte changed, its end lost, a member twice, or things in it lost, replaced, added or doubled."""
    kind = random.randrange(7)
    if kind == 0:
        return text[: random.randrange(len(text))]
    if kind == 1:
        place = random.randrange(len(text))
        return text[:place] + bytes([random.randrange(256)]) + text[place + 1 :]
    if kind == 2:
        member = random.choice(list(re.finditer(rb'\{("\w+") ?: ', text)))
        again = member[1] + random.choice([b": 0, ", b" : 0, ", b'\t:"\\"", '])
        return text[: member.start(1)] + again + text[member.start(1) :]
    reply = json.loads(text)
    for _ in range(random.randint(1, 2)):
        holders = [reply]
        for holder in holders:
            inner = holder.values() if isinstance(holder, dict) else holder
            holders += [value for value in inner if isinstance(value, dict | list)]
        holder = random.choice(holders)
        if isinstance(holder, dict) and random.random() < 0.2:
            holder[random.choice(["mapping", "walltime", "job_id", "x"])] = deepcopy(random.choice(VALUES))
        if not holder:
            continue
        key = random.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        if random.random() < 0.3:
            del holder[key]
        elif isinstance(holder, list) and random.random() < 0.5:
            holder.append(holder[key])
        else:
            holder[key] = deepcopy(random.choice(VALUES))
    return json.dumps(reply, ensure_ascii=random.random() < 0.5).encode()


def once(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names))
    return dict(pairs)


def is_of(*types):
    return lambda value: type(value) in types


is_integer, is_number, is_text, is_object = is_of(int), is_of(int, float), is_of(str), is_of(dict)


def is_id(value):
    return is_text(value) and re.fullmatch(r"[^!]+![^!]+", value)


def is_alloc(value):
    return is_text(value) and set(value) <= set("0123456789- ")


def is_ids(value):
    return type(value) is list and value and all(map(is_id, value))


def is_mapping(value):
    return is_object(value) and all(
        key.isascii() and (is_integer(place) or (is_text(place) and place.isascii())) for key, place in value.items()
    )


def is_metadata(value):
    return is_text(value) and set(value).isdisjoint('"\r\n')


MEMBERS = {
    "EXECUTE_JOB": ({"job_id": is_id, "alloc": is_alloc}, {"mapping": is_mapping}),
    "REJECT_JOB": ({"job_id": is_id}, {}),
    "KILL_JOB": ({"job_ids": is_ids}, {}),
    "CALL_ME_LATER": ({"timestamp": is_number}, {}),
    "REGISTER_JOB": ({"job_id": is_id, "job": is_object}, {}),
    "REGISTER_PROFILE": ({"workload_name": is_text, "profile_name": is_text, "profile": is_object}, {}),
    "SET_JOB_METADATA": ({"job_id": is_id, "metadata": is_metadata}, {}),
    "CHANGE_JOB_STATE": ({"job_id": is_id, "job_state": is_text}, {}),
    "NOTIFY": ({"type": is_text}, {}),
}


def assert_has(holder, required, optional):
    """It has these members, all of the right kind, and no others."""
    assert required.keys() <= holder.keys() <= {*required, *optional}, holder
    for name, value in holder.items():
        assert (required.get(name) or optional[name])(value), (name, value)


def assert_means_what_it_says(text):
    """This reply, which was accepted, leaves nothing to guess."""
    reply = json.loads(text, object_pairs_hook=once)
    assert_has(reply, {"now": is_number, "events": lambda value: type(value) is list}, {})
    last = 0
    for event in reply["events"]:
        assert_has(event, {"timestamp": is_number, "type": is_text, "data": is_object}, {})
        assert last <= event["timestamp"] <= reply["now"]
        last = event["timestamp"]
        assert_has(event["data"], *MEMBERS[event["type"]])


def test_mutated_replies_run_as_they_are_meant_or_are_refused_in_one_line():
    refused, count = 0, 1500
    for seed in range(count):
        random = Random(seed)
        victim = random.randrange(1, 5)  # the number of the message
        left, sent = dict(SCRIPT), []

        def exchange(text, random=random, victim=victim, left=left, sent=sent):
            message = json.loads(text)
            now = message["now"]
            begins = message["events"][0]["type"] == "SIMULATION_BEGINS"
            decisions = left.pop("begin" if begins else now, [])
            events = [{"timestamp": now, "type": kind, "data": data} for kind, data in decisions]
            reply = json.dumps({"now": now, "events": events}).encode()
            sent.append(mutated(reply, random) if len(sent) + 1 == victim else reply)
            return sent[-1]

        said = "stopped at date "
        try:
            Simulation(machines(4), {"w0": WORKLOAD}, exchange, settings=REUSE).run()
        except SimulationStopped as stopped:
            said = str(stopped)
            refused += 1
        assert said.startswith("stopped at date "), seed
        assert "\n" not in said, seed
        if f"reply to message {victim}" not in said:
            assert_means_what_it_says(sent[victim - 1])
    assert count / 2 < refused < count
