"""The study of a log without a simulation."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from batfill.learn.habits import FEATURE_NAMES
from batfill.model.jobs import WEEK_S
from batfill.model.options import Options
from batfill_lab.studied import studied
from strategies import weeks_of_habits
from studies.papers.classification import autocorrelation, classify_log, read_jobs
from swf_text import row

SIZE = 16


@pytest.fixture
def logged():
    """The jobs of a log, as it was."""
    return read_jobs(weeks_of_habits(0, n_jobs=900).stating(name="made", size=SIZE))


def test_jobs_are_read_as_their_users_asked_for_them(tmp_path):
    path = tmp_path / "made.swf"
    rows = [
        row(1, 50, 30, wait=7, req_procs=2, req_time=20, user=4),
        row(2, 60, 10, wait=-1, req_procs=3, req_time=99, user=5),
    ]
    path.write_text("; UnixStartTime: 843545102\n" + "".join(rows))
    jobs = read_jobs(path)
    assert jobs.submit_s.tolist() == [0, 10]
    assert jobs.end_s.tolist() == [37, 20]  # an unknown wait counts as none
    assert jobs.known_request_s.tolist() == [20, 99]  # not raised to the run time, unknown at submission
    assert (jobs.user.tolist(), jobs.procs.tolist()) == ([4, 5], [2, 3])
    assert jobs.clock.unix_start_s == 843545102 + 50


@pytest.mark.parametrize("regime", ["decoupled", "fresh"])
def test_what_ends_later_changes_no_judgement(logged, regime):
    moment_s, rng = 2.5 * WEEK_S, np.random.default_rng(1)
    done = classify_log(logged, studied({"small": "forest", "regime": regime}))
    later = logged.end_s >= moment_s
    logged.runtime_s[later] = rng.permutation(logged.runtime_s[later])
    logged.end_s[later] += 1
    other = classify_log(logged, studied({"small": "forest", "regime": regime}))
    past = logged.submit_s < moment_s
    np.testing.assert_array_equal(done.probability[past], other.probability[past])
    assert done.judged[past].sum() > 100
    assert not np.array_equal(done.probability[~past], other.probability[~past])


def test_weeks_add_up_to_the_whole(logged):
    done = classify_log(logged, Options.of({"small": "forest"}))
    weeks, whole = done.weeks(), done.total().as_dict()
    assert [row["week"] for row in weeks] == [1, 2, 3]
    for name in ("jobs", "true_small", "false_small", "true_large", "false_large"):
        assert sum(row[name] for row in weeks) == whole[name]
    assert np.array_equal(done.judged, logged.submit_s >= WEEK_S)  # from the first forest on
    assert whole["jobs"] == done.judged.sum()
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
