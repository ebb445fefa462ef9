"""A finished run as columns, read from what Batsim, its stand-in or a replay left: `_jobs.csv`, `_schedule.csv`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from batfill.batsim.runner.results import ResultError, read_schedule_csv
from batfill.batsim.runner.summary import LATER_TRY
from batfill.batsim_files import KILLED, WALLTIME_REACHED, beside
from batfill.files import digest
from batfill.metrics import TAU_S, Summary, bounded_slowdown, summarize
from batfill.outputs import NULL_EXECUTION_S, REJECTED, SUCCESS
from batfill.report.about import About, about_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

JOBS_CSV = "_jobs.csv"
STATES = (SUCCESS, "COMPLETED_FAILED", WALLTIME_REACHED, KILLED, REJECTED)
STATE_WORDS = ("completed", "failed", "ended at its walltime", "killed and requeued", "rejected")
CUT, REQUEUED, REFUSED = 2, 3, 4  # places in STATES
COLUMNS = {
    "job_id": pa.string(),
    "workload_name": pa.string(),
    "submission_time": pa.float64(),
    "requested_number_of_resources": pa.int64(),
    "requested_time": pa.float64(),
    "final_state": pa.string(),
    "starting_time": pa.float64(),
    "execution_time": pa.float64(),
    "allocated_resources": pa.string(),
    "metadata": pa.string(),
}


FACTS = re.compile(
    r"(?:user=(?P<user>\d{1,18}) ?)?(?:class=(?P<job_class>small|large) ?)?(?:probability=(?P<probability>[\d.e-]+) ?)?"
    r"(?:divider=(?P<divider>[\d.e+-]+) ?)?(?:backfilled=(?P<backfilled>[01]))?"
)  # as `batsim_files.metadata_text` writes them


class Facts(NamedTuple):
    """What the column `metadata` says of every try; each of shape (n_tries,), unknown where it says nothing."""

    user: NDArray[np.int64]  # -1 unknown
    small: NDArray[np.int8]  # 1 small, 0 large, -1 unknown
    probability: NDArray[np.float64]  # of being small; nan unknown
    divider_s: NDArray[np.float64]  # in force at the submission; nan unknown
    backfilled: NDArray[np.int8]  # 1 started by backfilling, 0 in the queue's order, -1 unknown

    @classmethod
    def of(cls, texts: Sequence[str], users: Sequence[int]) -> Facts:
        """Those of these texts; `users` is what is known of the users otherwise, -1 unknown."""
        n = len(texts)
        facts = cls(
            np.array(users, np.int64),
            np.full(n, -1, np.int8),
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.full(n, -1, np.int8),
        )
        for i, text in enumerate(texts):
            said = FACTS.fullmatch(text) if text else None
            if said is None:
                continue
            user, job_class, probability, divider_s, backfilled = said.groups()
            if user is not None:
                facts.user[i] = int(user)
            if job_class is not None:
                facts.small[i] = job_class == "small"
            if probability is not None:
                facts.probability[i] = float(probability)
            if divider_s is not None:
                facts.divider_s[i] = float(divider_s)
            if backfilled is not None:
                facts.backfilled[i] = int(backfilled)
        return facts


class Machines(NamedTuple):
    """The machines of every try as intervals of ids, both ends included: try i has offset[i] up to offset[i + 1]."""

    offset: NDArray[np.int64]  # (n_tries + 1,)
    first: NDArray[np.int64]  # (n_intervals,)
    last: NDArray[np.int64]  # (n_intervals,)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run: a row per try of a job, shape (n_tries,), ordered by submission, then id as a string, then try."""

    name: str
    path: Path  # the _jobs.csv
    digest: str  # its sha256, hexadecimal
    size: int  # m
    ids: NDArray[np.object_]  # str; the job's, without the number of the try
    submit_s: NDArray[np.float64]
    start_s: NDArray[np.float64]  # nan for a rejected job
    runtime_s: NDArray[np.float64]  # the time the try ran; nan for a rejected job
    walltime_s: NDArray[np.float64]  # inf where the job has none
    procs: NDArray[np.int64]
    state: NDArray[np.int64]  # a place in STATES
    attempt: NDArray[np.int64]  # 0 for the first try
    machines: Machines
    facts: Facts
    about: About

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def title(self) -> str:
        """What the run is, for the titles of charts and tables: log, machine, policy and options."""
        what = self.about.options or self.name
        return f"{what}, {self.where}"

    @property
    def where(self) -> str:
        """The log, if it is known, and the machine."""
        machine = f"{self.size:,} processor{'s' * (self.size != 1)}"
        return f"{self.about.log} on {machine}" if self.about.log else machine

    @property
    def final(self) -> NDArray[np.bool_]:
        """The tries that count: the last one of each job that was not rejected."""
        last = np.append(self.ids[1:] != self.ids[:-1], True) if len(self) else np.zeros(0, bool)
        return np.asarray(last & (self.state != REFUSED), bool)

    @property
    def wait_s(self) -> NDArray[np.float64]:
        """From the job's submission to the try's start; nan for a rejected job."""
        return self.start_s - self.submit_s

    def bsld(self, tau_s: float = TAU_S) -> NDArray[np.float64]:
        """The bounded slowdown; nan for a rejected job."""
        return bounded_slowdown(self.wait_s, self.runtime_s, tau_s)

    @property
    def backfilling_known(self) -> bool:
        """Whether it is known of every job how it was started."""
        return bool((self.facts.backfilled[self.final] >= 0).all()) and bool(self.final.any())

    def summary(self, tau_s: float = TAU_S) -> Summary:
        """The run's figures; `backfilled` is 0 unless `backfilling_known`."""
        final = self.final
        earlier = ~final & (self.state != REFUSED)
        return summarize(
            size=self.size,
            submit_s=self.submit_s[final],
            start_s=self.start_s[final],
            runtime_s=self.runtime_s[final],
            procs=self.procs[final],
            tau_s=tau_s,
            rejected=int((self.state == REFUSED).sum()),
            killed=int((self.state[final] == CUT).sum()),
            backfilled=int((self.facts.backfilled[final] == 1).sum()),
            requeued=int(earlier.sum()),
            wasted_proc_s=float((self.procs * self.runtime_s)[earlier].sum()),
        )


