"""The command `batfill batsched`: batsched 1.4.0's own command line, for studies and programs that execute batsched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from batfill.base.errors import BatfillError, nearest
from batfill.cli import note
from batfill.cli.parameters import FILE, SECONDS, Choice, command

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "1.4.0"  # of batsched
USUAL, DELAY_S = "filler", 5.0  # its scheduler and its --rjms_delay by default
LEVELS = {"debug": "DEBUG", "info": "WARNING", "quiet": "ERROR", "silent": "CRITICAL"}

# The options of `batfill schedule` with which it starts what the scheduler of this name starts.
COUNTERPARTS: dict[str, dict[str, Any]] = {
    "easy_bf": {"reservation": "machines", "unlimited": "reject"},
    "easy_bf_fast": {"reservation": "kept"},
    "conservative_bf": {"preset": "conservative_bf"},
    "fcfs": {"tested": 1},
    "fcfs_fast": {"tested": 1},
    "filler": {"depth": 0},
}
# Its queue orders that were compared with recordings, under conservative_bf alone, and the policies that they are. Of
# the others it has desc_slowdown and desc_bounded_slowdown, which no policy here is.
ORDERS = {
    "fcfs": "fcfs",
    "lcfs": "lcfs",
    "asc_size": "sqf",
    "desc_size": "lqf",
    "asc_walltime": "spf",
    "desc_walltime": "lpf",
}
WITHOUT = {
    "needs power states, or queries for energy, which batfill does not simulate": (
        *("easy_bf_plot_liquid_load_horizon", "energy_bf", "energy_bf_dicho", "energy_bf_idle_sleeper"),
        *("energy_bf_monitoring", "energy_bf_monitoring_inertial", "energy_bf_subpart_sleeper", "energy_watcher"),
        "sleeper",
    ),
    "tests Batsim, and schedules no study": (
        *("crasher", "killer", "killer2", "random", "rejecter", "sequencer", "submitter", "waiting_time_estimator"),
    ),
}  # its other schedulers, by the reason


def counterpart(
    variant: str = USUAL,
    *,
    order: str = "fcfs",
    delay_s: float = DELAY_S,
    policy: str = "basic",
    more: Any = "{}",
) -> dict[str, Any]:
    """The options for `live.serve.serve` that stand for this scheduler of batsched; `more`: its own.

    The delay counts for conservative_bf alone: the others compare dates that are all as much later.

    >>> counterpart("conservative_bf", order="asc_size", delay_s=0)
    {'preset': 'conservative_bf', 'policy': 'sqf', 'plan': 'kept:0'}
    """
    for reason, names in WITHOUT.items():
        if variant in names:
            raise BatfillError(f"variant {variant}: {reason}; use batsched itself")
    if variant not in COUNTERPARTS:
        known = [*COUNTERPARTS, *(name for names in WITHOUT.values() for name in names)]
        suggested = nearest(variant.lower(), known) or f"; known are {', '.join(known)}"
        raise BatfillError(f"variant {variant}: batsched {VERSION} has no such scheduler{suggested}")
    if policy != "basic":
        raise BatfillError(f"policy {policy}: batfill gives a job the lowest machines; leave it out, or use batsched")
    if "".join(str(more).split()) != "{}":
        raise BatfillError(
            f"variant_options {more!s:.60}: {variant} has a counterpart with its defaults only; leave them out, or use "
            "batsched itself"
        )
    conservative, options = variant == "conservative_bf", dict(COUNTERPARTS[variant])
    if order != "fcfs":
        if order not in ORDERS or not conservative:
            raise BatfillError(
                f"queue_order {order}: {variant} in this order was not compared with batsched; leave it out"
            )
        options["policy"] = ORDERS[order]
    if conservative and delay_s != DELAY_S:
        options["plan"] = f"kept:{delay_s:g}"
    return options


def say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print batsched's version, which programs read, and whose this one is."""
    if wanted:
        from batfill.base.version import __version__

        print(f"{VERSION} (batfill {__version__})")
        context.exit()


@command()
@click.option("--variant", "-v", default=USUAL, help="The scheduler.")
@click.option("--queue_order", "-o", default="fcfs", help="The order of its queue.")
@click.option("--rjms_delay", "-d", type=SECONDS, default=f"{DELAY_S:g}", help="How much longer a job is planned.")
@click.option("--policy", "-p", default="basic", help="How it selects machines.")
@click.option("--socket-endpoint", "-s", default="tcp://*:28000", help="The address to listen on.")
@click.option("--variant_options", default="{}", help="Options of the scheduler alone.")
@click.option("--variant_options_filepath", type=FILE, help="A file of them.")
@click.option("--verbosity", type=Choice(list(LEVELS)), default="info", help="What it logs; debug: every message.")
@click.option(
    "--call_make_decisions_on_single_nop",
    type=Choice(["1"]),
    default="1",
    expose_value=False,
    hidden=True,  # its name is too long for the page on a phone
    help="Decide after each message.",
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=say_version, help="Print it.")
def batsched(
    socket_endpoint: str,
    verbosity: str,
    variant: str,
    queue_order: str,
    rjms_delay: float,
    policy: str,
    variant_options: str,
    variant_options_filepath: Path | None,
) -> None:
    """Take batsched's command line, and start the same jobs.

    A scheduler or an option for which there is no counterpart is refused with the reason. A link called batsched that
    points to batfill is this command, so that a program which executes batsched needs no change.
    """
    import logging

    from batfill.base.files import read_json
    from batfill.live.serve import serve

    more = read_json(variant_options_filepath, "fix the file")[0] if variant_options_filepath else variant_options
    options = counterpart(variant, order=queue_order, delay_s=rjms_delay, policy=policy, more=more)
    logging.basicConfig(format="batfill: %(levelname)s: %(message)s", level=LEVELS[verbosity])
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    note(f"for batsched -v {variant}: batfill schedule {words}")
    serve(options, socket_endpoint)
