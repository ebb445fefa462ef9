"""Runs one experiment as robin does: starts both processes, watches them, and ends them in every case.

Exit statuses are robin's: 0 both processes succeeded (and every job ended), 1 the run could not be set up or reached
its simulation-timeout, 2 a process failed (or jobs were never executed), 3 interrupted.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.errors import WorkloadError
from batfill.base.files import digest, scratch_folder
from batfill.base.words import took
from batfill.batsim_files import results
from batfill.batsim_files.platform import split_instants_warning
from batfill.model.jobs import UNREAD, raised_warning, request_warning, stand_in
from batfill.model.options import WARNINGS
from batfill.runner import batcmd
from batfill.runner.descriptor import read_descriptor
from batfill.runner.pair import Lookout, run_pair
from batfill.runner.sessions import Lifeline, ending, last_line_of, tail
from batfill.runner.setting import (
    BATSIM_LOG,
    SIMULATOR,
    Setting,
    SimulatorChoice,
    Stopped,
    noted_interrupts,
    recorded,
    run_folder,
)
from batfill.simulator.simulation import DEADLOCK
from batfill.workloads.batsim_json import (
    field_warnings,
    n_missing,
    name_in,
    raised_by_overrun,
    read_members,
    require_requests,
    unrequested_in,
    usable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batfill.batsim_files.results import JobFacts, Results
    from batfill.model.jobs import Unrequested
    from batfill.runner.batcmd import SimulatorCommand
    from batfill.simulator.display import SimulationState

UNFINISHED_SHOWN = 3


class SimulationOutcome(NamedTuple):
    """The outcome of a run."""

    status: int  # robin's exit status
    reason: str  # one line; "" if it succeeded
    figures: dict[str, float]  # see `Results.known_figures`; empty if it did not succeed
    notes: tuple[str, ...]  # further information for the user
    jobs_csv: Path | None = None  # the jobs' file, if it succeeded
    results: Results | None = None  # what it holds
    warnings: tuple[str, ...] = ()  # reasons to doubt the figures, see `Jobs.warnings`


@dataclass(slots=True)
class Expected:
    """What a run's workloads say."""

    jobs: list[tuple[str, str]] = field(default_factory=list)  # that must end: the workload's name and the id there
    warnings: list[str] = field(default_factory=list)  # see `Jobs.warnings`
    profile_types: set[str] = field(default_factory=set)
    # By workload: `overrun` (None if unknown) and `unrequested`.
    made_with: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, JobFacts] = field(default_factory=dict)  # by job, of a workload that is the only one
    sums: dict[str, str] = field(default_factory=dict)  # by workload, its sha256


