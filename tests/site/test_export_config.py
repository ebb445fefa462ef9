"""Exported configurations order jobs as the policy does, say where they do not, and Slurm accepts its own."""

from __future__ import annotations

import math
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from dataclasses import replace
from getpass import getuser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("lupa")

import lupa

from batfill.base.version import __version__
from batfill.model.policy import POLICIES, Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill.workloads import read_workload
from batfill_site.config.systems import KEYS, SLURM_ORIGIN, SYSTEMS, site_config
from batfill_site.slurm.exported import Trial, site_factors
from command import batfill
from oracle import key_named
from strategies import random_table

NOW = 5_000_000
YEAR_MIN = 365 * 24 * 60
FIXED = [name for name, policy in POLICIES.items() if name in KEYS and not policy.moves]
MIXED = ["mixed:1,0,0,0,0,1", "mixed:0.2,0.3,-0.4,0.05,0,0", "mixed:0,0,-1,0,0,0"]
MOVING = "mixed:0.1,0.2,-0.3,0.1,-0.2,0.1"
AGED = ["aged:20000,0.1,0", "aged:50000,0.5,-0.5", "aged:0,1,1"]
ON_SLURM = [*FIXED, *MIXED]
ON_OAR_AND_PBS = [*KEYS, *MIXED, MOVING, *AGED]


def jobs(seed, n=60):
    """(r, p, q) of waiting jobs, in the order of their submission; limits are whole minutes."""
    rng = random.Random(seed)
    arrivals = sorted(rng.sample(range(1, NOW), n))
    return [(r, 60 * rng.randint(1, 3000), rng.choice([1, 2, 3, 8, 64])) for r in arrivals]


def by_policy(policy, table):
    """The jobs' places in the policy's order."""
    key = key_named(policy)
    return sorted(range(len(table)), key=lambda i: (key(NOW, *table[i]), i))


def same_order(policy, table, found, tie=0.0):
    """Whether the places are in the policy's order, but for keys that differ by rounding alone, or by `tie`."""
    keys = [key_named(policy)(NOW, *table[i]) for i in found]
    return all(a <= b + tie or math.isclose(a, b, rel_tol=1e-9) for a, b in pairwise(keys))


# OAR


def oar_function(policy, **options):
    files = site_config("oar", policy, **options).files
    project = tomllib.loads(files["pyproject.toml"])
    ((entry, target),) = project["project"]["entry-points"]["oar.jobs_sorting_func"].items()
    assert f'CUSTOM_JOB_SORTING="{entry}"\n' in files["/etc/oar/oar.conf"]
    module = {}
    exec(files["batfill_sorting.py"], module)
    return module[target.removeprefix("batfill_sorting:")]


def oar_jobs(table, security_s=60):
    """As OAR 3 has them: the first alternative requests switches of nodes, then resources of one kind."""
    return {
        i: SimpleNamespace(submission_time=r, mld_res_rqts=[(i, p + security_s, [([("switch", 1), ("core", q)], [])])])
        for i, (r, p, q) in enumerate(table)
    }


def test_oars_sorting_function_leaves_the_security_time_out_of_the_walltime():
    # 60 s x 10 before 600 s x 2 under saf; with a minute more each, 1200 would be less than 1320
    table = [(1, 600, 2), (2, 100, 11)]
    assert by_policy("saf", table) == [1, 0]
    assert oar_function("saf")("default", NOW, [0, 1], oar_jobs(table), "{}", None) == [1, 0]
    assert 'SCHEDULER_JOB_SECURITY_TIME="60"\n' in site_config("oar", "saf").files["/etc/oar/oar.conf"]


# PBS


def pbs_value(policy, job, **options):
    """What PBS computes for a job: its formula, in Python, with the functions of `math`."""
    text = site_config("pbs", policy, **options).files["qmgr"].split('job_sort_formula = "')[1].split('"')[0]
    r, p, q = job
    return eval(text, {**vars(math), "walltime": p, "ncpus": q, "eligible_time": NOW - r, "__builtins__": {}})


@pytest.mark.parametrize("policy", ["saf", "laf", "spf", "lqf", "mixed:0,0,0,0,0,1"])
def test_no_value_of_pbs_formula_falls_below_what_pbs_takes_for_never(policy):
    five_years = 5 * 365 * 24 * 3600
    assert pbs_value(policy, (0, five_years, 1_000_000)) > -(2**31)


# Slurm


def slurm_plugin(policy, *, whole=False, **options):
    """The submit plug-in in Lua as Slurm would run it: from a job's request to its site factor, or to all it sets."""
    lua = lupa.LuaRuntime()
    lua.execute("slurm = {NO_VAL = 4294967294, NO_VAL16 = 65534, SUCCESS = 0}")
    lua.execute(site_config("slurm", policy, **options).files["job_submit.lua"])
    unknown = dict.fromkeys(("time_limit", "min_cpus", "num_tasks", "min_nodes"), 4294967294)
    unknown |= dict.fromkeys(("cpus_per_task", "ntasks_per_node", "requeue"), 65534)

    def submitted_as(submitted=0, partitions=(), **request):
        lua.globals().os.time = lambda: SLURM_ORIGIN + submitted
        description = lua.table_from({**unknown, **request})
        known = lua.table_from({part["name"]: lua.table_from(part) for part in partitions})
        assert lua.globals().slurm_job_submit(description, known, 0) == 0
        return description

    return submitted_as if whole else lambda **request: submitted_as(**request)["site_factor"]


