"""Metrics of a schedule, computed the same way for every host. Times in seconds; every array has shape (n_jobs,)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from batfill.base.sums import mean_of
from batfill.base.tables import AsDict, label_html
from batfill.base.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

# The bound of the bounded slowdown: run times count as at least this long. 10 s in the papers on reordering and
# learning, 60 s in the one on classification.
TAU_S = 10.0
SLOWDOWN_CLASSES = (1.0, 10.0, 100.0)
# A job is delayed if it waits longer than in the base by more than this.
DELAY_S = 3600.0


class Bin(NamedTuple):
    """Jobs from above `low` up to `high`, of processors or seconds."""

    name: str
    low: float
    high: float

    def holds(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = (values > self.low) & (values <= self.high)
        return held


RUNTIME_BINS = (
    Bin("up to 1 min", -math.inf, 60),
    Bin("1–10 min", 60, 600),
    Bin("10 min–1 h", 600, 3600),
    Bin("1–6 h", 3600, 21_600),
    Bin("over 6 h", 21_600, math.inf),
)


def width_bins(procs: int) -> list[Bin]:
    """The bins of widths up to the machine's processors: 1, 2 to 4, 5 to 16, ... by powers of 4.

    Examples:
        >>> [one.name for one in width_bins(100)]
        ['1', '2–4', '5–16', '17–64', '65–100']
    """
    limits = [0, 1]
    while limits[-1] < procs:
        limits.append(min(4 * limits[-1], procs))
    return [
        Bin(f"{high:,}" if high == low + 1 else f"{low + 1:,}–{high:,}", low, high) for low, high in pairwise(limits)
    ]


def bounded_slowdown(
    wait_s: NDArray[np.float64], runtime_s: NDArray[np.float64], tau_s: float = TAU_S
) -> NDArray[np.float64]:
    """max((w + p) / max(p, tau), 1), with p the time the job ran. Source: Feitelson and Rudolph, JSSPP 1998."""
    return np.maximum((wait_s + runtime_s) / np.maximum(runtime_s, tau_s), 1.0)


def span_and_work(
    submit_s: NDArray[np.float64],
    start_s: NDArray[np.float64],
    runtime_s: NDArray[np.float64],
    procs: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The time from the first submission to the last end, and the processor-seconds; over the last axis of (..., n)."""
    span_s: NDArray[np.float64] = (start_s + runtime_s).max(axis=-1) - submit_s.min(axis=-1)
    return span_s, (procs * runtime_s).sum(axis=-1)


def utilisation(
    size: int,
    makespan_s: NDArray[np.float64] | float,
    used_proc_s: NDArray[np.float64] | float,
    away_proc_s: float = 0.0,
) -> NDArray[np.float64]:
    """The share of the available processors, of `size`, that is in use over this time; 0 if there are none."""
    there = size * np.asarray(makespan_s) - away_proc_s
    return np.where(there > 0, used_proc_s / np.where(there > 0, there, 1.0), 0.0)


def per_processor_slowdown(
    wait_s: NDArray[np.float64], runtime_s: NDArray[np.float64], procs: NDArray[np.int64], tau_s: float = TAU_S
) -> NDArray[np.float64]:
    """max((w + p) / (q max(p, tau)), 1). Source: Zotkin and Keleher, HPDC 1999."""
    return np.maximum((wait_s + runtime_s) / (procs * np.maximum(runtime_s, tau_s)), 1.0)


def long_waits(wait_s: NDArray[np.float64]) -> dict[str, float]:
    """The 99.9 % quantile and the maximum of the waits: what a mean hides, and a user remembers. nan without jobs."""
    if not len(wait_s):
        return {"p999_wait_s": float("nan"), "max_wait_s": float("nan")}
    return {"p999_wait_s": float(np.quantile(wait_s, 0.999)), "max_wait_s": float(wait_s.max())}


