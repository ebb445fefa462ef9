"""A policy of one's own: fewest processors per requested hour first, but day by day in the order of arrival."""

import numpy as np

from batfill.policy import POLICIES, Policy
from batfill.scheduler import Scheduler

DAY_S = 86_400

POLICIES["frugal"] = Policy(
    "frugal",
    key=lambda r, p, q: 1e6 * np.floor(r / DAY_S) + q / (p / 3600),
    formula="1e6 floor(r / 86400) + q / (p~ / 3600)",
    source="docs/how-to/writing-a-policy.md",
)


class Frugal(Scheduler):
    """What pybatsim looks for in a file of this name."""
