"""How near the model of a site's Slurm is to its log, beside the replay of one pool, and what explains the rest.

A wait is *off by* its distance from the logged one. Schedules of Slurm are chaotic, so two runs of the model differ,
too: that distance is its noise, and no model could be nearer to the log. What the files do not say is looked for: each
cause is switched on, the model is run again, and what that takes off the mean distance is its gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batfill.base.errors import WorkloadError
from batfill.base.files import digest
from batfill.base.progress import patient_progress
from batfill.base.words import percent, things
from batfill.model.jobs import job_table
from batfill.model.options import Options
from batfill.model.values import number_from, seed_of
from batfill.replays.found import document
from batfill.replays.replay import simulate
from batfill_pages.words import count
from batfill_site.accounting.outages import GRID_S, held, idle_spans
from batfill_site.answer import (
    Answer,
    Bars,
    Detail,
    FoundAnswer,
    Screen,
    Table,
    around,
    duration,
)
from batfill_site.score import LEAST_GAIN, LEAST_SHARE
from batfill_site.slurm.arrays import possible, with_usage
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.ensemble import FEWEST_RUNS, RUNS, Difference, Figure, about, clocks, kinds, ran
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.jobs import read_jobs
from batfill_site.slurm.named import touched, unmodelled
from batfill_site.slurm.site import Bools, File, Floats, Site, SlurmJobs, Window, held_cpus

HEADS = {"off_s": "off by", "ratio": "sim/log"}  # of what is measured
OFF = (
    "Mean logged wait, and the mean distance of a job's wait from it, ± half of its 95 % interval over the runs: in a "
    "pool of as many equal processors with EASY backfilling, in the model, and from one of its runs to another."
)
REPLAYS = {"pool": "one pool, FCFS with EASY", "model": "Slurm as configured", "noise": "one run to another"}


def pool_waits(site: Site, jobs: SlurmJobs) -> Floats:
    order = np.argsort(jobs.eligible_s, kind="stable")
    table = job_table(
        submit_s=(jobs.eligible_s - jobs.eligible_s.min())[order],
        runtime_s=jobs.run_s[order],
        walltime_s=np.maximum(np.maximum(jobs.limit_s, jobs.run_s), 1)[order],
        procs=held_cpus(site, jobs)[order],
        ids=[f"{row:010}" for row in range(len(jobs))],
        cancel_after_s=np.maximum(jobs.leave_s - jobs.eligible_s, 1e-9)[order],
    )
    pool = table.stating(name="the pool", size=site.cpus)
    found = np.empty(len(jobs))
    found[order] = simulate(table, pool, Options.of({"policy": "fcfs"}))[0].start_s - table.submit_s
    return found


def compared(sims: dict[str, tuple[Floats, Floats]], rows: Bools) -> dict[str, Any]:
    """Each of `HEADS` of simulated waits against others, (runs, jobs) each: its mean over runs, with its margin."""
    found = {}
    for name, pair in sims.items():
        truth_s, wait_s = (each[:, rows] for each in pair)
        means, of = wait_s.mean(axis=1), truth_s.mean(axis=1)
        ratio = means / np.where(of > 0, of, np.nan)
        figures = (Figure.of(one) for one in (np.abs(wait_s - truth_s).mean(axis=1), ratio))
        found[name] = {key: {"mean": one.mean, "margin": one.margin} for key, one in zip(HEADS, figures, strict=True)}
    return found


def slurm_fidelity(
    log: File, slurm_conf: File, *, runs: int = RUNS, seed: int = 0, timezone: str | None = None, **files: Any
) -> FoundAnswer:
    """How near the model of a site's Slurm is to its log, beside the replay of one pool; see `what_if.slurm`."""
    runs, seed = number_from("runs", runs, FEWEST_RUNS), seed_of("seed", seed)
    site = read_site(slurm_conf, **files)
    jobs = read_jobs(log, timezone=timezone, limits=site.max_times_s, cred_expire_s=site.settings.cred_expire_s)
    return compared_with_log(Path(log), site, jobs, runs, seed)


