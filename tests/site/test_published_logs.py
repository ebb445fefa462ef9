"""What centres publish of their jobs, as small samples made here in the published layouts."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest

from batfill.workloads.parquet_log import read_parquet
from batfill.workloads.swf_log import read_log
from batfill_site.accounting import cluster_log
from command import batfill, refusal

BEGAN = 1_700_000_000
pytestmark = pytest.mark.needs("pyarrow")

FIELDS = ("submit_s", "wait_s", "runtime_s", "procs", "requested_procs", "requested_s", "status")


def table(log, *names):
    return [tuple(int(value) for value in row) for row in zip(*(log[name] for name in names or FIELDS), strict=True)]


def at(seconds, zone=dt.UTC):
    return dt.datetime.fromtimestamp(BEGAN + seconds, zone)


def write_table(path, rows, **types):
    """The path of Parquet with a dictionary for each row; `types` are those of columns whose type is not obvious."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: pa.array([row[name] for row in rows], types.get(name)) for name in rows[0]}
    pq.write_table(pa.table(columns), path)
    return path


def imported(system, *files, out, options=()):
    """The log that the command wrote, and what it said, in lines without examples."""
    done = batfill("workload", "import", system, *files, "-o", out, *options)
    assert done.status == 0, done.err
    return (read_parquet(out) if out.suffix == ".parquet" else read_log(out)), [
        line.partition("; the first: ")[0] for line in done.err.splitlines()
    ]


# Frontier: SWF with 21 fields, GPUs used, soft limit, and machine:mode:size last

FRONTIER = """\
; Version: 2.2
; UnixStartTime: 1700000000
1 10 5 100 2 -1 -1 2 600 -1 1 7 3 -1 1 1 -1 -1 16 -1 frontier:excl:2x112
2 20 0 50 224 3.5 -1 224 600 -1 0 8 3 -1 1 1 1 -1 -1 300 frontier:excl:2x112
3 5 15 20 1000 -1 -1 1000 900 -1 1 7 3 -1 2 1 -1 -1 8000 -1 frontier:shared:1000x112
4 30 5 -1 1 -1 -1 1 600 -1 5 7 3 -1 1 1 -1 -1 -1 -1 frontier:excl:1x112
5 30 5 9 1 -1 -1 1 600 -1 1 7 3 -1 1 1 -1 -1 -1 -1 -1
"""


@pytest.fixture
def frontier(tmp_path):
    path = tmp_path / "frontier-2024.swf"
    path.write_text(FRONTIER)
    return path


def test_frontiers_processors_are_the_nodes_of_its_last_field(frontier, tmp_path):
    log, said = imported("frontier", frontier, out=tmp_path / "log.swf")
    assert table(log) == [(0, 15, 20, 1000, 1000, 900, 1), (5, 5, 100, 2, 2, 600, 1), (15, 0, 50, 2, 2, 600, 0)]
    assert log["user"].tolist() == [1, 1, 2]
    assert log.header_procs == 1004
    assert log.header_value("UnixStartTime") == "1700000005"
    for line in (
        "1 records: jobs without nodes in field 21, left out",
        "1 records: jobs whose field 5 is not their nodes in field 21, which count",
        "1 records: jobs that name a preceding job, which is left out, since jobs are numbered again",
        "1 records: jobs without an end, left out",
        "2 of 3 jobs used GPUs, which is not modelled",
        "1 of 3 jobs shared their nodes, which is not modelled",
    ):
        assert line in said
        assert f"; Note: {line}" in log.header
    cores, _ = imported("frontier", frontier, out=tmp_path / "log.parquet", options=["--unit", "cores"])
    assert cores["procs"].tolist() == [112_000, 224, 224]


