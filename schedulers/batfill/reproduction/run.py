"""Entries computed, or taken from the folder of results where nothing that they depend on has changed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from batfill import __version__
from batfill.errors import BatfillError
from batfill.files import digest, make_folder, write_text
from batfill.reproduction.computations import computation
from batfill.reproduction.outcome import Outcome
from batfill.reproduction.protocol import ProtocolError
from batfill.reproduction.shared import REPLAYS, code_of
from batfill.reproduction.task import Task, file_of, find
from batfill.tuning.results import as_json, document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from batfill.reproduction.protocol import Named
    from batfill.reproduction.task import Bar

RESULT = "result.json"
QUICK = "quick"


class Reproduced(NamedTuple):
    """An entry and what it came to; the outcome is None where none of its logs is at hand."""

    named: Named
    quick: bool
    folder: Path
    missing: list[str]  # files of logs
    outcome: Outcome | None
    again: bool = False  # taken from the folder


def reproduce(
    named: Named,
    *,
    places: Sequence[Path],
    out: Path,
    quick: bool = False,
    fresh: bool = False,
    bar: Bar,
    say: Callable[[str], None] = lambda _: None,
) -> Reproduced:
    """One entry.

    Args:
        named: the entry.
        places: folders in which logs are looked for.
        out: the folder of all results.
        quick: take the parameters of the small version.
        fresh: compute it even if its result is there.
        bar: makes progress bars.
        say: is told what is missing.

    Raises:
        BatfillError: a log cannot be read, or the parameters do not go with it.
    """
    base = out / QUICK if quick else out
    folder = base / named.name
    found = {label: find(log, places) for label, log in named.entry.logs.items()}
    logs = {label: path for label, path in found.items() if path is not None}
    missing = [file_of(named.entry.logs[label]) for label, path in found.items() if path is None]
    if missing:
        kind = "goes without" if logs else "skipped, it needs"
        say(f"{named.name}: {kind} {', '.join(missing)}; `batfill workload fetch` gets logs of the archive")
    if not logs:
        return Reproduced(named, quick, folder, missing, None)

    how = computation(named.entry.compute)
    parameters = named.quick if quick else named.parameters
    taken = parameters.model_dump(mode="json")
    sums = {label: digest(path) for label, path in logs.items()}
    key = {
        "version": __version__,
        "computation": code_of(f"reproduction/{how.folder}", "reproduction", "tuning", *REPLAYS),
        "compute": named.entry.compute,
        "parameters": taken,
        "logs": sums,
    }
    identity = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    stored = None if fresh else read_result(folder / RESULT, identity)
    if stored is not None:
        check_statements(named, stored)
        return Reproduced(named, quick, folder, missing, stored, again=True)

    task = Task(logs, base / named.paper_name, bar)
    make_folder(folder)
    outcome = how.compute(task, parameters)
    check_statements(named, outcome)
    content = document(
        f"reproduce {named.name}{' --quick' if quick else ''}",
        seed=taken.get("seed"),
        given=taken,
        source={label: {"file": path.name, "sha256": sums[label]} for label, path in logs.items()},
        results={"key": identity, "outcome": outcome.as_dict()},
    )
    text = as_json(content)
    write_text(folder / RESULT, text + "\n")
    return Reproduced(named, quick, folder, missing, outcome_of(json.loads(text)))


def check_statements(named: Named, outcome: Outcome) -> None:
    """Refuse statements that the computation does not judge."""
    if unknown := [name for name in named.entry.says if name not in outcome.verdicts]:
        raise ProtocolError(
            f"{named.name}: {named.entry.compute} judges no statement {unknown[0]!r}; "
            f"it judges {', '.join(outcome.verdicts) or 'none'}"
        )


def read_result(path: Path, identity: str) -> Outcome | None:
    """The stored outcome, if it is that of this key."""
    try:
        content = json.loads(path.read_bytes())
        return outcome_of(content) if content["key"] == identity else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BatfillError(f"{path}: not a stored result ({error}); remove it") from None


def outcome_of(content: dict[str, Any]) -> Outcome:
    """The outcome in a result file."""
    return Outcome.of_dict(content["outcome"])
