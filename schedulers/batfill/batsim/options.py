"""Parses Batsim 4.2's command line: every option is honoured, or refused by name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from batfill.batsim.protocol import SimulationSettings, refuse_port
from batfill.batsim.protocol4 import REDIS
from batfill.batsim.results import BATSIM_VERSION
from batfill.errors import BatfillError

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBOSITIES = ("quiet", "network-only", "information", "debug")
TIMEOUT_VARIABLE = "BATFILL_SCHED_TIMEOUT"
DEFAULT_TIMEOUT_S = 300.0
NONE: Mapping[str, str] = MappingProxyType({})
# What --no-sched leaves without a use.
FOR_SCHEDULERS = (
    *("--sched-cfg", "--sched-cfg-file", "--sched-timeout", "--forward-profiles-on-submission"),
    *("--enable-dynamic-jobs", "--acknowledge-dynamic-jobs", "--enable-profile-reuse"),
)
# Options that load a library instead of connecting to a scheduler.
LIBRARIES = ("-l", "--edc-library-str", "-L", "--edc-library-file")
# Options by which a command line is version 5's.
ONLY_IN_5 = (
    *("-S", "--edc-socket-str", "--edc-socket-file", *LIBRARIES, "--edc-library-load-method"),
    *("--ee", "--external-events", "-c", "--config", "--gen-config"),
    *("--energy-host", "--energy-link", "--trace-machine-state", "--trace-pstate-changes", "--trace-probe-data"),
    *("--batsim-version", "--batsim-git-commit", "--simgrid-git-commit"),
)

REFUSED = {
    ("-W", "--workflow"): (1, "workflows are not supported; describe the jobs in a workload"),
    ("--WS", "--workflow-start"): (2, "workflows are not supported; describe the jobs in a workload"),
    ("--workflow-jobs-limit",): (1, "workflows are not supported"),
    ("--ignore-beyond-last-workflow",): (0, "workflows are not supported"),
    ("-E", "--energy"): (0, "energy is not simulated; use Batsim itself"),
    ("--sg-cfg",): (1, "there is no SimGrid inside; leave it out, or use Batsim itself"),
    ("--sg-log",): (1, "there is no SimGrid inside; leave it out, or use Batsim itself"),
    ("--simgrid-version",): (0, "there is no SimGrid inside"),
    ("--enable-redis",): (0, "Redis is not supported; jobs travel in the messages"),
    ("--redis-hostname",): (1, "Redis is not supported"),
    ("--redis-port",): (1, "Redis is not supported"),
    ("--redis-prefix",): (1, "Redis is not supported"),
}

DESCRIPTION = """\
Batsim 4.2's command line and protocol for workloads of delays, without SimGrid: an embedded stand-in for Batsim itself.
It connects to the scheduler as Batsim does. One message carries all events of a date; no Paje trace is written.
"""
EPILOGUE = """\
Exit status, as in Batsim: 0 done, 1 a bad platform, 2 a bad workload, 255 bad arguments. When Batsim would abort, hang
or silently leave jobs behind, the run stops with one line that says why, writes the results so far, and exits with 1.
"""


class ArgumentsError(BatfillError):
    """The command line cannot be used. It names Batsim's options, which are no arguments in Python."""

    def __str__(self) -> str:
        """The message as it is."""
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
    split_events: int | None  # seed; None for whole instants
    protocol: int = 4
    init_text: str = ""  # of Batsim 5, for the scheduler
    arguments: tuple[str, ...] = ()  # the command line, which Batsim 5 sends to the scheduler
    passed_on: tuple[str, ...] = ()  # see `parse_arguments`
    remarks: tuple[str, ...] = ()  # what an option does not do here, one line each

    def execution_context(self) -> dict[str, Any]:
        """The output of --dump-execution-context, for programs that start Batsim."""
        if self.protocol == 5:
            return {"socket_endpoint": self.socket_endpoint, "export_prefix": self.export}
        return {
            "socket_endpoint": self.socket_endpoint,
            "redis_enabled": False,
            **{f"redis_{key}": value for key, value in REDIS.items()},
            "export_prefix": self.export,
            "external_scheduler": self.scheduler,
        }


def form_of(arguments: Sequence[str]) -> int:
    """The version of Batsim whose command line this is: 5 if it has an option that 4 lacks, or a text after -s."""
    for option, _, text in zip_longest(arguments, arguments[1:], arguments[2:], fillvalue="-"):
        if option.partition("=")[0] in ONLY_IN_5 or (option == "-s" and not text.startswith("-")):
            return 5
    return 4


