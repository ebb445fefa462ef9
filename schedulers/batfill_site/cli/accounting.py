"""`batfill workload import`: what a site's records say."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from batfill.cli import aside, warn, wrote
from batfill.cli.parameters import (
    FILE,
    JSON,
    LOG_OUT,
    NEW_FILE,
    POSITIVE_SECONDS,
    SIZE,
    WHOLE,
    Choice,
    command,
)

SYSTEMS = ("slurm", "oar", "pbs")


@command("import")
@click.argument("system", metavar="SYSTEM", type=Choice(SYSTEMS))
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@LOG_OUT
@click.option("--anonymise", is_flag=True, help="Leave the names of users, groups and jobs out of the log.")
@click.option("--key", type=NEW_FILE, help="File for the numbers of all names; numbers already in it are reused.")
@click.option("--procs", type=SIZE, help="The machine's processors [default: the most in use at once].")
@click.option("--timezone", "zone", default="UTC", help="The cluster's time zone, such as Europe/Paris.")
@click.option("--computer", default="unknown", help="The machine's name for the header.")
@click.option("--cores-per-resource", type=WHOLE, help="oar: processors of one resource [default: 1].")
@click.option("--partition", "partitions", multiple=True, help="slurm: read this partition only; may be repeated.")
@click.option("--cluster", "clusters", multiple=True, help="slurm: read this cluster only; may be repeated.")
@click.option(
    "--partition-limit",
    "partition_limit_s",
    type=POSITIVE_SECONDS,
    help="slurm: the requested time, such as 24h, of jobs whose limit is their partition's.",
)
@JSON
def import_log(
    system: str,
    files: tuple[Path, ...],
    out: Path,
    key: Path | None,
    procs: int | None,
    anonymise: bool,
    zone: str,
    computer: str,
    as_json: bool,
    **choices: Any,
) -> None:
    """Convert a cluster's accounting to a log.

    The log has a header, and what was left out is reported. SYSTEM is slurm, oar or pbs. FILE is `sacct -P` output,
    `oarstat -J` output, or a PBS accounting file; plain, .gz, .xz or .bz2.
    """
    from batfill.base.files import all_or_none, one_at_a_time
    from batfill.base.version import __version__
    from batfill.workloads.formats import format_of, left_behind
    from batfill_site.accounting.cluster_log import ClusterLog, Key
    from batfill_site.accounting.systems import read_records, save_imported

    given = {name: value for name, value in choices.items() if value not in (None, ())}
    for parameter in click.get_current_context().command.params:
        # The help of an option begins with the system for which it does something.
        if parameter.name in given and system != (of := parameter.to_info_dict()["help"].partition(":")[0]):
            raise click.UsageError(f"{parameter.opts[0]} applies to {of} only, not to {system}; leave it out")
    format_of(out)  # refuses another name before the work
    if key is not None and key.resolve() == out.resolve():
        raise click.UsageError(f"--key and --out are both {key}; name two files")
    Key.load(key)  # refuses another file before the work
    reading = read_records(system, list(files), zone=zone, **given)
    with nullcontext() if key is None else one_at_a_time(key), all_or_none():  # other imports add names to the key
        names = Key.load(key)
        log = ClusterLog(
            reading,
            source=f"{system} accounting",
            anonymise=anonymise,
            key=names,
            procs=procs,
            computer=computer,
        )
        if key is not None:
            names.save(key)
        rows, left_out = save_imported(log, out, procs=procs, made_by=f"batfill {__version__} workload import {system}")
    for note in (*log.summary, *left_behind(log.stated, out), *left_out):
        aside(note)
    warn(log.warnings)
    wrote(
        out,
        f"{rows} job{'s' * (rows != 1)}",
        as_json,
        jobs=rows,
        notes=dict(reading.notes),
        first=reading.examples,
        not_modelled=dict(+reading.unmodelled),
        amounts=log.stated,
        became_eligible={"jobs": reading.held, "hours": reading.held_s / 3600} if reading.held else None,
        warnings=log.warnings,
    )
