"""A campaign's runs: how many, which, known by their content, and how they are put into tasks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from batfill_lab.campaigns import traces
from batfill_lab.campaigns.config import CampaignError, read_campaign
from batfill_lab.campaigns.plan import plan

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"


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


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path, planned):
    (first,) = planned("policies: [fcfs]\n").runs
    (tmp_path / "here" / "log.json").write_text("{}")
    traces.piece_of.cache_clear()
    with pytest.raises(CampaignError, match="when the campaign was planned; give every machine the same file"):
        traces.piece_of(first.trace, None)


def test_tasks_hold_every_run_once_one_trace_each_and_about_as_much_work(planned, monkeypatch):
    grid = planned("policies: [fcfs, saf]\nwindows: {days: 1}\nresamplings: {samples: 3, weeks: 1}\n")
    tasks = grid.in_tasks(grid.runs, 2)
    assert [run.id for task in tasks for run in task.runs] == ids(grid)
    trace_of = {planned.run.id: planned.trace for planned in grid.runs}
    assert all({trace_of[run.id] for run in task.runs} == {task.trace} for task in tasks)
    whole = sum(planned.size for planned in grid.runs)
    assert len(tasks) >= 8
    monkeypatch.setattr("batfill_lab.campaigns.plan.TASK_SIZE", whole // 40)
    assert len(grid.in_tasks(grid.runs, 2)) > len(tasks)
    assert [len(task.runs) for task in grid.in_tasks(grid.runs[:1], 2)] == [1]
