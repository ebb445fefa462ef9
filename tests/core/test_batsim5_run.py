"""`batfill run` with descriptors written for Batsim 5."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import pytest

from batfill.batsim_files.results import JOB_COLUMNS
from command import batfill, free_port, refusal
from small_runs import job

# Batsim 5 as far as a run can see: the embedded one, which is given what it can do, behind a command line that takes
# all of Batsim 5's options; `-l` simulates each job alone. The command line is kept in the file `given`.
BATSIM_5 = """#!{python} -P
import json, os, sys
given = sys.argv[1:]
dump = "--dump-execution-context" in given
if "-p" in given and not dump:
    open(os.path.join(os.path.dirname(__file__), "given"), "w").write(json.dumps(given))
if "-l" in given:
    prefix = given[given.index("-e") + 1]
    if dump:
        sys.exit(print(json.dumps({{"socket_endpoint": "", "export_prefix": prefix}})))
    os.makedirs(os.path.dirname(prefix), exist_ok=True)
    with open(prefix + "jobs.csv", "w") as out:
        print({columns!r}, file=out)
        for job in json.load(open(given[given.index("-w") + 1]))["jobs"]:
            print(f"{{job['id']}},w0,w0!p,0,{{job['res']}},9,1,COMPLETED_SUCCESSFULLY,0,5,5,0,5,1,0,-1,", file=out)
    sys.exit()
WITH_VALUES = {{"-E": 0, "--energy-host": 0, "--energy-link": 0, "--trace-pstate-changes": 0, "--sg-cfg": 1,
               "--sg-log": 1, "--trace-probe-data": 1, "-c": 1}}
words = iter(given)
known = [word for word in words if word not in WITH_VALUES or [next(words) for _ in range(WITH_VALUES[word])] and False]
os.execv(sys.executable, [sys.executable, "-P", "-m", "batfill", "batsim", "--protocol", "5", *known])
"""
SAYS_5 = """#!/bin/sh
echo '{"socket_endpoint": "tcp://localhost:1", "export_prefix": "out"}'
"""
BATSIM_4 = """#!/bin/sh
[ "$1" = --version ] && echo 4.2.0 || {{ echo "Usage: batsim -p <file>" >&2; exit 1; }}
"""


@pytest.fixture
def batsim5(tmp_path, monkeypatch):
    """A folder with a `batsim` of version 5, first on PATH: the embedded one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "batsim"
    program.write_text(BATSIM_5.format(python=sys.executable, columns=JOB_COLUMNS))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.delenv("BATSIM", raising=False)
    return program


def study(folder, n_jobs=60, batsim_options="", scheduler_options="--policy saf", form=4):
    """A descriptor with its workload and platform in the folder, in the form of this version of Batsim."""
    jobs = []
    for k in range(n_jobs):
        fields = {"walltime": 600 if k % 3 else -1, "class": "small" if k % 2 else "large", "user_id": k % 3}
        jobs.append(job(f"{k:03}", 7 * k, 1 + k % 4, f"d{k % 5}", **fields))
    profiles = {f"d{k}": {"type": "delay", "delay": 20 + 35 * k} for k in range(5)}
    (folder / "w.json").write_text(json.dumps({"nb_res": 6, "jobs": jobs, "profiles": profiles}))
    batfill("platform", "6", "--out", folder / "p.xml")
    port = free_port()
    path = folder / "study.yaml"
    files = f"-w {folder}/w.json -e {folder}/run/out -s tcp://localhost:{port}"
    if form == 5:
        batfill("workload", "convert", folder / "w.json", "--format", "batsim5", "--out", folder / "w5.json")
        files = f"-w {folder}/w5.json -e {folder}/run/out/ -s tcp://localhost:{port} ''"
    path.write_text(
        f"batcmd: ${{BATSIM:-batsim}} -p {folder}/p.xml {files} -v quiet {batsim_options}\n"
        f"output-dir: {folder}/run\nschedcmd: batfill schedule {scheduler_options} -s tcp://127.0.0.1:{port}\n"
        "simulation-timeout: 60\nready-timeout: 5\nsuccess-timeout: 5\nfailure-timeout: 5\n"
    )
    return path


def tries(folder, jobs_csv="run/out_jobs.csv"):
    """(job, start, end, state, machines) of every try."""
    with (folder / jobs_csv).open(newline="") as file:
        rows = list(csv.DictReader(file))
    fields = "job_id", "starting_time", "finish_time", "final_state", "allocated_resources"
    return sorted(tuple(row[name] for name in fields) for row in rows)