def places(system, policy, table, **options):
    """The jobs' places in the order of a system's files, whose values are within the system's bounds."""
    if system == "oar":
        return oar_function(policy, **options)("default", NOW, range(len(table)), oar_jobs(table), "{}", None)
    if system == "pbs":
        values = [pbs_value(policy, job, **options) for job in table]
        assert min(values) > -(2**31)
    else:
        factor = slurm_plugin(policy, **options)
        values = [factor(submitted=r, time_limit=p // 60, min_cpus=q) for r, p, q in table]
        assert all(1 < value < 2_000_000_000 for value in values)
    return sorted(range(len(table)), key=lambda i: (-values[i], i))


EXPORTED = {"slurm": ON_SLURM, "oar": ON_OAR_AND_PBS, "pbs": ON_OAR_AND_PBS, "flux": ["fcfs"]}
IN_FILES = [  # Slurm and PBS have an order of submission of their own
    (system, policy)
    for system in ("slurm", "oar", "pbs")
    for policy in EXPORTED[system]
    if (system, policy) not in (("slurm", "fcfs"), ("pbs", "fcfs"))
]


@pytest.mark.parametrize(("system", "policy"), IN_FILES)
def test_the_files_order_as_the_policy(system, policy):
    table = jobs(1)
    found = places(system, policy, table)
    steps = [line for line in site_config(system, policy).differs if line.startswith("keys (")]
    tie = float(re.search(r"less than ([\d.e+-]+)", steps[0])[1]) if steps else 0.0
    assert bool(steps) == (system == "slurm" and policy.startswith("mixed"))
    assert sorted(found) == list(range(len(table)))
    assert same_order(policy, table, found, tie)


@pytest.mark.parametrize(("system", "policy"), [("oar", "saf"), ("pbs", "wfp3")])
def test_the_files_put_overdue_jobs_first_by_age(system, policy):
    table = jobs(2)
    found = places(system, policy, table, threshold_s=2_000_000)
    overdue = [i for i, (r, _, _) in enumerate(table) if NOW - r > 2_000_000]
    assert 0 < len(overdue) < len(table)
    assert found[: len(overdue)] == overdue
    assert same_order(policy, table, found[len(overdue) :])
    assert "help_starving_jobs: False ALL\n" in site_config("pbs", "saf").files["$PBS_HOME/sched_priv/sched_config"]


def starts_in_slurms_order(policy, table, size):
    """When jobs start if they wait in the order of the plug-in's factors."""
    factor = slurm_plugin(policy)
    columns = (table.submit_s, table.walltime_s / 60, table.procs)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    factors = np.array([factor(submitted=r, time_limit=limit, min_cpus=q) for r, limit, q in rows], np.float64)
    return replay_jobs(table, size, Rules(Policy("by factor", key=lambda r, p, q: -factors))).start_s


@pytest.mark.parametrize("policy", ["spf", "saf", "srf", "lqf", "lrf", "mixed:0,0,0,0,0,1"])
def test_a_replay_in_the_order_of_slurms_factors_starts_every_job_as_under_the_policy(policy):
    table = random_table(7, n_jobs=400, size=64, span_s=1_500_000, unit_s=600, longest=100, wide=0, unlimited=0)
    under_policy = replay_jobs(table, 64, Rules(policy_named(policy))).start_s
    assert (under_policy != replay_jobs(table, 64, Rules(policy_named("fcfs"))).start_s).any()
    # Products p~ q differ by 600 here, which is 23 steps of the mixed policy's factor.
    assert np.array_equal(starts_in_slurms_order(policy, table, 64), under_policy)


@pytest.mark.parametrize(("policy", "differ"), [("saf", 0), ("spf", 0), ("srf", 0), ("mixed:1,0,0,0,0,1", 336)])
def test_on_kth_sp2_the_order_of_slurms_factors_changes_as_few_starts_as_the_page_says(policy, differ, archive_log):
    workload = read_workload(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))
    table = replace(workload.jobs, walltime_s=np.ceil(workload.jobs.walltime_s / 60) * 60)
    changed = starts_in_slurms_order(policy, table, 100) != replay_jobs(table, 100, Rules(policy_named(policy))).start_s
    assert int(changed.sum()) == pytest.approx(differ, abs=differ / 20)  # the C library's logarithm may round otherwise
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "export-config.md").read_text()
    assert f"| {differ:,} of {len(table):,} |" in page


def test_slurms_submit_plugin_counts_tasks_and_nodes():
    factor = slurm_plugin("saf")
    for request in ({"num_tasks": 4, "cpus_per_task": 2}, {"min_nodes": 2, "ntasks_per_node": 4}, {"min_nodes": 8}):
        assert factor(time_limit=60, **request) == factor(time_limit=60, min_cpus=8)


