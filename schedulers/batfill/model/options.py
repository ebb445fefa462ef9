"""The scheduler's options: one table of names, kinds, defaults and meanings, which every host reads.

Each option is a field of `Options`, with its row, whose parts are in `kinds`. The command line, the plug-in's JSON,
campaigns, the documentation's table, the types in `arguments` and the results all read the rows, as `OPTIONS`. This
module loads no library that is slow to import, since `batfill COMMAND --help` and shell completion read it too.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import ARGUMENT_OF, BatfillError, nearest, require
from batfill.base.words import in_a_row
from batfill.model import kinds
from batfill.model.kinds import (
    KEPT,
    LIVE_ONLY,
    OFF,
    PREDICTIONS,
    SAME,
    SCRATCH,
    SMALL_JOBS,
    URGENT_JOBS,
    WHAT,
    Divider,
    Kind,
    Needs,
    Option,
    Own,
    lazily,
    option,
    plain_value,
    words,
)
from batfill.model.limits import Limits
from batfill.model.values import MOST_S, count_of, machines_of, of_numpy, seconds_of, seed_of, text_of, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from batfill.model.jobs import Clock, Jobs
    from batfill.model.limits.calendar import Calendar
    from batfill.model.limits.energy import Budget
    from batfill.model.limits.gate import Gate
    from batfill.model.limits.pools import Pools
    from batfill.model.policy import Policy
    from batfill.model.preemption import Checkpoint, Urgent
    from batfill.model.rules import Rules

NO_PRESET, FIRST_TRIES, CONSERVATIVE = "none", "first-tries", "conservative_bf"
NO_SMALL, CLASS, EVERY, FOREST, PERFECT = SMALLS = ("none", "class", "all", "forest", "perfect")
REQUEST, RUNTIME = "request", "runtime"
LEARNED = ("easy++", "regression")  # predictions of run times, which jobs may outlive
NEVER, ALWAYS, NEEDED = KILLS = ("never", "always", "needed")
NO_PREEMPTION, *PREEMPTIONS = ("none", "least-lost", "youngest")
ALL, ORDER, HALF = "all", "order", "half"
RESERVATION, PROCESSORS, MACHINES = "reservation", "processors", "machines"
PLAN, UNLIMITED, REJECT = "plan", "unlimited", "reject"

# File in which a scheduler started by `batfill run` writes the options in force.
OPTIONS_FILE = "BATFILL_OPTIONS_FILE"

WARNINGS = "warnings"  # in that file, at the end: what the scheduler found odd, one line each

OF_SMALL = Needs("small", SMALLS[1:], "no job is small", EVERY, own=True)
OF_DIVIDED = Needs("small", SMALLS[1:], "no divider decides which jobs are small", EVERY)
OF_SPARED = Needs("kill", (NEEDED,), "tries are not killed only where that helps")
OF_FOREST = Needs("small", (FOREST,), "no forest is trained")
OF_URGENT = Needs("urgent", (), "no job is urgent", "share:5%")
OF_PREEMPTION = Needs("preempt", tuple(PREEMPTIONS), "no job is stopped for another")
OF_THRESHOLD = Needs("threshold", (), "no job is overdue without a threshold", "24h")
OF_REQUESTS = Needs("small", (NO_SMALL,), "small jobs take their requests")
OF_PREDICTIONS = Needs("predict", (*LEARNED, RUNTIME), "nothing is predicted", own=True)
TIME, OR_ALL, OR_NONE, ORDERED = "float | str", 'int | Literal["all"]', 'Literal["none"]', "Policy | str"
POLICY = Kind(
    kinds.policy_of,
    "a policy's name, `mixed:` and six weights, `aged:` and three numbers, or `NAME@FILE.json`",
    "policy",
    ORDERED,
)


class Preset(NamedTuple):
    """A setting that goes by a name."""

    values: dict[str, Any]  # by option, as results state them
    meaning: str  # in words; empty for none
    lacks: str = ""  # what batfill does not model of a real scheduler
    title: str = ""  # its name in words, if it is more than numbers beside an order

    @property
    def words(self) -> str:
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
        {"depth": ALL, PLAN: f"{KEPT}:5"},
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
class Options(Limits):
    """How a scheduler orders, backfills, kills and learns, with a row of the table for each field.

    None is the queue's own order, any number of running jobs, or no calendar; `threshold_s` is Theta. What
    the preset stands for is in the other fields.
    """

    # fmt: off
    preset: str = option(WHAT, words(*PRESETS), NO_PRESET, "A setting; see `batfill policies`.", quiet=True)
    policy: Policy = option(WHAT, POLICY, "fcfs", "Queue order; see `batfill policies`.", off=MISSING)
    backfill: Policy | None = option(WHAT, POLICY._replace(value="`same`, or a policy"), SAME, "The order of "
        "backfilling.")
    depth: int | str = option(WHAT, Kind(partial(count_of, example=1), "a whole number, or `all`", "number", OR_ALL), 1,
        "The number of reservations, or all.", quiet=True)
    tested: int | str = option(WHAT, Kind(partial(count_of, least=1), "a whole number > 0, or `all`", "number", OR_ALL),
        ALL, "How many jobs are tested, or all.", quiet=True)
    reservation: str = option(WHAT, words(PROCESSORS, KEPT, MACHINES), PROCESSORS, "What the head reserves: "
        "processors, kept processors, or (live) machines.", quiet=True)
    max_running: int | None = option(WHAT, Kind(partial(count_of, least=1, word=OFF, example=40), "a whole number > 0, "
        "or `none`", "number", f"int | {OR_NONE}"), None, "The most jobs of one user that run at once.", quiet=True)
    calendar: Calendar | None = option(WHAT, lazily("limits.calendar", "calendar_of", "a CSV file", "file",
        "Calendar | str | Path"), None, "Windows in which processors are unavailable.", quiet=True)
    backfill_while: Gate | None = option(WHAT, lazily("limits.gate", "Gate.given", "a CSV file of periods; or of "
        "intensities, with `:` and the highest", "file", "Gate | str | Path | list[tuple[float, float]]"), None, "When "
        "jobs are backfilled, as grid.csv:300.", quiet=True)
    pool: Pools | None = option(WHAT, lazily("limits.pools", "Pools.of", "`NAME=AMOUNT`, or a share, with `@` and a "
        "field, or what a processor takes; several with commas", "pool", "Pools | str | list[str]"), None, "What "
        "jobs take besides, as licences=40 or power=80%.", quiet=True)
    energy_budget: Budget | None = option(WHAT, lazily("limits.energy", "Budget.of", "`AMOUNT@BEGIN..END`, with "
        "`,watts=`, `,idle=` and `,head-holds` behind it", "budget", "Budget | str"), None, "Energy in a period, as "
        "2MWh@0..3d,watts=100W.", quiet=True)
    threshold_s: float = option(WHAT, Kind(seconds_of, "a duration, >= 0, or `none`", "duration", TIME, " s"), None,
        "Jobs that waited longer come first, oldest first.", off=math.inf)
    overdue: str = option(WHAT, words(ALL, HALF), ALL, "All overdue jobs, or the older half.", OF_THRESHOLD)
    urgent: Urgent | None = option(URGENT_JOBS, lazily("preemption", "Urgent.of", "`FIELD=NUMBER`, `list:FILE`, or "
        "`share:5%` with `,seed=1`", "jobs", "Urgent | str"), None, "Which jobs go before all others: queue=3, "
        "list:FILE or share:5%.", quiet=True)
    preempt: str = option(URGENT_JOBS, words(NO_PREEMPTION, *PREEMPTIONS), NO_PREEMPTION, "Which running jobs are "
        "stopped and queued again if an urgent job then starts: those that lose the least work, or the youngest.",
        OF_URGENT, quiet=True)
    preempt_exempt_s: float = option(URGENT_JOBS, Kind(partial(seconds_of, most=MOST_S), "a duration, >= 0", "duration",
        TIME, " s"), 0, "How long a job runs before it may be stopped.", OF_URGENT, OF_PREEMPTION, quiet=True)
    requeue_delay_s: float = option(URGENT_JOBS, Kind(partial(seconds_of, most=MOST_S), "a duration, >= 0", "duration",
        TIME, " s"), 0, "How long after that it is queued again.", OF_URGENT, OF_PREEMPTION, quiet=True)
    checkpoint: Checkpoint | None = option(URGENT_JOBS, lazily("preemption", "Checkpoint.of", "a duration, with "
        "`,cost=` and another", "every", "Checkpoint | float | str"), None, "A stopped job goes on from its last "
        "checkpoint, one each 1h, or each 1h,cost=30s of its work.", quiet=True)
    small: str = option(SMALL_JOBS, kinds.words_or_own(True, *SMALLS), NO_SMALL, "Which jobs get a first try, up to "
        "the divider: none, all, those of class small, those that a forest expects to be short, or (perfect) that are.")
    divider: Divider = option(SMALL_JOBS, Kind(kinds.divider_of, "a duration > 0, `median`, or a part of it as "
        "`median/4`", "divider", TIME, " s"), "median", "A try's length: a duration, the median of the known run "
        "times, or a part, as median/4.", OF_DIVIDED)
    small_width: float = option(SMALL_JOBS, Kind(width_of, "a share > 0, at most 1, as `1/16`", "share", TIME), 1,
        "The widest job that can be small, as a share of the machine.", OF_SMALL)
    kill: str = option(SMALL_JOBS, words(*KILLS), NEEDED, "When a try is killed at the divider and queued again as "
        "large: never, always, or if its processors are needed; always with another reservation.",
        OF_SMALL, off=NEVER)
    stand_back: float | None = option(SMALL_JOBS, Kind(machines_of, "a number > 0, or `none`", "number",
        f"float | {OR_NONE}"), None, "No try for overdue jobs, a large head, or while waiting jobs request more "
        "machines than this.", OF_SMALL, OF_SPARED, quiet=True)
    seed: int = option(SMALL_JOBS, Kind(seed_of, "a whole number", "integer", "int"), 0, "Seed of the forests.",
        OF_FOREST)
    predict: str = option(PREDICTIONS, kinds.words_or_own(False, REQUEST, *LEARNED, RUNTIME), REQUEST, "What a job is "
        "expected to run: its request, easy++, regression, the true runtime, or what a file says.", OF_REQUESTS)
    predict_for: str = option(PREDICTIONS, words(ORDER, ALL), ORDER, "Where that replaces the request: in the order "
        "alone, or in backfilling, too; all if the order changes.", OF_PREDICTIONS, off=ALL)
    # fmt: on
    study: Study = Study()

    def __post_init__(self) -> None:
        """Refuse values that mean something each, and nothing together."""
        for which, at_odds, why in AT_ODDS:
            if at_odds(self):
                raise BatfillError(f"{which}: {why.format(o=self)}")

    @classmethod
    def of(cls, given: Mapping[str, Any], *, places: bool = False) -> Options:
        """The options in a mapping from NAMES to values, as from JSON or a command line; None means unset.

        Args:
            given: the mapping.
            places: whether the scheduler places jobs on machines, so that the head can reserve some.
        """
        chosen = in_force(given)
        if chosen[RESERVATION] == MACHINES and not places:
            refuse_live(f"{RESERVATION} {MACHINES}")
        return cls(**{OPTIONS[name].argument: value for name, value in chosen.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """Every option by name, in the table's order and as a user writes it; None: off, or not applicable.

        Every result states its options in this form.
        """
        stated = {name: plain_value(getattr(self, option.argument)) for name, option in OPTIONS.items()}
        stated["backfill"] = stated["backfill"] or SAME
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
    def file_digests(self) -> dict[str, str]:
        """The sha256 of the files with dates, of a list of urgent jobs, and of predictions."""
        listed = {"urgent": self.urgent, "predict": self.own}
        found = {f"{name}_sha256": getattr(one, "digest", "") for name, one in listed.items()}
        return super(Options, self).file_digests | {name: digest for name, digest in found.items() if digest}

    @property
    def fields(self) -> set[str]:
        """The further fields of jobs that are read."""
        urgent = {self.urgent.field} - {""} if self.urgent else set()
        return super(Options, self).fields | urgent

    def on(self, workload: Jobs, jobs: Jobs) -> Options:
        """The same with all dates in seconds of these jobs, which must be able to run beside a calendar."""
        made = self.in_seconds(workload.clock).sized(workload.size or 0)
        made.require_taken(jobs, workload.name)
        if made.calendar is not None:
            assert workload.size is not None
            made.calendar.require_machine(workload.size, made.pools)
            made.calendar.require_possible(jobs, workload.size, workload.name, made.pools)
        return made

    def in_seconds(self, clock: Clock | None) -> Options:
        """The same with all dates in seconds of a log with this clock."""
        made = replace(self, **{name: one.on(clock) for name, one in self.dated.items()})
        if made.energy_budget is None:
            return made
        return replace(made, energy_budget=made.energy_budget.drawn_by(self.pools))

    def sized(self, size: int) -> Options:
        """The same on a machine of `size` processors, of whose draw a pool may be a share."""
        return self if self.pool is None else replace(self, pool=self.pool.on(size))

    def prepared(self, jobs: Jobs, source: str) -> Jobs:
        """The jobs as they run: which are urgent, and how long they take with their checkpoints."""
        changed: dict[str, Any] = {} if self.urgent is None else {"urgent": self.urgent.rows(jobs, source)}
        if self.checkpoint is not None and self.checkpoint.cost_s:
            times = ("runtime_s", "walltime_s", "request_s")
            changed |= {name: self.checkpoint.lengthened(getattr(jobs, name)) for name in times}
        return replace(jobs, **changed) if changed else jobs

    # What the options mean together

    @property
    def preempts(self) -> int:
        """In which order running jobs are stopped, as the engine has it; 0 for none."""
        return (NO_PREEMPTION, *PREEMPTIONS).index(self.preempt)

    @property
    def checkpoint_s(self) -> float:
        """How long a job runs from checkpoint to checkpoint; inf without any."""
        return math.inf if self.checkpoint is None else self.checkpoint.every_s + self.checkpoint.cost_s

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
    def warnings(self) -> list[str]:
        """Options that change nothing, a line each: predictions in the order, where no order is by run times."""
        if self.predict == REQUEST or self.predict_for == ALL:
            return []
        import numpy as np

        orders = [order for order in (self.policy, self.backfill) if order is not None]
        expected_s = np.logspace(0, 22, 23, base=2)
        for procs in (1, 2, 7, 64):
            submit_s, all_procs = np.full(23, 1e5), np.full(23, procs)
            if any(np.unique(one.key(submit_s, expected_s, all_procs)).size > 1 for one in orders):
                return []
        names = in_a_row(list(dict.fromkeys(order.name for order in orders)))
        return [f"option predict did nothing: the order of {names} is not by run times; choose predict-for all"]

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

    def require_classes(self, jobs: Jobs, source: str) -> None:
        """Refuse classes of the workload if no job states its own."""
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
ARGUMENTS = {option.argument: option for option in OPTIONS.values()}
ARGUMENT_OF.update((name, option.argument) for name, option in OPTIONS.items())  # for the messages of errors

# The options that `what-if` hands on to all its replays, those to all but fcfs, and those to small jobs first.
SHARED_BY_CHOICES = tuple(
    name
    for name, each in OPTIONS.items()
    if each.group in (WHAT, URGENT_JOBS) and name not in ("preset", "policy", "threshold")
)
SHARED_BY_ORDERS = tuple(name for name, each in OPTIONS.items() if each.group == PREDICTIONS)
SHARED_BY_TRIES = tuple(name for name, each in OPTIONS.items() if {OF_SMALL, OF_DIVIDED} & set(each.needs))

# Options of a scheduler that places jobs on machines: `batfill schedule` and the plug-in.
LIVE = kinds.options_table(
    LIVE_ONLY,
    (UNLIMITED, words("run", REJECT), "run", "What becomes of a job without a walltime: it runs, or is rejected, as by "
     "batsched's easy_bf."),
    (PLAN, Kind(kinds.plan_of, "`scratch`, `kept`, or `kept:` and a duration", "which"), SCRATCH, "With depth all: "
     "whether each decision plans from scratch, or the plan is kept, on machines, as batsched's conservative_bf does; "
     "kept:5, batsched's own default, plans each job for 5 s longer than its request."),
    ("select", Kind(text_of, "`METHOD` or `METHOD:SETTING=VALUE,...`", "method"), None, "Choose the policy again after "
     "each period: full, noisy, epsilon-greedy, ucb1 or exp3, as exp3:period=1d,policies=fcfs+saf."),
)  # fmt: skip


def arguments_of(given: Mapping[str, Any]) -> dict[str, Any]:
    return {OPTIONS[name].argument: value for name, value in given.items() if value is not None}


def of_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options of keyword arguments, by the options' own names, for `Options.of`.

    Numbers may be numpy's; an infinite threshold means none.

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
        value = of_numpy(value)
        endless = name == "threshold_s" and isinstance(value, float) and value == math.inf
        given[ARGUMENTS[name].name] = OFF if endless else value
    return given


def in_force(given: Mapping[str, Any]) -> dict[str, Any]:
    """The checked value of every option, given or by default; None: off, or not applicable with the others."""
    for name in given:
        if name not in OPTIONS:
            refuse_other(str(name))
            suggested = nearest(str(name), OPTIONS)
            raise BatfillError(f"option {name!r} is unknown; known are {', '.join(OPTIONS)}{suggested}")
    whole = with_preset(given)
    chosen = {n: row.usual if whole.get(n) is None else row.check(n, whole[n]) for n, row in OPTIONS.items()}
    idle = {name: [need for need in OPTIONS[name].needs if not need.met(chosen)] for name in chosen}
    for name, (need, *_) in ((name, needs) for name, needs in idle.items() if needs):
        if given.get(name) is not None and chosen[name] != OPTIONS[name].usual:
            add = "add" if given.get(need.option) is None else "choose"
            raise BatfillError(f"option {name}: {need.why}; {add} {need.option} {need.advised}, or leave it out")
        chosen[name] = None
    orders = [order for order in (chosen["policy"], chosen["backfill"]) if order is not None]
    moving = [order.name for order in orders if order.moves]  # whose keys read the expected run time in force
    if chosen["predict-for"] == ORDER and moving:
        chosen["predict-for"] = ALL
        if given.get("predict-for") is not None:
            raise BatfillError(
                f"option predict-for: {ORDER} takes orders that stay as they are, and that of {moving[0]} changes "
                "while jobs wait; choose another policy, or predict-for all"
            )
    return chosen


def with_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, and the values of their preset for those that are not given; None: off.

    Examples:
        >>> with_preset({"preset": "flux", "depth": 2})
        {'depth': 2, 'tested': 32, 'preset': 'flux'}
    """
    given = {
        name: None if isinstance(value, str) and value.strip().lower() == OPTIONS[name].off else value
        for name, value in given.items()
        if value is not None
    }
    whole = {name: value for name, value in named_values(given).items() if name in OPTIONS} | given
    if whole.get(RESERVATION, PROCESSORS) != PROCESSORS and whole.get("small") not in (None, NO_SMALL):
        whole["kill"] = given.get("kill", ALWAYS)  # a kill pays only where each decision reserves processors again
    return whole


