"""Batsim's result files, written from records and read again."""

from __future__ import annotations

import csv
import json
import math
import re
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from procset import ProcSet

from batfill.base.errors import WorkloadError
from batfill.base.files import csv_text
from batfill.batsim_files import results
from batfill.batsim_files.machines import MachineTimes
from batfill.batsim_files.results import (
    BATSIM_VERSION,
    COLUMNS,
    JOB_COLUMNS,
    NULL_EXECUTION_S,
    JobFacts,
    JobRecord,
    ResultError,
    WordColumn,
    read_columns,
    read_results,
    read_schedule,
    run_files,
)
from batfill.model.states import STATES
from golden import RUNS, recording
from golden5 import Recording5


def record(row: dict[str, str]) -> JobRecord:
    """The record of a job that Batsim wrote this row for."""
    rejected = row["final_state"] == "REJECTED"
    return JobRecord(
        row["job_id"],
        row["workload_name"],
        row["profile"],
        float(row["submission_time"]),
        int(row["requested_number_of_resources"]),
        float(row["requested_time"]),
        row["final_state"],
        *(() if rejected else (float(row["starting_time"]), float(row["execution_time"]))),
        allocated_resources="" if rejected else ProcSet.from_str(row["allocated_resources"]),
        metadata=row["metadata"],
    )


def write_run(folder, records, **summary):
    """Write a run's files, the summary if its figures are given; returns the totals."""
    with run_files(folder / "out") as files:
        for one in records:
            files.job_ended(one)
        if summary:
            files.summarise(**summary)
    return files.totals


@pytest.mark.parametrize("name", RUNS)
def test_records_read_from_batsims_file_are_written_back_as_they_were(name, tmp_path):
    lines = recording(name).lines("jobs")
    place = lines[0].split(",").index("stretch")
    totals = write_run(tmp_path, map(record, csv.DictReader(lines)))
    for ours, theirs in zip((tmp_path / "out_jobs.csv").read_text().splitlines(), lines, strict=True):
        if ours != theirs:  # SimGrid's clock is off by some 1e-9 s: see the stretch of jobs of a second or two
            a, b = ours.split(","), theirs.split(",")
            assert math.isclose(float(a.pop(place)), float(b.pop(place)), rel_tol=5e-9, abs_tol=1.1e-6)
            assert a == b
    header, row = recording(name).lines("schedule")
    schedule = dict(zip(header.split(","), row.split(","), strict=True))
    assert totals.columns() == {key: schedule[key] for key in totals.columns()}


def test_a_schedule_has_batsims_columns_and_says_who_wrote_it(tmp_path):
    jobs = [
        JobRecord("a", "w0", "p", 0, 1, -1, "COMPLETED_FAILED", 5, 10),
        JobRecord("b", "w0", "p", 0, 9, -1, "REJECTED"),
    ]
    write_run(tmp_path, jobs, machines=4, times=MachineTimes(10, 20, 3), scheduling_s=0.5, simulation_s=1)
    header, row = (tmp_path / "out_schedule.csv").read_text().splitlines()
    assert header == recording("fcfs").lines("schedule")[0]
    written = dict(zip(header.split(","), row.split(","), strict=True))
    assert written["batsim_version"] == BATSIM_VERSION
    assert {k: written[k] for k in ("nb_jobs", "nb_jobs_killed", "nb_jobs_rejected", "success_rate")} == {
        "nb_jobs": "2", "nb_jobs_killed": "1", "nb_jobs_rejected": "1", "success_rate": "0.000000",
    }  # fmt: skip
    assert (written["mean_waiting_time"], written["max_slowdown"]) == ("2.500000", "1.500000")
    assert (written["time_computing"], written["time_idle"], written["time_unavailable"]) == (
        "10.000000", "20.000000", "3.000000",
    )  # fmt: skip