def test_slurms_submit_plugin_takes_the_partitions_limit_for_a_job_without_one():
    factor = slurm_plugin("spf")
    none, names = 4294967294, ("name", "flag_default", "default_time", "max_time")
    rows = ("all", 1, 30, 600), ("long", 0, none, 6000), ("open", 0, none, none + 1)
    parts = [dict(zip(names, values, strict=True)) for values in rows]
    assert factor(partitions=parts) == factor(time_limit=30)
    assert factor(partitions=parts, partition="long") == factor(time_limit=6000)
    assert factor(partitions=parts, partition="long,all") == factor(time_limit=6000)
    assert factor(partitions=parts, partition="open") == factor(time_limit=YEAR_MIN) == factor()


SMALL_ALL = {"small": "all", "divider": 90, "small_width": 1 / 8, "kill": "needed"}


def test_slurms_submit_plugin_gives_a_try_to_narrow_batch_jobs_that_may_be_queued_again():
    submit = slurm_plugin("aged:20000,0.1,0", whole=True, **SMALL_ALL)
    known = {"default_time": 30, "max_time": 6000, "total_cpus": 100}
    parts = [{"name": "all", "flag_default": 1, **known}, {"name": "other", "flag_default": 0, **known}]
    narrow = {"submitted": 7, "partitions": parts, "time_limit": 60, "min_cpus": 12, "script": "#!/bin/sh"}
    tried = submit(**narrow)
    place = tried["site_factor"] - 1_000_000_000
    assert (tried["partition"], tried["time_limit"]) == ("first-try", 2)
    assert tried["admin_comment"] == f"batfill {SLURM_ORIGIN + 7} 3600 {place} all"
    assert 0 < place < 1_000_000_000
    assert submit(**narrow | {"time_limit": 1})["time_limit"] == 1
    assert submit(**narrow | {"partition": "first-try"})["admin_comment"] == tried["admin_comment"]
    for large in ({"min_cpus": 13}, {"requeue": 0}, {"script": None}):
        job = submit(**narrow | large)
        assert (job["partition"], job["time_limit"], job["site_factor"]) == (None, 60, place)
        assert job["admin_comment"] == tried["admin_comment"]
    elsewhere = submit(**narrow | {"partition": "other"})
    assert (elsewhere["partition"], elsewhere["time_limit"], elsewhere["admin_comment"]) == ("other", 60, None)


@pytest.mark.parametrize("policy", ["aged:20000,0.1,0", "aged:50000,0.5,-0.5", "saf", "fcfs", "mixed:1,0,0,0,0,1"])
def test_slurms_script_orders_as_the_policy_and_puts_the_older_half_of_the_overdue_jobs_first(policy):
    options = {**SMALL_ALL, "threshold_s": 4_000_000, "overdue": "half"}
    script, submit, said = {"__name__": ""}, slurm_plugin(policy, whole=True, **options), {}
    exec(site_config("slurm", policy, **options).files["slurm_tries.py"], script)
    assert [script[name] for name in ("TRY_S", "ALWAYS", "HALF", "STAND_BACK")] == [90, False, True, math.inf]
    part = {"name": "all", "flag_default": 1, "default_time": 30, "max_time": 6000, "total_cpus": 1}
    table, pending = jobs(8), []
    for i, (r, p, q) in enumerate(table):
        job = submit(submitted=r, partitions=[part], time_limit=p // 60, min_cpus=q)
        line = f"{i}|PD|Priority|all|{q}|30:00|N/A|0|{job['site_factor']}|{job['admin_comment']}|"
        pending.append(script["job_of"](line))
        said[i] = job["site_factor"]
    script["slurm"] = lambda *words: said.update({int(words[2][6:]): int(words[3].removeprefix("sitefactor="))})
    due = script["due_jobs"](pending, pending, {}, (1, 1), SLURM_ORIGIN + NOW)
    script["order"](pending, due, {}, SLURM_ORIGIN + NOW)
    found = sorted(said, key=lambda i: (-said[i], i))
    overdue = [i for i, (r, _, _) in enumerate(table) if NOW - r > 4_000_000]
    first = overdue[: math.ceil(len(overdue) / 2)]
    assert len(first) > 4
    assert found[: len(first)] == first
    if policy.startswith("aged"):  # a place moves when the age has changed by a hundredth
        keys = [key_named(policy)(NOW, *table[i]) for i in found[len(first) :]]
        assert all(one <= other + 0.011 * abs(one) for one, other in pairwise(keys))
    else:
        assert same_order(policy, table, found[len(first) :], tie=60.0 if "mixed" in policy else 0.21)


SLURM_PROGRAMS = ("slurmctld", "scontrol", "sbatch", "squeue")
BASE_CONF = """\
ClusterName=batfill
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser={user}
CommunicationParameters=NoCtldInAddrAny
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/pid
SlurmctldTimeout=30
SlurmdTimeout=0
ProctrackType=proctrack/linuxproc
MpiDefault=none
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES DefaultTime=30 MaxTime=INFINITE
"""
SILENT = "NodeName=n[1-8] NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=16"
ANSWERING = """\
SlurmdParameters=config_overrides
SlurmdSpoolDir={folder}/spool
SlurmdPidFile={folder}/node.pid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=16"""


class Controller:
    """A slurmctld of one's own, with nodes that never answer, so that jobs are taken and wait, or with a slurmd."""

    def __init__(self, folder, files, extra="", nodes=SILENT):
        self.folder = folder
        (folder / "state").mkdir()
        with socket.create_server(("localhost", 0)) as free, socket.create_server(("localhost", 0)) as other:
            port, first = free.getsockname()[1], other.getsockname()[1]
        nodes = nodes.format(folder=folder, first=first, last=first + 7, host=socket.gethostname().partition(".")[0])
        base = BASE_CONF.format(port=port, user=getuser(), folder=folder, nodes=nodes)
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "slurm.conf").write_text(base + files.get("slurm.conf", "") + extra)
        self.log = folder / "log"
        self.said = self.log.open("w")
        # slurmctld is in sbin, which is not on every user's path.
        self.process = subprocess.Popen(
            [path_of("slurmctld"), "-D", "-f", str(folder / "slurm.conf")], stdout=self.said, stderr=self.said
        )

    def __enter__(self):
        self.wait_until(lambda: self.process.poll() is not None or "UP" in self.run("scontrol", "ping", check=False))
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()

    def run(self, *command, check=True):
        path = f"{Path(path_of(command[0])).parent}:/usr/bin:/bin"
        environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}
        done = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60
        )
        assert not check or done.returncode == 0, done.stderr + self.log.read_text(errors="replace")
        return done.stdout

    def submitted(self, requests):
        """The priority of each job by its number, submitted with these options of sbatch."""
        for options in requests:
            self.run("sbatch", *options.split(), "--wrap", "true")
        return self.priorities()

    def priorities(self):
        return dict(map(int, row.split()) for row in self.run("squeue", "-h", "-o", "%i %Q").splitlines())

    def wait_until(self, holds):
        """Until the condition holds, for half a minute."""
        until = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < until, self.log.read_text(errors="replace")
            time.sleep(0.2)

    def errors(self):
        """What it says of its configuration and of the submit plug-in."""
        lines = self.log.read_text(errors="replace").splitlines()
        about = re.compile(r"invalid|unrecogni|obsolete|deprecated|duplicate|parse|lua|priority|schedul", re.IGNORECASE)
        return [line for line in lines if "error:" in line and about.search(line)]

    def settings(self):
        rows = (line.partition("=")[::2] for line in self.run("scontrol", "show", "config").splitlines())
        return {name.strip(): value.strip() for name, value in rows}