def test_frontiers_years_go_together_by_their_own_first_second(frontier, tmp_path):
    later = tmp_path / "frontier-2025.swf"
    later.write_text(FRONTIER.replace("1700000000", "1700001000"))
    log, _ = imported("frontier", later, frontier, out=tmp_path / "log.swf")
    assert log["submit_s"].tolist() == [0, 5, 15, 1000, 1005, 1015]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FRONTIER.replace("; UnixStartTime: 1700000000\n", ""), "no UnixStartTime in its header"),
        ("; UnixStartTime: 1700000000\n" + "1 " * 18 + "\n", ":2: 18 fields, but Frontier's trace has 21"),
        (FRONTIER.replace("16 -1", "many -1"), ":3: field 19 is 'many', not a number"),
        (FRONTIER.replace(" 3.5 ", " 1e999 "), ":4: field 6 (cpu_s) is '1e999', larger than 2^53"),
        ("; UnixStartTime: 1700000000\n", "no finished job in it"),
    ],
)
def test_what_is_not_frontiers_trace_is_refused(tmp_path, text, said):
    path = tmp_path / "x.swf"
    path.write_text(text)
    assert said in refusal("workload", "import", "frontier", path, "-o", tmp_path / "log.swf")
    assert not (tmp_path / "log.swf").exists()


# NREL: Eagle and Kestrel


def eagle(job, submit, start, end, nodes, cores, state, *, gpus=0, memory=0.0):
    """A row of Eagle's first publication, whose dates have no time zone."""
    dates = [at(second).strftime("%Y-%m-%d %H:%M:%S") if second is not None else "" for second in (submit, start, end)]
    names = ("user0014", "account0003", f"partition{1 + job % 2:03}", "normal")
    middle = (172800.0, nodes, cores, gpus, memory)
    return (job, *names, *middle, *dates, 0 if start is None else float(end - start), state, "name1", "dir1", "line1")


EAGLE_COLUMNS = (
    "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,submit_time,start_time,"
    "end_time,run_time,state,name,work_dir,submit_line"
)
EAGLE_ROWS = [
    eagle(2, 60, 70, 100, 1, 36, "TIMEOUT", gpus=2, memory=96000.0),
    eagle(1, 0, 10, 40, 10, 10, "COMPLETED"),
    eagle(3, 90, None, 95, 3, 3, "CANCELLED by 77"),
    eagle(4, 95, 99, 190, 3, 3, "RUNNING"),
]


@pytest.mark.parametrize("suffix", ["csv", "csv.bz2", "parquet"])
def test_eagles_first_table_in_csv_and_parquet(tmp_path, suffix):
    path = tmp_path / f"eagle_data.{suffix}"
    if suffix == "parquet":
        columns = EAGLE_COLUMNS.split(",")
        rows = [dict(zip(columns, row, strict=True)) for row in EAGLE_ROWS]
        for row in rows:
            for name in ("submit_time", "start_time", "end_time"):
                row[name] = dt.datetime.fromisoformat(row[name]) if row[name] else None
        write_table(path, rows)
    else:
        from batfill.base.files import whole_file

        with whole_file(path) as file:
            text = "\n".join([EAGLE_COLUMNS, *(",".join(map(str, row)) for row in EAGLE_ROWS)]) + "\n"
            file.write(text.encode())
    log, said = imported("eagle", path, out=tmp_path / "log.parquet", options=["--timezone", "America/Denver"])
    assert table(log) == [(0, 10, 30, 10, 10, 172800, 1), (60, 10, 30, 1, 1, 172800, 0), (90, 5, 0, 3, 3, 172800, 5)]
    assert log.header_value("UnixStartTime") == str(BEGAN + 7 * 3600)
    assert "; User: 1 user0014" in log.header
    assert "; Executable: 1 name1" in log.header
    assert "1 records: jobs that have not ended, left out" in said
    assert "1 of 3 jobs requested GPUs, which is not modelled" in said
    assert "1 of 3 jobs requested memory, which is not modelled" in said
    assert "the jobs are of 2 partitions, which are not modelled: one machine" in said


