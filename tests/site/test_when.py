"""When jobs are expected to start: a slow fork beside the engine's, leaks, calibration, and why not now."""

from __future__ import annotations

import gzip
import json
import math
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from batfill.base.errors import BatfillError
from batfill.model.jobs import job_table
from batfill.replays.session import Replay
from batfill_site.starts.forecast import starts
from batfill_site.starts.past import AGES, Past
from batfill_site.starts.when import replayed, when, when_in_replay
from command import batfill, json_result, refusal
from golden_text import check
from oracle import Oracle
from strategies import outliving, random_table, table
from sweeps import sweep

SIZE = 8
RULES = [
    {},
    {"policy": "saf", "threshold_s": 60},
    {"policy": "wfp3", "backfill": "spf"},
    {"policy": "spf", "depth": "all"},
    {"policy": "saf", "max_running": 2},
    {"policy": "aged:100,0.5,0", "depth": 2, "threshold_s": 90, "overdue": "half"},
]


def made(jobs, until_s, *args, **rules):
    """A replay of these jobs that has stopped."""
    return Replay(jobs.stating(name="made", size=SIZE), *args, **rules).run(until_s=until_s)


def stopped(seed, rules, *, outlives=False):
    """A replay of random jobs that has stopped while some run and four wait."""
    share = 0.5 if rules.get("small") == "class" else 0.0
    jobs = random_table(seed, n_jobs=70, size=SIZE, span_s=600, small=share)
    jobs = replace(jobs, user=np.random.default_rng(seed).integers(0, 3, len(jobs)))
    run = made(outliving(jobs) if outlives else jobs, 200, **rules)
    while len(run.waiting) < 4:
        run.run(until_s=run.next_s)
    return run


def oracle_of(pool, past, rows, submit_s, run_s, known):
    """The slow scheduler in the state of a fork, with its run times and its arrivals."""
    rules, request_s, outlives = pool.rules, past.request_s[rows], pool.jobs.outlives
    drawn = job_table(
        submit_s=submit_s,
        runtime_s=run_s,
        walltime_s=np.maximum(request_s, run_s) if outlives else request_s,
        request_s=np.where(np.isinf(request_s), np.nan, request_s),
        procs=past.procs[rows],
        user=past.user[rows],
        ids=[f"{number:06}" for number in range(len(rows))],
        outlives=outlives,
        own_end=outlives,
    )
    made = Oracle(
        drawn,
        SIZE,
        rules.policy.name,
        backfill=rules.backfill and rules.backfill.name,
        threshold_s=rules.threshold_s,
        depth=rules.depth if rules.planned else None,
        half=rules.half,
        max_running=rules.max_running or math.inf,
    )
    made.coming = made.jobs[known:]
    for job, start_s in zip(made.jobs[:known], past.start_s[rows[:known]].tolist(), strict=True):
        if math.isnan(start_s):
            made.waiting.append(job)
            continue
        job.start = start_s
        made.running.append(job)
        made.free -= job.q
    return made


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(map(str, rules.values())) or "fcfs")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.compiled) for seed in (1, 2))])
def test_a_slow_fork_with_the_same_draws_has_the_same_starts(seed, rules):
    run = stopped(seed, rules, outlives=seed == 2)
    (pool, past), seen = replayed(run, run.now_s), []

    def spied(past, forks, random):
        fork = pool.forks(past, forks, random)

        def one(k, *drawn):
            seen.append((drawn, fork(k, *drawn)))
            return seen[-1][1]

        return one

    starts(past, spied, 3, seed)
    begun = 0
    for (rows, submit_s, run_s, known), start_s in seen[:3]:
        until_s = past.now_s + 100  # the oracle is slow
        slow = oracle_of(pool, past, rows, submit_s, run_s, known).run(until=until_s)
        waits = np.isnan(past.start_s[rows[:known]])
        expected = np.array([job.start for job in slow.jobs[:known]], float)[waits]
        found_s = np.where(start_s <= until_s, start_s, np.nan)[:known][waits]
        assert np.array_equal(found_s, expected, equal_nan=True)
        begun += np.isfinite(found_s).sum()
        ran_s = (past.now_s - past.start_s[rows[:known]])[~waits]
        assert (run_s[:known][~waits] > ran_s).all()
        assert (submit_s[known:] > past.now_s).all()
    assert begun > 3


@pytest.mark.compiled
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(map(str, rules.values())) or "fcfs")
def test_run_times_of_jobs_that_have_not_ended_and_jobs_to_come_change_no_estimate(rules):
    run = stopped(7, rules)
    jobs, rng = run.workload.jobs, np.random.default_rng(1)
    ended = np.isfinite(run.engine.start_s)
    ended[run.engine.queue.running_rows] = False
    running = np.zeros(len(jobs), bool)
    running[run.engine.queue.running_rows] = True
    ran_s = np.where(running, run.now_s - run.engine.start_s, 0.0)
    other_s = np.where(np.isinf(jobs.walltime_s), ran_s + 50, jobs.walltime_s)
    other_s = np.where(ended, jobs.runtime_s, np.maximum(other_s - rng.integers(0, 3, len(jobs)), ran_s + 1))
    come = jobs.submit_s <= run.now_s
    changed = replace(
        jobs,
        runtime_s=np.where(running, np.maximum(jobs.runtime_s, other_s), other_s),
        procs=np.where(come, jobs.procs, jobs.procs[::-1]),
        user=np.where(come, jobs.user, jobs.user[::-1]),
    )
    beside = made(changed, run.now_s, **rules)
    assert np.array_equal(beside.engine.start_s, run.engine.start_s, equal_nan=True)
    assert (changed.runtime_s != jobs.runtime_s)[~ended].any()
    one, other = when(run, seed=3), when(beside, seed=3)
    assert one.calibrated_on == other.calibrated_on > 5
    assert one.to_csv() == other.to_csv()


