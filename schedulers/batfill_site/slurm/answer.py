"""The answer about changes of a site's Slurm: figures, sentences (**bold** is marked), and text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.files import json_text
from batfill.base.tables import Keyed, data_frame, text_html
from batfill.base.version import __version__
from batfill.base.words import columns, things
from batfill.model.jobs import DAY_S, Clock
from batfill_pages.comparison import FEWEST_JOBS
from batfill_pages.words import count, slowdown, submission_dates
from batfill_pages.words import duration_html as duration
from batfill_site.advice.payers import Changed
from batfill_site.advice.text import COLUMNS, LONGER, MINUS, NB, filled, first_upper, percent, users_text
from batfill_site.advice.what_if import too_short
from batfill_site.score import Score, Whose, ratio_text
from batfill_site.slurm.ensemble import OTHERS, USER, Difference, Figure
from batfill_site.slurm.site import Floats, Site, SlurmJobs

if TYPE_CHECKING:
    import pandas as pd

ENGINE = "batfill slurm"
NO_CHANGE = dict.fromkeys(("more", "more_low", "more_high", "noise", "beyond_noise"))
NOISE = "Slurm's own noise"
HEAD = ("", "mean wait", "change", "longest", "slowdown")
MOST_NOTES = 2  # on the first screen
# For `Score.unlike`: two runs of one Slurm have a rank correlation of about 0.9. The factor is for a log's mean that is
# outside the runs.
LEAST_RANK, FAR = 0.5, 1.5


class Outcome(NamedTuple):
    """Some jobs under one configuration. Times in seconds."""

    wait_s: Figure  # the mean wait
    longest_s: Figure
    bsld: Figure  # the mean bounded slowdown

    def columns(self) -> dict[str, Any]:
        """By name."""
        found: dict[str, Any] = {}
        for name, figure in zip(("mean_wait_s", "longest_s", "mean_bsld"), self, strict=True):
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
        """Whether the log's mean wait could be that of a run."""
        return self.lowest_s <= self.score.logged_mean_s <= self.highest_s

    @property
    def unlike(self) -> str | None:
        """Why the model does not show this site's waits; None if it may."""
        return self.score.unlike(math.inf if self.within else FAR, LEAST_RANK)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {"bsld": self.bsld, "lowest_s": self.lowest_s, "highest_s": self.highest_s}
        return {"score": self.score._asdict(), **own, **self.whose.as_dict()}


