"""The scheduler in a conversation with Batsim 5: recorded ones, Batsim 4's in other words, and what is no message."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from procset import ProcSet

from batfill.base.version import __version__
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation5, date_meant
from batfill.protocol.batsim5 import milliseconds_from
from command import conversed
from golden5 import recordings
from through5 import ACKNOWLEDGE, greeted, handshake, hello

# The first message


def test_the_hello_has_every_field_that_batsim_needs_and_asks_for_nothing_without_kills():
    assert hello(Conversation5(Agent({})).answer(handshake("any text"))) == {
        "batprotocol_version": "1.0.0",
        "decision_component_name": "batfill",
        "decision_component_version": __version__,
        "decision_component_commit": "",
        "requested_simulation_features": {},
    }


BEGINS_4 = b'{"now": 0, "events": []}'


# Recorded conversations


def messages_of(recorded):
    """Each message of Batsim's as it was on the wire, with the recorded answer's events, or None if it has none."""
    lines = (recorded.folder / "messages.jsonl").read_text().splitlines()[2:]
    for line, reply in zip(lines[::2], [*lines[1::2], "{}"], strict=False):
        assert json.loads(line)["dir"] == "batsim->edc"
        answered = json.loads(reply).get("msg")
        events = answered.get("events") if type(answered) is dict else None
        yield line.partition('"msg": ')[2][:-1].encode() + b"\0", events


def decisions(events):
    """What is decided: one tuple per job or call, whatever the order."""
    decided = set()
    for event in events:
        kind, data = event["event_type"], event["event"]
        if kind == "ExecuteJobEvent":
            decided.add((kind, data["job_id"], str(ProcSet.from_str(data["allocation"]["host_allocation"]))))
        elif kind == "RejectJobEvent":
            decided.add((kind, data["job_id"]))
        elif kind == "KillJobsEvent":
            decided |= {(kind, job) for job in data["job_ids"]}
        elif kind == "RegisterJobEvent":
            decided.add((kind, data["job_id"], json.dumps(data["job"], sort_keys=True)))
        elif kind == "CallMeLaterEvent":
            decided.add((kind, json.dumps(data["when"], sort_keys=True)))
    return decided


STUDIES = [recorded for recorded in recordings() if (recorded.folder / "run.json").exists()]
OTHERS = [recorded for recorded in recordings() if recorded not in STUDIES]


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param(recorded, id=recorded.name, marks=[pytest.mark.slow] * recorded.name.endswith("-exact-dates"))
        for recorded in STUDIES
    ],
)
def test_the_decisions_of_a_recorded_study_are_made_message_by_message(recorded):
    run = json.loads((recorded.folder / "run.json").read_text())
    talk = Conversation5(Agent(run["scheduler"]))
    text = ACKNOWLEDGE if run["features"]["acknowledge_dynamic_jobs"] else ""
    asked = hello(talk.answer(handshake(text)))["requested_simulation_features"]
    assert asked == {name: True for name, wanted in run["features"].items() if wanted}
    wrong, finished = [], []
    ids = {}  # of calls: ours for the recorded ones
    for message, recorded_events in messages_of(recorded):
        text = message
        for theirs in re.findall(rb'"call_me_later_id": "([^"]+)"', message):
            text = text.replace(b'"%b"' % theirs, b'"%b"' % ids[theirs.decode()].encode())
        answer = json.loads(talk.answer(text))
        calls = (
            [e["event"] for e in events if e["event_type"] == "CallMeLaterEvent"]
            for events in (recorded_events, answer["events"])
        )
        ids |= {theirs["call_me_later_id"]: ours["call_me_later_id"] for theirs, ours in zip(*calls, strict=False)}
        ours, theirs = (decisions(events) for events in (answer["events"], recorded_events))
        if ours != theirs:
            wrong.append((message, ours ^ theirs))
        now = json.loads(message[:-1])["now"]
        assert {answer["now"], *(event["timestamp"] for event in answer["events"])} == {now}
        finished += [event for event in answer["events"] if event["event_type"] == "FinishRegistrationEvent"]
    assert not wrong, f"{len(wrong)} replies differ; the first: {wrong[0]}"
    assert talk.ended
    assert len(finished) == asked.get("dynamic_registration", False)
    assert not finished or recorded_events == answer["events"] == []


# Recorded schedulers that do not decide as EASY would: with other hosts, calls, kills or registrations, or none.
OTHERWISE = re.compile(
    "small-(answer-in-the-past|allocation-commas|decisions-later|force-stop|call|on-off|same-instant|fcfs|"
    "periodic-asked-late|external-events|shared-hosts|too-few-hosts|too-many-hosts|dynamic|"
    "execute-registered-at-once|kill|negative-walltime-registered|null-walltime|requeue)"
)


@pytest.mark.parametrize("recorded", OTHERS, ids=lambda recorded: recorded.name)
def test_a_small_recording_is_decided_as_recorded_or_is_one_of_another_scheduler(recorded):
    """Up to the first difference Batsim's messages are understood; after it they answer another scheduler."""
    talk, n_messages, difference = Conversation5(Agent({})), 0, None
    lines = (recorded.folder / "messages.jsonl").read_text().splitlines()
    if lines:
        talk.answer(bytes.fromhex(json.loads(lines[0])["bytes_hex"]))
    for message, recorded_events in messages_of(recorded):
        events = json.loads(talk.answer(message))["events"]
        n_messages += 1
        try:
            same = recorded_events is None or decisions(events) == decisions(recorded_events)
        except (KeyError, ValueError, AttributeError):  # no decision in Batsim's form
            same = False
        if not same:
            difference = message
            break
    if not recorded.name.startswith("error-"):
        assert (difference is not None) == bool(OTHERWISE.match(recorded.name))
        assert difference or (talk.ended and n_messages > 2)


