"""What `sacct` would print on a cluster that ran a generated log: `python tests/pretend_sacct.py LOG.swf.gz`.

It stands for a reader's accounting records in the documentation.
"""

import sys
from pathlib import Path

from batfill.workloads.swf_log import read_log

BEGAN = 1_704_067_200  # 2024-01-01 in UTC; SLURM_TIME_FORMAT=%s prints seconds since 1970
COLUMNS = "JobID|User|Group|JobName|Partition|QOS|Submit|Start|End|TimelimitRaw|AllocCPUS|ReqCPUS|State"


def main(path: Path) -> None:
    log = read_log(path)
    print(COLUMNS)
    names = ("job", "user", "submit_s", "runtime_s", "procs", "requested_s")
    for job, user, submit, run, procs, request in zip(*(log[name].astype(int) for name in names), strict=True):
        begin = BEGAN + submit
        limit = -(-request // 60)  # minutes
        print(f"{job}|u{user}|g|run|batch|normal|{begin}|{begin}|{begin + run}|{limit}|{procs}|{procs}|COMPLETED")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
