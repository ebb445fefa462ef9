"""A referee for EASY schedulers: runs one through small workloads, and says which known variant it is.

`observe` runs a scheduler through one workload of `cases`, in the embedded simulator; `Verdict` compares the schedules
with those of every variant of `variants`, which run through the same workloads. `session` starts a scheduler's process.
"""

from __future__ import annotations

import math
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.files import write_text
from batfill.base.words import wrapped
from batfill.batsim_files.external_events import read_events
from batfill.batsim_files.platform import homogeneous_platform, read_platform
from batfill.model.schedule import KILLED, REJECTED
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings, SimulationStopped
from batfill.workloads.batsim_json import load_document
from batfill_lab.conformance.cases import CASES
from batfill_lab.conformance.variants import CANDIDATES, VARIANTS, WAITING_VARIANTS, Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from batfill.batsim_files.results import JobRecord
    from batfill_lab.conformance.cases import Case, NoWalltime
    from batfill_lab.conformance.variants import Grain, Variant

    Candidate = tuple[str, Grain]  # a variant, and when it decides

# What happened to each job: its start, rounded to seconds, or that it was rejected or killed.
Schedule = dict[str, int | str]
MOST_IDLE_MESSAGES = 1000
MOST_CALLS = 2000  # of a workload; known schedulers request none
WAITING = "waiting"  # the workload that shows how long a job waits before it is first
WORKLOAD_FILE, PLATFORM_FILE, EVENTS_FILE, COMMAND_FILE = "workload.json", "platform.xml", "events.txt", "batsim.bash"
WHEN = {
    "message": "decides once per message",
    "event": "decides after each event of a message",
    "instant": "decides once per instant, after its last message",
}


class Observed(NamedTuple):
    """A scheduler's run through one workload."""

    schedule: Schedule
    problem: str | None = None  # how it broke the protocol
    notes: tuple[str, ...] = ()  # what a user should know of its process
    polls: str | None = None  # how often it has itself called, if it was stopped for that


def listed() -> dict[str, dict[str, str]]:
    """Every workload and every variant, with a sentence about each."""
    return {
        "workloads": {case.name: case.sentence for case in CASES.values()},
        "variants": {variant.name: f"{variant.sentence} ({variant.known_as})" for variant in VARIANTS.values()},
    }


def write_inputs(case: Case, folder: Path) -> None:
    """Write a workload's files, and the command that runs them under the real Batsim, into this folder."""
    write_text(folder / WORKLOAD_FILE, case.workload().decode())
    write_text(folder / PLATFORM_FILE, homogeneous_platform(case.hosts))
    options = ""
    if case.events:
        write_text(folder / EVENTS_FILE, case.external_events().decode())
        options += f" --events {EVENTS_FILE}"
    if case.registers:
        options += " --enable-dynamic-jobs"
    write_text(folder / COMMAND_FILE, f"batsim -p {PLATFORM_FILE} -w {WORKLOAD_FILE}{options}\n")


def observe(case: Case, folder: Path, exchange: Callable[[bytes], bytes]) -> Observed:
    """Run a scheduler through a workload.

    Args:
        case: the workload.
        folder: that of `write_inputs`.
        exchange: sends a message to the scheduler and returns its reply; may raise SimulationStopped.
    """
    events = None
    if case.events:
        events = read_events([folder / EVENTS_FILE], case.hosts)
    ended: list[JobRecord] = []
    idle = 0  # messages since an event other than a call was to come, or the date advanced
    last_s = 0.0
    calls_s: list[float] = []
    polls = None

    def patiently(message: bytes) -> bytes:
        nonlocal idle, last_s, polls
        if b'"REQUESTED_CALL"' in message:
            calls_s.append(simulation.now)
        if len(calls_s) > MOST_CALLS:
            apart_s = median(later_s - call_s for call_s, later_s in pairwise(calls_s))
            polls = f"polls every {apart_s:.3g} s"
            raise SimulationStopped(f"{polls}: stopped after {MOST_CALLS:,} calls")
        idle = idle + 1 if simulation.only_calls_are_left or simulation.now == last_s else 0
        last_s = simulation.now
        if idle > MOST_IDLE_MESSAGES:
            left = simulation.jobs_waiting
            remedy = (
                f"{left} jobs wait; execute or reject them" if left else "all jobs have ended; request no more calls"
            )
            raise SimulationStopped(
                f"the scheduler polls without deciding: {MOST_IDLE_MESSAGES:,} messages brought nothing but the calls "
                f"that it requested, and {remedy}"
            )
        return exchange(message)

    simulation = Simulation(
        read_platform(folder / PLATFORM_FILE),
        {"w0": load_document(folder / WORKLOAD_FILE)},
        patiently,
        settings=SimulationSettings(dynamic_jobs=case.registers),
        on_job_end=ended.append,
        events=events,
    )
    problem = None
    try:
        simulation.run()
    except SimulationStopped as error:
        problem = str(error)
        if not polls and not problem.startswith("stopped at"):
            problem = f"stopped at date {simulation.now:.6f}: {problem}"
    return Observed({record.job_id: outcome(record) for record in ended}, problem, polls=polls)


