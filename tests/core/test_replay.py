"""The compiled replay against the oracle, against hand-drawn cases, and against figures known from other programs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings

from batfill.base.errors import PolicyError, WorkloadError
from batfill.model.jobs import LARGE, job_table
from batfill.model.policy import POLICIES, Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.many import measure_policies
from batfill.workloads import read_workload
from oracle import KEYS, Oracle, assert_same, oracle
from strategies import options, outliving, policies, random_mixed, random_table, replayed, table, workloads
from sweeps import examples, sweep


def assert_begins_as_the_oracle(jobs, until_s, policy, *, backfill=None, **case):
    """The same until this date, on 64 processors; the replay goes no further."""
    order = policy_named(backfill) if backfill else None
    run = EngineReplay(jobs, 64, Rules(policy_named(policy), order, **case))
    assert not run.advance(until_s)
    assert_same(run.schedule(), Oracle(jobs, 64, policy, backfill, **case).run(until=until_s))
    return run


def assert_as_the_oracle(jobs, size, policy, **case):
    assert_same(replayed(jobs, size, policy, **case), oracle(jobs, size, policy, **case))


# Random cases


@pytest.mark.parametrize(*sweep(policy=list(POLICIES), backfill=[None, "spf", "lqf", "wfp3"]))
def test_every_policy_starts_what_the_oracle_starts(policy, backfill):
    for seed, threshold_s in enumerate([math.inf, 0.0, 15.0, 400.0]):
        jobs = random_table(seed, n_jobs=120, size=10, span_s=200, small=0.3)
        case = {"backfill": backfill, "threshold_s": threshold_s, "divider_s": [math.inf, 10.0][seed % 2]}
        assert_as_the_oracle(jobs, 10, policy, **case)


@pytest.mark.parametrize("backfill", POLICIES)
def test_every_backfill_order_starts_what_the_oracle_starts(backfill):
    jobs = random_table(7, n_jobs=150, size=12, span_s=150)
    assert_as_the_oracle(jobs, 12, "saf", backfill=backfill)


@pytest.mark.parametrize("expansion", [0, 1])
@pytest.mark.parametrize("seed", range(20))
def test_mixed_policies_start_what_the_oracle_starts(seed, expansion):
    rng = np.random.default_rng(seed)
    policy, backfill = random_mixed(rng, expansion=expansion), [None, random_mixed(rng, expansion=1)][seed % 2]
    jobs = random_table(seed, n_jobs=100, size=9, span_s=120)
    assert_as_the_oracle(jobs, 9, policy, backfill=backfill)


@settings(deadline=None, max_examples=examples(50))
@given(workloads(fractional=True), options)
def test_fractions_of_seconds_change_nothing(workload, case):
    assert_as_the_oracle(*workload, **case)


@pytest.mark.parametrize("policy", [*POLICIES, "mixed:2,-0.1,0.01,3,-40,0.02", "aged:300,0.5,0.5", "aged:50,1,-0.5"])
def test_a_long_queue_of_jobs_that_outlive_their_requests_drains_as_the_oracle_says(policy):
    seed = len(policy)
    jobs = outliving(random_table(seed, n_jobs=250, size=16, span_s=310, longest=50, small=0.2, short=0.4), 90.0)
    threshold_s, divider_s = [(math.inf, 1800.0), (40_000.0, math.inf)][seed % 2]
    backfill = [None, "spf", "wfp3"][seed % 3]
    assert_as_the_oracle(jobs, 16, policy, backfill=backfill, threshold_s=threshold_s, divider_s=divider_s)


# Thousands of waiting jobs: several groups of leaves

# Times are multiples of 100 s, so that the oracle has few instants to sort thousands of jobs at.
BURST = {"n_jobs": 4500, "size": 64, "span_s": 3, "longest": 2, "unit_s": 100, "wide": 0.0, "unlimited": 0.01}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "case"),
    [
        ("lqf", {"threshold_s": 30_000.0}),
        ("srf", {"backfill": "lpf", "threshold_s": 60_000.0}),
        ("spf", {"divider_s": 150.0}),
    ],
)
def test_a_burst_of_4500_jobs_drains_as_the_oracle_says(policy, case):
    jobs = random_table(1, small=0.5 if "divider_s" in case else 0.0, **BURST)
    assert_as_the_oracle(jobs, 64, policy, **case)


MOVING = ["sexp", "lexp", "wfp3", "unicef", "mixed:2,-0.1,0.01,3,-40,0.02"]


@pytest.mark.parametrize(*sweep(policy=MOVING, threshold_s=[math.inf, 4000.0]))
def test_a_long_queue_whose_order_changes_drains_as_the_oracle_says(policy, threshold_s):
    jobs = random_table(3, n_jobs=1000, size=16, span_s=3300, longest=60, small=0.2)
    assert_as_the_oracle(jobs, 16, policy, threshold_s=threshold_s, divider_s=40.0)


@pytest.mark.parametrize(*sweep(policy=[*MOVING, "mixed"], seed=[0, 1, 2]))
def test_heads_that_overtake_each_other_while_jobs_arrive_are_those_of_the_oracle(policy, seed):
    rng = np.random.default_rng([seed, len(policy)])
    if policy == "mixed":
        policy = random_mixed(rng, expansion=1)
    # Arrivals and ends alternate; the queue is one leaf at times and several at others.
    jobs = random_table(seed, n_jobs=500, size=16, span_s=4000, longest=int(rng.integers(20, 80)), small=0.2 * seed)
    cases = (None, math.inf, math.inf), ("spf", 900.0, 30.0), ("wfp3", 60.0, math.inf)
    backfill, threshold_s, divider_s = cases[seed]
    assert_as_the_oracle(jobs, 16, policy, backfill=backfill, threshold_s=threshold_s, divider_s=divider_s)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "backfill"),
    [
        ("sexp", None),
        pytest.param("wfp3", "unicef", marks=pytest.mark.long),
        pytest.param("mixed:1,2,0,0,-90,0.1", None, marks=pytest.mark.long),
    ],
)
def test_a_burst_of_4500_jobs_begins_as_the_oracle_says_where_keys_move(policy, backfill):
    assert_begins_as_the_oracle(random_table(2, **BURST), 10_000.0, policy, backfill=backfill)


@pytest.mark.parametrize(("policy", "threshold_s"), [("lpf", math.inf), ("srf", 900.0), ("wfp3", 2500.0)])
def test_short_jobs_that_arrive_behind_4500_long_ones_are_backfilled_as_the_oracle_says(policy, threshold_s):
    # No long job fits beside two others, so some processors are always left for short ones.
    long = random_table(5, n_jobs=4500, size=64, span_s=3, longest=30, unit_s=100, wide=0)
    short = random_table(6, n_jobs=500, size=8, span_s=60, longest=3, unit_s=50)
    rows = [
        *zip(long.submit_s, long.runtime_s + 500, long.walltime_s + 500, 20 + long.procs % 20, strict=True),
        *zip(short.submit_s * 50 + 50, short.runtime_s, short.walltime_s, short.procs, strict=True),
    ]
    run = assert_begins_as_the_oracle(table(rows), 3500.0, policy, threshold_s=threshold_s)
    assert len(run.queue.waiting_rows) > 4096
    assert run.schedule().backfilled[4500:].sum() > 20


@pytest.mark.parametrize("policy", ["lqf", "sqf", "laf", "fcfs"])
def test_thousands_that_become_overdue_at_once_leave_the_others_in_order(policy):
    """Their leaving empties most leaves between those of the others, so that groups of leaves are merged."""
    rng = np.random.default_rng(1)
    old, wide, narrow = rng.integers(35, 65, 9000), rng.integers(40, 65, 2500), rng.integers(1, 9, 400)
    rows = [
        (0, 100_000, 100_000, 30),  # what the head waits for
        *((1, 9, 1_000_000, q) for q in old.tolist()),
        (2, 698, 698, 34),  # backfilled; from now on no processor is free
        *((300, 9, 1_000_000, q) for q in wide.tolist()),
        *((300, p, 500, q) for p, q in zip(rng.integers(1, 100, 400).tolist(), narrow.tolist(), strict=True)),
        *((t, 9, 9, 65) for t in (502, 650)),  # rejected: instants at which nothing else happens
    ]
    run = assert_begins_as_the_oracle(table(rows), 780.0, policy, threshold_s=500.0)
    assert (run.schedule().start_s >= 700).sum() > 5  # narrow jobs, when the backfilled one has ended


# Invariants, seen from the schedule alone


class Instants:
    """A schedule gone through instant by instant: what runs and who waits after each pass."""

    def __init__(self, schedule, policy, threshold_s=math.inf):
        self.schedule, self.jobs = schedule, schedule.jobs
        self.rule = Oracle(schedule.jobs, schedule.size, policy, threshold_s=threshold_s)
        self.ran = np.flatnonzero(~schedule.rejected)
        for job, start_s in zip(self.rule.jobs, schedule.start_s.tolist(), strict=True):
            job.start = start_s

    def __iter__(self):
        """(t, jobs that run on and those started ahead of the head, jobs backfilled now, waiting jobs in order)."""
        start_s, end_s, submit_s = self.schedule.start_s, self.schedule.end_s, self.jobs.submit_s
        for t in np.unique(np.concatenate([submit_s, end_s[self.ran]])).tolist():
            running = self.ran[(start_s[self.ran] <= t) & (end_s[self.ran] > t)]
            now = self.schedule.backfilled[running] & (start_s[running] == t)
            waiting = [self.rule.jobs[i] for i in self.ran if submit_s[i] <= t < start_s[i]]
            self.rule.waiting = waiting
            yield t, running[~now], running[now], sorted(waiting, key=self.rule.sort_rule(t))

    def shadow_s(self, t, running, need):
        """When `need` processors are free, if these jobs end as is expected at t, and how many are free then."""
        ends = np.array([min(self.rule.expected_end(t, self.rule.jobs[i]), 1e9) for i in running])
        procs = self.jobs.procs[running]
        free = {t: self.schedule.size - int(procs[ends > t].sum()) for t in ends.tolist()}
        return min((t, procs_free) for t, procs_free in free.items() if procs_free >= need)

    def free(self, *running):
        return self.schedule.size - sum(int(self.jobs.procs[rows].sum()) for rows in running)


def invariant_cases():
    for seed, policy in enumerate(["fcfs", "saf", "lqf", "wfp3", "unicef", "sexp", "f2"]):
        plain = random_table(100 + seed, n_jobs=150, size=10, span_s=200)
        late = outliving(random_table(200 + seed, n_jobs=150, size=10, span_s=200, short=0.5), 90.0)
        for jobs, threshold_s in ((plain, [math.inf, 30.0][seed % 2]), (late, 9e3)):
            # Jobs of no length would make two passes at one date, and the schedule does not tell them apart.
            jobs = dataclasses.replace(jobs, runtime_s=np.maximum(jobs.runtime_s, 1.0))
            yield Instants(replayed(jobs, 10, policy, threshold_s=threshold_s), policy, threshold_s)


def test_backfilled_jobs_never_delay_the_head():
    for instants in invariant_cases():
        for t, running, new, waiting in instants:
            if len(new):
                need = waiting[0].q
                before, after = (instants.shadow_s(t, rows, need) for rows in (running, np.append(running, new)))
                assert after[0] <= before[0]


def test_nobody_waits_who_could_start():
    for instants in invariant_cases():
        for t, running, new, waiting in instants:
            free = instants.free(running, new)
            if waiting:
                assert waiting[0].q > free
                shadow, procs = instants.shadow_s(t, running, waiting[0].q)
                rows = new[(t + instants.jobs.request_s[new]) > shadow]
                extra = procs - waiting[0].q - int(instants.jobs.procs[rows].sum())
                for job in waiting[1:]:
                    assert job.q > free or (t + job.whole_expected > shadow and job.q > extra)


@settings(deadline=None, max_examples=examples(100))
@given(workloads(), policies)
def test_smallest_first_without_a_threshold_never_backfills(workload, backfill):
    # Proposition 1 of Carastan-Santos et al., CCGrid 2019: behind the head all others ask for at least as much
    jobs, size = workload
    jobs = dataclasses.replace(jobs, job_class=np.full(len(jobs), LARGE))  # nor may small jobs go first
    assert not replayed(jobs, size, "sqf").backfilled.any()
    assert not replayed(jobs, size, "sqf", backfill=backfill).backfilled.any()


PURE = {"fcfs": "0,0,-1,0,0,0", "lcfs": "0,0,1,0,0,0", "sqf": "1,0,0,0,0,0", "lqf": "-1,0,0,0,0,0"}
PURE |= {"spf": "0,1,0,0,0,0", "lpf": "0,-1,0,0,0,0", "srf": "0,0,0,1,0,0", "lrf": "0,0,0,-1,0,0"}
PURE |= {"sexp": "0,0,0,0,1,0", "lexp": "0,0,0,0,-1,0", "saf": "0,0,0,0,0,1", "laf": "0,0,0,0,0,-1"}


@pytest.mark.parametrize(("policy", "weights"), PURE.items())
def test_a_pure_policy_is_a_mixed_policy_with_one_weight(policy, weights):
    jobs = random_table(3, n_jobs=400, size=12, span_s=500, small=0.2)
    pure, mixed = (replayed(jobs, 12, name, threshold_s=60.0) for name in (policy, f"mixed:{weights}"))
    assert pure.start_s.tobytes() == mixed.start_s.tobytes()
    assert pure.order.tobytes() == mixed.order.tobytes()


@pytest.mark.parametrize("scale", [0.25, 4.0, 1024.0])
def test_only_the_ratio_of_weights_counts(scale):
    jobs = random_table(4, n_jobs=400, size=12, span_s=500)
    weights = [1.0, -2.0, 0.5, 3.0, 0.25, 0.125]
    one, other = (
        replayed(jobs, 12, "mixed:" + ",".join(str(factor * weight) for weight in weights)) for factor in (1.0, scale)
    )
    assert one.start_s.tobytes() == other.start_s.tobytes()


def test_the_order_of_the_rows_given_does_not_matter():
    jobs = random_table(5, n_jobs=300, size=12, span_s=100)
    shuffled = np.random.default_rng(5).permutation(len(jobs))
    columns = {name: getattr(jobs, name)[shuffled] for name in ("submit_s", "runtime_s", "walltime_s", "procs", "ids")}
    again = job_table("shuffled", **columns)
    assert replayed(again, 12, "saf").start_s.tobytes() == replayed(jobs, 12, "saf").start_s.tobytes()


def test_an_empty_workload_is_an_empty_schedule():
    schedule = replayed(table([]), 4, "saf")
    assert len(schedule.start_s) == len(schedule.order) == 0


# Figures that other programs find, too


@pytest.mark.parametrize(
    ("log", "policy", "jobs", "backfilled", "mean_wait_s", "mean_bsld"),
    [
        ("KTH-SP2-1996-2.1-cln.swf.gz", "fcfs", 28_467, 17_183, 6804.974, 90.7559),
        ("KTH-SP2-1996-2.1-cln.swf.gz", "saf", 28_467, None, 5823.627, 39.2288),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", "fcfs", 54_034, None, 21183.671, 92.6288),
        ("SDSC-SP2-1998-4.2-cln.swf.gz", "saf", 54_034, None, 73235.109, 118.0797),
        ("SDSC-BLUE-2000-4.2-cln.swf.gz", "fcfs", 232_536, None, 7751.054, 35.2060),
        ("SDSC-BLUE-2000-4.2-cln.swf.gz", "saf", 232_536, None, 7082.804, 37.7218),
    ],
)
def test_the_archive_logs_give_the_known_figures(archive_log, log, policy, jobs, backfilled, mean_wait_s, mean_bsld):
    workload = read_workload(archive_log(log))
    figures = replayed(workload.jobs, workload.procs, policy).summary()
    assert (figures.jobs, backfilled) in ((jobs, figures.backfilled), (jobs, None))
    assert round(figures.mean_wait_s, 3) == mean_wait_s
    assert round(figures.mean_bsld, 4) == mean_bsld


def test_a_backfilled_job_without_walltime_counts_for_the_next_reservation_of_a_head_that_waits_for_such_jobs():
    # 6 processors. Jobs without walltime hold 4 of them and the head wants 5, so the shadow time is infinite and 1 is
    # to spare. Whoever takes it is expected back at the shadow time as well, so the next finds 1 to spare again.
    jobs = table([*[(0, 9, None, 1)] * 4, (1, 5, None, 5), (2, 20, None, 1), (3, 2, None, 1)])
    schedule = replayed(jobs, 6, "fcfs")
    assert schedule.start_s.tolist() == [0, 0, 0, 0, 9, 2, 3]
    assert_same(schedule, oracle(jobs, 6, "fcfs"))


@pytest.mark.parametrize("seed", range(60))
def test_a_burst_and_a_latecomer_where_most_jobs_have_no_walltime_agree_with_the_oracle(seed):
    jobs = random_table(seed, n_jobs=40, size=6, span_s=12, longest=6, unlimited=0.7)
    assert_as_the_oracle(jobs, 6, "saf")


# What a caller in Python gets wrong


def policy(key, **moving):
    return Policy("mine", key, **moving)


def first_come(r, p, q):
    return r


JOBS = table([(i, 5, 10, 1) for i in range(4)])
FCFS = policy_named("fcfs")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (policy(lambda r, p, q: r * np.nan), "policy mine: its key is nan for r = 0, p~ = 10, q = 1; correct its"),
        (policy(lambda r, p, q: np.where(r == 2, np.inf, r)), "policy mine: its key is inf for r = 2, "),
        (policy(lambda r, p, q: 1.0), r"policy mine: its key has shape \(\), not \(4,\); return one number per job"),
        (policy(lambda r, p, q: r[:2]), r"policy mine: its key has shape \(2,\), not \(4,\)"),
        (policy(first_come, per_wait=lambda r, p, q: r * np.nan), "policy mine: its per_wait is nan for r = 0, "),
        (policy(first_come, per_expansion=lambda r, p, q: p[:1]), "policy mine: its per_expansion has shape"),
    ],
)
def test_a_policy_that_nothing_can_be_sorted_by_is_refused_everywhere(wrong, said):
    for rules in (Rules(wrong), Rules(FCFS, backfill=wrong)):
        with pytest.raises(PolicyError, match=said):
            replay_jobs(JOBS, 4, rules)
    with pytest.raises(PolicyError, match=said):
        measure_policies(JOBS, 4, [FCFS, wrong])


def test_a_policy_moves_in_one_way():
    with pytest.raises(PolicyError, match="policy mine: per_wait and per_expansion are both given; give one of them"):
        policy(first_come, per_wait=lambda r, p, q: q, per_expansion=lambda r, p, q: q)


# A policy's key at the submission, and how fast it moves.
AGED = {
    "aged": (lambda r, p, q: p * q, lambda r, p, q: -q),
    "rooted": (lambda r, p, q: -100 / np.cbrt(p * q), lambda r, p, q: -1 / np.cbrt(p * q)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", AGED)
@pytest.mark.parametrize("as_backfill", [False, True])
def test_a_policy_of_ones_own_that_moves_starts_as_the_oracle_says(monkeypatch, name, as_backfill, seed):
    fixed, rise = AGED[name]
    own = Policy(name, fixed, per_wait=rise)
    monkeypatch.setitem(KEYS, name, lambda t, r, p, q: float(fixed(r, p, q) + rise(r, p, q) * (t - r)))
    jobs = random_table(seed, n_jobs=300, size=10, span_s=600, unlimited=0.05)
    if as_backfill:
        found = replay_jobs(jobs, 10, Rules(FCFS, backfill=own, threshold_s=80.0))
        assert_same(found, oracle(jobs, 10, "fcfs", backfill=name, threshold_s=80.0))
    else:
        assert_same(replay_jobs(jobs, 10, Rules(own)), oracle(jobs, 10, name))


def test_ties_out_of_the_order_of_their_ids_are_refused():
    with pytest.raises(WorkloadError, match="job 000000 at 0 follows job 000001 at 0"):
        dataclasses.replace(table([(0, 5, 10, 1)] * 2), ids=np.array(["000001", "000000"], object))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("submit_s", np.nan, "a submission time"),
        ("runtime_s", -1, "a run time"),
        ("walltime_s", 0, "a requested time"),
        ("procs", 0, "a number of processors"),
        ("job_class", 7, "a class"),
    ],
)
def test_a_job_table_made_by_hand_is_checked(column, value, said):
    changed = getattr(JOBS, column).copy()
    changed[2] = value
    with pytest.raises(WorkloadError, match=rf"the job table: 1 of 4 jobs have {said} that is not .*first: job 000002"):
        replay_jobs(dataclasses.replace(JOBS, **{column: changed}), 4, Rules(FCFS))
    with pytest.raises(WorkloadError, match=r"the job table: column \w+ has shape"):
        replay_jobs(dataclasses.replace(JOBS, **{column: changed[:2]}), 4, Rules(FCFS))
