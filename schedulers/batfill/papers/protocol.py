"""The protocols in expe/papers: each paper's printed numbers, how entries are computed, and known differences."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from batfill.campaigns.sections import Section, Text, keys_of, mistake_at
from batfill.documents import Document, KeyPath, whole
from batfill.errors import BatfillError
from batfill.papers import classes, heuristics, mixed, selection, simple
from batfill.papers.core import Computation, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Valid values of an entry's `compute:`.
COMPUTATIONS = {
    name.replace("_", "-"): value
    for paper in (simple, mixed, heuristics, classes, selection)
    for name, value in vars(paper).items()
    if isinstance(value, Computation)
}
SHIPPED = Path(__file__).with_name("protocols")  # in a wheel
CHECKOUT = Path(__file__).parents[3] / "expe" / "papers"  # of an editable installation
ALL = "all"


class ProtocolError(BatfillError):
    """A protocol is unusable, or none has the name."""


class Published(Section):
    """The numbers printed in the paper: for every row a value per column, null if it prints none."""

    columns: Annotated[list[Text], Field(min_length=1)]
    rows: Annotated[dict[Text, list[float | None]], Field(min_length=1)]

    def value(self, row: str, column: str) -> float | None:
        """The printed number; None if there is none."""
        return self.rows[row][self.columns.index(column)] if row in self.rows and column in self.columns else None


class Entry(Section):
    """A table, a figure or a statement of the paper."""

    source: Text  # "Table 3"
    title: Text
    quantity: Text  # what the numbers are, such as "mean bounded slowdown"
    compute: Text
    logs: Annotated[dict[Text, Text], Field(min_length=1)]  # by label: a name in the archive's manifest, or a file name
    parameters: dict[str, Any] = Field(default_factory=dict)
    quick: dict[str, Any] = Field(default_factory=dict)  # parameters of the small version that differ
    published: Published | None = None
    relative_to: Text | None = None  # the row that normalises its columns
    says: dict[Text, Text] = Field(default_factory=dict)  # statements, by the keys of their verdicts
    show: list[Text] = Field(default_factory=list)  # charts for the page
    agrees: Text
    differs: Text
    because: Text  # the reason of the differences, as far as known


class Paper(Section):
    """A paper and its entries."""

    title: Text
    authors: Text
    venue: Text
    open: Text  # what the paper leaves open, and our choice
    entries: Annotated[dict[Text, Entry], Field(min_length=1)]


class Named(NamedTuple):
    """An entry and its origin: `name` is PAPER/ENTRY."""

    name: str
    paper: Paper
    entry: Entry
    parameters: Section
    quick: Section

    @property
    def paper_name(self) -> str:
        """The part before the slash."""
        return self.name.partition("/")[0]


class Reproduced(NamedTuple):
    """An entry and its outcome, None if none of its logs is available."""

    named: Named
    quick: bool
    folder: Path
    missing: list[str]  # files of logs
    outcome: Outcome | None
    again: bool = False  # reused from the folder


def folder_of_protocols(given: Path | None) -> Path:
    """The given folder, else the one shipped with batfill.

    Raises:
        ProtocolError: it does not exist.
    """
    folder = given or (SHIPPED if SHIPPED.is_dir() else CHECKOUT)
    if not folder.is_dir():
        raise ProtocolError(f"{folder}: no folder of protocols; give one with --protocols")
    return folder


def read_protocols(folder: Path, names: Iterable[str] = (ALL,)) -> dict[str, Named]:
    """The entries of the YAML files in the folder, in the order of file names.

    If all names belong to some papers, only the files of those papers are read.

    Raises:
        ProtocolError: there are none, or a file is not a protocol.
    """
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise ProtocolError(f"{folder}: no *.yaml in it; give a folder of protocols with --protocols")
    papers = {name.partition("/")[0] for name in names}
    if papers <= {path.stem for path in paths}:
        paths = [path for path in paths if path.stem in papers]
    return {named.name: named for path in paths for named in read_protocol(path)}


def read_protocol(path: Path) -> Iterator[Named]:
    """The entries of one paper.

    Raises:
        ProtocolError: the file is unreadable, or a key is unknown, missing, mistyped or repeated.
    """
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise ProtocolError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    document = whole(path, stored, "a protocol; it needs at least `title:` and `entries:`", ProtocolError)
    paper = validated(path, document, (), Paper, document.value)
    for key, entry in paper.entries.items():
        place: KeyPath = ("entries", key)
        if entry.compute not in COMPUTATIONS:
            near = ", ".join(get_close_matches(entry.compute, COMPUTATIONS, 1) or COMPUTATIONS)
            raise ProtocolError(
                f"{path}:{document.line((*place, 'compute'))}: nothing is called {entry.compute!r}; try {near}"
            )
        check_published(path, document, place, entry)
        section = COMPUTATIONS[entry.compute].parameters
        full = validated(path, document, (*place, "parameters"), section, entry.parameters)
        small = validated(path, document, (*place, "quick"), section, {**entry.parameters, **entry.quick})
        yield Named(f"{path.stem}/{key}", paper, entry, full, small)


def validated(path: Path, document: Document, place: KeyPath, section: type[Section], value: object) -> Any:
    """The value as this section.

    Raises:
        ProtocolError: it is not valid; the message has the place.
    """
    try:
        return section.model_validate(value)
    except ValidationError as error:
        # A misspelt key also causes a missing one; the misspelt key makes the better message.
        wrong = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        at = (*place, *wrong["loc"])
        if len(wrong["loc"]) > 1 and section is Paper:
            section = Published if "published" in wrong["loc"] else Entry
        raise ProtocolError(mistake_at(path, document, at, wrong, keys_of(section))) from None


def check_published(path: Path, document: Document, place: KeyPath, entry: Entry) -> None:
    """Refuse rows whose length differs from the columns', and a missing reference row."""
    published = entry.published
    if published is None:
        if entry.relative_to is not None:
            raise ProtocolError(f"{path}:{document.line(place)}: relative-to needs published rows; leave it out")
        return
    for row, values in published.rows.items():
        if len(values) != len(published.columns):
            raise ProtocolError(
                f"{path}:{document.line((*place, 'published', 'rows', row))}: {row} has {len(values)} values for "
                f"{len(published.columns)} columns; give null where the paper prints none"
            )
    if entry.relative_to is not None and entry.relative_to not in published.rows:
        raise ProtocolError(
            f"{path}:{document.line((*place, 'relative-to'))}: no row {entry.relative_to!r}; "
            f"rows are {', '.join(published.rows)}"
        )


def entries_named(entries: dict[str, Named], names: Sequence[str]) -> list[Named]:
    """The entries of these names, each once, in the protocols' order: PAPER/ENTRY, PAPER for all of it, or all.

    Raises:
        ProtocolError: a name is unknown.
    """
    papers = {named.paper_name for named in entries.values()}
    wanted = set()
    for name in names:
        if name != ALL and name not in papers and name not in entries:
            near = get_close_matches(name, [*entries, *papers, ALL], 1, cutoff=0.3)
            raise ProtocolError(
                f"nothing is called {name!r};{f' did you mean {near[0]}?' if near else ''} "
                "`batfill reproduce --list` lists all names"
            )
        wanted |= {key for key, named in entries.items() if name in (ALL, key, named.paper_name)}
    return [named for key, named in entries.items() if key in wanted]
