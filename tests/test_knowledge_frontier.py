"""What kills buy, over cuts and protected shares."""

from __future__ import annotations

import csv
import json
import re

import pytest

from batfill.errors import BatfillError
from batfill.knowledge.frontier import shares_in
from command import batfill, refusal
from test_knowledge_study import log_text, rows_of_habits


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "made.swf"
    path.write_text(log_text(rows_of_habits(n_jobs=500, weeks=3)))
    return path


def points_of(log, *options):
    done = batfill("frontier", log, "--policy", "spf", "--workers", 1, "--json", *options)
    assert done.status == 0
    told = json.loads(done.out)
    return told, {(p["knowledge"], p["cut"], p["protected"]): p for p in told["points"]}


def test_a_lower_cut_kills_more_and_protection_less(log):
    told, points = points_of(log, "--cuts", "0,0.5", "--protected", "0,0.5,1")
    assert len(points) == 2 + 2 * 3
    assert points["user", None, 0.0]["gain"] == 0
    assert points["class-clairvoyant", None, 0.0]["kills"] <= points["classifier", 0.5, 0.0]["kills"]
    for share in (0.0, 0.5):
        assert points["classifier", 0.0, share]["kills"] > points["classifier", 0.5, share]["kills"] > 0
    for cut in (0.0, 0.5):
        kills = [points["classifier", cut, share]["kills"] for share in (0.0, 0.5, 1.0)]
        assert kills[0] > kills[1] > kills[2] == 0
    assert (told["options"]["regime"], told["options"]["seed"], told["procs"], told["tau_s"]) == ("fresh", 0, 8, 10)
    for point in points.values():
        assert point["gain"] == pytest.approx(1 - point["mean_bsld"] / points["user", None, 0.0]["mean_bsld"])


def test_the_table_the_file_and_the_figure_hold_the_same_points(log, tmp_path):
    text = batfill("frontier", log, "--policy", "fcfs,spf", "--cuts", "0.3", "--out", tmp_path / "f").out
    with (tmp_path / "f" / "frontier.csv").open() as file:
        rows = list(csv.DictReader(file))
    told = json.loads((tmp_path / "f" / "frontier.json").read_text())
    assert [row["policy"] for row in rows] == ["fcfs"] * 3 + ["spf"] * 3
    assert [float(row["mean_bsld"]) for row in rows] == [point["mean_bsld"] for point in told["points"]]
    assert [line.split()[1] for line in text.splitlines()[1:]] == ["user", "class-clairvoyant", "classifier"] * 2
    words = " ".join(re.findall(r"<!-- (.*?) -->", (tmp_path / "f" / "frontier.svg").read_text()))
    for said in (
        log.name,
        "on 8 processors",
        "seed 0",
        "tau 10 s",
        "fcfs, perfect classes (0.5)",
        "spf, nothing killed",
    ):
        assert said in words


def test_levels_are_tried_in_turn_and_the_first_is_the_median_alone(log):
    told, _ = points_of(log, "--cuts", "0,0.5", "--levels", "0.5", "--levels", "0.5,0.75")
    alone, _ = points_of(log, "--cuts", "0,0.5")
    several = [point["levels"] for point in told["points"]]
    assert several == [None, *["0.5"] * 3, *["0.5,0.75"] * 3]
    assert told["points"][:4] == alone["points"]
    once, twice = (told["points"][i]["kills"] for i in (2, 5))  # at cut 0
    assert twice > once > 0
    assert refusal("frontier", log, "--levels", "2").startswith("option levels: '2' is not a list of ascending numbers")


@pytest.mark.parametrize("text", ["", "1.5", "a,b", "0,,1"])
def test_shares_are_numbers_from_0_to_1(text):
    with pytest.raises(BatfillError, match=r"option cuts: .* is not a list of numbers from 0 to 1"):
        shares_in("cuts", text)


def test_an_unknown_policy_is_refused_in_one_line(log):
    assert refusal("frontier", log, "--policy", "sfp").startswith("policy 'sfp' is unknown")


def test_every_point_is_a_line_on_stderr_with_the_time_that_passed_and_that_is_left(log):
    said = batfill("frontier", log, "--policy", "spf", "--cuts", "0,0.5", "--protected", "0,1", "--workers", 1).err
    lines = said.splitlines()
    assert [line.split(":")[1] for line in lines] == [f" {i} of 6" for i in range(1, 7)]
    assert [re.sub(r"^.* elapsed, (about \d+ s left)?", "", line) for line in lines] == [
        "time left unknown",  # nothing that learns has run
        "time left unknown",
        "",
        "",
        "",
        "done",
    ]
    assert " spf classifier levels 0.5 cut 0.5 protected 1.0: mean bsld " in lines[-1]


def test_points_do_not_depend_on_the_number_of_processes(log):
    alone, together = (
        json.loads(batfill("frontier", log, "--policy", "spf", "--cuts", "0.3", "--json", "--workers", n).out)
        for n in (1, 3)
    )
    assert alone == together
