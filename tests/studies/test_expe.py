"""The experiments that come with the project: they read, they name what is there, and the samples run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import batfill
from batfill.batsim_files.platform import read_platform
from batfill.model.options import NAMES, Options
from batfill.replays.replay import simulate
from batfill.runner.descriptor import read_descriptor
from batfill.workloads.archive import known_log
from command import batfill as here
from command import free_port
from studies.tables.promise import SEEDS, Check, Figures, moved
from swf_text import row as swf_row

ROOT = Path(__file__).parents[2]
DESCRIPTORS = sorted((ROOT / "expe").glob("*.yaml"))
SAMPLES = [path for path in DESCRIPTORS if path.name.startswith("sample_")]
ON_LOGS = [path for path in DESCRIPTORS if path not in SAMPLES]
LIMIT_S = 120


def run(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """This batfill in another working directory and environment, with no virtual environment activated."""
    source = str(Path(batfill.__file__).parents[1])
    env = {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": source, **env}
    words = [sys.executable, "-m", "batfill", "run", *arguments]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=LIMIT_S)


@pytest.fixture
def study(tmp_path):
    """A folder that holds what the descriptors name, as a checkout does, with nothing to be spoilt in it."""
    for name in ("expe", "platforms", "workloads"):
        (tmp_path / name).symlink_to((ROOT / name).resolve(strict=True))
    return tmp_path


def short_sample(path, n_jobs):
    """Write the first jobs of the sample."""
    whole = json.loads((ROOT / "workloads" / "sample.json").read_text())
    path.write_text(json.dumps({**whole, "jobs": whole["jobs"][:n_jobs]}))


@cache
def machines_of(platform):
    return len(read_platform(platform).compute)


def workload_of(path):
    """The workload that a descriptor names."""
    words = shlex.split(read_descriptor(path).descriptor.batcmd)
    return Path(words[words.index("-w") + 1])


@pytest.fixture
def of_another_log(tmp_path):
    """The experiment that the guide makes of one of those with SDSC-SP2."""
    (command,) = re.findall(r"^sed .*", (ROOT / "docs/how-to/running.md").read_text(), re.MULTILINE)
    program, _, target = command.rpartition(" > ")
    done = subprocess.run(shlex.split(program), cwd=ROOT, capture_output=True, text=True, check=True)
    (tmp_path / target).write_text(done.stdout)
    return tmp_path / target


def test_an_experiment_of_another_log_is_made_by_changing_names(of_another_log):
    test_a_descriptor_names_its_own_folder_a_platform_that_is_there_and_a_scheduler_that_can_be(of_another_log)
    assert "sdsc" not in of_another_log.read_text().lower()


@pytest.mark.parametrize("path", DESCRIPTORS, ids=lambda path: path.stem)
def test_a_descriptor_names_its_own_folder_a_platform_that_is_there_and_a_scheduler_that_can_be(path):
    descriptor, _, notes = read_descriptor(path)
    assert notes == ()
    assert descriptor.output_dir == f"expe-out/{path.stem}"
    words = shlex.split(descriptor.batcmd)
    value = dict(pairwise(words))
    assert value["-e"] == f"expe-out/{path.stem}/out"
    machines = machines_of(ROOT / value["-p"])
    if path in SAMPLES:
        assert machines == json.loads((ROOT / value["-w"]).read_text())["nb_res"]
    else:
        workload = Path(value["-w"])
        assert str(workload.parent) == "workloads/archive"
        assert machines == known_log(workload.stem).processors
    sched = shlex.split(descriptor.schedcmd)
    if sched[0] == "pybatsim":
        options = json.loads(sched[sched.index("-o") + 1])
    else:
        assert sched[:2] == ["batfill", "schedule"]
        given = {name[2:]: text for name, text in pairwise(sched) if name.startswith("--")}
        read = {"threshold": float}
        options = {name: read.get(name, str)(text) for name, text in given.items()}
    assert Options.of(options).policy.name in path.stem


@pytest.mark.needs("batsim")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_runs_at_once(study, path):
    done = run(f"expe/{path.name}", "--simulator", "embedded", "--json", cwd=study, BATSIM_PORT=str(free_port()))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    figures = json.loads(done.stdout)
    assert figures["jobs"] == 800
    assert figures["rejected"] == figures["killed"] == 0
    assert 0.5 < figures["utilisation"] < 1
    record = json.loads((study / f"expe-out/{path.stem}/run.json").read_text())
    assert (record["exit"], record["simulator"]) == (0, "embedded")
    assert figures == {**record["figures"], "warnings": []}
    assert {*NAMES, "reservation"} <= record["options"].keys()
    assert record["options"]["policy"] in read_descriptor(path).descriptor.schedcmd


def needing(path):
    """The experiment as a parameter of a test, with the library that its scheduler needs."""
    learns = "--small forest" in read_descriptor(path).descriptor.schedcmd
    return pytest.param(path, id=path.stem, marks=[pytest.mark.needs("sklearn")] if learns else [])


@pytest.mark.parametrize("path", [needing(path) for path in ON_LOGS])
def test_an_experiment_on_a_log_runs_on_a_short_one_of_its_name_fetched_as_it_says(tmp_path, monkeypatch, path):
    for name in ("expe", "platforms"):
        (tmp_path / name).symlink_to((ROOT / name).resolve(strict=True))
    monkeypatch.chdir(tmp_path)
    log = known_log(workload_of(path).stem)
    size, weeks = ("--procs", log.processors), ("--interarrival", 30)
    here("workload", "generate", "--out", log.file, "--jobs", 100, *size, *weeks)
    short = replace(log, sha256=hashlib.sha256(Path(log.file).read_bytes()).hexdigest())
    monkeypatch.setattr("batfill.workloads.archive.known_log", {log.name: short}.get)
    (says,) = re.findall(r"^# Make its workload first: batfill (.*)", path.read_text(), re.MULTILINE)
    assert here(*says.split(), "--from", ".", "--cache", "cache").status == 0
    done = run(f"expe/{path.name}", "--simulator", "embedded", "--json", cwd=tmp_path, BATSIM_PORT=str(free_port()))
    assert done.returncode == 0, done.stderr
    figures, record = json.loads(done.stdout), json.loads((tmp_path / f"expe-out/{path.stem}/run.json").read_text())
    assert (figures["jobs"], figures["rejected"], record["exit"]) == (100, 0, 0)
    assert record["options"]["policy"] in read_descriptor(path).descriptor.schedcmd


def test_a_scheduler_with_a_mistake_in_it_fails_the_run_in_one_line(study):
    text = (ROOT / "expe/sample_saf.yaml").read_text().replace("--policy saf", "--policy sfa")
    (study / "mistake.yaml").write_text(text)
    done = run("mistake.yaml", "--simulator", "embedded", cwd=study, BATSIM_PORT=str(free_port()))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "the scheduler ended with status" in done.stderr
    assert "sfa" in done.stderr


# As Batsim 4, it says what it would do before it looks for its files.
BATSIM = """#!/bin/bash
case "${*: -1}" in
--version) echo 4.2.0;;
--dump-execution-context)
    echo '{"socket_endpoint": "tcp://localhost:1", "export_prefix": "'"$6"'", "external_scheduler": true}';;
