"""The scheduler's options, the same in every host: their names, their checks, and what they mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from batfill.errors import BatfillError
from batfill.knowledge.choice import NAMES as LEARNING
from batfill.knowledge.choice import USER, Learning, seconds_of
from batfill.policies import Policy, policy_named

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("policy", "backfill", "threshold", "divider", *LEARNING)
SAME = "same"


@dataclass(frozen=True, slots=True)
class Options:
    """How a scheduler orders, backfills and kills."""

    policy: Policy  # the queue's order
    backfill: Policy | None = None  # the order in which jobs are tried for backfilling; None for the queue's own
    threshold_s: float = math.inf  # Theta: jobs that have waited longer come first, oldest first
    divider_s: float = math.inf  # small jobs go first and are killed and requeued as large after this time
    learning: Learning = field(default_factory=Learning)  # what is learned of run times, and done about it

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options of a mapping from NAMES to values, as JSON or a command line gives them; None means unset.

        Raises:
            BatfillError: a name is unknown, or a value is not what it must be.
        """
        if unknown := sorted(set(given) - set(NAMES)):
            raise BatfillError(f"option {unknown[0]!r} is unknown; known are {', '.join(NAMES)}")
        learning = Learning.of(given)
        if learning.knowledge != USER and given.get("divider") is not None:
            raise BatfillError(
                f"option divider: knowledge {learning.knowledge} takes no class from the workload; leave one out"
            )
        policy = policy_named(text_of("policy", given.get("policy", "fcfs")))
        backfill = text_of("backfill", given.get("backfill") or SAME)
        return cls(
            policy=policy,
            backfill=None if backfill == SAME else policy_named(backfill),
            threshold_s=seconds_of("threshold", given.get("threshold"), least=0),
            divider_s=seconds_of("divider", given.get("divider"), least=1e-9),
            learning=learning,
        )


def text_of(name: str, value: Any) -> str:
    """The value, which must be text."""
    if not isinstance(value, str):
        raise BatfillError(f"option {name}: {value!r} is not a name; try 'fcfs', or see `batfill policies`")
    return value
