"""What a replay found: figures, every job, drawings and files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import json_text, make_folder, place_of, write_json
from batfill.base.tables import KeptRows, ReadOnly, arrow_table
from batfill.base.version import ENGINE, __version__
from batfill.base.words import duration, instant, took
from batfill.model.given import numbers_in
from batfill.model.jobs import TAKES, Jobs
from batfill.model.metrics import Summary, bounded_slowdown, figure_rows, who_pays
from batfill.model.options import Options
from batfill.model.policy import Policy, digests
from batfill.model.states import CUT, FAILED, LEFT, REFUSED, STATES
from batfill.model.values import finite, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from batfill.batsim_files.replayed import Judged
    from batfill.model.jobs import Clock
    from batfill.model.schedule import Schedule
    from batfill.replays.learning import Learned
    from batfill.replays.plots import Plot

WAITING, RUNNING, COMING = "waiting", "running", "not submitted"  # of the jobs of a run that has not ended


def until_of(name: str, value: Any, clock: Clock | None = None) -> float:
    """An instant as the last one of a window: seconds, a duration such as 1h, inf, or a date of the log's clock."""
    if isinstance(value, datetime):
        if clock is None:
            raise BatfillError(f"{name}: {value} is a date, and the workload has no clock; give seconds")
        return clock.second(value if value.tzinfo else value.replace(tzinfo=clock.zone))
    return math.inf if isinstance(value, float) and value == math.inf else seconds_of(name, value)


