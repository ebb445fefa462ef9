"""`batfill workload generate`: a synthetic log by the Lublin-Feitelson model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

Kind = Literal["all", "both", "batch", "interactive"]
Requests = Literal["tsafrir", "exact", "none"]


def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The log to write: .swf, .json or .parquet.")],
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs.")] = 10_000,
    procs: Annotated[int, typer.Option(min=2, help="Machine size.")] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds and options give equal files.")] = 0,
    kind: Annotated[
        Kind, typer.Option(help="all: one set of parameters; both: batch and interactive jobs merged.")
    ] = "all",
    users: Annotated[int, typer.Option(min=1, help="How many synthetic users.")] = 64,
    requests: Annotated[
        Requests, typer.Option(help="Requested times: Tsafrir's model, exactly the run times, or none.")
    ] = "tsafrir",
    longest_request: Annotated[
        float | None, typer.Option(help="Longest request in seconds [default: the longest run, rounded up to hours].")
    ] = None,
    interarrival: Annotated[
        float | None, typer.Option(help="Multiply the times between submissions by this [default: 1].")
    ] = None,
    load: Annotated[float | None, typer.Option(help="Stretch them to this offered load instead.")] = None,
) -> None:
    """Generate a log by the Lublin-Feitelson model, with users and what they request."""
    from batfill import __version__
    from batfill.workloads.generate import generate_log
    from batfill.workloads.save import format_of, save_log

    if interarrival is not None and load is not None:
        raise typer.BadParameter("--interarrival and --load exclude each other")
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
    print(f"{out}: {save_log(log, out, description=made)} jobs, seed {seed}", file=sys.stderr)
