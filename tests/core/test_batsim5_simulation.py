"""The embedded simulator against recorded runs of Batsim 5.0.0-rc2: same messages and jobs, clear ends of mistakes."""

from __future__ import annotations

import json
import math
import shlex
import struct
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import zmq

from batfill.batsim_files.external_events import read_events
from batfill.batsim_files.platform import read_platform
from batfill.batsim_files.results import JOB_COLUMNS, job_row
from batfill.simulator import simulation as core
from batfill.simulator.command import main
from batfill.simulator.command_line import parse_arguments
from batfill.simulator.wire import Wire5, handshake
from batfill.workloads.batsim_json import load_document
from golden import AsRecorded, Played
from golden5 import Recording5, recordings

EXACT = "-exact-dates"
ENDED_WELL = [recording for recording in recordings() if recording.exit.startswith("batsim: 0")]
# Mistakes that 5.0.0-rc2 accepts, and the message that ends them here.
MISTAKES = {
    "small-shared-hosts": "job 'w0!2' cannot start on 0-1: machine 0 already runs a job",
    "small-too-few-hosts": "job 'w0!1' requests 2 machines and gets 1 (0)",
    "small-too-many-hosts": "job 'w0!1' requests 2 machines and gets 4 (0-3)",
    "small-dynamic-not-enabled": "no profile can be registered; ask for dynamic_registration in the hello",
}
# Recordings of what is not simulated or not known, and the message that ends them here.
NOT_SIMULATED = {
    "small-on-off": "power states are not simulated here",
    "small-allocation-commas": "'0,1' is not a list of machines",  # a stand-in read it for Batsim
    "small-forward-profiles": "jobs[5].res: 0 is not a whole number from 1",
}
# A kill dated 10.0 came before an end at 10.0000000008, a difference that only links of finite bandwidth make.
NOT_EXACT = {"small-killed-as-it-ends"}
PLAYED = [run for run in ENDED_WELL if run.name not in {*MISTAKES, *NOT_SIMULATED, *NOT_EXACT}]
ERRORS = [run for run in recordings() if run not in ENDED_WELL]


def arguments_of(recorded: Recording5) -> list[str]:
    """Batsim's command line, with the files' places; recordings with exact dates share the workload of the others."""
    there = recorded.folder
    before = there.with_name(there.name.removesuffix(EXACT))
    files = {path.name: str(path) for place in (before, there) for path in place.iterdir()}
    return [files.get(word, word) for word in shlex.split((there / "cmd.txt").read_text())[1:]]


def told(recorded: Recording5) -> list[dict[str, Any]]:
    """Batsim's messages after its handshake."""
    return [line["msg"] for line in recorded.messages[1:] if line["dir"] == "batsim->edc"]


def answers(recorded: Recording5) -> list[bytes]:
    """The component's frames, its hello first."""
    frames = []
    for line in recorded.messages:
        if line["dir"] != "edc->batsim":
            continue
        text = line["text"].encode() if "text" in line else orjson.dumps(line.get("msg"))
        flags = struct.pack("=I", line["flags"]) if "flags" in line else b""
        frames.append(bytes.fromhex(line["bytes_hex"]) if "bytes_hex" in line else flags + text)
    return frames


def comparable(message: dict[str, Any], *, ordered: bool = True) -> Any:
    """A message without what Batsim leaves open: dates below a microsecond, the stale date of some events, guesses.

    Batsim says of an external event, and of a kill that came too late, the date of the event before it.
    """
    now = round(message["now"], 6) + 0.0
    events = []
    for event in message["events"]:
        kind, data = event["event_type"], dict(event["event"])
        stale = kind == "ExternalEventOccurredEvent" or (kind == "JobsKilledEvent" and not data["progresses"])
        if kind == "JobsKilledEvent":
            data.pop("profiles", None)
            data["progresses"] = json.loads(json.dumps(data["progresses"]), parse_float=lambda x: round(float(x), 6))
        if "submission_time" in data:
            data["submission_time"] = round(data["submission_time"], 6) + 0.0
        if kind != "SimulationBeginsEvent":
            date = now if stale else round(event["timestamp"], 6) + 0.0
            events.append((date, kind, orjson.dumps(data, option=orjson.OPT_SORT_KEYS)))
    return now, events if ordered else sorted(events)