def compared_with_log(path: Path, site: Site, jobs: SlurmJobs, runs: int, seed: int) -> FoundAnswer:
    jobs, never = possible(site, jobs)
    if not len(jobs):
        raise WorkloadError(f"{path}: none of its jobs can start: {never[0]}")
    dates, logged_s = clocks(site, jobs, runs, seed), np.maximum(jobs.started_s - jobs.eligible_s, 0)
    with patient_progress("runs", runs + 4 * FEWEST_RUNS) as advance:
        pool_s, model_s = pool_waits(site, jobs), ran(site, jobs, dates, advance).wait_s
        starts = np.isfinite(pool_s) & np.isfinite(model_s).all(axis=0)
        rows = starts & np.isfinite(logged_s) & ~jobs.held
        if not rows.any() or not logged_s[rows].any():
            raise WorkloadError(
                f"{path}: no job in it waited, of those that the model can start; give a log with waits"
            )
        sims = {"model": (logged_s[None], model_s), "noise": (np.roll(model_s, 1, axis=0), model_s)}
        sims["pool"] = (logged_s[None], np.tile(pool_s, (FEWEST_RUNS, 1)))
        scores = compared(sims, rows)
        groups = [
            {"by": by, "group": names[k], "jobs": int(its.sum()), "logged_mean_s": float(logged_s[its].mean())}
            | compared(sims, its)
            for by, names, group in kinds(jobs, site.cpus)
            for k in range(len(names))
            if by and (its := rows & (group == k)).sum() >= max(LEAST_SHARE * rows.sum(), 1)
        ]
        tried = [gain(cause, jobs, seed, model_s, logged_s, advance) for cause in causes(site, jobs, rows)]
    off_s = scores["model"]["off_s"]["mean"] * rows.sum()
    for one in tried:
        one["share"] = one.pop("gain_s") / off_s if off_s else 0.0
    lines, caution = touched(site, jobs)
    content = document(
        "fidelity",
        seed=seed,
        given={"runs": runs},
        source={
            "source": path.name,
            "source_sha256": digest(path),
            "procs": site.cpus,
            "jobs": len(jobs),
            "warnings": [*site.warnings, *jobs.warnings, *never, *lines],
        },
        results={
            "scores": scores,
            "logged_mean_s": float(logged_s[rows].mean()),
            "compared": int(rows.sum()),
            "held": int(jobs.held.sum()),
            "assumed": "; ".join(site.supposed),
            "caution": caution,
            "not_started": [jobs.ids[row] for row in np.flatnonzero(~starts & np.isinf(jobs.leave_s))],
            "groups": groups,
            "causes": sorted(tried, key=lambda one: -one["share"]),
        },
    )
    heads = [
        {"replay": text} | {head: said(scores[name][key], key) for key, head in HEADS.items()}
        for name, text in REPLAYS.items()
    ]
    started = about(site, jobs.select(np.flatnonzero(starts & np.isinf(jobs.leave_s))), runs)
    return FoundAnswer(content, heads, answer_of(content, heads, started))


def gain(
    cause: Cause, jobs: SlurmJobs, seed: int, model_s: Floats, logged_s: Floats, advance: Callable[[float], None]
) -> dict[str, Any]:
    """By how much a cause shortens the distances from the log, in all, and whether that is beyond noise."""
    begun = {} if cause.running is None else {"running": cause.running, "begin_s": cause.begin_s}
    dates = clocks(cause.site, jobs, len(model_s), seed, cause.begin_s)[:FEWEST_RUNS]
    wait_s = ran(cause.site, cause.jobs, dates, advance, **begun).wait_s + (cause.jobs.eligible_s - jobs.eligible_s)
    rows = cause.rows & np.isfinite(wait_s).all(axis=0)
    off = [np.abs(one[: len(dates), rows] - logged_s[rows]).sum(axis=1) for one in (model_s, wait_s)]
    more = Difference.of(*off)
    return {"cause": cause.name, "gain_s": -float(more.value), "beyond_noise": bool(more.beyond)}


