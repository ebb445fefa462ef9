"""Building blocks of the papers' computations: tables, charts and verdicts; parameters; kept results; campaigns."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

import numpy as np
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray
from pydantic import create_model

import batfill
from batfill.base.errors import BatfillError
from batfill.base.files import digest, make_folder, raw_file, write_text
from batfill.base.host import cpu_count
from batfill.base.version import __version__
from batfill.replays.found import as_json
from batfill.workloads.formats import load_log
from batfill_lab.campaigns.config import read_campaign
from batfill_lab.campaigns.running import run_campaign
from batfill_lab.campaigns.sections import Section
from batfill_lab.processes import Bar, no_bar, spread

HERE = "studies.papers"
PACKAGES = ("batfill", "batfill_pages", "batfill_site", "batfill_lab", "studies")
# The folders that hold batfill's packages, and `studies`.
ROOTS = (Path(batfill.__file__).parents[1], Path(__file__).parents[2])

Result = TypeVar("Result")
Shared = TypeVar("Shared", bound=Section)
Value = float | None  # None if unknown
Array = NDArray[np.float64]
ChartKind = Literal["lines", "points", "bands", "boxes", "shares", "map"]
PERCENTILES = (5, 25, 50, 75, 95)
FEWEST_WORKERS = 2  # one is no faster than this process


# The outcome of an entry


@dataclass(frozen=True, slots=True)
class Table:
    """Our figures: `values[i][k]` is for `rows[i]` and `columns[k]`, under the labels of the published table."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    choice: str = ""  # what we chose if the paper leaves it open; tables of several choices are shown side by side

    @classmethod
    def of_columns(cls, columns: Mapping[str, Iterable[Value]], rows: Iterable[str], choice: str = "") -> Table:
        """The table of these columns, each with a value for every row."""
        return cls(tuple(columns), tuple(rows), tuple(zip(*columns.values(), strict=True)), choice)

    @classmethod
    def of_rows(cls, columns: Iterable[str], rows: Mapping[str, Iterable[Value]], choice: str = "") -> Table:
        """The table of these rows, each with a value for every column."""
        return cls(tuple(columns), tuple(rows), tuple(map(tuple, rows.values())), choice)

    def value(self, row: str, column: str) -> Value:
        """Our figure; None if there is none."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.values[self.rows.index(row)][self.columns.index(column)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a statement of the paper was observed, and the figures that show it."""

    holds: bool
    evidence: str

    @classmethod
    def of(cls, values: Mapping[str, float], holds: Callable[[float], bool], words: str) -> Verdict:
        """Whether it holds for the value of every log; `words` has a placeholder for a value."""
        return cls(all(holds(value) for value in values.values()), listed(values, f": {words}"))

    @classmethod
    def unless(cls, exceptions: Sequence[str], otherwise: str, between: str = "; ") -> Verdict:
        """Holds if there are no exceptions; `otherwise` is then the text."""
        return cls(not exceptions, f"not so: {between.join(exceptions)}" if exceptions else otherwise)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure as the table behind it.

    lines, points   the first column is x, every other one a series
    bands           as lines, with three columns per series: its value, the least and the most
    shares          the first column names a bar, the others are its stacked parts
    boxes           a name, then the 5th, 25th, 50th, 75th and 95th percentile
    map             x, y, value: a point each, light for low values
    """

    name: str  # of the file, without a suffix
    kind: ChartKind
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    x: str = ""  # labels of the axes
    y: str = ""
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything an entry produced. Equal inputs give equal outcomes: no dates, no timings."""

    tables: tuple[Table, ...] = ()
    verdicts: dict[str, Verdict] = field(default_factory=dict)  # by the keys that an entry's `says:` may have
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()  # facts about this run: rows left out, values derived

    def as_dict(self) -> dict[str, Any]:
        """The outcome for result files; `of_dict` reads it back."""
        return asdict(self)

    @classmethod
    def of_dict(cls, stored: dict[str, Any]) -> Outcome:
        """The outcome from `as_dict`, after JSON."""

        def in_tuples(value: Any) -> Any:
            return tuple(map(in_tuples, value)) if isinstance(value, list) else value

        return cls(
            tuple(Table(**{key: in_tuples(value) for key, value in each.items()}) for each in stored["tables"]),
            {name: Verdict(**each) for name, each in stored["verdicts"].items()},
            tuple(Chart(**{key: in_tuples(value) for key, value in each.items()}) for each in stored["charts"]),
            tuple(stored["notes"]),
        )


