"""What `slurm` found of changes of a site's Slurm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.tables import Keyed, data_frame
from batfill.base.version import __version__
from batfill.model.jobs import DAY_S
from batfill_site.advice.found import too_short
from batfill_site.advice.payers import Changed
from batfill_site.answer import Answer, Answered
from batfill_site.score import Score, Whose
from batfill_site.slurm.ensemble import OTHERS, Difference, Figure
from batfill_site.slurm.named import touched
from batfill_site.slurm.site import Floats, Site, SlurmJobs

if TYPE_CHECKING:
    import pandas as pd

ENGINE = "batfill slurm"
NO_CHANGE = dict.fromkeys(("more", "more_low", "more_high", "noise", "beyond_noise"))
# For `Score.unlike`: two runs of one Slurm have a rank correlation of about 0.9. The factor is for a log's mean that is
# outside the runs.
LEAST_RANK, FAR = 0.5, 1.5


class Outcome(NamedTuple):
    """Some jobs under one configuration. Times in seconds."""

    wait_s: Figure  # the mean wait
    longest_s: Figure
    bsld: Figure  # the mean bounded slowdown
    # Of all jobs together; None if no configuration preempts any.
    stops: Figure | None = None  # how often they were preempted,
    killed: Figure | None = None  # how many of them for good,
    lost_h: Figure | None = None  # and the processor-hours that they had then run for nothing

    def columns(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        names = ("mean_wait_s", "longest_s", "mean_bsld", "preempted", "killed", "lost_cpu_h")
        for name, figure in zip(names, self, strict=True):
            if figure is None:
                continue
            more = NO_CHANGE if figure.more is None else figure.more.as_dict()
            found |= {name: figure.mean, f"{name}_margin": figure.margin}
            found |= {f"{name}_{part}": value for part, value in more.items()}
        return found


class Group(NamedTuple):
    """Some jobs, and the outcome under each configuration."""

    by: str  # what the groups are of; "" for all jobs
    name: str
    jobs: int
    outcomes: list[Outcome]


class Payers(NamedTuple):
    """Who waits over 10 minutes longer or less, on average over the runs and beyond Slurm's own noise."""

    jobs: Changed
    users: Changed | None  # of those with `FEWEST_JOBS`; None without any


class Logged(NamedTuple):
    """The log's waits beside those of the model as configured, of jobs that waited for nothing that is not modelled."""

    score: Score  # of the means over the runs
    bsld: float
    whose: Whose  # the longest wait is
    lowest_s: float  # the mean wait in the run where it is lowest,
    highest_s: float  # and where it is highest

    @property
    def within(self) -> bool:
        return self.lowest_s <= self.score.logged_mean_s <= self.highest_s

    @property
    def unlike(self) -> str | None:
        return self.score.unlike(math.inf if self.within else FAR, LEAST_RANK)

    def as_dict(self) -> dict[str, Any]:
        own = {"bsld": self.bsld, "lowest_s": self.lowest_s, "highest_s": self.highest_s}
        return {"score": self.score._asdict(), **own, **self.whose.as_dict()}


