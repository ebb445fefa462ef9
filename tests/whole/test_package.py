"""What is installed: four packages that import one way, their type marker, and a scheduler that pybatsim 3 finds."""

from __future__ import annotations

import ast
import platform
import re
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

import batfill
from batfill.base.doors import DOORS, door
from swf_text import row

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, open."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_the_houses_at_its_top(wheel):
    """Above all nothing called `schedulers`: it would overwrite pybatsim's."""
    top = {name.partition("/")[0] for name in wheel.namelist()}
    assert top == {*HOUSES, f"batfill-{batfill.__version__}.dist-info"}


def test_the_wheel_holds_every_module_and_the_type_marker(wheel):
    source = ROOT / "schedulers"
    modules = {str(path.relative_to(source)) for kind in ("*.py", "*.j2") for path in source.rglob(kind)}
    assert modules | {"batfill/py.typed"} <= set(wheel.namelist())


def test_the_wheel_holds_the_compiled_kernels_for_one_kind_of_machine_and_every_python(wheel):
    libraries = {name for name in wheel.namelist() if name.endswith(".so")}
    assert libraries == {"batfill/kernels.so"}
    (about,) = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
    assert "Root-Is-Purelib: false\n" in about
    assert f"Tag: py3-none-manylinux_2_17_{platform.machine()}\n" in about


@pytest.mark.needs("batsim")
def test_pybatsim_3_finds_the_scheduler_by_module_path():
    from batsim.tools.launcher import instanciate_scheduler

    from batfill.scheduler import Scheduler

    scheduler = instanciate_scheduler("batfill/scheduler", {"policy": "saf"})
    assert type(scheduler) is Scheduler
    assert scheduler.agent.chosen.policy.name == "saf"


ARCHITECTURE = ROOT / "docs" / "background" / "architecture.md"


def test_help_loads_no_library_that_is_slow_to_import():
    slow = {"numpy", "numba", "pandas", "zmq", "pydantic", "matplotlib", "scipy"}
    program = f"import sys, batfill.cli.app, batfill.cli.replay; print(*({slow} & sys.modules.keys()))"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout.strip() == ""


@pytest.mark.parametrize("words", ["replay", "workload describe", "fit --tuples 2 --permutations 256"])
def test_commands_that_call_kernels_load_neither_a_compiler_nor_scipys_linear_algebra(tmp_path, words):
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 4\n" + "".join(row(number, number, 10, req_time=20) for number in range(1, 60)))
    program = (
        "import atexit, sys; from batfill.cli import main\n"
        "atexit.register(lambda: print({'numba', 'llvmlite', 'scipy.linalg'} & sys.modules.keys()))\n"
        f"main({[*words.split(), str(log)]})"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=300)
    assert said.stdout.splitlines()[-1] == "set()"


def test_the_page_in_a_browser_loads_no_library_of_what_speaks_to_batsim(tmp_path):
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['msgspec', 'tqdm', 'zmq']))\n"
        f"sys.path.insert(0, {str(ROOT / 'schedulers' / 'batfill_pages' / 'browser')!r}); import inside, pathlib\n"
        f"inside.FOLDER = pathlib.Path({str(tmp_path)!r})\n"
        "log = inside.call('take', 'sample.json', '', 'refuse')['log']\n"
        "print(len(inside.call('orders', log, '', 'refuse')['rows']))\n"
        "print(*(inside.call('page', one, log, '', 'refuse', '1', '')['name'] for one in ('what-if', 'comparison')))"
    )
    (tmp_path / "sample.json").write_bytes((ROOT / "workloads" / "sample.json").read_bytes())
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=300)
    assert said.stdout.splitlines() == ["5", "what-if.html comparison.html"]


def test_the_command_and_the_module_are_the_same_program():
    script = Path(sys.executable).with_name("batfill")
    for command in ([str(script)], [sys.executable, "-m", "batfill"]):
        done = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == (f"batfill {batfill.__version__}\n", "")


def printed(kind):
    """A table of the page on the architecture: the rows of folders and what they may import."""
    section = re.split(r"^## ", ARCHITECTURE.read_text(), flags=re.MULTILINE)[kind]
    rows = re.findall(r"^\| `(\w+)/?(?:\.py)?` \|.*\| ([\w ,-]+) \|$", section, re.MULTILINE)
    return {name: others.replace(",", "").replace("-", "") for name, others in rows}


HOUSES, ROOMS = printed(1), printed(2)  # what each house may import of the others, and each room of the core
SOURCE = ROOT / "schedulers"
PACKAGE = SOURCE / "batfill"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for house in HOUSES
    for path in (SOURCE / house).rglob("*.py")
}


@cache
def imports_of(path):
    """The statements of import of a file: at its top, inside functions, and for types."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))]


def taken(path):
    """(module, name) of everything of the houses that a file imports."""
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole, "") if whole in FILES else (node.module, alias.name)


def imported(path):
    """The files of the houses that a file imports."""
    return {FILES[module] for module, _ in taken(path)} - {path}


def house_of(path):
    return path.relative_to(SOURCE).parts[0]


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_a_house_imports_only_what_it_may_and_needs_all_of_that():
    found = {house: set() for house in HOUSES}
    for path in FILES.values():
        found[house_of(path)] |= {house_of(other) for other in imported(path)} - {house_of(path)}
    assert found == {house: set(others.split()) for house, others in HOUSES.items()}


def test_a_houses_tests_import_only_what_it_may():
    for house, may in HOUSES.items():
        allowed = {house, *may.split()}
        for path in (ROOT / "tests" / (house.removeprefix("batfill_") if "_" in house else "core")).glob("*.py"):
            names = {node.module for node in imports_of(path) if isinstance(node, ast.ImportFrom)}
            names |= {alias.name for node in imports_of(path) if isinstance(node, ast.Import) for alias in node.names}
            tops = {name.partition(".")[0] for name in names if name}
            assert not tops & {*HOUSES, "studies"} - allowed, path.name


def test_every_door_leads_to_a_function():
    assert all(callable(door(name)) for name in DOORS)


def test_a_room_imports_only_what_it_may_and_needs_all_of_that():
    found = {room: set() for room in ROOMS}
    for path in FILES.values():
        if house_of(path) == "batfill" and room_of(path) not in ("__init__", "__main__"):
            found[room_of(path)] |= {room_of(other) for other in imported(path)} - {room_of(path)}
    assert found == {room: set(others.split()) for room, others in ROOMS.items()}


def test_no_file_imports_one_that_imports_it():
    left = {path: set(imported(path)) for path in FILES.values()}
    while free := [path for path, needs in left.items() if not needs & left.keys()]:
        for path in free:
            del left[path]
    assert [str(path.relative_to(SOURCE)) for path in left] == []