def protocol_of(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """The version of Batsim of this command line, by --protocol or else by its form, and the other arguments.

    Raises:
        ArgumentsError: --protocol names another one.
    """
    others, found = [], None
    left = iter(arguments)
    for argument in left:
        if argument == "--protocol":
            found = next(left, "")
        elif argument.startswith("--protocol="):
            found = argument.partition("=")[2]
        else:
            others.append(argument)
    if found is None:
        return form_of(others), others
    if found not in ("4", "5"):
        raise ArgumentsError(f"--protocol: {found!r:.60} is not a version of Batsim's protocol; give 4 or 5")
    return int(found), others


def parse_arguments(arguments: Sequence[str], passed_on: Mapping[str, str] = NONE) -> BatsimOptions:
    """The options on this command line; --help and --version print and exit.

    Args:
        arguments: the command line.
        passed_on: options of REFUSED that are accepted, with their names in the command line that they are for.

    Raises:
        ArgumentsError: an option is unknown, refused, or cannot be used.
    """
    given = _parser(passed_on).parse_args(arguments)
    if given.enable_profile_reuse and not given.enable_dynamic_jobs:
        raise ArgumentsError("--enable-profile-reuse needs --enable-dynamic-jobs; add it")
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
        settings=SimulationSettings(
            forward_profiles=given.forward_profiles_on_submission,
            dynamic_jobs=given.enable_dynamic_jobs and not given.no_sched,
            acknowledge=given.acknowledge_dynamic_jobs,
            reuse_profiles=given.enable_profile_reuse,
            share_compute=given.enable_compute_sharing,
            share_storage=not given.disable_storage_sharing,
            forward_unknown_events=bool(given.events) and given.forward_unknown_events,
            sched_config=_config(given),
        ),
        verbosity="quiet" if given.quiet else given.verbosity,
        dump_execution_context=given.dump_execution_context,
        scheduler=not given.no_sched,
        sched_timeout_s=timeout_of(given.sched_timeout),
        split_events=seed_of(given.split_events),
        passed_on=tuple(given.passed_on or ()),
        remarks=_remarks(given),
    )


def _remarks(given: argparse.Namespace) -> tuple[str, ...]:
    """The options that do nothing beside the others, as in Batsim, one line each."""
    reasons = {}
    if given.no_sched:
        reasons = dict.fromkeys(FOR_SCHEDULERS, "with --no-sched")
    if not given.enable_dynamic_jobs:
        reasons["--acknowledge-dynamic-jobs"] = "without --enable-dynamic-jobs"
    if not given.events:
        reasons["--forward-unknown-events"] = "without --events"
    values = {name: getattr(given, name[2:].replace("-", "_")) for name in reasons}
    idle = [name for name, value in values.items() if value is not None and value is not False]
    return tuple(f"{name} does nothing {reasons[name]}" for name in idle)


