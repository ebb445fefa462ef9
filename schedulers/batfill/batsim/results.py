"""Writes and reads Batsim's result files `<prefix>_jobs.csv`, `_schedule.csv` and `_machine_states.csv`.

Columns, order of rows and number formats are those of Batsim 4.2: six decimals, one row per job at its end, means over
all jobs, rejected ones included. Files appear under their names only when complete. Batsim 5's `<prefix>jobs.csv` and
`<prefix>schedule.json`, which have no `_` of their own, are read, too.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from batfill.base.errors import BatfillError, installed, optional
from batfill.base.files import remove_left_overs, whole_file
from batfill.base.version import __version__
from batfill.model.metrics import TAU_S, Summary, bounded_slowdown, summarize
from batfill.model.schedule import CUT, LATER_TRY, REFUSED, REJECTED, REQUEUED, STATES, SUCCESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from procset import ProcSet

    from batfill.batsim.machines import MachineTimes

ResultRow = TypeVar("ResultRow")

# The version in the files: the Batsim whose format they have, then the program that wrote them.
EMBEDDED = "+batfill-"
BATSIM_VERSION = f"4.2.0{EMBEDDED}{__version__}"
BATSIM_5_VERSION = f"v5.0.0-rc2{EMBEDDED}{__version__}"

JOBS_CSV = "_jobs.csv"  # after the prefix
JOBS_CSV_5 = "jobs.csv"  # after version 5's prefix, which may be a folder
REPORT_PAGE = "report.html"
RUN_JSON = "run.json"  # the run that made the files: in a run's folder, and after a replay's prefix, see `result_file`
# The files that Batsim, 4 or 5, and a replay write together, after the prefix.
WRITTEN = (
    "jobs.csv",
    "schedule.csv",
    "schedule.json",
    "real_exec_info.json",
    "schedule.trace",
    "machine_states.csv",
    "pstate_changes.csv",
    "consumed_energy.csv",
    RUN_JSON,
)
JOB_COLUMNS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
MACHINE_STATE_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
# Batsim gives a job of length 0 this length, so that its stretch is defined; but not one killed at date 0.
NULL_EXECUTION_S = 1e-5


class ResultError(BatfillError):
    """A result file does not have Batsim's format."""


def result_file(prefix: str | Path, name: str) -> Path:
    """The result file <prefix>_<name>."""
    return Path(f"{prefix}_{name}")


def prefix_of(jobs_csv: Path) -> Path:
    """The prefix of this file's run: x/out for x/out_jobs.csv, and for Batsim 5's x/out/jobs.csv and x/outjobs.csv."""
    stem = jobs_csv.name.removesuffix(JOBS_CSV_5).removesuffix("_")
    return jobs_csv.with_name(stem) if stem else jobs_csv.absolute().parent


def may_be_results(jobs_csv: Path) -> bool:
    """Whether the file begins as Batsim's, or is empty, as Batsim 5 leaves it if it fails; other programs' do not."""
    with suppress(OSError), jobs_csv.open("rb") as file:
        return JOB_COLUMNS.startswith(file.read(len(JOB_COLUMNS)).decode(errors="replace"))
    return False


def remove_results(jobs_csv: Path) -> None:
    """Remove an earlier run's files, so that they cannot be mistaken for this run's, and its report.

    Raises:
        OSError: a file exists and cannot be removed.
    """
    for path in written_by_run(jobs_csv):
        path.unlink(missing_ok=True)


def written_by_run(jobs_csv: Path) -> list[Path]:
    """Every file that the run of this `jobs.csv` may write."""
    stem = str(jobs_csv).removesuffix(JOBS_CSV_5)
    return [*(Path(stem + name) for name in WRITTEN), jobs_csv.with_name(REPORT_PAGE)]


def remove_left_over_results(folder: Path) -> None:
    """Remove the temporary files of results that killed processes left in this folder, whatever their prefix."""
    remove_left_overs(folder, lambda name: name.endswith(WRITTEN))


# Writing


