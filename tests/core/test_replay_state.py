"""A replay stopped, looked into, changed and begun again, beside an oracle that is treated alike."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import batfill as bf
from batfill.base.kernels import PLAIN
from batfill.model.policy import Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from oracle import Oracle, assert_same
from strategies import random_table

SIZE = 12
N_JOBS = 200 if PLAIN else 400  # the oracle's time grows with the square
JOBS = random_table(6, n_jobs=N_JOBS, size=SIZE, span_s=700 * N_JOBS // 400, small=0.3)
CASE = {"threshold_s": 50.0, "divider_s": 10.0}


def new_replay(policy="wfp3", **case):
    return EngineReplay(JOBS, SIZE, Rules(policy_named(policy), **case or CASE))


def test_every_instant_can_be_looked_at():
    run, beside = new_replay(), Oracle(JOBS, SIZE, "wfp3", **CASE)
    done, instants = False, 0
    while not done:
        due = run.next_s
        done = run.step()
        beside.run(until=run.now_s)
        assert run.now_s == due
        assert run.queue.waiting_rows.tolist() == sorted(job.seq for job in beside.waiting)
        assert sorted(run.queue.running_rows.tolist()) == sorted(job.seq for job in beside.running)
        assert run.queue.free == beside.free
        instants += 1
    assert instants > len(JOBS)
    assert run.next_s == math.inf
    assert_same(run.schedule(), beside)


@pytest.mark.parametrize(
    "changed",
    [
        ("unicef", "spf"),
        *(
            pytest.param(rules, marks=pytest.mark.compiled)
            for rules in (("fcfs", None), ("saf", "lexp"), ("mixed:1,0,0,-2,0,0", None))
        ),
    ],
)
@pytest.mark.parametrize(
    "threshold_s", [80.0, *(pytest.param(threshold, marks=pytest.mark.compiled) for threshold in (math.inf, 0.0))]
)
def test_new_rules_hold_from_the_next_decision_on(changed, threshold_s):
    policy, backfill = changed
    run, beside = new_replay("lqf"), Oracle(JOBS, SIZE, "lqf", **CASE)
    run.advance(500.0)
    beside.run(until=500.0)
    assert len(run.queue.waiting_rows) > 50
    run.queue.change_rules(
        Rules(policy_named(policy), backfill=policy_named(backfill) if backfill else None, threshold_s=threshold_s)
    )
    beside.policy, beside.backfill, beside.threshold_s = policy, backfill, threshold_s
    run.advance()
    assert_same(run.schedule(), beside.run())


def test_an_order_may_read_another_run_time_than_reservations_do():
    jobs = random_table(7, n_jobs=300, size=SIZE, span_s=900)
    read_s = np.random.default_rng(7).integers(1, 60, len(jobs)).astype(float)
    run = EngineReplay(jobs, SIZE, Rules(policy_named("saf")), learns=True)
    for row, expected_s in enumerate(jobs.walltime_s.tolist()):
        run.queue.classify(row, False, killable=False, expected_s=expected_s, key_expected_s=read_s[row])
    run.advance()
    built_in = Policy("saf of these", lambda r, p, q: read_s * q)
    assert run.schedule().start_s.tobytes() == replay_jobs(jobs, SIZE, Rules(built_in)).start_s.tobytes()


# Saved replays that were changed

HOSTILE = [None, -1, math.nan, math.inf, 10**30, "", "x", [], {}, True, 0, 2**63, "fcfs", 1e300]


@pytest.fixture(scope="module")
def states(request, tmp_path_factory):
    """The arrays of saved replays: with changes of rules, tries, a calendar, a limit per user."""
    log, path = bf.read(request.config.rootpath / "workloads" / "sample.json"), tmp_path_factory.mktemp("saved") / "x"
    windows = [{"kind": "announced", "begin": 3600, "end": 7200, "processors": 16}]
    windows += [{"kind": "failure", "begin": 9000, "end": 9700, "processors": 8}]
    runs = [
        bf.Replay(log, "saf"),
        bf.Replay(log, preset="first-tries", threshold_s=7200).run("12h"),
        bf.Replay(log, "wfp3", backfill="spf").run("6h").fork(policy="spf").run("12h"),
        bf.Replay(log, calendar=bf.Calendar.of(windows), depth="all").run("12h"),
        bf.Replay(log, max_running=2).run("12h"),
    ]
    found = []
    for run in runs:
        run.save(path)
        with np.load(path) as stored:
            found.append(dict(stored))
    return found


def change_somewhere(rng, value):
    """Change or remove a part of a JSON value."""
    while value and isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[rng.integers(len(keys))]
        if value[key] and isinstance(value[key], dict | list) and rng.random() < 0.8:
            value = value[key]
        elif rng.random() < 0.2:
            del value[key]
            return
        else:
            value[key] = HOSTILE[rng.integers(len(HOSTILE))]
            return


def changed_array(rng, array):
    """The array changed in one of many ways; None: without it."""
    some, size = array.copy(), max(array.size, 1)
    odd = {"f": [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e300], "i": [-1, -100, 0, 100], "b": [True, False]}
    if array.dtype.kind in odd and array.size:
        some.flat[rng.integers(size)] = rng.choice(odd[array.dtype.kind])
    ways = [None, some, array[None], array.astype("U3"), np.full_like(array, 1), array.astype(np.complex128, copy=True)]
    if array.ndim:
        ways += [array[: rng.integers(size)], rng.permutation(array), array[::-1], np.concatenate([array, array])]
    return ways[rng.integers(len(ways))]


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(150))
def test_a_saved_replay_that_was_changed_is_refused_or_runs(tmp_path, states, seed):
    rng = np.random.default_rng(seed)
    state = dict(states[rng.integers(len(states))])
    for _ in range(rng.integers(1, 3)):
        name = list(state)[rng.integers(len(state))]
        if name == "about" and rng.random() < 0.9:
            value = json.loads(str(state[name]))
            change_somewhere(rng, value)
            state[name] = np.array(json.dumps(value))
        elif state[name].dtype.kind != "U":
            state[name] = changed_array(rng, state[name])
        else:
            state[name] = [None, np.array("[" * 5000), np.array(7)][rng.integers(3)]
        state = {each: array for each, array in state.items() if array is not None}
    np.savez(tmp_path / "x.npz", **state)
    stored = bytearray((tmp_path / "x.npz").read_bytes())
    if seed % 5 == 0:
        stored[rng.integers(len(stored))] = rng.integers(256)
        (tmp_path / "x.npz").write_bytes(stored[: rng.integers(len(stored)) if seed % 2 else None])
    said = ""
    try:
        bf.Replay.load(tmp_path / "x.npz").run().result().as_dict()
    except bf.BatfillError as refused:
        said = str(refused)
    assert "\n" not in said
    assert len(said) < 1500


def window(*values):
    """A calendar of one window."""
    return bf.Calendar.of([dict(zip(("kind", "begin", "end", "processors", "announced"), values, strict=False))])


@pytest.mark.compiled
@pytest.mark.parametrize(
    "options",
    [
        {"policy": "wfp3", "backfill": "spf", "threshold_s": 7200, "overdue": "half"},
        {"preset": "first-tries", "stand_back": 2},
        {"small": "all", "divider": 600, "kill": "always"},
        {"depth": "all", "tested": 20, "calendar": window("announced", 1 / 3 + 2e4, 3e4, 60, 1e4)},
        {"depth": 2, "calendar": window("failure", 9e5, None, 8)},
        {"max_running": 2},
    ],
    ids=str,
)
def test_a_saved_replay_goes_on_as_it_would_have(tmp_path, request, options):
    log = bf.read(request.config.rootpath / "workloads" / "sample.json")
    for until in ("0s", "6h", "2d", math.inf):
        run = bf.Replay(log, **options).run(until).fork(policy="saf").run("3d" if until != math.inf else until)
        run.save(tmp_path / "x.npz")
        again = bf.Replay.load(tmp_path / "x.npz")
        assert (again.now_s, again.forked_s, again.engine.until_s) == (run.now_s, run.forked_s, run.engine.until_s)
        assert again.engine.queue.rules == run.engine.queue.rules
        assert again.result().as_dict() == run.result().as_dict()
        assert again.run().result() == run.run().result()


def test_a_saved_replay_is_repeated_under_what_it_was_saved_with(tmp_path, request):
    log = bf.read(request.config.rootpath / "workloads" / "sample.json")
    bf.Replay(log, bf.Policy("mine", lambda r, p, q: p)).run("2d").save(tmp_path / "x.npz")
    with pytest.raises(bf.BatfillError, match="had found other starts when it was saved"):
        bf.Replay.load(tmp_path / "x.npz", [bf.Policy("mine", lambda r, p, q: -p)])
