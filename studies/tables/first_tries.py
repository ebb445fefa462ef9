"""First tries on variants of logs, and the promise that they are checked against.

`python -m studies.tables.first_tries [LOG...] [--jobs 2] [--csv replays.csv] > first-tries.md`;
without a LOG, the six logs of `studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Each log, its halves, other loads, weeks drawn anew and bursts of one user (`studies.tables.variants`) are replayed
whole, from an empty machine, with several seeds, which move each submission by up to a minute. A variant's ratio is the
mean over the seeds of the ratio to FCFS without tries on the same jobs; in brackets are the least and the most.
Large jobs run for at least the median of their variant. The last table compares schedulers on the whole logs.
`--generated` takes the logs of five models instead (`studies.tables.models`), on which no setting was chosen.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import batfill as bf
from batfill.base.files import csv_text, digest, write_text
from batfill.base.processes import spread
from batfill.base.version import __version__
from batfill.model.jobs import HOUR_S
from batfill.model.metrics import bounded_slowdown, long_waits
from batfill.model.options import described, of_arguments
from studies.papers.page import markdown
from studies.papers.run import places
from studies.tables.common import LOGS, by_name, progress, waits_of
from studies.tables.models import DRAWS, MODELS, Generated
from studies.tables.variants import Variant, variants_of

TAU_S, OTHER_TAU_S = 60, 10
FIRST_TRIES = {
    "policy": "aged:20000,0.2,0",
    "small": "all",
    "divider": 120,
    "small_width": "1/8",
    "kill": "needed",
    "threshold_s": 50_000,
    "overdue": "half",
}
SAF = {"policy": "saf", "threshold_s": 50_000}
BASE, TRIES, GUARDED = "fcfs", "first tries", "saf, threshold 50000"
ON_VARIANTS = {BASE: {}, GUARDED: SAF, TRIES: FIRST_TRIES}

# The promise: what first tries have, over FCFS on the same jobs, at most.
BUSY_BSLD = 3  # on logs on which FCFS's mean bounded slowdown is above this
OVERLOADED_S = 8 * HOUR_S  # and its mean wait below this; beyond it nothing is promised
MOST = {"bsld": 0.80, "wait": 1.00, "large": 1.03, "p999": 1.15, "longest": 1.20, "waste": 0.01}
QUIET_S = 2.0  # on quieter logs: how much longer the mean wait is
BUSY, QUIET, OVERLOADED = "busy", "quiet", "overloaded"

# The schedulers that are compared on whole logs. Those that learn are replayed with the first seed alone, and forests,
# which are trained on all that has ended at each week's end, only on logs on which that takes minutes.
PAPER = {"small": "forest", "regime": "decoupled", "kill": "always", "bound": False}
EASY = {"predict": "easy++", "predict_for": "all", "backfill": "spf"}
HALF = {"threshold_s": 50_000, "overdue": "half"}
THRESHOLDS_H = (2, 4, 8, 12, 16, 24, 36, 48, 72, 96, 144)
LEARNING = {
    "first tries, perfect classes": {**FIRST_TRIES, "small": "perfect"},
    "EASY++": EASY,
    "first tries, forest's classes": {**FIRST_TRIES, "small": "forest"},
    "paper's classifier": PAPER,
    "paper's classifier, threshold 50000, half": {**PAPER, **HALF},
}
NO_FORESTS = ("SDSC-BLUE", "HPC2N")
AGED = {"first tries without tries": {"policy": FIRST_TRIES["policy"], **HALF}}


class Figures(NamedTuple):
    """What is measured of a replay."""

    bsld: float  # mean bounded slowdown, tau 60 s
    bsld_10: float  # the same, tau 10 s
    wait: float  # mean wait, in seconds as the next three
    large: float  # that of large jobs
    p999: float  # the 99.9 % quantile of the waits
    longest: float
    waste: float  # share of the work
    kills: int


HEAD = ("bsld", "tau 10", "mean wait", "large jobs'", "99.9 %", "longest", "waste, %", "kills")
RATIOED = Figures._fields[:6]
SCALE = np.array([1, 1, 1, 1, 1, 1, 100])  # waste is shown in per cent


def figures_of(schedule):
    """The figures of a replay."""
    ran = ~schedule.rejected
    waits, runtime_s, found = waits_of(schedule), schedule.runtime_s[ran], schedule.summary(TAU_S)
    long = long_waits(waits)
    return Figures(
        bsld=found.mean_bsld,
        bsld_10=float(bounded_slowdown(waits, runtime_s, OTHER_TAU_S).mean()),
        wait=found.mean_wait_s,
        large=float(waits[runtime_s >= np.median(runtime_s)].mean()),
        p999=long["p999_wait_s"],
        longest=long["max_wait_s"],
        waste=found.wasted,
        kills=found.requeued,
    )


def options_text(setting):
    """A setting as the options line of a result."""
    return described(of_arguments({"policy": "fcfs"} | setting))


# Replays


class Task(NamedTuple):
    """One replica of a variant, under several settings."""

    variant: Variant
    seed: int
    settings: dict


def replayed(task):
    """The figures by setting."""
    workload = task.variant.replica(task.seed)
    return {
        name: figures_of(bf.replay(workload, **{"policy": "fcfs"} | setting, advance=lambda _: None).schedule)
        for name, setting in task.settings.items()
    }


def replay_all(tasks, processes):
    """The figures of each task, by its place."""
    found, began = [None] * len(tasks), time.perf_counter()
    for done, (place, figures) in enumerate(spread(replayed, tasks, processes), 1):
        if isinstance(figures, Exception):
            raise figures
        found[place] = figures
        variant, seed, _ = tasks[place]
        took = f"{time.perf_counter() - began:.0f} s"
        progress(f"{done} of {len(tasks)}, {took}: {variant.log}, {variant.name}, seed {seed}")
    return found


def by_variant(tasks, found):
    """By variant and setting: the figures of every seed, shape (n_seeds, n_figures)."""
    together = {}
    for task, figures in zip(tasks, found, strict=True):
        for setting, row in figures.items():
            together.setdefault(task.variant, {}).setdefault(setting, []).append(row)
    return {variant: {name: np.array(rows) for name, rows in each.items()} for variant, each in together.items()}


# The arithmetic


def over(figures, base):
    """Figures of shape (n_seeds, n_figures) with those of `RATIOED` over the base's; 0 over 0 is 1."""
    found = np.array(figures, float)
    n = len(RATIOED)
    with np.errstate(divide="ignore", invalid="ignore"):
        found[:, :n] = np.where(base[:, :n] == figures[:, :n], 1.0, figures[:, :n] / base[:, :n])
    return found


