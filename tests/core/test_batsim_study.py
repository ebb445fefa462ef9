"""Other people's Batsim studies: the commands that the page gives for their schedulers start the same jobs."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import batfill as bf
from batfill.batsim_files.platform import read_platform
from batfill.cli.batsched import COUNTERPARTS, counterpart
from batfill.live.agent import Agent
from batfill.live.conversation import Conversation4
from batfill.simulator.command_line import REFUSED, ArgumentsError, parse_arguments
from batfill.simulator.simulation import Simulation
from batfill.simulator.wire import SimulationSettings
from batfill.workloads.batsim_json import load_document
from command import batfill, free_port

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SAMPLE = ROOT / "workloads" / "sample.json"
PAGE = (ROOT / "docs" / "how-to" / "batsim-study.md").read_text()
ROW = r"^\| `(batsched -v \w+)` \| `(batfill schedule .+)` \| (\d+) \| (\d+) \| (the same|not promised) \|$"
TABLE = re.findall(ROW, PAGE, re.MULTILINE)
COMMANDS = {today: command for today, command, *_ in TABLE}


# The page's table, against recordings of batsched under the real Batsim


def recorded(workload):
    with gzip.open(DATA / "foreign" / f"{workload}.csv.gz", "rt") as file:
        return {row["job"]: row for row in csv.DictReader(file)}


def ended_under(command, document):
    """What became of each job under this `batfill schedule` in the embedded simulator."""
    words = shlex.split(command)[2:]
    options = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    ended = []
    Simulation(
        read_platform(ROOT / "platforms" / f"{'kth-sp2' if document.nb_res == 100 else 'sample'}.xml"),
        {"w0": document},
        Conversation4(Agent(options)).answer,
        settings=SimulationSettings(),
        on_job_end=ended.append,
    ).run()
    return {record.job_id: record for record in ended}


def starts_that_differ(today, command, workload, document):
    program, theirs, ours = today.split()[-1], recorded(workload), ended_under(command, document)
    assert ours.keys() == theirs.keys()
    return sum(ours[job].starting_time != float(theirs[job][program]) for job in theirs)


def test_the_page_names_the_options_that_stand_for_batscheds_schedulers():
    written = {
        f"batsched -v {name}": " ".join(
            ["batfill schedule", *(f"--{option} {value}" for option, value in given.items())]
        )
        for name, given in COUNTERPARTS.items()
    }
    assert written == COMMANDS


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, {"depth": 0}),
        ({"variant": "conservative_bf", "delay_s": 0}, {"preset": "conservative_bf", "plan": "kept:0"}),
        ({"variant": "conservative_bf", "order": "desc_size"}, {"preset": "conservative_bf", "policy": "lqf"}),
        ({"variant": "easy_bf", "delay_s": 60}, {"reservation": "machines", "unlimited": "reject"}),
    ],
)
def test_batscheds_options_are_those_of_the_counterpart(given, options):
    assert counterpart(**given) == options
    Agent(options)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("-v energy_bf", "variant energy_bf: needs power states, or queries for energy, which .*"),
        ("-v killer2", "variant killer2: tests Batsim, and schedules no study; .*"),
        ("-v easy_fast", "variant easy_fast: batsched 1.4.0 has no such scheduler; did you mean 'easy_bf_fast'[?]"),
        ("-v easy_bf -o lcfs", "queue_order lcfs: easy_bf in this order was not compared with batsched; leave it out"),
        ("-v conservative_bf -o desc_slowdown", "queue_order desc_slowdown: conservative_bf in this order .*"),
        ("-v easy_bf -p contiguous", "policy contiguous: batfill gives a job the lowest machines; .*"),
        ("--variant_options '{\"fraction\": 0.5}'", "variant_options .*: filler has a counterpart with .*"),
        ("--variant_options 7", "variant_options 7: filler has a counterpart .*"),
        ("--variant_options_filepath none.json", "none.json: .*"),
        ("--variants easy_bf", "--variants: no such option; did you mean '--variant'[?].*"),
    ],
)
def test_what_has_no_counterpart_is_refused_in_one_line(arguments, reason):
    done = batfill("batsched", *shlex.split(arguments))
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(f"batfill: {reason}\n", done.err), done.err


def test_a_link_called_batsched_is_that_command(tmp_path):
    link = tmp_path / "batsched"
    link.symlink_to(Path(sys.executable).with_name("batfill"))
    said = subprocess.run([link, "--version"], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout == f"1.4.0 (batfill {bf.__version__})\n"


@pytest.mark.parametrize(("today", "command", "differ", "on_kth", "machines"), TABLE)
def test_the_command_starts_the_sample_as_batsched_did(today, command, differ, on_kth, machines):
    document = load_document(SAMPLE)
    assert starts_that_differ(today, command, "sample", document) == int(differ)
    if machines == "the same":
        ours, program = ended_under(command, document), today.split()[-1]
        assert {job: str(ours[job].allocated_resources) for job in ours} == {
            job: row[f"{program} machines"] for job, row in recorded("sample").items()
        }


@pytest.mark.slow
def test_the_commands_start_5000_jobs_of_kth_sp2_as_the_table_says(archive_log, tmp_path):
    log, made = archive_log("KTH-SP2-1996-2.1-cln.swf.gz"), tmp_path / "kth.json"
    assert batfill("workload", "convert", log, "--overrun", "kill", "--jobs", "0:5000", "--out", made).status == 0
    document = load_document(made)
    found = {today: starts_that_differ(today, command, "kth", document) for today, command, *_ in TABLE}
    assert found == {today: int(on_kth) for today, _, _, on_kth, _ in TABLE}


# The command lines of studies


@pytest.mark.parametrize(
    "line",
    [
        "-p p.xml -w w.json -e out/easy --mmax-workload -q",
        "-pp.xml -ww.json -eout/ -vquiet -stcp://localhost:28001 --mmax=16 -m master_host",
        "--platform=p.xml --workload=w.json --export=out/ --socket-endpoint=tcp://localhost:28001 --verbosity=quiet",
        "-p p.xml -w a.json -w b.json --disable-schedule-tracing --disable-machine-state-tracing -v network-only",
        "-p p.xml -w w.json --enable-dynamic-jobs --acknowledge-dynamic-jobs --enable-profile-reuse --events e.txt",
        "-p p.xml -w w.json --forward-profiles-on-submission --enable-compute-sharing --sched-cfg-file s -r a:storage",
    ],
)
def test_a_command_line_for_batsim_is_taken_as_it_is(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").touch()
    assert parse_arguments(shlex.split(line)).remarks == ()


@pytest.mark.parametrize(("form", "why"), REFUSED.items())
def test_an_option_that_needs_batsim_or_is_gone_is_refused_by_name(form, why):
    for name in (word for word in form.split() if word.startswith("-")):
        with pytest.raises(ArgumentsError, match=rf"^{name}: {re.escape(why)}$"):
            parse_arguments(["-p", "p.xml", "-w", "w.json", name, *["x"] * form.count(" X")])


# A whole study, in which the schedulers' lines are changed


def python(script, folder):
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def swapped(folder):
    """The table, (scheduler, workload) to figures, of the study in this folder with the page's commands in it."""
    shutil.copytree(DATA / "study", folder)
    (folder / "workloads").mkdir()
    shutil.copy(SAMPLE, folder / "workloads")
    script, port = folder / "prepare.py", free_port()
    text = script.read_text()
    for today, command in COMMANDS.items():
        text = text.replace(f'"{today}"', f'"{command} -s tcp://127.0.0.1:{port}"')  # a port of the test's own
    assert "batsched" not in text
    script.write_text(text.replace("batcmd: batsim ", f"batcmd: batsim -s tcp://localhost:{port} "))
    python("prepare.py", folder)
    robin = folder / "bin" / "robin"
    robin.parent.mkdir()
    robin.write_text(f'#!/bin/sh\nexec {sys.executable} -m batfill run --simulator embedded --json "$@"\n')
    robin.chmod(0o755)
    environment = {**os.environ, "PATH": f"{robin.parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "run.sh"], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    rows = csv.DictReader(io.StringIO(python("aggregate.py", folder)))
    return {(row.pop("scheduler"), row.pop("workload")): row for row in rows}


def test_a_study_gives_batscheds_figures_once_its_schedulers_lines_are_changed(tmp_path):
    folder = tmp_path / "theirs"
    table = swapped(folder)
    assert len(table) == 6

    document = json.loads(SAMPLE.read_text())
    for scheduler, program in (("easy", "easy_bf"), ("fcfs", "fcfs_fast"), ("filler", "filler")):
        starts = {job: float(row[program]) for job, row in recorded("sample").items()}
        waits = [starts[job["id"]] - job["subtime"] for job in document["jobs"]]
        ends = [starts[job["id"]] + document["profiles"][job["profile"]]["delay"] for job in document["jobs"]]
        assert_figures(table[scheduler, "sample"], sum(waits) / len(waits), max(ends))

    log = str(folder / "workloads" / "seed1.json")  # not recorded: against the replay
    for scheduler, options in (("fcfs", {"tested": 1}), ("filler", {"depth": 0})):
        figures = bf.replay(log, "fcfs", **options).figures
        assert_figures(table[scheduler, "seed1"], figures.mean_wait_s, figures.makespan_s)
    assert float(table["easy", "seed1"]["mean_waiting_time"]) < float(table["fcfs", "seed1"]["mean_waiting_time"])


def assert_figures(row, mean_wait_s, makespan_s):
    found = float(row["mean_waiting_time"]), float(row["makespan"])
    assert found == (pytest.approx(mean_wait_s, abs=1e-6), pytest.approx(makespan_s, abs=1e-6))
