"""How large each house may be: a number falls with what goes, and rises only in a commit that says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = {".py", ".pyi", ".js", ".css", ".html", ".j2"}
LINES = {
    "schedulers/batfill": 27_320,
    "schedulers/batfill_site": 13_890,
    "schedulers/batfill_lab": 5_600,
    "schedulers/batfill_pages": 5_800,
    "tests": 35_870,
}
FUNCTIONS = 2_950  # in the four houses
WORDS = 54_990  # of README, guides, reference and results, without the background


def code_of(house):
    """The source files of a house, without data."""
    return [
        path
        for path in (ROOT / house).rglob("*")
        if path.suffix in CODE and path.is_file() and not {"data", "__pycache__"} & set(path.relative_to(ROOT).parts)
    ]


@pytest.mark.parametrize("house", LINES)
def test_a_house_has_at_most_so_many_lines(house):
    lines = sum(len(path.read_text().splitlines()) for path in code_of(house))
    assert LINES[house] - 100 <= lines <= LINES[house]  # a number that has become too large is lowered


def test_the_houses_have_at_most_so_many_functions():
    houses = [path for house in LINES if house != "tests" for path in code_of(house) if path.suffix == ".py"]
    n = sum(len(re.findall(r"^\s*(?:async )?def ", path.read_text(), re.MULTILINE)) for path in houses)
    assert FUNCTIONS - 50 <= n <= FUNCTIONS


def test_the_documentation_has_at_most_so_many_words():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    counted = [page for page in pages if not {"background", "paper", "site"} & set(page.relative_to(ROOT).parts)]
    assert sum(len(page.read_text().split()) for page in counted) <= WORDS
