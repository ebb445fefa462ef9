"""Which TCP ports of this machine are taken, as the kernel's own tables say it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

LISTEN = "0A"


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
