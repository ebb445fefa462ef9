"""The settings of the online choice of policies: a table of its own, with the rows of the scheduler's."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from batfill.model.kinds import Kind, Needs, options_table
from batfill.model.values import number_of, number_or_text, probability_of, seconds_of, seed_of, text_of

METHODS = ("full", "noisy", "epsilon-greedy", "ucb1", "exp3")
OF_HINDSIGHT = Needs("select", METHODS[:2], "")


def noise_of(name: str, value: Any) -> float | str:
    rule = "walltime or a number >= 0, as 0.5"
    return value if value == "walltime" else number_of(name, number_or_text(value), 0, math.inf, rule)


SHARE, PERIOD_S = Kind(probability_of, "a share >= 0, at most 1", "share"), partial(seconds_of, least=1e-9)
# The settings of the online choice of policies, which `select` has after its method, which says which of them it has.
SELECTION = options_table(
    "",
    ("policies", Kind(text_of, "`ten`, `twelve`, or names joined by +", "names"), "ten", "The policies to choose "
     "from."),
    ("period", Kind(PERIOD_S, "a duration, > 0", "duration", unit=" s"), "7d", "Delta: the time between choices."),
    ("lambda", SHARE, 0.9, "full, noisy: the weight of a period relative to the next.", OF_HINDSIGHT),
    ("alpha", SHARE, 1, "full, noisy: 1 weighs periods by their jobs, 0 equally.", OF_HINDSIGHT),
    ("epsilon", SHARE, 0.1, "epsilon-greedy: the share of random choices.", Needs("select", ("epsilon-greedy",), "")),
    ("gamma", SHARE, 0.1, "exp3: the share of random choices.", Needs("select", ("exp3",), "")),
    ("noise", Kind(noise_of, "`walltime`, or a number >= 0", "number"), "walltime", "noisy: requested times, or run "
     "times spread by this number.", Needs("select", ("noisy",), "")),
    ("budget", Kind(seconds_of, "a duration, >= 0", "duration", unit=" s"), None, "The real time for the replays of "
     "one period; 10 s under Batsim."),
    ("seed", Kind(seed_of, "a whole number", "integer"), 0, "Seed of the choices and the noise."),
)  # fmt: skip
