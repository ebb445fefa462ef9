"""Parses the command line of Batsim 4.2: every option is honoured, or refused by name.

`OPTIONS` is the table of the options; `REFUSED` are the others.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from batfill.base.errors import BatfillError
from batfill.base.files import file_bytes
from batfill.batsim_files.results import BATSIM_VERSION
from batfill.protocol.endpoints import refuse_port
from batfill.simulator.wire import REDIS, SimulationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_VARIABLE = "BATFILL_SCHED_TIMEOUT"
DEFAULT_TIMEOUT_S = 300.0
# Switches, and the fields of `SimulationSettings`.
SWITCHES = {
    "--enable-dynamic-jobs": "dynamic_jobs",
    "--enable-profile-reuse": "reuse_profiles",
    "--acknowledge-dynamic-jobs": "acknowledge",
    "--forward-profiles-on-submission": "forward_profiles",
}
# What --no-sched leaves without a use.
FOR_SCHEDULERS = ("--sched-cfg", "--sched-cfg-file", "--sched-timeout", *SWITCHES)


class BatsimOption(NamedTuple):
    """An option that is honoured."""

    form: str  # its names, and a word for each of its values; a switch has none
    help: str
    settings: dict[str, Any]  # argparse's others


def option(form: str, help: str, **settings: Any) -> BatsimOption:  # noqa: A002 (as argparse calls it)
    return BatsimOption(form, help, settings)


SEVERAL: dict[str, Any] = {"type": Path, "action": "append", "default": []}
SHOWN = "what stderr gets; from network-only on every message, but on a terminal progress [%(default)s]"
OPTIONS = {
    "input": (
        option("-p --platform FILE", "SimGrid platform file: the hosts", type=Path, required=True),
        option("-w --workload FILE", "JSON workload; repeatable", **SEVERAL),
        option("--events FILE", "external events, one JSON per line", **SEVERAL),
        option(
            "-m --master-host NAME", "the master host, which runs no jobs [%(default)s]", default="master_host"
        ),
        option(
            "-r --add-role-to-hosts HOSTS:ROLE",
            "give hosts (h1,h2) a role: master, storage or compute_node; repeatable",
            action="append", default=[],
        ),
    ),
    "the scheduler": (
        option(
            "-s --socket-endpoint ENDPOINT", "where the scheduler listens [%(default)s]",
            default="tcp://localhost:28000",
        ),
        option(
            "--sched-timeout SECONDS",
            "stop if the scheduler does not connect or answer in this time, 0: never "
            f"[{DEFAULT_TIMEOUT_S:g}, or ${TIMEOUT_VARIABLE}]; not an option of Batsim", type=float,
        ),
        option("--sched-cfg TEXT", "sent to the scheduler in the first message"),
        option("--sched-cfg-file FILE", "the same, from a file", type=Path),
        option("--no-sched", "no scheduler: jobs run one by one, each on the first machines"),
        option("--forward-profiles-on-submission", "send each job's profile with its submission"),
        option("--enable-dynamic-jobs", "let the scheduler register jobs and profiles"),
        option("--acknowledge-dynamic-jobs", "answer each registered job with JOB_SUBMITTED"),
        option("--enable-profile-reuse", "keep profiles after the first job that used them"),
        option("--forward-unknown-events", "pass on external events of unknown types"),
    ),
    "machines": (
        option("--mmax N", "use the first N compute hosts only, 0: all [%(default)s]", type=int, default=0),
        option("--mmax-workload", "use as many hosts as the workloads' largest nb_res"),
        option("--enable-compute-sharing", "let several jobs run on one compute host"),
        option("-E --energy", "measure what the hosts draw, by their property wattage_per_state"),
        option("--disable-storage-sharing", "let only one job use a storage host"),
    ),
    "output": (
        option("-e --export PREFIX", "prefix of the result files [%(default)s]", default="out"),
        option("--disable-schedule-tracing", "accepted: there is no Paje trace to disable"),
        option("--disable-machine-state-tracing", "do not write PREFIX_machine_states.csv"),
        option(
            "-v --verbosity LEVEL", f"quiet, network-only, information or debug: {SHOWN}",
            default="information", choices=("quiet", "network-only", "information", "debug"),
        ),
        option("-q --quiet", "the same as --verbosity quiet"),
        option("--dump-execution-context", "print the execution context as JSON and exit"),
    ),
}  # fmt: skip

# Options that are refused: their forms, and why.
WORKFLOWS = "workflows are not supported; describe the jobs in a workload"
SIMGRID, NO_REDIS = "there is no SimGrid inside", "Redis is not supported"
REFUSED = {
    "--sg-cfg X": f"{SIMGRID}; leave it out, or use Batsim itself",
    "--sg-log X": f"{SIMGRID}; leave it out, or use Batsim itself",
    "-W --workflow X": WORKFLOWS,
    "--WS --workflow-start X X": WORKFLOWS,
    "--workflow-jobs-limit X": WORKFLOWS,
    "--ignore-beyond-last-workflow": WORKFLOWS,
    "--simgrid-version": SIMGRID,
    "--enable-redis": f"{NO_REDIS}; jobs travel in the messages",
    "--redis-hostname X": NO_REDIS,
    "--redis-port X": NO_REDIS,
    "--redis-prefix X": NO_REDIS,
    # Of Batsim 3, which descriptors of older studies have.
    "--batexec": "Batsim 4 calls it --no-sched; write that",
    "--allow-time-sharing": "Batsim 4 calls it --enable-compute-sharing; write that",
    "--config-file X": "Batsim 4 reads no file of options; write them on the command line",
    "--enable-sg-process-tracing": SIMGRID,
}
# The options by which a command line is Batsim 5's.
LIBRARIES = ("-l", "--edc-library-str", "-L", "--edc-library-file")  # instead of a scheduler
ONLY_IN_5 = {
    *LIBRARIES,
    *("--ee", "--external-events", "--edc-socket-str", "-S", "--edc-socket-file", "--edc-library-load-method"),
    *("--trace-machine-state", "--trace-probe-data", "--trace-pstate-changes", "--energy-host", "--energy-link"),
    *("-c", "--config", "--gen-config", "--batsim-version", "--batsim-git-commit", "--simgrid-git-commit"),
}

DESCRIPTION = """\
The command line and protocol of Batsim 4.2 for jobs that do not communicate, without SimGrid:
an embedded stand-in for Batsim itself. It connects to the scheduler as Batsim does. One message carries all events of a
date; no Paje trace is written.
"""
EPILOGUE = """\
Exit status, as in Batsim 4: 0 done, 1 a bad platform, 2 a bad workload, 255 bad arguments. When Batsim would abort,
hang, leave jobs behind or silently accept a mistake, the run stops with one line that says why, writes the results so
far, and exits with 1.
"""


class ArgumentsError(BatfillError):
    """The command line cannot be used. It names Batsim's options, which are no arguments in Python."""

    def __str__(self) -> str:
        return self.on_command_line


