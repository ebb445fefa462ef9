"""robin's descriptor of one experiment: a YAML file of seven keys, checked when it is read."""

from __future__ import annotations

import difflib
import hashlib
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from batfill.base.documents import read_document
from batfill.base.errors import BatfillError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class DescriptorError(BatfillError):
    """A descriptor cannot be used."""


class Descriptor(NamedTuple):
    """One experiment of robin."""

    batcmd: str
    output_dir: str
    schedcmd: str  # "" for none
    simulation_timeout: float  # s, finite and >= 0, as the three below
    ready_timeout: float
    success_timeout: float
    failure_timeout: float


# The value that each key requires.
MEANING = {
    "batcmd": "the command that starts Batsim",
    "output-dir": "the folder for the run's files",
    "schedcmd": 'the command that starts the scheduler, or "" for none',
    **{f"{name}-timeout": "a number of seconds >= 0" for name in ("simulation", "ready", "success", "failure")},
}


class ReadDescriptor(NamedTuple):
    """A descriptor, the sha256 of its file (hexadecimal), and warnings about it, one line each."""

    descriptor: Descriptor
    digest: str
    notes: tuple[str, ...]


def read_descriptor(path: Path) -> ReadDescriptor:
    """The experiment that `path` describes. Like robin it ignores unknown keys."""
    what = f"a descriptor; write one `key: value` a line: {', '.join(MEANING)}"
    document = read_document(path, what, DescriptorError)
    values, line = document.value, {key: document.line((key,)) for key in document.value}
    misspelt = misspellings(values)
    for key in MEANING:
        if key not in values:
            written = next((wrong for wrong, meant in misspelt.items() if meant == key), None)
            if written:
                raise DescriptorError(
                    f"{path}:{line[written]}: key {written} is not one of robin's; did you mean {key}?"
                )
            first_line = min(line.values(), default=1)
            raise DescriptorError(f"{path}:{first_line}: key {key} is missing; add `{key}:` with {MEANING[key]}")
    for key in MEANING:
        if not is_usable(key, values[key]):
            raise DescriptorError(f"{path}:{line[key]}: {key} must be {MEANING[key]}, not {values[key]!r}")
    descriptor = Descriptor(*(values[key] for key in MEANING))
    if variable := re.search(r"\$(\w+|\{[^}]*\})", descriptor.output_dir):
        raise DescriptorError(
            f"{path}:{line['output-dir']}: output-dir {descriptor.output_dir} holds {variable[0]}, and "
            "variables are replaced in commands only, as by robin; write the folder's name"
        )
    notes = tuple(
        f"{path}:{line[wrong]}: key {wrong} is ignored; did you mean {meant}?" for wrong, meant in misspelt.items()
    )
    return ReadDescriptor(descriptor, hashlib.sha256(document.stored).hexdigest(), notes)


def is_usable(key: str, value: object) -> bool:
    if key.endswith("-timeout"):
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max
    return isinstance(value, str) and "\0" not in value and (value != "" or key == "schedcmd")


def misspellings(keys: Iterable[str]) -> dict[str, str]:
    """The unknown keys that look like one of robin's, each with that key."""
    found = {}
    for key in keys:
        plain = key.lower().replace("_", "-")
        if key not in MEANING and (near := difflib.get_close_matches(plain, MEANING, n=1, cutoff=0.75)):
            found[key] = near[0]
    return found
