"""A campaign's runs: how many, which, known by their content, and how they are put into tasks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from batfill.campaigns import traces
from batfill.campaigns.config import CampaignError, read_campaign
from batfill.campaigns.costs import Costs, Curve, kind_of, tasks_of
from batfill.campaigns.plan import Readings, number_of_traces, plan, traces_of
from batfill.errors import WorkloadError

SAMPLE = Path(__file__).parents[1] / "workloads" / "sample.json"
DAYS = 5  # the sample's


@pytest.fixture
def planned(tmp_path):
    """A function from the lines below `workloads:` to the campaign's plan."""

    def planned(text, folder="here"):
        (tmp_path / folder).mkdir(exist_ok=True)
        shutil.copy(SAMPLE, tmp_path / folder / "log.json")
        path = tmp_path / folder / "c.yaml"
        path.write_text(f"workloads: [{{file: log.json}}]\n{text}")
        return plan(read_campaign(path))

    return planned


def costs(of, job_s):
    """Every job takes this long."""
    return Costs({kind_of(p.run.given): Curve((1,), (job_s,)) for p in of.runs}, Readings({}, {}))


def ids(of):
    return [planned.run.id for planned in of.runs]


def test_runs_are_the_product_of_the_lists(planned):
    grid = planned(
        "policies: [fcfs, saf]\nthresholds: [null, 7200, 9000]\nwindows: {days: 1}\n"
        "resamplings: {samples: 2, weeks: 1}\nseeds: [1, 2]\n"
    )
    windows = {(p.trace.seed, p.trace.sample, p.run.window) for p in grid.runs}
    assert {(seed, sample) for seed, sample, _ in windows} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert len(grid.runs) == 6 * len(windows) == len(set(ids(grid)))


def test_every_window_is_counted_with_its_jobs(planned):
    grid = planned("policies: [fcfs]\nwindows: {days: 1}\n")
    assert [p.run.window for p in grid.runs] == list(range(DAYS))
    assert sum(p.jobs for p in grid.runs) == 800


def test_only_what_takes_a_seed_is_run_once_per_seed(planned):
    grid = planned("policies: [fcfs]\nknowledge: [request, forest]\nseeds: [1, 2]\n")
    assert [p.run.given.get("seed") for p in grid.runs] == [None, 1, 2]


def test_what_learns_on_a_resampling_takes_its_seed(planned):
    grid = planned("policies: [fcfs]\nknowledge: [forest]\nseeds: [1, 2]\nresamplings: {samples: 1}\n")
    assert [(p.trace.seed, p.run.given["seed"]) for p in grid.runs] == [(1, 1), (2, 2)]


def test_a_run_is_known_by_its_content_and_not_by_its_place(planned):
    text = "policies: [fcfs, saf]\nwindows: {days: 1}\n"
    assert ids(planned(text)) == ids(planned(text, folder="elsewhere"))
    assert ids(planned(text))[2:4] == ids(planned("policies: [fcfs, saf]\nwindows: {days: 1, skip: 1, count: 1}\n"))


@pytest.mark.parametrize(
    "other",
    [
        "policies: [saf]\n",
        "policies: [fcfs]\ntau: 60\n",
        "policies: [fcfs]\nbackfills: [spf]\n",
        "policies: [fcfs]\nthresholds: [7200]\n",
        "policies: [fcfs]\nwindows: {days: 100}\n",
        "policies: [fcfs]\nresamplings: {samples: 1}\n",
        "policies: [fcfs]\nknowledge: [easy++]\n",
    ],
)
def test_another_choice_is_another_run(planned, other):
    assert not set(ids(planned("policies: [fcfs]\n"))) & set(ids(planned(other)))


def test_another_samples_run_is_another(planned):
    grid = planned("policies: [fcfs]\nresamplings: {samples: 2}\nseeds: [1, 2]\n")
    assert len(set(ids(grid))) == 4


def test_another_engine_makes_all_runs_anew(planned, monkeypatch):
    before = ids(planned("policies: [fcfs]\n"))
    monkeypatch.setattr("batfill.campaigns.plan.SOURCES", "changed")
    assert ids(planned("policies: [fcfs]\n")) != before


def test_tasks_hold_every_run_once_and_one_trace_each(planned):
    grid = planned("policies: [fcfs, saf]\nwindows: {days: 1}\nresamplings: {samples: 3, weeks: 1}\n")
    tasks = tasks_of(grid.runs, costs(grid, 1e-6), grid, workers=2)
    assert [run.id for task in tasks for run in task.runs] == ids(grid)
    assert len(tasks) >= 3
    for task in tasks:
        assert {p.trace for p in grid.runs if p.run in task.runs} == {task.trace}


def test_a_costly_run_is_a_task_of_its_own(planned):
    grid = planned("policies: [fcfs, saf]\n")
    assert [len(task.runs) for task in tasks_of(grid.runs, costs(grid, 1.0), grid, workers=2)] == [1, 1]


def test_finished_runs_are_not_left(planned):
    grid = planned("policies: [fcfs, saf, spf]\n")
    assert [p.run.given["policy"] for p in grid.left([grid.runs[1].run.id])] == ["fcfs", "spf"]


def test_progress_counts_every_trace(tmp_path, planned):
    planned("policies: [fcfs]\nresamplings: {samples: 3}\nseeds: [1, 2]\n")
    read = read_campaign(tmp_path / "here" / "c.yaml")
    assert len(list(traces_of(read))) == number_of_traces(read.campaign) == 6


def test_the_same_file_twice_is_refused(tmp_path, planned):
    planned("policies: [fcfs]\n")
    path = tmp_path / "here" / "c.yaml"
    path.write_text("workloads: [{file: log.json}, {file: ./log.json}]\npolicies: [fcfs]\n")
    with pytest.raises(CampaignError, match=r"log.json under .*'fcfs'.* is requested twice"):
        plan(read_campaign(path))


def test_a_machine_of_unknown_size_is_asked_for(tmp_path):
    (tmp_path / "log.swf").write_text("1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n")
    path = tmp_path / "c.yaml"
    path.write_text("workloads: [{file: log.swf}]\npolicies: [fcfs]\n")
    with pytest.raises(WorkloadError, match="does not say how many processors the machine has; give its `procs:`"):
        plan(read_campaign(path))


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path, planned):
    (first,) = planned("policies: [fcfs]\n").runs
    (tmp_path / "here" / "log.json").write_text("{}")
    traces.piece_of.cache_clear()
    with pytest.raises(CampaignError, match="when the campaign was planned; give every machine the same file"):
        traces.piece_of(first.trace, None)
