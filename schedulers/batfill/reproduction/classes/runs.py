"""Logs replayed with what is known of run times, for the entries of the 2022 study of small jobs first."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from batfill.options import USER, DividerRule, Regime
from batfill.reproduction.grids import Grid, run_grid
from batfill.schema import Section, Seed, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from batfill.reproduction.task import Task

TAU_S = 60.0
Days = Annotated[float, Field(gt=0)]
LABELS = {"fcfs": "FCFS", "wfp3": "WFP", "spf": "SPF", "saf": "SAF"}  # as the paper calls them
# The scenarios of Figure 9, each with more information, or more use of it, than the one before.
BASE, CLASSIFIED, IDEMPOTENT, BY_CLASS, BY_RUNTIME = SCENARIOS = (
    "base",
    "classification",
    "classification-idempotent",
    "class-clairvoyant",
    "runtime-clairvoyant",
)


def shown(policy: str) -> str:
    """The policy's name in tables."""
    return LABELS.get(policy, policy.upper())


class Replayed(Section):
    """The orders, and the part of a log."""

    policies: Annotated[list[Text], Field(min_length=1)]
    first_days: dict[Text, Days] = Field(default_factory=dict)  # so many of logs that are too long to be replayed whole
    days: Days | None = None  # so many of each log
    seed: Seed = 0

    def windows_of(self, label: str) -> dict[str, Any]:
        """The campaign's section for the part of the log that is replayed; none for the whole of it."""
        days = self.days or self.first_days.get(label)
        return {} if days is None else {"windows": {"days": days, "count": 1, "align": "first"}}


class Replays(Replayed):
    """What is known of run times."""

    fewer: dict[Text, list[Text]] = Field(default_factory=dict)  # the policies of logs that are too long for all
    regime: Regime
    divider_rule: DividerRule


class Jobs(NamedTuple):
    """The jobs of a run that were not rejected; arrays of shape (n_jobs,)."""

    submit_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    runtime_s: NDArray[np.float64]
    bsld: NDArray[np.float64]


class Runs:
    """All scenarios under all policies on one log."""

    def __init__(self, grid: Grid, policies: Sequence[str]) -> None:
        """`grid` has its runs policy by policy, each in the order of SCENARIOS."""
        self.label, self.grid, self.policies = grid.label, grid, policies
        self.rows = dict(zip(product(policies, SCENARIOS), grid.rows, strict=True))

    def mean(self, policy: str, scenario: str) -> float:
        """The mean bounded slowdown."""
        return float(self.rows[policy, scenario]["mean_bsld"])

    def gain(self, policy: str, scenario: str) -> float:
        """How much less that is than in the base, in per cent."""
        return 100 * (1 - self.mean(policy, scenario) / self.mean(policy, BASE))

    def jobs(self, policy: str, scenario: str) -> Jobs:
        """When they ran, and how slowly; in the same order for all runs."""
        found = self.grid.jobs(self.rows[policy, scenario], ("submit_s", "start_s", "end_s", "bsld"))
        return Jobs(found["submit_s"], found["end_s"], found["end_s"] - found["start_s"], found["bsld"])

    @cached_property
    def divider_s(self) -> float:
        """The median run time of the whole log."""
        return float(np.median(self.jobs(self.policies[0], BASE).runtime_s))


def runs_of(task: Task, label: str, parameters: Replays) -> Runs:
    """The runs of a log; every entry that asks for the same ones shares them."""
    learned = {"knowledge": "classifier", "regime": parameters.regime, "divider-rule": parameters.divider_rule}
    policies = parameters.fewer.get(label, parameters.policies)
    content: dict[str, Any] = {
        "policies": policies,
        "knowledge": [USER, learned, {**learned, "kill": True}, BY_CLASS, BY_RUNTIME],
        "seeds": [parameters.seed],
        "tau": TAU_S,
        "per-job": True,
    }
    content |= parameters.windows_of(label)
    return Runs(run_grid(task, label, content, overrun="keep"), policies)


def bases(found: Sequence[Runs]) -> str:
    """The mean bounded slowdowns of the bases, for a note."""
    parts = [
        f"{runs.label} {', '.join(f'{shown(policy)} {runs.mean(policy, BASE):.2f}' for policy in runs.policies)}"
        for runs in found
    ]
    return f"Mean bounded slowdown of the bases: {'; '.join(parts)}."
