"""A pretended site under Slurm, into a folder: `python tests/pretend_slurm.py FOLDER [JOBS] [SEED]`.

It writes slurm.conf, topology.conf, accounts.txt (as `sacctmgr dump` prints them), and jobs.txt (as `sacct` does): what
the model made of invented jobs, one run. It stands for a reader's files in the documentation.
"""

import sys
from pathlib import Path

import numpy as np

from batfill_site.slurm.conf import read_site
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.model import Model
from batfill_site.slurm.site import SlurmJobs

BEGAN = 1_767_225_600  # 2026-01-01 in UTC
CONF = """\
ClusterName=pretended
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=30,bf_window=4320,bf_max_job_user=20
TopologyPlugin=topology/tree
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityMaxAge=1-0
PriorityWeightAge=20000
PriorityWeightFairshare=50000
PriorityWeightJobSize=20000
PriorityWeightQOS=10000
AccountingStorageEnforce=associations,limits,qos
GresTypes=gpu
NodeName=n[01-16] CPUs=32 RealMemory=128000
NodeName=g[1-4] CPUs=32 RealMemory=256000 Gres=gpu:a100:4 Feature=gpu Weight=10
PartitionName=batch Nodes=ALL Default=YES MaxTime=2-0 DefMemPerCPU=3000
PartitionName=debug Nodes=n[01-02] MaxTime=00:30:00 PriorityTier=2 DefMemPerCPU=3000
"""
TOPOLOGY = """\
SwitchName=s1 Nodes=n[01-08]
SwitchName=s2 Nodes=n[09-16]
SwitchName=s3 Nodes=g[1-4]
SwitchName=top Switches=s[1-3]
"""
ACCOUNTS = {"physics": (3, ("ann", "ben", "cid")), "biology": (2, ("dot", "eve")), "ocean": (1, ("fay", "gus", "hal"))}
COLUMNS = (
    "JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|ReqCPUS|ReqTRES|AllocTRES|"
    "NNodes|Constraints|State|Reason|NodeList"
)


def dump() -> str:
    """The associations as `sacctmgr dump` prints them."""
    lines = ["Cluster - 'pretended':Fairshare=1:QOS='normal'", "Parent - 'root'", "User - 'root':Fairshare=1"]
    lines += [f"Account - '{name}':Description='{name}':Fairshare={shares}" for name, (shares, _) in ACCOUNTS.items()]
    for name, (_, users) in ACCOUNTS.items():
        lines += [f"Parent - '{name}'", *(f"User - '{user}':DefaultAccount='{name}':Fairshare=1" for user in users)]
    return "\n".join(lines) + "\n"


def jobs_of(n: int, seed: int) -> SlurmJobs:
    """Invented jobs: most on a part of a node, some on several nodes, one in eight with GPUs."""
    rng = np.random.default_rng(seed)
    account_of = {user: account for account, (_, users) in ACCOUNTS.items() for user in users}
    names = list(account_of)
    kind = rng.choice(4, n, p=[0.6, 0.2, 0.12, 0.08])  # part of a node, several nodes, GPUs, debug
    nodes = np.where(kind == 1, 2 ** rng.integers(0, 4, n), 1)
    cpus_per_node = np.where(kind == 1, 32, np.where(kind == 2, 8, rng.choice([1, 2, 4, 8, 16], n)))
    run_s = np.clip(rng.lognormal(8.2, 1.5, n), 20, 86_400).round()
    run_s = np.where(kind == 3, np.minimum(run_s, 1500), run_s)
    limit_s = np.minimum(60 * np.ceil(run_s * rng.uniform(1.1, 6, n) / 60), np.where(kind == 3, 1800, 172_800))
    work = float((run_s * nodes * cpus_per_node).mean())
    submit_s = BEGAN + np.cumsum(rng.exponential(work / (0.85 * 20 * 32), n)).round()
    memory = np.where(kind == 0, rng.choice([1000, 3000, 3000, 8000], n), 3000)
    users = [names[k] for k in np.minimum(rng.zipf(1.6, n) - 1, len(names) - 1)]
    return SlurmJobs.of(
        submit_s,
        ids=tuple(str(100 + k) for k in range(n)),
        limit_s=limit_s.astype(np.int64),
        run_s=run_s,
        cpus=nodes * cpus_per_node,
        nodes=nodes,
        cpus_per_node=cpus_per_node,
        min_nodes=nodes,
        memory_per_cpu_mb=memory,
        gpus_per_node=np.where(kind == 2, rng.choice([1, 2, 4], n), 0),
        partition=tuple(np.where(kind == 3, "debug", "batch")),
        qos=("normal",) * n,
        account=tuple(account_of[user] for user in users),
        user=tuple(users),
    )


def main(folder: Path, n: int = 3000, seed: int = 1) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("slurm.conf", CONF), ("topology.conf", TOPOLOGY), ("accounts.txt", dump())):
        (folder / name).write_text(text)
    site = read_site(folder / "slurm.conf", accounts=[folder / "accounts.txt"])
    jobs = jobs_of(n, seed)
    (clock,) = clocks(site, jobs, 1, seed)
    run = Model(site, jobs).run(clock)
    names = [node.name for node in site.nodes]
    with (folder / "jobs.txt").open("w") as file:
        print(COLUMNS, file=file)
        for k in range(n):
            start = int(run.start_s[k])
            cpus, nodes, gpus = int(jobs.cpus[k]), int(jobs.nodes[k]), int(jobs.gpus_per_node[k] * jobs.nodes[k])
            tres = f"billing={cpus},cpu={cpus},mem={cpus * int(jobs.memory_per_cpu_mb[k])}M,node={nodes}"
            tres += f",gres/gpu={gpus}" if gpus else ""
            where = ",".join(names[i] for i in run.at[run.first[k] : run.first[k + 1]])
            submit = int(jobs.submit_s[k])
            fields = (
                *(jobs.ids[k], jobs.user[k], jobs.account[k], jobs.partition[k], "normal", submit, submit, start),
                *(start + int(jobs.run_s[k]), int(jobs.limit_s[k]) // 60, cpus, cpus, tres, tres, nodes, ""),
                *("COMPLETED", "None", where),
            )
            print(*fields, sep="|", file=file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
