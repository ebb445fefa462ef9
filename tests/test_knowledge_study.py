"""The study of a log without a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batfill.learn.habits import FEATURE_NAMES
from batfill.model.jobs import WEEK_S
from batfill.model.options import Options
from batfill.search.classify import autocorrelation, autocorrelations, classify_log, read_jobs
from swf_text import row


def rows_of_habits(n_jobs=900, weeks=4, seed=0):
    """Fields of jobs whose users mostly need what they needed before: (submit, run, wait, procs, request, user)."""
    rng = np.random.default_rng(seed)
    for submit_s in np.sort(rng.integers(1000, weeks * WEEK_S, n_jobs)).tolist():
        user = int(rng.integers(10))
        runtime_s = math.ceil(math.exp(rng.normal(4 + user / 3, 0.6)))
        yield (
            submit_s,
            runtime_s,
            int(rng.integers(5000)),
            int(rng.integers(1, 5)),
            3600 * int(rng.integers(1, 9)),
            user,
        )


def log_text(rows):
    header = "; UnixStartTime: 843545102\n; TimeZoneString: Europe/Stockholm\n; MaxProcs: 8\n"
    return header + "".join(
        row(number, submit_s, runtime_s, wait=wait_s, req_procs=procs, req_time=asked_s, user=user)
        for number, (submit_s, runtime_s, wait_s, procs, asked_s, user) in enumerate(rows, 1)
    )


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "made.swf"
    path.write_text(log_text(rows_of_habits()))
    return path


def test_jobs_are_read_as_their_users_asked_for_them(tmp_path):
    path = tmp_path / "made.swf"
    path.write_text(log_text([(50, 30, 7, 2, 20, 4), (60, 10, -1, 3, 99, 5)]))
    jobs = read_jobs(path)
    assert jobs.submit_s.tolist() == [0, 10]
    assert jobs.end_s.tolist() == [37, 20]  # an unknown wait counts as none
    assert jobs.known_request_s.tolist() == [20, 99]  # not raised to the run time, unknown at submission
    assert (jobs.user.tolist(), jobs.procs.tolist()) == ([4, 5], [2, 3])
    assert jobs.clock.unix_start_s == 843545102 + 50


@pytest.mark.parametrize("regime", ["decoupled", "fresh"])
def test_what_ends_later_changes_no_judgement(log, regime):
    jobs = read_jobs(log)
    moment_s = 2.5 * WEEK_S
    done = classify_log(jobs, Options.of({"small": "forest", "regime": regime}))
    later = jobs.end_s >= moment_s
    rng = np.random.default_rng(1)
    jobs.runtime_s[later] = rng.permutation(jobs.runtime_s[later])
    jobs.end_s[later] += 1
    other = classify_log(jobs, Options.of({"small": "forest", "regime": regime}))
    past = jobs.submit_s < moment_s
    np.testing.assert_array_equal(done.probability[past], other.probability[past])
    assert done.judged[past].sum() > 100
    assert not np.array_equal(done.probability[~past], other.probability[~past])


def test_weeks_add_up_to_the_whole(log):
    done = classify_log(read_jobs(log), Options.of({"small": "forest"}))
    weeks, whole = done.weeks(), done.total().as_dict()
    assert [row["week"] for row in weeks] == [1, 2, 3]
    for name in ("jobs", "true_small", "false_small", "true_large", "false_large"):
        assert sum(row[name] for row in weeks) == whole[name]
    assert whole["jobs"] == done.judged.sum() < len(done.jobs) == 900
    assert whole["accuracy"] > 0.7
    assert whole["auc"] > 0.7 > 0.25 > whole["brier"] > 0
    assert sum(row["jobs"] * row["brier"] for row in weeks) == pytest.approx(whole["jobs"] * whole["brier"])
    assert [row["week"] for row in done.importances] == [1, 2, 3]
    for importances in done.importances:
        assert sum(importances[name] for name in FEATURE_NAMES) == pytest.approx(1)


def test_the_autocorrelation_is_that_of_its_definition():
    series = np.array([1.0, 5.0, 2.0, 8.0, 3.0])
    mean, variance = series.mean(), series.var()
    for lag, rho in enumerate(autocorrelation(series, 3), 1):
        terms = [(series[i] - mean) * (series[i + lag] - mean) for i in range(5 - lag)]
        assert rho == pytest.approx(sum(terms) / (5 - lag) / variance)
    assert np.isnan(autocorrelation(np.ones(9), 2)).all()
    alternating = autocorrelation(np.tile([1.0, -1.0], 50), 2)
    np.testing.assert_allclose(alternating, [-1, 1])


def test_only_categories_with_enough_jobs_have_an_autocorrelation(tmp_path):
    path = tmp_path / "made.swf"
    path.write_text(log_text([(60 * i, 5 + i % 7, 0, 1, 3600, 1 if i < 60 else 2) for i in range(100)]))
    rows = autocorrelations(read_jobs(path))
    assert {(row["category"], row["user"], row["jobs"]) for row in rows} == {
        ("(u, p~)", 1, 60),
        ("(u, q)", 1, 60),
        ("(u, day)", 1, 60),
    }
    assert {row["lag"] for row in rows} == set(range(1, 21))


@pytest.mark.slow
@pytest.mark.long
def test_kth_is_classified_as_well_as_an_independent_try(archive_log):
    """Accuracy 0.83 decoupled, as an independent program found on this log; the first 15 weeks are harder."""
    jobs = read_jobs(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))
    done = classify_log(jobs, Options.of({"small": "forest", "regime": "decoupled"}))
    assert 0.82 < done.total().rates()["accuracy"] < 0.86
