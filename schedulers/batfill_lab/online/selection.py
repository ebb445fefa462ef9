"""Policy selection online, after each period.

Options and selector are the same in replay and under Batsim; each host keeps its own record of the past period.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.model.jobs import Jobs
from batfill.model.options import Options
from batfill.model.policy import PURE, Policy, names_in, policy_named
from batfill.model.schedule import Schedule
from batfill.model.values import as_word, finite, number_or_text, one_of, text_of
from batfill.replays.engine_replay import EngineReplay
from batfill_lab.online.choosers import Method, chooser
from batfill_lab.online.feedback import Noise, Past, Site, period_costs
from batfill_lab.online.settings import METHODS, SELECTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from batfill_lab.online.choosers import Chooser

log = logging.getLogger("batfill")

CHOOSERS = ("lambda", "alpha", "epsilon", "gamma")
BUDGET_S = 10.0  # under Batsim, which waits for the choice

BEFORE_S = -1.0  # start of the first period, so that second 0 belongs to it

# The 2017 bandit paper's search space: it announces ten policies and lists nine; we add SPF, the mirror of LPF.
# FCFS comes first, since choosers begin with the first policy.
TEN = ("fcfs", "lcfs", "lpf", "spf", "lqf", "lexp", "sexp", "lrf", "srf", "laf")


def candidates_of(text: str) -> tuple[Policy, ...]:
    """The policies of "ten", "twelve", or a list of names, as `policy.names_in`."""
    named = {"ten": TEN, "twelve": PURE}.get(text.strip().lower())
    if named is None:
        named = tuple(names_in(text))
    candidates = tuple(policy_named(name) for name in named)
    if len({policy.name for policy in candidates}) < 2:
        raise BatfillError(f"option policies: {text!r} leaves nothing to choose from; name two, as fcfs,saf")
    return candidates


def selection_of(name: str, value: Any) -> dict[str, Any]:
    """The settings in a text such as exp3:period=1d,gamma=0.2, its method under `select`; for `Selection.of`."""
    method, _, rest = text_of(name, value).partition(":")
    found: dict[str, Any] = {"select": one_of(name, method.strip(), METHODS)}
    for word in filter(None, rest.split(",")):
        setting, given, text = (part.strip() for part in word.partition("="))
        if setting not in SELECTION or not given:
            raise BatfillError(
                f"option {name}: {word!r} is not SETTING=VALUE with one of {', '.join(SELECTION)}; "
                f"try {method}:period=7d"
            )
        found[setting] = number_or_text(text)
    return found


@dataclass(frozen=True, slots=True)
class Selection:
    """How the policy of each period is chosen."""

    method: Method
    policies: tuple[Policy, ...]
    period_s: float  # Delta
    noise: Noise
    seed: int
    chooser: dict[str, float]  # the chooser's options
    budget_s: float  # wall-clock time for the replays of one period; inf for no limit

    @classmethod
    def taken_from(cls, given: Mapping[str, Any]) -> tuple[Selection, dict[str, Any]]:
        """The selection in a live scheduler's options, always with a budget, and the remaining options."""
        plain = {name: value for name, value in given.items() if name != "select"}
        if plain.get("policy") is not None:
            raise BatfillError("option policy: select chooses it; put it among the policies, or leave one of them out")
        return cls.of({"budget": BUDGET_S, **selection_of("select", given["select"])}), plain

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Selection:
        """The selection in a mapping of `select` and its settings, None meaning unset."""
        method: Any = given["select"]
        usual = {name: row.default for name, row in SELECTION.items()}
        chosen = {name: value for name, value in given.items() if name != "select" and value is not None}
        in_force: dict[str, Any] = {}
        for name, value in (usual | chosen).items():
            row = SELECTION[name]
            checked = None if value is None else row.check(name, value)
            if all(need.met(given) for need in row.needs):
                in_force[name] = checked
            elif checked != row.default:
                raise BatfillError(f"option {name}: {method} has no such option; leave it out")
        return cls(
            method=method,
            policies=candidates_of(in_force["policies"]),
            period_s=in_force["period"],
            noise=in_force.get("noise", "none"),
            seed=in_force["seed"],
            chooser={name: in_force[name] for name in CHOOSERS if name in in_force},
            budget_s=math.inf if in_force["budget"] is None else in_force["budget"],
        )

    def selector(self, site: Site, sample: int = 0) -> Selector:
        """A fresh selector, with independent random numbers per sample."""
        seed = int(np.random.SeedSequence([self.seed, sample]).generate_state(1)[0])
        made = chooser(self.method, len(self.policies), seed=seed, options=self.chooser)
        rng = np.random.default_rng([seed, 2])
        return Selector(self.policies, made, site, self.noise, rng, self.budget_s)

    def as_dict(self) -> dict[str, Any]:
        settings = {
            "policies": "+".join(policy.name for policy in self.policies),
            "period": self.period_s,
            "noise": None if self.noise == "none" else self.noise,
            **self.chooser,
            "budget": finite(self.budget_s),
            "seed": self.seed,
        }
        stated = ",".join(f"{name}={as_word(value)}" for name, value in settings.items() if value is not None)
        return {"select": f"{self.method}:{stated}"}


