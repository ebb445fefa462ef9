"""First tries on variants of logs, and whether their promise holds there.

`python -m studies.tables.first_tries [LOG...] [--jobs 2] [--csv replays.csv] > first-tries.md`;
without a LOG, the six logs of `studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Each log, its halves, other loads, resampled weeks and bursts of one user (`studies.tables.variants`) are replayed
whole, from an empty machine, with several seeds, which move each submission by up to a minute. A variant's ratio is the
mean over the seeds of the ratio to FCFS without tries on the same jobs; in brackets are the least and the most. What is
measured and promised is in `studies.tables.promise`. The last table compares schedulers on the whole logs.
`--generated` takes the logs of five models instead (`studies.tables.models`), on which no setting was chosen.
`--load 1.1` takes the whole logs alone, with the times between submissions divided by 1.1. `--family` compares the
preset with its neighbours on the same variants, and prints no other table.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from batfill.model.jobs import HOUR_S
from batfill.model.options import Options, Study, of_arguments
from batfill.replays.replay import simulate
from studies.papers.page import markdown
from studies.papers.run import places
from studies.tables.common import LOGS, by_name, made_by, parser_of, replay_all, write_replays
from studies.tables.models import DRAWS, MODELS, Generated
from studies.tables.promise import BUSY, OTHER_TAU_S, OVERLOADED, QUIET, SHORT, TAU_S, Check, Figures, figures_of
from studies.tables.variants import LOADS, WHOLE, Variant, variants_of

FIRST_TRIES = {"preset": "first-tries"}
BASE, TRIES, SAF = "fcfs", "first tries", "saf, threshold 50000"
ON_VARIANTS = {BASE: {"policy": "fcfs"}, SAF: {"policy": "saf", "threshold_s": 50_000}, TRIES: FIRST_TRIES}

# The preset and its neighbours: another backlog, plainer and steeper orders, and as it was before it stood back.
FAMILY = {
    TRIES: FIRST_TRIES,
    **{f"a backlog of {n}": {**FIRST_TRIES, "stand_back": n} for n in (16, 64)},
    "any backlog": {**FIRST_TRIES, "stand_back": 1e9},
    "the order of fcfs": {**FIRST_TRIES, "policy": "fcfs"},
    "aged:20000,0.2,0": {**FIRST_TRIES, "policy": "aged:20000,0.2,0"},
    "no standing back": {**FIRST_TRIES, "stand_back": "none"},
    "both, as it was": {**FIRST_TRIES, "policy": "aged:20000,0.2,0", "stand_back": "none"},
}

# The schedulers that are compared on whole logs. Those that learn are replayed with the first seed alone, and forests,
# which are trained on all that has ended at each week's end, only on logs on which that takes minutes.
HALF = {"threshold_s": 50_000, "overdue": "half"}
LONGER = 1.02  # a longest wait that is this many times another counts as no longer
AGED = {"the same without tries": {"policy": "aged:20000,0.1,0", **HALF}}
GUARDED = {f"saf, threshold {hours}h": {"policy": "saf", "threshold_s": f"{hours}h"}
           for hours in (2, 4, 8, 12, 16, 24, 36, 48, 72, 96, 144)}  # fmt: skip
PAPER = {"small": "forest", "kill": "always", "study": Study(bound=False, regime="decoupled")}
LEARNING = {
    "first tries, perfect classes": {**FIRST_TRIES, "small": "perfect"},
    "EASY++": {"predict": "easy++", "predict_for": "all", "backfill": "spf"},
    "first tries, forest's classes": {**FIRST_TRIES, "small": "forest"},
    "paper's classifier": PAPER,
    "paper's classifier, threshold 50000, half": {**PAPER, **HALF},
}
NO_FORESTS = ("SDSC-BLUE", "HPC2N")

HEAD = ("bsld", "tau 10", "mean wait", "large jobs'", "99.9 %", "longest", "waste, %", "kills")


class Task(NamedTuple):
    """One replica of a variant, under several settings."""

    variant: Variant
    seed: int
    settings: dict

    @property
    def name(self):
        """The log, the variant and the seed."""
        return f"{self.variant.log}, {self.variant.name}, seed {self.seed}"


def schedule_under(workload, *, study=Study(), **setting):  # noqa: B008 - it has no state
    """The schedule of a workload under these options, and what studies vary beside them."""
    options = replace(Options.of(of_arguments(setting)), study=study)
    return simulate(workload.jobs, workload, options)[0]


def replayed(task):
    """The replica's number of jobs, and the figures by setting."""
    workload = task.variant.replica(task.seed)
    return len(workload.jobs), {
        name: figures_of(schedule_under(workload, **setting)) for name, setting in task.settings.items()
    }