def played(recorded: Recording5, kind: type[core.Simulation], *, notices_alone: bool = True) -> Played:
    """A simulation of this run's inputs, with the recorded replies; `played.left` are those to come."""
    options = parse_arguments(arguments_of(recorded), 5)
    replies = iter(answers(recorded))
    settings, _ = handshake(lambda message: next(replies), options.init_text)
    wire = Wire5(options.arguments)
    wire.notices_alone = notices_alone
    run = Played(
        kind,
        read_platform(options.platform, roles=options.roles, limit=options.mmax or None, version=5),
        {f"w{i}": load_document(path, version=5, workload=f"w{i}") for i, path in enumerate(options.workloads)},
        lambda message: next(replies),
        lambda record: job_row(record, 5),
        settings=settings,
        wire=wire,
        events=read_events(options.events, 5, 0) if options.events else None,
    )
    run.left = replies
    return run


def messages_told(run: Played) -> list[dict[str, Any]]:
    assert all(message.endswith(b"}\0") for message in run.told)
    return [orjson.loads(message[:-1]) for message in run.told]


class AsRecorded5(AsRecorded):
    @staticmethod
    def entry_key(entry: core.HeapEntry) -> tuple[Any, ...]:
        """What `event_key` says of the event that this entry of the queue will become."""
        _, kind, _, subject = entry
        if kind == core.COMPLETION:
            return "JobCompletedEvent", subject.id, subject.outcome()[1]
        if kind == core.SUBMISSION:
            return "JobSubmittedEvent", subject.id
        if kind == core.KILL:
            return "JobsKilledEvent", *(job.id for job in subject)
        if kind == core.CALL:
            return "RequestedCallEvent", subject.id
        if kind == core.EXTERNAL:
            return "ExternalEventOccurredEvent", json.loads(subject.raw)["id"]
        jobs = subject == Wire5.no_more_jobs
        return ("AllStaticJobsHaveBeenSubmittedEvent" if jobs else "AllStaticExternalEventsHaveBeenInjectedEvent",)


def event_key(event: dict[str, Any]) -> tuple[Any, ...]:
    """What tells an event of Batsim's from others of its date."""
    kind, data = event["event_type"], event["event"]
    if kind == "JobCompletedEvent":
        return kind, data["job_id"], data["state"]
    if kind == "JobsKilledEvent":
        return kind, *data["job_ids"]
    named = data.get("job_id", data.get("call_me_later_id", data.get("id")))
    return (kind,) if named is None else (kind, named)


def rows_of(recorded: Recording5) -> list[str]:
    """The lines of its jobs.csv."""
    prefix = parse_arguments(arguments_of(recorded), 5).export
    return (recorded.folder / f"{prefix}jobs.csv").read_text().splitlines()


def same_row(ours: str, theirs: str, *, exact: bool) -> bool:
    """Byte for byte on platforms with exact dates; on others numbers may differ by the time that messages take."""
    if ours == theirs or exact:
        return ours == theirs
    pairs = list(zip(ours.split(","), theirs.split(","), strict=True))
    return all(a == b or math.isclose(float(a), float(b), rel_tol=5e-9, abs_tol=1.1e-6) for a, b in pairs)


@pytest.mark.parametrize("recorded", PLAYED, ids=lambda recorded: recorded.name)
def test_with_instants_split_as_batsim_split_them_every_message_is_batsims(recorded):
    run = played(recorded, AsRecorded5, notices_alone=False)
    theirs = told(recorded)
    run.simulation.expected = [[event_key(event) for event in message["events"]] for message in theirs]
    run.simulation.run()

    assert next(run.left, None) is None
    assert len(run.told) == len(theirs)
    different = [
        pair
        for pair in zip(map(comparable, messages_told(run)), map(comparable, theirs), strict=True)
        if pair[0] != pair[1]
    ]
    assert different[:1] == []
    header, *rows = rows_of(recorded)
    assert header == JOB_COLUMNS
    assert len(run.rows) == len(rows)
    exact = recorded.name.endswith(EXACT)
    assert [pair for pair in zip(run.rows, rows, strict=True) if not same_row(*pair, exact=exact)][:1] == []
    prefix = parse_arguments(arguments_of(recorded), 5).export
    summary = json.loads((recorded.folder / f"{prefix}schedule.json").read_text().replace("-nan", "NaN"))
    ours = {name: float(text) for name, text in run.totals.columns().items()}
    assert ours == {name: pytest.approx(summary[name], rel=5e-9, abs=1.1e-6, nan_ok=True) for name in ours}
    assert_machine_states_are_those_of_the_jobs(run)


