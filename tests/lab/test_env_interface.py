"""The environments as a user of gymnasium meets them: spaces, seeds, rewards, masks, episodes, and mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill_lab.env.seeing import FEATURES_OF_CLUSTER, FEATURES_OF_JOB

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra rl")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.wrappers.vector import RecordEpisodeStatistics  # noqa: E402

from batfill_lab.env import SchedulingEnv, SchedulingVectorEnv, environments  # noqa: E402
from episodes import assert_takes_the_course_of_single_environments, at_random, play, refused  # noqa: E402

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
LOG = bf.read(SAMPLE)
ACTIONS = ("pick", "backfill", "priorities", "mixed", "aged")
BY_PLACE = ("pick", "backfill")
SMALL = {"jobs": 60, "visible": 8}
OF_JOB = {name: place for place, name in enumerate(FEATURES_OF_JOB)}
OF_CLUSTER = {name: place for place, name in enumerate(FEATURES_OF_CLUSTER)}


def one(**how):
    return SchedulingEnv(LOG, **{**SMALL, **how})


def many(n, **how):
    return SchedulingVectorEnv(LOG, n, **{**SMALL, **how})


def usual(env, observation):
    """The action by which the base order decides; for weights, those of fcfs."""
    mask = observation["action_mask"]
    return {
        "pick": 0,
        "backfill": int(np.flatnonzero(mask)[0]),
        "priorities": np.linspace(1, -1, len(mask), dtype=np.float32),
        "mixed": np.zeros(6, np.float32),
        "aged": np.array([0, -1, -1], np.float32),
    }[env.episodes.action]


def whim(seed):
    """An agent that chooses at random."""
    random = np.random.default_rng(seed)
    return lambda env, observation: at_random(random, env.action_space, observation["action_mask"])


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
    width = {"pick": 8, "backfill": 9, "priorities": 8, "mixed": 6, "aged": 3}[action]
    box = gymnasium.spaces.Box(-1, 1, (width,), np.float32)
    assert env.action_space == (gymnasium.spaces.Discrete(width) if action in BY_PLACE else box)
    for observation, _, _ in play(env, whim(1), seed=2)[0]:
        assert env.observation_space.contains(observation)
        n_jobs = np.flatnonzero(observation["jobs"].any(axis=1)).size
        assert n_jobs > 0
        assert not observation["jobs"][n_jobs:].any()
        if action != "backfill":
            assert observation["action_mask"].tolist() == [1] * n_jobs + [0] * (8 - n_jobs)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_vector_takes_the_course_of_single_environments_with_its_seeds(action, threads):
    ours = many(5, action=action, threads=threads)
    assert_takes_the_course_of_single_environments(ours, lambda: one(action=action), steps=150)


@pytest.mark.parametrize("base", ["fcfs", "saf"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_agent_that_keeps_to_the_base_order_is_easy(action, base):
    if base != "fcfs" and action not in (*BY_PLACE, "priorities"):
        pytest.skip("the agent's weights are those of fcfs")
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


def test_the_utilisation_is_the_last_reward():
    decisions, info = play(one(reward="utilisation"), whim(1), seed=1)
    *before, last = [reward for _, _, reward in decisions]
    assert set(before) == {0.0}
    assert last == info["utilisation"]
    assert 0 < last <= 1


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


@pytest.mark.parametrize("action", BY_PLACE)
def test_an_action_that_the_mask_excludes_is_the_usual_one_and_is_counted(action):
    def invalid(env, observation):
        excluded = np.flatnonzero(observation["action_mask"] == 0)
        return excluded[-1] if len(excluded) else kept(env, observation)

    def kept(env, observation):
        return 0 if action == "pick" else 8

    wrong, said = play(one(action=action), invalid, options={"first": 300})
    right, expected = play(one(action=action), kept, options={"first": 300})
    np.testing.assert_equal([seen for seen, *_ in wrong], [seen for seen, *_ in right])
    count = sum(seen["action_mask"][act] == 0 for seen, act, _ in wrong)
    assert count > 0
    assert (said.pop("invalid_actions"), expected.pop("invalid_actions")) == (count, 0)
    assert said == expected


def test_priorities_of_places_without_a_job_do_not_matter():
    def ordered(fill):
        def choose(env, observation):
            values = np.linspace(-1, 1, 8, dtype=np.float32)
            return np.where(observation["action_mask"] != 0, values, np.float32(fill))

        return play(one(action="priorities"), choose, options={"first": 300})

    low, high = ordered(-1), ordered(1)
    assert any(act.max() == 1 and not seen["action_mask"][-1] for seen, act, _ in high[0])
    np.testing.assert_equal([seen for seen, *_ in low[0]], [seen for seen, *_ in high[0]])
    assert low[1] == high[1]


def test_an_episode_begins_where_the_options_say():
    _, info = play(one(warm=10), usual, options={"first": 17}, seed=5)
    assert info["first"] == 17
    env = many(3)
    seen, infos = env.reset(seed=1, options={"first": [17, 5, 17]})
    assert infos["first"].tolist() == [17, 5, 17]
    np.testing.assert_equal(seen["jobs"][0], seen["jobs"][2])
    again, infos = env.reset(options={"first": 5})
    assert infos["first"].tolist() == [5, 5, 5]
    np.testing.assert_equal(again["jobs"][0], seen["jobs"][1])
    env.close()


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
    alone = bf.Workload("alone", LOG.jobs.select(slice(330, 390)), LOG.procs)
    whole = bf.Workload("whole", LOG.jobs.select(slice(300, 390)), LOG.procs)
    assert cold["mean_wait_s"] == pytest.approx(bf.replay(alone).figures.mean_wait_s)
    assert warm["mean_wait_s"] == pytest.approx(np.mean(bf.replay(whole).to_pandas().wait_s[30:]))


def test_a_vector_reports_figures_at_the_end_of_an_episode_and_begins_the_next_one_by_itself():
    env = RecordEpisodeStatistics(many(4, reward="wait"))
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert env.num_envs == 4
    seen, _ = env.reset(seed=1)
    over, ends = np.zeros(4, bool), 0
    for _ in range(300):
        before = over
        seen, rewards, over, _, infos = env.step(seen["action_mask"].argmax(axis=1))
        assert not rewards[before].any()
        assert not over[before].any()
        if not over.any():
            assert "mean_wait_s" not in infos
            continue
        ends += over.sum()
        assert infos["_mean_wait_s"].tolist() == over.tolist()
        assert infos["episode"]["r"][over] == pytest.approx(-infos["mean_wait_s"][over] / 3600)
        assert infos["max_wait_s"].shape == infos["first"].shape == (4,)
    assert ends > 4
    env.close()


def test_observations_are_copies_unless_the_user_gives_that_up():
    for copy in (True, False):
        env = many(2, copy=copy)
        first, _ = env.reset(seed=1)
        kept = {name: part.copy() for name, part in first.items()}
        second = env.step(np.zeros(2, int))[0]
        assert (second["jobs"] is first["jobs"]) is not copy
        assert np.array_equal(kept["jobs"], first["jobs"]) is copy
        env.close()


def test_gymnasium_makes_both_environments_by_their_name():
    name = "batfill_lab.env.environments:batfill/Scheduling-v0"
    env, both = gymnasium.make(name, log=LOG, **SMALL), gymnasium.make_vec(name, num_envs=2, log=LOG, **SMALL)
    assert isinstance(env.unwrapped, SchedulingEnv)
    assert isinstance(both.unwrapped, SchedulingVectorEnv)
    seen, _ = env.reset(seed=6)
    np.testing.assert_equal(seen, one().reset(seed=6)[0])
    assert both.reset(seed=6)[0]["jobs"].shape == (2, 8, len(FEATURES_OF_JOB))
    np.testing.assert_equal(both.reset(seed=6)[0]["jobs"][0], seen["jobs"])
    assert env.step(0)[0]["jobs"].shape == (8, len(FEATURES_OF_JOB))
    both.close()


def test_the_page_has_every_argument_with_its_default():
    page = (SAMPLE.parents[1] / "docs" / "reference" / "environments.md").read_text()
    table = page.partition("## Arguments\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE))
    assert rows.pop("firsts") == "all"
    assert rows == {name: f"`{value!r}`".replace("'", '"') for name, value in environments.DEFAULTS.items()}
    assert environments.How.__annotations__.keys() == {*environments.DEFAULTS, "firsts"}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"action": "picks"}, "action: 'picks' is none of pick, .*did you mean 'pick'"),
        ({"visible": 1}, "visible: 1 is not a whole number of at least 2"),
        ({"jobs": 1}, "jobs: 1 is not a whole number of at least 2"),
        ({"jobs": 801}, "800 jobs fit the machine, and an episode takes 801; give fewer jobs"),
        ({"action": "mixed", "every": 0}, "every: 0 is not a whole number of at least 1"),
        ({"base": "fcsf"}, "policy 'fcsf' is unknown.*did you mean 'fcfs'"),
        ({"firsts": []}, "firsts: not rows of the log from 0 to 740"),
        ({"every": 16}, "every: does nothing with the action pick"),
        ({"backfill": True}, "backfill: an environment has no such argument"),
        ({"tau_s": 0}, "tau_s: 0 is not a number of seconds > 0"),
        ({"job": 10}, "job: an environment has no such argument; did you mean 'jobs'"),
    ],
)
def test_an_unusable_argument_gets_one_line(how, said):
    assert re.search(said, refused(lambda: one(**how).reset(seed=1)))


def test_an_unusable_vector_or_log_gets_one_line(tmp_path):
    assert "num_envs: 0 is not" in refused(lambda: many(0))
    assert "threads: 0 is not" in refused(lambda: many(2, threads=0))
    assert "absent.swf" in refused(lambda: SchedulingEnv(tmp_path / "absent.swf"))


@pytest.mark.parametrize(
    ("action", "values", "said"),
    [
        ("pick", 0.5, "action: of shape"),
        ("pick", [0], "action: of shape"),
        ("priorities", np.zeros(6), "action: of shape"),
        ("mixed", [np.nan] * 6, "action: a value is not finite"),
        ("aged", [np.inf] * 3, "action: a value is not finite"),
    ],
)
def test_an_action_outside_of_the_space_is_refused(action, values, said):
    env = one(action=action)
    env.reset(seed=1)
    assert said in refused(lambda: env.step(values))
    both = many(2, action=action)
    both.reset(seed=1)
    assert said in refused(lambda: both.step([values, values]))
    assert "action: of shape" in refused(lambda: both.step([env.action_space.sample()]))
    both.close()
