"""No run that breaks an invariant is a result: each kind of violation is found, in every host."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from batfill.batsim_files.machines import Machines
from batfill.model.invariants import InternalError, Ledger
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from small_runs import at, document, execute, job, simulate
from strategies import random_table, table
from sweeps import COMPILED

FCFS = policy_named("fcfs")
# One after the other on 4 processors: a from 0 to 10, b from 10 to 20, c from 20 to 30.
SPANS = {"a": (0.0, 0.0, 10.0, 4), "b": (1.0, 10.0, 20.0, 4), "c": (2.0, 20.0, 30.0, 4)}


def ledger(*events, size=4, spans=SPANS):
    """The events in this order, "a" for a's start and "-a" for its end."""
    made = Ledger(size)
    for event in events:
        name = event.removeprefix("-")
        submit_s, start_s, end_s, procs = spans[name]
        if event == name:
            made.start(name, submit_s, procs, start_s)
        else:
            made.end(name, end_s)
    return made


def test_a_simulation_in_order_is_sound():
    ledger("a", "-a", "b", "-b", "c", "-c").check(over=True)
    ledger("a", "-a", "b").check(over=False)
    instant = {"a": (5.0, 5.0, 5.0, 4), "b": (5.0, 5.0, 5.0, 4)}
    ledger("a", "-a", "b", "-b", spans=instant).check(over=True)


@pytest.mark.parametrize(
    ("events", "spans", "job", "wrong"),
    [
        (("a", "b", "-a", "-b"), {}, "b", "on processors that others use"),
        (("a", "-a", "b", "-b"), {"b": (1.0, 9.0, 20.0, 4)}, "b", "starts after a job"),
        (("a", "-a", "b", "-b"), {"b": (11.0, 10.0, 20.0, 4)}, "b", "before its submission"),
        (("a", "-a", "b", "-b"), {"b": (1.0, math.nan, 20.0, 4)}, "b", "before its submission"),
        (("a", "-a", "b", "-b"), {"b": (1.0, 10.0, 20.0, 5)}, "b", "wider than the machine"),
        (("a", "-a", "b"), {}, "b", "never ends"),
        (("b", "-b", "c", "a"), {"a": (0.0, 20.0, 30.0, 1), "c": (2.0, 20.0, 30.0, 4)}, "a", "others use"),
        (("b", "c", "-b", "-c"), {"b": (0, 0, 9.0, 1), "c": (0, 0, 8.0, 1)}, "c", "ends after a job that ends later"),
    ],
)
def test_each_violation_of_a_simulation_names_its_job(events, spans, job, wrong):
    with pytest.raises(InternalError, match=f"job {job} .*{wrong}"):
        ledger(*events, spans=SPANS | spans).check(over=True)


def other(run, **columns):
    run.given = run.given._replace(**columns)


def broken(change, jobs, size, **options):
    """A replay whose arrays are changed after it has run."""
    run = EngineReplay(jobs, size, Rules(FCFS, **options))
    run.advance()
    run.schedule()
    change(run)
    return run


def swap(array, i, j):
    array[[i, j]] = array[[j, i]]


def first_try_outlasts_the_restart(run):
    kill = run.events.kills[0]
    kill["end_s"] = run.queue.start_s[kill["row"]] + 0.5


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (first_try_outlasts_the_restart, "starts although"),
        COMPILED(lambda run: swap(run.events.starts["row"], 3, 40), "starts"),
        COMPILED(lambda run: swap(run.events.over, 3, 40), "ends"),
        (lambda run: run.events.over.__setitem__(5, run.events.over[4]), "ends"),
        COMPILED(lambda run: run.events.starts["row"].__setitem__(5, run.events.starts["row"][4]), "starts although"),
        COMPILED(lambda run: run.events.clock.__setitem__("over", run.events.clock["over"] - 1), "never ends"),
        COMPILED(lambda run: run.events.clock.__setitem__("starts", run.events.clock["starts"] - 1), "having started"),
        (lambda run: other(run, procs=run.given.procs * 2), "wider|others use"),
        COMPILED(lambda run: other(run, submit_s=run.given.submit_s + 5.0), "before its submission"),
        COMPILED(lambda run: run.events.ended.__imul__(0), "others use"),
        COMPILED(lambda run: run.events.kills["start_s"].__isub__(40.0), "job"),
        COMPILED(lambda run: run.events.kills["end_s"].__iadd__(1000.0), "job"),
    ],
)
def test_a_replay_that_breaks_an_invariant_gives_no_schedule(change, wrong):
    jobs = random_table(3, n_jobs=150, size=8, span_s=500, small=0.4, wide=0)
    run = broken(change, jobs, 8, divider_s=9.0)
    assert len(run.kills) > 10
    with pytest.raises(InternalError, match=wrong):
        run.schedule()


def test_the_checks_do_not_read_what_the_engine_reads():
    """As the wrapped widths of jobs of 2^31 processors did: the engine believes that jobs are narrow."""
    jobs = table([(0, 10, 10, 3), (1, 10, 10, 3), (2, 10, 10, 3)], ids=["x", "y", "z"])
    run = EngineReplay(jobs, 4, Rules(FCFS))
    run.queue.arrays.jobs["procs"] = 1
    run.advance()
    with pytest.raises(InternalError, match="job y starts on processors that others use, at 1 s"):
        run.schedule()
    run = EngineReplay(jobs, 4, Rules(FCFS))
    run.queue.arrays.jobs["procs"] = 1
    with pytest.raises(InternalError, match="job y starts on processors"):
        run.starts_under([FCFS, policy_named("saf")])


def test_figures_that_count_a_job_twice_or_exceed_the_machine_are_refused(monkeypatch):
    jobs = random_table(3, n_jobs=50, size=8, span_s=100)
    schedule = replay_jobs(jobs, 8, Rules(FCFS))
    schedule.summary()
    monkeypatch.setattr(type(schedule), "rejected", property(lambda _: np.ones(50, bool)))
    with pytest.raises(InternalError, match=r"the figures count \d+ jobs, and 50 were submitted"):
        schedule.summary()
    monkeypatch.undo()
    crowded = replay_jobs(table([(0, 10, 10, 1), (0, 90, 90, 1)], ids=["x", "y"]), 2, Rules(FCFS))
    with pytest.raises(InternalError, match=r"the utilisation is .*, above 1\.0; .* of job y"):
        replace(crowded, size=1).summary()


def test_an_embedded_simulation_whose_machines_run_two_jobs_at_once_is_refused(monkeypatch):
    monkeypatch.setattr(Machines, "obstacle", lambda *_: None)
    decide = at({0: [execute("w0!a", "0-3"), execute("w0!b", "0-3")]})
    with pytest.raises(InternalError, match="job w0!b starts on processors that others use, at 0 s"):
        simulate(document(job("a", res=4), job("b", res=4)), decide)
