"""The compiled simulator of RLScheduler: the published numbers, and small logs against a plain second simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gym_oracle
import swf_text
from batfill.base.errors import WorkloadError
from studies.rlscheduler.schedgym import (
    HEURISTICS,
    NOT_STARTED,
    PUBLISHED,
    GymLog,
    Jobs,
    Machine,
    baselines,
    begin,
    new_state,
    pick,
    play,
    read_gym_log,
)

# Mean bounded slowdowns in RLScheduler's published table, in the order of PUBLISHED: without backfilling, then with it.
TABLE = {
    "lublin_256.swf.gz": (
        ("7273.77", "19753.53", "22274.74", "277.35", "258.37"),
        ("235.82", "133.87", "307.23", "73.31", "75.07"),
    ),
    "SDSC-SP2-1998-4.2-cln.swf.gz": (
        ("1727.54", "3000.88", "1848.45", "2680.55", "1232.06"),
        ("1595.12", "1083.12", "548.01", "2167.84", "1098.22"),
    ),
    "HPC2N-2002-2.2-cln.swf.gz": (
        ("297.18", "426.99", "609.77", "157.71", "118.01"),
        ("127.38", "97.39", "175.12", "122.04", "71.95"),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_published_table_to_the_printed_digit(archive_log, name):
    found = baselines(archive_log(name), first_jobs=10_000)
    assert tuple(found[False]) == PUBLISHED
    assert tuple(tuple(f"{value:.2f}" for value in row.values()) for row in found.values()) == TABLE[name]


# Against the plain simulator


def log_of(rows, *, nodes=4, procs_per_node=1.0):
    """The log of (submit, run time, request, processors) rows."""
    submit, runtime, request, procs = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    jobs = Jobs(submit, runtime, request, procs, np.ceil(procs / procs_per_node).astype(np.int64))
    return GymLog(Path("made"), jobs, Machine(nodes, procs_per_node), np.arange(len(rows)) + 1)


def busy_log(random):
    """Few nodes, many waiting jobs, and few distinct times, so that much happens at one second: rows, machine, n."""
    nodes, procs_per_node = random.randint(3, 8), random.choice([1.0, 1.5, 2.0])
    rows, submit = [], 0
    for _ in range(random.choice([1, 10, 60, 60])):
        submit += random.choice([0, 0, 0, 1, 3])
        runtime = random.randint(1, 6)
        request = max(runtime + random.choice([0, 0, 1, 3, 6, -2]), -1)
        rows.append((submit, runtime, request, random.choice([1, 1, 1, 2, 2, 3, 0, int(nodes * procs_per_node)])))
    return rows, {"nodes": nodes, "procs_per_node": procs_per_node}, random.randint((len(rows) + 1) // 2, len(rows))


seeded = st.randoms(use_true_random=True)  # hypothesis by itself makes short logs, in which nothing waits


@settings(max_examples=100, deadline=None)
@given(seeded, st.booleans())
def test_playing_a_key_starts_jobs_as_the_plain_simulator(random, backfill):
    rows, machine, n = busy_log(random)
    first = random.randint(0, len(rows) - n)
    keys = [random.randrange(4) for _ in rows]
    expected = gym_oracle.play(rows, keys.__getitem__, backfill=backfill, start=first, n=n, **machine)
    found = play(log_of(rows, **machine), np.array(keys, float), [first, first], n=n, backfill=backfill)
    assert found.tolist() == [[expected[row] for row in range(first, first + n)]] * 2


@settings(max_examples=30, deadline=None)
@given(seeded, st.integers(1, 3), st.booleans())
def test_copies_step_as_the_plain_simulator(random, copies, backfill):
    """Copies that each have a sequence of their own and random picks; then again, without what was before."""
    rows, machine, n = busy_log(random)
    log, state = log_of(rows, **machine), new_state(copies, n)
    for _ in range(2):
        firsts = np.array([random.randint(0, len(rows) - n) for _ in range(copies)])
        plain = [gym_oracle.Simulator(rows, start=first, n=n, **machine) for first in firsts.tolist()]
        started = [0] * copies
        for i, first in enumerate(firsts.tolist()):
            begin(log.jobs, log.machine, state, i, first)
        over = False
        while not over:
            over = not state.at["waiting"].any()
            for i, (first, simulator) in enumerate(zip(firsts.tolist(), plain, strict=True)):
                at = state.at[i]
                simulator.queue.sort(key=simulator.submit_s)
                assert (state.queue[i, : at["waiting"]] + first).tolist() == simulator.queue
                assert (at["now_s"], at["free"]) == (simulator.now_s, simulator.free_nodes)
                assert (state.order[i, : at["started"]] + first).tolist() == list(simulator.start_s)
                assert state.start_s[i].tolist() == [
                    simulator.start_s.get(first + job, NOT_STARTED) for job in range(n)
                ]
                if simulator.queue:
                    assert at["before"] == started[i]
                    started[i] = len(simulator.start_s)
                    place = random.randrange(len(simulator.queue))
                    simulator.pick(simulator.queue[place], backfill)
                    pick(log.jobs, log.machine, state, i, place, backfill)
        assert (state.at["started"] == n).all()


# What is particular to it, by hand. Jobs are (submit, run time, request, processors) on four nodes.


def starts(rows, heuristic="fcfs", *, backfill=True):
    return play(log_of(rows), heuristic, [0], n=len(rows), backfill=backfill)[0].tolist()


@pytest.mark.parametrize(
    ("rows", "how", "found"),
    [
        # The picked job waits, and others behind it unless they are backfilled.
        ([(1, 10, 10, 3), (1, 5, 5, 2), (2, 2, 2, 1)], {"backfill": False}, [1, 11, 11]),
        ([(1, 10, 10, 3), (1, 5, 5, 2), (2, 2, 2, 1)], {}, [1, 11, 2]),
        # Backfilled jobs must end strictly before the shadow time, at which spare processors are not used.
        ([(1, 10, 10, 3), (1, 5, 5, 2), (2, 8, 8, 1), (2, 9, 9, 1)], {}, [1, 11, 2, 11]),
        ([(1, 10, 10, 2), (1, 5, 5, 3), (1, 99, 99, 1)], {}, [1, 11, 11]),
        # The job of request 5 would end before the first shadow time, 21, which stays when jobs end early.
        ([(1, 2, 20, 2), (1, 9, 10, 2), (1, 1, 1, 4), (4, 12, 16, 1)], {}, [1, 1, 16, 4]),
        # At 11 the short job arrives, and is backfilled on the one free node, before the first job's end.
        ([(1, 10, 30, 3), (1, 5, 5, 4), (11, 9, 9, 1)], {}, [1, 20, 11]),
        # The shorter job is submitted at the same second and not seen before the first has started.
        ([(1, 10, 10, 4), (1, 10, 5, 4), (1, 10, 4, 4)], {"heuristic": "sjf", "backfill": False}, [1, 11, 21]),
    ],
)
def test_jobs_start_as_on_paper(rows, how, found):
    assert starts(rows, **how) == found


def test_wfp3_and_unicef_take_the_waiting_time_for_minus_one_minus_the_submission():
    log = log_of([(99, 10, 10, 2), (199, 10, 100, 4)])
    assert HEURISTICS["wfp3"](log.jobs).tolist() == [10.0**3 * 2, 2.0**3 * 4]
    assert HEURISTICS["unicef"](log.jobs) == pytest.approx([10.0, 1.0], rel=1e-12)


# Logs


def written(tmp_path, *lines, header=("; MaxNodes: 4", "; MaxProcs: 8")):
    """A file of rows job, submit, run time, allocated, requested processors, request."""
    text = [f"{line}\n" for line in header]
    for line in lines:
        job, submit, runtime, procs, requested, request_s = line.split()
        text.append(swf_text.row(job, submit, runtime, procs=procs, req_procs=requested, req_time=request_s))
    path = tmp_path / "log.swf"
    path.write_text("".join(text))
    return path


def test_a_log_is_read_as_rlscheduler_reads_it(tmp_path):
    log = read_gym_log(
        written(tmp_path, "5 30 7 3 -1 60", "1 0 100 2 4 50", "2 10 0 1 1 9", "3 10 -1 -1 5 -1", "4 20 8 0 0 -1")
    )
    assert log.number.tolist() == [1, 3, 4, 5]
    columns = [column.tolist() for column in log.jobs]
    assert columns == [[0, 10, 20, 30], [100, 10, 8, 7], [50, -1, 8, 60], [4, 5, 0, 3], [2, 3, 0, 2]]
    assert log.machine == (4, 2.0)


def test_a_sequence_with_a_job_that_can_never_start_is_refused_and_others_are_not():
    log = log_of([(1, 9, 9, 4), (2, 9, 9, 5), (3, 9, 9, -1), (4, 9, 9, 1)])
    assert log.can_run.tolist() == [True, False, False, True]
    for first, number in ((0, 2), (2, 3)):
        with pytest.raises(
            WorkloadError, match=f"job {number} asks for .* the machine has 4 nodes of 1; remove the job"
        ):
            play(log, "fcfs", [first], n=2)
    assert play(log, "fcfs", [3], n=1).tolist() == [[4]]
    with pytest.raises(WorkloadError, match="it has 4 jobs, and no 2 from row 3 on"):
        play(log, "fcfs", [3], n=2)
