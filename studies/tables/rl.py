"""A learned policy against simple orders, in RLScheduler's simulator and under EASY: docs/results/rl.md.

`python -m studies.tables.rl NETWORK LUBLIN SDSC HPC2N [LOG...] > docs/results/rl.md`;
some minutes of one processor. NETWORK is a file of studies/rlscheduler/train.py, trained on SDSC. The three logs are
those of RLScheduler's published table (the first has no requests of its own and is in that table only); the new
sequences are drawn from the other two and from LOG....
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

import batfill as bf
from batfill.base.stats import BETTER, WORSE, paired
from batfill.base.version import __version__
from batfill.engine.sources import SOURCES
from batfill.model.jobs import HOUR_S
from batfill.model.metrics import bounded_slowdown
from batfill.model.policy import POLICIES, policy_named
from studies.papers.page import markdown
from studies.rlscheduler.rollouts import firsts_within, ordered_in_gym, rows_of, starts_in_easy, starts_in_gym
from studies.rlscheduler.schedgym import (
    PUBLISHED,
    SEQUENCE_JOBS,
    GymLog,
    Jobs,
    draw_starts,
    play,
    read_gym_log,
    slowdowns,
)
from studies.tables.common import by_name, progress, ratio

SEED, SEQUENCES, FIRST_JOBS, THRESHOLD_S = 0, 100, 10_000, 200_000.0
NAMES = ("Lublin-1", "SDSC-SP2", "HPC2N")
# Printed by RLScheduler's authors: the heuristics in the order of PUBLISHED, then the learned policy.
PRINTED = {
    ("Lublin-1", False): ("7273.77", "19753.53", "22274.74", "277.35", "258.37", "254.67"),
    ("SDSC-SP2", False): ("1727.54", "3000.88", "1848.45", "2680.55", "1232.06", "466.44"),
    ("HPC2N", False): ("297.18", "426.99", "609.77", "157.71", "118.01", "117.01"),
    ("Lublin-1", True): ("235.82", "133.87", "307.23", "73.31", "75.07", "58.64"),
    ("SDSC-SP2", True): ("1595.12", "1083.12", "548.01", "2167.84", "1098.22", "397.82"),
    ("HPC2N", True): ("127.38", "97.39", "175.12", "122.04", "71.95", "86.14"),
}
AGED = ("aged:20000,0.2,0", "aged:50000,0.5,0.5")
TRIES = {"small": "all", "kill": "needed"}
NETWORK, BASE = "the network", "saf"
ORDERS = ("fcfs", "spf", "saf", "wfp3", "unicef", "f1")
GUARDED = ("saf", "spf")
FIRST_TRIES = "fcfs, first tries, needed"
SEMANTICS = {"schedgym": "RLScheduler's simulator with backfilling", "easy": "EASY"}


class Played(NamedTuple):
    """Sequences under a policy."""

    bsld: np.ndarray  # (n_sequences,) the mean of each
    wait_s: np.ndarray  # (n_sequences, n_jobs)


def gym_key(log, name):
    """RLScheduler's own heuristic of this name, or SAF, which it does not have."""
    if name == "saf":
        return (log.jobs.request_s * log.jobs.procs).astype(np.float64)
    return {"spf": "sjf"}.get(name, name)


def in_gym(log, firsts, policy, n, *, backfill=True):
    """The outcomes by name in RLScheduler's simulator."""

    def outcome(start_s):
        rows = firsts[:, None] + np.arange(n)
        return Played(slowdowns(log, firsts, start_s).mean(axis=1), start_s - log.jobs.submit_s[rows])

    found = {NETWORK: outcome(starts_in_gym(log, policy.network, firsts, n=n, backfill=backfill))}
    for name in ORDERS:
        found[name] = outcome(play(log, gym_key(log, name), firsts, n=n, backfill=backfill))
    for name in (*GUARDED, *AGED):
        guard = {"threshold_s": THRESHOLD_S} if name in GUARDED else {}
        starts = ordered_in_gym(log, policy_named(name), firsts, n=n, backfill=backfill, **guard)
        found[order_title(name, guard)] = outcome(starts)
    return found