def path_of(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin") or program


needs_slurm = pytest.mark.skipif(
    not all(Path(path_of(program)).is_file() for program in SLURM_PROGRAMS), reason="Slurm is not installed"
)


@needs_slurm
@pytest.mark.parametrize("policy", ON_SLURM)
def test_slurmctld_accepts_the_files_and_gives_waiting_jobs_the_policys_order(policy, tmp_path):
    files = site_config("slurm", policy).files
    requests = {  # options of sbatch, and the (p, q) that Slurm makes of them
        "-t 10 -n 4": (600, 4),
        "-t 100 -n 2 -c 3": (6000, 6),
        "-t 60 -N 2 --ntasks-per-node=3": (3600, 6),
        "-n 1": (1800, 1),
        "-t 1 -n 16": (60, 16),
        "-t 1-0 -N 5": (86400, 5),
    }
    with Controller(tmp_path, files) as slurm:
        priority = slurm.submitted(requests)
        settings = slurm.settings()
    assert slurm.errors() == []
    exported = dict(line.partition("=")[::2] for line in files["slurm.conf"].splitlines() if line[0] != "#")
    shown = {name.replace("Fairshare", "FairShare"): value for name, value in exported.items()}
    assert {name: settings[name] for name in shown} == shown
    assert len(priority) == len(requests)
    found = sorted(range(len(requests)), key=lambda i: (-priority[i + 1], i))
    if policy == "lcfs":
        assert [priority[i] for i in sorted(priority)] == sorted(priority.values())
        assert abs(priority[1] + SLURM_ORIGIN - time.time()) < 120
    else:  # all were submitted within seconds, which no key here notices but the submission's own
        table = [(i if policy in ("fcfs", "mixed:0,0,-1,0,0,0") else 0, *pq) for i, pq in enumerate(requests.values())]
        assert same_order(policy, table, found, tie=0.5 if policy.startswith("mixed") else 0.0)
    assert all(1 < number < 2**32 for number in priority.values())


@needs_slurm
@pytest.mark.parametrize("policy", ["fcfs", "saf"])
def test_slurmctld_puts_jobs_first_that_request_little(policy, tmp_path):
    requests = ("-t 100 -n 2", "-t 10 -n 4", "-t 11 -n 1", "-t 5 -n 16")
    with Controller(tmp_path, site_config("slurm", policy, small="class", divider=600).files) as slurm:
        priority = slurm.submitted(requests)
    assert slurm.errors() == []
    order = sorted(priority, key=lambda job: (-priority[job], job))
    assert order == ([2, 4, 1, 3] if policy == "fcfs" else [2, 4, 3, 1])


@needs_slurm
def test_slurm_orders_by_the_request_less_the_users_nice_value_and_not_by_later_changes(tmp_path):
    requests = ("-t 10 -n 4", "-t 10 -n 4 --exclusive", "-t 10 -n 4 --nice=100", "-t 10 -n 4")
    with Controller(tmp_path, site_config("slurm", "saf").files) as slurm:
        slurm.submitted(requests)
        slurm.run("scontrol", "update", "jobid=4", "timelimit=1")
        priority = slurm.priorities()
    assert [priority[job] - priority[1] for job in sorted(priority)] == [0, 0, -100, 0]


@needs_slurm
def test_slurmctld_reads_every_scheduler_parameter_of_the_files(tmp_path):
    """Slurm ignores names that it does not know: each must be refused with a value out of range, or be in a plug-in."""
    files = dict(site_config("slurm", "saf").files)
    (line,) = re.findall(r"^SchedulerParameters=.*$", files["slurm.conf"], re.MULTILINE)
    files["slurm.conf"] = files["slurm.conf"].replace(line, re.sub(r"=\d+", "=99999999", line))
    with Controller(tmp_path, files) as slurm:
        plugins = Path(slurm.settings()["PluginDir"])
        until = time.monotonic() + 20
        names = [part.partition("=")[0] for part in line.partition("=")[2].split(",")]
        in_plugins = ("bf_continue", "bf_window_linear")
        while not all(any(name in text for text in slurm.errors()) for name in names if name not in in_plugins):
            assert time.monotonic() < until, (names, slurm.errors())
            time.sleep(0.2)
    assert b"bf_continue\0" in (plugins / "sched_backfill.so").read_bytes()
    assert b"bf_window_linear=" in (plugins / "select_cons_tres.so").read_bytes()


def first_tries(divider, **more):
    return site_config("slurm", "aged:20000,0.1,0", **{**SMALL_ALL, "divider": divider, **more}).files


def shown(slurm, *names):
    """These fields of every job, by its name."""
    wanted = ",".join(f"{name}:|" for name in ("Name", *names))
    rows = [row.split("|")[:-1] for row in slurm.run("squeue", "-h", "-O", wanted).splitlines()]
    return {name: tuple(values) for name, *values in rows}


@needs_slurm
def test_slurmctld_sends_narrow_jobs_to_the_partition_of_first_tries_and_takes_the_scripts_orders(tmp_path):
    with Controller(tmp_path, first_tries(120, threshold_s=1, stand_back=32)) as slurm:
        partition = slurm.run("scontrol", "show", "partition", "first-try")
        for name, words in {"narrow": "-n 16", "wide": "-n 17", "once": "-n 16 --no-requeue"}.items():
            slurm.run("sbatch", "-t", "60", "-J", name, *words.split(), "--wrap", "true")
        before = shown(slurm, "Partition", "TimeLimit", "PriorityLong")
        time.sleep(2.1)
        slurm.run(sys.executable, "slurm_tries.py", "--once")
        after = shown(slurm, "Partition", "TimeLimit", "PriorityLong")
    assert slurm.errors() == []
    assert "MaxTime=00:02:00" in partition
    assert "OverTimeLimit=UNLIMITED" in partition
    assert {name: values[:2] for name, values in before.items()} == {
        "narrow": ("first-try", "2:00"), "wide": ("all", "1:00:00"), "once": ("all", "1:00:00")
    }  # fmt: skip
    assert int(before["narrow"][2]) - int(before["wide"][2]) == 1_000_000_000
    assert {values[:2] for values in after.values()} == {("all", "1:00:00")}
    assert all(2_000_000_000 < int(priority) < 2_050_000_000 for *_, priority in after.values())


SLURM_NODE = [path_of("slurmd"), "-D", "-N", "n1", "-d", path_of("slurmstepd")]
needs_node = pytest.mark.skipif(
    getuser() != "root" or not Path(SLURM_NODE[0]).is_file(), reason="slurmd is not installed, or may not start jobs"
)


@contextmanager
def running_node(slurm):
    """A slurmd of 16 CPUs, idle at first; at the end its jobs are cancelled."""
    command = [*SLURM_NODE, "-f", str(slurm.folder / "slurm.conf")]
    node = subprocess.Popen(command, stdout=slurm.said, stderr=slurm.said)
    try:
        slurm.wait_until(lambda: "idle" in slurm.run("sinfo", "-h", "-o", "%T"))
        yield
    finally:
        slurm.run("scancel", "-u", getuser(), check=False)
        slurm.wait_until(lambda: not slurm.run("squeue", "-h"))
        node.terminate()
        node.wait(20)


@needs_slurm
@needs_node
def test_on_a_real_node_a_large_head_and_an_array_in_a_backlog_go_first(tmp_path):
    files = first_tries(120, small_width=1 / 4, stand_back=1)
    with Controller(tmp_path, files, nodes=ANSWERING) as slurm, running_node(slurm):
        for name, words in {"long": "-n 14", "head": "-n 5", "array": "-n 3 --array=0-30:10%1"}.items():
            slurm.run("sbatch", "-t", "60", *words.split(), "-J", name, "-o", "/dev/null", "--wrap", "sleep 300")
            if name == "long":
                slurm.wait_until(lambda: shown(slurm, "StateCompact")["long"] == ("R",))
                continue
            before = shown(slurm, "Partition", "TimeLimit")[name]
            slurm.run(sys.executable, "slurm_tries.py", "--once")
            assert before == (("all", "1:00:00") if name == "head" else ("first-try", "2:00"))
            partition, limit, priority = shown(slurm, "Partition", "TimeLimit", "PriorityLong")[name]
            assert (partition, limit) == ("all", "1:00:00")
            assert 2_000_000_000 < int(priority) < 2_050_000_000


@needs_slurm
@needs_node
def test_on_a_real_node_a_try_is_queued_again_if_it_is_needed_and_otherwise_goes_on(tmp_path):
    files = first_tries(1, small_width=1 / 2)
    with Controller(tmp_path, files, nodes=ANSWERING) as slurm, running_node(slurm):
        for name, minutes in (("one", "60"), ("longer", "90")):
            slurm.run("sbatch", "-t", minutes, "-n", "8", "-J", name, "-o", "/dev/null", "--wrap", "sleep 300")
            slurm.wait_until(lambda name=name: shown(slurm, "StateCompact")[name] == ("R",))
            time.sleep(1.1)
            slurm.run(sys.executable, "slurm_tries.py", "--once")
            if name == "one":  # nothing waits
                assert shown(slurm, "Partition", "TimeLimit")["one"] == ("first-try", "1:00:00")
                slurm.run("sbatch", "-t", "60", "-n", "16", "-J", "wide", "-o", "/dev/null", "--wrap", "true")
        # The wide job can start when the first one ends, half an hour before the other would.
        slurm.wait_until(lambda: shown(slurm, "StateCompact")["longer"] == ("PD",))
        slurm.run(sys.executable, "slurm_tries.py", "--once")
        assert shown(slurm, "Partition", "TimeLimit", "RestartCnt")["longer"] == ("all", "1:30:00", "1")


# All systems


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("policy", [*POLICIES, *MIXED, MOVING, *AGED])
def test_every_policy_has_a_verdict_with_reasons_and_sources(system, policy):
    usual = {"depth": "all"} if system == "oar" else {}  # OAR reserves for every waiting job
    found, plain = (site_config(system, policy, **more) for more in ({"backfill": "spf", "threshold_s": 7200}, usual))
    if policy == "aged:50000,0.5,-0.5" and system == "pbs":  # without a threshold it can be exported
        assert (found.verdict, plain.verdict) == ("not expressible", "expressible")
        found = plain
    assert found.sources
    assert bool(found.files) == bool(found.differs) == (found.verdict != "not expressible")
    assert bool(found.lacks) == (found.verdict != "expressible")
    assert plain.verdict == ("expressible" if found.files else "not expressible")
    if found is plain:
        return
    lost = system == "slurm" and policy != "fcfs" and bool(found.files)
    assert any("no threshold" in line for line in found.lacks) == lost
    assert bool(found.files) == (policy in EXPORTED[system])
    backfilled_alike = policy == "spf" or not found.files
    assert any("backfilled in the queue's order" in line for line in found.lacks) != backfilled_alike


# Small jobs first

SMALL_S, OVERDUE_S = 30_000, 4_000_000


@pytest.mark.parametrize("policy", ["fcfs", "lcfs", "saf", "lqf", "sexp", "aged:20000,0.1,0", "mixed:1,0,0,0,0,1"])
@pytest.mark.parametrize("system", ["slurm", "oar", "pbs"])
def test_jobs_that_request_little_go_first(system, policy):
    """Overdue jobs by age, then small ones, then others. Slurm has none overdue."""
    if system == "slurm" and policy in ("sexp", "aged:20000,0.1,0"):
        assert not site_config(system, policy, small="class", divider=SMALL_S).files
        return
    options = {"small": "class", "divider": SMALL_S, "threshold_s": OVERDUE_S}
    table, found = jobs(6), site_config(system, policy, **options)
    order = places(system, policy, table, **options)
    assert any("no threshold" in line for line in found.lacks) == (system == "slurm")
    overdue = [i for i, (r, _, _) in enumerate(table) if NOW - r > OVERDUE_S and system != "slurm"]
    small = [i for i, (_, p, _) in enumerate(table) if p <= SMALL_S and i not in overdue]
    assert small
    assert bool(overdue) == (system != "slurm")
    assert order[: len(overdue)] == overdue
    assert sorted(order[len(overdue) :][: len(small)]) == sorted(small)
    for section in (small, [i for i in order if i not in (*small, *overdue)]):
        assert same_order(policy, table, [i for i in order if i in section], tie=60.0 if "mixed" in policy else 0.21)
    assert found.verdict == "approximate"
    assert any("none is tried and killed" in line for line in found.lacks)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("pbs --policy saf --threshold 48h", 0),
        ("oar --depth 0", 3),
        ("oar --depth all", 0),
        ("pbs --policy saf --threshold 48h --overdue half", 3),
        ("slurm --policy fcfs --threshold 48h", 0),
        ("slurm --policy saf --threshold 48h", 3),
        ("slurm --policy saf --backfill spf", 3),
        ("oar --small class --divider 10min --kill needed", 3),
        ("flux --policy saf --threshold 48h", 2),
        ("flux --small class --divider 10min", 2),
        ("slurm --policy aged:20000,0.1,0", 2),
        ("pbs --policy fcfs --small all --kill always", 2),
        ("slurm --policy aged:20000,0.1,0 --small all --divider 120 --small-width 1/8", 3),
        ("slurm --policy sexp --small all --divider 120", 2),
        ("slurm --small all --kill needed", 2),
        ("slurm --small all --divider 120 --small-width 1/8 --kill never", 2),
    ],
)
def test_the_exit_status_says_whether_the_files_do_what_the_options_say(words, status):
    for more, expected in (((), status), (("--approximate",), 0 if status == 3 else status)):
        for form in ((), ("--json",)):
            done = batfill("export-config", *words.split(), *more, *form)
            assert done.status == expected, done.err
            assert bool(done.out) == (status != 2)
            assert len(done.err.splitlines()) == (expected != 0)
            assert ("add --approximate" in done.err) == (expected == 3)


