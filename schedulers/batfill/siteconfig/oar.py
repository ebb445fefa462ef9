"""OAR 3: a sorting function in Python, which may know everything, before a conservative backfilling."""

from __future__ import annotations

from batfill.siteconfig.formulas import KEYS, written
from batfill.siteconfig.verdict import APPROXIMATE, IMPOSSIBLE, SiteConfig

SOURCES = (
    "JOB_PRIORITY, CUSTOM_JOB_SORTING and the entry points oar.jobs_sorting_func: oar/kao/kamelot.py and "
    "oar/kao/custom_jobs_sorting.py of https://github.com/oar-team/oar3",
)
CONSERVATIVE = (
    "every waiting job has a reservation (conservative backfilling) and not the first alone",
    "a pass runs when OAR's scheduler is called, and not at every event",
)
CONFIG = 'JOB_PRIORITY="CUSTOM"\nCUSTOM_JOB_SORTING="batfill_{policy}"\n'
PROJECT = '[project.entry-points."oar.jobs_sorting_func"]\nbatfill_{policy} = "batfill_sorting:{policy}"\n'
FUNCTION = '''\
from math import inf, log2, prod

THRESHOLD_S = {threshold}


def asked(job):
    """Requested seconds and resources of the job's first alternative."""
    _, walltime_s, groups = job.mld_res_rqts[0]
    return walltime_s, sum(prod(count for _, count in levels) for levels, _ in groups)


def {policy}(queues, now, jids, jobs, config, platform):
    def place(jid):
        job = jobs[jid]
        r, w = job.submission_time, now - job.submission_time
        p, q = asked(job)
        if w > THRESHOLD_S:
            return (0, r, r, jid)
        return (1, {key}, r, jid)

    return sorted(jids, key=place)
'''


def oar(policy: str, *, backfill: str | None, threshold_s: float | None) -> SiteConfig:
    """The nearest configuration of OAR 3."""
    if policy not in KEYS:
        why = "its key counts from the first second of a log, which a cluster does not have"
        return SiteConfig("oar", policy, IMPOSSIBLE, (why,), {}, SOURCES)
    differs = list(CONSERVATIVE)
    if backfill:
        differs.append("jobs are backfilled in the queue's order: OAR has no other for that")
    threshold = "inf" if threshold_s is None else f"{threshold_s:.17g}"
    key = written(KEYS[policy], r="r", p="p", q="q", w="w")
    files = {
        "/etc/oar/oar.conf": CONFIG.format(policy=policy),
        "pyproject.toml of the plug-in": PROJECT.format(policy=policy),
        "batfill_sorting.py": FUNCTION.format(policy=policy, threshold=threshold, key=key),
    }
    return SiteConfig("oar", policy, APPROXIMATE, tuple(differs), files, SOURCES)
