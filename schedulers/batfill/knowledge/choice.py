"""The options of a scheduler that learns: their names, their checks, and the knowledge they choose."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from batfill.errors import BatfillError
from batfill.knowledge.classifier import Classifier, DividerRule, Regime, Settings
from batfill.knowledge.estimates import ClassClairvoyant, LastTwo, RuntimeClairvoyant, UserEstimate
from batfill.knowledge.regression import OnlineRegression

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from batfill.jobs import JobTable
    from batfill.knowledge import Knowledge
    from batfill.workloads.clock import Clock

USER = "user"
CLAIRVOYANT = ("runtime-clairvoyant", "class-clairvoyant")
KNOWLEDGES = (USER, "easy++", "regression", "classifier", *CLAIRVOYANT)
CLASSIFYING = ("classifier", "class-clairvoyant")
MOST_LEVELS = 100
OUTLIVED = ("easy++", "regression")  # a job may run longer than they expect

# By the option's name as a user gives it.
OF_CLASSIFIER = ("regime", "divider-rule", "cut", "train", "train-lag", "max-waste", "max-kill-share", "seed")
NAMES = ("knowledge", "kill", "bound", "levels", *OF_CLASSIFIER)


@dataclass(frozen=True, slots=True)
class Learning:
    """What a scheduler learns, and what it does about it."""

    knowledge: str = USER
    kill: bool = False  # small jobs are killed at their level's divider and go on in the next, at last as large
    bound: bool = False  # where that will happen, the divider is the latest expected end
    settings: Settings = field(default_factory=Settings)

    @property
    def outlived(self) -> bool:
        """Whether a job may run longer than expected."""
        return self.knowledge in OUTLIVED

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Learning:
        """The learning in a mapping from NAMES to values, as JSON or a command line gives them; None means unset.

        Raises:
            BatfillError: a value is not what it must be, or would do nothing with the others.
        """
        chosen = {name: given[name] for name in NAMES if given.get(name) is not None}
        knowledge = one_of("knowledge", chosen.get("knowledge", USER), KNOWLEDGES)
        kill, bound = truth("kill", chosen.get("kill", False)), truth("bound", chosen.get("bound", False))
        if knowledge != "classifier" and (idle := [name for name in OF_CLASSIFIER if name in chosen]):
            raise BatfillError(f"option {idle[0]}: only a classifier has it; add knowledge classifier, or leave it out")
        if kill and knowledge not in CLASSIFYING:
            raise BatfillError(
                f"option kill: knowledge {knowledge} calls no job small; choose {' or '.join(CLASSIFYING)}"
            )
        if "levels" in chosen and knowledge not in CLASSIFYING:
            raise BatfillError(
                f"option levels: knowledge {knowledge} calls no job small; choose {' or '.join(CLASSIFYING)}"
            )
        if bound and not kill:
            raise BatfillError("option bound: no end is guaranteed without kill; add kill, or leave it out")
        limits = [name for name in ("max-waste", "max-kill-share") if name in chosen]
        if limits and not kill:
            raise BatfillError(f"option {limits[0]}: nothing is killed; add kill, or leave it out")
        regime = one_of("regime", chosen.get("regime", "fresh"), get_args(Regime))
        divider_rule = one_of("divider-rule", chosen.get("divider-rule", "known"), get_args(DividerRule))
        if regime == "fresh" and divider_rule == "week":
            raise BatfillError("option divider-rule: week is renewed weekly; choose regime weekly or decoupled for it")
        seed = chosen.get("seed", 0)
        if type(seed) is not int or not 0 <= seed < 2**31:
            raise BatfillError(f"option seed: {seed!r} is not a whole number from 0 on; try 0")
        settings = Settings(
            regime=regime,
            divider_rule=divider_rule,
            levels=levels_of(chosen.get("levels", "0.5")),
            cut=share("cut", chosen.get("cut", 0.5)),
            seed=seed,
            on_drift=one_of("train", chosen.get("train", "week"), ("week", "drift")) == "drift",
            train_lag_s=seconds_of("train-lag", chosen.get("train-lag", 0), least=0),
            max_waste=share("max-waste", chosen["max-waste"]) if "max-waste" in chosen else math.inf,
            max_kill_share=share("max-kill-share", chosen["max-kill-share"])
            if "max-kill-share" in chosen
            else math.inf,
        )
        return cls(knowledge, kill, bound, settings)

    def make(self, jobs: JobTable | None, clock: Clock | None) -> Knowledge:
        """The knowledge, which knows nothing yet.

        Args:
            jobs: whose run times a clairvoyant one is told; None where they are not at hand.
            clock: the log's; None where the workload does not say when it was.

        Raises:
            BatfillError: the knowledge is clairvoyant and there is nothing to see.
        """
        if self.knowledge in CLAIRVOYANT:
            if jobs is None:
                raise BatfillError(f"option knowledge: {self.knowledge} knows the future, which only a replay has")
            runtime_s: NDArray[np.float64] = np.minimum(jobs.runtime_s, jobs.walltime_s)
            if self.knowledge == "runtime-clairvoyant":
                return RuntimeClairvoyant(np.maximum(runtime_s, 1e-9))
            return ClassClairvoyant(runtime_s, self.settings.levels)
        if self.knowledge == "classifier":
            return Classifier(self.settings, clock)
        plain: dict[str, Callable[[], Knowledge]] = {
            USER: UserEstimate,
            "easy++": LastTwo,
            "regression": OnlineRegression,
        }
        return plain[self.knowledge]()


def one_of(name: str, value: Any, known: tuple[str, ...]) -> Any:
    """The value, which must be one of these."""
    if value not in known:
        raise BatfillError(f"option {name}: {value!r} is none of {', '.join(known)}")
    return value


def seconds_of(name: str, value: Any, *, least: float) -> float:
    """The value as a number of seconds of at least `least`; infinity where it is None."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
        raise BatfillError(f"option {name}: {value!r} is not a number of seconds {'>= 0' if least == 0 else '> 0'}")
    return float(value)


def truth(name: str, value: Any) -> bool:
    """The value, which must be true or false."""
    if not isinstance(value, bool):
        raise BatfillError(f"option {name}: {value!r} is neither true nor false")
    return value


def levels_of(value: Any) -> tuple[float, ...]:
    """The dividers' shares of the run times, which must be ascending numbers between 0 and 1 separated by commas."""
    try:
        levels = tuple(float(word) for word in str(value).split(","))
    except ValueError:
        levels = ()
    if not 0 < len(levels) <= MOST_LEVELS or not all(low < high for low, high in pairwise((0.0, *levels, 1.0))):
        raise BatfillError(
            f"option levels: {value!r} are not ascending numbers between 0 and 1 separated by commas, as '0.5,0.75', "
            f"at most {MOST_LEVELS}"
        )
    return levels


def share(name: str, value: Any) -> float:
    """The value, which must lie between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise BatfillError(f"option {name}: {value!r} is not a number from 0 to 1")
    return float(value)
