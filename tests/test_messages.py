"""Every recorded message is taken, and none that differs in a field that batfill reads: both versions of Batsim."""

from __future__ import annotations

import json
from copy import deepcopy
from fnmatch import fnmatch

import pytest

from batfill.cluster.batsim4 import Batsim4
from batfill.cluster.batsim5 import Batsim5
from batfill.errors import BatfillError
from golden import RUNS, recording
from golden5 import recordings
from recorded_agent import RecordedAgent, UnlikeBatfill

# Recordings


def recorded_4(name):
    """A conversation, and its messages with the recorded answers' events."""
    agent = RecordedAgent({})
    agent.talk = Batsim4(agent)
    return agent, [(asked, json.loads(reply)["events"]) for asked, reply in recording(name).exchanges]


def recorded_5(recorded):
    agent = RecordedAgent({})
    agent.talk = Batsim5(agent)
    lines = (recorded.folder / "messages.jsonl").read_text().splitlines()
    messages = []
    if lines:
        agent.talk.answer(bytes.fromhex(json.loads(lines[0])["bytes_hex"]))
        asked = json.loads(lines[1]).get("msg") or {"events": []} if len(lines) > 1 else {"events": []}
        for hello in asked["events"]:
            agent.talk.features = hello["event"].get("requested_simulation_features", {})
    for line, reply in zip(lines[2::2], [*lines[3::2], "{}"], strict=False):
        answered = json.loads(reply).get("msg")
        events = answered.get("events", []) if type(answered) is dict else []
        messages.append((line.partition('"msg": ')[2][:-1].encode() + b"\0", events))
    return agent, messages


def refusal_of(agent, messages):
    """The number of the messages that are taken, and why the next one is not; None if all are."""
    for number, (asked, answer) in enumerate(messages):
        agent.answer = answer
        try:
            agent.talk.answer(asked)
        except BatfillError as error:
            return number, str(error)
        except (UnlikeBatfill, KeyError, ValueError, AttributeError):  # this answer is none of batfill's
            return number + 1, None
    return len(messages), None


@pytest.mark.parametrize("name", RUNS)
def test_every_recorded_message_of_batsim_4_is_taken(name):
    agent, messages = recorded_4(name)
    assert refusal_of(agent, messages) == (len(messages), None)
    assert agent.talk.ended


# Their answers are recorded as text that is no JSON to everybody, or not at all.
UNHEARD = {"small-integers-and-field-order"}


@pytest.mark.parametrize("recorded", recordings(), ids=lambda recorded: recorded.name)
def test_every_recorded_message_of_batsim_5_is_taken_until_an_answer_that_batfill_never_gives(recorded):
    agent, messages = recorded_5(recorded)
    taken, refused = refusal_of(agent, messages)
    assert refused is None or recorded.name in UNHEARD
    if recorded.name.endswith("exact-dates") and recorded.name.startswith(("fcfs", "saf", "wfp3", "lexp", "small-fi")):
        assert taken == len(messages)


# Mutations

DELETED = object()
VALUES = [
    DELETED, None, True, False, 0, 1, -1, -5, 0.5, 2**31, 2**63 - 1, 1e300, "", "no", "0", "w1!1", [], {}, [None],
]  # fmt: skip


def fields_of(value, path=()):
    """The path of every value in a JSON value, the first of an array standing for all."""
    yield path
    if type(value) is dict:
        for name, inner in list(value.items())[:14]:
            yield from fields_of(inner, (*path, name))
    elif type(value) is list and value:
        yield from fields_of(value[0], (*path, 0))


def mutants(message):
    """(path, value, the message with this value there); numbers are also changed by a little, texts by a letter."""
    for path in fields_of(message):
        holder = message
        for step in path:
            before, holder = holder, holder[step]
        more = []
        if type(holder) in (int, float):
            more = [holder + 1, holder - 1, -holder, str(holder)]
        elif type(holder) is str:
            more = [holder + "x", holder.swapcase()]
        elif type(holder) is dict:
            more = [{**holder, "extra": 1}]
        elif type(holder) is list:
            more = [[*holder, *holder]]
        for value in [*VALUES, *more]:
            if value == holder and type(value) is type(holder):
                continue
            changed = deepcopy(message)
            at = changed
            for step in path[:-1]:
                at = at[step]
            if not path:
                if value is DELETED:
                    continue
                changed = value
            elif value is DELETED:
                del at[path[-1]]
            else:
                at[path[-1]] = value
            yield path, value, changed


