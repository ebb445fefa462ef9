"""The job table: one workload as a struct of arrays, checked once where it enters, and the clock of its dates."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from batfill.errors import WorkloadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HOUR_S = 3600
DAY_S = 86_400
WEEK_S = 7 * DAY_S

# A job's class as the workload says it, before anything is learned.
UNKNOWN, LARGE, SMALL = -1, 0, 1

FEW_WITHOUT_REQUEST = 0.01  # up to this share of the jobs, missing requests are a note; above it, a warning
RUN_TIME_STANDS_IN = (
    "their true run time stands in for it, which no scheduler knows beforehand; figures that depend on requests "
    "(backfilling, orders by requested time, classes) do not show what such a scheduler would do"
)

# 30,000 years: no date or duration of a log is later. Sums of thousands of them are exact in a float64.
LONGEST_S = 1e12
MOST_PROCS = 2**31 - 1  # Batsim's largest integer


@dataclass(frozen=True, slots=True, eq=False)
class JobTable:
    """One workload, one row per job, ordered by (submit_s, ids as strings). Every column has shape (n_jobs,).

    A row's index is the job's `seq`: the last tie-break of every order. Times are float64 that hold whole seconds for
    archive logs (exact up to 2^53) and may be fractional for Batsim workloads.
    """

    ids: NDArray[np.object_]  # str, unique
    submit_s: NDArray[np.float64]  # r    seconds since the workload's origin, >= 0
    runtime_s: NDArray[np.float64]  # p    true duration: the engine and the metrics read it, a policy never does
    walltime_s: NDArray[np.float64]  # p~   requested limit, > 0; inf where the job has none; the job is ended there
    procs: NDArray[np.int64]  # q    processors, >= 1; may exceed the machine (such a job is rejected at submission)
    user: NDArray[np.int64]  # the submitting user's number, -1 where unknown
    job_class: NDArray[np.int8]  # SMALL, LARGE or UNKNOWN, as the workload says
    own_end: bool = False  # whether a job with p = p~ ended by itself, as logs have it; to Batsim its walltime ended it
    killable: NDArray[np.bool_] | None = None  # whether a try may be killed and the job started again; None: all may
    no_request: NDArray[np.bool_] | None = None  # whether p~ is p because the log has no request; None: no such job

    def __len__(self) -> int:
        return len(self.submit_s)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> JobTable:
        """The table of these rows only; `rows` must keep the order."""
        columns = [(f.name, getattr(self, f.name)) for f in fields(self)]
        chosen: dict[str, Any] = {name: column[rows] for name, column in columns if isinstance(column, np.ndarray)}
        return replace(self, **chosen)

    def check(self, source: str = "the job table", *, entering: bool = False) -> None:
        """Refuse a table that no engine can take.

        Args:
            source: what error messages call it.
            entering: whether it comes from outside: its rows are still to be sorted, and run times must be finite;
                later an infinite one may stand for a job that does not end while anything is looked at.

        Raises:
            WorkloadError: a column's shape or a value is not what it must be (the first such job is named), or the
                rows are not in the order of (submit_s, ids).
        """
        n = len(self)
        for f in fields(self):
            column = getattr(self, f.name)
            if isinstance(column, np.ndarray) and column.shape != (n,):
                raise WorkloadError(
                    f"{source}: column {f.name} has shape {column.shape}, not ({n},); give one value per job"
                )
        limit_s, runs = self.walltime_s, in_time(self.runtime_s)
        if not entering:
            runs |= np.isposinf(self.runtime_s)
        within = f"a number > 0 and <= {LONGEST_S:g}"
        rules = (
            ("a submission time", self.submit_s, in_time(self.submit_s), TIME),
            ("a run time", self.runtime_s, runs, TIME),
            (
                "a requested time",
                limit_s,
                np.isposinf(limit_s) | (in_time(limit_s) & (limit_s > 0)),
                within,
            ),
            ("a number of processors", self.procs, self.procs >= 1, ">= 1"),
            ("a class", self.job_class, (self.job_class >= UNKNOWN) & (self.job_class <= SMALL), "known"),
        )
        for what, values, good, rule in rules:
            if not good.all():
                row = int(np.argmin(good))
                raise WorkloadError(
                    f"{source}: {n - int(good.sum())} of {n} jobs have {what} that is not {rule} "
                    f"(first: job {self.ids[row]}, {what} {values[row]}); mend or drop them"
                )
        if not entering and not (row_in_order := self.in_order()).all():
            row = int(np.argmin(row_in_order)) + 1
            raise WorkloadError(
                f"{source}: rows are not in the order of (submit_s, ids): job {self.ids[row]} at "
                f"{self.submit_s[row]:g} follows job {self.ids[row - 1]} at {self.submit_s[row - 1]:g}; "
                "make the table with `job_table`, or select rows in ascending order"
            )

    def in_order(self) -> NDArray[np.bool_]:
        """Whether each row but the first comes after the one before it, shape (n_jobs - 1,)."""
        after = self.submit_s[1:] > self.submit_s[:-1]
        tied = np.flatnonzero(self.submit_s[1:] == self.submit_s[:-1])
        after[tied] = self.ids[tied + 1] > self.ids[tied]
        return after


TIME = f"a number from 0 to {LONGEST_S:g}"


def in_time(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these dates or durations are possible."""
    return (values >= 0) & (values <= LONGEST_S)


def checked_size(source: object, procs: int) -> int:
    """The machine's size, which must be possible.

    Raises:
        WorkloadError: it is not.
    """
    if not 1 <= procs <= MOST_PROCS:
        raise WorkloadError(f"{source}: a machine of {procs} processors; pass --procs from 1 to {MOST_PROCS}")
    return procs


