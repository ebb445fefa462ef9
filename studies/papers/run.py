"""The work of `batfill reproduce`: listing entries, or computing and writing them.

An entry is reused from the results' folder if nothing it depends on has changed.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatch
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import monotonic
from typing import TYPE_CHECKING, Any

from batfill.base.errors import Interrupted, RunFailed
from batfill.base.files import digest, make_folder, write_text
from batfill.base.version import __version__
from batfill.base.words import wrapped
from batfill.replays.found import as_json, document
from batfill.workloads.archive import cache_folder
from batfill_pages.figures import check_formats
from studies.papers.core import Context, Outcome, code_of, identity_of, read_kept
from studies.papers.page import OPTIONS, cells, section_of, write_entry, write_pages
from studies.papers.protocol import (
    COMPUTATIONS,
    ProtocolError,
    Reproduced,
    Took,
    entries_named,
    file_of,
    folder_of_protocols,
    read_protocols,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batfill_lab.processes import Bar
    from studies.papers.protocol import Named, Size

RESULT = "result.json"
TOOK = "took.json"  # the time it took, apart from the results, which are the same again


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
    """A paragraph per entry: its name, what and where it is in the paper, and its logs."""
    lines = (f"{each['name']}: {each['title']} ({each['source']}); {', '.join(each['logs'])}" for each in listed)
    return "\n".join(wrapped(line, "  ") for line in lines)


def run(
    names: Sequence[str],
    *,
    protocols: Path | None,
    logs: Path | None,
    out: Path,
    size: Size,
    fresh: bool,
    formats: str,
    page: Path | None,
    bar: Bar,
    say: Callable[[str], None],
) -> list[Reproduced]:
    """Reproduce these entries, and write their files and the pages.

    Args:
        names: PAPER/ENTRY, PAPER or all.
        protocols: the folder of the protocols; None for those of batfill.
        logs: the folder of the logs; None for the usual ones.
        out: the folder of the results.
        size: of the computations.
        fresh: do not reuse results from the folder.
        formats: of figures, separated by commas.
        page: the index of all entries, with a page for each paper in a folder of its name.
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
            result = reproduce(named, places=places(logs), out=out, size=size, fresh=fresh, bar=bar, say=say)
        except Interrupted as interrupted:
            interrupted.add_note(f"{len(done)} of {len(wanted)} entries are kept in {out}")
            raise
        if result.outcome is not None:
            write_entry(result, kinds)
            say(f"{named.name}: {'found' if result.again else 'made'} in {result.folder}")
        done.append(result)
    if page is not None:
        write_pages(done, names, page)
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
            "size": result.size,
            "missing": missing_files(result),
            "folder": str(result.folder),
            "took": result.took and result.took._asdict(),
            "figures": [{**cell._asdict(), "ratio": cell.ratio} for cell in cells(result.named.entry, result.outcome)],
            "verdicts": {name: result.outcome.verdicts[name].holds for name in result.named.entry.says},
        }
        if result.outcome is not None
        else {"name": result.named.name, "size": result.size, "missing": missing_files(result)}
        for result in done
    ]


def missing_files(result: Reproduced) -> list[str]:
    """The files of the logs that are not available."""
    return [file_of(result.named.entry.logs[label]) for label in result.missing]


def reproduce(
    named: Named,
    *,
    places: Sequence[Path],
    out: Path,
    size: Size = "usual",
    fresh: bool = False,
    bar: Bar,
    say: Callable[[str], None] = lambda _: None,
) -> Reproduced:
    """Reproduce one entry.

    Args:
        named: the entry.
        places: folders to search for logs.
        out: the folder of all results.
        size: of the computation.
        fresh: compute it even if its result exists.
        bar: makes progress bars.
        say: receives a line on what is missing.

    Raises:
        BatfillError: a log is unreadable, or the parameters do not fit it.
    """
    base = out if size == "usual" else out / size
    folder = base / named.name
    found = {label: log_file(log, places) for label, log in named.entry.logs.items()}
    logs = {label: path for label, path in found.items() if path is not None} | other_files(named.entry.also, places)
    sums = {label: digest(path) for label, path in logs.items()}
    made = Reproduced(named, size, folder, sums, None)
    if made.missing:
        kind = "goes without" if logs else "skipped, it needs"
        files = ", ".join(missing_files(made))
        say(f"{named.name}: {kind} {files}; `batfill workload fetch` gets logs of the archive")
    if not logs:
        return made

    how = COMPUTATIONS[named.entry.compute]
    parameters = named.parameters[size]
    taken = parameters.model_dump(mode="json")
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
        return made._replace(outcome=stored, again=True, took=read_took(folder / TOOK, identity))

    context = Context(logs, base / named.paper_name, bar)
    make_folder(folder)
    wall_s, cpu_s = monotonic(), cpu_so_far_s()
    outcome = how.compute(context, parameters)
    took = Took(monotonic() - wall_s, cpu_so_far_s() - cpu_s)
    check_statements(named, outcome)
    content = document(
        f"reproduce {named.name}{OPTIONS[size]}",
        seed=taken.get("seed"),
        given=taken,
        source={label: {"file": path.name, "sha256": sums[label]} for label, path in logs.items()},
        results={"key": identity, "outcome": outcome.as_dict()},
    )
    text = as_json(content)
    write_text(folder / TOOK, as_json({"key": identity, **took._asdict()}) + "\n")
    write_text(folder / RESULT, text + "\n")
    return made._replace(outcome=Outcome.of_dict(json.loads(text)["outcome"]), took=took)


def cpu_so_far_s() -> float:
    """The processor time of this process and of its workers that have ended, in seconds."""
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def read_took(path: Path, identity: str) -> Took | None:
    """The stored time, if it exists and belongs to the result with this key."""

    def took(stored: Path) -> Took | None:
        content = json.loads(stored.read_bytes())
        return Took(content["wall_s"], content["cpu_s"]) if content["key"] == identity else None

    return read_kept(path, took, "stored") if path.exists() else None


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


def other_files(patterns: Sequence[str], folders: Sequence[Path]) -> dict[str, Path]:
    """The files of such names, by name, each in the first folder that has it."""
    files = [path for folder in reversed(folders) for path in sorted(folder.glob("*"))]
    return {path.name: path for path in files if any(fnmatch(path.name, each) for each in patterns)}