class JobRecord(NamedTuple):
    """A job at its end. Times are seconds; those of a rejected job are not read."""

    job_id: str  # without the workload's name
    workload_name: str
    profile: str
    submission_time: float
    requested_resources: int
    requested_time: float  # -1 for none
    final_state: str  # one of STATES
    starting_time: float = 0.0
    execution_time: float = 0.0
    allocated: ProcSet | str = ""
    metadata: str = ""
    registered: bool = False  # by the scheduler, not in the workload
    profile_owner: str = ""  # the workload of the profile; "" for the job's own

    @property
    def success(self) -> bool:
        """Whether it ran to its end and returned 0."""
        return self.final_state == SUCCESS

    @property
    def finish_time(self) -> float:
        """The date at which it ended."""
        return self.starting_time + self.execution_time

    @property
    def waiting_time(self) -> float:
        """The time from its submission to its start."""
        return self.starting_time - self.submission_time

    @property
    def turnaround_time(self) -> float:
        """The time from its submission to its end."""
        return self.finish_time - self.submission_time

    @property
    def stretch(self) -> float:
        """Its turnaround per unit of execution, which Batsim also calls slowdown; 0 if it was killed at date 0."""
        return self.turnaround_time / self.execution_time if self.execution_time else 0.0


@dataclass(slots=True)
class ScheduleTotals:
    """The totals over jobs in `_schedule.csv`, added up job by job."""

    jobs: int = 0
    finished: int = 0
    succeeded: int = 0
    rejected: int = 0
    makespan_s: float = 0.0  # the last end
    _sum: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    _max: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, record: JobRecord) -> None:
        """Add a job to the totals."""
        self.jobs += 1
        if record.final_state == REJECTED:
            self.rejected += 1
            return
        self.finished += 1
        self.succeeded += record.success
        self.makespan_s = max(self.makespan_s, record.finish_time)
        for i, value in enumerate((record.waiting_time, record.turnaround_time, record.stretch)):
            self._sum[i] += value
            self._max[i] = max(self._max[i], value)

    def columns(self) -> dict[str, str]:
        """Batsim's columns; `nb_jobs_killed` counts every job that ended without success, and means are over all."""
        columns = {
            "makespan": f"{self.makespan_s:.6f}",
            "nb_jobs": str(self.jobs),
            "nb_jobs_finished": str(self.finished),
            "nb_jobs_killed": str(self.finished - self.succeeded),
            "nb_jobs_rejected": str(self.rejected),
            "nb_jobs_success": str(self.succeeded),
            "success_rate": _mean(self.succeeded, self.jobs),
        }
        for name, total, highest in zip(
            ("waiting_time", "turnaround_time", "slowdown"), self._sum, self._max, strict=True
        ):
            columns[f"mean_{name}"] = _mean(total, self.jobs)
            columns[f"max_{name}"] = f"{highest:.6f}"
        return columns


def job_row(record: JobRecord) -> str:
    """The job's line in `_jobs.csv`, its line end included."""
    request = (
        f"{record.job_id},{record.workload_name},{record.profile},{record.submission_time:.6f},"
        f"{record.requested_resources},{record.requested_time:.6f},{int(record.success)},{record.final_state},"
    )
    if record.final_state == REJECTED:
        return f'{request},,,,,,,,"{record.metadata}"\n'
    return (
        f"{request}{record.starting_time:.6f},{record.execution_time:.6f},{record.finish_time:.6f},"
        f"{record.waiting_time:.6f},{record.turnaround_time:.6f},{record.stretch:.6f},{record.allocated},"
        f'-1.000000,"{record.metadata}"\n'
    )


def job_row_5(record: JobRecord) -> str:
    """The job's line in Batsim 5's `jobs.csv`: the profile with its workload's name, metadata without quotes."""
    owner = record.profile_owner or record.workload_name
    row = job_row(record._replace(profile=f"{owner}!{record.profile}", metadata=""))
    row = row.removesuffix('""\n') + "\n"
    return row.replace(",-1.000000,\n", ",0.000000,\n") if record.registered else row


