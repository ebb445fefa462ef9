"""The small workloads of expe/schedules/ and the starts of each variant of EASY: right for batfill, and recognised."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.batsim_files.results import JOB_COLUMNS, job_row
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings
from batfill.workloads.batsim_json import load_document

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "expe" / "schedules"
SCRIPT = ROOT / "scripts" / "check_schedule.py"
with (FOLDER / "starts.csv").open() as file:
    ROWS = list(csv.DictReader(file))
WORKLOADS = list(dict.fromkeys(row["workload"] for row in ROWS))
VARIANTS = [name for name in ROWS[0] if name not in ("workload", "job")]


def starts_of(variant, workload):
    return {row["job"]: row[variant] for row in ROWS if row["workload"] == workload}


def checked(folder):
    """The status of the script on a folder of job tables, its lines, and its line on standard error."""
    command = [sys.executable, SCRIPT, *sorted(folder.glob("*_jobs.csv"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def write_starts(folder, workload, starts):
    lines = [f"{job},{'' if start == 'rejected' else start + '.000000'}" for job, start in starts.items()]
    (folder / f"{workload}_jobs.csv").write_text("\n".join(["job_id,starting_time", *lines, ""]))


def test_every_workload_has_the_starts_of_all_its_jobs_under_each_variant():
    assert sorted(WORKLOADS) == sorted(path.stem for path in FOLDER.glob("*.json"))
    for workload in WORKLOADS:
        jobs = json.loads((FOLDER / f"{workload}.json").read_text())["jobs"]
        assert [row["job"] for row in ROWS if row["workload"] == workload] == [job["id"] for job in jobs]
        for job, row in zip(jobs, [row for row in ROWS if row["workload"] == workload], strict=True):
            assert all(row[name] == "rejected" or int(row[name]) >= job["subtime"] for name in VARIANTS)


@pytest.mark.parametrize(
    ("options", "variant"),
    [
        ({}, "easy"),
        ({"reservation": "kept"}, "easy-kept"),
        ({"reservation": "machines"}, "easy-machines"),
        *(({"depth": depth}, f"depth-{depth}") for depth in (2, 3, 4, 8, "all")),
        ({"depth": 0}, "filler"),
        ({"depth": "all", "plan": "kept"}, "conservative"),
        ({"depth": "all", "plan": "kept:5"}, "conservative-margin"),
    ],
    ids=str,
)
def test_batfill_is_the_variant_that_its_options_say(options, variant, tmp_path):
    for workload in WORKLOADS:
        document = load_document(FOLDER / f"{workload}.json")
        platform = tmp_path / f"{document.nb_res}.xml"
        platform.write_text(homogeneous_platform(document.nb_res))
        ended = []
        Simulation(
            read_platform(platform),
            {"w0": document},
            Conversation4(Agent(options)).answer,
            settings=SimulationSettings(),
            on_job_end=ended.append,
        ).run()
        rows = "".join(map(job_row, ended))
        (tmp_path / f"{workload}_jobs.csv").write_text(f"{JOB_COLUMNS}\n{rows}")
    status, lines, _ = checked(tmp_path)
    assert (status, lines[-1]) == (0, f"variant: {variant}")


@pytest.mark.parametrize("variant", ["easy-contiguous", "sequencer", "filler-each-instant"])
def test_a_variant_is_recognised_by_its_starts(variant, tmp_path):
    for workload in WORKLOADS:
        write_starts(tmp_path, workload, starts_of(variant, workload))
    status, lines, _ = checked(tmp_path)
    assert (status, lines[-1]) == (0, f"variant: {variant}")


def test_a_schedule_that_is_no_variants_is_said_to_be_near_one(tmp_path):
    for workload in WORKLOADS:
        write_starts(tmp_path, workload, starts_of("easy", workload))
    write_starts(tmp_path, "next-head", {**starts_of("easy", "next-head"), "J": "51"})
    status, lines, _ = checked(tmp_path)
    assert status == 1
    assert "next-head                        as no known variant" in lines
    assert lines[-2:] == [
        "variant: none of the known; the nearest is easy, with 26 of 27 workloads",
        "first difference: next-head: job J starts at 51, and there it starts at 150",
    ]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("short-job", "job,start\nA,0\n", "the columns job_id and starting_time are not both there"),
        ("short-job", "job_id,starting_time\nA,soon\n", "job A: starting_time 'soon' is no number"),
        ("long-job", "job_id,starting_time\nA,0\n", "is named after no workload; rename it"),
    ],
)
def test_a_file_that_is_no_job_table_of_a_workload_is_refused_in_one_line(name, text, says, tmp_path):
    (tmp_path / f"{name}_jobs.csv").write_text(text)
    status, lines, error = checked(tmp_path)
    assert (status, lines) == (2, [])
    assert error.count("\n") == 1
    assert says in error