@dataclass(frozen=True, slots=True)
class BatsimOptions:
    """A parsed command line; fields are Batsim's options."""

    platform: Path
    workloads: tuple[Path, ...]
    events: tuple[Path, ...]
    master_host: str
    roles: dict[str, str]
    socket_endpoint: str
    export: str
    machine_states: bool
    mmax: int
    mmax_workload: bool
    settings: SimulationSettings
    verbosity: str
    dump_execution_context: bool
    scheduler: bool
    sched_timeout_s: float
    energy: bool = False
    remarks: tuple[str, ...] = ()  # what an option does not do here, one line each

    def execution_context(self) -> str:
        """The output of --dump-execution-context, as JSON, for programs that start Batsim."""
        context = {
            "socket_endpoint": self.socket_endpoint,
            "redis_enabled": False,
            **{f"redis_{key}": value for key, value in REDIS.items()},
            "export_prefix": self.export,
            "external_scheduler": self.scheduler,
        }
        return json.dumps(context, separators=(",", ":"))


def form_of(arguments: Sequence[str]) -> int:
    """The version of Batsim whose command line this is: 5 if it has an option that 4 lacks, or a text after -s."""
    for option, _, text in zip_longest(arguments, arguments[1:], arguments[2:], fillvalue="-"):
        if option.partition("=")[0] in ONLY_IN_5 or (option == "-s" and not text.startswith("-")):
            return 5
    return 4


def parse_arguments(arguments: Sequence[str]) -> BatsimOptions:
    if form_of(arguments) == 5:
        raise ArgumentsError("these are options of Batsim 5, and simulated is Batsim 4; run Batsim 5 itself")
    given = _parser().parse_args(arguments)
    if given.mmax < 0:
        raise ArgumentsError(f"--mmax: {given.mmax} is below 0; 0 means no limit")
    try:
        refuse_port(given.socket_endpoint)
    except ValueError as error:
        raise ArgumentsError(f"--socket-endpoint: {error}") from None
    return BatsimOptions(
        platform=given.platform,
        workloads=tuple(given.workload),
        events=tuple(given.events),
        master_host=given.master_host,
        roles=_roles(given.add_role_to_hosts),
        socket_endpoint=given.socket_endpoint,
        export=given.export,
        machine_states=not given.disable_machine_state_tracing,
        mmax=given.mmax,
        mmax_workload=given.mmax_workload,
        settings=_settings(given),
        verbosity="quiet" if given.quiet else given.verbosity,
        dump_execution_context=given.dump_execution_context,
        scheduler=not given.no_sched,
        sched_timeout_s=timeout_of(given.sched_timeout),
        energy=given.energy,
        remarks=_remarks(given),
    )


