from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.version import __version__
from batfill.workloads import generate
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import new_log, read_log
from batfill.workloads.times import at_load, offered_load
from command import batfill
from sweeps import examples

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"


def rng(seed=0):
    return np.random.default_rng(seed)


# The model against what its authors publish


@pytest.mark.parametrize("kind", [generate.SINGLE_MODEL, generate.BATCH, generate.INTERACTIVE])
def test_sizes_have_the_published_shares(kind):
    size = generate.sizes(kind, 200_000, 128, rng())
    assert np.mean(size == 1) == pytest.approx(kind.serial, abs=0.005 + (kind.low < 0.5))
    parallel = size[size > 1]
    power = (parallel & (parallel - 1)) == 0
    assert np.mean(power) > kind.pow2 / (1 - kind.serial) - 0.005  # others round to powers of two by chance
    mean_log2 = kind.first_stage * (kind.low + kind.med) / 2 + (1 - kind.first_stage) * (kind.med + kind.high) / 2
    assert np.log2(parallel).mean() == pytest.approx(mean_log2, abs=0.03)
    assert size.max() <= 128


@pytest.mark.parametrize("kind", [generate.SINGLE_MODEL, generate.BATCH, generate.INTERACTIVE])
def test_log_run_times_have_the_moments_of_the_hyper_gamma(kind):
    q = np.full(400_000, 8)
    share = np.clip(kind.pa * 8 + kind.pb, 0, 1)
    stats = pytest.importorskip("scipy.stats")
    # the two gammas, each cut at exp(12) s as the model draws again beyond it
    parts = [stats.gamma(kind.a1, scale=kind.b1), stats.gamma(kind.a2, scale=kind.b2)]
    grid = np.linspace(1e-9, generate.LONGEST_LOG_RUNTIME, 20_001)
    density = share * parts[0].pdf(grid) + (1 - share) * parts[1].pdf(grid)
    mean = np.trapezoid(grid * density, grid) / np.trapezoid(density, grid)
    log = np.log(generate.runtimes(kind, q, rng()) + 0.5)  # whole seconds: half a second is lost on average
    assert log.mean() == pytest.approx(mean, abs=0.06)
    assert log.max() <= generate.LONGEST_LOG_RUNTIME + 1e-4


def test_arrivals_agree_with_a_walk_through_the_half_hours():
    kind, n = generate.SINGLE_MODEL, 500
    log = np.full(n, np.inf)
    draws = rng(5)
    while len(again := np.flatnonzero(log > generate.LONGEST_LOG_GAP)):
        log[again] = draws.gamma(kind.a_gap * kind.rush_to_all, kind.b_gap, len(again))
    cycle, at, points, expected = generate.daily_cycle(kind), 0, 0.0, []
    for gap in np.exp(log) / 1800:
        points += gap
        while points > cycle[at % 48]:
            points -= cycle[at % 48]
            at += 1
        expected.append(np.floor((at + points / cycle[at % 48]) * 1800))
    assert np.abs(generate.arrivals(kind, n, rng(5)) - expected).max() <= 1


def test_the_model_agrees_with_its_authors_sample(archive_log):
    stats = pytest.importorskip("scipy.stats")
    log = read_log(archive_log("lublin_256.swf.gz"))
    ours = [generate.lublin_jobs(len(log), 256, rng(seed)) for seed in range(3)]
    # that program drops the fraction of a second at each arrival; put half of one back per job
    theirs = log["submit_s"] + 0.5 * np.arange(len(log))
    for jobs in ours:
        # jobs are independent of each other in size and run time: 1.63 sqrt(2 / n) is the 1 % bound
        assert stats.ks_2samp(log["runtime_s"], jobs.runtime_s).statistic < 0.023
        assert stats.ks_2samp(log["procs"], jobs.procs).statistic < 0.023
        assert stats.ks_2samp(np.diff(log["submit_s"]), np.diff(jobs.submit_s)).statistic < 0.023
        # arrivals come in bursts, so that an hour's count scatters more than independent ones would
        assert stats.ks_2samp(theirs % 86_400, jobs.submit_s % 86_400).statistic < 0.04


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(2, 100_000), st.integers(1, 300), st.sampled_from(list(generate.KINDS)), st.integers(0, 2**32))
def test_jobs_fit_any_machine(procs, n, kind, seed):
    jobs = generate.lublin_jobs(n, procs, rng(seed), kind=kind)
    assert len(jobs.procs) == n
    assert (jobs.procs >= 1).all()
    assert (jobs.procs <= procs).all()
    assert (jobs.runtime_s >= 1).all()
    assert (np.diff(jobs.submit_s) >= 0).all()


