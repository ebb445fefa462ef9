"""The policies' keys as text, for the languages of batch systems' configurations; lowest key first, as everywhere."""

from __future__ import annotations

import re

# r: submission, p: requested time, q: processors, w: waiting time; seconds. Read by Python as they stand.
SMALLEST_FIRST = {"spf": "p", "sqf": "q", "saf": "p * q", "srf": "p / q"}
LARGEST_FIRST = {"lpf": "-p", "lqf": "-q", "laf": "-(p * q)", "lrf": "-(p / q)"}
FIXED = {**SMALLEST_FIRST, **LARGEST_FIRST}
ARRIVAL = {"fcfs": "r", "lcfs": "-r"}
WAITING = {
    "sexp": "(w + p) / p",
    "lexp": "-((w + p) / p)",
    "wfp3": "-((w / p) ** 3 * q)",
    "unicef": "-(w / (log2(max(q, 2)) * p))",
}
KEYS = {**ARRIVAL, **FIXED, **WAITING}


def written(formula: str, **names: str) -> str:
    """The formula with other names for the symbols r, p, q and w."""
    return re.sub(r"\b[rpqw]\b", lambda symbol: names[symbol[0]], formula)