@dataclass(frozen=True, eq=False, repr=False)
class SlurmWhatIf(Keyed):
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

    @property
    def all(self) -> list[Outcome]:
        """The outcome of all jobs under each configuration."""
        return self.groups[0].outcomes

    @property
    def cautions(self) -> tuple[str, ...]:
        """Reasons not to trust the answer, a sentence each: waits not shown, too short a log."""
        days = (self.jobs.submit_s - self.jobs.submit_s[0]) // DAY_S
        short = too_short(len(np.unique(days // 7)), len(np.unique(days)))
        unlike = self.logged.unlike if self.logged is not None else None
        return tuple(filter(None, (unlike, short)))

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

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds."""
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

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    def as_text(self, *, details: bool = False) -> str:
        """One screen of a terminal of 80 columns, behind the figures of all groups and all notes with `details`."""
        said, notes, before = brief(self, self.best), self.warnings, list[str]()
        if details:
            for k, name in enumerate(self.names):
                rows = [
                    (f"{one.by} {one.name} ({count(one.jobs)})".lstrip(), *figures(one.outcomes[k]))
                    for one in self.groups
                ]
                before += [filled(name), *in_columns([HEAD, *rows], columns()), ""]
            before += [*(filled(f"Note: {text}") for text in notes), ""]
        last = [] if details else [f"Note: {text}" for text in notes[:MOST_NOTES]]
        last += [f"Notes: {len(notes) - MOST_NOTES} more."] * (len(notes) > MOST_NOTES and not details)
        lines = [
            filled(f"{self.name}: {log_text(self)}"),
            filled(headline(self)),
            *(filled(f"{name}: {text}") for name, text in cautions(self).items()),
            *in_columns([HEAD, *table_rows(self)]),
            *(filled(f"{name}: {text}") for name, text in said.items()),
            *map(filled, last),
        ]
        return "\n".join([*before, *lines]).replace(NB, " ")

    __repr__ = as_text

    def _repr_html_(self) -> str:
        """The text, for notebooks."""
        return text_html(self.as_text())


# In sentences


def rounded(seconds: float) -> str:
    """A duration, rounded to the unit in which it is written."""
    step_s = 3600 if seconds >= 86_400 else 60 if seconds >= 3600 else 1
    return duration(step_s * round(seconds / step_s))


def around(mean: float, margin: float) -> str:
    """A mean duration, and half of its interval; in whole minutes if it is long."""
    step_s = 60 if margin >= (60 if mean >= 1800 else 300) else 1
    return f" ±{NB}".join(rounded(step_s * round(seconds / step_s)) for seconds in (mean, margin))


def change(more: Difference | None) -> str:
    """A difference of durations, and half of its interval; in brackets if it is noise, "" without one."""
    if more is None:
        return ""
    said = around(abs(float(more.value)), float(more.margin))
    signed = said if said.startswith("0") else f"{MINUS if more.value < 0 else '+'}{said}"
    return signed if more.beyond else f"({signed})"


def headline(answer: SlurmWhatIf) -> str:
    """What the best change does to the mean wait, behind a warning if the model or the log does not decide that."""
    best, several = answer.best, len(answer.names) > 2
    more, stuck = answer.all[best].wait_s.more, answer.never[best] > answer.never[0]
    good = more is not None and more.beyond and more.value < 0 and not stuck
    said = f"no change shortens the mean wait beyond {NOISE}"
    if good or not several:
        said = verdict(answer, best)
    if answer.cautions and not stuck:
        return f"Cannot tell: {answer.cautions[0].partition(':')[0]}. Simulated, {said}"
    return first_upper(said)


def verdict(answer: SlurmWhatIf, k: int) -> str:
    """What a change does to the mean wait."""
    more, today, name = answer.all[k].wait_s.more, answer.all[0].wait_s.mean, f"**{answer.names[k]}**"
    if more is None:
        return f"the mean wait is {rounded(today)} {name}"
    if answer.never[k] > answer.never[0]:
        return f"under {name} {things(answer.never[k] - answer.never[0], 'job')} would never start"
    size, margin = abs(float(more.value)), float(more.margin)
    if size <= margin:
        return f"{name} does not move the mean wait beyond {NOISE}"
    share = f" ({percent(size / today)})" if today else ""
    does = f"{'shortens' if more.value < 0 else 'lengthens'} the mean wait"
    return f"{name} {does} by {around(size, margin)}{share}{'' if more.beyond else f': within {NOISE}'}"


def cautions(answer: SlurmWhatIf) -> dict[str, str]:
    """What to read before the figures: what was assumed, and how the model differs if it does not show the waits."""
    unlike = answer.logged is not None and answer.logged.unlike
    found = {"Assumed": f"{answer.assumed}." * bool(answer.assumed)}
    found["Real waits"] = f"{real_text(answer)} `batfill fidelity` looks for causes." if unlike else ""
    return {name: text for name, text in found.items() if text}


def table_rows(answer: SlurmWhatIf) -> list[tuple[str, ...]]:
    """The first table, whose columns are `HEAD`: the configurations."""
    return [(name, *figures(one)) for name, one in zip(answer.names, answer.all, strict=True)]


def figures(one: Outcome) -> tuple[str, ...]:
    """Mean wait, its change, longest wait and slowdown."""
    wait = one.wait_s
    return around(*wait[:2]), change(wait.more), rounded(one.longest_s.mean), slowdown(one.bsld.mean)


def brief(answer: SlurmWhatIf, k: int) -> dict[str, str]:
    """What to know about a change, or about the site as configured: a line each, by what it is about."""
    one, found = answer.all[k], {}
    if any(answer.never):
        stuck = [f"{things(n, 'job')} under {name}" for n, name in zip(answer.never, answer.names, strict=True) if n]
        found["Never start"] = f"{', '.join(stuck)}; no figure counts them."
    if one.wait_s.more is not None:
        apart = rounded(float(one.wait_s.more.noise))
        found |= {
            "Longest wait": f"{change(one.longest_s.more)}.",
            "By group": groups_text(answer, k),
            "Who pays": pays_text(answer, answer.payers[k - 1]),
            "Other changes": pairs_text(answer, k),
            "Noise": f"two runs of one configuration differ by {apart} in the mean wait; in brackets: within noise.",
        }
    found["Real waits"] = real_text(answer)
    return {name: text for name, text in found.items() if text and name not in cautions(answer)}


def ends_of(answer: SlurmWhatIf, k: int) -> dict[str, list[tuple[Group, Difference]]]:
    """Who gains and who loses most under a change, beyond noise: a group of jobs and a user each, if there are any."""
    found: dict[str, list[tuple[Group, Difference]]] = {"gain_most": [], "lose_most": []}
    changed = [(one, more) for one in answer.groups[1:] if (more := one.outcomes[k].wait_s.more) and more.beyond]
    for of_user in (False, True):
        those = [(one, more) for one, more in changed if (one.by == USER) is of_user and one.name != OTHERS]
        for name, sign in zip(found, (-1, 1), strict=True):
            most = max(those, key=lambda each: sign * each[1].value, default=None)
            found[name] += [most] if most and sign * most[1].value > 0 else []
    return found


def groups_text(answer: SlurmWhatIf, k: int) -> str:
    """Which group of jobs and which user gain and lose most; "" if there are none."""
    said = [
        f"{name.replace('_', ' ')}: {', '.join(f'{one.by} {one.name} ({change(more)})' for one, more in most)}"
        for name, most in ends_of(answer, k).items()
        if most
    ]
    return f"{'; '.join(said) or 'none changes beyond noise'}." if answer.groups[1:] else ""


def pays_text(answer: SlurmWhatIf, payers: Payers) -> str:
    """The shares of jobs and the numbers of users that wait longer and less."""
    jobs, users = payers.jobs, payers.users
    if not any(one and (one.longer or one.less) for one in (jobs, users)):
        return f"no job waits over {LONGER} longer, or less, on average over the runs."
    longer, less = f"{percent(jobs.share)} of jobs", percent(jobs.less / len(answer.jobs))
    if users is not None:
        longer += f", {users_text(users)} users with {FEWEST_JOBS} or more,"
        less += f" and {count(users.less)}"
    return f"{longer} wait over {LONGER} longer, on average over the runs; {less} less."


def pairs_text(answer: SlurmWhatIf, k: int) -> str:
    """The mean wait of a change against that of each other, the best first; "" without others."""
    others = sorted({*range(1, len(answer.names))} - {k}, key=lambda j: answer.all[j].wait_s.mean)
    said = [f"{change(answer.pair(j, k))} against {answer.names[j]}" for j in others]
    return f"{'; '.join(said)}." if said else ""


def real_text(answer: SlurmWhatIf) -> str:
    """How near the model of the site as configured is to the log."""
    found = answer.logged
    if found is None:
        return "the log has none to compare."
    low, high, rho = rounded(found.lowest_s), rounded(found.highest_s), found.score.rank_correlation
    longest = f"longest {rounded(found.score.logged_longest_s)}, {found.whose}"
    said = f"mean {rounded(found.score.logged_mean_s)} in the log ({longest}), {low} to {high} in the model's runs"
    if not found.within and not found.unlike:
        said += f" ({ratio_text(found.score.ratio)} of it): compare configurations, do not expect these durations"
    return f"{said}{'' if rho is None else f'; rank correlation {ratio_text(rho)}'}."


def log_text(answer: SlurmWhatIf) -> str:
    """The log's jobs, the site, the dates and the number of runs."""
    nodes, runs = answer.site.nodes, answer.settings["runs"]
    dates = submission_dates(answer.jobs.submit_s, Clock(0, UTC)).replace(" ", NB).replace(f"{NB}to{NB}", " to ")
    size = f"{count(len(answer.jobs))} jobs on {things(len(nodes), 'node')} ({count(answer.site.cpus)} CPUs)"
    return f"{size}, {dates}; means of {runs} runs (±{NB}95{NB}%: Slurm's cycles alone)"


# The terminal


def in_columns(rows: Sequence[Sequence[str]], width: int = COLUMNS) -> list[str]:
    """The rows as lines; where they would be too long, the names have lines of their own."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    fits = first + sum(others) + 2 * len(others) <= width
    lines = []
    for name, *cells in rows:
        lines += [] if fits or not name else [filled(name)]
        figures = "  ".join(map(str.rjust, cells, others))
        lines.append(f"{name.ljust(first) if fits else ''}  {figures}".rstrip())
    return lines
