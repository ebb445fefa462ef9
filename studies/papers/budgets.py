"""The CCGrid 2017 paper on energy budgets: weeks of logs under a budget, by its program's rules and by batfill's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from batfill.base.errors import BatfillError
from batfill.base.files import digest
from batfill.model.jobs import HOUR_S, WEEK_S, job_table
from batfill.model.limits.calendar import ANNOUNCED, Calendar, Window
from batfill.model.metrics import bounded_slowdown
from batfill.replays.replay import replay
from batfill.workloads.batsim_json import load_document, run_times
from batfill.workloads.formats import load_log
from batfill.workloads.swf import machine_size
from batfill_lab.campaigns.sections import Section, Seed
from batfill_pages.stats import CONFIDENCE, FEWEST_BLOCKS, holm, paired
from studies.papers.core import (
    Array,
    Chart,
    Context,
    Outcome,
    Table,
    Value,
    Verdict,
    computation,
    is_kept,
    kept,
    listed,
    shared,
    side_by_side,
)
from studies.papers.energybud import FAULTS, MODES, Job, Limits, Watts, published_starts

HOST_SPEED = 100e6  # operations per second of the processors that the paper's files are for
GRAIN_S = 2  # in those, run times are multiples of this, and requests at least twice the run times
QUEUED_S = 0.1  # when they submit the jobs that wait at their beginning, just behind those that run
UNITS = 100  # of a watt: the replay's are whole

Percent = Annotated[float, Field(gt=0, le=100)]
Second = Annotated[int, Field(ge=0)]
WattsOf = Annotated[list[float], Field(min_length=2, max_length=2)]
# No budget; a cap on power, or a balance of joules, as batfill has them; or the program's, perhaps without a fault.
Rule = Annotated[
    str,
    Field(
        pattern=r"^(EASY|cap(, not announced)?|balance(, head holds)?(, real watts)?"
        rf"|({'|'.join(MODES)})(, ({'|'.join(FAULTS)}|all) corrected)?)$"
    ),
]


class Setting(Section):
    """A budget's period, and what a processor draws: idle, and computing."""

    period: Annotated[list[Second], Field(min_length=2, max_length=2)]  # in seconds of the week
    estimated: WattsOf  # what decisions count with,
    real: WattsOf  # and what is drawn
    monitoring: Annotated[int, Field(ge=1)]  # seconds between two measurements


class Budgets(Section):
    """The weeks and their budgets."""

    weeks: Annotated[list[Second], Field(min_length=1)]  # where they begin, in seconds of the log
    budgets: Annotated[list[Percent], Field(min_length=1)]  # of the energy of all processors computing
    setting: Setting

    def limits(self, budget: float, procs: int) -> Limits:
        """A budget of a machine."""
        known, estimated = self.setting, Watts(*self.setting.estimated)
        rate_w, (begin_s, end_s) = budget / 100 * procs * estimated.computing, known.period
        return Limits(procs, rate_w, begin_s, end_s, known.monitoring, estimated, Watts(*known.real))


class Week(NamedTuple):
    """The jobs of a week, in the order of their submissions, and the machine's size."""

    jobs: tuple[Job, ...]
    procs: int


class Figures(NamedTuple):
    """What is said of a schedule."""

    utilisation: float  # of the week
    bsld: float  # mean over the jobs
    wait_h: float  # mean
    longest_h: float
    drawn: float  # in the period, as a share of what all processors draw if they compute, by the estimate


Found = dict[float, list[Figures]]  # by budget, of each week


# Weeks


@cache
def log_columns(path: Path) -> tuple[dict[str, Array], int]:
    """The log's columns that weeks are cut by, without jobs that did not run or request, and the machine's size.

    Raises:
        BatfillError: the log is unreadable, or does not state the machine's size.
    """
    log = load_log(path)
    procs = machine_size(path, log)
    if procs is None:
        raise BatfillError(f"{path}: does not say how many processors there are; add a line ; MaxProcs: N")
    width = np.where(log["procs"] > 0, log["procs"], log["requested_procs"])
    usable = (log["runtime_s"] > 0) & (log["requested_s"] > 0) & (width > 0) & (width <= procs)
    names = ("submit_s", "wait_s", "runtime_s", "requested_s")
    return {"procs": width[usable], **{name: log[name][usable] for name in names}}, procs


