from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batfill as bf
import slow_slurm
from batfill.base.errors import BatfillError, WorkloadError
from batfill.base.files import whole_file
from batfill.workloads.formats import load_log
from batfill.workloads.swf_log import read_log
from batfill_site.accounting.cluster_log import ClusterJob, Key, Reading, most_in_use, swf_of
from batfill_site.accounting.oar import read_oar
from batfill_site.accounting.pbs import processors_requested, processors_used, read_pbs
from batfill_site.accounting.record_text import clock_seconds
from batfill_site.accounting.slurm import read_slurm
from command import batfill, refusal
from slow_slurm import as_objects
from sweeps import examples

DATA = Path(__file__).parents[1] / "data" / "accounting"
HEAD = "JobID|User|JobName|Submit|Start|End|Timelimit|AllocCPUS|ReqCPUS|State\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="x"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    return write


def table(log, *names):
    return [tuple(int(value) for value in row) for row in zip(*(log[name] for name in names), strict=True)]


# Slurm


@pytest.fixture
def slurm():
    return swf_of(read_slurm([DATA / "slurm.txt"], Reading("Europe/Paris")), source="test", zone="Europe/Paris")


def test_slurm_jobs_have_their_times_processors_and_states(slurm):
    rows = table(slurm, "submit_s", "wait_s", "runtime_s", "procs", "requested_procs", "requested_s", "status")
    assert rows == [
        (0, 300, 3600, 64, 64, 7200, 1),  # 1001
        (60, 3840, 100, 128, 128, -1, 0),  # 1002: UNLIMITED, failed, a bar in its name
        (120, 180, 7201, 32, 32, 7200, 0),  # 1003: TIMEOUT
        (180, 1620, 0, -1, 16, 3600, 5),  # 1004: cancelled while it waited
        (240, 360, 600, 16, 16, 3600, 5),  # 1005: cancelled while it ran
        (300, 2400, 10800, 64, 64, 36000, 1),  # 1006: requeued, its last try
        (360, 540, 60, 1, 1, 600, 1),  # 1007_1
        (360, 540, 120, 1, 1, 600, 0),  # 1007_2
        (360, 720, 0, -1, 1, 600, 5),  # 1007_[3-9%2]
        (420, 780, 1800, 20, 20, 3600, 1),  # 1010: two components
        (59400, 10, 60, 2, 2, -1, 1),  # 1014: the clocks went forward in the night before
    ]


def test_components_with_names_of_their_own_are_one_job(written):
    line = "{}|ann|{}|{}|170000{}010|170000{}110|60|{}|{}|COMPLETED\n"
    rows = [("7+0", "client", 4, 0), ("7+1", "server", 8, 0), ("7+0", "role-0", 1, 9), ("7+1", "role-1", 2, 9)]
    text = "".join(line.format(part, name, f"170000{s}000", s, s, n, n) for part, name, n, s in rows)
    jobs = as_objects(
        read_slurm([written(HEAD.replace("Timelimit", "TimelimitRaw").replace("|Group", "") + text)], Reading()).jobs
    )
    assert [(job.submit_s % 10_000, job.procs, job.executable) for job in jobs] == [
        (0, 12, "client"),
        (9000, 3, "role-0"),
    ]
    assert (jobs[0].start_s, jobs[0].end_s, jobs[0].requested_s) == (1700000010, 1700000110, 3600)


EXPORT = "JobID,JobName,User,Submit,Start,End,TimelimitRaw,AllocCPUS,AllocTRES,State\n"
TIMES = "1700000010,1700000020,1700000120"
CASES = {
    "commas": (EXPORT + f'1,a,u,{TIMES},60,4,"cpu=4,mem=8G",COMPLETED\n', {}),
    "quoted": (EXPORT + f'1,"a, ""b""",u,{TIMES},60,4,cpu=4,CANCELLED by 3\n', {}),
    "a comma in a name": (EXPORT + f"1,a,b,u,{TIMES},60,4,cpu=4,COMPLETED\n", {"with a comma (,) in": 1}),
    "a comma in a list": (
        EXPORT + f"1,a,u,{TIMES},60,4,cpu=4,COMPLETED\n2,a,u,{TIMES},60,4,cpu=4,mem=8G,COMPLETED\n",
        {"with more fields than columns: cannot be told apart": 1},
    ),
    "semicolons": ((EXPORT + f"1,a|b,u,{TIMES},60,4,cpu=4.mem=8G,COMPLETED\n").replace(",", ";").replace("|", ","), {}),
    "tabs": ((EXPORT + f"1,a;b,u,{TIMES},60,4,cpu=4.mem=8G,COMPLETED\n").replace(",", "\t").replace(".", ","), {}),
}


@pytest.mark.parametrize(("text", "notes"), CASES.values(), ids=CASES)
def test_columns_of_sacct_may_be_divided_by_other_marks_than_bars(written, text, notes):
    reading = read_slurm([written(text)], Reading())
    (job,) = as_objects(reading.jobs)
    assert (job.submit_s, job.start_s, job.end_s, job.procs) == (1700000010, 1700000020, 1700000120, 4)
    assert len(bf.read(written(text)).jobs) == 1
    found = zip(reading.notes.items(), notes, strict=True)
    assert {reason[: len(begin)]: n for (reason, n), begin in found} == notes


def test_a_file_of_another_kind_is_named(written):
    remedy = "and not what sacct prints; use sacct -P -o JobID,"
    for text, kind in (("; Version: 2\n", "SWF"), (" 1" + " -1" * 17 + "\n", "SWF"), ('{"jobs": []}', "JSON")):
        with pytest.raises(WorkloadError, match=f"x: it is {kind}, {remedy}"):
            read_slurm([written(text)], Reading())
    with pytest.raises(WorkloadError, match="no column JobID"):
        read_slurm([written("7 8 9\n")], Reading())


def test_jobs_that_ran_for_less_than_from_start_to_end_were_paused(written):
    head, line = "JobID|Submit|Start|End|{}|Suspended|AllocCPUS|State\n", "{}|{}|{}|{}|{}|{}|4|COMPLETED\n"
    at, end = "2024-05-02T10:00:10", "2024-05-02T15:00:10"
    for column, rows, paused in (
        ("ElapsedRaw", [(18000, ""), (3600, ""), (17999, ""), (0, ""), ("", ""), (20000, "")], 1),
        ("Elapsed", [("05:00:00", ""), ("01:00:00", ""), ("0-02:00:00", "0"), ("odd", "")], 2),
        ("Elapsed", [("01:00:00", "04:00:00"), ("04:00:00", "")], 0),  # Suspended says it; the clock went forward
    ):
        text = "".join(line.format(i, at, at, end, *row) for i, row in enumerate(rows, 1))
        reading = read_slurm([written(head.format(column) + text)], Reading())
        said = "have an Elapsed below End - Start (suspended, or gang scheduled)"
        assert (len(reading.jobs), reading.unmodelled[said]) == (len(rows), paused)
        assert reading.unmodelled["were suspended"] == (paused == 0)


def test_slurm_says_what_it_left_out_or_joined_and_numbers_names_by_first_submission(slurm):
    header = "\n".join(slurm.header)
    assert "2 records: jobs that have not ended, left out" in header
    assert "1 record: steps, left out" in header
    assert "1 record: earlier tries of requeued jobs, left out" in header
    assert "2 records: components of heterogeneous jobs, joined" in header
    assert slurm["user"].astype(int).tolist() == [1, 2, 1, 3, 3, 1, 4, 4, 4, 2, 5]
    assert "; User: 3 carol" in slurm.header
    assert "; Executable: 2 a|b" in slurm.header
    assert "; Partition: 1 batch" in slurm.header
    assert slurm.header_value("TimeZoneString") == "Europe/Paris"
    assert slurm.header_value("UnixStartTime") == "1711789200"


