"""Writes and reads Batsim's result files `<prefix>_jobs.csv`, `_schedule.csv` and `_machine_states.csv`.

Columns, order of rows and number formats are those of Batsim 4.2: six decimals, one row per job at its end, means over
all jobs, rejected ones included. Files appear under their names only when complete. Batsim 5's `<prefix>jobs.csv` and
`<prefix>schedule.json`, which have no `_` of their own, are read, too.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import urlencode

import numpy as np

from batfill.base.errors import LARGEST, BatfillError
from batfill.base.files import all_or_none, any_length, file_bytes, loaded_json, remove_left_overs, whole_file
from batfill.base.version import __version__
from batfill.batsim_files.allocation import Allocation
from batfill.batsim_files.machines import INTERVALS, intervals_of, intervals_text
from batfill.model.jobs import LONGEST_S
from batfill.model.metrics import TAU_S, Summary, bounded_slowdown, summarize
from batfill.model.schedule import LATER_TRY
from batfill.model.states import CANCELLED, CUT, LEFT, REFUSED, REJECTED, REQUEUED, STATES, SUCCESS
from batfill.workloads.batsim_json import NO_WALLTIME, amounts_of, request_of, user_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from procset import ProcSet

    from batfill.batsim_files.machines import MachineTimes

# The version in the files: the Batsim whose format they have, then the program that wrote them.
EMBEDDED = "+batfill-"
BATSIM_VERSION = f"4.2.0{EMBEDDED}{__version__}"

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
MACHINE_STATE_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
ENERGY_COLUMNS = "time,energy,event_type,wattmin,epower"
PSTATE_COLUMNS = "time,machine_id,new_pstate"
# Batsim gives a job of length 0 this length, so that its stretch is defined; but not one killed at date 0.
NULL_EXECUTION_S = 1e-5
NOT_MEASURED = -1.0  # a job's energy, unless Batsim is started with -E


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
    """Remove an earlier run's files, so that they cannot be mistaken for this run's, and its report."""
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


class WordColumn(NamedTuple):
    """A column of words that repeat."""

    words: list[str]  # (n_words,)
    code: NDArray[np.int32]  # (n_rows,)  index into words

    @classmethod
    def joined(cls, parts: Sequence[NDArray[np.object_]]) -> WordColumn:
        codes: dict[str, int] = {}
        code = [codes.setdefault(text, len(codes)) for part in parts for text in part]
        return cls(list(codes), np.array(code, np.int32))


NOTHING = "%.0s"  # the form of a value that is not written


class Column(NamedTuple):
    """A column of `_jobs.csv`."""

    form: str  # of its values
    kind: Any = None  # what it is read as; None if it is not read
    of_rejected: bool = True  # whether jobs that never ran have a value


COLUMNS = {
    "job_id": Column("%s", str),
    "workload_name": Column("%s", WordColumn),
    "profile": Column("%s"),
    "submission_time": Column("%.6f", float),
    "requested_number_of_resources": Column("%d", int),
    "requested_time": Column("%.6f", float),
    "success": Column("%d"),
    "final_state": Column("%s", WordColumn),
    "starting_time": Column("%.6f", float, of_rejected=False),
    "execution_time": Column("%.6f", float, of_rejected=False),
    "finish_time": Column("%.6f", of_rejected=False),
    "waiting_time": Column("%.6f", of_rejected=False),
    "turnaround_time": Column("%.6f", of_rejected=False),
    "stretch": Column("%.6f", of_rejected=False),
    "allocated_resources": Column("%s", Allocation, of_rejected=False),
    "consumed_energy": Column("%.6f", of_rejected=False),
    "metadata": Column('"%s"', WordColumn),
}
# Batsim 5 writes no metadata, and old versions of Batsim 4 not even the column.
OPTIONAL_COLUMN = "metadata"
JOB_COLUMNS = ",".join(COLUMNS)


class JobRecord(NamedTuple):
    """A job at its end; the names are those of COLUMNS. Times are seconds; those of a rejected job are not read."""

    job_id: str  # without the workload's name
    workload_name: str
    profile: str
    submission_time: float
    requested_number_of_resources: int
    requested_time: float  # -1 for none
    final_state: str  # one of STATES
    starting_time: float = 0.0
    execution_time: float = 0.0
    allocated_resources: ProcSet | str = ""
    metadata: str = ""
    consumed_energy: float = NOT_MEASURED

    @property
    def success(self) -> bool:
        return self.final_state == SUCCESS

    @property
    def finish_time(self) -> float:
        return self.starting_time + self.execution_time

    @property
    def waiting_time(self) -> float:
        return self.starting_time - self.submission_time

    @property
    def turnaround_time(self) -> float:
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
        self.jobs += 1
        self.rejected += record.final_state == REJECTED
        if record.final_state in (REJECTED, CANCELLED):
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
        means = ("waiting_time", "turnaround_time", "slowdown")
        for name, total, highest in zip(means, self._sum, self._max, strict=True):
            columns[f"mean_{name}"] = _mean(total, self.jobs)
            columns[f"max_{name}"] = f"{highest:.6f}"
        return columns


VALUES = attrgetter(*COLUMNS)  # of a `JobRecord`


ROW, REJECTED_ROW = (  # the forms of a job's line; rejected jobs have empty fields
    ",".join([column.form if column.of_rejected or ran else NOTHING for column in COLUMNS.values()]) + "\n"
    for ran in (True, False)
)


def job_row(record: JobRecord) -> str:
    never_ran = record.final_state == REJECTED or (record.final_state == CANCELLED and not record.allocated_resources)
    return (REJECTED_ROW if never_ran else ROW) % VALUES(record)


# A row of `_consumed_energy.csv`: date, joules since date 0, event, least watts of all machines, watts since the row
# before, None if that has the same date.
EnergyRow = tuple[float, float, str, float, float | None]


class RunFiles(NamedTuple):
    """The open result files of one run, see `run_files`."""

    stem: str  # with which their names begin
    jobs: BinaryIO
    machine_states: BinaryIO | None
    energy: BinaryIO | None
    totals: ScheduleTotals

    def job_ended(self, record: JobRecord) -> None:
        self.jobs.write(job_row(record).encode())
        self.totals.add(record)

    def machines_changed(self, counts: tuple[float, int, int]) -> None:
        """Write a (date, idle machines, computing machines)."""
        if self.machine_states:
            self.machine_states.write("{:g},0,0,0,{},{}\n".format(*counts).encode())

    def energy_drawn(self, row: EnergyRow) -> None:
        if self.energy:
            date, joules, event, least_w, watts = row
            mean = "NA" if watts is None else f"{watts:g}"
            self.energy.write(f"{date:g},{joules:g},{event},{least_w:g},{mean}\n".encode())

    def summarise(
        self,
        *,
        machines: int,
        times: MachineTimes,
        scheduling_s: float,
        simulation_s: float,
        joules: float = 0.0,
        pstates: Sequence[int] = (),
    ) -> None:
        """Write what summarises the run, of all machines, storage included.

        `scheduling_s` is the wall-clock time spent waiting for the scheduler, `joules` what the compute hosts drew.
        """
        columns = {
            **self.totals.columns(),
            "consumed_joules": f"{joules:.6f}",
            "nb_computing_machines": str(machines),
            "nb_grouped_switches": "0",
            "nb_machine_switches": "0",
            "time_computing": f"{times.computing_s:.6f}",
            "time_idle": f"{times.idle_s:.6f}",
            "time_sleeping": "0.000000",
            "time_switching_off": "0.000000",
            "time_switching_on": "0.000000",
            "time_unavailable": f"{times.unavailable_s:.6f}",
        }
        if self.energy:  # every machine stays in its power state
            with whole_file(Path(f"{self.stem}pstate_changes.csv")) as stream:
                stream.write(f"{PSTATE_COLUMNS}\n".encode())
                for pstate in sorted(set(pstates)):
                    inside = intervals_of([place for place, other in enumerate(pstates) if other == pstate])
                    stream.write(f"0,{intervals_text(inside)},{pstate}\n".encode())
        columns["batsim_version"] = BATSIM_VERSION
        columns |= {"scheduling_time": f"{scheduling_s:.6f}", "simulation_time": f"{simulation_s:.6f}"}
        names = sorted(columns)
        with whole_file(Path(f"{self.stem}schedule.csv")) as stream:
            stream.write(f"{','.join(names)}\n{','.join(columns[name] for name in names)}\n".encode())


@contextmanager
def run_files(prefix: str | Path, *, machine_states: bool = True, energy: bool = False) -> Iterator[RunFiles]:
    """The result files of a run, which appear together when the block ends without an exception."""
    stem = f"{prefix}_"
    remove_left_over_results(Path(f"{stem}jobs.csv").parent)
    with all_or_none(), ExitStack() as stack:

        def series(name: str, columns: str) -> BinaryIO:
            stream = stack.enter_context(whole_file(Path(stem + name)))
            stream.write(f"{columns}\n".encode())
            return stream

        yield RunFiles(
            stem,
            series("jobs.csv", JOB_COLUMNS),
            series("machine_states.csv", MACHINE_STATE_COLUMNS) if machine_states else None,
            series("consumed_energy.csv", ENERGY_COLUMNS) if energy else None,
            ScheduleTotals(),
        )


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
    asked_s: float = math.nan,
    takes: Mapping[str, float] | None = None,
    urgent: bool = False,
    why: int | None = None,
    kept_s: float = 0.0,
) -> str:
    """A job's text in the column `metadata`: words key=value, without the unknown ones.

    `user=3 class=small probability=0.731 divider=3600 backfilled=1 asked=900 takes=memory=4&watts=250 urgent=1
    stopped=divider kept=3600`, or `asked=none`; see `Facts`.
    """
    words = {
        "user": user if user >= 0 else None,
        "class": None if small is None else "small" if small else "large",
        "probability": None if math.isnan(probability) else f"{probability:.4g}",
        "divider": f"{divider_s:.15g}" if divider_s < math.inf else None,
        "backfilled": None if backfilled is None else int(backfilled),
        "asked": None if math.isnan(asked_s) else f"{asked_s:.15g}" if asked_s < math.inf else NOT_ASKED,
        "takes": taken_text(takes) if takes else None,
        "urgent": int(urgent) or None,
        "stopped": None if why is None else STOPPED[why],
        "kept": f"{kept_s:.15g}" if kept_s else None,
    }
    return " ".join([f"{key}={word}" for key, word in words.items() if word is not None])


def taken_text(amounts: Mapping[str, float]) -> str:
    """What a job states that it takes, by name, as the value of `takes`."""
    return urlencode({name: f"{amount:.15g}" for name, amount in sorted(amounts.items())})


def asked_of(request_s: float, limit_s: float) -> float:
    """`Facts.asked_s` of a job from the request in its log, nan for none, and its limit, inf for none."""
    if math.isnan(request_s):
        return math.inf if limit_s < math.inf else math.nan
    return request_s if request_s != limit_s else math.nan


STOPPED = ("divider", "failure", "urgent")  # for what a try was, by AT_DIVIDER and the others of the engine
NOT_ASKED = "none"  # as the value of `asked`


class Fact(NamedTuple):
    """A key of the column `metadata`."""

    pattern: str  # of its value, as `metadata_text` writes it
    type: Any
    unknown: Any
    read: Callable[[str], Any]


NUMBER = r"-?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?"
TAKEN = r"[^\s=&]+=[0-9]+(?:\.[0-9]+)?(?:e(?:%2B|-)[0-9]+)?"
FACTS = {
    "user": Fact("[0-9]{1,18}", np.int64, -1, int),
    "class": Fact("small|large", np.int8, -1, ("large", "small").index),
    "probability": Fact(NUMBER, np.float64, math.nan, float),
    "divider": Fact(NUMBER, np.float64, math.nan, float),
    "backfilled": Fact("[01]", np.int8, -1, int),
    "asked": Fact(f"{NUMBER}|{NOT_ASKED}", np.float64, math.nan, lambda w: math.inf if w == NOT_ASKED else float(w)),
    "takes": Fact(rf"{TAKEN}(?:&{TAKEN})*&?", object, "", str),
    "urgent": Fact("1", np.bool_, False, bool),
    "stopped": Fact("|".join(STOPPED), np.int8, -1, STOPPED.index),
    "kept": Fact(NUMBER, np.float64, 0.0, float),
}


class JobFacts(NamedTuple):
    """Facts of a job that a workload has, as in `Facts`."""

    user: int = -1
    asked_s: float = math.nan
    takes: str = ""


def facts_of(job: Mapping[str, Any]) -> JobFacts:
    """What a job of Batsim's JSON says of its user, its request, and what it takes."""
    limit_s = job.get("walltime", NO_WALLTIME)
    limit_s = math.inf if limit_s == NO_WALLTIME else float(limit_s)
    return JobFacts(user_of(job), asked_of(request_of(job), limit_s), taken_text(amounts_of(job)))


