"""Run times that are predicted, bounded or known: what a replay makes of them."""

from __future__ import annotations

import json
import math
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.learn import Judgement, Knowledge, SubmittedJob
from batfill.learn.estimates import ClassClairvoyant, LastTwo, OnlineRegression, OrderOnly, UserEstimate, UserHistory
from batfill.learn.events import KnowledgeByName
from batfill.learn.habits import History
from batfill.learn.predictor import make
from batfill.learn.quantiles import RollingMedian
from batfill.live.request import job_request
from batfill.model.kinds import Divider
from batfill.model.options import Options
from batfill.model.policy import Policy, policy_named
from batfill.model.rules import Rules
from batfill.replays.engine_replay import EngineReplay, replay_jobs
from batfill.replays.learning import LearningReplay
from batfill.workloads import read_workload
from batfill.workloads.convert import convert
from strategies import outliving, random_table, table
from sweeps import sweep
from swf_text import row as logged


class Told(Knowledge):
    """Expects and calls small what it is told to; notes what it hears."""

    name = "told"
    classifies = True

    def __init__(self, expected_s=None, small=(), divider_s=math.inf, outlived=False):
        self.expected_s, self.small, self.outlived = expected_s or {}, small, outlived
        self.divider_s = divider_s
        self.heard = []

    def judge(self, job):
        self.heard.append(("judge", job.row))
        return Judgement(self.expected_s.get(job.row, job.expected_s), job.row in self.small)

    def ended(self, job, runtime_s, end_s):
        self.heard.append(("ended", job.row, runtime_s, end_s))

    def killed(self, job, ran_s):
        self.heard.append(("killed", job.row, ran_s))


def drive(jobs, size, knowledge, policy="fcfs", threshold_s=math.inf, **options):
    rules = Rules(policy_named(policy), threshold_s=threshold_s, outlived=knowledge.outlived)
    return LearningReplay(EngineReplay(jobs, size, rules, learns=True), knowledge, **options).finish()


def starts(driven):
    return driven.schedule.start_s.tolist()


OUTLIVING = outliving(random_table(5, n_jobs=300, size=8, span_s=1500, short=0.5), 90.0)


@pytest.mark.parametrize(
    *sweep(
        2,
        policy=["fcfs", "spf", "saf", "wfp3"],
        threshold_s=[math.inf, 100.0, 20_000.0],
        knowledge=[UserEstimate, Told],
    )
)
def test_a_replay_driven_by_the_users_word_is_the_plain_one(policy, threshold_s, knowledge):
    assert (OUTLIVING.runtime_s > OUTLIVING.expected_s).sum() > 50
    for jobs in (random_table(1, n_jobs=400, size=8, span_s=1500), OUTLIVING):
        plain = replay_jobs(jobs, 8, Rules(policy_named(policy), threshold_s=threshold_s))
        driven = drive(jobs, 8, knowledge(), policy, threshold_s)
        assert driven.schedule.start_s.tobytes() == plain.start_s.tobytes()
        assert driven.schedule.order.tobytes() == plain.order.tobytes()


@pytest.mark.parametrize("policy", ["fcfs", "spf", "saf", "wfp3", "lexp"])
def test_clairvoyance_is_a_replay_in_which_users_ask_for_what_they_need(policy):
    learning = Options.of({"predict": "runtime", "predict-for": "all"})
    for jobs in (random_table(2, n_jobs=300, size=8, span_s=1200), OUTLIVING):  # these know the whole run time
        ran_s = jobs.runtime_s if jobs.outlives else np.minimum(jobs.runtime_s, jobs.walltime_s)
        exact = EngineReplay(jobs, 8, Rules(policy_named(policy)), expected_s=np.maximum(ran_s, 1e-9))
        exact.advance()
        driven = drive(jobs, 8, make(learning, jobs, None), policy)
        assert driven.schedule.start_s.tobytes() == exact.schedule().start_s.tobytes()