def test_slurm_columns_are_found_by_name_and_times_may_be_seconds(written):
    text = "State|End|Start|NCPUS|Submit|JobID|\nCOMPLETED|1700000090|1700000030|4|1700000000|7|\n"
    [job] = as_objects(read_slurm([written(text)], Reading()).jobs)
    assert (job.submit_s, job.start_s, job.end_s, job.procs) == (1700000000, 1700000030, 1700000090, 4)


@pytest.mark.parametrize(("column", "partition"), [("QOS", ""), ("QOSRAW", ""), ("QOS", "batch")])
def test_slurm_queues_are_numbered_by_qos_with_and_without_a_partition(tmp_path, column, partition):
    head, part = ("Partition|", f"{partition}|") if partition else ("", "")
    rows = [(7, "long", 2), (8, "short", 1), (9, "", 3), (10, "long", 4)]
    lines = [f"{i}|{part}{qos}|170000000{s}|1700000010|1700000020|1|COMPLETED" for i, qos, s in rows]
    (tmp_path / "x").write_text("\n".join([f"JobID|{head}{column}|Submit|Start|End|AllocCPUS|State", *lines, ""]))
    done = batfill("workload", "import", "slurm", tmp_path / "x", "-o", tmp_path / "log.swf")
    assert done.status == 0, done.err
    log = read_log(tmp_path / "log.swf")
    assert log["queue"].astype(int).tolist() == [1, 2, -1, 2]
    assert [line for line in log.header if line.startswith("; Queue")] == ["; Queue: 1 short", "; Queue: 2 long"]
    assert log["partition"].astype(int).tolist() == [1 if partition else -1] * 4


def test_slurm_ids_used_again_by_another_job_are_another_job(written):
    line = "{}|{}|{}|2024-01-0{}T00:00:00|2024-01-0{}T00:00:00|2024-01-0{}T01:00:00|1-00:00:00|4|4|COMPLETED\n"
    path = written(HEAD + line.format(7, "a", "x", 1, 1, 1) + line.format(7, "b", "y", 2, 2, 2))
    assert len(read_slurm([path], Reading()).jobs) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("JobID|User\n", "1: no column Submit"),
        (HEAD + "1|a|b\n", "1: with fewer columns than are named"),
        ("1|a|b|1|2|3|4|COMPLETED\n", "x:1: no column JobID or JobIDRaw is named up to here; use sacct -P -o JobID"),
        ("Welcome\n", "x:1: no column JobID"),
        (HEAD, "no finished job"),
        ("", "no finished job"),
        ("\ufeff\n \n", "no finished job"),
        (HEAD + "1|a|b|c|d|e|f|1|1|RUNNING\n", "1: jobs that have not ended"),
        (HEAD + "1|a|b|c|d|e|f|1|1|COMPLETED\n", "1: jobs whose Submit is no time that is understood"),
        (HEAD + "1|a|b|||f|f|1|1|COMPLETED\n", "1: jobs whose End is no time that is understood"),
        (HEAD + "1|a|b||2|3|4|1|1|COMPLETED\n", "1: jobs without a submission time"),
    ],
)
def test_slurm_output_that_cannot_be_used_is_said(written, text, said):
    with pytest.raises(WorkloadError, match=said):
        swf_of(read_slurm([written(text)], Reading()), source="x")


words = st.sampled_from(["a", "a", "a", "", "é"])
job_names = st.sampled_from(["a", "a", "x|y", "|", ""])
recent = st.integers(1_700_000_000, 1_700_000_009).map(str)
autumn = st.datetimes(datetime(2024, 10, 27, 0), datetime(2024, 10, 27, 5))
fractions = st.sampled_from(["", "", ".5", ".000", ",5", ".123456789"])
offsets = st.sampled_from(["", "", "", "Z", "+02:00", "-0330", "+01", "+1", " CET"])
times = st.one_of(
    st.sampled_from(["Unknown", "None", "", "0", "2024-02-30T00:00:00", "2024-3-1T1:2:3", "1960-01-01T00:00:00", "٣"]),
    st.integers(1_700_000_000, 1_700_000_400).map(str),
    st.datetimes(datetime(2024, 3, 30, 22), datetime(2024, 3, 31, 6)).map(lambda at: at.isoformat(timespec="seconds")),
    st.builds("{:%Y-%m-%d %H:%M:%S}{}{}".format, autumn, fractions, offsets),
    st.sampled_from(["2024-10-27T02:30", "20241027T023000", "1700000000.5", "1700000000.", "Yesterday 13:40", "N/A"]),
    st.text("0123456789-T:9", max_size=12),
)
tasks, parts = st.sampled_from(["", "_1", "_02", "_[3-9]"]), st.sampled_from(["", "+0", "+1", "+01"])
odd_ids = ["07", "7.batch", "7.0", "", "x", "99999999999", "7_99999999999", "7_", "7+", "+1", "7_1_2", "7+0+1", "٣"]
job_ids = st.one_of(
    st.sampled_from(["7", "7", "7+0", "7+1"]),
    st.builds("{}{}{}".format, st.integers(7, 9), tasks, parts),
    st.sampled_from(odd_ids),
)
forms = ["UNLIMITED", "Partition_Limit", "", "1-12", "1-12:30", "00:00:01.500", "-5", "a-5", "9" * 12, "1:2", "1-1:1:1"]
limits = st.one_of(
    st.sampled_from(forms),
    st.sampled_from(["60.5", "60.", ".5", "INVALID", "unlimited", "INFINITE", " 60 "]),
    st.integers(0, 10**11).map(str),
    st.builds("{}:{:02}:{:02}".format, *[st.integers(0, 99)] * 3),
    st.builds("{}-{:02}:{:02}:{:02}".format, *[st.integers(0, 99)] * 4),
)
counts = st.one_of(
    st.sampled_from(["0", "1", "4", "007", "", "-1", "2147483647", "2147483648", "9" * 30, "x", "²"]),
    st.sampled_from(["1", "2", "3", "4", "4K", "K", "3M", "4.5"]),
)
states = st.one_of(
    st.sampled_from(["COMPLETED", "COMPLETED", "CANCELLED by 3", "CANCELLED+", "TIMEOUT", "RUNNING", "", " "]),
    st.sampled_from(["CD", "completed", "OUT_OF_ME+", "TO", "R", "RV", "C+", "RE+", "FAILED+", "+", "WAT"]),
)
texts = (words, words, words, job_names, words)
records = st.one_of(
    st.tuples(job_ids, *texts, times, times, times, limits, counts, counts, states),
    st.tuples(job_ids, *texts, recent, recent, recent, limits, counts, counts, states),
)
COLUMNS = "JobID|User|Group|Account|JobName|Partition|Submit|Start|End|{limit}|AllocCPUS|ReqCPUS|State"


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(records, max_size=12),
    st.sampled_from(["TimelimitRaw", "Timelimit"]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["UTC", "Europe/Paris"]),
    st.sampled_from([7, 60, 10_000]),
)
def test_slurm_records_are_read_as_one_by_one(tmp_path_factory, rows, limit, barred, newline, zone, chunk):
    folder = tmp_path_factory.mktemp("slurm")
    lines = [COLUMNS.format(limit=limit), *("|".join(row) for row in rows)]
    path = folder / "x"
    path.write_bytes("".join(line + "|" * barred + newline for line in lines).encode())
    try:
        expected = slow_slurm.read_slurm([path], zone=zone)
    except WorkloadError as error:
        with pytest.raises(WorkloadError, match=re.escape(str(error))):
            read_slurm([path], Reading(zone))
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("batfill.base.files.CHUNK_BYTES", chunk)
        patch.setattr("batfill_site.accounting.slurm.BLOCK", 5)
        found = read_slurm([path], Reading(zone))
    # Of two jobs that share an id the slow reader takes the one that ended first, and not the one that is there first.
    assert sorted(as_objects(found.jobs), key=str) == sorted(expected.jobs, key=str)
    assert found.notes == expected.notes


