"""`batfill run` with descriptors written for Batsim 5."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from batfill.batsim_files.results import JOB_COLUMNS
from command import batfill, free_port
from small_runs import job

# Batsim 5 as far as a run with `-l` can see: it simulates each job alone, and keeps its command line in `given`.
BATSIM_5 = """#!{python} -P
import json, os, sys
given = sys.argv[1:]
prefix = given[given.index("-e") + 1]
if "--dump-execution-context" in given:
    sys.exit(print(json.dumps({{"socket_endpoint": "tcp://localhost:1", "export_prefix": prefix}})))
open(os.path.join(os.path.dirname(__file__), "given"), "w").write(json.dumps(given))
os.makedirs(os.path.dirname(prefix), exist_ok=True)
with open(prefix + "jobs.csv", "w") as out:
    print({columns!r}, file=out)
    for k in range(given.count("-w")):
        for job in json.load(open(given[given.index("-w") + 1]))["jobs"]:
            print(f"{{job['id']}},w{{k}},w0!p,0,{{job['res']}},9,1,COMPLETED_SUCCESSFULLY,0,5,5,0,5,1,0,-1,", file=out)
"""


@pytest.fixture
def batsim5(tmp_path, monkeypatch):
    """A folder with a `batsim` of version 5, first on PATH."""
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


def test_options_of_batsim_5_reach_it_as_they_are(batsim5, tmp_path):
    (tmp_path / "e").write_text('{"type": "generic", "timestamp": 5, "data": "{}"}\n')
    options = (
        "-E --energy-link --sg-cfg host/model:default --sg-log root.thresh:info --trace-pstate-changes "
        f"--trace-probe-data auto -c x.toml --external-events {tmp_path}/e -w {tmp_path}/w5b.json -r node0 storage "
        "-r node1 storage"
    )
    path = study(tmp_path, form=5, n_jobs=4, batsim_options=options)
    path.write_text(
        re.sub("schedcmd: .*", 'schedcmd: ""', re.sub(r"-s \S+ ''", "-l /lib/easy.so ''", path.read_text()))
    )
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
    assert "runs without a scheduler and schedcmd starts one" in done.err
    path.write_text(re.sub("schedcmd: .*", 'schedcmd: ""', text))
    done = batfill("run", path, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["jobs"] == 3
