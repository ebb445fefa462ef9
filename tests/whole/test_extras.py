"""What the core does alone, and what each command says if the extra that it needs is not installed."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from contextlib import chdir
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

import batfill
from batfill.base.errors import MissingExtra, optional
from command import batfill as in_process
from swf_text import row

ROOT = Path(__file__).parents[2]
INSTALLED = Path(batfill.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OF_DEVELOPERS = {"test-core", "test", "docs", "dev"}

# Blocks the import of everything outside the core in each Python process that has its folder on PYTHONPATH.
BLOCKER = """\
import sys

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
"""
DESCRIPTOR = """\
batcmd: ${BATSIM:-batsim} -p platform.xml -w sample.json -e FOLDER/out -s tcp://localhost:PORT -v quiet
output-dir: FOLDER
schedcmd: SCHEDULER
simulation-timeout: 100
ready-timeout: 20
success-timeout: 20
failure-timeout: 5
"""


def name_of(requirement: str) -> str:
    """The library that a requirement names, in lower case."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


@cache
def closure() -> set[str]:
    """The libraries that the core installs, with theirs."""
    found: set[str] = set()
    left = [name_of(requirement) for requirement in PROJECT["dependencies"]]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            try:
                needed = requires(name) or []
            except PackageNotFoundError:  # for another Python or system
                continue
            left += [name_of(one) for one in needed if "extra ==" not in one]
    return found


def absent() -> set[str]:
    """Every module here that the core does not install."""
    core = closure() | {"batfill", "pip", "setuptools"}
    return {
        module
        for module, libraries in packages_distributions().items()
        if not core & {name_of(library) for library in libraries} and module.isidentifier()
    }


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """A function to what a program prints with the core alone, in a folder with a log and descriptors."""
    blocker, folder = tmp_path_factory.mktemp("blocker"), tmp_path_factory.mktemp("core")
    (blocker / "sitecustomize.py").write_text(BLOCKER.format(absent=absent()))
    path = os.pathsep.join([str(blocker), str(INSTALLED)])

    # Not the PATH of this environment: it has a pybatsim.
    environment = {**os.environ, "PATH": os.defpath, "PYTHONPATH": path, "BATFILL_CACHE": str(folder / "cache")}

    def printed(program: str) -> str:
        (folder / "program.py").write_text(program)
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with chdir(folder):
        for words in (
            "workload generate --jobs 300 --procs 16 --seed 3 --out log.swf",
            "workload convert log.swf --out sample.json",
            "platform 16 --out platform.xml",
            "replay log.swf --policy saf --out run/out",
        ):
            assert in_process(*words.split()).status == 0
    (folder / "grid").mkdir()
    waits = "".join(row(k, k, 9, req_time=9, wait=k) for k in range(1, 99))
    texts = {
        "grid/runs.parquet": "PAR1",
        "slurm.conf": "NodeName=n[1-4] CPUs=2\nPartitionName=main Nodes=ALL\n",
        "site.txt": (
            "JobID|Partition|Submit|Start|End|AllocCPUS|State\n7|main|1700000000|1700000001|1700000002|2|COMPLETED\n"
        ),
        "jobs.txt": "JobID|Submit|Start|End|AllocCPUS|State\n7|1700000000|1700000001|1700000002|4|COMPLETED\n",
        "waits.swf": f"; MaxProcs: 4\n{waits}",
        "campaign.yaml": "workloads:\n- file: log.swf\npolicies: [fcfs, saf]\n",
    }
    for name, port, command in (
        ("pybatsim", "28712", "pybatsim batfill/scheduler"),
        ("schedule", "28713", "batfill schedule"),
    ):
        text = DESCRIPTOR.replace("SCHEDULER", f"{command} -s tcp://*:PORT")
        texts[f"{name}.yaml"] = text.replace("FOLDER", name).replace("PORT", port)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return printed


# Words of each command, and the extra that it needs; None for those that the core does.
CASES = [
    ("run pybatsim.yaml --simulator embedded", "pybatsim"),
    ("run schedule.yaml --simulator embedded", None),
    ("replay log.swf --policy saf --threshold 20h", None),
    ("replay log.swf --predict easy++", None),
    ("replay log.swf --small forest", "learn"),
    ("batsim --version", None),
    ("policies", None),
    ("platform 4", None),
    ("workload describe log.swf", None),
    ("workload split log.swf --days 7 --out weeks", None),
    ("workload import slurm jobs.txt --out imported.swf", None),
    ("replay jobs.txt --unrequested runtime", None),
    ("tune log.swf --points 6 --days 1 --last 1", None),
    ("tune log.swf --method xnes --evaluations 20 --days 1 --last 1", "tune"),
    ("fit log.swf --tuples 2 --permutations 256", None),
    ("select log.swf --period 1d", None),
    ("fidelity waits.swf", None),
    ("fidelity site.txt --slurm-conf slurm.conf", None),
    ("campaign campaign.yaml", "campaign"),
    ("reproduce --list", "all"),
    ("report run", None),
    ("report grid", "campaign"),
    ("report run --figures pdf", "report"),
    ("what-if log.swf", None),
    ("what-if site.txt --slurm-conf slurm.conf --set bf_interval=60 --out changes.html", None),
    ("when log.swf --at 1000", None),
    ("when site.txt --slurm-conf slurm.conf", None),
]


