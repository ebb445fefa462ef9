"""What `batfill reproduce` does: list the entries, or make the chosen ones and their page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from batfill.errors import Interrupted, RunFailed
from batfill.report.figures import check_formats
from batfill.reproduction.compare import cells
from batfill.reproduction.page import markdown, section_of
from batfill.reproduction.protocol import ProtocolError, chosen, folder_of_protocols, read_protocols
from batfill.reproduction.run import Reproduced, reproduce
from batfill.reproduction.task import places
from batfill.reproduction.write import write_entry, write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from batfill.reproduction.task import Bar


def listing(protocols: Path | None) -> list[dict[str, Any]]:
    """Every entry: its name, where it stands in which paper, what it is, and its logs."""
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
    """The entries in a table."""
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
    """Make these entries, and write their files and the page.

    Args:
        names: PAPER/ENTRY, PAPER or all.
        protocols: the folder of the protocols; None for those of batfill.
        logs: the folder of the logs; None for the usual ones.
        out: the folder of the results.
        quick: the small versions.
        fresh: do not take results from the folder.
        formats: of figures, separated by commas.
        page: one page of all entries.
        bar: makes progress bars.
        say: is told what is missing, and where results are.

    Raises:
        BatfillError: a name is unknown, or a protocol, a log or an option cannot be used.
        RunFailed: no entry could run for want of logs.
    """
    kinds = [kind.strip() for kind in formats.split(",") if kind.strip()]
    check_formats(kinds)
    if page is not None and not page.parent.is_dir():
        raise ProtocolError(f"--page {page}: the folder {page.parent} does not exist; make it first")
    if not names:
        raise ProtocolError("say what: PAPER/ENTRY, PAPER or all; `batfill reproduce --list` lists all names")
    wanted = chosen(read_protocols(folder_of_protocols(protocols), names), names)
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
    """The entries for programs."""
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
