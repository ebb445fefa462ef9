"""Every recorded message is taken, and none that differs in a field that batfill reads: both versions of Batsim."""

from __future__ import annotations

import io
import json
import math
import pickle
from fnmatch import fnmatch
from types import FunctionType

import pytest

from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.live.conversation4 import Conversation4
from batfill.live.conversation5 import Conversation5
from batfill.protocol.batsim4 import BATSIM_4
from batfill.protocol.batsim5 import BATSIM_5
from golden import recording
from golden5 import recordings
from plugin import as_message, begins, completed, event, killed, notify, submitted
from recorded_agent import RecordedAgent, UnlikeBatfillError
from through5 import Through5, handshake
from through5 import greeted as greeted_5

# Recordings


def recorded_4(name):
    """A conversation, and its messages with the recorded answers' events."""
    agent = RecordedAgent({})
    agent.talk = Conversation4(agent)
    return agent, [(asked, json.loads(reply)["events"]) for asked, reply in recording(name).exchanges]


def recorded_5(recorded):
    agent = RecordedAgent({})
    agent.talk = Conversation5(agent)
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
    """Why a message is not taken; None if all are, up to the first answer that is none of batfill's."""
    for asked, answer in messages:
        agent.answer = answer
        try:
            agent.talk.answer(asked)
        except BatfillError as error:
            return str(error)
        except (UnlikeBatfillError, KeyError, ValueError, AttributeError):  # this answer is none of batfill's
            break
    return None


# Their answers are recorded as text that is no JSON to everybody, or not at all.
UNHEARD = {"small-integers-and-field-order"}
# The decisions of the others are made message by message in the tests of conversations.
SMALL = [recorded for recorded in recordings() if recorded.name.startswith(("small", "error"))]


@pytest.mark.parametrize("recorded", SMALL, ids=lambda recorded: recorded.name)
def test_every_recorded_message_of_batsim_5_is_taken_until_an_answer_that_batfill_never_gives(recorded):
    agent, messages = recorded_5(recorded)
    assert refusal_of(agent, messages) is None or recorded.name in UNHEARD


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
    """(path, value, the message with this value there); numbers are also changed by a little, texts by a letter."""
    for path in fields_of(message):
        holder = message
        for step in path:
            holder = holder[step]
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
            numbers = {type(value), type(holder)} <= {int, float}
            if (numbers or type(value) is type(holder)) and value == holder:
                continue
            if path or value is not DELETED:
                yield path, value, replaced(message, path, value)