def said(figure: dict[str, float], name: str) -> str:
    mean, margin = figure["mean"], figure["margin"]
    if not np.isfinite(mean):
        return "-"
    varies = margin > 1e-9 * abs(mean)
    if name == "off_s":
        return around(mean, margin) if varies else duration(mean)
    return f"{mean:.2f} ± {margin:.2f}" if varies else f"{mean:.2f}"


def answer_of(found: dict[str, Any], rows: list[dict[str, Any]], said_of: str) -> Answer:
    given, late, tried, scores = found["input"], found["not_started"], found["causes"], found["scores"]
    model, noise = (scores[name]["off_s"] for name in ("model", "noise"))
    groups = [
        (
            *(f"{row['by']} {row['group']}", count(row["jobs"]), duration(row["logged_mean_s"])),
            *(said(row[name]["off_s"], "off_s") for name in REPLAYS),
            *(said(row[name]["ratio"], "ratio") for name in ("pool", "model")),
        )
        for row in found["groups"]
    ]
    explained = [
        (one["cause"], percent(max(one["share"], 0.0)) + " (noise)" * (not one["beyond_noise"])) for one in tried
    ]
    cause = f"none of {'those' if tried else 'the causes'} that are looked for explains a tenth of the distance"
    near = model["mean"] - model["margin"] <= noise["mean"]
    if near:
        cause = "the model is as near to the log as one of its runs to another"
    elif tried and tried[0]["share"] >= LEAST_GAIN and tried[0]["beyond_noise"]:
        cause = f"the largest remaining one, {explained[0][1]} of the distance, is {tried[0]['cause']}"
    others = {"that waited for what is not modelled": found["held"]}
    others |= {f"that did not start in each run, such as {name}": len(late) for name in late[:1]}
    beside = [f"{things(n, 'job')} {why}: not compared" for why, n in others.items() if n]
    waited = duration(found["logged_mean_s"])
    return Answer(
        title=f"{given['source']}: how near the model of its Slurm is to the log",
        about=said_of,
        screen=Screen(
            f"Simulated waits are off by **{duration(model['mean'])}** a job; the model's runs differ by "
            f"{duration(noise['mean'])}",
            Table(list(rows[0]), [list(row.values()) for row in rows]),
            {
                "Caution": f"{found['caution']}." if found["caution"] else "",
                "Causes": f"{cause}.",
                "Logged": f"{'; '.join([f'waits of {waited} on average', *beside])}.",
                "Not modelled": unmodelled(given["warnings"]),
            },
        ),
        picture=Bars.of_waits(
            (row["by"], row["group"], row["model"]["ratio"]["mean"] * row["logged_mean_s"], row["logged_mean_s"])
            for row in found["groups"]
            if np.isfinite(row["model"]["ratio"]["mean"])
        ),
        details=[
            Detail(
                "Groups of jobs", [OFF], Table(("", "jobs", "in the log", *REPLAYS, "pool sim/log", "model"), groups)
            ),
            Detail("What the files do not say", [], Table(("cause", "explains"), explained)),
            Detail("Notes on the log and the configuration", [f"{text}." for text in given["warnings"]]),
        ],
        data=found,
        assumed=found["assumed"],
        guide="how-to/slurm",
        more="Groups of jobs, all causes and notes",
    )


IDLE_S = 6 * 3600.0  # that a node runs nothing, while jobs of one node wait for half as long, until it counts as down


class Cause(NamedTuple):
    """What the files do not say, switched on."""

    name: str
    site: Site
    jobs: SlurmJobs
    rows: Bools  # the jobs that are compared
    running: Bools | None = None  # jobs that run when the model begins,
    begin_s: float = -np.inf  # and when that is