KNOWN = [
    {},
    *({"predict": name, "predict-for": "all"} for name in ("easy++", "regression", "runtime")),
    *({"small": name} for name in ("all", "perfect")),
    {"small": "all", "divider": "median/4"},
    {"small": "perfect", "divider": 50},
]
FOREST = pytest.param({"small": "forest"}, marks=pytest.mark.needs("sklearn"))


@pytest.mark.parametrize(
    *sweep(
        2,
        backfill=[None, "spf", "lpf"],
        policy=["fcfs", "spf", "saf", "f4", "mixed:1,2,3,4,0,5"],
        jobs=[random_table(2, n_jobs=300, size=8, span_s=1200), OUTLIVING],
    )
)
def test_predictions_that_only_order_replay_as_orders_with_the_run_times_built_in(policy, backfill, jobs):
    runtime_s = np.maximum(np.minimum(jobs.runtime_s, jobs.walltime_s), 1e-9)

    def built_in(name):
        return Policy(f"{name} of p", lambda r, p, q: policy_named(name).key(r, runtime_s, q))

    def rules(named, **more):
        return Rules(named(policy), named(backfill) if backfill else None, threshold_s=20_000.0, **more)

    exact = replay_jobs(jobs, 8, rules(built_in))
    learning = Options.of({"predict": "runtime", "predict-for": "order"})
    run = EngineReplay(jobs, 8, rules(policy_named, outlived=learning.outlived), learns=True)
    driven = LearningReplay(run, make(learning, jobs, None)).finish()
    assert driven.schedule.start_s.tobytes() == exact.start_s.tobytes()
    assert driven.schedule.order.tobytes() == exact.order.tobytes()


def test_a_prediction_that_only_orders_moves_no_reservation():
    # 4 processors. Job 0 holds 2 for its 100 s; job 1 needs all. Job 2 asks for 150 s and is predicted to run 10 s, so
    # SPF puts it before job 3; it would end after the reservation at 100 if it ran for what it asks.
    jobs = table([(0, 100, 100, 2), (1, 5, 5, 4), (2, 10, 150, 1), (3, 20, 20, 1)])
    assert starts(drive(jobs, 4, Told({2: 10.0}), "spf")) == [0, 100, 2, 3]
    assert starts(drive(jobs, 4, OrderOnly(Told({2: 10.0})), "spf")) == [0, 100, 105, 3]


@pytest.mark.parametrize("policy", ["fcfs", "saf", "wfp3"])
def test_classes_told_while_it_runs_are_as_good_as_classes_in_the_workload(policy):
    jobs = random_table(3, n_jobs=400, size=10, span_s=1500, small=0.5)
    plain = replay_jobs(jobs, 10, Rules(policy_named(policy), divider_s=12.0, threshold_s=200.0))
    small = set(np.flatnonzero(jobs.job_class == 1).tolist())
    driven = drive(jobs, 10, Told(small=small, divider_s=12.0), policy, 200.0, kill=True)
    assert plain.requeued.any()
    np.testing.assert_array_equal(driven.schedule.start_s, plain.start_s)
    np.testing.assert_array_equal(driven.schedule.kills, plain.kills)


def test_a_knowledge_hears_of_each_end_and_kill_before_the_next_submission_in_the_order_of_time():
    # One processor. Job 0 is small and runs 30 s, so it is killed at 10; it runs again from 15 on, after job 1.
    jobs = table([(0, 30, 40, 1), (5, 5, 5, 1), (10, 2, 2, 1), (16, 3, 3, 1), (60, 1, 1, 1)])
    knowledge = Told(small={0, 1}, divider_s=10.0)
    driven = drive(jobs, 1, knowledge, kill="always")
    assert starts(driven) == [15, 10, 45, 47, 60]
    assert knowledge.heard == [
        ("judge", 0),
        ("judge", 1),
        ("judge", 2),  # at 10, when job 0 is killed: that is not known yet
        ("killed", 0, 10.0),
        ("ended", 1, 5.0, 15.0),
        ("judge", 3),
        ("ended", 0, 30.0, 45.0),
        ("ended", 2, 2.0, 47.0),
        ("ended", 3, 3.0, 50.0),
        ("judge", 4),
    ]