def named_values(given: Mapping[str, Any]) -> dict[str, Any]:
    preset: str = OPTIONS["preset"].check("preset", given["preset"] if given.get("preset") is not None else NO_PRESET)
    return PRESETS[preset].values


def plans_machines(preset: str) -> bool:
    return preset in PRESETS and bool(LIVE.keys() & PRESETS[preset].values.keys())


NO_PLAN = {"depth": 1, "tested": ALL} | dict.fromkeys(
    ("calendar", "backfill-while", "max-running", "pool", "energy-budget")
)
# What means something each, and nothing together: which options, whether it is so, and why.
AT_ODDS: tuple[tuple[str, Callable[[Options], bool], str], ...] = (
    ("option backfill", lambda o: o.depth in (0, ALL) and o.backfill is not None, "with depth {o.depth} no order of "
     "backfilling begins behind the last reservation; leave one of them out"),
    ("option preset", lambda o: plans_machines(o.preset), "{o.preset} plans machines, and a replay counts processors; "
     "leave it out, or simulate it with `batfill run`"),
    ("option kill", lambda o: o.reservation != PROCESSORS and o.kill == NEEDED, "needed compares reservations of "
     "processors; choose always, or leave reservation {o.reservation} out"),
    (f"options {', '.join(NO_PLAN)}", lambda o: o.reservation != PROCESSORS and any(
        getattr(o, OPTIONS[name].argument) != usual_one for name, usual_one in NO_PLAN.items()), "with reservation "
     "{o.reservation} one job of all that wait has a reservation, without a plan; leave them or the reservation out"),
    ("option divider", lambda o: o.small == CLASS and o.divider.fixed_s == math.inf, "{o.divider} would need the run "
     "times, and small class takes none; add divider 600, or any other duration"),
    ("option kill", lambda o: o.small == EVERY and not o.kills and o.small_width == 1, "if every job is small and none "
     "is killed, nothing changes; choose kill needed, or add small-width 1/16"),
    ("option urgent", lambda o: o.urgent is not None and o.reservation != PROCESSORS, "the head reserves "
     "processors with it; leave it or reservation {o.reservation} out"),
    ("options urgent and checkpoint", lambda o: o.learns and (o.urgent or o.checkpoint) is not None, "nothing is "
     "learned beside them; leave them, or what is learned, out"),
    ("option checkpoint", lambda o: o.checkpoint is not None and not (o.preempts or o.kills or (
        o.calendar is not None and o.calendar.most_kills(1) > 0)), "no job is stopped; add preempt least-lost with "
     "urgent share:5%, or leave it out"),
    ("option calendar", lambda o: o.learns and o.calendar is not None and o.calendar.most_kills(1) > 0, "{o.calendar."
     "name} has failures, which kill jobs, and nothing can be learned of those; leave the lines of kind failure out, "
     "or what is learned"),
)  # fmt: skip


def refuse_live(what: str) -> None:
    """Refuse what only a scheduler that places jobs on machines takes."""
    raise BatfillError(
        f"option {what}: only `batfill schedule` and the plug-in take it, as a replay counts processors and places no "
        "job on machines; leave it out, or simulate it with `batfill run`"
    )


def refuse_other(name: str) -> None:
    if name in LIVE:
        refuse_live(name)
