"""The options of choosing policies online, the same in replay and under Batsim: their names, checks and meaning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.errors import BatfillError
from batfill.options import Options, finite, number_of, one_of, seconds_of, seed_of, share, text_of
from batfill.policies import Policy, policy_named
from batfill.tuning.bandits import METHODS, Method, chooser, options_of
from batfill.tuning.feedback import Noise, Rules
from batfill.tuning.online import Selector
from batfill.tuning.periods import PURE

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOOSERS = ("lambda", "alpha", "epsilon", "gamma")
NAMES = ("select", "period", "policies", "budget", "noise", *CHOOSERS, "select-seed")
PERIOD_S = 7 * 86_400.0
BUDGET_S = 10.0  # under Batsim, which waits meanwhile

# The 2017 bandit paper's search space: it announces ten policies and lists nine; SPF, the mirror of LPF, is taken for
# the tenth. FCFS is first: it is what a chooser begins with.
TEN = ("fcfs", "lcfs", "lpf", "spf", "lqf", "lexp", "sexp", "lrf", "srf", "laf")


def policies_of(text: str) -> tuple[Policy, ...]:
    """The policies of "ten", "twelve", or a list of names separated by commas, or by semicolons if some are mixed.

    Raises:
        PolicyError: a name is unknown.
    """
    named = {"ten": TEN, "twelve": PURE}.get(text.strip().lower())
    if named is None:
        named = tuple(text.split(";" if ";" in text else ","))
    return tuple(policy_named(name) for name in named)


@dataclass(frozen=True, slots=True)
class Selection:
    """How the policy of each period is chosen."""

    method: Method
    policies: tuple[Policy, ...]
    period_s: float  # Delta
    noise: Noise
    seed: int
    chooser: dict[str, float]  # the chooser's own options
    budget_s: float  # of this computer's time, for the replays of one period; inf for no limit

    @classmethod
    def taken_from(cls, given: Mapping[str, Any]) -> tuple[Selection | None, dict[str, Any]]:
        """The selection in a live scheduler's options, with a budget in any case, and the options that are left.

        Raises:
            BatfillError: as `of`, or a policy is given too.
        """
        mine = {name: given[name] for name in NAMES if given.get(name) is not None}
        plain = {name: value for name, value in given.items() if name not in NAMES}
        if "select" in mine and plain.get("policy") is not None:
            raise BatfillError("option policy: select chooses it; put it among the policies, or leave one of them out")
        return cls.of({"budget": BUDGET_S, **mine} if "select" in mine else mine), plain

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Selection | None:
        """The selection in a mapping from NAMES to values, None meaning unset; None where nothing is to be selected.

        Raises:
            BatfillError: a value is not what it must be, or something is asked for that needs a selection.
        """
        chosen = {name: given[name] for name in NAMES if given.get(name) is not None}
        if not chosen:
            return None
        if "select" not in chosen:
            raise BatfillError(
                f"option {next(iter(chosen))}: nothing selects a policy; add select, one of {', '.join(METHODS)}"
            )
        method: Any = one_of("select", chosen["select"], METHODS)
        seed = seed_of("select-seed", chosen.get("select-seed", 0))
        policies = policies_of(text_of("policies", chosen.get("policies", "ten")))
        options = {name: share(name, chosen[name]) for name in CHOOSERS if name in chosen}
        return cls(
            method=method,
            policies=policies,
            period_s=seconds_of("period", chosen.get("period", PERIOD_S), least=1e-9),
            noise=noise_of(method, chosen.get("noise")),
            seed=seed,
            chooser=options_of(method, options),
            budget_s=math.inf if chosen.get("budget") is None else seconds_of("budget", chosen["budget"]),
        )

    def selector(self, rules: Rules, sample: int = 0) -> Selector:
        """A selector that has learned nothing yet, with random numbers of its own for each sample."""
        seed = int(np.random.SeedSequence([self.seed, sample]).generate_state(1)[0])
        made = chooser(self.method, len(self.policies), seed=seed, options=self.chooser)
        rng = np.random.default_rng([seed, 2])
        return Selector(self.policies, made, rules, self.noise, rng, self.budget_s)

    def as_dict(self) -> dict[str, Any]:
        """What result files say of it."""
        return {
            "select": self.method,
            "policies": [policy.name for policy in self.policies],
            "period": self.period_s,
            "noise": self.noise,
            **self.chooser,
            "budget": finite(self.budget_s),
            "select-seed": self.seed,
        }


def noise_of(method: Method, given: Any) -> Noise:
    """The noise of a method: by default walltimes for "noisy", and none for the others, which take none."""
    if method != "noisy":
        if given is not None:
            raise BatfillError(f"option noise: {method} takes none; choose noisy, or leave it out")
        return "none"
    if given is None or given == "walltime":
        return "walltime"
    try:
        return number_of("noise", float(given), 0, math.inf, "a number >= 0")
    except (TypeError, ValueError):
        raise BatfillError(f"option noise: {given!r} is neither walltime nor a number >= 0; try 0.5") from None


def selection_and_rules(
    given: Mapping[str, Any], size: int, backfill: str, threshold: float | None
) -> tuple[Selection, Rules]:
    """A selection for a machine of this size and what its policies have in common, from options as users give them.

    Raises:
        BatfillError: as `Selection.of`, or the other two are not what they must be.
    """
    selection = Selection.of(given)
    assert selection is not None, "`select` is given"
    shared = Options.of({"backfill": backfill, "threshold": threshold})
    return selection, Rules(size, shared.backfill, shared.threshold_s)