def _settings(given: argparse.Namespace) -> SimulationSettings:
    switched = {setting: _given(given, name) for name, setting in SWITCHES.items()}
    if switched["reuse_profiles"] and not switched["dynamic_jobs"]:
        raise ArgumentsError("--enable-profile-reuse needs --enable-dynamic-jobs; add it")
    switched["dynamic_jobs"] &= not given.no_sched
    if given.energy and given.enable_compute_sharing:
        raise ArgumentsError("--energy: what hosts draw that several jobs share is not simulated; use Batsim itself")
    return SimulationSettings(
        **switched,
        share_compute=given.enable_compute_sharing,
        share_storage=not given.disable_storage_sharing,
        forward_unknown_events=bool(given.events) and given.forward_unknown_events,
        sched_config=_config(given),
    )


def _config(given: argparse.Namespace) -> str:
    if given.sched_cfg is not None and given.sched_cfg_file is not None:
        raise ArgumentsError("--sched-cfg-file: not allowed with argument --sched-cfg; give the text in one place")
    if given.sched_cfg_file is None or given.dump_execution_context:
        return given.sched_cfg or ""
    try:
        return file_bytes(given.sched_cfg_file).decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentsError(
            f"--sched-cfg-file: {given.sched_cfg_file} cannot be read ({why}); check the path"
        ) from None


def _remarks(given: argparse.Namespace) -> tuple[str, ...]:
    reasons = {}
    if given.no_sched:
        reasons = dict.fromkeys(FOR_SCHEDULERS, "with --no-sched")
    if not given.enable_dynamic_jobs:
        reasons["--acknowledge-dynamic-jobs"] = "without --enable-dynamic-jobs"
    if not given.events:
        reasons["--forward-unknown-events"] = "without --events"
    idle = [name for name in reasons if _given(given, name) is not None and _given(given, name) is not False]
    return tuple(f"{name} does nothing {reasons[name]}" for name in idle)


def _given(given: argparse.Namespace, name: str) -> Any:
    return getattr(given, name[2:].replace("-", "_"))


class OptionParser(argparse.ArgumentParser):
    """A parser that raises ArgumentsError instead of printing usage."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentsError(f"{message} (see {self.prog} --help)")


class _Refused(argparse.Action):
    """An option of Batsim that does not apply here; its help says why."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        raise ArgumentsError(f"{option_string}: {self.help}")


def _add(group: argparse._ActionsContainer, form: str, help: str, **settings: Any) -> None:  # noqa: A002
    names = [word for word in form.split() if word.startswith("-")]
    values = tuple(form.split()[len(names) :])
    if len(values) > 1 or settings.get("action") is _Refused:
        settings["nargs"] = len(values)
    if values:
        settings["metavar"] = values if len(values) > 1 else values[0]
    elif not settings:
        settings["action"] = "store_true"
    group.add_argument(*names, help=help, **settings)


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(prog="batfill batsim", description=DESCRIPTION, epilog=EPILOGUE)
    _add(parser, "--version", "print it and exit", action="version", version=BATSIM_VERSION)
    for title, rows in OPTIONS.items():
        group = parser.add_argument_group(title)
        for row in rows:
            _add(group, row.form, row.help, **row.settings)
    group = parser.add_argument_group("refused", "options of Batsim that do not apply here")
    for form, why in REFUSED.items():
        _add(group, form, why, action=_Refused)
    return parser


def _roles(given: Sequence[str]) -> dict[str, str]:
    roles = {}
    for text in given:
        hosts, colon, role = text.partition(":")
        if not hosts or not colon or not role or ":" in role:
            raise ArgumentsError(f"--add-role-to-hosts: {text!r} is not of the form host1,host2:role")
        roles.update(dict.fromkeys(hosts.split(","), role))
    return roles


def timeout_of(given: float | None) -> float:
    """The time to wait for the scheduler, in seconds; 0 for ever."""
    text, where = (
        (given, "--sched-timeout") if given is not None else (os.environ.get(TIMEOUT_VARIABLE), f"${TIMEOUT_VARIABLE}")
    )
    try:
        seconds = DEFAULT_TIMEOUT_S if text is None else float(text)
    except ValueError:
        raise ArgumentsError(f"{where}: {text!r} is not a number of seconds") from None
    if not 0 <= seconds < 1e6:
        raise ArgumentsError(f"{where}: {text} is not a number of seconds from 0 (wait for ever) to a million")
    return seconds