UNKNOWN_FACTS = JobFacts()
WORDS = re.compile("".join(f"(?:{key}=({fact.pattern}) ?)?" for key, fact in FACTS.items()))
NO_WORDS = (None,) * len(FACTS)


class Facts(NamedTuple):
    """The contents of the column `metadata`, one array of shape (n_tries,) per key; absent keys are unknown."""

    user: NDArray[np.int64]  # -1 unknown
    small: NDArray[np.int8]  # 1 small, 0 large, -1 unknown
    probability: NDArray[np.float64]  # of being small; nan unknown
    divider_s: NDArray[np.float64]  # in force at the submission; nan unknown
    backfilled: NDArray[np.int8]  # 1 started by backfilling, 0 in the queue's order, -1 unknown
    asked_s: NDArray[np.float64]  # the log's request where the limit is another; inf if the log has none; nan otherwise
    takes: NDArray[np.object_]  # what the job states that it takes, see `taken_text`; empty for nothing
    urgent: NDArray[np.bool_]
    stopped: NDArray[np.int8]  # for what a try was, a place in `STOPPED`; -1 for one that was not, and unknown
    kept_s: NDArray[np.float64]  # what earlier tries had done at the checkpoint from which this one went on

    @classmethod
    def of(cls, texts: Sequence[str]) -> Facts:
        matches = [WORDS.fullmatch(text) for text in texts]
        found: list[Sequence[Any]] = [match.groups() if match else NO_WORDS for match in matches]
        columns = [
            np.array([fact.unknown if row[i] is None else fact.read(row[i]) for row in found], fact.type)
            for i, fact in enumerate(FACTS.values())
        ]
        return cls(*columns)

    def rows(self, which: NDArray[Any]) -> Facts:
        return Facts(*(column[which] for column in self))


