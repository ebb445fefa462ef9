"""Batsim's result files: `<prefix>_jobs.csv`, `<prefix>_schedule.csv` and `<prefix>_machine_states.csv`.

Columns, order of rows and number formats are those of Batsim 4.2: six decimals, one row per job at its end, means over
all jobs, rejected ones included. Files appear under their names when they are whole.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from batfill import __version__
from batfill.files import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from procset import ProcSet

Row = TypeVar("Row")

# What the files call the program: the Batsim whose files these are like, then who wrote them.
BATSIM_VERSION = f"4.2.0+batfill-{__version__}"

SUCCESS = "COMPLETED_SUCCESSFULLY"
REJECTED = "REJECTED"

JOB_COLUMNS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
MACHINE_STATE_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
# Batsim gives a job that takes no time this length, so that its stretch exists.
NULL_EXECUTION_S = 1e-5


class JobRecord(NamedTuple):
    """What is known of a job at its end. Times are seconds; those of a rejected job are not read."""

    job_id: str  # without the workload's name
    workload_name: str
    profile: str
    submission_time: float
    requested_resources: int
    requested_time: float  # -1 where it has none
    final_state: str  # Batsim's word: COMPLETED_SUCCESSFULLY, ..._FAILED, ..._WALLTIME_REACHED, ..._KILLED, REJECTED
    starting_time: float = 0.0
    execution_time: float = 0.0
    allocated: ProcSet | str = ""
    metadata: str = ""

    @property
    def success(self) -> bool:
        """Whether it ran to its end and said 0."""
        return self.final_state == SUCCESS

    @property
    def finish_time(self) -> float:
        """When it ended."""
        return self.starting_time + self.execution_time

    @property
    def waiting_time(self) -> float:
        """From its submission to its start."""
        return self.starting_time - self.submission_time

    @property
    def turnaround_time(self) -> float:
        """From its submission to its end."""
        return self.finish_time - self.submission_time

    @property
    def stretch(self) -> float:
        """Its turnaround per unit of execution, which Batsim also calls slowdown."""
        return self.turnaround_time / self.execution_time


class MachineTimes(NamedTuple):
    """Machine-seconds spent in each state, each machine counted up to its last change of state, as Batsim does."""

    computing_s: float = 0.0
    idle_s: float = 0.0
    unavailable_s: float = 0.0


@dataclass(slots=True)
class ScheduleTotals:
    """What `_schedule.csv` says of the jobs, added up job by job."""

    jobs: int = 0
    finished: int = 0
    succeeded: int = 0
    rejected: int = 0
    makespan_s: float = 0.0  # the last end
    _sum: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    _max: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def add(self, record: JobRecord) -> None:
        """Count one more job."""
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
        """Batsim's columns. `nb_jobs_killed` counts every job that ended without success, and means divide by all."""
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
    asked = (
        f"{record.job_id},{record.workload_name},{record.profile},{record.submission_time:.6f},"
        f"{record.requested_resources},{record.requested_time:.6f},{int(record.success)},{record.final_state},"
    )
    if record.final_state == REJECTED:
        return f'{asked},,,,,,,,"{record.metadata}"\n'
    return (
        f"{asked}{record.starting_time:.6f},{record.execution_time:.6f},{record.finish_time:.6f},"
        f"{record.waiting_time:.6f},{record.turnaround_time:.6f},{record.stretch:.6f},{record.allocated},"
        f'-1.000000,"{record.metadata}"\n'
    )


@contextmanager
def jobs_csv(path: Path) -> Iterator[Callable[[JobRecord], None]]:
    """A function that writes one more job to this file, which appears when the block ends well."""
    with whole_file(path) as stream:
        yield _line_writer(stream, JOB_COLUMNS, job_row)


def write_jobs_csv(path: Path, records: Iterable[JobRecord]) -> ScheduleTotals:
    """Write these jobs, in the order they ended, and return their totals."""
    totals = ScheduleTotals()
    with jobs_csv(path) as write:
        for record in records:
            write(record)
            totals.add(record)
    return totals


@contextmanager
def machine_states_csv(path: Path) -> Iterator[Callable[[tuple[float, int, int]], None]]:
    """A function that writes one more (date, idle machines, computing machines), as `jobs_csv`."""
    with whole_file(path) as stream:
        yield _line_writer(stream, MACHINE_STATE_COLUMNS, lambda row: f"{row[0]:g},0,0,0,{row[1]},{row[2]}\n")


def write_schedule_csv(
    path: Path,
    totals: ScheduleTotals,
    *,
    machines: int,
    times: MachineTimes,
    scheduling_s: float,
    simulation_s: float,
) -> None:
    """Write the one row that sums a run up.

    Args:
        path: the file.
        totals: of all jobs.
        machines: how many there are, storage included.
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
    names = sorted(columns)
    with whole_file(path) as stream:
        stream.write(f"{','.join(names)}\n{','.join(columns[name] for name in names)}\n".encode())


def _line_writer(stream: BinaryIO, header: str, line: Callable[[Row], str]) -> Callable[[Row], None]:
    """A function that writes a row to the stream, below the header."""
    stream.write(f"{header}\n".encode())

    def write(row: Row) -> None:
        stream.write(line(row).encode())

    return write


def _mean(total: float, jobs: int) -> str:
    """Six decimals, and Batsim's word where there is no job."""
    return f"{total / jobs:.6f}" if jobs else "nan"