@pytest.mark.parametrize("system", ["slurm", "oar", "pbs"])
def test_a_system_without_the_script_lacks_standing_back(system):
    done = batfill("export-config", system, "--small", "class", "--divider", "10min", "--stand-back", "32")
    assert done.status == 3
    assert "no job goes first because CPUs are idle for it or because many wait" in done.err
    found = site_config(system, small="class", divider=600, stand_back=32)
    assert found.gives["stand-back"] is None


def test_the_preset_comes_with_the_scripts_numbers_and_says_what_it_does_later_than_the_simulation():
    found = site_config("slurm", preset="first-tries")
    assert "\nSTAND_BACK: float = 32.0  # " in found.files["slurm_tries.py"]
    assert any("becomes due at a look" in line for line in found.lacks)
    without = site_config("slurm", preset="first-tries", stand_back="none")
    assert "\nSTAND_BACK: float = inf  # " in without.files["slurm_tries.py"]
    assert not any("due" in line for line in without.lacks)


def test_each_file_is_headed_by_what_it_gives_and_what_it_lacks_of_the_options():
    files = site_config("slurm", "saf", threshold_s=86400).files
    for file, mark in (("slurm.conf", "#"), ("job_submit.lua", "--")):
        head = files[file].splitlines()[:3]
        assert head[0] == f"{mark} Smallest area first, for Slurm 22.05; written by batfill {__version__}"
        assert head[1] == f"{mark} wanted: saf, threshold 86400 s"
        assert head[2].startswith(f"{mark} lacks: no threshold: a job that has waited long does not come first")
    head = site_config("pbs", "saf", threshold_s=86400).files["qmgr"].splitlines()[:2]
    assert head[0].startswith("# Smallest area first, 24 h threshold, for OpenPBS 22; ")
    assert head[1] == "# options: saf, threshold 86400 s"


