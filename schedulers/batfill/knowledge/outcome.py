"""A replay that learned, and what that was worth: how often it was right, and what its kills cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.knowledge.choice import make
from batfill.knowledge.classifier import Classifier
from batfill.knowledge.drive import Driven, Driver
from batfill.replay import Replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from batfill.jobs import Clock, JobTable
    from batfill.knowledge import Knowledge
    from batfill.options import Options
    from batfill.replay import Schedule


@dataclass(frozen=True, slots=True)
class Confusion:
    """Jobs by what they were judged and what they were."""

    true_small: int
    false_small: int
    true_large: int
    false_large: int

    @classmethod
    def of(cls, judged: NDArray[np.bool_], small: NDArray[np.bool_]) -> Confusion:
        """Of the jobs judged small and of those that were, both of shape (n_jobs,)."""
        counts = (judged & small, judged & ~small, ~judged & ~small, ~judged & small)
        return cls(*(int(count.sum()) for count in counts))

    @property
    def jobs(self) -> int:
        """All."""
        return self.true_small + self.false_small + self.true_large + self.false_large

    def rates(self) -> dict[str, float | None]:
        """The paper's shares: of equations (1) to (3) and Table 6; None where there is nothing to divide by.

        The two false rates are over what was judged so, as in Table 6: FL / (FL + TL) and FS / (FS + TS).
        """
        right = self.true_small + self.true_large
        return {
            "accuracy": ratio(right, self.jobs),
            "precision": ratio(self.true_small, self.true_small + self.false_small),
            "recall": ratio(self.true_small, self.true_small + self.false_large),
            "false_large_rate": ratio(self.false_large, self.false_large + self.true_large),
            "false_small_rate": ratio(self.false_small, self.false_small + self.true_small),
        }

    def as_dict(self) -> dict[str, Any]:
        """Counts and rates."""
        return {"jobs": self.jobs, **asdict(self), **self.rates()}


def ratio(part: int, whole: int) -> float | None:
    """A share; None of nothing."""
    return part / whole if whole else None


def confusion(driven: Driven) -> Confusion:
    """Of the jobs judged while there was a forest (without one, a divider), by the divider of that time."""
    judged = np.isfinite(driven.probability)
    if not judged.any():
        judged = np.isfinite(driven.divider_s) & ~driven.schedule.rejected
    small = driven.schedule.runtime_s < driven.divider_s
    return Confusion.of(driven.small[judged], small[judged])


def kills_by_level(schedule: Schedule) -> list[dict[str, float]]:
    """Kills, wasted processor-seconds and the mean divider of each level, where there are any."""
    kills = schedule.kills
    wasted_s = kills["ran_s"] * schedule.jobs.procs[kills["row"]]
    of_level = [(int(level), kills["level"] == level) for level in np.unique(kills["level"])]
    return [
        {
            "level": level,
            "kills": int(here.sum()),
            "wasted_proc_s": float(wasted_s[here].sum()),
            "mean_divider_s": float(kills["ran_s"][here].mean()),
        }
        for level, here in of_level
    ]


def kills_by_width(schedule: Schedule) -> list[dict[str, float]]:
    """Kills and wasted processor-seconds of jobs of up to 1, 2, 4, ... processors, where there are any."""
    return kills_by(schedule, np.ceil(np.log2(schedule.jobs.procs)).astype(np.int64), "procs_up_to", lambda w: 1 << w)


def kills_by_user(schedule: Schedule) -> list[dict[str, float]]:
    """Kills and wasted processor-seconds of each user who had any, the most killed first."""
    table = kills_by(schedule, schedule.jobs.user, "user", lambda user: user)
    return sorted((row for row in table if row["kills"]), key=lambda row: (-row["kills"], row["user"]))


def kills_by(schedule: Schedule, group: NDArray[np.int64], name: str, label: Any) -> list[dict[str, float]]:
    """A row per group: jobs, kills, kills per job, processor-seconds wasted and used, waste per use."""
    ran, killed, procs = ~schedule.rejected, schedule.kills["row"], schedule.jobs.procs
    tries = np.bincount(killed, minlength=len(procs))
    wasted = np.bincount(killed, weights=schedule.kills["ran_s"] * procs[killed], minlength=len(procs))
    used = schedule.runtime_s * procs + wasted
    groups, where = np.unique(group[ran], return_inverse=True)
    jobs, kills, wasted_s, used_s = (
        np.bincount(where, weights=column[ran], minlength=len(groups))
        for column in (np.ones(len(procs)), tries, wasted, used)
    )
    return [
        {
            name: label(int(groups[i])),
            "jobs": int(jobs[i]),
            "kills": int(kills[i]),
            "kill_share": float(kills[i] / jobs[i]),
            "wasted_proc_s": float(wasted_s[i]),
            "waste": float(wasted_s[i] / used_s[i]) if used_s[i] > 0 else 0.0,
        }
        for i in range(len(groups))
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What was learned on the way, for a report."""

    knowledge: Knowledge
    driven: Driven
    levels: tuple[float, ...]  # the dividers' shares of the run times

    def as_dict(self) -> dict[str, Any]:
        """What was learned under `learned`, and the kills under `kills_by_...`."""
        learned: dict[str, Any] = {"knowledge": self.knowledge.name}
        if isinstance(self.knowledge, Classifier):
            learned |= asdict(self.knowledge.settings)
            learned |= {"trained": self.knowledge.trained, "cut_at_end": self.knowledge.cut}
        if self.knowledge.classifies:
            dividers_s = self.knowledge.dividers_s
            learned |= {"levels": self.levels, "divider_at_end_s": dividers_s[-1]}
            learned |= {"dividers_at_end_s": [None if s == math.inf else s for s in dividers_s]}
            learned |= confusion(self.driven).as_dict()
        learned = {name: None if value in (math.inf, -math.inf) else value for name, value in learned.items()}
        schedule = self.driven.schedule
        if not len(schedule.kills):
            return {"learned": learned}
        return {
            "learned": learned,
            "kills_by_level": kills_by_level(schedule),
            "kills_by_width": kills_by_width(schedule),
            "kills_by_user": kills_by_user(schedule),
        }

    def as_text(self) -> str:
        """One line."""
        text = self.knowledge.name
        if isinstance(self.knowledge, Classifier):
            settings = self.knowledge.settings
            text += (
                f" (divider rule {settings.divider_rule}, cut {self.knowledge.cut:g}, seed {settings.seed}, "
                f"trained {self.knowledge.trained} times)"
            )
        if self.knowledge.classifies:
            rates = confusion(self.driven).rates()
            shown = (f"{name} {rate:.1%}" for name, rate in rates.items() if rate is not None)
            dividers = ", ".join(f"{divider_s:g}" for divider_s in self.knowledge.dividers_s)
            text += f", divider{'s' * (len(self.levels) > 1)} {dividers} s: {', '.join(shown)}"
        return text


def learn(
    jobs: JobTable, size: int, options: Options, clock: Clock | None, advance: Callable[[int], None]
) -> tuple[Schedule, Learned]:
    """Replay the workload with what the options' knowledge makes of its jobs; `advance` is told of jobs judged."""
    learning = options.learning
    knowledge = make(learning, jobs, clock)
    run = Replay(
        jobs,
        size,
        options.policy,
        backfill=options.backfill,
        threshold_s=options.threshold_s,
        divider_s=knowledge.dividers_s,
        learns=True,
    )
    driver = Driver(run, knowledge, kill=learning.kill, bound=learning.bound, killable=jobs.killable)
    driven = driver.drive(advance)
    return driven.schedule, Learned(knowledge, driven, learning.settings.levels)
