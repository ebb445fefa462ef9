"""The documentation says what is true: its blocks run and print what they show, and its command lines parse.

Every fenced block of a shell or of Python runs in a fresh folder with the project's files, page by page from top to
bottom, as a reader would run it. HTML comments on the lines right above a block say what is different about it:

    <!-- before: COMMAND -->      run this first, in the same shell; it stands for what a reader brings, such as a log
    <!-- needs: FILE.swf.gz -->   run where this log is at hand, and skipped elsewhere
    <!-- not run: REASON -->      never run; its `batfill` command lines are parsed, and its files read

A block of Python that shows a prompt, >>>, goes on with the names of the page's earlier ones, and prints what it shows.
"""

from __future__ import annotations

import doctest
import io
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import click
import pytest

pytest.importorskip("batsim")
pytest.importorskip("pydantic")

import batfill
import notebook
from batfill import PLACES
from batfill.base.errors import BatfillError
from batfill.base.words import duration, percent
from batfill.cli import main
from batfill.cli.app import app
from batfill.live.agent import Agent
from batfill.model.options import LIVE, NAMES, OPTIONS, Options
from batfill.model.policy import listing
from batfill.runner.descriptor import read_descriptor
from batfill.scheduler import Scheduler
from batfill.simulator.command_line import parse_arguments as parse_batsim
from batfill.workloads.archive import known_log
from batfill_lab.campaigns.config import read_campaign
from batfill_lab.env.seeing import FEATURES_OF_CLUSTER, FEATURES_OF_JOB
from batfill_lab.online.settings import SELECTION
from batfill_lab.studied import STUDIED
from command import COMPILING
from command import batfill as batfill_command
from studies.papers.protocol import entries_named, folder_of_protocols, read_protocols

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PAGES = [
    *("README.md", "CONTRIBUTING.md", "platforms/README.md"),
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))),
]
LIMIT_S = 300  # of a block, on a busy machine; idle, none takes 20 s
RUN = {"console", "sh", "python"}
READ = {"yaml", "json", "text"}
MARKS = ("before", "needs", "not run")
END = "-- end of the command --"


