"""Reports a log's contents and defects, from which to decide whether and how to clean it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.files import digest
from batfill.base.words import duration, wrapped
from batfill.model.jobs import WEEK_S, request_warning, size_warnings
from batfill.workloads.cleaning import CLEANING_RULES, header_filters, matching
from batfill.workloads.formats import load_log
from batfill.workloads.swf import machine_size, runs, size_notes
from batfill.workloads.swf_log import CANCELLED, COMPLETED, FAILED, PARTIAL, UNKNOWN_STATUS, SwfLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

LONGEST_SPAN_S = 5_000 * WEEK_S  # a century: longer than any log, and short enough to list
PREMATURE = 100  # a job is premature if its request is at least this many times its run time (CCGrid 2019, section V.C)
NO_DATES = "dates unknown (the header has no UnixStartTime)"
SAID = ("Version", "Computer", "Installation", "Acknowledge", "TimeZoneString", "MaxProcs", "MaxNodes", "UnixStartTime")


def describe(
    path: Path,
    *,
    procs: int | None = None,
    speed: float | str | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The report on the log in `path`, as `--json` prints it: numbers, shares between 0 and 1, seconds.

    Without `procs`, or a size in the log, no load is reported.
    """
    log = load_log(path, speed=speed, advance=advance)
    filters = filters_report(log)
    size = machine_size(path, log, procs)
    ran = runs(log)
    if not ran.any():
        raise WorkloadError(f"{path}: none of {len(log)} rows is a job that ran; is it an SWF log?")
    without = int((ran & ~(log["requested_s"] > 0)).sum())
    columns = log["submit_s"][ran], log["runtime_s"][ran], log.needed_procs[ran]
    warnings = [*request_warning(without, int(ran.sum()))]
    in_header, removed = log.header_number("MaxRecords"), sum(one["removed"] for one in filters)
    if in_header not in (None, len(log), len(log) + removed):
        warnings.append(f"the header says {in_header:,} records, and the file has {len(log):,}; is it complete?")
    if size is not None:
        warnings += size_warnings(*columns, size)
    return {
        "source": path.name,
        "sha256": digest(path),
        "known": log.known.name if log.known else None,
        "warnings": warnings,
        "header": {name: value for name in SAID if (value := log.header_value(name))},
        "procs": size,
        "procs_notes": list(size_notes(log, procs)),
        "rows": len(log),
        "jobs": int(ran.sum()),
        "users": _different(log["user"]),
        "groups": _different(log["group"]),
        "time": time_report(log, ran),
        "load": load_report(log, ran, size) if size else None,
        "quality": quality_report(log, ran, size),
        "premature": premature_report(log),
        "cleaning": {  # the rows that each rule alone would drop; None if it needs the unknown size of the machine
            name: None if name == "wide" and size is None else int(rule(log, size).sum())
            for name, rule in CLEANING_RULES.items()
        },
        "filters": filters,
    }


def time_report(log: SwfLog, ran: NDArray[np.bool_]) -> dict[str, Any]:
    """The submission times: seconds on the log's clock, and dates if the header gives them."""
    submit_s = log["submit_s"][ran]
    first, last = float(submit_s.min()), float(submit_s.max())
    report: dict[str, Any] = {"first_submit_s": first, "last_submit_s": last, "weeks": (last - first) / WEEK_S}
    clock = log.clock
    if clock and last < LONGEST_SPAN_S:
        report |= {"first_submit": clock.date(first).isoformat(), "last_submit": clock.date(last).isoformat()}
        offset = clock.date(first).utcoffset()
        report["utc_offset_s"] = offset.total_seconds() if offset is not None else None
    return report