def test_a_failure_leaves_no_file(tmp_path):
    def broken():
        yield JobRecord("a", "w0", "p", 0, 1, -1, "REJECTED")
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write_run(tmp_path, broken())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(WorkloadError, match="cannot be written"):
        write_run(tmp_path / "absent", [])


def test_what_is_written_is_read(tmp_path):
    records = [
        JobRecord("a", "w0", "p", 0, 2, 9, "COMPLETED_KILLED", 0, 5, "0-1"),
        JobRecord("b", "w0", "p", 1, 9, -1, "REJECTED", metadata="user=3"),
        JobRecord("a#1", "w0", "p", 0, 2, 9, "COMPLETED_WALLTIME_REACHED", 7, 9, "0 3", "user=4 backfilled=1"),
        JobRecord("c", "w0", "p", 2, 1, 9, "COMPLETED_SUCCESSFULLY", 2, NULL_EXECUTION_S, "5", "backfilled=0"),
    ]
    write_run(tmp_path, records, machines=6, times=MachineTimes(), scheduling_s=0, simulation_s=0)
    schedule = read_schedule(tmp_path / "out_jobs.csv")
    assert schedule == (BATSIM_VERSION, 6)
    results = read_results(tmp_path / "out_jobs.csv", size=schedule.machines, facts={"a": JobFacts(7)})
    assert results.names.tolist() == ["a", "a#1", "b", "c"]
    assert results.ids.tolist() == ["a", "a", "b", "c"]
    assert [list(STATES)[state] for state in results.state] == [
        "COMPLETED_KILLED", "COMPLETED_WALLTIME_REACHED", "REJECTED", "COMPLETED_SUCCESSFULLY",
    ]  # fmt: skip
    assert results.facts.user.tolist() == [7, 4, 3, -1]  # what a try says itself goes first
    assert results.machines.first.tolist() == [0, 0, 3, 5]
    assert results.runtime_s[3] == 0  # for which Batsim writes a hundred-thousandth of a second
    assert results.known_figures()["utilisation"] == (2 * 9 + 2 * 5) / (6 * 16)
    assert results.known_figures()["backfilled"] == 1


def test_jobs_of_several_workloads_keep_the_workloads_name(tmp_path):
    for workloads, ids in ((("w0", "w0"), ["a", "b"]), (("w0", "w1"), ["w0!a", "w1!b"])):
        jobs = zip("ab", workloads, strict=True)
        write_run(tmp_path, [JobRecord(*names, "p", 0, 1, -1, "REJECTED") for names in jobs])
        assert read_results(tmp_path / "out_jobs.csv").ids.tolist() == ids


def figures_of(jobs_csv, size=100):
    """Everything read from the file but the ids of workloads, by column."""
    results = read_results(jobs_csv, size=size)
    columns = ("names", "ids", "submit_s", "start_s", "runtime_s", "walltime_s", "procs", "state", "attempt", "job")
    return {name: getattr(results, name).tolist() for name in columns} | results.summary().as_dict()


# Batsim 5 made the same starts as 4.2 on the same platform, but for one; see the rows of the next test.
SAME_STARTS = [name for name in RUNS if name != "small-first-kill-requeue-acknowledged"]


@pytest.mark.parametrize("name", [*SAME_STARTS, "small-first-kill-requeue-acknowledged-exact-dates"])
def test_the_files_of_batsim_5_say_the_same_as_those_of_batsim_4(name, tmp_path):
    """Also of requeued jobs, whose first submission is not in their later tries' rows."""
    old = tmp_path / "out_jobs.csv"
    old.write_text("\n".join(recording(name.removesuffix("-exact-dates")).lines("jobs")) + "\n")
    new = Recording5(name).folder / "out" / "jobs.csv"
    # As text, since nan does not equal itself.
    assert json.dumps(figures_of(new)) == json.dumps(figures_of(old))


