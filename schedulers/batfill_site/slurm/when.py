"""When each waiting job of a site's Slurm is expected to start: forks of the model from its state.

In each the controller makes its passes at other dates. Jobs that run hold their nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.model.jobs import Clock
from batfill_site.accounting.record_text import zone_of
from batfill_site.slurm.arrays import with_usage_at
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.model import Model
from batfill_site.slurm.named import touched
from batfill_site.slurm.now import read_now
from batfill_site.slurm.site import Floats, Site, SlurmJobs
from batfill_site.starts.estimates import Estimates
from batfill_site.starts.forecast import FORKS, Fork, Machine, calibrated, estimated
from batfill_site.starts.past import Past

WHY = {
    "Resources": "it is the first of its partition, and what it needs is not free (Resources)",
    "Priority": "jobs of higher priority wait for the same nodes (Priority)",
}
NO_REASON = "Slurm has not looked at it yet"


def machine_of(site: Site, jobs: SlurmJobs, now_s: float) -> Machine:
    """The model from any instant of these jobs; the site's usage, if it has any, is of `now_s`."""

    def at(past: Past, forks: int, random: np.random.Generator) -> Fork:
        known = past.now_s == now_s and any(each.usage for each in site.associations)
        then = site if known else with_usage_at(site, jobs, past.now_s)
        dates = clocks(then, jobs, forks, int(random.integers(2**31)), past.now_s)

        def fork(k: int, rows: Any, submit_s: Any, run_s: Any, known: int) -> Floats:
            these, running, asked = jobs.select(rows), *np.zeros((2, len(rows)), bool)
            running[:known] = ~np.isnan(past.start_s[rows[:known]])
            asked[:known] = ~running[:known]
            eligible_s = these.eligible_s + submit_s - these.submit_s
            these = replace(these, submit_s=submit_s, eligible_s=eligible_s, run_s=run_s)
            return Model(then, these, running, past.now_s).run(dates[k], asked=asked).start_s

        return fork

    return at


def past_of(jobs: SlurmJobs, end_s: Floats, now_s: float) -> Past:
    """What is known at an instant; what has been submitted and is not eligible yet waits, too."""
    user = np.unique(np.array(jobs.user, object), return_inverse=True)[1]
    limit_s = jobs.limit_s.astype(np.float64)
    return Past(math.inf, jobs.submit_s, limit_s, jobs.cpus, user, ~jobs.held, jobs.started_s, end_s).at(now_s)


def when_under_slurm(
    state: str | Path,
    job: str | None,
    slurm_conf: str | Path,
    *,
    past: str | Path | Sequence[str | Path] = (),
    at: Any = None,
    forks: int = FORKS,
    seed: int = 0,
    timezone: str | None = None,
    **files: Any,
) -> Estimates:
    """The estimates for a site's state; see `starts.when.when`."""
    site = read_site(slurm_conf, **files)
    before = [Path(past)] if isinstance(past, str | Path) else list(map(Path, past))
    now = read_now(Path(state), before, site, timezone=timezone, at=at)
    jobs, first_s = now.jobs, math.floor(float(now.jobs.submit_s.min()))
    known, machine = past_of(jobs, now.end_s, now.now_s), machine_of(site, jobs, now.now_s)
    waiting = known.alive[np.isnan(known.start_s[known.alive])]
    ids = np.array(jobs.ids, object)[waiting]
    asked = np.ones(len(ids), bool) if job is None else ids == str(job)
    if job is not None and not asked.any():
        why = now.left_out.get(str(job))
        raise BatfillError(f"{state}: job {job} {f'is left out: {why}' if why else 'does not wait in it'}")
    widened, calibrated_on = calibrated(known, machine, forks, seed)
    found, rows = estimated(known, machine, forks, seed, widened), waiting[asked]
    said = [now.reasons[row] for row in rows]
    why_not = [WHY.get(each, f"Slurm's reason is {each}" if each else NO_REASON) for each in said]
    dates_s = [column[asked] for column in found[1:]]
    lines, caution = touched(site, jobs)
    notes = (*lines, *site.warnings, *jobs.warnings)
    return Estimates.of(
        *(known, rows, dates_s, ids[asked], jobs.limit_s[rows].astype(np.float64), np.array(why_not, object)),
        origin_s=first_s,
        name=Path(state).name,
        size=site.cpus,
        forks=forks,
        seed=seed,
        calibrated_on=calibrated_on,
        clock=Clock(first_s, zone_of(timezone or "UTC")),
        model="the site's Slurm as configured",
        lacks="failing nodes and what users do next",
        more={"warnings": [*site.notes[: bool(site.assumed)], *notes]},
        left_out=now.left_out,
        assumed="; ".join(filter(None, (site.assumed, caution))),
        warnings=notes,
    )
