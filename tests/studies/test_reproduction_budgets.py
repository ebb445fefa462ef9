"""The energy budgets of CCGrid 2017: the program's four faults on paper, weeks cut and read, and two small weeks."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("pydantic")

from studies.papers import core
from studies.papers.budgets import cut, read_week
from studies.papers.core import Context
from studies.papers.energybud import MODES, Job, Limits, Watts, published_starts
from studies.papers.protocol import COMPUTATIONS
from swf_text import row

DAY_S = 86_400
ONE_WATT = Watts(0, 1)  # of each processor that computes, and none of the others


def tiny(rate_w, monitoring_s=10):
    """Four processors, and a budget from 0 to 100 s."""
    return Limits(4, rate_w, 0, 100, monitoring_s, ONE_WATT, ONE_WATT)


# The program's rules, on paper


def test_a_cap_keeps_the_machines_watts_within_the_rate():
    jobs = [Job(0, 30, 30, 2), Job(0, 10, 10, 2), Job(0, 10, 10, 1)]
    # 2 W + 2 W is more than 3 W: the second waits until the first has ended. The third fits behind it: 2 W + 1 W.
    assert published_starts(jobs, tiny(3), "PC") == [0, 30, 0]


def test_energybud_spends_what_was_saved():
    # Until 20 s the machine draws 1 W of 2 W. Then 20 J are saved, as much as 4 W for 10 s need beyond the rate.
    jobs = [Job(0, 20, 20, 1), Job(0, 10, 10, 4)]
    assert published_starts(jobs, tiny(2), "energyBud") == [0, 20]
    assert published_starts(jobs, tiny(2), "PC") == [0, 100]


def test_reducepc_lowers_the_rate_for_others_while_the_head_reserves():
    # The head needs (4 - 3) W for 20 s at 40 s, so others may draw 20 J / 40 s less than 3 W until then: 2 W + 1 W is
    # too much under reducePC, and not under PC.
    jobs = [Job(0, 40, 40, 2), Job(0, 20, 20, 4), Job(0, 10, 10, 1)]
    assert published_starts(jobs, tiny(3), "PC", ["sign"])[2] == 0
    assert published_starts(jobs, tiny(3), "reducePC", ["sign"])[1:] == [40, 60]


def test_with_the_wrong_sign_savings_move_the_heads_date_away():
    # The head has its 10 J at 50 s, when 100 J are saved. The program subtracts them, plans it for 87 s, and starts the
    # last job, which ends at 62 s.
    jobs = [Job(0, 50, 50, 1), Job(1, 10, 10, 4), Job(2, 60, 60, 1)]
    assert published_starts(jobs, tiny(3), "energyBud") == [0, 62, 2]
    assert published_starts(jobs, tiny(3), "energyBud", ["sign"]) == [0, 50, 60]


def test_a_head_below_the_rate_gives_joules_away():
    # The head at 50 s will draw 3 W of 3.5 W, and so reserves -5 J. The last job needs (4 - 3.5) W for 10 s: 5 J.
    jobs = [Job(0, 50, 50, 2), Job(1, 10, 10, 3), Job(2, 10, 10, 2)]
    assert published_starts(jobs, tiny(3.5), "energyBud", ["sign"])[2] == 2
    assert published_starts(jobs, tiny(3.5), "energyBud", ["sign", "gift"])[2] > 2


def test_two_jobs_start_on_the_same_savings_and_the_budget_is_in_debt():
    # At 20 s 40 J are saved. The first needs (3 - 2) W for 40 s, all of it; the second (4 - 2) W for 20 s, the same.
    jobs = [Job(0, 0, 1, 1), Job(20, 40, 40, 3), Job(20, 20, 20, 1)]
    assert published_starts(jobs, tiny(2, 20), "energyBud") == [0, 20, 20]  # 140 J until 60 s, of 120 J
    assert published_starts(jobs, tiny(2, 20), "energyBud", ["committed"]) == [0, 20, 60]


def test_under_a_cap_a_job_behind_the_head_takes_its_watts():
    # At 50 s the head takes 3 processors and all 3 W. The last job fits on the fourth, without a watt.
    jobs = [Job(0, 50, 50, 2), Job(1, 10, 10, 3), Job(2, 100, 100, 1)]
    assert published_starts(jobs, tiny(3), "PC") == [0, 100, 2]
    assert published_starts(jobs, tiny(3), "PC", ["watts"]) == [0, 50, 60]


# Weeks


def test_a_week_is_cut_as_the_papers_files_are(tmp_path):
    log = tmp_path / "log.swf"
    rows = [
        row(1, 0, 500, req_procs=4, req_time=900),  # over before the week
        row(2, 100, 2001, procs=8, req_procs=4, req_time=5000),  # runs, 1,101 s left and 4,100 s of the request
        row(3, 200, 900, wait=800, req_procs=2, req_time=600),  # would begin with the week: it waits, and runs 600 s
        row(4, 300, -1, wait=50, req_procs=2, req_time=600),  # cancelled
        row(5, 1060, 61, req_procs=1, req_time=3600),
        row(6, 1000 + 7 * DAY_S, 60, req_procs=1, req_time=3600),  # next week
        row(7, 1090, 50, req_procs=1, req_time=-1),  # no request
        row(8, 999 + 7 * DAY_S, 1, req_procs=1, req_time=1),
    ]
    log.write_text("; MaxProcs: 16\n" + "".join(rows))
    week = cut(log, 1000)
    late_s = 7 * DAY_S + 999 - 1060
    # Those at the beginning: running, the first submitted, then waiting. Run times are even.
    assert week.jobs == (Job(0, 1100, 4100, 8), Job(0, 60, 3600, 1), Job(0, 600, 1200, 2), Job(late_s, 0, 2, 1))
    assert week.procs == 16


def old_form(jobs, procs):
    """A workload of an early Batsim, on processors of 100 million operations per second."""
    rows = [
        {"id": n, "subtime": 0.1 if n == 2 else submit, "res": q, "profile": str(p), "walltime": float(asked)}
        for n, (submit, p, asked, q) in enumerate(jobs)
    ]
    work = {str(job.runtime_s): {"type": "msg_par_hg", "cpu": job.runtime_s * 1e8, "com": 0.0} for job in jobs}
    return json.dumps({"nb_res": procs, "jobs": rows, "profiles": work, "version": 0})


def generated(seed):
    """A week that is too much for 16 processors, with requests that are right or ten times too long."""
    rng = np.random.default_rng(seed)
    jobs = []
    for submit_s in sorted(rng.integers(1, 6 * DAY_S, 150).tolist()):
        run_s = 2 * int(rng.choice([60, 900, 9000, 20_000]))
        jobs.append(Job(submit_s, run_s, run_s * int(rng.choice([1, 1, 10])), int(rng.choice([1, 2, 4]))))
    return [Job(0, 100, 200, 1), Job(0, 100, 200, 2), Job(0, 100, 200, 16), *jobs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two weeks of the small version, in the authors' form and under their names."""
    made = tmp_path_factory.mktemp("weeks")
    for week, seed in ((10166421, 8), (16944036, 17)):
        (made / f"sdscblue_1w_{week}.json").write_text(old_form(generated(seed), 16))
    return made


