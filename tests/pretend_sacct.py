"""What `sacct` would print on a cluster that ran this log under FCFS: `python tests/pretend_sacct.py LOG`.

It stands for a reader's accounting records in the documentation.
"""

import sys

import batfill as bf

BEGAN = 1_704_067_200  # 2024-01-01 in UTC; SLURM_TIME_FORMAT=%s prints seconds since 1970
COLUMNS = "JobID|User|Group|JobName|Partition|QOS|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|ReqCPUS|State"


def main(log: str) -> None:
    print(COLUMNS)
    run = bf.replay(log, "fcfs").schedule
    jobs = run.jobs
    columns = (jobs.user, jobs.submit_s, run.start_s, run.end_s, jobs.procs, jobs.walltime_s)
    for job, (user, *times, procs, request_s) in enumerate(zip(*(c.astype(int) for c in columns), strict=True), 1):
        submit, begin, end = (BEGAN + at_s for at_s in times)
        limit = -(-request_s // 60)  # minutes
        print(f"{job}|u{user}|g|run|batch|normal|{submit}|{submit}|{begin}|{end}|{limit}|{procs}|{procs}|COMPLETED")


if __name__ == "__main__":
    main(sys.argv[1])
