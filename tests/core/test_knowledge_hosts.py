"""One knowledge in two hosts: the plug-in over the embedded simulator, and the replay."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from batfill.learn import forest
from batfill.model.jobs import WEEK_S
from batfill.model.options import Options
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.replays.learning import replay_learning
from batfill.workloads.batsim_json import load_document, read_batsim_json
from plugin import assert_same_starts, starts_of_plugin
from small_runs import starts_by_name
from sweeps import sweep

pytestmark = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Both hosts grow the same forests, of 15 trees instead of 50."""
    monkeypatch.setattr(forest, "TREES", 15)


def written(path, seed, *, size, n_jobs=500, weeks=4, protected=0.0, outliving=0.0):
    """A workload of users with habits, as Batsim reads it."""
    rng = np.random.default_rng(seed)
    jobs, profiles = [], {}
    for row, submit_s in enumerate(np.sort(rng.integers(0, weeks * WEEK_S, n_jobs)).tolist()):
        user = int(rng.integers(8))
        delay_s = math.ceil(math.exp(rng.normal(4 + user / 2, 0.8)) * 16 / size)
        profiles[f"d{delay_s}"] = {"type": "delay", "delay": delay_s}
        job = {"id": f"{row:05}", "subtime": submit_s, "res": int(rng.integers(1, size + 2)), "user_id": user}
        job |= {"profile": f"d{delay_s}", "walltime": max(delay_s + 1, int(rng.choice([600, 7200, 36_000])))}
        job |= {"killable": False} if rng.random() < protected else {}
        if outliving > 0 and rng.random() < outliving:
            job |= {"walltime": delay_s + 1, "expected_time": 1 + delay_s // 8}
        jobs.append(job)
    path.write_text(json.dumps({"nb_res": size, "jobs": jobs, "profiles": profiles}))
    return path


def starts_of_replay(path, size, options):
    learned = replay_learning(read_batsim_json(path).jobs, size, Options.of(options), None, lambda _: None)
    return starts_by_name(learned.schedule)


def assert_hosts_agree(path, size, options):
    ours = starts_of_replay(path, size, options)
    theirs = starts_of_plugin(load_document(path), size, kills=Options.of(options).kills, **options)
    assert_same_starts(ours, theirs)
    return ours


KNOWN = [
    {"predict": "easy++", "predict-for": "all"},
    {"predict": "regression", "predict-for": "all"},
    {"small": "forest", "kill": "never"},
]


@pytest.mark.parametrize(
    *sweep(policy=["fcfs", "saf", "aged:600,0.5,0.5"], more=[{}, {"divider": 300}, {"divider": "median/4"}])
)
def test_on_one_processor_the_hosts_agree_on_overdue_jobs_before_small_ones(tmp_path, policy, more):
    path = written(tmp_path / "made.json", 3, size=1)
    options = {"policy": policy, "small": "all", "kill": "always", **more}
    assert assert_hosts_agree(path, 1, {**options, "threshold": 36_000}) != starts_of_replay(path, 1, options)


@pytest.mark.parametrize(
    *sweep(
        2,
        predictor=["easy++", "regression"],
        orders=[{"policy": "saf"}, {"policy": "fcfs", "backfill": "spf"}],
        outliving=[0.0, 0.6],
    )
)
def test_the_hosts_agree_on_predictions_that_only_order(tmp_path, predictor, orders, outliving):
    path = written(tmp_path / "made.json", 1, size=12, n_jobs=900, weeks=2, outliving=outliving)
    options = {"predict": predictor, "predict-for": "order", **orders}
    ordered = assert_hosts_agree(path, 12, options)
    assert ordered != starts_of_replay(path, 12, options | {"predict-for": "all"})
    assert ordered != starts_of_replay(path, 12, orders)


@pytest.mark.parametrize(*sweep(2, use=["order", "all"], policy=["saf", "fcfs"], outliving=[0.0, 0.6]))
def test_the_hosts_agree_on_predictions_from_a_file(tmp_path, use, policy, outliving):
    path = written(tmp_path / "made.json", 1, size=12, n_jobs=900, weeks=2, outliving=outliving)
    jobs, rng = read_batsim_json(path).jobs, np.random.default_rng(7)
    noisy_s = np.maximum(jobs.runtime_s * rng.lognormal(0, 1, len(jobs)), 1).tolist()
    rows = [f"{name.lstrip('0') or '0'},{noisy_s[row]},1" for row, name in enumerate(jobs.ids.tolist())]
    table = tmp_path / "made.csv"
    table.write_text("job,p50,p90\n" + "\n".join(reversed(rows)) + "\n")
    options = {"predict": f"{table},column=p50", "predict-for": use, "policy": policy}
    assert (assert_hosts_agree(path, 12, options) == starts_of_replay(path, 12, {"policy": policy})) == (
        use == "order" and policy == "fcfs"
    )


@pytest.mark.parametrize(*sweep(known=KNOWN, policy=["fcfs", "saf", "wfp3"], outliving=[0.0, 0.6]))
def test_the_hosts_agree_on_what_is_known_also_of_jobs_that_outlive_their_requests(tmp_path, known, policy, outliving):
    path = written(tmp_path / "made.json", 1, size=12, n_jobs=900, weeks=2, outliving=outliving)
    learned = assert_hosts_agree(path, 12, {**known, "policy": policy})
    plain = starts_by_name(replay_jobs(read_batsim_json(path).jobs, 12, Rules(policy_named(policy))))
    assert learned != plain


@pytest.mark.parametrize(
    ("jobs", "policy", "more"),
    [
        ({"protected": 0.2}, "saf", {}),
        ({"protected": 0.2}, "saf", {"small": "all"}),
        *(({"outliving": 0.6}, policy, {}) for policy in ("fcfs", "saf")),
        *(({"outliving": 0.6}, policy, {"small": "all", "divider": 60}) for policy in ("fcfs", "saf")),
    ],
)
def test_the_hosts_agree_on_kills(tmp_path, jobs, policy, more):
    path = written(tmp_path / "made.json", 2, size=12, **jobs)
    starts = assert_hosts_agree(path, 12, {"small": "forest", "policy": policy, "kill": "always", **more})
    assert any("#" in name for name in starts)


@pytest.mark.parametrize(
    *sweep(
        more=[
            {},
            {"divider": 200},
            {"threshold": 36_000, "small-width": 0.25},
            {"small-width": "50%", "overdue": "half", "threshold": 36_000},
        ],
        policy=["fcfs", "saf", "wfp3"],
    )
)
def test_the_hosts_agree_on_which_tries_go_on_at_their_dividers(tmp_path, policy, more):
    path = written(tmp_path / "made.json", 2, size=12, n_jobs=900, weeks=2, protected=0.2)
    options = {"small": "all", "policy": policy, **more}
    sparing = assert_hosts_agree(path, 12, options)
    always = starts_of_replay(path, 12, options | {"kill": "always"})
    assert 0 < sum("#" in name for name in sparing) < sum("#" in name for name in always)


def test_a_job_that_wants_more_of_a_pool_than_there_is_brings_no_new_divider(tmp_path):
    path = written(tmp_path / "made.json", 2, size=4, n_jobs=900, weeks=1)
    assert_hosts_agree(path, 4, {"small": "all", "kill": "always", "policy": "saf", "pool": "slots=3@1"})
