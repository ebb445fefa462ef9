"""What a row of the options' table says: the kind of value, the default, and the conditions of an option.

Loads no library that is slow to import, as `options` does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from keyword import iskeyword
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import BatfillError
from batfill.model.values import (
    as_word,
    count_of,
    finite,
    machines_of,
    noise_of,
    one_of,
    probability_of,
    seconds_of,
    seed_of,
    text_of,
    truth,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.model.policy import Policy

SAME = "same"
OFF = "none"  # the word for an option's None
SCRATCH, KEPT = "scratch", "kept"
MEDIAN = re.compile(r"median(?:/([1-9]\d{0,5}))?", re.ASCII)
# Headings in the help.
WHAT, SMALL_JOBS, PREDICTIONS, LIVE_ONLY = "what", "small jobs", "predictions", "live"


# Rows


class Kind(NamedTuple):
    """What values an option takes."""

    check: Callable[[str, Any], Any]  # from name and value to the value in force; raises BatfillError
    value: str  # in words, for the documentation
    metavar: str  # in the help
    typed: str = ""  # what Python takes beside the choices, for type checkers
    unit: str = ""  # follows the value in text
    choices: tuple[str, ...] = ()


class Needs(NamedTuple):
    """A condition without which an option does nothing and is refused."""

    option: str
    values: tuple[Any, ...]  # one of these; empty: any that is not None
    why: str  # what is wrong otherwise
    example: Any = None  # the value to advise; None: the first of `values`
    own: bool = False  # whether a user's own object will do

    def met(self, chosen: Mapping[str, Any]) -> bool:
        """Whether the options by name have a value that suffices."""
        value = chosen.get(self.option)
        return value in self.values or (self.own and isinstance(value, Own)) if self.values else value is not None

    @property
    def advised(self) -> Any:
        """A value of the option that meets this."""
        return self.values[0] if self.example is None else self.example


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a scheduler; a row of the table."""

    name: str  # in JSON and YAML; on the command line --name
    group: str  # heading in the help
    kind: Kind
    default: Any  # as a user would write it; None: off
    help: str
    needs: tuple[Needs, ...] = ()
    quiet: bool = False  # whether a result's text leaves the default out

    @property
    def argument(self) -> str:
        """What Python calls it; a name that ends in _s takes seconds."""
        name = self.name.replace("-", "_") + ("_s" if self.kind.metavar == "duration" else "")
        return f"{name}_" if iskeyword(name) else name

    def with_unit(self, value: Any) -> str:
        """The value in text."""
        return as_word(value) if value is None or isinstance(value, str) else f"{as_word(value)}{self.kind.unit}"

    @property
    def off(self) -> str | None:
        """The word for its field's None; given, it counts like any value, and switches off what a preset has."""
        return OFF if self.default is None else SAME if self.default == SAME else None

    def check(self, name: str, value: Any) -> Any:
        """The value in force, or the word `off`: never None, which means that an option is not given."""
        if isinstance(value, str) and value.strip().lower() == self.off:
            return self.off
        return self.kind.check(name, value)


def option(
    group: str,
    kind: Kind,
    default: Any,
    help: str,  # noqa: A002
    *needs: Needs,
    off: Any = None,
    quiet: bool = False,
) -> Any:
    """A field of `Options`, with its row of the table but for the name.

    If the option is idle, the field is `off`, or without that the default.
    """
    idle = off if off is not None or default in (None, SAME) else kind.check("", default)
    return field(default=idle, metadata={"row": (group, kind, default, help, needs, quiet)})


def options_table(*rows: tuple[Any, ...]) -> dict[str, Option]:
    """Options that are no fields of `Options`; a row has the values of `Option`, with any number of needs."""
    return {
        name: Option(name, group, kind, default, text, tuple(needs))
        for name, group, kind, default, text, *needs in rows
    }


# Values


def policy_of(name: str, value: Any) -> Policy:
    """The policy of this name, or the policy itself."""
    from batfill.model.policy import Policy, policy_named

    if callable(value):
        raise BatfillError(
            f"option {name}: {value!r:.60} is a function; make it a policy, as bf.Policy('mine', function)"
        )
    return value if isinstance(value, Policy) else policy_named(text_of(name, value))


def lazily(module: str, function: str) -> Callable[[str, Any], Any]:
    """The check of an option's name and value by a function of batfill.model, whose module is imported when it runs."""

    def check(name: str, value: Any) -> Any:
        return attrgetter(function)(import_module(f"batfill.model.{module}"))(name, value)

    return check


@dataclass(frozen=True, slots=True)
class Divider:
    """The time that a small job runs for at most: fixed, or a share of the median of the known run times."""

    fixed_s: float = math.inf  # inf: learned
    part: int = 1  # the divider is the median over this

    def __str__(self) -> str:
        """As a user writes it."""
        return as_word(self.fixed_s) if self.fixed_s < math.inf else f"median/{self.part}".removesuffix("/1")

    def of_median(self, median_s: float) -> float:
        """The learned divider; a part of the median is in whole seconds, as Batsim rounds dates."""
        return median_s if self.part == 1 or median_s == math.inf else float(max(round(median_s / self.part), 1))


def divider_of(name: str, value: Any) -> Divider:
    """A divider: a duration > 0, median, or median/4."""
    if isinstance(value, Divider):
        return value
    if isinstance(value, str) and (found := MEDIAN.fullmatch(value.strip().lower())):
        return Divider(part=int(found[1] or 1))
    try:
        return Divider(seconds_of(name, value, least=1e-9))
    except BatfillError:
        raise BatfillError(
            f"option {name}: {value!r} is not a duration > 0, median, or a part of it; try 600, 10min or median/4"
        ) from None


