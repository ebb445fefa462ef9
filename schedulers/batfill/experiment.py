"""One replay from file to figures: read a workload, run it, write what was asked for, say how it came about."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill import __version__
from batfill.batsim.replayed import Judged, write_batsim_files
from batfill.batsim.results import RUN_JSON, result_file
from batfill.errors import WorkloadError
from batfill.files import json_text, make_folder, write_json
from batfill.jobs import SMALL
from batfill.knowledge.learning import LearningReport, replay_learning
from batfill.metrics import TAU_S, Summary, as_table, figure_rows
from batfill.options import USER, Options, tau_of
from batfill.replays import replay
from batfill.workloads import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from batfill.jobs import JobTable, Workload
    from batfill.replays import Schedule
    from batfill.workloads.swf import Overrun

ENGINE = "batfill replay"  # all releases at the shadow time count; one pass per whole instant


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a replay, and all that is needed to repeat it."""

    workload: Workload
    options: Options
    overrun: Overrun
    size: int
    tau_s: float
    figures: Summary
    read_s: float
    simulate_s: float
    learned: LearningReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """Figures first, provenance last."""
        return {
            **self.figures.as_dict(),
            **(self.learned.as_dict() if self.learned else {}),
            "read_s": self.read_s,
            "simulate_s": self.simulate_s,
            "workload": self.workload.name,
            "workload_sha256": self.workload.digest,
            "workload_notes": list(self.workload.notes),
            "warnings": list(self.workload.warnings),
            "procs": self.size,
            "tau_s": self.tau_s,
            "options": self.stated(),
            "engine": ENGINE,
            "version": __version__,
        }

    def stated(self) -> dict[str, Any]:
        """Every option of the replay that is in force, by its name, default or not."""
        return {**self.options.as_dict(), "procs": self.size, "tau": self.tau_s, "overrun": self.overrun}

    def as_json(self) -> str:
        """One object."""
        return json_text(self.as_dict())

    def as_text(self) -> str:
        """A table to read."""
        rows = [
            ("workload", f"{self.workload.name} on {self.size:,} processors"),
            ("options", f"{self.options.as_text()}, tau {self.tau_s:g} s, overrun {self.overrun}"),
            *([("knowledge", self.learned.as_text())] if self.learned else []),
            *figure_rows(self.figures.as_dict(), self.tau_s, of_replay=True),
            ("time", f"{self.read_s:.3f} s reading, {self.simulate_s:.3f} s simulating ({ENGINE} {__version__})"),
            *(("warning", warning) for warning in self.workload.warnings),
            *(("note", note) for note in self.workload.notes),
        ]
        return as_table(rows)


def simulate(
    jobs: JobTable, workload: Workload, options: Options, advance: Callable[[int], None] = lambda _: None
) -> tuple[Schedule, LearningReport | None]:
    """These jobs on the workload's machine under these options, from an empty machine; `advance` as `replay_file`'s."""
    assert workload.procs is not None
    if options.learning.knowledge != USER:
        return replay_learning(jobs, workload.procs, options, workload.clock, advance)
    schedule = replay(
        jobs,
        workload.procs,
        options.policy,
        backfill=options.backfill,
        threshold_s=options.threshold_s,
        divider_s=options.divider_s,
    )
    return schedule, None


def replay_file(
    path: Path,
    given: dict[str, Any],
    *,
    procs: int | None = None,
    tau_s: float = TAU_S,
    overrun: Overrun = "keep",
    out: Path | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Report:
    """Replay a workload file.

    Args:
        path: SWF or Batsim JSON.
        given: the scheduler's options, as `Options.of` takes them.
        procs: the machine's size; None for what the file says.
        tau_s: the bound of the bounded slowdown, in seconds.
        overrun: see `read_workload`.
        out: write Batsim's result files with this prefix; its folder is made where it is not there.
        advance: is told of jobs classified, where they are.

    Raises:
        BatfillError: the file or an option cannot be used, or the machine's size is not known.
    """
    options = Options.of(given)
    tau_s = tau_of(tau_s)
    began = time.perf_counter()
    workload = read_workload(path, procs=procs, overrun=overrun)
    read_s = time.perf_counter() - began
    if workload.procs is None:
        raise WorkloadError(f"{path}: does not say how many processors the machine has; give --procs N")
    options.require_classes(workload.jobs, str(path))
    if out is not None:
        make_folder(out.parent)

    replay(workload.jobs.select(slice(0)), workload.procs, options.policy)  # load or compile the engine
    began = time.perf_counter()
    schedule, learned = simulate(workload.jobs, workload, options, advance)
    simulate_s = time.perf_counter() - began
    figures = schedule.summary(tau_s)
    report = Report(workload, options, overrun, workload.procs, tau_s, figures, read_s, simulate_s, learned)
    if out is not None:
        judged = judged_of(workload.jobs, options, learned)
        write_batsim_files(schedule, out, simulate_s=simulate_s, judged=judged)
        about = {**report.as_dict(), "clock": workload.clock.as_dict() if workload.clock else None}
        write_json(result_file(out, RUN_JSON), about)
    return report


def judged_of(jobs: JobTable, options: Options, learned: LearningReport | None) -> Judged | None:
    """What the scheduler took each job for; None where it made no difference between them."""
    if learned is not None:
        small = learned.learned.small if learned.knowledge.classifies else None
        return Judged(small, learned.learned.probability, learned.learned.divider_s)
    if options.divider_s == math.inf:
        return None
    return Judged(jobs.job_class == SMALL, np.full(len(jobs), np.nan), np.full(len(jobs), options.divider_s))
