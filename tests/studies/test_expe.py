"""The experiments that come with the project: they read, they name what is there, and the samples run."""

from __future__ import annotations

import hashlib
import json
import os
import re
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
from batfill.runner.descriptor import read_descriptor
from batfill.workloads.archive import known_log
from command import batfill as here
from command import free_port
from studies.tables.promise import Check, Figures
from sweeps import LATER

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
@pytest.mark.parametrize(
    "path", [LATER(path) if "fcfs" in path.stem else path for path in SAMPLES], ids=lambda p: p.stem
)
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
    """The experiment as a parameter of a test; `make test` runs one a log, and `make test-slow` the others."""
    marks = [pytest.mark.needs("sklearn")] if "--small forest" in read_descriptor(path).descriptor.schedcmd else []
    later = [] if path.stem in ("kth_spf_small_first", "sdsc_spf_threshold") else [pytest.mark.slow]
    return pytest.param(path, id=path.stem, marks=marks + later)


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
    says = f"batfill: expe/sdsc_saf.yaml: {workload} is missing; make it: {makes}"
    *ports, line = done.stderr.splitlines()  # a note if another run has the usual port
    assert (done.returncode, done.stdout, line) == (2, "", says)
    assert all("port" in note for note in ports)
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
