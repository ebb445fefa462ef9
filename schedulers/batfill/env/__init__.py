"""Environments for reinforcement learning: an agent takes the decisions that the queue's order takes elsewhere.

`SchedulingEnv` is a `gymnasium.Env`, `SchedulingVectorEnv` a `gymnasium.vector.VectorEnv` of many copies, stepped in
compiled code on all cores; they need gymnasium, the extra `rl`.

>>> from batfill.env import SchedulingEnv
>>> env = SchedulingEnv("workloads/sample.json", jobs=100, visible=16)
>>> observation, info = env.reset(seed=1)
>>> observation["jobs"].shape, observation["cluster"].shape
((16, 9), (7,))
>>> observation, reward, terminated, truncated, info = env.step(0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batfill.env.environments import SchedulingEnv as SchedulingEnv
    from batfill.env.environments import SchedulingVectorEnv as SchedulingVectorEnv

__all__ = ["SchedulingEnv", "SchedulingVectorEnv"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load the environments on first use: they need gymnasium, and the rest of this package does not."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from batfill.env import environments

        return getattr(environments, name)
