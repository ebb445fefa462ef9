"""Settings that go by a name: what they stand for, what wins over them, and that every host plays them alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import batfill as bf
from batfill.model.jobs import SMALL
from batfill.model.option_texts import described
from batfill.model.options import NO_PRESET, Options
from batfill.replays.replay import simulate
from batfill.workloads import read_workload
from batfill.workloads.batsim_json import load_document
from batfill.workloads.convert import convert
from batfill.workloads.formats import log_of, save_log
from command import json_result
from oracle import assert_same, oracle
from plugin import assert_same_starts, starts_of_plugin
from small_runs import starts_by_name
from strategies import random_table

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


# Hosts


def test_the_preset_starts_and_kills_what_the_oracle_does():
    killed, overdue, seeds = 0, 0, range(12)
    for seed in seeds:
        jobs = rush(seed, n_jobs=70)
        schedule, _ = simulate(jobs, jobs.stating(name="rush", size=24), FIRST_TRIES)
        assert_same(schedule, expected(jobs, 24))
        killed += len(schedule.kills)
        overdue += int((schedule.start_s - jobs.submit_s > 50_000).sum())
    assert killed > len(seeds) < overdue
    assert not FIRST_TRIES.learns


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
