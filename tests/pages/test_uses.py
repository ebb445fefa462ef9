"""Pools, energy and gates on pages: the same as a slow sum over jobs, and as the replay's own figures."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill_pages.panels import in_words, panels
from batfill_pages.runs import find_runs, read_run
from batfill_pages.sample import span_s
from batfill_pages.uses import uses_of
from batfill_pages.write import write_report
from browser import CHROMIUM, DRIVER
from command import batfill
from golden_text import check
from report_runs import words_of

ROOT = Path(__file__).parents[2]
WINDOWS = [
    {"kind": "announced", "begin": begin, "end": end, "processors": amount, "announced": known, "pool": pool}
    for begin, end, amount, known, pool in [
        (40, 70, "300W", None, "power"),
        (60, 90, "200W", 60, "power"),
        (20, None, 1, 20, "licences"),
    ]
]
BUDGET = "100kJ@30..150,watts=watts,idle=200W"
GATE = [(0, 25), (50, 80), (100, float("inf"))]


@pytest.mark.compiled
def test_a_pool_of_a_share_has_its_amount_on_the_page(tmp_path):
    batfill("replay", ROOT / "workloads/sample.json", "--pool", "power=80%@100W", "--out", tmp_path / "x")
    (use,) = uses_of(find_runs([tmp_path])[0]).pools
    assert (use.pool.capacity, use.figures.capacity, use.figures.refused) == (5120, 5120, 11)


def random_workload(folder, seed):
    """Forty jobs on 8 processors, some of which want more than there ever is."""
    rng = np.random.default_rng(seed)
    jobs = [
        {
            "id": f"{k}",
            "subtime": int(rng.integers(0, 100)),
            "walltime": int(rng.integers(20, 40)),
            "res": int(rng.integers(1, 7)),
        }
        | {"profile": f"p{k}", "user": int(rng.integers(-1, 3)), "watts": round(float(rng.uniform(10, 420)), 3)}
        | {"resources": {"licences": int(rng.choice([0, 0, 1, 2, 3, 6]))}}
        for k in range(40)
    ]
    jobs.sort(key=lambda job: job["subtime"])
    profiles = {job["profile"]: {"type": "delay", "delay": int(rng.integers(1, 20))} for job in jobs}
    path = folder / "w.json"
    path.write_text(json.dumps({"nb_res": 8, "jobs": jobs, "profiles": profiles}))
    return path, {job["id"]: job for job in jobs}


def replayed(folder, seed):
    """The result of a replay with pools, an energy budget and a gate; its run as read from files, and the jobs."""
    path, jobs = random_workload(folder, seed)
    pools = ["power=900W@watts", "licences=4:skip", "slots=6@1:user"]
    result = bf.replay(path, pool=pools, calendar=bf.Calendar.of(WINDOWS), energy_budget=BUDGET, backfill_while=GATE)
    result.to_batsim(folder / "x")
    return result, read_run(folder / "x_jobs.csv", "x"), jobs


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(8))
def test_use_and_capacity_are_those_of_a_slow_sum_over_jobs(tmp_path, seed):
    result, run, jobs = replayed(tmp_path, seed)
    uses = uses_of(run)
    watts = {name: int(np.ceil(job["watts"])) for name, job in jobs.items()}
    taken = {
        "power": watts,
        "licences": {name: job["resources"]["licences"] for name, job in jobs.items()},
        "slots": {name: job["res"] * (job.get("user", -1) >= 0) for name, job in jobs.items()},
    }
    times = [(name, start, start + ran) for name, start, ran in zip(run.ids, run.start_s, run.runtime_s, strict=True)]
    seconds = np.arange(*span_s(run))
    running = [[name for name, start, end in times if start <= second < end] for second in seconds]
    for use in uses.pools:
        amounts = taken[use.pool.name]
        slow = [sum(amounts[name] for name in now) for now in running]
        assert use.used.at(seconds).tolist() == slow
        if use.pool.of_user:
            most = max(sum(amounts[n] for n in now if jobs[n]["user"] == user) for now in running for user in range(3))
            assert use.figures.most == most <= 6
            assert use.there is None
            continue
        units = {"power": {"300W": 300, "200W": 200}, "licences": {1: 1}}[use.pool.name]
        there = [
            use.pool.capacity
            - sum(
                units[window["processors"]]
                for window in WINDOWS
                if window["pool"] == use.pool.name and window["begin"] <= second < (window["end"] or np.inf)
            )
            for second in seconds
        ]
        assert use.there.at(seconds).tolist() == there
        assert use.figures.above_s == sum(used > most for used, most in zip(slow, there, strict=True))
    figures = [use.figures for use in uses.pools]
    assert [vars_of(use) for use in figures] == [vars_of(use) for use in result.schedule.uses()]
    edges_s = np.linspace(*span_s(run), 8)
    for panel, use in zip(panels(uses, edges_s), uses.pools, strict=False):
        assert panel["mean"] == pytest.approx(use.used.means(edges_s) / panel["scale"], rel=1e-4)
        assert panel["most"] == pytest.approx(use.used.most(edges_s) / panel["scale"], rel=1e-4)
        over = use.used.at(seconds) - use.there.at(seconds) if use.there else 0 * seconds
        bins = np.searchsorted(edges_s, seconds[over > 0], "right") - 1
        assert [k for k, *_ in panel.get("over", [])] == np.unique(bins).tolist()
        assert all(low < high for _, low, high in panel.get("over", []))
        assert ("flag" in panel) == (use.figures.above_s > 0)


def vars_of(use):
    """The figures of a use, shares and times in a few digits."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in use.as_dict().items()}


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(8))
def test_energy_is_that_of_a_slow_sum_over_jobs_and_the_gate_is_that_of_the_replay(tmp_path, seed):
    result, run, jobs = replayed(tmp_path, seed)
    uses = uses_of(run)
    drawn, ours = result.schedule.drawn(), uses.energy.figures
    assert (ours.budget_j, ours.drawn_j, ours.above_s) == pytest.approx((drawn.budget_j, drawn.drawn_j, drawn.above_s))
    times = list(zip(run.ids, run.start_s, run.start_s + run.runtime_s, strict=True))
    balance = 0
    for second in range(30, 150):
        assert uses.energy.balance_j(np.array([float(second)])) == pytest.approx(balance, abs=1e-3)
        watts = 200 + sum(int(np.ceil(jobs[name]["watts"])) for name, start, end in times if start <= second < end)
        balance += uses.energy.budget.rate_w - watts
    small = {**run.about.given, "energy-budget": BUDGET.replace("100kJ", "60kJ")}  # of which the run drew more
    less = uses_of(replace(run, about=replace(run.about, given=small))).energy
    fine = np.arange(30, 150, 0.01)
    assert less.figures.above_s == pytest.approx((less.balance_j(fine) < -1e-6).sum() / 100, abs=0.1)
    assert less.figures.above_s > 0
    begin_s, end_s = span_s(run)
    assert uses.open.tolist() == [
        [max(begin, begin_s), min(end, end_s)] for begin, end in GATE if begin < end_s and end > begin_s
    ]
    (panel,) = (one for one in panels(uses, np.linspace(begin_s, end_s, 20)) if "drawn" in one)
    assert (panel["dates"][0], panel["dates"][-1]) == (max(30, begin_s), min(150, end_s))
    assert panel["available"] == pytest.approx(
        (np.array(panel["dates"]) - 30) * uses.energy.budget.rate_w / 3600, rel=1e-3
    )