@contextmanager
def jobs_csv(path: Path, row: Callable[[JobRecord], str] = job_row) -> Iterator[Callable[[JobRecord], None]]:
    """A function that writes a job to this file, which appears when the block ends without an exception.

    Args:
        path: the file.
        row: the job's line.
    """
    remove_left_over_results(path.parent)
    with whole_file(path) as stream:
        yield _line_writer(stream, JOB_COLUMNS, row)


def write_jobs_csv(path: Path, records: Iterable[JobRecord]) -> ScheduleTotals:
    """Write these jobs, which are in the order they ended; returns their totals."""
    totals = ScheduleTotals()
    with jobs_csv(path) as write:
        for record in records:
            write(record)
            totals.add(record)
    return totals


@contextmanager
def machine_states_csv(path: Path) -> Iterator[Callable[[tuple[float, int, int]], None]]:
    """A function that writes a (date, idle machines, computing machines) to this file, as `jobs_csv` does jobs."""
    with whole_file(path) as stream:
        yield _line_writer(stream, MACHINE_STATE_COLUMNS, lambda row: f"{row[0]:g},0,0,0,{row[1]},{row[2]}\n")


def write_schedule(
    path: Path,
    totals: ScheduleTotals,
    *,
    machines: int,
    times: MachineTimes,
    scheduling_s: float,
    simulation_s: float,
) -> None:
    """Write what summarises a run: Batsim 4's row, or Batsim 5's object in JSON, by the file's name.

    Args:
        path: the file, .csv or .json.
        totals: of all jobs.
        machines: number of machines, storage included.
        times: machine-seconds per state.
        scheduling_s: wall-clock time spent waiting for the scheduler.
        simulation_s: wall-clock time of the whole run.
    """
    columns = {
        **totals.columns(),
        "batsim_version": BATSIM_VERSION,
        "consumed_joules": "0.000000",
        "nb_computing_machines": str(machines),
        "nb_grouped_switches": "0",
        "nb_machine_switches": "0",
        "scheduling_time": f"{scheduling_s:.6f}",
        "simulation_time": f"{simulation_s:.6f}",
        "time_computing": f"{times.computing_s:.6f}",
        "time_idle": f"{times.idle_s:.6f}",
        "time_sleeping": "0.000000",
        "time_switching_off": "0.000000",
        "time_switching_on": "0.000000",
        "time_unavailable": f"{times.unavailable_s:.6f}",
    }
    if path.suffix == ".json":
        del columns["scheduling_time"], columns["simulation_time"]  # see `write_exec_info`
        columns["batsim_version"] = f'"{BATSIM_5_VERSION}"'
        _write_members(path, {name: "null" if text == "nan" else text for name, text in columns.items()})
        return
    names = sorted(columns)
    with whole_file(path) as stream:
        stream.write(f"{','.join(names)}\n{','.join(columns[name] for name in names)}\n".encode())


def write_exec_info(path: Path, *, scheduling_s: float, simulation_s: float) -> None:
    """Write Batsim 5's `real_exec_info.json`: this process's memory, and wall-clock times.

    Args:
        path: the file.
        scheduling_s: time spent waiting for the scheduler.
        simulation_s: time of the whole run without the former.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = dict(line.split()[:2] for line in lines if line.startswith(("VmHWM:", "VmPeak:")))
    times = {"time_in_edc_seconds": f"{scheduling_s:.6f}", "time_in_simu_seconds": f"{simulation_s:.6f}"}
    _write_members(path, {f"memory_{name[:-1]}_kB": amount for name, amount in found.items()} | times)


def _write_members(path: Path, members: Mapping[str, str]) -> None:
    """Write a JSON object, a line for each of these members; values are JSON texts."""
    lines = ",\n".join(f'  "{name}": {members[name]}' for name in sorted(members))
    with whole_file(path) as stream:
        stream.write(f"{{\n{lines}\n}}\n".encode())


def _line_writer(stream: BinaryIO, header: str, line: Callable[[ResultRow], str]) -> Callable[[ResultRow], None]:
    """A function that writes a row to the stream, after the header."""
    stream.write(f"{header}\n".encode())

    def write(row: ResultRow) -> None:
        stream.write(line(row).encode())

    return write


def _mean(total: float, jobs: int) -> str:
    """The mean with six decimals; Batsim's "nan" if there is no job."""
    return f"{total / jobs:.6f}" if jobs else "nan"


