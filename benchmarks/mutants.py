"""Which share of random small mistakes the tests catch, in the engine, the hosts, the protocols and the readers.

    python benchmarks/mutants.py reach --state before/              # which tests reach which lines, uncompiled
    python benchmarks/mutants.py run --state before/ --minutes 100  # goes on where it stopped
    python benchmarks/mutants.py show --state before/

A mutant is one changed operator, constant, condition or left-out statement in a copy of the tree. Of the tests only
those that reach its line are run, as plain Python, until one fails. The seed decides which mutants there are.

All tests take hours to reach their lines. A part of them answers for a part of the package in minutes:

    python benchmarks/mutants.py reach --state part/ --tests tests/core/test_swf.py --longest 5
    python benchmarks/mutants.py run --state part/ --subjects batfill/workloads --count 40
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = "schedulers"
HOUSES = ("batfill", "batfill_pages", "batfill_site", "batfill_lab")
# Rooms and files that decide what starts when, what is read, and what is reported of it.
SUBJECTS = (
    "batfill/engine", "batfill/queue.py", "batfill/replays", "batfill/live", "batfill/simulator/wire.py",
    "batfill/protocol", "batfill/simulator/simulation.py",
    "batfill/batsim_files/machines.py", "batfill/workloads", "batfill/model/metrics.py", "batfill/model/policy.py",
    "batfill_site/accounting", "batfill_lab/env/deciding.py",
)  # fmt: skip
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
LONGEST_S = 300.0  # of a mutant's tests: one that takes longer hangs, and is caught
MOST_TESTS = 60  # of those that reach a line, see `in_order`


def sites(tree: ast.Module) -> list[tuple[int, str, ast.AST]]:
    """(line, kind, node) of everything in a module's functions that a mutant may change."""
    found: list[tuple[int, str, ast.AST]] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
                found.append((node.lineno, "comparison", node))
            elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
                found.append((node.lineno, "arithmetic", node))
            elif isinstance(node, ast.BoolOp):
                found.append((node.lineno, "and or", node))
            elif isinstance(node, ast.If | ast.While | ast.IfExp):
                found.append((node.test.lineno, "condition", node))
            elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
                found.append((node.lineno, "constant", node))
            elif isinstance(node, ast.Assign | ast.AugAssign) or (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            ):
                found.append((node.lineno, "left out", node))
    unique = {(line, kind, node.col_offset): (line, kind, node) for line, kind, node in found}  # type: ignore[attr-defined]
    return [unique[key] for key in sorted(unique)]


def mutated(text: str, number: int) -> tuple[str, int, str]:
    """The module with its site of this number changed, the site's line, and the kind of change."""
    tree = ast.parse(text)
    line, kind, node = sites(tree)[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]
    else:
        replace_with_pass(tree, node)
    return ast.unparse(ast.fix_missing_locations(tree)), line, kind


def replace_with_pass(tree: ast.Module, node: ast.AST) -> None:
    """Put `pass` in the place of a statement."""
    for parent in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(parent, field, None)
            if isinstance(block, list) and node in block:
                block[block.index(node)] = ast.copy_location(ast.Pass(), node)
                return


def chosen(tree: Path, subjects: list[str], seed: int, count: int) -> list[tuple[str, int]]:
    """(file, number of the site) of the mutants."""
    package = tree / SOURCE
    files = [file for name in subjects for file in sorted([package / name, *(package / name).rglob("*.py")])]
    pool = [
        (str(file.relative_to(tree)), number)
        for file in dict.fromkeys(file for file in files if file.suffix == ".py" and file.is_file())
        for number in range(len(sites(ast.parse(file.read_text()))))
    ]
    return random.Random(seed).sample(pool, min(count, len(pool)))


def environment(tree: Path, **more: str) -> dict[str, str]:
    """The environment of a test run on this tree, uncompiled; pytest finds this file as a plug-in."""
    logs = os.environ.get("BATFILL_TRACES") or next((str(place) for place in ROOT.parent.glob("*/traces")), "")
    paths = os.pathsep.join([str(tree / "schedulers"), str(Path(__file__).parent)])
    place = {"PYTHONPATH": paths, "BATFILL_TRACES": logs}
    return {**os.environ, "BATFILL_PLAIN": "1", "BATFILL_EXAMPLES": "1", **place, **more}


