"""Prepares a run: chooses the simulator, locks the folder, inspects batcmd, checks its files, waits for the port."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import socket
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from batfill.base import host
from batfill.base.errors import (
    BatfillError,
    MissingExtra,
    RunFailed,
    WorkloadError,
    installed,
    on_command_line,
    require,
)
from batfill.base.files import file_bytes, loaded_json, remove_left_overs
from batfill.batsim_files.results import RUN_JSON, remove_results
from batfill.runner.commands import Command, end
from batfill.runner.context import (
    DUMP,
    ExecutionContext,
    SimulatorCommand,
    is_here,
    is_listening,
    parse_command,
    parse_context,
    parse_trace,
    split_words,
)
from batfill.runner.descriptor import Descriptor
from batfill.runner.sessions import POLL_S, TERM_GRACE_S
from batfill.runner.translation import PROGRAM as TRANSLATOR
from batfill.runner.translation import VARIABLE, Whereabouts, major_version
from batfill.runner.verdict import SIMULATOR, Stopped, ending, last_line_of
from batfill.simulator.command_line import LIBRARIES, form_of
from batfill.workloads.archive import known_log
from batfill.workloads.batsim_json import read_members
from batfill.workloads.formats import stem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from batfill.runner.commands import Interrupts
    from batfill.runner.sessions import Lifeline

SimulatorChoice = Literal["auto", "batsim", "embedded"]
Engine = Literal["batsim", "embedded", "environment"]  # the last: the value of the caller's variable BATSIM

# This Python's programs, which commands find even if no virtual environment is active. -P: a user's folder with a
# package's name must not hide the package.
PROGRAMS = {"batfill": ["-P", "-m", "batfill"]}
PYBATSIM = {"pybatsim": ["-P", "-m", "batsim.cmds.launcher"]}  # if installed; otherwise another Python may have it
EMBEDDED = {"batsim": ["-P", "-m", "batfill", "batsim"]}

# On a busy machine a simulator written in Python takes seconds to answer, however short the ready-timeout.
LEAST_CONTEXT_TIMEOUT_S = 10.0
BATSIM_SCRIPT, SCHED_SCRIPT = "cmd/batsim.bash", "cmd/sched.bash"
PLAIN = re.compile(r"(.*/)?batsim$|\$\{BATSIM\b")  # a batcmd's first word, if it starts the simulator in this folder
# batsched's schedulers whose starts `batfill schedule` gives, with its options.
BATSCHED = {
    "easy_bf": "--reservation machines",
    "conservative_bf": "--preset conservative_bf",
    "fcfs": "--tested 1",
    "fcfs_fast": "--tested 1",
    "filler": "--depth 0",
}
PORT_VARIABLE = "BATSIM_PORT"  # in descriptors whose port may be chosen
BATSIM_LOG, SCHED_OUT_LOG, SCHED_ERR_LOG = "log/batsim.log", "log/sched.out.log", "log/sched.err.log"


@dataclass(frozen=True, slots=True)
class Setting:
    """The data that every step of a run needs."""

    path: Path  # the descriptor's file
    descriptor: Descriptor
    simulator: SimulatorChoice
    engine: Engine  # the meaning of `batsim` and ${BATSIM:-batsim} in batcmd
    version: int | None  # of the caller's Batsim; None if there is none, or it does not say
    env: Mapping[str, str]  # of the commands
    scratch: Path  # a folder that exists during the run
    interrupts: Interrupts
    say: Callable[[str], None]  # shows the user a line at once
    notes: list[str] = field(default_factory=list)  # information for the user that does not stop the run

    @property
    def output_dir(self) -> Path:
        """The run's folder, relative to the working directory as in robin."""
        return Path(self.descriptor.output_dir)

    @property
    def progress_file(self) -> Path:
        """The file for the progress of a simulator that can write it."""
        return self.scratch / "progress.json"

    @property
    def options_file(self) -> Path:
        """The file for the options in force of a scheduler that can write them."""
        return self.scratch / "options.json"

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the condition became true in time.

        Raises:
            Stopped: the run is interrupted.
        """
        deadline = time.monotonic() + timeout_s
        while not until():
            self.heed_interrupts()
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def heed_interrupts(self) -> None:
        """Stop the run if a signal has arrived.

        Raises:
            Stopped: one has.
        """
        if self.interrupts.arrived:
            raise Stopped(3, f"interrupted by {self.interrupts.arrived.name}; every process of the run was ended")


@contextmanager
def run_folder(setting: Setting) -> Iterator[int]:
    """Create the run's folder with its `cmd/` and `log/`, and lock it during the block; yields the open folder.

    Removes the results of the run before, and what killed processes left.

    Raises:
        Stopped: it cannot be written, or another run uses it.
    """
    folder = setting.output_dir
    with ExitStack() as stack:
        try:
            for name in ("cmd", "log"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            # The watcher of a run that was killed holds the lock until it has ended the run's processes.
            if not setting.wait(lambda: not is_locked(handle), TERM_GRACE_S + 1.0):
                raise Stopped(1, f"{folder}: another run writes there; wait for its end or change output-dir")
            remove_previous_run(folder)
            remove_left_overs(folder)
            for log in (BATSIM_LOG, SCHED_OUT_LOG, SCHED_ERR_LOG):
                (folder / log).write_bytes(b"")
            for script, command in (
                (BATSIM_SCRIPT, setting.descriptor.batcmd),
                (SCHED_SCRIPT, setting.descriptor.schedcmd),
            ):
                (folder / script).write_text(command)
                (folder / script).chmod(0o755)
        except OSError as error:
            raise cannot_write(setting, error) from None
        yield handle


def remove_previous_run(folder: Path) -> None:
    """Remove `run.json` and, if they are in the folder, the results of its run.

    Raises:
        OSError: a file exists and cannot be removed.
    """
    record = folder / RUN_JSON
    try:
        jobs_csv = Path(loaded_json(file_bytes(record))["jobs_csv"]).resolve()
    except (OSError, ValueError, TypeError, KeyError):
        jobs_csv = None
    if jobs_csv and jobs_csv.parent.is_relative_to(folder.resolve()):
        remove_results(jobs_csv)
    record.unlink(missing_ok=True)


def is_locked(handle: int) -> bool:
    """Whether another run has locked this folder; if not, lock it, provided that its file system supports locks."""
    try:
        host.lock(handle)
    except BlockingIOError:
        return True
    except OSError:  # some network file systems cannot lock folders
        return False
    return False


def cannot_write(setting: Setting, error: OSError) -> Stopped:
    """The exception for a file of the run that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return Stopped(
        1,
        f"{error.filename or setting.output_dir}: {reason}; set output-dir in {setting.path} to a writable folder",
    )