# What may differ, by event and field (a star stands for all that follows): what batfill does not read, what a workload
# or a user may say otherwise, and what can be told from another true message only later.
FREE_4 = """
SIMULATION_BEGINS: config.dynamic-* config.profile* config.redis-* config.forward* config.sched-config
SIMULATION_BEGINS: compute_resources.0.name* compute_resources.0.state compute_resources.0.*properties*
SIMULATION_BEGINS: allow_* storage_resources workloads.w0 profiles.*
JOB_SUBMITTED: job.user_id job.class job.walltime job.res
JOB_COMPLETED: alloc return_code job_state
JOB_KILLED: job_progress*
"""
FREE_5 = """
SimulationBeginsEvent: computation_hosts.0.* storage_hosts external_events* batsim_* batprotocol_version profiles*
SimulationBeginsEvent: workloads workloads.0*
JobSubmittedEvent: job_id job.extra_data job.walltime job.resource_request job.rigid job.profile_id
JobCompletedEvent: return_code state
JobsKilledEvent: progresses* profiles*
RequestedCallEvent: last_periodic_call
ExternalEventOccurredEvent: id external_event* timestamp
"""
# Of these the values that are refused all the same.
NEVER = {
    "job_id": [None, "", "no", "0", "w1!1", 1, DELETED],
    "workloads": [None, "no", {}],
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


def is_free(free, version, path, value, message, before):
    if path == ("now",):  # a message may be late, and such an event is dated by it alone
        later = type(value) in (int, float) and value >= max(event["timestamp"] for event in message["events"])
        return later or message["events"][0][version.type_field] in version.belated
    if path[2:] == ("timestamp",) and type(value) in (int, float):
        return before <= value <= message["now"]  # a test of their order is below
    if len(path) < 2:
        return False
    if len(path) == 2:
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


class Copies:
    """Copies of a value, with functions and these parts in common; `deepcopy` takes several times as long for each."""

    def __init__(self, value, *shared):
        self.shared = {id(part): part for part in shared}
        self.stored = io.BytesIO()
        pickler = pickle.Pickler(self.stored)
        pickler.persistent_id = self.key
        pickler.dump(value)

    def key(self, part):
        if isinstance(part, FunctionType):
            self.shared[id(part)] = part
        return id(part) if id(part) in self.shared else None

    def another(self):
        self.stored.seek(0)
        unpickler = pickle.Unpickler(self.stored)
        unpickler.persistent_load = self.shared.__getitem__
        return unpickler.load()


def check_mutants(agent, messages, free):
    version, lines, taken, before = agent.talk.version, [], [], 0.0
    numbers = each_kind(version, messages)
    for number, (asked, answer) in enumerate(messages[: max(numbers) + 1]):
        message = json.loads(asked.rstrip(b"\0"))
        talk_number = agent.talk.messages + 1
        if number in numbers:
            copies = Copies(agent, version, *([] if version is BATSIM_5 else [agent.talk.profiles]))
        for path, value, changed in mutants(message) if number in numbers else ():
            fork = copies.another()
            fork.answer = []
            try:
                fork.talk.answer(json.dumps(changed).encode() + version.suffix)
            except BatfillError as error:
                lines.append(str(error))
                assert lines[-1].startswith(f"message {talk_number} from Batsim")
                assert value is not DELETED or type(path[-1]) is int or path[-1] in lines[-1], (path, lines[-1])
            else:
                if not is_free(free, version, path, value, message, before):
                    taken.append((number, path, value))
        agent.answer = answer
        agent.talk.answer(asked)
        before = message["now"]
    assert not taken, f"{len(taken)} are taken: {taken[:30]}"
    assert len(lines) > 1000
    assert all("\n" not in line and len(line) < 500 for line in lines)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (4, "overruns-rejects-failures"),
        pytest.param(4, "small-first-kill-requeue-acknowledged", marks=pytest.mark.slow),
        *((5, name) for name in ("small-external-events", "overruns-rejects-failures", "small-first-kill-requeue")),
    ],
)
def test_a_message_that_differs_in_a_field_is_refused_or_may_differ(version, name):
    recorded = name if version == 4 else next(one for one in recordings(name) if one.name == name)
    agent, messages = recorded_4(recorded) if version == 4 else recorded_5(recorded)
    check_mutants(agent, messages[:600], FREE_4 if version == 4 else FREE_5)


# What no field shows: messages that contradict one another

BEGIN = begins(range(4))
CALL = event("REQUESTED_CALL")
NO_MORE = notify("no_more_static_job_to_submit")


def job(name="1", at=0.0, walltime=10, procs=1, **fields):
    told = submitted(name, at, walltime, procs)
    told["data"]["job"] |= fields
    return told


def ends(name, state, code):
    return event("JOB_COMPLETED", job_id=f"w0!{name}", job_state=state, return_code=code)


REACHED, SUCCESS = "COMPLETED_WALLTIME_REACHED", "COMPLETED_SUCCESSFULLY"


def begun(text=None, **options):
    told = begins(range(4), dynamic=text is not None)
    if text is not None:
        told["data"]["config"]["sched-config"] = text
    talk = Conversation4(Agent(options))
    talk.answer(as_message(0, told))
    return talk


def refused_line(talk, frame):
    with pytest.raises(BatfillError) as refused:
        talk.answer(frame)
    (line,) = str(refused.value).splitlines()
    return line


