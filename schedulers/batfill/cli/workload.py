"""`batfill workload`: preparing logs before a simulation.

Commands that read one log are here; `workload_sources` has those that bring in a log.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from batfill.base.doors import door
from batfill.base.progress import progress
from batfill.cli import aside, count_on_interrupt, parameters, print_json, warn, wrote
from batfill.cli.app import Group
from batfill.cli.workload_sources import fetch, generate
from batfill.model.values import MOST_SAMPLES

if TYPE_CHECKING:
    from batfill.workloads.swf_log import SwfLog


def log_in(source: Path, procs: int | None, out: Path | None = None) -> SwfLog:
    """The log with its machine's size in its header.

    Doubts about the size, and what a file named `out` cannot hold, are printed on standard error.
    """
    from batfill.workloads.formats import left_behind, load_log
    from batfill.workloads.swf import size_notes, with_size

    with progress("rows read") as advance:
        log = load_log(source, advance=advance)
    for note in (*size_notes(log, procs), *(left_behind(log.taken, out) if out else ())):
        aside(note)
    return with_size(source, log, procs)


def say_undated(log: SwfLog, so: str) -> None:
    """Print how many rows a command leaves out because it cannot place them in time."""
    if undated := int((log["submit_s"] < 0).sum()):
        aside(f"{undated:,} of {len(log):,} rows have no submission time and {so}")


@parameters.command()
@parameters.SOURCE
@parameters.PROCS
@parameters.speed_options
@parameters.JSON
def describe(source: Path, procs: int | None, speed: float | None, as_json: bool) -> None:
    """Report on a log: jobs, users, span, load and quality.

    Also on premature jobs, and what each cleaning rule would drop. IN is SWF (plain, .gz, .xz, .bz2) or
    Batsim JSON.
    """
    from batfill.workloads import describe as library

    with progress("rows read") as advance:
        report = library.describe(source, procs=procs, speed=speed, advance=advance)
    if as_json:
        print_json(report)
    else:
        print(library.description_text(report))


@parameters.command()
@parameters.SOURCE
@parameters.LOG_OUT
@click.option(
    "--rule",
    multiple=True,
    help="wide, processors, times (the bandit paper's three), ran (run time > 0), duplicates. Repeatable "
    "[default: wide processors times ran].",
)
@click.option("--status", type=int, multiple=True, help="Keep only rows of this status. Repeatable.")
@click.option("--flurries", is_flag=True, help="Drop the flurries that IN's header names.")
@click.option(
    "--flurries-from",
    type=parameters.FILE,
    help="Drop the flurries that this log's header names, as those of the archive's cleaned logs do.",
)
@parameters.PROCS
@parameters.JSON
def clean(
    source: Path,
    out: Path,
    rule: tuple[str, ...],
    status: tuple[int, ...],
    flurries: bool,
    flurries_from: Path | None,
    procs: int | None,
    as_json: bool,
) -> None:
    """Clean a log by named rules.

    Every row dropped or changed is counted by rule. IN is SWF (plain, .gz, .xz, .bz2) or Batsim JSON.
    """
    from batfill.workloads import cleaning
    from batfill.workloads.cleaning import header_filters
    from batfill.workloads.formats import format_of, load_log, provenance, save_log
    from batfill.workloads.swf import machine_size

    format_of(out)
    log = log_in(source, procs, out)
    headers = [(source, log.header)] if flurries else []
    if flurries_from is not None:
        headers.append((flurries_from, load_log(flurries_from).header))
    named: list[str] = []
    for place, header in headers:
        found = [one.text for one in header_filters(header)]
        if not found:
            aside(f"{place}: its header names no filter")
        named += found
    cleaned = cleaning.clean(
        log,
        rules=rule or (*cleaning.BANDIT, "ran"),
        procs=machine_size(source, log, procs),
        statuses=status,
        flurries=named,
    )
    n_rows = len(log)
    del log
    made = provenance("clean", source, notes=list(cleaned.log.header[-1:]))
    left = save_log(cleaned.log, out, procs=procs, description=made)
    for name, count in cleaned.dropped.items():
        aside(f"{name}: {count:,} of {n_rows:,} rows dropped")
    for name, count in cleaned.changed.items():
        aside(f"{name}: {count:,} rows changed")
    wrote(out, f"{left:,} rows", as_json, rows=left, dropped=cleaned.dropped, changed=cleaned.changed)


@parameters.command()
@parameters.SOURCE
@parameters.out_option("folder", "The folder of the windows, one file each.", required=True, metavar="FOLDER")
@click.option("--days", type=parameters.POSITIVE, help="Days per window [default: 7, a week].")
@parameters.MONTHS
@parameters.choice_option(
    "--align",
    choices=("log", "first", "calendar"),
    help="First window: at the log's second 0, the first submission, or midnight (Monday's).",
)
@parameters.boundary_option(
    "submitted",
    "Keep all jobs submitted in a window; only those that also finished in it by the log (closest to the "
    "mixed-policies paper); or those that started and finished in one window.",
)
@click.option("--skip", type=parameters.WHOLE_OR_NONE, default=0, help="Leave out this many windows at the start.")
@click.option("--count", type=parameters.WHOLE, help="Only this many consecutive windows.")
@click.option("--min-jobs", type=parameters.WHOLE_OR_NONE, default=1, help="Only windows with at least this many jobs.")
@click.option("--suffix", default=".swf.gz", help="Format of the files: .swf, .swf.gz, .json ...")
@parameters.PROCS
@parameters.JSON
def split(
    source: Path,
    out: Path,
    days: float | None,
    months: bool,
    align: Any,
    boundary: Any,
    suffix: str,
    procs: int | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Cut a log into windows of time, one file each.

    A file's second 0 is its window's start. IN is SWF (plain, .gz, .xz, .bz2) or Batsim JSON.
    """
    from batfill.base.files import make_folder, shown
    from batfill.base.words import wrapped
    from batfill.model.jobs import DAY_S
    from batfill.workloads import times
    from batfill.workloads.formats import format_of, provenance, save_log, stem_of

    if months and days is not None:
        raise click.UsageError("--days and --months both set the length of a window; leave one of them out")
    days = 7 if days is None else days
    named = Path(f"--suffix {suffix}")  # as a refusal begins
    format_of(named)
    log = log_in(source, procs, named)
    found = times.windows(log, "month" if months else days * DAY_S, align=align, boundary=boundary)
    chosen = times.consecutive_windows(found, **wanted)
    make_folder(out)
    stem = stem_of(source)
    made = provenance("split", source, boundary=boundary, align=align)
    rows: list[dict[str, object]] = []
    with (
        progress("windows", len(chosen)) as advance,
        count_on_interrupt(rows, f"of {len(chosen)} windows are in {out}"),
    ):
        for window in chosen:
            file = out / f"{stem}-{window.index:04}{suffix}"
            if len(window.rows):
                save_log(times.cut(log, window), file, procs=procs, description={**made, "window": window.index})
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
        print_json(rows)
    else:
        for row in rows:
            line = f"{row['jobs']:>8,} jobs  {row['left_out']:>6,} left out  {row['file'] or '(no job)'}"
            print(wrapped(line, "  "))
    aside(f"{len(chosen):,} of {len(found):,} windows")
    say_undated(log, "are in no window")


