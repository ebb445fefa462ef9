"""Fitted heuristics on the archive's logs: the tables of docs/results/tuning.md.

    python -m studies.tables.fits FOLDER > tables.md

FOLDER holds the logs; absent ones are named and left out. Each log's first half of 15-day windows is learned from, the
other half is for testing: with backfilling in the queue's order, each window from an empty machine. The last table asks
what the weight on r would be if all jobs of a tuple had been submitted when their orders begin. Twelve minutes of one
processor for six logs and three seeds.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batfill.base.version import __version__
from batfill.model.metrics import TAU_S
from batfill.model.policy import POLICIES, polynomial
from batfill.workloads import read_workload
from batfill_lab.learning.fit import BASELINE, Fit, Fitted, fit, fit_scores, monomial, over_saf, read_windows, validate
from batfill_lab.learning.proxy import N_QUEUED, N_RUNNING, score_jobs, trials
from batfill_pages.stats import BETTER, UNCLEAR
from studies.papers.page import markdown
from studies.tables.common import LOGS, longest, progress

MODEL = "lublin_256.swf.gz"  # another workload, all of it learned from
STUDY = {"tuples": 441, "permutations": 4000, "regression": "plain"}  # the study's number of tuples, and fewer orders
ON_R = 2000  # tuples for the last table
KNOWN = ("saf", "spf", "f2", "fcfs")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="holds the logs")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 0 (default 3)")
    parser.add_argument("--tuples", type=int, default=4000, help="of the signed fits (default 4000)")
    parser.add_argument("--permutations", type=int, default=4000, help="of the signed fits (default 4000)")
    parser.add_argument("--days", type=float, default=15, help="length of a window (default 15)")
    given = parser.parse_args()
    signed = {"tuples": given.tuples, "permutations": given.permutations, "days": given.days}
    plain = {**STUDY, "tuples": min(STUDY["tuples"], given.tuples), "days": given.days}

    elsewhere: dict[str, Fit] = {}
    if (given.folder / MODEL).is_file():
        for label, how in (("area of lublin_256", signed), ("plain lin of lublin_256", plain)):
            elsewhere[label] = fit(
                given.folder / MODEL, **how, training=windows_in(given.folder / MODEL, given.days)
            ).fits[0]
    costs, weights, on_r = {}, {}, {}
    for file, label in LOGS.items():
        path = given.folder / file
        if not path.is_file():
            progress(f"{file} is not in {given.folder}; left out")
            continue
        seeds = range(given.seeds)
        progress(f"{label} ...")
        fits = [fit(path, seed=seed, **signed) for seed in seeds]
        study = [fit(path, seed=seed, **plain) for seed in seeds]
        learned = {f"area, seed {seed}": found.fits[0] for seed, found in zip(seeds, fits, strict=True)}
        learned |= {"signed lin, seed 0": fits[0].fits[1]}
        learned |= {f"plain lin, seed {seed}": found.fits[0] for seed, found in zip(seeds, study, strict=True)}
        costs[label] = on_held_out(fits[0], learned | elsewhere)
        weights[label] = fits, study
        on_r[label] = weight_on_r(path, fits[0], min(ON_R, given.tuples), given.permutations)
    print_tables(costs, weights, given.seeds)
    print("Weight on r of area without the signs, and its standard error\n")
    print(
        markdown(["log", "as it is", "all jobs submitted"], [[label, *cells] for label, cells in on_r.items()]),
        end="\n\n",
    )


def windows_in(path: Path, days: float) -> int:
    """The number of a log's windows."""
    return len(read_windows(path, days=days))