def test_a_job_that_outlives_its_expectation_is_expected_a_minute_later_then_five_and_never_beyond_its_walltime():
    # Job 0 holds 1 of 2 processors for 1000 s, is expected to run 10 s and asks for 2000. Job 1 needs both.
    # Expected ends: 10; from 10 on 70; from 70 on 370; from 370 on 1270.
    rows = [(0, 1000, 2000, 1), (1, 5, 5, 2), (65, 4, 4, 1), (66, 5, 5, 1), (80, 280, 280, 1), (371, 800, 800, 1)]
    driven = drive(table(rows), 2, Told({0: 10.0}, outlived=True))
    # At 65 a job of 4 s fits before 70. At 66 there is no processor for job 3, and from 69 on its 5 s do not end before
    # 70; at 80 the shadow is at 370, so it runs, and from 85 on the 280 s of job 4 fit, too.
    assert starts(driven) == [0, 1171, 65, 80, 85, 371]
    bounded = table([(0, 100, 100, 1), (1, 5, 5, 2), (95, 5, 5, 1), (95, 6, 6, 1)])
    assert starts(drive(bounded, 2, Told({0: 90.0}, outlived=True))) == [0, 100, 95, 105]


def test_while_a_kill_is_certain_the_divider_is_the_latest_end_and_after_it_the_whole_request_counts_again():
    # Job 0 asks for 1000 s, is small, and holds 1 of 2 processors; job 1 needs both. Job 2 of 10 s fits before 1000 but
    # not before 10. At 10 job 0 is killed and, being the oldest, runs at once again, expected for its whole request.
    jobs = table([(0, 500, 1000, 1), (1, 5, 5, 2), (2, 10, 10, 1)])
    assert starts(drive(jobs, 2, Told(small={0}, divider_s=10.0), kill=True)) == [10, 510, 2]
    assert starts(drive(jobs, 2, Told(small={0}, divider_s=10.0), kill=True, bound=True)) == [10, 510, 10]
    # The second try of job 0 is expected to end at 1010, so the 900 s of job 3 fit beside it before job 1.
    jobs = table([(0, 500, 1000, 1), (1, 5, 5, 2), (19, 3, 3, 2), (20, 900, 900, 1)])
    driven = drive(jobs, 2, Told(small={0}, divider_s=10.0), kill=True, bound=True)
    assert driven.schedule.requeued.tolist() == [True, False, False, False]
    assert driven.schedule.start_s[3] == 20


def test_a_job_that_must_not_be_killed_goes_first_and_runs_to_its_end():
    jobs = table([(0, 50, 60, 1), (1, 5, 5, 1), (2, 30, 60, 1)])
    killable = np.array([True, True, False])
    driven = drive(jobs, 1, Told(small={2}, divider_s=10.0), kill=True, bound=True, killable=killable)
    assert starts(driven) == [0, 80, 50]
    assert not driven.schedule.requeued.any()


def test_easy_plus_plus_takes_the_mean_of_the_users_last_two_and_at_most_the_request():
    easy, job = LastTwo(), SubmittedJob(0, 0.0, 100.0, 1, 7)
    assert easy.judge(job).expected_s == 100
    for runtime_s in (1.0, 20.0, 40.0):
        easy.ended(job, runtime_s, 0.0)
    assert easy.judge(job).expected_s == 30
    assert easy.judge(job._replace(expected_s=25.0)).expected_s == 25
    assert easy.judge(job._replace(user=8)).expected_s == 100


RAISED = SubmittedJob(0, 10.0, 500.0, 1, 7, request_s=100.0)  # it ran 500 s
AS_ASKED = SubmittedJob(0, 10.0, 100.0, 1, 7, request_s=100.0)
UNKNOWN = SubmittedJob(0, 10.0, 500.0, 1, 7, request_s=math.nan)


