"""How near simulated waits are to those in the logs: the tables of docs/results/fidelity.md.

`python -m studies.tables.fidelity [LOG...] > fidelity.md`; without a LOG, the six logs of
`studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Replays under FCFS with EASY backfilling are compared with all logged waits: on the header's machine, on the one that
ran, and there with what the site does besides, which is fitted on the first half of the jobs. The second table has the
second half alone, the third what holds waiting jobs, the fourth how the rule errs that says when nothing can be said.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from batfill.model.jobs import HOUR_S
from batfill.workloads.formats import part_of, source_of
from batfill_site.fidelity import MOST_IDLE, PLAIN, Fidelity
from batfill_site.score import logged_of, percent, ratio_text
from studies.papers.page import markdown
from studies.tables.common import by_name, made_by, progress
from studies.tables.first_tries import logs_at_hand

NAMES = {"header": "header's machine", "machine": "machine that ran", "near": "and besides"}
RATIOS, LEAST_RANK = (0.5, 2.0), 0.25  # of the second half's waits, for the machine to show them


def found_in(path):
    """The log with its waits, and how near replays are to them."""
    source = source_of(path)
    logged = logged_of(part_of(source, source.log), source.log, source.where)
    return logged, Fidelity.on(logged, "log", fit=True, advance=lambda _: None)


def score_rows(log, found):
    """The rows of the first table."""
    for place, (name, one) in enumerate(found.scores.items()):
        hours = f"{one.simulated_mean_s / HOUR_S:.2f} / {one.logged_mean_s / HOUR_S:.2f}"
        errors = percent(one.error), percent(one.median_error)
        cells = (*errors, ratio_text(one.ratio), hours, percent(one.near), ratio_text(one.rank_correlation))
        yield log * (place == 0), NAMES[name], f"{one.jobs:,}", *cells


def second_half(logged, found):
    """The scores of the second half of the jobs, of those that both machines replay."""
    waits = found.shown_s["header"], found.waits[PLAIN], found.shown_s["near"]
    rows = found.site.counted & ~logged.first_half & np.all([logged.compared(wait_s) for wait_s in waits], axis=0)
    return [logged.score(wait_s, rows) for wait_s in waits]


def half_row(log, logged, found):
    """The row of the second table."""
    cells = [f"{ratio_text(one.ratio)}, {ratio_text(one.rank_correlation)}" for one in second_half(logged, found)]
    explained = f"{percent(1 - found.held_header.idle)}, {percent(1 - found.held.idle)}"
    return log, *cells, explained, f"{found.machine.text()}; {found.factors}"


def held_row(log, found):
    """The row of the third table."""
    return log, *map(percent, found.held), percent(found.held_header.idle)


def holds(one):
    """Whether these simulated waits are those of the site."""
    return RATIOS[0] <= one.ratio <= RATIOS[1] and one.rank_correlation >= LEAST_RANK


def best_threshold(idle, good):
    """The share of idle time up to which most of these logs are judged right; of equals the middle one."""
    edges = np.sort(np.concatenate([[0], (np.sort(idle)[1:] + np.sort(idle)[:-1]) / 2, [1]]))
    right = [((idle <= edge) == good).sum() for edge in edges]
    best = np.flatnonzero(np.array(right) == max(right))
    return edges[best[len(best) // 2]]


def rule_rows(judged):
    """The rows of the fourth table, of each log's idle share in the first half and its score in the second."""
    idle, good = np.array([share for _, share, _ in judged]), np.array([holds(one) for _, _, one in judged])
    for k, (log, share, _) in enumerate(judged):
        others = np.arange(len(judged)) != k
        threshold = best_threshold(idle[others], good[others])
        said = ["cannot tell" if share > most else "can tell" for most in (MOST_IDLE, threshold)]
        yield log, percent(share), "yes" if good[k] else "no", said[0], f"{said[1]} ({percent(threshold)})"


def main(words):
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="SWF files; by default the six logs")
    given = parser.parse_args(words)
    logs = by_name(given.logs or logs_at_hand())
    scores, halves, held, judged = [], [], [], []
    for log, path in logs.items():
        progress(log)
        logged, found = found_in(path)
        scores += score_rows(log, found)
        halves.append(half_row(log, logged, found))
        held.append(held_row(log, found))
        past = found.site.until_half()
        judged.append((log, past.held(found.factors).idle, second_half(logged, found)[-1]))
    print("<!--", *made_by("fidelity", words, logs), "-->", sep="\n")
    head = ("log", "replay", "jobs", "mean error", "median error", "simulated / logged", "mean wait, hours")
    print(f"\n{markdown((*head, 'within 10 min', 'rank correlation'), scores)}")
    head = ("log", *NAMES.values(), "waiting time explained: header's, that ran", "machine that ran; besides")
    print(f"\nThe second half of the jobs: simulated / logged, rank correlation:\n\n{markdown(head, halves)}")
    head = ("log", "full", "held", "order", "limit", "idle", "idle on the header's machine")
    print(f"\nWhat holds waiting jobs, as shares of the waiting time:\n\n{markdown(head, held)}")
    head = ("log", "idle, first half", "holds in the second", f"at most {percent(MOST_IDLE)}", "fitted on the others")
    print(f"\nThe rule:\n\n{markdown(head, list(rule_rows(judged)))}")


if __name__ == "__main__":
    main(sys.argv[1:])
