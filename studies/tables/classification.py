"""Small jobs first: the tables of docs/results/classification.md.

`python -m studies.tables.classification LOG... > tables.md`;
thirty-five minutes of one processor for the five logs of the page.
Each log is replayed whole, from an empty machine. Most of the time goes into forests: a replay that trains them takes a
minute on a long log, others a few seconds. So rows that train them are replayed on fewer logs, and under fewer orders.
A log of which nothing is said below gets the cells of KTH-SP2, the shortest.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import batfill as bf
from batfill.model.jobs import HOUR_S
from studies.papers.page import markdown
from studies.tables.common import by_name, progress

TAU_S = 60
THRESHOLD_S = 200_000

GUARD = {"threshold_s": THRESHOLD_S}
COLUMNS = {
    "fcfs": ("fcfs", {}),
    "spf": ("spf", {}),
    "saf": ("saf", {}),
    "wfp3": ("wfp3", {}),
    "fcfs, threshold": ("fcfs", GUARD),
    "spf, threshold": ("spf", GUARD),
}
ALL = tuple(COLUMNS)
PLAIN = ("fcfs", "spf")
BOTH = ("fcfs", "spf", "fcfs, threshold", "spf, threshold")
OF_FCFS = ("fcfs", "fcfs, threshold")
NONE = ()

EASY = {"predict": "easy++", "predict_for": "all"}
REGRESSION = {"predict": "regression", "predict_for": "all"}
SHORTEST = {"backfill": "spf"}
CLASSIFIED = {"small": "forest", "kill": "never"}
BOUND = {"small": "forest", "kill": "always"}
CI = {**BOUND, "bound": False}
TRIES = {"small": "all", "kill": "always"}
PERFECT = {"small": "perfect", "kill": "always"}
CLASSES = {**PERFECT, "bound": False}


class Row(NamedTuple):
    """A row of the main table."""

    options: dict
    columns: tuple = BOTH  # those that are replayed
    on: dict = {}  # noqa: RUF012  # columns on a log, if they are others there


ONLY_KTH = {"SDSC-SP2": NONE, "CTC-SP2": NONE}
SHORT = {"CTC-SP2": NONE}
SOME = {"CTC-SP2": (*PLAIN, "saf", *BOTH[2:])}
ROWS = {
    "base: users' requests": Row({}, ALL, SOME),
    "EASY++": Row(EASY, on=SHORT),
    "online regression": Row(REGRESSION, on=SHORT),
    "base, backfill spf": Row(SHORTEST, OF_FCFS, SHORT),
    "EASY++, backfill spf": Row({**EASY, **SHORTEST}, OF_FCFS, SHORT),
    "online regression, backfill spf": Row({**REGRESSION, **SHORTEST}, OF_FCFS, SHORT),
    "classified, no kill": Row(CLASSIFIED, ALL[:4], {"SDSC-SP2": ("fcfs",), "CTC-SP2": PLAIN}),
    "classified, no kill, decoupled": Row({**CLASSIFIED, "regime": "decoupled"}, PLAIN, ONLY_KTH),
    "CI": Row(CI, ALL, {"SDSC-SP2": BOTH, "CTC-SP2": BOTH}),
    "CI, decoupled": Row({**CI, "regime": "decoupled"}, PLAIN, ONLY_KTH),
    "CI, bound": Row(BOUND, PLAIN, {**SHORT, "SDSC-SP2": ("fcfs",)}),
    "CI, bound, cut 0.2": Row({**BOUND, "cut": 0.2}, PLAIN, ONLY_KTH),
    "cut 0": Row({**TRIES, "bound": False}, PLAIN, SHORT),
    "bound, cut 0": Row(TRIES, ALL, SOME),
    "bound, cut 0, needed": Row({**TRIES, "kill": "needed"}),
    "class-clairvoyant": Row(CLASSES, ALL, SOME),
    "class-clairvoyant, bound": Row(PERFECT, ALL, SOME),
    "runtime-clairvoyant": Row({"predict": "runtime", "predict_for": "all"}, ALL, SOME),
}

ONLY_QUALITY = ("SDSC-BLUE", "HPC2N")

FACTORS = (1, 1.5, 2, 4)
SIZE_COLUMNS = {
    "base": {},
    "bound, cut 0": TRIES,
    "needed": {**TRIES, "kill": "needed"},
    "class-clairvoyant, bound": PERFECT,
    "bound, cut 0, threshold": {**TRIES, **GUARD},
}
AS_THEY_ARE = ("SDSC-SP2", "CTC-SP2", *ONLY_QUALITY)

REGIMES = ("decoupled", "fresh")
ONLY_FRESH = ("SDSC-BLUE",)


@cache
def read_once(path):
    """A log, read once."""
    return bf.read(path)


@cache
def cell_of(path, policy, given):
    """Mean bounded slowdown and longest wait in hours; the kills and their share of the work, if there are any."""
    figures = bf.replay(read_once(path), policy, tau_s=TAU_S, **dict(given)).figures
    kills = f"; {figures.requeued:,}, {figures.wasted:.1%}" if figures.requeued else ""
    return f"{figures.mean_bsld:.2f}, {figures.max_wait_s / HOUR_S:.0f}{kills}"


def replayed_cell(path, policy, options):
    """As `cell_of`, said on standard error as well."""
    found = cell_of(path, policy, tuple(sorted(options.items())))
    progress(f"{path.name} {policy} {options}: {found}")
    return found


def main_table(log, path):
    """Every row of a log by the orders; a column with no cell is left out."""
    measured = {name: row.on.get(log, row.columns) for name, row in ROWS.items()}
    columns = [column for column in COLUMNS if any(column in found for found in measured.values())]
    rows = []
    for name, found in measured.items():
        cells = []
        for column in columns:
            policy, guard = COLUMNS[column]
            cells.append(replayed_cell(path, policy, {**ROWS[name].options, **guard}) if column in found else "-")
        if found:
            rows.append((name, *cells))
    print(f"\n{markdown((log, *columns), rows)}", flush=True)


def size_rows(log, path):
    """A log's rows of the table of larger machines."""
    size = read_once(path).procs
    for procs in (round(factor * size) for factor in FACTORS):
        given = {} if procs == size else {"procs": procs}
        found = [replayed_cell(path, "fcfs", {**options, **given}) for options in SIZE_COLUMNS.values()]
        yield log, f"{procs:,}", *found