# Dates


@given(st.floats(0, 1e10))
def test_a_call_is_for_the_first_millisecond_that_is_not_too_early(date_s):
    time = milliseconds_from(date_s)
    assert (time - 1) / 1000 < date_s <= time / 1000 or time == date_s == 0


@given(
    st.one_of(st.floats(0, 1e10), st.builds(lambda n, more: n + more, st.integers(0, 10**9), st.floats(-1e-6, 1e-6)))
)
def test_the_date_of_a_decision_is_rounded_to_microseconds(now):
    assert date_meant(now) == round(now, 6)


# Events by hand


def event(kind, **data):
    return {"event_type": kind, "event": data}


def begins(n=4, storage=()):
    return event(
        "SimulationBeginsEvent",
        host_number=n + len(storage),
        computation_host_number=n,
        storage_host_number=len(storage),
        workloads=[{"name": "w0", "filename": "made"}],
        computation_hosts=[{"id": host, "name": f"node{host}"} for host in range(n)],
        storage_hosts=[{"id": host} for host in storage],
    )


def submitted(name, walltime=100.0, procs=1, *, at=0.0, **fields):
    job = {"resource_request": procs, "walltime": walltime, "profile_id": "w0!d", **fields}
    return event("JobSubmittedEvent", job_id=f"w0!{name}", job=job, submission_time=at)


def completed(name, state="COMPLETED_SUCCESSFULLY"):
    code = 0 if state == "COMPLETED_SUCCESSFULLY" else 2**32 - 1
    return event("JobCompletedEvent", job_id=f"w0!{name}", state=state, return_code=code)


def occurred(data):
    told = {"external_event_type": "GenericExternalEvent", "external_event": {"data": data}}
    return event("ExternalEventOccurredEvent", id="ee0!0", **told)


def as_message(now, *events):
    return json.dumps({"now": now, "events": [{"timestamp": now, **told} for told in events]}).encode() + b"\0"


def answered(talk, now, *events):
    return [(told["event_type"], told["event"]) for told in json.loads(talk.answer(as_message(now, *events)))["events"]]


def in_words(talk, now, *events):
    """Starts as "1 on 0-3", and other decisions by their type."""
    return [
        f"{data['job_id'].removeprefix('w0!')} on {data['allocation']['host_allocation']}"
        if "allocation" in data
        else kind
        for kind, data in answered(talk, now, *events)
    ]


BEGIN = begins()
CALL = event("RequestedCallEvent", call_me_later_id="divider 1", last_periodic_call=False)


