"""The work of `batfill reproduce`: listing entries, or computing and writing them.

An entry is reused from the results' folder if nothing it depends on has changed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batfill import __version__
from batfill.errors import Interrupted, RunFailed
from batfill.files import digest, make_folder, write_text
from batfill.papers.core import Context, Outcome, code_of, identity_of, read_kept
from batfill.papers.page import cells, markdown, section_of, write_entry, write_page
from batfill.papers.protocol import (
    COMPUTATIONS,
    ProtocolError,
    Reproduced,
    entries_named,
    folder_of_protocols,
    read_protocols,
)
from batfill.reports.figures import check_formats
from batfill.tuning.results import as_json, document
from batfill.workloads.archive import cache_folder
from batfill.workloads.manifest import manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batfill.papers.protocol import Named
    from batfill.processes import Bar

RESULT = "result.json"
QUICK = "quick"


def entries_listing(protocols: Path | None) -> list[dict[str, Any]]:
    """Every entry: its name, its source in the paper, its title, and its logs."""
    return [
        {
            "name": named.name,
            "paper": named.paper.title,
            "source": named.entry.source,
            "title": named.entry.title,
            "logs": list(named.entry.logs.values()),
        }
        for named in read_protocols(folder_of_protocols(protocols)).values()
    ]


def as_text(listed: Sequence[dict[str, Any]]) -> str:
    """The entries as a table."""
    rows = [(each["name"], each["source"], each["title"], ", ".join(each["logs"])) for each in listed]
    return markdown(("name", "in the paper", "what", "logs"), rows)


def run(
    names: Sequence[str],
    *,
    protocols: Path | None,
    logs: Path | None,
    out: Path,
    quick: bool,
    fresh: bool,
    formats: str,
    page: Path | None,
    bar: Bar,
    say: Callable[[str], None],
) -> list[Reproduced]:
    """Reproduce these entries, and write their files and the page.

    Args:
        names: PAPER/ENTRY, PAPER or all.
        protocols: the folder of the protocols; None for those of batfill.
        logs: the folder of the logs; None for the usual ones.
        out: the folder of the results.
        quick: use the small versions.
        fresh: do not reuse results from the folder.
        formats: of figures, separated by commas.
        page: one page of all entries.
        bar: makes progress bars.
        say: receives a line on what is missing, or on where results are.

    Raises:
        BatfillError: a name is unknown, or a protocol, a log or an option is unusable.
        RunFailed: no entry could run because logs are missing.
    """
    kinds = [kind.strip() for kind in formats.split(",") if kind.strip()]
    check_formats(kinds)
    if page is not None and not page.parent.is_dir():
        raise ProtocolError(f"--page {page}: the folder {page.parent} does not exist; make it first")
    if not names:
        raise ProtocolError("say what: PAPER/ENTRY, PAPER or all; `batfill reproduce --list` lists all names")
    wanted = entries_named(read_protocols(folder_of_protocols(protocols), names), names)
    done: list[Reproduced] = []
    for named in wanted:
        try:
            result = reproduce(named, places=places(logs), out=out, quick=quick, fresh=fresh, bar=bar, say=say)
        except Interrupted as interrupted:
            interrupted.add_note(f"{len(done)} of {len(wanted)} entries are kept in {out}")
            raise
        if result.outcome is not None:
            write_entry(result, kinds)
            say(f"{named.name}: {'found' if result.again else 'made'} in {result.folder}")
        done.append(result)
    if page is not None:
        write_page(done, names, page)
    if all(result.outcome is None for result in done):
        raise RunFailed(f"none of {len(done)} entries could run for want of logs; --logs DIR says where they are")
    return done


def sections(done: Sequence[Reproduced]) -> str:
    """The entries as text."""
    return "\n\n".join(section_of(result) for result in done if result.outcome is not None)


def as_objects(done: Sequence[Reproduced]) -> list[dict[str, Any]]:
    """The entries for JSON."""
    return [
        {
            "name": result.named.name,
            "quick": result.quick,
            "missing": result.missing,
            "folder": str(result.folder),
            "figures": [{**cell._asdict(), "ratio": cell.ratio} for cell in cells(result.named.entry, result.outcome)],
            "verdicts": {name: result.outcome.verdicts[name].holds for name in result.named.entry.says},
        }
        if result.outcome is not None
        else {"name": result.named.name, "quick": result.quick, "missing": result.missing}
        for result in done
    ]


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
    """Reproduce one entry.

    Args:
        named: the entry.
        places: folders to search for logs.
        out: the folder of all results.
        quick: use the parameters of the small version.
        fresh: compute it even if its result exists.
        bar: makes progress bars.
        say: receives a line on what is missing.

    Raises:
        BatfillError: a log is unreadable, or the parameters do not fit it.
    """
    base = out / QUICK if quick else out
    folder = base / named.name
    found = {label: log_file(log, places) for label, log in named.entry.logs.items()}
    logs = {label: path for label, path in found.items() if path is not None}
    missing = [file_of(named.entry.logs[label]) for label, path in found.items() if path is None]
    if missing:
        kind = "goes without" if logs else "skipped, it needs"
        say(f"{named.name}: {kind} {', '.join(missing)}; `batfill workload fetch` gets logs of the archive")
    if not logs:
        return Reproduced(named, quick, folder, missing, None)

    how = COMPUTATIONS[named.entry.compute]
    parameters = named.quick if quick else named.parameters
    taken = parameters.model_dump(mode="json")
    sums = {label: digest(path) for label, path in logs.items()}
    identity = identity_of(
        {
            "version": __version__,
            "code": code_of(how.function),
            "compute": named.entry.compute,
            "parameters": taken,
            "logs": sums,
        }
    )
    stored = None if fresh else read_result(folder / RESULT, identity)
    if stored is not None:
        check_statements(named, stored)
        return Reproduced(named, quick, folder, missing, stored, again=True)

    context = Context(logs, base / named.paper_name, bar)
    make_folder(folder)
    outcome = how.compute(context, parameters)
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
    return Reproduced(named, quick, folder, missing, Outcome.of_dict(json.loads(text)["outcome"]))


def check_statements(named: Named, outcome: Outcome) -> None:
    """Refuse statements that the computation cannot judge."""
    if unknown := [name for name in named.entry.says if name not in outcome.verdicts]:
        raise ProtocolError(
            f"{named.name}: {named.entry.compute} judges no statement {unknown[0]!r}; "
            f"it judges {', '.join(outcome.verdicts) or 'none'}"
        )


def read_result(path: Path, identity: str) -> Outcome | None:
    """The stored outcome, if it exists and has this key."""

    def outcome(stored: Path) -> Outcome | None:
        content = json.loads(stored.read_bytes())
        return Outcome.of_dict(content["outcome"]) if content["key"] == identity else None

    return read_kept(path, outcome, "stored") if path.exists() else None


# The logs


def file_of(log: str) -> str:
    """The file of a log given by its name in the archive's manifest, or by its file name."""
    known = manifest().get(log)
    return known.file if known else log


def places(given: Path | None) -> list[Path]:
    """The folders to search for logs: the given one, else $BATFILL_TRACES and the cache of `batfill workload fetch`."""
    if given is not None:
        return [given]
    traces = os.environ.get("BATFILL_TRACES")
    return [*([Path(traces)] if traces else []), cache_folder()]


def log_file(log: str, folders: Sequence[Path]) -> Path | None:
    """The log's file, compressed or not, in the first folder that has it."""
    name = file_of(log)
    candidates = [folder / each for folder in folders for each in (name, name.removesuffix(".gz"))]
    return next((path for path in candidates if path.is_file()), None)
