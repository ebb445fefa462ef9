"""The documentation says what is true: its examples run, and print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from batfill.options import NAMES
from batfill.policies import listing
from command import COMPILING

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/campaigns.md",
    "docs/export-config.md",
    "docs/options.md",
    "docs/policies.md",
    "docs/writing-a-policy.md",
]
LIMIT_S = 120


def blocks(page, language):
    """The fenced blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def commands(block):
    """(command, what it prints) of a console block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [tuple(part.split("\n", 1)) for part in parts]


def agrees(shown, printed):
    """Whether the output is the one shown, where `...` stands for any text, and the time taken for any time."""
    shown = re.sub(r"^time .*\n", "...", shown, flags=re.MULTILINE)
    return re.fullmatch(re.escape(shown).replace(r"\.\.\.\n", "(.*\n)*?").replace(r"\.\.\.", ".*"), printed, re.DOTALL)


@pytest.fixture
def reader(tmp_path):
    """A function from a command to what it prints where a reader runs it: in a folder with the project's files."""
    for name in ("docs", "expe", "platforms", "workloads"):
        (tmp_path / name).symlink_to(ROOT / name)
    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(command):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "BATSIM_PORT": port},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
        return "".join(line for line in done.stdout.splitlines(keepends=True) if not line.startswith(COMPILING))

    return run


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_is_shown(reader, page):
    shown = [command for block in blocks(page, "console") for command in commands(block)]
    assert shown
    for command, expected in shown:
        printed = reader(command)
        assert agrees(expected, printed), f"$ {command}\nprints\n{printed}and not\n{expected}"


def test_a_different_figure_would_be_noticed():
    assert agrees("mean 7.1 s\n...\nend ... of it\n", "mean 7.1 s\nmore\nand more\nend 3 of it\n")
    assert not agrees("mean 7.1 s\n", "mean 7.2 s\n")
    assert not agrees("mean 7.1 s\n", "mean 7.1 s\nmore\n")


def policy_table():
    rows = [("name", "key", "order", "source"), ("---",) * 4]
    rows += [(f"`{row['name']}`", row["formula"], row["order"], row["source"]) for row in listing()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_table_of_policies_is_the_one_that_the_command_prints():
    assert policy_table() in (ROOT / "docs" / "policies.md").read_text(), f"the table is now\n{policy_table()}"


def test_every_option_of_the_scheduler_is_documented():
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert [name for name in NAMES if f"\n| `{name}` |" not in pages] == []


@pytest.mark.parametrize("example", ["frugal.py", "compare.py"])
def test_examples_are_shown_as_they_are(example):
    assert (ROOT / "docs" / "examples" / example).read_text() in blocks("docs/writing-a-policy.md", "python")


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_commands_in_the_documentation_are_known():
    """Also those in blocks that are not run, as they need Batsim, robin or the network."""
    from batfill.cli.app import COMMANDS

    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in blocks(page.relative_to(ROOT), "(?:console|sh)"):
            for line in block.splitlines():
                words = (
                    shlex.split(line.removeprefix("$ "), comments=True) if line.startswith(("$ ", "batfill")) else []
                )
                for word, after in pairwise(words):
                    if word == "batfill" and not after.startswith("-"):
                        assert after in COMMANDS, f"{page.name}: {line}"
