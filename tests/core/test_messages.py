"""Batsim's messages, of both versions: each recorded one is read, and none of another form passes."""

from __future__ import annotations

import copy
import json

import pytest

from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4, Conversation5
from batfill.model.preemption import Urgent
from batfill.protocol.batsim4 import BATSIM_4
from batfill.protocol.batsim5 import BATSIM_5
from golden import RUNS, recording
from golden5 import recordings
from plugin import as_message, begins, completed, event, killed, notify, submitted
from sweeps import LATER
from through5 import ACKNOWLEDGE, Through5, greeted, handshake

# Recordings


def recorded_4(name):
    """A conversation, and the recorded messages."""
    run = recording(name)
    talk = Conversation4(Agent(json.loads((run.folder / "run.json").read_text())["scheduler"]))
    return talk, [asked for asked, _ in run.exchanges]


def messages_5(recorded):
    lines = (recorded.folder / "messages.jsonl").read_text().splitlines()[2::2]
    return [line.partition('"msg": ')[2][:-1].encode() + b"\0" for line in lines]


def recorded_5(name):
    recorded = next(one for one in recordings(name) if one.name == name)
    path = recorded.folder / "run.json"
    options = json.loads(path.read_text())["scheduler"] if path.exists() else {}
    return greeted(Agent(options), ACKNOWLEDGE if name.endswith("acknowledged") else ""), messages_5(recorded)


def test_every_recorded_message_has_a_form_that_is_read():
    of_4 = [recorded_4(name)[1] for name in RUNS]
    of_5 = [messages_5(recorded) for recorded in recordings()]
    for version, runs in ((BATSIM_4, of_4), (BATSIM_5, of_5)):
        read = [version.reader.decode(text.rstrip(b"\0")) for messages in runs for text in messages]
        means = {event.means for message in read for event in message.events}
        assert means >= {"begin", "submitted", "completed", "nothing", "called", "end"}


# Mutations

DELETED = object()
VALUES = [
    DELETED, None, True, False, 0, 1, -1, -5, 0.5, 2**31, 2**63, 10**400, 1e300, "", "no", "0", "w1!1", [], {}, [None],
]  # fmt: skip
# What is read wherever it stands, and in a list of machines.
READ = {"now", "events", "timestamp", "type", "event_type", "data", "event", "config", "profiles", "job_id", "job"}
READ |= {"subtime", "submission_time", "res", "resource_request", "profile", "profile_id", "job_state", "state"}
READ |= {"compute_resources", "computation_hosts", "storage_resources", "dynamic-jobs-enabled", "resources"}
MACHINES = {"compute_resources", "computation_hosts", "storage_resources", "storage_hosts"}
OPTIONAL = {"storage_resources", "external_event"}


def is_read(path):
    if "workloads" in path or "profiles" in path[:-1] or path[-2:] == ("event", "profiles"):
        return False
    return path[-1] == "id" if MACHINES & {*path[:-1]} else path[-1] in READ


def kind_of(value):
    return "number" if type(value) in (int, float) else type(value)


def paths_of(value, path=()):
    """The path of every value in a JSON value, the first of an array standing for all."""
    yield path, value
    if type(value) is dict:
        for name, inner in list(value.items())[:14]:
            yield from paths_of(inner, (*path, name))
    elif type(value) is list and value:
        yield from paths_of(value[0], (*path, 0))


def replaced(holder, path, value):
    """A copy with this value at this path, or without it; what does not change is shared."""
    if not path:
        return value
    changed = holder.copy()
    if path[1:] or value is not DELETED:
        changed[path[0]] = replaced(holder[path[0]], path[1:], value)
    else:
        del changed[path[0]]
    return changed


def mutants(message):
    """(path, what was there, what is there now, the message); numbers also change a little, texts by a letter."""
    for path, was in list(paths_of(message))[1:]:
        more = {
            "number": lambda was: [was + 1, was - 1, -was, str(was)],
            str: lambda was: [was + "x", was.swapcase()],
            dict: lambda was: [{**was, "extra": 1}],
            list: lambda was: [[*was, *was]],
        }
        for value in [*VALUES, *more.get(kind_of(was), lambda _: [])(was)]:
            if kind_of(value) != kind_of(was) or value != was:
                yield path, was, value, replaced(message, path, value)


def fork(talk):
    """A copy that goes on by itself; requests and options, which do not change, are shared."""
    memo = {id(each): each for each in (talk.agent.chosen, *talk.agent.requests.values())}
    if (cluster := talk.agent.__dict__.get("cluster")) is not None:  # once the simulation has begun
        memo[id(cluster)] = cluster.fork()  # its arrays share memory
    return copy.deepcopy(talk, memo)


