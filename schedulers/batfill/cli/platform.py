"""`batfill platform`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def platform(
    hosts: Annotated[int, typer.Argument(metavar="N", help="How many hosts compute; the master host is one more.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
    ] = None,
) -> None:
    """Print the SimGrid platform of a cluster of N equal hosts, without latency, as Batsim reads it."""
    from batfill.batsim.platform import homogeneous_platform
    from batfill.workloads.files import write_text

    text = homogeneous_platform(hosts)
    if output is None:
        print(text, end="")
    else:
        write_text(output, text)
