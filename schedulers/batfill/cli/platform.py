"""`batfill platform`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from batfill.cli.parameters import JSON, former_option, out_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("hosts", metavar="N", type=int)
@out_option("Write to this file instead of standard output.")
@former_option("--output", instead="--out")
@JSON
def platform(hosts: int, out: Path | None, as_json: bool) -> None:
    """Print the SimGrid platform of a cluster of N equal hosts, without latency, as Batsim reads it.

    N hosts compute; the master host is one more.
    """
    import json

    from batfill.batsim.platform import homogeneous_platform
    from batfill.workloads.files import write_text

    text = homogeneous_platform(hosts)
    if out is not None:
        write_text(out, text)
    if as_json:
        print(json.dumps({"hosts": hosts, "file": str(out)} if out else {"hosts": hosts, "platform": text}, indent=1))
    elif out is None:
        print(text, end="")
