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
    from batfill.cli.progress import counted, download_progress
    from batfill.errors import BatfillError, RunFailed
    from batfill.workloads import archive
    from batfill.workloads.convert import convert as library_convert
    from batfill.workloads.files import make_folder, shown
    from batfill.workloads.manifest import ArchiveLog, manifest
    from batfill.workloads.save import stem_of

    if not names and (convert or local is not None or cache is not None):
        raise click.UsageError("a list of the known logs has no such option; name a log, or leave the option out")
    if into is not None and not convert:
        raise click.UsageError("--into: nothing is converted; add --convert, or leave it out")
    folder = Path("workloads/archive") if into is None else into

    def one(log: ArchiveLog) -> dict[str, object]:
        with download_progress(log.file) as (started, advance):
            path, found = archive.fetch(log, cache=cache, local=local, started=started, advance=advance)
        print(f"{log.name}: {found}; please acknowledge {log.acknowledge}", file=sys.stderr)
        if log.terms:
            print(f"{log.name}: {log.terms}", file=sys.stderr)
        result: dict[str, object] = {"name": log.name, "file": shown(path), "found": found}
        if convert:
            make_folder(folder)
            out = folder / f"{stem_of(path)}.json"
            made = library_convert(path, out, procs=log.processors)
            warn(made.warnings)
            for note in made.notes:
                print(f"{log.name}: {note}", file=sys.stderr)
            result |= {"workload": shown(out), "jobs": made.jobs, "processors": made.procs}
        return result

    def show(results: list[dict[str, object]], lines: list[str]) -> None:
        if as_json:
            import orjson

            print(orjson.dumps(results, option=orjson.OPT_INDENT_2).decode())
        elif lines:
            print("\n".join(lines))

    if not names:
        known = [asdict(log) for log in manifest().values()]
        show(
            known,
            [
                f"{log['name']:14} {log['jobs']:>9} jobs {log['processors']:>7} processors  {log['title']}"
                for log in known
            ],
        )
        return
    logs = [archive.known_log(name) for name in names]
    results: list[dict[str, object]] = []
    failures: list[BatfillError | RunFailed] = []
    try:
        with counted(results, f"of {len(logs)} logs are there: the same command goes on with the rest"):
            for log in logs:
                try:
                    results.append(one(log))
                except (BatfillError, RunFailed) as error:  # the others may be had all the same
                    failures.append(error)
    finally:
        show(results, [str(result[key]) for result in results for key in ("file", "workload") if key in result])
    if failures:
        raise type(failures[0])("; ".join(map(str, failures)))
