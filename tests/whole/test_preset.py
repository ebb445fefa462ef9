"""Settings that go by a name: what they stand for, what wins over them, and that every host plays them alike."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from dataclasses import replace

import click
import numpy as np
import pytest

import batfill as bf
from batfill.cli.app import app
from batfill.live.agent import Agent
from batfill.model.jobs import SMALL
from batfill.model.option_texts import described
from batfill.model.options import NO_PRESET, OPTIONS, PRESETS, Options
from batfill.replays.replay import simulate
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import load_document
from batfill.workloads.convert import convert
from batfill.workloads.formats import log_of, save_log
from command import batfill, json_result, refusal
from oracle import assert_same, oracle
from plugin import assert_same_starts, starts_of_plugin
from small_runs import starts_by_name
from strategies import random_table

SAMPLE = "workloads/sample.json"
WHOLE = {"policy": "aged:20000,0.1,0", "threshold": 50_000, "overdue": "half"}
WHOLE |= {"small": "all", "divider": 120, "small-width": "1/8", "kill": "needed", "stand-back": 32}
FIRST_TRIES = Options.of({"preset": "first-tries"})


def rush(seed, *, n_jobs=160, size=24, kept=False):
    """Jobs of hours on a machine with little room: many wait for longer than the threshold, short ones among them.

    With `kept` every job has a request, which it keeps.
    """
    jobs = random_table(
        seed, n_jobs=n_jobs, size=size, span_s=2 * n_jobs, longest=60, wide=0.01, unlimited=0 if kept else 0.02
    )
    rng = np.random.default_rng(seed)
    unit_s = np.where(rng.random(n_jobs) < 0.5, 7.0, 600.0)
    procs = np.where(rng.random(n_jobs) < 0.6, np.minimum(jobs.procs, 3), jobs.procs)
    runtime_s, walltime_s = jobs.runtime_s * unit_s, np.maximum(jobs.walltime_s * unit_s, 60.0)
    walltime_s = np.maximum(walltime_s, runtime_s) if kept else walltime_s
    times = {"submit_s": jobs.submit_s * 60, "runtime_s": runtime_s, "walltime_s": walltime_s}
    return replace(jobs, **times, procs=procs, request_s=walltime_s, asked=np.isfinite(walltime_s))


def fitting_rush(seed, **options):
    """Those of such jobs that the machine has room for."""
    jobs = rush(seed, **options)
    return jobs.select(jobs.procs <= 24)


def saved_rush(folder, *, seed, n_jobs):
    jobs, path = fitting_rush(seed, n_jobs=n_jobs, kept=True), folder / "rush.swf"
    save_log(log_of(jobs.stating(name="rush", size=24)), path, procs=24)
    return path


def expected(jobs, size):
    """What the oracle makes of them under the rule as semantics.md has it."""
    tried = replace(jobs, job_class=np.full(len(jobs), SMALL, np.int8))
    rule = {"threshold_s": 50_000.0, "half": True, "divider_s": 120.0, "spares": True, "bound": True}
    rule["stand_back"] = 32.0
    return oracle(tried, size, "aged:20000,0.1,0", widest_try=size // 8, **rule)


def test_a_preset_is_its_options():
    named, spelled = FIRST_TRIES, Options.of(WHOLE)
    assert replace(named, preset=NO_PRESET) == spelled
    assert named.as_dict() == {**spelled.as_dict(), "preset": "first-tries"}
    assert named.as_text() == f"preset first-tries, {spelled.as_text()}"
    assert described(named.as_dict()) == "first-tries"


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"threshold": "20h"}, {"threshold": 72_000.0}),
        (
            {"policy": "saf", "small-width": 0.5, "kill": "never"},
            {"small-width": 0.5, "kill": "never", "stand-back": None},
        ),
        ({"threshold": "none"}, {"threshold": None, "overdue": None}),
        ({"small": "none"}, {"small": "none", "divider": None, "kill": None, "stand-back": None}),
        ({"small": "none", "predict": "easy++"}, {"small": "none", "predict": "easy++", "small-width": None}),
        ({"small": "class"}, {"small": "class", "divider": 120.0}),
        ({"small": "forest", "seed": 1}, {"small": "forest", "seed": 1, "divider": 120.0}),
    ],
    ids=str,
)
def test_a_given_option_wins_and_what_is_left_alone_is_off(given, changed):
    options = Options.of({"preset": "first-tries", **given})
    assert options.as_dict().items() >= changed.items()
    assert Options.of(options.as_dict()) == replace(options, preset=options.as_dict()["preset"])


def test_a_preset_without_one_of_its_values_is_stated_as_its_options():
    result = bf.replay(SAMPLE, preset="first-tries", threshold_s=math.inf)
    assert (result.options.as_dict()["preset"], result.options.threshold_s) == ("none", math.inf)
    text = bf.replay(SAMPLE, preset="first-tries", threshold_s=3600).as_text()
    assert "preset first-tries but for threshold, policy aged:20000,0.1,0, " in text


def test_what_is_not_modelled_of_a_real_scheduler_is_said_on_the_command_line():
    done = batfill("replay", SAMPLE, "--preset", "slurm")
    assert done.err.startswith("batfill: slurm: sched/backfill by default: a reservation for each of the 500 jobs ")
    assert "(bf_max_job_test). Not modelled: nodes, the pause between passes (bf_interval), " in done.err


def test_an_option_that_the_preset_does_not_serve_is_refused_as_without_it():
    assert "--seed: no forest is trained" in refusal("replay", SAMPLE, "--preset", "first-tries", "--seed", "3")
    assert "first-tries" in refusal("replay", SAMPLE, "--preset", "last-tries")
    line = refusal("replay", SAMPLE, "--preset", "first-tries", "--predict", "easy++")
    assert "--predict: small jobs take their requests; add small none, or leave it out" in line


def test_nothing_is_learned_so_no_library_of_learning_is_loaded():
    slow = {"sklearn", "scipy", "pandas", "pyarrow"}
    program = f"bf.replay({SAMPLE!r}, preset='first-tries'); print(*({slow} & sys.modules.keys()))"
    command = [sys.executable, "-c", f"import sys, batfill as bf; {program}"]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip() == ""
    assert not FIRST_TRIES.learns


# Hosts


TWO_THOUSAND = pytest.param(range(20, 2020), marks=[pytest.mark.slow, pytest.mark.long])


@pytest.mark.parametrize("seeds", [range(12), TWO_THOUSAND], ids=["few", "two thousand"])
def test_the_preset_starts_and_kills_what_the_oracle_does(seeds):
    killed = overdue = 0
    for seed in seeds:
        jobs = rush(seed, n_jobs=70)
        schedule, _ = simulate(jobs, jobs.stating(name="rush", size=24), FIRST_TRIES)
        assert_same(schedule, expected(jobs, 24))
        killed += len(schedule.kills)
        overdue += int((schedule.start_s - jobs.submit_s > 50_000).sum())
    assert killed > len(seeds) < overdue


@pytest.mark.slow
@pytest.mark.long
def test_on_a_whole_log_the_preset_starts_and_kills_what_the_oracle_does(archive_log):
    workload = read_workload(archive_log("KTH-SP2-1996-2.1-cln.swf.gz"))
    schedule, _ = simulate(workload.jobs, workload, FIRST_TRIES)
    assert_same(schedule, expected(workload.jobs, workload.size))


def test_every_host_plays_the_preset_alike(tmp_path):
    swf, path = saved_rush(tmp_path, seed=3, n_jobs=400), tmp_path / "rush.json"
    convert(swf, path)
    workload = read_workload(path)
    result = bf.replay(workload, preset="first-tries")
    ours = starts_by_name(result.schedule)
    assert len(result.schedule.kills) > 5
    assert_same_starts(ours, starts_of_plugin(load_document(path), 24, kills=True, preset="first-tries"))
    stopped = bf.Replay(workload, preset="first-tries").run(until_s=40_000)
    stopped.save(tmp_path / "stopped")
    again = bf.Replay.load(tmp_path / "stopped").run()
    assert again.options == result.options
    assert np.array_equal(again.result().schedule.start_s, result.schedule.start_s)


# Beside its own value and the word for none: what a user may give in place of each value of a preset.
IN_PLACE = {
    "policy": ["saf", "fcfs"],
    "threshold": [7200, "2h", 0],
    "overdue": ["all", "half"],
    "small": ["none", "class", "all"],
    "divider": ["10min", 600],
    "small-width": [1, "25%", "1/16"],
    "kill": ["never", "always"],
    "stand-back": [5, "0.5"],
    "depth": ["all", 0, 1, 3],
    "tested": ["all", 4],
}
REPLAYED = {name: preset.values for name, preset in PRESETS.items() if preset.values.keys() <= OPTIONS.keys()}
OVERRIDES = [
    (preset, name, value)
    for preset, values in REPLAYED.items()
    for name, own in values.items()
    for value in dict.fromkeys([own, str(own), *filter(None, [OPTIONS[name].off]), *IN_PLACE[name]])
]


def spelled_out(preset, name, value):
    """The options of a preset but for one, without those that are then useless; "none" is the option left out."""
    stated = Options.of({"preset": preset, name: value}).as_dict()
    values = PRESETS[preset].values.items()
    kept = {option: own for option, own in values if option != name and stated[option] is not None}
    return kept if value == OPTIONS[name].off else {**kept, name: value}


@pytest.fixture(scope="module")
def rush_log(tmp_path_factory):
    """An overloaded log as Batsim JSON, half of whose jobs are of class small."""
    folder = tmp_path_factory.mktemp("rush")
    convert(saved_rush(folder, seed=5, n_jobs=200), folder / "rush.json")
    document = json.loads((folder / "rush.json").read_text())
    for number, job in enumerate(document["jobs"]):
        job["class"] = ("small", "large")[number % 2]
    (folder / "rush.json").write_text(json.dumps(document))
    return folder / "rush.json"


@pytest.mark.parametrize(("preset", "name", "value"), OVERRIDES, ids=str)
def test_an_option_given_beside_a_preset_counts_everywhere_as_if_all_were_spelled_out(preset, name, value, rush_log):
    spelled = Options.of(spelled_out(preset, name, value))
    schedule, _ = simulate((log := read_workload(rush_log)).jobs, log, spelled)
    given = {"preset": preset, name: value}
    made = bf.replay(log, **{OPTIONS[option].argument: each for option, each in given.items()})
    assert made.schedule == schedule
    words = ["--preset", preset, f"--{name}", value]
    out = rush_log.parent / "out"
    assert batfill("replay", rush_log, *words, "--out", out).status == 0
    rows = csv.DictReader((rush_log.parent / "out_jobs.csv").read_text().splitlines())
    starts = {row["job_id"]: float(row["starting_time"]) for row in rows}
    assert starts == starts_by_name(schedule)
    agent = Agent(json.loads(json.dumps(given)))
    assert replace(agent.chosen, preset=NO_PRESET) == spelled
    for command in with_presets(app):
        if any(f"--{name}" in param.opts for param in command.params):
            read = command.make_context("it", list(map(str, words)), resilient_parsing=True).params
            found = {option: read.get(option.replace("-", "_")) for option in OPTIONS}
            assert replace(Options.of(found), preset=NO_PRESET) == spelled, command.name


def with_presets(command):
    """The commands below this one that take a preset."""
    if any(param.name == "preset" for param in command.params):
        yield command
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from with_presets(command.get_command(click.Context(command), name))


def test_the_commands_that_take_a_preset_are_found():
    assert {command.name for command in with_presets(app)} == {"replay", "schedule", "when"}


def test_an_option_that_is_null_in_json_leaves_the_presets_value(rush_log):
    for preset in PRESETS:
        for name in PRESETS[preset].values:
            assert Agent({"preset": preset, name: None}).stated() == Agent({"preset": preset}).stated()


def test_machines_are_reserved_under_the_preset_with_kills_at_every_divider_and_no_standing_back():
    stated = Agent({"preset": "first-tries", "reservation": "machines"}).stated()
    assert (stated["divider"], stated["kill"], stated["stand-back"]) == (120.0, "always", None)


@pytest.mark.needs("pydantic")
def test_a_campaign_replays_presets_beside_its_combinations(tmp_path):
    from batfill_lab.campaigns.config import read_campaign

    path = tmp_path / "campaign.yaml"
    path.write_text("workloads: [{file: log.swf}]\npolicies: [fcfs, saf]\npresets: [slurm, first-tries]\n")
    *others, slurm, tries = read_campaign(path).campaign.choices
    assert [one["policy"] for one in others] == ["fcfs", "saf"]
    assert (slurm["policy"], slurm["depth"], tries["policy"]) == ("fcfs", "all", "aged:20000,0.1,0")
    for name, given in (("slurm", slurm), ("first-tries", tries)):
        assert Options.of(given) == Options.of({"preset": name})
        assert described(given) == name


def test_what_if_tries_the_preset(tmp_path):
    path = saved_rush(tmp_path, seed=2, n_jobs=600)
    tried = json_result("what-if", path, "--threshold", "24h")["outcomes"][1]
    alone = json_result("replay", path, "--preset", "first-tries")
    assert (tried["name"], tried["options"]) == ("first tries", {"preset": "first-tries"})
    assert (tried["mean_bsld"], tried["kills"]) == (pytest.approx(alone["mean_bsld"]), alone["requeued"])
    changed = json_result("what-if", path, "--divider", "300")
    assert changed["outcomes"][1]["options"] == {"preset": "first-tries", "divider": 300.0}
    assert json_result("what-if", path, "--no-small-first")["outcomes"][1]["name"] == "spf"


def test_every_preset_is_explained():
    said = " ".join(batfill("policies").out.split())
    for name, preset in PRESETS.items():
        assert name == NO_PRESET or f"--preset {name}: {preset.meaning}" in said