def listed(values: Mapping[str, Any], words: str = " {}", between: str = ", ") -> str:
    """Every label with its value; `words` has a placeholder for one value, or for each of a tuple's."""
    each = ((label, value if isinstance(value, tuple) else (value,)) for label, value in values.items())
    return between.join(f"{label}{words.format(*value)}" for label, value in each)


def chart_of_boxes(
    name: str, samples: Mapping[str, NDArray[Any] | Sequence[float]], *, of: str = "of", y: str, log_y: bool = False
) -> Chart:
    """A box for each of these named samples."""
    rows = tuple((label, *np.percentile(values, PERCENTILES).tolist()) for label, values in samples.items())
    return Chart(name, "boxes", (of, *(f"p{share}" for share in PERCENTILES)), rows, y=y, log_y=log_y)


# Computations


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one computation."""

    logs: dict[str, Path]  # by the entry's labels (columns or rows of its table), in its order; never empty
    folder: Path  # shared by the entries of a paper, which keep and resume campaigns there
    bar: Bar  # bar("weeks", 100) makes a progress bar: a context manager returning a function to advance it


class Computation(NamedTuple):
    """A way to compute an entry."""

    parameters: type[Section]
    compute: Callable[[Context, Any], Outcome]
    function: Callable[..., Outcome]  # as written


def computation(function: Callable[..., Outcome]) -> Computation:
    """The function as a computation that entries can name: `job_sizes` becomes "job-sizes".

    It takes the context, a section `how` of parameters shared with others, if any, and its own by keyword. An entry's
    `parameters:` has all of them, and is checked against their types.
    """
    hints = get_type_hints(function, include_extras=True)
    section = hints.get("how", Section)
    own: dict[str, Any] = {
        one.name: (hints[one.name], ... if one.default is one.empty else one.default)
        for one in inspect.signature(function).parameters.values()
        if one.kind is one.KEYWORD_ONLY
    }

    def compute(context: Context, parameters: Section) -> Outcome:
        shared = (parameters,) if "how" in hints else ()
        return function(context, *shared, **{name: getattr(parameters, name) for name in own})

    return Computation(create_model(function.__name__, __base__=section, **own), compute, function)


# Kept results


def kept(folder: Path, kind: str, key: dict[str, Any], by: Callable[..., Any], make: Callable[[], Any]) -> Any:
    """The result of `make`, an array or a JSON mapping: read from its file, or computed and stored there.

    Args:
        folder: of the paper.
        kind: of the result; files of a kind share a folder.
        key: all inputs that it depends on.
        by: the function that computes it: the result is recomputed if its code (`code_of`) has changed.
        make: computes it.

    Raises:
        BatfillError: the file holds something else.
    """
    whole = {**key, "version": __version__, "code": code_of(by)}
    text, array = kept_files(folder, kind, whole)
    if not text.is_file() and not array.is_file():
        made = make()
        make_folder(text.parent)
        if isinstance(made, np.ndarray):
            with raw_file(array) as stream:
                np.save(stream, made)
            return made
        write_text(text, as_json({"of": whole, "is": made}) + "\n")
    if array.is_file():
        return read_kept(array, lambda stored: np.load(stored, allow_pickle=False))
    return read_kept(text, lambda stored: json.loads(stored.read_bytes())["is"])


def is_kept(folder: Path, kind: str, key: dict[str, Any], by: Callable[..., Any]) -> bool:
    """Whether `kept` would read the result of these arguments, and not compute it."""
    whole = {**key, "version": __version__, "code": code_of(by)}
    return any(path.is_file() for path in kept_files(folder, kind, whole))


def kept_files(folder: Path, kind: str, whole: dict[str, Any]) -> tuple[Path, Path]:
    """Where `kept` stores a mapping, and where an array."""
    path = folder / kind / identity_of(whole)[:32]
    return path.with_suffix(".json"), path.with_suffix(".npy")


def shared(section: type[Shared], how: Shared) -> Shared:
    """The shared parameters alone: unlike all those of an entry, they can go to another process."""
    return section.model_construct(**{name: getattr(how, name) for name in section.model_fields})


def side_by_side(
    context: Context, function: Callable[..., object], tasks: Sequence[tuple[Any, ...]], what: str
) -> None:
    """Call the function for every task in a process per processor, so that it keeps its results; a single one is left.

    Args:
        context: the function's first argument; its bars count tasks.
        function: of a module; it keeps what it computes, which the caller then reads.
        tasks: its other arguments, the longest first; picklable.
        what: the tasks, for a progress bar.

    Raises:
        BatfillError: as the function.
    """
    workers = min(cpu_count(), len(tasks))
    if workers < FEWEST_WORKERS:
        return
    silent = replace(context, bar=no_bar)
    calls = [(function, silent, *task) for task in tasks]
    with context.bar(what, len(tasks)) as advance, closing(spread(called, calls, workers)) as ended:
        for _, result in ended:
            if isinstance(result, BaseException):
                raise result
            advance(1)


def called(call: tuple[Any, ...]) -> None:
    """Call a function with its arguments, in a process of its own; what it returns is not sent back."""
    function, *arguments = call
    function(*arguments)


def read_kept(path: Path, read: Callable[[Path], Result], what: str = "kept") -> Result:
    """The content of the file.

    Raises:
        BatfillError: it holds something else.
    """
    try:
        return read(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BatfillError(f"{path}: not a {what} result ({error}); remove it") from None


def identity_of(key: dict[str, Any]) -> str:
    """A digest of everything a result depends on, hexadecimal."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def code_of(function: Callable[..., Any], roots: tuple[Path, Path] = ROOTS) -> str:
    """A digest of the code that determines the function's result, hexadecimal.

    That is its module with all modules of batfill and the studies that it imports, that they import in turn, and so on.
    """
    todo, files = modules_of(roots, function.__module__), set[Path]()
    while todo:
        path = todo.pop()
        files.add(path)
        todo |= {each for name in imports(path) for each in modules_of(roots, name)} - files
    code = hashlib.sha256()
    for path in sorted(files):
        root = next(root for root in roots if path.is_relative_to(root))
        code.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return code.hexdigest()


