"""What a scheduler may decide, as values: the simulation obeys them, and batfill's own scheduler says them.

Each version of Batsim's protocol has its own words for them. A job is named with its workload's name, `w0!12`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Execute(NamedTuple):
    """Start a waiting job."""

    job: str
    machines: str  # such as "0-3 7"
    mapping: Sequence[Any] | None = None  # each executor's place within these, not yet checked; None for one on each


class Reject(NamedTuple):
    """Reject a waiting job."""

    job: str


class Kill(NamedTuple):
    """Kill running jobs."""

    jobs: Sequence[str]


class CallAt(NamedTuple):
    """Call the scheduler at a date."""

    date_s: float
    id: str = ""


class Register(NamedTuple):
    """Add a job and submit it now."""

    job: str
    raw: dict[str, Any]  # as in Batsim 4's workloads


class RegisterProfile(NamedTuple):
    """Add a profile, and its workload if that is new."""

    workload: str
    name: str
    raw: dict[str, Any]  # as in Batsim 4's workloads


class Registering(NamedTuple):
    """Set whether more jobs may be registered."""

    goes_on: bool


class SetMetadata(NamedTuple):
    """Attach a text to a job, for the result file."""

    job: str
    text: str


class ChangeState(NamedTuple):
    """Declare that a job runs or has ended outside the simulated machines."""

    job: str
    state: str


class WaitingTime(NamedTuple):
    """How long a job that is not submitted would wait."""

    job: str
    wait_s: float  # -1 if it is not known


class AskEnergy(NamedTuple):
    """Ask for the joules that the compute hosts have drawn since date 0."""


Decision = (
    Execute
    | Reject
    | Kill
    | CallAt
    | Register
    | RegisterProfile
    | Registering
    | SetMetadata
    | ChangeState
    | WaitingTime
    | AskEnergy
)
