"""Other people's Batsim studies: the commands that the page gives for their schedulers start the same jobs."""

from __future__ import annotations

import csv
import gzip
import re
import shlex
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
from command import batfill

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