SACCT = "JobID|Submit|Start|End|TimelimitRaw|{}|State\n"


def read_row(written, column="AllocCPUS", zone="Europe/Paris", **fields):
    """The job of one record of `sacct` with these fields, or None, and the reasons noted with their examples."""
    dates = {name: f"2024-05-01T{at}:00" for name, at in (("Submit", "10:00"), ("Start", "10:05"), ("End", "11:05"))}
    usual = {"JobID": "7", **dates, "TimelimitRaw": "120", column: "4", "State": "COMPLETED"}
    path = written(SACCT.format(column) + "|".join((usual | fields).values()) + "\n")
    reading = read_slurm([path], Reading(zone))
    assert set(reading.examples) == set(reading.notes)
    assert all("JobID 7" in example for example in reading.examples.values())
    return next(iter(as_objects(reading.jobs)), None), " ".join(reading.notes)


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"AllocCPUS": "4K"}, 4096),
        ({"column": "NCPUS", "NCPUS": "8"}, 8),
        ({"column": "ncpus", "ncpus": "8"}, 8),
        ({"column": "AllocTRES", "AllocTRES": "billing=9,cpu=12,gres/gpu=2,mem=8G,node=1"}, 12),
        ({"column": "AllocTRES", "AllocTRES": "cpu=2K"}, 2048),
    ],
)
def test_processors_are_found_in_each_column_and_unit_that_sacct_prints(written, fields, width):
    job, said = read_row(written, **fields)
    assert (job.procs, job.end_s - job.start_s, said) == (width, 3600, "")


@pytest.mark.parametrize(
    ("fields", "times"),  # wait and run time
    [
        ({"Start": "2024-05-01T10:05:00+02:00", "End": "2024-05-01T09:05:00Z"}, (300, 3600)),
        ({"Submit": "2024-05-01 10:00", "Start": "20240501T100500"}, (300, 3600)),
        ({"Submit": "1714550400.25", "Start": "2024-05-01T10:05:00.75"}, (300, 3600)),
        # the clock goes back from 3:00 to 2:00
        ({"Submit": "2024-10-27T02:10:00", "Start": "2024-10-27T02:50:00", "End": "2024-10-27T02:05:00"}, (2400, 900)),
        ({"Submit": "2024-10-27T02:50:00", "Start": "2024-10-27T02:05:00", "End": "2024-10-27T02:10:00"}, (900, 300)),
        ({"Submit": "2024-10-27T01:50:00", "Start": "2024-10-27T01:55:00", "End": "2024-10-27T03:00:00"}, (300, 7500)),
        # ... and forward from 2:00 to 3:00
        ({"Submit": "2024-03-31T01:50:00", "Start": "2024-03-31T01:55:00", "End": "2024-03-31T03:05:00"}, (300, 600)),
    ],
)
def test_dates_are_read_in_every_form_and_through_the_changes_of_a_clock(written, fields, times):
    job, said = read_row(written, **fields)
    assert (job.start_s - job.submit_s, job.end_s - job.start_s) == times
    assert ("fractions" in said) == any("." in field for field in fields.values())
    assert ("clock repeats" in said) == any("27T02" in field for field in fields.values())


@pytest.mark.parametrize(
    ("fields", "kept", "reason"),
    [
        ({"AllocCPUS": "many"}, False, "unknown number of processors"),
        ({"AllocCPUS": "0"}, False, "COMPLETED jobs with AllocCPUS 0"),
        ({"column": "AllocTRES", "AllocTRES": ""}, False, "COMPLETED jobs with AllocTRES 0"),
        ({"AllocCPUS": "0", "State": "CANCELLED by 3"}, True, "never started"),
        ({"AllocCPUS": "1.50K"}, True, "AllocCPUS may be rounded"),
        ({"Start": ""}, False, "COMPLETED jobs without a start"),
        ({"Start": "tomorrow"}, False, "Start is no time"),
        ({"Submit": "Yesterday 13:40"}, False, "Submit is no time"),
        ({"End": "2024-05-01T09:00:00"}, False, "end before they start"),
        ({"End": "2024-05-01T09:00:00", "State": "TIMEOUT"}, False, "end before they start"),
        ({"End": "2024-05-01T10:01:00", "State": "CANCELLED by 3"}, True, "cancelled before the start"),
        ({"Submit": "2024-05-01T10:30:00"}, True, "submitted after their start"),
        ({"Submit": "2024-05-01T12:00:00", "Start": "None", "State": "CA"}, True, "submitted after their end"),
        ({"Start": "2024-03-31T02:30:00", "Submit": "1"}, True, "clock skips"),
        ({"TimelimitRaw": "UNLIMITED"}, True, "TimelimitRaw UNLIMITED"),
        ({"TimelimitRaw": "INVALID"}, True, "TimelimitRaw is not understood"),
        ({"TimelimitRaw": ""}, True, "TimelimitRaw is empty"),
        ({"TimelimitRaw": "99999999999"}, True, "TimelimitRaw is beyond"),
        ({"TimelimitRaw": "Partition_Limit"}, True, "--partition-limit"),
        ({"State": "WAT"}, False, "state is not understood"),
        ({"State": "RV"}, False, "revoked"),
        ({"State": "R"}, False, "have not ended"),
        ({"JobID": "JobID 7."}, False, "steps"),
    ],
)
def test_each_value_that_is_changed_guessed_or_left_out_is_noted(written, fields, kept, reason):
    job, said = read_row(written, **fields)
    assert (job is not None) == kept
    assert reason in said


CLUSTERS = """\
JobID|Cluster|Partition|Submit|Start|End|Timelimit|AllocCPUS|State
7|a|batch|1700000000|1700000010|1700000020|Partition_Limit|1|COMPLETED
7|b|batch|1700000001|1700000011|1700000020|Partition_Limit|2|COMPLETED
8|b|gpu|1700000002|1700000012|1700000020|00:30:00|4|COMPLETED
9|b|gpu,batch|1700000003|None|1700000020|Partition_Limit|0|CANCELLED
"""


def imported(tmp_path, *options):
    (tmp_path / "x").write_text(CLUSTERS)
    done = batfill("workload", "import", "slurm", tmp_path / "x", "-o", tmp_path / "log.swf", "--json", *options)
    assert done.status == 0, done.err
    log = read_log(tmp_path / "log.swf")
    return log["submit_s"].tolist(), log["requested_s"].tolist(), json.loads(done.out)


def test_partitions_and_clusters_are_chosen_and_the_partitions_limit_is_stated(tmp_path):
    assert imported(tmp_path)[:2] == ([0, 1, 2, 3], [-1, -1, 1800, -1])  # ids of two clusters are different jobs
    assert "3 of 4 jobs are of other clusters than a" in "\n".join(read_log(tmp_path / "log.swf").header)
    assert imported(tmp_path, "--partition", "batch")[0] == [0, 1, 3]
    assert imported(tmp_path, "--cluster", "b", "--partition", "gpu")[0] == [0, 1]
    submits, limits, result = imported(tmp_path, "--cluster", "b", "--partition-limit", "24h")
    assert (submits, limits) == ([0, 1, 2], [86400, 1800, 86400])
    assert result["notes"]["jobs with their partition's limit: taken as 86400 s"] == 2
    done = imported(tmp_path, "--partition", "gpu", "--cluster", "b", "--partition-limit", "24h")
    assert done[1] == [1800, 86400]
    for option, known in (("--cluster", "a, b"), ("--partition", "batch, gpu")):
        assert known in refusal("workload", "import", "slurm", tmp_path / "x", "-o", tmp_path / "none.swf", option, "c")


