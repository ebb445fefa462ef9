"""Environments for reinforcement learning: an agent takes the decisions that the queue's order takes elsewhere.

`SchedulingEnv` is a `gymnasium.Env`, `SchedulingVectorEnv` a `gymnasium.vector.VectorEnv` of many copies, stepped in
compiled code on all cores. `actions` lists what an agent may decide, `rewards` what it may be rewarded for.

>>> from batfill.env import SchedulingEnv
>>> env = SchedulingEnv("workloads/sample.json", jobs=100, visible=16)
>>> observation, info = env.reset(seed=1)
>>> observation["jobs"].shape, observation["cluster"].shape
((16, 9), (7,))
>>> observation, reward, terminated, truncated, info = env.step(0)
"""

from __future__ import annotations

from batfill.env.environments import SchedulingEnv, SchedulingVectorEnv
from batfill.env.rewards import REWARDS

__all__ = ["REWARDS", "SchedulingEnv", "SchedulingVectorEnv"]
