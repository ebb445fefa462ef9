"""What jobs that have run leave of usage, as rule U1 decays it, for runs of the model that begin later."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from batfill_site.slurm.arrays import billing_of
from batfill_site.slurm.site import Association

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batfill_site.slurm.site import Site, SlurmJobs


def with_usage_at(site: Site, jobs: SlurmJobs, at_s: float) -> Site:
    """The site with the usage that these jobs have left at a date."""
    half_s = site.settings.half_life_s
    begin_s = np.nan_to_num(np.minimum(jobs.started_s, at_s), nan=at_s)
    end_s = np.nan_to_num(np.minimum(jobs.started_s + jobs.run_s, at_s), nan=at_s)
    if half_s:
        rate = -np.log(1 - 0.693 / half_s)
        return with_usage(site, jobs, (np.exp(rate * (end_s - at_s)) - np.exp(rate * (begin_s - at_s))) / rate)
    return with_usage(site, jobs, end_s - begin_s)


def with_usage(site: Site, jobs: SlurmJobs, seconds: NDArray[np.float64]) -> Site:
    """The site with the usage of so many seconds of each job, (n_jobs,), and no other."""
    used, usage = billing_of(site, jobs) * seconds, defaultdict[tuple[str, str], float](float)
    for owner, amount in zip(zip(jobs.account, jobs.user, strict=True), used.tolist(), strict=True):
        usage[owner] += amount
    known = {(each.account, each.user): each for each in site.associations}
    for account, user in usage:
        for key in ((account, ""), (account, user)):
            if key not in known and key not in (("", ""), ("root", "")):
                known[key] = Association(*key)
    return replace(site, associations=tuple(each._replace(usage=usage.get(key, 0.0)) for key, each in known.items()))