class Block(NamedTuple):
    """A fenced block: where it is, what it holds, and the marks above it."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    def marked(self, kind: str) -> list[str]:
        return [value for name, value in self.marks if name == kind]


def blocks_of(page: str, text: str) -> list[Block]:
    """The fenced blocks of a page; a fence may be indented by blanks.

    Raises:
        ValueError: a mark is unknown or gives no reason, or a fence has no language that is known.
    """
    found = []
    above: list[str] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if not (fence := re.fullmatch(r"\s*```(.*)", line)):
            above = [*above, line] if line.startswith("<!--") else []
            continue
        marks = []
        for mark in above:
            form = re.fullmatch(r"<!-- ([a-z ]+?): *(.*?) *-->", mark)
            if form is None or form[1] not in MARKS or not form[2]:
                raise ValueError(f"{page}:{number}: {mark!r} is none of {', '.join(MARKS)} with a text after the colon")
            marks.append((form[1], form[2]))
        if fence[1] not in RUN | READ:
            raise ValueError(f"{page}:{number}: {fence[1]!r} is none of {', '.join(sorted(RUN | READ))}")
        inside = []
        for _, line_inside in lines:
            if line_inside.strip() == "```":
                break
            inside.append(line_inside + "\n")
        found.append(Block(page, number, fence[1], "".join(inside), tuple(marks)))
        above = []
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page, (ROOT / page).read_text())]
TO_RUN = [block for block in BLOCKS if block.language in RUN and not block.marked("not run")]
NOT_RUN = [block for block in BLOCKS if block.language in RUN and block.marked("not run")]


def commands(block: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a console block; a command goes on after a backslash at a line's end."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    split = [re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, re.DOTALL) for part in parts]
    return [(found[1].rstrip("\n"), found[2]) for found in split if found]


def agrees(shown: str, printed: str) -> bool:
    """Whether the output is the one shown, where `...` stands for any text, and the time taken for any time."""
    shown = re.sub(r"^time .*\n", "...", shown, flags=re.MULTILINE)
    pattern = re.escape(shown).replace(r"\.\.\.\n", "(.*\n)*?").replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def assert_agrees(block: Block, command: str, shown: str, printed: str) -> None:
    assert agrees(shown, printed), f"{block.place}: $ {command}\nprints\n{printed}and not\n{shown}"


class Reader:
    """Someone who goes through a page in a folder with the project's files, and types what it shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {}  # of the Python session
        for name in ("benchmarks", "docker", "docs", "expe", "platforms", "studies", "tests", "workloads"):
            (folder / name).symlink_to((ROOT / name).resolve(strict=True))
        (folder / "cache").mkdir()
        with socket.create_server(("localhost", 0)) as free:
            self.port = str(free.getsockname()[1])

    def bring(self, log: Path) -> None:
        """Have a log of the archive at hand, in the folder and among those that were fetched."""
        for place in (self.folder, self.folder / "cache"):
            (place / log.name).symlink_to(log.resolve(strict=True))

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name != "BATSIM"},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'docs' / 'examples'}:{os.environ.get('PYTHONPATH', '')}",
            "BATSIM_PORT": self.port,
            "BATFILL_CACHE": str(self.folder / "cache"),
        }

    def here(self, lines: list[str]) -> list[tuple[int, str]] | None:
        """(exit status, what is printed) of each of these command lines, in this process; None if they need a shell.

        A process would take a second to load the engine.
        """
        if not all(PLAIN.fullmatch(line) for line in lines):
            return None
        done = []
        with patch.dict(os.environ, self.environment, clear=True), chdir(self.folder):
            for line in lines:
                printed, status = io.StringIO(), 0
                with redirect_stdout(printed), redirect_stderr(printed):
                    try:
                        main(line.split()[1:])
                    except SystemExit as ended:
                        status = int(ended.code or 0)
                done.append((status, without_compiling(printed.getvalue())))
        return done

    def bash(self, script: str) -> tuple[int, str]:
        """(exit status, what is printed) of a script; port 28000 is another that is free."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        command = ["bash", "-c", script.replace(":28000", f":{self.port}")]
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True, **streams)
        try:
            printed, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            pytest.fail(f"after {LIMIT_S} s this still runs:\n{script}\nand has printed\n{printed}")
        return process.returncode, without_compiling(printed)

    def type(self, block: Block) -> None:
        """Type what stands after the prompts, and find what follows each."""
        session = doctest.DocTestParser().get_doctest(block.text, self.names, block.place, None, None)
        report = io.StringIO()
        with chdir(self.folder):
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            failed = runner.run(session, out=report.write, clear_globs=False).failed
        self.names = session.globs
        assert not failed, f"{block.place}: {report.getvalue()}"

    def follow(self, block: Block) -> None:
        """Do what the block says, and find what it shows."""
        if block.language == "python" and block.text.startswith(">>>"):
            self.type(block)
            return
        if block.page not in AS_USERS and self.follow_here(block):
            return
        before = "".join(f"{command}\n" for command in block.marked("before"))
        if before:
            before = f"set -e\n{{\n{before}}} >/dev/null 2>&1\nset +e\n"
        if block.language == "console":
            shown = commands(block.text)
            assert shown, f"{block.place} shows no command"
            _, printed = self.bash(before + "".join(f"{command}\necho '{END}'\n" for command, _ in shown) + "wait\n")
            *outputs, rest = printed.split(f"{END}\n")
            assert len(outputs) >= len(shown), f"{block.place}: ended early, after\n{printed}"
            for (command, expected), output in zip(shown, outputs, strict=True):
                assert_agrees(block, command, expected, output)
            assert not rest, f"{block.place} prints at its end\n{rest}"
            return
        in_python = f"python -c {shlex.quote(block.text)}"
        script = in_python if block.language == "python" else f"set -euo pipefail\n{block.text}"
        status, printed = self.bash(before + script)
        assert status == 0, f"{block.place} ends with status {status} and prints\n{printed}"

    def follow_here(self, block: Block) -> bool:
        """Follow a block in this process; False if it needs a shell."""
        before = block.marked("before")
        shown = commands(block.text) if block.language == "console" else []
        lines = [line for line, _ in shown] if shown else re.sub(r" *\\\n *", " ", block.text).splitlines()
        if block.language == "python" or (done := self.here([*before, *lines])) is None:
            return False
        expected = [None] * len(before) + ([printed for _, printed in shown] or [None] * len(lines))
        for line, shows, (status, printed) in zip([*before, *lines], expected, done, strict=True):
            if shows is not None:
                assert_agrees(block, line, shows, printed)
            else:
                assert status == 0, f"{block.place}: {line} ends with status {status} and prints\n{printed}"
        return True


def without_compiling(printed: str) -> str:
    """What is printed, without the line that the first command after an installation begins with."""
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith(COMPILING))


# Pages whose commands all start as a user's do, in a shell.
AS_USERS = ("README.md",)
# A command line without the shell's syntax, of a command that starts no workers of its own.
PLAIN = re.compile(r"batfill (?!campaign|reproduce|schedule|batsim)[\w ./:,=@+-]+")
# A page whose commands on a small log are those of tutorials.
REPEATED = "docs/results/gallery.md"
# Pages whose commands take the longest.
LONG = re.compile(
    ".*/(campaigns|classification|decide|gallery|learn-a-policy|own-policy|reports|first-tries|workloads).md"
    "|docs/tutorials/slurm.md"
)
# Blocks on archive logs of these pages take long; others show the same commands on smaller ones.
ON_WHOLE_LOGS = (REPEATED, "docs/results/what-we-found.md", "docs/tutorials/paper-table.md")
RUN_PAGES = list(dict.fromkeys(block.page for block in TO_RUN if not block.marked("needs")))


def marked_pages():
    for page in RUN_PAGES:
        slow, long = [pytest.mark.slow] * bool(LONG.fullmatch(page)), [pytest.mark.long] * (page == REPEATED)
        yield pytest.param(page, marks=slow + long)


@pytest.mark.parametrize("page", [*marked_pages()])
def test_blocks_do_what_they_show(tmp_path, page):
    reader = Reader(tmp_path)
    for block in TO_RUN:
        if block.page == page and not block.marked("needs"):
            reader.follow(block)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.place, marks=[pytest.mark.long] * (block.page in ON_WHOLE_LOGS))
        for block in TO_RUN
        if block.marked("needs")
    ],
)
def test_blocks_on_logs_of_the_archive_do_what_they_show(tmp_path, archive_log, block):
    reader = Reader(tmp_path)
    for log in block.marked("needs"):
        reader.bring(archive_log(log))
    reader.follow(block)


RESULTS = ("README.md", "docs/index.md")


@pytest.mark.slow
@pytest.mark.parametrize("page", RESULTS)
def test_the_result_on_the_first_screen_is_what_replays_give(page, archive_log):
    log = archive_log("KTH-SP2-1996-2.1-cln.swf.gz")
    row = r"^\| (\**).*\(`(--.+)`\) \| (.+) \| (.+) \| (.+) \| (.+) \|$"
    rows = re.findall(row, (ROOT / page).read_text(), re.MULTILINE)
    assert len(rows) == 5
    found = [json.loads(batfill_command("replay", log, *options.split(), "--json").out) for _, options, *_ in rows]
    for figures, (_, _, mean, longest, slowdown, killed) in zip(found, rows, strict=True):
        assert duration(figures["mean_wait_s"]) == mean
        flag = "▲ " if figures["max_wait_s"] > 2 * found[0]["max_wait_s"] else ""
        assert flag + duration(figures["max_wait_s"]) == longest
        assert f"{figures['mean_bsld']:.0f}" == slowdown
        assert (percent(figures["requeued"] / figures["jobs"]) if figures["requeued"] else "0") == killed
    (bold,) = (row for row, (mark, *_) in enumerate(rows) if mark)
    able = [row for row, one in enumerate(found) if row and one["max_wait_s"] <= 1.1 * found[0]["max_wait_s"]]
    assert bold == min(able, key=lambda row: found[row]["mean_bsld"])
    answer = json.loads(batfill_command("what-if", log, "--json").out)
    assert f"advises a threshold of {answer['advice'].removeprefix('saf + ')}" in (ROOT / page).read_text()


def test_the_readme_and_the_front_page_have_the_same_result():
    tables = [re.findall(r"^\| .*(?:`--|killed).* \|$", (ROOT / page).read_text(), re.MULTILINE) for page in RESULTS]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 6


# Command lines that are not run


def simple_commands(script: str) -> list[list[str]]:
    """The words of each simple command of a script, without what is assigned before it; also of those in `$(...)`."""
    script = re.sub(r"\\\n", " ", script)
    found = []
    for text in [*script.splitlines(), *re.findall(r"\$\(([^()]*)\)", script)]:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                found.append(words)
                words = []
            elif words or not re.match(r"(do$|then$|else$|\$$|[A-Za-z_]\w*=)", word):
                words.append(word)
    return [words for words in found if words]


def is_placeholder(word: str) -> bool:
    """Whether the word stands for what a reader would give: FILE, $log, ..."""
    return re.fullmatch(r"[A-Z/_]+(\.\S+)?|\.\.\.", word) is not None or "$" in word


def standing_for_others(arguments: list[str], said: str) -> list[int]:
    """The places of the placeholders that the complaint is about."""
    places = [i for i, word in enumerate(arguments) if is_placeholder(word)]
    about = [i for i in places if f"'{arguments[i]}'" in said or (i and f"'{arguments[i - 1]}'" in said)]
    return [] if said.startswith("No such option") else about


def complaint(words: list[str], *, whole: bool) -> str | None:
    """What is wrong with a command line of `batfill` or pybatsim; None if it would be taken.

    Args:
        words: the line's, from the program's name on.
        whole: False for a mere mention, as in `batfill replay --json`, which may lack what a command needs.
    """
    if words[0] == "pybatsim":
        given = [after for word, after in pairwise(words) if word == "-o"]
        return trial(lambda: [Scheduler(json.loads(options)) for options in given])
    command: click.Command | None = app
    arguments = [word for word in words[1:] if whole or word != "..."]
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name = arguments.pop(0)
        command = command.get_command(click.Context(command), name)
        if command is None:
            return f"no command {name!r}"
    if command.name == "batsim" and whole:
        return trial(lambda: parse_batsim(arguments))
    if command.name == "schedule" and whole:
        with patch("batfill.live.serve.serve", lambda options, *_: Agent(options)):
            return trial(lambda: main(words[1:]))
    parsed: dict[str, Any] = {}
    with patch.object(command, "callback", lambda *_, **given: parsed.update(given)):
        more = {"prog_name": words[0], "standalone_mode": False, **app.context_settings}  # a command keeps its options
        while said := trial(lambda: command.main(list(arguments), **more)):
            if not whole and ("requires an argument" in said or said.startswith("Missing ")):
                break
            if not (given := standing_for_others(arguments, said)):
                return said
            i = given[0]
            del arguments[i - 1 if i and arguments[i - 1].startswith("-") else i : i + 1]
    names = [name for name in parsed.get("names") or [] if not is_placeholder(name)]
    if command.name == "replay":
        options = {name: parsed.get(name.replace("-", "_")) for name in NAMES}
        stated = {name: value for name, value in options.items() if value is not None}
        plain = {name: value for name, value in stated.items() if not is_placeholder(str(value))}
        return trial(lambda: Options.of(plain))
    if command.name == "reproduce":
        return trial(lambda: entries_named(protocols(), names))
    if command.name == "fetch":
        return trial(lambda: [known_log(name) for name in names])
    return None


@cache
def protocols() -> dict[str, Any]:
    """The papers' protocols, which take long to read."""
    return read_protocols(folder_of_protocols(None))