def read_context(setting: Setting, lifeline: Lifeline) -> tuple[ExecutionContext, SimulatorCommand]:
    """The execution context and command line of batcmd, requested from the simulator itself.

    Raises:
        Stopped: it cannot be run, does not answer, or gives an invalid answer.
        BatfillError: it names a missing file, or does not fit the schedcmd.
    """
    descriptor, log = setting.descriptor, setting.output_dir / BATSIM_LOG
    script, answer = setting.scratch / "context.bash", setting.scratch / "context.json"
    script.write_text(f"{descriptor.batcmd.rstrip()} {DUMP}\n")
    timeout_s = max(descriptor.ready_timeout, LEAST_CONTEXT_TIMEOUT_S)
    dump = Command(SIMULATOR, script, env=setting.env, stdout=answer, stderr=log, lifeline=lifeline)
    try:
        answered = setting.wait(dump.ended, timeout_s)
    finally:
        end([dump])
    command = parse_trace(log.read_text(errors="replace"))
    context = parse_context(answer.read_text(errors="replace"))
    if not answered or dump.status is None:
        raise Stopped(1, f"batcmd did not answer {DUMP} within {timeout_s:g} s; {last_line_of([log])}")
    if dump.status != 0 or (setting.engine, command.program) == ("embedded", "batsim"):
        refuse_missing(setting, command)
    if dump.status != 0 and setting.version == 4 and command.program and form_of(command.arguments) == 5:
        raise Stopped(
            1,
            "batcmd has Batsim 5's form and starts Batsim 4; put Batsim 5 first on PATH, name it in BATSIM, or pass "
            "--simulator embedded",
        )
    if dump.status != 0:
        raise Stopped(1, f"batcmd cannot be run: {DUMP} {ending(dump.status)}; {last_line_of([log])}")
    if context is None:
        raise Stopped(
            1, f"batcmd gives no answer to {DUMP}; it must end with Batsim's own command; {last_line_of([log])}"
        )
    if context.protocol == 5 and not set(LIBRARIES).isdisjoint(command.arguments):
        context = context._replace(endpoint="", port=None, external_scheduler=False)
    return context, command


