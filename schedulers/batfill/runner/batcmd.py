"""What a batcmd starts: the simulator, its programs and their environment, its files and its port.

A batcmd is one command, whose words say how the simulator is called; the simulator itself says what it would do
(`--dump-execution-context`).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import sys
from argparse import ArgumentError, ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from batfill.base.errors import (
    BatfillError,
    MissingExtra,
    RunFailed,
    WorkloadError,
    installed,
    on_command_line,
    require,
)
from batfill.base.files import file_bytes, loaded_json
from batfill.batsim_files.results import JOBS_CSV, JOBS_CSV_5
from batfill.runner.sessions import Command, end, ending, is_listening, last_line_of
from batfill.runner.setting import BATSIM_LOG, SIMULATOR, Engine, Setting, SimulatorChoice, Stopped
from batfill.simulator.command_line import LIBRARIES
from batfill.workloads.archive import CONVERTED, known_log
from batfill.workloads.batsim_json import read_members
from batfill.workloads.formats import stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from batfill.runner.sessions import Lifeline

# On a busy machine a simulator written in Python takes seconds to answer, however short the ready-timeout.
LEAST_CONTEXT_TIMEOUT_S = 10.0
DUMP = "--dump-execution-context"
PROGRAM = re.compile(r"batsim(:[\w.-]+)?")  # a command's name, or a container image's with its tag
# What bash reads as it stands, or a variable with what stands in for it if it is unset, or (with a colon) empty.
VARIABLE = re.compile(r"('[^']*'|\\.)|\$(?:(\w+)|\{(\w+)(?:(:?)[-=]([^}$`]*))?\})", re.DOTALL)
# In a text without variables: quotes, or (the group) a sign that only a shell understands.
SHELL = re.compile(
    r"""'[^']*'|"(?:[^"\\`$]|\\.)*"|\\.|([;&|<>()`$*?\[\n]|\{(?=\S*(?:,|\.\.)\S*\})|(?<!\S)[#~])""", re.DOTALL
)
PORT_VARIABLE = "BATSIM_PORT"  # in descriptors whose port may be chosen
DEFAULT_PORT = re.compile(rf"(?:tcp://([^\s:]*):)?\$\{{{PORT_VARIABLE}:?[-=]([0-9]{{1,5}})\}}")  # and its host
ENDPOINT = re.compile(r"tcp://(\S*):([0-9]{1,5})\b")
HERE = ("localhost", "*", "0.0.0.0", "[::]", "[::1]")  # hosts in endpoints


class SimulatorCommand(NamedTuple):
    """The simulator's command line, every variable expanded."""

    words: tuple[str, ...]
    program: str | None  # its name or path; None if the command starts it under another name
    workloads: tuple[Path, ...]
    platform: Path | None

    def missing(self) -> list[Path]:
        return [path for path in (*self.workloads, self.platform) if path and not path.exists()]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the program; none if it is not known."""
        return self.words[self.words.index(self.program) + 1 :] if self.program else ()


class ExecutionContext(NamedTuple):
    """Batsim's execution context, printed before a run."""

    endpoint: str  # of the socket, as Batsim connects to it; "" if it connects to none
    export_prefix: str
    external_scheduler: bool
    protocol: int  # the version of Batsim that will run: 4 or 5

    @property
    def port(self) -> int | None:
        """The TCP port of a scheduler; None without one, or if the endpoint has none (ipc, inproc)."""
        match = ENDPOINT.fullmatch(self.endpoint.strip()) if self.external_scheduler else None
        return int(match[2]) if match else None

    @property
    def port_here(self) -> int | None:
        """The port of this machine on which the scheduler has to listen; None if it may be elsewhere, or is none."""
        match = ENDPOINT.fullmatch(self.endpoint.strip())
        return self.port if match and is_here(match[1]) else None

    @property
    def jobs_csv(self) -> Path:
        """The jobs' file; Batsim 5 puts nothing between its prefix and the name."""
        return Path(self.export_prefix + (JOBS_CSV_5 if self.protocol == 5 else JOBS_CSV))


def parse_context(stdout: str) -> ExecutionContext | None:
    """The context in the dump's output: its last line that is a JSON object, or all of it; None if there is none.

    Batsim 4 says whether it has an external scheduler. Batsim 5 does not; without one it has no endpoint, either.
    """
    for text in (*reversed(stdout.splitlines()), stdout):
        try:
            context: Any = loaded_json(text)
            prefix = context["export_prefix"]
            protocol = 4 if "external_scheduler" in context else 5
            endpoint = context["socket_endpoint"] if protocol == 4 else context.get("socket_endpoint") or ""
        except (ValueError, TypeError, KeyError):
            continue
        external = context.get("external_scheduler", endpoint != "")
        return ExecutionContext(str(endpoint), str(prefix), bool(external), protocol)
    return None


