"""Lists of nodes as Slurm writes them, such as cb[01-06,09],g1, and the order of nodes."""

from __future__ import annotations

import math
import re
from itertools import product

from batfill.base.errors import WorkloadError

MOST = 100_000  # nodes of a list, and of a site: more is a typing error, and would fill the memory
ITEM = re.compile(r"(?:[^][,\s]|\[[0-9][0-9,-]*\])+")


def expand(text: str, where: str = "") -> list[str]:
    """The names in a list of nodes, in its order; a WorkloadError that begins with `where` if it is none.

    Examples:
        >>> expand("cb[08-10,12],n[1-2]x[3-4],g1")
        ['cb08', 'cb09', 'cb10', 'cb12', 'n1x3', 'n1x4', 'n2x3', 'n2x4', 'g1']
    """
    names: list[str] = []
    items = ITEM.findall(text)
    try:
        if not items or re.sub(r"[,\s]+", ",", text).strip(",") != ",".join(items):
            raise ValueError
        for item in items:
            parts = re.split(r"\[(.*?)\]", item)  # texts at even places, ranges between them
            choices = [numbers(part) if place % 2 else [part] for place, part in enumerate(parts)]
            if len(names) + math.prod(map(len, choices)) > MOST:
                raise ValueError
            names.extend(map("".join, product(*choices)))
    except ValueError:
        wrong = f"{text!r} is no list of nodes such as n[01-16,20],g1, with at most {MOST:,} names"
        raise WorkloadError(f"{where}: {wrong}" if where else wrong) from None
    return names


def numbers(text: str) -> list[str]:
    found: list[str] = []
    for low, *last in (each.split("-") for each in text.split(",")):
        (high,) = last or [low]
        if not 0 <= int(high) - int(low) < MOST:
            raise ValueError
        found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
    return found


def by_name(name: str) -> tuple[tuple[str, bool, int, str], ...]:
    """The key that sorts nodes by name, numbers in it by their value, of any length: n2 before n10."""
    parts = ((text, number != "", number.lstrip("0")) for text, number in re.findall(r"([^0-9]*)([0-9]*)", name))
    return tuple((text, counts, len(digits), digits) for text, counts, digits in parts)