@pytest.mark.compiled
def test_one_job_is_estimated_as_among_all_and_a_seed_repeats():
    run = stopped(3, {"policy": "saf"})
    every = when(run, seed=1)
    one = when(run, every["job_id"][2], seed=1)
    assert one[0] == every[2]
    assert when(run, seed=2).to_dict() != every.to_dict()
    assert (every["from_s"] <= every["start_s"]).all()
    assert (every["start_s"] <= every["to_s"]).all()


DATES = ("submit_s", "start_s", "from_s", "to_s")


def state_of(run):
    """A stopped replay as a site's state, with the jobs that have ended."""
    engine, running = run.engine, run.engine.queue.running_rows.tolist()
    jobs, rows = run.workload.jobs, np.flatnonzero(run.workload.jobs.submit_s <= run.now_s).tolist()
    columns = {"submit": jobs.submit_s, "processors": jobs.procs, "user": jobs.user}
    columns["request"] = np.where(np.isinf(jobs.walltime_s), np.nan, jobs.walltime_s)
    columns |= {"start": engine.start_s, "end": engine.start_s + jobs.runtime_s}
    return [
        {"id": f"{row:03}"}
        | {name: column[row].item() for name, column in columns.items() if name != "end" or row not in running}
        for row in rows
    ]


@pytest.mark.compiled
@pytest.mark.parametrize(*sweep(seed=[0, 2], rules=RULES))
def test_a_job_asked_about_is_expected_as_if_it_were_queued_whatever_else_is_asked(seed, rules):
    run = stopped(seed, rules)
    state, random, at_s = state_of(run), np.random.default_rng(seed), run.now_s + 5
    how = {"procs": SIZE, "at": at_s, "forks": 5, **rules}
    jobs = [{"procs": 1, "time": 1}, *({"procs": q, "time": 20 * q, "user": q - 2} for q in random.integers(1, 9, 3))]
    texts = [",".join(f"{name}={value}{'s' * (name == 'time')}" for name, value in job.items()) for job in jobs]
    asked = when(state, submit=[*texts, "procs=9,time=1h"], **how)
    for job, row in zip(jobs, asked, strict=False):
        queued = {"id": "x", "submit": at_s, "processors": job["procs"], "request": job["time"]}
        one = when([*state, queued | {"user": job.get("user")}], "x", **how)[0]
        assert [row[name] for name in DATES] == [one[name] for name in DATES]
        assert row["why"] in (one["why"].replace("job x", f"job {row['job_id']}"), "it would start at once")
        assert (row["why"] == "it would start at once") == (one["start_s"] == at_s)
    assert (asked["start_s"][4], asked["why"][4]) == (math.inf, "never: the machine has 8 processors")
    assert asked.waiting == when(state, **how).waiting


@pytest.mark.compiled
def test_a_job_asked_about_in_a_log_is_expected_as_the_logs_own():
    waited = 0
    for at in (60_000, 100_000):
        jobs = Replay("workloads/sample.json").workload.jobs
        last = int(np.flatnonzero(jobs.submit_s <= at)[-1])
        at_s = float(jobs.submit_s[last])
        text = f"procs={jobs.procs[last]},time={jobs.walltime_s[last]}s,user={jobs.user[last]}"
        with_it, without = (
            Replay(some, "saf").run(until_s=at_s) for some in (jobs, jobs.select(jobs.ids != jobs.ids[last]))
        )
        row = when_in_replay(without, None, text, 5, 0, at_s)[0]
        own = {each["job_id"]: each["start_s"] for each in when(with_it, forks=5)}
        assert row["start_s"] == own.get(jobs.ids[last], at_s)
        waited += jobs.ids[last] in own
    assert waited == 1


def past_of(runtime_s, request_s, procs=1, user=0):
    """Jobs that have all ended, in order, but those whose run time is nan."""
    n = len(runtime_s)
    columns = (
        np.broadcast_to(column, n).astype(kind) for column, kind in ((request_s, float), (procs, int), (user, int))
    )
    start_s = np.where(np.isnan(runtime_s), np.nan, 1000.0 * np.arange(n) - runtime_s)
    return Past(1e6, np.arange(n) * 1.0, *columns, np.ones(n, bool), start_s, start_s + runtime_s)


def test_draws_are_weighted_quantiles_of_the_users_jobs_above_what_has_run():
    rng, chances = np.random.default_rng(5), np.linspace(0, 0.999, 50)
    request_s = rng.choice([100.0, 400.0, math.inf], 200, p=[0.5, 0.4, 0.1])
    procs, user = rng.integers(1, 3, 200), rng.integers(0, 2, 200)
    runtime_s = np.minimum(rng.integers(1, 400, 200), request_s)
    ended = past_of(runtime_s, request_s, procs, user)
    for row in (0, 5, 9):
        for ran_s in (0.0, 60.0):
            start_s, end_s = ended.start_s.copy(), ended.end_s.copy()
            start_s[row], end_s[row] = ended.now_s - ran_s if ran_s else math.nan, math.nan
            past = ended._replace(start_s=start_s, end_s=end_s)
            drawn = past.drawn_s(np.array([row]), chances[:, None])[:, 0]
            own = [other for other in np.flatnonzero(user == user[row])[::-1] if other != row][: len(AGES)]
            weighed = []
            for age, other in enumerate(own):
                if math.inf in (request_s[row], request_s[other]):
                    value = min(runtime_s[other], request_s[row])
                else:
                    value = runtime_s[other] / request_s[other] * request_s[row]
                same = int(request_s[row] == request_s[other]) + int(procs[row] == procs[other])
                weighed.append((value, 10.0**same * 0.5 ** (age / 8)))
            others = [other for other in range(200) if other != row]
            limited = np.isfinite(request_s[others])
            ran = runtime_s[others] if np.isinf(request_s[row]) else (runtime_s / request_s)[others][limited]
            ran = np.sort(ran)[((np.arange(16) + 0.5) / 16 * len(ran)).astype(int)]
            weighed += [(v if np.isinf(request_s[row]) else v * request_s[row], 1 / 16) for v in ran]
            bounded = ran_s < request_s[row] < math.inf
            last = (request_s[row] if bounded else 2 * ran_s + 60, 1 / 64)
            left = sorted([*((value, weight) for value, weight in weighed if value > ran_s), last])
            total = sum(weight for _, weight in left)
            for chance, found in zip(chances, drawn, strict=True):
                below, expected = 0.0, None
                for value, weight in left:
                    below, expected = below + weight, value
                    if below > chance * total:
                        break
                assert found == pytest.approx(expected, abs=1e-6)


