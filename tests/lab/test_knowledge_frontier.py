"""What kills buy, over cuts and protected shares."""

from __future__ import annotations

import csv
import html
import json
import re

import pytest
from test_knowledge_study import log_text, rows_of_habits

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from batfill_lab.learning.frontier import shares_in
from command import batfill, json_result, refusal


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "made.swf"
    path.write_text(log_text(rows_of_habits(n_jobs=500, weeks=3)))
    return path


@pytest.fixture
def busy(tmp_path):
    """A log whose jobs wait for hours."""
    path = tmp_path / "busy.swf"
    write_log(generate_log(600, 16, seed=3, users=6, load=0.9), path)
    return path


def points_of(log, *options):
    done = batfill("frontier", log, "--policy", "spf", "--workers", 1, "--json", *options)
    assert done.status == 0
    told = json.loads(done.out)
    return told, {(p["small"], p["cut"], p["protected"]): p for p in told["points"]}


def test_a_lower_cut_kills_more_and_protection_less(log):
    told, points = points_of(log, "--cuts", "0,0.5", "--protected", "0,0.5,1", "--kill", "always")
    assert len(points) == 2 + 2 * 3
    assert points["none", None, 0.0]["gain"] == 0
    assert points["perfect", None, 0.0]["kills"] <= points["forest", 0.5, 0.0]["kills"]
    for share in (0.0, 0.5):
        assert points["all", 0.0, share]["kills"] > points["forest", 0.5, share]["kills"] > 0
    for cut in (0.0, 0.5):
        kills = [points["forest" if cut else "all", cut, share]["kills"] for share in (0.0, 0.5, 1.0)]
        assert kills[0] > kills[1] > kills[2] == 0
    assert (told["options"]["kill"], told["options"]["seed"], told["procs"], told["tau_s"]) == ("always", 0, 8, 10)
    assert 0.5 < points["forest", 0.5, 0.0]["auc"] <= 1
    assert 0 < points["forest", 0.5, 0.0]["brier"] < 0.25
    assert points["all", 0.0, 0.0]["auc"] is None
    for point in points.values():
        assert point["gain"] == pytest.approx(1 - point["mean_bsld"] / points["none", None, 0.0]["mean_bsld"])


def test_the_table_the_file_and_the_figure_hold_the_same_points(log, tmp_path):
    text = batfill(
        "frontier", log, "--policy", "fcfs,spf", "--cuts", "0.3", "--workers", 1, "--out", tmp_path / "f"
    ).out
    with (tmp_path / "f" / "frontier.csv").open() as file:
        rows = list(csv.DictReader(file))
    told = json.loads((tmp_path / "f" / "frontier.json").read_text())
    assert [row["policy"] for row in rows] == ["fcfs"] * 3 + ["spf"] * 3
    assert [float(row["mean_bsld"]) for row in rows] == [point["mean_bsld"] for point in told["points"]]
    assert [line.split()[1] for line in text.splitlines()[1:7]] == ["none", "perfect", "forest"] * 2
    known = log.name, "on 8 processors", "seed 0", "tau 10 s".capitalize()
    for name, said in (
        ("frontier", ("fcfs, perfect classes", "spf, nothing killed")),
        ("waits", ("longest wait", "mean wait of large jobs", "the front")),
    ):
        drawing = (tmp_path / "f" / f"{name}.svg").read_text()
        words, caption = " ".join(re.findall(r"<!-- (.*?) -->", drawing)), (tmp_path / "f" / f"{name}.txt").read_text()
        assert all(each in words for each in said)
        assert all(each in caption for each in known)
        title, described = re.findall(r"<title>(.*?)</title>|<desc>(.*?)</desc>", drawing)[::-1]
        assert caption == f"{title[0]}. {html.unescape(described[1])}\n"
    for row, point in zip(rows, told["points"], strict=True):
        assert float(row["large_max_wait_s"]) == point["large_max_wait_s"] == point["waits_by_class"][1]["max_wait_s"]


def test_the_base_is_the_first_point_of_each_policy_with_the_options_that_all_share(busy):
    shared = ("--threshold", "1h", "--backfill", "fcfs", "--overdue-before", "large", "--kill", "always")
    done = batfill("frontier", busy, "--policy", "spf,saf", "--cuts", "0", "--workers", 1, "--json", *shared)
    told = json.loads(done.out)
    assert [point["small"] for point in told["points"]] == ["none", "perfect", "all"] * 2
    stated = {"backfill": "fcfs", "threshold": 3600, "overdue-before": "large"}
    assert told["options"].items() >= stated.items()
    small = ("--kill", "always", "--overdue-before", "large")
    for k, policy in enumerate(("spf", "saf")):
        for point, words in zip(
            told["points"][3 * k :],
            ([], ["--small", "perfect", *small], ["--small", "all", *small]),
            strict=False,
        ):
            given = ("replay", busy, "--policy", policy, "--backfill", "fcfs", "--threshold", "1h", *words)
            alone = json_result(*given)
            assert (point["mean_bsld"], point["mean_wait_s"]) == (alone["mean_bsld"], alone["mean_wait_s"])
            assert (point["max_wait_s"], point["kills"]) == (alone["max_wait_s"], alone["requeued"])
            for name in ("waits_by_class", "waits_by_width"):
                assert all(a.items() >= b.items() for a, b in zip(point[name], alone[name], strict=True))
        assert told["small_below_s"] == alone["small_below_s"]
        assert told["points"][3 * k]["large_delayed"] == 0


