"""The gate on backfilling: cases on paper, its files, and where it is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.live.agent import Agent
from batfill.model.gate import Gate
from batfill.model.policy import policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from command import json_result, refusal
from oracle import assert_same, oracle
from strategies import random_table, table

SAMPLE = Path(__file__).parents[2] / "workloads" / "sample.json"
DATA = Path(__file__).parents[1] / "data" / "gate"

# On 4 processors: the second waits for all until 10, and the third and the fourth would fit beside the first
ROWS = [(0, 10, 10, 3), (1, 5, 5, 4), (2, 3, 3, 1), (2, 3, 3, 1)]
ON_PAPER = {
    "while it is open, jobs are backfilled": ([(0, math.inf)], [0, 10, 2, 5]),
    "while it is shut, none starts behind the head, which goes on": ([(99, math.inf)], [0, 10, 15, 15]),
    "jobs start when it opens, before it shuts, and not when it shuts": ([(4, 7)], [0, 10, 4, 15]),
    "at the end of a period it is shut, and at the begin of the next open": ([(2, 4), (7, 8)], [0, 10, 2, 7]),
    "periods may touch": ([(3, 6), (6, 9)], [0, 10, 3, 6]),
    "without a period it is always shut": ([], [0, 10, 15, 15]),
}


@pytest.mark.parametrize("claim", ON_PAPER)
def test_on_paper(claim):
    periods, starts = ON_PAPER[claim]
    schedule = replay_jobs(table(ROWS), 4, Rules(policy_named("fcfs"), backfill_while=Gate.given("gate", periods)))
    assert schedule.start_s.tolist() == starts, claim
    assert_same(schedule, oracle(table(ROWS), 4, "fcfs", gate=periods))


@pytest.mark.compiled
def test_a_gate_that_is_always_open_or_shut_is_no_gate_or_one_job_tested():
    log = random_table(5, n_jobs=300, size=9, span_s=900, wide=0).stating(name="made", size=9)
    for policy in ("fcfs", "saf"):
        always, never = (bf.replay(log, policy, backfill_while=gate) for gate in ([(0, math.inf)], []))
        assert (always.schedule.start_s == bf.replay(log, policy, tested=300).schedule.start_s).all()
        assert (never.schedule.start_s == bf.replay(log, policy, tested=1).schedule.start_s).all()
        assert (always.schedule.start_s != never.schedule.start_s).any()


def test_an_intensity_and_a_bound_make_the_periods():
    assert Gate.given("gate", f"{DATA / 'intensity.csv'}:300").periods == ((0, 3600), (7200, 20_000))
    assert Gate.given("gate", f"{DATA / 'intensity.csv'}:301").periods == ((0, 3600), (7200, math.inf))
    assert Gate.given("gate", f"{DATA / 'intensity.csv'}:1").periods == ()
    assert Gate.given("gate", DATA / "periods.csv").periods == ((0, 7200), (20_000, math.inf))
    result = json_result("replay", SAMPLE, "--backfill-while", f"{DATA / 'intensity.csv'}:300")
    assert result["options"]["backfill-while"] == f"{DATA / 'intensity.csv'}:300"
    assert len(result["backfill_while_sha256"]) == 64


def test_dates_are_those_of_the_logs_clock(tmp_path):
    path = tmp_path / "dates.csv"
    path.write_text("begin,end\n2026-03-01T08:00+00:00,2026-03-01T09:00+01:00\n")
    assert "line 2: ends at 2026-03-01 09:00:00+01:00, and begins at 2026-03-01 08:00:00+00:00" in refusal(
        "replay", SAMPLE, "--backfill-while", path
    )
    path.write_text("begin,end\n2026-03-01T08:00+00:00,2026-03-01T10:00+01:00\n")
    assert "is a date, and the workload has no clock" in refusal("replay", SAMPLE, "--backfill-while", path)
    with pytest.raises(BatfillError, match="is a date, and the workload has no clock"):
        Agent({"backfill-while": path})


@pytest.mark.parametrize(
    ("text", "bound", "says"),
    [
        ("begin,end\n9,5\n", "", "line 2: ends at 5.0, and begins at 9.0"),
        ("begin,end\n1,5\n4,9\n", "", "line 3: begins before another period is over"),
        ("begin,end\n1,\n4,9\n", "", "line 3: begins before another period is over"),
        ("begin,end\n1,2026-03-01T08:00+01:00\n", "", "seconds and dates are mixed"),
        ("begin,end\n2026-03-01T08:00,2026-03-01T09:00\n", "", "has no time zone"),
        ("begin,end\nsoon,9\n", "", "line 2: begin 'soon' is neither"),
        ("begin,end\n0,3\n\n5\n", "", "line 4: has too few values, and no end"),
        ("begin,end\n,9\n", "", "line 2: has no begin; give a CSV file with the columns begin,end"),
        ("begin,end\n1\n", "", "line 2: "),
        ("begin,end\n1,2\n", ":300", "line 1: column 'end' is unknown"),
        ("begin,intensity\n1,2\n", "", "line 1: column 'intensity' is unknown"),
        ("begin,intensity\n1,low\n", ":300", "line 2: is not begin and intensity"),
        ("begin,intensity\n5,2\n5,3\n", ":300", "dates are not in order, each once"),
        ("begin,intensity\n5,2\n2026-03-01T08:00+01:00,3\n", ":300", "seconds and dates are mixed"),
        ("", "", "line 1: there is no column begin"),
        ("begin,end\n" + "".join(f"{2 * n},{2 * n + 1}\n" for n in range(20_001)), "", "20,001 windows are too many"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(text, bound, says, tmp_path):
    path = tmp_path / "gate.csv"
    path.write_text(text)
    assert says in refusal("replay", SAMPLE, "--backfill-while", f"{path}{bound}")


def test_what_takes_no_gate_says_so(tmp_path):
    gate = [(0, 9)]
    for options in ({"reservation": "kept"}, {"reservation": "machines"}):
        with pytest.raises(BatfillError, match=r"backfill.while, max.running, pool, energy.budget: with reservation"):
            Agent({"backfill-while": gate, **options})
    with pytest.raises(BatfillError, match=r"a kept plan backfills no job; choose backfill.while none"):
        Agent({"backfill-while": gate, "plan": "kept", "depth": "all"})
    with pytest.raises(BatfillError, match="without windows, gates and pools"):
        Agent({"backfill-while": gate, "select": "full"})
    for wrong in (7, "", [3], [(1, 2, 3)], [(0, "x")], [(0, 10**400)], [(-math.inf, 1)], [(math.nan, 1)], [(None, 1)]):
        with pytest.raises(BatfillError, match=r"^(option backfill.while|gate): "):
            bf.replay(SAMPLE, backfill_while=wrong)
    path = tmp_path / "binary.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BatfillError, match="is not text"):
        bf.replay(SAMPLE, backfill_while=path)


def test_the_periods_of_a_gate_in_python_are_numbers_or_text_and_its_digest_says_which():
    gates = [(0, 60), (90, math.inf)], [("0", "60"), ("90", "")], np.array([[0, 60], [90, np.inf]])
    made = {Gate.given("gate", gate) for gate in gates}
    assert [gate.periods for gate in made] == [((0, 60), (90, math.inf))]
    digest = bf.replay(SAMPLE, backfill_while=gates[0]).as_dict()["backfill_while_sha256"]
    assert digest == made.pop().digest != Gate.given("gate", [(0, 61), (90, math.inf)]).digest


def test_a_result_states_for_how_long_the_gate_was_open():
    log = table([(10, 60, 60, 1), (10, 90, 90, 1)]).stating(name="made", size=4)
    for gate, open_s in (([(0, 40), (80, None)], 50), ([(0, math.inf)], 90), ([(200, 300)], 0), ([], 0)):
        result = bf.replay(log, backfill_while=gate)
        assert result.as_dict()["gate"] == {"open_s": open_s, "span_s": 90}
        assert f"gate         open for {open_s / 90:.2%} of 1 min 30 s" in result.as_text()
    assert "gate" not in bf.replay(log).as_dict()
    last = "the last job ended at 100 s"
    never = f"option backfill-while: the gate never opened, so no job was backfilled; {last}; check its dates"
    for gate, says in (([(101, 300)], [never]), ([(-9, 0)], [never]), ([], [never]), ([(100, 101)], [])):
        assert bf.replay(log, backfill_while=gate).as_dict()["warnings"] == says
    result = bf.replay(log, energy_budget="9kWh@101..200,watts=1W")
    assert result.as_dict()["warnings"] == [f"option energy-budget did nothing: it begins at 101 s, and {last}"]


def test_a_saved_or_forked_replay_keeps_its_gate(tmp_path):
    log = random_table(3, n_jobs=80, size=9, span_s=90, longest=20).stating(name="made", size=9)
    result = bf.replay(log, "saf", backfill_while=[(10, 30), (50, math.inf)])
    assert (result.schedule.start_s != bf.replay(log, "saf").schedule.start_s).any()
    run = bf.Replay(log, "saf", backfill_while=[(10, 30), (50, math.inf)]).run(40)
    run.save(tmp_path / "run.npz")
    for going_on in (run.fork(), bf.Replay.load(tmp_path / "run.npz")):
        assert going_on.run().result().schedule == result.schedule
