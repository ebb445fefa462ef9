"""`batfill workload`: everything researchers do to logs before a simulation, one file per command."""

from __future__ import annotations

import click

from batfill.cli.workload_clean import clean
from batfill.cli.workload_convert import convert
from batfill.cli.workload_describe import describe
from batfill.cli.workload_fetch import fetch
from batfill.cli.workload_generate import generate
from batfill.cli.workload_import import import_log
from batfill.cli.workload_resample import resample
from batfill.cli.workload_scale import scale
from batfill.cli.workload_split import split


class InOrder(click.Group):
    """Commands in the order in which a study takes them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name."""
        return list(self.commands)


@click.group(cls=InOrder, invoke_without_command=True)
@click.pass_context
def workload(context: click.Context) -> None:
    """Read, describe, clean, split, resample, scale, generate, fetch, import and convert workloads."""
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (describe, clean, split, resample, scale, generate, fetch, import_log, convert):
    workload.add_command(command)