BARS = "JobID|User|JobName|Submit|Start|End|TimelimitRaw|AllocCPUS|State|Constraints|SubmitLine\n"
BAR_ROW = "{}|u|{}|1700000000|1700000010|1700000110|60|4|COMPLETED|{}\n"


@pytest.mark.parametrize(
    ("name", "rest", "reason"),
    [
        ("a|b", "|", "with a bar (|) in JobName, read"),
        ("a|b|", "x|", "with a bar (|) in JobName, read"),
        ("a", "haswell|knl|why", "with a bar (|) in Constraints or SubmitLine, read"),
        ("a", "x|sbatch a | b || c", "with a bar (|) in Constraints or SubmitLine, read"),
        ("a|17", "x|y|z", "with a bar (|) in JobName and elsewhere"),
        ("a\nb", "|", "with a line break in JobName, read as one line"),
        ("a\n\nb|c", "|", "with a line break in JobName, read as one line"),
        ("a", "x|y\nz", "lines that begin no record (after a line break in the last column?), left out"),
        ("a", "x\ny|z", "with a line break in Constraints, read as one line"),
    ],
)
def test_a_bar_or_a_line_break_in_any_column_moves_no_other(written, name, rest, reason):
    lines = [BARS, BAR_ROW.format(1, name, rest), BAR_ROW.format(2, "a", "|")]
    reading = read_slurm([written("".join(lines))], Reading())
    first, second = as_objects(reading.jobs)
    assert (first.procs, first.requested_s, first.end_s - first.start_s) == (4, 3600, 100)
    assert first.executable == name.replace("\n\n", "\n")
    assert second.executable == "a"
    if "elsewhere" not in reason:
        (noted,) = reading.notes
        assert noted.startswith(reason)


def test_a_record_whose_columns_cannot_be_told_apart_is_counted_and_not_read(written):
    text = "JobID|Submit|Start|End|State|JobName|AllocCPUS|Constraints\n" + (
        "1|1700000000|1700000010|1700000110|COMPLETED|a|4|12|x\n"  # a job a|4 on 12 processors, or a on 4
        "2|1700000000|1700000010|1700000110|COMPLETED|a|4|b|x\n"
        "3|1700000000|1700000010|1700000110|COMPL|a|4|b|x\n"
        "4|1700000000|17\n"
        "5|1700000000|1700000010|1700000110|COMPLETED|a|4|\n"
    )
    reading = read_slurm([written(text)], Reading())
    assert [job.procs for job in as_objects(reading.jobs)] == [4, 4]
    assert reading.notes == {
        "with bars (|), which may be in JobName or Constraints: cannot be told apart, left out": 1,
        "with a bar (|) in Constraints, read by the form of the other columns": 1,
        "with more fields than columns: cannot be told apart, left out": 1,
        "with fewer columns than are named (is the file truncated?), left out": 1,
        "jobs whose TimelimitRaw or Timelimit is empty or 0: no requested time": 2,
    }
    assert reading.examples["with fewer columns than are named (is the file truncated?), left out"] == "x:5"


def test_lines_before_the_columns_are_passed_over_and_columns_may_be_named_again(written):
    head, other = "JobID|Submit|Start|End|State|AllocCPUS\n", "State|AllocCPUS|JobID|Submit|Start|End\n"
    row = "{}|1700000000|1700000010|1700000110|COMPLETED|4\n"
    text = "# 2024\n\nWelcome | to the cluster\n" + head + row.format(1) + head + row.format(2) + other
    path = written(text + "COMPLETED|8|3|1700000000|1700000010|1700000110\n")
    assert [job.procs for job in as_objects(read_slurm([path], Reading()).jobs)] == [4, 4, 8]
    assert len(bf.read(path)) == 3
    assert len(bf.read(written("Submit|Start|End|State|NCPUS|JobIDRaw\n1|2|3|CD|4|5\n"))) == 1
    with pytest.raises(WorkloadError, match="with its line of column names, without -n"):
        bf.read(written(row.format(1)))
    with pytest.raises(WorkloadError, match="is the accounting of slurm; make a log of it with `batfill workload imp"):
        load_log(path)


def test_an_id_used_again_is_another_job_by_its_submission_and_a_requeue_is_not(written):
    line = "7|u|x|{}|{}|{}|60|4|4|{}\n"
    runs = [
        (1700000000, 1700000010, 1700000110, "COMPLETED"),
        (1700000115, 1700000120, 1700000200, "NODE_FAIL"),  # soon after, but what completed is not requeued
        (1700000201, 1700000300, 1700000400, "NODE_FAIL"),
        (1700000401, 1700000500, 1700000600, "COMPLETED"),
        (1715000000, 1715000050, 1715000150, "FAILED"),
        (1718000000, 1718000050, 1718000150, "COMPLETED"),
    ]
    text = HEAD + "".join(line.format(*run) for run in runs)
    reading = read_slurm([written(text), written(text, "y")], Reading())  # exports that overlap
    assert [(job.submit_s, job.end_s) for job in as_objects(reading.jobs)] == [
        (1700000000, 1700000110),
        (1700000115, 1700000600),
        (1715000000, 1715000150),
        (1718000000, 1718000150),
    ]
    twice = "there twice, as in exports that overlap, left out"
    assert reading.notes == {twice: 6, "earlier tries of requeued jobs, left out": 2}
    for read, name in ((read_oar, "oar.json"), (read_pbs, "pbs.txt")):
        once, both = (read([DATA / name] * times, Reading()) for times in (1, 2))
        assert as_objects(both.jobs) == as_objects(once.jobs)
        assert both.notes[twice] >= 4


def test_names_that_are_not_utf_8_stay_different(tmp_path):
    (tmp_path / "x").write_bytes((HEAD + "".join(f"{k}|m{k}ller|x|17|18|19|1|1|1|COMPLETED\n" for k in "12")).encode())
    text = (tmp_path / "x").read_bytes().replace(b"m1", b"m\xfc").replace(b"m2", b"m\xf6")
    (tmp_path / "x").write_bytes(text)
    key, out = tmp_path / "key.json", tmp_path / "log.swf"
    done = batfill("workload", "import", "slurm", tmp_path / "x", "-o", out, "--key", key)
    assert done.status == 0
    assert done.err.count("not UTF-8") == 1
    assert json.loads(key.read_text())["user"] == {r"m\xfcller": 1, r"m\xf6ller": 2}
    assert "; User: 2 m\\xf6ller" in read_log(out).header


def test_without_eligible_the_jobs_that_may_have_been_held_are_counted(written):
    rows = [("sbatch -d afterok:1 x", "Dependency"), ("sbatch --begin=now+1day x", "None"), ("srun hold-d x", "")]
    head = SACCT.format("AllocCPUS")[:-1] + "|SubmitLine|Reason"
    lines = [f"{k}|1700000000|1700000010|1700000110|60|4|COMPLETED|{line}|{why}" for k, (line, why) in enumerate(rows)]
    notes = bf.read(written("\n".join([head, *lines]))).notes
    assert "2 of 3 jobs were submitted with a dependency or a begin date, which is not modelled" in notes
    assert "1 of 3 jobs waited for a dependency, a begin date or a hold, which is not modelled" in notes
    with_it = [f"{head}|Eligible", *(f"{line}|1700000000" for line in lines)]
    assert not [note for note in bf.read(written("\n".join(with_it))).notes if "dependency" in note]