@parameters.command()
@parameters.SOURCE
@parameters.out_option(
    "file", "The log to write, x.swf.gz; several samples are x-000.swf.gz, ...", example="x.swf.gz", required=True
)
@parameters.choice_option(
    "--method",
    choices=("users", "weeks"),
    help="users: each user's weeks separately (CCGrid 2019); weeks: whole weeks (bandit paper).",
)
@click.option("--weeks", type=parameters.WHOLE, help="Length [default: the log's].")
@click.option("--samples", type=parameters.Whole(1, MOST_SAMPLES), default=1, help="Number of logs.")
@parameters.seed_option("the samples; sample k of a seed does not depend on their number")
@click.option(
    "--profile-weeks",
    type=parameters.Choice(["all", "span", "active"]),
    help="users: a user's weeks are all of the log (keeps the load) [default], first to last job, or those with a job.",
)
@parameters.PROCS
@parameters.JSON
def resample(
    source: Path,
    out: Path,
    method: Any,
    weeks: int | None,
    samples: int,
    seed: int,
    profile_weeks: Any,
    procs: int | None,
    as_json: bool,
) -> None:
    """Make new logs from a log's weeks, whole or user by user.

    IN is SWF (plain, .gz, .xz, .bz2) or Batsim JSON.
    """
    from batfill.base.files import require_other, shown
    from batfill.workloads.formats import format_of, provenance, save_log, stem_of
    from batfill.workloads.times import resample as library

    if profile_weeks not in (None, "all") and method != "users":
        raise click.UsageError("--profile-weeks applies to --method users only; leave one of them out")
    how = {"method": method, "weeks": weeks, "profile_weeks": profile_weeks or "all"}
    format_of(out)
    stem = stem_of(out)

    def path_of(sample: int) -> Path:
        return out if samples == 1 else out.with_name(f"{stem}-{sample:03}{out.name.removeprefix(stem)}")

    for sample in range(samples):
        require_other("--out", path_of(sample), [source])
    log = log_in(source, procs, out)
    description = provenance("resample", source, seed=seed, method=method)
    written: list[dict[str, object]] = []
    with progress("samples", samples) as advance, count_on_interrupt(written, f"of {samples} samples are written"):
        for sample in range(samples):
            path = path_of(sample)
            made = library(log, seed, sample=sample, **how)
            rows = save_log(made, path, procs=procs, description={**description, "sample": sample})
            advance(1)
            written.append({"file": shown(path), "rows": rows, "seed": seed, "sample": sample})
            aside(f"{path}: {rows:,} rows, seed {seed}, sample {sample}")
    say_undated(log, "are in no sample")
    if as_json:
        print_json(written)