def order_title(name, guard):
    """The name of an order in the tables."""
    return f"{name}, threshold {THRESHOLD_S:.0f}" if guard else name


def in_easy(log, workload, firsts, policy, n):
    """The outcomes by name in batfill's engine, jobs backfilled in the queue's order."""
    sequences = rows_of(log, workload, firsts, n=n)

    def outcome(starts):
        table = workload.jobs
        wait_s = np.array([start_s - table.submit_s[rows] for start_s, rows in zip(starts, sequences, strict=True)])
        run_s = np.minimum(table.runtime_s, table.walltime_s)[np.array(sequences)]
        return Played(bounded_slowdown(wait_s, run_s).mean(axis=1), wait_s)

    found = {NETWORK: outcome(starts_in_easy(workload, policy, sequences))}
    for name in ORDERS:
        found[name] = outcome(starts_in_easy(workload, POLICIES[name], sequences))
    for name in (*GUARDED, *AGED):
        guard = {"threshold_s": THRESHOLD_S} if name in GUARDED else {}
        found[order_title(name, guard)] = outcome(starts_in_easy(workload, policy_named(name), sequences, **guard))
    parts = (dataclasses.replace(workload, jobs=workload.jobs.select(rows)) for rows in sequences)
    found[FIRST_TRIES] = outcome([bf.replay(part, "fcfs", **TRIES).schedule.start_s for part in parts])
    return found


def published(logs):
    """The published table beside ours, and whether all of it agrees."""
    rows, agree = [], True
    for (name, backfill), printed in PRINTED.items():
        progress(f"published table: {name}")
        log = logs[name]
        firsts = draw_starts(min(FIRST_JOBS, len(log.number)))
        cells = []
        for heuristic, figure in zip(PUBLISHED, printed, strict=False):
            ours = f"{slowdowns(log, firsts, play(log, heuristic, firsts, backfill=backfill)).mean():.2f}"
            agree &= ours == figure
            cells.append(f"{ours} ({figure})")
        rows.append((name, "yes" if backfill else "no", *cells, printed[-1]))
    return markdown(("log", "backfilling", *map(str.upper, PUBLISHED), "learned, printed only"), rows), agree


def over_base(found):
    """Each policy's ratio to BASE with its interval, by name, and the comparison itself."""
    others = [name for name in found if name != BASE]
    compared = paired(np.array([found[name].bsld for name in others]), found[BASE].bsld, seed=SEED)
    return dict(zip(others, compared, strict=True))


def outcome_table(found):
    """A table of outcomes, and the comparisons behind it."""
    compared, rows = over_base(found), []
    for name, outcome in found.items():
        cell = ratio(compared[name]) if name in compared else "1.00"
        waits = f"{outcome.wait_s.mean() / HOUR_S:.2f}", f"{outcome.wait_s.max() / HOUR_S:.1f}"
        rows.append((name, f"{outcome.bsld.mean():.2f}", cell, *waits))
    if FIRST_TRIES not in found:
        rows.append((FIRST_TRIES, *"----"))
    return markdown(("", "mean bsld", "ratio to SAF", "mean wait, h", "longest wait, h"), rows), compared


def plainly(where, found, compared):
    """A sentence on who is best: nobody should have to read it out of the table."""
    mine = found[NETWORK].bsld.mean()
    lower = [name for name, outcome in found.items() if outcome.bsld.mean() < mine]
    one = compared[NETWORK]
    verdict = {BETTER: "lower than SAF's beyond chance", WORSE: "higher than SAF's beyond chance"}.get(
        one.verdict, "not different from SAF's beyond chance"
    )
    beaten = f"Policies with a lower mean: {'; '.join(lower)}." if lower else "No policy has a lower mean."
    return f"- {where}: the network's mean is {mine:.2f}, {ratio(one)} of SAF's, {verdict}. {beaten}"


