"""Runs `batfill batsim`, from the command line to the result files."""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from batfill.batsim.external_events import read_external_events
from batfill.batsim.options import ArgumentsError, BatsimOptions, parse_arguments
from batfill.batsim.platform import Platform, read_platform
from batfill.batsim.progress import ProgressDisplay
from batfill.batsim.protocol import SimulationStopped
from batfill.batsim.results import (
    BATSIM_VERSION,
    JobRecord,
    ScheduleTotals,
    jobs_csv,
    machine_states_csv,
    result_file,
    write_schedule_csv,
)
from batfill.batsim.simulation import Simulation
from batfill.errors import BatfillError, Interrupted, PlatformError, RunFailed
from batfill.files import all_or_none
from batfill.workloads.batsim_json import BatsimDocument, load_document, require_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BAD_PLATFORM, BAD_WORKLOAD, BAD_ARGUMENTS, STOPPED = 1, 2, 255, 1


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status; a failure is one line on stderr."""
    try:
        options = parse_arguments(arguments)
        if options.dump_execution_context:
            print(json.dumps(options.execution_context(), separators=(",", ":")))
        else:
            simulate(options)
    except (BatfillError, RunFailed) as error:
        print(f"batfill batsim: {error}", file=sys.stderr)
        if isinstance(error, ArgumentsError):
            return BAD_ARGUMENTS
        if isinstance(error, PlatformError):
            return BAD_PLATFORM
        return STOPPED if isinstance(error, RunFailed) else BAD_WORKLOAD
    return 0


def simulate(options: BatsimOptions) -> None:
    """Simulate what the options say and write `<export>_jobs.csv`, `_schedule.csv` and `_machine_states.csv`.

    Raises:
        ArgumentsError, PlatformError, WorkloadError: an input cannot be used; nothing is written.
        SimulationStopped: the simulation could not continue; the files hold the results until then.
        Interrupted: a signal stopped it; the files hold the results until then.
    """
    started = time.perf_counter()
    folder = result_file(options.export, "jobs.csv").parent
    if not folder.is_dir():
        raise ArgumentsError(f"--export: there is no folder {folder}; create it first")
    say = _speaker(options.verbosity)
    documents = {f"w{i}": load_document(path) for i, path in enumerate(options.workloads)}
    for document in documents.values():
        require_requests(document.path, document.jobs, document.description)
    platform = _platform(options, documents)
    events = (
        read_external_events(
            options.events, len(platform.machines), forward_unknown=options.settings.forward_unknown_events
        )
        if options.events
        else None
    )
    say(f"{BATSIM_VERSION}: {len(platform.compute)} compute and {len(platform.storage)} storage hosts")
    for name, document in documents.items():
        say(f"{name}: {len(document.jobs)} jobs of {document.path} (sha256 {document.digest[:12]})")
        if timeless := document.timeless():
            say(
                f"{name}: profile {timeless!r} has a delay of 0, with which Batsim 4.2 aborts; here its jobs end as "
                "they start"
            )
    if options.split_events is not None:
        say(f"the events of one date are split at random, seed {options.split_events}")

    progress = ProgressDisplay(terminal=options.verbosity == "information")
    totals = ScheduleTotals()
    stopped: SimulationStopped | Interrupted | None = None
    with ExitStack() as stack:
        stack.enter_context(all_or_none())
        exchange = _exchange(options, stack)

        def exchange_and_show(message: bytes) -> bytes:
            progress.tick(simulation)
            return exchange(message)

        write_job = stack.enter_context(jobs_csv(result_file(options.export, "jobs.csv")))

        def ended(record: JobRecord) -> None:
            write_job(record)
            totals.add(record)

        simulation = Simulation(
            platform,
            documents,
            exchange_and_show,
            settings=options.settings,
            on_job_end=ended,
            on_machine_states=(
                stack.enter_context(machine_states_csv(result_file(options.export, "machine_states.csv")))
                if options.machine_states
                else lambda row: None
            ),
            events=events,
            split_events=options.split_events,
        )
        try:
            simulation.run()
        except (SimulationStopped, Interrupted) as error:
            stopped = error
        finally:
            progress.finish(simulation)
        simulation_s = time.perf_counter() - started
        write_schedule_csv(
            result_file(options.export, "schedule.csv"),
            totals,
            machines=len(platform.machines),
            times=simulation.machines.times,
            scheduling_s=simulation.scheduling_s,
            simulation_s=simulation_s,
        )
    if isinstance(stopped, Interrupted):
        stopped.add_note(f"stopped at date {simulation.now:.6f}; the results so far are kept")
    if stopped:
        raise stopped
    say(
        f"{totals.jobs} jobs, {totals.succeeded} successful, {totals.rejected} rejected, makespan "
        f"{totals.makespan_s:.6f} s; took {simulation_s:.2f} s, {simulation.scheduling_s:.2f} s of it in the scheduler"
    )


def _platform(options: BatsimOptions, documents: dict[str, BatsimDocument]) -> Platform:
    """The platform's machines, limited as the options say."""
    limits = [options.mmax] if options.mmax else []
    if options.mmax_workload and documents:
        limits.append(max(document.nb_res for document in documents.values()))
    return read_platform(options.platform, options.master_host, roles=options.roles, limit=min(limits, default=None))


def _exchange(options: BatsimOptions, stack: ExitStack) -> Callable[[bytes], bytes]:
    """The function that turns a message into the scheduler's reply."""
    if options.scheduler:
        from batfill.batsim.scheduler_link import scheduler_link

        exchange: Callable[[bytes], bytes] = stack.enter_context(
            scheduler_link(options.socket_endpoint, options.sched_timeout_s)
        )
    else:
        from batfill.batsim.scheduler_link import NoScheduler

        exchange = NoScheduler()
    return _logged(exchange) if _shows_messages(options.verbosity) else exchange


def _shows_messages(verbosity: str) -> bool:
    """Whether to print the messages, as Batsim does by default; by default a terminal shows the progress instead."""
    return verbosity in ("network-only", "debug") or (verbosity == "information" and not sys.stderr.isatty())


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
    """The function that prints a line on stderr, or nothing if the verbosity is too low."""
    if verbosity in ("quiet", "network-only"):
        return lambda line: None
    return lambda line: print(f"batfill batsim: {line}", file=sys.stderr, flush=True)
