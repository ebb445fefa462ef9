"""A campaign as comparisons: for each workload its choices of options, on the same windows and resamplings."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.errors import BatfillError, require
from batfill.base.version import ENGINE
from batfill.model.option_texts import policy_words
from batfill_pages.comparison import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
MADE = ("workload", "procs", "overrun", "unrequested", "tau_s", "version")


class CampaignParts(NamedTuple):
    """What a page says of a campaign."""

    comparisons: list[Comparison]
    warnings: list[str]
    files: list[Path]  # with its rows


def campaign_parts(folder: Path) -> CampaignParts | None:
    """What a page says of the campaign in this folder; None if it has no row of one."""
    require("campaign", "pyarrow", "pydantic")
    from batfill_lab.campaigns.store import Store

    files = Store(folder).files()
    return CampaignParts(campaign_comparisons(folder), campaign_warnings(folder), files) if files else None


def campaign_comparisons(folder: Path) -> list[Comparison]:
    """A comparison per workload with several choices, finished or not, on the pieces that all of them ran on.

    A piece is a window of a resampling; if a choice ran on it several times (seeds), the mean counts. Pieces without
    jobs are left out.
    """
    from pyarrow import compute

    from batfill_lab.campaigns.store import CHOICE_COLUMNS, Store

    figures = [*MADE, *CHOICE_COLUMNS, "seed", "sample", "window", "rejected", "mean_bsld", "mean_wait_s", "max_wait_s"]
    some_ran = compute.field("jobs") > compute.field("rejected")
    table = Store(folder).rows().filter(some_ran).select(figures)
    workloads: dict[str, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        workloads[row["workload"]].append(row)
    found = [c for name, rows in workloads.items() if (c := compared_choices(name, rows))]
    if not found:
        raise BatfillError(f"{folder}: no two choices of options ran on the same jobs; give the campaign more policies")
    return found


def campaign_warnings(folder: Path) -> list[str]:
    """Reasons to doubt the figures, by log, from the campaign's `provenance.json`; none without that file."""
    from batfill_lab.campaigns.provenance import FILE

    try:
        inputs = json.loads((folder / FILE).read_bytes())["inputs"]
        return [f"{Path(one['file']).name}: {text}" for one in inputs for text in one.get("warnings", ())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def compared_choices(workload: str, rows: list[Row]) -> Comparison | None:
    """The choices of one workload; None if no two share a piece."""
    from batfill_lab.campaigns.store import options_of, options_text

    runs: dict[str, dict[tuple[int, ...], list[Row]]] = defaultdict(lambda: defaultdict(list))
    words: dict[str, tuple[str, str]] = {}
    for row in rows:
        name = options_text(row)
        runs[name][piece(row)].append(row)
        words[name] = policy_words(options_of(row))
    shared = sorted(set.intersection(*(set(pieces) for pieces in runs.values())))
    if len(runs) < 2 or not shared:
        return None

    def figures(name: str, over_seeds: Callable[[list[float]], float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array(
            [[over_seeds([row[name] or 0.0 for row in pieces[one]]) for one in shared] for pieces in runs.values()],
            np.float64,
        )

    def values_of(name: str, form: str = "{}") -> str:
        return ", ".join(dict.fromkeys(form.format(row[name]) for row in rows if row[name] is not None))

    each, lost = np.arange(len(shared)), figures("rejected", np.mean).sum(axis=1)
    most, least = (f"{lost[k]:,.0f} under {list(runs)[k]}" for k in (lost.argmax(), lost.argmin()))
    unlike = f"choices rejected different numbers of jobs, which are in no mean: most {most}, fewest {least}"
    machine = f" on {values_of('procs', '{:,}')} processors" if values_of("procs") else ""
    return Comparison(
        title=f"{workload}{machine}: {len(runs)} choices on {len(shared):,} pieces",
        made=(
            ("log", f"{workload}{machine}"),
            ("engine", f"{ENGINE} {values_of('version')}"),
            ("tau", f"{values_of('tau_s', '{:g}')} s"),
            ("overrun", values_of("overrun")),
            ("unrequested", values_of("unrequested")),
        ),
        warnings=(unlike,) if lost.max() > lost.min() else (),
        log=workload,
        about=f"{len(shared):,} windows and resamplings{machine}, on which each choice ran",
        items="pieces",
        names=tuple(runs),
        words=tuple(words.values()),
        axis="pieces, in order",
        at=np.arange(1.0, len(shared) + 1),
        bsld=figures("mean_bsld", np.mean),
        wait_s=figures("mean_wait_s", np.mean),
        max_wait_s=figures("max_wait_s", max),
        periods="pieces",
        period=each,
        blocks="pieces",
        block=each,
    )


def piece(row: Row) -> tuple[int, ...]:
    """The resampling (seed and number) and window that were run; -1 if there is none."""
    resampled = row["sample"] is not None
    return tuple(-1 if x is None else x for x in (row["seed"] if resampled else None, row["sample"], row["window"]))
