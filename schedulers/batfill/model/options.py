"""The scheduler's options: one table of names, kinds, defaults and meanings, which every host reads.

Each option is a field of `Options`, with its row, whose parts are in `rows`. The command line, the plug-in's JSON,
campaigns, the documentation's table, the types in `arguments` and the results all read the rows, as `OPTIONS`. This
module loads no library that is slow to import, since `batfill COMMAND --help` and shell completion read it too.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import ARGUMENT_OF, BatfillError, nearest, require
from batfill.model import rows
from batfill.model.rows import (
    LIVE_ONLY,
    PREDICTIONS,
    SMALL_JOBS,
    WHAT,
    Divider,
    Needs,
    Option,
    Own,
    option,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.model.calendar import Calendar
    from batfill.model.energy import Budget
    from batfill.model.gate import Gate
    from batfill.model.jobs import Clock, JobTable, Workload
    from batfill.model.policy import Policy
    from batfill.model.pools import Pool, Pools
    from batfill.model.rules import Rules

NO_PRESET, FIRST_TRIES, CONSERVATIVE = "none", "first-tries", "conservative_bf"
NO_SMALL, CLASS, EVERY, FOREST, PERFECT = SMALLS = ("none", "class", "all", "forest", "perfect")
REQUEST, RUNTIME = "request", "runtime"
LEARNED = ("easy++", "regression")  # predictions of run times, which jobs may outlive
NEVER, ALWAYS, NEEDED = KILLS = ("never", "always", "needed")
ALL, ORDER, HALF = "all", "order", "half"
RESERVATION, PROCESSORS, KEPT, MACHINES = "reservation", "processors", "kept", "machines"
PLAN, UNLIMITED, REJECT = "plan", "unlimited", "reject"

# File in which a scheduler started by `batfill run` writes the options in force.
OPTIONS_FILE = "BATFILL_OPTIONS_FILE"
REQUESTED = "requested_features"  # in that file, under Batsim 5: the features that the scheduler's hello requested
WARNINGS = "warnings"  # in that file, at the end: what the scheduler found odd, one line each

OF_SMALL = Needs("small", SMALLS[1:], "no job is small", EVERY, own=True)
OF_DIVIDED = Needs("small", SMALLS[1:], "no divider decides which jobs are small", EVERY)
OF_SPARED = Needs("kill", (NEEDED,), "tries are not killed only where that helps")
OF_FOREST = Needs("small", (FOREST,), "no forest is trained")
OF_THRESHOLD = Needs("threshold", (), "no job is overdue without a threshold", "24h")
OF_REQUESTS = Needs("small", (NO_SMALL,), "small jobs take their requests")
OF_PREDICTIONS = Needs("predict", (*LEARNED, RUNTIME), "nothing is predicted", own=True)


class Preset(NamedTuple):
    """A setting that goes by a name."""

    values: dict[str, Any]  # by option, as results state them
    meaning: str  # in words; empty for none
    lacks: str = ""  # what batfill does not model of a real scheduler
    title: str = ""  # its name in words, if it is more than numbers beside an order

    @property
    def words(self) -> str:
        """The meaning, and what batfill does not model."""
        return f"{self.meaning} Not modelled: {self.lacks}" if self.lacks else self.meaning


PRESETS = {
    NO_PRESET: Preset({}, ""),
    FIRST_TRIES: Preset(
        {
            "policy": "aged:20000,0.1,0",
            "threshold": 50_000,
            "overdue": HALF,
            "small": EVERY,
            "divider": 120,
            "small-width": 0.125,
            "kill": NEEDED,
            "stand-back": 32.0,
        },
        "Every job of at most an eighth of the machine first gets a try of two minutes. The try is killed only if its "
        "processors are needed, and the job then starts again from its beginning. The order ages. First, in order of "
        "submission and without a try, come the older half of the jobs that have waited for 13 h 53 min, a large job "
        "for which processors are kept idle, and all that wait while they request over 32 times the machine.",
        title="A short first try for narrow jobs",
    ),
    "slurm": Preset(
        {"depth": ALL, "tested": 500},
        "sched/backfill by default: a reservation for each of the 500 jobs that it tests (bf_max_job_test).",
        "nodes, the pause between passes (bf_interval), the horizon of a day (bf_window), dates in whole minutes "
        "(bf_resolution), priorities and partitions.",
    ),
    "flux": Preset(
        {"depth": 1, "tested": 32},
        "The queue policy easy: one reservation among the 32 jobs that it looks at (queue-depth).",
        "resources other than processors, and that Flux passes over jobs that need machines which have failed: here "
        "they take places among the 32.",
    ),
    "pbs": Preset(
        {"depth": 0},
        "The defaults of OpenPBS: no reservation, whatever backfill_depth says, as strict_ordering is off.",
        "nodes, the pause between cycles (scheduler_iteration), and help for starving jobs.",
    ),
    CONSERVATIVE: Preset(
        {"depth": ALL, PLAN: f"{rows.KEPT}:5"},
        "batsched's conservative_bf by default: a plan on machines that is kept, with 5 s more for each job. Live "
        "schedulers alone have it, and nothing of it is left out.",
    ),
}


class Study(NamedTuple):
    """What papers' studies vary beside the table; no command takes it, and `as_dict` does not state it."""

    bound: bool = True  # whether a job that may be killed at the divider is expected to end there at the latest
    regime: str = "fresh"  # the learner knows all that has ended; "decoupled": what had ended by the last week's end
    divider_rule: str = "known"  # the median of all known run times; "week": of the last week's


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a scheduler orders, backfills, kills and learns, with a row of the table for each field.

    None is the queue's own order, any number of running jobs, or no calendar; `threshold_s` is Theta. What
    the preset stands for is in the other fields.
    """

    # fmt: off
    preset: str = option(WHAT, words(*PRESETS), NO_PRESET, "A setting; see `batfill policies`.", quiet=True)
    policy: Policy = option(WHAT, rows.POLICY, "fcfs", "Queue order; see `batfill policies`.", off=MISSING)
    backfill: Policy | None = option(WHAT, rows.BACKFILL, rows.SAME, "The order of backfilling.")
    depth: int | str = option(WHAT, rows.DEPTH, 1, "The number of reservations, or all.", quiet=True)
    tested: int | str = option(WHAT, rows.TESTED, ALL, "How many jobs are tested, or all.", quiet=True)
    reservation: str = option(WHAT, words(PROCESSORS, KEPT, MACHINES), PROCESSORS, "What the head reserves: "
        "processors, kept processors, or (live) machines.", quiet=True)
    max_running: int | None = option(WHAT, rows.MOST, None, "The most jobs of one user that run at once.", quiet=True)
    calendar: Calendar | None = option(WHAT, rows.CALENDAR, None, "Windows in which processors are unavailable.",
        quiet=True)
    backfill_while: Gate | None = option(WHAT, rows.GATE, None, "When jobs are backfilled, as grid.csv:300.",
        quiet=True)
    pool: Pools | None = option(WHAT, rows.POOLS, None, "What jobs take besides, as licences=40.", quiet=True)
    energy_budget: Budget | None = option(WHAT, rows.BUDGET, None, "Energy in a period, as 2MWh@0..3d,watts=100W.",
        quiet=True)
    threshold_s: float = option(WHAT, rows.LIMIT_S, None, "Jobs that waited longer come first, oldest first.",
        off=math.inf)
    overdue: str = option(WHAT, words(ALL, HALF), ALL, "All overdue jobs, or the older half.", OF_THRESHOLD)
    small: str = option(SMALL_JOBS, rows.words_or_own(True, *SMALLS), NO_SMALL, "Which jobs get a first try, up to the "
        "divider: none, all, those of class small, those that a forest expects to be short, or (perfect) that are.")
    divider: Divider = option(SMALL_JOBS, rows.DIVIDER, "median", "A try's length: a duration, the median of the "
        "known run times, or a part, as median/4.", OF_DIVIDED)
    small_width: float = option(SMALL_JOBS, rows.WIDTH, 1, "The widest job that can be small, as a share of the "
        "machine.", OF_SMALL)
    kill: str = option(SMALL_JOBS, words(*KILLS), NEEDED, "When a try is killed at the divider and queued again as "
        "large: never, always, or if its processors are needed; always with another reservation.",
        OF_SMALL, off=NEVER)
    stand_back: float | None = option(SMALL_JOBS, rows.BACKLOG, None, "No try for overdue jobs, a large head, or while "
        "waiting jobs request more machines than this.",
        OF_SMALL, OF_SPARED, quiet=True)
    seed: int = option(SMALL_JOBS, rows.SEED, 0, "Seed of the forests.", OF_FOREST)
    predict: str = option(PREDICTIONS, rows.words_or_own(False, REQUEST, *LEARNED, RUNTIME), REQUEST, "What a job is "
        "expected to run: its request, easy++, regression, or the true runtime.", OF_REQUESTS)
    predict_for: str = option(PREDICTIONS, words(ORDER, ALL), ORDER, "Where that replaces the request: in the order "
        "alone, or in backfilling, too; all if the order changes.", OF_PREDICTIONS, off=ALL)
    # fmt: on
    study: Study = Study()

    def __post_init__(self) -> None:
        """Refuse a calendar from which nothing can be learned, if something is.

        Raises:
            BatfillError: there is one.
        """
        if self.calendar is not None and self.learns and self.calendar.most_kills(1):
            raise BatfillError(
                f"option calendar: {self.calendar.name} has failures, which kill jobs, and nothing can be learned "
                "of those; leave the lines of kind failure out, or what is learned"
            )

    @classmethod
    def of(cls, given: Mapping[str, Any], *, places: bool = False) -> Options:
        """The options in a mapping from NAMES to values, as from JSON or a command line; None means unset.

        Args:
            given: the mapping.
            places: whether the scheduler places jobs on machines, so that the head can reserve some.

        Raises:
            BatfillError: as `in_force`, or machines are reserved where there are none.
        """
        chosen = in_force(given)
        if chosen[RESERVATION] == MACHINES and not places:
            refuse_live(f"{RESERVATION} {MACHINES}")
        return cls(**{OPTIONS[name].argument: value for name, value in chosen.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """Every option by name, in the table's order and as a user writes it; None: off, or not applicable.

        Every result states its options in this form.
        """
        stated = {name: rows.plain_value(getattr(self, option.argument)) for name, option in OPTIONS.items()}
        stated["backfill"] = stated["backfill"] or rows.SAME
        if any(stated[name] is None for name in PRESETS[self.preset].values):  # which the preset would switch on again
            stated["preset"] = NO_PRESET
        whole = dict(stated)
        return {
            name: value if all(need.met(whole) for need in OPTIONS[name].needs) else None
            for name, value in stated.items()
        }

    def as_text(self) -> str:
        """The same as one line, without the options that do not apply, and without the defaults of quiet ones."""
        stated = self.as_dict()
        changed = [name for name, value in PRESETS[stated["preset"]].values.items() if value != stated[name]]
        if changed:
            stated["preset"] += f" but for {', '.join(changed)}"
        return ", ".join(
            f"{name} {OPTIONS[name].with_unit(value)}"
            for name, value in stated.items()
            if (value is not None or OPTIONS[name].default is None)
            and not (OPTIONS[name].quiet and value == OPTIONS[name].default)
        )

    @property
    def digests(self) -> dict[str, Any]:
        """What a result states besides `as_dict`: the sha256 of files; see `policy.digests`."""
        from batfill.model.policy import digests

        return digests([self.policy, self.backfill]) | self.file_digests

    @property
    def dated(self) -> dict[str, Any]:
        """The options in force that have dates, by argument: a calendar, a gate, an energy budget."""
        return {name: one for name in DATED if (one := getattr(self, name)) is not None}

    @property
    def file_digests(self) -> dict[str, str]:
        """The sha256 of the files with dates; {} without any."""
        return {f"{name}_sha256": one.digest for name, one in self.dated.items() if hasattr(one, "digest")}

    def on(self, workload: Workload, jobs: JobTable) -> Options:
        """The same with all dates in seconds of these jobs of a workload, which must be able to run beside a calendar.

        Raises:
            BatfillError: they are not, a date does not fit the machine or the workload, or no job has a field that an
                option reads.
        """
        made = self.in_seconds(workload.clock).sized(workload.procs or 0)
        made.require_taken(jobs, workload.name)
        if made.calendar is not None:
            assert workload.procs is not None
            made.calendar.require_machine(workload.procs, made.pools)
            made.calendar.require_possible(jobs, workload.procs, workload.name, made.pools)
        return made

    def in_seconds(self, clock: Clock | None) -> Options:
        """The same with all dates in seconds of a log with this clock.

        Raises:
            BatfillError: there are dates and no clock, or a budget does not say what jobs draw.
        """
        made = replace(self, **{name: one.on(clock) for name, one in self.dated.items()})
        if made.energy_budget is None:
            return made
        return replace(made, energy_budget=made.energy_budget.drawn_by(self.pools))

    def sized(self, size: int) -> Options:
        """The same on a machine of `size` processors, of whose draw a pool may be a share.

        Raises:
            BatfillError: nothing is left of a pool.
        """
        return self if self.pool is None else replace(self, pool=self.pool.on(size))

    # What the options mean together

    @property
    def pools(self) -> tuple[Pool, ...]:
        """What jobs take beside processors."""
        return self.pool or ()

    @property
    def taken(self) -> list[tuple[str, Pool]]:
        """All pools, each behind the option that it is of."""
        from batfill.model.pools import RUNNING, Pool

        limit = self.max_running
        drawn = None if self.energy_budget is None else self.energy_budget.pool
        return [
            *([] if limit is None else [("max-running", Pool(RUNNING, int(limit), of_user=True))]),
            *(("pool", pool) for pool in self.pools),
            *([] if drawn is None else [("energy-budget", drawn)]),
        ]

    @property
    def fields(self) -> set[str]:
        """The fields of jobs that pools read."""
        read = {pool.reads for _, pool in self.taken if pool.reads}
        return read | {"resources"} if read else read

    @property
    def kills(self) -> bool:
        """Whether small jobs are killed at the divider."""
        return self.kill != NEVER

    @property
    def spares(self) -> bool:
        """Whether a try may go on at the divider."""
        return self.kill == NEEDED

    @property
    def bound(self) -> bool:
        """Whether a small job that may be killed is expected to end at the divider at the latest."""
        tries = self.small in (EVERY, FOREST, PERFECT) or isinstance(self.small, Own)
        return self.study.bound and self.kills and tries  # jobs of a class keep their requests

    @property
    def keeps(self) -> bool:
        """Whether the head keeps the reservation that it got when it became the head."""
        return self.reservation == KEPT

    @property
    def half(self) -> bool:
        """Whether only the older half of the overdue jobs goes first."""
        return self.overdue == HALF

    @property
    def learns(self) -> bool:
        """Whether a predictor judges each job at its submission."""
        return self.predict != REQUEST or self.small in (FOREST, PERFECT) or self.learns_divider or self.own is not None

    @property
    def own(self) -> Any:
        """The user's own predictor or classifier, a `learn.Knowledge`; None if there is none."""
        return next((word.knowledge for word in (self.predict, self.small) if isinstance(word, Own)), None)

    @property
    def learns_divider(self) -> bool:
        """Whether the divider moves with the run times."""
        return self.small in (EVERY, FOREST, PERFECT) and self.divider.fixed_s == math.inf

    @property
    def outlived(self) -> bool:
        """Whether a job may outlive its expected run time."""
        outlived = self.predict in LEARNED if self.own is None else self.own.outlived
        return outlived and self.predict_for == ALL

    @property
    def divider_s(self) -> float:
        """The divider at the beginning; inf if there is none, or none yet."""
        return math.inf if self.small == NO_SMALL else self.divider.fixed_s

    @property
    def rules(self) -> Rules:
        """The rules of the queue at the beginning, which have the names of what they are made of here."""
        from batfill.model.rules import EVERY_JOB, Rules

        chosen = {each.name: getattr(self, each.name) for each in fields(Rules)}
        chosen = {name: EVERY_JOB if value == ALL else value for name, value in chosen.items() if value is not None}
        return Rules(**chosen)

    def widest_try(self, size: int) -> int:
        """The most processors that a small job may request on a machine of `size` processors; at least 1."""
        return max(1, math.floor(self.small_width * size * (1 + 1e-12)))

    def calls_small(self, job_class: Any, procs: Any, size: int) -> Any:
        """Whether jobs of these classes and widths are small, where nothing is learned; arrays, or one job's values."""
        from batfill.model.jobs import SMALL

        chosen = (job_class == SMALL) if self.small == CLASS else self.small == EVERY
        return chosen & (procs <= self.widest_try(size))

    def require_libraries(self) -> None:
        """Check that the library for training is installed, before the first job is judged.

        Raises:
            MissingExtra: it is needed and missing.
        """
        if self.small == FOREST:
            require("learn", "sklearn")

    def require_taken(self, jobs: JobTable, source: str) -> None:
        """Refuse a pool of which no job takes anything, and fields that a pool reads and are no amounts.

        Raises:
            BatfillError: there is one.
        """
        from batfill.model.pools import DRAWN

        for name, pool in self.taken if len(jobs) else ():
            amounts = pool.amounts(jobs) * ((jobs.user >= 0) | (not pool.of_user))
            if not amounts.any():
                raise BatfillError(f"{source}: option {name}: {pool.unused}")
            if (odd := pool.odd(jobs)) is not None:
                raise BatfillError(f"{source}: option {name}: {pool.reads} of job {odd} is no number >= 0; correct it")
            if pool.name == DRAWN and (most := amounts > pool.capacity).any():
                raise BatfillError(
                    f"{source}: option {name}: job {jobs.ids[most.argmax()]} draws more than {pool.capacity:,} W, up "
                    "to which sums are exact; correct it"
                )

    def require_classes(self, jobs: JobTable, source: str) -> None:
        """Refuse classes of the workload if no job states its own.

        Raises:
            BatfillError: no job states its class.
        """
        from batfill.model.jobs import UNKNOWN

        if self.small == CLASS and len(jobs) and (jobs.job_class == UNKNOWN).all():
            raise BatfillError(
                f"{source}: option small class needs jobs with a field `class`, and none of {len(jobs)} has one; "
                "choose small all, or take a Batsim workload with classes"
            )