def refuse_missing(setting: Setting, command: SimulatorCommand) -> None:
    """Refuse a command line that names a missing workload or platform.

    Raises:
        BatfillError: with the command that makes the file, or the folder from which the descriptor's paths lead to it.
    """
    refuse_elsewhere(setting.path, command)
    for path in command.missing():
        if path == command.platform:
            make = making_platform(path, command)
            raise BatfillError(f"{setting.path}: platform {path} is missing; make it: {make}")
        make = making(path, form_of(command.arguments))
        raise BatfillError(f"{setting.path}: workload {path} is missing; make it: {make}")


def refuse_elsewhere(descriptor: Path, command: SimulatorCommand) -> None:
    """Refuse to run from a folder that lacks a file which is in a folder around the descriptor.

    Raises:
        BatfillError: with the command that runs it from the innermost such folder.
    """
    missing = [path for path in command.missing() if not path.is_absolute()]
    for folder in descriptor.resolve().parents:
        if any((folder / path).exists() for path in missing):
            again = shlex.quote(str(descriptor.resolve().relative_to(folder)))
            raise BatfillError(
                f"{descriptor}: {missing[0]} is not in this folder, where a descriptor's paths begin; run it from the "
                f"folder that they are written for: cd {shlex.quote(str(folder))} && batfill run {again}"
            )


def plain_command(batcmd: str) -> SimulatorCommand:
    """The batcmd's files before bash reads it; none if it does more than start a simulator, or names none plainly."""
    words = split_words(batcmd)
    if not words or not PLAIN.match(words[0]) or any(sign in batcmd for sign in ";&|`"):
        return SimulatorCommand((), None, (), None)
    return parse_command(["batsim", *(word for word in words[1:] if "$" not in word)])


def making(workload: Path, form: int) -> str:
    """The command that makes this workload in this version's form: fetch a log of the archive, convert any other."""
    made, log = shlex.quote(str(workload)), f"{shlex.quote(workload.stem)}.swf.gz"
    option = " --format batsim5" if form == 5 else ""
    first = "" if workload.parent.exists() else f"mkdir -p {shlex.quote(str(workload.parent))} && "
    try:
        known = known_log(workload.stem)
    except WorkloadError:
        return f"{first}batfill workload convert {log}{option} --out {made}"
    if workload.name == f"{stem_of(Path(known.file))}.json" and not option:
        return f"batfill workload fetch {known.name} --convert --into {shlex.quote(str(workload.parent))}"
    fetched = f'"$(batfill workload fetch {known.name})"'
    return f"{first}batfill workload convert {fetched} --procs {known.processors}{option} --out {made}"


def making_platform(platform: Path, command: SimulatorCommand) -> str:
    """The command that makes this platform, as large as the largest workload says."""
    sizes = [nb_res_of(path) for path in command.workloads]
    hosts = max((size for size in sizes if size), default="N_HOSTS")
    return f"batfill platform {hosts} --out {shlex.quote(str(platform))}"


