"""The protocols: each paper's printed numbers, how entries are computed, and known differences."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from batfill.base.documents import Document, KeyPath, read_document
from batfill.base.errors import BatfillError
from batfill.workloads.swf_log import manifest
from batfill_lab.campaigns.sections import Section, Text, keys_of, mistake_at
from studies.papers import budgets, classes, heuristics, mixed, selection, simple
from studies.papers.core import Computation, Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

Size = Literal["quick", "usual", "full"]  # of the computations; the papers have the full one
# Valid values of an entry's `compute:`.
COMPUTATIONS = {
    name.replace("_", "-"): value
    for paper in (simple, mixed, heuristics, classes, selection, budgets)
    for name, value in vars(paper).items()
    if isinstance(value, Computation)
}
PROTOCOLS = Path(__file__).with_name("protocols")
ALL = "all"


class ProtocolError(BatfillError):
    """A protocol is unusable, or none has the name."""


class Published(Section):
    """The numbers printed in the paper: for every row a value per column, null if it prints none."""

    columns: Annotated[list[Text], Field(min_length=1)]
    rows: Annotated[dict[Text, list[float | None]], Field(min_length=1)]
    sorted_alone: list[Text] = Field(default_factory=list)  # columns whose values are in order, under others' labels
    constant: Text | None = None  # a row that by its definition has one value in every column

    @property
    def labelled(self) -> list[str]:
        """The columns whose values belong to the labels of their rows."""
        return [name for name in self.columns if name not in self.sorted_alone]

    def column(self, name: str) -> list[float]:
        """The numbers of a column from the first row to the last, without those that the paper does not print."""
        found = (self.value(row, name) for row in self.rows)
        return [value for value in found if value is not None]

    def value(self, row: str, column: str) -> float | None:
        """The printed number; None if there is none."""
        return self.rows[row][self.columns.index(column)] if row in self.rows and column in self.columns else None


class Remark(Section):
    """What people say of an entry. It holds for the logs that it names, and is printed only if all of them are used."""

    text: Text
    logs: list[Text] = Field(default_factory=list)  # as in the values of an entry's `logs:`


class Entry(Section):
    """A table, a figure or a statement of the paper."""

    source: Text  # "Table 3"
    title: Text
    quantity: Text  # what the numbers are, such as "mean bounded slowdown"
    compute: Text
    logs: Annotated[dict[Text, Text], Field(min_length=1)]  # by label: a name in the archive's manifest, or a file name
    also: list[Text] = Field(default_factory=list)  # file names, perhaps with *: taken too if they lie beside the logs
    parameters: dict[str, Any] = Field(default_factory=dict)
    quick: dict[str, Any] = Field(default_factory=dict)  # parameters of the small version that differ
    full: dict[str, Any] = Field(default_factory=dict)  # and those of the version that is as large as the paper's
    published: Published | None = None
    relative_to: Text | None = None  # the row that normalises its columns
    says: dict[Text, Text] = Field(default_factory=dict)  # statements, by the keys of their verdicts
    show: list[Text] = Field(default_factory=list)  # charts for the page
    tables: list[str] = Field(default_factory=list)  # choices whose tables of ours alone are on the page
    why: list[Remark] = Field(default_factory=list)  # reasons, as far as known; figures are computed, not written here


class Paper(Section):
    """A paper and its entries."""

    title: Text
    authors: Text
    venue: Text
    doi: Text | None = None
    open: list[Remark]  # what the paper leaves open, and our choice
    entries: Annotated[dict[Text, Entry], Field(min_length=1)]


class Named(NamedTuple):
    """An entry and its origin: `name` is PAPER/ENTRY."""

    name: str
    paper: Paper
    entry: Entry
    parameters: dict[Size, Section]

    @property
    def paper_name(self) -> str:
        """The part before the slash."""
        return self.name.partition("/")[0]


class Took(NamedTuple):
    """The time that an entry took when it was computed; what other entries had left for it is not in it."""

    wall_s: float
    cpu_s: float


class Reproduced(NamedTuple):
    """An entry and its outcome, None if none of its logs is available."""

    named: Named
    size: Size
    folder: Path
    logs: dict[str, str]  # the digest of each log that is available, by label
    outcome: Outcome | None
    again: bool = False  # reused from the folder
    took: Took | None = None  # None if unknown

    @property
    def missing(self) -> list[str]:
        """The labels of the logs that are not available."""
        return [label for label in self.named.entry.logs if label not in self.logs]

    @property
    def used(self) -> list[str]:
        """The logs that are available, as in the entry's `logs:`, and its other files."""
        return [self.named.entry.logs.get(label, label) for label in self.logs]


def said(remarks: Iterable[Remark], logs: Collection[str]) -> str:
    """The remarks that hold for these logs, a paragraph each."""
    return "\n\n".join(remark.text.strip() for remark in remarks if set(remark.logs) <= set(logs))


def file_of(log: str) -> str:
    """The file of a log given by its name in the archive's manifest, or by its file name."""
    known = manifest().get(log)
    return known.file if known else log


def folder_of_protocols(given: Path | None) -> Path:
    """The given folder, else the studies' own.

    Raises:
        ProtocolError: it does not exist.
    """
    folder = given or PROTOCOLS
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
    document = read_document(path, "a protocol; it needs at least `title:` and `entries:`", ProtocolError)
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
        sizes: dict[Size, tuple[str, dict[str, Any]]] = {
            "usual": ("parameters", {}),
            "quick": ("quick", entry.quick),
            "full": ("full", entry.full),
        }
        parameters = {
            size: validated(path, document, (*place, at), section, {**entry.parameters, **other})
            for size, (at, other) in sizes.items()
        }
        yield Named(f"{path.stem}/{key}", paper, entry, parameters)


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
            inner: dict[object, type[Section]] = {"published": Published, "why": Remark, "open": Remark}
            section = next((inner[key] for key in wrong["loc"][:-1] if key in inner), Entry)
        raise ProtocolError(mistake_at(path, document, at, wrong, keys_of(section))) from None


def check_published(path: Path, document: Document, place: KeyPath, entry: Entry) -> None:
    """Refuse rows of another length than the columns', unknown rows, and values that cannot belong to their labels."""
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
    here: KeyPath = (*place, "published")
    wanted: tuple[tuple[KeyPath, str | None], ...] = (
        ((*place, "relative-to"), entry.relative_to),
        ((*here, "constant"), published.constant),
    )
    for at, reference in wanted:
        if reference is not None and reference not in published.rows:
            rows = ", ".join(published.rows)
            raise ProtocolError(f"{path}:{document.line(at)}: no row {reference!r}; rows are {rows}")
    at = (*here, "sorted-alone")
    for name in published.sorted_alone:
        if name not in published.columns:
            columns = ", ".join(published.columns)
            raise ProtocolError(f"{path}:{document.line(at)}: no column {name!r}; columns are {columns}")
        if published.column(name) != sorted(published.column(name)):
            raise ProtocolError(f"{path}:{document.line(at)}: the values of {name} do not ascend; leave it out")
    if published.constant is not None:
        fixed = {name: published.value(published.constant, name) for name in published.labelled}
        if len(set(fixed.values())) > 1:
            each = ", ".join(f"{value} in {name}" for name, value in fixed.items())
            raise ProtocolError(
                f"{path}:{document.line((*here, 'constant'))}: {published.constant} has {each}, and can have one value "
                "only; put columns that the paper has sorted by themselves under sorted-alone"
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
