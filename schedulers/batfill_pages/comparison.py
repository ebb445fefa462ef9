"""Paired comparison of several choices on the same items, with the differences beyond chance.

The items are the jobs of a workload if whole runs are compared, or the pieces of a campaign (see `campaigns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.tables import JobRows, data_frame
from batfill.base.words import things
from batfill.model.jobs import DAY_S, WEEK_S
from batfill.model.metrics import bounded_slowdown
from batfill.model.option_texts import described, policy_words
from batfill.model.states import REFUSED
from batfill_pages.panels import figures_of
from batfill_pages.sample import span_s
from batfill_pages.single import Course, course
from batfill_pages.stats import CONFIDENCE, FEWEST_BLOCKS, comparison_warnings, paired
from batfill_pages.uses import uses_of
from batfill_pages.words import id_in_log, log_name, submission_dates, zone_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from batfill.model.jobs import Clock
    from batfill.replays.result import Result
    from batfill.replays.session import Replay
    from batfill_pages.runs import ReportedRun
    from batfill_pages.stats import Paired

CURVE_POINTS = 300
CHANGED_S = 600.0  # a wait is longer or shorter if it differs by more than this
ORDER = ("policy", "preset", "threshold")  # options that name a run even where all runs have them
FEWEST_JOBS = 20  # of a user whose mean wait is compared


class Whose(NamedTuple):
    """The jobs that runs are compared on, and where the page explains each run's."""

    ids: NDArray[np.object_]  # (n_jobs,)
    user: NDArray[np.int64]  # (n_jobs,)  -1 unknown
    procs: NDArray[np.int64]  # (n_jobs,)
    kills: NDArray[np.int64]  # (n_choices, n_jobs)  tries that were killed: the job ran again
    places: tuple[int, ...]  # (n_choices,)  the numbers of the runs' sections


