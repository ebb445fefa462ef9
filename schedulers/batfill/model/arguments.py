"""The options as keyword arguments in Python, for type checkers. A test makes the fields of the options' rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.model.limits.calendar import Calendar
    from batfill.model.limits.energy import Budget
    from batfill.model.limits.gate import Gate
    from batfill.model.limits.pools import Pools
    from batfill.model.policy import Policy
    from batfill.model.preemption import Checkpoint, Urgent


class Arguments(TypedDict, total=False):
    """All options but the policy. A duration is in seconds, or text such as "20h"; None is the default."""

    preset: Literal["none", "first-tries", "slurm", "flux", "pbs"] | None
    backfill: Policy | str | None
    depth: int | Literal["all"] | None
    tested: int | Literal["all"] | None
    reservation: Literal["processors", "kept", "machines"] | None
    max_running: int | Literal["none"] | None
    calendar: Calendar | str | Path | None
    backfill_while: Gate | str | Path | list[tuple[float, float]] | None
    pool: Pools | str | list[str] | None
    energy_budget: Budget | str | None
    threshold_s: float | str | None
    overdue: Literal["all", "half"] | None
    urgent: Urgent | str | None
    preempt: Literal["none", "least-lost", "youngest"] | None
    preempt_exempt_s: float | str | None
    requeue_delay_s: float | str | None
    checkpoint: Checkpoint | float | str | None
    small: Literal["none", "class", "all", "forest", "perfect"] | Any | None
    divider: float | str | None
    small_width: float | str | None
    kill: Literal["never", "always", "needed"] | None
    stand_back: float | Literal["none"] | None
    seed: int | None
    predict: Literal["request", "easy++", "regression", "runtime"] | Any | None
    predict_for: Literal["order", "all"] | None
