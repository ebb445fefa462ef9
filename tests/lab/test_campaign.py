"""`batfill campaign` as a user meets it: one machine or several, killed at any moment, and run again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pandas as pd
import pyarrow.parquet as pq

import batfill as bf
from batfill.base.errors import RunFailed
from batfill.base.files import digest
from batfill.model.options import arguments_of
from batfill.replays.replay import replay
from batfill_lab.campaigns import clusters, work
from batfill_lab.campaigns.config import read_campaign
from batfill_lab.campaigns.plan import plan
from batfill_lab.campaigns.running import run_campaign
from batfill_lab.campaigns.traces import piece_of
from command import COMPILING, KILLS, Done, batfill, refusal, result

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "workloads" / "sample.json"
LIMIT_S = 120
SMALL = "policies: [fcfs, saf]\nwindows: {days: 1}\n"
# About a second of work for a worker, in eight tasks or more.
LONG = f"policies: [fcfs, spf, saf, wfp3]\nthresholds: {list(range(0, 50_000, 100))}\n"
LONG_RUNS = 2000


@pytest.fixture
def campaign_file(tmp_path):
    """A function that writes a campaign on the sample."""

    def write(text):
        path = tmp_path / "c.yaml"
        path.write_text(f"workloads: [{{file: {SAMPLE}}}]\n{text}")
        return path

    return write


def command(*arguments):
    return [sys.executable, "-m", "batfill", "campaign", *map(str, arguments)]


def run(*arguments):
    """The command in a process of its own, as its workers expect."""
    ended = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=LIMIT_S)
    said = [line for line in ended.stderr.splitlines(keepends=True) if not line.startswith(COMPILING)]
    return Done(ended.returncode, ended.stdout, "".join(said))


def rows(folder):
    return pd.read_parquet(folder / "runs.parquet")


def done(*arguments):
    ended = batfill("campaign", *arguments, "--json")
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


def waited(condition):
    """Wait until it holds."""
    until = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def test_results_are_those_of_single_replays_and_say_how_they_came_about(campaign_file, tmp_path):
    file = campaign_file("policies: [fcfs, saf]\nthresholds: [null, 7200]\n")
    ended = run(file, "--out", tmp_path / "out", "--workers", 2)
    assert ended.status == 0
    assert ended.err == "batfill: 4 runs, on 2 workers\n"
    assert ended.out.endswith(f"4 runs in {tmp_path / 'out' / 'runs.parquet'}\n")
    table = rows(tmp_path / "out")
    for row in table.itertuples():
        given = {"policy": row.policy, "threshold": None if pd.isna(row.threshold_s) else row.threshold_s}
        assert replay(SAMPLE, **arguments_of(given)).figures.mean_bsld == row.mean_bsld
    assert [f"{row.mean_bsld:,.3f}" in ended.out for row in table.itertuples()] == [True] * 4

    record = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert record["inputs"] == [{"file": str(SAMPLE), "sha256": digest(SAMPLE), "warnings": []}]
    assert record["campaign_sha256"] == digest(file)
    (session,) = record["sessions"]
    assert (session["runs_left"], session["runs_done"], session["workers"]) == (4, 4, "2 on this machine")
    assert session["ended"]
    assert session["command"][1:] == ["campaign", str(file), "--out", str(tmp_path / "out"), "--workers", "2"]


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    """The folders of two small campaigns that ran at once, and what each said."""
    folder = tmp_path_factory.mktemp("at-once")
    file = folder / "c.yaml"
    file.write_text(f"workloads: [{{file: {SAMPLE}}}]\n{SMALL}")
    both = [
        subprocess.Popen(command(file, "--out", folder / name, "--workers", 1), stderr=subprocess.PIPE, text=True)
        for name in "ab"
    ]
    said = [process.communicate(timeout=LIMIT_S)[1].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    return [folder / name for name in "ab"], said


@pytest.mark.slow
def test_two_campaigns_at_once_know_nothing_of_each_other(at_once):
    for folder, said in zip(*at_once, strict=True):
        first, *progress = [line for line in said if not line.startswith(COMPILING)]
        assert first.startswith("batfill: 10 runs, on ")
        assert all(" of 10 runs after " in line for line in progress)  # which a slow machine has
        assert rows(folder)["run"].nunique() == 10


@pytest.mark.slow
def test_finished_runs_are_never_run_again(at_once, campaign_file, tmp_path):
    out = shutil.copytree(at_once[0][0], tmp_path / "out")
    before = rows(out).set_index("run")["simulate_s"]
    again = batfill("campaign", campaign_file(SMALL), "--out", out)
    assert (again.status, again.err) == (0, "batfill: 10 runs, all finished earlier\n")
    wider = done(campaign_file(SMALL.replace("saf", "saf, spf")), "--out", out, "--workers", 1)
    assert (wider["runs"], wider["finished_before"]) == (15, 10)
    after = rows(out).set_index("run")["simulate_s"]
    assert after[before.index].equals(before)


def test_a_dry_run_says_what_there_is_to_do_and_leaves_nothing(campaign_file, tmp_path):
    outlook = json.loads(result("campaign", campaign_file(SMALL), "--out", tmp_path / "out", "--dry-run", "--json"))
    assert (outlook["runs"], outlook["finished"]) == (10, 0)
    assert 1 <= outlook["tasks"] <= 10
    assert not (tmp_path / "out").exists()


def kill_when(process, condition):
    """SIGKILL the campaign once this holds, and wait until its workers are gone, too."""
    family = []

    def now():
        with suppress(psutil.NoSuchProcess):
            family[:] = psutil.Process(process.pid).children(recursive=True)
        return condition() or process.poll() is not None

    waited(now)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=LIMIT_S)
    _, alive = psutil.wait_procs(family, timeout=LIMIT_S)
    assert not alive


def stored_rows(out):
    """The rows in every file whose name says that it is whole."""
    tables = [pd.read_parquet(path) for path in (*out.glob("*.parquet"), *parts_of(out))]
    return pd.concat(tables).set_index("run")["simulate_s"] if tables else pd.Series(dtype=float)


def began(file, out, *more):
    """A campaign that runs, as the leader of its session."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(file, "--out", out, *more), start_new_session=True, **pipes)