def kestrel(job, submit, start, end, nodes, cores, state, **more):
    zone = dt.timezone(dt.timedelta(hours=-7))
    times = [at(second, zone) if second is not None else None for second in (submit, start, end)]
    dates = dict(zip(("submit_time", "start_time", "end_time"), times, strict=True))
    asked = {"wallclock_req": dt.timedelta(hours=4), "nodes_req": 2, "processors_req": 104, "memory_req": "80G"}
    used = {"nodes_used": nodes, "processors_used": cores, "gpus_requested": 0, "state_simple": state}
    names = {"partition": "shared", "qos": "normal", "user_hash": "ab12", "account_hash": "cd34"}
    return {"id": str(job), **dates, **asked, **used, **names, **more}


KESTREL_ROWS = [
    kestrel(7, 0, 5, 25, 1, 26, "COMPLETED"),
    kestrel(8, 3, None, 9, 0, 0, "CANCELLED", gpus_requested=4, memory_req=None),
]


def test_kestrels_processors_are_cores_because_its_jobs_share_nodes(tmp_path):
    path = write_table(tmp_path / "part-0.parquet", KESTREL_ROWS)
    log, said = imported("kestrel", path, out=tmp_path / "log.parquet")
    assert table(log) == [(0, 5, 20, 26, 104, 14400, 1), (3, 6, 0, -1, 104, 14400, 5)]
    assert log.header_value("UnixStartTime") == str(BEGAN)
    assert "1 of 2 jobs requested GPUs, which is not modelled" in said
    nodes, _ = imported("kestrel", path, out=tmp_path / "nodes.swf", options=["--unit", "nodes"])
    assert nodes["procs"].tolist() == [1, -1]


def test_eagles_later_table_has_kestrels_columns_and_dates_with_a_zone(tmp_path):
    rows = [
        {name + "_tz" if name.endswith("_time") else name: value for name, value in row.items()} for row in KESTREL_ROWS
    ]
    write_table(tmp_path / "x.parquet", rows)
    log, _ = imported("eagle", tmp_path / "x.parquet", out=tmp_path / "log.swf")
    assert table(log) == [(0, 5, 20, 1, 2, 14400, 1), (3, 6, 0, -1, 2, 14400, 5)]


# Fugaku: F-DATA, a file a month


def fugaku(job, submit, start, end, nodes, state):
    zone = dt.timezone(dt.timedelta(hours=9))
    dates = [at(second, zone).strftime("%Y-%m-%d %H:%M:%S+09") for second in (submit, start, end)]
    names = {"jid": f"jid_{job}", "usr": "usr_3", "jnam": "jnam_5", "exit state": state}
    sizes = {"cnumr": 48 * nodes, "cnumat": 48 * nodes, "nnumr": nodes, "nnuma": nodes}
    limits = {"elpl": 3600.0, "mszl": 28e9 if job == 1 else 0.0, "freq_req": 2000}
    return names | sizes | dict(zip(("adt", "sdt", "edt"), dates, strict=True)) | limits | {"embedding": [0.5] * 8}


def test_fugakus_months_are_one_log_of_nodes(tmp_path):
    months = [tmp_path / "21_04.parquet", tmp_path / "21_05.parquet"]
    write_table(months[0], [fugaku(1, 0, 10, 70, 384, "completed")])
    write_table(months[1], [fugaku(3, 900, 910, 950, 2, "completed"), fugaku(2, 800, 810, 811, 1, "failed")])
    log, said = imported("fugaku", *reversed(months), out=tmp_path / "log.parquet")
    assert table(log) == [(0, 10, 60, 384, 384, 3600, 1), (800, 10, 1, 1, 1, 3600, 0), (900, 10, 40, 2, 2, 3600, 1)]
    assert log.header_value("UnixStartTime") == str(BEGAN)
    assert "1 of 3 jobs have a limit of memory, which is not modelled" in said
    assert "3 of 3 jobs requested a frequency, which is not modelled" in said


# PM100: Marconi100, limits in minutes


def pm100(job, submit, start, end, minutes, state, **more):
    times = {"submit_time": at(submit), "start_time": at(start), "end_time": at(end), "run_time": end - start}
    asked = {"time_limit": minutes, "num_nodes_req": 2, "num_cores_req": 64, "num_gpus_req": 8, "mem_req": 475}
    given = {"num_nodes_alloc": 2, "num_cores_alloc": 256, "shared": "0", "partition": 1, "qos": 0}
    return {"job_id": job, "user_id": 33, "group_id": 25200, "job_state": state, **times, **asked, **given, **more}