@pytest.mark.parametrize(
    ("recorded", "name", "first"),
    [
        (recorded_4, "overruns-rejects-failures", 600),
        LATER(recorded_4, "small-first-kill-requeue-acknowledged", 600),
        (recorded_5, "small-external-events", 6),  # which was recorded with another scheduler
        (recorded_5, "small-first-kill-requeue", 600),
    ],
)
def test_a_message_that_differs_in_a_field_is_answered_or_refused_in_one_line(recorded, name, first):
    """No other exception, whatever a field holds; one that is read holds what it must."""
    talk, messages = recorded(name)
    seen, lines = set(), []
    for asked in messages[:first]:
        message = json.loads(asked.rstrip(b"\0"))
        for profiles in message["events"][0].get("data", {}).get("profiles", {}).values():
            for name in list(profiles)[3:]:  # thousands, which make each mutant slow
                del profiles[name]
        kinds = {(e.get("type", e.get("event_type")), str(e)[-30:] * ("External" in str(e))) for e in message["events"]}
        for path, was, value, changed in mutants(message) if kinds - seen else ():
            try:
                fork(talk).answer(json.dumps(changed).encode() + talk.version.suffix)
            except BatfillError as error:
                lines.append(str(error))
                assert lines[-1].startswith((f"message {talk.messages + 1} from Batsim ", "option kill")), path
            else:
                fits = kind_of(value) == kind_of(was) or (value is DELETED and OPTIONAL & {*path})
                assert fits or not is_read(path) or type(path[-1]) is int, (path, value)
        seen |= kinds
        talk.answer(asked)
    assert len(lines) > 300
    assert all("\n" not in line and len(line) < 500 for line in lines)


# What no field shows

BEGIN, CALL, NO_MORE = begins(range(4)), event("REQUESTED_CALL"), notify("no_more_static_job_to_submit")
HUGE = {**BEGIN, "data": {**BEGIN["data"], "nb_resources": 2**63}}  # a number that is not believed
HOSTS = {
    "processors": lambda **options: Conversation4(Agent({"reservation": "processors", **options})),
    "machines": lambda **options: Conversation4(Agent({"reservation": "machines", **options})),
    "Batsim 5": lambda **options: Through5(Agent(options), deviation_s=0.0),
}


def refused_line(talk, frame):
    with pytest.raises(BatfillError) as refused:
        talk.answer(frame)
    (line,) = str(refused.value).splitlines()
    assert len(line) < 300
    return line


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "told",
    [
        [(-5, BEGIN)],
        [(0, begins([0, 0]))],
        [(0, begins([0, 1], [1]))],
        [(0, begins([0, 1, 2, 2**63 - 1]))],
        [(0, CALL)],
        [(0, BEGIN), (0, BEGIN)],
        [(0, BEGIN), (0, event("A\nB"))],
        [(0, BEGIN), (5, CALL), (4, CALL)],
        [(0, BEGIN), (2e12, CALL)],
        [(0, BEGIN), (0, submitted("1", 0, 10, -1))],
        [(0, BEGIN), (0, submitted("1", 0, 0, 4))],
        [(0, BEGIN), (0, submitted("1", 0, 10, 4)), (1, submitted("1", 0, 10, 4))],
        [(0, BEGIN), (0, completed("x" * 5000))],
        [(0, BEGIN), (0, submitted("1", 0, 10, 4), submitted("2", 0, 10, 4)), (1, completed("2"))],
        [(0, BEGIN), (0, submitted("1", 0, 10, 1)), (1, completed("1")), (1, completed("1"))],
        [(0, BEGIN), (1, notify("event_machine_unavailable", resources="4"))],
        [(0, BEGIN), (1, notify("event_machine_available", resources="3-1"))],
        [(0, HUGE), (1, notify("event_machine_unavailable", resources="0-99999999999"))],
        [(0, BEGIN), (1, event("SIMULATION_ENDS"), NO_MORE)],
    ],
)
def test_what_cannot_be_taken_now_is_refused_with_its_message(told, host):
    talk = HOSTS[host]()
    for message in told[:-1]:
        talk.answer(as_message(*message))
    line = refused_line(talk, as_message(*told[-1]))
    assert line.startswith(f"message {len(told) + (host == 'Batsim 5')} from Batsim ")


@pytest.mark.parametrize("version", [BATSIM_4, BATSIM_5], ids=lambda version: version.name)
def test_what_is_no_message_is_refused_with_its_number(version):
    texts = b"", b"coffee", b"[]", b'{"now": NaN, "events": []}', b'{"now": 0, "events": []}\0\0', b'{"events": []}'
    texts += b'{"now": 0, "events": [7]}', b'{"now": 0, "events": [], "more": ' + b"[" * 10**5, handshake("text")
    for text in (*texts, f'{{"now": 0, "events": [{{"{version.type_field}": "\xff"}}]}}'.encode("latin-1")):
        talk = Conversation4(Agent({})) if version is BATSIM_4 else greeted(Agent({}))
        assert refused_line(talk, text).startswith(f"message {1 + (version is BATSIM_5)} from Batsim ")


