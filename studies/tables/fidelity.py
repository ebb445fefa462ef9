"""How near simulated waits are to those in the logs: the tables of docs/results/fidelity.md.

`python -m studies.tables.fidelity [LOG...] > fidelity.md`; without a LOG, the six logs of
`studies.tables.common` in $BATFILL_TRACES or the cache of `batfill workload fetch`.

The first table compares replays under FCFS with EASY backfilling with all logged waits: plain, with the log's outages
as announced windows, and for SDSC-BLUE on 960 processors without the jobs of
its interactive queue, and for HPC2N with limits of running jobs per user. The second has what is fitted on the first
half of the jobs, scored on the second.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from batfill.model.jobs import HOUR_S
from batfill.model.limits.calendar import Calendar
from batfill.workloads.formats import part_of, source_of
from batfill_site.fidelity import PLAIN, WITH_OUTAGES, Factors, fitted, logged_of
from batfill_site.score import percent, ratio_text
from studies.papers.page import markdown
from studies.tables.common import by_name, made_by, progress
from studies.tables.first_tries import logs_at_hand

REPLAYS = {"plain": PLAIN, "outages": WITH_OUTAGES}
LIMITED = Factors(max_running=40), Factors(max_running=60)
INTERACTIVE, BATCH_SIZE = 0, 960  # the queue of SDSC-BLUE, and the processors of the others


def logged_in(path):
    """The log with its waits."""
    source = source_of(path)
    return logged_of(part_of(source, source.log), source.log, source.where)


def batch_only(logged):
    """The log without the jobs of the interactive queue, on the processors of the others."""
    rows = (logged.queue != INTERACTIVE) & (logged.workload.jobs.procs <= BATCH_SIZE)
    workload = logged.workload.select(rows).stating(size=BATCH_SIZE)
    return logged._replace(workload=workload, wait_s=logged.wait_s[rows], queue=logged.queue[rows])


def score_rows(log, logged):
    """The rows of the first table."""
    found = logged.outages()
    scores = {name: logged.score(factors.waits(logged.workload, found)) for name, factors in REPLAYS.items()}
    if log == "SDSC-BLUE":
        batch = batch_only(logged)
        scores["960 processors, no interactive queue"] = batch.score(PLAIN.waits(batch.workload, Calendar(())))
    if log == "HPC2N":
        scores |= {str(factors): logged.score(factors.waits(logged.workload, found)) for factors in LIMITED}
    days = sum(window.end - window.begin for window in found.windows) / 86_400
    for name, one in scores.items():
        hours = f"{one.simulated_mean_s / HOUR_S:.2f} / {one.logged_mean_s / HOUR_S:.2f}"
        about = f"{name} ({len(found.windows)}, {days:.0f} days)" if name == "outages" else name
        errors = percent(one.error), percent(one.median_error)
        cells = (*errors, ratio_text(one.ratio), hours, percent(one.near), ratio_text(one.correlation))
        yield log, about, f"{one.jobs:,}", *cells


def fit_rows(log, logged):
    """The rows of the second table."""
    found, later = logged.outages(), ~logged.first_half
    for step in fitted(logged.until_half(), lambda _: None):
        one = logged.score(step.factors.waits(logged.workload, found), later)
        yield log, str(step.factors), percent(step.error), percent(one.error), ratio_text(one.ratio)


def main(words):
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="SWF files; by default the six logs")
    given = parser.parse_args(words)
    logs = by_name(given.logs or logs_at_hand())
    scores, fits = [], []
    for log, path in logs.items():
        progress(log)
        logged = logged_in(path)
        scores += score_rows(log, logged)
        fits += fit_rows(log, logged)
    print("<!--", *made_by("fidelity", words, logs), "-->", sep="\n")
    head = ("log", "replay", "jobs", "mean error", "median error", "simulated / logged", "mean wait, hours")
    head += ("within 10 min", "correlation")
    print(f"\n{markdown(head, scores)}")
    head = ("log", "factors", "error, first half", "error, second half", "simulated / logged, second half")
    print(f"\nFitted on the first half of the jobs, scored on the second:\n\n{markdown(head, fits)}")


if __name__ == "__main__":
    main(sys.argv[1:])