def load_report(log: SwfLog, ran: NDArray[np.bool_], procs: int) -> dict[str, Any]:
    """Submitted area over available area, for the whole span and each week; the last week may be short."""
    submit_s = log["submit_s"][ran]
    area = log["runtime_s"][ran] * log.needed_procs[ran]
    since = submit_s - submit_s.min()
    span_s = float(since.max())
    if span_s > LONGEST_SPAN_S:
        raise WorkloadError(f"submissions span {span_s / WEEK_S:.0f} weeks; fix the submission times")
    per_week = np.bincount((since // WEEK_S).astype(np.int64), weights=area) / (procs * WEEK_S)
    return {
        "overall": float(area.sum()) / (procs * span_s) if span_s else None,
        "per_week": [round(float(load), 4) for load in per_week],
    }


def quality_report(log: SwfLog, ran: NDArray[np.bool_], procs: int | None) -> dict[str, Any]:
    """Defects to decide about; counts are of all rows, shares are of the jobs that ran."""
    requested = log["requested_s"] > 0
    any_requested = bool((ran & requested).any())
    over = ran & requested & (log["runtime_s"] > log["requested_s"])
    by_reaching = ran & requested & (log["runtime_s"] == log["requested_s"])
    status = log["status"]
    others = ~np.isin(status, [UNKNOWN_STATUS, *range(FAILED, CANCELLED + 1)])
    codes, of_code = np.unique(status[others], return_counts=True)
    numbers, times_used = np.unique(log["job"], return_counts=True)
    return {
        "without_estimate": _share(ran & ~requested, ran),
        "overruns": int(over.sum()) if any_requested else None,
        "overrun_share": _share(over, ran & requested) if any_requested else None,
        "ran_exactly_the_request": int(by_reaching.sum()) if any_requested else None,
        "completed": int((status == COMPLETED).sum()),
        "failed": int((status == FAILED).sum()),
        "cancelled": int((status == CANCELLED).sum()),
        "partial_executions": int(np.isin(status, range(PARTIAL, CANCELLED)).sum()),
        "unknown_status": int((status == UNKNOWN_STATUS).sum()),
        "other_status": int(others.sum()),
        "other_status_codes": dict(zip([f"{code:g}" for code in codes], of_code.tolist(), strict=True)),
        "run_time_not_positive": int((~(log["runtime_s"] > 0)).sum()),
        "without_requested_procs": _share(ran & ~(log["requested_procs"] > 0), ran),
        "wider_than_machine": int((ran & (log.needed_procs > procs)).sum()) if procs else None,
        "without_user": int((log["user"] < 0).sum()),
        "job_numbers_used_again": int((times_used - 1)[numbers >= 0].sum()),
        "equal_rows": int(CLEANING_RULES["duplicates"](log, procs).sum()),
        "sorted_by_submission": bool((np.diff(log["submit_s"]) >= 0).all()),
    }


def premature_report(log: SwfLog) -> dict[str, Any]:
    """Premature jobs as both papers define them; rows without an estimate never count as premature.

    If no job has an estimate, `ccgrid` is None and `jpdc` empty.

    `ccgrid` is the share of jobs with p~ >= 100 p among those that ran. `jpdc` gives, for three choices of the rows
    that count (the paper does not say which), the divider (their median run time) and the shares of small jobs (p below
    the divider) that requested less than the divider, and at least the divider.
    """
    p, requested = log["runtime_s"], log["requested_s"]
    ran = p > 0
    if not (ran & (requested > 0)).any():
        return {"ccgrid": None, "jpdc": {}}
    populations = {"all_rows": np.ones(len(log), bool), "ran": ran, "completed": log["status"] == COMPLETED}
    jpdc = {}
    for name, rows in populations.items():
        if rows.any():
            small_below_s = float(np.median(p[rows]))
            small = rows & (p < small_below_s)
            jpdc[name] = {
                "small_below_s": small_below_s,
                "small_non_premature": _share(small & (requested < small_below_s), rows),
                "small_premature": _share(small & (requested >= small_below_s), rows),
            }
    return {"ccgrid": _share(ran & (requested >= PREMATURE * p), ran), "jpdc": jpdc}


def filters_report(log: SwfLog) -> list[dict[str, Any]]:
    """The filters that the header names: the jobs they removed, by the header, and the rows each would drop now.

    If `cleaning.matching` cannot parse a filter, `would_drop` is None and `not_understood` says why.
    """
    report: list[dict[str, Any]] = []
    for text, removed in header_filters(log.header):
        would_drop, why = None, None
        try:
            would_drop = int(matching(log, text).sum())
        except WorkloadError as error:
            why = error.on_command_line
        report.append({"filter": text, "removed": removed, "would_drop": would_drop, "not_understood": why})
    return report


def description_text(report: dict[str, Any]) -> str:
    time, load = report["time"], report["load"]
    known = f"  known as {report['known']}" if report["known"] else ""
    lines = [f"{report['source']}  sha256 {report['sha256'][:16]}...{known}"]
    lines += [f"warning: {warning}" for warning in report["warnings"]]
    lines += [f"{name}: {value}" for name, value in report["header"].items() if name in ("Computer", "Installation")]
    when = f"{time['first_submit']} to {time['last_submit']}" if "first_submit" in time else NO_DATES
    lines.append(f"{report['rows']:,} rows, {report['jobs']:,} jobs that ran, {time['weeks']:.1f} weeks, {when}")
    procs = f"{report['procs']:,} processors" if report["procs"] else "unknown number of processors; pass --procs"
    lines.append(f"{procs}, {report['users']:,} users" if report["users"] else f"{procs}, no job's user is known")
    lines += report["procs_notes"]
    if load and load["overall"] is not None:
        weeks = load["per_week"][:-1] or load["per_week"]
        lines.append(
            f"load {load['overall']:.3f}; per week {min(weeks):.2f} to {max(weeks):.2f}, median {np.median(weeks):.2f}"
            f"{' (without the last, which may be short)' if len(load['per_week']) > 1 else ''}"
        )
    lines.append("quality:")
    for name, value in report["quality"].items():
        if name != "other_status_codes":
            lines.append(f"  {name.replace('_', ' ')}: {_shown(value)}")
        elif value:
            lines[-1] += f" ({', '.join(f'{count:,} of status {code}' for code, count in value.items())})"
    if (share := report["premature"]["ccgrid"]) is None:
        lines.append("premature jobs: unknown, since no job has a requested time")
    else:
        lines.append(f"premature jobs: {share:.2%} requested {PREMATURE} times their run time or more")
    lines += [
        f"  {name.replace('_', ' ')}: divider {duration(part['small_below_s'])}, small non-premature "
        f"{part['small_non_premature']:.2%}, small premature {part['small_premature']:.2%}"
        for name, part in report["premature"]["jpdc"].items()
    ]
    lines.append("rows each cleaning rule alone would drop:")
    lines += [f"  {name}: {_shown(count)}" for name, count in report["cleaning"].items()]
    if report["filters"]:
        lines.append("filters named in the header:")
        for one in report["filters"]:
            why, drop = one["not_understood"], one["would_drop"]
            now = f"would drop {drop:,}" if why is None else f"not understood: {why}"
            lines.append(f"  {one['filter']}: {one['removed']:,} removed before, by the header; {now}")
    return wrapped("\n".join(lines), "    ")


def _shown(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2%}" if isinstance(value, float) else f"{value:,}"


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(part.sum()) / max(int(whole.sum()), 1)


def _different(column: NDArray[np.float64]) -> int:
    return len(np.unique(column[column >= 0]))