# The column `metadata` and the names of tries


def metadata_text(
    *,
    user: int = -1,
    small: bool | None = None,
    probability: float = math.nan,
    divider_s: float = math.inf,
    backfilled: bool | None = None,
) -> str:
    """A job's text in the column `metadata`: words key=value, without the unknown ones.

    `user=3 class=small probability=0.731 divider=3600 backfilled=1`
    """
    words = [f"user={user}"] if user >= 0 else []
    if small is not None:
        words.append(f"class={'small' if small else 'large'}")
    if not math.isnan(probability):
        words.append(f"probability={probability:.4g}")
    if divider_s < math.inf:
        words.append(f"divider={divider_s:.15g}")
    if backfilled is not None:
        words.append(f"backfilled={int(backfilled)}")
    return " ".join(words)


FACTS = re.compile(
    r"(?:user=(?P<user>\d{1,18}) ?)?(?:class=(?P<job_class>small|large) ?)?(?:probability=(?P<probability>[\d.e-]+) ?)?"
    r"(?:divider=(?P<divider>[\d.e+-]+) ?)?(?:backfilled=(?P<backfilled>[01]))?"
)  # as `metadata_text` writes them
NO_FACTS: Any = FACTS.fullmatch("")
# Of each field of `Facts`: its type, the value if it is unknown, and how its text is read.
FACT_KINDS: tuple[tuple[Any, float, Callable[[str], float]], ...] = (
    (np.int64, -1, int),
    (np.int8, -1, ("large", "small").index),
    (np.float64, math.nan, float),
    (np.float64, math.nan, float),
    (np.int8, -1, int),
)


class Facts(NamedTuple):
    """The contents of the column `metadata`, one array of shape (n_tries,) per key; absent keys are unknown."""

    user: NDArray[np.int64]  # -1 unknown
    small: NDArray[np.int8]  # 1 small, 0 large, -1 unknown
    probability: NDArray[np.float64]  # of being small; nan unknown
    divider_s: NDArray[np.float64]  # in force at the submission; nan unknown
    backfilled: NDArray[np.int8]  # 1 started by backfilling, 0 in the queue's order, -1 unknown

    @classmethod
    def of(cls, texts: Sequence[str]) -> Facts:
        """The facts in these texts."""
        found = [(FACTS.fullmatch(text) or NO_FACTS).groups() for text in texts]
        columns = [
            np.array([unknown if row[i] is None else known(row[i]) for row in found], dtype)
            for i, (dtype, unknown, known) in enumerate(FACT_KINDS)
        ]
        return cls(*columns)

    def rows(self, which: NDArray[Any]) -> Facts:
        """The facts of these rows, in this order."""
        return Facts(*(column[which] for column in self))


# Reading


class WordColumn(NamedTuple):
    """A column of words that repeat."""

    words: list[str]  # (n_words,)
    code: NDArray[np.int32]  # (n_rows,)  index into words

    @classmethod
    def of(cls, texts: Sequence[str]) -> WordColumn:
        """The words of these rows."""
        codes: dict[str, int] = {}
        code = np.array([codes.setdefault(text, len(codes)) for text in texts], np.int32)
        return cls(list(codes), code)


