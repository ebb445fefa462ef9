"""The environment for reinforcement learning: what a decision costs, from the action to the next observation."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec

import numpy as np
from logs import SDSC
from table import Row, time_text
from timing import Case, Setting, by_turns

VISIBLE, STEPS = 128, 2000
BAR_S = 1e-4  # ten thousand decisions a second


def stepping(jobs: int, seed: int) -> tuple[object, object]:
    """A contender, seconds a decision with valid actions at random, and the mean number of visible jobs."""
    from batfill_lab.env import SchedulingEnv

    env = SchedulingEnv(SDSC.path, jobs=jobs, visible=VISIBLE)
    random = np.random.default_rng(seed)
    seen = [int(env.reset(seed=seed)[0]["action_mask"].sum())]

    def run() -> float:
        seconds = 0.0
        for _ in range(STEPS):
            began = time.perf_counter()
            observation, _, over, _, _ = env.step(int(random.random() * seen[-1]))
            if over:
                observation, _ = env.reset()
            seconds += time.perf_counter() - began
            seen.append(int(observation["action_mask"].sum()))
        return seconds / STEPS

    return run, lambda: float(np.mean(seen))


def decisions(jobs: int, setting: Setting) -> list[Row]:
    """The row of the environment with episodes of so many jobs."""
    case = f"episodes of {jobs} jobs of SDSC-SP2, {VISIBLE} visible"
    if find_spec("gymnasium") is None:
        return [Row(case, "skipped: gymnasium is not installed")]
    ours, visible = stepping(jobs, setting.seed)
    seconds = by_turns(setting.rounds, {"ours": ours})["ours"]
    case += f", {visible():.1f} seen"
    return [Row(case, f"{time_text(seconds)} a decision", f"{1 / seconds:,.0f} a second", seconds, BAR_S, "s")]


def cases() -> list[Case]:
    """Short and long episodes."""
    return [Case("environment", f"{jobs} jobs", partial(decisions, jobs)) for jobs in (256, 1024)]