KILLS = "--enable-dynamic-jobs --enable-profile-reuse"


def test_a_study_in_version_5s_form_runs_under_batsim_5_and_under_the_embedded_one(batsim5, tmp_path):
    kills = "--policy saf --small class --divider 40 --kill always"
    traces = "--trace-machine-state --energy-host --trace-probe-data never"
    path = study(tmp_path, form=5, batsim_options=traces, scheduler_options=kills)
    under_5 = []
    for simulator, words in (("auto", ["--json"]), ("embedded", [])):  # each run replaces the one before
        done = batfill("run", path, *words, "--simulator", simulator)
        assert done.status == 0, done.err
        assert (tmp_path / "run/out/report.html").exists() == (not words)
        assert (done.err == "") == bool(words)
        record = json.loads((tmp_path / "run/run.json").read_text())
        assert record["batsim_version"].startswith("v5.")
        assert record["workloads"] == [f"{tmp_path}/w5.json"]
        assert record["jobs_csv"] == f"{tmp_path}/run/out/jobs.csv"
        assert (tmp_path / "run/out/machine_states.csv").exists()
        under_5.append(tries(tmp_path, "run/out/jobs.csv"))
    path = study(tmp_path, batsim_options=KILLS, scheduler_options=kills)
    assert batfill("run", path, "--simulator", "embedded").status == 0
    assert not (tmp_path / "run/out/jobs.csv").exists()
    assert under_5 == [tries(tmp_path)] * 2


def test_options_of_batsim_5_reach_it_as_they_are(batsim5, tmp_path):
    (tmp_path / "e").write_text('{"type": "generic", "timestamp": 5, "data": "{}"}\n')
    options = (
        "-E --energy-link --sg-cfg host/model:default --sg-log root.thresh:info --trace-pstate-changes "
        f"--trace-probe-data auto -c x.toml --external-events {tmp_path}/e -w {tmp_path}/w5b.json -r node0 storage "
        "-r node1 storage"
    )
    path = study(tmp_path, form=5, n_jobs=4, batsim_options=options)
    (tmp_path / "w5b.json").write_text((tmp_path / "w5.json").read_text())
    done = batfill("run", path, "--json")
    assert done.status == 0, done.err
    given = json.loads((batsim5.parent / "given").read_text())
    assert given[-len(options.split()) :] == options.split()
    assert json.loads(done.out)["jobs"] == 8


def test_a_component_in_a_library_needs_no_scheduler_and_takes_none(batsim5, tmp_path):
    path = study(tmp_path, form=5, n_jobs=3)
    text = re.sub(r"-s \S+ ''", "-l /lib/easy.so ''", path.read_text())
    path.write_text(text)
    done = batfill("run", path)
    assert done.status == 2
    assert "drop -l or -L" in done.err
    path.write_text(re.sub("schedcmd: .*", 'schedcmd: ""', text))
    done = batfill("run", path, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["jobs"] == 3
    assert batfill("run", path, "--simulator", "embedded").status == 1


@pytest.mark.parametrize("form", [4, 5])
def test_a_batcmd_of_the_other_version_is_refused_with_what_to_do(batsim5, tmp_path, form):
    path = study(tmp_path, form=form, n_jobs=3)
    if form == 5:
        batsim5.write_text(BATSIM_4.format())
        done = batfill("run", path)
        assert done.status == 1
        assert "its options are Batsim 5's: put Batsim 5 first on PATH or name it in BATSIM" in done.err
    else:
        batsim5.write_text(SAYS_5)
        assert "batcmd has the options of Batsim 4 and starts Batsim 5; write its options as" in refusal("run", path)


def test_pybatsim_is_refused_under_batsim_5_before_anything_starts(batsim5, tmp_path):
    pytest.importorskip("batsim", reason="needs the extra pybatsim")
    path = study(tmp_path, form=5, n_jobs=3)
    path.write_text(re.sub("schedcmd: .*(-s .*)", r"schedcmd: pybatsim batfill/scheduler \1 -t 0", path.read_text()))
    line = refusal("run", path)
    assert "schedcmd starts pybatsim 3, which speaks to Batsim 4 only" in line
    assert "batfill schedule" in line
    assert (tmp_path / "run/log/sched.err.log").read_text() == ""
