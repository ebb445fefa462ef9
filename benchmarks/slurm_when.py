"""How many starts of two real runs of Slurm lie within the "80 %" intervals of `batfill when --slurm-conf`.

    python benchmarks/slurm_when.py

The state is that at each tenth submission, with the dates from the controller's log; all jobs that wait are estimated,
from nothing later. Usage is what earlier jobs left. Then each third job is left out, and asked for (--submit) at its
submission.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from batfill_site.slurm.now import Now, asked_about
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


def asked(truth, every=3):
    """The same of each job that is left out and asked for, and by how much it is expected otherwise if it is queued."""
    jobs, found = truth.jobs, []
    for row in range(every * 5, len(jobs), every):
        now_s, own = float(jobs.submit_s[row]), jobs.select([row])
        without = jobs.select(np.flatnonzero((jobs.submit_s <= now_s) & (np.arange(len(jobs)) != row)))
        ended_s = without.started_s + without.run_s
        text = f"nodes={own.nodes[0]},procs={own.cpus[0]},time={own.limit_s[0]}s,user={own.user[0]}"
        text += f",account={own.account[0]}" * bool(own.account[0])
        [(_, one, _)] = asked_about(text, truth.site, Now(without, ended_s, (), now_s, {}))
        dates = []
        for last in (one, own):
            known = without.followed_by(last)
            past, machine = past_of(known, known.started_s + known.run_s, now_s), machine_of(truth.site, known, now_s)
            widened, _ = calibrated(past, machine, FORKS, 0)
            dates.append([column[-1] for column in estimated(past, machine, FORKS, 0, widened)[1:]])
        (start_s, from_s, to_s), (queued_s, *_) = dates
        real_s = own.started_s[0]
        found.append((from_s <= real_s <= to_s, abs(start_s - real_s), to_s - from_s, abs(start_s - queued_s)))
    return np.array(found, float)


if __name__ == "__main__":
    for truth in (own("a"), own("b")):
        for what, found in (("waiting", scored(truth)), ("asked for", asked(truth))):
            share, off_s, long_s = found[:, 0].mean(), *np.median(found[:, 1:3], axis=0)
            held = f"{share:.0%} of {len(found)} starts within"
            more = f"; {np.count_nonzero(found[:, 3])} expected otherwise if queued" if what != "waiting" else ""
            print(f"{truth.name}, {what}: {held}, off by {off_s:.0f} s, intervals of {long_s:.0f} s (medians){more}")