@pytest.mark.parametrize("extra", [{}, {"extra_data": None}, {"extra_data": ""}])
@pytest.mark.parametrize("walltime", [None, 100.0, 100])
def test_a_killed_job_is_registered_and_started_with_what_it_had(walltime, extra):
    fields = extra or {"extra_data": '{"user_id":3,"class":"small","k":[1]}'}
    small = "extra_data" in fields and bool(fields["extra_data"])
    talk = greeted(Agent({"small": "class", "divider": 7, "kill": "always"}))
    words = answered(talk, 1e-12, BEGIN, submitted("1", walltime, **fields))
    assert [kind for kind, _ in words] == ["ExecuteJobEvent", "CallMeLaterEvent"][: 1 + small]
    if not small:  # only jobs of class small are killed
        return
    assert words[1][1]["when"] == {"time": 7, "time_unit": "Second"}
    assert words[1][1]["when_type"] == "OneShot"
    # just below the second that is meant
    assert answered(talk, 6.99999999, CALL) == [("KillJobsEvent", {"job_ids": ["w0!1"]})]
    killed = event("JobsKilledEvent", job_ids=["w0!1"], progresses=[])
    again, start = answered(talk, 7.0, completed("1", "COMPLETED_KILLED"), killed)
    job = {"resource_request": 1, "profile_id": "w0!d", "extra_data": fields["extra_data"]}
    limit = {} if walltime is None else {"walltime": walltime}
    assert again == ("RegisterJobEvent", {"job_id": "w0!1#1", "job": job | limit})
    assert start[1]["job_id"] == "w0!1#1"
    ended = in_words(talk, 9, event("AllStaticJobsHaveBeenSubmittedEvent"), completed("1#1"))
    assert ended == ["FinishRegistrationEvent"]
    assert answered(talk, 9, event("SimulationEndsEvent")) == []
    assert talk.ended


def test_an_external_event_of_another_kind_is_ignored_with_one_line(caplog):
    talk = greeted(Agent({}))
    other = event("ExternalEventOccurredEvent", id="ee0!1", external_event_type="ProbeEvent")
    told = [occurred("serves somebody else"), occurred('{"type": "rain"}'), occurred("[]"), other]
    assert in_words(talk, 0, BEGIN, *told, submitted("1")) == ["1 on 0"]
    (line,) = caplog.messages
    assert "neither machine_unavailable nor machine_available: ignored" in line


def test_user_data_that_is_no_object_is_none_of_the_schedulers_business():
    for text in ("serves", "[1]", '"a"', "{", "NaN"):
        assert in_words(greeted(Agent({})), 0, BEGIN, submitted("1", extra_data=text)) == ["1 on 0"]


def test_the_request_behind_a_walltime_is_read_from_the_user_data():
    talk = greeted(Agent({"policy": "spf"}))
    long, short = ({"extra_data": json.dumps({"expected_time": seconds})} for seconds in (50, 5))
    jobs = [submitted(name, procs=4, **fields) for name, fields in (("1", {}), ("2", long), ("3", short))]
    assert in_words(talk, 0, BEGIN, *jobs) == ["3 on 0-3"]
    assert in_words(talk, 1, completed("3")) == ["2 on 0-3"]


# The command


@pytest.mark.parametrize("options", [(), ("--protocol", "5")])
def test_the_command_schedules_for_batsim_5_until_the_end_is_answered(options):
    frames = [handshake(), as_message(1e-12, BEGIN), as_message(2e-12, submitted("1"))]
    frames += [as_message(5, completed("1")), as_message(5, event("SimulationEndsEvent"))]
    ended, answers = conversed(frames, "--policy", "saf", *options)
    assert ended == (0, "", [])
    assert len(answers) == len(frames)
    assert json.loads(answers[-1]) == {"now": 5, "events": []}


@pytest.mark.parametrize(
    ("frames", "options", "said"),
    [
        ([b"coffee"], (), "batfill: message 1 from Batsim is b'coffee'; Batsim 4 begins with a JSON object, "),
        ([handshake()], ("--protocol", "4"), "batfill: --protocol: Batsim 5 has connected; leave it out, or "),
        ([BEGINS_4], ("--protocol", "5"), "batfill: --protocol: Batsim 4 has connected; leave it out, or "),
        ([handshake('{"colour": 1}')], (), "batfill: Batsim's initialisation text: option 'colour' is unknown"),
        (
            [handshake(), as_message(0, CALL)],
            (),
            "batfill: message 2 from Batsim at 0 (RequestedCallEvent) is out",
        ),
        ([handshake(), b"\0"], (), "batfill: message 2 from Batsim is not of Batsim 5's protocol: "),
    ],
)
def test_the_command_ends_with_one_line_and_status_2_if_it_cannot_go_on(frames, options, said):
    (status, out, (line,)), _ = conversed(frames, *options)
    assert (status, out) == (2, "")
    assert line.startswith(said)
