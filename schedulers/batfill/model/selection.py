"""The settings of the online choice of policies, which the option `select` names; `online.selection` makes it of them.

Loads no library that is slow to import, as `options` does not.
"""

from __future__ import annotations

from typing import Any

from batfill.base.errors import BatfillError
from batfill.model import rows
from batfill.model.rows import LIVE_ONLY, Needs, options_table
from batfill.model.values import number_or_text, one_of, text_of

METHODS = ("full", "noisy", "epsilon-greedy", "ucb1", "exp3")
OF_HINDSIGHT = Needs("select", ("full", "noisy"), "")
SELECTION = options_table(  # the settings of `select`, after its method, which says which of them it has
    ("policies", LIVE_ONLY, rows.NAMES_OF, "ten", "The policies to choose from."),
    ("period", LIVE_ONLY, rows.PERIOD_S, "7d", "Delta: the time between choices."),
    ("lambda", LIVE_ONLY, rows.PROBABILITY, 0.9, "full, noisy: the weight of a period relative to the next.",
     OF_HINDSIGHT),
    ("alpha", LIVE_ONLY, rows.PROBABILITY, 1, "full, noisy: 1 weighs periods by their jobs, 0 equally.", OF_HINDSIGHT),
    ("epsilon", LIVE_ONLY, rows.PROBABILITY, 0.1, "epsilon-greedy: the share of random choices.",
     Needs("select", ("epsilon-greedy",), "")),
    ("gamma", LIVE_ONLY, rows.PROBABILITY, 0.1, "exp3: the share of random choices.", Needs("select", ("exp3",), "")),
    ("noise", LIVE_ONLY, rows.NOISE, "walltime", "noisy: requested times, or run times spread by this number.",
     Needs("select", ("noisy",), "")),
    ("budget", LIVE_ONLY, rows.DURATION_S, None, "The real time for the replays of one period; 10 s under Batsim."),
    ("seed", LIVE_ONLY, rows.SEED, 0, "Seed of the choices and the noise."),
)  # fmt: skip


def selection_of(name: str, value: Any) -> dict[str, Any]:
    """The settings in a text such as exp3:period=1d,gamma=0.2, its method under `select`; for `Selection.of`."""
    method, _, rest = text_of(name, value).partition(":")
    found: dict[str, Any] = {"select": one_of(name, method.strip(), METHODS)}
    for word in filter(None, rest.split(",")):
        setting, given, text = (part.strip() for part in word.partition("="))
        if setting not in SELECTION or not given:
            raise BatfillError(
                f"option {name}: {word!r} is not SETTING=VALUE with one of {', '.join(SELECTION)}; "
                f"try {method}:period=7d"
            )
        found[setting] = number_or_text(text)
    return found