def test_a_raised_limit_does_not_reach_features_or_predictions():
    forest, regression = History(), UserHistory()
    assert forest.place(RAISED) == forest.place(AS_ASKED)
    assert regression.features(RAISED) == regression.features(AS_ASKED)
    for predictor in (LastTwo(), OnlineRegression()):
        assert predictor.judge(RAISED) == predictor.judge(AS_ASKED)
        for runtime_s in (300.0, 800.0):
            predictor.judge(RAISED)
            predictor.ended(RAISED, runtime_s, 5.0)
        assert predictor.judge(RAISED) == predictor.judge(AS_ASKED)
        assert predictor.judge(RAISED).expected_s <= 100


def test_an_unknown_request_is_told_apart_from_every_request():
    features = [History().place(job).own for job in (UNKNOWN, AS_ASKED, SubmittedJob(0, 10.0, math.inf, 1, 7))]
    assert [own[0] for own in features] == [0, 100, 0]
    history = UserHistory()
    assert [history.features(job)[-1] for job in (UNKNOWN, AS_ASKED)] == [1, 0]
    assert UserHistory().features(UNKNOWN) == UserHistory().features(UNKNOWN._replace(expected_s=900.0))


def test_replays_and_the_plug_in_show_learners_the_same_requests(tmp_path):
    log, made = tmp_path / "log.swf", tmp_path / "made.json"
    runs = "".join(logged(k + 1, k, 50, req_time=request_s) for k, request_s in enumerate((40, 50, 60, -1)))
    log.write_text("; MaxProcs: 4\n" + runs)
    for overrun in ("keep", "kill", "extend"):
        convert(log, made, overrun=overrun)
        for path in (log, made):
            jobs = read_workload(path, overrun=overrun).jobs
            run = EngineReplay(jobs, 4, Rules(policy_named("fcfs")), learns=True)
            assert [job.known_request_s for job in LearningReplay(run, UserEstimate()).jobs] == [40, 50, 60, 0]
        seen = KnowledgeByName(UserEstimate())
        for fields in json.loads(made.read_text())["jobs"]:
            request = job_request(fields["id"], fields, set())
            given = {"user": 1, "killable": True, "request_s": request.request_s}
            seen.judge(request.name, request.submit_s, request.expected_s, request.procs, **given)
        assert [job.known_request_s for job in seen.jobs.values()] == [40, 50, 60, 0]


def test_the_regression_learns_that_users_need_a_tenth_of_what_they_ask_for():
    rng = np.random.default_rng(0)
    regression = OnlineRegression()
    errors = []
    for row, walltime_s in enumerate(rng.choice([3600.0, 7200.0, 36_000.0], 3000)):
        job = SubmittedJob(row, 60.0 * row, float(walltime_s), 4, int(rng.integers(5)))
        errors.append(abs(regression.judge(job).expected_s - walltime_s / 10))
        regression.ended(job, walltime_s / 10, 60.0 * row)
    assert np.mean(errors[-500:]) < 0.2 * np.mean(errors[:20])
    assert regression.judge(job).expected_s <= job.expected_s


@settings(deadline=None)
@given(st.lists(st.integers(0, 50).map(float), min_size=1))
def test_a_rolling_median_is_the_median(values):
    median = RollingMedian()
    assert median.value == math.inf
    for n, value in enumerate(values, 1):
        median.add(value)
        assert median.value == np.median(values[:n])


@pytest.mark.parametrize(("part", "divider_s"), [("median", 10.0), ("median/4", 2.0), ("median/100", 1.0), ("7", 7.0)])
def test_a_part_of_the_median_is_a_divider_of_whole_seconds(part, divider_s):
    knowledge = make(Options.of({"small": "all", "divider": part}), None, None)
    job = SubmittedJob(0, 0.0, 100.0, 1, 0)
    knowledge.ended(job, 10.0, 0.0)
    knowledge.renew(1.0)
    assert knowledge.divider_s == divider_s
    assert knowledge.judge(job).small