def test_a_file_of_the_authors_is_read_in_its_order(folder):
    week = read_week(folder / "sdscblue_1w_10166421.json")
    assert week == (tuple(generated(8)), 16)


@pytest.fixture
def outcome(folder, tmp_path, monkeypatch):
    """A function that computes an entry on the two weeks, in this process."""
    monkeypatch.setattr(core, "cpu_count", lambda: 1)
    logs = {path.name: path for path in sorted(folder.iterdir())}
    setting = {"period": [2 * DAY_S, 5 * DAY_S], "estimated": [100.0, 203.12], "real": [95.0, 190.738]}
    known = {"weeks": [10166421, 16944036], "budgets": [80.0, 70.0], "setting": {**setting, "monitoring": 600}}

    def compute(name, **given):
        how = COMPUTATIONS[name]
        context = Context(logs, tmp_path, lambda label, total: nullcontext(lambda steps: None))
        return how.compute(context, how.parameters.model_validate({**known, **given}))

    return compute


def test_a_balance_never_breaks_the_budget_and_a_cap_leaves_more_of_it(outcome):
    rules = ["EASY", "cap", "cap, not announced", "balance", "balance, head holds", "balance, real watts"]
    drawn, waits = outcome("budget-figures", rules=rules, measures=["drawn / budget (%)", "mean wait (h)"]).tables
    for budget in ("80 %", "70 %"):
        easy, cap, late, balance, holds, real = (drawn.value(rule, budget) for rule in rules)
        assert easy > 100 >= real > balance > cap
        assert max(late, holds) <= 100
        wait = {rule: waits.value(rule, budget) for rule in rules}
        assert wait["EASY"] < wait["balance, real watts"] < wait["balance"] < wait["balance, head holds"]


def test_without_its_faults_the_published_rule_keeps_the_budget_too(outcome):
    rules = ["energyBud", "energyBud, committed corrected", "energyBud, all corrected", *MODES[:2]]
    made = outcome("budget-figures", rules=rules, measures=["drawn / budget (%)", "AVEbsld"])
    drawn, bsld = made.tables
    assert max(drawn.value("energyBud", budget) for budget in drawn.columns) > 100
    assert not made.verdicts["respected"].holds
    for rule in rules[1:3]:
        assert all(drawn.value(rule, budget) <= 100 for budget in drawn.columns)
    best = all(bsld.value("energyBud", b) <= min(bsld.value(mode, b) for mode in MODES) for b in bsld.columns)
    assert made.verdicts["best-slowdown"].holds == best


def test_comparisons_are_ratios_of_sums_over_the_weeks_and_say_how_many_they_are(outcome):
    (tight, tighter) = outcome("budget-comparisons", base="balance", others=["cap", "energyBud"]).tables
    (bsld,) = outcome("budget-figures", rules=["cap", "balance"], measures=["AVEbsld"]).tables
    for table, budget in ((tight, "80 %"), (tighter, "70 %")):
        ratio = bsld.value("cap", budget) / bsld.value("balance", budget)
        assert table.value("cap / balance", "ratio") == pytest.approx(ratio)
        assert table.columns[3:] == ("p, corrected for 4", "worse in, of 2")
        assert table.value("cap / balance", "low") is None  # two weeks bound nothing
