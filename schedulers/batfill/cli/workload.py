"""`batfill workload`: everything researchers do to logs before a simulation, one file per command."""

from __future__ import annotations

import typer

from batfill.cli.workload_convert import convert
from batfill.cli.workload_generate import generate

app = typer.Typer(
    help="Read, describe, clean, split, resample, generate, fetch and convert workloads.", no_args_is_help=True
)

app.command()(convert)
app.command()(generate)