@pytest.mark.parametrize(
    ("system", "options", "tested", "no_weight"),
    [
        ("slurm", {}, "slurmctld 22.05.8 reads the files", "fair share, QOS, partition"),
        ("slurm", {"policy": "saf"}, "slurmctld 22.05.8 reads the files", "fair share, QOS, partition"),
        ("slurm", {"preset": "first-tries"}, "with one node of 16 CPUs ran 60 jobs", "fair share, QOS, partition"),
        ("oar", {"policy": "saf"}, "no OAR has read the files", "fair share (karma)"),
        ("pbs", {"policy": "saf"}, "no PBS has read the files", "fair share no place in the order"),
        ("flux", {}, "nothing: the files follow Flux's manual", "flux-accounting's with fair share, stays in force"),
    ],
)
def test_the_files_and_what_is_printed_say_what_was_tested_and_that_no_figures_are_theirs(
    system, options, tested, no_weight
):
    found = site_config(system, **options)
    for file, text in found.files.items():
        mark = "--" if file.endswith(".lua") else "#"
        head = " ".join(line.removeprefix(mark).strip() for line in text.splitlines() if line.startswith(mark))
        assert "figures: those of replay and what-if are of a simulation" in head
        assert tested in head
    said = " ".join(found.as_text().replace("#", "").split())
    for words in (tested, no_weight, "one queue for one machine of equal processors", "partitions or queues, GPUs"):
        assert words in said
    assert tested in found.as_dict()["tested"]


