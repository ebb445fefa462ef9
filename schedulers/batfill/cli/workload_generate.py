"""`batfill workload generate`: a synthetic log by the Lublin-Feitelson model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from batfill.cli.parameters import (
    JSON,
    POSITIVE,
    POSITIVE_SECONDS,
    WHOLE,
    Whole,
    former_place,
    out_option,
    seed_option,
)
from batfill.options import LARGEST

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@former_place()
@out_option("The log to write: .swf, .json or .parquet, also compressed.", required=True)
@click.option("--jobs", type=WHOLE, default=10_000, show_default=True, help="How many jobs.")
@click.option("--procs", type=Whole(2, LARGEST), default=256, show_default=True, help="The machine's processors.")
@seed_option("everything that is random: equal seeds and options give equal files")
@click.option(
    "--kind",
    type=click.Choice(["all", "both", "batch", "interactive"]),
    default="all",
    show_default=True,
    help="all: one set of parameters; both: batch and interactive jobs merged.",
)
@click.option("--users", type=WHOLE, default=64, show_default=True, help="How many synthetic users.")
@click.option(
    "--requests",
    type=click.Choice(["tsafrir", "exact", "none"]),
    default="tsafrir",
    show_default=True,
    help="Requested times: Tsafrir's model, exactly the run times, or none.",
)
@click.option(
    "--longest-request",
    type=POSITIVE_SECONDS,
    help="Longest request, a duration [default: the longest run, rounded up to hours].",
)
@click.option("--interarrival", type=POSITIVE, help="Multiply the times between submissions by this [default: 1].")
@click.option("--load", type=POSITIVE, help="Stretch them to this offered load instead.")
@JSON
def generate(
    out: Path,
    jobs: int,
    procs: int,
    seed: int,
    kind: Any,
    users: int,
    requests: Any,
    longest_request: float | None,
    interarrival: float | None,
    load: float | None,
    as_json: bool,
) -> None:
    """Generate a log by the Lublin-Feitelson model, with users and what they request."""
    from batfill import __version__
    from batfill.workloads.files import shown
    from batfill.workloads.generate import generate_log
    from batfill.workloads.save import format_of, save_log

    if interarrival is not None and load is not None:
        raise click.UsageError("--interarrival and --load exclude each other")
    format_of(out)
    log = generate_log(
        jobs,
        procs,
        seed,
        kind=kind,
        users=users,
        requests=requests,
        longest_request_s=longest_request,
        interarrival=1.0 if interarrival is None else interarrival,
        load=load,
    )
    notes = [text.lstrip("; ") for text in log.header]
    made = {"made_by": f"batfill {__version__} workload generate", "seed": seed, "notes": notes}
    rows = save_log(log, out, description=made)
    print(f"{out}: {rows} jobs, seed {seed}", file=sys.stderr)
    if as_json:
        import orjson

        said = {"file": shown(out), "jobs": rows, "procs": procs, **made}
        print(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode())
