"""What a page holds of a run with too many jobs: a sample of the jobs, and curves of all."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batfill_pages.runs import find_runs
from batfill_pages.sample import curves_of_all, only_rows, sampled, span_s
from batfill_pages.steps import Steps
from batfill_pages.write import write_report
from report_runs import CUT, KILLED, OK, REJECTED, jobs_csv

OPENING = Path(__file__).parents[2] / "benchmarks" / "opening.js"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on PATH")


@pytest.fixture
def by_hand(tmp_path):
    """Jobs with several tries, one that was rejected, and one that waited longest."""
    path = jobs_csv(
        tmp_path / "by-hand_jobs.csv",
        f"a,0,2,100,{KILLED},2,20,5-6",
        f"a#1,0,2,100,{KILLED},40,10,0-1",
        f"a#2,0,2,100,{OK},60,10,0-1 3",
        f"b,0,4,10,{OK},0,10,0-1 3-4",
        f"c,5,1,-1,{OK},6,0.00001,9",
        f"d,7,99,5,{REJECTED},,,",
        f"e,8,1,50,{CUT},1008,50,2",
    )
    return find_runs([path])[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("most_rows", [1, 2, 3, 4, 5, 6])
def test_a_sample_has_whole_jobs_and_no_more_rows_than_allowed(by_hand, seed, most_rows):
    sample = sampled(by_hand, most_rows, seed)
    assert len(sample.rows) <= most_rows
    ids = by_hand.ids[sample.rows].tolist()
    assert all(ids.count(job) == by_hand.ids.tolist().count(job) for job in ids)
    assert len(set(ids)) == sample.jobs
    assert "e" in ids  # it waited longest
    assert sample.of_jobs == 5
    part = only_rows(by_hand, sample.rows)
    for i, row in enumerate(sample.rows):
        ends = [slice(*machines.offset[k : k + 2]) for machines, k in ((part.machines, i), (by_hand.machines, row))]
        assert part.machines.first[ends[0]].tolist() == by_hand.machines.first[ends[1]].tolist()
        assert part.machines.last[ends[0]].tolist() == by_hand.machines.last[ends[1]].tolist()


def test_runs_of_the_same_jobs_draw_the_same_jobs(runs):
    drawn = [set(run.ids[sample.rows[sample.drawn]].tolist()) for run in runs for sample in [sampled(run, 100, 0)]]
    few, many = sorted(drawn, key=len)
    assert few <= many
    assert len(many - few) <= 10  # as the longest waits of some runs are drawn, too


def test_the_longest_waits_are_all_in_the_sample(runs):
    run = runs[1]
    sample = sampled(run, 200, 3)
    assert sample.longest == 20
    assert set(np.argsort(-run.wait_s, kind="stable")[:20].tolist()) <= set(sample.rows.tolist())
    assert run.wait_s[sample.rows].max() == run.wait_s.max()


def test_jobs_drawn_are_a_fair_sample_of_all(runs):
    run = runs[0]
    means = [run.wait_s[sample.rows[sample.drawn]].mean() for seed in range(300) for sample in [sampled(run, 80, seed)]]
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - run.wait_s.mean()) < 4 * error
    with_longest = [run.wait_s[sampled(run, 80, seed).rows].mean() for seed in range(300)]
    assert np.mean(with_longest) - run.wait_s.mean() > 4 * error  # so the means leave these out


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9)), max_size=20), st.integers(1, 12))
def test_bins_are_means_second_by_second(intervals, n_bins):
    seconds = np.zeros(100 * n_bins)  # each second in as many parts as there are bins
    for begin, length, amount in intervals:
        seconds[begin * n_bins : (begin + length) * n_bins] += amount
    begin_s, length_s, amount = np.array(intervals, float).reshape(-1, 3).T
    edges_s = np.linspace(0.0, 100.0, n_bins + 1)
    steps = Steps.of(begin_s, begin_s + length_s, amount, edges_s)
    assert steps.means(edges_s) == pytest.approx(seconds.reshape(n_bins, 100).mean(axis=1), abs=1e-9)
    assert steps.most(edges_s) == pytest.approx(seconds.reshape(n_bins, 100).max(axis=1), abs=1e-9)


def test_curves_count_each_try_and_its_wait_from_the_end_of_the_try_before(by_hand):
    begin_s, end_s = span_s(by_hand)
    assert (begin_s, end_s) == (0, 1058)
    used, waiting = curves_of_all(by_hand, n_bins=1058)
    # a runs on 2 of 10 machines from 2, 40 and 60; b on 4 from 0; e from 1008 on one
    assert used[[0, 1, 5, 12, 25, 45, 65, 500, 1010]] == pytest.approx([0.4, 0.4, 0.6, 0.2, 0, 0.2, 0.2, 0, 0.1])
    # a waits from 0 to 2, 22 to 40 and 50 to 60; c from 5 to 6; e from 8 to 1008
    assert waiting[[0, 2, 5, 7, 8, 25, 45, 55, 65, 1010]] == pytest.approx([1, 0, 1, 0, 1, 2, 1, 2, 1, 0])


def opened(page, number=0):
    """What the page says when its script has run."""
    done = subprocess.run([NODE, OPENING, page, str(number)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@needs_node
def test_a_page_of_a_sample_says_so_and_draws_the_curves_of_all(folder, tmp_path, monkeypatch):
    (whole,) = write_report([folder / "saf"], tmp_path / "whole.html")
    monkeypatch.setattr("batfill_pages.write.SAMPLE_ROWS", 100)
    (part,) = write_report([folder / "saf"], tmp_path / "part.html")
    all_jobs, some = opened(whole), opened(part)
    assert all_jobs["matching"].startswith("All jobs: 800 jobs ran, mean wait ")
    assert re.match(r"Of the sample, all rows match: 100 jobs ran \(longest wait .*\); the 9\d drawn", some["matching"])
    longest = re.search(r"longest (.*?)\)", all_jobs["matching"])[1]
    assert f"(longest wait {longest})" in some["matching"]
    assert (some["from"], some["to"]) == (all_jobs["from"], all_jobs["to"])
    for curve, most in (("used", 100), ("waiting", max(all_jobs["waiting"]))):
        assert np.abs(np.subtract(some[curve], all_jobs[curve])).mean() < 0.005 * most
        assert np.mean(some[curve]) == pytest.approx(np.mean(all_jobs[curve]), rel=1e-3)
