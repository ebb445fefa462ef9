"""`batfill workload split`: a log cut into weeks, months or windows of days."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from batfill.cli.parameters import (
    JSON,
    POSITIVE,
    PROCS,
    SOURCE,
    WHOLE,
    WHOLE_OR_NONE,
    former_place,
    out_option,
)


@click.command()
@SOURCE
@former_place()
@out_option("The folder of the windows, one file each.", required=True, metavar="FOLDER")
@click.option("--days", type=POSITIVE, help="Days per window [default: 7, a week].")
@click.option("--months", is_flag=True, help="Calendar months instead.")
@click.option(
    "--align",
    type=click.Choice(["log", "first", "calendar"]),
    default="log",
    show_default=True,
    help="First window: at the log's second 0, the first submission, or midnight (Monday's).",
)
@click.option(
    "--boundary",
    type=click.Choice(["submitted", "submit-finish", "start-finish"]),
    default="submitted",
    show_default=True,
    help="Keep all jobs submitted in a window; only those that by the log also finished in it (nearest to the "
    "mixed-policies paper); or those that started and finished in one window.",
)
@click.option("--skip", type=WHOLE_OR_NONE, default=0, show_default=True, help="Leave out the first so many windows.")
@click.option("--count", type=WHOLE, help="Only the first so many consecutive windows.")
@click.option("--min-jobs", type=WHOLE_OR_NONE, default=1, show_default=True, help="Only windows with so many jobs.")
@click.option(
    "--suffix", default=".swf.gz", show_default=True, help="Format of the files: .swf, .swf.gz, .json, .parquet ..."
)
@PROCS
@JSON
def split(
    source: Path,
    out: Path,
    days: float | None,
    months: bool,
    align: Any,
    boundary: Any,
    skip: int,
    count: int | None,
    min_jobs: int,
    suffix: str,
    procs: int | None,
    as_json: bool,
) -> None:
    """Cut a log into windows of time; each file's second 0 is its window's start.

    IN is SWF (plain, .gz, .xz, .bz2), Parquet or Batsim JSON.
    """
    from batfill.cli.progress import counted, progress
    from batfill.workloads import splitting
    from batfill.workloads.files import make_folder, shown
    from batfill.workloads.load import load_log
    from batfill.workloads.save import format_of, provenance, save_log, stem_of
    from batfill.workloads.swf import size_notes, with_size

    if months and days is not None:
        raise click.UsageError("--days and --months are two lengths of one window; leave one of them out")
    days = 7 if days is None else days
    format_of(Path(f"x{suffix}"))
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    for note in size_notes(log, procs):
        print(note, file=sys.stderr)
    log = with_size(source, log, procs)
    found = splitting.windows(log, "month" if months else days * 86_400, align=align, boundary=boundary)
    chosen = splitting.select(found, skip=skip, count=count, min_jobs=min_jobs)
    make_folder(out)
    stem = stem_of(source)
    made = provenance("split", source, boundary=boundary, align=align)
    rows: list[dict[str, object]] = []
    with progress("windows", len(chosen)) as advance, counted(rows, f"of {len(chosen)} windows are in {out}"):
        for window in chosen:
            file = out / f"{stem}-{window.index:04}{suffix}"
            if len(window.rows):
                save_log(splitting.cut(log, window), file, procs=procs, description={**made, "window": window.index})
            rows.append(
                {
                    "file": shown(file) if len(window.rows) else None,
                    "index": window.index,
                    "start_s": window.start_s,
                    "end_s": window.end_s,
                    "jobs": len(window.rows),
                    "left_out": window.left_out,
                }
            )
            advance(1)
    if as_json:
        import orjson

        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(f"{row['file'] or '(no job)'}\t{row['jobs']} jobs\t{row['left_out']} left out" for row in rows))
    print(f"{len(chosen)} of {len(found)} windows", file=sys.stderr)