@pytest.mark.parametrize(
    ("system", "options", "lines"),
    [
        ("slurm", {"depth": 4}, ["bf_job_part_count_reserve=4,", "bf_max_job_test=10000,"]),
        ("slurm", {"depth": "all", "tested": 500}, ["bf_job_part_count_reserve=0,", "bf_max_job_test=500,"]),
        ("slurm", {"depth": 0}, ["bf_min_prio_reserve=4294967295,"]),
        ("slurm", {"tested": 20_000}, ["bf_max_job_test=20000,"]),
        ("slurm", {"max_running": 40}, ["MaxJobsPerUser=40\n"]),
        ("pbs", {"depth": 4}, ["backfill_depth = 4", "strict_ordering: True"]),
        ("pbs", {"depth": 0}, ["backfill_depth = 0", "strict_ordering: False"]),
        ("flux", {"depth": 4}, ['queue-policy = "hybrid"', "\nreservation-depth = 4"]),
        ("flux", {"depth": "all", "tested": 32}, ['queue-policy = "conservative"', "\nqueue-depth = 32"]),
        ("flux", {"preset": "flux"}, ['queue-policy = "easy"', "\nqueue-depth = 32"]),
    ],
)
def test_the_files_say_how_many_jobs_get_a_reservation_are_tested_and_run(system, options, lines):
    files = "\n".join(site_config(system, "fcfs", **options).files.values())
    assert [line for line in lines if line not in files] == []


