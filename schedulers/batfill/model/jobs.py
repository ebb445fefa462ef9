"""The job table: one workload as a struct of arrays, checked when it is made, and the clock of its dates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, fields
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from batfill.base.errors import LARGEST, WorkloadError, whole_from
from batfill.base.tables import JobRows, KeptRows, ReadOnly, is_settled, read_only, same_values
from batfill.base.words import duration
from batfill.model.given import classes_in, seconds_in, texts_in, whole_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

HOUR_S = 3600
DAY_S = 86_400
WEEK_S = 7 * DAY_S

# A job's class as the workload states it, before anything is learned.
UNKNOWN, LARGE, SMALL = -1, 0, 1

# For jobs of a log that ran longer than requested: raise p~ to p; end them at p~; or run them past it, p~ uncorrected.
Overrun = Literal["keep", "kill", "extend"]
# What stands in for a request that the log does not have; a number is a limit in seconds.
Unrequested = Literal["refuse", "runtime", "none", "queue", "user-max"] | float
# Rows of a log that were cancelled while they waited: left out, or jobs that wait until then.
Cancelled = Literal["drop", "wait"]

NO_REQUEST = "have no requested time"  # in the warning that requests are missing
FEW = 0.01  # requests missing or raised are a note up to this share of the jobs, and a warning above it
RUN_TIME_STANDS_IN = (
    "their true run time stands in for it, which no scheduler knows beforehand; figures that depend on requests "
    "(backfilling, orders by requested time, classes) do not show what such a scheduler would do"
)
STANDS_IN = {
    "none": "they have no limit, and are never expected to end",
    "queue": "the longest request of their queue stands in for it, or the log's MaxRuntime",
    "user-max": "the longest run time of their user's jobs that had ended stands in for it, or else of anyone's",
}

TAKES = "takes_"  # begins the names of columns of amounts
# 30,000 years: no date or duration of a log exceeds it. Sums of thousands of them are exact in a float64.
LONGEST_S = 1e12


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Jobs(ReadOnly, KeptRows):
    """One workload: its jobs by column, ordered by (submit_s, ids as strings), and where they come from.

    Every column has shape (n_jobs,), and is read-only. A row's index is the job's `seq`: the last tie-break of every
    order. Times are float64 that hold whole seconds for archive logs (exact up to 2^53) and may be fractional for
    Batsim workloads.

    Jobs are checked once, when they are made: jobs that no engine can run, or that are out of order, are refused with a
    `WorkloadError`. `job_table` makes them from columns of other types, in any order; `select` and
    `stating` make some of them, or say more of them, without another check.

    Two are equal if their jobs, machine, clock and choices are, whatever file they come from.

    Examples:
        >>> import numpy as np
        >>> jobs = job_table("two jobs", ids=np.array(["b", "a"], object), submit_s=np.array([60.0, 0.0]),
        ...     runtime_s=np.array([10.0, 20.0]), walltime_s=np.array([60.0, 60.0]), procs=np.array([1, 4]))
        >>> jobs.ids.tolist()
        ['a', 'b']
        >>> jobs.select(np.array([1, 0]))
        Traceback (most recent call last):
        batfill.base.errors.WorkloadError: rows [1, 0] are not in ascending order; sort them before you select
    """

    ids: NDArray[Any]  # str, unique: objects, or for logs numpy's StringDType, which takes 16 B each
    submit_s: NDArray[np.float64]  # r    seconds since the workload's origin, >= 0
    runtime_s: NDArray[np.float64]  # p    true duration: the engine and the metrics read it, a policy never does
    walltime_s: NDArray[np.float64]  # limit, > 0, where the job is ended; inf for none
    request_s: NDArray[np.float64]  # what the user asked, > 0, or what stands in for it; inf for nothing
    asked: NDArray[np.bool_]  # whether the user did: learners see only such requests
    procs: NDArray[np.int64]  # q    processors, 1 to LARGEST; may exceed the machine (such jobs are rejected)
    user: NDArray[np.int64]  # the submitting user's number, -1 if unknown
    job_class: NDArray[np.int8]  # SMALL, LARGE or UNKNOWN, as the workload states
    killable: NDArray[np.bool_] | None = None  # whether the job may be killed and restarted; None: all may
    urgent: NDArray[np.bool_] | None = None  # whether the job goes before all others, as an option says; None: unsaid
    cancel_after_s: NDArray[np.float64] | None = None  # so long after r its user cancels it, inf: never; None: none is
    waited_s: NDArray[np.float64] | None = None  # the wait at the site; nan or None if unknown; no scheduler reads it
    amounts: NDArray[np.void] | None = None  # float64 fields by name: what jobs state that they take; nan for nothing
    computing: NDArray[np.bool_] | None = None  # whether hosts compute in the part that ends the job; None: in none
    fails: NDArray[np.bool_] | None = None  # whether the job returns another code than 0; None: no job does
    row: NDArray[np.int64] | None = None  # its place in its log, if that has another order
    log: Any = None  # the `SwfLog` behind them, if it is asked for: also the rows that are no jobs
    system: str | None = None  # the batch system whose accounting it is
    own_end: bool = False  # a job with p = p~ ended by itself, as in logs; in Batsim, at its walltime
    outlives: bool = False  # overrun is "extend": orders, backfilling and reservations read `request_s`
    name: str = ""  # the file's name, or its generator
    size: int | None = None  # m    the machine's processors, where the source says it
    digest: str = ""  # sha256 of the source's bytes as stored, hexadecimal; "" if there is no file
    notes: tuple[str, ...] = ()  # what reading dropped or changed, with counts, one line each
    clock: Clock | None = None  # the date of the jobs' second 0, where the source says it
    overrun: Overrun = "keep"  # see `read_workload`, as the next two
    unrequested: Unrequested = "refuse"
    cancelled: Cancelled = "drop"
    file: Path | None = None  # the source; None if generated
    timezone: str | None = None  # for accounting logs, see `read_workload`
    cores_per_resource: int | None = None  # for OAR's accounting logs
    speed: float | None = None  # of the hosts, in operations per second, by which jobs that compute were timed
    doubts: tuple[str, ...] = ()  # what could not be read of the jobs' further fields, one line each
    source: InitVar[str] = "the job table"  # what error messages call the jobs
    entering: InitVar[bool] = False  # whether they come from outside, where every run time is finite

    def __post_init__(self, source: str, entering: bool) -> None:
        """Make the columns read-only; refuse jobs that no engine can run. Run times may become infinite later."""
        super(Jobs, self).__post_init__()
        n = len(self)
        for name, column in self.stored().items():
            if column.shape != (n,):
                raise WorkloadError(
                    f"{source}: column {name} has shape {column.shape}, not ({n},); give one value per job"
                )
        for name, what, is_valid, rule in CHECKS:
            values = getattr(self, name)
            if values is None:
                continue
            good = is_valid(values)
            if entering and name == "runtime_s":
                good &= np.isfinite(values)
            if not good.all():
                row = int(np.argmin(good))
                raise WorkloadError(
                    f"{source}: {n - int(good.sum())} of {n} jobs have {what} that is not {rule} "
                    f"(first: job {self.ids[row]}, {what} {values[row]}); correct or drop them"
                )
        after = in_order(self.submit_s, self.ids)
        if not after.all():
            row = int(np.argmax(~after)) + 1
            first, second = (f"job {self.ids[place]}" for place in (row - 1, row))
            raise WorkloadError(
                f"{source}: rows are not in the order of (submit_s, ids): {second} at {self.submit_s[row]:g} follows "
                f"{first} at {self.submit_s[row - 1]:g}; make the table with `job_table`"
            )

    def __len__(self) -> int:
        return len(self.submit_s)

    def stored(self) -> dict[str, NDArray[Any]]:
        """The columns that there are, as stored."""
        return {f.name: column for f in fields(self) if isinstance(column := getattr(self, f.name), np.ndarray)}

    def stating(self, **about: Any) -> Jobs:
        """The same jobs with another name, machine, clock, or other notes or choices (`ABOUT`); no column changes.

        Raises:
            WorkloadError: a name is none of these, or the size no number of processors.
        """
        if others := sorted(about.keys() - ABOUT):
            raise WorkloadError(f"{others[0]} cannot be stated of jobs; the machine's processors are their size")
        if about.get("size") is not None:
            about["size"] = checked_size(about.get("name", self.where), about["size"])
        return self._with(about)

    def _with(self, changes: dict[str, Any]) -> Jobs:
        """A copy with these fields, which are not checked again."""
        other = object.__new__(Jobs)
        for f in fields(self):
            object.__setattr__(other, f.name, changes.get(f.name, getattr(self, f.name)))
        return other

    @property
    def where(self) -> Path | str:
        """The file, or else the name, as messages say it."""
        return self.file or self.name

    @property
    def jobs(self) -> Jobs:
        """These, as a workload is its jobs."""
        return self

    @property
    def expected_s(self) -> NDArray[np.float64]:
        """p~, what a scheduler without predictions expects: the limit, or, with `outlives`, the request below it."""
        return np.minimum(self.request_s, self.walltime_s) if self.outlives else self.walltime_s

    @property
    def asked_s(self) -> NDArray[np.float64]:
        """The requests of users, what learners may see; nan if unknown."""
        return np.where(self.asked, self.request_s, np.nan)

    @property
    def is_cancelled(self) -> NDArray[np.bool_]:
        """The jobs that their users cancel, unless they have ended before."""
        return np.isfinite(self.cancel_s)

    @property
    def cancel_s(self) -> NDArray[np.float64]:
        """When; inf for never."""
        never = np.broadcast_to(np.inf, len(self))
        return never if self.cancel_after_s is None else self.submit_s + self.cancel_after_s

    @property
    def invented(self) -> NDArray[np.bool_]:
        """The jobs with a limit although their log has no request."""
        return ~self.asked & np.isfinite(self.walltime_s)

    def n_missing(self, unrequested: Unrequested) -> int:
        """The number of jobs whose log should have a request; a workload may also state that a job has no limit."""
        return int((self.invented if unrequested == "refuse" else ~self.asked).sum())

    @property
    def raised(self) -> NDArray[np.bool_]:
        """The jobs that ran longer than their request, or what stands in for it, and whose visible p~ was raised."""
        return (self.request_s < np.minimum(self.walltime_s, self.runtime_s)) & (not self.outlives)

    @property
    def nbytes(self) -> int:
        """The memory of the columns; ids that are Python objects count as the first one."""
        n_bytes = sum(column.nbytes for column in self.stored().values())
        return n_bytes + (len(self) * getsizeof(self.ids[0]) if len(self) and self.ids.dtype == object else 0)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Jobs:
        """These rows only.

        Args:
            rows: a mask of shape (n_jobs,), ascending row numbers, or a slice that goes forward.

        Raises:
            WorkloadError: the rows are in another order, which would give wrong starts, or repeat.
        """
        try:
            numbers = np.arange(len(self))[rows][: 2 if isinstance(rows, slice) else None]
        except (IndexError, ValueError, TypeError, OverflowError):
            numbers = np.zeros((0, 0), np.intp)
        if numbers.ndim != 1 or (not isinstance(rows, slice) and len(rows) and int(np.min(rows)) < 0):
            raise WorkloadError(f"rows {rows!r:.60} are neither a mask of {len(self):,} jobs nor row numbers from 0")
        if not (numbers[1:] > numbers[:-1]).all():
            first = max(int(np.argmin(numbers[1:] > numbers[:-1])) - 1, 0)
            shown = ", ".join(str(number) for number in numbers[first : first + 4].tolist())
            more = "..., " * (first > 0), ", ..." * (first + 4 < len(numbers))
            raise WorkloadError(
                f"rows [{more[0]}{shown}{more[1]}] are not in ascending order; sort them before you select"
            )
        return self._with({name: read_only(column[rows]) for name, column in self.stored().items()})

    def columns(self) -> dict[str, NDArray[Any]]:
        """The jobs as columns for tables, and the amounts that they take; nan or None means unknown, or no limit."""
        classes = np.array(["large", "small", None], object)[self.job_class]  # UNKNOWN is -1, the last
        amounts = () if self.amounts is None else self.amounts.dtype.names or ()
        after_s = np.where(self.is_cancelled, self.cancel_s - self.submit_s, np.nan)
        return {
            "job_id": self.ids.astype(object),
            "user": self.user,
            "submit_s": self.submit_s,
            "runtime_s": self.runtime_s,
            "walltime_s": np.where(np.isinf(self.walltime_s), np.nan, self.walltime_s),
            "requested_s": self.asked_s,
            "procs": self.procs,
            **({} if self.cancel_after_s is None else {"cancel_after_s": after_s}),
            "class": classes,
            **{f"{TAKES}{name}": self.amounts[name] for name in amounts},  # type: ignore[index]
        }

    def about(self) -> dict[str, Any]:
        """The provenance of the columns; `read_workload` makes an equal workload of a frame that has it."""
        clock = self.clock.as_dict() if self.clock else None
        known = {"own_end": self.own_end, "outlives": self.outlives, "clock": clock}
        return {"workload": self.name, "sha256": self.digest, "procs": self.size, **known}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Jobs):
            return NotImplemented
        may = (np.ones(len(one), bool) if one.killable is None else one.killable for one in (self, other))
        return all(same_values(getattr(self, name), getattr(other, name)) for name in SAME) and same_values(*may)

    def __hash__(self) -> int:
        return hash((len(self), float(self.submit_s.sum()), int(self.procs.sum()), self.size))

    def with_read(self, fields: set[str]) -> Jobs:
        """The same without the doubts and notes that nothing reads these fields of the jobs."""
        doubts = tuple(line for line in self.doubts if not any(unread(name) in line for name in fields))
        asked = tuple(f" --pool {name.partition('-')[0]}=N" for name in fields)
        notes = tuple(line for line in self.notes if not line.endswith(asked))
        return self if (doubts, notes) == (self.doubts, self.notes) else self.stating(doubts=doubts, notes=notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt figures of these jobs, one line each; every host and every result shows them."""
        return (*request_warnings((self,), self.unrequested), *self.doubts, *self.size_warnings)

    @property
    def size_warnings(self) -> tuple[str, ...]:
        """The lines of `warnings` on jobs wider than the machine, and on its load."""
        if self.size is None:
            return ()
        rows = ~self.is_cancelled
        runtime_s = np.minimum(self.runtime_s, self.walltime_s)[rows]
        return size_warnings(self.submit_s[rows], runtime_s, self.procs[rows], self.size)

    @property
    def invented_warning(self) -> tuple[str, ...]:
        """The line of `warnings` on jobs without a request, if there is one."""
        return request_warning(self.n_missing(self.unrequested), len(self), stand_in(self.unrequested))

    @property
    def choices(self) -> dict[str, Any]:
        """How its jobs were read; what became of cancelled ones only if it is not the usual."""
        waits = {"cancelled": self.cancelled} if self.cancelled != "drop" else {}
        return {"overrun": self.overrun, "unrequested": self.unrequested, **waits}

    @property
    def reading(self) -> str:
        """The same in words."""
        return ", ".join(f"{name} {value}" for name, value in self.choices.items())

    def rows(self) -> list[tuple[str, str]]:
        """Summary, as rows of (label, text)."""
        span_s = float(self.submit_s[-1] - self.submit_s[0]) if len(self) else 0.0
        users = len(np.unique(self.user[self.user >= 0]))
        begun = []
        if self.clock is not None and len(self):
            date = self.clock.date(float(self.submit_s[0]))
            begun.append(("first job", f"{date:%Y-%m-%d %H:%M} ({self.clock.zone_name})"))
        return [
            ("workload", self.name),
            ("machine", "unknown" if self.size is None else f"{self.size:,} processors"),
            ("jobs", f"{len(self):,} of {users or 'an unknown number of'} users"),
            ("submitted", f"over {duration(span_s)}"),
            *begun,
            *(("warning", warning) for warning in self.warnings),
            *(("note", note) for note in self.notes),
        ]

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the work submitted each day as the processors that it would keep busy, beside the machine's.

        Returns matplotlib's axes. Needs matplotlib.

        Args:
            axes: where to draw; by default a new figure's.
        """
        from batfill.base.axes import axes_of

        axes = axes_of(axes)
        ran_s = np.minimum(self.runtime_s, self.walltime_s)
        days = np.zeros(0) if not len(self) else np.arange(self.submit_s[-1] // DAY_S + 1)
        work = np.bincount((self.submit_s // DAY_S).astype(np.int64), weights=ran_s * self.procs, minlength=len(days))
        axes.stairs(work / DAY_S, np.append(days, len(days)), fill=True, alpha=0.6, label="submitted")
        if self.size is not None:
            axes.axhline(self.size, color="0.3", linewidth=1, label="the machine")
        axes.set(xlabel="days", ylabel="processors")
        axes.legend(frameon=False)
        return axes


def refuse_cancelled(jobs: Jobs, source: object, what: str) -> None:
    """Refuse jobs that their users cancel; `what` does not know them."""
    if n := int(jobs.is_cancelled.sum()):
        raise WorkloadError(
            f"{source}: {n:,} jobs are cancelled while they wait, and are not for {what}; read with cancelled drop"
        )


def in_order(submit_s: NDArray[np.float64], ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows but the first follow the one before by (submit_s, ids); so does nan, which is refused."""
    after = ~(submit_s[1:] < submit_s[:-1])
    tied = np.flatnonzero(submit_s[1:] == submit_s[:-1])
    after[tied] = ids[tied + 1] > ids[tied]
    return np.asarray(after)


