"""Estimates of when waiting jobs start: from an ensemble, with intervals that past starts calibrate."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.files import json_text
from batfill.base.tables import KeptRows, ReadOnly, as_table
from batfill.base.version import __version__
from batfill.base.words import percent, things, wrapped
from batfill_site.starts.past import NEVER_S
from batfill_site.starts.why_not import Instants, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from batfill.model.jobs import Clock, Jobs
    from batfill.model.options import Options
    from batfill_site.starts.ensemble import Ensemble, Moment
    from batfill_site.starts.past import Past

SHARE = 0.8  # of the starts lie within the intervals
OUTSIDE = (1 - SHARE) / 2  # on each side
WIDENED = 0.2  # logarithm of the factor by which intervals are wider than the forks', before any start is known
STEP = 0.15  # of that logarithm, for a start outside
MARGIN, MARGIN_S = 0.05, 60.0  # added to the forks' spread, as a share of the time until the start, and besides
FEWEST_STARTS = 20  # past starts from which on an interval is said to hold so many


class Found(NamedTuple):
    """Estimates of jobs, each (n,); dates are in seconds."""

    rows: NDArray[np.intp]  # in the past
    start_s: NDArray[np.float64]
    from_s: NDArray[np.float64]
    to_s: NDArray[np.float64]


class Forecast:
    """Estimates from instant to instant; each start that follows one calibrates the next intervals.

    The interval's sides are the forks' deciles, stretched by two factors. A start outside raises the factor of its
    side, one within lowers both, so that in the long run a tenth is outside on each (adaptive conformal inference,
    Gibbs and Candes, NeurIPS 2021, on the logarithm of the factor).
    """

    def __init__(self, past: Past, ensemble: Ensemble) -> None:
        """`past` is updated by the caller, through `ended`."""
        self.past, self.ensemble = past, ensemble
        self.widened = np.full(2, WIDENED)
        self.promised: dict[int, tuple[float, float]] = {}  # by row, the first interval of each job that waits
        self.calibrated_on = 0

    def started(self, row: int, start_s: float) -> None:
        """Record the start of a job."""
        if (interval := self.promised.pop(row, None)) is not None:
            outside = np.array([start_s < interval[0], start_s > interval[1]])
            self.widened += STEP * (outside - OUTSIDE)
            self.calibrated_on += 1

    def estimate(self, moment: Moment, asked: NDArray[np.bool_]) -> Found:
        """Estimates for the jobs asked for, bool (known,), which wait at `moment`."""
        start_s = self.ensemble.starts(moment, self.past, asked)
        start_s = np.sort(np.where(np.isnan(start_s), moment.now_s + NEVER_S, start_s), axis=0)
        middle_s = quantile(start_s, 0.5)
        away_s = start_s - middle_s
        stretched_s = middle_s + away_s * np.where(away_s < 0, *np.exp(self.widened))
        margin_s = MARGIN * (middle_s - moment.now_s) + MARGIN_S
        lower_s, upper_s = quantile(stretched_s, OUTSIDE), quantile(stretched_s, 1 - OUTSIDE)
        from_s = np.maximum(lower_s - np.exp(self.widened[0]) * margin_s, moment.now_s)
        to_s = upper_s + np.exp(self.widened[1]) * margin_s
        rows = moment.past_rows[asked]
        if not self.past.ends and np.isinf(self.past.jobs["request_s"][moment.past_rows]).any():
            from_s[:] = moment.now_s  # in the forks jobs without a request do not end, which they may at any time
        unbounded = self.unbounded(moment)[asked]
        middle_s, from_s, to_s = (np.where(unbounded, np.nan, column) for column in (middle_s, from_s, to_s))
        for row, first_s, last_s in zip(rows.tolist(), from_s.tolist(), to_s.tolist(), strict=True):
            if not math.isnan(first_s):
                self.promised.setdefault(row, (first_s, last_s))
        return Found(rows, middle_s, from_s, to_s)

    def unbounded(self, moment: Moment) -> NDArray[np.bool_]:
        """Which jobs, bool (known,), need processors of jobs without a request, while no run time is known at all."""
        queue, unbounded = moment.queue, np.zeros(len(moment.rows), bool)
        unlimited = np.isinf(self.past.jobs["request_s"][moment.past_rows])
        if self.past.ends or not unlimited.any():
            return unbounded
        procs, places = queue.jobs["procs"], {row: place for place, row in enumerate(moment.rows.tolist())}
        bounded = queue.size - int(procs[moment.rows[unlimited & ~moment.waits]].sum())
        for row in in_order(queue, moment.now_s):
            unbounded[places[row]] = procs[row] > bounded
            bounded -= int(procs[row]) * bool(unlimited[places[row]])
        return unbounded


def quantile(ordered: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    """As numpy's, of values in order along the first axis: that takes much longer for a few values."""
    place = part * (len(ordered) - 1)
    low = ordered[int(place)]
    found: NDArray[np.float64] = low + (ordered[math.ceil(place)] - low) * (place - int(place))
    return found