# OAR


def test_oar_jobs_in_both_spellings():
    log = swf_of(read_oar([DATA / "oar.json"], Reading()), source="test")
    rows = table(log, "submit_s", "wait_s", "runtime_s", "procs", "requested_procs", "requested_s", "status")
    assert rows == [
        (0, 2, 3600, 4, 4, 7200, 1),
        (51, 10, 600, 2, 2, 3600, 5),  # deleted; its end is that of the event
        (151, 10, 100, 1, 16, 600, 0),
        (251, 100, 0, -1, -1, 600, 5),  # deleted while it waited
    ]
    header = "\n".join(log.header)
    for reason in ("jobs that have not ended", "jobs without an end", "jobs inside a container job"):
        assert f"1 record: {reason}, left out" in header
    assert "; Executable: 1 relax" in log.header
    by_cores = as_objects(read_oar([DATA / "oar.json"], Reading(), cores_per_resource=8).jobs)
    assert [job.procs for job in by_cores] == [32, 16, 8, None]


@pytest.mark.parametrize("shape", [lambda jobs: list(jobs.values()), lambda jobs: {"items": list(jobs.values())}])
def test_oar_lists_read_as_the_object_does(written, shape):
    path = written(shape(json.loads((DATA / "oar.json").read_text())))
    assert as_objects(read_oar([path], Reading()).jobs) == as_objects(read_oar([DATA / "oar.json"], Reading()).jobs)


@pytest.mark.parametrize("text", ["", "[1]", '"x"', '{"a": 1}', "{", "\x00"])
def test_json_that_is_no_oar_log_is_said(written, text):
    with pytest.raises(WorkloadError, match="oarstat -J"):
        read_oar([written(text)], Reading())


# PBS


def test_pbs_jobs_end_are_deleted_and_run_again():
    log = swf_of(read_pbs([DATA / "pbs.txt"], Reading("America/Denver")), source="test")
    rows = table(log, "submit_s", "wait_s", "runtime_s", "procs", "requested_procs", "requested_s", "status")
    assert rows == [
        (0, 6, 14, 6, 6, 3600, 1),
        (136, 600, 0, -1, -1, -1, 5),  # deleted while it waited, dated in the server's zone
        (196, 10, 55, 32, 32, 360000, 5),  # deleted while it ran
        (236, 310, 790, 6, 6, 600, 1),  # its second run, its first queue time
        (636, 100, 1200, 1, 1, -1, 0),
    ]
    header = "\n".join(log.header)
    assert "1 record: earlier tries of jobs run again" in header
    assert "1 record: records of whole arrays" in header


def test_pbs_ids_used_again_are_other_jobs_by_their_ctime(written):
    ended = "01/01/2024 00:00:00;E;2.s;user={} ctime={} qtime={} start={} end={} exec_host=n1/0*4 Exit_status=0\n"
    first, again, other = (1704100000, 1704100000, 1704100010, 1704100110), (1704100000, 1704100200), (1705000000,)
    text = (
        ended.format("anna", *first)
        + ended.format("anna", *again, 1704100210, 1704100310)  # run again
        + "01/11/2024 20:00:00;Q;2.s;queue=b\n"
        + ended.format("ben", *other, 1705000000, 1705000010, 1705000110)
        + "02/11/2024 20:00:00;Q;2.s;queue=b\n02/11/2024 21:00:00;D;2.s;requestor=eve\n"
        + "03/11/2024 20:00:00;Q;2.s;queue=b\n"
    )
    reading = read_pbs([written(text)], Reading("Europe/Paris"))
    jobs = [(job.user, job.submit_s, job.end_s) for job in as_objects(reading.jobs)]
    assert jobs == [("anna", 1704100000, 1704100310), ("ben", 1705000000, 1705000110), ("", 1707678000, 1707681600)]
    assert reading.notes["earlier tries of jobs run again, left out"] == 1
    assert reading.notes["jobs that have not ended, left out"] == 1


GIVEN = {"n1/0": 1, "n1/0+n1/1": 2, "n1/0-5": 6, "n1/0-5,8": 7, "n1/0*16+n2/1*8": 24, "n1": 1, "": None}


@pytest.mark.parametrize(("hosts", "procs"), [*GIVEN.items(), (f"n1/0-{'9' * 5000}", 1)])
def test_pbs_processors_given(hosts, procs):
    assert processors_used({"exec_host": hosts}) == procs


@pytest.mark.parametrize(
    ("request_list", "procs"),
    [
        ({"select": "2:ncpus=16:mem=4gb+1:ncpus=4"}, 36),
        ({"nodes": "2:ppn=3+1"}, 7),
        ({"nodes": "host7:ppn=2"}, 2),
        ({"nodes": "1:gpu:ppn=8"}, 8),
        ({"ncpus": "5", "select": "9:ncpus=9"}, 5),
        ({"procs": "12"}, 12),
        ({"nodect": "3"}, 3),
        ({"ncpus": "9" * 5000}, None),
        ({}, None),
    ],
)
def test_pbs_processors_asked(request_list, procs):
    assert processors_requested({f"Resource_List.{name}": value for name, value in request_list.items()}) == procs


def test_a_line_that_is_no_accounting_record_is_named(written):
    with pytest.raises(WorkloadError, match=":2: not `date time;type;job id"):
        read_pbs([written("08/26/2014 17:07:44;Q;1.a;queue=b\nJobID|User\n")], Reading())


@pytest.mark.parametrize("huge", ["9" * 400, "²", "-1"])
def test_impossible_times_are_no_times(written, huge):
    job = {"state": "Terminated", "submissionTime": huge, "startTime": 1, "stopTime": huge}
    for read, text in (
        (read_slurm, HEAD + f"1|a|b|{huge}|{huge}|{huge}|1|1|1|COMPLETED\n"),
        (read_oar, [job]),
        (read_pbs, f"08/26/2014 17:07:44;E;1.a;qtime={huge} start={huge} end={huge}\n"),
    ):
        assert len(read([written(text)], Reading()).jobs) == 0


@pytest.mark.parametrize(
    ("record", "kept", "reason"),
    [
        ({"startTime": "noon"}, False, "start is no time that is understood"),
        ({"submissionTime": None}, False, "without a submission time"),
        ({"startTime": None, "exit_code": 0}, False, "COMPLETED jobs without a start"),
        ({"startTime": 2000}, False, "end before they start"),
        ({"submissionTime": 1050}, True, "submitted after their start"),
        ({"assigned_resources": []}, True, "the processors that they requested count"),
        ({"assigned_resources": [], "wanted_resources": ""}, False, "unknown number of processors, left out"),
        ({"walltime": "soon"}, True, "limit is not understood"),
        ({"walltime": None}, True, "limit is empty"),
        ({"stopTime": "1100.5"}, True, ""),
    ],
)
def test_what_oar_leaves_out_or_guesses_is_noted(written, record, kept, reason):
    job = {"state": "Terminated", "submissionTime": 1000, "startTime": 1001, "stopTime": 1100, "walltime": 60}
    job |= {"assigned_resources": [1], "wanted_resources": "-l /nodes=2/core=4+/nodes=1/core=2,walltime=1:0:0"}
    reading = read_oar([written({"17": job | record})], Reading())
    assert [found.requested_procs for found in as_objects(reading.jobs)] == [10] * kept
    assert reason in " ".join(reading.notes)
    assert all(example.startswith("job 17, ") for example in reading.examples.values())


