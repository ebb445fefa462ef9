"""A Batsim workload as another: delays for other profiles, padded ids, fewer jobs, raised walltimes; the rest kept."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson

from batfill.errors import WorkloadError
from batfill.jobs import checked_size, request_warning
from batfill.workloads.batsim_json import NO_REQUEST_FIELD, NO_WALLTIME, check_job, check_size
from batfill.workloads.delays import as_delay, depends_on_hosts
from batfill.workloads.files import decompressed, whole_file
from batfill.workloads.swf import BATSIM_MARGIN_S, Overrun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def convert_json(
    source: Path,
    out: Path,
    *,
    procs: int | None,
    overrun: Overrun,
    jobs: slice,
    host_speed: float,
    description: Mapping[str, object],
) -> tuple[int, int, tuple[str, ...], tuple[str, ...]]:
    """Write the workload in `source` again; how many jobs, for how many processors, notes, and warnings.

    Job fields that Batsim does not know and `ret` of delays are kept; integer ids become strings of one width.

    Args:
        source: Batsim JSON of version 3 or 4.
        out: the file to write.
        procs: the machine's size; by default the workload's.
        overrun: "keep" raises walltimes that do not exceed the delay.
        jobs: which, in the order of (subtime, id as a string).
        host_speed: flop/s, what parallel_homogeneous profiles are divided by.
        description: what made the file.

    Raises:
        WorkloadError: the file is no such workload, or holds a profile that no delay can stand for.
    """
    document = _document(source)
    if not 0 < host_speed < float("inf"):
        raise WorkloadError(f"a host speed of {host_speed:g} flop/s; it must be above 0")
    size = document["nb_res"] if procs is None else checked_size(source, procs)
    notes: Counter[str] = Counter()
    made: dict[str, dict[str, Any]] = {}
    found: dict[tuple[str, int], str] = {}
    for place, job in enumerate(document["jobs"]):
        check_job(f"{source}: jobs[{place}]", job, document["profiles"])
        name, res = job["profile"], job["res"]
        old = document["profiles"][name]
        key = (name, res if depends_on_hosts(old) else 0)
        if key not in found:
            found[key] = f"{name}_on{res}" if key[1] else name
            while key[1] and found[key] in document["profiles"]:
                found[key] += "_"
            made[found[key]] = as_delay(f"{source}: profiles[{name!r}]", old, res, host_speed=host_speed, notes=notes)
        job["profile"] = found[key]
        if overrun == "keep" and 0 < job.get("walltime", NO_WALLTIME) <= made[found[key]]["delay"]:
            job["walltime"] = made[found[key]]["delay"] + BATSIM_MARGIN_S
            notes["jobs whose walltime was raised above the delay"] += 1
    _name_by_strings(document["jobs"])
    ordered = sorted(document["jobs"], key=lambda job: (job["subtime"], job["id"]))
    chosen = ordered[jobs]
    if not chosen:
        raise WorkloadError(f"{source}: jobs {jobs.start}:{jobs.stop} of {len(ordered)} are none; choose others")
    if len(chosen) < len(ordered):
        first = chosen[0]["subtime"]
        for job in chosen:
            job["subtime"] -= first
    used = {job["profile"] for job in chosen}
    with whole_file(out) as file:
        file.write(b'{"nb_res": %d,\n"description": %b,\n"jobs": [\n' % (size, orjson.dumps(dict(description))))
        file.write(b",\n".join(orjson.dumps(job) for job in chosen))
        file.write(b'\n],\n"profiles": {\n')
        file.write(b",\n".join(b"%b: %b" % (orjson.dumps(n), orjson.dumps(p)) for n, p in made.items() if n in used))
        file.write(b"\n}}\n")
    warnings = request_warning(sum(job.get(NO_REQUEST_FIELD) is True for job in chosen), len(chosen))
    return len(chosen), size, tuple(f"{count} {what}" for what, count in notes.items()), warnings


def _document(source: Path) -> dict[str, Any]:
    with decompressed(source) as content:
        text = content.read()
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise WorkloadError(f"{source}: not JSON ({error}); mend the file or write it again") from None
    for member, kind in (("nb_res", int), ("jobs", list), ("profiles", dict)):
        if not isinstance(document, dict) or type(document.get(member)) is not kind:
            raise WorkloadError(
                f"{source}: {member} is missing or unusable; a Batsim workload has nb_res, jobs and profiles"
            )
    check_size(source, document["nb_res"])
    found: dict[str, Any] = document
    return found


def _name_by_strings(jobs: list[dict[str, Any]]) -> None:
    """Integer ids as strings of one width, so that they sort as they did; others as they are."""
    width = max((len(str(job["id"])) for job in jobs if isinstance(job["id"], int)), default=0)
    for job in jobs:
        if isinstance(job["id"], int):
            job["id"] = f"{job['id']:0{width}}"
    if len({job["id"] for job in jobs}) < len(jobs):
        twice = Counter(job["id"] for job in jobs).most_common(1)[0][0]
        raise WorkloadError(f"job id {twice!r} occurs more than once; ids must be unique")