def nb_res_of(workload: Path) -> int | None:
    """The machine's size that a workload states; None if it cannot be read."""
    try:
        return read_members(workload).nb_res
    except WorkloadError:
        return None


def check_command(setting: Setting, context: ExecutionContext, command: SimulatorCommand) -> None:
    """Check that batcmd fits the engine and the schedcmd, and note what looks odd.

    Raises:
        BatfillError: it starts another simulator than the requested one, or does not fit the schedcmd.
    """
    batcmd = f"{setting.path}: batcmd"
    words = scheduler_words(setting)
    if context.protocol == 5 and words[:1] == ["pybatsim"] and ("batfill/scheduler" in words or pybatsim_version() < 4):
        raise BatfillError(
            f"{setting.path}: schedcmd starts pybatsim 3, which speaks to Batsim 4 only, and batcmd starts Batsim 5; "
            "start `batfill schedule` with the same options"
        )
    none = "load one with -l" if context.protocol == 5 else "add --no-sched"
    drop = "-l or -L" if context.protocol == 5 else "--no-sched"
    if setting.simulator == "embedded" and command.program != "batsim":
        raise BatfillError(f"{batcmd} starts {command.program or 'no batsim'} itself; write ${{BATSIM:-batsim}} for it")
    if context.external_scheduler and not setting.descriptor.schedcmd.strip():
        raise BatfillError(f"{batcmd} waits for a scheduler and schedcmd is empty; give one, or {none}")
    if not context.external_scheduler and setting.descriptor.schedcmd.strip():
        raise BatfillError(f"{batcmd} runs without a scheduler and schedcmd starts one; empty it or drop {drop}")
    if not Path(context.export_prefix).absolute().is_relative_to(setting.output_dir.absolute()):
        setting.notes.append(f"{batcmd} writes to {context.export_prefix}, which is not in the output-dir")


def scheduler_words(setting: Setting) -> list[str]:
    """The words of schedcmd; none if bash cannot read it, which it will report."""
    try:
        return shlex.split(setting.descriptor.schedcmd)
    except ValueError:
        return []


def pybatsim_version() -> int:
    """The major version of this Python's pybatsim; 4, the latest, if it has none."""
    return int(version("pybatsim").partition(".")[0]) if installed("batsim") else 4


def require_programs(setting: Setting) -> None:
    """Refuse to run without bash, or a schedcmd of pybatsim or batsched that is neither installed here nor on PATH.

    Raises:
        BatfillError: with the command that installs it, or stands for it.
    """
    if shutil.which("bash", path=setting.env["PATH"]) is None:
        raise BatfillError("bash is not on PATH, and runs both commands of a descriptor, as in robin; install it")
    words = scheduler_words(setting)
    program = words[0] if words else ""
    if program not in ("pybatsim", "batsched") or shutil.which(program, path=setting.env["PATH"]):
        return
    if program == "batsched":
        raise BatfillError(f"{setting.path}: schedcmd starts batsched, which is not on PATH; {in_its_place(words[1:])}")
    try:
        require("pybatsim", "batsim")
    except MissingExtra as error:
        raise MissingExtra(f"{setting.path}: schedcmd {on_command_line(error)}") from None


