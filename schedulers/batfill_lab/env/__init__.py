"""An environment for reinforcement learning: an agent takes the decisions that the queue's order takes elsewhere.

`SchedulingEnv` is a `gymnasium.Env`, which needs gymnasium, the extra `rl`. `gymnasium.make` knows it as
batfill/Scheduling-v0 once this package is imported, or without an import as batfill_lab.env:batfill/Scheduling-v0.

>>> from batfill_lab.env import SchedulingEnv
>>> env = SchedulingEnv("workloads/sample.json", jobs=100, visible=16)
>>> observation, info = env.reset(seed=1)
>>> observation["jobs"].shape, observation["cluster"].shape
((16, 9), (7,))
>>> observation, reward, terminated, truncated, info = env.step(0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.base.errors import installed

if TYPE_CHECKING:
    from batfill_lab.env.environment import SchedulingEnv as SchedulingEnv

ID = "batfill/Scheduling-v0"  # for gymnasium.make, with `log` and the other arguments as keywords
__all__ = ["SchedulingEnv"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load the environment on first use: it needs gymnasium, and the rest of this package does not."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from batfill_lab.env import environment

        return getattr(environment, name)


if installed("gymnasium"):  # which loads the environment when it is made
    import gymnasium

    gymnasium.register(ID, f"{__name__}.environment:SchedulingEnv")