def test_class_clairvoyance_calls_small_what_runs_shorter_than_the_median_of_what_has_ended():
    knowledge = ClassClairvoyant(np.array([5.0, 9.0, 4.0, 7.0]), Divider())
    job = SubmittedJob(2, 0.0, 100.0, 1, 0)
    knowledge.renew(0.0)
    assert not knowledge.judge(job).small
    for runtime_s in (5.0, 9.0):
        knowledge.ended(job, runtime_s, 0.0)
    knowledge.renew(1.0)
    assert knowledge.divider_s == 7
    assert knowledge.judge(job).small
    assert not knowledge.judge(job._replace(row=3)).small


@pytest.mark.parametrize("known", [*KNOWN, FOREST], ids=str)
def test_every_knowledge_listed_drives_a_replay_to_its_end(known):
    jobs = random_table(5, n_jobs=300, size=8, span_s=2_000_000, longest=3000, unit_s=10)
    driven = drive(jobs, 8, make(Options.of(known), jobs, None), "saf")
    np.testing.assert_array_equal(np.isfinite(driven.schedule.start_s), jobs.procs <= 8)
    no_jobs = jobs.select(slice(0))
    assert not len(drive(no_jobs, 8, make(Options.of(known), no_jobs, None)).schedule.jobs)


def test_what_knows_the_future_cannot_serve_where_there_is_none():
    with pytest.raises(BatfillError, match="which only a replay has"):
        make(Options.of({"predict": "runtime", "predict-for": "all"}), None, None)


class Half(Knowledge):
    """Expects half of the request; counts the jobs that it has seen."""

    name = "half of the request"
    seen = 0

    def judge(self, job):
        self.seen += 1
        return Judgement(job.expected_s / 2)


class Narrow(Knowledge):
    """Calls narrow jobs small."""

    name, classifies, divider_s = "narrow", True, 60.0

    def judge(self, job):
        return Judgement(job.expected_s, job.procs <= 2)


@pytest.mark.needs("pandas")
def test_a_predictor_of_ones_own_is_driven_as_by_hand_and_is_the_same_in_each_replay():
    log, own = bf.generate(jobs=300, procs=16, seed=3), Half()
    expected = {row: request_s / 2 for row, request_s in enumerate(log.jobs.expected_s.tolist())}
    by_hand = starts(drive(log.jobs, 16, Told(expected)))
    found = bf.replay(log, predict=own, predict_for="all")
    assert found.schedule.start_s.tolist() == by_hand
    assert found == bf.replay(log, predict=own, predict_for="all")
    assert own.seen == 0
    assert found.options.as_dict()["predict"] == json.loads(found.as_json())["options"]["predict"] == "Half"
    many = bf.replay_many(log, ["fcfs"], predict=own, predict_for="all")
    assert many["mean_wait_s"].tolist() == [found.figures.mean_wait_s]
    assert found.schedule.start_s.tolist() != bf.replay(log).schedule.start_s.tolist()


def test_a_classifier_of_ones_own_has_its_divider_and_kills():
    log = bf.generate(jobs=300, procs=16, seed=3)
    small = set(np.flatnonzero(log.jobs.procs <= 2).tolist())
    by_hand = drive(log.jobs, 16, Told(small=small, divider_s=60.0), kill=True, bound=True)
    found = bf.replay(log, small=Narrow(), kill="always")
    assert found.schedule.start_s.tolist() == starts(by_hand)
    assert len(found.schedule.kills) == len(by_hand.schedule.kills) > 0
    assert found.options.as_dict()["small"] == "Narrow"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"predict": Half}, "nor an object with the members of batfill.learn.Knowledge, name, classifies"),
        ({"predict": Narrow()}, "Narrow classifies; give it as small"),
        ({"small": Half()}, "Half does not classify; give it as predict"),
        ({"small": Narrow(), "divider": 60}, "option divider: no divider decides which jobs are small"),
    ],
)
def test_an_object_that_cannot_predict_is_refused(options, said):
    with pytest.raises(BatfillError, match=said):
        bf.replay(bf.generate(jobs=3, procs=4, seed=1), **options)


