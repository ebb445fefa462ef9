"""Messages that Batsim does not send: one line that says which message, which event, and what is wrong with it."""

from __future__ import annotations

import pytest

from batfill.cluster.agent import Agent
from batfill.cluster.batsim4 import WORDS_4
from batfill.cluster.conversation import Conversation
from batfill.errors import BatfillError
from plugin import as_message, begins, completed, event, notify, submitted

CALL = event("REQUESTED_CALL")
BEGIN = begins(range(4))
SUBMIT = submitted("1", 0, 10, 1)


def without(happened, name, where="data"):
    """The event without one field of its data, or of its job."""
    holder = happened["data"] if where == "data" else happened["data"]["job"]
    changed = {key: value for key, value in holder.items() if key != name}
    return {**happened, "data": changed if where == "data" else {**happened["data"], "job": changed}}


def with_job(**fields):
    return event("JOB_SUBMITTED", job_id="w0!1", job={**SUBMIT["data"]["job"], **fields})


def conversation(*messages):
    """What the last of these messages is refused with."""
    talk = Conversation(WORDS_4, Agent({}))
    for message in messages[:-1]:
        talk.answer(message)
    with pytest.raises(BatfillError) as refused:
        talk.answer(messages[-1])
    (line,) = str(refused.value).splitlines()
    return line.removesuffix("; this is not Batsim 4's protocol")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"now", "message 1 from Batsim is not JSON: "),
        (b'{"now": NaN, "events": []}', "message 1 from Batsim is not JSON"),
        (b"[]", "message 1 from Batsim needs 'now', a number, and is not an object"),
        (b'{"events": []}', "message 1 from Batsim needs 'now', a number, and lacks it"),
        (b'{"now": "0", "events": []}', "message 1 from Batsim needs 'now', a number, and has '0'"),
        (b'{"now": 1e999, "events": []}', "message 1 from Batsim is not JSON: number is infinity"),
        (b'{"now": 0}', "message 1 from Batsim needs 'events', an array, and lacks it"),
        (b'{"now": 0, "events": {}}', "message 1 from Batsim at 0 needs 'events', an array, and has {}"),
        (b'{"now": 0, "events": [7]}', "message 1 from Batsim at 0 events[0] needs 'type', a string, and is no"),
        (
            b'{"now": 0, "events": [{"type": "SIMULATION_BEGINS"}]}',
            "message 1 from Batsim at 0 events[0] (SIMULATION_BEGINS) needs 'timestamp', a number, and lacks it",
        ),
    ],
)
def test_what_is_no_message_is_refused_with_its_number(text, said):
    assert conversation(text).startswith(said)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([CALL], "(REQUESTED_CALL) comes before SIMULATION_BEGINS"),
        ([BEGIN, BEGIN], "(SIMULATION_BEGINS) is the second: two simulators may be connected"),
        ([without(BEGIN, "config")], "(SIMULATION_BEGINS) needs 'config', an object, and lacks it"),
        ([without(BEGIN, "compute_resources")], "needs 'compute_resources', an array, and lacks it"),
        ([BEGIN, event("COFFEE")], "(COFFEE) is of a type that Batsim 4 does not send"),
        ([BEGIN, {"type": "JOB_SUBMITTED"}], "(JOB_SUBMITTED) needs 'data', an object, and lacks it"),
        ([BEGIN, without(SUBMIT, "job")], "(JOB_SUBMITTED) needs 'job', an object, and lacks it"),
        ([BEGIN, without(SUBMIT, "res", "job")], "(JOB_SUBMITTED) of 'w0!1' needs 'res', an integer, and lacks it"),
        ([BEGIN, without(SUBMIT, "subtime", "job")], "needs 'subtime', a number, and lacks it"),
        ([BEGIN, with_job(res="1")], "needs 'res', an integer, and has '1'"),
        ([BEGIN, with_job(res=True)], "needs 'res', an integer, and has True"),
        ([BEGIN, with_job(walltime="long")], "needs 'walltime', a number, and has 'long'"),
        ([BEGIN, SUBMIT, SUBMIT], "names job 'w0!1', which was submitted before and waits"),
        ([BEGIN, completed("1")], "names job 'w0!1', which was never submitted, so it cannot end"),
        ([BEGIN, SUBMIT, completed("1")], "names job 'w0!1', which waits, so it cannot end"),
        ([BEGIN, without(completed("1"), "job_state")], "needs 'job_state', a string, and lacks it"),
        ([BEGIN, notify("coffee")], "(NOTIFY) is of type 'coffee'; Batsim 4 sends no_more_static_job_to_submit"),
        (
            [BEGIN, notify("event_machine_available", resources="all")],
            "has wrong resources: 'all' is not",
        ),
        ([begins([0, 0])], "(SIMULATION_BEGINS) gives one id to two machines"),
        ([begins([0, 1], [1])], "(SIMULATION_BEGINS) gives one id to two machines"),
        ([begins([-1, 0])], "(SIMULATION_BEGINS) has a machine with the id -1; the ids of 2 machines are 0-1"),
        ([BEGIN, event("REMOVE_RESOURCES", resources="0-99999999999")], "the platform has 0-3"),
        ([BEGIN, event("REMOVE_RESOURCES", resources="3-1")], "3-1 in '3-1' ends before it begins"),
        ([BEGIN, event("REMOVE_RESOURCES", resources="9" * 5000)], "is not a list of machines such as"),
        ([BEGIN, event("A\nB")], r"('A\nB') is of a type that Batsim 4 does not send"),
        ([BEGIN, event("ADD_RESOURCES")], "(ADD_RESOURCES) needs 'resources', a string, and lacks it"),
    ],
)
def test_an_event_that_cannot_be_is_refused_with_its_place(events, said):
    line = conversation(as_message(0, *events))
    assert line.startswith(f"message 1 from Batsim at 0 events[{len(events) - 1}] ")
    assert said in line


@pytest.mark.parametrize(
    "events",
    [
        [event("X" * 5000)],
        [{**SUBMIT, "data": {**SUBMIT["data"], "job_id": "x" * 5000}}] * 2,
        [completed("x" * 5000)],
        [notify("x" * 5000)],
        [notify("event_machine_available", resources="x" * 5000)],
    ],
)
def test_a_long_value_is_quoted_in_part(events):
    assert len(conversation(as_message(0, BEGIN, *events))) < 300


def test_a_storage_machine_may_leave_and_return():
    for reservation in "processors", "machines":
        talk = Conversation(WORDS_4, Agent({"reservation": reservation}))
        gone = notify("event_machine_unavailable", resources="4")
        talk.answer(as_message(0, begins(range(4), [4]), gone, SUBMIT, submitted("2", 0, 10, 4)))
        back = notify("event_machine_available", resources="4")
        assert b"EXECUTE_JOB" in talk.answer(as_message(5, completed("1"), back))


def test_a_date_before_the_last_one_is_refused():
    line = conversation(as_message(0, BEGIN), as_message(5, submitted("1", 5, 10, 1)), as_message(4, CALL))
    assert line == "message 3 from Batsim at 4 goes back in time: the previous one was at 5"


def test_a_job_that_has_ended_or_was_rejected_cannot_end_again():
    first = as_message(0, BEGIN, SUBMIT, submitted("2", 0, 10, 9))
    end = as_message(1, completed("1"))
    assert "names job 'w0!1', which has ended, so it cannot end" in conversation(first, end, end)
    assert "names job 'w0!2', which was rejected" in conversation(first, as_message(1, completed("2")))