def causes(site: Site, jobs: SlurmJobs, rows: Bools) -> Iterator[Cause]:
    if windows := idle_windows(site, jobs):
        name = (
            f"nodes down or reserved, as {things(len(windows), 'time')} they ran nothing while jobs waited (--windows)"
        )
        yield Cause(name, replace(site, windows=(*site.windows, *windows)), jobs, rows)
    if site.settings.weight_fairshare and not any(each.usage for each in site.associations):
        yield Cause("usage before the log, as in its first half-life (--sshare)", as_before(site, jobs), jobs, rows)
    begin_s = float((jobs.started_s + jobs.run_s)[np.isfinite(jobs.started_s)].min())
    running = jobs.started_s < begin_s
    if (rows & ~running).any() and running.any():
        name = f"the beginning of the log: {things(int(running.sum()), 'job')} ran before its first end"
        yield Cause(name, site, jobs, rows & ~running, running, begin_s)
    if jobs.held.any():
        eligible_s = np.where(jobs.held & np.isfinite(jobs.started_s), jobs.started_s, jobs.eligible_s)
        name = f"{things(int(jobs.held.sum()), 'job')} that waited for what is not modelled, such as a reservation"
        yield Cause(name, site, replace(jobs, eligible_s=eligible_s), rows)


def idle_windows(site: Site, jobs: SlurmJobs) -> tuple[Window, ...]:
    """Windows in which nodes ran nothing while jobs waited, from the first end on: the log lacks what ended before."""
    there, first_s = np.isfinite(jobs.started_s), float(jobs.submit_s[0])
    begin_s, end_s = jobs.started_s - first_s, jobs.started_s + jobs.run_s - first_s
    eligible_s, part = jobs.eligible_s - first_s, np.array(jobs.partition, object)
    columns = (eligible_s[there], begin_s[there], end_s[there], held_cpus(site, jobs)[there], part[there].astype(str))
    names, since_s = [node.name for node in site.nodes], end_s[there].min()
    nodes_in = {span: [*names] for span in idle_spans(*columns, site.cpus) if span[0] >= since_s}
    at_s = np.arange(0, end_s[there].max() + GRID_S, GRID_S)
    ran_on = [expand(text) if text else [] for text in jobs.ran_on]
    plain = zip(ran_on, jobs.constraint, jobs.required, jobs.excluded, strict=True)
    alone = there & ~jobs.held & np.array([len(at) == 1 and not any(texts) for at, *texts in plain])
    waiting = {}
    for each in site.partitions:
        rows = alone & (part == each.name)
        waiting[each.name] = held(at_s, eligible_s[rows], begin_s[rows], np.ones(int(rows.sum()))) > 0
    rows_of = defaultdict(list)
    for row in np.flatnonzero(there).tolist():
        for name in ran_on[row]:
            rows_of[name].append(row)
    told = all(ran_on[row] for row in np.flatnonzero(there))  # where they ran
    for name in names if told else ():
        its = sorted(rows_of[name], key=begin_s.__getitem__)
        wanted = np.any([waiting[each.name] for each in site.partitions if name in each.nodes] or [at_s < 0], axis=0)
        until_s = np.append(begin_s[its], at_s[-1])
        idle_s = np.append(0, np.maximum.accumulate(end_s[its])).clip(since_s), until_s
        waited_s = np.subtract(*(np.interp(each, at_s, np.cumsum(wanted) * GRID_S) for each in idle_s[::-1]))
        down = (idle_s[1] - idle_s[0] >= IDLE_S) & (waited_s >= IDLE_S / 2)
        for span in zip(idle_s[0][down].tolist(), idle_s[1][down].tolist(), strict=True):
            nodes_in.setdefault(span, []).append(name)
    return tuple(Window(tuple(names), first_s + a, first_s + b) for (a, b), names in sorted(nodes_in.items()))


def as_before(site: Site, jobs: SlurmJobs) -> Site:
    """The site if each user has always used what they used in the log's first half-life."""
    half_s, first_s = site.settings.half_life_s, float(jobs.submit_s[0])
    span_s = min(half_s or np.inf, float(jobs.submit_s[-1]) - first_s) or 1.0
    ends_s = np.minimum(jobs.started_s + jobs.run_s, first_s + span_s)
    ran_s = np.maximum(np.nan_to_num(ends_s - jobs.started_s), 0)
    return with_usage(site, jobs, ran_s * (half_s / 0.693 / span_s if half_s else 1.0))
