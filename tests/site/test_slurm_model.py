"""The compiled model of Slurm against its slow twin, the pool's replay, and what must hold of every run."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from batfill.base.errors import WorkloadError
from batfill.model.jobs import job_table
from batfill.model.policy import policy_named
from batfill.model.rules import EVERY_JOB, Rules
from batfill.replays.engine_replay import EngineReplay
from batfill_site.slurm import arrays
from batfill_site.slurm.arrays import featured, possible
from batfill_site.slurm.backfill import LEAP, begin_plan, first_from, reserve
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.model import Model
from batfill_site.slurm.site import (
    KILLED,
    REQUEUED,
    Association,
    Clock,
    Leaf,
    Limits,
    Node,
    Partition,
    Qos,
    Settings,
    Site,
    SlurmJobs,
)
from slurm_cases import BEGAN, preempting_case, random_case, waiting_case
from slurm_twin import Twin
from sweeps import COMPILED, examples

SEEDS = st.integers(0, 2**32 - 1)
# Together these reach every line of the kernels, with the tests below; a change of slurm_cases.py asks for others.
# In the last more licences are taken than there are, as the plan counts in steps of `bf_resolution`.
REACHING = (2, 3, 4, 7, 10, 15, 22, 24, 37, 46, 50, 62, 67, 70, 81, 82, 104, 132)
PREEMPTING = (16, 42, 53, 57, 80)  # of preempting_case


def jobs_of(**columns):
    """Jobs of one CPU and a minute, all at once, but for these columns."""
    n = max(len(each) for each in columns.values())
    given = {name: each if isinstance(each[0], str) else np.asarray(each) for name, each in columns.items()}
    return SlurmJobs.of(**{"submit_s": np.full(n, BEGAN, np.float64), "partition": ("p",) * n} | given)


def site_of(n=4, **fields):
    """A partition of equal nodes of one CPU."""
    names = tuple(f"n{i}" for i in range(n))
    whole = {"nodes": tuple(Node(name) for name in names), "partitions": (Partition("p", names),)}
    return Site(**whole | fields)


def possible_case(seed, most_jobs=40):
    site, jobs, clock = random_case(seed, most_jobs)
    return site, possible(site, jobs)[0], clock


def assert_same(run, other):
    for name, one, two in zip(run._fields, run, other, strict=True):
        np.testing.assert_array_equal(one, two, name)


@pytest.mark.parametrize("seed", REACHING)
def test_these_sites_give_the_twins_runs_in_plain_python_too(seed):
    site, jobs, clock = possible_case(seed, 25)
    assert_same(Model(site, jobs).run(clock), Twin(site, jobs).run(clock))


def test_required_nodes_wait_for_a_reservation_and_other_nodes_come_from_a_tree():
    """The second job is planned on both nodes when the first ends, the third requires one of them for longer."""
    below = tuple(f"n{i}" for i in range(4))
    for version, required in (((17, 11), "n3"), ((22, 5), "n1")):
        site = site_of(
            nodes=tuple(Node(name, 1) for name in below),
            partitions=(Partition("p", below),),
            switches=(Leaf(below[:2], ("t",)), Leaf(below[2:], ("t",))),
            settings=Settings(version=version, multifactor=False),
        )
        jobs = jobs_of(
            nodes=[2, 4, 1, 2], cpus=[2, 4, 1, 2], max_nodes=[2, 4, 1, 2], limit_s=[100, 100, 900, 50],
            run_s=[90.0, 90.0, 90.0, 40.0], required=("", "", required, "n2"),
        )  # fmt: skip
        run = Model(site, jobs).run(Clock())
        assert_same(run, Twin(site, jobs).run(Clock()))
        assert run.start_s[2] > run.start_s[1]


def test_a_leaf_of_which_no_node_is_taken_is_no_nearer_than_others():
    """A job of four CPUs on one node: the leaf x has nodes of the lowest weight, but none that is enough."""
    nodes = [
        Node("a", 1),
        Node("b0", 4, weight=2),
        Node("b1", 4, weight=2),
        *(Node(f"c{i}", 4, weight=2) for i in "012"),
    ]
    site = site_of(
        nodes=tuple(nodes),
        partitions=(Partition("p", tuple(node.name for node in nodes)),),
        switches=(Leaf(("b0", "b1"), ("t",)), Leaf(("a", "c0", "c1", "c2"), ("t",))),
    )
    jobs = jobs_of(cpus=[4], max_nodes=[1])
    for model in (Model, Twin):
        run = model(site, jobs).run(Clock())
        assert [nodes[i].name for i in run.at.tolist()] == ["b0"]


def test_a_job_of_two_partitions_starts_in_that_whose_qos_allows_so_much():
    parts = Partition("a", ("n0",), tier=2, qos="few"), Partition("b", ("n1",))
    site = site_of(nodes=(Node("n0", 4), Node("n1", 4)), partitions=parts, qos=(Qos("few", per_job=Limits(cpus=2)),))
    jobs, left_out = possible(site, jobs_of(cpus=[4], cpus_per_node=[4], partition=("a",), partitions=("a,b",)))
    assert left_out == ()
    for model in (Model, Twin):
        assert model(site, jobs).run(Clock()).at.tolist() == [1]


@pytest.mark.parametrize("seed", PREEMPTING)
def test_these_preempting_sites_give_the_twins_runs_in_plain_python_too(seed):
    site, jobs, clock = preempting_case(seed, 25)
    jobs, _ = possible(site, jobs)
    assert_same(Model(site, jobs).run(clock), Twin(site, jobs).run(clock))


def test_nodes_of_jobs_that_are_preempted_again_and_again_are_clean_in_the_order_of_dates():
    # Both low jobs on n0 and n1 are preempted twice; while they are cleaned, the one on n2 ends and is clean at once.
    names = ("n0", "n1", "n2")
    partitions = Partition("low", names), Partition("high", names[:2], tier=2)
    chosen = Settings(preempt="partition_prio", preempt_mode="requeue", cred_expire_s=0)
    site, nodes = site_of(3, partitions=partitions, settings=chosen), [1, 1, 1, 2, 2]
    given = {"partition": ("low",) * 3 + ("high",) * 2, "limit_s": [9000] * 5, "required": (*names, "", "")}
    jobs = jobs_of(**given, nodes=nodes, cpus=nodes, max_nodes=nodes, run_s=[2000.0, 2000.0, 101.0, 50.0, 50.0])
    submit_s = BEGAN + np.array([0.0, 0.0, 0.0, 100.0, 400.0])
    jobs = replace(jobs, submit_s=submit_s, eligible_s=submit_s)
    clock = Clock(killing_s=2.0, cleaning_s=0.0, overhead_s=0.0)
    run = Model(site, jobs).run(clock)
    assert_same(run, Twin(site, jobs).run(clock))
    assert run.preempted["job"].tolist() == [1, 0, 1, 0]  # the last that is needed goes first (E4)


@pytest.mark.parametrize(
    ("again", "rows", "nodes", "preempted"),
    [
        # Of victims with 1, 2 and 3 nodes, all needed, the last goes first, then the others by what they hold (E4).
        (1, [("n0", 1), ("n1,n2", 2), ("n3,n4,n5", 3)], 6, [2, 1, 0]),
        # n2 is taken away first, and then n0 and n1, which suffice: who is on n2 goes on.
        (0, [("n2", 1), ("n0,n1", 2)], 2, [1]),
    ],
)
def test_victims_are_those_on_the_jobs_nodes_and_come_by_what_they_hold(again, rows, nodes, preempted):
    names = tuple(f"n{i}" for i in range(sum(n for _, n in rows)))
    partitions = Partition("low", names), Partition("high", names, tier=2)
    chosen = Settings(preempt="partition_prio", preempt_mode="requeue", preempt_reorder_count=again)
    site = site_of(len(names), partitions=partitions, settings=chosen)
    counts = [*(n for _, n in rows), nodes]
    given = {"partition": ("low",) * len(rows) + ("high",), "required": (*(on for on, _ in rows), "")}
    jobs = jobs_of(**given, nodes=counts, cpus=counts, max_nodes=counts, run_s=[2000.0] * len(rows) + [50.0])
    submit_s = BEGAN + np.array([0.0] * len(rows) + [100.0])
    jobs = replace(jobs, submit_s=submit_s, eligible_s=submit_s, limit_s=np.full(len(jobs), 9000))
    run = Model(site, jobs).run(Clock(cleaning_s=0.0, overhead_s=0.0))
    assert_same(run, Twin(site, jobs).run(Clock(cleaning_s=0.0, overhead_s=0.0)))
    assert run.preempted["job"].tolist() == preempted


def test_a_job_whose_whole_nodes_would_exceed_a_limit_starts_in_no_pass():
    # The second asks for a CPU of the two that its user has left, and would hold a node of two, until the first ends.
    partitions = (Partition("p", ("n0", "n1"), exclusive=True),)
    nodes = tuple(Node(name, 2) for name in ("n0", "n1"))
    normal = Qos("normal", per_user=Limits(cpus=3))
    site = Site(nodes=nodes, partitions=partitions, qos=(normal,))
    jobs = jobs_of(run_s=[500.0, 50.0], qos=("normal",) * 2, user=("ann",) * 2, limit_s=[900, 900])
    run = Model(site, jobs).run(Clock(cleaning_s=0.0, overhead_s=0.0))
    assert_same(run, Twin(site, jobs).run(Clock(cleaning_s=0.0, overhead_s=0.0)))
    assert run.start_s[1] >= run.start_s[0] + 500


@pytest.mark.compiled
@settings(max_examples=examples(30))
@given(SEEDS)
@example(17)  # enough nodes count only after a key in a head that a bound divides
@example(26)  # nodes that never count
def test_every_start_pass_and_node_is_the_twins(seed):
    site, jobs, clock = possible_case(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "HEADS", (1, 2, 3, 32)[seed % 4])
        run = Model(site, jobs).run(clock)
    assert_same(run, Twin(site, jobs).run(clock))


@pytest.mark.compiled
@settings(max_examples=examples(20))
@given(SEEDS)
def test_every_job_that_is_preempted_or_sleeps_is_the_twins(seed):
    site, jobs, clock = preempting_case(seed, 25)
    jobs, _ = possible(site, jobs)
    assert_same(Model(site, jobs).run(clock), Twin(site, jobs).run(clock))


@pytest.mark.compiled
@settings(max_examples=examples(5))
@given(SEEDS)
@example(15)  # other priorities: one becomes high enough to reserve
@example(25)  # a start that leaves the head of the line as it is
@example(36)  # another job before those that were tried, and a date that comes after that
@example(34)  # dates that are left out up to an interval, and a group whose last job is on other nodes
@example(146)  # dates beyond that interval
@example(1077)  # the first date that is not left out
def test_jobs_that_wait_through_many_cycles_start_as_the_twins(seed):
    site, jobs, clock = waiting_case(seed)
    jobs, _ = possible(site, jobs)
    assert_same(Model(site, jobs).run(clock), Twin(site, jobs).run(clock))


@settings(max_examples=examples(20))
@given(SEEDS)
def test_a_plan_is_the_twins_after_each_reservation(seed):
    rng, site = np.random.default_rng(seed), site_of(3, settings=Settings(bf_resolution_s=1, bf_window_s=12))
    model, twin = (each(site, jobs_of(run_s=[1.0])) for each in (Model, Twin))
    records = {name: getattr(model.slurm, name).view(np.recarray) for name in ("state", "options")}
    slurm, twin.now, twin.running = model.slurm._replace(**records), 0, []
    twin.b2_plan()
    begin_plan(slurm)
    for word in rng.integers(1, 8, 12).tolist():
        b, e = np.sort(rng.choice(12, 2, replace=False)).tolist()
        reserve(slurm, b, e, np.array([word], np.uint64), -1)
        twin.b7_reserve(b, e, {i for i in range(3) if word >> i & 1})
        n, plan = slurm.state[0].intervals, slurm.plan
        free = [{i for i in range(3) if int(word) >> i & 1} for word in plan.free[:n, 0]]
        assert list(zip(plan.begin[:n], plan.end[:n], free, strict=True)) == [tuple(each[:3]) for each in twin.plan]


@pytest.mark.compiled
@settings(max_examples=examples(8))
@given(SEEDS)
def test_jobs_that_can_never_start_change_no_other(seed):
    site, jobs, clock = random_case(seed, 15)
    assert_same(Model(site, jobs).run(clock), Twin(site, jobs).run(clock))


@pytest.mark.parametrize("seed", [0, *map(COMPILED, (1, 2, 3, 4))])
def test_one_slot_for_all_shapes_and_room_for_one_interval_are_enough(seed):
    site, jobs, clock = possible_case(seed, 15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "SLOT_KEYS", 1)
        patch.setattr(arrays, "ROOM", 1)
        patch.setattr(arrays, "HEADS", 2)
        small = Model(site, jobs).run(clock)
    assert_same(small, Model(site, jobs).run(clock))


@pytest.mark.parametrize("seed", [42, *map(COMPILED, (16, 57))])
def test_a_preempted_job_that_is_cancelled_before_it_is_queued_again_is_not(seed):
    site, jobs, clock = preempting_case(seed, 25)
    jobs, _ = possible(site, jobs)
    run = Model(site, jobs).run(clock)
    row, at_s = run.preempted[run.preempted["how"] == REQUEUED][["job", "at_s"]][0]
    leave_s = jobs.leave_s.copy()
    leave_s[row] = at_s + 0.001
    jobs = replace(jobs, leave_s=leave_s)
    run = Model(site, jobs).run(clock)
    assert np.isnan(run.start_s[row])
    assert_same(run, Twin(site, jobs).run(clock))


@pytest.mark.compiled
@settings(max_examples=examples(30))
@given(SEEDS)
def test_no_node_holds_more_than_it_has_and_no_job_starts_before_it_is_queued(seed):
    site, jobs, clock = possible_case(seed)
    run = Model(site, jobs).run(clock)
    started, ends_s = np.flatnonzero(run.by > 0), run.start_s + jobs.run_s + clock.overhead_s
    if site.suspends:
        return  # jobs that sleep are on nodes of others
    killed = run.preempted[run.preempted["how"] == KILLED]
    ends_s[killed["job"]] = killed["at_s"]
    queued_s = np.maximum(jobs.submit_s, jobs.eligible_s) + clock.arrival_s
    ends_s = np.minimum(ends_s, np.maximum(jobs.leave_s, queued_s))
    assert (run.start_s[started] >= np.maximum(jobs.submit_s, jobs.eligible_s)[started]).all()
    assert np.isnan(run.start_s[run.by == 0]).all()
    for i, node in enumerate(site.nodes):
        changes = []
        for row in started:
            if i in run.at[run.first[row] : run.first[row + 1]]:
                memory = jobs.memory_per_node_mb[row] or jobs.memory_per_cpu_mb[row] * jobs.cpus_per_node[row]
                memory *= not jobs.memory_unsaid[row]  # whose partition decides
                holds = np.array([jobs.cpus_per_node[row], memory * site.settings.memory, jobs.gpus_per_node[row]])
                if ends_s[row] > run.start_s[row]:
                    changes += [(ends_s[row], 0, -holds), (run.start_s[row], 1, holds)]
        held = np.zeros(3)
        for *_, change in sorted(changes, key=lambda each: each[:2]):
            held = held + change
            assert (held <= [node.cpus, node.memory_mb, node.gpus]).all()


@pytest.mark.compiled
@settings(max_examples=examples(20))
@given(SEEDS)
def test_the_same_clock_gives_the_same_run_again(seed):
    site, jobs, clock = possible_case(seed)
    model = Model(site, jobs)
    first = model.run(clock)
    model.run(clock._replace(phase_s=0.1, seed=1, jitter_s=3.0))
    assert_same(model.run(clock), first)


@pytest.mark.parametrize(
    "limit_s", [(100, 120, 50, 60, 60), (100, 120, 125, 60, 60), (500, 500, 100, 60, 60), (500, 500, 100, 60, 200)]
)
def test_a_reservation_may_be_later_than_the_end_that_frees_the_node(limit_s):
    # The plan has an interval that ends at 110, 185 or 160, with n2. A node of a is free at 100, but the job that ends
    # at 120 belongs to the same group; or at 500, long after that interval, at which a job of 200 s does not look.
    nodes = (*(Node(f"n{i}", features=frozenset("a")) for i in range(2)), Node("n2", features=frozenset("b")))
    partition = Partition("p", ("n0", "n1", "n2"))
    chosen = Settings(multifactor=False, bf_resolution_s=1, version=(17, 11))
    jobs = jobs_of(limit_s=limit_s, run_s=np.array(limit_s, float), constraint=("a", "a", "b", "b", "a"))
    site = Site(nodes=nodes, partitions=(partition,), settings=chosen)
    run = Model(site, jobs).run(Clock())
    assert_same(run, Twin(site, jobs).run(Clock()))
    assert (run.by > 0).all()


def test_a_run_may_begin_with_a_job_that_runs_and_end_with_a_start():
    given = {"started_s": [BEGAN - 500.0, np.nan, np.nan], "ran_on": ("n0", "", ""), "limit_s": [600, 60, 60]}
    jobs, running = jobs_of(run_s=[600.0, 60.0, 60.0], **given), np.array([True, False, False])
    run = Model(site_of(1), jobs, running).run(Clock())
    assert_same(run, Twin(site_of(1), jobs, running).run(Clock()))
    assert run.start_s[1] > BEGAN + 100
    shorter = Model(site_of(1), jobs, running).run(Clock(), asked=np.array([False, True, False]))
    np.testing.assert_array_equal(shorter.start_s, [*run.start_s[:2], np.nan])


def test_of_two_jobs_that_run_where_there_is_room_for_one_the_second_holds_nothing():
    given = {"started_s": [BEGAN - 500.0, BEGAN - 400.0, np.nan], "ran_on": ("n0", "n0", ""), "limit_s": [600, 600, 60]}
    jobs, running = jobs_of(run_s=[600.0, 600.0, 60.0], **given), np.array([True, True, False])
    run = Model(site_of(1), jobs, running).run(Clock())
    assert run.start_s[2] == pytest.approx(BEGAN + 101, abs=1)  # when the first ends


def test_the_first_end_from_a_date_on_is_found_from_any_place():
    keys = np.arange(0, 3 * 2 * LEAP, 3)
    for place, n, key in itertools.product(range(len(keys)), range(len(keys) + 1), range(3 * len(keys) + 2)):
        assert first_from(keys, place, n, key) == max(place, np.searchsorted(keys[:n], key))


def test_a_job_that_may_not_reserve_waits_for_nodes_that_are_being_cleaned():
    # The first job ends at 31, its node is clean at 36; the only cycle, at 33, plans with it.
    site = site_of(1, settings=Settings(multifactor=False, bf_min_age_reserve_s=1000))
    jobs = jobs_of(run_s=[30.0, 30.0])
    clock = Clock(main_s=(BEGAN + 1.0,), cycles_s=(BEGAN + 33.0,), overhead_s=0.0, cleaning_s=5.0)
    run = Model(site, jobs).run(clock)
    assert_same(run, Twin(site, jobs).run(clock))
    np.testing.assert_array_equal(run.by, [1, 0])


def state_of(seed):
    """A random case with the jobs that run at a date of its run; None if none starts."""
    site, jobs, clock = possible_case(seed)
    run = Model(site, jobs).run(clock)
    started = np.isfinite(run.start_s)
    if not started.any():
        return None
    begin_s = float(np.quantile(run.start_s[started], 0.6)) + 0.5
    places = [run.at[a:b] for a, b in itertools.pairwise(run.first)]
    ran_on = tuple(",".join(site.nodes[k].name for k in at) for at in places)
    ended = started & (run.start_s + jobs.run_s <= begin_s)
    running = started & (run.start_s <= begin_s) & ~ended
    seen = replace(jobs, started_s=run.start_s, ran_on=ran_on)
    clock = clock._replace(first_decay_s=begin_s - 8)  # ticks before the start of a job that runs make no sense
    return site, seen.select(np.flatnonzero(~ended)), clock, running[~ended], begin_s


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(examples(20)))
def test_a_run_that_begins_with_jobs_on_their_nodes_is_that_of_the_twin(seed):
    if (state := state_of(seed)) is not None and len(state[1]):
        site, jobs, clock, *begun = state
        assert_same(*(each(site, jobs, *begun).run(clock) for each in (Model, Twin)))


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(8))
def test_a_run_ends_with_the_starts_that_are_asked_for(seed):
    site, jobs, clock = possible_case(seed, 60)
    model = Model(site, jobs)
    whole = model.run(clock)
    asked = np.arange(len(jobs)) % 7 == 0
    part = model.run(clock, asked=asked)
    known = np.isfinite(part.start_s)
    np.testing.assert_array_equal(part.start_s[asked | known], whole.start_s[asked | known])
    assert part.cycles <= whole.cycles
    assert_same(model.run(clock), whole)


@pytest.mark.compiled
def test_runs_of_one_model_may_be_made_at_once():
    site, jobs, _ = possible_case(3, 60)
    model, dates = Model(site, jobs), clocks(site, jobs, 20, 0)
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda clock: model.run(clock).start_s, dates * 5))
    np.testing.assert_array_equal(at_once, [model.run(clock).start_s for clock in dates * 5])


YEARS_S = 50 * 365 * 86400


@pytest.mark.parametrize("fair_tree", [True, False])
@pytest.mark.parametrize("usage_reset", ["NONE", "YEARLY"])
def test_empty_years_are_skipped_with_the_same_usage(fair_tree, usage_reset):
    # Two users have used something before a gap: which of them goes first after it is what the usage then says.
    submit_s = BEGAN - YEARS_S + np.array([0, 0, YEARS_S, YEARS_S, YEARS_S + 1], float)
    jobs = jobs_of(submit_s=submit_s, user=tuple("uvuvu"), cpus=[4, 3, 4, 4, 4], run_s=[900.0, 800.0, 90.0, 90.0, 90.0])
    jobs = replace(jobs, nodes=jobs.cpus, max_nodes=jobs.cpus, eligible_s=submit_s)
    given = {"weight_fairshare": 1000, "fair_tree": fair_tree, "usage_reset": usage_reset, "half_life_s": 1e9}
    site = site_of(4, settings=Settings(**given))
    began_s = time.process_time()
    run = Model(site, jobs).run(Clock())
    assert_same(run, Twin(site, jobs).run(Clock()))
    assert time.process_time() - began_s < 10
    assert (run.by > 0).all()
    assert run.cycles < 100


# The pool. Slurm's plan is of nodes and the pool's of their number, which is the same on two nodes. All dates are so
# far apart that no two ends are in one window of B5. Cycles are made when jobs are submitted, and end, in the replay.


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(10))
def test_two_nodes_start_every_job_as_the_replay_with_all_reservations_does(seed):
    rng = np.random.default_rng(seed)
    submit_s, limit_s = np.sort(rng.integers(0, 6 * 10**9, 60)), rng.integers(5 * 10**7, 5 * 10**8, 60)
    run_s, nodes = np.floor(limit_s * rng.uniform(0.2, 1.0, 60)), rng.integers(1, 3, 60)
    table = job_table(submit_s=submit_s, runtime_s=run_s, walltime_s=limit_s, procs=nodes)
    replay = EngineReplay(table, 2, Rules(policy_named("fcfs"), depth=EVERY_JOB))
    replay.advance()
    expected_s = replay.schedule().start_s
    dates = sorted({*submit_s.tolist(), *(expected_s + run_s).tolist()})
    jobs = jobs_of(submit_s=submit_s.astype(float), limit_s=limit_s, run_s=run_s, nodes=nodes, cpus=nodes)
    chosen = Settings(multifactor=False, bf_resolution_s=1, bf_max_job_test=0, bf_window_s=2e10)
    clock = Clock(main_s=(-1.0,), cycles_s=tuple(map(float, dates)), overhead_s=0.0, cleaning_s=0.0)
    run = Model(site_of(2, settings=chosen), jobs).run(clock)
    np.testing.assert_array_equal(run.start_s, expected_s)
    assert (expected_s > submit_s).mean() > 0.8


# Jobs that can never start, and what makes no sense.


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"partition": ("p", "q")}, "there is no partition q"),
        ({"nodes": [1, 5]}, "they need more nodes than their partition has or allows"),
        ({"partition": ("p", "few"), "nodes": [1, 2]}, "they need more nodes than their partition has or allows"),
        ({"constraint": ("", "a&b")}, "too few nodes of their partition have the features that they name"),
        ({"cpus_per_node": [1, 2]}, "too few nodes of their partition have the CPUs that they need"),
        ({"cpus": [4, 5], "max_nodes": [0, 0]}, "the nodes of their partition that they may take have too few CPUs"),
        ({"cpus": [2, 2], "max_nodes": [2, 1]}, "the nodes of their partition that they may take have too few CPUs"),
        ({"cpus_per_task": [1, 2], "max_nodes": [0, 0]}, "too few nodes of their partition have the CPUs in whole"),
        (
            {"memory_per_cpu_mb": [0, 2], "memory_unsaid": [True, False]},
            "too few nodes of their partition have the mem",
        ),
        ({"required": ("", "n1,n9")}, "a node that they require is not in their partition"),
        ({"required": ("", "n2"), "partition": ("p", "few")}, "a node that they require is not in their partition"),
        ({"excluded": ("n3", "n[0-3]")}, "too few nodes of their partition have the names that they allow"),
        (
            {"partitions": ("few,p", "q,few"), "nodes": [2, 2]},
            "they need more nodes than their partition has or allows",
        ),
        ({"memory_per_cpu_mb": [1, 9]}, "too few nodes of their partition have the memory that they need"),
        ({"gpus_per_node": [0, 1], "gpu_type": ("", "b")}, "too few nodes of their partition have the GPUs that"),
        ({"limit_s": [60, 90], "partition": ("p", "few")}, "their limit is longer than their partition"),
        ({"cpus": [4, 4], "max_nodes": [0, 0], "qos": ("", "q")}, "they request more than their QOS or association"),
    ],
)
def test_a_job_that_can_never_start_is_left_out_and_the_reason_is_said(columns, text):
    few = Partition("few", ("n0", "n1"), max_nodes=1, max_time_s=60.0)
    nodes = tuple(Node(f"n{i}", gpus=1, gpu_type="a", features=frozenset("a")) for i in range(4))
    wide = Partition("p", ("n0", "n1", "n2", "n3"))
    site = site_of(nodes=nodes, partitions=(wide, few), qos=(Qos("q", per_job=Limits(cpus=3)),))
    kept, (sentence,) = possible(site, jobs_of(**columns))
    assert kept.ids == ("0",)
    assert sentence.startswith(f"1 job is left out (the first is 1): {text}")
    assert possible(site, kept) == (kept, ())


def test_the_left_out_are_counted():
    kept, (sentence,) = possible(site_of(), jobs_of(nodes=[9, 1, 9]))
    assert (kept.ids, sentence[:37]) == (("1",), "2 jobs are left out (the first is 0):")


@pytest.mark.parametrize(
    "constraint", ["a&", "(a", "a b", "|", "a)", "a(b)", "(a)(b)", "()", "(" * 400 + "a" + ")" * 399, "(" * 90_000]
)
def test_a_job_whose_constraint_cannot_be_read_is_left_out_and_the_others_are_not(constraint):
    nodes = tuple(Node(f"n{i}", features=frozenset("ab")) for i in range(4))
    kept, (sentence,) = possible(site_of(nodes=nodes), jobs_of(constraint=("", constraint)))
    assert kept.ids == ("0",)
    assert sentence.endswith("too few nodes of their partition have the features that they name")


def test_brackets_in_constraints_may_be_as_deep_as_they_like():
    nodes = (Node("n0", features=frozenset("ab")), Node("n1", features=frozenset("ac")), Node("n2"))
    having = {"a & (b|c)": {0, 1}, "[b*2|c*1]": {0, 1}, "((a&b)|(a,c))&(b)": {0}, "b&c": set(), "(d)": set()}
    having |= {"(" * 400 + "b" + ")" * 400: {0}, "": {0, 1, 2}}
    assert {text: featured(site_of(nodes=nodes), text) for text in having} == having


def test_jobs_of_a_type_of_gpu_that_shares_its_nodes_with_another_take_any():
    nodes = (Node("n0", gpus=34), Node("n1", gpus=1, gpu_type="c"))
    site = site_of(nodes=nodes, partitions=(Partition("p", ("n0", "n1")),), mixed=frozenset(("a", "1g.10gb")))
    kept, _ = possible(site, jobs_of(gpus_per_node=[1, 1, 1], gpu_type=("a", "1g.10gb", "c")))
    assert (kept.ids, kept.gpu_type) == (("0", "1", "2"), ("", "", "c"))


def test_an_account_that_is_its_own_ancestor_is_named():
    loop = (Association("a", parent="b"), Association("b", parent="a"))
    with pytest.raises(WorkloadError, match="account 'a' is its own ancestor"):
        Model(site_of(associations=loop), jobs_of(account=("a",), user=("u",)))


def test_a_site_without_jobs_runs():
    run = Model(site_of(), jobs_of(nodes=[1]).select([])).run(Clock())
    assert (len(run.start_s), run.first.tolist(), run.cycles) == (0, [0], 0)
