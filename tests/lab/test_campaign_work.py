"""A run of a campaign is the replay that `batfill replay` makes, and its row says all of it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pandas as pd

from batfill.model.metrics import Summary
from batfill.model.options import arguments_of
from batfill.replays.replay import replay
from batfill.workloads.formats import load_log, save_log
from batfill.workloads.times import cut, resample, windows
from batfill_lab.campaigns.config import read_campaign
from batfill_lab.campaigns.plan import plan
from batfill_lab.campaigns.work import Task, run_task

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
FIGURES = tuple(Summary.__dataclass_fields__)


@pytest.fixture
def rows(tmp_path):
    """A function from a campaign's lines to its rows, made in this process."""

    def rows(text, *, per_job=False, source=SAMPLE):
        path = tmp_path / "c.yaml"
        path.write_text(f"workloads: [{{file: {source}}}]\n{text}")
        whole = plan(read_campaign(path))
        done = [run_task(Task(p.trace, (p.run,), whole.tau_s, per_job)) for p in whole.runs]
        found = [row for task in done for row in task.rows]
        return (found, [table for task in done for table in task.jobs.values()]) if per_job else found

    return rows


def figures(row):
    return {name: row[name] for name in FIGURES}


@pytest.mark.parametrize(
    "given",
    [
        {"policy": "saf", "backfill": "spf", "threshold": 7200},
        {"policy": "fcfs", "predict": "easy++"},
    ],
)
def test_a_whole_log_is_replayed_as_the_command_does(rows, given):
    knowledge = given.get("predict", "request")
    (row,) = rows(
        f"policies: [{given['policy']}]\nbackfills: [{given.get('backfill', 'same')}]\n"
        f"thresholds: [{given.get('threshold', 'null')}]\nknowledge: [{knowledge}]\ntau: 60\n"
    )
    report = replay(SAMPLE, tau_s=60, **arguments_of(given))
    assert figures(row) == report.figures.as_dict()
    assert (row["workload"], row["workload_sha256"]) == ("sample.json", report.workload.digest)
    assert (row["procs"], row["policy"], row["knowledge"], row["tau_s"]) == (64, given["policy"], knowledge, 60)


def test_a_window_of_a_resampling_is_replayed_as_the_files_of_the_commands_are(rows, tmp_path):
    found = rows("policies: [saf]\nwindows: {days: 1, skip: 1, count: 1}\nresamplings: {samples: 2}\nseeds: [7]\n")
    for sample, row in enumerate(found):
        log = resample(load_log(SAMPLE), 7, sample=sample)
        window = windows(log, 86_400)[row["window"]]
        save_log(cut(log, window), tmp_path / "window.swf")
        assert figures(row) == replay(tmp_path / "window.swf", "saf").figures.as_dict()
        assert (row["seed"], row["sample"], row["window_start_s"]) == (7, sample, window.start_s)
        assert row["window_end_s"] == window.end_s
    assert len(found) == 2


def test_job_tables_hold_what_the_figures_are_made_of(rows):
    (row,), (stored,) = rows("policies: [saf]\n", per_job=True)
    jobs = pd.read_parquet(io.BytesIO(stored))
    assert set(jobs["run"]) == {row["run"]}
    assert len(jobs) == row["jobs"]
    assert jobs["wait_s"].mean() == pytest.approx(row["mean_wait_s"])
    assert jobs["bsld"].mean() == pytest.approx(row["mean_bsld"])
    assert jobs["backfilled"].sum() == row["backfilled"]
    assert np.array_equal(jobs["end_s"].max() - jobs["submit_s"].min(), row["makespan_s"])
