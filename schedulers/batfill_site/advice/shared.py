"""The options of a scheduler that all replays of an advice share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.model.options import OPTIONS, of_arguments, with_preset
from batfill.model.rows import plain_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def shared_of(arguments: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """As `of_arguments`, for replays that share these options and have their own values of the others; None is dropped.

    Values are as in results, but for a calendar that is in no file.

    Raises:
        BatfillError: an argument is unknown, or is not one of these options.
    """
    given = of_arguments({name: value for name, value in arguments.items() if value is not None})
    if other := [name for name in given if name not in names]:
        shared = ", ".join(OPTIONS[name].argument for name in names)
        raise BatfillError(
            f"argument {OPTIONS[other[0]].argument!r}: each replay here has its own; those that they share are {shared}"
        )
    checked = {name: OPTIONS[name].check(name, value) for name, value in given.items() if value is not None}
    return {name: given[name] if name == "calendar" else plain_value(value) for name, value in checked.items()}


def those_that_apply(shared: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The shared options whose needs the chosen ones meet."""
    chosen = {name: option.default for name, option in OPTIONS.items()} | with_preset(chosen)[0]
    return {name: value for name, value in shared.items() if all(need.met(chosen) for need in OPTIONS[name].needs)}
