"""What the papers' computations are written with: figures, charts and verdicts; parameters; what is kept; campaigns."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

import numpy as np
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray
from pydantic import create_model

from batfill import __version__
from batfill.campaigns.config import read_campaign
from batfill.campaigns.run import run_campaign
from batfill.campaigns.sections import Section
from batfill.errors import BatfillError
from batfill.files import digest, make_folder, raw_file, write_text
from batfill.processes import Bar
from batfill.tuning.results import as_json
from batfill.workloads.formats import load_log

PACKAGE = Path(__file__).parents[1]
HERE = "batfill.papers"

Result = TypeVar("Result")
Value = float | None  # None where it cannot be known
Array = NDArray[np.float64]
ChartKind = Literal["lines", "points", "bands", "boxes", "shares", "map"]
PERCENTILES = (5, 25, 50, 75, 95)


# What an entry comes to


@dataclass(frozen=True, slots=True)
class Table:
    """Our figures: `values[i][k]` is that of `rows[i]` and `columns[k]`, under the labels of the published table."""

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    choice: str = ""  # what was taken where the paper leaves it open; tables of several choices stand side by side

    @classmethod
    def of_columns(cls, columns: Mapping[str, Iterable[Value]], rows: Iterable[str], choice: str = "") -> Table:
        """The table of these columns, which have a value for every row."""
        return cls(tuple(columns), tuple(rows), tuple(zip(*columns.values(), strict=True)), choice)

    @classmethod
    def of_rows(cls, columns: Iterable[str], rows: Mapping[str, Iterable[Value]], choice: str = "") -> Table:
        """The table of these rows, which have a value for every column."""
        return cls(tuple(columns), tuple(rows), tuple(map(tuple, rows.values())), choice)

    def value(self, row: str, column: str) -> Value:
        """Our figure; None where there is none."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.values[self.rows.index(row)][self.columns.index(column)]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something that the paper says was seen, and the figures that show it."""

    holds: bool
    evidence: str

    @classmethod
    def of(cls, values: Mapping[str, float], holds: Callable[[float], bool], words: str) -> Verdict:
        """Whether it holds for the value of every log; the words have a place for a value."""
        return cls(all(holds(value) for value in values.values()), listed(values, f": {words}"))

    @classmethod
    def unless(cls, exceptions: Sequence[str], otherwise: str, between: str = "; ") -> Verdict:
        """Whether there is no exception; what is said then."""
        return cls(not exceptions, f"not so: {between.join(exceptions)}" if exceptions else otherwise)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure as the table that it is drawn from.

    lines, points   the first column is x, every other one a series
    bands           the same with three columns to a series: its value, the least and the most
    shares          the first column names a bar, the others are its parts, stacked
    boxes           a name, then the 5th, 25th, 50th, 75th and 95th percentile
    map             x, y, value: a point each, light where the value is low
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
    """Everything an entry came to. Equal inputs give equal outcomes: no dates and no timings."""

    tables: tuple[Table, ...] = ()
    verdicts: dict[str, Verdict] = field(default_factory=dict)  # by the keys that an entry's `says:` may have
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know of this very run: rows left out, values that were derived

    def as_dict(self) -> dict[str, Any]:
        """For result files; `of_dict` reads it back."""
        return asdict(self)

    @classmethod
    def of_dict(cls, stored: dict[str, Any]) -> Outcome:
        """The outcome that `as_dict` made this of, after a trip through JSON."""

        def rows_of(given: Any) -> tuple[tuple[Any, ...], ...]:
            return tuple(tuple(row) for row in given)

        return cls(
            tables=tuple(
                Table(tuple(t["columns"]), tuple(t["rows"]), rows_of(t["values"]), t["choice"])
                for t in stored["tables"]
            ),
            verdicts={name: Verdict(**v) for name, v in stored["verdicts"].items()},
            charts=tuple(
                Chart(**{**c, "head": tuple(c["head"]), "rows": rows_of(c["rows"])}) for c in stored["charts"]
            ),
            notes=tuple(stored["notes"]),
        )


def listed(values: Mapping[str, Any], words: str = " {}", between: str = ", ") -> str:
    """Every label with its value; the words have a place for one value, or for each of a tuple's."""
    each = ((label, value if isinstance(value, tuple) else (value,)) for label, value in values.items())
    return between.join(f"{label}{words.format(*value)}" for label, value in each)


def chart_of_boxes(
    name: str, samples: Mapping[str, NDArray[Any] | Sequence[float]], *, of: str = "of", y: str, log_y: bool = False
) -> Chart:
    """A box for each of these samples, by what they are called."""
    rows = tuple((label, *np.percentile(values, PERCENTILES).tolist()) for label, values in samples.items())
    return Chart(name, "boxes", (of, *(f"p{share}" for share in PERCENTILES)), rows, y=y, log_y=log_y)


# What computes it


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one computation."""

    logs: dict[str, Path]  # by the entry's labels (columns or rows of its table), in its order; never empty
    folder: Path  # shared by the entries of a paper: campaigns are kept there, and resumed
    bar: Bar  # bar("weeks", 100) makes a progress bar: a context that gives a function to move it on


class Computation(NamedTuple):
    """How an entry is computed."""

    parameters: type[Section]
    compute: Callable[[Context, Any], Outcome]
    function: Callable[..., Outcome]  # as it was written


def computation(function: Callable[..., Outcome]) -> Computation:
    """The function as what an entry may name: `job_sizes` is "job-sizes" there.

    It takes the context, a section `how` of the parameters that it shares with others, if any, and its own by
    keyword. An entry's `parameters:` has all of them, and their types are checked there.
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