def test_a_running_job_longer_than_all_past_ones_ends_after_x_times_its_run_time_with_a_chance_of_one_in_x():
    past = past_of(np.array([math.nan, 5.0]), math.inf)
    past.start_s[0] = past.now_s - 1200
    drawn = past.drawn_s(np.array([0]), np.array([[0.0], [0.5], [0.75], [0.9], [0.9999]]))[:, 0]
    assert drawn == pytest.approx([1200, 2460, 4980, 12_540, 125_940])


def test_what_was_known_at_an_instant_has_no_later_job_start_or_end():
    past = past_of(np.array([10.0, 20.0, 30.0]), 60)._replace(submit_s=np.array([0.0, 900.0, 1950.0]))
    then = past.at(990.0)
    assert (len(then.submit_s), then.alive.tolist(), then.ended.tolist()) == (2, [1], [0])
    assert (then.start_s[1], past.at(979.0).alive.tolist()) == (980.0, [1])
    assert np.isnan(past.at(979.0).start_s[1])


def test_forks_keep_announced_windows_free(tmp_path):
    (tmp_path / "calendar.csv").write_text(
        "kind,begin,end,processors,announced\nannounced,100,400,8,0\nannounced,500,900,8,401\n"
    )
    jobs = job_table(submit_s=[0, 1, 2], runtime_s=[50, 100, 450], walltime_s=[50, 100, 450], procs=[8, 8, 8])
    found = when(made(jobs, 2, calendar=str(tmp_path / "calendar.csv")))
    assert found["start_s"][0] == 400.0 < found["start_s"][1] <= 500.0  # of the second window nothing is known yet
    assert all("the calendar has windows" in why for why in found["why"])


# A site's state

STATE = [
    {"id": "4711", "submit": 0, "processors": 12, "request": "4h", "user": "ada", "start": 0},
    {"id": "4712", "submit": 100, "processors": 2, "request": "8h", "user": "bo", "start": 100},
    {"id": "h", "submit": 200, "processors": 14, "request": "1h", "user": "bo"},
    {"id": "b", "submit": 300, "processors": 3, "request": "4h", "user": "ada"},
    {"id": "w", "submit": 310, "processors": 9, "request": 600, "user": "cy"},
]


