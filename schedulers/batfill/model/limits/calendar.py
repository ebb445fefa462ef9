"""A calendar: windows in which processors, or a part of another pool, are unavailable.

Times are seconds of the log, or dates of its clock.

>>> maintenance = Calendar.of([{"kind": "announced", "begin": 3600, "end": 7200, "processors": 64}])
>>> maintenance.away_proc_s(0, 5400)
115200.0
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.files import csv_text
from batfill.model.limits.dates import Change, as_field, date_of, in_time, read_rows, require_one_form, second
from batfill.model.limits.pools import amount_of, amount_text, rejected, wanted
from batfill.model.values import finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock, Jobs
    from batfill.model.limits.pools import Pool

ANNOUNCED, FAILURE = KINDS = ("announced", "failure")
COLUMNS = ("kind", "begin", "end", "processors", "announced", "machines", "pool")
NEEDED = COLUMNS[:4]
REMEDY = (
    f"a calendar is a CSV file with the columns {','.join(NEEDED)}, and {COLUMNS[4]} if it is not always known; "
    "machines may replace processors for a kept plan, and with a name in pool they are an amount of that one"
)
MOST_WINDOWS = 20_000
TAKES_NONE = 2**60  # beside what a job takes of a pool, if that is nothing
PROCS = re.compile(r"-?[0-9]{1,15}")
SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")  # of machines


class Window(NamedTuple):
    """Processors are unavailable from `begin` on, and available again at `end`. A date is aware of its zone."""

    kind: str  # one of KINDS
    begin: Any
    end: Any  # inf for never
    processors: int
    announced: Any = None  # when an announced window becomes known; None for always
    line: int = 0  # of the file
    machines: str = ""  # which, as `0-3 8`; empty: any
    pool: str = ""  # of which it takes so much instead of processors, in whole base units; empty: processors
    base: str = ""  # that unit

    @property
    def dates(self) -> tuple[Any, Any, Any]:
        return self.begin, self.end, self.announced

    @property
    def amount(self) -> str:
        return amount_text(self.processors, self.base)

    @property
    def changes(self) -> list[Change]:
        """What happens at its begin, at its end, and when it becomes known."""
        fails, pool, n = self.kind == FAILURE, self.pool, self.processors
        since_s = self.begin if fails else -math.inf if self.announced is None else self.announced
        dates = [Change(self.begin, pool, -n, since_s, int(fails)), Change(self.end, pool, n, since_s, 0)]
        dates += [Change(since_s, pool, 0, since_s, 0)] * (-math.inf < since_s < self.begin)
        return [date for date in dates if date.at_s < math.inf]


# What no window can be, and why.
WRONG: tuple[tuple[Callable[[Window], Any], str], ...] = (
    (lambda w: w.kind not in KINDS, f"kind {{w.kind!r:.60}} is none of {', '.join(KINDS)}"),
    (lambda w: w.processors < 1, "{w.processors} {of} are none; give at least 1, or drop the line"),
    (
        lambda w: w.pool and (w.kind == FAILURE or w.machines),
        "only processors fail, and have machines; announce what {of} lacks",
    ),
    (
        lambda w: w.end != math.inf and not w.begin < w.end,
        "ends at {w.end}, and begins at {w.begin}; the end comes after the begin",
    ),
    (
        lambda w: w.announced is not None and w.kind == FAILURE,
        "a failure is known when it happens; leave announced empty",
    ),
    (
        lambda w: w.announced is not None and not w.announced <= w.begin,
        "announced at {w.announced}, after its begin at {w.begin}",
    ),
)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows in which processors are unavailable, as `calendar` of a replay.

    Raises:
        BatfillError: a window is impossible.
    """

    windows: tuple[Window, ...]
    name: str = "calendar"
    digest: str = ""  # the sha256 of the file; of the file with these windows if there is none
    remedy: ClassVar[str] = REMEDY

    def __post_init__(self) -> None:
        if len(self.windows) > MOST_WINDOWS:
            raise BatfillError(
                f"{self.name}: {len(self.windows):,} windows are too many, since each decision plans around all "
                f"that are to come; give at most {MOST_WINDOWS:,}, or join windows"
            )
        for number, window in enumerate(self.windows):
            require_one_form(self.place(number), window.dates)
        require_one_form(self.name, [date for window in self.windows for date in window.dates])
        for window in self.windows:
            self.check(window)
        if not self.digest:
            object.__setattr__(self, "digest", hashlib.sha256(self.as_csv().encode()).hexdigest())

    def check(self, window: Window) -> None:
        """Refuse a window that cannot be."""
        for is_wrong, what in WRONG:
            if is_wrong(window):
                raise self.wrong(window, what.format(w=window, of=window.pool or "processors"))

    def place(self, number: int) -> str:
        """Where a window is, for messages."""
        line = self.windows[number].line
        return f"{self.name}: {f'line {line}' if line else f'window {number + 1}'}"

    def wrong(self, window: Window, what: str) -> BatfillError:
        """The error that this is wrong with a window."""
        return BatfillError(f"{self.place(self.windows.index(window))}: {what}")

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], name: str = "calendar", digest: str = "") -> Self:
        """The calendar of rows that have a file's columns; values are text, numbers or datetimes.

        Raises:
            BatfillError: a row is no window.
        """
        if not isinstance(rows, Iterable):
            raise BatfillError(f"{name}: {rows!r:.60} are not rows; give a dict for each window")
        windows = []
        for number, row in enumerate(rows, 1):
            line = row.get("line", 0) if isinstance(row, Mapping) else 0
            windows.append(window_of(f"{name}: {f'line {line}' if line else f'window {number}'}", row, cls.remedy))
        return cls(tuple(windows), name, digest)

    @classmethod
    def read(cls, path: Path) -> Calendar:
        """The calendar in a file.

        Raises:
            BatfillError: it cannot be read, or a line is no window.
        """
        rows, digest = read_rows(path, COLUMNS, NEEDED[:3], REMEDY)
        return cls.of(rows, str(path), digest)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The windows as `of` takes them, for JSON."""
        return [
            {
                **dict(zip(COLUMNS, (*window[:5], window.machines, window.pool), strict=True)),
                "end": finite(window.end),
                "processors": None if window.machines else window.amount,
                "line": window.line,
            }
            for window in self.windows
        ]

    def as_csv(self) -> str:
        """The windows as a file."""
        pooled = any(window.pool for window in self.windows)
        rows = [
            [w.kind, as_field(w.begin), as_field(w.end), w.amount, as_field(w.announced), *[w.pool] * pooled]
            for w in self.windows
        ]
        return csv_text([[*COLUMNS[:5], *["pool"] * pooled], *rows])

    def on(self, clock: Clock | None) -> Self:
        """The same in seconds of a log with this clock.

        Raises:
            BatfillError: there are dates and no clock.
        """
        made = []
        for number, window in enumerate(self.windows):
            begin, end, announced = (second(self.place(number), date, clock) for date in window.dates)
            made.append(window._replace(begin=begin, end=end, announced=announced))
        return replace(self, windows=tuple(made))

    def require_form(self, *, by_ids: bool) -> None:
        """Refuse windows that name machines without being of a kept plan, or do not though they are."""
        for window in self.windows:
            if window.machines and not by_ids:
                raise self.wrong(window, "names machines, and only processors are counted here; give their number")
            if by_ids and (window.pool or not window.machines):
                has = f"is of {window.pool}" if window.pool else "has a number of processors"
                raise self.wrong(window, f"{has}, and a kept plan is of machines; name them")
            if by_ids and window.announced is not None:
                raise self.wrong(window, "is announced at a date, and a kept plan knows all windows; leave that empty")

    def require_machine(self, size: int, pools: Iterable[Pool] = (), ids: Iterable[int] | None = None) -> None:
        """Refuse windows in seconds that do not fit a machine with so many processors and these pools.

        Args:
            size: m.
            pools: what jobs take beside processors.
            ids: of the machines that compute, for a kept plan; None to count processors.
        """
        self.require_form(by_ids=ids is not None)
        known = set(ids or ())
        for window in self.windows if ids is not None else ():
            named = {id_ for first, last in spans_of(self.name, window.machines) for id_ in range(first, last + 1)}
            if unknown := sorted(named - known):
                raise self.wrong(window, f"machine {unknown[0]} is unknown; give ids of machines that compute")
        of_name = {pool.name: pool for pool in pools if not pool.of_user}
        for window in self.windows:
            of = of_name.get(window.pool)
            if window.pool and (of is None or of.base != window.base):
                names = ", ".join(pool.text for pool in of_name.values()) or "none"
                raise self.wrong(window, f"takes {window.amount} of {window.pool}, and the machine's pools are {names}")
        self.require_room("", size, f"processors of a machine of {size}", "")
        for pool in of_name.values():
            self.require_room(pool.name, pool.capacity, f"of {pool.text}", pool.base)

    def require_room(self, pool: str, most: int, of: str, base: str) -> None:
        """Refuse windows that together take more of a pool than its capacity, or more processors than there are."""
        windows = [window for window in self.windows if window.pool == pool]
        if wide := [window for window in windows if window.processors > most]:
            raise self.wrong(wide[0], f"takes {wide[0].amount} {of}; give fewer")
        at_s, away = self.away(pool)
        if (away > most).any():
            place = int(np.argmax(away > most))
            together = [window for window in windows if window.begin <= at_s[place - 1] < window.end]
            lines = ", ".join(str(window.line or self.windows.index(window) + 1) for window in together)
            taken = amount_text(sum(window.processors for window in together), base)
            raise self.wrong(
                together[-1],
                f"overlaps others (lines {lines}): together they take {taken} {of}; join them, or make them narrower",
            )

    # In seconds

    @property
    def changes(self) -> list[Change]:
        """The dates of all windows in order."""
        return in_time(date for window in self.windows for date in window.changes)

    def most_kills(self, n_jobs: int) -> int:
        """The most tries that failures can kill, if so many jobs run."""
        return sum(min(window.processors, n_jobs) for window in self.windows if window.kind == FAILURE)

    def away(self, pool: str = "") -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The dates at which windows begin or end, (n,), and what is unavailable before and after, (n + 1,).

        Of processors, or of the pool of this name.
        """
        changes = [date for date in self.changes if date.pool == pool]
        at_s = np.array([date.at_s for date in changes], np.float64)
        return at_s, np.concatenate([[0], np.cumsum([-date.amount for date in changes], dtype=np.int64)])

    def away_proc_s(self, from_s: float, until_s: float, pool: str = "") -> float:
        """The processor-seconds of the windows between two dates, or what is missing of a pool times its seconds."""
        at_s, away = self.away(pool)
        return float((np.diff(np.clip(at_s, from_s, until_s), prepend=from_s, append=until_s) * away).sum())

    def has_gap(self, spare: Mapping[str, int], span_s: float, submit_s: float) -> bool:
        """Whether the windows ever leave what a job wants for so long, as in `gap`."""
        return gap(self.changes, spare, span_s, submit_s)[0] < math.inf

    def require_possible(self, jobs: Jobs, size: int, source: str, pools: Sequence[Pool] = ()) -> None:
        """Refuse a workload with jobs for which no gap is ever wide and long enough."""
        lasts_s = np.minimum(np.minimum(jobs.runtime_s, jobs.walltime_s), jobs.expected_s)
        spare = beside(jobs, size, pools)
        lasting = np.any([left < self.away(name)[1][-1] for name, left in spare.items()], axis=0)
        fits = ~rejected(jobs, size, pools, wanted(pools, jobs))
        stuck = [
            row
            for row in np.flatnonzero(lasting & fits).tolist()
            if not self.has_gap({name: int(n[row]) for name, n in spare.items()}, lasts_s[row], jobs.submit_s[row])
        ]
        if stuck:
            raise BatfillError(never_runs(source, self.name, jobs, stuck))

    def missed(
        self,
        jobs: Jobs,
        size: int,
        pools: Sequence[Pool],
        submit_s: NDArray[np.float64],
        start_s: NDArray[np.float64],
    ) -> list[int]:
        """The jobs that started when all announced windows in their way were over, each gap between too short for them.

        Those windows leave less than the job wants, and the gaps are shorter than its request. nan starts not at all.
        """
        known = replace(self, windows=tuple(window for window in self.windows if window.kind == ANNOUNCED))
        spare, changes = beside(jobs, size, pools), known.changes
        short = np.any([left < known.away(name)[1].max() for name, left in spare.items()], axis=0)
        ends_s = np.sort([window.end for window in known.windows])
        over = np.searchsorted(ends_s, start_s, "right") - np.searchsorted(ends_s, submit_s, "right")
        found = []
        for row in np.flatnonzero(short & (over > 1) & np.isfinite(start_s)).tolist():
            of_row = {name: int(left[row]) for name, left in spare.items()}
            from_s, shorter = gap(changes, of_row, jobs.expected_s[row], submit_s[row])
            if shorter and start_s[row] >= from_s:
                found.append(row)
        return found


