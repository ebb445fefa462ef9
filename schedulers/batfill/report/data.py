"""A run's jobs as the page's script reads them."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING

import numpy as np

from batfill.report.packing import packed
from batfill.report.runs import STATE_WORDS

if TYPE_CHECKING:
    from batfill.report.runs import Run


def run_data(run: Run, number: int, tau_s: float) -> str:
    """A script element that holds JSON: the run's head, its columns of numbers and its ids.

    A rejected job waits and runs 0 s and has no machine; a job without a walltime asks for -1 s.
    """
    machines = run.machines
    numbers = packed(
        {
            "submit": run.submit_s,
            "wait": np.nan_to_num(run.wait_s),
            "runtime": np.nan_to_num(run.runtime_s),
            "walltime": np.where(np.isinf(run.walltime_s), -1.0, run.walltime_s),
            "procs": run.procs,
            "state": run.state,
            "attempt": run.attempt,
            "overtook": run.overtook,
            "offset": machines.offset,
            "first": machines.first,
            "span": machines.last - machines.first,
        }
    )
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    ids = deflate.compress("\n".join(run.ids).encode()) + deflate.flush()
    head = {
        "name": run.name,
        "size": run.size,
        "tau": tau_s,
        "states": STATE_WORDS,
        "ids": base64.b64encode(ids).decode(),
        "numbers": numbers,
    }
    text = json.dumps(head, separators=(",", ":")).replace("<", "\\u003c")  # a name must not end the element
    return f'<script type="application/json" data-run="{number}">{text}</script>'
