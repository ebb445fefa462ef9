"""First tries, who pays for them, and what guards them: the table of docs/results/tries.md.

`python -m studies.tables.tries LOG... [--load 0.3] > tables.md`;
an hour of one processor for six logs. Each log is replayed
whole, from an empty machine, under each setting; `--load` stretches the times between its submissions first. A try is a
job's first run, for one divider at most (`--small all --kill always`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import batfill as bf
from batfill.base.stats import paired
from batfill.base.version import __version__
from batfill.model.jobs import HOUR_S
from batfill.model.metrics import long_waits
from batfill.workloads.formats import load_log, save_log
from batfill.workloads.scaling import at_load
from batfill.workloads.swf import machine_size
from studies.papers.page import markdown
from studies.tables.common import by_name, by_week, progress, waits_of

TAU_S, SEED = 60, 0
HEAD = ("", "mean bsld", "mean wait", "99.9 % wait", "longest wait", "large jobs' mean wait", "kills", "waste")
ORDERS = ("fcfs", "spf", "saf")
PAPER = {"small": "forest", "regime": "decoupled", "kill": "always", "bound": False, "seed": SEED}
TRIES = {"small": "all", "kill": "always"}
NEEDED = {**TRIES, "kill": "needed"}
NARROW = {"small_width": 1 / 16}
GUARDED = {**NEEDED, "threshold_s": 200_000}
PERFECT = {"small": "perfect", "kill": "always"}
# By name: the options beside the order.
SETTINGS = {
    "base": {},
    "paper's classifier": PAPER,
    "first tries": TRIES,
    "first tries, needed": NEEDED,
    "first tries, needed, threshold 200000": GUARDED,
    "first tries, needed, threshold 200000, narrow": {**GUARDED, **NARROW},
    "perfect classes": PERFECT,
}
GENTLE = "aged:20000,0.2,0"
AGED = {
    GENTLE: {},
    f"{GENTLE}, first tries, needed, narrow": {**NEEDED, **NARROW},
    f"{GENTLE}, first tries, needed, threshold 200000, narrow": {**GUARDED, **NARROW},
}


def settings(quick):
    """(name, policy, options) of each replay."""
    for policy in ORDERS:
        for name, options in SETTINGS.items():
            if not (quick and options is PAPER and policy != "fcfs"):
                yield f"{policy}, {name}", policy, options
    for name, options in AGED.items():
        yield name, GENTLE, options


# Those whose mean slowdown is compared with FCFS's week by week.
COMPARED = (
    "fcfs, first tries, needed",
    "fcfs, first tries, needed, threshold 200000",
    "fcfs, first tries, needed, threshold 200000, narrow",
    f"{GENTLE}, first tries, needed, narrow",
)


def certainty(base, others):
    """A table of each setting's mean slowdown over FCFS's, its interval, and the p-value corrected for all of them."""
    rows = []
    sums, of_base = [by_week(result.schedule, TAU_S) for result in others.values()], by_week(base.schedule, TAU_S)
    for name, one in zip(others, paired(np.array(sums), of_base, seed=SEED), strict=True):
        interval = f"{one.low:.2f} to {one.high:.2f}"
        rows.append((name, f"{one.value:.2f}", interval, f"{one.corrected_p:.4f}", one.verdict))
    return markdown(("", "over FCFS", "95 % interval", "p, corrected", ""), rows)


def try_figures(result):
    """Mean bounded slowdown; mean, 99.9 % and longest wait and large jobs' mean wait in hours; kills; waste."""
    waits = long_waits(waits_of(result.schedule))
    large = next(group for group in result.who_pays()["waits_by_class"] if group["class"] == "large")
    seconds = (result.figures.mean_wait_s, waits["p999_wait_s"], waits["max_wait_s"], large["mean_wait_s"])
    return [result.figures.mean_bsld, *(s / HOUR_S for s in seconds), len(result.schedule.kills), result.figures.wasted]


def row_of(name, found, base):
    """A line of the table: each figure, and its ratio to FCFS's."""
    *ratioed, kills, waste = found
    cells = [f"{value:,.2f}" for value in ratioed[:2]] + [f"{value:,.1f}" for value in ratioed[2:]]
    cells = [f"{cell} ({value / known:.2f})" for cell, value, known in zip(cells, ratioed, base, strict=False)]
    return name, *cells, f"{kills:,}", f"{waste:.1%}"


def stretched(path, load, folder):
    """The log with the times between its submissions multiplied so that it offers this load."""
    log = load_log(path)
    out = Path(folder) / f"{path.name.partition('.')[0]}.swf"
    save_log(at_load(log, machine_size(path, log, None), load)[0], out)
    return out


def main(words):
    """Print a table for each log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--load", type=float, help="stretch each log to this offered load")
    parser.add_argument("--quick", action="store_true", help="the paper's classifier, which is slow, under FCFS only")
    given = parser.parse_args(words)
    print(f"<!-- batfill {__version__}, seed {SEED}, tau {TAU_S} s -->")
    for log, path in by_name(given.logs).items():
        with tempfile.TemporaryDirectory() as folder:
            source = path if given.load is None else stretched(path, given.load, folder)
            print(f"\n## {log}" + ("" if given.load is None else f" at load {given.load:g}") + "\n")
            first, kept, rows = None, {}, []
            for name, policy, options in settings(given.quick):
                progress(f"{log}: {name}")
                result = bf.replay(source, policy, tau_s=TAU_S, **options)
                first = first or result
                rows.append(row_of(name, try_figures(result), try_figures(first)))
                if name in COMPARED:
                    kept[name] = result
            print(markdown(HEAD, rows), certainty(first, kept), sep="\n\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
