"""The machine that a log's jobs ran on, from the log alone: capacity in time, parts, and what holds a waiting job.

Where jobs wait, what is in use is what there is. How long they wait is never read for it, since a smaller machine
explains more of any log.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from batfill.base.errors import LARGEST, BatfillError
from batfill.base.words import things
from batfill.model.jobs import DAY_S, WEEK_S, Clock, Jobs
from batfill.model.limits.calendar import ANNOUNCED, Calendar, Window
from batfill_pages.words import count
from batfill_site.accounting.outages import most_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from batfill_site.score import Logged

Steps = tuple[tuple[float, int], ...]  # from these seconds on so many processors

LOG, HEADER = "log", "header"  # what may be given as the machine, beside a number of processors
PLACES, REST = ("partition", "queue"), "the rest"  # of which parts are, and the others

# The log is looked at so often a week, or a day if it is short.
LOOKS, LONG_S, MOST_BINS = 60, 30 * WEEK_S, 1000
FEWEST = 60  # looks at which jobs wait, for anything to be known
LEAST_WANTED = 0.02  # of the machine, by the jobs that wait
CEILING, BESIDE = 0.95, (0.90, 0.99)  # the quantile of use that counts as capacity, and those that say how sharp it is
SHARP = 0.1  # by how much those may differ, as a share of it
LEVELS = 400  # of use, between which steps are sought
LEAST_STEP_S = {WEEK_S: 8 * WEEK_S, DAY_S: 28 * DAY_S}
LEAST_CHANGE = 0.05  # of capacity, between two steps
PENALTY = 0.05  # of the loss of one level, that a step must save
SELDOM = "jobs wait too seldom to see more"
NEAR = 0.03  # capacities so near the header's are the header's
MOST_WIDE = 0.01  # of the jobs, that may be wider than the machine, or have no known wait

# Parts do not share processors if their ceilings add up to at most so many machines, and to so much less than those of
# shuffled labels; or if one with so many of the jobs has nearly none of the waiting time.
ADD_UP, LESS = 1.1, 0.15
LEAST_JOBS, LEAST_WORK, LEAST_CEILING = 0.01, 0.003, 0.01
NEVER, NEVER_JOBS = 0.002, 0.03

SAMPLES, BLOCKS = 2000, 40  # instants at which a job waits
KNOWN_S, AFTER_S = WEEK_S, 30 * DAY_S  # before it begins a step is known; the last one ends so long after the log


class Part(NamedTuple):
    """Processors that some of the jobs have to themselves."""

    name: str  # "" for the whole machine
    rows: NDArray[np.bool_]  # its jobs, of all
    steps: Steps
    never: bool  # whether its jobs hardly wait
    waiting: float  # the share of the log's waiting time, without wider jobs

    @property
    def size(self) -> int:
        return max(procs for _, procs in self.steps)

    def procs(self, at_s: NDArray[np.float64]) -> NDArray[np.int64]:
        begins, procs = (np.array(column) for column in zip(*self.steps, strict=True))
        return procs[np.maximum(np.searchsorted(begins, at_s, side="right") - 1, 0)]

    def text(self, clock: Clock | None) -> str:
        if self.never:
            return f"{things(int(self.rows.sum()), 'job')} of {self.name}, which hardly waits, are left out"
        (_, first), *later = self.steps
        dates = (f"week {s / WEEK_S:.0f}" if clock is None else clock.date(s).strftime("%-d %b %Y") for s, _ in later)
        steps = [f", from {date} on {count(procs)}" for date, (_, procs) in zip(dates, later, strict=True)]
        return f"{count(first)} processors{f' for {self.name}' if self.name else ''}{''.join(steps)}"


class Machine(NamedTuple):
    """The parts of the machine, that with the most waiting time first."""

    header: int  # the processors that the log states
    parts: tuple[Part, ...]
    doubt: str  # why what was in use shows no ceiling; "" if it does, or was not looked at
    wide: NDArray[np.bool_]  # the jobs wider than it at their submission or start, of all: they ran at special times
    clock: Clock | None = None

    @property
    def as_stated(self) -> bool:
        return self.parts[0].name == "" and self.parts[0].steps == ((0.0, self.header),)

    def text(self) -> str:
        parts = sorted(self.parts, key=lambda part: not part.never)
        said = "; ".join(part.text(self.clock) for part in parts)
        if self.as_stated:
            return f"{said}, as the header says{f': {self.doubt}' if self.doubt else ''}"
        return f"{said} (the header: {count(self.header)})"

    def rows(self, part: Part) -> NDArray[np.bool_]:
        return part.rows & ~self.wide

    def select(self, rows: NDArray[np.bool_]) -> Machine:
        parts = tuple(part._replace(rows=part.rows[rows]) for part in self.parts)
        return self._replace(parts=parts, wide=self.wide[rows])


class Held(NamedTuple):
    """The shares of the waiting time in which a job did not start since ..."""

    full: float  # too few processors are free,
    held: float  # an outage or a reservation for the first older job that does not fit holds it,
    order: float  # only other reservations do: another order, or more of them,
    limit: float  # its user may not run more,
    idle: float  # or nothing that is known.


def machine_given(name: str, value: Any) -> str | int:
    if value in (LOG, HEADER) or (type(value) is int and 1 <= value <= LARGEST):
        return cast("str | int", value)
    raise BatfillError(f"option {name}: {value!r:.60} is neither log, header nor a number of processors from 1 on")


def machine_or_stated(given: str | int | None, procs: int | None, calendar: object) -> str | int:
    """The machine given, or else the log's, but the header's with a size or a calendar, which state it."""
    if given == LOG and calendar is not None:
        raise BatfillError(
            "option calendar: the machine from the log has its own; leave one out, or give machine header, whose "
            "windows these are"
        )
    if given is None:
        return LOG if procs is None and calendar is None else HEADER
    return machine_given("machine", given)


def machine_of(logged: Logged, given: str | int = LOG) -> Machine:
    jobs, header = logged.workload.jobs, logged.size
    plain = one_machine(jobs, given if isinstance(given, int) else header)._replace(header=header)
    if machine_given("machine", given) != LOG:
        return plain
    if np.isnan(logged.wait_s[~jobs.is_cancelled]).mean() > MOST_WIDE:
        return plain._replace(doubt="too many waits are unknown to see more")
    looks, parts, doubts = Looks(logged), list[Part](), list[str]()
    labels = parts_of(logged, looks)
    rest = ~np.any([one.rows for one in labels], axis=0) if labels else plain.parts[0].rows
    for part in [*labels, plain.parts[0]._replace(name=REST * bool(labels), rows=rest)]:
        rows, level = part.rows, header
        if labels:
            ceiling = np.nan if part.never else looks.ceilings(rows)[0]
            most = most_held(looks.dates_s[1][rows], looks.dates_s[2][rows], jobs.procs[rows])
            widest = np.quantile(jobs.procs[rows], 1 - MOST_WIDE, method="higher")
            level = int(np.ceil(max(most if np.isnan(ceiling) else ceiling, widest)))
        part = part._replace(steps=((0.0, level),))
        steps = SELDOM if part.never else looks.steps(rows, level)
        stepped = part if isinstance(steps, str) else part._replace(steps=steps)
        able = (wide_in(logged, [stepped]) & (jobs.procs <= level))[rows].mean() < MOST_WIDE
        doubts.append(steps if isinstance(steps, str) else "" if able else "too many jobs are wider than its use shows")
        parts.append(stepped if able else part)
    wide = wide_in(logged, parts)
    share = np.where(wide, 0.0, np.nan_to_num(logged.wait_s)) / np.nansum(logged.wait_s)
    parts = [part._replace(waiting=float(share[part.rows].sum())) for part in parts]
    parts.sort(key=lambda part: -part.waiting)
    return plain._replace(parts=tuple(parts), doubt="" if "" in doubts else doubts[0], wide=wide)


def one_machine(jobs: Jobs, procs: int) -> Machine:
    one = Part("", np.ones(len(jobs), bool), ((0.0, procs),), never=False, waiting=1.0)
    return Machine(procs, (one,), "", jobs.procs > procs, jobs.clock)


def wide_in(logged: Logged, parts: Iterable[Part]) -> NDArray[np.bool_]:
    """The jobs wider than their part at their submission or start."""
    jobs, wide = logged.workload.jobs, np.zeros(len(logged.wait_s), bool)
    for part in parts:
        dates_s = jobs.submit_s, jobs.submit_s + np.nan_to_num(logged.wait_s)
        wide |= part.rows & (jobs.procs > np.minimum(*map(part.procs, dates_s)))
    return wide


class Looks:
    """A log at many instants: what its jobs use and want there."""

    def __init__(self, logged: Logged) -> None:
        jobs, known = logged.workload.jobs, ~np.isnan(logged.wait_s)
        start_s = jobs.submit_s + np.where(known, logged.wait_s, 0)
        self.procs, self.dates_s = jobs.procs, (jobs.submit_s, start_s, start_s + np.where(known, jobs.runtime_s, 0))
        last_s = float(jobs.submit_s[-1])
        unit_s = WEEK_S if last_s > LONG_S else DAY_S
        self.bin_s = max(unit_s, last_s / MOST_BINS)
        self.bins = max(int(np.ceil(last_s / self.bin_s)), 1)
        self.least = int(np.ceil(min(LEAST_STEP_S[unit_s], max(last_s / 8, 14 * DAY_S)) / self.bin_s))
        at_s = (np.arange(self.bins * LOOKS) + 0.5) * self.bin_s / LOOKS
        self.at_s = at_s[at_s < last_s]
        self.places = [np.searchsorted(self.at_s, dates_s) for dates_s in self.dates_s]
        self.all = self.of(np.ones(len(jobs), bool))

    def of(self, rows: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What these jobs use at each look, and what those of them want that wait."""
        n = len(self.at_s)
        since = [np.bincount(place[rows], self.procs[rows], n + 1).cumsum()[:n] for place in self.places]
        return since[1] - since[2], since[0] - since[1]

    def ceilings(self, rows: NDArray[np.bool_]) -> list[float]:
        """The ceiling of what these jobs use while some of them wait, and that of the others; nan if it is unknown."""
        use, want = self.of(rows)
        seen = [use[want > 0], (self.all[0] - use)[self.all[1] > want]]
        return [float(np.quantile(one, CEILING)) if len(one) >= FEWEST else np.nan for one in seen]

    def steps(self, rows: NDArray[np.bool_], stated: int) -> Steps | str:
        """The capacity of these jobs' processors, or why it is not seen. Near the stated one, it is that."""
        use, want = self.of(rows)
        seen = want >= max(LEAST_WANTED * stated, 1)
        if seen.sum() < FEWEST:
            return SELDOM
        bin_of = np.flatnonzero(seen) // LOOKS
        found: list[tuple[float, int]] = []
        for first, values in segments(use[seen], bin_of, self.bins, self.least):
            level, (low, high) = np.quantile(values, CEILING), np.quantile(values, BESIDE)
            if high - low > SHARP * max(level, 1):
                return "no ceiling of use is seen"
            procs = stated if abs(level / stated - 1) <= NEAR else max(int(np.ceil(level)), 1)
            if not found or found[-1][1] != procs:
                found.append((float(first * self.bin_s), procs))
        return tuple(found)


