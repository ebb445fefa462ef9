from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.workloads.cleaning import CLEANING_RULES, clean, header_filters, matching
from batfill.workloads.swf_log import new_log, read_log
from command import batfill
from sweeps import examples
from swf_text import row


def log(**columns):
    return new_log(["MaxProcs: 10"], {name: np.array(values, float) for name, values in columns.items()})


def test_a_flurry_is_dropped_by_the_filter_of_a_header():
    text = "user=68 and (job>=58 and job<=564)"
    columns = {"job": [57, 58, 564, 565, 100], "user": [68, 68, 68, 68, 1]}
    assert matching(log(**columns), text).tolist() == [False, True, True, False, False]
    assert clean(log(**columns), rules=[], flurries=[text]).dropped == {f"flurry {text}": 2}


def test_filters_are_found_in_a_header_also_when_they_go_on_in_the_next_line():
    header = [
        "; Note: THIS IS A CLEANED VERSION OF THE LOG!",
        ";   job<=14 (14 jobs removed)",
        ";  user=1 (1 job removed)",
        "; Queue: 18 z+i5U=:",
        ";       (user=38 and (job>5843 and job<6000)) or",
        ";       (user=38 and job>7000) (1,234 jobs removed)",
        ";       user=2",
        ";       and hour>=22 (3 jobs removed)",
    ]
    assert header_filters(header) == [
        ("job<=14", 14),
        ("user=1", 1),
        ("(user=38 and (job>5843 and job<6000)) or (user=38 and job>7000)", 1234),
        ("user=2 and hour>=22", 3),
    ]


# Jobs 1 to 6, submitted at 2012-02-02 20:00, 22:00, 2012-02-03 00:00, 00:30, 01:00 and at an unknown time, in Paris.
DAY = new_log(
    ["UnixStartTime: 1328209200", "TimeZoneString: Europe/Paris"],
    {
        "job": np.arange(1.0, 7),
        "user": np.array([1.0, 1, 2, 2, 3, 1]),
        "procs": np.array([1.0, 8, 1, 8, 16, 1]),
        "submit_s": np.array([0.0, 7200, 14400, 16200, 18000, -1]),
        "wait_s": np.array([0.0, 7200, 0, -1, 0, 0]),
        "runtime_s": np.array([60.0, 3600, 7200, 64_800, 64_801, 5]),
    },
)


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("user=1", [1, 2, 6]),
        ("USER == 1 AND job != 2", [1, 6]),
        ("user=1 or job>=5", [1, 2, 5, 6]),
        ("user=1 and job=1 or job=5", [1, 5]),  # and binds more tightly
        ("user=1 and (job=1 or job=5)", [1]),
        ("(user=1 and (job>=2 and job<=6)) or (user=3)", [2, 5, 6]),
        ("not (user=1 or user=2)", [5]),
        ("not user=1 and procs<>8", [3, 5]),
        ("job=2-4", [2, 3, 4]),
        ("job!=2..4", [1, 5, 6]),
        ("job=1,3-4,6", [1, 3, 4, 6]),
        ("2<=job<=4", [2, 3, 4]),
        ("2<job && user=2 || 6=<job", None),
        ("submit<=2012-02-03 00:00:00", [1, 2, 3]),
        ("submit<2012-02-03", [1, 2]),
        ("2012-02-02 22:00 <= submit < 2012-02-03 01:00", [2, 3, 4]),
        ("start>=2012-02-03 00:00", [2, 3, 5]),  # job 4's wait is not known
        ("end<=2012-02-03 00:00", [1]),
        ("submit>=18000", [5]),
        ("hour>=20", [1, 2]),
        ("hour=0", [3, 4]),
        ("hour!=0", [1, 2, 5]),  # nothing is known of job 6's hour
        ("(hour>=22 or hour<1) and user=2", [3, 4]),
        ("runtime>18 hours", [5]),
        ("runtime>=1 h and runtime<=120 min", [2, 3]),
        ("user=-1", []),
    ],
)
def test_a_filter_means_these_jobs(text, jobs):
    if jobs is None:
        with pytest.raises(WorkloadError):
            matching(DAY, text)
        return
    assert DAY["job"][matching(DAY, text)].tolist() == jobs


@settings(max_examples=examples(65), deadline=None)
@given(st.text(alphabet="userjob hand()=<>!&|,-.0123456789:not", max_size=40))
def test_any_text_is_a_filter_or_refused_in_one_line(text):
    try:
        assert matching(DAY, text).shape == (6,)
    except WorkloadError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both ends are good


