"""Time the model of Slurm: `python benchmarks/slurm_speed.py [JOBS] [LOAD] [SEED]`.

A generated site has 1,000 nodes of 32 cores below 50 switches, and 100 users in 10 accounts; a cycle each 30 s tries up
to 500 jobs. 300,000 jobs are a year.
"""

import sys
import time

import numpy as np

from batfill_site.slurm.model import Model
from batfill_site.slurm.site import Association, Clock, Leaf, Node, Partition, Settings, Site, SlurmJobs

NODES, CORES, LEAF, DAY_S = 1000, 32, 20, 86400
GAP_S = 365 * DAY_S / 300_000  # between submissions


def generated(n, load, seed):
    """The site, and n jobs for it."""
    rng = np.random.default_rng(seed)
    names = tuple(f"n{i:04}" for i in range(NODES))
    accounts = [Association(f"a{i}", shares=int(rng.integers(1, 100))) for i in range(10)]
    users = [Association(f"a{i % 10}", f"u{i}") for i in range(100)]
    site = Site(
        nodes=tuple(Node(name, CORES, 192_000) for name in names),
        partitions=(Partition("batch", names),),
        switches=tuple(Leaf(names[i : i + LEAF], ("top",)) for i in range(0, NODES, LEAF)),
        associations=(*accounts, *users),
        settings=Settings(
            version=(17, 11),
            weight_age=50_000,
            weight_fairshare=50_000,
            weight_job_size=200_000,
            fair_tree=False,
            damping=5.0,
            bf_window_s=14 * DAY_S,
            default_queue_depth=1200,
        ),
    )
    nodes = np.where(rng.random(n) < 0.7, 1, 2 ** rng.integers(0, 6, n))
    cpus = np.where(nodes > 1, CORES, rng.choice([1, 1, 2, 4, 8, 16, 32], n))
    run_s = np.clip(rng.lognormal(7.5, 1.6, n), 10, 2 * DAY_S)
    run_s *= load * NODES * CORES * GAP_S / (run_s * nodes * cpus).mean()
    submit_s = np.floor(np.cumsum(rng.exponential(GAP_S, n)))
    user = rng.zipf(1.5, n) % 100
    jobs = SlurmJobs.of(
        submit_s,
        limit_s=np.minimum(np.maximum(60, run_s * rng.uniform(1, 5, n)) // 60 * 60 + 60, 14 * DAY_S).astype(np.int64),
        run_s=run_s,
        cpus=nodes * cpus,
        nodes=nodes,
        cpus_per_node=cpus,
        memory_per_cpu_mb=np.full(n, 4000),
        partition=("batch",) * n,
        account=tuple(f"a{i % 10}" for i in user),
        user=tuple(f"u{i}" for i in user),
    )
    return site, jobs


def main(n=300_000, load=0.9, seed=1):
    """Print how long a run takes."""
    site, jobs = generated(n, load, seed)
    began_s = time.process_time()
    model = Model(site, jobs)
    ready_s = time.process_time()
    run = model.run(Clock())
    over_s = time.process_time()
    wait_s = run.start_s - jobs.submit_s
    print(
        f"{n} jobs in {jobs.submit_s[-1] / DAY_S:.0f} days at load {load}: {over_s - ready_s:.1f} s, and "
        f"{ready_s - began_s:.1f} s to make the arrays; {run.cycles} cycles, {run.tried} jobs tried, "
        f"mean wait {wait_s.mean():.0f} s, {np.mean(run.by == 2):.1%} backfilled"
    )


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float, int), sys.argv[1:], strict=False)))
