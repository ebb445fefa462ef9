"""The energy budgets of CCGrid 2017: the program's four faults on paper, weeks cut and read, and a small reproduction."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("pydantic")

from command import batfill, refusal
from studies.papers import core
from studies.papers.budgets import cut, options_of, read_week, starts
from studies.papers.core import Context
from studies.papers.energybud import MODES, Job, Limits, Watts, published_starts
from studies.papers.protocol import COMPUTATIONS, PROTOCOLS
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