def covered(base):
    """What the promise says of a log with these figures under FCFS."""
    mean = Figures(*base.mean(axis=0))
    return OVERLOADED if mean.wait >= OVERLOADED_S else BUSY if mean.bsld > BUSY_BSLD else QUIET


def broken(figures, base):
    """By how much each number of the promise is missed that is, as text: `99.9 % 1.19 > 1.15`; {} if it is kept."""
    kind = covered(base)
    if kind == QUIET:
        longer_s = (figures - base).mean(axis=0)[Figures._fields.index("wait")]
        return {"wait": f"mean wait {longer_s:.1f} s longer"} if longer_s > QUIET_S else {}
    ratios = Figures(*over(figures, base).mean(axis=0))._asdict()
    words = dict(zip(Figures._fields, HEAD, strict=True)) | {"waste": "waste"}
    return {
        name: f"{words[name]} {ratios[name]:.3f} > {most:.2f}"
        for name, most in MOST.items()
        if kind == BUSY and ratios[name] > most
    }


def failing_first(found):
    """The variants in the order of the table: those that break the promise first, then busy, quiet, overloaded ones."""

    def place(variant):
        each = found[variant]
        return not broken(each[TRIES], each[BASE]), (BUSY, QUIET, OVERLOADED).index(covered(each[BASE]))

    return sorted(found, key=place)