def find_runs(places: Sequence[Path]) -> list[Run]:
    """Every run under these places: a `_jobs.csv`, the prefix of one, or a folder and those below it.

    Raises:
        ResultError: a place holds no run, or a file is not what Batsim writes.
    """
    paths: list[Path] = []
    for place in places:
        if place.is_dir():
            found = sorted(place.rglob(f"*{JOBS_CSV}"))
        else:
            found = [path for path in (place, beside(place, "jobs")) if path.is_file() and path.name.endswith(JOBS_CSV)]
        if not found:
            raise ResultError(
                f"{place}: no run in it (no file *{JOBS_CSV}); make one with `batfill replay --out PREFIX`"
            )
        paths += [path for path in found if path not in paths]
    return named([read_run(path, name) for path, name in zip(paths, names_of(paths), strict=True)])


def named(runs: list[Run]) -> list[Run]:
    """The runs by their options if those tell them apart, with their log if they need it, else also by their files."""
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
    """What to call these runs: the prefix where that tells them apart, else the folder, else both."""
    prefixes = [path.name.removesuffix(JOBS_CSV) for path in paths]
    folders = [path.resolve().parent.name for path in paths]
    both = [f"{folder}/{prefix}" for folder, prefix in zip(folders, prefixes, strict=True)]
    generic = set(prefixes) == {"out"}  # what robin's descriptors usually call it
    for names in (folders, both) if generic else (prefixes, folders, both):
        if len(set(names)) == len(names):
            return names
    return [str(path).removesuffix(JOBS_CSV) for path in paths]


