"""How many starts of two real runs of Slurm lie within the "80 %" intervals of `batfill when --slurm-conf`.

    python benchmarks/slurm_when.py

The state is that at each tenth submission, with the dates from the controller's log; all jobs that wait are estimated,
from nothing later. Usage is what earlier jobs left.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from batfill_site.slurm.when import forecast_at, moment_at
from slurm_truth import own


def scored(truth, every=10, forks=21):
    """Of each estimate: whether the start lies within, how far it is from the estimate, and the interval's length."""
    jobs, found = truth.jobs, []
    for row in range(every - 1, len(jobs), every):
        now_s = float(jobs.submit_s[row])
        known = jobs.select(np.flatnonzero(jobs.submit_s <= now_s))
        end_s = known.started_s + known.run_s
        end_s[end_s > now_s] = np.nan
        forecast = forecast_at(truth.site, known, end_s, now_s, forks, 0)
        moment = moment_at(known, end_s, now_s)
        if not moment.waits.any():
            continue
        rows, start_s, from_s, to_s = forecast.estimate(moment, moment.waits)
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
