"""What `slurm` found of changes of a site's Slurm, and the answer: a table, lines and details."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.tables import Keyed, data_frame
from batfill.base.version import __version__
from batfill.base.words import things
from batfill_pages.comparison import FEWEST_JOBS
from batfill_pages.words import count, slowdown
from batfill_site.advice.fill import ends_text, first_upper, longer_text, percent, shares
from batfill_site.advice.found import too_short
from batfill_site.advice.payers import OneGroup, Payers
from batfill_site.answer import (
    Answer,
    Answered,
    Bar,
    Detail,
    Picture,
    Point,
    Screen,
    Table,
    around,
    duration,
)
from batfill_site.answer import change as signed
from batfill_site.score import Score, Whose, ratio_text, uneven
from batfill_site.slurm.ensemble import OTHERS, USER, Difference, Figure, about
from batfill_site.slurm.named import touched, unmodelled
from batfill_site.slurm.site import Floats, Site, SlurmJobs

if TYPE_CHECKING:
    import pandas as pd

ENGINE = "batfill slurm"
NO_CHANGE = dict.fromkeys(("more", "more_low", "more_high", "noise", "beyond_noise"))
# For `Score.unlike`: two runs of one Slurm have a rank correlation of about 0.9. The factor is for a log's mean that is
# outside the runs.
LEAST_RANK, FAR = 0.5, 1.5
NOISE = "Slurm's own noise"
HEAD = ("", "mean wait", "change", "longest", "slowdown")
MOST_ROWS = 12  # of a kind of groups beside bars
NAMED, MOST_FAR = ("partition", "QOS", "account", USER), 3  # kinds of groups, and how many groups are named
CAPTION = "Means over the runs. Shaded: over twice the longest wait as configured."
RULE = (
    "An interval is of one comparison, over the cycles of {} runs, and says nothing of the jobs of another day. "
    "docs/how-to/slurm.md has the rule of noise and brackets, and what the model does not know."
)


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
    simulated_s: float  # the mean wait as configured of the jobs whose wait is known,
    logged_s: float  # and in the log

    @property
    def ratio(self) -> float | None:
        return self.simulated_s / self.logged_s if self.logged_s else None


class Logged(NamedTuple):
    """The log's waits beside those of the model as configured, of jobs that waited for nothing that is not modelled."""

    score: Score  # of the means over the runs
    whose: Whose  # the longest wait is
    lowest_s: float  # the mean wait in the run where it is lowest,
    highest_s: float  # and where it is highest

    @property
    def unlike(self) -> str | None:
        within = self.lowest_s <= self.score.logged_mean_s <= self.highest_s
        return self.score.unlike(math.inf if within else FAR, LEAST_RANK)

    def as_dict(self) -> dict[str, Any]:
        return {**{name: value for name, value in self._asdict().items() if name != "whose"}, **self.whose.as_dict()}


def changes(all_groups: list[Group], k: int, base: int = 0) -> list[OneGroup]:
    """The groups of jobs under one configuration, against another, users first; within noise it may be chance."""
    groups = []
    for one in sorted((one for one in all_groups if one.by), key=lambda one: one.by != USER):
        before, after = (one.outcomes[j].wait_s for j in (base, k))
        if (more := after.more or before.more) is not None and one.name != OTHERS:
            about = one.by, one.name, f"{one.by} {one.name}", one.jobs
            groups.append(OneGroup(*about, before.mean, after.mean, not more.beyond))
    return groups


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

    @property
    def all(self) -> list[Outcome]:
        """The outcome of all jobs under each configuration."""
        return self.groups[0].outcomes

    @property
    def cautions(self) -> tuple[str, ...]:
        """Reasons not to trust the answer, a sentence each: waits not shown, parts not modelled, too short a log."""
        short = too_short(self.jobs.submit_s - self.jobs.submit_s[0])
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
            {"by": group.by or "all", "group": group.name, "jobs": group.jobs, "configuration": name}
            | {"simulated_s": group.simulated_s, "logged_s": group.logged_s, **one.columns()}
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
            "payers": dict(zip(names[1:], self.payers, strict=True)),
            "pairs": [{"from": names[a], "to": names[b], **self.pair(a, b).as_dict()} for a, b in pairs],
            "assumed": self.assumed,
            "trusted": not self.cautions,
            "cautions": list(self.cautions),
            "logged": self.logged,
            "engine": ENGINE,
            "version": __version__,
        }

    def answer(self) -> Answer:
        """In a headline, a table, lines and details."""
        groups = [Detail(f"All groups of jobs, {name}", [], groups_table(self, k)) for k, name in enumerate(self.names)]
        return Answer(
            title=f"{self.name}: what changes of slurm.conf would do",
            about=about(self.site, self.jobs, self.settings["runs"]),
            screen=screen(self, self.best, headline(self)),
            picture=Picture(
                [point(self, k) for k in range(len(self.names))],
                self.best,
                *("as configured", "reference", CAPTION, f"within {NOISE}"),
                least_s=1.0,
            ),
            details=[
                *groups,
                Detail("Noise: runs, intervals, brackets", [RULE.format(self.settings["runs"])]),
                Detail("Notes on the log and the configuration", [first_upper(text) + "." for text in self.warnings]),
            ],
            data=self.figures(),
            assumed=self.assumed,
            guide="how-to/slurm",
        )


