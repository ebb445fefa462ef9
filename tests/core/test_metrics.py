"""The figures of a run, by hand and by their definitions."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batfill.model.jobs import LARGE, SMALL
from batfill.model.metrics import bounded_slowdown, per_processor_slowdown, summarize, who_pays
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from strategies import table


def figures(rows, size, tau_s=10.0, **options):
    return replay_jobs(table(rows), size, Rules(policy_named("fcfs"), **options)).summary(tau_s)


def test_a_schedule_by_hand():
    # 2 processors: the first job runs 0-100 on both, the second 100-105 and the third 100-200 on one each
    run = figures([(0, 100, 200, 2), (20, 5, 50, 1), (50, 100, 100, 1)], 2)
    assert (run.jobs, run.rejected, run.killed, run.backfilled, run.requeued) == (3, 0, 1, 0, 0)
    assert run.makespan_s == 200
    assert run.utilisation == (200 + 5 + 100) / 400
    assert run.mean_wait_s == (0 + 80 + 50) / 3
    assert run.max_wait_s == 80
    assert run.mean_turnaround_s == (100 + 85 + 150) / 3
    assert run.mean_bsld == pytest.approx((1 + 85 / 10 + 150 / 100) / 3)
    assert run.max_bsld == 8.5
    assert run.mean_pp_bsld == pytest.approx((1 + 85 / 10 + 150 / 100) / 3)
    assert (run.share_bsld_1, run.share_bsld_10, run.share_bsld_100, run.share_bsld_above) == (1 / 3, 2 / 3, 0, 0)


def test_tau_bounds_the_slowdown_of_short_jobs_and_q_divides_that_per_processor_which_is_at_least_one():
    wait_s, runtime_s = np.array([90.0, 90.0, 0.0, 5.0]), np.array([1.0, 30.0, 1.0, 0.0])
    assert bounded_slowdown(wait_s, runtime_s, 10.0).tolist() == [9.1, 4.0, 1.0, 1.0]
    assert bounded_slowdown(wait_s, runtime_s, 60.0).tolist() == [91 / 60, 2.0, 1.0, 1.0]
    assert per_processor_slowdown(np.full(2, 90.0), np.full(2, 10.0), np.array([4, 64])).tolist() == [2.5, 1.0]


def test_slowdown_classes_are_closed_above():
    # waits that make bounded slowdowns of exactly 1, 10, 100, and just above each, with p = 10
    wait_s = np.array([0.0, 1.0, 90.0, 90.1, 990.0, 990.1])
    run = summarize(
        size=1, submit_s=np.zeros(6), start_s=wait_s, runtime_s=np.full(6, 10.0), procs=np.ones(6, np.int64)
    )
    shares = run.share_bsld_1, run.share_bsld_10, run.share_bsld_100, run.share_bsld_above
    assert shares == pytest.approx((1 / 6, 2 / 6, 2 / 6, 1 / 6))


def test_rejected_jobs_are_counted_and_enter_no_mean_and_without_others_figures_are_zero():
    run, none = figures([(0, 10, 10, 9), (0, 10, 10, 1)], 2), figures([(0, 10, 10, 9)], 2)
    assert (run.jobs, run.rejected, run.mean_wait_s, run.mean_bsld) == (2, 1, 0, 1)
    assert list(none.as_dict().values()) == [1, 1] + [0] * 16


def test_a_killed_try_counts_as_work_but_not_as_a_job():
    # killed at 20, run again 30-60 on one of two processors; the other job runs 20-30
    run = figures([(0, 30, 40, 2, SMALL), (1, 10, 10, 1, SMALL), (25, 5, 5, 2, LARGE)], 2, divider_s=20.0)
    assert (run.jobs, run.requeued) == (3, 1)
    assert run.mean_wait_s == (30 + 19 + 35) / 3  # the second try's start less the first submission
    used = 2 * 20 + 2 * 30 + 10 + 2 * 5
    assert run.makespan_s == 65
    assert run.utilisation == used / (2 * 65)
    assert run.wasted == 40 / used


def test_jobs_that_only_the_log_ended_are_not_killed_where_the_log_says_so():
    jobs = table([(0, 10, 10, 1), (0, 20, 10, 1), (0, 5, 10, 1)])
    fcfs = policy_named("fcfs")
    assert replay_jobs(jobs, 3, Rules(fcfs)).summary().killed == 2
    assert replay_jobs(dataclasses.replace(jobs, own_end=True), 3, Rules(fcfs)).summary().killed == 1


times = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 50)), min_size=1, max_size=20)


@given(times, st.sampled_from([1.0, 10.0, 60.0]))
def test_means_are_the_means_of_the_definitions(jobs, tau_s):
    wait, run, procs = zip(*jobs, strict=True)
    found = summarize(
        size=50,
        submit_s=np.zeros(len(jobs)),
        start_s=np.array(wait, float),
        runtime_s=np.array(run, float),
        procs=np.array(procs),
        tau_s=tau_s,
    )
    bsld = [max((w + p) / max(p, tau_s), 1) for w, p, _ in jobs]
    per_processor = [max((w + p) / (q * max(p, tau_s)), 1) for w, p, q in jobs]
    assert found.mean_bsld == pytest.approx(math.fsum(bsld) / len(jobs))
    assert found.max_bsld == max(bsld)
    assert found.mean_pp_bsld == pytest.approx(math.fsum(per_processor) / len(jobs))
    assert found.share_bsld_1 + found.share_bsld_10 + found.share_bsld_100 + found.share_bsld_above == pytest.approx(1)


def quantile_by_hand(values, share):
    """Linear between the two values around (n - 1) share."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def waits_by_hand(jobs, name, label):
    """A dict per group of (wait, base wait, runtime, procs, user)."""
    found = []
    for one in {label(job) for job in jobs}:
        of_group = [job for job in jobs if label(job) == one]
        waits, longer = [job[0] for job in of_group], [job[0] - job[1] for job in of_group]
        late = [value for value in longer if value > 3600]
        found.append(
            {
                name: one,
                "jobs": len(of_group),
                "mean_wait_s": sum(waits) / len(waits),
                "p99_wait_s": quantile_by_hand(waits, 0.99),
                "p999_wait_s": quantile_by_hand(waits, 0.999),
                "max_wait_s": max(waits),
                "mean_longer_s": sum(longer) / len(longer),
                "delayed": len(late) / len(longer),
                "mean_delay_s": sum(late) / len(late) if late else None,
            }
        )
    return found