# Each command in a process of its own, which begins with the engine loaded: loading it takes most of a command's time.
COMMANDS_PROGRAM = """\
import io, json, os, sys, traceback
from contextlib import redirect_stdout, suppress
from batfill.cli import main

with suppress(SystemExit), redirect_stdout(io.StringIO()):
    main(["replay", "log.swf"])
ended = {{}}
for words in {all_words!r}:
    if (child := os.fork()) == 0:
        status = 70
        try:
            for number, name in ((1, "said.out"), (2, "said.err")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            main(words.split())
        except SystemExit as exit:
            status = exit.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended[words] = status, *(open(name).read() for name in ("said.out", "said.err"))
print(json.dumps(ended))
"""


def complaint(status, out, err, extra):
    """What is wrong with how a command ended that needs this extra; None if nothing is."""
    if extra is None:
        return None if status == 0 and "not installed" not in err else f"status {status}: {err}"
    lines = [line for line in err.splitlines() if "warning" not in line and "compiling" not in line]
    needed = rf"batfill: .*not installed: pip install 'batfill\[{extra}\]'"
    named = (status, out, len(lines)) == (2, "", 1) and re.fullmatch(needed, lines[0])
    return None if named else f"status {status}: {out}{err}"


@pytest.mark.slow
def test_with_the_core_alone_a_command_works_or_names_the_extra_that_it_needs(core):
    ended = json.loads(core(COMMANDS_PROGRAM.format(all_words=[words for words, _ in CASES])))
    wrong = {words: said for words, extra in CASES if (said := complaint(*ended[words], extra))}
    assert not wrong


# The public functions of Python on a log and two results, and the extra that each needs.
CALLS = {
    "read": ("bf.read('log.swf')", None),
    "generate": ("bf.generate(10, 4, seed=1)", None),
    "replay": ("saf._repr_html_()", None),
    "replay_many": ("bf.replay_many(log, ['fcfs', 'saf'])", "tables"),
    "compare": ("bf.compare(fcfs, saf)", "tables"),
    "to_pandas": ("saf.to_pandas()", "tables"),
    "to_arrow": ("saf.to_arrow()", "tables"),
    "to_batsim": ("saf.to_batsim('python/out')", None),
    "when": ("bf.when(bf.Replay(log))", None),
    "tune": ("bf.tune(log, points=6, days=1, last=(1,))", None),
    "fit": ("bf.fit(log, tuples=2, permutations=256)", None),
    "select": ("bf.select(log)", None),
    "fidelity": ("bf.fidelity('waits.swf')", None),
    "what_if": ("bf.what_if(log)", None),
    "slurm": ("bf.slurm('site.txt', 'slurm.conf', ['bf_interval=60'])._repr_html_", None),
    "report": ("bf.report(fcfs, saf, out='both.html'), bf.report('run/out')", None),
    "campaign": ("bf.campaign('campaign.yaml')", "campaign"),
    "write": ("bf.write(log, 'written.swf')", None),
    "to_csv": ("saf.to_csv('saf.csv'), log.to_dict(), saf.describe()._repr_html_(), saf[0], list(log)", None),
    "plot": ("saf.plot()", "report"),
    "help": ("import_module('pydoc').render_doc(bf)", None),
    "getmembers": ("import_module('inspect').getmembers(bf)", None),
    "env": ("import_module('batfill_lab.env').SchedulingEnv", "rl"),
}
PROGRAM = """\
from importlib import import_module

import batfill as bf
from batfill.base.errors import MissingExtra

if __name__ == "__main__":
    log = bf.read("log.swf")
    fcfs, saf = bf.replay(log, "fcfs"), bf.replay(log, "saf")
    for name, call in {calls!r}.items():
        try:
            eval(call)
            print(name, "works")
        except MissingExtra as error:
            print(name, error)
"""


def test_with_the_core_alone_a_python_function_works_or_names_the_extra_that_it_needs(core):
    functions = {name for name, _ in inspect.getmembers(batfill, inspect.isfunction)}
    assert functions - {"job_table"} <= CALLS.keys()
    printed = core(PROGRAM.format(calls={name: call for name, (call, _) in CALLS.items()}))
    said = dict(line.split(" ", 1) for line in printed.splitlines())
    for name, (_, extra) in CALLS.items():
        assert said[name].endswith("works" if extra is None else f"pip install 'batfill[{extra}]'"), said[name]


@cache
def brought_by(extra: str) -> set[str]:
    """The libraries of an extra, with those of the extras that it names."""
    found: set[str] = set()
    for requirement in EXTRAS[extra]:
        if name_of(requirement) == "batfill":
            found.update(*map(brought_by, re.search(r"\[([\w,-]+)\]", requirement)[1].split(",")))
        else:
            found.add(name_of(requirement))
    return found


def test_the_page_lists_every_extra_with_its_libraries():
    page = (ROOT / "docs/how-to/install.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \|.*\| ([\w, -]*) ?\|$", page, re.MULTILINE))
    assert rows.keys() == EXTRAS.keys() - OF_DEVELOPERS
    for extra in rows.keys() - {"all"}:
        assert set(rows[extra].strip().split(", ")) == brought_by(extra), extra


def test_a_library_that_lacks_one_of_its_own_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_library_of_its_own\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library_of_its_own") as caught:
        optional("half_installed", "tables")
    assert not isinstance(caught.value, MissingExtra)
