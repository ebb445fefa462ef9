"""`batfill what-if`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batfill.base.errors import BatfillError
from batfill.cli import command_line, offer, warn
from batfill.cli.parameters import (
    CANCELLED,
    FILE,
    JSON,
    OVERRUN,
    PART,
    POSITIVE_SECONDS,
    PROCS,
    SHARE,
    TAU,
    UNREQUESTED,
    Checked,
    Choice,
    command,
    out_option,
    scheduler_options,
    seed_option,
)
from batfill.model.options import SHARED_BY_CHOICES, SHARED_BY_ORDERS, SHARED_BY_TRIES, arguments_of
from batfill_site.cli.fidelity import MACHINE
from batfill_site.cli.of_slurm import RUNS, require_one_kind, site_options

SHORT_S = 600  # a shorter threshold without a unit is probably meant in hours


def threshold_of(name: str, value: Any) -> float:
    seconds: float = POSITIVE_SECONDS.check(name, value)
    if not isinstance(value, str) and seconds < SHORT_S:
        raise BatfillError(f"--{name} {value}: a number alone is in seconds; give its unit, as {value}h or {value}s")
    return seconds


@command("what-if", heading="advice")
@click.argument("log", metavar="LOG", type=FILE)
@PROCS
@out_option("file", "Write the answer as one HTML page.", example="what-if.html")
@click.option(
    "--threshold",
    type=Checked("duration", threshold_of),
    multiple=True,
    help="Durations after which waiting jobs come first. Repeatable [default: 6h 12h 24h 48h 96h].",
)
@click.option(
    "--small-first/--no-small-first",
    default=True,
    help="Also try the preset first tries, which kills and restarts jobs.",
)
@scheduler_options(*SHARED_BY_CHOICES, *SHARED_BY_ORDERS, *SHARED_BY_TRIES)
@click.option(
    "--max-wait-growth",
    type=PART,
    default="10%",
    help="How much longer than fcfs's the longest wait of the advised choice may be, as 10% or 0.1.",
)
@click.option(
    "--min-gain",
    type=SHARE,
    default="5%",
    help="A mean bounded slowdown lower by less than this is no gain, as 5% or 0.05.",
)
@click.option(
    "--system",
    type=Choice(["slurm", "pbs"]),
    help="Advise only what this batch system can be configured for, and say why it cannot do the others.",
)
@MACHINE
@site_options
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="OPTION=VALUE",
    help="A change of slurm.conf to compare, as PriorityWeightAge=200000; several options between quotes are one "
    "change. Repeatable.",
)
@click.option(
    "--add-nodes", multiple=True, metavar="NEW=KNOWN", help="A change: nodes like a known one, as g2=g1. Repeatable."
)
@RUNS
@OVERRUN
@UNREQUESTED
@CANCELLED
@TAU
@seed_option("the intervals, or of the runs")
@click.option("--details", is_flag=True, help="Also print all choices, the advice at each limit, and the statistics.")
@JSON
def what_if(
    log: Path,
    out: Path | None,
    threshold: tuple[float, ...],
    options: dict[str, Any],
    site: dict[str, Any],
    changes: tuple[str, ...],
    add_nodes: tuple[str, ...],
    runs: int,
    details: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """What other schedulers, or changes of slurm.conf, would have done with a site's log.

    Prints waits and slowdown under each, and who would lose. LOG is SWF, Batsim JSON, or what Slurm, OAR
    or PBS write as accounting. With --slurm-conf it is what `sacct -P` prints.
    """
    from batfill.base.files import write_text

    require_one_kind(site, {"changes", "add_nodes", "runs"}, {"log", "tau_s", "seed"})
    if site:
        from batfill_site.slurm.what_if import ADD_NODES, slurm

        changes = (*changes, *(f"{ADD_NODES}={nodes}" for nodes in add_nodes))
        result = slurm(log, **site, changes=changes, runs=runs, tau_s=how["tau_s"], seed=how["seed"])
        answer, warnings, inputs = result.answer(), result.warnings, result.inputs
    else:
        from batfill_site.advice.what_if import what_if as library

        if threshold:
            how["thresholds_s"] = threshold
        found = library(log, **arguments_of(options), **how)
        answer, warnings, inputs = found.answer(log), found.workload.warnings, {str(log): found.workload.digest}
    if out is not None:
        write_text(out, answer.as_page(command_line(), inputs))
        offer(out)
    if as_json:  # the text has them
        warn(warnings)
    print(answer.as_json() if as_json else answer.as_text(details=details))