OPTIONS = {
    name: Option(name, *each.metadata["row"])
    for each in fields(Options)
    if each.metadata
    for name in [each.name.removesuffix("_s").replace("_", "-")]
}
NAMES = tuple(OPTIONS)
DATED = ("calendar", "backfill_while", "energy_budget")  # arguments with dates
ARGUMENTS = {option.argument: option for option in OPTIONS.values()}
ARGUMENT_OF.update((name, option.argument) for name, option in OPTIONS.items())  # for the messages of errors

# The options that `what-if` hands on to all its replays, and those to the ones with small jobs first.
SHARED_BY_CHOICES = tuple(
    name for name, each in OPTIONS.items() if each.group == WHAT and name not in ("preset", "policy", "threshold")
)
SHARED_BY_TRIES = tuple(name for name, each in OPTIONS.items() if {OF_SMALL, OF_DIVIDED} & set(each.needs))

# Options of a scheduler that places jobs on machines: `batfill schedule` and the plug-in.
LIVE = rows.options_table(
    (UNLIMITED, LIVE_ONLY, words("run", "reject"), "run", "What becomes of a job without a walltime: it runs, or is "
     "rejected, as by batsched's easy_bf."),
    (PLAN, LIVE_ONLY, rows.PLANNED, rows.SCRATCH, "With depth "
     "all: whether each decision plans from scratch, or the plan is kept, on machines, as batsched's conservative_bf "
     "does; kept:5, batsched's own default, plans each job for 5 s longer than its request."),
    ("select", LIVE_ONLY, rows.CHOOSER, None, "Choose the policy "
     "again after each period: full, noisy, epsilon-greedy, ucb1 or exp3, as exp3:period=1d,policies=fcfs+saf."),
)  # fmt: skip


