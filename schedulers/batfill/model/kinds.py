"""What a row of the options' table says: the kind of value, the default, and the conditions of an option.

Loads no library that is slow to import, as `options` does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from keyword import iskeyword
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import BatfillError
from batfill.model.values import as_word, finite, one_of, seconds_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batfill.model.policy import Policy

SAME = "same"
OFF = "none"  # the word for an option's None
SCRATCH, KEPT = "scratch", "kept"
# Headings in the help.
WHAT, URGENT_JOBS, SMALL_JOBS, PREDICTIONS, LIVE_ONLY = "what", "urgent jobs", "small jobs", "predictions", "live"


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
        value = chosen.get(self.option)
        return value in self.values or (self.own and isinstance(value, Own)) if self.values else value is not None

    @property
    def advised(self) -> Any:
        return self.values[0] if self.example is None else self.example


class Option(NamedTuple):
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

    @property
    def off(self) -> str | None:
        """The word for its field's None; given, it counts like any value, and switches off what a preset has."""
        return OFF if self.default is None else SAME if self.default == SAME else None

    @property
    def usual(self) -> Any:
        """The checked value if it is not given; given explicitly, it is accepted where it has no effect."""
        return None if self.default in (None, self.off) else self.check(self.name, self.default)

    def with_unit(self, value: Any) -> str:
        return as_word(value) + ("" if value is None or isinstance(value, str) else self.kind.unit)

    def check(self, name: str, value: Any) -> Any:
        """The value in force, or the word `off`: never None, which means that an option is not given."""
        off = isinstance(value, str) and value.strip().lower() == self.off
        return self.off if off else self.kind.check(name, value)


def option(
    group: str,
    kind: Kind,
    default: Any,
    help: str,  # noqa: A002
    *needs: Needs,
    off: Any = None,
    quiet: bool = False,
) -> Any:
    """A field of `Options`, with its row of the table; if it is idle, it is `off`, or without that the default."""
    idle = off if off is not None or default in (None, SAME) else kind.check("", default)
    return field(default=idle, metadata={"row": (group, kind, default, help, needs, quiet)})


def options_table(group: str, *rows: tuple[Any, ...]) -> dict[str, Option]:
    """Options that are no fields of `Options`; a row has name, kind, default, help, and any number of needs."""
    return {name: Option(name, group, kind, default, text, tuple(needs)) for name, kind, default, text, *needs in rows}


def words(*known: str) -> Kind:
    listed = ", ".join(f"`{word}`" for word in known)
    return Kind(lambda name, value: one_of(name, value, known), listed, "which", choices=known)


def lazily(module: str, function: str, *more: Any) -> Kind:
    """A kind that a function of a module of batfill.model checks, which is imported when it runs."""
    return Kind(lambda *given: attrgetter(function)(import_module(f"batfill.model.{module}"))(*given), *more)


class Own(str):
    """A user's own predictor or classifier, and its name, which results state: by default that of its class."""

    knowledge: Any  # a `learn.Knowledge`

    def __new__(cls, knowledge: Any, name: str = "") -> Own:
        word = super().__new__(cls, name or type(knowledge).__name__)
        word.knowledge = knowledge
        return word

    def __reduce__(self) -> tuple[type[Own], tuple[Any, str]]:
        return Own, (self.knowledge, str(self))


MEMBERS = ("name", "classifies", "outlived", "divider_s", "renewal_s", "judge", "started", "ended", "killed", "renew")


def words_or_own(classifies: bool, *known: str) -> Kind:
    def check(name: str, value: Any) -> str:
        if isinstance(value, Own):
            return value
        if isinstance(value, str) and not classifies and ".csv" in value.lower():
            knowledge = import_module("batfill.learn.listed").Listed.of(name, value)
            return Own(knowledge, knowledge.name)
        if isinstance(value, str):
            return one_of(name, value, known)
        if isinstance(value, type) or not all(hasattr(value, member) for member in MEMBERS):
            own = f"nor an object with the members of batfill.learn.Knowledge, {', '.join(MEMBERS)}"
            raise BatfillError(f"option {name}: {value!r:.60} is none of {', '.join(known)}, {own}")
        if bool(value.classifies) != classifies:
            does, other = ("does not classify", "predict") if classifies else ("classifies", "small")
            raise BatfillError(
                f"option {name}: {type(value).__name__} {does}; give it as {other}, or change `classifies`"
            )
        return Own(value)

    listed = words(*known)
    return listed._replace(check=check, typed="Any", value=listed.value + ", `FILE.csv`" * (not classifies))


def policy_of(name: str, value: Any) -> Policy:
    from batfill.model.policy import Policy, policy_named

    if callable(value):
        raise BatfillError(
            f"option {name}: {value!r:.60} is a function; make it a policy, as bf.Policy('mine', function)"
        )
    return value if isinstance(value, Policy) else policy_named(text_of(name, value))


@dataclass(frozen=True, slots=True)
class Divider:
    """The time that a small job runs for at most: fixed, or a share of the median of the known run times."""

    fixed_s: float = math.inf  # inf: learned
    part: int = 1  # the divider is the median over this

    def __str__(self) -> str:
        return as_word(self.fixed_s) if self.fixed_s < math.inf else f"median/{self.part}".removesuffix("/1")

    def of_median(self, median_s: float) -> float:
        """The learned divider; a part of the median is in whole seconds, as Batsim rounds dates."""
        return median_s if self.part == 1 or median_s == math.inf else float(max(round(median_s / self.part), 1))


def divider_of(name: str, value: Any) -> Divider:
    if isinstance(value, Divider):
        return value
    if found := re.fullmatch(r"median(?:/([1-9]\d{0,5}))?", str(value).strip().lower(), re.ASCII):
        return Divider(part=int(found[1] or 1))
    return Divider(seconds_of(name, value, least=1e-9, or_else=", median or median/4"))


def plan_of(name: str, value: Any) -> str:
    """How a live scheduler plans: scratch, kept, or kept: and the seconds by which each job is planned longer."""
    plan, colon, margin = str(value).partition(":")
    if value != SCRATCH and (plan != KEPT or (colon and not margin)):
        raise BatfillError(f"option {name}: {value!r} is none of {SCRATCH}, {KEPT}, and {KEPT}: with a duration")
    margin_s = seconds_of(name, margin or 0)
    return f"{plan}:{as_word(margin_s)}" if margin_s else plan


def margin_of(plan: str) -> float | None:
    """By how many seconds a kept plan's jobs are planned longer; None if the plan is not kept; `plan` as checked."""
    return None if plan == SCRATCH else float(plan.partition(":")[2] or 0)


def plain_value(value: Any) -> Any:
    """A field's value as a user writes it; None if it is off."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Divider):
        return value.fixed_s if value.fixed_s < math.inf else str(value)
    return finite(value) if isinstance(value, float) else value.name
