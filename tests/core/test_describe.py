from __future__ import annotations

import pytest

from batfill.workloads import read_workload
from batfill.workloads.describe import describe, description_text
from swf_text import row


def write(tmp_path, text):
    path = tmp_path / "log.swf"
    path.write_text(text)
    return path


HEADER = "; UnixStartTime: 893466664\n; TimeZoneString: Europe/Paris\n; MaxProcs: 10\n"


def test_counts_and_shares_are_those_of_a_log_drawn_by_hand(tmp_path):
    text = HEADER + "".join(
        [
            row(1, 0, 100, req_time=100, req_procs=5, user=1),
            row(2, 10, 50, req_time=40, req_procs=10, user=1),  # overran
            row(3, 10, 5, req_time=500, req_procs=1, user=0),  # 100 times
            row(4, 20, -1, status=5, user=3),
            row(4, 20, -1, status=5, user=3),  # the same row again
            row(5, 5, 30, req_time=-1, req_procs=11, status=0, user=-1),  # no estimate, too wide, out of order
        ]
    )
    report = describe(write(tmp_path, text))
    assert (report["rows"], report["jobs"], report["users"], report["procs"]) == (6, 4, 3, 10)
    quality = report["quality"]
    assert quality["overruns"] == 1
    assert quality["overrun_share"] == 1 / 3
    assert quality["ran_exactly_the_request"] == 1
    assert quality["without_estimate"] == 0.25
    assert (quality["completed"], quality["failed"], quality["cancelled"]) == (3, 1, 2)
    assert quality["wider_than_machine"] == 1
    assert quality["job_numbers_used_again"] == quality["equal_rows"] == 1
    assert quality["without_user"] == 1
    assert quality["sorted_by_submission"] is False
    assert report["premature"]["ccgrid"] == 0.25
    assert report["cleaning"] == {"wide": 1, "processors": 0, "times": 2, "ran": 2, "duplicates": 1}
    assert report["load"]["overall"] == (500 + 500 + 5 + 330) / (10 * 10)
    assert report["time"]["first_submit"] == "1998-04-25T03:11:04+02:00"
    assert report["time"]["utc_offset_s"] == 7200


def test_filters_named_in_the_header_are_counted_or_said_to_be_not_understood(tmp_path):
    header = (
        "; Note: filters\n;   user=1 and (job>=2 and job<=9) (8 jobs removed)\n;   a strange one (3 jobs removed)\n"
    )
    report = describe(write(tmp_path, header + row(1, 0, 1) + row(2, 0, 1)))
    counted, strange = report["filters"]
    assert counted == {
        "filter": "user=1 and (job>=2 and job<=9)",
        "removed": 8,
        "would_drop": 1,
        "not_understood": None,
    }
    assert (strange["removed"], strange["would_drop"]) == (3, None)
    assert "'a' is not understood" in strange["not_understood"]
    text = description_text(report)
    assert "user=1 and (job>=2 and job<=9): 8 removed before, by the header; would drop 1" in text
    assert "a strange one: 3 removed before, by the header; not understood: filter 'a strange one'" in text
    assert report["cleaning"]["wide"] is None


def test_of_a_log_without_requests_nothing_is_said_that_needs_them(tmp_path):
    report = describe(write(tmp_path, row(1, 0, 100, user=-1) + row(2, 9, 10, user=-1)))
    assert report["warnings"][0].startswith("2 of 2 jobs (100.0 %) have no requested time")
    assert report["premature"] == {"ccgrid": None, "jpdc": {}}
    assert report["quality"]["overruns"] is report["quality"]["overrun_share"] is None
    text = description_text(report)
    for said in (
        "warning: 2 of 2 jobs (100.0 %) have no requested time",
        "premature jobs: unknown, since no job has a requested time",
        "overrun share: unknown",
        "dates unknown (the header has no UnixStartTime)",
        "unknown number of processors; pass --procs, no job's user is known",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("CEA-Curie-2011-2.1-cln", "cea-curie"),
        ("CTC-SP2-1996-3.1-cln", "ctc-sp2"),
        ("HPC2N-2002-2.2-cln", "hpc2n"),
        ("KTH-SP2-1996-2.1-cln", "kth-sp2"),
        ("SDSC-BLUE-2000-4.2-cln", "sdsc-blue"),
        ("SDSC-SP2-1998-4.2-cln", "sdsc-sp2"),
    ],
)
def test_the_archives_logs_are_described_without_a_doubt_and_their_statuses_add_up(archive_log, name, known):
    report = describe(archive_log(f"{name}.swf.gz"))
    quality = report["quality"]
    assert (report["known"], report["warnings"], quality["other_status"]) == (known, [], 0)
    classes = ("completed", "failed", "cancelled", "partial_executions", "unknown_status")
    assert sum(quality[one] for one in classes) == report["rows"]
    assert report["filters"]
    assert all(one["removed"] > 0 == one["would_drop"] for one in report["filters"])


@pytest.mark.parametrize(
    ("header", "date"),
    [
        ("; UnixStartTime: 0\n; TimeZone: 3600\n", "1970-01-01T01:00:05+01:00"),
        ("; UnixStartTime: 0\n; TimeZoneString: Nowhere/Town\n; TimeZone: -7200\n", "1969-12-31T22:00:05-02:00"),
        ("; UnixStartTime: 0\n", "1970-01-01T00:00:05+00:00"),
        ("; UnixStartTime: 0\n; TimeZone: 99999999\n; TimeZoneString: ../../etc\n", "1970-01-01T00:00:05+00:00"),
        ("; UnixStartTime: unknown\n", None),
        ("; UnixStartTime: 99999999999999999999\n", None),
    ],
)
def test_the_zone_is_the_named_one_else_the_offset_else_utc(tmp_path, header, date):
    log = write(tmp_path, header + row(1, 5, 1))
    assert describe(log)["time"].get("first_submit") == date
    notes = read_workload(log, procs=10).notes
    assert any("no time zone" in note for note in notes) == (date is not None and "TimeZoneString" in header)


def test_the_papers_dividers_and_premature_shares_come_out(archive_log):
    kth = describe(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))["premature"]["jpdc"]
    assert kth["all_rows"]["small_below_s"] == 847
    assert round(kth["completed"]["small_non_premature"], 4) == 0.1537
    assert round(kth["completed"]["small_premature"], 4) == 0.3459
    assert describe(archive_log("SDSC-SP2-1998-4.2-cln.swf.gz"))["premature"]["jpdc"]["ran"]["small_below_s"] == 359