# Reading


# How the parts of a column become one; others are arrays.
JOINED: dict[Any, Callable[[Sequence[NDArray[Any]]], Any]] = {
    WordColumn: WordColumn.joined,
    Allocation: Allocation.joined,
}
ROWS_AT_ONCE = 256  # of a file; with more of them Python's garbage collection takes most of the time
NOT_WHOLE, AGAIN = f"not a whole {JOBS_CSV} of Batsim", "run the simulation again"


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The jobs of a run: a row per try, shape (n_tries,), ordered by the job's submission, id as a string, and try."""

    size: int  # m
    size_stated: bool  # False if inferred from the highest machine or the widest job
    workloads: NDArray[np.object_]  # str; "w0", "w1", ...
    names: NDArray[np.object_]  # str; the try's id in its workload
    ids: NDArray[np.object_]  # str; the job's, without the number of the try; with several workloads "w0!12"
    submit_s: NDArray[np.float64]  # the job's, that of its first try
    start_s: NDArray[np.float64]  # nan for a job that never ran
    runtime_s: NDArray[np.float64]  # the time the try ran; likewise
    walltime_s: NDArray[np.float64]  # inf if the job has none
    procs: NDArray[np.int64]
    state: NDArray[np.int64]  # index into STATES
    attempt: NDArray[np.int64]  # 0 for the first try
    job: NDArray[np.int64]  # the number of the try's job, 0, 1, ... in the order of the rows
    machines: Allocation
    facts: Facts
    digest: str  # of the file: its sha256, hexadecimal

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def ran(self) -> NDArray[np.bool_]:
        """A mask of the tries that ran: those of jobs that were neither rejected nor cancelled before."""
        return ~np.isnan(self.start_s)

    @property
    def final(self) -> NDArray[np.bool_]:
        """A mask of the tries that count: the last one of each job that was neither rejected nor cancelled."""
        return np.asarray((np.diff(self.job, append=-1) != 0) & ~np.isin(self.state, (REFUSED, LEFT)), bool)

    @property
    def wait_s(self) -> NDArray[np.float64]:
        """From the submission to the start, less what was kept of earlier tries."""
        return self.start_s - self.submit_s - self.facts.kept_s

    def bsld(self, tau_s: float = TAU_S) -> NDArray[np.float64]:
        return bounded_slowdown(self.wait_s, self.runtime_s + self.facts.kept_s, tau_s)

    @property
    def backfilling_known(self) -> bool:
        """Whether the files state for every job whether it was backfilled."""
        return bool((self.facts.backfilled[self.final] >= 0).all()) and bool(self.final.any())

    def summary(self, tau_s: float = TAU_S) -> Summary:
        """The run's figures; `backfilled` is 0 unless `backfilling_known`.

        A job that was killed and requeued (`12`, then `12#1`) is one job: its last try counts, and its earlier tries
        are wasted work.
        """
        final, kept_s = self.final, self.facts.kept_s
        used = final | (self.ran & (self.state == LEFT))
        earlier = self.ran & ~used
        work = self.procs * self.runtime_s
        return summarize(
            size=self.size,
            submit_s=self.submit_s[used],
            start_s=(self.start_s - kept_s)[used],
            runtime_s=(self.runtime_s + kept_s)[used],
            procs=self.procs[used],
            counted=final[used],
            tau_s=tau_s,
            rejected=int((self.state == REFUSED).sum()),
            killed=int(np.isin(self.state[final], (CUT, REQUEUED)).sum()),
            backfilled=int((self.facts.backfilled[final] == 1).sum()),
            requeued=int(earlier.sum()),
            wasted_proc_s=float(work[earlier].sum() - (self.procs * kept_s)[used].sum()),
        )

    def known_figures(self) -> dict[str, float]:
        """The fields of `Summary` that the files determine."""
        unknown = set() if self.backfilling_known else {"backfilled"}
        unknown |= set() if self.size_stated else {"utilisation"}
        return {name: value for name, value in self.summary().as_dict().items() if name not in unknown}


