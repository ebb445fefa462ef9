"""What a site asks of a log with jobs that were cancelled while they waited."""

from __future__ import annotations

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from swf_text import row

PROCS, JOBS = 32, 600


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with the waits of a replay, and 60 such jobs between the others."""
    jobs = bf.generate(jobs=JOBS, procs=PROCS, seed=3, load=0.8)
    waits = bf.replay(jobs, "fcfs").schedule.wait_s.tolist()
    columns = [np.ceil(column).astype(int).tolist() for column in (jobs.submit_s, jobs.runtime_s, jobs.walltime_s)]
    rows = list(zip(*columns, jobs.procs.tolist(), waits, strict=True))
    text = "".join(
        row(n, r, p, req_time=limit, req_procs=q, wait=int(wait)) for n, (r, p, limit, q, wait) in enumerate(rows, 1)
    )
    text += "".join(
        row(JOBS + n, r, 0, req_time=7200, req_procs=PROCS // 2, wait=3600, status=5)
        for n, (r, *_) in enumerate(rows[::10], 1)
    )
    path = tmp_path_factory.mktemp("cancelled") / "log.swf"
    path.write_text(f"; MaxProcs: {PROCS}\n{text}")
    return path


def test_what_if_advises_for_the_others_and_says_how_it_read_the_log(log):
    found = bf.what_if(log, cancelled="wait", small_first=False, thresholds_s=[86_400], depth=1)
    mean_s = {choice: bf.replay(log, "fcfs", cancelled=choice).figures.mean_wait_s for choice in ("wait", "drop")}
    assert found.outcomes[0].mean_wait_s == pytest.approx(mean_s["wait"])
    assert mean_s["wait"] > 1.01 * mean_s["drop"]
    by_width = sum(group.jobs for group in found.groups if group.by == "processors")
    assert found.comparison.wait_s.shape[1] == by_width == JOBS
    assert found.settings["cancelled"] == "wait"
    assert (found.site.rows, found.site.cancelled, found.site.left_out) == (JOBS + 60, 0, {})
    assert "--cancelled wait" in found.answer(log).as_page("batfill what-if", {})


def test_fidelity_compares_the_others(log):
    scores = {choice: bf.fidelity(log, cancelled=choice, fit=False) for choice in ("wait", "drop")}
    assert scores["wait"]["options"]["cancelled"] == "wait"
    assert scores["wait"]["scores"]["header"]["jobs"] == scores["drop"]["scores"]["header"]["jobs"] == JOBS
    ratios = [scores[choice]["scores"]["header"]["ratio"] for choice in ("wait", "drop")]
    assert ratios[0] > ratios[1]


def test_when_refuses_them_since_those_that_have_left_would_count_as_waiting(log):
    run = bf.Replay(bf.read(log, cancelled="wait"), "fcfs").run("2d")
    with pytest.raises(BatfillError, match="60 jobs are cancelled while they wait, and are not for a forecast"):
        bf.when(run)


def test_when_says_that_it_leaves_them_out_where_it_learns_from_the_past(log):
    said = " ".join(bf.when(log, at=200_000, forks=3).as_text(details=True).split())
    assert "moves real starts. Jobs that were cancelled while they waited are left out, and those that wait now" in said
