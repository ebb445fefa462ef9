"""What Batsim's options change inside a simulation, and what the scheduler is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Redis is never used; its fields are there because schedulers read them.
REDIS = {"hostname": "127.0.0.1", "port": 6379, "prefix": "default"}


@dataclass(frozen=True, slots=True)
class Settings:
    """The rules of a simulation; the defaults are Batsim's."""

    forward_profiles: bool = False
    dynamic_jobs: bool = False
    acknowledge: bool = False
    reuse_profiles: bool = False
    share_compute: bool = False
    share_storage: bool = True
    forward_unknown_events: bool = False
    sched_config: str = ""

    def config(self) -> dict[str, Any]:
        """The `config` of SIMULATION_BEGINS."""
        return {
            "redis-enabled": False,
            **{f"redis-{key}": value for key, value in REDIS.items()},
            "profiles-forwarded-on-submission": self.forward_profiles,
            "dynamic-jobs-enabled": self.dynamic_jobs,
            "dynamic-jobs-acknowledged": self.acknowledge,
            "profile-reuse-enabled": self.reuse_profiles,
            "sched-config": self.sched_config,
            "forward-unknown-events": self.forward_unknown_events,
        }
