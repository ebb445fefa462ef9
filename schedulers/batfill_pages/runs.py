"""Finished runs: their files and names, and the results of Batsim, its stand-in or a replay."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from batfill.base.version import ENGINE
from batfill.base.words import things
from batfill.batsim_files.results import (
    JOBS_CSV,
    JOBS_CSV_5,
    ResultError,
    Results,
    may_be_results,
    prefix_of,
    read_results,
    read_schedule,
    result_file,
)
from batfill_pages.about import About, about_run, facts_in
from batfill_pages.words import id_in_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True, eq=False)
class ReportedRun(Results):
    """One run: its jobs and its provenance."""

    name: str
    path: Path  # the _jobs.csv
    about: About

    @property
    def title(self) -> str:
        what = self.about.options or self.name
        return f"{what}, {self.where}"

    @property
    def where(self) -> str:
        machine = things(self.size, "processor")
        return f"{self.about.log} on {machine}" if self.about.log else machine


def find_runs(
    places: Sequence[Path],
    *,
    known: Mapping[Path, Results] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> list[ReportedRun]:
    """Every run in these places: a `_jobs.csv`, the prefix of one, or a folder and its subfolders.

    Batsim 5's files `<prefix>jobs.csv` count if they are named, and those called `jobs.csv` also in a folder. `known`
    are the contents of files that have been read; `advance` is called with 1 after each run.
    """
    paths: list[Path] = []
    for place in places:
        if place.is_dir():
            bare = (path for path in place.rglob(JOBS_CSV_5) if may_be_results(path))
            found = sorted({*place.rglob(f"*{JOBS_CSV}"), *bare})
        else:
            named_so = (place, result_file(place, JOBS_CSV_5), Path(f"{place}{JOBS_CSV_5}"))
            found = [path for path in named_so if path.is_file() and path.name.endswith(JOBS_CSV_5)]
        if not found:
            raise ResultError(
                f"{place}: no run in it (no file *{JOBS_CSV} or {JOBS_CSV_5}); make one with `batfill replay "
                "--out PREFIX`"
            )
        paths += [path for path in found if path not in paths]
    runs = []
    for path, name in zip(paths, names_of(paths), strict=True):
        runs.append(read_run(path, name, (known or {}).get(path)))
        advance(1)
    return with_names(runs)


def with_names(runs: list[ReportedRun]) -> list[ReportedRun]:
    if not all(run.about.options for run in runs):
        return runs
    for names in (
        [run.about.options for run in runs],
        [f"{run.about.options}, {run.about.log}" for run in runs],
        [f"{run.about.options} ({run.name})" for run in runs],
    ):
        if len(set(names)) == len(names):
            return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
    return runs


def names_of(paths: Sequence[Path]) -> list[str]:
    prefixes = [prefix_of(path).name for path in paths]
    folders = [prefix_of(path.resolve()).parent.name for path in paths]
    both = [f"{folder}/{prefix}" for folder, prefix in zip(folders, prefixes, strict=True)]
    generic = set(prefixes) == {"out"}  # the usual prefix in robin's descriptors
    for names in (folders, both) if generic else (prefixes, folders, both):
        if len(set(names)) == len(names):
            return names
    return [str(prefix_of(path)) for path in paths]


def read_run(path: Path, name: str, results: Results | None = None) -> ReportedRun:
    """The run of this `_jobs.csv`; the machine's size comes from the summary next to it, if present."""
    schedule = read_schedule(path)
    about, workload = about_run(path, prefix_of(path).name, schedule.batsim_version if schedule else "")
    if results is None:
        facts = facts_in(workload) if workload else {}
        results = read_results(path, size=schedule.machines if schedule else None, facts=facts)
    columns = {field.name: getattr(results, field.name) for field in fields(results)}
    if about.engine == ENGINE:
        columns["ids"] = np.array([id_in_log(job, about.log) for job in results.ids], object)
    return ReportedRun(**columns, name=name, path=path, about=about)
