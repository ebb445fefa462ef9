"""The machine that a log's jobs ran on: found in logs of known machines, and what holds a job by a slow rule."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batfill as bf
from batfill.base.errors import BatfillError
from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S, job_table
from batfill.model.limits.calendar import Calendar, Window
from batfill.replays.result import Result
from batfill.workloads.formats import part_of, source_of
from batfill_site.fidelity import HEADER, PLAIN, Factors, Fidelity, Site, fidelity_of, limit_of
from batfill_site.machine import Held, Machine, Part, calendar_of, holding, machine_of, waiting
from batfill_site.score import Score, logged_of
from command import batfill, refusal
from sweeps import examples
from swf_text import row

PROCS, LARGER, SMALLER = 256, 320, 200
COLUMNS = ("submit_s", "runtime_s", "walltime_s", "procs", "user")
JOBS = 25_000


def written(path, work, start_s, header=PROCS, *, partition=None, queue=None):
    """The log of a site that started these jobs so."""
    jobs = work.jobs
    place = [np.full(len(jobs), -1) if label is None else label for label in (partition, queue)]
    lines = (
        row(n, int(r), max(int(p), 1), req_procs=q, req_time=int(limit), wait=int(start) - int(r), user=user,
            partition=part, queue=line)
        for n, (r, p, q, limit, start, user, part, line) in enumerate(
            zip(jobs.submit_s, jobs.runtime_s, jobs.procs, jobs.walltime_s, start_s, jobs.user, *place, strict=True), 1
        )
    )  # fmt: skip
    path.write_text(f"; UnixStartTime: 1000000000\n; MaxProcs: {header}\n{''.join(lines)}")
    return path


def logged(path, **how):
    source = source_of(path, **how)
    return logged_of(part_of(source, source.log), source.log, source.where)


def starts(work, policy="fcfs", **options):
    return np.asarray(bf.replay(work, policy, **options)["start_s"])


def one_pool(work, **options):
    return work, {"start_s": starts(work, **options)}


def less_from_half(work, **_):
    """From the middle of the log on 208 processors are there; no job is too wide for them."""
    work = work.select(work.procs <= 192)
    away = {"kind": "announced", "begin": work.submit_s[-1] / 2, "end": 1e9, "processors": PROCS - 208}
    return work, {"start_s": starts(work, calendar=bf.Calendar.of([away]))}


def two_pools(work, **_):
    """A third of the users have 80 processors of their own, the others 176."""
    part, start_s = (work.user % 3 == 0).astype(int), np.full(len(work), np.nan)
    for number, procs in enumerate((176, 80)):
        rows = (part == number) & (work.procs <= procs)
        start_s[rows] = starts(work.select(rows).stating(size=procs))
    kept = ~np.isnan(start_s)
    return work.select(kept), {"start_s": start_s[kept], "partition": part[kept] + 1}


def labels(work, **_):
    return work, {"start_s": starts(work), "partition": work.user % 3 + 1, "queue": work.user % 5 - 1}


# What is made of a generated workload, and the machine's steps: from a share of the log on so many processors.
KINDS = {
    "constant": (one_pool, PROCS, ((0, PROCS),)),
    "saf and 24 h": (partial(one_pool, policy="saf", threshold_s=DAY_S), PROCS, ((0, PROCS),)),
    "low load": (one_pool, PROCS, ((0, PROCS),)),
    "a step": (less_from_half, PROCS, ((0, PROCS), (0.5, 208))),
    "header too large": (one_pool, LARGER, ((0, PROCS),)),
    "header too small": (one_pool, SMALLER, ((0, PROCS),)),
    "two pools": (two_pools, PROCS, None),
    "labels without pools": (labels, PROCS, ((0, PROCS),)),
    "at most 5 running jobs": (partial(one_pool, max_running=5), PROCS, ((0, PROCS),)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The log of a kind and a seed, made once."""
    found = {}

    def log(kind, seed=1):
        if (kind, seed) not in found:
            make, header, _ = KINDS[kind]
            load = 0.45 if kind == "low load" else 0.85
            work = bf.generate(jobs=JOBS, procs=PROCS, seed=seed, load=load, users=64)
            work, columns = make(work.stating(size=PROCS))
            found[kind, seed] = written(tmp_path_factory.mktemp("log") / "log.swf", work, header=header, **columns)
        return found[kind, seed]

    return log


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind][2]])
def test_the_capacity_of_a_known_machine_is_found_and_no_pool_is_invented(made, kind, seed):
    log = logged(made(kind, seed))
    machine, last_s = machine_of(log), log.workload.submit_s[-1]
    (part,) = machine.parts
    truth = KINDS[kind][2]
    assert [procs for _, procs in part.steps] == [procs for _, procs in truth]
    assert all(abs(at_s - share * last_s) <= WEEK_S for (at_s, _), (share, _) in zip(part.steps, truth, strict=True))
    assert not machine.doubt
    assert not machine.wide.any()


