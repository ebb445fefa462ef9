"""Types for the sections of YAML files: pydantic's models, and messages for mistakes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from batfill.base.errors import LARGEST, BatfillError
from batfill.model.values import seconds_of, tau_of, unrequested_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from batfill.base.documents import Document, KeyPath

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
# A duration is checked like the option of its name, which also parses text such as "20h".
Seconds = Annotated[float, BeforeValidator(lambda value: checked_seconds("threshold", value))]
Tau = Annotated[float, BeforeValidator(lambda value: checked_seconds("tau", value))]


def checked_choice(value: Any) -> str | float | None:
    """What stands in for a missing request, None for no choice; else ValueError, for pydantic."""
    try:
        return None if value is None else unrequested_of("unrequested", value)
    except BatfillError as error:
        raise ValueError(error.on_command_line) from None


def checked_seconds(name: str, value: Any) -> float:
    """The seconds of a duration, or ValueError, for pydantic."""
    try:
        return tau_of(value) if name == "tau" else seconds_of(name, value)
    except BatfillError as error:
        raise ValueError(error.on_command_line) from None


class Section(BaseModel):
    """A mapping of the file; keys are written with dashes, and unknown ones are refused."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-")
    )


def keys_of(section: type[Section]) -> list[str]:
    return [str(info.alias) for info in section.model_fields.values()]


def mistake_at(path: Path, document: Document, place: KeyPath, wrong: ErrorDetails, known: Iterable[str]) -> str:
    """The mistake at this place of the file and its correction; `known` are the keys of its section."""
    at = f"{path}:{document.line(place)}"
    if wrong["type"] == "extra_forbidden":
        return f"{at}: key {place[-1]} is unknown here; known are {', '.join(known)}"
    if wrong["type"] == "missing":
        return f"{at}: key {place[-1]} is missing; add `{place[-1]}:` with its value"
    inner = [part for i, part in enumerate(place) if place[: i + 1] in document.lines]
    message = wrong["msg"].removeprefix("Value error, ")
    return f"{at}: {'.'.join(map(str, inner))} is {wrong['input']!r}; {message[0].lower()}{message[1:]}"
