"""Converts a log, or a Batsim workload with sequences, to a Batsim workload of delays; or a log to another format."""

from __future__ import annotations

from collections import Counter
from math import inf, isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import WorkloadError
from batfill.model.jobs import (
    Overrun,
    Unrequested,
    checked_size,
    raised_warning,
    request_warning,
    request_warnings,
    share_text,
    stand_in,
)
from batfill.model.values import speed_given, unrequested_of
from batfill.workloads.batsim5_json import (
    NEW_TYPES,
)
from batfill.workloads.batsim_json import (
    ASSUMED_FIELD,
    BATSIM_MARGIN_S,
    EXPECTED_FIELD,
    NO_WALLTIME,
    REQUEST_FIELD,
    assumed_of,
    check_job,
    expected_of,
    invented,
    n_missing,
    raised_by_overrun,
    read_members,
    refuse_late,
    request_of,
    run_times,
    short_number,
    tasks_of,
    unrequested_in,
    write_batsim_json,
    write_members,
)
from batfill.workloads.formats import (
    format_of,
    kind_of,
    left_behind,
    load_log,
    provenance,
    refuse_accounting,
    save_log,
)
from batfill.workloads.swf import known_size, machine_size, size_notes, workload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from batfill.workloads.batsim_json import BatsimVersion, ProfileTask

ALL_JOBS = slice(None)
NO_SPEED = "{source}: speed applies to jobs that compute, of Batsim JSON; leave it out"


class Converted(NamedTuple):
    """A conversion's result; of a log, the number of jobs is that of its rows, and the size None if it is unknown."""

    jobs: int
    procs: int | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]  # see `Jobs.warnings`


