"""Outages that a log tells of: by hand, and counted by an independent program."""

from __future__ import annotations

import pytest

from command import batfill
from swf_text import row

HEADER = "kind,begin,end,processors,announced"


def test_outages_are_where_nothing_runs_while_enough_waits(tmp_path):
    # Of 8 processors 4 are waited for from 600 s on until 6,000 s, while none runs but from 3,300 s to 3,700 s.
    rows = [
        row(1, 0, 300, req_procs=8),
        row(2, 600, 60, req_procs=4, wait=5400),
        row(3, 3300, 400),
        row(4, 9000, 60, req_procs=8, wait=600),
    ]
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 8\n" + "".join(rows))
    done = batfill("workload", "outages", log)
    assert done.out.splitlines() == [HEADER, "announced,600,3600,8,", "announced,4200,6000,8,"]
    assert "2 outages, 1 h 20 min in all, of 8 processors" in done.err
    assert batfill("workload", "outages", log, "--out", tmp_path / "out.csv").out == ""
    assert (tmp_path / "out.csv").read_text() == done.out
    assert batfill("replay", log, "--unrequested", "runtime", "--calendar", tmp_path / "out.csv").status == 0


def test_jobs_that_wait_for_a_full_partition_while_the_others_are_idle_tell_of_no_outage(tmp_path):
    # 32 processors: partition 2 has 3 of them, each job takes all three for 3 h, and 12 are submitted at once.
    queued = [row(n, 0, 10_800, req_procs=3, wait=10_800 * (n - 1), partition=2) for n in range(1, 13)]
    others = [row(n, 60 * n, 600, req_procs=29, partition=1) for n in (13, 1000)]
    # From the end of partition 2's queue on, both are down while jobs wait for either.
    waits = [row(2000 + n, 140_000 + n, 60, req_procs=9, wait=7200, partition=n) for n in (1, 2)]
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 32\n" + "".join([*queued, *others, *waits]))
    assert batfill("workload", "outages", log).out.splitlines()[1:] == ["announced,140400,147600,32,"]


def test_a_log_without_waits_or_size_cannot_tell_of_outages(tmp_path):
    log = tmp_path / "log.swf"
    log.write_text(row(1, 0, 300, wait=-1))
    for more, wrong in [((), "the machine's size is unknown"), (("--procs", 8), "none of 1 jobs that ran has a wait")]:
        done = batfill("workload", "outages", log, *more)
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert wrong in done.err


@pytest.mark.compiled
def test_kth_sp2_has_the_outages_that_an_independent_program_found(archive_log):
    done = batfill("workload", "outages", archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))
    assert "262 outages, 16 d 5 h in all" in done.err