def test_what_pbs_leaves_out_or_guesses_is_noted(written):
    ran = "qtime=100 start=110 end=200"
    path = written(
        f"05/01/2024 10:00:00;E;1.a;{ran} exec_host=n/0 Resource_List.walltime=soon\n"
        f"05/01/2024 10:00:00;E;2.a;{ran} Resource_List.ncpus=4\n"
        f"05/01/2024 10:00:00;E;3.a;{ran}\n"
        "05/01/2024 10:00:00;E;4.a;qtime=100 start=later end=200\n"
        "05/01/2024 10:00:00;D;5.a;\n"
        "05/01/2024 10:00:00;Q;6.a;queue=b\n"
        "13/01/2024 10:00:00;Q;7.a;queue=b\n",
        "20240501",
    )
    reading = read_pbs([path], Reading())
    assert [(job.procs, job.requested_procs) for job in as_objects(reading.jobs)] == [(1, None), (4, 4)]
    for reason, line in (
        ("limit is not understood", 1),
        ("number of processors is unknown: the processors that they requested count", 2),
        ("unknown number of processors, left out", 3),
        ("start is no time that is understood", 4),
        ("without a record of their queueing", 5),
        ("have not ended", 6),
        ("no date that is understood", 7),
    ):
        [example] = [example for note, example in reading.examples.items() if reason in note]
        assert example.startswith(f"20240501:{line}: ")


# What they share


def test_an_anonymous_log_holds_no_name_and_its_key_keeps_numbers_from_one_log_to_the_next(tmp_path):
    path, first = tmp_path / "key.json", Key()
    assert first.number("user", "zoe") == 1
    first.save(path)
    key = Key.load(path)
    log = swf_of(read_slurm([DATA / "slurm.txt"], Reading()), source="test", anonymise=True, key=key)
    assert log["user"][0] == 2
    text = "\n".join(log.header)
    for name in ("alice", "bob", "carol", "zoe", "phys", "relax", "sweep"):
        assert name not in text
    assert "; Partition: 1 batch" in log.header
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["user"]["alice"] == 2


def test_imports_with_one_key_at_once_lose_no_name(tmp_path):
    key, command = tmp_path / "key.json", [sys.executable, "-m", "batfill", "workload", "import", "slurm"]
    for name in "abcd":
        (tmp_path / name).write_text(HEAD + f"1|{name}|x|17|18|19|1|1|1|COMPLETED\n")
    started = [
        subprocess.Popen([*command, tmp_path / name, "-o", tmp_path / f"{name}.swf", "--key", key]) for name in "abcd"
    ]
    assert [process.wait(60) for process in started] == [0] * 4
    numbers = json.loads(key.read_text())["user"]
    assert sorted(numbers.values()) == [1, 2, 3, 4]
    assert all(read_log(tmp_path / f"{name}.swf")["user"][0] == number for name, number in numbers.items())
    line = refusal("workload", "import", "slurm", tmp_path / "a", "-o", tmp_path / "e.swf", "--key", "/dev/zero")
    assert line == "/dev/zero: is a device, not a file; check the path\n".strip()


def test_the_machine_is_the_most_in_use_at_once_unless_it_is_told():
    reading, jobs = Reading(), ((1, 10, 4), (10, 20, 8), (15, 30, 1))
    reading.extend([ClusterJob(1, start, end, procs, procs, None, 1) for start, end, procs in jobs], ["a", "b", "c"])
    assert most_in_use(reading.jobs) == 9
    assert swf_of(reading, source="x").header_value("MaxProcs") == "9"
    assert swf_of(reading, source="x", procs=16).header_value("MaxProcs") == "16"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90", 5400), ("10:00", 600), ("2:00:00", 7200), ("00:00:01.500", 1)],
        *[("1-00:00:00", 86400), ("1-12", 129600), ("1-12:30", 131400), ("1:00:00:00", 86400), ("2:12:0:1", 216001)],
        *(
            (text, None)
            for text in (
                "1:2:3:4:5",
                "1-1:2:3:4",
                "1-",
                "UNLIMITED",
                "Partition_Limit",
                "",
                "-5",
                "a-5",
                "9" * 5000 + "-00:00:00",
            )
        ),
    ],
)
def test_durations_in_every_form(text, seconds):
    assert clock_seconds(text, bare=60) == seconds


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from([read_slurm, read_oar, read_pbs]), st.binary(max_size=300), st.booleans())
def test_random_records_never_trace_back(tmp_path_factory, read, text, after_a_good_one):
    path = tmp_path_factory.mktemp("fuzz") / "x"
    good = {read_slurm: "slurm.txt", read_oar: "oar.json", read_pbs: "pbs.txt"}[read]
    path.write_bytes((DATA / good).read_bytes() + text if after_a_good_one else text)
    message = ""
    try:
        swf_of(read([path], Reading()), source="x")
    except WorkloadError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("system", "file", "jobs"), [("slurm", "slurm.txt", 11), ("oar", "oar.json", 4), ("pbs", "pbs.txt", 5)]
)
def test_the_command_writes_a_log_that_reads_back_without_pyarrow(tmp_path, monkeypatch, system, file, jobs):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out, key = tmp_path / "out.swf.gz", tmp_path / "key.json"
    done = batfill("workload", "import", system, DATA / file, "-o", out, "--anonymise", "--key", key, "--json")
    assert (done.status, json.loads(done.out)["jobs"]) == (0, jobs)
    assert f"{jobs} jobs" in done.err
    log = read_log(out)
    assert len(log) == jobs
    assert key.exists()
    assert not any("User:" in text for text in log.header)


@pytest.mark.parametrize("name", ["jobs.txt", "jobs.txt.xz", "log.swf.gz", "log.json"])
def test_a_file_is_opened_once_to_find_out_what_it_is_and_to_read_it(tmp_path, monkeypatch, name):
    rows = [f"{k}|u|x|{17 * 10**8 + k}|{17 * 10**8 + 9 * k}|{17 * 10**8 + 99 * k}|60|4|4|CD\n" for k in range(1, 9)]
    path, opened = tmp_path / name, []
    with whole_file(tmp_path / "jobs.txt" if "txt" not in name else path) as file:
        file.write((HEAD + "".join(rows)).encode())
    if "txt" not in name:
        bf.write(bf.read(tmp_path / "jobs.txt"), path)
    usual = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *how, **more: opened.append(self) or usual(self, *how, **more))
    for use in (bf.read, partial(bf.replay, tau_s=10), bf.what_if, partial(bf.fidelity, fit=False)):
        opened.clear()
        with suppress(WorkloadError):  # Batsim JSON has no waits
            use(path)
        assert opened.count(path) == 1


def test_a_log_in_pieces_is_the_log_at_once_and_replays_the_same_in_each_format(tmp_path, monkeypatch):
    rows = (f"{n}|u{n % 7}||{10 * n}|{20 * n}|{20 * n + 500}|60|{1 + n % 3}|4|COMPLETED" for n in range(1, 50))
    path, whole = tmp_path / "jobs.txt", tmp_path / "whole.swf"
    path.write_text("\n".join([HEAD.strip(), *rows]) + "\n")
    assert batfill("workload", "import", "slurm", path, "-o", whole, "--procs", 4).status == 0
    monkeypatch.setattr("batfill_site.accounting.cluster_log.ROWS_AT_ONCE", 7)
    starts = bf.replay(bf.read(whole)).schedule.start_s.tolist()
    for name in ("pieces.swf.gz", "pieces.json"):
        assert batfill("workload", "import", "slurm", path, "-o", tmp_path / name, "--procs", 4).status == 0
        assert bf.replay(bf.read(tmp_path / name)).schedule.start_s.tolist() == starts
        if not name.endswith("json"):
            again, log = load_log(tmp_path / name), load_log(whole)
            assert (again.rows.tolist(), again.header[-9:]) == (log.rows.tolist(), log.header[-9:])