# The columns read from `_jobs.csv`; old versions of Batsim write no metadata.
COLUMNS: dict[str, Any] = {
    "job_id": str,
    "workload_name": WordColumn,
    "submission_time": float,
    "requested_number_of_resources": int,
    "requested_time": float,
    "final_state": WordColumn,
    "starting_time": float,
    "execution_time": float,
    "allocated_resources": str,
    "metadata": WordColumn,
}
# Larger files are read by pyarrow if it is installed, four times as fast; its import takes as long as 30,000 rows.
LARGE_BYTES = 1 << 23
MOST_DIGITS = 18  # of a machine's number: it is an int64
MACHINES = re.compile(rf"(?: *\d{{1,{MOST_DIGITS}}}(?:-\d{{1,{MOST_DIGITS}}})?(?= |$))* *")
NOT_WHOLE, AGAIN = f"not a whole {JOBS_CSV} of Batsim", "run the simulation again"


class Allocation(NamedTuple):
    """The machines of every try as intervals of ids, both ends included: offset[i]:offset[i + 1] are those of try i."""

    offset: NDArray[np.int64]  # (n_tries + 1,)
    first: NDArray[np.int64]  # (n_intervals,)
    last: NDArray[np.int64]  # (n_intervals,)

    def rows(self, which: NDArray[np.int64]) -> Allocation:
        """The machines of these tries, in this order."""
        counts = np.diff(self.offset)[which]
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        interval = np.arange(offset[-1]) + np.repeat(self.offset[which] - offset[:-1], counts)
        return Allocation(offset, self.first[interval], self.last[interval])


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The jobs of a run: a row per try, shape (n_tries,), ordered by the job's submission, id as a string, and try."""

    size: int  # m
    size_stated: bool  # False if inferred from the highest machine or the widest job
    workloads: NDArray[np.object_]  # str; "w0", "w1", ...
    names: NDArray[np.object_]  # str; the try's id in its workload
    ids: NDArray[np.object_]  # str; the job's, without the number of the try; with several workloads "w0!12"
    submit_s: NDArray[np.float64]  # the job's, that of its first try
    start_s: NDArray[np.float64]  # nan for a rejected job
    runtime_s: NDArray[np.float64]  # the time the try ran; nan for a rejected job
    walltime_s: NDArray[np.float64]  # inf if the job has none
    procs: NDArray[np.int64]
    state: NDArray[np.int64]  # index into STATES
    attempt: NDArray[np.int64]  # 0 for the first try
    job: NDArray[np.int64]  # the number of the try's job, 0, 1, ... in the order of the rows
    machines: Allocation
    facts: Facts

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def final(self) -> NDArray[np.bool_]:
        """A mask of the tries that count: the last one of each job that was not rejected."""
        return np.asarray((np.diff(self.job, append=-1) != 0) & (self.state != REFUSED), bool)

    @property
    def wait_s(self) -> NDArray[np.float64]:
        """The time from the job's submission to the try's start; nan for a rejected job."""
        return self.start_s - self.submit_s

    def bsld(self, tau_s: float = TAU_S) -> NDArray[np.float64]:
        """The bounded slowdown; nan for a rejected job."""
        return bounded_slowdown(self.wait_s, self.runtime_s, tau_s)

    @property
    def backfilling_known(self) -> bool:
        """Whether the files state for every job whether it was backfilled."""
        return bool((self.facts.backfilled[self.final] >= 0).all()) and bool(self.final.any())

    def summary(self, tau_s: float = TAU_S) -> Summary:
        """The run's figures; `backfilled` is 0 unless `backfilling_known`.

        A job that was killed and requeued (`12`, then `12#1`) is one job: its last try counts, and its earlier tries
        are wasted work.
        """
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
            killed=int(np.isin(self.state[final], (CUT, REQUEUED)).sum()),
            backfilled=int((self.facts.backfilled[final] == 1).sum()),
            requeued=int(earlier.sum()),
            wasted_proc_s=float((self.procs * self.runtime_s)[earlier].sum()),
        )

    def known_figures(self) -> dict[str, float]:
        """The fields of `Summary` that the files determine."""
        unknown = set() if self.backfilling_known else {"backfilled"}
        unknown |= set() if self.size_stated else {"utilisation"}
        return {name: value for name, value in self.summary().as_dict().items() if name not in unknown}


