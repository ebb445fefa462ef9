"""When each waiting job of a site's Slurm is expected to start: forks of the model from its state.

In each the controller makes its passes at other dates. Jobs that run hold their nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.words import things
from batfill.model.jobs import Clock
from batfill_site.accounting.record_text import zone_of
from batfill_site.slurm.arrays import with_usage_at
from batfill_site.slurm.conf import read_site, unlimited
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.model import Model
from batfill_site.slurm.named import touched
from batfill_site.slurm.now import asked_about, read_now
from batfill_site.slurm.site import Floats, Site, SlurmJobs
from batfill_site.starts.estimates import Estimates
from batfill_site.starts.forecast import FORKS, Fork, Machine, calibrated, estimated
from batfill_site.starts.past import Past
from batfill_site.starts.submit import AT_ONCE, said_of
from batfill_site.starts.why_not import Instants, listed

WHY = {
    "Resources": "it is the first of its partition, and what it needs is not free (Resources)",
    "Priority": "jobs of higher priority wait for the same nodes (Priority)",
}
NO_REASON = "Slurm has not looked at it yet"
MOST_LOOKED_AT = 20  # waiting jobs of which the model says why, too: a look takes up to four short runs


def without_limits(site: Site) -> Site:
    return replace(site, associations=tuple(map(unlimited, site.associations)), qos=tuple(map(unlimited, site.qos)))


# Why a job asked about does not start at once: whether it would if it waited alone, at a site without what.
WITHOUT: dict[str, tuple[bool, Callable[[Site], Site]]] = {
    AT_ONCE: (False, lambda site: site),
    "jobs that wait go first, and need the same nodes (Priority)": (True, lambda site: site),
    "its user, account or QOS is at a limit, or it asks for more than that": (True, without_limits),
    "its nodes are down, or reserved before it would end": (True, lambda site: replace(site, windows=())),
}
TAKEN = "what it needs is not free, whoever else waits (Resources)"


def machine_of(site: Site, jobs: SlurmJobs, now_s: float) -> Machine:
    """The model from any instant of these jobs; the site's usage, if it has any, is of `now_s`."""

    def at(past: Past, forks: int, random: np.random.Generator) -> Fork:
        known = past.now_s == now_s and any(each.usage for each in site.associations)
        then = site if known else with_usage_at(site, jobs.select(range(len(past.user))), past.now_s)
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
    submit: Any = None,
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
    submitted = [] if submit is None else asked_about(submit, site, now)
    widened, calibrated_on = calibrated(known, machine, forks, seed)
    clock, found = Clock(first_s, zone_of(timezone or "UTC")), list[tuple[Any, ...]]()
    instants = Instants(now.now_s - first_s, clock)
    for text, one, never in submitted:
        dates_s, reason = [math.inf] * 3, f"never: for jobs like it, {never}"
        if not never:
            more = jobs.followed_by(one)
            then, machine = past_of(more, np.append(now.end_s, np.nan), now.now_s), machine_of(site, more, now.now_s)
            dates_s = [column[-1] for column in estimated(then, machine, forks, seed, widened)[1:]]
            (reason,) = held_by(site, more, then, [len(more) - 1], seed, instants)
        found.append((text, one.cpus[0], one.limit_s[0], now.now_s, *dates_s, reason))
    if submit is None:
        starts, rows = estimated(known, machine, forks, seed, widened), waiting[asked]
        said = [now.reasons[row] for row in rows]
        reasons = [f"Slurm: {WHY.get(each, each)}" if each not in ("", "None") else NO_REASON for each in said]
        looked_at = rows.tolist() if len(rows) <= MOST_LOOKED_AT else []
        for k, own in enumerate(held_by(site, jobs, known, looked_at, seed, instants)):
            reasons[k] += f". The model: {own}"
        columns = ids[asked], known.procs[rows], jobs.limit_s[rows], known.submit_s[rows]
        found = list(zip(*columns, *(column[asked] for column in starts[1:]), reasons, strict=True))
    lone = said_of(text for text, one, _ in submitted if one.user[0] not in jobs.user)
    lines, caution = touched(site, jobs)
    notes = (*lines, *site.warnings, *jobs.warnings)
    return Estimates.of(
        known,
        found,
        asked=bool(submitted),
        origin_s=first_s,
        name=Path(state).name,
        size=site.cpus,
        forks=forks,
        seed=seed,
        calibrated_on=calibrated_on,
        clock=clock,
        model="the site's Slurm as configured",
        lacks="failing nodes and what users do next",
        more={"warnings": [*(f"assumed: {text}" for text in site.supposed), *notes]},
        left_out=now.left_out,
        assumed="; ".join(filter(None, (*site.supposed, caution, lone))),
        warnings=notes,
    )


