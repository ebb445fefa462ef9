"""`batfill workload fetch`: a log of the Parallel Workloads Archive, checked and kept."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from batfill.cli.parameters import FILE, JSON


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--from", "local", metavar="DIR", type=FILE, help="Take the files from this folder, not the network.")
@click.option("--cache", type=FILE, help="Where copies are kept [default: $BATFILL_CACHE, else ~/.cache/batfill].")
@click.option("--convert", is_flag=True, help="Write the Batsim workload too, where the descriptors of expe/ read it.")
@click.option(
    "--into",
    type=FILE,
    help="The folder --convert writes to [default: workloads/archive].",
)
@JSON
def fetch(
    names: tuple[str, ...],
    local: Path | None,
    cache: Path | None,
    convert: bool,
    into: Path | None,
    as_json: bool,
) -> None:
    """Fetch logs of the Parallel Workloads Archive into a cache, checked by their sums; prints where they are.

    NAME is such as kth-sp2; without one, the known logs are listed.
    """
    from dataclasses import asdict

    from batfill.cli import warn
    from batfill.cli.progress import download_progress
    from batfill.workloads import archive
    from batfill.workloads.convert import convert as library_convert
    from batfill.workloads.files import make_folder
    from batfill.workloads.manifest import manifest
    from batfill.workloads.save import stem_of

    if not names and (convert or local is not None or cache is not None):
        raise click.UsageError("a list of the known logs has no such option; name a log, or leave the option out")
    if into is not None and not convert:
        raise click.UsageError("--into: nothing is converted; add --convert, or leave it out")
    into = Path("workloads/archive") if into is None else into
    results: list[dict[str, object]] = []
    if not names:
        results = [asdict(log) for log in manifest().values()]
        lines = [
            f"{log['name']:14} {log['jobs']:>9} jobs {log['processors']:>7} processors  {log['title']}"
            for log in results
        ]
    else:
        lines = []
        for log in [archive.known_log(name) for name in names]:
            with download_progress(log.file) as (started, advance):
                path, found = archive.fetch(log, cache=cache, local=local, started=started, advance=advance)
            print(f"{log.name}: {found}; please acknowledge {log.acknowledge}", file=sys.stderr)
            if log.terms:
                print(f"{log.name}: {log.terms}", file=sys.stderr)
            result: dict[str, object] = {"name": log.name, "file": str(path), "found": found}
            if convert:
                make_folder(into)
                out = into / f"{stem_of(path)}.json"
                made = library_convert(path, out, procs=log.processors)
                warn(made.warnings)
                for note in made.notes:
                    print(f"{log.name}: {note}", file=sys.stderr)
                result |= {"workload": str(out), "jobs": made.jobs, "processors": made.procs}
            results.append(result)
            lines += [str(path), *([str(result["workload"])] if convert else [])]
    if as_json:
        import orjson

        print(orjson.dumps(results, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(lines))