def selection_and_site(
    given: Mapping[str, Any], size: int, backfill: Policy | str | None, threshold: float | None
) -> tuple[Selection, Site]:
    selection = Selection.of(given)
    return selection, Site(size, Options.of({"backfill": backfill, "threshold": threshold}).rules)


@dataclass
class Selector:
    """Learns from each period what its chooser needs, and chooses the next policy; in replay and under Batsim alike."""

    policies: Sequence[Policy]
    chooser: Chooser
    site: Site
    noise: Noise
    rng: np.random.Generator  # of the noise
    budget_s: float = math.inf  # for all replays of one period
    chosen: list[int] = field(default_factory=list)  # by period
    over_budget: int = 0  # periods without feedback because their replays took too long

    def renew(self, past: Past) -> Policy:
        costs: NDArray[np.float64] | None
        if self.chooser.needs_all:
            costs = period_costs(past, self.policies, self.site, noise=self.noise, rng=self.rng, budget_s=self.budget_s)
        else:
            costs = np.full(len(self.policies), np.nan)
            costs[self.chosen[-1]] = past.waited_s(past.start_s)
        if costs is None:
            self.over_budget += 1
        else:
            self.chooser.learn(costs, past.submitted)
        return self.choose()

    def choose(self) -> Policy:
        self.chosen.append(self.chooser.choose())
        return self.policies[self.chosen[-1]]


def select_online(jobs: Jobs, selector: Selector, period_s: float) -> Schedule:
    """Replay the workload with the policy that the selector chooses for each period; `selector.chosen` records them.

    Period t is (t period_s, (t + 1) period_s]; the first includes its start. Jobs wider than the machine are rejected.
    """
    site = selector.site
    run = EngineReplay(jobs, site.size, site.under(selector.choose()))
    from_s = BEFORE_S
    for period in count(1):
        until_s = period * period_s
        if run.advance(until_s):
            return run.schedule()
        policy = selector.renew(past_of(run, from_s, until_s))
        run.queue.change_rules(site.under(policy))
        from_s = until_s
    raise AssertionError("a workload has an end")


def past_of(run: EngineReplay, from_s: float, until_s: float) -> Past:
    """What a replay stopped at `until_s` has shown of the jobs that matter in the period from `from_s`."""
    n = run.queue.submitted
    start_s = run.start_s[:n]
    end_s = start_s + run.events.duration_s[:n]
    ended = end_s <= until_s
    matters = ~(end_s <= from_s) & (run.table.procs[:n] <= run.size)
    rows = np.flatnonzero(matters)
    return Past(run.table.select(rows), start_s[rows], ended[rows], from_s, until_s)
