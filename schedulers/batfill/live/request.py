"""What passes between a simulator and a scheduler: a job's request, a simulator's registrations, and its `Host`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from batfill.batsim_files.machines import Intervals


class Request(NamedTuple):
    """A job's request, as a simulator submits it."""

    name: str
    submit_s: float  # r
    request_s: float  # p~; inf if it has none
    walltime_s: float  # at which the simulator ends it, p~ or later; inf for never
    procs: int  # q
    profile: str  # the work it does, which only the simulator understands
    user: int = -1  # -1 if unknown
    job_class: str | None = None  # "small" or "large" if the workload states it
    killable: bool = True  # whether a try may be killed and the job requeued
    user_request_s: float = math.nan  # which learners see; nan if unknown
    extra: Any = None  # further data, which only the simulator and the user understand; a later try keeps them

    @property
    def outlives(self) -> bool:
        """Whether it may run for longer than p~."""
        return self.request_s < self.walltime_s

    @property
    def walltime_field(self) -> float:
        """The walltime as Batsim writes it: -1 for none."""
        return -1 if self.walltime_s == math.inf else self.walltime_s


class Registration(NamedTuple):
    """Whether and how a scheduler may submit jobs."""

    allowed: bool
    reuses_profiles: bool  # a later job may use the profile of one that has ended
    acknowledged: bool  # the simulator reports each such job as submitted
    workflows: tuple[str, ...] = ()  # workloads in which the simulator submits a job once those before it have ended


class Host(Protocol):
    """The requests a scheduler may send to its simulator; dates are simulated seconds."""

    def execute(self, job: str, machines: Intervals) -> None:
        """Start a job on these machines now."""

    def reject(self, job: str) -> None:
        """Reject a job."""

    def kill(self, job: str) -> None:
        """End a running job."""

    def call_at(self, date_s: float) -> None:
        """Send a message at this future date."""

    def register(self, request: Request) -> None:
        """Submit a job."""

    def finish_registration(self) -> None:
        """State that the scheduler will submit no more jobs."""