def screen(found: SlurmWhatIf, k: int, said: str) -> Screen:
    rows = [
        (f"**{name}**" if j == k else name, *cells(one))
        for j, (name, one) in enumerate(zip(found.names, found.all, strict=True))
    ]
    more, stuck = found.all[k].wait_s.more, [*zip(found.never, found.names, strict=True)]
    never = [f"{things(n, 'job')} under {name}" for n, name in stuck if n]
    lines = {"Never start": f"{', '.join(never)}; no figure counts them." if never else ""}
    if found.logged is not None and found.logged.unlike:
        lines["Real waits"] = f"{real_waits(found)} `batfill fidelity` looks for causes."
    lines["Not modelled"] = unmodelled(found.warnings)
    same = [found.names[k] for k in range(1, len(found.names)) if (found.mean_wait_s[k] == found.mean_wait_s[0]).all()]
    lines["Without effect"] = f"{'; '.join(same)}: mean waits are those as configured, in each run." if same else ""
    if more is not None:
        others = sorted({*range(1, len(found.names))} - {k}, key=lambda j: found.all[j].wait_s.mean)
        pairs = [f"mean wait {change(found.pair(j, k))} against {found.names[j]}" for j in others]
        lines["Longest wait"] = f"changes by {'; '.join([change(found.all[k].longest_s.more), *pairs])}."
        lines["Preempted"] = preempted(found, k)
        lines["Who pays"] = who_pays(found, k)
        apart = duration(float(more.noise))
        lines["Noise"] = f"two runs of one configuration differ by {apart} in the mean wait; in brackets: within noise."
    lines.setdefault("Preempted", preempted(found, k))
    lines.setdefault("Real waits", real_waits(found))
    return Screen(said, Table(HEAD, rows, range(len(rows))), lines)


def headline(found: SlurmWhatIf) -> str:
    best, several = found.best, len(found.names) > 2
    more, stuck = found.all[best].wait_s.more, found.never[best] > found.never[0]
    good = more is not None and more.beyond and more.value < 0 and not stuck
    said = verdict(found, best) if good or not several else f"no change shortens the mean wait beyond {NOISE}"
    if found.cautions and not stuck:
        return f"Cannot tell: {found.cautions[0].partition(':')[0]}. Simulated, {said}"
    return first_upper(said)


def verdict(found: SlurmWhatIf, k: int) -> str:
    more, today, name = found.all[k].wait_s.more, found.all[0].wait_s.mean, f"**{found.names[k]}**"
    if more is None:
        return f"the mean wait is {duration(today)} {name}"
    if found.never[k] > found.never[0]:
        return f"under {name} {things(found.never[k] - found.never[0], 'job')} would never start"
    return f"{name} {moves(more, today)}"


def moves(more: Difference, before_s: float) -> str:
    size, margin = abs(float(more.value)), float(more.margin)
    if size <= margin or not more.beyond:
        return f"does not move the mean wait beyond {NOISE}"
    share = f" ({percent(size / before_s)})" if before_s else ""
    does = f"{'shortens' if more.value < 0 else 'lengthens'} the mean wait"
    return f"{does} by {around(size, margin)}{share}"


def preempted(found: SlurmWhatIf, k: int) -> str:
    """How often jobs are preempted, whose, and what is lost; of a change that ends it, what it costs as configured."""
    base, own = found.all[0], found.all[k]
    ends = bool(base.stops and base.stops.mean and own.stops and not own.stops.mean)
    one = base if ends else own
    if one.stops is None or one.killed is None or one.lost_h is None:
        return ""
    most: dict[str, tuple[float, str]] = {}
    work_h = float((found.jobs.run_s * found.jobs.cpus).sum()) / 3600
    said = f"{'as configured, ' * ends}jobs {slowdown(one.stops.mean)} times a run"
    said += f" ({slowdown(one.killed.mean)} for good)" if one.killed.mean else ""
    said += f", {slowdown(one.lost_h.mean)} processor-hours of work lost, {percent(one.lost_h.mean / work_h)} of all"
    if k and base.stops and base.lost_h and not ends:
        said += f"; as configured {slowdown(base.stops.mean)} times, {slowdown(base.lost_h.mean)} hours"
    for group in found.groups[1:]:
        stops = group.outcomes[0 if ends else k].stops
        if group.by in ("partition", "QOS", USER) and group.name != OTHERS and stops and stops.mean > 0:
            most[group.by] = max(most.get(group.by, (0.0, "")), (stops.mean, group.name))
    those = ", ".join(f"{by} {name} ({percent(stops / one.stops.mean)})" for by, (stops, name) in most.items())
    said += f"; most often of {those}" * bool(those)
    if ends and own.wait_s.more is not None:
        cost = moves(own.wait_s.more._replace(value=-own.wait_s.more.value), own.wait_s.mean)
        whose = ends_text([each for each in changes(found.groups, 0, k) if not each.chance], counted=True)
        said += f". {'; '.join([f'It {cost}', *whose])}"
    return f"{said}."


