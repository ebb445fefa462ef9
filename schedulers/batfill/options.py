"""The scheduler's options: one table of names, kinds, defaults and meanings, which every host reads.

The command line, the plug-in's JSON, campaigns, the documentation's table and the results all use `OPTIONS`. This
module loads no library that is slow to import, since `batfill COMMAND --help` and shell completion read it too.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from keyword import iskeyword
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from batfill.errors import ARGUMENT_OF, LARGEST, BatfillError, nearest, require, whole_from

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from batfill.jobs import JobTable
    from batfill.policy import Policy

SAME = "same"
USER = "user"
CLAIRVOYANT = ("runtime-clairvoyant", "class-clairvoyant")
LEARNED = ("easy++", "regression")  # predictions of run times, which jobs may outlive
KNOWLEDGES = (USER, *LEARNED, "classifier", *CLAIRVOYANT)
CLASSIFYING = ("classifier", "class-clairvoyant")
PREDICTING = (*LEARNED, "runtime-clairvoyant")
ALL, ORDER, LARGE_ONES = "all", "order", "large"
LIMITS = STRICT, EXPECTED = "strict", "expected"
KILL_RULES = ALWAYS, WAITING, NEEDED = "always", "waiting", "needed"
RESERVATION, PROCESSORS, MACHINES = "reservation", "processors", "machines"
MOST_LEVELS = 100

Regime = Literal["decoupled", "weekly", "fresh"]
DividerRule = Literal["known", "week"]
Limits = Literal["strict", "expected"]

# Checks: from an option's name and value, as JSON or the command line gives it, to the value in use

UNITS_S = {"": 1, "s": 1, "sec": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
DURATION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)", re.ASCII)
UNREQUESTED = ("refuse", "runtime", "none", "queue", "user-max")  # the words of batfill.jobs.Unrequested
PER_CENT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*%", re.ASCII)


def seconds_of(name: str, value: Any, *, least: float = 0.0) -> float:
    """The value as a finite number of seconds, at least `least`: a number, or text such as 72000, 20h, 1.5d, 30min.

    Raises:
        BatfillError: it is something else.
    """
    value = of_numpy(value)
    number = value.total_seconds() if hasattr(value, "total_seconds") else value
    if isinstance(value, str) and (found := DURATION.fullmatch(value.strip().lower())) and found[2] in UNITS_S:
        number = float(found[1]) * UNITS_S[found[2]]
    return number_of(
        name,
        number,
        least,
        math.inf,
        f"a number of seconds {'>= 0' if least == 0 else '> 0'}, as 72000, 20h, 3d or 30min",
    )


def of_numpy(value: Any) -> Any:
    """The value in Python's type if it is a number of NumPy, and as it is otherwise."""
    return value.item() if type(value).__module__ == "numpy" and value.shape == () else value


def number_or_text(value: Any) -> Any:
    """A word of the command line as JSON has it: a number if it is one."""
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            pass
    return value


def number_of(name: str, value: Any, least: float, most: float, rule: str) -> float:
    """The value, which must be a finite number from `least` to `most`; `rule` describes this range."""
    value = of_numpy(value)
    wrong = isinstance(value, bool) or not isinstance(value, (int, float))
    if wrong or not math.isfinite(value) or not least <= value <= most:
        raise BatfillError(f"option {name}: {value!r} is not {rule}")
    return float(value)


def part_of(name: str, value: Any, *, most: float = math.inf, positive: bool = False) -> float:
    """The value as a share from 0 to `most`: a number such as 0.1, or text such as 10%.

    Raises:
        BatfillError: it is neither, or a number above 1, which may be meant as per cent.
    """
    per_cent = PER_CENT.fullmatch(value.strip()) if isinstance(value, str) else None
    number = float(per_cent[1]) / 100 if per_cent else value
    rule = f"a share {'>' if positive else '>='} 0{' and at most 1' if most == 1 else ''}, as 10% or 0.1"
    wrong = isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number)
    if per_cent is None and not wrong and 1 < number <= 100 * most:
        raise BatfillError(f"option {name}: {value!r} is more than the whole; write {value}% for per cent")
    if wrong or not 0 <= number <= most or (positive and number == 0):
        raise BatfillError(f"option {name}: {value!r} is not {rule}")
    return float(number)


def probability_of(name: str, value: Any) -> float:
    """The value as a share of the whole, as for `part_of`."""
    return part_of(name, value, most=1)


def width_of(name: str, value: Any) -> float:
    """The value as a share of the machine above 0, as for `part_of`."""
    return part_of(name, value, most=1, positive=True)


def tau_of(value: Any) -> float:
    """The bound of the bounded slowdown, in seconds.

    Raises:
        BatfillError: it is not a finite number > 0.
    """
    return seconds_of("tau", value, least=1e-9)


def text_of(name: str, value: Any) -> str:
    """The value, which must be text."""
    if not isinstance(value, str):
        raise BatfillError(f"option {name}: {value!r} is not a name; try 'fcfs', or see `batfill policies`")
    return value


