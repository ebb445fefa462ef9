"""Train a network that picks the next job, by an evolution strategy in RLScheduler's simulator with backfilling.

    python -m studies.rlscheduler.train SDSC-SP2-1998-4.2-cln.swf.gz --out picks.npz
    batfill replay SDSC-SP2-1998-4.2-cln.swf.gz --policy nn@picks.npz

The cost is the mean bounded slowdown over random sequences of consecutive jobs, the same for all candidates of a
generation; or a power mean, which weighs the worst sequences more. Two quarters of the log are for training, one for
choosing the best generation, and one is left for tests, as are the jobs of RLScheduler's published test. The same seed
and options give the same file, unless --minutes ends it.
"""

import argparse
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
from cmaes import CMA

import batfill as bf
from batfill.engine.features import FEATURES, FEATURES_OF_JOB
from studies.rlscheduler.rollouts import costs_in_gym, firsts_within
from studies.rlscheduler.schedgym import SEQUENCE_JOBS, draw_starts, read_gym_log

FIRST_JOBS = 10_000  # RLScheduler's test is drawn from these
PARTS = 16  # of the log; of each four, two for training, one for validation, one for tests
VALIDATED = 96  # sequences
START = {"request": -1.0, "request_x_share": -1.0}  # short and narrow jobs first


def network(vector, hidden):
    """The network of a vector: a linear score of the job's features, or, with hidden units, of all features."""
    if hidden == 0:
        weights = np.zeros((FEATURES, 1))
        weights[: len(vector), 0] = vector
        return bf.network_of([(weights, np.zeros(1))])
    last = (FEATURES + 1) * hidden
    first = vector[:last].reshape(FEATURES + 1, hidden)
    return bf.network_of([(first[:-1], first[-1]), (vector[last:, np.newaxis], np.zeros(1))])


def start_vector(hidden, random):
    """The order START; hidden units but the first begin without effect."""
    order = np.array([START.get(name, 0.0) for name in FEATURES_OF_JOB])
    if hidden == 0:
        return order
    first = random.normal(0, 0.5, (FEATURES + 1, hidden))
    first[:, 0] = 0
    first[: len(order), 0], first[-1, 0] = order, 2  # the unit is positive for every job, and so linear
    return np.concatenate([first.ravel(), [1.0], np.zeros(hidden - 1)])


def parts(n_jobs):
    """The jobs for training and those for validation: masks of shape (n_jobs,)."""
    part = np.arange(n_jobs) * PARTS // n_jobs % 4
    free = np.ones(n_jobs, bool)
    if n_jobs >= FIRST_JOBS:
        for first in draw_starts(FIRST_JOBS).tolist():
            free[first : first + SEQUENCE_JOBS] = False
    return free & (part < 2), free & (part == 2)


def ranges(mask):
    """The rows of a mask as [first, one past the last] of each range."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return edges.reshape(-1, 2).tolist()


def train(log, given):
    """The best vector on the validation sequences, and what is to be said of it."""
    masks = parts(len(log.number))
    training, validation = (firsts_within(mask, given.jobs) for mask in masks)
    if not len(training) or not len(validation):
        raise bf.BatfillError(f"{log.path}: too few jobs for sequences of {given.jobs}; give a smaller --jobs")
    random = np.random.default_rng(given.seed)
    validated = np.sort(random.choice(validation, VALIDATED))
    search = CMA(start_vector(given.hidden, random), given.sigma, seed=given.seed, population_size=given.population)

    def costs(vectors, firsts):
        networks = [network(vector, given.hidden) for vector in vectors]
        means = costs_in_gym(log, networks, firsts, n=given.jobs, backfill=True)
        return (means**given.power).mean(axis=1) ** (1 / given.power)

    best, lowest, chosen, generation = search.mean, np.inf, 0, 0
    while True:
        (cost,) = costs([search.mean], validated)
        if cost < lowest:
            best, lowest, chosen = search.mean.copy(), cost, generation
        minutes = time.process_time() / 60
        print(f"generation {generation}: {cost:.2f}, best {lowest:.2f}, {minutes:.1f} CPU minutes", file=sys.stderr)
        if generation == given.generations or minutes >= given.minutes:
            break
        firsts = random.choice(training, given.sequences)
        asked = [search.ask() for _ in range(given.population)]
        search.tell(list(zip(asked, costs(asked, firsts), strict=True)))
        generation += 1
    about = {
        "trained_on": log.path.name,
        "sha256": sha256(log.path.read_bytes()).hexdigest(),
        "simulator": "schedgym with backfilling",
        **{name: value for name, value in vars(given).items() if name not in ("log", "out", "minutes")},
        "generations": generation,
        "chosen": chosen,
        "validated": float(lowest),
        "training_rows": ranges(masks[0]),
        "validation_rows": ranges(masks[1]),
    }
    return best, about


def main():
    """Train, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="an SWF file")
    parser.add_argument("--out", type=Path, required=True, help="the file of the network")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generations", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=np.inf, help="end after this much processor time")
    parser.add_argument("--jobs", type=int, default=SEQUENCE_JOBS, help="of a sequence")
    parser.add_argument("--sequences", type=int, default=32, help="of a generation")
    parser.add_argument("--population", type=int, default=16, help="candidates of a generation")
    parser.add_argument("--power", type=float, default=1, help="of the mean over sequences")
    parser.add_argument("--hidden", type=int, default=0, help="hidden units; 0 for a linear score")
    parser.add_argument("--sigma", type=float, default=0.3, help="the first standard deviation of the weights")
    given = parser.parse_args()
    try:
        best, about = train(read_gym_log(given.log), given)
        bf.save_network(given.out, network(best, given.hidden), about=about)
    except bf.BatfillError as error:
        print(f"train: {error.on_command_line}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