# The tables


def spread_cell(values, digits=2):
    """The mean, and the least and the most."""
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f}-{values.max():.{digits}f})"


def ratio_cells(figures, base):
    """A setting's cells: its ratios, its waste in per cent, and its kills."""
    ratios = over(figures, base)
    *columns, waste, kills = ratios.T
    return [*(spread_cell(column) for column in columns), spread_cell(100 * waste), f"{kills.mean():,.0f}"]


def base_cell(base):
    """FCFS's own mean bounded slowdown and mean wait."""
    mean = Figures(*base.mean(axis=0))
    return f"{mean.bsld:.1f}, {mean.wait / HOUR_S:.2f} h"


def promise_table(found):
    """A line for each variant."""
    rows = []
    for variant in failing_first(found):
        figures, base = found[variant][TRIES], found[variant][BASE]
        kind, missed = covered(base), broken(figures, base)
        longer_s = (figures - base).mean(axis=0)[Figures._fields.index("wait")]
        says = {
            BUSY: "kept",
            QUIET: f"kept: quiet, mean wait {longer_s:+.1f} s",
            OVERLOADED: "not covered: overloaded",
        }
        verdict = f"**fails**: {', '.join(missed.values())}" if missed else says[kind]
        rows.append((variant.log, variant.name, verdict, base_cell(base), *ratio_cells(figures, base)))
    return markdown(("log", "variant", "promise", "FCFS", *HEAD), rows)


def worst_table(found):
    """The worst mean over seeds, the median, and the worst single seed, by setting, over busy and overloaded ones."""
    rows = []
    for kind in (BUSY, OVERLOADED):
        of_kind = {variant: each for variant, each in found.items() if covered(each[BASE]) == kind}
        for setting in (name for name in ON_VARIANTS if name != BASE and of_kind):
            ratios = {variant: over(each[setting], each[BASE])[:, :7] * SCALE for variant, each in of_kind.items()}
            means = np.array([each.mean(axis=0) for each in ratios.values()])
            names = list(ratios)
            what = f"{setting}, {len(names)} {kind}"
            where = [names[place] for place in means.argmax(axis=0)]
            worst = [f"{value:.2f}, {at.log}, {at.name}" for value, at in zip(means.max(axis=0), where, strict=True)]
            rows.append((f"{what}: worst mean", *worst))
            rows.append((f"{what}: median", *(f"{value:.2f}" for value in np.median(means, axis=0))))
            single = np.max([each.max(axis=0) for each in ratios.values()], axis=0)
            rows.append((f"{what}: worst seed", *(f"{value:.2f}" for value in single)))
    return markdown(("", *HEAD[:7]), rows)


def counts_line(found):
    """How many variants keep the promise."""
    kinds = [covered(each[BASE]) for each in found.values()]
    failing = sum(bool(broken(each[TRIES], each[BASE])) for each in found.values())
    n_covered = len(kinds) - kinds.count(OVERLOADED)
    return (
        f"The promise holds on {n_covered - failing} of {n_covered} variants that it covers ({kinds.count(BUSY)} busy, "
        f"{kinds.count(QUIET)} quiet); overloaded, and so not covered: {kinds.count(OVERLOADED)}."
    )


def nearest_threshold(each):
    """The name of the SAF whose mean longest wait is nearest to that of first tries."""
    place = Figures._fields.index("longest")
    target = each[TRIES][:, place].mean()
    return min(
        (f"saf, {hours} h" for hours in THRESHOLDS_H), key=lambda name: abs(each[name][:, place].mean() - target)
    )