def read_results(path: Path, *, size: int | None = None, users: Mapping[str, int] | None = None) -> Results:
    """The jobs of this `_jobs.csv`.

    Every try counts from its job's first submission, which the files of Batsim 5 do not have: there a later try is
    submitted when it is registered.

    Args:
        path: the file.
        size: the machine's, see `read_schedule`; None to infer it from the jobs.
        users: users by job id, if known from elsewhere than the file.

    Raises:
        ResultError: the file cannot be read, lacks a column, or has a line that is truncated or not a job's.
    """
    column = read_columns(path)
    given = column["final_state"]
    if unknown := sorted(set(given.words) - set(STATES)):
        raise ResultError(f"{path}: state {unknown[0]!r} is none of {', '.join(STATES)}; is the file Batsim's?")
    state = np.array([list(STATES).index(word) for word in given.words], np.int64)[given.code]
    workloads = np.array(column["workload_name"].words, object)[column["workload_name"].code]
    ids, attempt = tries_of(column["job_id"], workloads)
    submit_s = column["submission_time"]
    place = places_of(ids)
    first_s = np.full(len(ids), np.inf)
    np.minimum.at(first_s, place, submit_s)
    order = np.lexsort((attempt, place, first_s[place]))
    job = np.cumsum(np.diff(place[order], prepend=place[order[:1]]) != 0)
    machines = column["allocated_resources"].rows(order)
    state, ids = state[order], ids[order]
    procs, ran_s, walltime_s = (
        column[title][order] for title in ("requested_number_of_resources", "execution_time", "requested_time")
    )
    seen = int(max(machines.last.max(initial=-1) + 1, procs[state != REFUSED].max(initial=1)))
    known = column.get("metadata", WordColumn([""], np.zeros(len(ids), np.int32)))
    facts = Facts.of(known.words).rows(known.code[order])
    if users:
        elsewhere = np.array([users.get(job, -1) for job in ids], np.int64)
        facts = facts._replace(user=np.where(facts.user >= 0, facts.user, elsewhere))
    return Results(
        size=seen if size is None else max(size, seen),
        size_stated=size is not None,
        workloads=workloads[order],
        names=column["job_id"][order],
        ids=ids,
        submit_s=first_s[place[order]],
        start_s=column["starting_time"][order],
        runtime_s=np.where(ran_s == NULL_EXECUTION_S, 0.0, ran_s),
        walltime_s=np.where(walltime_s < 0, np.inf, walltime_s),
        procs=procs,
        state=state,
        attempt=attempt[order],
        job=job,
        machines=machines,
        facts=facts,
    )