def assert_machine_states_are_those_of_the_jobs(run: Played) -> None:
    """Batsim's own count each machine that ever computed as computing, so that the jobs are what to compare with."""
    change: Counter[float] = Counter()
    total_s = 0.0
    for record in run.records:
        if record.allocated_resources:
            parts = [part.partition("-") for part in str(record.allocated_resources).split()]
            size = sum(int(last or first) - int(first) + 1 for first, _, last in parts)
            change[record.starting_time] += size
            change[record.finish_time] -= size
            total_s += size * record.execution_time
    computing, expected = 0, {}
    for date in sorted(change):
        computing += change[date]
        expected[date] = computing
    machines = run.simulation.machines
    if run.simulation.jobs_running:  # when the scheduler stopped the run; they are in no file
        return
    last_of_date = {date: counts for date, *counts in run.states}
    n_compute = machines.idle  # all jobs have ended
    assert last_of_date == {date: [n_compute - n, n] for date, n in expected.items()}
    assert machines.times.computing_s == pytest.approx(total_s, rel=1e-9)


# At date 20 there the ends of jobs and of external events come in one message with all others; else they come alone.
OTHERWISE_SPLIT = {"small-same-instant-exact-dates"}
WITH_EXACT_DATES = [run for run in PLAYED if run.name.endswith(EXACT) and run.name not in OTHERWISE_SPLIT]


@pytest.mark.parametrize("recorded", WITH_EXACT_DATES, ids=lambda recorded: recorded.name)
def test_on_platforms_with_exact_dates_events_come_in_the_messages_in_which_batsim_sends_them(recorded):
    run = played(recorded, core.Simulation)
    run.simulation.run()
    assert next(run.left, None) is None
    for ours, theirs in zip(messages_told(run), told(recorded), strict=True):
        assert comparable(ours, ordered=False) == comparable(theirs, ordered=False)
    assert sorted(run.rows) == sorted(rows_of(recorded)[1:])


# The first message


@pytest.mark.parametrize("name", ["small-fcfs", "small-storage-role", "small-mmax", "fcfs", "small-two-workloads"])
def test_the_first_message_describes_hosts_and_workloads_as_batsims_does(name):
    (recorded,) = [run for run in PLAYED if run.name == name]
    run = played(recorded, core.Simulation)
    with suppress(core.SimulationStopped, StopIteration):  # the replies fit the recorded messages
        run.simulation.run()
    ours, theirs = (messages[0]["events"][0]["event"] for messages in (messages_told(run), told(recorded)))
    paths = [Path(each["filename"]).name for each in ours["workloads"]]
    assert paths == [Path(each["filename"]).name for each in theirs.pop("workloads")]
    del ours["workloads"], ours["batsim_arguments"], ours["batsim_execution_context_json"]
    assert ours == {key: theirs[key] for key in ours}
    # What is left out is not known for sure, but for what depends on the machine.
    assert theirs.keys() - ours.keys() == {
        "batsim_arguments", "batsim_execution_context_json", "external_events", "batprotocol_version",
        "batsim_version", "batsim_commit",
    }  # fmt: skip


# The command, over ZeroMQ