def test_the_command_drops_the_flurries_that_its_header_names_and_counts_the_rows_left(tmp_path):
    source, out = tmp_path / "in.swf", tmp_path / "out.swf"
    source.write_text(
        "; UnixStartTime: 1328209200\n; TimeZoneString: Europe/Paris\n; MaxRecords: 5\n; MaxProcs: 4\n"
        ";   submit<=2012-02-03 00:00:00 (9 jobs removed)\n;   (user=7) or (user=8 and hour=1) (2 jobs removed)\n"
        + row(1, 14400, 5)
        + row(2, 14401, 5)
        + row(3, 18000, 5, user=8)
        + row(4, 21600, 5, user=8)
        + row(5, 21600, 5, user=7)
    )
    done = batfill("workload", "clean", source, "--out", out, "--flurries", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["dropped"] == {
        "wide": 0,
        "processors": 0,
        "times": 0,
        "ran": 0,
        "flurry submit<=2012-02-03 00:00:00": 1,
        "flurry (user=7) or (user=8 and hour=1)": 2,
    }
    assert read_log(out)["job"].tolist() == [2, 4]
    assert read_log(out).header_value("MaxRecords") == "2"
    plain = tmp_path / "plain.swf"
    plain.write_text("; MaxProcs: 4\n" + row(1, 0, 5))
    assert f"{plain}: its header names no filter" in batfill("workload", "clean", plain, "--out", out, "--flurries").err


VALUES = st.integers(-1, 12)


def test_a_row_is_dropped_if_neither_number_of_processors_is_above_0():
    found = clean(log(procs=[0, -1, 1, 0, 0], requested_procs=[0, -1, 0, 2, -1]), rules=["processors"])
    assert (found.dropped["processors"], found.log["procs"].tolist()) == (3, [1, 2])


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES, VALUES), min_size=1, max_size=20),
    st.permutations(list(CLEANING_RULES)),
)
def test_rows_kept_and_dropped_add_up_and_cleaning_twice_changes_nothing(rows, rules):
    names = ("submit_s", "runtime_s", "procs", "requested_procs", "requested_s")
    full = log(**dict(zip(names, zip(*rows, strict=True), strict=True)))
    try:
        once = clean(full, rules=rules, procs=10)
    except WorkloadError:
        return
    assert len(once.log) + sum(once.dropped.values()) == len(full)
    twice = clean(once.log, rules=[rule for rule in rules if rule != "duplicates"], procs=10)
    assert sum(twice.dropped.values()) == sum(twice.changed.values()) == 0
    assert (twice.log.rows == once.log.rows).all()


@pytest.mark.parametrize(
    "name",
    ["CEA-Curie-2011-2.1-cln", "CTC-SP2-1996-3.1-cln", "HPC2N-2002-2.2-cln", "KTH-SP2-1996-2.1-cln",
     "SDSC-SP2-1998-4.2-cln", "SDSC-BLUE-2000-4.2-cln"],
)  # fmt: skip
def test_every_filter_of_the_archives_logs_is_understood_and_left_nothing_behind(archive_log, name):
    full = read_log(archive_log(f"{name}.swf.gz"))
    filters = header_filters(full.header)
    assert filters
    for one in filters:
        assert one.removed > 0
        assert not matching(full, one.text).any()


def test_the_command_counts_every_rule_and_writes_it_into_the_header(tmp_path):
    source, out = tmp_path / "in.swf", tmp_path / "out.swf.gz"
    source.write_text("; MaxProcs: 4\n" + row(1, 0, 5) + row(2, 0, 5, req_procs=9) + row(3, 0, -1) + row(4, 0, 0))
    done = batfill("workload", "clean", source, "--out", out, "--json")
    assert (done.status, json.loads(done.out)["dropped"]) == (0, {"wide": 1, "processors": 0, "times": 1, "ran": 1})
    for said in ("wide: 1 of 4 rows dropped", "times: 1 of 4", "ran: 1 of 4", "processors filled in: 1 rows", "1 rows"):
        assert said in done.err
    cleaned = read_log(out)
    assert cleaned["job"].tolist() == [1]
    assert "wide: 1 rows dropped" in cleaned.header[-2]
    assert "source in.swf, source_sha256" in cleaned.header[-1]


def test_flurries_of_a_cleaned_log_clean_the_original(archive_log, tmp_path):
    source, out = tmp_path / "in.swf", tmp_path / "out.swf"
    source.write_text(row(58, 0, 5, user=68) + row(600, 0, 5, user=68))
    cleaned = archive_log("SDSC-BLUE-2000-4.2-cln.swf.gz")
    batfill("workload", "clean", source, "--out", out, "--rule", "ran", "--flurries-from", cleaned)
    assert read_log(out)["job"].tolist() == [600]
