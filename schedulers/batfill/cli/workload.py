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
    help="Read, describe, clean, split, resample, scale, generate, fetch, import and convert workloads.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def group(context: typer.Context) -> None:
    """Read, describe, clean, split, resample, scale, generate, fetch, import and convert workloads."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command()(describe)
app.command()(clean)
app.command()(split)
app.command()(resample)
app.command()(scale)
app.command()(generate)
app.command()(fetch)
app.command("import")(import_log)
app.command()(convert)