def waits_of(wait_s: NDArray[np.float64], base_wait_s: NDArray[np.float64] | None = None) -> dict[str, Any]:
    """Who pays: the waits of some jobs, at least one, and how much longer they are than in a base.

    That is the number of `jobs`, the mean, the 99 and 99.9 % quantiles and the longest wait; with a base also the mean
    difference of the waits, the share of the jobs that wait over `DELAY_S` longer than there (`delayed`), and those
    jobs' mean difference, None if there are none.
    """
    p99_s, p999_s = np.quantile(wait_s, (0.99, 0.999)).tolist()
    figures = {
        "jobs": len(wait_s),
        "mean_wait_s": mean_of(wait_s),
        "p99_wait_s": p99_s,
        "p999_wait_s": p999_s,
        "max_wait_s": float(wait_s.max()),
    }
    if base_wait_s is None:
        return figures
    longer_s = wait_s - base_wait_s
    late = longer_s > DELAY_S
    return {
        **figures,
        "mean_longer_s": mean_of(longer_s),
        "delayed": float(late.mean()),
        "mean_delay_s": mean_of(longer_s[late]) if late.any() else None,
    }


def who_pays(
    wait_s: NDArray[np.float64],
    *,
    runtime_s: NDArray[np.float64],
    procs: NDArray[np.int64],
    user: NDArray[np.int64],
    small_below_s: float | NDArray[np.float64] | None = None,
    base_wait_s: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """The waits of small and large jobs, by width, and by user, -1 if unknown; see `waits_of`.

    Small jobs ran for less than `small_below_s`: one for all jobs, or one each, nan if unknown. By default that is the
    median run time of these jobs, and not a scheduler's divider, which moves with what it has seen: so every replay of
    a log has the same groups. Users come by the sum of the waits, less those in the base, largest first.
    """
    if not len(wait_s):
        return {"small_below_s": None, "waits_by_class": [], "waits_by_width": [], "waits_by_user": []}
    small_below_s = float(np.median(runtime_s)) if small_below_s is None else small_below_s
    kind = np.where(np.isnan(small_below_s), 2, runtime_s >= small_below_s).astype(np.int64)

    def rows(name: str, group: NDArray[np.int64], label: Callable[[int], Any]) -> list[dict[str, Any]]:
        order = np.argsort(group, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
        return [
            {
                name: label(int(group[one[0]])),
                **waits_of(wait_s[one], None if base_wait_s is None else base_wait_s[one]),
            }
            for one in members
        ]

    paid = "mean_wait_s" if base_wait_s is None else "mean_longer_s"
    users = rows("user", user, int)
    return {
        "small_below_s": small_below_s if np.ndim(small_below_s) == 0 else None,
        "waits_by_class": rows("class", kind, lambda k: ("small", "large", "unknown")[k]),
        "waits_by_width": rows("procs_up_to", width_class(procs), lambda width: 1 << width),
        "waits_by_user": sorted(users, key=lambda row: (-row[paid] * row["jobs"], row["user"])),
    }


def width_class(procs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least w with q <= 2^w, shape (n_jobs,)."""
    return np.ceil(np.log2(procs)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Summary(AsDict):
    """The figures of one run. Means and maxima cover the jobs that ran; rejected ones are only counted."""

    jobs: int  # submitted, rejected ones included
    rejected: int  # wider than the machine
    killed: int  # ended at their walltime, or killed by a scheduler that did not restart them
    requeued: int  # tries killed at the divider, or by a failure, and requeued
    backfilled: int  # started by backfilling
    makespan_s: float  # from the first submission to the last end
    utilisation: float  # processor-seconds used, killed tries included, over those available in the makespan
    wasted: float  # share of the used processor-seconds spent on tries killed and requeued
    mean_wait_s: float
    max_wait_s: float
    mean_turnaround_s: float
    mean_bsld: float
    max_bsld: float
    mean_pp_bsld: float
    share_bsld_1: float  # share of the jobs with bounded slowdown 1, in (1, 10], in (10, 100], and above
    share_bsld_10: float
    share_bsld_100: float
    share_bsld_above: float

    def _repr_html_(self) -> str:
        return label_html(figure_rows(self.as_dict(), of_replay=True))


def summarize(
    *,
    size: int,
    submit_s: NDArray[np.float64],
    start_s: NDArray[np.float64],
    runtime_s: NDArray[np.float64],
    procs: NDArray[np.int64],
    counted: NDArray[np.bool_] | None = None,
    tau_s: float = TAU_S,
    rejected: int = 0,
    killed: int = 0,
    backfilled: int = 0,
    requeued: int = 0,
    wasted_proc_s: float = 0.0,
    away_proc_s: float = 0.0,
) -> Summary:
    """The figures of a run from the jobs that ran.

    Args:
        size: the machine's processors.
        submit_s: r, the original one of a requeued job.
        start_s: start of the final try.
        runtime_s: run time of the final try.
        procs: q.
        counted: those of them that figures count, by default all; the others only use processors.
        tau_s: the bound of the bounded slowdown.
        rejected: jobs that never ran.
        killed: jobs whose final try was killed, see `Summary`.
        backfilled: jobs started by backfilling.
        requeued: tries killed at the divider, or by a failure.
        wasted_proc_s: processor-seconds of those tries.
        away_proc_s: processor-seconds that were unavailable from the first submission to the last end.
    """
    counted = np.ones(len(submit_s), bool) if counted is None else counted
    if not counted.any():
        return Summary(rejected, rejected, *([0] * 3), *([0.0] * 13))
    makespan_s, used_proc_s = (float(each) for each in span_and_work(submit_s, start_s, runtime_s, procs))
    used_proc_s += wasted_proc_s
    wait_s, runtime_s, procs = (start_s - submit_s)[counted], runtime_s[counted], procs[counted]
    bsld = bounded_slowdown(wait_s, runtime_s, tau_s)
    classes = np.bincount(np.searchsorted(SLOWDOWN_CLASSES, bsld), minlength=4) / len(bsld)
    return Summary(
        jobs=len(wait_s) + rejected,
        rejected=rejected,
        killed=killed,
        requeued=requeued,
        backfilled=backfilled,
        makespan_s=makespan_s,
        utilisation=float(utilisation(size, makespan_s, used_proc_s, away_proc_s)),
        wasted=wasted_proc_s / used_proc_s if used_proc_s > 0 else 0.0,
        mean_wait_s=mean_of(wait_s),
        max_wait_s=float(wait_s.max()),
        mean_turnaround_s=mean_of(wait_s + runtime_s),
        mean_bsld=mean_of(bsld),
        max_bsld=float(bsld.max()),
        mean_pp_bsld=mean_of(per_processor_slowdown(wait_s, runtime_s, procs, tau_s)),
        share_bsld_1=float(classes[0]),
        share_bsld_10=float(classes[1]),
        share_bsld_100=float(classes[2]),
        share_bsld_above=float(classes[3]),
    )


def figure_rows(
    figures: Mapping[str, float], tau_s: float = TAU_S, *, of_replay: bool = False
) -> list[tuple[str, str]]:
    """A run's figures in words, as rows of (label, text).

    `of_replay` includes what only the replay engine knows for certain, such as how each job was started.
    """
    f = figures
    at_walltime = " at their walltime" if of_replay else ""  # under Batsim the scheduler may also kill jobs
    per_processor = f"; per processor {f['mean_pp_bsld']:,.4f}" if of_replay else ""
    rows = {
        "jobs": f"{f['jobs']:,} ({f['rejected']:,} rejected, {f['killed']:,} killed{at_walltime})",
        "backfilled": f"{f['backfilled']:,}" if of_replay else "",
        "requeued": f"{f['requeued']:,} tries killed ({f['wasted']:.2%} of the work)" if f["requeued"] else "",
        "makespan": duration(f["makespan_s"]),
        "utilisation": f"{f['utilisation']:.2%}" if "utilisation" in f else "",
        "mean wait": f"{duration(f['mean_wait_s'])} (longest {duration(f['max_wait_s'])})",
        "mean bsld": f"{f['mean_bsld']:,.4f} (tau {tau_s:g} s{per_processor})",
        "jobs by bsld": f"{f['share_bsld_1']:.1%} at 1, {f['share_bsld_10']:.1%} up to 10, "
        f"{f['share_bsld_100']:.1%} up to 100, {f['share_bsld_above']:.1%} above"
        if of_replay
        else "",
    }
    if not of_replay:
        rows["utilisation"] = rows.pop("utilisation")
    return [(label, text) for label, text in rows.items() if text]
