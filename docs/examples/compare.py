"""Compare the policy with others on a workload, in the compiled replay."""

from pathlib import Path

import frugal  # noqa: F401 - it adds itself to POLICIES

from batfill.policy import policy_named
from batfill.replays import replay
from batfill.workloads import read_workload

workload = read_workload(Path("workloads/sample.json"))
for name in ("fcfs", "saf", "frugal"):
    figures = replay(workload.jobs, workload.procs, policy_named(name)).summary()
    print(f"{name:8}mean wait {figures.mean_wait_s:9.1f} s   mean bsld {figures.mean_bsld:7.2f}")
