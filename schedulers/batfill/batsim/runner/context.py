"""Inspects a batcmd before the run: Batsim's `--dump-execution-context`, the command as bash expands it, its port."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, NamedTuple

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


class ExecutionContext(NamedTuple):
    """Batsim's execution context, printed before a run."""

    endpoint: str  # of the socket, as Batsim connects to it
    port: int | None  # None if it is not a TCP socket
    export_prefix: str
    external_scheduler: bool


def parse_context(stdout: str) -> ExecutionContext | None:
    """The context in the dump's output: its last line that is a JSON object, or all of it; None if there is none."""
    for text in (*reversed(stdout.splitlines()), stdout):
        try:
            context: Any = json.loads(text)
            endpoint, prefix = context["socket_endpoint"], context["export_prefix"]
            external = context["external_scheduler"]
        except (ValueError, TypeError, KeyError):
            continue
        return ExecutionContext(str(endpoint), port_of(str(endpoint)), str(prefix), bool(external))
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
    """The files given with Batsim's options -w and -p, in short or long form, joined or separate."""
    at = next((i for i, word in enumerate(words) if PROGRAM.fullmatch(Path(word).name)), None)
    rest = iter(words if at is None else words[at + 1 :])
    values: dict[str, list[Path]] = {"w": [], "p": []}
    for word in rest:
        match = re.fullmatch(r"(?:--(?:workload|platform)|-([wp]))(?:=?(.+))?", word, re.DOTALL)
        if match and (path := match[2] or next(rest, "")):
            values[match[1] or word[2]].append(Path(path))
    return SimulatorCommand(
        words=tuple(words),
        program=None if at is None else words[at],
        workloads=tuple(values["w"]),
        platform=values["p"][-1] if values["p"] else None,
    )


def port_of(endpoint: str) -> int | None:
    """The TCP port of a ZeroMQ endpoint such as tcp://localhost:28000; None if it has none (ipc, inproc)."""
    match = re.fullmatch(r"tcp://.*:(\d+)", endpoint.strip())
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