def quality_rows(log, path):
    """A log's rows of the classification's quality on the log as recorded; "-" if no forest judged a job."""
    for regime in REGIMES[log in ONLY_FRESH :]:
        total = bf.classify(path, regime=regime).total()
        progress(f"{path.name} {regime}: {total}")
        rates = [total.rates()[name] for name in ("accuracy", "precision", "recall")]
        shares = ["-" if value is None else f"{value:.1%}" for value in rates]
        scores = ["-" if value is None else f"{value:.3f}" for value in (total.auc, total.brier)]
        yield log, regime, *shares, *scores


def main(paths):
    """Print the tables."""
    logs = by_name(paths)
    by = f"batfill {bf.__version__}, seed 0, tau {TAU_S} s, threshold {THRESHOLD_S} s"
    print(f"<!-- studies/tables/classification.py, {by} -->")
    for log, path in logs.items():
        if log not in ONLY_QUALITY:
            main_table(log, path)
    for head, rows_of, left_out in (
        (("fcfs", "processors", *SIZE_COLUMNS), size_rows, AS_THEY_ARE),
        (("log", "regime", "accuracy", "precision", "recall", "AUC", "Brier score"), quality_rows, ()),
    ):
        rows = [row for log, path in logs.items() if log not in left_out for row in rows_of(log, path)]
        print(f"\n{markdown(head, rows)}", flush=True)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