# Requests


def test_twenty_values_cover_89_percent_of_the_jobs():
    values, shares = generate.request_distribution(10_000, 36 * 3600, rng())
    assert len(values) == len(set(values.tolist())) == 90
    assert shares.sum() == pytest.approx(1)
    assert shares[:20].sum() == pytest.approx(0.89)
    # the published curve: rank 1 takes what ranks 2 to 20 leave of 89 %
    assert shares.max() == pytest.approx(0.2171, abs=0.001)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=400), st.integers(0, 2**32))
def test_no_request_is_below_its_run_time(runtimes, seed):
    runtime_s = np.array(runtimes, float)
    made = generate.requested_times(runtime_s, rng(seed))
    assert (made.requested_s >= runtime_s).all()
    assert 0 <= made.raised < len(runtimes) + 1


def test_requests_are_dealt_evenly_among_the_jobs_they_cover():
    # the first run needs the longest request; what else there is, any of the other three may get
    runtime_s = np.array([36 * 3600.0, 3, 2, 1])
    places = np.zeros((3, 3))
    for seed in range(2_000):
        dealt = generate.requested_times(runtime_s, rng(seed)).requested_s
        assert dealt[0] == 36 * 3600
        places[range(3), dealt[1:].argsort(kind="stable").argsort(kind="stable")] += len(set(dealt[1:])) == 3
    drawn = places.sum() / 3
    assert drawn > 500
    assert np.abs(places / drawn - 1 / 3).max() < 0.05


# Load


def test_load_is_the_area_asked_over_the_area_there_is():
    log = new_log(
        [], {"submit_s": np.array([0, 100.0]), "runtime_s": np.array([50, 30.0]), "procs": np.array([4, 2.0])}
    )
    assert offered_load(log, 8) == (50 * 4 + 30 * 2) / (8 * 100)


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(0, 2**32), st.floats(0.3, 2))
def test_a_log_is_stretched_to_the_load_asked_for(seed, load):
    log, _ = at_load(generate_log(300, 64, seed), 64, load)
    assert offered_load(log, 64) == pytest.approx(load, rel=1e-3)


# The whole


def test_the_kind_of_requests_does_not_change_the_jobs():
    logs = [generate_log(200, 64, 3, requests=requests) for requests in ("tsafrir", "exact", "none")]
    for name in ("submit_s", "runtime_s", "procs", "user"):
        assert all((log[name] == logs[0][name]).all() for log in logs)
    assert (logs[1]["requested_s"] == logs[1]["runtime_s"]).all()
    assert (logs[2]["requested_s"] == -1).all()


@pytest.mark.parametrize("name", ["x.swf", "x.swf.gz", "x.json"])
def test_one_seed_gives_identical_bytes(tmp_path, name):
    made = []
    for seed in (7, 7, 8):
        done = batfill("workload", "generate", "--out", tmp_path / name, "--jobs", 50, "--seed", seed)
        assert f"seed {seed}" in done.err
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1] != made[2]


def test_the_sample_is_what_its_command_generates(tmp_path):
    arguments = ("--jobs", 800, "--procs", 64, "--users", 12, "--seed", 1, "--load", 1.0)
    assert batfill("workload", "generate", "--out", tmp_path / "sample.json", *arguments).status == 0
    made_by = json.loads(SAMPLE.read_text())["description"]["made_by"].split()[1]
    sample = SAMPLE.read_text().replace(f"batfill {made_by} ", f"batfill {__version__} ")
    assert (tmp_path / "sample.json").read_text() == sample