def trial(call: Callable[[], object]) -> str | None:
    """What the call says against what it is given, in a line; None if it takes it."""
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            call()
    except SystemExit as ended:
        return " ".join(said.getvalue().split()) if ended.code else None
    except click.ClickException as error:
        return " ".join(error.format_message().split())
    except BatfillError as error:
        return str(error)
    return None


def mentions(page: str) -> list[str]:
    """What a page's text has in typewriter letters, outside of blocks."""
    text = re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


def test_command_lines_that_are_not_run_would_be_taken():
    lines = [(block.place, words, True) for block in NOT_RUN for words in script_of(block)]
    spans = [(page, span) for page in PAGES for span in mentions(page) if re.search("batfill[ /]", span)]
    lines += [(f"{page}: `{span}`", words, False) for page, span in spans for words in simple_commands(span)]
    wrong = [
        f"{place}: {shlex.join(words)}: {said}"
        for place, words, whole in lines
        if words[0] in ("batfill", "pybatsim") and (said := complaint(words, whole=whole))
    ]
    assert not wrong, "\n".join(wrong)


def script_of(block: Block) -> list[list[str]]:
    """The simple commands of a block that is not run."""
    text = "\n".join(command for command, _ in commands(block.text)) if block.language == "console" else block.text
    return simple_commands(text)