def weight_on_r(path: Path, fitted: Fitted, tuples: int, permutations: int) -> list[str]:
    """The weight on r if jobs have to wait for their submission, and if all of a tuple have been submitted before."""
    workload = read_workload(path)
    assert workload.size is not None
    jobs = workload.select(slice(0, fitted["learned_from"]["jobs"]))
    jobs = jobs.select(jobs.procs <= workload.size)
    length = N_RUNNING + N_QUEUED
    scores = score_jobs(jobs, workload.size, seed=0, tuples=tuples, permutations=permutations)
    rng = np.random.default_rng(0)  # the tuples and seeds that `score_jobs` draws
    firsts = rng.integers(len(jobs) - length + 1, size=tuples)
    seeds = rng.integers(2**63, size=tuples, dtype=np.uint64)
    sums, orders = np.zeros((tuples, N_QUEUED)), np.zeros(N_QUEUED, np.int64)
    for i, first in enumerate(firsts.tolist()):
        rows = slice(first, first + length)
        submit_s = np.minimum(jobs.submit_s[rows], jobs.submit_s[first + N_RUNNING - 1]) - jobs.submit_s[first]
        columns = submit_s, jobs.runtime_s[rows], jobs.procs[rows]
        trials(permutations, seeds[i], True, workload.size, N_RUNNING, TAU_S, *columns, sums[i], orders)
    present = replace(scores, score=(sums / sums.sum(axis=1, keepdims=True)).ravel())
    found = [fit_scores(each, "area", regression="signed").free[2] for each in (scores, present)]
    return [f"{value:.2e} ± {error:.1e}" for value, error in found]


def on_held_out(fitted: Fitted, learned: dict[str, Fit]) -> dict[str, Any]:
    """These functions, and known policies, on the windows held out."""
    policies = [polynomial(name, found.terms, "") for name, found in learned.items()]
    policies += [POLICIES[name] for name in KNOWN if name != BASELINE]
    names = [policy.name for policy in policies]
    found = validate(fitted.held_out, policies, seed=0)
    return found | over_saf(found["with_backfilling"], names, seed=0)


def print_tables(
    costs: dict[str, dict[str, Any]], weights: dict[str, tuple[list[Fitted], list[Fitted]]], seeds: int
) -> None:
    """The tables as Markdown."""
    logs = list(costs)
    names = [*(costs[logs[0]]["over_saf"]), BASELINE]
    print(f"batfill {__version__}, seeds 0 to {seeds - 1}\n")
    print("Sums of mean bounded slowdowns over SAF's, 95 % interval, * if unlike SAF after the correction\n")
    counts = [f"{name}, {len(costs[name]['with_backfilling'][BASELINE]['mean_bsld'])}" for name in logs]
    print(
        markdown(
            ["policy", *counts],
            [[name, *(verdict_cell(costs[log]["over_saf"].get(name)) for log in logs)] for name in names],
        ),
        end="\n\n",
    )
    print("99.9 % quantile of the wait and longest wait, hours\n")
    waits = [[name, *(longest(costs[log]["with_backfilling"][name]) for log in logs)] for name in names]
    print(markdown(["policy", *logs], waits), end="\n\n")
    print("Advice\n")
    for log, (fits, _) in weights.items():
        for seed, found in enumerate(fits):
            print(f"- {log}, seed {seed}: {found['recommendation']['text']}")
    print("\nWeights without the signs: mean over the seeds, mean standard error, spread over the seeds / error\n")
    rows = []
    for log, (fits, study) in weights.items():
        for what, each, i in (("area", fits, 0), ("lin", fits, 1)):
            free = np.array([found.fits[i].free for found in each])
            rows.append([log, what, *spreads(free[:, :, 0], free[:, :, 1]), *[""] * (4 - free.shape[1])])
        plain = [found.fits[0] for found in study]
        values = np.array([[term[0] for term in found.terms[1:]] for found in plain])
        errors = np.array([found.standard_errors[1:] for found in plain])
        rows.append([log, "plain lin", *spreads(values, errors), ""])
    head = [monomial((p, q, r)) for _, p, q, r in next(iter(weights.values()))[0][0].fits[0].terms[1:]]
    print(markdown(["log", "function", *head], rows), end="\n\n")


def verdict_cell(found: dict[str, Any] | None) -> str:
    """A comparison in a cell."""
    if found is None:
        return "1"
    mark = "" if found["verdict"] == UNCLEAR else " *" if found["verdict"] == BETTER else " * (worse)"
    low, high = ("-" if end is None else f"{end:.2f}" for end in (found["low"], found["high"]))
    return f"{found['value']:.3f} ({low} to {high}){mark}"


def spreads(values: np.ndarray, errors: np.ndarray) -> list[str]:
    """A cell for each column of values, a row per seed: mean, reported error, and how far they agree."""
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(values.shape[1], np.nan)
    return [
        f"{value:.2e} ± {error:.1e}, {by / error:.2f}"
        for value, error, by in zip(values.mean(axis=0), errors.mean(axis=0), spread, strict=True)
    ]


if __name__ == "__main__":
    main()
