"""The settings of the online choice of policies: a table of its own, with the rows of the scheduler's."""

from __future__ import annotations

from batfill.model import rows
from batfill.model.rows import Needs

OWN = ""  # no group of the scheduler's in the help
METHODS = ("full", "noisy", "epsilon-greedy", "ucb1", "exp3")
OF_HINDSIGHT = Needs("select", METHODS[:2], "")
# The settings of the online choice of policies, which `select` has after its method, which says which of them it has.
SELECTION = rows.options_table(
    ("policies", OWN, rows.NAMES_OF, "ten", "The policies to choose from."),
    ("period", OWN, rows.PERIOD_S, "7d", "Delta: the time between choices."),
    ("lambda", OWN, rows.PROBABILITY, 0.9, "full, noisy: the weight of a period relative to the next.",
     OF_HINDSIGHT),
    ("alpha", OWN, rows.PROBABILITY, 1, "full, noisy: 1 weighs periods by their jobs, 0 equally.", OF_HINDSIGHT),
    ("epsilon", OWN, rows.PROBABILITY, 0.1, "epsilon-greedy: the share of random choices.",
     Needs("select", ("epsilon-greedy",), "")),
    ("gamma", OWN, rows.PROBABILITY, 0.1, "exp3: the share of random choices.", Needs("select", ("exp3",), "")),
    ("noise", OWN, rows.NOISE, "walltime", "noisy: requested times, or run times spread by this number.",
     Needs("select", ("noisy",), "")),
    ("budget", OWN, rows.DURATION_S, None, "The real time for the replays of one period; 10 s under Batsim."),
    ("seed", OWN, rows.SEED, 0, "Seed of the choices and the noise."),
)  # fmt: skip