@pytest.mark.parametrize("cores", [0, 1.5, "x"])
def test_a_resource_has_a_whole_number_of_cores(cores):
    with pytest.raises(BatfillError, match=f"cores_per_resource: {cores!r} is not a whole number from 1 to "):
        bf.read(DATA / "oar.json", cores_per_resource=cores)


def by_slurm(tmp_path, text, *options):
    """What the command says of this output of `sacct`, and the log that it writes."""
    (tmp_path / "jobs.txt").write_text(text)
    out = tmp_path / "log.swf"
    return batfill("workload", "import", "slurm", tmp_path / "jobs.txt", "--out", out, *options), out


ELIGIBLE = "JobID|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|State\n"


def test_jobs_are_submitted_when_eligible_and_their_first_submission_is_a_column(tmp_path):
    text = (
        ELIGIBLE
        + "1|1700000000|1700000000|1700000300|1700003900|60|64|COMPLETED\n"
        + "2|1700000060|1700003660|1700003960|1700004060|60|8|COMPLETED\n"  # held for an hour
        + "3|1700000120|Unknown|1700000180|1700000280|60|64|COMPLETED\n"
        + "4|1700000120|1699990000|1700000180|1700100180|2000|8|COMPLETED\n"  # eligible before: as its submission
    )
    said, out = by_slurm(tmp_path, text, "--procs", 32, "--json")
    log = read_log(out)
    assert log["wait_s"].tolist() == [300, 60, 60, 300]
    assert log["submit_s"].tolist() == [0, 120, 120, 3660]
    assert [line.split()[18] for line in out.read_text().splitlines() if line[0] != ";"] == ["0", "120", "120", "60"]
    assert log.header_value("Field19") == "first_submit_s, the submission by the user"
    assert "fields" not in batfill("replay", out).out  # a column of our own is no surprise
    found = json.loads(said.out)
    assert found["became_eligible"] == {"jobs": 1, "hours": 1.0}
    assert found["warnings"][0] == "the records use up to 72 processors at once, --procs is 32"
    assert found["warnings"][1].startswith("2 of 4 jobs (50.0 %), ")
    assert "1 job could not start when submitted" in said.err
    assert "--procs states another size" in " ".join(batfill("replay", out).out.split())
    assert bf.fidelity(out, procs=200, fit=False)["input"]["warnings"] == []


def test_no_log_that_is_made_of_an_imported_one_has_the_first_submission(tmp_path):
    (tmp_path / "x").write_text(ELIGIBLE + "1|1700000000|1700003600|1700003700|1700003800|60|4|COMPLETED\n")
    out, made = tmp_path / "log.swf", tmp_path / "made.swf"
    assert batfill("workload", "import", "slurm", tmp_path / "x", "-o", out).status == 0
    assert batfill("workload", "convert", out, "-o", made).status == 0
    rows = [[line.split() for line in path.read_text().splitlines() if line[0] != ";"] for path in (out, made)]
    assert [[(len(row), row[1]) for row in each] for each in rows] == [[(19, "3600")], [(18, "3600")]]


def test_without_eligibility_and_zones_the_import_says_so_once_and_fidelity_gives_the_command(tmp_path):
    line = "{}|2024-01-01T10:00:00|2024-01-01T10:05:00|2024-01-01T11:00:00|60|4|COMPLETED\n"
    text = SACCT.format("AllocCPUS") + line.format(1) + line.format(2)
    done, out = by_slurm(tmp_path, text)
    said = done.err
    assert said.count("dates without a time zone, read in UTC; --timezone names the cluster's") == 1
    assert "no column Eligible" in said
    (caution,) = bf.fidelity(out, fit=False)["input"]["warnings"]
    assert "sacct -o ...,Submit,Eligible,Start,..." in caution
    assert "time zone" not in by_slurm(tmp_path, text, "--timezone", "Asia/Tokyo")[0].err


def test_eligibility_that_cannot_be_and_what_no_replay_knows_is_counted(tmp_path):
    path, out = tmp_path / "jobs.txt", tmp_path / "log.swf"
    path.write_text(
        ELIGIBLE.replace("|AllocCPUS", "|AllocCPUS|AllocTRES|Suspended|Reservation")
        + "1|1700000000|soon|1700000300|1700003900|60|4|cpu=4,gres/gpu:a100=2|00:00:00||COMPLETED\n"
        + "2|1700000000|1700000400|1700000300|1700003900|60|4|cpu=4,gres/gpu=0|00:10:00|maint|COMPLETED\n"
        + "3|1700000000|Unknown|1700000300|1700003900|60|4|cpu=4|00:00:00||COMPLETED\n"
    )
    found = json.loads(batfill("workload", "import", "slurm", path, "--out", out, "--json").out)
    assert read_log(out)["wait_s"].tolist() == [300, 300, 300]
    assert "Field19" not in out.read_text()
    assert found["notes"] == {
        f"jobs whose Eligible {what}: eligible when submitted": 1
        for what in ("is not understood", "is after their start", "is unknown, and which ran")
    }
    assert found["not_modelled"] == {"had GPUs": 1, "were suspended": 1, "ran in a reservation": 1}
    said = "1 of 3 jobs had GPUs, which is not modelled without --pool gpu=N"
    assert [note for note in bf.read(path).notes if "GPUs" in note] == [said]
    for pool, noted in (("gpu=2", False), ("gpu-a100=2", False), ("slots=9@1", True)):
        assert ("had GPUs" in batfill("replay", path, "--pool", pool).out) == noted


def test_batsim_json_leaves_out_jobs_without_a_run_time_and_the_date_and_the_import_says_so(tmp_path):
    path = tmp_path / "jobs.txt"
    row = "{}|1700000000|1700000000|1700000300|{}|60|4|COMPLETED\n"
    path.write_text(ELIGIBLE + row.format(1, 1700000300) + row.format(2, 1700000900))
    for name, rows, lost in (("log.json", 1, True), ("log.swf", 2, False)):
        done = batfill("workload", "import", "slurm", path, "-o", tmp_path / name)
        assert f"{name}: {rows} job{'s' * (rows - 1)}\n" in done.err + done.out
        assert ("1 of 2 rows dropped: run time <= 0 or unknown" in done.err) == lost
        assert ("for calendars with dates write a .swf file" in done.err) == lost
        clock = bf.read(tmp_path / name, procs=4).clock
        assert (clock is None) == lost


# What jobs take

TRES = ELIGIBLE.replace("|State", "|NNodes|ReqMem|ReqTRES|AllocTRES|ConsumedEnergyRaw|State")
A_JOB = "{}|1700000000|1700000000|1700000300|1700001300|60|4|{}|COMPLETED\n"
GIB = 1024**3 / 1e9


def taken_by(path):
    """What each job of a file takes, by its id."""
    jobs = bf.read(path, procs=64).jobs
    known = {} if jobs.amounts is None else {name: jobs.amounts[name] for name in jobs.amounts.dtype.names}
    return {
        int(job): {name: float(amounts[row]) for name, amounts in known.items() if amounts[row] > 0}
        for row, job in enumerate(jobs.ids)
    }