DESCRIPTOR = """
batcmd: batsim -p {folder}/platform.xml -w {folder}/w.json -e {folder}/out -s tcp://localhost:{{port}} -v quiet -E
output-dir: {folder}
schedcmd: batfill schedule --pool power=900W@watts --calendar {folder}/cap.csv --backfill-while {folder}/gate.csv -s tcp://127.0.0.1:{{port}}
simulation-timeout: 600
ready-timeout: 10
success-timeout: 10
failure-timeout: 5
"""


@pytest.mark.compiled
def test_a_recorded_run_shows_its_pools_and_the_energy_that_was_measured(tmp_path):
    _, jobs = random_workload(tmp_path, 1)
    sample = (ROOT / "platforms" / "sample.xml").read_text().replace('lat="0us"/>', 'lat="0us">PROP</cluster>', 1)
    sample = sample.replace('<host id="master_host" speed="1Gf"/>', '<host id="master_host" speed="1Gf">PROP</host>')
    sample = sample.replace("PROP", '<prop id="wattage_per_state" value="50:90"/>').replace("0-63", "0-7")
    (tmp_path / "platform.xml").write_text(sample)
    (tmp_path / "cap.csv").write_text("kind,begin,end,processors,announced,pool\nannounced,40,70,300W,40,power\n")
    (tmp_path / "gate.csv").write_text("begin,end\n0,50\n")
    text = DESCRIPTOR.format(folder=tmp_path).replace("{port}", "${BATSIM_PORT:-28000}")
    (tmp_path / "run.yaml").write_text(text)
    assert batfill("run", tmp_path / "run.yaml", "--simulator", "embedded").status == 0
    (run,) = find_runs([tmp_path])
    uses = uses_of(run)
    times = list(zip(run.ids, run.start_s, run.start_s + run.runtime_s, strict=True))
    for second in np.arange(*span_s(run)):
        slow = sum(int(np.ceil(jobs[name]["watts"])) for name, start, end in times if start <= second < end)
        assert uses.pools[0].used.at(second) == slow
        assert uses.pools[0].there.at(second) == 900 - 300 * (40 <= second < 70)
    assert uses.open.tolist() == [[span_s(run)[0], 50]]
    with (tmp_path / "out_consumed_energy.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert uses.measured_w.total(float(last["time"])) == pytest.approx(float(last["energy"]), rel=1e-4)
    assert dict(in_words(uses)).keys() == {"power", "power measured", "backfilling"}
    (tmp_path / "cap.csv").write_text("kind,begin,end,processors,announced,pool\n")  # no longer what the run had
    (run,) = find_runs([tmp_path])
    assert uses_of(run).pools[0].there is None
    assert "the calendar is not known any more" in write_report([run.path], tmp_path / "page.html")[0].read_text()


@pytest.mark.compiled
def test_golden_page_of_runs_with_pools_and_energy_and_without(tmp_path):
    path, _ = random_workload(tmp_path, 2)
    pools = {"power": "900W@watts", "slots": "6@1:user"}
    for name, given in (("a", ["power"]), ("b", ["power", "slots"]), ("c", [])):
        more = {"energy_budget": BUDGET, "backfill_while": GATE} if name == "b" else {}
        bf.replay(path, pool=[f"{pool}={pools[pool]}" for pool in given] or None, **more).to_batsim(tmp_path / name)
    check("page-limits", words_of(write_report([tmp_path], tmp_path / "page.html")[0].read_text()))


@pytest.mark.compiled
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium and chromedriver on PATH")
def test_the_picture_has_a_panel_for_each_and_marks_what_was_above(browser, tmp_path):
    _, run, _ = replayed(tmp_path, 0)
    uses = uses_of(run)
    (above,) = (use.figures for use in uses.pools if use.pool.name == "power")
    assert above.above_s > 0
    browser.open(write_report([run.path], tmp_path / "page.html")[0])
    names = "return [...document.querySelectorAll('{} svg .strong')].map((e) => e.textContent.replaceAll(NB, ' '))"
    said = browser.run(names.format(".course"))
    for words in ("power, W", "licences", "slots", "energy drawn, Wh", "backfilling"):
        assert words in said
    assert f"▲ {above.above_s:.0f} s above the cap" in said
    fills = "return [...document.querySelectorAll('{} svg > rect')].map((e) => e.getAttribute('fill'))"
    shown = browser.run("return document.querySelector('#explore-0').explorer.run.panels")
    marked = sum(len(panel.get("over", [])) for panel in shown)
    assert browser.run(fills.format(".course")).count("var(--pays)") == marked > 0
    assert browser.run(fills.format(".course")).count("var(--advised)") == len(uses.open)
    browser.click("[data-do=all]")
    browser.frame()
    assert browser.run(names.format(".curves")) == [
        "utilisation, % of the processors",
        "jobs waiting",
        "power, W",
        "licences",
        "slots",
    ]
    power = browser.run("return [...document.querySelector('#explore-0').explorer.curves.curves[2].last]")
    edges_s = np.linspace(*span_s(run), len(power) + 1)
    assert power == pytest.approx(uses.pools[0].used.means(edges_s), abs=1e-6)
    assert browser.log() == []