def read_results(path: Path, *, size: int | None = None, facts: Mapping[str, JobFacts] | None = None) -> Results:
    """The jobs of this `_jobs.csv`, whose machine's `size` is inferred from them if it is None.

    Every try counts from its job's first submission, which the files of Batsim 5 do not have: there a later try is
    submitted when it is registered. Users and requests that the file lacks come from `facts`, by job id.
    """
    column, stored_sum = read_columns(path)
    given = column["final_state"]
    if unknown := sorted(set(given.words) - set(STATES)):
        raise ResultError(f"{path}: state {unknown[0]!r} is none of {', '.join(STATES)}; is the file Batsim's?")
    state = np.array([list(STATES).index(word) for word in given.words], np.int64)[given.code]
    for title in ("submission_time", "starting_time", "execution_time"):
        counts = ~np.isin(state, (REFUSED, LEFT)) | COLUMNS[title].of_rejected
        if len(empty := np.flatnonzero(counts & np.isnan(column[title]))):
            name = str(column["job_id"][empty[0]])
            raise ResultError(f"{path}: no {title} of job {name!r:.60}: {NOT_WHOLE}; {AGAIN}")
    workloads = np.array(column["workload_name"].words, object)[column["workload_name"].code]
    ids, attempt = tries_of(column["job_id"], workloads)
    submit_s = column["submission_time"]
    place = np.unique(ids.astype(np.str_), return_inverse=True)[1]
    first_s = np.full(len(ids), np.inf)
    np.minimum.at(first_s, place, submit_s)
    order = np.lexsort((attempt, place, first_s[place]))
    job = np.cumsum(np.diff(place[order], prepend=place[order[:1]]) != 0)
    machines = column["allocated_resources"].rows(order)
    state, ids = state[order], ids[order]
    procs, ran_s, walltime_s = (
        column[title][order] for title in ("requested_number_of_resources", "execution_time", "requested_time")
    )
    if (machines.last > LARGEST).any():
        raise ResultError(f"{path}: allocated_resources: machine {machines.last.max()} is none; is the file Batsim's?")
    seen = int(max(machines.last.max(initial=-1) + 1, procs[~np.isin(state, (REFUSED, LEFT))].max(initial=1)))
    known = column.get("metadata", WordColumn([""], np.zeros(len(ids), np.int32)))
    stated = Facts.of(known.words).rows(known.code[order])
    if facts and len(ids):
        user, asked_s, takes = zip(*(facts.get(job, UNKNOWN_FACTS) for job in ids), strict=True)
        stated = stated._replace(
            user=np.where(stated.user >= 0, stated.user, np.array(user, np.int64)),
            asked_s=np.where(np.isnan(stated.asked_s), np.array(asked_s, np.float64), stated.asked_s),
            takes=np.where(stated.takes == "", np.array(takes, object), stated.takes),
        )
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
        facts=stated,
        digest=stored_sum,
    )