def places_of(texts: NDArray[np.object_]) -> NDArray[np.int64]:
    """The place of each text among the different ones, sorted by code point, shape (n,)."""
    try:
        plain = texts.astype(np.bytes_)
    except UnicodeEncodeError:
        return np.unique(texts.astype(np.str_), return_inverse=True)[1]
    # Eight characters at a time are compared as one integer, which sorts several times as fast.
    width = -(-max(plain.itemsize, 1) // 8)
    parts = plain.astype(f"S{8 * width}").view(">u8").reshape(len(texts), width).astype(np.uint64)
    order = np.lexsort(parts.T[::-1])
    place = np.empty(len(texts), np.int64)
    place[order] = np.cumsum((np.diff(parts[order], axis=0, prepend=parts[order[:1]]) != 0).any(axis=1))
    return place


def read_columns(path: Path) -> dict[str, Any]:
    """The columns of a `_jobs.csv` that are used, see COLUMNS; missing numbers are nan.

    Text is an array of str, or `WordColumn`; the column `allocated_resources` is an `Allocation`.

    Raises:
        ResultError: the file cannot be read, lacks a column, or has a line that is truncated or not a job's.
    """
    columns = None
    if installed("pyarrow") and path.is_file() and path.stat().st_size > LARGE_BYTES:
        columns = columns_by_arrow(path)
    return columns_by_row(path) if columns is None else columns


def columns_by_arrow(path: Path) -> dict[str, Any] | None:
    """The columns of a large file; None if it has a mistake, for which `columns_by_row` finds the line."""
    pa: Any = optional("pyarrow", "tables")
    arrow: Any = optional("pyarrow.csv", "tables")
    kinds = {str: pa.string(), WordColumn: pa.dictionary(pa.int32(), pa.string()), float: pa.float64(), int: pa.int64()}
    try:
        with path.open("rb") as file:
            head = file.readline().decode().strip().split(",")
            file.seek(-1, 2)
            ended = file.read() == b"\n"
        titles = [title for title in COLUMNS if title in head or title != "metadata"]
        table = arrow.read_csv(
            path,
            parse_options=arrow.ParseOptions(newlines_in_values=True),
            convert_options=arrow.ConvertOptions(
                include_columns=titles,
                column_types={title: kinds[COLUMNS[title]] for title in titles},
                null_values=[""],
                strings_can_be_null=False,
            ),
        )
    except (OSError, ValueError, KeyError):  # pyarrow's own are among these
        return None
    if not ended or table["requested_number_of_resources"].null_count:
        return None
    columns: dict[str, Any] = {}
    for title in titles:
        column = table[title]
        table = table.drop_columns(title)  # frees it once converted
        if title == "allocated_resources":
            columns[title] = joined([machines_of(path, lines_of(chunk)) for chunk in column.chunks])
        elif COLUMNS[title] is WordColumn:
            whole = column.unify_dictionaries().combine_chunks()
            whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
            columns[title] = WordColumn(whole.dictionary.to_pylist(), whole.indices.to_numpy())
        else:
            columns[title] = column.to_numpy()
    return columns


def lines_of(chunk: Any) -> bytes:
    """These texts, a pyarrow array, each ended by a line feed."""
    pa: Any = optional("pyarrow", "tables")
    compute: Any = optional("pyarrow.compute", "tables")
    ended = compute.binary_join_element_wise(chunk, "\n", "")
    return bytes(compute.binary_join(pa.ListArray.from_arrays([0, len(ended)], ended), "")[0].as_buffer())


def columns_by_row(path: Path) -> dict[str, Any]:
    """The columns, read line by line.

    Raises:
        ResultError: as `read_columns`.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file, any_length():
            reader = csv.reader(file, strict=True)
            head = [title.strip() for title in next(reader, [])]
            if missing := [title for title in COLUMNS if title not in head and title != "metadata"]:
                raise ResultError(f"{path}:1: no column {missing[0]}: {NOT_WHOLE}; {AGAIN}")
            places = {title: head.index(title) for title in COLUMNS if title in head}
            columns: dict[str, Any] = {title: [] for title in places}
            fields = [
                (place, str if COLUMNS[title] is WordColumn else COLUMNS[title], columns[title].append)
                for title, place in places.items()
            ]
            for row in reader:
                if row:
                    if len(row) != len(head):
                        raise ValueError(f"{len(row)} of {len(head)} fields")
                    for place, kind, add in fields:
                        add(math.nan if kind is float and not row[place] else kind(row[place]))
    except OSError as error:
        raise ResultError(f"{path}: {(error.strerror or str(error)).lower()}; did the simulation run?") from None
    except (ValueError, csv.Error) as error:  # a wrong number, or bytes that are not text
        raise ResultError(f"{path}:{reader.line_num}: cut off or damaged: {NOT_WHOLE} ({error}); {AGAIN}") from None
    types: dict[Any, Any] = {str: object, int: np.int64, float: np.float64}
    for title, values in columns.items():
        if title == "allocated_resources":
            columns[title] = machines_of(path, "".join([f"{text}\n" for text in values]).encode())
        elif COLUMNS[title] is WordColumn:
            columns[title] = WordColumn.of(values)
        else:
            columns[title] = np.array(values, types[COLUMNS[title]])
    return columns


@contextmanager
def any_length() -> Iterator[None]:
    """Make the csv module accept fields of any length in this block: a wide job's machines exceed its 128 KiB limit."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def tries_of(
    names: NDArray[np.object_], workloads: NDArray[np.object_]
) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """The job and the number of the try in each line; with several workloads jobs keep the workload's name."""
    jobs, numbers = names.astype(object), np.zeros(len(names), np.int64)
    if numbered := [i for i, name in enumerate(names) if "#" in name]:
        known = set(zip(workloads, names, strict=True))
        for i in numbered:
            match = LATER_TRY.fullmatch(names[i])
            if match and (workloads[i], match[1]) in known:
                jobs[i], numbers[i] = match[1], int(match[2])
    return (workloads + "!" + jobs if len(set(workloads)) > 1 else jobs), numbers


