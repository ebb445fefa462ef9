"""Batsim profiles as delays: what a job of another type takes on hosts of one speed, where that can be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.errors import WorkloadError
from batfill.workloads.batsim_json import check_profile, is_time, refuse_late

if TYPE_CHECKING:
    from collections import Counter

EACH, SHARED = "parallel_homogeneous", "parallel_homogeneous_total"
OLD_NAMES = {
    "msg_par": "parallel",
    "msg_par_hg": EACH,
    "msg_par_hg_tot": SHARED,
}


def depends_on_hosts(profile: Any) -> bool:
    """Whether the profile takes less time on more hosts."""
    return isinstance(profile, dict) and profile.get("type") == SHARED


def as_delay(where: str, profile: Any, res: int, *, host_speed: float, notes: Counter[str]) -> dict[str, Any]:
    """The delay profile that stands for this one under a job of `res` hosts.

    parallel_homogeneous computes `cpu` flops on each host; parallel_homogeneous_total shares `cpu` among them. The
    bytes they send (`com`) take no time here, which `notes` counts.

    Args:
        where: begins error messages.
        profile: a profile of a workload.
        res: the job's hosts, >= 1.
        host_speed: flop/s, > 0.
        notes: out, counts the profiles by what was lost.

    Raises:
        WorkloadError: the type has no duration without a network, or a field is unusable.
    """
    kind = profile.get("type") if isinstance(profile, dict) else None
    if kind not in (EACH, SHARED):
        if isinstance(kind, str) and kind in OLD_NAMES:
            raise WorkloadError(f"{where}: type {kind} is the old name of {OLD_NAMES[kind]}; rename it")
        if isinstance(kind, str) and kind != "delay":
            raise WorkloadError(
                f"{where}: type {kind[:40]!r} has no duration that is known beforehand; convert delay, "
                "parallel_homogeneous and parallel_homogeneous_total, and run others in Batsim itself"
            )
        check_profile(where, profile)
        checked: dict[str, Any] = profile
        return checked
    cpu = profile.get("cpu")
    if not is_time(cpu):
        raise WorkloadError(f"{where}.cpu: {str(cpu)[:40]!r} is not a number >= 0; give the flops")
    if profile.get("com"):
        notes["profiles whose communication takes no time as a delay"] += 1
    delay = cpu / host_speed / (res if kind == SHARED else 1)
    refuse_late(f"{where}: as a delay", delay)
    return {"type": "delay", "delay": int(delay) if delay == int(delay) else delay}
