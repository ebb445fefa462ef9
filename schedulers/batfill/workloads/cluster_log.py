"""Shared by the importers of accounting logs: a job's record, numbers for names, and the SWF log they make."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np
import orjson

from batfill import __version__
from batfill.errors import WorkloadError
from batfill.files import decompressed, raw_file
from batfill.jobs import DAY_S
from batfill.workloads.swf_log import SwfLog, new_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

PERSONAL = ("user", "group", "executable")  # what --anonymise hides
PUBLIC = ("queue", "partition")
LONGEST_EPOCH = 11  # digits: five thousand years


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """One job; times are Unix times, None if unknown; unknown names are ""."""

    submit_s: float
    start_s: float | None
    end_s: float | None
    procs: int | None  # allocated
    requested_procs: int | None
    requested_s: float | None  # None also for no limit
    status: int  # SWF's code
    user: str = ""
    group: str = ""
    executable: str = ""  # the job's name
    queue: str = ""
    partition: str = ""


@dataclass(slots=True)
class Reading:
    """An importer's result: jobs in any order, and the number of records it left out or joined, by reason."""

    jobs: list[ClusterJob] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Key:
    """The number of each name, by kind; numbers start at 1 in the order of first submission."""

    numbers: dict[str, dict[str, int]] = field(default_factory=lambda: {kind: {} for kind in (*PERSONAL, *PUBLIC)})

    def number(self, kind: str, name: str) -> int:
        """The name's number, created if the name is new; -1 for no name."""
        if not name:
            return -1
        known = self.numbers[kind]
        return known.setdefault(name, len(known) + 1)

    @classmethod
    def load(cls, path: Path) -> Key:
        """The key in a file that `save` wrote, or an empty one if there is no file.

        Raises:
            WorkloadError: the file is not a key.
        """
        key = cls()
        if not path.exists():
            return key
        try:
            found = orjson.loads(path.read_bytes())
            for kind, names in key.numbers.items():
                names.update({str(name): int(number) for name, number in found[kind].items()})
                if sorted(names.values()) != list(range(1, len(names) + 1)):
                    raise ValueError(f"the numbers of {kind} are not 1, 2, ...")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkloadError(f"{path}: not a key that batfill wrote ({error}); name another file") from None
        return key

    def save(self, path: Path) -> None:
        """Write the key, readable by its owner only."""
        with raw_file(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(orjson.dumps(self.numbers, option=orjson.OPT_INDENT_2))


def swf_of(
    reading: Reading,
    *,
    source: str,
    anonymise: bool = False,
    key: Key | None = None,
    procs: int | None = None,
    zone: str = "UTC",
    computer: str = "unknown",
) -> SwfLog:
    """The jobs as an SWF log, numbered by submission, with its provenance in the header.

    Args:
        reading: an importer's result.
        source: the source of the jobs, for the header.
        anonymise: omit the names of users, groups and jobs from the header, which otherwise explains their numbers.
        key: numbers used before; new names are added to it.
        procs: the machine's size; by default the most processors seen in use at once, which the header then states.
        zone: the cluster's time zone, by name.
        computer: the machine's name in the header.

    Raises:
        WorkloadError: there is no job.
    """
    if not reading.jobs:
        why = "; ".join(f"{count}: {reason}" for reason, count in reading.notes.items())
        raise WorkloadError(
            f"{source}: no finished job in it{f' ({why})' if why else ''}; check the command that made it"
        )
    key = Key() if key is None else key
    jobs = sorted(reading.jobs, key=lambda job: job.submit_s)
    first_s = int(jobs[0].submit_s)
    rows = [_row(number, job, first_s, key) for number, job in enumerate(jobs, start=1)]
    columns = {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
    size = procs if procs is not None else most_in_use(jobs)
    header = [
        "Version: 2.2",
        f"Computer: {computer}",
        f"Conversion: batfill {__version__} workload import, from {source}",
        f"MaxJobs: {len(jobs)}",
        f"MaxRecords: {len(jobs)}",
        f"UnixStartTime: {first_s}",
        f"TimeZoneString: {zone}",
        *([f"MaxProcs: {size}"] if size else []),
        *(["Note: MaxProcs is the most processors seen in use at once"] if size and procs is None else []),
    ]
    for kind in PUBLIC if anonymise else (*PUBLIC, *PERSONAL):
        used = set(columns[kind].astype(int).tolist())
        header += [
            f"{kind.capitalize()}: {number} {' '.join(name.split())}"
            for name, number in key.numbers[kind].items()
            if number in used
        ]
    header += [f"Note: {count} records: {reason}" for reason, count in reading.notes.items()]
    return new_log(header, columns)


def _row(number: int, job: ClusterJob, first_s: int, key: Key) -> dict[str, float]:
    start_s = job.end_s if job.start_s is None else job.start_s  # never started: it waited until it was removed
    ran = job.start_s is not None and job.end_s is not None
    return {
        "job": number,
        "submit_s": job.submit_s - first_s,
        "wait_s": -1 if start_s is None else max(start_s - job.submit_s, 0),
        "runtime_s": max((job.end_s or 0) - (job.start_s or 0), 0) if ran else 0,
        "procs": _known(job.procs),
        "requested_procs": _known(job.requested_procs),
        "requested_s": _known(job.requested_s),
        "status": job.status,
        **{kind: key.number(kind, getattr(job, kind)) for kind in (*PERSONAL, *PUBLIC)},
    }


def _known(value: float | None) -> float:
    return -1 if value is None else value


def most_in_use(jobs: Sequence[ClusterJob]) -> int:
    """The largest number of processors in use at once; a job's processors are free at the instant it ends."""
    ran = [(job.start_s, job.end_s, job.procs) for job in jobs if job.start_s is not None and job.end_s and job.procs]
    events = sorted([(start, procs) for start, _, procs in ran] + [(end, -procs) for _, end, procs in ran])
    return int(max(np.cumsum([change for _, change in events]), default=0))


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a text file, plain or compressed, with its number from 1."""
    with decompressed(path) as content:
        for number, line in enumerate(content, start=1):
            yield number, line.decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")


def zone_of(name: str) -> tzinfo:
    """The time zone of this name.

    Raises:
        WorkloadError: it is unknown.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise WorkloadError(f"no time zone {name!r}; name one such as Europe/Paris or UTC") from None


def epoch(text: str) -> float | None:
    """Seconds since 1970 written in digits; None for 0, which means no time, and for anything else."""
    return float(text) or None if text.isascii() and text.isdigit() and len(text) <= LONGEST_EPOCH else None


def unix_time(text: str, zone: tzinfo, form: str = "%Y-%m-%dT%H:%M:%S") -> float | None:
    """Seconds since 1970 from digits or from a date in the cluster's time zone; None for no time, such as "Unknown"."""
    if text.isascii() and text.isdigit():
        return epoch(text)
    try:
        return datetime.strptime(text, form).replace(tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return None


def seconds_in(text: str, *, bare: float) -> float | None:
    """Seconds of [days-]hours:minutes:seconds, minutes:seconds, or a number of units of `bare` seconds; or None."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(".")[0].split(":")
    if not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts) or (
        dash and not (days.isascii() and days.isdigit())
    ):
        return None
    numbers = [int(part) for part in parts]
    if dash:  # days-hours[:minutes[:seconds]]
        numbers = [*numbers, 0, 0][:3]
    elif len(numbers) == 1:
        return numbers[0] * bare
    total = 0
    for number in numbers:
        total = total * 60 + number
    return float(total + (int(days) * DAY_S if dash else 0))


def count_of(text: str) -> int | None:
    """A positive whole number, or None."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**31 else None
