"""How near the model of a site's Slurm is to its log, and what is named as the cause of the rest."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import WorkloadError
from batfill.model.jobs import job_table
from batfill_site.slurm.ensemble import clocks
from batfill_site.slurm.fidelity import compared_with_log, idle_windows, pool_waits
from batfill_site.slurm.model import Model
from batfill_site.slurm.site import Association, Node, Partition, Settings, Site, SlurmJobs, Window
from command import batfill
from golden_text import check

DATA = Path(__file__).parents[1] / "data" / "slurm"
SACCT, CONF = DATA / "own-b" / "sacct.txt", DATA / "own-b" / "slurm.conf"
BEGAN, DAY_S = 1_767_225_600, 86400
USERS = ("ann", "ben", "cid")
SHARES = (Association("a", shares=4), Association("b"), *(Association("ab"[user == "cid"], user) for user in USERS))
NAMES = tuple(f"n{k}" for k in range(1, 7))
SITE = Site(
    nodes=tuple(Node(name, 4) for name in NAMES),
    partitions=(Partition("main", NAMES),),
    settings=Settings(weight_fairshare=100_000, half_life_s=30 * DAY_S, memory=False, bf_interval_s=60),
    associations=SHARES,
)


def invented(n=240, seed=1, load=1.0):
    """Jobs of a part of a node or of some nodes, and a queue that grows."""
    rng = np.random.default_rng(seed)
    nodes, user = rng.choice([1, 1, 1, 2, 4], n), rng.choice(3, n)
    cpus = np.where(nodes == 1, rng.choice([1, 2, 4], n), 4)
    run_s = np.clip(rng.lognormal(8.5, 1, n), 60, 40_000).round()
    submit_s = BEGAN + np.cumsum(rng.exponential((run_s * nodes * cpus).mean() / 24 / load, n)).round()
    return SlurmJobs.of(
        submit_s,
        run_s=run_s,
        limit_s=(2 * run_s).astype(np.int64),
        cpus=nodes * cpus,
        nodes=nodes,
        cpus_per_node=cpus,
        min_nodes=nodes,
        partition=("main",) * n,
        user=tuple(USERS[k] for k in user),
        account=tuple("aab"[k] for k in user),
    )


def logged(site, jobs, seed=7):
    """The jobs with what a run of the model made of them."""
    run = Model(site, jobs).run(clocks(site, jobs, 5, seed)[4])
    places = [run.at[a:b] for a, b in zip(run.first, run.first[1:], strict=False)]
    ran_on = tuple(",".join(site.nodes[k].name for k in at) for at in places)
    return replace(jobs, started_s=np.floor(run.start_s), ran_on=ran_on)


def found(site, jobs):
    return compared_with_log(SACCT, site, jobs, 5, 0)


def test_a_log_that_the_model_made_is_within_its_noise_and_the_pool_is_not():
    answer = found(SITE, logged(SITE, invented()))
    pool, model, noise = (answer["scores"][name]["off_s"]["mean"] for name in ("pool", "model", "noise"))
    assert model < 2 * noise + 60 < pool
    assert {row["by"] for row in answer["groups"]} >= {"account", "CPUs", "ran for"}


def test_windows_that_the_files_do_not_have_are_found_and_named():
    down = Window(NAMES[:3], BEGAN + 0.5 * DAY_S, BEGAN + 2 * DAY_S)
    jobs = logged(replace(SITE, windows=(down,)), invented())
    windows = idle_windows(SITE, jobs)
    assert {name for window in windows for name in window.nodes} >= set(NAMES[:3])
    assert all(down.begin_s - 600 <= window.begin_s < window.end_s <= down.end_s + 7200 for window in windows)
    answer = found(SITE, jobs)
    first = answer["causes"][0]
    assert first["cause"].startswith("nodes down or reserved")
    assert first["beyond_noise"]
    assert first["share"] > 0.5
    assert answer.answer().screen.lines["Causes"].startswith("the largest remaining one, ")
    known = found(replace(SITE, windows=(down,)), jobs)
    assert known["scores"]["model"]["off_s"]["mean"] < answer["scores"]["model"]["off_s"]["mean"] / 2


def test_usage_that_the_files_do_not_have_is_named():
    before = {"ann": 0.9e6, "ben": 1.3e6, "cid": 1.5e6}  # in the proportions in which they use from then on
    used = tuple(each._replace(usage=before.get(each.user, 0.0)) for each in SHARES)
    answer = found(SITE, logged(replace(SITE, associations=used), invented()))
    first = answer["causes"][0]
    assert first["cause"].startswith("usage before the log")
    assert first["share"] > 0.5
    assert first["beyond_noise"]
    known = found(replace(SITE, associations=used), logged(SITE, invented()))
    assert all("usage before" not in one["cause"] for one in known["causes"])


def test_jobs_that_ran_when_the_log_begins_are_named():
    site = replace(SITE, settings=replace(SITE.settings, multifactor=False, weight_fairshare=0))
    jobs = logged(site, invented())
    cut_s = BEGAN + 4 * DAY_S  # `sacct -S` prints what had not ended by then
    kept = jobs.select(np.flatnonzero(jobs.started_s + jobs.run_s > cut_s))
    first = found(site, kept)["causes"][0]
    assert first["cause"].startswith("the beginning of the log: 4 jobs ran")
    assert first["share"] > 0.5
    assert first["beyond_noise"]
    assert idle_windows(site, kept) == ()


def test_jobs_that_waited_for_what_is_not_modelled_are_left_out_and_named():
    jobs = invented()
    late = np.arange(len(jobs)) % 6 == 0
    freed = replace(jobs, eligible_s=jobs.eligible_s + np.where(late, 1.5 * DAY_S, 0))
    seen = replace(logged(SITE, freed), eligible_s=jobs.eligible_s, held=late)
    answer = found(SITE, seen)
    assert (answer["held"], answer["compared"]) == (late.sum(), (~late).sum())
    first = answer["causes"][0]
    assert first["cause"].startswith(f"{late.sum()} jobs that waited for what is not modelled")
    assert first["share"] > 0.5
    assert first["beyond_noise"]


def test_the_pool_is_the_replay_of_the_same_jobs():
    jobs = invented()
    table = job_table(submit_s=jobs.submit_s - BEGAN, runtime_s=jobs.run_s, walltime_s=jobs.limit_s, procs=jobs.cpus)
    waits = bf.replay(table.stating(name="log", size=24))["wait_s"]
    assert np.array_equal(pool_waits(SITE, jobs), waits)
    last = replace(jobs, eligible_s=np.where(np.arange(240) < 2, jobs.submit_s[-1] + 1, jobs.eligible_s))
    assert np.array_equal(pool_waits(SITE, last)[-1:], pool_waits(SITE, jobs.select(range(2, 240)))[-1:])


def test_golden_the_command_and_python_give_one_answer_of_the_files(tmp_path):
    words, page = ("fidelity", SACCT, "--slurm-conf", CONF, "--runs", "6", "--seed", "3"), tmp_path / "page.html"
    done = batfill(*words, "--details", "--out", page)
    answer = bf.fidelity(SACCT, slurm_conf=CONF, runs=6, seed=3)
    assert done.out == f"{answer.as_text(details=True)}\n"
    other = bf.slurm(SACCT, CONF, runs=6, seed=3)
    assert answer["scores"]["model"]["off_s"]["mean"] == pytest.approx(other["logged"]["score"]["off_s"])
    assert (answer.answer().about, answer["assumed"]) == (other.answer().about, other["assumed"])
    check("fidelity-slurm", done.out.replace(f"{DATA}/", ""))
    assert page.read_text().count("<tr><th scope=row>") > len(answer["groups"])
    done = batfill(*words, "--json")
    assert json.loads(done.out) == json.loads(answer.as_json())
    assert "warning: 150 records: without ReqTRES" in done.err
    assert (answer["compared"], answer["input"]["procs"]) == (150, 32)


def test_a_log_without_waits_is_refused():
    jobs = invented()
    with pytest.raises(WorkloadError, match="no job in it waited"):
        found(SITE, replace(jobs, started_s=jobs.eligible_s))


def test_jobs_that_can_never_start_are_left_out_and_counted():
    jobs = logged(SITE, invented())
    other = replace(jobs, partition=("gone", *jobs.partition[1:]))
    answer = found(SITE, other)
    assert answer["compared"] == 239
    assert any("there is no partition gone" in text for text in answer["input"]["warnings"])
    with pytest.raises(WorkloadError, match="none of its jobs can start"):
        found(SITE, replace(jobs, partition=("gone",) * 240))
