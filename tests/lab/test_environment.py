"""The environment as a user of gymnasium meets it: spaces, seeds, rewards, masks, episodes, and mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill_lab.env.seeing import FEATURES_OF_CLUSTER, FEATURES_OF_JOB

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra rl")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from batfill_lab.env import SchedulingEnv  # noqa: E402

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
LOG = bf.read(SAMPLE)
ACTIONS = ("pick", "backfill")
SMALL = {"jobs": 60, "visible": 8}
OF_JOB = {name: place for place, name in enumerate(FEATURES_OF_JOB)}


def one(**how):
    return SchedulingEnv(LOG, **{**SMALL, **how})


def play(env, choose, **start):
    """An episode: its decisions (observation, action, reward), and the last info."""
    observation, _ = env.reset(**start)
    decisions, over, info = [], False, {}
    while not over:
        action = choose(env, observation)
        after, reward, over, truncated, info = env.step(action)
        assert not truncated
        decisions.append((observation, action, reward))
        observation = after
    return decisions, info


def refused(call):
    """The message of a BatfillError, one line."""
    with pytest.raises(BatfillError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def usual(env, observation):
    """The action by which the base order decides."""
    return int(np.flatnonzero(observation["action_mask"])[0])


def whim(seed):
    """An agent that chooses at random."""
    random = np.random.default_rng(seed)
    return lambda env, observation: random.choice(np.flatnonzero(observation["action_mask"]))


@pytest.mark.parametrize("action", ACTIONS)
def test_gymnasium_finds_no_fault_with_an_environment(action):
    check_env(one(action=action), skip_render_check=True)


@pytest.mark.parametrize("action", ACTIONS)
def test_spaces_and_observations_are_as_documented(action):
    env = one(action=action)
    observation, info = env.reset(seed=1)
    assert 0 <= info["first"] <= 800 - 60
    assert {name: (array.shape, array.dtype) for name, array in observation.items()} == {
        "jobs": ((8, len(FEATURES_OF_JOB)), np.float32),
        "cluster": ((len(FEATURES_OF_CLUSTER),), np.float32),
        "action_mask": ((9 if action == "backfill" else 8,), np.int8),
    }
    assert env.action_space == gymnasium.spaces.Discrete({"pick": 8, "backfill": 9}[action])
    for observation, _, _ in play(env, whim(1), seed=2)[0]:
        assert env.observation_space.contains(observation)
        n_jobs = np.flatnonzero(observation["jobs"].any(axis=1)).size
        assert n_jobs > 0
        assert not observation["jobs"][n_jobs:].any()
        if action != "backfill":
            assert observation["action_mask"].tolist() == [1] * n_jobs + [0] * (8 - n_jobs)


@pytest.mark.parametrize("base", ["fcfs", "saf"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_agent_that_keeps_to_the_base_order_is_easy(action, base):
    _, info = play(one(action=action, base=base, jobs=800), usual, seed=1)
    figures = bf.replay(LOG, base).figures
    assert info["first"] == info["invalid_actions"] == 0
    for name in ("mean_wait_s", "max_wait_s", "mean_bsld", "utilisation"):
        assert info[name] == pytest.approx(getattr(figures, name))


@pytest.mark.parametrize("warm", [0, 30])
@pytest.mark.parametrize("action", ACTIONS)
def test_the_rewards_of_an_episode_add_up_to_its_mean(action, warm):
    for reward, figure, scale in (("bsld", "mean_bsld", -1), ("wait", "mean_wait_s", -1 / 3600)):
        for seed in (1, 2):
            env = one(action=action, reward=reward, warm=warm)
            decisions, info = play(env, whim(seed), seed=seed)
            assert sum(reward for _, _, reward in decisions) == pytest.approx(scale * info[figure])
            assert len(decisions) == info["decisions"]


@pytest.mark.parametrize("warm", [0, 30])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_function_values_each_scored_job_once(action, warm):
    given = []

    def shares(wait_s, runtime_s, procs):
        given.append((wait_s, runtime_s, procs))
        return -(wait_s > 3600).astype(float)

    decisions, info = play(one(action=action, warm=warm, reward=shares), whim(3), options={"first": 200})
    wait_s, runtime_s, procs = map(np.concatenate, zip(*given, strict=True))
    assert sum(reward for _, _, reward in decisions) == pytest.approx(-(wait_s > 3600).mean())
    assert (wait_s.mean(), wait_s.max()) == pytest.approx((info["mean_wait_s"], info["max_wait_s"]))
    jobs = LOG.jobs.select(slice(200 + warm, 200 + warm + 60))
    scored = zip(np.minimum(jobs.runtime_s, jobs.walltime_s), jobs.procs, strict=True)
    assert sorted(zip(runtime_s, procs, strict=True)) == sorted(scored)


def test_a_backfill_may_choose_the_jobs_that_do_not_delay_the_head():
    for observation, _, _ in play(one(action="backfill", jobs=200), whim(1), seed=4)[0]:
        *jobs, no_more = observation["action_mask"]
        safe = observation["jobs"][:, OF_JOB["safe"]]
        assert no_more == 1
        assert (jobs[0], safe[0]) == (0, 0)
        assert jobs == safe.tolist()
        assert any(jobs)


def test_an_episode_without_a_decision_is_drawn_again_or_refused():
    """No two of the sixty jobs from row 100 on ever wait together."""
    env = one(firsts=[100, 250])
    assert {env.reset(seed=seed)[1]["first"] for seed in range(10)} == {250}
    assert "no decision to take in the episode from row 100 on" in refused(lambda: env.reset(options={"first": 100}))
    assert "no decision to take in 1000 episodes at random" in refused(lambda: one(firsts=[100]).reset(seed=1))


def test_only_jobs_after_the_warm_ones_are_scored():
    """The queue that the first jobs leave is there when the scored ones are submitted."""
    _, cold = play(one(), usual, options={"first": 330})
    _, warm = play(one(warm=30), usual, options={"first": 300})
    alone = LOG.jobs.select(slice(330, 390)).stating(name="alone", size=LOG.size)
    whole = LOG.jobs.select(slice(300, 390)).stating(name="whole", size=LOG.size)
    assert cold["mean_wait_s"] == pytest.approx(bf.replay(alone).figures.mean_wait_s)
    assert warm["mean_wait_s"] == pytest.approx(np.mean(bf.replay(whole).to_pandas().wait_s[30:]))


def test_the_same_seed_is_the_same_course_and_observations_are_copies():
    (first, said), (again, expected) = (play(one(), whim(2), seed=9) for _ in range(2))
    np.testing.assert_equal(first, again)
    assert said == expected
    assert len({seen["jobs"].tobytes() for seen, *_ in first}) > 10


def test_gymnasium_makes_the_environment_by_its_name():
    name = "batfill_lab.env:batfill/Scheduling-v0"
    env = gymnasium.make(name, log=LOG, **SMALL)
    assert isinstance(env.unwrapped, SchedulingEnv)
    np.testing.assert_equal(env.reset(seed=6)[0], one().reset(seed=6)[0])
    assert env.step(0)[0]["jobs"].shape == (8, len(FEATURES_OF_JOB))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"action": "picks"}, "action: 'picks' is none of pick, .*did you mean 'pick'"),
        ({"visible": 1}, "visible: 1 is not a whole number of at least 2"),
        ({"jobs": 1}, "jobs: 1 is not a whole number of at least 2"),
        ({"jobs": 801}, "800 jobs fit the machine, and an episode takes 801; give fewer jobs"),
        ({"base": "fcsf"}, "policy 'fcsf' is unknown.*did you mean 'fcfs'"),
        ({"firsts": []}, "firsts: not rows of the log from 0 to 740"),
        ({"tau_s": 0}, "tau_s: 0 is not a number of seconds > 0"),
    ],
)
def test_an_unusable_argument_gets_one_line(how, said):
    assert re.search(said, refused(lambda: one(**how).reset(seed=1)))


@pytest.mark.parametrize("action", [0.5, [0], None, "0"])
def test_an_action_that_is_no_whole_number_is_refused(action):
    env = one()
    assert "none has begun; call reset first" in refused(lambda: env.step(0))
    env.reset(seed=1)
    assert "is not a whole number, see action_space" in refused(lambda: env.step(action))