@pytest.fixture
def text_file(tmp_path):
    """A function that writes this text, and gives its path."""

    def write(text, name="s.txt"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def whys(found):
    """The reasons by job."""
    return dict(zip(found["job_id"].tolist(), found["why"].tolist(), strict=True))


def whys_at_site(state, **more):
    return whys(when(state, procs=18, at=1200, **more))


def test_the_reasons_say_what_a_job_waits_for():
    assert whys_at_site(STATE) == {
        "h": "it is the head of the queue and needs 10 more processors, which job 4711 frees at day 0 04:00:00 "
        "at the latest",
        "b": "it would outlive the reservation of job h at day 0 04:00:00 by 20 min: "
        "a request of 3 h 40 min or less, or 2 processors or fewer would start at once",
        "w": "it needs 5 more processors than are idle, and 2 jobs go before it, first job h, which has a reservation "
        "at day 0 04:00:00",
    }


def test_ends_of_the_same_instant_leave_what_they_free_to_other_jobs():
    sizes = {"a": 12, "b": 1, "h": 17, "c": 3}  # b was submitted later, and starts with a
    state = [{"id": name, "submit": int(n < 12), "processors": n, "request": "4h"} for name, n in sizes.items()]
    found = whys_at_site([job | {"start": 1} for job in state[:2]] + state[2:])
    assert found["h"].endswith("needs 12 more processors, which job a frees at day 0 04:00:01 at the latest")
    assert found["c"].endswith("a request of 3 h 40 min or less, or 1 processor or fewer would start at once")


def limits_that_hold(seed):
    """The number of requests that are said to start at once in a random state, each of which does."""
    rng = np.random.default_rng(seed)
    policy = ["fcfs", "saf", "lqf"][seed % 3]
    state = [
        {"id": str(n), "submit": int(rng.integers(0, 900)), "processors": int(rng.integers(1, 7)), "user": n % 3,
         "request": int(rng.integers(600, 20_000))} for n in range(12)
    ]  # fmt: skip
    free = 18
    for job in state[:6]:
        if job["processors"] <= free:
            free -= job["processors"]
            job["start"] = 1000
    found = when(state, procs=18, at=1200, policy=policy)
    tried = 0
    for row, why in zip(found, found["why"], strict=True):
        limit = re.search(r"a request of (?:(\d+) h)? ?(?:(\d+) min)? ?(?:(\d+) s)? or less", why)
        if limit is None:
            continue
        hours, minutes, seconds = (int(part or 0) for part in limit.groups())
        begun = {other["job_id"] for other in found if other["why"].startswith("nothing")}
        shorter = [
            job | ({"request": hours * 3600 + minutes * 60 + seconds} if job["id"] == row["job_id"] else {})
            | ({"start": 1200} if job["id"] in begun else {})
            for job in state
        ]  # fmt: skip
        again = when(shorter, row["job_id"], procs=18, at=1200, policy=policy)
        assert again["start_s"][0] == 1200
        assert again["why"][0].startswith("nothing here: by these rules it starts now")
        tried += 1
    return tried


@pytest.mark.compiled
def test_a_request_that_is_said_to_start_at_once_does():
    assert sum(map(limits_that_hold, range(30))) > 5


CANNOT_BE = [
    {"id": "4711"},
    {"submit": None},
    {"processors": 0},
    {"request": "soon"},
    {"submit": "noon"},
    {"submit": 1300},
    {"start": 10},
    {"end": 900},
    {"start": 400, "processors": 5},
    {"processors": math.inf},
    {"submit": 1e17},
    {"submit": "9999-12-31T23:00"},
]


@pytest.mark.compiled
def test_what_has_ended_in_a_state_is_its_past():
    past = [
        {"id": f"p{n}", "submit": n, "processors": 16, "request": 10_000, "user": "ada", "start": 100 * n,
         "end": 100 * n + 100} for n in range(50)
    ]  # fmt: skip
    jobs = [
        {"id": "r", "submit": 5000, "processors": 16, "request": 10_000, "user": "ada", "start": 5000},
        {"id": "n", "submit": 5001, "processors": 16, "request": 10_000, "user": "ada"},
    ]
    assert when([*jobs], procs=16, at=5010)["start_s"][0] > 6000
    found = when([*past, *jobs], procs=16, at=5010)
    assert found["start_s"][0] == 5100
    assert found.calibrated_on == 0  # all were submitted before the first end, when others may have run
    first = {"id": "first", "submit": 0, "processors": 1, "start": 0, "end": 0}
    assert when([first, *past, *jobs], procs=16, at=5010).calibrated_on == 48


@pytest.mark.compiled
def test_a_state_in_csv_in_json_and_as_slurm_prints_it_is_the_same(tmp_path):
    rows = [
        ("4711", "ada", "RUNNING", 12, "04:00:00", "2026-01-31T10:00:00", "2026-01-31T10:05:00", "None"),
        ("4712", "bo", "RUNNING", 2, "08:00:00", "2026-01-31T10:01:00", "2026-01-31T10:05:00", "None"),
        ("5000", "bo", "PENDING", 14, "1:00:00", "2026-01-31T10:02:00", "N/A", "Resources"),
        ("5001", "ada", "PENDING", 3, "04:00:00", "2026-01-31T10:03:00", "2026-02-01T00:00:00", "Priority"),
        ("5002", "cy", "PENDING", 3, "1-00:00:00", "2026-01-31T10:03:00", "N/A", "Dependency"),
    ]
    names = ("id", "user", "state", "processors", "request", "submit", "start")
    known = [row[:-2] if row[2] == "PENDING" else row for row in rows[:-1]]
    plain = [dict(zip(names, row, strict=False)) for row in known]
    (tmp_path / "state.json").write_text(json.dumps({"procs": 18, "at": "2026-01-31T10:25", "jobs": plain}))
    lines = ["id,user,processors,request,submit,start"]
    lines += [",".join(str(job.get(name, "")) for name in lines[0].split(",")) for job in plain]
    (tmp_path / "state.csv").write_text("\n".join(lines))
    head = "JOBID|USER|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|REASON"
    squeue = ["|".join(map(str, [*row[:7], f"({row[7]})" * (row[2] == "PENDING")])) for row in rows]
    squeue = [line.replace("cy", "c" * 200_000) for line in squeue]
    (tmp_path / "squeue.txt").write_text("\n".join([head, *squeue]))
    (tmp_path / "commas.txt").write_text("\n".join([head, *squeue]).replace("|", ","))
    blocks = [
        f"JobId={row[0]} JobName=NumCPUs=99\n   UserId={row[1]}(1001) GroupId=users(100) MCS_label=N/A\n"
        f"   JobState={row[2]} Reason={row[7]} Dependency=(null)\n   RunTime=00:00:00 TimeLimit={row[4]} TimeMin=N/A\n"
        f"   SubmitTime={row[5]} EligibleTime={row[5]}\n   StartTime={row[6]} EndTime=Unknown Deadline=N/A\n"
        f"   NumNodes=1 NumCPUs={row[3]} NumTasks=1 CPUs/Task=1\n   Command=/home/x StartTime=never\n"
        for row in rows
    ]
    (tmp_path / "scontrol.txt").write_text("\n".join(blocks))
    found = when(tmp_path / "state.json")
    assert found["job_id"].tolist() == ["5000", "5001"]
    limit = "at 14:05 by 20 min: a request of 3 h 40 min or less, or 2 processors or fewer would start at once"
    assert found["why"][1].endswith(limit)
    for name in ("state.csv", "squeue.txt", "commas.txt", "scontrol.txt"):
        assert when(tmp_path / name, at="2026-01-31T10:25", procs=18).to_csv() == found.to_csv()


@pytest.mark.compiled
def test_golden_the_command_prints_one_screen_and_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = [{"id": f"7_{n}", "submit": 320 + n, "processors": 1 + n % 5, "request": 600 * n} for n in range(1, 12)]
    held = [{"id": "x", "submit": 300, "processors": 1, "left_out": "Dependency"}]
    Path("state.json").write_text(json.dumps({"procs": 18, "at": 1200, "jobs": STATE + more + held}))
    found = json_result("when", "state.json", "--forks", "5")
    assert found == json.loads(when("state.json", forks=5).as_json())
    assert (found["waiting"], len(found["jobs"])) == (14, 14)
    done = batfill("when", "state.json", "--forks", "5", "--details", "--out", "page.html")
    check("when", done.out)
    page = Path("page.html").read_text().replace("&nbsp;", " ")
    assert page.count('<span class="span"') == 12
    assert "needs 14 more processors" in page
    one = batfill("when", "state.json", "b")
    assert "14 waiting jobs on 18 processors" in one.out
    assert "Job b is expected to start at" in one.out
    for words in (
        ("--procs", "13"),
        ("y",),
        ("x",),
        ("--at", "soon"),
        ("--reservation", "kept"),
        ("--json", "--details"),
    ):
        assert refusal("when", "state.json", *words)
    run = Replay(table([(0, 10, 10, 2)]).stating(name="made", size=5), small="all", divider=60)
    with pytest.raises(BatfillError, match="option small: a state does not say"):
        when(run.run(until_s=100))


@pytest.mark.compiled
def test_a_log_is_replayed_until_the_instant(tmp_path):
    run = Replay("workloads/sample.json", "saf", threshold_s=7200).run(until_s=50_000)
    run.save(tmp_path / "run.npz")
    found = when(run)
    assert when("workloads/sample.json", policy="saf", threshold_s=7200, at=run.now_s).to_csv() == found.to_csv()
    assert when(tmp_path / "run.npz").to_csv() == found.to_csv()
    later = when("workloads/sample.json", policy="saf", threshold_s=7200, at=50_000)
    assert run.now_s < later.now_s == 50_000
    assert later["job_id"].tolist() == found["job_id"].tolist()
    assert (later["from_s"] >= 50_000).all()
    span = "sample.json goes from 0 s to 489257 s: give seconds from its begin"
    for at, why in (
        (None, "is a log"),
        (1e9, f"is outside the log; {span}"),
        ("2024-05-02", f"no number of seconds; {span}"),
    ):
        with pytest.raises(BatfillError, match=why):
            when("workloads/sample.json", at=at)
    with pytest.raises(BatfillError, match="a stopped replay has its own"):
        when(run, policy="saf")


@pytest.mark.compiled
def test_reasons_name_no_reservation_where_there_is_none_and_no_job_that_is_not_tested():
    assert not any("has a reservation" in why for why in whys_at_site(STATE, depth=0).values())
    assert any("it comes behind them" in why for why in whys_at_site(STATE, tested=1).values())


@pytest.mark.compiled
def test_a_job_waits_for_its_users_limit():
    limited = whys_at_site(STATE, max_running=1)
    assert limited["h"] == limited["b"] == "its user has 1 running job, the limit"
    assert limited["w"].startswith("it is the head of the queue and needs 5 more processors")
    assert set(whys_at_site(STATE[:4], max_running=1).values()) == {"its user has 1 running job, the limit"}
    unnamed = [{**job, "user": None} for job in STATE]
    assert "limit" not in "".join(whys_at_site(unnamed[:-1] + STATE[-1:], max_running=1).values())
    with pytest.raises(BatfillError, match="max_running: no job has a user"):
        whys_at_site(unnamed, max_running=1)
    # b is started behind the reservation of h, whose user is at the limit from then on.
    rows = [(0, 10, 10, 2), (1, 5, 5, 5), (2, 20, 20, 2), (3, 5, 5, 1)]
    jobs = replace(table(rows, ids=list("0123")), user=np.array([-1, 1, 2, 1]))
    run = Replay(jobs.stating(name="made", size=5), max_running=1).run(until_s=3)
    assert whys(when(run)) == {
        "1": "its user has 1 running job, the limit",
        "2": "the next decision looks again: a job before it has reached its user's limit since the last",
    }


SQUEUE = """JOBID|USER|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|REASON
1|ada|PENDING|4|1:00:00|2024-05-02T10:00:00|N/A|ReqNodeNotAvail, UnavailableNodes:n[1-4]
2|ada|PENDING|4|1:00:00|2024-05-02T10:01:00|N/A|(ReqNodeNotAvail, May be reserved for other job)
3|bo|REQUEUE_HOLD|4|1:00:00|2024-05-02T10:02:00|N/A|job requeued in held state
7_[1-3,9%2]|bo|PENDING|4|NOT_SET|2024-05-02T10:02:00|N/A|Dependency
"""


@pytest.mark.compiled
def test_pending_jobs_that_wait_for_something_else_are_counted_with_their_reasons(tmp_path):
    (tmp_path / "s.txt").write_text(SQUEUE)
    done = batfill("when", tmp_path / "s.txt", "--procs", "16", "--out", tmp_path / "page.html")
    left_out = "7 jobs: Dependency (4), ReqNodeNotAvail (2), REQUEUE_HOLD (1)."
    assert done.out.splitlines()[:3] == [
        "s.txt: 0 waiting jobs on 16 processors at 2024-05-02 10:02",
        "No job waits for processors alone",
        f"Left out: {left_out}",
    ]
    assert left_out in (tmp_path / "page.html").read_text().replace("&nbsp;", " ")
    found = json_result("when", tmp_path / "s.txt", "--procs", "16")["left_out"]
    assert found[1:4] == [
        {"job_id": "2", "why": "ReqNodeNotAvail"},
        {"job_id": "3", "why": "REQUEUE_HOLD"},
        {"job_id": "7_1", "why": "Dependency"},
    ]
    for words in (("2",), ("8",), ("--at", "2024-05-02 10:00 CEST"), ("--at", "2024-05-02T10:10+02:00")):
        assert refusal("when", tmp_path / "s.txt", *words, "--procs", "16")


def test_each_task_of_an_array_waits(text_file):
    found = when(text_file(SQUEUE.replace("Dependency", "Resources")), procs=4)
    assert found["job_id"].tolist() == ["7_1", "7_2", "7_3", "7_9"]
    assert np.isnan(found["requested_s"]).all()


@pytest.mark.parametrize("tasks", ["1,3,5,...", "3-1", "\u0663", "1-2000000"])
def test_an_array_whose_tasks_are_not_all_named_is_left_out_and_the_others_are_answered(text_file, tasks):
    texts = [
        HEAD + RUNS + waiting(f"5010_[{tasks}]") + waiting("5020"),
        waiting_block("5010", JobName=f"n ArrayJobId=5010 ArrayTaskId={tasks}").replace(" JobName=n", "", 1)
        + waiting_block("5020"),
    ]
    for text in texts:
        found = when(text_file(text), **AT)
        assert found["job_id"].tolist() == ["5020"]
        (why,) = set(found.left_out.values())
        assert why == "not each task of the array is named (scontrol: set SLURM_BITSTR_LEN=0; squeue: -r)"


def test_a_line_of_scontrol_is_read_as_its_blocks_and_squeue_without_columns_is_refused(text_file):
    line = (
        "JobId=9 ArrayJobId=7 ArrayTaskId=2 JobName=a UserName=b UserId=bo(1) JobState=PENDING Reason=Resources "
        "TimeLimit=01:00:00 SubmitTime=2024-05-02T10:00:00 StartTime=Unknown EndTime=Unknown NumNodes=1-1 NumCPUs=4 "
        "Command=/home/x NumCPUs=7 WorkDir=/home\n"
    )
    (job,) = when(text_file(line), procs=4)
    assert (job["job_id"], job["procs"], job["requested_s"]) == ("7_2", 4, 3600)
    usual = "             JOBID PARTITION     NAME     USER ST       TIME  NODES\n 3 all a b R 0 1\n"
    with pytest.raises(BatfillError, match="use squeue -r -o"):
        when(text_file(usual), procs=4)


def test_a_log_with_dates_is_read_at_one_and_names_the_form_of_others(tmp_path):
    log = tmp_path / "log.swf"
    rows = [f"{n} {60 * n} -1 100 4 -1 -1 4 {-1 if n % 2 else 100} -1 1 1 1 -1 -1 -1 -1 -1" for n in range(1, 9)]
    log.write_text("\n".join(["; UnixStartTime: 1714636800", "; MaxProcs: 4", *rows]) + "\n")
    at = ("--at", "2024-05-02T08:05:30")
    assert "--unrequested runtime, none" in refusal("when", log, *at)
    assert "unrequested: runtime tells" in refusal("when", log, *at, "--unrequested", "runtime")
    assert json_result("when", log, *at, "--unrequested", "none")["now_s"] == 270
    for date in ("2024-05-02 10:00 CEST", "2025-01-01", "2023-01-01"):
        assert refusal("when", log, "--at", date, "--unrequested", "none")


# What Slurm prints of single jobs

HEAD = "JOBID|USER|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|REASON\n"
RUNS = "4711|ada|RUNNING|2|4:00:00|2026-01-31T10:00:00|2026-01-31T10:05:00|None\n"
AT = {"at": "2026-01-31T10:25", "procs": 4}


def waiting(name, *, cpus="4", state="PENDING", limit="1:00:00", reason="Priority"):
    """A line of squeue of a job without a start."""
    return f"{name}|bo|{state}|{cpus}|{limit}|2026-01-31T10:00:00|N/A|{reason}\n"


def test_tasks_of_an_array_go_in_the_order_of_their_numbers_however_the_file_has_them(text_file):
    listed = "".join(waiting(f"5010_{task}") for task in (1, 10, 11, 2, 12, 9))
    found = when(text_file(HEAD + listed), **AT)
    assert found["job_id"].tolist() == [f"5010_{task}" for task in (1, 2, 9, 10, 11, 12)]
    assert (np.diff(found["start_s"]) > 0).all()
    names = ["a", "b1", "b2", "b10", "b010", "b10a", "10", "9", "1" * 5000]
    in_order = when([{"id": name, "submit": 0, "processors": 1} for name in names], procs=1, at=1)["job_id"].tolist()
    assert in_order == ["9", "10", "1" * 5000, "a", "b1", "b2", "b010", "b10", "b10a"]


def test_the_waiting_parts_of_a_heterogeneous_job_start_together(text_file):
    parts = waiting("7+0", cpus="1", limit="2:00:00") + waiting("7+1", cpus="2-4", reason="Resources")
    (job,) = when(text_file(HEAD + RUNS + parts), **AT)
    assert (job["job_id"], job["procs"], job["requested_s"]) == ("7", 3, 7200)
    assert job["why"].startswith("it is the head of the queue and needs 1 more processor, which job 4711 frees")
    held = waiting("7+0", cpus="1") + waiting("7+1", cpus="3", reason="Dependency")
    assert when(text_file(HEAD + held), **AT).left_out == {"7": "Dependency"}
    block = (
        "JobId={} HetJobId=8 HetJobOffset={} JobName=n\n   UserId=bo(1) JobState={}\n   TimeLimit=01:00:00\n"
        "   SubmitTime=2026-01-31T10:00:00 StartTime={}\n   NumCPUs={}\n\n"
    )
    both = block.format(8, 0, "PENDING Reason=Resources", "Unknown", 3)
    both += block.format(9, 1, "PENDING Reason=None", "Unknown", 1)
    (job,) = when(text_file(both), **AT)
    assert (job["job_id"], job["procs"]) == ("8", 4)
    runs = block.format(8, 0, "RUNNING", "2026-01-31T10:05:00", 3) + waiting_block("10")
    assert when(text_file(runs), **AT)["job_id"].tolist() == ["10"]


def waiting_block(name, **fields):
    """What scontrol shows of a waiting job, with these fields instead."""
    usual = {
        "JobState": "PENDING", "Reason": "Resources", "NumCPUs": 4, "TimeLimit": "01:00:00",
        "SubmitTime": "2026-01-31T10:00:00", "StartTime": "Unknown", "EndTime": "Unknown",
    }  # fmt: skip
    shown = " ".join(f"{key}={value}" for key, value in (usual | fields).items())
    return f"JobId={name} JobName=n\n   UserId=bo(1) {shown}\n\n"


@pytest.mark.parametrize("state", ["COMPLETING", "SUSPENDED"])
def test_a_job_that_completes_or_is_suspended_has_freed_its_processors(text_file, state):
    dates = {"StartTime": "2026-01-31T10:05:00", "EndTime": "2026-01-31T10:20:00"}
    blocks = waiting_block("4711", JobState=state, Reason="None", **dates) + waiting_block("5000")
    found = when(text_file(blocks), **AT)
    assert (found["start_s"][0], found["job_id"].tolist()) == (found.now_s, ["5000"])
    assert found.left_out == ({"4711": "SUSPENDED"} if state == "SUSPENDED" else {})
    lines = HEAD + RUNS.replace("RUNNING", state) + waiting("5000")
    assert when(text_file(lines), **AT)["start_s"].tolist() == found["start_s"].tolist()


@pytest.mark.compiled
def test_a_range_of_processors_counts_its_least_and_a_job_too_wide_is_left_out_and_counted(text_file):
    lines = HEAD + waiting("1", cpus="2-4") + waiting("2", cpus="5") + waiting("3", cpus="2K")
    found = when(text_file(lines), **AT)
    assert dict(zip(found["job_id"].tolist(), found["procs"].tolist(), strict=True)) == {"1": 2}
    assert "Left out" not in found.as_text()
    said = "2 of 3 waiting jobs left out, so starts may be expected too early: too wide for the machine (2)"
    assert found.as_text().replace("\n  ", " ").splitlines()[1] == f"Warning: {said}."
    assert json.loads(found.as_json())["cautions"] == [said]
    assert f"<strong>Warning:</strong> {said}." in found.answer().as_page().replace("\u00a0", " ")
    few = when(text_file(lines + "".join(waiting(str(n)) for n in range(10, 47))), **AT)  # 2 of 40 are not over 5 %
    assert "Left out: 2 jobs: too wide for the machine (2)." in few.as_text()
    assert json.loads(few.as_json())["cautions"] == []
    wide = [*STATE, {"id": "wide", "submit": 0, "processors": 19, "request": 60}]
    assert whys_at_site(wide) == whys_at_site(STATE)
    with pytest.raises(BatfillError, match="job wide is left out"):
        when(wide, "wide", procs=18, at=1200)
    later = {"id": "late", "submit": 1300, "processors": 1, "left_out": "BeginTime"}
    with pytest.raises(BatfillError, match="job late has a date after the instant"):
        when([*STATE, later], procs=18, at=1200)


def test_where_nothing_is_known_of_run_times_no_interval_is_narrow_or_said_to_hold_a_share(text_file):
    unlimited = HEAD + RUNS.replace("4:00:00", "UNLIMITED") + waiting("5000")
    after = waiting("5001", cpus="1") + waiting("5002", cpus="2", limit="UNLIMITED") + waiting("5003", cpus="2")
    path = text_file(unlimited + after)
    found = when(path, **AT)
    ran_s = 20 * 60
    assert np.isnan(found["from_s"]).tolist() == [True, False, True, False]  # a job without a limit delays the first
    first, *_ = json_result("when", path, "--at", AT["at"], "--procs", "4")["jobs"]
    assert [first[name] for name in ("start_s", "from_s", "to_s")] == [None] * 3
    assert first["why"].endswith("at a time that no request bounds")
    done = batfill("when", path, "--at", AT["at"], "--procs", "4", "--out", path.with_suffix(".html"))
    assert re.search(r"^5000 +4 +unknown +unknown$", done.out, re.MULTILINE)
    assert path.with_suffix(".html").read_text().count('<span class="span"') == 2
    limited = when(text_file(HEAD + RUNS + waiting("5000")), **AT)
    left_s = 3600 * 4 - ran_s
    assert limited["to_s"][0] - limited["from_s"][0] > 0.7 * left_s
    assert abs(limited["start_s"][0] - limited.now_s - left_s / 2) < 0.1 * left_s
    for estimates in (found, limited):
        assert estimates.about()["share"] is None
        assert "80 %" not in estimates.as_text()


def test_the_instant_of_what_scontrol_shows_is_when_the_running_jobs_have_run_so_long(text_file):
    runs = {"JobState": "RUNNING", "StartTime": "2026-01-31T10:05:00", "TimeLimit": "04:00:00"}
    text = waiting_block("5000", RunTime="09:00:00") + waiting_block("4711", RunTime="00:20:00", **runs)
    for shown, instant in [(text, "10:25"), (text.replace("00:20:00", "INVALID"), "10:05")]:
        assert when(text_file(shown), procs=4).now_s == 60 * int(instant[3:])
    assert when(text_file(text), procs=4, at="2026-01-31T10:30").now_s == 1800


# Of each form texts that are none, by the name of their file; a log is known by its columns alone, too.
NO_STATES = {
    "s.txt": [
        "",
        " \n\n",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        "4711|ada|RUNNING|2\n",
        "a,b\n1,2\n",
        "id,submit,procs,soon\n",
        "JOBID|USER|STATE\n",
        HEAD + waiting("1", limit="1:2:3:4:5"),
        "[" * 100_000 + "]" * 100_000,
    ],
    "s.json": ["[" * 100_000 + "]" * 100_000],
    "log.swf": [
        "",
        " \n\n",
        "; UnixStartTime: 0\n\n;\n",
        "JobID|User|State|Submit\n",
        "JobID|User|State|Submit\n1|ada|COMPLETED|2024-05-02T10:00:00\n",
        "; UnixStartTime: 0\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n",
    ],
}


@pytest.mark.compiled
def test_golden_jobs_asked_about_are_compared_on_one_screen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("state.json").write_text(json.dumps({"procs": 18, "at": 1200, "jobs": STATE}))
    asked = ("procs=3,time=2h,user=ada", "procs=3,time=1-0", "procs=19,time=2:00:00")
    words = ("when", "state.json", "--forks", "5", *(word for text in asked for word in ("--submit", text)))
    done = batfill(*words, "--out", "page.html")
    check("when-submit", done.out)
    found = json_result(*words)
    assert found == json.loads(when("state.json", submit=asked, forks=5).as_json())
    assert [job["start_s"] is None for job in found["jobs"]] == [False, False, True]
    page = Path("page.html").read_text()
    assert page.count('<span class="span"') == 2
    mapping = {"procs": 3, "time": timedelta(hours=2), "user": "ada"}
    assert when("state.json", submit=mapping, forks=5)[0] == found["jobs"][0] | {
        "job_id": "procs=3,time=2:00:00,user=ada"
    }
    classes = [when("state.json", submit=f"procs=3,time=2h,user=ada,class={one}")[0] for one in ("small", "large")]
    assert [one["start_s"] for one in classes] == [found["jobs"][0]["start_s"]] * 2  # no rule here goes by classes
    for bad in ([], 5, "procs=2,procs=3,time=1h", {"procs": 2}, "procs=2,time=1h,class=tiny", "procs=19,time=1h"):
        with pytest.raises(BatfillError, match=r"^option submit: .*; "):
            when("state.json", submit=bad)


def test_golden_what_is_no_state_is_refused_in_one_line(text_file):
    said = []
    for change in CANNOT_BE:
        with pytest.raises(BatfillError) as raised:
            when([*STATE[:-1], STATE[-1] | change], procs=18, at=1200)
        said.append(f"{change}: {raised.value}")
    for name, texts in NO_STATES.items():
        for text in texts:
            path = text_file(text, name)
            said.append(f"{name} {text[:60]!r}: {refusal('when', path, '--procs', '4')}".replace(f"{path.parent}/", ""))
    assert max(one.count("\n") for one in said) == 0
    check("when-refused", "\n".join(said))


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["state", "state.out", "state.2026-01-31"])
def test_a_state_is_known_by_what_it_says(text_file, name):
    jobs = json.dumps([{"id": "5000", "submit": 0, "processors": 4}])
    sacct = "JobID|User|State|ReqCPUS|Timelimit|Submit|Start|End|Reason\n"
    for text in (HEAD + RUNS, waiting_block("5000"), jobs, f'{{"procs": 4, "jobs": {jobs}}}', sacct):
        assert when(text_file(text, name), procs=4).lacks.startswith("partitions")
    assert "not all columns are here" in refusal("when", text_file("  JOBID PARTITION\n", name), "--procs", "4")
    assert when("workloads/sample.json", at=50_000).lacks == "outages and limits"


