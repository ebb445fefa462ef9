"""The final states of jobs, and the names of tries: what every host says of a job."""

from __future__ import annotations

SUCCESS, FAILED = "COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED"
WALLTIME_REACHED, KILLED, REJECTED = "COMPLETED_WALLTIME_REACHED", "COMPLETED_KILLED", "REJECTED"
CANCELLED = "CANCELLED"
# A job's final states: Batsim's term, and the one for pages. Batsim does not know the last.
STATES = {
    SUCCESS: "completed",
    FAILED: "failed",
    WALLTIME_REACHED: "ended at its walltime",
    KILLED: "killed",
    REJECTED: "rejected",
    CANCELLED: "cancelled by its user",
}
CUT, REQUEUED, REFUSED, LEFT = (list(STATES).index(state) for state in (WALLTIME_REACHED, KILLED, REJECTED, CANCELLED))


def try_name(job: str, number: int) -> str:
    """The name of a try: the first has the job's, later ones add their number, as in the plug-in."""
    return f"{job}#{number}" if number else job
