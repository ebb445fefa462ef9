"""What searching and choosing online gain on logs: the tables of docs/results/learning.md.

`python -m studies.tables.learning LOG... > tables.md`;
six minutes of two cores for six logs. `batfill tune` with a grid of
2,502 points and `batfill select`, both with their defaults otherwise and seed 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import batfill as bf
from batfill.jobs import DAY_S
from batfill.stats import BETTER, WORSE
from studies.tables.archive_logs import by_name

POINTS = 2500
METHODS = ("full", "noisy")
MARKS = {BETTER: " ▼", WORSE: " ▲"}


def against(row, value):
    """A ratio with its interval, marked if it is beyond chance after the correction."""
    if row["from"] is None:
        return f"{value:.3f}"
    return f"{value:.3f} ({row['from']:.3f} to {row['to']:.3f}){MARKS.get(row['verdict'], '')}"


def days(row):
    """The 99.9 % quantile and the maximum of the waits, in days."""
    return f"{row['p999_wait_s'] / DAY_S:.1f}, {row['max_wait_s'] / DAY_S:.1f}"


def show(title, logs, cells):
    """One table: a row per choice, in the order of the first log that has it, and a column per log."""
    rows = list(dict.fromkeys(name for log in logs for name in cells[log]))
    print(f"\n{title}\n\n| | {' | '.join(logs)} |\n|---|{'---|' * len(logs)}")
    for name in rows:
        print(f"| {name} | {' | '.join(cells[log].get(name, '') for log in logs)} |")
    sys.stdout.flush()


def progress(text):
    """Say on standard error what is done."""
    print(text, file=sys.stderr, flush=True)


def main(paths):
    """Print the tables."""
    logs = by_name(paths)
    tuned = {}
    for log, path in logs.items():
        progress(f"tune {log}")
        tuned[log] = bf.tune(path, points=POINTS)
    print(f"<!-- studies/tables/learning.py, batfill {bf.__version__}, seed 0 -->")
    title = "Testing sums over those of SAF, with 95 % intervals:"
    show(
        title,
        logs,
        {log: {row["policy"]: against(row, row["testing/saf"]) for row in found.rows} for log, found in tuned.items()},
    )
    title = "The 99.9 % quantile of the waits and the longest wait in the testing weeks, in days:"
    show(title, logs, {log: {row["policy"]: days(row) for row in found.rows} for log, found in tuned.items()})
    print()
    for log, found in tuned.items():
        print(f"- {log}: {found.remark.replace(chr(10), '; ')}.")
    for method in METHODS:
        chosen = {}
        for log, path in logs.items():
            progress(f"select {log}, {method}")
            chosen[log] = bf.select(path, method)
        title = f"Mean waits over those of EASY-FCFS, `--method {method}`:"
        show(
            title,
            logs,
            {
                log: {row["policy"]: against(row, row["wait/fcfs"]) for row in found.rows}
                for log, found in chosen.items()
            },
        )
        title = "The 99.9 % quantile of the waits and the longest wait, in days:"
        show(title, logs, {log: {row["policy"]: days(row) for row in found.rows} for log, found in chosen.items()})
        print()
        for log, found in chosen.items():
            print(f"- {log}: {found.remark.replace(chr(10), '; ')}.")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