def policy_of(name: str, value: Any) -> Policy:
    """The policy of this name, or the policy itself."""
    from batfill.policy import Policy, policy_named

    return value if isinstance(value, Policy) else policy_named(text_of(name, value))


def order_of(name: str, value: Any) -> Policy | None:
    """The policy of this name, or the policy itself; None for the queue's own order."""
    if isinstance(value, str) and value == SAME:
        return None
    from batfill.policy import require_order

    order = policy_of(name, value)
    require_order(order, f"option {name} takes an order only")
    return order


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """The value, which must be one of these."""
    if not isinstance(value, str) or value not in known:
        suggested = nearest(value, known) if isinstance(value, str) else ""
        raise BatfillError(f"option {name}: {value!r} is none of {', '.join(known)}{suggested}")
    return value


def truth(name: str, value: Any) -> bool:
    """The value, which must be true or false."""
    if not isinstance(value, bool):
        raise BatfillError(f"option {name}: {value!r} is neither true nor false")
    return value


LONGEST_S = 365 * UNITS_S["d"]
GEOMETRIC = "geometric:"


@dataclass(frozen=True, slots=True)
class Geometric:
    """Dividers first, first x factor, first x factor^2, ... up to a year: fixed, and in force from the first job on.

    They are rounded to whole seconds; equal ones are one level, as a killed job passes over those that are no longer.

    With `cut` 0 these are the b-scaling strategies of Jäger et al. (Mathematical Programming 2025), from `first_s` on.
    """

    factor: float  # b
    first_s: float = 1.0
    random: bool = False  # whether all are multiplied by factor^U, with U drawn from [0, 1) once

    def __len__(self) -> int:
        """The number of dividers."""
        return 1 + math.floor(math.log(LONGEST_S / self.first_s) / math.log(self.factor) + 1e-9)

    def __str__(self) -> str:
        """As a user writes it."""
        first = "" if self.first_s == 1 else f",{self.first_s:.12g}"
        return f"{GEOMETRIC}{self.factor:.12g}{first}{',random' if self.random else ''}"

    def dividers_s(self, seed: int) -> tuple[float, ...]:
        """The dividers, ascending, in whole seconds >= 1; the seed has an effect if they are random.

        Batsim rounds dates, so that it and a replay would differ on dividers of other lengths.
        """
        shift = Random(seed).random() if self.random else 0.0
        exact = (self.first_s * self.factor ** (k + shift) for k in range(len(self)))
        return tuple(float(max(round(divider_s), 1)) for divider_s in exact)


def geometric_of(name: str, text: str) -> Geometric:
    """The dividers that a text such as geometric:3, geometric:3,10 or geometric:8.16,10,random stands for.

    Raises:
        BatfillError: it is something else, or stands for too many dividers.
    """
    words = [word.strip() for word in text.removeprefix(GEOMETRIC).split(",")]
    random = len(words) > 1 and words[-1] == "random"
    factor, *first = words[: len(words) - random]
    try:
        found = Geometric(float(factor), seconds_of(name, *first, least=1e-9) if first else 1.0, random)
        known = 1 < found.factor < math.inf and found.first_s <= LONGEST_S
    except (BatfillError, TypeError, ValueError):
        known = False
    if not known:
        raise BatfillError(
            f"option {name}: {text!r} is not geometric:B with a factor B > 1, perhaps followed by a first divider "
            "up to a year, and by random; try geometric:3 or geometric:8.16,10,random"
        )
    if len(found) > MOST_LEVELS:
        raise BatfillError(
            f"option {name}: {text!r} has {len(found)} dividers up to a year, and {MOST_LEVELS} are allowed; choose a "
            "larger factor or a longer first divider"
        )
    return found


def levels_of(name: str, value: Any) -> tuple[float, ...] | Geometric:
    """The dividers' shares of the run times, ascending numbers between 0 and 1; or `Geometric`. Both also as text."""
    if isinstance(value, Geometric):
        return geometric_of(name, str(value))
    if isinstance(value, str) and value.strip().startswith(GEOMETRIC):
        return geometric_of(name, value.strip())
    try:
        levels = tuple(float(word) for word in (value if isinstance(value, tuple) else str(value).split(",")))
    except (TypeError, ValueError):
        levels = ()
    if not 0 < len(levels) <= MOST_LEVELS or not all(low < high for low, high in pairwise((0.0, *levels, 1.0))):
        raise BatfillError(
            f"option {name}: {value!r} is not a list of ascending numbers between 0 and 1, such as '0.5,0.75', "
            f"at most {MOST_LEVELS}, or geometric:B"
        )
    return levels


def noise_of(name: str, value: Any) -> float | str:
    """The value as "walltime" or a number >= 0."""
    if value == "walltime":
        return "walltime"
    try:
        return number_of(name, float(value), 0, math.inf, "a number >= 0")
    except (TypeError, ValueError):
        raise BatfillError(f"option {name}: {value!r} is neither walltime nor a number >= 0; try 0.5") from None