def read_run(path: Path, name: str) -> Run:
    """The run of this `_jobs.csv`; the machine's size is taken from the `_schedule.csv` beside it, if it is there.

    Raises:
        ResultError: the file cannot be read, lacks a column, or has a line that is cut off.
    """
    try:
        with path.open("rb") as file:
            header = file.readline().decode(errors="replace").strip().split(",")
        columns = [title for title in COLUMNS if title in header or title != "metadata"]
        table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=COLUMNS, include_columns=columns))
    except FileNotFoundError:
        raise ResultError(f"{path}: no such file; check the path") from None
    except (pa.ArrowException, KeyError, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ResultError(f"{path}: not a whole {JOBS_CSV} of Batsim ({reason}); run the simulation again") from None
    column = {title: table.column(title).to_numpy() for title in columns}
    unknown = [state for state in np.unique(column["final_state"]) if state not in STATES]
    if unknown:
        raise ResultError(f"{path}: state {unknown[0]!r} is none of {', '.join(STATES)}; is the file Batsim's?")
    ids, attempt = tries_of(column["job_id"], column["workload_name"])
    submit_s = column["submission_time"]
    order = np.lexsort((attempt, np.unique(ids.astype(np.str_), return_inverse=True)[1], submit_s))
    ran_s = column["execution_time"]
    walltime_s = column["requested_time"]
    state = np.array([STATES.index(word) for word in column["final_state"]], np.int64)
    machines = machines_of(path, [text or "" for text in column["allocated_resources"][order]])
    prefix = path.name.removesuffix(JOBS_CSV)
    schedule = read_schedule_csv(path.with_name(f"{prefix}_schedule.csv"))
    about, users = about_run(path, prefix, schedule.batsim_version if schedule else "")
    texts = [text or "" for text in column["metadata"][order]] if "metadata" in column else [""] * len(order)
    procs = column["requested_number_of_resources"]
    seen = int(max(machines.last.max(initial=-1) + 1, procs[state != REFUSED].max(initial=1)))
    return Run(
        name=name,
        path=path,
        digest=digest(path),
        size=max(schedule.machines, seen) if schedule else seen,
        ids=ids[order],
        submit_s=submit_s[order],
        start_s=column["starting_time"][order],
        runtime_s=np.where(ran_s == NULL_EXECUTION_S, 0.0, ran_s)[order],
        walltime_s=np.where(walltime_s < 0, np.inf, walltime_s)[order],
        procs=procs[order],
        state=state[order],
        attempt=attempt[order],
        machines=machines,
        facts=Facts.of(texts, [users.get(job, -1) for job in ids[order]]),
        about=about,
    )


def tries_of(ids: NDArray[np.object_], workloads: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """The job that each line is a try of, and the number of the try; jobs of a second workload keep its name."""
    several = len(set(workloads)) > 1
    known = set(ids)
    jobs, numbers = ids.astype(object), np.zeros(len(ids), np.int64)
    for i in [i for i, name in enumerate(ids) if "#" in name]:
        match = LATER_TRY.fullmatch(ids[i])
        if match and match[1] in known:
            jobs[i], numbers[i] = match[1], int(match[2])
    return (workloads + "!" + jobs if several else jobs), numbers


def machines_of(path: Path, texts: Sequence[str]) -> Machines:
    """The machines of these tries, written as Batsim does: "0-3 7"; "" for none.

    Raises:
        ResultError: one of them is not written so.
    """
    counts = np.array([len(text.split()) for text in texts], np.int64)
    ends = [token.partition("-") for token in " ".join(texts).split()]
    try:
        first = np.array([int(low) for low, _, _ in ends], np.int64)
        last = np.array([int(high or low) for low, _, high in ends], np.int64)
    except ValueError as error:
        raise ResultError(f"{path}: allocated_resources: {error}; is the file Batsim's?") from None
    return Machines(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), first, last)
