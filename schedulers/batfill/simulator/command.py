"""Runs `batfill batsim`, from the command line to the result files."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from batfill.base.errors import BatfillError, Interrupted, PlatformError, RunFailed, on_command_line
from batfill.base.files import require_other
from batfill.base.words import duration, took
from batfill.batsim_files.external_events import read_events
from batfill.batsim_files.platform import Platform, read_platform
from batfill.batsim_files.results import (
    BATSIM_VERSION,
    JOBS_CSV,
    run_files,
    written_by_run,
)
from batfill.simulator.command_line import ArgumentsError, BatsimOptions, parse_arguments
from batfill.simulator.display import ProgressDisplay
from batfill.simulator.energy import EnergyMeter
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationStopped
from batfill.workloads.batsim_json import BatsimDocument, load_document, require_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


DEFAULT_VERBOSITY = "information"
BAD_PLATFORM, BAD_WORKLOAD, BAD_ARGUMENTS, STOPPED = 1, 2, 255, 1


def main(arguments: Sequence[str]) -> int:
    try:
        options = parse_arguments(arguments)
        if options.dump_execution_context:
            print(options.execution_context())
        else:
            simulate_batsim(options)
    except (BatfillError, RunFailed) as error:
        print(f"batfill batsim: {on_command_line(error)}", file=sys.stderr)
        if isinstance(error, ArgumentsError):
            return BAD_ARGUMENTS
        if isinstance(error, PlatformError):
            return BAD_PLATFORM
        return STOPPED if isinstance(error, RunFailed) else BAD_WORKLOAD
    return 0


def simulate_batsim(options: BatsimOptions) -> None:
    """Simulate what the options say, and write the result files."""
    started = time.perf_counter()
    folder = Path(f"{options.export}jobs.csv").parent
    if not folder.is_dir():
        raise ArgumentsError(f"--export: there is no folder {folder}; create it first")
    for place in written_by_run(Path(f"{options.export}{JOBS_CSV}")):
        require_other("--export", place, (options.platform, *options.workloads, *options.events))
    say = _speaker(options.verbosity)
    documents = {f"w{i}": load_document(path, workload=f"w{i}") for i, path in enumerate(options.workloads)}
    for document in documents.values():
        require_requests(document.path, document.jobs, document.description)
    for remark in options.remarks:
        say(remark)
    platform = _platform(options, documents)
    events = None
    if options.events:
        forward = options.settings.forward_unknown_events
        events = read_events(options.events, len(platform.machines), forward_unknown=forward)
    energy = EnergyMeter(platform, options.platform) if options.energy else None
    _say_inputs(platform, documents, say)

    progress = ProgressDisplay(terminal=options.verbosity == DEFAULT_VERBOSITY)
    stopped: SimulationStopped | Interrupted | None = None
    with ExitStack() as stack:
        from batfill.simulator.scheduler_link import NoScheduler, scheduler_link

        exchange: Callable[[bytes], bytes] = NoScheduler()
        if options.scheduler:
            exchange = stack.enter_context(scheduler_link(options.socket_endpoint, options.sched_timeout_s))
        # Batsim prints the messages by default; here a terminal shows the progress instead.
        quiet = ("quiet", *([DEFAULT_VERBOSITY] if sys.stderr.isatty() else ()))
        if options.verbosity not in quiet:
            exchange = _logged(exchange)

        def exchange_and_show(message: bytes) -> bytes:
            progress.tick(simulation)
            return exchange(message)

        files = stack.enter_context(
            run_files(options.export, machine_states=options.machine_states, energy=options.energy)
        )
        if energy:
            energy.on_row = files.energy_drawn
        simulation = Simulation(
            platform,
            documents,
            exchange_and_show,
            settings=options.settings,
            on_job_end=files.job_ended,
            on_machine_states=files.machines_changed,
            energy=energy,
            events=events,
        )
        try:
            simulation.run()
        except (SimulationStopped, Interrupted) as error:
            stopped = error
        finally:
            progress.finish(simulation)
        simulation_s = time.perf_counter() - started
        files.summarise(
            machines=len(platform.machines),
            times=simulation.machines.times,
            joules=energy.consumed_j if energy else 0.0,
            pstates=[host.pstate for host in platform.machines],
            scheduling_s=simulation.scheduling_s,
            simulation_s=simulation_s,
        )
    if isinstance(stopped, Interrupted):
        stopped.add_note(f"stopped at date {simulation.now:.6f}; the results so far are kept")
    if stopped:
        raise stopped
    totals = files.totals
    say(
        f"{totals.jobs:,} jobs, {totals.succeeded:,} successful, {totals.rejected:,} rejected, "
        f"makespan {duration(totals.makespan_s)}; took {took(simulation_s)}, "
        f"{took(simulation.scheduling_s)} of it in the scheduler"
    )


def _say_inputs(platform: Platform, documents: dict[str, BatsimDocument], say: Callable[[str], None]) -> None:
    say(f"{BATSIM_VERSION}: {len(platform.compute)} compute and {len(platform.storage)} storage hosts")
    for name, document in documents.items():
        say(f"{name}: {len(document.jobs)} jobs of {document.path} (sha256 {document.digest[:12]})")
        for note in document.notes:
            say(f"{name}: {note}")
        if timeless := document.timeless():
            say(
                f"{name}: profile {timeless!r} has a delay of 0, with which Batsim 4.2 aborts; here its jobs end as "
                "they start"
            )


def _platform(options: BatsimOptions, documents: dict[str, BatsimDocument]) -> Platform:
    limits = [options.mmax] if options.mmax else []
    if options.mmax_workload and documents:
        limits.append(max(document.nb_res for document in documents.values()))
    return read_platform(
        options.platform,
        options.master_host,
        roles=options.roles,
        limit=min(limits, default=None),
    )


def _logged(exchange: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """The exchange, with both messages on stderr in the words by which tools find them in Batsim's log."""
    sys.stderr.flush()
    stream = sys.stderr.buffer

    def logged(message: bytes) -> bytes:
        stream.write(b"Sending '%b'\n" % message)
        stream.flush()  # so that the message is there if the scheduler never answers it
        reply = exchange(message)
        stream.write(b"Received '%b'\n" % reply)
        return reply

    return logged


def _speaker(verbosity: str) -> Callable[[str], None]:
    if verbosity in ("quiet", "network-only"):
        return lambda line: None
    return lambda line: print(f"batfill batsim: {line}", file=sys.stderr, flush=True)