def test_redis_and_notices_that_were_not_agreed_upon_are_refused():
    redis = as_message(0, BEGIN).replace(b'"redis-enabled": false', b'"redis-enabled": true')
    assert refused_line(Conversation4(Agent({})), redis).endswith("does not use; start Batsim without enable_redis")
    agreed, other = Conversation4(Agent({})), Conversation4(Agent({}))
    agreed.answer(as_message(0, begins(range(4), unknown=True)))
    agreed.answer(as_message(0, notify("coffee")))
    other.answer(as_message(0, BEGIN))
    assert "'coffee'" in refused_line(other, as_message(0, notify("coffee")))


@pytest.mark.parametrize("host", HOSTS)
def test_a_message_may_be_late_by_what_the_platforms_latencies_add_up_to(host):
    talk = HOSTS[host]()
    talk.answer(as_message(0, BEGIN))
    assert b"w0!1" in talk.answer(as_message(0.6, submitted("1", 0, 10, 1)))
    assert b"w0!2" in talk.answer(as_message(30, {**submitted("2", 1, 10, 1), "timestamp": 12}, completed("1")))


@pytest.mark.parametrize("host", HOSTS)
def test_a_storage_machine_may_leave_and_return(host):
    talk = HOSTS[host]()
    gone, back = (notify(f"event_machine_{what}", resources="4") for what in ("unavailable", "available"))
    jobs = submitted("1", 0, 10, 1), submitted("2", 0, 10, 4)
    assert b"w0!1" in talk.answer(as_message(0, begins(range(4), [4]), gone, *jobs))
    assert b"w0!2" in talk.answer(as_message(5, completed("1"), back))


@pytest.mark.parametrize("host", ["processors", "Batsim 5"])
@pytest.mark.parametrize("code", [-1, -2])
@pytest.mark.parametrize("end_first", [True, False])
def test_a_killed_job_may_report_its_end_after_the_kill_and_starts_once_it_has_ended(host, code, end_first):
    talk = HOSTS[host](small="class", divider=5, kill="always")
    talk.answer(as_message(0, begins(range(4), dynamic=True)))
    talk.answer(as_message(0, submitted("1", 0, 50, 1, small=True)))
    assert b"KILL_JOB" in talk.answer(as_message(5, CALL))
    end, report = killed("1")
    end["data"]["return_code"] = code
    said = talk.answer(as_message(5, *([end, report] if end_first else [report, end])))
    assert b"REGISTER_JOB" in said
    assert b"EXECUTE_JOB" in said
    assert b"KILL_JOB" not in talk.answer(as_message(6, report, CALL))


@pytest.mark.parametrize("host", ["processors", "Batsim 5"])
def test_a_registered_job_waits_for_its_acknowledgement(host):
    agent = Agent({"small": "class", "divider": 5, "kill": "always"})
    talk = Conversation4(agent) if host == "processors" else Through5(agent, ACKNOWLEDGE, deviation_s=0.0)
    talk.answer(as_message(0, begins(range(4), dynamic=True, acknowledge=True)))
    talk.answer(as_message(0, submitted("1", 0, 50, 1, small=True)))
    talk.answer(as_message(5, CALL))
    said = talk.answer(as_message(5, *killed("1")))
    assert b"REGISTER_JOB" in said
    assert b"EXECUTE_JOB" not in said
    assert b"w0!1#1" in talk.answer(as_message(5, submitted("1#1", 0, 50, 1)))
    assert "again, which waits or runs" in refused_line(talk, as_message(5, submitted("1#1", 0, 50, 1)))


@pytest.mark.parametrize("host", ["processors", "Batsim 5"])
def test_a_job_that_is_stopped_for_an_urgent_one_is_registered_after_the_delay_and_decided_on_once_it_is_known(host):
    agent = Agent({"urgent": Urgent("list", frozenset("2")), "preempt": "youngest", "requeue-delay": 60})
    talk = Conversation4(agent) if host == "processors" else Through5(agent, ACKNOWLEDGE, deviation_s=0.0)
    talk.answer(as_message(0, begins(range(4), dynamic=True, acknowledge=True)))
    talk.answer(as_message(0, submitted("1", 0, 50, 4)))
    said = talk.answer(as_message(5, submitted("2", 5, 5, 2), notify("no_more_static_job_to_submit")))
    assert b"KILL_JOB" in said
    assert b"EXECUTE_JOB" not in said
    said = talk.answer(as_message(5, *killed("1")))
    assert b"EXECUTE_JOB" in said
    assert b"CALL_ME_LATER" in said
    assert b"REGISTER_JOB" not in said
    assert b"EXECUTE_JOB" not in talk.answer(as_message(10, completed("2")))
    said = talk.answer(as_message(65, CALL))
    assert b"w0!1#1" in said
    assert b"registration_finished" not in said
    said = talk.answer(as_message(65, submitted("1#1", 0, 50, 4)))
    assert b"EXECUTE_JOB" in said
    assert b"registration_finished" in said or host == "Batsim 5"