def arguments_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their own names as keyword arguments; absent ones are left out."""
    return {OPTIONS[name].argument: value for name, value in given.items() if value is not None}


def of_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options of keyword arguments, by the options' own names, for `Options.of`.

    Numbers may be numpy's; an infinite threshold means none.

    Raises:
        BatfillError: an argument is unknown; the message suggests the nearest.

    Examples:
        >>> of_arguments({"policy": "saf", "threshold_s": 7200, "small_width": None})
        {'policy': 'saf', 'threshold': 7200, 'small-width': None}
        >>> of_arguments({"threshold": 7200})
        Traceback (most recent call last):
        batfill.base.errors.BatfillError: argument 'threshold' is unknown; did you mean 'threshold_s'?
    """
    given = {}
    for name, value in arguments.items():
        if name not in ARGUMENTS:
            refuse_other(name.replace("_", "-"))
            suggested = nearest(name, ARGUMENTS) or f"; known are {', '.join(ARGUMENTS)}"
            raise BatfillError(f"argument {name!r} is unknown{suggested}")
        option = ARGUMENTS[name]
        if getattr(value, "ndim", None) == 0:
            value = value.item()
        if option.default is None and option.kind.unit and isinstance(value, float) and value == math.inf:
            value = rows.OFF
        given[option.name] = value
    return given


