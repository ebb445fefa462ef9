"""batsched 1.4.0's schedulers by their names and options: the options of their counterparts, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError, nearest

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "1.4.0"  # of batsched, whose command line and schedulers these are
ENDPOINT = "tcp://*:28000"  # which it binds by default
USUAL = "filler"  # its scheduler by default
DELAY_S = 5.0  # its --rjms_delay by default

# The options of `batfill schedule` with which it starts what the scheduler of this name starts.
COUNTERPARTS: dict[str, dict[str, Any]] = {
    "easy_bf": {"reservation": "machines", "unlimited": "reject"},
    "easy_bf_fast": {"reservation": "kept"},
    "conservative_bf": {"preset": "conservative_bf"},
    "fcfs": {"tested": 1},
    "fcfs_fast": {"tested": 1},
    "filler": {"depth": 0},
}
# Its queue orders that were compared with recordings, and the policies that they are. Of the others it has
# desc_slowdown and desc_bounded_slowdown, which no policy here is.
ORDERS = {
    "fcfs": "fcfs",
    "lcfs": "lcfs",
    "asc_size": "sqf",
    "desc_size": "lqf",
    "asc_walltime": "spf",
    "desc_walltime": "lpf",
}
ORDERED = ("conservative_bf",)  # the schedulers whose runs under these orders were recorded

POWER = "needs power states, or queries for energy, which batfill does not simulate"
TESTS = "tests Batsim, and schedules no study"
WITHOUT = {
    **dict.fromkeys(
        (
            "easy_bf_plot_liquid_load_horizon",
            "energy_bf",
            "energy_bf_dicho",
            "energy_bf_idle_sleeper",
            "energy_bf_monitoring",
            "energy_bf_monitoring_inertial",
            "energy_bf_subpart_sleeper",
            "energy_watcher",
            "sleeper",
        ),
        POWER,
    ),
    **dict.fromkeys(
        ("crasher", "killer", "killer2", "random", "rejecter", "sequencer", "submitter", "waiting_time_estimator"),
        TESTS,
    ),
}


def counterpart(
    variant: str = USUAL,
    *,
    order: str = "fcfs",
    delay_s: float = DELAY_S,
    policy: str = "basic",
    variant_options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The options for `live.serve.serve` that stand for this scheduler of batsched.

    Args:
        variant: the scheduler's name, of COUNTERPARTS.
        order: of its queue; of ORDERS.
        delay_s: by how much it plans each job longer. That counts for conservative_bf alone: the others compare dates
            that are all as much later.
        policy: how it selects machines, "basic" for the lowest.
        variant_options: those of the scheduler alone; there is a counterpart without any only.

    Examples:
        >>> counterpart("conservative_bf", order="asc_size", delay_s=0)
        {'preset': 'conservative_bf', 'policy': 'sqf', 'plan': 'kept:0'}
    """
    if variant not in COUNTERPARTS:
        if variant not in WITHOUT:
            known = (
                nearest(variant.lower(), [*COUNTERPARTS, *WITHOUT])
                or f"; known are {', '.join([*COUNTERPARTS, *WITHOUT])}"
            )
            raise BatfillError(f"variant {variant}: batsched {VERSION} has no such scheduler{known}")
        raise BatfillError(f"variant {variant}: {WITHOUT[variant]}; use batsched itself")
    if policy != "basic":
        raise BatfillError(f"policy {policy}: batfill gives a job the lowest machines; leave it out, or use batsched")
    if variant_options:
        raise BatfillError(
            f"variant_options {next(iter(variant_options))}: {variant} has a counterpart with its defaults only; leave "
            "them out, or use batsched itself"
        )
    options = dict(COUNTERPARTS[variant])
    if order != "fcfs":
        if order not in ORDERS or variant not in ORDERED:
            raise BatfillError(
                f"queue_order {order}: {variant} in this order was not compared with batsched; leave it out"
            )
        options["policy"] = ORDERS[order]
    if variant == "conservative_bf" and delay_s != DELAY_S:
        options["plan"] = f"kept:{delay_s:g}"
    return options


def variant_options_of(name: str, value: Any) -> dict[str, Any]:
    """A scheduler's own options, from their JSON text; `name` begins the message."""
    import orjson

    try:
        found = orjson.loads(str(value))
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise BatfillError(f"{name}: {value!r:.60} is not a JSON object; give the options by name, as {{}}")
    return found


def variant_options_in(path: Path) -> dict[str, Any]:
    """The same from a file."""
    from batfill.base.files import read_json

    found, _ = read_json(path, "fix the file")
    if not isinstance(found, dict):
        raise BatfillError(f"{path}: not a JSON object; give the options by name, as {{}}")
    return found
