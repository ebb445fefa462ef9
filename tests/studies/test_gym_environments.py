"""RLScheduler's simulator as environments: its own rules between decisions, all else as batfill's."""

from __future__ import annotations

import numpy as np
import pytest

import batfill as bf
import swf_text

pytest.importorskip("gymnasium", reason="needs the extra rl")

from gymnasium.utils.env_checker import check_env
from test_env_interface import LOG, play, refused

from studies.rlscheduler import schedgym
from studies.rlscheduler.environments import RLSchedulerEnv, RLSchedulerVectorEnv


@pytest.fixture(scope="module")
def swf(tmp_path_factory):
    """The sample as an SWF file of nodes of one processor."""
    jobs = LOG.jobs
    columns = (jobs.submit_s, jobs.runtime_s, jobs.procs, jobs.walltime_s)
    rows = [
        swf_text.row(number, *(int(value) for value in values[:2]), req_procs=values[2], req_time=int(values[3]))
        for number, values in enumerate(zip(*columns, strict=True), start=1)
    ]
    path = tmp_path_factory.mktemp("swf") / "sample.swf"
    path.write_text(f"; MaxProcs: {LOG.procs}\n; MaxNodes: {LOG.procs}\n" + "".join(rows))
    return path


@pytest.mark.parametrize("backfill", [True, False])
def test_an_agent_that_picks_the_first_is_rlschedulers_fcfs(swf, backfill):
    env = RLSchedulerEnv(swf, backfill=backfill, jobs=200, visible=8, reward="wait")
    check_env(env, skip_render_check=True)
    decisions, info = play(env, lambda env, seen: 0, options={"first": 350})
    log = schedgym.read_gym_log(swf)
    wait_s = schedgym.play(log, "fcfs", [350], n=200, backfill=backfill)[0] - log.jobs.submit_s[350:550]
    assert len(decisions) > 10
    assert (info["mean_wait_s"], info["max_wait_s"]) == pytest.approx((wait_s.mean(), wait_s.max()))
    assert sum(reward for _, _, reward in decisions) == pytest.approx(-wait_s.mean() / 3600)
    assert all(seen["action_mask"].sum() > 1 for seen, _, _ in decisions)


def test_a_copy_takes_the_course_of_a_single_environment_with_its_seed(swf):
    how = {"jobs": 80, "visible": 8}
    env, single = RLSchedulerVectorEnv(swf, 3, **how), RLSchedulerEnv(swf, **how)
    seen, _ = env.reset(seed=7)
    alone, _ = single.reset(seed=9)
    random, over = np.random.default_rng(1), False
    for _ in range(200):
        np.testing.assert_equal({name: part[2] for name, part in seen.items()}, alone)
        actions = [random.choice(np.flatnonzero(mask)) for mask in seen["action_mask"]]
        seen, rewards, ends, _, _ = env.step(actions)
        if over:
            (alone, _), reward, over = single.reset(), 0.0, False
        else:
            alone, reward, over, _, _ = single.step(actions[2])
        assert (rewards[2], ends[2]) == (reward, over)
    env.close()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"action": "backfill"}, "action: RLScheduler's simulator has 'pick' only"),
        ({"base": "saf"}, "base: RLScheduler's simulator has 'fcfs' only"),
        ({"warm": 5}, "warm: RLScheduler's simulator has 0 only"),
        ({"jobs": 801}, "800 jobs"),
    ],
)
def test_what_the_simulator_does_not_have_is_refused(swf, how, said):
    assert said in refused(lambda: RLSchedulerEnv(swf, **how))


def test_it_reads_a_file():
    generated = bf.generate(100, 16, seed=1)
    assert "reads an SWF file; give its path" in refused(lambda: RLSchedulerEnv(generated))
