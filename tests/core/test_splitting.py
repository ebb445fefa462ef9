from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.model.jobs import WEEK_S
from batfill.workloads.swf_log import new_log, read_log
from batfill.workloads.times import consecutive_windows, cut, windows
from command import batfill
from sweeps import examples

DAY = 86_400


def log(submit, wait=None, run=None, header=()):
    n = len(submit)
    columns = {"submit_s": submit, "wait_s": wait or [0] * n, "runtime_s": run or [1] * n}
    return new_log(header, {name: np.array(values, float) for name, values in columns.items()})


def rows(found):
    return [window.rows.tolist() for window in found]


def test_windows_count_from_the_logs_second_zero():
    found = windows(log([0, 9, 10, 25]), 10)
    assert rows(found) == [[0, 1], [2], [3]]
    assert [(window.start_s, window.end_s) for window in found] == [(0, 10), (10, 20), (20, 30)]


def test_boundary_rules_differ_for_a_job_that_waits_or_runs_across_the_border():
    #         inside, finishes after, starts after, starts and finishes after
    full = log([0, 0, 0, 0, 11], wait=[2, 2, 9, 12, -1], run=[3, 9, 9, 3, 2])
    kept = {rule: rows(windows(full, 10, boundary=rule)) for rule in ("submitted", "submit-finish", "start-finish")}
    assert kept["submitted"] == [[0, 1, 2, 3], [4]]
    assert kept["submit-finish"] == [[0], [4]]
    assert kept["start-finish"] == [[0, 3], [4]]
    assert windows(full, 10, boundary="submit-finish")[0].left_out == 3


def test_rows_without_a_submission_time_belong_to_no_window():
    found = windows(log([-1, 5]), 10)
    assert rows(found) == [[1]]
    assert found[0].left_out == 0


PARIS = ("UnixStartTime: 1017529200", "TimeZoneString: Europe/Paris")  # Sunday 31 March 2002, 00:00, clocks go forward


def test_calendar_weeks_start_on_monday_midnight_in_the_logs_zone_and_days_may_have_23_hours():
    found = windows(log([0, 23 * 3600 - 1, 23 * 3600], header=PARIS), WEEK_S, align="calendar")
    assert rows(found) == [[0, 1], [2]]  # that Sunday had 23 hours
    found = windows(log([0, 23 * 3600], header=PARIS), DAY, align="calendar")
    assert [window.days for window in found] == [23 / 24, 1]


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=40),
    st.sampled_from([3600, DAY, WEEK_S, "month"]),
    st.sampled_from(["log", "first", "calendar"]),
)
def test_every_row_is_in_the_one_window_of_its_time(submit, width, align):
    if align == "calendar" and width == 3600:
        width = DAY
    full = log(submit, header=PARIS)
    found = windows(full, width, align=align)
    assert sorted(row for window in found for row in window.rows.tolist()) == list(range(len(submit)))
    for window in found:
        inside = full["submit_s"][window.rows]
        assert ((inside >= window.start_s) & (inside < window.end_s)).all()
    assert all(a.end_s == b.start_s for a, b in pairwise(found))


def test_consecutive_windows_are_the_first_run_with_enough_jobs():
    found = windows(log([0, 1, 10, 20, 21, 30, 31, 40, 41]), 10)
    assert [window.index for window in consecutive_windows(found, count=2, min_jobs=2)] == [2, 3]
    assert [window.index for window in consecutive_windows(found, skip=3, min_jobs=2)] == [3, 4]
    with pytest.raises(WorkloadError, match="no 4 consecutive windows"):
        consecutive_windows(found, count=4, min_jobs=2)
    with pytest.raises(WorkloadError, match="skip fewer"):
        consecutive_windows(found, skip=5)


def test_a_window_is_a_log_whose_zero_is_its_start():
    full = log([5, 12, 19], header=("UnixStartTime: 1000", "MaxProcs: 4", "MaxJobs: 3"))
    part = cut(full, windows(full, 10)[1])
    assert part["submit_s"].tolist() == [2, 9]
    assert part.header_value("UnixStartTime") == "1010"
    assert part.header_value("MaxProcs") == "4"
    assert part.header_value("MaxJobs") is None
    assert part.header_value("MaxRecords") == "2"


def test_the_command_writes_the_windows_and_lists_them(tmp_path):
    source = tmp_path / "a.b.swf"
    source.write_text("".join(f"{i} {i * DAY} 0 10 1 -1 -1 1 20 -1 1 1 1 -1 -1 -1 -1 -1\n" for i in range(1, 30)))
    done = batfill("workload", "split", source, "--out", tmp_path / "out", "--skip", 1, "--count", 2, "--json")
    listed = json.loads(done.out)
    assert [item["jobs"] for item in listed] == [7, 7]
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["a.b-0001.swf.gz", "a.b-0002.swf.gz"]
    assert read_log(tmp_path / "out" / "a.b-0001.swf.gz")["submit_s"][0] == 0


def test_sdsc_sp2_has_the_106_weeks_of_the_reference(archive_log):
    full = read_log(archive_log("SDSC-SP2-1998-4.2-cln.swf.gz"))
    assert len(windows(full, WEEK_S, boundary="submit-finish")) == 106