def in_its_place(arguments: Sequence[str]) -> str:
    """What a user writes in place of batsched with these arguments."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("-v", "--variant")
    parser.add_argument("-s", "--socket-endpoint")
    try:
        given, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError:
        given, others = argparse.Namespace(variant=None), []
    if given.variant not in BATSCHED:
        return f"batfill stands for its variants {', '.join(BATSCHED)} only"
    socket_option = f" -s {given.socket_endpoint}" if given.socket_endpoint else ""
    without = f", without its options {shlex.join(others)}" if others else ""
    return (
        f"write `batfill schedule {BATSCHED[given.variant]}{socket_option}` for the starts of its "
        f"{given.variant}{without}"
    )


def with_free_port(setting: Setting, context: ExecutionContext) -> Setting | None:
    """The setting with a free port in PORT_VARIABLE, if the run's port is in use and both commands read the variable.

    None if the port is free, if it is another machine's, or if the caller or the descriptor has chosen it.
    """
    descriptor = setting.descriptor
    open_to_choice = PORT_VARIABLE not in setting.env and all(
        re.search(rf"\$\{{?{PORT_VARIABLE}\b", text) for text in (descriptor.batcmd, descriptor.schedcmd)
    )
    if not (open_to_choice and context.port and is_here(context.endpoint) and is_listening(context.port)):
        return None
    with socket.create_server(("", 0)) as unused:
        port = unused.getsockname()[1]
    setting.say(f"port {context.port} is in use: this run takes {port}; {PORT_VARIABLE} chooses one")
    return replace(setting, env={**setting.env, PORT_VARIABLE: str(port)})


def wait_for_port(setting: Setting, port: int) -> None:
    """Wait until no process of this machine listens on the port.

    Raises:
        Stopped: one does for longer than the ready-timeout.
    """
    ready_timeout = setting.descriptor.ready_timeout
    if not setting.wait(lambda: not is_listening(port), ready_timeout):
        raise Stopped(
            1,
            f"port {port} is in use for longer than the ready-timeout of {ready_timeout:g} s; "
            "stop the process that listens there, or write another port in batcmd and schedcmd",
        )


def choose_engine(simulator: SimulatorChoice, environ: Mapping[str, str]) -> Engine:
    """The simulator to use: the caller's BATSIM, else a batsim on PATH, else (for "auto") the embedded one.

    Raises:
        BatfillError: Batsim is requested and not found, or there is no such simulator.
    """
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


def callers_batsim(engine: Engine, environ: Mapping[str, str]) -> tuple[list[str], int | None]:
    """The command that starts the caller's Batsim, and its major version; None if there is none, or it does not say."""
    try:
        words = shlex.split(environ["BATSIM"]) if engine == "environment" else ["batsim"]
    except ValueError:  # bash will report it
        return [], None
    program = shutil.which(words[0], path=environ.get("PATH", os.defpath)) if words else None
    if engine == "embedded" or program is None:
        return [], None
    words = [program, *words[1:]]
    return words, major_version(words, environ)


def behind_the_word(engine: Engine, environ: Mapping[str, str]) -> list[str]:
    """The words of BATSIM that `batsim` stands for in commands; none if it is a program on PATH or the embedded one."""
    words = environ["BATSIM"].split() if engine == "environment" else []
    return [] if words[:1] == ["batsim"] else words


def command_environment(
    engine: Engine,
    environ: Mapping[str, str],
    programs: Path,
    callers: Sequence[str] = (),
    batsim5: Whereabouts | None = None,
) -> dict[str, str]:
    """The environment of a run's commands: `environ` with our programs first on PATH, written into `programs`.

    BATSIM becomes the word `batsim` unless the caller's value is used: bash splits an unquoted variable at spaces, and
    a name looked up on PATH has none, whatever this Python's path. The word `batsim` starts the caller's BATSIM, too,
    unless that begins with this word.

    Args:
        engine: the simulator.
        environ: the caller's environment.
        programs: a folder.
        callers: the command that starts the caller's Batsim.
        batsim5: where Batsim 5 is, for which `batsim` then translates.

    Raises:
        BatfillError: programs cannot be run from that folder.
        RunFailed: they cannot be written.
    """
    ours = {**PROGRAMS, **(PYBATSIM if installed("batsim") else {}), **(EMBEDDED if engine == "embedded" else {})}
    ours |= {"batsim": TRANSLATOR} if batsim5 else {}
    commands = {name: [sys.executable, *arguments] for name, arguments in ours.items()}
    if callers and behind_the_word(engine, environ):
        commands.setdefault("batsim", list(callers))
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
    if engine != "environment" or batsim5:
        env["BATSIM"] = "batsim"
    if batsim5:
        env[VARIABLE] = batsim5.variable
    return env