class State(NamedTuple):
    """The jobs that are estimated, and what is known of them."""

    name: str
    jobs: Jobs
    names: NDArray[Any]  # (n_jobs,), the jobs' ids
    clock: Clock | None
    options: Options
    left_out: Mapping[str, str] | None = None  # jobs of a site that do not wait for processors alone, and why


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(ReadOnly, KeptRows):
    """When the waiting jobs are expected to start, with intervals, and why each does not start now.

    Examples:
        >>> import batfill as bf
        >>> soon = bf.when(bf.Replay("workloads/sample.json", "saf").run(until_s=100_000))
        >>> soon["job_id"].tolist()
        ['023', '038']
    """

    found: Found
    why: tuple[str, ...]
    state: State
    now_s: float
    size: int
    waiting: int  # how many jobs wait, those not asked for included
    forks: int
    seed: int
    calibrated_on: int  # starts

    @property
    def at_site(self) -> bool:
        """Whether the state is a site's, and not a replay's."""
        return self.state.left_out is not None

    @property
    def left_out(self) -> Mapping[str, str]:
        """Jobs of a site that do not wait for processors alone, and why."""
        return self.state.left_out or {}

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every job by column, in order of submission: its estimated `start_s` and the interval `from_s` to `to_s`.

        These are nan where the start depends on jobs without a request and no job has ended. `why` says why it does
        not start now.
        """
        found, columns = self.found, self.state.jobs.select(self.found.rows).columns()
        return {
            "job_id": self.state.names[found.rows].astype(object),
            **{name: columns[name] for name in ("procs", "requested_s", "submit_s")},
            "start_s": found.start_s,
            "from_s": found.from_s,
            "to_s": found.to_s,
            "why": np.array(self.why, object),
        }

    def about(self) -> dict[str, Any]:
        """The instant, the machine, and how the estimates were made."""
        clock = self.state.clock
        return {
            "now_s": self.now_s,
            "procs": self.size,
            "waiting": self.waiting,
            "share": SHARE if self.is_calibrated else None,
            "forks": self.forks,
            "seed": self.seed,
            "calibrated_on": self.calibrated_on,
            "options": self.state.options.as_dict(),
            "clock": clock.as_dict() if clock else None,
            "left_out": [{"job_id": name, "why": why} for name, why in self.left_out.items()],
            "version": __version__,
        }

    def as_dict(self) -> dict[str, Any]:
        """For JSON; None is unknown."""
        jobs = [{name: None if value != value else value for name, value in row.items()} for row in self]
        return {**self.about(), "jobs": jobs}

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    @property
    def is_calibrated(self) -> bool:
        """Whether past starts suffice to say how many starts an interval holds."""
        return self.calibrated_on >= FEWEST_STARTS

    @property
    def interval(self) -> str:
        """What heads the intervals: "80 % between", if past starts tell."""
        return f"{percent(SHARE)} between" if self.is_calibrated else "perhaps between"

    @property
    def how(self) -> str:
        """How the estimates were made, in a line."""
        on = f"calibrated on {self.calibrated_on:,} starts"
        if not self.is_calibrated:
            why = f"only {things(self.calibrated_on, 'past start')}" if self.calibrated_on else "no past starts"
            why = "first starts of tries are not known" if self.state.options.kills else why
            on = f"not calibrated ({why}), so how many starts they hold is unknown"
        on += "; add the jobs that have ended" * (self.at_site and not self.is_calibrated)
        made = f"{self.state.options.as_text()}; {self.forks} simulated futures; intervals {on}"
        lacks = "partitions, GPUs, priorities, limits and outages" if self.at_site else "outages and limits"
        return f"{made}. These are starts of a replay: what it does not know, as {lacks}, moves real ones."

    @property
    def head(self) -> str:
        """How many jobs wait, and whether the estimates are of one alone."""
        jobs = f"{things(self.waiting, 'waiting job')} on {things(self.size, 'processor')}"
        return f"{jobs}; this is job {self[0]['job_id']}" if len(self) == 1 < self.waiting else jobs

    @property
    def without(self) -> str:
        """How many jobs are left out, and why: "2 jobs left out: Dependency 2"; or nothing."""
        for_what = Counter(self.left_out.values()).most_common()
        these = ", ".join(f"{why} {number:,}" for why, number in for_what)
        return f"{things(len(self.left_out), 'job')} left out: {these}" if these else ""

    def as_text(self) -> str:
        """A table to read, and a line for each job."""
        instants = Instants(self.now_s, self.state.clock)
        head = f"{instants.full(self.now_s)}: {self.head}"
        head += f"\n{wrapped(self.without)}" * bool(self.without)
        if not self.why:
            return head
        rows = [
            {
                "job": row["job_id"],
                "procs": row["procs"],
                "expected": instants.text(row["start_s"]),
                self.interval: instants.between(row["from_s"], row["to_s"]),
            }
            for row in self
        ]
        why = "\n".join(["why not now", *(wrapped(f"{row['job_id']:12} {row['why']}", " " * 13) for row in self)])
        return f"{head}\n\n{as_table(rows)}\n\n{why}\n\n{wrapped(self.how)}"

    __repr__ = as_text
