"""Generated logs on which no setting was chosen: five models of jobs and arrivals, and one of them overloaded.

The statistics in a model's comment are those of the published descriptions of such machines, in round numbers; no log
of them was at hand. A model's constants were chosen with a look at FCFS's load, mean wait and slowdown alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from batfill.model.jobs import DAY_S, HOUR_S, WEEK_S
from batfill.workloads.generate import generate_log, synthetic_users
from batfill.workloads.swf_log import new_log
from studies.tables.variants import moved_workload

MINUTE_S = 60
ROUND_S = np.array([300, 900, 1800, *(HOUR_S * hours for hours in (1, 2, 4, 8, 12, 24, 48, 72, 168))])
DRAWS = (1, 2, 3)


def lublin(rng, load):
    """Interactive and batch jobs of the Lublin-Feitelson model with Tsafrir's requests, on 430 processors."""
    return generate_log(20_000, 430, int(rng.integers(2**31)), kind="both", users=120, load=load), 430


def office(rng, load):
    """A department's machine: Poisson arrivals with a day and a week, lognormal run times, widths of powers of two.

    The median run time is a quarter of an hour, the mean above an hour; requests are run times over a uniform share.
    """
    n_jobs, procs = 25_000, 512
    runtime_s = np.minimum(rng.lognormal(np.log(15 * MINUTE_S), 2.0, n_jobs), 2 * DAY_S)
    width = 2.0 ** np.minimum(rng.geometric(0.45, n_jobs) - 1, 9)
    hours = np.arange(WEEK_S // HOUR_S)
    rate = (1 + 0.9 * day(hours)) * np.where(hours // 24 < 5, 1.0, 0.3)
    submit_s = dates(rng.exponential(1, n_jobs), rate, (runtime_s * width).sum() / (procs * load))
    return jobs_of(submit_s, runtime_s, width, rounded(runtime_s / rng.uniform(0.02, 1, n_jobs)), 90, rng), procs


def rushes(rng, load):
    """Heavy-tailed bursts: arrivals at a rate that jumps between quiet, busy and rush, for a Pareto time each.

    A submission is a batch of like jobs, its size with a Zipf tail; run times are Weibull with shape 0.45. Requests
    are one of four queues' limits.
    """
    n_jobs, procs = 30_000, 1024
    batch = np.minimum(rng.zipf(1.8, n_jobs), 200)
    batch = batch[: int(np.searchsorted(np.cumsum(batch), n_jobs)) + 1]
    gap_s, state_s = (3000, 500, 60), (12 * HOUR_S, 6 * HOUR_S, HOUR_S)
    gaps_s = []
    while len(gaps_s) < len(batch):
        state = rng.choice(3, p=(0.5, 0.38, 0.12))
        left_s = state_s[state] * (1 + rng.pareto(1.5))
        while left_s > 0 and len(gaps_s) < len(batch):
            gaps_s.append(rng.exponential(gap_s[state]))
            left_s -= gaps_s[-1]
    of_batch = np.repeat(np.arange(len(batch)), batch)[:n_jobs]
    scale_s = 40 * MINUTE_S * rng.weibull(0.45, len(batch))
    runtime_s = np.clip(scale_s[of_batch] * rng.lognormal(0, 0.5, n_jobs), 1, 3 * DAY_S)
    width = np.ceil(2 ** rng.uniform(0, 6, len(batch)))[of_batch]
    queue_s = np.array([HOUR_S, 6 * HOUR_S, DAY_S, 3 * DAY_S])
    longest_s = np.maximum.reduceat(runtime_s, np.flatnonzero(np.diff(of_batch, prepend=-1)))
    asked = np.maximum(np.searchsorted(queue_s, longest_s), rng.integers(0, 4, len(longest_s)))
    submit_s = np.cumsum(gaps_s)[of_batch]
    submit_s *= (runtime_s * width).sum() / (procs * load) / submit_s[-1]
    return jobs_of(submit_s, runtime_s, width, queue_s[asked][of_batch], 60, rng), procs


def farm(rng, load):
    """A farm of mostly serial jobs of 400 users, as grid sites and shared clusters report them.

    Nine of ten jobs are serial, the widest take 32 of 1,024 processors; three in ten fail or end within two minutes,
    the others run for four hours on average. Two thirds of the users request the default of a day, whatever they run.
    """
    n_jobs, procs = 60_000, 1024
    user = synthetic_users(n_jobs, 400, rng)
    runs_long = rng.random(n_jobs) < 0.7
    runtime_s = np.where(runs_long, rng.gamma(0.7, 4 * HOUR_S / 0.7, n_jobs), rng.exponential(40, n_jobs))
    runtime_s = np.clip(runtime_s, 1, 2 * DAY_S)
    width = np.where(rng.random(n_jobs) < 0.9, 1, 2.0 ** rng.integers(1, 6, n_jobs))
    default = (rng.random(401) < 2 / 3)[user.astype(int)] & (runtime_s < DAY_S)
    requested_s = np.where(default, DAY_S, rounded(runtime_s / rng.uniform(0.1, 1, n_jobs)))
    rate = 1 + 0.5 * day(np.arange(24))
    submit_s = dates(rng.gamma(0.05, 20, n_jobs), rate, (runtime_s * width).sum() / (procs * load))
    return jobs_of(submit_s, runtime_s, width, requested_s, 400, rng, user=user), procs


def capability(rng, load):
    """A capability machine, after what is published of Intrepid, the Blue Gene/P of Argonne: wide jobs, long runs.

    Its 80 midplanes are processors here; half of the jobs take one or two, a few the whole machine. Run times are a
    mixture of debugging (minutes), production (hours) and runs of a day; requests are at most twice as long.
    """
    n_jobs, procs = 12_000, 80
    kind = rng.choice(3, n_jobs, p=(0.45, 0.45, 0.1))
    debugging_s = rng.lognormal(np.log(8 * MINUTE_S), 1.3, n_jobs)
    production_s = HOUR_S * rng.uniform(2, 12, n_jobs) * rng.beta(2, 2, n_jobs)
    long_s = HOUR_S * rng.uniform(18, 30, n_jobs)
    runtime_s = np.clip(np.choose(kind, (debugging_s, production_s, long_s)), 10, 36 * HOUR_S)
    widths, shares = (1, 2, 4, 8, 16, 32, 64, 80), (0.34, 0.2, 0.16, 0.12, 0.1, 0.05, 0.02, 0.01)
    width = rng.choice(widths, n_jobs, p=shares)
    hours = np.arange(WEEK_S // HOUR_S)
    rate = (1 + 0.6 * day(hours)) * np.where(hours // 24 < 5, 1.0, 0.6)
    submit_s = dates(rng.exponential(1, n_jobs), rate, (runtime_s * width).sum() / (procs * load))
    return jobs_of(submit_s, runtime_s, width, rounded(runtime_s * rng.uniform(1, 2, n_jobs)), 150, rng), procs


# By name: the model, and the offered load of its log.
MODELS = {
    "lublin": (lublin, 0.65),
    "office": (office, 0.6),
    "rushes": (rushes, 0.3),
    "farm": (farm, 0.9),
    "capability": (capability, 0.6),
    "office, overloaded": (office, 0.9),
}


def day(hours):
    """A wave over the day, highest at two in the afternoon."""
    return np.sin(2 * np.pi * (hours % 24 - 8) / 24)


def dates(gaps, rate, span_s):
    """Submissions in `span_s` seconds with these gaps, at a rate that changes with the hour of the day or week."""
    passed = np.cumsum(gaps) / gaps.sum() * span_s / (len(rate) * HOUR_S)
    activity = np.concatenate([[0.0], np.cumsum(rate)]) / rate.sum()
    cycles, within = np.divmod(passed, 1.0)
    return (cycles * len(rate) + np.interp(within, activity, np.arange(len(rate) + 1))) * HOUR_S


def rounded(requested_s):
    """The requests as users write them: the next round value, at most a week."""
    return ROUND_S[np.minimum(np.searchsorted(ROUND_S, requested_s), len(ROUND_S) - 1)]


def jobs_of(submit_s, runtime_s, width, requested_s, users, rng, *, user=None):
    """The log of these columns, in whole seconds."""
    columns = {
        "job": np.arange(1, len(submit_s) + 1),
        "submit_s": np.floor(submit_s),
        "runtime_s": np.ceil(runtime_s),
        "procs": width,
        "requested_procs": width,
        "requested_s": np.maximum(requested_s, np.ceil(runtime_s)),
        "user": synthetic_users(len(submit_s), users, rng) if user is None else user,
    }
    return new_log(("Information: made by a model",), columns)


class Generated(NamedTuple):
    """A log of a model; used as a `Variant`."""

    log: str  # the model's name
    draw: int

    @property
    def name(self):
        """Which of the model's logs."""
        return f"draw {self.draw}"

    def replica(self, seed):
        """The workload of this seed, which moves the submissions."""
        log, procs = generated(self.log, self.draw)
        return moved_workload(f"{self.log}, {self.name}, seed {seed}", log, procs, seed)


@lru_cache(maxsize=2)
def generated(name, draw):
    """A model's log at its load, and the machine's size."""
    model, load = MODELS[name]
    return model(np.random.default_rng([draw, *name.encode()]), load)
