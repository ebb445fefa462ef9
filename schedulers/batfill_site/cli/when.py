"""`batfill when`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batfill.cli import command_line, offer, warn
from batfill.cli.parameters import (
    FILE,
    JSON,
    PROCS,
    UNREQUESTED,
    WHOLE,
    command,
    out_option,
    scheduler_options,
    seed_option,
)
from batfill.model.kinds import PREDICTIONS, URGENT_JOBS
from batfill.model.options import NAMES, OPTIONS, arguments_of
from batfill_site.cli.fidelity import MACHINE
from batfill_site.cli.of_slurm import require_one_kind, site_options

NEVER_LEARNED = tuple(
    name for name in NAMES if OPTIONS[name].group not in (PREDICTIONS, URGENT_JOBS) and name != "seed"
)
REFUSED = ("pool", "energy-budget", "backfill-while")  # an expected start knows none of these


@command(heading="expectation")
@click.argument("state", type=FILE)
@click.argument("job", required=False)
@click.option(
    "--submit",
    metavar="JOB",
    multiple=True,
    help="When would this job start, submitted now? As procs=64,time=2h,user=ann; with --slurm-conf as "
    "nodes=4,time=2h,partition=gpu,gpus=2. Repeatable, to compare.",
)
@click.option("--at", metavar="DATE", help="The instant: seconds, or 2026-01-31T14:05; by default the state's.")
@MACHINE
@PROCS
@scheduler_options(*NEVER_LEARNED, hidden=REFUSED)
@UNREQUESTED
@site_options
@click.option(
    "--past",
    type=FILE,
    multiple=True,
    help="What `sacct -P` prints of jobs that have ended: run times and intervals are from these. Repeatable.",
)
@click.option("--forks", type=WHOLE, default=21, help="How many ways in which the queue may go on are drawn.")
@seed_option("what is drawn")
@out_option("file", "Write the answer as one HTML page.", example="out.html")
@click.option("--details", is_flag=True, help="Also print all jobs and reasons, and how the starts are estimated.")
@JSON
def when(
    state: Path,
    job: str | None,
    submit: tuple[str, ...],
    at: str | None,
    options: dict[str, Any],
    site: dict[str, Any],
    past: tuple[Path, ...],
    forks: int,
    seed: int,
    out: Path | None,
    details: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """When waiting jobs, or jobs not yet submitted, are expected to start, and why not now.

    STATE: the running and waiting jobs as CSV or JSON, or what `scontrol show job` or `squeue` prints; or a log, which
    is replayed until --at. With --slurm-conf the site's Slurm is modelled: what `scontrol show job` prints, or
    `sacct -P`.

    JOB: the id of one job; by default all that wait.
    """
    from batfill.base.files import write_text
    from batfill_site.starts.when import when as estimate

    require_one_kind(site, {"past"}, {"state", "job", "submit", "at", "forks", "seed"})
    how = site | {"past": past} if site else how | arguments_of(options)
    found = estimate(state, job, submit=submit or None, at=at, forks=forks, seed=seed, **how)
    answer = found.answer()
    if out is not None:
        write_text(out, answer.as_page(command_line()))
        offer(out)
    if as_json:  # the text has them
        warn(found.warnings)
    print(answer.as_json() if as_json else answer.as_text(details=details))
