"""From a campaign to its runs: each with a content hash, and together in tasks of about a second."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill import __version__
from batfill.campaign.config import CampaignError, seeded
from batfill.campaign.traces import Source, Trace, jobs_by_window, piece_of, warnings_of
from batfill.campaign.work import Run, Task
from batfill.compiled import SOURCES
from batfill.experiment import simulate
from batfill.options import Options
from batfill.workloads.files import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from batfill.campaign.config import Campaign, ReadCampaign

TASK_S = 1.0  # what is lost when a worker dies, and what hides the cost of sending a task
MOST_RUNS = 500  # in a task
PIECE_JOBS = 2000  # of the piece that each choice of options is timed on
MOST_TIMED = 12  # choices of options that are timed; the others are taken to be like them
RUN_S = 0.001  # what a run takes beside its jobs


class Planned(NamedTuple):
    """A run, what it replays, and how many jobs that has."""

    run: Run
    trace: Trace
    jobs: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a campaign, in the order of its results."""

    runs: tuple[Planned, ...]
    tau_s: float
    per_job: bool

    def warnings(self) -> dict[str, tuple[str, ...]]:
        """See `warnings_of`."""
        return warnings_of(planned.trace for planned in self.runs)

    def left(self, finished: Iterable[str]) -> list[Planned]:
        """The runs that are not finished."""
        done = set(finished)
        return [planned for planned in self.runs if planned.run.id not in done]


def plan(read: ReadCampaign, advance: Callable[[int], None] = lambda _: None) -> Plan:
    """The runs of the campaign; `advance` is told of traces whose windows were counted.

    Raises:
        BatfillError: a workload cannot be read or cut, or two entries make the same run.
    """
    campaign = read.campaign
    runs: dict[str, Planned] = {}
    for trace in traces_of(read):
        piece = piece_of(trace, next(iter(jobs_by_window(trace))))  # says now what a run would say later
        for number, jobs in jobs_by_window(trace).items():
            for given in choices_of(campaign, trace):
                identity = run_id(trace, number, given, campaign.tau, piece.workload.procs)
                if identity in runs:
                    raise CampaignError(
                        f"{read.path}: {trace.source.name} under {given} is asked for twice; take one of them out"
                    )
                runs[identity] = Planned(Run(identity, number, given), trace, jobs)
        advance(1)
    return Plan(tuple(runs.values()), campaign.tau, campaign.per_job)


def traces_of(read: ReadCampaign) -> Iterator[Trace]:
    """Every log, or every resampling of it."""
    campaign = read.campaign
    for section in campaign.workloads:
        path = (read.path.parent / section.file).resolve()
        source = Source(str(path), digest(path), section.procs, section.overrun)
        if campaign.resamplings is None:
            yield Trace(source, windows=campaign.windows)
            continue
        for seed in campaign.seeds:
            for sample in range(campaign.resamplings.samples):
                yield Trace(source, campaign.resamplings, seed, sample, campaign.windows)


def number_of_traces(campaign: Campaign) -> int:
    """How many `traces_of` yields."""
    made = campaign.resamplings
    return len(campaign.workloads) * (len(campaign.seeds) * made.samples if made else 1)


def choices_of(campaign: Campaign, trace: Trace) -> Iterator[dict[str, Any]]:
    """The scheduler's options of every run on this trace; a resampling's seed is also that of what learns on it."""
    for given in campaign.choices:
        if not seeded(given):
            yield given
        else:
            for seed in campaign.seeds if trace.resamplings is None else [trace.seed]:
                yield {**given, "seed": seed}


def run_id(trace: Trace, window: int | None, given: dict[str, Any], tau_s: float, size: int | None) -> str:
    """The run's content hash: equal for equal jobs, options, machine's size and programs, hexadecimal."""
    content = {
        "trace": trace.key(),
        "window": window,
        "size": size,  # that in force: the list of known logs may have another one than the file
        "options": given,
        "tau_s": tau_s,
        "version": __version__,
        "engine": SOURCES,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def timed(left: Sequence[Planned]) -> dict[str, float]:
    """Seconds per job of each choice of options that is left to run, by `choice_key`, from short pieces of the logs."""
    first: dict[str, Planned] = {}
    for planned in left:
        first.setdefault(choice_key(planned.run.given), planned)
    speeds = {}
    for key, planned in list(first.items())[:MOST_TIMED]:
        workload = piece_of(planned.trace, planned.run.window).workload
        jobs = workload.jobs.select(slice(PIECE_JOBS))
        simulate(jobs.select(slice(0)), workload, Options.of(planned.run.given))  # load or compile what it needs
        began = time.perf_counter()
        simulate(jobs, workload, Options.of(planned.run.given))
        speeds[key] = (time.perf_counter() - began) / max(len(jobs), 1)
    usual = sum(speeds.values()) / max(len(speeds), 1)
    return {key: speeds.get(key, usual) for key in first}


def choice_key(given: dict[str, Any]) -> str:
    """What tells choices of options of unlike cost apart."""
    return json.dumps({name: given[name] for name in sorted(given) if name not in ("seed", "threshold")})


def tasks_of(left: Sequence[Planned], speeds: dict[str, float], planned: Plan, workers: int) -> list[Task]:
    """The runs in tasks: of one trace each, window by window, so that reading and cutting are shared."""
    by_trace: dict[Trace, list[Planned]] = defaultdict(list)
    for one in left:
        by_trace[one.trace].append(one)
    share_s = min(TASK_S, total_s(left, speeds) / (4 * workers))
    tasks: list[Task] = []
    for trace, members in by_trace.items():
        runs: list[Run] = []
        cost_s = 0.0
        for one in members:
            if runs and (cost_s >= share_s or len(runs) >= MOST_RUNS):
                tasks.append(Task(trace, tuple(runs), planned.tau_s, planned.per_job))
                runs, cost_s = [], 0.0
            runs.append(one.run)
            cost_s += cost(one, speeds)
        tasks.append(Task(trace, tuple(runs), planned.tau_s, planned.per_job))
    return tasks


def cost(one: Planned, speeds: dict[str, float]) -> float:
    """About how many seconds the run takes."""
    return RUN_S + one.jobs * speeds[choice_key(one.run.given)]


def total_s(left: Sequence[Planned], speeds: dict[str, float]) -> float:
    """About how many seconds these runs take one after the other."""
    return sum(cost(one, speeds) for one in left)