def read_columns(path: Path, rows_at_once: int = ROWS_AT_ONCE) -> tuple[dict[str, Any], str]:
    """The columns of a `_jobs.csv` that are used, each as the kind that COLUMNS says, and the file's sha256.

    Missing numbers are nan.
    """
    try:
        with path.open("rb") as stored, any_length():
            stored_sum = hashlib.file_digest(stored, "sha256").hexdigest()
            stored.seek(0)
            reader = csv.reader(io.TextIOWrapper(stored, encoding="utf-8", newline=""), strict=True)
            head = [title.strip() for title in next(reader, [])]
            kinds = {title: column.kind for title, column in COLUMNS.items() if column.kind}
            if OPTIONAL_COLUMN not in head:
                del kinds[OPTIONAL_COLUMN]
            if missing := [title for title in kinds if title not in head]:
                raise ResultError(f"{path}:1: no column {missing[0]}: {NOT_WHOLE}; {AGAIN}")
            parts: dict[str, list[Any]] = {title: [values_of(title, kind, ())] for title, kind in kinds.items()}
            while rows := list(islice(reader, rows_at_once)):
                jobs = [row for row in rows if row]
                if odd := next((row for row in jobs if len(row) != len(head)), None):
                    raise ValueError(f"{len(odd)} of {len(head)} fields")
                fields = list(zip(*jobs, strict=True)) or [()] * len(head)
                for title, kind in kinds.items():
                    parts[title].append(values_of(title, kind, fields[head.index(title)]))
    except OSError as error:
        raise ResultError(f"{path}: {(error.strerror or str(error)).lower()}; did the simulation run?") from None
    except (ValueError, OverflowError, csv.Error) as error:  # a wrong number, or bytes that are not text
        if rows_at_once > 1:
            return read_columns(path, 1)  # stops at the line
        raise ResultError(f"{path}:{reader.line_num}: cut off or damaged: {NOT_WHOLE} ({error}); {AGAIN}") from None
    try:
        return {title: JOINED.get(kind, np.concatenate)(parts[title]) for title, kind in kinds.items()}, stored_sum
    except ValueError:
        stated = (text for part in parts["allocated_resources"] for text in part if text.strip(" "))
        bad = next(text for text in stated if not INTERVALS.fullmatch(text))
        raise ResultError(f"{path}: allocated_resources: {bad!r:.60} are not machines; is the file Batsim's?") from None