def parts_of(out):
    """The files of rows that a campaign has stored so far."""
    return list(out.glob("parts/*.parquet"))


def stored_or_over(process, out, least=1):
    """Wait until it has stored so many parts, or has ended."""
    waited(lambda: len(parts_of(out)) >= least or process.poll() is not None)


def end_of(process):
    """Its status, and both of its streams."""
    printed, said = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in said
    return process.returncode, printed, said


def assert_goes_on(file, out):
    """What is stored is whole, is kept as it is, and the same command adds what is missing."""
    before = stored_rows(out)
    again = done(file, "--out", out, "--workers", 1)
    assert (again["runs"], again["finished_before"]) == (LONG_RUNS, len(before))
    after = rows(out)
    assert len(after) == after["run"].nunique() == LONG_RUNS
    assert after.set_index("run")["simulate_s"][before.index].equals(before)
    assert not list(out.rglob("*.part"))


@pytest.mark.slow
def test_a_campaign_killed_with_sigkill_while_it_stores_results_goes_on_where_it_was(campaign_file, tmp_path):
    out, file = tmp_path / "out", campaign_file(LONG)
    kill_when(began(file, out), lambda: len(parts_of(out)) >= 2)
    assert len(stored_rows(out)) >= 2
    assert_goes_on(file, out)


