"""RLScheduler's simulator as environments: its own rules between decisions, all else as batfill's."""

from __future__ import annotations

from pathlib import Path

import pytest

import batfill as bf
import swf_text

pytest.importorskip("gymnasium", reason="needs the extra rl")

from gymnasium.utils.env_checker import check_env

from episodes import assert_takes_the_course_of_single_environments, play, refused
from studies.rlscheduler import schedgym
from studies.rlscheduler.environments import RLSchedulerEnv, RLSchedulerVectorEnv


@pytest.fixture(scope="module")
def swf(tmp_path_factory):
    """The sample as an SWF file of nodes of one processor."""
    log = bf.read(Path(__file__).parents[2] / "workloads" / "sample.json")
    jobs = log.jobs
    columns = (jobs.submit_s, jobs.runtime_s, jobs.procs, jobs.walltime_s)
    rows = [
        swf_text.row(number, *(int(value) for value in values[:2]), req_procs=values[2], req_time=int(values[3]))
        for number, values in enumerate(zip(*columns, strict=True), start=1)
    ]
    path = tmp_path_factory.mktemp("swf") / "sample.swf"
    path.write_text(f"; MaxProcs: {log.procs}\n; MaxNodes: {log.procs}\n" + "".join(rows))
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


def test_a_vector_takes_the_course_of_single_environments_with_its_seeds(swf):
    how = {"jobs": 80, "visible": 8}
    ours = RLSchedulerVectorEnv(swf, 3, **how)
    assert_takes_the_course_of_single_environments(ours, lambda: RLSchedulerEnv(swf, **how), steps=200)


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