def run(
    path: Path,
    *,
    simulator: SimulatorChoice = "auto",
    command: str = "",
    show: Callable[[SimulationState], None] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> SimulationOutcome:
    """Run the experiment of this descriptor, and write `run.json`, which has the `command`, to its output-dir.

    `show` is called with the simulation's progress twice a second, `say` with a line if the run waits for something
    that may never happen.
    """
    descriptor, stored_sum, notes = read_descriptor(path)
    engine = batcmd.choose_engine(simulator, os.environ)
    with scratch_folder("batfill-run") as folder, noted_interrupts() as interrupts:
        env = batcmd.command_environment(engine, os.environ, folder)
        record: dict[str, Any] = {"command": command, "descriptor": str(path), "descriptor_sha256": stored_sum}
        setting = Setting(path, descriptor, simulator, engine, env, folder, interrupts, say, list(notes), record)
        batcmd.choose_port(setting)
        simulating = batcmd.read_command(setting)
        batcmd.refuse_elsewhere(path, simulating)  # before it makes its folder in the wrong place
        try:
            # The watcher is dismissed before run.json is written: it would remove the results of a finished run.
            with run_folder(setting) as held, recorded(setting), Lifeline(held) as lifeline:
                return run_in_folder(setting, simulating, lifeline, show)
        except Stopped as stopped:
            return SimulationOutcome(stopped.status, stopped.reason, {}, tuple(setting.notes))


def run_in_folder(
    setting: Setting, command: SimulatorCommand, lifeline: Lifeline, show: Callable[[SimulationState], None] | None
) -> SimulationOutcome:
    batcmd.require_programs(setting)
    options_given = batcmd.options_in_file(setting)
    lifeline.remove([setting.scratch])
    context = batcmd.read_context(setting, command, lifeline)
    batcmd.check_command(setting, context, command)
    record = setting.record
    record["simulator"] = setting.engine if command.program == "batsim" else "batcmd"  # which starts a simulator itself
    record["simulator_command"] = shlex.join(batcmd.started(setting, command))
    record["scheduler_command"] = setting.descriptor.schedcmd.strip()
    if options_given is not None:
        record["scheduler_options"] = options_given
    record["workloads"] = [str(path) for path in command.workloads]
    jobs_csv = context.jobs_csv
    record.update(jobs_csv=str(jobs_csv), export_prefix=str(results.prefix_of(jobs_csv)))
    try:
        lifeline.remove(results.written_by_run(jobs_csv))
        results.remove_results(jobs_csv)
        results.remove_left_over_results(jobs_csv.parent)
    except OSError as error:
        raise setting.cannot_write(error) from None
    said = expected_jobs(setting, command)
    others = (*command.workloads, command.platform, batcmd.options_file_of(batcmd.scheduler_words(setting)))
    unread = [path for path in others if path and str(path) not in said.sums]
    record["inputs_sha256"] = said.sums | {str(path): digest(path) for path in unread if path.is_file()}
    record["workloads_made_with"] = said.made_with
    record["warnings"] = said.warnings
    if context.port is not None:
        batcmd.wait_for_port(setting, context.port)

    lookout = Lookout(setting, context, len(said.jobs) or None, show)
    try:
        ends = run_pair(setting, lifeline, context, lookout)
        options, warnings = stated_options(setting.options_file)
        if warnings is not None:  # the scheduler knows which fields it has read
            said.warnings[:] = [*(line for line in said.warnings if not line.startswith(UNREAD)), *warnings]
    finally:
        results.remove_left_over_results(jobs_csv.parent)
    schedule = results.read_schedule(jobs_csv)
    record["options"] = options
    record["batsim_version"] = schedule.batsim_version if schedule else None
    if schedule and command.platform and results.EMBEDDED not in schedule.batsim_version:
        said.warnings += split_instants_warning(command.platform, said.profile_types)
    if failed := [end for end in ends if end.status]:
        how = [
            f"{end.command.name} {ending(end.status or 0)} after {took(end.after_s)}; {last_line_of(end.command.logs)}"
            for end in failed
        ]
        raise Stopped(2, "; then ".join(how))
    late = next((end for end in ends if end.status is None), None)
    if late is None or late.command.name != SIMULATOR:  # otherwise there are no results to check
        try:
            found = results.read_results(jobs_csv, size=schedule.machines if schedule else None, facts=said.facts)
        except results.ResultError as error:
            raise Stopped(2, f"{SIMULATOR} ended with status 0, but {error}") from None
        refuse_unfinished(setting, said.jobs, found)
    if late:
        silent = lookout.never_listened()
        raise Stopped(
            2,
            f"{late.command.name} did not stop within the success-timeout of {setting.descriptor.success_timeout:g} s "
            f"after {ends[0].command.name} had ended with status 0{silent}; "
            f"{last_line_of((ends[0] if silent else late).command.logs)}",
        )
    record["figures"] = figures = found.known_figures()
    return SimulationOutcome(0, "", figures, tuple(setting.notes), jobs_csv, found, tuple(said.warnings))


def stated_options(path: Path) -> tuple[dict[str, Any] | None, list[str] | None]:
    try:
        stated: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None, None
    return stated, stated.pop(WARNINGS, None)


def expected_jobs(setting: Setting, command: SimulatorCommand) -> Expected:
    """What the workloads say; nothing if they are not visible from here, for example if Batsim runs in a container."""
    unseen = [path for path in command.workloads if not path.exists()]
    if unseen or not command.workloads:
        what = f"workload {unseen[0]} is not visible from here" if unseen else "batcmd names no workload"
        setting.notes.append(f"{setting.path}: {what}: whether all its jobs are executed is not checked")
        return Expected()
    return workload_jobs(command.workloads)


def workload_jobs(paths: Sequence[Path]) -> Expected:
    """What these Batsim workloads say of their jobs, named as Batsim names them (the first file is w0)."""
    said = Expected()
    missing: dict[Unrequested, int] = {}
    raised = 0
    doubts: list[str] = []
    for number, path in enumerate(paths):
        document = read_members(path)
        said.sums[str(path)] = document.digest
        try:
            doubts += field_warnings(document.jobs)
            jobs = [usable(job) for job in document.jobs]
            ids = [name_in(f"{path}: jobs[{i}].id", str(job["id"]), f"w{number}") for i, job in enumerate(jobs)]
            stated = unrequested_in(document.description)
            require_requests(path, jobs, document.description)
            missing[stated] = missing.get(stated, 0) + n_missing(jobs, stated)
            raised += sum(raised_by_overrun(job) for job in jobs)
            said.made_with[str(path)] = {"overrun": document.description.get("overrun"), "unrequested": stated}
            if len(paths) == 1:
                said.facts = dict(zip(ids, map(results.facts_of, jobs), strict=True))
        except (KeyError, TypeError, AttributeError):
            raise WorkloadError(
                f"{path}: not a Batsim workload (no `jobs` with an `id` each); make one with `batfill workload convert`"
            ) from None
        said.jobs += [(f"w{number}", job_id) for job_id in ids]
        profiles = document.profiles.values()
        said.profile_types |= {str(profile.get("type")) for profile in profiles if isinstance(profile, dict)}
    for stated, n in missing.items():
        said.warnings += request_warning(n, len(said.jobs), stand_in(stated))
    said.warnings += [*raised_warning(raised, len(said.jobs)), *doubts]
    return said


def refuse_unfinished(setting: Setting, expected: Sequence[tuple[str, str]], found: Results) -> None:
    """Refuse a run that did not execute every job, for which Batsim ends with status 0."""
    log = setting.output_dir / BATSIM_LOG
    ended = set(zip(found.workloads, found.names, strict=True))
    if missing := [name for name in expected if name not in ended]:
        several = len({workload for workload, _ in expected}) > 1
        shown = ["!".join(name) if several else name[1] for name in missing[:UNFINISHED_SHOWN]]
        some = ", ".join(shown) + (", ..." if len(missing) > UNFINISHED_SHOWN else "")
        count = f"{len(missing)} of {len(expected)} jobs were never executed ({some})"
    elif any(DEADLOCK in line for line in tail(log)):
        count = "jobs were never executed"
    else:
        return
    raise Stopped(
        2, f"{count}, although {SIMULATOR} ended with status 0: the scheduler left them waiting; {last_line_of([log])}"
    )
