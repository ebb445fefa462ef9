"""`batfill workload` generate, fetch and import: the sources of logs."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batfill.base.errors import LARGEST
from batfill.base.progress import new_bar, on_terminal
from batfill.cli import aside, count_on_interrupt, print_json, warn, wrote
from batfill.cli.parameters import (
    FILE,
    JSON,
    LOG_OUT,
    NEW_FOLDER,
    POSITIVE,
    POSITIVE_SECONDS,
    WHOLE,
    Whole,
    choice_option,
    command,
    seed_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@command()
@LOG_OUT
@click.option("--jobs", type=WHOLE, default=10_000, help="Number of jobs.")
@click.option("--procs", type=Whole(2, LARGEST), default=256, help="The machine's processors.")
@seed_option("everything that is random: equal seeds and options give equal files")
@choice_option(
    "--kind",
    choices=("all", "both", "batch", "interactive"),
    help="all: one set of parameters; both: batch and interactive jobs merged.",
)
@click.option("--users", type=WHOLE, default=64, help="Number of synthetic users.")
@choice_option(
    "--requests",
    choices=("tsafrir", "exact", "none"),
    help="Requested times: Tsafrir's model, exactly the run times, or none.",
)
@click.option(
    "--longest-request",
    "longest_request_s",
    type=POSITIVE_SECONDS,
    help="Longest request, a duration [default: the longest run, rounded up to hours].",
)
@click.option("--interarrival", type=POSITIVE, help="Multiply the times between submissions by this [default: 1].")
@click.option("--load", type=POSITIVE, help="Scale them to this offered load instead.")
@JSON
def generate(
    out: Path,
    jobs: int,
    procs: int,
    seed: int,
    interarrival: float | None,
    load: float | None,
    as_json: bool,
    **model: Any,
) -> None:
    """Generate a log by the Lublin-Feitelson model.

    It has users, and their requests.
    """
    from batfill.base.version import __version__
    from batfill.workloads.formats import format_of, save_log
    from batfill.workloads.generate import generate_log

    if interarrival is not None and load is not None:
        raise click.UsageError("--interarrival and --load exclude each other; give one of them")
    format_of(out)
    stretch = 1.0 if interarrival is None else interarrival
    log = generate_log(jobs, procs, seed, interarrival=stretch, load=load, **model)
    notes = [text.lstrip("; ") for text in log.header]
    made = {"made_by": f"batfill {__version__} workload generate", "seed": seed, "notes": notes}
    rows = save_log(log, out, description=made)
    wrote(out, f"{rows:,} jobs, seed {seed}", as_json, jobs=rows, procs=procs, **made)


@contextmanager
def download_progress(label: str) -> Iterator[tuple[Callable[[int | None], None], Callable[[int], None]]]:
    """Two functions: the first sets the number of bytes and restarts the bar, the second advances it."""
    if not on_terminal():
        yield (lambda _: None, lambda _: None)
        return
    with closing(new_bar(label, unit="B", unit_scale=True)) as bar:

        def started(length: int | None) -> None:
            bar.reset(length)
            bar.total = length

        yield started, bar.update


@command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--from", "local", metavar="DIR", type=FILE, help="Read the files from this folder, not the network.")
@click.option("--cache", type=NEW_FOLDER, help="Folder of the copies [default: $BATFILL_CACHE, else ~/.cache/batfill].")
@click.option("--convert", is_flag=True, help="Also write the Batsim workload, where expe/'s descriptors expect it.")
@click.option(
    "--into",
    type=NEW_FOLDER,
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
    """Fetch logs of the Parallel Workloads Archive.

    They are kept in a cache and their sums checked; prints their paths.

    NAME is for example kth-sp2; without one, the known logs are listed.
    """
    from dataclasses import asdict

    from batfill.base.errors import BatfillError, RunFailed, on_command_line
    from batfill.base.files import make_folder, shown
    from batfill.base.words import wrapped
    from batfill.workloads import archive
    from batfill.workloads.convert import convert as library_convert
    from batfill.workloads.formats import stem_of
    from batfill.workloads.swf_log import ArchiveLog, manifest

    if not names and (convert or local is not None or cache is not None):
        raise click.UsageError("the option does not apply to the list of known logs; name a log, or leave it out")
    if into not in (None, archive.CONVERTED) and not convert:
        raise click.UsageError("--into: nothing is converted; add --convert, or leave it out")
    folder = archive.CONVERTED if into is None else into

    def one(log: ArchiveLog) -> dict[str, object]:
        with download_progress(log.file) as (started, advance):
            path, found = archive.fetch(log, cache=cache, local=local, started=started, advance=advance)
        aside(f"{log.name}: {found}; please acknowledge {log.acknowledge}")
        if log.terms:
            aside(f"{log.name}: {log.terms}")
        result: dict[str, object] = {"name": log.name, "file": shown(path), "found": found}
        if convert:
            make_folder(folder)
            out = folder / f"{stem_of(path)}.json"
            made = library_convert(path, out, procs=log.processors)
            warn(made.warnings)
            for note in made.notes:
                aside(f"{log.name}: {note}")
            result |= {"workload": shown(out), "jobs": made.jobs, "processors": made.procs}
        return result

    def show(results: list[dict[str, object]], lines: list[str]) -> None:
        if as_json:
            print_json(results)
        elif lines:
            print("\n".join(lines))

    if not names:
        known = manifest().values()
        lines = [f"{log.name:14} {log.jobs:>9,} jobs {log.processors:>7,} processors  {log.title}" for log in known]
        show([asdict(log) for log in known], [wrapped(line, " " * 50) for line in lines])
        return
    logs = [archive.known_log(name) for name in names]
    results: list[dict[str, object]] = []
    failures: list[BatfillError | RunFailed] = []
    try:
        with count_on_interrupt(results, f"of {len(logs)} logs are there: the same command fetches the rest"):
            for log in logs:
                try:
                    results.append(one(log))
                except (BatfillError, RunFailed) as error:  # the others may still succeed
                    failures.append(error)
    finally:
        show(results, [str(result[key]) for result in results for key in ("file", "workload") if key in result])
    if failures:
        raise type(failures[0])("; ".join(map(on_command_line, failures)))
