"""Inspects a batcmd before the run: Batsim's `--dump-execution-context`, the command as bash expands it, its port."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill.base.files import loaded_json
from batfill.batsim_files.results import JOBS_CSV, JOBS_CSV_5

if TYPE_CHECKING:
    from collections.abc import Iterable

DUMP = "--dump-execution-context"
PROGRAM = re.compile(r"batsim(:[\w.-]+)?")  # a command's name, or a container image's with its tag
HERE = ("localhost", "*", "0.0.0.0", "[::]", "[::1]")  # hosts in endpoints
SOCKET = re.compile(r"socket:\[(\d+)\]")  # what a handle in /proc/PID/fd points to
LISTEN = "0A"  # a socket's state in the kernel's tables


class SimulatorCommand(NamedTuple):
    """The simulator's command line, every variable expanded."""

    words: tuple[str, ...]
    program: str | None  # its name or path; None if the command starts it under another name
    workloads: tuple[Path, ...]
    platform: Path | None

    def missing(self) -> list[Path]:
        """The files among these that do not exist, workloads first."""
        files = (*self.workloads, *([self.platform] if self.platform else []))
        return [path for path in files if not path.exists()]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the program; none if it is not known."""
        return self.words[self.words.index(self.program) + 1 :] if self.program else ()


class ExecutionContext(NamedTuple):
    """Batsim's execution context, printed before a run."""

    endpoint: str  # of the socket, as Batsim connects to it; "" if it connects to none
    port: int | None  # None if it is not a TCP socket
    export_prefix: str
    external_scheduler: bool
    protocol: int  # the version of Batsim that will run: 4 or 5

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
        return ExecutionContext(str(endpoint), port_of(str(endpoint)), str(prefix), bool(external), protocol)
    return None


def parse_trace(trace: str) -> SimulatorCommand:
    """The simulator's command line in the trace that `bash -x` printed during the dump."""
    for line in reversed(trace.splitlines()):
        if line.startswith("+") and line.endswith(f" {DUMP}"):
            return parse_command(split_words(line.lstrip("+").strip())[:-1])
    return SimulatorCommand((), None, (), None)


def split_words(line: str) -> list[str]:
    """The words of a traced command, which bash prints quoted."""
    try:
        return shlex.split(line)
    except ValueError:  # a $'...' with an escaped quote, which shlex does not support
        return line.split()


def parse_command(words: list[str]) -> SimulatorCommand:
    """The files given with Batsim's options -w and -p, in short or long form, joined or separate.

    Batsim 5 takes several workloads after one -w.
    """
    at = next((i for i, word in enumerate(words) if PROGRAM.fullmatch(Path(word).name)), None)
    values: dict[str, list[Path]] = {"w": [], "p": []}
    taking: list[Path] | None = None
    for word in words if at is None else words[at + 1 :]:
        match = re.fullmatch(r"(?:--(?:workload|platform)|-([wp]))(?:=?(.+))?", word, re.DOTALL)
        if match:
            taking = values[match[1] or word[2]]
            if match[2]:
                taking.append(Path(match[2]))
        elif word.startswith("-"):
            taking = None
        elif taking is not None and word:
            taking.append(Path(word))
    return SimulatorCommand(
        words=tuple(words),
        program=None if at is None else words[at],
        workloads=tuple(values["w"]),
        platform=values["p"][-1] if values["p"] else None,
    )


def port_of(endpoint: str) -> int | None:
    """The TCP port of a ZeroMQ endpoint such as tcp://localhost:28000; None if it has none (ipc, inproc)."""
    match = re.fullmatch(r"tcp://.*:([0-9]{1,5})", endpoint.strip())
    return int(match[1]) if match else None


def is_here(endpoint: str) -> bool:
    """Whether a TCP endpoint is certainly an address of this machine."""
    match = re.fullmatch(r"tcp://(.*):\d+", endpoint.strip())
    return match is not None and (match[1] in (*HERE, gethostname()) or match[1].startswith("127."))


def listening() -> dict[str, int]:
    """The TCP ports on which processes of this machine listen, at any of its addresses, by their socket's inode."""
    ports = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):  # a kernel without IPv6 has no second table
            for row in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, _, _, inode, *_ = row.split()
                if state == LISTEN:
                    ports[inode] = int(local.rpartition(":")[2], 16)
    return ports


def is_listening(port: int) -> bool:
    """Whether a process of this machine listens on this port, at any of its addresses."""
    return port in listening().values()


def ports_of(pids: Iterable[int]) -> list[int]:
    """The TCP ports on which these processes listen, in ascending order."""
    ports = listening()
    found = set()
    for pid in pids:
        with suppress(OSError):  # it has ended, or is another user's
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    inode = SOCKET.fullmatch(str(handle.readlink()))
                    if inode and inode[1] in ports:
                        found.add(ports[inode[1]])
    return sorted(found)