BEGUN = (0, BEGIN)
DIFFERENT_ID = event("JOB_SUBMITTED", job_id="w1!1", job={**job()["data"]["job"], "id": "w1!1"})
OF_BATSIM_4 = [
    ([BEGUN, (0, job(walltime=-5))], "of 'w0!1' has the walltime -5"),
    ([BEGUN, (0, job(id="w0!2"))], "of 'w0!1' has a job with the id 'w0!2'"),
    ([BEGUN, (0, notify("coffee"))], "is of type 'coffee'"),
    ([BEGUN, (0, notify("x" * 5000))], "is of type 'xxx"),
    ([BEGUN, (0, event("REMOVE_RESOURCES", resources="0-99999999999"))], "0-3"),
    ([BEGUN, (0, event("ADD_RESOURCES", resources="3-1"))], "'3-1'"),
]
OF_BOTH = [
    ([(5, BEGIN)], "at 5 "),
    ([(-5, BEGIN)], "at -5 goes back in time"),
    ([(0, CALL)], "comes before"),
    ([BEGUN, BEGUN], "is the second: two simulators may be connected"),
    ([(0, begins([0, 0]))], "gives one id to two machines"),
    ([(0, begins([0, 1], [1]))], "gives one id to two machines"),
    ([(0, begins([-1, 0]))], "has a machine with the id -1; the ids of 2 machines are 0-1"),
    *(([(0, begins([0, 1, 2, machine]))], f"the id {machine}; the ids of 4") for machine in (10**9, 2**63 - 1, 4)),
    ([BEGUN, (0, event("COFFEE"))], "(COFFEE) is of a type that Batsim"),
    ([BEGUN, (0, event("A\nB"))], r"('A\nB') is of a type"),
    ([BEGUN, (0, event("X" * 5000))], "is of a type"),
    ([BEGUN, (5,)], "at 5 has no events"),
    ([BEGUN, (1338215.75, job(at=1338215.75)), (1338215.5, CALL)], "at 1338215.5 goes back in time: the previous"),
    ([BEGUN, (0, job("1", procs=-1))], "of 'w0!1' requests -1 machines"),
    ([BEGUN, (0, job(walltime=0))], "of 'w0!1' has the walltime 0"),
    ([BEGUN, (0, job()), (7, job("2", at=5))], "of 'w0!2' has the submission date 5"),
    ([BEGUN, (7, job(at=-1))], "of 'w0!1' has the submission date -1"),
    ([BEGUN, (7, job(at=9))], "of 'w0!1' has the submission date 9"),
    ([BEGUN, (0, job(profile=""))], "has the profile '"),
    ([BEGUN, (0, DIFFERENT_ID)], "w1"),
    ([BEGUN, (0, job()), (0, job())], "names job 'w0!1', which was submitted before and runs"),
    ([BEGUN, (0, job(procs=4), job("2"), job("2"))], "names job 'w0!2', which was submitted before and waits"),
    ([BEGUN, (0, completed("1"))], "names job 'w0!1', which was never submitted, so it cannot end"),
    ([BEGUN, (0, completed("x" * 5000))], "names job 'w0!xxx"),
    ([BEGUN, (0, job(), completed("1"))], "names job 'w0!1', which waits, so it cannot end"),
    ([BEGUN, (0, job()), (1, completed("1")), (1, completed("1"))], "names job 'w0!1', which has ended, so it cannot"),
    ([BEGUN, (0, job(procs=9)), (1, completed("1"))], "names job 'w0!1', which was rejected"),
    ([BEGUN, (0, job()), (9, ends("1", REACHED, -1))], f"has the state {REACHED} before its walltime at 10"),
    ([BEGUN, (0, job()), (9, ends("1", SUCCESS, 1))], "has the return code 1 in the state"),
    ([BEGUN, (0, job()), (9, ends("1", "DONE", 0))], "has the state 'DONE'"),
    ([BEGUN, (0, job()), (9, killed("1")[0])], "but no kill was requested"),
    ([BEGUN, (0, job()), (9, killed("1")[1])], "names job 'w0!1', whose kill was not requested"),
    ([BEGUN, (5, CALL)], "no call was requested"),
    ([BEGUN, (0, NO_MORE), (1, NO_MORE)], "comes after"),
    ([BEGUN, (0, NO_MORE), (1, job(at=1))], "of 'w0!1' comes after"),
    ([BEGUN, (1, notify("event_machine_available", resources="1"))], "restores machine 1"),
    ([BEGUN, (1, notify("event_machine_unavailable", resources="4"))], "0-3"),
    ([BEGUN, (1, notify("event_machine_available", resources="all"))], "'all'"),
    ([BEGUN, (1, notify("event_machine_unavailable", resources="9" * 5000))], " such as "),
    ([BEGUN, (0, job()), (1, event("SIMULATION_ENDS"))], "ends the simulation while job 'w0!1' runs"),
    ([BEGUN, (1, event("SIMULATION_ENDS"), NO_MORE)], "comes after the simulation's end"),
    ([BEGUN, (1, event("ANSWER", consumed_energy=1))], "answers a request that batfill does not make"),
]


