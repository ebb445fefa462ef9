"""The embedded simulator against recorded runs of Batsim 4.2.0: same decisions, same events, same result files."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections import Counter
from itertools import groupby
from typing import Any

import pytest
import zmq

import batfill as bf
from batfill.batsim_files.platform import read_platform
from batfill.batsim_files.results import BATSIM_VERSION, JOB_COLUMNS, job_row
from batfill.simulator import simulation as core
from batfill.simulator.command_line import parse_arguments
from batfill.workloads.batsim_json import load_document
from golden import RUNS, AsRecorded4, Played, RecordedScheduler, Recording, key, recording

# They run for exactly the time after which small jobs are killed. In the run without acknowledgements Batsim told the
# call before their completion; told whole, that instant has them complete.
KILLED_AT_THEIR_END = frozenset({"w0!0012051", "w0!0012251", "w0!0013001"})
FORGIVEN = {"small-first-kill-requeue": KILLED_AT_THEIR_END}
WALL_CLOCK = {"scheduling_time", "simulation_time"}


def played(recorded: Recording, kind: type[core.Simulation], exchange: Any) -> Played:
    """A simulation of this run's inputs."""
    options = parse_arguments(recorded.arguments)
    workloads = {"w0": load_document(options.workloads[0])}
    platform = read_platform(options.platform)
    return Played(kind, platform, workloads, exchange, job_row, settings=options.settings)


def columns(line: str) -> list[str]:
    return next(csv.reader([line]))


def same_job(ours: str, theirs: str) -> bool:
    """Byte for byte, except the stretch, whose last digit SimGrid's clock may turn: it is off by some 1e-9 s.

    That shows when a job ran for a second or two, or when the seventh decimal was a five.
    """
    if ours == theirs:
        return True
    a, b = columns(ours), columns(theirs)
    place = JOB_COLUMNS.split(",").index("stretch")
    return math.isclose(float(a.pop(place)), float(b.pop(place)), rel_tol=5e-9, abs_tol=1.1e-6) and a == b


@pytest.mark.parametrize("name", RUNS)
def test_with_instants_split_as_batsim_split_them_every_message_is_batsims_byte_for_byte(name):
    recorded = recording(name)
    replies = iter([reply for _, reply in recorded.exchanges])
    run = played(recorded, AsRecorded4, lambda message: next(replies))
    run.simulation.expected = [list(map(key, json.loads(message)["events"])) for message, _ in recorded.exchanges]
    run.simulation.run()

    first, *others = [message for message, _ in recorded.exchanges]
    assert run.told[1:] == others
    ours, theirs = (json.loads(message)["events"][0]["data"] for message in (run.told[0], first))
    assert ours.pop("workloads").keys() == theirs.pop("workloads").keys()  # the values are paths
    assert ours == theirs

    header, *rows = recorded.lines("jobs")
    assert header == JOB_COLUMNS
    assert len(run.rows) == len(rows)
    assert [pair for pair in zip(run.rows, rows, strict=True) if not same_job(*pair)] == []
    assert_machine_states_agree(run, recorded)
    assert_schedule_agrees(run, recorded, {})


@pytest.mark.parametrize("name", RUNS)
def test_with_instants_whole_the_same_events_happen_at_the_same_dates(name):
    recorded = recording(name)
    forgiven = FORGIVEN.get(name, frozenset())
    scheduler = RecordedScheduler(recorded, forgiven)
    run = played(recorded, core.Simulation, scheduler)
    run.simulation.run()

    assert scheduler.left == []  # every decision was sent
    assert +scheduler.told == Counter()  # and nothing was told that Batsim had not told by then
    ours, theirs = sorted(run.rows), sorted(recorded.lines("jobs")[1:])
    different = [pair for pair in zip(ours, theirs, strict=True) if not same_job(*pair)]
    # Those three jobs complete at the date they were killed at; all they change is what their own rows call it.
    for completed, killed in different:
        assert columns(killed)[6:8] == ["0", "COMPLETED_KILLED"]
        assert columns(completed) == [*columns(killed)[:6], "1", "COMPLETED_SUCCESSFULLY", *columns(killed)[8:]]
    assert {f"w0!{columns(completed)[0]}" for completed, _ in different} == forgiven
    assert_machine_states_agree(run, recorded)
    n = len(forgiven)
    assert_schedule_agrees(run, recorded, {"nb_jobs_killed": -n, "nb_jobs_success": n})


