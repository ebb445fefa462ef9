"""Slurm: a job's place from a submit plugin in Lua, and reservations for the first waiting job alone."""

from __future__ import annotations

from batfill.siteconfig.formulas import FIXED, WAITING, written
from batfill.siteconfig.verdict import APPROXIMATE, IMPOSSIBLE, SiteConfig

SOURCES = (
    "slurm.conf(5): SchedulerParameters, PriorityType, JobSubmitPlugins; https://slurm.schedmd.com/slurm.conf.html",
    "multifactor priority, the site factor; https://slurm.schedmd.com/priority_multifactor.html",
)
BACKFILL = (
    "backfilling runs every bf_interval seconds and not at every event, in steps of bf_resolution seconds",
    "jobs of a reservation, a partition or a licence of their own wait for more than processors",
)
THRESHOLD = "no threshold: a job that has waited long does not come first (a site_factor plugin in C could do it)"
BACKFILL_ORDER = "jobs are backfilled in the queue's order: Slurm has no other for that"
PARAMETERS = """\
SchedulerType=sched/backfill
SchedulerParameters=bf_job_part_count_reserve=1,bf_interval=1,bf_resolution=1,bf_continue,bf_max_job_test=10000
"""
FACTOR = """\
PriorityType=priority/multifactor
# All other PriorityWeight... at their default, 0: the site factor is the priority.
JobSubmitPlugins=lua
"""
LUA = """\
-- The site factor is the priority: highest first, at least 1; a tie goes to the job that was submitted first.
local CEILING = 2000000000

local function known(number, unknown, otherwise)
   if number == nil or number >= unknown then return otherwise end
   return number
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   local p = known(job_desc.time_limit, slurm.NO_VAL, 525600) * 60.0  -- seconds; a year for a job without a limit
   local tasks = known(job_desc.num_tasks, slurm.NO_VAL, 1) * known(job_desc.cpus_per_task, slurm.NO_VAL16, 1)
   local q = math.max(known(job_desc.min_cpus, slurm.NO_VAL, 1), tasks)
   local key = {key}
   job_desc.site_factor = math.floor(math.max(1, math.min(CEILING - 1, {place})))
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end
"""


def slurm(policy: str, *, backfill: str | None, threshold_s: float | None) -> SiteConfig:
    """The nearest configuration of Slurm."""
    differs = list(BACKFILL)
    differs += [BACKFILL_ORDER] if backfill else []
    differs += [THRESHOLD] if threshold_s is not None else []
    if policy == "fcfs":
        files = {"slurm.conf": PARAMETERS + "PriorityType=priority/basic\n"}
        return SiteConfig("slurm", policy, APPROXIMATE, tuple(differs), files, SOURCES)
    if policy in FIXED:
        small = not policy.startswith("l")
        key = written(FIXED[policy], p="p", q="q")
        scale = 1000 if policy in ("srf", "lrf") else 1
        factor = "" if scale == 1 else f"{scale} * "
        place = f"CEILING - {factor}key" if small else f"-{factor}(key)"
        lua = LUA.format(key=key, place=place)
        differs.append("keys above two thousand million (a thousandth of that for srf and lrf) count as equal")
        differs.append("a time limit is counted in whole minutes, and one changed later does not move the job")
        files = {"slurm.conf": PARAMETERS + FACTOR, "job_submit.lua": lua}
        return SiteConfig("slurm", policy, APPROXIMATE, tuple(differs), files, SOURCES)
    why = "a job's place moves with its waiting time" if policy in WAITING else "its formula is none of Slurm's factors"
    return SiteConfig("slurm", policy, IMPOSSIBLE, (f"{why}; it takes a site_factor plugin in C",), {}, SOURCES)
