"""Parses Batsim's command line, of version 4.2 or 5: every option is honoured, or refused by name.

`OPTIONS` is the table of both versions' options; `REFUSED`, `PRINTED` and `GONE` are the others.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from batfill.base.errors import BatfillError
from batfill.base.files import file_bytes
from batfill.base.version import __version__
from batfill.batsim_files.results import BATSIM_5_VERSION, BATSIM_VERSION
from batfill.protocol.endpoints import refuse_port
from batfill.simulator.wire import FEATURES, REDIS, SimulationSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_VARIABLE = "BATFILL_SCHED_TIMEOUT"
DEFAULT_TIMEOUT_S = 300.0
NONE: Mapping[str, str] = MappingProxyType({})
# What --no-sched leaves without a use.
FOR_SCHEDULERS = (
    *("--sched-cfg", "--sched-cfg-file", "--sched-timeout"),
    *(feature.option for feature in FEATURES if feature.option),
)
# Options that load a library instead of connecting to a scheduler.
LIBRARIES = ("-l", "--edc-library-str", "-L", "--edc-library-file")


class BatsimOption(NamedTuple):
    """An option that is honoured."""

    versions: str  # that have it: "4", "5" or "45"
    form: str  # its names, and a word for each of its values; a switch has none
    help: str
    settings: dict[str, Any]  # argparse's others


def option(versions: str, form: str, help: str, **settings: Any) -> BatsimOption:  # noqa: A002 (as argparse calls it)
    """A row of the table."""
    return BatsimOption(versions, form, help, settings)


SEVERAL: dict[str, Any] = {"type": Path, "action": "append", "default": []}
SEVERAL_5: dict[str, Any] = {**SEVERAL, "action": "extend", "nargs": "+"}
PAIRS: dict[str, Any] = {"action": "append", "default": []}
SHOWN = "what stderr gets; from {} on every message, but on a terminal progress [%(default)s]"
OPTIONS = {
    "input": (
        option("45", "-p --platform FILE", "SimGrid platform file: the hosts", type=Path, required=True),
        option("4", "-w --workload FILE", "JSON workload; repeatable", **SEVERAL),
        option("5", "-w --workload FILE", "JSON workloads; repeatable", **SEVERAL_5),
        option("4", "--events FILE", "external events, one JSON per line", **SEVERAL),
        option("5", "--ee --external-events FILE", "external events, one JSON a line", dest="events", **SEVERAL_5),
        option(
            "45", "-m --master-host NAME", "the master host, which runs no jobs [%(default)s]", default="master_host"
        ),
        option(
            "4", "-r --add-role-to-hosts HOSTS:ROLE",
            "give hosts (h1,h2) a role: master, storage or compute_node; repeatable", **PAIRS,
        ),
        option(
            "5", "-r --add-role-to-hosts HOST ROLE",
            "give a host a role: master, storage or compute_node; repeatable", **PAIRS,
        ),
    ),
    "the scheduler": (
        option(
            "4", "-s --socket-endpoint ENDPOINT", "where the scheduler listens [%(default)s]",
            default="tcp://localhost:28000",
        ),
        option(
            "5", "-s --edc-socket-str ENDPOINT TEXT",
            "where it listens, such as tcp://localhost:28000, and its initialisation text; one of -s, -S is needed",
            dest="socket_text", **PAIRS,
        ),
        option(
            "5", "-S --edc-socket-file ENDPOINT FILE", "the same, the text from a file", dest="socket_file", **PAIRS
        ),
        option(
            "45", "--sched-timeout SECONDS",
            "stop if the scheduler does not connect or answer in this time, 0: never "
            f"[{DEFAULT_TIMEOUT_S:g}, or ${TIMEOUT_VARIABLE}]; not an option of Batsim", type=float,
        ),
        option(
            "45", "--protocol 4|5",
            "the version of Batsim, whose options, messages and files these are [that whose command line it is]; not "
            "an option of Batsim",
        ),
        option("4", "--sched-cfg TEXT", "sent to the scheduler in the first message"),
        option("4", "--sched-cfg-file FILE", "the same, from a file", type=Path),
        option("4", "--no-sched", "no scheduler: jobs run one by one, each on the first machines"),
        option("4", "--forward-profiles-on-submission", "send each job's profile with its submission"),
        option("4", "--enable-dynamic-jobs", "let the scheduler register jobs and profiles"),
        option("4", "--acknowledge-dynamic-jobs", "answer each registered job with JOB_SUBMITTED"),
        option("4", "--enable-profile-reuse", "keep profiles after the first job that used them"),
        option("4", "--forward-unknown-events", "pass on external events of unknown types"),
    ),
    "machines": (
        option("45", "--mmax N", "use the first N compute hosts only, 0: all [%(default)s]", type=int, default=0),
        option("45", "--mmax-workload", "use as many hosts as the workloads' largest nb_res"),
        option("4", "--enable-compute-sharing", "let several jobs run on one compute host"),
        option("4", "-E --energy", "measure what the hosts draw, by their property wattage_per_state"),
        option("4", "--disable-storage-sharing", "let only one job use a storage host"),
    ),
    "output": (
        option("4", "-e --export PREFIX", "prefix of the result files [%(default)s]", default="out"),
        option(
            "5", "-e --export PREFIX", "beginning of the result files' names; its folder is created [%(default)s]",
            default="out/",
        ),
        option("4", "--disable-schedule-tracing", "accepted: there is no Paje trace to disable"),
        option("4", "--disable-machine-state-tracing", "do not write PREFIX_machine_states.csv"),
        option("5", "--trace-machine-state", "write PREFIXmachine_states.csv"),
        option(
            "5", "--trace-probe-data", "never, auto: there are no probes", choices=("never", "auto", "always")
        ),
        option("5", "--energy-host", "accepted with a remark: energy is not simulated"),
        option(
            "4", "-v --verbosity LEVEL", f"quiet, network-only, information or debug: {SHOWN.format('network-only')}",
            default="information", choices=("quiet", "network-only", "information", "debug"),
        ),
        option("5", "-v --verbosity", SHOWN.format("info"), default="info", choices=("quiet", "info", "debug")),
        option("45", "-q --quiet", "the same as --verbosity quiet"),
        option("45", "--dump-execution-context", "print the execution context as JSON and exit"),
    ),
}  # fmt: skip

# Options that are refused in each version: their forms, and why.
WORKFLOWS = "workflows are not supported; describe the jobs in a workload"
ENERGY = "energy is simulated for Batsim 4 only; use Batsim 5 itself"
SIMGRID, NO_REDIS = "there is no SimGrid inside", "Redis is not supported"
LIBRARY = "no shared library is loaded; give the component's address with -s ENDPOINT TEXT"
IN_BOTH = {
    "--sg-cfg X": f"{SIMGRID}; leave it out, or use Batsim itself",
    "--sg-log X": f"{SIMGRID}; leave it out, or use Batsim itself",
}
REFUSED = {
    4: {
        **IN_BOTH,
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
    },
    5: {
        **IN_BOTH,
        "-E --energy": ENERGY,
        "-l --edc-library-str X X": LIBRARY,
        "-L --edc-library-file X X": LIBRARY,
        "--edc-library-load-method X": LIBRARY,
        "--energy-link": ENERGY,
        "--trace-pstate-changes": "power states are not simulated; use Batsim itself",
        "-c --config X": "no file of options is read; write them on the command line",
        "--gen-config X": "no file of options is written; keep the command line",
    },
}
# Options of Batsim 4, and what stands for them in Batsim 5.
GONE_SINCE = "Batsim 5 has no such option"
GONE = {
    **{
        feature.option: f"{GONE_SINCE}: the component asks for it in its hello ({feature.hello})"
        for feature in FEATURES
        if feature.option
    },
    "--enable-compute-sharing": f"{GONE_SINCE}; hosts are not shared here",
    "--sched-cfg X": f"{GONE_SINCE}: give the text after the endpoint, -s ENDPOINT TEXT",
    "--sched-cfg-file X": f"{GONE_SINCE}: give the file after the endpoint, -S ENDPOINT FILE",
    "--socket-endpoint X": f"{GONE_SINCE}: write -s ENDPOINT TEXT",
    "--events X": f"{GONE_SINCE}: write --ee FILE",
    "--no-sched": f"{GONE_SINCE}: it needs a component, -s ENDPOINT TEXT",
    "--disable-machine-state-tracing": f"{GONE_SINCE}: ask with --trace-machine-state",
    "--disable-schedule-tracing": f"{GONE_SINCE}: leave it out, there is no Paje trace",
}
# Options that print a line and exit, with that line.
PRINTED = {
    4: {"--version": BATSIM_VERSION},
    5: {
        "--version --batsim-version": BATSIM_5_VERSION,
        "--batsim-git-commit": f"none: this is batfill {__version__}, not Batsim",
        "--simgrid-version --simgrid-git-commit": f"none: {SIMGRID}",
    },
}


def names_of(version: int) -> set[str]:
    """The names of every option that this version's command line knows."""
    rows = [row.form for group in OPTIONS.values() for row in group if str(version) in row.versions]
    forms = " ".join([*rows, *REFUSED[version], *PRINTED[version]])
    return {word for word in forms.split() if word.startswith("-")}


