import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
import golden
from batfill.base.files import digest
from batfill.base.words import percent
from batfill.batsim_files.replayed import write_batsim_files
from batfill.batsim_files.results import STOPPED, Facts, ResultError, metadata_text
from batfill.engine.records import BY_FAILURE, PREEMPTED
from batfill.model.limits.calendar import Calendar
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from batfill_pages.about import about_run, of_batsim
from batfill_pages.runs import find_runs, read_run
from command import batfill, result
from golden5 import Recording5
from report_runs import CUT, KILLED, OK, REJECTED, SAMPLE, jobs_csv, sample_run
from strategies import random_table


@pytest.fixture
def by_hand(tmp_path):
    return jobs_csv(
        tmp_path / "by-hand_jobs.csv",
        "b,0,4,10,COMPLETED_SUCCESSFULLY,0,10,0-1 3-4",
        f"a,0,2,100,{KILLED},2,20,5-6",
        f"a#1,0,2,100,{OK},40,100,0-1",
        f"c,5,1,-1,{OK},6,0.00001,9",
        f"d,7,99,5,{REJECTED},,,",
        f"e,8,1,50,{CUT},1008,50,2",
    )


def test_a_run_is_ordered_by_submission_then_id_then_try(by_hand):
    run = read_run(by_hand, "x")
    assert run.ids.tolist() == ["a", "a", "b", "c", "d", "e"]
    assert run.attempt.tolist() == [0, 1, 0, 0, 0, 0]
    assert run.final.tolist() == [False, True, True, True, False, True]
    assert run.walltime_s.tolist() == [100, 100, 10, np.inf, 5, 50]
    assert run.size == 10  # machine 9 is the last that is seen


def test_machines_are_intervals(by_hand):
    machines = read_run(by_hand, "x").machines
    rows = [
        [(int(machines.first[k]), int(machines.last[k])) for k in range(begin, end)]
        for begin, end in zip(machines.offset[:-1], machines.offset[1:], strict=True)
    ]
    assert rows == [[(5, 6)], [(0, 1)], [(0, 1), (3, 4)], [(9, 9)], [], [(2, 2)]]


def test_backfilling_is_known_of_a_replay_and_not_of_files_that_do_not_say_it(by_hand, tmp_path):
    assert not read_run(by_hand, "x").backfilling_known
    schedule = sample_run(tmp_path, "fcfs")
    run = next(run for run in find_runs([tmp_path]) if run.name == "fcfs")
    assert schedule.backfilled.any()
    assert run.ids.tolist() == schedule.jobs.ids.tolist()
    assert run.backfilling_known
    assert run.facts.backfilled.tolist() == schedule.backfilled.tolist()
    assert run.facts.user.tolist() == schedule.jobs.user.tolist()
    assert run.summary().backfilled == schedule.backfilled.sum()


def test_what_is_known_of_a_job_comes_back_from_its_metadata(tmp_path):
    known = metadata_text(user=3, small=True, probability=0.731, divider_s=3600.0, backfilled=False)
    assert known == "user=3 class=small probability=0.731 divider=3600 backfilled=0"
    facts = Facts.of([known, "", "another program's words user=1", metadata_text(small=False)])
    assert facts.user.tolist() == [3, -1, -1, -1]
    assert facts.small.tolist() == [1, -1, -1, 0]
    assert facts.probability.tolist() == pytest.approx([0.731, np.nan, np.nan, np.nan], nan_ok=True)
    assert facts.divider_s.tolist() == pytest.approx([3600, np.nan, np.nan, np.nan], nan_ok=True)
    assert facts.backfilled.tolist() == [0, -1, -1, -1]
    stopped = Facts.of(
        [metadata_text(user=3, urgent=True), metadata_text(why=PREEMPTED), metadata_text(why=BY_FAILURE)]
    )
    assert stopped.urgent.tolist() == [True, False, False]
    assert [STOPPED[why] for why in stopped.stopped[1:]] == ["urgent", "failure"]
    assert stopped.stopped[0] == -1
    takes = {"watts, mean": 2.5, "memory": 1e15, "x": 1e-7}
    texts = [metadata_text(user=1, takes=takes), "user=1 takes=memory=much", metadata_text(takes={})]
    assert Facts.of(texts).takes.tolist() == ["memory=1e%2B15&watts%2C+mean=2.5&x=1e-07", "", ""]
    damaged = ["takes=a=1b=2", "takes=a=1x", "probability=.", "divider=1.2.3", "asked=e", "asked=--1", "takes=a=1_0"]
    for facts in (Facts.of(damaged), Facts.of(["takes=" + "a=11" * 40 + "!"])):
        assert set(facts.takes) == {""}
        assert np.isnan([facts.probability, facts.divider_s, facts.asked_s]).all()