@pytest.mark.parametrize("host", ["processors", "Batsim 5"])
def test_a_job_that_an_urgent_one_needs_at_once_is_not_started_to_be_killed(host):
    talk = HOSTS[host](urgent=Urgent("list", frozenset("2")), preempt="youngest")
    talk.answer(as_message(0, begins(range(4), dynamic=True)))
    talk.answer(as_message(0, submitted("1", 0, 50, 2)))
    said = talk.answer(as_message(1, submitted("2", 1, 5, 4), submitted("3", 1, 9, 2)))  # the last is backfilled
    assert said.count(b"KILL_JOB") == 1
    assert b"EXECUTE_JOB" not in said
    said = talk.answer(as_message(1, *killed("1")))
    assert said.count(b"EXECUTE_JOB") == 1
    said = talk.answer(as_message(6, completed("2")))
    assert b"w0!1#1" in said
    assert b"w0!3" in said
    assert b"w0!3#1" not in said


@pytest.mark.parametrize(
    ("talk", "frames", "start"),
    [
        (Conversation4, [b"now"], b""),
        (Conversation4, [as_message(0, BEGIN), as_message(5, completed("1"))], b""),
        (Conversation5, [b"text"], b"\2\0\0\0"),  # Batsim takes flags before the hello
        (Conversation5, [handshake("{}"), b"now\0"], b""),
    ],
)
def test_the_last_answer_is_one_that_ends_batsim(talk, frames, start):
    talk = talk(Agent({}))
    for frame in frames[:-1]:
        talk.answer(frame)
    refused_line(talk, frames[-1])
    last, version = talk.last_answer(), talk.version
    assert last.startswith(start)
    said = json.loads(last.removeprefix(start))
    gave_up = {"timestamp": said["now"], version.type_field: "SCHEDULER_GAVE_UP", version.data_field: {}}
    assert said == {"now": 5 if b'"now": 5' in frames[-1] else 0, "events": [gave_up]}


def test_the_end_of_a_simulation_is_answered_as_usual_whatever_goes_wrong():
    talk = Conversation4(Agent({}))
    talk.answer(as_message(0, BEGIN))
    talk.answer(as_message(5, event("SIMULATION_ENDS")))
    assert json.loads(talk.last_answer()) == {"now": 5, "events": []}


# The scheduler's options in Batsim's text


def begun_with(text, **options):
    begin = begins(range(4), dynamic=True)
    begin["data"]["config"]["sched-config"] = text
    talk = Conversation4(Agent(options))
    talk.answer(as_message(0, begin))
    return talk


def greeted_with(text, **options):
    return greeted(Agent(options), text)


@pytest.mark.parametrize("connected", [begun_with, greeted_with])
def test_options_in_batsims_text_are_taken_as_those_of_the_command_line(connected, caplog):
    assert [connected(text).agent.stated()["policy"] for text in ("", "{}")] == ["fcfs", "fcfs"]
    taken = connected('{"policy": "saf", "threshold": "48h"}', backfill="spf", threshold=172800).agent
    assert [taken.stated()[name] for name in ("policy", "backfill", "threshold")] == ["saf", "spf", 172800]
    assert caplog.messages == []
    assert connected("saf please").agent.stated()["policy"] == "fcfs"
    assert "is ignored: 'saf please'" in caplog.text


@pytest.mark.parametrize("connected", [begun_with, greeted_with])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"polcy": "saf"}', "option 'polcy' is unknown"),
        ('{"policy": "best"}', "policy 'best' is unknown"),
        ('{"policy": "wfp3"}', "'wfp3', but the scheduler was started with 'saf'"),
        ('{"acknowledge_dynamic_jobs": 1}', "it is true or false"),
        (f'{{"threshold": {"9" * 400}}}', "threshold"),
    ],
)
def test_options_in_batsims_text_that_cannot_be_are_refused(connected, text, said):
    with pytest.raises(BatfillError, match=r"^Batsim's ") as refused:
        connected(text, policy="saf")
    (line,) = str(refused.value).splitlines()
    assert said in line
