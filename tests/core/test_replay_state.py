"""A replay stopped, looked into, changed and begun again, beside an oracle that is treated alike."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import batfill as bf
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay
from oracle import Oracle, assert_same
from strategies import random_table

SIZE = 12
JOBS = random_table(6, n_jobs=400, size=SIZE, span_s=700, small=0.3)
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
    [("unicef", "spf"), ("fcfs", None), ("saf", "lexp"), ("mixed:1,0,0,-2,0,0", None)],
)
@pytest.mark.parametrize("threshold_s", [80.0, math.inf, 0.0])
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


# Saved replays that were changed


def window(*values):
    """A calendar of one window."""
    return bf.Calendar.of([dict(zip(("kind", "begin", "end", "processors", "announced"), values, strict=False))])


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


def test_a_saved_replay_that_lacks_a_part_is_refused_in_one_line_or_runs(tmp_path, request):
    path = tmp_path / "x.npz"
    bf.Replay(bf.read(request.config.rootpath / "workloads" / "sample.json"), "saf").run("12h").save(path)
    with np.load(path) as stored:
        whole = dict(stored)
    about = json.loads(str(whole["about"]))
    lacking = [{name: array for name, array in whole.items() if name != lost} for lost in whole]
    for lost in about:
        text = json.dumps({name: value for name, value in about.items() if name != lost})
        lacking.append(whole | {"about": np.array(text)})
    refused = []
    for arrays in lacking:
        np.savez(path, **arrays)
        try:
            bf.Replay.load(path).run().result()
        except bf.BatfillError as error:
            refused.append(str(error))
    assert len(refused) > len(lacking) / 2
    assert not [line for line in refused if "\n" in line or "x.npz: " not in line]