def test_what_sacct_prints_is_a_state_with_its_past(text_file):
    head = "JobID|User|State|ReqCPUS|Timelimit|Submit|Start|End|Reason\n"
    line = "{}|ada|{}|4|{}|2026-01-31T10:00:{:02}|{}|{}|{}\n".format
    at = "2026-01-31T10:{:02}:00".format
    over = [line(n, "CANCELLED by 1", "01:00:00", n, at(n), at(n + 1), "None") for n in range(1, 25)]
    others = [
        line("90", "COMPLETED", "01:00:00", 59, at(0), at(1), "None"),  # started before it was submitted
        line("91", "CANCELLED by 1", "01:00:00", 59, "None", at(1), "None"),
        line("4711", "RUNNING", "04:00:00", 0, at(25), "Unknown", "None"),
        line("7_[1-2]", "PENDING", "Partition_Limit", 40, "Unknown", "Unknown", "None"),
        line("8", "PENDING", "01:00:00", 40, "Unknown", "Unknown", "Dependency"),
    ]
    found = when(text_file("".join([head, *over, *others])), at="2026-01-31T10:26", procs=4)
    assert found["job_id"].tolist() == ["7_1", "7_2"]
    assert found.left_out == {"8": "Dependency"}
    assert (
        found["start_s"][0] - found.now_s < 4 * 3600 / 10
    )  # as the jobs before it, it runs for a sixtieth of its limit
    with pytest.raises(BatfillError, match="no column End; use sacct -aXP -S DATE -o JobID,User"):
        when(text_file(head.replace("|End", "")), procs=4)