def checks(tasks, found):
    """By variant and setting: a check of all seeds beside FCFS; a setting may have fewer seeds than FCFS."""
    together, n_jobs = {}, {}
    for task, (jobs, figures) in zip(tasks, found, strict=True):
        n_jobs.setdefault(task.variant, []).append(jobs)
        for setting, row in figures.items():
            together.setdefault(task.variant, {}).setdefault(setting, []).append(row)
    return {
        variant: {
            setting: Check(np.array(rows, float), np.array(each[BASE][: len(rows)], float), min(n_jobs[variant]))
            for setting, rows in each.items()
        }
        for variant, each in together.items()
    }


def failing_first(found):
    """The variants in the order of the table: those that break the promise first, then by what is promised."""

    def place(variant):
        check = found[variant][TRIES]
        return not check.broken, (BUSY, SHORT, QUIET, OVERLOADED).index(check.kind)

    return sorted(found, key=place)


# The tables


def spread_cell(values):
    """The mean, and the least and the most."""
    return f"{values.mean():.2f} ({values.min():.2f}-{values.max():.2f})"


def cells(check):
    """A setting's cells: its ratios, its waste in per cent, and its kills."""
    *ratios, waste, kills = check.ratios.T
    return [*(spread_cell(column) for column in ratios), spread_cell(100 * waste), f"{kills.mean():,.0f}"]


def own_cell(figures):
    """A scheduler's own mean bounded slowdown and mean wait."""
    mean = Figures(*figures.mean(axis=0))
    return f"{mean.bsld:.1f}, {mean.wait / HOUR_S:.2f} h"


def verdict(check):
    """Whether the promise is kept, in words."""
    if check.kind == OVERLOADED:
        return "not covered: overloaded"
    if check.broken:
        return f"**fails**: {', '.join(check.broken.values())}"
    return f"kept: quiet, mean wait {check.longer_s:+.1f} s" if check.kind == QUIET else f"kept: {check.kind}"


def promise_table(found):
    """A line for each variant."""
    rows = []
    for variant in failing_first(found):
        check = found[variant][TRIES]
        rows.append((variant.log, variant.name, verdict(check), own_cell(check.base), *cells(check)))
    return markdown(("log", "variant", "promise", "FCFS", *HEAD), rows)


def worst_table(found):
    """By what is promised: the worst mean over seeds and its variant, the median, and the worst single seed."""
    rows = []
    for kind in (BUSY, SHORT, OVERLOADED):
        of_kind = {variant: each for variant, each in found.items() if each[TRIES].kind == kind}
        for setting in (TRIES, SAF) if of_kind else ():
            ratios = [each[setting].ratios[:, :7] * (*[1] * 6, 100) for each in of_kind.values()]
            means, names = np.array([each.mean(axis=0) for each in ratios]), list(of_kind)
            where = [names[place] for place in means.argmax(axis=0)]
            lines = {
                "worst": [
                    f"{mean:.2f}: {at.log}, {at.name}" for mean, at in zip(means.max(axis=0), where, strict=True)
                ],
                "median": [f"{value:.2f}" for value in np.median(means, axis=0)],
                "worst seed": [f"{value:.2f}" for value in np.max([each.max(axis=0) for each in ratios], axis=0)],
            }
            rows += [(f"{setting}, {len(names)} {kind}: {what}", *line) for what, line in lines.items()]
    return markdown(("", *HEAD[:7]), rows)


def family_table(found):
    """Of each member on busy and on overloaded variants: the median of the slowdown, and the worst of five ratios."""
    rows = []
    columns = [HEAD.index(name) for name in ("bsld", "mean wait", "large jobs'", "99.9 %", "longest")]
    for setting in FAMILY:
        cells = [setting]
        for kind in (BUSY, OVERLOADED):
            checks = [each[setting] for each in found.values() if each[setting].kind == kind]
            means = np.array([check.ratios.mean(axis=0)[columns] for check in checks])
            if kind == BUSY:
                cells.append(f"{sum(not check.broken for check in checks)} of {len(checks)}")
            cells += [f"{np.median(means[:, 0]):.2f}", ", ".join(f"{worst:.2f}" for worst in means.max(axis=0))]
        rows.append(cells)
    return markdown(("", "kept", "busy: median", "worst", "overloaded: median", "worst"), rows)


def counts_line(found):
    """How many variants keep the promise."""
    kinds = [each[TRIES].kind for each in found.values()]
    n_covered, failing = len(kinds) - kinds.count(OVERLOADED), sum(bool(each[TRIES].broken) for each in found.values())
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in (BUSY, SHORT, QUIET))
    return (
        f"The promise holds on {n_covered - failing} of {n_covered} variants that it covers ({counts}); "
        f"overloaded, and so not covered: {kinds.count(OVERLOADED)}."
    )