def values_of(title: str, kind: Any, texts: Sequence[str]) -> NDArray[Any]:
    """What some fields of the column with this title hold, by its kind: numbers, or texts; a ValueError if none."""
    if kind is float:
        values = np.array([text or "0" for text in texts], float)
        if not (np.abs(values) <= LONGEST_S).all():
            raise ValueError(f"the {title} is not a number up to {LONGEST_S:g} s")
        values[np.array([not text for text in texts], bool)] = math.nan
        return values
    if kind is int:
        counts = np.array(texts, np.int64)
        if (counts > LARGEST).any() or (counts < 0).any():
            raise ValueError(f"{title} is not a whole number up to {LARGEST}")
        return counts
    if kind is WordColumn:
        return np.array([sys.intern(text) for text in texts], object)
    return np.array(texts, object)


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
    with suppress(OSError, ArithmeticError, KeyError, ValueError, TypeError, StopIteration, csv.Error):
        _, path = max(found)
        text = file_bytes(path).decode()
        row = (
            loaded_json(NOT_A_NUMBER.sub("null", text))
            if path.suffix == ".json"
            else next(csv.DictReader(text.splitlines()))
        )
        machines = int(row["nb_computing_machines"])
        return ScheduleRow(str(row["batsim_version"]), machines) if 0 <= machines <= LARGEST else None
    return None


NOT_A_NUMBER = re.compile(r"(?<=: )-?nan\b")  # as Batsim 5 writes the means of no job
