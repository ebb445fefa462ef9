"""What `what_if` found: figures, limits, and the advice under them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.tables import Keyed, data_frame
from batfill.base.version import ENGINE, __version__
from batfill.base.words import things
from batfill.model.jobs import DAY_S, WEEK_S, Jobs
from batfill.model.kinds import plain_value
from batfill.model.options import Options
from batfill_pages.comparison import Comparison, Difference
from batfill_pages.stats import BETTER, FEWEST_BLOCKS, Paired, undecided
from batfill_site.advice.choices import KILLS, ORDER
from batfill_site.advice.payers import Cost, Payers
from batfill_site.answer import Answer, Answered, duration, stored
from batfill_site.score import Score, Whose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from batfill_site.fidelity import Fidelity, SiteLog

MACHINE_FILE = "machine.csv"  # what `batfill fidelity` is to call the calendar in the commands
HIGH_P, HIGH_WEEKS = 0.01, 24  # of a gain in which confidence is high: below, and at least
HIGH, MEDIUM, LOW = "high", "medium", "low"
ADVICE, UNSURE, CHOSEN = "advice", "least slowdown seen", "chosen"  # rows of the first table, and two more
GENTLE, REFERENCE, ALONE = "without kills", "fcfs, simulated", "fcfs, no job stopped"


class ChoiceFigures(NamedTuple):
    """The figures of one choice over all jobs. Times in seconds."""

    name: str
    words: str
    options: dict[str, Any]
    effort: int
    mean_bsld: float
    mean_wait_s: float
    max_wait_s: float
    whose: Whose  # the longest wait
    payers: Payers  # against the first choice
    overdue: int | None  # jobs that waited longer than the threshold; None without one
    kills: int  # tries killed at the divider and restarted
    wasted: float  # their share of the processor time used

    def columns(self) -> dict[str, Any]:
        columns = {name: value for name, value in self._asdict().items() if name != "whose"}
        return {**columns, **self.whose.as_dict(), "options": stated(self.options), "payers": stored(self.payers)}


class Row(NamedTuple):
    """A row of the first table. Times in seconds."""

    role: str  # ADVICE, UNSURE, CHOSEN, GENTLE, REFERENCE, ALONE, or fcfs without limits
    choice: int | None  # the index of its outcome; None for the last two
    mean_wait_s: float
    max_wait_s: float
    mean_bsld: float


class Period(NamedTuple):
    """The jobs submitted in some weeks of the log."""

    unit: str  # how many weeks
    rows: NDArray[np.bool_]  # (n_jobs,)
    submitted: str  # when
    ratio: float | None  # of their mean simulated wait under fcfs to the logged one; None if that is not known
    advised: int  # the index of the outcome that the rule takes for them, whether or not its gain is beyond chance
    figures: list[Row]  # of that, of the whole log's advice, and of fcfs


class JobGroup(NamedTuple):
    """The jobs of a width or a run time, and the effect on them of each choice but the first. Times in seconds."""

    by: str
    name: str
    jobs: int
    mean_wait_s: float  # under the first choice
    max_wait_s: list[float]  # under every choice
    differences: list[Difference]


class Limit(NamedTuple):
    """A limit on the growth of the longest wait over fcfs's, and the advice under it."""

    growth: float | None  # relative to fcfs's longest wait; None for no limit
    longest_s: float
    advised: int  # the index of the advised outcome
    equals: tuple[int, ...]  # outcomes that gain within the limit and cannot be told from it, least effort first
    by_slowdown: int  # the choice with the least slowdown, if it is out because of the waits; else the advised one


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf(Answered, Keyed):
    """The answer. The first choice, the baseline, is fcfs; it represents the site's current scheduler."""

    workload: Jobs
    settings: dict[str, Any]  # every option in force except those of the choices
    comparison: Comparison
    outcomes: list[ChoiceFigures]
    bsld: dict[int, list[Paired | None]]  # [a][b]: b's mean minus a's; see `Comparison.against`
    waits: list[Paired]  # of each choice but the first: the mean wait minus the first's
    groups: list[JobGroup]
    limits: list[Limit]  # those of LIMITS and the given one, ascending, and none
    given: int  # the index of the given limit
    withheld: dict[int, str]  # outcomes that the system cannot do, and why
    fidelity: Fidelity  # how near simulated waits are to those in the log
    site: SiteLog  # what else the log says
    filled: Callable[[WhatIf, str], Answer]  # how it is said
    logged: Score | None = None  # fcfs's waits against the logged ones; None if a site's are not known
    logged_whose: Whose | None = None  # the job with the longest wait in the log
    logged_bsld: float | None = None  # the mean bounded slowdown there
    cost: Cost | None = None  # of the limits that the choices share, if any
    periods: Sequence[Period] = ()  # the oldest first; () if the log has only one
    whole: WhatIf | None = None  # of the whole log, if all of this is of the newest period, whose advice differs

    @property
    def limit(self) -> Limit:
        """The limit given."""
        return self.limits[self.given]

    @property
    def advice(self) -> ChoiceFigures:
        """The advised choice; fcfs if nothing gains, or if this log cannot decide."""
        return self.outcomes[self.limit.advised]

    @cached_property
    def undecided(self) -> str | None:
        """Why the log cannot decide; None if it can."""
        return self.too_short or self.unseen

    @cached_property
    def unseen(self) -> str | None:
        """Why the replay says nothing about this site's waits; None if it does, or if that is not known."""
        score = self.logged
        return None if score is None or score.ratio is None else self.fidelity._replace(near=score).doubt

    @cached_property
    def too_short(self) -> str | None:
        """Why the log is too short to decide; None if it is not."""
        compared, over = [one for one in self.bsld[0] if one is not None], self.comparison
        why = too_short(DAY_S * (over.at - over.at[0]))
        return why or (undecided(compared, over.blocks) if compared else None)

    def confidence(self, limit: Limit) -> str | None:
        """In the gain of the choice advised under the limit over fcfs; None if there is none, or no telling."""
        if self.undecided or not limit.advised:
            return None
        surely = self.gain(limit.advised).corrected_p < HIGH_P and self.comparison.n_periods >= HIGH_WEEKS
        found = [HIGH if surely else MEDIUM, *(most for most, _ in self.doubts(limit))]
        return max(found, key=[HIGH, MEDIUM, LOW].index)

    def doubts(self, limit: Limit) -> list[tuple[str, str]]:
        """What caps the confidence in the choice advised under the limit: the most that it can be, and the reason."""
        found, gain = [(LOW, "it rests on invented requests")] * bool(self.invented), self.bsld[0][limit.advised]
        if gain is not None:
            name = self.outcomes[limit.advised].name
            found += [(MEDIUM, why) for why in self.comparison.doubts({name: gain})]
        found += [(LOW, why) for why in self.fidelity._replace(near=self.logged).low]
        kills = self.outcomes[limit.advised].effort == KILLS
        return [*found, *[(MEDIUM, "never high, since it kills jobs")] * kills]

    @property
    def offered(self) -> list[int]:
        """The choices that can be advised: those that the batch system given can do."""
        return [k for k in range(1, len(self.outcomes)) if k not in self.withheld]

    def allowed(self, limit: Limit, k: int) -> bool:
        return allowed(self.outcomes, k, limit.longest_s)

    def gain(self, k: int) -> Paired:
        """The comparison of a choice, not fcfs, with fcfs."""
        found = self.bsld[0][k]
        assert found is not None
        return found

    def runner_up(self, limit: Limit) -> int | None:
        """The best other choice that kills no jobs, if there is one: the advice if there were only these.

        If none of them gains, that with the least slowdown within the limit, or with the shortest longest wait.
        """
        others = [k for k in self.offered if self.outcomes[k].effort != KILLS and k != self.shown(limit)]
        best, min_gain = 0, self.settings["min_gain"]
        if not self.undecided:
            best, *_ = advised(self.outcomes, self.bsld, limit.longest_s, min_gain, others)
        if best or not others:
            return best or None
        if within := [k for k in others if self.allowed(limit, k)]:
            return min(within, key=lambda k: self.outcomes[k].mean_bsld)
        return min(others, key=lambda k: self.outcomes[k].max_wait_s)

    @property
    def best_seen(self) -> int:
        """The choice with the least slowdown, of those that the system can do; fcfs if it can do none."""
        offered = [k for k in range(len(self.outcomes)) if k not in self.withheld] or [0]
        return min(offered, key=lambda k: self.outcomes[k].mean_bsld)

    def shown(self, limit: Limit) -> int:
        """The choice that is shown first: the advice under the limit, or the best seen if the log cannot decide."""
        return self.best_seen if self.undecided else limit.advised

    def rows(self, limit: Limit, chosen: int | None = None) -> list[Row]:
        """The first table, all simulated: the advice under the limit, the best without kills, fcfs; or a chosen one."""
        roles = {UNSURE if self.undecided else ADVICE: self.shown(limit), GENTLE: self.runner_up(limit), REFERENCE: 0}
        if chosen is not None:
            roles = {CHOSEN: chosen, REFERENCE: 0}
        found: list[Row] = []
        for role, k in roles.items():
            if k is not None and k not in [row.choice for row in found]:
                found.append(row_of(role, self.outcomes, k))
        if (cost := self.cost) is not None:
            found += [Row(ALONE, None, *cost.alone)] if cost.alone else []
            found.append(Row(f"fcfs without {cost.name}", None, *cost[1:4]))
        return found

    def outdoing(self, limit: Limit) -> int:
        """The choice because of which the one with the least slowdown is out: the advice, if that is one."""
        least, found = self.outcomes[limit.by_slowdown], [limit.advised, 0, *self.offered]
        min_gain = self.settings["min_gain"]
        able = (k for k in found if not k or gains(self.outcomes, self.bsld, 0, k, min_gain))
        return next(k for k in able if self.allowed(limit, k) and outdoes(self.outcomes[k], least))

    @property
    def invented(self) -> tuple[str, ...]:
        """That requests were invented, a sentence each."""
        warnings = self.workload.invented_warning if self.workload.unrequested != "none" else ()
        return tuple(f"it rests on invented requests; {warning}" for warning in warnings)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Reasons not to trust the answer, a sentence each: invented requests, too short a log, waits not shown."""
        short = [f"the log is too short: {self.too_short}"] if self.too_short else []
        return (*self.invented, *short, *([self.unseen] if self.unseen else []))

    def answer(self, log: str | Path = "LOG") -> Answer:
        """In a headline, a table, lines and details; `log` is where commands find it."""
        return self.filled(self, str(log))

    def to_pandas(self) -> pd.DataFrame:
        """A row of figures per choice; `attrs` have the advice and the options. Needs pandas."""
        rows = [outcome.columns() for outcome in self.outcomes]
        about = {"workload": self.workload.name, "advice": self.advised_name, "cautions": list(self.cautions)}
        return data_frame(rows, **about, options=self.settings)

    @property
    def advised_name(self) -> str | None:
        """The name of the advised choice; None if this log cannot decide."""
        return None if self.undecided else self.advice.name

    def figures(self) -> dict[str, Any]:
        """By name; times in seconds."""

        def named(row: Row) -> dict[str, Any]:
            return {**row._asdict(), "choice": None if row.choice is None else self.outcomes[row.choice].name}

        def limit_of(limit: Limit) -> dict[str, Any]:
            taken = self.outcomes[limit.advised]
            return {
                "growth": limit.growth,
                "longest_s": None if limit.growth is None else limit.longest_s,
                "advice": taken.name,
                "equals": [self.outcomes[k].name for k in limit.equals],
                "by_slowdown": self.outcomes[limit.by_slowdown].name,
                "mean_wait_s": taken.mean_wait_s,
                "mean_bsld": taken.mean_bsld,
                "max_wait_s": taken.max_wait_s,
            }

        advised = self.limit.advised
        return {
            "workload": self.workload.name,
            "workload_sha256": self.workload.digest,
            **{name: one for name, one in Options.of(self.outcomes[-1].options).file_digests.items() if one},
            "workload_notes": list(self.workload.notes),
            "warnings": list(self.workload.warnings),
            "procs": self.workload.size,
            "jobs": len(self.comparison.at),
            **stated(self.settings),
            "summary": [named(row) for row in self.rows(self.limit)],
            "periods": [
                {"submitted": one.submitted, "jobs": int(one.rows.sum()), "ratio": one.ratio}
                | {"advice": self.outcomes[one.advised].name, "summary": [named(row) for row in one.figures]}
                for one in self.periods
            ],
            "of": "all jobs" if self.whole is None else "the jobs of the newest period",
            "advice_of_all": (self.whole or self).advised_name,
            "site_log": self.site,
            "outcomes": [outcome.columns() for outcome in self.outcomes],
            "groups": self.groups,
            "limits": [] if self.undecided else [limit_of(limit) for limit in self.limits],
            "withheld": {self.outcomes[k].name: why for k, why in self.withheld.items()},
            "undecided": self.undecided,
            "fidelity": str(self.fidelity),
            "held": self.fidelity.held,
            "held_on_header": self.fidelity.held_header,
            "logged": self.logged
            and {**stored(self.logged), **(stored(self.logged_whose) or {}), "mean_bsld": self.logged_bsld},
            "cost": self.cost,
            "advice": self.advised_name,
            "confidence": self.confidence(self.limit),
            "doubts": [why for _, why in self.doubts(self.limit)] if advised else [],
            "gain": self.gain(advised) if advised else None,
            "wait_gain": self.waits[advised - 1] if advised else None,
            "trusted": not self.cautions,
            "cautions": list(self.cautions),
            "engine": ENGINE,
            "version": __version__,
        }


def row_of(role: str, outcomes: Sequence[ChoiceFigures], k: int) -> Row:
    o = outcomes[k]
    return Row(role, k, o.mean_wait_s, o.max_wait_s, o.mean_bsld)


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with a calendar or a gate by its name, as results have them."""
    return {name: plain_value(value) if hasattr(value, "name") else value for name, value in options.items()}


