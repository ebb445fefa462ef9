"""A campaign's estimate: what its parts take, timed or made up, and what they come to on the workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from batfill.campaigns import costs as library
from batfill.campaigns.config import read_campaign
from batfill.campaigns.costs import LEARNING_S, RUN_S, WORKER_S, Costs, Curve, kind_of, measured
from batfill.campaigns.plan import Planned, Readings, plan
from batfill.campaigns.traces import Trace, TraceFile
from batfill.campaigns.work import Run, Task

SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"
LOG = TraceFile("/log.swf", "sum", None, "keep")
TRACE = Trace(LOG)
PLAIN = {"policy": "fcfs", "backfill": "same", "threshold": None}
LEARNING = {**PLAIN, "small": "forest", "kill": "never"}


def planned(name, given, jobs):
    return Planned(Run(name, None, given), TRACE, jobs)


def tasks(runs):
    """A task per run."""
    return [Task(TRACE, (one.run,), 10.0, False) for one in runs]


def total_s(costs, runs, workers):
    return costs.total_s(tasks(runs), {one.run.id: one for one in runs}, workers)


def test_a_curve_is_straight_between_its_points_and_goes_on_as_steep_as_its_second_half():
    curve = Curve((100, 200, 400), (1, 3, 9))
    assert [curve.at(jobs) for jobs in (0, 50, 100, 150, 400)] == [0, 0.5, 1, 2, 9]
    assert curve.at(600) == 9 + 200 * (9 - 3) / 200
    assert Curve((100,), (1,)).at(300) == 3
    assert Curve((), ()).at(10) == 0


def test_the_time_is_that_of_the_start_the_reading_and_the_longest_worker():
    curves = {kind_of(LEARNING): Curve((100,), (10.0,))}
    costs = Costs(curves, Readings({LOG: 3.0}, {TRACE: 0.5}), load=2.0, beside=1.5)
    runs = [planned(str(i), LEARNING, 100) for i in range(3)]
    start_s = 2 * (WORKER_S + LEARNING_S) + 1.5 * 3
    each_s = 1.5 * (0.5 + RUN_S + 10)
    assert total_s(costs, runs, 1) == pytest.approx(start_s + 3 * each_s)
    assert total_s(costs, runs, 2) == pytest.approx(start_s + 2 * each_s)  # one worker has two of the three
    assert total_s(costs, runs, 100) == pytest.approx(start_s + each_s)
    assert total_s(costs, [], 2) == 0


def test_runs_that_keep_several_processors_busy_slow_each_other_down():
    curves = {kind_of(LEARNING): Curve((100,), (10.0,), busy=1.5)}
    (run,) = [planned("a", LEARNING, 100)]
    assert Costs(curves, Readings({}, {}), slowdown=0.5).run_s(run) == pytest.approx(
        10 + RUN_S
    )  # one on two processors
    assert Costs(curves, Readings({}, {}), slowdown=1.0).run_s(run) == pytest.approx(15 + RUN_S)  # two on two


@pytest.fixture
def timed(monkeypatch):
    """The runs that are timed, and how long that may take; the k-th of them takes k seconds."""
    timed = []

    def curve(one, quick_s):
        timed.append((one.run.id, quick_s))
        return Curve((one.jobs,), (float(len(timed)),))

    monkeypatch.setattr(library, "timed", curve)
    return timed


def test_each_kind_is_timed_once_on_its_largest_piece(timed):
    runs = [planned("a", PLAIN, 10), planned("b", PLAIN, 30), planned("c", LEARNING, 20), planned("d", PLAIN, 20)]
    costs = measured(runs, Readings({}, {}), 2, 2, 0.0)
    assert timed == [("b", library.QUICK_S), ("c", library.LEARNING_S_IN_ALL / library.LONGER)]
    assert costs.run_s(runs[0]) == pytest.approx(RUN_S + 1 / 3)


def test_what_else_runs_here_makes_all_longer(timed):
    runs = [planned("a", PLAIN, 10), planned("b", PLAIN, 10)]
    found = [measured(runs, Readings({}, {}), 2, 2, others) for others in (0.0, 1.0, 6.0)]
    assert [(costs.load, costs.beside) for costs in found] == [(1, 1), (1.5, 1.5), (4, 8 / 7)]


def test_kinds_beyond_those_that_are_timed_count_as_the_slowest(timed):
    runs = [planned(str(i), {**PLAIN, "policy": f"aged:{i},1,0"}, 10) for i in range(library.MOST_TIMED + 3)]
    costs = measured(runs, Readings({}, {}), 2, 2, 0.0)
    assert len(timed) == library.MOST_TIMED
    assert costs.run_s(runs[-1]) == pytest.approx(RUN_S + library.MOST_TIMED)


@pytest.mark.parametrize("knowledge", ["request", {"small": "forest", "kill": "always"}])
def test_a_replay_is_timed_on_longer_beginnings_until_one_is_not_quick(tmp_path, monkeypatch, knowledge):
    path = tmp_path / "c.yaml"
    path.write_text(f"workloads: [{{file: {SAMPLE}}}]\npolicies: [fcfs]\nknowledge: {json.dumps([knowledge])}\n")
    run = plan(read_campaign(path)).runs[0]
    monkeypatch.setattr(library, "FIRST_JOBS", 50)
    assert library.timed(run, 60.0).jobs == (50, 200, 800)
    beginning = library.timed(run, 0.0)
    assert (beginning.jobs, beginning.busy >= 1) == ((50,), True)
    assert beginning.at(800) == pytest.approx(16 * beginning.seconds[0])
