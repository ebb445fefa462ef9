"""OpenPBS: a formula for the order, one job to hold a reservation, and its own rule for jobs that starve."""

from __future__ import annotations

from batfill.siteconfig.formulas import FIXED, WAITING, written
from batfill.siteconfig.verdict import APPROXIMATE, IMPOSSIBLE, SiteConfig

SOURCES = (
    "OpenPBS, job_sort_formula, backfill_depth and eligible_time_enable: qmgr(8B), pbs_server_attributes(7B)",
    "OpenPBS, strict_ordering: pbs_sched_config; help_starving_jobs and max_starve: job_starving in job_info.cpp and "
    "cmp_starving_jobs in sort.cpp of the scheduler; https://github.com/openpbs/openpbs",
)
CYCLE = "a pass runs once per scheduling cycle, and not at every event"
STARVING = "a job's wait counts for the threshold from when it may run, and not from its submission"
ELIGIBLE = "the waiting time is PBS's eligible time, which leaves out what a job waited for its owner's limits"
BACKFILL_ORDER = "jobs are backfilled in the queue's order: PBS has no other for that"
NAMES = {"p": "walltime", "q": "ncpus", "w": "eligible_time"}


def pbs(policy: str, *, backfill: str | None, threshold_s: float | None) -> SiteConfig:
    """The nearest configuration of OpenPBS."""
    differs = [CYCLE]
    differs += [BACKFILL_ORDER] if backfill else []
    differs += [STARVING] if threshold_s is not None else []
    server = ["set server backfill_depth = 1"]
    if policy in FIXED or policy in ("sexp", "lexp", "wfp3"):
        key = FIXED.get(policy) or WAITING[policy].replace("(w / p) ** 3", "(w / p) * (w / p) * (w / p)")
        server.append(f'set server job_sort_formula = "-({written(key, **NAMES)})"')  # PBS takes the highest first
    elif policy == "fcfs":
        server.append("unset server job_sort_formula")
    else:
        why = "job_sort_formula knows no submission time and no logarithm to rely on; it takes a scheduler of your own"
        return SiteConfig("pbs", policy, IMPOSSIBLE, (why,), {}, SOURCES)
    if policy in WAITING:
        differs.append(ELIGIBLE)
        server.append("set server eligible_time_enable = True")
    files = {
        "qmgr": "\n".join(server) + "\n",
        "$PBS_HOME/sched_priv/sched_config": "by_queue: False ALL\nround_robin: False ALL\nstrict_ordering: True ALL\n"
        + starving(threshold_s),
    }
    return SiteConfig("pbs", policy, APPROXIMATE, tuple(differs), files, SOURCES)


def starving(threshold_s: float | None) -> str:
    """The lines about jobs that have waited long; max_starve is hours, minutes and seconds."""
    if threshold_s is None:
        return "help_starving_jobs: False ALL\n"
    minutes, seconds = divmod(round(threshold_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"help_starving_jobs: True ALL\nmax_starve: {hours}:{minutes:02}:{seconds:02}\n"
