from __future__ import annotations

import bz2
import gzip
import lzma
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base import files
from batfill.base.errors import WorkloadError
from batfill.model.jobs import job_table
from batfill.workloads import read_workload as read_swf
from batfill.workloads.formats import part_of, source_of
from batfill.workloads.swf_log import LARGEST_EXACT, Comment, SwfLog, read_log, write_log
from batfill.workloads.times import cut, resample, windows
from sweeps import examples
from swf_text import row

PACKERS = (partial(gzip.compress, mtime=0), lzma.compress, bz2.compress)


@pytest.fixture
def log_file(tmp_path):
    def write(text, name="log.swf"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refusal(path):
    """The one line that reading this file is answered with."""
    with pytest.raises(WorkloadError) as error:
        read_swf(path)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def outcome(read, path):
    """What reading gives: its result, or the message it is refused with."""
    try:
        return read(path)
    except WorkloadError as error:
        return str(error)


def test_rows_of_more_fields_are_read_by_their_first_18_which_is_said_once(log_file, tmp_path, monkeypatch):
    monkeypatch.setattr("batfill.base.files.CHUNK_BYTES", 100)
    rows = [row(k, k, 5).rstrip() for k in (1, 2, 3)]
    wide = read_swf(log_file("; MaxProcs: 4\n" + "".join(f"{text} 7 x -1e99\n" for text in rows)))
    assert wide == read_swf(log_file("; MaxProcs: 4\n" + "\n".join(rows), "plain.swf"))
    assert [note for note in wide.notes if "fields" in note] == [
        "rows of 21 fields, of which the first 18, those of SWF, are read"
    ]


@pytest.mark.parametrize("at_once", [1, files.UNPACKED_BYTES])
@pytest.mark.parametrize("padding", [b"", bytes(4), bytes(80_000)])
@pytest.mark.parametrize("packed", PACKERS)
def test_packed_streams_one_behind_the_other_are_one_text(log_file, packed, padding, at_once, monkeypatch):
    monkeypatch.setattr(files, "UNPACKED_BYTES", at_once)
    both = padding.join(packed(row(k, 0, 5).encode()) for k in (1, 2))
    if padding and packed is bz2.compress:  # which knows no padding
        assert "cannot be unpacked" in refusal(log_file(both))
    else:
        assert len(read_swf(log_file(both + padding[:4]))) == 2


# The engine's rules

PART, OTHER = row(1, 0, 10, status=2), row(2, 9, 7)


@pytest.mark.parametrize(
    ("rows", "runtime_s", "note"),
    [
        (row(1, 0, 5) + row(2, 0, 5, procs=0, req_procs=-1), [5], "1 of 2 rows dropped: neither requested nor"),
        (row(1, 0, 5, req_time=9) + row(2, 1, 0) + row(3, 1, -1), [5], "2 of 3 rows dropped: run time <= 0 or unknown"),
        # The summary of partial executions counts; without one they are added up.
        (row(1, 0, 30) + PART + row(1, -1, 20, status=3) + OTHER, [30, 7], "2 of 4 rows dropped: partial execution"),
        (PART + row(1, -1, 20, status=4) + OTHER, [30, 7], "1 of 3 rows dropped: further partial"),
    ],
)
def test_rows_that_are_no_jobs_are_dropped_and_counted(log_file, rows, runtime_s, note):
    workload = read_swf(log_file(rows))
    assert workload.jobs.runtime_s.tolist() == runtime_s
    assert workload.notes[0].startswith(note)


def test_the_users_request_is_kept_apart_from_the_limit(log_file):
    path = log_file(row(1, 0, 50, req_time=40) + row(2, 1, 50, req_time=-1) + row(3, 2, 50, req_time=60))
    for overrun, limits, expected in (
        ("keep", [50, 50, 60], [50, 50, 60]),
        ("kill", [40, 50, 60], [40, 50, 60]),
        ("extend", [50, 50, 60], [40, 50, 60]),
    ):
        jobs = read_swf(path, overrun=overrun).jobs
        assert jobs.runtime_s.tolist() == [50, 50, 50]
        np.testing.assert_array_equal(jobs.asked_s, [40, np.nan, 60])
        assert jobs.walltime_s.tolist() == limits
        assert jobs.expected_s.tolist() == expected
        assert jobs.invented.tolist() == [False, True, False]
        assert jobs.raised.tolist() == [overrun == "keep", False, False]
        assert (jobs.outlives, jobs.own_end) == (overrun == "extend", overrun != "kill")


def limits(log_file, text, choice):
    return read_swf(log_file(text), unrequested=choice, overrun="kill").jobs.walltime_s.tolist()


UNREQUESTED = [(149, 30, 1), (150, 20, 1), (150, 99, 2), (200, 10, 2), (260, 10, 2)]  # submission, run time, user
MISSING = (
    row(1, 0, 50, wait=100, req_time=40, user=1, queue=1)
    + "".join(row(job, r, p, user=user, queue=1) for job, (r, p, user) in enumerate(UNREQUESTED, 2))
    + row(7, 260, 10, req_time=90, user=3, queue=1)
)


@pytest.mark.parametrize(
    ("choice", "walltime_s"),
    [
        ("runtime", [40, 30, 20, 99, 10, 10, 90]),
        ("none", [40, np.inf, np.inf, np.inf, np.inf, np.inf, 90]),
        (60, [40, 60, 60, 60, 60, 60, 90]),
        ("1min", [40, 60, 60, 60, 60, 60, 90]),
        # of the user so far, or of anyone, or nothing: job 1 ends at 150, job 2 at 179, job 3 at 170, job 4 at 249
        ("user-max", [40, np.inf, 50, 50, 50, 99, 90]),
        ("queue", [40, 90, 90, 90, 90, 90, 90]),
    ],
)
def test_what_stands_in_for_a_missing_request(log_file, choice, walltime_s):
    assert limits(log_file, MISSING, choice) == walltime_s


def test_a_queue_without_requests_has_the_logs_longest_run_time_or_is_refused(log_file):
    other = MISSING + row(8, 300, 10, req_time=-1, queue=2)
    says = r"1 jobs without .* \(first: job 8, in queue 2, of which no job has one\), and the header"
    with pytest.raises(WorkloadError, match=says):
        limits(log_file, other, "queue")
    assert limits(log_file, "; MaxRuntime: 3600\n" + other, "queue")[-1] == 3600


@pytest.mark.parametrize("choice", ["none", "queue", "user-max", 30])
def test_parts_of_a_log_keep_what_stands_in_for_requests_in_the_whole(log_file, choice):
    source = source_of(log_file("; MaxProcs: 4\n" + MISSING), unrequested=choice, overrun="kill")
    whole = part_of(source, source.log).jobs
    window = windows(source.log, 200.0)[1]
    part = part_of(source, cut(source.log, window)).jobs
    assert part.walltime_s.tolist() == whole.walltime_s[whole.submit_s >= 200].tolist()
    drawn = part_of(source, resample(source.log, 0, method="weeks")).jobs
    assert sorted(drawn.walltime_s) == sorted(whole.walltime_s)


def test_a_table_without_requests_takes_the_walltimes_for_them():
    columns = {name: np.array([0.0, 1.0]) for name in ("submit_s", "runtime_s")}
    given = {"ids": np.array(["a", "b"], object), "walltime_s": np.array([9.0, np.inf]), "procs": np.array([1, 1])}
    jobs = job_table("two", **columns, **given)
    np.testing.assert_array_equal(jobs.asked_s, [9, np.nan])
    assert not jobs.invented.any()
    with pytest.raises(WorkloadError, match="a user's request that is not a number > 0"):
        job_table("two", **columns, **given, request_s=np.array([0.0, 5.0]))


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ("; MaxProcs: 128\n; MaxNodes: 4\n", 128),
        ("; MaxNodes: 4\n", 4),
        (";MaxProcs: -1\n; maxnodes: 16 (of which 2 are down)\n", 16),
        ("; MaxProcs: 93,312\n", 93312),
        ("", None),
    ],
)
def test_the_machine_is_max_procs_else_max_nodes(log_file, header, size):
    assert read_swf(log_file(header + row(1, 0, 1))).size == size