def test_the_options_of_another_scheduler_are_shown_from_its_file_as_from_its_command():
    record = {"workloads": ["w.json"], "simulator": "embedded", "made_by": "batfill", "warnings": []}
    record["scheduler_command"] = "pybatsim easyBackfill -O o.json"
    assert of_batsim(record, "4.2.0").scheduler == "pybatsim easyBackfill -O o.json"
    record["scheduler_options"] = {"budget": 0.8}
    assert of_batsim(record, "4.2.0").scheduler == 'pybatsim easyBackfill -O o.json ({"budget": 0.8})'


@pytest.fixture(params=golden.RUNS)
def recorded(request, tmp_path):
    """A run of real Batsim, and the lines of its jobs."""
    recording = golden.recording(request.param)
    for name in ("jobs", "schedule"):
        (tmp_path / f"out_{name}.csv").write_text("\n".join(recording.lines(name)) + "\n")
    (run,) = find_runs([tmp_path])
    return run, recording.lines("jobs")


def test_the_figures_of_real_batsim_runs_are_those_of_their_last_tries(recorded):
    run, lines = recorded
    rows = list(csv.DictReader(lines))
    last = {row["job_id"].partition("#")[0]: row for row in sorted(rows, key=try_number)}
    ran = [row for row in last.values() if row["final_state"] != REJECTED]
    waits = [float(row["starting_time"]) - float(row["submission_time"]) for row in ran]
    ends = [float(row["finish_time"]) for row in ran]
    submissions = [float(row["submission_time"]) for row in ran]
    figures = run.known_figures()
    assert figures["jobs"] == len(last)
    assert figures["rejected"] == len(last) - len(ran)
    assert figures["killed"] == sum(row["final_state"] in (CUT, KILLED) for row in ran)
    assert figures["requeued"] == len(rows) - len(last)
    assert figures["mean_wait_s"] == pytest.approx(sum(waits) / len(waits))
    assert figures["makespan_s"] == pytest.approx(max(ends) - min(submissions))
    assert "utilisation" in figures
    assert "backfilled" not in figures


def try_number(row):
    """The number of the try in a line of Batsim's; 0 for the first."""
    return int(row["job_id"].partition("#")[2] or 0)


def test_a_later_try_counts_alone_even_if_it_was_submitted_later(tmp_path):
    run = read_run(
        jobs_csv(
            tmp_path / "x_jobs.csv", f"a,0,2,9,{KILLED},0,5,0-1", f"b,3,1,9,{OK},5,9,0", f"a#1,5,2,9,{OK},14,9,0-1"
        ),
        "x",
    )
    assert run.ids.tolist() == ["a", "a", "b"]
    assert run.final.tolist() == [False, True, True]
    assert (run.summary().jobs, run.summary().requeued) == (2, 1)
    assert run.wait_s.tolist() == [0, 14, 2]  # from the job's first submission


def test_no_machine_of_real_batsim_runs_has_two_jobs_at_once(recorded):
    run, _ = recorded
    offset, first, last = run.machines
    tries = np.repeat(np.arange(len(run)), np.diff(offset))
    assert (np.bincount(tries, weights=last - first + 1, minlength=len(run)) == run.procs)[run.state != 4].all()
    for machine in range(run.size):
        held = tries[(first <= machine) & (machine <= last)]
        held = held[np.argsort(run.start_s[held], kind="stable")]
        ends = (run.start_s + run.runtime_s)[held]
        assert (run.start_s[held][1:] >= ends[:-1] - 1e-3).all()