@contextmanager
def component(frames: list[bytes]):
    """A component that sends these frames and then closes its socket; yields its address and the frames it got."""
    there = threading.Event()
    over = threading.Event()
    where: list[int] = []
    got: list[bytes] = []

    def serve():
        with zmq.Context() as context, context.socket(zmq.REP) as socket:
            socket.setsockopt(zmq.LINGER, 1000)
            where.append(socket.bind_to_random_port("tcp://127.0.0.1"))
            there.set()
            for frame in [*frames, None]:
                while not socket.poll(20):
                    if over.is_set():
                        return
                got.append(socket.recv())
                if frame is not None:
                    socket.send(frame)

    thread = threading.Thread(target=serve)
    thread.start()
    assert there.wait(10)
    try:
        yield f"tcp://127.0.0.1:{where[0]}", got
    finally:
        over.set()
        thread.join(10)
        assert not thread.is_alive()


def command(recorded: Recording5, folder: Path, endpoint: str) -> list[str]:
    """The command line of a recording, with its own output folder and this address."""
    words = ["--protocol", "5", *arguments_of(recorded)]
    words[words.index("-s") + 1] = endpoint
    words[words.index("-e") + 1] = f"{folder}/out/"
    return [*words[: words.index("-v")], "-v", "quiet"]


