"""Stops, forks, pickles and changes of course leave every byte as an uninterrupted run has it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batfill.base.errors import BatfillError
from batfill.model.jobs import SMALL
from batfill.model.policy import POLICIES, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.many import measure_policies
from batfill.replays.session import Replay
from strategies import outliving, random_table, workloads
from sweeps import examples

NAMES = [*POLICIES, "aged:90,0.5,0.3", "mixed:1,-2,0.5,3,0,0.1", "mixed:1,0,-1,0,0.5,0"]


def bytes_of(run):
    """All that a replay has found, as bytes."""
    schedule = run.schedule()
    columns = schedule.start_s, schedule.backfilled, schedule.kills, schedule.order
    return [column.tobytes() for column in columns]


rules = st.fixed_dictionaries(
    {
        "backfill": st.sampled_from([None, policy_named("spf"), policy_named("lexp")]),
        "threshold_s": st.sampled_from([0.0, 40.0, np.inf]),
        "divider_s": st.sampled_from([15.0, np.inf]),
        "spares": st.booleans(),
        "stand_back": st.sampled_from([2.0, np.inf]),
        "bound": st.booleans(),
        "outlived": st.booleans(),
        "narrow": st.booleans(),  # whether only jobs of at most two processors are small
        "expected_s": st.none() | st.integers(0, 99),  # the seed of others than the requests
    }
).filter(lambda case: case["stand_back"] == np.inf or case["spares"])


def new_run(jobs, size, name, options):
    """A replay at its beginning, and a function that restarts one with the same rules."""
    rules = {key: value for key, value in options.items() if key not in ("narrow", "expected_s")}
    small = (jobs.job_class == SMALL) & (jobs.procs <= 2) if options["narrow"] else None
    seed, expected_s = options["expected_s"], None
    if seed is not None:
        expected_s = np.random.default_rng(seed).integers(1, 30, len(jobs)).astype(float)
    return EngineReplay(jobs, size, Rules(policy_named(name), **rules), expected_s=expected_s, small=small)


def restarted(run, name, options):
    run.restart(Rules(policy_named(name), backfill=options["backfill"], threshold_s=options["threshold_s"]))
    return run


extended = workloads().map(lambda case: (outliving(case[0], 90.0), case[1]))


@settings(max_examples=examples(50), deadline=None)
@given(
    case=workloads() | extended,
    name=st.sampled_from(NAMES),
    options=rules,
    plan=st.lists(
        st.tuples(st.sampled_from(["until", "step", "fork", "pickle", "restart"]), st.floats(0, 900)),
        max_size=12,
    ),
)
def test_any_sequence_of_stops_copies_and_restarts_gives_the_bytes_of_an_uninterrupted_run(case, name, options, plan):
    jobs, size = case
    whole = new_run(jobs, size, name, options)
    whole.advance()
    run = new_run(jobs, size, name, options)
    forks = []
    for action, amount in plan:
        if action == "until":
            run.advance(run.now_s + amount)
        elif action == "step":
            run.step()
        elif action == "fork":
            forks.append(run)
            run = run.fork()
        elif action == "pickle":
            run = pickle.loads(pickle.dumps(run))
        else:
            run = restarted(run, name, options)
    for end in [*forks, run]:
        for _ in range(2):
            assert end.advance()
            assert bytes_of(end) == bytes_of(whole)
            end = restarted(end, name, options)


@settings(max_examples=examples(30), deadline=None)
@given(case=workloads() | extended, name=st.sampled_from(NAMES), options=rules, until_s=st.floats(0, 2000))
def test_rules_changed_to_themselves_change_nothing(case, name, options, until_s):
    jobs, size = case
    options = {**options, "expected_s": None}
    whole = new_run(jobs, size, name, options)
    whole.advance()
    run = new_run(jobs, size, name, options)
    run.advance(until_s)
    run.queue.change_rules(Rules(policy_named(name), backfill=options["backfill"], threshold_s=options["threshold_s"]))
    run.advance()
    assert bytes_of(run) == bytes_of(whole)


@settings(max_examples=examples(30), deadline=None)
@given(case=workloads(), first=st.sampled_from(NAMES), second=st.sampled_from(NAMES), until_s=st.floats(0, 100))
def test_a_change_of_policy_leaves_the_past_and_rules_the_future(case, first, second, until_s):
    jobs, size = case
    run = EngineReplay(jobs, size, Rules(policy_named(first)))
    run.advance(until_s)
    past = run.schedule().start_s
    run.queue.change_rules(Rules(policy_named(second)))
    run.advance()
    started = ~np.isnan(past)
    assert np.array_equal(run.schedule().start_s[started], past[started])
    if run.schedule().start_s[~started].size == len(jobs):  # nothing had happened: the second policy ruled it all
        assert bytes_of(run) == bytes_of_replay(jobs, size, second)


def bytes_of_replay(jobs, size, name):
    run = EngineReplay(jobs, size, Rules(policy_named(name)))
    run.advance()
    return bytes_of(run)


@settings(max_examples=examples(40), deadline=None)
@given(
    case=workloads() | extended, options=st.sampled_from([{}, {"threshold_s": 40.0}, {"backfill": policy_named("spf")}])
)
def test_many_at_once_are_what_they_are_one_by_one(case, options):
    jobs, size = case
    policies = [policy_named(name) for name in NAMES]

    def sum_of_starts(start_s):
        return np.nansum(start_s * np.arange(1, len(jobs) + 1), axis=1)

    one_by_one = np.array([replay_jobs(jobs, size, Rules(policy, **options)).start_s for policy in policies])
    expected = sum_of_starts(one_by_one).tolist()
    for threads in (1, 2, 5):
        found = measure_policies(jobs, size, policies, measure=sum_of_starts, threads=threads, **options)
        assert found.tolist() == expected
    mixed_alone = [policy for policy in policies if policy.weights is not None]
    found = measure_policies(jobs, size, mixed_alone, measure=sum_of_starts, **options)
    assert found.tolist() == expected[-len(mixed_alone) :]


def test_a_policys_mean_is_the_same_to_the_last_bit_whoever_stands_beside_it():
    jobs = random_table(7, n_jobs=3000, size=8, span_s=9000, wide=0.1)  # of which some are rejected
    policies = [policy_named(name) for name in NAMES]
    alone = [measure_policies(jobs, 8, [policy])[0] for policy in policies]
    assert measure_policies(jobs, 8, policies, threads=1).tolist() == alone
    assert alone == [replay_jobs(jobs, 8, Rules(policy)).summary().mean_bsld for policy in policies]


def test_a_file_that_is_no_saved_replay_is_named(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"PK nonsense")
    with pytest.raises(BatfillError, match=r"x\.npz: cannot be read as a saved replay"):
        Replay.load(path)
    np.savez(path, format=np.array("something else"))
    with pytest.raises(BatfillError, match="not a saved replay of this version"):
        Replay.load(path)
