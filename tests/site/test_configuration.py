"""The lines of what-if order jobs as the policy does, and a choice that a system cannot do has none."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest

pytest.importorskip("lupa")

import lupa

from batfill.base.errors import BatfillError
from batfill_site.advice.choices import choices
from batfill_site.advice.configuration import SYSTEMS, configuration
from batfill_site.advice.what_if import what_if
from oracle import key_named

NOW, NONE = 5_000_000, 4294967294
ORIGIN = 1_735_689_600
FIRST_TRIES = Path(__file__).parents[2] / "docs" / "examples" / "first-tries-on-slurm"


def lines_of(system, **options):
    lines, why = configuration(system, options)
    assert not why
    return lines


def plugin(text):
    """A submit plug-in in Lua as Slurm would run it, from a job's request to what it sets."""
    lua = lupa.LuaRuntime()
    lua.execute(f"slurm = {{NO_VAL = {NONE}, NO_VAL16 = 65534, SUCCESS = 0}}\n{text}")
    unknown = dict.fromkeys(("time_limit", "min_cpus", "num_tasks", "min_nodes"), NONE)
    unknown |= dict.fromkeys(("cpus_per_task", "ntasks_per_node", "requeue"), 65534)

    def submitted(at=0, partitions=(), **request):
        lua.globals().os.time = lambda: ORIGIN + at
        known = lua.table_from({part["name"]: lua.table_from(part) for part in partitions})
        job = lua.table_from({**unknown, **request})
        assert lua.globals().slurm_job_submit(job, known, 0) == 0
        return job

    return submitted


def of_choice(policy):
    """The plug-in of a policy: what is behind the lines of slurm.conf."""
    conf, _, text = lines_of("slurm", policy=policy).partition("-- job_submit.lua")
    assert "JobSubmitPlugins=lua\n" in conf
    return plugin(f"--{text}")


