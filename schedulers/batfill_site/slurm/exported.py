"""An exported configuration, run over a log in the model of Slurm: does it give the figures of a replay?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from batfill.base.errors import BatfillError
from batfill.base.progress import patient_progress
from batfill.base.words import duration
from batfill.model.jobs import JobTable, Workload
from batfill.model.metrics import bounded_slowdown
from batfill.replays.many import in_threads
from batfill.replays.replay import replay
from batfill_site.slurm.conf import read_site
from batfill_site.slurm.model import Model
from batfill_site.slurm.site import Clock, Floats, Ints, Limits, Qos, Site, SlurmJobs

YEAR_S = 525_600 * 60  # the limit of a job without a request
SAME = 5  # percent: figures less apart are given
PHASES_S = (0.1, 0.4, 0.7)  # of the runs' clocks, which alone sets their schedules apart
WORDS = {"mean_wait_s": "mean wait", "max_wait_s": "longest wait", "mean_bsld": "mean bounded slowdown"}


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of a log's jobs in the model of Slurm and in the replay, by the names of WORDS."""

    log: str
    jobs: int  # that ran in the replay
    slurm: dict[str, list[float]]  # one for each of PHASES_S
    replay: dict[str, float]
    near: float  # the share of jobs that start within a minute of their start in the replay, of all runs
    never: int  # jobs that a run of the model never starts, which are not in its figures

    @property
    def lines(self) -> list[str]:
        """The figures, and whether the files give the replay's."""
        texts, off = [], [f"{self.never:,} jobs never start"] if self.never else []
        for name, words in WORDS.items():
            slurm, was = self.slurm[name], self.replay[name]
            mean, least, most = sum(slurm) / len(slurm), min(slurm), max(slurm)
            apart = 100 * (mean / was - 1) if was else 100 * (mean > 0)
            if abs(apart) >= SAME and not least <= was <= most:
                off.append(f"the {words} is {abs(apart):.0f} % {'higher' if apart > 0 else 'lower'}")
            x = [duration(value) if name.endswith("_s") else f"{value:.2f}" for value in (mean, least, most, was)]
            texts.append(f"{words} {x[0]} ({x[1]} to {x[2]} in {len(slurm)} runs; replay {x[3]})")
        near = f"{100 * self.near:.1f} % of {self.jobs:,} jobs start within a minute of the replay's start"
        given = f"no: {', '.join(off)}" if off else f"yes, each to within {SAME} % or what the runs differ by"
        head = f"in a model of Slurm with these files, {self.log}"
        return [f"{head}: {', '.join(texts)}; {near}", f"do these files give the replay's figures? {given}"]


def figures_of(wait_s: Floats, run_s: Floats) -> dict[str, float]:
    """The figures of jobs, by the names of WORDS."""
    means = (wait_s.mean(), wait_s.max(initial=0.0), bounded_slowdown(wait_s, run_s).mean())
    return dict(zip(WORDS, map(float, means), strict=True))


def tried(files: Mapping[str, str], log: Workload | str | Path, options: Mapping[str, Any], **how: Any) -> Trial:
    """What the files give; `options` are those of the policy, `how` the other arguments of `replay`.

    Raises:
        BatfillError: the log is unusable, or a script decides on first tries.
    """
    if "slurm_tries.py" in files:
        raise BatfillError("--on: the model has no script that ends first tries; leave --on out, or the first tries")
    result = replay(log, **options, **how)
    ran = np.flatnonzero(result.schedule.ended)
    jobs, start_s = result.workload.jobs.select(ran), result.schedule.start_s[ran]
    run_s = result.schedule.runtime_s[ran]
    slurm = slurm_jobs(jobs, run_s, files.get("job_submit.lua"))
    model = Model(site_of(files["slurm.conf"], result.size, result.options.max_running), slurm)
    with patient_progress("runs", len(PHASES_S)) as done:
        starts = in_threads(lambda phase_s: model.run(Clock(phase_s=phase_s)).start_s, PHASES_S, done)
    began = np.isfinite(starts).all(axis=0)
    runs = [figures_of((each - jobs.submit_s)[began], run_s[began]) for each in starts]
    return Trial(
        log=result.workload.name,
        jobs=len(jobs),
        slurm={name: [run[name] for run in runs] for name in WORDS},
        replay=figures_of(start_s - jobs.submit_s, run_s),
        near=float((np.abs(np.array(starts) - start_s) <= 60).mean()),
        never=int((~began).sum()),
    )


def site_of(conf: str, procs: int, most_running: int | None) -> Site:
    """As many nodes with one CPU in one partition, under slurm.conf; `most_running` is a limit of the QOS normal."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "slurm.conf"
        path.write_text(f"{conf}\nNodeName=n[1-{procs}]\nPartitionName=all Nodes=ALL\n")
        site = read_site(path)
    # A plug-in's factors stand for priority/basic, too. Without weights they never change, which spares the ticks.
    settings = replace(site.settings, multifactor=True, calc_period_s=1e12)
    return replace(site, settings=settings, qos=(Qos("normal", per_user=Limits(most_running)),))


def slurm_jobs(jobs: JobTable, run_s: Floats, plugin: str | None) -> SlurmJobs:
    """The jobs as Slurm has them: a processor is a node, and a job's site factor is its whole priority."""
    n, q = len(jobs), jobs.procs
    limit_s = np.where(np.isfinite(jobs.request_s), np.maximum(60 * np.ceil(jobs.request_s / 60), 60), YEAR_S)
    factor = np.arange(n, 0, -1) if plugin is None else site_factors(plugin, jobs.submit_s, limit_s, q)
    columns: dict[str, Any] = {"ids": tuple(map(str, jobs.ids)), "user": tuple(map(str, jobs.user))}
    columns |= {"partition": ("all",) * n, "qos": ("normal",) * n, "nice": -factor.astype(np.int64)}
    columns |= dict.fromkeys(("cpus", "nodes", "min_nodes"), q) | {"limit_s": limit_s.astype(np.int64)}
    return SlurmJobs.of(jobs.submit_s, run_s=run_s, **columns)


def site_factors(plugin: str, submit_s: Floats, limit_s: Floats, procs: Ints) -> Floats:
    """The site factor of each job, before it is cut down, by the submit plug-in's lines, which Python reads alike."""
    names: dict[str, Any] = {"p": limit_s, "q": procs, "r": np.floor(submit_s), "math": np}
    for name, text in re.findall(r"local (STEP|place) = ([^\n]*?)(?:  --.*)?\n", plugin):
        names[name] = eval(text, names)
    factor: Floats = names["place"]
    if cap := re.search(r"place = math.max\(0, math.min\((\d+), place\)\)", plugin):
        factor = np.clip(factor, 0, int(cap[1]))
    if small := re.search(r"if p <= (\S+) then place = place \+ (\d+) end", plugin):
        factor = np.where(limit_s <= float(small[1]), factor + int(small[2]), factor)
    return np.clip(factor, 1, 2_000_000_000)