def comparison_table(found):
    """Each whole log under each scheduler."""
    rows = []
    for variant, each in found.items():
        chosen = nearest_threshold(each)
        for name in (name for name in (*ON_VARIANTS, chosen, *AGED, *LEARNING) if name in each):
            figures, base = each[name], each[BASE][: len(each[name])]
            words = f"saf, threshold {name.removeprefix('saf, ')}: the nearest longest wait" if name == chosen else name
            rows.append((f"{variant.log}, {variant.name}", words, base_cell(figures), *ratio_cells(figures, base)))
    return markdown(("log", "scheduler", "bsld, mean wait", *HEAD), rows)


# The command


def comparison_tasks(logs, seeds):
    """The replays of the whole logs under all schedulers; those that take long come first."""
    whole = [Variant(log, path) for log, path in logs.items()]
    guarded = {f"saf, {hours} h": {"policy": "saf", "threshold_s": hours * HOUR_S} for hours in THRESHOLDS_H}
    tasks = [
        Task(variant, 0, {name: setting})
        for variant in whole
        for name, setting in LEARNING.items()
        if not (variant.log in NO_FORESTS and setting.get("small") == "forest")
    ]
    plain = {**ON_VARIANTS, **AGED, **guarded}
    return tasks + [Task(variant, seed, plain) for variant in whole for seed in range(seeds)]


def logs_at_hand():
    """The six logs, where they are."""
    found = [folder / name for name in LOGS for folder in places(None) if (folder / name).is_file()]
    if len(found) < len(LOGS):
        sys.exit("not all six logs are here; set BATFILL_TRACES to their folder, or give the logs")
    return found


def csv_rows(tasks, found):
    """A row for each replay."""
    yield "log", "variant", "seed", "setting", "options", *Figures._fields
    for task, figures in zip(tasks, found, strict=True):
        for setting, row in figures.items():
            yield task.variant.log, task.variant.name, task.seed, setting, options_text(task.settings[setting]), *row


def main(words):
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="SWF files; by default the six logs")
    parser.add_argument("--seeds", type=int, default=5, help="replicas of each variant [default: 5]")
    parser.add_argument("--jobs", type=int, default=2, help="processes [default: 2]")
    parser.add_argument("--csv", type=Path, help="write the figures of every replay to this file")
    parser.add_argument("--quick", action="store_true", help="the promise alone, without the schedulers that learn")
    parser.add_argument("--generated", action="store_true", help="the logs of `studies.tables.models`, and no other")
    given = parser.parse_args(words)
    logs = {} if given.generated else by_name(given.logs or logs_at_hand())

    about = [
        f"batfill {__version__}, python -m studies.tables.first_tries {shlex.join(words)}",
        f"seeds 0 to {given.seeds - 1}, tau {TAU_S} s and {OTHER_TAU_S} s, first tries: {options_text(FIRST_TRIES)}",
        *(f"{log}: {path.name}, sha256 {digest(path)}" for log, path in logs.items()),
    ]
    variants = [variant for log, path in logs.items() for variant in variants_of(log, path)]
    if given.generated:
        variants = [Generated(model, draw) for model in MODELS for draw in DRAWS]
    tasks = [Task(variant, seed, ON_VARIANTS) for variant in variants for seed in range(given.seeds)]
    done = replay_all(tasks, given.jobs)
    found = by_variant(tasks, done)
    print("<!--", *about, "-->", sep="\n")
    print(f"\n{counts_line(found)}\n\n{worst_table(found)}\n\n{promise_table(found)}", flush=True)
    if logs and not given.quick:
        compared = comparison_tasks(logs, given.seeds)
        done += replay_all(compared, given.jobs)
        print(f"\n{comparison_table(by_variant(compared, done[len(tasks) :]))}")
        tasks += compared
    if given.csv:
        write_text(given.csv, "".join(f"# {line}\n" for line in about) + csv_text(csv_rows(tasks, done)))


if __name__ == "__main__":
    main(sys.argv[1:])