@dataclass(frozen=True, eq=False, repr=False)
class SlurmWhatIf(Answered, Keyed):
    """The answer. Configurations are numbered: 0 is the site as configured, then come the changes."""

    name: str  # the log's
    names: tuple[str, ...]  # of the configurations
    site: Site
    jobs: SlurmJobs  # those that start under every configuration
    groups: list[Group]  # all jobs first
    payers: list[Payers]  # of each change
    never: list[int]  # how many other jobs never start under each configuration
    mean_wait_s: Floats  # (configurations, runs)
    logged: Logged | None  # None if no wait is known
    assumed: str  # of the version and of shares, and how to give them; "" for nothing
    settings: dict[str, Any]  # the options of `slurm`
    inputs: dict[str, str]  # files and their sha256
    warnings: tuple[str, ...]
    filled: Callable[[SlurmWhatIf], Answer]  # how it is said

    @property
    def all(self) -> list[Outcome]:
        """The outcome of all jobs under each configuration."""
        return self.groups[0].outcomes

    @property
    def cautions(self) -> tuple[str, ...]:
        """Reasons not to trust the answer, a sentence each: waits not shown, parts not modelled, too short a log."""
        days = (self.jobs.submit_s - self.jobs.submit_s[0]) // DAY_S
        short = too_short(len(np.unique(days // 7)), len(np.unique(days)))
        unlike = self.logged.unlike if self.logged is not None else None
        return tuple(filter(None, (unlike, touched(self.site, self.jobs)[1], short)))

    @property
    def best(self) -> int:
        """The change with the shortest mean wait, of those under which the most jobs start; 0 without any."""
        return min(range(1, len(self.names)), key=lambda k: (self.never[k], self.all[k].wait_s.mean), default=0)

    def pair(self, a: int, b: int) -> Difference:
        """How much longer the mean wait is under b than under a."""
        return Difference.of(self.mean_wait_s[a], self.mean_wait_s[b])

    def rows(self) -> list[dict[str, Any]]:
        """A row per group of jobs and configuration."""
        return [
            {"by": group.by or "all", "group": group.name, "jobs": group.jobs, "configuration": name, **one.columns()}
            for group in self.groups
            for name, one in zip(self.names, group.outcomes, strict=True)
        ]

    def to_pandas(self) -> pd.DataFrame:
        """A row per group of jobs and configuration; `attrs` have the options. Needs pandas."""
        return data_frame(self.rows(), warnings=list(self.warnings), options=self.settings, inputs=self.inputs)

    def figures(self) -> dict[str, Any]:
        """By name; times in seconds."""
        names, pairs = self.names, [(a, b) for b in range(len(self.names)) for a in range(1, b)]
        options = {field.name: getattr(self.site.settings, field.name) for field in fields(self.site.settings)}
        return {
            "log": self.name,
            "inputs": self.inputs,
            "warnings": list(self.warnings),
            "nodes": len(self.site.nodes),
            "cpus": self.site.cpus,
            "jobs": len(self.jobs),
            "never_start": dict(zip(names, self.never, strict=True)),
            **self.settings,
            "slurm": {name: dict(value) if hasattr(value, "items") else value for name, value in options.items()},
            "configurations": list(names),
            "groups": self.rows(),
            "payers": {
                name: {who: None if one is None else one._asdict() for who, one in self.payers[k - 1]._asdict().items()}
                | {end: {one.by: one.name for one, _ in most} for end, most in ends_of(self, k).items()}
                for k, name in enumerate(names[1:], 1)
            },
            "pairs": [{"from": names[a], "to": names[b], **self.pair(a, b).as_dict()} for a, b in pairs],
            "assumed": self.assumed,
            "trusted": not self.cautions,
            "cautions": list(self.cautions),
            "logged": None if self.logged is None else self.logged.as_dict(),
            "engine": ENGINE,
            "version": __version__,
        }

    def answer(self) -> Answer:
        """In a headline, a table, lines and details."""
        return self.filled(self)


def ends_of(answer: SlurmWhatIf, k: int) -> dict[str, list[tuple[Group, Difference]]]:
    """Who gains and who loses most under a change, beyond noise: of each kind of groups one, if there are any."""
    found: dict[str, list[tuple[Group, Difference]]] = {"gain_most": [], "lose_most": []}
    changed = [(one, more) for one in answer.groups[1:] if (more := one.outcomes[k].wait_s.more) and more.beyond]
    for by in dict.fromkeys(one.by for one, _ in changed):
        those = [(one, more) for one, more in changed if one.by == by and one.name != OTHERS]
        for name, sign in zip(found, (-1, 1), strict=True):
            most = max(those, key=lambda each: sign * each[1].value, default=None)
            found[name] += [most] if most and sign * most[1].value > 0 else []
    return found
