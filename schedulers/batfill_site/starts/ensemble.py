"""Many ways in which the queue may go on from an instant: run times and arrivals are drawn from the past.

Each fork draws once for each user from which quantile of the past its jobs' run times are taken, since a user's jobs
run long or short together. For each day to come it takes the arrivals of one of the last days. Then the engine decides.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batfill.engine import ends
from batfill.engine.loop import CLOCK, KILL, Events
from batfill.engine.records import AWAY, JOB, LINE, STARTED, as_records, new_records
from batfill.model.jobs import DAY_S
from batfill.model.limits.calendar import NO_WINDOWS
from batfill.queue import users_by_number
from batfill.replays.engine_replay import available
from batfill_site.starts import forks as forking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.model.limits.calendar import Calendar
    from batfill.queue import Queue
    from batfill_site.starts.past import Past

FORKS = 21
DAYS = 7  # the last days whose arrivals come again
DAYS_AHEAD = 16  # days to come whose arrivals are drawn
FIRST_COMING, MORE, MOST_COMING = 64, 4, 4096  # arrivals at first, times more if they do not suffice, and at most
LATEST_S = 1e15  # for the keys of jobs that do not come


@dataclass(frozen=True, slots=True)
class Moment:
    """The jobs that wait or run at an instant, by age."""

    now_s: float
    queue: Queue  # whose rules are in force
    rows: NDArray[np.intp]  # (known,)  of the jobs, in the queue
    past_rows: NDArray[np.intp]  # (known,)  and in the past

    @property
    def jobs(self) -> NDArray[np.void]:
        """The jobs, engine JOB (known,), a copy."""
        return self.queue.jobs[self.rows]

    @property
    def waits(self) -> NDArray[np.bool_]:
        """Whether each waits, shape (known,)."""
        waits: NDArray[np.bool_] = self.queue.jobs["section"][self.rows] != AWAY
        return waits


def moment_of(queue: Queue, now_s: float) -> Moment:
    """The state of a queue whose rows are those of the past."""
    rows = queue.alive_rows
    return Moment(now_s, queue, rows, rows)


@dataclass(frozen=True, slots=True)
class Draws:
    """What the forks draw; (forks, n) each."""

    duration_s: NDArray[np.float64]  # of the jobs that wait or run
    coming: NDArray[np.intp]  # rows in the past of the jobs that come again
    submit_s: NDArray[np.float64]  # when they come; inf for those that do not
    coming_s: NDArray[np.float64]  # and how long they run


class Ensemble:
    """Forks of a machine's moments, and the memory for them, which is kept."""

    def __init__(self, forks: int = FORKS, seed: int = 0) -> None:
        """`forks`: how many; `seed`: of what they draw."""
        self.forks, self.seed = forks, seed
        self.kept: dict[tuple[int, bool], tuple[Queue, Events]] = {}

    def starts(self, moment: Moment, past: Past, asked: NDArray[np.bool_]) -> NDArray[np.float64]:
        """When the jobs asked for, bool (known,), start in each fork, shape (forks, n), after `moment.now_s`."""
        random = np.random.default_rng([self.seed, int(moment.now_s * 1000)])
        drawn = self.durations(moment, past, random)
        days = random.integers(1, DAYS + 1, (self.forks, DAYS_AHEAD))
        start_s, left = np.empty((self.forks, len(moment.rows))), np.arange(self.forks)
        n = min(max(FIRST_COMING, 4 * int(asked.sum())), MOST_COMING)
        while len(left):
            draws = draw_arrivals(moment, past, days[left], drawn[left], n)
            start_s[left], short = self.run(moment, past, asked, draws, stops=n < MOST_COMING)
            left, n = left[short], min(n * MORE, MOST_COMING)
        return start_s[:, asked]

    def durations(self, moment: Moment, past: Past, random: np.random.Generator) -> NDArray[np.float64]:
        """Whole run times of the jobs that wait or run, shape (forks, known)."""
        users, of_job = np.unique(past.jobs["user"][moment.past_rows], return_inverse=True)
        # A fork in each of as many equal parts of the chances: with few forks the median is then less of a gamble.
        parts = np.argsort(random.random((len(users), self.forks)), axis=1)
        chances = (parts + random.random(parts.shape)) / self.forks
        ran_s = np.where(moment.waits, 0.0, moment.now_s - moment.jobs["start_s"])
        return past.drawn_s(moment.past_rows, ran_s, np.ascontiguousarray(chances[of_job].T))

    def run(
        self, moment: Moment, past: Past, asked: NDArray[np.bool_], draws: Draws, *, stops: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The first starts of the jobs asked for in each fork, (forks, known), and which forks lacked arrivals."""
        forks, n = draws.submit_s.shape
        rows, rules = moment.rows, moment.queue.rules
        jobs, tries, lines = moment.queue.records_of(rows)
        jobs["seq"] = np.arange(len(rows))
        again = past.jobs[draws.coming]
        coming = np.zeros((forks, n), JOB)
        coming["submit_s"], coming["expected_s"], coming["procs"] = draws.submit_s, again["request_s"], again["procs"]
        coming["small"], coming["killable"], coming["section"] = again["small"], again["killable"], AWAY
        coming["seq"], coming["start_s"] = len(rows) + np.arange(n), np.nan
        coming_lines = np.zeros((forks, 0 if rules.backfill is None else n), LINE)
        known = (
            np.minimum(draws.submit_s, LATEST_S).ravel(),
            again["request_s"].ravel(),
            again["procs"].ravel(),
        )
        if n:
            for policy, keys in ((rules.policy, coming), (rules.backfill, coming_lines)):
                if policy is not None:
                    keys["key"], keys["rise"] = (line.reshape(forks, n) for line in policy.lines(*known))
        users = np.zeros(0, np.uint32), np.zeros((forks, 0), np.uint32)
        if rules.max_running is not None:
            both = np.concatenate([past.jobs[moment.past_rows], again.ravel()])
            numbers = users_by_number(np.where(both["known_user"], both["user"], -1))
            users = numbers[: len(rows)].copy(), numbers[len(rows) :].reshape(forks, n).copy()
        queue, events = self.memory(moment, len(rows) + n, len(tries) > 0)
        found = forking.Forks(
            jobs=as_records(jobs),
            tries=as_records(tries),
            lines=as_records(lines),
            users=users[0],
            asked=asked.astype(np.uint8),
            duration_s=np.ascontiguousarray(draws.duration_s),
            coming=as_records(coming),
            coming_lines=as_records(coming_lines),
            coming_users=users[1],
            coming_s=np.ascontiguousarray(draws.coming_s),
            start_s=np.empty((forks, len(rows))),
            short=np.zeros(forks, np.uint8),
        )
        queue.run_forks(forking.run_forks, moment.now_s, moment.queue, found, events, stops=stops)
        return found.start_s, found.short != 0

    def memory(self, moment: Moment, jobs: int, tries: bool) -> tuple[Queue, Events]:
        """A queue and events for at least so many jobs, with `tries` if the moment's has them."""
        capacity = max(64, 1 << (jobs - 1).bit_length())
        if (capacity, tries) not in self.kept:
            queue = moment.queue.forking(capacity)
            self.kept[capacity, tries] = queue, new_events(capacity, queue.size, queue.rules.calendar or NO_WINDOWS)
        return self.kept[capacity, tries]


def new_events(capacity: int, size: int, calendar: Calendar) -> Events:
    """Memory for the events of so many jobs, each of which may be killed at a divider once, and by failures."""
    kills = capacity + calendar.most_kills(capacity)
    return Events(
        duration_s=np.zeros(capacity),
        ends=ends.new_ends(min(capacity, size)),
        due=np.zeros(min(capacity, size), np.uint32),
        starts=new_records(capacity + kills, STARTED),
        kills=new_records(kills, KILL),
        ended=np.zeros(capacity + kills, np.uint32),
        over=np.zeros(capacity + kills, np.uint32),
        available=available(size, NO_WINDOWS),
        clock=new_records(1, CLOCK),
    )


def draw_arrivals(moment: Moment, past: Past, days: NDArray[np.int64], drawn_s: NDArray[np.float64], n: int) -> Draws:
    """The first n arrivals of each fork: those of the past days `days`, one for each day to come, (forks, days ahead).

    Args:
        moment: the instant; a day ends there.
        past: the jobs so far.
        days: how many days ago; fewer where the past is shorter.
        drawn_s: run times of the jobs that wait or run, (forks, known), which are theirs if they come again, too.
        n: how many.
    """
    jobs, forks = past.jobs, len(days)
    submit_s = jobs["submit_s"]
    nothing = np.zeros((forks, 0))
    if not past.submitted or submit_s[0] >= moment.now_s:
        return Draws(drawn_s, nothing.astype(np.intp), nothing, nothing)
    age_s = moment.now_s - submit_s[0]
    span_s, most = min(DAY_S, age_s), int(min(max(1, age_s // DAY_S), DAYS))
    days = (days - 1) % most + 1
    ends_s = [moment.now_s - day * span_s for day in range(most + 1)]
    # By bisection of a view, since numpy would copy the whole column.
    bounds = np.array([bisect_right(submit_s, end_s, 0, past.submitted) for end_s in ends_s])
    begins = bounds[days]
    last = np.cumsum(bounds[days - 1] - begins, axis=1)
    place = np.arange(n)
    day = (last[:, :, None] <= place).sum(axis=1)
    comes = day < DAYS_AHEAD
    day = np.minimum(day, DAYS_AHEAD - 1)
    fork = np.arange(forks)[:, None]
    before = np.where(day > 0, last[fork, day - 1], 0)
    coming = np.minimum(begins[fork, day] + place - before, past.submitted - 1)
    later_s = np.where(comes, submit_s[coming] + (days[fork, day] + day) * span_s, np.inf)
    runtime_s = jobs["runtime_s"][coming]
    unknown = np.isnan(runtime_s)
    if unknown.any():
        known = np.argsort(moment.past_rows)
        same = known[np.minimum(np.searchsorted(moment.past_rows, coming, sorter=known), len(known) - 1)]
        runtime_s = np.where(unknown, drawn_s[fork, same], runtime_s)
    return Draws(drawn_s, coming, later_s, runtime_s)