WAIT_S = st.integers(0, 40).map(lambda k: 1200.0 * k)
PAYING = st.lists(
    st.tuples(WAIT_S, WAIT_S, st.integers(0, 9).map(float), st.integers(1, 70), st.integers(-1, 3)), min_size=1
)


def close(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == {key: pytest.approx(value) if isinstance(value, float) else value for key, value in other.items()}


@given(PAYING)
def test_who_pays_is_what_a_loop_over_the_jobs_finds(jobs):
    wait_s, base_s, runtime_s, procs, user = (np.array(column) for column in zip(*jobs, strict=True))
    columns = {"runtime_s": runtime_s, "procs": procs, "user": user}
    found = who_pays(wait_s, **columns, base_wait_s=base_s)
    ordered = sorted(runtime_s.tolist())
    small_below_s = (ordered[(len(jobs) - 1) // 2] + ordered[len(jobs) // 2]) / 2
    assert found["small_below_s"] == small_below_s
    by_class = waits_by_hand(jobs, "class", lambda job: "small" if job[2] < small_below_s else "large")
    close(found["waits_by_class"], sorted(by_class, key=lambda row: row["class"] == "large"))
    widths = [1, 2, 4, 8, 16, 32, 64, 128]
    by_width = waits_by_hand(jobs, "procs_up_to", lambda job: next(width for width in widths if job[3] <= width))
    close(found["waits_by_width"], sorted(by_width, key=lambda row: row["procs_up_to"]))
    by_user = {row["user"]: row for row in waits_by_hand(jobs, "user", lambda job: job[4])}
    close(found["waits_by_user"], [by_user[row["user"]] for row in found["waits_by_user"]])
    paid = [row["jobs"] * row["mean_longer_s"] for row in found["waits_by_user"]]
    assert paid == pytest.approx(sorted(paid, reverse=True))
    alone = who_pays(wait_s, **columns)
    for table_name in ("waits_by_class", "waits_by_width"):
        close(alone[table_name], [dict(list(row.items())[:6]) for row in found[table_name]])


def test_a_divider_of_each_jobs_own_says_which_are_small_and_one_that_is_missing_that_this_is_unknown():
    columns = {"runtime_s": np.array([5.0, 5.0, 5.0]), "procs": np.ones(3, np.int64), "user": np.zeros(3, np.int64)}
    found = who_pays(np.array([1.0, 2.0, 4.0]), **columns, small_below_s=np.array([6.0, 5.0, np.nan]))
    assert [(row["class"], row["mean_wait_s"]) for row in found["waits_by_class"]] == [
        ("small", 1),
        ("large", 2),
        ("unknown", 4),
    ]
    assert found["small_below_s"] is None
    assert who_pays(np.array([1.0, 2.0, 4.0]), **columns, small_below_s=6.0)["waits_by_class"][0]["jobs"] == 3