@pytest.mark.parametrize("text", [HEAD, "No jobs in the system\n", "id,submit,processors\n"])
def test_a_state_without_jobs_has_none_that_waits(text_file, text):
    assert len(when(text_file(text), **AT)) == 0


# A real Slurm of 32 nodes, under priority/basic: the states at 40 instants, and when the jobs that waited did start


def real_starts(*, with_past):
    """For each job that waits at an instant: the estimates, its row among them, and its true start."""
    with gzip.open(Path(__file__).parents[1] / "data" / "accounting" / "slurm-32.txt.gz", "rt") as file:
        named = [line.rstrip("\n").split("|") for line in file]
    runs = [dict(zip(named[0], row, strict=True)) for row in named[1:]]
    dates = [tuple(int(run[name]) for name in ("Submit", "Start", "End")) for run in runs]
    for at in np.linspace(dates[0][0] + 30, max(start for _, start, _ in dates) - 10, 12).round().tolist():
        state, starts = [], {}
        for run, (submit, start, end) in zip(runs, dates, strict=True):
            if submit > at or (end <= at and not with_past):
                continue
            ran = {"start": start} if start <= at else {}
            state.append(
                {"id": run["JobID"], "submit": submit, "processors": int(run["AllocCPUS"]), "user": run["User"],
                 "request": 60 * int(run["TimelimitRaw"]), **ran, **({"end": end} if end <= at else {})}
            )  # fmt: skip
            starts[run["JobID"]] = start
        found = when(state, procs=32, at=at)
        for row in found:
            yield found, row, starts[row["job_id"]] - found.clock.unix_start_s


@pytest.mark.compiled
def test_intervals_hold_the_starts_of_a_real_slurm_and_no_job_that_it_let_wait_is_said_to_start_at_once():
    for with_past, least in ((False, 0.8), (True, 0.75)):
        every = list(real_starts(with_past=with_past))
        inside = [row["from_s"] <= start_s <= row["to_s"] for _, row, start_s in every]
        assert len(inside) > 200
        assert np.mean(inside) > least
        said = [found.is_calibrated for found, *_ in every]
        assert np.mean(said) > 0.9 if with_past else not any(said)
        now = [row for found, row, _ in every if row["start_s"] == found.now_s]
        assert len(now) > 5
        assert all(
            row["why"].startswith("nothing here: by these rules") and row["to_s"] > row["start_s"] for row in now
        )