def test_pm100s_limits_are_in_minutes_and_may_be_infinite(tmp_path):
    jobs = [pm100(1, 0, 10, 70, 30, "COMPLETED"), pm100(2, 5, 70, 75, 2**32 - 2, "OUT_OF_MEMORY", shared="1")]
    path = write_table(tmp_path / "job_table.parquet", jobs)
    log, said = imported("pm100", path, out=tmp_path / "log.swf")
    assert table(log) == [(0, 10, 60, 2, 2, 1800, 1), (5, 65, 5, 2, 2, -1, 0)]
    assert "; User: 1 33" in log.header
    assert "2 of 2 jobs requested GPUs, which is not modelled" in said
    assert "1 of 2 jobs may share their nodes, which is not modelled" in said
    cores, _ = imported("pm100", path, out=tmp_path / "cores.swf", options=["--unit", "cores"])
    assert cores["procs"].tolist() == [256, 256]
    assert cores["requested_procs"].tolist() == [64, 64]


# What they share


def test_a_log_in_pieces_is_the_log_at_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    rows = []
    for job in range(50):
        dates = (int(date) for date in rng.integers(0, 100, 3).cumsum())
        rows.append(kestrel(job, *dates, 1, 1 + job, "COMPLETED", user_hash=f"u{job % 7}"))
    path = write_table(tmp_path / "x.parquet", rows)
    whole, _ = imported("kestrel", path, out=tmp_path / "whole.parquet")
    monkeypatch.setattr(cluster_log, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr("batfill_site.accounting.centres.ROWS_AT_ONCE", 3)
    for name in ("pieces.parquet", "pieces.swf.gz"):
        log, _ = imported("kestrel", path, out=tmp_path / name)
        assert log.rows.tolist() == whole.rows.tolist()
        assert log.lines.tolist() == whole.lines.tolist()
        assert log.header == whole.header


def test_an_imported_parquet_log_replays_as_the_swf_log_does(tmp_path):
    import batfill as bf

    rows = [fugaku(n, 10 * n, 20 * n, 20 * n + 500, 1 + n % 3, "completed") for n in range(1, 20)]
    path, starts = write_table(tmp_path / "21_04.parquet", rows), []
    for name in ("log.swf", "log.parquet", "log.json"):
        done = batfill("workload", "import", "fugaku", path, "-o", tmp_path / name, "--procs", 4)
        assert done.status == 0, done.err
        starts.append(bf.replay(bf.read(tmp_path / name)).schedule.start_s.tolist())
    assert starts[0] == starts[1] == starts[2]


def without(name):
    return [{column: value for column, value in row.items() if column != name} for row in KESTREL_ROWS]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (without("wallclock_req"), "no column wallclock_req, which the table of NREL Kestrel has"),
        (without("start_time"), "no column start_time_tz or start_time, which"),
        (without("processors_req"), "no column processors_req, which"),
        ([{**KESTREL_ROWS[0], "processors_req": "many"}], "column processors_req does not hold numbers"),
        ([{**KESTREL_ROWS[0], "submit_time": "7 o'clock"}], 'column submit_time does not hold dates ("7 o\'clock")'),
        ([{**KESTREL_ROWS[0], "wallclock_req": "1:x"}], "column wallclock_req does not hold durations"),
        ([{**KESTREL_ROWS[0], "wallclock_req": [1]}], "column wallclock_req does not hold durations"),
        ([{**KESTREL_ROWS[0], "submit_time": {"at": 1}}], "column submit_time does not hold dates;"),
        ([{**KESTREL_ROWS[0], "name": b"\xff"}], "column name does not hold texts"),
        ([{**KESTREL_ROWS[0], "state_simple": "RUNNING"}], "no finished job in it (1: jobs that have not ended"),
    ],
)
def test_a_table_that_is_not_the_published_one_is_refused_in_a_line(tmp_path, rows, said):
    path = write_table(tmp_path / "x.parquet", rows)
    assert said in refusal("workload", "import", "kestrel", path, "-o", tmp_path / "log.parquet")
    assert not (tmp_path / "log.parquet").exists()


