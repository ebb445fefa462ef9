"""Urgent jobs: who they are, whom they stop, and what that costs, in cases to check on paper.

Random cases of all rules at once are in `test_every_rule.py`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.batsim_files.results import read_results
from batfill.engine.records import BY_FAILURE, PREEMPTED
from batfill.learn import Judgement
from batfill.live.cluster import Cluster
from batfill.live.request import Request
from batfill.model.jobs import LARGE, SMALL
from batfill.model.options import Options
from batfill.model.preemption import Checkpoint, Urgent
from batfill.replays.engine_replay import EngineReplay
from strategies import table
from swf_text import row

SAMPLE = "workloads/sample.json"
LEAST, YOUNGEST = {"preempt": "least-lost"}, {"preempt": "youngest"}
# On a machine of 4 a job of 4 for 100 s, and an urgent one of 2 for 5 s. A job is (submission, run time, walltime, q).
WHOLE, SHORT = (0, 100, 100, 4), (10, 5, 5, 2)
ONE, THREE, TWO = (0, 100, 100, 1), (10, 100, 100, 3), (10, 100, 100, 2)


def jobs_of(rows):
    """These jobs on a machine of 4; the last is user 1's, which is urgent."""
    jobs = table(rows)
    return replace(jobs, size=4, user=np.where(np.arange(len(jobs)) == len(jobs) - 1, 1, 0))


@pytest.mark.parametrize(
    ("options", "rows", "start_s"),
    [
        ({}, [WHOLE, SHORT], [0, 100]),  # with priority only it waits, ...
        (LEAST, [WHOLE, SHORT], [15, 10]),
        # At 20 the first has lost 20 processor-seconds and the other 30; the other is the younger.
        (LEAST, [ONE, THREE, (20, 30, 30, 1)], [50, 10, 20]),
        (YOUNGEST, [ONE, THREE, (20, 30, 30, 1)], [0, 50, 20]),
        # At 20 the third loses 5, the second 20; without the second 2 processors are free, so the third goes on.
        (LEAST, [ONE, TWO, (15, 100, 100, 1), (20, 30, 30, 2)], [0, 50, 15, 20]),
        (LEAST, [ONE, (20, 30, 30, 5)], [0, None]),  # wider than the machine: nothing is stopped
        ({**LEAST, "preempt_exempt_s": 30}, [WHOLE, SHORT], [35, 30]),
        ({**LEAST, "preempt_exempt_s": 30}, [(0, 20, 100, 4), SHORT], [0, 20]),  # it ends before
        ({**LEAST, "requeue_delay_s": 60}, [WHOLE, SHORT], [70, 10]),
        ({**LEAST, "checkpoint": 30}, [WHOLE, (70, 5, 5, 2)], [75, 70]),
    ],
)
def test_an_urgent_job_stops_what_it_needs_and_no_more(options, rows, start_s):
    found = bf.replay(jobs_of(rows), "fcfs", urgent="user=1", **options).schedule
    assert found.start_s.tolist() == pytest.approx([math.nan if one is None else one for one in start_s], nan_ok=True)


def test_figures_say_what_urgent_jobs_get_and_what_is_lost():
    found = bf.replay(jobs_of([WHOLE, (70, 5, 5, 2)]), "fcfs", urgent="user=1", **LEAST, checkpoint="30s")
    # It had done 70 s, of which 60 are kept: from 75 on 40 s are left.
    assert found.schedule.end_s.tolist() == [115, 75]
    assert found.schedule.wait_s.tolist() == [15, 0]
    assert found.schedule.kills["why"].tolist() == [PREEMPTED]
    rushed = found.as_dict()["urgent"]
    assert (rushed["jobs"], rushed["at_once"], rushed["others_mean_wait_s"], rushed["preemptions"]) == (1, 1, 15, 1)
    assert (rushed["lost_proc_s"], rushed["lost"]) == (40, 40 / 410)
    assert "100 % of 1 urgent job start at once, 100 % in a minute; " in (said := " ".join(found.as_text().split()))
    assert "; 1 stop of 1 job, at most 1 each; 0 processor-hours done again (9.8 %)" in said
    assert found.figures.utilisation == pytest.approx((400 + 10 + 40) / (4 * 115))
    assert found.figures.makespan_s == 115


def test_a_failure_stops_urgent_jobs_too_and_checkpoints_hold_for_it(tmp_path):
    path = tmp_path / "calendar.csv"
    path.write_text("begin,end,processors,kind\n70,80,4,failure\n")
    found = bf.replay(jobs_of([(0, 100, 100, 4)]), "fcfs", urgent="user=1", calendar=path, checkpoint=30).schedule
    assert (found.kills["why"].tolist(), found.start_s.tolist(), found.end_s.tolist()) == ([BY_FAILURE], [80], [120])


@pytest.mark.parametrize(("work_s", "takes_s"), [(20, 20), (30, 30), (31, 36), (100, 115)])
def test_a_job_pauses_at_each_checkpoint_but_not_at_its_end(work_s, takes_s):
    assert Checkpoint.of("checkpoint", "30s,cost=5s").lengthened(np.array([work_s])).tolist() == [takes_s]
    jobs = jobs_of([(0, work_s, 200, 4), (500, 1, 1, 1)])
    found = bf.replay(jobs, "fcfs", urgent="user=1", **LEAST, checkpoint="30s,cost=5s")
    assert found.schedule.end_s[0] == takes_s