@pytest.mark.parametrize(
    ("wait", "every", "why"), [("-1", 40, "too many waits are unknown"), ("0", 1, "jobs wait too seldom")]
)
def test_why_a_log_does_not_show_its_machine_is_said(made, tmp_path, wait, every, why):
    lines = made("constant").read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if not line.startswith(";"))
    for k in range(first + 1, len(lines), every):
        number, submit, _, *others = lines[k].split()
        lines[k] = " ".join([number, submit, wait, *others])
    lines[first] = " ".join([*lines[first].split()[:2], "60", *lines[first].split()[3:]])
    path = tmp_path / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    assert machine_of(logged(path)).text() == f"{PROCS} processors, as the header says: {why} to see more"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_pools_are_found(made, seed):
    log = logged(made("two pools", seed))
    machine = machine_of(log)
    sizes = {part.name: part.size for part in machine.parts}
    assert sizes == {"the rest": 176, "partition 2": pytest.approx(80, abs=1)}
    assert np.array_equal(next(part.rows for part in machine.parts if part.name != "the rest"), log.partition == 2)
    assert sum(part.waiting for part in machine.parts) == pytest.approx(1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_limit_of_running_jobs_is_found_where_there_is_one(made, seed):
    everyone = np.ones(JOBS, bool)
    assert limit_of(logged(made("at most 5 running jobs", seed)), everyone) == 5
    for kind in ("constant", "saf and 24 h", "low load"):
        assert limit_of(logged(made(kind, seed)), everyone) is None


def test_on_the_machine_that_ran_easy_holds_every_waiting_job_of_a_site_with_easy(made):
    for kind in ("constant", "header too large", "header too small"):
        log = logged(made(kind))
        held = holding(log, machine_of(log))
        assert held.full + held.held == pytest.approx(1)
        assert held == holding(log, machine_of(log, PROCS))
    large = logged(made("header too large"))
    assert holding(large, machine_of(large, HEADER)).idle > 0.4


def test_a_smaller_machine_would_explain_more_and_is_not_taken(made):
    log = logged(made("saf and 24 h"))
    idle = [holding(log, machine_of(log, procs)).idle for procs in (PROCS + 40, PROCS + 10, PROCS - 40)]
    assert idle[0] > 0.4 > idle[1] > 0.1 > idle[2]
    assert machine_of(log).parts[0].size == PROCS


# What would show a step or a pool where there is none


def test_first_weeks_in_which_no_job_waits_are_no_step(tmp_path):
    work = bf.generate(jobs=JOBS, procs=PROCS, seed=4, load=0.85)
    rng, third = np.random.default_rng(4), work.submit_s < work.submit_s[-1] / 3
    work = work.select(~third | (rng.random(JOBS) < 0.1) & (work.procs < 32)).stating(size=PROCS)
    start_s = starts(work)
    assert not (start_s > work.submit_s)[: third.sum() // 20].any()
    log = logged(written(tmp_path / "log.swf", work, start_s))
    assert machine_of(log).parts[0].steps == ((0.0, PROCS),)


def test_weeks_of_which_a_users_jobs_were_cleaned_are_no_step(made, tmp_path):
    log = logged(made("constant"))
    jobs = log.workload
    there = (jobs.submit_s > 10 * WEEK_S) & (jobs.submit_s < 16 * WEEK_S)
    work = np.bincount(jobs.user[there], (jobs.runtime_s * jobs.procs)[there])
    kept = ~(there & np.isin(jobs.user, np.argsort(work)[-12:]))
    assert work.max() > 0.02 * work.sum()
    cleaned = logged(written(tmp_path / "log.swf", jobs.select(kept), (jobs.submit_s + log.wait_s)[kept]))
    assert machine_of(cleaned).parts[0].steps == ((0.0, PROCS),)


def test_jobs_that_never_wait_are_a_part_and_raise_no_correlation(made, tmp_path):
    log = logged(made("header too large"))
    jobs = log.workload
    rng, n = np.random.default_rng(5), JOBS // 2
    idle = job_table(
        submit_s=np.sort(rng.uniform(0, jobs.submit_s[-1], n)), runtime_s=np.full(n, 60), walltime_s=np.full(n, 60),
        procs=np.ones(n, int), user=np.full(n, 99),
    )  # fmt: skip
    order = np.argsort(np.concatenate([jobs.submit_s, idle.submit_s]), kind="stable")
    both = {name: np.concatenate([getattr(jobs, name), getattr(idle, name)])[order] for name in COLUMNS}
    start_s = np.concatenate([jobs.submit_s + log.wait_s, idle.submit_s])[order]
    queue = np.repeat([1, 7], (JOBS, n))[order]
    path = written(tmp_path / "log.swf", job_table(**both), start_s, LARGER, queue=queue)
    found = fidelity_of(source_of(path))
    assert [(part.name, part.never) for part in found.machine.parts] == [("the rest", False), ("queue 7", True)]
    assert found.part.size == PROCS
    assert found.header.jobs == found.near.jobs == JOBS
    alone = fidelity_of(source_of(made("header too large")))
    assert found.near.rank_correlation == pytest.approx(alone.near.rank_correlation, abs=0.01)


@pytest.mark.parametrize(
    ("place", "loads", "truth"),
    [
        # Partition 2 is queue 3, and partition 1 has two queues with processors of their own: one of them is the rest.
        (lambda k: {"partition": 1 + k // 2, "queue": 1 + k}, (0.9, 0.9, 0.9), {32, 48}),
        # Most of the work is in a queue that never waits.
        (lambda k: {"queue": 1 + k}, (0.9, 0.0, 0.0), {32}),
    ],
    ids=["no rest", "the largest never waits"],
)
def test_labels_may_leave_no_other_jobs_and_the_largest_may_never_wait(tmp_path, place, loads, truth):
    columns = []
    for k, (load, procs) in enumerate(zip(loads, (32, 32, 48), strict=True)):
        work = bf.generate(jobs=3000, procs=procs, seed=k + 1, load=load or 1.2, users=20).stating(size=procs)
        labels = {name: np.full(3000, label) for name, label in {"partition": 1, **place(k)}.items()}
        start_s = starts(work) if load else work.submit_s
        columns.append({name: getattr(work, name) for name in COLUMNS} | labels | {"start_s": start_s})
    both = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    order = np.argsort(both["submit_s"], kind="stable")
    both = {name: column[order] for name, column in both.items()}
    more = {name: both.pop(name) for name in ("start_s", "partition", "queue")}
    found = fidelity_of(source_of(written(tmp_path / "log.swf", job_table(**both), header=112, **more)))
    assert {part.size for part in found.machine.parts if not part.never} == truth
    assert [part.name for part in found.machine.parts].count("the rest") == 1
    assert found.near.ratio == pytest.approx(1, abs=0.05)
    assert found.held.idle < 0.05


def test_weeks_in_which_jobs_wait_and_none_runs_leave_a_processor(made, tmp_path):
    log, n = logged(made("constant")), 40
    jobs, first_s = log.workload, 90 * DAY_S
    wide = {"submit_s": np.arange(n) * 2 * DAY_S, "procs": np.full(n, 200), "user": np.full(n, 3)}
    wide |= {name: np.full(n, 60) for name in ("runtime_s", "walltime_s")}
    both = {name: np.concatenate([wide[name], getattr(jobs, name)]) for name in COLUMNS}
    both["submit_s"][n:] += first_s
    start_s = np.concatenate([np.full(n, first_s - 100), jobs.submit_s + first_s + log.wait_s])
    order = np.argsort(both["submit_s"], kind="stable")
    table = job_table(**{name: column[order] for name, column in both.items()})
    found = fidelity_of(source_of(written(tmp_path / "log.swf", table, start_s[order])))
    assert [procs for _, procs in found.part.steps] == [1, PROCS]
    assert found.machine.wide.sum() == n


# Steps and outages as windows


@settings(deadline=None, max_examples=examples(40))
@given(st.data())
def test_windows_of_steps_and_outages_never_take_more_than_there_is(data):
    hours = st.integers(1, 2000)
    gaps = data.draw(st.lists(st.tuples(hours, st.integers(1, 60)), max_size=8))
    edges = HOUR_S * np.cumsum([hour for gap in gaps for hour in gap])
    notices = [data.draw(st.sampled_from([0.0, 5.0 * HOUR_S, WEEK_S])) for _ in gaps]
    outages = [
        Window("announced", begin, end, 99, begin - notice)
        for begin, end, notice in zip(edges[::2].tolist(), edges[1::2].tolist(), notices, strict=True)
    ]
    begins = sorted({0, *data.draw(st.lists(hours, max_size=4))})
    steps = tuple((float(HOUR_S * begin), data.draw(st.integers(1, 9))) for begin in begins)
    part = Part("", np.ones(1, bool), steps, never=False, waiting=1.0)
    last_s = HOUR_S * data.draw(hours)
    calendar = calendar_of(part, outages, last_s) or Calendar(())
    calendar.require_machine(part.size)
    assert calendar == Calendar.of(calendar.rows)
    for at_s in {
        *edges.tolist(),
        *(begin for begin, _ in steps),
        1e9,
        *(HOUR_S * (h + 0.5) for h in range(0, 2000, 97)),
    }:
        away = sum(w.processors for w in calendar.windows if w.begin <= at_s < w.end)
        down = any(w.begin <= at_s < w.end for w in outages)
        over = at_s >= max(last_s, steps[-1][0]) + 30 * DAY_S
        there = part.size if over else next(procs for begin, procs in reversed(steps) if begin <= at_s)
        assert part.size - away == (0 if down else there)


def test_a_job_that_an_order_puts_off_past_a_step_down_starts_some_day():
    jobs = job_table(
        submit_s=[0, 10, 20, 5 * DAY_S], runtime_s=[4 * DAY_S, DAY_S, 3 * DAY_S, 60], procs=[9, 10, 9, 1],
        walltime_s=[4 * DAY_S, DAY_S, 3 * DAY_S, 60],
    )  # fmt: skip
    part = Part("", np.ones(4, bool), ((0.0, 10), (4.5 * DAY_S, 6)), never=False, waiting=1.0)
    calendar = calendar_of(part, (), float(jobs.submit_s[-1]))
    start_s = starts(jobs.stating(name="made", size=10), "saf", calendar=calendar)
    assert np.isfinite(start_s).all()
    assert start_s[1] == jobs.submit_s[-1] + 30 * DAY_S


@pytest.mark.parametrize("kind", ["a step", "at most 5 running jobs", "low load"])
def test_the_calendar_that_is_written_gives_a_replay_the_starts_of_the_site(made, tmp_path, kind):
    path, out = made(kind), tmp_path / "machine.csv"
    said = batfill("fidelity", path, "--calendar", out).err
    site = Fidelity.on(logged(path), "log", fit=True, advance=lambda _: None)
    words = said.rpartition(f" --calendar {out} ")[2].split()
    assert words[:2] == ["--procs", str(site.part.size)]
    given = {name.strip("-").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    given |= {name: int(value) for name, value in given.items() if value.isdigit()}
    replayed = bf.replay(path, calendar=out, **given)
    assert isinstance(replayed, Result)
    wait_s = np.asarray(replayed["start_s"]) - site.site.logged.workload.submit_s
    assert np.array_equal(wait_s, site.site.waits(site.factors))
    assert (Calendar.read(out).windows == ()) == ("calendar" not in site.options)


# What holds a waiting job, by the definition of each


def slow_reason(log, machine, outages, limit, job, t):
    """Whether a job could start at an instant, tried against each reservation in the slowest way."""
    jobs = log.workload
    number, part = next((k, part) for k, part in enumerate(machine.parts) if part.rows[job])
    there = [procs for begin, procs in part.steps if begin <= t][-1]
    its = [k for k in range(len(jobs)) if part.rows[k] and k != job and not np.isnan(log.wait_s[k])]
    start = {k: jobs.submit_s[k] + log.wait_s[k] for k in its}
    running = [k for k in its if start[k] <= t < start[k] + jobs.runtime_s[k]]
    queue = [k for k in its if jobs.submit_s[k] <= t < start[k]]
    q, until = min(int(jobs.procs[job]), there), t + jobs.expected_s[job]

    def free(at, own):
        """With the running jobs that have not ended by then as they state, and with the job."""
        used = sum(int(jobs.procs[k]) for k in running if max(start[k] + jobs.expected_s[k], t + 1) > at)
        return there - used - (q if own and until > at else 0)

    def delayed(head):
        """Whether the job would keep this one from its first date; at a date those that end are gone."""
        wants = min(int(jobs.procs[head]), there)
        dates = sorted(max(start[k] + jobs.expected_s[k], t + 1) for k in running)
        return free(next(at for at in dates if free(at, own=False) >= wants), own=True) < wants

    if free(t, own=False) < q:
        return "full"
    if any(w.announced <= t < w.end and w.begin < until for w in outages):
        return "held"
    mates = sum(jobs.user[k] == jobs.user[job] for k in running)
    if limit is not None and number == 0 and jobs.user[job] >= 0 and mates >= limit:
        return "limit"
    heads = [k for k in queue if min(int(jobs.procs[k]), there) > free(t, own=False)]
    older = [k for k in heads if k < job][:1]
    if any(map(delayed, older)):
        return "held"
    return "order" if any(map(delayed, heads)) else "idle"


@settings(deadline=None, max_examples=examples(20))
@given(st.integers(0, 2**32))
def test_what_holds_a_job_is_that_of_a_slow_rule(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    n, span_s = int(rng.integers(2, 60)), int(rng.choice([200, 2000]))
    run_s = rng.integers(1, 300, n)
    jobs = job_table(
        submit_s=np.sort(rng.integers(0, span_s, n)), runtime_s=run_s, walltime_s=run_s + rng.integers(0, 3, n) * 50,
        procs=rng.integers(1, 9, n), user=rng.integers(-1, 3, n),
    )  # fmt: skip
    start_s = jobs.submit_s + rng.integers(0, 400, n)
    log = logged(written(tmp_path_factory.mktemp("log") / "log.swf", jobs, start_s, 8))
    other = rng.random(n) < 0.4
    parts = (
        Part("the rest", ~other, ((0.0, 8), (span_s / 2, int(rng.integers(1, 9)))), never=False, waiting=0.5),
        Part("queue 1", other, ((0.0, 5),), never=False, waiting=0.5),
    )
    machine = Machine(8, parts, True, jobs.procs > 7)
    outages = [Window("announced", 150.0, 180.0, 8, 100.0), Window("announced", 400.0, 420.0, 8, 400.0)]
    rows, at_s = waiting(log, machine, 60)
    found = holding(log, machine, outages, 2, 60)
    slow = [slow_reason(log, machine, outages, 2, job, t) for job, t in zip(rows.tolist(), at_s.tolist(), strict=True)]
    assert found == (Held(*(slow.count(name) / len(slow) for name in Held._fields)) if slow else None)


# Logs of which little is known


@settings(deadline=None, max_examples=examples(12))
@given(st.integers(0, 2**32))
def test_every_log_has_a_machine_whose_parts_hold_each_job_once(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    n, header = int(rng.choice([1, 2, 3, 70, 400])), int(rng.choice([1, 4, 16]))
    span_s = float(rng.choice([0, 3 * DAY_S, 80 * DAY_S, 3000 * DAY_S]))
    jobs = job_table(
        submit_s=np.sort(rng.integers(0, span_s + 1, n)), runtime_s=rng.integers(1, 9000, n),
        walltime_s=np.full(n, 9000), procs=rng.integers(1, int(rng.choice([2, 6, 40])), n), user=rng.integers(-1, 3, n),
    )  # fmt: skip
    waits = rng.integers(0, int(rng.choice([1, 2, 90_000])), n) * (rng.random(n) < rng.choice([0.1, 1]))
    start_s = jobs.submit_s + np.where(rng.random(n) < rng.choice([0, 0.005, 0.3]), -1, waits)
    labels = {name: rng.integers(-1, int(rng.choice([0, 2, 5])), n) for name in ("partition", "queue")}
    path = written(tmp_path_factory.mktemp("log") / "log.swf", jobs, start_s, header, **labels)
    found = fidelity_of(source_of(path))
    if found.site is not None:
        again = Site.of(logged(path))
        assert str(again.machine) == str(found.machine)
        assert again.held(found.factors) == found.held
    assert (found.near is None) == bool(found.unknown)
    assert np.array_equal(np.sum([part.rows for part in found.machine.parts], axis=0), np.ones(n))
    for part in found.machine.parts:
        begins, procs = zip(*part.steps, strict=True)
        assert begins[0] == 0
        assert list(begins) == sorted(set(begins))
        assert min(procs) >= 1
    assert not found.held or sum(found.held) == pytest.approx(1)


def test_a_machine_is_the_logs_the_headers_or_of_so_many_processors(made, tmp_path):
    path = made("header too large")
    sizes = {given: fidelity_of(source_of(path), given).part.size for given in ("log", "header", 100)}
    assert sizes == {"log": PROCS, "header": LARGER, 100: 100}
    assert fidelity_of(source_of(path), 100).machine.wide.any()
    for value, said in ((0, "0 is neither log, header nor a number"), ("x", "'x' is neither"), (2.5, "2.5 is neither")):
        assert said in refusal("fidelity", path, "--machine", value)
    log = logged(path)
    rows = log.workload.procs > 1
    wide = written(tmp_path / "log.swf", log.workload.select(rows), (log.workload.submit_s + log.wait_s)[rows])
    assert "no job with a wait fits 1 processors" in refusal("fidelity", wide, "--machine", 1)


@pytest.mark.parametrize(
    ("idle", "ratio", "rank", "doubted", "low"),
    [
        *[(0.5, 1.0, 0.3, False, 1), (0.51, 1.0, 0.3, True, 1), (0.3, 2.9, 0.25, False, 0)],
        *[(0.31, 3.1, 0.3, True, 2), (0.3, 2.9, 0.24, False, 1)],
    ],
)
def test_it_cannot_be_known_if_nothing_holds_jobs_or_waits_are_far_off(made, idle, ratio, rank, doubted, low):
    score = Score(100, 0.5, 1000 * ratio, 1000.0, ratio, rank_correlation=rank,
                  simulated_longest_s=9000.0, logged_longest_s=9000.0, off_s=1.0)  # fmt: skip
    plain = machine_of(logged(made("constant")))
    found = Fidelity(plain, near=score, held=Held(1 - idle, 0.0, 0.0, 0.0, idle))
    assert (found.doubt is not None, len(found.low)) == (doubted, low)


def test_a_part_is_limited_by_what_its_users_do_there(made):
    site = Site.of(logged(made("at most 5 running jobs")))
    assert site.options(site.machine.parts[0], PLAIN) == {}
    assert site.options(site.machine.parts[0], Factors(max_running=site.limit)) == {"max-running": 5}


def test_starts_are_expected_on_the_machine_that_the_log_shows(made):
    path = made("header too large")
    at = float(logged(path).workload.submit_s[JOBS // 2])
    sizes = {given: bf.when(path, at=at, forks=1, machine=given).size for given in (None, "log", "header", 300)}
    assert sizes == {None: PROCS, "log": PROCS, "header": LARGER, 300: 300}
    assert bf.when(path, at=at, forks=1, procs=300).size == 300
    narrow = bf.when(path, at=at, forks=1, machine=100).assumed
    assert narrow.startswith("the machine given, 100 processors (the header: 320); --machine header takes the other; ")
    assert f"; without {(logged(path).workload.procs > 100).sum():,} wider jobs" in narrow
    found = bf.when(made("two pools"), at=at, forks=1)
    assert (found.size, found.assumed.endswith("; the rest alone")) == (176, True)
    step = bf.when(made("a step"), at=at * 1.5, forks=1)
    assert step.about()["options"]["calendar"] is not None
    for state, more in ((path, {"calendar": "c.csv"}), ([], {}), (bf.Replay(path).run(until_s=at), {})):
        with pytest.raises(BatfillError, match=r"option (machine|calendar): "):
            bf.when(state, at=None if isinstance(state, bf.Replay) else at, machine="log", **more)
