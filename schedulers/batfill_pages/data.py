"""A run's jobs in the format of the page's script.

Columns of numbers are compact: integers in the smallest type, deflated, in base64. `assets/columns.js`
reads them.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.words import percent
from batfill.batsim_files.results import prefix_of
from batfill.model.option_texts import policy_words
from batfill.model.states import STATES
from batfill.model.values import finite
from batfill_pages.panels import panels, take_name
from batfill_pages.sample import curves_of_all, only_rows, span_s, taken
from batfill_pages.single import course, longest_waits, order_share
from batfill_pages.uses import amounts_of
from batfill_pages.words import script_json, units_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from batfill_pages.runs import ReportedRun
    from batfill_pages.sample import Sample
    from batfill_pages.single import LongWait
    from batfill_pages.uses import Uses

INTEGER_TYPES = ("i1", "i2", "i4")
PROBABILITY_UNITS = 10_000  # of a probability in the page
USED_UNITS, WAITING_UNITS = 10_000, 100  # of the utilisation and of a waiting job in the curves of all jobs


def run_data(run: ReportedRun, uses: Uses, tau_s: float, sample: Sample | None = None) -> str:
    """JSON for a script element: the run's head, its columns of numbers, and its ids unless these are numbers.

    With a sample the columns are of its jobs; `drawn` says which were drawn at random, and `used` and `waiting` are
    curves of all jobs over the time `from` to `to`. `course`, `panels` and `waits` are the picture of the whole run. A
    rejected job waits and runs 0 s and has no machine; a job without a walltime has -1 s. Columns unknown for all jobs
    are absent; other unknown values are -1. `asked` is the log's request where the walltime is another, and 0 for none.
    """
    over_time = course(run)
    begun = {
        "course": {
            "begin": over_time.begin_s,
            "step": over_time.step_s,
            "queue": over_time.queue.tolist(),
            "used": over_time.used.round(3).tolist(),
        },
        "panels": panels(uses, over_time.edges_s),
        "waits": [wait_data(run, wait) for wait in longest_waits(run)],
    }
    of_all: dict[str, NDArray[Any]] = {}
    span: dict[str, float] = {}
    if sample is not None:
        used, waiting = curves_of_all(run)
        of_all = {"used": (used * USED_UNITS).round(), "waiting": (waiting * WAITING_UNITS).round()}
        span = dict(zip(("from", "to"), span_s(run), strict=True))
        run = only_rows(run, sample.rows)
        of_all["drawn"] = sample.drawn
    machines, facts = run.machines, run.facts
    known: dict[str, NDArray[Any]] = {
        "user": facts.user,
        "backfilled": facts.backfilled,
        "small": facts.small,
        "probability": np.nan_to_num(facts.probability * PROBABILITY_UNITS, nan=-1.0).round(),
        "divider": np.nan_to_num(facts.divider_s, nan=-1.0),
        "asked": np.nan_to_num(facts.asked_s, nan=-1.0, posinf=0.0),
        "urgent": np.where(facts.urgent, 1, -1),
        "stopped": facts.stopped,
        "kept": np.where(facts.kept_s > 0, facts.kept_s, -1.0),
    }
    takes = [(pool, amounts_of(run, pool)) for pool in run.about.pools]
    digits = digits_of(run.ids.tolist())
    numbers = packed(
        {
            **({"id": run.ids.astype(np.int64)} if digits else {}),
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
            **{take_name(pool): amounts for pool, amounts in takes if pool.each is None and amounts is not None},
        }
    )
    head = {
        "name": run.title,
        "size": run.size,
        "tau": tau_s,
        "states": tuple(STATES.values()),
        "clock": run.about.clock.as_dict() if run.about.clock else None,
        "file": prefix_of(run.path).name,
        "easy": run.about.plain_easy,
        "limits": run.about.limits,
        "overdue": finite(run.about.overdue_s),
        **begun,
        **span,
        **({"away": away, "service": in_service(run)} if (away := run.about.windows_of()) else {}),
        **({"digits": digits} if digits else {"ids": deflated("\n".join(run.ids).encode())}),
        "numbers": numbers,
    }
    return script_json(head)


def in_service(run: ReportedRun) -> list[list[float]]:
    away = taken(run)
    return [[span_s(run)[0], 100.0], *np.column_stack([away.at_s, 100 * (1 - away.level / run.size)]).tolist()]


def digits_of(ids: list[str]) -> int:
    """With how many digits at least the ids are the decimal numbers that they are; 0 if not all are such numbers."""
    together, lengths = "".join(ids), set(map(len, ids))
    if not (together.isascii() and together.isdigit()) or max(lengths) >= 10:
        return 0
    digits = min(lengths)
    return digits if len(lengths) == 1 or all(len(one) == digits or one[0] != "0" for one in ids) else 0


def wait_data(run: ReportedRun, wait: LongWait) -> dict[str, Any]:
    """One of the longest waits; `later` counts all jobs, also those that the page does not hold."""
    share, row = order_share(run, wait.row), wait.row
    said = {"job": run.ids[row], "submit": run.submit_s[row], "start": run.start_s[row]}
    said |= {"later": wait.later, "late": wait.late}
    if share is None:
        return said
    order = policy_words(run.about.given["policy"])[0]
    return said | {"place": units_kept(f"{order} puts {percent(share)} of all jobs before it")}


def packed(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The columns as JSON: `data` in base64, and each column's `name`, `type` and `length`.

    Whole numbers become the smallest of int8, int16, int32 that holds them; everything else becomes float64. Bytes of
    equal significance are adjacent, which deflates better.
    """
    parts, heads = [], []
    for name, column in columns.items():
        stored = smallest(column)
        planes = stored.view(np.uint8).reshape(len(stored), stored.itemsize).T
        parts.append(planes.tobytes())
        heads.append({"name": name, "type": stored.dtype.str[1:], "length": len(stored)})
    return {"columns": heads, "data": deflated(b"".join(parts))}


def deflated(data: bytes) -> str:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)  # 9 takes six times as long for 1 % less
    return base64.b64encode(deflate.compress(data) + deflate.flush()).decode()


def smallest(column: NDArray[Any]) -> NDArray[Any]:
    if np.isfinite(column).all() and (column == np.floor(column)).all():
        for kind in INTEGER_TYPES:
            limits = np.iinfo(kind)
            if limits.min <= column.min(initial=0) and column.max(initial=0) <= limits.max:
                return column.astype(f"<{kind}")
    return column.astype("<f8")