@pytest.mark.compiled
def test_urgent_jobs_are_those_of_a_column_a_list_or_a_share(tmp_path):
    log, listed = tmp_path / "log.swf", tmp_path / "urgent.txt"
    log.write_text("; MaxProcs: 4\n" + "".join(row(i + 1, i, 9, req_time=9, queue=i % 3, user=i) for i in range(300)))
    listed.write_text("7\n300\n\n")
    jobs = bf.read(log)

    def urgent(word):
        schedule = bf.replay(jobs, "fcfs", urgent=word).schedule
        return list(map(int, jobs.ids[schedule.jobs.urgent]))

    assert urgent("queue=2") == [*range(3, 301, 3)]
    assert urgent("user=0+7") == [1, 8]
    assert urgent(f"list:{listed}") == [7, 300]
    drawn = {seed: urgent(f"share:10%,seed={seed}") for seed in range(20)}
    assert drawn[0] != drawn[1]
    assert 0.08 < sum(map(len, drawn.values())) / 6000 < 0.12
    assert all(Urgent.of("urgent", "share:10%").holds(str(job), -1, {}) for job in drawn[0])
    listed.write_text("\n000\n07\n")
    assert [Urgent.of("urgent", f"list:{listed}").holds(job, -1, {}) for job in ("0", "007", "70", "")] == [1, 1, 0, 0]
    listed.write_text("9\n888\n")
    for word, why in (("queue=7", "no job has queue=7"), (f"list:{listed}", "has 888, which is no job")):
        with pytest.raises(BatfillError, match=why):
            urgent(word)


@pytest.mark.compiled
def test_a_replay_with_urgent_jobs_stops_forks_and_is_saved(tmp_path):
    options = {"urgent": "share:10%", **LEAST, "requeue_delay_s": 120, "checkpoint": "1h"}
    whole = bf.replay(SAMPLE, "saf", **options).schedule
    run = bf.Replay(SAMPLE, "saf", **options).run(until_s=100_000)
    assert len(whole.kills) > len(run.result().schedule.kills) > 0
    run.save(tmp_path / "run.npz")
    for other in (run.fork(), bf.Replay.load(tmp_path / "run.npz")):
        assert other.run().result().schedule == replace(whole, jobs=other.engine.table)


@pytest.mark.compiled
def test_what_is_kept_is_what_the_engine_keeps_where_a_period_is_not_exact():
    found = bf.replay(SAMPLE, "saf", urgent="share:10%", **LEAST, checkpoint="0.1").schedule
    assert len(found.kills) > 20
    assert found.lost_proc_s() == pytest.approx(0, abs=1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(3))
def test_jobs_stopped_for_an_urgent_one_do_not_make_way_for_another_of_their_user_that_was_skipped(seed):
    options = {"urgent": f"share:10%,seed={seed}", **LEAST, "max_running": 3}
    assert bf.replay(SAMPLE, "saf", **options).schedule.ended.all()


@pytest.mark.compiled
def test_result_files_say_why_tries_were_stopped_and_give_the_figures_of_the_replay(tmp_path):
    options = {"urgent": "share:10%", **LEAST, "checkpoint": "1h"}
    found = bf.replay(SAMPLE, "saf", **options)
    found.to_batsim(tmp_path / "run")
    read = read_results(tmp_path / "run_jobs.csv", size=found.size)
    assert set(read.facts.stopped.tolist()) == {-1, PREEMPTED}
    assert read.facts.urgent[read.final].sum() == found.schedule.jobs.urgent.sum()
    assert read.wait_s[read.final] == pytest.approx(found.schedule.wait_s)
    assert read.summary().as_dict() == pytest.approx(found.figures.as_dict())
    assert (read.facts.kept_s > 0).sum() > 3


def test_a_cluster_names_whom_it_stops_and_that_job_keeps_its_class():
    cluster = Cluster(range(4), Options.of({"urgent": "user=1", **LEAST}))

    def submit(name, submit_s, procs, user):
        request = Request(name, submit_s, 100.0, 100.0, procs, "delay", user)
        cluster.submit(request, Judgement(100.0, False))

    def started(now_s):
        return [start.job for start in cluster.decide(now_s)]

    submit("a", 0.0, 4, 0)
    assert started(0.0) == ["a"]
    submit("b", 10.0, 2, 1)
    assert (started(10.0), list(cluster.to_stop(10.0))) == ([], ["a"])
    cluster.end("a", "a#1", stopped=True)
    cluster.requeue("a#1", 10.0)
    assert started(10.0) == ["b"]
    cluster.end("b")
    assert started(15.0) == ["a#1"]


def test_room_for_stops_grows_before_an_instant_that_may_need_it():
    jobs = jobs_of([WHOLE, SHORT])
    options = Options.of({"urgent": "user=1", **LEAST})
    run = EngineReplay(options.prepared(jobs, "jobs"), 4, options.rules)
    run.events = run.events._replace(kills=run.events.kills[:1])
    assert run.advance()
    assert (run.start_s.tolist(), len(run.kills)) == ([15, 10], 1)


def test_no_job_is_stopped_where_a_skipped_one_of_its_user_would_then_go_first():
    jobs = table([WHOLE, (1, 5, 5, 4), (2, 5, 5, 2)])
    jobs = replace(jobs, size=4, user=np.array([1, 1, 2]), urgent=np.array([False, True, True]))
    found = bf.replay(jobs, "fcfs", urgent="share:1%", max_running=1, **LEAST).schedule
    assert (found.start_s.tolist(), len(found.kills)) == ([0, 100, 105], 0)


def test_a_try_goes_on_where_all_that_wait_are_at_their_users_limits():
    jobs = table([(0, 100, 100, 2, SMALL), (0, 200, 200, 2, LARGE), (1, 10, 10, 1, LARGE)])
    jobs = replace(jobs, size=4, user=np.array([1, 2, 2]))
    found = bf.replay(jobs, "fcfs", small="class", divider=50, small_width=1, max_running=1).schedule
    assert (found.start_s.tolist(), found.end_s.tolist(), len(found.kills)) == ([0, 0, 200], [100, 200, 210], 0)