# What may differ, by event and field (a star stands for all that follows): what batfill does not read, what a workload
# or a user may say otherwise, and what can be told from another true message only later.
FREE_4 = """
SIMULATION_BEGINS: config.dynamic-* config.profile* config.redis-* config.forward* config.sched-config compute_resources.0.name*
SIMULATION_BEGINS: compute_resources.0.properties* compute_resources.0.zone_properties* compute_resources.0.state
SIMULATION_BEGINS: allow_* storage_resources workloads.w0 profiles.*
JOB_SUBMITTED: job.user_id job.class job.walltime job.res
JOB_COMPLETED: alloc return_code job_state
JOB_KILLED: job_progress*
"""
FREE_5 = """
SimulationBeginsEvent: computation_hosts.0.* storage_hosts external_events* batsim_* batprotocol_version profiles*
SimulationBeginsEvent: workloads.0.filename
JobSubmittedEvent: job.extra_data job.walltime job.resource_request job.rigid job.profile_id
JobCompletedEvent: return_code state
JobsKilledEvent: progresses* profiles*
RequestedCallEvent: last_periodic_call
ExternalEventOccurredEvent: id external_event* timestamp
"""
# Of these the values that are refused all the same.
NEVER = {
    "job.walltime": [False, True, 0, -5, "no", [], {}],
    "job.res": [None, True, -1, -5, 0.5, "0"],
    "job.resource_request": [None, True, -1, -5, 0.5, "0"],
    "job.profile_id": ["", "no", "w1!1", None, 1],
    "config.dynamic-jobs-enabled": [None, 0, 1, "no", "", DELETED],
    "config.redis-enabled": [None, 0, 1, "no", True, DELETED],
    "allow_compute_sharing": [None, 0, "no"],
    "computation_hosts.0.id": [None, -1, 1, 2**31, 2**63 - 1, DELETED],
    "computation_hosts.0.state": ["no", None, 1],
    "compute_resources.0.state": ["no", None, 1],
    "alloc": [None, "", "0", 1],
    "return_code": [None, True, "0", 0.5],
    "job_state": ["", "no", None, 1],
    "state": ["", "no", None, 1],
}


def is_free(free, version, path, value, message):
    if path == () or path[0] != "events" or len(path) == 1:
        return False
    if len(path) == 2 or (value is DELETED and len(path) == 2):
        return value is DELETED and len(message["events"]) > 1
    kind, field = message["events"][path[1]][version.type_field], ".".join(map(str, path[3:]))
    if path[2] != version.data_field:
        field = path[2]
    elif type(value) is dict and "extra" in value:
        return True
    if any(value is never or (value == never and type(value) is type(never)) for never in NEVER.get(field, ())):
        return False
    rows = [line.partition(": ")[2].split() for line in free.strip().splitlines() if line.startswith(f"{kind}: ")]
    return any(fnmatch(field, pattern) for row in rows for pattern in row)


def each_kind(version, messages):
    """The first message of each combination of types and states, by its number."""
    seen = {}
    for number, (asked, _) in enumerate(messages):
        events = json.loads(asked.rstrip(b"\0"))["events"]
        kinds = [(e[version.type_field], e[version.data_field].get(version.state_field)) for e in events]
        seen.setdefault(str(kinds), number)
    return set(seen.values())


def check_mutants(agent, messages, free):
    version, n_refused = type(agent.talk), 0
    numbers = each_kind(version, messages)
    for number, (asked, answer) in enumerate(messages[: max(numbers) + 1]):
        message = json.loads(asked.rstrip(b"\0"))
        for path, value, changed in mutants(message) if number in numbers else ():
            profiles = agent.talk.profiles
            fork = deepcopy(agent, {} if version is Batsim5 else {id(profiles): profiles})
            fork.answer = []
            try:
                fork.talk.answer(json.dumps(changed).encode() + version.suffix)
            except BatfillError as error:
                assert "\n" not in str(error)
                assert len(str(error)) < 500
                n_refused += 1
            else:
                assert is_free(free, version, path, value, message), (number, path, value, message)
        agent.answer = answer
        agent.talk.answer(asked)
    return n_refused


@pytest.mark.parametrize("name", ["overruns-rejects-failures", "small-first-kill-requeue-acknowledged"])
def test_a_message_of_batsim_4_that_differs_in_a_field_is_refused_or_may_differ(name):
    agent, messages = recorded_4(name)
    assert check_mutants(agent, messages[:1500], FREE_4) > 1000


@pytest.mark.parametrize("name", ["small-external-events", "overruns-rejects-failures", "small-first-kill-requeue"])
def test_a_message_of_batsim_5_that_differs_in_a_field_is_refused_or_may_differ(name):
    (recorded,) = [one for one in recordings(name) if one.name == name]
    agent, messages = recorded_5(recorded)
    assert check_mutants(agent, messages[:1200], FREE_5) > 1000
