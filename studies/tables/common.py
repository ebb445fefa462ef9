"""What the tables share: the archive's logs by their names, replays of many, what made a page, and marks of waits."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

import numpy as np

from batfill.base.files import csv_text, digest, write_text
from batfill.base.version import __version__
from batfill.model.jobs import HOUR_S, WEEK_S
from batfill.model.metrics import bounded_slowdown
from batfill_lab.processes import spread
from batfill_pages.stats import BETTER, WORSE

# The names in the tables, by file.
LOGS = {
    "KTH-SP2-1996-2.1-cln.swf.gz": "KTH-SP2",
    "SDSC-SP2-1998-4.2-cln.swf.gz": "SDSC-SP2",
    "SDSC-BLUE-2000-4.2-cln.swf.gz": "SDSC-BLUE",
    "CTC-SP2-1996-3.1-cln.swf.gz": "CTC-SP2",
    "HPC2N-2002-2.2-cln.swf.gz": "HPC2N",
    "CEA-Curie-2011-2.1-cln.swf.gz": "CEA-Curie",
}
MARKS = {BETTER: " ▼", WORSE: " ▲"}  # of a comparison that is beyond chance after the correction


def by_name(paths):
    """Logs by their names in the tables."""
    return {LOGS.get(path.name, path.name.partition(".")[0]): path for path in paths}


def parser_of(about, *, logs, of, seeds):
    """A study's arguments: logs (in words, those by default), replicas `of` something, processes, a CSV."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help=f"SWF files; by default {logs}")
    parser.add_argument("--seeds", type=int, default=seeds, help=f"replicas of each {of} [default: {seeds}]")
    parser.add_argument("--jobs", type=int, default=2, help="processes [default: 2]")
    parser.add_argument("--csv", type=in_a_folder, help="write the figures of every replay to this file")
    return parser


def in_a_folder(text):
    """The path of a file to write in the end: its folder is checked before hours are spent."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist; make it first")
    return path


def progress(text):
    """Say on standard error what is done."""
    print(text, file=sys.stderr, flush=True)


def replay_all(replayed, tasks, processes):
    """What `replayed` returns of each task, in their order."""
    found, began_s = [None] * len(tasks), time.perf_counter()
    for done, (place, one) in enumerate(spread(replayed, tasks, processes), 1):
        if isinstance(one, Exception):
            raise one
        found[place] = one
        progress(f"{done} of {len(tasks)}, {time.perf_counter() - began_s:.0f} s: {tasks[place].name}")
    return found


def made_by(study, words, logs, *about):
    """The lines on what made a page: the version, the command, what else is to say, and the logs."""
    command = shlex.join(["python", "-m", f"studies.tables.{study}", *words])
    files = (f"{log}: {path.name}, sha256 {digest(path)}" for log, path in logs.items())
    return [f"batfill {__version__}, {command}", *about, *files]


def write_replays(path, about, rows):
    """Write the figures of every replay, if a file is given."""
    if path:
        write_text(path, "".join(f"# {line}\n" for line in about) + csv_text(rows))


def summed(each):
    """The sum of arrays of which some end earlier."""
    longest = max(map(len, each))
    return np.sum([np.pad(one, (0, longest - len(one))) for one in each], axis=0)


def waits_of(schedule):
    """The waits of the jobs that ran, in seconds."""
    return (schedule.start_s - schedule.jobs.submit_s)[~schedule.rejected]


def by_week(schedule, tau_s):
    """The sums of the bounded slowdowns of the jobs submitted in each week."""
    ran = ~schedule.rejected
    bsld = bounded_slowdown(waits_of(schedule), schedule.runtime_s[ran], tau_s)
    return np.bincount((schedule.jobs.submit_s[ran] // WEEK_S).astype(np.int64), bsld)


def longest(waits, unit_s=HOUR_S, digits=0):
    """The 99.9 % quantile and the maximum of the waits, by default in hours."""
    return ", ".join(f"{waits[name] / unit_s:.{digits}f}" for name in ("p999_wait_s", "max_wait_s"))


def ratio(one):
    """A ratio with its interval, if there are enough periods for one, marked if it is beyond chance."""
    interval = f" ({one.low:.2f} to {one.high:.2f})" if one.bounded else ""
    return f"{one.value:.2f}{interval}{MARKS.get(one.verdict, '')}"
