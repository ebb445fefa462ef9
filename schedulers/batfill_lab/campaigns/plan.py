"""From a campaign to its runs, each with a content hash."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.files import digest
from batfill.base.version import __version__
from batfill.engine.sources import FILES, digest_of
from batfill.model import policy
from batfill.model.limits import DATED
from batfill.model.options import OPTIONS
from batfill_lab.campaigns.config import CampaignError, seeded
from batfill_lab.campaigns.traces import Trace, TraceFile, jobs_by_window, piece_of, warnings_by_log
from batfill_lab.campaigns.work import Run, Task
from batfill_lab.studied import studied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from batfill_lab.campaigns.config import Campaign, ReadCampaign

TASK_SIZE = 500_000  # about a second: the work lost when a worker dies, long enough to hide the cost of sending it
MOST_RUNS = 500  # in a task
LEARNING = 50  # how many times as long as any other a replay takes that learns, roughly
PROGRAMS = digest_of(*FILES, Path(policy.__file__))  # of what decides when jobs start


class Planned(NamedTuple):
    """A run, what it replays, and the number of jobs."""

    run: Run
    trace: Trace
    jobs: int

    @property
    def size(self) -> int:
        """How long it takes, roughly, in replayed jobs."""
        return self.jobs * (LEARNING if studied(self.run.given).learns else 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a campaign, in the order of its results."""

    runs: tuple[Planned, ...]
    tau_s: float
    per_job: bool

    def warnings(self) -> dict[str, tuple[str, ...]]:
        return warnings_by_log((planned.trace, studied(planned.run.given).fields) for planned in self.runs)

    def left(self, finished: Iterable[str]) -> list[Planned]:
        done = set(finished)
        return [planned for planned in self.runs if planned.run.id not in done]

    def in_tasks(self, left: Sequence[Planned], workers: int) -> list[Task]:
        """These runs grouped into tasks: one trace each, window by window, so that reading and cutting are shared."""
        by_trace: dict[Trace, list[Planned]] = defaultdict(list)
        for one in left:
            by_trace[one.trace].append(one)
        share = min(TASK_SIZE, sum(one.size for one in left) / (4 * workers))
        tasks: list[Task] = []
        for trace, members in by_trace.items():
            runs: list[Run] = []
            size = 0
            for one in members:
                if runs and (size >= share or len(runs) >= MOST_RUNS):
                    tasks.append(Task(trace, tuple(runs), self.tau_s, self.per_job))
                    runs, size = [], 0
                runs.append(one.run)
                size += one.size
            tasks.append(Task(trace, tuple(runs), self.tau_s, self.per_job))
        return tasks


def plan(read: ReadCampaign, advance: Callable[[int], None] = lambda _: None) -> Plan:
    """The runs of the campaign; `advance` is called with 1 after each trace."""
    campaign = read.campaign
    runs: dict[str, Planned] = {}
    for trace in traces_of(read):
        piece = piece_of(trace, next(iter(jobs_by_window(trace))))  # raises now what a run would raise later
        for number, jobs in jobs_by_window(trace).items():
            for given in choices_of(campaign, trace):
                identity = run_id(trace, number, given, campaign.tau, piece.workload.size)
                if identity in runs:
                    raise CampaignError(
                        f"{read.path}: {trace.source.name} under {given} is requested twice; remove one of them"
                    )
                runs[identity] = Planned(Run(identity, number, given), trace, jobs)
        advance(1)
    return Plan(tuple(runs.values()), campaign.tau, campaign.per_job)


def traces_of(read: ReadCampaign) -> Iterator[Trace]:
    campaign = read.campaign
    for section in campaign.workloads:
        dated = [] if section.calendar is None else ["calendar"]
        dates = {name for name, row in OPTIONS.items() if row.argument in DATED}
        dated += [name for choice in campaign.choices for name in choice if name in dates]
        if dated and (campaign.windows or campaign.resamplings):
            raise CampaignError(
                f"{read.path}: {dated[0]}: its dates are those of a whole log, not of windows or resamplings; drop one"
            )
        calendar = None if section.calendar is None else str((read.path.parent / section.calendar).resolve())
        path = (read.path.parent / section.file).resolve()
        source = TraceFile(str(path), digest(path), section.procs, section.overrun, section.unrequested, calendar)
        if campaign.resamplings is None:
            yield Trace(source, windows=campaign.windows)
            continue
        for seed in campaign.seeds:
            for sample in range(campaign.resamplings.samples):
                yield Trace(source, campaign.resamplings, seed, sample, campaign.windows)


def choices_of(campaign: Campaign, trace: Trace) -> Iterator[dict[str, Any]]:
    """The scheduler's options of every run on this trace; a resampling's seed also seeds the learning on it."""
    of_log = {} if trace.source.calendar is None else {"calendar": trace.source.calendar}
    for choice in campaign.choices:
        given = choice | of_log
        if not seeded(given):
            yield given
        else:
            for seed in campaign.seeds if trace.resamplings is None else [trace.seed]:
                yield {**given, "seed": seed}


def run_id(trace: Trace, window: int | None, given: dict[str, Any], tau_s: float, size: int | None) -> str:
    """The run's content hash: equal for equal jobs, options, machine size and programs; hexadecimal."""
    options = studied(given)
    content = {
        "trace": trace.key(),
        "window": window,
        "size": size,  # in force; the list of known logs may differ from the file
        "options": {name: value for name, value in given.items() if name != "calendar"} | options.digests,
        "tau_s": tau_s,
        "version": __version__,
        "engine": PROGRAMS,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
