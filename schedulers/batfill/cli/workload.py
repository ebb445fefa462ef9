"""`batfill workload`: everything researchers do to logs before a simulation, one file per command."""

from __future__ import annotations

import typer

from batfill.cli.workload_clean import clean
from batfill.cli.workload_convert import convert
from batfill.cli.workload_describe import describe
from batfill.cli.workload_fetch import fetch
from batfill.cli.workload_generate import generate
from batfill.cli.workload_import import import_log
from batfill.cli.workload_resample import resample
from batfill.cli.workload_scale import scale
from batfill.cli.workload_split import split

app = typer.Typer(
    help="Read, describe, clean, split, resample, generate, fetch and convert workloads.", no_args_is_help=True
)

app.command()(describe)
app.command()(clean)
app.command()(split)
app.command()(resample)
app.command()(scale)
app.command()(generate)
app.command()(fetch)
app.command("import")(import_log)
app.command()(convert)