@dataclass(frozen=True, slots=True)
class Clock:
    """When second 0 of a log was (Unix time), and the zone its users live in."""

    unix_start_s: int
    zone: tzinfo

    def date(self, at_s: float) -> datetime:
        """The date of a second of the log, in the users' zone."""
        return datetime.fromtimestamp(self.unix_start_s + at_s, self.zone)

    def later(self, by_s: float) -> Clock:
        """The clock of what begins that much later."""
        return Clock(self.unix_start_s + round(by_s), self.zone)

    @property
    def zone_name(self) -> str:
        """The zone: its name in the time zone database, or its distance from UTC, as UTC+01:00."""
        return str(getattr(self.zone, "key", None) or self.zone)

    def as_dict(self) -> dict[str, int | str]:
        """For JSON; `of` reads it."""
        return {"unix_start_s": self.unix_start_s, "zone": self.zone_name}

    @classmethod
    def of(cls, stored: dict[str, int | str]) -> Clock:
        """The clock that `as_dict` gave; a zone that this machine does not know is UTC."""
        name = str(stored["zone"])
        if name.startswith("UTC"):
            offset = datetime.strptime(f"{name[3:] or '+00:00'}", "%z").utcoffset()
            return cls(int(stored["unix_start_s"]), timezone(offset or timedelta(0)))
        try:
            return cls(int(stored["unix_start_s"]), ZoneInfo(name))
        except (KeyError, ValueError, OSError):
            return cls(int(stored["unix_start_s"]), UTC)

    def second(self, date: datetime) -> float:
        """The second of the log at which this date was."""
        return date.timestamp() - self.unix_start_s

    def second_of(self, text: str) -> float:
        """The second of the log at this date in the users' zone, as in 2012-02-03 or 2012-02-03 00:00:00.

        Raises:
            ValueError: there is no such date.
        """
        return self.second(datetime.fromisoformat(" ".join(text.split())).replace(tzinfo=self.zone))


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A job table together with where it came from."""

    name: str  # the file's name, or what made it
    jobs: JobTable
    procs: int | None  # m    the machine's size, where the source says it
    digest: str  # sha256 of the source's bytes as stored, hexadecimal; "" where there is no file
    notes: tuple[str, ...] = field(default=())  # what reading dropped or changed, with counts, one line each
    clock: Clock | None = None  # the date of the jobs' second 0, where the source says it

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the figures of these jobs doubtful, one line each; every host and every result shows them."""
        return request_warnings((self.jobs,))


def request_warnings(tables: Sequence[JobTable]) -> tuple[str, ...]:
    """`request_warning` of all these jobs together."""
    missing = sum(int(jobs.no_request.sum()) for jobs in tables if jobs.no_request is not None)
    return request_warning(missing, sum(len(jobs) for jobs in tables))


def request_warning(missing: int, n_jobs: int, consequence: str = RUN_TIME_STANDS_IN) -> tuple[str, ...]:
    """One line if more than `FEW_WITHOUT_REQUEST` of the jobs have no requested time, else none.

    Args:
        missing: how many have none.
        n_jobs: how many jobs there are.
        consequence: what stands in for it, and what that does to the figures.
    """
    if missing <= FEW_WITHOUT_REQUEST * n_jobs:
        return ()
    return (f"{missing:,} of {n_jobs:,} jobs ({missing / n_jobs:.1%}) have no requested time: {consequence}",)


def job_table(
    source: str,
    *,
    ids: NDArray[np.object_],
    submit_s: NDArray[np.float64],
    runtime_s: NDArray[np.float64],
    walltime_s: NDArray[np.float64],
    procs: NDArray[np.int64],
    user: NDArray[np.int64] | None = None,
    job_class: NDArray[np.int8] | None = None,
    own_end: bool = False,
    killable: NDArray[np.bool_] | None = None,
    no_request: NDArray[np.bool_] | None = None,
) -> JobTable:
    """The checked and ordered table of these columns, each of shape (n_jobs,), in any order.

    Args:
        source: what error messages call the workload, usually its path.
        ids: str, unique; ties in submission time are broken by them as strings, as Batsim does.
        submit_s: seconds, from 0 to LONGEST_S.
        runtime_s: seconds, from 0 to LONGEST_S.
        walltime_s: seconds, > 0 and <= LONGEST_S; inf for a job without a limit.
        procs: >= 1.
        user: the user's number; -1 (the default) where unknown.
        job_class: SMALL, LARGE or UNKNOWN (the default).
        own_end: whether a job with p = p~ ended by itself.
        killable: whether a try may be killed and the job started again; None: all may.
        no_request: whether the source has no requested time, so that `walltime_s` is the run time; None: no such job.

    Raises:
        WorkloadError: a value is out of range (the first such job is named), or an id occurs twice.
    """
    n = len(submit_s)
    table = JobTable(
        ids=ids,
        submit_s=submit_s,
        runtime_s=runtime_s,
        walltime_s=walltime_s,
        procs=procs,
        user=np.full(n, -1, np.int64) if user is None else user,
        job_class=np.full(n, UNKNOWN, np.int8) if job_class is None else job_class,
        own_end=own_end,
        killable=killable,
        no_request=no_request if no_request is not None and no_request.any() else None,
    )
    table.check(source, entering=True)
    if not table.in_order().all():
        by_id = np.argsort(ids, kind="stable")
        table = table.select(by_id[np.argsort(submit_s[by_id], kind="stable")])
    if len(set(ids)) != n:
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise WorkloadError(f"{source}: job id {twice} occurs more than once; ids must be unique")
    return table