def cut(path: Path, at_s: int) -> Week:
    """The week from a date of the log on, as the paper's files have it.

    Jobs that run then are submitted at 0, with what is left of their run times and requests; those that wait, right
    behind; and those that are submitted within a week, that long after the first of these. No job runs
    longer than its request.
    """
    log, procs = log_columns(path)
    submit_s, run_s = log["submit_s"], np.minimum(log["runtime_s"], log["requested_s"])
    start_s = submit_s + np.maximum(log["wait_s"], 0)
    runs, waits = (start_s < at_s) & (start_s + run_s > at_s), (submit_s < at_s) & (start_s >= at_s)
    comes = (submit_s >= at_s) & (submit_s < at_s + WEEK_S)
    if not comes.any():
        raise BatfillError(f"{path}: no job is submitted in the week from second {at_s:,} on; correct weeks")
    date_s = np.select([comes, waits], [submit_s - submit_s[comes].min(), QUEUED_S], 0.0)
    elapsed_s = np.where(runs, at_s - start_s, 0)
    left_s = run_s - elapsed_s
    request_s = np.maximum(log["requested_s"] - elapsed_s, 2 * left_s)
    columns = np.array([date_s, left_s // GRAIN_S * GRAIN_S, request_s, log["procs"]])
    return Week(jobs_of(columns[:, runs | waits | comes]), procs)


def read_week(path: Path) -> Week:
    """The week in one of the paper's files, which are workloads of an early Batsim.

    Raises:
        WorkloadError: it is none.
    """
    document = load_document(path)
    run_s = run_times(str(path), document.jobs, document.tasks(), HOST_SPEED)
    jobs = zip(document.jobs, run_s, strict=True)
    rows = [(job["subtime"], run, max(job.get("walltime", run), run, 1), job["res"]) for job, run in jobs]
    return Week(jobs_of(np.array(rows, np.float64).T), document.nb_res)


def jobs_of(columns: Array) -> tuple[Job, ...]:
    """The jobs of these columns by submission, in whole seconds, (4, n_jobs)."""
    ordered = columns[:, np.argsort(columns[0], kind="stable")].astype(np.int64)
    return tuple(Job(*row) for row in ordered.T.tolist())


def sources_of(context: Context, weeks: Iterable[int]) -> dict[int, Path]:
    """The file that each week is from: the paper's own of this week, or a log; without weeks that have neither.

    Raises:
        BatfillError: there are none.
    """
    own = {week: path for week, (name, path) in product(weeks, context.logs.items()) if name.endswith(f"_{week}.json")}
    log = next((path for name, path in context.logs.items() if not name.endswith(".json")), None)
    found = {week: path for week in weeks if (path := own.get(week, log))}
    if not found:
        raise BatfillError(f"{', '.join(context.logs)}: none of the weeks that the entry takes; correct weeks")
    return found


# Schedules


def starts(rule: str, week: Week, limits: Limits) -> Array:
    """When each job starts by a rule, in seconds, shape (n_jobs,)."""
    mode, _, words = rule.partition(", ")
    if mode in MODES:
        corrected = [fault for fault in FAULTS if words.startswith((fault, "all"))]
        return np.array(published_starts(week.jobs, limits, mode, corrected), np.float64)
    submit_s, run_s, request_s, procs = zip(*week.jobs, strict=True)
    ids = [f"{row:06}" for row in range(len(submit_s))]  # whose order as text is that of the jobs
    jobs = job_table(submit_s=submit_s, runtime_s=run_s, walltime_s=request_s, procs=procs, ids=ids)
    options = options_of(rule, limits)
    return replay(
        jobs.stating(name="a week", size=week.procs), "fcfs", advance=lambda _: None, **options
    ).schedule.start_s


def options_of(rule: str, limits: Limits) -> dict[str, Any]:
    """The replay's options, with watts in hundredths.

    A balance charges estimates; one of real watts knows what a measurement would tell.
    """
    idle, computing = (round(UNITS * watts) for watts in (limits.real if "real" in rule else limits.estimated))
    idle, each, rate = limits.procs * idle, computing - idle, int(UNITS * limits.rate_w)
    begin_s, end_s = limits.begin_s, limits.end_s
    if rule.startswith("balance"):
        holds = ",head-holds" if "head holds" in rule else ""
        period = f"{rate * (end_s - begin_s)}J@{begin_s}..{end_s}"
        return {"energy_budget": f"{period},watts={each}W,idle={idle}W{holds}"}
    lacking = limits.procs * each - (rate - idle)
    if rule == "EASY" or lacking <= 0:
        return {}
    window = Window(ANNOUNCED, begin_s, end_s, lacking, begin_s if "not" in rule else None, pool="power", base="W")
    return {"pool": f"power={limits.procs * each}W@{each}W", "calendar": Calendar((window,))}


def figures_of(start_s: Array, week: Week, limits: Limits) -> Figures:
    """The figures of a schedule."""
    submit_s, run_s, _, procs = np.array(week.jobs, np.float64).T
    end_s, wait_s = start_s + run_s, start_s - submit_s

    def used(begin_s: int, until_s: int) -> float:
        """The share of the processors in use."""
        each_s = np.maximum(np.minimum(end_s, until_s) - np.maximum(start_s, begin_s), 0)
        return float((each_s * procs).sum() / (limits.procs * (until_s - begin_s)))

    idle, computing = limits.real
    bsld, drawn_w = bounded_slowdown(wait_s, run_s), idle + (computing - idle) * used(limits.begin_s, limits.end_s)
    waits = float(wait_s.mean()) / HOUR_S, float(wait_s.max()) / HOUR_S
    return Figures(used(0, WEEK_S), float(bsld.mean()), *waits, drawn_w / limits.estimated.computing)


def ran(context: Context, rule: str, how: Budgets) -> Found:
    """The figures of all weeks under a rule."""

    def make() -> dict[str, list[Figures]]:
        found: dict[str, list[Figures]] = {f"{budget:g}": [] for budget in how.budgets}
        for at_s, path in sources_of(context, how.weeks).items():
            week = read_week(path) if path.suffix == ".json" else cut(path, at_s)
            for budget in how.budgets:
                limits = how.limits(budget, week.procs)
                found[f"{budget:g}"].append(figures_of(starts(rule, week, limits), week, limits))
        return found

    found = kept(context.folder, "budgets", key_of(context, rule, how), ran, make)
    return {float(budget): [Figures(*each) for each in by_week] for budget, by_week in found.items()}


def key_of(context: Context, rule: str, how: Budgets) -> dict[str, Any]:
    """All that the figures under a rule depend on."""
    weeks = {str(at_s): digest(path) for at_s, path in sources_of(context, how.weeks).items()}
    return {"rule": rule, **shared(Budgets, how).model_dump(), "weeks": weeks}


def all_ran(context: Context, rules: Iterable[str], how: Budgets) -> dict[str, Found]:
    """The figures under these rules, side by side if they are not kept yet."""
    mine = shared(Budgets, how)
    kinds = ("EASY", "cap", "balance", *MODES)  # the last take longest
    names = sorted(dict.fromkeys(rules), key=lambda rule: ("corrected" in rule, kinds.index(rule.partition(",")[0])))
    names.reverse()
    tasks = [(rule, mine) for rule in names if not is_kept(context.folder, "budgets", key_of(context, rule, how), ran)]
    side_by_side(context, ran, tasks, "rules")
    return {rule: ran(context, rule, mine) for rule in names}


def source_note(context: Context, how: Budgets) -> str:
    """Where the weeks are from."""
    names = [path.name for path in sources_of(context, how.weeks).values()]
    return f"Weeks: {', '.join(f'{names.count(name)} from {name}' for name in dict.fromkeys(names))}."


# Measures over the weeks, and the paper's statements

Measure = Literal[
    "utilisation", "AVEbsld", "mean wait (h)", "longest wait (h)", "drawn / budget (%)", "drawn / most (%)"
]


def measured(measure: Measure, found: Found, budget: float) -> float:
    """A measure under a budget: the mean over the weeks, or the most of them for the longest wait and the budget."""
    utilisation, bsld, wait_h, longest_h, drawn = np.array(found[budget]).T
    values = {
        "utilisation": utilisation.mean(),
        "AVEbsld": bsld.mean(),
        "mean wait (h)": wait_h.mean(),
        "longest wait (h)": longest_h.max(),
        "drawn / budget (%)": 100 * drawn.max() / (budget / 100),
        "drawn / most (%)": 100 * drawn.mean(),
    }
    return float(values[measure])


@computation
def budget_figures(
    context: Context,
    how: Budgets,
    *,
    rules: Annotated[list[Rule], Field(min_length=1)],
    measures: Annotated[list[Measure], Field(min_length=1)],
) -> Outcome:
    """Figures 2 to 4: measures over the weeks, a table each, a row per rule and a column per budget; curves."""
    judges = set(MODES) <= set(rules)
    found = all_ran(context, [*rules, *(["EASY"] if judges else [])], how)
    tables, charts = [], []
    for measure in measures:
        rows: dict[str, list[Value]] = {
            rule: [measured(measure, found[rule], budget) for budget in how.budgets] for rule in rules
        }
        tables.append(Table.of_rows([f"{budget:g} %" for budget in how.budgets], rows, measure))
        lines = tuple(sorted(zip(how.budgets, *rows.values(), strict=True)))
        name = measure.partition(" (")[0].replace(" / ", "-of-").replace(" ", "-")
        charts.append(
            Chart(
                name,
                "lines",
                ("budget", *rows),
                lines,
                x="budget (% of all computing)",
                y=measure,
                log_y=measure == "AVEbsld",
            )
        )
    verdicts = verdicts_on(found, how) if judges else {}
    most = {rule: max(measured("drawn / budget (%)", found[rule], budget) for budget in how.budgets) for rule in rules}
    note = f"Drawn in % of the budget, the most of all weeks and budgets: {listed(most, ' {:.2f}', '; ')}."
    return Outcome(tuple(tables), verdicts, tuple(charts), (source_note(context, how), note))


def verdicts_on(found: dict[str, Found], how: Budgets) -> dict[str, Verdict]:
    """On what the paper says of its rules while no machine is shut down; 100 % of the energy binds nothing."""
    binding = [budget for budget in how.budgets if budget < 100]
    begin_s, end_s = how.setting.period

    def three(measure: Measure) -> dict[str, tuple[float, ...]]:
        return {f"{b:g} %": tuple(measured(measure, found[mode], b) for mode in MODES) for b in binding}

    def words(values: dict[str, tuple[float, ...]], digits: int) -> str:
        return f"{', '.join(MODES)}: {listed(values, ' ' + ', '.join([f'{{:.{digits}f}}'] * 3), '; ')}"

    used, drawn, bsld, worst = (
        three("utilisation"),
        three("drawn / most (%)"),
        three("AVEbsld"),
        three("drawn / budget (%)"),
    )
    line = {
        f"{b:g} %": measured("utilisation", found["EASY"], b) * (1 - (end_s - begin_s) / WEEK_S * (1 - b / 100))
        for b in binding
    }
    over = {at: tuple(each / line[at] for each in values) for at, values in used.items()}
    tight, loose = ({at: over[at] for at in over if at in names} for names in (("90 %",), ("90 %", "80 %")))
    return {
        "utilisation": Verdict(all(cap < low < most for cap, low, most in used.values()), words(used, 3)),
        "energy": Verdict(all(cap < low < most for cap, low, most in drawn.values()), words(drawn, 1)),
        "best-slowdown": Verdict(all(each[2] == min(each) for each in bsld.values()), words(bsld, 0)),
        "cap-not-worst": Verdict(all(each[0] < max(each) for each in bsld.values()), words(bsld, 0)),
        "respected": Verdict(all(max(each) <= 100 for each in worst.values()), f"worst week, {words(worst, 2)}"),
        "all-efficient": Verdict(min(map(min, tight.values()), default=0) >= 1, f"over the line, {words(tight, 3)}"),
        "energybud-efficient": Verdict(
            min((each[2] for each in loose.values()), default=0) >= 1, f"over the line, {words(loose, 3)}"
        ),
    }


@computation
def budget_comparisons(
    context: Context,
    how: Budgets,
    *,
    base: Rule,
    others: Annotated[list[Rule], Field(min_length=1)],
    seed: Seed = 0,
) -> Outcome:
    """The AVEbsld of other rules over that of one, week by week: the ratio of the sums, its interval, and a test.

    All p-values are corrected together.
    """
    found = all_ran(context, [base, *others], how)
    n_tests = len(others) * len(how.budgets)
    bsld = {rule: {b: np.array([one.bsld for one in found[rule][b]]) for b in how.budgets} for rule in found}
    n_weeks = len(bsld[base][how.budgets[0]])
    tests = {b: paired(np.array([bsld[rule][b] for rule in others]), bsld[base][b], seed=seed) for b in how.budgets}
    corrected = iter(holm([one.p for each in tests.values() for one in each]))
    head = ("ratio", "low", "high", f"p, corrected for {n_tests}", f"worse in, of {n_weeks}")
    tables = []
    for b, each in tests.items():
        rows: dict[str, list[Value]] = {}
        for rule, one in zip(others, each, strict=True):
            worse = float((bsld[rule][b] > bsld[base][b]).sum())
            ends = (one.low, one.high) if one.bounded else (None, None)
            rows[f"{rule} / {base}"] = [one.value, *ends, next(corrected), worse]
        tables.append(Table.of_rows(head, rows, f"{b:g} %"))
    few = f" They are fewer than the {FEWEST_BLOCKS} from which on intervals are calibrated." * (
        n_weeks < FEWEST_BLOCKS
    )
    note = f"{n_tests} comparisons over {n_weeks} weeks; each interval alone is one of {100 * CONFIDENCE:g} %.{few}"
    return Outcome(tuple(tables), notes=(source_note(context, how), note))