def unrequested_of(name: str, value: Any) -> str | float:
    """What stands in for a missing request: one of UNREQUESTED, or a limit in seconds, whole if it is a whole number.

    Raises:
        BatfillError: it is neither.
    """
    if isinstance(value, str) and value in UNREQUESTED:
        return value
    try:
        seconds = seconds_of(name, value, least=1e-9)
    except BatfillError:
        raise BatfillError(
            f"option {name}: {value!r} is neither one of {', '.join(UNREQUESTED)} nor a limit > 0 such as 3600 or 24h"
        ) from None
    return int(seconds) if seconds == int(seconds) else seconds


def seed_of(name: str, value: Any) -> int:
    """The value, which must be a whole number that all random number generators accept."""
    value = of_numpy(value)
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise BatfillError(f"option {name}: {value!r} is not {whole_from(0)}; try 0")
    return value


def whole_of(name: str, value: Any) -> int:
    """The value, which must be a whole number; its range is for the caller to check."""
    number = of_numpy(value)
    if type(number) is not int:
        raise BatfillError(f"option {name}: {value!r} is not a whole number")
    return number


# File in which a scheduler started by `batfill run` writes the options in force.
OPTIONS_FILE = "BATFILL_OPTIONS_FILE"
REQUESTED = "requested_features"  # in that file, under Batsim 5: the features that the scheduler's hello requested

# The table


class Needs(NamedTuple):
    """A condition without which an option does nothing and is refused."""

    option: str
    values: tuple[Any, ...]  # one of these; empty: any that is not None
    why: str  # what is wrong otherwise; {value} is the other option's value
    instead: str = ""  # an option that does as well, with any value but None
    example: Any = None  # the value to advise; None: the first of `values`

    def met(self, chosen: Mapping[str, Any]) -> bool:
        """Whether one of these options by name has a value that suffices."""
        value = chosen.get(self.option)
        return (value in self.values if self.values else value is not None) or chosen.get(self.instead) is not None

    @property
    def advised(self) -> Any:
        """A value of the option that meets this."""
        return self.values[0] if self.example is None else self.example


NO_CLASS = "knowledge {value} calls no job small"
OF_CLASSIFIER = Needs("knowledge", ("classifier",), "only the classifier uses it")
OF_CLASSES = Needs("knowledge", CLASSIFYING, NO_CLASS)
OF_KILLS = Needs("kill", (True,), "nothing is killed")
WITH_KILLS = Needs("kill", (True,), "nothing is killed", "divider")
OF_LIMITS = Needs("max-waste", (), "there is no limit", "max-kill-share", 0.05)
OF_SMALL_JOBS = Needs("knowledge", CLASSIFYING, f"{NO_CLASS}, and there is no divider", "divider")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a scheduler."""

    name: str  # in JSON and YAML; on the command line --name
    value: str  # its values, for the documentation and the help
    default: Any  # as a user would write it; None: off
    help: str
    check: Callable[[str, Any], Any]  # from name and value to the value in force; raises BatfillError
    choices: tuple[str, ...] = ()
    needs: tuple[Needs, ...] = ()
    unit: str = ""  # follows the value in text
    word: str = "number"  # placeholder for the value in help

    @property
    def argument(self) -> str:
        """What Python's functions call it; a name that ends in _s takes seconds."""
        name = self.name.replace("-", "_") + self.unit.replace(" ", "_")
        return f"{name}_" if iskeyword(name) else name


def choice(name: str, default: str, help: str, choices: Sequence[str], *needs: Needs) -> Option:  # noqa: A002
    """An option with a fixed set of words as values."""
    known = tuple(choices)
    value = ", ".join(f"`{word}`" for word in known)
    return Option(name, value, default, help, lambda name, value: one_of(name, value, known), known, needs)


def by_name(*options: Option) -> dict[str, Option]:
    """The options by their names."""
    return {option.name: option for option in options}


