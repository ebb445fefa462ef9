from __future__ import annotations

import json
import time

import pytest

from batfill.cli import main
from batfill.errors import WorkloadError
from batfill.workloads.describe import as_text, describe
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
            row(3, 10, 5, req_time=500, req_procs=1, user=2),  # 100 times
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


def test_every_number_of_the_report_is_said_to_people_too(tmp_path):
    text = as_text(describe(write(tmp_path, HEADER + row(1, 0, 100) + row(2, 9, 10))))
    for said in ("2 rows, 2 jobs", "10 processors", "premature jobs", "wide: 0", "divider 55 s", "1998-04-25"):
        assert said in text


def test_filters_named_in_the_header_are_counted_or_said_to_be_unknown(tmp_path):
    header = (
        "; Note: filters\n;   user=1 and (job>=2 and job<=9) (8 jobs removed)\n;   a strange one (3 jobs removed)\n"
    )
    report = describe(write(tmp_path, header + row(1, 0, 1) + row(2, 0, 1)))
    assert report["cleaning"]["flurry user=1 and (job>=2 and job<=9)"] == 1
    assert report["cleaning"]["flurry a strange one"] is None
    assert report["cleaning"]["wide"] is None


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
    assert describe(write(tmp_path, header + row(1, 5, 1)))["time"].get("first_submit") == date


def test_submissions_ages_apart_are_refused(tmp_path):
    with pytest.raises(WorkloadError, match="mend the submission times"):
        describe(write(tmp_path, HEADER + row(1, 0, 1) + row(2, 10**15, 1)))


def test_a_log_without_jobs_is_refused(tmp_path):
    with pytest.raises(WorkloadError, match="none of 1 rows"):
        describe(write(tmp_path, row(1, 0, 0)))


def test_the_papers_dividers_and_premature_shares_come_out(archive_log):
    kth = describe(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))["premature"]["jpdc"]
    assert kth["all_rows"]["divider_s"] == 847
    assert round(kth["completed"]["small_non_premature"], 4) == 0.1537
    assert round(kth["completed"]["small_premature"], 4) == 0.3459
    assert describe(archive_log("SDSC-SP2-1998-4.2-cln.swf.gz"))["premature"]["jpdc"]["ran"]["divider_s"] == 359


def test_a_large_log_is_described_in_under_three_seconds(archive_log):
    describe(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))  # compiles
    start = time.perf_counter()
    assert describe(archive_log("SDSC-BLUE-2000-4.2-cln.swf.gz"))["rows"] == 243_306
    assert time.perf_counter() - start < 3


def test_the_command_prints_json_on_stdout_alone(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["workload", "describe", str(write(tmp_path, row(1, 0, 1))), "--json", "--procs", "4"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["procs"] == 4
    assert err == ""