def expanded(text: str, env: Mapping[str, str]) -> str:
    """The text with the values of its variables, as in bash; one without a value stays as it is."""

    def value(found: re.Match[str]) -> str:
        kept, plain, braced, colon, instead = found.groups()
        given = env.get(plain or braced) if kept is None else kept
        if instead is not None and (given is None or (colon and not given)):
            return str(instead)
        return found[0] if given is None else given

    return VARIABLE.sub(value, text)


def read_command(setting: Setting) -> SimulatorCommand:
    batcmd, where = setting.descriptor.batcmd.strip().replace("\\\n", ""), f"{setting.path}: batcmd"
    if sign := next((match[1] for match in SHELL.finditer(VARIABLE.sub(r"\1", batcmd)) if match[1]), None):
        raise BatfillError(
            f"{where} needs a shell ({sign!r}); write the command of Batsim alone, or run the descriptor with robin"
        )
    for found in VARIABLE.finditer(batcmd):
        if found[1] is None and expanded(found[0], setting.env) == found[0]:
            raise BatfillError(f"{where}: {found[0]} has no value; set the variable, or write ${{NAME:-VALUE}}")
    try:
        return parse_command(shlex.split(expanded(batcmd, setting.env)))
    except (ArgumentError, ValueError) as error:
        raise BatfillError(f"{where}: {str(error).lower()}; fix it") from None


def parse_command(words: list[str]) -> SimulatorCommand:
    at = next((i for i, word in enumerate(words) if PROGRAM.fullmatch(Path(word).name)), None)
    options = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    options.add_argument("-w", "--workload", dest="workloads", nargs="+", action="extend", default=[])
    options.add_argument("-p", "--platform", type=Path)
    given, _ = options.parse_known_args(words if at is None else words[at + 1 :])
    workloads = tuple(Path(name) for name in given.workloads if name)
    return SimulatorCommand(tuple(words), None if at is None else words[at], workloads, given.platform)


def is_here(host: str) -> bool:
    return host in (*HERE, socket.gethostname()) or host.startswith("127.")


def read_context(setting: Setting, command: SimulatorCommand, lifeline: Lifeline) -> ExecutionContext:
    descriptor, log = setting.descriptor, setting.output_dir / BATSIM_LOG
    script, answer = setting.scratch / "context.bash", setting.scratch / "context.json"
    script.write_text(f"{descriptor.batcmd.rstrip()} {DUMP}\n")
    timeout_s = max(descriptor.ready_timeout, LEAST_CONTEXT_TIMEOUT_S)
    dump = Command(SIMULATOR, script, env=setting.env, stdout=answer, stderr=log, lifeline=lifeline)
    try:
        answered = setting.wait(dump.ended, timeout_s)
    finally:
        end([dump])
    if not answered or dump.status is None:
        raise Stopped(1, f"batcmd did not answer {DUMP} within {timeout_s:g} s; {last_line_of([log])}")
    if dump.status != 0 or reads_here(setting, command):
        refuse_missing(setting, command)
    if dump.status != 0:
        raise Stopped(1, f"batcmd cannot be run: {DUMP} {ending(dump.status)}; {last_line_of([log])}")
    context = parse_context(answer.read_text(errors="replace"))
    if context is None:
        raise Stopped(
            1, f"batcmd gives no answer to {DUMP}; it must end with Batsim's own command; {last_line_of([log])}"
        )
    if context.protocol == 5 and not set(LIBRARIES).isdisjoint(command.arguments):
        context = context._replace(endpoint="", external_scheduler=False)
    return context


def started(setting: Setting, command: SimulatorCommand) -> list[str]:
    """The words of the command, with those of BATSIM for which `batsim` stands."""
    behind = behind_the_word(setting.engine, os.environ) if command.words[:1] == ("batsim",) else []
    return [*behind, *command.words[bool(behind) :]]


def reads_here(setting: Setting, command: SimulatorCommand) -> bool:
    """Whether the simulator is certain to see the files that are here, as one in a container is not."""
    if setting.engine == "embedded":
        return command.program == "batsim"
    return PROGRAM.fullmatch(Path((*started(setting, command), "")[0]).name) is not None