def who_pays(found: SlurmWhatIf, k: int) -> str:
    payers = found.payers[k - 1]
    said = f"no job waits over {duration(payers.by_s)} longer, or less, on average over the runs"
    if any(one and (one.longer or one.less) for one in payers[:2]):
        said = longer_text(payers)
    return f"{'; '.join([said, *ends_text(changes(found.groups, k))])}."


def real_waits(found: SlurmWhatIf) -> str:
    log = found.logged
    if log is None:
        return "the log has none to compare."
    longest = f"longest {duration(log.score.logged_longest_s)}, {log.whose}"
    runs = f"{duration(log.lowest_s)} to {duration(log.highest_s)}"
    unlike = f"; {why.partition(': ')[2]}" if (why := log.unlike) else ""
    of = f" of {count(log.score.jobs)} jobs" * (log.score.jobs < len(found.jobs))
    mean = duration(log.score.logged_mean_s)
    return f"mean {mean}{of} ({longest}). Simulated ones, {runs}, are {log.score}{unlike}{far_off(found)}."


def far_off(found: SlurmWhatIf) -> str:
    """The named groups whose simulated waits are farther from their real ones than those of all jobs."""
    of_all = found.groups[0].ratio
    big = [one for one in found.groups if one.by in NAMED and one.name != OTHERS and one.jobs >= FEWEST_JOBS]
    far = [one for one in big if of_all and one.ratio and uneven(one.ratio, of_all)]
    far.sort(key=lambda one: -abs(one.simulated_s - one.logged_s))
    said = [f"{one.by} {one.name} {duration(one.simulated_s)} ({duration(one.logged_s)})" for one in far[:MOST_FAR]]
    return f"; farther off, simulated (real): {', '.join(said)}" * bool(said)


def point(found: SlurmWhatIf, k: int) -> Point:
    one, bars = found.all[k], list[Bar]()
    for by in dict.fromkeys(group.by for group in found.groups[1:]):
        those = [group for group in found.groups if group.by == by]
        kind = f"{by}: {MOST_ROWS} of {len(those)}, all with --details" if len(those) > MOST_ROWS else by
        for group in those[:MOST_ROWS]:
            wait_s, longest_s, *_ = group.outcomes[k]
            more, words = wait_s.more, change(wait_s.more).strip("()") or around(*wait_s[:2])
            value, unclear = (0.0, False) if more is None else (float(more.value), not more.beyond)
            longest = duration(longest_s.mean)
            bars.append(Bar(kind, group.name, value, unclear, words.partition(" ±")[0], longest))  # without an interval
    return Point(
        *(found.names[k], one.bsld.mean, one.longest_s.mean, screen(found, k, first_upper(verdict(found, k)))),
        shares=shares(found.payers[k - 1]) if k else [],
        bars=bars,
    )


def groups_table(found: SlurmWhatIf, k: int) -> Table:
    head = (*HEAD[:2], HEAD[2] if k else "sim/log", *HEAD[3:], *("preempted", "hours lost") * bool(found.all[k].stops))
    rows = []
    for one in found.groups:
        _, _, _, stops, _, lost_h = outcome = one.outcomes[k]
        more = (slowdown(stops.mean), slowdown(lost_h.mean)) if stops and lost_h else ()
        mean, change, *others = cells(outcome)
        beside = change if k else ratio_text(one.ratio)
        rows.append((f"{one.by} {one.name} ({count(one.jobs)})".lstrip(), mean, beside, *others, *more))
    return Table(head, rows)


def cells(one: Outcome) -> tuple[str, ...]:
    wait = one.wait_s
    return around(*wait[:2]), change(wait.more), duration(one.longest_s.mean), slowdown(one.bsld.mean)


def change(more: Difference | None) -> str:
    """A difference of durations, and half of its interval; in brackets if it is noise, "" without one."""
    if more is None:
        return ""
    said = around(float(more.value), float(more.margin), signed)
    return said if more.beyond else f"({said})"
