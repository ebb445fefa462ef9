"""What a scheduler may decide, in the members of Batsim 4's events: what the simulation reads, and the scheduler says.

A job is named with its workload's name, `w0!12`. `batsim5.py` says what batfill decides in Batsim 5's words.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from batfill.model.jobs import LONGEST_S

# A text without what would end its row of the result file, for readers of any kind, or the text within it.
WritableText = Annotated[str, Meta(pattern='\\A[^"\\x00-\\x08\\x0a-\\x1f\\x7f\\x85\\u2028\\u2029]*\\Z')]


class Decision(Struct, forbid_unknown_fields=True):
    """The base of all: an unknown member may ask for something that is not simulated."""


class Execute(Decision):
    """Start a waiting job."""

    job_id: str
    alloc: str  # such as "0-3 7"
    mapping: dict[str, int | str] | UnsetType = UNSET  # each executor's place within these; one on each by default


class Reject(Decision):
    """Reject a waiting job."""

    job_id: str


class Kill(Decision):
    """Kill running jobs."""

    job_ids: Annotated[list[str], Meta(min_length=1)]


class CallAt(Decision):
    """Call the scheduler at a date."""

    timestamp: Annotated[float, Meta(le=LONGEST_S)]


class Register(Decision):
    """Add a job and submit it now."""

    job_id: str
    job: dict[str, Any]  # as in Batsim 4's workloads


class RegisterProfile(Decision):
    """Add a profile, and its workload if that is new."""

    workload_name: str
    profile_name: str
    profile: dict[str, Any]  # as in Batsim 4's workloads


class Notify(Decision):
    """Set whether more jobs may be registered."""

    type: Literal["registration_finished", "continue_registration"]


class SetMetadata(Decision):
    """Attach a text to a job, for the result file."""

    job_id: str
    metadata: WritableText


class ChangeState(Decision):
    """Declare that a job runs or has ended outside the simulated machines."""

    job_id: str
    job_state: str


class Nothing(Decision):
    """An object without members."""


class Energy(Decision):
    """The joules that the compute hosts have drawn since date 0."""

    consumed_energy: Nothing


class Query(Decision):
    """Ask the simulation for something."""

    requests: Energy


class Waiting(Struct):
    """How long a job that is not submitted would wait."""

    job_id: str
    estimated_waiting_time: float  # -1 if it is not known


class Answer(Decision):
    """Answer the simulation's question."""

    estimate_waiting_time: Waiting