ONLY_IN_5 = names_of(5) - names_of(4)  # the options by which a command line is version 5's

DESCRIPTION = """\
The command line and protocol of Batsim {} for jobs that do not communicate, without SimGrid:
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
    protocol: int = 4
    init_text: str = ""  # of Batsim 5, for the scheduler
    arguments: tuple[str, ...] = ()  # the command line, which Batsim 5 sends to the scheduler
    energy: bool = False
    remarks: tuple[str, ...] = ()  # what an option does not do here, one line each

    def execution_context(self) -> str:
        """The output of --dump-execution-context, as JSON, for programs that start Batsim."""
        context: dict[str, Any] = {"socket_endpoint": self.socket_endpoint}
        if self.protocol == 4:
            context |= {"redis_enabled": False, **{f"redis_{key}": value for key, value in REDIS.items()}}
        context["export_prefix"] = self.export
        if self.protocol == 4:
            context["external_scheduler"] = self.scheduler
        return json.dumps(context, separators=(",", ":"))


def form_of(arguments: Sequence[str]) -> int:
    """The version of Batsim whose command line this is: 5 if it has an option that 4 lacks, or a text after -s."""
    for option, _, text in zip_longest(arguments, arguments[1:], arguments[2:], fillvalue="-"):
        if option.partition("=")[0] in ONLY_IN_5 or (option == "-s" and not text.startswith("-")):
            return 5
    return 4


def batsim_options(arguments: Sequence[str]) -> BatsimOptions:
    """The options on this command line of the version that --protocol names, or that its form shows.

    --help and --version print and exit.

    Raises:
        ArgumentsError: an option is unknown, refused, or cannot be used.
    """
    parser = OptionParser(prog="batfill batsim", add_help=False, allow_abbrev=False)
    parser.add_argument("--protocol")
    given, others = parser.parse_known_args(arguments)
    if given.protocol not in (None, "4", "5"):
        raise ArgumentsError(f"--protocol: {given.protocol!r:.60} is not a version of Batsim's protocol; give 4 or 5")
    return parse_arguments(others, int(given.protocol or form_of(others)))


def parse_arguments(arguments: Sequence[str], version: int = 4) -> BatsimOptions:
    """The options on this command line; --help and --version print and exit.

    Args:
        arguments: the command line.
        version: of Batsim.

    Raises:
        ArgumentsError: an option is unknown, refused, or cannot be used.
    """
    given = _parser(version).parse_args(arguments)
    if given.mmax < 0:
        raise ArgumentsError(f"--mmax: {given.mmax} is below 0; 0 means no limit")
    is_5 = version == 5
    name, endpoint, text = _component(given) if is_5 else ("--socket-endpoint", given.socket_endpoint, _config(given))
    try:
        refuse_port(endpoint)
    except ValueError as error:
        raise ArgumentsError(f"{name}: {error}") from None
    return BatsimOptions(
        platform=given.platform,
        workloads=tuple(given.workload),
        events=tuple(given.events),
        master_host=given.master_host,
        roles=dict(given.add_role_to_hosts) if is_5 else _roles(given.add_role_to_hosts),
        socket_endpoint=endpoint,
        export=given.export,
        machine_states=given.trace_machine_state if is_5 else not given.disable_machine_state_tracing,
        mmax=given.mmax,
        mmax_workload=given.mmax_workload,
        settings=SimulationSettings() if is_5 else _settings(given, text),  # version 5's are the hello's
        verbosity="quiet" if given.quiet else given.verbosity,
        dump_execution_context=given.dump_execution_context,
        scheduler=is_5 or not given.no_sched,
        sched_timeout_s=timeout_of(given.sched_timeout),
        protocol=version,
        init_text=text if is_5 else "",
        arguments=("batsim", *arguments) if is_5 else (),
        energy=not is_5 and given.energy,
        remarks=_remarks_5(given) if is_5 else _remarks(given),
    )


def _settings(given: argparse.Namespace, text: str) -> SimulationSettings:
    """What version 4's options set, with this text for the scheduler."""
    switched = {feature.setting: _given(given, feature.option) for feature in FEATURES if feature.option}
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
        sched_config=text,
    )


