"""The memory of a replay: what its process grows by at most, apart from the job table.

Run as a script, it measures itself: `python memory.py COPIES SQUEEZE POLICY` prints bytes a job.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from logs import KTH, workload
from table import Row
from timing import Case, Setting

from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs

BAR_BYTES = 200
COPIES = 70
# Numpy's arrays then always come from the system and go back to it, so that the peak counts all of them.
ALWAYS_MAP = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}


def resident_bytes(which: str) -> int:
    """This process's memory by its name in /proc: VmRSS now, VmHWM at most."""
    found = re.search(rf"^{which}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found, which
    return int(found[1]) * 1024


def peak_growth(work: Callable[[], object]) -> int:
    """By how many bytes this process grows at most while it does this."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = resident_bytes("VmRSS")
    work()
    return resident_bytes("VmHWM") - before


def bytes_a_job(copies: int, squeeze: float, policy: str) -> float:
    """By how much this process grows at most during a replay."""
    jobs = workload(KTH, copies, squeeze).jobs
    replay_jobs(jobs.select(slice(100)), KTH.procs, Rules(policy_named(policy)))  # load the engine
    return peak_growth(lambda: replay_jobs(jobs, KTH.procs, Rules(policy_named(policy)))) / len(jobs)


def measured(squeeze: float, policy: str, _: Setting) -> list[Row]:
    done = subprocess.run(
        [sys.executable, __file__, str(COPIES), str(squeeze), policy],
        capture_output=True,
        text=True,
        check=True,
        env=ALWAYS_MAP | {"BATFILL_TRACES": str(KTH.path.parent)},
    )
    used = float(done.stdout)
    load = "fixed load" if squeeze == 1 else "overloaded"
    return [
        Row(
            f"{KTH.name} x {COPIES} {policy}, {load}, beyond the job table",
            f"{used:.0f} B",
            figure=used,
            bar=BAR_BYTES,
            unit="B",
        )
    ]


def cases() -> list[Case]:
    return [Case("memory per job", f"memory {squeeze}", partial(measured, squeeze, "saf")) for squeeze in (1.0, 0.5)]


if __name__ == "__main__":
    print(bytes_a_job(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