OPTIONS = by_name(
    Option(
        "policy",
        "a policy's name, `mixed:` and six weights, `aged:` and three numbers, `NAME@FILE.json`, or `nn@FILE`",
        "fcfs",
        "The queue's order; see `batfill policies`.",
        policy_of,
    ),
    Option(
        "backfill", "`same`, or a policy", SAME, "The order of backfilling: the queue's own, or a policy's.", order_of
    ),
    Option(
        "threshold",
        "a duration, >= 0",
        None,
        "Jobs that have waited longer than this come first, oldest first.",
        seconds_of,
        unit=" s",
        word="duration",
    ),
    choice(
        "overdue-before",
        ALL,
        "What overdue jobs go before: all others, or the large ones alone, behind small jobs.",
        (ALL, LARGE_ONES),
        Needs("threshold", (), "no job is overdue without a threshold", example="24h"),
        OF_SMALL_JOBS,
    ),
    Option(
        "divider",
        "a duration, > 0",
        None,
        'Jobs whose field `class` is "small" come first, are killed after this time, and are requeued as large ones.',
        lambda name, value: seconds_of(name, value, least=1e-9),
        needs=(Needs("knowledge", (USER,), "knowledge {value} takes no class from the workload"),),
        unit=" s",
        word="duration",
    ),
    choice(
        "kill-if",
        ALWAYS,
        "When a small job that still runs at its divider is killed: always, if a job waits, or if its processors are "
        "needed. Otherwise it goes on as a large job.",
        KILL_RULES,
        WITH_KILLS,
    ),
    Option(
        "try-width",
        "a share > 0, at most 1",
        1,
        "The widest job that can be small, as a share of the machine; wider ones count as large.",
        width_of,
        needs=(OF_SMALL_JOBS,),
        word="share",
    ),
    choice(
        "knowledge",
        USER,
        "What the scheduler knows of run times: the request (`user`), a prediction, a class, or the truth.",
        KNOWLEDGES,
    ),
    choice(
        "predictions",
        ALL,
        "What predicted run times replace the request in: in the queue's order, the reservation and the backfilling "
        "test, or in the order alone.",
        (ALL, ORDER),
        Needs(
            "knowledge",
            PREDICTING,
            "knowledge {value} predicts no run time",
        ),
    ),
    Option(
        "kill",
        "true, false",
        False,
        "Kill small jobs still running at the divider, and requeue them in the next level or as large jobs.",
        truth,
        needs=(OF_CLASSES,),
    ),
    Option(
        "bound",
        "true, false",
        False,
        "With `kill`: expect a small job to end at the divider at the latest.",
        truth,
        needs=(Needs("kill", (True,), "no kill at a learned divider makes an end certain"),),
    ),
    Option(
        "levels",
        "ascending shares, separated by commas, or `geometric:B`, `geometric:B,FIRST`, and `,random`",
        "0.5",
        "Dividers, as shares of the known run times: they split small jobs into levels, and a kill moves a job to "
        "the next level. `geometric:B`: fixed ones instead, 1 s (or `FIRST`) times 1, B, B^2, ... up to a year; "
        "`random` multiplies them by a power of B between 0 and 1.",
        levels_of,
        needs=(OF_CLASSES,),
        word="shares",
    ),
    choice(
        "regime",
        "fresh",
        "How recent the classifier's information is: all as of the last week's end; with current lags; or with the "
        "current divider, too.",
        ("decoupled", "weekly", "fresh"),
        OF_CLASSIFIER,
    ),
    choice(
        "divider-rule",
        "known",
        "The divider is the median run time of all known jobs, or of the last week's.",
        ("known", "week"),
        OF_CLASSIFIER,
    ),
    Option(
        "cut",
        "a share >= 0, at most 1",
        0.5,
        "The probability from which a job counts as small; at 0 all jobs do.",
        probability_of,
        needs=(OF_CLASSIFIER,),
        word="share",
    ),
    choice(
        "train",
        "week",
        "Train the classifier every week, or when its error rate grows.",
        ("week", "drift"),
        OF_CLASSIFIER,
    ),
    Option(
        "train-lag",
        "a duration, >= 0",
        0,
        "The time from a week's end until the forest trained on it is used; the plug-in trains in the background.",
        seconds_of,
        needs=(OF_CLASSIFIER,),
        unit=" s",
        word="duration",
    ),
    Option(
        "max-waste",
        "a share >= 0, at most 1",
        None,
        "Keep killed tries below this share of the work, by moving the cut.",
        probability_of,
        needs=(OF_CLASSIFIER, OF_KILLS),
        word="share",
    ),
    Option(
        "max-kill-share",
        "a share >= 0, at most 1",
        None,
        "Keep kills below this share of the jobs, by moving the cut.",
        probability_of,
        needs=(OF_CLASSIFIER, OF_KILLS),
        word="share",
    ),
    choice(
        "limits",
        STRICT,
        "How a limit counts tries under way: in full, so that it holds at every instant, or with their probabilities "
        "of being killed.",
        LIMITS,
        OF_LIMITS,
    ),
    Option(
        "seed",
        "a whole number",
        0,
        "Seed of the classifier's forests and of random dividers.",
        seed_of,
        needs=(OF_CLASSIFIER,),
        word="integer",
    ),
)
NAMES = tuple(OPTIONS)