*) echo "no workload" >&2; exit 1;;
esac
"""


@pytest.mark.parametrize("simulator", ["embedded", "on PATH", "named by BATSIM"])
def test_an_experiment_on_a_log_that_is_not_there_names_the_command_that_makes_it(study, simulator):
    (study / "workloads").unlink()
    (study / "bin").mkdir()
    (study / "bin/batsim").write_text(BATSIM)
    (study / "bin/batsim").chmod(0o755)
    given = {
        "embedded": {"BATSIM": "unused"},
        "on PATH": {"PATH": f"{study}/bin:{os.defpath}"},
        "named by BATSIM": {"BATSIM": f"{study}/bin/batsim"},
    }
    embedded = ["--simulator", "embedded"] if simulator == "embedded" else []
    done = run("expe/sdsc_saf.yaml", *embedded, cwd=study, **given[simulator])
    makes = "batfill workload fetch sdsc-sp2 --convert"
    workload = "workload workloads/archive/SDSC-SP2-1998-4.2-cln.json"
    says = f"batfill: expe/sdsc_saf.yaml: {workload} is missing; make it: {makes}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)
    for page in ("expe/sdsc_saf.yaml", "README.md", "docs/study.md", "docs/how-to/running.md"):
        assert makes in (ROOT / page).read_text(), page


def test_files_that_only_a_container_may_see_are_left_to_batsim(study):
    (study / "workloads").unlink()
    (study / "docker").write_text(BATSIM.replace("$6", "$7"))
    (study / "docker").chmod(0o755)
    done = run("expe/sdsc_saf.yaml", cwd=study, BATSIM=f"{study}/docker batsim", BATSIM_PORT=str(free_port()))
    assert done.returncode == 2
    assert "is not visible from here: whether all its jobs are executed is not checked" in done.stderr
    assert "no workload" in done.stderr


@pytest.mark.parametrize("name", ["sample_saf", "kth_saf"])  # the second one's log is nowhere
def test_a_run_from_another_folder_says_where_to_run_it_and_that_works(tmp_path, name):
    for part in ("expe", "platforms"):
        shutil.copytree(ROOT / part, tmp_path / "a checkout" / part)
    (tmp_path / "a checkout/workloads").mkdir()
    short_sample(tmp_path / "a checkout/workloads/sample.json", 40)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(f"../a checkout/expe/{name}.yaml", "--simulator", "embedded", cwd=elsewhere)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert list(elsewhere.iterdir()) == []
    remedy = done.stderr.partition(": cd ")[2].strip()
    folder, batfill, word, path = shlex.split(f"cd {remedy}".replace("&&", ""))[1:]
    assert (folder, batfill, word) == (str(tmp_path / "a checkout"), "batfill", "run")
    done = run(path, "--simulator", "embedded", "--json", cwd=Path(folder), BATSIM_PORT=str(free_port()))
    if name == "sample_saf":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert f"make it: {batfill} workload fetch kth-sp2 --convert" in done.stderr


def test_while_the_port_is_in_use_a_descriptor_that_reads_its_number_runs_on_a_free_one(study):
    (study / "workloads").unlink()
    (study / "workloads").mkdir()
    short_sample(study / "workloads/sample.json", 40)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = (ROOT / "expe/sample_saf.yaml").read_text().replace("28000", str(port))
        (study / "own.yaml").write_text(text)
        done = run("own.yaml", "--simulator", "embedded", "--json", cwd=study)
        assert done.returncode == 0, done.stderr
        (line,) = done.stderr.splitlines()
        taken = re.fullmatch(rf"batfill: port {port} is in use: this run takes (\d+); BATSIM_PORT chooses one", line)
        assert taken
        command = json.loads((study / "expe-out/sample_saf/run.json").read_text())["simulator_command"]
        assert f"tcp://localhost:{taken[1]} " in command
        (study / "own.yaml").write_text(text.replace("ready-timeout: 10", "ready-timeout: 0.2"))
        done = run("own.yaml", "--simulator", "embedded", cwd=study, BATSIM_PORT=str(port))
        assert done.returncode == 1
        assert f"port {port} is in use for longer than the ready-timeout" in done.stderr


@pytest.fixture
def printed(monkeypatch, capsys):
    """A function that runs a script of tables, and returns its cells without the blanks that align them."""
    monkeypatch.chdir(ROOT)

    def run_script(name, *arguments):
        monkeypatch.setattr("sys.argv", [name, *arguments])
        monkeypatch.delitem(sys.modules, name, raising=False)  # runpy warns of modules that others have imported
        runpy.run_module(name, run_name="__main__")
        return re.sub(r" +\|", " |", capsys.readouterr().out)

    return run_script


@pytest.fixture
def sample(tmp_path):
    """The first half of the sample, for experiments that replay it many times."""
    short_sample(tmp_path / "sample.json", 400)
    return str(tmp_path / "sample.json")


def log_of(path, rows):
    """The path of a log of four processors."""
    path.write_text("; MaxProcs: 4\n" + "".join(rows))
    return str(path)


def cells_of(lines, *which):
    """The cells of these lines of a table, without blanks."""
    return [[cell.strip() for cell in line.split("|")[slice(*which)]] for line in lines]


@pytest.mark.needs("sklearn")
def test_the_comparison_of_predicted_run_times_prints_a_row_for_each(printed, sample):
    shown = printed("studies.tables.predictions", "--seeds", "1", sample)
    predictors = ("easy++", "regression", "runtime", "boosting")
    for row in (f"| {knowledge}, {predictions} |" for knowledge in predictors for predictions in ("all", "order")):
        assert shown.count(row) == 5  # comparison, slowdown, mean wait, long waits, seconds
    assert shown.count("| request, all |") == 4


def test_the_study_of_fidelity_prints_each_replay_and_what_is_fitted(printed, tmp_path):
    jobs = (swf_row(k, 60 * k, 90, req_time=90, req_procs=3, wait=60 * k) for k in range(1, 400))
    shown = printed("studies.tables.fidelity", log_of(tmp_path / "log.swf", jobs))
    for replay in ("plain", "outages (0, 0 days)"):
        assert re.search(rf"^\| log +\| {re.escape(replay)} +\| 399 +\|", shown, re.MULTILINE)
    assert len(re.findall(r"^\| log ", shown, re.MULTILINE)) > 4


@pytest.mark.needs("pydantic")
def test_the_test_of_tuned_orders_prints_a_row_for_each_choice_and_baseline(printed):
    shown = printed("studies.tables.aged", "workloads/sample.json", "--days", "0.5")
    assert "seed 0, tau 60 s; 16 comparisons" in shown
    for row in ("trained", "walk forward", "untuned", "first tries"):
        assert shown.count(f"| {row} |") == 2  # one for each threshold
    front = re.findall(r"(\d+\.\d), (\d+)", shown.splitlines()[-1].split("|")[3])
    assert len(front) == 6
    assert front == sorted(front, key=lambda point: int(point[1]))
    assert front == sorted(front, key=lambda point: -float(point[0]))


@pytest.mark.needs("pydantic")
def test_the_promise_of_first_tries_lists_broken_variants_first_and_says_by_how_much():
    from studies.tables.first_tries import BASE, TRIES, Task, checks, counts_line, promise_table
    from studies.tables.variants import Variant

    def figures(bsld, wait):
        return Figures(bsld, bsld, wait, wait, wait, wait, waste=0.001, kills=50)

    replays = {  # FCFS's and first tries' slowdowns and waits with two seeds
        "overloaded": [((50, 30_000), (90, 90_000))] * 2,
        "kept": [((10, 100), (5, 90)), ((20, 200), (14, 200))],
        "quiet": [((1, 0), (1, 0))] * 2,
        "slower": [((1, 0), (1, 20)), ((1, 0), (1, 30))],
        "worse": [((10, 100), (9, 90)), ((20, 200), (18, 180))],
    }
    tasks = [Task(Variant("log", Path("log.swf"), change=name), seed, {}) for name in replays for seed in (0, 1)]
    pairs = [pair for each in replays.values() for pair in each]
    found = checks(tasks, [(30_000, {BASE: figures(*base), TRIES: figures(*tries)}) for base, tries in pairs])
    said = "The promise holds on 2 of 4 variants that it covers (2 busy, 0 short, 2 quiet)"
    assert counts_line(found).startswith(said)
    rows = cells_of(promise_table(found).splitlines()[2:], 2, -1)
    assert [(name, verdict) for name, verdict, *_ in rows] == [
        ("whole, worse", "**fails**: mean bsld, tau 60 0.900 > 0.85"),
        ("whole, slower", "**fails**: mean wait 25.0 s longer"),
        ("whole, kept", "kept: busy"),
        ("whole, quiet", "kept: quiet, mean wait +0.0 s"),
        ("whole, overloaded", "not covered: overloaded"),
    ]
    assert rows[2][2:5] == ["15.0, 0.04 h", "0.60 (0.50-0.70)", "0.60 (0.50-0.70)"]
    assert rows[2][-2:] == ["0.10 (0.10-0.10)", "50"]


@pytest.mark.needs("pydantic")
def test_the_promise_of_first_tries_is_checked_at_a_load_on_whole_logs_alone(tmp_path, capsys, monkeypatch):
    from studies.tables import first_tries

    monkeypatch.setattr(first_tries, "replay_all", lambda replayed, tasks, _: list(map(replayed, tasks)))
    log = log_of(tmp_path / "log.swf", (swf_row(j, 60 * j, 100, req_procs=2, req_time=200) for j in range(1, 9)))
    first_tries.main([log, "--load", "1.1", "--seeds", "1"])
    lines = capsys.readouterr().out.splitlines()
    rows = cells_of([line for line in lines if line.startswith("| log ")], 1, 3)
    assert rows == [["log", "variant"], ["log", "whole, load x 1.1"]]
    with pytest.raises(SystemExit, match="2"):
        first_tries.main([log, "--csv", str(tmp_path / "nowhere" / "replays.csv")])
    assert "nowhere does not exist" in capsys.readouterr().err


@pytest.mark.needs("matplotlib")
def test_the_figures_of_first_tries_show_every_try_and_the_mean_of_the_replays(sample):
    from studies.tables.first_tries_figures import RUSH_LASTS_S, THRESHOLDS_H, front_figure, rush_figure

    log = batfill.read(sample)
    rush, n_jobs = rush_figure(log, 0)
    assert n_jobs == (log.jobs.submit_s < RUSH_LASTS_S).sum() > 0
    fcfs, tries, queue = rush.axes
    names = ["runs for longer than two minutes", "a try that is killed", "runs for at most two minutes"]
    assert [patch.get_label() for patch in tries.patches] == names
    assert [patch.get_label() for patch in fcfs.patches] == [names[0], names[2]]
    for line in queue.lines:
        assert 0 == line.get_ydata()[-1] == line.get_ydata().min() < line.get_ydata().max() < n_jobs
    front = front_figure({"sample": log, "again": log})
    means = {line.get_label(): line.get_xydata() for line in front.axes[0].lines}
    assert len(means["SAF with a threshold"]) == len(THRESHOLDS_H)
    tried = Options.of({"preset": "first-tries"})
    replays = [simulate(moved(log.jobs, seed), log, tried)[0].summary(60.0) for seed in SEEDS]
    expected = [sum(one.max_wait_s for one in replays) / 3600 / 5, sum(one.mean_bsld for one in replays) / 5]
    assert means["first tries"][0] == pytest.approx(expected)


@pytest.mark.needs("pydantic")
def test_first_tries_are_compared_with_the_best_saf_that_has_no_longer_a_longest_wait():
    from studies.tables.first_tries import GUARDED, SAF, TRIES, best_as_long

    def check(bsld, longest):
        figures = np.array([Figures(bsld, bsld, 1, 1, 1, longest, 0, 0)], float)
        return Check(figures, figures, 1)

    starving = {name: check(1, 500) for name in GUARDED}
    short, fair, late = list(GUARDED)[:3]
    each = {**starving, SAF: check(9, 90), TRIES: check(5, 100), short: check(8, 50)}
    assert best_as_long(each) == short
    assert best_as_long({**each, fair: check(7, 102), late: check(6, 103)}) == fair
    assert best_as_long({**starving, SAF: check(9, 300), TRIES: check(5, 100)}) == SAF


USUAL = Figures(bsld=10.0, bsld_10=20.0, wait=3600.0, large=7200.0, p999=1e5, longest=2e5, waste=0.0, kills=0)


SLOWER = "mean bsld, tau 60 0.860 > 0.85"


@pytest.mark.parametrize(
    ("base", "tries", "jobs", "kind", "broken"),
    [
        ({}, {"bsld": 8.4, "wait": 3600.0}, 20_000, "busy", []),
        ({}, {"bsld": 8.6, "longest": 2.7e5}, 20_000, "busy", [SLOWER, "longest wait 1.350 > 1.25"]),
        ({}, {"bsld": 7, "waste": 0.02}, 20_000, "busy", ["processor time wasted 0.020 > 0.01"]),
        ({"wait": 0.0, "bsld": 5.0}, {"wait": 0.0, "bsld": 1.0}, 20_000, "busy", []),
        ({}, {"bsld": 8.6, "longest": 2.7e5}, 19_999, "short", [SLOWER]),
        ({"bsld": 3.0}, {"bsld": 9.0, "wait": 3610.0}, 20_000, "quiet", []),
        ({"bsld": 3.0}, {"wait": 3610.5}, 20, "quiet", ["mean wait 10.5 s longer"]),
        ({"wait": 28_800.0}, {"wait": 99_999.0, "bsld": 99.0}, 20_000, "overloaded", []),
    ],
)
def test_the_promise_is_of_means_over_the_seeds(base, tries, jobs, kind, broken):
    made = Check(*(np.array([USUAL._replace(**one)] * 3, float) for one in (tries, base)), jobs)
    assert (made.kind, list(made.broken.values())) == (kind, broken)
