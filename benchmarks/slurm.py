"""How near the model of Slurm is to real runs, and what each of its rules is worth.

    python benchmarks/slurm.py exact [FOLDER...]  # with the dates of the real passes: starts, nodes, passes
    python benchmarks/slurm.py own-clock          # with the model's own dates: 20 runs, and the pool's figure
    python benchmarks/slurm.py noise              # those runs with each other: what is chance in a schedule
    python benchmarks/slurm.py ablation           # each rule removed or changed, on given dates and on its own

The ablation frees one job's nodes late on given dates, as Slurm did in own-b; no log says why.

The runs are those of tests/data/slurm and the public run in the folder that $BATFILL_SLURM names, or those in FOLDER...
with the same files (tests/data/slurm/README.md). `--engine twin` takes the slow version in plain Python, of which the
ablation needs some rows in any case.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np

from batfill_site.slurm.fidelity import pool_waits
from batfill_site.slurm.model import Model

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from slurm_ablation import ROWS

from slurm_truth import OWN, PUBLIC, correlation, distance, public, recorded
from slurm_twin import Twin

RUNS = sorted(OWN.glob("own-*"))
SLOW_JOBS = 200  # the twin, which takes half a minute for 500 jobs, makes no runs with its own clock beyond these
ENGINES = {"kernel": Model, "twin": Twin}  # what makes runs
COLUMNS = f"{'':28s} {'mean wait':>9s} {'of truth':>8s} {'MAE':>7s} {'median':>7s} {'rho':>6s} {'nodes':>6s}"


@cache
def truth_in(folder, *, late=False):
    """The real run in a folder, own-b with the nodes that were freed late or not."""
    return public(folder) if (folder / "associations.txt").exists() else recorded(folder, late=late)


def chosen(args):
    """The folders of the runs that are given or named, or of all at hand."""
    if args.folders:
        return args.folders
    if not PUBLIC:
        print("BATFILL_SLURM names no folder: without the public run", file=sys.stderr)
    every = {folder.name: folder for folder in RUNS} | ({"public": Path(PUBLIC)} if PUBLIC else {})
    return [folder for name, folder in every.items() if not args.of or name in args.of]


def run_of(make, truth, clock=None):
    """How far a run is from the truth, on this clock, or with the dates of the real passes."""
    return distance(truth, make(truth.site, truth.jobs).run(clock or truth.clock))


def own_run(engine, folder, number):
    """How far a run is from the truth on a clock of its own."""
    truth = truth_in(folder)  # a site does not go from process to process
    return run_of(ENGINES[engine], truth, truth.own_clock(number))


def exact(args):
    truths = [truth_in(folder) for folder in chosen(args)]
    late = [truth_in(OWN / "own-b", late=True)] if not (args.of or args.folders) else []
    for truth in (*truths, *late):
        began = time.process_time()
        found = run_of(ENGINES[args.engine], truth)
        seconds = time.process_time() - began
        off = ~(np.abs(found.off_s) <= truth.close_s)
        print(f"{truth.name}: {len(truth.jobs)} jobs; {off.sum()} of {len(off)} starts off", end="")
        print(f" by more than {truth.close_s:.0f} s", end="")
        if off.any():
            print(f", job {first_off(truth, found)[1]} first", end="")
        print(f"; {found.same_nodes.sum()} node lists equal; {found.backfilled} backfilled", end="")
        print(f"; {found.same_pass.sum()} by the same pass" if truth.by else "", end="")
        print(f"; {found.wrong} of {len(truth.preempted)} preempted otherwise" if truth.preempted else "", end="")
        print(f"; mean error {found.mean_error_s:.3f} s; {seconds:.1f} s of processor time", flush=True)
        if truth.whole_s:
            print("    starts, model - real, s:", dict(sorted(Counter(found.off_s.astype(int).tolist()).items())))


def summary(true_s, waits):
    """The mean over runs of their waits against the true ones, as a row of `COLUMNS` without the nodes."""
    mean_s, errors = np.mean([each.mean() for each in waits]), [np.abs(each - true_s) for each in waits]
    return (
        f"{mean_s:9.1f} {mean_s / true_s.mean():8.3f} {np.mean(errors):7.1f} "
        f"{np.mean([np.median(each) for each in errors]):7.1f} "
        f"{np.mean([correlation(each, true_s) for each in waits]):6.3f}"
    )


def pool(truth):
    """What EASY backfilling under FCFS says, on a pool of all CPUs."""
    jobs = truth.jobs
    ran = np.isfinite(jobs.started_s)
    return f"{summary((jobs.started_s - jobs.submit_s)[ran], [pool_waits(truth.site, jobs)[ran]])} {'-':>6s}"


def own_runs(args, folder):
    with ProcessPoolExecutor(args.processes) as executor:
        return list(executor.map(partial(own_run, args.engine, folder), range(args.runs)))


def own_clock(args):
    for folder in chosen(args):
        truth, founds = truth_in(folder), own_runs(args, folder)
        print(f"{truth.name + ', ' + str(args.runs) + ' runs':28s} {COLUMNS[29:]}")
        print(f"{'truth':28s} {founds[0].true_waits_s.mean():9.1f}")
        figures = summary(founds[0].true_waits_s, [found.waits_s for found in founds])
        print(f"{'model, own clock':28s} {figures} {np.mean([each.same_nodes for each in founds]):6.1%}")
        means = [found.waits_s.mean() for found in founds]
        print(f"{'  a run':28s} {min(means):9.1f} to {max(means):.1f}, standard deviation {np.std(means):.1f}")
        print(f"{'pool, EASY, FCFS':28s} {pool(truth)}", flush=True)


def noise(args):
    for folder in chosen(args):
        truth, founds = truth_in(folder), own_runs(args, folder)
        pairs = [(a.waits_s, b.waits_s) for a, b in combinations(founds, 2)]
        errors = [np.abs(a - b) for a, b in pairs]
        print(
            f"{truth.name}: two of {args.runs} runs with each other, mean of {len(pairs)} pairs: "
            f"MAE {np.mean(errors):.1f} s, median {np.mean([np.median(each) for each in errors]):.1f} s, "
            f"rho {np.mean([correlation(a, b) for a, b in pairs]):.3f}"
        )


def first_off(truth, found):
    """How many jobs started before the first difference, and the job that differs first."""
    start_s = truth.jobs.started_s
    off = np.flatnonzero(~(np.abs(found.off_s[: len(start_s)]) <= truth.close_s))
    if not off.size:
        return len(start_s), "-"
    at_s = np.fmin(start_s[off], start_s[off] + found.off_s[off])
    return int((start_s < at_s.min()).sum()), truth.jobs.ids[off[at_s.argmin()]]


def ablated(task):
    """A row of the ablation."""
    number, folder, runs, engine = task
    row = ROWS[number]
    truth, late = row.truth(truth_in(folder)), row.truth(truth_in(folder, late=True))
    if truth is None:
        return row.rule, None
    make = row.twin or ENGINES[engine]
    real, mean = f"{'-':>5s} {'-':>6s} {'-':>7s}", f"{'-':>9s} {'-':>7s} {'-':>8s} {'-':>6s}"
    if row.on_given_dates:
        found = run_of(make, late)
        before, job = first_off(late, found)
        real = f"{before:5d} {job:>6s} {np.nanmean(np.abs(found.off_s)):7.1f}"
    if not issubclass(make, Twin) or len(truth.jobs) <= SLOW_JOBS:
        founds = [run_of(make, truth, truth.own_clock(number)) for number in range(runs)]
        waits = [np.nanmean(found.waits_s) for found in founds]
        error = np.mean([np.nanmean(np.abs(found.off_s)) for found in founds])
        mean = f"{np.mean(waits):9.1f} {np.mean(waits) / founds[0].true_waits_s.mean():7.3f} {error:8.1f}"
        mean += f" {np.mean([found.correlation for found in founds]):6.3f}"
        never = sum(int(np.isnan(found.waits_s).sum()) for found in founds)
        mean += f"  {never} starts missing" * (never > 0)
    return row.rule, f"{real} | {mean}"


def ablation(args):
    for folder in chosen(args):
        truth = truth_in(folder)
        wait_s = np.nanmean(truth.jobs.started_s - truth.jobs.submit_s)
        print(f"\n{truth.name}: real mean wait {wait_s:.1f} s; left the real dates, right {args.runs} own clocks")
        print(f"{'rule removed or changed':58s} first    job     MAE | mean wait of real      MAE    rho")
        tasks = [(number, folder, args.runs, args.engine) for number in range(len(ROWS))]
        with ProcessPoolExecutor(args.processes) as executor:
            for rule, text in executor.map(ablated, tasks):
                if text is not None:
                    print(f"{rule:58s} {text}", flush=True)
        print(f"{'pool: EASY, FCFS (batfill replay)':58s} {'':20s} | {pool(truth)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"exact": exact, "own-clock": own_clock, "noise": noise, "ablation": ablation}
    parser.add_argument("command", choices=commands)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="of other runs")
    parser.add_argument("--engine", choices=ENGINES, default="kernel")
    parser.add_argument("--runs", type=int, default=20, help="with its own clock")
    parser.add_argument("--of", action="append", choices=(*(x.name for x in RUNS), "public"), help="not all")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_intermixed_args()
    commands[args.command](args)


if __name__ == "__main__":
    main()