@pytest.mark.slow
@pytest.mark.parametrize("parts", (1, 0, *range(2, 8))[: max(KILLS // 2, 1)])
def test_a_worker_killed_with_sigkill_after_any_answer_costs_no_result(campaign_file, tmp_path, parts):
    out = tmp_path / "out"
    process = began(campaign_file(LONG), out)

    def workers():
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
            return [child for child in children if "spawn_main" in str(child.cmdline())]

    waited(lambda: (workers() and len(parts_of(out)) >= parts) or process.poll() is not None)
    killed = workers()
    assert killed
    killed[0].kill()
    status, _, said = end_of(process)
    assert status == 0, said
    assert rows(out)["run"].nunique() == LONG_RUNS
    assert not list(out.rglob("*.part"))
    assert not psutil.wait_procs(killed, timeout=5)[1]


@contextmanager
def started(*arguments):
    """A process of Dask's, ended at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *map(str, arguments[1:])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def scheduler(tmp_path):
    """A Dask scheduler on loopback: its process and address."""
    file = tmp_path / "scheduler.json"
    with started(
        "dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file
    ) as process:
        waited(file.is_file)
        yield process, json.loads(waited(file.read_text))["address"]


def worker(address):
    return started("dask_worker", address, "--nthreads", 1, "--no-dashboard", "--no-nanny")


@pytest.mark.slow
def test_a_scheduler_that_goes_away_costs_only_the_runs_in_flight(campaign_file, tmp_path):
    out, file = tmp_path / "out", campaign_file(LONG)
    with scheduler(tmp_path) as (process, address), worker(address):
        campaign = began(file, out, "--scheduler", address)
        stored_or_over(campaign, out)
        process.kill()
        status, printed, said = end_of(campaign)
    stored = len(stored_rows(out))
    assert (status, printed) == (1, "")
    assert f"run `batfill campaign {file} --out {out} --scheduler {address}` for the rest" in said
    assert 0 < stored < LONG_RUNS


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_said_in_one_line(campaign_file, tmp_path):
    ended = run(campaign_file(SMALL), "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:9")
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("batfill: --scheduler tcp://127.0.0.1:9: no Dask scheduler answers there; start one with ")


CLUSTER = """
cluster:
  type: {kind}
  jobs: 3
  cores: 4
  memory: 8GB
  walltime: "02:00:00"
  queue: short
  project: batch-study
  directives: ["--exclusive"]
  prologue: ["module load python"]
"""


SBATCH = "-J batfill-campaign, -p short, -A batch-study, -n 1, --cpus-per-task=4, --mem=8G, -t 02:00:00, --exclusive"
OAR = "-n batfill-campaign, -q short, --project batch-study, -l /nodes=1/core=4,walltime=02:00:00, --exclusive"


@pytest.mark.parametrize(("kind", "word", "options"), [("slurm", "SBATCH", SBATCH), ("oar", "OAR", OAR)])
def test_job_scripts_ask_the_batch_system_for_what_the_file_says(campaign_file, kind, word, options):
    ended = batfill("campaign", campaign_file(SMALL + CLUSTER.format(kind=kind)), "--job-script")
    assert (ended.status, ended.err) == (0, "")
    *asked, start = ended.out.splitlines()
    lines = [f"#{word} {option}" for option in options.split(", ")]
    assert asked == ["#!/usr/bin/env bash", "", *lines, "module load python"]
    assert "distributed.cli.dask_worker tcp://SCHEDULER:PORT" in start
    assert " --nthreads 1 " in start
    assert " --nworkers 4 " in start


@pytest.fixture
def batch_system(tmp_path, monkeypatch):
    """A function that puts the commands of a batch system, shell scripts by their names, on an otherwise usual PATH."""
    folder = tmp_path / "batch-system"
    folder.mkdir()
    for tool in ("bash", "mkdir", "cp", "kill", "mktemp", "setsid"):
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))

    def batch_system(**scripts):
        for name, script in scripts.items():
            (folder / name).write_text(f"#!{folder}/bash\n{script}\n")
            (folder / name).chmod(0o755)

    return batch_system


CLUSTER_OF_TWO = "cluster: {{type: {kind}, jobs: 2, cores: 1, memory: 1GB}}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "command_"), [("slurm", "sbatch"), ("oar", "oarsub")])
def test_jobs_that_the_batch_system_refuses_end_the_campaign(campaign_file, batch_system, tmp_path, kind, command_):
    batch_system(**{command_: "echo invalid account >&2; exit 1"})
    ended = run(campaign_file(SMALL + CLUSTER_OF_TWO.format(kind=kind)), "--out", tmp_path / "out")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.splitlines()[1:] == [
        f"batfill: cluster: `{command_}` refused 2 of 2 jobs (exit status 1: invalid account); correct that section, "
        "and see the script with --job-script"
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_workers_that_never_come_are_waited_for_no_longer_than_the_limit(campaign_file, batch_system, tmp_path):
    batch_system(sbatch="echo Submitted batch job 7", scancel=f"echo $1 > {tmp_path}/cancelled")
    file = campaign_file(SMALL + CLUSTER_OF_TWO.format(kind="slurm"))
    ended = run(file, "--out", tmp_path / "out", "--worker-limit", 1)
    assert ended.status == 1
    assert ended.err.splitlines()[1:] == [
        "batfill: 10 of 10 runs are not finished (2 slurm jobs: no worker for 1 s, see --worker-limit); "
        f"run `batfill campaign {file} --out {tmp_path / 'out'} --worker-limit 1` for the rest"
    ]
    assert (tmp_path / "cancelled").read_text() == "7\n"


@pytest.mark.slow
def test_jobs_of_a_batch_system_give_the_rows_of_this_machine(campaign_file, batch_system, tmp_path):
    batch_system(
        sbatch=f'script=$(mktemp); cp "$1" $script; setsid bash $script >{tmp_path}/log 2>&1 & '
        "echo Submitted batch job $!",
        scancel='kill -TERM -- "-$1"',
    )
    done(campaign_file(SMALL + CLUSTER_OF_TWO.format(kind="slurm")), "--out", tmp_path / "cluster")
    done(campaign_file(SMALL), "--out", tmp_path / "here", "--workers", 1)
    both = [rows(tmp_path / name).drop(columns="simulate_s") for name in ("cluster", "here")]
    assert both[0].equals(both[1])
    record = json.loads((tmp_path / "cluster" / "provenance.json").read_text())
    assert record["sessions"][0]["workers"] == "2 slurm jobs"


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_finished_and_says_how_to_go_on(campaign_file, tmp_path):
    out, file = tmp_path / "out", campaign_file(LONG)
    process = began(file, out)
    stored_or_over(process, out)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    status, printed, said = end_of(process)
    stored = len(stored_rows(out))
    assert 0 < stored < LONG_RUNS
    assert (status, printed) == (130, "")
    assert f"to resume, run `batfill campaign {file} --out {out}`" in said
    (session,) = json.loads((out / "provenance.json").read_text())["sessions"]
    assert (session["runs_done"], session["ended"] is None) == (stored, False)
    assert_goes_on(file, out)


def test_a_run_that_fails_is_named_and_costs_no_other(campaign_file, tmp_path, monkeypatch):
    usual = work.simulate

    def failing(jobs, workload, options):
        if options.policy.name == "saf" and len(jobs) == len(first.jobs):
            raise ZeroDivisionError("a bug")
        return usual(jobs, workload, options)

    read = read_campaign(campaign_file(SMALL))
    whole = plan(read)
    first = piece_of(whole.runs[0].trace, 0).workload
    monkeypatch.setattr(work, "simulate", failing)
    monkeypatch.setattr(
        clusters, "on_this_machine", lambda tasks, _: ([(i, work.run_task(task))] for i, task in enumerate(tasks))
    )
    with pytest.raises(RunFailed) as failed:
        run_campaign(read, tmp_path / "out", bar=lambda *_: nullcontext(lambda _: None), say=lambda _: None)
    assert str(failed.value) == (
        "1 of 10 runs are not finished (sample.json, window 0, policy saf, backfill same: ZeroDivisionError: a bug); "
        "the others are stored: run the same command again for the rest"
    )
    assert len(stored_rows(tmp_path / "out")) == 9


def test_mistakes_are_refused_before_anything_is_made(campaign_file, tmp_path):
    file = campaign_file("policies: [sfa]\n")
    assert refusal("campaign", file, "--out", tmp_path / "out").startswith(f"{file}:2: policy 'sfa' is unknown")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("depth", [0, 2, "all"])
def test_a_campaign_and_a_replay_have_the_same_starts_at_any_depth(tmp_path, depth):
    path = bf.write(bf.generate(300, 16, seed=3), tmp_path / "log.json")
    text = f"workloads: [{{file: {path}}}]\npolicies: [fcfs]\ndepths: [{depth}]\nper-job: true\n"
    (tmp_path / "c.yaml").write_text(text)
    assert batfill("campaign", tmp_path / "c.yaml", "--out", tmp_path / "out").status == 0
    (table,) = (tmp_path / "out" / "jobs").glob("*.parquet")
    by_id = {row["job"]: row["start_s"] for row in pq.read_table(table).to_pylist()}
    found = bf.replay(path, depth=depth)
    assert [by_id[name] for name in found.schedule.jobs.ids.tolist()] == found.schedule.start_s.tolist()