def best_as_long(each):
    """The SAF with the lowest mean bounded slowdown of those whose longest wait is as long, or the one that is nearest.

    As long: its mean over the seeds is at most LONGER times that of first tries.
    """
    mean = {name: Figures(*each[name].figures.mean(axis=0)) for name in (*GUARDED, SAF, TRIES)}
    limit_s = LONGER * mean[TRIES].longest
    return min((*GUARDED, SAF), key=lambda name: (max(mean[name].longest, limit_s), mean[name].bsld))


def comparison_table(found):
    """Each whole log under each scheduler."""
    rows = []
    for variant, each in found.items():
        chosen = best_as_long(each)
        for name in (name for name in dict.fromkeys((*ON_VARIANTS, chosen, *AGED, *LEARNING)) if name in each):
            words = f"{name}, the best with such a longest wait" if name == chosen else name
            rows.append((f"{variant.log}, {variant.name}", words, own_cell(each[name].figures), *cells(each[name])))
    return markdown(("log", "scheduler", "bsld, mean wait", *HEAD), rows)


# The command


def comparison_tasks(logs, seeds):
    """The replays of the whole logs under all schedulers; those that take long come first."""
    whole = [Variant(log, path) for log, path in logs.items()]
    learning = [
        Task(variant, 0, {name: setting})
        for variant in whole
        for name, setting in LEARNING.items()
        if not (variant.log in NO_FORESTS and setting.get("small") == "forest")
    ]
    plain = {**ON_VARIANTS, **AGED, **GUARDED}
    return learning + [Task(variant, seed, plain) for variant in whole for seed in range(seeds)]


def logs_at_hand():
    """The six logs, where they are."""
    found = [folder / name for name in LOGS for folder in places(None) if (folder / name).is_file()]
    if len(found) < len(LOGS):
        sys.exit("not all six logs are here; set BATFILL_TRACES to their folder, or give the logs")
    return found


def csv_rows(tasks, found):
    """A row for each replay."""
    yield "log", "variant", "seed", "jobs", "setting", "options", *Figures._fields
    for task, (jobs, figures) in zip(tasks, found, strict=True):
        for setting, row in figures.items():
            options = Options.of(of_arguments(task.settings[setting])).as_text()
            yield task.variant.log, task.variant.name, task.seed, jobs, setting, options, *row


def main(words):
    """Print the tables."""
    parser = parser_of(__doc__, logs="the six logs", of="variant", seeds=5)
    parser.add_argument("--quick", action="store_true", help="the promise alone, without the schedulers that learn")
    parser.add_argument("--generated", action="store_true", help="the logs of `studies.tables.models`, and no other")
    parser.add_argument("--load", type=float, choices=LOADS, help="the promise on the whole logs at this load alone")
    parser.add_argument("--family", action="store_true", help="compare the preset with its neighbours")
    given = parser.parse_args(words)
    logs = {} if given.generated else by_name(given.logs or logs_at_hand())

    setting = f"seeds 0 to {given.seeds - 1}, tau {TAU_S:g} s and {OTHER_TAU_S:g} s"
    about = made_by("first_tries", words, logs, setting, f"first tries: {Options.of(FIRST_TRIES).as_text()}")
    variants = [variant for log, path in logs.items() for variant in variants_of(log, path)]
    if given.load:
        variants = [Variant(log, path, WHOLE, str(given.load)) for log, path in logs.items()]
    if given.generated:
        variants = [Generated(model, draw) for model in MODELS for draw in DRAWS]
    tried = {BASE: ON_VARIANTS[BASE], **FAMILY} if given.family else ON_VARIANTS
    tasks = [Task(variant, seed, tried) for variant in variants for seed in range(given.seeds)]
    done = replay_all(replayed, tasks, given.jobs)
    found = checks(tasks, done)
    print("<!--", *about, "-->", sep="\n")
    if given.family:
        print(f"\n{family_table(found)}")
        return
    print(f"\n{counts_line(found)}\n\n{worst_table(found)}\n\n{promise_table(found)}", flush=True)
    if logs and not (given.quick or given.load):
        compared = comparison_tasks(logs, given.seeds)
        done += replay_all(replayed, compared, given.jobs)
        print(f"\n{comparison_table(checks(compared, done[len(tasks) :]))}")
        tasks += compared
    write_replays(given.csv, about, csv_rows(tasks, done))


if __name__ == "__main__":
    main(sys.argv[1:])