def plan_of(name: str, value: Any) -> str:
    """How a live scheduler plans: scratch, kept, or kept: and the seconds by which each job is planned longer."""
    if value == SCRATCH:
        return SCRATCH
    plan, _, margin = value.partition(":") if isinstance(value, str) else ("", "", "")
    if plan != KEPT or value == f"{KEPT}:":
        raise BatfillError(f"option {name}: {value!r} is none of {SCRATCH}, {KEPT}, and {KEPT}: with a duration")
    margin_s = seconds_of(name, margin or 0)
    return f"{KEPT}:{as_word(margin_s)}" if margin_s else KEPT


def margin_of(plan: str) -> float | None:
    """By how many seconds a kept plan's jobs are planned longer; None if the plan is not kept; `plan` as checked."""
    return None if plan == SCRATCH else float(plan.partition(":")[2] or 0)


def plain_value(value: Any) -> Any:
    """A field's value as a user writes it; None if it is off."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Divider):
        return value.fixed_s if value.fixed_s < math.inf else str(value)
    return value.name


def words(*known: str) -> Kind:
    """A fixed set of words."""
    listed = ", ".join(f"`{word}`" for word in known)
    return Kind(lambda name, value: one_of(name, value, known), listed, "which", choices=known)


class Own(str):
    """The class's name of a user's own predictor or classifier, which results state, and the object."""

    knowledge: Any  # a `learn.Knowledge`

    def __new__(cls, knowledge: Any) -> Own:
        """The word for this object."""
        word = super().__new__(cls, type(knowledge).__name__)
        word.knowledge = knowledge
        return word

    def __reduce__(self) -> tuple[type[Own], tuple[Any]]:
        """For processes and copies."""
        return Own, (self.knowledge,)


def words_or_own(classifies: bool, *known: str) -> Kind:
    """As `words`, or in Python an object as `learn.Knowledge` describes it."""
    members = (
        *("name", "classifies", "outlived", "divider_s", "renewal_s"),
        *("judge", "started", "ended", "killed", "renew"),
    )

    def check(name: str, value: Any) -> str:
        if isinstance(value, str):
            return value if isinstance(value, Own) else one_of(name, value, known)
        if isinstance(value, type) or not all(hasattr(value, member) for member in members):
            own = f"nor an object with the members of batfill.learn.Knowledge, {', '.join(members)}"
            raise BatfillError(f"option {name}: {value!r:.60} is none of {', '.join(known)}, {own}")
        if bool(value.classifies) != classifies:
            does = "does not classify" if classifies else "classifies"
            other = "predict" if classifies else "small"
            raise BatfillError(
                f"option {name}: {type(value).__name__} {does}; give it as {other}, or change `classifies`"
            )
        return Own(value)

    return words(*known)._replace(check=check, typed="Any")


ORDER, OR_ALL, OR_NONE, TIME = "Policy | str", 'int | Literal["all"]', 'int | Literal["none"]', "float | str"
POLICY = Kind(
    policy_of,
    "a policy's name, `mixed:` and six weights, `aged:` and three numbers, or `NAME@FILE.json`",
    "policy",
    ORDER,
)
BACKFILL = Kind(policy_of, "`same`, or a policy", "policy", ORDER)
DEPTH = Kind(partial(count_of, example=1), "a whole number, or `all`", "number", OR_ALL)
MOST = Kind(partial(count_of, least=1, word=OFF, example=40), "a whole number > 0, or `none`", "number", OR_NONE)
TESTED = Kind(partial(count_of, least=1), "a whole number > 0, or `all`", "number", OR_ALL)
CALENDAR = Kind(lazily("calendar", "calendar_of"), "a CSV file", "file", "Calendar | str | Path")
GATE = Kind(
    lazily("gate", "Gate.given"),
    "a CSV file of periods; or of intensities, with `:` and the highest",
    "file",
    "Gate | str | Path | list[tuple[float, float]]",
)
BUDGET = Kind(
    lazily("energy", "Budget.of"),
    "`AMOUNT@BEGIN..END`, with `,watts=`, `,idle=` and `,head-holds` behind it",
    "budget",
    "Budget | str",
)
POOLS = Kind(
    lazily("pools", "Pools.of"),
    "`NAME=AMOUNT`, or a share, with `@` and a field, or what a processor takes; several with commas",
    "pool",
    "Pools | str | list[str]",
)
DURATION_S = Kind(seconds_of, "a duration, >= 0", "duration", TIME, " s")
LIMIT_S = Kind(seconds_of, "a duration, >= 0, or `none`", "duration", TIME, " s")
PERIOD_S = Kind(partial(seconds_of, least=1e-9), "a duration, > 0", "duration", TIME, " s")
DIVIDER = Kind(divider_of, "a duration > 0, `median`, or a part of it as `median/4`", "divider", TIME, " s")
WIDTH = Kind(width_of, "a share > 0, at most 1, as `1/16`", "share", "float | str")
PROBABILITY = Kind(probability_of, "a share >= 0, at most 1", "share")
BACKLOG = Kind(machines_of, "a number > 0, or `none`", "number", 'float | Literal["none"]')
SWITCH = Kind(truth, "true, false", "", "bool")
SEED = Kind(seed_of, "a whole number", "integer", "int")
NAMES_OF = Kind(text_of, "`ten`, `twelve`, or names joined by +", "names")
NOISE = Kind(noise_of, "`walltime`, or a number >= 0", "number")
PLANNED = Kind(plan_of, "`scratch`, `kept`, or `kept:` and a duration", "which")
CHOOSER = Kind(text_of, "`METHOD` or `METHOD:SETTING=VALUE,...`", "method")
