"""Flux with Fluxion: EASY by name, on priorities that only a plug-in in C could compute."""

from __future__ import annotations

from batfill.siteconfig.verdict import APPROXIMATE, EXACT, IMPOSSIBLE, SiteConfig, Verdict

SOURCES = (
    "flux-config-sched-fluxion-qmanager(5): queue-policy easy, queue-depth; https://github.com/flux-framework/flux-sched",
    "flux-jobtap-plugins(7): the callback job.priority.get; https://github.com/flux-framework/flux-core",
)
CONFIG = """\
[sched-fluxion-qmanager]
queue-policy = "easy"
# The default considers 32 waiting jobs.
queue-params = "queue-depth=1000000,max-queue-depth=1000000"
"""


def flux(policy: str, *, backfill: str | None, threshold_s: float | None) -> SiteConfig:
    """The nearest configuration of Flux. Under fcfs a job past its threshold is first already."""
    if policy != "fcfs":
        why = "a job's priority is its owner's urgency unless a jobtap plug-in in C computes it from the request"
        return SiteConfig("flux", policy, IMPOSSIBLE, (why,), {}, SOURCES)
    differs = ("jobs are backfilled in the queue's order: Fluxion has no other for that",) if backfill else ()
    verdict: Verdict = APPROXIMATE if differs else EXACT
    return SiteConfig("flux", policy, verdict, differs, {"/etc/flux/system/conf.d/fluxion.toml": CONFIG}, SOURCES)