def refuse_missing(setting: Setting, command: SimulatorCommand) -> None:
    """Refuse a command line that names a missing workload or platform, with the command that makes it."""
    refuse_elsewhere(setting.path, command)
    for missing in command.missing()[:1]:
        if missing == command.platform:
            size = max((read_members(path).nb_res or 0 for path in command.workloads), default=0)
            what, make = "platform", f"batfill platform {size or 'N_HOSTS'} --out {shlex.quote(str(missing))}"
        else:
            what, make = "workload", making(missing)
        raise BatfillError(f"{setting.path}: {what} {missing} is missing; make it: {make}")


def refuse_elsewhere(descriptor: Path, command: SimulatorCommand) -> None:
    """Refuse to run from a folder that lacks a file which is in a folder around the descriptor."""
    missing = [path for path in command.missing() if not path.is_absolute()]
    for folder in descriptor.resolve().parents:
        if any((folder / path).exists() for path in missing):
            again = shlex.quote(str(descriptor.resolve().relative_to(folder)))
            raise BatfillError(
                f"{descriptor}: {missing[0]} is not in this folder, where a descriptor's paths begin; run it from the "
                f"folder that they are written for: cd {shlex.quote(str(folder))} && batfill run {again}"
            )


def making(workload: Path) -> str:
    """The command that makes this workload: fetch a log of the archive under its own name, convert any other."""
    with suppress(WorkloadError):
        known = known_log(workload.stem)
        if workload.name == f"{stem_of(Path(known.file))}.json":
            into = "" if workload.parent == CONVERTED else f" --into {shlex.quote(str(workload.parent))}"
            return f"batfill workload fetch {known.name} --convert{into}"
    return f"batfill workload convert {shlex.quote(workload.stem)}.swf.gz --out {shlex.quote(str(workload))}"


def check_command(setting: Setting, context: ExecutionContext, command: SimulatorCommand) -> None:
    batcmd, schedcmd = f"{setting.path}: batcmd", expanded(setting.descriptor.schedcmd, setting.env).strip()
    if setting.simulator == "embedded" and command.program != "batsim":
        raise BatfillError(f"{batcmd} starts {command.program or 'no batsim'} itself; write ${{BATSIM:-batsim}} for it")
    if context.external_scheduler and not schedcmd:
        raise BatfillError(f"{batcmd} waits for a scheduler and schedcmd is empty; give one, or add --no-sched")
    if schedcmd and not context.external_scheduler:
        raise BatfillError(f"{batcmd} runs without a scheduler and schedcmd starts one; empty it, or run with one")
    named = ENDPOINT.search(schedcmd)
    if context.port_here and named and not re.search(rf"\b{context.port_here}\b", schedcmd):
        raise BatfillError(
            f"{setting.path}: schedcmd names {named[0]}, and batcmd connects to {context.endpoint}; write one port in "
            "both"
        )
    if not Path(context.export_prefix).absolute().is_relative_to(setting.output_dir.absolute()):
        setting.notes.append(f"{batcmd} writes to {context.export_prefix}, which is not in the output-dir")


def scheduler_words(setting: Setting) -> list[str]:
    """The words of schedcmd; none if bash cannot read it, which it will report."""
    try:
        return shlex.split(setting.descriptor.schedcmd)
    except ValueError:
        return []


def require_programs(setting: Setting) -> None:
    """Refuse to run without bash, or a schedcmd of pybatsim that is neither installed here nor on PATH."""
    if shutil.which("bash", path=setting.env["PATH"]) is None:
        raise BatfillError("bash is not on PATH, and runs both commands of a descriptor, as in robin; install it")
    words = scheduler_words(setting)
    program = words[0] if words else ""
    if program == "batsched" and Path(shutil.which(program, path=setting.env["PATH"]) or "").parent == setting.scratch:
        setting.notes.append("there is no batsched on PATH: `batfill batsched` takes its place")
    if program != "pybatsim" or shutil.which(program, path=setting.env["PATH"]):
        return
    try:
        require("pybatsim", "batsim")
    except MissingExtra as error:
        raise MissingExtra(f"{setting.path}: schedcmd {on_command_line(error)}") from None


def options_file_of(words: Sequence[str]) -> Path | None:
    """The file of options in a schedcmd of pybatsim, -O FILE or --options-file FILE; None if that is left to bash."""
    given = None
    for word, behind in zip(words, [*words[1:], None], strict=True) if words[:1] == ["pybatsim"] else ():
        if match := re.fullmatch(r"(?:-O|--options-file(?:=|$))(.*)", word, re.DOTALL):
            given = match[1] or behind
    return Path(given) if given and not re.search(r"[$`*?\[{]|^~", given) else None


