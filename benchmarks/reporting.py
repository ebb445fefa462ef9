"""The report of many jobs: the time and memory of its making, the page's size, and its script's work at opening."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from commands import BATFILL, ran
from table import Row, time_text
from timing import Case, Setting

from batfill.base.errors import RunFailed
from batfill.base.files import raw_file
from batfill.batsim_files.replayed import write_batsim_files
from batfill.batsim_files.results import JOB_COLUMNS, result_file
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.workloads import read_workload
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log

BLOCK_JOBS, BLOCK_PROCS, LOAD = 100_000, 512, 0.8
SIDE_BY_SIDE = 25  # blocks of machines: 12,800 processors
LATER_S = 1_009  # by which each block of machines submits later than the one before
OPENING = Path(__file__).with_name("opening.js")
# Jobs, and the bars of the report's CPU time and memory in MB.
SIZES = ((1_000_000, 15.0, 1_000.0), (10_000_000, 120.0, 6_000.0))
PAGE_BAR_MB, OPENING_BAR_S = 8.0, 1.0


def write_run(folder: Path, n_jobs: int, seed: int) -> Path:
    """The results of a run of `n_jobs` jobs; returns the prefix.

    A generated log is replayed once, and its results repeated: side by side on more machines, and then later.

    Args:
        folder: for the files.
        n_jobs: a multiple of `BLOCK_JOBS`.
        seed: of the log.
    """
    log = folder / "block.swf"
    write_log(generate_log(BLOCK_JOBS, BLOCK_PROCS, seed, load=LOAD), log)
    schedule = replay_jobs(read_workload(log).jobs, BLOCK_PROCS, Rules(policy_named("fcfs")))
    write_batsim_files(schedule, folder / "block", simulate_s=0.0)
    lines = result_file(folder / "block", "jobs.csv").read_text().splitlines()[1:]
    rows = [
        (profile, int(float(submit)), between, int(float(start)), ran, int(float(end)), waits, machines, after)
        for profile, submit, between, start, ran, end, waits, machines, after in map(parts, lines)
    ]
    period_s = max(row[5] for row in rows) + SIDE_BY_SIDE * LATER_S
    prefix = folder / "run"
    with raw_file(result_file(prefix, "jobs.csv")) as stream:
        stream.write(f"{JOB_COLUMNS}\n".encode())
        for copy in range(n_jobs // BLOCK_JOBS):
            later, side = divmod(copy, SIDE_BY_SIDE)
            shift_s, number, low = later * period_s + side * LATER_S, copy * BLOCK_JOBS, side * BLOCK_PROCS
            place = {text: moved(text, low) for text in {row[7] for row in rows}}
            text = "".join(
                [
                    f"{k:08d},w0,{profile},{submit + shift_s}.000000,{between},{start + shift_s}.000000,{ran},"
                    f"{end + shift_s}.000000,{waits},{place[machines]},{after}\n"
                    for k, (profile, submit, between, start, ran, end, waits, machines, after) in enumerate(
                        rows, number + 1
                    )
                ]
            )
            stream.write(text.encode())
    return prefix


def parts(line: str) -> tuple[str, ...]:
    """A line's fields, those that stay together as one: see `write_run`."""
    _, _, profile, submit, *request, start, ran, end, wait, turnaround, stretch, machines, joules, known = line.split(
        ","
    )
    waits = f"{wait},{turnaround},{stretch}"
    return profile, submit, ",".join(request), start, ran, end, waits, machines, f"{joules},{known}"


def moved(machines: str, by: int) -> str:
    """These machines, on a later block of them."""
    return " ".join("-".join(str(int(end) + by) for end in one.split("-")) for one in machines.split())


def measured(n_jobs: int, time_bar_s: float, memory_bar_mb: float, setting: Setting) -> list[Row]:
    title = f"report of {n_jobs:,} jobs"
    with tempfile.TemporaryDirectory(dir=setting.folder) as name:
        folder = Path(name)
        prefix, page = write_run(folder, n_jobs, setting.seed), folder / "page.html"
        made_s, memory_mb = made(prefix, page)
        results, size_mb = result_file(prefix, "jobs.csv").stat().st_size, page.stat().st_size / 1e6
        rows = [
            Row(f"{title}, CPU time", time_text(made_s), f"results {results / 1e6:,.0f} MB", made_s, time_bar_s, "s"),
            Row(f"{title}, memory at most", f"{memory_mb:,.0f} MB", figure=memory_mb, bar=memory_bar_mb, unit="MB"),
            Row(f"{title}, its page", f"{size_mb:.2f} MB", figure=size_mb, bar=PAGE_BAR_MB, unit="MB"),
        ]
        case, node = f"{title}, its page's script until the first drawing", shutil.which("node")
        if node is None:
            return [*rows, Row(case, "skipped: node is not here")]
        found = [json.loads(ran(node, str(OPENING), str(page)).stdout) for _ in range(setting.rounds)]
    opened_s = median(one["seconds"] for one in found)
    return [*rows, Row(case, time_text(opened_s), f"{found[0]['rows']:,} rows", opened_s, OPENING_BAR_S, "s")]


def made(prefix: Path, page: Path) -> tuple[float, float]:
    """The CPU time of the report, and its process's memory at most, in MB."""
    process = subprocess.Popen(
        [BATFILL, "report", str(prefix), "--out", str(page)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RunFailed(f"batfill report {prefix}: exit status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def cases() -> list[Case]:
    return [Case("reports", f"report of {n_jobs:,} jobs", partial(measured, n_jobs, *bars)) for n_jobs, *bars in SIZES]
