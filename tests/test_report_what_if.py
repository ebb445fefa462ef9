import json

import numpy as np
import pytest

from batfill.policies import policy_named
from batfill.replay import replay
from batfill.report.comparison import Interval
from batfill.report.what_if import FEWEST_JOBS, Outcome, advised, groups_of, what_if
from batfill.report.what_if_page import advice_text, change
from batfill.workloads import read_workload
from batfill.workloads.generate import generate_log
from batfill.workloads.swf_log import write_log
from command import batfill, refusal


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "cluster.swf"
    write_log(generate_log(1500, 64, seed=3, users=12, load=0.9), path)
    return path


@pytest.fixture(scope="module")
def answer(log):
    return what_if(log, thresholds_h=[24, 6], small_first=False)


def test_every_choice_is_a_replay_of_the_log(log, answer):
    workload = read_workload(log)
    assert [o.name for o in answer.outcomes] == ["fcfs", "spf", "saf", "saf, threshold 6 h", "saf, threshold 24 h"]
    for outcome in answer.outcomes:
        policy = policy_named(outcome.name.partition(",")[0])
        threshold_s = np.inf if outcome.threshold_s is None else outcome.threshold_s
        figures = replay(workload.jobs, workload.procs, policy, threshold_s=threshold_s).summary()
        assert outcome.mean_bsld == pytest.approx(figures.mean_bsld)
        assert (outcome.mean_wait_s, outcome.max_wait_s) == (pytest.approx(figures.mean_wait_s), figures.max_wait_s)


def test_who_loses_waits_longer_on_average_than_under_fcfs(log, answer):
    user = read_workload(log).jobs.user
    asked = [one for one in np.unique(user) if (user == one).sum() >= FEWEST_JOBS]
    wait_s = answer.comparison.wait_s
    for k, outcome in enumerate(answer.outcomes):
        losers = [one for one in asked if wait_s[k][user == one].mean() > wait_s[0][user == one].mean()]
        assert outcome.losers == pytest.approx(len(losers) / len(asked))
    assert answer.outcomes[0].losers == 0 < max(outcome.losers for outcome in answer.outcomes)


def test_groups_by_width_length_and_user_each_hold_every_job_once(log):
    jobs = read_workload(log).jobs
    rows = [rows.astype(int) for _, rows in groups_of(jobs, 64)]
    assert len(rows) == 10
    for part in (rows[:4], rows[4:7], rows[7:]):
        assert (sum(part) == 1).all()


def test_the_heaviest_users_are_fewer_and_do_about_a_third_of_the_work(log):
    jobs = read_workload(log).jobs
    work = jobs.runtime_s * jobs.procs
    heavy, _, light = [rows for _, rows in groups_of(jobs, 64)][7:]
    assert len(np.unique(jobs.user[heavy])) < len(np.unique(jobs.user[light]))
    assert work[heavy].sum() > work.sum() / 3


def test_a_groups_difference_is_the_mean_over_its_jobs(log, answer):
    jobs = read_workload(log).jobs
    comparison = answer.comparison
    rows = dict(groups_of(jobs, 64))
    assert answer.groups
    for group in answer.groups:
        assert group.jobs == rows[group.name].sum() >= FEWEST_JOBS
        changed = (comparison.wait_s[2] - comparison.wait_s[0])[rows[group.name]].mean()
        assert group.differences[1].wait_s.mean == pytest.approx(changed)


@pytest.mark.parametrize(
    ("longest_h", "chosen"),
    [({6: 10, 12: 11, 24: 12}, 12), ({6: 12, 12: 13, 24: 14}, None), ({6: 9, 12: 9, 24: 9}, 24)],
)
def test_the_threshold_is_the_best_that_keeps_the_longest_wait(longest_h, chosen):
    def outcome(threshold_h, bsld, longest_h):
        threshold_s = threshold_h and threshold_h * 3600
        return Outcome(f"{threshold_h}", threshold_s, bsld, 0, 0, longest_h * 3600, 0)

    outcomes = [outcome(None, 100, 10), outcome(None, 1, 10)]
    outcomes += [outcome(threshold, 50 - threshold, longest) for threshold, longest in longest_h.items()]
    found = advised(outcomes)
    assert (found and found.threshold_s / 3600) == chosen


def test_a_change_says_its_unit_and_whether_it_is_beyond_chance():
    assert change(Interval(-600, -900, -300)) == "▼ -10 min<br><small>-15 to -5</small>"
    assert change(Interval(7200, 3600, 10800)) == "▲ +2.0 h<br><small>+1.0 to +3.0</small>"
    assert change(Interval(30, -30, 90)) == "+30 s<br><small>-30 to +90</small>"


def test_the_command_prints_a_table_and_writes_a_page(log, answer, tmp_path):
    page = tmp_path / "page.html"
    done = batfill("what-if", log, "--threshold", "6h", "--threshold", "24h", "--no-small-first", "-o", page)
    assert (done.status, done.err) == (0, f"batfill: look at it in a browser: {page}\n")
    assert advice_text(answer) in done.out
    assert "Who gains, who loses" in page.read_text()


def test_the_command_prints_json(log, answer):
    done = batfill("what-if", log, "--threshold", "6h", "--threshold", "24h", "--no-small-first", "--json")
    assert json.loads(done.out) == json.loads(json.dumps(answer.as_dict()))


def test_a_classifier_puts_small_jobs_first(log):
    outcomes = what_if(log, thresholds_h=[], seed=1).outcomes
    assert [o.name for o in outcomes] == ["fcfs", "spf", "saf", "small first"]
    assert outcomes[3].mean_bsld not in {outcomes[0].mean_bsld, outcomes[1].mean_bsld}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--threshold", "0"], "option threshold"),
        (["--tau", "0"], "option tau"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_a_mistake_is_refused_in_one_line(log, options, words):
    assert words in refusal("what-if", log, *options)


def test_a_log_wider_than_the_machine_is_refused(tmp_path):
    path = tmp_path / "wide.swf"
    path.write_text("1 0 0 10 8 -1 -1 8 20 -1 1 1 1 1 1 1 -1 -1\n")
    assert "no job fits 4 processors" in refusal("what-if", path, "--procs", 4)