class OptionParser(argparse.ArgumentParser):
    """A parser that raises ArgumentsError instead of printing usage."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ArgumentsError(f"{message} (see {self.prog} --help)")


class _Refused(argparse.Action):
    """An option of Batsim that does not apply here, unless it is passed on; its help says why."""

    def __init__(self, *args: Any, passed_on: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.passed_on = passed_on

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = self.passed_on.get(option_string or "")
        if name is None:
            raise ArgumentsError(f"{option_string}: {self.help}")
        namespace.passed_on = [*(namespace.passed_on or ()), name, *values]


def refusing(
    group: argparse._ArgumentGroup,
    refused: Mapping[tuple[str, ...], tuple[int, str]],
    passed_on: Mapping[str, str] = NONE,
) -> None:
    """Add options that are refused: their names, the number of their values, and why; some may be `passed_on`."""
    for names, (n_values, why) in refused.items():
        group.add_argument(
            *names, dest="passed_on", action=_Refused, nargs=n_values, metavar=("X",) * n_values or None, help=why,
            passed_on=passed_on,
        )  # fmt: skip


def add_own_options(group: argparse._ArgumentGroup) -> None:
    """Add the options that Batsim does not have."""
    add = group.add_argument
    add(
        "--sched-timeout", type=float, metavar="SECONDS",
        help="stop if the scheduler does not connect or answer in this time, 0: never "
        f"[{DEFAULT_TIMEOUT_S:g}, or ${TIMEOUT_VARIABLE}]; not an option of Batsim",
    )  # fmt: skip
    add(
        "--split-events", metavar="SEED",
        help="send the events of one date in several messages, split at random by this seed, as Batsim does on "
        "platforms with finite bandwidths [one message]; not an option of Batsim",
    )  # fmt: skip
    add(
        "--protocol", metavar="4|5",
        help="the version of Batsim, whose options, messages and files these are [that whose command line it is]; not "
        "an option of Batsim",
    )  # fmt: skip


def _parser(passed_on: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="batfill batsim",
        description=DESCRIPTION,
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=BATSIM_VERSION)

    group = parser.add_argument_group("input")
    add = group.add_argument
    add("-p", "--platform", type=Path, required=True, metavar="FILE", help="SimGrid platform file: the hosts")
    add("-w", "--workload", type=Path, action="append", default=[], metavar="FILE", help="JSON workload; repeatable")
    add("--events", type=Path, action="append", default=[], metavar="FILE", help="external events, one JSON per line")
    add(
        "-m",
        "--master-host",
        default="master_host",
        metavar="NAME",
        help="the master host, which runs no jobs [%(default)s]",
    )
    add(
        "-r", "--add-role-to-hosts", action="append", default=[], metavar="HOSTS:ROLE",
        help="give hosts (h1,h2) a role: master, storage or compute_node; repeatable",
    )  # fmt: skip

    group = parser.add_argument_group("the scheduler")
    add = group.add_argument
    add(
        "-s", "--socket-endpoint", default="tcp://localhost:28000", metavar="ENDPOINT",
        help="where the scheduler listens [%(default)s]",
    )  # fmt: skip
    add_own_options(group)
    config = group.add_mutually_exclusive_group()
    config.add_argument("--sched-cfg", metavar="TEXT", help="sent to the scheduler in the first message")
    config.add_argument("--sched-cfg-file", type=Path, metavar="FILE", help="the same, from a file")
    add("--no-sched", action="store_true", help="no scheduler: jobs run one by one, each on the first machines")
    add("--forward-profiles-on-submission", action="store_true", help="send each job's profile with its submission")
    add("--enable-dynamic-jobs", action="store_true", help="let the scheduler register jobs and profiles")
    add("--acknowledge-dynamic-jobs", action="store_true", help="answer each registered job with JOB_SUBMITTED")
    add("--enable-profile-reuse", action="store_true", help="keep profiles after the first job that used them")
    add("--forward-unknown-events", action="store_true", help="pass on external events of unknown types")

    group = parser.add_argument_group("machines")
    add = group.add_argument
    add("--mmax", type=int, default=0, metavar="N", help="use the first N compute hosts only, 0: all [%(default)s]")
    add("--mmax-workload", action="store_true", help="use as many hosts as the workloads' largest nb_res")
    add("--enable-compute-sharing", action="store_true", help="let several jobs run on one compute host")
    add("--disable-storage-sharing", action="store_true", help="let only one job use a storage host")

    group = parser.add_argument_group("output")
    add = group.add_argument
    add("-e", "--export", default="out", metavar="PREFIX", help="prefix of the result files [%(default)s]")
    add("--disable-schedule-tracing", action="store_true", help="accepted: there is no Paje trace to disable")
    add("--disable-machine-state-tracing", action="store_true", help="do not write PREFIX_machine_states.csv")
    add(
        "-v", "--verbosity", choices=VERBOSITIES, default="information",
        help="what stderr gets; from network-only on every message, but on a terminal progress [%(default)s]",
    )  # fmt: skip
    add("-q", "--quiet", action="store_true", help="the same as --verbosity quiet")
    add("--dump-execution-context", action="store_true", help="print the execution context as JSON and exit")

    refusing(parser.add_argument_group("refused", "options of Batsim that do not apply here"), REFUSED, passed_on)
    return parser


def _roles(given: Sequence[str]) -> dict[str, str]:
    """The role of each host named in h1,h2:role texts."""
    roles = {}
    for text in given:
        hosts, colon, role = text.partition(":")
        if not hosts or not colon or not role or ":" in role:
            raise ArgumentsError(f"--add-role-to-hosts: {text!r} is not of the form host1,host2:role")
        roles.update(dict.fromkeys(hosts.split(","), role))
    return roles


def _config(given: argparse.Namespace) -> str:
    """The configuration text for the scheduler."""
    if given.sched_cfg_file is None or given.dump_execution_context:
        return given.sched_cfg or ""
    return text_in("--sched-cfg-file", given.sched_cfg_file)


def text_in(option: str, path: Path) -> str:
    """The text in this file.

    Raises:
        ArgumentsError: it cannot be read; the message begins with the option.
    """
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentsError(f"{option}: {path} cannot be read ({error})") from None


def seed_of(given: str | None) -> int | None:
    """The seed of the random order of split events; None if they are not split."""
    if given is None:
        return None
    if not (given.isascii() and given.isdigit()):
        raise ArgumentsError(f"--split-events: {given!r} is not an integer >= 0; give the seed of the order")
    return int(given)


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
