"""How many starts of two real runs of Slurm lie within the "80 %" intervals of `batfill when --slurm-conf`.

    python benchmarks/slurm_when.py

The state is that at each tenth submission, with the dates from the controller's log; all jobs that wait are estimated,
from nothing later. Usage is what earlier jobs left.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from batfill_site.slurm.when import machine_of, past_of
from batfill_site.starts.forecast import FORKS, calibrated, estimated
from slurm_truth import own


def scored(truth, every=10):
    """Of each estimate: whether the start lies within, how far it is from the estimate, and the interval's length."""
    jobs, found = truth.jobs, []
    for now_s in jobs.submit_s[every - 1 :: every].tolist():
        known = jobs.select(np.flatnonzero(jobs.submit_s <= now_s))
        past, machine = past_of(known, known.started_s + known.run_s, now_s), machine_of(truth.site, known, now_s)
        widened, _ = calibrated(past, machine, FORKS, 0)
        rows, start_s, from_s, to_s = estimated(past, machine, FORKS, 0, widened)
        real_s = known.started_s[rows]
        within = (from_s <= real_s) & (real_s <= to_s)
        found += zip(within, np.abs(start_s - real_s), to_s - from_s, strict=True)
    return np.array(found, float)


if __name__ == "__main__":
    for truth in (own("a"), own("b")):
        found = scored(truth)
        share, off_s, long_s = found[:, 0].mean(), *np.median(found[:, 1:], axis=0)
        held = f"{share:.0%} of {len(found)} starts within"
        print(f"{truth.name}: {held}, off by {off_s:.0f} s, intervals of {long_s:.0f} s (medians)")
