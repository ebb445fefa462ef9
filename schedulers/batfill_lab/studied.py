"""The settings of papers' studies, which campaigns take beside the scheduler's options: outside of their table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from batfill.base.errors import BatfillError
from batfill.model.kinds import Kind, options_table, words
from batfill.model.options import Options, Study

if TYPE_CHECKING:
    from collections.abc import Mapping


def truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BatfillError(f"option {name}: {value!r:.60} is neither true nor false")
    return value


STUDIED = options_table(
    "",
    ("bound", Kind(truth, "true, false", ""), True, "Expect a small job that may be killed to end at the divider at "
     "the latest."),
    ("regime", words("fresh", "decoupled"), "fresh", "What the learner knows: all that has ended, or what had ended by "
     "the last week's end."),
    ("divider-rule", words("known", "week"), "known", "The median of all known run times, or of the last week's."),
)  # fmt: skip


def studied(given: Mapping[str, Any]) -> Options:
    """As `Options.of`, with the settings of STUDIED among the options."""
    plain = {name: value for name, value in given.items() if name not in STUDIED}
    own = {name: value for name, value in given.items() if name in STUDIED and value is not None}
    study = Study(**{STUDIED[name].argument: STUDIED[name].check(name, value) for name, value in own.items()})
    return replace(Options.of(plain), study=study)


def stated(options: Options) -> dict[str, Any]:
    values = {name: getattr(options.study, row.argument) for name, row in STUDIED.items()}
    return {name: value for name, value in values.items() if value != STUDIED[name].default}