PREDICTED = "job,expected_s,p90\n"


@pytest.mark.parametrize("use", ["order", "all"])
def test_predictions_of_a_file_are_those_of_who_knows_them(tmp_path, use):
    log, path = bf.generate(jobs=300, procs=16, seed=3), tmp_path / "mine.csv"
    jobs, whole = log.jobs, {"policy": "saf", "predict_for": use}
    rows = zip(jobs.ids.tolist(), jobs.runtime_s.tolist(), (10 * jobs.request_s).tolist(), strict=True)
    path.write_text(PREDICTED + "7777,1,1\n" + "".join(f"{job},{max(s, 1e-9)},{most}\n" for job, s, most in rows))
    found = bf.replay(log, predict=str(path), **whole)
    known = bf.replay(log, predict="runtime", **whole).schedule.start_s
    assert found.schedule.start_s.tolist() == known.tolist() != bf.replay(log, "saf").schedule.start_s.tolist()
    stated = json.loads(found.as_json())
    assert stated["options"]["predict"] == f"{path},column=expected_s"
    assert stated["predict_sha256"] == sha256(path.read_bytes()).hexdigest()
    # A prediction above the request is the request.
    above = bf.replay(log, predict=f"{path},column=p90", **whole).schedule.start_s
    assert above.tolist() == bf.replay(log, "saf").schedule.start_s.tolist()


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        (
            PREDICTED,
            ",column=p99",
            "line 1: there is no column p99; option predict: a file of predictions",
        ),
        ("expected_s\n1\n", "", "line 1: there is no column job"),
        (f"{PREDICTED}1,-3,1\n", "", "line 2: expected_s '-3' is no number of seconds > 0"),
        (f"{PREDICTED}1,1,1\n2,nan,1\n", "", "line 3: expected_s 'nan' is no number"),
        (f"{PREDICTED}1,1,1\n2,soon,1\n", "", "line 3: expected_s 'soon' is no number"),
        (f"{PREDICTED}1,1,1\n01,2,1\n", "", "line 3: job '01' stands twice"),
        (f"{PREDICTED},1,1\n", "", "line 2: job '' is no id"),
        ("job,job,expected_s\n", "", "line 1: column 'job' stands twice"),
        (PREDICTED, ",columns=p90", "columns=p90' is neither FILE.csv nor FILE.csv,column=NAME"),
        (PREDICTED, ".gz", "gz' is neither FILE.csv nor"),
        (f"{PREDICTED}1\n", "", "line 2: has too few values"),
        (f"{PREDICTED}0,1,1\n1,1,1\n", "", "has no expected_s of job 02; add a line, with its request"),
    ],
)
def test_a_file_that_does_not_predict_every_job_is_refused(tmp_path, text, more, said):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(BatfillError, match=rf"mine\.csv(: |,|\.){said}"):
        bf.replay(bf.generate(jobs=12, procs=4, seed=1), predict=f"{tmp_path / 'mine.csv'}{more}")


@pytest.mark.parametrize("expected_s", [0.0, math.nan, math.inf, -1.0])
def test_a_prediction_that_cannot_be_is_refused(expected_s):
    own = Half()
    own.judge = lambda job: Judgement(expected_s)
    with pytest.raises(BatfillError, match=r"half of the request expects .* s of job .*1; give more than 0 s"):
        bf.replay(bf.generate(jobs=3, procs=4, seed=1), predict=own, predict_for="all")
    with pytest.raises(BatfillError, match="cannot stop"):
        bf.Replay(bf.generate(jobs=3, procs=4, seed=1), predict=own)
