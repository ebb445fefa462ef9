from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.model.jobs import WEEK_S
from batfill.workloads.swf_log import new_log
from batfill.workloads.times import resample
from command import batfill
from sweeps import examples
from swf_text import row


def log(weeks, users):
    """One job per (week, user), told apart by its run time: 1 + its place."""
    n = len(weeks)
    return new_log(
        ["MaxProcs: 4", "MaxJobs: 9"],
        {
            "job": np.arange(n) + 1.0,
            "submit_s": np.array(weeks, float) * WEEK_S + 10 * np.arange(n),
            "wait_s": np.ones(n),
            "runtime_s": np.arange(n) + 1.0,
            "user": np.array(users, float),
            "preceding_job": np.ones(n),
        },
    )


LOGS = st.lists(st.tuples(st.integers(3, 8), st.integers(-1, 3)), min_size=1, max_size=30).map(
    lambda rows: log(*zip(*rows, strict=True))
)
SEEDS = st.integers(0, 2**32)


@settings(max_examples=examples(30), deadline=None)
@given(LOGS, SEEDS, st.sampled_from(["users", "weeks"]), st.sampled_from(["all", "span", "active"]), st.integers(1, 9))
def test_every_new_job_is_an_old_one_at_its_second_of_the_week(full, seed, method, profile_weeks, weeks):
    try:
        made = resample(full, seed, method=method, weeks=weeks, profile_weeks=profile_weeks)
    except WorkloadError as error:
        assert "no job falls" in str(error)  # noqa: PT017 - only some draws are empty
        return
    old = made["runtime_s"].astype(int) - 1
    assert (made["submit_s"] % WEEK_S == full["submit_s"][old] % WEEK_S).all()
    assert (made["user"] == full["user"][old]).all()
    assert made["submit_s"].max() < weeks * WEEK_S
    assert (np.diff(made["submit_s"]) >= 0).all()
    assert made["job"].tolist() == list(range(1, len(made) + 1))
    assert (made["wait_s"] == -1).all()
    assert (made["preceding_job"] == -1).all()


@settings(max_examples=examples(30), deadline=None)
@given(LOGS, SEEDS)
def test_shuffling_as_many_weeks_as_there_are_uses_each_job_once(full, seed):
    made = resample(full, seed, method="weeks")
    assert sorted(made["runtime_s"]) == sorted(full["runtime_s"])


@settings(max_examples=examples(30), deadline=None)
@given(LOGS, SEEDS)
def test_a_shuffled_week_stays_together(full, seed):
    made = resample(full, seed, method="weeks")
    old_week = full["submit_s"][made["runtime_s"].astype(int) - 1] // WEEK_S
    new_week = made["submit_s"] // WEEK_S
    assert len(set(zip(old_week, new_week, strict=True))) == len(set(old_week)) == len(set(new_week))


@settings(max_examples=examples(30), deadline=None)
@given(LOGS, SEEDS)
def test_a_users_new_week_is_one_of_the_users_old_weeks_whole(full, seed):
    made = resample(full, seed, weeks=6, profile_weeks="active")
    old = made["runtime_s"].astype(int) - 1
    for user in set(full["user"]):
        for week in range(6):
            mine = (made["user"] == user) & (made["submit_s"] // WEEK_S == week)
            taken = sorted(old[mine])
            weeks_of = {
                tuple(np.flatnonzero((full["user"] == user) & (full["submit_s"] // WEEK_S == w))) for w in range(3, 9)
            }
            assert tuple(taken) in weeks_of - {()}


def test_a_shuffle_longer_than_the_log_uses_every_week_before_any_again():
    full = log(range(5), [0] * 5)
    made = resample(full, 3, method="weeks", weeks=10)
    assert sorted(made["runtime_s"][:5]) == sorted(made["runtime_s"][5:]) == [1, 2, 3, 4, 5]


def test_a_sample_depends_on_seed_and_place_alone():
    full = log([0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 0, 1, 0])
    draws = [resample(full, seed, sample=k, weeks=40)["runtime_s"].tolist() for seed in (1, 2) for k in (0, 1)]
    assert len({tuple(draw) for draw in draws}) == 4
    assert resample(full, 1, sample=1, weeks=40)["runtime_s"].tolist() == draws[1]


def test_one_seed_gives_identical_bytes(tmp_path):
    source = tmp_path / "in.swf"
    source.write_text("".join(row(i, i * 50000, 10, user=i % 3) for i in range(1, 99)))
    for out in ("a", "b"):
        (tmp_path / out).mkdir()
        to = tmp_path / out / "x.swf.gz"
        done = batfill("workload", "resample", source, "-o", to, "--samples", 2, "--seed", 4)
        assert done.status == 0
        assert "seed 4, sample 1" in done.err
    for name in ("x-000.swf.gz", "x-001.swf.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
