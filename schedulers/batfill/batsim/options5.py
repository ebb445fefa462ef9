"""Parses Batsim 5's command line: every option is honoured, or refused by name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill.batsim.options import (
    LIBRARIES,
    ArgumentsError,
    BatsimOptions,
    OptionParser,
    add_own_options,
    parse_arguments,
    protocol_of,
    refusing,
    seed_of,
    text_in,
    timeout_of,
)
from batfill.batsim.protocol import SimulationSettings, refuse_port
from batfill.batsim.results import BATSIM_5_VERSION
from batfill.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBOSITIES = ("quiet", "info", "debug")
LIBRARY = "no shared library is loaded; give the component's address with -s ENDPOINT TEXT"
ENERGY = "energy is not simulated; use Batsim itself"
HOST_ENERGY = "--energy-host: energy is not simulated; no file states what was consumed"
SIMGRID = "there is no SimGrid inside"
IN_HELLO = "Batsim 5 has no such option: the component asks for it in its hello"
REFUSED: dict[tuple[str, ...], tuple[int, str]] = {
    LIBRARIES[:2]: (2, LIBRARY),
    LIBRARIES[2:]: (2, LIBRARY),
    ("--edc-library-load-method",): (1, LIBRARY),
    ("-E", "--energy"): (0, ENERGY),
    ("--energy-link",): (0, ENERGY),
    ("--trace-pstate-changes",): (0, "power states are not simulated; use Batsim itself"),
    ("--sg-cfg",): (1, f"{SIMGRID}; leave it out, or use Batsim itself"),
    ("--sg-log",): (1, f"{SIMGRID}; leave it out, or use Batsim itself"),
    ("-c", "--config"): (1, "no file of options is read; write them on the command line"),
    ("--gen-config",): (1, "no file of options is written; keep the command line"),
}
# Options that print a line and exit, with that line.
PRINTED = {
    ("--version", "--batsim-version"): BATSIM_5_VERSION,
    ("--batsim-git-commit",): f"none: this is batfill {__version__}, not Batsim",
    ("--simgrid-version", "--simgrid-git-commit"): f"none: {SIMGRID}",
}
# Options of Batsim 4, and what stands for them.
GONE: dict[tuple[str, ...], tuple[int, str]] = {
    ("--enable-dynamic-jobs",): (0, f"{IN_HELLO} (dynamic_registration)"),
    ("--acknowledge-dynamic-jobs",): (0, f"{IN_HELLO} (acknowledge_dynamic_jobs)"),
    ("--enable-profile-reuse",): (0, f"{IN_HELLO} (profile_reuse)"),
    ("--forward-profiles-on-submission",): (0, f"{IN_HELLO} (forward_profiles_on_job_submission)"),
    ("--enable-compute-sharing",): (0, "Batsim 5 has no such option; hosts are not shared here"),
    ("--sched-cfg",): (1, "Batsim 5 has no such option: give the text after the endpoint, -s ENDPOINT TEXT"),
    ("--sched-cfg-file",): (1, "Batsim 5 has no such option: give the file after the endpoint, -S ENDPOINT FILE"),
    ("--socket-endpoint",): (1, "Batsim 5 has no such option: write -s ENDPOINT TEXT"),
    ("--events",): (1, "Batsim 5 has no such option: write --ee FILE"),
    ("--no-sched",): (0, "Batsim 5 has no such option: it needs a component, -s ENDPOINT TEXT"),
    ("--disable-machine-state-tracing",): (0, "Batsim 5 has no such option: ask with --trace-machine-state"),
    ("--disable-schedule-tracing",): (0, "Batsim 5 has no such option: leave it out, there is no Paje trace"),
}

DESCRIPTION = """\
Batsim 5's command line and protocol (as of 5.0.0-rc2) for workloads of delays, without SimGrid: an embedded stand-in
for Batsim itself. It connects to the component as Batsim does and speaks JSON. One message carries all events of a
date.
"""
EPILOGUE = """\
Exit status, as with --protocol 4: 0 done, 1 a bad platform, 2 a bad workload, 255 bad arguments. When Batsim would
abort, hang or silently accept a mistake, the run stops with one line that says why, writes the results so far, and
exits with 1.
"""


def options_of(arguments: Sequence[str]) -> BatsimOptions:
    """The options on this command line of the version that --protocol names; --help and --version print and exit.

    Raises:
        ArgumentsError: an option is unknown, refused, or cannot be used.
    """
    protocol, others = protocol_of(arguments)
    return parse_arguments_5(others) if protocol == 5 else parse_arguments(others)


def parse_arguments_5(arguments: Sequence[str]) -> BatsimOptions:
    """The options on this command line of Batsim 5; --help and --version print and exit.

    Raises:
        ArgumentsError: an option is unknown, refused, or cannot be used.
    """
    given = _parser().parse_args(arguments)
    components = [*(given.socket_text or []), *(given.socket_file or [])]
    if len(components) != 1:
        raise ArgumentsError(
            f"{len(components)} components are given; give one, with -s ENDPOINT TEXT or -S ENDPOINT FILE"
        )
    ((endpoint, text),) = components
    if given.trace_probe_data == "always":
        raise ArgumentsError("--trace-probe-data always: there are no probes, nor data of them; use Batsim itself")
    if given.mmax < 0:
        raise ArgumentsError(f"--mmax: {given.mmax} is below 0; 0 means no limit")
    option = "-s" if given.socket_text else "-S"
    try:
        refuse_port(endpoint)
    except ValueError as error:
        raise ArgumentsError(f"{option}: {error}") from None
    if given.socket_file and not given.dump_execution_context:
        text = text_in(option, Path(text))
    return BatsimOptions(
        platform=given.platform,
        workloads=tuple(given.workload),
        events=tuple(given.external_events),
        master_host=given.master_host,
        roles=dict(given.add_role_to_hosts),
        socket_endpoint=endpoint,
        export=given.export,
        machine_states=given.trace_machine_state,
        mmax=given.mmax,
        mmax_workload=given.mmax_workload,
        settings=SimulationSettings(),  # the component's hello makes them
        verbosity="quiet" if given.quiet else given.verbosity,
        dump_execution_context=given.dump_execution_context,
        scheduler=True,
        sched_timeout_s=timeout_of(given.sched_timeout),
        split_events=seed_of(given.split_events),
        protocol=5,
        init_text=text,
        arguments=("batsim", *arguments),
        remarks=(HOST_ENERGY,) if given.energy_host else (),
    )


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="batfill batsim --protocol 5",
        description=DESCRIPTION,
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for names, line in PRINTED.items():
        parser.add_argument(*names, action="version", version=line, help="print it and exit")

    group = parser.add_argument_group("input")
    add = group.add_argument
    add("-p", "--platform", type=Path, required=True, metavar="FILE", help="SimGrid platform file: the hosts")
    several: Any = {"type": Path, "action": "extend", "nargs": "+", "default": [], "metavar": "FILE"}
    add("-w", "--workload", **several, help="JSON workloads; repeatable")
    add("--ee", "--external-events", dest="external_events", **several, help="external events, one JSON a line")
    add(
        "-m", "--master-host", default="master_host", metavar="NAME",
        help="the master host, which runs no jobs [%(default)s]",
    )  # fmt: skip
    add(
        "-r", "--add-role-to-hosts", action="append", default=[], nargs=2, metavar=("HOST", "ROLE"),
        help="give a host a role: master, storage or compute_node; repeatable",
    )  # fmt: skip

    group = parser.add_argument_group("the component that decides (one of -s, -S)")
    add = group.add_argument
    add(
        "-s", "--edc-socket-str", dest="socket_text", action="append", nargs=2, metavar=("ENDPOINT", "TEXT"),
        help="where it listens, such as tcp://localhost:28000, and its initialisation text",
    )  # fmt: skip
    add(
        "-S", "--edc-socket-file", dest="socket_file", action="append", nargs=2, metavar=("ENDPOINT", "FILE"),
        help="the same, the text from a file",
    )  # fmt: skip
    add_own_options(group)

    group = parser.add_argument_group("machines")
    add = group.add_argument
    add("--mmax", type=int, default=0, metavar="N", help="use the first N compute hosts only, 0: all [%(default)s]")
    add("--mmax-workload", action="store_true", help="use as many hosts as the workloads' largest nb_res")

    group = parser.add_argument_group("output")
    add = group.add_argument
    add(
        "-e", "--export", default="out/", metavar="PREFIX",
        help="beginning of the result files' names; its folder is created [%(default)s]",
    )  # fmt: skip
    add("--trace-machine-state", action="store_true", help="write PREFIXmachine_states.csv")
    add("--trace-probe-data", choices=("never", "auto", "always"), help="never, auto: there are no probes")
    add("--energy-host", action="store_true", help="accepted with a remark: energy is not simulated")
    add(
        "-v", "--verbosity", choices=VERBOSITIES, default="info",
        help="what stderr gets; from info on every message, but on a terminal progress [%(default)s]",
    )  # fmt: skip
    add("-q", "--quiet", action="store_true", help="the same as --verbosity quiet")
    add("--dump-execution-context", action="store_true", help="print the execution context as JSON and exit")

    refusing(parser.add_argument_group("refused", "options of Batsim 5 that do not apply here"), REFUSED)
    refusing(parser.add_argument_group("gone", "options of Batsim 4"), GONE)
    return parser
