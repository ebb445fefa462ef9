"""Say which variant of EASY made the schedules of the small workloads in expe/schedules/.

    python scripts/check_schedule.py out/*_jobs.csv

Each file is the job table of a run, as Batsim writes it: a CSV with the columns job_id and starting_time; a rejected
job has final_state REJECTED, or -1 or nothing as its start. The workload is the file's name without `_jobs.csv`, or its
folder's. Exits with 0 if exactly one variant gives every start, with 1 if not.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from pathlib import Path

STARTS = Path(__file__).parents[1] / "expe" / "schedules" / "starts.csv"
SHOWN = 6  # variants on a line


class Wrong(Exception):  # noqa: N818 - a user's mistake, in one line
    """A file is not what this script reads."""


def expected() -> dict[str, dict[str, dict[str, str]]]:
    """The start of every job under each variant: workload, variant, job."""
    starts: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    with STARTS.open(newline="") as file:
        for row in csv.DictReader(file):
            workload, job = row.pop("workload"), row.pop("job")
            for variant, start in row.items():
                starts[workload][variant][job] = start
    return starts


def started(path: Path) -> dict[str, str]:
    """The start of every job in a job table, in whole seconds."""
    found = {}
    try:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if "job_id" not in row or "starting_time" not in row:
                    raise Wrong(f"{path}: the columns job_id and starting_time are not both there")
                job = row["job_id"].rpartition("!")[2]
                try:
                    start_s = float(row["starting_time"] or "nan")
                except (TypeError, ValueError):
                    raise Wrong(f"{path}: job {job}: starting_time {row['starting_time']!r} is no number") from None
                starts = 0 <= start_s < float("inf") and row.get("final_state") != "REJECTED"
                found[job] = str(round(start_s)) if starts else "rejected"
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Wrong(f"{path}: cannot be read as a CSV ({error})") from None
    return found


def workload_of(path: Path, workloads: dict[str, dict[str, dict[str, str]]]) -> str:
    """The workload whose job table this is."""
    for name in (path.name.removesuffix("_jobs.csv"), path.resolve().parent.name):
        if name in workloads:
            return name
    raise Wrong(f"{path}: is named after no workload; rename it as in short-job_jobs.csv")


def difference(ours: dict[str, str], theirs: dict[str, str]) -> str:
    """The first job that starts otherwise, by the dates in the second schedule."""

    def text(start: str | None) -> str:
        return "is not there" if start is None else "is rejected" if start == "rejected" else f"starts at {start}"

    order = sorted(theirs, key=lambda job: float(theirs[job]) if theirs[job] != "rejected" else 0.0)
    job = next((job for job in order if ours.get(job) != theirs[job]), None)
    if job is None:
        return f"job {next(job for job in ours if job not in theirs)} is none of the workload's"
    return f"job {job} {text(ours.get(job))}, and there it {text(theirs[job])}"


def some(names: list[str]) -> str:
    """The first of these names, and how many more there are."""
    return ", ".join(names if len(names) <= SHOWN else [*names[:SHOWN], f"{len(names) - SHOWN} more"])


def main(paths: list[Path]) -> int:
    """Compare the job tables with every variant's starts; print what fits each and all of them."""
    workloads = expected()
    runs = {}
    for path in paths:
        runs[workload_of(path, workloads)] = started(path)
    variants = next(iter(workloads.values())).keys()
    fits = {name: [each for each in variants if workloads[name][each] == run] for name, run in runs.items()}
    width = max(map(len, runs)) + 2
    for name in runs:
        print(f"{name:{width}}as {some(fits[name]) or 'no known variant'}")
    if left := len(workloads) - len(runs):
        print(f"{left} of {len(workloads)} workloads were not run: variants that only they separate count as alike")
    agree = {variant: sum(variant in names for names in fits.values()) for variant in variants}
    best = max(agree.values())
    nearest = [variant for variant in variants if agree[variant] == best]
    if best == len(runs):
        print(f"variant: {some(nearest)}")
        return 0 if len(nearest) == 1 else 1
    first = next(name for name in runs if nearest[0] not in fits[name])
    print(f"variant: none of the known; the nearest is {nearest[0]}, with {best} of {len(runs)} workloads")
    print(f"first difference: {first}: {difference(runs[first], workloads[first][nearest[0]])}")
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs_csv", nargs="+", type=Path, help="the job table of a run, WORKLOAD_jobs.csv")
    try:
        sys.exit(main(parser.parse_args().jobs_csv))
    except Wrong as wrong:
        print(f"check_schedule: {wrong}", file=sys.stderr)
        sys.exit(2)