def in_force(given: Mapping[str, Any]) -> dict[str, Any]:
    """The checked value of every option, given or by default; None: off, or not applicable with the others.

    Raises:
        BatfillError: a name is unknown, or a value is invalid or would have no effect with the others.
    """
    given, _ = with_preset(given)
    chosen = {}
    for name, row in OPTIONS.items():
        chosen[name] = usual(row) if given.get(name) is None else row.check(name, given[name])
    for name, need in idle_in(chosen).items():
        if given.get(name) is not None and chosen[name] != usual(OPTIONS[name]):
            raise BatfillError(f"option {name}: {need.why.format(value=chosen[need.option])}; {remedy(name, given)}")
        chosen[name] = None
    if chosen["predict-for"] == ORDER:
        orders = [order for order in (chosen["policy"], chosen["backfill"]) if order is not None]
        moving = [order.name for order in orders if order.moves]  # whose keys read the expected run time in force
        if given.get("predict-for") is None and moving:
            chosen["predict-for"] = ALL
        elif moving:
            raise BatfillError(
                f"option predict-for: {ORDER} takes orders that stay as they are, and that of {moving[0]} changes "
                "while jobs wait; choose another policy, or predict-for all"
            )
    refuse_without_effect(chosen)
    return chosen


def with_preset(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The given options with those of their preset, and why some of these lapse, by name.

    A given option wins over the preset's. A value of the preset lapses if it would make a given option useless, or if
    it is left without what it needs itself.

    Raises:
        BatfillError: a name is unknown.

    Examples:
        >>> with_preset({"preset": "first-tries", "small": "none"})[1]["divider"]
        'no divider decides which jobs are small'
    """
    for name in given:
        if name not in OPTIONS:
            refuse_other(str(name))
            suggested = nearest(str(name), OPTIONS)
            raise BatfillError(f"option {name!r} is unknown; known are {', '.join(OPTIONS)}{suggested}")
    given = {
        name: None if isinstance(value, str) and value.strip().lower() == OPTIONS[name].off else value
        for name, value in given.items()
        if value is not None
    }
    values = named_values(given)
    whole = {RESERVATION: PROCESSORS, "small": NO_SMALL} | values | given
    if whole[RESERVATION] != PROCESSORS and whole["small"] not in (None, NO_SMALL) and given.get("kill") is None:
        given["kill"] = ALWAYS  # whether a kill pays is known only where each decision reserves processors again
    usual_ones = {name: option.default for name, option in OPTIONS.items()}
    kept = {name: value for name, value in values.items() if name not in given and name in OPTIONS}
    why: dict[str, str] = {}

    def drop(name: str, reason: str) -> None:
        why[name] = reason
        del kept[name]

    for name in given:
        for need in OPTIONS[name].needs:
            meets = need.option in kept and need.met(usual_ones)
            if meets and given[name] != usual_ones[name] and not need.met(usual_ones | kept):
                drop(need.option, f"{name} is {given[name]}")
    for name in list(kept):  # what an option needs stands before it in the table, and so in a preset
        for need in OPTIONS[name].needs:
            if name in kept and not need.met(usual_ones | kept | given):
                drop(name, need.why.format(value=(usual_ones | kept | given)[need.option]))
    return {**kept, **given}, why


def lapses(given: Mapping[str, Any]) -> list[str]:
    """A line for each value of the preset that lapses beside the given options, as for `with_preset`."""
    return [f"the preset's {name} lapses: {why}" for name, why in with_preset(given)[1].items()]


def named_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the preset stands for."""
    preset: str = OPTIONS["preset"].check("preset", given["preset"] if given.get("preset") is not None else NO_PRESET)
    return PRESETS[preset].values


def plans_machines(preset: str) -> bool:
    """Whether a preset is for live schedulers alone."""
    return preset in PRESETS and bool(LIVE.keys() & PRESETS[preset].values.keys())


def refuse_without_effect(chosen: Mapping[str, Any]) -> None:
    """Refuse values that mean something each, and nothing together.

    Raises:
        BatfillError: some of these do.
    """
    if chosen["depth"] in (0, ALL) and chosen["backfill"] is not None:
        none_left = "no job gets a reservation" if chosen["depth"] == 0 else "every job that waits gets a reservation"
        raise BatfillError(
            f"option backfill: with depth {chosen['depth']} {none_left}, and no order of backfilling begins behind the "
            "last; leave one of them out"
        )
    if plans_machines(chosen["preset"]):
        raise BatfillError(
            f"option preset: {chosen['preset']} plans machines, and a replay counts processors; leave it out, or "
            "simulate it with `batfill run`"
        )
    if (reserved := chosen[RESERVATION]) != PROCESSORS:
        if chosen["kill"] == NEEDED:
            raise BatfillError(
                f"option kill: needed compares reservations of processors; choose always, or leave reservation "
                f"{reserved} out"
            )
        plan = {"depth": 1, "tested": ALL} | dict.fromkeys(
            ("calendar", "backfill-while", "max-running", "pool", "energy-budget")
        )
        if any(chosen[name] != usual_one for name, usual_one in plan.items()):
            raise BatfillError(
                f"options {', '.join(plan)}: with reservation {reserved} one job of all that wait has a reservation, "
                "without a plan; leave them or the reservation out"
            )
    small, divider = chosen["small"], chosen["divider"]
    if small == CLASS and divider.fixed_s == math.inf:
        raise BatfillError(
            f"option divider: {divider} would need the run times, and small class takes none; add divider 600, or any "
            "other duration"
        )
    if small == EVERY and chosen["kill"] == NEVER and chosen["small-width"] == 1:
        raise BatfillError(
            "option kill: if every job is small and none is killed, nothing changes; choose kill needed, or add "
            "small-width 1/16"
        )


def usual(option: Option) -> Any:
    """The checked value of an option that is not given; given explicitly, it is accepted where it has no effect."""
    return None if option.default in (None, option.off) else option.check(option.name, option.default)


def idle_in(chosen: Mapping[str, Any]) -> dict[str, Needs]:
    """The options by name, of those chosen, that have no effect, each with the first condition that is not met."""
    unmet = {name: [need for need in OPTIONS[name].needs if not need.met(chosen)] for name in chosen}
    return {name: needs[0] for name, needs in unmet.items() if needs}


def remedy(name: str, given: Mapping[str, Any]) -> str:
    """What to do about an option that has no effect beside the given ones: what to add, if that suffices."""
    chosen = {key: usual(option) for key, option in OPTIONS.items()}
    chosen |= {key: value for key, value in given.items() if value is not None}
    added: dict[str, Any] = {}
    wanting = [name]
    while wanting:
        for need in OPTIONS[wanting.pop()].needs:
            if not need.met(chosen | added):
                added[need.option] = need.advised
                wanting.append(need.option)
    idle = idle_in(chosen | added)
    if any(key in added or (given.get(key) is not None and chosen[key] != usual(OPTIONS[key])) for key in idle):
        return "leave it out"
    words = {key: f"{key} {added[key]}" for key in OPTIONS if key in added}
    advice = [f"choose {word}" for key, word in words.items() if given.get(key) is not None]
    if new := [word for key, word in words.items() if given.get(key) is None]:
        advice.append(f"add {' and '.join(new)}")
    return f"{' and '.join(advice)}, or leave it out"


def refuse_live(what: str) -> None:
    """Refuse what only a scheduler that places jobs on machines takes.

    Raises:
        BatfillError: always.
    """
    raise BatfillError(
        f"option {what}: only `batfill schedule` and the plug-in take it, as a replay counts processors and places no "
        "job on machines; leave it out, or simulate it with `batfill run`"
    )


def refuse_other(name: str) -> None:
    """Refuse an option of LIVE where jobs are replayed without machines.

    Raises:
        BatfillError: it is one.
    """
    if name in LIVE:
        refuse_live(name)