def options_in_file(setting: Setting) -> dict[str, Any] | None:
    path = options_file_of(scheduler_words(setting))
    if path is None:
        return None
    try:
        options: dict[str, Any] = loaded_json(file_bytes(path))
        if not isinstance(options, dict):
            raise ValueError("it holds another value")
    except (OSError, ValueError) as error:
        raise BatfillError(f"{setting.path}: schedcmd: options file {path}: {error}; give a JSON object") from None
    return options


def choose_port(setting: Setting) -> None:
    """Set PORT_VARIABLE to a free port if the default one is in use and both commands read the variable.

    Not if the port is another machine's, or if the caller or the descriptor has chosen it.
    """
    descriptor = setting.descriptor
    default = DEFAULT_PORT.search(descriptor.batcmd)
    read = re.search(rf"\$\{{?{PORT_VARIABLE}\b", descriptor.schedcmd)
    if PORT_VARIABLE in setting.env or not (default and read) or not is_here(default[1] or "*"):
        return
    if is_listening(int(default[2])):
        with socket.create_server(("", 0)) as unused:
            port = unused.getsockname()[1]
        setting.say(f"port {default[2]} is in use: this run takes {port}; {PORT_VARIABLE} chooses one")
        setting.env[PORT_VARIABLE] = str(port)


def wait_for_port(setting: Setting, port: int) -> None:
    ready_timeout = setting.descriptor.ready_timeout
    if not setting.wait(lambda: not is_listening(port), ready_timeout):
        raise Stopped(
            1,
            f"port {port} is in use for longer than the ready-timeout of {ready_timeout:g} s; "
            "stop the process that listens there, or write another port in batcmd and schedcmd",
        )


def choose_engine(simulator: SimulatorChoice, environ: Mapping[str, str]) -> Engine:
    """The simulator to use: the caller's BATSIM, else a batsim on PATH, else (for "auto") the embedded one."""
    if simulator not in get_args(SimulatorChoice):
        raise BatfillError(f"simulator: {simulator!r} is none of {', '.join(get_args(SimulatorChoice))}")
    if simulator == "embedded":
        return "embedded"
    if environ.get("BATSIM"):
        return "environment"
    if shutil.which("batsim", path=environ.get("PATH", os.defpath)):
        return "batsim"
    if simulator == "batsim":
        raise BatfillError("batsim is not on PATH; install it, set BATSIM, or pass --simulator embedded")
    return "embedded"


def behind_the_word(engine: Engine, environ: Mapping[str, str]) -> list[str]:
    """The words of BATSIM that `batsim` stands for in commands; none if it is a program on PATH or the embedded one."""
    words = environ["BATSIM"].split() if engine == "environment" else []
    return [] if words[:1] == ["batsim"] else words


def command_environment(engine: Engine, environ: Mapping[str, str], programs: Path) -> dict[str, str]:
    """The environment of a run's commands: `environ` with our programs first on PATH, written into `programs`.

    They are this Python's, which commands find in this way even if no virtual environment is active.

    BATSIM becomes the word `batsim` unless the caller's value is used: bash splits an unquoted variable at spaces, and
    a name looked up on PATH has none, whatever this Python's path. The word `batsim` starts the caller's BATSIM, too,
    unless that begins with this word.
    """
    # -P: a user's folder with a package's name must not hide the package.
    python = [sys.executable, "-P", "-m"]
    commands = {"batfill": [*python, "batfill"]}
    if shutil.which("batsched", path=environ.get("PATH")) is None:
        commands["batsched"] = [*python, "batfill", "batsched"]
    if installed("batsim"):  # otherwise another Python may have it
        commands["pybatsim"] = [*python, "batsim.cmds.launcher"]
    if engine == "embedded":
        commands["batsim"] = [*python, "batfill", "batsim"]
    elif behind := behind_the_word(engine, environ):
        commands["batsim"] = behind
    for name, command in commands.items():
        program = programs / name
        try:
            program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            program.chmod(0o755)
        except OSError as error:
            raise RunFailed(f"{program}: cannot be written ({error.strerror}); free space, or set TMPDIR") from None
        if not os.access(program, os.X_OK):
            raise BatfillError(f"{programs}: programs cannot be run there (mounted noexec?); set TMPDIR elsewhere")
    env = {**environ, "PATH": f"{programs}{os.pathsep}{environ.get('PATH', os.defpath)}"}
    if engine != "environment":
        env["BATSIM"] = "batsim"
    return env