@pytest.mark.parametrize(("told", "said"), [*OF_BOTH, *OF_BATSIM_4])
@pytest.mark.parametrize("host", ["processors", "machines", "Batsim 5"])
def test_a_message_that_contradicts_what_came_before_is_refused_with_its_place(told, said, host):
    if host == "Batsim 5":
        if (told, said) in OF_BATSIM_4:
            return
        talk, number = Through5(Agent({}), deviation_s=0.0), len(told) + 1  # after the handshake
    else:
        talk, number = Conversation4(Agent({"reservation": host})), len(told)
    for message in told[:-1]:
        talk.answer(as_message(*message))
    line = refused_line(talk, as_message(*told[-1]))
    assert said in line
    assert len(line) < 300
    assert line.startswith(f"message {number} from Batsim at ")
    assert len(told[-1]) < 3 or f" events[{len(told[-1]) - 2}] " in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "Batsim is not JSON"),
        (b"now", "Batsim is not JSON"),
        (b'{"now": NaN, "events": []}', "is not JSON"),
        (b'{"now": 1e999, "events": []}', "is not JSON: number is infinity"),
        (b'{"now": 0, "events": []}\0\0', "is not JSON"),
        (b"[]", "needs 'now', a number, and is not an object"),
        (b'{"events": []}', "needs 'now', a number, and lacks it"),
        (b'{"now": "0", "events": []}', "needs 'now', a number, and has '0'"),
        (b'{"now": 0}', "needs 'events', an array, and lacks it"),
        (b'{"now": 0, "events": {}}', "at 0 needs 'events', an array, and has {}"),
        (b'{"now": 0, "events": [7]}', "at 0 events[0] needs '"),
        (b'{"now": 0, "events": [{"TYPE": "X"}]}', "at 0 events[0] (X) needs 'timestamp', a number, and lacks it"),
        (handshake("text"), ""),
        (handshake(), ""),
    ],
)
@pytest.mark.parametrize("version", [BATSIM_4, BATSIM_5])
def test_what_is_no_message_is_refused_with_its_number(text, said, version):
    talk = Conversation4(Agent({})) if version is BATSIM_4 else greeted_5(Agent({}))
    text = text.replace(b"TYPE", version.type_field.encode())
    whole = text.startswith(b"\4") or not text.strip(b"\0")
    line = refused_line(talk, text if whole else text + version.suffix)
    assert line.startswith(f"message {1 + (version is BATSIM_5)} from Batsim ")
    assert said in line
    assert version is BATSIM_4 or text[:1] not in (b"\0", b"\4") or "is a second handshake" in line