class Difference(NamedTuple):
    """A choice against the first one, over the same items: its mean minus the first's."""

    name: str
    bsld: Paired
    wait_s: Paired
    better: float  # share of the items that wait less
    worse: float  # share of the items that wait more


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The same items under several choices. Columns have a row per item, in the order of `at`."""

    title: str
    items: str  # their kind: jobs, or pieces
    names: tuple[str, ...]  # (n_choices,)
    axis: str  # the label of `at`
    at: NDArray[np.float64]  # (n_items,)  ascending
    bsld: NDArray[np.float64]  # (n_choices, n_items)  of a piece, the mean
    wait_s: NDArray[np.float64]  # (n_choices, n_items)
    periods: str  # what `period` counts: weeks, or pieces
    period: NDArray[np.int64]  # (n_items,)  0, 1, ...
    blocks: str  # what `block` counts
    block: NDArray[np.int64]  # (n_items,)  0, 1, ...: items of one block depend on each other
    max_wait_s: NDArray[np.float64] | None = None  # (n_choices, n_items)  of a piece; None if items are jobs
    made: tuple[tuple[str, str], ...] = ()  # provenance by name: the log, the engine, ...
    warnings: tuple[str, ...] = ()  # reasons to doubt the figures
    clock: Clock | None = None  # the date of `at` 0, if `at` counts days of a log with dates
    words: tuple[tuple[str, str], ...] = ()  # (n_choices,)  the name in words and the short one; () for `names`
    log: str = ""  # the workload's name, for headings
    about: str = ""  # jobs, machine and dates, for the line below
    hindsight: tuple[bool, ...] = ()  # (n_choices,)  which were learned from these items; () for none
    commands: tuple[str, ...] = ()  # which repeat the choices
    courses: tuple[Course, ...] = ()  # (n_choices,)  the queue over time, in the same bins; () for pieces
    zero: Clock | None = None  # the date of second 0 of the log
    invented: tuple[str, ...] = ()  # of the warnings, those that requests were invented
    whose: Whose | None = None  # the jobs of runs; None for pieces
    uses: tuple[dict[str, str], ...] = ()  # (n_choices,)  figures of pools and energy by name; () for pieces

    @property
    def n_periods(self) -> int:
        return int(self.period.max()) + 1

    @property
    def period_bsld(self) -> NDArray[np.float64]:
        """The mean bounded slowdown of each period's items, shape (n_choices, n_periods)."""
        return np.array([np.bincount(self.period, weights=row) for row in self.bsld]) / np.bincount(self.period)

    def cumulative(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(at, sums): the total bsld of all items so far, over the number of all items; ends at the mean."""
        points = np.unique(np.linspace(0, len(self.at) - 1, CURVE_POINTS).astype(np.int64))
        return self.at[points], (np.cumsum(self.bsld, axis=1) / len(self.at))[:, points]

    def differences(self, seed: int) -> list[Difference]:
        """Every choice but the first, compared with the first; see `against`, which waits are compared by, too."""
        bsld, longer_s = (figure[1:] - figure[0] for figure in (self.bsld, self.wait_s))
        figures = (self.paired(gains, seed) for gains in (bsld, longer_s))
        sides = ((float((one < 0).mean()), float((one > 0).mean())) for one in longer_s)
        rows = zip(self.names[1:], *figures, sides, strict=True)
        return [Difference(name, bsld, wait_s, *of_jobs) for name, bsld, wait_s, of_jobs in rows]

    def paired(self, columns: Iterable[NDArray[np.float64]], seed: int) -> list[Paired]:
        """The mean of each column, (n_items,), against 0, corrected for all; whole blocks are swapped, not jobs."""
        sums = np.array([np.bincount(self.block, weights=column) for column in columns])
        return paired(sums, np.bincount(self.block), null=0, seed=seed, together=True) if len(sums) else []

    def doubts(self, compared: Mapping[str, Paired]) -> tuple[str, ...]:
        return comparison_warnings(compared, self.n_blocks, self.blocks)

    def against(self, references: Sequence[int], seed: int) -> dict[int, list[Paired | None]]:
        """The mean bounded slowdowns minus each reference's, None for itself; corrected by reference."""
        found: dict[int, list[Paired | None]] = {}
        for one in references:
            others = [k for k in range(len(self.names)) if k != one]
            compared = iter(self.paired([self.bsld[k] - self.bsld[one] for k in others], seed))
            found[one] = [None if k == one else next(compared) for k in range(len(self.names))]
        return found

    @property
    def longest_s(self) -> NDArray[np.float64]:
        longest: NDArray[np.float64] = (self.wait_s if self.max_wait_s is None else self.max_wait_s).max(axis=1)
        return longest

    @property
    def n_blocks(self) -> int:
        return int(self.block.max()) + 1


def comparisons(runs: Sequence[ReportedRun], tau_s: float) -> list[Comparison]:
    groups: dict[bytes, dict[int, ReportedRun]] = {}
    for number, run in enumerate(runs):
        first = run.attempt == 0
        ids = "\n".join(map(id_in_log, run.ids[first]))
        jobs = [run.submit_s[first].tobytes(), run.procs[first].tobytes(), ids.encode()]
        groups.setdefault(b"\n".join(jobs), {})[number] = run
    several_runs = [group for group in groups.values() if len(group) > 1]
    return [compared(group, tau_s) for group in several_runs if next(iter(group.values())).final.any()]


def compared(numbered: Mapping[int, ReportedRun], tau_s: float) -> Comparison:
    """The runs of one workload, by the number of their section, over the jobs that none rejected."""
    runs = list(numbered.values())
    refused = np.concatenate([run.job[run.state == REFUSED] for run in runs])
    rows = [run.final & ~np.isin(run.job, refused) for run in runs]
    jobs = rows[0]
    about, first = [run.about for run in runs], runs[0]
    engines = dict.fromkeys(f"{one.engine} {one.version}".strip() for one in about)
    clock = first.about.clock
    ran = [(run.wait_s[row], run.runtime_s[row]) for run, row in zip(runs, rows, strict=True)]
    submit_s = first.submit_s[jobs]
    begins_s, ends_s = zip(*map(span_s, runs), strict=True)
    span, dates = (min(begins_s), max(ends_s)), submission_dates(submit_s, clock)
    given = [one.given.items() for one in about]
    shared = {name: value for name, value in given[0] if name not in ORDER and all((name, value) in x for x in given)}
    alike = policy_words({"policy": "fcfs", **shared})[0].removeprefix(policy_words("fcfs")[0])
    return of_jobs(
        tuple(run.name for run in runs),
        submit_s,
        np.array([bounded_slowdown(waited_s, ran_s, tau_s) for waited_s, ran_s in ran]),
        np.array([waited_s for waited_s, _ in ran]),
        where=first.where,
        clock=clock,
        made=(
            ("log", first.where),
            ("engine", ", ".join(engine or "unknown" for engine in engines)),
            ("tau", f"{tau_s:g} s"),
            ("dates", zone_text(clock) if clock else "no clock: counted from 0"),
        ),
        warnings=tuple(dict.fromkeys(warning for one in about for warning in one.warnings)),
        words=names_in_words(runs, shared),
        log=log_name(first.about.log),
        about=f"{things(len(submit_s), 'job')} on {things(first.size, 'processor')}, {dates}{alike}",
        hindsight=tuple(one.hindsight for one in about),
        commands=tuple(dict.fromkeys(one.command for one in about if one.command)),
        zero=clock,
        courses=tuple(course(run, span) for run in runs),
        invented=tuple(dict.fromkeys(warning for one in about for warning in one.invented)),
        uses=tuple(figures_of(uses_of(run)) for run in runs),
        whose=Whose(
            first.ids[jobs],
            first.facts.user[jobs],
            first.procs[jobs],
            np.array([run.attempt[row] for run, row in zip(runs, rows, strict=True)]),
            tuple(numbered),
        ),
    )


def names_in_words(runs: Sequence[ReportedRun], shared: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Long and short names, without the options that all of the runs share."""
    own = [{name: value for name, value in run.about.given.items() if name not in shared} for run in runs]
    found = [policy_words(one) if one else (run.name, run.name) for run, one in zip(runs, own, strict=True)]
    shorts = [short for _, short in found]
    return tuple(
        (
            long if run.about.options and run.name.startswith(run.about.options) else run.name,
            short if shorts.count(short) == 1 else run.name,
        )
        for run, (long, short) in zip(runs, found, strict=True)
    )


def several(given: Sequence[Any]) -> list[tuple[str | None, Any]]:
    """The things in these arguments, with their names in dicts: each is one, a list of them, or a dict by name."""
    found: list[tuple[str | None, Any]] = []
    for one in given:
        if isinstance(one, Mapping):
            found += [(str(name), value) for name, value in one.items()]
        elif isinstance(one, Iterable) and not isinstance(one, (str, Path, JobRows)):
            found += [(None, value) for value in one]
        else:
            found.append((None, one))
    return [(name, one.result() if hasattr(one, "result") else one) for name, one in found]


def compare(
    *results: Result | Replay | Iterable[Result | Replay] | Mapping[str, Result | Replay], seed: int = 0
) -> pd.DataFrame:
    """Paired differences of replays of one workload, with intervals and verdicts: each of the others minus the first.

    The jobs are those that no replay rejected. Neighbouring jobs are not independent, so whole weeks are compared, or
    days if there are fewer than 12 weeks; see `stats.paired` for the 95 % intervals and the p-values.

    Args:
        *results: replays of the same jobs, with the same tau: the baseline first. Also a list of them, or a dict, whose
            keys are their names.
        seed: of the resampling.

    Returns:
        A row per replay and figure, mean bounded slowdown and mean wait: the two means, the difference, the ends of its
        interval (infinite below 6 blocks), the p-value, alone and corrected for all rows, the verdict ("better",
        "worse" or "unclear"), and the shares of the jobs that wait less and more. `attrs` have the numbers of jobs and
        blocks, and warnings. Needs pandas.

    Raises:
        BatfillError: there is nothing to compare, a replay has not ended, or jobs or taus differ.

    Examples:
        >>> from batfill.replays.replay import replay
        >>> fcfs, saf = (replay("workloads/sample.json", name) for name in ("fcfs", "saf"))
        >>> frame = compare(fcfs, saf)
        >>> frame[["policy", "figure"]].values.tolist()
        [['saf', 'mean_bsld'], ['saf', 'mean_wait_s']]
        >>> bool((frame.low < frame.difference).all() and (frame.difference < frame.high).all())
        True
    """
    given = several(results)
    if wrong := [one for _, one in given if not hasattr(one, "schedule")]:
        raise BatfillError(f"compare: {wrong[0]!r:.80} is not the result of a replay; `replay` returns one")
    if len(given) < 2:
        raise BatfillError("compare: only one replay; give at least one more to compare with it")
    replays: list[Result] = [one for _, one in given]
    first, *others = replays
    jobs = first.schedule.jobs
    for result in replays:
        if not result.ended:
            raise BatfillError(f"compare: {result.not_ended:,} jobs have not ended; run every replay to its end")
        if result.tau_s != first.tau_s:
            raise BatfillError(f"compare: tau is {first.tau_s:g} s and {result.tau_s:g} s; replay all with the same")
        if not result.same_jobs(first):
            raise BatfillError(
                f"compare: {first.workload.name} and {result.workload.name} are not the same jobs; replay one workload"
            )
    ran = np.all([result.schedule.ended for result in replays], axis=0)
    if not ran.any():
        raise BatfillError("compare: no job ran in every replay; give a larger machine")
    names = tuple(one.options.policy.name if name is None else name for name, one in given)
    waits = np.array([result.schedule.wait_s[ran] for result in replays])
    runtimes = (result.schedule.runtime_s[ran] for result in replays)
    bslds = [bounded_slowdown(wait_s, ran_s, first.tau_s) for wait_s, ran_s in zip(waits, runtimes, strict=True)]
    comparison = of_jobs(names, jobs.submit_s[ran], np.array(bslds), waits)
    rows, differences = [], comparison.differences(seed)
    for k, (result, found) in enumerate(zip(others, differences, strict=True), 1):
        for figure, one, values in (
            ("mean_bsld", found.bsld, comparison.bsld),
            ("mean_wait_s", found.wait_s, comparison.wait_s),
        ):
            rows.append(
                {
                    "policy": found.name,
                    "options": described(result.options.as_dict()),
                    "against": described(first.options.as_dict()),
                    "figure": figure,
                    "first": float(values[0].mean()),
                    "this": float(values[k].mean()),
                    "difference": one.value,
                    **{name: getattr(one, name) for name in ("low", "high", "p", "corrected_p", "verdict")},
                    "waits_less": found.better,
                    "waits_more": found.worse,
                }
            )
    n, blocks = comparison.n_blocks, comparison.blocks
    figures = {f"the slowdown of {d.name}": d.bsld for d in differences}
    figures |= {f"the wait of {d.name}": d.wait_s for d in differences}
    warnings = [*first.workload.warnings, *comparison.doubts(figures)]
    about = {"workload": first.workload.name, "tau_s": first.tau_s, "seed": seed, "confidence": CONFIDENCE}
    return data_frame(rows, **about, warnings=warnings, jobs=int(ran.sum()), blocks=n, block=blocks)


def of_jobs(
    names: tuple[str, ...],
    submit_s: NDArray[np.float64],
    bsld: NDArray[np.float64],
    wait_s: NDArray[np.float64],
    *,
    where: str = "",
    clock: Clock | None = None,
    **more: Any,
) -> Comparison:
    """Runs of the same jobs, in order of submission, by week; days are compared if weeks are few.

    `submit_s` is (n_jobs,), ascending; `bsld` and `wait_s` are (n_runs, n_jobs). `where` is the workload and its
    machine, `clock` the date of second 0, and `more` has further fields of `Comparison`.
    """
    since_s = submit_s - submit_s[0]
    week, day = (np.unique(since_s // length_s, return_inverse=True)[1] for length_s in (WEEK_S, DAY_S))
    few = int(week.max()) + 1 < FEWEST_BLOCKS
    return Comparison(
        title=f"{f'{where}: ' if where else ''}{len(names)} runs of {len(submit_s):,} jobs",
        items="jobs",
        names=names,
        axis=f"submitted ({zone_text(clock)})" if clock else "submitted, days since the first job",
        at=since_s / DAY_S,
        bsld=bsld,
        wait_s=wait_s,
        periods="weeks",
        period=week,
        blocks="days" if few else "weeks",
        block=day if few else week,
        clock=clock.later(float(submit_s[0])) if clock else None,
        **more,
    )
