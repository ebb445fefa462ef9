"""What docstrings say of the code: their examples run, and the names in backquotes are there."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSES = ("batfill", "batfill_pages", "batfill_site", "batfill_lab")
SOURCES = {
    **{path: path.relative_to(ROOT / "schedulers") for path in sorted((ROOT / "schedulers").rglob("*.py"))},
    **{path: path.relative_to(ROOT) for path in sorted((ROOT / "studies").rglob("*.py"))},
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
NAME = re.compile(r"_*[A-Za-z]\w*(?:\.\w+)*")
OPTIONAL = ("gymnasium", "zmq")  # libraries that may not be installed
FILE = re.compile(r".*\.(py|pyi|js|css|csv|json|html|toml|so|yaml|md|parquet|jsonl)")


def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    return ".".join(SOURCES[path].with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def documented(path: Path):
    """(line, docstring) of a file, its classes and functions."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node, clean=False)):
            yield node.body[0].lineno, text


WITH_EXAMPLES = [module_of(path) for path in SOURCES if any(">>> " in text for _, text in documented(path))]


@pytest.mark.needs("pandas", "sklearn", "gymnasium")
@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_in_docstrings_hold(module, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS).failed == 0


@cache
def names_in_code() -> frozenset[str]:
    """Every name that the code defines, reads or takes as an argument, and the words of its texts but docstrings."""
    names = set(dir(builtins))
    for path in SOURCES:
        tree = tree_of(path)
        nodes = [
            node for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None
        ]
        docstrings = {id(node.body[0].value) for node in nodes}
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                    names.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Constant(value=str() | bytes() as text) if id(node) not in docstrings:
                    names |= set(re.findall(r"\w+", text if isinstance(text, str) else text.decode("latin-1")))
        names |= set(SOURCES[path].with_suffix("").parts)
    return frozenset(names)


@cache
def variables(path: Path) -> frozenset[str]:
    """The names of arguments and variables of a file."""
    nodes = list(ast.walk(tree_of(path)))
    return frozenset(node.arg for node in nodes if isinstance(node, ast.arg)) | {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


@cache
def modules() -> dict[str, list[str]]:
    """The modules of the project by each end of their dotted names."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        parts = module_of(path).split(".")
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), []).append(module_of(path))
    return found


@cache
def members(module: str) -> frozenset[str]:
    """What a module of the project defines, imports and lists, and its own modules."""
    (path,) = [path for path in SOURCES if module_of(path) == module]
    names = {child.stem for child in path.parent.iterdir()} if path.name == "__init__.py" else set()
    stub = path.with_suffix(".pyi")
    for node in [*ast.walk(tree_of(path)), *(ast.walk(tree_of(stub)) if stub.exists() else ())]:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name for alias in aliases}
            case ast.Constant(value=str(text)):  # which lists what loads when it is used
                names |= set(text.split())
    return frozenset(names)


@cache
def attributes() -> dict[str, frozenset[str]]:
    """The attributes of each class of the project, with those of its bases."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found = own.setdefault(node.name, set())
                bases.setdefault(node.name, set()).update(ast.unparse(base).split("[")[0] for base in node.bases)
                for inner in ast.walk(node):
                    match inner:
                        case ast.FunctionDef(name=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                            found.add(name)
                        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Store()):
                            found.add(name)

    def all_of(name: str) -> frozenset[str]:
        return frozenset(own.get(name, ())).union(*(all_of(base) for base in bases.get(name, ()) if base != name))

    return {name: all_of(name) for name in own}


def is_there(name: str, path: Path) -> bool:
    """Whether a name in backquotes in this file is a member of a module or class, or a column of a variable there."""
    first, _, last = name.rpartition(".")
    if not first or (first in variables(path) and last.islower()):  # such as `events.starts` of a kernel's argument
        return last in names_in_code()
    if name in modules() or any(last in members(module) for module in modules().get(first, ())):
        return True
    if (of := first.rpartition(".")[2]) in attributes():
        return last in attributes()[of]
    library = name.partition(".")[0]
    return first not in modules() and library not in HOUSES and (library in OPTIONAL or find_spec(library) is not None)


@pytest.mark.parametrize("house", [*HOUSES, "studies"])
def test_names_in_backquotes_are_there(house):
    missing = [
        f"{SOURCES[path]}:{line}: `{name}`"
        for path in SOURCES
        if SOURCES[path].parts[0] == house
        for line, text in documented(path)
        for name in (span.removesuffix("()") for span in re.findall(r"`([^`\n]+)`", text))
        if NAME.fullmatch(name) and not FILE.fullmatch(name) and not is_there(name, path)
    ]
    assert missing == []


def test_a_name_that_is_gone_would_be_noticed():
    here = ROOT / "schedulers/batfill/queue.py"
    for gone in ("search.classify", "engine.Forks", "Queue.no_such_method", "no_such_function", "batfill.nothing_here"):
        assert not is_there(gone, here), gone
    for there in ("engine.loop.advance", "Queue.adopt", "replay", "batfill.base.words", "Jobs.columns"):
        assert is_there(there, here), there