@dataclass(frozen=True, eq=False, repr=False)
class Result(ReadOnly, KeptRows):
    """The result of a replay: its figures, every job, and everything needed to repeat it.

    Its repr, and its table in a notebook, show the figures. Two are equal if the same options gave the same schedule of
    equal workloads, however long it took.

    Examples:
        >>> import batfill as bf
        >>> fcfs = bf.replay("workloads/sample.json", "fcfs")
        >>> fcfs.figures.jobs, fcfs.ended
        (800, True)
        >>> table = fcfs.to_pandas()
        >>> bool(table.wait_s.mean() == fcfs.figures.mean_wait_s)
        True
    """

    workload: Jobs
    options: Options
    schedule: Schedule
    tau_s: float  # the bound of the bounded slowdown
    figures: Summary  # over the jobs that have ended
    simulate_s: float  # elapsed time of the replay
    read_s: float | None = None  # elapsed time of reading; None for a workload in memory
    learned: Learned | None = None
    changes: tuple[tuple[float, Options], ...] = ()  # the options until these instants, if they were changed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        same = self.workload == other.workload and self.tau_s == other.tau_s and self.stated() == other.stated()
        same = same and self.digests() == other.digests()
        return same and self.changes_as_dicts() == other.changes_as_dicts() and self.schedule == other.schedule

    def __hash__(self) -> int:
        return hash((self.workload, self.figures))

    @property
    def ended(self) -> bool:
        """Whether the replay ran to its end; otherwise the figures cover only the jobs that have ended."""
        return self.schedule.until_s == math.inf

    @property
    def size(self) -> int:
        """The machine's processors."""
        return self.schedule.size

    def as_dict(self) -> dict[str, Any]:
        """Figures first, provenance last."""
        return {
            **self.figures.as_dict(),
            **(self.learned.as_dict() if self.learned else {}),
            **self.who_pays(),
            **self.limits(),
            **({} if self.logged_mean_wait_s is None else {"logged_mean_wait_s": self.logged_mean_wait_s}),
            **({} if self.ended else {"until_s": self.schedule.until_s, "not_ended": self.not_ended}),
            "read_s": self.read_s,
            "simulate_s": self.simulate_s,
            "workload": self.workload.name,
            "workload_sha256": self.workload.digest,
            "workload_notes": list(self.workload.notes),
            "warnings": self.warnings,
            "procs": self.size,
            "tau_s": self.tau_s,
            "options": self.stated(),
            **self.digests(),
            **({"changes": self.changes_as_dicts()} if self.changes else {}),
            "engine": ENGINE,
            "version": __version__,
        }

    @property
    def logged_mean_wait_s(self) -> float | None:
        """The mean wait of the same jobs in the log; None if it has none, or none above 0."""
        waited_s = self.schedule.jobs.waited_s
        return None if waited_s is None or not np.nansum(waited_s) else float(np.nanmean(waited_s))

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the figures, one line each."""
        of_dates = [*self.schedule.unreached(), *self.schedule.missed()] if self.ended else []
        return [*self.workload.warnings, *self.options.warnings, *of_dates, *self.schedule.close_ends()]

    def limits(self) -> dict[str, Any]:
        """`Schedule.limits` for JSON; a calendar's windows as their begins, their ends, None for never, and widths."""
        found: dict[str, Any] = {}
        for name, one in self.schedule.limits():
            if name == "pool":
                found.setdefault("pools", []).append(one.as_dict())
            else:
                found[name] = one.as_dict()
        if self.schedule.calendar is not None:
            windows = self.schedule.calendar.windows
            found["calendar"]["windows"] = [(w.begin, finite(w.end), w.processors) for w in windows if not w.pool]
        return found

    def who_pays(
        self, base: Result | None = None, small_below_s: float | NDArray[np.float64] | None = None
    ) -> dict[str, Any]:
        """The waits of small and large jobs, by width and by user, over the jobs that have ended.

        Args:
            base: a replay of the same jobs, such as one without first tries; each group then also has the share of its
                jobs that wait over an hour longer than there.
            small_below_s: small jobs ran for less than this, in seconds; one number, or one per job of the log, as the
                column `divider_s` of `to_pandas` (nan: unknown). None: the median run time of the jobs that have ended.

        Returns:
            As `metrics.who_pays`.

        Raises:
            BatfillError: the base has other jobs, or `small_below_s` is not one number > 0, nor one per job.

        Examples:
            >>> import batfill as bf
            >>> fcfs, saf = (bf.replay("workloads/sample.json", name) for name in ("fcfs", "saf"))
            >>> small, large = saf.who_pays(base=fcfs)["waits_by_class"]
            >>> small["delayed"], large["delayed"]
            (0.06, 0.0725)
        """
        schedule = self.schedule
        jobs, ran = schedule.jobs, schedule.ended
        if base is not None:
            if not self.same_jobs(base):
                names = f"{self.workload.name} and {base.workload.name}"
                raise BatfillError(f"base: {names} are not the same jobs; replay one workload")
            ran = ran & base.schedule.ended
        border = None if small_below_s is None else numbers_in("small_below_s", "small_below_s", small_below_s)
        border = border[0] if border is not None and not hasattr(small_below_s, "__len__") else border
        if border is not None and (border.shape not in ((), (len(jobs),)) or not (border > 0).any()):
            raise BatfillError(f"small_below_s: neither a number of seconds > 0 nor {len(jobs):,} of them, one per job")
        return who_pays(
            schedule.wait_s[ran],
            runtime_s=schedule.runtime_s[ran],
            procs=jobs.procs[ran],
            user=jobs.user[ran],
            small_below_s=None if border is None else border[ran] if border.ndim else float(border),
            base_wait_s=None if base is None else base.schedule.wait_s[ran],
        )

    def same_jobs(self, other: Result) -> bool:
        """Whether the other replay has the same jobs: equal ids, submissions and widths.

        Raises:
            BatfillError: it is no result of a replay.
        """
        if not isinstance(other, Result):
            raise BatfillError(f"{other!r:.60} is not the result of a replay; `replay` returns one")
        mine, others = self.schedule.jobs, other.schedule.jobs
        return len(mine) == len(others) and all(
            np.array_equal(getattr(mine, name), getattr(others, name)) for name in ("ids", "submit_s", "procs")
        )

    def stated(self) -> dict[str, Any]:
        """Every option of the replay in force, by name, default or not."""
        of_log = self.workload.choices
        if self.workload.speed is not None:
            of_log["speed"] = self.workload.speed
        return {**self.options.as_dict(), "procs": self.size, "tau": self.tau_s, **of_log}

    def policies(self) -> Iterator[Policy | None]:
        """The orders of the queue and of backfilling, those before a change first."""
        for options in (*(before for _, before in self.changes), self.options):
            yield from (options.policy, options.backfill)

    def changes_as_dicts(self) -> list[dict[str, Any]]:
        """The options in force until an instant, for JSON."""
        return [{"until_s": until_s, "options": options.as_dict()} for until_s, options in self.changes]

    @property
    def not_ended(self) -> int:
        """The number of jobs that fit the machine and have neither ended nor been cancelled."""
        return int((~self.schedule.ended & ~self.schedule.rejected & ~self.schedule.left).sum())

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    def rows(self) -> list[tuple[str, str]]:
        """The figures, and the log, machine and options they are for, as rows of (label, text)."""
        reading = "" if self.read_s is None else f"{took(self.read_s)} reading, "
        mean_s, running = self.logged_mean_wait_s, ""
        if not self.ended:
            until = instant(self.schedule.until_s)
            running = (
                f"{self.not_ended:,} of {len(self.schedule.jobs):,} jobs by {until}; the figures are of those that have"
            )
        calendar = self.schedule.calendar
        of_pools = calendar is not None and {bool(window.pool) for window in calendar.windows} == {True}
        return [
            ("workload", f"{self.workload.name} on {self.size:,} processors"),
            *((f"to {instant(until_s)}", before.as_text()) for until_s, before in self.changes),
            ("options", f"{self.options.as_text()}, tau {self.tau_s:g} s, {self.workload.reading}"),
            *([("knowledge", self.learned.as_text())] if self.learned else []),
            *([("not ended", running)] if running else []),
            *figure_rows(self.figures.as_dict(), self.tau_s, of_replay=True),
            *([("in the log", f"these jobs waited {duration(mean_s)} on average")] if mean_s is not None else []),
            *((name, one.as_text()) for name, one in self.schedule.limits() if name != "calendar" or not of_pools),
            ("time", f"{reading}{took(self.simulate_s)} simulating ({ENGINE} {__version__})"),
            *(("warning", warning) for warning in self.warnings),
            *(("note", note) for note in self.workload.notes),
        ]

    def as_text(self) -> str:
        """A table to read."""
        return repr(self)

    def judged(self) -> Judged | None:
        """The scheduler's judgement of each job; None if it treated all jobs alike."""
        from batfill.batsim_files.replayed import Judged

        jobs = self.schedule.jobs
        if self.learned is not None:
            small = self.learned.small if self.learned.knowledge.classifies else None
            return Judged(small, self.learned.probability, self.learned.divider_s)
        if self.options.divider_s == math.inf:
            return None
        small = self.options.calls_small(jobs.job_class, jobs.procs, self.size)
        return Judged(small, np.full(len(jobs), np.nan), np.full(len(jobs), self.options.divider_s))

    def __len__(self) -> int:
        return len(self.schedule.jobs)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every job by column, shape (n_jobs,), in order of submission; nan or None means unknown, or not applicable.

        `job_id`, `user`, `submit_s` (r), `runtime_s` (p, of the log), `walltime_s` (p~, nan for no limit),
        `requested_s` (by the user, nan if unknown; with overrun "extend" it is p~), `procs` (q), `class` as judged
        ("small", "large"), `probability` of being small, `divider_s` in force at the submission, `start_s` and `end_s`
        of the last try, `wait_s`, `bsld`, whether it was `backfilled`, the number of `tries`, and its `state`.
        """
        schedule, judged = self.schedule, self.judged()
        jobs, n_jobs, none = schedule.jobs, len(schedule.jobs), np.full(len(schedule.jobs), np.nan)
        columns = {name: column for name, column in jobs.columns().items() if not name.startswith(TAKES)}
        if judged is not None and judged.small is not None:
            small = np.where(judged.small, "small", "large").astype(object)
            small[schedule.rejected] = None
            columns["class"] = small
        wait_s = schedule.wait_s
        divider_s = none if judged is None else np.where(np.isinf(judged.divider_s), np.nan, judged.divider_s)
        bsld = bounded_slowdown(wait_s, schedule.runtime_s, self.tau_s)
        return {
            **columns,
            "probability": none if judged is None else judged.probability,
            "divider_s": divider_s,
            "start_s": schedule.start_s,
            "end_s": np.where(schedule.over, schedule.end_s, np.nan),
            "wait_s": wait_s,
            "bsld": np.where(schedule.ended, bsld, np.nan),
            "backfilled": schedule.backfilled,
            "tries": np.bincount(schedule.order, minlength=n_jobs),
            "state": self.states(),
        }

    def states(self) -> NDArray[np.object_]:
        """The state of each job in a word, shape (n_jobs,)."""
        schedule, words = self.schedule, list(STATES.values())
        states = np.full(len(schedule.jobs), words[0], object)
        states[schedule.killed] = words[CUT]
        states[schedule.failed] = STATES[FAILED]
        states[~schedule.ended] = COMING
        submitted = schedule.submit_s <= schedule.until_s
        states[~schedule.ended & submitted] = WAITING
        states[~schedule.ended & np.isfinite(schedule.start_s)] = RUNNING
        states[schedule.rejected & submitted] = words[REFUSED]
        states[schedule.left] = words[LEFT]
        return states

    def about(self) -> dict[str, Any]:
        """The provenance of the columns, for the `attrs` of a frame."""
        about = {"workload": self.workload.name, "workload_sha256": self.workload.digest, "options": self.stated()}
        return about | self.digests()

    def digests(self) -> dict[str, Any]:
        """The sha256 of the files of policies and of those with dates."""
        return digests(self.policies()) | self.options.file_digests

    def plot(
        self, kind: Plot = "waits", axes: Axes | None = None, *, from_s: float = 0.0, until_s: float = math.inf
    ) -> Axes:
        """Draw the replay; returns matplotlib's axes. Needs matplotlib.

        Args:
            kind: "waits" (the mean wait of each day's jobs, and the longest), "utilisation" (the share of the
                processors in use), or "gantt" (every job that ran in the window).
            axes: where to draw; by default a new figure's.
            from_s: the begin of the window, in seconds since the workload's origin.
            until_s: its end.

        Raises:
            BatfillError: the kind is unknown, or the window is empty or, for "gantt", has more than 20,000 jobs.
        """
        from batfill.replays.plots import plot_schedule

        return plot_schedule(self.schedule, kind, axes, seconds_of("from_s", from_s), until_of("until_s", until_s))

    def to_arrow(self) -> pa.Table:
        """A row per job; see `columns`. The schema's metadata is `as_json`. Needs pyarrow, not pandas."""
        return arrow_table(self.columns(), {b"batfill.replay": self.as_json().encode()})

    def to_batsim(self, prefix: str | Path) -> None:
        """Write Batsim's result files PREFIX_*.csv, and PREFIX_run.json, as `batfill replay --out PREFIX` does.

        Args:
            prefix: of the files' names, with their folder, which is made if needed.

        Raises:
            BatfillError: the replay has not ended, or a file cannot be written.
        """
        from batfill.batsim_files.replayed import write_batsim_files
        from batfill.batsim_files.results import RUN_JSON, result_file

        if not self.ended:
            raise BatfillError(
                f"{prefix}: {self.not_ended:,} jobs have not ended, which Batsim's files cannot show; run it to its end"
            )
        out = place_of("prefix", prefix)
        make_folder(out.parent)
        write_batsim_files(self.schedule, out, simulate_s=self.simulate_s, judged=self.judged())
        clock = self.workload.clock
        about = {**self.as_dict(), "clock": clock.as_dict() if clock else None}
        if (calendar := self.schedule.calendar) is not None:
            about["pool_windows"] = [(w.begin, finite(w.end), w.processors, w.pool) for w in calendar.windows if w.pool]
        if (gate := self.options.backfill_while) is not None:
            about["gate_periods"] = [(begin, finite(end)) for begin, end in gate.on(clock).periods]
        write_json(result_file(out, RUN_JSON), about)
