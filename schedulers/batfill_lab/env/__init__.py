"""Environments for reinforcement learning: an agent takes the decisions that the queue's order takes elsewhere.

`SchedulingEnv` is a `gymnasium.Env`, `SchedulingVectorEnv` a `gymnasium.vector.VectorEnv` of many copies, stepped in
compiled code on all cores; they need gymnasium, the extra `rl`. `gymnasium.make` knows them as batfill/Scheduling-v0
once this package is imported, or without an import as batfill_lab.env:batfill/Scheduling-v0.

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
    from batfill_lab.env.environments import SchedulingEnv as SchedulingEnv
    from batfill_lab.env.environments import SchedulingVectorEnv as SchedulingVectorEnv

ID = "batfill/Scheduling-v0"  # for gymnasium.make and make_vec, with `log` and the other arguments as keywords
__all__ = ["SchedulingEnv", "SchedulingVectorEnv"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load the environments on first use: they need gymnasium, and the rest of this package does not."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from batfill_lab.env import environments

        return getattr(environments, name)


def register() -> None:
    """Enter the environments into gymnasium's registry, if gymnasium is installed; it loads them when they are made."""
    if installed("gymnasium"):
        import gymnasium

        place = f"{__name__}.environments"
        gymnasium.register(ID, f"{place}:SchedulingEnv", vector_entry_point=f"{place}:SchedulingVectorEnv")


register()
