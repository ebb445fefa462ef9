"""The model starts the jobs of real runs when, and where, Slurm did, if it gets the dates of the passes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from batfill_site.slurm.conf import read_site
from batfill_site.slurm.hosts import expand
from batfill_site.slurm.jobs import read_jobs
from batfill_site.slurm.model import Model
from batfill_site.slurm.site import Clock, SlurmJobs
from slurm_truth import LATE_JOB, OWN, PUBLIC, distance, own, public, recorded, rows_of
from slurm_twin import Twin

both = pytest.mark.parametrize("model", [Twin, Model], ids=["twin", "kernel"])
# Of each run: jobs that start more than 1 s from when Slurm started them, and jobs on other nodes or in another pass.
RUNS = {
    "own-a": (0, 0, 0),
    "own-b": (0, 0, 3),  # job 46 ended 0.1 s before a cycle, and its nodes were not clean: 58, 63 and 65
    "own-cancelled": (0, 0, 0),
    "own-grace": (1, 7, 0),  # job 98 waited 2.3 s for nodes that no log has as held
    "own-flags": (0, 0, 0),
    "own-kinds": (0, 0, 0),
    "own-layouts": (0, 0, 0),
    "own-licences": (0, 0, 0),
    "own-licences-planned": (0, 0, 0),
    "own-limits": (0, 0, 0),
    "own-maintenance": (0, 0, 0),
    "own-mixed": (0, 2, 0),  # two tasks of an array, alike, start in one cycle on each other's nodes
    "own-over": (0, 0, 0),
    "own-partitions": (5, 9, 4),  # after 83 jobs a node is not used that is free by the log
    "own-requeue": (0, 0, 0),
    "own-suspend": (0, 0, 0),
    "own-tasks": (0, 1, 5),  # job 101 ended 0.05 s before a pass, and its nodes were not clean
    "own-threads": (0, 0, 0),
    "own-tree": (0, 0, 0),
    "micro-depth": (0, 0, 0),
    "micro-line": (0, 0, 0),
    "micro-suspend": (0, 0, 0),
}


@both
@pytest.mark.parametrize("name", RUNS)
def test_every_job_of_a_real_run_starts_when_and_where_slurm_started_it(model, name):
    truth = recorded(OWN / name, late=name == "own-b")
    threads = 2 if name == "own-threads" else 1
    site = replace(truth.site, nodes=tuple(node._replace(threads=threads) for node in truth.site.nodes))
    found = distance(truth, model(site, truth.jobs).run(truth.clock))
    off, elsewhere, other_pass = RUNS[name]
    assert int((~(np.abs(found.off_s) <= truth.close_s)).sum()) <= off
    assert found.wrong == 0
    assert int((~found.same_nodes).sum()) <= elsewhere
    assert int((~found.same_pass).sum()) <= other_pass


def test_without_the_jobs_that_were_cancelled_while_they_waited_a_third_of_the_others_start_at_other_dates():
    truth = own("cancelled")
    others = truth.jobs.select(np.flatnonzero(np.isinf(truth.jobs.leave_s)))
    off_s = np.abs(Model(truth.site, others).run(truth.clock).start_s - others.started_s)
    assert (len(truth.jobs), len(others), int((off_s > 1).sum())) == (90, 53, 18)


@pytest.mark.parametrize("name", ["own-kinds", "own-layouts", "own-maintenance", "own-threads"])
def test_priorities_at_submission_are_those_that_slurm_gave(name):
    truth = recorded(OWN / name)
    given = {row["id"]: int(row["prio"] or 0) for row in rows_of(next((OWN / name).glob("jobs.csv*")))}
    twin = Twin(truth.site, truth.jobs)
    found = {truth.jobs.ids[job.row]: twin.q3_priority(job, 0) for job, *_ in twin.records}
    assert all(found[each] == given[each] for each in found if given[each])  # one is held


@both
def test_tasks_take_what_is_free_on_any_nodes(model):
    """Three jobs on two nodes of four CPUs: the second, of six tasks, starts beside the first, of two."""
    site, jobs = read_site(OWN / "micro-tasks" / "slurm.conf"), read_jobs(OWN / "micro-tasks" / "sacct.txt.gz")
    run = model(site, jobs).run(Clock())
    assert run.start_s[:2] - jobs.submit_s[:2] == pytest.approx([0.6, 0.6], abs=1.5)
    at = [
        [site.nodes[i].name for i in run.at[a:b].tolist()] for a, b in zip(run.first[:-1], run.first[1:], strict=True)
    ]
    assert at == [["pa01"], ["pa01", "pa02"], ["pa01"]]


def test_no_start_is_off_before_the_late_node():
    truth = own("b")
    found = distance(truth, Model(truth.site, truth.jobs).run(truth.clock))
    row = truth.jobs.ids.index(LATE_JOB)
    off = np.abs(found.off_s) > truth.close_s
    assert truth.jobs.started_s[off].min() > truth.jobs.started_s[row] + truth.jobs.run_s[row]


@pytest.mark.compiled
@pytest.mark.parametrize("name", [name for name in RUNS if name.startswith("own")])
def test_the_real_mean_wait_is_among_those_of_runs_on_clocks_of_their_own(name):
    truth = recorded(OWN / name)
    model = Model(truth.site, truth.jobs)
    waits_s = [distance(truth, model.run(truth.own_clock(number))).waits_s.mean() for number in range(20)]
    real_s = np.nanmean(truth.jobs.started_s - truth.jobs.submit_s)
    assert abs(np.mean(waits_s) - real_s) <= max(0.1 * real_s, 2 * np.std(waits_s))


@pytest.mark.skipif(not PUBLIC, reason="BATFILL_SLURM names no folder with the public run")
def test_every_job_of_the_public_run_starts_within_3_s_on_the_same_nodes():
    truth = public(PUBLIC)
    found = distance(truth, Model(truth.site, truth.jobs).run(truth.clock))
    assert (np.abs(found.off_s) <= 3).sum() >= 499
    assert found.same_nodes.all()
    assert found.backfilled == 390


@both
def test_jobs_take_the_leaves_of_a_tree_that_slurm_takes(model, tmp_path):
    """Answers of a real `sbatch --test-only` on three trees, of which nodes are held by other jobs."""
    wrong = Counter()
    for k, tree in enumerate(json.loads(gzip.decompress((OWN / "trees.json.gz").read_bytes()))):
        for name in ("slurm.conf", "topology.conf"):
            (tmp_path / name).write_text(tree[name])
        site = read_site(tmp_path / "slurm.conf")
        for turn in tree["rounds"]:
            asked = [(text[:2], int(text[2:])) for text, _ in turn["asked"]]
            held = [(node, 4 - free) for node, free in turn["free"].items() if free < 4]
            columns = [(0.0, 1800, cpus, 1, 1, cpus, node) for node, cpus in held]
            for i, (kind, number) in enumerate(asked):
                layout = (number, number, 1) if kind == "-N" else (1, 0, 1)
                columns.append((100.0 + 25 * i, 20, number, *layout, ""))
            submit_s, limit_s, cpus, nodes, most, per_node, required = map(np.array, zip(*columns, strict=True))
            jobs = SlurmJobs.of(
                submit_s, limit_s=limit_s, run_s=limit_s - 1.0, cpus=cpus, nodes=nodes, max_nodes=most,
                cpus_per_node=per_node, required=tuple(required.tolist()), partition=("main",) * len(cpus),
            )  # fmt: skip
            n = len(held)
            run = model(site, jobs).run(Clock())
            for i, ((kind, _), (_, nodes)) in enumerate(zip(asked, turn["asked"], strict=True), n):
                at = sorted(site.nodes[x].name for x in run.at[run.first[i] : run.first[i + 1]].tolist())
                wrong[kind, k] += at != sorted(expand(nodes))
    assert wrong == {("-n", 0): 0, ("-n", 1): 0, ("-n", 2): 0, ("-N", 0): 29, ("-N", 1): 40, ("-N", 2): 0}