def test_dates_without_a_time_are_midnight_and_dates_beyond_all_years_are_none(tmp_path):
    path = write_table(tmp_path / "x.parquet", [{**KESTREL_ROWS[0], "submit_time": dt.date(2023, 11, 14)}])
    log, _ = imported("kestrel", path, out=tmp_path / "log.swf", options=["--timezone", "America/Denver"])
    assert log.header_value("UnixStartTime") == str(int(dt.datetime(2023, 11, 14, 7, tzinfo=dt.UTC).timestamp()))
    write_table(path, [{**KESTREL_ROWS[0], "submit_time": -(10**18)}], submit_time=pa_timestamp())
    said = refusal("workload", "import", "kestrel", path, "-o", tmp_path / "log.swf", "--timezone", "America/Denver")
    assert "1: jobs whose submit_time is no time that is understood" in said


def pa_timestamp():
    import pyarrow as pa

    return pa.timestamp("us")


def test_dates_in_a_csv_file_may_have_fractions_and_zones(tmp_path):
    path = tmp_path / "x.csv"
    dates = [
        ("2023-11-14 22:13:20.75", "2023-11-14 23:13:30+01:00", "2023-11-14 22:13:40Z"),
        ("2023-11-14T22:13:20", "1700000010", "2023-11-14 22:13:40+0000"),
    ]
    rows = [f"{i},1-00:00:00,1,{','.join(date)},COMPLETED" for i, date in enumerate(dates)]
    path.write_text("\n".join(["job_id,wallclock_req,nodes_req,submit_time,start_time,end_time,state", *rows]))
    log, _ = imported("eagle", path, out=tmp_path / "log.swf")
    assert table(log) == [(0, 10, 10, 1, 1, 86400, 1)] * 2


def test_rows_of_a_csv_file_may_be_long_and_hold_newlines(tmp_path, monkeypatch):
    monkeypatch.setattr("batfill_site.accounting.centres.LONGEST_LINE", 3000)
    row = "{},1-00:00:00,{},2023-11-14 22:13:20,2023-11-14 22:13:30,2023-11-14 22:13:40,COMPLETED,{}"
    names = ["x", "y" * 2000, '"a\n""b"",\n"', "z"] * 20
    head = "job_id,wallclock_req,nodes_req,submit_time,start_time,end_time,state,name"
    path = tmp_path / "x.csv"
    path.write_text("\n".join([head, *(row.format(i, i + 1, name) for i, name in enumerate(names))]))
    log, _ = imported("eagle", path, out=tmp_path / "log.swf")
    assert log["requested_procs"].tolist() == list(range(1, 81))
    assert log["executable"].tolist() == [1, 2, 3, 4] * 20


def test_what_a_centres_table_leaves_out_or_changes_is_noted(tmp_path):
    row = KESTREL_ROWS[0]
    changes = {
        "state is not understood": {"state_simple": "WAT"},
        "without a start": {"start_time": None},
        "processors_used is unknown": {"processors_used": 2**31},
        "wallclock_req is empty": {"wallclock_req": None},
        "submitted after their start": {"submit_time": row["end_time"] - dt.timedelta(seconds=1)},
        "fractions of a second": {"end_time": row["end_time"] + dt.timedelta(milliseconds=500)},
        "processors_used 0": {"processors_used": 0},
    }
    path = write_table(tmp_path / "x.parquet", [row | change for change in changes.values()])
    first = json.loads(batfill("workload", "import", "kestrel", path, "-o", tmp_path / "log.swf", "--json").out)[
        "first"
    ]
    for number, reason in enumerate(changes, 1):
        [example] = [example for note, example in first.items() if reason in note]
        assert f"x.parquet: row {number}, " in example