# What is kept


def kept(folder: Path, kind: str, key: dict[str, Any], by: Callable[..., Any], make: Callable[[], Any]) -> Any:
    """What `make` gives, an array or a mapping as JSON has it: from the file that holds it, or made and put there.

    Args:
        folder: of the paper.
        kind: what it is; files of a kind lie together.
        key: all of the input that it depends on.
        by: the function that makes it: it is made again if any code has changed that this reaches.
        make: gives it.

    Raises:
        BatfillError: the file that should hold it does not.
    """
    whole = {**key, "version": __version__, "code": code_of(by)}
    path = folder / kind / identity_of(whole)[:32]
    text, array = path.with_suffix(".json"), path.with_suffix(".npy")
    if not text.is_file() and not array.is_file():
        made = make()
        make_folder(path.parent)
        if isinstance(made, np.ndarray):
            with raw_file(array) as stream:
                np.save(stream, made)
            return made
        write_text(text, as_json({"of": whole, "is": made}) + "\n")
    if array.is_file():
        return read_kept(array, lambda stored: np.load(stored, allow_pickle=False))
    return read_kept(text, lambda stored: json.loads(stored.read_bytes())["is"])


def read_kept(path: Path, read: Callable[[Path], Result], what: str = "kept") -> Result:
    """What is read from the file.

    Raises:
        BatfillError: it holds something else.
    """
    try:
        return read(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BatfillError(f"{path}: not a {what} result ({error}); remove it") from None


def identity_of(key: dict[str, Any]) -> str:
    """A digest of what a result depends on, hexadecimal."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def code_of(function: Callable[..., Any], package: Path = PACKAGE) -> str:
    """A digest of the code of batfill that decides what the function gives, hexadecimal.

    In this folder that is every definition that it reaches by name. The other modules count whole: those that these
    definitions import, those that they import in turn, and so on. Comments in this folder do not count.
    """
    found: dict[tuple[str, str], str] = {}
    files: set[Path] = set()
    todo = [(function.__module__, function.__qualname__.partition(".")[0])]
    while todo:
        module, name = todo.pop()
        if (module, name) in found:
            continue
        if not f"{module}.".startswith(f"{HERE}."):
            files |= files_behind(package, module, name)
            continue
        path = package.parent.joinpath(*module.split(".")).with_suffix(".py")
        definition = definitions(path).get(name)
        if definition is not None:
            found[module, name] = ast.unparse(definition)
            used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
            todo += [(module, each) for each in used]
            todo += [(source, what) for bound, source, what in imports(path) if bound in used]
    code = hashlib.sha256(json.dumps(sorted(found.items())).encode())
    for path in sorted(files):
        code.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return code.hexdigest()


def files_behind(package: Path, module: str, name: str) -> set[Path]:
    """The files of batfill that are loaded for this name of a module, directly or for another."""
    todo, found = set(sources_of(package, module, name)), set[Path]()
    while todo:
        path = todo.pop()
        found.add(path)
        todo |= {each for _, *source in imports(path) for each in sources_of(package, *source)} - found
    return found


@cache
def sources_of(package: Path, module: str, name: str) -> tuple[Path, ...]:
    """Where a name of a module comes from; all of a folder if that loads its names on demand."""
    base = package.parent.joinpath(*module.split("."))
    for path in ((base / name).with_suffix(".py"), base.with_suffix(".py")):
        if path.is_file():
            return (path,)
    own = base / name / "__init__.py"
    if own.is_file():
        on_demand = "__getattr__" in definitions(own)
    else:
        own = base / "__init__.py"
        on_demand = name not in definitions(own) and name not in (bound for bound, *_ in imports(own))
    return tuple(own.parent.glob("*.py")) if on_demand else (own,)


@cache
def definitions(path: Path) -> dict[str, ast.stmt]:
    """The functions, classes and constants of a module."""
    found: dict[str, ast.stmt] = {}
    for statement in tree_of(path).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = (node for target in targets for node in ast.walk(target))
            found |= {node.id: statement for node in names if isinstance(node, ast.Name)}
    return found


@cache
def imports(path: Path) -> tuple[tuple[str, str, str], ...]:
    """What a module imports of batfill to run, anywhere in it: a name, and what that is of which module."""

    def under(node: ast.AST) -> Iterator[ast.ImportFrom]:
        if isinstance(node, ast.ImportFrom):
            yield node
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in () if typing_only else ast.iter_child_nodes(node):
            yield from under(child)

    return tuple(
        (alias.asname or alias.name, node.module, alias.name)
        for node in under(tree_of(path))
        if node.module and node.module.split(".")[0] == "batfill"
        for alias in node.names
    )


@cache
def tree_of(path: Path) -> ast.Module:
    """The module's syntax."""
    return ast.parse(path.read_bytes())


# Campaigns


class Grid(NamedTuple):
    """The runs of a campaign: a row of figures each, and their jobs where the campaign keeps them."""

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
    """The campaign of these sections on the log of this label, written, run and resumed as `batfill campaign` does.

    All campaigns of a paper on one log share a folder: runs that any of them has finished are not run again by the same
    code.
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