def held_by(site: Site, jobs: SlurmJobs, past: Past, rows: Sequence[int], seed: int, instants: Instants) -> list[str]:
    """Why each of these waiting jobs does not start at once, on which nodes it is planned, and until when at most."""
    if not rows:
        return []
    used = site if any(each.usage for each in site.associations) else with_usage_at(site, jobs, past.now_s)
    alive, runs = past.alive, np.isfinite(past.start_s[past.alive])
    ran_s = np.where(runs, past.now_s - past.start_s[alive], 0.0)
    these = replace(jobs.select(alive), run_s=np.maximum(jobs.limit_s[alive], ran_s + 1))  # all run to their limits
    plan = Model(used, these, runs, past.now_s).run(
        clocks(used, these, 1, seed, past.now_s)[0], asked=np.isin(alive, rows)
    )
    at = np.split(plan.at, plan.first[1:-1])
    holds = {these.ids[k]: set(expand(these.ran_on[k])) for k in np.flatnonzero(runs).tolist() if these.ran_on[k]}
    found = []
    for row in rows:
        k, later_s = int(np.flatnonzero(alive == row)[0]), float(jobs.eligible_s[row]) - past.now_s
        early = f"it may not start before {instants.text(later_s + instants.now_s)}, its begin time" * (later_s > 0)
        why = early or why_not(used, jobs, past, row, seed)
        if why != AT_ONCE and len(at[k]):
            names = [site.nodes[node].name for node in at[k].tolist()]
            on_them = [job for job, held in holds.items() if held & set(names)]
            before = np.flatnonzero(~runs & (plan.start_s < plan.start_s[k]))
            first = sum(bool(np.isin(at[k], at[other]).any()) for other in before.tolist())
            planned = instants.text(float(plan.start_s[k]) - past.now_s + instants.now_s)
            said = [f"planned by {planned} if all run to their limits, on {listed(names, 'node')}"]
            if on_them:
                said.append(f"{listed(on_them)} run{'s' * (len(on_them) == 1)} there now")
            why = "; ".join([why, *said, *[f"{things(first, 'waiting job')} there before it"] * bool(first)])
        found.append(why)
    return found


def why_not(site: Site, jobs: SlurmJobs, past: Past, row: int, seed: int) -> str:
    """Why a waiting job does not start at once: of what it would, were that not there.

    Nothing ends meanwhile: what starts does so in the first main pass, or in the first backfill cycles.
    """
    before_s, soon_s = 0.0, 60 + 2 * max(site.settings.bf_interval_s, site.settings.sched_interval_s)
    for why, (alone, without) in WITHOUT.items():
        rows = past.alive[np.isfinite(past.start_s[past.alive]) | (past.alive == row)] if alone else past.alive
        these = jobs.select(rows)
        these = replace(these, run_s=past.now_s - these.submit_s + 2 * soon_s)
        model = Model(without(site), these, np.isfinite(past.start_s[rows]), past.now_s)
        start_s = model.run(clocks(site, these, 1, seed, past.now_s)[0], asked=rows == row).start_s[rows == row][0]
        if start_s <= past.now_s + soon_s or math.isnan(before_s) > math.isnan(start_s):  # or which it would never
            return why
        before_s = start_s if alone else 0.0
    return TAKEN
