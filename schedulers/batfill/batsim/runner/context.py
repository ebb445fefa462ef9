"""What a batcmd will do: Batsim's own `--dump-execution-context`, the command as bash expands it, and its port."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

DUMP = "--dump-execution-context"
PROGRAM = re.compile(r"batsim(:[\w.-]+)?")  # a command's name, or a container image's with its tag
LISTEN = "0A"  # a socket's state in the kernel's tables


class SimulatorCommand(NamedTuple):
    """The simulator's command line, every variable expanded."""

    words: tuple[str, ...]
    program: str | None  # its name or path; None where the command starts it under another name
    workloads: tuple[Path, ...]
    platform: Path | None


class ExecutionContext(NamedTuple):
    """What Batsim says of itself before it runs."""

    endpoint: str  # of the socket, as Batsim connects to it
    port: int | None  # None where it is no TCP socket
    export_prefix: str
    external_scheduler: bool


def parse_context(stdout: str) -> ExecutionContext | None:
    """The context in what the dump printed: the last line that is a JSON object, or the whole; None without one."""
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
    """The simulator's command line in what `bash -x` printed while it ran the dump."""
    for line in reversed(trace.splitlines()):
        if line.startswith("+") and line.endswith(f" {DUMP}"):
            return parse_command(split_words(line.lstrip("+").strip())[:-1])
    return SimulatorCommand((), None, (), None)


def split_words(line: str) -> list[str]:
    """The words of a traced command; bash quotes them as a shell reads them."""
    try:
        return shlex.split(line)
    except ValueError:  # a $'...' with an escaped quote, which shlex does not know
        return line.split()


def parse_command(words: list[str]) -> SimulatorCommand:
    """The files that these words name with Batsim's options -w and -p, short or long, joined or apart."""
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
    """The TCP port of a ZeroMQ endpoint such as tcp://localhost:28000; None where it has none (ipc, inproc)."""
    match = re.fullmatch(r"tcp://.*:(\d+)", endpoint.strip())
    return int(match[1]) if match else None


def is_listening(port: int) -> bool:
    """Whether some process of this machine waits for connections on this port, on any of its addresses."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):  # a kernel without IPv6 has no second table
            for row in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, *_ = row.split()
                if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False
