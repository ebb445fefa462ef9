"""Logs cut into periods, and the tables of the 2019 study of mixed policies on the archive's logs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batfill.model.policy import POLICIES, PURE
from batfill_lab.search.periods import Conditions, costs, read_periods
from command import batfill, json_result

DAY_S = 86_400
# Sums over weeks of the weekly mean bounded slowdown: no threshold, 200,000 s, 72,000 s.
THRESHOLDS = (math.inf, 200_000.0, 72_000.0)
TABLE_3 = {
    "saf": (1461.39, 1585.53, 2395.29),
    "spf": (1467.70, 1689.55, 2447.58),
    "lcfs": (1739.24, 1940.71, 2471.02),
    "lexp": (1936.93, 1955.04, 2496.97),
    "sqf": (1988.62, 2082.25, 2579.47),
    "srf": (2426.40, 2475.90, 2818.35),
    "sexp": (2519.32, 2484.96, 2864.63),
    "lrf": (2726.74, 2517.65, 2875.95),
    "fcfs": (2864.63, 2864.63, 2879.22),
    "lpf": (3277.66, 3020.96, 3064.14),
    "lqf": (4188.31, 4159.97, 3346.24),
    "laf": (5322.73, 4811.85, 3525.13),
}
SDSC_SP2, KTH_SP2 = "SDSC-SP2-1998-4.2-cln.swf.gz", "KTH-SP2-1996-2.1-cln.swf.gz"


def swf_line(number, submit_s, runtime_s, procs, *, wait_s=0, walltime_s=None):
    walltime_s = walltime_s or runtime_s
    return f"{number} {submit_s} {wait_s} {runtime_s} {procs} -1 -1 {procs} {walltime_s} -1 1 1 1 -1 -1 -1 -1 -1\n"


@pytest.fixture
def log(tmp_path):
    """Three weeks: the second has a job that the log ended in the third, which has no other."""
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxProcs: 4\n"
        + swf_line(1, 0, 100, 4)
        + swf_line(2, 10, 50, 4)
        + swf_line(3, 7 * DAY_S, 30, 2)
        + swf_line(4, 13 * DAY_S, 2 * DAY_S, 2)
        + swf_line(5, 7 * DAY_S + 40, 30, 2)
    )
    return path


def test_a_period_has_its_own_clock_and_keeps_what_the_log_finished_in_it(log):
    periods = read_periods(log)
    assert periods.numbers == (0, 1)
    assert [jobs.submit_s.tolist() for jobs in periods.tables] == [[0, 10], [0, 40]]
    assert (periods.procs, periods.source) == (4, "log.swf")
    assert [len(jobs) for jobs in read_periods(log, boundary="submitted").tables] == [2, 3]
    assert [len(jobs) for jobs in read_periods(log, days=14, skip=0).tables] == [4]
    assert read_periods(log, skip=1).provenance()["periods"] == [1]
    assert periods.part(1, 2).numbers == (1,)


def test_batfill_tune_prints_a_table_writes_its_result_and_repeats_it(log, tmp_path):
    out = tmp_path / "tuned.json"
    arguments = ("tune", log, "--points", 50, "--last", 1, "--out", out, "--seed", 5)
    done = batfill(*arguments)
    assert (done.status, done.err) == (0, "")
    head, *rows = done.out.splitlines()
    assert head.split()[:6] == ["policy", "training", "testing", "testing/saf", "longest", "wait"]
    table, _, advice = (part.strip() for part in "\n".join(rows).partition("\n\n"))
    assert {row.split()[0] for row in table.splitlines()} == {*PURE, "w*", "w*train", "wgreedy", "pure"}
    before = out.read_bytes()
    found = json_result(*arguments)
    assert out.read_bytes() == before
    assert " ".join(advice.split()).startswith(found["recommendation"]["text"])
    assert found["input"]["source_sha256"] == read_periods(log).digest
    assert found["by_period"][0]["mean_bsld"]["fcfs"] == pytest.approx((1 + 140 / 50) / 2)
    assert found["options"]["points"] == 66


@pytest.mark.parametrize(("name", "paper", "weeks"), [(SDSC_SP2, TABLE_3, 106)])
def test_the_pure_policies_compare_as_in_table_3(archive_log, name, paper, weeks):
    periods = read_periods(archive_log(name))
    assert len(periods) == weeks
    for column, threshold_s in enumerate(THRESHOLDS):
        sums = costs(periods, [POLICIES[policy] for policy in PURE], Conditions(threshold_s=threshold_s)).sum(axis=1)
        theirs = np.array([paper[policy][column] for policy in PURE])
        ranks = [np.argsort(np.argsort(values)) for values in (sums, theirs)]
        assert np.corrcoef(ranks)[0, 1] >= 0.9
        ours, published = sums / sums[PURE.index("fcfs")], theirs / paper["fcfs"][column]
        assert np.abs(np.log(ours / published)).mean() <= 0.15
        assert PURE[sums.argmin()] == "saf"


def test_the_sums_on_sdsc_sp2_are_near_those_of_independent_code(archive_log):
    periods = read_periods(archive_log(SDSC_SP2))
    fcfs, saf = costs(periods, [POLICIES["fcfs"], POLICIES["saf"]], Conditions()).sum(axis=1)
    assert fcfs == pytest.approx(2396, abs=1)
    assert saf == pytest.approx(1320, rel=0.006)
