"""How far a run can be from the best that any scheduler could have done with the same jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from batfill.base.errors import BatfillError
from batfill.base.tables import AsDict, label_html
from batfill.base.words import duration
from batfill.model.invariants import require_at_most
from batfill.model.schedule import Schedule
from batfill.model.values import number_from
from batfill.replays.result import Result
from batfill_lab.bound import least_delay

if TYPE_CHECKING:
    from batfill.model.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Certificate(AsDict):
    """A bound on the mean wait of the jobs that have ended in a run, and the run's distance from it."""

    mean_wait_bound_s: float  # no scheduler has a lower mean wait; see `batfill_lab.bound`
    turnaround_ratio: float  # the mean turnaround over the least one by that bound, at least 1

    def as_text(self) -> str:
        """One line."""
        return (
            f"no scheduler has a mean wait below {duration(self.mean_wait_bound_s)}; "
            f"mean turnaround {self.turnaround_ratio:,.4f} times its bound"
        )

    def _repr_html_(self) -> str:
        """The line, for notebooks."""
        return label_html([("lower bound", self.as_text())])


def certificate(run: Result | Schedule, rounds: int | None = None) -> Certificate:
    """The mean wait that no scheduler can beat with the jobs that have ended in a run; longer work than the replay.

    In a closed replay another scheduler would have other submissions, so the bound is for these submissions alone.

    Args:
        run: a replay's result or schedule.
        rounds: effort, see `batfill_lab.bound.least_delay`.

    Raises:
        InternalError: the run is better than the bound, so one of them is wrong.

    Examples:
        >>> import batfill as bf
        >>> found = certificate(bf.replay("workloads/sample.json", "saf"))
        >>> found.turnaround_ratio >= 1
        True
    """
    schedule = run.schedule if isinstance(run, Result) else run
    if not isinstance(schedule, Schedule):
        raise BatfillError(f"certificate: {run!r:.60} is not the result of a replay; `replay` returns one")
    rounds = None if rounds is None else number_from("rounds", rounds, 0)
    ran, jobs = schedule.ended, schedule.jobs
    submit_s, runtime_s = jobs.submit_s[ran], schedule.runtime_s[ran]
    if len(submit_s) == 0:
        return Certificate(0.0, 1.0)
    available = None if schedule.calendar is None else schedule.available()
    delay_s = max(0.0, *least_delay(submit_s, runtime_s, jobs.procs[ran], schedule.size, rounds, available))
    least_s, mean_wait_s = delay_s / len(submit_s), float(schedule.wait_s[ran].mean())
    require_at_most("the lower bound", least_s, mean_wait_s, lambda: schedule.runtime_s, jobs.ids)
    ran_s = float(runtime_s.mean())
    bound_s = least_s + ran_s
    turnaround_s = float((schedule.start_s[ran] - submit_s + runtime_s).mean())
    return Certificate(least_s, turnaround_s / bound_s if bound_s > 0 else 1.0)
