"""Random workloads and options: small machines, and as many ties as possible."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from batfill.model.jobs import LARGE, SMALL, UNKNOWN, WEEK_S, job_table
from batfill.model.limits.calendar import ANNOUNCED, FAILURE, Window
from batfill.model.limits.pools import DRAWN, MOST, Pool
from batfill.model.policy import POLICIES, policy_named
from batfill.model.rules import EVERY_JOB, Rules
from batfill.replays.engine_replay import replay_jobs
from batfill_lab.search.periods import Periods
from oracle import Budget as SlowBudget
from oracle import Pool as SlowPool
from oracle import oracle

WATTS = Pool(DRAWN, MOST, field="watts", base="W")  # what jobs with a field of this name draw of an energy budget


def table(rows, ids=None):
    """The job table of (submit, run time, walltime, processors[, class]) rows; walltime None for none."""
    rows = [(*row, UNKNOWN) if len(row) == 4 else row for row in rows]
    submit, runtime, walltime, procs, job_class = zip(*rows, strict=True) if rows else ((),) * 5
    return job_table(
        "made",
        ids=np.array(ids or [f"{i:06}" for i in range(len(rows))], dtype=object),
        submit_s=np.array(submit, np.float64),
        runtime_s=np.array(runtime, np.float64),
        walltime_s=np.array([math.inf if w is None else w for w in walltime], np.float64),
        procs=np.array(procs, np.int64),
        job_class=np.array(job_class, np.int8),
    )


def swapped_at_random(rng, one, other):
    """The same two without a difference by construction: in every period, a coin says which is which."""
    swap = rng.random(len(one)) < 0.5
    return np.where(swap, other, one), np.where(swap, one, other)


def periods_of(tables, procs):
    """Periods that are these job tables."""
    return Periods("made", "", procs, tuple(range(len(tables))), tuple(tables), {})


def outliving(jobs, unit_s=1.0):
    """These jobs as `overrun="extend"` reads them, with times `unit_s` as long: walltimes become requests."""
    request_s, runtime_s = jobs.walltime_s * unit_s, jobs.runtime_s * unit_s
    return replace(
        jobs,
        submit_s=jobs.submit_s * unit_s,
        runtime_s=runtime_s,
        walltime_s=np.maximum(request_s, runtime_s),
        request_s=request_s,
        asked=np.isfinite(request_s),
        own_end=True,
        outlives=True,
    )


def replayed(jobs, size, policy, *, backfill=None, **rest):
    """The schedule of a replay under policies given by their names."""
    order = policy_named(backfill) if backfill else None
    return replay_jobs(jobs, size, Rules(policy_named(policy), order, **rest))


def announced(begin, end, procs, known=None):
    """A window of maintenance that is known of from this date on, or always."""
    return Window(ANNOUNCED, float(begin), float(end), procs, known)


def failure(begin, end, procs):
    """A window in which processors have failed."""
    return Window(FAILURE, float(begin), float(end), procs)


def in_engine(depth):
    """The oracle's depth as the engine takes it."""
    return EVERY_JOB if depth == math.inf else depth


def for_oracle(calendar, unit_s=1.0, pool=""):
    """The windows of processors, or of a pool, as the oracle takes them: known for ever, but for dates and failures."""
    windows = [window for window in calendar.windows if window.pool == pool] if calendar else []
    known = [
        window.begin if window.kind == FAILURE else -math.inf if window.announced is None else window.announced
        for window in windows
    ]
    return [
        (window.begin * unit_s, window.end * unit_s, window.processors, since * unit_s, window.kind == FAILURE)
        for window, since in zip(windows, known, strict=True)
    ]


def with_amounts(jobs, wants):
    """These jobs with amounts of pools called p0, p1, ...; `wants` is (n_jobs, n_pools)."""
    records = np.zeros(len(jobs), [(f"p{place}", "f8") for place in range(wants.shape[1])])
    for place, amounts in enumerate(wants.T):
        records[f"p{place}"] = amounts
    return replace(jobs, amounts=records)


def with_watts(jobs, watts):
    """These jobs with what they draw of an energy budget, in a field called watts."""
    known = [] if jobs.amounts is None else [(name, jobs.amounts[name]) for name in jobs.amounts.dtype.names]
    records = np.zeros(len(jobs), [(name, "f8") for name, _ in [*known, ("watts", watts)]])
    for name, amounts in [*known, ("watts", watts)]:
        records[name] = amounts
    return replace(jobs, amounts=records)


