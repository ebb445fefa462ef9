"""One descriptor under both versions of Batsim: what `batfill run` translates, and that the schedules are the same."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from batfill.batsim.options import ArgumentsError, parse_arguments
from batfill.batsim.runner.batsim5 import NUMBERING, major_version, rewritten_events, translated
from batfill.errors import WorkloadError
from command import batfill, free_port

BATSIM_5 = '#!/bin/sh\nexec {python} -P -m batfill batsim --protocol 5 "$@"\n'


@pytest.fixture
def batsim5(tmp_path, monkeypatch):
    """A folder with a `batsim` of version 5, first on PATH: the embedded one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "batsim"
    program.write_text(BATSIM_5.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.delenv("BATSIM", raising=False)
    return program


def study(folder, n_jobs=60, batsim_options="", scheduler_options="--policy saf"):
    """A descriptor with its workload and platform in the folder."""
    jobs = [
        {
            "id": f"{k:03}",
            "subtime": 7 * k,
            "res": 1 + k % 4,
            "profile": f"d{k % 5}",
            "walltime": 600 if k % 3 else -1,
            "class": "small" if k % 2 else "large",
            "user_id": k % 3,
        }
        for k in range(n_jobs)
    ]
    profiles = {f"d{k}": {"type": "delay", "delay": 20 + 35 * k} for k in range(5)}
    (folder / "w.json").write_text(json.dumps({"nb_res": 6, "jobs": jobs, "profiles": profiles}))
    batfill("platform", "6", "--out", folder / "p.xml")
    port = free_port()
    path = folder / "study.yaml"
    path.write_text(
        f"batcmd: ${{BATSIM:-batsim}} -p {folder}/p.xml -w {folder}/w.json -e {folder}/run/out "
        f"-s tcp://localhost:{port} -v quiet {batsim_options}\n"
        f"output-dir: {folder}/run\nschedcmd: batfill schedule {scheduler_options} -s tcp://127.0.0.1:{port}\n"
        "simulation-timeout: 60\nready-timeout: 5\nsuccess-timeout: 5\nfailure-timeout: 5\n"
    )
    return path


def tries(folder):
    """(job, start, end, state, machines) of every try."""
    with (folder / "run" / "out_jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    fields = "job_id", "starting_time", "finish_time", "final_state", "allocated_resources"
    return sorted(tuple(row[name] for name in fields) for row in rows)


KILLS = "--enable-dynamic-jobs --enable-profile-reuse"


@pytest.mark.parametrize(
    ("batsim_options", "scheduler_options"),
    [
        ("", "--policy saf --threshold 300"),
        (KILLS, "--policy fcfs --divider 40"),
        (f"{KILLS} --acknowledge-dynamic-jobs", "--policy saf --divider 40 --kill-if needed"),
    ],
)
def test_a_study_runs_unchanged_under_both_versions(batsim5, tmp_path, batsim_options, scheduler_options):
    path = study(tmp_path, batsim_options=batsim_options, scheduler_options=scheduler_options)
    done = batfill("run", path, "--json")
    assert done.status == 0, done.err
    assert f"batfill: {NUMBERING}\n" in done.err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["simulator"] == "batsim"
    assert record["batsim_version"].startswith("v5.")
    assert f"-w {tmp_path}/run/w0.batsim5.json" in record["simulator_command"]
    assert "enable-dynamic-jobs" not in record["simulator_command"]
    under_5, figures_5 = tries(tmp_path), json.loads(done.out)
    done = batfill("run", path, "--json", "--simulator", "embedded")
    assert done.status == 0, done.err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["batsim_version"].startswith("4.2")
    assert under_5 == tries(tmp_path)
    figures = json.loads(done.out)
    assert {name: figures_5[name] for name in ("mean_wait_s", "mean_bsld")} == {
        name: figures[name] for name in ("mean_wait_s", "mean_bsld")
    }
    assert len({job.partition("#")[0] for job, *_ in under_5}) == 60
    assert any("#1" in job for job, *_ in under_5) == ("--divider" in scheduler_options)


def test_the_callers_own_command_for_batsim_5_is_used(batsim5, tmp_path, monkeypatch):
    monkeypatch.setenv("BATSIM", f"{sys.executable} -P -m batfill batsim --protocol 5")
    path = study(tmp_path, n_jobs=5)
    done = batfill("run", path)
    assert done.status == 0, done.err
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["simulator"], record["batsim_version"][:2]) == ("environment", "v5")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--no-sched", "runs without a scheduler"),
        ("--enable-compute-sharing", "Batsim 5 ignores them"),
    ],
)
def test_what_batsim_5_does_not_do_ends_the_run_in_one_line(batsim5, tmp_path, option, said):
    done = batfill("run", study(tmp_path, n_jobs=5, batsim_options=option))
    assert done.status in (1, 2)
    assert said in done.err.splitlines()[-1]


def test_a_missing_workload_is_named_with_the_command_that_makes_it(batsim5, tmp_path):
    path = study(tmp_path, n_jobs=5)
    (tmp_path / "w.json").unlink()
    done = batfill("run", path)
    assert done.status == 2
    assert f"workload {tmp_path}/w.json is missing" in done.err


def options_of(*words):
    return parse_arguments(["-p", "p.xml", "-e", "x/out", "-s", "tcp://h:1", *words])


def test_every_option_of_version_4_has_its_place_in_version_5(tmp_path):
    words, notes = translated(
        options_of(
            *("-m", "boss", "-r", "a,b:storage", "--mmax", "3", "--mmax-workload", "--sched-cfg", "{}", "-v", "debug"),
            *("--enable-dynamic-jobs", "--acknowledge-dynamic-jobs"),
        ),
        tmp_path,
    )
    assert " ".join(words) == (
        "-p p.xml -e x/out_ -s tcp://h:1 {} -m boss -r a storage -r b storage --mmax 3 --mmax-workload "
        "--trace-machine-state -v debug"
    )
    assert any("--enable-dynamic-jobs, --acknowledge-dynamic-jobs: under Batsim 5" in note for note in notes)
    words, _ = translated(options_of("--disable-machine-state-tracing", "-q"), tmp_path)
    assert words == ["-p", "p.xml", "-e", "x/out_", "-s", "tcp://h:1", "", "-v", "quiet"]


def test_options_without_a_counterpart_are_refused(tmp_path):
    for option in ("--no-sched", "--enable-compute-sharing", "--disable-storage-sharing"):
        with pytest.raises(ArgumentsError, match=option):
            translated(options_of(option), tmp_path)


def test_external_events_become_generic_ones_with_the_same_text(tmp_path):
    (tmp_path / "e").write_text('{"type": "machine_unavailable", "resources": "0-1", "timestamp": 5}\n\n')
    notes = []
    written = rewritten_events(tmp_path / "e", tmp_path / "new", notes)
    event = json.loads(written.read_text())
    assert (event["type"], event["timestamp"]) == ("generic", 5)
    assert json.loads(event["data"]) == {"type": "machine_unavailable", "resources": "0-1"}
    assert rewritten_events(written, tmp_path / "again", notes) == written
    (tmp_path / "bad").write_text("[]\n")
    with pytest.raises(WorkloadError, match="bad: line 1: no event"):
        rewritten_events(tmp_path / "bad", tmp_path / "new", notes)


def test_a_version_is_read_from_what_the_program_says(tmp_path):
    for text, version in (("v5.0.0-rc2", 5), ("4.2.0", 4), ("batsim", None)):
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\necho {text}\n")
        program.chmod(0o755)
        assert major_version([str(program)], {}) == version
    assert major_version([str(tmp_path / "none")], {}) is None