def segments(
    use: NDArray[np.float64], bin_of: NDArray[np.intp], bins: int, least: int
) -> list[tuple[int, NDArray[np.float64]]]:
    """The first bin of each step, and its looks: the piecewise constant quantile with the least pinball loss.

    A step has at least so many bins; by dynamic programming on sums over levels of use.
    """
    edges = np.linspace(0, max(np.quantile(use, 0.999) * 1.02, 1), LEVELS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    level = np.clip(np.searchsorted(edges, use, side="right") - 1, 0, LEVELS - 1)
    counts = np.bincount((bin_of + 1) * LEVELS + level, minlength=(bins + 1) * LEVELS).reshape(bins + 1, LEVELS)
    numbers, sums = (table.cumsum(0).cumsum(1) for table in (counts.astype(float), counts * middle))

    def loss(first: NDArray[np.intp], beyond: int) -> NDArray[np.float64]:
        number = numbers[beyond] - numbers[first]
        k = (number >= CEILING * number[:, -1:]).argmax(1)
        below, below_sum = number[np.arange(len(first)), k], sums[beyond, k] - sums[first, k]
        above, above_sum = number[:, -1] - below, sums[beyond, -1] - sums[first, -1] - below_sum
        less, more = middle[k] * below - below_sum, above_sum - middle[k] * above
        return np.asarray((1 - CEILING) * less + CEILING * more)

    penalty = PENALTY * loss(np.zeros(1, int), bins)[0]
    best, before = np.full(bins + 1, np.inf), np.zeros(bins + 1, int)
    best[0] = 0
    for beyond in range(min(least, bins), bins + 1):
        first = np.flatnonzero(np.isfinite(best[: max(beyond - least, 0) + 1]))
        total = best[first] + loss(first, beyond) + penalty
        k = int(total.argmin())
        best[beyond], before[beyond] = total[k], first[k]
    cuts = [bins]
    while cuts[-1]:
        cuts.append(int(before[cuts[-1]]))
    cuts.reverse()
    while True:
        looks = [use[(bin_of >= first) & (bin_of < beyond)] for first, beyond in pairwise(cuts)]
        tops = [float(np.quantile(values, CEILING)) if len(values) >= FEWEST / 2 else np.nan for values in looks]
        apart = np.nan_to_num([abs(b / max(a, 1e-9) - 1) for a, b in pairwise(tops)])
        if not len(apart) or apart.min() >= LEAST_CHANGE:
            return list(zip(cuts[:-1], looks, strict=True))
        del cuts[int(apart.argmin()) + 1]


def parts_of(logged: Logged, looks: Looks) -> list[Part]:
    """The partitions and queues that do not share processors with other jobs; their steps are to come."""
    work, wait_s = looks.procs * logged.workload.jobs.runtime_s, np.nan_to_num(logged.wait_s)
    whole = looks.ceilings(np.ones(len(work), bool))[0]
    random, found, taken = np.random.default_rng(0), list[Part](), np.zeros(len(work), bool)
    for place in PLACES:
        label = getattr(logged, place)
        shuffled = random.permutation(label)
        names, of, jobs = np.unique(label, return_inverse=True, return_counts=True)
        done = np.bincount(of, work)
        known = (names >= 0) & ((jobs >= LEAST_JOBS * len(work)) | (done >= LEAST_WORK * done.sum()))
        *smaller, largest = np.argsort(done, kind="stable").tolist()
        for k in [k for k in [*smaller, largest] if known[k]]:
            rows = label == names[k]
            if (rows & taken).any() or (rows | taken).all():  # some jobs are the rest
                continue
            never = bool(wait_s[rows].sum() < NEVER * wait_s.sum() and rows.mean() >= NEVER_JOBS)
            mine, others = looks.ceilings(rows)
            apart = k != largest and mine >= max(LEAST_CEILING * whole, 1) and mine + others <= ADD_UP * whole
            if never or (apart and mine + others <= sum(looks.ceilings(shuffled == names[k])) - LESS * whole):
                found.append(Part(f"{place} {names[k]}", rows, (), never, 0.0))
                taken |= rows
    return found


def calendar_of(part: Part, outages: Iterable[Window], last_s: float) -> Calendar | None:
    """The steps of a part, and its outages, as windows that never take more than there is; None if there are none.

    The last step ends a month after the last submission, so that a job that an order put off past it starts some day.
    """
    until_s = max(last_s, part.steps[-1][0]) + AFTER_S
    spans = [(*step, end) for step, end in zip(part.steps, [*(s for s, _ in part.steps[1:]), until_s], strict=True)]
    windows = [
        Window(ANNOUNCED, begin, end, part.size - procs, max(begin - KNOWN_S, 0.0))
        for begin, procs, end in spans
        if procs < part.size
    ]
    for outage in outages:
        for begin, procs, end in [*spans, (until_s, part.size, np.inf)]:
            cut = outage._replace(begin=max(outage.begin, begin), end=min(outage.end, end), processors=procs)
            windows += [cut] * (cut.begin < cut.end)
    return Calendar(tuple(windows)) if windows else None


def waiting(logged: Logged, machine: Machine, samples: int = SAMPLES) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Waiting jobs, and the instants in order, drawn from all waiting time on the machine; none if no job waits."""
    rows = np.flatnonzero((logged.wait_s > 0) & ~machine.wide)
    for part in machine.parts:
        rows = rows[~(part.never & part.rows[rows])]
    waited_s, random = logged.wait_s[rows], np.random.default_rng(0)
    drawn = random.choice(len(rows), samples if len(rows) else 0, p=waited_s / waited_s.sum() if len(rows) else None)
    at_s = logged.workload.submit_s[rows[drawn]] + random.random(len(drawn)) * waited_s[drawn]
    order = np.argsort(at_s, kind="stable")
    return rows[drawn][order], at_s[order]


def holding(
    logged: Logged, machine: Machine, outages: Sequence[Window] = (), limit: int | None = None, samples: int = SAMPLES
) -> Held | None:
    """What holds a waiting job, at instants drawn from all waiting time; None if no job waits.

    `limit`: of the running jobs of a user, in the part with the most waiting time.
    """
    rows, at_s = waiting(logged, machine, samples)
    if not len(rows):
        return None
    jobs, known = logged.workload.jobs, ~np.isnan(logged.wait_s)
    part_of = np.argmax([part.rows for part in machine.parts], axis=0)
    start_s = jobs.submit_s + np.where(known, logged.wait_s, 0)
    end_s = np.where(known, start_s + jobs.runtime_s, -1)
    levels = [part.procs(at_s) for part in machine.parts]
    announced_s, begin_s, beyond_s = np.array([(w.announced, w.begin, w.end) for w in outages]).reshape(-1, 3).T
    found = dict.fromkeys(Held._fields, 0)
    for block in np.array_split(np.arange(len(rows)), BLOCKS):  # each looks at the jobs alive in it
        near = np.flatnonzero((jobs.submit_s <= at_s[block[-1]]) & (end_s > at_s[block[0]]))
        for k in block.tolist():
            job, t, own = rows[k], at_s[k], part_of[rows[k]]
            alive = near[(jobs.submit_s[near] <= t) & (end_s[near] > t) & (part_of[near] == own) & (near != job)]
            runs = start_s[alive] <= t
            running, others, there = alive[runs], alive[~runs], levels[own][k]
            q, wants = min(jobs.procs[job], there), np.minimum(jobs.procs[others], there)
            free, until_s = there - jobs.procs[running].sum(), t + jobs.expected_s[job]
            ends_s = np.maximum(start_s[running] + jobs.expected_s[running], t + 1)
            barred = partial(bars, free, ends_s, jobs.procs[running], q, until_s)
            mine = (jobs.user[running] == jobs.user[job]).sum() if own == 0 and jobs.user[job] >= 0 else 0
            if q > free:
                why = "full"
            elif ((announced_s <= t) & (begin_s < until_s) & (beyond_s > t)).any():
                why = "held"
            elif limit is not None and mine >= limit:
                why = "limit"
            elif barred(wants[(wants > free) & (others < job)][:1]):
                why = "held"
            else:
                why = "order" if barred(np.unique(wants[wants > free])) else "idle"
            found[why] += 1
    return Held(**{why: number / len(rows) for why, number in found.items()})


def bars(
    free: int, ends_s: NDArray[np.float64], procs: NDArray[np.int64], q: int, until_s: float, heads: NDArray[np.int64]
) -> bool:
    """Whether a reservation for one of these numbers of processors keeps a job off so many, on which it ends then."""
    order = np.argsort(ends_s)
    ends_s, left = ends_s[order], free + np.cumsum(procs[order])
    shadow_s = ends_s[np.searchsorted(left, heads)] if len(heads) else ends_s[:0]
    spare = left[np.searchsorted(ends_s, shadow_s, side="right") - 1] - heads
    return bool(((until_s > shadow_s) & (q > spare)).any())