def pbs_value(text, r, p, q):
    """What PBS computes for a job: its formula, in Python, with the functions of `math`."""
    formula = re.search('job_sort_formula = "(.*)"', text)[1]
    return eval(formula, {**vars(math), "walltime": p, "ncpus": q, "eligible_time": NOW - r, "__builtins__": {}})


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("policy", ["spf", "saf"])
def test_the_lines_order_as_the_policy(system, policy):
    rng, key = random.Random(3), key_named(policy)
    table = [(r, 60 * rng.randint(1, 3000), rng.choice([1, 2, 3, 8, 64])) for r in range(200)]
    if system == "slurm":
        submit = of_choice(policy)
        values = [submit(time_limit=p // 60, min_cpus=q)["site_factor"] for _, p, q in table]
        assert all(1 < value < 2_000_000_000 for value in values)
    else:
        text = lines_of("pbs", policy=policy)
        values = [pbs_value(text, *job) for job in table]
        assert pbs_value(text, 0, 5 * 365 * 86_400, 1_000_000) > -(2**31)  # below that a job never runs
    places = sorted(range(200), key=lambda i: (-values[i], i))
    assert places == sorted(range(200), key=lambda i: (key(NOW, *table[i]), i))


def test_pbs_puts_overdue_jobs_first_the_oldest_before_all():
    text = lines_of("pbs", policy="saf", threshold=7200)
    late, later, small = ((NOW - 7201, 10**6, 999), (NOW - 9000, 10**7, 999), (NOW - 7200, 1, 1))
    assert pbs_value(text, *later) > pbs_value(text, *late) > pbs_value(text, *small)


def test_slurms_plugin_counts_tasks_and_nodes_and_takes_the_partitions_limit():
    submit = of_choice("saf")
    for request in ({"num_tasks": 4, "cpus_per_task": 2}, {"min_nodes": 2, "ntasks_per_node": 4}, {"min_nodes": 8}):
        assert submit(time_limit=60, **request)["site_factor"] == submit(time_limit=60, min_cpus=8)["site_factor"]
    rows = ("all", 1, 30, 600), ("long", 0, NONE, 6000), ("open", 0, NONE, NONE + 1)
    parts = [dict(zip(("name", "flag_default", "default_time", "max_time"), row, strict=True)) for row in rows]
    for partition, limit in ((None, 30), ("long", 6000), ("long,all", 6000), ("open", 525_600)):
        asked = {} if partition is None else {"partition": partition}
        found = submit(partitions=parts, **asked)["site_factor"]
        assert found == submit(time_limit=limit)["site_factor"]


@pytest.mark.parametrize(
    ("system", "options", "line"),
    [
        ("slurm", {"policy": "fcfs"}, "PriorityType=priority/basic"),
        ("slurm", {"policy": "fcfs", "threshold": 9}, "bf_job_part_count_reserve=1,"),  # the oldest is first anyway
        ("slurm", {"policy": "saf", "depth": "all"}, "bf_job_part_count_reserve=0,"),
        ("slurm", {"policy": "saf", "depth": 0}, "bf_min_prio_reserve=4294967295,"),
        ("slurm", {"policy": "saf", "tested": 50}, "bf_max_job_test=50,"),
        ("pbs", {"policy": "fcfs"}, "unset server job_sort_formula"),
        ("pbs", {"policy": "saf", "depth": 3}, "backfill_depth = 3"),
        ("pbs", {"policy": "saf", "depth": 0}, "strict_ordering: False ALL"),
    ],
)
def test_the_lines_say_how_many_jobs_get_a_reservation_and_are_tested(system, options, line):
    assert line in lines_of(system, **options)


@pytest.mark.parametrize(
    ("options", "systems"),
    [
        ({"preset": "first-tries"}, ["slurm", "pbs"]),
        ({"policy": "saf", "threshold": 3600}, ["slurm"]),
        ({"policy": "saf", "threshold": 3600, "overdue": "half"}, ["slurm", "pbs"]),
        ({"policy": "saf", "backfill": "spf"}, ["slurm", "pbs"]),
        ({"policy": "saf", "reservation": "kept"}, ["slurm", "pbs"]),
        ({"policy": "saf", "tested": 50}, ["pbs"]),
        ({"policy": "wfp3"}, ["slurm", "pbs"]),
    ],
)
def test_a_choice_that_a_system_cannot_do_has_a_reason_and_no_lines(options, systems):
    found = {system: configuration(system, options) for system in SYSTEMS}
    assert [system for system, (_, why) in found.items() if why] == systems
    assert all(bool(lines) is not bool(why) for lines, why in found.values())


def test_what_a_system_cannot_do_is_not_offered():
    for system, out in (("slurm", ["first tries", "saf + 1 h"]), ("pbs", ["first tries"])):
        tried = choices([3600], True, {})
        assert [one.name for one in tried if configuration(system, one.options)[1]] == out
    with pytest.raises(BatfillError, match="option system: 'oar' is none of slurm, pbs"):
        what_if("log.swf", system="oar")


def test_the_plug_in_of_first_tries_gives_a_try_to_narrow_batch_jobs_that_may_be_queued_again():
    submit = plugin((FIRST_TRIES / "job_submit.lua").read_text())
    known = {"default_time": 30, "max_time": 6000, "total_cpus": 100}
    parts = [{"name": "all", "flag_default": 1, **known}, {"name": "other", "flag_default": 0, **known}]
    narrow = {"at": 7, "partitions": parts, "time_limit": 60, "min_cpus": 12, "script": "#!/bin/sh"}
    tried = submit(**narrow)
    place = tried["site_factor"] - 1_000_000_000
    assert (tried["partition"], tried["time_limit"]) == ("first-try", 2)
    assert tried["admin_comment"] == f"batfill {ORIGIN + 7} 3600 {place} all"
    assert 0 < place < submit(**narrow | {"time_limit": 30})["site_factor"] - 1_000_000_000 < 1_000_000_000
    assert submit(**narrow | {"time_limit": 1})["time_limit"] == 1
    for large in ({"min_cpus": 13}, {"requeue": 0}, {"script": None}):
        job = submit(**narrow | large)
        assert (job["partition"], job["time_limit"]) == (None, 60)
        assert job["site_factor"] <= 1_000_000_000
    elsewhere = submit(**narrow | {"partition": "other"})
    assert (elsewhere["partition"], elsewhere["time_limit"], elsewhere["admin_comment"]) == ("other", 60, None)
