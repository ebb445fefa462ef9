"""The lines of slurm.conf and of PBS that make a choice of what-if.

They follow the systems' manuals: slurm.conf(5), pbs_server_attributes(7B), pbs_sched_attributes(7B), pbs_sched_config.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from batfill.model.options import HALF, NO_SMALL, REQUEST, Options
from batfill.model.rules import EVERY_JOB
from batfill_pages.words import asset

if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEMS = {"slurm": "Slurm", "pbs": "PBS"}
KEYS = {"fcfs": "", "spf": "p", "saf": "p * q"}  # p: requested seconds, q: processors; lowest first
TRIES_ON_SLURM = "docs/examples/first-tries-on-slurm has files that do it with a script beside slurmctld"
NO_TRIES = "it cannot, as it ends a job at its walltime for good"
NO_THRESHOLD = "it has no threshold, which takes a plug-in in C"


def configuration(system: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """The lines that make a choice, and "", or "" and why this system cannot do it."""
    found = Options.of(options)
    slurm, key, rules = system == "slurm", KEYS.get(found.policy.name), found.rules
    late = bool(key) and not math.isinf(found.threshold_s)  # the oldest job is first under fcfs anyway
    lacks = {
        TRIES_ON_SLURM if slurm else NO_TRIES: found.kills or found.small != NO_SMALL,
        "its order is not known here as a formula": key is None,
        "it predicts no run time": found.predict != REQUEST,
        "it backfills in the queue's order": found.backfill is not None and found.backfill.name != found.policy.name,
        "it makes the head's reservation in each pass": found.keeps,
        NO_THRESHOLD: late and slurm,
        "it cannot tell the older half of the overdue jobs": late and found.overdue == HALF,
        "a pass looks at all waiting jobs": rules.tested != EVERY_JOB and not slurm,
    }
    if why := next((why for why, holds in lacks.items() if holds), ""):
        return "", why
    if slurm:
        # Without a limit, 0, every job that is tested has a reservation; the highest priority is less than 2^32 - 1.
        reserve = f"bf_job_part_count_reserve={rules.depth % EVERY_JOB}"
        reserve = reserve if rules.depth else f"bf_min_prio_reserve={2**32 - 1}"
        tested = 10_000 if rules.tested == EVERY_JOB else min(rules.tested, 1_000_000)
        ordered = asset("slurm-order.txt", "batfill_site")
        order = ordered.replace("{key}", str(key)) if key else "PriorityType=priority/basic\n"
        return asset("slurm.txt", "batfill_site").format(reserve=reserve, tested=tested) + order, ""
    # Millionths, because a job never runs whose value is below job_sort_formula_threshold, which is -2^31.
    size = str(key).replace("p", "walltime").replace("q", "ncpus")
    formula = f"-({size}) / 1000000"
    formula = f"10**15 + eligible_time if eligible_time > {found.threshold_s:.17g} else {formula}" if late else formula
    order = f'set server job_sort_formula = "{formula}"' if key else "unset server job_sort_formula"
    return asset("pbs.txt", "batfill_site").format(
        depth=min(rules.depth, 1_000_000), order=order, strict=rules.depth > 0
    ), ""