def assert_machine_states_agree(run: Played, recorded: Recording) -> None:
    """As many rows, and the same counts after each date.

    Within a date jobs may leave and enter machines in another order. Dates have six significant digits, the last of
    which SimGrid's clock, off by 1e-9 s, may turn; for that reason its first date is 4e-12.
    """
    rows = [tuple(map(float, columns(line))) for line in recorded.lines("machine_states")[1:]]
    assert len(run.states) == len(rows)
    ends = [i for i, (row, following) in enumerate(zip(run.states, [*run.states[1:], None], strict=True))
            if following is None or row[0] != following[0]]  # fmt: skip
    for i in ends:
        date, *sleeping_or_switching, idle, computing = rows[i]
        assert math.isclose(run.states[i][0], date, rel_tol=1e-5, abs_tol=1e-9)
        assert run.states[i][1:] == (idle, computing)
        assert not any(sleeping_or_switching)


def assert_schedule_agrees(run: Played, recorded: Recording, expected: dict[str, int]) -> None:
    """All of Batsim's columns but the wall-clock ones, where `expected` says by how much counts differ."""
    header, row = recorded.lines("schedule")
    theirs = dict(zip(header.split(","), row.split(","), strict=True))
    ours = run.totals.columns()
    for name, difference in expected.items():
        theirs[name] = str(int(theirs[name]) + difference)
    theirs["success_rate"] = f"{int(theirs['nb_jobs_success']) / int(theirs['nb_jobs']):.6f}"
    assert ours == {name: theirs[name] for name in ours}
    times = run.simulation.machines.times
    for name, seconds in (("computing", times.computing_s), ("idle", times.idle_s), ("unavailable", 0.0)):
        assert math.isclose(seconds, float(theirs[f"time_{name}"]), rel_tol=1e-9)


@pytest.mark.parametrize("name", ["overruns-rejects-failures"])
def test_the_command_over_zeromq_writes_batsims_files(name, tmp_path):
    recorded = recording(name)
    scheduler = RecordedScheduler(recorded)
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        endpoint = ["-s", f"tcp://localhost:{port}", "-e", str(tmp_path / "out"), "-vquiet"]
        command = [sys.executable, "-m", "batfill", "batsim", *recorded.arguments, *endpoint]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            while scheduler.left:
                assert socket.poll(30_000), "the simulator says nothing"
                socket.send(scheduler(socket.recv()))
            assert process.communicate(timeout=30) == (b"", b"")
            assert process.returncode == 0

    written = {what: (tmp_path / f"out_{what}.csv").read_text().splitlines() for what in ("jobs", "schedule")}
    assert written["jobs"] == recorded.lines("jobs")
    header, row = written["schedule"]
    assert header == recorded.lines("schedule")[0]
    theirs = recorded.lines("schedule")[1].split(",")
    differ = {c for c, a, b in zip(header.split(","), row.split(","), theirs, strict=True) if a != b}
    assert differ <= WALL_CLOCK | {"batsim_version"}
    assert row.startswith(f"{BATSIM_VERSION},")
    states = (tmp_path / "out_machine_states.csv").read_text().splitlines()
    last_of_date = [list(rows)[-1] for _, rows in groupby(states[2:], key=lambda line: line.split(",")[0])]
    theirs = recorded.lines("machine_states")
    assert states[0] == theirs[0]
    assert set(last_of_date) <= set(theirs)


def test_jobs_of_one_instant_go_by_their_ids_as_text_as_under_real_batsim(tmp_path):
    # Batsim 4.2.0 under batsched's easy_bf, with the jobs in this order in the file: id, submission, p~, q, p, start.
    recorded = [
        *(("10", 0, 20, 2, 10, 0), ("9", 0, 20, 2, 10, 40), ("1", 0, 20, 2, 20, 0), ("2", 0, 30, 4, 20, 20)),
        *(("b", 0, 20, 1, 5, 45), ("B", 0, 20, 1, 5, 40), ("a", 0, 20, 1, 5, 40)),
        *(("11", 5, 15, 1, 5, 50), ("100", 5, 15, 1, 5, 50), ("099", 5, 15, 1, 5, 45)),
    ]
    jobs = [{"id": i, "subtime": r, "walltime": w, "res": q, "profile": f"d{p}"} for i, r, w, q, p, _ in recorded]
    profiles = {f"d{p}": {"type": "delay", "delay": p} for p in (5, 10, 20)}
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    found = bf.replay(tmp_path / "w.json", "fcfs")
    assert dict(zip(found["job_id"].tolist(), found["start_s"].tolist(), strict=True)) == {
        row[0]: row[-1] for row in recorded
    }
