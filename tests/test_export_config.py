"""Exported configurations order jobs as the policy does, where they say so, and say where they do not."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from types import SimpleNamespace

import lupa
import pytest

from batfill.policies import POLICIES
from batfill.siteconfig.formulas import FIXED, KEYS
from batfill.siteconfig.systems import SYSTEMS, site_config
from command import refusal, result
from oracle import key_named

NOW = 5_000_000
YEAR_MIN = 365 * 24 * 60


def jobs(seed, n=60):
    """(r, p, q) of waiting jobs, in the order of their submission; limits are whole minutes."""
    rng = random.Random(seed)
    arrivals = sorted(rng.sample(range(1, NOW), n))
    return [(r, 60 * rng.randint(1, 3000), rng.choice([1, 2, 3, 8, 64])) for r in arrivals]


def by_policy(policy, table):
    """The jobs' places in the policy's order."""
    key = key_named(policy)
    return sorted(range(len(table)), key=lambda i: (key(NOW, *table[i]), i))


def same_order(policy, table, found):
    """Equal but for keys that differ by rounding alone."""
    keys = [key_named(policy)(NOW, *table[i]) for i in found]
    return all(a <= b or math.isclose(a, b, rel_tol=1e-9) for a, b in pairwise(keys))


def oar_function(policy, **options):
    module = {}
    exec(site_config("oar", policy, **options).files["batfill_sorting.py"], module)
    return module[policy]


def oar_jobs(table):
    """As OAR 3 has them: the first alternative asks for switches of nodes, then for resources of one kind."""
    return {
        i: SimpleNamespace(submission_time=r, mld_res_rqts=[(i, p, [([("switch", 1), ("core", q)], [])])])
        for i, (r, p, q) in enumerate(table)
    }


@pytest.mark.parametrize("policy", KEYS)
def test_oars_sorting_function_sorts_as_the_policy(policy):
    table = jobs(1)
    found = oar_function(policy)("default", NOW, range(len(table)), oar_jobs(table), "{}", None)
    assert sorted(found) == list(range(len(table)))
    assert same_order(policy, table, found)


def test_oars_sorting_function_puts_overdue_jobs_first_by_age():
    table = jobs(2)
    found = oar_function("saf", threshold_s=2_000_000)("default", NOW, range(len(table)), oar_jobs(table), "{}", None)
    overdue = [i for i, (r, _, _) in enumerate(table) if NOW - r > 2_000_000]
    assert 0 < len(overdue) < len(table)
    assert found[: len(overdue)] == overdue
    assert found[len(overdue) :] == [i for i in by_policy("saf", table) if i not in overdue]


def slurm_plugin(policy):
    """The submit plug-in in Lua as Slurm would run it: from a job's request to its site factor."""
    lua = lupa.LuaRuntime()
    lua.execute("slurm = {NO_VAL = 4294967294, NO_VAL16 = 65534, SUCCESS = 0}")
    lua.execute(site_config("slurm", policy).files["job_submit.lua"])

    def factor(**request):
        unknown = {"time_limit": 4294967294, "min_cpus": 4294967294, "num_tasks": 4294967294, "cpus_per_task": 65534}
        description = lua.table_from({**unknown, **request})
        assert lua.globals().slurm_job_submit(description, None, 0) == 0
        return description["site_factor"]

    return factor


@pytest.mark.parametrize("policy", FIXED)
def test_slurms_submit_plugin_orders_as_the_policy(policy):
    table = jobs(3)
    factor = slurm_plugin(policy)
    factors = [factor(time_limit=p // 60, min_cpus=q) for _, p, q in table]
    found = sorted(range(len(table)), key=lambda i: (-factors[i], i))
    if policy in ("srf", "lrf"):  # a thousandth of a second per processor is the finest difference
        key = key_named(policy)
        keys = [math.floor(1000 * key(NOW, *table[i])) for i in found]
        assert all(a <= b + 1 for a, b in pairwise(keys))
    else:
        assert found == by_policy(policy, table)
    assert all(0 < value < 2**31 for value in factors)


def test_slurms_submit_plugin_counts_tasks_and_unlimited_jobs():
    factor = slurm_plugin("saf")
    assert factor(time_limit=60, num_tasks=4, cpus_per_task=2) == factor(time_limit=60, min_cpus=8)
    assert factor(min_cpus=8) == factor(time_limit=YEAR_MIN, min_cpus=8)
    assert factor(time_limit=YEAR_MIN, min_cpus=10_000) == 1


@pytest.mark.parametrize("policy", [*FIXED, "sexp", "lexp", "wfp3"])
def test_pbs_formula_orders_as_the_policy_highest_first(policy):
    table = jobs(4)
    text = site_config("pbs", policy).files["qmgr"].split('job_sort_formula = "')[1].split('"')[0]
    values = [eval(text, {"walltime": p, "ncpus": q, "eligible_time": NOW - r}) for r, p, q in table]
    assert same_order(policy, table, sorted(range(len(table)), key=lambda i: -values[i]))


def test_pbs_has_a_rule_of_its_own_for_the_threshold():
    found = site_config("pbs", "saf", threshold_s=200_000)
    assert "help_starving_jobs: True ALL\nmax_starve: 55:33:20\n" in found.files["$PBS_HOME/sched_priv/sched_config"]
    assert any("counts for the threshold" in line for line in found.differs)
    assert not any("threshold" in line for line in site_config("pbs", "saf").differs)


def test_flux_is_exact_under_fcfs_alone():
    assert (site_config("flux", "fcfs").verdict, site_config("flux", "fcfs").differs) == ("exact", ())
    assert 'queue-policy = "easy"' in next(iter(site_config("flux", "fcfs").files.values()))
    assert site_config("flux", "fcfs", backfill="spf").verdict == "approximate"


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("policy", [*POLICIES, "mixed:1,0,0,0,0,1"])
def test_every_policy_has_a_verdict_with_reasons_and_sources(system, policy):
    found = site_config(system, policy, backfill="spf", threshold_s=7200)
    assert found.sources
    assert bool(found.files) == (found.verdict != "not expressible")
    assert bool(found.differs) == (found.verdict != "exact")
    backfilled_alike = policy == "spf" or not found.files
    assert any("backfilled in the queue's order" in line for line in found.differs) != backfilled_alike


def test_the_command_prints_comments_and_files_or_json():
    text = result("export-config", "slurm", "--policy", "saf")
    assert text.startswith("# saf on slurm: approximate\n# differs: ")
    assert "\n\n# slurm.conf\nSchedulerType=sched/backfill\n" in text
    assert "\n\n-- job_submit.lua\n" in text
    as_json = json.loads(result("export-config", "slurm", "--policy", "saf", "--json"))
    assert (as_json["verdict"], list(as_json["files"])) == ("approximate", ["slurm.conf", "job_submit.lua"])


def test_an_unknown_system_policy_or_threshold_is_refused():
    assert "'slurm', 'oar', 'pbs', 'flux'" in refusal("export-config", "lsf")
    assert refusal("export-config", "pbs", "--policy", "sfa").startswith("policy 'sfa' is unknown; known are ")
    assert refusal("export-config", "pbs", "--threshold", -1).startswith("option threshold: -1 is not a number")