def test_runs_of_batsim_5_are_found_by_file_prefix_and_folder(tmp_path):
    for name, made in (("fcfs", "out"), ("saf-threshold", "out"), ("small-other-prefix", "res")):
        shutil.copytree(Recording5(name).folder / made, tmp_path / name / made)
    (tmp_path / "fcfs" / "out" / "more").mkdir()
    (tmp_path / "fcfs" / "out" / "more" / "jobs.csv").write_text("name,wage\nann,7\n")  # another program's
    fcfs, saf, other = find_runs([tmp_path])
    assert [run.name for run in (fcfs, saf, other)] == ["fcfs", "saf-threshold", "res"]
    assert [(run.size, run.size_stated, len(run)) for run in (fcfs, other)] == [(100, True, 2000), (4, True, 1)]
    assert fcfs.about.engine == "Batsim v5.0.0-rc1-18-gba7ea85f"
    for place in ("fcfs/out/jobs.csv", "fcfs/out/", "small-other-prefix/res/x", "small-other-prefix/res/x_"):
        (run,) = find_runs([tmp_path / place])
        assert run.path in (fcfs.path, other.path)
    assert [run.name for run in find_runs([tmp_path / "fcfs", tmp_path / "saf-threshold"])] == ["fcfs", "saf-threshold"]
    prefix = tmp_path / "plain"
    shutil.copy(fcfs.path, f"{prefix}jobs.csv")
    assert [run.name for run in find_runs([prefix])] == ["plain"]


def test_users_and_requests_of_a_workload_in_batsim_5s_form_are_known(tmp_path):
    run = Recording5("fcfs").folder
    jobs_csv = shutil.copytree(run / "out", tmp_path / "out") / "jobs.csv"
    workload = Path(shutil.copy(run / "workload.json", tmp_path))
    written = json.loads(workload.read_text())
    written["jobs"][0]["extra_data"]["requested_time"] = 7
    workload.write_text(json.dumps(written))
    record = {
        "export_prefix": f"{tmp_path}/out/",
        "inputs_sha256": {str(workload): digest(workload)},
        "workloads": [str(workload)],
        "scheduler_command": "batfill schedule",
        "simulator": "batsim",
        "made_by": "batfill",
        "warnings": [],
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    users = {job["id"]: job["extra_data"]["user_id"] for job in written["jobs"]}
    found = read_run(jobs_csv, "x")
    (asked_s,) = found.facts.asked_s[found.ids == written["jobs"][0]["id"]]
    assert asked_s == 7
    assert dict(zip(found.ids.tolist(), found.facts.user.tolist(), strict=True)) == users


@pytest.mark.parametrize("content", ["", "job_id,workload_name\na,w0\n", "cut off"])
def test_a_damaged_file_is_named_in_one_line(tmp_path, content):
    path = tmp_path / "out_jobs.csv"
    path.write_text(content)
    with pytest.raises(ResultError, match="not a whole") as error:
        read_run(path, "x")
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_policy_that_was_learned_from_the_log_it_runs_on_is_hindsight(tmp_path):
    assert not batfill("fit", SAMPLE, "--tuples", 2, "--permutations", 256, "--out", tmp_path / "fitted.json").status
    other = tmp_path / "other.json"
    other.write_text(SAMPLE.read_text() + "\n")
    for name, log in (("same", SAMPLE), ("other", other)):
        result("replay", log, "--policy", f"area@{tmp_path / 'fitted.json'}", "--out", tmp_path / name / "out")
    found = {run.path.parent.name: run.about.hindsight for run in find_runs([tmp_path])}
    assert found == {"same": True, "other": False}


@pytest.mark.compiled
def test_a_page_shows_what_was_unavailable(tmp_path):
    calendar = Calendar.of([{"kind": "announced", "begin": 1e4, "end": 2e4, "processors": 60}])
    bf.replay(SAMPLE, "saf", calendar=calendar).to_batsim(tmp_path / "run")
    assert about_run(tmp_path / "run_jobs.csv", "run", "")[0].windows == ((1e4, 2e4, 60, ""),)
    bf.report(tmp_path / "run_jobs.csv", out=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '"away":[[10000.0,20000.0,60]]' in page
    figures = bf.replay(SAMPLE, "saf", calendar=calendar).figures
    assert f"utilisation of what was in service</dt><dd>{percent(figures.utilisation)}" in page.replace("\xa0", " ")
    assert percent(figures.utilisation) != percent(bf.replay(SAMPLE, "saf").figures.utilisation)


def test_the_result_files_hold_every_try_and_a_report_finds_the_same_figures(tmp_path):
    jobs = random_table(6, n_jobs=300, size=8, span_s=300, small=0.7, wide=0.0)
    schedule = replay_jobs(jobs, 8, Rules(policy_named("fcfs"), divider_s=7.0))
    write_batsim_files(schedule, tmp_path / "out", simulate_s=0.0)
    (run,) = find_runs([tmp_path])
    assert len(run) == len(jobs) + len(schedule.kills)
    assert run.attempt.max() == 1
    found, figures = run.summary().as_dict(), schedule.summary().as_dict()
    assert found == pytest.approx(figures, abs=1e-3)