def test_a_job_number_used_twice_is_replaced_and_counted(log_file):
    workload = read_swf(log_file(row(1, 0, 1, req_time=5) + row(1, 1, 2, req_time=5) + row(-1, 2, 3, req_time=5)))
    assert workload.jobs.ids.tolist() == ["1", "2", "3"]
    assert workload.notes == ("2 of 3 jobs changed: job number unknown or used before, a new one given",)


# Reading


TEXT = b"; Computer: X\n; MaxProcs: 8\n" + "".join(row(i, 10 * i, 5) for i in range(1, 6)).encode()
VARIATIONS = {
    "CRLF": TEXT.replace(b"\n", b"\r\n"),
    "BOM": b"\xef\xbb\xbf" + TEXT,
    "tabs": TEXT.replace(b" ", b"\t  "),
    "no last newline": TEXT.rstrip(b"\n"),
    "latin-1": TEXT.replace(b"; Comp", b"; K\xf6ln\n; Comp"),
    "empty lines": b"\n\n" + TEXT.replace(b"\n", b"\n \n"),
    "late comment": TEXT + b"; the end\n",
}


@pytest.mark.parametrize("text", VARIATIONS.values(), ids=VARIATIONS.keys())
def test_harmless_variations_read_alike(log_file, text):
    workload = read_swf(log_file(text))
    assert workload.jobs.submit_s.tolist() == [0, 10, 20, 30, 40]
    assert workload.size == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "only 0 rows"),
        (b"; a header only\n", "only 0 rows"),
        (row(1, 0, 5).encode() + b"2 3 4\n", ":2: 3 fields, but the first row has 18"),
        (b"2 3 4\n", ":1: 3 fields, but SWF has 18"),
        (row(1, 0, 5).encode() + row(1, 0, 5).rstrip().encode() + b" 9\n", ":2: 19 fields, but the first row has 18"),
        *((packed(row(1, 0, 5).encode())[:-9], "cannot be unpacked") for packed in PACKERS),
        *((packed(row(1, 0, 5).encode()) + b"1 2", "cannot be unpacked") for packed in PACKERS),
        *((packed(row(1, 0, 5).encode()) + row(2, 0, 5).encode(), "cannot be unpacked") for packed in PACKERS),
        *(((2 * packed(row(1, 0, 5).encode()))[:-9], "cannot be unpacked") for packed in PACKERS),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ":1: this is no log: it begins with '\\x89PNG'; give SWF, "),
        (b"id,wait\n1,2\n", ":1: this is no log: it begins with 'id,wait'"),
        (row(1, "nan", 5).encode(), ":1: field 2 (submit_s) is 'nan', not a number"),
        (b"; x\n\n" + row(1, 0, "1e999").encode(), ":3: field 4 (runtime_s) is '1e999', larger"),
        (row("99999999999999999999", 0, 5).encode(), ":1: field 1 (job) is '99999999999999999999', larger"),
        (row(1.5, 0, 5).encode(), ":1: job number 1.5"),
        (row(1, 0, "--5").encode(), "'--5', not a number"),
        (row(1, 0, "1_0").encode(), "'1_0', not a number"),
        (row(1, -1, 5).encode(), "1: submission time unknown"),
        (b"\x1f\x8b\x08\x00rubbish that is no deflate stream", "cannot be unpacked"),
    ],
)
def test_a_bad_file_is_answered_in_one_line(log_file, text, said):
    assert said in refusal(log_file(text))


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_never_trace_back(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_bytes(text)
    result = outcome(read_swf, path)
    assert not isinstance(result, str) or "\n" not in result


TOKEN = st.one_of(
    st.integers(-2, 10**17).map(str),
    st.floats(-2, 1e6).map(repr),
    st.sampled_from(["-1", "0", "1", "nan", "inf", "-", ".", "1e3", "+5", "0x1", "1..2", ";", "1-2"]),
)


FIELDS = st.lists(TOKEN, min_size=16, max_size=19) | st.lists(st.just("3"), min_size=18, max_size=18)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(FIELDS, max_size=8))
def test_no_row_is_lost_in_silence(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("fuzz") / "x.swf"
    path.write_text("".join(" ".join(fields) + "\n" for fields in rows))
    log = outcome(read_log, path)
    if isinstance(log, str):
        assert re.match(rf"{path}:\d+: ", log)
        return
    data = [fields for fields in rows if not fields[0].startswith(";")]
    assert log.rows.tolist() == [[float(token) for token in fields[:18]] for fields in data]
    workload = outcome(read_swf, path)
    if isinstance(workload, str):
        assert "\n" not in workload
        return
    dropped = sum(int(note.split()[0]) for note in workload.notes if " dropped: " in note)
    assert len(workload.jobs) + dropped == len(data)


def test_long_logs_are_read_in_pieces_alike(log_file, monkeypatch):
    text = "; head\n" + "".join(row(i, i, 5 + i / 4) + f"; after {i}\n" for i in range(1, 200))
    path = log_file(text)
    whole = read_log(path)
    monkeypatch.setattr("batfill.base.files.CHUNK_BYTES", 97)
    pieces = read_log(path)
    assert pieces.rows.tolist() == whole.rows.tolist()
    assert pieces.comments == whole.comments
    assert pieces.lines.tolist() == whole.lines.tolist() == list(range(2, 400, 2))


# Writing

NUMBERS = st.integers(-(2**53), 2**53).map(float) | st.floats(-1e15, 1e15).filter(lambda x: abs(x) <= LARGEST_EXACT)
COMMENTS = st.binary(max_size=20).map(
    lambda b: ";" + b.replace(b"\n", b"").rstrip(b"\r").decode("utf-8", "surrogateescape")
)


@settings(max_examples=examples(65), deadline=None)
@given(
    st.lists(st.lists(NUMBERS, min_size=18, max_size=18), max_size=6),
    st.lists(st.tuples(st.integers(0, 6), COMMENTS), max_size=4),
    st.sampled_from(["", ".gz", ".xz", ".bz2"]),
)
def test_a_log_survives_writing_and_reading(tmp_path_factory, rows, comments, suffix):
    comments = tuple(Comment(min(at, len(rows)), text) for at, text in sorted(comments, key=lambda c: c[0]))
    log = SwfLog(comments, np.array(rows, float).reshape(-1, 18), np.arange(len(rows)))
    path = tmp_path_factory.mktemp("trip") / f"log.swf{suffix}"
    write_log(log, path)
    again = read_log(path)
    assert again.rows.tolist() == log.rows.tolist()
    assert again.comments == log.comments
    write_log(again, path.with_name(f"again.swf{suffix}"))
    assert path.with_name(f"again.swf{suffix}").read_bytes() == path.read_bytes()


# The archive's logs


def test_kth_sp2_is_read_as_the_reference_says(archive_log):
    workload = read_swf(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))
    assert len(workload.jobs) == 28_467
    assert workload.size == 100
    assert sum(int(note.split()[0]) for note in workload.notes if "dropped" in note) == 9


def test_archive_logs_survive_writing_and_reading(archive_log, tmp_path):
    log, path = read_log(archive_log("SDSC-SP2-1998-4.2-cln.swf.gz")), tmp_path / "again.swf"
    write_log(log, path)
    assert (read_log(path).rows == log.rows).all()
    assert read_log(path).comments == log.comments