# Blocks that are read


FILES = [block for block in BLOCKS if block.language in ("yaml", "json")]


def test_descriptors_and_campaigns_are_taken_by_their_readers(tmp_path):
    path = tmp_path / "shown.yaml"
    for block in FILES:
        path.write_text(block.text)
        if block.language == "json":
            json.loads(block.text)
        elif "batcmd:" in block.text:
            assert read_descriptor(path).notes == ()
        else:  # a campaign, or a section that is added to one
            if "workloads:" not in block.text:
                path.write_text(f"workloads: [{{file: w.swf}}]\npolicies: [fcfs]\n{block.text}")
            read_campaign(path)


NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_print_what_they_show(tmp_path, path):
    """If not, `python tests/notebook.py FILE` stores what they print now."""
    pytest.importorskip("gymnasium", reason="needs the extra rl")
    cells = notebook.read(path)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    for cell, printed in zip(code, notebook.printed(cells, notebook.folder_like(path, tmp_path)), strict=True):
        shown = notebook.shown(cell)
        assert agrees(shown, printed), f"{path.name}:\n{''.join(cell['source'])}\nprints\n{printed}and not\n{shown}"


def assert_has_table(page, columns, rows):
    """The page has this table, the first column in typewriter letters."""
    lines = [columns, ["---"] * len(columns), *((f"`{name}`", *others) for name, *others in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    assert table in (ROOT / "docs" / "reference" / page).read_text(), f"the table is now\n{table}"


def test_the_table_of_policies_is_the_one_that_the_command_prints():
    columns = ("name", "formula", "order", "source")
    rows = [[row[column] for column in columns] for row in listing()]
    assert_has_table("policies.md", ("name", "key", "order", "source"), rows)


@pytest.mark.parametrize("features", [FEATURES_OF_JOB, FEATURES_OF_CLUSTER], ids=["job", "cluster"])
def test_the_tables_of_features_are_those_that_agents_see(features):
    assert_has_table("environments.md", ("feature", "value"), features.items())


def conditions(need):
    return f"`{need.option}` {' or '.join(map(word, need.values))}".rstrip()


def word(value):
    return str(value).lower() if isinstance(value, bool) else f"`{value}`"


COMMANDS = {name: OPTIONS[name] for name in NAMES}


@pytest.mark.parametrize(
    "options", [COMMANDS, STUDIED, LIVE, SELECTION], ids=["scheduler", "studies", "live", "selection"]
)
def test_the_table_of_options_is_the_one_that_every_host_reads(options):
    rows = []
    for option in options.values():
        usual = "none" if option.default is None else word(option.default)
        needs = " and ".join(conditions(need) for need in option.needs)
        rows.append((option.name, option.kind.value, usual, needs, option.help))
    assert_has_table("options.md", ("name", "value", "default", "with", "meaning"), rows)


def test_names_of_the_python_reference_are_there():
    pages = (ROOT / "docs/reference/python").glob("*.md")
    names = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    assert len(names) > 20
    for module, _, name in (name.rpartition(".") for name in names):
        assert getattr(import_module(module), name).__doc__, f"{module}.{name}"
    public = {".".join(place) for name, place in PLACES.items() if callable(getattr(batfill, name))}
    assert public <= set(names), "every public name has a section"


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the site and the forge make them, and those that it sets itself."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    words = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    made = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each)) for each in words}
    return made | set(re.findall(r'id="([^"]*)"', text))


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        here = ROOT / page
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", here.read_text()):
            there = here.parent / target if target else here
            assert there.exists(), f"{page}: {target}"
            if anchor and there.suffix == ".md":
                assert anchor in anchors(there.read_text()), f"{page}: {target}#{anchor}"


def test_what_a_reader_runs_listens_on_this_machine_alone():
    descriptors = [*(ROOT / "expe").glob("*.yaml"), *(ROOT / "docs/examples").glob("*.yaml")]
    assert len(descriptors) > 5
    assert [path for path in descriptors if "tcp://127.0.0.1:" not in path.read_text()] == []
    pages = {page for page in PAGES if "tcp://*" in (ROOT / page).read_text()}
    assert pages == {"docs/how-to/batsim-study.md", "docs/how-to/running.md"}  # which warn of it