def beside(jobs: Jobs, size: int, pools: Iterable[Pool]) -> dict[str, NDArray[np.int64]]:
    """What there is beside what each job wants, (n_jobs,), by pool of the machine; of processors without a name.

    If a job takes nothing of a pool, it is more than any windows take.
    """
    wants = {pool.name: (pool.capacity, pool.amounts(jobs)) for pool in pools if not pool.of_user}
    return {
        name: np.where(n > 0, most - n, TAKES_NONE) for name, (most, n) in {"": (size, jobs.procs), **wants}.items()
    }


def gap(changes: Iterable[Change], spare: Mapping[str, int], span_s: float, submit_s: float) -> tuple[float, int]:
    """The first date from which windows leave what a job wants for so long, after its submission; inf for none.

    `spare`: by pool, of which processors have no name, how much there is beside what it wants. Also returns the number
    of gaps between windows that are shorter, or 0 if another window in its way follows that date.
    """
    spare, from_s, short, shorter, found = dict(spare), submit_s, False, 0, math.inf
    for date in changes:
        if not short and date.at_s - from_s >= span_s:
            found = min(found, from_s)
        if date.pool in spare:
            spare[date.pool] += date.amount
        was, short = short, min(spare.values()) < 0
        if short and not was:
            if found < math.inf:
                return found, 0
            shorter += submit_s < from_s < date.at_s
        if was and not short:
            from_s = max(date.at_s, submit_s)
    return (found if short else min(found, from_s)), shorter