@pytest.mark.parametrize(
    ("fields", "takes"),
    [
        ("1|16G|cpu=4,mem=16G|billing=4,cpu=4,mem=16G,node=1|", {"memory": 16 * GIB}),
        ("1||cpu=4,mem=1.5T|cpu=4,mem=1.5T,node=1|", {"memory": 1536 * GIB}),
        ("1||cpu=4,mem=4000M|cpu=8,mem=8000M|", {"memory": 8000 / 1024 * GIB}),  # what it held, not what it asked for
        ("1||cpu=4,mem=4000M||", {"memory": 4000 / 1024 * GIB}),
        ("1|||cpu=2,mem=128,node=1|", {"memory": 128 / 1024 * GIB}),  # as sacct wrote it long ago
        ("2|16Gn|cpu=4|cpu=4,node=2|", {"memory": 32 * GIB}),
        ("|16Gn|cpu=4|cpu=4|", {"memory": 16 * GIB}),  # on one node, for all that is known
        ("2|4000Mc|||", {"memory": 16000 / 1024 * GIB}),
        ("2|16G|||", {"memory": 16 * GIB}),
        ("1|0|cpu=4|cpu=4,node=1|", {}),
        ("1||||", {}),
        ("1|||cpu=4,gres/gpu=2,gres/gpu:a100=2|", {"gpu": 2, "gpu-a100": 2}),
        ("1|||cpu=4,gres/gpu:a100=2,gres/gpu:v100=1|", {"gpu": 3, "gpu-a100": 2, "gpu-v100": 1}),
        (
            "1|||gres/shard=5,license/matlab=1,license/ansys@db=2|",
            {"shard": 5, "license/matlab": 1, "license/ansys-db": 2},
        ),
        ("1|||bb/cray=20G,fs/disk=7,vmem=9G,pages=3|", {"bb/cray": 20 * GIB}),
        ("1|||cpu=4,energy=250000|", {"mean_watts": 250}),
        ("1|||cpu=4|250500", {"mean_watts": 250.5}),
        ("1|||cpu=4|18446744073709551614", {}),  # unknown
        ("1|||cpu=4,mem=x,gres/gpu=two,=3,,mem|", {}),
    ],
)
def test_slurm_jobs_take_what_their_tres_say(tmp_path, fields, takes):
    path = tmp_path / "jobs.txt"
    path.write_text(TRES + A_JOB.format(1, fields))
    assert taken_by(path) == {1: pytest.approx(takes, abs=1e-9)}
    names = set(takes) - {"memory"}
    for name, kept in (("log.json", takes), ("log.swf", {n: v for n, v in takes.items() if n == "memory"})):
        done = batfill("workload", "import", "slurm", path, "-o", tmp_path / name, "--procs", 64, "--json")
        assert taken_by(tmp_path / name) == {1: pytest.approx(kept, abs=1e-9)}
        assert json.loads(done.out)["amounts"] == dict.fromkeys(takes, 1)
        lost = f"SWF has a field for memory only, and so not for {', '.join(json.loads(done.out)['amounts'])}"
        assert ("dropped; a .json file keeps them" in done.err) == (bool(names) and name == "log.swf"), lost


def test_a_requeued_job_takes_what_its_last_try_held_and_components_what_they_hold_together(tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text(
        TRES
        + A_JOB.format(1, "1|||mem=1G,gres/gpu=1|").replace("COMPLETED", "NODE_FAIL")
        + "1|1700001300|1700001300|1700002300|1700003300|60|4|1|||mem=2G|5000|COMPLETED\n"
        + A_JOB.format("2+0", "1|||mem=1G,gres/gpu:a=1,energy=1000|")
        + A_JOB.format("2+1", "1|||mem=4G,gres/gpu:b=2,license/x=1,energy=2000|")
    )
    together = {"memory": 5 * GIB, "gpu": 3, "gpu-a": 1, "gpu-b": 2, "license/x": 1, "mean_watts": 3}
    last = {"memory": 2 * GIB, "mean_watts": 5}
    assert sorted(taken_by(path).values(), key=len) == [pytest.approx(last), pytest.approx(together)]


def test_pools_are_of_what_the_accounting_says_also_where_it_is_read_in_place(tmp_path):
    records, out = tmp_path / "jobs.txt", tmp_path / "log.json"
    rng = np.random.default_rng(4)
    rows = [
        f"{k}|{1700000000 + 40 * k}|Unknown|{1700000000 + 40 * k}|{1700000600 + 60 * k}|60|4|1||"
        f"|cpu=4,mem={rng.integers(1, 30)}G,energy={rng.integers(1, 9) * 100_000},gres/gpu={rng.integers(0, 5)},"
        f"license/matlab={rng.integers(0, 2)}||COMPLETED\n"
        for k in range(1, 200)
    ]
    records.write_text(TRES + "".join(rows))
    done = batfill("workload", "import", "slurm", records, "-o", out, "--procs", 64)
    assert "what pools can limit, and how many of the 199 jobs take some: gpu 1" in done.err
    plain = bf.replay(out).schedule.start_s
    for pool in ("gpu=16", "memory=100GB", "license/matlab=4", "power=2500W@mean_watts"):
        of_json, of_records = (bf.replay(path, procs=64, pool=pool) for path in (out, records))
        np.testing.assert_array_equal(of_json.schedule.start_s, of_records.schedule.start_s)
        assert (of_json.schedule.start_s > plain).any(), pool
    assert "no job has a field gpus above 0" in refusal("replay", records, "--pool", "gpus=16")


@pytest.mark.parametrize(
    ("asked", "takes"),
    [
        ("Resource_List.mem=16gb Resource_List.ngpus=2", {"memory": 16 * GIB, "gpu": 2}),
        ("Resource_List.mem=1048576kb", {"memory": GIB}),
        ("Resource_List.mem=100MW", {"memory": 800 / 1024 * GIB}),
        ("Resource_List.mem=1000000000 Resource_List.ngpus=0", {"memory": 1.0}),
        ("Resource_List.mem=16gigs Resource_List.ngpus=some", {}),
    ],
)
def test_pbs_jobs_take_the_memory_and_gpus_that_they_requested(tmp_path, asked, takes):
    record = f"user=u queue=q ctime=1700000000 qtime=1700000000 start=1700000100 end=1700000200 Exit_status=0 {asked}"
    path = tmp_path / "20231114"
    path.write_text(f"11/14/2023 22:00:00;E;1.srv;{record} Resource_List.ncpus=4 Resource_List.walltime=01:00:00\n")
    assert taken_by(path) == {1: pytest.approx(takes)}


def test_pbs_and_oar_jobs_wait_from_the_date_at_which_they_could_start(tmp_path):
    line = "08/26/2014 17:12:05;{};{}.a;ctime=1000 qtime=1000 etime={} start=2000 {}\n"
    path = tmp_path / "pbs"
    ends = "end=3000 exec_host=n1/0 Resource_List.walltime=3600"
    path.write_text(line.format("E", 1, 1000, ends) + line.format("E", 2, 1800, ends) + line.format("S", 3, 1000, ""))
    reading = read_pbs([path], Reading())
    log = swf_of(reading, source="test")
    assert (log["submit_s"].tolist(), log["wait_s"].tolist()) == ([0, 800], [1000, 200])
    assert reading.notes["jobs that have not ended, left out"] == 1  # the third has only begun
    job = {"state": "Terminated", "walltime": 3600, "assigned_resources": [1], "reservation": "None"}
    dates = {"first": (0, 100, 1100), "after": (0, 1300, 1400), "reserved": (0, 9000, 9500)}
    names = ("submissionTime", "startTime", "stopTime")
    jobs = {
        str(k): job | dict(zip(names, [1000 + date for date in when], strict=True))
        for k, when in enumerate(dates.values())
    }
    jobs["1"]["dependencies"], jobs["2"]["reservation"] = [0], "Scheduled"
    path.write_text(json.dumps(jobs))
    log = swf_of(read_oar([path], Reading()), source="test")
    assert (log["submit_s"].tolist(), log["wait_s"].tolist()) == ([0, 1100, 9000], [100, 200, 0])
