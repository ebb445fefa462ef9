"""Compare the policy with others on a workload, in the compiled replay."""

from frugal import FRUGAL

import batfill as bf

log = bf.read("workloads/sample.json")
for policy in ("fcfs", "saf", FRUGAL):
    result = bf.replay(log, policy)
    name = getattr(policy, "name", policy)
    print(f"{name:8}mean wait {result.figures.mean_wait_s:9.1f} s   mean bsld {result.figures.mean_bsld:7.2f}")