def never_runs(source: str, calendar: str, jobs: Jobs, stuck: list[int]) -> str:
    first = stuck[0]
    return (
        f"{source}: {len(stuck):,} of {len(jobs):,} jobs can never run: {calendar} has no gap for them (first: job "
        f"{jobs.ids[first]}, {jobs.procs[first]} processors from {jobs.submit_s[first]:,.0f} s on); leave them out, or "
        "let the windows end"
    )


def spans_of(where: str, text: str) -> tuple[tuple[int, int], ...]:
    found = [SPAN.fullmatch(word) for word in text.split()]
    spans = sorted((int(one[1]), int(one[2] or one[1])) for one in found if one)
    ordered = all(first <= last for first, last in spans) and all(a[1] < b[0] for a, b in pairwise(spans))
    if None in found or not ordered:
        raise BatfillError(f"{where}: machines {text!r:.60} are not ids, each once; give them as `0-3 8`")
    return tuple(spans)


def calendar_of(name: str, value: Any) -> Calendar:
    if isinstance(value, Calendar):
        return value
    if not isinstance(value, (str, Path)):
        raise BatfillError(f"option {name}: {value!r:.60} is neither a file nor a Calendar")
    return Calendar.read(Path(value))


def window_of(where: str, row: Any, remedy: str) -> Window:
    if not isinstance(row, Mapping):
        raise BatfillError(f"{where}: {row!r:.60} is not a row; give a dict with {', '.join(NEEDED)}")
    if other := [name for name in row if name not in (*COLUMNS, "line")]:
        raise BatfillError(f"{where}: {other[0]!r:.60} is unknown; {remedy}")
    kind, pool, machines = (str(row.get(name) or "").strip() for name in ("kind", "pool", "machines"))
    if machines and row.get("processors") not in (None, ""):
        raise BatfillError(f"{where}: has machines and processors; give one of them")
    if machines:
        row = {**row, "processors": sum(last - first + 1 for first, last in spans_of(where, machines))}
    if lacking := [column for column in NEEDED if row.get(column) in (None, "") and column != "end"]:
        raise BatfillError(f"{where}: has no {lacking[0]}; {remedy}")
    begin, end, announced = (date_of(where, column, row.get(column)) for column in ("begin", "end", "announced"))
    procs, base = str(row["processors"]).strip(), ""
    if pool:
        amount, base = amount_of(where, procs)
        taken = math.ceil(amount)
    elif not PROCS.fullmatch(procs):
        raise BatfillError(f"{where}: {procs!r} is not a number of processors; give a whole number >= 1")
    else:
        taken = int(procs)
    end, line = math.inf if end is None else end, row.get("line", 0)
    return Window(kind, begin, end, taken, announced, line, machines, pool, base)


NO_WINDOWS = Calendar(())