# Of a policy that is chosen again after each period, in `batfill select` and while a cluster runs.
METHODS = ("full", "noisy", "epsilon-greedy", "ucb1", "exp3")
SELECTION = by_name(
    Option(
        "select",
        ", ".join(f"`{word}`" for word in METHODS),
        None,
        "Choose the policy again after each period: by replays of the past under every policy, exact or noisy, or by "
        "the waits under the policies used so far.",
        lambda name, value: one_of(name, value, METHODS),
        METHODS,
    ),
    Option(
        "policies",
        "`ten`, `twelve`, or names separated by commas",
        "ten",
        "The policies to choose from.",
        text_of,
        word="names",
    ),
    Option(
        "period",
        "a duration, > 0",
        "7d",
        "Delta: the time between choices.",
        lambda name, value: seconds_of(name, value, least=1e-9),
        unit=" s",
        word="duration",
    ),
    Option(
        "lambda",
        "a share >= 0, at most 1",
        None,
        "full, noisy: the weight of a period relative to the one after it; 0.9 if not given.",
        probability_of,
        word="share",
    ),
    Option(
        "alpha",
        "a share >= 0, at most 1",
        None,
        "full, noisy: 1 weighs periods by their jobs, 0 equally; 1 if not given.",
        probability_of,
        word="share",
    ),
    Option(
        "epsilon",
        "a share >= 0, at most 1",
        None,
        "epsilon-greedy: the share of random choices; 0.1 if not given.",
        probability_of,
        word="share",
    ),
    Option(
        "gamma",
        "a share >= 0, at most 1",
        None,
        "exp3: the share of random choices; 0.1 if not given.",
        probability_of,
        word="share",
    ),
    Option(
        "noise",
        "`walltime`, or a number >= 0",
        None,
        "noisy: replay with requested times, or with run times spread by this number; walltime if not given.",
        noise_of,
        word="number",
    ),
    Option(
        "budget",
        "a duration, >= 0",
        None,
        "The real time for the replays of one period; a period that needs more teaches nothing. Under Batsim 10 s if "
        "not given.",
        seconds_of,
        unit=" s",
        word="duration",
    ),
    Option("select-seed", "a whole number", 0, "Seed of the choices and the noise.", seed_of, word="integer"),
)
# Options of a scheduler that places jobs on machines: `batfill schedule` and the plug-in.
LIVE = by_name(
    choice(
        RESERVATION,
        PROCESSORS,
        "What the head reserves: a number of processors, or the machines with the lowest ids that are expected to be "
        "free, as batsched's easy_bf does.",
        (PROCESSORS, MACHINES),
    ),
)
ARGUMENTS = {option.argument: option for option in OPTIONS.values()}
ARGUMENT_OF.update((name, option.argument) for name, option in OPTIONS.items())  # for the messages of errors

# The options that `frontier` and `what-if` hand on to their replays.
OF_BASE = ("backfill", "threshold")  # to all of them
OF_TRIES = ("overdue-before", "kill-if", "try-width", "bound")  # to those with small jobs first
OF_FOREST = ("regime", "divider-rule", "train", "train-lag", "seed")  # to those with a classifier


class Arguments(TypedDict, total=False):
    """The options as keyword arguments in Python, for type checkers: `ARGUMENTS` without the policy.

    None is each one's default. A duration is a number of seconds, or text such as "20h".
    """

    backfill: Policy | str | None
    threshold_s: float | str | None
    overdue_before: Literal["all", "large"] | None
    divider_s: float | str | None
    kill_if: Literal["always", "waiting", "needed"] | None
    try_width: float | str | None
    knowledge: str | None
    predictions: Literal["all", "order"] | None
    kill: bool | None
    bound: bool | None
    levels: str | Sequence[float] | None
    regime: Regime | None
    divider_rule: DividerRule | None
    cut: float | None
    train: Literal["week", "drift"] | None
    train_lag_s: float | str | None
    max_waste: float | None
    max_kill_share: float | None
    limits: Limits | None
    seed: int | None


def arguments_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their own names as keyword arguments; absent ones are left out."""
    return {OPTIONS[name].argument: value for name, value in given.items() if value is not None}


def of_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options of keyword arguments, by the options' own names, for `Options.of`.

    Numbers may be numpy's, `levels` any sequence; an infinite threshold or divider means none.

    Raises:
        BatfillError: an argument is unknown; the message suggests the nearest.

    Examples:
        >>> of_arguments({"policy": "saf", "threshold_s": 7200, "divider_rule": None})
        {'policy': 'saf', 'threshold': 7200, 'divider-rule': None}
        >>> of_arguments({"threshold": 7200})
        Traceback (most recent call last):
        batfill.errors.BatfillError: argument 'threshold' is unknown; did you mean 'threshold_s'?
    """
    given = {}
    for name, value in arguments.items():
        if name not in ARGUMENTS:
            refuse_live(name)
            suggested = nearest(name, ARGUMENTS) or f"; known are {', '.join(ARGUMENTS)}"
            raise BatfillError(f"argument {name!r} is unknown{suggested}")
        option = ARGUMENTS[name]
        if getattr(value, "ndim", None) == 0:
            value = value.item()
        if option.name == "levels" and value is not None and not isinstance(value, str):
            value = tuple(value) if hasattr(value, "__iter__") else (value,)
        if option.default is None and option.unit and isinstance(value, float) and value == math.inf:
            value = None
        given[option.name] = value
    return given