def _config(given: argparse.Namespace) -> str:
    """Version 4's text for the scheduler."""
    if given.sched_cfg is not None and given.sched_cfg_file is not None:
        raise ArgumentsError("--sched-cfg-file: not allowed with argument --sched-cfg; give the text in one place")
    if given.sched_cfg_file is None or given.dump_execution_context:
        return given.sched_cfg or ""
    return _text_in("--sched-cfg-file", given.sched_cfg_file)


def _component(given: argparse.Namespace) -> tuple[str, str, str]:
    """The option by which version 5's component is given, its endpoint, and the text for it."""
    components = [("-s", *values) for values in given.socket_text] + [("-S", *values) for values in given.socket_file]
    if len(components) != 1:
        raise ArgumentsError(
            f"{len(components)} components are given; give one, with -s ENDPOINT TEXT or -S ENDPOINT FILE"
        )
    ((name, endpoint, text),) = components
    if name == "-S" and not given.dump_execution_context:
        text = _text_in(name, Path(text))
    return name, endpoint, text


def _text_in(name: str, path: Path) -> str:
    """The text in the file of this option."""
    try:
        return file_bytes(path).decode()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentsError(f"{name}: {path} cannot be read ({why}); check the path") from None


def _remarks(given: argparse.Namespace) -> tuple[str, ...]:
    """The options that do nothing beside the others, as in Batsim, one line each."""
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
    """The value of the option of this name."""
    return getattr(given, name[2:].replace("-", "_"))