@pytest.mark.parametrize("host", ["Batsim 4", "Batsim 5"])
def test_a_message_may_be_late_by_what_the_platforms_latencies_add_up_to(host):
    talk = Conversation4(Agent({})) if host == "Batsim 4" else Through5(Agent({}), deviation_s=0.0)
    talk.answer(as_message(0, BEGIN))
    assert b"w0!1" in talk.answer(as_message(0.6, job()))
    later = {**job("2", at=1), "timestamp": 12}
    assert b"w0!2" in talk.answer(as_message(30, later, completed("1")))


def test_a_date_that_batfill_does_not_take_is_its_own_limit():
    talk = begun()
    with pytest.raises(BatfillError, match=r"is later than 1e\+12 s, 30,000 years, batfill's limit; give .* dates$"):
        talk.answer(as_message(2e12, CALL))
    redis = as_message(0, BEGIN).replace(b'"redis-enabled": false', b'"redis-enabled": true')
    with pytest.raises(BatfillError, match=r"does not use; start Batsim without enable_redis$"):
        Conversation4(Agent({})).answer(redis)


def test_large_dates_are_compared_as_exactly_as_a_double_has_them():
    talk = begun()
    date = 654321098765.4321  # the next double is 1.2e-4 later
    talk.answer(as_message(date, job(at=math.nextafter(date, math.inf))))
    with pytest.raises(BatfillError, match="has the submission date"):
        talk.answer(as_message(date, job("2", at=date + 0.01)))


@pytest.mark.parametrize(
    ("version", "frames"),
    [
        (BATSIM_4, [b"now"]),
        (BATSIM_4, [as_message(0, BEGIN), as_message(0, CALL)]),
        (BATSIM_5, [b"text"]),
        (BATSIM_5, [handshake("{}"), b"now\0"]),
    ],
)
def test_the_last_answer_is_one_that_ends_batsim(version, frames):
    talk = {BATSIM_4: Conversation4, BATSIM_5: Conversation5}[version](Agent({}))
    for frame in frames[:-1]:
        talk.answer(frame)
    with pytest.raises(BatfillError):
        talk.answer(frames[-1])
    last = talk.last_answer()
    if version is BATSIM_5 and len(frames) == 1:  # Batsim takes flags before the hello
        assert last[:4] == b"\2\0\0\0"
        last = last[4:]
    (answered,) = json.loads(last)["events"]
    assert answered[version.type_field] == "SCHEDULER_GAVE_UP"


def test_the_end_of_a_simulation_is_answered_as_usual_whatever_goes_wrong():
    talk = begun()
    talk.answer(as_message(5, event("SIMULATION_ENDS")))
    assert json.loads(talk.last_answer())["events"] == []


def test_a_storage_machine_may_leave_and_return():
    for reservation in "processors", "machines":
        talk = Conversation4(Agent({"reservation": reservation}))
        gone = notify("event_machine_unavailable", resources="4")
        talk.answer(as_message(0, begins(range(4), [4]), gone, job(), job("2", procs=4)))
        back = notify("event_machine_available", resources="4")
        assert b"EXECUTE_JOB" in talk.answer(as_message(5, completed("1"), back))


def killing(**config):
    """A conversation whose first job was killed and registered again at date 5."""
    talk = Conversation4(Agent({"small": "class", "divider": 5, "kill": "always"}))
    talk.answer(as_message(0, begins(range(4), dynamic=True, **config)))
    talk.answer(as_message(0, submitted("1", 0, 50, 1, small=True)))
    talk.answer(as_message(5, CALL))
    assert b"REGISTER_JOB" in talk.answer(as_message(5, *killed("1")))
    return talk


def test_an_acknowledgement_repeats_the_registration():
    assert b"EXECUTE_JOB" in killing(acknowledge=True).answer(as_message(5, submitted("1#1", 0, 50, 1)))
    for subtime, walltime, procs in ((5, 50, 1), (0, 49, 1), (0, 50, 2)):
        with pytest.raises(BatfillError, match=r"of 'w0!1#1' has .*, but was registered with"):
            killing(acknowledge=True).answer(as_message(5, submitted("1#1", subtime, walltime, procs)))