def machines_of(path: Path, lines: bytes) -> Allocation:
    """The machines of each try, from a line in Batsim's notation such as "0-3 7", empty for none.

    Raises:
        ResultError: one of them is not in this notation.
    """
    text = np.frombuffer(lines, np.uint8)
    digit = (text >= ord("0")) & (text <= ord("9"))
    edges = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    begin, end = edges[::2], edges[1::2]  # of the numbers
    value = np.zeros(len(begin), np.int64)
    for k in range(int((end - begin).max(initial=0))):
        longer = begin + k < end
        value[longer] = value[longer] * 10 + (text[begin[longer] + k] - ord("0"))
    upper = np.append(text, ord(" "))[begin - 1] == ord("-")  # with nothing before the first number
    dashes = np.flatnonzero(text == ord("-"))
    blank = (text == ord(" ")) | (text == ord("\n"))
    wrong = (
        not (digit | blank | (text == ord("-"))).all()
        or (upper[1:] & upper[:-1]).any()
        or upper[:1].any()
        or not np.array_equal(dashes + 1, begin[upper])
        or not np.array_equal(dashes, end[np.flatnonzero(upper) - 1])
        or (end - begin > MOST_DIGITS).any()
    )
    if wrong:
        bad = next(line for line in lines.decode().splitlines() if not MACHINES.fullmatch(line))
        raise ResultError(f"{path}: allocated_resources: {bad!r:.60} are not machines; is the file Batsim's?")
    lower = ~upper
    last = np.where(np.append(upper[1:], False)[lower], np.append(value[1:], 0)[lower], value[lower])
    ends = np.flatnonzero(text == ord("\n"))
    offset = np.concatenate([[0], np.searchsorted(begin[lower], ends)]).astype(np.int64)
    return Allocation(offset, value[lower], last)


def joined(parts: Sequence[Allocation]) -> Allocation:
    """The tries of all parts, one after the other."""
    counts = np.concatenate([[0], *(np.diff(part.offset) for part in parts)])
    empty = np.zeros(0, np.int64)
    return Allocation(
        np.cumsum(counts),
        np.concatenate([empty, *(part.first for part in parts)]),
        np.concatenate([empty, *(part.last for part in parts)]),
    )


class ScheduleRow(NamedTuple):
    """The fields read from `_schedule.csv`."""

    batsim_version: str
    machines: int


def read_schedule(jobs_csv: Path) -> ScheduleRow | None:
    """The summary of the run next to this `_jobs.csv`; None if there is none, or the fields are missing.

    That is Batsim 4's `_schedule.csv` or Batsim 5's `schedule.json`, the younger one if both are there.
    """
    stem = str(jobs_csv).removesuffix(JOBS_CSV_5)
    found: list[tuple[int, Path]] = []
    for name in ("schedule.csv", "schedule.json"):
        with suppress(OSError):
            path = Path(stem + name)
            found.append((path.stat().st_mtime_ns, path))
    with suppress(OSError, KeyError, ValueError, TypeError, StopIteration, csv.Error):
        _, path = max(found)
        text = path.read_text()
        row = (
            json.loads(NOT_A_NUMBER.sub("null", text))
            if path.suffix == ".json"
            else next(csv.DictReader(text.splitlines()))
        )
        return ScheduleRow(row["batsim_version"], int(row["nb_computing_machines"]))
    return None


NOT_A_NUMBER = re.compile(r"(?<=: )-?nan\b")  # as Batsim 5 writes the means of no job