def budget_for_oracle(budget):
    """The budget as the oracle takes it."""
    return SlowBudget(budget.begin, budget.end, budget.rate_w, budget.idle_w, budget.holds)


def pools_for_oracle(pools, calendar):
    """The pools as the oracle takes them."""
    return [
        SlowPool(one.capacity, one.skips, one.of_user, [fall[:4] for fall in for_oracle(calendar, pool=one.name)])
        for one in pools
    ]


def both(jobs, size, policy, *, depth=1, calendar=None, **case):
    """The engine's schedule, and the oracle's run by a plan, whose backfill order goes where there is none."""
    if depth in (0, math.inf):
        case = case | {"backfill": None}
    windows = [] if calendar is None else for_oracle(calendar)
    return (
        replayed(jobs, size, policy, depth=in_engine(depth), calendar=calendar, **case),
        oracle(jobs, size, policy, depth=depth, windows=windows, **case),
    )


def random_table(seed, *, n_jobs, size, span_s, longest=40, unit_s=1, wide=0.02, unlimited=0.05, small=0.0, short=0.0):
    """A seeded workload: run times of 0 to `longest` units, so that ends and submissions share instants.

    `wide`, `unlimited`, `small` and `short` are shares: of jobs wider than the machine, without walltime, of class
    small, and with a walltime of a unit or two.
    """
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, span_s + 1, n_jobs)).astype(float)
    runtime = rng.integers(0, longest + 1, n_jobs) * float(unit_s)
    walltime = np.maximum(runtime + unit_s * rng.choice([-5, 0, 0, 7, 20], n_jobs), unit_s)
    walltime[rng.random(n_jobs) < unlimited] = math.inf
    procs = np.minimum(rng.integers(1, size + 1, n_jobs), rng.integers(1, size + 1, n_jobs))
    procs[rng.random(n_jobs) < wide] = size + 1
    job_class = np.where(rng.random(n_jobs) < small, SMALL, LARGE)
    walltime = np.where(rng.random(n_jobs) < short, unit_s * rng.integers(1, 3, n_jobs), walltime)
    rows = zip(submit, runtime, walltime, procs, job_class, strict=True)
    return table(list(rows))


def classify_both(run, beside, rng):
    """Give the jobs of a replay that learns and of its oracle equal random classes; some are not to be killed."""
    run.queue.change_divider(beside.divider_s, bound=beside.bound)
    for job in beside.jobs:
        job.small, job.exempt = bool(rng.random() < 0.7), bool(rng.random() < 0.2)
    classify_like(run, beside.jobs)


def classify_like(run, jobs):
    """Give the jobs of a replay the classes that the oracle's jobs have."""
    for job in jobs:
        run.queue.classify(job.seq, job.small, killable=not job.exempt, expected_s=job.walltime)


def random_mixed(rng, *, expansion):
    """Six random weights; the fifth is on the expansion factor."""
    weights = rng.normal(size=6).round(3)
    weights[4] *= expansion
    return "mixed:" + ",".join(str(weight) for weight in weights)


@st.composite
def workloads(draw, max_jobs=25):
    """(job table, machine size)."""
    size = draw(st.integers(1, 8))
    seconds = st.integers(0, 15)
    row = st.tuples(
        seconds,
        seconds,
        st.none() | seconds.filter(bool),
        st.integers(1, size + 1),
        st.sampled_from([SMALL, LARGE, UNKNOWN]),
    )
    rows = draw(st.lists(row, max_size=max_jobs))
    # Ids in no relation to the order of the rows: ties in submission time are theirs to break, as strings.
    ids = draw(st.permutations([str(i) for i in range(len(rows))]))
    return table(rows, ids), size


weight = st.integers(-3, 3)
mixed_policies = (
    st.tuples(*[weight] * 6).filter(any).map(lambda weights: "mixed:" + ",".join(str(weight) for weight in weights))
)
policies = st.sampled_from(list(POLICIES)) | mixed_policies


def weeks_of_habits(seed, n_jobs=700, weeks=4, size=16):
    """Users whose jobs mostly run for as long as that user's jobs do."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 12, n_jobs)
    submit_s = np.sort(rng.integers(0, weeks * WEEK_S, n_jobs)).astype(float)
    runtime_s = np.ceil(np.exp(rng.normal(4 + user / 3, 0.7)))
    walltime_s = np.maximum(runtime_s, rng.choice([3600.0, 18_000.0, 64_800.0], n_jobs))
    procs = rng.integers(1, size + 1, n_jobs)
    jobs = table(list(zip(submit_s, runtime_s, walltime_s, procs, strict=True)))
    return replace(jobs, user=user)