# As a plug-in of pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> object:
    """End a test that takes too long."""

    def end(number: int, frame: object) -> None:
        raise TimeoutError("takes longer than --longest")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, float(os.environ["MUTANTS_LONGEST_S"]))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that passed, with its seconds."""
    if report.when == "call" and report.passed and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ["MUTANTS_PASSED"]).open("a") as file:
            file.write(json.dumps([report.nodeid, report.duration]) + "\n")


# The three commands


def reach(tree: Path, state: Path, tests: list[str], longest_s: float) -> None:
    """Record which tests reach which lines, and how long each takes; one that fails or takes too long is left out."""
    state.mkdir(parents=True, exist_ok=True)
    options = ["-p", "mutants", "-n", "2", "--dist", "worksteal", "-m", "not slow and not compiled"]
    coverage = [*(f"--cov={house}" for house in HOUSES), "--cov-config=", "--cov-context=test", "--cov-report="]
    places = {"COVERAGE_FILE": "coverage", "MUTANTS_PASSED": "passed.jsonl"}
    places = {name: str((state / file).absolute()) for name, file in places.items()}
    done = subprocess.run(
        [*PYTEST, *options, *coverage, *tests],
        cwd=tree,
        env=environment(tree, MUTANTS_LONGEST_S=str(longest_s), **places),
        check=False,
    )
    print(f"pytest ended with {done.returncode}; lines and tests are in {state}")


Reached = dict[str, dict[int, list[str]]]  # each file's lines, and the tests that reach them


def tests_of(state: Path, tree: Path, passed: dict[str, float]) -> Reached:
    """What the tests that passed reach."""
    from coverage import CoverageData

    data = CoverageData(str(state / "coverage"))
    data.read()
    found: Reached = {}
    for file in data.measured_files():
        place = Path(file)
        name = str(place.relative_to(tree)) if place.is_relative_to(tree) else file
        contexts = data.contexts_by_lineno(file)
        found[name] = {
            line: sorted({test.partition("|")[0] for test in tests} & passed.keys()) for line, tests in contexts.items()
        }
    return found


def in_order(lines: dict[int, list[str]], line: int, passed: dict[str, float]) -> list[str]:
    """The tests to run for a line of a file with these.

    They come from each file of tests in turn, the quickest first. The files whose tests reach most of the file's lines
    come first: the line is their subject.
    """
    breadth = Counter(test.partition("::")[0] for tests in lines.values() for test in tests)
    turns: defaultdict[str, int] = defaultdict(int)
    ranked = []
    for test in sorted(lines.get(line, []), key=passed.__getitem__):
        file = test.partition("::")[0]
        turns[file] += 1
        ranked.append((turns[file], -breadth[file], test))
    return [test for _, _, test in sorted(ranked)[:MOST_TESTS]]


def run_one(
    tree: Path, file: str, number: int, reached: Reached, passed: dict[str, float], copy: Path
) -> dict[str, object]:
    """Whether a test fails on this mutant."""
    text = (tree / file).read_text()
    changed, line, kind = mutated(text, number)
    tests = in_order(reached.get(file, {}), line, passed)
    outcome = "not reached"
    began_s = time.monotonic()
    if tests:
        (copy / file).write_text(changed)
        try:
            done = subprocess.run(
                [*PYTEST, "-x", "-n", "0", *tests],
                cwd=copy,
                env=environment(copy),
                timeout=LONGEST_S,
                capture_output=True,
                check=False,
            )
            outcome = "caught" if done.returncode else "alive"
        except subprocess.TimeoutExpired:
            outcome = "caught"
        finally:
            (copy / file).write_text(text)
    took_s = round(time.monotonic() - began_s, 1)
    mutant = {"file": file, "site": number, "line": line, "kind": kind}
    return {**mutant, "outcome": outcome, "tests": len(tests), "s": took_s}


def run(tree: Path, state: Path, subjects: list[str], seed: int, count: int, minutes: float) -> None:
    """Try the mutants that have not been tried."""
    log = state / "mutants.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    tried = {(mutant["file"], mutant["site"]) for mutant in done}
    left = [mutant for mutant in chosen(tree, subjects, seed, count) if mutant not in tried]
    passed = dict(json.loads(line) for line in (state / "passed.jsonl").read_text().splitlines())
    reached = tests_of(state, tree, passed)
    deadline = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        copies: Queue[Path] = Queue()
        for number in range(2):
            copies.put(Path(shutil.copytree(tree, Path(folder) / str(number) / "tree", ignore=ignored)))

        def work(mutant: tuple[str, int]) -> dict[str, object] | None:
            if time.monotonic() > deadline:
                return None
            copy = copies.get()
            try:
                return run_one(tree, *mutant, reached, passed, copy)
            finally:
                copies.put(copy)

        for result in pool.map(work, left):
            if result is not None:
                with log.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    show(state)


def ignored(folder: str, names: list[str]) -> list[str]:
    """What a copy of the tree does without."""
    return [
        name for name in names if name in (".venv", ".git", "__pycache__", "site", "dist") or name.startswith(".venv-")
    ]


def show(state: Path) -> None:
    """Print the share that is caught, and what is alive."""
    done = [json.loads(line) for line in (state / "mutants.jsonl").read_text().splitlines()]
    caught = sum(mutant["outcome"] == "caught" for mutant in done)
    print(f"{caught} of {len(done)} mutants are caught ({caught / max(len(done), 1):.1%})")
    for mutant in done:
        if mutant["outcome"] != "caught":
            print(f"{mutant['outcome']:12}{mutant['file']}:{mutant['line']} {mutant['kind']} (site {mutant['site']})")


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reach", "run", "show"])
    parser.add_argument("--state", type=Path, required=True, help="the folder of what was found so far")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to change copies of; default this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--tests", nargs="+", default=[], help="reach: files of tests; default all")
    parser.add_argument("--longest", type=float, default=60, help="reach: seconds after which a test is left out")
    parser.add_argument("--subjects", nargs="+", default=SUBJECTS, help="run: files or folders in schedulers/")
    parser.add_argument("--minutes", type=float, default=100, help="stop after this time; run again to go on")
    arguments = parser.parse_args()
    tree = arguments.tree.absolute()
    if arguments.what == "reach":
        reach(tree, arguments.state, arguments.tests, arguments.longest)
    elif arguments.what == "run":
        run(tree, arguments.state, arguments.subjects, arguments.seed, arguments.count, arguments.minutes)
    else:
        show(arguments.state)


if __name__ == "__main__":
    main()
