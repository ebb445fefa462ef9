"""`batfill workload fetch`: a log of the Parallel Workloads Archive, checked and kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Such as kth-sp2; none lists the known logs.")
    ] = None,
    local: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Take the files from this folder, not the network.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where copies are kept [default: $BATFILL_CACHE, else ~/.cache/batfill].")
    ] = None,
    convert: Annotated[
        bool, typer.Option("--convert", help="Write the Batsim workload too, where the descriptors of expe/ read it.")
    ] = False,
    into: Annotated[Path, typer.Option(help="The folder --convert writes to.")] = Path("workloads/archive"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Fetch logs of the Parallel Workloads Archive into a cache, checked by their sums; prints where they are."""
    from dataclasses import asdict

    from batfill.cli import warn
    from batfill.cli.progress import download_progress
    from batfill.workloads import archive
    from batfill.workloads.convert import convert as library_convert
    from batfill.workloads.files import make_folder
    from batfill.workloads.save import stem_of

    results: list[dict[str, object]] = []
    if not names:
        results = [asdict(log) for log in archive.manifest().values()]
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
    if json:
        import orjson

        print(orjson.dumps(results, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(lines))