def by_sequence(found):
    """Each test sequence's mean under each policy, and what share of the sum the two worst have under SAF."""
    n = len(found[BASE].bsld)
    rows = [
        (
            name,
            *(f"{value:,.0f}" for value in outcome.bsld),
            f"{outcome.bsld.mean():.2f}",
            f"{outcome.wait_s.max() / HOUR_S:.0f}",
        )
        for name, outcome in found.items()
    ]
    share = np.sort(found[BASE].bsld)[-2:].sum() / found[BASE].bsld.sum()
    return markdown(("", *map(str, range(1, n + 1)), "mean", "longest wait, h"), rows), share


def drawn(log, workload, about, n, trained_here):
    """The jobs of a log that can run and that batfill reads too, and the first rows there of the new sequences.

    No job of these is in a training, validation or test sequence.
    """
    allowed = np.ones(len(log.number), bool)
    if trained_here:
        for first, stop in (*about["training_rows"], *about["validation_rows"]):
            allowed[first:stop] = False
    if len(log.number) >= FIRST_JOBS:
        for first in draw_starts(FIRST_JOBS).tolist():
            allowed[first : first + SEQUENCE_JOBS] = False
    ran = log.can_run & np.isin(log.number, workload.jobs.ids.astype(np.int64))
    possible = firsts_within(allowed[ran], n)
    if len(possible) < SEQUENCES:
        raise bf.BatfillError(f"{log.path}: only {len(possible)} sequences of {n} jobs are left; give fewer --jobs")
    kept = GymLog(log.path, Jobs(*(column[ran] for column in log.jobs)), log.machine, log.number[ran])
    return kept, np.sort(np.random.default_rng(SEED).choice(possible, SEQUENCES, replace=False))


def short_path(path):
    """A path for a page: without the folders of this machine."""
    return path.name if path.is_absolute() else path.as_posix()


