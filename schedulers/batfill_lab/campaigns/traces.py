"""What a campaign's runs replay: a log or a resampling of it, whole or cut into windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import WorkloadError
from batfill.base.files import digest
from batfill.model.jobs import DAY_S, Overrun, Unrequested, refuse_unrequested
from batfill.workloads import read_workload
from batfill.workloads.formats import part_of, replayable
from batfill.workloads.times import consecutive_windows, cut, resample, windows
from batfill_lab.campaigns.config import CampaignError, Resamplings, Windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from batfill.model.jobs import Jobs
    from batfill.workloads.swf_log import SwfLog
    from batfill.workloads.times import Window


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A workload file, identified by its content, and how it is read."""

    path: str  # absolute
    sha256: str
    procs: int | None
    overrun: Overrun | None  # None for keep, or what a Batsim workload was made with
    unrequested: Unrequested | None = None  # None for the log's default
    calendar: str | None = None  # absolute path; an option of its runs, which its jobs do not depend on

    def key(self) -> dict[str, Any]:
        chosen = {} if self.unrequested is None else {"unrequested": self.unrequested}
        return {"sha256": self.sha256, "procs": self.procs, "overrun": self.overrun or "keep", **chosen}

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True, slots=True)
class Trace:
    """A workload, or one sample of it, and how it is cut. Equal traces hold equal jobs on every machine."""

    source: TraceFile
    resamplings: Resamplings | None = None
    seed: int = 0
    sample: int = 0
    windows: Windows | None = None

    def key(self) -> dict[str, Any]:
        """Everything its jobs depend on, for a run's content hash; the file's location is not part of it."""
        source = self.source.key()
        sections = {name: section and section.model_dump() for name, section in self.sections()}
        if self.resamplings is None:
            return {**source, **sections}
        del sections["resamplings"]["samples"]
        return {**source, **sections, "seed": self.seed, "sample": self.sample}

    def sections(self) -> Iterator[tuple[str, Any]]:
        yield "resamplings", self.resamplings
        if self.windows is not None:  # the choice of windows does not change their content
            yield "windows", self.windows.model_copy(update={"skip": 0, "count": None, "min_jobs": 1})


class Piece(NamedTuple):
    """The jobs of one run: a window's number and place in its log, or None and nan for a whole log."""

    workload: Jobs
    window: int | None
    start_s: float
    end_s: float


@lru_cache(maxsize=2)
def read_source(source: TraceFile) -> Jobs:
    require_same(source)
    return replayable(source.path, procs=source.procs, overrun=source.overrun, unrequested=source.unrequested)


@lru_cache(maxsize=2)
def log_and_windows(trace: Trace) -> tuple[SwfLog, dict[int, Window]]:
    log = read_source(trace.source).log
    if trace.resamplings is not None:
        made = trace.resamplings
        log = resample(
            log,
            trace.seed,
            sample=trace.sample,
            method=made.method,
            weeks=made.weeks,
            profile_weeks=made.profile_weeks,
        )
    if trace.windows is None:
        return log, {}
    wanted = trace.windows
    width_s = wanted.days if isinstance(wanted.days, str) else wanted.days * DAY_S
    found = windows(log, width_s, align=wanted.align, boundary=wanted.boundary)
    chosen = consecutive_windows(found, skip=wanted.skip, count=wanted.count, min_jobs=wanted.min_jobs)
    return log, {window.index: window for window in chosen}


@lru_cache(maxsize=2)
def piece_of(trace: Trace, number: int | None) -> Piece:
    source = trace.source
    if trace.windows is None and trace.resamplings is None:
        require_same(source)
        piece = Piece(whole_workload(source), None, float("nan"), float("nan"))
    else:
        log, chosen = log_and_windows(trace)
        window = None if number is None else chosen[number]
        part = log if window is None else cut(log, window)
        borders = (window.start_s, window.end_s) if window else (float("nan"), float("nan"))
        piece = Piece(part_of(read_source(source), part), number, *borders)
    if piece.workload.size is None:
        raise WorkloadError(f"{source.path}: does not say how many processors the machine has; give its `procs:`")
    return piece


def whole_workload(source: TraceFile) -> Jobs:
    workload = read_workload(
        Path(source.path), procs=source.procs, overrun=source.overrun, unrequested=source.unrequested
    )
    invented = int(workload.jobs.invented.sum())
    refuse_unrequested(source.path, invented, len(workload.jobs), workload.unrequested)
    return workload


def warnings_by_log(traces: Iterable[tuple[Trace, set[str]]]) -> dict[str, tuple[str, ...]]:
    """`Jobs.warnings` of each trace's whole log, by path, without empty ones; a trace has the fields that it reads."""
    found, uncut, fields = {}, {}, dict[TraceFile, set[str]]()
    for trace, read in traces:
        uncut[trace.source] = trace.windows is None and trace.resamplings is None
        fields.setdefault(trace.source, set()).update(read)
    for source, whole in uncut.items():
        workload = whole_workload(source) if whole else part_of(read_source(source), read_source(source).log)
        workload = workload.with_read(fields[source])
        if workload.warnings:
            found[source.path] = workload.warnings
    return found


def require_same(source: TraceFile) -> None:
    """Refuse a file that has changed, or differs on this machine."""
    found = digest(Path(source.path))
    if found != source.sha256:
        raise CampaignError(
            f"{source.path}: sha256 {found[:12]}... here, {source.sha256[:12]}... when the campaign was planned; "
            "give every machine the same file, then run the campaign again"
        )


def jobs_by_window(trace: Trace) -> dict[int | None, int]:
    """The number of jobs in each window, or in the whole trace (None), before any rule of reading drops some."""
    if trace.windows is None:
        return {None: len(read_source(trace.source).log)}
    return {number: len(window.rows) for number, window in log_and_windows(trace)[1].items()}