def convert(
    source: Path,
    out: Path,
    *,
    procs: int | None = None,
    overrun: Overrun | None = None,
    unrequested: Unrequested | None = None,
    jobs: slice = ALL_JOBS,
    version: BatsimVersion = 4,
    speed: float | str | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Converted:
    """Write the workload in `source` (SWF or Batsim JSON) as Batsim JSON, or as a log with all its rows.

    The name of `out` determines the format. SWF keeps every row, number and comment, and gets a note on its provenance;
    of the next arguments only `procs` applies, and goes into its header.

    `overrun`: "keep", the default, raises requests below the run time to it, "kill" leaves them, and the jobs will end
    there; "extend" raises the walltime, and the scheduler reads the request. A Batsim workload's jobs keep what stands
    in for missing requests. Times count from the first of `jobs`, which are in submission order. By `speed` the run
    times of jobs that compute decide on their walltimes. `advance` gets the number of rows done since the last call;
    each row counts twice.
    """
    if format_of(out) != ".json":
        for name, given in (
            ("overrun", overrun is not None),
            ("unrequested", unrequested is not None),
            ("a part of the jobs", jobs != ALL_JOBS),
            ("a version of Batsim", version != 4),
        ):
            if given:
                raise WorkloadError(
                    f"{out}: is a log, which keeps every row as it is; {name} applies to Batsim JSON only, leave it out"
                )
        return _convert_log(source, out, procs, speed, advance)
    overrun = overrun or "keep"
    if unrequested is not None:
        unrequested = unrequested_of("unrequested", unrequested)  # type: ignore[assignment]
    kind = kind_of(source)
    if kind == "json":
        return _convert_json(
            source, out, procs, overrun=overrun, unrequested=unrequested, jobs=jobs, version=version, speed=speed
        )
    refuse_accounting(source, kind)
    if speed is not None:
        raise WorkloadError(NO_SPEED.format(source=source))
    log = load_log(source, advance=advance)
    made_of = workload_of(source, log, procs=procs, overrun=overrun, unrequested=unrequested, part=jobs)
    size = known_size(source, made_of.size)
    made = provenance("convert", source, overrun=overrun, unrequested=made_of.unrequested, jobs=part_text(jobs))
    n_jobs = write_batsim_json(out, made_of, description=made, version=version)
    advance(len(log))
    wide = int((made_of.procs > size).sum())
    refused = f"{share_text(wide, n_jobs)} are wider than the machine's {size:,} processors: schedulers reject them"
    doubted = request_warnings((made_of,), made_of.unrequested)
    return Converted(n_jobs, size, made_of.notes, (*doubted, *([refused] if wide else [])))


def _convert_log(
    source: Path, out: Path, procs: int | None, speed: float | str | None, advance: Callable[[int], None]
) -> Converted:
    made, kind = provenance("convert", source), kind_of(source)
    refuse_accounting(source, kind)
    if speed is not None and kind != "json":
        raise WorkloadError(NO_SPEED.format(source=source))
    log = load_log(source, speed=speed, advance=advance)
    n_rows = save_log(log, out, procs=procs, description=made)
    advance(len(log))
    said = left_behind(log.taken, out) if kind == "json" else size_notes(log, procs)
    return Converted(n_rows, machine_size(source, log, procs), said, ())


def part_text(jobs: slice) -> str:
    return "all" if jobs == ALL_JOBS else f"{jobs.start or 0}:{'' if jobs.stop is None else jobs.stop}"


def _convert_json(
    source: Path,
    out: Path,
    procs: int | None,
    *,
    overrun: Overrun,
    unrequested: Unrequested | None,
    jobs: slice,
    version: BatsimVersion,
    speed: float | str | None,
) -> Converted:
    """Rewrite a Batsim workload: delays for sequences of them, padded ids, raised walltimes; the rest is kept.

    Profiles of jobs that compute keep their types, but for those of Batsim up to 3, which get version 4's names.

    Job fields that Batsim does not know and `ret` of delays are kept; integer ids become strings of one width.

    Args are those of `convert`. Walltimes that a former conversion raised are first lowered to the
    request; then `overrun` "keep" and "extend" raise those that do not exceed the delay.
    """
    document = read_members(source)
    described, profiles = document.jobs, document.profiles
    stated = unrequested_in(document.description)
    if unrequested is not None and unrequested != stated:
        if (stated, unrequested) != ("refuse", "runtime") and any(invented(job) for job in described):
            raise WorkloadError(f"{source}: was made with unrequested {stated}; convert its log with {unrequested}")
        stated = unrequested
    size = document.nb_res if procs is None else checked_size(source, procs)
    notes: Counter[str] = Counter()
    for place, job in enumerate(described):
        check_job(f"{source}: jobs[{place}]", job, profiles)
    tasks = tasks_of(f"{source}: profiles", profiles, NEW_TYPES if document.version == 5 else {})
    chosen_speed = None if speed is None else speed_given("speed", speed)
    runtime_s = run_times(str(source), described, tasks, chosen_speed)
    for place, (job, run_s) in enumerate(zip(described, runtime_s, strict=True)):
        notes["jobs whose walltime was raised above the delay"] += set_limit(
            f"{source}: jobs[{place}]", job, run_s, overrun, run_time=stated in ("refuse", "runtime")
        )
    _name_by_strings(described)
    ordered = sorted(described, key=lambda job: (job["subtime"], job["id"]))
    chosen = ordered[jobs]
    if not chosen:
        raise WorkloadError(f"{source}: jobs {jobs.start}:{jobs.stop} select none of {len(ordered)}; choose others")
    if len(chosen) < len(ordered):
        first = chosen[0]["subtime"]
        for job in chosen:
            job["subtime"] -= first
    used = {job["profile"] for job in chosen}
    in_order = [name for job in described if (name := job["profile"]) in used]
    kept = {name: profiles[name] for name in [*in_order, *parts_of(in_order, tasks)]}
    for name, profile in kept.items():
        if profile["type"] == "composed" and not tasks[name].computes:  # the delay takes as long as the whole sequence
            ret = tasks[name].ret
            kept[name] = {"type": "delay", "delay": short_number(tasks[name].run_s)} | ({"ret": ret} if ret else {})
    description = provenance("convert", source, overrun=overrun, unrequested=stated, jobs=part_text(jobs))
    write_members(out, size, chosen, lambda: kept, description, version=version, source=source)
    missing = request_warning(n_missing(chosen, stated), len(chosen), stand_in(stated))
    warnings = (*missing, *raised_warning(sum(raised_by_overrun(job) for job in chosen), len(chosen)))
    counted = (f"{count} {what}" for what, count in notes.items() if count)
    return Converted(len(chosen), size, (*document.notes, *counted), warnings)


def parts_of(names: Iterable[str], tasks: Mapping[str, ProfileTask]) -> list[str]:
    found = dict.fromkeys(part.profile for name in names if tasks[name].computes for part in tasks[name].parts)
    return [*found, *parts_of(found, tasks)] if found else []


def set_limit(where: str, job: dict[str, Any], delay: float, overrun: Overrun, *, run_time: bool) -> bool:
    """Give a checked job the walltime and the fields of this overrun; returns whether the walltime was raised.

    `run_time`: whether the run time stands in for missing requests.
    """
    request_s, expected_s = request_of(job), expected_of(job)
    below_s = request_s
    if isnan(request_s):
        below_s = delay if run_time and invented(job) else assumed_of(job)
    for name in (EXPECTED_FIELD, ASSUMED_FIELD, REQUEST_FIELD):
        job.pop(name, None)
    expected_s = min(expected_s, inf if isnan(below_s) else below_s)
    raised = overrun != "kill" and expected_s <= delay
    walltime_s = delay + BATSIM_MARGIN_S if raised else expected_s
    if raised:
        refuse_late(f"{where}: the walltime raised above the run time (overrun kill keeps it)", walltime_s)
    if walltime_s < inf:
        job["walltime"] = short_number(walltime_s)
        if request_s != walltime_s:
            job[REQUEST_FIELD] = NO_WALLTIME if isnan(request_s) else short_number(request_s)
        if overrun == "extend" and raised:
            job[EXPECTED_FIELD] = short_number(expected_s)
        elif raised and isnan(request_s) and not run_time:
            job[ASSUMED_FIELD] = short_number(expected_s)
    return raised


def _name_by_strings(jobs: list[dict[str, Any]]) -> None:
    """Replace integer ids by strings of one width, so that their order stays; other ids are kept."""
    width = max((len(str(job["id"])) for job in jobs if isinstance(job["id"], int)), default=0)
    for job in jobs:
        if isinstance(job["id"], int):
            job["id"] = f"{job['id']:0{width}}"
    if len({job["id"] for job in jobs}) < len(jobs):
        twice = Counter(job["id"] for job in jobs).most_common(1)[0][0]
        raise WorkloadError(f"job id {twice!r} occurs more than once; ids must be unique")
