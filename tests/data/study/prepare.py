"""Write the study's workloads and descriptors: every scheduler on every workload."""

import json
import random
from pathlib import Path

HOSTS = 64
SEEDS = [1]
SCHEDULERS = {
    "easy": "batsched -v easy_bf",
    "fcfs": "batsched -v fcfs_fast",
    "filler": "batsched -v filler",
}
DESCRIPTOR = """\
batcmd: batsim -p cluster.xml -w workloads/{workload}.json -e out/{name}/ --mmax-workload --disable-schedule-tracing
output-dir: out/{name}
schedcmd: {command}
simulation-timeout: 604800
ready-timeout: 10
success-timeout: 3600
failure-timeout: 5
"""


def workload(seed: int) -> dict:
    """80 jobs, more at a time than the cluster has hosts for."""
    draw = random.Random(seed).random
    jobs, profiles, date = [], {}, 0
    for number in range(80):
        runtime = 1 + int(7200 * draw() ** 3)
        profiles[f"delay{runtime}"] = {"type": "delay", "delay": runtime}
        requested = int(runtime * (1 + 4 * draw())) + 60
        size = 1 + int((HOSTS - 1) * draw() ** 2)
        jobs.append(
            {"id": f"{number:02}", "subtime": date, "res": size, "walltime": requested, "profile": f"delay{runtime}"}
        )
        date += int(600 * draw())
    return {"nb_res": HOSTS, "jobs": jobs, "profiles": profiles}


if __name__ == "__main__":
    Path("expe").mkdir(exist_ok=True)
    for seed in SEEDS:
        Path(f"workloads/seed{seed}.json").write_text(json.dumps(workload(seed)))
    for path in sorted(Path("workloads").glob("*.json")):
        for scheduler, command in SCHEDULERS.items():
            name = f"{scheduler}_{path.stem}"
            descriptor = DESCRIPTOR.format(name=name, workload=path.stem, command=command)
            Path(f"expe/{name}.yaml").write_text(descriptor)