@parameters.command()
@parameters.SOURCE
@parameters.LOG_OUT
@click.option(
    "--interarrival",
    type=parameters.POSITIVE,
    help="Multiply the times between submissions by this; below 1 raises the load.",
)
@click.option("--load", type=parameters.POSITIVE, help="Scale them to this offered load.")
@parameters.PROCS
@parameters.JSON
def scale(
    source: Path, out: Path, interarrival: float | None, load: float | None, procs: int | None, as_json: bool
) -> None:
    """Change a log's load by the times between its submissions.

    IN is SWF (plain, .gz, .xz, .bz2) or Batsim JSON.
    """
    from batfill.workloads import times
    from batfill.workloads.formats import format_of, provenance, save_log
    from batfill.workloads.swf import known_size, machine_size

    if (interarrival is None) == (load is None):
        raise click.UsageError("give one of --interarrival and --load")
    format_of(out)
    log = log_in(source, procs, out)
    if load is not None:
        size = known_size(source, machine_size(source, log, procs))
        scaled, factor = times.at_load(log, size, load)
    else:
        factor = 1.0 if interarrival is None else interarrival
        scaled = times.stretch(log, factor)
    made = provenance("scale", source, interarrival=f"{factor:.9g}")
    rows = save_log(scaled, out, procs=procs, description=made)
    what = f"{rows:,} rows, times between submissions multiplied by {factor:.9g}"
    wrote(out, what, as_json, rows=rows, interarrival=factor)


def job_slice(text: str) -> slice:
    start, colon, stop = text.partition(":")
    if not colon or not all(
        part == "" or (part.isascii() and part.isdigit() and len(part) < 19) for part in (start, stop)
    ):
        raise click.UsageError(f"--jobs {text!r} is not START:STOP, as 0:1000")
    return slice(int(start or 0), int(stop) if stop else None)


@parameters.command()
@parameters.SOURCE
@parameters.out_option(
    "file",
    "The Batsim workload to write, x.json, or the log, x.swf; .gz compresses either.",
    example="x.swf",
    required=True,
)
@click.option("--platform", type=parameters.NEW_FILE, help="Write the matching platform XML here.")
@parameters.link_options
@parameters.PROCS
@parameters.OVERRUN
@parameters.UNREQUESTED
@parameters.SPEED
@click.option("--jobs", metavar="START:STOP", help="Only these jobs, numbered by submission.")
@parameters.choice_option(
    "--format",
    "form",
    choices=("batsim4", "batsim5"),
    help="The Batsim that is to read OUT; batsim5 has other profile types, and the user's fields in extra_data.",
)
@parameters.JSON
def convert(
    source: Path,
    out: Path,
    platform: Path | None,
    links: dict[str, str],
    jobs: str | None,
    form: Literal["batsim4", "batsim5"],
    as_json: bool,
    **how: Any,
) -> None:
    """Write a log as a Batsim workload, or as SWF.

    A Batsim workload has zero-padded ids, and delay profiles shared by duration. IN is SWF (plain, .gz, .xz, .bz2)
    or Batsim JSON, of Batsim 4 or 5. A log of any length is read and written piece by piece.
    """
    from batfill.base.files import all_or_none, shown, write_text
    from batfill.batsim_files.platform import homogeneous_platform
    from batfill.workloads.convert import convert as library

    batsim = ".json" in out.suffixes
    if platform is not None and not batsim:
        raise click.UsageError("--platform goes with a Batsim workload, OUT.json; leave it out")
    if links and platform is None:
        raise click.UsageError(f"--{next(iter(links))} describes the platform's links; add --platform, or leave it out")
    homogeneous_platform(1, **links)  # refuses values that are none before the work
    part = slice(None) if jobs is None else job_slice(jobs)
    with progress("rows") as advance, all_or_none():
        made = library(source, out, jobs=part, version=5 if form == "batsim5" else 4, **how, advance=advance)
        if platform is not None:
            assert made.procs is not None  # a Batsim workload has a size
            flops = {} if how["speed"] is None else {"speed": f"{how['speed']:g}f"}
            write_text(platform, homogeneous_platform(made.procs, **flops, **links))
    warn(made.warnings)
    for note in made.notes:
        aside(note)
    of = "jobs" if batsim else "rows"
    machine = "unknown number of processors" if made.procs is None else f"{made.procs:,} processors"
    facts = {of: made.jobs, "procs": made.procs, "notes": list(made.notes)}
    where = None if platform is None else shown(platform)
    wrote(out, f"{made.jobs:,} {of}, {machine}", as_json, **facts, platform=where)


@click.group(cls=Group, invoke_without_command=True)
@click.pass_context
def workload(context: click.Context) -> None:
    """Import, fetch, generate, describe, change and write logs."""
    if context.invoked_subcommand is None:
        print(context.get_help())


for each in (describe, clean, split, resample, scale, generate, fetch, door("import_log"), convert):
    workload.add_command(each)