def _remarks_5(given: argparse.Namespace) -> tuple[str, ...]:
    """The same of version 5's options."""
    if given.trace_probe_data == "always":
        raise ArgumentsError("--trace-probe-data always: there are no probes, nor data of them; use Batsim itself")
    energy = "--energy-host: energy is not simulated; no file states what was consumed"
    return (energy,) if given.energy_host else ()


class OptionParser(argparse.ArgumentParser):
    """A parser that raises ArgumentsError instead of printing usage."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise ArgumentsError(f"{message} (see {self.prog} --help)")


class _Refused(argparse.Action):
    """An option of Batsim that does not apply here; its help says why."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        raise ArgumentsError(f"{option_string}: {self.help}")


def _add(group: argparse._ActionsContainer, form: str, help: str, **settings: Any) -> None:  # noqa: A002
    """Add an option of this form."""
    names = [word for word in form.split() if word.startswith("-")]
    values = tuple(form.split()[len(names) :])
    if len(values) > 1 or settings.get("action") is _Refused:
        settings["nargs"] = len(values)
    if values:
        settings["metavar"] = values if len(values) > 1 else values[0]
    elif not settings:
        settings["action"] = "store_true"
    group.add_argument(*names, help=help, **settings)


def _parser(version: int) -> argparse.ArgumentParser:
    """The parser of this version's command line."""
    parser = OptionParser(
        prog="batfill batsim" if version == 4 else "batfill batsim --protocol 5",
        description=DESCRIPTION.format("4.2" if version == 4 else "5 (as of 5.0.0-rc2)"),
        epilog=EPILOGUE,
    )
    for form, line in PRINTED[version].items():
        _add(parser, form, "print it and exit", action="version", version=line)
    for title, rows in OPTIONS.items():
        group = parser.add_argument_group(title)
        for row in rows:
            if str(version) in row.versions:
                _add(group, row.form, row.help, **row.settings)
    refused = REFUSED[version] | (GONE if version == 5 else {})
    group = parser.add_argument_group("refused", "options of Batsim, or of version 4 alone, that do not apply here")
    for form, why in refused.items():
        _add(group, form, why, action=_Refused)
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