@pytest.mark.parametrize("host", ["Batsim 4", "Batsim 5"])
@pytest.mark.parametrize("code", [-1, -2])
@pytest.mark.parametrize("end_first", [True, False])
def test_a_killed_job_that_computes_has_another_code_and_may_report_its_end_after_the_kill(host, code, end_first):
    agent = Agent({"small": "class", "divider": 5, "kill": "always"})
    talk = Conversation4(agent) if host == "Batsim 4" else Through5(agent, deviation_s=0.0)
    talk.answer(as_message(0, begins(range(4), dynamic=True)))
    talk.answer(as_message(0, submitted("1", 0, 50, 1, small=True)))
    talk.answer(as_message(5, CALL))
    end, report = ends("1", "COMPLETED_KILLED", code), killed("1")[1]
    task = {"profile_name": "parallel", "progress": 0.5}
    report["data"]["job_progress"]["w0!1"] = {"profile_name": "composed", "current_task_index": 0, "current_task": task}
    said = talk.answer(as_message(5, *([end, report] if end_first else [report, end])))
    assert b"REGISTER_JOB" in said
    assert b"EXECUTE_JOB" in said
    with pytest.raises(BatfillError, match="whose kill was not requested"):
        talk.answer(as_message(6, report))


@pytest.mark.parametrize(("state", "code", "fits"), [("FAILED", 3, True), ("FAILED", 0, False), ("KILLED", 0, False)])
def test_the_return_code_fits_the_state_whatever_the_job_returns(state, code, fits):
    talk = begun()
    talk.answer(as_message(0, job()))
    message = as_message(9, ends("1", f"COMPLETED_{state}", code))
    if fits:
        talk.answer(message)
    else:
        assert f"has the return code 0 in the state COMPLETED_{state}; it is n" in refused_line(talk, message)


@pytest.mark.parametrize("events", [killed("1"), [CALL], [completed("1")]])
def test_what_was_answered_once_is_not_answered_twice(events):
    with pytest.raises(BatfillError):
        killing().answer(as_message(6, *events))


@pytest.mark.parametrize(("procs", "wanted"), [(0, "0 machines"), (5, "5 of 4 machines")])
def test_a_job_that_can_never_run_is_rejected_with_its_reason(procs, wanted, caplog):
    talk = begun()
    assert b"REJECT_JOB" in talk.answer(as_message(0, job(procs=procs)))
    assert f"w0!1 requests {wanted}: rejected" in caplog.text


# The scheduler's options in Batsim's text


def greeted(text, **options):
    return greeted_5(Agent(options), text)


@pytest.mark.parametrize("connected", [begun, greeted])
def test_options_in_batsims_text_are_taken_as_those_of_the_command_line(connected, caplog):
    assert [connected(text).agent.stated()["policy"] for text in ("", "{}")] == ["fcfs", "fcfs"]
    taken = connected('{"policy": "saf", "threshold": "48h"}', backfill="spf", threshold=172800).agent
    assert [taken.stated()[name] for name in ("policy", "backfill", "threshold")] == ["saf", "spf", 172800]
    assert caplog.messages == []
    assert connected("saf please").agent.stated()["policy"] == "fcfs"
    assert "is ignored: 'saf please'" in caplog.text


@pytest.mark.parametrize("connected", [begun, greeted])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"polcy": "saf"}', "option 'polcy' is unknown"),
        ('{"policy": "best"}', "policy 'best' is unknown"),
        ('{"policy": "wfp3"}', "'wfp3', but the scheduler was started with 'saf'"),
        ('{"acknowledge_dynamic_jobs": 1}', "it is true or false"),
    ],
)
def test_options_in_batsims_text_that_cannot_be_are_refused(connected, text, said):
    with pytest.raises(BatfillError, match=r"^Batsim's ") as refused:
        connected(text, policy="saf")
    (line,) = str(refused.value).splitlines()
    assert said in line
