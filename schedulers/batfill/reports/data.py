"""A run's jobs in the format of the page's script."""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.batsim.results import STATES, prefix_of
from batfill.reports.packing import packed
from batfill.reports.sample import curves, rows_of, span_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill.reports.runs import ReportedRun
    from batfill.reports.sample import Sample

PROBABILITY_UNITS = 10_000  # of a probability in the page
USED_UNITS, WAITING_UNITS = 10_000, 100  # of the utilisation and of a waiting job in the curves of all jobs


def run_data(run: ReportedRun, number: int, tau_s: float, sample: Sample | None = None) -> str:
    """A script element that holds JSON: the run's head, its columns of numbers and its ids.

    With a sample the columns are of its jobs; `drawn` says which were drawn at random, and `used` and `waiting` are
    curves of all jobs over the time `from` to `to`. A rejected job waits and runs 0 s and has no machine; a job without
    a walltime has -1 s. Columns unknown for all jobs are absent; other unknown values are -1.
    """
    of_all: dict[str, NDArray[Any]] = {}
    span: dict[str, float] = {}
    if sample is not None:
        used, waiting = curves(run)
        of_all = {"used": (used * USED_UNITS).round(), "waiting": (waiting * WAITING_UNITS).round()}
        span = dict(zip(("from", "to"), span_s(run), strict=True))
        run = rows_of(run, sample.rows)
        of_all["drawn"] = sample.drawn
    machines, facts = run.machines, run.facts
    known: dict[str, NDArray[Any]] = {
        "user": facts.user,
        "backfilled": facts.backfilled,
        "small": facts.small,
        "probability": np.nan_to_num(facts.probability * PROBABILITY_UNITS, nan=-1.0).round(),
        "divider": np.nan_to_num(facts.divider_s, nan=-1.0),
    }
    numbers = packed(
        {
            "submit": run.submit_s,
            "wait": np.nan_to_num(run.wait_s),
            "runtime": np.nan_to_num(run.runtime_s),
            "walltime": np.where(np.isinf(run.walltime_s), -1.0, run.walltime_s),
            "procs": run.procs,
            "state": run.state,
            "attempt": run.attempt,
            **{name: column for name, column in known.items() if (column >= 0).any()},
            "offset": machines.offset,
            "first": machines.first,
            "span": machines.last - machines.first,
            **of_all,
        }
    )
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    ids = deflate.compress("\n".join(run.ids).encode()) + deflate.flush()
    head = {
        "name": run.title,
        "size": run.size,
        "tau": tau_s,
        "states": tuple(STATES.values()),
        "clock": run.about.clock.as_dict() if run.about.clock else None,
        "file": prefix_of(run.path).name,
        **span,
        "ids": base64.b64encode(ids).decode(),
        "numbers": numbers,
    }
    text = json.dumps(head, separators=(",", ":")).replace("<", "\\u003c")  # a name must not end the element
    return f'<script type="application/json" data-run="{number}">{text}</script>'