def outcome(record: JobRecord) -> int | str:
    """What happened to a job."""
    words = {REJECTED: "is rejected", KILLED: "is killed by the scheduler"}
    return words.get(record.final_state, round(record.starting_time))


def schedule_of(case: Case, folder: Path, scheduler: Reference) -> Schedule | None:
    """A known scheduler's schedule of a workload, whose files are in this folder; None if it breaks the protocol."""
    run = observe(case, folder, scheduler)
    return run.schedule if run.problem is None else None


@cache
def known_schedules(name: str, no_walltime: NoWalltime = "waits") -> dict[Candidate, Schedule]:
    """Every variant's schedule of a workload; none if it breaks the protocol there."""
    with TemporaryDirectory() as folder:
        write_inputs(CASES[name], Path(folder))
        schedules = {
            known: schedule_of(CASES[name], Path(folder), Reference(*known, no_walltime)) for known in CANDIDATES
        }
        return {known: schedule for known, schedule in schedules.items() if schedule is not None}


@cache
def habitual_schedule(name: str, variant: Variant) -> Schedule | None:
    """The schedule of a workload under one of WAITING_VARIANTS."""
    with TemporaryDirectory() as folder:
        write_inputs(CASES[name], Path(folder))
        return schedule_of(CASES[name], Path(folder), Reference(variant))


def waiting_habit(schedules: dict[str, Schedule]) -> Variant | None:
    """EASY under the threshold, or the ageing, that gives every one of these schedules; None if there is none."""
    # The workload that shows most habits comes first, since the first difference ends a comparison.
    names = sorted(schedules, key=lambda name: name != WAITING)
    for variant in WAITING_VARIANTS:
        if all(schedules[name] == habitual_schedule(name, variant) for name in names):
            return variant
    return None


