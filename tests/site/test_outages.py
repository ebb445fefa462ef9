"""Outages that a log tells of: by hand, and counted by an independent program."""

from __future__ import annotations

import pytest

from batfill.base.errors import WorkloadError
from batfill.cli.workload import log_in
from batfill_site.accounting.outages import outages
from swf_text import row


def found(log, procs):
    """(begin, end, processors) of each outage."""
    return [(one.begin, one.end, one.amount) for one in outages(log, log_in(log, procs), procs).windows]


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
    assert found(log, 8) == [(600, 3600, "8"), (4200, 6000, "8")]


def test_jobs_that_wait_for_a_full_partition_while_the_others_are_idle_tell_of_no_outage(tmp_path):
    # 32 processors: partition 2 has 3 of them, each job takes all three for 3 h, and 12 are submitted at once.
    queued = [row(n, 0, 10_800, req_procs=3, wait=10_800 * (n - 1), partition=2) for n in range(1, 13)]
    others = [row(n, 60 * n, 600, req_procs=29, partition=1) for n in (13, 1000)]
    # From the end of partition 2's queue on, both are down while jobs wait for either.
    waits = [row(2000 + n, 140_000 + n, 60, req_procs=9, wait=7200, partition=n) for n in (1, 2)]
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 32\n" + "".join([*queued, *others, *waits]))
    assert found(log, 32) == [(140_400, 147_600, "32")]


def test_a_log_without_waits_cannot_tell_of_outages(tmp_path):
    log = tmp_path / "log.swf"
    log.write_text(row(1, 0, 300, wait=-1))
    with pytest.raises(WorkloadError, match="none of 1 jobs that ran has a wait"):
        found(log, 8)


@pytest.mark.compiled
def test_kth_sp2_has_the_outages_that_an_independent_program_found(archive_log):
    spans = found(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"), 100)
    assert (len(spans), sum(end - begin for begin, end, _ in spans)) == (262, 16 * 86_400 + 5.5 * 3600)