def in_time(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (values >= 0) & (values <= LONGEST_S)


def is_limit(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return in_time(values) & (values > 0)


def are_amounts(values: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which of these records are of amounts, each a float64, or nan for none."""
    if values.dtype.names is None or any(kind != "f8" for kind, *_ in (values.dtype.fields or {}).values()):
        return np.zeros(len(values), bool)
    found: NDArray[np.bool_] = np.ones(len(values), bool)
    for name in values.dtype.names:
        found &= ~(values[name] < 0)
    return found


# What may be stated of jobs without another look at them.
ABOUT = frozenset(
    (
        *("name", "size", "digest", "notes", "clock", "overrun", "unrequested", "file", "timezone", "speed", "doubts"),
        *("cores_per_resource", "log", "system", "cancelled"),
    )
)
# What equal jobs have in common, besides who may be killed.
SAME = (
    *("ids", "submit_s", "runtime_s", "walltime_s", "request_s", "asked", "procs", "user", "job_class", "computing"),
    *("fails", "own_end", "outlives", "size", "clock", "overrun", "unrequested", "cancelled", "cancel_after_s"),
)
UNREAD = "not modelled: the field"
TIME, LIMIT = f"a number from 0 to {LONGEST_S:g}", f"a number > 0 and <= {LONGEST_S:g}"
# The valid values of the columns of a job table that are not free: the name, what a value is, and the rule, for kernels
# and for people.
CHECKS: tuple[tuple[str, str, Callable[[NDArray[Any]], NDArray[np.bool_]], str], ...] = (
    ("submit_s", "a submission time", in_time, TIME),
    ("runtime_s", "a run time", lambda p: in_time(p) | np.isposinf(p), TIME),
    ("walltime_s", "a requested time", lambda limit: is_limit(limit) | np.isposinf(limit), LIMIT),
    (
        "request_s",
        "a user's request",
        lambda limit: is_limit(limit) | np.isposinf(limit),
        f"{LIMIT}, or inf for none",
    ),
    ("cancel_after_s", "a time until it is cancelled", lambda s: is_limit(s) | np.isposinf(s), f"{LIMIT}, or inf"),
    ("procs", "a number of processors", lambda q: (q >= 1) & (q <= LARGEST) & (q == np.floor(q)), whole_from(1)),
    ("waited_s", "a wait", lambda wait: in_time(wait) | np.isnan(wait), f"{TIME}, or nan"),
    ("amounts", "amounts", are_amounts, "numbers >= 0, or nan"),
    ("job_class", "a class", lambda each: (each >= UNKNOWN) & (each <= SMALL), "known"),
)


def checked_size(source: object, procs: int) -> int:
    if isinstance(procs, bool) or not isinstance(procs, (int, np.integer)) or not 1 <= procs <= LARGEST:
        raise WorkloadError(f"{source}: a machine of {procs!r} processors; give its size (procs), {whole_from(1)}")
    return int(procs)


def zone_named(name: str) -> tzinfo | None:
    """The time zone of this name; None if this system has none."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


@dataclass(frozen=True, slots=True)
class Clock:
    """The Unix time of a log's second 0, and its users' time zone."""

    unix_start_s: int
    zone: tzinfo

    def date(self, at_s: float) -> datetime:
        """The date of a second of the log, in the users' time zone."""
        return datetime.fromtimestamp(self.unix_start_s + at_s, self.zone)

    def later(self, by_s: float) -> Clock:
        """The clock of a log that begins `by_s` seconds later."""
        return Clock(self.unix_start_s + round(by_s), self.zone)

    @property
    def zone_name(self) -> str:
        """The zone: its name in the time zone database, or its offset from UTC, as UTC+01:00."""
        return str(getattr(self.zone, "key", None) or self.zone)

    def as_dict(self) -> dict[str, int | str]:
        """For JSON; `of` reads it."""
        return {"unix_start_s": self.unix_start_s, "zone": self.zone_name}

    @classmethod
    def of(cls, stored: dict[str, int | str]) -> Clock:
        """The clock from `as_dict`; a zone unknown on this machine becomes UTC."""
        name = str(stored["zone"])
        if name.startswith("UTC"):
            offset = datetime.strptime(f"{name[3:] or '+00:00'}", "%z").utcoffset()
            return cls(int(stored["unix_start_s"]), timezone(offset or timedelta(0)))
        return cls(int(stored["unix_start_s"]), zone_named(name) or UTC)

    def second(self, date: datetime) -> float:
        """The second of the log at this date."""
        return date.timestamp() - self.unix_start_s

    def second_of(self, text: str) -> float:
        """The second of the log at this date in the users' time zone, such as 2012-02-03 or 2012-02-03 00:00:00.

        Raises:
            ValueError: there is no such date.
        """
        return self.second(datetime.fromisoformat(" ".join(text.split())).replace(tzinfo=self.zone))


def unread(field: str) -> str:
    return f"{UNREAD} {field} of "


def size_warnings(submit_s: NDArray[Any], runtime_s: NDArray[Any], procs: NDArray[Any], size: int) -> tuple[str, ...]:
    """A line if jobs are wider than the machine, and one if all of them, or those that fit, overload it."""
    if not len(procs):
        return ()
    work, wide = runtime_s * procs.astype(np.float64), procs > size
    whole, fitting, span_s = float(work.sum()), float(work[~wide].sum()), float(np.ptp(submit_s))
    found = []
    if n_wide := int(wide.sum()):
        share = 100 * (1 - fitting / max(whole, 1.0))
        found.append(
            f"{share_text(n_wide, len(procs))}, {share:.1f} % of the work, are wider than the machine's {size:,} "
            f"processors, so replays leave them out (the widest: {int(procs.max()):,}); --procs states another size"
        )
    if span_s >= DAY_S and whole > size * span_s:
        without = f" ({fitting / (size * span_s):.2f} without the wider ones)" if n_wide else ""
        found.append(
            f"the jobs offer {whole / (size * span_s):.2f} times the work that {size:,} processors can do between the "
            f"first and the last submission{without}; above 1 waits grow to the end of the log"
        )
    return tuple(found)


def request_warnings(tables: Sequence[Jobs], unrequested: Unrequested) -> tuple[str, ...]:
    """A line if more than `FEW` of all these jobs have no request of their own, and one if as many had it raised."""
    n_jobs = sum(len(jobs) for jobs in tables)
    missing = sum(jobs.n_missing(unrequested) for jobs in tables)
    raised = sum(int(jobs.raised.sum()) for jobs in tables)
    return (*request_warning(missing, n_jobs, stand_in(unrequested)), *raised_warning(raised, n_jobs, unrequested))


def request_warning(missing: int, n_jobs: int, consequence: str = RUN_TIME_STANDS_IN) -> tuple[str, ...]:
    """One line if more than `FEW` of the jobs lack a requested time; `consequence`: of what replaces it."""
    if missing <= FEW * n_jobs:
        return ()
    return (f"{share_text(missing, n_jobs)} {NO_REQUEST}: {consequence}",)


def raised_warning(raised: int, n_jobs: int, unrequested: Unrequested | None = None) -> tuple[str, ...]:
    if raised <= FEW * n_jobs:
        return ()
    other = "" if unrequested in ("refuse", "runtime") else ", or than what stands in for it"
    return (
        f"{share_text(raised, n_jobs)} ran longer than they had asked for{other}; their request was raised to their "
        "run time, which no scheduler knows beforehand (--overrun keep; kill and extend leave it as it was)",
    )


def refuse_unrequested(
    source: object,
    missing: int,
    n_jobs: int,
    unrequested: Unrequested,
    remedy: str = "say what stands in for it with",
) -> None:
    """Refuse to replay jobs of which more than `FEW` have no request, unless it is stated what stands in for it.

    `source` begins the message; `remedy`: what to do with the option that it names.
    """
    if unrequested == "refuse" and missing > FEW * n_jobs:
        raise WorkloadError(
            f"{source}: {share_text(missing, n_jobs)} have no requested time; {remedy} "
            "--unrequested runtime, none, SECONDS, queue or user-max (in Python and campaigns: unrequested)"
        )


def share_text(part: int, n_jobs: int) -> str:
    return f"{part:,} of {n_jobs:,} jobs ({100 * part / n_jobs:.1f} %)"


def stand_in(unrequested: Unrequested) -> str:
    if unrequested in ("refuse", "runtime"):
        return RUN_TIME_STANDS_IN
    limit = STANDS_IN.get(str(unrequested), f"a limit of {unrequested} s stands in for it")
    return f"{limit} (unrequested {unrequested}); figures that depend on requests depend on this choice"


def job_table(
    source: str = "the job table",
    *,
    submit_s: ArrayLike,
    runtime_s: ArrayLike,
    walltime_s: ArrayLike,
    procs: ArrayLike,
    size: int | None = None,
    ids: ArrayLike | None = None,
    request_s: ArrayLike | None = None,
    asked: ArrayLike | None = None,
    user: ArrayLike | None = None,
    job_class: ArrayLike | None = None,
    own_end: bool = False,
    outlives: bool = False,
    killable: ArrayLike | None = None,
    cancel_after_s: ArrayLike | None = None,
    waited_s: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | NDArray[np.void] | None = None,
    computing: ArrayLike | None = None,
    fails: ArrayLike | None = None,
) -> Jobs:
    """A checked and ordered table of these columns, each of shape (n_jobs,), in any order.

    A column is an array, a list, or a Series; an array that could still be changed is copied. Durations may be
    timedeltas, and submissions dates, which count from the first one's second. `batfill.read` makes a workload of a
    whole data frame.

    Args:
        source: what error messages call the workload, usually its path.
        submit_s: seconds, from 0 to LONGEST_S.
        runtime_s: seconds, from 0 to LONGEST_S.
        walltime_s: seconds, > 0 and <= LONGEST_S; inf for a job without a limit.
        procs: from 1 to LARGEST.
        size: the machine's processors; a replay needs them, here or as its `procs`.
        ids: unique; they break ties in submission time, as strings, like Batsim. By default 1, 2, ...
        request_s: the user's request, or what stands in for it, > 0 and <= LONGEST_S; nan if unknown. By default the
            walltime, and unknown for a job without one.
        asked: whether the user made it; by default where it is known.
        user: the user's number; -1 (the default) if unknown.
        job_class: "small", "large" or None (the default), or SMALL, LARGE and UNKNOWN.
        own_end: whether a job with p = p~ ended by itself.
        outlives: whether the scheduler reads the request in place of the walltime, which a job may outlive
            (`overrun="extend"`).
        killable: whether a job may be killed and restarted; None: all may.
        cancel_after_s: how long after its submission its user cancels a job that has not ended; inf or nan for never.
        waited_s: the wait at the site, >= 0; nan if unknown.
        amounts: by name, what the jobs take beside processors, >= 0; watts, GB or pieces; nan for nothing.
        computing: whether hosts compute in the part that ends a job, which then ends by itself at p = p~; None: none.
        fails: whether a job returns another code than 0; None: none does.

    Raises:
        WorkloadError: a value is out of range or of another type (the message names the first such job), or an id
            occurs twice.

    Examples:
        >>> from datetime import datetime, timedelta
        >>> jobs = job_table(submit_s=[datetime(2026, 1, 5, 8), datetime(2026, 1, 5, 9)], runtime_s=[300, 20],
        ...     walltime_s=[timedelta(minutes=10)] * 2, procs=[4, 2])
        >>> jobs.submit_s.tolist(), jobs.walltime_s.tolist(), jobs.ids.tolist()
        ([0.0, 3600.0], [600.0, 600.0], ['1', '2'])
    """

    def own(values: NDArray[Any], given: ArrayLike) -> NDArray[Any]:
        shared = not is_settled(values) and np.may_share_memory(values, np.asarray(given))
        return values.copy() if shared else values

    def seconds(name: str, values: ArrayLike) -> NDArray[np.float64]:
        found, dated = seconds_in(source, name, values)
        if dated is not None and name != "submit_s":
            raise WorkloadError(f"{source}: column {name} has dates; give durations, or numbers of seconds")
        return own(found, values)

    def whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
        return own(whole_in(source, name, values), values)

    submit_s = seconds("submit_s", submit_s)
    n = submit_s.size
    ids = np.array([str(number) for number in range(1, n + 1)], object) if ids is None else own(texts_in(ids), ids)
    walltime_s = seconds("walltime_s", walltime_s)
    request_s = (
        np.where(np.isfinite(walltime_s), walltime_s, np.nan) if request_s is None else seconds("request_s", request_s)
    )
    return table_in_order(
        source,
        name=source,
        size=None if size is None else checked_size(source, size),
        ids=ids,
        submit_s=submit_s,
        runtime_s=seconds("runtime_s", runtime_s),
        walltime_s=walltime_s,
        request_s=np.where(np.isnan(request_s), walltime_s, request_s),
        asked=np.isfinite(request_s) if asked is None else np.array(asked, bool),
        procs=whole("procs", procs),
        user=np.full(n, -1, np.int64) if user is None else whole("user", user),
        job_class=np.full(n, UNKNOWN, np.int8) if job_class is None else own(classes_in(source, job_class), job_class),
        own_end=own_end,
        outlives=outlives,
        overrun="extend" if outlives else "keep",
        killable=None if killable is None else np.array(killable, bool),
        cancel_after_s=None if cancel_after_s is None else np.fmin(seconds("cancel_after_s", cancel_after_s), np.inf),
        waited_s=None if waited_s is None else seconds("waited_s", waited_s),
        amounts=None if amounts is None else records_of(source, n, amounts),
        computing=None if computing is None else np.array(computing, bool),
        fails=None if fails is None else np.array(fails, bool),
    )


def records_of(source: str, n: int, amounts: Mapping[str, ArrayLike] | NDArray[np.void]) -> NDArray[np.void]:
    names = (amounts.dtype.names or ()) if isinstance(amounts, np.ndarray) else tuple(amounts)
    records = np.zeros(n, [(str(name), "f8") for name in names])
    for name in names:
        try:
            records[str(name)] = np.asarray(amounts[name], np.float64).reshape(n)
        except (TypeError, ValueError):
            raise WorkloadError(f"{source}: amounts: {name} is not {n} numbers; give one per job") from None
    return records


def table_in_order(source: str, **columns: Any) -> Jobs:
    ids, submit_s = columns["ids"], columns["submit_s"]
    if not (ids[1:] > ids[:-1]).all() and _any_twice(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise WorkloadError(f"{source}: job id {twice} occurs more than once; ids must be unique")
    if len(ids) == len(submit_s) and not in_order(submit_s, ids).all():
        by_id = np.argsort(ids, kind="stable")
        order = by_id[np.argsort(submit_s[by_id], kind="stable")]
        for name, column in columns.items():
            if isinstance(column, np.ndarray) and len(column) == len(order):
                columns[name] = column[order]
    return Jobs(**columns, source=source, entering=True)


def is_frame(given: object) -> bool:
    """Whether it has columns by name: a frame of pandas or polars, an Arrow table, a dict."""
    return not isinstance(given, (str, JobRows)) and any(hasattr(given, name) for name in ("keys", "column_names"))


def workload_of_frame(
    frame: Any, procs: int | None = None, unrequested: Unrequested | None = None, name: str = "the data frame"
) -> Jobs:
    """The workload in the columns of a frame, named as those of `Jobs.to_pandas` or the arguments of `job_table`.

    The frame is of pandas or polars, an Arrow table, or a dict. Columns takes_NAME are amounts. Others are left out,
    and a note names them. The frame's `attrs` may have `procs`, and the name before `name`.
    """
    names = [str(column) for column in getattr(frame, "column_names", None) or list(frame)]
    timed = {"submit", "runtime", "walltime", "requested"}  # `submit` also means `submit_s`
    argument_of = {"job_id": "ids", "class": "job_class", "requested_s": "request_s"}
    given = {column: f"{column}_s" if column in timed else column for column in names}
    columns = {argument_of.get(argument, argument): frame[column] for column, argument in given.items()}
    about = dict(getattr(frame, "attrs", {}))
    name = str(about.get("workload", name))
    needed = ("submit_s", "runtime_s", "walltime_s", "procs")
    if missing := [column for column in needed if column not in columns]:
        raise WorkloadError(
            f"{name}: no column {missing[0]}; its columns are {', '.join(names) or 'none'}; rename or add it"
        )
    dated = seconds_in(name, "submit_s", columns["submit_s"])[1]
    walltime_s = seconds_in(name, "walltime_s", columns["walltime_s"])[0]
    taken = {"ids", "request_s", "user", "job_class", "cancel_after_s", *needed} & columns.keys()
    amounts = {column.removeprefix(TAKES): columns[column] for column in columns if column.startswith(TAKES)}
    chosen = {column: columns[column] for column in taken} | {
        "amounts": amounts or None,
        "walltime_s": np.where(np.isnan(walltime_s), np.inf, walltime_s),
        **{kind: bool(about.get(kind, False)) for kind in ("own_end", "outlives")},
    }
    jobs = job_table(name, **chosen)
    clock = Clock.of(about["clock"]) if about.get("clock") else None
    left_out = [column for column in columns if column not in taken and not column.startswith(TAKES)]
    size = about.get("procs") if procs is None else procs
    return jobs.stating(
        name=name,
        size=None if size is None else checked_size(name, size),
        notes=(f"columns left out: {', '.join(left_out)}",) if left_out else (),
        clock=clock if dated is None else Clock(dated, UTC),
        unrequested="refuse" if unrequested is None else unrequested,
    )


def _any_twice(ids: NDArray[Any]) -> bool:
    """Whether an id occurs more than once; in order, because a set of all ids takes more memory than a job table."""
    in_order = np.sort(ids, kind="stable")
    return bool((in_order[1:] == in_order[:-1]).any())
