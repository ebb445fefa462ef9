"""robin's descriptor of one experiment: a YAML file of seven keys, checked when it is read."""

from __future__ import annotations

import difflib
import hashlib
import re
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from batfill.errors import BatfillError
from batfill.schema import Text, top_level

if TYPE_CHECKING:
    from pathlib import Path

    from batfill.schema import YamlValue

Timeout = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DescriptorError(BatfillError):
    """A descriptor cannot be used."""


class Descriptor(BaseModel):
    """One experiment as robin knows it; each field's description ends the sentence "the value must be ..."."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-"))

    batcmd: Text = Field(description="the command that starts Batsim, as bash reads it")
    output_dir: Text = Field(description="the folder for the run's files")
    schedcmd: str = Field(description='the command that starts the scheduler, or "" for none')
    simulation_timeout: Timeout = Field(description="a number of seconds >= 0")
    ready_timeout: Timeout = Field(description="a number of seconds >= 0")
    success_timeout: Timeout = Field(description="a number of seconds >= 0")
    failure_timeout: Timeout = Field(description="a number of seconds >= 0")


MEANING = {str(info.alias): str(info.description) for info in Descriptor.model_fields.values()}


class ReadDescriptor(NamedTuple):
    """A descriptor, the sha256 of its file (hexadecimal), and what looks odd in it, one line each."""

    descriptor: Descriptor
    digest: str
    notes: tuple[str, ...]


def read_descriptor(path: Path) -> ReadDescriptor:
    """The experiment that `path` describes. Keys that are not robin's are ignored, as robin does.

    Raises:
        DescriptorError: the file cannot be read, is not YAML, or a key is missing, mistyped or given twice.
    """
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise DescriptorError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    what = f"a descriptor; write one `key: value` a line: {', '.join(MEANING)}"
    entries = top_level(path, stored, what, DescriptorError)
    misspelt = misspellings(entries)
    for key in MEANING:
        if key not in entries:
            written = next((wrong for wrong, meant in misspelt.items() if meant == key), None)
            if written:
                raise DescriptorError(
                    f"{path}:{entries[written].line}: key {written} is not one of robin's; did you mean {key}?"
                )
            first_line = min((entry.line for entry in entries.values()), default=1)
            raise DescriptorError(f"{path}:{first_line}: key {key} is missing; add `{key}:` with {MEANING[key]}")
    try:
        descriptor = Descriptor.model_validate({key: entries[key].value for key in MEANING})
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        entry = entries[key]
        raise DescriptorError(f"{path}:{entry.line}: {key} must be {MEANING[key]}, not {entry.value!r}") from None
    if variable := re.search(r"\$(\w+|\{[^}]*\})", descriptor.output_dir):
        raise DescriptorError(
            f"{path}:{entries['output-dir'].line}: output-dir {descriptor.output_dir} holds {variable[0]}, and "
            "variables are replaced in commands only, as by robin; write the folder's name"
        )
    notes = tuple(
        f"{path}:{entries[wrong].line}: key {wrong} is ignored; did you mean {meant}?"
        for wrong, meant in misspelt.items()
    )
    return ReadDescriptor(descriptor, hashlib.sha256(stored).hexdigest(), notes)


def misspellings(keys: dict[str, YamlValue]) -> dict[str, str]:
    """The keys that are not robin's but look like one of its keys, and which."""
    found = {}
    for key in keys:
        plain = key.lower().replace("_", "-")
        if key not in MEANING and (near := difflib.get_close_matches(plain, MEANING, n=1, cutoff=0.75)):
            found[key] = near[0]
    return found