class Verdict:
    """Which variant a scheduler is, and where it differs from it or breaks the protocol.

    Args:
        observed: its runs, by workload.
        missing: why other workloads were not run; None if all were that should be.
    """

    def __init__(self, observed: Mapping[str, Observed], missing: str | None = None) -> None:
        self.observed = observed
        self.missing = missing
        self.polls = {name: run.polls for name, run in observed.items() if run.polls}
        # Workloads that every scheduler must run as one and the same variant.
        self.telling = [
            name for name in observed if not CASES[name].optional and not CASES[name].habits and name not in self.polls
        ]
        matches = {candidate: sum(self.is_as(name, candidate) for name in self.telling) for candidate in CANDIDATES}
        self.nearest: Candidate = max(matches, key=lambda candidate: matches[candidate])
        self.fits = [candidate for candidate in CANDIDATES if matches[candidate] == len(self.telling) > 0]
        self.broken = [
            name for name in observed if observed[name].problem and not CASES[name].optional and name not in self.polls
        ]
        self.habit = None
        if not self.fits and not self.broken and WAITING in self.telling:
            self.habit = waiting_habit({name: observed[name].schedule for name in self.telling})

    @property
    def conforms(self) -> bool:
        """Whether it keeps the protocol and is a known variant, perhaps with a known habit of waiting."""
        if self.broken or self.missing or self.polls:
            return False
        return bool(self.fits) or self.habit is not None or not self.telling

    @property
    def undetermined(self) -> str | None:
        """Why the runs say nothing of its variant; None if they do."""
        if not self.telling:
            return next((f"it {polls}" for polls in self.polls.values()), "the workload shows none")
        broken = all(self.observed[name].problem for name in self.telling)
        return "no workload ran to its end" if broken else None

    def is_as(self, name: str, candidate: Candidate) -> bool:
        """Whether its run through this workload is this variant's."""
        run = self.observed[name]
        return run.problem is None and run.schedule == known_schedules(name).get(candidate)

    def answer(self, name: str) -> str:
        """What its run through this workload shows."""
        case, run = CASES[name], self.observed[name]
        if run.polls:
            return str(run.problem)
        if run.problem:
            return f"not supported: {run.problem}" if case.optional else run.problem
        for value, phrase in case.habits.items():
            for candidate in self.fits or [self.nearest]:
                if run.schedule == known_schedules(name, value).get(candidate):
                    return phrase
        if case.optional and self.is_as(name, self.nearest):
            return "supported"
        for variant, phrase in case.answers.items():
            if self.is_as(name, (variant, VARIANTS[variant].grains[0])):
                return phrase
        if self.habit:
            return f"as {self.habit.name}"
        alike = dict.fromkeys(candidate[0] for candidate in CANDIDATES if self.is_as(name, candidate))
        if self.nearest[0] in alike:
            return f"as {self.nearest[0]}"
        return f"as {', '.join(alike)}" if alike else f"unknown: {self.difference(name)}"

    def difference(self, name: str) -> str:
        """The first job that starts otherwise than under the nearest variant."""
        here, there = self.observed[name].schedule, known_schedules(name).get(self.nearest)
        if there is None:
            return f"{self.nearest[0]} breaks the protocol here"

        def when(job: str) -> float:
            return min([date for date in (here.get(job), there[job]) if isinstance(date, int)], default=math.inf)

        job = min((job for job in there if here.get(job) != there[job]), key=when)
        return f"job {job} {outcome_text(here.get(job))}, and under {self.nearest[0]} it {outcome_text(there[job])}"

    def summary(self) -> str:
        """Which variant it is."""
        if self.fits:
            parts = []
            for name in dict.fromkeys(name for name, _ in self.fits):
                when = " or ".join(WHEN[grain] for variant, grain in self.fits if variant == name)
                parts.append(f"{name} ({VARIANTS[name].known_as}): {VARIANTS[name].sentence}; {when}")
            return "\n".join(parts)
        if self.habit:
            return f"{self.habit.name} ({self.habit.known_as}): {VARIANTS['easy'].sentence}"
        if self.undetermined:
            return f"not determined: {self.undetermined}"
        differing = [name for name in self.telling if not self.is_as(name, self.nearest)]
        different = next((name for name in differing if self.observed[name].problem is None), None)
        same = f"{len(self.telling) - len(differing)} of {len(self.telling)} workloads"
        text = f"none of the known; the nearest is {self.nearest[0]}, as which it runs {same}"
        return text if different is None else f"{text}; first difference: {different}: {self.difference(different)}"

    def as_text(self) -> str:
        """The answers, one per line, and the verdict."""
        width = max(map(len, self.observed)) + 2
        lines = [wrapped(f"{name:{width}}{self.answer(name)}", " " * width) for name in self.observed]
        notes = dict.fromkeys(note for run in self.observed.values() for note in run.notes)
        if self.missing:
            notes[self.missing] = None
        if self.polls:
            stopped = f"{len(self.polls)} of {len(self.observed)} workloads were stopped after {MOST_CALLS:,} calls"
            notes[f"the scheduler {next(iter(self.polls.values()))}: {stopped}, and say nothing of its variant"] = None
        lines += ["", *(wrapped(f"note: {note}", "  ") for note in notes)]
        if self.broken:
            lines.append(f"protocol: broken in {len(self.broken)} of {len(self.observed)} workloads")
        return "\n".join([*lines, *(wrapped(f"variant: {line}", "  ") for line in self.summary().splitlines())])

    def as_dict(self) -> dict[str, Any]:
        """The whole verdict, for JSON."""
        return {
            "conforms": self.conforms,
            "keeps_protocol": not self.broken,
            "not_run": self.missing,
            "polls": next(iter(self.polls.values()), None),
            "variants": [{"name": name, "decides": grain} for name, grain in self.fits],
            "habit": self.habit and self.habit.name,
            "nearest": None if self.undetermined else self.nearest[0],
            "summary": self.summary(),
            "workloads": {
                name: {
                    "answer": self.answer(name),
                    "digest": sha256(CASES[name].workload()).hexdigest(),
                    "outcomes": run.schedule,
                    "problem": run.problem,
                    "notes": list(run.notes),
                    "as": sorted({candidate[0] for candidate in CANDIDATES if self.is_as(name, candidate)}),
                }
                for name, run in self.observed.items()
            },
        }


def outcome_text(what: int | str | None) -> str:
    """What happened to a job, after its name."""
    if what is None:
        return "never ends"
    return what if isinstance(what, str) else f"starts at {what}"
