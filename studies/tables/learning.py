"""What searching and choosing online gain on logs: the tables of docs/results/tuning.md.

`python -m studies.tables.learning LOG... > tables.md`;
six minutes of two cores for six logs. `batfill tune` with a grid of
2,502 points and `batfill select`, both with their defaults otherwise and seed 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import batfill as bf
from batfill.model.jobs import DAY_S
from studies.papers.page import markdown
from studies.tables.common import MARKS, by_name, longest, progress

POINTS = 2500
METHODS = ("full", "noisy")


def ratio_cell(row, value):
    """A ratio with its interval, marked if it is beyond chance after the correction."""
    if row["from"] is None:
        return f"{value:.3f}"
    return f"{value:.3f} ({row['from']:.3f} to {row['to']:.3f}){MARKS.get(row['verdict'], '')}"


def print_table(title, found, cell):
    """One table: a row per choice, in the order of the first log that has it, and a column per log."""
    by_log = {log: {row["policy"]: cell(row) for row in one.rows} for log, one in found.items()}
    names = dict.fromkeys(name for cells in by_log.values() for name in cells)
    rows = [(name, *(cells.get(name, "") for cells in by_log.values())) for name in names]
    print(f"\n{title}\n\n{markdown(('', *by_log), rows)}", flush=True)


def remarks(found):
    """What each log's result says below its table."""
    print()
    for log, one in found.items():
        print(f"- {log}: {one.remark.replace(chr(10), '; ')}.")


def main(paths):
    """Print the tables."""
    logs = by_name(paths)
    tuned = {}
    for log, path in logs.items():
        progress(f"tune {log}")
        tuned[log] = bf.tune(path, points=POINTS)
    print(f"<!-- studies/tables/learning.py, batfill {bf.__version__}, seed 0 -->")
    print_table(
        "Testing sums over those of SAF, with 95 % intervals:", tuned, lambda row: ratio_cell(row, row["testing/saf"])
    )
    title = "The 99.9 % quantile of the waits and the longest wait in the testing weeks, in days:"
    print_table(title, tuned, lambda row: longest(row, DAY_S, 1))
    remarks(tuned)
    for method in METHODS:
        chosen = {}
        for log, path in logs.items():
            progress(f"select {log}, {method}")
            chosen[log] = bf.select(path, method)
        title = f"Mean waits over those of EASY-FCFS, `--method {method}`:"
        print_table(title, chosen, lambda row: ratio_cell(row, row["wait/fcfs"]))
        title = "The 99.9 % quantile of the waits and the longest wait, in days:"
        print_table(title, chosen, lambda row: longest(row, DAY_S, 1))
        remarks(chosen)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