@pytest.mark.parametrize(
    ("name", "jobs_csv", "machines"),
    [("fcfs", "out/jobs.csv", 100), ("small-other-prefix", "res/x_jobs.csv", 4), ("small-no-jobs", "out/jobs.csv", 4)],
)
def test_the_summary_of_batsim_5_is_read(name, jobs_csv, machines):
    assert read_schedule(Recording5(name).folder / jobs_csv) == ("v5.0.0-rc1-18-gba7ea85f", machines)


FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6)
NUMBER = st.one_of(st.integers(-1, 10**12).map(str), st.floats(0, 1e12).map(lambda x: f"{x:.6f}"), st.just(""))
PLACES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), max_size=3).map(
    lambda parts: " ".join(f"{low}-{low + more}" if more else str(low) for low, more in parts)
)
LINE = st.tuples(
    FIELD, st.sampled_from(["w0", "w1"]), FIELD, NUMBER, st.integers(0, 99).map(str), NUMBER, st.just("1"),
    st.sampled_from(list(STATES)), NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, PLACES, NUMBER, FIELD,
)  # fmt: skip


def rows_read(path, rows_at_once):
    """What the file says of each job, as text since nan does not equal itself; or its mistake."""
    try:
        columns, digest = read_columns(path, rows_at_once)
    except ResultError as error:
        return re.search(r":\d+: cut off or damaged: |are not machines", str(error))[0]
    assert digest == sha256(path.read_bytes()).hexdigest()
    numbers = [columns[title].tolist() for title, column in COLUMNS.items() if column.kind in (str, int, float)]
    words = [columns[title] for title, column in COLUMNS.items() if column.kind is WordColumn]
    places = columns["allocated_resources"]
    ends = [np.stack(places[1:], 1)[slice(*places.offset[i : i + 2])].tolist() for i in range(len(numbers[0]))]
    return list(map(str, zip(*numbers, *([word.words[k] for k in word.code] for word in words), ends, strict=True)))


@given(st.lists(LINE, min_size=1, max_size=8), st.integers(1, 60), st.sampled_from("x,#-\n "))
def test_a_file_is_read_in_parts_and_refused_at_the_line_of_a_mistake(tmp_path_factory, lines, cut, letter):
    path = tmp_path_factory.getbasetemp() / "parts_jobs.csv"
    text = JOB_COLUMNS + "\n" + csv_text(lines)
    path.write_text(text, newline="")
    found = rows_read(path, 3)
    for row, line in zip(found, lines, strict=True):
        seconds = [float(line[k] or "nan") for k in (3, 5, 8, 9)]
        ends = [[int(part.partition("-")[0]), int(part.rpartition("-")[2])] for part in line[14].split()]
        numbers = (line[0], seconds[0], int(line[4]), *seconds[1:])
        assert row == str((*numbers, line[1], line[7], line[16], ends))
    cut = min(cut, len(text) - len(JOB_COLUMNS) - 1)
    for damaged in (text[:-cut], text[:-cut] + letter + text[len(text) - cut + 1 :]):
        path.write_text(damaged, newline="")
        assert rows_read(path, 1) == rows_read(path, 3)


def test_machines_that_are_none_are_refused(tmp_path):
    path = tmp_path / "out_jobs.csv"
    for text in ("x", "1-", "1-2-3", "9" * 19):
        write_run(tmp_path, [JobRecord("a", "w0", "p", 0, 1, -1, "COMPLETED_SUCCESSFULLY", 0, 5, text)])
        with pytest.raises(ResultError, match=f"out_jobs.csv: allocated_resources: '{text[:40]}.* are not machines"):
            read_results(path)


@pytest.mark.parametrize(("asked_s", "text"), [(900.0, "asked=900"), (float("inf"), "asked=none"), (float("nan"), "")])
def test_a_request_that_is_not_the_limit_is_written_and_read_back(asked_s, text):
    assert results.metadata_text(asked_s=asked_s) == text
    assert results.Facts.of([text]).asked_s.tolist() == pytest.approx([asked_s], nan_ok=True)
