"""The address on which a scheduler listens, checked without ZeroMQ, which a simulation without one does not need."""

from __future__ import annotations

import re

PORT = re.compile(r"tcp://.+:(-?\d{1,18})")
HIGHEST_PORT = 65_535


def refuse_port(endpoint: str) -> None:
    """Refuse a port that a TCP endpoint cannot have: ZeroMQ would silently use another."""
    port = PORT.fullmatch(endpoint)
    if port and not 1 <= int(port[1]) <= HIGHEST_PORT:
        raise ValueError(f"{endpoint}: a port is a number from 1 to {HIGHEST_PORT}")