def too_short(submit_s: NDArray[np.float64]) -> str | None:
    """Why jobs that are submitted at these dates, the first at 0, cannot decide; None if they can."""
    weeks = len(np.unique(submit_s // WEEK_S))
    if weeks >= FEWEST_BLOCKS:
        return None
    span = things(weeks, "week") if weeks > 1 else duration(float(submit_s[-1]))
    return f"too few jobs ({len(submit_s):,} within {span}), and others may differ: it takes {FEWEST_BLOCKS} weeks"


def gains(
    outcomes: Sequence[ChoiceFigures],
    pairs: Mapping[int, Sequence[Paired | None]] | None,
    old: int,
    new: int,
    min_gain: float,
) -> bool:
    """Whether the new choice's mean bsld is lower by at least the smallest gain, and, of `pairs`, beyond chance."""
    if old == new or (pairs is not None and (one := pairs[old][new]) is not None and one.verdict != BETTER):
        return False
    saved = outcomes[old].mean_bsld - outcomes[new].mean_bsld
    return saved > 0 and saved >= min_gain * outcomes[old].mean_bsld


def allowed(outcomes: Sequence[ChoiceFigures], k: int, longest_s: float) -> bool:
    """Whether a choice's longest wait is within the limit.

    Under any limit an order without a threshold may have none longer than fcfs's: nothing in it bounds a wait, and one
    that is short in a log may be long in the next.
    """
    bounded = outcomes[k].effort != ORDER or math.isinf(longest_s)
    return outcomes[k].max_wait_s <= (longest_s if bounded else min(longest_s, outcomes[0].max_wait_s))


def advised(
    outcomes: Sequence[ChoiceFigures],
    pairs: Mapping[int, Sequence[Paired | None]] | None,
    longest_s: float,
    min_gain: float,
    offered: Sequence[int],
) -> tuple[int, tuple[int, ...], int]:
    """The index of the advised choice, the others that cannot be told from it, and that with the least slowdown.

    The first is 0, fcfs, if none gains; the last is the advised one, too, unless it is out because of its waits.

    Among the choices that gain over fcfs within the limit, the best has the lowest mean bounded slowdown. Another
    equals it if the best does not gain over that one (`gains`), and none is better in both slowdown and longest wait.
    Of these equals the one is advised that requires the least effort of a site; ties go to the shortest longest wait.
    Without a limit, the longest wait decides first: a site that sets none does not want jobs to starve for nothing.

    Without `pairs` a gain may be chance. By waits, a choice is out if another, or fcfs, asks less of a site and has the
    shorter mean wait and no longer a longest one.
    """
    better = [k for k in offered if allowed(outcomes, k, longest_s) and gains(outcomes, pairs, 0, k, min_gain)]
    able = [k for k in better if not any(outdoes(outcomes[j], outcomes[k]) for j in (0, *better))]
    least = min(better, key=lambda k: outcomes[k].mean_bsld, default=0)
    if not able:
        return 0, (), least

    def beaten(k: int) -> bool:
        mine = outcomes[k]
        return any(
            o.mean_bsld < mine.mean_bsld and o.max_wait_s < mine.max_wait_s for o in map(outcomes.__getitem__, able)
        )

    def cost(k: int) -> tuple[float, ...]:
        o = outcomes[k]
        return (*((o.effort, o.max_wait_s) if math.isfinite(longest_s) else (o.max_wait_s, o.effort)), o.mean_bsld)

    best = min(able, key=lambda k: outcomes[k].mean_bsld)
    equals = sorted((k for k in able if not gains(outcomes, pairs, k, best, min_gain) and not beaten(k)), key=cost)
    return equals[0], tuple(equals[1:]), equals[0] if least in able else least


def outdoes(one: ChoiceFigures, other: ChoiceFigures) -> bool:
    """Whether one choice asks less of a site and has the shorter mean wait, and no longer a longest one."""
    less = one.effort < other.effort and one.mean_wait_s < other.mean_wait_s
    return less and one.max_wait_s <= other.max_wait_s