def shared_of(arguments: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """As `of_arguments`, for replays that share these options and have their own values of the others; None is dropped.

    Raises:
        BatfillError: an argument is unknown, or is not one of these options.
    """
    given = of_arguments({name: value for name, value in arguments.items() if value is not None})
    if other := [name for name in given if name not in names]:
        shared = ", ".join(OPTIONS[name].argument for name in names)
        raise BatfillError(
            f"argument {OPTIONS[other[0]].argument!r}: each replay here has its own; those that they share are {shared}"
        )
    return {name: value for name, value in given.items() if value is not None}


def those_that_apply(shared: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The shared options whose needs the chosen ones meet."""
    return {name: value for name, value in shared.items() if all(need.met(chosen) for need in OPTIONS[name].needs)}


LEARNING = NAMES[NAMES.index("knowledge") :]  # those that say what is learned


def in_force(given: Mapping[str, Any]) -> dict[str, Any]:
    """The checked value of every option, given or by default; None: off, or not applicable with the others.

    Raises:
        BatfillError: a name is unknown, or a value is invalid or would have no effect with the others.
    """
    if unknown := [name for name in given if name not in OPTIONS]:
        refuse_live(unknown[0])
        suggested = nearest(str(unknown[0]), OPTIONS)
        raise BatfillError(f"option {unknown[0]!r} is unknown; known are {', '.join(OPTIONS)}{suggested}")
    chosen = {}
    for name, option in OPTIONS.items():
        chosen[name] = usual(option) if given.get(name) is None else option.check(name, given[name])
    for name, need in idle_in(chosen).items():
        if given.get(name) is not None and chosen[name] != usual(OPTIONS[name]):
            raise BatfillError(f"option {name}: {need.why.format(value=chosen[need.option])}; {remedy(name, given)}")
        chosen[name] = None
    refuse_stale_dividers(chosen["regime"], chosen["divider-rule"])
    if isinstance(chosen["levels"], Geometric):
        refuse_beside_fixed(chosen["levels"], chosen["knowledge"], given)
        chosen["divider-rule"] = None
    if chosen["predictions"] == ORDER:
        refuse_moving_orders(chosen["policy"], chosen["backfill"])
    return chosen


def usual(option: Option) -> Any:
    """The checked value of an option that is not given; given explicitly, it is accepted where it has no effect."""
    return None if option.default is None else option.check(option.name, option.default)


def idle_in(chosen: Mapping[str, Any]) -> dict[str, Needs]:
    """The options by name, of those chosen, that have no effect, each with the first condition that is not met."""
    unmet = {name: [need for need in OPTIONS[name].needs if not need.met(chosen)] for name in chosen}
    return {name: needs[0] for name, needs in unmet.items() if needs and chosen[name] is not False}


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
    words = {key: key if added[key] is True else f"{key} {added[key]}" for key in OPTIONS if key in added}
    advice = [f"choose {word}" for key, word in words.items() if given.get(key) is not None]
    if new := [word for key, word in words.items() if given.get(key) is None]:
        advice.append(f"add {' and '.join(new)}")
    return f"{' and '.join(advice)}, or leave it out"


def refuse_live(name: str) -> None:
    """Refuse an option of LIVE where jobs are replayed without machines.

    Raises:
        BatfillError: it is one.
    """
    if name in LIVE:
        raise BatfillError(
            f"option {name}: only `batfill schedule` and the plug-in take it, as a replay counts processors and places "
            "no job on machines; leave it out, or simulate it with `batfill run`"
        )


def refuse_moving_orders(*orders: Policy | None) -> None:
    """Refuse orders that change while jobs wait, whose keys read the expected run time in force.

    Raises:
        BatfillError: one of them does.
    """
    for policy in orders:
        if policy is not None and policy.moves:
            raise BatfillError(
                f"option predictions: {ORDER} takes orders that stay as they are, and that of {policy.name} changes "
                "while jobs wait; choose another policy, or predictions all"
            )


def refuse_stale_dividers(regime: str | None, divider_rule: str | None) -> None:
    """Refuse a current divider under a rule that moves it once a week.

    Raises:
        BatfillError: the two options conflict.
    """
    if regime == "fresh" and divider_rule == "week":
        raise BatfillError("option divider-rule: week moves the divider weekly; use regime weekly or decoupled")


def refuse_beside_fixed(levels: Geometric, knowledge: str | None, given: Mapping[str, Any]) -> None:
    """Refuse options that have no effect on dividers that are fixed, and random ones without a seed.

    Raises:
        BatfillError: one is given.
    """
    if given.get("divider-rule") is not None:
        raise BatfillError(f"option divider-rule: {levels} does not learn dividers; leave one of them out")
    if given.get("regime") == "weekly":
        raise BatfillError(
            f"option regime: weekly and fresh differ only in learned dividers, and {levels} learns none; leave it out"
        )
    if levels.random and knowledge != "classifier":
        named = replace(levels, random=False)
        raise BatfillError(f"option levels: random dividers take the seed of knowledge classifier; write {named}")


# The values that options turn into


@dataclass(frozen=True, slots=True)
class Settings:
    """How a classifier learns; every result states it."""

    regime: Regime = "fresh"  # decoupled: lags, shares, divider and forest as of the last week's end; weekly: lags and
    # shares current; fresh: the divider, too
    divider_rule: DividerRule = (
        "known"  # the median run time of all known jobs, or of those that ended in the last week
    )
    levels: tuple[float, ...] | Geometric = (0.5,)  # the dividers' shares of the run times: several, ascending, make
    # several levels; or fixed ones
    cut: float = 0.5  # the probability from which a job counts as small; at 0 all jobs do, and only the divider is
    # learned
    seed: int = 0
    on_drift: bool = False  # train when the error rate grows and every fourth week, instead of every week
    train_lag_s: float = 0.0  # from the end of a forest's training data to its first judgement
    max_waste: float = math.inf  # limits, kept by moving the cut; see `Budget`
    max_kill_share: float = math.inf
    limits: Limits = "strict"  # or expected: how they count the tries under way

    def __post_init__(self) -> None:
        """Refuse values that no option accepts; Python programs get here without `in_force`.

        Raises:
            BatfillError: as `in_force`.
        """
        limits = {"max-waste": self.max_waste, "max-kill-share": self.max_kill_share}
        given = {
            "regime": self.regime,
            "divider-rule": self.divider_rule,
            "levels": self.levels,
            "cut": self.cut,
            "seed": self.seed,
            "train-lag": self.train_lag_s,
            "limits": self.limits,
            **{name: limit for name, limit in limits.items() if limit != math.inf},
        }
        for name, value in given.items():
            OPTIONS[name].check(name, value)
        if self.limits != STRICT and not self.limited:
            raise BatfillError(
                f"option limits: {OF_LIMITS.why}; {remedy('limits', {'knowledge': 'classifier', 'kill': True})}"
            )
        refuse_stale_dividers(self.regime, self.divider_rule)

    @property
    def limited(self) -> bool:
        """Whether there is a limit on kills or waste."""
        return min(self.max_waste, self.max_kill_share) < math.inf

    @property
    def learns(self) -> bool:
        """Whether forests are trained: with cut 0 and no limits to move it, every job counts as small without one."""
        return self.cut > 0 or self.limited

    def require_libraries(self) -> None:
        """Check that the library for training is installed, before the first job is judged.

        Raises:
            MissingExtra: it is needed and missing.
        """
        if self.learns:
            require("learn", "sklearn")

    def as_dict(self) -> dict[str, Any]:
        """By the options' names, as a user writes them; None: no limit, or not applicable."""
        levels, fixed = self.levels, isinstance(self.levels, Geometric)
        return {
            "levels": str(levels) if isinstance(levels, Geometric) else ",".join(f"{level:g}" for level in levels),
            "regime": self.regime,
            "divider-rule": None if fixed else self.divider_rule,
            "cut": self.cut,
            "train": "drift" if self.on_drift else "week",
            "train-lag": self.train_lag_s,
            "max-waste": finite(self.max_waste),
            "max-kill-share": finite(self.max_kill_share),
            "limits": self.limits if self.limited else None,
            "seed": self.seed,
        }


@dataclass(frozen=True, slots=True)
class Learning:
    """What a scheduler learns, and how it uses it."""

    knowledge: str = USER
    predictions: str = ALL  # or ORDER: predicted run times order the queue, and nothing else
    kill: bool = False  # small jobs are killed at their level's divider and requeued in the next, at last as large
    bound: bool = False  # with kill, the divider is the latest expected end
    settings: Settings = field(default_factory=Settings)

    @property
    def outlived(self) -> bool:
        """Whether a job may outlive its estimate."""
        return self.knowledge in LEARNED and self.predictions == ALL

    def require_libraries(self) -> None:
        """As `Settings.require_libraries`; only the classifier needs any."""
        if self.knowledge == "classifier":
            self.settings.require_libraries()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Learning:
        """As `Options.of`."""
        return Options.of(given).learning

    def as_dict(self) -> dict[str, Any]:
        """By the options' names; None if this kind of knowledge does not have the option."""
        chosen = {"predictions": self.predictions, "kill": self.kill, "bound": self.bound, **self.settings.as_dict()}
        for name, value in chosen.items():
            of_others = [need.values for need in OPTIONS[name].needs if need.option == "knowledge"]
            if value is not False and any(self.knowledge not in values for values in of_others):
                chosen[name] = None
        return {"knowledge": self.knowledge, **chosen}


@dataclass(frozen=True, slots=True)
class Options:
    """How a scheduler orders, backfills and kills."""

    policy: Policy  # the queue's order
    backfill: Policy | None = None  # the order in which jobs are tried for backfilling; None for the queue's own
    threshold_s: float = math.inf  # Theta: jobs that have waited longer come first, oldest first
    overdue_before: str = ALL  # what they go before: all others, or LARGE_ONES
    divider_s: float = math.inf  # small jobs go first and are killed and requeued as large after this time
    kill_if: str = ALWAYS  # or WAITING, NEEDED: when they are killed there
    try_width: float = 1.0  # the widest job that can be small, as a share of the machine
    learning: Learning = field(default_factory=Learning)  # what is learned of run times, and how it is used

    def __post_init__(self) -> None:
        """Refuse options that do not go together with a network that picks the next job.

        Raises:
            BatfillError: one of them would mean something else.
        """
        from batfill.policy import require_order

        if self.kills and self.kill_if != ALWAYS:
            require_order(self.policy, f"option kill-if: {self.kill_if} looks at the first job of an order")
        if self.learning.predictions == ORDER:
            require_order(self.policy, f"option predictions: {ORDER} would hide the predictions from it")

    @property
    def digests(self) -> dict[str, Any]:
        """What a result states besides `as_dict`; see `policy.digests`."""
        from batfill.policy import digests

        return digests([self.policy, self.backfill])

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options in a mapping from NAMES to values, as from JSON or a command line; None means unset.

        Raises:
            BatfillError: as `in_force`.
        """
        chosen = in_force(given)
        plain = Settings()
        settings = {
            "regime": chosen["regime"],
            "divider_rule": chosen["divider-rule"],
            "levels": chosen["levels"],
            "cut": chosen["cut"],
            "seed": chosen["seed"],
            "on_drift": None if chosen["train"] is None else chosen["train"] == "drift",
            "train_lag_s": chosen["train-lag"],
            "max_waste": chosen["max-waste"],
            "max_kill_share": chosen["max-kill-share"],
            "limits": chosen["limits"],
        }
        settings = {name: getattr(plain, name) if value is None else value for name, value in settings.items()}
        return cls(
            policy=chosen["policy"],
            backfill=chosen["backfill"],
            threshold_s=math.inf if chosen["threshold"] is None else chosen["threshold"],
            overdue_before=chosen["overdue-before"] or ALL,
            divider_s=math.inf if chosen["divider"] is None else chosen["divider"],
            kill_if=chosen["kill-if"] or ALWAYS,
            try_width=chosen["try-width"] or 1.0,
            learning=Learning(
                chosen["knowledge"], chosen["predictions"] or ALL, chosen["kill"], chosen["bound"], Settings(**settings)
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """Every option by name, in the table's order and as a user writes it; None: off, or not applicable.

        Every result states its options in this form.
        """
        return {
            "policy": self.policy.name,
            "backfill": self.backfill.name if self.backfill else SAME,
            "threshold": finite(self.threshold_s),
            "overdue-before": self.overdue_before if self.threshold_s < math.inf and self.small_jobs else None,
            "divider": finite(self.divider_s),
            "kill-if": self.kill_if if self.kills else None,
            "try-width": self.try_width if self.small_jobs else None,
            **self.learning.as_dict(),
        }

    def as_text(self) -> str:
        """The same as one line; options that do not apply are left out."""
        stated = self.as_dict()
        return as_line(
            {
                name: value
                for name, value in stated.items()
                if all(need.met(stated) for need in OPTIONS[name].needs)
                and (value is not None or OPTIONS[name].default is None)
            }
        )

    def require_classes(self, jobs: JobTable, source: str) -> None:
        """Refuse a divider if no job states its class, as it would have no effect.

        Raises:
            BatfillError: no job states its class.
        """
        from batfill.jobs import UNKNOWN

        if self.divider_s < math.inf and len(jobs) and (jobs.job_class == UNKNOWN).all():
            raise BatfillError(
                f"{source}: option divider needs jobs with a field `class`, and none of {len(jobs)} has one; "
                "choose knowledge classifier with kill, take a Batsim workload with classes, or leave the divider out"
            )

    @property
    def small_jobs(self) -> bool:
        """Whether jobs can be small."""
        return self.divider_s < math.inf or self.learning.knowledge in CLASSIFYING

    @property
    def kills(self) -> bool:
        """Whether small jobs are killed at a divider."""
        return self.divider_s < math.inf or self.learning.kill

    @property
    def kill_rule(self) -> int:
        """`kill_if` as the engine's constant."""
        return KILL_RULES.index(self.kill_if)

    def widest_try(self, size: int) -> int:
        """The most processors that a small job may request on a machine of `size` processors; at least 1."""
        return max(1, math.floor(self.try_width * size * (1 + 1e-12)))

    @property
    def tries_first(self) -> bool:
        """Whether small jobs go before overdue ones."""
        return self.overdue_before == LARGE_ONES

    @property
    def remarks(self) -> tuple[str, ...]:
        """A line for each given option that has no effect with the others."""
        settings = self.learning.settings
        if self.learning.knowledge != "classifier" or settings.learns:
            return ()
        given = {
            "regime": isinstance(settings.levels, Geometric) and settings.regime != "fresh",
            "train": settings.on_drift,
            "train-lag": settings.train_lag_s > 0,
        }
        idle = [name for name, set_ in given.items() if set_]
        return tuple(f"option {name} has no effect at cut 0 without a limit: no forest is trained" for name in idle)


def finite(value: float) -> float | None:
    """The value; None if it is infinite, which means that an option is off."""
    return value if math.isfinite(value) else None


def as_line(stated: Mapping[str, Any]) -> str:
    """Options by name as the `options` line of a text."""
    return ", ".join(
        f"{name} {as_word(value)}{OPTIONS[name].unit if value is not None else ''}" for name, value in stated.items()
    )


def as_word(value: Any) -> str:
    """A value as in the `options` line of a text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def described(given: Mapping[str, Any]) -> str:
    """The options in short: the policy, and every option that is not the default.

    >>> described({"policy": "saf", "backfill": "spf", "threshold": 200000, "knowledge": "user"})
    'saf, backfill spf, threshold 200000 s'
    """
    parts = [str(given.get("policy", OPTIONS["policy"].default))]
    for name, option in (OPTIONS | LIVE).items():
        value = given.get(name)
        if name == "policy" or value is None or value == option.default:
            continue
        if value is True or name == "knowledge":
            parts.append(name if value is True else str(value))
        else:
            parts.append(f"{name} {as_word(value)}{option.unit}")
    return ", ".join(parts)
