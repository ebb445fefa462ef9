"""The computations of the mixed policies and the CCGrid 2019 paper, on a small log, against slower ways to the same."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pandas as pd

from batfill.model.policy import PURE, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill_lab.campaigns import clusters
from batfill_lab.search.periods import read_periods
from command import batfill
from studies.papers import core
from studies.papers.core import Context
from studies.papers.protocol import COMPUTATIONS
from swf_text import row

WEEK_S = 7 * 86_400


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Six weeks on 8 processors: bursts of jobs of all shapes, some of which ask for far more than they run."""
    rng = np.random.default_rng(5)
    lines = []
    for number in range(1, 361):
        submit_s = number // 60 * WEEK_S + 3600 + int(rng.integers(20_000))
        runtime_s = int(rng.choice([5, 60, 900, 4000]))
        lines.append(
            (submit_s, runtime_s, int(rng.integers(1, 9)), runtime_s * int(rng.choice([1, 3, 200])), number % 7)
        )
    path = tmp_path_factory.mktemp("logs") / "small.swf"
    text = "".join(
        row(n, submit, p, req_procs=q, req_time=asked, user=user)
        for n, (submit, p, q, asked, user) in enumerate(sorted(lines), 1)
    )
    path.write_text("; MaxProcs: 8\n; UnixStartTime: 0\n" + text)
    return path


@pytest.fixture
def outcome(log, tmp_path, monkeypatch):
    """A function that computes on the small log, in this process."""
    monkeypatch.setattr(core, "cpu_count", lambda: 1)
    context = Context({"Small": log}, tmp_path, lambda label, total: nullcontext(lambda steps: None))

    def compute(name, **given):
        how = COMPUTATIONS[name]
        return how.compute(context, how.parameters.model_validate({k.replace("_", "-"): v for k, v in given.items()}))

    return compute


def weekly(log, policy, threshold_s=np.inf):
    """Week by week, one replay at a time."""
    periods = read_periods(log)
    return [
        replay_jobs(
            jobs, periods.procs, Rules(policy_named(policy), backfill=policy_named("spf"), threshold_s=threshold_s)
        )
        .summary()
        .mean_bsld
        for jobs in periods.tables
    ]


# Mixed policies


def test_pure_policies_are_summed_over_the_weeks_under_every_threshold_and_boundary(outcome, log):
    thresholds = {"none": None, "tight": 2000}
    made = outcome("pure-policies", thresholds=thresholds, boundaries=["submit-finish", "submitted"])
    assert [table.choice for table in made.tables] == ["submit-finish", "submitted"]
    for policy in ("SAF", "LEXP"):
        assert made.tables[0].value(policy, "none") == pytest.approx(sum(weekly(log, policy.lower())))
        assert made.tables[0].value(policy, "tight") == pytest.approx(sum(weekly(log, policy.lower(), 2000)))


def test_hindsight_is_at_least_as_good_as_one_policy_and_as_last_weeks(outcome, log):
    made = outcome("mixed-study", units=["plain", "typical"], points=18, training={"Small": 3})
    assert [table.choice for table in made.tables] == ["plain units", "typical units"]
    for table in made.tables:
        for column in ("Training", "Testing"):
            assert table.value("w*", column) <= table.value("w*train", column) + 1e-9
        assert table.value("w*", "Testing") <= table.value("wgreedy", "Testing") + 1e-9
        assert table.value("SAF", "Training") == pytest.approx(sum(weekly(log, "saf")[:3]))
    testing = {name: made.tables[0].value(name, "Testing") for name in ("w*train", "SAF")}
    assert (
        made.verdicts["trained-like-saf"].evidence
        == f"Small: {testing['w*train'] / testing['SAF']:.2f} times SAF's sum in testing"
    )
    assert made.verdicts["star-better"].holds == (
        made.tables[0].value("w*", "Training") + made.tables[0].value("w*", "Testing")
        < 0.9 * min(sum(weekly(log, name)) for name in PURE)
    )


# CCGrid 2019

SIMPLE = """\
title: A paper
authors: Somebody
venue: somewhere
open: [{text: nothing}]
entries:
  premature: &entry
    source: a table
    title: all that needs samples
    quantity: ratio
    compute: premature-slowdown
    logs: {Small: small.swf}
    parameters: {samples: 5, seed: 1, longest-requests: [0.05, null], profile-weeks: active}
"""
BY_NAME = ("cumulative-means", "most-delayed", "slowdown-classes", "backfilled")


@pytest.fixture(scope="module")
def reproduced(log, tmp_path_factory):
    """The outcomes of the entries on samples by the computation's name, and the folder of their runs."""
    folder = tmp_path_factory.mktemp("simple")
    entry = SIMPLE[SIMPLE.index("    source:") :]
    protocol = SIMPLE.replace("&entry", "")
    for name in BY_NAME:
        protocol += f"  {name}:\n{entry.replace('premature-slowdown', name)}"
    whole = "{longest-requests: 0.005}"
    given = entry[entry.index("{samples") : entry.index("active}") + len("active}")]
    protocol += f"  whole:\n{entry.replace('premature-slowdown', 'no-backfilling').replace(given, whole)}"
    (folder / "papers").mkdir()
    (folder / "papers" / "p.yaml").write_text(protocol)
    with pytest.MonkeyPatch.context() as patched:
        for module in (clusters, core):  # a worker's start takes longer than its work
            patched.setattr(module, "cpu_count", lambda: 1)
        words = ("--logs", log.parent, "--out", folder / "out", "--protocols", folder / "papers")
        ended = batfill("reproduce", "all", *words)
    assert ended.status == 0, ended.err
    found = {path.parent.name: json.loads(path.read_text())["outcome"] for path in folder.rglob("result.json")}
    (runs,) = folder.rglob("jobs")
    return found, Path(runs).parent


def frame(outcome, choice):
    """One table of an outcome."""
    (table,) = [table for table in outcome["tables"] if table["choice"] == choice]
    return pd.DataFrame(table["values"], index=table["rows"], columns=table["columns"])


def runs_of(folder, policy, *, threshold):
    """The rows of the samples' runs, and the jobs of each."""
    parts = [pd.read_parquet(path) for name in ("runs", "earlier") for path in folder.glob(f"{name}.parquet")]
    rows = pd.concat(parts)
    rows = rows[rows["sample"].notna() & (rows["policy"] == policy) & (rows["threshold_s"].notna() == threshold)]
    rows = rows.sort_values("sample")
    return rows, [pd.read_parquet(folder / "jobs" / f"{run}.parquet") for run in rows["run"]]


def test_the_curves_end_at_the_means_of_the_samples_without_the_best_and_the_worst(reproduced):
    found, folder = reproduced
    means = {}
    for policy in ("fcfs", "saf"):
        rows, _ = runs_of(folder, policy, threshold=True)
        means[policy] = np.mean(sorted(rows["mean_bsld"])[1:-1])
    gains = frame(found["cumulative-means"], "threshold 0.05 longest requests")
    assert gains.loc["Small, SAF", "slowdown"] == pytest.approx(100 * (1 - means["saf"] / means["fcfs"]), abs=0.5)
    (curve,) = [chart for chart in found["cumulative-means"]["charts"] if chart["name"] == "slowdown-Small"]
    assert curve["head"][1:4] == ["FCFS", "FCFS least", "FCFS most"]
    assert all(least <= mean <= most for _, mean, least, most, *_ in curve["rows"])
