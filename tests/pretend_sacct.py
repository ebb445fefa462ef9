"""What `sacct` would print on a cluster that ran this log under FCFS: `python tests/pretend_sacct.py LOG [tres]`.

It stands for a reader's accounting records in the documentation. With `tres` it has AllocTRES, too: each CPU has 2 GB
or more, drawn once with a fixed seed, as are GPUs, a licence and the power.
"""

import sys

import numpy as np

import batfill as bf

BEGAN = 1_704_067_200  # 2024-01-01 in UTC; SLURM_TIME_FORMAT=%s prints seconds since 1970
COLUMNS = "JobID|User|Group|JobName|Partition|QOS|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|ReqCPUS|State"


def main(log: str, *more: str) -> None:
    rng = np.random.default_rng(1)
    print(COLUMNS.replace("|State", "|AllocTRES|State" if more else "|State"))
    run = bf.replay(log, "fcfs").schedule
    jobs = run.jobs
    columns = (jobs.user, jobs.submit_s, run.start_s, run.end_s, jobs.procs, jobs.walltime_s)
    for job, (user, *times, procs, request_s) in enumerate(zip(*(c.astype(int) for c in columns), strict=True), 1):
        submit, begin, end = (BEGAN + at_s for at_s in times)
        limit = -(-request_s // 60)  # minutes
        memory, gpus, licence, watts = rng.integers([2, 0, 0, 40], [5, 8, 10, 200]).tolist()
        tres = f"cpu={procs},energy={watts * procs * (end - begin)},mem={memory * procs}G,node=1"
        tres += f",gres/gpu={gpus}" * (gpus in (1, 2)) + ",license/matlab=1" * (licence == 0)
        state = f"{tres}|COMPLETED" if more else "COMPLETED"
        print(f"{job}|u{user}|g|run|batch|normal|{submit}|{submit}|{begin}|{end}|{limit}|{procs}|{procs}|{state}")


if __name__ == "__main__":
    main(*sys.argv[1:])
