"""Does the advice of a log's first half hold on its second half?

`python -m studies.tables.halves [LOG...] [--draws 4]`; without a LOG, the logs of `studies.tables.common` at hand.

`batfill what-if` chooses on the first half, on each draw with submissions moved by up to a minute. The choice is then
replayed on the second half beside fcfs. It holds if its mean bounded slowdown is lower there by what what-if calls a
gain, 5 %, and its longest wait within the limit, 10 % over fcfs's. Where fcfs was advised there is nothing to hold.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from batfill.base.version import __version__
from batfill.base.words import duration
from batfill.model.options import Options
from batfill.replays.replay import simulate
from batfill_site.advice.what_if import MAX_WAIT_GROWTH, MIN_GAIN, what_if
from studies.papers.page import markdown
from studies.tables.common import by_name, progress
from studies.tables.first_tries import logs_at_hand
from studies.tables.variants import HALVES, Variant


def halves_of(log, path, draw):
    """The two halves as workloads."""
    return [Variant(log, path, part).replica(draw) for part in HALVES]


def row_of(log, path, draw):
    """A line of the table, and whether the choice held; None if fcfs was advised, or nothing could be told."""
    first, second = halves_of(log, path, draw)
    answer = what_if(first, seed=draw)
    if answer.undecided or answer.advice is answer.outcomes[0]:
        return (log, str(draw), "cannot tell" if answer.undecided else "fcfs", "", "", ""), None
    fcfs, taken = (
        simulate(second.jobs, second, Options.of(one.options))[0].summary()
        for one in (answer.outcomes[0], answer.advice)
    )
    bsld, longest = taken.mean_bsld / fcfs.mean_bsld, taken.max_wait_s / fcfs.max_wait_s
    holds = bsld <= 1 - MIN_GAIN and longest <= 1 + MAX_WAIT_GROWTH
    on_first = answer.advice.mean_bsld / answer.outcomes[0].mean_bsld
    row = f"{bsld:.2f}", f"{longest:.2f} ({duration(taken.max_wait_s)})"
    return (log, str(draw), answer.advice.name, f"{on_first:.2f}", *row, "holds" if holds else "**no**"), holds


def main(words):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path, help="SWF files; by default the logs at hand")
    parser.add_argument("--draws", type=int, default=4, help="draws of the moved submissions [default: 4]")
    given = parser.parse_args(words)
    rows, held = [], []
    for log, path in by_name(given.logs or logs_at_hand()).items():
        for draw in range(given.draws):
            row, holds = row_of(log, path, draw)
            progress(" ".join(row))
            rows.append(row)
            held += [] if holds is None else [holds]
    print(f"<!-- batfill {__version__}, python -m studies.tables.halves {' '.join(words)}; tau 10 s -->")
    print(f"\nThe choice held in {sum(held)} of {len(held)} draws in which one was advised, {len(rows)} in all.\n")
    columns = ("log", "draw", "advice of the 1st half", "slowdown over fcfs's", "on the 2nd half", "longest wait", "")
    print(markdown(columns, [(*row, "")[: len(columns)] for row in rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