def written(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out").iterdir()) if (folder / "out").exists() else []


# The recordings of errors, with what is said here. Those before the line are of the files, so that nothing is written.
SAID_OF_FILES = {
    "error-delay-zero": "profiles['d0'].delay: 0 is ",
    "error-event-data-object": "line 1: data: {'type': 'machine_unavailable'} is not a string",
    "error-event-type": "line 1: type 'event_machine_unavailable' is not 'generic'",
    "error-id-contains-workload-name": "'raw0' has the workload's name 'w0' in it",
    "error-id-with-exclamation": "'a!b' has '!' in it",
    "error-no-nb-res": "nb_res: missing",
    "error-old-workload": "has the profile types of Batsim 4",
    "error-same-id-twice": "jobs[1].id: '1' occurs before",
    "error-unknown-profile": "jobs[0].profile: 'd11' is not the name of a profile",
    "error-walltime-minus-one": "jobs[0].walltime: -1 is not a number > 0",
}
SAID_OF_THE_HELLO = {
    "error-hello-empty": "is not JSON",
    "error-hello-flags-0": "has the flags 0, for binary messages",
    "error-hello-flags-1": "has the flags 1, for binary messages",
    "error-hello-no-event": "Batsim did not receive an answer to its Hello message",
    "error-hello-two-bytes": "has 2 bytes; it begins with 4 bytes of flags (Batsim did not receive an answer",
    "error-hello-unknown-feature": "has a member 'make_coffee', which the protocol does not know",
    "error-hello-unknown-field": "has a member 'homepage', which the protocol does not know",
    "error-hello-without-commit": "its hello needs 'decision_component_commit', a string, and lacks it",
    "error-hello-without-features": "its hello needs 'requested_simulation_features', an object, and lacks it",
    "error-hello-without-version": "its hello needs 'batprotocol_version', a string, and lacks it",
    "error-unused-profile-forwarded": "no job of w0 uses the profile",
}
SAID = {
    "error-deadlock": "Deadlock detected: 1 jobs are never executed (w0!1)",
    "error-decisions-at-the-end": "CallMeLaterEvent: the simulation has ended",
    "error-dynamic-not-enabled-profile-gone": "no job can be registered; ask for dynamic_registration in the hello",
    "error-edc-closes": "went away without an answer",
    "error-empty-answer": "is not JSON",
    "error-end-not-answered": "went away without an answer",
    "error-event-after-now": "has the timestamp 5.0, which is not a date from 0 to the reply's 'now', 0.0",
    "error-events-not-in-order": "has the timestamp 4.0, which is not a date from that of the previous event, 5.0, to",
    "error-execute-without-placement": "its allocation needs 'executor_placement",
    "error-executed-twice": "job 'w0!1' cannot start: its state is RUNNING",
    "error-fractional-call": "needs 'time', an integer, and has 7.5",
    "error-id-without-workload": "job '1' does not exist",
    "error-kill-twice-only": "the kill of each of these jobs is already requested",
    "error-killed-after-its-end": "job 'w0!1' has ended",
    "error-killed-in-message-of-its-end": "job 'w0!2' has ended",
    "error-killed-when-its-end-is-known": "job 'w0!1' has ended",
    "error-killed-when-its-end-is-known-exact-dates": "job 'w0!1' has ended",
    "error-killed-while-waiting": "job 'w0!1' cannot be killed: its state is SUBMITTED",
    "error-missing-field": "needs 'job_id', a string, and lacks it",
    "error-no-events-field": "needs 'events', an array, and lacks it",
    "error-no-hosts": "'' is not a list of machines",
    "error-no-json": "is not JSON",
    "error-null-value": "needs 'job_id', a string, and has None",
    "error-offset": "the offset of a periodic call is 1",
    "error-periods": "a period of 6000 ms and one of 4000 ms ('4'): one must divide the other",
    "error-profile-gone": "profile 'd10' was dropped",
    "error-profile-gone-later": "profile 'd10' was dropped",
    "error-register-known-job": "job 'w0!1' exists or existed before",
    "error-register-known-profile": "profile 'd10' of workload 'w0' exists",
    "error-register-unknown-profile": "job 'w0!n'.profile: 'none' is not the name of a profile",
    "error-registration-not-finished": "the scheduler never sent FinishRegistrationEvent",
    "error-rejected-while-running": "cannot be rejected: its state is RUNNING",
    "error-unknown-event": "DanceEvent: not known",
    "error-unknown-field": "has a member 'reason', which the protocol does not know",
    "error-unknown-host": "machine 4 does not exist",
    "error-unknown-job": "job 'w0!nobody' does not exist",
    "error-unknown-workload": "job 'nowhere!1' does not exist",
}
NOTHING_WRITTEN = SAID_OF_FILES | SAID_OF_THE_HELLO
REFUSED_RUNS = SAID | NOTHING_WRITTEN | MISTAKES | NOT_SIMULATED


@pytest.mark.parametrize("name", sorted(REFUSED_RUNS))
def test_what_batsim_ends_badly_or_accepts_by_mistake_ends_with_one_clear_line(name, tmp_path, capsys):
    recorded = Recording5(name)
    with component(answers(recorded)) as (endpoint, got):
        status = main(command(recorded, tmp_path, endpoint))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("batfill batsim: ")
    assert REFUSED_RUNS[name] in line
    of_files = name in SAID_OF_FILES or name == "small-forward-profiles"
    assert status == (2 if of_files else 1)
    assert (got == []) == of_files
    results = ["jobs.csv", "machine_states.csv", "real_exec_info.json", "schedule.json"]
    assert written(tmp_path) == ([] if of_files or name in SAID_OF_THE_HELLO else results)


def test_every_recording_is_played_or_its_end_is_named():
    named = {*REFUSED_RUNS, *NOT_EXACT, *(run.name for run in PLAYED)}
    assert {run.name for run in recordings()} == named
    assert {run.name for run in ERRORS} == {*SAID, *NOTHING_WRITTEN}


@pytest.mark.parametrize("name", ["small-fcfs-exact-dates", "small-no-init", "small-edc-starts-late"])
def test_the_command_writes_batsims_files(name, tmp_path, capsys):
    recorded = Recording5(name)
    with component(answers(recorded)) as (endpoint, got):
        assert main(command(recorded, tmp_path, endpoint)) == 0
    assert capsys.readouterr().err == ""
    text = parse_arguments(arguments_of(recorded), 5).init_text.encode()
    assert got[0] == struct.pack("=I", len(text)) + text
    assert all(frame.endswith(b"}\0") for frame in got[1:])
    out = tmp_path / "out"
    assert (out / "jobs.csv").read_text().splitlines() == rows_of(recorded)
    theirs = json.loads((recorded.folder / "out" / "schedule.json").read_text())
    ours = json.loads((out / "schedule.json").read_text())
    assert ours.keys() == theirs.keys()
    assert {key for key in ours if ours[key] != theirs[key]} <= {"batsim_version", "time_computing", "time_idle"}
    info = json.loads((recorded.folder / "out" / "real_exec_info.json").read_text())
    assert json.loads((out / "real_exec_info.json").read_text()).keys() == info.keys()
    assert (out / "machine_states.csv").exists() == (recorded.folder / "out" / "machine_states.csv").exists()