def modules_of(roots: tuple[Path, Path], name: str) -> set[Path]:
    """The file of this module; of a package all files of its folder, which it may load on demand; else nothing."""
    place = roots[name.split(".")[0] == "studies"].joinpath(*name.split("."))
    path = place.with_suffix(".py")
    return {path} if path.is_file() else set(place.glob("*.py"))


@cache
def imports(path: Path) -> set[str]:
    """The modules of batfill and the studies that a file imports when it runs, inside functions too."""

    def under(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from names if node.module in PACKAGES else [node.module, *names]
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in () if typing_only else ast.iter_child_nodes(node):
            yield from under(child)

    return set(under(ast.parse(path.read_bytes())))


# Campaigns


class Grid(NamedTuple):
    """The runs of a campaign: a row of figures each, and their jobs if the campaign keeps them."""

    label: str
    folder: Path
    rows: list[dict[str, Any]]

    def of(self, policy: str) -> list[dict[str, Any]]:
        """The runs under this policy, in the campaign's order."""
        return [row for row in self.rows if row["policy"] == policy]

    def jobs(self, row: dict[str, Any], *columns: str) -> dict[str, NDArray[Any]]:
        """These columns of a run's jobs, without the rejected ones."""
        table = pq.read_table(self.folder / "jobs" / f"{row['run']}.parquet", columns=[*columns, "rejected"])
        ran = ~table.column("rejected").to_numpy()
        return {name: table.column(name).to_numpy()[ran] for name in columns}


def run_grid(context: Context, label: str, content: dict[str, Any], *, overrun: str) -> Grid:
    """Run or resume the campaign of these sections on the log of this label, as `batfill campaign` does.

    All campaigns of a paper on one log share a folder: runs finished by one are not repeated by the same code.
    """
    path = context.logs[label]
    text = yaml.safe_dump({"workloads": [{"file": str(path.resolve()), "overrun": overrun}], **content})
    folder = context.folder / "campaigns" / f"{digest(path)[:16]}-{code_of(run_campaign)[:8]}"
    make_folder(folder)
    write_text(folder / "campaign.yaml", text)
    done = run_campaign(read_campaign(folder / "campaign.yaml"), folder, bar=context.bar, say=lambda _: None)
    return Grid(label, folder, pq.read_table(done.results).to_pylist())


def longest_request_s(path: Path) -> float:
    """The largest requested time in a log, in seconds."""
    return float(load_log(path)["requested_s"].max())