def page(given):
    """Print the page."""
    content = given.network.read_bytes() if given.network.is_file() else b""
    policy = policy_named(f"nn@{given.network}")
    with np.load(given.network) as stored:
        about = json.loads(str(stored["about"]))
    paths = dict(zip(NAMES, (given.lublin, given.sdsc, given.hpc2n), strict=True))
    logs = {name: read_gym_log(path) for name, path in paths.items()}
    words = [
        *("python", "-m", "studies.tables.rl"),
        short_path(given.network),
        *(path.name for path in (*paths.values(), *given.logs)),
    ]
    tested = in_gym(logs["SDSC-SP2"], draw_starts(FIRST_JOBS), policy, SEQUENCE_JOBS)
    tests, share = by_sequence(tested)
    lines, agree = published(logs)
    sections, sentences, verdicts, comparisons = [], [], [], 0
    for name, path in by_name([given.sdsc, given.hpc2n, *given.logs]).items():
        log, workload = read_gym_log(path), bf.read(path, unrequested="runtime")
        trained_here = sha256(path.read_bytes()).hexdigest() == about["sha256"]
        log, firsts = drawn(log, workload, about, given.jobs, trained_here)
        for semantics, said in SEMANTICS.items():
            progress(f"{name}: {said}")
            easy = semantics == "easy"
            found = (
                in_easy(log, workload, firsts, policy, given.jobs) if easy else in_gym(log, firsts, policy, given.jobs)
            )
            rows, compared = outcome_table(found)
            comparisons += len(compared)
            where = f"{name}, {'trained on other jobs of it' if trained_here else 'not trained on'}, {said}"
            sentences.append(plainly(where, found, compared))
            verdicts.append(compared[NETWORK].verdict)
            sections += [f"\n### {where}\n", rows]
    same = sum(verdict not in (BETTER, WORSE) for verdict in verdicts)
    print(f"""# Reinforcement learning against simple orders

**In {same} of {len(verdicts)} tests a trained network's mean bounded slowdown cannot be told from SAF's.**

![Slowdown over SAF's in each test: the network is near 1, FCFS above](rl/rl.svg)

Means weigh sequences equally. Each sequence starts on an empty machine, and only its own jobs arrive.

## In short
""")
    print(*sentences, sep="\n")
    mine = f"{tested[NETWORK].bsld.mean():.2f}"
    print(f"- On the ten sequences of the published test (SDSC-SP2 with backfilling) its mean is {mine}; printed for")
    print(f"  RLScheduler's own learned policy is {PRINTED['SDSC-SP2', True][-1]}.")
    print(f"  Two of the ten sequences hold {share:.0%} of the sum under SAF.")
    print("\n## RLScheduler's published table\n")
    exactly = "All agree to the printed digit." if agree else "**Not all agree.**"
    print(f"""Mean bounded slowdown, ours and in brackets as printed (Zhang et al., SC 2020, and its code). {exactly}
The learned policy is as printed only. The ten sequences of 1,024 jobs are drawn from the first {FIRST_JOBS:,} jobs of
each log, so the table does not speak of the rest of SDSC-SP2 and HPC2N.
""")
    print(lines)
    print("""
## The ten test sequences

SDSC-SP2 in RLScheduler's simulator with backfilling, mean bounded slowdown of each sequence. No job of these sequences
was used in training or to choose the generation, but its figures here were seen while the method was set up.

Sequences 8 and 10, from rows 7,762 and 7,085, overlap, and hold 261 of the log's jobs that ask for 115 processors and
18 h and were cancelled before they ran. RLScheduler runs such jobs for 10 s: orders that put large requests last keep
them waiting for days, which decides the mean, and the rest of the log hardly has such a rush to train on. WFP3 and
UNICEF are RLScheduler's, whose waiting time never changes (`studies/rlscheduler/schedgym.py` says why).
""")
    print(tests)
    print(f"""
## On {SEQUENCES} other sequences

Drawn with seed {SEED} from the whole log, without the jobs used in training or validation, those of the test, and those
that never ran. Run times stand in for missing requests.

The ratio is of the mean bounded slowdowns, with a 95 %
interval over the same sequences
([how](../background/statistics.md)); ▼ is lower and ▲ higher than SAF's beyond chance, corrected for the comparisons of
a table, {comparisons} in all tables together.

In RLScheduler's simulator FCFS, SPF (its SJF), WFP3, UNICEF and F1 are
its own formulas, backfilling is in order of submission, and jobs cannot be killed. The aged orders and the threshold
see the true waits there too. First tries are here tries for every job up to a
divider that is learned within each sequence ([what became of them](first-tries.md#what-they-replace)).""")
    print(*sections, sep="\n")
    print(f"""
## How this page is made

<!-- not run: takes some minutes -->
```sh
{shlex.join(words)} > docs/results/rl.md
```

Made with batfill {__version__}, engine {SOURCES[:12]}, seed {SEED}, tau 10 s, sequences of {given.jobs:,} jobs.
The network is the file with sha256 {sha256(content).hexdigest()[:12]}, made by
[the training script](../how-to/train-a-network.md) on {about["trained_on"]}:
seed {about["seed"]}, {about["hidden"]} hidden units,
{about["generations"]} generations of {about["population"]} candidates on {about["sequences"]} sequences
of {about["jobs"]:,} jobs. That of generation {about["chosen"]} was chosen on validation sequences, where its mean is
{about["validated"]:.2f}.
""")


def main(words):
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("network", "lublin", "sdsc", "hpc2n"):
        parser.add_argument(name, type=Path)
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=SEQUENCE_JOBS, help="of a new sequence")
    try:
        page(parser.parse_args(words))
    except bf.BatfillError as error:
        print(f"rl: {error.on_command_line}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
