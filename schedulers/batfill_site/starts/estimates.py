"""The answer of `batfill when`: when each waiting job is expected to start, and why it does not start now."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from batfill.base.errors import BatfillError
from batfill.base.tables import KeptRows, read_only
from batfill.base.version import __version__
from batfill.base.words import in_a_row, percent, things
from batfill.model.jobs import Clock
from batfill_pages.words import duration_html
from batfill_site.answer import Answer, Answered, Detail, Screen, Span, Spans, Table
from batfill_site.starts.forecast import FEWEST_STARTS, SHARE
from batfill_site.starts.past import Past
from batfill_site.starts.why_not import Instants, listed

MOST_ROWS = 12  # on the screen
MOST_LEFT_OUT = 0.05  # of the waiting jobs: beyond it the answer begins with a caution
DATES = ("submit_s", "start_s", "from_s", "to_s")
NEVER_STARTS = "can never start"  # of what is left out; it delays no other job
COLUMNS: dict[str, type] = {"job_id": object, "procs": np.int64, "requested_s": np.float64}
COLUMNS |= dict.fromkeys(DATES, np.float64) | {"why": object}
HOW = (
    "The model goes on from this state {forks} times, with run times drawn from what each user's last jobs ran of "
    "their requests, and arrivals from the last days. The expected start is the median; the interval goes from the "
    "lowest to the highest tenth, stretched by how far past starts were from what was expected of them."
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Answered, KeptRows):
    """When the waiting jobs are expected to start, with intervals, and why each does not start now.

    Examples:
        >>> import batfill as bf
        >>> soon = bf.when(bf.Replay("workloads/sample.json", "saf").run(until_s=100_000))
        >>> soon["job_id"].tolist()
        ['023', '038']
    """

    name: str  # of the state
    jobs: dict[str, NDArray[Any]]
    now_s: float
    size: int
    waiting: int  # how many jobs wait, those not asked for included
    forks: int
    seed: int
    calibrated_on: int  # starts
    clock: Clock | None
    model: str  # in words,
    lacks: str  # and what it does not know
    more: dict[str, Any]  # about the model, for JSON
    left_out: Mapping[str, str] = field(default_factory=dict)  # jobs that do not wait for processors alone, and why
    assumed: str = ""  # of the site and the jobs asked about
    asked: bool = False  # whether the jobs are not queued, each alone
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, past: Past, rows: Sequence[tuple[Any, ...]], *, origin_s: float = 0.0, asked: bool = False, **about: Any
    ) -> Self:
        """Estimates of these rows of `COLUMNS`, whose dates, as those of the past, count from another second."""
        if asked and all(row[4] == math.inf for row in rows):
            said = "; ".join(f"{row[0]!r:.80}: {row[-1]}" for row in rows)
            raise BatfillError(f"option submit: {said}; ask for less, or for another place")
        jobs: dict[str, NDArray[Any]] = {
            name: np.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(COLUMNS.items())
        }
        jobs = {name: read_only(column - origin_s if name in DATES else column) for name, column in jobs.items()}
        waiting = int(np.isnan(past.start_s[past.alive]).sum())
        return cls(jobs=jobs, now_s=past.now_s - origin_s, waiting=waiting, asked=asked, **about)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every job by column, in order of submission: its estimated `start_s` and the interval `from_s` to `to_s`.

        These are nan where the start depends on jobs without a request and no job has ended, and inf for a job asked
        about that can never start. `why` says why it does not start now.
        """
        return self.jobs

    def about(self) -> dict[str, Any]:
        """The instant, the machine, and how the estimates were made."""
        return {
            "now_s": self.now_s,
            "procs": self.size,
            "waiting": self.waiting,
            "share": SHARE if self.is_calibrated else None,
            "forks": self.forks,
            "seed": self.seed,
            "calibrated_on": self.calibrated_on,
            "clock": self.clock.as_dict() if self.clock else None,
            "left_out": [{"job_id": name, "why": why} for name, why in self.left_out.items()],
            "version": __version__,
            **self.more,
        }

    @property
    def is_calibrated(self) -> bool:
        """Whether past starts suffice to say how many starts an interval holds."""
        return self.calibrated_on >= FEWEST_STARTS

    def answer(self) -> Answer:
        """In a headline, a table, lines and details."""
        rows, instants, job = list(self), Instants(self.now_s, self.clock), "" if self.asked else "Job "
        share = f"{percent(SHARE)} between" if self.is_calibrated else "perhaps between"
        shown = (self.jobs[name].tolist() for name in ("job_id", "procs", "start_s", "from_s", "to_s"))
        cells = [
            (name, f"{procs:,}", instants.text(start_s), instants.between(*within))
            for name, procs, start_s, *within in zip(*shown, strict=True)
        ]
        head = ("asked" if self.asked else "job", "processors", "expected", share)
        why = {f"{job}{row['job_id']}": f"{row['why']}." for row in rows}
        every, lost = self.waiting + len(self.left_out), len(self.left_out)
        reasons = Counter(self.left_out.values())
        left_out = ", ".join(f"{why} ({number:,})" for why, number in reasons.most_common())
        said = f"{lost:,} of {things(every, 'waiting job')} left out, so starts may be expected too early: {left_out}"
        cautions = [said] * (bool(rows) and lost - reasons[NEVER_STARTS] > MOST_LEFT_OUT * every)
        on = f"calibrated on {self.calibrated_on:,} past starts."
        if not self.is_calibrated:
            found = f"only {things(self.calibrated_on, 'past start')}" if self.calibrated_on else "no past starts"
            on = f"not calibrated ({found}), so how many starts they hold is unknown; add the jobs that have ended."
        lines = {
            "Left out": f"{things(lost, 'job')}: {left_out}." if left_out and not cautions else "",
            "Intervals": on if rows else "",
            **why,
        }
        made = f"Made with {self.model}. What that does not know, as {self.lacks}, moves real starts."
        made += " Jobs that were cancelled while they waited are left out, and those that wait now are not cancelled."
        return Answer(
            title=f"{self.name}: when {'these' if self.asked else 'waiting'} jobs are expected to start",
            about=f"{things(self.waiting, 'waiting job')} on {things(self.size, 'processor')} "
            f"at {instants.full(self.now_s)}",
            screen=Screen(self.headline(instants), Table(head, cells[:MOST_ROWS], left=3), lines),
            picture=self.picture(cells[:MOST_ROWS]),
            details=[
                *([Detail("All waiting jobs", [], Table(head, cells, left=3))] if len(rows) > MOST_ROWS else []),
                Detail("How the estimates are made", [HOW.format(forks=self.forks), made]),
                *([Detail("Notes on the state and the configuration", self.warnings)] if self.warnings else []),
            ],
            cautions=cautions,
            data={
                **self.about(),
                "cautions": cautions,
                "jobs": [
                    {name: None if value == math.inf or value != value else value for name, value in row.items()}
                    for row in rows
                ],
            },
            assumed=self.assumed,
            more="All jobs, and how they were estimated",
            guide="how-to/when",
        )

    def headline(self, instants: Instants) -> str:
        if not len(self):
            return "No job waits for processors alone"
        first_s = float(np.fmin.reduce(self.jobs["start_s"]))
        if math.isnan(first_s):
            return "No start can be expected: run times without a limit decide it"
        at = instants.text(first_s)
        names = [each["job_id"] for each in self if instants.text(each["start_s"]) == at]
        job = f"**{in_a_row(names) if self.asked else listed(names, 'Job')}**"
        if first_s == self.now_s:
            return f"{job} would start now"
        first = " first," if len(self) > len(names) else ""
        return f"{job} {'is' if len(names) == 1 else 'are'} expected to start{first} at {at}"

    def picture(self, cells: Sequence[tuple[str, ...]]) -> Spans:
        dates_s = np.array([self.jobs[name] for name in ("from_s", "start_s", "to_s")])[:, : len(cells)] - self.now_s
        last_s = float(np.max(dates_s, initial=0.0, where=np.isfinite(dates_s))) or 1.0
        spans = [
            Span(name, low, middle, high, between)
            for (name, *_, between), (low, middle, high) in zip(cells, (dates_s / last_s).T.tolist(), strict=True)
            if math.isfinite(low)
        ]
        return Spans(spans, f"From now to {duration_html(last_s)} later. The mark in a bar is the expected start.")
