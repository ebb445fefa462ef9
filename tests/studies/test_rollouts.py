"""Rollouts: the features seen in RLScheduler's simulator, and sequences under networks and orders in both semantics."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batfill as bf
import gym_oracle
import swf_text
from batfill.base.errors import PolicyError, WorkloadError
from batfill.engine.features import FEATURES, FEATURES_OF_CLUSTER, FEATURES_OF_JOB
from batfill.model.policy import POLICIES, aged
from batfill.model.rules import Rules
from batfill.replays.engine_replay import replay_jobs
from studies.rlscheduler.features import see_gym
from studies.rlscheduler.rollouts import (
    costs_in_gym,
    firsts_within,
    ordered_in_gym,
    rows_of,
    starts_in_easy,
    starts_in_gym,
)
from studies.rlscheduler.schedgym import GymLog, Jobs, Machine, begin, new_state, pick, read_gym_log, slowdowns

ROOT = Path(__file__).parents[2]
HOUR_S = 3600


def log_of(rows, nodes, procs_per_node):
    """The log of (submit, run time, request, processors) rows."""
    submit, runtime, request, procs = np.array(rows, np.int64).reshape(-1, 4).T.copy()  # contiguous, as of a file
    jobs = Jobs(submit, runtime, request, procs, np.ceil(procs / procs_per_node).astype(np.int64))
    return GymLog(Path("made"), jobs, Machine(nodes, procs_per_node), np.arange(len(rows)) + 1)


@st.composite
def small_logs(draw, longest_s=9):
    """(rows, nodes, processors per node): few nodes, so that jobs wait; requests may be unknown or too short."""
    nodes, procs_per_node = draw(st.integers(1, 6)), draw(st.sampled_from([1.0, 1.5, 2.0]))
    row = st.tuples(
        st.sampled_from([0, 0, 1, 5]),
        st.integers(1, longest_s),
        st.integers(-1, longest_s),
        st.integers(0, int(nodes * procs_per_node)),
    )
    rows = draw(st.lists(row, min_size=2, max_size=25))
    submit = np.cumsum([gap for gap, *_ in rows]).tolist()
    return [(at, *rest) for at, (_, *rest) in zip(submit, rows, strict=True)], nodes, procs_per_node


def linear(**weights):
    """The network that scores jobs by these features."""
    column = np.zeros((FEATURES, 1))
    for name, weight in weights.items():
        column[list(FEATURES_OF_JOB).index(name)] = weight
    return bf.network_of([(column, np.zeros(1))])


def seen_plainly(simulator, seen, visible):
    """The features by their documented formulas: {name: value} of each visible job, and of the cluster."""
    now_s, each = simulator.now_s, simulator.procs_per_node
    size = (simulator.free_nodes + sum(map(simulator.nodes, simulator.running))) * each
    simulator.queue.sort(key=simulator.submit_s)
    head = simulator.queue[0]
    free = simulator.free_nodes * each
    shadow_s, extra = now_s, free - simulator.nodes(head) * each
    if not simulator.fits(head):
        shadow_s = simulator.shadow_s(head)
        ended = [row for row in simulator.running if simulator.expected_end_s(row) <= shadow_s]
        extra += sum(map(simulator.nodes, ended)) * each

    def free_in(seconds):
        ended = [row for row in simulator.running if simulator.expected_end_s(row) <= now_s + seconds]
        return free + sum(map(simulator.nodes, ended)) * each

    of_jobs, work = [], 0
    for row in simulator.queue[:seen]:
        submit_s, _, request_s, procs = simulator.jobs[row]
        procs = max(procs, 1)
        wait_s, p = now_s - submit_s, max(request_s, 1)
        work += p * procs
        fits = simulator.fits(row)
        ahead = row == head or now_s + request_s < shadow_s
        of_jobs.append(
            {
                "wait": math.log2(1 + wait_s / 60) / 16,
                "long_wait": math.log2(1 + wait_s / (10 * HOUR_S)) / 8,
                "expansion": wait_s / (wait_s + p),
                "request": math.log2(p) / 20,
                "procs": math.log2(procs) / math.log2(size) if size > 1 else 0,
                "share": procs / size,
                "request_x_share": math.log2(p) / 20 * procs / size,
                "fits": procs <= free,
                "safe": fits and ahead,
            }
        )
    ahead_s = max(shadow_s - now_s, 0)
    return of_jobs, {
        "free": free / size,
        "free_1h": free_in(HOUR_S) / size,
        "free_8h": free_in(8 * HOUR_S) / size,
        "waiting": len(simulator.queue) / (len(simulator.queue) + visible),
        "work": work / (work + size * 24 * HOUR_S),
        "shadow": ahead_s / (ahead_s + HOUR_S),
        "extra": extra / size,
    }


@settings(max_examples=60, deadline=None)
@given(small_logs(longest_s=40_000), st.booleans(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_features_are_those_of_the_formulas(made, backfill, visible, random):
    rows, nodes, procs_per_node = made
    log, state = log_of(*made), new_state(1, len(rows))
    plain = gym_oracle.Simulator(rows, nodes=nodes, procs_per_node=procs_per_node, start=0, n=len(rows))
    begin(log.jobs, log.machine, state, 0, 0)
    while True:
        if not (waiting := int(state.at[0]["waiting"])):
            break
        seen = min(waiting, visible)
        of_jobs = np.full((visible, len(FEATURES_OF_JOB)), -9, np.float32)
        of_cluster = np.zeros(len(FEATURES_OF_CLUSTER), np.float32)
        see_gym(log.jobs, log.machine, state, 0, seen, of_jobs, of_cluster)
        jobs, cluster = seen_plainly(plain, seen, visible)
        expected = np.array([[one[name] for name in FEATURES_OF_JOB] for one in jobs], float)
        np.testing.assert_allclose(of_jobs[:seen], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(of_cluster, [cluster[name] for name in FEATURES_OF_CLUSTER], rtol=1e-5, atol=1e-6)
        assert (of_jobs[seen:] == -9).all()
        place = random.randrange(waiting)
        plain.pick(plain.queue[place], backfill)
        pick(log.jobs, log.machine, state, 0, place, backfill)


@settings(max_examples=40, deadline=None)
@given(small_logs(), st.booleans())
def test_a_network_that_knows_only_the_request_plays_the_shortest_job_first(made, backfill):
    rows, *machine = made
    log = log_of([(r, p, max(request, 1), q) for r, p, request, q in rows], *machine)
    for network, heuristic in ((linear(request=-1), "sjf"), (linear(), "fcfs")):
        found = starts_in_gym(log, network, [0, 0], n=len(rows), backfill=backfill, threads=1)
        # Jobs of one second stay by number: only heuristics sort them (quirk 9).
        column = {"sjf": 2, "fcfs": 0}[heuristic]
        expected = by_key(log, lambda now_s, job, column=column: job[column], backfill)
        assert found.tolist() == [expected] * 2


def by_key(log, key, backfill, overdue_s=math.inf):
    """The start times in the plain simulator with key(now_s, job), lowest first, ties by number."""
    jobs = list(zip(*(column.tolist() for column in log.jobs[:4]), strict=True))
    nodes, each = log.machine
    simulator = gym_oracle.Simulator(jobs, nodes=nodes, procs_per_node=each, start=0, n=len(jobs))
    deciding = True
    while deciding:
        now_s = simulator.now_s
        oldest = min(simulator.queue, key=lambda row: (jobs[row][0], row))
        best = min(simulator.queue, key=lambda row: (key(now_s, jobs[row]), jobs[row][0], row))
        if now_s - jobs[oldest][0] > overdue_s:
            best = oldest
        simulator.queue.sort()
        deciding = simulator.pick(best, backfill)
    return [simulator.start_s[row] for row in range(len(jobs))]


@settings(max_examples=60, deadline=None)
@given(small_logs(), st.booleans(), st.sampled_from([math.inf, 0.0, 3.0, 10.0]))
def test_moving_orders_and_thresholds_play_as_the_plain_simulator(made, backfill, threshold_s):
    log = log_of(*made)

    def gentle(now_s, job):  # in the engine's floating-point form
        size = np.power(max(job[2], 1.0), 0.5) * np.power(max(job[3], 1) * 1.0, 0.5)
        return -5.0 / size + (-1 / size) * (now_s - job[0])

    for policy, key in ((aged(5, 0.5, 0.5), gentle), (POLICIES["saf"], lambda _, job: max(job[2], 1) * max(job[3], 1))):
        found = ordered_in_gym(log, policy, [0], n=len(made[0]), backfill=backfill, threshold_s=threshold_s, threads=1)
        assert found[0].tolist() == by_key(log, key, backfill, threshold_s)


def test_orders_by_the_expansion_factor_move(made_log):
    """LEXP by its definition, -(w + p~) / p~."""
    log = read_gym_log(made_log)
    n = 120
    part = GymLog(log.path, Jobs(*(column[:n] for column in log.jobs)), log.machine, log.number[:n])
    found = ordered_in_gym(part, POLICIES["lexp"], [0], n=n, backfill=True)
    assert found[0].tolist() == by_key(part, lambda now_s, job: -((now_s - job[0]) / job[2]), True)


def test_networks_have_no_order(made_log):
    picked = bf.picked_by(linear(), name="zeros")
    with pytest.raises(PolicyError, match="policy zeros: a network picks; use starts_in_gym"):
        ordered_in_gym(read_gym_log(made_log), picked, [0], n=5, backfill=True)


@pytest.fixture(scope="module")
def made_log(tmp_path_factory):
    """An SWF log of 480 jobs on 32 processors, with rushes."""
    random = np.random.default_rng(3)
    submit = np.cumsum(random.exponential(400, 480) * (random.random(480) < 0.4)).astype(int)
    text = "; MaxNodes: 32\n; MaxProcs: 32\n"
    for number in range(480):
        runtime = int(random.integers(20, 4000))
        text += swf_text.row(
            number + 1,
            submit[number],
            runtime,
            req_procs=int(2 ** random.integers(0, 6)),
            req_time=2 * runtime + number,
        )
    path = tmp_path_factory.mktemp("log") / "made.swf"
    path.write_text(text)
    return path


def test_costs_are_the_mean_slowdowns_whatever_the_threads(made_log):
    log, firsts = read_gym_log(made_log), [0, 30, 60, 90, 120, 150, 180, 210, 240, 270]
    networks = [linear(request=-1), linear(share=1, fits=2)]
    found = costs_in_gym(log, networks, firsts, n=90, backfill=True, threads=2)
    for network, row in zip(networks, found, strict=True):
        starts = starts_in_gym(log, network, firsts, n=90, backfill=True, threads=1)
        assert (row == slowdowns(log, firsts, starts).mean(axis=1)).all()
    assert (found[0] != found[1]).any()
    assert costs_in_gym(log, networks, firsts, n=90, backfill=False).min() >= 1
    with pytest.raises(WorkloadError, match="no 90 from row 400 on"):
        costs_in_gym(log, networks, [400], n=90, backfill=True)


def test_sequences_in_easy_are_replays_of_their_jobs(made_log):
    workload, log = bf.read(made_log), read_gym_log(made_log)
    sequences = rows_of(log, workload, [0, 50, 300], n=100)
    assert [rows.tolist() for rows in sequences] == [list(range(first, first + 100)) for first in (0, 50, 300)]
    for policy in (POLICIES["saf"], bf.picked_by(linear(request=-1))):
        found = starts_in_easy(workload, policy, sequences, threshold_s=20_000.0)
        for rows, starts in zip(sequences, found, strict=True):
            expected = replay_jobs(workload.jobs.select(rows), 32, Rules(policy, threshold_s=20_000.0)).start_s
            assert (starts == expected).all()
    picked = starts_in_easy(workload, bf.picked_by(linear(request=-1)), sequences)
    shortest = starts_in_easy(workload, POLICIES["spf"], sequences, backfill=POLICIES["fcfs"])
    assert all((one == other).all() for one, other in zip(picked, shortest, strict=True))


def test_jobs_that_the_workload_lacks_are_refused(made_log):
    log, sample = read_gym_log(made_log), bf.read(made_log)
    part = type(sample)(sample.name, sample.jobs.select(slice(10)), sample.procs)
    with pytest.raises(WorkloadError, match=r"it lacks job 11 of .*; read the same log"):
        rows_of(log, part, [5], n=10)


def test_windows_hold_only_what_is_allowed():
    assert firsts_within(np.array([True] * 4 + [False] + [True] * 3), 3).tolist() == [0, 1, 5]
    assert len(firsts_within(np.zeros(5, bool), 2)) == 0


# The example that trains


@pytest.fixture
def trained(monkeypatch, capsys):
    """A function that runs the example in this process, and returns its exit status and what it said."""
    pytest.importorskip("cmaes")
    from studies.rlscheduler import train

    def run(log, out, *more):
        monkeypatch.setattr("sys.argv", ["train", str(log), "--out", str(out), *more])
        status = 0
        try:
            train.main()
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr().err

    return run


def test_the_example_trains_the_same_file_again(made_log, trained, tmp_path):
    quick = ("--jobs", "20", "--sequences", "2", "--population", "6", "--generations", "2")
    contents = []
    for name, hidden in (("one", "2"), ("two", "2"), ("linear", "0")):
        status, said = trained(made_log, tmp_path / name, *quick, "--hidden", hidden)
        assert status == 0, said
        assert said.count("generation") == 3
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1] != contents[2]
    assert bf.replay(made_log, f"nn@{tmp_path / 'one'}").figures.jobs == 480


def test_the_example_refuses_a_log_that_is_too_short(made_log, trained, tmp_path):
    status, said = trained(made_log, tmp_path / "out")
    assert status == 2
    assert said.count("\n") == 1
    assert "too few jobs for sequences of 1024; give a smaller --jobs" in said
    assert not (tmp_path / "out").exists()


def test_training_leaves_the_published_test_alone():
    pytest.importorskip("cmaes")
    from studies.rlscheduler.schedgym import draw_starts
    from studies.rlscheduler.train import parts, ranges

    training, validation = parts(59_705)
    for first in draw_starts(10_000).tolist():
        assert not (training | validation)[first : first + 1024].any()
    assert not (training & validation).any()
    assert 20_000 < training.sum() < 30_000
    assert all(training[first:stop].all() for first, stop in ranges(training))
    assert sum(stop - first for first, stop in ranges(training)) == training.sum()