def test_who_pays_is_measured_against_the_base_job_by_job(busy):
    found = bf.frontier(busy, policies=["spf"], cuts=[0])
    base, _, tried = found.points
    runs = [
        bf.replay(busy, "spf").to_pandas(),
        bf.replay(busy, "spf", small="all").to_pandas(),
    ]
    large = runs[0].runtime_s >= runs[0].runtime_s.median()
    longer_s = (runs[1].wait_s - runs[0].wait_s)[large]
    late = longer_s > 3600
    assert tried.large_delayed == pytest.approx(late.mean())
    assert tried.large_delayed > 0 == base.large_delayed
    assert tried.large_mean_delay_s == pytest.approx(longer_s[late].mean())
    assert base.large_mean_delay_s is None
    assert tried.large_mean_wait_s == pytest.approx(runs[1].wait_s[large].mean())
    assert tried.small_mean_wait_s == pytest.approx(runs[1].wait_s[~large].mean())
    assert tried.large_p999_wait_s == pytest.approx(runs[1].wait_s[large].quantile(0.999))
    assert {row["user"] for row in tried.waits["waits_by_user"]} == set(runs[0].user)


def test_without_bound_is_another_replay(busy):
    bound, free = (bf.frontier(busy, policies=["spf"], cuts=[0], bound=bound).points for bound in (None, False))
    assert bound[0] == free[0]
    alone = bf.replay(busy, "spf", small="all", bound=False).figures
    assert free[2].mean_bsld == alone.mean_bsld != bound[2].mean_bsld


def test_the_front_is_what_no_other_point_beats_in_slowdown_or_longest_wait(busy):
    told, _ = points_of(busy, "--cuts", "0,0.3,0.5", "--protected", "0,0.5")
    able = [point for point in told["points"] if point["small"] != "perfect"]
    for point in told["points"]:
        beaten = any(
            (other["mean_bsld"] < point["mean_bsld"] and other["max_wait_s"] <= point["max_wait_s"])
            or (other["mean_bsld"] <= point["mean_bsld"] and other["max_wait_s"] < point["max_wait_s"])
            for other in able
        )
        assert point["front"] == (point in able and not beaten)
    assert {point["front"] for point in able} == {True, False}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--overdue-before", "large"), "option overdue-before: no job is overdue without a threshold"),
        (("--threshold", "-1"), "option threshold: -1 is not a number of seconds"),
        (("--backfill", "sfp"), "policy 'sfp' is unknown"),
        (("--procs", "1", "--policy", "fcfs"), "made.swf: no job fits 1 processors"),
    ],
)
def test_an_option_that_no_replay_can_take_is_refused_in_one_line(tmp_path, words, said):
    path = tmp_path / "made.swf"
    path.write_text(log_text([(60 * k, 30, 7, 2, 20, 4) for k in range(5)]))
    assert said in refusal("frontier", path, "--cuts", "0", *words)


def test_an_argument_that_the_replays_set_themselves_is_refused(log):
    with pytest.raises(
        BatfillError, match=r"argument 'small': each replay here has its own; .* are backfill, like, depth, "
    ):
        bf.frontier(log, cuts=[0], small="all")
    with pytest.raises(BatfillError, match=r"argument 'thresold_s' is unknown; did you mean 'threshold_s'"):
        bf.frontier(log, cuts=[0], thresold_s=7200)


def test_a_calendar_that_does_not_fit_the_machine_is_refused(log, tmp_path):
    (tmp_path / "c.csv").write_text("kind,begin,end,processors\nannounced,1,2,100000\n")
    assert "takes 100000 processors of a machine of" in refusal("frontier", log, "--calendar", tmp_path / "c.csv")


@pytest.mark.parametrize("text", ["", "1.5", "a,b", "0,,1"])
def test_shares_are_numbers_from_0_to_1_or_per_cent(text):
    with pytest.raises(BatfillError, match=r"option cuts: .* is (not a share|more than the whole)"):
        shares_in("cuts", text)
    assert shares_in("cuts", "0, 50%,0.75") == [0, 0.5, 0.75]


def test_an_unknown_policy_is_refused_in_one_line(log):
    assert refusal("frontier", log, "--policy", "sfp").startswith("policy 'sfp' is unknown")


def test_every_point_is_a_line_on_stderr_with_the_time_that_passed_and_that_is_left(log):
    said = batfill("frontier", log, "--policy", "spf", "--cuts", "0,0.5", "--protected", "0,1", "--workers", 1).err
    lines = said.splitlines()
    assert [line.split(":")[1] for line in lines] == [f" {i} of 6" for i in range(1, 7)]
    assert [re.sub(r"^.* elapsed, (about \d+ s left)?", "", line) for line in lines] == [
        "time left unknown",  # no forest was trained
        "time left unknown",
        "time left unknown",
        "time left unknown",
        "",
        "done",
    ]
    assert " spf forest cut 0.5 protected 1.0: mean bsld " in lines[-1]


def test_points_do_not_depend_on_the_number_of_processes(log):
    alone, together = (
        json.loads(batfill("frontier", log, "--policy", "spf", "--cuts", "0.3", "--json", "--workers", n).out)
        for n in (1, 2)
    )
    assert alone == together
