"""`batfill workload split`: a log cut into weeks, months or windows of days."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

Align = Literal["log", "first", "calendar"]
Boundary = Literal["submitted", "submit-finish", "start-finish"]


def split(
    source: Annotated[Path, typer.Argument(metavar="IN", help="SWF, Parquet or Batsim JSON.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the windows go, one file each.")],
    days: Annotated[float, typer.Option(help="Days per window; 7 are weeks.")] = 7,
    months: Annotated[bool, typer.Option("--months", help="Calendar months instead.")] = False,
    align: Annotated[
        Align, typer.Option(help="First window: at the log's second 0, the first submission, or midnight (Monday's).")
    ] = "log",
    boundary: Annotated[
        Boundary,
        typer.Option(
            help="Keep all jobs submitted in a window; only those that by the log also finished in it (nearest to the "
            "mixed-policies paper); or those that started and finished in one window."
        ),
    ] = "submitted",
    skip: Annotated[int, typer.Option(min=0, help="Leave out the first so many windows.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="Only the first so many consecutive windows.")] = None,
    min_jobs: Annotated[int, typer.Option(min=0, help="Only windows with so many jobs.")] = 1,
    suffix: Annotated[str, typer.Option(help="Format of the files: .swf, .swf.gz, .json, .parquet ...")] = ".swf.gz",
    procs: Annotated[
        int | None, typer.Option(min=1, help="Machine size for .json [default: what the log says].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Cut a log into windows of time; each file's second 0 is its window's start."""
    from batfill.cli.progress import progress
    from batfill.workloads import splitting
    from batfill.workloads.files import make_folder
    from batfill.workloads.load import load_log
    from batfill.workloads.save import format_of, provenance, save_log, stem_of

    format_of(Path(f"x{suffix}"))
    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    found = splitting.windows(log, "month" if months else days * 86_400, align=align, boundary=boundary)
    chosen = splitting.select(found, skip=skip, count=count, min_jobs=min_jobs)
    make_folder(folder)
    stem = stem_of(source)
    made = provenance("split", source, boundary=boundary, align=align)
    rows = []
    with progress("windows", len(chosen)) as advance:
        for window in chosen:
            out = folder / f"{stem}-{window.index:04}{suffix}"
            if len(window.rows):
                save_log(splitting.cut(log, window), out, procs=procs, description={**made, "window": window.index})
            rows.append(
                {
                    "file": str(out) if len(window.rows) else None,
                    "index": window.index,
                    "start_s": window.start_s,
                    "end_s": window.end_s,
                    "jobs": len(window.rows),
                    "left_out": window.left_out,
                }
            )
            advance(1)
    if json:
        import orjson

        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(f"{row['file'] or '(no job)'}\t{row['jobs']} jobs\t{row['left_out']} left out" for row in rows))
    print(f"{len(chosen)} of {len(found)} windows", file=sys.stderr)
