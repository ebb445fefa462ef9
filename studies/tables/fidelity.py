"""How near simulated waits are to those in the logs: the tables of docs/results/fidelity.md.

`python -m studies.tables.fidelity [LOG...] > fidelity.md`; without a LOG, the six logs of
`studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

Replays under FCFS with EASY backfilling are compared with all logged waits: on the header's machine, on the one that
ran, and there with what the site does besides, which is fitted on the first half of the jobs. The second table has what
holds waiting jobs, the third how the rule errs that says when nothing can be said.
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

RATIOS, LEAST_RANK = (0.5, 2.0), 0.25  # of the second half's waits, for the machine to show them


def found_in(path):
    """The log with its waits, and how near replays are to them."""
    source = source_of(path)
    logged = logged_of(part_of(source, source.log), source.log, source.where)
    return logged, Fidelity.on(logged, "log", fit=True, advance=lambda _: None)


def second_half(logged, found):
    """The scores of the second half of the jobs, by what is replayed, of those that both machines replay."""
    waits = {"header": found.header_s, "machine": found.waits[PLAIN], "near": found.waits[found.factors]}
    rows = found.site.counted & ~logged.first_half & np.all([logged.compared(one) for one in waits.values()], axis=0)
    return {name: logged.score(wait_s, rows) for name, wait_s in waits.items()}


def score_rows(log, found, later):
    """The rows of the first table."""
    names = {"header": "header's machine", "machine": found.machine.text(), "near": str(found.factors)}
    for place, (name, one) in enumerate(found.scores.items()):
        hours = f"{one.simulated_mean_s / HOUR_S:.2f} / {one.logged_mean_s / HOUR_S:.2f}"
        shown = [ratio_text(value) for each in (one, later[name]) for value in (each.ratio, each.rank_correlation)]
        yield log * (place == 0), names[name], hours, percent(one.error), *shown


def held_row(log, found):
    """A row of the second table."""
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
    """The rows of the third table, of each log's idle share in the first half and its score in the second."""
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
    scores, held, judged = [], [], []
    for log, path in logs.items():
        progress(log)
        logged, found = found_in(path)
        later, past = second_half(logged, found), found.site.until_half()
        scores += score_rows(log, found, later)
        held.append(held_row(log, found))
        judged.append((log, past.held(found.factors).idle, later["near"]))
    print("<!--", *made_by("fidelity", words, logs), "-->", sep="\n")
    head = ("log", "replay", "mean wait, hours", "mean error", "simulated / logged", "rank correlation")
    print(f"\n{markdown((*head, 'second half', 'rank correlation'), scores)}")
    head = ("log", "full", "held", "order", "limit", "idle", "idle on the header's machine")
    print(f"\nWhat holds waiting jobs, as shares of the waiting time:\n\n{markdown(head, held)}")
    head = ("log", "idle, first half", "holds in the second", f"at most {percent(MOST_IDLE)}", "fitted on the others")
    print(f"\nThe rule:\n\n{markdown(head, list(rule_rows(judged)))}")


if __name__ == "__main__":
    main(sys.argv[1:])
