"""robin's descriptor of one experiment: a YAML file of seven keys, checked when it is read."""

from __future__ import annotations

import difflib
import hashlib
from typing import TYPE_CHECKING, Annotated, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from batfill.errors import BatfillError

if TYPE_CHECKING:
    from pathlib import Path

Text = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DescriptorError(BatfillError):
    """A descriptor cannot be used."""


class Descriptor(BaseModel):
    """One experiment as robin knows it; each field's description ends the sentence "the value must be ..."."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-"))

    batcmd: Text = Field(description="the command that starts Batsim, as bash reads it")
    output_dir: Text = Field(description="the folder for the run's files")
    schedcmd: str = Field(description='the command that starts the scheduler, or "" for none')
    simulation_timeout: Seconds = Field(description="a number of seconds >= 0")
    ready_timeout: Seconds = Field(description="a number of seconds >= 0")
    success_timeout: Seconds = Field(description="a number of seconds >= 0")
    failure_timeout: Seconds = Field(description="a number of seconds >= 0")


MEANING = {str(info.alias): str(info.description) for info in Descriptor.model_fields.values()}


class ReadDescriptor(NamedTuple):
    """A descriptor, the sha256 of its file (hexadecimal), and what looks odd in it, one line each."""

    descriptor: Descriptor
    digest: str
    notes: tuple[str, ...]


class Entry(NamedTuple):
    """A key's value and the line the key stands on."""

    value: object
    line: int


def read_descriptor(path: Path) -> ReadDescriptor:
    """The experiment that `path` describes. Keys that are not robin's are ignored, as robin does.

    Raises:
        DescriptorError: the file cannot be read, is not YAML, or a key is missing, mistyped or given twice.
    """
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise DescriptorError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    entries = top_level(path, stored)
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
    notes = tuple(
        f"{path}:{entries[wrong].line}: key {wrong} is ignored; did you mean {meant}?"
        for wrong, meant in misspelt.items()
    )
    return ReadDescriptor(descriptor, hashlib.sha256(stored).hexdigest(), notes)


def top_level(path: Path, stored: bytes) -> dict[str, Entry]:
    """The keys of the document's mapping, with their values and lines.

    Raises:
        DescriptorError: this is no YAML mapping, or a key stands in it twice.
    """
    loader = yaml.SafeLoader(b"")
    try:
        loader = yaml.SafeLoader(stored)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise DescriptorError(f"{path}:1: not a descriptor; write one `key: value` a line: {', '.join(MEANING)}")
        entries: dict[str, Entry] = {}
        for key_node, value_node in root.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in entries:
                raise DescriptorError(
                    f"{path}:{line}: key {key} stands on line {entries[key].line} already; keep one of them"
                )
            entries[key] = Entry(value_of(loader, value_node), line)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise DescriptorError(f"{path}:{line}: not YAML ({problem}); mend that line") from None
    finally:
        loader.dispose()
    return entries


def value_of(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    """What the node says, or its text where that is no value of YAML's (the check of its type then shows it)."""
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.constructor.ConstructorError, ValueError):
        return node.value


def misspellings(keys: dict[str, Entry]) -> dict[str, str]:
    """The keys that are not robin's but look like one of its keys, and which."""
    found = {}
    for key in keys:
        plain = key.lower().replace("_", "-")
        if key not in MEANING and (near := difflib.get_close_matches(plain, MEANING, n=1, cutoff=0.75)):
            found[key] = near[0]
    return found