def test_what_a_system_cannot_say_of_depth_is_lacking():
    assert site_config("flux", depth=0).verdict == "not expressible"
    assert "looks at all waiting jobs" in site_config("pbs", tested=50).lacks[0]
    for depth in (0, 1, 4):
        found = site_config("oar", depth=depth)
        assert (found.verdict, found.gives) == ("approximate", {"depth": "all"})
        assert "every waiting job has a reservation" in found.lacks[0]
    assert site_config("oar", depth="all", tested=50).verdict == "approximate"
    assert site_config("slurm", max_running=40).verdict == "expressible"
    assert "you set in the batch system itself" in site_config("pbs", max_running=40).lacks[0]
    assert "memory and licences without a pool, and reservations" in site_config("slurm", pool="gpu=4").differs[-1]


# Slurm's files in the model of Slurm

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"


@pytest.mark.parametrize("options", [{}, {"small": "class", "divider": 3600}])
@pytest.mark.parametrize("policy", ON_SLURM)
def test_the_model_takes_the_site_factors_that_the_plug_in_gives(policy, options):
    if policy == "fcfs" and not options:
        return  # it has no plug-in
    table = np.array(jobs(3))
    factor = slurm_plugin(policy, **options)
    given = [factor(submitted=r, time_limit=p // 60, min_cpus=q) for r, p, q in table.tolist()]
    r, p, q = table.T.astype(float)
    assert (
        np.floor(site_factors(site_config("slurm", policy, **options).files["job_submit.lua"], r, p, q)).tolist()
        == given
    )


@pytest.mark.parametrize(
    ("policy", "options", "near"),
    [
        ("lcfs", {"depth": 0}, 0.99),
        ("fcfs", {"depth": 0}, 0.99),
        ("saf", {"depth": 0, "max_running": 4}, 0.92),
        ("saf", {}, 0.6),
    ],
)
def test_the_files_run_in_the_model_start_jobs_as_the_replay_does_but_for_reservations(policy, options, near):
    found = site_config("slurm", policy, on=SAMPLE, **options)
    assert (found.trial.jobs, found.trial.never) == (800, 0)
    assert found.trial.near >= near
    said = " ".join(found.as_text().replace("#", "").split())
    assert f"{100 * found.trial.near:.1f} % of 800 jobs start within a minute of the replay's start" in said
    assert f"do these files give the replay's figures? {'yes, ' if near > 0.9 else 'no: '}" in said
    assert "figures: in a model of Slurm with these files, sample.json: mean wait " in said


def test_the_answer_names_the_figures_that_are_not_given():
    slurm = {"mean_wait_s": [60, 61], "max_wait_s": [80, 100], "mean_bsld": [2, 2]}
    trial = Trial("log", 9, slurm, {"mean_wait_s": 59, "max_wait_s": 120, "mean_bsld": 1}, 0.5, 1)
    off = "1 jobs never start, the longest wait is 25 % lower, the mean bounded slowdown is 100 % higher"
    assert trial.lines[1] == f"do these files give the replay's figures? no: {off}"
    assert "longest wait 1 min 30 s (1 min 20 s to 1 min 40 s in 2 runs; replay 2 min)" in trial.lines[0]
    trial = Trial("log", 9, slurm, {"mean_wait_s": 60, "max_wait_s": 99, "mean_bsld": 2}, 0.5, 0)
    assert "figures? yes, each to within 5 % or what the runs differ by" in trial.lines[1]


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("slurm --procs 4", "procs: is of a log; give one with --on"),
        (f"pbs --on {SAMPLE}", "--on: there is a model of Slurm, and none of PBS; leave it out"),
        (f"slurm --preset first-tries --on {SAMPLE}", "--on: the model has no script that ends first tries"),
        (f"slurm --procs 0 --on {SAMPLE}", "--procs"),
        ("slurm --on nothing.swf", "nothing.swf"),
    ],
)
def test_a_trial_that_cannot_be_is_refused(words, wrong):
    done = batfill("export-config", *words.split())
    assert done.status == 2
    assert wrong in done.err
    assert done.err.count("\n") == 1
